//! Reads one key, or a batch of keys, from the SSTs of a version.

use super::batch_read::{BATCH, Batch, Probe};
use super::run_map::{MAX_RUNS, MappedRuns};
use super::{Level, Slot, Version};
use crate::error::Result;
use crate::lsm::manifest::edit::NUM_LEVELS;
use crate::lsm::options::FilterUse;
use crate::lsm::stats::reports::Reports;
use crate::lsm::stats::{Recorder, Tally};
use crate::sstable::{BlockCache, BlockReads, FoundValue, Handle, KnownBlock, TableFilter};
use filterblock::{Answer, FilterSet, FilterSlot, KeyHash, PrefixExtractor, Runs};

/// The settings of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadContext<'a> {
    pub(crate) filter_use: FilterUse,
    pub(crate) strict: bool,
    /// The extractor of the prefixes for which filters are asked after the key.
    pub(crate) extractor: Option<&'a PrefixExtractor>,
    pub(crate) cache: Option<&'a BlockCache>,
    pub(crate) reports: &'a Reports,
}

impl ReadContext<'_> {
    /// Returns whether a batch announces this number of reads to the storage. A single read has no
    /// other read to overlap with. With an extractor, the filter may still deny a prefix of an
    /// absent key, so that an announced read would be wasted.
    fn announces(&self, num_reads: usize) -> bool {
        num_reads > 1 && self.extractor.is_none()
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
    blocks: Vec<Option<Handle>>,
    wanted: Vec<Wanted<'v>>,
}

/// A key of a batch that the filter of an SST did not deny.
#[derive(Debug, Clone, Copy)]
struct Wanted<'v> {
    slot: &'v Slot,
    place: u32,
    answer: Answer,
    /// The data block, if it was announced.
    block: Option<Handle>,
}

impl Version {
    /// Returns the newest version of a key in the SSTs. The outer `None` means that no SST holds a
    /// version of the key. The inner `None` means that the key is deleted.
    #[inline]
    pub(crate) fn get<V: FoundValue>(
        &self,
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        recorder: Option<Recorder<'_>>,
    ) -> Result<Option<Option<V>>> {
        for level in &self.levels {
            let mut tally = Tally::default();
            let found = level.get(&self.filters, probe, context, &mut tally);
            if let Some(recorder) = recorder {
                recorder.level(level.number, &tally);
            }
            let found = found?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

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
        recorder: Option<Recorder<'_>>,
        pairs: &mut Pairs<'v>,
    ) -> Result<()> {
        let mut tallies = [Tally::default(); NUM_LEVELS];
        let is_grouped = |level: &&Level| level.number == 0 || level.slots.len() <= FEW_SSTS;
        let (grouped, paired) = self.levels.split_at(self.levels.iter().take_while(is_grouped).count());
        let result = grouped.iter().try_for_each(|level| {
            let mut tally = Tally::default();
            let result = level.get_batch(&self.filters, batch, values, context, &mut tally, &mut pairs.wanted);
            if let Some(of_level) = tallies.get_mut(level.number) {
                *of_level = tally;
            }
            result
        });
        let result = result.and_then(|()| {
            pairs.collect(paired, batch);
            pairs.ask(&self.filters, context.filter_use);
            pairs.announce(batch, context);
            pairs.search(&self.filters, batch, values, context, &mut tallies)
        });
        if let Some(recorder) = recorder {
            for level in &self.levels {
                recorder.level(level.number, tallies.get(level.number).unwrap_or(&Tally::default()));
            }
        }
        result
    }
}

impl<'v> Pairs<'v> {
    /// Finds the SSTs of the deeper levels that may hold the open keys of a batch.
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

    fn ask(&mut self, filters: &FilterSet, filter_use: FilterUse) {
        self.answers.clear();
        self.answers.resize(self.queries.len(), Answer::Unfiltered);
        if filter_use == FilterUse::Consult {
            filters.ask_pairs(&self.queries, &mut self.answers);
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
        let mut last: Option<(&Slot, Handle)> = None;
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
        filters: &FilterSet,
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
                    Answer::No => tally.count_denied(1, pair.slot),
                    _ => self.wanted.push(Wanted { slot: pair.slot, place: pair.place, answer, block }),
                }
            }
            search_wanted(&mut self.wanted, filters, batch, values, context, tally)?;
        }
        Ok(())
    }
}

/// Searches SSTs of one level for the wanted keys, at most one SST for each key, and empties the
/// list. An announced data block with several of the keys is read once. The values of the found
/// keys go to `values`, and the bits of these keys in `batch.open` are cleared.
fn search_wanted(
    wanted: &mut Vec<Wanted<'_>>,
    filters: &FilterSet,
    batch: &mut Batch<'_>,
    values: &mut [Option<Vec<u8>>],
    context: &ReadContext<'_>,
    tally: &mut Tally,
) -> Result<()> {
    // The sort brings the keys of one block together, and the blocks of an SST into file order.
    wanted.sort_unstable_by_key(|wanted| (wanted.slot.stored.meta.number, wanted.block.map(Handle::offset)));
    let share =
        |a: &Wanted<'_>, b: &Wanted<'_>| a.block.is_some() && a.block == b.block && std::ptr::eq(a.slot, b.slot);
    let result = wanted.chunk_by(share).try_for_each(|group| {
        let content = match group {
            &[Wanted { slot, block: Some(place), .. }, _, ..] => {
                let mut reads = BlockReads::default();
                // If the read fails, the first search reads again and reports the error.
                let content = slot.table.known_block(place, context.cache, &mut reads).ok();
                tally.add_reads(reads);
                content
            }
            _ => None,
        };
        for wanted in group {
            let block = match (wanted.block, &content) {
                (Some(place), Some(content)) => KnownBlock::Content(place, content),
                (Some(place), None) => KnownBlock::Place(place),
                (None, _) => KnownBlock::Unknown,
            };
            let Some(probe) = batch.probe(wanted.place) else { continue };
            let found = wanted.slot.search(filters, &probe, context, (wanted.answer, block), tally)?;
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
    /// Returns the SSTs that may cover the key: all SSTs of level 0, at most one of a deeper level.
    #[inline]
    fn candidates(&self, probe: &Probe<'_>) -> &[Slot] {
        if self.number == 0 { &self.slots } else { self.candidate(probe).map_or(&[], std::slice::from_ref) }
    }

    #[inline]
    fn get<V: FoundValue>(
        &self,
        filters: &FilterSet,
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        tally: &mut Tally,
    ) -> Result<Option<Option<V>>> {
        if let Some(mapped) = &self.mapped {
            let found = mapped.ask(probe);
            if mapped.denies(probe, &found, tally) {
                return Ok(None);
            }
            return self.get_mapped((mapped, &found), filters, probe, context, tally);
        }
        for slot in self.candidates(probe) {
            if !slot.covers(probe) {
                continue;
            }
            // Do not replace this branch on the filter's answer with branchless code. The branch
            // lets the processor continue with the next SST while this filter's cache line is still
            // loading.
            let answer = match context.filter_use {
                FilterUse::Consult => filters.ask_hash(slot.filter, probe.hash),
                FilterUse::Ignore => Answer::Unfiltered,
            };
            if answer == Answer::No {
                tally.count_denied(1, slot);
                continue;
            }
            let found = slot.search(filters, probe, context, (answer, KnownBlock::Unknown), tally)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Searches the SSTs of level 0 as [`Level::get`] does. `found` has the runs for which the map
    /// answers "maybe".
    #[cold]
    fn get_mapped<V: FoundValue>(
        &self,
        (mapped, found): (&MappedRuns, &Runs),
        filters: &FilterSet,
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        tally: &mut Tally,
    ) -> Result<Option<Option<V>>> {
        let places = mapped.places_to_ask(found);
        if mapped.is_inside(probe) {
            // All mapped SSTs cover the key, so those that deny it need no look.
            let mut counted = 0;
            for place in places.iter().map(usize::from).chain(MAX_RUNS..self.slots.len()) {
                let Some(slot) = self.slots.get(place) else { break };
                mapped.count_between(counted, place, tally);
                counted = place + 1;
                let answer = match slot.is_mapped {
                    true => Answer::Maybe,
                    false if !slot.covers(probe) => continue,
                    false => filters.ask_hash(slot.filter, probe.hash),
                };
                let found = slot.answered(answer, filters, probe, context, tally)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            mapped.count_between(counted, self.slots.len(), tally);
            return Ok(None);
        }
        for (place, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.covers(probe)) {
            let may_hold = u8::try_from(place).is_ok_and(|place| places.contains(place));
            let answer = match slot.is_mapped {
                true if may_hold => Answer::Maybe,
                true => Answer::No,
                false => filters.ask_hash(slot.filter, probe.hash),
            };
            let found = slot.answered(answer, filters, probe, context, tally)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Reads the open keys of a batch from each SST of the level that may hold them.
    fn get_batch<'v>(
        &'v self,
        filters: &FilterSet,
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
            let mask = slot.mask_of(batch, batch.open);
            match &answers {
                Some(answers) if slot.is_mapped => {
                    let found = mask & answers.of(place);
                    slot.want(found, Answer::Maybe, batch, context, wanted);
                    tally.count_denied((mask & !found).count_ones(), slot);
                }
                _ => slot.ask_batch(filters, mask, batch, context, tally, wanted),
            }
            if !wanted.is_empty() {
                search_wanted(wanted, filters, batch, values, context, tally)?;
            }
        }
        answers.iter().for_each(|answers| answers.give_back(batch));
        Ok(())
    }
}

impl Tally {
    /// Counts keys that an SST covers, and that its filter or the map denies.
    #[inline]
    fn count_denied(&mut self, num_keys: u32, slot: &Slot) {
        self.points.true_negatives += u64::from(num_keys);
        self.points.expected += u64::from(num_keys) * u64::from(slot.expected_of_keys);
    }
}

impl Slot {
    /// Asks the filter for the keys with a bit in `mask`. Adds to `wanted` the keys that the filter
    /// does not deny. If several reads may overlap, announces them to the storage.
    fn ask_batch<'v>(
        &'v self,
        filters: &FilterSet,
        mask: u32,
        batch: &Batch<'_>,
        context: &ReadContext<'_>,
        tally: &mut Tally,
        wanted: &mut Vec<Wanted<'v>>,
    ) {
        let group = batch.gather(mask);
        let mut answers = [true; BATCH];
        let is_filtered =
            context.filter_use == FilterUse::Consult && filters.ask_batch(self.filter, group.hashes(), &mut answers);
        let mut found = mask;
        for (i, _) in answers.iter().enumerate().take(group.hashes().len()).filter(|&(_, may_contain)| !may_contain) {
            found &= !group.place(i).map_or(0, |place| 1 << place);
        }
        let answer = if is_filtered { Answer::Maybe } else { Answer::Unfiltered };
        self.want(found, answer, batch, context, wanted);
        tally.count_denied((mask & !found).count_ones(), self);
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

    /// Searches the SST for a key that it covers, unless `answer` denies the key.
    fn answered<V: FoundValue>(
        &self,
        answer: Answer,
        filters: &FilterSet,
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        tally: &mut Tally,
    ) -> Result<Option<Option<V>>> {
        if answer == Answer::No {
            tally.count_denied(1, self);
            return Ok(None);
        }
        self.search(filters, probe, context, (answer, KnownBlock::Unknown), tally)
    }

    /// Returns whether the filter denies a prefix of the key.
    fn denies_prefix(&self, filters: &FilterSet, extractor: &PrefixExtractor, key: &[u8]) -> bool {
        // The filter was already asked for the key itself.
        let mut prefixes = extractor.prefixes(key).filter(|prefix| prefix.len() < key.len());
        self.has_prefixes && prefixes.any(|prefix| filters.ask(self.filter, filters.hasher().key(prefix)) == Answer::No)
    }

    /// Searches the SST, unless its filter denies a prefix of the key, or its only filter is a
    /// range filter that denies the key. Returns `None` if the SST does not hold the key, and
    /// `Some(None)` for a tombstone. `answer` is the filter's answer for the key. `block` is the
    /// position or the content of the data block, if known. Counts the outcome in `tally`, and
    /// reports damage of the filter.
    #[cold]
    fn search<V: FoundValue>(
        &self,
        filters: &FilterSet,
        probe: &Probe<'_>,
        context: &ReadContext<'_>,
        (answer, block): (Answer, KnownBlock<'_>),
        tally: &mut Tally,
    ) -> Result<Option<Option<V>>> {
        if let (Answer::Maybe, Some(extractor)) = (answer, context.extractor)
            && self.denies_prefix(filters, extractor, probe.key)
        {
            tally.count_denied(1, self);
            tally.reads.saved_by_prefixes += 1;
            return Ok(None);
        }
        // If the SST has only a range filter, ask it for the range that holds just this key.
        let answer = match (answer, context.filter_use) {
            (Answer::Unfiltered, FilterUse::Consult) => self.table.filter().ask(filters.hasher().key(probe.key)),
            _ => answer,
        };
        if answer == Answer::No {
            tally.count_denied(1, self);
            return Ok(None);
        }
        if context.filter_use == FilterUse::Consult {
            self.stored.report_filter(context.reports, context.strict)?;
        }
        let mut reads = BlockReads::default();
        let found = self.table.find_value(probe.key, block, context.cache, &mut reads);
        tally.add_reads(reads);
        let found = found?;
        // If any page of the filter is damaged, a wrong "maybe" counts as degraded, not as a false
        // positive: the answer may come from that page.
        let is_damaged = || matches!(self.table.filter(), TableFilter::Ready(filter) if filter.damaged_pages() > 0);
        match (answer, &found) {
            (Answer::Maybe, None) if !self.is_mapped && is_damaged() => tally.points.degraded += 1,
            (Answer::Maybe, None) => {
                tally.points.false_positives += 1;
                tally.points.expected += u64::from(self.expected_of_keys);
            }
            (Answer::Maybe, _) => tally.points.true_positives += 1,
            _ if matches!(self.table.filter(), TableFilter::Degraded(_)) => tally.points.degraded += 1,
            _ => tally.points.unfiltered += 1,
        }
        Ok(found)
    }
}
