//! Encodes and decodes batches of writes that take effect together. A batch is encoded while it is
//! filled. The payload of a log record is one encoded batch, or several in a row.

use crate::codec::{Cursor, MAX_VARINT_LEN_BYTES, put_bytes, varint_len_bytes};
use crate::error::{Error, Field, Result};

/// The maximum length of a key: 64 KiB.
pub const MAX_KEY_LEN_BYTES: usize = 65_536;

/// The maximum length of a value: 1 GiB.
pub const MAX_VALUE_LEN_BYTES: usize = 1 << 30;

/// The maximum length of an encoded batch: 3 GiB. The payload of a log record may be almost 4 GiB
/// long.
pub(crate) const MAX_BATCH_LEN_BYTES: usize = 3 << 30;

/// The maximum number of writes in a batch. A memtable has almost 2^32 words. Before a batch, at
/// least about 3 * 2^30 of them are free. A write takes five words on average, so about 640 million
/// writes fit.
pub(crate) const MAX_BATCH_WRITES: usize = 1 << 29;

const OP_PUT: u8 = 1;
const OP_DELETE: u8 = 2;

/// Writes that take effect together or not at all. If several writes have the same key, the last
/// one counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteBatch {
    encoded: Vec<u8>,
    len: usize,
}

impl WriteBatch {
    /// Creates a batch without writes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put to the batch: the put sets the value of `key`.
    ///
    /// # Errors
    /// Returns [`Error::KeyTooLong`] if the key exceeds 65,536 bytes. Returns
    /// [`Error::InvalidArgument`] if the value exceeds 1 GiB, or if the batch would exceed 3 GiB or
    /// 536,870,912 writes. After an error the batch is unchanged.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if value.len() > MAX_VALUE_LEN_BYTES {
            let reason = format!("{} bytes exceed the limit of {MAX_VALUE_LEN_BYTES}; split the value", value.len());
            return Err(Error::InvalidArgument { what: "value", reason });
        }
        check(self.encoded.len(), self.len, key, Some(value.len()))?;
        // Reserve once instead of in the three steps below.
        self.encoded.reserve(key.len() + value.len() + 2 * MAX_VARINT_LEN_BYTES);
        self.encoded.push(OP_PUT);
        put_bytes(&mut self.encoded, key);
        put_bytes(&mut self.encoded, value);
        self.len += 1;
        Ok(())
    }

    /// Adds a deletion of `key` to the batch. The key need not exist.
    ///
    /// # Errors
    /// Returns [`Error::KeyTooLong`] if the key exceeds 65,536 bytes. Returns
    /// [`Error::InvalidArgument`] if the batch would exceed 3 GiB or 536,870,912 writes. After an
    /// error the batch is unchanged.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        check(self.encoded.len(), self.len, key, None)?;
        self.encoded.push(OP_DELETE);
        put_bytes(&mut self.encoded, key);
        self.len += 1;
        Ok(())
    }

    /// Returns the number of writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the batch holds no writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the length of the encoded writes in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.encoded.len()
    }

    /// Removes all writes and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.len = 0;
    }

    /// Returns the encoded writes, in the format that [`BatchOps`] reads.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Returns an iterator over the writes in insertion order.
    #[must_use]
    pub fn iter(&self) -> BatchOps<'_> {
        BatchOps::new(&self.encoded, 0)
    }
}

/// Checks the length of the key of a write, and that the write fits into a batch. The batch already
/// has `num_writes` writes and `len_bytes` encoded bytes. `value_len` is `None` for a deletion.
fn check(len_bytes: usize, num_writes: usize, key: &[u8], value_len: Option<usize>) -> Result<()> {
    if key.len() > MAX_KEY_LEN_BYTES {
        return Err(Error::KeyTooLong { len_bytes: key.len(), max_bytes: MAX_KEY_LEN_BYTES });
    }
    let encoded_len = |len: usize| varint_len_bytes(len as u64) + len;
    if len_bytes + 1 + encoded_len(key.len()) + value_len.map_or(0, encoded_len) > MAX_BATCH_LEN_BYTES {
        let reason = format!("the batch would exceed {MAX_BATCH_LEN_BYTES} bytes; write it, and start another batch");
        return Err(Error::InvalidArgument { what: "batch", reason });
    }
    if num_writes >= MAX_BATCH_WRITES {
        let reason = format!("the batch would exceed {MAX_BATCH_WRITES} writes; write it, and start another batch");
        return Err(Error::InvalidArgument { what: "batch", reason });
    }
    Ok(())
}

/// One write of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchOp<'a> {
    /// Sets the value of `key`.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Deletes `key`.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

impl<'a> BatchOp<'a> {
    /// Returns the key.
    #[must_use]
    pub fn key(self) -> &'a [u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    /// Returns the value, or `None` for a deletion.
    #[must_use]
    pub fn value(self) -> Option<&'a [u8]> {
        match self {
            Self::Put { value, .. } => Some(value),
            Self::Delete { .. } => None,
        }
    }
}

/// Iterates over encoded writes and decodes them. The iteration ends after the first error.
#[derive(Debug, Clone)]
pub struct BatchOps<'a> {
    cursor: Cursor<'a>,
}

impl<'a> BatchOps<'a> {
    /// Creates a decoder for the writes in `bytes`, which lie at `offset` in their file.
    #[must_use]
    pub fn new(bytes: &'a [u8], offset: u64) -> Self {
        Self { cursor: Cursor::new(bytes, offset) }
    }

    /// Returns the offset of the next write in the file, or the end offset after the last write.
    pub(crate) fn offset(&self) -> u64 {
        self.cursor.offset()
    }

    fn take(&mut self) -> Result<BatchOp<'a>> {
        let start = self.cursor.offset();
        let too_long = || Error::Corrupt { field: Field::Batch, offset: start };
        let op = self.cursor.take_u8(Field::Batch)?;
        let key = self.cursor.take_bytes(Field::Batch)?;
        if key.len() > MAX_KEY_LEN_BYTES {
            return Err(too_long());
        }
        match op {
            OP_PUT => {
                let value = self.cursor.take_bytes(Field::Batch)?;
                if value.len() > MAX_VALUE_LEN_BYTES { Err(too_long()) } else { Ok(BatchOp::Put { key, value }) }
            }
            OP_DELETE => Ok(BatchOp::Delete { key }),
            _ => Err(Error::Corrupt { field: Field::Batch, offset: start }),
        }
    }
}

impl<'a> Iterator for BatchOps<'a> {
    /// A write, or [`Error::Corrupt`] with `Field::Batch` for bytes that are not an encoded batch.
    type Item = Result<BatchOp<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_empty() {
            return None;
        }
        let op = self.take();
        if op.is_err() {
            self.cursor = Cursor::new(&[], self.cursor.offset());
        }
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put(b"key", b"value").unwrap();
        batch.delete(b"").unwrap();
        batch.put(b"", b"").unwrap();
        batch.put(&[b'k'; 300], &[b'v'; 20_000]).unwrap();
        batch.delete(b"gone").unwrap();
        batch
    }

    #[test]
    fn writes_come_back_in_order_with_empty_keys_and_values() {
        let batch = sample();
        let ops: Vec<_> = batch.iter().map(|op| op.unwrap()).map(|op| (op.key(), op.value())).collect();
        assert_eq!(ops.len(), batch.len());
        assert_eq!(ops[0], (b"key".as_slice(), Some(b"value".as_slice())));
        assert_eq!(ops[1..3], [(b"".as_slice(), None), (b"".as_slice(), Some(b"".as_slice()))]);
        assert_eq!((ops[3].0.len(), ops[3].1.unwrap().len()), (300, 20_000));
        assert_eq!(ops[4], (b"gone".as_slice(), None));
    }

    #[test]
    fn a_cleared_batch_is_empty() {
        let mut batch = sample();
        assert!(!batch.is_empty());
        batch.clear();
        assert_eq!((batch.is_empty(), batch.len(), batch.len_bytes(), batch.iter().count()), (true, 0, 0, 0));
        assert_eq!(batch, WriteBatch::new());
    }

    #[test]
    fn a_key_or_value_over_its_limit_is_refused_and_changes_nothing() {
        let mut batch = sample();
        let before = batch.clone();
        let key = vec![0; MAX_KEY_LEN_BYTES + 1];
        for error in [batch.put(&key, b"").unwrap_err(), batch.delete(&key).unwrap_err()] {
            assert!(matches!(error, Error::KeyTooLong { len_bytes: 65_537, max_bytes: 65_536 }), "{error}");
        }
        // The test never reads or writes this value, so it usually takes no physical memory.
        let value = vec![0; MAX_VALUE_LEN_BYTES + 1];
        assert!(matches!(batch.put(b"", &value).unwrap_err(), Error::InvalidArgument { what: "value", .. }));
        assert_eq!(batch, before);
        batch.put(&key[1..], b"").unwrap();
        assert_eq!(batch.iter().last().unwrap().unwrap().key().len(), MAX_KEY_LEN_BYTES);
    }

    #[test]
    fn the_limits_of_a_batch_count_every_byte_and_write() {
        let (key, value) = ([b'k'; 300], [b'v'; 20_000]);
        for value in [None, Some(&value[..0]), Some(&value[..1]), Some(&value[..])] {
            for key in [&key[..0], &key[..127], &key[..128], &key[..]] {
                let mut batch = WriteBatch::new();
                match value {
                    Some(value) => batch.put(key, value).unwrap(),
                    None => batch.delete(key).unwrap(),
                }
                let room = MAX_BATCH_LEN_BYTES - batch.len_bytes();
                let value_len = value.map(<[u8]>::len);
                check(room, MAX_BATCH_WRITES - 1, key, value_len).unwrap();
                for (len_bytes, num_writes) in [(room + 1, 1), (room, MAX_BATCH_WRITES)] {
                    let error = check(len_bytes, num_writes, key, value_len).unwrap_err();
                    assert!(matches!(error, Error::InvalidArgument { what: "batch", .. }), "{error}");
                }
            }
        }
    }

    #[test]
    fn truncated_or_foreign_bytes_end_in_exactly_one_error() {
        let mut batch = WriteBatch::new();
        batch.put(b"key", b"value").unwrap();
        batch.delete(b"gone").unwrap();
        let whole = batch.encoded();
        for len in 0..whole.len() {
            let results: Vec<_> = BatchOps::new(&whole[..len], 100).collect();
            let errors: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
            assert_eq!(errors.len(), usize::from(len != 0 && len != 11), "{len}");
            assert!(
                errors
                    .iter()
                    .all(|error| matches!(error, Error::Corrupt { field: Field::Batch, offset } if *offset >= 100))
            );
        }
        for op in (0..=u8::MAX).filter(|op| ![OP_PUT, OP_DELETE].contains(op)) {
            let bytes = [op, 0, 0];
            let results: Vec<_> = BatchOps::new(&bytes, 5).collect();
            assert!(matches!(results[..], [Err(Error::Corrupt { field: Field::Batch, offset: 5 })]));
        }
        let mut long = vec![OP_DELETE];
        put_bytes(&mut long, &vec![0; MAX_KEY_LEN_BYTES + 1]);
        assert!(BatchOps::new(&long, 0).next().unwrap().is_err());
    }
}
