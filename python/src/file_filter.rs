//! Defines the class `FileFilter`: a Bloom filter in a file, with the method names of the
//! package `pybloomfiltermmap3`.

use std::ffi::OsString;
#[cfg(unix)]
use std::fs;
use std::io::ErrorKind;
use std::mem;
use std::path::PathBuf;

use filterblock::{HashSeed, KeyHash, KeyHasher};
use filterblock_family::{self as variants, Membership};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::args::{ErrorRate, Name, Text, Whole, Word};
use crate::bloom::bits_of;
use crate::errors::{NO_FOLDER, advised, locked, of_io, of_variant, with_type};
use crate::fork_lock::{self, ForkLock};
use crate::key::{self, Accepts};
use crate::keys::{self, Keys};
use crate::memory;

/// A Bloom filter in a file, to which keys can be added at any time. `sync` makes added keys
/// durable.
///
/// FileFilter(capacity, error_rate, filename) creates a file, which must not exist. `open` with mode
/// "a" opens a file, or creates it if it does not exist. A file has one
/// writer at a time: a second writer gets LockedError. Any number of processes may open the file
/// with mode "r". They see the keys that were synced before they opened it. All bits of a damaged
/// page count as set, so damage never denies a key. A damaged header raises DamagedError.
#[pyclass(frozen, weakref, module = "filterblock")]
#[derive(Debug)]
pub struct FileFilter {
    /// The filter, or `None` after `close`. `clear`, `intersection` and `close` lock it for
    /// writing.
    filter: ForkLock<Option<variants::FileFilter>>,
    hasher: KeyHasher,
    path: PathBuf,
    /// The id of the process that opened the file, and its number of forks. A forked child
    /// shares the file lock of its parent.
    process: (u32, u32),
}

fn this_process() -> (u32, u32) {
    (std::process::id(), fork_lock::forks())
}

impl FileFilter {
    fn of(filter: variants::FileFilter) -> Self {
        let (hasher, path) = (KeyHasher::xxh3(filter.seed()), filter.path().to_path_buf());
        Self { filter: ForkLock::new(Some(filter)), hasher, path, process: this_process() }
    }

    /// Wraps the filter of a new file, and sets the mode of the file to `perm` (on Unix).
    fn made(
        py: Python<'_>,
        filename: &Name,
        filter: PyResult<variants::FileFilter>,
        perm: Option<Word>,
    ) -> PyResult<Self> {
        let filter = filename.told(py, filter).map_err(|error| advised(py, error, EXISTS, NO_FOLDER))?;
        #[cfg(unix)]
        if let Some(Word(perm)) = perm {
            use std::os::unix::fs::PermissionsExt;
            let set = fs::set_permissions(filter.path(), fs::Permissions::from_mode(perm));
            set.map_err(|error| of_io(&error, Some(filter.path())))?;
        }
        #[cfg(not(unix))]
        let _ = perm;
        Ok(Self::of(filter))
    }

    /// Runs `read` on the filter, without the GIL. `read` must take no lock of the filter. Raises
    /// `ValueError` if the filter is closed, and the exceptions of the lock.
    fn read<T: Send>(&self, py: Python<'_>, read: impl FnOnce(&variants::FileFilter) -> T + Send) -> PyResult<T> {
        py.detach(|| self.read_here(read))
    }

    /// Works like [`read`](Self::read), but does not release the GIL.
    fn read_here<T>(&self, read: impl FnOnce(&variants::FileFilter) -> T) -> PyResult<T> {
        self.filter.read()?.as_ref().map(read).ok_or_else(closed)
    }

    /// Works like [`read`](Self::read), but `read` may take locks of the filter.
    fn read_inside<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&variants::FileFilter) -> variants::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| self.filter.read_inside()?.as_ref().map(read).ok_or_else(closed))?.map_err(of_variant)
    }

    /// Runs `change` on the filter, without the GIL. Raises `LockedError` in a forked child,
    /// `ValueError` if the filter is closed, and the exceptions of `change`.
    fn change<T: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut variants::FileFilter) -> variants::Result<T> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        py.detach(|| self.filter.write()?.as_mut().map(change).ok_or_else(closed))?.map_err(of_variant)
    }

    /// Raises `LockedError` in a forked child. Parent and child share the file lock, so the lock
    /// does not keep them from overwriting each other's keys.
    fn check_process(&self) -> PyResult<()> {
        if self.is_ours() {
            return Ok(());
        }
        Err(locked(
            "the parent process opened the file; open it in this process with mode 'r', or close it before the fork"
                .to_owned(),
        ))
    }

    /// Checks like [`check_process`](Self::check_process), but usually without a system call. The
    /// check misses a child that was made without `fork` of the C library, for example by a raw
    /// system call. In such a child no lock is safe, and the child must call `exec` at once.
    fn check_forks(&self) -> PyResult<()> {
        if self.process.1 == fork_lock::forks() { Ok(()) } else { self.check_process() }
    }

    fn is_ours(&self) -> bool {
        self.process == this_process()
    }

    fn hash(&self, key: &Bound<'_, PyAny>) -> PyResult<KeyHash> {
        key::with(key, Accepts::All, |key| self.hasher.of(key))
    }
}

impl Drop for FileFilter {
    fn drop(&mut self) {
        let filter = self.filter.get_mut().take();
        if !self.is_ours() {
            // Dropping the filter here could overwrite keys of the parent process and release its
            // lock.
            mem::forget(filter);
        }
    }
}

/// What to do if the file of a new filter exists.
const EXISTS: &str =
    "choose another filename; to open a FileFilter, use FileFilter.open(filename), or mode \"a\" to open or create it";

/// The filters that this process opened by mode "a", as a `WeakValueDictionary`: path to object.
static SHARED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

impl FileFilter {
    /// Opens a file by mode "a".
    fn open_or_create<'py>(
        py: Python<'py>,
        filename: &Name,
        capacity: Option<u64>,
        error_rate: Option<ErrorRate>,
    ) -> PyResult<Bound<'py, Self>> {
        let shared = SHARED.get_or_try_init(py, || {
            Ok::<_, PyErr>(py.import("weakref")?.call_method0("WeakValueDictionary")?.unbind())
        })?;
        let shared = shared.bind(py);
        let known = match filename.path.canonicalize() {
            Ok(path) => shared.call_method1("get", (path.as_os_str(),))?.cast_into::<Self>().ok(),
            Err(_) => None,
        };
        let is_open = |known: &Bound<'_, Self>| known.get().is_ours() && known.get().read(py, |_| ()).is_ok();
        let found = match known.filter(is_open) {
            Some(known) => known,
            None => {
                let path = filename.path.as_path();
                let open = || variants::FileFilter::open(path);
                let opened = py.detach(|| match (open(), capacity) {
                    (Err(error), Some(capacity)) if is_missing(&error) => {
                        let rate = error_rate.map_or(0.01, |rate| rate.0);
                        match variants::FileFilter::create(path, capacity, rate, HashSeed(0)) {
                            // Another process has just created the file.
                            Err(error) if is_there(&error) => open(),
                            created => created,
                        }
                    }
                    (opened, _) => opened,
                });
                let opened = filename.told(py, opened.map_err(of_variant)).map_err(|error| match capacity {
                    Some(_) => error,
                    None => advised(py, error, "", "to create it, give a capacity"),
                });
                let opened = opened.map_err(|error| with_type(py, error, path, "FileFilter"))?;
                let opened = Bound::new(py, Self::of(opened))?;
                let path = filename.path.canonicalize().map_err(|error| of_io(&error, Some(&filename.path)))?;
                shared.set_item(path.as_os_str(), &opened)?;
                opened
            }
        };
        let (has, rate) = (found.get().capacity(py)?, found.get().error_rate(py)?);
        if capacity.is_some_and(|capacity| capacity != has) || error_rate.is_some_and(|given| given.0 != rate) {
            return Err(PyValueError::new_err(format!(
                "{}: the file was made for the capacity {has} and the error rate {rate}; give these, or another filename",
                filename.path.display()
            )));
        }
        Ok(found)
    }
}

fn is_missing(error: &variants::Error) -> bool {
    matches!(error.root(), variants::Error::Io(error) if error.kind() == ErrorKind::NotFound)
}

fn is_there(error: &variants::Error) -> bool {
    matches!(error.root(), variants::Error::Io(error) if error.kind() == ErrorKind::AlreadyExists)
}

fn closed() -> PyErr {
    PyValueError::new_err("the filter is closed; open its file again")
}

/// Returns the one seed in `hash_seeds`, or seed 0 if `hash_seeds` is `None`.
fn seed_of(hash_seeds: Option<Bound<'_, PyAny>>) -> PyResult<HashSeed> {
    let Some(seeds) = hash_seeds else { return Ok(HashSeed(0)) };
    let invalid = || {
        PyValueError::new_err(
            "hash_seeds must be a list of one integer from 0 to 2**64 - 1: all hashes of a key follow from one seed, \
             and their number follows from the error rate",
        )
    };
    let seeds = seeds.try_iter().map_err(|_| invalid())?.take(2).collect::<PyResult<Vec<_>>>()?;
    match seeds.as_slice() {
        [seed] => seed.extract().map(HashSeed).map_err(|_| invalid()),
        _ => Err(invalid()),
    }
}

#[pymethods]
impl FileFilter {
    #[new]
    #[pyo3(signature = (capacity, error_rate, filename, perm=None, hash_seeds=None))]
    fn new(
        py: Python<'_>,
        capacity: Whole,
        error_rate: ErrorRate,
        filename: Name,
        perm: Option<Word>,
        hash_seeds: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let seed = seed_of(hash_seeds)?;
        let made = py.detach(|| variants::FileFilter::create(&filename.path, capacity.0, error_rate.0, seed));
        Self::made(py, &filename, made.map_err(of_variant), perm)
    }

    /// Open a file: with mode "rw" to ask and add keys, or with mode "r" to ask only. Raises
    /// DamagedError, UnsupportedError, LockedError (not mode "r"), ValueError, OSError or
    /// MemoryError.
    ///
    /// Mode "a" also creates the file if it does not exist, and so needs a capacity. If this process
    /// has the file open by mode "a", `open` returns the same object. So a cell of a notebook can run
    /// twice. Raises ValueError if the file exists, but with another capacity or error rate.
    #[staticmethod]
    #[pyo3(
        signature = (filename, mode=None, *, capacity=None, error_rate=None),
        text_signature = "(filename, mode='rw', *, capacity=None, error_rate=None)"
    )]
    fn open<'py>(
        py: Python<'py>,
        filename: Name,
        mode: Option<Text<'_>>,
        capacity: Option<Whole>,
        error_rate: Option<ErrorRate>,
    ) -> PyResult<Bound<'py, Self>> {
        let mode = mode.as_ref().map_or(Ok("rw"), Text::get_short)?;
        if mode != "a" && (capacity.is_some() || error_rate.is_some()) {
            return Err(PyValueError::new_err(
                "capacity and error_rate are for a new file; use mode \"a\", or omit them",
            ));
        }
        let opened = match mode {
            "rw" => py.detach(|| variants::FileFilter::open(&filename.path)),
            "r" => py.detach(|| variants::FileFilter::open_read_only(&filename.path)),
            "a" => return Self::open_or_create(py, &filename, capacity.map(|number| number.0), error_rate),
            _ => {
                return Err(PyValueError::new_err(format!(
                    "there is no mode {mode:?}; use \"r\" to ask, \"rw\" to ask and add, or \"a\" to create the file if it \
                     does not exist"
                )));
            }
        };
        let opened = filename.told(py, opened.map_err(of_variant));
        Bound::new(py, Self::of(opened.map_err(|error| with_type(py, error, &filename.path, "FileFilter"))?))
    }

    /// Add a key. Returns True if the key may have been in the filter before. The key is not
    /// durable until `sync` or `close`.
    fn add(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let hash = self.hash(key)?;
        self.check_forks()?;
        self.read_here(|filter| filter.insert_hash(hash))?.map(|is_new| !is_new).map_err(of_variant)
    }

    /// Add many keys. `keys` is a NumPy or Arrow array, or any iterable of keys. With `width`, it
    /// is bytes with keys that have `width` bytes each. If a key raises an exception, no key is
    /// added.
    #[pyo3(signature = (keys, *more, width=None), text_signature = "($self, keys, *, width=None)")]
    fn update<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        more: &Bound<'py, PyTuple>,
        width: Option<Whole>,
    ) -> PyResult<()> {
        keys::refuse_more(more)?;
        self.check_process()?;
        self.read(py, |_| ())?;
        keys::add(py, &Keys::of(keys, width, Accepts::All)?, &self.hasher, |hashes| {
            self.read_here(|filter| {
                // If the filter was opened for reading only, even an update without keys must fail.
                let first = if filter.is_read_only() { filter.sync() } else { Ok(()) };
                first.and_then(|()| hashes.iter().try_for_each(|&hash| filter.insert_hash(hash).map(drop)))
            })?
            .map_err(of_variant)
        })
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let hash = self.hash(key)?;
        self.read_here(|filter| filter.may_contain_hash(hash))
    }

    /// Ask for many keys at once. Returns a NumPy array of bool in the order of the keys.
    #[pyo3(signature = (keys, *, width=None))]
    fn contains_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        width: Option<Whole>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, |_| ())?;
        keys::ask(py, &Keys::of(keys, width, Accepts::All)?, &self.hasher, |hashes, answers| {
            // If another thread closes the filter meanwhile, the later answers stay True.
            let _ = self.read_here(|filter| {
                hashes.iter().zip(answers).for_each(|(&hash, answer)| *answer = filter.may_contain_hash(hash));
            });
        })
    }

    /// Write the added keys to the file and make them durable. Raises DisplacedError if another
    /// program moved or changed the file, or if an earlier `clear` or `intersection` failed. Raises
    /// ReadOnlyError if the filter was opened with mode "r", LockedError in a forked child,
    /// ValueError if the filter is closed, OSError or MemoryError.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        self.read_inside(py, variants::FileFilter::sync)
    }

    /// Sync and close the filter. With mode "r" or in a forked child, `close` does not sync. If
    /// the sync fails, `close` closes the filter and raises the exception of the sync. Later
    /// queries and changes raise ValueError. A second `close` does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let filter = py.detach(|| self.filter.write().map(|mut filter| filter.take()))?;
        match filter {
            Some(filter) if !self.is_ours() => {
                mem::forget(filter);
                Ok(())
            }
            Some(filter) => py.detach(|| filter.close()).map_err(of_variant),
            None => Ok(()),
        }
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    /// Remove all keys. A new file without keys replaces the old file.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, variants::FileFilter::clear)
    }

    /// Remove all keys, as `clear` does.
    fn clear_all(&self, py: Python<'_>) -> PyResult<()> {
        self.clear(py)
    }

    /// Create a file with the same keys, and return its filter, open for writing.
    #[pyo3(signature = (filename, perm=None))]
    fn copy(&self, py: Python<'_>, filename: Name, perm: Option<Word>) -> PyResult<Self> {
        let copy = self.read_inside(py, |filter| filter.copy(&filename.path));
        Self::made(py, &filename, copy, perm)
    }

    /// Create a file without keys whose filter can be united with this one, and return that filter.
    #[pyo3(signature = (filename, perm=None))]
    fn copy_template(&self, py: Python<'_>, filename: Name, perm: Option<Word>) -> PyResult<Self> {
        let template = self.read_inside(py, |filter| filter.copy_template(&filename.path));
        Self::made(py, &filename, template, perm)
    }

    fn __ior__(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        self.unite(py, other)
    }

    fn __iand__(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        self.intersect(py, other)
    }

    /// Return the whole filter as text, for `from_base64`.
    fn to_base64<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.read_inside(py, variants::FileFilter::to_base64).and_then(|text| PyString::from_bytes(py, text.as_bytes()))
    }

    /// Create a file from the text of `to_base64`, and return its filter, open for writing.
    #[staticmethod]
    #[pyo3(signature = (filename, text, perm=None))]
    fn from_base64(py: Python<'_>, filename: Name, text: Text<'_>, perm: Option<Word>) -> PyResult<Self> {
        let text = text.get()?;
        let made = py.detach(|| variants::FileFilter::from_base64(&filename.path, text)).map_err(of_variant);
        Self::made(py, &filename, made, perm)
    }

    /// The number of added keys that were certainly absent before. After a crash, keys that were
    /// added since the last sync may be missing. After a union, an intersection or damage this
    /// number is unknown, and the length is `approx_len`.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        match self.read(py, variants::FileFilter::len)? {
            Ok(len) => Ok(usize::try_from(len).unwrap_or(usize::MAX)),
            Err(_) => self.approx_len(py),
        }
    }

    /// A filter is true even without keys.
    fn __bool__(&self) -> bool {
        true
    }

    /// The number of distinct keys, estimated from the bits that are set.
    #[getter]
    fn approx_len(&self, py: Python<'_>) -> PyResult<usize> {
        let keys = self.read(py, variants::FileFilter::estimated_keys)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturating")]
        let keys = keys.round() as usize;
        Ok(keys)
    }

    /// The number of keys that the filter was made for.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> PyResult<u64> {
        self.read(py, variants::FileFilter::capacity)
    }

    /// The error rate that the filter was made for.
    #[getter]
    fn error_rate(&self, py: Python<'_>) -> PyResult<f64> {
        self.read(py, variants::FileFilter::false_positive_rate)
    }

    /// The error rate that follows from the number of bits that are set now.
    #[getter]
    fn expected_error_rate(&self, py: Python<'_>) -> PyResult<f64> {
        self.read(py, variants::FileFilter::expected_fpr)
    }

    /// The number of bits.
    #[getter]
    fn num_bits(&self, py: Python<'_>) -> PyResult<u64> {
        self.read(py, variants::FileFilter::num_bits)
    }

    /// The maximum number of bits that a key sets.
    #[getter]
    fn num_hashes(&self, py: Python<'_>) -> PyResult<u32> {
        self.read(py, variants::FileFilter::num_probes)
    }

    /// The number of bits that are set.
    #[getter]
    fn bit_count(&self, py: Python<'_>) -> PyResult<u64> {
        self.read(py, variants::FileFilter::count_ones)
    }

    /// A list with the one seed of the hash function. All bits of a key follow from one hash.
    #[getter]
    fn hash_seeds(&self) -> Vec<u64> {
        vec![self.hasher.seed().0]
    }

    /// The bits, as bytes: bit `i` is bit `i % 8` of byte `i // 8`.
    #[getter]
    fn data_array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bits_of(py, &self.read_inside(py, variants::FileFilter::to_bloom)?)
    }

    /// The number of pages that were damaged when the file was opened. The number is 0 after
    /// `clear` or `intersection`.
    #[getter]
    fn damaged_pages(&self, py: Python<'_>) -> PyResult<u64> {
        self.read(py, variants::FileFilter::damaged_pages)
    }

    /// Whether the file was opened for reading only.
    #[getter]
    fn read_only(&self, py: Python<'_>) -> PyResult<bool> {
        self.read(py, variants::FileFilter::is_read_only)
    }

    /// The path of the file, even after `close`.
    #[getter]
    fn filename(&self) -> OsString {
        self.path.as_os_str().to_owned()
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a FileFilter cannot be pickled, because a file has one writer; send its filename, or the text of to_base64",
        ))
    }

    /// Describes the filter. Unlike other methods, it raises no exception.
    fn __repr__(&self, py: Python<'_>) -> String {
        let described = self.read(py, |filter| {
            let (capacity, rate, probes) = (filter.capacity(), filter.false_positive_rate(), filter.num_probes());
            format!("<FileFilter: capacity {capacity}, error rate {}, {probes} hashes>", memory::rate(rate))
        });
        described.unwrap_or_else(|_| match self.filter.read() {
            Ok(_) => format!("<FileFilter {}: closed>", self.path.display()),
            Err(_) => format!("<FileFilter {}: of the parent process>", self.path.display()),
        })
    }
}

impl FileFilter {
    fn unite(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        self.check_process()?;
        if std::ptr::eq(self, other) {
            return self.read(py, |_| ());
        }
        let united = py.detach(|| {
            let (filter, other) = in_order(self, other, || self.filter.read_inside(), || other.filter.read_inside());
            let (filter, other) = (filter?, other?);
            Ok::<_, PyErr>(filter.as_ref().zip(other.as_ref()).map(|(filter, other)| filter.union_with(other)))
        });
        united?.ok_or_else(closed)?.map_err(of_variant)
    }

    fn intersect(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        self.check_process()?;
        if std::ptr::eq(self, other) {
            return self.read(py, |_| ());
        }
        let intersected = py.detach(|| {
            let (filter, other) = in_order(self, other, || self.filter.write(), || other.filter.read_inside());
            let (mut filter, other) = (filter?, other?);
            Ok::<_, PyErr>(filter.as_mut().zip(other.as_ref()).map(|(filter, other)| filter.intersect_with(other)))
        });
        intersected?.ok_or_else(closed)?.map_err(of_variant)
    }
}

/// Takes the locks of two filters in the order of their addresses. All threads use this order, so
/// they cannot deadlock.
fn in_order<A, B>(
    left: &FileFilter,
    right: &FileFilter,
    lock_left: impl FnOnce() -> A,
    lock_right: impl FnOnce() -> B,
) -> (A, B) {
    if std::ptr::from_ref(left) < std::ptr::from_ref(right) {
        let left = lock_left();
        (left, lock_right())
    } else {
        let right = lock_right();
        (lock_left(), right)
    }
}
