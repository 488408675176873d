//! Tests that a filter in a file changes no other files, and that a failure leaves no new file.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use filterblock::HashSeed;
use filterblock_family::{Error, FileFilter, Membership, Result};

use crate::support::{dir, names};

const VICTIM: &[u8] = b"a file of someone else";

/// Creates a file, link or directory at the first path. A link to a file leads to the second path.
type Put = fn(&Path, &Path);

fn create(path: &Path) -> Result<FileFilter> {
    FileFilter::create(path, 1_000, 0.01, HashSeed(7))
}

/// Tests files, links and directories under the names that a temporary file might have.
#[test]
fn a_file_beside_a_filter_is_left_alone() {
    let things: [(&str, Put); 5] = [
        ("a file", |place, _| fs::write(place, VICTIM).unwrap()),
        ("a link", |place, victim| symlink(victim, place).unwrap()),
        ("a hard link", |place, victim| fs::hard_link(victim, place).unwrap()),
        ("a link to nowhere", |place, _| symlink("nowhere", place).unwrap()),
        ("a directory", |place, _| fs::create_dir(place).unwrap()),
    ];
    for name in ["filter.new", "filter.tmp", ".filter.tmp", "filter~"] {
        for (what, put) in things {
            let (dir, path) = dir();
            let (place, victim) = (dir.path().join(name), dir.path().join("victim"));
            fs::write(&victim, VICTIM).unwrap();
            put(&place, &victim);
            let before = place.symlink_metadata().unwrap();
            let mut filter = create(&path).unwrap();
            filter.insert(b"a").unwrap();
            let copy = filter.copy(dir.path().join("copy")).unwrap();
            filter.intersect_with(&copy).unwrap();
            filter.clear().unwrap();
            filter.close().unwrap();
            drop(copy);
            let after = place.symlink_metadata().unwrap();
            assert!((before.ino(), before.len()) == (after.ino(), after.len()), "{name}: {what}");
            assert_eq!(fs::read(&victim).unwrap(), VICTIM, "{name}: {what}");
            let mut expected = vec!["copy", "copy.lock", "filter", "filter.lock", "victim", name];
            expected.sort_unstable();
            assert_eq!(names(dir.path()), expected, "{name}: {what}");
        }
    }
}

#[test]
fn a_lock_file_that_is_a_link_is_refused() {
    let (dir, path) = dir();
    let lock = path.with_extension("lock");
    drop(create(&path).unwrap());
    let victim = dir.path().join("victim");
    fs::write(&victim, VICTIM).unwrap();
    for target in [&victim, &dir.path().join("nowhere"), dir.path()] {
        fs::remove_file(&lock).unwrap();
        symlink(target, &lock).unwrap();
        let error = FileFilter::open(&path).unwrap_err();
        assert!(error.to_string().contains("filter.lock"), "{error}");
        assert!(lock.is_symlink() && fs::read(&victim).unwrap() == VICTIM);
        assert!(!dir.path().join("nowhere").exists());
    }
}

#[test]
fn a_failed_creation_leaves_nothing() {
    let (dir, path) = dir();
    fs::write(&path, VICTIM).unwrap();
    assert!(create(&path).is_err());
    assert_eq!(names(dir.path()), ["filter"]);
    // A failed open leaves no new file either.
    assert!(FileFilter::open(&path).is_err() && FileFilter::open_read_only(&path).is_err());
    assert_eq!((names(dir.path()), fs::read(&path).unwrap()), (vec!["filter".to_owned()], VICTIM.to_vec()));
    // Some of these names are too long for a lock file, and the last one for any file.
    for len in [240, 248, 252, 255, 256] {
        let long = dir.path().join("x".repeat(len));
        if let Ok(filter) = create(&long) {
            drop(filter);
            fs::remove_file(&long).unwrap();
            fs::remove_file(dir.path().join(format!("{}.lock", "x".repeat(len)))).unwrap();
        }
        assert_eq!(names(dir.path()), ["filter"], "a name of {len} bytes leaves files");
    }
    // A lock file that existed before stays.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.with_extension("lock"), b"").unwrap();
    assert!(create(&path).is_err());
    assert_eq!(names(dir.path()), ["filter", "filter.lock"]);
}

#[test]
fn a_replacement_keeps_mode_and_owner() {
    let (_dir, path) = dir();
    drop(create(&path).unwrap());
    let mode_of_new_files = fs::metadata(path.with_extension("lock")).unwrap().mode();
    assert_eq!(
        fs::metadata(&path).unwrap().mode(),
        mode_of_new_files,
        "a new filter must have the mode of any new file"
    );
    for mode in [0o600, 0o640, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        // Ignore an error: without the permission to change the owner, the owner stays.
        let _ = std::os::unix::fs::chown(&path, Some(12_345), Some(54_321));
        let before = fs::metadata(&path).unwrap();
        FileFilter::open(&path).unwrap().clear().unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_ne!(after.ino(), before.ino());
        assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    }
}

const PLACE: &str = "FILTERBLOCK_TEST_PLACE";
/// The exit code of the shell if it could not mount a file system.
const NO_ENVIRONMENT: i32 = 77;

/// Runs [`a_child_without_space_leaves_no_new_file`] in another process, under the command
/// `wrapper`. The environment variable `FILTERBLOCK_TEST_PLACE` passes `dir` to the process.
fn run_without_space(wrapper: &[&str], dir: &Path) -> std::process::Output {
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).arg(std::env::current_exe().unwrap());
    // The test harness names the test without the name of the program.
    let (_, test) = concat!(module_path!(), "::a_child_without_space_leaves_no_new_file").split_once("::").unwrap();
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(PLACE, dir);
    command.output().unwrap()
}

/// A file may have at most 32 KiB here, so the write of a longer file fails.
#[test]
fn a_limit_on_files_leaves_no_part_of_a_new_file() {
    let (dir, _) = dir();
    let output = run_without_space(&["sh", "-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "sh"], dir.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("tried"), "{said}");
}

/// Mounts a file system of 64 KiB that only the child sees. If the process may not mount one, the
/// test prints that it is skipped.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_no_part_of_a_new_file() {
    let (dir, _) = dir();
    let place = dir.path().to_str().unwrap();
    let script = format!("mount -t tmpfs -o size=64k tmpfs {place} || exit {NO_ENVIRONMENT}; exec \"$@\"");
    let mut why = String::new();
    for unshare in [&["unshare", "-m"][..], &["unshare", "-r", "-m"]] {
        let output = run_without_space(&[unshare, &["sh", "-c", &script, "sh"]].concat(), dir.path());
        why = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return assert!(why.contains("tried"), "{why}");
        }
        // Exit code 1 is a failure of unshare itself.
        assert!([Some(NO_ENVIRONMENT), Some(1)].contains(&output.status.code()), "{why}");
    }
    eprintln!("skipped, because no file system can be mounted: {why}");
}

#[test]
fn a_child_without_space_leaves_no_new_file() {
    let Some(dir) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let path = dir.join("filter");
    // This filter has about 120 KiB.
    let big = |name: &str| FileFilter::create(dir.join(name), 100_000, 0.01, HashSeed(7));
    for _ in 0..3 {
        assert!(matches!(big("big").unwrap_err().root(), Error::Io(_)));
        assert!(names(&dir).is_empty(), "{:?}", names(&dir));
    }
    // This filter and its replacement have about 25 KiB each.
    let mut filter = FileFilter::create(&path, 20_000, 0.01, HashSeed(7)).unwrap();
    filter.insert(b"a").unwrap();
    filter.sync().unwrap();
    fs::write(dir.join("ballast"), vec![1; 28 << 10]).unwrap();
    let before = names(&dir);
    assert!(filter.may_contain(b"a"));
    let cleared = filter.clear();
    assert!(big("big").is_err());
    assert_eq!(names(&dir), before);
    // A limit on file sizes permits this replacement. A full disk refuses it, and the filter stays
    // unchanged.
    assert_eq!(filter.may_contain(b"a"), cleared.is_err());
    filter.insert(b"b").unwrap();
    filter.close().unwrap();
    let found = FileFilter::open(&path).unwrap();
    assert!(found.may_contain(b"b") && found.may_contain(b"a") == cleared.is_err());
    eprintln!("tried; the replacement: {cleared:?}");
}
