//! Tests of `filterblock bench load`: its report, its record, and the files that it leaves.

use std::fs;

use crate::shell::Shell;
use serde_json::Value;

const LOAD: [&str; 7] = ["bench", "load", "--count", "20000", "--gets-per-second", "2000", "--dir"];

#[test]
fn a_load_reports_what_it_wrote_and_finds_no_wrong_answer() {
    let shell = Shell::new();
    let report = shell.run(&[&LOAD[..], &[".", "--json", "-"]].concat()).json(0);
    let report = &report["loads"][0];
    let load = &report["load"];
    assert_eq!(load["wrong_answers"], 0);
    assert_eq!(load["checked_keys"], 20_000);
    assert_eq!(load["user_bytes"], 20_000 * 116);
    assert_eq!(load["put"]["count"], 20_000);
    assert_eq!(report["settings"]["filter"], "by-level");
    let number = |name: &str| load[name].as_f64().unwrap();
    // One flush writes all 2.3 MB of keys and values, and a few more bytes per key.
    assert!(number("write_amplification") > 1.0 && number("write_amplification") < 1.2, "{load}");
    assert!(number("peak_dir_bytes") >= number("store_bytes") && number("store_bytes") > 2.3e6, "{load}");
    assert!(number("puts_per_second") > 0.0 && number("reopen_ms") > 0.0, "{load}");
    assert_eq!((number("runs"), number("tables")), (1.0, 1.0), "{load}");
    assert_eq!(shell.files(), Vec::<String>::new(), "the store is removed");
}

#[test]
fn a_load_without_gets_prints_a_report_for_people() {
    let shell = Shell::new();
    let few = ["bench", "load", "--count", "1000", "--gets-per-second", "0", "--checks", "10", "--dir", "."];
    let printed = shell.run(&few).exits(0);
    for part in
        ["1,000 keys of 16 bytes", "get                  none", "Wrong answers: 0 in all, of 0 gets", "10 lookups"]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    shell.write("old", "mine");
    shell.run(&[&few[..], &["--json", "old"]].concat()).fails_with(&["old", "--force"]);
    assert_eq!(shell.files(), ["old"]);
}

#[test]
fn loads_are_appended_to_a_record_and_reported_together() {
    let shell = Shell::new();
    let few = ["bench", "load", "--checks", "10", "--dir", ".", "--json", "loads.json"];
    let first = shell.run(&[&few[..], &["--count", "1000"]].concat()).exits(0);
    let second = shell.run(&[&few[..], &["--count", "2000", "--append", "--seed", "3"]].concat()).exits(0);
    assert_eq!(shell.run(&["bench", "report", "loads.json"]).exits(0), format!("{first}\n{second}"));
    shell.run(&[&few[..], &["--count", "1000", "--append", "--seed", "4"]].concat()).exits(0);
    let markers = "<!-- bench report: loads -->\n<!-- end -->\n<!-- bench report: load-settings -->\n<!-- end -->\n";
    shell.write("page.md", markers);
    shell.run(&["bench", "report", "loads.json", "--markdown", "page.md", "--html", "page.html"]).exits(0);
    let page = fs::read_to_string(shell.path("page.md")).unwrap();
    for part in ["| 1,000 keys | 2,000 keys |", "1,000 gets per second: 2 loads.", "Wrong answers: 0 in all, of"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let before = fs::read(shell.path("loads.json")).unwrap();
    for (arguments, parts) in [
        (&["load", "--append"][..], &["--json"][..]),
        (&["load", "--append", "--json", "-"], &["--append", "--json"]),
        (&["load", "--append", "--json", "page.md"], &["page.md", "not a record"]),
        (&["load", "--append", "--force", "--json", "loads.json"], &["--append", "--force"]),
        (&["report", "loads.json", "--svg", "loads.svg"], &["--svg", "--html"]),
    ] {
        shell.run(&[&["bench"], arguments].concat()).fails_with(parts);
    }
    assert_eq!(fs::read(shell.path("loads.json")).unwrap(), before);
    assert_eq!(shell.files(), ["loads.json", "page.html", "page.md"]);
}

#[test]
fn a_column_has_the_medians_and_maxima_of_equal_loads() {
    let shell = Shell::new();
    let record: Value =
        serde_json::from_slice(&fs::read(crate::repository("benches/record/load.json")).unwrap()).unwrap();
    // Each load has these keys, puts per second, longest put in us, and gets.
    let loads = [(7, 10.0, 5e3, 0), (9, 900_000.0, 1.0, 4), (7, 30.0, 9e3, 0), (7, 20.0, 7e3, 0)].map(
        |(keys, rate, longest_put, gets)| {
            let mut report = record["loads"][0].clone();
            report["settings"]["keys"] = keys.into();
            let load = &mut report["load"];
            load["puts_per_second"] = rate.into();
            load["put"]["max_us"] = longest_put.into();
            load["get"]["count"] = gets.into();
            load["checked_keys"] = keys.into();
            load["wrong_answers"] = 2.into();
            report
        },
    );
    shell.write("loads.json", serde_json::json!({ "loads": loads }).to_string());
    shell.write(
        "page.md",
        "<!-- bench report: loads -->\n<!-- end -->\n<!-- bench report: load-settings -->\n<!-- end -->\n",
    );
    shell.run(&["bench", "report", "loads.json", "--markdown", "page.md"]).exits(0);
    let page = fs::read_to_string(shell.path("page.md")).unwrap();
    let cells = |name: &str| {
        let line = page.lines().find(|line| line.starts_with(&format!("| {name}"))).unwrap();
        line.split('|').map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(cells("What"), ["What", "7 keys", "9 keys"]);
    assert_eq!(cells("puts per second"), ["puts per second", "20", "900,000"]);
    assert_eq!(cells("longest put"), ["longest put, ms", "9", "0.00100"]);
    assert_eq!(cells("longest get")[1], "-", "no gets were made");
    for part in [
        "7 keys of 16 bytes",
        ": 3 loads.\n",
        "Wrong answers: 8 in all, of 4 gets until the stores had settled and 30 lookups at the end.",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}
