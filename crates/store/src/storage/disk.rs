//! Implements [`Storage`] with the file system of the operating system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use super::disk_file::{DiskFile, DiskWriter};
use super::system::{LockedFile, check_plain, copy_into, in_file};
use super::{IoMode, ReadAt, Storage, WriteFile};
use crate::error::{Error, Result};

/// The file system of the operating system.
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
            // A link fails on another file system, on a file system without hard links, and for a
            // file with too many links. Each cause has its own error kind.
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
        // On Windows, `File::open` does not open directories, and NTFS logs renames in order.
        if cfg!(unix) {
            in_file(dir, File::open(dir).and_then(|dir| dir.sync_all()))?;
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        // Without `NONBLOCK`, opening a pipe waits for a reader.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
        );
        let file = options.open(path);
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
        Ok(super::system::free_of(&in_file(dir, rustix::fs::statvfs(dir).map_err(io::Error::from))?))
    }
}

/// Opens a file for reading. Returns the file and whether its reads must be aligned.
fn open_for_reading(path: &Path, io: IoMode) -> io::Result<(File, bool)> {
    #[cfg(target_os = "linux")]
    if io == IoMode::Direct {
        match open_with(path, rustix::fs::OFlags::DIRECT) {
            Ok(file) => return check_plain(file).map(|file| (file, true)),
            // EINVAL: the file system has no direct reads. A buffered read returns the same bytes.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {}
            Err(error) => return Err(error),
        }
    }
    let _ = io;
    open_plain(path).map(|file| (file, false))
}

fn open_plain(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    let file = open_with(path, rustix::fs::OFlags::empty());
    #[cfg(not(unix))]
    let file = File::open(path);
    check_plain(file?)
}

/// Opens a file for reading, with `flags` and `NONBLOCK`. With `NONBLOCK`, opening a pipe does not
/// wait for a writer.
#[cfg(unix)]
fn open_with(path: &Path, flags: rustix::fs::OFlags) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = flags | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

fn copy_synced(from: &Path, to: &Path) -> Result<()> {
    let mut source = in_file(from, open_plain(from))?;
    let mut target = in_file(to, OpenOptions::new().write(true).create_new(true).open(to))?;
    copy_into(&mut source, &mut target, to, || fs::remove_file(to))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_guard_despite_a_shared_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = LockedFile::of(File::create(&path).unwrap(), &path).unwrap();
        let _shared_by_a_fork = lock.0.try_clone().unwrap();
        assert!(matches!(Disk.lock(&path).err().unwrap().root(), Error::Locked));
        drop(lock);
        drop(Disk.lock(&path).unwrap());
    }

    #[test]
    fn an_unreadable_path_is_an_error_and_not_a_missing_file() {
        let dir = tempfile::tempdir().unwrap();
        let circle = dir.path().join("circle");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        let error = Disk.exists(&circle).unwrap_err();
        assert!(error.to_string().starts_with(circle.to_str().unwrap()), "{error}");
        assert!(Disk.exists(dir.path()).unwrap());
        assert!(!Disk.exists(&dir.path().join("nothing")).unwrap());
    }

    #[test]
    fn a_failed_copy_leaves_no_half_written_file() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("directory"), dir.path().join("copy"));
        fs::create_dir(&from).unwrap();
        assert!(copy_synced(&from, &to).is_err());
        assert!(!to.exists());
    }
}
