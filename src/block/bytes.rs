//! Holds the bytes of filter blocks: on the heap aligned to a cache line, in a memory map, or shared
//! between threads, below a bound. A [`Reclaimer`] lets a thread of the host's choice free shared bytes.
#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe, because another process may change it; slices of bytes whose owner lies behind \
              a shared pointer; see the SAFETY comments"
)]

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

#[cfg(all(feature = "mmap", target_os = "linux"))]
use memmap2::Advice;
#[cfg(feature = "mmap")]
use memmap2::{Mmap, MmapOptions};

#[cfg(feature = "mmap")]
use crate::error::Field;
use crate::error::{Error, Result, zeros};

const ALIGNMENT_BYTES: usize = 64;

/// A copy of a filter block on the heap, aligned to 64 bytes.
///
/// Answers are the same at any alignment, but a query of unaligned bytes may read more cache lines.
/// `cargo bench --bench probe -- unaligned` measures the cost.
///
/// The copy does not change when the file that held the block changes.
///
/// ```
/// use filterblock::{AlignedBytes, Expected, FilterBlock, FilterOptions, HashSeed, KeyHasher, Verify};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(7)));
/// let mut builder = FilterOptions::new("blocked-bloom:10".parse()?).table_id(table_id).builder(&hasher)?;
/// builder.add(hasher.key(b"apple"));
/// let bytes = AlignedBytes::copy_of(&builder.finish()?.bytes)?;
/// assert!(bytes.as_ref().as_ptr().addr() % 64 == 0);
/// let block = FilterBlock::open(bytes, &Expected::of_table(table_id, &hasher), Verify::AtOpen)?;
/// # Ok::<(), filterblock::Error>(())
/// ```
pub struct AlignedBytes {
    buffer: Box<[u8]>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// Returns the number of allocated bytes for `len` bytes.
    pub(super) fn allocated(len: u64) -> u64 {
        len.saturating_add(ALIGNMENT_BYTES as u64 - 1)
    }

    /// Allocates `len` zero bytes and lets `fill` overwrite them, for example by reading a region
    /// of the host's file.
    ///
    /// If the host read `len` from a file, `len` may be damaged. Compare it with the length of the
    /// file first.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if `len` bytes cannot be allocated. Returns the errors of
    /// `fill`.
    pub fn filled_by<E: From<Error>>(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut buffer = zeros::<u8>(Self::allocated(len as u64), "a filter block")?.into_boxed_slice();
        // Moving a box does not move its content, so the bytes stay aligned.
        let start = buffer.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES - 1);
        fill(buffer.get_mut(start..start + len).unwrap_or_default())?;
        Ok(Self { buffer, start, len })
    }

    /// Copies `bytes` to the heap, aligned to 64 bytes.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the copy cannot be allocated.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        Self::filled_by(bytes.len(), |copy| {
            copy.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// Reads the whole file at `path`.
    ///
    /// # Errors
    /// Returns an error that names the file if the file cannot be read, is not a regular file, or
    /// does not fit in memory.
    pub fn read(path: &Path) -> Result<Self> {
        let read = || {
            let mut file = open_regular_file(path)?;
            let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX / 2);
            Self::filled_by(len, |bytes| Ok::<(), Error>(file.read_exact(bytes)?))
        };
        read().map_err(|error: Error| error.in_file(path))
    }
}

impl AsRef<[u8]> for AlignedBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBytes").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Tells whether all pages of a memory map are read when the file is mapped, or each page at its
/// first touch.
#[cfg(feature = "mmap")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Populate {
    /// Reads all pages when the file is mapped, on Linux 5.14 or newer. If a page cannot be read,
    /// for example because the file became shorter, mapping returns an error. Older kernels and
    /// other systems read each page when it is first touched. If the page cannot be read then, the
    /// touch raises a signal.
    Yes,
    /// Reads each page when it is first touched. On Linux, the kernel is told not to read ahead.
    No,
}

/// A read-only memory map of a file, or of a region of a file.
///
/// The file must not be changed or truncated while it is mapped. A writer meets this condition if
/// it writes each file under a temporary name, renames it, and never changes it afterwards. A host
/// that cannot guarantee the condition must read the file onto the heap
/// ([`AlignedBytes::read`](super::AlignedBytes::read)).
#[cfg(feature = "mmap")]
#[derive(Debug)]
pub struct Mapped(Option<Mmap>);

#[cfg(feature = "mmap")]
impl Mapped {
    /// Maps a whole file, with [`Populate::Yes`].
    ///
    /// # Errors
    /// Returns an error that names the file if the file cannot be opened, mapped or read, if it is
    /// not a regular file, or if it exceeds the address space.
    pub fn open(path: &Path) -> Result<Self> {
        let map = || {
            let file = open_regular_file(path)?;
            let len = file.metadata()?.len();
            let len = usize::try_from(len).map_err(|_| Error::TooLarge { what: "a memory map" })?;
            Self::region(&file, 0, len, Populate::Yes)
        };
        map().map_err(|error: Error| error.in_file(path))
    }

    /// Maps `len` bytes of a file, starting at `offset`. If `offset` is a multiple of 4,096,
    /// queries touch the fewest pages and cache lines. Any other `offset` works, too.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the file is shorter than `offset + len`. Returns [`Error::Io`]
    /// if it is not a regular file, or if the operating system reports an error.
    pub fn region(file: &File, offset: u64, len: usize, populate: Populate) -> Result<Self> {
        let end = offset.checked_add(len as u64);
        let found = file.metadata()?;
        check_regular(&found)?;
        let file_len = found.len();
        if end.is_none_or(|end| file_len < end) {
            return Err(Error::Corrupt { field: Field::Length, offset });
        }
        // The operating system rejects empty maps.
        if len == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the map is read-only, and the documentation of `Mapped` requires that nobody
        // changes or truncates the file. Filters read the payload only as integers, for which any
        // value is valid. So if a payload changes nevertheless, answers may be wrong, but memory is
        // not corrupted. Reading a page beyond the end of a truncated file raises a signal.
        let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file)? };
        #[cfg(target_os = "linux")]
        match populate {
            Populate::Yes => map.advise(Advice::PopulateRead).or_else(unless_unknown)?,
            // An error is ignored: a kernel that rejects the advice reads ahead, which is slower
            // but not wrong.
            Populate::No => drop(map.advise(Advice::Random)),
        }
        #[cfg(not(target_os = "linux"))]
        let _ = populate;
        Ok(Self(Some(map)))
    }
}

/// Turns the error of Linux kernels before 5.14 into success. These kernels do not know the advice
/// `MADV_POPULATE_READ`, and read each page when it is first touched.
#[cfg(all(feature = "mmap", target_os = "linux"))]
fn unless_unknown(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::InvalidInput { Ok(()) } else { Err(error) }
}

#[cfg(feature = "mmap")]
impl AsRef<[u8]> for Mapped {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// The bytes of a filter block with a reference count. A clone shares the bytes. The address of the
/// bytes never changes.
///
/// Create `SharedBytes` with `From`: from [`AlignedBytes`], a memory map (`Mapped`), a vector, an
/// `Arc<[u8]>` or a static slice. [`AlignedBytes`] are safer than a memory map: changes of the file
/// do not reach the verified copy.
///
/// ```
/// use filterblock::{AlignedBytes, SharedBytes};
///
/// let bytes = SharedBytes::from(AlignedBytes::copy_of(&[7; 100])?);
/// assert_eq!(bytes.clone().as_ref().as_ptr(), bytes.as_ref().as_ptr());
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Clone)]
pub struct SharedBytes {
    /// The first of `len` bytes, which `owner` holds.
    start: *const u8,
    len: usize,
    owner: Arc<Owner>,
}

/// Compiles only for a type that is `Send` and `Sync`. The SAFETY comments below rely on this check
/// of `Owner`.
const fn is_send_and_sync<T: Send + Sync>() {}
const _: () = is_send_and_sync::<Owner>();

// SAFETY: the bytes are only read, and any thread may receive and drop the owner, because `Owner`
// is `Send` and `Sync`.
unsafe impl Send for SharedBytes {}
// SAFETY: the bytes are only read, and threads may share the owner, because `Owner` is `Send` and
// `Sync`.
unsafe impl Sync for SharedBytes {}

/// The storage of the bytes. No variant moves its bytes when the value moves, or changes the bytes
/// while a shared borrow exists. No code borrows the bytes mutably.
enum Held {
    Aligned(AlignedBytes),
    Cached(AlignedBytes, #[expect(dead_code, reason = "is dropped with the bytes")] Room),
    #[cfg(feature = "mmap")]
    Mapped(Mapped),
    Vec(Vec<u8>),
    Shared(Arc<[u8]>),
    Static(&'static [u8]),
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Aligned(bytes) | Self::Cached(bytes, _) => bytes.as_ref(),
            #[cfg(feature = "mmap")]
            Self::Mapped(map) => map.as_ref(),
            Self::Vec(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Static(bytes) => bytes,
        }
    }
}

struct Owner {
    /// The storage. It is `None` only just before the owner is dropped.
    held: Option<Held>,
    reclaimer: Option<Reclaimer>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let (Some(held), Some(reclaimer)) = (self.held.take(), &self.reclaimer) {
            reclaimer.take(held);
        }
    }
}

impl SharedBytes {
    fn new(held: Held, reclaimer: Option<Reclaimer>) -> Self {
        let owner = Arc::new(Owner { held: Some(held), reclaimer });
        let bytes = owner.held.as_ref().map_or(&[][..], Held::as_ref);
        let (start, len) = (bytes.as_ptr(), bytes.len());
        Self { start, len, owner }
    }

    /// Returns `len` of the bytes, which share the owner. Returns `None` if there are too few bytes.
    pub(super) fn within(&self, start: usize, len: usize) -> Option<Self> {
        let part = self.as_ref().get(start..)?.get(..len)?;
        Some(Self { start: part.as_ptr(), len, owner: Arc::clone(&self.owner) })
    }

    /// Returns bytes that give `room` back when they are freed.
    pub(super) fn in_room(bytes: AlignedBytes, room: Room) -> Self {
        Self::new(Held::Cached(bytes, room), None)
    }

    /// Lets the thread that calls [`Reclaimer::reclaim`] free the bytes.
    ///
    /// Freeing gigabytes or unmapping a file may take milliseconds, and the last reference may
    /// belong to a reading thread. Call this method before the first clone. If there are other
    /// references, the call has no effect.
    #[must_use]
    pub fn freed_by(self, reclaimer: &Reclaimer) -> Self {
        let Self { start, len, owner } = self;
        match Arc::try_unwrap(owner) {
            Ok(mut owner) => match owner.held.take() {
                Some(held) => Self::new(held, Some(reclaimer.clone())),
                // Unreachable: an owner that is not being dropped has its storage.
                None => Self::new(Held::Static(&[]), None),
            },
            Err(owner) => Self { start, len, owner },
        }
    }
}

impl AsRef<[u8]> for SharedBytes {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` and `len` describe bytes that `owner` holds. The owner lives as long as
        // `self`. No code borrows its bytes mutably, and the bytes do not move: see `Held`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

/// A bound on the bytes of [`SharedBytes::in_room`].
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) max_bytes: u64,
    /// The bytes that are allocated, or that a thread is about to allocate.
    used: AtomicU64,
}

/// A part of a bound that some bytes take. Dropping it gives the part back.
#[derive(Debug)]
pub(super) struct Room {
    bound: Arc<Bound>,
    bytes: u64,
}

impl Bound {
    pub(super) fn new(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self { max_bytes, used: AtomicU64::new(0) })
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn room(self: &Arc<Self>, bytes: u64) -> Option<Room> {
        let fits = |sum: &u64| *sum <= self.max_bytes;
        let add = |used: u64| used.checked_add(bytes).filter(fits);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Room { bound: Arc::clone(self), bytes })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.bound.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A list of shared bytes that are found through 16 bytes each, so that a query loads few cache lines. An
/// element is empty until it is set, and then never changes.
#[derive(Debug, Default)]
pub(super) struct NearBytes {
    places: Vec<Place>,
    /// Keeps the bytes. The elements belong to those of `places`.
    owners: Vec<OnceLock<SharedBytes>>,
}

/// The first of `len` bytes. An empty place has no bytes.
#[derive(Debug)]
#[repr(align(16))]
struct Place {
    /// Never NULL.
    start: AtomicPtr<u8>,
    len: AtomicUsize,
}

impl Default for Place {
    fn default() -> Self {
        Self { start: AtomicPtr::new(NonNull::dangling().as_ptr()), len: AtomicUsize::new(0) }
    }
}

impl NearBytes {
    pub(super) fn push_empty(&mut self) {
        self.places.push(Place::default());
        self.owners.push(OnceLock::new());
    }

    /// Sets an element that is empty. If it is not, nothing changes.
    pub(super) fn set(&self, index: usize, bytes: SharedBytes) {
        let (Some(place), Some(owner)) = (self.places.get(index), self.owners.get(index)) else { return };
        let bytes = owner.get_or_init(|| bytes);
        place.start.store(bytes.start.cast_mut(), Ordering::Relaxed);
        // A thread that reads this length also reads the start.
        place.len.store(bytes.len, Ordering::Release);
    }

    /// Returns the bytes of an element, which are empty before it is set.
    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> &[u8] {
        let Some(place) = self.places.get(index) else { return &[] };
        let len = place.len.load(Ordering::Acquire);
        // SAFETY: a length above 0 comes from `set`, after the start of the same bytes; for a length of 0,
        // any start that is not NULL is valid. The owner of the element holds these bytes until the list is
        // dropped, because a `OnceLock` is set once and the list has no way to remove or replace an
        // element. All threads that set an element store the same start and length. No code borrows the
        // bytes mutably, and they do not move: see `Held`.
        unsafe { std::slice::from_raw_parts(place.start.load(Ordering::Relaxed), len) }
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let references = Arc::strong_count(&self.owner);
        f.debug_struct("SharedBytes").field("len", &self.len).field("references", &references).finish_non_exhaustive()
    }
}

impl From<AlignedBytes> for SharedBytes {
    fn from(bytes: AlignedBytes) -> Self {
        Self::new(Held::Aligned(bytes), None)
    }
}

#[cfg(feature = "mmap")]
impl From<Mapped> for SharedBytes {
    fn from(map: Mapped) -> Self {
        Self::new(Held::Mapped(map), None)
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(Held::Vec(bytes), None)
    }
}

/// Shares the bytes of the `Arc`. The host may keep its own references, because the bytes of a
/// shared `Arc<[u8]>` cannot change.
impl From<Arc<[u8]>> for SharedBytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self::new(Held::Shared(bytes), None)
    }
}

impl From<&'static [u8]> for SharedBytes {
    fn from(bytes: &'static [u8]) -> Self {
        Self::new(Held::Static(bytes), None)
    }
}

/// A list of dropped [`SharedBytes`] that wait to be freed. A thread of the host's choice frees
/// them, unless the list exceeds its limit: see [`Reclaimer::with_limit`].
///
/// A clone shares the same list.
///
/// ```
/// use filterblock::{Reclaimer, SharedBytes};
///
/// let reclaimer = Reclaimer::default();
/// let bytes = SharedBytes::from(vec![0; 1_000]).freed_by(&reclaimer);
/// drop(bytes);                            // in a reading thread: does not free the bytes
/// assert_eq!(reclaimer.reclaim(), 1);     // in a background thread
/// ```
#[derive(Clone)]
pub struct Reclaimer(Arc<Waiting>);

struct Waiting {
    list: Mutex<List>,
    limit_bytes: usize,
}

#[derive(Default)]
struct List {
    held: Vec<Held>,
    len_bytes: usize,
}

impl Reclaimer {
    /// Creates a list of at most `limit_bytes` bytes. If dropped bytes make the list exceed the
    /// limit, the thread that drops them frees all bytes on the list.
    #[must_use]
    pub fn with_limit(limit_bytes: usize) -> Self {
        Self(Arc::new(Waiting { list: Mutex::default(), limit_bytes }))
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, held: Held) {
        let mut list = self.list();
        // If there is no memory for a longer list, this thread frees the bytes.
        if list.held.try_reserve(1).is_ok() {
            list.len_bytes = list.len_bytes.saturating_add(held.as_ref().len());
            list.held.push(held);
        }
        let is_beyond = list.len_bytes > self.0.limit_bytes;
        drop(list);
        if is_beyond {
            self.reclaim();
        }
    }

    /// Frees all bytes on the list. Returns the number of freed [`SharedBytes`]. A value and its
    /// clones count once.
    pub fn reclaim(&self) -> usize {
        // The lock is released before the bytes are freed.
        let waiting = std::mem::take(&mut *self.list());
        waiting.held.len()
    }

    /// Returns the number of bytes on the list.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.list().len_bytes
    }
}

/// Creates a list without a limit.
impl Default for Reclaimer {
    fn default() -> Self {
        Self::with_limit(usize::MAX)
    }
}

impl fmt::Debug for Reclaimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reclaimer").field("waiting_bytes", &self.waiting_bytes()).finish_non_exhaustive()
    }
}

/// Opens a regular file for reading. Opening a pipe would wait for a writer, perhaps for ever.
///
/// # Errors
/// Returns an error of the kind `InvalidInput` for a directory, a device, a pipe or a socket, and
/// the errors of the operating system.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    check_regular(&path.metadata()?)?;
    let file = File::open(path)?;
    // Another program may have replaced the file since the first check.
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Returns an error unless the metadata describe a regular file.
///
/// # Errors
/// Returns an error of the kind `InvalidInput` for any other file.
pub fn check_regular(found: &Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let reason = "not a regular file (a directory, a device or a pipe); give a file";
    Err(io::Error::new(ErrorKind::InvalidInput, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host may read impossible lengths from a damaged footer.
    #[test]
    fn aligned_bytes_of_impossible_lengths_are_refused() {
        for len in [usize::MAX, usize::MAX - 62, usize::MAX / 2] {
            let made = AlignedBytes::filled_by(len, |_| Ok::<(), Error>(()));
            assert!(matches!(made, Err(Error::TooLarge { .. })), "{len}: {made:?}");
        }
    }

    #[test]
    fn near_bytes_are_set_once_and_kept() {
        let mut near = NearBytes::default();
        (0..3).for_each(|_| near.push_empty());
        for bytes in [vec![1, 2, 3], vec![4]] {
            near.set(1, SharedBytes::from(bytes).within(1, 1).unwrap_or_else(|| SharedBytes::from(&[][..])));
        }
        near.set(2, SharedBytes::from(&[][..]));
        near.set(9, SharedBytes::from(vec![7]));
        assert_eq!([0, 1, 2, 3, 9].map(|index| near.get(index)), [&[][..], &[2], &[], &[], &[]]);
    }

    #[cfg(all(feature = "mmap", target_os = "linux"))]
    #[test]
    fn only_advice_unknown_to_the_kernel_is_ignored() {
        use std::io::ErrorKind::{InvalidInput, Other, OutOfMemory, PermissionDenied};
        for (kind, is_fine) in [(InvalidInput, true), (Other, false), (OutOfMemory, false), (PermissionDenied, false)] {
            assert_eq!(unless_unknown(kind.into()).is_ok(), is_fine, "{kind}");
        }
    }
}
