//! Writes whole tables byte for byte as LevelDB 1.23 does without compression.

use std::io::Write;

use crate::block::BlockBuilder;
use crate::block_checksum::masked_crc32c;
use crate::error::{Error, Result};
use crate::index::KeyForm;
use crate::stored::{BlockHandle, TRAILER_LEN_BYTES};
use filterblock::internals::codec::{put_u32, put_u64, u64_bytes};

use super::filter_block::LevelDbFilterBlockBuilder;
use super::policy::BUILTIN;
use super::table::{FILTER_PREFIX, FOOTER_LEN_BYTES, HANDLES_LEN_BYTES, MAGIC};

/// The tag with the greatest sequence number and the type of a value (not of a deletion). A user
/// key with this tag sorts before all versions of the user key.
const SEEK_TAG: u64 = u64::MAX << 8 | 1;

/// The options of a table. The defaults are LevelDB's, with a filter of 10 bits per key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelDbTableOptions {
    /// The length of a data block in bytes, without its trailer. A block ends after the entry with
    /// which it reaches this length.
    pub block_size_bytes: usize,
    /// The number of entries from one restart point of a data block to the next. 0 counts as 1.
    pub restart_interval: usize,
    /// The bits per key of the filters, or `None` for a table without filters.
    pub bits_per_key: Option<u32>,
    /// The form of the added keys. Filters get the user keys.
    pub keys: KeyForm,
}

impl Default for LevelDbTableOptions {
    fn default() -> Self {
        Self { block_size_bytes: 4096, restart_interval: 16, bits_per_key: Some(10), keys: KeyForm::Internal }
    }
}

/// Writes a table to `out` as keys arrive. Call [`Self::add`] for each entry in ascending order of
/// the keys. Add the versions of a key from the newest to the oldest. Then call [`Self::finish`].
#[derive(Debug)]
pub struct LevelDbTableWriter<W> {
    out: W,
    options: LevelDbTableOptions,
    offset: u64,
    data: BlockBuilder,
    index: BlockBuilder,
    filter: Option<LevelDbFilterBlockBuilder>,
    last_key: Option<Vec<u8>>,
    /// The last written data block, if it is not in the index yet. Its separator depends on the
    /// first key of the next block.
    unindexed: Option<BlockHandle>,
}

impl<W: Write> LevelDbTableWriter<W> {
    /// Starts a table without keys.
    #[must_use]
    pub fn new(out: W, options: LevelDbTableOptions) -> Self {
        Self {
            out,
            options,
            offset: 0,
            data: BlockBuilder::new(options.restart_interval),
            index: BlockBuilder::new(1),
            filter: options.bits_per_key.map(LevelDbFilterBlockBuilder::new),
            last_key: None,
            unindexed: None,
        }
    }

    /// Adds an entry. The key must have the form that [`LevelDbTableOptions::keys`] names.
    ///
    /// # Errors
    /// * `OutOfOrder`: the key does not come after the previous key. The table is unchanged.
    /// * `Invalid`: the key is too short for the form, or its data block or the index would exceed
    ///   4 GiB. The table is unchanged.
    /// * `Invalid`: the filters exceed 4 GiB. The table cannot be finished.
    /// * Any error of `out`. The table is incomplete; write it again.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let form = self.options.keys;
        let user_key = form.user_key(key).ok_or_else(|| {
            let reason = "an internal key ends with eight bytes of sequence number and type; append them, or \
                          write a table of user keys";
            Error::invalid("key", String::from_utf8_lossy(key), reason)
        })?;
        if self.last_key.as_ref().is_some_and(|last| form.order(last, key).is_ge()) {
            return Err(Error::OutOfOrder);
        }
        // Check the space before any change, so that a refused entry changes nothing.
        self.data.check_space(key, value)?;
        if let (Some(handle), Some(last)) = (self.unindexed, &self.last_key) {
            add_to_index(&mut self.index, &separator(form, last, key), handle)?;
            self.unindexed = None;
        }
        if let Some(filter) = &mut self.filter {
            filter.add(user_key);
        }
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        self.data.add(key, value)?;
        if self.data.len_bytes() >= self.options.block_size_bytes { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        self.unindexed = Some(write_block(&mut self.out, &mut self.offset, self.data.finish())?);
        self.data.clear();
        self.filter.as_mut().map_or(Ok(()), |filter| filter.start_block(self.offset))
    }

    /// Ends the table and flushes `out`. Returns `out` and the table's length in bytes.
    ///
    /// # Errors
    /// Returns any error of `out`, and `Invalid` if the index or the filters exceed 4 GiB.
    pub fn finish(mut self) -> Result<(W, u64)> {
        self.end_block()?;
        let mut metaindex = BlockBuilder::new(self.options.restart_interval);
        if let Some(filter) = self.filter.take() {
            let handle = write_block(&mut self.out, &mut self.offset, &filter.finish()?)?;
            add_handle(&mut metaindex, format!("{FILTER_PREFIX}{BUILTIN}").as_bytes(), handle)?;
        }
        let metaindex = write_block(&mut self.out, &mut self.offset, metaindex.finish())?;
        if let (Some(handle), Some(last)) = (self.unindexed.take(), &self.last_key) {
            add_to_index(&mut self.index, &successor(self.options.keys, last), handle)?;
        }
        let index = write_block(&mut self.out, &mut self.offset, self.index.finish())?;
        let mut footer = Vec::with_capacity(FOOTER_LEN_BYTES);
        metaindex.put(&mut footer);
        index.put(&mut footer);
        footer.resize(HANDLES_LEN_BYTES, 0);
        put_u64(&mut footer, MAGIC);
        self.out.write_all(&footer)?;
        self.out.flush()?;
        Ok((self.out, self.offset + footer.len() as u64))
    }
}

fn add_to_index(index: &mut BlockBuilder, key: &[u8], handle: BlockHandle) -> Result<()> {
    add_handle(index, key, handle).map_err(|_| {
        let reason = "its index block exceeds 4 GiB, the limit of its 32-bit offsets; write smaller tables";
        Error::invalid("table", "LevelDB", reason)
    })
}

fn add_handle(block: &mut BlockBuilder, key: &[u8], handle: BlockHandle) -> Result<()> {
    let mut value = Vec::new();
    handle.put(&mut value);
    block.add(key, &value)
}

/// Writes a block uncompressed, with its trailer.
fn write_block(out: &mut impl Write, offset: &mut u64, content: &[u8]) -> Result<BlockHandle> {
    let handle = BlockHandle { offset: *offset, len_bytes: content.len() as u64 };
    let mut stored = Vec::with_capacity(content.len() + 5);
    stored.extend_from_slice(content);
    stored.push(0);
    let checksum = masked_crc32c(&stored);
    put_u32(&mut stored, checksum);
    out.write_all(&stored)?;
    *offset += handle.len_bytes + TRAILER_LEN_BYTES;
    Ok(handle)
}

/// Returns a short key that is at least `last` and less than `next`. `next` is greater than `last`.
fn separator(form: KeyForm, last: &[u8], next: &[u8]) -> Vec<u8> {
    shortened(form, last, |last| {
        let next = form.user_key(next).unwrap_or_default();
        let (at, (low, high)) = last.iter().zip(next).enumerate().find(|(_, (low, high))| low != high)?;
        (low.checked_add(1)? < *high).then_some(at)
    })
}

/// Returns a short key that is at least `last`.
fn successor(form: KeyForm, last: &[u8]) -> Vec<u8> {
    shortened(form, last, |last| last.iter().position(|&byte| byte != u8::MAX))
}

/// Truncates the user part of the key after the byte that `find` chooses, and adds one to that
/// byte. A truncated internal key gets [`SEEK_TAG`]. The key stays whole if `find` returns `None`.
/// An internal key also stays whole if its user part would not become shorter.
fn shortened(form: KeyForm, key: &[u8], find: impl Fn(&[u8]) -> Option<usize>) -> Vec<u8> {
    let user_key = form.user_key(key).unwrap_or_default();
    let cut = find(user_key).and_then(|at| user_key.get(..=at)).map(|front| {
        let mut cut = front.to_vec();
        if let Some(last) = cut.last_mut() {
            *last = last.wrapping_add(1);
        }
        cut
    });
    match (cut, form) {
        (Some(cut), KeyForm::User) => cut,
        (Some(cut), KeyForm::Internal) if cut.len() < user_key.len() => [&cut[..], &u64_bytes(SEEK_TAG)].concat(),
        _ => key.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_as_short_as_leveldb_makes_them() {
        let between = |last: &[u8], next: &[u8]| separator(KeyForm::User, last, next);
        assert_eq!(between(b"abcd", b"abzz"), b"abd");
        assert_eq!(between(b"abc", b"abcd"), b"abc", "one is a prefix of the other");
        assert_eq!(between(b"ab1", b"ab2"), b"ab1", "nothing lies between");
        assert_eq!(between(b"a\xff1", b"b"), b"a\xff1");
        assert_eq!(successor(KeyForm::User, b"\xff\xffab"), b"\xff\xffb");
        assert_eq!(successor(KeyForm::User, b"\xff\xff"), b"\xff\xff");
        let tag = u64_bytes(7 << 8 | 1);
        let key = |user: &[u8]| [user, &tag].concat();
        assert_eq!(
            separator(KeyForm::Internal, &key(b"abcd"), &key(b"abzz")),
            [&b"abd"[..], &[1], &[0xff; 7]].concat()
        );
        assert_eq!(separator(KeyForm::Internal, &key(b"a"), &key(b"c")), key(b"a"), "no shorter");
    }

    #[test]
    fn keys_that_do_not_ascend_are_refused() {
        let options = LevelDbTableOptions { keys: KeyForm::User, ..LevelDbTableOptions::default() };
        let mut writer = LevelDbTableWriter::new(Vec::new(), options);
        writer.add(b"b", b"").unwrap();
        assert!(matches!(writer.add(b"b", b""), Err(Error::OutOfOrder)));
        let mut writer = LevelDbTableWriter::new(Vec::new(), LevelDbTableOptions::default());
        assert!(writer.add(b"short", b"").is_err(), "no suffix");
        writer.add(&[b"k", &u64_bytes(2 << 8 | 1)[..]].concat(), b"").unwrap();
        writer.add(&[b"k", &u64_bytes(1 << 8 | 1)[..]].concat(), b"").unwrap();
        assert!(matches!(writer.add(&[b"k", &u64_bytes(3 << 8 | 1)[..]].concat(), b""), Err(Error::OutOfOrder)));
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn an_entry_over_the_block_limit_changes_nothing() {
        // No code reads these 4 GiB of zeros. A system that refuses to map them skips the test.
        let Ok(too_long) = memmap2::MmapOptions::new().len(1 << 32).no_reserve_swap().map_anon() else { return };
        let write = |tries_too_long| {
            // Each entry ends its block, so the index still lacks the first block at the next
            // entry.
            let options =
                LevelDbTableOptions { keys: KeyForm::User, block_size_bytes: 1, ..LevelDbTableOptions::default() };
            let mut writer = LevelDbTableWriter::new(Vec::new(), options);
            writer.add(b"a", b"1").unwrap();
            if tries_too_long {
                assert!(matches!(writer.add(b"b", &too_long), Err(Error::Invalid { .. })));
            }
            writer.add(b"b", b"2").unwrap();
            writer.finish().unwrap().0
        };
        assert!(write(true) == write(false), "the tables differ");
    }
}
