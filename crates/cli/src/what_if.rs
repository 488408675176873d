//! `inspect --what-if`: compares the present filters of a file with other filters of its engine,
//! and with filter blocks of about the same false-positive rate (FPR).

use std::fmt;

use serde::Serialize;

use crate::prelude::*;
use filterblock::{FilterOptions, FilterSpec, HashSeed, ParsedBlock, Verify};
use filterblock_foreign::leveldb::{LevelDbBloom, LevelDbBloomBuilder};
use filterblock_foreign::rocksdb::{RocksDbFilter, RocksDbFilterBuilder, RocksDbFilterKind, RocksDbFilterOptions};
use filterblock_parquet::{ParquetBloom, ParquetBloomBuilder};
use filterblock_report::PLANNED_KINDS;

/// The maximum number of keys in a filter that is built, except for Parquet. For more keys, a
/// filter of this number of keys is built, and its size is scaled up: the bits per key hardly
/// change from here on.
const BUILT_KEYS_MAX: u64 = 1 << 18;

/// The FPR for files without a filter.
const DEFAULT_RATE: f64 = 0.01;

/// The filters that a file has now.
#[derive(Clone)]
pub struct Present {
    pub kind: String,
    /// The engine that could write other filters; `None` for filter blocks and bare filters.
    pub engine: Option<Engine>,
    pub keys: u64,
    /// The number of filter blocks that would replace the filters.
    pub blocks: u64,
    /// The number of keys of each filter. Not used without an engine.
    pub filters: Vec<u64>,
    pub len_bytes: u64,
    /// The expected FPR of the filters. `None` if the file has no filter.
    pub expected_fpr: Option<f64>,
}

/// The comparison of `--what-if`.
#[derive(Serialize)]
pub struct WhatIf {
    keys: u64,
    /// The FPR of the present filters, or 1 % without filters. Filter blocks are requested with
    /// this FPR rounded down to three significant digits.
    false_positive_rate: f64,
    filters: Vec<Choice>,
}

#[derive(Serialize)]
struct Choice {
    /// The present kind, a setting of the file's engine, or a specification for `build` and
    /// `convert`.
    filter: String,
    is_present: bool,
    len_bytes: u64,
    bits_per_key: f64,
    expected_false_positive_rate: f64,
    /// The length divided by that of the present filters. `None` if the file has no filter.
    share_of_present_len: Option<f64>,
}

impl WhatIf {
    /// Compares the present filters with other filters of the engine and with filter blocks of each
    /// kind that can reach the present FPR. Builds the other filters and the blocks from integers,
    /// because a size depends mostly on the number of keys. Returns `None` if there are no keys, or
    /// if the present FPR is not between 0 and 1.
    ///
    /// # Errors
    /// Returns an error if a filter cannot be built.
    pub fn new(present: &Present) -> Outcome<Option<Self>> {
        let rate = present.expected_fpr.unwrap_or(DEFAULT_RATE);
        if present.keys == 0 || !(rate > 0.0 && rate < 1.0) {
            return Ok(None);
        }
        let choice = |filter, is_present, len_bytes: u64, expected_false_positive_rate| Choice {
            filter,
            is_present,
            len_bytes,
            bits_per_key: len_bytes as f64 * 8.0 / present.keys as f64,
            expected_false_positive_rate,
            share_of_present_len: present.expected_fpr.map(|_| len_bytes as f64 / present.len_bytes as f64),
        };
        let mut filters = Vec::new();
        if present.expected_fpr.is_some() {
            filters.push(choice(present.kind.clone(), true, present.len_bytes, rate));
        }
        for found in present.engine.map_or(Ok(Vec::new()), |engine| engine.deployable(&present.filters))? {
            filters.push(choice(found.setting, false, found.len_bytes, found.expected_fpr));
        }
        // The requested FPR is rounded down, so that most filter blocks do not exceed the present
        // FPR.
        for kind in PLANNED_KINDS {
            // A kind that cannot reach the FPR has no row.
            let Ok(spec) = FilterSpec::false_positive_rate(kind, rounded_down(rate)) else { continue };
            let (len_bytes, expected_fpr) = size(spec, present.keys, present.blocks.max(1))?;
            filters.push(choice(spec.to_string(), false, len_bytes, expected_fpr));
        }
        Ok(Some(Self { keys: present.keys, false_positive_rate: rate, filters }))
    }
}

fn rounded_down(rate: f64) -> f64 {
    let exponent = rate.log10().floor();
    let digits = (rate / 10_f64.powf(exponent - 2.0)).floor();
    let text = format!("{digits}e{}", exponent - 2.0);
    text.parse().ok().filter(|&rounded: &f64| rounded > 0.0 && rounded <= rate).unwrap_or(rate)
}

/// Returns the total size in bytes and the expected FPR of `blocks` filter blocks. Each block holds
/// an equal share of `keys` keys.
fn size(spec: FilterSpec, keys: u64, blocks: u64) -> Outcome<(u64, f64)> {
    let of_block = keys.div_ceil(blocks);
    let built = of_block.min(BUILT_KEYS_MAX);
    let mut builder = FilterOptions::new(spec).self_check(false).builder(HashSeed(0))?;
    for number in 0..built {
        builder.add(builder.hasher().key(&number.to_le_bytes()));
    }
    let block = ParsedBlock::open(builder.finish()?.bytes, Verify::AtOpen)?;
    let scale = of_block as f64 / built as f64 * blocks as f64;
    let len_bytes = text::whole(block.metadata().block_len_bytes as f64 * scale);
    Ok((len_bytes, block.expected_fpr()))
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |choice: &Choice| {
            let current = if choice.is_present { " (current)" } else { "" };
            [
                format!("{}{current}", choice.filter),
                thousands(choice.len_bytes),
                significant(choice.bits_per_key),
                percent(choice.expected_false_positive_rate),
                choice.share_of_present_len.map_or_else(|| "-".to_owned(), percent),
            ]
        };
        let header = ["filter", "bytes", "bits per key", "expected FPR", "of current size"];
        let table = output::table(header, self.filters.iter().map(row), 1.., &[]);
        let (keys, rate) = (count(self.keys, "key"), percent(self.false_positive_rate));
        let estimates = match self.filters.iter().any(|choice| choice.is_present) {
            true => "all sizes except the current one are estimates",
            false => "the file has no known filter, and all sizes are estimates",
        };
        writeln!(f, "{keys}; filter blocks for an FPR of {rate}, with checksums; {estimates}:\n\n{table}")
    }
}

/// The engine of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    LevelDb,
    RocksDb,
    Parquet,
}

/// The bits per key that are shown for filters of LevelDB and RocksDB.
const BITS_PER_KEY: [u32; 5] = [6, 8, 10, 12, 16];
/// The false-positive probabilities that are shown for filters of Parquet files.
const PARQUET_FPP: [f64; 4] = [0.1, 0.05, 0.01, 0.001];

/// A filter that an engine could write.
pub struct Deployable {
    /// The setting, as a user of the engine writes it.
    pub setting: String,
    pub len_bytes: u64,
    pub expected_fpr: f64,
}

impl Engine {
    /// Returns the engine of a table or of a Parquet file. Returns `None` for other types of files.
    pub fn of(kind: &str) -> Option<Self> {
        match kind {
            "leveldb-table" => Some(Self::LevelDb),
            "rocksdb-table" => Some(Self::RocksDb),
            "parquet-file" => Some(Self::Parquet),
            _ => None,
        }
    }

    /// Returns some filters that the engine can write. `keys` has the number of keys of each
    /// filter.
    ///
    /// # Errors
    /// Returns an error if a filter cannot be built.
    pub fn deployable(self, keys: &[u64]) -> Outcome<Vec<Deployable>> {
        let shares = Share::of(keys);
        let sum = |of: &dyn Fn(Share) -> Outcome<Deployable>| {
            Ok(Deployable::sum(shares.iter().map(|&share| Ok((share, of(share)?))).collect::<Outcome<Vec<_>>>()?))
        };
        match self {
            Self::LevelDb => BITS_PER_KEY.iter().map(|&bits| sum(&|share| Ok(share.leveldb(bits)))).collect(),
            Self::RocksDb => {
                let kinds = [RocksDbFilterKind::FastLocalBloom, RocksDbFilterKind::Ribbon128];
                let all = kinds.into_iter().flat_map(|kind| BITS_PER_KEY.map(|bits| (kind, bits)));
                all.map(|(kind, bits)| sum(&|share| Ok(share.rocksdb(kind, bits)))).collect()
            }
            Self::Parquet => PARQUET_FPP.iter().map(|&fpp| sum(&|share| share.parquet(fpp))).collect(),
        }
    }
}

impl Deployable {
    /// Returns the total length of all filters, and their mean FPR, weighted by keys.
    fn sum(parts: Vec<(Share, Self)>) -> Self {
        let mut all = Self { setting: String::new(), len_bytes: 0, expected_fpr: 0.0 };
        let mut keys = 0.0;
        for (share, part) in parts {
            let part_keys = (share.keys * share.filters) as f64;
            all.expected_fpr += part.expected_fpr * part_keys;
            keys += part_keys;
            all.len_bytes += part.len_bytes;
            all.setting = part.setting;
        }
        all.expected_fpr /= f64::max(keys, 1.0);
        all
    }
}

/// The minimum number of filters for which all filters count as equally large, so that only one is
/// built.
const MANY_FILTERS: usize = 64;

/// The number of keys of a filter, and the number of filters of this size.
#[derive(Clone, Copy)]
struct Share {
    keys: u64,
    filters: u64,
}

impl Share {
    fn of(keys: &[u64]) -> Vec<Self> {
        if keys.len() < MANY_FILTERS {
            return keys.iter().map(|&keys| Self { keys, filters: 1 }).collect();
        }
        let filters = keys.len() as u64;
        vec![Self { keys: keys.iter().sum::<u64>().div_ceil(filters), filters }]
    }

    /// Returns the total length of all filters. `len_bytes` is the length of a filter that was
    /// built for `built` keys.
    fn len_of_all(self, len_bytes: u64, built: u64) -> u64 {
        let scale = self.keys as f64 / built.max(1) as f64 * self.filters as f64;
        text::whole(len_bytes as f64 * scale)
    }

    /// Returns the number of keys of the filter that is built.
    fn built(self) -> u64 {
        self.keys.min(BUILT_KEYS_MAX)
    }

    fn leveldb(self, bits: u32) -> Deployable {
        let mut builder = LevelDbBloomBuilder::new(bits);
        (0..self.built()).for_each(|number| builder.add(&number.to_le_bytes()));
        let bytes = builder.finish();
        let info = LevelDbBloom::new(&bytes).info();
        Deployable {
            setting: format!("leveldb NewBloomFilterPolicy({bits})"),
            len_bytes: self.len_of_all(info.len_bytes, self.built()),
            expected_fpr: info.expected_fpr,
        }
    }

    fn rocksdb(self, kind: RocksDbFilterKind, bits: u32) -> Deployable {
        let options = RocksDbFilterOptions { kind, bits_per_key: bits.into(), ..RocksDbFilterOptions::default() };
        let mut builder = RocksDbFilterBuilder::new(options);
        (0..self.built()).for_each(|number| builder.add(&number.to_le_bytes()));
        let bytes = builder.finish();
        let info = RocksDbFilter::new(&bytes).info();
        let policy =
            if kind == RocksDbFilterKind::Ribbon128 { "NewRibbonFilterPolicy" } else { "NewBloomFilterPolicy" };
        Deployable {
            setting: format!("rocksdb {policy}({bits})"),
            len_bytes: self.len_of_all(info.len_bytes, self.built()),
            expected_fpr: info.expected_fpr,
        }
    }

    /// Returns the expected FPR of one filter, and the total length of all filters. Builds one
    /// filter. For very many values, builds a smaller filter with about as many values per block as
    /// the full filter, and scales its length up.
    fn parquet(self, fpp: f64) -> Outcome<Deployable> {
        let num_blocks = ParquetBloomBuilder::for_values(self.keys, fpp)?.num_blocks() as u64;
        let shrunk = (self.keys / BUILT_KEYS_MAX.max(1)).max(1).next_power_of_two().min(num_blocks);
        let mut builder = ParquetBloomBuilder::with_blocks(usize::try_from(num_blocks / shrunk).unwrap_or(1))?;
        (0..self.keys / shrunk).for_each(|number| builder.add(&number.to_le_bytes()));
        let bytes = builder.finish();
        let info = ParquetBloom::parse(&bytes)?.info();
        let header = info.len_bytes - info.payload_len_bytes;
        Ok(Deployable {
            setting: format!("parquet fpp={fpp}"),
            len_bytes: (info.payload_len_bytes * shrunk + header) * self.filters,
            expected_fpr: info.expected_fpr,
        })
    }
}
