//! Reads and writes the CSV, which has a row for each measurement.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The name of the filter.
    pub filter: String,
    /// The crate of the filter.
    #[serde(rename = "crate")]
    pub krate: String,
    /// The version of the crate.
    pub version: String,
    /// Number of keys in a filter; the mean if `filters_asked` is more than 1.
    pub n: usize,
    /// Number of filters. If there are many, each query asks a random one.
    pub filters_asked: usize,
    /// "hash": queries get ready hashes. "key": queries hash keys of 16 bytes.
    pub key_form: String,
    /// "negative", "positive" or "mixed".
    pub mix: String,
    /// "single", "batch" or "chain".
    pub mode: String,
    /// CPU time of a query in ns, of the fastest pass.
    pub ns_min: f64,
    /// CPU time of a query in ns, of the median pass.
    pub ns_median: f64,
    /// Number of passes that were timed.
    pub passes: usize,
    /// Number of queries in a pass.
    pub queries: usize,
    /// Bits per key of the whole filter.
    pub bits_per_key: Option<f64>,
    /// Bits per key without the trailer, whose size does not depend on the number of keys.
    pub bits_per_key_bare: Option<f64>,
    /// The share of absent keys answered "maybe".
    pub rate: Option<f64>,
    /// The lower end of the 99 % interval of `rate`.
    pub rate_low: Option<f64>,
    /// The upper end of the 99 % interval of `rate`.
    pub rate_high: Option<f64>,
    /// `bits_per_key / log2(1 / rate) - 1`: the share above the FPR lower bound.
    pub overhead: Option<f64>,
    /// `bits_per_key_bare / log2(1 / rate) - 1`.
    pub overhead_bare: Option<f64>,
    /// CPU time of building, in ns per key, of the fastest build.
    pub build_ns: Option<f64>,
    /// CPU time of building, in ns per key, of the median build.
    pub build_ns_median: Option<f64>,
    /// "hash" or "key": the form of the keys that the builder got.
    pub build_form: String,
}

/// Writes rows to a CSV, or drops them if there is none.
pub struct Recorder {
    out: Option<csv::Writer<BufWriter<File>>>,
}

impl Recorder {
    /// Begins a file with a comment. Without a path, rows are dropped.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn create(path: Option<&Path>, comment: &str) -> Result<Self, String> {
        let Some(path) = path else { return Ok(Self { out: None }) };
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = BufWriter::new(File::create(path).map_err(failed)?);
        writeln!(file, "# {comment}").map_err(failed)?;
        Ok(Self { out: Some(csv::Writer::from_writer(file)) })
    }

    /// Continues a file that has a comment and rows.
    ///
    /// # Errors
    /// Returns the error of the operating system, and refuses a file without rows of measurements.
    pub fn append(path: &Path) -> Result<Self, String> {
        read::<Row>(path)?;
        let file = File::options().append(true).open(path);
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        let writer = csv::WriterBuilder::new().has_headers(false).from_writer(BufWriter::new(file));
        Ok(Self { out: Some(writer) })
    }

    /// Writes one row.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn write(&mut self, row: &impl Serialize) -> Result<(), String> {
        let Some(out) = &mut self.out else { return Ok(()) };
        out.serialize(row).map_err(|error| error.to_string())
    }

    /// Writes buffered rows to the file.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn flush(&mut self) -> Result<(), String> {
        self.out.as_mut().map_or(Ok(()), |out| out.flush().map_err(|error| error.to_string()))
    }
}

/// Reads the comment and the rows of a file.
///
/// # Errors
/// Returns the error of the operating system, or names the line that is no measurement.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<(String, Vec<R>), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let comment = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or("").to_owned();
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let rows = reader.deserialize().collect::<Result<_, _>>().map_err(|error| failed(&error))?;
    Ok((comment, rows))
}
