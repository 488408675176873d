//! Implements the filters without bits: `empty` always answers "absent", and `always-maybe` always
//! answers "maybe".

use super::FilterKind;
use super::build::{Effort, Header};
use super::filter::{Budget, Budgets, Built, Filter, Info, Planned, Query};
use crate::error::{Error, Field, Result};
use crate::hash::KeyHash;
use crate::simd::NoMemory;
use crate::simd::Simd;

/// A filter that answers every query with "maybe" if `MAYBE`, and with "absent" otherwise.
pub(crate) struct Constant<const MAYBE: bool>;

impl<const MAYBE: bool> Filter for Constant<MAYBE> {
    type Params = ();

    const INFO: Info = Info {
        name: if MAYBE { "always-maybe" } else { "empty" },
        description: if MAYBE { "always maybe" } else { "no keys: always absent" },
        budgets: Budgets::None,
        has_compact_form: true,
        ..Info::COMMON
    };
    const HAS_VECTOR_CODE: bool = false;

    fn rate_of_many(_: u32) -> f64 {
        1.0
    }

    fn plan(_: Budget, _: u64) -> std::result::Result<Planned, &'static str> {
        Ok(Planned::in_one_line(0, 1.0, 0))
    }

    fn build(_: Budget, hashes: &mut [KeyHash], _: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        // An empty filter over keys would answer "absent" for present keys.
        let header =
            if MAYBE || !hashes.is_empty() { Header::ALWAYS_MAYBE } else { Header::plain(FilterKind::Empty, 0) };
        Ok(Some((header, Vec::new())))
    }

    fn parse(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<()> {
        match (header.params, header.record.as_ref(), len_bytes, MAYBE || num_keys == 0) {
            ([0, 0, 0], [], 0, true) => Ok(()),
            ([0, 0, 0], [], 0, false) => Err(Error::corrupt(Field::NumKeys)),
            ([0, 0, 0], [], ..) => Err(Error::corrupt(Field::PayloadLen)),
            _ => Err(Error::corrupt(Field::Params)),
        }
    }

    fn expected_fpr((): &(), _: u64, _: u64) -> f64 {
        if MAYBE { 1.0 } else { 0.0 }
    }

    fn probes((): &()) -> u32 {
        0
    }

    fn estimated_keys((): &(), _: u64, _: u64) -> Option<f64> {
        if MAYBE { None } else { Some(0.0) }
    }

    /// No answer rests on a byte of the payload, because there are none.
    fn is_proven((): &(), _: &[u8], _: usize, _: KeyHash, _: impl Fn(usize, usize) -> bool) -> bool {
        true
    }
}

impl<const MAYBE: bool> Query for Constant<MAYBE> {
    type Filter = Self;

    #[inline(always)]
    fn may_contain(_: impl Simd, (): &(), _: &[u8], _: usize, _: KeyHash) -> bool {
        MAYBE
    }

    #[inline(always)]
    fn prefetch((): &(), _: &[u8], _: usize, _: KeyHash) {}
}
