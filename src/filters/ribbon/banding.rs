//! Solves the system of a ribbon filter: banding, and then back-substitution. Banding is Gaussian
//! elimination in the form of insertions into a hash table.
//!
//! A key's row goes to the slot at which it starts. If the slot already has a row, the two rows are
//! added, which clears the first coefficient. The sum then goes to the slot of its first remaining
//! coefficient. A row that vanishes is a sum of other rows. If its fingerprint vanishes too, the
//! row is redundant; otherwise the system has no solution.

use super::{BLOCK_SLOTS, Geometry, MAX_COLUMNS, Row, SMASH, WIDTH, WORD_LEN_BYTES};
use crate::bits::{NoMemory, try_zeros};
use crate::codec::u128_bytes;
use crate::filters::filter::Budget;
use crate::filters::header::zeros;
use crate::filters::math;
use crate::hash::KeyHash;
use crate::simd::parity;

/// The maximum number of tries, each with a new seed. Starts follow the order of the hashes and do
/// not depend on the seed, so every second try also adds slots.
const MAX_SEEDS: u8 = 64;
/// The number of slots that every second try adds, in 1,024ths of the number of keys.
const GROWTH: u64 = 5;

/// Returns the number of spare slots of the first try, in ten-thousandths of the number of keys.
/// With this number, about one try in twenty fails. For this failure rate and rows of 128 bits,
/// the authors of RocksDB's ribbon measured 2.2 to 2.8 % spare slots from 256 to 16,384 keys, and
/// 0.38 percentage points more for each further doubling (RocksDB, util/ribbon_config.cc).
fn spare_slots(num_keys: u64) -> u64 {
    let doublings = u64::from(num_keys.max(1).ilog2()).saturating_sub(13);
    240 + 38 * doublings
}

/// Returns the systems that a build tries for a number of keys, in this order. Each system has one
/// column.
pub(super) fn systems(num_keys: u64) -> impl Iterator<Item = Geometry> {
    (0..MAX_SEEDS).filter_map(move |seed| {
        let growth = u128::from(u64::from(seed / 2) * GROWTH) * u128::from(num_keys) / 1024;
        let spare = u128::from(num_keys) * u128::from(spare_slots(num_keys)) / 10_000 + growth;
        let slots = u64::try_from(u128::from(num_keys) + spare).ok()?;
        let blocks = slots.div_ceil(WIDTH).max(1);
        Some(Geometry { columns: 1, narrow: 0, blocks, seed })
    })
}

/// Returns the geometries that a build tries, in this order.
pub(super) fn geometries(budget: Budget, num_keys: u64) -> impl Iterator<Item = Geometry> {
    systems(num_keys).map(move |geometry| match budget.rate {
        Some(rate) => of_rate(geometry, rate),
        None => of_size(geometry, u128::from(num_keys) * u128::from(budget.millibits)),
    })
}

/// Returns the geometry with as many columns as `millibits` thousandths of a bit in total allow.
/// The number of columns is 1 to [`MAX_COLUMNS`].
fn of_size(geometry: Geometry, millibits: u128) -> Geometry {
    let blocks = geometry.blocks;
    let words = u64::try_from(millibits / (1000 * u128::from(WIDTH))).unwrap_or(u64::MAX);
    let words = words.clamp(blocks, blocks.saturating_mul(MAX_COLUMNS.into()));
    let columns = words.div_ceil(blocks);
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_COLUMNS")]
    Geometry { columns: columns as u32, narrow: columns * blocks - words, ..geometry }
}

/// Returns the geometry with the fewest columns whose FPR is at most `rate`, and with as many
/// narrow blocks as `rate` allows. With one column, no block is narrow. `rate` must be at least
/// 2^-32.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the values are clamped")]
fn of_rate(geometry: Geometry, rate: f64) -> Geometry {
    let (columns, least) = math::columns_of_rate(rate, MAX_COLUMNS);
    // The share of keys that may have one column less: see Geometry::expected_fpr.
    let share = (rate / least - 1.0).clamp(0.0, 1.0);
    let starts = geometry.starts();
    let narrow = (share * (starts + 2 * SMASH) as f64 - SMASH as f64) / WIDTH as f64;
    // For a share of 1, this is `blocks - 0.74`, which rounds down to all blocks but one.
    let narrow = if columns > 1 { narrow.max(0.0) as u64 } else { 0 };
    Geometry { columns, narrow, ..geometry }
}

/// Builds the payload of distinct, sorted `hashes`. Returns `None` if the system has no solution.
pub(super) fn build(geometry: &Geometry, hashes: &[KeyHash]) -> Result<Option<Vec<u8>>, NoMemory> {
    solve(geometry, hashes.iter().map(|&hash| geometry.row(hash)))
}

/// Builds the payload that gives each of `equations` its fingerprint. Returns `None` if there is no
/// such payload.
pub(crate) fn solve(geometry: &Geometry, equations: impl Iterator<Item = Row>) -> Result<Option<Vec<u8>>, NoMemory> {
    let slots = usize::try_from(geometry.blocks * WIDTH).map_err(|_| NoMemory)?;
    let words = usize::try_from(geometry.words()).map_err(|_| NoMemory)?;
    let len_bytes = words.checked_mul(WORD_LEN_BYTES).ok_or(NoMemory)?;
    let mut rows: Vec<u128> = try_zeros(slots)?;
    let mut fingerprints: Vec<u32> = try_zeros(slots)?;
    if !insert(equations, &mut rows, &mut fingerprints) {
        return Ok(None);
    }
    let mut payload = zeros(len_bytes)?;
    substitute(geometry, &rows, &fingerprints, &mut payload);
    Ok(Some(payload))
}

/// Brings the system into echelon form. Returns `false` if an equation contradicts others.
#[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "a row ends before the last slot")]
fn insert(equations: impl Iterator<Item = Row>, rows: &mut [u128], fingerprints: &mut [u32]) -> bool {
    for row in equations {
        let (mut slot, mut coefficients) = (row.start as usize, row.coefficients);
        let mut fingerprint = row.fingerprint;
        loop {
            let (there, theirs) = (&mut rows[slot], &mut fingerprints[slot]);
            if *there == 0 {
                (*there, *theirs) = (coefficients, fingerprint);
                break;
            }
            coefficients ^= *there;
            fingerprint ^= *theirs;
            if coefficients == 0 {
                if fingerprint != 0 {
                    return false;
                }
                break;
            }
            let zeros = coefficients.trailing_zeros();
            slot += zeros as usize;
            coefficients >>= zeros;
        }
    }
    true
}

/// Solves the banded system from its last slot to its first. A slot without a row is free and
/// becomes 0.
#[expect(clippy::indexing_slicing, reason = "the payload has the words of all blocks")]
fn substitute(geometry: &Geometry, rows: &[u128], fingerprints: &[u32], payload: &mut [u8]) {
    let columns = geometry.columns as usize;
    // For each column, the solution of the slots from the current slot on. The current slot is the
    // lowest bit.
    let mut solution = [0u128; MAX_COLUMNS as usize];
    let blocks = rows.chunks(BLOCK_SLOTS).zip(fingerprints.chunks(BLOCK_SLOTS));
    for (number, (rows, fingerprints)) in blocks.enumerate().rev() {
        for (row, fingerprint) in rows.iter().zip(fingerprints).rev() {
            for (column, solution) in solution.iter_mut().take(columns).enumerate() {
                let later = *solution << 1;
                *solution = later | u128::from((parity(later & row) ^ fingerprint >> column) & 1);
            }
        }
        let (offset, columns) = geometry.block(number as u64);
        let block = &mut payload[offset..offset + columns * WORD_LEN_BYTES];
        for (word, solution) in block.as_chunks_mut::<WORD_LEN_BYTES>().0.iter_mut().zip(solution) {
            *word = u128_bytes(solution);
        }
    }
}
