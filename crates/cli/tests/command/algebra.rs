//! Tests of `filterblock merge` and `filterblock diff`.

use std::fmt::Write as _;

use crate::shell::Shell;

const KINDS: [&str; 4] = ["bloom:10", "blocked-bloom:10", "split-block:10", "split-block-512:10"];

fn keys(range: std::ops::Range<u32>) -> String {
    range.fold(String::new(), |mut text, i| {
        writeln!(text, "key-{i}").unwrap();
        text
    })
}

/// Makes two filters of 4,000 keys each that share 1,000 keys.
fn shell_with_two(spec: &str) -> Shell {
    let shell = Shell::new();
    shell.write("keys-a", keys(0..4_000));
    shell.write("keys-b", keys(3_000..7_000));
    for name in ["a", "b"] {
        let keys = format!("keys-{name}");
        shell.run(&["build", "-o", name, "--filter", spec, "--seed", "9", &keys]).exits(0);
    }
    shell
}

#[test]
fn a_merged_block_is_sound_and_has_the_keys_of_all_inputs() {
    for spec in KINDS {
        let shell = shell_with_two(spec);
        let told = shell.run(&["merge", "-o", "all", "a", "b", "--json"]).json(0);
        let kind = spec.split_once(':').unwrap().0;
        assert_eq!((&told["kind"], &told["keys"], &told["merged"]), (&kind.into(), &8_000.into(), &2.into()));
        let estimated = told["estimated_keys"].as_f64().unwrap();
        assert!((6_500.0..7_500.0).contains(&estimated), "{estimated}");
        for keys in ["keys-a", "keys-b"] {
            let report = shell.run(&["verify", "all", "--against", keys, "--json"]).json(0);
            assert_eq!(report["false_negatives"], 0, "{spec}");
        }
        // The merged block has the bits of all keys, so merging again changes no bit.
        shell.run(&["merge", "-o", "again", "all", "a", "b"]).exits(0);
        assert!(shell.run(&["diff", "all", "again"]).exits(0).contains("have the same bits"));
    }
}

#[test]
fn a_merge_of_equal_keys_prints_the_fpr_of_its_fill_ratio() {
    let shell = shell_with_two("bloom:10");
    let merged = shell.run(&["merge", "-o", "twice", "a", "a"]);
    assert!(merged.stderr.contains("at most 8,000 keys"), "{}", merged.stderr);
    assert!(merged.stderr.contains("expected FPR at most 13"), "{}", merged.stderr);
    assert!(merged.stderr.contains("; by the fill ratio, about "), "{}", merged.stderr);
    let told = shell.run(&["merge", "-o", "again", "a", "a", "--json"]).json(0);
    let rate = told["estimated_false_positive_rate"].as_f64().unwrap();
    assert!((0.007..0.010).contains(&rate), "{rate}");
    // The block does not tell that it was merged, but its fill ratio shows fewer keys.
    let text = shell.run(&["inspect", "twice"]).exits(0);
    assert!(text.contains("keys             at most 8,000; ") && text.contains("FPR     at most 13"), "{text}");
    assert!(text.contains(" % by the fill ratio"), "{text}");
    let text = shell.run(&["inspect", "a"]).exits(0);
    assert!(!text.contains("at most") && !text.contains("% by the fill ratio"), "{text}");
}

#[test]
fn a_merge_of_more_keys_than_bits_prints_no_upper_bound() {
    let shell = shell_with_two("bloom:1");
    let merged = shell.run(&["merge", "-o", "all", "a", "b"]);
    assert!(
        merged.stderr.contains("number of keys unknown") && merged.stderr.contains("expected FPR unknown"),
        "{}",
        merged.stderr
    );
    let merged = shell.run(&["merge", "-o", "one", "a", "a", "--force"]);
    assert_eq!(merged.status, 0, "{}", merged.stderr);
    let shell = shell_with_two("bloom:10");
    let merged = shell.run(&["merge", "-o", "all", "a", "b"]);
    assert!(merged.stderr.contains("at most 8,000 keys") && merged.stderr.contains("FPR at most"), "{}", merged.stderr);
}

#[test]
fn a_merge_without_the_range_filters_says_so() {
    let shell = Shell::new();
    let both = std::fs::read(crate::repository("tests/golden/v1-bloom-and-grafite-1000.fb")).unwrap();
    for name in ["a", "b"] {
        shell.write(name, &both);
    }
    for json in [&[][..], &["--json"]] {
        let run = shell.run(&[&["merge", "-o", "all", "--force", "a", "b"][..], json].concat());
        assert_eq!(run.status, 0, "{run:?}");
        let parts = ["all: ", "2 blocks have a range filter", "the merged block has none"];
        assert!(parts.iter().all(|part| run.stderr.contains(part)), "{run:?}");
    }
    shell.run(&["query", "all", "--ranges", "a..b"]).fails_with(&["cannot answer range queries"]);
    // The merged blocks have no range filter, so the second merge loses none.
    let run = shell.run(&["merge", "-o", "again", "all", "all"]);
    assert!(run.status == 0 && !run.stderr.contains("range filter"), "{run:?}");
}

#[test]
fn an_output_of_one_dash_is_refused() {
    let shell = shell_with_two("bloom:10");
    let before = shell.files();
    shell.run(&["merge", "-o", "-", "a", "b"]).fails_with(&["standard output", "./-"]);
    assert_eq!(shell.files(), before);
    shell.run(&["merge", "-o", "./-", "a", "b"]).exits(0);
    assert!(shell.path("-").is_file());
}

#[test]
fn diff_prints_bits_estimates_and_their_confidence() {
    for spec in KINDS {
        let shell = shell_with_two(spec);
        let told = shell.run(&["diff", "--json", "a", "b"]).json(1);
        assert_eq!((&told["is_equal"], told["differences"].as_array().unwrap().len()), (&false.into(), 0));
        for (what, truth) in [("left", 4_000.0), ("right", 4_000.0), ("union", 7_000.0), ("intersection", 1_000.0)] {
            let [keys, deviation] = ["keys", "deviation"].map(|name| told["keys"][what][name].as_f64().unwrap());
            assert!((keys - truth).abs() < 5.0 * deviation && deviation < 100.0, "{spec} {what}: {keys} {deviation}");
            let [low, high] = ["low", "high"].map(|name| told["keys"][what][name].as_f64().unwrap());
            assert!(low < keys && keys < high);
        }
        let similarity = told["keys"]["similarity"].as_f64().unwrap();
        assert!((similarity - 1.0 / 7.0).abs() < 0.05, "{spec}: {similarity}");
        let text = shell.run(&["diff", "a", "b"]).exits(1);
        assert!(text.contains("a and b differ") && text.contains("keys of A and B"), "{text}");
        assert!(shell.run(&["diff", "a", "a"]).exits(0).contains("keys in common   100 %"));
    }
}

#[test]
fn a_failed_merge_names_both_files_and_the_difference() {
    let shell = shell_with_two("bloom:10");
    shell.write("more", keys(0..9_000));
    shell.run(&["build", "-o", "seed", "--filter", "bloom:10", "--seed", "8", "keys-a"]).exits(0);
    shell.run(&["build", "-o", "size", "--filter", "bloom:10", "--seed", "9", "more"]).exits(0);
    shell.run(&["build", "-o", "kind", "--filter", "ribbon:8", "--seed", "9", "more"]).exits(0);
    for (other, what, first, second) in [
        ("seed", "hash seed", "9", "8"),
        ("size", "number of bits", "40000", "90048"),
        ("kind", "filter kind", "bloom", "ribbon"),
    ] {
        let difference = format!("{what} is {first} in the first and {second} in the second");
        shell.run(&["merge", "-o", "out", "a", "b", other]).fails_with(&["a and", other, &difference]);
        let text = shell.run(&["diff", "a", other]).exits(1);
        assert!(text.contains(&format!("{what}: {first} and {second}")) && !text.contains("keys of"), "{text}");
    }
    shell.run(&["merge", "-o", "out", "kind", "kind"]).fails_with(&["kind: ", "ribbon"]);
    shell.run(&["merge", "-o", "out", "a", "keys-a"]).fails_with(&["keys-a", "a text file, not a filter"]);
    shell.run(&["diff", "a", "keys-a"]).fails_with(&["keys-a"]);
    shell.run(&["merge", "-o", "out"]).fails_with(&[]);
    // For a kind without comparable bits, `diff` tells only whether the filters are equal.
    shell.run(&["diff", "kind", "kind"]).exits(0);
    assert!(!shell.files().contains(&"out".to_owned()));
    shell.run(&["merge", "-o", "a", "a", "b"]).fails_with(&["a", "--force"]);
    shell.run(&["merge", "-o", "a", "a", "b", "--force"]).exits(0);
    shell.run(&["query", "-q", "a", "key-6999"]).exits(0);
}

#[test]
fn a_damaged_block_is_an_error_of_merge_and_diff() {
    let shell = shell_with_two("blocked-bloom:10");
    let mut bytes = std::fs::read(shell.path("b")).unwrap();
    bytes[100] ^= 1;
    shell.write("b", bytes);
    shell.run(&["merge", "-o", "out", "a", "b"]).fails_with(&["b", "damaged"]);
    shell.run(&["diff", "a", "b"]).fails_with(&["b", "damaged"]);
}
