//! Chooses how the keys of a container are read.
//!
//! An array is read in place only if its bytes are known to be the bytes of its items. For example,
//! Polars exports the addresses of Python objects, and the items of a `numpy.char.chararray` are
//! shorter than its bytes. Every other container is read item by item, so its keys are the items.

use pyo3::exceptions::{PyException, PyMemoryError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMemoryView, PyTuple, PyType};

use crate::arrow::{self, ArrowKeys};
use crate::buffer::{self, BufferKeys, Owner};
use crate::key::Accepts;
use crate::memory;

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
        // A class of arrays has the methods of its arrays.
        if keys.is_instance_of::<PyType>() {
            return Err(PyTypeError::new_err("a class has no keys; give a list of keys, or an array"));
        }
        if let Some(form) = of_arrow(keys)? {
            return Ok(form);
        }
        if is_numpy(keys)? {
            return of_numpy(keys, accepts);
        }
        let Ok(view) = PyMemoryView::from(keys) else { return Ok(Self::Items(keys.clone())) };
        if keys.is_instance_of::<PyMemoryView>() {
            refuse_masked(keys)?;
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
/// A series of a library of data frames has a `dtype`. Unless its type and its dtype are known to
/// have the same values in Arrow, or if the library cannot export it, the items are read.
fn of_arrow<'py>(keys: &Bound<'py, PyAny>) -> PyResult<Option<Form<'py>>> {
    let py = keys.py();
    if !arrow::is_exporter(keys)? {
        return Ok(None);
    }
    // A column of a data frame can be called `dtype`, so the type is asked.
    let is_series = keys.get_type().hasattr(intern!(py, "dtype"))?;
    if is_series && !is_equal_in_arrow(keys)? {
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

/// Returns whether this is a series of pandas or Polars whose items have the same values in Arrow.
/// A subclass, or a dtype of another package, may have other items than it exports.
fn is_equal_in_arrow(keys: &Bound<'_, PyAny>) -> PyResult<bool> {
    const POLARS: [&str; 13] = [
        "Int8",
        "Int16",
        "Int32",
        "Int64",
        "UInt8",
        "UInt16",
        "UInt32",
        "UInt64",
        "Boolean",
        "String",
        "Binary",
        "Categorical",
        "Enum",
    ];
    let dtype = || keys.getattr(intern!(keys.py(), "dtype"));
    if is_of("polars", &keys.get_type(), &["Series"])? {
        return is_of("polars", &dtype()?.get_type(), &POLARS);
    }
    if !is_of("pandas", &keys.get_type(), &["Series"])? {
        return Ok(false);
    }
    let dtype = dtype()?;
    if is_of("pandas", &dtype.get_type(), &["CategoricalDtype"])? {
        return is_plain_of_pandas(&dtype.getattr("categories")?.getattr("dtype")?);
    }
    is_plain_of_pandas(&dtype)
}

/// Returns whether a dtype of pandas without categories has the same values in Arrow.
fn is_plain_of_pandas(dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
    const PANDAS: [&str; 10] = [
        "Int8Dtype",
        "Int16Dtype",
        "Int32Dtype",
        "Int64Dtype",
        "UInt8Dtype",
        "UInt16Dtype",
        "UInt32Dtype",
        "UInt64Dtype",
        "BooleanDtype",
        "StringDtype",
    ];
    const ARROW: [&str; 14] = [
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
        "string",
        "large_string",
        "string_view",
        "binary",
        "large_binary",
    ];
    let kind = dtype.get_type();
    if is_of("pandas", &kind, &["ArrowDtype"])? {
        let name = dtype.getattr("pyarrow_dtype")?.str()?.to_string();
        return Ok(ARROW.contains(&name.as_str()));
    }
    let numpy = dtype.py().import(intern!(dtype.py(), "numpy"))?.getattr(intern!(dtype.py(), "dtype"))?;
    if dtype.is_instance(&numpy)? {
        return Ok(["i", "u", "b"].contains(&dtype.getattr("kind")?.extract::<String>()?.as_str()));
    }
    is_of("pandas", &kind, &PANDAS)
}

/// Returns whether a type is the class of one of these names in a library. Does not import the
/// library, because a type of a library exists only after its import.
fn is_of(library: &str, kind: &Bound<'_, PyType>, names: &[&str]) -> PyResult<bool> {
    let name = kind.name()?;
    if !names.iter().any(|known| name == *known) {
        return Ok(false);
    }
    let modules = kind.py().import(intern!(kind.py(), "sys"))?.getattr(intern!(kind.py(), "modules"))?;
    let library = modules.call_method1(intern!(kind.py(), "get"), (library,))?;
    Ok(library.getattr_opt(&name)?.is_some_and(|class| class.is(kind)))
}

fn is_numpy(keys: &Bound<'_, PyAny>) -> PyResult<bool> {
    keys.is_instance(&keys.py().import(intern!(keys.py(), "numpy"))?.getattr(intern!(keys.py(), "ndarray"))?)
}

/// Raises `TypeError` for a masked array of NumPy, or a `memoryview` of one.
pub fn refuse_masked(keys: &Bound<'_, PyAny>) -> PyResult<()> {
    if keys.is_instance_of::<PyMemoryView>() {
        return refuse_masked(&keys.getattr(intern!(keys.py(), "obj"))?);
    }
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
        if error.is_instance_of::<PyMemoryError>(py) {
            return error;
        }
        // NumPy exports no buffer for times.
        let next = match (accepts, kind.as_str()) {
            (Accepts::All, "M" | "m") => "convert the array to integers of the unit that you mean, or to texts",
            (Accepts::All, _) => "convert the array to integers, texts or bytes, the same way in every process",
            _ => accepts.instead_of_numbers(),
        };
        // NumPy may lack the memory for the name of a type.
        let name = dtype.str().map_or_else(|_| kind.clone(), memory::short);
        PyTypeError::new_err(format!("items of the type {name} are not keys; {next}"))
    })
}
