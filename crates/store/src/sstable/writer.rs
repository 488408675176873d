//! Writes an SST file. [`TableWriter::create`] creates a temporary file, [`TableWriter::add`]
//! accepts keys in ascending order, and [`TableWriter::finish`] gives the file its final name.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::data_block::{BlockBuilder, BlockTooLong};
use super::filter::FilterSpecs;
use super::index_block::{IndexBuilder, separator};
use super::layout::{
    Compression, FILTER_ALIGNMENT_BYTES, FOOTER_LEN_BYTES, Footer, Handle, MAX_ITEM_LEN_BYTES, TableId, seal,
};
use super::properties::{Properties, TableOrigin};
use crate::checksum::crc32;
use crate::error::{Error, Result};
use crate::storage::{Storage, WriteFile};
use filterblock::{
    Built, FilterBuilder, FilterOptions, FilterSpec, HashSeed, Key, KeyHasher, PrefixExtractor, WholeKeys,
};

/// The number of bytes that the writer collects before it writes them to the file.
const CHUNK_LEN_BYTES: usize = 256 << 10;

/// The options for writing an SST file.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// The maximum size of a data block before compression, in bytes. A larger entry gets a block
    /// of its own.
    pub block_size_bytes: usize,
    /// The number of entries per restart point in a data block. 0 counts as 1.
    pub restart_interval: usize,
    /// The compression of data blocks.
    pub compression: Compression,
    /// The filter to build, or `None` for a file without a filter of keys.
    pub filter: Option<FilterSpec>,
    /// The range filter to build, such as `grafite:fpr=0.01`, or `None`. It lies beside the filter
    /// of keys, or alone if [`TableOptions::filter`] is `None`. The writer ignores it if
    /// [`TableOptions::filter`] is itself a range filter.
    pub range_filter: Option<FilterSpec>,
    /// The extractor of the prefixes that the filter holds beside the keys. If `None`, the filter
    /// holds only keys. A range filter without another filter holds no prefixes.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// The hasher of the filter's keys.
    pub hasher: KeyHasher,
    /// The identity of the file. No two SST files may have the same identity.
    pub table_id: TableId,
    /// Whether the writer asks the finished filter for every key.
    pub self_check: bool,
    /// The name of the program that writes the file, for readers of its properties.
    pub created_by: String,
    /// The level and the sequence numbers of the file, or `None` if no store writes the file.
    pub origin: Option<TableOrigin>,
    /// The number of the original file if the new file is a copy; see [`Properties::copied_from`].
    pub copied_from: Option<u64>,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            block_size_bytes: 4096,
            restart_interval: 16,
            compression: Compression::None,
            filter: Some(FilterSpec::default()),
            range_filter: None,
            prefix_extractor: None,
            hasher: KeyHasher::xxh3(HashSeed::default()),
            table_id: [0; 16],
            self_check: true,
            created_by: concat!("filterblock ", env!("CARGO_PKG_VERSION")).to_owned(),
            origin: None,
            copied_from: None,
        }
    }
}

/// A summary of the written file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableSummary {
    /// The length of the file in bytes.
    pub len_bytes: u64,
    /// The number of entries, including tombstones.
    pub num_entries: u64,
    /// The number of tombstones.
    pub num_tombstones: u64,
    /// The first key. It is empty if the file has no entries.
    pub smallest: Vec<u8>,
    /// The last key. It is empty if the file has no entries.
    pub largest: Vec<u8>,
    /// Why the file has no filter although the options ask for one.
    pub filter_error: Option<String>,
}

/// Writes an SST file under a temporary name (`NAME.tmp`). An unfinished writer removes that file
/// when it is dropped.
#[derive(Debug)]
pub struct TableWriter<'s> {
    storage: &'s dyn Storage,
    path: PathBuf,
    /// The open file. It is `None` after the file is closed.
    file: Option<Box<dyn WriteFile>>,
    renamed: bool,
    /// The first error that makes the writer unusable. After it the writer writes nothing more,
    /// because the end of the file may be undefined.
    failure: Option<String>,
    options: TableOptions,
    chunk: Vec<u8>,
    /// The number of bytes in the file and in `chunk`.
    len_bytes: u64,
    block: BlockBuilder,
    /// The last key and the handle of the last complete data block, until the index has its entry.
    /// The separator in the entry depends on the first key of the next block.
    pending: Option<(Vec<u8>, Handle)>,
    index: IndexBuilder,
    filter: Option<FilterBuilder>,
    filter_error: Option<String>,
    properties: Properties,
}

impl<'s> TableWriter<'s> {
    /// Creates `NAME.tmp` for a file that will have the name `path`.
    ///
    /// # Errors
    /// Returns an error if `NAME.tmp` exists or cannot be created. Returns
    /// [`filterblock::Error::Invalid`] for invalid filter options, for example if
    /// [`TableOptions::range_filter`] is not a range filter.
    pub fn create(storage: &'s dyn Storage, path: &Path, options: TableOptions) -> Result<Self> {
        let specs = FilterSpecs::of(options.filter, options.range_filter)?;
        let extractor = options.prefix_extractor.as_ref().filter(|_| specs.holds_prefixes());
        let filter = specs.points.map(|spec| {
            let mut filter = FilterOptions::new(spec).table_id(options.table_id).self_check(options.self_check);
            if let Some(extractor) = extractor {
                filter = filter.prefixes(extractor, WholeKeys::Too);
            }
            if let Some(ranges) = specs.ranges {
                filter = filter.ranges(ranges);
            }
            filter.builder(&options.hasher)
        });
        let filter = filter.transpose()?;
        let file = storage.create(&temporary(path))?;
        let properties = Properties {
            filter: specs.points.map(|spec| spec.to_string()).unwrap_or_default(),
            range_filter: specs.ranges.map(|spec| spec.to_string()).unwrap_or_default(),
            compression: options.compression,
            created_by: options.created_by.clone(),
            origin: options.origin,
            copied_from: options.copied_from,
            prefix_extractor: extractor.map(|extractor| extractor.name().to_owned()).unwrap_or_default(),
            ..Properties::default()
        };
        Ok(Self {
            storage,
            path: path.to_path_buf(),
            file: Some(file),
            renamed: false,
            failure: None,
            chunk: Vec::with_capacity(CHUNK_LEN_BYTES + 2 * options.block_size_bytes.min(CHUNK_LEN_BYTES)),
            len_bytes: 0,
            block: BlockBuilder::new(options.restart_interval),
            pending: None,
            index: IndexBuilder::new(),
            filter,
            filter_error: None,
            properties,
            options,
        })
    }

    /// Reserves memory for the hashes of `keys` more keys if the file gets a filter.
    pub fn reserve(&mut self, keys: usize) {
        self.filter.iter_mut().for_each(|filter| filter.reserve(keys));
    }

    /// Adds `key` with its value, or with a tombstone if the value is `None`.
    ///
    /// # Errors
    /// Errors after which the writer stays usable, without this key:
    /// * [`Error::OutOfOrder`] if the key is not greater than the last one.
    /// * [`Error::KeyTooLong`] for a key above 1 GiB.
    /// * [`Error::InvalidArgument`] for a value above 1 GiB.
    ///
    /// Errors after which every further `add` and `finish` fails with [`Error::Poisoned`]:
    /// * [`Error::InvalidArgument`] if a data block or the index block would exceed 4 GiB.
    /// * I/O errors.
    pub fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.add_hashed(self.options.hasher.key(key), value)
    }

    /// Adds a key as [`Self::add`] does. The key must come from [`TableOptions::hasher`].
    pub(crate) fn add_hashed(&mut self, hashed: Key<'_>, value: Option<&[u8]>) -> Result<()> {
        let key = hashed.bytes();
        self.check_usable()?;
        let value_len = value.map_or(0, <[u8]>::len);
        if key.len() > MAX_ITEM_LEN_BYTES {
            return Err(Error::KeyTooLong { len_bytes: key.len(), max_bytes: MAX_ITEM_LEN_BYTES });
        }
        if value_len > MAX_ITEM_LEN_BYTES {
            let reason = format!("it has {value_len} bytes, and the limit is {MAX_ITEM_LEN_BYTES}; split the value");
            return Err(Error::InvalidArgument { what: "value", reason });
        }
        // The last key is in the open block. If the open block is empty, the last key is in the
        // pending block.
        let last_key = match &self.pending {
            Some((last_key, _)) if self.block.is_empty() => last_key,
            _ => self.block.last_key(),
        };
        if self.properties.num_entries > 0 && key <= last_key {
            return Err(Error::OutOfOrder);
        }
        let outcome = self.add_checked(hashed, value);
        self.note(outcome)
    }

    fn add_checked(&mut self, hashed: Key<'_>, value: Option<&[u8]>) -> Result<()> {
        let key = hashed.bytes();
        let value_len = value.map_or(0, <[u8]>::len);
        if !self.block.is_empty() && self.block.len_bytes_with(key.len(), value_len) > self.options.block_size_bytes {
            self.end_block()?;
        }
        if let Some((last_key, handle)) = self.pending.take() {
            self.index.add(separator(&last_key, key), handle)?;
        }
        if self.properties.num_entries == 0 {
            self.properties.smallest = key.to_vec();
        }
        self.block.add(key, value).map_err(|BlockTooLong| Error::InvalidArgument {
            what: "block size",
            reason: "the data block would exceed 4 GiB; use a smaller block size".to_owned(),
        })?;
        if let Some(filter) = &mut self.filter
            && catch_unwind(AssertUnwindSafe(|| filter.add(hashed))).is_err()
        {
            self.give_up_filter("a call that adds a key panicked; correct the extractor's function".to_owned());
        }
        self.properties.num_entries += 1;
        self.properties.num_tombstones += u64::from(value.is_none());
        self.properties.raw_key_bytes += key.len() as u64;
        self.properties.raw_value_bytes += value_len as u64;
        Ok(())
    }

    /// Returns the number of entries added so far, including tombstones.
    #[must_use]
    pub fn num_entries(&self) -> u64 {
        self.properties.num_entries
    }

    /// Returns the length of the data so far in bytes, including the uncompressed length of the
    /// open block.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes + if self.block.is_empty() { 0 } else { self.block.len_bytes() as u64 }
    }

    /// Writes the rest of the file, syncs the file, gives it its final name and syncs the
    /// directory. An existing file of that name is replaced.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. Returns [`Error::Poisoned`] if an earlier error
    /// made the writer unusable. If the filter cannot be built, the file has no filter, and
    /// [`TableSummary::filter_error`] says why. After an error, the final name is unchanged, unless the last step
    /// failed: the sync of the directory after the rename.
    pub fn finish(mut self) -> Result<TableSummary> {
        self.check_usable()?;
        self.write_rest().map_err(|error| error.in_file(&self.path))?;
        let temporary = temporary(&self.path);
        if let Some(mut file) = self.file.take() {
            file.sync()?;
        }
        self.storage.rename(&temporary, &self.path)?;
        self.renamed = true;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.storage.sync_dir(parent.unwrap_or(Path::new(".")))?;
        let properties = std::mem::take(&mut self.properties);
        Ok(TableSummary {
            len_bytes: self.len_bytes,
            num_entries: properties.num_entries,
            num_tombstones: properties.num_tombstones,
            smallest: properties.smallest,
            largest: properties.largest,
            filter_error: self.filter_error.take(),
        })
    }

    /// Goes on without the filter: the data must not be lost for it.
    fn give_up_filter(&mut self, error: String) {
        self.filter = None;
        self.filter_error = Some(error);
        let Properties { filter, range_filter, prefix_extractor, .. } = &mut self.properties;
        [filter, range_filter, prefix_extractor].into_iter().for_each(String::clear);
    }

    /// Builds the filter. A bug of the builder must not become a lost write.
    fn build_filter(&mut self) -> Option<Built> {
        let builder = self.filter.take()?;
        let error = match catch_unwind(AssertUnwindSafe(|| builder.finish())) {
            Ok(Ok(built)) => return Some(built),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the build panicked".to_owned(),
        };
        self.give_up_filter(error);
        None
    }

    fn write_rest(&mut self) -> Result<()> {
        if !self.block.is_empty() {
            self.properties.largest = self.block.last_key().to_vec();
            self.end_block()?;
        }
        if let Some((last_key, handle)) = self.pending.take() {
            self.index.add(&last_key, handle)?;
        }
        let data_len_bytes = self.len_bytes;
        let (mut filter, mut filter_checksum) = (Handle { offset: data_len_bytes, len_bytes: 0 }, 0);
        if let Some(built) = self.build_filter() {
            filter_checksum = built.checksum;
            let padding = data_len_bytes.next_multiple_of(FILTER_ALIGNMENT_BYTES) - data_len_bytes;
            self.put(&vec![0; usize::try_from(padding).unwrap_or_default()])?;
            filter = self.put(&built.bytes)?;
        }
        let index_content = self.index.finish().to_vec();
        let index = self.put(&index_content)?;
        let properties_content = self.properties.encode();
        let properties = self.put(&properties_content)?;
        let footer = Footer {
            table_id: self.options.table_id,
            data_len_bytes,
            filter,
            index,
            properties,
            file_len_bytes: self.len_bytes + FOOTER_LEN_BYTES as u64,
            filter_checksum,
            index_checksum: crc32(&index_content),
            properties_checksum: crc32(&properties_content),
        };
        self.put(&footer.encode())?;
        self.flush_chunk()
    }

    fn end_block(&mut self) -> Result<()> {
        let offset = self.len_bytes;
        let (start, options) = (self.chunk.len(), &self.options);
        let last_key = self.block.last_key().to_vec();
        let content = self.block.finish();
        seal(&mut self.chunk, content, options.compression, &options.table_id, offset);
        let len_bytes = (self.chunk.len() - start) as u64;
        self.len_bytes += len_bytes;
        self.pending = Some((last_key, Handle { offset, len_bytes }));
        self.block.clear();
        self.properties.num_data_blocks += 1;
        if self.chunk.len() >= CHUNK_LEN_BYTES { self.flush_chunk() } else { Ok(()) }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<Handle> {
        let handle = Handle { offset: self.len_bytes, len_bytes: bytes.len() as u64 };
        self.len_bytes += handle.len_bytes;
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_LEN_BYTES {
            self.flush_chunk()?;
        }
        Ok(handle)
    }

    fn flush_chunk(&mut self) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.write_all(&self.chunk)?;
        }
        self.chunk.clear();
        Ok(())
    }

    fn check_usable(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }.in_file(&self.path)),
        }
    }

    fn note(&mut self, outcome: Result<()>) -> Result<()> {
        if let Err(error) = &outcome {
            self.failure = Some(error.to_string());
        }
        outcome.map_err(|error| error.in_file(&self.path))
    }
}

impl Drop for TableWriter<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            self.file = None;
            // `drop` cannot return an error. A leftover file is harmless, and its name marks it for
            // removal.
            let _ = self.storage.remove(&temporary(&self.path));
        }
    }
}

fn temporary(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}
