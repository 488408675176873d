//! The CSV: one row a measurement.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Which filter.
    pub filter: String,
    /// Of which crate.
    #[serde(rename = "crate")]
    pub krate: String,
    /// The crate's version.
    pub version: String,
    /// Keys of a filter; about, where `filters_asked` is not 1.
    pub n: usize,
    /// Filters that are asked in turn.
    pub filters_asked: usize,
    /// "hash": given a ready hash. "key": given 16 bytes, the hash counted.
    pub key_form: String,
    /// "negative", "positive" or "mixed".
    pub mix: String,
    /// "single", "batch" or "chain".
    pub mode: String,
    /// CPU time of a query, the fastest pass.
    pub ns_min: f64,
    /// CPU time of a query, the median pass.
    pub ns_median: f64,
    /// Passes that were timed.
    pub passes: usize,
    /// Queries of a pass.
    pub queries: usize,
    /// Bits stored per key, everything counted.
    pub bits_per_key: Option<f64>,
    /// The same without the trailer, which has one size whatever the number of keys.
    pub bits_per_key_bare: Option<f64>,
    /// The share of absent keys answered "maybe".
    pub rate: Option<f64>,
    /// The lower end of its 99 % interval.
    pub rate_low: Option<f64>,
    /// The upper end.
    pub rate_high: Option<f64>,
    /// `bits_per_key` over the bound, `log2(1 / rate)`, less 1.
    pub overhead: Option<f64>,
    /// `bits_per_key_bare` over the bound, less 1.
    pub overhead_bare: Option<f64>,
    /// CPU time of building, per key, the fastest filter.
    pub build_ns: Option<f64>,
    /// The median filter.
    pub build_ns_median: Option<f64>,
    /// "hash" or "key": what it was built from.
    pub build_form: String,
}

/// Writes rows as they come.
pub struct Recorder {
    out: Option<csv::Writer<BufWriter<File>>>,
}

impl Recorder {
    /// Begins a file with a comment; without a path, rows go nowhere.
    ///
    /// # Errors
    /// What the operating system says.
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
    /// What the operating system says.
    pub fn write(&mut self, row: &impl Serialize) -> Result<(), String> {
        let Some(out) = &mut self.out else { return Ok(()) };
        out.serialize(row).map_err(|error| error.to_string())
    }

    /// Brings to the file what was written so far.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn flush(&mut self) -> Result<(), String> {
        self.out.as_mut().map_or(Ok(()), |out| out.flush().map_err(|error| error.to_string()))
    }
}

/// Reads a file: its comment, and its rows.
///
/// # Errors
/// What the operating system says, or where the file is none of ours.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<(String, Vec<R>), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let comment = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or("").to_owned();
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let rows = reader.deserialize().collect::<Result<_, _>>().map_err(|error| failed(&error))?;
    Ok((comment, rows))
}
