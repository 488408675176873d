//! Tests rules of this project that no tool checks.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The files and folders with `unsafe` code, and what they need it for.
const UNSAFE: [&str; 9] = [
    // Memory maps, and bytes that a host owns.
    "src/block/bytes.rs",
    // Processor features.
    "crates/simd/src",
    // Exported functions, and the caller's pointers.
    "crates/ffi/src",
    // A link section.
    "crates/cli/src/streams.rs",
    // Global allocators of tests.
    "crates/testkit/src/allocation",
    // The buffers of Python and the capsules of Arrow; a function that the C library calls at a fork.
    "python/src/arrow.rs",
    "python/src/buffer.rs",
    "python/src/fork_lock.rs",
    // Functions that WebAssembly exports and imports.
    "web/src/border.rs",
];

/// Returns the Rust files below a folder, without build output and without packages inside the folder.
fn sources(dir: impl AsRef<Path>) -> Vec<(PathBuf, String)> {
    let (mut found, mut open) = (Vec::new(), vec![dir.as_ref().to_owned()]);
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
    assert!(!found.is_empty(), "no sources in {}", dir.as_ref().display());
    found.sort();
    found
}

/// Returns the source folders of the packages whose modules must not import in circles.
fn roots() -> Vec<PathBuf> {
    let crates = fs::read_dir("crates").unwrap().map(|entry| entry.unwrap().path().join("src"));
    ["src", "python/src", "web/src"].into_iter().map(PathBuf::from).chain(crates).collect()
}

/// Returns the first name after each `prefix` in `code`: `a` for `super::a::b`, and `a` and `c` for
/// `super::{a::b, c}`. Skips a `prefix` that is a part of a longer name or path.
fn imported(code: &str, prefix: &str) -> BTreeSet<String> {
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(name(rest));
            continue;
        };
        let (mut depth, mut item) = (1, String::new());
        for c in list.chars() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            match c {
                '}' | ',' if depth <= 1 => drop(found.insert(name(std::mem::take(&mut item).trim()))),
                _ if depth == 1 => item.push(c),
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

/// Returns, for each module of a folder, the names that it imports from the folder's own module. A
/// module is a file or a subfolder. Unit tests are left out.
fn imports_within(folder: &Path, root: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let names = folder.strip_prefix(root).unwrap().iter().map(|part| part.to_str().unwrap());
    let absolute: String = std::iter::once("crate").chain(names).map(|part| format!("{part}::")).collect();
    for (path, text) in sources(folder) {
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
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
        let code: String = text.lines().flat_map(|line| [line.split("//").next().unwrap().trim(), " "]).collect();
        let mut names = imported(&code, &"super::".repeat(parts.len()));
        names.extend(imported(&code, &absolute));
        names.remove(*module);
        imports.entry((*module).to_owned()).or_default().extend(names);
    }
    imports
}

/// Returns the sets of modules that import one another, directly or indirectly.
fn cycles(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            let next = imports.get(module).into_iter().flatten().filter(|next| imports.contains_key(*next));
            open.extend(next.filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let all: BTreeMap<&String, _> = imports.keys().map(|one| (one, reached(one))).collect();
    let cycle = |one: &&String| all[one].iter().filter(|other| all[other].contains(*one)).cloned().collect();
    all.keys().map(cycle).filter(|cycle: &BTreeSet<String>| cycle.len() > 1).collect()
}

#[test]
fn imports_look_down_and_form_no_circles() {
    let mut found = Vec::new();
    for root in roots() {
        let files = sources(&root);
        for folder in files.iter().filter_map(|(path, _)| path.parent()).collect::<BTreeSet<_>>() {
            let cycles = cycles(&imports_within(folder, &root));
            found.extend(cycles.into_iter().map(|cycle| format!("{}: {cycle:?}", folder.display())));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    let code = "use super::{a, b::{c, d}, e::F}; use super::g::H; x(super::i::j()); use super::super::k; my_super::l;";
    assert_eq!(imported(code, "super::").into_iter().collect::<String>(), "abegisuper");
    let tied = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")].map(|(a, b)| (a.to_owned(), [b.to_owned()].into()));
    assert_eq!(cycles(&tied.into()), [["a", "b", "c"].map(str::to_owned).into()].into());
}

#[test]
fn unsafe_code_lives_in_the_listed_files_only() {
    let marks = ["unsafe {", "unsafe fn", "unsafe impl", "#[unsafe("];
    let is_unsafe = |line: &str| marks.iter().any(|mark| line.split("//").next().unwrap().contains(mark));
    let files: Vec<_> = roots().iter().flat_map(sources).filter(|(_, text)| text.lines().any(is_unsafe)).collect();
    let unlisted = files.iter().filter(|(path, _)| !UNSAFE.iter().any(|listed| path.starts_with(listed)));
    assert_eq!(unlisted.map(|(path, _)| path.display().to_string()).collect::<Vec<_>>(), [""; 0]);
    let unused = UNSAFE.iter().filter(|listed| !files.iter().any(|(path, _)| path.starts_with(listed)));
    assert_eq!(unused.collect::<Vec<_>>(), [&""; 0]);
}

#[test]
fn no_file_belongs_to_two_packages() {
    let folders =
        ["src", "crates", "tests", "benches", "examples", "fuzz/src", "fuzz/tests", "integrations", "python/src"];
    for (path, text) in folders.into_iter().chain(["web/src"]).flat_map(sources) {
        let package = path.ancestors().skip(1).find(|dir| dir.join("Cargo.toml").is_file()).unwrap_or(Path::new(""));
        let depth = path.strip_prefix(package).unwrap().components().count() - 1;
        for line in text.lines().filter(|line| line.trim_start().starts_with("#[path = ")) {
            assert!(line.matches("../").count() <= depth, "{}: {line}", path.display());
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
    // A name is the name of a function, of a file, or of a module of a test program.
    let exists = |name: &&str| {
        let (function, file) = (format!("fn {name}("), format!("{}.rs", name.replace("::", "/")));
        files.iter().any(|(path, text)| text.contains(&function) || path.ends_with(&file))
    };
    let (known, unknown): (Vec<_>, Vec<_>) = named.partition(exists);
    assert!(known.len() > 20 && unknown.is_empty(), "docs/TESTING.md names tests that do not exist: {unknown:?}");
}
