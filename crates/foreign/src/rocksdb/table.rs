//! Reads RocksDB's block-based tables (`.sst`) of format versions 2 to 7. Finds the filters, and
//! asks them whether they may contain a key or a prefix.
//!
//! ```text
//! data block*  filter | (filter partition* partition index)  index  dictionary  range deletions
//! properties  metaindex  footer
//! ```
//! Not every table has every part. The footer locates the metaindex and, in format versions below
//! 6, the index. The metaindex locates all other parts except data blocks and partitions.

use std::ops::Range;

use crate::block::{Block, Values};
use crate::compression::Codec;
use crate::error::{Error, Field, Result};
use crate::index::{check_index, once};
use crate::stored::{BlockHandle, Blocks, Content, StoredBlock, Verified};
use crate::{ChecksumKind, ForeignFilterInfo};
use filterblock::internals::codec::Cursor;
use filterblock::{HashIdentity, Secret};

use super::filter::RocksDbFilter;
use super::footer::Footer;
use super::partitioned::PartitionIndex;
use super::policy::Policy;
use super::properties::{RocksDbIndexKind, RocksDbProperties};

const FULL_PREFIX: &str = "fullfilter.";
const PARTITIONED_PREFIX: &str = "partitionedfilter.";
const BLOCK_BASED_PREFIX: &str = "filter.";

/// A block-based table of RocksDB over `bytes`, which may be a memory map. Filters are read in
/// place.
///
/// Opening checks footer, metaindex, properties and filters. It does not read block-based filters,
/// filters of an unknown policy, the index or the data blocks: see [`Self::verify`].
#[derive(Debug, Clone)]
pub struct RocksDbTable<D> {
    bytes: D,
    footer: Footer,
    properties: RocksDbProperties,
    index: Option<BlockHandle>,
    has_dictionary: bool,
    filter: Place,
    policy: Policy,
}

#[derive(Debug, Clone)]
enum Place {
    Nowhere(RocksDbFilterLayout),
    Full(Range<usize>),
    Partitioned(PartitionIndex),
}

/// The layout of the filters of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RocksDbFilterLayout {
    /// The table has no filter.
    None,
    /// One filter covers the whole table.
    Full,
    /// The filter has this many partitions.
    Partitioned(u64),
    /// Each data block has a filter. RocksDB no longer reads such filters, so the answer for every
    /// key is "maybe".
    BlockBased,
    /// The filter has an unknown policy, for example an application's own. The value is the
    /// filter's name in the metaindex. The answer for every key is "maybe".
    Unknown(String),
}

/// The location of one filter of a table, and the keys for which the filter answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RocksDbFilterRange<'a> {
    /// The offset of the filter in the file.
    pub offset: u64,
    /// The length of the filter in bytes, with its own trailer and without the block's trailer.
    pub len_bytes: u64,
    /// The user key up to which a partition answers, or `None` for a filter of the whole table. It
    /// is the last key of the partition, or a key between that key and the first key of the next
    /// partition. The last partition also answers for keys above it.
    pub up_to: Option<&'a [u8]>,
}

impl<'a> RocksDbFilterRange<'a> {
    fn new(place: &Range<usize>, up_to: Option<&'a [u8]>) -> Self {
        Self { offset: place.start as u64, len_bytes: place.len() as u64, up_to }
    }
}

/// The entries of the metaindex that opening a table uses.
#[derive(Debug, Default)]
struct Metaindex {
    properties: Option<BlockHandle>,
    index: Option<BlockHandle>,
    has_dictionary: bool,
    filter: Option<(String, BlockHandle)>,
}

impl<D: AsRef<[u8]>> RocksDbTable<D> {
    /// Opens a table.
    ///
    /// # Errors
    /// Returns an error if footer, metaindex, properties, a filter or the partition index is
    /// damaged, or has a format that this crate does not read. Returns `Filter` if a filter block
    /// of this crate does not open.
    pub fn open(bytes: D) -> Result<Self> {
        let file = bytes.as_ref();
        let footer = Footer::read(file)?;
        let blocks = Blocks::new(file, footer.offset, footer.checksum);
        let names = Metaindex::read(&blocks, footer.metaindex)?;
        let missing = || Error::Corrupt { field: Field::Properties, offset: footer.metaindex.offset };
        let properties = RocksDbProperties::read(&blocks, names.properties.ok_or_else(missing)?)?;
        let (filter, policy) = match names.filter {
            None => (Place::Nowhere(RocksDbFilterLayout::None), Policy::Builtin),
            Some((name, handle)) => Place::read(&blocks, name, handle, &properties)?,
        };
        let (index, has_dictionary) = (footer.index.or(names.index), names.has_dictionary);
        Ok(Self { footer, properties, index, has_dictionary, filter, policy, bytes })
    }

    /// Returns whether the table may contain `user_key` (without timestamp), as RocksDB's filters
    /// answer a get. If the filters have whole keys, they answer for the whole key. Otherwise
    /// [`Self::prefix_may_match`] answers. Without a known filter, and after an error, the answer
    /// is "maybe".
    #[must_use]
    pub fn may_contain(&self, user_key: &[u8]) -> bool {
        if self.properties.whole_key_filtering { self.ask(user_key, user_key) } else { self.prefix_may_match(user_key) }
    }

    /// Answers for many keys as [`Self::may_contain`] does, in their order. It stops at the end of
    /// the shorter slice.
    pub fn may_contain_batch(&self, user_keys: &[&[u8]], answers: &mut [bool]) {
        if let (Place::Full(place), Policy::Builtin, true) =
            (&self.filter, &self.policy, self.properties.whole_key_filtering)
            && let Some(filter) = self.bytes.as_ref().get(place.clone())
        {
            return RocksDbFilter::new(filter).may_contain_batch(user_keys, answers);
        }
        for (key, answer) in user_keys.iter().zip(answers) {
            *answer = self.may_contain(key);
        }
    }

    /// Returns whether the table may contain a key with the prefix of `seek_key`, as RocksDB
    /// answers for a prefix seek. The answer is "maybe" if the key has no prefix, if the table has
    /// no known filter with prefixes of a known extractor, and after an error.
    #[must_use]
    pub fn prefix_may_match(&self, seek_key: &[u8]) -> bool {
        let prefix = self.properties.extractor().and_then(|extractor| extractor.prefix(seek_key));
        prefix.is_none_or(|prefix| self.ask(prefix, seek_key))
    }

    fn ask(&self, entry: &[u8], key: &[u8]) -> bool {
        let file = self.bytes.as_ref();
        match &self.filter {
            Place::Nowhere(_) => true,
            Place::Full(place) => file.get(place.clone()).is_none_or(|filter| self.policy.may_contain(filter, entry)),
            Place::Partitioned(index) => index.may_contain(&self.policy, file, entry, key),
        }
    }

    /// Returns RocksDB's own filter at a location from [`Self::for_each_filter`]. Returns `None` if
    /// the location is outside the file, or if the table has filter blocks of this crate.
    #[must_use]
    pub fn filter(&self, place: &RocksDbFilterRange<'_>) -> Option<RocksDbFilter<'_>> {
        matches!(self.policy, Policy::Builtin).then(|| self.filter_bytes(place).map(RocksDbFilter::new))?
    }

    /// Returns the bytes of the filter at a location from [`Self::for_each_filter`], or `None` if
    /// they are outside the file.
    #[must_use]
    pub fn filter_bytes(&self, place: &RocksDbFilterRange<'_>) -> Option<&[u8]> {
        let start = usize::try_from(place.offset).ok()?;
        let end = start.checked_add(usize::try_from(place.len_bytes).ok()?)?;
        self.bytes.as_ref().get(start..end)
    }

    /// Returns the properties of a filter of the table, given its bytes. The method may read
    /// all of these bytes.
    #[must_use]
    pub fn filter_info(&self, filter: &[u8]) -> ForeignFilterInfo {
        match self.policy {
            Policy::Builtin => RocksDbFilter::new(filter).info(),
            Policy::Native(_) => ForeignFilterInfo::native(filter),
        }
    }

    /// Returns the hash function, the seed, and the fingerprint of the secret, if the table holds
    /// filter blocks of this crate (policy [`NATIVE_POLICY`](super::NATIVE_POLICY)). Returns `None`
    /// for all other tables.
    #[must_use]
    pub fn native_hash(&self) -> Option<HashIdentity> {
        if let Policy::Native(Some(native)) = &self.policy { Some(native.hash()) } else { None }
    }

    /// Sets the secret of the filter blocks of this crate. Without it, a filter block whose keys
    /// were hashed with a secret answers "maybe" to every key.
    ///
    /// # Errors
    /// Returns an error if the secret is wrong, or if the filters of the table take no secret.
    pub fn unlock(&mut self, secret: &Secret) -> Result<()> {
        match &mut self.policy {
            Policy::Native(Some(native)) => native.unlock(secret),
            _ => {
                let reason = "the filters of this table take no secret; leave the secret out";
                Err(Error::invalid("secret", "(not shown)", reason))
            }
        }
    }

    /// Calls `each` with the location of each filter that opening checked, in the order of the
    /// partition index, until `each` returns `false`.
    pub fn for_each_filter(&self, mut each: impl FnMut(RocksDbFilterRange<'_>) -> bool) {
        match &self.filter {
            Place::Nowhere(_) => {}
            Place::Full(place) => {
                each(RocksDbFilterRange::new(place, None));
            }
            // Opening the table walked through this index, so no error can occur.
            Place::Partitioned(index) => {
                index
                    .for_each(self.bytes.as_ref(), |place, key| each(RocksDbFilterRange::new(&place, Some(key))))
                    .unwrap_or_default();
            }
        }
    }

    /// Returns the layout of the filters.
    #[must_use]
    pub fn filter_layout(&self) -> RocksDbFilterLayout {
        match &self.filter {
            Place::Nowhere(layout) => layout.clone(),
            Place::Full(_) => RocksDbFilterLayout::Full,
            Place::Partitioned(index) => RocksDbFilterLayout::Partitioned(index.len()),
        }
    }

    /// Returns the table's properties.
    #[must_use]
    pub fn properties(&self) -> &RocksDbProperties {
        &self.properties
    }

    /// Returns the format version, 2 to 7.
    #[must_use]
    pub fn format_version(&self) -> u32 {
        self.footer.version
    }

    /// Returns the checksum function of the blocks.
    #[must_use]
    pub fn checksum_kind(&self) -> ChecksumKind {
        self.footer.checksum.kind
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    fn blocks(&self) -> Blocks<'_> {
        Blocks::new(self.bytes.as_ref(), self.footer.offset, self.footer.checksum)
    }

    /// Calls `each` with every user key of the table, without timestamp, in order. Adjacent
    /// versions of one key count once.
    ///
    /// # Errors
    /// Returns an error if the index or a data block is damaged, or has an unsupported layout or
    /// compression. Also returns any error of `each`.
    pub fn for_each_key(&self, each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.for_each_version(once(each)).map(|_| ())
    }

    /// Calls `each` with every user key, once per stored version. Returns the number of data blocks
    /// plus the number of index partitions.
    fn for_each_version(&self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let (blocks, mut data_blocks) = (self.blocks(), 0);
        let partitions = self.for_each_data_block(|handle| {
            data_blocks += 1;
            let stored = blocks.read(handle, Field::DataBlock)?;
            let content = unpack(stored, self.has_dictionary)?;
            let block = Block::rocksdb(content.of(blocks.bytes()), Values::WithLength, handle.offset)?;
            block.check(|entry| each(self.properties.user_key(entry.key()).ok_or_else(|| block.corrupt(Field::Key))?))
        })?;
        Ok(partitions + data_blocks)
    }

    /// Calls `each` with the handle of every data block. Returns the number of index partitions.
    fn for_each_data_block(&self, mut each: impl FnMut(BlockHandle) -> Result<()>) -> Result<u64> {
        let (blocks, kind) = (self.blocks(), self.properties.index_kind);
        if !self.properties.has_own_index {
            return Err(Error::Unsupported { field: Field::UserDefinedIndex, found: 1 });
        }
        let missing = || Error::Corrupt { field: Field::IndexBlock, offset: self.footer.metaindex.offset };
        let index = self.index.ok_or_else(missing)?;
        let values = self.properties.index_values(kind == RocksDbIndexKind::BinaryWithFirstKey);
        let (keys, limit) = (self.properties.index_keys, blocks.bytes().len() as u64);
        let content = unpack(blocks.read(index, Field::IndexBlock)?, false)?;
        let top = Block::rocksdb(content.of(blocks.bytes()), values, index.offset)?;
        if kind != RocksDbIndexKind::TwoLevel {
            check_index(top, keys, 0, limit, |cursor| each(cursor.handle()?))?;
            return Ok(0);
        }
        let mut data_end = 0;
        let found = check_index(top, keys, 0, limit, |cursor| {
            let handle = cursor.handle()?;
            let content = unpack(blocks.read(handle, Field::IndexBlock)?, false)?;
            let block = Block::rocksdb(content.of(blocks.bytes()), values, handle.offset)?;
            data_end = check_index(block, keys, data_end, limit, |cursor| each(cursor.handle()?))?.end;
            Ok(())
        })?;
        Ok(found.len)
    }

    /// Verifies every block that opening did not verify, except the partitions of a filter of an
    /// unknown policy. Also calls [`Self::may_contain`] for every key of the data blocks.
    ///
    /// # Errors
    /// Returns the error of the first block that is damaged or has an unsupported layout or
    /// compression.
    pub fn verify(&self) -> Result<Verified> {
        let (mut keys, mut denied_keys) = (0, 0);
        let walked = self.for_each_version(|key| {
            keys += 1;
            denied_keys += u64::from(!self.may_contain(key));
            Ok(())
        })?;
        let partitions = if let Place::Partitioned(index) = &self.filter { index.len() } else { 0 };
        Ok(Verified { blocks: self.verify_named_blocks()? + walked + partitions, keys, denied_keys })
    }

    /// Verifies the checksums of the metaindex, of the index, and of all blocks that the metaindex
    /// names, except the properties. Returns the number of blocks, properties included.
    fn verify_named_blocks(&self) -> Result<u64> {
        let blocks = self.blocks();
        let mut handles = vec![self.footer.metaindex];
        handles.extend(self.footer.index);
        let mut properties = None;
        Metaindex::for_each(&blocks, self.footer.metaindex, |name, handle| {
            // Opening has verified the properties, whose checksum may need zeros in place of a
            // sequence number.
            if name == b"rocksdb.properties" {
                properties = Some(handle);
            }
            handles.push(handle);
            Ok(())
        })?;
        handles.sort_by_key(|handle| handle.offset);
        let mut end = 0;
        for &handle in &handles {
            // With overlapping blocks, this loop could read the same bytes any number of times.
            if handle.offset < end {
                return Err(Error::Corrupt { field: Field::Handle, offset: handle.offset });
            }
            end = handle.end().unwrap_or(u64::MAX);
            if Some(handle) != properties {
                blocks.read(handle, Field::Metaindex)?;
            }
        }
        Ok(handles.len() as u64)
    }
}

impl Place {
    /// Reads and checks the filters that the metaindex names. Block-based filters and filters of an
    /// unknown policy are not read.
    fn read(
        blocks: &Blocks<'_>,
        name: String,
        handle: BlockHandle,
        properties: &RocksDbProperties,
    ) -> Result<(Self, Policy)> {
        let of = |prefix| name.strip_prefix(prefix).and_then(Policy::from_name);
        if let Some(mut policy) = of(FULL_PREFIX) {
            let stored = blocks.read(handle, Field::FilterBlock)?;
            let place = stored.plain_range()?;
            policy.check(stored.content, handle.offset)?;
            return Ok((Self::Full(place), policy));
        }
        if let Some(mut policy) = of(PARTITIONED_PREFIX) {
            let (values, keys) = (properties.index_values(false), properties.index_keys);
            let check = |filter: &[u8], offset| policy.check(filter, offset);
            let index = PartitionIndex::read(blocks, handle, values, keys, properties.is_bytewise(), check)?;
            return Ok((Self::Partitioned(index), policy));
        }
        let layout = match name.strip_prefix(BLOCK_BASED_PREFIX) {
            Some(_) => RocksDbFilterLayout::BlockBased,
            None => RocksDbFilterLayout::Unknown(name),
        };
        Ok((Self::Nowhere(layout), Policy::Builtin))
    }
}

impl Metaindex {
    fn read(blocks: &Blocks<'_>, handle: BlockHandle) -> Result<Self> {
        let mut found = Self::default();
        Self::for_each(blocks, handle, |name, handle| {
            match name {
                b"rocksdb.properties" => found.properties = Some(handle),
                b"rocksdb.index" => found.index = Some(handle),
                b"rocksdb.compression_dict" => found.has_dictionary = true,
                _ => {
                    let prefixes = [FULL_PREFIX, PARTITIONED_PREFIX, BLOCK_BASED_PREFIX];
                    if prefixes.iter().any(|prefix| name.starts_with(prefix.as_bytes())) {
                        found.filter = Some((String::from_utf8_lossy(name).into_owned(), handle));
                    }
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn for_each(
        blocks: &Blocks<'_>,
        handle: BlockHandle,
        mut each: impl FnMut(&[u8], BlockHandle) -> Result<()>,
    ) -> Result<()> {
        let stored = blocks.read(handle, Field::Metaindex)?;
        stored.plain_range()?;
        let block = Block::rocksdb(stored.content, Values::WithLength, handle.offset)?;
        block.check(|entry| each(entry.key(), entry.handle()?))
    }
}

/// Returns the uncompressed content of a block. If the file has a dictionary, only Snappy and
/// uncompressed blocks are supported.
fn unpack(stored: StoredBlock<'_>, has_dictionary: bool) -> Result<Content> {
    let unsupported = || Error::Unsupported { field: Field::Compression, found: u64::from(stored.compression) };
    let codec = match stored.compression {
        0 => return stored.plain_range().map(Content::InFile),
        // Snappy stores the uncompressed length itself, and uses no dictionary.
        1 => return Codec::Snappy.unpack(stored.content, None, stored.offset).map(Content::Unpacked),
        4 | 5 => Codec::Lz4,
        7 => Codec::Zstd,
        _ => return Err(unsupported()),
    };
    if has_dictionary {
        return Err(unsupported());
    }
    let mut cursor = Cursor::new(stored.content, stored.offset);
    let len_bytes = cursor.take_varint(Field::Compression)?;
    codec.unpack(cursor.rest(), Some(len_bytes), stored.offset).map(Content::Unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_blocks_with_a_wrong_byte_unpack_or_are_refused() {
        let names = ["fv6-zstd", "fv3-zstd", "fv6-lz4-index-restarts", "fv5-lz4hc", "fv4-snappy-partitions"];
        for name in names {
            let file = std::fs::read(format!("../../tests/golden/foreign/rocksdb-9.8.4-layouts/{name}.sst")).unwrap();
            let table = RocksDbTable::open(&file[..]).unwrap();
            let (blocks, mut handles) = (table.blocks(), Vec::new());
            table
                .for_each_data_block(|handle| {
                    handles.push(handle);
                    Ok(())
                })
                .unwrap();
            let mut packed = 0;
            for handle in handles.into_iter().step_by(11) {
                let stored = blocks.read(handle, Field::DataBlock).unwrap();
                packed += usize::from(stored.compression != 0);
                let Content::Unpacked(sound) = unpack(stored, false).unwrap() else { continue };
                let mut content = stored.content.to_vec();
                for (at, turn) in (0..content.len()).flat_map(|at| [1, 0x80, 0xff].map(|turn| (at, turn))) {
                    content[at] ^= turn;
                    if let Ok(Content::Unpacked(other)) = unpack(StoredBlock { content: &content, ..stored }, false) {
                        // The first bytes store the uncompressed length.
                        assert!(at < 3 || other.len() == sound.len(), "{name}: {} bytes", other.len());
                    }
                    content[at] ^= turn;
                }
                for len in 0..content.len() {
                    let cut = unpack(StoredBlock { content: &content[..len], ..stored }, false);
                    assert!(cut.is_err(), "{name}: cut at {len} of {}", content.len());
                }
            }
            assert!(packed > 0, "{name}");
        }
    }
}
