//! Compares shrunk ribbons with a modular Bloom filter. Such a filter is several small Bloom
//! filters of the same keys, and a reader keeps as many of them as fit in memory.

use filterblock::{FilterBlock, FilterOptions, HashSeed, KeyHash, KeyHasher, Verify};

const KEYS: u64 = 100_000;
const ABSENT: u64 = 2_000_000;

fn hashes(keys: std::ops::Range<u64>, seed: u64) -> Vec<KeyHash> {
    let hasher = KeyHasher::xxh3(HashSeed(seed));
    keys.map(|key| hasher.of(&key.to_le_bytes())).collect()
}

fn built(spec: &str, seed: u64) -> FilterBlock<Vec<u8>> {
    let mut builder = FilterOptions::new(spec.parse().unwrap()).builder(HashSeed(seed)).unwrap();
    hashes(0..KEYS, seed).into_iter().for_each(|hash| builder.add_hash(hash));
    FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap()
}

fn answers<D: AsRef<[u8]>>(filter: &FilterBlock<D>, hashes: &[KeyHash]) -> Vec<bool> {
    let mut answers = vec![true; hashes.len()];
    filter.may_contain_batch(hashes, &mut answers);
    answers
}

/// The bits per key and the FPR of a filter.
type Row = (f64, f64);

fn share(answers: &[bool]) -> f64 {
    answers.iter().filter(|&&answer| answer).count() as f64 / answers.len() as f64
}

/// Returns a row for each number of columns, from one column to `columns`. Asserts that the shrunk
/// filters find all present keys.
fn ribbon(columns: u32) -> Vec<Row> {
    let (present, absent) = (hashes(0..KEYS, 1), hashes(KEYS..KEYS + ABSENT, 1));
    let whole = built(&format!("bumped-ribbon:{columns}"), 1);
    let row = |found: f64, answers: &[bool]| (found, share(answers));
    let mut rows = vec![row(whole.metadata().bits_per_key(), &answers(&whole, &absent))];
    let mut limit = whole.metadata().block_len_bytes;
    while let Some(shrunk) = whole.shrunk_to(limit - 1).unwrap().filter(|_| rows.len() < columns as usize) {
        assert!(answers(&shrunk, &present).iter().all(|&answer| answer));
        limit = shrunk.metadata().block_len_bytes;
        rows.push(row(shrunk.metadata().bits_per_key(), &answers(&shrunk, &absent)));
    }
    rows.reverse();
    rows
}

/// Returns a row for each number of modules from 1 to `modules`. Each module is a Bloom filter with
/// its own hasher.
fn modular(spec: &str, modules: u64) -> Vec<Row> {
    let mut maybe = vec![true; ABSENT as usize];
    let mut used = 0.0;
    let row = |seed| {
        let module = built(spec, seed);
        let found = answers(&module, &hashes(KEYS..KEYS + ABSENT, seed));
        maybe.iter_mut().zip(found).for_each(|(maybe, found)| *maybe &= found);
        used += module.metadata().bits_per_key();
        (used, share(&maybe))
    };
    (1..=modules).map(row).collect()
}

/// With `--nocapture`, the test prints the table of the section "Fewer columns of a filter" in
/// docs/BENCHMARKS.md.
#[test]
fn shrunk_ribbons_have_lower_fprs_than_modular_bloom_filters() {
    let cases = [ribbon(10), ribbon(16), modular("bloom:2", 8), modular("bloom:fpr=0.1", 3)];
    println!(
        "| Bits per key | Ribbon of 10 columns | Ribbon of 16 columns | Bloom modules of 2 bits | Bloom modules of 4.8 bits |"
    );
    println!("|---:|---:|---:|---:|---:|");
    for bits in 1..=16 {
        let cell = |rows: &Vec<Row>| {
            let fits = |&&(used, _): &&Row| used <= f64::from(bits) + 0.1 && used > f64::from(bits) - 0.9;
            rows.iter().find(fits).map_or(String::new(), |(_, rate)| format!("{:.4} %", rate * 100.0))
        };
        println!("| {bits} | {} |", cases.each_ref().map(cell).join(" | "));
    }
    let [ten, sixteen, by_2, by_5] = cases;
    assert_eq!((ten.len(), sixteen.len()), (10, 16));
    for (columns, (bits, rate)) in (1..).zip(ten).chain((1..).zip(sixteen)) {
        let wanted = 0.5f64.powi(columns);
        let sigma = (wanted * (1.0 - wanted) / ABSENT as f64).sqrt();
        assert!((rate - wanted).abs() < 5.0 * sigma, "{columns} columns: {rate}");
        assert!(bits <= f64::from(columns) + 0.1, "{columns} columns: {bits}");
        // In the same memory, a modular Bloom filter passes more absent keys than the ribbon.
        for (_, modular) in [&by_2, &by_5].into_iter().flatten().filter(|(used, _)| *used <= bits * 1.02) {
            assert!(*modular > rate, "{columns} columns: {rate} and {modular}");
        }
    }
}
