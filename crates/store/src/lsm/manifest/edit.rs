//! Defines version edits, which change the set of SSTs in a store, and the state that they produce.

use crate::codec::{Cursor, put_bytes, put_u64, put_varint, u64_bytes};
use crate::error::{Error, Field, Result};
use crate::sstable::{TableId, TableSummary};
use filterblock::layout::MAX_EXTRACTOR_LEN_BYTES;
use filterblock::{Fingerprint, HashIdentity, HashKind, HashSeed, KeyHasher};

/// The largest valid file number and sequence number. The distance to `u64::MAX` makes overflow
/// checks at each step unnecessary.
pub(crate) const MAX_NUMBER: u64 = u64::MAX / 2;

/// The largest file number and sequence number with which the store accepts writes. The limit keeps
/// a store openable after its last write. The numbers up to [`MAX_NUMBER`] are left for writes
/// in progress, flushes, compactions and reopening. At a billion numbers per second, they last 146
/// years.
pub(crate) const MAX_WRITTEN_NUMBER: u64 = MAX_NUMBER / 2;

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
const TAG_PREFIX_EXTRACTOR: u64 = 9;

/// The facts about an SST that are known without opening its file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableMeta {
    /// The number in the file name.
    pub number: u64,
    /// The length of the file in bytes.
    pub len_bytes: u64,
    /// Number of entries, including tombstones.
    pub num_entries: u64,
    /// Number of tombstones.
    pub num_tombstones: u64,
    /// The first key.
    pub smallest: Vec<u8>,
    /// The last key.
    pub largest: Vec<u8>,
    /// The smallest sequence number of the writes that the SST was made from. A merge takes the
    /// smallest number of all its inputs, so the SST itself may hold only newer writes.
    pub smallest_sequence: u64,
    /// The largest sequence number of the writes that the SST was made from. A merge takes the
    /// largest number of all its inputs.
    pub largest_sequence: u64,
}

impl TableMeta {
    pub(crate) fn of(number: u64, summary: TableSummary, (smallest, largest): (u64, u64)) -> Self {
        Self {
            number,
            len_bytes: summary.len_bytes,
            num_entries: summary.num_entries,
            num_tombstones: summary.num_tombstones,
            smallest: summary.smallest,
            largest: summary.largest,
            smallest_sequence: smallest,
            largest_sequence: largest,
        }
    }

    pub(crate) fn sequences(&self) -> (u64, u64) {
        (self.smallest_sequence, self.largest_sequence)
    }
}

/// Returns the identity that an SST file and its filter must have: the first half of the store's id,
/// and the file's number.
pub(crate) fn table_id(store_id: &[u8; 16], number: u64) -> TableId {
    let mut id = [0; 16];
    let (store, file) = id.split_at_mut(8);
    store.copy_from_slice(store_id.first_chunk::<8>().unwrap_or(&[0; 8]));
    file.copy_from_slice(&u64_bytes(number));
    id
}

/// Returns the first SST of a level, in key order, whose key range overlaps that of the SST before
/// it. Returns `None` if no key ranges overlap. In level 1 and deeper levels, none may overlap.
pub(crate) fn first_overlap<'a>(level: impl Iterator<Item = &'a TableMeta>) -> Option<&'a TableMeta> {
    let mut tables: Vec<&TableMeta> = level.collect();
    tables.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let mut pairs = tables.iter().zip(tables.iter().skip(1));
    pairs.find(|(left, right)| left.largest >= right.smallest).map(|(_, right)| *right)
}

/// One change of a [`StoreState`]. It sets the fields that it names and leaves all others
/// unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionEdit {
    /// The store's identity, drawn at its creation.
    pub store_id: Option<[u8; 16]>,
    /// The seed for hashing keys.
    pub hash_seed: Option<u64>,
    /// The hash kind and the secret's fingerprint, for a store with a secret. If no edit of a
    /// manifest has this field, the store uses XXH3 without a secret.
    pub keyed_hash: Option<(HashKind, Fingerprint)>,
    /// The name of the extractor of the prefixes that new filters hold. If no edit of a manifest
    /// has this field, new filters hold no prefixes.
    pub prefix_extractor: Option<String>,
    /// The number of the oldest log that may hold writes that are in no SST. With 0, an open reads
    /// all logs, if there are any.
    pub log_number: Option<u64>,
    /// The number for the next new file.
    pub next_file_number: Option<u64>,
    /// The sequence number of the last write that is in an SST, or that a salvage has given up.
    pub last_sequence: Option<u64>,
    /// The level and the metadata of each SST that enters its level.
    pub added: Vec<(u8, TableMeta)>,
    /// The level and the number of each SST that leaves its level. If `added` has the same number,
    /// the SST moves. Otherwise it is no longer needed.
    pub removed: Vec<(u8, u64)>,
}

impl VersionEdit {
    /// Encodes the edit as the payload of a manifest record: a list of fields, each a tag and a
    /// value.
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
        if let Some(name) = &self.prefix_extractor {
            put_varint(&mut out, TAG_PREFIX_EXTRACTOR);
            put_bytes(&mut out, name.as_bytes());
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

    /// Decodes the payload of a manifest record. The payload lies at `offset` in its file.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for a field of a newer format version and for an unknown hash
    /// function. Returns [`Error::Corrupt`] for bytes that are not an edit.
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

    /// Decodes an edit as [`Self::decode`] does, but passes the changes of SSTs to `visit`, and
    /// returns the first error of `visit`. The visitor decides whether to allocate memory for them:
    /// they need the most memory per encoded byte.
    pub(crate) fn decode_with<'a>(
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
                TAG_PREFIX_EXTRACTOR => once(edit.prefix_extractor.replace(take_name(&mut cursor)?).is_some())?,
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

pub(crate) enum Step<'a> {
    Added(u8, TableRef<'a>),
    Removed(u8, u64),
}

fn take_name(cursor: &mut Cursor<'_>) -> Result<String> {
    let error = cursor.corrupt(Field::ManifestRecord);
    let name = cursor.take_bytes(Field::ManifestRecord)?;
    match std::str::from_utf8(name) {
        Ok(name) if (1..=MAX_EXTRACTOR_LEN_BYTES).contains(&name.len()) => Ok(name.to_owned()),
        _ => Err(error.into()),
    }
}

fn take_keyed_hash(cursor: &mut Cursor<'_>) -> Result<(HashKind, Fingerprint)> {
    let error = cursor.corrupt(Field::HashId);
    let id = cursor.take_u8(Field::HashId)?;
    let kind = HashKind::from_id(id).ok_or(Error::Unsupported { field: Field::HashId, found: id.into() })?;
    let fingerprint = Fingerprint::from_bytes(cursor.take_array(Field::HashId)?);
    if kind.takes_secret() { Ok((kind, fingerprint)) } else { Err(error.into()) }
}

/// A [`TableMeta`] that borrows its keys.
pub(crate) struct TableRef<'a> {
    pub(crate) keyless: TableMeta,
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

    pub(crate) fn to_meta(&self) -> TableMeta {
        TableMeta { smallest: self.smallest.to_vec(), largest: self.largest.to_vec(), ..self.keyless.clone() }
    }

    pub(crate) fn check(&self, level: u8, offset: u64) -> Result<()> {
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

/// The state that results from all edits of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreState {
    /// See [`VersionEdit::store_id`].
    pub store_id: [u8; 16],
    /// See [`VersionEdit::hash_seed`] and [`VersionEdit::keyed_hash`].
    pub hash: HashIdentity,
    /// See [`VersionEdit::prefix_extractor`].
    pub prefix_extractor: Option<String>,
    /// See [`VersionEdit::log_number`].
    pub log_number: u64,
    /// See [`VersionEdit::next_file_number`].
    pub next_file_number: u64,
    /// See [`VersionEdit::last_sequence`].
    pub last_sequence: u64,
    /// The SSTs of each of the [`NUM_LEVELS`] levels, in the order in which they were added.
    pub levels: Vec<Vec<TableMeta>>,
}

impl Default for StoreState {
    fn default() -> Self {
        Self {
            store_id: [0; 16],
            hash: KeyHasher::xxh3(HashSeed(0)).identity(),
            prefix_extractor: None,
            log_number: 0,
            next_file_number: 0,
            last_sequence: 0,
            levels: vec![Vec::new(); NUM_LEVELS],
        }
    }
}

impl StoreState {
    /// Applies an edit. It removes SSTs before it adds any, so that one edit can move an SST to
    /// another level.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] with `offset` if the edit does not fit the state or has invalid
    /// values. `offset` is the position of the edit in its file. After an error the state is
    /// unusable.
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
        if edit.prefix_extractor.is_some() {
            self.prefix_extractor.clone_from(&edit.prefix_extractor);
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

    /// Removes an SST. Returns whether the SST was there.
    pub(crate) fn remove(&mut self, level: u8, number: u64, offset: u64) -> Result<bool> {
        let level = self.levels.get_mut(usize::from(level));
        let tables = level.ok_or(Error::Corrupt { field: Field::Level, offset })?;
        let place = tables.iter().position(|table| table.number == number);
        place.into_iter().for_each(|place| drop(tables.remove(place)));
        Ok(place.is_some())
    }

    /// Does not check that the SST's number is unique: see [`Self::check_numbers`].
    pub(crate) fn add(&mut self, level: u8, table: &TableRef<'_>, offset: u64) -> Result<()> {
        table.check(level, offset)?;
        self.levels.get_mut(usize::from(level)).into_iter().for_each(|tables| tables.push(table.to_meta()));
        Ok(())
    }

    /// Checks that no two SSTs have the same number.
    pub(crate) fn check_numbers(&self, offset: u64) -> Result<()> {
        let mut numbers: Vec<u64> = Vec::with_capacity(self.levels.iter().map(Vec::len).sum());
        numbers.extend(self.levels.iter().flatten().map(|table| table.number));
        numbers.sort_unstable();
        match numbers.windows(2).any(|pair| pair.first() == pair.last()) {
            true => Err(Error::Corrupt { field: Field::FileNumber, offset }),
            false => Ok(()),
        }
    }

    /// Returns the one edit that creates this state from nothing. A new manifest begins with it.
    #[must_use]
    pub fn snapshot(&self) -> VersionEdit {
        let tables =
            (0u8..).zip(&self.levels).flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)));
        VersionEdit {
            store_id: Some(self.store_id),
            hash_seed: Some(self.hash.seed.0),
            keyed_hash: self.hash.fingerprint.map(|fingerprint| (self.hash.kind, fingerprint)),
            prefix_extractor: self.prefix_extractor.clone(),
            log_number: Some(self.log_number),
            next_file_number: Some(self.next_file_number),
            last_sequence: Some(self.last_sequence),
            added: tables.map(|(level, table)| (level, table.clone())).collect(),
            removed: Vec::new(),
        }
    }
}
