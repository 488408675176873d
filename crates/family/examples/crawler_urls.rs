//! A web crawler checks for each link whether it has seen the page. A Bloom filter needs much less
//! memory for this than a hash set of all URLs. The price: the crawler never fetches pages that are
//! false positives.
//!
//! ```text
//! cargo run --release -p filterblock-family --example crawler_urls -- links.txt
//! ```
//! Each line of the file is a link, in the order of the crawl. Without a file, the example crawls a
//! generated web from its first page. Half of the generated links prefer a few popular pages.

use std::collections::{HashSet, VecDeque};
use std::process::ExitCode;

use filterblock::HashSeed;
use filterblock_family::{Bloom, Membership};
use filterblock_testkit::Random;
use filterblock_testkit::example::{self, Arguments, Checks, Failure};

const RATE: f64 = 0.01;
const LINKS_OF_A_PAGE: usize = 8;

fn main() -> ExitCode {
    example::main("Counts the pages that a crawler with a Bloom filter of seen pages misses.", 300_000, run)
}

/// Returns the links of a web with `pages` pages, in the order of a breadth-first crawl.
fn crawl(pages: usize) -> Vec<Vec<u8>> {
    let url = |page: usize| {
        format!("https://site-{}.example/{:x}/page-{page}", page % 997, page.wrapping_mul(40_503)).into_bytes()
    };
    let (mut queue, mut queued, mut links) = (VecDeque::from([0]), HashSet::from([0]), vec![url(0)]);
    while let Some(page) = queue.pop_front() {
        let mut random = Random(page as u64);
        for i in 0..LINKS_OF_A_PAGE {
            let to = if i % 2 == 0 { random.popular(pages) } else { random.index(pages) };
            links.push(url(to));
            if queued.insert(to) {
                queue.push_back(to);
            }
        }
    }
    links
}

/// Runs the example, for `main` and for its test.
pub fn run(arguments: &Arguments, checks: &mut Checks) -> Result<(), Failure> {
    let links = match &arguments.file {
        Some(_) => arguments.keys(|_| String::new())?,
        None => crawl(arguments.count),
    };
    let pages: HashSet<&[u8]> = links.iter().map(Vec::as_slice).collect();
    let seen = Bloom::with_fpr(pages.len() as u64, RATE, HashSeed(1))?;
    let (mut fetched, mut met, mut missed, mut predicted) = (HashSet::new(), HashSet::new(), 0, 0.0);
    for link in &links {
        if met.insert(link) {
            // The probability that the filter answers "maybe" for this new page.
            predicted += rate_when(met.len() - 1, &seen);
            missed += u64::from(seen.may_contain(link));
        }
        if !seen.may_contain(link) {
            seen.insert(link);
            fetched.insert(link);
        }
    }
    println!("{} links to {} pages, {} fetched", links.len(), pages.len(), fetched.len());
    example::compare_memory(seen.num_bits(), pages.iter().copied());
    checks.share("pages that look seen and are never fetched", missed, met.len() as u64, predicted / met.len() as f64);
    checks.holds("no page was fetched twice", fetched.len() as u64 + missed == met.len() as u64);
    checks.holds("every fetched page is known as seen", fetched.iter().all(|page| seen.may_contain(page)));
    Ok(())
}

/// Returns the FPR `(1 - e^(-kn/m))^k` of a filter with n = `keys` keys, m bits and k probes.
fn rate_when(keys: usize, filter: &Bloom) -> f64 {
    let probes = f64::from(filter.num_probes());
    (1.0 - (-probes * keys as f64 / filter.num_bits() as f64).exp()).powf(probes)
}
