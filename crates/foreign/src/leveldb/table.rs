//! Reads LevelDB's tables (`.ldb`, in old versions `.sst`): finds the filters, and asks the filters
//! that may hold a key.
//!
//! ```text
//! data block*  filter block  metaindex block  index block  footer
//! footer = metaindex handle  index handle  zeros, 40 bytes in all  magic (8)
//! ```
//! If the keys ascend bytewise, a query finds the data block of a key in the index, and asks the
//! filter of this block. Otherwise it asks all filters.
//!
//! A table states neither the order of its keys nor whether it belongs to a database. In a table of
//! a database, eight bytes follow each user key, and the filters do not have these bytes. A wrong
//! guess would deny present keys. So the reader asks once for each form that the index, the first
//! data block and its filter allow.

use std::ops::Range;

use crate::ForeignFilterInfo;
use crate::block::Block;
use crate::block_checksum::BlockChecksum;
use crate::compression::Codec;
use crate::error::{Error, Field, Result};
use crate::index::{IndexCheck, KeyForm, check_index, once};
use crate::stored::{BlockHandle, Blocks, Content, StoredBlock, Verified};
use filterblock::internals::codec::{Cursor, u64_from};
use filterblock::{HashSeed, KeyHasher};

use super::filter_block::LevelDbFilterBlock;
use super::policy::Policy;

/// The magic: the last eight bytes of a table.
pub(super) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
pub(super) const FOOTER_LEN_BYTES: usize = 48;
pub(super) const HANDLES_LEN_BYTES: usize = 40;

/// The prefix of the filter block's key in the metaindex. The name of the policy follows.
pub(super) const FILTER_PREFIX: &str = "filter.";

/// A table of LevelDB over `bytes`, which may be a memory map. Filters and an uncompressed index
/// are read in place.
///
/// Opening checks footer, metaindex, index and the filter block of a known policy. It reads the
/// first data block only to determine the form and the order of the keys. [`Self::verify`] and
/// [`Self::for_each_key`] check the data blocks.
#[derive(Debug, Clone)]
pub struct LevelDbTable<D> {
    bytes: D,
    footer_offset: usize,
    index: Content,
    index_offset: u64,
    num_data_blocks: u64,
    last_block_offset: u64,
    policy_name: Option<String>,
    filter: Option<Range<usize>>,
    policy: Policy,
    readings: Vec<Reading>,
}

/// A possible form of the keys, and whether the keys ascend in this form.
#[derive(Debug, Clone, Copy)]
struct Reading {
    form: KeyForm,
    is_ascending: bool,
}

/// One filter of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelDbFilterRange {
    /// The offset of the filter in the file.
    pub offset: u64,
    /// The length of the filter in bytes. An empty filter holds no key.
    pub len_bytes: u64,
    /// The range of file offsets at which the data blocks of the filter begin.
    pub data_blocks: Range<u64>,
}

impl<D: AsRef<[u8]>> LevelDbTable<D> {
    /// Opens a table, and determines the form of its keys.
    ///
    /// # Errors
    /// Returns an error if footer, metaindex, index or the filter block is damaged. Returns
    /// `Unsupported` if the filter block is compressed, if metaindex or index has an unknown
    /// compression, and for tables of RocksDB's `format_version` 0.
    pub fn open(bytes: D) -> Result<Self> {
        Self::open_with(bytes, None, &KeyHasher::xxh3(HashSeed(0)))
    }

    /// Opens a table whose keys have the given form.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`], and `Corrupt` if a key of the index is too short for
    /// the form.
    pub fn open_as(bytes: D, form: KeyForm) -> Result<Self> {
        Self::open_with(bytes, Some(form), &KeyHasher::xxh3(HashSeed(0)))
    }

    /// Opens a table whose keys have the given form. For `None`, determines the form as
    /// [`Self::open`] does.
    ///
    /// Filters of this crate in the compact form (policy [`NATIVE_POLICY`](super::NATIVE_POLICY))
    /// do not store the hasher of their keys, so the caller gives it in `hasher`. [`Self::open`]
    /// and [`Self::open_as`] assume XXH3 under seed 0.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open_as`].
    pub fn open_with(bytes: D, form: Option<KeyForm>, hasher: &KeyHasher) -> Result<Self> {
        let mut table = Self::open_unread(bytes, hasher)?;
        table.readings = table.read_forms(form)?;
        Ok(table)
    }

    /// Changes the hasher of filters in the compact form, and sets the form of the keys again: see
    /// [`Self::open_with`]. A table without such filters does not change.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open_as`]. After an error, the table is unchanged.
    pub fn set_hasher(&mut self, hasher: &KeyHasher, form: Option<KeyForm>) -> Result<()> {
        let Policy::Native(known) = &mut self.policy else { return Ok(()) };
        // The forms depend on the answers of the filters, so they are read under the new hasher.
        let previous = std::mem::replace(known, hasher.clone());
        match self.read_forms(form) {
            Ok(readings) => self.readings = readings,
            Err(error) => {
                self.policy = Policy::Native(previous);
                return Err(error);
            }
        }
        Ok(())
    }

    fn read_forms(&self, form: Option<KeyForm>) -> Result<Vec<Reading>> {
        form.map_or_else(|| self.find_readings(), |form| Ok(vec![self.reading(form)?]))
    }

    fn open_unread(bytes: D, hasher: &KeyHasher) -> Result<Self> {
        let file = bytes.as_ref();
        let corrupt = |field| Error::Corrupt { field, offset: 0 };
        let footer_offset = file.len().checked_sub(FOOTER_LEN_BYTES).ok_or_else(|| corrupt(Field::Length))?;
        let mut footer = Cursor::new(file.get(footer_offset..).unwrap_or_default(), footer_offset as u64);
        let mut handles = Cursor::new(footer.take(HANDLES_LEN_BYTES, Field::Footer)?, footer_offset as u64);
        let magic = footer.clone();
        if footer.take_u64(Field::Magic)? != MAGIC {
            return Err(magic.corrupt(Field::Magic).into());
        }
        let (metaindex, index) = (BlockHandle::take(&mut handles)?, BlockHandle::take(&mut handles)?);
        let blocks = Blocks::new(file, footer_offset, BlockChecksum::LEVELDB);
        let (policy_name, filter) = find_filter(&blocks, metaindex, hasher)?;
        let (filter, policy) = match filter {
            Some((handle, policy)) => (Some(blocks.read(handle, Field::FilterBlock)?.plain_range()?), policy),
            None => (None, Policy::Builtin),
        };
        let index_content = unpack(blocks.read(index, Field::IndexBlock)?)?;
        let mut table = Self {
            footer_offset,
            index: index_content,
            index_offset: index.offset,
            num_data_blocks: 0,
            last_block_offset: 0,
            policy_name,
            filter,
            policy,
            readings: Vec::new(),
            bytes,
        };
        let found = table.check_index(KeyForm::User)?;
        (table.num_data_blocks, table.last_block_offset) = (found.len, found.last_offset);
        Ok(table)
    }

    fn check_index(&self, form: KeyForm) -> Result<IndexCheck> {
        check_index(self.index()?, form, 0, self.footer_offset as u64, |_| Ok(()))
    }

    fn index(&self) -> Result<Block<'_>> {
        Block::leveldb(self.index.of(self.bytes.as_ref()), self.index_offset)
    }

    fn blocks(&self) -> Blocks<'_> {
        Blocks::new(self.bytes.as_ref(), self.footer_offset, BlockChecksum::LEVELDB)
    }

    fn data_block(&self, handle: BlockHandle) -> Result<Content> {
        unpack(self.blocks().read(handle, Field::DataBlock)?)
    }

    fn block_keys(&self, handle: BlockHandle, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let content = self.data_block(handle)?;
        let block = Block::leveldb(content.of(self.bytes.as_ref()), handle.offset)?;
        block.check(|cursor| each(cursor.key()))
    }

    fn first_handle(&self) -> Result<Option<BlockHandle>> {
        let mut cursor = self.index()?.cursor();
        if cursor.advance()? { cursor.handle().map(Some) } else { Ok(None) }
    }

    /// Returns whether the keys of the first data block ascend, or `true` without data blocks.
    fn first_keys_ascend(&self, form: KeyForm) -> Result<bool> {
        let Some(handle) = self.first_handle()? else { return Ok(true) };
        let (mut last, mut is_ascending) = (None::<Vec<u8>>, true);
        self.block_keys(handle, |key| {
            is_ascending &= last.as_ref().is_none_or(|last| form.order(last, key).is_lt());
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            Ok(())
        })?;
        Ok(is_ascending)
    }

    /// Returns the form, and whether the keys of the index and of the first data block ascend in
    /// it. If the first block cannot be read, the keys count as not ascending.
    fn reading(&self, form: KeyForm) -> Result<Reading> {
        let is_ascending = self.check_index(form)?.is_ascending && self.first_keys_ascend(form).unwrap_or(false);
        Ok(Reading { form, is_ascending })
    }

    /// Returns the forms that neither the index, nor the first data block, nor its filter rules
    /// out. A first block that cannot be read rules out no form.
    fn find_readings(&self) -> Result<Vec<Reading>> {
        let mut looks_internal = true;
        check_index(self.index()?, KeyForm::User, 0, self.footer_offset as u64, |cursor| {
            looks_internal &= KeyForm::looks_internal(cursor.key());
            Ok(())
        })?;
        let mut fits = [looks_internal, true];
        let forms = [KeyForm::Internal, KeyForm::User];
        if let Some(handle) = self.first_handle()? {
            let asked = self.block_keys(handle, |key| {
                fits[0] &= KeyForm::looks_internal(key);
                for (fits, form) in fits.iter_mut().zip(forms) {
                    let user_key = form.user_key(key);
                    *fits = *fits && user_key.is_some_and(|key| self.block_may_contain(handle, key));
                }
                Ok(())
            });
            if asked.is_err() {
                fits = [looks_internal, true];
            }
        }
        let mut readings = Vec::new();
        for (form, _) in forms.into_iter().zip(fits).filter(|(_, fits)| *fits) {
            readings.push(self.reading(form)?);
        }
        Ok(readings)
    }

    /// Returns whether the table may contain `user_key`. If both forms of the keys are possible,
    /// the answer is "absent" only if it is "absent" in both forms. The answer is "maybe" if a
    /// needed filter is missing or unusable, if no form is possible, and after an error.
    #[must_use]
    pub fn may_contain(&self, user_key: &[u8]) -> bool {
        self.readings.is_empty() || self.readings.iter().any(|reading| self.ask(*reading, user_key))
    }

    fn ask(&self, reading: Reading, user_key: &[u8]) -> bool {
        if !reading.is_ascending {
            return self.ask_all(user_key);
        }
        match self.find_block(reading.form, user_key) {
            Ok(None) => false,
            Ok(Some(handle)) => self.block_may_contain(handle, user_key),
            Err(_) => true,
        }
    }

    fn find_block(&self, form: KeyForm, user_key: &[u8]) -> Result<Option<BlockHandle>> {
        let index = self.index()?;
        // The newest version of a key comes before all its other versions, so it is enough to
        // compare user keys.
        let is_before =
            |key: &[u8]| form.user_key(key).map(|key| key < user_key).ok_or_else(|| index.corrupt(Field::Key));
        index.seek(is_before)?.map(|cursor| cursor.handle()).transpose()
    }

    fn block_may_contain(&self, handle: BlockHandle, user_key: &[u8]) -> bool {
        let ask = |filter: &[u8]| self.policy.may_contain(filter, user_key);
        self.known_filter_block().is_none_or(|block| block.ask(handle.offset, ask))
    }

    fn ask_all(&self, user_key: &[u8]) -> bool {
        let Some(block) = self.known_filter_block() else { return true };
        let ask = |filter: &[u8]| self.policy.may_contain(filter, user_key);
        // The filters cover the file from its start: if the last data block has a filter, all data
        // blocks have one.
        !block.reaches(self.last_block_offset)
            || (0..block.len()).any(|number| block.filter_bytes(number).is_none_or(ask))
    }

    /// Returns the block of LevelDB's own filters, or `None` if the table has no filter block or
    /// another policy.
    #[must_use]
    pub fn filter_block(&self) -> Option<LevelDbFilterBlock<'_>> {
        self.known_filter_block().filter(|_| matches!(self.policy, Policy::Builtin))
    }

    /// Returns the filter block, or `None` if the table has none or the policy is unknown.
    fn known_filter_block(&self) -> Option<LevelDbFilterBlock<'_>> {
        self.bytes.as_ref().get(self.filter.clone()?).map(LevelDbFilterBlock::new)
    }

    /// Returns whether the table has filters that queries ask: filters of LevelDB, or filters of
    /// this crate in the compact form.
    #[must_use]
    pub fn has_known_filters(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns whether the table has filters of this crate in the compact form (policy
    /// [`NATIVE_POLICY`](super::NATIVE_POLICY)).
    #[must_use]
    pub fn has_native_filters(&self) -> bool {
        self.filter.is_some() && matches!(self.policy, Policy::Native(_))
    }

    /// Returns the number of filters that are not empty, and the number of unusable filters among
    /// them. It counts only filters of a known policy with valid offsets. An unusable filter is
    /// damaged or of an unknown kind, or its keys were hashed by another hasher. The method may
    /// read all filters.
    #[must_use]
    pub fn count_unusable_filters(&self) -> (u64, u64) {
        let Some(block) = self.known_filter_block() else { return (0, 0) };
        let filters = (0..block.len()).filter_map(|number| block.filter_bytes(number));
        let filters = filters.filter(|filter| !filter.is_empty());
        filters.fold((0, 0), |(all, unusable), filter| (all + 1, unusable + u64::from(!self.policy.can_use(filter))))
    }

    /// Returns the name of the filter policy, known or unknown, or `None` if the table names none.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        self.policy_name.as_deref()
    }

    /// Returns the form of the keys, or `None` unless exactly one form is possible: see
    /// [`Self::key_forms`].
    #[must_use]
    pub fn key_form(&self) -> Option<KeyForm> {
        if let [reading] = self.readings[..] { Some(reading.form) } else { None }
    }

    /// Returns the possible forms of the keys. There is none if the filter denies a key of the
    /// first data block in every form that the stored keys allow.
    pub fn key_forms(&self) -> impl Iterator<Item = KeyForm> {
        self.readings.iter().map(|reading| reading.form)
    }

    /// Returns the number of data blocks.
    #[must_use]
    pub fn num_data_blocks(&self) -> u64 {
        self.num_data_blocks
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Returns the properties of the filter at a location from [`Self::filters`]. Reads all bytes
    /// of the filter.
    #[must_use]
    pub fn filter_info(&self, place: &LevelDbFilterRange) -> ForeignFilterInfo {
        let bytes = || {
            let start = usize::try_from(place.offset).ok()?;
            self.bytes.as_ref().get(start..start.checked_add(usize::try_from(place.len_bytes).ok()?)?)
        };
        // A location of another table may be outside the file.
        bytes().map_or_else(|| ForeignFilterInfo::constant("unknown", 0, 1.0), |filter| self.policy.info(filter))
    }

    /// Returns the location of each filter of a known policy, including empty filters. Skips
    /// filters with invalid offsets.
    pub fn filters(&self) -> impl Iterator<Item = LevelDbFilterRange> {
        let place = self.filter.clone().unwrap_or_default();
        self.known_filter_block().into_iter().flat_map(move |block| {
            (0..block.len()).filter_map(move |number| {
                let range = block.range(number)?;
                let (offset, len_bytes) = ((place.start + range.start) as u64, range.len() as u64);
                Some(LevelDbFilterRange { offset, len_bytes, data_blocks: block.covers(number) })
            })
        })
    }

    /// Calls `each` with every user key of the table, in order. Adjacent versions of one key count
    /// once.
    ///
    /// # Errors
    /// Returns an error if a data block is damaged, has an unknown compression, or has a key that
    /// is too short for the form. Returns `Invalid` if [`Self::key_form`] returns `None`, and after
    /// the last key if the keys or the filter contradict a stated form: then discard the keys that
    /// `each` got. Also returns any error that `each` returns.
    pub fn for_each_key(&self, each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.readings.len() > 1 {
            // In the wrong form, every key differs from the user's key, so a filter of these keys
            // would deny present keys.
            return Err(form_unknown(
                "the file does not say whether its keys are user keys or internal keys; state the form of its keys",
            ));
        }
        let (mut each, mut keys, mut numbered, mut plausible) = (once(each), 0_u64, 0, 0);
        self.for_each_version(|user_key, stored| {
            // Type and sequence number, in little-endian byte order. No database has made 2^48 changes, and
            // the first change has number 1. So user keys that are padded with zeros are not numbered.
            let number = if let Some([0 | 1, number @ .., 0]) = stored.last_chunk::<8>() { Some(number) } else { None };
            keys += 1;
            plausible += u64::from(number.is_some());
            numbered += u64::from(number.is_some_and(|number| number.iter().any(|&byte| byte != 0)));
            each(user_key)
        })?;
        // A filter of keys in the wrong form would deny present keys, so a stated form is checked: by the table's
        // own keys and filter, and if both forms fit, by the last bytes of all keys.
        let (form, fitting) = (self.key_form(), self.find_readings()?);
        let only = if let [only] = fitting[..] { Some(only.form) } else { None };
        match form {
            _ if form == only => Ok(()),
            Some(KeyForm::User) if only.is_some() || (keys > 0 && numbered == keys) => Err(form_unknown(
                "the stored keys end in types and sequence numbers, so the keys are internal keys; state this form",
            )),
            Some(KeyForm::Internal) if only.is_some() || plausible < keys => Err(form_unknown(
                "not every key ends in a type and a sequence number below 2^48, or the table's filter denies the keys without \
                 them, so the keys are user keys; state this form",
            )),
            _ => Ok(()),
        }
    }

    /// Calls `each` with every user key, once per stored version, in the first possible form, and with
    /// the stored key. Returns the number of data blocks.
    fn for_each_version(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<u64> {
        let form = self.readings.first().map(|reading| reading.form).ok_or_else(|| {
            form_unknown(
                "the table's filter denies a key of the first data block in every possible form of the keys (user keys, \
                 internal keys), so the filter does not fit the table; do not use the filter; to read the keys, state \
                 their form",
            )
        })?;
        let (mut cursor, mut blocks) = (self.index()?.cursor(), 0);
        while cursor.advance()? {
            let handle = cursor.handle()?;
            self.block_keys(handle, |key| {
                let corrupt = || Error::Corrupt { field: Field::Key, offset: handle.offset };
                each(form.user_key(key).ok_or_else(corrupt)?, key)
            })?;
            blocks += 1;
        }
        Ok(blocks)
    }

    /// Reads every data block, and asks the table for each of its keys. If both forms of keys are
    /// possible, the method treats the keys as internal keys.
    ///
    /// # Errors
    /// Returns the error of the first data block that is damaged, has an unknown compression, or
    /// has a key that is too short for the form. Returns `Invalid` if [`Self::key_forms`] returns
    /// no form. Returns `Corrupt` if queries can use some but not all filters in the compact form.
    /// If queries can use none of these filters, the hasher may be wrong, and the method returns no
    /// error: see [`Self::count_unusable_filters`].
    pub fn verify(&self) -> Result<Verified> {
        if let (all, unusable @ 1..) = self.count_unusable_filters()
            && unusable < all
        {
            let offset = self.filter.clone().unwrap_or_default().start as u64;
            return Err(Error::Corrupt { field: Field::FilterBlock, offset });
        }
        let (mut keys, mut denied_keys) = (0, 0);
        let data_blocks = self.for_each_version(|key, _| {
            keys += 1;
            denied_keys += u64::from(!self.may_contain(key));
            Ok(())
        })?;
        // Opening the table has checked metaindex, index and filter block.
        Ok(Verified { blocks: data_blocks + 2 + u64::from(self.filter.is_some()), keys, denied_keys })
    }
}

pub(crate) fn has_magic(file: &[u8]) -> bool {
    file.last_chunk().is_some_and(|magic| u64_from(magic) == MAGIC)
}

fn form_unknown(reason: &'static str) -> Error {
    Error::invalid("key form", "unknown", reason)
}

/// Returns the name of the filter policy, or `None` if the metaindex names none. If the policy is
/// known, also returns the handle of the filter block, and the rules of the policy.
#[expect(clippy::type_complexity, reason = "one caller takes the pair apart")]
fn find_filter(
    blocks: &Blocks<'_>,
    metaindex: BlockHandle,
    hasher: &KeyHasher,
) -> Result<(Option<String>, Option<(BlockHandle, Policy)>)> {
    let content = unpack(blocks.read(metaindex, Field::Metaindex)?)?;
    let (mut policy_name, mut filter) = (None, None);
    Block::leveldb(content.of(blocks.bytes()), metaindex.offset)?.check(|cursor| {
        // RocksDB's `format_version` 0 has the same magic, but other entry types and other numbers
        // for the compressions.
        if cursor.key().starts_with(b"rocksdb.") {
            return Err(Error::Unsupported { field: Field::Version, found: 0 });
        }
        if let Some(name) = cursor.key().strip_prefix(FILTER_PREFIX.as_bytes()) {
            policy_name = Some(String::from_utf8_lossy(name).into_owned());
            if let Some(policy) = Policy::from_name(name, hasher) {
                filter = Some((cursor.handle()?, policy));
            }
        }
        Ok(())
    })?;
    Ok((policy_name, filter))
}

fn unpack(stored: StoredBlock<'_>) -> Result<Content> {
    let codec = match stored.compression {
        0 => return stored.plain_range().map(Content::InFile),
        1 => Codec::Snappy,
        2 => Codec::Zstd,
        other => return Err(Error::Unsupported { field: Field::Compression, found: u64::from(other) }),
    };
    codec.unpack(stored.content, None, stored.offset).map(Content::Unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leveldb::{LevelDbTableOptions, LevelDbTableWriter};

    #[test]
    fn a_table_of_a_database_is_written_as_by_leveldb() {
        let golden = std::fs::read("../../tests/golden/foreign/leveldb/db-n1500.ldb").unwrap();
        let table = LevelDbTable::open(&golden[..]).unwrap();
        let mut writer = LevelDbTableWriter::new(Vec::new(), LevelDbTableOptions::default());
        let mut index = table.index().unwrap().cursor();
        while index.advance().unwrap() {
            let content = table.data_block(index.handle().unwrap()).unwrap();
            let block = Block::leveldb(content.of(&golden), 0).unwrap();
            block.check(|entry| writer.add(entry.key(), entry.value())).unwrap();
        }
        assert!(writer.finish().unwrap().0 == golden, "the bytes differ");
    }

    #[test]
    fn a_refused_hasher_leaves_the_table_unchanged() {
        let options = LevelDbTableOptions { keys: KeyForm::User, ..LevelDbTableOptions::default() };
        let mut writer = LevelDbTableWriter::new(Vec::new(), options);
        writer.add(b"key", b"value").unwrap();
        let mut table = LevelDbTable::open_as(writer.finish().unwrap().0, KeyForm::User).unwrap();
        let (used, refused) = (KeyHasher::xxh3(HashSeed(7)), KeyHasher::xxh3(HashSeed(8)));
        table.policy = Policy::Native(used.clone());
        // The key is too short for an internal key.
        assert!(table.set_hasher(&refused, Some(KeyForm::Internal)).unwrap_err().is_damage());
        let Policy::Native(known) = &table.policy else { panic!("the policy changed") };
        assert_eq!(known.identity(), used.identity());
        assert_eq!(table.key_form(), Some(KeyForm::User));
    }
}
