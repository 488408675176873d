//! Implements a Bloom filter in a file, for keys that are added over days and by several processes,
//! one after the other.
//!
//! ```text
//! insert ─▶ bits in memory ── sync ─▶ | header | state | page | page | ...   512 bytes each, each with a checksum
//!                                       once     last    pages with new bits
//! ```
//! A crash, a damaged page or a failed sync never makes the filter deny a key that was synced. The
//! filter relies on a disk that loses no durable write without an error.
//!
//! * A page is a disk sector with its own checksum. A write that is torn between sectors leaves old
//!   and new pages, and all of them are valid. A sync only adds bits, so an old page has all bits
//!   that were synced before.
//! * If a page of bits fails its checksum, all of its bits (at most 4,032) are set when the file is
//!   opened. This adds false positives and no false negatives; see [`FileFilter::damaged_pages`].
//! * Operations that clear bits ([`clear`](FileFilter::clear),
//!   [`intersect_with`](FileFilter::intersect_with)) write a new file beside the old one, sync it
//!   and rename it. After a crash, the file is the old filter or the new one, never a mix. The new
//!   file has a random name, `.filterblock-*.tmp`. A crash may leave it behind. Remove it while no
//!   process writes to a filter in that directory.
//! * A sync that fails loses no key while the filter stays open. The next sync writes the same
//!   pages again.
//! * After a failed sync, the operating system may return bits from its page cache that are missing
//!   on the disk. A writer that opens the file may read such bits. Therefore the first key that is
//!   added to a page after the open makes the next sync write the page, even if the key sets no new
//!   bit.
//! * Two writers would lose each other's bits, so a writer locks `PATH.lock`, a permanent file.
//!   `PATH` is the path without symbolic links. On Unix, a writer also locks the filter's file, and
//!   a replacement file before it gets the filter's name. With two locks, a second writer stays out
//!   even if one of the two files is renamed or removed. If the file has a hard link, `clear` and
//!   `intersect_with` leave the old filter under the other name.
//! * A sync fails with [`Error::Displaced`] if the length, the header or the state of the file was
//!   changed by other code or damaged. The state contains a random number, so an older copy of the
//!   file does not pass. On Unix, a sync also fails if the path no longer leads to the writer's own
//!   file. `clear` and `intersect_with` make the same checks before they replace the file. If the
//!   file was only moved, a sync writes the keys to the moved file before it fails.
//! * Readers take no lock. If a reader reads a page during a write, the page may fail its checksum.
//!   It then counts as damaged for this reader.
//! * The header has 512 bytes and is written once. If it is damaged, the file cannot be opened.
//!
//! The filter keeps its bits in memory and does not map the file. The kernel could write a mapped
//! page at any time, for example before its checksum is updated. If a mapped file were truncated,
//! an access would kill the process.
//!
//! * When: a set grows slowly, several processes query its filter, and the filter is expensive to
//!   rebuild.
//! * When not: if all keys are known at once, build a filter block. If keys are removed, use a
//!   key-value store.
//! * Numbers: FPR and bits are those of a [`Bloom`]. The file has 8 bytes of checksum in each 512
//!   bytes, and 1,024 bytes of header and state. A sync with new keys writes 512 bytes for each
//!   page whose bits may be missing in the file, and 512 bytes of state. It calls `File::sync_data`
//!   once after the pages and once after the state.

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
use crate::error::{Error, Result};
use filterblock::internals::bloom::positions;
use filterblock::internals::zeros;
use filterblock::{HashSeed, KeyHash};

/// A Bloom filter in a file; see the [module](self). [`Error::InFile`] wraps most of its errors and
/// names the file; [`Error::root`] returns the error inside.
///
/// ```
/// use filterblock::HashSeed;
/// use filterblock_family::{FileFilter, Membership};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("seen.filter");
/// let seen = FileFilter::create(&path, 10_000, 0.001, HashSeed(7))?;
/// seen.insert(b"first")?;
/// seen.sync()?;
/// drop(seen);
/// let seen = FileFilter::open_read_only(&path)?;
/// assert!(seen.may_contain(b"first") && seen.len()? == 1);
/// # Ok::<(), filterblock_family::Error>(())
/// ```
#[derive(Debug)]
pub struct FileFilter {
    path: PathBuf,
    header: Header,
    bloom: Bloom,
    /// One mark for each page of bits: [`CLEAN`], [`CHANGED`] or [`FOUND`].
    marks: Vec<AtomicU8>,
    /// An insertion or a union holds this lock shared while it sets bits and marks their pages. A
    /// sync or a copy holds it exclusively while it takes the marks or copies the bits. Without the
    /// lock, a sync could miss a page: one thread has set a bit but not yet marked the page.
    /// Another thread adds a key with the same bit, finds it set, marks nothing, and syncs.
    gate: RwLock<()>,
    added: AtomicU64,
    /// [`LENGTH_KNOWN`], or the reason why the length is unknown.
    length_state: AtomicU8,
    damaged_pages: u64,
    /// `None` if the filter was opened for reading only.
    writer: Option<Mutex<Writer>>,
}

/// The next sync need not write the page.
const CLEAN: u8 = 0;
/// The next sync must write the page, because the file may lack some of its bits.
const CHANGED: u8 = 1;
/// The page was read from the file and may have bits that the disk lacks. The next key or union
/// with a bit in the page changes the mark to [`CHANGED`].
const FOUND: u8 = 2;

const LENGTH_KNOWN: u8 = 0;
const LENGTH_COMBINED: u8 = 1;
const LENGTH_DAMAGED: u8 = 2;

impl FileFilter {
    /// Creates a file whose filter has an expected FPR of at most `false_positive_rate` while it
    /// holds at most `capacity` keys. The filter also takes more keys, at a higher FPR. Returns the
    /// filter, open for writing.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] unless `capacity > 0` and the rate is below 1 and at least about
    /// `capacity / 2^63`. Returns [`Error::Locked`] if another writer holds the lock of `path`, and
    /// [`Error::TooLarge`] if the filter does not fit in memory. Returns an I/O error if the file
    /// exists or cannot be written. A call that fails changes no existing file, but may leave new
    /// files behind, such as `PATH.lock`.
    pub fn create(path: impl AsRef<Path>, capacity: u64, false_positive_rate: f64, seed: HashSeed) -> Result<Self> {
        let shape = Shape::for_rate(capacity, false_positive_rate)?;
        let header = Header { id: 0, shape, seed, capacity, rate: false_positive_rate };
        Self::make(path.as_ref(), header, Length::Known(0), Bloom::of_shape(shape, seed)?)
    }

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// * [`Error::Locked`]: another handle or process has or may have the file open for writing.
    /// * [`Error::Corrupt`]: the header is damaged, the file has the wrong length, or it is not a
    ///   filter.
    /// * [`Error::Unsupported`]: the file is from a newer version, or its version and more of its
    ///   header are damaged.
    /// * [`Error::TooLarge`]: the filter does not fit in memory.
    ///
    /// Damage after the header is not an error; see [`damaged_pages`](Self::damaged_pages). I/O
    /// errors pass through.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (image, writer) = Writer::open(path).map_err(|error| error.in_file(path))?;
        Self::of_image(path, image, Some(writer), FOUND)
    }

    /// Opens a file for reading only, even while a writer has it open. The filter never sees keys
    /// that are synced after this call.
    ///
    /// # Errors
    /// Returns the errors of [`FileFilter::open`], except [`Error::Locked`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let image = on_disk::load(path).map_err(|error| error.in_file(path))?;
        Self::of_image(path, image, None, FOUND)
    }

    fn make(path: &Path, header: Header, length: Length, bloom: Bloom) -> Result<Self> {
        let header = Header { id: layout::new_id(), ..header };
        // Create the file as the last step, so that an earlier error leaves no file.
        let state_page = [0; layout::PAGE_LEN_BYTES];
        let image = Image { header, state_page, length, bloom, damaged_pages: 0, first_damage: None };
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
        let mut marks: Vec<AtomicU8> = zeros(header.num_pages(), "a Bloom filter")?;
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

    /// Adds a key. Returns `true` if the key was certainly absent before. `false` means that it may
    /// have been present. The key is only in memory until [`sync`](Self::sync) writes it to the
    /// file.
    ///
    /// # Errors
    /// Returns [`Error::ReadOnly`] if the filter was opened for reading only.
    pub fn insert(&self, key: &[u8]) -> Result<bool> {
        self.insert_hash(KeyHash::of(key, self.header.seed))
    }

    /// Works like [`FileFilter::insert`], but takes the hash of the key.
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

    /// Adds all keys. Returns the number of keys that were certainly absent before.
    ///
    /// # Errors
    /// Returns the errors of [`FileFilter::insert`].
    pub fn extend<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        keys.into_iter().try_fold(0, |new, key| Ok(new + u64::from(self.insert(key.as_ref())?)))
    }

    /// Makes every key durable whose insertion or union completed before this call.
    ///
    /// # Errors
    /// * [`Error::ReadOnly`]: the filter was opened for reading only.
    /// * [`Error::Displaced`]: the length, the header or the state of the file was changed by other
    ///   code or damaged, or the path no longer leads to the file. The checks run even if there is
    ///   nothing to write.
    /// * An I/O error or [`Error::TooLarge`]: some of the keys may be in the file. The next call
    ///   writes all of them again.
    /// * [`Error::Poisoned`]: an earlier [`clear`](Self::clear) or
    ///   [`intersect_with`](Self::intersect_with) failed to rename the new file, or to make the
    ///   rename durable. Drop the filter and open the file again.
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

    /// Returns the list of pages to write, and marks these pages as clean. If there is no memory
    /// for the list, it returns an error and changes no mark.
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

    /// Syncs and closes the filter. If the filter was opened for reading only, there is nothing to
    /// sync. Dropping a filter syncs it too, but cannot report a failure.
    ///
    /// # Errors
    /// Returns the errors of [`FileFilter::sync`], except [`Error::ReadOnly`]. The filter is closed
    /// even then, so keys that were not synced may be lost.
    pub fn close(self) -> Result<()> {
        if self.writer.is_some() { self.sync() } else { Ok(()) }
    }

    fn writer(&self) -> Result<&Mutex<Writer>> {
        self.writer.as_ref().ok_or_else(|| Error::ReadOnly.in_file(&self.path))
    }

    /// Marks a page for the next sync. If the bits were set before (`were_set`), it marks the page
    /// only if the disk may lack them.
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

    /// Calls `copy` on the bits while no insertion or union changes them. Returns the result of
    /// `copy`, and the length at that moment.
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
            // A drop cannot report an error. Callers that need the error call `close`.
            let _ = self.sync();
        }
    }
}

#[cfg(test)]
mod tests;
