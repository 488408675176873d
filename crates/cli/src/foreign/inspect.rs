//! Makes the report of `inspect` about a file of another engine.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::super::failure::{Failure, Outcome};
use super::super::output::message;
use super::super::text;
use super::super::what_if::{Engine, Present, WhatIf};
use super::content::Content;
use super::file::{FileArguments, Foreign, RawFormat, filter_of};
use super::own;
use filterblock_foreign::{leveldb, rocksdb};
use filterblock_parquet as parquet;
use filterblock_report::{FileReport, FilterReport};

/// The report about a file of another engine, and the comparison of --what-if.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(flatten)]
    pub(super) found: FileReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<WhatIf>,
}

/// Makes the report about a file. For a Parquet file, `arguments` select the column chunks.
///
/// # Errors
/// Returns an error if a Parquet filter is damaged or of an unknown kind, or if a selected column
/// or row group does not exist.
pub fn report(path: &Path, file: &Foreign, arguments: &FileArguments) -> Outcome<Report> {
    let mut found = FileReport::new(path.display().to_string(), file.kind(), file.len_bytes());
    let in_file = |error: parquet::Error| error.in_file(path);
    match file {
        Foreign::Sst(sst) => sst.describe(&mut found),
        Foreign::FileFilter(filter) => own::describe_file_filter(filter, &mut found),
        Foreign::LevelDb(table) => {
            found.add_leveldb(table);
            if table.key_forms().count() > 1 {
                found.notes.push("to count the keys, give --key-form user or --key-form internal".to_owned());
            }
        }
        Foreign::RocksDb(table) => found.add_rocksdb(table),
        Foreign::Parquet(file) => add_parquet(&mut found, path, file, arguments)?,
        Foreign::Raw(format, bytes) => found.add_raw(&match format {
            RawFormat::LeveldbBloom => leveldb::LevelDbBloom::new(bytes.as_ref()).info(),
            RawFormat::RocksdbFilter => rocksdb::RocksDbFilter::new(bytes.as_ref()).info(),
            RawFormat::ParquetSbbf => parquet::ParquetBloom::parse(bytes.as_ref()).map_err(in_file)?.info(),
        }),
    }
    found.notes.extend(file.unusable_filters());
    found.summarise();
    Ok(Report { found, what_if: None })
}

fn add_parquet(
    found: &mut FileReport,
    path: &Path,
    file: &parquet::ParquetFile<Content>,
    arguments: &FileArguments,
) -> Outcome<()> {
    let chunks = arguments.chunks(path, file)?;
    for chunk in &chunks {
        let filter = filter_of(path, file, chunk).map_err(|(_, text)| Failure::Message(text))?;
        if !found.add_chunk(chunk, filter.as_ref()) {
            break;
        }
    }
    found.end_parquet(file.num_row_groups(), chunks.len());
    Ok(())
}

impl From<FileReport> for Report {
    fn from(found: FileReport) -> Self {
        Self { found, what_if: None }
    }
}

impl Report {
    /// Returns the filters in the order in which the file lists them.
    pub fn filters(&self) -> &[FilterReport] {
        &self.found.filters
    }

    /// Returns the present filters for the comparison of --what-if. Returns `None` if the number of
    /// keys is unknown.
    pub fn present(&self) -> Option<Present> {
        let summary = self.found.summary.as_ref();
        let keys = self.keys_in_filters().or_else(|| summary?.estimated_keys.map(text::whole))?;
        Some(Present {
            kind: self.found.filters.first().map_or("none", |filter| filter.kind).to_owned(),
            engine: Engine::of(self.found.kind),
            keys,
            // All filters of an SST become one filter block. In a Parquet file, each filter becomes
            // a block of its own.
            blocks: if self.found.kind == "parquet-file" { self.found.filters.len() as u64 } else { 1 },
            filters: self.keys_by_filter(keys),
            len_bytes: summary.map_or(0, |summary| summary.len_bytes),
            expected_fpr: summary.map(|summary| summary.expected_false_positive_rate),
        })
    }

    /// Returns the number of keys of each filter. The numbers are the estimates from the filters,
    /// scaled so that their sum is about `keys`. If the sum of the estimates is unknown, 0 or
    /// infinite, the numbers are equal shares of `keys`. Without filters, returns `keys` alone.
    fn keys_by_filter(&self, keys: u64) -> Vec<u64> {
        let estimated: Option<f64> = self.found.filters.iter().map(|filter| filter.estimated_keys).sum();
        let scale = estimated.filter(|&all| all.is_normal()).map(|all| keys as f64 / all);
        let share = 1.0 / self.found.filters.len().max(1) as f64;
        let of = |filter: &FilterReport| match (scale, filter.estimated_keys) {
            (Some(scale), Some(found)) => text::whole(found * scale),
            _ => text::whole(keys as f64 * share),
        };
        if self.found.filters.is_empty() { vec![keys] } else { self.found.filters.iter().map(of).collect() }
    }

    /// Returns the number of entries that the filters of a table hold. If the table does not record
    /// it, returns the number of keys in the table. Returns `None` if neither is known, or if the
    /// filters hold prefixes only and their number is not recorded.
    fn keys_in_filters(&self) -> Option<u64> {
        let named =
            |wanted: &str| self.found.properties.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        match named("filter_entries").and_then(Value::as_u64) {
            Some(entries) if entries > 0 => Some(entries),
            // The filters hold prefixes only, and the file does not record their number.
            Some(_) if named("whole_key_filtering") == Some(&json!(false)) => None,
            _ => self.found.keys,
        }
    }

    /// Prints the notes on stderr.
    pub fn tell_notes(&self) {
        for note in &self.found.notes {
            message(format_args!("{}: {note}", self.found.file));
        }
    }
}
