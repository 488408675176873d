//! Checks that ABI 1 does not change, and that exported functions stop panics.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::collections::BTreeSet;

use common::{command, crate_folder, have, libraries, run};

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

/// Returns the prototypes of ABI 1 as tests/abi_1/prototypes.txt and differences.txt list them.
///
/// A line of differences.txt begins with `-` or `+`: a prototype that went or came before the first
/// release. The line above says why.
fn committed() -> BTreeSet<String> {
    let mut prototypes: BTreeSet<String> = read("tests/abi_1/prototypes.txt").lines().map(str::to_owned).collect();
    let mut has_reason = false;
    for line in read("tests/abi_1/differences.txt").lines() {
        let applied = match line.split_at_checked(2) {
            Some(("- ", gone)) => prototypes.remove(gone),
            Some(("+ ", new)) => prototypes.insert(new.to_owned()),
            _ => {
                has_reason = !line.is_empty();
                continue;
            }
        };
        assert!(applied && has_reason, "this difference is wrong or has no reason: {line}");
    }
    prototypes
}

#[test]
fn prototypes_change_only_with_a_reason() {
    let (committed, present) = (committed(), prototypes(&read("include/filterblock.h")));
    let gone: Vec<_> = committed.difference(&present).collect();
    let new: Vec<_> = present.difference(&committed).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "list these prototypes and the reason in tests/abi_1/differences.txt; gone: {gone:#?}; new: {new:#?}"
    );
}

#[test]
fn the_header_has_at_most_60_functions() {
    let count = prototypes(&read("include/filterblock.h")).len();
    assert!((40..=60).contains(&count), "{count}");
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
