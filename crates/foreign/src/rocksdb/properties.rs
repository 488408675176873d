//! Reads the properties of a RocksDB table. They give the layout of its index, and say whether its
//! filters contain whole keys and prefixes.

use crate::block::{Block, Values};
use crate::error::{Error, Field, Result};
use crate::index::KeyForm;
use crate::stored::{BlockHandle, Blocks};
use filterblock::internals::codec::{Cursor, u32_at};

use super::prefix::RocksDbPrefixExtractor;

/// The comparator that orders keys bytewise.
const BYTEWISE: &str = "leveldb.BytewiseComparator";
/// The suffix of comparators for keys that end with a timestamp of eight bytes.
const TIMESTAMP_SUFFIX: &str = ".u64ts";
const TIMESTAMP_LEN_BYTES: usize = 8;

/// The property with the sequence number of an ingested table. Ingestion can write the number over
/// zeros after the checksum of the properties block was computed.
const GLOBAL_SEQUENCE: &[u8] = b"rocksdb.external_sst_file.global_seqno";

/// The index type of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RocksDbIndexKind {
    /// One block, in which a reader does a binary search.
    Binary,
    /// The block of `Binary`, and two blocks with prefixes of keys for a hash table. This reader
    /// does not use the prefixes.
    Hash,
    /// An index of index blocks.
    TwoLevel,
    /// One block that also has the first key of each data block.
    BinaryWithFirstKey,
}

/// The properties of a table that matter to its filters. Invalid UTF-8 in a string is replaced. A
/// missing string is empty, a missing number is 0, and a missing public Boolean is `true`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RocksDbProperties {
    /// The name of the comparator.
    pub comparator: String,
    /// The name of the filter policy. It is empty if there is none.
    pub filter_policy: String,
    /// The name of the prefix extractor. It is empty or `nullptr` if there is none.
    pub prefix_extractor: String,
    /// The name of the compression of data blocks.
    pub compression: String,
    /// The number of entries. Each version of a key counts.
    pub num_entries: u64,
    /// The number of keys and prefixes in the filters, or 0 if the writer did not count them.
    pub num_filter_entries: u64,
    /// The number of data blocks.
    pub num_data_blocks: u64,
    /// The total length of all filters in bytes, with the partition index if there is one.
    pub filter_len_bytes: u64,
    /// The index type.
    pub index_kind: RocksDbIndexKind,
    /// Whether the filters contain whole keys.
    pub whole_key_filtering: bool,
    /// Whether the filters contain prefixes, if there is an extractor.
    pub prefix_filtering: bool,
    pub(super) index_keys: KeyForm,
    pub(super) has_index_deltas: bool,
    /// Whether the table has RocksDB's own index. It is false if only a user-defined index finds
    /// the data blocks.
    pub(super) has_own_index: bool,
    pub(super) has_timestamps: bool,
}

impl RocksDbProperties {
    pub(super) fn read(blocks: &Blocks<'_>, handle: BlockHandle) -> Result<Self> {
        match blocks.read(handle, Field::Properties) {
            Ok(stored) => {
                stored.plain_range()?;
                Self::parse(stored.content, handle.offset)
            }
            Err(mismatch) => Self::read_ingested(blocks, handle).ok_or(mismatch)?,
        }
    }

    /// Reads the properties of a table that got a sequence number after it was written. Returns
    /// `None` unless the checksum is right with zeros in place of the number.
    fn read_ingested(blocks: &Blocks<'_>, handle: BlockHandle) -> Option<Result<Self>> {
        let (stored, covered, checksum) = blocks.split(handle).ok()?;
        let mut place = None;
        let block = Block::rocksdb(stored.content, Values::WithLength, handle.offset).ok()?;
        block
            .check(|entry| {
                if entry.key() == GLOBAL_SEQUENCE {
                    place = Some(entry.value_range());
                }
                Ok(())
            })
            .ok()?;
        let place = place.filter(|place| place.len() == 8)?;
        let mut as_written = covered.to_vec();
        as_written.get_mut(place)?.fill(0);
        (stored.compression == 0 && blocks.checksum_of(&as_written, handle) == checksum)
            .then(|| Self::parse(stored.content, handle.offset))
    }

    fn parse(content: &[u8], offset: u64) -> Result<Self> {
        let mut found = Self {
            comparator: String::new(),
            filter_policy: String::new(),
            prefix_extractor: String::new(),
            compression: String::new(),
            num_entries: 0,
            num_filter_entries: 0,
            num_data_blocks: 0,
            filter_len_bytes: 0,
            index_kind: RocksDbIndexKind::Binary,
            whole_key_filtering: true,
            prefix_filtering: true,
            index_keys: KeyForm::Internal,
            has_index_deltas: false,
            has_own_index: true,
            has_timestamps: true,
        };
        let corrupt = || Error::Corrupt { field: Field::Properties, offset };
        let mut index_kind = None;
        Block::rocksdb(content, Values::WithLength, offset)?.check(|entry| {
            let value = entry.value();
            let number = || Cursor::new(value, offset).take_varint(Field::Properties);
            let text = || String::from_utf8_lossy(value).into_owned();
            match entry.key().strip_prefix(b"rocksdb.").unwrap_or_default() {
                b"comparator" => found.comparator = text(),
                b"filter.policy" => found.filter_policy = text(),
                b"prefix.extractor.name" => found.prefix_extractor = text(),
                b"compression" => found.compression = text(),
                b"num.entries" => found.num_entries = number()?,
                b"num.filter_entries" => found.num_filter_entries = number()?,
                b"num.data.blocks" => found.num_data_blocks = number()?,
                b"filter.size" => found.filter_len_bytes = number()?,
                b"index.key.is.user.key" if number()? != 0 => found.index_keys = KeyForm::User,
                b"index.value.is.delta.encoded" => found.has_index_deltas = number()? != 0,
                b"udi.is.primary.index" => found.has_own_index = number()? == 0,
                b"user.defined.timestamps.persisted" => found.has_timestamps = number()? != 0,
                b"block.based.table.whole.key.filtering" => found.whole_key_filtering = value != b"0",
                b"block.based.table.prefix.filtering" => found.prefix_filtering = value != b"0",
                b"block.based.table.index.type" => index_kind = Some(u32_at(value, 0).ok_or_else(corrupt)?),
                _ => {}
            }
            Ok(())
        })?;
        found.index_kind = match index_kind.ok_or_else(corrupt)? {
            0 => RocksDbIndexKind::Binary,
            1 => RocksDbIndexKind::Hash,
            2 => RocksDbIndexKind::TwoLevel,
            3 => RocksDbIndexKind::BinaryWithFirstKey,
            other => return Err(Error::Unsupported { field: Field::IndexKind, found: u64::from(other) }),
        };
        found.has_timestamps &= found.comparator.ends_with(TIMESTAMP_SUFFIX);
        Ok(found)
    }

    /// Returns the prefix extractor whose prefixes are in the filters. Returns `None` if the
    /// filters have no prefixes, or if the extractor is unknown.
    #[must_use]
    pub fn extractor(&self) -> Option<RocksDbPrefixExtractor> {
        RocksDbPrefixExtractor::from_name(&self.prefix_extractor).filter(|_| self.prefix_filtering)
    }

    /// Returns whether no query can use the filters: they contain no whole keys, and no prefixes of
    /// a known extractor.
    #[must_use]
    pub fn knows_no_entry(&self) -> bool {
        !self.whole_key_filtering && self.extractor().is_none()
    }

    pub(super) fn is_bytewise(&self) -> bool {
        self.comparator == BYTEWISE
    }

    /// Returns the form of the values in an index block or in the partition index. `first_key` says
    /// whether the values include first keys.
    pub(super) fn index_values(&self, first_key: bool) -> Values {
        if self.has_index_deltas { Values::Handles { first_key } } else { Values::WithLength }
    }

    /// Returns the user's part of a key in a data block, without timestamp, or `None` if the key is
    /// too short.
    pub(super) fn user_key<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        let key = KeyForm::Internal.user_key(key)?;
        let timestamp_len = if self.has_timestamps { TIMESTAMP_LEN_BYTES } else { 0 };
        key.get(..key.len().checked_sub(timestamp_len)?)
    }
}
