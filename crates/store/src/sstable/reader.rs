//! Reads an SST file. Opening a file reads the footer and the properties, and opens the filter. The
//! first lookup or cursor that needs the index reads it. Each lookup reads at most one data block.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::block_cache::{BlockCache, BlockContent, FoundValue, SharedBlock, shared_block};
use super::data_block::Block;
use super::filter::{self, FilterMemory, FilterUse, TableFilter};
use super::index_block::IndexBlock;
use super::layout::{FOOTER_LEN_BYTES, Footer, Handle, TableId, unseal, unseal_owned};
use super::properties::Properties;
use crate::checksum::crc32;
use crate::error::{Error, Field, Result};
use crate::storage::{IoMode, ReadAt, Storage};
use filterblock::{
    CachedFilter, FilterBlock, FilterCache, FilterSet, FilterSlot, KeyHasher, PrefixExtractor, Reclaimer, SharedBytes,
    Verify,
};

/// The options for reading an SST file.
#[derive(Debug, Clone, Default)]
pub struct TableReadOptions {
    /// Whether reads of the file use the page cache.
    pub io: IoMode,
    /// The time at which the filter's pages are verified: at open, or on first touch.
    pub verify: Verify,
    /// The kind of memory that holds the filter.
    pub filter_memory: FilterMemory,
    /// Whether an unusable filter or range filter makes [`Table::open`] fail. If `false`, an
    /// unusable filter is [`filterblock::TableFilter::Degraded`] and never denies a key.
    pub strict: bool,
    /// The expected hasher of the filter's keys. A filter whose keys were hashed with another
    /// function, seed or secret is unusable. If `None`, a filter whose keys were hashed with a
    /// secret is unusable.
    pub hasher: Option<KeyHasher>,
    /// The expected table id, or `None` for any. [`Table::open`] returns [`Error::Corrupt`] for a
    /// file with another table id.
    pub table_id: Option<TableId>,
    /// The list in which the filter's bytes wait to be freed after their last use. If `None`, the
    /// thread that drops the last reference frees them.
    pub reclaimer: Option<Reclaimer>,
    /// The extractor of the caller. [`Table::has_prefixes`] says whether the filter holds the
    /// prefixes of this extractor. [`Table::verify`] needs the extractor to check the prefixes in a
    /// filter, unless the extractor is built in.
    pub prefix_extractor: Option<PrefixExtractor>,
}

/// The result of a lookup in one SST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The key has this value.
    Value(Vec<u8>),
    /// The key is deleted. The caller must not search older SSTs.
    Tombstone,
    /// The SST has no entry for the key.
    NotFound,
}

/// The knowledge of a caller of [`Table::find_value`] about the data block that may hold the key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KnownBlock<'b> {
    /// The caller knows nothing, so the lookup searches the index.
    Unknown,
    /// The caller knows the position that [`Table::announce`] returned for the key.
    Position(usize),
    /// The caller knows the position, and the content that [`Table::known_block`] returned for it.
    Content(usize, &'b BlockContent),
}

/// The number and the length of the data blocks that lookups or a cursor read from the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockReads {
    /// The number of blocks.
    pub blocks: u64,
    /// The total length of these blocks in the file in bytes, including their trailers.
    pub bytes: u64,
}

/// An open SST file.
pub struct Table {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn ReadAt>,
    pub(super) footer: Footer,
    pub(super) options: TableReadOptions,
    properties: Properties,
    /// The filter, or [`filterblock::TableFilter::Absent`] if it is in `cached`.
    filter: Arc<TableFilter>,
    cached: Option<Arc<CachedFilter>>,
    has_prefixes: bool,
    has_ranges: bool,
    /// The reason why the range filter cannot be used; see [`Self::range_damage`].
    range_damage: Option<Error>,
    /// The index, which is read at its first use. The error of a failed read is not kept, because
    /// the failure may be temporary.
    index: OnceLock<IndexBlock>,
}

#[derive(Default)]
struct Scratch {
    sealed: Vec<u8>,
    content: Vec<u8>,
}

/// The maximum number of bytes that a cursor with read-ahead reads at once. A longer block is read
/// alone.
const READ_AHEAD_BYTES: u64 = 64 << 10;

/// Consecutive bytes of a file that one read returned.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    bytes: Vec<u8>,
    /// The offset of the bytes in the file.
    offset: u64,
}

impl ReadAhead {
    fn block(&self, handle: Handle) -> Option<&[u8]> {
        let start = usize::try_from(handle.offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..start.checked_add(handle.len_in_memory().ok()?)?)
    }
}

/// The maximum length of each of the two read buffers that a thread keeps for its next lookup, in
/// bytes. If one is longer, both are freed after their use.
const MAX_KEPT_SCRATCH_BYTES: usize = 256 << 10;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Table {
    /// Opens the file at `path`, reads footer and properties, and opens the filter as the options
    /// say.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, does not fit in memory, is damaged or
    /// unsupported, or has another table id than [`TableReadOptions::table_id`]. With
    /// [`TableReadOptions::strict`], also returns the error of a filter or range filter that cannot
    /// be used. Every error names the file.
    pub fn open(storage: &dyn Storage, path: &Path, options: TableReadOptions) -> Result<Self> {
        Self::open_in(None, storage, path, options)
    }

    /// Opens the file as [`Self::open`] does. With a cache and a hasher, reads no filter: the cache does
    /// when a query needs it.
    pub(crate) fn open_in(
        cache: Option<&FilterCache>,
        storage: &dyn Storage,
        path: &Path,
        options: TableReadOptions,
    ) -> Result<Self> {
        let file = storage.open(path, options.io)?;
        Self::open_file(cache, file, path, options).map_err(|error| error.in_file(path))
    }

    fn open_file(
        cache: Option<&FilterCache>,
        file: Arc<dyn ReadAt>,
        path: &Path,
        options: TableReadOptions,
    ) -> Result<Self> {
        let footer = read_footer(file.as_ref())?;
        if options.table_id.is_some_and(|wanted| wanted != footer.table_id) {
            let offset = footer.file_len_bytes - FOOTER_LEN_BYTES as u64;
            return Err(Error::Corrupt { field: Field::TableId, offset });
        }
        let properties = read_properties(file.as_ref(), &footer)?;
        let how = FilterUse {
            verify: options.verify,
            memory: options.filter_memory,
            hasher: options.hasher.as_ref(),
            reclaimer: options.reclaimer.as_ref(),
        };
        let cached = cache.and_then(|cache| filter::in_cache(cache, &file, path, &footer, &properties, how));
        let open = || filter::open(file.as_ref(), path, &footer, &properties, how);
        let filter = match if cached.is_some() { Ok(None) } else { open() } {
            Err(error) if options.strict => return Err(error),
            opened => TableFilter::from(opened),
        };
        let wanted = options.prefix_extractor.as_ref().map(PrefixExtractor::name);
        let found = match &cached {
            Some(_) => properties.prefix_extractor_name(),
            None => filter.ready().and_then(|filter| filter.metadata().extractor),
        };
        let has_prefixes = wanted.is_some() && wanted == found;
        let has_ranges = match &cached {
            Some(_) => filter::promises_ranges(&properties),
            None => filter.ready().is_some_and(|filter| filter.has_ranges()),
        };
        let range_damage = filter.ready().and_then(|filter| filter::range_damage(filter, &properties, &footer));
        let range_damage = match range_damage.map(|error| error.in_file(path)) {
            Some(error) if options.strict => return Err(error),
            damage => damage,
        };
        Ok(Self {
            path: path.to_path_buf(),
            file,
            footer,
            options,
            properties,
            filter: Arc::new(filter),
            cached: cached.map(Arc::new),
            has_prefixes,
            has_ranges,
            range_damage,
            index: OnceLock::new(),
        })
    }

    pub(crate) fn file(&self) -> &dyn ReadAt {
        self.file.as_ref()
    }

    /// Returns the file's filter.
    #[must_use]
    #[inline]
    pub fn filter(&self) -> &TableFilter {
        &self.filter
    }

    /// Adds the filter to a set.
    pub(crate) fn add_filter(&self, set: &mut FilterSet) -> FilterSlot {
        match &self.cached {
            Some(cached) => set.insert_cached(Arc::clone(cached)),
            None => set.insert(Arc::clone(&self.filter)),
        }
    }

    /// Returns the filter if it is in memory.
    pub(crate) fn filter_in_memory(&self) -> Option<Arc<TableFilter>> {
        match &self.cached {
            Some(cached) => cached.loaded(),
            None => Some(Arc::clone(&self.filter)),
        }
    }

    /// Returns the error of the last read of a filter that is not in memory.
    pub(crate) fn filter_failure(&self) -> Option<String> {
        self.cached.as_ref()?.failure().map(|error| error.to_string())
    }

    /// Returns the expected FPR of the filter of keys and of the range filter. Without a filter in memory,
    /// these are the rates that its settings promise.
    pub(crate) fn expected_rates(&self) -> (f64, f64) {
        match self.filter_in_memory().as_deref() {
            Some(TableFilter::Ready(filter)) => {
                (filter.expected_fpr(), filter.expected_range_fpr().unwrap_or_default())
            }
            Some(TableFilter::Absent | TableFilter::Degraded(_)) => (0.0, 0.0),
            None => filter::promised_rates(&self.properties),
        }
    }

    /// Returns the reason why the range filter of this filter of the SST cannot be used.
    pub(crate) fn range_damage_of(&self, filter: &FilterBlock<SharedBytes>) -> Option<Error> {
        match &self.cached {
            // A filter that has lost columns has no range filter, and is not damaged.
            Some(_) if filter.ranges_error().is_none() => None,
            _ => filter::range_damage(filter, &self.properties, &self.footer).map(|error| error.in_file(&self.path)),
        }
    }

    /// Returns whether the filter is usable and holds the prefixes of
    /// [`TableReadOptions::prefix_extractor`].
    #[must_use]
    pub fn has_prefixes(&self) -> bool {
        self.has_prefixes
    }

    /// Returns whether the SST has a usable filter that can deny a key by its hash.
    pub(crate) fn denies_keys(&self) -> bool {
        use filterblock::FilterKind::{AlwaysMaybe, Grafite};
        if self.cached.is_some() {
            return filter::promises_keys(&self.properties);
        }
        self.filter
            .ready()
            .map(|filter| filter.metadata())
            .is_some_and(|metadata| metadata.added.whole_keys() && !matches!(metadata.kind, AlwaysMaybe | Grafite))
    }

    /// Returns whether the SST has a usable range filter.
    #[must_use]
    pub fn has_ranges(&self) -> bool {
        self.has_ranges
    }

    /// Returns the reason why the range filter cannot be used. Returns `None` if the range filter
    /// is usable, if the SST has no range filter, or if the whole filter block is unusable.
    #[must_use]
    pub fn range_damage(&self) -> Option<&Error> {
        self.range_damage.as_ref()
    }

    /// Verifies all pages of the filter and returns the error of the first damaged page. Returns
    /// `None` if all pages are sound, or if the SST has no usable filter.
    #[must_use]
    pub fn filter_damage(&self) -> Option<Error> {
        let error = self.filter.ready()?.verify_pages().err()?;
        Some(Error::from(error).in_file(&self.path))
    }

    /// Returns the file's properties.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Returns the first key. The key is empty if the file has no entries.
    #[must_use]
    #[inline]
    pub fn smallest(&self) -> &[u8] {
        &self.properties.smallest
    }

    /// Returns the last key. The key is empty if the file has no entries.
    #[must_use]
    #[inline]
    pub fn largest(&self) -> &[u8] {
        &self.properties.largest
    }

    /// Returns the file's identity.
    #[must_use]
    pub fn table_id(&self) -> TableId {
        self.footer.table_id
    }

    /// Returns the file's length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.footer.file_len_bytes
    }

    /// Returns the offset of the filter block in the file.
    #[must_use]
    pub fn filter_offset(&self) -> u64 {
        self.footer.filter.offset
    }

    /// Returns the length of the filter block in bytes, or 0 if the file has no filter.
    #[must_use]
    pub fn filter_len_bytes(&self) -> u64 {
        self.footer.filter.len_bytes
    }

    /// Looks `key` up. It reads a data block only if `key` is in the SST's key range and the filter
    /// does not deny it.
    ///
    /// # Errors
    /// Returns an error if the index or the data block cannot be read, does not fit in memory, or
    /// is damaged or unsupported. A damaged filter is never an error here.
    pub fn get(&self, key: &[u8]) -> Result<Lookup> {
        let outside = key < self.smallest() || key > self.largest();
        let denies = |filter: &FilterBlock<SharedBytes>| !filter.may_contain(filter.hasher().key(key));
        if outside || self.filter.ready().is_some_and(denies) {
            return Ok(Lookup::NotFound);
        }
        self.find(key, None, &mut BlockReads::default())
    }

    /// Looks `key` up without asking the filter. It searches the index, and then the one data block
    /// that may hold the key. It reads the block through `cache`, if given. It adds to `reads` the
    /// blocks that it reads from the file.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::get`].
    pub fn find(&self, key: &[u8], cache: Option<&BlockCache>, reads: &mut BlockReads) -> Result<Lookup> {
        Ok(match self.find_value(key, KnownBlock::Unknown, cache, reads)? {
            None => Lookup::NotFound,
            Some(None) => Lookup::Tombstone,
            Some(Some(value)) => Lookup::Value(value),
        })
    }

    /// Looks `key` up as [`Self::find`] does, and returns the value in the form that the caller
    /// wants. Searches the index only for [`KnownBlock::Unknown`]. `None` means that the SST has no
    /// entry for `key`, and `Some(None)` is a tombstone.
    pub(crate) fn find_value<V: FoundValue>(
        &self,
        key: &[u8],
        block: KnownBlock<'_>,
        cache: Option<&BlockCache>,
        reads: &mut BlockReads,
    ) -> Result<Option<Option<V>>> {
        let found = match block {
            KnownBlock::Content(position, content) => {
                self.index().and_then(|index| content.find_value(key, index.handle(position)?.offset))
            }
            KnownBlock::Position(position) => {
                self.index().and_then(|index| self.find_in_block(index, position, key, cache, reads))
            }
            KnownBlock::Unknown => self.index().and_then(|index| {
                let position = index.seek(key)?;
                if position < index.len() { self.find_in_block(index, position, key, cache, reads) } else { Ok(None) }
            }),
        };
        found.map_err(|error| error.in_file(&self.path))
    }

    /// Returns the position of the data block that may hold `key`, and announces the read of the block
    /// to the storage. Does not announce a block that is in `cache`, nor the block `last`, which
    /// was announced before.
    ///
    /// Reads the index if it is not in memory. Returns `None` if the index cannot be read or is
    /// malformed, or if no block can hold the key.
    pub(crate) fn announce(&self, key: &[u8], last: Option<usize>, cache: Option<&BlockCache>) -> Option<usize> {
        // The search that follows reports the error of the index.
        let index = self.index().ok()?;
        let position = index.seek(key).ok()?;
        let block = index.handle(position).ok()?;
        if last != Some(position) && cache.is_none_or(|cache| !index.blocks().is_cached(position, cache)) {
            self.file.will_read(block.offset, block.len_bytes);
        }
        Some(position)
    }

    /// Returns the content of the block at a position that [`Self::announce`] returned.
    pub(crate) fn known_block(
        &self,
        position: usize,
        cache: Option<&BlockCache>,
        reads: &mut BlockReads,
    ) -> Result<BlockContent> {
        let block = self.index().and_then(|index| self.data_block(index, position, cache, reads));
        block.map_err(|error| error.in_file(&self.path))
    }

    #[inline]
    fn find_in_block<V: FoundValue>(
        &self,
        index: &IndexBlock,
        position: usize,
        key: &[u8],
        cache: Option<&BlockCache>,
        reads: &mut BlockReads,
    ) -> Result<Option<Option<V>>> {
        let handle = index.handle(position)?;
        if let Some(cache) = cache {
            if let Some(found) = index.blocks().read(position, cache, |block| block.find_value(key, handle.offset)) {
                return found;
            }
            let block = self.read_into_cache(index, position, cache, reads)?;
            return BlockContent::Cached(block).find_value(key, handle.offset);
        }
        SCRATCH.with(|scratch| {
            // The scratch is taken, not borrowed, because the storage of a host may itself look up
            // a key on this thread while it reads.
            let mut taken = scratch.take();
            let outcome = self.find_in_file(handle, key, reads, &mut taken);
            if taken.sealed.len().max(taken.content.len()) <= MAX_KEPT_SCRATCH_BYTES {
                scratch.replace(taken);
            }
            outcome
        })
    }

    fn find_in_file<V: FoundValue>(
        &self,
        handle: Handle,
        key: &[u8],
        reads: &mut BlockReads,
        scratch: &mut Scratch,
    ) -> Result<Option<Option<V>>> {
        let len = handle.len_in_memory()?;
        if scratch.sealed.len() < len {
            scratch.sealed = handle.room()?;
        }
        let sealed = scratch.sealed.get_mut(..len).unwrap_or_default();
        self.file.read_exact_at(sealed, handle.offset)?;
        reads.blocks += 1;
        reads.bytes += handle.len_bytes;
        let content = unseal(sealed, &self.footer.table_id, handle.offset, &mut scratch.content)?;
        let found = Block::parse(content, handle.offset)?.find(key)?;
        Ok(found.map(|value| value.map(V::copied)))
    }

    pub(super) fn data_block(
        &self,
        index: &IndexBlock,
        position: usize,
        cache: Option<&BlockCache>,
        reads: &mut BlockReads,
    ) -> Result<BlockContent> {
        let Some(cache) = cache else {
            return Ok(BlockContent::Owned(self.read_block(index.handle(position)?, reads)?));
        };
        Ok(BlockContent::Cached(match index.blocks().read(position, cache, |block| block.shared()) {
            Some(block) => block,
            None => self.read_into_cache(index, position, cache, reads)?,
        }))
    }

    #[cold]
    fn read_into_cache(
        &self,
        index: &IndexBlock,
        position: usize,
        cache: &BlockCache,
        reads: &mut BlockReads,
    ) -> Result<SharedBlock> {
        let handle = index.handle(position)?;
        let block = shared_block(&self.read_block(handle, reads)?, handle.offset);
        index.blocks().insert(position, cache, &block);
        Ok(block)
    }

    fn read_block(&self, handle: Handle, reads: &mut BlockReads) -> Result<Vec<u8>> {
        let mut sealed = handle.room()?;
        self.file.read_exact_at(&mut sealed, handle.offset)?;
        reads.blocks += 1;
        reads.bytes += handle.len_bytes;
        unseal_owned(sealed, &self.footer.table_id, handle.offset)
    }

    /// Returns the verified content of a data block. If `ahead` does not hold the block, the
    /// function reads the block and the bytes after it at once. If that read fails, it reads only
    /// the block.
    pub(super) fn data_block_ahead(
        &self,
        handle: Handle,
        ahead: &mut ReadAhead,
        reads: &mut BlockReads,
    ) -> Result<BlockContent> {
        if ahead.block(handle).is_none() {
            let rest = self.footer.data_len_bytes.saturating_sub(handle.offset);
            let len_bytes = handle.len_bytes.max(READ_AHEAD_BYTES.min(rest));
            let wanted = Handle { len_bytes, ..handle };
            if ahead.bytes.len() as u64 != len_bytes {
                ahead.bytes = wanted.room()?;
            }
            ahead.offset = handle.offset;
            if let Err(error) = self.file.read_exact_at(&mut ahead.bytes, handle.offset) {
                ahead.bytes = Vec::new();
                log::debug!("{}: read-ahead failed, so the cursor reads one block: {error}", self.path.display());
            }
        }
        let Some(sealed) = ahead.block(handle) else { return Ok(BlockContent::Owned(self.read_block(handle, reads)?)) };
        reads.blocks += 1;
        reads.bytes += handle.len_bytes;
        Ok(BlockContent::Owned(unseal_owned(sealed.to_vec(), &self.footer.table_id, handle.offset)?))
    }

    pub(super) fn index(&self) -> Result<&IndexBlock> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let index = self.read_index()?;
        Ok(self.index.get_or_init(|| index))
    }

    /// Reads the index from the file, even if it is already in memory.
    pub(super) fn read_index(&self) -> Result<IndexBlock> {
        let Handle { offset, .. } = self.footer.index;
        let content =
            read_checksummed(self.file.as_ref(), self.footer.index, self.footer.index_checksum, Field::IndexBlock)?;
        let index = IndexBlock::new(content, offset, self.footer.data_len_bytes)?;
        if index.len() as u64 != self.properties.num_data_blocks {
            return Err(Error::Corrupt { field: Field::IndexBlock, offset });
        }
        Ok(index)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("path", &self.path).field("properties", &self.properties).finish_non_exhaustive()
    }
}

pub(super) fn read_footer(file: &dyn ReadAt) -> Result<Footer> {
    let file_len_bytes = file.len();
    let Some(offset) = file_len_bytes.checked_sub(FOOTER_LEN_BYTES as u64) else {
        return Err(Error::Corrupt { field: Field::Length, offset: file_len_bytes });
    };
    let mut bytes = [0; FOOTER_LEN_BYTES];
    file.read_exact_at(&mut bytes, offset)?;
    Footer::decode(&bytes, file_len_bytes)
}

pub(super) fn read_properties(file: &dyn ReadAt, footer: &Footer) -> Result<Properties> {
    let content = read_checksummed(file, footer.properties, footer.properties_checksum, Field::Properties)?;
    Properties::decode(&content, footer.properties.offset)
}

/// The check of the footer has ensured that the part lies in the file.
fn read_checksummed(file: &dyn ReadAt, handle: Handle, stored: u32, field: Field) -> Result<Vec<u8>> {
    let mut content = handle.room()?;
    file.read_exact_at(&mut content, handle.offset)?;
    let computed = crc32(&content);
    if computed != stored {
        return Err(Error::ChecksumMismatch { field, offset: handle.offset, stored, computed });
    }
    Ok(content)
}
