//! Building: how many columns and slots, layer after layer, shard after shard.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::band::{Keys, Row, Rows, SHARD_SLOTS, Stretch, WINDOW, buckets_of_shards, tail_of};
use super::hashes::{remix, unremix};
use super::layer::{Blocks, Columns, bumps_len_bytes};
use super::read::{Geometry, Layer};
use super::small::{Small, wanted_sums};
use super::solve::{State, solve_blocks};
use super::{BLOCK_SLOTS, BUCKET_STARTS, GROUP_COLUMNS, MAX_COLUMNS};
use crate::bits::{NoMemory, try_collect, try_zeros};
use crate::codec::put_varint;
use crate::hash::KeyHash;
use crate::kinds::contract::Budget;
use crate::kinds::kind::FilterKind;
use crate::kinds::math;
use crate::kinds::shape::{Effort, Shape, room_behind};

/// How densely layers are filled, and how they are cut: each cut costs some slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Density {
    /// Slots of a layer for each thousand keys: so few that hardly one stays empty. Of a million keys, 970 bump 3.2 % and
    /// leave 0.16 % of the slots empty, 950 bump 5.0 % and leave 0.05 %, 920 bump 8.0 % and leave 0.01 %.
    pub(super) slots_per_mille: u128,
    /// Whether a layer is one shard, however long.
    is_one_shard: bool,
}

/// Up to here one system is smaller: from 1,500 keys on layers are in two of five cases, and by more and more.
pub(super) const SURELY_SINGLE_KEYS: usize = 1_500;
/// Below this a single block of slots counts. What layers come to differs from one number of blocks to the next as much as
/// from one set of keys to the next (of 3,000 keys 0.5 to 4 % more slots than keys), so several are tried, and one system
/// too while it may be smaller still.
pub(super) const NEAR_BORDER_KEYS: usize = 9_728;
const NEAR_BORDER: Density = Density { slots_per_mille: 950, is_one_shard: true };
/// Below this several numbers of blocks are tried. Of 3,000 sets of 10,000 keys with eight columns the worst is 0.97 % above
/// the bound so, and 2.02 % with one number; from here on it is 1.3 % with one.
const SEVERAL_TRIES_KEYS: usize = 20_480;
/// So many blocks more are tried one after the other, ...
const BLOCKS_MORE: [i128; 6] = [0, -1, 1, -2, -4, -6];
/// ... so many of them near the border, ...
const NEAR_BORDER_TRIES: usize = 4;
/// ... until one slot in so many is to spare. Of 4,096 keys one try in three reaches that, of 8,000 nearly every one.
pub(super) const KEYS_A_SPARE_SLOT: usize = 160;
/// The same from the border on, where 97 of 100 first tries reach it. One in 160 costs a build a tenth more time.
const MORE_KEYS_A_SPARE_SLOT: usize = 128;
/// Random hashes never leave so many to spare, and others do with any number of blocks.
const HOPELESS_KEYS_A_SPARE_SLOT: usize = 16;
/// With fewer keys one system takes a hundredth more slots, within a seventh of a per cent of what layers take, so there
/// is one try.
pub(super) const ONE_TRY_KEYS: usize = 2_560;
/// Each bumped key is a mispredicted branch, so no more are bumped than the space asks: 3.2 % of few keys, ...
const MORE: Density = Density { slots_per_mille: 970, is_one_shard: false };
/// ... and 4.1 % from here on, where half a per cent above the least space is left to be had.
const MANY: Density = Density { slots_per_mille: 960, is_one_shard: false };
const MANY_KEYS: usize = 60_000;
/// One shard, so no ends of shards; in 25 bytes a key in place of 10.
const COMPACT: Density = Density { slots_per_mille: 930, is_one_shard: true };
/// So many keys or fewer make one system where that is smaller, as the bumped keys behind the last layer do. Longer ones need
/// ever more spare slots.
pub(super) const MAX_SINGLE_KEYS: usize = 4_096;
/// Seeds tried before a slot is added.
const SEEDS: u8 = 8;
/// Spare slots that a shape can tell, and more than ever were needed.
const MAX_SPARE: usize = 255;

/// Builds the filter over distinct, sorted hashes; leaves them in another order. `None` for hashes that no seed tells apart:
/// chosen ones, or not hashes at all.
pub(super) fn build(
    budget: Budget,
    hashes: &mut [KeyHash],
    effort: Effort,
) -> std::result::Result<Option<(Shape, Vec<u8>)>, NoMemory> {
    let columns = choose_columns(budget, hashes.len());
    let keys = hashes.len();
    let mut layered = |density| layered(columns, density, hashes, effort.threads);
    let built = match keys {
        _ if keys <= SURELY_SINGLE_KEYS => single(columns, hashes),
        _ if keys < SEVERAL_TRIES_KEYS => smallest(columns, density(budget, keys), hashes),
        _ => layered(density(budget, keys)),
    };
    Ok(built?.map(|Built { shape, payload, .. }| (shape, payload)))
}

/// How densely the layers of many keys are filled.
pub(super) fn density(budget: Budget, keys: usize) -> Density {
    match keys {
        _ if keys < NEAR_BORDER_KEYS => NEAR_BORDER,
        _ if budget.compact => COMPACT,
        _ if keys < MANY_KEYS => MORE,
        _ => MANY,
    }
}

/// The columns that give the rate asked for, or that fit the bits.
pub(super) fn choose_columns(budget: Budget, keys: usize) -> Columns {
    if let Some(wanted) = budget.rate {
        let (all, rate) = math::columns_of_rate(wanted, MAX_COLUMNS);
        // With a share s of the blocks one column short, the rate is (1 + s) times that of all columns.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
        let fewer_share = ((wanted / rate - 1.0) * 65_536.0) as u16;
        return Columns { all, fewer_share };
    }
    // What is not columns: two bits for each 128 slots, the record of the layers; and a slot in 500 that stays empty.
    let keys = keys as u128;
    let bits = keys * u128::from(budget.millibits) / 1000;
    let (bits, slots) = if keys as usize <= ONE_TRY_KEYS {
        (bits, keys + first_spare(keys as usize) as u128 + 1)
    } else {
        (bits.saturating_sub(keys / 64 + 128), keys + keys / 500 + 24)
    };
    let share = (bits << 16) / slots;
    let most = u128::from(MAX_COLUMNS) << 16;
    let least = 1 << 16;
    #[expect(clippy::cast_possible_truncation, reason = "at most 32 << 16")]
    let share = share.clamp(least, most) as u32;
    let all = share.div_ceil(1 << 16);
    #[expect(clippy::cast_possible_truncation, reason = "less than 1 << 16, as `all` is rounded up by less than one")]
    Columns { all, fewer_share: ((all << 16) - share) as u16 }
}

/// The slots beyond the number of keys that a single system is tried with first.
pub(super) fn first_spare(keys: usize) -> usize {
    if keys <= BLOCK_SLOTS { 0 } else { 1 + keys / 100 }
}

/// A system that has a solution, and its groups of columns.
fn solve_single(columns: Columns, hashes: &[KeyHash], rows: &mut Rows) -> Tried<(Small, Vec<Vec<u8>>)> {
    let spares = (first_spare(hashes.len())..=MAX_SPARE).step_by(1 + hashes.len() / 400);
    for (spare, seed) in spares.flat_map(|spare| (0..SEEDS).map(move |seed| (spare, seed))) {
        let small = Small::new(hashes.len() + spare, seed, columns);
        if let Some(groups) = small.solve(columns, hashes, rows)? {
            return Ok(Some((small, groups)));
        }
    }
    Ok(None)
}

/// `None` where there is no solution.
type Tried<T> = std::result::Result<Option<T>, NoMemory>;

/// A finished filter.
struct Built {
    shape: Shape,
    payload: Vec<u8>,
    /// Of all layers and the single system together.
    slots: usize,
}

impl Built {
    /// With the tag and the length of the layers' record, if there is one.
    fn len_bytes(&self) -> usize {
        let record = self.shape.layers.len();
        self.payload.len() + record + if record > 0 { 2 } else { 0 }
    }
}

/// The smallest of a few filters of layers and, where that may be smaller still, one of a single system.
fn smallest(columns: Columns, density: Density, hashes: &[KeyHash]) -> Tried<Built> {
    let keys = hashes.len();
    let least_single = Small::new(keys + first_spare(keys), 0, columns);
    let least_len = (0..columns.groups()).map(|group| least_single.len_bytes(columns, group)).sum();
    let beats_single = |found: &Built| keys > MAX_SINGLE_KEYS || found.len_bytes() <= least_len;
    let mut best: Option<Built> = None;
    let (tries, keys_a_spare_slot) = match keys {
        _ if keys <= ONE_TRY_KEYS => (1, KEYS_A_SPARE_SLOT),
        _ if keys < NEAR_BORDER_KEYS => (NEAR_BORDER_TRIES, KEYS_A_SPARE_SLOT),
        _ => (BLOCKS_MORE.len(), MORE_KEYS_A_SPARE_SLOT),
    };
    for more in BLOCKS_MORE.into_iter().take(tries) {
        let slots = keys as u128 * density.slots_per_mille;
        let slots = slots.saturating_add_signed(1_000 * more * BLOCK_SLOTS as i128);
        let density = Density { slots_per_mille: slots / keys as u128, ..density };
        // Few enough for copies; a try leaves them in another order.
        let found = layered(columns, density, &mut try_collect(hashes.iter().copied())?, NonZeroUsize::MIN)?;
        let is_enough = |found: &Built| found.slots <= keys + keys / keys_a_spare_slot && beats_single(found);
        let is_hopeless = |found: &Built| found.slots > keys + keys / HOPELESS_KEYS_A_SPARE_SLOT;
        let done = match &found {
            Some(found) => is_enough(found) || keys >= NEAR_BORDER_KEYS && is_hopeless(found),
            None => keys >= NEAR_BORDER_KEYS,
        };
        best = best.into_iter().chain(found).min_by_key(Built::len_bytes);
        if done {
            return Ok(best);
        }
    }
    if best.as_ref().is_some_and(beats_single) {
        return Ok(best);
    }
    Ok(best.into_iter().chain(single(columns, hashes)?).min_by_key(Built::len_bytes))
}

/// A filter of one system.
fn single(columns: Columns, hashes: &[KeyHash]) -> Tried<Built> {
    let Some((small, groups)) = solve_single(columns, hashes, &mut Rows::default())? else { return Ok(None) };
    let Ok(spare) = u8::try_from(small.slots - hashes.len()) else { return Ok(None) };
    let params = [columns.param(), small.seed, spare];
    let shape = Shape { kind: FilterKind::BumpedRibbon, params, layers: Vec::new() };
    let len = groups.iter().map(Vec::len).sum();
    let mut payload = Vec::new();
    payload.try_reserve_exact(len + room_behind(len))?;
    groups.iter().for_each(|group| payload.extend_from_slice(group));
    Ok(Some(Built { shape, payload, slots: small.slots }))
}

/// A filter of layers. Leaves the hashes in another order.
fn layered(columns: Columns, density: Density, hashes: &mut [KeyHash], threads: NonZeroUsize) -> Tried<Built> {
    let mut bumped = Vec::new();
    let built = build_layers((columns, density), hashes, threads, &mut bumped);
    // The bumped keys of each layer lie among those of the one before.
    for from in bumped.into_iter().rev() {
        for hash in hashes.get_mut(from..).unwrap_or_default() {
            *hash = KeyHash::from_raw(unremix(hash.raw()));
        }
    }
    built
}

/// The same, but for the hashes of bumped keys, which stay those of later layers: of all from each place in `bumped` on
/// those of one layer more.
fn build_layers(
    (columns, density): (Columns, Density),
    hashes: &mut [KeyHash],
    threads: NonZeroUsize,
    bumped: &mut Vec<usize>,
) -> Tried<Built> {
    let mut layers = Vec::new();
    let mut built = Vec::new();
    // There are fewer slots than keys, and no more to do at once than there are shards.
    let threads = threads.get().min(hashes.len() / SHARD_SLOTS + 1);
    let mut scratch: Vec<Rows> = (0..threads).map(|_| Rows::default()).collect();
    let mut from = 0;
    while layers.is_empty() || hashes.len() - from > MAX_SINGLE_KEYS {
        if layers.len() == super::read::MAX_LAYERS {
            return Ok(None);
        }
        let left = hashes.get_mut(from..).unwrap_or_default();
        from += build_layer((columns, density), left, &mut scratch, &mut layers, &mut built)?;
        bumped.push(from);
    }
    let (next, mut rows) = (hashes.get(from..).unwrap_or_default(), scratch.pop().unwrap_or_default());
    let last = if next.is_empty() { None } else { solve_single(columns, next, &mut rows)? };
    if last.is_none() && !next.is_empty() {
        return Ok(None);
    }
    let [low, high] = [(columns.fewer_share & 0xff) as u8, (columns.fewer_share >> 8) as u8];
    let record = record(&layers, last.as_ref().map(|(small, _)| small));
    let (small, last_groups) = last.map_or((None, Vec::new()), |(small, groups)| (Some(small), groups));
    let in_layers: usize = layers.iter().map(|layer| layer.blocks.count * BLOCK_SLOTS).sum();
    let slots = in_layers + small.as_ref().map_or(0, |small| small.slots);
    let geometry = Geometry::lay_out(columns, layers, small).ok_or(NoMemory)?;
    let payload = assemble(&geometry, built, &last_groups)?;
    let shape = Shape { kind: FilterKind::BumpedRibbon, params: [columns.param(), low, high], layers: record };
    Ok(payload.map(|payload| Built { shape, payload, slots }))
}

/// Blocks of each layer, a zero, and the slots and the seed of the last system, if there is one.
pub(super) fn record(layers: &[Layer], last: Option<&Small>) -> Vec<u8> {
    let mut record = Vec::new();
    layers.iter().for_each(|layer| put_varint(&mut record, layer.blocks.count as u64));
    put_varint(&mut record, 0);
    if let Some(small) = last {
        put_varint(&mut record, small.slots as u64);
        record.push(small.seed);
    }
    record
}

/// The bytes of a layer.
struct BuiltLayer {
    /// All its groups of columns, one after the other.
    groups: Vec<u8>,
    bumps: Vec<u8>,
}

/// Puts the parts of a payload in their places. The first layer, by far the largest, stays in its memory: its groups are
/// moved apart, the last one first.
fn assemble(geometry: &Geometry, mut built: Vec<BuiltLayer>, last: &[Vec<u8>]) -> Tried<Vec<u8>> {
    let mut payload = built.first_mut().map(|first| std::mem::take(&mut first.groups)).unwrap_or_default();
    payload.try_reserve_exact(geometry.payload_len.saturating_sub(payload.len()))?;
    payload.resize(geometry.payload_len, 0);
    Ok(put_all(geometry, &mut payload, &built, last).map(|()| payload))
}

/// The same within the memory of the payload, which begins with the groups of the first layer; `None` where they are not of
/// this geometry.
fn put_all(geometry: &Geometry, payload: &mut [u8], built: &[BuiltLayer], last: &[Vec<u8>]) -> Option<()> {
    let columns = geometry.columns;
    // Of each group, where it lies among the groups of its layer, how long it is, and its place in the payload.
    let moves = |layer: &Layer| {
        let mut from = 0;
        let lens = (0..columns.groups()).map(|group| layer.blocks.len_bytes(columns, group));
        let all = lens.zip(layer.groups).map(|(len, to)| {
            from += len;
            (from - len, len, to)
        });
        all.collect::<Vec<_>>()
    };
    for (from, len, to) in moves(geometry.layers.first()?).into_iter().rev() {
        payload.copy_within(from..from + len, to);
    }
    let mut put = |to: usize, bytes: &[u8]| {
        payload.get_mut(to..to + bytes.len())?.copy_from_slice(bytes);
        Some(())
    };
    for (layer, built) in geometry.layers.iter().zip(built) {
        put(layer.asked.bumps, &built.bumps)?;
        for (from, len, to) in moves(layer) {
            // Of the first layer there is nothing left to put.
            built.groups.get(from..from + len).map_or(Some(()), |bytes| put(to, bytes))?;
        }
    }
    for (group, bytes) in last.iter().enumerate() {
        put(*geometry.last.as_ref()?.groups.get(group)?, bytes)?;
    }
    Some(())
}

/// Memory for the groups of a layer of `keys` keys; for the first layer with room for the others and the rest of a block.
fn room_for_groups(columns: Columns, layer: &Layer, keys: usize, is_first: bool) -> Result<Vec<u8>, NoMemory> {
    let len_of = |blocks: Blocks| (0..columns.groups()).map(|group| blocks.len_bytes(columns, group)).sum::<usize>();
    let len = len_of(layer.blocks);
    let mut capacity = len;
    if is_first {
        // All layers have as many slots as keys, and a few more.
        let all = Blocks::new((keys + keys / 256).div_ceil(BLOCK_SLOTS) + 2, columns);
        capacity = len.max(len_of(all) + bumps_len_bytes(keys / BUCKET_STARTS) + 64);
        capacity += room_behind(capacity);
    }
    let mut groups = Vec::new();
    groups.try_reserve_exact(capacity)?;
    groups.resize(len, 0);
    Ok(groups)
}

/// Builds one layer and moves the bumped keys behind the others, under their hashes for the next layer, sorted; gives their
/// place.
#[expect(clippy::indexing_slicing, reason = "two bits for every bucket")]
fn build_layer(
    (columns, density): (Columns, Density),
    hashes: &mut [KeyHash],
    scratch: &mut [Rows],
    layers: &mut Vec<Layer>,
    built: &mut Vec<BuiltLayer>,
) -> Result<usize, NoMemory> {
    let blocks = (hashes.len() as u128 * density.slots_per_mille / 1000).div_ceil(BLOCK_SLOTS as u128) as usize;
    let layer = Layer::new(blocks, columns);
    let slots = blocks * BLOCK_SLOTS;
    let starts = layer.asked.starts;
    let shards = buckets_of_shards(starts, slots, density.is_one_shard)?;
    let mut bumps: Vec<u8> = try_zeros(bumps_len_bytes(starts.buckets()))?;
    let mut back = Back::new(columns, &layer, room_for_groups(columns, &layer, hashes.len(), layers.is_empty())?)?;
    // Keys of shards that are not done yet, and behind those the keys that are not bumped.
    let (mut left, mut kept) = (hashes.len(), hashes.len());
    for buckets in shards.rchunks(scratch.len()) {
        let keys = Keys { starts, hashes: hashes.get(..left).unwrap_or_default(), wanted: wanted_sums(columns) };
        let shards: Vec<Shard<'_>> = buckets.iter().map(|buckets| Shard::new(keys, buckets.clone(), slots)).collect();
        let mut stretches = band_shards(&shards, scratch)?;
        for (shard, rows) in shards.iter().zip(scratch.iter_mut()).rev() {
            stretches.push(back.finish(shard, rows)?);
        }
        left = shards.first().map_or(0, Shard::first_key);
        let mut bumped = Vec::new();
        for stretch in stretches {
            for (bucket, bits) in (stretch.starts_at()..).zip(&stretch.bumps) {
                bumps[bucket / 4] |= bits << (bucket % 4 * 2);
            }
            bumped.try_reserve(stretch.bumped.len())?;
            bumped.extend(stretch.bumped);
        }
        bumped.sort_unstable_by_key(|range| range.start);
        for key in bumped.into_iter().rev().flat_map(Iterator::rev) {
            kept -= 1;
            hashes.swap(key, kept);
        }
    }
    let bumped = hashes.get_mut(kept..).unwrap_or_default();
    bumped.iter_mut().for_each(|hash| *hash = KeyHash::from_raw(remix(hash.raw())));
    bumped.sort_unstable();
    built.push(BuiltLayer { groups: back.groups, bumps });
    layers.push(layer);
    Ok(kept)
}

/// Slots that share scratch memory.
#[derive(Debug)]
struct Shard<'a> {
    keys: Keys<'a>,
    buckets: Range<usize>,
    from: usize,
    to: usize,
    is_last: bool,
}

impl<'a> Shard<'a> {
    fn new(keys: Keys<'a>, buckets: Range<usize>, slots: usize) -> Self {
        let is_last = buckets.end == keys.starts.buckets();
        let [from, end] = [buckets.start, buckets.end].map(|bucket| bucket * BUCKET_STARTS);
        Self { keys, buckets, from, to: if is_last { slots } else { end }, is_last }
    }

    fn first_key(&self) -> usize {
        self.keys.first_of(self.from as u64)
    }

    /// Rows behind the shard's own, which its tail may take.
    fn window(&self) -> usize {
        if self.is_last { 0 } else { WINDOW }
    }

    /// The bucket at which the tail begins.
    fn tail(&self) -> usize {
        tail_of(&self.buckets)
    }

    /// Bands all but the tail, which needs rows of the shard behind.
    fn band_head(&self, rows: &mut Rows) -> Result<Stretch, NoMemory> {
        rows.reset(self.to - self.from + self.window())?;
        let limit = self.to.min(self.buckets.end * BUCKET_STARTS);
        let head = Stretch::new(self.buckets.start..self.tail(), self.from, limit);
        let mut head = if self.buckets.start > 0 { head.relieved() } else { head };
        head.run(self.keys, rows)?;
        Ok(head)
    }

    /// Bands the tail, once the rows of the shard behind are at hand.
    fn band_tail(&self, rows: &mut Rows) -> Result<Stretch, NoMemory> {
        let mut tail = Stretch::new(self.tail()..self.buckets.end, self.from, self.to + self.window());
        tail.run(self.keys, rows)?;
        Ok(tail)
    }
}

/// Bands the heads of shards that lie side by side, each in rows of its own, on as many threads, this one included. Those
/// that cannot be started leave their shards to the others.
fn band_shards(shards: &[Shard<'_>], scratch: &mut [Rows]) -> Result<Vec<Stretch>, NoMemory> {
    if let ([shard], [rows, ..]) = (shards, &mut *scratch) {
        return Ok(vec![shard.band_head(rows)?]);
    }
    let tasks: Vec<_> =
        shards.iter().zip(scratch).map(|(shard, rows)| Mutex::new((shard, rows, Err(NoMemory)))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            // Nobody else has the number of this task.
            let mut task = task.lock().unwrap_or_else(PoisonError::into_inner);
            let (shard, rows, head) = &mut *task;
            *head = shard.band_head(rows);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..tasks.len() {
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    tasks.into_iter().map(|task| task.into_inner().unwrap_or_else(PoisonError::into_inner).2).collect()
}

/// Back-substitution from the last shard to the first.
struct Back {
    columns: Columns,
    layer: Layer,
    groups: Vec<u8>,
    states: Vec<State>,
    /// The first rows of the shard behind, not solved yet.
    window: Vec<Row>,
}

impl Back {
    fn new(columns: Columns, layer: &Layer, groups: Vec<u8>) -> Result<Self, NoMemory> {
        let states = vec![[0; GROUP_COLUMNS as usize]; columns.groups()];
        let mut window = Vec::new();
        window.try_reserve_exact(WINDOW)?;
        Ok(Self { columns, layer: layer.clone(), groups, states, window })
    }

    /// Bands the shard's tail, which it gives, and solves what no shard before it can still change.
    #[expect(
        clippy::indexing_slicing,
        reason = "rows of the shard and the window behind it, words of the group from a block on"
    )]
    fn finish(&mut self, shard: &Shard<'_>, rows: &mut Rows) -> Result<Stretch, NoMemory> {
        let own = shard.to - shard.from;
        // There is none behind the last shard.
        rows.0[own..].copy_from_slice(&self.window);
        let tail = shard.band_tail(rows)?;
        let open = if shard.from == 0 { 0 } else { WINDOW };
        let (window, rows) = rows.0.split_at(open);
        let first = (shard.from + open) / BLOCK_SLOTS;
        let mut rest = self.groups.as_mut_slice();
        for (group, state) in self.states.iter_mut().enumerate() {
            let len = self.layer.blocks.len_bytes(self.columns, group);
            let (words, behind) = rest.split_at_mut(len);
            rest = behind;
            let of_group = self.columns.of_group(group);
            let before = self.layer.blocks.words_before(first, of_group, group + 1 == self.columns.groups());
            solve_blocks(rows, first, (self.layer.blocks, self.columns, group), state, &mut words[8 * before..]);
        }
        self.window.clear();
        self.window.extend_from_slice(window);
        Ok(tail)
    }
}
