//! The report of `inspect` about a file of another engine: the file's properties, and the place and
//! contents of each filter.

use std::path::Path;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::super::failure::Outcome;
use super::super::output::message;
use super::super::text::{self, thousands};
use super::super::what_if::{Engine, Present, WhatIf};
use super::content::Content;
use super::file::{FileArguments, Foreign, RawFormat};
use filterblock::HashIdentity;
use filterblock::foreign::Error;
use filterblock::foreign::rocksdb::RocksDbFilterLayout;
use filterblock::foreign::{ForeignFilterInfo, leveldb, parquet, rocksdb};

/// The report about a file of another engine.
#[derive(Debug, Serialize)]
pub struct Report {
    pub(super) file: String,
    pub(super) kind: &'static str,
    pub(super) file_len_bytes: u64,
    /// The properties that the file records; they depend on the engine.
    #[serde(serialize_with = "as_object", skip_serializing_if = "Vec::is_empty")]
    pub(super) properties: Vec<(&'static str, Value)>,
    /// The number of keys in the table, or `None` if the file does not record it.
    pub(super) keys: Option<u64>,
    /// All filters together, or `None` without filters.
    pub(super) summary: Option<Summary>,
    pub(super) filters: Vec<FilterReport>,
    /// Remarks for the user.
    pub(super) notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<WhatIf>,
    /// The total length in bytes of the filters reported so far.
    #[serde(skip)]
    told_len_bytes: u64,
}

/// All filters of a file together.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) filters: u64,
    pub(super) len_bytes: u64,
    pub(super) estimated_keys: Option<f64>,
    pub(super) bits_per_key: Option<f64>,
    pub(super) fill: Option<f64>,
    /// The mean FPR of the filters, weighted by their keys.
    pub(super) expected_false_positive_rate: f64,
}

/// One filter.
#[derive(Debug, Serialize)]
pub struct FilterReport {
    pub offset: u64,
    pub len_bytes: u64,
    pub(super) kind: &'static str,
    pub(super) probes: Option<u32>,
    pub(super) blocks: Option<u64>,
    pub(super) block_len_bytes: Option<u64>,
    pub(super) columns: Option<f64>,
    pub(super) seed: Option<u32>,
    pub(super) fill: Option<f64>,
    pub(super) estimated_keys: Option<f64>,
    pub(super) bits_per_key: Option<f64>,
    pub(super) expected_false_positive_rate: f64,
    #[serde(flatten)]
    pub(super) holds: Holds,
}

/// The keys that a filter covers.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Holds {
    /// All keys of the table.
    Everything {},
    /// The keys of the data blocks whose offsets are in this range.
    DataBlocks { data_blocks_from: u64, data_blocks_below: u64 },
    /// The keys of a partition: those up to this key and above the last key of the partition
    /// before.
    UpTo { up_to_hex: String },
    /// The values of a column chunk. `num_values` includes nulls.
    Chunk { row_group: usize, column: String, physical_type: Option<String>, num_values: u64 },
}

fn as_object<S: Serializer>(properties: &[(&'static str, Value)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(properties.iter().map(|(name, value)| (name, value)))
}

/// Makes the report about a file. For a Parquet file, `arguments` select the column chunks.
///
/// # Errors
/// Returns an error if a filter of a Parquet file is damaged. The filters of tables were checked at
/// open.
pub fn report(path: &Path, file: &Foreign, arguments: &FileArguments) -> Outcome<Report> {
    let mut report = Report {
        file: path.display().to_string(),
        kind: file.kind(),
        file_len_bytes: file.as_bytes().len() as u64,
        properties: Vec::new(),
        keys: None,
        summary: None,
        filters: Vec::new(),
        notes: Vec::new(),
        what_if: None,
        told_len_bytes: 0,
    };
    let in_file = |error: Error| error.in_file(path);
    match file {
        Foreign::LevelDb(table) => report.add_leveldb(table),
        Foreign::RocksDb(table) => report.add_rocksdb(table),
        Foreign::Parquet(file) => report.add_parquet(path, file, arguments)?,
        Foreign::Raw(format, bytes) => {
            let info = match format {
                RawFormat::LeveldbBloom => leveldb::LevelDbBloom::new(bytes.as_ref()).info(),
                RawFormat::RocksdbFilter => rocksdb::RocksDbFilter::new(bytes.as_ref()).info(),
                RawFormat::ParquetSbbf => parquet::ParquetBloom::parse(bytes.as_ref()).map_err(in_file)?.info(),
            };
            report.filters.push(FilterReport::new(0, &info, Holds::Everything {}));
        }
    }
    report.notes.extend(file.unusable_filters());
    report.summary = Summary::of(&report.filters, report.keys);
    Ok(report)
}

impl Report {
    /// Adds one filter to the report and returns `true`. If all filters together are longer than
    /// the file, they overlap: then adds a note instead and returns `false`. A damaged file may
    /// list any number of filters that are each as long as the file, and to read them all would
    /// take too long.
    fn add(&mut self, offset: u64, len_bytes: u64, info: impl FnOnce() -> ForeignFilterInfo, holds: Holds) -> bool {
        self.told_len_bytes = self.told_len_bytes.saturating_add(len_bytes);
        if self.told_len_bytes > self.file_len_bytes {
            let len = thousands(self.filters.len() as u64);
            self.notes.push(format!(
                "the filters overlap, or their keys repeat, which no engine writes; only the first {len} are shown"
            ));
            return false;
        }
        self.filters.push(FilterReport::new(offset, &info(), holds));
        true
    }

    fn add_leveldb(&mut self, table: &leveldb::LevelDbTable<Content>) {
        self.properties = vec![
            ("filter_policy", json!(table.policy())),
            ("data_blocks", json!(table.num_data_blocks())),
            ("key_form", json!(table.key_form().map(|form| format!("{form:?}").to_lowercase()))),
        ];
        let mut keys = 0;
        let walked = table.for_each_key(|_| {
            keys += 1;
            Ok(())
        });
        match walked {
            Ok(()) => self.keys = Some(keys),
            Err(error) => self.notes.push(format!("cannot count the keys: {error}")),
        }
        let mut empty = 0;
        for place in table.filters() {
            if place.len_bytes == 0 {
                empty += 1;
                continue;
            }
            let holds = Holds::DataBlocks {
                data_blocks_from: place.data_blocks.start,
                data_blocks_below: place.data_blocks.end,
            };
            if !self.add(place.offset, place.len_bytes, || table.filter_info(&place), holds) {
                break;
            }
        }
        if empty > 0 {
            self.properties.push(("empty_filters", json!(empty)));
        }
        match (table.policy(), table.has_known_filters()) {
            (None, _) => self.notes.push("the table has no filter".to_owned()),
            (Some(_), false) => self.notes.push("unknown filter policy, so every key may be present".to_owned()),
            (Some(_), true) if table.key_forms().next().is_none() => {
                self.notes
                    .push("the filter denies the first keys in every key form, so every key may be present".to_owned());
            }
            _ => {}
        }
    }

    fn add_rocksdb(&mut self, table: &rocksdb::RocksDbTable<Content>) {
        let properties = table.properties();
        let layout = match table.filter_layout() {
            RocksDbFilterLayout::None => "none".to_owned(),
            RocksDbFilterLayout::Full => "full".to_owned(),
            RocksDbFilterLayout::Partitioned(partitions) => format!("{} partitions", thousands(partitions)),
            RocksDbFilterLayout::BlockBased => "one for each data block".to_owned(),
            RocksDbFilterLayout::Unknown(name) => name,
        };
        self.properties = vec![
            ("format_version", json!(table.format_version())),
            ("checksum", json!(format!("{:?}", table.checksum_kind()).to_lowercase())),
            ("comparator", json!(properties.comparator)),
            ("compression", json!(properties.compression)),
            ("index", json!(format!("{:?}", properties.index_kind))),
            ("data_blocks", json!(properties.num_data_blocks)),
            ("filter_policy", json!(properties.filter_policy)),
            ("filter_layout", json!(layout)),
            ("filter_entries", json!(properties.num_filter_entries)),
            ("prefix_extractor", json!(properties.prefix_extractor)),
            ("whole_key_filtering", json!(properties.whole_key_filtering)),
        ];
        self.properties.extend(table.native_hash().into_iter().flat_map(hash_of));
        self.keys = Some(properties.num_entries);
        table.for_each_filter(|place| {
            let Some(filter) = table.filter_bytes(&place) else { return true };
            let holds = match place.up_to {
                None => Holds::Everything {},
                Some(key) => Holds::UpTo { up_to_hex: text::hex(key) },
            };
            // The report also stores the last key of each partition, so its length counts.
            let told = place.len_bytes.saturating_add(place.up_to.map_or(0, |key| key.len() as u64));
            self.add(place.offset, told, || table.filter_info(filter), holds)
        });
        match table.filter_layout() {
            RocksDbFilterLayout::None => self.notes.push("the table has no filter".to_owned()),
            RocksDbFilterLayout::BlockBased | RocksDbFilterLayout::Unknown(_) => {
                self.notes.push("unknown kind of filter, so every key may be present".to_owned());
            }
            _ if properties.knows_no_entry() => {
                let note = "the filters hold prefixes of an unknown extractor, so every key may be present";
                self.notes.push(note.to_owned());
            }
            _ => {}
        }
    }

    fn add_parquet(
        &mut self,
        path: &Path,
        file: &parquet::ParquetFile<Content>,
        arguments: &FileArguments,
    ) -> Outcome<()> {
        let chunks = arguments.chunks(path, file)?;
        let mut without = 0_u64;
        for chunk in &chunks {
            let (Some(place), Some(filter)) = (chunk.filter, file.filter(chunk).map_err(|error| error.in_file(path))?)
            else {
                without += 1;
                continue;
            };
            let holds = Holds::Chunk {
                row_group: chunk.row_group,
                column: chunk.path.clone(),
                physical_type: chunk.physical_type.map(|of| format!("{of:?}")),
                num_values: chunk.num_values,
            };
            if !self.add(place.offset, filter.bits().len() as u64, || filter.info(), holds) {
                break;
            }
        }
        self.properties = vec![
            ("row_groups", json!(file.num_row_groups())),
            ("column_chunks", json!(chunks.len())),
            ("column_chunks_without_filter", json!(without)),
        ];
        if self.filters.is_empty() {
            self.notes.push("no column chunk has a filter".to_owned());
        }
        Ok(())
    }

    /// Returns the filters in the order in which the file lists them.
    pub fn filters(&self) -> &[FilterReport] {
        &self.filters
    }

    /// Returns the present filters for the comparison of --what-if. Returns `None` if the number of
    /// keys is unknown.
    pub fn present(&self) -> Option<Present> {
        let summary = self.summary.as_ref();
        let keys = self.keys_in_filters().or_else(|| summary?.estimated_keys.map(text::whole))?;
        Some(Present {
            kind: self.filters.first().map_or("none", |filter| filter.kind).to_owned(),
            engine: Engine::of(self.kind),
            keys,
            // The partitions of a table make one native block. Each column chunk has a block of its
            // own.
            blocks: if self.kind == "parquet-file" { self.filters.len() as u64 } else { 1 },
            filters: self.keys_by_filter(keys),
            len_bytes: summary.map_or(0, |summary| summary.len_bytes),
            expected_rate: summary.map(|summary| summary.expected_false_positive_rate),
        })
    }

    /// Returns the number of keys of each filter: estimated from the filters, or equal shares of all
    /// keys.
    fn keys_by_filter(&self, keys: u64) -> Vec<u64> {
        let estimated: Option<f64> = self.filters.iter().map(|filter| filter.estimated_keys).sum();
        let scale = estimated.filter(|&all| all.is_normal()).map(|all| keys as f64 / all);
        let share = 1.0 / self.filters.len().max(1) as f64;
        let of = |filter: &FilterReport| match (scale, filter.estimated_keys) {
            (Some(scale), Some(found)) => text::whole(found * scale),
            _ => text::whole(keys as f64 * share),
        };
        if self.filters.is_empty() { vec![keys] } else { self.filters.iter().map(of).collect() }
    }

    /// Returns the number of entries that the filters of a table hold. Without filters, returns the
    /// number of keys in the table. Returns `None` if the number is unknown.
    fn keys_in_filters(&self) -> Option<u64> {
        let named = |wanted: &str| self.properties.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        match named("filter_entries").and_then(Value::as_u64) {
            Some(entries) if entries > 0 => Some(entries),
            // The filters hold prefixes only, and the file does not record their number.
            Some(_) if named("whole_key_filtering") == Some(&json!(false)) => None,
            _ => self.keys,
        }
    }

    /// Prints the notes on stderr.
    pub fn tell_notes(&self) {
        for note in &self.notes {
            message(format_args!("{}: {note}", self.file));
        }
    }
}

/// Returns the properties of the hasher of filterblock's own filters.
fn hash_of(hash: HashIdentity) -> [(&'static str, Value); 3] {
    let fingerprint = hash.fingerprint.map(|fingerprint| fingerprint.to_string());
    [
        ("hash", json!(hash.kind.to_string())),
        ("hash_seed", json!(hash.seed.0)),
        ("secret_fingerprint", json!(fingerprint)),
    ]
}

impl Summary {
    fn of(filters: &[FilterReport], keys: Option<u64>) -> Option<Self> {
        if filters.is_empty() {
            return None;
        }
        let len_bytes = filters.iter().map(|filter| filter.len_bytes).sum::<u64>();
        let estimated_keys = filters.iter().map(|filter| filter.estimated_keys).sum::<Option<f64>>();
        let weight = |filter: &FilterReport| filter.estimated_keys.unwrap_or(filter.len_bytes as f64);
        let mean = |of: &dyn Fn(&FilterReport) -> f64, weight: &dyn Fn(&FilterReport) -> f64| {
            let weights = filters.iter().map(weight).sum::<f64>();
            let sum = filters.iter().map(|filter| of(filter) * weight(filter)).sum::<f64>();
            if weights > 0.0 { sum / weights } else { filters.iter().map(of).sum::<f64>() / filters.len() as f64 }
        };
        let has_fill = filters.iter().all(|filter| filter.fill.is_some());
        let known_keys = keys.map(|keys| keys as f64).or(estimated_keys).filter(|&keys| keys > 0.0);
        Some(Self {
            filters: filters.len() as u64,
            len_bytes,
            estimated_keys,
            bits_per_key: known_keys.map(|keys| len_bytes as f64 * 8.0 / keys),
            fill: has_fill.then(|| mean(&|filter| filter.fill.unwrap_or_default(), &|filter| filter.len_bytes as f64)),
            expected_false_positive_rate: mean(&|filter| filter.expected_false_positive_rate, &weight),
        })
    }
}

impl FilterReport {
    fn new(offset: u64, info: &ForeignFilterInfo, holds: Holds) -> Self {
        let bits = info.len_bytes as f64 * 8.0;
        Self {
            offset,
            len_bytes: info.len_bytes,
            kind: info.kind,
            probes: info.probes,
            blocks: info.blocks,
            block_len_bytes: info.block_len_bytes,
            columns: info.columns,
            seed: info.seed,
            fill: info.fill,
            estimated_keys: info.estimated_keys,
            bits_per_key: info.estimated_keys.filter(|&keys| keys > 0.0).map(|keys| bits / keys),
            expected_false_positive_rate: info.expected_rate,
            holds,
        }
    }
}
