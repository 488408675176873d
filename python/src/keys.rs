//! Reads many keys at once: from arrays in place and without the GIL, or from iterables.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMapping, PyString, PyTuple};

use filterblock::{KeyHash, KeyHasher};

use crate::answers;
use crate::args::Whole;
use crate::arrow::ArrowKeys;
use crate::buffer::{self, BufferKeys};
use crate::containers::{self, Form};
use crate::interrupt::Signals;
use crate::key::{self, Accepts};
use crate::memory::{self, NoMemory};

/// Keys that a caller gave.
#[derive(Debug)]
pub enum Keys<'py> {
    /// The items of a buffer.
    Buffer(BufferKeys),
    /// The items of Arrow arrays.
    Arrow(ArrowKeys),
    /// The elements of any iterable.
    Objects(Bound<'py, PyAny>, Accepts),
}

impl<'py> Keys<'py> {
    /// Chooses how to read `keys`. With `width`, `keys` is a buffer of keys that have `width` bytes
    /// each and follow one another.
    ///
    /// # Errors
    /// Raises an exception if `keys` is one key instead of many, or an array whose items are not
    /// keys.
    pub fn of(keys: &Bound<'py, PyAny>, width: Option<Whole>, accepts: Accepts) -> PyResult<Self> {
        let found = Self::find(keys, width, accepts)?;
        let is_of_integers = match &found {
            Self::Buffer(keys) => keys.is_of_integers(),
            Self::Arrow(keys) => keys.is_of_integers(),
            Self::Objects(..) => false,
        };
        if accepts != Accepts::All && is_of_integers {
            return Err(PyTypeError::new_err(accepts.instead_of_numbers()));
        }
        Ok(found)
    }

    fn find(keys: &Bound<'py, PyAny>, width: Option<Whole>, accepts: Accepts) -> PyResult<Self> {
        refuse_others(keys)?;
        if let Some(width) = width {
            containers::refuse_masked(keys)?;
            let buffer = buffer::exported(keys).map_err(|error| {
                if !error.is_instance_of::<PyTypeError>(keys.py()) {
                    return error;
                }
                PyTypeError::new_err(format!(
                    "width= is for one object of bytes, not {}; omit width for a list of keys",
                    memory::type_name(keys)
                ))
            })?;
            return BufferKeys::of_width(buffer, usize::try_from(width.0).unwrap_or(usize::MAX)).map(Self::Buffer);
        }
        if keys.is_instance_of::<PyBytes>() || keys.is_instance_of::<PyByteArray>() {
            return Err(PyTypeError::new_err(buffer::ONE_KEY));
        }
        Ok(match Form::of(keys, accepts)? {
            Form::Buffer(keys) => Self::Buffer(keys),
            Form::Arrow(keys) => Self::Arrow(keys),
            Form::Items(keys) => {
                let kind = keys.get_type();
                // Files of `tempfile` have these attributes only in the object.
                if keys.hasattr(intern!(keys.py(), "readline"))? {
                    let ends = if keys.hasattr(intern!(keys.py(), "encoding"))? { "" } else { "b" };
                    return Err(PyTypeError::new_err(format!(
                        "a {} gives lines with their ends; give (line.rstrip({ends}\"\\r\\n\") for line in file)",
                        memory::type_name(&keys)
                    )));
                }
                if !kind.hasattr(intern!(keys.py(), "__iter__"))? && !kind.hasattr(intern!(keys.py(), "__getitem__"))? {
                    let name = memory::type_name(&keys);
                    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
                    return Err(PyTypeError::new_err(format!(
                        "{article} {name} has no keys; give a list of keys; for one key: filter.add(key) or key in \
                         filter; to make a filter that takes keys one by one: Bloom(1000, 0.01)"
                    )));
                }
                Self::Objects(keys, accepts)
            }
        })
    }

    /// Returns the number of keys, or `None` if it is unknown. The number of an iterable is only
    /// what its `__len__` returns, so it may be wrong.
    ///
    /// # Errors
    /// Raises `MemoryError` if there is no memory for hashes of so many keys, and the exceptions of
    /// `__len__`.
    pub fn len(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        let keys = match self {
            Self::Buffer(keys) => return Ok(Some(keys.len())),
            Self::Arrow(keys) => return Ok(Some(keys.len())),
            Self::Objects(keys, _) => keys,
        };
        match keys.len() {
            Ok(len) => {
                // Reading the keys may take hours before the memory is used up.
                Vec::<KeyHash>::new().try_reserve_exact(len).map_err(NoMemory::from)?;
                Ok(Some(len))
            }
            Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(None),
            Err(error) if error.is_instance_of::<PyOverflowError>(py) => Err(NoMemory.into()),
            Err(error) => Err(error),
        }
    }

    /// Returns whether every item is a key, so that reading the items raises no exception.
    fn is_of_keys_only(&self) -> bool {
        match self {
            Self::Buffer(keys) => keys.is_of_keys_only(),
            Self::Arrow(keys) => keys.is_of_keys_only(),
            Self::Objects(..) => false,
        }
    }

    /// Calls `each` with the bytes of every key, in order. The function reads arrays without the
    /// GIL, so `each` must not use Python, and must hold no lock when it returns.
    ///
    /// # Errors
    /// Raises the exception of the first item that is not a key, of the iterable or of a signal
    /// handler, or `MemoryError` if `each` fails. `each` was then called for the keys before.
    pub fn for_each(
        &self,
        py: Python<'py>,
        mut each: impl FnMut(&[u8]) -> Result<(), NoMemory> + Send,
    ) -> PyResult<()> {
        let (mut signals, mut failed) = (Signals::new(), None);
        let each_of_array = |key: &[u8]| {
            if let Err(error) = signals.step() {
                failed = Some(error);
                return Err(NoMemory);
            }
            each(key)
        };
        match self {
            Self::Buffer(keys) => {
                let read = keys.for_each(py, each_of_array);
                failed.map_or(read, Err)
            }
            Self::Arrow(keys) => {
                let read = keys.for_each(py, each_of_array);
                failed.map_or(read, Err)
            }
            Self::Objects(keys, accepts) => {
                for (index, object) in keys.try_iter()?.enumerate() {
                    if index % BATCH == 0 {
                        py.check_signals()?;
                    }
                    key::with(&object?, *accepts, &mut each).map_err(|error| at(py, error, index))??;
                }
                Ok(())
            }
        }
    }
}

/// Raises `TypeError` if a caller gave several containers of keys, as rbloom takes them.
pub fn refuse_more(more: &Bound<'_, PyTuple>) -> PyResult<()> {
    if more.is_empty() {
        return Ok(());
    }
    Err(PyTypeError::new_err(
        "update takes one container of keys; call it once for each, or pass itertools.chain(a, b)",
    ))
}

/// Raises `TypeError` for an object that is no container of keys, although users of other packages
/// pass it.
fn refuse_others(keys: &Bound<'_, PyAny>) -> PyResult<()> {
    if keys.is_instance_of::<PyList>() || keys.is_instance_of::<PyTuple>() {
        return Ok(());
    }
    let kind = keys.get_type();
    let name = || memory::type_name(keys);
    let refused = |why: String| Err(PyTypeError::new_err(why));
    if keys.is_instance_of::<PyString>() {
        return refused(
            "a str is one key, not many; give a list of keys; for one key: filter.add(key) or key in filter; to open a \
             file: Filter.open(path)"
                .to_owned(),
        );
    }
    if kind.hasattr(intern!(keys.py(), "__fspath__"))? {
        return refused(format!("a {} has no keys; give a list of keys; to open a file: Filter.open(path)", name()));
    }
    if kind.module().is_ok_and(|module| module == "filterblock") {
        return refused(format!(
            "a {} does not list its keys; give the keys, or unite filters with left | right; Bloom.freeze() returns a \
             Filter",
            kind.name()?
        ));
    }
    if keys.cast::<PyMapping>().is_ok() {
        return refused(format!("a {} has keys and values; give list(mapping) for its keys", name()));
    }
    Ok(())
}

/// Adds the index of a key to the message of a `TypeError` or an `OverflowError`. Does not change
/// other exceptions.
#[cold]
fn at(py: Python<'_>, error: PyErr, index: usize) -> PyErr {
    let kind = error.get_type(py);
    let is_ours = kind.is(py.get_type::<PyTypeError>()) || kind.is(py.get_type::<PyOverflowError>());
    if !is_ours {
        return error;
    }
    let told = PyErr::from_type(kind, format!("key {index}: {}", error.value(py)));
    // Python code raised the exception, for example in `__index__`.
    if error.traceback(py).is_some() {
        told.set_cause(py, Some(error));
    }
    told
}

/// The maximum number of keys that are hashed and then looked up together. Their hashes stay in the
/// CPU cache.
const BATCH: usize = 1024;

/// Calls `add` with the hashes of all keys, in batches and without the GIL.
///
/// # Errors
/// Raises the exception of the first item that is not a key, or of the iterable, before the first
/// call of `add`. Also raises the exceptions of `add` and of signal handlers.
pub fn add(
    py: Python<'_>,
    keys: &Keys<'_>,
    hasher: &KeyHasher,
    mut add: impl FnMut(&[KeyHash]) -> PyResult<()> + Send,
) -> PyResult<()> {
    let mut hashes = Vec::new();
    if !keys.is_of_keys_only() {
        let len = keys.len(py)?.unwrap_or(0);
        hashes.try_reserve_exact(len).map_err(NoMemory::from)?;
        keys.for_each(py, |key| memory::extend(&mut hashes, &[hasher.of(key)]))?;
        let mut signals = Signals::new();
        return py.detach(|| {
            hashes.chunks(BATCH).try_for_each(|hashes| {
                signals.ask()?;
                add(hashes)
            })?;
            // Without keys, `add` may raise an exception too.
            if hashes.is_empty() { add(&[]) } else { Ok(()) }
        });
    }
    // No item raises an exception, so the hashes need not be collected first.
    hashes.try_reserve_exact(BATCH).map_err(NoMemory::from)?;
    let mut failed = None;
    let read = keys.for_each(py, |key| {
        hashes.push(hasher.of(key));
        if hashes.len() == BATCH {
            failed = add(&hashes).err();
            hashes.clear();
        }
        if failed.is_none() { Ok(()) } else { Err(NoMemory) }
    });
    failed.map_or(read, Err)?;
    py.detach(|| add(&hashes))
}

/// Returns the answers of `ask` for the hashes of all keys, in order, as a NumPy array of `bool`.
pub fn ask<'py>(
    py: Python<'py>,
    keys: &Keys<'py>,
    hasher: &KeyHasher,
    ask: impl Fn(&[KeyHash], &mut [bool]) + Send + Sync,
) -> PyResult<Bound<'py, PyAny>> {
    let mut hashes = Vec::with_capacity(BATCH);
    let mut answers = [true; BATCH];
    let mut flush = |hashes: &mut Vec<KeyHash>, put: Put<'_>| {
        let answers = answers.get_mut(..hashes.len()).unwrap_or_default();
        // `ask` may leave an answer unwritten. Then it must be "maybe", and not an older answer.
        answers.fill(true);
        ask(hashes, answers);
        hashes.clear();
        put(answers)
    };
    collect(py, keys, |put| {
        keys.for_each(py, |key| {
            hashes.push(hasher.of(key));
            if hashes.len() == BATCH { flush(&mut hashes, put) } else { Ok(()) }
        })?;
        Ok(flush(&mut hashes, put)?)
    })
}

/// Returns the answers of `ask` for all keys, in order, as a NumPy array of `bool`.
pub fn ask_each<'py>(
    py: Python<'py>,
    keys: &Keys<'py>,
    ask: impl Fn(&[u8]) -> bool + Send + Sync,
) -> PyResult<Bound<'py, PyAny>> {
    collect(py, keys, |put| keys.for_each(py, |key| put(&[ask(key)])))
}

/// A function that takes the next answers, in the order of the keys.
type Put<'a> = &'a mut (dyn FnMut(&[bool]) -> Result<(), NoMemory> + Send);

/// Returns the answers that `answer` passes to its argument, as a NumPy array. For arrays of keys,
/// the answers are written to the result directly. An iterable may have another number of keys than
/// its `__len__` says, so its answers are collected in a vector first.
fn collect<'py>(
    py: Python<'py>,
    keys: &Keys<'py>,
    answer: impl FnOnce(Put<'_>) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    let copy = |to: &mut [u8], from: &[bool]| to.iter_mut().zip(from).for_each(|(to, from)| *to = u8::from(*from));
    if let Keys::Objects(..) = keys {
        let mut answers = Vec::new();
        answers.try_reserve_exact(keys.len(py)?.unwrap_or(0)).map_err(NoMemory::from)?;
        answer(&mut |batch| memory::extend(&mut answers, batch))?;
        return answers::filled(py, answers.len(), |bytes| {
            copy(bytes, &answers);
            Ok(())
        });
    }
    answers::filled(py, keys.len(py)?.unwrap_or(0), |bytes| {
        let mut rest = bytes;
        answer(&mut |batch| {
            let unwritten = std::mem::take(&mut rest);
            let (now, later) = unwritten.split_at_mut(batch.len().min(unwritten.len()));
            copy(now, batch);
            rest = later;
            Ok(())
        })?;
        // An answer that is not written must be "maybe".
        rest.fill(1);
        Ok(())
    })
}
