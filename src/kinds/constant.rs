//! Implements the filters without bits: `empty` always answers "absent", and `always-maybe` always
//! answers "maybe".

use super::contract::{Budget, Budgets, Built, Kind, Planned};
use super::guard::Guard;
use super::kind::FilterKind;
use super::query::Query;
use super::shape::{Effort, Shape};
use crate::bits::NoMemory;
use crate::error::{Error, Field, Result};
use crate::hash::KeyHash;
use crate::simd::Simd;

pub(super) struct Empty;
pub(super) struct AlwaysMaybe;

/// The reason why no FPR can be requested.
const NO_BUDGET: &str = "the kind takes no budget; leave out the bits per key or the FPR";

fn check_shape(shape: &Shape, len_bytes: u64) -> Result<()> {
    let corrupt = |field| Err(Error::Corrupt { field, offset: 0 });
    if shape.params != [0; 3] || !shape.layers.is_empty() {
        return corrupt(Field::Params);
    }
    if len_bytes == 0 { Ok(()) } else { corrupt(Field::PayloadLen) }
}

impl Kind for Empty {
    type Geometry = ();
    const BUDGETS: Budgets = Budgets::None;
    const LOWEST_RATE: &'static str = NO_BUDGET;
    const HAS_COMPACT: bool = false;

    fn rate_of_many(_: u32) -> f64 {
        1.0
    }

    fn plan(_: Budget, _: u64) -> std::result::Result<Planned, &'static str> {
        Ok(Planned::in_one_line(0, 1.0, 0))
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], effort: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        // An empty filter over keys would answer "absent" for present keys.
        if hashes.is_empty() {
            return Ok(Some((Shape::plain(FilterKind::Empty, 0), Vec::new())));
        }
        AlwaysMaybe::build(budget, hashes, effort)
    }

    fn fallback_rate(_: Budget) -> Option<f64> {
        None
    }

    fn parse(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<()> {
        check_shape(shape, len_bytes)?;
        if num_keys == 0 { Ok(()) } else { Err(Error::Corrupt { field: Field::NumKeys, offset: 0 }) }
    }
}

impl Kind for AlwaysMaybe {
    type Geometry = ();
    const BUDGETS: Budgets = Budgets::None;
    const LOWEST_RATE: &'static str = NO_BUDGET;
    const HAS_COMPACT: bool = false;

    fn rate_of_many(_: u32) -> f64 {
        1.0
    }

    fn plan(_: Budget, _: u64) -> std::result::Result<Planned, &'static str> {
        Ok(Planned::in_one_line(0, 1.0, 0))
    }

    fn build(_: Budget, _: &mut [KeyHash], _: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        Ok(Some((Shape::ALWAYS_MAYBE, Vec::new())))
    }

    fn fallback_rate(_: Budget) -> Option<f64> {
        None
    }

    fn parse(shape: &Shape, _: u64, len_bytes: u64) -> Result<()> {
        check_shape(shape, len_bytes)
    }
}

impl Query for Empty {
    type Asked<'a> = ();

    #[inline(always)]
    fn may_contain(_: impl Simd, (): (), _: &[u8], _: usize, _: KeyHash) -> bool {
        false
    }

    #[inline(always)]
    fn prefetch((): (), _: &[u8], _: usize, _: KeyHash) {}

    #[inline]
    fn may_contain_guarded(ask: impl FnOnce() -> bool, (): (), _: &[u8], _: usize, _: KeyHash, _: &impl Guard) -> bool {
        ask()
    }
}

impl Query for AlwaysMaybe {
    type Asked<'a> = ();

    #[inline(always)]
    fn may_contain(_: impl Simd, (): (), _: &[u8], _: usize, _: KeyHash) -> bool {
        true
    }

    #[inline(always)]
    fn prefetch((): (), _: &[u8], _: usize, _: KeyHash) {}

    #[inline]
    fn may_contain_guarded(ask: impl FnOnce() -> bool, (): (), _: &[u8], _: usize, _: KeyHash, _: &impl Guard) -> bool {
        ask()
    }
}
