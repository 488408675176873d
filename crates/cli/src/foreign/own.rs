//! Opens, describes and checks the files of filterblock other than filter blocks: SST files, and
//! files of `FileFilter`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use crate::prelude::*;
use crate::secret::SecretArguments;
use charts::text::hex;
use filterblock::{FilterKind, ParsedBlock, Verify};
use filterblock_family::{FileFilter, Membership};
use filterblock_report::{FileReport, FilterReport, Holds};
use filterblock_store::Error;
use filterblock_store::sstable::{Table, TableCheck, TableReadOptions};
use filterblock_store::storage::Disk;

pub struct Sst {
    pub table: Arc<Table>,
    /// The path at which the file is opened.
    place: PathBuf,
}

/// Returns the text about an error of the file `path`, which is open at another place if it is a
/// pipe.
fn in_file(path: &Path, error: &impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

impl Sst {
    /// Opens the file. The inner error describes damage.
    pub fn open(path: &Path, place: PathBuf) -> Outcome<Result<Self, String>> {
        match Table::open(&Disk, &place, TableReadOptions::default()) {
            Ok(table) => Ok(Ok(Self { table: Arc::new(table), place })),
            Err(error) if error.is_damage() => Ok(Err(in_file(path, error.root()))),
            Err(error) => fail(in_file(path, error.root())),
        }
    }

    /// Reads the filter block. Returns `None` if the file has none.
    fn block(&self) -> filterblock::Result<Option<ParsedBlock<Vec<u8>>>> {
        let len_bytes = self.table.filter_len_bytes();
        if len_bytes == 0 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let mut file = File::open(&self.place)?;
        file.seek(SeekFrom::Start(self.table.filter_offset()))?;
        file.take(len_bytes).read_to_end(&mut bytes)?;
        ParsedBlock::open(bytes, Verify::AtOpen).map(Some)
    }

    /// Opens the filter with a secret, if its keys were hashed with one.
    pub fn unlock(&mut self, path: &Path, secret: &SecretArguments) -> Outcome<()> {
        let Some(block) = self.block().ok().flatten().filter(|block| block.metadata().hash.fingerprint.is_some())
        else {
            return secret.refuse(path);
        };
        let unlocked = block.bind_any(secret.read()?.as_ref()).map_err(|error| secret.explain(error.in_file(path)))?;
        let options = TableReadOptions { hasher: Some(unlocked.hasher().clone()), ..TableReadOptions::default() };
        let table = Table::open(&Disk, &self.place, options);
        self.table = Arc::new(table.map_err(|error| Failure::Message(in_file(path, error.root())))?);
        Ok(())
    }

    /// Returns whether the file may hold a key: the key lies in the key range of the file, and the
    /// filter does not deny it.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        let range = self.table.smallest()..=self.table.largest();
        let filter = self.table.filter().ready();
        let denies = filter.is_some_and(|filter| !filter.may_contain(filter.hasher().key(key)));
        self.table.properties().num_entries > 0 && range.contains(&key) && !denies
    }

    pub fn may_contain_prefix(&self, prefix: &[u8]) -> bool {
        self.table.filter().ready().is_none_or(|filter| {
            let extractor = filter.metadata().extractor;
            extractor.is_none_or(|extractor| filter.may_contain_prefix(extractor, filter.hasher().key(prefix)))
        })
    }

    /// Adds the properties and the filter of the file to a report.
    pub fn describe(&self, found: &mut FileReport) {
        let properties = self.table.properties();
        let key = |key: &[u8]| match std::str::from_utf8(key) {
            Ok(text) => json!(text),
            Err(_) => json!(format!("0x{}", hex(key))),
        };
        found.properties = vec![
            ("tombstones", json!(properties.num_tombstones)),
            ("data_blocks", json!(properties.num_data_blocks)),
            ("smallest_key", key(&properties.smallest)),
            ("largest_key", key(&properties.largest)),
            ("compression", json!(format!("{:?}", properties.compression).to_lowercase())),
            ("created_by", json!(properties.created_by)),
            ("level", json!(properties.origin.map(|origin| origin.level))),
            ("filter", json!(properties.filter)),
            ("range_filter", json!(properties.range_filter)),
            ("prefix_extractor", json!(properties.prefix_extractor)),
        ];
        found.keys = Some(properties.num_entries);
        match self.block() {
            Ok(Some(block)) => {
                let (info, statistics) = (block.metadata(), block.statistics());
                let is_ribbon = matches!(info.kind, FilterKind::Ribbon | FilterKind::BumpedRibbon);
                found.properties.extend([
                    ("hash", json!(info.hash.kind.to_string())),
                    ("hash_seed", json!(info.hash.seed.0)),
                    ("secret_fingerprint", json!(info.hash.fingerprint.map(|fingerprint| fingerprint.to_string()))),
                ]);
                found.filters.push(FilterReport {
                    probes: (!is_ribbon).then_some(info.probes),
                    columns: is_ribbon.then(|| f64::from(info.probes)),
                    fill: Some(statistics.fill_ratio),
                    estimated_keys: Some(info.num_keys as f64),
                    bits_per_key: (info.num_keys > 0).then(|| info.bits_per_key()),
                    ..plain(self.table.filter_offset(), info.block_len_bytes, info.kind.name(), block.expected_fpr())
                });
            }
            Ok(None) => found.notes.push("the SST file has no filter".to_owned()),
            Err(error) => found.notes.push(format!("the filter cannot be used: {error}")),
        }
    }

    /// Checks the whole file. The inner error describes damage.
    pub fn verify(&self, path: &Path) -> Outcome<Result<TableCheck, String>> {
        let check = self.table.verify().map_err(|error: Error| Failure::Message(in_file(path, error.root())))?;
        let damage: Vec<String> = check.damage.iter().map(|error| in_file(path, error.root())).collect();
        Ok(if damage.is_empty() { Ok(check) } else { Err(damage.join("\n")) })
    }
}

/// Opens a file of `FileFilter`. The inner error describes damage.
pub fn open_file_filter(path: &Path, place: &Path) -> Outcome<Result<FileFilter, String>> {
    match FileFilter::open_read_only(place) {
        Ok(filter) => Ok(Ok(filter)),
        Err(error) if error.is_damage() => Ok(Err(in_file(path, error.root()))),
        Err(error) => fail(in_file(path, error.root())),
    }
}

/// Returns the damage that the open of a file of `FileFilter` found.
pub fn damage_of(filter: &FileFilter) -> Option<String> {
    let pages @ 1.. = filter.damaged_pages() else { return None };
    Some(format!(
        "damaged: {} with a wrong checksum; all bits of these pages count as set, so no key is denied, but more absent \
         keys pass; build the filter again",
        count(pages, "page")
    ))
}

/// Adds the properties of a file of `FileFilter` to a report.
pub fn describe_file_filter(filter: &FileFilter, found: &mut FileReport) {
    found.properties = vec![
        ("capacity", json!(filter.capacity())),
        ("wanted_false_positive_rate", json!(filter.false_positive_rate())),
        ("damaged_pages", json!(filter.damaged_pages())),
        ("hash_seed", json!(filter.seed().0)),
    ];
    found.keys = filter.len().ok();
    found.notes.extend(damage_of(filter));
    found.filters.push(FilterReport {
        probes: Some(filter.num_probes()),
        fill: Some(filter.count_ones() as f64 / filter.num_bits() as f64),
        estimated_keys: Some(filter.estimated_keys()),
        ..plain(0, found.file_len_bytes, FilterKind::Bloom.name(), filter.expected_fpr())
    });
}

/// Returns the report about a filter that holds all keys.
fn plain(offset: u64, len_bytes: u64, kind: &'static str, expected_false_positive_rate: f64) -> FilterReport {
    FilterReport {
        offset,
        len_bytes,
        kind,
        probes: None,
        blocks: None,
        block_len_bytes: None,
        columns: None,
        seed: None,
        fill: None,
        estimated_keys: None,
        bits_per_key: None,
        expected_false_positive_rate,
        holds: Holds::Everything {},
    }
}
