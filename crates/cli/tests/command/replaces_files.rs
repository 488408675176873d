//! Tests of output files, and of `--force`.
#![cfg(target_os = "linux")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::shell::{Run, Shell};
use rustix::fs::{XattrFlags, getxattr, setxattr};

const ACL: &str = "system.posix_acl_access";

fn shell() -> Shell {
    let shell = Shell::new();
    shell.write("keys", "apple\npear\nplum\n");
    shell.run(&["build", "-o", "a.filter", "keys"]).exits(0);
    shell
}

fn rebuild(shell: &Shell, out: &str) -> Run {
    shell.run(&["build", "--force", "-o", out, "--seed", "7", "keys"])
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn is_root() -> bool {
    rustix::process_is_root()
}

mod rustix {
    pub use ::rustix::fs;

    pub fn process_is_root() -> bool {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata("/proc/self").unwrap().uid() == 0
    }
}

#[test]
fn replaced_files_keep_their_mode() {
    let shell = shell();
    for wanted in [0o600, 0o640, 0o444, 0o666] {
        fs::set_permissions(shell.path("a.filter"), Permissions::from_mode(wanted)).unwrap();
        rebuild(&shell, "a.filter").exits(0);
        assert_eq!(mode(&shell.path("a.filter")), wanted);
    }
    for writer in
        [&["merge", "--force", "-o", "b.filter", "a.filter"][..], &["export", "--force", "-o", "b.filter", "a.filter"]]
    {
        shell.write("b.filter", "old");
        fs::set_permissions(shell.path("b.filter"), Permissions::from_mode(0o600)).unwrap();
        shell.run(writer).exits(0);
        assert_eq!(mode(&shell.path("b.filter")), 0o600);
    }
}

#[test]
fn new_files_follow_the_umask() {
    let shell = shell();
    for (umask, wanted) in [("077", 0o600), ("022", 0o644), ("002", 0o664)] {
        let script = format!("umask {umask}; exec \"$0\" build -o f{umask} keys");
        let mut build = Command::new("sh");
        build.args(["-c", &script, env!("CARGO_BIN_EXE_filterblock")]).current_dir(shell.dir.path());
        assert!(build.status().unwrap().success());
        assert_eq!(mode(&shell.path(&format!("f{umask}"))), wanted);
    }
}

#[test]
fn replaced_files_keep_their_owner() {
    if !is_root() {
        return;
    }
    let shell = shell();
    chown(shell.path("a.filter"), Some(1234), Some(4321)).unwrap();
    fs::set_permissions(shell.path("a.filter"), Permissions::from_mode(0o640)).unwrap();
    rebuild(&shell, "a.filter").exits(0);
    let found = fs::metadata(shell.path("a.filter")).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1234, 4321, 0o640));
    // A user who cannot set the owner of the new file cannot replace the old file.
    fs::set_permissions(shell.dir.path(), Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(shell.path("a.filter"), Permissions::from_mode(0o644)).unwrap();
    let before = fs::read(shell.path("a.filter")).unwrap();
    let build = ["build", "--force", "-o", "a.filter", "--seed", "9", "keys"];
    let Some(run) = run_as_other(&shell, &build) else { return };
    run.fails_with(&["a.filter", "owner", "1234"]);
    assert_eq!(fs::read(shell.path("a.filter")).unwrap(), before);
    let found = fs::metadata(shell.path("a.filter")).unwrap();
    assert_eq!((found.uid(), found.gid()), (1234, 4321));
    assert_eq!(shell.files(), ["a.filter", "keys"]);
}

#[test]
fn replaced_files_keep_their_access_list() {
    let shell = shell();
    let path = shell.path("a.filter");
    // user::rw-, user:1234:rw-, group::---, mask::rw-, other::---
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 6, 1234), (4, 0, u32::MAX), (0x10, 6, u32::MAX), (0x20, 0, u32::MAX)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    if setxattr(&path, ACL, &list, XattrFlags::empty()).is_err() {
        eprintln!("skipped: the file system has no access lists");
        return;
    }
    rebuild(&shell, "a.filter").exits(0);
    let mut found = [0; 256];
    let len = getxattr(&path, ACL, &mut found[..]).unwrap();
    assert_eq!(found[..len], list);
    // The default access list of a directory applies to new files only.
    fs::remove_file(&path).unwrap();
    shell.run(&["build", "-o", "a.filter", "keys"]).exits(0);
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    setxattr(shell.dir.path(), "system.posix_acl_default", &list, XattrFlags::empty()).unwrap();
    rebuild(&shell, "a.filter").exits(0);
    assert_eq!(mode(&path), 0o640);
    assert!(getxattr(&path, ACL, &mut found[..]).is_err(), "a file without a list got one");
}

#[test]
fn files_with_several_names_are_not_replaced() {
    let shell = shell();
    fs::hard_link(shell.path("a.filter"), shell.path("b.filter")).unwrap();
    let before = fs::read(shell.path("a.filter")).unwrap();
    symlink("b.filter", shell.path("link")).unwrap();
    for out in ["a.filter", "b.filter", "link"] {
        rebuild(&shell, out).fails_with(&[out, "hard link", "copy"]);
    }
    shell.run(&["export", "--force", "-o", "b.filter", "a.filter"]).fails_with(&["hard link"]);
    shell.run(&["merge", "--force", "-o", "b.filter", "a.filter"]).fails_with(&["hard link"]);
    assert_eq!(fs::read(shell.path("a.filter")).unwrap(), before);
    assert_eq!(fs::metadata(shell.path("a.filter")).unwrap().nlink(), 2);
}

#[test]
fn files_with_the_longest_names_can_be_written() {
    let shell = shell();
    for name in ["n".repeat(255), "\u{e4}".repeat(127), "n".repeat(241)] {
        shell.run(&["build", "-o", &name, "keys"]).exits(0);
        rebuild(&shell, &name).exits(0);
        let report = shell.run(&["inspect", &name, "--json"]).json(0);
        assert_eq!(report["hash_seed"], 7, "{name}");
    }
    shell.run(&["build", "-o", &"n".repeat(256), "keys"]).fails_with(&["name too long"]);
    assert_eq!(shell.files().len(), 5);
}

#[test]
fn an_empty_filter_replaces_nothing_by_default() {
    let shell = shell();
    let before = fs::read(shell.path("a.filter")).unwrap();
    for input in ["", "\n\n"] {
        let refused = shell.run_with(&["build", "--force", "-o", "a.filter"], input.as_bytes());
        refused.fails_with(&["a.filter", "no key", "--allow-empty"]);
        assert_eq!(fs::read(shell.path("a.filter")).unwrap(), before);
    }
    let new = shell.run_with(&["build", "--force", "-o", "b.filter", "-"], b"");
    assert!(new.status == 0 && new.stderr.contains("0 keys read"), "{new:?}");
    shell.run_with(&["build", "--force", "--allow-empty", "-o", "a.filter"], b"").exits(0);
    shell.run(&["query", "a.filter", "apple"]).exits(1);
    assert_eq!(shell.files(), ["a.filter", "b.filter", "keys"]);
}

#[test]
fn a_merge_without_keys_replaces_nothing_by_default() {
    let shell = shell();
    let before = fs::read(shell.path("a.filter")).unwrap();
    shell.run_with(&["build", "-o", "empty"], b"").exits(0);
    let merge = ["merge", "--force", "-o", "a.filter", "empty", "empty"];
    shell.run(&merge).fails_with(&["a.filter", "all blocks are empty", "--allow-empty"]);
    assert_eq!(fs::read(shell.path("a.filter")).unwrap(), before);
    let new = shell.run(&["merge", "--force", "-o", "new", "empty", "empty"]);
    assert!(new.status == 0 && new.stderr.contains("the filter is empty"), "{new:?}");
    shell.run(&[&merge[..], &["--allow-empty"]].concat()).exits(0);
    shell.run(&["query", "a.filter", "apple"]).exits(1);
}

/// Runs the command as another user. That user may be unable to reach the executable, so the
/// function runs a copy. Returns `None` if `setpriv` is not installed.
fn run_as_other(shell: &Shell, arguments: &[&str]) -> Option<Run> {
    let exe = shell.path("filterblock");
    // If this process wrote the copy, a child that another test starts could hold it open, and Linux refuses to
    // run a file that is open for writing.
    let mut copy = Command::new("cp");
    assert!(copy.arg(env!("CARGO_BIN_EXE_filterblock")).arg(&exe).status().unwrap().success());
    let mut other = Command::new("setpriv");
    other.args(["--reuid=999", "--regid=999", "--clear-groups", "--"]).arg(&exe).args(arguments);
    let output = other.current_dir(shell.dir.path()).stdin(Stdio::null()).output().ok()?;
    fs::remove_file(exe).unwrap();
    Some(Run::new(output))
}

#[test]
fn a_directory_that_cannot_be_synced_gets_no_file() {
    if !is_root() {
        eprintln!("skipped: only root can act as another user");
        return;
    }
    let shell = shell();
    fs::set_permissions(shell.dir.path(), Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(shell.path("blind")).unwrap();
    fs::set_permissions(shell.path("blind"), Permissions::from_mode(0o333)).unwrap();
    let Some(run) = run_as_other(&shell, &["build", "-o", "blind/out", "keys"]) else { return };
    run.fails_with(&["blind", "Permission denied"]);
    assert!(!shell.path("blind/out").exists(), "the command returned an error but wrote the file");
}

#[test]
fn a_link_that_the_kernel_refuses_is_not_followed() {
    let shell = shell();
    let before = fs::read(shell.path("a.filter")).unwrap();
    symlink("a.filter", shell.path("planted")).unwrap();
    symlink("new", shell.path("dangling")).unwrap();
    for link in ["planted", "dangling"] {
        // The kernel gives EACCES for protected symbolic links in a directory such as /tmp.
        let mut strace = Command::new("strace");
        strace.args(["-f", "-o", "trace", "-P", link, "-e", "trace=statx", "-e", "inject=statx:error=EACCES"]);
        strace.arg(env!("CARGO_BIN_EXE_filterblock")).args(["build", "--force", "-o", link, "--seed", "7", "keys"]);
        let Ok(output) = strace.current_dir(shell.dir.path()).stdin(Stdio::null()).output() else {
            eprintln!("skipped: strace is not installed");
            return;
        };
        Run::new(output).fails_with(&[link, "Permission denied"]);
    }
    assert_eq!(fs::read(shell.path("a.filter")).unwrap(), before);
    assert!(!shell.path("new").exists());
}

#[test]
fn a_benchmark_and_a_plan_replace_files_only_with_force() {
    let shell = shell();
    let bench = ["bench", "point-miss", "--count", "100", "--lookups", "100", "--rounds", "1", "--dir", "."];
    let bench = [&bench[..], &["--filter", "bloom:10", "--layout", "compacted"]].concat();
    let plan = ["plan", "--keys", "1000", "--fpr", "0.01", "--svg", "."];
    shell.write("old", "precious");
    shell.write("plan-exponent.svg", "precious");
    for flag in ["--json", "--svg"] {
        shell.run(&[&bench[..], &[flag, "old"]].concat()).fails_with(&["old", "--force"]);
    }
    shell.run(&plan).fails_with(&["plan-exponent.svg", "--force"]);
    assert_eq!(shell.files(), ["a.filter", "keys", "old", "plan-exponent.svg"]);
    for name in ["old", "plan-exponent.svg"] {
        assert_eq!(fs::read_to_string(shell.path(name)).unwrap(), "precious");
    }
    shell.run(&[&bench[..], &["--svg", "old", "--force"]].concat()).exits(0);
    shell.run(&[&plan[..], &["--force"]].concat()).exits(0);
    for name in ["old", "plan-exponent.svg"] {
        assert!(fs::read_to_string(shell.path(name)).unwrap().contains("<svg"));
    }
    for name in ["both", "./both"] {
        shell.run(&[&bench[..], &["--json", "both", "--svg", name]].concat()).fails_with(&["both", "--json", "--svg"]);
    }
    assert!(!shell.path("both").exists());
}

#[test]
fn a_stream_is_not_replaced() {
    let shell = shell();
    for stream in ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/1"] {
        rebuild(&shell, stream).fails_with(&[stream, "open stream"]);
    }
}

#[test]
fn an_input_file_is_not_replaced() {
    let shell = shell();
    let secret = "00112233445566778899aabbccddeeff\n";
    shell.write("secret", secret);
    symlink("keys", shell.path("link")).unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["build", "--force", "-o", "keys", "keys"], "keys"),
        (&["build", "--force", "-o", "link", "keys"], "link"),
        (&["build", "--force", "-o", "secret", "--secret-file", "secret", "keys"], "secret"),
        (&["export", "--force", "-o", "a.filter", "a.filter"], "a.filter"),
        (&["bench", "point-miss", "--keys", "keys", "--force", "--json", "keys"], "keys"),
    ];
    for (arguments, name) in cases {
        shell.run(arguments).fails_with(&[name, "also an input"]);
    }
    assert_eq!(fs::read_to_string(shell.path("keys")).unwrap(), "apple\npear\nplum\n");
    assert_eq!(fs::read_to_string(shell.path("secret")).unwrap(), secret);
    // The output of a merge may be one of its inputs, so a merge can add keys to a filter.
    shell.run(&["merge", "--force", "-o", "a.filter", "a.filter"]).exits(0);
}
