//! Tests of `filterblock bench range-miss`.

use std::fs;

use crate::shell::Shell;

fn small(more: &[&'static str]) -> Vec<&'static str> {
    let small = ["bench", "range-miss", "--count", "3000", "--queries", "400", "--rounds", "1", "--dir", "."];
    [&small[..], more].concat()
}

#[test]
fn empty_ranges_are_measured_with_filters_and_without() {
    let shell = Shell::new();
    let run = small(&["--range-filter", "grafite:L=64:fpr=0.01", "--length", "64", "--json", "-"]);
    let report = shell.run(&run).json(0);
    let rows = report["rows"].as_array().unwrap();
    // The queries are scans of two kinds of ranges, and a get and a scan of absent table rows, each
    // with filters and without.
    assert_eq!((rows.len(), report["stores"].as_array().unwrap().len(), &report["false_negatives"]), (8, 2, &0.into()));
    for row in rows {
        let number = |field: &str| row[field].as_f64().unwrap_or(-1.0);
        let query = row["query"].as_str().unwrap();
        if row["filters_consulted"] == true {
            assert!(number("block_reads_per_query") < 0.5 && number("bits_per_key") > 10.0, "{row}");
            // A query asks the filter of each run whose key range overlaps the query, so at most
            // five. Near the smallest and the largest key, some runs do not overlap.
            assert!((4.7..=5.0).contains(&number("probes_per_query")), "{row}");
            assert!(number("false_positive_rate") < 0.1, "{row}");
        } else {
            assert!(number("block_reads_per_query") > 3.0 && row["false_positive_rate"].is_null(), "{row}");
        }
        assert_eq!(row["range_len"].is_null(), query.contains("absent row"), "{row}");
    }
}

#[test]
fn the_record_is_printed_drawn_and_inserted() {
    let shell = Shell::new();
    let files =
        ["--json", "ranges.json", "--svg", "ranges.svg", "--html", "ranges.html", "--range-filter", "grafite:9"];
    let printed = shell.run(&small(&files)).exits(0);
    assert!(printed.contains("grafite:9") && printed.contains("beside a key") && printed.contains("row-column:/"));
    assert!(
        printed.starts_with("With blocked-bloom:10 + grafite:9, a scan of 16 integers (uniform) costs "),
        "{printed}"
    );
    assert_eq!(shell.run(&["bench", "report", "ranges.json"]).exits(0), printed);
    shell.run(&["bench", "report", "ranges.json", "--svg", "again.svg"]).exits(0);
    assert_eq!(fs::read(shell.path("again.svg")).unwrap(), fs::read(shell.path("ranges.svg")).unwrap());
    shell.run(&small(&["--json", "ranges.json"])).fails_with(&["ranges.json", "--force"]);
    shell.run(&["bench", "report", "ranges.json", "--filter", "bloom:10", "--svg", "x.svg"]).fails_with(&["bloom:10"]);
    shell.run(&small(&["--range-filter", "bloom:10"])).fails_with(&["--range-filter", "grafite:fpr=0.01"]);
    shell.run(&small(&["--length", "18446744073709551615"])).fails_with(&["--length"]);
}
