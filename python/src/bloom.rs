//! Defines the class `Bloom`: a Bloom filter in memory, to which any number of threads can add
//! keys.

use filterblock::{AlignedBytes, HashSeed, KeyHash, KeyHasher};
use filterblock_family::{self as variants, Comparison, Membership};
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyTuple};

use crate::args::{self, Bytes, ErrorRate, Other, Whole};
use crate::errors::{of_block, of_variant};
use crate::filter::{self, Filter};
use crate::fork_lock::ForkLock;
use crate::interrupt;
use crate::key::{self, Accepts};
use crate::keys::{self, Keys};
use crate::memory::{self, new_bytes};

/// A Bloom filter in memory, to which keys can be added at any time. Several threads may add keys
/// at once.
///
/// The expected error rate is at most `error_rate` for up to `capacity` distinct keys. The filter
/// takes more keys, but then the error rate rises. Two filters are equal if their bits, their number
/// of hashes and their seed are equal. `clear` removes all keys. A single key cannot be
/// removed. `len` of the filter is an estimate. In a forked child, the methods raise LockedError if
/// another thread used the filter at the fork.
#[pyclass(frozen, weakref, module = "filterblock")]
#[derive(Debug)]
pub struct Bloom {
    /// The bits. `clear` and `intersection` lock them for writing, because they clear bits. All
    /// other operations lock them for reading, even those that set bits.
    bits: ForkLock<variants::Bloom>,
    hasher: KeyHasher,
    capacity: u64,
    error_rate: f64,
}

impl Bloom {
    fn of(bits: variants::Bloom, capacity: u64, error_rate: f64) -> Self {
        Self { hasher: KeyHasher::xxh3(bits.seed()), bits: ForkLock::new(bits), capacity, error_rate }
    }

    /// Runs `read` on the bits, without the GIL.
    fn read<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&variants::Bloom) -> variants::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| self.bits.read().map(|bits| read(&bits)))?.map_err(of_variant)
    }

    /// Returns a filter with these bits, and with the capacity and error rate of `self`.
    fn like(&self, bits: variants::Bloom) -> Self {
        Self::of(bits, self.capacity, self.error_rate)
    }

    fn hash(&self, key: &Bound<'_, PyAny>) -> PyResult<KeyHash> {
        key::with(key, Accepts::All, |key| self.hasher.of(key))
    }
}

/// The parts of a pickle: compressed bits, number of bits, capacity and error rate.
type Parts<'py> = (Bound<'py, PyBytes>, u64, u64, f64);

#[pymethods]
impl Bloom {
    #[new]
    #[pyo3(
        signature = (capacity=None, error_rate=ErrorRate(0.01), hash_func=None, *, seed=Whole(0), **others),
        text_signature = "(capacity, error_rate=0.01, *, seed=0)"
    )]
    fn new(
        py: Python<'_>,
        capacity: Option<Whole>,
        error_rate: ErrorRate,
        hash_func: Option<&Bound<'_, PyAny>>,
        seed: Whole,
        others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        args::refuse_others(py, "Bloom", others)?;
        let capacity = capacity.ok_or_else(|| PyTypeError::new_err("give a capacity, for example Bloom(1000)"))?.0;
        // Users of rbloom pass a function here, and users of pybloomfiltermmap3 a path.
        if hash_func.is_some() {
            return Err(PyTypeError::new_err(
                "a Bloom takes no hash function, because it hashes the bytes of a key the same way in every process, and \
                 no file; omit this argument; for a filter in a file: FileFilter(capacity, error_rate, filename)",
            ));
        }
        let error_rate = error_rate.0;
        let bits = variants::Bloom::with_fpr(capacity, error_rate, HashSeed(seed.0)).map_err(of_variant)?;
        Ok(Self::of(bits, capacity, error_rate))
    }

    /// Add a key. Returns True if the key may have been in the filter before.
    fn add(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let hash = self.hash(key)?;
        Ok(!self.bits.read()?.insert_hash(hash))
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
        keys::add(py, &Keys::of(keys, width, Accepts::All)?, &self.hasher, |hashes| {
            if let Some(mut bits) = self.bits.try_write()? {
                bits.insert_hashes(hashes);
                return Ok(());
            }
            let bits = self.bits.read()?;
            for &hash in hashes {
                bits.insert_hash(hash);
            }
            Ok(())
        })
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let hash = self.hash(key)?;
        Ok(self.bits.read()?.may_contain_hash(hash))
    }

    /// Ask for many keys at once. Returns a NumPy array of bool in the order of the keys.
    #[pyo3(signature = (keys, *, width=None))]
    fn contains_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        width: Option<Whole>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, |_| Ok(()))?;
        keys::ask(py, &Keys::of(keys, width, Accepts::All)?, &self.hasher, |hashes, answers| {
            // In this process, the lock never raises an exception later.
            if let Ok(bits) = self.bits.read() {
                hashes.iter().zip(answers).for_each(|(&hash, answer)| *answer = bits.may_contain_hash(hash));
            }
        })
    }

    /// Return a Filter of the keys that were added so far. It gives the same answers, and can be
    /// saved or sent.
    fn freeze(slf: &Bound<'_, Self>) -> PyResult<Filter> {
        interrupt::with(slf, slf.get().num_bits()? / 8 >= interrupt::LONG, |this| {
            let bytes = this.bits.read()?.freeze().map_err(of_variant)?;
            Filter::of_own(AlignedBytes::copy_of(&bytes).map_err(of_block)?.into(), &this.hasher)
        })?
    }

    /// Remove all keys.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.bits.write().map(|mut bits| bits.clear()))
    }

    /// Return a copy.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        self.read(py, variants::Bloom::try_clone).map(|bits| self.like(bits))
    }

    /// Return a filter without keys that can be united with this one.
    fn copy_template(&self) -> PyResult<Self> {
        let (bits, probes) = (self.num_bits()?, self.num_hashes()?);
        let empty = variants::Bloom::with_shape(bits, probes, self.hasher.seed()).map_err(of_variant)?;
        Ok(self.like(empty))
    }

    fn __ior__(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        self.unite(py, other)
    }

    fn __iand__(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        self.intersect(py, other)
    }

    fn __or__(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        let union = self.copy(py)?;
        union.unite(py, other).map(|()| union)
    }

    fn __and__(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        let intersection = self.copy(py)?;
        intersection.intersect(py, other).map(|()| intersection)
    }

    /// Estimate how many keys two filters share. Returns a dict. Raises ValueError if size, number
    /// of hashes or seed differ.
    fn compare<'py>(&self, py: Python<'py>, other: Other<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        filter::comparison(py, &self.compared(py, other.0.get())?)
    }

    /// An estimate of the number of distinct keys, from the bits that are set. It is not exact.
    fn __len__(&self) -> PyResult<usize> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturating")]
        let keys = self.bits.read()?.estimated_keys().round() as usize;
        Ok(keys)
    }

    /// A filter is true even without keys, so that `if filter:` does not depend on an estimate.
    fn __bool__(&self) -> bool {
        true
    }

    /// The number of keys that the filter was made for.
    #[getter]
    fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The error rate that the filter was made for.
    #[getter]
    fn error_rate(&self) -> f64 {
        self.error_rate
    }

    /// The error rate that follows from the number of bits that are set now.
    #[getter]
    fn expected_error_rate(&self) -> PyResult<f64> {
        Ok(self.bits.read()?.expected_fpr())
    }

    /// The number of bits.
    #[getter]
    fn num_bits(&self) -> PyResult<u64> {
        Ok(self.bits.read()?.num_bits())
    }

    /// The maximum number of bits that a key sets.
    #[getter]
    fn num_hashes(&self) -> PyResult<u32> {
        Ok(self.bits.read()?.num_probes())
    }

    /// The number of bits that are set.
    #[getter]
    fn bit_count(&self) -> PyResult<u64> {
        Ok(self.bits.read()?.count_ones())
    }

    /// A list with the one seed of the hash function. All bits of a key follow from one hash.
    #[getter]
    fn hash_seeds(&self) -> Vec<u64> {
        vec![self.hasher.seed().0]
    }

    /// The bits, as bytes: bit `i` is bit `i % 8` of byte `i // 8`.
    #[getter]
    fn data_array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bits_of(py, &self.read(py, variants::Bloom::try_clone)?)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Parts<'py>)> {
        let (py, this) = (slf.py(), slf.get());
        let bytes = this.read(py, variants::Bloom::compress)?;
        let arguments = (new_bytes(py, &bytes)?, this.num_bits()?, this.capacity, this.error_rate);
        Ok((slf.get_type().getattr("_unpickle")?, arguments))
    }

    /// Return the filter of the parts of a pickle.
    #[staticmethod]
    fn _unpickle(py: Python<'_>, bytes: Bytes<'_>, num_bits: u64, capacity: u64, error_rate: f64) -> PyResult<Self> {
        let bytes = bytes.get();
        let bits = py.detach(|| variants::Bloom::decompress(bytes, num_bits)).map_err(of_variant)?;
        Ok(Self::of(bits, capacity, error_rate))
    }

    /// Compares bits, number of hashes and seed. Bits can change, so the filter has no hash.
    fn __richcmp__(&self, py: Python<'_>, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        let is_equal = match op {
            CompareOp::Eq | CompareOp::Ne => self.is_equal(py, other.get())?,
            _ => {
                return Err(PyTypeError::new_err(
                    "a Bloom has no order; to ask whether all bits of a are set in b: (a & b) == a",
                ));
            }
        };
        let answer = is_equal == matches!(op, CompareOp::Eq);
        Ok(PyBool::new(py, answer).to_owned().into_any().unbind())
    }

    /// Describes the filter. Unlike other methods, it raises no exception.
    fn __repr__(&self) -> String {
        let hashes =
            self.num_hashes().map_or_else(|_| "of the parent process".to_owned(), |num| format!("{num} hashes"));
        format!("<Bloom: capacity {}, error rate {}, {hashes}>", self.capacity, memory::rate(self.error_rate))
    }
}

impl Bloom {
    /// Compares the bits with those of another filter.
    fn compared(&self, py: Python<'_>, other: &Self) -> PyResult<Comparison> {
        // Only one lock is held at a time. Otherwise two threads that each hold a read lock could
        // deadlock while writers wait.
        let left = self.read(py, variants::Bloom::try_clone)?;
        other.read(py, |right| left.compare(right))
    }

    fn is_equal(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        if std::ptr::eq(self, other) {
            return Ok(true);
        }
        let has_same_shape = self.hasher.seed() == other.hasher.seed()
            && self.num_bits()? == other.num_bits()?
            && self.num_hashes()? == other.num_hashes()?;
        Ok(has_same_shape && self.compared(py, other)?.is_equal())
    }

    fn unite(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        // `other` is copied, so that no thread holds two locks. Otherwise two threads could
        // deadlock.
        let other = other.read(py, variants::Bloom::try_clone)?;
        self.read(py, |bits| bits.union_with(&other))
    }

    fn intersect(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        let other = other.read(py, variants::Bloom::try_clone)?;
        py.detach(|| self.bits.write().map(|mut bits| bits.intersect_with(&other)))?.map_err(of_variant)
    }
}

/// Returns the bits of a filter as bytes.
pub fn bits_of<'py>(py: Python<'py>, bloom: &variants::Bloom) -> PyResult<Bound<'py, PyBytes>> {
    let len = usize::try_from(bloom.num_bits() / 8).unwrap_or(usize::MAX);
    if bloom.count_ones() == 0 {
        return PyBytes::new_with(py, len, |_| Ok(()));
    }
    let block = bloom.freeze().map_err(of_variant)?;
    let block = filterblock::ParsedBlock::open(block, filterblock::Verify::OnFirstTouch).map_err(of_block)?;
    new_bytes(py, block.payload())
}
