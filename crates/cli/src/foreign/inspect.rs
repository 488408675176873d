//! Makes the report of `inspect` about a file of another engine, and formats it as text.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::file::{Content, FileArguments, Foreign, RawFormat, filter_of};
use super::own;
use crate::prelude::*;
use crate::what_if::{Engine, Present, WhatIf};
use filterblock_foreign::{leveldb, rocksdb};
use filterblock_parquet as parquet;
use filterblock_report::{FileReport, FilterReport, Holds};

/// The maximum number of filters that are all shown. If there are more, only the first
/// [`SHOWN_OF_MANY`] and the last [`SHOWN_OF_MANY`] filters are shown.
const SHOWN_MAX: usize = 12;
const SHOWN_OF_MANY: usize = 5;

/// The report about a file of another engine, and the comparison of --what-if.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    found: FileReport,
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

    pub fn tell_notes(&self) {
        self.found.notes.iter().for_each(|text| message(format_args!("{}: {text}", self.found.file)));
    }

    pub fn describe(&self) -> String {
        let found = &self.found;
        let mut out = format!("{}: {}, {}\n\n", found.file, found.kind, count(found.file_len_bytes, "byte"));
        let mut line = |name: &str, value: &str| out += &format!("{:<30}{value}\n", name.replace('_', " "));
        for (name, value) in &found.properties {
            let shown = match value {
                Value::String(value) if value.is_empty() => continue,
                Value::Null => continue,
                Value::String(value) => printable(value),
                Value::Number(value) => value.as_u64().map_or_else(|| value.to_string(), thousands),
                other => other.to_string(),
            };
            line(name, &shown);
        }
        if let Some(keys) = found.keys {
            line("keys", &thousands(keys));
        }
        if let Some(summary) = &found.summary {
            let or_unknown = |number: Option<f64>| number.map_or_else(|| "unknown".to_owned(), significant);
            line("filters", &format!("{}, {}", thousands(summary.filters), count(summary.len_bytes, "byte")));
            line("estimated keys", &or_unknown(summary.estimated_keys));
            line("bits per key", &or_unknown(summary.bits_per_key));
            if let Some(fill) = summary.fill {
                line("fill ratio", &percent(fill));
            }
            line("expected FPR", &percent(summary.expected_false_positive_rate));
        }
        let filters = &found.filters;
        if filters.len() > SHOWN_MAX {
            let hidden = count((filters.len() - 2 * SHOWN_OF_MANY) as u64, "filter");
            let ends = filters.iter().take(SHOWN_OF_MANY).chain(filters.iter().skip(filters.len() - SHOWN_OF_MANY));
            out += &format!("\n{}\n{hidden} in the middle not shown; --json shows all\n", table(ends));
        } else if !filters.is_empty() {
            out += &format!("\n{}\n", table(filters.iter()));
        }
        out + &self.what_if.as_ref().map_or_else(String::new, |what_if| format!("\n{what_if}"))
    }
}

fn table<'a>(filters: impl Iterator<Item = &'a FilterReport>) -> impl std::fmt::Display {
    let dash = || "-".to_owned();
    let row = |filter: &FilterReport| {
        let probes = match (filter.probes, filter.columns) {
            (Some(probes), _) => probes.to_string(),
            (None, Some(columns)) => format!("{} columns", significant(columns)),
            (None, None) => dash(),
        };
        [
            filter.offset.to_string(),
            filter.len_bytes.to_string(),
            filter.kind.to_owned(),
            probes,
            filter.seed.map_or_else(dash, |seed| seed.to_string()),
            filter.fill.map_or_else(dash, percent),
            filter.estimated_keys.map_or_else(dash, significant),
            percent(filter.expected_false_positive_rate),
            described(&filter.holds),
        ]
    };
    let header =
        ["offset", "bytes", "kind", "probes", "seed", "fill ratio", "estimated keys", "expected FPR", "covers"];
    output::table(header, filters.map(row), ..2, &[4, 5, 3])
}

fn described(holds: &Holds) -> String {
    match holds {
        Holds::Everything {} => "all keys".to_owned(),
        Holds::DataBlocks { data_blocks_from: from, data_blocks_below: below } => {
            format!("data blocks that begin at offsets {from} to {}", below.saturating_sub(1))
        }
        Holds::UpTo { up_to_hex } => {
            let mut key = Vec::new();
            let is_text =
                text::unhex(up_to_hex.as_bytes(), &mut key).is_ok() && key.iter().all(|byte| byte.is_ascii_graphic());
            match is_text {
                true => format!("keys up to {}", String::from_utf8_lossy(&key)),
                false => format!("keys up to 0x{up_to_hex}"),
            }
        }
        Holds::Chunk { row_group, column, .. } => format!("row group {row_group}, {}", printable(column)),
    }
}
