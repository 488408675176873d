//! Proxies tell each other what they cache. Each proxy counts its own documents in a counting
//! filter and sends the plain bits to the others. A proxy asks only the proxies whose bits say
//! "maybe" (Fan, Cao, Almeida, Broder, "Summary cache", 2000).
//!
//! ```text
//! cargo run --release -p filterblock-family --example summary_cache -- requests.txt
//! ```
//! Each line of the file is the URL of a request. Requests go to the proxies in turn. Without
//! summaries, a proxy asks all others at each miss.

use std::collections::{HashSet, VecDeque};
use std::process::ExitCode;

use filterblock::HashSeed;
use filterblock_family::{Bloom, CounterBits, Counting, Membership, Removable};
use filterblock_testkit::Random;
use filterblock_testkit::example::{self, Arguments, Checks, Failure};

const PROXIES: usize = 8;
/// The number of counters in a filter for each document that the cache can hold. A document uses
/// `PROBES` of all counters.
const LOAD_FACTOR: u64 = 16;
const PROBES: u32 = 4;
/// A proxy sends its bits when its new documents reach 1 / `UPDATE_SHARE` of its capacity.
const UPDATE_SHARE: usize = 100;

fn main() -> ExitCode {
    example::main("Counts the messages that proxies save with summaries of their caches.", 400_000, run)
}

/// A proxy with a cache that evicts the oldest document. `counters` holds the cached documents, and
/// `sent` holds the bits that the proxy last sent to the other proxies.
struct Proxy {
    documents: HashSet<Vec<u8>>,
    order: VecDeque<Vec<u8>>,
    counters: Counting,
    sent: Bloom,
    /// The documents in `sent`, to count the false positives of `sent`.
    sent_documents: HashSet<Vec<u8>>,
    new: usize,
    updates: u64,
}

impl Proxy {
    fn new(capacity: usize) -> Result<Self, Failure> {
        let counters = Counting::with_shape(capacity as u64 * LOAD_FACTOR, PROBES, CounterBits::Four, HashSeed(1))?;
        let sent = counters.to_bloom()?;
        let (documents, order) = (HashSet::new(), VecDeque::new());
        Ok(Self { documents, order, counters, sent, sent_documents: HashSet::new(), new: 0, updates: 0 })
    }

    fn store(&mut self, url: &[u8], capacity: usize) -> Result<(), Failure> {
        if self.order.len() == capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.documents.remove(&oldest);
            self.counters.remove(&oldest)?;
        }
        self.order.push_back(url.to_vec());
        self.documents.insert(url.to_vec());
        self.counters.insert(url);
        self.new += 1;
        if self.new * UPDATE_SHARE >= capacity {
            self.sent = self.counters.to_bloom()?;
            self.sent_documents = self.documents.clone();
            self.new = 0;
            self.updates += 1;
        }
        Ok(())
    }
}

/// Runs the example, for `main` and for its test.
pub fn run(arguments: &Arguments, checks: &mut Checks) -> Result<(), Failure> {
    let mut random = Random(11);
    let requests = match &arguments.file {
        Some(_) => arguments.keys(|_| String::new())?,
        None => {
            let pages = arguments.count / 4;
            (0..arguments.count)
                .map(|_| format!("https://www.example/{}", random.popular(pages)).into_bytes())
                .collect()
        }
    };
    let capacity = (requests.len() / PROXIES / 20).max(UPDATE_SHARE);
    let mut proxies = (0..PROXIES).map(|_| Proxy::new(capacity)).collect::<Result<Vec<_>, _>>()?;
    let (mut misses, mut messages, mut remote_hits, mut stale) = (0u64, 0u64, 0u64, 0u64);
    let (mut false_hits, mut predicted, mut asked) = (0, 0.0, HashSet::new());
    for (i, url) in requests.iter().enumerate() {
        let home = i % PROXIES;
        if proxies.get(home).is_some_and(|proxy| proxy.documents.contains(url)) {
            continue;
        }
        misses += 1;
        let mut is_found = false;
        for (number, other) in proxies.iter().enumerate().filter(|(number, _)| *number != home) {
            let (says, has) = (other.sent.may_contain(url), other.documents.contains(url));
            messages += u64::from(says);
            is_found |= says && has;
            stale += u64::from(has && !says);
            // Each URL counts once for each other proxy. A second request would not be an
            // independent trial.
            if !other.sent_documents.contains(url) && asked.insert((number, url)) {
                false_hits += u64::from(says);
                predicted += other.sent.expected_fpr();
            }
        }
        remote_hits += u64::from(is_found);
        proxies.get_mut(home).ok_or("the home proxy does not exist")?.store(url, capacity)?;
    }
    let updates: u64 = proxies.iter().map(|proxy| proxy.updates).sum();
    let without = misses * (PROXIES as u64 - 1);
    println!(
        "{} requests to {PROXIES} proxies of {capacity} documents: {misses} misses, {remote_hits} found at others",
        requests.len()
    );
    println!(
        "  messages: {} with summaries (including {updates} updates to {} others each), {without} without: {:.1} times as many",
        messages + updates * (PROXIES as u64 - 1),
        PROXIES - 1,
        without as f64 / (messages + updates * (PROXIES as u64 - 1)) as f64
    );
    println!("  cached documents that were missed because a summary was too old: {stale}");
    checks.share(
        "summaries that say \"maybe\" for an absent document",
        false_hits,
        asked.len() as u64,
        predicted / asked.len() as f64,
    );
    let has_all = proxies.iter().all(|proxy| proxy.order.iter().all(|url| proxy.counters.may_contain(url)));
    checks.holds("after all removals, each proxy's counters contain every cached document", has_all);
    let fresh = proxies.iter().map(|proxy| proxy.counters.to_bloom()).collect::<Result<Vec<_>, _>>()?;
    let agree = proxies.iter().zip(&fresh).all(|(proxy, bits)| proxy.order.iter().all(|url| bits.may_contain(url)));
    checks.holds("the bits that each proxy would send now contain every cached document", agree);
    Ok(())
}
