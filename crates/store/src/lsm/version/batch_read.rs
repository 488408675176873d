//! Reads a batch of keys from the SSTs of a version, so that the cache misses in the filters and the
//! reads of data blocks overlap.

use super::Version;
use super::level::{Level, Probe, ReadContext, Slot};
use super::run_map::{MAX_RUNS, MappedRuns};
use crate::error::Result;
use crate::lsm::manifest::edit::NUM_LEVELS;
use crate::lsm::options::FilterUse;
use crate::lsm::stats::Tally;
use crate::sstable::{BlockReads, KnownBlock};
use filterblock::{Answer, FilterSlot, KeyHash, KeyHasher, Runs};

/// The maximum number of keys of one `multi_get` that are processed together, one for each bit of a
/// 32-bit mask.
pub(crate) const BATCH: usize = 32;

/// Up to [`BATCH`] keys, as a structure of arrays.
#[derive(Debug, Clone)]
pub(crate) struct Batch<'a> {
    keys: [&'a [u8]; BATCH],
    prefixes: [u64; BATCH],
    hashes: [KeyHash; BATCH],
    /// The minimum and the maximum order prefix of the keys. If an SST covers all keys of a batch
    /// or none, these two prefixes usually decide that.
    min_prefix: u64,
    max_prefix: u64,
    /// The bits of the keys that have no result so far.
    pub(crate) open: u32,
}

/// The keys of a batch that one SST may hold, with their hashes in contiguous memory.
#[derive(Debug)]
pub(crate) struct Group<'b> {
    gathered: Option<Gathered>,
    /// The hashes of the keys, if the keys are the first ones of the batch. Otherwise empty.
    front: &'b [KeyHash],
}

#[derive(Debug)]
struct Gathered {
    len: usize,
    hashes: [KeyHash; BATCH],
    /// The position of each key in the batch.
    places: [u8; BATCH],
}

impl Group<'_> {
    #[inline]
    pub(crate) fn hashes(&self) -> &[KeyHash] {
        match &self.gathered {
            None => self.front,
            Some(gathered) => gathered.hashes.get(..gathered.len).unwrap_or_default(),
        }
    }

    /// Returns the position of the group's `i`-th key in the batch.
    #[inline]
    pub(crate) fn place(&self, i: usize) -> Option<u32> {
        match &self.gathered {
            None => u32::try_from(i).ok(),
            Some(gathered) => gathered.places.get(i).map(|&place| place.into()),
        }
    }
}

impl<'a> Batch<'a> {
    pub(crate) fn new<K: AsRef<[u8]>>(keys: &'a [K], hasher: &KeyHasher) -> Self {
        let mut batch = Self {
            keys: [&[]; BATCH],
            prefixes: [0; BATCH],
            hashes: [KeyHash::from_raw(0); BATCH],
            min_prefix: u64::MAX,
            max_prefix: 0,
            open: 0,
        };
        let parts = batch.keys.iter_mut().zip(&mut batch.prefixes).zip(&mut batch.hashes);
        for (((key, prefix), hash), from) in parts.zip(keys) {
            let probe = Probe::new(from.as_ref(), hasher);
            (*key, *prefix, *hash) = (probe.key, probe.prefix, probe.hash);
            batch.min_prefix = batch.min_prefix.min(probe.prefix);
            batch.max_prefix = batch.max_prefix.max(probe.prefix);
            batch.open = batch.open << 1 | 1;
        }
        batch
    }

    /// Returns the key at a position, or `None` if the position is [`BATCH`] or more. If the batch
    /// has fewer than [`BATCH`] keys, the key at a position after its last key is empty.
    #[inline]
    pub(crate) fn probe(&self, place: u32) -> Option<Probe<'a>> {
        let place = place as usize;
        Some(Probe { key: self.keys.get(place)?, prefix: *self.prefixes.get(place)?, hash: *self.hashes.get(place)? })
    }

    /// Returns the hashes of the keys from the first one up to the last one that has no result so far.
    #[inline]
    pub(crate) fn open_hashes(&self) -> &[KeyHash] {
        self.hashes.get(..(u32::BITS - self.open.leading_zeros()) as usize).unwrap_or_default()
    }

    /// Returns the bits of `of` whose keys lie in the key range of an SST. `smallest` and `largest`
    /// are the order prefixes of the SST's first and last key. If the prefix of a key equals one of
    /// these two, `covers` decides.
    #[inline]
    pub(crate) fn within(&self, (smallest, largest): (u64, u64), of: u32, covers: impl Fn(&Probe<'_>) -> bool) -> u32 {
        if smallest < self.min_prefix && self.max_prefix < largest {
            return of;
        }
        if self.max_prefix < smallest || largest < self.min_prefix {
            return 0;
        }
        let (mut inside, mut on_edge) = (0u32, 0u32);
        for (i, &prefix) in self.prefixes.iter().enumerate() {
            inside |= u32::from((smallest < prefix) & (prefix < largest)) << i;
            on_edge |= u32::from((smallest == prefix) | (prefix == largest)) << i;
        }
        on_edge &= of;
        while let Some(probe) = self.probe(on_edge.trailing_zeros()) {
            inside |= u32::from(covers(&probe)) << on_edge.trailing_zeros();
            on_edge &= on_edge - 1;
        }
        inside & of
    }

    #[inline]
    pub(crate) fn gather(&self, mask: u32) -> Group<'_> {
        if mask & mask.wrapping_add(1) == 0 {
            let front = self.hashes.get(..mask.count_ones() as usize).unwrap_or_default();
            return Group { gathered: None, front };
        }
        let mut gathered = Gathered { len: 0, hashes: [KeyHash::from_raw(0); BATCH], places: [0; BATCH] };
        // Write every key, but advance `len` only for a key in `mask`: the next key overwrites an
        // unwanted one. A branch on the bits of `mask` would often be mispredicted.
        for (i, &hash) in (0u8..).zip(&self.hashes) {
            if let (Some(to), Some(place)) =
                (gathered.hashes.get_mut(gathered.len), gathered.places.get_mut(gathered.len))
            {
                (*to, *place) = (hash, i);
            }
            gathered.len += (mask >> i & 1) as usize;
        }
        Group { gathered: Some(gathered), front: &[] }
    }
}

pub(crate) struct BatchAnswers {
    /// The keys that each mapped SST may hold: a bit for each key. `None` if no SST holds any.
    masks: Option<Box<[u32; MAX_RUNS]>>,
    /// The keys that all SSTs cover and deny.
    denied: u32,
}

impl BatchAnswers {
    /// Opens the denied keys again, for the deeper levels.
    pub(crate) fn give_back(&self, batch: &mut Batch<'_>) {
        batch.open |= self.denied;
    }

    /// Returns the bits of the keys that the mapped SST at a place may hold.
    #[inline]
    pub(crate) fn of(&self, place: usize) -> u32 {
        self.masks.as_ref().map_or(0, |masks| masks.get(place).copied().unwrap_or(u32::MAX))
    }
}

/// The maximum number of SSTs of a level that is read like level 0: one query asks a filter for
/// many keys of a batch. From the first deeper level with more SSTs on, a query is one [`Pair`]
/// (key, SST). In a level of few SSTs, pairs are slower: see docs/DESIGN.md.
const FEW_SSTS: usize = 4;

/// A key of a batch, and an SST of a deeper level that may hold it.
#[derive(Debug, Clone, Copy)]
struct Pair<'v> {
    level: &'v Level,
    slot: &'v Slot,
    place: u32,
}

/// The pairs (key, SST) of a batch in the order of the levels, with the filter query and the answer
/// of each pair.
#[derive(Debug, Default)]
pub(crate) struct Pairs<'v> {
    pairs: Vec<Pair<'v>>,
    queries: Vec<(FilterSlot, KeyHash)>,
    answers: Vec<Answer>,
    /// One element for each pair: the data block, if its read was announced.
    blocks: Vec<Option<usize>>,
    wanted: Vec<Wanted<'v>>,
}

/// A key of a batch that the filter of an SST did not deny.
#[derive(Debug, Clone, Copy)]
struct Wanted<'v> {
    slot: &'v Slot,
    place: u32,
    answer: Answer,
    /// The data block, if it was announced.
    block: Option<usize>,
}

impl Version {
    /// Reads many keys as [`Version::get`] does. If a version of the `i`-th key is found, its value
    /// (`None` for a tombstone) goes to `values[i]`, and the key's bit in `batch.open` is cleared.
    ///
    /// An SST of level 0, or of an upper level with few SSTs, often covers many keys of a batch.
    /// Its filter gets all of them in one query. In a deeper level, an SST usually covers few keys
    /// of a batch. So one list of pairs (key, SST) asks the filters of all deeper levels.
    pub(crate) fn get_batch<'v>(
        &'v self,
        batch: &mut Batch<'_>,
        values: &mut [Option<Vec<u8>>],
        context: &ReadContext<'_>,
        pairs: &mut Pairs<'v>,
    ) -> Result<()> {
        let mut tallies = [Tally::default(); NUM_LEVELS];
        let is_grouped = |level: &&Level| level.number == 0 || level.slots.len() <= FEW_SSTS;
        let (grouped, paired) = self.levels.split_at(self.levels.iter().take_while(is_grouped).count());
        let result = grouped.iter().try_for_each(|level| {
            let mut tally = Tally::default();
            let result = level.get_batch(batch, values, context, &mut tally, &mut pairs.wanted);
            if let Some(of_level) = tallies.get_mut(level.number) {
                *of_level = tally;
            }
            result
        });
        let result = result.and_then(|()| {
            pairs.collect(paired, batch);
            pairs.ask(context);
            pairs.announce(batch, context);
            pairs.search(batch, values, context, &mut tallies)
        });
        for level in &self.levels {
            context.recorder.level(level.number, tallies.get(level.number).unwrap_or(&Tally::default()));
        }
        result
    }
}

impl<'v> Pairs<'v> {
    fn collect(&mut self, levels: &'v [Level], batch: &Batch<'_>) {
        self.pairs.clear();
        self.queries.clear();
        for level in levels {
            let mut open = batch.open;
            while let Some((place, probe)) = batch.probe(open.trailing_zeros()).map(|key| (open.trailing_zeros(), key))
            {
                open &= open - 1;
                let Some(slot) = level.candidate(&probe).filter(|slot| slot.covers(&probe)) else { continue };
                self.pairs.push(Pair { level, slot, place });
                self.queries.push((slot.filter, probe.hash));
            }
        }
    }

    fn ask(&mut self, context: &ReadContext<'_>) {
        self.answers.clear();
        self.answers.resize(self.queries.len(), Answer::Unfiltered);
        if context.filter_use == FilterUse::Consult {
            context.filters.ask_pairs(&self.queries, &mut self.answers);
        }
    }

    /// Announces the reads of several keys, so that the storage loads their data blocks at the same
    /// time. Announces at most one pair of each key: the first one whose filter answered "maybe".
    fn announce(&mut self, batch: &Batch<'_>, context: &ReadContext<'_>) {
        self.blocks.clear();
        self.blocks.resize(self.pairs.len(), None);
        let num_reads = self.answers.iter().filter(|&&answer| answer == Answer::Maybe).count();
        if !context.announces(num_reads) {
            return;
        }
        let mut announced = 0u32;
        let mut last: Option<(&Slot, usize)> = None;
        for ((pair, &answer), block) in self.pairs.iter().zip(&self.answers).zip(&mut self.blocks) {
            if answer == Answer::Maybe
                && announced >> pair.place & 1 == 0
                && let Some(probe) = batch.probe(pair.place)
            {
                announced |= 1 << pair.place;
                let of_slot = last.filter(|(slot, _)| std::ptr::eq(*slot, pair.slot)).map(|(_, block)| block);
                *block = pair.slot.table.announce(probe.key, of_slot, context.cache);
                last = block.map(|block| (pair.slot, block));
            }
        }
    }

    /// Searches the SST of each pair whose filter did not deny the key, in the order of the levels.
    /// After a key is found, its pairs in deeper levels are neither searched nor counted.
    fn search(
        &mut self,
        batch: &mut Batch<'_>,
        values: &mut [Option<Vec<u8>>],
        context: &ReadContext<'_>,
        tallies: &mut [Tally; NUM_LEVELS],
    ) -> Result<()> {
        let mut rest = self.pairs.iter().zip(&self.answers).zip(&self.blocks).peekable();
        while let Some(((first, _), _)) = rest.peek() {
            let number = first.level.number;
            let Some(tally) = tallies.get_mut(number) else { return Ok(()) };
            while let Some(((pair, &answer), &block)) = rest.next_if(|((pair, _), _)| pair.level.number == number) {
                match answer {
                    _ if batch.open >> pair.place & 1 == 0 => {}
                    Answer::No => tally.points.count_denied(1, pair.slot.expected_of_keys),
                    _ => self.wanted.push(Wanted { slot: pair.slot, place: pair.place, answer, block }),
                }
            }
            search_wanted(&mut self.wanted, batch, values, context, tally)?;
        }
        Ok(())
    }
}

/// Searches SSTs of one level for the wanted keys, at most one SST for each key, and empties the
/// list. An announced data block with several of the keys is read once. The values of the found
/// keys go to `values`, and the bits of these keys in `batch.open` are cleared.
fn search_wanted(
    wanted: &mut Vec<Wanted<'_>>,
    batch: &mut Batch<'_>,
    values: &mut [Option<Vec<u8>>],
    context: &ReadContext<'_>,
    tally: &mut Tally,
) -> Result<()> {
    // The sort brings the keys of one block together, and the blocks of an SST into file order.
    wanted.sort_unstable_by_key(|wanted| (wanted.slot.stored.meta.number, wanted.block));
    let share =
        |a: &Wanted<'_>, b: &Wanted<'_>| a.block.is_some() && a.block == b.block && std::ptr::eq(a.slot, b.slot);
    let result = wanted.chunk_by(share).try_for_each(|group| {
        let content = match group {
            &[Wanted { slot, block: Some(position), .. }, _, ..] => {
                let mut reads = BlockReads::default();
                // If the read fails, the first search reads again and reports the error.
                let content = slot.table.known_block(position, context.cache, &mut reads).ok();
                tally.add_reads(reads);
                content
            }
            _ => None,
        };
        for wanted in group {
            let block = match (wanted.block, &content) {
                (Some(position), Some(content)) => KnownBlock::Content(position, content),
                (Some(position), None) => KnownBlock::Position(position),
                (None, _) => KnownBlock::Unknown,
            };
            let Some(probe) = batch.probe(wanted.place) else { continue };
            let found = wanted.slot.search(&probe, context, (wanted.answer, block), tally)?;
            let Some(value) = found else { continue };
            batch.open &= !(1 << wanted.place);
            if let Some(to) = values.get_mut(wanted.place as usize) {
                *to = value;
            }
        }
        Ok(())
    });
    wanted.clear();
    result
}

impl Level {
    fn get_batch<'v>(
        &'v self,
        batch: &mut Batch<'_>,
        values: &mut [Option<Vec<u8>>],
        context: &ReadContext<'_>,
        tally: &mut Tally,
        wanted: &mut Vec<Wanted<'v>>,
    ) -> Result<()> {
        let answers = self.mapped.as_deref().map(|mapped| mapped.ask_batch(batch, tally));
        for (place, slot) in self.slots.iter().enumerate() {
            if batch.open == 0 {
                break;
            }
            let mask = batch.within((slot.smallest, slot.largest), batch.open, |probe| slot.covers(probe));
            match &answers {
                Some(answers) if slot.is_mapped => {
                    let found = mask & answers.of(place);
                    slot.want(found, Answer::Maybe, batch, context, wanted);
                    tally.points.count_denied((mask & !found).count_ones(), slot.expected_of_keys);
                }
                _ => slot.ask_batch(mask, batch, context, tally, wanted),
            }
            if !wanted.is_empty() {
                search_wanted(wanted, batch, values, context, tally)?;
            }
        }
        answers.iter().for_each(|answers| answers.give_back(batch));
        Ok(())
    }
}

impl Slot {
    /// Asks the filter for the keys with a bit in `mask`. Adds to `wanted` the keys that the filter
    /// does not deny. If several reads may overlap, announces them to the storage.
    fn ask_batch<'v>(
        &'v self,
        mask: u32,
        batch: &Batch<'_>,
        context: &ReadContext<'_>,
        tally: &mut Tally,
        wanted: &mut Vec<Wanted<'v>>,
    ) {
        let group = batch.gather(mask);
        let mut answers = [true; BATCH];
        let is_filtered = context.filter_use == FilterUse::Consult
            && context.filters.ask_batch(self.filter, group.hashes(), &mut answers);
        let mut found = mask;
        for (i, _) in answers.iter().enumerate().take(group.hashes().len()).filter(|&(_, may_contain)| !may_contain) {
            found &= !group.place(i).map_or(0, |place| 1 << place);
        }
        let answer = if is_filtered { Answer::Maybe } else { Answer::Unfiltered };
        self.want(found, answer, batch, context, wanted);
        tally.points.count_denied((mask & !found).count_ones(), self.expected_of_keys);
    }

    /// Adds to `wanted` the keys with a bit in `mask`. `answer` is the answer for each of them.
    fn want<'v>(
        &'v self,
        mask: u32,
        answer: Answer,
        batch: &Batch<'_>,
        context: &ReadContext<'_>,
        wanted: &mut Vec<Wanted<'v>>,
    ) {
        let announces = answer == Answer::Maybe && context.announces(mask.count_ones() as usize);
        let (mut rest, mut last) = (mask, None);
        while let Some(probe) = batch.probe(rest.trailing_zeros()) {
            let place = rest.trailing_zeros();
            rest &= rest - 1;
            let block = if announces { self.table.announce(probe.key, last, context.cache) } else { None };
            last = block;
            wanted.push(Wanted { slot: self, place, answer, block });
        }
    }
}

impl MappedRuns {
    /// Asks the map for the keys of a batch. Removes the bits of the keys that all SSTs cover and deny
    /// from `batch.open`, and counts these answers. [`BatchAnswers::give_back`] adds the bits again.
    pub(crate) fn ask_batch(&self, batch: &mut Batch<'_>, tally: &mut Tally) -> BatchAnswers {
        let hashes = batch.open_hashes();
        let mut found = [Runs::NONE; BATCH];
        self.map.ask_batch(hashes, &self.known, &mut found);
        let mut answers = BatchAnswers { masks: None, denied: 0 };
        let mut rest = batch.open;
        for (key, found) in found.iter().enumerate().take(hashes.len()).filter(|(_, found)| !found.is_empty()) {
            rest &= !(1 << key);
            let masks = answers.masks.get_or_insert_with(|| Box::new([0; MAX_RUNS]));
            for place in self.places(found).iter() {
                if let Some(mask) = masks.get_mut(usize::from(place)) {
                    *mask |= 1 << key;
                }
            }
        }
        if self.is_whole {
            answers.denied = batch.within(self.inside, rest, |_| false);
            self.all().count(answers.denied.count_ones().into(), tally);
            rest &= !answers.denied;
            while let Some(probe) = batch.probe(rest.trailing_zeros()) {
                let denies = self.denies(probe.prefix, &Runs::NONE, tally);
                answers.denied |= u32::from(denies) << rest.trailing_zeros();
                rest &= rest - 1;
            }
        }
        batch.open &= !answers.denied;
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filterblock::HashSeed;

    #[test]
    fn a_batch_has_a_bit_for_each_key_and_gathers_by_bits() {
        let keys: Vec<[u8; 1]> = (0..32).map(|i| [i]).collect();
        for len in 0..=32usize {
            let batch = Batch::new(&keys[..len], &HashSeed(3).into());
            assert_eq!(u64::from(batch.open), (1u64 << len) - 1);
            for mask in [batch.open, batch.open & 0x5555_5555, batch.open & 0x8000_0001, batch.open & 0xff] {
                let group = batch.gather(mask);
                assert_eq!(group.hashes().len(), mask.count_ones() as usize);
                let mut seen = 0;
                for (i, &hash) in group.hashes().iter().enumerate() {
                    let place = group.place(i).unwrap();
                    assert_eq!(hash, KeyHash::of(&keys[place as usize], HashSeed(3)));
                    seen |= 1 << place;
                }
                assert_eq!(seen, mask);
            }
        }
        assert!(Batch::new(&keys, &HashSeed(3).into()).probe(32).is_none());
    }
}
