//! Reads and writes a CSV whose first line is a comment about the machine.
//!
//! `benches/stores` uses this file too, so it depends on no other one.

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
    /// Creates or replaces the CSV at `path`, with only a comment in it. If `path` is `None`, rows
    /// are dropped.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn create(path: Option<&Path>, comment: &str) -> Result<Self, String> {
        let Some(path) = path else { return Ok(Self { out: None }) };
        let failed = |error: std::io::Error| cannot_write(path, &error);
        let mut file = BufWriter::new(File::create(path).map_err(failed)?);
        writeln!(file, "# {comment}").map_err(failed)?;
        Ok(Self { out: Some((path.to_path_buf(), csv::Writer::from_writer(file))) })
    }

    /// Continues a file that has rows of the type `R`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or opened, has no rows, or has a row of another
    /// type.
    pub fn append<R: DeserializeOwned>(path: &Path) -> Result<Self, String> {
        // The header row is checked only when a row is parsed, so a file without rows is an error.
        if read::<R>(path)?.1.is_empty() {
            return Err(format!("{}: no measurements to continue; omit --append", path.display()));
        }
        let file = File::options().append(true).open(path);
        let file = file.map_err(|error| cannot_write(path, &error))?;
        let writer = csv::WriterBuilder::new().has_headers(false).from_writer(BufWriter::new(file));
        Ok(Self { out: Some((path.to_path_buf(), writer)) })
    }

    /// Writes one row. The row may stay in a buffer until [`Self::flush`].
    ///
    /// # Errors
    /// Returns an error if the row cannot be written.
    pub fn write(&mut self, row: &impl Serialize) -> Result<(), String> {
        let Some((path, out)) = &mut self.out else { return Ok(()) };
        out.serialize(row).map_err(|error| cannot_write(path, &error))
    }

    /// Writes buffered rows to the file.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn flush(&mut self) -> Result<(), String> {
        let Some((path, out)) = &mut self.out else { return Ok(()) };
        out.flush().map_err(|error| cannot_write(path, &error))
    }
}

fn cannot_write(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: cannot write the CSV: {error}; free disk space, or choose another --out", path.display())
}

/// Reads the comment and the rows of a file. The comment is empty if the file has none.
///
/// # Errors
/// Returns an error if the file cannot be read, or if a line is not a row of the type `R`.
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
