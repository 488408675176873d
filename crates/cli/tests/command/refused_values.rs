//! Tests of wrong command lines: the error is one line that says what is wrong and what to do.

use super::shell::{Run, Shell, command};

/// Runs a wrong command line, and returns its error without the name of the command. Asserts that
/// the exit status is 2, that stdout is empty, and that the error is one line.
#[track_caller]
fn refused(shell: &Shell, arguments: &[&str]) -> String {
    let run = shell.run(arguments);
    assert_eq!((run.status, run.stdout.len()), (2, 0), "{run:?}");
    one_line(&run)
}

#[track_caller]
fn one_line(run: &Run) -> String {
    let line = run.stderr.strip_prefix("filterblock: ").and_then(|line| line.strip_suffix('\n'));
    let line = line.filter(|line| !line.contains('\n')).unwrap_or_else(|| panic!("not one line: {}", run.stderr));
    line.to_owned()
}

#[test]
fn a_wrong_option_value_is_refused_with_one_that_works() {
    const NUMBER: &str = "expected a whole number from 0 to 18446744073709551615; try";
    const PREFIX: &str = "expected fixed:LENGTH, capped:LENGTH, delimiter:BYTE, row-column:BYTE, none or keep; try fixed:8; \
         to scan the keys that begin with a text, use --starts-with";
    const BENCH: [&str; 2] = ["bench", "point-miss"];
    let shell = Shell::new();
    let build = ["build", "-o", "f"];
    for (command, option, value, reason) in [
        (&build[..], "--filter", "bloom", "missing budget; try bloom:10 or bloom:fpr=0.01"),
        (&build, "--filter", "bloom:200", "bits per key must be from 1 to 100; try bloom:10"),
        (&build, "--filter", "cuckoo:8", "unknown kind \"cuckoo\"; try bloom:10, blocked-bloom:10 or bumped-ribbon:8"),
        (&build, "--filter", "blom:10", "unknown kind \"blom\"; did you mean bloom?"),
        (&build, "--seed", "0x12", &format!("{NUMBER} 1")),
        (&build, "--seed", "18446744073709551616", &format!("{NUMBER} 1")),
        (&build, "--hash", "md5", "expected xxh3, xxh3-secret or siphash-1-3; try xxh3"),
        (&build, "--delimiter", "tab", "expected newline or nul; try newline"),
        (&["convert", "-o", "f", "t"], "--key-form", "x", "expected user or internal; try user"),
        (
            &["query", "f", "k"],
            "--type",
            "x",
            "expected int32, int64, uint32, uint64, float, double, utf8, bytes or uuid; try int32",
        ),
        (&["inspect", "f"], "--row-group", "one", &format!("{NUMBER} 0")),
        (
            &["inspect", "f"],
            "--format",
            "x",
            "expected leveldb-bloom, rocksdb-filter or parquet-sbbf; try leveldb-bloom",
        ),
        (&["export", "-o", "o", "f"], "--number", "1.5", &format!("{NUMBER} 0")),
        (&["plan", "--fpr", "0.1"], "--keys", "1e", "expected a whole number from 1 to 72057594037927936; try 1000000"),
        (
            &["plan", "--keys", "9"],
            "--fpr",
            "1%%",
            "the false-positive rate must be a number above 0 and below 1; try 0.01",
        ),
        (&["plan", "--keys", "9"], "--bits-per-key", "ten", "bits per key must be from 1 to 100; try 10"),
        (
            &["plan", "--keys", "9"],
            "--memory",
            "1.5",
            "expected a whole number of bytes below 2^64, with a unit such as MiB or MB, or without; try 64MiB",
        ),
        (&BENCH, "--count", "5", "expected a whole number from 16 to 100000000; try 1000000"),
        (
            &BENCH,
            "--filter-memory",
            "64Mb",
            "expected a whole number of bytes below 2^64, with a unit such as MiB or MB, or without; try 64MiB",
        ),
        (&BENCH, "--value-size", "9999999", "expected a whole number from 0 to 1048576; try 100"),
        (&BENCH, "--lookups", "0", "expected a whole number from 1 to 100000000; try 1000000"),
        (&BENCH, "--rounds", "1001", "expected a whole number from 1 to 1000; try 3"),
        (&BENCH, "--seed", "x", &format!("{NUMBER} 1")),
        (
            &BENCH,
            "--filter",
            "monkey",
            "expected monkey:BITS or monkey:KIND:BITS, with 1 to 100 bits per key and a KIND of filter that takes \
             this number of bits, except grafite; try monkey:10 or monkey:bloom:10",
        ),
        (
            &BENCH,
            "--layout",
            "runs-0",
            "expected as-fallen, compacted, runs-N with N from 1 to 1000, levels-4 or all; try runs-36",
        ),
        (&BENCH, "--run-map-trigger", "1", "expected a whole number from 2 to 128, or off; try 12"),
        (&BENCH, "--io", "mmap", "expected buffered or direct; try buffered"),
        (&BENCH, "--verify", "never", "expected at-open or on-first-touch; try at-open"),
        (&["db", "scan", "s"], "--limit", "all", &format!("{NUMBER} 10")),
        (
            &["db", "scan", "s"],
            "--prefix",
            "fixed:0",
            "the length of a prefix is 1 to 65,535 bytes; try fixed:8 or capped:8",
        ),
        (&["db", "scan", "s"], "--prefix", "keep2", PREFIX),
        (&["bench", "range-miss"], "--prefix", "none:8", PREFIX),
        (
            &["db", "put", "s", "k", "v"],
            "--filter",
            "budget:64Mb",
            "expected budget:BYTES or budget:KIND:BYTES, with a whole number of bytes below 2^64 (with a unit such as \
             MiB or MB, or without) and a KIND of filter that takes bits per key, except grafite; try budget:64MiB or \
             budget:bloom:64MiB",
        ),
    ] {
        let arguments = [command, &[option, value]].concat();
        assert_eq!(refused(&shell, &arguments), format!("{option} {value}: {reason}"));
        assert!(shell.files().is_empty(), "{arguments:?}");
    }
}

#[test]
fn other_wrong_filters_are_refused_with_one_that_works() {
    let shell = Shell::new();
    for (bench, option, choices) in [
        (
            "point-miss",
            "--filter",
            &[
                "by-level:",
                "by-level:bloom:10",
                "by-level:bloom:10/",
                "monkey:",
                "monkey:0",
                "monkey:101",
                "monkey:NaN",
                "monkey:always-maybe:10",
                "monkey:bloom/always-maybe:10",
                "monkey:quotient:10",
                "budget:",
                "budget:-1",
                "budget:1.5",
                "budget:always-maybe:1KiB",
                "budget:99999999999TiB",
                "quotient:10",
            ][..],
        ),
        (
            "range-miss",
            "--range-filter",
            &["bloom:10", "above-bottom:", "above-bottom:bloom:10", "grafite", "grafite:L=0:9", "None"],
        ),
    ] {
        for choice in choices {
            let line = refused(&shell, &["bench", bench, option, choice]);
            assert!(line.starts_with(&format!("{option} {choice}: ")) && line.contains("; try "), "{line}");
        }
    }
}

#[test]
fn an_option_without_a_value_names_its_value() {
    let shell = Shell::new();
    for (arguments, line) in [
        (&["build", "-o", "f", "--filter"][..], "--filter: missing value; give --filter <SPEC>"),
        (&["build", "-o"], "--output: missing value; give --output <OUT>"),
        (&["plan", "--fpr", "0.1", "--keys"], "--keys: missing value; give --keys <N>"),
        (
            &["build", "-o", "f", "--filter", ""],
            "--filter \"\": unknown kind \"\"; try bloom:10, blocked-bloom:10 or bumped-ribbon:8",
        ),
        (
            &["build", "-o", "f", "--filter", "a\u{1b}[2J"],
            "--filter a\\u{1b}[2J: unknown kind \"a\\u{1b}[2J\"; try bloom:10, blocked-bloom:10 or bumped-ribbon:8",
        ),
    ] {
        assert_eq!(refused(&shell, arguments), line);
    }
}

#[test]
fn a_wrong_command_line_is_explained_in_one_line() {
    let shell = Shell::new();
    for (arguments, line) in [
        (&["build"][..], "missing --output <OUT>; run \"filterblock build --help\""),
        (&["db", "get", "store"], "missing <KEY>...; run \"filterblock db get --help\""),
        (
            &["plan", "--keys", "9"],
            "missing one of --fpr <RATE>, --bits-per-key <BITS>, --memory <BYTES>; run \"filterblock plan --help\"",
        ),
        (&["build", "--nonsense"], "unknown option --nonsense; run \"filterblock build --help\""),
        (&["build", "--forse"], "unknown option --forse; did you mean --force?"),
        (
            &["build", "--fpr=0.01"],
            "unknown option --fpr; the rate is a part of the filter: --filter blocked-bloom:fpr=0.01",
        ),
        (
            &["index", "query", "i", "--column", "id"],
            "unknown option --column; an index has one column, so omit the option",
        ),
        (
            &["verify", "f", "--keys", "k"],
            "unknown option --keys; to look up the keys of a file, use --against KEYFILE",
        ),
        (&["db", "set", "s", "k", "v"], "unknown command set; use put"),
        (&["buid"], "unknown command buid; did you mean build?"),
        (&["db", "xyzzy"], "unknown command xyzzy; run \"filterblock db --help\""),
        (&["plan", "1000000", "--fpr", "0.01"], "unexpected argument \"1000000\"; run \"filterblock plan --help\""),
        (&["diff", "a", "b", "c"], "unexpected argument \"c\"; run \"filterblock diff --help\""),
        (&["query", "f", "k", "--count", "-q"], "--count cannot be used with --quiet; omit one of them"),
        (
            &["query", "f", "k", "--format", "rocksdb-filter", "--column", "a", "--row-group", "1"],
            "--format <FORMAT> cannot be used with --column <NAME> or --row-group <N>; omit --format, or omit all the \
             others",
        ),
        (&["build", "--seed", "1", "--seed", "2"], "--seed <NUMBER> is given twice; give it once"),
        (&["build", "--force=yes"], "--force takes no value; omit \"yes\""),
    ] {
        assert_eq!(refused(&shell, arguments), line);
    }
}

#[test]
fn wrong_digits_of_secrets_and_keys_are_explained() {
    let shell = Shell::new();
    shell.write("keys", "apple\n");
    shell.write("secret", "not hexadecimal\n");
    assert_eq!(
        refused(&shell, &["build", "-o", "f", "--secret-file", "secret", "keys"]),
        "--secret-file secret: not a secret; the file must hold 32 or 64 hexadecimal digits, as \"openssl rand -hex \
         16\" prints them"
    );
    shell.run(&["build", "-o", "f", "keys"]).exits(0);
    assert_eq!(
        refused(&shell, &["query", "f", "--hex", "6b6g"]),
        "argument \"6b6g\", column 4: not a pair of hexadecimal digits; with --hex, write abc as 616263"
    );
}

/// The value of --filter is not UTF-8.
#[cfg(unix)]
#[test]
fn an_argument_that_is_not_utf8_is_refused_in_one_line() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let output =
        command().args(["build", "-o", "f", "--filter"]).arg(OsStr::from_bytes(b"bloom\xff")).output().unwrap();
    let run = Run::new(output);
    assert_eq!(run.status, 2, "{run:?}");
    assert_eq!(
        one_line(&run),
        "an argument is not UTF-8; write it in UTF-8 (keys, file paths and the value of \"db put\" may have other bytes)"
    );
}
