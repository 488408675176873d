//! Tests of `filterblock completions` and `filterblock man`.

use std::fs;
use std::process::{Command, Stdio};

use crate::shell::{Shell, command};

/// Each shell, and the command that checks the syntax of a script.
const SHELLS: [(&str, &[&str]); 5] = [
    ("bash", &["bash", "-n"]),
    ("zsh", &["zsh", "-n"]),
    ("fish", &["fish", "--no-execute"]),
    ("elvish", &["elvish", "-compileonly"]),
    ("powershell", &["pwsh", "-NoProfile", "-File"]),
];

/// Returns the names of the subcommands of a command, from its help.
fn subcommands(above: &[&str]) -> Vec<String> {
    let help = command().args(above).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, list) = help.split_once("\nUsage:").unwrap();
    let (list, _) = list.split_once("\nOptions:\n").unwrap();
    // A name is indented by two spaces, and the next lines of a long explanation by more. Arguments begin with `<`.
    let names =
        list.lines().filter(|line| line.strip_prefix("  ").is_some_and(|line| line.starts_with(char::is_alphabetic)));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

/// Returns the words of each subcommand: `db get` for example.
pub fn all_subcommands() -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for name in subcommands(&[]) {
        all.push(vec![name.clone()]);
        all.extend(subcommands(&[&name]).into_iter().map(|inner| vec![name.clone(), inner]));
    }
    assert!(all.len() > 25 && all.contains(&vec!["db".to_owned(), "get".to_owned()]), "{all:?}");
    all
}

#[test]
fn completions_of_each_shell_are_sound_and_complete() {
    let shell = Shell::new();
    for (name, check) in SHELLS {
        let script = shell.run(&["completions", name]).exits(0);
        for words in all_subcommands() {
            assert!(script.contains(words.last().unwrap()), "{name}: {words:?}");
        }
        assert!(script.contains("what-if") && script.contains("filter-memory"), "{name}");
        shell.write(name, &script);
        let mut checked = Command::new(check[0]);
        let checked = checked.args(&check[1..]).arg(shell.path(name)).stdin(Stdio::null()).output();
        // A shell that is not installed checks nothing.
        if let Ok(output) = checked {
            assert!(output.status.success() && output.stderr.is_empty(), "{name}: {output:?}");
        }
    }
    shell.run(&["completions", "tcsh"]).fails_with(&["tcsh", "bash", "fish", "zsh"]);
    shell.run(&["completions"]).fails_with(&["SHELL"]);
}

#[test]
fn bash_completes_subcommands_and_options() {
    let shell = Shell::new();
    let script = shell.run(&["completions", "bash"]).exits(0);
    shell.write("completions", script);
    for (words, expected) in [("filterblock db ver", "verify"), ("filterblock inspect --wh", "--what-if")] {
        let ask = format!(
            "source ./completions; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _filterblock filterblock \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; \
             printf '%s' \"${{COMPREPLY[*]}}\""
        );
        let Ok(output) = Command::new("bash").args(["-c", &ask]).current_dir(shell.dir.path()).output() else { return };
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{words}");
    }
}

#[test]
fn each_subcommand_has_a_manual_page_without_warnings() {
    let shell = Shell::new();
    let run = shell.run(&["man", "--out", "share/man1"]);
    assert!(run.stderr.contains("manual pages into share/man1"), "{run:?}");
    assert_eq!(run.exits(0), "");
    let mut pages: Vec<String> = fs::read_dir(shell.path("share/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let mut expected: Vec<String> =
        all_subcommands().iter().map(|words| format!("filterblock-{}.1", words.join("-"))).collect();
    expected.push("filterblock.1".into());
    expected.sort();
    assert_eq!(pages, expected);
    for page in &pages {
        let path = shell.path("share/man1").join(page);
        let roff = fs::read_to_string(&path).unwrap();
        for part in [".TH", "NAME", "SYNOPSIS", "DESCRIPTION"] {
            assert!(roff.contains(part), "{page}: {part}");
        }
        let mut groff = Command::new("groff");
        groff.args(["-man", "-Tutf8", "-ww", "-z"]).arg(&path);
        if let Ok(output) = groff.output() {
            assert!(output.status.success() && output.stderr.is_empty(), "{page}: {output:?}");
        }
    }
    for words in all_subcommands() {
        let mut arguments: Vec<&str> = words.iter().map(|word| word.as_ref()).collect();
        arguments.push("--help");
        // A command that only has subcommands has no exit status of its own.
        let has_status = shell.run(&arguments).exits(0).contains("Exit status:");
        let page = format!("share/man1/filterblock-{}.1", words.join("-"));
        assert_eq!(fs::read_to_string(shell.path(&page)).unwrap().contains("EXIT STATUS"), has_status, "{page}");
    }
    // The main page on stdout equals the file that --out writes.
    let main = fs::read_to_string(shell.path("share/man1/filterblock.1")).unwrap();
    assert_eq!(shell.run(&["man"]).exits(0), main);
    for section in ["EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "STREAMS AND SIGNALS"] {
        assert!(main.contains(section), "{section}");
    }
}

#[test]
fn manual_pages_replace_files_only_if_forced() {
    let shell = Shell::new();
    fs::create_dir(shell.path("man1")).unwrap();
    shell.write("man1/filterblock-query.1", "mine");
    shell.run(&["man", "--out", "man1"]).fails_with(&["filterblock-query.1", "--force"]);
    assert_eq!(fs::read_dir(shell.path("man1")).unwrap().count(), 1, "no page is written if one cannot be");
    shell.run(&["man", "--out", "man1", "--force"]).exits(0);
    assert!(fs::read_to_string(shell.path("man1/filterblock-query.1")).unwrap().contains("FILTERBLOCK-QUERY"));
    shell.write("file", "");
    shell.run(&["man", "--out", "file"]).fails_with(&["file"]);
    shell.run(&["man", "--force"]).fails_with(&["--out"]);
}
