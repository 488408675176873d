//! Defines the interface of a measured filter, and runs the timed loops.
//!
//! The compiler makes a copy of each loop for each type of filter. Only the call of a whole loop is
//! dynamic.

use std::hint::black_box;

use filterblock::KeyHash;
use filterblock_testkit::measure::clock::{process_time, thread_time};
use filterblock_testkit::measure::keys::{Key, hash_of};

pub const BATCH: usize = 32;

pub trait Probe {
    /// Whether the filter takes hashes that the caller has computed.
    const TAKES_HASHES: bool = true;
    /// Whether the filter answers batches.
    const BATCHED: bool = false;

    /// Returns whether the key with this hash may be in the filter. A filter that takes no hashes
    /// returns `true`.
    fn hash(&self, hash: u64) -> bool;

    /// Hashes a key, and returns whether it may be in the filter.
    #[inline(always)]
    fn key(&self, key: &Key) -> bool {
        self.hash(hash_of(key))
    }

    /// Writes the answer for each hash to the same position of `answers`.
    #[inline(always)]
    fn batch(&self, hashes: &[u64; BATCH], answers: &mut [bool; BATCH]) {
        *answers = hashes.map(|hash| self.hash(hash));
    }

    /// Returns two sizes in bits: of the whole filter, and without a trailer of fixed size.
    fn bits(&self) -> (f64, f64);
}

/// The keys of a filter and their hashes.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The hashes of the keys, all different.
    pub hashes: &'a [u64],
    /// The same hashes, in the type that the filters of this repository take.
    pub key_hashes: &'a [KeyHash],
    /// The keys, all different.
    pub keys: &'a [Key],
}

/// How queries follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Independent queries, one at a time.
    Single,
    /// Independent queries in batches of 32.
    Batch,
    /// The previous answer decides which key is asked next.
    Chain,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Batch => "batch",
            Self::Chain => "chain",
        }
    }
}

pub enum Asked {
    /// Hashes for the first filter of a group.
    Hashes(Vec<u64>),
    /// Keys for the first filter of a group.
    Keys(Vec<Key>),
    /// Hashes, each with the number of its filter.
    ManyHashes(Vec<(u32, u64)>),
    /// Keys, each with the number of its filter.
    ManyKeys(Vec<(u32, Key)>),
}

impl Asked {
    pub fn len(&self) -> usize {
        match self {
            Self::Hashes(asked) => asked.len(),
            Self::Keys(asked) => asked.len(),
            Self::ManyHashes(asked) => asked.len(),
            Self::ManyKeys(asked) => asked.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Filters of one kind with the same settings.
pub trait Group {
    /// Builds one more filter. Returns the CPU time of the build in ns, summed over all threads.
    fn build(&mut self, input: Input<'_>) -> Result<f64, String>;

    /// Returns how many keys of `input` the newest filter denies. `input` is the input of its
    /// build.
    fn denied(&self, input: Input<'_>) -> usize;

    /// Returns two sizes of all filters together in bits: with and without their trailers of fixed
    /// size.
    fn bits(&self) -> (f64, f64);

    /// Measures at most `count` queries. Returns their total CPU time in ns, and the number of
    /// answers "maybe". The filters must be able to answer questions of the given form and mode.
    fn ask(&self, asked: &Asked, mode: Mode, count: usize) -> (f64, u64);
}

pub struct Contender {
    pub name: String,
    pub krate: &'static str,
    /// Whether the filter takes hashes that the caller has computed.
    pub takes_hashes: bool,
    /// Whether the filter answers batches.
    pub batched: bool,
    /// Whether the benchmark also measures a fastbloom of about the same FPR.
    pub ours: bool,
    /// The filters that the contender has built.
    pub group: Box<dyn Group>,
}

impl Contender {
    /// Makes a contender whose filters `build` returns.
    pub fn new<P, B>(name: impl Into<String>, krate: &'static str, build: B) -> Self
    where
        P: Probe + 'static,
        B: Fn(Input<'_>) -> Result<P, String> + 'static,
    {
        Self {
            name: name.into(),
            krate,
            takes_hashes: P::TAKES_HASHES,
            batched: P::BATCHED,
            ours: false,
            group: Box::new(Filters { build, filters: Vec::new() }),
        }
    }
}

struct Filters<P, B> {
    build: B,
    filters: Vec<P>,
}

impl<P: Probe, B: Fn(Input<'_>) -> Result<P, String>> Group for Filters<P, B> {
    fn build(&mut self, input: Input<'_>) -> Result<f64, String> {
        let start = process_time();
        let filter = (self.build)(input)?;
        let spent = process_time() - start;
        self.filters.push(filter);
        Ok(spent.as_secs_f64() * 1e9)
    }

    fn denied(&self, input: Input<'_>) -> usize {
        let Some(filter) = self.filters.last() else { return 0 };
        if P::TAKES_HASHES {
            input.hashes.iter().filter(|&&hash| !filter.hash(hash)).count()
        } else {
            input.keys.iter().filter(|key| !filter.key(key)).count()
        }
    }

    fn bits(&self) -> (f64, f64) {
        let bits = self.filters.iter().map(Probe::bits);
        bits.fold((0.0, 0.0), |sum, bits| (sum.0 + bits.0, sum.1 + bits.1))
    }

    fn ask(&self, asked: &Asked, mode: Mode, count: usize) -> (f64, u64) {
        let one = &self.filters[0];
        let many = &self.filters[..];
        let start = thread_time();
        let hits = match (asked, mode) {
            (Asked::Hashes(asked), Mode::Single) => single(upto(asked, count), |&hash| one.hash(hash)),
            (Asked::Hashes(asked), Mode::Batch) => batches(one, upto(asked, count), |&hash| hash),
            (Asked::Hashes(asked), Mode::Chain) => chain(upto(asked, count), |&hash| one.hash(hash)),
            (Asked::Keys(asked), Mode::Single) => single(upto(asked, count), |key| one.key(key)),
            (Asked::Keys(asked), Mode::Batch) => batches(one, upto(asked, count), hash_of),
            (Asked::Keys(asked), Mode::Chain) => chain(upto(asked, count), |key| one.key(key)),
            (Asked::ManyHashes(asked), Mode::Chain) => {
                chain(upto(asked, count), |&(filter, hash)| many[filter as usize].hash(hash))
            }
            (Asked::ManyHashes(asked), _) => {
                single(upto(asked, count), |&(filter, hash)| many[filter as usize].hash(hash))
            }
            (Asked::ManyKeys(asked), Mode::Chain) => {
                chain(upto(asked, count), |(filter, key)| many[*filter as usize].key(key))
            }
            (Asked::ManyKeys(asked), _) => single(upto(asked, count), |(filter, key)| many[*filter as usize].key(key)),
        };
        let spent = thread_time() - start;
        (spent.as_secs_f64() * 1e9, black_box(hits))
    }
}

fn upto<T>(asked: &[T], count: usize) -> &[T] {
    black_box(&asked[..count.min(asked.len())])
}

#[inline(never)]
pub(crate) fn single<T>(asked: &[T], ask: impl Fn(&T) -> bool) -> u64 {
    asked.iter().map(|question| u64::from(ask(question))).sum()
}

/// Asks for the keys in whole batches, and returns the number of answers "maybe". Leaves out the
/// keys after the last whole batch.
#[inline(never)]
fn batches<P: Probe, T>(filter: &P, asked: &[T], hash: impl Fn(&T) -> u64) -> u64 {
    let mut answers = [false; BATCH];
    let mut hits = 0;
    for batch in asked.as_chunks::<BATCH>().0 {
        let hashes = std::array::from_fn(|i| hash(&batch[i]));
        filter.batch(&hashes, &mut answers);
        hits += answers.iter().map(|&answer| u64::from(answer)).sum::<u64>();
    }
    hits
}

/// Asks as many questions as `single`. Turn `i` asks question `i`, or question `i + 1` if the
/// answer of the previous turn was "maybe". The last turn always asks the last question. So no
/// query but the last can begin before the previous one has ended. If the code of a filter branches
/// on the answer, the processor may still predict the branch and run ahead.
#[inline(never)]
pub(crate) fn chain<T>(asked: &[T], ask: impl Fn(&T) -> bool) -> u64 {
    let Some(last) = asked.len().checked_sub(1) else { return 0 };
    let (mut hits, mut answer) = (0, 0);
    for number in 0..=last {
        let skip = answer & usize::from(number != last);
        answer = usize::from(ask(&asked[number + skip]));
        hits += answer as u64;
    }
    hits
}
