//! Defines the class `Filter`: a filter block in memory or in a file, built once from all keys.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::ops::Bound as End;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use filterblock::{
    Added, AlignedBytes, Expected, FilterBlock, FilterKind, FilterOptions, FilterSpec, HashSeed, KeyHasher,
    ParsedBlock, Secret, SharedBytes, Verify, layout,
};
use filterblock_family::{Comparison, compare_blocks, merge_blocks};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyTuple, PyType};

use crate::args::{self, Bytes, ErrorRate, Flag, Name, Objects, Other, TableId, Text, Whole, Word};
use crate::errors::{NO_FOLDER, advised, of_block, of_io, of_variant, panicked, type_of};
use crate::interrupt;
use crate::key::{self, Accepts};
use crate::keys::{self, Keys};
use crate::memory::{self, NoMemory, copied, new_bytes};
use crate::save;

const STATIC: &str = "a Filter is built once from all of its keys and takes no more; build a new one with Filter(keys), \
                      or use Bloom (in memory) or FileFilter (in a file), which take keys one by one";

/// A filter of a fixed set of keys, built by `Filter(keys)` or opened by `Filter.open(path)`.
///
/// `key in filter` is False if the key was certainly not added, and True if it may have been. Two
/// filters are equal if their bytes are equal.
///
/// `keys` is any iterable of keys, or a NumPy or Arrow array. With `width`, it is bytes with keys
/// that have `width` bytes each. `spec` is the kind and the budget, by default "blocked-bloom:10".
/// `error_rate=0.01` means "blocked-bloom:fpr=0.01".
///
/// The same keys and arguments give the same bytes; `threads` does not change them. A secret of 16
/// or 32 random bytes protects against attackers who choose keys that collide. `ranges` adds a
/// range filter, such as "grafite:fpr=0.01", for `may_contain_range`. Keys of a range filter are
/// bytes or str, not int. Raises the exceptions of `key_bytes` for a value that is not a key,
/// TypeError or ValueError for an invalid argument, and MemoryError if there is too little memory.
/// Raises Error if the new filter denies one of its keys, for example because of broken memory.
#[pyclass(frozen, weakref, module = "filterblock")]
#[derive(Debug)]
pub struct Filter {
    /// The block. It is boxed, because Python aligns objects only to 16 bytes, and a block is
    /// aligned to a cache line.
    block: Box<FilterBlock<SharedBytes>>,
    bytes: SharedBytes,
    path: Option<PathBuf>,
}

/// The secret of a block, and what the caller expects of the block.
struct Known {
    secret: Option<Secret>,
    table_id: Option<[u8; 16]>,
    checksum: Option<u32>,
}

impl Known {
    fn of(secret: Option<Bytes<'_>>, table_id: Option<TableId>, checksum: Option<Word>) -> PyResult<Self> {
        let secret = secret.map(|secret| secret.secret()).transpose()?;
        Ok(Self { secret, table_id: table_id.map(|id| id.0), checksum: checksum.map(|word| word.0) })
    }
}

impl Filter {
    /// Opens a block, verifies all checksums, and compares it with what the caller expects.
    fn of_bytes(bytes: SharedBytes, path: Option<&Path>, known: &Known) -> PyResult<Self> {
        let open = || {
            let locked = ParsedBlock::open(bytes.clone(), Verify::AtOpen)?;
            let hasher = locked.metadata().hash.hasher(known.secret.as_ref())?;
            let block = match (known.table_id, known.checksum) {
                (None, None) => locked.bind_to(&hasher)?,
                (table_id, checksum) => {
                    let table_id = table_id.unwrap_or(locked.metadata().table_id);
                    let expected = Expected::of_table(table_id, &hasher);
                    let expected = checksum.map_or(expected, |checksum| expected.with_checksum(checksum));
                    locked.bind(&expected)?
                }
            };
            // A damaged range filter beside the filter answers "maybe" without an error. So the
            // damage is reported here.
            match block.ranges_error() {
                Some(error) => Err(error.duplicate()),
                None => Ok(block),
            }
        };
        let opened = open().map_err(|error: filterblock::Error| match path {
            Some(path) => error.in_file(path),
            None => error,
        });
        Ok(Self { block: Box::new(opened.map_err(of_block)?), bytes, path: path.map(Path::to_path_buf) })
    }

    /// Opens a block that this process has just made.
    pub fn of_own(bytes: SharedBytes, hasher: &KeyHasher) -> PyResult<Self> {
        let block = ParsedBlock::open(bytes.clone(), Verify::AtOpen).and_then(|block| block.bind_to(hasher));
        Ok(Self { block: Box::new(block.map_err(of_block)?), bytes, path: None })
    }

    /// Returns the types of keys that the filter accepts.
    fn accepts(&self) -> Accepts {
        let metadata = self.block.metadata();
        let has_ranges = metadata.kind == FilterKind::Grafite || metadata.ranges_len_bytes > 0;
        if has_ranges { Accepts::InOrder } else { Accepts::All }
    }

    fn locked(&self) -> PyResult<ParsedBlock<SharedBytes>> {
        ParsedBlock::open(self.bytes.clone(), Verify::OnFirstTouch).map_err(of_block)
    }
}

/// The number of keys from which Ctrl-C must end the last step of a build early. Fewer keys take
/// less time than starting a thread is worth.
const LONG: u64 = 1 << 17;

/// Returns the specification that the arguments of a build choose.
fn spec_of(spec: Option<&Bound<'_, PyAny>>, error_rate: Option<ErrorRate>) -> PyResult<FilterSpec> {
    let text = match (spec, error_rate) {
        (Some(_), Some(_)) => {
            return Err(PyTypeError::new_err(
                "spec and error_rate both choose the size; give one of them, for example \"ribbon:fpr=0.01\" or \
                 error_rate=0.01",
            ));
        }
        (None, None) => "blocked-bloom:10".to_owned(),
        (None, Some(ErrorRate(rate))) => format!("blocked-bloom:fpr={rate}"),
        (Some(spec), None) if spec.is_instance_of::<PyFloat>() => {
            return Err(PyTypeError::new_err(format!(
                "spec must be a str, not float; to give an error rate: error_rate={spec}"
            )));
        }
        (Some(spec), None) => spec.extract::<Text<'_>>()?.get_short()?.to_owned(),
    };
    text.parse().map_err(of_block)
}

/// Runs the end of a build. A bug of the builder becomes an exception that `except Exception`
/// catches.
fn finished(finish: impl FnOnce() -> filterblock::Result<AlignedBytes>) -> PyResult<SharedBytes> {
    match catch_unwind(AssertUnwindSafe(finish)) {
        Ok(built) => Ok(built.map_err(of_block)?.into()),
        Err(_) => Err(panicked("the build of the filter panicked; go on without the filter, and report the bug")),
    }
}

/// Runs the end of a build that panics, for a test.
#[cfg(debug_assertions)]
#[pyfunction]
pub fn _build_with_a_bug(py: Python<'_>) -> PyResult<()> {
    py.detach(|| finished(|| std::panic::resume_unwind(Box::new(())))).map(drop)
}

#[pymethods]
impl Filter {
    #[new]
    #[pyo3(
        signature = (keys, spec=None, *, error_rate=None, width=None, seed=Whole(0), secret=None, table_id=None, ranges=None, threads=Whole(1), **others),
        text_signature = "(keys, spec=None, *, error_rate=None, width=None, seed=0, secret=None, table_id=None, ranges=None, threads=1)"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        spec: Option<&Bound<'_, PyAny>>,
        error_rate: Option<ErrorRate>,
        width: Option<Whole>,
        seed: Whole,
        secret: Option<Bytes<'_>>,
        table_id: Option<TableId>,
        ranges: Option<Text<'_>>,
        threads: Whole,
        others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        args::refuse_others(py, "Filter", others)?;
        let hasher = match secret {
            Some(secret) => KeyHasher::sip13(HashSeed(seed.0), &secret.secret()?),
            None => KeyHasher::xxh3(HashSeed(seed.0)),
        };
        let threads = NonZeroUsize::new(usize::try_from(threads.0).unwrap_or(usize::MAX))
            .ok_or_else(|| PyValueError::new_err("threads must be at least 1"))?;
        let spec = spec_of(spec, error_rate)?;
        let mut options = FilterOptions::new(spec).threads(threads);
        if let Some(TableId(table_id)) = table_id {
            options = options.table_id(table_id);
        }
        if let Some(ranges) = &ranges {
            options = options.ranges(ranges.get_short()?.parse().map_err(of_block)?);
        }
        let mut builder = options.builder(&hasher).map_err(of_block)?;
        let is_in_order = ranges.is_some() || spec.kind() == FilterKind::Grafite;
        let keys = Keys::of(keys, width, if is_in_order { Accepts::InOrder } else { Accepts::All })?;
        builder.reserve(keys.len(py)?.unwrap_or(0));
        let mut num_keys = 0;
        keys.for_each(py, |key| {
            num_keys += 1;
            builder.add(builder.hasher().key(key));
            if builder.is_short_of_memory() { Err(NoMemory) } else { Ok(()) }
        })?;
        interrupt::run(py, num_keys >= LONG, move || {
            Self::of_own(finished(|| AlignedBytes::copy_of(&builder.finish()?.bytes))?, &hasher)
        })?
    }

    /// Build a filter of keys: `Filter.build(...)` is `Filter(...)`.
    #[classmethod]
    #[pyo3(
        signature = (*args, **kwargs),
        text_signature = "($cls, keys, spec=None, *, error_rate=None, width=None, seed=0, secret=None, table_id=None, ranges=None, threads=1)"
    )]
    fn build<'py>(
        class: &Bound<'py, PyType>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        class.call(args, kwargs)
    }

    /// Open a file that `save` or the command `filterblock` wrote, and verify every checksum in it.
    ///
    /// The file is read into memory. With mapped=True it is mapped instead, so that processes share
    /// the memory. Then no program may change the file in place while it is open. (`save` replaces a
    /// file, which is safe.) `table_id` and `checksum` state which filter you expect. Raises
    /// DamagedError, UnsupportedError (an unknown version or feature), UnexpectedError (another
    /// filter), SecretError, ValueError (not a regular file, or an invalid argument), OSError or
    /// MemoryError.
    #[staticmethod]
    #[pyo3(
        signature = (path, *, secret=None, table_id=None, checksum=None, mapped=Flag(false)),
        text_signature = "(path, *, secret=None, table_id=None, checksum=None, mapped=False)"
    )]
    fn open(
        py: Python<'_>,
        path: Name,
        secret: Option<Bytes<'_>>,
        table_id: Option<TableId>,
        checksum: Option<Word>,
        mapped: Flag,
    ) -> PyResult<Self> {
        let known = Known::of(secret, table_id, checksum)?;
        interrupt::open(py, &path, move |path| Self::of_bytes(save::read(path, mapped.0)?, Some(path), &known))
    }

    /// Open a copy of the bytes that `to_bytes` returned, and verify every checksum in them. The
    /// keyword arguments and the exceptions are those of `open`, without `mapped` and OSError.
    #[staticmethod]
    #[pyo3(signature = (data, *, secret=None, table_id=None, checksum=None))]
    fn from_bytes(
        py: Python<'_>,
        data: Bytes<'_>,
        secret: Option<Bytes<'_>>,
        table_id: Option<TableId>,
        checksum: Option<Word>,
    ) -> PyResult<Self> {
        let bytes: SharedBytes = AlignedBytes::copy_of(data.get()).map_err(of_block)?.into();
        let known = Known::of(secret, table_id, checksum)?;
        let is_long = data.get().len() as u64 >= interrupt::LONG;
        interrupt::run(py, is_long, move || Self::of_bytes(bytes, None, &known))?
    }

    /// Return a filter of the keys of all `filters`. The filters must have the same kind, size,
    /// number of hashes, seed, secret and prefix extractor. The kind must be bloom, blocked-bloom,
    /// split-block, split-block-512 or always-maybe. A filter without keys (kind empty) merges with
    /// a filter of any of these kinds. The new filter has no range filter and no table id. Raises
    /// ValueError with the reason if the filters cannot be merged.
    #[staticmethod]
    fn merge(py: Python<'_>, filters: Objects<'_, Self>) -> PyResult<Self> {
        let mut blocks = Vec::new();
        for filter in &filters.0 {
            py.check_signals()?;
            memory::check(memory::ROOM)?;
            memory::push(&mut blocks, filter.get().locked()?)?;
        }
        let none = || PyValueError::new_err("merge needs at least one filter; give a list, such as [a, b]");
        let hasher = filters.0.first().ok_or_else(none)?.get().block.hasher().clone();
        let is_long = filters.0.iter().map(|filter| filter.get().nbytes()).sum::<u64>() >= interrupt::LONG;
        interrupt::run(py, is_long, move || {
            let merged = merge_blocks(&blocks).map_err(of_variant)?;
            Self::of_own(AlignedBytes::copy_of(&merged).map_err(of_block)?.into(), &hasher)
        })?
    }

    fn __or__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, Self>) -> PyResult<Self> {
        Self::merge(slf.py(), Objects(vec![slf.clone(), other.clone()]))
    }

    /// Estimate how many keys two filters share. Returns a dict. Both filters must be of the same
    /// kind: bloom, blocked-bloom, split-block or split-block-512. They must meet the other
    /// conditions of `merge`, too. Otherwise raises ValueError.
    fn compare<'py>(&self, py: Python<'py>, other: Other<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let found = compare_blocks(&self.locked()?, &other.0.get().locked()?).map_err(of_variant)?;
        comparison(py, &found)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        key::with(key, self.accepts(), |key| self.block.may_contain(self.block.hasher().key(key)))
    }

    /// Ask for many keys at once. Returns a NumPy array of bool in the order of the keys.
    ///
    /// `keys` is a NumPy or Arrow array of one dimension, or any iterable of keys. Arrays are read
    /// in place and without the GIL, except NumPy arrays of objects and of StringDType. With
    /// `width`, `keys` is bytes with keys that have `width` bytes each.
    #[pyo3(signature = (keys, *, width=None))]
    fn contains_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        width: Option<Whole>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = Keys::of(keys, width, self.accepts())?;
        let (hasher, metadata) = (self.block.hasher(), self.block.metadata());
        // Filters in partitions and range filters need the bytes of the key.
        if metadata.num_partitions > 0 || metadata.added == Added::Ranges {
            return keys::ask_each(py, &keys, |key| self.block.may_contain(hasher.key(key)));
        }
        keys::ask(py, &keys, hasher, |hashes, answers| self.block.may_contain_batch(hashes, answers))
    }

    /// Return whether the filter may have a key from `low` to `high`, both included. None means no
    /// bound.
    ///
    /// Bounds are compared as bytes. Integers raise TypeError, because the order of their bytes
    /// differs from the order of the numbers. Raises ValueError if `low` is above `high`. Without a
    /// range filter the answer is True.
    #[pyo3(signature = (low=None, high=None))]
    fn may_contain_range(&self, low: Option<&Bound<'_, PyAny>>, high: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let bound = |bound: Option<&Bound<'_, PyAny>>| match bound {
            Some(key) => Ok::<_, PyErr>(Some(key::with(key, Accepts::InOrder, copied)??)),
            None => Ok(None),
        };
        let (low, high) = (bound(low)?, bound(high)?);
        if low.as_ref().zip(high.as_ref()).is_some_and(|(low, high)| low > high) {
            return Err(PyValueError::new_err(
                "the lower bound is above the upper bound in the order of bytes; exchange them, or write numbers with equally \
                 many digits, as in the keys",
            ));
        }
        let (low, high) = (low.as_deref(), high.as_deref());
        let end = |bound| Option::map_or(bound, End::Unbounded, End::Included);
        Ok(self.block.may_contain_range(end(low), end(high)))
    }

    /// Always raise TypeError, because a Filter takes no more keys. Use Bloom or FileFilter.
    #[pyo3(signature = (*_args, **_kwargs))]
    fn add(&self, _args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        Err(PyTypeError::new_err(STATIC))
    }

    /// Always raise TypeError, because a Filter takes no more keys. Use Bloom or FileFilter.
    #[pyo3(signature = (*_args, **_kwargs))]
    fn update(&self, _args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        Err(PyTypeError::new_err(STATIC))
    }

    /// Write the filter to a new file, sync it, and rename it to `path`. After a crash, `path` is
    /// unchanged or complete. An existing filter is replaced, and open filters keep the old file. Any
    /// other file that is not empty is only replaced with overwrite=True.
    #[pyo3(signature = (path, *, overwrite=Flag(false)), text_signature = "($self, path, *, overwrite=False)")]
    fn save(&self, py: Python<'_>, path: Name, overwrite: Flag) -> PyResult<()> {
        let place = path.path.as_path();
        let written = py.detach(|| {
            let has_bytes = place.metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
            if has_bytes && !overwrite.0 && type_of(place).is_none_or(|(class, _)| class != "Filter") {
                return Err(ErrorKind::AlreadyExists.into());
            }
            save::write(place, self.block.as_bytes())
        });
        let next = "it is no filter; to replace it: overwrite=True";
        path.told(py, written.map_err(|error| advised(py, of_io(&error, Some(place)), next, NO_FOLDER)))
    }

    /// Return the bytes of the filter, as `save` writes them.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        new_bytes(py, self.block.as_bytes())
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.to_bytes(py)
    }

    /// Verify the checksums again. Raises DamagedError with field and offset if one is wrong.
    fn verify(slf: &Bound<'_, Self>) -> PyResult<()> {
        interrupt::with(slf, slf.get().nbytes() >= interrupt::LONG, |this| {
            let verified =
                ParsedBlock::open(this.bytes.clone(), Verify::AtOpen).and_then(|_| this.block.verify_pages());
            verified.map_err(|error| match &this.path {
                Some(path) => of_block(error.in_file(path)),
                None => of_block(error),
            })
        })?
    }

    /// Return a dict that describes the filter, for example its kind, size, error rate, hash
    /// function, and the share of bits that are set. Reads the whole filter.
    fn inspect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.block.metadata();
        let statistics = py.detach(|| self.block.statistics());
        let told = PyDict::new(py);
        told.set_item("kind", found.kind.name())?;
        told.set_item("num_keys", found.num_keys)?;
        told.set_item("error_rate", self.error_rate())?;
        told.set_item("len_bytes", found.block_len_bytes)?;
        told.set_item("payload_len_bytes", found.payload_len_bytes)?;
        told.set_item("ranges_len_bytes", found.ranges_len_bytes)?;
        told.set_item("bits_per_key", found.bits_per_key())?;
        told.set_item("num_hashes", found.probes)?;
        told.set_item("num_partitions", found.num_partitions)?;
        told.set_item("hash", found.hash.kind.to_string())?;
        told.set_item("seed", found.hash.seed.0)?;
        told.set_item("table_id", PyBytes::new(py, &found.table_id))?;
        told.set_item("checksum", self.checksum())?;
        told.set_item("fill_ratio", statistics.fill_ratio)?;
        told.set_item("estimated_keys", statistics.estimated_keys)?;
        Ok(told)
    }

    /// The number of distinct keys. It is not exact after `merge` or `Bloom.freeze`.
    fn __len__(&self) -> usize {
        usize::try_from(self.block.metadata().num_keys).unwrap_or(usize::MAX)
    }

    /// A filter is true even without keys.
    fn __bool__(&self) -> bool {
        true
    }

    /// The kind of the filter, such as "blocked-bloom".
    #[getter]
    fn kind(&self) -> &'static str {
        self.block.metadata().kind.name()
    }

    /// The length of the whole filter in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.block.metadata().block_len_bytes
    }

    /// The expected share of absent keys for which the answer is True. For a range filter alone,
    /// the expected share of ranges without a key for which the answer is True.
    #[getter]
    fn error_rate(&self) -> f64 {
        self.block.expected_fpr()
    }

    /// The checksum that identifies this filter. Give it to `open` to detect another filter.
    #[getter]
    fn checksum(&self) -> Option<u32> {
        layout::checksum_of(self.block.as_bytes())
    }

    /// The path that the filter was opened from, or None.
    #[getter]
    fn filename(&self) -> Option<OsString> {
        self.path.as_ref().map(|path| path.as_os_str().to_owned())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let this = slf.get();
        if this.block.hasher().identity().fingerprint.is_some() {
            return Err(PyTypeError::new_err(
                "a filter with a secret cannot be pickled, because the secret would be in the pickle; use to_bytes and \
                 from_bytes(data, secret=...)",
            ));
        }
        Ok((slf.get_type().getattr("from_bytes")?, (this.to_bytes(slf.py())?,)))
    }

    fn __richcmp__(&self, py: Python<'_>, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let (Ok(other), CompareOp::Eq | CompareOp::Ne) = (other.cast::<Self>(), op) else {
            return Ok(py.NotImplemented());
        };
        let (bytes, others) = (self.block.as_bytes(), other.get().block.as_bytes());
        let is_equal = py.detach(|| bytes == others);
        let answer = is_equal == matches!(op, CompareOp::Eq);
        Ok(PyBool::new(py, answer).to_owned().into_any().unbind())
    }

    /// Equal bytes have equal checksums.
    fn __hash__(&self) -> u64 {
        self.nbytes() << 32 ^ u64::from(self.checksum().unwrap_or(0))
    }

    fn __repr__(&self) -> String {
        format!(
            "<Filter {}: {} keys, {} bytes, error rate {}>",
            self.kind(),
            self.__len__(),
            self.nbytes(),
            memory::rate(self.error_rate())
        )
    }
}

/// Returns the estimates of a comparison as a dict.
pub fn comparison<'py>(py: Python<'py>, found: &Comparison) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("is_equal", found.is_equal())?;
    told.set_item("bit_similarity", found.bit_similarity())?;
    told.set_item("key_similarity", found.key_similarity())?;
    for (name, estimate) in
        [("left", &found.left), ("right", &found.right), ("union", &found.union), ("intersection", &found.intersection)]
    {
        told.set_item(name, estimate.keys())?;
    }
    Ok(told)
}
