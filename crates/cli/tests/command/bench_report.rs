//! Tests of `filterblock bench report`.

use std::fs;

use charts::check;
use serde_json::Value;

use crate::shell::Shell;

/// Returns the path of a record of this repository.
fn recorded(name: &str) -> String {
    crate::repository("benches/record").join(name).to_str().unwrap().to_owned()
}

#[test]
fn the_reports_in_the_documents_are_those_of_the_records() {
    for (record, picture, options) in [
        ("point-miss.json", "point-miss.svg", &["--filter", "by-level", "--svg", "new.svg"][..]),
        ("range-miss.json", "range-miss.svg", &["--svg", "new.svg"]),
        ("load.json", "", &[]),
    ] {
        let shell = Shell::new();
        let page = fs::read_to_string(crate::repository("docs/BENCHMARKS.md")).unwrap();
        shell.write("page.md", &page);
        let report = ["bench", "report", &recorded(record), "--markdown", "page.md"];
        assert_eq!(shell.run(&[&report, options].concat()).exits(0), "");
        assert!(fs::read_to_string(shell.path("page.md")).unwrap() == page, "docs/BENCHMARKS.md differs from {record}");
        let Ok(drawn) = fs::read_to_string(shell.path("new.svg")) else { continue };
        check::is_readable(&drawn);
        // On other platforms a logarithm may differ in its last digit, and a bar by a tenth of a pixel.
        if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            let documented = fs::read_to_string(crate::repository("docs").join(picture)).unwrap();
            assert!(drawn == documented, "docs/{picture} differs from the picture of {record}");
        }
    }
}

#[test]
fn each_record_fills_its_own_markers() {
    let shell = Shell::new();
    let page = "a\n<!-- bench report: absent -->\nold\n<!-- end -->\nb\n<!-- bench report: ranges -->\nold\n\
                <!-- end -->\n<!-- bench report: present -->\nold\n<!-- end -->\n<!-- generated: x -->\nc\n<!-- end -->\n";
    for (record, filled, other, advised) in [
        ("point-miss.json", "absent", "ranges", "absent"),
        ("point-miss.json", "present", "ranges", "absent"),
        ("range-miss.json", "ranges", "absent", "ranges"),
    ] {
        shell.write("page.md", page);
        let report = ["bench", "report", &recorded(record), "--markdown", "page.md"];
        for _ in 0..2 {
            shell.run(&report).exits(0);
            let new = fs::read_to_string(shell.path("page.md")).unwrap();
            assert!(new.contains(&format!("<!-- bench report: {filled} -->\n| ")), "{new}");
            assert!(new.contains(&format!("<!-- bench report: {other} -->\nold\n<!-- end -->\n")), "{new}");
            assert!(new.starts_with("a\n<") && new.ends_with("<!-- generated: x -->\nc\n<!-- end -->\n"), "{new}");
        }
        shell.write("page.md", format!("<!-- bench report: {other} -->\n<!-- end -->\n"));
        shell.run(&report).fails_with(&["page.md", &format!("<!-- bench report: {advised} -->")]);
    }
}

#[test]
fn long_times_and_names_are_readable() {
    for name in ["point-miss.json", "range-miss.json"] {
        let shell = Shell::new();
        let mut record: Value = serde_json::from_slice(&fs::read(recorded(name)).unwrap()).unwrap();
        record["machine"]["os"] = "macos".into();
        record["machine"]["kernel"] = "unknown".into();
        for row in record["rows"].as_array_mut().unwrap() {
            row["mean_ns"] = (row["mean_ns"].as_f64().unwrap() * 1e4).into();
            if name == "point-miss.json" {
                row["filter"] = format!("budget:{}:1073741824", row["filter"].as_str().unwrap()).into();
            }
        }
        shell.write("record.json", record.to_string());
        let draw = ["bench", "report", "record.json", "--svg", "new.svg", "--force"];
        shell.run(&draw).exits(0);
        let svg = fs::read_to_string(shell.path("new.svg")).unwrap();
        check::is_readable(&svg);
        assert!(svg.contains(" probes, macos") && !svg.contains("unknown"), "{svg}");
        let text = shell.run(&["bench", "report", "record.json"]).exits(0);
        assert!(text.contains("0M "), "{text}");
        record["rows"] = serde_json::json!([]);
        shell.write("record.json", record.to_string());
        shell.run(&draw).exits(0);
        assert!(fs::read_to_string(shell.path("new.svg")).unwrap().ends_with("</svg>\n"));
    }
}

#[test]
fn filters_are_recorded_as_they_are_written() {
    let small = ["--count", "1000", "--rounds", "1", "--dir", ".", "--json", "-"];
    for (bench, option, field, choices) in [
        (
            &["point-miss", "--lookups", "10", "--layout", "compacted"][..],
            "--filter",
            "filters",
            &[
                "by-level",
                "by-level:blocked-bloom:12/bumped-ribbon:fpr=0.01",
                "blocked-bloom:10",
                "bloom:fpr=0.001",
                "always-maybe",
                "monkey:10",
                "monkey:9.5",
                "monkey:bloom:10",
                "monkey:blocked-bloom/bloom:12",
                "budget:64MiB",
                "budget:bloom:1000001",
                "budget:bloom/blocked-bloom:3KiB",
            ][..],
        ),
        (
            &["range-miss", "--queries", "10"],
            "--range-filter",
            "range_filters",
            &["grafite:fpr=0.01", "grafite:L=1024:fpr=0.01", "above-bottom:grafite:12.7"],
        ),
    ] {
        let options: Vec<&str> = choices.iter().flat_map(|choice| [option, choice]).collect();
        let report = Shell::new().run(&[&["bench"], bench, &small, &options].concat()).json(0);
        assert_eq!(report["settings"][field], serde_json::json!(choices));
    }
}

#[test]
fn the_cache_of_filters_is_reported_with_its_bound() {
    let shell = Shell::new();
    let bench = ["bench", "point-miss", "--count", "20000", "--lookups", "2000", "--rounds", "1", "--dir", "."];
    let limited = ["--filter", "blocked-bloom:10", "--layout", "compacted", "--filter-memory", "1MiB"];
    let record = ["--json", "record.json"];
    let printed = shell.run(&[&bench[..], &limited, &record].concat()).exits(0);
    assert!(
        printed.contains("1 of 1 filters are in memory, 0.0") && printed.contains("of 1.05 MB; 1 load"),
        "{printed}"
    );
    let record: Value = serde_json::from_slice(&fs::read(shell.path("record.json")).unwrap()).unwrap();
    for row in record["rows"].as_array().unwrap() {
        let cache = &row["filter_cache"];
        assert_eq!(cache.is_object(), row["filters_consulted"] == true, "{row}");
        if cache.is_object() {
            assert!(cache["bytes"].as_u64().unwrap() > 20_000 && cache["max_bytes"] == 1 << 20, "{cache}");
            assert!((cache["hit_rate"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{cache}");
        }
    }
    let tiny = ["--filter", "blocked-bloom:10", "--layout", "compacted", "--filter-memory", "1"];
    let printed = shell.run(&[&bench[..], &tiny].concat()).exits(0);
    assert!(printed.contains("0 of 1 filters are in memory, 0 of") && printed.contains("answers 0 % of"), "{printed}");
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
    let (record, loads) = (&recorded("point-miss.json")[..], &recorded("load.json")[..]);
    shell.write("page.md", "# Nothing\n");
    shell.write("unknown.md", "<!-- bench report: speed -->\n<!-- end -->\n");
    let unclosed = "<!-- bench report: absent -->\nprose\n<!-- bench report: present -->\n<!-- end -->\n";
    shell.write("unclosed.md", unclosed);
    shell.write("record.json", fs::read(record).unwrap());
    for (name, damaged) in [
        ("empty", ""),
        ("number", "{\"settings\": 1}"),
        ("load", "{\"loads\": [{}]}"),
        ("ranges", "{\"settings\": {\"range_filters\": []}}"),
    ] {
        shell.write(name, damaged);
    }
    for (arguments, parts) in [
        (&["page.md"][..], &["page.md", "--json"][..]),
        (&["missing.json"], &["missing.json"]),
        (&["empty"], &["record of a benchmark; write one"]),
        (&["number"], &["record of a benchmark; write one"]),
        (&["load"], &["record of bench load (missing field"]),
        (&["ranges"], &["record of bench range-miss (missing field"]),
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
    assert_eq!(
        shell.files(),
        ["empty", "load", "number", "page.md", "ranges", "record.json", "unclosed.md", "unknown.md"]
    );
    assert_eq!(fs::read_to_string(shell.path("unclosed.md")).unwrap(), unclosed);
    assert_eq!(fs::read_to_string(shell.path("page.md")).unwrap(), "# Nothing\n");
}
