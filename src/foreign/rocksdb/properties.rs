//! What a table of RocksDB says of itself: how its index and filters are laid out, and what went into the filters.

use crate::codec::{Cursor, u32_at};
use crate::foreign::block::{Block, Values};
use crate::foreign::error::{Error, Field, Result};
use crate::foreign::index::KeyForm;
use crate::foreign::stored::{BlockHandle, Blocks};

use super::prefix::RocksDbPrefixExtractor;

/// The only order of keys in which partitions are searched; for any other all are asked.
const BYTEWISE: &str = "leveldb.BytewiseComparator";
/// Such comparators order keys that end with a timestamp of eight bytes.
const TIMESTAMP_SUFFIX: &str = ".u64ts";
const TIMESTAMP_LEN_BYTES: usize = 8;

/// A table that was ingested has its sequence number here, written over zeros after the block was summed.
const GLOBAL_SEQUENCE: &[u8] = b"rocksdb.external_sst_file.global_seqno";

/// How the index of a table finds data blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RocksDbIndexKind {
    /// One block, searched by halves.
    Binary,
    /// The same block, and blocks with the hashes of prefixes, which are not read here.
    Hash,
    /// An index of index blocks.
    TwoLevel,
    /// One block that also has the first key of each data block.
    BinaryWithFirstKey,
}

/// The properties of a table that matter to its filters. Strings are as the file has them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RocksDbProperties {
    /// The name of the order of keys.
    pub comparator: String,
    /// The name of the filter policy; empty when there is none.
    pub filter_policy: String,
    /// The name of the prefix extractor; empty or `nullptr` when there is none.
    pub prefix_extractor: String,
    /// The name of the compression of data blocks.
    pub compression: String,
    /// Entries, each version of a key counted.
    pub num_entries: u64,
    /// What was added to the filters, keys and prefixes; 0 where the writer did not count.
    pub num_filter_entries: u64,
    /// Data blocks.
    pub num_data_blocks: u64,
    /// The length of all filters.
    pub filter_len_bytes: u64,
    /// How data blocks are found.
    pub index_kind: RocksDbIndexKind,
    /// Whether whole keys were added to the filters, so that reads of one key ask for it.
    pub whole_key_filtering: bool,
    /// Whether prefixes were added to the filters, if there is an extractor.
    pub prefix_filtering: bool,
    pub(super) index_keys: KeyForm,
    pub(super) has_index_deltas: bool,
    /// Whether another index than RocksDB's own is what finds the data blocks.
    pub(super) has_own_index: bool,
    pub(super) has_timestamps: bool,
}

impl RocksDbProperties {
    /// The properties in the block at `handle`.
    ///
    /// # Errors
    /// `Corrupt` or `ChecksumMismatch` for a block that does not hold or lacks the index's kind, `Unsupported` for a kind
    /// that is not known.
    pub(super) fn read(blocks: &Blocks<'_>, handle: BlockHandle) -> Result<Self> {
        match blocks.read(handle, Field::Properties) {
            Ok(stored) => {
                stored.plain_range()?;
                Self::parse(stored.content, handle.offset)
            }
            Err(mismatch) => Self::read_ingested(blocks, handle).ok_or(mismatch)?,
        }
    }

    /// The properties of a table that was given a sequence number after it was written.
    fn read_ingested(blocks: &Blocks<'_>, handle: BlockHandle) -> Option<Result<Self>> {
        let (stored, covered, sum) = blocks.split(handle).ok()?;
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
        (stored.compression == 0 && blocks.sum(&as_written, handle) == sum)
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

    /// The prefix extractor whose prefixes are in the filters; `None` when there is none, or one that is not known.
    #[must_use]
    pub fn extractor(&self) -> Option<RocksDbPrefixExtractor> {
        RocksDbPrefixExtractor::from_name(&self.prefix_extractor).filter(|_| self.prefix_filtering)
    }

    /// Whether the filters cannot be asked: they hold prefixes alone, and how those are made is not known.
    #[must_use]
    pub fn knows_no_entry(&self) -> bool {
        !self.whole_key_filtering && self.extractor().is_none()
    }

    pub(super) fn is_bytewise(&self) -> bool {
        self.comparator == BYTEWISE
    }

    /// The values of index blocks, and of the index of filter partitions; the latter have no first keys.
    pub(super) fn index_values(&self, first_key: bool) -> Values {
        if self.has_index_deltas { Values::Handles { first_key } } else { Values::WithLength }
    }

    /// The user's part of a key in a data block, without timestamp; `None` for a key that is too short to have one.
    pub(super) fn user_key<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        let key = KeyForm::Internal.user_key(key)?;
        let timestamp_len = if self.has_timestamps { TIMESTAMP_LEN_BYTES } else { 0 };
        key.get(..key.len().checked_sub(timestamp_len)?)
    }
}
