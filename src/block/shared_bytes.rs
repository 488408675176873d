//! Shares the bytes of filter blocks between threads. A [`Reclaimer`] lets a thread of the
//! host's choice free these bytes.
#![expect(unsafe_code, reason = "a slice of bytes whose owner lies behind a shared pointer; see the blocks")]

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::aligned::AlignedBytes;
#[cfg(feature = "mmap")]
use super::mapped::Mapped;

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
    #[cfg(feature = "mmap")]
    Mapped(Mapped),
    Vec(Vec<u8>),
    Shared(Arc<[u8]>),
    Static(&'static [u8]),
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Aligned(bytes) => bytes.as_ref(),
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

    /// Returns the bytes from `start` on, which share the owner. Returns `None` if there are fewer
    /// than `start` bytes.
    pub(super) fn after(&self, start: usize) -> Option<Self> {
        let rest = self.as_ref().get(start..)?;
        Some(Self { start: rest.as_ptr(), len: rest.len(), owner: Arc::clone(&self.owner) })
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
