//! The planned size of a bumped ribbon. It is exact except for the number of keys that will be
//! bumped.

use super::BLOCK_SLOTS;
use super::build::{
    KEYS_A_SPARE_SLOT, MAX_SINGLE_KEYS, NEAR_BORDER_KEYS, ONE_TRY_KEYS, SURELY_SINGLE_KEYS, choose_columns, density,
    first_spare, record,
};
use super::layer::Columns;
use super::read::{Geometry, Layer};
use super::small::Small;
use crate::kinds::contract::{Budget, Planned};
use crate::kinds::lines::{lines_of, loaded_pair_lines};
use crate::kinds::math;

/// Returns the share of a layer's slots that stay empty, by slots per thousand keys: see `Density`.
fn empty_share(slots_per_mille: u128) -> f64 {
    match slots_per_mille {
        970.. => 0.0016,
        960..970 => 0.001,
        // A compact filter has 930 slots per thousand keys.
        _ => 0.0002,
    }
}

/// The number of empty slots at the ends of a layer, in addition to [`empty_share`]. It does not
/// depend on the length of the layer.
const EMPTY_AT_ENDS: usize = 20;

/// Plans the filter that `budget` requests. Returns `None` if its size does not fit the address
/// space.
pub(super) fn planned(budget: Budget, num_keys: u64) -> Option<Planned> {
    let keys = usize::try_from(num_keys).ok()?;
    let columns = choose_columns(budget, keys);
    // No number below is larger than twice the bits of the filter, so this check excludes overflow.
    isize::try_from(u128::from(num_keys) * u128::from(columns.all) / 4).ok()?;
    let geometry = match keys {
        _ if keys <= SURELY_SINGLE_KEYS => of_single(columns, keys)?,
        _ if keys < NEAR_BORDER_KEYS => of_few(budget, columns, keys)?,
        _ => of_many(budget, columns, keys)?,
    };
    let (mut left, mut bump_reads) = (keys as f64, 0.0);
    for layer in &geometry.layers {
        bump_reads += left / keys as f64;
        left = (left - (layer.blocks.count * BLOCK_SLOTS) as f64).max(0.0);
    }
    let has_record = !geometry.layers.is_empty();
    let len_bytes = geometry.payload_len as u64;
    // The mean over the blocks.
    let columns = f64::from(columns.all) - f64::from(columns.fewer_share) / 65_536.0;
    let [lines_if_absent, lines_if_present] =
        lines_by_groups(columns).map(|lines| (lines + bump_reads).min(lines_of(len_bytes)));
    Some(Planned {
        len_bytes,
        record_len_bytes: if has_record { record(&geometry.layers, geometry.last.as_ref()).len() } else { 0 },
        rate: math::with_equal_hashes(geometry.expected_rate(), num_keys),
        lines_if_absent,
        lines_if_present,
    })
}

/// Returns the mean number of cache lines that a query reads from the columns, for an absent and
/// for a present key.
fn lines_by_groups(columns: f64) -> [f64; 2] {
    // A second group of columns is read only if the first group matches: for absent keys, once in
    // 256 times.
    let [mut if_absent, mut if_present] = [0.0, 0.0];
    for group in 0..4 {
        let lines = loaded_pair_lines((columns - 8.0 * f64::from(group)).clamp(0.0, 8.0));
        if_absent += lines * (-8.0 * f64::from(group)).exp2();
        if_present += lines;
    }
    [if_absent, if_present]
}

fn of_single(columns: Columns, keys: usize) -> Option<Geometry> {
    let small = Small::new(keys + first_spare(keys), 0, columns);
    Geometry::lay_out(columns, Vec::new(), Some(small))
}

/// Returns the layer that a build tries first for `keys` keys.
fn layer_of(columns: Columns, keys: usize, slots_per_mille: u128) -> Option<Layer> {
    let slots = keys as u128 * slots_per_mille / 1000;
    Some(Layer::new(usize::try_from(slots.div_ceil(BLOCK_SLOTS as u128)).ok()?, columns))
}

/// Returns the smaller of two geometries: a single system, or a layer and a system with the desired
/// number of spare slots.
fn of_few(budget: Budget, columns: Columns, keys: usize) -> Option<Geometry> {
    let layer = layer_of(columns, keys, density(budget, keys).slots_per_mille)?;
    let in_layer = layer.blocks.count * BLOCK_SLOTS;
    let slots = (keys + keys / KEYS_A_SPARE_SLOT).max(in_layer + BLOCK_SLOTS);
    let layered = Geometry::lay_out(columns, vec![layer], Some(Small::new(slots - in_layer, 0, columns)));
    let single = if keys <= ONE_TRY_KEYS { of_single(columns, keys) } else { None };
    layered.into_iter().chain(single).min_by_key(|geometry| geometry.payload_len)
}

fn of_many(budget: Budget, columns: Columns, keys: usize) -> Option<Geometry> {
    let per_mille = density(budget, keys).slots_per_mille;
    let mut layers = Vec::new();
    let mut left = keys;
    while layers.is_empty() || left > MAX_SINGLE_KEYS {
        let layer = layer_of(columns, left, per_mille)?;
        // Every slot that does not stay empty holds a key.
        let slots = layer.blocks.count * BLOCK_SLOTS;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of `slots`")]
        let empty = EMPTY_AT_ENDS + (slots as f64 * empty_share(per_mille)) as usize;
        left = left.saturating_sub(slots - empty);
        layers.push(layer);
    }
    let last = (left > 0).then(|| Small::new(left + first_spare(left), 0, columns));
    Geometry::lay_out(columns, layers, last)
}
