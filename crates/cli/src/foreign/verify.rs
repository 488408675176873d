//! Runs the checks of `verify` on a file of another engine. They go beyond the checks at open.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::file::{Content, Foreign, filter_of, table_message, unknown_form};
use super::own;
use crate::prelude::*;
use charts::text::quoted_path;
use filterblock_foreign::{KeyForm, Verified};
use filterblock_parquet::ParquetFile;

/// The result of a check that found no damage.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Walked {
    /// A table. Every block that was read has a valid checksum, unless the table has no checksums.
    Table { blocks: u64, keys: u64, denied_keys: u64 },
    /// A Parquet file. The headers of all filters are valid.
    Filters { filters: u64 },
    /// A file of `FileFilter`. Every page has a valid checksum.
    FileFilter { keys: Option<u64> },
    /// A bare filter, which has no checksums to verify.
    Raw {},
}

impl Walked {
    /// Returns the number of keys of a table that its own filters deny. Returns 0 for other files.
    pub fn denied_keys(&self) -> u64 {
        if let Self::Table { denied_keys, .. } = self { *denied_keys } else { 0 }
    }
}

impl fmt::Display for Walked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Table { blocks, keys, denied_keys } => {
                let (blocks, keys) = (count(blocks, "block"), count(keys, "key"));
                let so = if denied_keys > 0 { ", so reads may miss these keys" } else { "" };
                write!(f, "{blocks}, {keys}, {} denied by a filter of the table{so}", thousands(denied_keys))
            }
            Self::Filters { filters } => {
                write!(f, "the headers of {} are valid; Parquet has no checksums for filters", count(filters, "filter"))
            }
            Self::FileFilter { .. } => f.write_str("the checksums of all pages are valid"),
            Self::Raw {} => f.write_str("a bare filter has no checksums, so its bits were not verified"),
        }
    }
}

/// Checks a whole file. The inner error describes damage and names its file. The outer error means
/// that the check could not finish.
pub fn walk(path: &Path, file: &Foreign, key_form: Option<KeyForm>) -> Outcome<Result<Walked, String>> {
    let of_table =
        |found: Verified| Walked::Table { blocks: found.blocks, keys: found.keys, denied_keys: found.denied_keys };
    let walked = match file {
        Foreign::Sst(sst) => {
            return Ok(sst.verify(path)?.map(|check| Walked::Table {
                blocks: check.data_blocks,
                keys: check.entries,
                denied_keys: check.filter_false_negatives,
            }));
        }
        Foreign::FileFilter(filter) => {
            let keys = filter.len().ok();
            let damage = own::damage_of(filter).map(|damage| format!("{}: {damage}", path.display()));
            return Ok(damage.map_or(Ok(Walked::FileFilter { keys }), Err));
        }
        Foreign::LevelDb(table) => table.verify().map(of_table),
        Foreign::RocksDb(table) => table.verify().map(of_table),
        Foreign::Parquet(file) => return walk_parquet(path, file),
        Foreign::Raw(..) => Ok(Walked::Raw {}),
    };
    match walked.map_err(|error| error.in_file(path)) {
        Ok(walked) => Ok(Ok(walked)),
        Err(error) if error.is_damage() => Ok(Err(table_message(&error, key_form))),
        Err(error) => Err(unknown_form(&error, path).unwrap_or_else(|| error.into())),
    }
}

/// Checks all filters of a Parquet file. A contradiction between the footer and a filter is an
/// error and not damage, because it is unknown which of them is wrong.
fn walk_parquet(path: &Path, file: &ParquetFile<Content>) -> Outcome<Result<Walked, String>> {
    let (mut filters, mut without_bits) = (0, 0);
    for chunk in file.column_chunks() {
        match filter_of(path, file, chunk) {
            Ok(filter) => {
                filters += u64::from(filter.is_some());
                without_bits += u64::from(filter.is_some_and(|filter| filter.num_blocks() == 0));
            }
            Err((error, text)) if error.is_damage() && !error.is_contradiction() => return Ok(Err(text)),
            Err((_, text)) => return fail(text),
        }
    }
    if without_bits > 0 {
        note(
            path,
            format!(
                "{} without a set bit, but its row group may have values; engines skip these row groups, and \
             `query` answers \"maybe\"; run filterblock parquet check --values {}",
                count(without_bits, "filter"),
                quoted_path(&path.display().to_string())
            ),
        );
    }
    Ok(Ok(Walked::Filters { filters }))
}
