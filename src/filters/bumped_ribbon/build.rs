//! Builds a bumped ribbon: chooses the columns, and then builds a single system, or one layer after
//! the other, shard by shard. For some numbers of keys, the builder makes several filters and keeps
//! the smallest.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::band::{Keys, Row, Rows, SHARD_SLOTS, Section, WINDOW, buckets_of_shards, tail_of};
use super::band::{State, solve_blocks};
use super::hashes::{remix, unremix};
use super::layer::{Blocks, Columns, bumps_len_bytes};
use super::read::{Geometry, Layer};
use super::small::{Small, wanted_sums};
use super::{BLOCK_SLOTS, BUCKET_STARTS, GROUP_COLUMNS, MAX_COLUMNS};
use crate::codec::put_varint;
use crate::filters::build::{Effort, Header, room_behind};
use crate::filters::filter::Budget;
use crate::filters::{FilterKind, math};
use crate::hash::KeyHash;
use crate::simd::{NoMemory, try_collect, try_zeros};

/// The density of layers, and whether they are cut into shards. Each cut costs some slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Density {
    /// The number of slots of a layer per thousand keys. It is low enough that hardly any slot
    /// stays empty. With a million keys, a density of 970 bumps 3.2 % of the keys and leaves 0.16 %
    /// of the slots empty. 950 bumps 5.0 % and leaves 0.05 %. 920 bumps 8.0 % and leaves 0.01 %.
    pub(super) slots_per_mille: u128,
    /// Whether a layer is one shard, however long it is.
    is_one_shard: bool,
}

/// The number of keys up to which the builder solves a single system and tries no layers. With more
/// keys, a filter of layers may be smaller than a single system: see docs/DESIGN.md, "one system
/// for few keys".
pub(super) const SURELY_SINGLE_KEYS: usize = 1_500;
/// The number of keys below which one block of slots more or less changes the size noticeably: see
/// docs/DESIGN.md, "one system for few keys".
pub(super) const NEAR_BORDER_KEYS: usize = 9_728;
const NEAR_BORDER: Density = Density { slots_per_mille: 950, is_one_shard: true };
/// The number of keys below which the builder tries several numbers of blocks, if there are more
/// than [`ONE_TRY_KEYS`] keys. With only one number of blocks, some sets of keys would leave many
/// slots empty (docs/DESIGN.md, "several tries up to 20,479 keys").
const SEVERAL_TRIES_KEYS: usize = 20_480;
/// The numbers of additional blocks that the builder tries, in this order. A negative number means
/// fewer blocks.
const BLOCKS_MORE: [i128; 6] = [0, -1, 1, -2, -4, -6];
/// The maximum number of tries for fewer than [`NEAR_BORDER_KEYS`] keys.
const NEAR_BORDER_TRIES: usize = 4;
/// For fewer than [`NEAR_BORDER_KEYS`] keys, the tries end if a try has at most one spare slot per
/// this number of keys. Up to [`MAX_SINGLE_KEYS`] keys, the try must also be no larger than the
/// smallest possible single system.
pub(super) const KEYS_A_SPARE_SLOT: usize = 160;
/// The value of [`KEYS_A_SPARE_SLOT`] for [`NEAR_BORDER_KEYS`] keys or more, where 97 of 100 first
/// tries reach it (docs/DESIGN.md). A limit of 160 would need more tries and a slower build.
const MORE_KEYS_A_SPARE_SLOT: usize = 128;
/// With [`NEAR_BORDER_KEYS`] keys or more, the tries end if a try has more than one spare slot per
/// this number of keys. Hashes that exceed this limit usually do so with every number of blocks.
const HOPELESS_KEYS_A_SPARE_SLOT: usize = 16;
/// The number of keys up to which the builder tries layers only once. A single system of so few
/// keys has 1 % more slots than keys, so other numbers of blocks could save little.
pub(super) const ONE_TRY_KEYS: usize = 2_560;
/// The density from [`NEAR_BORDER_KEYS`] keys to fewer than [`MANY_KEYS`], except for compact
/// filters. With fewer slots, more keys would be bumped, and their queries are slower. With more
/// slots, more of the slots would stay empty.
const MORE: Density = Density { slots_per_mille: 970, is_one_shard: false };
/// The density from [`MANY_KEYS`] keys on, except for compact filters. It bumps 4.1 % of the keys.
const MANY: Density = Density { slots_per_mille: 960, is_one_shard: false };
const MANY_KEYS: usize = 60_000;
/// The density of compact filters from [`NEAR_BORDER_KEYS`] keys on. A layer is one shard and loses
/// no slots at the ends of shards. A build takes 24 bytes per key instead of about 10
/// (docs/DESIGN.md, "little memory while building").
const COMPACT: Density = Density { slots_per_mille: 930, is_one_shard: true };
/// The maximum number of keys of the system after the last layer. The share of spare slots that a
/// system needs grows with its size.
pub(super) const MAX_SINGLE_KEYS: usize = 4_096;
/// The maximum amount, in thousandths, by which a budget in bits is rounded up to whole groups of
/// columns. Without this rounding, `bumped-ribbon:8` would get 7.94 columns with 10,000 keys, and
/// its blocks would not be cache lines.
const NEARLY_WHOLE_PER_MILLE: u32 = 15;
/// The number of seeds to try before slots are added.
const SEEDS: u8 = 8;
/// The maximum number of spare slots of a single system. If there are no layers, the header stores
/// the number in one byte. No measured system needed so many.
const MAX_SPARE: usize = 255;

/// Builds the filter over distinct, sorted hashes. The function may reorder the hashes. It returns
/// `None` if it finds no solution, for example because there would be too many layers. In practice,
/// this happens only with chosen hashes or with numbers that are not hashes.
pub(super) fn build(
    budget: Budget,
    hashes: &mut [KeyHash],
    effort: Effort,
) -> std::result::Result<Option<(Header<'static>, Vec<u8>)>, NoMemory> {
    let columns = choose_columns(budget, hashes.len() as u64);
    let keys = hashes.len();
    let mut layered = |density| layered(columns, density, hashes, effort.threads);
    let built = match keys {
        _ if keys <= SURELY_SINGLE_KEYS => single(columns, hashes),
        _ if keys < SEVERAL_TRIES_KEYS => smallest(columns, density(budget, keys), hashes),
        _ => layered(density(budget, keys)),
    };
    Ok(built?.map(|Built { header, payload, .. }| (header, payload)))
}

pub(super) fn density(budget: Budget, keys: usize) -> Density {
    match keys {
        _ if keys < NEAR_BORDER_KEYS => NEAR_BORDER,
        _ if budget.compact => COMPACT,
        _ if keys < MANY_KEYS => MORE,
        _ => MANY,
    }
}

/// Returns the columns that give the requested FPR or, for a budget in bits, the columns that fit
/// into it. A budget in bits gives 1 to [`MAX_COLUMNS`] columns, and may be rounded up: see
/// [`NEARLY_WHOLE_PER_MILLE`].
pub(super) fn choose_columns(budget: Budget, keys: u64) -> Columns {
    if let Some(wanted) = budget.rate {
        let (all, rate) = math::columns_of_rate(wanted, MAX_COLUMNS);
        // If a share s of the blocks has one column less, the FPR is (1 + s) times that of all
        // columns.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
        let fewer_share = ((wanted / rate - 1.0) * 65_536.0) as u16;
        return Columns { all, fewer_share };
    }
    // Columns do not get all bits. In layers, each 128 slots have two bump bits, and the layers
    // have a record. One slot in 500 stays empty.
    let few = usize::try_from(keys).ok().filter(|&keys| keys <= ONE_TRY_KEYS);
    let keys = u128::from(keys);
    let bits = keys * u128::from(budget.millibits) / 1000;
    let (bits, slots) = if let Some(few) = few {
        (bits, keys + first_spare(few) as u128 + 1)
    } else {
        (bits.saturating_sub(keys / 64 + 128), keys + keys / 500 + 24)
    };
    let share = (bits << 16) / slots;
    let most = u128::from(MAX_COLUMNS) << 16;
    let least = 1 << 16;
    #[expect(clippy::cast_possible_truncation, reason = "at most 32 << 16")]
    let share = share.clamp(least, most) as u32;
    let all = share.div_ceil(1 << 16);
    let is_nearly_whole = ((all << 16) - share) * 1000 <= share * NEARLY_WHOLE_PER_MILLE;
    if is_nearly_whole && all.is_multiple_of(GROUP_COLUMNS) {
        return Columns { all, fewer_share: 0 };
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`all` is rounded up by less than one, so the difference is less than 1 << 16"
    )]
    Columns { all, fewer_share: ((all << 16) - share) as u16 }
}

/// Returns the number of slots beyond the number of keys for the first try of a single system.
pub(super) fn first_spare(keys: usize) -> usize {
    if keys <= BLOCK_SLOTS { 0 } else { 1 + keys / 100 }
}

/// Returns a system that has a solution, with the bytes of each group of columns. Returns `None` if
/// no try gives a solution.
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

/// The result of a try: `None` if there is no solution.
type Tried<T> = std::result::Result<Option<T>, NoMemory>;

struct Built {
    header: Header<'static>,
    payload: Vec<u8>,
    /// The slots of all layers and of the single system together.
    slots: usize,
}

impl Built {
    /// Returns the total length of the payload and the record of layers in bytes. The record also
    /// takes two bytes for its tag and its length. A filter without layers has no record.
    fn len_bytes(&self) -> usize {
        let record = self.header.record.len();
        self.payload.len() + record + if record > 0 { 2 } else { 0 }
    }
}

/// Builds one or more filters of layers. Below [`NEAR_BORDER_KEYS`] keys, also builds a filter of a
/// single system if it may be smaller, or if no filter of layers was built. Returns the smallest
/// filter, or `None` if there is none.
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
        // The keys are few enough to copy. Each try reorders its copy.
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

/// Builds a filter of a single system. Returns `None` if no try gives a solution.
fn single(columns: Columns, hashes: &[KeyHash]) -> Tried<Built> {
    let Some((small, groups)) = solve_single(columns, hashes, &mut Rows::default())? else { return Ok(None) };
    let Ok(spare) = u8::try_from(small.slots - hashes.len()) else { return Ok(None) };
    let params = [columns.param(), small.seed, spare];
    let header = Header { kind: FilterKind::BumpedRibbon, params, record: [].as_slice().into() };
    let len = groups.iter().map(Vec::len).sum();
    let mut payload = Vec::new();
    payload.try_reserve_exact(len + room_behind(len))?;
    groups.iter().for_each(|group| payload.extend_from_slice(group));
    Ok(Some(Built { header, payload, slots: small.slots }))
}

/// Builds a filter of layers. The function reorders the hashes. Returns `None` if it finds no such
/// filter: see [`build_layers`].
#[expect(clippy::indexing_slicing, reason = "each layer bumped keys that exist")]
fn layered(columns: Columns, density: Density, hashes: &mut [KeyHash], threads: NonZeroUsize) -> Tried<Built> {
    let mut bumped = Vec::new();
    let built = build_layers((columns, density), hashes, threads, &mut bumped);
    // Each layer remixed the hashes of all keys that it bumped. So a hash is restored once for each
    // layer that bumped its key.
    for from in bumped {
        for hash in &mut hashes[from..] {
            *hash = KeyHash::from_raw(unremix(hash.raw()));
        }
    }
    built
}

/// Builds the layers and the single system for the keys that the last layer bumps, and assembles
/// the payload. Returns `None` if there would be too many layers, if the single system has no
/// solution, or if the parts do not fit together. Adds to `bumped` the position of the first key
/// that each layer bumped. From this position on, every hash is replaced by the hash for the next
/// layer.
#[expect(clippy::indexing_slicing, reason = "each layer bumped keys that exist")]
fn build_layers(
    (columns, density): (Columns, Density),
    hashes: &mut [KeyHash],
    threads: NonZeroUsize,
    bumped: &mut Vec<usize>,
) -> Tried<Built> {
    let mut layers = Vec::new();
    let mut built = Vec::new();
    // A layer has fewer slots than keys, so it has at most this many shards.
    let threads = threads.get().min(hashes.len() / SHARD_SLOTS + 1);
    let mut scratch: Vec<Rows> = (0..threads).map(|_| Rows::default()).collect();
    let mut from = 0;
    while layers.is_empty() || hashes.len() - from > MAX_SINGLE_KEYS {
        if layers.len() == super::read::MAX_LAYERS {
            return Ok(None);
        }
        from += build_layer((columns, density), &mut hashes[from..], &mut scratch, &mut layers, &mut built)?;
        bumped.push(from);
    }
    let (next, mut rows) = (&hashes[from..], scratch.pop().unwrap_or_default());
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
    let header = Header { kind: FilterKind::BumpedRibbon, params: [columns.param(), low, high], record: record.into() };
    Ok(Some(Built { header, payload, slots }))
}

/// Returns the record: the number of blocks of each layer, a zero, and the number of slots and the
/// seed of the single system, if there is one.
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

struct BuiltLayer {
    /// All groups of columns, one after the other.
    groups: Vec<u8>,
    bumps: Vec<u8>,
}

/// Assembles the payload in the memory of the first layer, which is by far the largest.
fn assemble(geometry: &Geometry, mut built: Vec<BuiltLayer>, last: &[Vec<u8>]) -> Result<Vec<u8>, NoMemory> {
    let mut payload = built.first_mut().map(|first| std::mem::take(&mut first.groups)).unwrap_or_default();
    payload.try_reserve_exact(geometry.payload_len.saturating_sub(payload.len()))?;
    payload.resize(geometry.payload_len, 0);
    put_all(geometry, &mut payload, &built, last);
    Ok(payload)
}

/// Assembles the payload in place. The payload begins with the groups of the first layer.
#[expect(clippy::indexing_slicing, reason = "the geometry was laid out for these parts")]
fn put_all(geometry: &Geometry, payload: &mut [u8], built: &[BuiltLayer], last: &[Vec<u8>]) {
    let columns = geometry.columns;
    // For each group: its offset within its layer, its length, and its offset in the payload.
    let moves = |layer: &Layer| {
        let mut from = 0;
        let lens = (0..columns.groups()).map(|group| layer.blocks.len_bytes(columns, group));
        let all = lens.zip(layer.groups).map(|(len, to)| {
            from += len;
            (from - len, len, to)
        });
        all.collect::<Vec<_>>()
    };
    for (from, len, to) in moves(&geometry.layers[0]).into_iter().rev() {
        payload.copy_within(from..from + len, to);
    }
    let mut put = |to: usize, bytes: &[u8]| payload[to..to + bytes.len()].copy_from_slice(bytes);
    for (number, (layer, built)) in geometry.layers.iter().zip(built).enumerate() {
        put(layer.asked.bumps, &built.bumps);
        // The groups of the first layer are already in place.
        if number > 0 {
            moves(layer).into_iter().for_each(|(from, len, to)| put(to, &built.groups[from..from + len]));
        }
    }
    if let Some(small) = &geometry.last {
        last.iter().enumerate().for_each(|(group, bytes)| put(small.groups[group], bytes));
    }
}

/// Allocates the groups of a layer of `keys` keys. The first layer gets room for the other layers
/// and for the bytes that the filter block appends.
fn room_for_groups(columns: Columns, layer: &Layer, keys: usize, is_first: bool) -> Result<Vec<u8>, NoMemory> {
    let len_of = |blocks: Blocks| (0..columns.groups()).map(|group| blocks.len_bytes(columns, group)).sum::<usize>();
    let len = len_of(layer.blocks);
    let mut capacity = len;
    if is_first {
        // All layers and the single system together have as many slots as keys, and a few more.
        let all = Blocks::new((keys + keys / 256).div_ceil(BLOCK_SLOTS) + 2, columns);
        capacity = len.max(len_of(all) + bumps_len_bytes(keys / BUCKET_STARTS) + 64);
        capacity += room_behind(capacity);
    }
    let mut groups = Vec::new();
    groups.try_reserve_exact(capacity)?;
    groups.resize(len, 0);
    Ok(groups)
}

/// Builds one layer and appends it to `layers` and `built`. The function moves the bumped keys to
/// the end of `hashes`, replaces their hashes by the hashes for the next layer, and sorts them.
/// Returns the position of the first bumped key.
#[expect(clippy::indexing_slicing, reason = "the vector has two bits for every bucket, and all keys exist")]
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
    // `left` counts the keys of unfinished shards. From `kept` on, keys are bumped.
    let (mut left, mut kept) = (hashes.len(), hashes.len());
    for buckets in shards.rchunks(scratch.len()) {
        let keys = Keys { starts, hashes: &hashes[..left], wanted: wanted_sums(columns) };
        let shards: Vec<Shard<'_>> = buckets.iter().map(|buckets| Shard::new(keys, buckets.clone(), slots)).collect();
        let mut sections = band_shards(&shards, scratch)?;
        for (shard, rows) in shards.iter().zip(scratch.iter_mut()).rev() {
            sections.push(back.finish(shard, rows)?);
        }
        left = shards.first().map_or(0, Shard::first_key);
        let mut bumped = Vec::new();
        for section in sections {
            for (bucket, bits) in (section.starts_at()..).zip(&section.bumps) {
                bumps[bucket / 4] |= bits << (bucket % 4 * 2);
            }
            bumped.try_reserve(section.bumped.len())?;
            bumped.extend(section.bumped);
        }
        bumped.sort_unstable_by_key(|range| range.start);
        for key in bumped.into_iter().rev().flat_map(Iterator::rev) {
            kept -= 1;
            hashes.swap(key, kept);
        }
    }
    let bumped = &mut hashes[kept..];
    bumped.iter_mut().for_each(|hash| *hash = KeyHash::from_raw(remix(hash.raw())));
    bumped.sort_unstable();
    built.push(BuiltLayer { groups: back.groups, bumps });
    layers.push(layer);
    Ok(kept)
}

/// A shard of a layer: the buckets `buckets` and the slots `from..to`.
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

    /// Returns the number of rows after the shard's own rows that its tail may use.
    fn window(&self) -> usize {
        if self.is_last { 0 } else { WINDOW }
    }

    fn tail(&self) -> usize {
        tail_of(&self.buckets)
    }

    /// Resets the rows, and bands all buckets except the tail.
    fn band_head(&self, rows: &mut Rows) -> Result<Section, NoMemory> {
        rows.reset(self.to - self.from + self.window())?;
        let limit = self.to.min(self.buckets.end * BUCKET_STARTS);
        let head = Section::new(self.buckets.start..self.tail(), self.from, limit);
        let mut head = if self.buckets.start > 0 { head.relieved() } else { head };
        head.run(self.keys, rows)?;
        Ok(head)
    }

    /// Bands the tail. The first rows of the next shard, if there is one, must be in place.
    fn band_tail(&self, rows: &mut Rows) -> Result<Section, NoMemory> {
        let mut tail = Section::new(self.tail()..self.buckets.end, self.from, self.to + self.window());
        tail.run(self.keys, rows)?;
        Ok(tail)
    }
}

/// Bands the heads of adjacent shards on one thread per shard, each in rows of its own. The calling
/// thread takes part. If a thread cannot be started, the other threads do its work. Returns the
/// heads in the order of the shards.
fn band_shards(shards: &[Shard<'_>], scratch: &mut [Rows]) -> Result<Vec<Section>, NoMemory> {
    if let ([shard], [rows, ..]) = (shards, &mut *scratch) {
        return Ok(vec![shard.band_head(rows)?]);
    }
    let tasks: Vec<_> =
        shards.iter().zip(scratch).map(|(shard, rows)| Mutex::new((shard, rows, Err(NoMemory)))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            // Only this thread has the number of this task, so the lock is free.
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

/// The state of back-substitution, which goes from the last shard to the first.
struct Back {
    columns: Columns,
    layer: Layer,
    groups: Vec<u8>,
    states: Vec<State>,
    /// The first rows of the next shard, which are not solved yet.
    window: Vec<Row>,
}

impl Back {
    fn new(columns: Columns, layer: &Layer, groups: Vec<u8>) -> Result<Self, NoMemory> {
        let states = vec![[0; GROUP_COLUMNS as usize]; columns.groups()];
        let mut window = Vec::new();
        window.try_reserve_exact(WINDOW)?;
        Ok(Self { columns, layer: layer.clone(), groups, states, window })
    }

    /// Bands the tail of the shard, solves the rows that no earlier shard can change, and writes
    /// their slots. Keeps the other rows as the window. Returns the banded tail.
    #[expect(
        clippy::indexing_slicing,
        reason = "the rows contain the shard and the window, and the words contain the group"
    )]
    fn finish(&mut self, shard: &Shard<'_>, rows: &mut Rows) -> Result<Section, NoMemory> {
        let own = shard.to - shard.from;
        // For the last shard, both slices are empty.
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
