//! Verifies a whole store: reads all needed files again and checks that they agree.

use std::path::PathBuf;

use super::db::Db;
use super::files::{CURRENT, FileName, is_missing, log_name, manifest_name, not_found, parse, table_name};
use super::manifest::Manifest;
use super::manifest::edit::{NUM_LEVELS, first_overlap};
use super::wal::log_reader::{LogRecovery, LogTail, read_log};
use super::wal::{LogId, LogKind};
use crate::error::{Error, Field, Result};
use crate::sstable::TableCheck;
use crate::sync::lock;

/// The result of [`Db::verify`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of SSTs read.
    pub tables: u64,
    /// Number of entries read.
    pub entries: u64,
    /// Number of data blocks read.
    pub data_blocks: u64,
    /// Number of keys and prefixes that a filter of their own SST denies. It must be 0.
    pub filter_false_negatives: u64,
    /// All other problems: damage, files of a newer format version, missing files, and a log that
    /// cannot be flushed. Each error names the file.
    pub damage: Vec<Error>,
    /// The torn tails that this handle cut from the logs and the manifest when it opened the store.
    /// New files have replaced these logs and the manifest.
    pub tails: Vec<LogTail>,
}

/// The progress of [`Db::verify_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes of SST files read so far.
    pub done_bytes: u64,
    /// Bytes of all SST files.
    pub total_bytes: u64,
}

impl VerifyReport {
    /// Returns whether the current files of the store are sound.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty() && self.filter_false_negatives == 0
    }

    /// Returns whether one of [`tails`](Self::tails) may be damage and not the trace of a crash: no
    /// bytes seem to be missing from it ([`LogTail::is_cut`] is `false`). A synced write may then
    /// be lost. A device that kept only some bytes of the last write leaves the same traces.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.tails.iter().any(|tail| !tail.is_cut)
    }

    fn add(&mut self, check: TableCheck) {
        self.tables += 1;
        self.entries += check.entries;
        self.data_blocks += check.data_blocks;
        self.filter_false_negatives += check.filter_false_negatives;
        self.damage.extend(check.damage);
    }

    /// Adds damage, a newer format version or a missing file to the report. Returns other errors.
    fn note<T>(&mut self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_damage() || error.is_unsupported() || is_missing(&error) => {
                self.damage.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Db {
    /// Reads every file that the store needs, and checks it. For each SST, it checks all checksums,
    /// the order of the keys, and every key against the filter of its SST. It checks that `CURRENT`
    /// and the manifest match the open store, and it reads all logs that are still needed. Before
    /// it reads the logs, it passes the buffer of the current log to the operating system. Flushes
    /// and compactions may wait while the manifest is read, and writers wait while the logs are
    /// read.
    ///
    /// # Errors
    /// Returns I/O errors, and [`Error::TooLarge`] if memory is short. Damage, a newer format
    /// version, missing files and a log that cannot be flushed are in the report and are not
    /// errors.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(&mut |_| {})
    }

    /// Verifies the store as [`Self::verify`] does, and passes the progress to `progress` from time
    /// to time.
    ///
    /// # Errors
    /// Returns the errors of [`Self::verify`].
    pub fn verify_with(&self, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport> {
        let version = self.shared.version();
        let mut report = VerifyReport { tails: self.shared.reading.reports.tails(), ..VerifyReport::default() };
        let total_bytes = version.all_tables().map(|(_, stored)| stored.meta.len_bytes).sum();
        let mut before = 0;
        for (_, stored) in version.all_tables() {
            // An open file stays readable after its name is gone, but the next open of the store
            // would fail.
            let storage = self.shared.options.storage.as_ref();
            let is_there = storage.exists(&stored.path)? || stored.is_obsolete();
            if !is_there {
                let reason = "another program removed this file of an open store; restore from a backup";
                report.damage.push(not_found(reason).in_file(&stored.path));
            } else if !storage.is_named(&stored.path, stored.table.file())? && !stored.is_obsolete() {
                // Another file has this name now, and the next open would read that file.
                let other = report.note(self.shared.open_table(stored.meta.clone()))?;
                let check = other.map(|other| other.table.verify()).transpose()?;
                report.damage.extend(check.into_iter().flat_map(|check| check.damage));
            }
            let mut tell = |within| progress(Progress { done_bytes: before + within, total_bytes });
            report.add(stored.table.verify_with(&mut tell)?);
            before += stored.meta.len_bytes;
            progress(Progress { done_bytes: before, total_bytes });
        }
        for level in 1..NUM_LEVELS {
            if let Some(meta) = first_overlap(version.tables(level).map(|stored| &stored.meta)) {
                let path = self.shared.identity.dir.join(table_name(meta.number));
                report.damage.push(Error::Corrupt { field: Field::Level, offset: 0 }.in_file(&path));
            }
        }
        self.verify_manifest(&mut report)?;
        self.verify_logs(&mut report)?;
        Ok(report)
    }

    fn verify_manifest(&self, report: &mut VerifyReport) -> Result<()> {
        // While the lock is held, no edit is in progress.
        let registry = lock(&self.shared.catalogue.registry);
        let found = Manifest::recover(self.shared.options.storage.as_ref(), &self.shared.identity.dir, None);
        let Some(found) = report.note(found)? else { return Ok(()) };
        let corrupt = |field, offset| Error::Corrupt { field, offset };
        if found.number != registry.manifest.number() {
            report.damage.push(corrupt(Field::CurrentFile, 0).in_file(&self.shared.identity.dir.join(CURRENT)));
        } else if !found.end.is_clean() || found.state.levels != registry.state.levels {
            let path = self.shared.identity.dir.join(manifest_name(found.number));
            report.damage.push(corrupt(Field::ManifestRecord, found.end.valid_len_bytes).in_file(&path));
        }
        Ok(())
    }

    fn verify_logs(&self, report: &mut VerifyReport) -> Result<()> {
        let shared = &self.shared;
        let storage = shared.options.storage.as_ref();
        let oldest = lock(&shared.catalogue.registry).state.log_number;
        let mut log = lock(&shared.writing.log);
        let current = shared.reading.state.load().memtable.log_number;
        // After a failure the end of the log is unknown, so the logs are not read.
        if let Err(error) = log.log.flush() {
            report.damage.push(error.in_file(&shared.identity.dir.join(log_name(current))));
            return Ok(());
        }
        let number_of = |name: &String| match parse(name) {
            Some(FileName::Log(number)) if number >= oldest && number < current => Some(number),
            _ => None,
        };
        let older: Vec<u64> = storage.list(&shared.identity.dir)?.iter().filter_map(number_of).collect();
        for number in older.into_iter().chain([current]) {
            let path: PathBuf = shared.identity.dir.join(log_name(number));
            let id = LogId { kind: LogKind::WriteAhead, store_id: shared.identity.store_id, number };
            let outcome = read_log(storage, &path, id, LogRecovery::Strict, &mut |record| record.next_sequence());
            // A flush that has just finished removes its log.
            if number != current && !storage.exists(&path)? {
                continue;
            }
            let Some(end) = report.note(outcome)? else { continue };
            let is_short = number == current && end.next_sequence != Some(log.last_sequence + 1);
            if !end.is_clean() || is_short {
                let error = Error::Corrupt { field: Field::LogRecord, offset: end.valid_len_bytes };
                report.damage.push(error.in_file(&path));
            }
        }
        Ok(())
    }
}
