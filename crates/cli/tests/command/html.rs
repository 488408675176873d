//! Tests of the pages that `--html` writes.

use std::fs;

use crate::shell::Shell;
use serde_json::Value;

const BENCH: [&str; 8] = ["bench", "point-miss", "--count", "500", "--lookups", "100", "--rounds", "1"];

/// Reads a page, and asserts what holds for every page.
fn page(shell: &Shell, name: &str) -> String {
    let page = fs::read_to_string(shell.path(name)).unwrap();
    for part in [
        "<!doctype html>",
        "<html lang=\"en\">",
        "width=device-width",
        "default-src 'none'",
        "prefers-color-scheme:dark",
        "<title>filterblock ",
        "Command: <code>filterblock ",
        "<h2>machine",
        "aria-sort",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for outside in ["http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<script").count(), 1, "a value of the report is a script");
    // Each element that is opened is closed.
    for element in ["table", "tr", "section", "figure", "ul", "li", "details", "main", "span"] {
        let opened = page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
    }
    page
}

/// Returns the JSON at the end of a page.
fn json(page: &str) -> Value {
    let text = page.split("aria-label=\"JSON\">").nth(1).unwrap().split("</pre>").next().unwrap();
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_page_holds_the_values_of_the_json() {
    let shell = Shell::new();
    shell.write("keys", (0..5_000).map(|key| format!("{key}\n")).collect::<String>());
    shell.run(&["build", "-o", "keys.filter", "--seed", "1234567", "keys"]).exits(0);
    let sst = crate::repository("tests/golden/foreign/rocksdb-9.8.4/fv6-bloom-n100.sst");
    let parquet = crate::repository("tests/golden/foreign/parquet/pyarrow.parquet");
    for (name, arguments, parts) in [
        (
            "native",
            &["inspect", "--what-if", "keys.filter"][..],
            &[
                "<h2>what if filters</h2>",
                "<tr><th scope=\"row\">payload bytes</th><td>6,272</td></tr>",
                "<tr><th scope=\"row\">fill</th><td>44.8 %</td></tr>",
                "<tr><th scope=\"row\">hash seed</th><td>1234567</td></tr>",
            ][..],
        ),
        ("sst", &["inspect", "--what-if", sst.to_str().unwrap()], &[]),
        ("parquet", &["inspect", parquet.to_str().unwrap()], &["In all rows: "]),
        (
            "plan",
            &["plan", "--keys", "1000000", "--memory", "1MiB"],
            &[
                "<th scope=\"row\">bloom:8.379</th><td>no</td>",
                "<td class=\"number\" data-sort=\"8.38768\">8.39</td>",
                "<td class=\"number\" data-sort=\"\">-</td>",
                ">length in bytes</th>",
                ">expected FPR</th>",
                ">measured ns if absent</th>",
            ],
        ),
    ] {
        let printed = shell.run(&[arguments, &["--json", "--html", name]].concat()).json(0);
        let page = page(&shell, name);
        assert_eq!(json(&page), printed, "{name}");
        for part in parts {
            assert!(page.contains(part), "{name}: {part}: {page}");
        }
        assert!(page.contains("<figure ") && page.contains("<table class=\"sorts\">"), "{name}");
        // Without --json, the command prints its usual text.
        let text = shell.run(&[arguments, &["--html", "again"]].concat()).exits(0);
        assert_eq!(shell.run(arguments).exits(0), text, "{name}");
        fs::remove_file(shell.path("again")).unwrap();
    }
    let printed = shell.run(&[&BENCH[..], &["--dir", ".", "--json", "-", "--html", "bench"]].concat()).json(0);
    let bench = page(&shell, "bench");
    assert_eq!(json(&bench), printed);
    assert_eq!(bench.matches("<figure ").count(), 3);
    for row in printed["rows"].as_array().unwrap() {
        assert!(bench.contains(&format!("data-sort=\"{}\"", row["mean_ns"])), "{row}");
    }
    // The record gives the same plots as the benchmark itself.
    shell.write("record.json", printed.to_string());
    shell.run(&["bench", "report", "record.json", "--html", "record"]).exits(0);
    let record = page(&shell, "record");
    let plots = |page: &str| page.split("<h2>").next().unwrap().split_once("<figure ").unwrap().1.to_owned();
    assert!(plots(&record) == plots(&bench), "the plots differ");
    assert_eq!(record.matches("<tr>").count(), bench.matches("<tr>").count());
}

#[test]
fn every_text_of_a_page_is_escaped() {
    let shell = Shell::new();
    shell.write("keys", "a\nb\n");
    let name = "<script>alert(1)<\u{7}'\"&.filter";
    shell.run(&["build", "-o", name, "keys"]).exits(0);
    shell.run(&["inspect", name, "--html", "page"]).exits(0);
    let page = page(&shell, "page");
    assert!(
        page.contains("<h1>filterblock inspect &lt;script&gt;alert(1)&lt;\\u{7}'&quot;&amp;.filter</h1>"),
        "{page}"
    );
    assert_eq!(json(&page)["file"], name);
}

#[test]
fn a_page_replaces_a_file_only_if_forced() {
    let shell = Shell::new();
    shell.write("keys", "a\n");
    shell.run(&["build", "-o", "keys.filter", "keys"]).exits(0);
    shell.write("mine", "mine");
    let record = crate::repository("benches/record/point-miss.json");
    for arguments in [
        &["inspect", "keys.filter"][..],
        &["plan", "--keys", "10", "--fpr", "0.1"],
        &BENCH,
        &["bench", "report", record.to_str().unwrap()],
    ] {
        let html = |path| [arguments, &["--html", path]].concat();
        shell.run(&html("mine")).fails_with(&["mine", "--force"]);
        assert_eq!(fs::read_to_string(shell.path("mine")).unwrap(), "mine", "{arguments:?}");
        shell.run(&html("-")).fails_with(&["-: "]);
        shell.run(&html("missing/page")).fails_with(&["missing"]);
    }
    shell.run(&["inspect", "keys.filter", "--html", "keys.filter", "--force"]).fails_with(&["also an input"]);
    shell.run(&[&BENCH[..], &["--json", "x", "--html", "x"]].concat()).fails_with(&["--json", "--html"]);
    shell.run(&[&BENCH[..], &["--svg", "x", "--html", "./x"]].concat()).fails_with(&["--svg", "--html"]);
    shell.run(&["inspect", "keys.filter", "--html", "mine", "--force"]).exits(0);
    assert!(fs::read_to_string(shell.path("mine")).unwrap().starts_with("<!doctype html>"));
    // A failed command writes no page.
    shell.run(&["inspect", "nothing", "--html", "new"]).fails_with(&["nothing"]);
    shell.run(&["plan", "--keys", "0", "--fpr", "0.1", "--html", "new"]).fails_with(&["--keys 0"]);
    assert!(!shell.path("new").exists());
}
