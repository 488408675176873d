//! Tests of the command on filter block files, and of the help.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use crate::shell::{Run, Shell, command};
use filterblock::layout::{TRAILER_LEN_BYTES, offset_of};
use filterblock::{Field, FilterOptions, HashSeed};

const FRUIT: &str = "apple\npear\nplum\n";

fn shell_with_fruit() -> Shell {
    let shell = Shell::new();
    shell.write("keys", FRUIT);
    shell.run(&["build", "-o", "fruit.filter", "keys"]).exits(0);
    shell
}

#[test]
fn a_filter_answers_maybe_for_its_keys_and_absent_for_others() {
    let shell = shell_with_fruit();
    assert_eq!(shell.run(&["query", "fruit.filter", "apple", "zebra"]).exits(0), "maybe\tapple\nabsent\tzebra\n");
    assert_eq!(shell.run(&["query", "fruit.filter", "zebra"]).exits(1), "absent\tzebra\n");
    let from_stdin = shell.run_with(&["query", "fruit.filter", "-"], b"plum\nzebra\n").exits(0);
    assert_eq!(from_stdin, "maybe\tplum\nabsent\tzebra\n");
    assert_eq!(shell.run(&["query", "fruit.filter", "--keys", "keys", "--count"]).exits(0), "maybe\t3\nabsent\t0\n");
    assert_eq!(shell.run(&["query", "-q", "fruit.filter", "zebra", "plum"]).exits(0), "");
    assert_eq!(shell.run(&["query", "-q", "fruit.filter", "zebra"]).exits(1), "");
}

#[test]
fn filters_of_three_kinds_answer_maybe_for_their_keys() {
    let shell = Shell::new();
    let keys: String = (0..50_000).map(|i| format!("key-{i}\n")).collect();
    shell.write("keys", &keys);
    for (i, spec) in
        ["bloom:10", "blocked-bloom:10", "bloom:fpr=0.001", "blocked-bloom:fpr=0.05", "always-maybe"].iter().enumerate()
    {
        let file = format!("{i}.filter");
        shell.run(&["build", "-o", &file, "--filter", spec, "--seed", "7", "keys"]).exits(0);
        let report = shell.run(&["verify", &file, "--against", "keys", "--json"]).json(0);
        assert_eq!((&report["keys_asked"], &report["false_negatives"]), (&50_000.into(), &0.into()));
        let counts = shell.run(&["query", &file, "--keys", "keys", "--count", "--json"]).json(0);
        assert_eq!(counts["maybe"], 50_000);
    }
}

#[test]
fn a_range_filter_answers_ranges() {
    let shell = shell_with_fruit();
    shell.run(&["build", "-o", "ranges.filter", "--filter", "grafite:fpr=0.01", "keys"]).exits(0);
    let asked = ["query", "ranges.filter", "--ranges", "apple..pear", "banana..cherry", "quince..", "..=apple"];
    assert_eq!(
        shell.run(&asked).exits(0),
        "maybe\tapple..pear\nabsent\tbanana..cherry\nabsent\tquince..\nmaybe\t..=apple\n"
    );
    // The ranges in hexadecimal are b..c and p..=plum.
    shell.write("asked", "62..63\n70..=706c756d\n");
    let json = shell.run(&["query", "ranges.filter", "--ranges", "--hex", "--json", "--keys", "asked"]).exits(0);
    assert_eq!(
        json,
        "{\"answer\":\"absent\",\"range\":\"62..63\"}\n{\"answer\":\"maybe\",\"range\":\"70..=706c756d\"}\n"
    );
    shell.run(&["query", "ranges.filter", "--ranges", "banana..cherry"]).exits(1);
    // The empty key is a bound if it is included. Only the first two points separate the bounds.
    for (range, hex, status) in [
        ("..", false, 0),
        ("..=", false, 1),
        ("apple..", false, 0),
        ("apple..apple", false, 1),
        ("apple..=apple", false, 0),
        ("a..apple..", false, 0),
        ("612e2e..=6170706c65", true, 0),
    ] {
        let hex = if hex { &["--hex"][..] } else { &[] };
        let run = shell.run(&[&["query", "ranges.filter", "--ranges", range][..], hex].concat());
        assert_eq!(run.status, status, "{range}: {run:?}");
    }
    for (arguments, message) in [
        (
            &["ranges.filter", "--ranges", "pear..apple"][..],
            "argument \"pear..apple\": the lower bound is above the upper bound in the order of bytes; exchange the bounds",
        ),
        (&["ranges.filter", "--ranges", "--quiet", "pear..=apple"], "exchange the bounds"),
        (&["ranges.filter", "--ranges", "--hex", "--count", "62..61"], "exchange the bounds"),
        (&["ranges.filter", "--ranges", "plum"], "argument \"plum\": not a range"),
        (&["ranges.filter", "--ranges", "b..="], "exchange the bounds"),
        (&["ranges.filter", "--ranges", "--hex", "6x..70"], "column 2"),
        (&["ranges.filter", "--ranges", "--hex", "61..6"], "column 6"),
        (&["ranges.filter", "--ranges", "--keys", "keys"], "keys: line 1: not a range"),
        (&["fruit.filter", "--ranges", "a..b"], "this filter cannot answer range queries"),
        (&["ranges.filter", "--ranges", "--prefixes", "a..b"], "cannot be used with"),
    ] {
        shell.run(&[&["query"], arguments].concat()).fails_with(&[message]);
    }
}

#[test]
fn a_list_of_other_keys_is_told_from_false_negatives() {
    let shell = Shell::new();
    let keys = |range: std::ops::Range<u32>| range.map(|i| format!("key-{i}\n")).collect::<String>();
    shell.write("keys", keys(0..1_000));
    shell.write("others", keys(1_000..2_000));
    shell.write("few", keys(0..1_000) + &keys(5_000..5_030));
    shell.run(&["build", "-o", "f", "keys"]).exits(0);
    shell.write("none", "");
    let run = shell.run(&["verify", "f", "--against", "none"]);
    assert!(run.stderr.contains("none: no key was read, so no key was looked up; check the list"), "{run:?}");
    // A filter block is no bare filter: other bits would deny its keys.
    shell.run(&["query", "f", "--format", "leveldb-bloom", "key-1"]).fails_with(&["f: this is a filter block"]);
    let run = shell.run(&["verify", "f", "--against", "others"]);
    assert!(
        run.stderr.contains("others: the filter denies ") && run.stderr.contains("probably not the list of its keys")
    );
    assert!(!run.stderr.contains("false negative"), "{}", run.stderr);
    assert!(run.exits(1).contains(" denied; the list is probably not the list of its keys"));
    let report = shell.run(&["verify", "f", "--against", "others", "--json"]).json(1);
    assert!(report["false_negatives"].as_u64().unwrap() > 900, "{report}");
    assert_eq!(report["is_probably_another_list"], true);
    // A few denied keys may be keys that the filter lost.
    let run = shell.run(&["verify", "f", "--against", "few"]);
    assert!(run.stderr.contains("false negative: the filter denies \"key-50"), "{}", run.stderr);
    assert!(run.exits(1).contains("false negatives\n"));
}

#[test]
fn build_prints_a_summary_and_inspect_explains_every_field() {
    let shell = Shell::new();
    shell.write("keys", FRUIT);
    let built = shell.run(&["build", "-o", "f", "--seed", "5", "--json", "keys"]).json(0);
    assert_eq!(built["distinct_keys"], 3);
    assert_eq!(built["block_len_bytes"], fs::metadata(shell.path("f")).unwrap().len());
    let report = shell.run(&["inspect", "--json", "f"]).json(0);
    assert_eq!((&report["keys"], &report["hash_seed"]), (&3.into(), &5.into()));
    assert_eq!(report["expected_false_positive_rate"], built["expected_false_positive_rate"]);
    let fields = report["fields"].as_array().unwrap();
    assert_eq!(fields.len(), filterblock::layout::FIELDS.len());
    let last = fields.last().unwrap();
    assert_eq!(last["offset"].as_u64().unwrap() + last["len_bytes"].as_u64().unwrap(), report["block_len_bytes"]);
    let text = shell.run(&["inspect", "f"]).exits(0);
    for part in ["magic", "blocked-bloom", "3 keys", "seed 5", "estimated from the fill ratio", "expected FPR"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn keys_on_stdin_may_be_nul_separated_hex_or_crlf_lines() {
    let shell = Shell::new();
    let same = |name: &str, arguments: &[&str], input: &[u8]| {
        let mut all = vec!["build", "-o", name];
        all.extend(arguments);
        shell.run_with(&all, input).exits(0);
        fs::read(shell.path(name)).unwrap()
    };
    let expected = same("lines", &[], b"a\nb\xff\n");
    assert_eq!(same("crlf", &["-"], b"a\r\nb\xff\r\na"), expected, "CRLF, a repeated key, no last newline");
    assert_eq!(same("nul", &["--delimiter", "nul"], b"b\xff\0a\0"), expected);
    assert_eq!(same("hex", &["--hex"], b"61\n62FF\n"), expected);
    assert_ne!(same("nul-newline", &["--delimiter", "nul"], b"b\xff\0a\n\0"), expected);
    let raw = shell.run_with(&["query", "lines", "-"], b"b\xff\n");
    assert_eq!((raw.status, raw.stdout.as_slice()), (0, &b"maybe\tb\xff\n"[..]));
    let json = shell.run_with(&["query", "lines", "--json", "-"], b"b\xff\n").json(0);
    assert_eq!(json["key_hex"], "62ff");
    assert_eq!(shell.run(&["query", "lines", "--hex", "62fF"]).exits(0), "maybe\t62fF\n");
    assert_eq!(shell.run_with(&["query", "lines", "--delimiter", "nul", "-"], b"a\0").exits(0), "maybe\ta\0");
}

#[test]
fn empty_lines_are_skipped_and_counted_unless_they_are_kept() {
    let shell = Shell::new();
    let skipped = shell.run_with(&["build", "-o", "f", "--json"], b"a\n\n\nb\n");
    assert!(skipped.stderr.contains("filterblock: standard input: skipped 2 empty lines"), "{skipped:?}");
    assert_eq!(skipped.json(0)["keys_read"], 2);
    let kept = shell.run_with(&["build", "-o", "g", "--json", "--keep-empty"], b"a\n\n\nb\n").json(0);
    assert_eq!((&kept["keys_read"], &kept["distinct_keys"]), (&4.into(), &3.into()));
    assert_eq!(shell.run(&["query", "g", ""]).exits(0), "maybe\t\n");
}

#[test]
fn filters_for_no_key_one_key_and_equal_keys_work() {
    let shell = Shell::new();
    for (name, input, distinct) in [("0", "", 0), ("1", "a\n", 1), ("2", "a\nb", 2)] {
        let built = shell.run_with(&["build", "-o", name, "--json"], input.as_bytes()).json(0);
        assert_eq!(built["distinct_keys"], distinct);
        shell.run(&["inspect", name]).exits(0);
        shell.run(&["verify", name]).exits(0);
        shell.run(&["query", name, "a"]).exits(if distinct == 0 { 1 } else { 0 });
    }
    let equal = "same key\n".repeat(1_000_000);
    let built = shell.run_with(&["build", "-o", "equal", "--json"], equal.as_bytes()).json(0);
    assert_eq!((&built["keys_read"], &built["distinct_keys"]), (&1_000_000.into(), &1.into()));
    assert!(built["block_len_bytes"].as_u64().unwrap() <= 256);
}

#[test]
fn an_existing_file_is_only_replaced_by_force() {
    let shell = shell_with_fruit();
    let before = fs::read(shell.path("fruit.filter")).unwrap();
    shell.write("other", "x\n");
    shell.run(&["build", "-o", "fruit.filter", "other"]).fails_with(&["fruit.filter", "exists", "--force"]);
    assert_eq!(fs::read(shell.path("fruit.filter")).unwrap(), before);
    shell.run(&["build", "-o", "fruit.filter", "--force", "other"]).exits(0);
    assert_ne!(fs::read(shell.path("fruit.filter")).unwrap(), before);
    fs::create_dir(shell.path("dir")).unwrap();
    shell.run(&["build", "-o", "dir", "--force", "other"]).fails_with(&["dir", "not a regular file"]);
    assert_eq!(shell.files(), ["dir", "fruit.filter", "keys", "other"], "no temporary may be left");
}

#[test]
fn a_failed_build_leaves_nothing() {
    let shell = Shell::new();
    shell.write("bad", "00\n0x\n");
    shell.run(&["build", "-o", "f", "--hex", "bad"]).fails_with(&["bad: line 2, column 2"]);
    shell.run(&["build", "-o", "f", "missing"]).fails_with(&["missing"]);
    let nowhere = shell.run(&["build", "-o", "nowhere/f", "bad"]);
    assert!(!nowhere.stderr.contains(".tmp"), "{nowhere:?}");
    nowhere.fails_with(&["nowhere/f"]);
    shell.run(&["build", "-o", "f", "."]).fails_with(&["."]);
    // Not even root can create a file in /proc.
    if Path::new("/proc/version").exists() {
        shell.run(&["build", "-o", "/proc/f", "bad"]).fails_with(&["/proc/f"]);
    }
    assert_eq!(shell.files(), ["bad"]);
}

#[test]
fn megabyte_lines_are_keys_and_longer_lines_are_refused() {
    let shell = Shell::new();
    let mut input = vec![b'x'; 1 << 20];
    input.push(b'\n');
    let built = shell.run_with(&["build", "-o", "f", "--json"], &input).json(0);
    assert_eq!(built["distinct_keys"], 1);
    let too_long = [b"short\n".to_vec(), vec![b'x'; (16 << 20) + 1]].concat();
    let refused = shell.run_with(&["build", "-o", "g"], &too_long);
    refused.fails_with(&["standard input: line 2", "16,777,216 bytes"]);
}

#[test]
fn impossible_filters_are_refused_before_anything_is_read() {
    let shell = Shell::new();
    for budget in ["0", "NaN", "-1", "1000000000", "1e9", "fpr=0", "fpr=1", "fpr=2", "fpr=NaN", ""] {
        let spec = format!("bloom:{budget}");
        shell.run(&["build", "-o", "f", "--filter", &spec, "missing"]).fails_with(&["--filter", &spec]);
    }
    shell
        .run(&["build", "-o", "f", "--filter", "cuckoo:8", "missing"])
        .fails_with(&["cuckoo:8", "unknown kind \"cuckoo\"; try bloom:10"]);
    let unbudgeted = shell.run(&["build", "-o", "f", "--filter", "bloom", "missing"]);
    unbudgeted.fails_with(&["missing budget; try bloom:10 or bloom:fpr=0.01"]);
    assert!(shell.files().is_empty());
}

#[test]
fn damage_is_distinguished_from_unreadable_files() {
    let shell = shell_with_fruit();
    let sound = fs::read(shell.path("fruit.filter")).unwrap();
    assert_eq!(shell.run(&["verify", "fruit.filter"]).exits(0), "fruit.filter: sound\n");
    let mut flipped = sound.clone();
    flipped[0] ^= 1;
    let no_block = "neither a filter block nor a known file of another engine (";
    let damaged = [
        ("flipped", flipped, "damaged: "),
        ("cut", sound[1..].to_vec(), "damaged: "),
        ("short", sound[..sound.len() - 1].to_vec(), no_block),
        ("empty", Vec::new(), "the file is empty"),
        ("zeros", vec![0; 200], no_block),
    ];
    for (name, bytes, reason) in damaged {
        shell.write(name, bytes);
        let said = shell.run(&["verify", name]).exits(1);
        assert!(said.starts_with(&format!("{name}: {reason}")), "{said}");
        let report = shell.run(&["verify", "--json", name]).json(1);
        assert_eq!(report["sound"], false);
        shell.run(&["query", name, "apple"]).fails_with(&[name, reason]);
        shell.run(&["inspect", name]).fails_with(&[name, reason]);
    }
    shell.run(&["verify", "missing"]).fails_with(&["missing"]);
    for arguments in [&["verify", "."][..], &["inspect", "."], &["query", ".", "apple"]] {
        shell.run(arguments).fails_with(&[".: not a regular file"]);
    }
}

#[test]
fn a_damaged_range_filter_beside_a_sound_filter_is_found() {
    let shell = Shell::new();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/v1-bloom-and-grafite-1000.fb");
    let mut bytes = fs::read(golden).unwrap();
    shell.write("both", &bytes);
    assert_eq!(shell.run(&["verify", "both"]).exits(0), "both: sound\n");
    bytes[5] ^= 1;
    shell.write("both", bytes);
    let said = shell.run(&["verify", "both"]).exits(1);
    assert!(said.starts_with("both: the range filter cannot be used: damaged: "), "{said}");
    assert_eq!(shell.run(&["verify", "both", "--json"]).json(1)["sound"], false);
    // The Bloom filter is usable, so `inspect` explains the block before it reports the damage.
    let damage = said.trim_end();
    let run = shell.run(&["inspect", "both"]);
    assert_eq!(run.stderr, format!("filterblock: {damage}\n"));
    let printed = run.exits(2);
    assert!(
        printed.starts_with("both: sound, but the range filter cannot be used, ") && printed.contains("expected FPR"),
        "{printed}"
    );
    let report = shell.run(&["inspect", "both", "--json", "--html", "page"]).json(2);
    assert_eq!((&report["damage"], &report["keys"]), (&damage.into(), &1_000.into()));
    assert!(fs::read_to_string(shell.path("page")).unwrap().contains("the range filter cannot be used"));
}

#[test]
fn verify_distinguishes_a_newer_format_from_damage() {
    let shell = shell_with_fruit();
    let sound = fs::read(shell.path("fruit.filter")).unwrap();
    let at = |field| sound.len() - TRAILER_LEN_BYTES + offset_of(field);
    let with_version = |version: u8| {
        let mut block = sound.clone();
        block[at(Field::Version)] = version;
        block
    };
    // Only the version byte changes. The checksum still matches version 1, so the version is
    // damaged.
    for version in (0..=u8::MAX).filter(|version| *version != 1) {
        shell.write("flipped", with_version(version));
        let said = shell.run(&["verify", "flipped"]).exits(1);
        let parts = ["flipped: damaged: ", "format version", "the stored version is damaged"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        if version > 8 {
            continue;
        }
        assert_eq!(shell.run(&["verify", "--json", "flipped"]).json(1)["sound"], false);
        shell.run(&["query", "flipped", "apple"]).fails_with(&["flipped: damaged: ", "format version"]);
        shell.run(&["inspect", "flipped"]).fails_with(&["flipped: damaged: ", "format version"]);
    }
    // The checksum does not match version 1 either, so the message names both possible causes.
    let mut newer = with_version(9);
    newer[at(Field::Checksum)] ^= 0xff;
    shell.write("newer", newer);
    for arguments in [&["verify", "newer"][..], &["query", "newer", "apple"], &["inspect", "newer"]] {
        shell.run(arguments).fails_with(&["newer: format version 9", "not supported", "a newer version", "damaged"]);
    }
}

#[test]
fn verify_names_the_keys_that_a_filter_denies() {
    let shell = shell_with_fruit();
    let run = shell.run_with(&["verify", "fruit.filter", "--against", "-"], b"apple\nzebra\n");
    assert!(
        run.stderr.contains("filterblock: standard input: line 2: false negative: the filter denies \"zebra\""),
        "{run:?}"
    );
    assert!(run.exits(1).contains("2 keys looked up, 1 false negative"));
}

#[test]
fn a_quiet_query_stops_at_the_first_maybe() {
    let shell = shell_with_fruit();
    let apple = "6170706c65";
    shell.run(&["query", "fruit.filter", "--hex", "--quiet", apple, "not hex"]).exits(0);
    shell.run(&["query", "fruit.filter", "--hex", "--quiet", "not hex", apple]).fails_with(&["not hex"]);
    shell.write("keys", format!("{apple}\nnot hex\n"));
    shell.run(&["query", "fruit.filter", "--hex", "--quiet", "--keys", "keys"]).exits(0);
}

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let shell = shell_with_fruit();
    let keys: String = (0..200_000).map(|i| format!("some-longer-key-{i}\n")).collect();
    shell.write("many", keys);
    let mut child = shell.spawn(&["query", "fruit.filter", "--keys", "many"]);
    let mut first = [0; 64];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let run = Run::new(child.wait_with_output().unwrap());
    // All keys are absent, so the status is 1 even without a reader.
    assert_eq!((run.status, run.stderr.as_str()), (1, ""));
}

#[test]
fn output_to_a_full_device_is_an_error() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let shell = shell_with_fruit();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = command();
    child.args(["query", "fruit.filter", "apple"]).current_dir(shell.dir.path()).stdout(full).stderr(Stdio::piped());
    let run = Run::new(child.output().unwrap());
    run.fails_with(&["standard output"]);
}

#[test]
fn help_goes_to_stdout_with_examples_and_errors_to_stderr() {
    let shell = Shell::new();
    let subcommands: [&[&str]; 20] = [
        &[],
        &["build"],
        &["query"],
        &["inspect"],
        &["verify"],
        &["convert"],
        &["export"],
        &["plan"],
        &["merge"],
        &["diff"],
        &["db"],
        &["db", "put"],
        &["db", "get"],
        &["db", "delete"],
        &["db", "scan"],
        &["db", "load"],
        &["db", "compact"],
        &["db", "stats"],
        &["db", "verify"],
        &["bench", "point-miss"],
    ];
    for subcommand in subcommands {
        let help = shell.run(&[subcommand, &["--help"]].concat()).exits(0);
        assert!(help.contains("Examples:") && help.contains("Exit status"), "{help}");
    }
    shell.run(&["build", "--nonsense"]).fails_with(&["--nonsense"]);
    assert_eq!(shell.run(&[]).status, 2);
    shell.run(&["query", "file"]).fails_with(&["KEY"]);
}

#[cfg(unix)]
#[test]
fn a_link_is_followed_and_other_file_types_are_not_replaced() {
    use std::os::unix::fs::symlink;
    let shell = shell_with_fruit();
    fs::create_dir(shell.path("sub")).unwrap();
    symlink("sub/target", shell.path("link")).unwrap();
    shell.run(&["build", "-o", "link", "keys"]).exits(0);
    shell.run(&["build", "-o", "link", "keys"]).fails_with(&["link: the file exists"]);
    shell.run(&["build", "-o", "link", "--force", "--seed", "3", "keys"]).exits(0);
    assert!(fs::symlink_metadata(shell.path("link")).unwrap().is_symlink());
    assert_eq!(shell.run(&["inspect", "--json", "sub/target"]).json(0)["hash_seed"], 3);
    symlink("/dev/null", shell.path("device")).unwrap();
    symlink("loop", shell.path("loop")).unwrap();
    for name in ["device", "sub", "/dev/null"] {
        shell.run(&["build", "-o", name, "--force", "keys"]).fails_with(&[name, "not a regular file"]);
        for flag in ["--json", "--svg"] {
            shell.run(&["bench", "point-miss", flag, name]).fails_with(&[name, "not a regular file"]);
        }
    }
    shell.run(&["build", "-o", "loop", "--force", "keys"]).fails_with(&["loop", "oo many"]);
    // Linux follows 40 links in a row, and the command follows as many.
    for number in 1..=40 {
        symlink(format!("l{}", number + 1), shell.path(&format!("l{number}"))).unwrap();
    }
    shell.run(&["build", "-o", "l1", "keys"]).exits(0);
    assert!(fs::symlink_metadata(shell.path("l41")).unwrap().is_file());
    assert_eq!(fs::read_link(shell.path("device")).unwrap(), Path::new("/dev/null"));
}

#[test]
fn a_block_may_go_to_standard_output() {
    let shell = shell_with_fruit();
    let run = shell.run(&["build", "-o", "-", "keys"]);
    assert_eq!((run.status, run.stdout), (0, fs::read(shell.path("fruit.filter")).unwrap()));
    shell.run(&["build", "-o", "-", "--json", "keys"]).fails_with(&["--json"]);
    assert_eq!(shell.files(), ["fruit.filter", "keys"]);
}

#[test]
fn a_filter_of_prefixes_answers_prefixes_only() {
    use filterblock::{FilterOptions, FilterSpec, HashSeed, WholeKeys};
    let shell = shell_with_fruit();
    for (name, whole_keys) in [("prefixes", WholeKeys::Not), ("both", WholeKeys::Too)] {
        let options = FilterOptions::new(FilterSpec::default()).prefixes_by_host("first-two", whole_keys);
        let mut builder = options.builder(HashSeed(0)).unwrap();
        builder.add(builder.hasher().key(b"apple"));
        builder.add_prefix(builder.hasher().key(b"ap"));
        shell.write(name, builder.finish().unwrap().bytes);
        assert_eq!(shell.run(&["query", name, "--prefixes", "ap"]).exits(0), "maybe\tap\n");
        let text = shell.run(&["inspect", name]).exits(0);
        assert!(text.contains("prefix extractor first-two") && !text.contains("Some("), "{text}");
    }
    shell.run(&["query", "prefixes", "apple"]).fails_with(&["prefixes of keys", "--prefixes"]);
    shell.run(&["verify", "prefixes", "--against", "keys"]).fails_with(&["prefixes of keys", "--prefixes"]);
    shell.run(&["verify", "prefixes"]).exits(0);
    for name in ["prefixes", "both"] {
        let verify =
            |prefix: &[u8]| shell.run_with(&["verify", name, "--against", "-", "--prefixes", "--json"], prefix);
        assert_eq!(verify(b"ap\n").json(0)["false_negatives"], 0, "{name}");
        assert_eq!(verify(b"ap\nzz\n").json(1)["false_negatives"], 1, "{name}");
    }
    assert_eq!(shell.run(&["query", "both", "apple"]).exits(0), "maybe\tapple\n");
    shell.run(&["query", "fruit.filter", "--prefixes", "ap"]).fails_with(&["whole keys"]);
    shell.run(&["query", "fruit.filter", "--type", "utf8", "ap"]).fails_with(&["fruit.filter", "omit --type"]);
    shell
        .run(&["verify", "fruit.filter", "--type", "utf8", "--against", "keys"])
        .fails_with(&["fruit.filter", "omit --type"]);
}

#[test]
fn the_exit_status_does_not_depend_on_stderr() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let shell = shell_with_fruit();
    for (arguments, status) in
        [(&["build", "-o", "x", "keys"][..], 0), (&["build", "-o", "x", "keys"], 2), (&["--nonsense"], 2)]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut child = command();
        child.args(arguments).current_dir(shell.dir.path()).stderr(full);
        assert_eq!(child.output().unwrap().status.code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn the_short_help_has_no_examples() {
    let shell = Shell::new();
    let subcommands: [&[&str]; 6] =
        [&["build"], &["query"], &["inspect"], &["verify"], &["db"], &["bench", "point-miss"]];
    for subcommand in subcommands {
        let help = shell.run(&[subcommand, &["-h"]].concat()).exits(0);
        assert!(!help.contains("Examples:"), "{help}");
    }
}

#[test]
fn an_export_skips_the_range_filter_before_the_payload() {
    let shell = Shell::new();
    for name in ["plain", "with-ranges"] {
        let mut options = FilterOptions::new("bloom:10".parse().unwrap());
        if name == "with-ranges" {
            options = options.ranges("grafite:fpr=0.01".parse().unwrap());
        }
        let mut builder = options.builder(HashSeed(42)).unwrap();
        (0..100u8).for_each(|i| builder.add(builder.hasher().key(&[i])));
        shell.write(name, builder.finish().unwrap().bytes);
    }
    shell.run(&["export", "plain", "-o", "payload-of-plain"]).exits(0);
    let told = shell.run(&["export", "with-ranges", "-o", "payload"]).json(0);
    let payload = fs::read(shell.path("payload")).unwrap();
    assert_eq!(payload, fs::read(shell.path("payload-of-plain")).unwrap());
    let offset = told["offset"].as_u64().unwrap() as usize;
    assert!(offset > 0 && fs::read(shell.path("with-ranges")).unwrap()[offset..].starts_with(&payload), "{told}");
}
