//! Runs C compilers and other tools for the tests.
#![allow(dead_code, reason = "each test program uses a part of this module")]

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that makes a test fail if a tool is missing. `.ci/ffi` sets it.
const REQUIRE_TOOLS: &str = "FILTERBLOCK_REQUIRE_TOOLS";

pub fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder with the shared and the static library that cargo built with this test.
pub fn libraries() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    for name in ["libfilterblock_ffi.so", "libfilterblock_ffi.a"] {
        assert!(folder.join(name).is_file(), "{} has no {name}", folder.display());
    }
    folder
}

/// Returns whether all tools can be run. If a tool is missing, prints that the test is skipped, or
/// panics if [`REQUIRE_TOOLS`] is set. Prints to the stderr of the process, because the test
/// harness captures only the print macros.
pub fn have(test: &str, tools: &[&str]) -> bool {
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
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}\n{errors}", output.status);
    printed.into_owned()
}

/// Runs a command and returns the words of its stdout.
pub fn words(command: &mut Command) -> Vec<String> {
    run(command).split_whitespace().map(str::to_owned).collect()
}

pub fn command<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(crate_folder());
    command
}
