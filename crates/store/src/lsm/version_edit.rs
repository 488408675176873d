//! The steps by which a store's set of tables changes, and the state that they add up to.

use crate::codec::{Cursor, put_bytes, put_u64, put_varint};
use crate::error::{Error, Field, Result};
use filterblock::{Fingerprint, HashIdentity, HashKind, HashSeed, KeyHasher};

/// File and sequence numbers above this are no store's: it leaves room to count on without a check at each step.
pub(crate) const MAX_NUMBER: u64 = u64::MAX / 2;

/// Beyond this no write is taken, so that a store that was written to can be opened: what is left up to [`MAX_NUMBER`] is
/// for what was acknowledged already, for flushes, compactions and reopening, which at a billion a second take 146 years.
pub(super) const MAX_WRITTEN_NUMBER: u64 = MAX_NUMBER / 2;

/// Number of levels of a store.
pub const NUM_LEVELS: usize = 7;

const TAG_STORE_ID: u64 = 1;
const TAG_HASH_SEED: u64 = 2;
const TAG_LOG_NUMBER: u64 = 3;
const TAG_NEXT_FILE_NUMBER: u64 = 4;
const TAG_LAST_SEQUENCE: u64 = 5;
const TAG_ADDED: u64 = 6;
const TAG_REMOVED: u64 = 7;
const TAG_KEYED_HASH: u64 = 8;

/// What is known of a table without opening it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableMeta {
    /// The number in its name.
    pub number: u64,
    /// Length of the file.
    pub len_bytes: u64,
    /// Entries, tombstones included.
    pub num_entries: u64,
    /// Entries that say that a key is gone.
    pub num_tombstones: u64,
    /// Its first key.
    pub smallest: Vec<u8>,
    /// Its last key.
    pub largest: Vec<u8>,
    /// The oldest write in it.
    pub smallest_sequence: u64,
    /// The newest write in it.
    pub largest_sequence: u64,
}

impl TableMeta {
    /// The smallest and the largest sequence number.
    pub(crate) fn sequences(&self) -> (u64, u64) {
        (self.smallest_sequence, self.largest_sequence)
    }
}

/// The first table of a level that shares keys with one before it; from level 1 on there must be none.
pub(super) fn first_overlap<'a>(level: impl Iterator<Item = &'a TableMeta>) -> Option<&'a TableMeta> {
    let mut tables: Vec<&TableMeta> = level.collect();
    tables.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let mut pairs = tables.iter().zip(tables.iter().skip(1));
    pairs.find(|(left, right)| left.largest >= right.smallest).map(|(_, right)| *right)
}

/// One step: what it names changes, all else stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionEdit {
    /// The store's identity, drawn at its creation.
    pub store_id: Option<[u8; 16]>,
    /// The seed under which keys are hashed.
    pub hash_seed: Option<u64>,
    /// The function that hashes keys under a secret, and the secret's fingerprint; without it that is XXH3 without one.
    pub keyed_hash: Option<(HashKind, Fingerprint)>,
    /// The oldest log whose writes are not all in tables.
    pub log_number: Option<u64>,
    /// The number that the next new file gets.
    pub next_file_number: Option<u64>,
    /// The last sequence number that is in tables.
    pub last_sequence: Option<u64>,
    /// New tables, with their levels.
    pub added: Vec<(u8, TableMeta)>,
    /// Level and number of tables that are no longer needed.
    pub removed: Vec<(u8, u64)>,
}

impl VersionEdit {
    /// The bytes of a manifest record: fields, each a tag and its value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(id) = &self.store_id {
            put_varint(&mut out, TAG_STORE_ID);
            out.extend_from_slice(id);
        }
        if let Some(seed) = self.hash_seed {
            put_varint(&mut out, TAG_HASH_SEED);
            put_u64(&mut out, seed);
        }
        if let Some((kind, fingerprint)) = self.keyed_hash {
            put_varint(&mut out, TAG_KEYED_HASH);
            out.push(kind as u8);
            out.extend_from_slice(&fingerprint.to_bytes());
        }
        let numbers = [
            (TAG_LOG_NUMBER, self.log_number),
            (TAG_NEXT_FILE_NUMBER, self.next_file_number),
            (TAG_LAST_SEQUENCE, self.last_sequence),
        ];
        for (tag, number) in numbers {
            if let Some(number) = number {
                put_varint(&mut out, tag);
                put_varint(&mut out, number);
            }
        }
        for (level, number) in &self.removed {
            put_varint(&mut out, TAG_REMOVED);
            out.push(*level);
            put_varint(&mut out, *number);
        }
        for (level, table) in &self.added {
            put_varint(&mut out, TAG_ADDED);
            out.push(*level);
            let numbers = [table.number, table.len_bytes, table.num_entries, table.num_tombstones];
            numbers.iter().for_each(|&number| put_varint(&mut out, number));
            put_bytes(&mut out, &table.smallest);
            put_bytes(&mut out, &table.largest);
            put_varint(&mut out, table.smallest_sequence);
            put_varint(&mut out, table.largest_sequence);
        }
        out
    }

    /// The edit in the bytes of a manifest record, which lie at `offset` in their file.
    ///
    /// # Errors
    /// `Unsupported { field: ManifestTag, .. }` for a field of a newer version, `Corrupt` for bytes that are no edit, or
    /// that give a single value twice.
    pub fn decode(bytes: &[u8], offset: u64) -> Result<Self> {
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        let edit = Self::decode_with(bytes, offset, &mut |step| {
            match step {
                Step::Added(level, table) => added.push((level, table.to_meta())),
                Step::Removed(level, number) => removed.push((level, number)),
            }
            Ok(())
        })?;
        Ok(Self { added, removed, ..edit })
    }

    /// [`Self::decode`], where `visit` gets what happens to tables and takes memory for it or not: of all that an edit may
    /// hold, it takes the most for each of its bytes.
    pub(super) fn decode_with<'a>(
        bytes: &'a [u8],
        offset: u64,
        visit: &mut dyn FnMut(Step<'a>) -> Result<()>,
    ) -> Result<Self> {
        let mut edit = Self::default();
        let mut cursor = Cursor::new(bytes, offset);
        while !cursor.is_empty() {
            let start = cursor.offset();
            let once = |repeated: bool| {
                let twice = Error::Corrupt { field: Field::ManifestRecord, offset: start };
                if repeated { Err(twice) } else { Ok(()) }
            };
            match cursor.take_varint(Field::ManifestTag)? {
                TAG_STORE_ID => once(edit.store_id.replace(cursor.take_array(Field::StoreId)?).is_some())?,
                TAG_HASH_SEED => once(edit.hash_seed.replace(cursor.take_u64(Field::Seed)?).is_some())?,
                TAG_KEYED_HASH => once(edit.keyed_hash.replace(take_keyed_hash(&mut cursor)?).is_some())?,
                TAG_LOG_NUMBER => once(edit.log_number.replace(cursor.take_varint(Field::FileNumber)?).is_some())?,
                TAG_NEXT_FILE_NUMBER => {
                    once(edit.next_file_number.replace(cursor.take_varint(Field::FileNumber)?).is_some())?;
                }
                TAG_LAST_SEQUENCE => {
                    once(edit.last_sequence.replace(cursor.take_varint(Field::LogSequence)?).is_some())?;
                }
                TAG_ADDED => visit(Step::Added(cursor.take_u8(Field::Level)?, TableRef::take(&mut cursor)?))?,
                TAG_REMOVED => {
                    visit(Step::Removed(cursor.take_u8(Field::Level)?, cursor.take_varint(Field::FileNumber)?))?;
                }
                found => return Err(Error::Unsupported { field: Field::ManifestTag, found }),
            }
        }
        Ok(edit)
    }
}

/// What an edit does to a table.
pub(super) enum Step<'a> {
    /// It is one of that level from now on.
    Added(u8, TableRef<'a>),
    /// The table of that level and number is one no longer.
    Removed(u8, u64),
}

fn take_keyed_hash(cursor: &mut Cursor<'_>) -> Result<(HashKind, Fingerprint)> {
    let error = cursor.corrupt(Field::HashId);
    let id = cursor.take_u8(Field::HashId)?;
    let kind = HashKind::from_id(id).ok_or(Error::Unsupported { field: Field::HashId, found: id.into() })?;
    let fingerprint = Fingerprint::from_bytes(cursor.take_array(Field::HashId)?);
    if kind.is_keyed() { Ok((kind, fingerprint)) } else { Err(error) }
}

/// A [`TableMeta`] without its keys, which are still where they were read from.
pub(super) struct TableRef<'a> {
    pub(super) keyless: TableMeta,
    smallest: &'a [u8],
    largest: &'a [u8],
}

impl<'a> TableRef<'a> {
    fn of(meta: &'a TableMeta) -> Self {
        let keyless = TableMeta { smallest: Vec::new(), largest: Vec::new(), ..*meta };
        Self { keyless, smallest: &meta.smallest, largest: &meta.largest }
    }

    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let number = cursor.take_varint(Field::FileNumber)?;
        let len_bytes = cursor.take_varint(Field::ManifestRecord)?;
        let num_entries = cursor.take_varint(Field::ManifestRecord)?;
        let num_tombstones = cursor.take_varint(Field::ManifestRecord)?;
        let (smallest, largest) = (cursor.take_bytes(Field::Key)?, cursor.take_bytes(Field::Key)?);
        let smallest_sequence = cursor.take_varint(Field::LogSequence)?;
        let largest_sequence = cursor.take_varint(Field::LogSequence)?;
        let numbers = TableMeta { number, len_bytes, num_entries, num_tombstones, ..TableMeta::default() };
        let keyless = TableMeta { smallest_sequence, largest_sequence, ..numbers };
        Ok(Self { keyless, smallest, largest })
    }

    pub(super) fn to_meta(&self) -> TableMeta {
        TableMeta { smallest: self.smallest.to_vec(), largest: self.largest.to_vec(), ..self.keyless.clone() }
    }

    /// # Errors
    /// `Corrupt`, with `offset`, where the edit lies in its file, as of [`StoreState::apply`].
    pub(super) fn check(&self, level: u8, offset: u64) -> Result<()> {
        let corrupt = |field| Err(Error::Corrupt { field, offset });
        if self.smallest > self.largest {
            return corrupt(Field::Key);
        }
        if self.keyless.smallest_sequence > self.keyless.largest_sequence {
            return corrupt(Field::LogSequence);
        }
        if self.keyless.num_tombstones > self.keyless.num_entries {
            return corrupt(Field::ManifestRecord);
        }
        if usize::from(level) >= NUM_LEVELS {
            return corrupt(Field::Level);
        }
        Ok(())
    }
}

/// What a manifest says in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreState {
    /// See [`VersionEdit::store_id`].
    pub store_id: [u8; 16],
    /// See [`VersionEdit::hash_seed`] and [`VersionEdit::keyed_hash`].
    pub hash: HashIdentity,
    /// See [`VersionEdit::log_number`].
    pub log_number: u64,
    /// See [`VersionEdit::next_file_number`].
    pub next_file_number: u64,
    /// See [`VersionEdit::last_sequence`].
    pub last_sequence: u64,
    /// The tables of each of the [`NUM_LEVELS`] levels, in the order of their adding.
    pub levels: Vec<Vec<TableMeta>>,
}

impl Default for StoreState {
    fn default() -> Self {
        Self {
            store_id: [0; 16],
            hash: KeyHasher::xxh3(HashSeed(0)).identity(),
            log_number: 0,
            next_file_number: 0,
            last_sequence: 0,
            levels: vec![Vec::new(); NUM_LEVELS],
        }
    }
}

impl StoreState {
    /// Takes one step: removals first, so that a table can change its level in one edit.
    ///
    /// # Errors
    /// `Corrupt`, with `offset`, where the edit lies in its file: a level above 6, the removal of a table that is not
    /// there, a number that another table has, keys or sequence numbers in the wrong order, more tombstones than
    /// entries, another store's id, or another secret's fingerprint. The state is then of no use.
    pub fn apply(&mut self, edit: &VersionEdit, offset: u64) -> Result<()> {
        let corrupt = |field| Error::Corrupt { field, offset };
        if let Some(id) = edit.store_id {
            if self.store_id != [0; 16] && self.store_id != id {
                return Err(corrupt(Field::StoreId));
            }
            self.store_id = id;
        }
        self.hash.seed = edit.hash_seed.map_or(self.hash.seed, HashSeed);
        if let Some((kind, fingerprint)) = edit.keyed_hash {
            if self.hash.fingerprint.is_some_and(|known| (self.hash.kind, known) != (kind, fingerprint)) {
                return Err(corrupt(Field::HashId));
            }
            (self.hash.kind, self.hash.fingerprint) = (kind, Some(fingerprint));
        }
        self.log_number = edit.log_number.unwrap_or(self.log_number);
        self.next_file_number = edit.next_file_number.unwrap_or(self.next_file_number);
        self.last_sequence = edit.last_sequence.unwrap_or(self.last_sequence);
        edit.removed.iter().try_for_each(|&(level, number)| match self.remove(level, number, offset)? {
            true => Ok(()),
            false => Err(corrupt(Field::FileNumber)),
        })?;
        edit.added.iter().try_for_each(|(level, table)| self.add(*level, &TableRef::of(table), offset))?;
        if edit.added.is_empty() { Ok(()) } else { self.check_numbers(offset) }
    }

    /// Whether the table was there.
    ///
    /// # Errors
    /// As of [`Self::apply`].
    pub(super) fn remove(&mut self, level: u8, number: u64, offset: u64) -> Result<bool> {
        let level = self.levels.get_mut(usize::from(level));
        let tables = level.ok_or(Error::Corrupt { field: Field::Level, offset })?;
        let place = tables.iter().position(|table| table.number == number);
        place.into_iter().for_each(|place| drop(tables.remove(place)));
        Ok(place.is_some())
    }

    /// # Errors
    /// As of [`Self::apply`], but for the table's number: [`Self::check_numbers`] compares those.
    pub(super) fn add(&mut self, level: u8, table: &TableRef<'_>, offset: u64) -> Result<()> {
        table.check(level, offset)?;
        self.levels.get_mut(usize::from(level)).into_iter().for_each(|tables| tables.push(table.to_meta()));
        Ok(())
    }

    /// No two tables have one number.
    ///
    /// # Errors
    /// As of [`Self::apply`].
    pub(super) fn check_numbers(&self, offset: u64) -> Result<()> {
        let mut numbers: Vec<u64> = Vec::with_capacity(self.levels.iter().map(Vec::len).sum());
        numbers.extend(self.levels.iter().flatten().map(|table| table.number));
        numbers.sort_unstable();
        match numbers.windows(2).any(|pair| pair.first() == pair.last()) {
            true => Err(Error::Corrupt { field: Field::FileNumber, offset }),
            false => Ok(()),
        }
    }

    /// The one edit that leads here from nothing: what a new manifest begins with.
    #[must_use]
    pub fn snapshot(&self) -> VersionEdit {
        let tables =
            (0u8..).zip(&self.levels).flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)));
        VersionEdit {
            store_id: Some(self.store_id),
            hash_seed: Some(self.hash.seed.0),
            keyed_hash: self.hash.fingerprint.map(|fingerprint| (self.hash.kind, fingerprint)),
            log_number: Some(self.log_number),
            next_file_number: Some(self.next_file_number),
            last_sequence: Some(self.last_sequence),
            added: tables.map(|(level, table)| (level, table.clone())).collect(),
            removed: Vec::new(),
        }
    }
}
