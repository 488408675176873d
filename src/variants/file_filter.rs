//! A Bloom filter that is kept in a file, for keys that are added over days and processes.
//!
//! ```text
//! insert ─▶ bits in memory ── sync ─▶ | header | state | page | page | ...       512 bytes each, each with a checksum
//!                                         never   after those pages that have new bits
//! ```
//! No fault may make it deny a key that was synced:
//!
//! * A page is a sector and has its own checksum. A write that is torn between sectors leaves old and new pages, and all
//!   of them are sound: bits are only ever set, so an old page beside a new one lacks nothing that was synced before.
//! * A page that does not hold (torn within, rotten, lost) is taken for all ones when the file is opened, and counted
//!   ([`FileFilter::damaged_pages`]): 4,032 bits more than there were, false positives and no false negative.
//! * What takes bits away ([`clear`](FileFilter::clear), [`intersect_with`](FileFilter::intersect_with)) writes a new file
//!   beside, syncs it and renames it: afterwards there is the old filter or the new one, never a mix. The new file has
//!   a random name, `.filterblock-*.tmp`, and is removed if anything fails. After a crash it may be left over; remove it
//!   when no process writes to a filter in that directory.
//! * A sync that fails forgets nothing: the next one writes the same pages again, and more. Bits that are found when the
//!   file is opened may be such that no disk has them (after a sync that failed a system shows them all the same), so a
//!   key writes its pages once, even if all of its bits were there.
//! * Two writers would lose each other's bits. A writer locks `PATH.lock`, a file that stays, and on Unix the file itself,
//!   so that neither a rename nor the removal of a lock file lets a second writer in. A replacement is locked before it
//!   gets the name. Symbolic links to the file are followed first. After a hard link, `clear` and `intersect_with` leave the
//!   other name with the old filter.
//! * A sync checks that the file is still its own: same length and header, the state that this writer last read or wrote,
//!   which has a random number of its own, so that no older copy of the file passes, and on Unix the same device and inode under the file's name. Otherwise the sync fails ([`Error::Displaced`]), and `clear` and
//!   `intersect_with` change nothing. A file that was only moved is written to all the same.
//! * Readers take no lock. A page that is read while it is written may count as damaged for that reader.
//! * The header is 512 bytes that are written once; if they do not hold, opening is an error.
//!
//! Bits are in memory, not in a map of the file: the kernel writes mapped pages when it likes, half changed and without
//! their checksums, and a file that is cut ends the process.
//!
//! * When: a set that grows slowly, is asked by several processes, and costs more to rebuild than 1.6 % for checksums.
//! * When not: for keys that are all there, build a filter block; for keys that come and go, a store.
//! * Numbers: rate and bits of a [`Bloom`], and 8 bytes in 512 for sums; a sync writes 512 bytes for each page with new bits,
//!   and syncs the file twice.

mod base64;
mod buffered;
mod combine;
mod describe;
mod layout;
mod lock;
mod new_file;
mod on_disk;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use layout::{Header, Image, Length, WORDS_PER_PAGE};
use on_disk::Writer;

use super::shape::Shape;
use super::{Bloom, Membership};
use crate::bits;
use crate::hash::{HashSeed, KeyHash};
use crate::kinds::bloom::positions;
use crate::variants::error::{Error, Result};

/// A filter in a file; see the [module](self).
///
/// ```
/// use filterblock::{HashSeed, variants::{FileFilter, Membership}};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("seen.filter");
/// let seen = FileFilter::create(&path, 10_000, 0.001, HashSeed(7))?;
/// seen.insert(b"first")?;
/// seen.sync()?;
/// drop(seen);
/// let seen = FileFilter::open_read_only(&path)?;
/// assert!(seen.may_contain(b"first") && seen.len()? == 1);
/// # Ok::<(), filterblock::variants::Error>(())
/// ```
#[derive(Debug)]
pub struct FileFilter {
    path: PathBuf,
    header: Header,
    bloom: Bloom,
    /// For each page [`CLEAN`], [`CHANGED`] or [`FOUND`].
    marks: Vec<AtomicU8>,
    /// Held for reading while bits are set and their pages marked, for writing while the marks are taken: so a sync takes
    /// the marks of every insertion that was done before it, even of bits that another thread has just set.
    gate: RwLock<()>,
    added: AtomicU64,
    /// [`LENGTH_KNOWN`], or why not.
    length_state: AtomicU8,
    damaged_pages: u64,
    /// `None` if opened for reading only.
    writer: Option<Mutex<Writer>>,
}

/// The page is in the file as it is here.
const CLEAN: u8 = 0;
/// It has bits that the file may lack.
const CHANGED: u8 = 1;
/// It was read from the file, and may have bits that the disk lacks.
const FOUND: u8 = 2;

const LENGTH_KNOWN: u8 = 0;
const LENGTH_COMBINED: u8 = 1;
const LENGTH_DAMAGED: u8 = 2;

impl FileFilter {
    /// Makes a file whose filter answers "maybe" for at most that share of absent keys while it has no more than
    /// `capacity`; more keys are taken, at a higher rate.
    ///
    /// # Errors
    /// When the file exists or cannot be made; [`Error::Locked`]; [`Error::Invalid`] unless there is a key and
    /// `0 < rate < 1`; [`Error::TooLarge`]. After an error no file is left.
    pub fn create(path: impl AsRef<Path>, capacity: u64, false_positive_rate: f64, seed: HashSeed) -> Result<Self> {
        let shape = Shape::for_rate(capacity, false_positive_rate)?;
        let header = Header { id: 0, shape, seed, capacity, rate: false_positive_rate };
        Self::make(path.as_ref(), header, Length::Known(0), Bloom::of_shape(shape, seed)?)
    }

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// [`Error::Locked`] while another has it open for writing; [`Error::Corrupt`] for a header that does not hold, a file
    /// that was cut or grew, or is something else; [`Error::Unsupported`] for a newer version. A damaged page is no error.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (image, writer) = Writer::open(path).map_err(|error| error.in_file(path))?;
        Self::of_image(path, image, Some(writer), FOUND)
    }

    /// Opens a file for reading only, whoever else has it open. What others add later is not seen.
    ///
    /// # Errors
    /// As [`FileFilter::open`], but for the lock.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let image = on_disk::load(path).map_err(|error| error.in_file(path))?;
        Self::of_image(path, image, None, FOUND)
    }

    fn make(path: &Path, header: Header, length: Length, bloom: Bloom) -> Result<Self> {
        let header = Header { id: layout::new_id(), ..header };
        // Last, as it leaves a file.
        let state_page = [0; layout::PAGE_LEN_BYTES];
        let image = Image { header, state_page, length, bloom, damaged_pages: 0 };
        let mut made = Self::of_image(path, image, None, CLEAN)?;
        let writer = Writer::create(path, &header, length, &made.bloom).map_err(|error| error.in_file(path))?;
        made.writer = Some(Mutex::new(writer));
        Ok(made)
    }

    fn of_image(path: &Path, image: Image, writer: Option<Writer>, mark: u8) -> Result<Self> {
        let Image { header, length, bloom, damaged_pages, .. } = image;
        let (added, state) = match length {
            Length::Known(added) => (added, LENGTH_KNOWN),
            Length::Combined => (0, LENGTH_COMBINED),
            Length::Damaged => (0, LENGTH_DAMAGED),
        };
        let mut marks: Vec<AtomicU8> = bits::zeros(header.num_pages(), "a Bloom filter")?;
        marks.iter_mut().for_each(|of_page| *of_page.get_mut() = mark);
        Ok(Self {
            path: path.to_path_buf(),
            marks,
            header,
            bloom,
            gate: RwLock::new(()),
            added: AtomicU64::new(added),
            length_state: AtomicU8::new(state),
            damaged_pages,
            writer: writer.map(Mutex::new),
        })
    }

    /// Adds a key; `true` if it was certainly not there before. It is in the file after [`sync`](Self::sync).
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn insert(&self, key: &[u8]) -> Result<bool> {
        self.insert_hash(KeyHash::of(key, self.header.seed))
    }

    /// As [`FileFilter::insert`].
    ///
    /// # Errors
    /// As there.
    pub fn insert_hash(&self, hash: KeyHash) -> Result<bool> {
        self.writer()?;
        let _shared = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let Shape { cells, probes } = self.header.shape;
        let mut is_new = false;
        for bit in positions(hash, cells, probes) {
            let was_set = !self.bloom.set(bit);
            is_new |= !was_set;
            self.mark((bit / 64) as usize / WORDS_PER_PAGE, was_set);
        }
        if is_new {
            self.added.fetch_add(1, Ordering::Relaxed);
        }
        Ok(is_new)
    }

    /// Adds all keys; gives the number of those that were certainly not there before.
    ///
    /// # Errors
    /// As [`FileFilter::insert`].
    pub fn extend<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        keys.into_iter().try_fold(0, |new, key| Ok(new + u64::from(self.insert(key.as_ref())?)))
    }

    /// Makes all keys durable whose insertion was done before.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Displaced`] when someone moved, removed, replaced, cut or overwrote the file, also
    /// when nothing is to be written; when a write or sync fails. Then some of the keys may be in the file, and another
    /// call writes all of them again.
    pub fn sync(&self) -> Result<()> {
        let mut writer = self.writer()?.lock().unwrap_or_else(PoisonError::into_inner);
        let (pages, length) = {
            let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
            (self.take_marks().map_err(|error| error.in_file(&self.path))?, self.length())
        };
        let written = writer.write(&pages, length, &self.bloom);
        if written.is_err() {
            pages.iter().for_each(|&index| self.mark(index, false));
        }
        written.map_err(|error| error.in_file(&self.path))
    }

    /// The pages that are to be written. On an error, which comes for want of memory, all stay marked.
    fn take_marks(&self) -> Result<Vec<usize>> {
        let is_changed = |(_, mark): &(usize, &AtomicU8)| mark.load(Ordering::Relaxed) == CHANGED;
        let changed = || self.marks.iter().enumerate().filter(is_changed);
        let mut pages = Vec::new();
        pages.try_reserve_exact(changed().count()).map_err(|_| Error::TooLarge { what: "a list of pages" })?;
        for (index, mark) in changed() {
            mark.store(CLEAN, Ordering::Relaxed);
            pages.push(index);
        }
        Ok(pages)
    }

    /// Syncs and closes. Dropping syncs too, but cannot tell of a failure.
    ///
    /// # Errors
    /// As [`FileFilter::sync`].
    pub fn close(self) -> Result<()> {
        if self.writer.is_some() { self.sync() } else { Ok(()) }
    }

    fn writer(&self) -> Result<&Mutex<Writer>> {
        self.writer.as_ref().ok_or_else(|| Error::ReadOnly.in_file(&self.path))
    }

    /// Marks a page to be written; one whose bits `were_set`, only if the disk may lack them.
    fn mark(&self, page: usize, were_set: bool) {
        if let Some(mark) = self.marks.get(page)
            && (!were_set || mark.load(Ordering::Relaxed) == FOUND)
        {
            mark.store(CHANGED, Ordering::Relaxed);
        }
    }

    fn length(&self) -> Length {
        match self.length_state.load(Ordering::Relaxed) {
            LENGTH_KNOWN => Length::Known(self.added.load(Ordering::Relaxed)),
            LENGTH_COMBINED => Length::Combined,
            _ => Length::Damaged,
        }
    }

    /// Bits, as `copy` takes them, and length of one moment.
    fn snapshot<T>(&self, copy: impl FnOnce(&Bloom) -> T) -> (T, Length) {
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        (copy(&self.bloom), self.length())
    }
}

impl Membership for FileFilter {
    fn seed(&self) -> HashSeed {
        self.header.seed
    }

    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.bloom.may_contain_hash(hash)
    }
}

impl Drop for FileFilter {
    fn drop(&mut self) {
        if self.writer.is_some() {
            // There is nobody to tell; who wants to know calls close().
            let _ = self.sync();
        }
    }
}

#[cfg(test)]
mod tests;
