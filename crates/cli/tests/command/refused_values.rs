//! Values that an option does not take: one line names the option, says what is wrong, and gives a value that works.

use super::shell::{Run, Shell, command};

/// What the command line is refused with, without the name of the command.
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
fn an_option_with_a_wrong_value_names_one_that_works() {
    const NUMBER: &str = "expected a whole number from 0 to 18446744073709551615; try";
    const BENCH: [&str; 2] = ["bench", "point-miss"];
    let shell = Shell::new();
    let build = ["build", "-o", "f"];
    for (command, option, value, reason) in [
        (&build[..], "--filter", "bloom", "missing budget; try bloom:10 or bloom:fpr=0.01"),
        (&build, "--filter", "bloom:200", "expected 1 to 100 bits per key; try 10"),
        (
            &build,
            "--filter",
            "cuckoo:8",
            "unknown kind; try bloom:10, blocked-bloom:10, bumped-ribbon:8 or another kind",
        ),
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
        (&["plan", "--fpr", "0.1"], "--keys", "1e6", &format!("{NUMBER} 1000000")),
        (&["plan", "--keys", "9"], "--fpr", "1%", "expected a rate above 0 and below 1; try 0.01"),
        (&["plan", "--keys", "9"], "--bits-per-key", "ten", "expected 1 to 100 bits; try 10"),
        (
            &["plan", "--keys", "9"],
            "--memory",
            "1.5MB",
            "expected a whole number of bytes, with KiB, MiB, GiB, TiB or nothing behind it; try 64MiB",
        ),
        (&BENCH, "--count", "5", "expected a whole number from 16 to 100000000; try 1000000"),
        (&BENCH, "--value-size", "9999999", "expected a whole number from 0 to 1048576; try 100"),
        (&BENCH, "--lookups", "0", "expected a whole number from 1 to 100000000; try 1000000"),
        (&BENCH, "--rounds", "1001", "expected a whole number from 1 to 1000; try 3"),
        (&BENCH, "--seed", "x", &format!("{NUMBER} 1")),
        (&BENCH, "--filter", "monkey", "expected monkey:BITS_PER_KEY; try monkey:10 or monkey:bloom:10"),
        (&BENCH, "--layout", "run-5", "expected as-fallen, compacted, runs-5, runs-36, all or levels-4; try runs-5"),
        (&BENCH, "--io", "mmap", "expected buffered or direct; try buffered"),
        (&BENCH, "--verify", "never", "expected at-open or on-first-touch; try at-open"),
        (&["db", "scan", "s"], "--limit", "all", &format!("{NUMBER} 10")),
        (
            &["db", "put", "s", "k", "v"],
            "--filter",
            "budget:64MB",
            "expected budget:BYTES; try budget:64MiB or budget:bloom:64MiB",
        ),
    ] {
        let arguments = [command, &[option, value]].concat();
        assert_eq!(refused(&shell, &arguments), format!("{option} {value}: {reason}"));
        assert!(shell.files().is_empty(), "{arguments:?}");
    }
}

#[test]
fn an_option_without_a_value_names_what_it_takes() {
    let shell = Shell::new();
    for (arguments, line) in [
        (&["build", "-o", "f", "--filter"][..], "--filter: its value is missing; give --filter <SPEC>"),
        (&["build", "-o"], "--output: its value is missing; give --output <OUT>"),
        (&["plan", "--fpr", "0.1", "--keys"], "--keys: its value is missing; give --keys <N>"),
        (
            &["build", "-o", "f", "--filter", ""],
            "--filter \"\": unknown kind; try bloom:10, blocked-bloom:10, bumped-ribbon:8 or another kind",
        ),
        (
            &["build", "-o", "f", "--filter", "a\u{1b}[2J"],
            "--filter a\\u{1b}[2J: unknown kind; try bloom:10, blocked-bloom:10, bumped-ribbon:8 or another kind",
        ),
    ] {
        assert_eq!(refused(&shell, arguments), line);
    }
}

#[test]
fn numbers_that_cannot_be_planned_name_ones_that_can() {
    let shell = Shell::new();
    for (arguments, line) in [
        (&["--keys", "0", "--fpr", "0.1"][..], "--keys 0: there is nothing to plan; try 1000000"),
        (
            &["--keys", "72057594037927937", "--fpr", "0.1"],
            "--keys 72057594037927937: sizes of more than 2^56 keys do not fit 64 bits; try 1000000",
        ),
        (&["--keys", "9", "--fpr", "2"], "--fpr 2: expected a rate above 0 and below 1; try 0.01"),
        (&["--keys", "9", "--bits-per-key", "101"], "--bits-per-key 101: expected 1 to 100 bits; try 10"),
        (
            &["--keys", "10", "--memory", "0"],
            "--memory: 0 bytes are too few for 10 keys, less than a bit for each beside the trailer; try 1044",
        ),
    ] {
        assert_eq!(refused(&shell, &[&["plan"], arguments].concat()), line);
    }
    shell.run(&["plan", "--keys", "10", "--memory", "1044"]).exits(0);
}

#[test]
fn secrets_and_keys_that_are_no_digits_say_how_they_are_written() {
    let shell = Shell::new();
    shell.write("keys", "apple\n");
    shell.write("secret", "not hexadecimal\n");
    assert_eq!(
        refused(&shell, &["build", "-o", "f", "--secret-file", "secret", "keys"]),
        "--secret-file secret: not a secret; expected 32 or 64 hexadecimal digits, as openssl rand -hex 16 prints them"
    );
    shell.run(&["build", "-o", "f", "keys"]).exits(0);
    assert_eq!(
        refused(&shell, &["query", "f", "--hex", "6b6g"]),
        "argument \"6b6g\", column 4: not a pair of hexadecimal digits; with --hex a key such as abc is written 616263"
    );
}

/// No text, so that no option can say what it is.
#[cfg(unix)]
#[test]
fn an_argument_that_is_no_text_is_refused_in_one_line() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let output =
        command().args(["build", "-o", "f", "--filter"]).arg(OsStr::from_bytes(b"bloom\xff")).output().unwrap();
    let run = Run::new(output);
    assert_eq!(run.status, 2, "{run:?}");
    assert_eq!(one_line(&run), "an argument is not UTF-8, which only keys and paths need not be; write it in UTF-8");
}
