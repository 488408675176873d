//! Tests rules of this project that the compiler does not check.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const SOURCES: [&str; 9] = [
    "src",
    "crates/store/src",
    "crates/parquet/src",
    "crates/ffi/src",
    "crates/cli/src",
    "crates/charts/src",
    "crates/testkit/src",
    "python/src",
    "web/src",
];
/// The source folders whose modules have no floors. [`FLOORS`] says what a floor is.
const WITHOUT_FLOORS: [&str; 5] =
    ["crates/cli/src", "crates/charts/src", "crates/testkit/src", "python/src", "web/src"];

/// The floor of each module. A module may import modules of lower floors, and no module of a higher
/// floor. A folder is one module.
const FLOORS: [(&str, u8); 43] = [
    ("error", 0),
    ("hash", 0),
    ("hash_kind", 0),
    ("extractor", 1),
    ("checksum", 0),
    ("codec", 0),
    ("bits", 0),
    ("zeros", 0),
    ("storage", 0),
    ("sync", 0),
    ("simd", 0),
    ("spec", 2),
    ("plans", 3),
    ("block", 4),
    ("policy", 4),
    ("variants", 4),
    ("foreign", 4),
    ("sstable", 5),
    ("lsm", 6),
    ("repair", 7),
    // Modules of filterblock-parquet.
    ("thrift", 1),
    ("filters", 1),
    ("source", 1),
    ("written", 1),
    ("footer", 2),
    ("values", 2),
    ("append", 3),
    ("check", 3),
    ("index", 4),
    // Modules of filterblock-ffi.
    ("raw", 0),
    ("border", 1),
    ("answer", 2),
    ("bytes", 2),
    ("hasher", 2),
    ("expected", 3),
    ("hashes", 3),
    ("options", 3),
    ("builder", 4),
    ("filter", 4),
    ("partitioned", 4),
    ("verified", 4),
    ("info", 5),
    ("set", 5),
];

/// The allowed imports between modules of the same floor: importer and imported module. Every
/// module may also import `error`, `codec` and `checksum`.
const DOORS: [(&str, &str); 4] =
    [("error", "hash_kind"), ("hash", "hash_kind"), ("variants", "block"), ("foreign", "block")];

/// The only source files with `unsafe` code.
const UNSAFE: [&str; 26] = [
    "src/block/mapped.rs",
    "src/block/shared_bytes.rs",
    "src/simd/avx2.rs",
    "src/simd/avx512.rs",
    "src/simd/kernels.rs",
    "src/simd/neon.rs",
    "src/simd/prefetch.rs",
    // Files with exported functions (`#[unsafe(no_mangle)]`), and files that use the caller's
    // pointers.
    "crates/ffi/src/answer.rs",
    "crates/ffi/src/border.rs",
    "crates/ffi/src/builder.rs",
    "crates/ffi/src/bytes.rs",
    "crates/ffi/src/expected.rs",
    "crates/ffi/src/filter.rs",
    "crates/ffi/src/hasher.rs",
    "crates/ffi/src/hashes.rs",
    "crates/ffi/src/info.rs",
    "crates/ffi/src/options.rs",
    "crates/ffi/src/partitioned.rs",
    "crates/ffi/src/raw.rs",
    "crates/ffi/src/set.rs",
    "crates/ffi/src/verified.rs",
    // A file with a link section.
    "crates/cli/src/streams.rs",
    // Files that read the buffers of Python and the capsules of Arrow.
    "python/src/arrow.rs",
    "python/src/buffer.rs",
    // A file that registers a function with the C library.
    "python/src/fork_lock.rs",
    // A file with functions that WebAssembly exports and imports.
    "web/src/border.rs",
];

/// The maximum number of lines of a file.
const MAX_LINES: usize = 600;
/// The maximum number of lines of a function in a source folder.
const MAX_FUNCTION_LINES: usize = 70;
/// The maximum length of a test's name in characters, without its modules.
const MAX_NAME_LEN: usize = 60;

fn sources(dir: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from(dir)];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {dir}");
    found.sort();
    found
}

fn floor_of(module: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|&(_, floor)| floor)
}

fn module_of(path: &Path) -> String {
    let name = path.components().skip_while(|part| part.as_os_str() != "src").nth(1).unwrap();
    name.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// Returns the part of a file before its unit tests.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod ").next().unwrap()
}

#[test]
fn modules_import_downwards_only() {
    let mut wrong = Vec::new();
    for (path, text) in SOURCES.into_iter().filter(|root| !WITHOUT_FLOORS.contains(root)).flat_map(sources) {
        let module = module_of(&path);
        let Some(floor) = floor_of(&module) else {
            assert!(module == "lib", "{} has no floor; add its module to FLOORS", path.display());
            continue;
        };
        for (number, line) in without_tests(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap();
            for (_, rest) in code.match_indices("crate::").map(|(i, hit)| (i, &code[i + hit.len()..])) {
                let other: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let Some(other_floor) = floor_of(&other) else { continue };
                let is_door = DOORS.contains(&(module.as_str(), other.as_str()));
                let base = ["error", "codec", "checksum"].contains(&other.as_str());
                let sideways = other_floor == floor && other != module && !is_door && !base;
                if other_floor > floor || sideways {
                    wrong.push(format!("{}:{}: {module} imports {other}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the first name after each `prefix` in `code`: `a` for `super::a::b`, and `a` and `c` for
/// `super::{a::b, c}`. Skips a `prefix` that is a part of a longer name or path.
fn imported(code: &str, prefix: &str) -> BTreeSet<String> {
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            None => drop(found.insert(name(rest))),
            Some(list) => {
                let (mut depth, mut item) = (0u32, String::new());
                for c in list.chars() {
                    match c {
                        '}' | ',' if depth == 0 => drop(found.insert(name(std::mem::take(&mut item).trim()))),
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        _ if depth == 0 => item.push(c),
                        _ => {}
                    }
                    if c == '}' && depth == 0 && item.is_empty() {
                        break;
                    }
                }
            }
        }
    }
    found
}

/// Returns, for each module of a folder, the names that it imports from the folder's own module:
/// modules and other items. A module is a file or a subfolder. Unit tests are left out.
fn imports_within(folder: &Path, root: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let crate_path = folder.strip_prefix(root).unwrap().iter().map(|part| part.to_str().unwrap());
    let absolute: String = std::iter::once("crate").chain(crate_path).map(|part| format!("{part}::")).collect();
    for (path, text) in sources(folder.to_str().unwrap()) {
        let inside = path.strip_prefix(folder).unwrap().with_extension("");
        let mut parts: Vec<&str> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        if parts.last().is_some_and(|last| last.ends_with("tests")) {
            continue;
        }
        if parts.last() == Some(&"mod") {
            parts.pop();
        }
        // `lib.rs`, `main.rs` and the `mod.rs` of the folder are not modules of the folder.
        let Some(module) = parts.first().filter(|name| !["lib", "main"].contains(name)) else { continue };
        let code: String =
            without_tests(&text).lines().flat_map(|line| [line.split("//").next().unwrap().trim(), " "]).collect();
        let mut names = imported(&code, &"super::".repeat(parts.len()));
        names.extend(imported(&code, &absolute));
        names.remove(*module);
        imports.entry((*module).to_owned()).or_default().extend(names);
    }
    imports
}

/// Returns all modules that a module imports, directly or indirectly.
fn reached(imports: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flatten() {
            if imports.contains_key(next) && seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    seen
}

/// Returns the sets of modules of a folder that import one another, directly or indirectly.
fn cycles_within(folder: &Path, root: &Path) -> BTreeSet<BTreeSet<String>> {
    let imports = imports_within(folder, root);
    let reached: BTreeMap<&str, _> = imports.keys().map(|one| (one.as_str(), reached(&imports, one))).collect();
    let cycle = |one: &&str| -> BTreeSet<String> {
        let others = reached[one].iter().filter(|other| reached[other.as_str()].contains(*one));
        others.cloned().collect()
    };
    reached.keys().map(cycle).filter(|all| all.len() > 1).collect()
}

#[test]
fn modules_of_a_folder_form_no_import_cycles() {
    let mut found = Vec::new();
    for root in SOURCES {
        let files = sources(root);
        let folders: BTreeSet<&Path> = files.iter().filter_map(|(path, _)| path.parent()).collect();
        for folder in folders {
            let cycles = cycles_within(folder, Path::new(root));
            found.extend(cycles.into_iter().map(|cycle| format!("{}: {cycle:?}", folder.display())));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn imports_are_found_in_every_syntax() {
    let code = "use super::{a, b::{c, d}, e::F}; use super::g::H; x(super::i::j()); use super::super::k; my_super::l;";
    let names = |prefix| imported(code, prefix).into_iter().collect::<Vec<_>>();
    assert_eq!(names("super::"), ["a", "b", "e", "g", "i", "super"]);
    assert_eq!(names("super::super::"), ["k"]);
}

#[test]
fn unsafe_code_lives_in_the_listed_files_only() {
    let with_unsafe: Vec<String> = SOURCES
        .into_iter()
        .flat_map(sources)
        .filter(|(_, text)| {
            text.lines().any(|line| {
                let code = line.split("//").next().unwrap();
                code.contains("unsafe {")
                    || code.contains("unsafe fn")
                    || code.contains("unsafe impl")
                    || code.contains("#[unsafe(")
            })
        })
        .map(|(path, _)| path.to_str().unwrap().to_owned())
        .collect();
    assert_eq!(with_unsafe, UNSAFE);
}

#[test]
fn files_and_functions_stay_readable() {
    let mut wrong = Vec::new();
    let folders = ["src", "crates", "tests", "benches", "examples", "python/src", "web/src"];
    for (path, text) in folders.into_iter().flat_map(sources) {
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() > MAX_LINES {
            wrong.push(format!("{}: {} lines, at most {MAX_LINES} are allowed", path.display(), lines.len()));
        }
        if !lines.first().is_some_and(|line| line.starts_with("//!")) {
            wrong.push(format!("{}: the first line must be a module comment that starts with //!", path.display()));
        }
        let mut start: Option<(usize, usize)> = None;
        for (number, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let is_function =
                line.contains("fn ") && line.trim_end().ends_with('{') && !line.trim_start().starts_with("//");
            if start.is_none() && is_function {
                start = Some((number, indent));
            }
            if let Some((first, depth)) = start
                && *line == format!("{}}}", " ".repeat(depth))
            {
                if number - first >= MAX_FUNCTION_LINES && path.components().any(|part| part.as_os_str() == "src") {
                    wrong.push(format!(
                        "{}:{}: a function of {} lines, at most {MAX_FUNCTION_LINES} are allowed",
                        path.display(),
                        first + 1,
                        number - first + 1
                    ));
                }
                start = None;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_unfinished_code_is_left() {
    // The marks are concatenated from parts, so that this file does not contain them.
    let marks =
        [["to", "do!("].concat(), ["unimpl", "emented!("].concat(), ["FIX", "ME"].concat(), ["XX", "X "].concat()];
    for (path, text) in ["src", "crates", "tests", "benches", "python/src"].into_iter().flat_map(sources) {
        for mark in &marks {
            assert!(
                !text.contains(mark.as_str()),
                "{} contains {mark}; finish the code or remove the mark",
                path.display()
            );
        }
    }
}

#[test]
fn tests_named_in_testing_md_exist() {
    let page = fs::read_to_string("docs/TESTING.md").unwrap();
    let named = page.split('`').skip(1).step_by(2).filter(|name| {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c);
        (name.contains('_') || name.contains("::")) && name.chars().all(is_name)
    });
    let files: Vec<_> = ["src", "crates", "tests", "fuzz/tests", "fuzz/src"].into_iter().flat_map(sources).collect();
    let exists = |name: &&str| {
        // A name is the name of a function, of a file, or of a module of a test program.
        let function = format!("fn {name}(");
        let file = PathBuf::from(format!("{}.rs", name.replace("::", "/")));
        files.iter().any(|(path, text)| text.contains(&function) || path.ends_with(&file))
    };
    let (known, unknown): (Vec<_>, Vec<_>) = named.partition(exists);
    assert!(known.len() > 20 && unknown.is_empty(), "docs/TESTING.md names tests that do not exist: {unknown:?}");
}

#[test]
fn names_of_tests_have_at_most_60_characters() {
    let (mut tests, mut wrong) = (0, Vec::new());
    for (path, text) in ["src", "crates", "tests", "fuzz/tests", "benches"].into_iter().flat_map(sources) {
        let mut lines = text.lines().map(str::trim_start);
        while lines.by_ref().any(|line| line == "#[test]") {
            // Other attributes and comments may lie between `#[test]` and the function.
            let Some(function) = lines.by_ref().find_map(|line| line.split_once("fn ")) else { break };
            let name = function.1.split('(').next().unwrap();
            tests += 1;
            if name.len() > MAX_NAME_LEN {
                wrong.push(format!("{}: {name} has {} characters", path.display(), name.len()));
            }
        }
    }
    assert!(tests > 500 && wrong.is_empty(), "{wrong:#?}");
}
