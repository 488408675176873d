//! Checks that ABI 1 does not change, that include/filterblock.h is what cbindgen generates from the
//! source, and that exported functions stop panics.
#![allow(clippy::unwrap_used, missing_docs)]

#[cfg(target_os = "linux")]
mod c_programs;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that makes a test fail if a tool is missing. `.ci/ffi` sets it.
const REQUIRE_TOOLS: &str = "FILTERBLOCK_REQUIRE_TOOLS";

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder with the shared and the static library that cargo built with this test.
fn libraries() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    for name in ["libfilterblock_ffi.so", "libfilterblock_ffi.a"] {
        assert!(folder.join(name).is_file(), "{} has no {name}", folder.display());
    }
    folder
}

/// Returns whether all tools can be run. If a tool is missing, prints that the test is skipped, or
/// panics if [`REQUIRE_TOOLS`] is set. Prints to the stderr of the process, because the test
/// harness captures only the print macros.
fn have(test: &str, tools: &[&str]) -> bool {
    for tool in tools {
        if Command::new(tool).arg("--version").output().is_err() {
            let line = format!("\nSKIPPED {test}: {tool} is not installed; run .ci/ffi to install it\n");
            assert!(std::env::var_os(REQUIRE_TOOLS).is_none(), "{line}");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return false;
        }
    }
    true
}

/// Runs a command and returns its stdout. Panics with the whole output if the command fails.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}\n{errors}", output.status);
    printed.into_owned()
}

fn command<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(crate_folder());
    command
}

fn read(path: &str) -> String {
    std::fs::read_to_string(crate_folder().join(path)).unwrap()
}

/// Returns the type of a parameter, without the parameter's name, which is not part of the ABI.
fn type_of(parameter: &str) -> &str {
    let name = parameter.rsplit(['*', ' ']).next().unwrap();
    let without = parameter.strip_suffix(name).unwrap().trim_end();
    if without.is_empty() { parameter } else { without }
}

/// Returns the prototypes of a header, each on one line and without the names of parameters.
fn prototypes(header: &str) -> BTreeSet<String> {
    let mut code = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").unwrap().1;
    }
    code.push_str(rest);
    let lines = code.lines().filter(|line| !line.trim_start().starts_with('#'));
    let code = lines.collect::<Vec<_>>().join(" ");
    code.replace("extern \"C\" {", ";")
        .split(';')
        .map(|statement| statement.split_whitespace().collect::<Vec<_>>().join(" "))
        // A member of a struct may be a pointer to a function.
        .filter(|statement| !statement.contains("(*"))
        .filter_map(|statement| {
            let (function, parameters) = statement.strip_suffix(')')?.split_once('(')?;
            let types: Vec<_> = parameters.split(", ").map(type_of).collect();
            Some(format!("{function}({})", types.join(", ")))
        })
        .collect()
}

fn name_of(prototype: &str) -> &str {
    prototype.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap()
}

/// Returns the prototypes of ABI 1. A release may add lines to the file, and never changes one.
fn committed() -> BTreeSet<String> {
    read("tests/abi_1/prototypes.txt").lines().map(str::to_owned).collect()
}

/// To write the header, run `FILTERBLOCK_WRITE_HEADER=1 cargo test -p filterblock-ffi --test abi`.
#[test]
fn header_is_generated_from_the_source() {
    let path = crate_folder().join("include/filterblock.h");
    let config = cbindgen::Config::from_file(crate_folder().join("cbindgen.toml")).unwrap();
    let mut generated = Vec::new();
    cbindgen::Builder::new().with_crate(crate_folder()).with_config(config).generate().unwrap().write(&mut generated);
    if std::env::var_os("FILTERBLOCK_WRITE_HEADER").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    assert!(
        std::fs::read(&path).unwrap_or_default() == generated,
        "{} is outdated; run FILTERBLOCK_WRITE_HEADER=1 cargo test -p filterblock-ffi --test abi",
        path.display()
    );
}

#[test]
fn the_abi_only_grows() {
    let (committed, present) = (committed(), prototypes(&read("include/filterblock.h")));
    let gone: Vec<_> = committed.difference(&present).collect();
    let new: Vec<_> = present.difference(&committed).collect();
    assert!(gone.is_empty(), "callers of ABI 1 need these functions: {gone:#?}");
    assert!(new.is_empty(), "add these lines to tests/abi_1/prototypes.txt: {new:#?}");
}

#[test]
fn the_header_has_at_most_70_functions() {
    let count = prototypes(&read("include/filterblock.h")).len();
    assert!((40..=70).contains(&count), "{count}");
}

#[test]
fn the_calls_call_every_function_of_the_header() {
    let calls = read("tests/abi_1/calls.c");
    for prototype in prototypes(&read("include/filterblock.h")) {
        let name = name_of(&prototype).strip_prefix("filterblock_").unwrap();
        let uses = calls.match_indices(name).filter(|(at, _)| {
            let before = calls[..*at].chars().next_back().unwrap();
            !before.is_alphanumeric() && before != '_' && calls[at + name.len()..].starts_with('(')
        });
        assert!(calls.contains(&format!(", {name}, ")), "{name} has no pointer of its type");
        assert!(uses.count() > 0, "{name} is not called");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn shared_library_exports_the_functions_and_nothing_else() {
    if !have("shared_library_exports_the_functions_and_nothing_else", &["nm"]) {
        return;
    }
    let library = libraries().join("libfilterblock_ffi.so");
    let symbols = run(command("nm", &["-D", "--defined-only", "--format=posix"]).arg(&library));
    let exported: BTreeSet<&str> = symbols.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let committed = committed();
    assert_eq!(exported, committed.iter().map(|prototype| name_of(prototype)).collect());
}

#[test]
#[cfg(target_os = "linux")]
fn shared_library_is_named_by_the_abi_version() {
    if !have("shared_library_is_named_by_the_abi_version", &["readelf"]) {
        return;
    }
    let library = libraries().join("libfilterblock_ffi.so");
    let found = run(command("readelf", &["-d"]).arg(&library));
    let name = format!("Library soname: [libfilterblock.so.{}]", filterblock_ffi::FILTERBLOCK_ABI_VERSION);
    assert!(found.contains(&name), "{found}");
    let header = read("include/filterblock.h");
    let version = format!("#define FILTERBLOCK_ABI_VERSION {}\n", filterblock_ffi::filterblock_abi_version());
    assert!(header.contains(&version));
}

/// The functions that cannot panic.
const WITHOUT_CATCH: [&str; 6] = [
    "filterblock_abi_version",
    "filterblock_builder_len",
    "filterblock_bytes_data",
    "filterblock_bytes_len",
    "filterblock_code_is_damage",
    "filterblock_version",
];

#[test]
fn every_exported_function_stops_panics() {
    // Every function that can panic calls the module `border`, or a helper that calls `border`.
    let catches = [
        "border::",
        " ask(",
        " finish_with(",
        " insert(",
        " open(",
        " with_secret(",
        "answers.ask(",
        "builder.add(",
        "builder.step(",
    ];
    let mut without = BTreeSet::new();
    for entry in std::fs::read_dir(crate_folder().join("src")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for function in text.split("#[unsafe(no_mangle)]").skip(1) {
            let name = function.split_once(" fn ").unwrap().1.split('(').next().unwrap().to_owned();
            let (signature, body) = function.split_once("{\n").unwrap();
            assert!(signature.contains("extern \"C\""), "{name}");
            let body = body.split("\n}\n").next().unwrap();
            if !catches.iter().any(|catch| body.contains(catch)) {
                without.insert(name);
            }
        }
    }
    assert_eq!(without, WITHOUT_CATCH.map(str::to_owned).into());
}
