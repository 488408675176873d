//! Measures filters that take keys one by one: times of insertions, queries and removals, memory,
//! and wrong answers.
//!
//! A pass fills a new filter of each kind with the same keys. It asks for all keys in another
//! order, and for as many absent keys. If the kind can remove keys, the pass then removes the first
//! half of the keys, and asks for the second half. The result has the lowest time of all passes for
//! each operation.

mod filters;

use std::hint::black_box;

use filterblock_testkit::measure::clock::thread_time;
use filterblock_testkit::measure::keys::{ABSENT, Key, key, mix};
use filterblock_testkit::measure::machine;
use serde::{Deserialize, Serialize};

use crate::args::Variants;
use crate::rate::Rate;

/// The results of one kind of filter.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub variant: String,
    /// The crate or Python package of the filter.
    pub package: String,
    /// The version of the package.
    pub version: String,
    /// The compiler or interpreter.
    pub runtime: String,
    /// Number of keys that were added.
    pub keys: usize,
    /// Number of passes. A pass in which an insertion failed does not count in the results.
    pub passes: usize,
    /// CPU time of an insertion in ns, of the fastest pass.
    pub insert_ns: f64,
    /// CPU time of a query for a present key in ns, of the fastest pass.
    pub present_ns: f64,
    /// CPU time of a query for an absent key in ns, of the fastest pass.
    pub absent_ns: f64,
    /// CPU time of a removal in ns, of the fastest pass, or `None` if the filter cannot remove
    /// keys.
    pub remove_ns: Option<f64>,
    /// The size in bytes of the filter in memory, or of its file.
    pub bytes: u64,
    /// The share of absent keys answered "maybe".
    pub rate: f64,
    /// The lower end of the 99 % interval of `rate`.
    pub rate_low: f64,
    /// The upper end of the 99 % interval of `rate`.
    pub rate_high: f64,
    /// Number of added keys that the filter denied before removals.
    pub denied: u64,
    /// Number of keys that the filter could not remove, plus number of remaining keys that it
    /// denied after the removals. `None` if the filter cannot remove keys.
    pub denied_after_removals: Option<u64>,
}

/// A filter that takes keys one by one.
trait Variant {
    /// Whether the filter can remove keys.
    const REMOVES: bool = false;
    /// Adds a key. Returns `false` if the insertion fails, for example for lack of room.
    fn add(&mut self, key: &Key) -> bool;
    /// Returns whether the filter may hold a key.
    fn has(&self, key: &Key) -> bool;
    /// Removes a key. Returns `false` if the filter did not remove it.
    fn take(&mut self, _: &Key) -> bool {
        false
    }
    /// Makes insertions durable if the filter lies in a file.
    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// Returns the size in bytes of the filter in memory, or of its file.
    fn bytes(&self) -> u64;
}

/// The keys that all filters get.
struct Work {
    added: Vec<Key>,
    /// The keys of `added` in another order.
    asked: Vec<Key>,
    absent: Vec<Key>,
}

impl Work {
    fn new(keys: usize) -> Self {
        let mut shuffled: Vec<u64> = (0..keys as u64).collect();
        shuffled.sort_by_key(|&number| mix(!number));
        Self {
            added: (0..keys as u64).map(key).collect(),
            asked: shuffled.into_iter().map(key).collect(),
            absent: (0..keys as u64).map(|number| key(ABSENT + number)).collect(),
        }
    }
}

/// The results of one pass: times in ns per key, and counts of answers.
#[derive(Clone, Copy)]
struct Pass {
    insert_ns: f64,
    present_ns: f64,
    absent_ns: f64,
    remove_ns: Option<f64>,
    bytes: u64,
    refused: u64,
    false_positives: u64,
    denied: u64,
    denied_after_removals: Option<u64>,
}

impl Pass {
    /// Combines two passes. The result has the lower times, the higher numbers of denied keys, and
    /// the other values of the later pass.
    fn least(self, next: Self) -> Self {
        Self {
            insert_ns: self.insert_ns.min(next.insert_ns),
            present_ns: self.present_ns.min(next.present_ns),
            absent_ns: self.absent_ns.min(next.absent_ns),
            remove_ns: self.remove_ns.zip(next.remove_ns).map(|(a, b)| a.min(b)),
            denied: self.denied.max(next.denied),
            denied_after_removals: self.denied_after_removals.max(next.denied_after_removals),
            ..next
        }
    }
}

fn pass<V: Variant>(make: &impl Fn() -> Result<V, String>, work: &Work) -> Result<Pass, String> {
    let mut filter = make()?;
    let start = thread_time();
    let taken = count(&work.added, |key| filter.add(key));
    filter.sync()?;
    let insert_ns = nanos_per_key(start, work.added.len());
    let bytes = filter.bytes();
    let start = thread_time();
    let found = count(&work.asked, |key| filter.has(key));
    let present_ns = nanos_per_key(start, work.asked.len());
    let start = thread_time();
    let false_positives = count(&work.absent, |key| filter.has(key));
    let absent_ns = nanos_per_key(start, work.absent.len());
    let (gone, left) = work.added.split_at(work.added.len() / 2);
    let after = V::REMOVES.then(|| {
        let start = thread_time();
        let removed = count(gone, |key| filter.take(key));
        let remove_ns = nanos_per_key(start, gone.len());
        (remove_ns, gone.len() as u64 - removed + left.len() as u64 - count(left, |key| filter.has(key)))
    });
    Ok(Pass {
        insert_ns,
        present_ns,
        absent_ns,
        remove_ns: after.map(|(ns, _)| ns),
        bytes,
        refused: work.added.len() as u64 - taken,
        false_positives,
        denied: work.asked.len() as u64 - found,
        denied_after_removals: after.map(|(_, denied)| denied),
    })
}

#[inline(never)]
fn count(keys: &[Key], mut act: impl FnMut(&Key) -> bool) -> u64 {
    black_box(keys).iter().map(|key| u64::from(act(key))).sum()
}

fn nanos_per_key(start: std::time::Duration, keys: usize) -> f64 {
    let nanos = (thread_time() - start).as_secs_f64() * 1e9 / keys.max(1) as f64;
    (nanos * 100.0).round() / 100.0
}

/// Makes a filter, and returns the results of one pass.
type OnePass = Box<dyn Fn(&Work) -> Result<Pass, String>>;

struct Kind {
    name: String,
    package: &'static str,
    /// Whether the kind may deny keys by design.
    forgets: bool,
    pass: OnePass,
}

impl Kind {
    fn new<V: Variant + 'static>(
        name: &str,
        package: &'static str,
        make: impl Fn() -> Result<V, String> + 'static,
    ) -> Self {
        Self { name: name.into(), package, forgets: false, pass: Box::new(move |work| pass(&make, work)) }
    }

    fn row(&self, keys: usize, passes: usize, found: &Pass) -> Row {
        let rate = Rate::of(found.false_positives, keys as u64);
        Row {
            variant: self.name.clone(),
            package: self.package.into(),
            version: crate::version_of(self.package).into(),
            runtime: machine::RUSTC.split(" (").next().unwrap_or_default().into(),
            keys,
            passes,
            insert_ns: found.insert_ns,
            present_ns: found.present_ns,
            absent_ns: found.absent_ns,
            remove_ns: found.remove_ns,
            bytes: found.bytes,
            rate: rate.share,
            rate_low: rate.low,
            rate_high: rate.high,
            denied: found.denied,
            denied_after_removals: found.denied_after_removals,
        }
    }
}

/// Measures all kinds in turn in each pass, prints the results, and writes them to the CSV.
/// A denied key is an error, unless the kind may deny keys by design.
pub fn measure(args: &Variants) -> Result<(), String> {
    let mut recorder = args.record.open::<Row>(false, true)?;
    let (work, kinds) = (Work::new(args.keys), filters::all(args.keys)?);
    let mut found: Vec<Option<Pass>> = vec![None; kinds.len()];
    for number in 0..args.passes {
        for turn in 0..kinds.len() {
            let i = (turn + number) % kinds.len();
            let next = (kinds[i].pass)(&work).map_err(|error| format!("{}: {error}", kinds[i].name))?;
            if next.refused > 0 {
                eprintln!("{}: no room for {} keys; the pass does not count", kinds[i].name, next.refused);
                continue;
            }
            check(&kinds[i], &next)?;
            found[i] = Some(found[i].map_or(next, |before| before.least(next)));
        }
        eprintln!("pass {} of {}", number + 1, args.passes);
    }
    println!(
        "{:28} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}  denied",
        "", "insert", "present", "absent", "remove", "bits/key", "rate %"
    );
    for (kind, found) in kinds.iter().zip(&found) {
        let found = found.as_ref().ok_or_else(|| format!("{} has no room for its keys", kind.name))?;
        let row = kind.row(args.keys, args.passes, found);
        print(&row);
        recorder.write(&row)?;
    }
    recorder.flush()
}

fn check(kind: &Kind, found: &Pass) -> Result<(), String> {
    let denied = found.denied + found.denied_after_removals.unwrap_or(0);
    if denied > 0 && !kind.forgets {
        return Err(format!("{} denies {denied} of its keys", kind.name));
    }
    Ok(())
}

fn print(row: &Row) {
    println!(
        "{:28} {:9.1} {:9.1} {:9.1} {:>9} {:9.2} {:8.3}  {}",
        row.variant,
        row.insert_ns,
        row.present_ns,
        row.absent_ns,
        row.remove_ns.map_or(String::new(), |ns| format!("{ns:.1}")),
        row.bytes as f64 * 8.0 / row.keys as f64,
        row.rate * 100.0,
        row.denied
    );
}
