//! Maps the hash of a key to the runs that may hold the key.
//!
//! A line of 64 bytes has 32 prints of 16 bits. The high half of `hash * lines` is the number of the
//! line, and the next 16 bits are the print. A print of 0 is an empty slot. The numbers of the runs
//! lie in a second array, which only a query with an equal print reads. If a line is full, further
//! entries spill into a table. Only queries of a full line ask the table.
//!
//! With 22 keys a line, a key takes 34.9 bits and a spilled key a little more, and an absent key has
//! an equal print with a probability of about 22 / 2^16 = 0.034 %. A pocket dictionary would take 20
//! to 23 bits a key, with ten times as many equal prints.
#![expect(clippy::indexing_slicing, reason = "arrays of constant length, with indexes below it")]

use crate::error::too_large;
use std::collections::HashMap;
use std::fmt;

use crate::error::{Error, Result};
use crate::hash::{KeyHash, KeyHasher};
use crate::simd::prefetch;
use crate::simd::try_collect;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, RwLock};

const SLOTS: usize = 32;
/// The keys that a line has on average.
const KEYS_PER_LINE: u64 = 22;
/// The maximum number of spilled prints of a line. Without a limit, keys that an attacker chooses
/// would make queries of their line slow.
const MAX_SPILLED_OF_LINE: usize = 64;
/// The map keeps at most one spilled print for this many keys.
const KEYS_PER_SPILLED: u64 = 20;
/// The number of spilled prints that a map may have even if it is small.
const MIN_MAX_SPILLED: u64 = 64;

/// [`RunMap::keeping`] checks one line in so many of the copy.
const LINES_PER_CHECK: usize = 16;
/// The number of hashes whose lines are loaded together.
const AHEAD: usize = 32;

/// The lowest bit, and the highest bit, of each of the four prints in a word.
const LOW_BITS: u64 = 0x0001_0001_0001_0001;
const HIGH_BITS: u64 = 0x8000_8000_8000_8000;

/// Maps keys to the *runs* that may hold them: SSTs that overlap each other, as those of level 0 do.
/// One query reads one cache line for most absent keys, however many runs there are, where a
/// [`FilterSet`](super::FilterSet) reads one or more lines for each run.
///
/// The host numbers the runs from 0 to 255, and adds the hashes of **all** keys of a run, tombstones
/// included ([`add_run`](Self::add_run)). Each version of the store keeps the numbers of its runs
/// ([`Runs`]), and passes them to every query. A run that the map does not hold whole is in every
/// answer: it was refused, it is being added, or nobody added it. A run may be added while other
/// threads ask the map: a version without its number ignores it. If a run is dropped, its keys stay
/// in the map, and a version without the run ignores them; [`keeping`](Self::keeping) makes a copy
/// without them.
///
/// ```
/// use filterblock::{HashSeed, KeyHasher, RunMap, Runs};
///
/// let hasher = KeyHasher::xxh3(HashSeed(42));
/// let map = RunMap::new(&hasher, 1_000)?;
/// let mut version = Runs::NONE;
/// for (run, keys) in [(0, ["apple", "pear"]), (1, ["pear", "plum"])] {
///     map.add_run(run, &keys.map(|key| hasher.of(key.as_bytes())));
///     version.insert(run);
/// }
/// let runs_of = |key: &str| map.ask(hasher.of(key.as_bytes()), &version).iter().collect::<Vec<_>>();
/// assert_eq!(runs_of("apple"), [0]);
/// assert_eq!(runs_of("pear"), [0, 1]);
/// assert!(runs_of("fig").is_empty()); // no run of the map has it
/// # Ok::<(), filterblock::Error>(())
/// ```
pub struct RunMap {
    hasher: KeyHasher,
    lines: Box<[Line]>,
    /// The number of the run of each slot.
    runs: Box<[[AtomicU8; SLOTS]]>,
    /// The entries of full lines. An entry is here only if each slot of its line is taken, so a query
    /// of a line whose last slot is empty need not look.
    spilled: RwLock<Spilled>,
    max_spilled: u64,
    /// A bit for each run that the map holds whole. A query loads it before the line: if it sees the
    /// bit, it sees all prints of the run.
    held: [AtomicU64; 4],
    /// Held while a run is added.
    adding: Mutex<()>,
}

/// The prints of a line, four in each word. Slot 0 is in the low bits of word 0.
///
/// A thread may add prints while others read. So both use atomic words: the writer stores the number
/// of the run before the print, and a reader that found a print loads the number after it. A vector
/// load would be a data race.
#[repr(align(64))]
struct Line([AtomicU64; SLOTS / 4]);

#[derive(Default)]
struct Spilled {
    lines: HashMap<usize, Vec<(u16, Runs)>>,
    len: u64,
}

/// A set of runs: numbers from 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Runs([u64; 4]);

impl Runs {
    /// No run.
    pub const NONE: Self = Self([0; 4]);
    /// Every run.
    pub const ALL: Self = Self([u64::MAX; 4]);

    /// Adds a run.
    pub fn insert(&mut self, run: u8) {
        self.0[usize::from(run / 64)] |= 1 << (run % 64);
    }

    /// Removes a run.
    pub fn remove(&mut self, run: u8) {
        self.0[usize::from(run / 64)] &= !(1 << (run % 64));
    }

    /// Returns whether the run is in the set.
    #[must_use]
    #[inline]
    pub fn contains(&self, run: u8) -> bool {
        self.0[usize::from(run / 64)] >> (run % 64) & 1 == 1
    }

    /// Returns whether there is no run in the set.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// Returns the runs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<> {
        (0..4).zip(self.0).flat_map(|(word, bits)| {
            let rest = |bits: &u64| Some(bits & (bits - 1)).filter(|rest| *rest != 0);
            let words = std::iter::successors(Some(bits).filter(|bits| *bits != 0), rest);
            #[expect(clippy::cast_possible_truncation, reason = "below 64")]
            words.map(move |bits| word * 64 + bits.trailing_zeros() as u8)
        })
    }

    #[inline]
    fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    #[inline]
    fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    #[inline]
    fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }
}

impl fmt::Debug for RunMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunMap").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}

impl Line {
    fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    #[inline(always)]
    fn words(&self) -> [u64; SLOTS / 4] {
        std::array::from_fn(|word| self.0[word].load(Ordering::Relaxed))
    }
}

fn prints(words: [u64; SLOTS / 4]) -> impl Iterator<Item = u16> {
    #[expect(clippy::cast_possible_truncation, reason = "takes 16 bits")]
    words.into_iter().flat_map(|word| [0, 16, 32, 48].map(|shift| (word >> shift) as u16))
}

#[inline(always)]
fn has_equal(words: &[u64; SLOTS / 4], print: u16) -> bool {
    let wanted = u64::from(print) * LOW_BITS;
    // The highest bit of a print is set if the print is equal to the wanted one. A borrow may set it for
    // a print above an equal one, too.
    let equal = words.iter().fold(0, |equal, word| {
        let differs = word ^ wanted;
        equal | differs.wrapping_sub(LOW_BITS) & !differs & HIGH_BITS
    });
    equal != 0
}

/// Returns the highest bit of each print in a word that is equal to `print`.
#[inline(always)]
fn equal_prints(word: u64, print: u16) -> u64 {
    let differs = word ^ (u64::from(print) * LOW_BITS);
    !(((differs & !HIGH_BITS) + !HIGH_BITS) | differs | !HIGH_BITS)
}

impl RunMap {
    /// Makes an empty map for runs that together have `num_keys` keys. The map takes about 35 bits of
    /// memory a key. More keys than announced make it refuse runs.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the map does not fit in memory.
    pub fn new(hasher: &KeyHasher, num_keys: u64) -> Result<Self> {
        let lines = usize::try_from(num_keys.div_ceil(KEYS_PER_LINE).max(1)).unwrap_or(usize::MAX);
        Self::with_lines(hasher, lines, (num_keys / KEYS_PER_SPILLED).max(MIN_MAX_SPILLED))
    }

    fn with_lines(hasher: &KeyHasher, lines: usize, max_spilled: u64) -> Result<Self> {
        let no_memory = too_large("a map of runs");
        // A length that no allocation can have must not reach the iterator.
        if lines > isize::MAX.unsigned_abs() / size_of::<Line>() {
            return Err(Error::TooLarge { what: "a map of runs" });
        }
        let runs = try_collect((0..lines).map(|_| std::array::from_fn(|_| AtomicU8::new(0)))).map_err(&no_memory)?;
        let lines = try_collect((0..lines).map(|_| Line::new())).map_err(no_memory)?;
        Ok(Self {
            hasher: hasher.clone(),
            lines: lines.into_boxed_slice(),
            runs: runs.into_boxed_slice(),
            spilled: RwLock::default(),
            max_spilled,
            held: std::array::from_fn(|_| AtomicU64::new(0)),
            adding: Mutex::default(),
        })
    }

    /// Returns the hasher of the keys.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Returns the number of bytes in memory.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        let spilled = self.spilled.read().map_or(0, |spilled| spilled.len_bytes());
        (self.lines.len() * (size_of::<Line>() + SLOTS)) as u64 + spilled
    }

    /// Returns the expected share of absent keys that the map does not deny to a run of `num_keys` keys.
    #[must_use]
    pub fn expected_fpr(&self, num_keys: u64) -> f64 {
        // The keys of the run in one line, times the probability of an equal print.
        let equal_prints = num_keys as f64 / self.lines.len() as f64 / f64::from(u16::MAX);
        -f64::exp_m1(-equal_prints)
    }

    /// Adds a run: the hashes of **all** its keys, tombstones included. A key whose hash is missing is
    /// denied. Hashes may repeat; equal hashes that follow each other take one entry.
    ///
    /// Returns whether the map now holds the run. It refuses a run if too many of its hashes belong
    /// to full lines, or if there is no memory. Then every answer has the run. The entries that the map
    /// took before stay in it until [`keeping`](Self::keeping). Other threads may ask the map meanwhile.
    ///
    /// A number may be used again after no version has its old run. Then no version may know the new
    /// run before this call has returned.
    pub fn add_run(&self, run: u8, hashes: &[KeyHash]) -> bool {
        let Ok(_adding) = self.adding.lock() else { return false };
        let (word, bit) = (&self.held[usize::from(run / 64)], 1u64 << (run % 64));
        word.fetch_and(!bit, Ordering::Relaxed);
        let mut last = None;
        let mut is_added = |hash: KeyHash| {
            self.hasher.debug_check(hash);
            let (line, print) = self.place(hash);
            // The versions of a key follow each other, and take one entry.
            last.replace(hash) == Some(hash) || self.put(line, print, run)
        };
        let is_held = hashes.chunks(AHEAD).all(|chunk| {
            // Load the lines together.
            for &hash in chunk {
                let (line, _) = self.place(hash);
                prefetch(&self.lines, line);
                prefetch(&self.runs, line);
            }
            // A bug must not become a lost key, so look each key up.
            let is_found = |hash: KeyHash| {
                let (line, print) = self.place(hash);
                self.found(line, print).contains(run)
            };
            chunk.iter().all(|&hash| is_added(hash)) && chunk.iter().all(|&hash| is_found(hash))
        });
        if is_held {
            word.fetch_or(bit, Ordering::Release);
        }
        is_held
    }

    /// Returns the runs of `known` that may hold the key of this hash. The key is certainly not in the
    /// other runs of `known`. `known` has the runs of the asking version.
    ///
    /// The hash must come from [`hasher`](Self::hasher) or an equal hasher. Debug builds panic
    /// otherwise, unless [`KeyHash::from_raw`] made the hash.
    #[must_use]
    #[inline]
    pub fn ask(&self, hash: KeyHash, known: &Runs) -> Runs {
        self.hasher.debug_check(hash);
        let pending = known.without(self.held());
        self.found_of(hash).and(*known).or(pending)
    }

    /// Returns the runs that the map holds whole. A query calls this before it looks at a line.
    #[inline(always)]
    fn held(&self) -> Runs {
        Runs(std::array::from_fn(|word| self.held[word].load(Ordering::Acquire)))
    }

    /// Returns the runs that have an entry with the print of this hash.
    #[inline(always)]
    fn found_of(&self, hash: KeyHash) -> Runs {
        let (line, print) = self.place(hash);
        let Some(prints) = self.lines.get(line) else { return Runs::ALL };
        let words = prints.words();
        let may_have = has_equal(&words, print) || words[SLOTS / 4 - 1] >> 48 != 0;
        if may_have { self.found(line, print) } else { Runs::NONE }
    }

    /// Answers for many keys: `answers[i]` belongs to `hashes[i]`, up to the shorter of the two slices.
    /// See [`ask`](Self::ask).
    pub fn ask_batch(&self, hashes: &[KeyHash], known: &Runs, answers: &mut [Runs]) {
        hashes.iter().for_each(|&hash| self.prefetch(hash));
        let pending = known.without(self.held());
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            self.hasher.debug_check(hash);
            *answer = self.found_of(hash).and(*known).or(pending);
        }
    }

    /// Prefetches the cache line that a query of `hash` will need.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        prefetch(&self.lines, self.place(hash).0);
    }

    /// Returns a copy of the map with the runs of `keep` alone.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the copy does not fit in memory, and [`Error::SelfCheckFailed`] if
    /// the copy lacks an entry: its spilled entries are checked, and one line in 16.
    pub fn keeping(&self, keep: &Runs) -> Result<Self> {
        let no_memory = || Error::TooLarge { what: "a map of runs" };
        let kept = Self::with_lines(&self.hasher, self.lines.len(), self.max_spilled)?;
        let _adding = self.adding.lock().map_err(|_| no_memory())?;
        let spilled = self.spilled.read().map_err(|_| no_memory())?;
        for ((line, runs), (to, to_runs)) in self.lines.iter().zip(&self.runs).zip(kept.lines.iter().zip(&kept.runs)) {
            // Write every entry, but go on only after one that stays: the next one overwrites the others.
            let (mut left, mut len) = ([0u16; SLOTS], 0);
            for (print, run) in prints(line.words()).zip(runs) {
                let run = run.load(Ordering::Relaxed);
                left[len] = print;
                to_runs[len].store(run, Ordering::Relaxed);
                len += usize::from(print != 0 && keep.contains(run));
            }
            left[len..].fill(0);
            for (to, prints) in to.0.iter().zip(left.chunks_exact(4)) {
                let word = prints.iter().rev().fold(0, |word, print| word << 16 | u64::from(*print));
                to.store(word, Ordering::Relaxed);
            }
        }
        for (line, of_line) in &spilled.lines {
            for (print, runs) in of_line {
                let runs = runs.and(*keep);
                // There are no more entries than before, so only a lack of memory can refuse one.
                if !runs.iter().all(|run| kept.put(*line, *print, run)) {
                    return Err(no_memory());
                }
                if !runs.without(kept.found(*line, *print)).is_empty() {
                    return Err(Error::SelfCheckFailed { denied: 1 });
                }
            }
        }
        // A bug must not become a lost key.
        let holds_all = |number: usize, entry: (u16, &AtomicU8)| {
            let (print, run) = (entry.0, entry.1.load(Ordering::Relaxed));
            print == 0 || !keep.contains(run) || kept.found(number, print).contains(run)
        };
        let lines = self.lines.iter().zip(&self.runs).enumerate().step_by(LINES_PER_CHECK);
        for (number, (line, runs)) in lines {
            if !prints(line.words()).zip(runs).all(|entry| holds_all(number, entry)) {
                return Err(Error::SelfCheckFailed { denied: 1 });
            }
        }
        for ((to, from), keep) in kept.held.iter().zip(&self.held).zip(keep.0) {
            to.store(from.load(Ordering::Relaxed) & keep, Ordering::Relaxed);
        }
        Ok(kept)
    }

    #[inline(always)]
    fn place(&self, hash: KeyHash) -> (usize, u16) {
        let product = u128::from(hash.raw()) * self.lines.len() as u128;
        #[expect(clippy::cast_possible_truncation, reason = "the high half is below the number of lines")]
        let (line, print) = ((product >> 64) as usize, (product >> 48) as u16);
        (line, print.max(1))
    }

    /// Finds the runs of an entry whose line has an equal print or is full.
    #[cold]
    #[inline(never)]
    fn found(&self, line: usize, print: u16) -> Runs {
        let mut found = Runs::NONE;
        let (Some(of_line), Some(runs)) = (self.lines.get(line), self.runs.get(line)) else { return Runs::ALL };
        let words = of_line.words();
        // The writer stores the number of the run before the print.
        fence(Ordering::Acquire);
        for (word, runs) in words.iter().zip(runs.chunks_exact(4)) {
            let mut equal = equal_prints(*word, print);
            while equal != 0 {
                found.insert(runs[equal.trailing_zeros() as usize / 16].load(Ordering::Relaxed));
                equal &= equal - 1;
            }
        }
        if words[SLOTS / 4 - 1] >> 48 != 0 {
            let Ok(spilled) = self.spilled.read() else { return Runs::ALL };
            let of_line = spilled.lines.get(&line).into_iter().flatten();
            for (_, runs) in of_line.filter(|(other, _)| *other == print) {
                found = found.or(*runs);
            }
        }
        found
    }

    /// Adds an entry. Returns `false` if too many entries have spilled. The caller holds the lock
    /// `adding`.
    fn put(&self, line: usize, print: u16, run: u8) -> bool {
        let (Some(prints_of), Some(runs)) = (self.lines.get(line), self.runs.get(line)) else { return false };
        // The slots are taken in their order, so the words before `place` are full.
        let word = |place: usize| prints_of.0[place].load(Ordering::Relaxed);
        let mut place = 0;
        for half in [4, 2, 1] {
            place += if word(place + half - 1) >> 48 == 0 { 0 } else { half };
        }
        let in_word = (u64::BITS - word(place).leading_zeros()).div_ceil(16);
        if in_word < 4 {
            runs[place * 4 + in_word as usize].store(run, Ordering::Relaxed);
            let word_with = word(place) | u64::from(print) << (in_word * 16);
            prints_of.0[place].store(word_with, Ordering::Release);
            return true;
        }
        self.spilled.write().is_ok_and(|mut spilled| spilled.put(line, print, run, self.max_spilled))
    }
}

impl Spilled {
    fn put(&mut self, line: usize, print: u16, run: u8, max_len: u64) -> bool {
        if self.lines.try_reserve(1).is_err() {
            return false;
        }
        let of_line = self.lines.entry(line).or_default();
        if let Some((_, runs)) = of_line.iter_mut().find(|(other, _)| *other == print) {
            // A key of many runs takes one entry here.
            runs.insert(run);
            return true;
        }
        if self.len >= max_len || of_line.len() >= MAX_SPILLED_OF_LINE || of_line.try_reserve_exact(1).is_err() {
            return false;
        }
        let mut runs = Runs::NONE;
        runs.insert(run);
        of_line.push((print, runs));
        self.len += 1;
        true
    }

    fn len_bytes(&self) -> u64 {
        let entries = self.lines.values().map(|of_line| of_line.capacity() * size_of::<(u16, Runs)>()).sum::<usize>();
        (entries + self.lines.capacity() * (size_of::<(usize, Vec<(u16, Runs)>)>() + 1)) as u64
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A query that rejects a line by `has_equal` must not reject an equal print. Prints that differ by
    /// little are neighbours here, because a borrow goes from one print to the next.
    #[test]
    fn a_line_rejects_no_print_that_it_has() {
        for print in 1..=u16::MAX {
            for slot in 0..SLOTS {
                let mut words = [0u64; SLOTS / 4];
                for (i, other) in [print.wrapping_sub(1), print, print.wrapping_add(1)].into_iter().enumerate() {
                    if let Some(slot) = (slot + i).checked_sub(1).filter(|slot| *slot < SLOTS) {
                        words[slot / 4] |= u64::from(other) << (slot % 4 * 16);
                    }
                }
                assert!(has_equal(&words, print), "print {print} in slot {slot}");
                let equal = 1 << (slot % 4 * 16 + 15);
                assert_eq!(equal_prints(words[slot / 4], print), equal, "print {print} in slot {slot}");
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::hash::HashSeed;

    /// A thread that asks meanwhile sees a run whole, or the answer has the run.
    #[test]
    fn loom_a_run_that_is_being_added_is_never_denied() {
        loom::model(|| {
            let hasher = KeyHasher::xxh3(HashSeed(1));
            let map = Arc::new(RunMap::new(&hasher, 1).unwrap());
            let hashes = [hasher.of(b"apple"), hasher.of(b"pear")];
            let mut older = Runs::NONE;
            assert!(map.add_run(0, &hashes[..1]));
            older.insert(0);
            let theirs = map.clone();
            let writer = thread::spawn(move || assert!(theirs.add_run(1, &hashes[1..])));
            let mut newer = older;
            newer.insert(1);
            assert!(map.ask(hashes[1], &newer).contains(1));
            // An older version finds its own run, and never the new one.
            assert_eq!(map.ask(hashes[0], &older), older);
            assert!(map.ask(hashes[1], &older).is_empty());
            writer.join().unwrap();
            assert_eq!(map.ask(hashes[1], &newer).iter().collect::<Vec<_>>(), [1]);
        });
    }
}
