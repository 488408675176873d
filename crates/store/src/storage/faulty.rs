//! Implements [`Storage`] with a file system in memory that fails like a real one, for tests and
//! fuzzers.
//!
//! * [`Faulty::fail`] injects a fault into one operation, or into all operations from an operation
//!   number on.
//! * [`Faulty::record`] and [`Moment::after`] simulate a crash after any operation that is not a
//!   read. The unsynced changes are then lost, kept, torn or reordered.
//! * [`Faulty::set_capacity`] gives the disk a size.
//! * [`Faulty::refuse`] makes chosen operations wait, panic or fail until the refusal ends.
//! * [`Faulty::reads`] lists the reads of open files and their announcements.
//!
//! Random choices depend only on a seed or on the number of operations, so a test can repeat them.
//! A short read or write is an error here, because a real storage must continue short calls itself.

#![expect(clippy::indexing_slicing, reason = "a test may panic, and these indices are in bounds")]

mod drive;
mod fault;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use drive::Crash;
use drive::{Drive, Entry, PAGE_LEN_BYTES, Random, is_root, pages};
pub use fault::{Fault, FaultKind, Operation};

use super::{IoMode, ReadAt, Storage, WriteFile};
use crate::error::{Error, Field, Result};

/// A function that is called before each operation. It returns the error number of the operating
/// system with which the operation fails, or `None` if the operation is not refused. The function
/// may wait, panic, or use the file system.
pub type Refusal = Arc<dyn Fn(Operation, &Path) -> Option<i32> + Send + Sync>;

/// A read of an open file, or the announcement of one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileRead {
    /// The path under which the file was opened.
    pub path: PathBuf,
    /// The first byte of the read.
    pub offset: u64,
    /// The number of bytes.
    pub len_bytes: u64,
    /// Whether this is a call of [`ReadAt::will_read`].
    pub is_announcement: bool,
}

/// A faulty file system. Clones share its state.
#[derive(Clone, Default)]
pub struct Faulty {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    drive: Drive,
    capacity: Option<u64>,
    refusal: Option<Refusal>,
    locked: BTreeSet<PathBuf>,
    operations: u64,
    fault: Option<Fault>,
    struck: Vec<(Operation, PathBuf)>,
    random: Option<Random>,
    mark: u64,
    moments: Option<Vec<Moment>>,
    reads: Vec<FileRead>,
}

/// The state of the file system between two operations.
#[derive(Clone)]
pub struct Moment {
    /// The last operation before this moment.
    pub operation: Operation,
    /// The path of `operation`: the old path of a rename, and the new path of a link.
    pub path: PathBuf,
    /// The last value given to [`Faulty::set_mark`], or 0.
    pub mark: u64,
    drive: Drive,
}

impl Moment {
    /// Returns the file system after a crash at this moment.
    #[must_use]
    pub fn after(&self, crash: Crash, seed: u64) -> Faulty {
        Faulty::holding(self.drive.after(crash, &mut Random(seed)))
    }

    /// Returns the file system after the process was killed at this moment but the machine
    /// continued. All changes are present. A later crash can still lose the unsynced ones.
    #[must_use]
    pub fn killed(&self) -> Faulty {
        Faulty::holding(self.drive.clone())
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {:?} of {}, mark {}", self.operation, self.path.display(), self.mark)
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").finish_non_exhaustive()
    }
}

impl Faulty {
    /// Creates an empty file system without faults, with the root directory and the working
    /// directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn holding(drive: Drive) -> Self {
        Self { state: Arc::new(Mutex::new(State { drive, ..State::default() })) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the fault. It replaces a fault that was set before.
    pub fn fail(&self, fault: Fault) {
        self.state().fault = Some(fault);
    }

    /// Removes the fault.
    pub fn heal(&self) {
        self.state().fault = None;
    }

    /// Limits the total size of all files with a name to `bytes`, or removes the limit if `bytes`
    /// is `None`. Every file takes whole pages of 4 KiB, and at least one.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Refuses the operations for which `refusal` returns an error number. `refusal` replaces an
    /// earlier refusal, and `None` ends the earlier refusal. A refused operation changes nothing,
    /// except that a refused sync loses the unsynced bytes.
    pub fn refuse(&self, refusal: Option<Refusal>) {
        self.state().refusal = refusal;
    }

    /// Returns the number of the next operation. Refused operations have no number.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Returns the operations that a fault hit, oldest first, each with its path.
    #[must_use]
    pub fn struck(&self) -> Vec<(Operation, PathBuf)> {
        self.state().struck.clone()
    }

    /// Starts to record the moment after each operation that does more than read
    /// ([`Operation::is_reading`] is `false`), and the reads of open files. Moments and reads that
    /// were recorded before are dropped.
    pub fn record(&self) {
        let mut state = self.state();
        (state.moments, state.reads) = (Some(Vec::new()), Vec::new());
    }

    /// Returns the recorded reads of open files, oldest first.
    #[must_use]
    pub fn reads(&self) -> Vec<FileRead> {
        self.state().reads.clone()
    }

    /// Returns the recorded moments, oldest first, and stops recording.
    #[must_use]
    pub fn moments(&self) -> Vec<Moment> {
        self.state().moments.take().unwrap_or_default()
    }

    /// Sets the mark of later moments. A test can store its own progress in the mark.
    pub fn set_mark(&self, mark: u64) {
        self.state().mark = mark;
    }

    /// Returns the file system after a crash now. `self` continues unchanged.
    #[must_use]
    pub fn after(&self, crash: Crash, seed: u64) -> Self {
        Self::holding(self.state().drive.after(crash, &mut Random(seed)))
    }

    /// Changes the bytes of a file. The new content is durable, and open handles see it.
    ///
    /// # Errors
    /// Returns an error if the file is missing.
    pub fn damage(&self, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut state = self.state();
        let inode = state.file(path)?;
        let inode = state.drive.inodes.get_mut(inode).ok_or_else(|| refused(ErrorKind::NotFound, path))?;
        edit(Arc::make_mut(&mut inode.bytes));
        inode.sync();
        Ok(())
    }

    /// Performs one operation under the fault or refusal that hits it, if any. Records the moment
    /// after the operation if recording is on and the operation does more than read.
    fn perform<T>(
        &self,
        operation: Operation,
        path: &Path,
        act: impl FnOnce(&mut State, Option<FaultKind>) -> Result<T>,
    ) -> Result<T> {
        let refusal = self.state().refusal.clone();
        let refused = refusal.and_then(|refusal| refusal(operation, path));
        let mut state = self.state();
        let kind = match refused {
            // A refused sync must lose the unsynced bytes, as a failed sync does.
            Some(_) if operation == Operation::Sync => Some(FaultKind::Io),
            Some(_) => None,
            None => state.strike(operation, path),
        };
        let result = match kind {
            None if refused.is_some() => Err(refused_with(refused, path)),
            Some(FaultKind::Io | FaultKind::Interrupted) if operation != Operation::Sync => Err(failure(kind, path)),
            Some(FaultKind::NoSpace) if operation != Operation::Write && operation != Operation::Sync => {
                Err(failure(kind, path))
            }
            Some(FaultKind::Late) => act(&mut state, kind).and(Err(failure(kind, path))),
            _ => act(&mut state, kind)
                .map_err(|error| if refused.is_some() { refused_with(refused, path) } else { error }),
        };
        if state.moments.is_some() && !operation.is_reading() {
            let (mark, drive) = (state.mark, state.drive.clone());
            state.moments.get_or_insert_default().push(Moment { operation, path: path.to_path_buf(), mark, drive });
        }
        result
    }
}

fn failure(kind: Option<FaultKind>, path: &Path) -> Error {
    let kind = match kind {
        Some(FaultKind::NoSpace) => ErrorKind::StorageFull,
        Some(FaultKind::Interrupted) => ErrorKind::Interrupted,
        Some(FaultKind::ShortRead) => ErrorKind::UnexpectedEof,
        // `Other` stands for `EIO`, which has no stable error kind.
        _ => ErrorKind::Other,
    };
    Error::Io(IoError::new(kind, "a fault injected by the test")).in_file(path)
}

fn refused_with(errno: Option<i32>, path: &Path) -> Error {
    Error::Io(IoError::from_raw_os_error(errno.unwrap_or_default())).in_file(path)
}

fn refused(kind: ErrorKind, path: &Path) -> Error {
    Error::Io(IoError::from(kind)).in_file(path)
}

impl State {
    /// A fault that is not lasting is removed when it hits.
    fn strike(&mut self, operation: Operation, path: &Path) -> Option<FaultKind> {
        let number = self.operations;
        self.operations += 1;
        let fault = self.fault.filter(|fault| number >= fault.from && fault.kind.strikes(operation))?;
        if !fault.is_lasting {
            self.fault = None;
        }
        self.struck.push((operation, path.to_path_buf()));
        Some(fault.kind)
    }

    /// Returns the free bytes, or `None` if the disk is unlimited.
    fn free_bytes(&self) -> Option<u64> {
        Some(self.capacity?.saturating_sub(self.drive.used_bytes()))
    }

    fn room_for(&self, inode: usize, len: usize) -> usize {
        let Some(free) = self.free_bytes() else { return len };
        let old_len = self.bytes(inode).len();
        let room = pages(old_len) as u64 * PAGE_LEN_BYTES as u64 - old_len as u64 + free;
        len.min(usize::try_from(room).unwrap_or(usize::MAX))
    }

    fn file(&self, path: &Path) -> Result<usize> {
        match self.drive.names.get(path) {
            Some(Entry::File(inode)) => Ok(*inode),
            _ => Err(refused(ErrorKind::NotFound, path)),
        }
    }

    fn has_directory(&self, path: &Path) -> bool {
        is_root(path) || self.drive.names.get(path) == Some(&Entry::Directory)
    }

    fn check_parent(&self, path: &Path) -> Result<()> {
        let parent_exists = path.parent().is_some_and(|parent| self.has_directory(parent));
        if parent_exists { Ok(()) } else { Err(refused(ErrorKind::NotFound, path)) }
    }

    fn check_free(&self, path: &Path) -> Result<()> {
        if self.drive.names.contains_key(path) || is_root(path) {
            return Err(refused(ErrorKind::AlreadyExists, path));
        }
        self.check_parent(path)
    }

    fn create(&mut self, path: &Path) -> Result<usize> {
        self.check_free(path)?;
        if self.free_bytes().is_some_and(|free| free < PAGE_LEN_BYTES as u64) {
            return Err(refused(ErrorKind::StorageFull, path));
        }
        let inode = self.drive.new_inode();
        self.drive.change(vec![(path.to_path_buf(), Some(Entry::File(inode)))]);
        Ok(inode)
    }

    fn bytes(&self, inode: usize) -> Arc<Vec<u8>> {
        self.drive.inodes.get(inode).map(|inode| Arc::clone(&inode.bytes)).unwrap_or_default()
    }

    /// Corrupts the bytes in `buffer` if `kind` is a silent fault. `all` holds the bytes of the
    /// whole file.
    fn spoil(&mut self, kind: Option<FaultKind>, buffer: &mut [u8], all: &[u8]) {
        if buffer.is_empty() {
            return;
        }
        let random = self.random.get_or_insert(Random(self.operations));
        match kind {
            Some(FaultKind::BitRot) => {
                let at = random.up_to(buffer.len() - 1);
                buffer[at] ^= 1 << random.up_to(7);
            }
            Some(FaultKind::Misdirected) => {
                let from = random.up_to(all.len().saturating_sub(buffer.len()));
                for (byte, other) in buffer.iter_mut().zip(&all[from.min(all.len())..]) {
                    *byte = *other;
                }
            }
            _ => {}
        }
    }
}

impl Storage for Faulty {
    fn open(&self, path: &Path, _io: IoMode) -> Result<Arc<dyn ReadAt>> {
        let (inode, len) = self.perform(Operation::Open, path, |state, _| {
            let inode = state.file(path)?;
            Ok((inode, state.bytes(inode).len() as u64))
        })?;
        Ok(Arc::new(FaultyFile { storage: self.clone(), path: path.to_path_buf(), inode, len }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let inode = self.perform(Operation::Create, path, |state, _| state.create(path))?;
        Ok(Box::new(FaultyWriter { storage: self.clone(), path: path.to_path_buf(), inode }))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        self.perform(Operation::Read, path, |state, kind| {
            let all = state.bytes(state.file(path)?);
            if kind == Some(FaultKind::ShortRead) {
                return Err(failure(kind, path));
            }
            let mut bytes = all.to_vec();
            state.spoil(kind, &mut bytes, &all);
            Ok(bytes)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.perform(Operation::Rename, from, |state, _| {
            let inode = state.file(from)?;
            state.check_parent(to)?;
            if state.has_directory(to) {
                return Err(refused(ErrorKind::IsADirectory, to));
            }
            let names = [(from.to_path_buf(), None), (to.to_path_buf(), Some(Entry::File(inode)))];
            state.drive.change(names.into());
            Ok(())
        })
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()> {
        self.perform(Operation::Link, to, |state, _| {
            let inode = state.file(from)?;
            state.check_free(to)?;
            state.drive.change(vec![(to.to_path_buf(), Some(Entry::File(inode)))]);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.perform(Operation::Remove, path, |state, _| {
            state.file(path)?;
            state.drive.change(vec![(path.to_path_buf(), None)]);
            Ok(())
        })
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.perform(Operation::Exists, path, |state, _| Ok(is_root(path) || state.drive.names.contains_key(path)))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.perform(Operation::List, dir, |state, _| {
            if !state.has_directory(dir) {
                return Err(refused(ErrorKind::NotFound, dir));
            }
            let inside = state.drive.names.keys().filter(|path| path.parent() == Some(dir));
            let names = inside.filter_map(|path| path.file_name());
            Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
        })
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.perform(Operation::CreateDir, dir, |state, _| {
            let mut missing: Vec<&Path> = dir.ancestors().filter(|path| !state.has_directory(path)).collect();
            missing.reverse();
            for path in missing {
                state.check_free(path)?;
                state.drive.change(vec![(path.to_path_buf(), Some(Entry::Directory))]);
            }
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.perform(Operation::SyncDir, dir, |state, _| {
            if !state.has_directory(dir) {
                return Err(refused(ErrorKind::NotFound, dir));
            }
            state.drive.sync_dir(dir);
            Ok(())
        })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        self.perform(Operation::Lock, path, |state, _| {
            if state.file(path).is_err() {
                state.create(path)?;
            }
            if state.locked.insert(path.to_path_buf()) { Ok(()) } else { Err(Error::Locked.in_file(path)) }
        })?;
        Ok(Box::new(LockGuard { storage: self.clone(), path: path.to_path_buf() }))
    }

    fn free_bytes(&self, _: &Path) -> Result<Option<u64>> {
        Ok(self.state().free_bytes())
    }
}

struct LockGuard {
    storage: Faulty,
    path: PathBuf,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.storage.state().locked.remove(&self.path);
    }
}

#[derive(Debug)]
struct FaultyFile {
    storage: Faulty,
    path: PathBuf,
    inode: usize,
    len: u64,
}

impl FaultyFile {
    fn note(&self, offset: u64, len_bytes: u64, is_announcement: bool) {
        let mut state = self.storage.state();
        if state.moments.is_some() {
            state.reads.push(FileRead { path: self.path.clone(), offset, len_bytes, is_announcement });
        }
    }
}

impl ReadAt for FaultyFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn will_read(&self, offset: u64, len_bytes: u64) {
        self.note(offset, len_bytes, true);
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.note(offset, buffer.len() as u64, false);
        self.storage.perform(Operation::ReadAt, &self.path, |state, kind| {
            let all = state.bytes(self.inode);
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let found = all.get(start..).and_then(|rest| rest.get(..buffer.len()));
            let found = if buffer.is_empty() { Some([].as_slice()) } else { found };
            let Some(found) = found else {
                let end = (all.len() as u64).max(offset);
                return Err(Error::Corrupt { field: Field::Length, offset: end }.in_file(&self.path));
            };
            if kind == Some(FaultKind::ShortRead) {
                let half = buffer.len() / 2;
                buffer[..half].copy_from_slice(&found[..half]);
                return Err(failure(kind, &self.path));
            }
            buffer.copy_from_slice(found);
            state.spoil(kind, buffer, &all);
            Ok(())
        })
    }

    fn as_file(&self) -> Option<&std::fs::File> {
        None
    }
}

#[derive(Debug)]
struct FaultyWriter {
    storage: Faulty,
    path: PathBuf,
    inode: usize,
}

impl WriteFile for FaultyWriter {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.storage.perform(Operation::Write, &self.path, |state, kind| {
            let room = state.room_for(self.inode, bytes.len());
            let Some(inode) = state.drive.inodes.get_mut(self.inode) else { return Ok(()) };
            if room < bytes.len() {
                Arc::make_mut(&mut inode.bytes).extend_from_slice(&bytes[..room]);
                return Err(refused(ErrorKind::StorageFull, &self.path));
            }
            if kind == Some(FaultKind::NoSpace) {
                Arc::make_mut(&mut inode.bytes).extend_from_slice(&bytes[..bytes.len() / 2]);
                return Err(failure(kind, &self.path));
            }
            Arc::make_mut(&mut inode.bytes).extend_from_slice(bytes);
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.storage.perform(Operation::Sync, &self.path, |state, kind| {
            let Some(inode) = state.drive.inodes.get_mut(self.inode) else { return Ok(()) };
            match kind {
                None | Some(FaultKind::Late) => inode.sync(),
                Some(_) => {
                    inode.fail_sync();
                    return Err(failure(kind, &self.path));
                }
            }
            Ok(())
        })
    }

    fn len(&self) -> u64 {
        self.storage.state().bytes(self.inode).len() as u64
    }
}
