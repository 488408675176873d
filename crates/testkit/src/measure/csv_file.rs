//! Reads and writes a CSV whose first line is a comment about the machine.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes rows to a CSV, or drops the rows if it has no file.
pub struct Recorder {
    out: Option<(PathBuf, csv::Writer<BufWriter<File>>)>,
}

impl Recorder {
    /// Prints `machine`, and a warning if the build is not optimised. Creates or replaces the CSV at
    /// `path`, with only the comment `machine`. If `append` is true, continues a file that has rows
    /// of the type `R`. If `path` is `None`, rows are dropped.
    pub fn open<R: DeserializeOwned>(path: Option<&Path>, append: bool, machine: &str) -> Result<Self, String> {
        if cfg!(debug_assertions) {
            eprintln!("warning: this build is not optimised, so times mean nothing; use cargo run --release");
        }
        eprintln!("{machine}");
        let Some(path) = path else { return Ok(Self { out: None }) };
        // The header row is checked only when a row is parsed, so a file without rows is an error.
        if append && read::<R>(path)?.1.is_empty() {
            return Err(format!("{}: no measurements to continue; omit --append", path.display()));
        }
        let failed = |error: std::io::Error| cannot_write(path, &error);
        let mut options = File::options();
        let file = if append { options.append(true) } else { options.write(true).create(true).truncate(true) };
        let mut file = BufWriter::new(file.open(path).map_err(failed)?);
        if !append {
            writeln!(file, "# {machine}").map_err(failed)?;
        }
        let writer = csv::WriterBuilder::new().has_headers(!append).from_writer(file);
        Ok(Self { out: Some((path.to_path_buf(), writer)) })
    }

    /// Writes one row. The row may stay in a buffer until [`Self::flush`].
    pub fn write(&mut self, row: &impl Serialize) -> Result<(), String> {
        let Some((path, out)) = &mut self.out else { return Ok(()) };
        out.serialize(row).map_err(|error| cannot_write(path, &error))
    }

    pub fn flush(&mut self) -> Result<(), String> {
        let Some((path, out)) = &mut self.out else { return Ok(()) };
        out.flush().map_err(|error| cannot_write(path, &error))
    }
}

fn cannot_write(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: cannot write the CSV: {error}; free disk space, or choose another --out", path.display())
}

/// Reads the comment and the rows of a file. The comment is empty if the file has none.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<(String, Vec<R>), String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("{}: cannot read the CSV: {error}; check the path, or measure again with --out", path.display())
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let comment = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or("").to_owned();
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let rows = reader.deserialize().collect::<Result<_, _>>().map_err(|error| failed(&error))?;
    Ok((comment, rows))
}
