//! Runs the command in a temporary directory.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Returns the command `filterblock`.
pub fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_filterblock"))
}

/// Returns a command that runs `program` with default signal handlers. The parent of the tests may
/// ignore signals: a shell without job control ignores INT and QUIT for background jobs.
pub fn with_default_signals(program: &str) -> Command {
    let mut env = Command::new("env");
    env.args(["--default-signal=HUP,INT,QUIT,TERM,XCPU", program]);
    env
}

/// A temporary directory in which the command runs.
pub struct Shell {
    pub dir: TempDir,
}

impl Shell {
    pub fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, b"")
    }

    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Run {
        let mut child = self.spawn(arguments);
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // The write fails if the command exits before it reads all its input.
        let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        Run::new(output)
    }

    /// Starts the command with pipes as its streams.
    pub fn spawn(&self, arguments: &[&str]) -> Child {
        let mut child = command();
        child.args(arguments).current_dir(self.dir.path()).stdin(Stdio::piped());
        child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Copies the files of a folder. `edit` changes the bytes of those whose names end with `.log`.
    pub fn copy_folder(&self, from: &str, to: &str, edit: impl Fn(&mut Vec<u8>)) {
        fs::create_dir(self.path(to)).unwrap();
        for entry in fs::read_dir(self.path(from)).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = fs::read(&path).unwrap();
            if path.extension().is_some_and(|end| end == "log") {
                edit(&mut bytes);
            }
            fs::write(self.path(to).join(path.file_name().unwrap()), bytes).unwrap();
        }
    }

    /// Returns the path of the longest file of a folder whose name contains `part`.
    pub fn find(&self, folder: &str, part: &str) -> PathBuf {
        let paths = fs::read_dir(self.path(folder)).unwrap().map(|entry| entry.unwrap().path());
        let named = paths.filter(|path| path.file_name().unwrap().to_str().unwrap().contains(part));
        named.max_by_key(|path| path.metadata().unwrap().len()).unwrap()
    }

    /// Returns the sorted names of the files and folders in the directory.
    pub fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    pub status: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Run {
    pub fn new(output: Output) -> Self {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!stderr.contains("panicked"), "{stderr}");
        Self { status: output.status.code().unwrap(), stdout: output.stdout, stderr }
    }

    /// Asserts the exit status and returns stdout.
    #[track_caller]
    pub fn exits(self, status: i32) -> String {
        assert_eq!(self.status, status, "{self:?}");
        String::from_utf8(self.stdout).unwrap()
    }

    #[track_caller]
    pub fn json(self, status: i32) -> Value {
        serde_json::from_str(&self.exits(status)).unwrap()
    }

    /// Asserts exit status 2, an empty stdout, and a message that contains all of `parts`.
    #[track_caller]
    pub fn fails_with(self, parts: &[&str]) {
        assert_eq!(self.status, 2, "{self:?}");
        assert!(self.stdout.is_empty(), "{self:?}");
        assert!(self.stderr.lines().any(|line| line.starts_with("filterblock: ")), "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in {:?}", self.stderr);
        }
    }
}

/// Changes bits of the byte at `offset` of a file.
pub fn flip(path: &Path, offset: usize, bits: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset] ^= bits;
    fs::write(path, bytes).unwrap();
}
