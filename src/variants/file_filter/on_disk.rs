//! Files of filters: how they are locked, made, replaced and written to.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::layout::{self, Header, Image, Length, PAGE_LEN_BYTES, STATE_OFFSET, WORDS_PER_PAGE};
use crate::error::{Error, Result};
use crate::variants::Bloom;

/// What is read or written at once.
const BUFFER_LEN_BYTES: usize = 1 << 18;

/// The right to write to a file, until it is dropped.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Locks a file beside that at `path`, as that one is replaced by others of its name. The path has no links in it:
    /// another name would be another lock.
    pub(super) fn take(path: &Path) -> Result<Self> {
        let beside = beside(path, ".lock");
        let in_file = |error: io::Error| Error::from(error).in_file(&beside);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&beside).map_err(in_file)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(Error::Locked.in_file(path)),
            Err(TryLockError::Error(error)) => Err(in_file(error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would leave it to a process that is just being started, which shares all open files until then.
        let _ = self.0.unlock();
    }
}

/// The file at work, and what it has.
#[derive(Debug)]
pub(super) struct Writer {
    /// Without links, and from the root on: the process may go to another directory.
    path: PathBuf,
    file: File,
    /// What the state page says; `None` if nobody knows.
    state: Option<Length>,
    /// Why nothing is written any more.
    poisoned: Option<String>,
    _lock: Lock,
}

impl Writer {
    /// `path` as [`found`] or [`to_be_made`] gives it.
    pub(super) fn new(path: PathBuf, file: File, lock: Lock) -> Self {
        Self { path, file, state: None, poisoned: None, _lock: lock }
    }

    /// Writes pages of bits, as they are now, and then the length: a length that counts keys whose bits are not there would
    /// be no lower bound.
    pub(super) fn write(&mut self, id: u64, pages: &[usize], length: Length, bloom: &Bloom) -> Result<()> {
        self.check()?;
        if pages.is_empty() && self.state == Some(length) {
            return Ok(());
        }
        self.state = None;
        let mut run = Vec::new();
        let mut run_offset = 0;
        for &index in pages {
            let offset = layout::page_offset(index);
            if offset != run_offset + run.len() as u64 || run.len() >= BUFFER_LEN_BYTES {
                self.write_at(&run, run_offset)?;
                run.clear();
                run_offset = offset;
            }
            run.extend_from_slice(&layout::bit_page(id, index, bloom.words_from(index * WORDS_PER_PAGE)));
        }
        self.write_at(&run, run_offset)?;
        if !pages.is_empty() {
            self.file.sync_data()?;
        }
        self.write_at(&layout::state_page(id, length), STATE_OFFSET)?;
        self.file.sync_data()?;
        self.state = Some(length);
        Ok(())
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        if !bytes.is_empty() {
            self.file.seek(SeekFrom::Start(offset))?;
            self.file.write_all(bytes)?;
        }
        Ok(())
    }

    /// Puts a new file in the place of this one.
    pub(super) fn replace(&mut self, header: &Header, length: Length, bloom: &Bloom) -> Result<()> {
        self.check()?;
        let path = self.path.as_path();
        match write_beside(path, header, length, bloom).map_err(|error| error.in_file(path)) {
            Err(error) => Err(error),
            Ok(file) => match publish(path) {
                Ok(()) => {
                    (self.file, self.state) = (file, Some(length));
                    Ok(())
                }
                // Which file has the name, now or after a crash, is not known: what is written to either may be lost.
                Err(error) => {
                    self.poisoned = Some(error.to_string());
                    Err(error)
                }
            },
        }
    }

    /// To write elsewhere from now on.
    #[cfg(test)]
    pub(super) fn swap_file(&mut self, file: File) -> File {
        std::mem::replace(&mut self.file, file)
    }

    fn check(&self) -> Result<()> {
        self.poisoned.clone().map_or(Ok(()), |reason| Err(Error::Poisoned { reason }))
    }
}

/// The file's content, and the file.
pub(super) fn load(path: &Path, is_writing: bool) -> Result<(Image, File)> {
    let file = OpenOptions::new().read(true).write(is_writing).open(path)?;
    let len_bytes = file.metadata()?.len();
    let image = layout::read(BufReader::with_capacity(BUFFER_LEN_BYTES, &file), len_bytes)?;
    Ok((image, file))
}

/// The path of a file that is there, without links.
pub(super) fn found(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|error| Error::from(error).in_file(path))
}

/// The path of a file that is to be made, without links.
pub(super) fn to_be_made(path: &Path) -> Result<PathBuf> {
    let in_file = |error: io::Error| Error::from(error).in_file(path);
    let name = path.file_name().ok_or_else(|| in_file(ErrorKind::InvalidInput.into()))?;
    dir_of(path).canonicalize().map(|dir| dir.join(name)).map_err(in_file)
}

/// A link that leads nowhere is there, too.
pub(super) fn check_absent(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(Error::from(io::Error::from(ErrorKind::AlreadyExists)).in_file(path)),
        Err(error) => Err(Error::from(error).in_file(path)),
    }
}

/// Makes a file, or replaces it: whole or not at all. Its maker has the lock.
pub(super) fn replace(path: &Path, header: &Header, length: Length, bloom: &Bloom) -> Result<File> {
    let file = write_beside(path, header, length, bloom).map_err(|error| error.in_file(path))?;
    publish(path)?;
    Ok(file)
}

fn write_beside(path: &Path, header: &Header, length: Length, bloom: &Bloom) -> Result<File> {
    // What a crash left of another try is overwritten; a filter of that name, which has a lock, is not.
    check_absent(&beside(path, ".new.lock"))?;
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(beside(path, ".new"))?;
    let mut out = BufWriter::with_capacity(BUFFER_LEN_BYTES, &file);
    layout::write(&mut out, header, length, bloom)?;
    out.flush()?;
    drop(out);
    file.sync_all()?;
    Ok(file)
}

/// Gives the file beside `path` its name.
fn publish(path: &Path) -> Result<()> {
    let renamed = std::fs::rename(beside(path, ".new"), path).and_then(|()| sync_dir(path));
    renamed.map_err(|error| Error::from(error).in_file(path))
}

/// Makes the rename durable, where directories can be opened.
fn sync_dir(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir_of(path))?.sync_all() } else { Ok(()) }
}

fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

const _: () = assert!(BUFFER_LEN_BYTES.is_multiple_of(PAGE_LEN_BYTES));
