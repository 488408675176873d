//! Tests of the output on a terminal: its width and its colours.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{Read, Write};

use anstream::adapter::strip_str;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::shell::{Shell, command};
use crate::shell_help::all_subcommands;
use crate::{repository, streams};

/// A call of each subcommand, and calls with wide tables and long messages. `foreign` is the folder of files that
/// other engines wrote, and `record` the folder of records of benchmarks.
const CALLS: [&str; 55] = [
    "--help",
    "build --nonsense",
    "build -o nothing/such/a/folder/with/a/long/name/new.filter keys",
    "build -o built --force --filter bumped-ribbon:fpr=0.001 keys",
    "convert -o converted --force foreign/rocksdb-9.8.4/fv6-bloom-n100.sst",
    "export -o exported --force fruit.filter",
    "merge -o merged --force fruit.filter nuts.filter",
    "merge -o merged --force fruit.filter ranges.filter",
    "plan --keys 1e6 --fpr 0.01",
    "plan --keys 1_000_000 --memory 1MB",
    "query fruit.filter apple zebra",
    "query fruit.filter --keys late --count",
    "query bad.filter apple",
    "inspect fruit.filter",
    "inspect ranges.filter --what-if",
    "inspect a.parquet",
    "inspect foreign/rocksdb-9.8.4/fv6-bloom-n100.sst --what-if",
    "inspect ids.index",
    "verify fruit.filter --against keys",
    "verify fruit.filter --against absent",
    "verify bad.filter",
    "verify foreign/rocksdb-9.8.4/fv6-bloom-n100.sst",
    "diff fruit.filter fruit.filter",
    "diff fruit.filter ranges.filter",
    "db put store apple red --sync",
    "db delete store nothing",
    "db get store apple zebra",
    "db get store --keys late --count",
    "db load store pairs",
    "db scan store",
    "db compact store",
    "db stats store",
    "db verify store",
    "db verify bad.store",
    "db repair bad.store --dry-run",
    "parquet add plain.parquet --column id,user.name -o added.parquet --force",
    "parquet add plain.parquet --advised --dry-run",
    "parquet check plain.parquet",
    "parquet check --column id a.parquet plain.parquet",
    "parquet check --each --column id a.parquet plain.parquet",
    "index build --force -o ids.index --column id a.parquet",
    "index add ids.index plain.parquet",
    "index query ids.index 1",
    "index verify ids.index",
    "index remove ids.index plain.parquet",
    "bench point-miss --count 1000 --lookups 100 --rounds 1 --layout runs-5 --dir .",
    "bench range-miss --count 1000 --queries 10 --rounds 1 --dir .",
    "bench load --count 1000 --dir .",
    "bench report record/point-miss.json",
    "bench report record/range-miss.json",
    "bench report record/load.json",
    "demo --fast",
    "demo --keep store",
    "completions bash",
    "man --out pages --force",
];

fn shell() -> Shell {
    let shell = streams::shell();
    shell.write("numbers", (1..3_000).map(|number| format!("{number}\n")).collect::<String>());
    shell.run(&["build", "-o", "ranges.filter", "--filter", "grafite:fpr=0.01", "numbers"]).exits(0);
    for (name, has_filters) in [("a.parquet", true), ("plain.parquet", false)] {
        shell.write(name, crate::parquet_add::parquet_file(has_filters));
    }
    shell.run(&["index", "build", "-o", "ids.index", "--column", "id", "a.parquet"]).exits(0);
    shell
}

/// Runs the command on a terminal of `columns` columns, at which the user types `typed`. Returns the exit status
/// and everything that the terminal gets.
fn run(shell: &Shell, arguments: &[&str], columns: u16, typed: &[u8], variables: &[(&str, &str)]) -> (i32, String) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    tcsetwinsize(&controller, Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let terminal = || ioctl_tiocgptpeer(&controller, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    let mut child = command();
    child.args(arguments).current_dir(shell.dir.path()).env_remove("NO_COLOR").env("TERM", "xterm");
    child.envs(variables.iter().copied()).stdin(terminal()).stdout(terminal()).stderr(terminal());
    let mut running = child.spawn().unwrap();
    // Only the running command keeps the terminal open.
    drop(child);
    let mut controller = File::from(controller);
    controller.write_all(typed).unwrap();
    let (mut bytes, mut part) = (Vec::new(), [0; 1 << 16]);
    // After the last write, Linux reports an error instead of the end.
    while let Ok(len @ 1..) = controller.read(&mut part) {
        bytes.extend_from_slice(&part[..len]);
    }
    (running.wait().unwrap().code().unwrap(), String::from_utf8(bytes).unwrap().replace("\r\n", "\n"))
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    let shell = shell();
    for words in all_subcommands() {
        assert!(CALLS.iter().any(|call| call.starts_with(&words.join(" "))), "no call of {words:?}");
    }
    let folder = |name: &str| repository(name).canonicalize().unwrap().to_str().unwrap().to_owned();
    // Short names leave the lines to the command.
    std::os::unix::fs::symlink(folder("tests/golden/foreign"), shell.path("foreign")).unwrap();
    std::os::unix::fs::symlink(folder("benches/record"), shell.path("record")).unwrap();
    let helps = all_subcommands().into_iter().map(|words| format!("{} --help", words.join(" ")));
    let mut long = Vec::new();
    for call in CALLS.into_iter().map(str::to_owned).chain(helps) {
        let arguments: Vec<&str> = call.split(' ').collect();
        // Scripts and JSON stay whole.
        let is_whole = call.starts_with("completions") || call.starts_with("export");
        for columns in [60, 80, 120] {
            let (status, text) = run(&shell, &arguments, columns, b"", &[]);
            assert!(status < 2 || status == 2 && text.contains("filterblock:"), "{call}: {status} {text}");
            let text = strip_str(&text).to_string();
            let may_scroll = |line: &str| is_whole || columns == 60 && line.starts_with('|');
            let lines = text.split(['\n', '\r']).filter(|line| line.chars().count() > columns.into());
            long.extend(lines.filter(|line| !may_scroll(line)).map(|line| format!("{call}, {columns}: {line}")));
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
    assert!(fs::exists(shell.path("pages/filterblock-diff.1")).unwrap());
}

#[test]
fn colours_mark_absent_keys_and_damage() {
    let shell = shell();
    let (green, red) = ("\u{1b}[32mabsent", "\u{1b}[1;31mdamaged");
    for (arguments, colour) in [
        (&["query", "fruit.filter", "zebra"][..], green),
        (&["index", "query", "ids.index", "1"], green),
        (&["verify", "bad.filter"], red),
        (&["verify", "fruit.filter", "--against", "absent"], "\u{1b}[1;31mthe filter denies"),
        (&["query", "bad.filter", "zebra"], red),
    ] {
        let (_, shown) = run(&shell, arguments, 80, b"", &[]);
        assert!(shown.contains(colour), "{shown:?}");
        let with = |option| [arguments, &["--color", option]].concat();
        for (arguments, variables) in [
            (arguments.to_vec(), &[("NO_COLOR", "1")][..]),
            (with("never"), &[]),
            (with("never"), &[("CLICOLOR_FORCE", "1")]),
        ] {
            assert!(!run(&shell, &arguments, 80, b"", variables).1.contains(colour), "{arguments:?}");
        }
        let piped = |arguments: &[&str]| {
            let run = shell.run(arguments);
            String::from_utf8(run.stdout).unwrap() + &run.stderr
        };
        assert!(!piped(arguments).contains('\u{1b}') && piped(&with("always")).contains(colour), "{arguments:?}");
    }
    let help = |option: &str| shell.run(&["--help", option]).exits(0);
    assert!(help("--color=always").contains('\u{1b}') && !help("--color=auto").contains('\u{1b}'));
    shell.run(&["plan", "--color", "blue"]).fails_with(&["--color blue: expected auto, always or never"]);
}

#[test]
fn a_build_at_a_terminal_says_what_it_waits_for() {
    let shell = Shell::new();
    let (status, text) = run(&shell, &["build", "-o", "a.filter"], 80, b"apple\npear\n\x04", &[]);
    assert!(status == 0 && text.contains("filterblock: reading lines from standard input; Ctrl-D ends it"), "{text}");
    assert!(text.contains("a.filter: 2 keys read"), "{text}");
}
