//! Tests the benchmark with small filters, from the command line to the report.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use clap::Parser;
use filterblock_peers::args::Cli;
use filterblock_peers::record::Row;
use filterblock_peers::{ranges, variants};
use filterblock_testkit::measure::csv_file;

/// Runs the command line `peers` with these arguments.
fn peers(args: &[&str]) -> Result<(), String> {
    filterblock_peers::run(Cli::parse_from(["peers"].iter().chain(args)).command)
}

fn measured(path: &Path, more: &[&str]) -> Result<Vec<Row>, String> {
    let sizes = ["--sizes", "700,2k", "--passes", "2", "--queries", "500", "--rate-queries", "40k"];
    let rest = ["--many-mb", "1", "--extras-at", "2k", "--out", path.to_str().unwrap()];
    peers(&[&["measure"], &sizes[..], &rest, more].concat())?;
    Ok(csv_file::read(path)?.1)
}

#[test]
fn a_measurement_has_a_row_for_each_filter_and_denies_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("peers.csv");
    // The measurement fails if a filter denies a key.
    let rows = measured(&path, &[]).unwrap();
    let settings: HashSet<_> = rows.iter().map(|r| (r.n, r.filters_asked, &r.key_form, &r.mix, &r.mode)).collect();
    // Each of the two sizes is asked in three modes, and the many filters in two modes. Each mode
    // has two key forms and three mixes. Batches over many filters exist only for a `FilterSet`,
    // and only by hash: one setting for each mix.
    let of_sets = 3;
    assert_eq!(settings.len(), (2 * 3 + 2) * 2 * 3 + of_sets);
    let of = |filter: &str| rows.iter().filter(|row| row.filter == filter).count();
    assert_eq!(of("blocked-bloom:10"), settings.len() - of_sets);
    assert_eq!(of("set of blocked-bloom:10"), 3 * 3, "many filters and hashes only");
    assert_eq!(of("fastbloom at the rate of blocked-bloom:10"), 8 * 2 * 3 - 2 * 2 * 3, "no batches");
    assert_eq!(of("bloomfilter:fpr=0.01"), 6 * 3, "no batches, and keys only");
    let unique: HashSet<_> =
        rows.iter().map(|r| (&r.filter, r.n, r.filters_asked, &r.key_form, &r.mix, &r.mode)).collect();
    assert_eq!(unique.len(), rows.len());
    for row in &rows {
        assert!(row.ns_min > 0.0 && row.ns_min <= row.ns_median, "{row:?}");
        assert_eq!(row.krate == "none", row.rate.is_none(), "{row:?}");
        assert_eq!(row.krate == "none", row.version.is_empty(), "{row:?}");
        if let (Some(rate), Some(low), Some(high)) = (row.rate, row.rate_low, row.rate_high) {
            assert!(low <= rate && rate <= high && high < 0.1, "{row:?}");
            // No filter is below the FPR lower bound, but with few questions a filter may seem to
            // be below it.
            assert!(rate == 0.0 || row.overhead_bare.unwrap() > -0.25, "{row:?}");
            assert!(row.build_ns.unwrap() > 0.0, "{row:?}");
            assert!(row.bits_per_key.unwrap() >= row.bits_per_key_bare.unwrap(), "{row:?}");
        }
    }
    let first = fs::read_to_string(&path).unwrap();
    assert!(first.starts_with("# ") && first.contains("rustc 1."), "the machine comes first");

    let extra = "blocked-bloom:10, unaligned";
    assert!(rows.iter().all(|row| row.filter != extra || (row.n == 2_000 && row.filters_asked == 1)));
    assert_eq!(of(extra), 3 * 2 * 3);

    let text = reported(&path, "BENCHMARKS.md");
    assert!(!text.contains(extra), "only the table of extras may show unaligned filters");
    assert!(text.contains("| **`blocked-bloom:10`** | 2,000 |"), "{text}");
    for plot in ["filters-space.svg", "filters-rate.svg", "filters-build.svg"] {
        let svg = fs::read_to_string(dir.path().join(plot)).unwrap();
        assert!(svg.contains("blocked-bloom:10") && svg.trim_end().ends_with("</svg>"), "{plot}");
    }
}

/// Copies a page of docs to the folder of a CSV, reports the CSV into the copy, and returns the
/// text of the copy.
fn reported(csv: &Path, page: &str) -> String {
    let (docs, dir) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs"), csv.parent().unwrap());
    fs::copy(docs.join(page), dir.join(page)).unwrap();
    peers(&["report", csv.to_str().unwrap(), "--docs", dir.to_str().unwrap()]).unwrap();
    fs::read_to_string(dir.join(page)).unwrap()
}

#[test]
fn variants_are_filled_queried_and_half_emptied() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("variants.csv");
    // The measurement fails if a filter other than `Stable` denies a key, before removals or after.
    peers(&["variants", "--keys", "2k", "--passes", "2", "--out", path.to_str().unwrap()]).unwrap();
    let rows: Vec<variants::Row> = csv_file::read(&path).unwrap().1;
    assert_eq!(rows.iter().filter(|row| row.package == "filterblock").count(), 10);
    assert_eq!(rows.len(), 14);
    for row in &rows {
        assert!(row.keys == 2_000 && row.passes == 2 && !row.version.is_empty(), "{row:?}");
        assert!(row.insert_ns > 0.0 && row.present_ns > 0.0 && row.absent_ns > 0.0, "{row:?}");
        assert!((2_000..80_000).contains(&row.bytes), "{row:?}");
        assert!(row.rate < 0.1 && row.rate_low <= row.rate && row.rate <= row.rate_high, "{row:?}");
        assert_eq!(row.remove_ns.is_some(), row.denied_after_removals.is_some(), "{row:?}");
        assert_eq!(row.denied > 0, row.variant == "Stable", "only this filter forgets keys: {row:?}");
        assert_eq!(row.denied_after_removals.unwrap_or(0), 0, "{row:?}");
    }
    let text = reported(&path, "VARIANTS.md");
    assert!(text.contains("| **`Counting, 4 bits`** | filterblock"), "{text}");
    assert!(text.contains("| cuckoofilter | cuckoofilter"), "{text}");
}

#[test]
fn range_filters_are_asked_and_keep_their_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ranges.csv");
    // The measurement fails if a filter other than DIVA and SuRF denies a range that holds a key.
    peers(&["ranges", "--sizes", "2k", "--passes", "2", "--queries", "5k", "--out", path.to_str().unwrap()]).unwrap();
    let rows: Vec<ranges::Row> = csv_file::read(&path).unwrap().1;
    assert_eq!(rows.len(), 8, "four filters for two lengths");
    for row in &rows {
        assert!(row.build_ns > 0.0 && row.uniform_ns > 0.0 && !row.version.is_empty(), "{row:?}");
        assert!(row.queries == 5_000 || row.bytes.is_none(), "{row:?}");
        if ["filterblock", "grafite"].contains(&row.package.as_str()) {
            let bytes_times_1000 = row.bytes.unwrap() * 1_000;
            assert!((1_500 * row.keys as u64..3_500 * row.keys as u64).contains(&bytes_times_1000), "{row:?}");
            assert!(row.uniform_rate < 0.03 && row.correlated_rate < 0.03 && row.denied_rate == 0.0, "{row:?}");
        }
    }
    let text = reported(&path, "BENCHMARKS.md");
    assert!(text.contains("| **`grafite`** 0.1.0 | 2,000 | 16 |"), "{text}");
    assert!(text.contains("| grafite 0.2.0 | 2,000 | 1,024 |"), "{text}");
    assert!(text.contains("| rsurf 0.1.2 | 2,000 | 16 | unknown |"), "{text}");
}

#[test]
fn filters_are_chosen_by_parts_of_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("peers.csv");
    let rows = measured(&path, &["--filters", "xorf BinaryFuse8,blocked-bloom:10", "--forms", "hash"]).unwrap();
    let names: HashSet<_> = rows.iter().map(|row| row.filter.as_str()).collect();
    let mut wanted = HashSet::from(["loop", "xorf BinaryFuse8", "blocked-bloom:10"]);
    wanted.extend(["fastbloom at the rate of blocked-bloom:10", "blocked-bloom:10, self-check"]);
    wanted.extend(["blocked-bloom:10, unaligned", "set of blocked-bloom:10", "cached set of blocked-bloom:10"]);
    assert_eq!(names, wanted);
    // `--only-many --append` keeps the earlier rows, and adds only rows of the set of many filters.
    let before = rows.len();
    let more = ["--only-many", "--append", "--forms", "hash", "--mixes", "negative", "--modes", "single"];
    let rows = measured(&path, &[&more[..], &["--filters", "blocked-bloom:10"]].concat()).unwrap();
    let appended: Vec<_> = rows[before..].iter().map(|row| row.filter.as_str()).collect();
    let sets = ["cached set of blocked-bloom:10", "set of blocked-bloom:10"];
    let wanted = [&["blocked-bloom:10", "loop"][..], &sets, &["fastbloom at the rate of blocked-bloom:10"]].concat();
    assert_eq!(appended, wanted);
    assert!(rows[before..].iter().all(|row| row.filters_asked > 1));
    for without_rows in ["no,rows\n", "# A comment\n", ""] {
        fs::write(&path, without_rows).unwrap();
        assert!(measured(&path, &["--append"]).unwrap_err().contains("no measurements to continue"));
        assert_eq!(fs::read_to_string(&path).unwrap(), without_rows);
    }
    assert!(measured(&path, &["--filters", "no such filter"]).is_err());
}

#[test]
fn a_measurement_needs_a_pass() {
    for command in ["measure", "variants"] {
        let error = Cli::try_parse_from(["peers", command, "--passes", "0"]).unwrap_err();
        assert!(error.to_string().contains("expected at least 1"), "{error}");
    }
}

#[test]
fn a_record_without_rows_changes_no_page() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("empty.csv");
    fs::write(&csv, "# A machine\n").unwrap();
    for page in ["BENCHMARKS.md", "VARIANTS.md"] {
        fs::write(dir.path().join(page), "<!-- generated: machine -->\nold\n<!-- end -->\n").unwrap();
    }
    let error = peers(&["report", csv.to_str().unwrap(), "--docs", dir.path().to_str().unwrap()]).unwrap_err();
    assert!(error.contains("no measurements"));
    for page in ["BENCHMARKS.md", "VARIANTS.md"] {
        assert!(fs::read_to_string(dir.path().join(page)).unwrap().contains("old"), "{page}");
    }
}

#[test]
fn documents_hold_the_tables_and_pictures_of_the_record() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let dir = tempfile::tempdir().unwrap();
    for (record, page) in [("peers.csv", "BENCHMARKS.md"), ("variants.csv", "VARIANTS.md")] {
        fs::copy(docs.join("../benches/record").join(record), dir.path().join(record)).unwrap();
        let text = reported(&dir.path().join(record), page);
        assert!(
            text == fs::read_to_string(docs.join(page)).unwrap(),
            "docs/{page} differs from the report of {record}; run `peers report`"
        );
    }
    // On other platforms, a logarithm may differ in its last digit, and a point by a tenth of a
    // pixel.
    if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        for name in ["filters-space.svg", "filters-rate.svg", "filters-build.svg"] {
            let [drawn, documented] = [dir.path(), &docs].map(|dir| fs::read_to_string(dir.join(name)).unwrap());
            assert!(drawn == documented, "docs/{name} differs from the picture of the record; run `peers report`");
        }
    }
}
