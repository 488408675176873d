//! Collects the remaining facts about a damaged store: its file names, the readable parts of its
//! manifests, and the properties of its SSTs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::codec::u64_from;
use crate::error::{Error, Result};
use crate::lsm::LogRecovery;
use crate::lsm::files::{CURRENT, FileName, manifest_name, not_found, number_in, parse, table_name};
use crate::lsm::manifest::edit::{MAX_NUMBER, StoreState, TableMeta, VersionEdit, table_id};
use crate::lsm::manifest::{Manifest, log_id, read_current};
use crate::lsm::recovery::in_order;
use crate::lsm::recovery::ownership::Ownership;
use crate::lsm::wal::log_reader::read_log;
use crate::sstable::{Loss, Peek, TableOrigin};
use crate::storage::Storage;

#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) tables: BTreeSet<u64>,
    pub(super) logs: BTreeSet<u64>,
    pub(super) manifests: BTreeSet<u64>,
    pub(super) has_current: bool,
    /// A file number above the number of every file in the directory, except the files in
    /// `foreign`.
    pub(super) next_number: u64,
    /// Names of files with numbers above [`MAX_NUMBER`], which no store assigns. A store does not
    /// open while such files exist.
    pub(super) foreign: Vec<String>,
}

impl Listing {
    /// Lists the files of `dir` that a store may have written.
    ///
    /// # Errors
    /// Returns [`Error::ForeignFile`] if a file of another program has a number above
    /// [`MAX_NUMBER`].
    pub(super) fn of(storage: &dyn Storage, dir: &Path, judged: &Ownership) -> Result<Self> {
        let mut listing = Self { next_number: 1, ..Self::default() };
        for name in storage.list(dir)? {
            let number = number_in(&name).unwrap_or_default();
            if let Some(&(_, what)) = judged.others.iter().find(|(other, _)| *other == name) {
                if number > MAX_NUMBER {
                    return Err(Error::ForeignFile { what }.in_file(&dir.join(name)));
                }
                listing.next_number = listing.next_number.max(number + 1);
                continue;
            }
            if number > MAX_NUMBER {
                listing.foreign.push(name);
                continue;
            }
            listing.next_number = listing.next_number.max(number + 1);
            match parse(&name) {
                Some(FileName::Table(number)) => listing.tables.insert(number),
                Some(FileName::Log(number)) => listing.logs.insert(number),
                Some(FileName::Manifest(number)) => listing.manifests.insert(number),
                Some(FileName::Current) => std::mem::replace(&mut listing.has_current, true),
                Some(FileName::Lock | FileName::Temporary) | None => false,
            };
        }
        Ok(listing)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.logs.is_empty() && self.manifests.is_empty() && !self.has_current
    }
}

#[derive(Debug, Default)]
pub(super) struct ManifestEvidence {
    /// The last state that could be read. Its store id is zero if no readable part of a manifest
    /// gives it.
    pub(super) state: StoreState,
    /// Whether the manifest of `state` is readable from its start to an end that a crash can leave,
    /// and no other manifest is more likely in force.
    pub(super) is_whole: bool,
    /// Whether the manifest of `state` has a torn tail and no other damage. An edit in the torn
    /// tail may have named an SST.
    pub(super) is_torn: bool,
    /// Whether `is_whole` is true and `CURRENT` names the manifest of `state`.
    pub(super) is_in_force: bool,
    /// The numbers of the SSTs that the readable edits removed and did not add again.
    pub(super) removed: BTreeSet<u64>,
    pub(super) losses: Vec<Loss>,
    pub(super) damaged: Vec<PathBuf>,
}

impl ManifestEvidence {
    /// Reads `CURRENT` and the manifest that it names. If either is missing or unreadable, reads
    /// the newest readable manifest.
    pub(super) fn gather(storage: &dyn Storage, dir: &Path, listing: &Listing) -> Result<Self> {
        let mut found = Self::default();
        let named = match read_current(storage, dir) {
            Ok(number) => Some(number),
            Err(error) if error.is_damage() => {
                found.lose(error);
                found.damaged.push(dir.join(CURRENT));
                None
            }
            Err(_) if !listing.has_current => {
                found.lose(missing(&dir.join(CURRENT)));
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(number) = named.filter(|number| !listing.manifests.contains(number)) {
            found.lose(missing(&dir.join(manifest_name(number))));
        }
        let newest = listing.manifests.iter().rev().copied();
        let candidates = named.into_iter().chain(newest.filter(|number| Some(*number) != named));
        for (nth, number) in candidates.filter(|number| listing.manifests.contains(number)).enumerate() {
            found.read(storage, dir, number)?;
            if found.state.store_id != [0; 16] {
                // Only the first candidate can have the last state of the store.
                found.is_whole &= nth == 0 && named.is_none_or(|named| named == number);
                found.is_in_force = found.is_whole && named == Some(number);
                break;
            }
        }
        Ok(found)
    }

    fn lose(&mut self, error: Error) {
        // A manifest holds no entries.
        self.losses.push(Loss::without_keys(error));
    }

    /// Reads the manifest with this number as far as possible, and records its state and its
    /// damage.
    fn read(&mut self, storage: &dyn Storage, dir: &Path, number: u64) -> Result<()> {
        let path = dir.join(manifest_name(number));
        let strict = Manifest::read(storage, dir, number, None).and_then(|recovered| {
            in_order(&recovered.state, &path)?;
            Ok(recovered)
        });
        let (mut state, mut removed, mut errors) = (StoreState::default(), BTreeSet::new(), Vec::new());
        let end = read_log(storage, &path, log_id(number), LogRecovery::Salvage, &mut |record| {
            match VersionEdit::decode(record.payload, record.payload_offset) {
                Ok(edit) => follow(&mut state, &mut removed, edit),
                // The checksum of the record matches, so the record is not damaged.
                Err(error @ Error::Unsupported { .. }) => return Err(error),
                Err(error) => errors.push(error.in_file(&path)),
            }
            Ok(record.sequence.saturating_add(1))
        });
        match (strict, end) {
            (Ok(recovered), Ok(_)) => {
                (self.state, self.is_whole) = (recovered.state, true);
                self.is_torn = !recovered.end.is_clean();
            }
            (Err(error), Ok(_)) if error.is_damage() => {
                errors.push(error);
                self.state = state;
                self.damaged.push(path);
            }
            (Err(error), Ok(_)) | (_, Err(error @ Error::Io(_))) => return Err(error),
            (_, Err(error)) if matches!(error.root(), Error::Unsupported { .. } | Error::Io(_)) => return Err(error),
            (_, Err(error)) => {
                errors.push(error);
                self.damaged.push(path);
            }
        }
        self.removed = removed;
        errors.into_iter().for_each(|error| self.lose(error));
        Ok(())
    }

    /// No write of the SST is after [`StoreState::last_sequence`].
    pub(super) fn is_before(&self, origin: &TableOrigin) -> bool {
        origin.largest_sequence <= self.state.last_sequence
    }

    /// All writes of the SST are after [`StoreState::last_sequence`].
    pub(super) fn is_next(&self, origin: &TableOrigin) -> bool {
        origin.level == 0 && origin.smallest_sequence > self.state.last_sequence
    }

    /// Returns the SSTs that the state names: for each number the level and the metadata.
    pub(super) fn named(&self) -> BTreeMap<u64, (u8, TableMeta)> {
        let levels = (0u8..).zip(&self.state.levels);
        let tables =
            levels.flat_map(|(level, tables)| tables.iter().map(move |meta| (meta.number, (level, meta.clone()))));
        tables.collect()
    }
}

/// Applies an edit like `StoreState::apply`, but accepts that earlier edits may be missing.
fn follow(state: &mut StoreState, removed: &mut BTreeSet<u64>, edit: VersionEdit) {
    state.store_id = edit.store_id.unwrap_or(state.store_id);
    state.hash.seed = edit.hash_seed.map_or(state.hash.seed, filterblock::HashSeed);
    if let Some((kind, fingerprint)) = edit.keyed_hash {
        (state.hash.kind, state.hash.fingerprint) = (kind, Some(fingerprint));
    }
    if edit.prefix_extractor.is_some() {
        state.prefix_extractor = edit.prefix_extractor;
    }
    // Ignore numbers above `MAX_NUMBER`: no store assigns them.
    let is_number = |number: &u64| *number <= MAX_NUMBER;
    state.log_number = edit.log_number.filter(is_number).unwrap_or(state.log_number);
    state.next_file_number = edit.next_file_number.filter(is_number).unwrap_or(state.next_file_number);
    state.last_sequence = edit.last_sequence.filter(is_number).unwrap_or(state.last_sequence);
    let gone: BTreeSet<u64> = edit.removed.iter().map(|(_, number)| *number).collect();
    let again: BTreeSet<u64> = edit.added.iter().map(|(_, meta)| meta.number).collect();
    for tables in &mut state.levels {
        tables.retain(|meta| !gone.contains(&meta.number) && !again.contains(&meta.number));
    }
    removed.extend(&gone);
    removed.retain(|number| !again.contains(number));
    let is_table = |meta: &TableMeta| {
        is_number(&meta.number) && is_number(&meta.largest_sequence) && meta.smallest_sequence <= meta.largest_sequence
    };
    for (level, meta) in edit.added.into_iter().filter(|(_, meta)| is_table(meta)) {
        if let Some(tables) = state.levels.get_mut(usize::from(level)) {
            tables.push(meta);
        }
    }
}

pub(super) fn missing(path: &Path) -> Error {
    not_found("no such file or directory; check the path").in_file(path)
}

/// An SST file, with the facts that its own bytes prove.
#[derive(Debug)]
pub(super) struct FoundTable {
    /// The SST's number. [`undo_renames`] sets it by the table id.
    pub(super) number: u64,
    /// The number in the name of the file.
    pub(super) file: u64,
    pub(super) len_bytes: u64,
    pub(super) peek: Peek,
}

impl FoundTable {
    /// Returns the origin in the SST's properties. Returns `None` if the properties are unreadable
    /// or have no origin, or if the origin's largest sequence number exceeds [`MAX_NUMBER`].
    pub(super) fn origin(&self) -> Option<TableOrigin> {
        self.peek.properties.as_ref()?.origin.filter(|origin| origin.largest_sequence <= MAX_NUMBER)
    }

    /// Returns the number of the first original if the properties name one, and the SST's own
    /// number otherwise. Only a copy, an SST that a repair wrote from another SST, names an
    /// original.
    pub(super) fn first_number(&self) -> u64 {
        self.peek.properties.as_ref().and_then(|own| own.copied_from).unwrap_or(self.number)
    }
}

/// Removes duplicate SSTs from `found` and returns their numbers. Of several SSTs with the same
/// first original, those that the manifest names stay. If the manifest names none of them, the SST
/// with the lowest number stays.
pub(super) fn split_copies(found: &mut Vec<FoundTable>, named: &BTreeSet<u64>) -> Vec<u64> {
    let all: Vec<(u64, u64)> = found.iter().map(|table| (table.first_number(), table.number)).collect();
    let is_double = |table: &mut FoundTable| {
        let mut others = all.iter().filter(|(first, _)| *first == table.first_number()).map(|(_, number)| *number);
        !named.contains(&table.number) && others.any(|other| named.contains(&other) || other < table.number)
    };
    found.extract_if(.., is_double).map(|table| table.file).collect()
}

/// Gives SSTs with the file name of another SST their own numbers, if the manifest names these. The
/// table id in a sound footer proves the number. An SST gets no number whose file exists, unless that
/// file gets another number, too: even a damaged file may have entries.
pub(super) fn undo_renames(found: &mut [FoundTable], store_id: &[u8; 16], named: &BTreeSet<u64>) {
    let own_number = |table: &FoundTable| {
        let id = table.peek.table_id?;
        let number = u64_from(id.last_chunk()?);
        let is_renamed = number != table.file && named.contains(&number) && id == table_id(store_id, number);
        is_renamed.then_some(number)
    };
    let mut renamed: BTreeMap<u64, u64> = BTreeMap::new();
    for table in found.iter() {
        if let Some(number) = own_number(table).filter(|number| renamed.values().all(|other| other != number)) {
            renamed.insert(table.file, number);
        }
    }
    let stays = |number: &u64, renamed: &BTreeMap<u64, u64>| {
        !renamed.contains_key(number) && found.iter().any(|table| table.file == *number)
    };
    while let Some(file) = renamed.iter().find(|(_, number)| stays(number, &renamed)).map(|(file, _)| *file) {
        renamed.remove(&file);
    }
    for table in found {
        table.number = renamed.get(&table.file).copied().unwrap_or(table.number);
    }
}

pub(super) fn look_at_tables(storage: &dyn Storage, dir: &Path, numbers: &BTreeSet<u64>) -> Result<Vec<FoundTable>> {
    let look = |&number: &u64| {
        let bytes = storage.read(&dir.join(table_name(number)))?;
        Ok(FoundTable { number, file: number, len_bytes: bytes.len() as u64, peek: Peek::at(&bytes) })
    };
    numbers.iter().map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_numbers_in_an_edit_are_ignored() {
        let mut state = StoreState { log_number: 3, next_file_number: 9, last_sequence: 50, ..StoreState::default() };
        let wild = |number, largest_sequence| (0, TableMeta { number, largest_sequence, ..TableMeta::default() });
        let backwards = (0, TableMeta { number: 6, smallest_sequence: 5, largest_sequence: 3, ..TableMeta::default() });
        let edit = VersionEdit {
            log_number: Some(u64::MAX),
            next_file_number: Some(u64::MAX),
            last_sequence: Some(MAX_NUMBER + 1),
            added: vec![wild(8, 20), wild(u64::MAX, 20), wild(7, u64::MAX), backwards],
            ..VersionEdit::default()
        };
        follow(&mut state, &mut BTreeSet::new(), edit);
        assert_eq!((state.log_number, state.next_file_number, state.last_sequence), (3, 9, 50));
        assert_eq!(state.levels[0].iter().map(|meta| meta.number).collect::<Vec<_>>(), [8]);
    }
}
