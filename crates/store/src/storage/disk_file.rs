//! Implements [`ReadAt`] and [`WriteFile`] with open files of the operating system.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::system::in_file;
use super::{ReadAt, WriteFile};
use crate::error::{Error, Field, Result};

/// The alignment of offsets, lengths and memory for `O_DIRECT`. It suffices for every device with
/// logical blocks of at most 4 KiB.
const DIRECT_ALIGN_BYTES: usize = 4096;

/// The maximum number of bytes that one direct read gives to the caller. A longer read is split, so
/// that the buffer of each thread stays small.
const DIRECT_CHUNK_BYTES: usize = 1 << 20;

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

    #[cfg(target_os = "linux")]
    fn will_read(&self, offset: u64, len_bytes: u64) {
        if let (false, Some(len)) = (self.direct, std::num::NonZeroU64::new(len_bytes)) {
            // An error is harmless: the read itself then loads the bytes.
            let _ = rustix::fs::fadvise(&self.file, offset, Some(len), rustix::fs::Advice::WillNeed);
        }
    }

    fn as_file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

/// Reads at `offset` until `buffer` holds at least `wanted` bytes.
///
/// After a short read, the next read starts at the last multiple of `align` within the bytes read,
/// so that every offset stays aligned. A read of less than `align` bytes means the end of the file
/// if `wanted` bytes are not reached.
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

/// Reads without the page cache, through an aligned buffer that each thread keeps.
fn read_direct(file: &File, buffer: &mut [u8], offset: u64) -> Result<()> {
    thread_local! {
        // Every direct read uses this buffer, so that a read usually allocates nothing.
        static BOUNCE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let align = DIRECT_ALIGN_BYTES as u64;
    BOUNCE.with_borrow_mut(|bounce| {
        let mut offset = offset;
        for chunk in buffer.chunks_mut(DIRECT_CHUNK_BYTES) {
            // The remainder is below the alignment of 4,096, so it fits into `usize`.
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
    // All threads share the one position of the file, so a lock protects seek and read.
    static SEEK: Mutex<()> = Mutex::new(());
    let _guard = SEEK.lock().unwrap_or_else(PoisonError::into_inner);
    file.seek(SeekFrom::Start(offset))?;
    file.read(buffer)
}

/// The directory in which a file was created. It can check whether the file still has its name.
#[cfg(unix)]
type Home = super::root::Root;
#[cfg(not(unix))]
type Home = std::convert::Infallible;

#[derive(Debug)]
pub(super) struct DiskWriter {
    file: File,
    path: PathBuf,
    len: u64,
    /// The directory in which the file must have its name, if that directory is held open.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only Unix holds directories open"))]
    home: Option<Home>,
    /// The first failure. After it the end of the file is unknown, and a second sync may report
    /// success for bytes that the system already dropped.
    failure: Option<String>,
}

impl DiskWriter {
    pub(super) fn of(file: File, path: &Path, home: Option<Home>) -> Result<Self> {
        let len = in_file(path, file.metadata())?.len();
        Ok(Self { file, path: path.to_path_buf(), len, home, failure: None })
    }

    /// Checks that the file still has its name, if the directory is held open. The bytes of a file
    /// without a name are lost when the file is closed, even after a successful sync.
    fn check_name(&self) -> io::Result<()> {
        #[cfg(unix)]
        if let Some(home) = &self.home
            && !home.leads_to(&self.path, &self.file)?
        {
            let reason = "another program removed or replaced this file during the write; stop that program, then \
                          reopen the store or repeat the operation";
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
    use std::fs::OpenOptions;

    use super::*;

    fn writer(path: &str) -> Result<DiskWriter> {
        DiskWriter::of(OpenOptions::new().append(true).open(path)?, Path::new(path), None)
    }

    #[test]
    fn a_file_handle_refuses_all_calls_after_a_failed_sync() {
        // The null device accepts writes, but a sync of it fails.
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
    fn a_file_handle_refuses_all_calls_after_a_failed_write() {
        let mut file = writer("/dev/full").unwrap();
        assert!(matches!(file.write_all(b"abc").unwrap_err().root(), Error::Io(_)));
        let error = file.sync().unwrap_err();
        assert!(matches!(error.root(), Error::Poisoned { reason } if reason.starts_with("write failed")), "{error}");
        assert!(file.is_empty());
    }

    #[test]
    fn interrupted_and_short_reads_continue_at_aligned_offsets() {
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
}
