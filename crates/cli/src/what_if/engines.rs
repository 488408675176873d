//! Computes the filters that a user can choose inside another engine, for `inspect --what-if`.

use filterblock_foreign::leveldb::{LevelDbBloom, LevelDbBloomBuilder};
use filterblock_foreign::rocksdb::{RocksDbFilter, RocksDbFilterBuilder, RocksDbFilterKind, RocksDbFilterOptions};
use filterblock_parquet::{ParquetBloom, ParquetBloomBuilder};

use super::super::failure::Outcome;
use super::BUILT_KEYS_MAX;

/// The engine of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug)]
pub struct Deployable {
    /// The setting, as a user of the engine writes it.
    pub setting: String,
    /// The length in bytes of all filters together.
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
#[derive(Debug, Clone, Copy)]
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
        super::super::text::whole(len_bytes as f64 * scale)
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
