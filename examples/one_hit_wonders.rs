//! A content cache writes an object to disk when it is asked for the second time: a Bloom filter remembers the first. Three
//! quarters of all URLs are asked for once, and cost no write.
//!
//! ```text
//! cargo run --release --features variants --example one_hit_wonders -- requests.txt
//! ```
//! A line of the file is the URL of a request.

pub mod support;

use std::collections::{HashMap, HashSet};
use std::process::ExitCode;

use filterblock::HashSeed;
use filterblock::variants::{Bloom, Membership};
use support::{Arguments, Checks, Failure, Random};

const RATE: f64 = 0.01;

fn main() -> ExitCode {
    support::main("Writes that a cache is spared by a filter of what was asked for once.", 1_000_000, run)
}

/// Requests of `urls`, of which a quarter is asked for again and again.
fn requests(urls: usize) -> Vec<Vec<u8>> {
    let mut random = Random(7);
    let mut requests: Vec<usize> = (0..urls).collect();
    requests.extend((0..urls).map(|_| random.below(urls / 4)));
    // Fisher-Yates.
    (1..requests.len()).rev().for_each(|i| requests.swap(i, random.below(i + 1)));
    requests
        .into_iter()
        .map(|url| format!("https://cdn.example/{:016x}", Random(url as u64).bits()).into_bytes())
        .collect()
}

/// The example, for `main` and for its test.
pub fn run(arguments: &Arguments, checks: &mut Checks) -> Result<(), Failure> {
    let requests = match &arguments.file {
        Some(_) => arguments.keys(|_| String::new())?,
        None => requests(arguments.count),
    };
    let mut times: HashMap<&[u8], u64> = HashMap::new();
    requests.iter().for_each(|url| *times.entry(url).or_default() += 1);
    let once = times.values().filter(|&&times| times == 1).count() as u64;

    let asked = Bloom::with_rate(times.len() as u64, RATE, HashSeed(1))?;
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
    println!("{} requests of {} URLs, {once} of them once", requests.len(), times.len());
    support::compare_memory(asked.num_bits(), times.keys().copied());
    let all = times.len() as u64;
    println!(
        "  writes: {} with the filter, {all} without: {:.1} % spared",
        cached.len(),
        100.0 - cached.len() as f64 / all as f64 * 100.0
    );
    println!("  hits: {hits} with the filter, {} without", requests.len() as u64 - all);
    checks.share("URLs written at their first request", early, all, predicted / all as f64);
    let again: HashSet<_> =
        requests.iter().filter(|url| times.get(url.as_slice()).is_some_and(|&times| times > 1)).collect();
    checks.holds("every URL that was asked for twice is cached", again.iter().all(|url| cached.contains(*url)));
    checks.holds("nothing else is, but for those", cached.len() as u64 <= all - once + early);
    Ok(())
}
