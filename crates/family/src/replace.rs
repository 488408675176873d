//! Replaces files so that no version of a file is lost, even if other programs write the same file,
//! or if the process is killed.
//!
//! [`Place::lock`] keeps out other writers of this crate. Other programs know no lock, and may
//! rename a file of their own to the path at any time. So [`Place::publish`] exchanges the old and
//! the new file in one step where the system can (`RENAME_EXCHANGE` of Linux), and then looks at
//! the file that it displaced:
//!
//! 1. The new file gets the name `NAME.displaced-*`. Nothing removes a file of this name on drop,
//!    after a panic or after a signal.
//! 2. The files are exchanged. Now the displaced file has this name.
//! 3. If the displaced file is the version that was read, the directory is synced, and the displaced
//!    file is removed.
//! 4. Otherwise the files are exchanged back. If this displaces the new file, the new file is
//!    removed. If it displaces another file, both files stay.
//!
//! On other systems and file systems, the path is checked just before a plain rename. A program that
//! renames a file between the check and the rename loses its file. A program that holds the old file
//! open and writes to it later also loses what it writes.

mod checksums;
mod kept;

use std::ffi::OsString;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use checksums::Checksums;
use filterblock::internals::checksum::Crc32;
pub use kept::Kept;

/// The part of a displaced file's name between the name of the replaced file and the random
/// characters.
const DISPLACED: &str = ".displaced-";
/// The number of random characters at the end of a displaced file's name.
const RANDOM_LEN: usize = 4;
/// The maximum length of a file name on most file systems.
const NAME_LEN_MAX: usize = 255;
/// The maximum number of symbolic links in a chain.
const LINKS_MAX: usize = 40;
/// The number of last bytes that a [`Version`] covers. In a shorter file it covers all bytes.
const END_LEN_BYTES: u64 = 4096;
/// The length of a Parquet file's last two fields: the length of the metadata, and the magic.
const PARQUET_END_LEN_BYTES: u64 = 8;

/// A version of a file: device and inode (on Unix), length, modification time, and the CRC-32 of the
/// last 4 KiB or of the whole metadata of a Parquet file. The change time (ctime) is no part of it,
/// because a rename changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    inode: Option<(u64, u64)>,
    len_bytes: u64,
    modified: Option<SystemTime>,
    end_checksum: u32,
}

impl Version {
    /// Returns the version of an open file. Moves the position of the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn of(mut file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        let len_bytes = found.len();
        let mut end_len_bytes = END_LEN_BYTES;
        if let Some(end) = len_bytes.checked_sub(PARQUET_END_LEN_BYTES) {
            file.seek(SeekFrom::Start(end))?;
            let mut end = [0; 8];
            file.read_exact(&mut end)?;
            if let [a, b, c, d, b'P', b'A', b'R', b'1' | b'E'] = end {
                let metadata = u64::from(u32::from_le_bytes([a, b, c, d]));
                end_len_bytes = end_len_bytes.max(metadata + PARQUET_END_LEN_BYTES);
            }
        }
        file.seek(SeekFrom::Start(len_bytes.saturating_sub(end_len_bytes)))?;
        let mut end_checksum = Crc32::new();
        let (mut rest, mut bytes) = (file.take(end_len_bytes), [0; 4096]);
        loop {
            match rest.read(&mut bytes) {
                Ok(0) => break,
                Ok(len) => end_checksum.update(bytes.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let (inode, modified) = (inode(&found), found.modified().ok());
        Ok(Self { inode, len_bytes, modified, end_checksum: end_checksum.finish() })
    }

    /// Returns whether `path`, without following a link, leads to a file of this version. Returns
    /// `false` if the file cannot be read.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        // An open of a named pipe would block.
        path.symlink_metadata().is_ok_and(|found| found.is_file())
            && File::open(path).and_then(|file| Self::of(&file)).is_ok_and(|found| found == *self)
    }
}

#[cfg(unix)]
fn inode(found: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> Option<(u64, u64)> {
    None
}

/// The path of a new file. If a file has this path, it is locked until this value is dropped.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    old: Option<(File, Version)>,
    checksums: Vec<Checksums>,
    notes: Vec<String>,
}

impl Place {
    /// Locks the file at the end of the chain of symbolic links that begins at `path`. The file
    /// need not exist. It must not be a directory or a named pipe.
    ///
    /// If Hadoop's checksum file `.NAME.crc` is beside the file, compares the file with it.
    ///
    /// # Errors
    /// Returns an error if another program holds a lock on the file, or has just replaced it, or if
    /// the file differs from its checksums or cannot be read.
    pub fn lock(path: &Path) -> io::Result<Self> {
        let (given, path) = (path, follow_links(path)?);
        let mut place = Self { path, old: None, checksums: Vec::new(), notes: Vec::new() };
        match File::open(&place.path) {
            Ok(file) => {
                place.try_lock(&file)?;
                let version = Version::of(&file)?;
                // Another writer may have replaced the file after it was opened and before it was
                // locked.
                if !version.is_at(&place.path) {
                    return Err(busy());
                }
                place.old = Some((file, version));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let old = place.old.as_ref().map(|(file, _)| file);
        for path in [given, &place.path] {
            let found = Checksums::beside(path, old, &mut place.notes)?;
            place.checksums.extend(found.filter(|found| !place.checksums.contains(found)));
        }
        Ok(place)
    }

    /// Locks the file. On Windows a lock would keep out readers too, so nothing is locked there.
    fn try_lock(&mut self, file: &File) -> io::Result<()> {
        if cfg!(unix) {
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(busy()),
                Err(TryLockError::Error(error)) => self.notes.push(format!(
                    "the file cannot be locked: {error}; the command goes on, so until it ends, start no other command \
                     that writes this file"
                )),
            }
        }
        Ok(())
    }

    /// Returns the path of the new file, which is no symbolic link.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file that will be replaced, and its version, or `None` if there was no file.
    #[must_use]
    pub fn old(&self) -> Option<&(File, Version)> {
        self.old.as_ref()
    }

    /// Returns messages for the user that are no errors.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Gives the file `new`, which has the name `made` in the same directory, its final name, and
    /// makes the name durable. `new` must be complete and durable. The caller must not remove
    /// `made` any more.
    ///
    /// Replaces Hadoop's checksum files too. It removes the old checksums first and writes the new
    /// ones last, because Hadoop reads a file without checksums, but no file with wrong ones.
    ///
    /// # Errors
    /// Returns an error of the kind `AlreadyExists` if there was no file at [`Self::lock`], and now
    /// there is one. Returns another error if the old file has been changed or replaced since then.
    /// After an error, the old file or the file of the other program has the path, and the new file
    /// is removed, unless the message says otherwise.
    pub fn publish(self, new: &File, made: &Path) -> io::Result<()> {
        // Another writer that finds the new file waits for the verdict.
        if cfg!(unix) {
            let _ = new.try_lock();
        }
        let placed = self.place(new, made);
        if placed.is_err() {
            // If the file has another name already, this name is free.
            let _ = fs::remove_file(made);
        }
        placed?;
        self.checksums.iter().try_for_each(|checksums| checksums.write(new, &self.path))
    }

    fn place(&self, new: &File, made: &Path) -> io::Result<()> {
        if self.old.as_ref().is_some_and(|(_, version)| !version.is_at(&self.path)) {
            return Err(changed(None));
        }
        self.checksums.iter().try_for_each(Checksums::remove)?;
        match &self.old {
            Some((_, version)) => replace(new, made, &self.path, version),
            None => {
                rename_new(made, &self.path).map_err(|error| match error.kind() {
                    ErrorKind::AlreadyExists => {
                        io::Error::new(error.kind(), "another command or program has just created this file; try again")
                    }
                    _ => error,
                })?;
                sync_dir(&self.path).map_err(|error| unsynced(&error, None))
            }
        }
    }
}

/// Replaces the file at `path`, which had the version `seen`, by the file `new`, which has the name
/// `made`. The module says how.
pub(crate) fn replace(new: &File, made: &Path, path: &Path, seen: &Version) -> io::Result<()> {
    let ours = Version::of(new)?;
    let plainly = |from: &Path| {
        fs::rename(from, path)?;
        sync_dir(path).map_err(|error| unsynced(&error, None))
    };
    let displaced = match give_own_name(made, path) {
        Ok(displaced) => displaced,
        Err(error) if is_unsupported(&error) => return plainly(made),
        Err(error) => return Err(error),
    };
    let discard = || ours.is_at(&displaced) && sync_dir(path).is_ok() && fs::remove_file(&displaced).is_ok();
    match exchange(&displaced, path) {
        Ok(()) if seen.is_at(&displaced) => {
            sync_dir(path).map_err(|error| unsynced(&error, Some(&displaced)))?;
            fs::remove_file(&displaced).map_err(|error| {
                let displaced = displaced.display();
                io::Error::other(format!(
                    "the file is written, but its old version could not be removed: {error}; remove {displaced}"
                ))
            })
        }
        Ok(()) => {
            // After an error, the displaced file is not the new file.
            let _ = exchange(&displaced, path);
            Err(changed((!discard()).then_some(&displaced)))
        }
        Err(error) if is_unsupported(&error) => plainly(&displaced).inspect_err(|_| {
            discard();
        }),
        Err(error) => match discard() {
            true if error.kind() != ErrorKind::NotFound => Err(error),
            is_discarded => Err(changed((!is_discarded).then_some(&displaced))),
        },
    }
}

/// Renames the new file to an unused name `NAME.displaced-*`, and returns this name.
fn give_own_name(made: &Path, path: &Path) -> io::Result<PathBuf> {
    if !cfg!(target_os = "linux") {
        return Err(ErrorKind::Unsupported.into());
    }
    let mut builder = tempfile::Builder::new();
    let prefix = displaced_prefix(path);
    let named = builder.prefix(&prefix).rand_bytes(RANDOM_LEN).make_in(dir_of(path), |name| rename_new(made, name))?;
    // From here on, no drop removes the file.
    let (_, name) = named.keep().map_err(|refused| refused.error)?;
    Ok(path.with_file_name(name.file_name().unwrap_or_default()))
}

/// Returns the beginning of the names of files that a replacement of `path` displaces. A long name
/// is shortened.
fn displaced_prefix(path: &Path) -> OsString {
    let name = path.file_name().unwrap_or_default();
    let max = NAME_LEN_MAX - DISPLACED.len() - RANDOM_LEN;
    let mut prefix = match name.len() <= max {
        true => name.to_owned(),
        false => {
            let name = name.to_string_lossy();
            let kept = name.char_indices().take_while(|(at, character)| at + character.len_utf8() <= max);
            kept.map(|(_, character)| character).collect::<String>().into()
        }
    };
    prefix.push(DISPLACED);
    prefix
}

/// Returns the names in a directory that displaced files have. Such files remain if a process is
/// killed while it replaces a file, or if several programs replace a file at the same time.
#[must_use]
pub fn displaced_in(dir: &Path) -> Vec<OsString> {
    let names = fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.file_name()));
    names.filter(|name| name.to_string_lossy().contains(DISPLACED)).collect()
}

/// Returns whether `name` is that of a file which a replacement of `path` displaced.
#[must_use]
pub fn is_displaced(name: &OsString, path: &Path) -> bool {
    let prefix = displaced_prefix(path);
    name.as_encoded_bytes().starts_with(prefix.as_encoded_bytes())
}

/// Returns whether the system or the file system does not support a call.
fn is_unsupported(error: &io::Error) -> bool {
    use ErrorKind::{InvalidFilename, InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | Unsupported | PermissionDenied | InvalidFilename)
}

#[cfg(target_os = "linux")]
fn exchange(a: &Path, b: &Path) -> io::Result<()> {
    rename_with(a, b, rustix::fs::RenameFlags::EXCHANGE)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
fn rename_with(from: &Path, to: &Path, flags: rustix::fs::RenameFlags) -> io::Result<()> {
    use rustix::fs::{CWD, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, flags)?)
}

/// Renames a file. Returns an error of the kind `AlreadyExists` if `to` exists.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rename_with(from, to, rustix::fs::RenameFlags::NOREPLACE) {
        Err(error) if is_unsupported(&error) => {}
        done => return done,
    }
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        // Some file systems have no hard links.
        Err(error) if is_unsupported(&error) && !to.is_symlink() && !to.exists() => fs::rename(from, to),
        Err(error) => Err(error),
    }
}

fn busy() -> io::Error {
    io::Error::other(
        "another command or program has locked this file, or has just replaced it; wait until it has ended, and try \
         again",
    )
}

/// Returns the error about a file that changed. `kept` is the name of another version.
fn changed(kept: Option<&PathBuf>) -> io::Error {
    // Another program may have removed or renamed this version.
    let next = kept.filter(|kept| kept.symlink_metadata().is_ok()).map_or_else(
        || "its version stays, and the new file is discarded; try again".to_owned(),
        |kept| {
            format!(
                "one version is kept as {}; compare both files, keep the right one under the old name, and remove the other",
                kept.display()
            )
        },
    );
    let what = "another command or program has replaced, changed or removed this file meanwhile";
    io::Error::other(format!("{what}; {next}"))
}

fn unsynced(error: &io::Error, kept: Option<&PathBuf>) -> io::Error {
    let kept = kept.map_or_else(String::new, |kept| format!("; the old version is kept as {}", kept.display()));
    io::Error::other(format!(
        "the file is written, but its directory could not be synced: {error}; a machine crash may undo the write, so \
         check the device{kept}"
    ))
}

/// Returns the end of the chain of symbolic links that begins at `path`, or `path` if it is no
/// link. The file need not exist. A rename onto a link would replace the link instead of its
/// target.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..=LINKS_MAX {
        // Most errors mean that `target` is not a link. Any other error occurs again when the file
        // is created.
        let Ok(next) = fs::read_link(&target) else { return Ok(target) };
        target = dir_of(&target).join(next);
    }
    Err(io::Error::other(format!("more than {LINKS_MAX} symbolic links in a row; give the path of the file itself")))
}

/// Returns the directory of a file, which is `.` for a bare name.
#[must_use]
pub fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a rename to `path` durable. On systems other than Unix it does nothing, because
/// `File::open` cannot open a directory there.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir_of(path))?.sync_all() } else { Ok(()) }
}

/// Gives `new` the permissions of `replaced` and, as far as the process may set them, its owner and
/// group. If the group cannot be set, `new` has no permissions for the group.
#[cfg(unix)]
pub(crate) fn keep_owner(replaced: &File, new: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let kept = replaced.metadata()?;
    // Only root may change the owner of a file, so ignore an error.
    let _ = fchown(new, Some(kept.uid()), None);
    // Another group must not get the permissions of the old group.
    let bits = if fchown(new, None, Some(kept.gid())).is_ok() { 0o777 } else { 0o707 };
    new.set_permissions(fs::Permissions::from_mode(kept.mode() & bits))
}

#[cfg(not(unix))]
pub(crate) fn keep_owner(_: &File, _: &File) -> io::Result<()> {
    Ok(())
}
