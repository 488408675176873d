//! Chooses how the keys of a container are read.
//!
//! An array is read in place only if its bytes are known to be the bytes of its items. For example,
//! Polars exports the addresses of Python objects, and the items of a `numpy.char.chararray` are
//! shorter than its bytes. Every other container is read item by item, so its keys are the items.

use pyo3::exceptions::{PyException, PyMemoryError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMemoryView, PyTuple};

use crate::arrow::{self, ArrowKeys};
use crate::buffer::{self, BufferKeys, Owner};
use crate::key::Accepts;

/// The way in which the keys of a container are read.
#[derive(Debug)]
pub enum Form<'py> {
    /// The items of a buffer, in place.
    Buffer(BufferKeys),
    /// The items of Arrow arrays, in place.
    Arrow(ArrowKeys),
    /// The elements of an iterable, one by one.
    Items(Bound<'py, PyAny>),
}

impl<'py> Form<'py> {
    /// Chooses how to read `keys`.
    ///
    /// # Errors
    /// Raises an exception for an array whose items are not keys, or that has several dimensions.
    pub fn of(keys: &Bound<'py, PyAny>, accepts: Accepts) -> PyResult<Self> {
        if keys.is_instance_of::<PyList>() || keys.is_instance_of::<PyTuple>() {
            return Ok(Self::Items(keys.clone()));
        }
        if let Some(form) = of_arrow(keys)? {
            return Ok(form);
        }
        if is_numpy(keys)? {
            return of_numpy(keys, accepts);
        }
        let Ok(view) = PyMemoryView::from(keys) else { return Ok(Self::Items(keys.clone())) };
        if keys.is_instance_of::<PyMemoryView>() {
            return Self::of_buffer(keys, Owner::View);
        }
        if view.getattr(intern!(keys.py(), "ndim"))?.extract::<usize>()? == 0 {
            return Err(PyTypeError::new_err("the buffer has 0 dimensions, so it is one key; give a list of keys"));
        }
        let array = keys.py().import(intern!(keys.py(), "array"))?.getattr(intern!(keys.py(), "array"))?;
        if keys.get_type().is(&array) {
            return Self::of_buffer(keys, Owner::Array);
        }
        // `mmap` and others are bytes. The elements of a subclass of `array.array` are numbers, even
        // if they have one byte.
        if buffer::is_of_bytes(view.as_any())? && !keys.is_instance(&array)? {
            return Err(PyTypeError::new_err(buffer::ONE_KEY));
        }
        Ok(Self::Items(keys.clone()))
    }

    fn of_buffer(keys: &Bound<'py, PyAny>, owner: Owner) -> PyResult<Self> {
        match BufferKeys::of_items(buffer::exported(keys)?, owner)? {
            Some(found) => Ok(Self::Buffer(found)),
            None => keys.call_method0(intern!(keys.py(), "tolist")).map(Self::Items),
        }
    }
}

/// Chooses how to read an object with the Arrow interface. Returns `None` for other objects.
///
/// A series or an index of a library of data frames has a `dtype`. If the dtype is not known to
/// have the same values in Arrow, or if the library cannot export it, the items are read.
fn of_arrow<'py>(keys: &Bound<'py, PyAny>) -> PyResult<Option<Form<'py>>> {
    let py = keys.py();
    if !arrow::is_exporter(keys)? {
        return Ok(None);
    }
    // A column of a data frame can be called `dtype`, so the type is asked.
    let is_series = keys.get_type().hasattr(intern!(py, "dtype"))?;
    if is_series && !is_equal_in_arrow(&keys.getattr(intern!(py, "dtype"))?)? {
        return Ok(Some(Form::Items(keys.clone())));
    }
    match arrow::export(keys) {
        Ok(exported) => ArrowKeys::of(&exported).map(|keys| Some(Form::Arrow(keys))),
        Err(error)
            if is_series && error.is_instance_of::<PyException>(py) && !error.is_instance_of::<PyMemoryError>(py) =>
        {
            Ok(Some(Form::Items(keys.clone())))
        }
        Err(error) => Err(error),
    }
}

/// Returns whether a series of this dtype of pandas or Polars has the same values in Arrow.
fn is_equal_in_arrow(dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
    const EQUAL: [&str; 10] = [
        "int",
        "uint",
        "bool",
        "str",
        "large_string",
        "binary",
        "large_binary",
        "fixed_size_binary",
        "categorical",
        "enum",
    ];
    let name = dtype.str()?.to_string().to_lowercase();
    if name == "category" {
        let categories = dtype.getattr("categories")?;
        return categories.getattr("dtype").and_then(|of_categories| is_equal_in_arrow(&of_categories));
    }
    // Arrow has no integers of 128 bits, and "interval" begins like "int".
    Ok(EQUAL.iter().any(|equal| name.starts_with(equal)) && !name.contains("int128") && !name.contains("interval"))
}

fn is_numpy(keys: &Bound<'_, PyAny>) -> PyResult<bool> {
    keys.is_instance(&keys.py().import(intern!(keys.py(), "numpy"))?.getattr(intern!(keys.py(), "ndarray"))?)
}

/// Raises `TypeError` for a masked array of NumPy.
pub fn refuse_masked(keys: &Bound<'_, PyAny>) -> PyResult<()> {
    if is_numpy(keys)? && keys.hasattr(intern!(keys.py(), "mask"))? {
        return Err(PyTypeError::new_err(
            "a masked array is not accepted, because its masked items would be taken as keys; pass array.compressed()",
        ));
    }
    Ok(())
}

fn of_numpy<'py>(keys: &Bound<'py, PyAny>, accepts: Accepts) -> PyResult<Form<'py>> {
    let py = keys.py();
    refuse_masked(keys)?;
    if keys.getattr(intern!(py, "ndim"))?.extract::<usize>()? != 1 {
        return Err(PyValueError::new_err(
            "an array of keys must have one dimension; pass an array of one dimension, for example array.ravel()",
        ));
    }
    let (kind, numpy) = (keys.get_type(), py.import(intern!(py, "numpy"))?);
    if !kind.is(numpy.getattr(intern!(py, "ndarray"))?) && !kind.is(numpy.getattr(intern!(py, "memmap"))?) {
        // A subclass may return other items than its buffer has.
        return Ok(Form::Items(keys.clone()));
    }
    let dtype = keys.getattr(intern!(py, "dtype"))?;
    let kind: String = dtype.getattr(intern!(py, "kind"))?.extract()?;
    if kind == "T" {
        // NumPy exports no buffer for texts of variable length.
        return keys.call_method0(intern!(py, "tolist")).map(Form::Items);
    }
    Form::of_buffer(keys, Owner::NumPy).map_err(|error| {
        // NumPy exports no buffer for times.
        let next = match (accepts, kind.as_str()) {
            (Accepts::All, "M" | "m") => "convert the array to integers of the unit that you mean, or to texts",
            (Accepts::All, _) => "convert the array to integers, texts or bytes, the same way in every process",
            _ => accepts.instead_of_numbers(),
        };
        let refused = PyTypeError::new_err(format!("items of the type {dtype} are not keys; {next}"));
        refused.set_cause(py, Some(error));
        refused
    })
}
