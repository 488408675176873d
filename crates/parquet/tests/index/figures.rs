//! Tests the claims of docs/INDEX_FORMAT.md about size, reads and candidates on small indexes. An
//! ignored test prints the numbers of the document for 1,000 files.

use std::fs::File;
use std::time::Instant;

use crate::support::{Counting, ask, builder, distinct, hash_of, identity, index_of, open};
use filterblock::{Mapped, Populate};
use filterblock_parquet::index::{InMemory, IndexReader, ReadAt};

const FILES: u64 = 1_000;
const KEYS: u64 = 10_000;

#[test]
fn a_query_is_one_read_of_32_bytes_a_file() {
    let built = index_of(50, 300, 0.01);
    let counting = Counting::new(InMemory(&built.bytes));
    let index = IndexReader::open(&counting).unwrap();
    assert_eq!(index.counts().reads, 0);
    assert_eq!(built.cells, 50);
    let (mut buffer, mut files) = (Vec::new(), Vec::new());
    for key in 0..1_000 {
        index.candidates(hash_of(key), &mut buffer, &mut files);
    }
    let counts = index.counts();
    assert_eq!((counts.keys, counts.reads), (1_000, 1_000));
    // All keys of a row share one read.
    let hashes: Vec<u64> = (0..1_000).map(hash_of).collect();
    index.candidates_of_many(&hashes, |_, _, _| {});
    assert_eq!(index.counts().reads, 1_000 + u64::from(built.rows));
}

#[test]
fn opening_takes_two_reads_and_a_query_one() {
    let built = index_of(20, 100, 0.01);
    let counting = Counting::new(InMemory(&built.bytes));
    let index = IndexReader::open(&counting).unwrap();
    assert_eq!(counting.reads.get(), 2);
    let before = counting.bytes.get();
    ask(&index, 7);
    assert_eq!((counting.reads.get(), counting.bytes.get() - before), (3, 20 * 32 + 4));
}

#[test]
fn size_and_candidates_follow_the_rate() {
    // 200 files instead of 1,000 keep the test short.
    for (fpr, max_bytes_per_key) in [(0.01, 1.4), (1e-4, 3.5)] {
        let (files, keys) = (200, 2_000);
        let built = index_of(files, keys, fpr);
        let index = open(&built.bytes);
        let bytes_per_key = built.bytes.len() as f64 / (files * keys) as f64;
        assert!(bytes_per_key < max_bytes_per_key, "{fpr}: {bytes_per_key} bytes per key");
        assert!(built.added.iter().all(|file| file.fpr <= fpr));
        let sample: Vec<u64> = (0..files * keys).step_by(37).collect();
        let found: usize = sample.iter().map(|&key| ask(&index, key).len()).sum();
        let mean = found as f64 / sample.len() as f64;
        let expected = 1.0 + (files - 1) as f64 * fpr;
        assert!(mean <= 1.0 + (expected - 1.0) * 1.2 + 0.01, "{fpr}: {mean} candidates, expected {expected}");
        let measured = index.measure();
        let mean = measured.iter().sum::<f64>() / files as f64;
        assert!((0.9..1.1).contains(&(mean / fpr)), "{fpr}: the filters have an FPR of {mean}");
    }
}

/// Measures the mean time of a query in microseconds, and returns the best of five passes.
fn time_of<R: ReadAt>(index: &IndexReader<R>, hashes: &[u64]) -> f64 {
    let (mut buffer, mut files, mut found) = (Vec::new(), Vec::new(), 0);
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for &hash in hashes {
            index.candidates(hash, &mut buffer, &mut files);
            found += files.len();
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / hashes.len() as f64);
    }
    assert!(found > 0);
    best
}

/// Measures and prints size, number of candidates and times of an index of 1,000 files. Run it with
/// `cargo test --release -p filterblock-parquet --test index -- --ignored --nocapture figures`.
#[test]
#[ignore = "measures for half a minute"]
fn print_figures_of_a_thousand_files() {
    for fpr in [0.01, 1e-4] {
        let start = Instant::now();
        let built = index_of(FILES, KEYS, fpr);
        let seconds = start.elapsed().as_secs_f64();
        let mb = built.bytes.len() as f64 / 1e6;
        println!("FPR {fpr}: {mb:.1} MB, {} rows of {} cells, built in {seconds:.2} s", built.rows, built.cells);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        std::fs::write(&path, &built.bytes).unwrap();
        let index = open(&built.bytes);
        let present: Vec<u64> = (0..FILES * KEYS).step_by(997).map(hash_of).collect();
        let absent: Vec<u64> = (FILES * KEYS..FILES * KEYS + 10_000).map(hash_of).collect();
        for (name, hashes) in [("present", &present), ("absent", &absent)] {
            let mut found = 0;
            index.candidates_of_many(hashes, |_, files, _| found += files.len());
            println!("  {name} key: {:.3} candidates", found as f64 / hashes.len() as f64);
        }
        println!("  memory: {:.2} us a key", time_of(&index, &absent));
        let file = File::open(&path).unwrap();
        let mapped = Mapped::region(&file, 0, built.bytes.len(), Populate::Yes).unwrap();
        println!("  mapped: {:.2} us a key", time_of(&IndexReader::open(InMemory(mapped)).unwrap(), &absent));
        println!("  pread: {:.2} us a key", time_of(&IndexReader::open(file).unwrap(), &absent));
        let (start, mut found) = (Instant::now(), 0);
        index.candidates_of_many(&absent, |_, files, _| found += files.len());
        println!("  10,000 keys at once: {:.2} us a key", start.elapsed().as_secs_f64() * 1e6 / 10_000.0);
        assert!(found > 0);
        let start = Instant::now();
        let mut more = builder(fpr);
        more.add_hashes(identity("new"), distinct(0..KEYS)).unwrap();
        let next = more.build_onto(&index, |_| false).unwrap();
        println!("  one file added: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        let mut out = File::create(dir.path().join("next")).unwrap();
        std::io::Write::write_all(&mut out, &next.bytes).unwrap();
        out.sync_all().unwrap();
        println!("  written and synced: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        drop(open(&built.bytes));
        println!("  opened: {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
    }
}
