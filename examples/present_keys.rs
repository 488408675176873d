//! Searches for false negatives: adds keys to filters of seven kinds, asks for each key once, and
//! counts denials.
//!
//! ```text
//! cargo run --release --example present_keys -- --probes 1000000000 --seed 1
//! ```
//! A probe is one query for one key here. The keys are random hashes. The program combines each of
//! 16 specifications with each of seven filter sizes, from 33 to fewer than 1,250,000 keys. It
//! shares the probes about equally among these combinations. With fewer than 1.4 * 10^8 probes, it
//! may skip some combinations.
//!
//! The program builds the filters without their self-check, and opens them from their bytes with
//! all pages verified. It asks for half of the keys one by one, and for the other half in batches.
//! Runs with the same seed and the same number of probes ask for the same keys.
//!
//! Exit code: 0 if no key was denied, 1 if a key was denied or a filter could not be built or
//! opened, 2 for wrong arguments.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the command line")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use filterblock::{FilterBlock, FilterKind, FilterOptions, FilterSpec, HashSeed, KeyHash, Result, Verify};

const SPECS: [&str; 16] = [
    "bumped-ribbon:8",
    "bumped-ribbon:fpr=0.01",
    "bumped-ribbon:12.3",
    "bumped-ribbon:fpr=0.00390625:compact",
    "ribbon:8",
    "ribbon:fpr=0.01",
    "binary-fuse:8",
    "binary-fuse:12",
    "binary-fuse:16",
    "split-block:10",
    "split-block:16",
    "split-block-512:16",
    "blocked-bloom:10",
    "blocked-bloom:16",
    "bloom:10",
    "bloom:16",
];
/// The sizes of the filters: their minimum numbers of keys. Each filter has a random number of
/// further keys, less than a quarter of its minimum.
const SIZES: [usize; 7] = [33, 1_000, 3_900, 10_000, 60_000, 100_000, 1_000_000];
const BATCH: usize = 1_000;

/// The counts of one filter, of one kind or of all kinds. `denied` is the number of false
/// negatives.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    filters: u64,
    probes: u64,
    denied: u64,
}

/// SplitMix64 (Steele, Lea, Flood 2014), written from its published description.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Builds a filter of `keys` and asks for all of them. Returns the kind of the specification and
/// the counts.
fn ask(spec: FilterSpec, keys: &[KeyHash]) -> Result<(FilterKind, Count)> {
    let mut builder = FilterOptions::new(spec).self_check(false).builder(HashSeed(0))?;
    keys.iter().for_each(|&key| builder.add_hash(key));
    let block = FilterBlock::open_any(builder.finish()?.bytes, Verify::AtOpen)?;
    let (singly, batched) = keys.split_at(keys.len() / 2);
    let mut denied = singly.iter().filter(|&&key| !block.may_contain_hash(key)).count();
    let mut answers = [false; BATCH];
    for keys in batched.chunks(BATCH) {
        answers.fill(false);
        block.may_contain_batch(keys, &mut answers);
        denied += answers.iter().zip(keys).filter(|(answer, _)| !**answer).count();
    }
    Ok((spec.kind(), Count { filters: 1, probes: keys.len() as u64, denied: denied as u64 }))
}

fn run(probes: u64, seed: u64) -> Result<u64> {
    let mut random = SplitMix(seed);
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    let (start, mut last_line, mut done) = (Instant::now(), Instant::now(), 0);
    let shares = (SPECS.len() * SIZES.len()) as u64;
    let mut keys = Vec::new();
    for (share, (text, size)) in SPECS.iter().flat_map(|text| SIZES.iter().map(move |size| (text, size))).enumerate() {
        let spec: FilterSpec = text.parse()?;
        while done < probes * (share as u64 + 1) / shares {
            #[expect(clippy::cast_possible_truncation, reason = "below a quarter of a size in memory")]
            let n = size + (random.next() % (*size as u64 / 4)) as usize;
            keys.clear();
            keys.resize_with(n, || KeyHash::from_raw(random.next()));
            let (kind, asked) = ask(spec, &keys)?;
            let count = counts.entry(kind.name()).or_default();
            count.filters += asked.filters;
            count.probes += asked.probes;
            count.denied += asked.denied;
            done += asked.probes;
            if last_line.elapsed().as_secs() >= 5 {
                last_line = Instant::now();
                eprintln!("{done} of {probes} probes, {text}, {} s", start.elapsed().as_secs());
            }
        }
    }
    println!("{:<16}{:>12}{:>16}{:>18}", "kind", "filters", "probes", "false negatives");
    let mut all = Count::default();
    for (name, count) in &counts {
        println!("{name:<16}{:>12}{:>16}{:>18}", count.filters, count.probes, count.denied);
        all.filters += count.filters;
        all.probes += count.probes;
        all.denied += count.denied;
    }
    println!("{:<16}{:>12}{:>16}{:>18}", "all", all.filters, all.probes, all.denied);
    Ok(all.denied)
}

/// Returns the number of probes and the seed, by default 10^7 and 1. Returns `None` for wrong
/// arguments.
fn parse(arguments: &[String]) -> Option<(u64, u64)> {
    let (mut probes, mut seed) = (10_000_000, 1);
    for pair in arguments.chunks(2) {
        let [name, number] = pair else { return None };
        let number = number.parse().ok()?;
        match name.as_str() {
            "--probes" => probes = number,
            "--seed" => seed = number,
            _ => return None,
        }
    }
    Some((probes, seed))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((probes, seed)) = parse(&arguments) else {
        eprintln!("error: wrong arguments; usage: present_keys [--probes NUMBER] [--seed NUMBER]");
        return ExitCode::from(2);
    };
    match run(probes, seed) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(denied) => {
            eprintln!("error: {denied} present keys were denied; this is a bug in filterblock, please report it");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
