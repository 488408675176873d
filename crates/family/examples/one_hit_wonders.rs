//! A content cache writes an object to disk only at its second request. A Bloom filter remembers
//! the first request. In the generated requests, about three quarters of all URLs are requested
//! once. They cost no write, except for false positives of the filter.
//!
//! ```text
//! cargo run --release -p filterblock-family --example one_hit_wonders -- requests.txt
//! ```
//! Each line of the file is the URL of a request.

use std::collections::{HashMap, HashSet};
use std::process::ExitCode;

use filterblock::HashSeed;
use filterblock_family::{Bloom, Membership};
use filterblock_testkit::Random;
use filterblock_testkit::example::{self, Arguments, Checks, Failure};

const RATE: f64 = 0.01;

fn main() -> ExitCode {
    example::main("Counts the writes that a cache saves with a filter of first requests.", 1_000_000, run)
}

/// Returns requests in random order: one for each of `urls` URLs, and on average four more for each
/// URL of one quarter.
fn requests(urls: usize) -> Vec<Vec<u8>> {
    let mut random = Random(7);
    let mut requests: Vec<usize> = (0..urls).collect();
    requests.extend((0..urls).map(|_| random.index(urls / 4)));
    // Fisher-Yates shuffle.
    (1..requests.len()).rev().for_each(|i| requests.swap(i, random.index(i + 1)));
    requests
        .into_iter()
        .map(|url| format!("https://cdn.example/{:016x}", Random(url as u64).next()).into_bytes())
        .collect()
}

/// Runs the example, for `main` and for its test.
pub fn run(arguments: &Arguments, checks: &mut Checks) -> Result<(), Failure> {
    let requests = match &arguments.file {
        Some(_) => arguments.keys(|_| String::new())?,
        None => requests(arguments.count),
    };
    let mut times: HashMap<&[u8], u64> = HashMap::new();
    requests.iter().for_each(|url| *times.entry(url).or_default() += 1);
    let once = times.values().filter(|&&times| times == 1).count() as u64;

    let asked = Bloom::with_fpr(times.len() as u64, RATE, HashSeed(1))?;
    let (mut cached, mut hits, mut early) = (HashSet::new(), 0u64, 0);
    let (mut met, mut predicted) = (HashSet::new(), 0.0);
    for url in &requests {
        let is_first = met.insert(url);
        if is_first {
            let probes = f64::from(asked.num_probes());
            predicted += (1.0 - (-probes * (met.len() - 1) as f64 / asked.num_bits() as f64).exp()).powf(probes);
        }
        if cached.contains(url) {
            hits += 1;
        } else if asked.may_contain(url) {
            early += u64::from(is_first);
            cached.insert(url);
        } else {
            asked.insert(url);
        }
    }
    println!("{} requests of {} URLs, {once} of them requested once", requests.len(), times.len());
    example::compare_memory(asked.num_bits(), times.keys().copied());
    let all = times.len() as u64;
    println!(
        "  writes: {} with the filter, {all} without: {:.1} % saved",
        cached.len(),
        100.0 - cached.len() as f64 / all as f64 * 100.0
    );
    println!("  hits: {hits} with the filter, {} without", requests.len() as u64 - all);
    checks.share("URLs written at their first request", early, all, predicted / all as f64);
    let again: HashSet<_> =
        requests.iter().filter(|url| times.get(url.as_slice()).is_some_and(|&times| times > 1)).collect();
    checks.holds("every URL that was requested twice is cached", again.iter().all(|url| cached.contains(*url)));
    checks.holds("no other URL is cached, except for false positives", cached.len() as u64 <= all - once + early);
    Ok(())
}
