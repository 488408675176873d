//! The manifest: a log of version edits, the first of them a whole state, and `CURRENT`, which names the one in force.
//!
//! `CURRENT` holds two lines: the manifest's name, and the CRC-32 of the first line as eight hexadecimal digits.

use std::collections::BTreeSet;
use std::path::Path;

use crate::checksum::crc32;
use crate::error::{Error, Field, Result};
use crate::storage::Storage;

use super::file_name::{CURRENT, CURRENT_TEMPORARY, FileName, manifest_name, parse};
use super::log_file::{LogId, LogKind, LogWriter};
use super::log_reader::{LogEnd, LogRecovery, read_log};
use super::version_edit::{NUM_LEVELS, Step, StoreState, TableRef, VersionEdit};

/// A manifest open for appending.
#[derive(Debug)]
pub struct Manifest {
    /// None before it is begun.
    log: Option<LogWriter>,
    number: u64,
    next_sequence: u64,
    /// Length of the snapshot that it began with.
    first_len_bytes: u64,
    /// Whether `CURRENT` may name it.
    may_be_in_force: bool,
}

/// A manifest longer than this, and than twice its first edit, is replaced by a snapshot of itself.
const LIMIT_BYTES: u64 = 1 << 20;

/// What a manifest held when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredManifest {
    /// The number in its name.
    pub number: u64,
    /// All its edits in one, but for tables without a file.
    pub state: StoreState,
    /// The number of such a table.
    pub missing: Option<u64>,
    /// How it ended. After a torn tail the last edit may be missing: an unknown table is then not surely garbage.
    pub end: LogEnd,
}

impl Manifest {
    /// Writes a new manifest that begins with `snapshot`, and puts it in force; all of it is durable on return.
    ///
    /// # Errors
    /// When a manifest of that number exists, or that of the storage. After an error the manifest before is in force,
    /// or this one: reopening the store finds out. Where the new one surely is not in force, its file is removed again.
    pub fn create(storage: &dyn Storage, dir: &Path, number: u64, snapshot: &VersionEdit) -> Result<Self> {
        let mut manifest = Self::planned(number);
        manifest.begin(storage, dir, snapshot)?;
        Ok(manifest)
    }

    /// A manifest that has a number and no file yet.
    pub(super) fn planned(number: u64) -> Self {
        Self { log: None, number, next_sequence: 0, first_len_bytes: 0, may_be_in_force: false }
    }

    /// Does for a planned manifest what [`Self::create`] does.
    ///
    /// # Errors
    /// As there.
    pub(super) fn begin(&mut self, storage: &dyn Storage, dir: &Path, snapshot: &VersionEdit) -> Result<()> {
        self.prepare(storage, dir, snapshot)?;
        self.put_in_force(storage, dir)
    }

    /// Writes a planned manifest that begins with `snapshot`, and the file that is to become `CURRENT`; both are durable
    /// on return.
    ///
    /// # Errors
    /// When a manifest of that number exists, or that of the storage. After an error the manifest before is in force, and
    /// both files are removed again, as far as the storage lets them go.
    pub(super) fn prepare(&mut self, storage: &dyn Storage, dir: &Path, snapshot: &VersionEdit) -> Result<()> {
        let name = manifest_name(self.number);
        let path = dir.join(&name);
        self.log = Some(LogWriter::create(storage, &path, log_id(self.number), 0)?);
        let written = self.append(snapshot).and_then(|()| write_temporary_current(storage, dir, &name));
        if let Err(error) = written {
            self.log = None;
            clean(storage, dir, &path);
            return Err(error);
        }
        self.first_len_bytes = self.log.as_ref().map_or(0, LogWriter::len_bytes);
        Ok(())
    }

    /// Lets `CURRENT` name the manifest that was prepared last.
    ///
    /// # Errors
    /// Those of the storage. After an error the manifest before is in force, or this one.
    pub(super) fn put_in_force(&mut self, storage: &dyn Storage, dir: &Path) -> Result<()> {
        let temporary = dir.join(CURRENT_TEMPORARY);
        self.may_be_in_force = true;
        if let Err(error) = storage.rename(&temporary, &dir.join(CURRENT)) {
            // With the temporary name still there, nothing was renamed.
            if storage.exists(&temporary).unwrap_or(false) {
                self.may_be_in_force = false;
                clean(storage, dir, &dir.join(manifest_name(self.number)));
            }
            return Err(error);
        }
        storage.sync_dir(dir)
    }

    /// Removes the files of a manifest that was prepared and is not put in force.
    pub(super) fn abandon(&self, storage: &dyn Storage, dir: &Path) {
        clean(storage, dir, &dir.join(manifest_name(self.number)));
    }

    /// Whether `CURRENT` may name it: then no file that it names may be removed.
    pub(super) fn may_be_in_force(&self) -> bool {
        self.may_be_in_force
    }

    /// Reads the manifest that is in force. Of tables with another number than those of `files`, if that is given, it keeps
    /// just the number: most are removed by later edits, and eleven hostile bytes name another.
    ///
    /// # Errors
    /// `Io` of kind `NotFound`, naming the file, when `CURRENT` or the manifest is missing; damage of either, except for
    /// a tail that a crash tore, with file, field and offset; `Unsupported` for edits of a newer version.
    pub fn recover(storage: &dyn Storage, dir: &Path, files: Option<&BTreeSet<u64>>) -> Result<RecoveredManifest> {
        Self::read(storage, dir, read_current(storage, dir)?, files)
    }

    /// Reads the manifest of that number.
    ///
    /// # Errors
    /// As [`Self::recover`].
    pub(crate) fn read(
        storage: &dyn Storage,
        dir: &Path,
        number: u64,
        files: Option<&BTreeSet<u64>>,
    ) -> Result<RecoveredManifest> {
        let path = dir.join(manifest_name(number));
        let mut replay = Replay { state: StoreState::default(), files, missing: Default::default() };
        let end = read_log(storage, &path, log_id(number), LogRecovery::Strict, &mut |record| {
            let edit = replay.apply(record.payload, record.payload_offset)?;
            if record.sequence == 0 && edit.store_id.is_none() {
                return Err(Error::Corrupt { field: Field::StoreId, offset: record.payload_offset });
            }
            Ok(record.sequence.saturating_add(1))
        })?;
        // It came into force only after its first edit was durable.
        if end.num_records == 0 {
            return Err(Error::Corrupt { field: Field::ManifestRecord, offset: end.valid_len_bytes }.in_file(&path));
        }
        let missing = replay.missing.iter().flatten().next().copied();
        Ok(RecoveredManifest { number, state: replay.state, missing, end })
    }

    /// Appends an edit and makes it durable.
    ///
    /// # Errors
    /// `InvalidArgument` for an edit that changes nothing; that of the storage, after which the edit may or may not be
    /// in the file, and every later call is `Poisoned`.
    pub fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        let Some(log) = &mut self.log else {
            return Err(Error::Poisoned { reason: "the manifest has no file".to_owned() });
        };
        log.append(self.next_sequence, &[&edit.encode()])?;
        log.sync()?;
        self.next_sequence += 1;
        Ok(())
    }

    /// Whether it is time for a new one.
    #[must_use]
    pub fn is_long(&self) -> bool {
        let len_bytes = self.log.as_ref().map_or(0, LogWriter::len_bytes);
        len_bytes > LIMIT_BYTES.max(self.first_len_bytes.saturating_mul(2))
    }

    /// The number in its name.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// A manifest on the way from its first edit to its last.
struct Replay<'f> {
    state: StoreState,
    files: Option<&'f BTreeSet<u64>>,
    /// The numbers of tables without a file, of each level.
    missing: [BTreeSet<u64>; NUM_LEVELS],
}

impl Replay<'_> {
    /// Takes the step in the bytes of a record, as [`VersionEdit::decode`] and [`StoreState::apply`] would, and without holding
    /// its tables twice, or those that have no file. Gives the step without them.
    fn apply(&mut self, bytes: &[u8], offset: u64) -> Result<VersionEdit> {
        let (mut any_removed, mut any_added) = (false, false);
        let edit = VersionEdit::decode_with(bytes, offset, &mut |step| {
            match step {
                Step::Added(..) => any_added = true,
                Step::Removed(..) => any_removed = true,
            }
            Ok(())
        })?;
        self.state.apply(&edit, offset)?;
        // Removals first, so that a table can change its level in one edit.
        if any_removed {
            VersionEdit::decode_with(bytes, offset, &mut |step| match step {
                Step::Removed(level, number) => self.remove(level, number, offset),
                Step::Added(..) => Ok(()),
            })?;
        }
        if any_added {
            VersionEdit::decode_with(bytes, offset, &mut |step| match step {
                Step::Added(level, table) => self.add(level, &table, offset),
                Step::Removed(..) => Ok(()),
            })?;
            self.state.check_numbers(offset)?;
        }
        Ok(edit)
    }

    fn remove(&mut self, level: u8, number: u64, offset: u64) -> Result<()> {
        if self.state.remove(level, number, offset)? {
            return Ok(());
        }
        let missing = self.missing.get_mut(usize::from(level));
        match missing.is_some_and(|missing| missing.remove(&number)) {
            true => Ok(()),
            false => Err(Error::Corrupt { field: Field::FileNumber, offset }),
        }
    }

    fn add(&mut self, level: u8, table: &TableRef<'_>, offset: u64) -> Result<()> {
        let number = table.keyless.number;
        if self.files.is_none_or(|files| files.contains(&number)) {
            return self.state.add(level, table, offset);
        }
        table.check(level, offset)?;
        if self.missing.iter().any(|missing| missing.contains(&number)) {
            return Err(Error::Corrupt { field: Field::FileNumber, offset });
        }
        if let Some(missing) = self.missing.get_mut(usize::from(level)) {
            missing.insert(number);
        }
        Ok(())
    }
}

pub(crate) fn log_id(number: u64) -> LogId {
    LogId { kind: LogKind::Manifest, store_id: [0; 16], number }
}

/// Removes the files of a manifest that surely is not in force. Whoever reads the error has no use for another; what stays is
/// cleaned away when the store is opened next.
fn clean(storage: &dyn Storage, dir: &Path, path: &Path) {
    let _ = storage.remove(&dir.join(CURRENT_TEMPORARY));
    let _ = storage.remove(path);
}

/// Writes what is to become `CURRENT` by a rename.
fn write_temporary_current(storage: &dyn Storage, dir: &Path, manifest: &str) -> Result<()> {
    let temporary = dir.join(CURRENT_TEMPORARY);
    if storage.exists(&temporary)? {
        // A crash left it.
        storage.remove(&temporary)?;
    }
    let mut file = storage.create(&temporary)?;
    file.write_all(current_content(manifest).as_bytes())?;
    file.sync()?;
    drop(file);
    // A directory may lose earlier changes and keep later ones: the manifest's own name must not be lost behind this.
    storage.sync_dir(dir)
}

fn current_content(manifest: &str) -> String {
    let line = format!("{manifest}\n");
    format!("{line}{:08x}\n", crc32(line.as_bytes()))
}

/// The number of the manifest in force.
pub(crate) fn read_current(storage: &dyn Storage, dir: &Path) -> Result<u64> {
    let path = dir.join(CURRENT);
    let content = storage.read(&path)?;
    let name = content.split(|&byte| byte == b'\n').next().and_then(|line| std::str::from_utf8(line).ok());
    match name.map(|name| (parse(name), current_content(name))) {
        Some((Some(FileName::Manifest(number)), expected)) if expected.as_bytes() == content => Ok(number),
        _ => Err(Error::Corrupt { field: Field::CurrentFile, offset: 0 }.in_file(&path)),
    }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
