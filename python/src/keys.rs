//! Reads many keys at once: from arrays in place and without the GIL, or from iterables.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};

use filterblock::{KeyHash, KeyHasher};

use crate::answers;
use crate::arrow::ArrowKeys;
use crate::buffer::{self, BufferKeys};
use crate::containers::{self, Form};
use crate::key::{self, Accepts};

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
    pub fn of(keys: &Bound<'py, PyAny>, width: Option<usize>, accepts: Accepts) -> PyResult<Self> {
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

    fn find(keys: &Bound<'py, PyAny>, width: Option<usize>, accepts: Accepts) -> PyResult<Self> {
        if keys.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("a str is one key, not many; give a list of keys"));
        }
        if let Some(width) = width {
            containers::refuse_masked(keys)?;
            return BufferKeys::of_width(buffer::exported(keys)?, width).map(Self::Buffer);
        }
        if keys.is_instance_of::<PyBytes>() || keys.is_instance_of::<PyByteArray>() {
            return Err(PyTypeError::new_err(buffer::ONE_KEY));
        }
        Ok(match Form::of(keys, accepts)? {
            Form::Buffer(keys) => Self::Buffer(keys),
            Form::Arrow(keys) => Self::Arrow(keys),
            Form::Items(keys) => Self::Objects(keys, accepts),
        })
    }

    /// Returns the number of keys, or `None` if it is unknown. The number of an iterable is only
    /// what its `__len__` returns, so it may be wrong.
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::Buffer(keys) => Some(keys.len()),
            Self::Arrow(keys) => Some(keys.len()),
            Self::Objects(keys, _) => keys.len().ok(),
        }
    }

    /// Calls `each` with the bytes of every key, in order. The function reads arrays without the
    /// GIL, so `each` must not use Python.
    ///
    /// # Errors
    /// Raises the exception of the first item that is not a key, or of the iterable. `each` was
    /// then called for the keys before that item.
    pub fn for_each(&self, py: Python<'py>, mut each: impl FnMut(&[u8]) + Send) -> PyResult<()> {
        match self {
            Self::Buffer(keys) => keys.for_each(py, each),
            Self::Arrow(keys) => keys.for_each(py, each),
            Self::Objects(keys, accepts) => {
                for (index, object) in keys.try_iter()?.enumerate() {
                    key::with(&object?, *accepts, &mut each).map_err(|error| at(py, error, index))?;
                }
                Ok(())
            }
        }
    }
}

/// Adds the index of a key to the message of a `TypeError` or an `OverflowError`. Does not change
/// other exceptions.
#[cold]
fn at(py: Python<'_>, error: PyErr, index: usize) -> PyErr {
    let kind = error.get_type(py);
    let is_ours = kind.is(py.get_type::<PyTypeError>()) || kind.is(py.get_type::<pyo3::exceptions::PyOverflowError>());
    if !is_ours {
        return error;
    }
    PyErr::from_type(kind, format!("key {index}: {}", error.value(py)))
}

/// The maximum number of keys that are hashed and then looked up together. Their hashes stay in the
/// CPU cache.
const BATCH: usize = 1024;

/// Returns the hashes of all keys.
pub fn hashes(py: Python<'_>, keys: &Keys<'_>, hasher: &KeyHasher) -> PyResult<Vec<KeyHash>> {
    let mut hashes = Vec::with_capacity(keys.len().unwrap_or(0));
    keys.for_each(py, |key| hashes.push(hasher.of(key)))?;
    Ok(hashes)
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
    let mut flush = |hashes: &mut Vec<KeyHash>, put: &mut dyn FnMut(&[bool])| {
        let answers = answers.get_mut(..hashes.len()).unwrap_or_default();
        // `ask` may leave an answer unwritten. Then it must be "maybe", and not an older answer.
        answers.fill(true);
        ask(hashes, answers);
        put(answers);
        hashes.clear();
    };
    collect(py, keys, |put| {
        keys.for_each(py, |key| {
            hashes.push(hasher.of(key));
            if hashes.len() == BATCH {
                flush(&mut hashes, put);
            }
        })?;
        flush(&mut hashes, put);
        Ok(())
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
type Put<'a> = &'a mut (dyn FnMut(&[bool]) + Send);

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
        let mut answers = Vec::with_capacity(keys.len().unwrap_or(0));
        answer(&mut |batch| answers.extend_from_slice(batch))?;
        return answers::filled(py, answers.len(), |bytes| {
            copy(bytes, &answers);
            Ok(())
        });
    }
    answers::filled(py, keys.len().unwrap_or(0), |bytes| {
        let mut rest = bytes;
        answer(&mut |batch| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut_checked(batch.len()).unwrap_or_default();
            copy(now, batch);
            rest = later;
        })
    })
}
