//! Contains the code that the readers of LevelDB's and RocksDB's tables share.

use std::cmp::Ordering;

use crate::error::{Error, Field, Result};
use filterblock::internals::codec::u64_from;

use super::block::{Block, BlockCursor};

/// The reader rejects an index if the total length of its keys exceeds both this limit and
/// [`SPELLED_SHARE_MAX`] times the length of its entries. Without a limit, many entries of a few
/// bytes could each repeat a previous key of 1 MiB.
const SPELLED_LEN_BYTES_MAX: usize = 256 << 20;
const SPELLED_SHARE_MAX: usize = 4;

/// The length of the suffix that an engine adds to a user's key. The suffix is the type of the
/// write (one byte), then the sequence number (seven bytes).
const TAG_LEN_BYTES: usize = 8;

/// The form of a table's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyForm {
    /// The user's keys without a suffix: tables that were written without a database.
    User,
    /// The user's keys, each followed by eight bytes of sequence number and type: tables of a
    /// database.
    Internal,
}

impl KeyForm {
    /// Returns the user's part of the key, or `None` if the key is too short.
    pub(crate) fn user_key(self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Self::User => Some(key),
            Self::Internal => key.len().checked_sub(TAG_LEN_BYTES).and_then(|len| key.get(..len)),
        }
    }

    /// Compares two keys of a table whose user keys are in byte order. Newer versions of a user key
    /// come first. If a key is too short for the form, the keys are compared bytewise.
    pub(crate) fn order(self, a: &[u8], b: &[u8]) -> Ordering {
        match (self, a.split_last_chunk::<TAG_LEN_BYTES>(), b.split_last_chunk::<TAG_LEN_BYTES>()) {
            (Self::Internal, Some((a, a_tag)), Some((b, b_tag))) => {
                a.cmp(b).then_with(|| u64_from(b_tag).cmp(&u64_from(a_tag)))
            }
            _ => a.cmp(b),
        }
    }

    /// Returns whether `key` may be an internal key of a LevelDB database. The last eight bytes of
    /// an internal key begin with the type of the write, which must be 0 (deletion) or 1 (value).
    pub(crate) fn looks_internal(key: &[u8]) -> bool {
        key.split_last_chunk::<TAG_LEN_BYTES>().is_some_and(|(_, tag)| u64_from(tag) & 0xff <= 1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexCheck {
    pub(crate) len: u64,
    /// Whether no user key is before the previous one in byte order.
    pub(crate) is_ascending: bool,
    /// The file offset of the last block, or 0 if there is none.
    pub(crate) last_offset: u64,
    /// The file offset after the last block and its trailer. If the index lists no block, it is the
    /// `start` of [`check_index`].
    pub(crate) end: u64,
}

/// Checks every entry of an index, and calls `each` at every entry. The listed blocks must lie
/// between the file offsets `start` and `limit`, in ascending order and without overlap. A caller
/// that reads all listed blocks therefore reads each byte of the file at most once, even if the
/// handles are hostile.
pub(crate) fn check_index<'a>(
    block: Block<'a>,
    keys: KeyForm,
    start: u64,
    limit: u64,
    mut each: impl FnMut(&BlockCursor<'a>) -> Result<()>,
) -> Result<IndexCheck> {
    let mut found = IndexCheck { len: 0, is_ascending: true, last_offset: 0, end: start };
    let mut last: Vec<u8> = Vec::new();
    let mut left = SPELLED_LEN_BYTES_MAX.max(block.len_bytes().saturating_mul(SPELLED_SHARE_MAX));
    block.check(|cursor| {
        let key = cursor.key();
        left = left.checked_sub(key.len()).ok_or_else(|| block.corrupt(Field::Key))?;
        let user_key = keys.user_key(key).ok_or_else(|| block.corrupt(Field::Key))?;
        let last_user_key = keys.user_key(&last).unwrap_or_default();
        found.is_ascending &= found.len == 0 || last_user_key <= user_key;
        let handle = cursor.handle()?;
        match handle.end() {
            Some(end) if handle.offset >= found.end && end <= limit => found.end = end,
            _ => return Err(Error::Corrupt { field: Field::Handle, offset: handle.offset }),
        }
        found.len += 1;
        found.last_offset = handle.offset;
        last.clear();
        last.extend_from_slice(key);
        each(cursor)
    })?;
    Ok(found)
}

/// Returns a callback that passes a key on to `each` unless it equals the previous key.
pub(crate) fn once(mut each: impl FnMut(&[u8]) -> Result<()>) -> impl FnMut(&[u8]) -> Result<()> {
    let mut last = None::<Vec<u8>>;
    move |key| {
        if last.as_deref() == Some(key) {
            return Ok(());
        }
        let last = last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        each(key)
    }
}
