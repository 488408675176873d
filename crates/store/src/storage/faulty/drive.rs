//! Simulates the content of a disk and the effect of a power failure on it.
//!
//! The bytes of a file are durable up to its last sync. The names in a directory are durable up to
//! the last sync of the directory. A crash may keep or lose each unsynced change, independently of
//! the other changes.

#![expect(clippy::indexing_slicing, reason = "a test may panic, and these indices are in bounds")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The length of a sector. A disk writes a sector completely or not at all.
const SECTOR_LEN_BYTES: usize = 512;

/// The length of a page. A disk allocates space to files in whole pages.
pub(super) const PAGE_LEN_BYTES: usize = 4096;

/// An empty file has one page, which represents the space of its name.
pub(super) fn pages(len_bytes: usize) -> usize {
    len_bytes.div_ceil(PAGE_LEN_BYTES).max(1)
}

/// The effect of a crash on unsynced changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// All unsynced changes are lost.
    Dropped,
    /// All changes reached the disk.
    Kept,
    /// All changes of names and a random part of the unsynced bytes reached the disk. A file may
    /// end early, and missing sectors of 512 bytes read as zeros.
    Torn,
    /// Each change of a name and the unsynced bytes of each file survive or are lost independently.
    /// A rename may survive without the earlier creation, and a name without the bytes of its file.
    Reordered,
}

impl Crash {
    /// All kinds of crash.
    pub const ALL: [Self; 4] = [Self::Dropped, Self::Kept, Self::Torn, Self::Reordered];
}

/// A SplitMix64 generator of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to `most`, inclusive.
    #[expect(clippy::cast_possible_truncation, reason = "at most `most`, which is a usize")]
    pub(super) fn up_to(&mut self, most: usize) -> usize {
        (self.next() % (most as u64).saturating_add(1)) as usize
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }
}

/// A file, independent of its names.
#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    /// The content. Recorded moments share it until it changes.
    pub(super) bytes: Arc<Vec<u8>>,
    /// The offset where the unsynced bytes begin. All bytes before it are durable, except the
    /// ranges in `lost`.
    durable_len: usize,
    /// The ranges that a failed sync lost. Reads still see them, but no later sync makes them
    /// durable.
    lost: Vec<Range<usize>>,
}

impl Inode {
    pub(super) fn sync(&mut self) {
        self.durable_len = self.bytes.len();
    }

    pub(super) fn fail_sync(&mut self) {
        self.lost.push(self.durable_len..self.bytes.len());
        self.sync();
    }

    fn after(&self, crash: Crash, random: &mut Random) -> Self {
        let mut bytes = self.bytes.as_slice().to_vec();
        let crash = match crash {
            Crash::Reordered => [Crash::Dropped, Crash::Kept, Crash::Torn][random.up_to(2)],
            other => other,
        };
        match crash {
            Crash::Kept => {}
            Crash::Dropped | Crash::Reordered => bytes.truncate(self.durable_len),
            Crash::Torn => {
                bytes.truncate(self.durable_len + random.up_to(bytes.len() - self.durable_len));
                let mut from = self.durable_len;
                while from < bytes.len() {
                    let to = bytes.len().min((from / SECTOR_LEN_BYTES + 1) * SECTOR_LEN_BYTES);
                    if random.one_in(4) {
                        bytes[from..to].fill(0);
                    }
                    from = to;
                }
            }
        }
        if crash != Crash::Kept {
            for lost in &self.lost {
                let end = lost.end.min(bytes.len());
                bytes[lost.start.min(end)..end].fill(0);
            }
        }
        let durable_len = bytes.len();
        Self { bytes: Arc::new(bytes), durable_len, lost: Vec::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Directory,
    File(usize),
}

impl Entry {
    fn inode(self) -> Option<usize> {
        match self {
            Self::File(inode) => Some(inode),
            Self::Directory => None,
        }
    }
}

/// Names that change atomically: one name, or the two names of a rename. A name without an entry is
/// removed.
#[derive(Debug, Clone)]
struct Change {
    dir: PathBuf,
    names: Vec<(PathBuf, Option<Entry>)>,
}

fn apply(names: &mut BTreeMap<PathBuf, Entry>, change: &Change) {
    for (path, entry) in &change.names {
        match entry {
            Some(entry) => drop(names.insert(path.clone(), *entry)),
            None => drop(names.remove(path)),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Drive {
    pub(super) inodes: Vec<Inode>,
    /// The names that operations see.
    pub(super) names: BTreeMap<PathBuf, Entry>,
    /// The names at the last sync of their directories.
    durable: BTreeMap<PathBuf, Entry>,
    pending: Vec<Change>,
}

impl Drive {
    pub(super) fn new_inode(&mut self) -> usize {
        self.inodes.push(Inode::default());
        self.inodes.len() - 1
    }

    /// Returns the space that all files with a name take, in bytes.
    pub(super) fn used_bytes(&self) -> u64 {
        let named: BTreeSet<usize> = self.names.values().filter_map(|entry| entry.inode()).collect();
        named.iter().map(|&inode| (pages(self.inodes[inode].bytes.len()) * PAGE_LEN_BYTES) as u64).sum()
    }

    /// Changes names atomically. A sync of the directory of the last name makes the change durable.
    pub(super) fn change(&mut self, names: Vec<(PathBuf, Option<Entry>)>) {
        let dir = names.last().and_then(|(path, _)| path.parent()).unwrap_or(Path::new("")).to_path_buf();
        let change = Change { dir, names };
        apply(&mut self.names, &change);
        self.pending.push(change);
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) {
        let durable = &mut self.durable;
        self.pending.retain(|change| {
            let is_due = change.dir == dir;
            if is_due {
                apply(durable, change);
            }
            !is_due
        });
    }

    pub(super) fn after(&self, crash: Crash, random: &mut Random) -> Self {
        let mut names = self.durable.clone();
        for change in &self.pending {
            let survives = match crash {
                Crash::Dropped => false,
                Crash::Kept | Crash::Torn => true,
                Crash::Reordered => random.one_in(2),
            };
            if survives {
                apply(&mut names, change);
            }
        }
        // A name cannot be found without its directory.
        let whole = names.clone();
        let is_reachable = |path: &Path| path.ancestors().skip(1).all(|dir| is_root(dir) || whole.contains_key(dir));
        names.retain(|path, _| is_reachable(path));
        let mut inodes = vec![Inode::default(); self.inodes.len()];
        let named: BTreeSet<usize> = names.values().filter_map(|entry| entry.inode()).collect();
        for inode in named {
            inodes[inode] = self.inodes[inode].after(crash, random);
        }
        Self { inodes, durable: names.clone(), names, pending: Vec::new() }
    }
}

/// Returns whether `path` is a root directory or the working directory, which always exist.
pub(super) fn is_root(path: &Path) -> bool {
    path.parent().is_none() || matches!(path.to_str(), Some("" | "."))
}
