//! Implements the standard ribbon filter with rows of 128 bits (Dillinger and Walzer, "Ribbon
//! filter: practically smaller than Bloom and xor", 2021). One linear system over GF(2) holds all
//! keys.
//!
//! ```text
//! hash ──reduce──▶ start s         in hash order: sorted hashes are banded front to back
//!      ──mix─────▶ 128 coefficients, the first of them 1; a fingerprint with one bit per column
//!
//! the system:  for each key and column, the coefficients select bits of slots s .. s + 127; their XOR is the fingerprint's bit
//! the payload: blocks of 128 slots, one 128-bit word per column; a query reads one or two adjacent blocks
//! ```
//! If the first seed succeeds, a filter of up to 16 thousand keys takes 2.4 % more space than its
//! fingerprints, rounded up to whole blocks. Each further doubling of the keys adds 0.38 percentage
//! points. This kind is a baseline. [`super::bumped_ribbon`] needs fewer spare slots.
//!
//! Budgets may lie between whole columns: the first `narrow` blocks have one column less, so that
//! nearly the whole budget is used. A key is tested in the columns of the block in which it starts,
//! and no block has fewer columns than the one before.

use std::fmt;
use std::sync::Arc;

use super::build::{Effort, Header, zeros};
use super::filter::{Budget, Budgets, Built, Filter, Info, Planned, Query, TOO_LARGE, payload_of};
use super::math::{lines_of, pair_lines};
use super::{FilterKind, math};
use crate::codec::{Cursor, put_varint};
use crate::error::{Error, Field, Result};
use crate::hash::KeyHash;
use crate::simd::ribbon::{self, Layout, MAX_COLUMNS, SMASH, WIDTH, WORD_LEN_BYTES};
use crate::simd::{NoMemory, Simd, prefetch};

pub(crate) struct Ribbon;

impl Filter for Ribbon {
    type Params = Arc<Layout>;

    const INFO: Info = Info {
        name: "ribbon",
        description: "one linear equation of 128 coefficients per key",
        // A fingerprint has 32 bits, so there are at most 32 columns.
        budgets: Budgets::UpTo(MAX_COLUMNS * 1000),
        example_bits: 7.0,
        lowest_rate: "the lowest FPR of ribbon is 2.4e-10, with 32 columns; use bloom (2.8e-11 at the lowest)",
        ..Info::COMMON
    };

    /// Returns `2^-b` for `b` bits per key, of which at most 32 count. The spare slots do not
    /// count, because their share depends on the number of keys.
    fn rate_of_many(millibits: u32) -> f64 {
        (-f64::from(millibits.min(MAX_COLUMNS * 1000)) / 1000.0).exp2()
    }

    /// Plans the filter that results if the first seed succeeds.
    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        let layout = layouts(budget, num_keys).next().ok_or(TOO_LARGE)?;
        let len_bytes = layout.words().checked_mul(WORD_LEN_BYTES as u64).ok_or(TOO_LARGE)?;
        // A query reads all columns of two blocks, or rarely of one.
        let columns = layout.words() as f64 / layout.blocks as f64;
        let lines = pair_lines(columns, WORD_LEN_BYTES as u64).min(lines_of(len_bytes));
        Ok(Planned {
            len_bytes,
            record_len_bytes: record(&layout).len(),
            rate: math::with_equal_hashes(expected_fpr(&layout), num_keys),
            probes: layout.columns,
            lines_if_absent: lines,
            lines_if_present: lines,
        })
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], _: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        for layout in layouts(budget, hashes.len() as u64) {
            if let Some(payload) = build(&layout, hashes)? {
                #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
                let params = [layout.columns as u8, layout.seed, 0];
                let header = Header { kind: FilterKind::Ribbon, params, record: record(&layout).into() };
                return Ok(Some((header, payload)));
            }
        }
        Ok(None)
    }

    fn fallback_rate(budget: Budget) -> Option<f64> {
        Some(budget.rate.unwrap_or_else(|| (-f64::from(budget.millibits) / 1000.0).exp2()))
    }

    fn parse(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<Arc<Layout>> {
        parse(header.params, &header.record, num_keys, len_bytes).map(Arc::new)
    }

    fn expected_fpr(ribbon: &Arc<Layout>, num_keys: u64, _: u64) -> f64 {
        math::with_equal_hashes(expected_fpr(ribbon), num_keys)
    }

    fn probes(ribbon: &Arc<Layout>) -> u32 {
        ribbon.columns
    }

    fn describe(ribbon: &Arc<Layout>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Layout { columns, narrow, blocks, seed } = **ribbon;
        write!(f, "columns: {columns}, seed {seed}; {blocks} blocks of {WIDTH} slots, {narrow} with one column less")
    }

    #[inline]
    fn is_proven(
        ribbon: &Arc<Layout>,
        _: &[u8],
        _: usize,
        hash: KeyHash,
        is_valid: impl Fn(usize, usize) -> bool,
    ) -> bool {
        // The words of the second block follow those of the first, or are the same words.
        let [first, second] = ribbon.blocks_of(ribbon.start(hash.raw()));
        is_valid(first.start, second.end - first.start)
    }
}

impl Query for Ribbon {
    type Filter = Self;

    /// Returns whether a key's row gives its fingerprint. Returns `true` if the payload is too
    /// short.
    #[inline(always)]
    fn may_contain(simd: impl Simd, ribbon: &Arc<Layout>, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        ribbon.holds(simd, payload_of(padded, len), &ribbon.row(hash.raw()))
    }

    #[inline(always)]
    fn prefetch(ribbon: &Arc<Layout>, padded: &[u8], _: usize, hash: KeyHash) {
        prefetch(padded, ribbon.block(ribbon.start(hash.raw()) / WIDTH).0);
    }
}

/// Reads the parameters (columns, seed, 0) of a header, and the number of blocks from its
/// record.
pub(super) fn parse(params: [u8; 3], record: &[u8], num_keys: u64, len_bytes: u64) -> Result<Layout> {
    let [columns, seed, reserved] = params;
    let columns = u32::from(columns);
    if !(1..=MAX_COLUMNS).contains(&columns) || reserved != 0 {
        return Err(Error::corrupt(Field::Params));
    }
    let mut record = Cursor::new(record, 0);
    let blocks = record.take_varint(Field::Extension)?;
    // A number of blocks is valid if its slots can be counted in 63 bits. The check of the
    // payload's length limits the number further.
    if !record.is_empty() || !(1..=u64::MAX / WIDTH / 2).contains(&blocks) {
        return Err(Error::corrupt(Field::Extension));
    }
    let words = len_bytes / WORD_LEN_BYTES as u64;
    let narrow = blocks.checked_mul(columns.into()).and_then(|all| all.checked_sub(words));
    let narrow = narrow.filter(|&narrow| narrow < blocks && (columns > 1 || narrow == 0));
    let Some(narrow) = narrow.filter(|_| len_bytes.is_multiple_of(WORD_LEN_BYTES as u64)) else {
        return Err(Error::corrupt(Field::PayloadLen));
    };
    if !(1..=blocks * WIDTH).contains(&num_keys) {
        return Err(Error::corrupt(Field::NumKeys));
    }
    Ok(Layout { columns, narrow, blocks, seed })
}

/// Returns the expected FPR. Each column halves the FPR, and keys that start in narrow blocks
/// have one column less.
fn expected_fpr(layout: &Layout) -> f64 {
    let in_narrow = if layout.narrow == 0 { 0.0 } else { (layout.narrow * WIDTH + SMASH) as f64 };
    let share = in_narrow / (layout.starts() + 2 * SMASH) as f64;
    (1.0 + share) * (-f64::from(layout.columns)).exp2()
}

/// Returns the layouts that a build tries, in this order.
fn layouts(budget: Budget, num_keys: u64) -> impl Iterator<Item = Layout> {
    ribbon::systems(num_keys).map(move |layout| match budget.rate {
        Some(rate) => of_rate(layout, rate),
        None => of_size(layout, u128::from(num_keys) * u128::from(budget.millibits)),
    })
}

/// Returns the layout with as many columns as `millibits` thousandths of a bit in total allow.
/// The number of columns is 1 to [`MAX_COLUMNS`].
fn of_size(layout: Layout, millibits: u128) -> Layout {
    let blocks = layout.blocks;
    let words = u64::try_from(millibits / (1000 * u128::from(WIDTH))).unwrap_or(u64::MAX);
    let words = words.clamp(blocks, blocks.saturating_mul(MAX_COLUMNS.into()));
    let columns = words.div_ceil(blocks);
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_COLUMNS")]
    Layout { columns: columns as u32, narrow: columns * blocks - words, ..layout }
}

/// Returns the layout with the fewest columns whose FPR is at most `rate`, and with as many
/// narrow blocks as `rate` allows. With one column, no block is narrow. `rate` must be at least
/// 2^-32.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the values are clamped")]
fn of_rate(layout: Layout, rate: f64) -> Layout {
    let (columns, least) = math::columns_of_rate(rate, MAX_COLUMNS);
    // The share of keys that may have one column less: see Layout::expected_fpr.
    let share = (rate / least - 1.0).clamp(0.0, 1.0);
    let starts = layout.starts();
    let narrow = (share * (starts + 2 * SMASH) as f64 - SMASH as f64) / WIDTH as f64;
    // For a share of 1, this is `blocks - 0.74`, which rounds down to all blocks but one.
    let narrow = if columns > 1 { narrow.max(0.0) as u64 } else { 0 };
    Layout { columns, narrow, ..layout }
}

/// Builds the payload of distinct, sorted `hashes`. Returns `None` if the system has no solution.
fn build(layout: &Layout, hashes: &[KeyHash]) -> Result<Option<Vec<u8>>, NoMemory> {
    ribbon::solve(layout, hashes.iter().map(|hash| layout.row(hash.raw())), zeros)
}

fn record(layout: &Layout) -> Vec<u8> {
    let mut layers = Vec::new();
    put_varint(&mut layers, layout.blocks);
    layers
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use super::*;
    use crate::FilterSpec;
    use crate::filters::tests::{encode, hashes_of_set};
    use crate::simd::Portable;

    #[test]
    fn first_tries_mostly_succeed_within_five_per_cent_of_space() {
        for (n, sets) in [(300, 60), (1_000, 60), (5_000, 30), (20_000, 10), (100_000, 4)] {
            let mut tries = 0;
            for set in 0..sets {
                let (header, payload) = encode("ribbon:fpr=0.00390625", &hashes_of_set(n, set));
                assert_eq!(header.kind, FilterKind::Ribbon);
                tries += u64::from(header.params[1]) + 1;
                // An FPR of 1/256 takes 8 bits per key, and rounding up takes at most one block of 128
                // slots.
                let least = (n * 8) as f64;
                assert!(payload.len() as f64 * 8.0 <= least * 1.05 + 1024.0, "{n} keys: {} bytes", payload.len());
            }
            assert!(tries <= sets + sets.div_ceil(4), "{n} keys: {tries} tries for {sets} sets");
        }
    }

    #[test]
    fn crowded_hashes_get_the_fallback() {
        for text in ["ribbon:8", "ribbon:fpr=0.001", "ribbon:32", "ribbon:fpr=0.0000000003"] {
            let hashes: Vec<_> = (0..5_000).map(KeyHash::from_raw).collect();
            let spec: FilterSpec = text.parse().unwrap();
            let (header, payload) = encode(text, &hashes);
            // Blocked Bloom filters cannot reach an FPR of 0.0000000003.
            let is_too_low = spec.budget().rate.is_some_and(|rate| rate < 1e-9);
            assert_eq!(header.kind, if is_too_low { FilterKind::Bloom } else { FilterKind::BlockedBloom }, "{text}");
            // The fallback has the ribbon's expected FPR if it can reach this FPR. Otherwise it has the
            // ribbon's 32 bits per key.
            let layout = crate::filters::Params::new(&header, 5_000, payload.len() as u64).unwrap();
            let (rate, wanted) = (layout.expected_fpr(5_000, payload.len() as u64), spec.expected_fpr());
            let bits = payload.len() as f64 * 8.0 / 5_000.0;
            assert!(
                (0.9..1.01).contains(&(rate / wanted)) || (bits - 32.0).abs() < 0.1,
                "{text}: {rate} for {wanted}, {bits} bits"
            );
        }
    }

    #[test]
    fn invalid_shapes_are_rejected() {
        let (header, payload) = encode("ribbon:7.5", &hashes_of_set(1_000, 0));
        let (len, open) = (payload.len() as u64, |header: &Header<'_>, n, len| Ribbon::parse(header, n, len));
        let whole = open(&header, 1_000, len).unwrap();
        // If all blocks lack the last column, the number of columns is wrong.
        assert!(open(&header, 1_000, whole.blocks * u64::from(whole.columns - 1) * 16).is_err());
        for (n, len) in
            [(0, len), (u64::MAX, len), (1_000, 0), (1_000, len - 1), (1_000, len - 16 * 9), (1_000, len * 2)]
        {
            assert!(open(&header, n, len).is_err(), "{n} keys in {len} bytes");
        }
        for params in [[0, 0, 0], [33, 0, 0], [8, 0, 1], [255, 255, 255], [1, 0, 0]] {
            assert!(open(&Header { params, ..header.clone() }, 1_000, len).is_err(), "{params:?}");
        }
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        for layers in [&[][..], &[0], &[9, 0], &[0x80], &most] {
            assert!(open(&Header { record: layers.into(), ..header.clone() }, 1_000, len).is_err(), "{layers:?}");
        }
    }

    #[test]
    fn a_payload_too_short_for_its_layout_answers_maybe() {
        let (header, payload) = encode("ribbon:8", &hashes_of_set(1_000, 0));
        let layout = Ribbon::parse(&header, 1_000, payload.len() as u64).unwrap();
        for hash in [0, 1 << 40, u64::MAX / 2, u64::MAX].map(KeyHash::from_raw) {
            assert!(Ribbon::may_contain(Portable, &layout, &[], 0, hash));
        }
    }

    #[test]
    fn every_try_has_a_new_seed_and_every_second_more_slots() {
        for n in [1, 20_000, 1_000_000] {
            let tries: Vec<_> = layouts(Budget::of_millibits(8_000), n).collect();
            assert_eq!(tries.len(), 64);
            for (i, layout) in (0..).zip(&tries) {
                // The first try has 2.4 % spare slots, and 0.38 percentage points more for each full
                // doubling beyond 8,192 keys. Every second try adds 5/1024 of the number of keys.
                let spare = n * (240 + 38 * u64::from(n.ilog2()).saturating_sub(13)) / 10_000;
                let wanted = n + spare + n * (i / 2 * 5) / 1024;
                assert_eq!((u64::from(layout.seed), layout.blocks), (i, wanted.div_ceil(128)), "{n} keys");
            }
        }
    }

    #[test]
    fn keys_of_the_last_start_are_distinguished() {
        let last = |i: u64| KeyHash::from_raw(u64::MAX - i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 48));
        let mut keys = hashes_of_set(3_000, 0);
        keys.extend((0..20).map(last));
        keys.sort_unstable();
        let (header, payload) = encode("ribbon:fpr=0.00390625", &keys);
        let layout = Ribbon::parse(&header, keys.len() as u64, payload.len() as u64).unwrap();
        let ask = |hash| Ribbon::may_contain(Portable, &layout, &payload, payload.len(), hash);
        assert!(keys.iter().all(|&hash| ask(hash)));
        let maybe = (20..10_000).map(last).filter(|&hash| ask(hash)).count();
        assert!((10..80).contains(&maybe), "{maybe} of 9,980");
    }
}
