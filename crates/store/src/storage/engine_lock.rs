//! Detects the locks of other engines. LevelDB and RocksDB lock their `LOCK` file with `fcntl`,
//! which `flock` ignores.
//!
//! The store checks for such a lock but takes none itself, for two reasons:
//! * The kernel drops all `fcntl` locks of a process when the process closes any descriptor of the
//!   file. A second attempt to open the store would release the lock of the first.
//! * On NFS, `flock` is an `fcntl` lock too, so the store's two locks would exclude each other.

use std::fs::File;
use std::io;

/// Whether another process holds an `fcntl` lock on a file. Call it before `flock`: on NFS it could
/// otherwise find the store's own lock.
#[cfg(unix)]
pub(super) fn is_held(file: &File) -> io::Result<bool> {
    use rustix::io::Errno;
    use rustix::process::{Flock, FlockType, fcntl_getlk};
    match fcntl_getlk(file, &Flock::from(FlockType::WriteLock)) {
        Ok(blocking) => Ok(blocking.is_some()),
        // A file system without such locks: no engine holds one.
        Err(Errno::NOSYS | Errno::NOTSUP | Errno::INVAL | Errno::NOLCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// On other systems, the lock of another engine makes the open fail.
#[cfg(not(unix))]
pub(super) fn is_held(_file: &File) -> io::Result<bool> {
    Ok(false)
}
