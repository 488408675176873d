//! Implements the bumped ribbon filter. With eight columns and 4,096 keys or more, the payload
//! takes on average less than 1 % more space than the FPR lower bound. With eight columns, a query
//! usually reads one byte of bump bits and two adjacent cache lines.
//!
//! ```text
//! hash ──reduce, clamp──▶ start s          sorted hashes give sorted starts, so a build reads its keys in order
//!      ──coefficients───▶ 64 bits c        which of the 64 slots from s on are used
//!      ──fingerprint────▶ r bits f         the right-hand side:  XOR of slot[s + j] over the set bits j of c = f
//! ```
//! A slot has `r` bits, so the equation of an absent key holds with probability `2^-r`. To find the
//! slots, a build solves one linear equation per key over GF(2) (Dillinger, Walzer, "Ribbon filter:
//! practically smaller than Bloom and Xor", 2021).
//!
//! A layer has fewer slots than keys, so hardly any slot stays unused. If a key's equation does not
//! fit, the key is *bumped* to the next layer, which is smaller and has the same form. A bucket of
//! 128 starts bumps whole classes of keys: the class of the key, and the classes with smaller
//! starts. Two bits per bucket tell the reader which classes were bumped (Dillinger,
//! Hübschle-Schneider, Sanders, Walzer, "Fast succinct retrieval and approximate membership using
//! ribbon", 2022). The keys that the last layer bumps go into a single system with about one spare
//! slot in a hundred ([`small`]). A filter of few keys has only a single system.
//!
//! ```text
//! payload  | columns 0..8 of layer 0 | of layer 1 | .. | of the system | bumps of layer 0 | 1 | .. | columns 8..16 of layer 0 | ..
//! columns  | block 0: one word of 64 slots per column | block 1 | ..
//! ```
//! A block of eight columns is a cache line. Columns are stored in groups of eight, one group after
//! the other. A query of an absent key reads the second group only once in 256 times. In the last
//! group, the first `fewer` blocks of a layer or system have one column less, which gives FPRs
//! between the powers of two.

mod band;
mod batch;
mod build;
mod equation;
mod flat;
mod hashes;
#[cfg(test)]
mod hashes_tests;
mod inline;
mod layer;
mod plan;
mod queries;
mod read;
mod shrink;
#[cfg(test)]
mod shrink_tests;
mod small;
mod solve;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use flat::{Flat, FlatQuery, Form, Groups, Lines, Words};
pub(super) use inline::Unread;
use read::Geometry;

use super::build::{Effort, Header};
use super::filter::{Budget, Built, Compiled, Filter, Info, Planned, TOO_LARGE_FOR_MEMORY};
use super::math;
use crate::error::Result;
use crate::hash::KeyHash;
use crate::simd::Isa;
use crate::simd::NoMemory;

pub(crate) struct BumpedRibbon;

/// The parameters of a filter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Params {
    /// The parameters that most queries need, if they have a [`Form`].
    flat: Option<Flat>,
    whole: Arc<Geometry>,
}

impl From<Geometry> for Params {
    fn from(whole: Geometry) -> Self {
        Self { flat: whole.flat(), whole: Arc::new(whole) }
    }
}

impl Filter for BumpedRibbon {
    type Params = Params;

    const INFO: Info = Info {
        name: "bumped-ribbon",
        description: "one linear equation per key; bumped keys are in later layers or in the single system",
        example_bits: 7.0,
        lowest_rate: "the lowest FPR of bumped-ribbon is 2.4e-10, with 32 columns; use bloom (2.8e-11 at the lowest)",
        has_compact_build: true,
        ..Info::COMMON
    };

    /// Returns `2^-b` for `b` bits per key, of which at most 32 count.
    fn rate_of_many(millibits: u32) -> f64 {
        (-f64::from(millibits.min(MAX_COLUMNS * 1000)) / 1000.0).exp2()
    }

    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        plan::planned(budget, num_keys).ok_or(TOO_LARGE_FOR_MEMORY)
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], effort: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        build::build(budget, hashes, effort)
    }

    fn parse(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<Params> {
        Geometry::new(header, num_keys, len_bytes).map(Params::from)
    }

    fn expected_fpr(params: &Params, num_keys: u64, _: u64) -> f64 {
        math::with_equal_hashes(params.whole.expected_fpr(), num_keys)
    }

    fn probes(params: &Params) -> u32 {
        params.whole.columns.all
    }

    fn describe(params: &Params, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", params.whole)
    }

    fn columns(params: &Params) -> Option<u32> {
        Some(params.whole.columns.all)
    }

    fn asked_len(params: &Params, len: usize) -> usize {
        params.whole.payload_len.min(len)
    }

    fn with_columns(params: &Params, columns: u32) -> Option<Params> {
        params.whole.with_columns(columns).map(Params::from)
    }

    fn copy_columns(
        params: &Params,
        header: &Header<'_>,
        payload: &[u8],
        to: &Params,
    ) -> Result<(Header<'static>, Vec<u8>)> {
        let copy = params.whole.copy_columns(payload, &to.whole)?;
        Ok((to.whole.header_like(header), copy))
    }

    fn compile<C: Compiled>(params: &Params, isa: Isa) -> C {
        match params.flat.map(Flat::form) {
            Some(Form::Lines) => C::of::<FlatQuery<Lines>>(isa),
            Some(Form::Words) => C::of::<FlatQuery<Words>>(isa),
            Some(Form::Groups) => C::of::<FlatQuery<Groups>>(isa),
            None => C::of::<Self>(isa),
        }
    }

    #[inline]
    fn is_proven(
        params: &Params,
        padded: &[u8],
        _: usize,
        hash: KeyHash,
        is_valid: impl Fn(usize, usize) -> bool,
    ) -> bool {
        params.whole.is_proven(padded, hash, is_valid)
    }
}

/// The number of slots of a block. Their bits of one column form a word.
const BLOCK_SLOTS: usize = 64;
/// The number of columns of a group.
const GROUP_COLUMNS: u32 = 8;
/// The maximum number of columns, which is the number of bits of the fingerprint.
const MAX_COLUMNS: u32 = 32;
/// The number of starts of a bucket. They share a threshold below which keys were bumped.
const BUCKET_STARTS: usize = 128;
/// The numbers of extra starts before the first start and after the last start. A key with an extra
/// start gets the first or the last start. Fewer keys reach the slots at both ends, so without the
/// extra starts more of these slots stay empty. With 4,096 keys, the extra starts lower the share
/// of empty slots from 0.67 % to 0.33 % (docs/DESIGN.md, "clamped starts").
const LEFT: u64 = 24;
const RIGHT: u64 = 16;
/// The thresholds of a bucket. If the two bits of the bucket are `b`, the bucket bumped all keys
/// whose start lies less than `THRESHOLDS[b]` above its first start.
///
/// Keys with small starts are bumped first: if the bucket before is full, its equations move on to
/// the first slots of this bucket.
const THRESHOLDS: [u8; 4] = [128, 34, 15, 0];
const _: () = assert!(THRESHOLDS[0] as usize == BUCKET_STARTS, "threshold 0 must bump the whole bucket");
