//! Tests rules of this project that no tool checks.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The files and folders with `unsafe` code, and what they need it for.
const UNSAFE: [&str; 9] = [
    "src/block/bytes.rs",            // memory maps, and bytes that a host owns
    "crates/simd/src",               // processor features
    "crates/ffi/src",                // exported functions, and the caller's pointers
    "crates/cli/src/streams.rs",     // a link section
    "crates/testkit/src/allocation", // global allocators of tests
    "python/src/arrow.rs",           // capsules of Arrow
    "python/src/buffer.rs",          // the buffers of Python
    "python/src/fork_lock.rs",       // a function that the C library calls at a fork
    "web/src/border.rs",             // functions that WebAssembly exports and imports
];

type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the Rust files below a folder, without build output and hidden folders.
fn sources(dir: impl AsRef<Path>) -> Vec<(PathBuf, String)> {
    let (mut found, mut open) = (Vec::new(), vec![dir.as_ref().to_owned()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let (path, is_dir) = (entry.as_ref().unwrap().path(), entry.unwrap().file_type().unwrap().is_dir());
            let name = path.file_name().unwrap().to_string_lossy();
            if is_dir && !["target", "node_modules"].contains(&&*name) && !name.starts_with('.') {
                open.push(path);
            } else if name.ends_with(".rs") {
                found.push((path.clone(), fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {}", dir.as_ref().display());
    found
}

/// Returns the source folders of all packages but those of tests and benchmarks.
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
        let (mut depth, mut item) = (0, String::new());
        for c in code[at + prefix.len()..].chars() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            match c {
                '{' if depth == 1 => {}
                '}' | ',' if depth <= 1 => drop(found.insert(name(std::mem::take(&mut item).trim()))),
                _ => item.push(c),
            }
            if depth == 0 && !(c.is_alphanumeric() || c == '_') {
                found.insert(name(item.trim()));
                break;
            }
        }
    }
    found
}

/// Returns, for each file or subfolder of a folder, what it imports from the folder. Leaves out unit tests.
fn imports_within(folder: &Path, root: &Path) -> Imports {
    let mut imports = Imports::new();
    let names = folder.strip_prefix(root).unwrap().iter().map(|part| part.to_str().unwrap());
    let absolute: String = std::iter::once("crate").chain(names).map(|part| format!("{part}::")).collect();
    for (path, text) in sources(folder) {
        let inside = path.strip_prefix(folder).unwrap().with_extension("");
        let parts: Vec<&str> = inside.iter().map(|part| part.to_str().unwrap()).filter(|part| *part != "mod").collect();
        let is_test = parts.iter().any(|part| part.ends_with("tests"));
        let Some(module) = parts.first().filter(|name| !is_test && !["lib", "main"].contains(name)) else { continue };
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
        let code: String = text.lines().flat_map(|line| [line.split("//").next().unwrap().trim(), " "]).collect();
        let mut names = imported(&code, &"super::".repeat(parts.len()));
        names.extend(imported(&code, &absolute));
        names.remove(*module);
        imports.entry((*module).to_owned()).or_default().extend(names);
    }
    imports
}

/// Removes modules that import no other module, again and again. The rest are circles, and what imports them.
fn circles(mut imports: Imports) -> Imports {
    loop {
        let (modules, before): (BTreeSet<_>, _) = (imports.keys().cloned().collect(), imports.len());
        imports.values_mut().for_each(|names| names.retain(|name| modules.contains(name)));
        imports.retain(|_, names| !names.is_empty());
        if imports.len() == before {
            return imports;
        }
    }
}

#[test]
fn imports_look_down_and_form_no_circles() {
    for root in roots() {
        let files = sources(&root);
        for folder in files.iter().filter_map(|(path, _)| path.parent()).collect::<BTreeSet<_>>() {
            assert_eq!(circles(imports_within(folder, &root)), Imports::new(), "{}", folder.display());
        }
    }
    let code = "use super::{a, b::{c, d}, e::F}; use super::g::H; x(super::i::j()); use super::super::k; my_super::l;";
    assert_eq!(imported(code, "super::").into_iter().collect::<String>(), "abegisuper");
    let tied = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "e")].map(|(a, b)| (a.to_owned(), [b.to_owned()].into()));
    assert!(circles(tied.into()).into_keys().eq(["a", "b", "c"]));
}

#[test]
fn unsafe_code_lives_in_the_listed_files_only() {
    let marks = ["unsafe {", "unsafe fn", "unsafe impl", "#[unsafe("];
    let is_unsafe = |line: &str| marks.iter().any(|mark| line.split("//").next().unwrap().contains(mark));
    let files: Vec<_> = roots().iter().flat_map(sources).filter(|(_, text)| text.lines().any(is_unsafe)).collect();
    let unlisted = files.iter().map(|(path, _)| path).filter(|path| !UNSAFE.iter().any(|at| path.starts_with(at)));
    assert_eq!(unlisted.collect::<Vec<_>>(), Vec::<&PathBuf>::new());
    let unused = UNSAFE.iter().filter(|listed| !files.iter().any(|(path, _)| path.starts_with(listed)));
    assert_eq!(unused.collect::<Vec<_>>(), [&""; 0]);
}

#[test]
fn no_file_belongs_to_two_packages() {
    for (path, text) in sources(".") {
        let depth = path.ancestors().skip(1).position(|dir| dir.join("Cargo.toml").is_file()).unwrap();
        for line in text.lines().filter(|line| line.trim_start().starts_with("#[path = ")) {
            assert!(line.matches("../").count() <= depth, "{}: {line}", path.display());
        }
    }
}

#[test]
fn tests_named_in_testing_md_exist() {
    let page = fs::read_to_string("docs/TESTING.md").unwrap();
    let is_name = |name: &&str| name.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b':'));
    let named = page.split('`').skip(1).step_by(2).filter(is_name).filter(|name| name.contains(['_', ':']));
    let files = sources(".");
    let exists = |name: &&str| {
        let (function, file) = (format!("fn {name}("), format!("{}.rs", name.replace("::", "/")));
        files.iter().any(|(path, text)| text.contains(&function) || path.ends_with(&file))
    };
    let (known, unknown): (Vec<_>, Vec<_>) = named.partition(exists);
    assert!(known.len() > 20 && unknown.is_empty(), "docs/TESTING.md names tests that do not exist: {unknown:?}");
}
