//! What a disk holds, and what a power failure would leave of it.
//!
//! A file's bytes are durable up to its last sync, a directory's names up to its own. Until then a crash may keep a change
//! or lose it, whatever became of those before and after it.

#![expect(clippy::indexing_slicing, reason = "a test may panic, and none of these can")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What disks write whole or not at all.
const SECTOR_LEN_BYTES: usize = 512;

/// What disks give to files at a time.
pub(super) const PAGE_LEN_BYTES: usize = 4096;

/// The pages that a file takes; an empty one has a page of its own, which stands for its name.
pub(super) fn pages(len_bytes: usize) -> usize {
    len_bytes.div_ceil(PAGE_LEN_BYTES).max(1)
}

/// What a crash does to changes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// All are lost.
    Dropped,
    /// All reached the disk.
    Kept,
    /// Names reached the disk; bytes some way, without some of their sectors of 512 bytes, which read as zeros.
    Torn,
    /// Each name and each file by itself, in no order: a rename may be there without the creation before it, and a file
    /// without its name.
    Reordered,
}

impl Crash {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dropped, Self::Kept, Self::Torn, Self::Reordered];
}

/// SplitMix64.
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `most`.
    #[expect(clippy::cast_possible_truncation, reason = "at most `most`, which is a usize")]
    pub(super) fn up_to(&mut self, most: usize) -> usize {
        (self.next() % (most as u64).saturating_add(1)) as usize
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }
}

/// A file, whatever its names.
#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    /// Shared with the drives of earlier moments until it changes.
    pub(super) bytes: Arc<Vec<u8>>,
    /// How many of them were synced.
    durable_len: usize,
    /// What a failed sync gave up: reads still see it, and no later sync brings it to the disk.
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

/// What a name stands for.
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

/// Names that change at once: one, or the two of a rename.
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

/// All files and names.
#[derive(Debug, Clone, Default)]
pub(super) struct Drive {
    pub(super) inodes: Vec<Inode>,
    /// As everybody sees them.
    pub(super) names: BTreeMap<PathBuf, Entry>,
    /// As they were when their directories were synced.
    durable: BTreeMap<PathBuf, Entry>,
    pending: Vec<Change>,
}

impl Drive {
    /// A new file that has no name yet.
    pub(super) fn new_inode(&mut self) -> usize {
        self.inodes.push(Inode::default());
        self.inodes.len() - 1
    }

    /// What all files with a name take.
    pub(super) fn used_bytes(&self) -> u64 {
        let named: BTreeSet<usize> = self.names.values().filter_map(|entry| entry.inode()).collect();
        named.iter().map(|&inode| (pages(self.inodes[inode].bytes.len()) * PAGE_LEN_BYTES) as u64).sum()
    }

    /// Changes names, of the directory of the last, at once.
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

    /// What is there after a crash.
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
        // A name is nowhere to be found without its directory.
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

/// The roots always exist, and the working directory under either of its names.
pub(super) fn is_root(path: &Path) -> bool {
    path.parent().is_none() || matches!(path.to_str(), Some("" | "."))
}
