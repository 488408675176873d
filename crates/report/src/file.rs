//! Collects the report of `inspect` about a file of another engine: the file's properties, and
//! offset, parameters and covered keys of each filter.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use charts::text;
use filterblock::HashIdentity;
use filterblock_foreign::rocksdb::RocksDbFilterLayout;
use filterblock_foreign::{Error, ForeignFilterInfo, leveldb, rocksdb};
use filterblock_parquet::{ParquetBloom, ParquetColumnChunk};

/// The report about a file of another engine.
#[derive(Debug, Default, Serialize)]
pub struct FileReport {
    pub file: String,
    pub kind: &'static str,
    pub file_len_bytes: u64,
    /// The properties of the file. Their names depend on the engine.
    #[serde(serialize_with = "as_object", skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<(&'static str, Value)>,
    /// The number of keys in a LevelDB table, or of entries in a RocksDB table. `None` if the
    /// number is unknown, and for other files.
    pub keys: Option<u64>,
    /// The sums and means over all filters, or `None` without filters.
    pub summary: Option<Summary>,
    pub filters: Vec<FilterReport>,
    /// Remarks for the user.
    pub notes: Vec<String>,
    #[serde(skip)]
    chunks_without: u64,
    /// The sum of all lengths in bytes that [`Self::add`] got.
    #[serde(skip)]
    told_len_bytes: u64,
}

/// The sums and means over all filters of a file.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub filters: u64,
    pub len_bytes: u64,
    pub estimated_keys: Option<f64>,
    pub bits_per_key: Option<f64>,
    pub fill: Option<f64>,
    /// The mean FPR of the filters, weighted by their estimated keys. Filters without a finite
    /// estimate are weighted by their length. If all weights are 0, all filters count the same.
    pub expected_false_positive_rate: f64,
}

/// One filter.
#[derive(Debug, Serialize)]
pub struct FilterReport {
    pub offset: u64,
    pub len_bytes: u64,
    pub kind: &'static str,
    pub probes: Option<u32>,
    pub blocks: Option<u64>,
    pub block_len_bytes: Option<u64>,
    pub columns: Option<f64>,
    pub seed: Option<u32>,
    pub fill: Option<f64>,
    pub estimated_keys: Option<f64>,
    pub bits_per_key: Option<f64>,
    pub expected_false_positive_rate: f64,
    #[serde(flatten)]
    pub holds: Holds,
}

/// The keys that a filter covers.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Holds {
    /// All keys of the table, or of a bare filter.
    Everything {},
    /// The keys of the data blocks whose offsets are in this range.
    DataBlocks { data_blocks_from: u64, data_blocks_below: u64 },
    /// The keys of a partition: all keys above the end of the previous partition, up to this key.
    UpTo { up_to_hex: String },
    /// The values of a column chunk. `num_values` includes nulls.
    Chunk { row_group: usize, column: String, physical_type: Option<String>, num_values: u64 },
}

fn as_object<S: Serializer>(properties: &[(&'static str, Value)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(properties.iter().map(|(name, value)| (name, value)))
}

impl FileReport {
    /// Returns a report without filters.
    pub fn new(file: String, kind: &'static str, file_len_bytes: u64) -> Self {
        Self { file, kind, file_len_bytes, ..Self::default() }
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    /// Adds one filter to the report and returns `true`. If the sum of `len_bytes` over all calls
    /// exceeds the length of the file, adds a note instead and returns `false`. This limits the
    /// report: a damaged file may list any number of filters that are each as long as the file.
    fn add(&mut self, offset: u64, len_bytes: u64, info: impl FnOnce() -> ForeignFilterInfo, holds: Holds) -> bool {
        self.told_len_bytes = self.told_len_bytes.saturating_add(len_bytes);
        if self.told_len_bytes > self.file_len_bytes {
            let filters = text::count(self.filters.len() as u64, "filter");
            self.notes.push(format!(
                "the listed filters and keys together are longer than the file: some overlap or are listed twice, so \
                 the file is probably damaged; the report ends after {filters}"
            ));
            return false;
        }
        self.filters.push(FilterReport::new(offset, &info(), holds));
        true
    }

    /// Adds the properties, the number of keys and the filters of a LevelDB table, with notes.
    pub fn add_leveldb<D: AsRef<[u8]>>(&mut self, table: &leveldb::LevelDbTable<D>) {
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
            // A note below says that no form is possible.
            Err(Error::Invalid { .. }) if table.key_forms().next().is_none() => {}
            Err(Error::Invalid { .. }) => {
                self.note(
                    "cannot count the keys: they are user keys or internal keys, and the table does not say which",
                );
            }
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
            (None, _) => self.note("the table has no filter"),
            (Some(_), false) => self.note("unknown filter policy, so queries do not use the filters"),
            (Some(_), true) if table.key_forms().next().is_none() => {
                self.note(
                    "the filter denies a key of the first data block in every key form, so queries do not use it",
                );
            }
            _ => {}
        }
    }

    /// Adds the properties, the number of entries and the filters of a RocksDB table, with notes.
    pub fn add_rocksdb<D: AsRef<[u8]>>(&mut self, table: &rocksdb::RocksDbTable<D>) {
        let properties = table.properties();
        let layout = match table.filter_layout() {
            RocksDbFilterLayout::None => "none".to_owned(),
            RocksDbFilterLayout::Full => "full".to_owned(),
            RocksDbFilterLayout::Partitioned(partitions) => text::count(partitions, "partition"),
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
            // The report also stores the end key of each partition, so the key's length counts.
            let told = place.len_bytes.saturating_add(place.up_to.map_or(0, |key| key.len() as u64));
            self.add(place.offset, told, || table.filter_info(filter), holds)
        });
        match table.filter_layout() {
            RocksDbFilterLayout::None => self.note("the table has no filter"),
            RocksDbFilterLayout::BlockBased | RocksDbFilterLayout::Unknown(_) => {
                self.note("filterblock does not read filters of this layout or policy, so every key may be present");
            }
            _ if properties.knows_no_entry() => {
                self.note(
                    "the filters hold neither whole keys nor prefixes of a known extractor, so every key may be present",
                );
            }
            _ => {}
        }
    }

    /// Adds the filter of a column chunk. `filter` is `None` if the chunk has none. Returns `false`
    /// if the filters together are longer than the file.
    pub fn add_chunk(&mut self, chunk: &ParquetColumnChunk, filter: Option<&ParquetBloom<'_>>) -> bool {
        let (Some(place), Some(filter)) = (chunk.filter, filter) else {
            self.chunks_without += 1;
            return true;
        };
        let holds = Holds::Chunk {
            row_group: chunk.row_group,
            column: chunk.path.to_string(),
            physical_type: chunk.physical_type.map(|of| format!("{of:?}")),
            num_values: chunk.num_values,
        };
        self.add(place.offset, filter.bits().len() as u64, || filter.info(), holds)
    }

    /// Sets the properties of a Parquet file after its chunks were added. Adds a note if there is
    /// no filter.
    pub fn end_parquet(&mut self, row_groups: usize, column_chunks: usize) {
        self.properties = vec![
            ("row_groups", json!(row_groups)),
            ("column_chunks", json!(column_chunks)),
            ("column_chunks_without_filter", json!(self.chunks_without)),
        ];
        if self.filters.is_empty() {
            let chunks = text::count(column_chunks as u64, "column chunk");
            self.notes.push(format!("{chunks} without a filter"));
        }
    }

    /// Adds the filter of a file that is a bare filter.
    pub fn add_raw(&mut self, info: &ForeignFilterInfo) {
        self.filters.push(FilterReport::new(0, info, Holds::Everything {}));
    }

    /// Sets the summary of all filters that were added.
    pub fn summarise(&mut self) {
        self.summary = Summary::of(&self.filters, self.keys);
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
        // If all bits of a filter are set, the estimate is infinite.
        let finite = |keys: &f64| keys.is_finite();
        let weight = |filter: &FilterReport| filter.estimated_keys.filter(finite).unwrap_or(filter.len_bytes as f64);
        let mean = |of: &dyn Fn(&FilterReport) -> f64, weight: &dyn Fn(&FilterReport) -> f64| {
            let weights = filters.iter().map(weight).sum::<f64>();
            let sum = filters.iter().map(|filter| of(filter) * weight(filter)).sum::<f64>();
            if weights > 0.0 { sum / weights } else { filters.iter().map(of).sum::<f64>() / filters.len() as f64 }
        };
        let has_fill = filters.iter().all(|filter| filter.fill.is_some());
        let known_keys = keys.map(|keys| keys as f64).or(estimated_keys.filter(finite)).filter(|&keys| keys > 0.0);
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
            expected_false_positive_rate: info.expected_fpr,
            holds,
        }
    }
}
