//! Makes NumPy arrays of `bool` with the answers for many keys.

use pyo3::intern;
use pyo3::prelude::*;

use crate::buffer;
use crate::memory;

/// Returns a writable NumPy array of `len` answers. `fill` writes the answers: 1 for "maybe" and 0
/// for "absent".
pub fn filled<'py>(
    py: Python<'py>,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    memory::check(len)?;
    let numpy = py.import(intern!(py, "numpy"))?;
    // The system zeroes a page of the array when `fill` first writes it. To zero a long array at once
    // would delay the answer to Ctrl-C by seconds.
    let array = numpy.call_method1(intern!(py, "zeros"), (len, numpy.getattr(intern!(py, "bool_"))?))?;
    buffer::fill(&array, fill).map(|()| array)
}
