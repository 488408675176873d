//! Converts one key of Python to bytes. README.md has the table of types.
//!
//! One rule decides every case: keys that Python calls equal have equal bytes in every process. A
//! type for which we cannot guarantee this raises `TypeError`. Otherwise a key could be added as
//! one type and denied as another type. We do not use Python's `hash`, because it differs between
//! processes.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyMemoryView, PyString};

use crate::buffer;
use crate::memory::{self, new_bytes};

/// The types of keys that a caller accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    /// Every type of the table in README.md.
    All,
    /// Texts and bytes. The file of another engine does not say how its writer encodes integers. So
    /// a query for an integer could ask for other bytes than the writer stored.
    BytesOnly,
    /// Texts and bytes. A range filter compares keys as bytes, and the order of an integer's bytes
    /// is not the order of the numbers. So the filter could deny a range that has added integers.
    InOrder,
}

impl Accepts {
    /// Returns the reason why numbers are not accepted, and what to pass instead.
    pub fn instead_of_numbers(self) -> &'static str {
        match self {
            Self::All | Self::BytesOnly => {
                "the file does not say how its writer stores numbers: give the bytes that the writer stores"
            }
            Self::InOrder => {
                "a range filter compares keys as bytes: give bytes in the order of the numbers, for example \
                 int(key).to_bytes(8, 'big') if no key is negative"
            }
        }
    }
}

/// Calls `with` with the bytes of a key, and returns its result.
///
/// # Errors
/// Raises `TypeError` for a type that is not accepted, and the other exceptions of [`key_bytes`].
#[inline]
pub fn with<R>(key: &Bound<'_, PyAny>, accepts: Accepts, with: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if let Ok(text) = key.cast::<PyString>() {
        return Ok(with(text.to_str()?.as_bytes()));
    }
    if let Ok(bytes) = key.cast::<PyBytes>() {
        return Ok(with(bytes.as_bytes()));
    }
    if accepts == Accepts::All
        && let Ok(number) = key.cast::<PyInt>()
    {
        return Ok(with(&of_int(number)?));
    }
    of_other(key, accepts, with)
}

/// Returns the bytes of an integer: 64 bits, little-endian, modulo 2**64.
fn of_int(number: &Bound<'_, PyAny>) -> PyResult<[u8; 8]> {
    if let Ok(number) = number.extract::<i64>() {
        return Ok(number.to_le_bytes());
    }
    let of_unsigned = number.extract::<u64>().map(u64::to_le_bytes);
    of_unsigned.map_err(|_| {
        PyOverflowError::new_err(
            "an integer key must be at least -2**63 and below 2**64; turn other integers into bytes yourself, for \
             example with int.to_bytes",
        )
    })
}

/// Calls `with` with the bytes of a key of a rare type, or returns the exception for a value that is
/// not accepted.
#[cold]
fn of_other<R>(key: &Bound<'_, PyAny>, accepts: Accepts, with: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if key.is_instance_of::<PyByteArray>() {
        return Ok(with(buffer::content(key)?.as_bytes()));
    }
    if key.is_instance_of::<PyMemoryView>() {
        return Ok(with(buffer::bytes_of_view(key)?.cast::<PyBytes>()?.as_bytes()));
    }
    let kind = key.get_type();
    let is_of_numpy = kind.module().is_ok_and(|module| module == "numpy");
    let name = kind.name().map(memory::short).unwrap_or_default();
    // The number under a mask is not the value of the item.
    if kind.module().is_ok_and(|module| memory::short(module).starts_with("numpy.ma")) {
        return Err(refused(key, accepts));
    }
    if is_of_numpy && name == "void" && key.getattr("dtype")?.getattr("fields")?.is_none() {
        return Ok(with(key.call_method0("tobytes")?.cast::<PyBytes>()?.as_bytes()));
    }
    if accepts == Accepts::All {
        if is_of_numpy && (name == "bool" || name == "bool_") {
            return Ok(with(&i64::from(key.is_truthy()?).to_le_bytes()));
        }
        // NumPy's integers and all other types that Python can use as an index. Floats have no
        // `__index__`. An array has it, but raises `TypeError` if it has many items.
        if kind.hasattr("__index__")? {
            let index = match key.call_method0("__index__") {
                Err(error) if name == "ndarray" && error.is_instance_of::<PyTypeError>(key.py()) => {
                    return Err(refused(key, accepts));
                }
                index => index?,
            };
            if index.is_instance_of::<PyInt>() {
                return of_int(&index).map(|bytes| with(&bytes));
            }
        }
    }
    Err(refused(key, accepts))
}

/// Returns the `TypeError` for a key. Its message says what to pass instead.
fn refused(key: &Bound<'_, PyAny>, accepts: Accepts) -> PyErr {
    let kind = memory::type_name(key);
    let next = match kind.as_str() {
        "NoneType" => "leave missing values out",
        _ if kind.starts_with("numpy.ma.") => "leave masked values out, for example with array.compressed()",
        "float" | "numpy.float64" | "numpy.float32" | "numpy.float16" if accepts == Accepts::All => {
            "choose the bytes yourself, for example int(key) or struct.pack('<d', key)"
        }
        "uuid.UUID" => "use key.bytes",
        "numpy.ndarray" | "pyarrow.lib.ChunkedArray" => {
            "an array holds many keys: pass the array alone to a method for many keys, such as contains_many or update"
        }
        _ if kind.starts_with("pyarrow.lib.") && kind.ends_with("Array") => {
            "an array holds many keys: pass the array alone to a method for many keys, such as contains_many or update"
        }
        _ if kind.starts_with("pyarrow.") => "turn it into a Python value, for example with key.as_py()",
        "int" | "bool" | "float" => accepts.instead_of_numbers(),
        _ if kind.starts_with("numpy.") && accepts != Accepts::All => accepts.instead_of_numbers(),
        _ => "turn it into bytes yourself, the same way in every process",
    };
    let accepted = if accepts == Accepts::All { "str, bytes or int" } else { "str or bytes" };
    PyTypeError::new_err(format!("a key is {accepted}, not {kind}; {next}"))
}

/// Return the bytes of a key. Filters add these bytes and ask for them.
///
/// The bytes are the same in every process, version and machine. Raises TypeError for a type that
/// is not a key, UnicodeEncodeError for a str with surrogates, OverflowError for an integer below
/// -2**63 or above 2**64 - 1, and ValueError for a released memoryview.
#[pyfunction]
#[pyo3(signature = (key, /))]
pub fn key_bytes<'py>(key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    with(key, Accepts::All, |bytes| new_bytes(key.py(), bytes))?
}
