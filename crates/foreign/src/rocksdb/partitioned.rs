//! Reads partitioned filters. The key of an entry in the partition index is the last key of a
//! partition, or lies between that last key and the first key of the next partition.

use std::ops::Range;

use crate::block::{Block, Values};
use crate::error::{Field, Result};
use crate::index::{KeyForm, check_index};
use crate::stored::{BlockHandle, Blocks, Content};

use super::policy::Policy;

/// The index of a table's filter partitions. [`PartitionIndex::read`] has verified all partitions.
#[derive(Debug, Clone)]
pub(super) struct PartitionIndex {
    content: Content,
    offset: u64,
    values: Values,
    keys: KeyForm,
    /// Whether the comparator is bytewise and the keys of the index ascend. If not, a query asks
    /// all partitions.
    is_searchable: bool,
    len: u64,
    last: Option<BlockHandle>,
}

impl PartitionIndex {
    /// Reads the index at `handle` and verifies the checksum of each partition in it. Calls `each`
    /// with the bytes and the file offset of each partition.
    pub(super) fn read(
        blocks: &Blocks<'_>,
        handle: BlockHandle,
        values: Values,
        keys: KeyForm,
        is_bytewise: bool,
        mut each: impl FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<Self> {
        let content = Content::InFile(blocks.read(handle, Field::PartitionIndex)?.plain_range()?);
        let block = Block::rocksdb(content.of(blocks.bytes()), values, handle.offset)?;
        let mut last = None;
        let found = check_index(block, keys, 0, blocks.bytes().len() as u64, |cursor| {
            let partition = cursor.handle()?;
            let stored = blocks.read(partition, Field::Partition)?;
            stored.plain_range()?;
            last = Some(partition);
            each(stored.content, partition.offset)
        })?;
        let is_searchable = is_bytewise && found.is_ascending;
        Ok(Self { content, offset: handle.offset, values, keys, is_searchable, len: found.len, last })
    }

    fn block<'a>(&'a self, file: &'a [u8]) -> Result<Block<'a>> {
        Block::rocksdb(self.content.of(file), self.values, self.offset)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the filters may contain `entry`, a key or a prefix, by the rules of
    /// `policy`. `key` selects the partition, but if the index cannot be searched, all partitions
    /// are asked. For a key after the last partition, the last partition answers, because it may
    /// contain the prefix of the key. Without partitions, and after an error, the answer is
    /// "maybe".
    pub(super) fn may_contain(&self, policy: &Policy, file: &[u8], entry: &[u8], key: &[u8]) -> bool {
        self.ask(policy, file, entry, key).unwrap_or(true)
    }

    fn ask(&self, policy: &Policy, file: &[u8], entry: &[u8], key: &[u8]) -> Result<bool> {
        let block = self.block(file)?;
        let Some(last) = self.last else { return Ok(true) };
        if self.is_searchable {
            let is_before = |found: &[u8]| {
                self.keys.user_key(found).map(|found| found < key).ok_or_else(|| block.corrupt(Field::Key))
            };
            let handle = block.seek(is_before)?.map(|cursor| cursor.handle()).transpose()?.unwrap_or(last);
            return Ok(filter_at(file, handle).is_none_or(|filter| policy.may_contain(filter, entry)));
        }
        let mut cursor = block.cursor();
        while cursor.advance()? {
            if filter_at(file, cursor.handle()?).is_none_or(|filter| policy.may_contain(filter, entry)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Calls `each` for every partition, until `each` returns `false`. The arguments are the range
    /// of the partition in the file and the user key of its index entry.
    pub(super) fn for_each(&self, file: &[u8], mut each: impl FnMut(Range<usize>, &[u8]) -> bool) -> Result<()> {
        let mut cursor = self.block(file)?.cursor();
        while cursor.advance()? {
            let Some(place) = range_of(cursor.handle()?) else { continue };
            if !each(place, self.keys.user_key(cursor.key()).unwrap_or_default()) {
                break;
            }
        }
        Ok(())
    }
}

fn range_of(handle: BlockHandle) -> Option<Range<usize>> {
    let start = usize::try_from(handle.offset).ok()?;
    Some(start..start.checked_add(usize::try_from(handle.len_bytes).ok()?)?)
}

fn filter_at(file: &[u8], handle: BlockHandle) -> Option<&[u8]> {
    file.get(range_of(handle)?)
}
