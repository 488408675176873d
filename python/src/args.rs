//! Takes arguments of methods. An argument of another type raises a `TypeError` that says what to
//! pass.

use std::path::PathBuf;

use filterblock::Secret;
use pyo3::exceptions::{PyOSError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::PyClass;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyMemoryView, PyString};

use crate::buffer;
use crate::errors::of_block;
use crate::memory;

fn refused(expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
    let kind = found.get_type().name().map_or_else(|_| "another type".to_owned(), memory::short);
    PyTypeError::new_err(format!("must be {expected}, not {kind}"))
}

/// Raises `TypeError` if a caller gave keyword arguments that `callable` of this module does not have.
pub fn refuse_others(py: Python<'_>, callable: &str, others: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    let Some((name, _)) = others.and_then(|others| others.iter().next()) else { return Ok(()) };
    let known = py.import("filterblock._filterblock")?.getattr(callable)?.getattr("__text_signature__")?.to_string();
    let name = memory::short(name);
    // The words of the command and of other packages.
    let next = match name.as_str() {
        "fpr" | "false_positive_rate" if known.contains("error_rate=") => "use error_rate=".to_owned(),
        "force" if known.contains("overwrite=") => "use overwrite=True".to_owned(),
        "expected_items" if known.contains("capacity") => "use capacity=".to_owned(),
        _ => format!("the arguments are {known}"),
    };
    Err(PyTypeError::new_err(format!("there is no argument {name}; {next}")))
}

/// A `str`.
#[derive(Debug)]
pub struct Text<'py>(Bound<'py, PyString>);

impl Text<'_> {
    pub fn get(&self) -> PyResult<&str> {
        self.0.to_str()
    }

    /// Returns the text if it is as short as every name. Others appear in messages only in part.
    pub fn get_short(&self) -> PyResult<&str> {
        let text = self.get()?;
        if text.len() > 1 << 16 {
            return Err(PyValueError::new_err(format!(
                "no name is as long as {}; pass another text",
                memory::short(text)
            )));
        }
        Ok(text)
    }
}

impl<'py> FromPyObject<'_, 'py> for Text<'py> {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        found.to_owned().cast_into().map(Self).map_err(|_| refused("a str", &found))
    }
}

/// `True` or `False`.
#[derive(Debug, Clone, Copy)]
pub struct Flag(pub bool);

impl<'py> FromPyObject<'_, 'py> for Flag {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        found.cast::<PyBool>().map(|flag| Self(flag.is_true())).map_err(|_| refused("True or False", &found))
    }
}

/// A `bytes`, or a copy of a `bytearray` or `memoryview`.
#[derive(Debug)]
pub struct Bytes<'py>(Bound<'py, PyBytes>);

impl Bytes<'_> {
    pub fn get(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub fn secret(&self) -> PyResult<Secret> {
        Secret::new(self.get()).map_err(of_block)
    }
}

impl<'py> FromPyObject<'_, 'py> for Bytes<'py> {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = found.cast::<PyBytes>() {
            return Ok(Self(bytes.to_owned()));
        }
        if found.is_instance_of::<PyByteArray>() || found.is_instance_of::<PyMemoryView>() {
            return buffer::content(&found).map(Self);
        }
        Err(refused("bytes", &found))
    }
}

/// The id of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableId(pub [u8; 16]);

impl<'py> FromPyObject<'_, 'py> for TableId {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let bytes = found.extract::<Bytes<'_>>().map_err(|_| refused("bytes of length 16", &found))?;
        let len = bytes.get().len();
        let id = bytes.get().try_into();
        id.map(Self).map_err(|_| PyValueError::new_err(format!("a table id has 16 bytes, not {len}; pass 16 bytes")))
    }
}

/// Extracts a number. For an object of another type, raises a `TypeError` that says what is expected.
fn number<'py, T>(found: Borrowed<'_, 'py, PyAny>, expected: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    found.extract().map_err(|error: PyErr| match error.is_instance_of::<PyTypeError>(found.py()) {
        true => refused(expected, &found),
        false => error,
    })
}

/// An integer of 64 bits without a sign.
#[derive(Debug, Clone, Copy)]
pub struct Whole(pub u64);

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let taken = number(found, "an int, for example 1_000_000 or int(1e6)").map(Self);
        taken.map_err(|error| match error.is_instance_of::<PyOverflowError>(found.py()) {
            true => PyOverflowError::new_err("the int is negative or too large; pass an int from 0 to 2**64 - 1"),
            false => error,
        })
    }
}

/// An integer of 32 bits without a sign.
#[derive(Debug, Clone, Copy)]
pub struct Word(pub u32);

impl<'py> FromPyObject<'_, 'py> for Word {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let Whole(number) = found.extract()?;
        let too_large = |_| PyOverflowError::new_err(format!("{number} is too large; pass an int below 2**32"));
        u32::try_from(number).map(Self).map_err(too_large)
    }
}

/// A path: a `str`, `bytes` or `os.PathLike`.
#[derive(Debug)]
pub struct Name {
    pub path: PathBuf,
    /// The object that the caller gave.
    given: Py<PyAny>,
}

impl Name {
    /// Returns the result of a call. If an `OSError` names this path, its `filename` becomes the
    /// object that the caller gave, as in the exceptions of `open`.
    pub fn told<T>(&self, py: Python<'_>, result: PyResult<T>) -> PyResult<T> {
        result.inspect_err(|error| {
            let error = error.value(py);
            let named = error.getattr("filename").and_then(|name| name.extract::<PathBuf>());
            if error.is_instance_of::<PyOSError>() && named.is_ok_and(|name| name == self.path) {
                // Without memory, the exception keeps the path as text.
                let _ = error.setattr("filename", &self.given);
            }
        })
    }
}

impl<'py> FromPyObject<'_, 'py> for Name {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let path = found.py().import("os")?.call_method1("fsdecode", (found,))?;
        // No system takes such a path, and its copies may not fit in memory.
        if path.len()? > 1 << 16 {
            return Err(PyOSError::new_err("the path has more than 65536 characters; pass a shorter path"));
        }
        Ok(Self { path: path.extract()?, given: found.to_owned().unbind() })
    }
}

/// A path, or a list or another iterable of paths.
#[derive(Debug)]
pub struct Names(pub Vec<Name>);

impl Names {
    /// Works like [`Name::told`] for all paths.
    pub fn told<T>(&self, py: Python<'_>, result: PyResult<T>) -> PyResult<T> {
        self.0.iter().fold(result, |result, name| name.told(py, result))
    }
}

impl<'py> FromPyObject<'_, 'py> for Names {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let is_path = |object: &Bound<'_, PyAny>| {
            let is_text = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
            Ok::<_, PyErr>(is_text || object.get_type().hasattr("__fspath__")?)
        };
        if is_path(&found)? {
            return Ok(Self(vec![found.extract()?]));
        }
        let expected = "a path, or a list of paths";
        let names = all_of(&found, expected, |item| is_path(item)?.then(|| item.extract::<Name>()).transpose())?;
        Ok(Self(names))
    }
}

/// An error rate (false-positive rate) of a filter.
#[derive(Debug, Clone, Copy)]
pub struct ErrorRate(pub f64);

impl<'py> FromPyObject<'_, 'py> for ErrorRate {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let rate = number::<f64>(found, "a float, for example 0.01")?;
        if rate > 0.0 && rate < 1.0 {
            return Ok(Self(rate));
        }
        Err(PyValueError::new_err(format!("an error rate is above 0 and below 1, not {rate}; pass for example 0.01")))
    }
}

/// A list, or another iterable, of `str`.
#[derive(Debug)]
pub struct Texts(pub Vec<String>);

impl<'py> FromPyObject<'_, 'py> for Texts {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let expected = "a list of str, for example [\"id\"]";
        if found.is_instance_of::<PyString>() {
            return Err(refused(expected, &found));
        }
        let texts = all_of(&found, expected, |item| {
            item.cast::<PyString>().ok().map(|text| Text(text.clone()).get_short().map(str::to_owned)).transpose()
        })?;
        Ok(Self(texts))
    }
}

/// A list, or another iterable, of objects of a class.
#[derive(Debug)]
pub struct Objects<'py, T>(pub Vec<Bound<'py, T>>);

impl<'py, T: PyClass> FromPyObject<'_, 'py> for Objects<'py, T> {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let expected = format!("a list of {}", found.py().get_type::<T>().name()?);
        all_of(&found, &expected, |item| Ok(item.cast::<T>().ok().cloned())).map(Self)
    }
}

/// Another object of the same class.
#[derive(Debug)]
pub struct Other<'py, T>(pub Bound<'py, T>);

impl<'py, T: PyClass> FromPyObject<'_, 'py> for Other<'py, T> {
    type Error = PyErr;

    fn extract(found: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(other) = found.cast::<T>() {
            return Ok(Self(other.to_owned()));
        }
        Err(refused(&format!("a {}", found.py().get_type::<T>().name()?), &found))
    }
}

/// Returns what `take` returns for each item. If `take` returns `None`, raises a `TypeError` that
/// says what is expected. The length that the iterable claims is not used, because it may be wrong.
fn all_of<'py, T>(
    found: &Bound<'py, PyAny>,
    expected: &str,
    take: impl Fn(&Bound<'py, PyAny>) -> PyResult<Option<T>>,
) -> PyResult<Vec<T>> {
    let mut all = Vec::new();
    let is_iterable = found.get_type().hasattr("__iter__")? || found.get_type().hasattr("__getitem__")?;
    if !is_iterable {
        return Err(refused(expected, found));
    }
    for item in found.try_iter()? {
        found.py().check_signals()?;
        let item = item?;
        let Some(taken) = take(&item)? else {
            let kind = memory::short(item.get_type().name()?);
            return Err(PyTypeError::new_err(format!("must be {expected}; item {} is of the type {kind}", all.len())));
        };
        memory::push(&mut all, taken)?;
    }
    Ok(all)
}
