//! Makes NumPy arrays of `bool` with the answers for many keys.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::memory::NoMemory;

/// Returns a writable NumPy array of `len` answers. `fill` writes the answers: 1 for "maybe" and 0
/// for "absent".
pub fn filled<'py>(
    py: Python<'py>,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    // Python prints an error of its own if it has no memory for a bytearray.
    Vec::<u8>::new().try_reserve_exact(len.saturating_add(1)).map_err(NoMemory::from)?;
    let bytes = PyByteArray::new_with(py, len, |bytes| {
        // An answer that `fill` does not write stays "maybe".
        bytes.fill(1);
        fill(bytes)
    })?;
    let numpy = py.import(intern!(py, "numpy"))?;
    let dtype = numpy.getattr(intern!(py, "bool_"))?;
    if len == 0 {
        // `frombuffer` raises an exception for an empty buffer.
        return numpy.call_method1(intern!(py, "empty"), (0, dtype));
    }
    numpy.call_method1(intern!(py, "frombuffer"), (bytes, dtype))
}
