//! Answers for many keys as a NumPy array of `bool`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// Returns a NumPy array of `len` answers that `fill` writes, 1 for "maybe" and 0 for "absent". It owns its
/// memory and is writable.
///
/// # Errors
/// Raises the exception of `fill`.
pub fn filled<'py>(
    py: Python<'py>,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyByteArray::new_with(py, len, |bytes| {
        // An answer that nobody writes is "maybe".
        bytes.fill(1);
        fill(bytes)
    })?;
    let numpy = py.import(intern!(py, "numpy"))?;
    let dtype = numpy.getattr(intern!(py, "bool_"))?;
    if len == 0 {
        // NumPy refuses an empty buffer.
        return numpy.call_method1(intern!(py, "empty"), (0, dtype));
    }
    numpy.call_method1(intern!(py, "frombuffer"), (bytes, dtype))
}
