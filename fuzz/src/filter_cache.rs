//! Asks filters of a cache in any order, while some of their reads go wrong. Compares the answers with
//! those of the plain blocks, and the counts of the cache with a model.

use std::io;
use std::ops::{Bound, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use filterblock::layout::checksum_of;
use filterblock::{
    Answer, CachedFilter, Expected, FilterBlock, FilterCache, FilterOptions, FilterSet, FilterSlot, HashSeed, KeyHash,
    KeyHasher, SharedBytes, TableFilter, Verify,
};
use filterblock_testkit::blocks::{built, built_in_partitions, key, spec};

use crate::Input;

const MAX_STEPS: usize = 60;
/// The maximum number of filters that a run creates.
const MAX_FILTERS: usize = 10;
const MAX_SETS: usize = 3;

const SPECS: [&str; 8] = [
    "blocked-bloom:10",
    "bumped-ribbon:12",
    "split-block:10",
    "bloom:10",
    "bumped-ribbon:6.5",
    "binary-fuse:8",
    "ribbon:8",
    "blocked-bloom:12",
];

static HASHERS: [KeyHasher; 2] = [KeyHasher::xxh3(HashSeed(1)), KeyHasher::xxh3(HashSeed(2))];

/// The numbers of keys that no filter holds.
const ABSENT: Range<usize> = 1_000_000..1_000_300;

/// The hashes of the absent keys under each hasher.
static ABSENT_HASHES: LazyLock<[Vec<KeyHash>; 2]> =
    LazyLock::new(|| HASHERS.each_ref().map(|hasher| ABSENT.map(|i| hasher.of(&key(i))).collect()));

/// Runs the steps that the input describes. A cache counts a random sample of its queries, so two runs
/// of an input may keep different filters in memory.
pub fn filter_cache(data: &[u8]) {
    crate::choose_instruction_set();
    let mut input = Input(data);
    let (bound, num_filters) = (input.byte(), 1 + usize::from(input.byte()) % 5);
    let tables: Vec<_> = (0..num_filters).map(|number| Table::described(&mut input, number)).collect();
    let whole: u64 = tables.iter().map(Table::whole_bytes).sum();
    let max_bytes = if bound == u8::MAX { u64::MAX } else { whole * u64::from(bound) / 100 };
    let mut host = Host::new(max_bytes);
    tables.into_iter().for_each(|table| host.add(table));
    host.publish(u8::MAX, 0);
    input.steps(MAX_STEPS, |input| {
        match input.byte() % 12 {
            0 | 1 => host.disk.0.lock().unwrap().faults.push((input.byte(), input.number(2) as usize)),
            2 | 3 => host.ask_one(input),
            4 | 5 => host.ask_batch(input),
            6 => host.ask_pairs(input),
            7 | 8 => host.rebalance(),
            9 => {
                let (mask, hasher) = (input.byte(), input.byte());
                host.publish(!mask, usize::from(hasher % 8 == 7));
            }
            10 => host.drop_one(input),
            _ if host.filters.len() < MAX_FILTERS => {
                let table = Table::described(input, host.filters.len());
                host.add(table);
            }
            _ => {}
        }
        host.check();
    });
    host.finish(input.byte());
}

/// An SST with a filter.
struct Table {
    spec: &'static str,
    /// 2: a filter in partitions. 3: a filter with a range filter beside it.
    form: u8,
    hasher: usize,
    id: [u8; 16],
    keys: Range<usize>,
    /// The hashes of the keys, and then those of the absent keys.
    hashes: Vec<KeyHash>,
    /// The right bytes of the block.
    bytes: Vec<u8>,
    /// The filter of these bytes, and its answers for `hashes`.
    plain: FilterBlock<Vec<u8>>,
    answers: Vec<bool>,
    load_on_use: u32,
    reads: AtomicU32,
    /// The number of reads when a query found the filter damaged, or 0.
    damaged_after: AtomicU32,
    /// A rebalance found the filter damaged, after a query had read it whole.
    damaged_later: AtomicBool,
    /// A read did not return the right bytes, or a panic ended the queries of several filters.
    had_fault: AtomicBool,
}

impl Table {
    fn described(input: &mut Input<'_>, number: usize) -> Self {
        let (choice, form, size, first) = (usize::from(input.byte()), input.byte(), input.byte(), input.byte());
        let (spec, hasher) = (SPECS[choice % 8], usize::from(choice >= 192));
        let (form, load_on_use) = (form % 4, u32::from(form / 4 % 8).saturating_sub(4));
        let keys = usize::from(first) * 16..usize::from(first) * 16 + usize::from(size).pow(2) / 32;
        let id = [number as u8 + 1; 16];
        let bytes = build(spec, form, hasher, id, keys.clone());
        let expected = Expected::of_table(id, &HASHERS[hasher]);
        let plain = FilterBlock::open(bytes.clone(), &expected, Verify::AtOpen).unwrap();
        let own = keys.clone().map(|i| HASHERS[hasher].of(&key(i)));
        let hashes: Vec<_> = own.chain(ABSENT_HASHES[hasher].iter().copied()).collect();
        let answers: Vec<_> = hashes.iter().map(|&hash| plain.may_contain_hash(hash)).collect();
        assert!(answers.iter().take(keys.len()).all(|&answer| answer), "the plain block denies a key");
        Self {
            spec,
            form,
            hasher,
            id,
            keys,
            hashes,
            bytes,
            plain,
            answers,
            load_on_use,
            reads: AtomicU32::new(0),
            damaged_after: AtomicU32::new(0),
            damaged_later: AtomicBool::new(false),
            had_fault: AtomicBool::new(false),
        }
    }

    fn own_hashes(&self) -> &[KeyHash] {
        &self.hashes[..self.keys.len()]
    }

    fn expected(&self) -> Expected<'static> {
        Expected::of_table(self.id, &HASHERS[self.hasher]).with_checksum(checksum_of(&self.bytes).unwrap())
    }

    /// Returns the bytes that the whole filter takes in memory.
    fn whole_bytes(&self) -> u64 {
        in_memory(self.bytes.len() as u64)
    }

    /// Builds a block like this one, but of other keys.
    fn like(&self, id: [u8; 16]) -> Vec<u8> {
        build(self.spec, self.form, self.hasher, id, self.keys.start + 50_000..self.keys.end + 50_000)
    }
}

fn build(spec_text: &str, form: u8, hasher: usize, id: [u8; 16], keys: Range<usize>) -> Vec<u8> {
    let options = FilterOptions::new(spec(spec_text)).table_id(id);
    match form {
        2 => built_in_partitions(&options, &HASHERS[hasher], 300, keys.map(key)),
        3 => built(&options.ranges(spec("grafite:fpr=0.1")), &HASHERS[hasher], keys.map(key)),
        _ => built(&options, &HASHERS[hasher], keys.map(key)),
    }
}

/// Returns the bytes that a block of this length takes in memory: a cache aligns it to 64 bytes.
fn in_memory(len_bytes: u64) -> u64 {
    len_bytes + 63
}

/// The panic of a read.
struct ReadPanic;

/// Calls the cache. Returns `None` if a read panicked.
fn unless_read_panics<T>(call: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => Some(result),
        Err(panic) if panic.is::<ReadPanic>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// Reads blocks, and injects faults.
#[derive(Default)]
struct Disk(Mutex<Reads>);

#[derive(Default)]
struct Reads {
    /// The faults of the next reads, the last one first: a kind and a place in the block.
    faults: Vec<(u8, usize)>,
    usable: u64,
    damaged: u64,
    failed: u64,
    panicked: u64,
    /// The number of these reads that panicked in a rebalance, which passes the panic on.
    panicked_in_rebalance: u64,
    is_rebalance: bool,
}

impl Disk {
    fn read(&self, table: &Table, to: &mut [u8]) -> io::Result<()> {
        let number = table.reads.fetch_add(1, Ordering::Relaxed) + 1;
        let mut reads = self.0.lock().unwrap();
        to.copy_from_slice(&table.bytes);
        let (kind, place) = reads.faults.pop().unwrap_or((u8::MAX, 0));
        match kind % 8 {
            0 => to[place / 8 % table.bytes.len()] ^= 1 << (place % 8),
            1 => to[place % table.bytes.len()..].fill(0),
            2 | 3 => {
                // The filter of another SST, or a stale filter of this SST.
                let other = table.like(if kind % 8 == 2 { [0x77; 16] } else { table.id });
                to.iter_mut().zip(other).for_each(|(byte, new)| *byte = new);
            }
            4 => to.fill(0),
            5 => {
                reads.failed += 1;
                table.had_fault.store(true, Ordering::Relaxed);
                return Err(io::Error::other("the disk is gone"));
            }
            6 => {
                reads.panicked += 1;
                reads.panicked_in_rebalance += u64::from(reads.is_rebalance);
                table.had_fault.store(true, Ordering::Relaxed);
                drop(reads);
                // Calls no panic hook, because the hook of libFuzzer aborts.
                resume_unwind(Box::new(ReadPanic));
            }
            _ => {}
        }
        let is_right = to == table.bytes;
        if !is_right {
            table.had_fault.store(true, Ordering::Relaxed);
        }
        // If only the range filter is damaged, the block opens without it.
        let is_usable = || {
            let opened = FilterBlock::open(&*to, &table.expected(), Verify::AtOpen);
            opened.is_ok_and(|block| block.ranges_error().is_some())
        };
        if is_right || is_usable() {
            reads.usable += 1;
        } else {
            reads.damaged += 1;
            match reads.is_rebalance {
                true => table.damaged_later.store(true, Ordering::Relaxed),
                false => table.damaged_after.store(number, Ordering::Relaxed),
            }
        }
        Ok(())
    }
}

/// A filter of the cache, which the sets may keep when the host has dropped it.
struct Filter {
    table: Arc<Table>,
    host: Option<Arc<CachedFilter>>,
    cached: Weak<CachedFilter>,
    /// A set has had the filter.
    is_member: bool,
    /// The number of queries that found the filter out of memory. After the first load, some other
    /// queries count, too.
    asked: u32,
}

/// A set under one of the hashers, and the filter of each slot.
struct Published {
    set: FilterSet,
    hasher: usize,
    slots: Vec<(FilterSlot, usize)>,
}

impl Published {
    /// Returns the filter at a slot if the set may ask it and it is in memory.
    fn usable(&self, slot: FilterSlot, table: &Table) -> Option<&FilterBlock<SharedBytes>> {
        self.set.filter(slot).filter(|_| self.hasher == table.hasher)?.ready()
    }

    /// Asserts that the set may give this answer if the plain block gives `plain`. `was_out` says that the
    /// filter may have been out of memory when it was asked.
    fn check(&self, slot: FilterSlot, table: &Table, answer: Answer, plain: bool, was_out: bool) {
        match (answer, self.usable(slot, table)) {
            (Answer::Unfiltered, usable) => assert!(usable.is_none() || was_out, "a filter in memory is not asked"),
            (_, None) => panic!("{answer:?} without a usable filter"),
            (_, Some(block)) if block.as_bytes().len() == table.bytes.len() => {
                assert_eq!(answer, Answer::from(plain), "the plain block answers otherwise");
            }
            // A filter with fewer columns denies fewer keys.
            (_, Some(_)) => assert!(answer == Answer::Maybe || !plain, "a shorter filter denies a key"),
        }
    }
}

/// A host with a cache, its filters and the sets that it has published.
struct Host {
    cache: FilterCache,
    disk: Arc<Disk>,
    filters: Vec<Filter>,
    sets: Vec<Published>,
}

impl Host {
    fn new(max_bytes: u64) -> Self {
        let (cache, disk) = (FilterCache::new(max_bytes), Arc::default());
        Self { cache, disk, filters: Vec::new(), sets: Vec::new() }
    }

    fn add(&mut self, table: Table) {
        let (table, disk) = (Arc::new(table), Arc::clone(&self.disk));
        let read = {
            let table = Arc::clone(&table);
            move |to: &mut [u8]| disk.read(&table, to)
        };
        let filter = CachedFilter::new(&self.cache, table.bytes.len() as u64, &table.expected(), read);
        let filter = Arc::new(if table.load_on_use == 0 { filter } else { filter.load_on_use(table.load_on_use) });
        let (cached, host) = (Arc::downgrade(&filter), Some(filter));
        self.filters.push(Filter { table, host, cached, is_member: false, asked: 0 });
    }

    /// Publishes a set of the filters that the host has, as far as `mask` names them.
    fn publish(&mut self, mask: u8, hasher: usize) {
        if self.sets.len() == MAX_SETS {
            self.sets.remove(0);
        }
        let (mut set, mut slots) = (FilterSet::new(&HASHERS[hasher]), Vec::new());
        for (number, filter) in self.filters.iter_mut().enumerate() {
            if let (Some(cached), 1) = (&filter.host, mask >> (number % 8) & 1) {
                slots.push((set.insert_cached(Arc::clone(cached)), number));
                filter.is_member = true;
            }
        }
        self.sets.push(Published { set, hasher, slots });
    }

    /// Chooses a set, and a slot of the set with the number of its filter.
    fn choose(&self, input: &mut Input<'_>) -> Option<(usize, FilterSlot, usize)> {
        let (set, slot) = (usize::from(input.byte()), usize::from(input.byte()));
        let set = set.checked_rem(self.sets.len())?;
        let slots = &self.sets[set].slots;
        let (slot, number) = slots[slot.checked_rem(slots.len())?];
        Some((set, slot, number))
    }

    /// Counts queries of a slot whose filter is not in memory, as far as the set knows.
    fn count(&mut self, set: usize, slot: FilterSlot, number: usize) {
        let published = &self.sets[set];
        let filter = &mut self.filters[number];
        if published.set.filter(slot).is_none() && published.hasher == filter.table.hasher {
            filter.asked += 1;
        }
    }

    /// Asks a filter for one key by its hash, by the key or by a range of one key.
    fn ask_one(&mut self, input: &mut Input<'_>) {
        let Some((set, slot, number)) = self.choose(input) else { return };
        self.count(set, slot, number);
        let (published, table) = (&self.sets[set], &self.filters[number].table);
        let (form, place) = (input.byte(), input.number(2) as usize);
        let number = match (form % 2, place.checked_rem(table.keys.len())) {
            (0, Some(place)) => table.keys.start + place,
            _ => ABSENT.start + place % ABSENT.len(),
        };
        let key = key(number);
        let (hash, hasher) = (HASHERS[published.hasher].of(&key), &HASHERS[published.hasher]);
        let is_other = published.hasher != table.hasher;
        if form % 16 >= 10 {
            let bounds = (Bound::Included(key.as_slice()), Bound::Included(key.as_slice()));
            let plain = table.plain.may_contain_range(bounds.0, bounds.1);
            assert!(plain || !table.keys.contains(&number), "a range with a key is denied");
            let answer = unless_read_panics(|| published.set.ask_range(slot, bounds.0, bounds.1));
            if answer.is_some_and(|answer| answer != Answer::Unfiltered) {
                published.check(slot, table, answer.unwrap(), plain, false);
            }
            return;
        }
        let (answer, plain) = match form % 16 {
            0..6 => (
                unless_read_panics(|| published.set.ask_hash(slot, hash)),
                is_other || table.plain.may_contain_hash(hash),
            ),
            _ => (
                unless_read_panics(|| published.set.ask(slot, hasher.key(&key))),
                is_other || table.plain.may_contain(hasher.key(&key)),
            ),
        };
        if let Some(answer) = answer {
            published.check(slot, table, answer, plain, false);
        }
    }

    /// Asks a filter for all its keys and for absent keys, several times.
    fn ask_batch(&mut self, input: &mut Input<'_>) {
        let Some((set, slot, number)) = self.choose(input) else { return };
        for _ in 0..=input.byte() % 4 {
            self.count(set, slot, number);
            self.ask_all(set, slot, number);
        }
    }

    fn ask_all(&self, set: usize, slot: FilterSlot, number: usize) {
        let (published, table) = (&self.sets[set], &self.filters[number].table);
        let is_own = published.hasher == table.hasher;
        let hashes = if is_own { &table.hashes } else { &ABSENT_HASHES[published.hasher] };
        let mut answers = vec![false; hashes.len()];
        let Some(is_asked) = unless_read_panics(|| published.set.ask_batch(slot, hashes, &mut answers)) else {
            return;
        };
        if !is_asked {
            assert!(answers.iter().all(|&answer| answer), "a filter that is not asked denies a key");
            return published.check(slot, table, Answer::Unfiltered, true, false);
        }
        assert!(is_own, "a filter under another hasher is asked");
        for (&answer, &plain) in answers.iter().zip(&table.answers) {
            published.check(slot, table, answer.into(), plain, false);
        }
    }

    /// Asks all filters of a set for keys of the filters and for absent keys.
    fn ask_pairs(&mut self, input: &mut Input<'_>) {
        let Some((set, ..)) = self.choose(input) else { return };
        let (step, len) = (usize::from(input.byte()), usize::from(input.byte()));
        let slots = self.sets[set].slots.clone();
        let mut asked = Vec::new();
        for (i, &(slot, number)) in slots.iter().cycle().take(len).enumerate() {
            self.count(set, slot, number);
            let (published, table) = (&self.sets[set], &self.filters[number].table);
            let absent = &ABSENT_HASHES[published.hasher];
            let hash = match (i * step).checked_rem(table.keys.len()) {
                Some(place) if published.hasher == table.hasher && i % 3 > 0 => table.hashes[place],
                _ => absent[i * step % absent.len()],
            };
            let was_out = published.usable(slot, table).is_none();
            asked.push((slot, hash, number, was_out));
        }
        let published = &self.sets[set];
        let pairs: Vec<_> = asked.iter().map(|&(slot, hash, ..)| (slot, hash)).collect();
        let mut answers = vec![Answer::No; pairs.len()];
        if unless_read_panics(|| published.set.ask_pairs(&pairs, &mut answers)).is_none() {
            // The set did not ask the pairs after the panic.
            slots.iter().for_each(|&(_, number)| self.filters[number].table.had_fault.store(true, Ordering::Relaxed));
            return;
        }
        for ((slot, hash, number, was_out), answer) in asked.into_iter().zip(answers) {
            let table = &self.filters[number].table;
            let plain = published.hasher != table.hasher || table.plain.may_contain_hash(hash);
            published.check(slot, table, answer, plain, was_out);
        }
    }

    fn rebalance(&mut self) {
        let is_copy = |filter: &&Filter| {
            let loaded = filter.cached.upgrade().and_then(|cached| cached.loaded());
            filter.table.damaged_later.load(Ordering::Relaxed) && loaded.is_some_and(|loaded| loaded.ready().is_some())
        };
        let (copies, before): (Vec<_>, _) = (self.filters.iter().filter(is_copy).collect(), self.cache.counts());
        let len_bytes = |filter: &Filter| {
            let loaded = filter.cached.upgrade().and_then(|cached| cached.loaded());
            loaded.and_then(|loaded| Some(loaded.ready()?.metadata().block_len_bytes)).unwrap_or(0)
        };
        let lens: Vec<_> = self.filters.iter().map(len_bytes).collect();
        self.disk.0.lock().unwrap().is_rebalance = true;
        let done = unless_read_panics(|| self.cache.rebalance());
        self.disk.0.lock().unwrap().is_rebalance = false;
        let evictions = self.cache.counts().evictions - before.evictions;
        let shorter = self.filters.iter().zip(lens).filter(|(filter, len)| len_bytes(filter) < *len).count();
        assert!(done.is_none() || evictions == shorter as u64, "{evictions} evictions, {shorter} filters are shorter");
        assert!(evictions > 0 || copies.iter().all(is_copy), "the last copy of a damaged filter is given up");
    }

    /// Drops a set or the host's reference to a filter.
    fn drop_one(&mut self, input: &mut Input<'_>) {
        let choice = usize::from(input.byte());
        match choice % 2 {
            0 if !self.sets.is_empty() => drop(self.sets.remove(choice / 2 % self.sets.len())),
            0 => {}
            _ => {
                let number = choice / 2 % self.filters.len();
                self.filters[number].host = None;
            }
        }
    }

    /// Returns the filters that sets or the cache hold in memory.
    fn in_memory(&self) -> Vec<Arc<TableFilter<SharedBytes>>> {
        let of_cache = self.filters.iter().filter_map(|filter| filter.cached.upgrade()?.loaded());
        let of_set = |published: &Published| {
            let filters = published.slots.iter().filter_map(|&(slot, _)| published.set.filter(slot).cloned());
            filters.collect::<Vec<_>>()
        };
        let mut held: Vec<_> = of_cache.chain(self.sets.iter().flat_map(of_set)).collect();
        held.sort_by_key(Arc::as_ptr);
        held.dedup_by(|a, b| Arc::ptr_eq(a, b));
        held
    }

    /// Compares the cache with the model.
    fn check(&self) {
        let counts = self.cache.counts();
        assert!(counts.bytes <= counts.max_bytes, "the bound is exceeded: {counts:?}");
        let held = self.in_memory();
        let held_bytes = held.iter().filter_map(|filter| Some(in_memory(filter.ready()?.as_bytes().len() as u64)));
        assert_eq!(counts.bytes, held_bytes.sum::<u64>(), "the bytes of the filters in memory: {counts:?}");
        let alive = || self.filters.iter().filter(|filter| filter.is_member && filter.cached.strong_count() > 0);
        assert_eq!(counts.filters, alive().count() as u64, "the number of filters: {counts:?}");
        let is_ready =
            |filter: &&Filter| filter.cached.upgrade().unwrap().loaded().is_some_and(|f| f.ready().is_some());
        assert_eq!(counts.resident, alive().filter(is_ready).count() as u64, "filters in memory: {counts:?}");
        {
            let reads = self.disk.0.lock().unwrap();
            assert_eq!(counts.loads, reads.usable + reads.damaged, "{counts:?}");
            assert_eq!(counts.damaged, reads.damaged, "each damaged filter is counted: {counts:?}");
            let failed = reads.failed + reads.panicked - reads.panicked_in_rebalance;
            assert_eq!(counts.failed_loads, failed, "each failed read is counted: {counts:?}");
        }
        let has_room = counts.max_bytes == u64::MAX;
        assert!(!has_room || counts.refused == 0 && counts.evictions == 0, "{counts:?}");
        for filter in &self.filters {
            let Some(cached) = filter.cached.upgrade() else { continue };
            let (loaded, table) = (cached.loaded(), &filter.table);
            let reads = table.reads.load(Ordering::Relaxed);
            match table.damaged_after.load(Ordering::Relaxed) {
                0 => {}
                before => {
                    assert_eq!(reads, before, "a damaged filter is read again");
                    assert!(loaded.as_ref().is_some_and(|filter| filter.reason().is_some()), "damage is forgotten");
                }
            }
            if has_room && !table.had_fault.load(Ordering::Relaxed) {
                let is_due = filter.asked >= table.load_on_use.max(1);
                assert_eq!(loaded.is_some(), is_due, "{} of {} queries", filter.asked, table.load_on_use);
            }
        }
        // Asks only filters that are in memory, because other queries would load filters.
        for published in &self.sets {
            for &(slot, number) in &published.slots {
                let table = &self.filters[number].table;
                if published.usable(slot, table).is_some() {
                    let some = table.own_hashes().iter().step_by(table.keys.len() / 8 + 1);
                    let mut answers = some.map(|&hash| published.set.ask_hash(slot, hash));
                    assert!(answers.all(|answer| answer == Answer::Maybe), "a key is denied");
                }
            }
        }
    }

    /// Asks each set for all keys, and drops the sets and filters in either order.
    fn finish(mut self, order: u8) {
        for set in 0..self.sets.len() {
            for (slot, number) in self.sets[set].slots.clone() {
                self.count(set, slot, number);
                self.ask_all(set, slot, number);
            }
        }
        self.check();
        for is_for_sets in [order.is_multiple_of(2), !order.is_multiple_of(2)] {
            match is_for_sets {
                true => self.sets.clear(),
                false => self.filters.iter_mut().for_each(|filter| filter.host = None),
            }
            self.check();
        }
        let counts = self.cache.counts();
        assert_eq!(
            (counts.bytes, counts.filters, counts.resident),
            (0, 0, 0),
            "after all sets and filters: {counts:?}"
        );
    }
}
