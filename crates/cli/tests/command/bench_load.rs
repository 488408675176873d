//! The command `bench load`: its report, and what it leaves behind.

use crate::shell::Shell;

const LOAD: [&str; 7] = ["bench", "load", "--count", "20000", "--gets-per-second", "2000", "--dir"];

#[test]
fn a_load_reports_what_it_wrote_and_finds_no_wrong_answer() {
    let shell = Shell::new();
    let report = shell.run(&[&LOAD[..], &[".", "--json", "-"]].concat()).json(0);
    let load = &report["load"];
    assert_eq!(load["wrong_answers"], 0);
    assert_eq!(load["checked_keys"], 20_000);
    assert_eq!(load["user_bytes"], 20_000 * 116);
    assert_eq!(load["put"]["count"], 20_000);
    assert_eq!(report["settings"]["filter"], "by-level");
    let number = |name: &str| load[name].as_f64().unwrap();
    // One flush of 2.3 MB, which adds a few bytes per key.
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
    for part in ["1,000 keys of 16 bytes", "get while loading    none", "Wrong answers: 0 of 0 gets", "10 keys"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    shell.write("old", "mine");
    shell.run(&[&few[..], &["--json", "old"]].concat()).fails_with(&["old", "--force"]);
    assert_eq!(shell.files(), ["old"]);
}
