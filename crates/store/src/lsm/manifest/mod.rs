//! Reads and writes the manifest: a log of version edits that begins with a complete state. The
//! file `CURRENT` names the manifest in force.
//!
//! `CURRENT` holds two lines: the name of the manifest, and the CRC-32 of the first line with its
//! `\n`, in eight hexadecimal digits.

pub(crate) mod edit;

use std::collections::BTreeSet;
use std::path::Path;

use crate::checksum::crc32;
use crate::error::{Error, Field, Result};
use crate::storage::Storage;

use self::edit::{NUM_LEVELS, Step, StoreState, TableRef, VersionEdit};
use crate::lsm::files::{CURRENT, CURRENT_TEMPORARY, FileName, manifest_name, parse};
use crate::lsm::wal::log_reader::{LogEnd, LogRecovery, read_log};
use crate::lsm::wal::{LogId, LogKind, LogWriter};

/// A manifest that is open for appending or only planned.
#[derive(Debug)]
pub struct Manifest {
    /// `None` until [`Manifest::prepare`] succeeds.
    log: Option<LogWriter>,
    number: u64,
    next_sequence: u64,
    /// The length of the manifest after its first edit, the snapshot.
    first_len_bytes: u64,
    /// Whether `CURRENT` may name this manifest.
    may_be_in_force: bool,
}

/// The length in bytes above which an open store replaces a manifest. The manifest must also be
/// more than twice as long as after its first edit.
const LIMIT_BYTES: u64 = 1 << 20;

/// The content of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredManifest {
    /// The number in the file name.
    pub number: u64,
    /// The state after all edits, without SSTs whose file is known to be missing.
    pub state: StoreState,
    /// The number of one SST whose file is missing, or `None` if no file is missing or the reader
    /// did not look for files.
    pub missing: Option<u64>,
    /// The end of the manifest. After a torn tail the last edit may be missing, so an SST that the
    /// manifest does not name may still be needed.
    pub end: LogEnd,
}

impl Manifest {
    /// Writes a new manifest that begins with `snapshot` and puts it in force. Everything is
    /// durable on return.
    ///
    /// # Errors
    /// Returns the errors of [`Self::append`] and of the storage, for example if a manifest with
    /// this number exists. After an error, `CURRENT` is unchanged or names this manifest.
    pub fn create(storage: &dyn Storage, dir: &Path, number: u64, snapshot: &VersionEdit) -> Result<Self> {
        let mut manifest = Self::planned(number);
        manifest.begin(storage, dir, snapshot)?;
        Ok(manifest)
    }

    /// Returns a manifest that has a number but no file yet.
    pub(crate) fn planned(number: u64) -> Self {
        Self { log: None, number, next_sequence: 0, first_len_bytes: 0, may_be_in_force: false }
    }

    pub(crate) fn begin(&mut self, storage: &dyn Storage, dir: &Path, snapshot: &VersionEdit) -> Result<()> {
        self.prepare(storage, dir, snapshot)?;
        self.put_in_force(storage, dir)
    }

    /// Writes a planned manifest that begins with `snapshot`, and the temporary file that will
    /// become `CURRENT`. Both are durable on return.
    ///
    /// After an error, the previous manifest stays in force. The files that this call created are
    /// removed if the storage allows it.
    pub(crate) fn prepare(&mut self, storage: &dyn Storage, dir: &Path, snapshot: &VersionEdit) -> Result<()> {
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

    /// Makes `CURRENT` name the prepared manifest. After an error, `CURRENT` is unchanged or names
    /// this manifest.
    pub(crate) fn put_in_force(&mut self, storage: &dyn Storage, dir: &Path) -> Result<()> {
        let temporary = dir.join(CURRENT_TEMPORARY);
        self.may_be_in_force = true;
        if let Err(error) = storage.rename(&temporary, &dir.join(CURRENT)) {
            // If the temporary name still exists, nothing was renamed.
            if storage.exists(&temporary).unwrap_or(false) {
                self.may_be_in_force = false;
                clean(storage, dir, &dir.join(manifest_name(self.number)));
            }
            return Err(error);
        }
        storage.sync_dir(dir)
    }

    pub(crate) fn abandon(&self, storage: &dyn Storage, dir: &Path) {
        clean(storage, dir, &dir.join(manifest_name(self.number)));
    }

    /// If `true`, no file that the manifest names may be removed.
    pub(crate) fn may_be_in_force(&self) -> bool {
        self.may_be_in_force
    }

    /// Reads the manifest in force. If `files` is set, it holds the numbers of all existing SST
    /// files. To save memory, the reader then keeps only the number of an SST whose file is
    /// missing, not its metadata.
    ///
    /// # Errors
    /// Returns an error if `CURRENT` or the manifest is missing, is damaged or has a newer format.
    /// A torn tail after the first edit is not an error.
    pub fn recover(storage: &dyn Storage, dir: &Path, files: Option<&BTreeSet<u64>>) -> Result<RecoveredManifest> {
        Self::read(storage, dir, read_current(storage, dir)?, files)
    }

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
        // A manifest comes into force only after its first edit is durable.
        if end.num_records == 0 {
            return Err(Error::Corrupt { field: Field::ManifestRecord, offset: end.valid_len_bytes }.in_file(&path));
        }
        let missing = replay.missing.iter().flatten().next().copied();
        Ok(RecoveredManifest { number, state: replay.state, missing, end })
    }

    /// Appends an edit and makes it durable.
    ///
    /// # Errors
    /// Returns [`Error::InvalidArgument`] for an edit without changes, and for one whose encoding
    /// has 4 GiB or more. Errors of the storage pass through: the edit may then be in the file or
    /// not, and every later call returns [`Error::Poisoned`].
    pub fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        let Some(log) = &mut self.log else {
            return Err(Error::Poisoned { reason: "the manifest file was not created".to_owned() });
        };
        log.append(self.next_sequence, &[&edit.encode()])?;
        log.sync()?;
        self.next_sequence += 1;
        Ok(())
    }

    /// Returns whether the manifest should be replaced by a new one.
    #[must_use]
    pub fn is_long(&self) -> bool {
        let len_bytes = self.log.as_ref().map_or(0, LogWriter::len_bytes);
        len_bytes > LIMIT_BYTES.max(self.first_len_bytes.saturating_mul(2))
    }

    /// Returns the number in the file name.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

struct Replay<'f> {
    state: StoreState,
    files: Option<&'f BTreeSet<u64>>,
    /// For each level, the numbers of SSTs whose file is missing.
    missing: [BTreeSet<u64>; NUM_LEVELS],
}

impl Replay<'_> {
    /// Applies the edit in a record's payload, as [`VersionEdit::decode`] and [`StoreState::apply`]
    /// do. Unlike them, it keeps no second copy of the edit's SSTs, and no metadata of an SST whose
    /// file is missing. Returns the edit without its SSTs.
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
        // Remove first, so that one edit can move an SST to another level.
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

/// Removes the files of a manifest that is certainly not in force. It ignores errors: the next open
/// removes the files that stay.
fn clean(storage: &dyn Storage, dir: &Path, path: &Path) {
    let _ = storage.remove(&dir.join(CURRENT_TEMPORARY));
    let _ = storage.remove(path);
}

/// Syncs the file and the directory.
fn write_temporary_current(storage: &dyn Storage, dir: &Path, manifest: &str) -> Result<()> {
    let temporary = dir.join(CURRENT_TEMPORARY);
    if storage.exists(&temporary)? {
        // A crash or an error left this file.
        storage.remove(&temporary)?;
    }
    let mut file = storage.create(&temporary)?;
    file.write_all(current_content(manifest).as_bytes())?;
    file.sync()?;
    drop(file);
    // A crash may lose earlier changes of a directory and keep later ones. So the manifest's own
    // name must be durable before the rename.
    storage.sync_dir(dir)
}

fn current_content(manifest: &str) -> String {
    let line = format!("{manifest}\n");
    format!("{line}{:08x}\n", crc32(line.as_bytes()))
}

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
mod tests;
