//! Measures the filters of an engine in turn: first in several runs, then in one run.

use std::time::Duration;

use crate::counting::Counting;
use crate::row::Row;
use crate::stopwatch::{Times, median, times};
use crate::workload::{VALUE, absent_keys, present_keys};

/// A filter to measure, and the database of an engine whose SSTs have this filter.
pub trait Contender {
    /// An open database.
    type Db;

    /// Returns the name of the filter.
    fn filter(&self) -> &'static str;

    /// Returns the counts of the filters and of their answers.
    fn counting(&self) -> &Counting;

    /// Puts all keys into several overlapping runs. Returns the time.
    fn load(&self, present: &[Vec<u8>]) -> Duration;

    /// Compacts all runs into one. Returns the time.
    fn compact(&self) -> Duration;

    /// Opens the database. If `counts` is `true`, the filters and their answers are counted.
    fn open(&self, counts: bool) -> Self::Db;

    /// Returns the value of a key.
    fn get(db: &mut Self::Db, key: &[u8]) -> Option<Vec<u8>>;

    /// Closes the database.
    fn close(&self, db: Self::Db);

    /// Returns whether present keys are looked up.
    fn has_present_keys(&self) -> bool {
        true
    }
}

/// Loads `keys` keys into the database of each contender. Measures gets of absent keys, and counts
/// the present keys that a get does not find: first in `runs` runs, then in one run. Passes a row for
/// each contender and layout to `sink`.
///
/// # Panics
/// Panics if `keys` is 0, if the engine or the file system returns an error, or if the engine returns
/// a value for an absent key.
pub fn run<C: Contender>(
    engine: (&str, &str),
    runs: usize,
    contenders: &[C],
    keys: usize,
    rounds: usize,
    sink: &mut dyn FnMut(Row),
) {
    let (present, absent) = (present_keys(keys), absent_keys(100_000.min(keys)));
    let loads: Vec<Duration> = contenders.iter().map(|contender| contender.load(&present)).collect();
    for runs in [runs, 1] {
        let compacted: Vec<_> = contenders.iter().map(|contender| (runs == 1).then(|| contender.compact())).collect();
        // Gets of present keys may compact, so they come after the gets of absent keys.
        let times = measure(contenders, rounds, &absent);
        for (((contender, &load), compacted), times) in contenders.iter().zip(&loads).zip(compacted).zip(times) {
            let bytes = contender.counting().bytes_of_last(keys);
            let (asked, passed) = answers(contender, &absent);
            sink(Row {
                false_positive_rate: Some(passed as f64 / asked.max(1) as f64),
                // Each answer "maybe" reads one data block.
                reads_per_miss: Some(passed as f64 / absent.len() as f64),
                compact_ms: compacted.map(|time| time.as_secs_f64() * 1e3),
                false_negatives: lost(contender, &present),
                ..Row::new(engine, runs, contender.filter(), keys, bytes, times, load)
            });
        }
    }
}

/// Returns the numbers of filter queries and of answers "maybe" for absent keys.
fn answers<C: Contender>(contender: &C, absent: &[Vec<u8>]) -> (u64, u64) {
    let mut db = contender.open(true);
    contender.counting().take_answers();
    assert!(absent.iter().all(|key| C::get(&mut db, key).is_none()), "an absent key has a value");
    contender.close(db);
    contender.counting().take_answers()
}

/// Returns the number of present keys that a get does not find.
fn lost<C: Contender>(contender: &C, present: &[Vec<u8>]) -> u64 {
    if !contender.has_present_keys() {
        return 0;
    }
    let mut db = contender.open(true);
    let lost = present.iter().filter(|key| C::get(&mut db, key).as_deref() != Some(VALUE)).count();
    contender.close(db);
    lost as u64
}

/// Measures gets of absent keys. Each round measures every database once. Returns the medians for
/// each database.
fn measure<C: Contender>(contenders: &[C], rounds: usize, absent: &[Vec<u8>]) -> Vec<Times> {
    let mut dbs: Vec<C::Db> = contenders.iter().map(|contender| contender.open(false)).collect();
    let mut measured = vec![Vec::new(); dbs.len()];
    // The first round only fills the caches.
    for round in 0..=rounds {
        for (db, measured) in dbs.iter_mut().zip(&mut measured) {
            let times = times(absent, |key| assert!(C::get(db, key).is_none()));
            if round > 0 {
                measured.push(times);
            }
        }
    }
    contenders.iter().zip(dbs).for_each(|(contender, db)| contender.close(db));
    measured.iter().map(|rounds| median(rounds)).collect()
}
