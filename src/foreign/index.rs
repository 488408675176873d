//! What the index blocks of LevelDB and RocksDB share: the two forms of keys, what must hold of an index before it is
//! searched, and each key of a table once.

use std::cmp::Ordering;

use crate::codec::u64_from;
use crate::foreign::error::{Error, Field, Result};

use super::block::{Block, BlockCursor};

/// An index whose keys, each spelled out, come to more than this, and to more than four times its own length, is no engine's: of
/// one megabyte each repeating half, they would be hundreds of gigabytes to whoever collects or compares them.
const SPELLED_LEN_BYTES_MAX: usize = 256 << 20;
const SPELLED_SHARE_MAX: usize = 4;

/// What an engine puts behind a user's key: the sequence number in seven bytes, after the type of the write in one.
const TAG_LEN_BYTES: usize = 8;

/// What a table's keys look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyForm {
    /// The user's keys as they are: tables that were written without a database.
    User,
    /// The user's key, and eight bytes of sequence number and type: the tables of a database.
    Internal,
}

impl KeyForm {
    /// The user's part; `None` for a key that is too short to have one.
    pub(crate) fn user_key(self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Self::User => Some(key),
            Self::Internal => key.len().checked_sub(TAG_LEN_BYTES).and_then(|len| key.get(..len)),
        }
    }

    /// The order of two keys of a table whose user keys order as their bytes do: newer versions of a key come first.
    pub(crate) fn order(self, a: &[u8], b: &[u8]) -> Ordering {
        match (self, a.split_last_chunk::<TAG_LEN_BYTES>(), b.split_last_chunk::<TAG_LEN_BYTES>()) {
            (Self::Internal, Some((a, a_tag)), Some((b, b_tag))) => {
                a.cmp(b).then_with(|| u64_from(b_tag).cmp(&u64_from(a_tag)))
            }
            _ => a.cmp(b),
        }
    }

    /// Whether a sound table of a LevelDB database may hold `key`: a write there is a value or a deletion.
    pub(crate) fn looks_internal(key: &[u8]) -> bool {
        key.split_last_chunk::<TAG_LEN_BYTES>().is_some_and(|(_, tag)| u64_from(tag) & 0xff <= 1)
    }
}

/// What a walk through an index found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexCheck {
    /// The blocks that it names.
    pub(crate) len: u64,
    /// Whether its user keys ascend bytewise, so that it can be searched.
    pub(crate) is_ascending: bool,
    /// Where the last block begins; 0 without any.
    pub(crate) last_offset: u64,
    /// The end of the last block, with its trailer.
    pub(crate) end: u64,
}

/// Walks through an index: its blocks must lie one after the other, from `start` on and before `limit`, as every writer
/// lays them. So no walk by an index takes more than the file is long, whatever the handles say.
///
/// # Errors
/// `Corrupt` for an entry, a restart point, a key or a handle that does not hold, and for what `each` finds.
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

/// Passes on a key that follows an equal one only once.
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
