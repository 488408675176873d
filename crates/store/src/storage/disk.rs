//! The operating system's file system.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{IoMode, ReadAt, Storage, WriteFile, engine_lock};
use crate::error::{Error, Field, Result};

/// What `O_DIRECT` asks of offsets, lengths and memory: enough for every file system with pages of 4 KiB.
const DIRECT_ALIGN_BYTES: usize = 4096;

/// Longest single read past the page cache; a longer one is made of several, so that the buffers of the threads that
/// once read a large range stay small.
const DIRECT_CHUNK_BYTES: usize = 1 << 20;

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Storage for Disk {
    fn open(&self, path: &Path, io: IoMode) -> Result<Arc<dyn ReadAt>> {
        let (file, direct) = in_file(path, open_for_reading(path, io))?;
        Ok(Arc::new(DiskFile::of(file, path, direct)?))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = in_file(path, OpenOptions::new().write(true).create_new(true).open(path))?;
        Ok(Box::new(DiskWriter::of(file, path, None)?))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        in_file(path, open_plain(path).and_then(|mut file| file.read_to_end(&mut bytes)))?;
        Ok(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        in_file(from, fs::rename(from, to))
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()> {
        match fs::hard_link(from, to) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::from(error).in_file(from)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Error::from(error).in_file(to)),
            // Another file system, one without links, too many links: each has its own error kind.
            Err(_) => copy_synced(from, to),
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        in_file(path, fs::remove_file(path))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        in_file(path, path.try_exists())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let names = fs::read_dir(dir).and_then(|entries| {
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()
        });
        let mut names = in_file(dir, names)?;
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        in_file(dir, fs::create_dir_all(dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        // Elsewhere a directory cannot be opened as a file, and the file system orders names on its own.
        if cfg!(unix) {
            in_file(dir, File::open(dir).and_then(|dir| dir.sync_all()))?;
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        Ok(Box::new(LockedFile::of(in_file(path, file)?, path)?))
    }

    fn hold(&self, dir: &Path) -> Result<Option<Arc<dyn Storage>>> {
        #[cfg(unix)]
        let held = super::held::HeldDir::open(dir)?;
        #[cfg(not(unix))]
        let held = super::absolute::AbsoluteDir::open(dir)?;
        Ok(Some(Arc::new(held)))
    }

    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
    fn free_bytes(&self, dir: &Path) -> Result<Option<u64>> {
        Ok(free_of(&in_file(dir, rustix::fs::statvfs(dir).map_err(io::Error::from))?))
    }
}

/// Without the blocks that only the superuser gets. `None` for a file system that states no size, such as ramfs.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
pub(super) fn free_of(found: &rustix::fs::StatVfs) -> Option<u64> {
    (found.f_blocks != 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

pub(super) struct LockedFile(pub(super) File);

impl LockedFile {
    pub(super) fn of(file: File, path: &Path) -> Result<Self> {
        if in_file(path, engine_lock::is_held(&file))? {
            return Err(Error::Locked.in_file(path));
        }
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(Error::Locked.in_file(path)),
            Err(TryLockError::Error(error)) => Err(Error::from(error).in_file(path)),
        }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a process that another thread is just starting: between fork and exec
        // it shares all open files. Should unlocking fail, closing is what is left.
        let _ = self.0.unlock();
    }
}

pub(super) fn in_file<T>(path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|error| Error::from(error).in_file(path))
}

/// The file, and whether its reads must be aligned.
fn open_for_reading(path: &Path, io: IoMode) -> io::Result<(File, bool)> {
    #[cfg(target_os = "linux")]
    if io == IoMode::Direct {
        use std::os::unix::fs::OpenOptionsExt;
        let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        match OpenOptions::new().read(true).custom_flags(direct).open(path) {
            Ok(file) => return Ok((file, true)),
            // EINVAL: a file system without direct reads; the page cache gives the same bytes.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {}
            Err(error) => return Err(error),
        }
    }
    let _ = io;
    open_plain(path).map(|file| (file, false))
}

/// Opens a plain file for reading. A pipe would wait for its other end.
fn open_plain(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    check_plain(options.open(path)?)
}

/// # Errors
/// `InvalidInput` for what is no plain file: a directory, a pipe, a device.
pub(super) fn check_plain(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "not a plain file; remove it, or give it another name"))
}

fn copy_synced(from: &Path, to: &Path) -> Result<()> {
    let mut source = in_file(from, File::open(from))?;
    let mut target = in_file(to, OpenOptions::new().write(true).create_new(true).open(to))?;
    copy_into(&mut source, &mut target, to, || fs::remove_file(to))
}

/// Copies a file to another, which `remove` removes again after a failure.
pub(super) fn copy_into(
    source: &mut File,
    target: &mut File,
    to: &Path,
    remove: impl FnOnce() -> io::Result<()>,
) -> Result<()> {
    let copied = io::copy(source, target).and_then(|_| target.sync_all());
    if copied.is_err() {
        // Half a copy must not look like a file; that it could not be removed changes nothing about the first error.
        let _ = remove();
    }
    in_file(to, copied)
}

#[derive(Debug)]
pub(super) struct DiskFile {
    file: File,
    path: PathBuf,
    len: u64,
    direct: bool,
}

impl DiskFile {
    pub(super) fn of(file: File, path: &Path, direct: bool) -> Result<Self> {
        let len = in_file(path, file.metadata())?.len();
        Ok(Self { file, path: path.to_path_buf(), len, direct })
    }
}

impl ReadAt for DiskFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let result = if self.direct {
            read_direct(&self.file, buffer, offset)
        } else {
            let wanted = buffer.len();
            read_at_least(|rest, at| read_at(&self.file, rest, at), buffer, offset, wanted, 1)
        };
        result.map_err(|error| error.in_file(&self.path))
    }

    fn as_file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

/// Reads at `offset` until `wanted` bytes of `buffer` are there.
///
/// A read that stops short of a multiple of `align` is repeated from the last multiple, so that every offset keeps its
/// alignment; one that does not get that far has met the end of the file.
fn read_at_least(
    read_at: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    buffer: &mut [u8],
    offset: u64,
    wanted: usize,
    align: usize,
) -> Result<()> {
    let mut filled = 0;
    while filled < wanted {
        let rest = buffer.get_mut(filled..).unwrap_or_default();
        let got = match read_at(rest, offset + filled as u64) {
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        if got < align && filled + got < wanted {
            return Err(Error::Corrupt { field: Field::Length, offset: offset + (filled + got) as u64 });
        }
        filled = if filled + got >= wanted { wanted } else { filled + got - got % align };
    }
    Ok(())
}

/// Reads past the page cache, by way of a buffer that is aligned as the device wants it.
fn read_direct(file: &File, buffer: &mut [u8], offset: u64) -> Result<()> {
    thread_local! {
        // This is the path of every data block: a fresh aligned allocation a read would cost more than the copy.
        static BOUNCE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let align = DIRECT_ALIGN_BYTES as u64;
    BOUNCE.with_borrow_mut(|bounce| {
        let mut offset = offset;
        for chunk in buffer.chunks_mut(DIRECT_CHUNK_BYTES) {
            // Below the alignment, so it fits any integer.
            let skip = usize::try_from(offset % align).unwrap_or_default();
            let aligned_len = (skip + chunk.len()).next_multiple_of(DIRECT_ALIGN_BYTES);
            if bounce.len() < aligned_len + DIRECT_ALIGN_BYTES {
                bounce.resize(aligned_len + DIRECT_ALIGN_BYTES, 0);
            }
            let start = bounce.as_ptr().align_offset(DIRECT_ALIGN_BYTES);
            let aligned = bounce.get_mut(start..start + aligned_len).unwrap_or_default();
            let (start, wanted) = (offset - skip as u64, skip + chunk.len());
            read_at_least(|rest, at| read_at(file, rest, at), aligned, start, wanted, DIRECT_ALIGN_BYTES)?;
            chunk.copy_from_slice(aligned.get(skip..skip + chunk.len()).unwrap_or_default());
            offset += chunk.len() as u64;
        }
        Ok(())
    })
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    use std::io::{Read, Seek, SeekFrom};
    use std::sync::{Mutex, PoisonError};
    // The file has one position for all threads.
    static SEEK: Mutex<()> = Mutex::new(());
    let _guard = SEEK.lock().unwrap_or_else(PoisonError::into_inner);
    file.seek(SeekFrom::Start(offset))?;
    file.read(buffer)
}

/// The directory that a file was created in, to ask whether the file still has its name.
#[cfg(unix)]
type Home = super::held::Root;
#[cfg(not(unix))]
type Home = std::convert::Infallible;

#[derive(Debug)]
pub(super) struct DiskWriter {
    file: File,
    path: PathBuf,
    len: u64,
    /// Where the file is to have its name, if the directory is held.
    #[cfg_attr(not(unix), expect(dead_code, reason = "no directory is held there"))]
    home: Option<Home>,
    /// The first failure. After it the file's end is unknown, and a repeated sync may report success for bytes that
    /// the system has already dropped.
    failure: Option<String>,
}

impl DiskWriter {
    pub(super) fn of(file: File, path: &Path, home: Option<Home>) -> Result<Self> {
        let len = in_file(path, file.metadata())?.len();
        Ok(Self { file, path: path.to_path_buf(), len, home, failure: None })
    }

    /// Bytes that nobody finds by the file's name are not durable, whatever the sync says.
    fn check_name(&self) -> io::Result<()> {
        #[cfg(unix)]
        if let Some(home) = &self.home
            && !home.leads_to(&self.path, &self.file)?
        {
            let reason = "another program removed or replaced this file while it was written";
            return Err(io::Error::new(ErrorKind::NotFound, reason));
        }
        Ok(())
    }

    fn attempt(&mut self, what: &str, act: impl FnOnce(&mut Self) -> io::Result<()>) -> Result<()> {
        if let Some(reason) = &self.failure {
            return Err(Error::Poisoned { reason: reason.clone() }.in_file(&self.path));
        }
        act(self).map_err(|error| {
            self.failure = Some(format!("{what} failed: {error}"));
            Error::from(error).in_file(&self.path)
        })
    }
}

impl WriteFile for DiskWriter {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.attempt("write", |own| own.file.write_all(bytes))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.attempt("sync", |own| own.file.sync_data().and_then(|()| own.check_name()))
    }

    fn len(&self) -> u64 {
        self.len
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn writer(path: &str) -> Result<DiskWriter> {
        DiskWriter::of(OpenOptions::new().append(true).open(path)?, Path::new(path), None)
    }

    #[test]
    fn a_handle_refuses_everything_after_a_failed_sync() {
        // The null device takes writes, but cannot be synced.
        let mut file = writer("/dev/null").unwrap();
        file.write_all(b"abc").unwrap();
        assert!(matches!(file.sync().unwrap_err().root(), Error::Io(_)));
        for error in [file.sync().unwrap_err(), file.write_all(b"d").unwrap_err()] {
            assert!(matches!(error.root(), Error::Poisoned { reason } if reason.starts_with("sync failed")), "{error}");
            assert!(error.to_string().starts_with("/dev/null"), "{error}");
        }
        assert_eq!(file.len(), 3);
    }

    #[test]
    fn a_lock_ends_with_its_guard_though_a_process_shares_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = LockedFile::of(File::create(&path).unwrap(), &path).unwrap();
        let _shared_by_a_fork = lock.0.try_clone().unwrap();
        assert!(matches!(Disk.lock(&path).err().unwrap().root(), Error::Locked));
        drop(lock);
        drop(Disk.lock(&path).unwrap());
    }

    #[test]
    fn a_file_without_an_answer_is_not_taken_for_missing() {
        let dir = tempfile::tempdir().unwrap();
        let circle = dir.path().join("circle");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        let error = Disk.exists(&circle).unwrap_err();
        assert!(error.to_string().starts_with(circle.to_str().unwrap()), "{error}");
        assert!(Disk.exists(dir.path()).unwrap());
        assert!(!Disk.exists(&dir.path().join("nothing")).unwrap());
    }

    #[test]
    fn a_handle_refuses_everything_after_a_failed_write() {
        let mut file = writer("/dev/full").unwrap();
        assert!(matches!(file.write_all(b"abc").unwrap_err().root(), Error::Io(_)));
        let error = file.sync().unwrap_err();
        assert!(matches!(error.root(), Error::Poisoned { reason } if reason.starts_with("write failed")), "{error}");
        assert!(file.is_empty());
    }

    #[test]
    fn interrupted_and_short_reads_continue_from_aligned_places() {
        let content: Vec<u8> = (0..100).collect();
        for align in [1, 8] {
            for longest in align..30 {
                let calls = std::cell::Cell::new(0);
                let read = |buffer: &mut [u8], offset: u64| {
                    calls.set(calls.get() + 1);
                    assert_eq!(offset % align as u64, 0);
                    if calls.get() % 3 == 0 {
                        return Err(ErrorKind::Interrupted.into());
                    }
                    let rest = &content[usize::try_from(offset).unwrap().min(content.len())..];
                    let len = rest.len().min(buffer.len()).min(longest);
                    buffer[..len].copy_from_slice(&rest[..len]);
                    Ok(len)
                };
                let mut buffer = [0; 96];
                read_at_least(read, &mut buffer, 8, 92, align).unwrap();
                assert_eq!(buffer[..92], content[8..]);
                let error = read_at_least(read, &mut buffer, 8, 93, align).unwrap_err();
                assert!(matches!(error, Error::Corrupt { field: Field::Length, offset: 100 }), "{error}");
            }
        }
        let refused = |_: &mut [u8], _| Err(ErrorKind::PermissionDenied.into());
        assert!(matches!(read_at_least(refused, &mut [0; 4], 0, 4, 1).unwrap_err(), Error::Io(_)));
    }

    #[test]
    fn a_copy_that_fails_leaves_no_half_written_file() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("directory"), dir.path().join("copy"));
        fs::create_dir(&from).unwrap();
        assert!(copy_synced(&from, &to).is_err());
        assert!(!to.exists());
    }
}
