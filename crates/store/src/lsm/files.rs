//! Builds and parses the names of a store's files, and removes unneeded files while the store is open.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::storage::Storage;

/// The name of the file `CURRENT`, which names the manifest in force.
pub const CURRENT: &str = "CURRENT";

/// The name of the temporary file that is renamed to [`CURRENT`].
pub const CURRENT_TEMPORARY: &str = "CURRENT.tmp";

/// The name of the lock file, whose lock keeps other handles from opening the store.
pub const LOCK: &str = "LOCK";

/// The kind of a store's file, derived from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// An SST file.
    Table(u64),
    /// A write-ahead log.
    Log(u64),
    /// A manifest.
    Manifest(u64),
    /// The file `CURRENT`, which names the manifest in force.
    Current,
    /// The lock file.
    Lock,
    /// A file that does not have its final name yet. A crash may leave such a file.
    Temporary,
}

/// Returns the name of an SST file: `000123.sst`.
#[must_use]
pub fn table_name(number: u64) -> String {
    format!("{number:06}.sst")
}

/// Returns the name of a write-ahead log: `000123.log`.
#[must_use]
pub fn log_name(number: u64) -> String {
    format!("{number:06}.log")
}

/// Returns the name of a manifest: `MANIFEST-000123`.
#[must_use]
pub fn manifest_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

/// Returns the original name of an SST that was set aside: `000123.sst` for `unnamed-000123.sst`
/// and for `unnamed-000123.sst.2`. Returns `None` for a name without the prefix `unnamed-`.
#[must_use]
pub fn set_aside_name(name: &str) -> Option<&str> {
    let name = name.strip_prefix("unnamed-")?;
    Some(match name.rsplit_once('.') {
        Some((first, nth)) if nth.parse::<u64>().is_ok() => first,
        _ => name,
    })
}

/// Returns the number in the name of an SST, log or manifest. Also accepts such a name with `.tmp`
/// at its end, as an unfinished SST has. Also accepts `unnamed-` before such a name, as an SST that
/// was set aside has: see [`set_aside_name`]. Returns `None` for every other name.
#[must_use]
pub fn number_in(name: &str) -> Option<u64> {
    let name = set_aside_name(name).unwrap_or(name);
    match parse(name.strip_suffix(".tmp").unwrap_or(name))? {
        FileName::Table(number) | FileName::Log(number) | FileName::Manifest(number) => Some(number),
        FileName::Current | FileName::Lock | FileName::Temporary => None,
    }
}

/// Returns the kind of the file called `name`, or `None` if a store has no file of that name. An
/// SST that was set aside no longer belongs to the store.
#[must_use]
pub fn parse(name: &str) -> Option<FileName> {
    match name {
        CURRENT => return Some(FileName::Current),
        LOCK => return Some(FileName::Lock),
        CURRENT_TEMPORARY => return Some(FileName::Temporary),
        _ => {}
    }
    if let Some(published) = name.strip_suffix(".tmp") {
        return matches!(parse(published)?, FileName::Table(_)).then_some(FileName::Temporary);
    }
    let found = if let Some(number) = name.strip_prefix("MANIFEST-") {
        FileName::Manifest(number.parse().ok()?)
    } else {
        match name.split_once('.')? {
            (number, "sst") => FileName::Table(number.parse().ok()?),
            (number, "log") => FileName::Log(number.parse().ok()?),
            _ => return None,
        }
    };
    // In a store, each number has exactly one spelling. `+1.sst` and `1.sst` belong to other
    // programs and must not be touched.
    let canonical = match found {
        FileName::Table(number) => table_name(number),
        FileName::Log(number) => log_name(number),
        FileName::Manifest(number) => manifest_name(number),
        _ => return None,
    };
    (canonical == name).then_some(found)
}

/// The state of file deletion in the store's directory.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// Whether the store's handle is closed. Snapshots may outlive the handle, but they must not
    /// change the directory, because another store may have files with the same names there.
    pub(crate) is_closed: bool,
    /// Files that could not be removed.
    pub(crate) left: Vec<PathBuf>,
}

impl Removals {
    /// Removes a file if it exists. If the removal fails, the store tries again later. After the
    /// store is closed, this function does nothing.
    pub(crate) fn remove(&mut self, storage: &dyn Storage, path: PathBuf) {
        if !self.is_closed && !remove(storage, &path) {
            self.left.push(path);
        }
    }
}

/// Removes an unneeded file, and logs a failure. Returns whether the file is gone.
pub(crate) fn remove(storage: &dyn Storage, path: &Path) -> bool {
    let error = storage.remove(path).err().filter(|error| !is_missing(error));
    if let Some(error) = &error {
        log::warn!("an unneeded file could not be removed; the store tries again later: {error}");
    }
    error.is_none()
}

pub(crate) fn not_found(reason: &'static str) -> Error {
    Error::Io(std::io::Error::new(std::io::ErrorKind::NotFound, reason))
}

pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(error.root(), Error::Io(error) if error.kind() == std::io::ErrorKind::NotFound)
}

/// Another file has the name of a new file. The store must not remove that file.
pub(crate) fn is_taken(error: &Error) -> bool {
    matches!(error.root(), Error::Io(error) if error.kind() == std::io::ErrorKind::AlreadyExists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_convert_both_ways() {
        assert_eq!(table_name(123), "000123.sst");
        assert_eq!(log_name(0), "000000.log");
        assert_eq!(manifest_name(12_345_678), "MANIFEST-12345678");
        for number in [0, 1, 999_999, 1_000_000, u64::MAX] {
            for (name, file) in [
                (table_name(number), FileName::Table(number)),
                (log_name(number), FileName::Log(number)),
                (manifest_name(number), FileName::Manifest(number)),
            ] {
                assert_eq!((parse(&name), number_in(&name)), (Some(file), Some(number)), "{name}");
            }
        }
        for (name, file, number) in [
            ("CURRENT", FileName::Current, None),
            ("LOCK", FileName::Lock, None),
            ("CURRENT.tmp", FileName::Temporary, None),
            ("000007.sst.tmp", FileName::Temporary, Some(7)),
        ] {
            assert_eq!((parse(name), number_in(name)), (Some(file), number), "{name}");
        }
        let foreign = "|.|1.sst|+00001.sst|-00001.log|0000001.sst|00001a.sst|000001.SST|000001.sst.bak|MANIFEST-|\
                       MANIFEST-1|MANIFEST-x|current|CURRENT.bak|notes.tmp|LOCK.tmp|.sst|99999999999999999999.sst|\
                       000001.sst.tmp.tmp|00000\u{663}.sst|notes";
        for name in foreign.split('|') {
            assert_eq!((parse(name), number_in(name)), (None, None), "{name}");
        }
    }
}
