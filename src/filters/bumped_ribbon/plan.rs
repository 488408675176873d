//! Plans the size, the FPR and the cache lines of a bumped ribbon. The plan assumes a typical
//! build, and estimates the number of bumped keys. All sizes have 64 bits, so that a 32-bit machine
//! can plan filters for 64-bit machines.

use super::build::{
    KEYS_A_SPARE_SLOT, MAX_SINGLE_KEYS, NEAR_BORDER_KEYS, ONE_TRY_KEYS, SURELY_SINGLE_KEYS, choose_columns, density,
    first_spare,
};
use super::layer::{Columns, Starts};
use super::{BLOCK_SLOTS, BUCKET_STARTS};
use crate::codec::put_varint;
use crate::filters::filter::{Budget, Planned};
use crate::filters::math;
use crate::filters::math::{lines_of, loaded_pair_lines};

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
const EMPTY_AT_ENDS: u64 = 20;

const SLOTS: u64 = BLOCK_SLOTS as u64;

/// The layers of a planned filter, and the slots of its single system.
struct Layout {
    columns: Columns,
    /// The number of blocks of each layer.
    layers: Vec<u64>,
    /// The number of slots of the system after the layers, or 0 if there is none.
    last_slots: u64,
}

impl Layout {
    /// Returns the length of `blocks` whole blocks in bytes.
    fn blocks_len_bytes(&self, blocks: u64) -> u64 {
        8 * (blocks * u64::from(self.columns.all) - self.fewer(blocks))
    }

    /// Returns how many of `blocks` blocks have one column less.
    fn fewer(&self, blocks: u64) -> u64 {
        u64::try_from((u128::from(blocks) * u128::from(self.columns.fewer_share)) >> 16).unwrap_or(blocks)
    }

    /// Returns the length of the payload in bytes: the columns, and two bits for each bucket of a
    /// layer.
    fn payload_len_bytes(&self) -> u64 {
        let of_layer = |&blocks: &u64| {
            let buckets = Starts::of_slots(blocks * SLOTS).last() / BUCKET_STARTS as u64 + 1;
            self.blocks_len_bytes(blocks) + buckets.div_ceil(4)
        };
        let tail = self.last_slots % SLOTS;
        let groups = (0..self.columns.groups()).map(|group| self.columns.of_group(group) as u64);
        let tail_len: u64 = groups.map(|columns| (tail * columns).div_ceil(8)).sum();
        self.layers.iter().map(of_layer).sum::<u64>() + self.blocks_len_bytes(self.last_slots / SLOTS) + tail_len
    }

    /// Returns the length in bytes of the record of layers, or 0 if the filter has no layers.
    fn record_len_bytes(&self) -> usize {
        if self.layers.is_empty() {
            return 0;
        }
        let mut record = Vec::new();
        self.layers.iter().for_each(|&blocks| put_varint(&mut record, blocks));
        put_varint(&mut record, 0);
        if self.last_slots > 0 {
            put_varint(&mut record, self.last_slots);
            // The seed takes one byte.
            record.push(0);
        }
        record.len()
    }

    /// Returns the expected FPR, as [`Geometry::expected_fpr`](super::Geometry::expected_fpr)
    /// computes it for a built filter.
    fn expected_fpr(&self) -> f64 {
        let rate = 0.5f64.powi(self.columns.all.cast_signed());
        let layers = self.layers.iter().map(|&blocks| (Starts::of_slots(blocks * SLOTS), blocks));
        let last = (self.last_slots > 0).then(|| (Starts::of_slots(self.last_slots), self.last_slots / SLOTS));
        let (mut slots, mut weighted) = (0.0, 0.0);
        for (starts, blocks) in layers.chain(last) {
            let share = starts.share_below(self.fewer(blocks) * SLOTS);
            let weight = (blocks * SLOTS).max(1) as f64;
            slots += weight;
            weighted += weight * rate * (1.0 + share);
        }
        weighted / slots.max(1.0)
    }
}

/// Plans the filter that `budget` requests. Returns `None` if the filter would have about 2^62
/// bytes or more.
pub(super) fn planned(budget: Budget, num_keys: u64) -> Option<Planned> {
    let columns = choose_columns(budget, num_keys);
    // The checked number is twice the length of the columns in bytes. In large filters, every
    // length below is smaller than this number, and a layer has fewer slots than keys. So this
    // check excludes overflow.
    i64::try_from(u128::from(num_keys) * u128::from(columns.all) / 4).ok()?;
    let layout = match num_keys {
        _ if num_keys <= SURELY_SINGLE_KEYS as u64 => of_single(columns, num_keys),
        _ if num_keys < NEAR_BORDER_KEYS as u64 => of_few(budget, columns, num_keys),
        _ => of_many(budget, columns, num_keys),
    };
    let (mut left, mut bump_reads) = (num_keys as f64, 0.0);
    for blocks in &layout.layers {
        bump_reads += left / num_keys as f64;
        left = (left - (blocks * SLOTS) as f64).max(0.0);
    }
    let len_bytes = layout.payload_len_bytes();
    // The mean number of columns of a block.
    let columns = f64::from(columns.all) - f64::from(columns.fewer_share) / 65_536.0;
    let [lines_if_absent, lines_if_present] =
        lines_by_groups(columns).map(|lines| (lines + bump_reads).min(lines_of(len_bytes)));
    Some(Planned {
        len_bytes,
        record_len_bytes: layout.record_len_bytes(),
        rate: math::with_equal_hashes(layout.expected_fpr(), num_keys),
        probes: layout.columns.all,
        lines_if_absent,
        lines_if_present,
    })
}

/// Returns the mean number of cache lines that a query reads from the columns. The first element is
/// for an absent key, the second for a present key.
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

fn of_single(columns: Columns, keys: u64) -> Layout {
    Layout { columns, layers: Vec::new(), last_slots: keys + spare_of(keys) }
}

/// Returns the number of spare slots of a single system of `keys` keys.
fn spare_of(keys: u64) -> u64 {
    first_spare(usize::try_from(keys).unwrap_or(usize::MAX)) as u64
}

/// Returns the number of blocks of the layer that a build tries first for `keys` keys.
fn layer_of(keys: u64, slots_per_mille: u128) -> u64 {
    let slots = u128::from(keys) * slots_per_mille / 1000;
    u64::try_from(slots.div_ceil(u128::from(SLOTS))).unwrap_or(keys)
}

fn slots_per_mille(budget: Budget, keys: u64) -> u128 {
    density(budget, usize::try_from(keys).unwrap_or(usize::MAX)).slots_per_mille
}

/// Returns the smaller of two layouts: a single system, or a layer and a system that together have
/// one spare slot per [`KEYS_A_SPARE_SLOT`] keys. The system of the second layout has at least 64
/// slots. Above [`ONE_TRY_KEYS`] keys, the function always returns the second layout.
fn of_few(budget: Budget, columns: Columns, keys: u64) -> Layout {
    let layer = layer_of(keys, slots_per_mille(budget, keys));
    let slots = (keys + keys / KEYS_A_SPARE_SLOT as u64).max((layer + 1) * SLOTS);
    let layered = Layout { columns, layers: vec![layer], last_slots: slots - layer * SLOTS };
    let single = (keys <= ONE_TRY_KEYS as u64).then(|| of_single(columns, keys));
    match single.filter(|single| single.payload_len_bytes() < layered.payload_len_bytes()) {
        Some(single) => single,
        None => layered,
    }
}

fn of_many(budget: Budget, columns: Columns, keys: u64) -> Layout {
    let per_mille = slots_per_mille(budget, keys);
    let mut layers = Vec::new();
    let mut left = keys;
    while layers.is_empty() || left > MAX_SINGLE_KEYS as u64 {
        let layer = layer_of(left, per_mille);
        // Every slot that does not stay empty holds a key.
        let slots = layer * SLOTS;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of `slots`")]
        let empty = EMPTY_AT_ENDS + (slots as f64 * empty_share(per_mille)) as u64;
        left = left.saturating_sub(slots - empty);
        layers.push(layer);
    }
    let last_slots = if left > 0 { left + spare_of(left) } else { 0 };
    Layout { columns, layers, last_slots }
}

#[cfg(test)]
mod tests {
    use super::super::build::record;
    use super::super::read::{Geometry, Layer};
    use super::super::small::Small;
    use super::*;

    #[test]
    fn a_layout_has_the_length_and_the_rate_of_its_geometry() {
        for keys in
            [1u64, 9, 63, 64, 65, 1_000, 1_500, 2_000, 2_560, 2_561, 9_727, 9_728, 70_000, 1_000_003, 300_000_000]
        {
            for millibits in [1_000, 1_500, 7_300, 8_000, 9_900, 16_100, 31_999, 100_000] {
                let budget = Budget::of_millibits(millibits);
                let columns = choose_columns(budget, keys);
                let layout = match keys {
                    _ if keys <= 1_500 => of_single(columns, keys),
                    _ if keys < 9_728 => of_few(budget, columns, keys),
                    _ => of_many(budget, columns, keys),
                };
                let layers: Vec<_> =
                    layout.layers.iter().map(|&blocks| Layer::new(usize::try_from(blocks).unwrap(), columns)).collect();
                let last = (layout.last_slots > 0)
                    .then(|| Small::new(usize::try_from(layout.last_slots).unwrap(), 0, columns));
                let geometry = Geometry::lay_out(columns, layers, last).unwrap();
                assert_eq!(layout.payload_len_bytes(), geometry.payload_len as u64, "{keys} keys, {millibits}");
                assert_eq!(layout.expected_fpr(), geometry.expected_fpr(), "{keys} keys, {millibits}");
                let record = record(&geometry.layers, geometry.last.as_ref());
                let len = if geometry.layers.is_empty() { 0 } else { record.len() };
                assert_eq!(layout.record_len_bytes(), len, "{keys} keys, {millibits}");
            }
        }
    }
}
