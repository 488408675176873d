//! Builds range filters.

use super::choose::Chosen;
use super::codes::{Codes, RangeHash};
use super::elias_fano::{EliasFano, len_bits, needs_wide_ranks};
use super::keys::RangeKeys;
use super::mapping::MAX_BITS;
use super::{Geometry, MAX_CODES, SCAN_CELLS, enough};
use crate::filters::filter::{Budget, Built};
use crate::filters::header::room_behind;
use crate::hash::{KeyHash, sort};
use crate::simd::NoMemory;

/// Builds the filter of one or more keys in ascending order. The same keys give the same bytes.
///
/// # Errors
/// Returns [`NoMemory`] if there is no memory, or if the filter would have 2^32 codes or more.
pub(crate) fn build(budget: Budget, keys: &RangeKeys, hash: &RangeHash) -> Result<Built, NoMemory> {
    let is_scan = budget.range_len == 0;
    let scan_universe = is_scan.then(|| universe(budget, keys.len(), keys.len(), 0));
    let chosen = Chosen::new(keys, scan_universe)?;
    let (spread, mut codes_of_keys) = Spread::of(&chosen, keys)?;
    let dropped_bits = scan_universe.map_or(0, |universe| spread.droppable_bits(universe));
    let num_cells = spread.num_cells(dropped_bits);
    let (first, last) = (spread.first >> dropped_bits, spread.last >> dropped_bits);
    let mut payload = Vec::new();
    let header_len = chosen.mapping.len_bytes();
    payload.try_reserve_exact(header_len.next_multiple_of(8))?;
    chosen.write(&mut payload);
    payload.resize(header_len.next_multiple_of(8), 0);

    let universe = universe(budget, keys.len(), num_cells, payload.len() as u64 * 8);
    let codes = Codes::new(universe, num_cells, last - first);
    // The sort is fastest if the numbers spread over all 64 bits.
    let spread_out = u64::MAX / codes.universe;
    // The inverse replaces a division. `code * spread_out` is below 2^64, so rounding the inverse
    // up adds less than one to a quotient.
    let inverse = u64::MAX / spread_out + 1;
    let code = |cell: u128| KeyHash::from_raw(codes.code(hash, cell - first) * spread_out);
    if codes_of_keys.is_empty() {
        codes_of_keys.try_reserve_exact(usize::try_from(num_cells).map_err(|_| NoMemory)?)?;
        let mut previous = None;
        chosen.map(keys, |x| {
            let cell = x >> dropped_bits;
            if previous != Some(cell) {
                previous = Some(cell);
                codes_of_keys.push(code(cell));
            }
        })?;
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "all integers have 64 bits")]
        let first = first as u64;
        codes_of_keys.iter_mut().for_each(|x| {
            let cell = x.raw().checked_shr(dropped_bits).unwrap_or_default();
            *x = KeyHash::from_raw(codes.short_code(hash, cell - first) * spread_out);
        });
    }
    let mut sorted = codes_of_keys;
    sort(&mut sorted);
    sorted.dedup();
    let values = || sorted.iter().map(|code| mul_high(code.raw(), inverse));
    let num_codes = sorted.len() as u64;
    let low_bits = EliasFano::best_low_bits(num_codes, codes.universe);
    let is_wide = needs_wide_ranks(values(), low_bits);
    let parts = EliasFano::new(payload.len(), num_codes, codes.universe, low_bits, is_wide).ok_or(NoMemory)?;
    let room = parts.end.checked_add(room_behind(parts.end)).ok_or(NoMemory)?;
    payload.try_reserve_exact(room - payload.len())?;
    payload.resize(parts.end, 0);
    parts.write(&mut payload, values());
    let (range_len, mapping) = (budget.range_len, chosen.mapping);
    let geometry = Geometry { range_len, mapping, dropped_bits, first, last, codes, parts, is_short: false };
    Ok((geometry.header(), payload))
}

/// Returns the high half of a product.
fn mul_high(one: u64, other: u64) -> u64 {
    ((u128::from(one) * u128::from(other)) >> u64::BITS) as u64
}

/// Statistics of the integers of the keys.
struct Spread {
    first: u128,
    last: u128,
    /// `differing_bits[b]` is the number of pairs of neighbouring keys whose integers differ in bit
    /// `b - 1` and agree in all higher bits. Index 0 counts equal integers.
    differing_bits: [u64; 129],
}

impl Spread {
    /// Maps all keys and returns their statistics. If all integers fit in 64 bits, the function
    /// also returns the integers, which the codes will overwrite. Otherwise the vector is empty.
    #[expect(clippy::indexing_slicing, reason = "two integers differ in at most 128 bits")]
    fn of(chosen: &Chosen, keys: &RangeKeys) -> Result<(Self, Vec<KeyHash>), NoMemory> {
        let (mut first, mut last) = (None, 0);
        let mut differing_bits = [0; 129];
        let mut integers = Vec::new();
        let is_short = chosen.is_short();
        if is_short {
            integers.try_reserve_exact(usize::try_from(keys.len()).map_err(|_| NoMemory)?)?;
        }
        chosen.map(keys, |x| {
            match first {
                None => first = Some(x),
                Some(_) => {
                    let bits = (u128::BITS - (x ^ last).leading_zeros()) as usize;
                    differing_bits[bits] += 1;
                }
            }
            last = x;
            if is_short {
                #[expect(clippy::cast_possible_truncation, reason = "all integers have 64 bits")]
                integers.push(KeyHash::from_raw(x as u64));
            }
        })?;
        Ok((Self { first: first.unwrap_or_default(), last, differing_bits }, integers))
    }

    /// Returns the number of low bits to drop, or 0 if all integers are equal. The cells must
    /// distinguish at least 99.5 % of the neighbouring keys whose integers differ. If such cells
    /// fit into the universe, the function chooses the smallest cells that fit. Otherwise it
    /// chooses the largest such cells.
    fn droppable_bits(&self, universe: u64) -> u32 {
        let enough = enough(self.differing_bits.iter().skip(1).sum());
        if enough == 0 {
            return 0;
        }
        let most = (1..MAX_BITS).rfind(|&bits| self.num_cells(bits) > enough).unwrap_or_default();
        let fits = |bits: &u32| (self.last >> bits) - (self.first >> bits) < universe.into();
        (0..=most).find(fits).unwrap_or(most)
    }

    /// Returns the number of cells with keys if `dropped_bits` low bits are dropped.
    fn num_cells(&self, dropped_bits: u32) -> u64 {
        1 + self.differing_bits.iter().skip(dropped_bits as usize + 1).sum::<u64>()
    }
}

/// Returns the universe of the codes: the number of possible codes that the budget allows.
fn universe(budget: Budget, num_keys: u64, num_cells: u64, header_len_bits: u64) -> u64 {
    let universe = match budget.rate {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
        Some(rate) => (num_cells as f64 * range_len(budget) as f64 / rate).ceil() as u64,
        None => {
            let bits = u128::from(num_keys) * u128::from(budget.millibits) / 1000;
            largest_universe(num_cells, bits.saturating_sub(header_len_bits.into()))
        }
    };
    universe.clamp(1, MAX_CODES)
}

/// Returns the length of the ranges that the filter is sized for: [`SCAN_CELLS`] if the budget is
/// for scans.
pub(super) fn range_len(budget: Budget) -> u64 {
    if budget.range_len == 0 { SCAN_CELLS } else { budget.range_len }
}

/// Returns the largest universe, up to [`MAX_CODES`], whose codes take at most `max_len_bits` bits.
/// Returns 1 if no universe does.
pub(super) fn largest_universe(num_codes: u64, max_len_bits: u128) -> u64 {
    let len = |universe| len_bits(num_codes, universe, EliasFano::best_low_bits(num_codes, universe));
    let (mut low, mut high) = (1, MAX_CODES);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if len(middle) <= max_len_bits {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}
