//! Builds the filters of filterblock. Each filter is measured as a reader opens it: as a block over
//! bytes in memory.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use aligned_vec::{AVec, ConstAlign};
use filterblock::{
    AlignedBytes, Answer, CachedFilter, Expected, FilterBlock, FilterCache, FilterOptions, FilterSet, FilterSlot,
    FilterSpec, HashSeed, KeyHash, SharedBytes, TableFilter, Verify, layout,
};
use filterblock_testkit::measure::clock::{process_time, thread_time};

use crate::contender::{Asked, BATCH, Contender, Group, Input, Mode, Probe, chain, single};

const SPECS: [&str; 13] = [
    "bloom:10",
    "blocked-bloom:10",
    "blocked-bloom:fpr=0.01",
    "split-block:10",
    "split-block-512:10",
    "ribbon:fpr=0.00390625",
    "bumped-ribbon:fpr=0.00390625",
    "bumped-ribbon:fpr=0.00390625:compact",
    "bumped-ribbon:fpr=0.01",
    "bumped-ribbon:fpr=0.0009765625",
    "binary-fuse:8",
    "binary-fuse:12",
    "binary-fuse:16",
];

/// The specifications that are also measured with [`SELF_CHECK`] and with [`UNALIGNED`].
pub const EXTRA_SPECS: [&str; 4] =
    ["blocked-bloom:10", "split-block:10", "bumped-ribbon:fpr=0.00390625", "binary-fuse:8"];
/// The end of the names of filters that are built with the self-check.
pub const SELF_CHECK: &str = ", self-check";
/// The end of the names of filters whose bytes begin one byte after a multiple of 64.
pub const UNALIGNED: &str = ", unaligned";

/// The size of a trailer in bits. It does not depend on the number of keys.
const TRAILER_BITS: f64 = 60.0 * 8.0;

/// Bytes that begin at a multiple of 64.
type Aligned = AVec<u8, ConstAlign<64>>;

/// Bytes that begin one byte after a multiple of 64.
struct Shifted(Aligned);

impl AsRef<[u8]> for Shifted {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        &self.0[1..]
    }
}

struct Block<D>(FilterBlock<D>);

impl<D: AsRef<[u8]>> Probe for Block<D> {
    const BATCHED: bool = true;

    #[inline(always)]
    fn hash(&self, hash: u64) -> bool {
        self.0.may_contain_hash(KeyHash::from_raw(hash))
    }

    #[inline(always)]
    fn batch(&self, hashes: &[u64; BATCH], answers: &mut [bool; BATCH]) {
        self.0.may_contain_batch(&hashes.map(KeyHash::from_raw), answers);
    }

    fn bits(&self) -> (f64, f64) {
        let bits = self.0.as_bytes().len() as f64 * 8.0;
        (bits, bits - TRAILER_BITS)
    }
}

/// Prints to standard error which specifications this version of filterblock does not know.
pub fn tell_unknown() {
    let unknown: Vec<_> = SPECS.into_iter().filter(|text| text.parse::<FilterSpec>().is_err()).collect();
    if !unknown.is_empty() {
        eprintln!("skipped, unknown to this version of filterblock: {}", unknown.join(", "));
    }
}

fn known(specs: &[&'static str]) -> impl Iterator<Item = (&'static str, FilterSpec)> {
    specs.iter().filter_map(|text| Some((*text, text.parse::<FilterSpec>().ok()?)))
}

/// Returns a contender for each specification that this version of filterblock knows. The bytes are
/// aligned, and the self-check is off.
pub fn all() -> Vec<Contender> {
    let contender = |(text, spec)| {
        let mut contender = Contender::new(text, "filterblock", move |input| build(spec, input, false));
        contender.ours = true;
        contender
    };
    known(&SPECS).map(contender).collect()
}

/// The start of the names of filters that are asked through a [`FilterSet`].
const SET_OF: &str = "set of ";
/// The start of the names of filters of a [`FilterCache`] that are asked through a [`FilterSet`].
const CACHED_SET_OF: &str = "cached set of ";

/// Returns contenders that ask many filters through a [`FilterSet`].
pub fn sets() -> Vec<Contender> {
    let contender = |name: &str, (text, spec), cache: Option<FilterCache>| Contender {
        name: format!("{name}{text}"),
        krate: "filterblock",
        takes_hashes: true,
        batched: true,
        ours: false,
        group: Box::new(Set::new(spec, cache)),
    };
    let both =
        |known| [contender(CACHED_SET_OF, known, Some(FilterCache::new(u64::MAX))), contender(SET_OF, known, None)];
    known(&SPECS).flat_map(both).collect()
}

/// Returns whether a filter is one of [`sets`].
pub fn is_set(filter: &str) -> bool {
    filter.starts_with(SET_OF) || filter.starts_with(CACHED_SET_OF)
}

/// The filters of one specification in a [`FilterSet`].
struct Set {
    spec: FilterSpec,
    set: FilterSet,
    /// The cache that the filters are of, if any.
    cache: Option<FilterCache>,
    /// The blocks of the filters of the cache.
    file: Arc<File>,
    slots: Vec<FilterSlot>,
    bits: f64,
}

impl Group for Set {
    fn build(&mut self, input: Input<'_>) -> Result<f64, String> {
        let start = process_time();
        let bytes = bytes_of(self.spec, input, false)?;
        if let Some(cache) = &self.cache {
            let hasher = HashSeed(0).into();
            let checksum = layout::checksum_of(&bytes).ok_or("a new block has a checksum")?;
            let expected = Expected::of_table([0; 16], &hasher).with_checksum(checksum);
            self.bits += bytes.len() as f64 * 8.0;
            let len = bytes.len() as u64;
            // A copy on the heap would lie between the filters, and spread them over more pages.
            let (file, offset) =
                (Arc::clone(&self.file), self.file.metadata().map_err(|error| error.to_string())?.len());
            file.write_all_at(&bytes, offset).map_err(|error| error.to_string())?;
            let read = move |to: &mut [u8]| file.read_exact_at(to, offset);
            self.slots.push(self.set.insert_cached(Arc::new(CachedFilter::new(cache, len, &expected, read))));
            return Ok((process_time() - start).as_secs_f64() * 1e9);
        }
        let shared = SharedBytes::from(AlignedBytes::copy_of(&bytes).map_err(|error| error.to_string())?);
        let block = open(shared)?.0;
        let spent = process_time() - start;
        self.bits += bytes.len() as f64 * 8.0;
        self.slots.push(self.set.insert(Arc::new(TableFilter::Ready(block))));
        Ok(spent.as_secs_f64() * 1e9)
    }

    fn denied(&self, input: Input<'_>) -> usize {
        let Some(&newest) = self.slots.last() else { return 0 };
        let denies = |&&hash: &&u64| self.set.ask_hash(newest, KeyHash::from_raw(hash)) == Answer::No;
        input.hashes.iter().filter(denies).count()
    }

    fn bits(&self) -> (f64, f64) {
        (self.bits, self.bits - TRAILER_BITS * self.slots.len() as f64)
    }

    fn ask(&self, asked: &Asked, mode: Mode, count: usize) -> (f64, u64) {
        let Asked::ManyHashes(asked) = asked else { return (0.0, 0) };
        // A host keeps the slot of each SST with the SST, so the slots are looked up before the
        // clock starts.
        let query = |&(filter, hash): &(u32, u64)| (self.slots[filter as usize], KeyHash::from_raw(hash));
        let queries: Vec<_> = asked[..count.min(asked.len())].iter().map(query).collect();
        let queries = black_box(&queries[..]);
        let start = thread_time();
        let hits = match mode {
            Mode::Batch => queries.chunks(BATCH).map(|queries| self.hits_of_batch(queries)).sum(),
            Mode::Single => single(queries, |&(slot, hash)| self.set.ask_hash(slot, hash) != Answer::No),
            Mode::Chain => chain(queries, |&(slot, hash)| self.set.ask_hash(slot, hash) != Answer::No),
        };
        let spent = thread_time() - start;
        (spent.as_secs_f64() * 1e9, black_box(hits))
    }
}

impl Set {
    fn new(spec: FilterSpec, cache: Option<FilterCache>) -> Self {
        let file = Arc::new(tempfile::tempfile().expect("a temporary file for the filters"));
        Self { spec, set: FilterSet::new(&HashSeed(0).into()), cache, file, slots: Vec::new(), bits: 0.0 }
    }

    fn hits_of_batch(&self, queries: &[(FilterSlot, KeyHash)]) -> u64 {
        let mut answers = [Answer::Unfiltered; BATCH];
        self.set.ask_pairs(queries, &mut answers);
        answers.iter().take(queries.len()).map(|&answer| u64::from(answer != Answer::No)).sum()
    }
}

/// Returns contenders that show what self-checks and unaligned bytes cost.
pub fn extras() -> Vec<Contender> {
    let contenders = |(text, spec)| {
        let checked =
            Contender::new(format!("{text}{SELF_CHECK}"), "filterblock", move |input| build(spec, input, true));
        let unaligned =
            Contender::new(format!("{text}{UNALIGNED}"), "filterblock", move |input| build_unaligned(spec, input));
        [checked, unaligned]
    };
    known(&EXTRA_SPECS).flat_map(contenders).collect()
}

/// Returns whether a filter is one of [`extras`].
pub fn is_extra(filter: &str) -> bool {
    filter.ends_with(SELF_CHECK) || filter.ends_with(UNALIGNED)
}

fn build(spec: FilterSpec, input: Input<'_>, check: bool) -> Result<Block<Aligned>, String> {
    let bytes = bytes_of(spec, input, check)?;
    open(AVec::from_slice(64, &bytes))
}

fn build_unaligned(spec: FilterSpec, input: Input<'_>) -> Result<Block<Shifted>, String> {
    let mut bytes = bytes_of(spec, input, false)?;
    bytes.insert(0, 0);
    open(Shifted(AVec::from_slice(64, &bytes)))
}

fn bytes_of(spec: FilterSpec, input: Input<'_>, check: bool) -> Result<Vec<u8>, String> {
    let failed = |error: filterblock::Error| error.to_string();
    let mut builder = FilterOptions::new(spec).self_check(check).builder(HashSeed(0)).map_err(failed)?;
    builder.add_hashes(input.key_hashes);
    Ok(builder.finish().map_err(failed)?.bytes)
}

fn open<D: AsRef<[u8]>>(bytes: D) -> Result<Block<D>, String> {
    FilterBlock::open_any(bytes, Verify::AtOpen).map(Block).map_err(|error| error.to_string())
}
