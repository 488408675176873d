//! Runs the shell blocks of docs/TUTORIAL.md word for word, and compares the output with the page.

use std::path::Path;
use std::process::Command;

use super::repository;

/// Returns the blocks with shell sessions: lines that begin with `$ `, and what these lines print.
fn sessions(page: &str) -> Vec<&str> {
    page.split("```console\n").skip(1).map(|block| block.split("```").next().unwrap()).collect()
}

/// Runs the lines of a session that begin with `$ `, in a directory. Returns these lines, each with
/// what it printed.
pub fn run(session: &str, dir: &Path) -> String {
    let command = Path::new(env!("CARGO_BIN_EXE_filterblock")).parent().unwrap();
    let path = format!("{}:{}", command.display(), std::env::var("PATH").unwrap());
    let mut printed = String::new();
    for line in session.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let line_with_errors = format!("({line}) 2>&1");
        let output = Command::new("sh").args(["-c", &line_with_errors]).env("PATH", &path).current_dir(dir).output();
        printed += &format!("$ {line}\n{}", String::from_utf8(output.unwrap().stdout).unwrap());
    }
    printed
}

#[test]
fn the_tutorial_prints_what_it_shows() {
    let page = std::fs::read_to_string(repository("docs/TUTORIAL.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let sessions = sessions(&page);
    assert!(sessions.len() >= 4, "the page has {} shell blocks", sessions.len());
    for session in sessions {
        assert_eq!(run(session, dir.path()), session);
    }
}
