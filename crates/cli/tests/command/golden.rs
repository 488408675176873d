//! Opens files that an earlier version wrote with all commands: stores, SST files, indexes, filter
//! blocks, Parquet files, and files of the Python package. The answers must not change.
//!
//! `tests/earlier/answers.txt` is a session: commands, each with what it printed. `tests/earlier/make`
//! made the files.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{repository, tutorial};

const FOLDER: &str = "crates/cli/tests/earlier";
const ANSWERS: &str = "answers.txt";

/// Copies a directory. All copies get the modification time that the indexes have recorded:
/// 2026-01-01.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            copy(&from, &to);
            continue;
        }
        fs::write(&to, fs::read(&from).unwrap()).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        fs::File::open(&to).unwrap().set_modified(modified).unwrap();
    }
}

fn answers(session: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    copy(&repository(FOLDER), dir.path());
    tutorial::run(session, dir.path())
}

#[test]
fn files_of_an_earlier_version_open_with_the_same_answers() {
    let session = fs::read_to_string(repository(FOLDER).join(ANSWERS)).unwrap();
    assert!(session.lines().filter(|line| line.starts_with("$ ")).count() >= 19);
    assert_eq!(answers(&session), session);
}

/// Returns the commands of a session, each with what it printed.
fn commands(session: &str) -> Vec<(&str, &str)> {
    session.split("$ ").filter_map(|part| part.split_once('\n')).collect()
}

/// Writes what the commands print that have no recorded answer. Recorded answers never change:
/// `cargo test -p filterblock-cli --test command golden -- --ignored`.
#[test]
#[ignore = "writes tests/earlier/answers.txt"]
fn write_answers() {
    let path = repository(FOLDER).join(ANSWERS);
    let session = fs::read_to_string(&path).unwrap();
    let written = answers(&session);
    for (old, new) in commands(&session).iter().zip(commands(&written)) {
        assert!(old.1.is_empty() || *old == new, "{} now prints {}", old.0, new.1);
    }
    fs::write(path, written).unwrap();
}
