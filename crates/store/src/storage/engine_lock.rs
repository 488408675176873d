//! The locks of other engines: LevelDB and RocksDB lock their `LOCK` by `fcntl`, which `flock` does not see.
//!
//! The store looks for such a lock and takes none. The kernel drops a process's `fcntl` locks when the process closes any
//! descriptor of the file, so a second attempt to open the store would unlock the first. On NFS, where `flock` is a lock by
//! `fcntl` too, the store's two locks would exclude each other.

use std::fs::File;
use std::io;

/// Whether another process holds a lock by `fcntl` on a file. Ask before `flock`: on NFS the answer may be one's own lock.
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

/// Elsewhere the other engines' locks keep the file from being opened.
#[cfg(not(unix))]
pub(super) fn is_held(_file: &File) -> io::Result<bool> {
    Ok(false)
}
