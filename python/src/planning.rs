//! Plans filters before they are built, and names the kinds and the instruction set.

use filterblock::{FilterKind, FilterSpec, planning};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::args::{Text, Whole};
use crate::errors::of_block;
use crate::memory;

/// The planned size, false-positive rate and query cost of a filter.
#[pyclass(frozen, weakref, module = "filterblock")]
#[derive(Debug)]
pub struct Plan(planning::Plan);

#[pymethods]
impl Plan {
    /// Always raise TypeError, because `plan` returns objects of this class.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Err(PyTypeError::new_err("plan a filter with plan(spec, num_keys)"))
    }

    /// The specification of the filter, as `Filter` takes it.
    #[getter]
    fn spec(&self) -> String {
        self.0.spec().to_string()
    }

    /// The number of distinct keys.
    #[getter]
    fn num_keys(&self) -> u64 {
        self.0.num_keys()
    }

    /// The length of the payload in bytes. The block also has checksums and a trailer.
    #[getter]
    fn payload_len_bytes(&self) -> u64 {
        self.0.payload_len_bytes()
    }

    /// The bits of the payload per key.
    #[getter]
    fn bits_per_key(&self) -> f64 {
        self.0.bits_per_key()
    }

    /// The expected false-positive rate.
    #[getter]
    fn error_rate(&self) -> f64 {
        self.0.expected_fpr()
    }

    /// The mean number of cache lines of 64 bytes that a query of an absent key reads.
    #[getter]
    fn lines_if_absent(&self) -> f64 {
        self.0.lines_if_absent()
    }

    /// The mean number of cache lines of 64 bytes that a query of a present key reads.
    #[getter]
    fn lines_if_present(&self) -> f64 {
        self.0.lines_if_present()
    }

    fn __repr__(&self) -> String {
        format!(
            "<Plan {}: {} keys, {} bytes of payload, error rate {}>",
            self.spec(),
            self.num_keys(),
            self.payload_len_bytes(),
            memory::rate(self.error_rate())
        )
    }
}

/// Plan a filter for a number of distinct keys. Raises ValueError if no such filter can be built.
#[pyfunction]
pub fn plan(spec: Text<'_>, num_keys: Whole) -> PyResult<Plan> {
    let spec = spec.get_short()?.parse().map_err(of_block)?;
    planning::Plan::new(spec, num_keys.0).map(Plan).map_err(of_block)
}

/// Plan the filter of this kind that has the lowest error rate and a payload of at most
/// `max_len_bytes`. Returns None if even the smallest filter is larger. Raises ValueError if there
/// is no such kind, if the kind takes no budget (such as always-maybe), or if the kind has no
/// filter of this number of keys.
#[pyfunction]
pub fn plan_largest(kind: Text<'_>, num_keys: Whole, max_len_bytes: Whole) -> PyResult<Option<Plan>> {
    let kind = kind.get_short()?;
    let found = FilterKind::from_name(kind).ok_or_else(|| {
        // The kinds without a budget have no largest filter.
        let kinds = FilterKind::ALL.into_iter().filter(|&kind| FilterSpec::of_lowest_fpr(kind).is_some());
        let kinds: Vec<_> = kinds.map(FilterKind::name).collect();
        PyValueError::new_err(format!("there is no kind {kind:?}; choose one of {}", kinds.join(", ")))
    })?;
    planning::Plan::largest(found, num_keys.0, max_len_bytes.0).map(|plan| plan.map(Plan)).map_err(of_block)
}

/// Return the names of all kinds of filters.
#[pyfunction]
pub fn kinds() -> Vec<&'static str> {
    FilterKind::ALL.iter().map(|kind| kind.name()).collect()
}

/// Return the name of the instruction set that queries use in this process, such as "avx2".
#[pyfunction]
pub fn instruction_set() -> &'static str {
    filterblock::instruction_set()
}
