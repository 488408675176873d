//! Tests of `filterblock bench report`.

use std::fs;

use crate::shell::Shell;

const RECORD: &str = "benches/record/point-miss.json";

#[test]
fn the_report_in_the_documents_is_that_of_the_record() {
    let shell = Shell::new();
    let record = crate::repository(RECORD);
    let page = fs::read_to_string(crate::repository("docs/BENCHMARKS.md")).unwrap();
    // The page leaves the table of present keys to the report.
    shell.write("page.md", &format!("{page}<!-- bench report: present -->\n<!-- end -->\n"));
    let record = record.to_str().unwrap();
    let arguments = ["bench", "report", record, "--filter", "by-level", "--svg", "miss.svg", "--markdown", "page.md"];
    assert_eq!(shell.run(&arguments).exits(0), "");
    let filled = fs::read_to_string(shell.path("page.md")).unwrap();
    let present = filled.strip_prefix(&page).unwrap_or_else(|| panic!("docs/BENCHMARKS.md differs from {RECORD}"));
    assert!(present.contains("| none               | runs-36   | 33,481 | 94,783 |  18.7 |"), "{present}");
    // On other platforms a logarithm may differ in its last digit, and a bar by a tenth of a pixel.
    if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        let documented = fs::read_to_string(crate::repository("docs/point-miss.svg")).unwrap();
        let drawn = fs::read_to_string(shell.path("miss.svg")).unwrap();
        assert!(drawn == documented, "docs/point-miss.svg differs from the picture of {RECORD}");
    }
}

#[test]
fn a_report_is_printed_like_that_of_the_benchmark_itself() {
    let shell = Shell::new();
    let bench = ["bench", "point-miss", "--count", "500", "--lookups", "100", "--rounds", "1", "--dir", "."];
    let printed = shell.run(&[&bench[..], &["--json", "record.json"]].concat()).exits(0);
    assert_eq!(shell.run(&["bench", "report", "record.json"]).exits(0), printed);
    shell.run(&["bench", "report", "record.json", "--svg", "all.svg"]).exits(0);
    let svg = fs::read_to_string(shell.path("all.svg")).unwrap();
    for filter in ["by-level", "blocked-bloom:10", "bloom:10", "no filters"] {
        assert!(svg.contains(filter), "{filter}");
    }
}

#[test]
fn reports_of_other_files_and_into_other_pages_are_refused() {
    let shell = Shell::new();
    let record = crate::repository(RECORD);
    let record = record.to_str().unwrap();
    let loads = crate::repository("benches/record/load.json");
    let loads = loads.to_str().unwrap();
    shell.write("page.md", "# Nothing\n");
    shell.write("unknown.md", "<!-- bench report: speed -->\n<!-- end -->\n");
    let unclosed = "<!-- bench report: absent -->\nprose\n<!-- bench report: present -->\n<!-- end -->\n";
    shell.write("unclosed.md", unclosed);
    shell.write("record.json", fs::read(record).unwrap());
    for (arguments, parts) in [
        (&["page.md"][..], &["page.md", "--json"][..]),
        (&["missing.json"], &["missing.json"]),
        (&[record, "--markdown", "page.md"], &["page.md", "no marker"]),
        (&[record, "--markdown", "unknown.md"], &["unknown.md", "speed", "absent"]),
        (&[record, "--markdown", "unclosed.md"], &["unclosed.md", "line 1", "no <!-- end -->"]),
        (&[record, "--filter", "ribbon:8", "--svg", "new.svg"], &["--filter ribbon:8", "bloom:10"]),
        (&[record, "--filter", "bloom:10"], &["--svg"]),
        (&[loads, "--filter", "bloom:10", "--svg", "new.svg"], &["--filter bloom:10", "omit --filter"]),
        (&[record, "--svg", "page.md"], &["page.md", "--force"]),
        (&["record.json", "--svg", "record.json", "--force"], &["record.json", "also an input"]),
    ] {
        shell.run(&[&["bench", "report"], arguments].concat()).fails_with(parts);
    }
    assert_eq!(shell.files(), ["page.md", "record.json", "unclosed.md", "unknown.md"]);
    assert_eq!(fs::read_to_string(shell.path("unclosed.md")).unwrap(), unclosed);
    assert_eq!(fs::read_to_string(shell.path("page.md")).unwrap(), "# Nothing\n");
}
