//! Tests the benchmark with a few thousand keys, from the command line to the report.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use clap::Parser;
use filterblock_stores::args::Cli;
use filterblock_stores::engine::{Engine, Outcome, Store};
use filterblock_stores::engines;
use filterblock_stores::questions::{Question, value};
use filterblock_stores::record::{BATCH, COLD, GET, LOAD, Row};
use filterblock_testkit::measure::csv_file;
use filterblock_testkit::measure::keys::Key;

fn measured(dir: &Path, more: &[&str]) -> Outcome<Vec<Row>> {
    let (out, dir) = (dir.join("stores.csv"), dir.to_str().unwrap());
    let args = ["stores", "measure", "--keys", "4k", "--rounds", "2", "--loads", "1", "--queries", "640"];
    let rest = ["--cold-queries", "50", "--dir", dir, "--out", out.to_str().unwrap()];
    filterblock_stores::run(&Cli::parse_from(args.iter().chain(&rest).chain(more)).command)?;
    Ok(csv_file::read(&out)?.1)
}

#[test]
fn every_store_answers_rightly_in_every_layout() {
    let dir = tempfile::tempdir().unwrap();
    // The measurement fails if an answer is wrong.
    let rows = measured(dir.path(), &["--layouts", "as-fallen,compacted,runs-3"]).unwrap();
    for contender in engines::all() {
        let layouts: HashSet<_> =
            rows.iter().filter(|row| row.store == contender.name).map(|row| &row.layout).collect();
        assert_eq!(layouts.len(), if contender.most_runs >= 3 { 3 } else { 2 }, "{}", contender.name);
        assert!(!contender.version.is_empty(), "{}", contender.name);
        let count = |measure: &str| {
            rows.iter().filter(|row| row.store == contender.name && row.measure == measure).count() / layouts.len()
        };
        assert_eq!((count(GET), count(COLD), count(LOAD)), (6, 2, 1), "{}", contender.name);
        assert_eq!(count(BATCH), if contender.batched { 2 } else { 0 }, "{}", contender.name);
    }
    for row in &rows {
        assert!(row.min > 0.0 || row.measure == "settle", "{row:?}");
        assert!(row.min <= row.median && row.median <= row.max, "{row:?}");
        assert_eq!(row.measure == GET, row.p50.is_some() && row.p99 >= row.p50 && row.p999 >= row.p99, "{row:?}");
    }
    // The stores are removed. Only the CSV stays.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    let more = ["--layouts", "compacted", "--stores", "filterblock,fja", "--append"];
    let appended = measured(dir.path(), &more).unwrap().split_off(rows.len());
    let names: HashSet<_> = appended.iter().map(|row| row.store.as_str()).collect();
    assert_eq!(names, HashSet::from(["filterblock", "fjall"]), "a name selects no longer name");
    assert!(measured(dir.path(), &["--stores", "no such store"]).is_err());
}

/// An engine that returns `found` for every key.
struct Liar {
    found: Option<Vec<u8>>,
}

impl Engine for Liar {
    fn put(&mut self, _pairs: &[(Key, Vec<u8>)]) -> Outcome<()> {
        Ok(())
    }

    fn compact(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn get<R>(&mut self, _key: &Key, answer: impl FnOnce(Option<&[u8]>) -> R) -> Outcome<R> {
        Ok(answer(self.found.as_deref()))
    }

    fn multi_get(&mut self, keys: &[Key], mut answer: impl FnMut(usize, Option<&[u8]>)) -> Outcome<()> {
        (0..keys.len()).for_each(|i| answer(i, self.found.as_deref()));
        Ok(())
    }
}

#[test]
fn wrong_answers_end_a_measurement() {
    let asked = [Question::new(5, 100); 32];
    let mut right = Liar { found: Some(value(5, 100)) };
    assert!(right.ask(&asked).is_ok() && right.ask_batches(&asked).is_ok());
    assert!(right.ask_each(&asked, &mut Vec::new()).is_ok());
    for found in [None, Some(value(6, 100)), Some(value(5, 99))] {
        let mut store = Liar { found };
        assert!(store.ask(&asked).is_err() && store.ask_batches(&asked).is_err());
        assert!(store.ask_each(&asked, &mut Vec::new()).is_err());
        assert!(store.check(10, 1, 100).is_err());
    }
    // The check after loading detects a single wrong byte at the end of a value.
    let mut almost = value(0, 100);
    almost[99] ^= 1;
    assert!(Liar { found: Some(almost) }.check(1, 1, 100).is_err());
}

/// Copies docs/BENCHMARKS.md to the folder of a CSV, reports the CSV into the copy, and returns the
/// text of the copy.
fn reported(csv: &Path) -> String {
    let (docs, dir) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs"), csv.parent().unwrap());
    fs::copy(docs.join("BENCHMARKS.md"), dir.join("BENCHMARKS.md")).unwrap();
    let args = ["stores", "report", csv.to_str().unwrap(), "--docs", dir.to_str().unwrap()];
    filterblock_stores::run(&Cli::parse_from(args).command).unwrap();
    fs::read_to_string(dir.join("BENCHMARKS.md")).unwrap()
}

#[test]
fn documents_hold_the_tables_and_the_picture_of_the_record() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("stores.csv");
    fs::copy(docs.join("../benches/record/stores.csv"), &csv).unwrap();
    let text = reported(&csv);
    let documented = fs::read_to_string(docs.join("BENCHMARKS.md")).unwrap();
    assert!(text == documented, "docs/BENCHMARKS.md differs from the report of stores.csv; run `stores report`");
    let [drawn, documented] = [dir.path(), &docs].map(|dir| fs::read_to_string(dir.join("stores.svg")).unwrap());
    // On other platforms, a logarithm may differ in its last digit, and a point by a tenth of a
    // pixel.
    if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        assert!(drawn == documented, "docs/stores.svg differs from the picture of the record; run `stores report`");
    }
}
