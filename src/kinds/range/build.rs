//! Builds range filters.

use super::choose::Chosen;
use super::codes::{Codes, RangeHash};
use super::elias_fano::{EliasFano, len_bits, needs_wide_ranks};
use super::keys::RangeKeys;
use super::{Geometry, MAX_CODES, SCAN_CELLS, enough};
use crate::bits::NoMemory;
use crate::hash::{KeyHash, sort};
use crate::kinds::contract::{Budget, Built};
use crate::kinds::shape::room_behind;

/// Builds the filter of keys in ascending order, of which there is at least one. The same keys give
/// the same bytes.
///
/// # Errors
/// Returns [`NoMemory`] if the filter does not fit in memory.
pub(crate) fn build(budget: Budget, keys: &RangeKeys, hash: &RangeHash) -> Result<Built, NoMemory> {
    let chosen = Chosen::new(keys, budget.range_len == 0)?;
    let spread = Spread::of(&chosen, keys)?;
    let dropped_bits = if budget.range_len == 0 { spread.droppable_bits() } else { 0 };
    let num_cells = spread.num_cells(dropped_bits);
    let (first, last) = (spread.first >> dropped_bits, spread.last >> dropped_bits);
    let mut payload = Vec::new();
    let header_len = chosen.mapping.len_bytes();
    payload.try_reserve_exact(header_len.next_multiple_of(8))?;
    chosen.write(&mut payload);
    payload.resize(header_len.next_multiple_of(8), 0);

    let universe = universe(budget, keys.len(), num_cells, payload.len() as u64 * 8);
    let codes = Codes::new(universe, num_cells, last - first);
    let mut sorted = Vec::new();
    sorted.try_reserve_exact(usize::try_from(num_cells).map_err(|_| NoMemory)?)?;
    // The sort is fastest if the highest bits vary.
    let shift = (codes.universe - 1).leading_zeros().min(63);
    let mut previous = None;
    chosen.map(keys, |x| {
        let cell = x >> dropped_bits;
        if previous != Some(cell) {
            previous = Some(cell);
            sorted.push(KeyHash::from_raw(codes.code(hash, cell - first) << shift));
        }
    })?;
    sort(&mut sorted);
    sorted.dedup();
    let values = || sorted.iter().map(|code| code.raw() >> shift);
    let num_codes = sorted.len() as u64;
    let low_bits = EliasFano::best_low_bits(num_codes, codes.universe);
    let is_wide = needs_wide_ranks(values(), low_bits);
    let parts = EliasFano::new(payload.len(), num_codes, codes.universe, low_bits, is_wide).ok_or(NoMemory)?;
    let room = parts.end.checked_add(room_behind(parts.end)).ok_or(NoMemory)?;
    payload.try_reserve_exact(room - payload.len())?;
    payload.resize(parts.end, 0);
    parts.write(&mut payload, values())?;
    let (range_len, mapping) = (budget.range_len, chosen.mapping);
    let geometry = Geometry { range_len, mapping, dropped_bits, first, last, codes, parts };
    Ok((geometry.shape(), payload))
}

/// How the integers of the keys lie.
struct Spread {
    first: u128,
    last: u128,
    /// For each number of bits, the neighbours whose integers differ in exactly so many low bits.
    differing_bits: [u64; 129],
}

impl Spread {
    fn of(chosen: &Chosen, keys: &RangeKeys) -> Result<Self, NoMemory> {
        let (mut first, mut last) = (None, 0);
        let mut differing_bits = [0; 129];
        chosen.map(keys, |x| {
            if first.is_some() {
                let bits = (u128::BITS - (x ^ last).leading_zeros()) as usize;
                if let Some(count) = differing_bits.get_mut(bits) {
                    *count += 1;
                }
            }
            first.get_or_insert(x);
            last = x;
        })?;
        Ok(Self { first: first.unwrap_or_default(), last, differing_bits })
    }

    /// Returns how many low bits can go so that 99.5 % of the neighbours that differ still differ.
    fn droppable_bits(&self) -> u32 {
        let differing: u64 = self.differing_bits.iter().skip(1).sum();
        let enough = enough(differing);
        (0..u128::BITS).take_while(|&bits| self.num_cells(bits + 1) > enough).last().map_or(0, |bits| bits + 1).min(119)
    }

    /// Returns the number of different integers without their lowest bits.
    fn num_cells(&self, dropped_bits: u32) -> u64 {
        1 + self.differing_bits.iter().skip(dropped_bits as usize + 1).sum::<u64>()
    }
}

/// Returns the universe of the codes.
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

/// Returns the length of the ranges for which the budget is meant.
pub(super) fn range_len(budget: Budget) -> u64 {
    if budget.range_len == 0 { SCAN_CELLS } else { budget.range_len }
}

/// Returns the largest universe whose codes take at most so many bits.
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
