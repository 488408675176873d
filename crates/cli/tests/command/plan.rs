//! Tests of `filterblock plan`.

use std::fs;

use crate::shell::Shell;
use serde_json::Value;

const KEYS: &str = "1000000";
const PICTURES: [&str; 4] =
    ["plan-exponent.svg", "plan-rate-by-keys.svg", "plan-rate-by-probes.svg", "plan-space-by-rate.svg"];

fn plan(arguments: &[&str]) -> Value {
    let arguments: Vec<&str> = ["plan", "--json", "--keys"].iter().chain(arguments).copied().collect();
    Shell::new().run(&arguments).json(0)
}

/// Returns the row of the filter with this kind or variant.
fn row<'a>(plan: &'a Value, name: &str) -> &'a Value {
    let rows = plan["filters"].as_array().unwrap();
    rows.iter().find(|row| row["filter"].as_str().unwrap().split(':').next() == Some(name)).unwrap()
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row}"))
}

#[test]
fn sizes_for_a_rate_match_the_formulas() {
    let plan = plan(&[KEYS, "--fpr", "0.01"]);
    let bits = |name| number(row(&plan, name), "bits_per_key");
    // Bits per key of a Bloom filter with an FPR of c: the minimum over k of -k / ln(1 - c^(1/k)).
    // A block adds 4 bytes per 4 KiB of payload, and 60 bytes.
    let shortest = (1..=30).map(|k| -f64::from(k) / (1.0 - 0.01f64.powf(1.0 / f64::from(k))).ln());
    let bloom = shortest.fold(f64::INFINITY, f64::min);
    let of_block = |bits: f64| bits * (1.0 + 4.0 / 4096.0) + 60.0 * 8.0 / 1e6;
    assert!((bits("bloom") - of_block(bloom)).abs() < 0.001, "{}", bits("bloom"));
    // At this FPR, blocked Bloom filters are up to 4 % larger than Bloom filters. Split-block
    // filters are larger still, those with blocks of 256 bits most of all.
    assert!(bits("blocked-bloom") > bits("bloom") && bits("blocked-bloom") < 1.04 * bits("bloom"));
    assert!(bits("split-block") > bits("split-block-512") && bits("split-block-512") > bits("blocked-bloom"));
    let least = 100f64.log2();
    assert!((1.005..1.03).contains(&(bits("bumped-ribbon") / least)), "{}", bits("bumped-ribbon"));
    assert!((1.02..1.07).contains(&(bits("ribbon") / least)), "{}", bits("ribbon"));
    // The formula of binary fuse filters gives 1.125 slots of eight bits per key. Rounding adds
    // less than 2 %.
    assert!((bits("binary-fuse") / of_block(9.0) - 1.0).abs() < 0.02, "{}", bits("binary-fuse"));
    // With a million keys, equal hashes add only 1e6 / 2^64 to the rate.
    let fuse_rate = number(row(&plan, "binary-fuse"), "expected_false_positive_rate");
    assert!((fuse_rate * 256.0 - 1.0).abs() < 1e-10, "{fuse_rate}");
    // Counters have 4 bits. A d-left cell has a remainder of 12 bits and a counter of 2 bits; 3/4
    // of the cells are in use.
    assert!((bits("counting") - 4.0 * bloom).abs() < 0.001);
    assert!((bits("d-left") - 14.0 * 4.0 / 3.0).abs() < 0.001);
    for name in ["bloom", "blocked-bloom", "split-block", "bumped-ribbon", "ribbon", "counting", "partitioned"] {
        let rate = number(row(&plan, name), "expected_false_positive_rate");
        assert!((0.0097..0.0101).contains(&rate), "{name}: {rate}");
    }
}

#[test]
fn rates_for_bits_match_the_formulas() {
    let plan = plan(&[KEYS, "--bits-per-key", "10"]);
    let rate = |name| number(row(&plan, name), "expected_false_positive_rate");
    let textbook = (1.0 - (-0.7f64).exp()).powi(7);
    assert!((rate("bloom") / textbook - 1.0).abs() < 1e-3, "{}", rate("bloom"));
    // A line has 512 bits and a Poisson number of keys with six nearly independent probes.
    let (mut weight, mut in_lines) = ((-51.2f64).exp(), 0.0);
    for keys in 0..200 {
        in_lines += weight * (1.0 - (511.0f64 / 512.0).powi(6 * keys)).powi(6);
        weight *= 51.2 / f64::from(keys + 1);
    }
    assert!((rate("blocked-bloom") / in_lines - 1.0).abs() < 0.03, "{} {in_lines}", rate("blocked-bloom"));
    assert!(rate("bumped-ribbon") < 1.05 * 2f64.powi(-10) && rate("bumped-ribbon") > 2f64.powi(-10));
    // Fingerprints of 8 bits take 9.1 bits per key, those of 12 bits take 13.7.
    assert!((rate("binary-fuse") * 256.0 - 1.0).abs() < 1e-10, "{}", rate("binary-fuse"));
    // With counters of 4 bits, the filter has a quarter as many counters as bits.
    let quarter = (1..9).map(|k| (1.0 - (-f64::from(k) / 2.5).exp()).powi(k)).fold(1.0, f64::min);
    assert!((rate("counting") / quarter - 1.0).abs() < 0.01, "{} {quarter}", rate("counting"));
    // 10 bits per key at 3/4 load leave 5 bits for the remainder, and a query compares 24 keys: the
    // FPR is 24 / 32, or slightly less because the last bucket lacks some keys.
    assert!((rate("d-left") / 0.75 - 1.0).abs() < 1e-4, "{}", rate("d-left"));
}

#[test]
fn plans_for_a_memory_fit_and_nearly_fill_it() {
    let plan = plan(&[KEYS, "--memory", "1MiB"]);
    for row in plan["filters"].as_array().unwrap() {
        let Some(len) = row["len_bytes"].as_f64() else {
            assert!(
                row["refused"].as_str().unwrap().contains("smallest filter of this kind needs more space"),
                "{row}"
            );
            continue;
        };
        assert!(len <= 1_048_576.0, "{row}");
        let name = row["filter"].as_str().unwrap();
        let by_steps = ["binary-fuse", "d-left", "compressed", "scalable"].iter().any(|steps| name.starts_with(steps));
        assert!(by_steps || len > 1_048_576.0 * 0.998, "{row}");
    }
    // The built filters have the planned size, bumped ribbons within 0.3 %.
    let shell = Shell::new();
    let keys: String = (0..20_000).map(|key| format!("{key}\n")).collect();
    shell.write("keys", &keys);
    let planned = shell.run(&["plan", "--keys", "20000", "--memory", "25KiB", "--json"]).json(0);
    for kind in ["bloom", "blocked-bloom", "split-block", "split-block-512", "bumped-ribbon"] {
        let row = row(&planned, kind);
        let built =
            shell.run(&["build", "-o", kind, "--filter", row["filter"].as_str().unwrap(), "--json", "keys"]).json(0);
        let off = built["block_len_bytes"].as_f64().unwrap() / number(row, "len_bytes");
        let most = if kind == "bumped-ribbon" { 0.003 } else { 0.0 };
        assert!((off - 1.0).abs() <= most, "{kind}: {off}");
    }
}

#[test]
fn each_row_of_the_json_is_complete() {
    let planned = plan(&[KEYS, "--fpr", "0.01"]);
    assert_eq!((&planned["keys"], &planned["budget"]["false_positive_rate"]), (&1_000_000.into(), &0.01.into()));
    let filters: Vec<&str> =
        planned["filters"].as_array().unwrap().iter().map(|row| row["filter"].as_str().unwrap()).collect();
    assert_eq!(
        filters,
        [
            "bloom:fpr=0.01",
            "blocked-bloom:fpr=0.01",
            "split-block:fpr=0.01",
            "split-block-512:fpr=0.01",
            "bumped-ribbon:fpr=0.01",
            "ribbon:fpr=0.01",
            "binary-fuse:fpr=0.01",
            "partitioned",
            "counting",
            "d-left",
            "compressed",
            "scalable"
        ]
    );
    for (i, row) in planned["filters"].as_array().unwrap().iter().enumerate() {
        for field in
            ["len_bytes", "bits_per_key", "expected_false_positive_rate", "lines_if_absent", "lines_if_present"]
        {
            assert!(number(row, field) > 0.0, "{field} of {row}");
        }
        assert_eq!(row["in_memory_only"], i >= 7);
        assert!(row["refused"].is_null());
        // Only measured kinds have a time, and they name the measured filter.
        assert_eq!(row["measured"].is_null(), i >= 7);
        if i < 7 {
            assert!(number(&row["measured"], "ns_if_absent") > 0.5);
            assert_eq!(row["measured"]["keys"], 1_000_000);
            let kind = |filter: &Value| filter.as_str().unwrap().split(':').next().unwrap().to_owned();
            assert_eq!(kind(&row["measured"]["filter"]), kind(&row["filter"]));
        }
    }
    assert!(planned["measured_on"].as_str().unwrap().contains("cores"));
    let compressed = row(&planned, "compressed");
    assert!(number(compressed, "memory_len_bytes") > number(compressed, "len_bytes"));
}

#[test]
fn the_table_is_readable() {
    let text = Shell::new().run(&["plan", "--keys", KEYS, "--fpr", "0.000001"]).exits(0);
    for part in [
        "1,000,000 keys at an FPR of 0.00010 %",
        "| bloom:fpr=0.000001 ",
        "in memory only",
        "binary-fuse: its lowest FPR is 1.5e-5, with binary-fuse:16",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
}

#[test]
fn impossible_plans_are_refused() {
    let shell = Shell::new();
    for (arguments, parts) in [
        (&["--keys", "0", "--fpr", "0.01"][..], &["--keys 0", "from 1 to"][..]),
        (&["--keys", "10", "--fpr", "0"], &["--fpr 0:", "above 0 and below 1"]),
        (&["--keys", "10", "--fpr", "1"], &["--fpr 1:", "above 0 and below 1"]),
        (&["--keys", "10", "--fpr", "NaN"], &["--fpr NaN:", "above 0 and below 1"]),
        (&["--keys", "10", "--fpr=-0.5"], &["--fpr -0.5:", "above 0 and below 1"]),
        (&["--keys", "10", "--fpr", "1e-40"], &["no kind of filter reaches this FPR", "the lowest is "]),
        (&["--keys", "10", "--bits-per-key", "0.5"], &["--bits-per-key 0.5", "from 1 to 100"]),
        (&["--keys", "10", "--bits-per-key", "101"], &["from 1 to 100"]),
        (&["--keys", "10", "--bits-per-key", "inf"], &["from 1 to 100"]),
        (&["--keys", "1000000", "--memory", "100KiB"], &["102,400 bytes are too few for 1,000,000 keys"]),
        (
            &["--keys", "10", "--memory", "0"],
            &["--memory: 0 bytes are too few for 10 keys (at least 1 bit per key, checksums and trailer); try 1044\n"],
        ),
        (&["--keys", "10", "--memory", "1.5"], &["--memory", "a unit such as MiB or MB"]),
        (&["--keys", "10", "--memory", "99999999999TiB"], &["--memory"]),
        (&["--keys", "72057594037927937", "--fpr", "0.01"], &["from 1 to 72057594037927936"]),
        (&["--keys", "99999999999999999999", "--fpr", "0.01"], &["--keys"]),
        (&["--keys", "-1", "--fpr", "0.01"], &["-1"]),
        (&["--keys", "10"], &["--fpr", "--bits-per-key", "--memory"]),
        (&["--keys", "10", "--fpr", "0.1", "--memory", "1MiB"], &["cannot be used with"]),
        (&["--fpr", "0.1"], &["--keys"]),
    ] {
        let arguments: Vec<&str> = ["plan"].iter().chain(arguments).copied().collect();
        shell.run(&arguments).fails_with(parts);
        let drawing: Vec<&str> = arguments.iter().chain(&["--svg", "pictures"]).copied().collect();
        shell.run(&drawing).fails_with(parts);
    }
    assert!(shell.files().is_empty(), "an impossible plan has drawn a picture");
    shell.run(&["plan", "--keys", "10", "--memory", "1044"]).exits(0);
    for (one, other) in [(["--fpr", "1%"], ["--fpr", "0.01"]), (["--memory", "1.5KiB"], ["--memory", "1536"])] {
        let plan = |budget: &[&str; 2]| shell.run(&[&["plan", "--keys", "10"], &budget[..]].concat()).exits(0);
        assert_eq!(plan(&one), plan(&other));
    }
    shell.write("file", "");
    shell.run(&["plan", "--keys", "10", "--fpr", "0.1", "--svg", "file"]).fails_with(&["file"]);
}

#[test]
fn the_largest_number_of_keys_does_not_overflow() {
    let most = "72057594037927936";
    for budget in [["--fpr", "0.01"], ["--bits-per-key", "100"], ["--memory", "16777215TiB"]] {
        let planned = plan(&[&[most][..], &budget].concat());
        let found = planned["filters"].as_array().unwrap().iter().filter(|row| row["len_bytes"].is_u64()).count();
        assert!(found >= 8, "{planned}");
        for row in planned["filters"].as_array().unwrap().iter().filter(|row| row["len_bytes"].is_u64()) {
            assert!((1.0..300.0).contains(&number(row, "bits_per_key")), "{row}");
        }
    }
}

/// `filterblock plan --keys 1000000 --fpr 0.01 --svg docs --force` draws the pictures.
#[test]
fn the_pictures_in_docs_match_the_code() {
    let shell = Shell::new();
    shell.run(&["plan", "--keys", KEYS, "--fpr", "0.01", "--svg", "new/pictures"]).exits(0);
    let mut drawn: Vec<_> =
        fs::read_dir(shell.path("new/pictures")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    drawn.sort();
    assert_eq!(drawn, PICTURES);
    let page = fs::read_to_string(crate::repository("docs/BENCHMARKS.md")).unwrap();
    for name in PICTURES {
        assert!(page.contains(name), "docs/BENCHMARKS.md does not show {name}");
        let new = fs::read_to_string(shell.path("new/pictures").join(name)).unwrap();
        // On other platforms a logarithm may differ in its last digit, and a point by a tenth of a
        // pixel.
        if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            assert!(
                new == fs::read_to_string(crate::repository(&format!("docs/{name}"))).unwrap(),
                "docs/{name} is out of date; run `filterblock plan --keys {KEYS} --fpr 0.01 --svg docs --force`"
            );
        }
    }
    // With --force, the command replaces existing pictures.
    shell.run(&["plan", "--keys", KEYS, "--fpr", "0.01", "--svg", "new/pictures", "--force"]).exits(0);
}

#[test]
fn pictures_of_any_number_of_keys_are_readable() {
    for keys in ["1", "1000", KEYS, "72057594037927936"] {
        let shell = Shell::new();
        shell.run(&["plan", "--keys", keys, "--fpr", "0.01", "--svg", "."]).exits(0);
        for name in PICTURES {
            let svg = fs::read_to_string(shell.path(name)).unwrap();
            let expected: &[&str] = match name {
                "plan-rate-by-probes.svg" => &["n = 2: best ", "n = 8: best 2 probes", "probes of a query"],
                "plan-exponent.svg" => &["8 bits per key: rate 2.14 %", "share of the bits"],
                "plan-rate-by-keys.svg" => &["512 B", "512 MiB"],
                _ if keys == "1" => &["impossible"],
                _ => &["bumped-ribbon", "bloom", "impossible"],
            };
            for text in expected {
                assert!(svg.contains(text), "{name} of {keys} keys: {text}");
            }
            charts::check::is_readable(&svg);
        }
    }
}

#[test]
fn the_times_are_those_of_the_nearest_number_of_keys() {
    // The other kinds may take more bits per key for few keys than for many.
    const KINDS: [&str; 5] = ["bloom", "blocked-bloom", "split-block", "split-block-512", "bumped-ribbon"];
    let nearest = [("1000", 10_000), ("90000", 10_000), ("110000", 1_000_000), ("300000000", 30_000_000)];
    for (keys, measured) in nearest {
        let plan = plan(&[keys, "--fpr", "0.01"]);
        for name in KINDS {
            assert_eq!(row(&plan, name)["measured"]["keys"], measured, "{name} of {keys} keys");
        }
    }
    for other in [&["999", "--fpr", "0.01"], &["301000000", "--fpr", "0.01"], &["10000", "--bits-per-key", "40"]] {
        let plan = plan(other);
        assert!(KINDS.iter().all(|name| row(&plan, name)["measured"].is_null()), "{plan}");
    }
}

#[test]
fn an_unknown_instruction_set_is_refused() {
    let run = |isa: &str| {
        let mut command = crate::shell::command();
        command.args(["plan", "--keys", "1000", "--fpr", "0.01"]).env("FILTERBLOCK_ISA", isa).output().unwrap()
    };
    assert!(run("portable").status.success());
    let refused = run("avx3");
    assert!(refused.status.code() == Some(2) && refused.stdout.is_empty());
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.starts_with("filterblock: FILTERBLOCK_ISA: invalid instruction set \"avx3\": "), "{message}");
}

#[test]
fn numbers_are_taken_as_people_write_them() {
    let shell = Shell::new();
    let plan = |keys: &str, memory: &str| shell.run(&["plan", "--keys", keys, "--memory", memory]).exits(0);
    let expected = plan("1000000", "256000000");
    for (keys, memory) in [("1e6", "256MB"), ("1_000_000", "256_000_000"), ("1,000,000", "256e6")] {
        assert_eq!(plan(keys, memory), expected, "{keys} {memory}");
    }
}
