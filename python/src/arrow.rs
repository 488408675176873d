//! Reads keys from arrays of Apache Arrow in place, through the Arrow C data interface.
#![expect(unsafe_code, reason = "the structs of the interface come as pointers in capsules")]

use std::collections::TryReserveError;
use std::ffi::CStr;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::{ArrowError, DataType, Field};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::memory::{self, NoMemory};

/// The metadata key under which a schema names its extension type.
const EXTENSION: &str = "ARROW:extension:name";

/// What the Arrow interface of an object returned.
#[derive(Debug)]
pub enum Exported<'py> {
    /// The pair of capsules of `__arrow_c_array__`.
    Array(Bound<'py, PyAny>),
    /// The capsule of `__arrow_c_stream__`.
    Stream(Bound<'py, PyAny>),
}

/// Returns whether an object has the Arrow interface.
pub fn is_exporter(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    Ok(object.hasattr(intern!(py, "__arrow_c_array__"))? || object.hasattr(intern!(py, "__arrow_c_stream__"))?)
}

/// Calls the Arrow interface of an object.
pub fn export<'py>(object: &Bound<'py, PyAny>) -> PyResult<Exported<'py>> {
    let py = object.py();
    match object.hasattr(intern!(py, "__arrow_c_array__"))? {
        true => object.call_method0(intern!(py, "__arrow_c_array__")).map(Exported::Array),
        false => object.call_method0(intern!(py, "__arrow_c_stream__")).map(Exported::Stream),
    }
}

/// The arrays of an Arrow array, chunked array or stream. No item is null.
#[derive(Debug)]
pub struct ArrowKeys(Vec<ArrayRef>);

impl ArrowKeys {
    /// Takes exported arrays.
    ///
    /// # Errors
    /// Raises an exception if an item is null or not a key, or if Arrow cannot read the data.
    pub fn of(exported: &Exported<'_>) -> PyResult<Self> {
        let mut arrays = match exported {
            Exported::Array(pair) => vec![of_array(pair)?],
            Exported::Stream(capsule) => of_stream(capsule)?,
        };
        arrays.retain(|array| !array.is_empty());
        let mut before = 0;
        for array in &arrays {
            if is_of_empty_array(array.data_type()) {
                return Err(refused(array.data_type()));
            }
            refuse_nulls(array, before)?;
            before += array.len();
        }
        Ok(Self(arrays))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.iter().fold(0, |sum: usize, array| sum.saturating_add(array.len()))
    }

    /// Returns whether the keys are integers or truth values.
    pub fn is_of_integers(&self) -> bool {
        self.0.iter().any(|array| is_integer(values_type(array.data_type())))
    }

    /// Calls `each` with the bytes of every key, without the GIL.
    ///
    /// # Errors
    /// Raises `ValueError` if an item points to a value that its dictionary does not have, and
    /// `MemoryError` if `each` fails.
    pub fn for_each(&self, py: Python<'_>, mut each: impl FnMut(&[u8]) -> Result<(), NoMemory> + Send) -> PyResult<()> {
        py.detach(move || self.0.iter().try_for_each(|array| of_items(array, &mut each))).map_err(|stop| match stop {
            Stop::NoMemory => NoMemory.into(),
            Stop::Invalid(text) => {
                PyValueError::new_err(format!("the Arrow array is not valid: {text}; pass a valid array"))
            }
        })
    }

    /// Returns whether every item is a key. An item of a dictionary may point to no value.
    pub fn is_of_keys_only(&self) -> bool {
        !self.0.iter().any(is_dictionary)
    }
}

fn of_arrow(error: &ArrowError) -> PyErr {
    PyValueError::new_err(format!("the Arrow data cannot be read: {error}; pass a list or a NumPy array"))
}

/// Returns the pointer of a capsule with this name.
fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err("the Arrow interface of the object returned no capsule; pass a list or a NumPy array")
    })?;
    Ok(capsule.pointer_checked(Some(name))?.cast::<T>().as_ptr())
}

fn of_array(pair: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let pair = pair.cast::<PyTuple>().map_err(|_| {
        PyTypeError::new_err("__arrow_c_array__ of the object returned no pair; pass a list or a NumPy array")
    })?;
    let schema = pointer::<FFI_ArrowSchema>(&pair.get_item(0)?, c"arrow_schema")?;
    let array = pointer::<FFI_ArrowArray>(&pair.get_item(1)?, c"arrow_array")?;
    // SAFETY: a capsule of this name has a valid struct of the Arrow C data interface. `from_raw`
    // moves the struct out and leaves a released struct, so the capsule does not release it again.
    let (schema, array) = unsafe { (FFI_ArrowSchema::from_raw(schema), FFI_ArrowArray::from_raw(array)) };
    if schema.release().is_none() || array.is_released() {
        return Err(PyValueError::new_err("the Arrow array was read before; export it again"));
    }
    imported(array, field_of(&schema)?.data_type())
}

/// Takes an array of this type.
fn imported(array: FFI_ArrowArray, data_type: &DataType) -> PyResult<ArrayRef> {
    check_alignment(&array, data_type)?;
    // SAFETY: the interface requires that the array has the type of the schema.
    let data = unsafe { from_ffi_and_data_type(array, data_type.clone()) };
    data.map(make_array).map_err(|error| of_arrow(&error))
}

/// Checks the addresses of the buffers of an array and of its dictionary. The crate `arrow` reads
/// the offsets of texts and the lengths of the buffers of views where they are. It copies other
/// buffers that are not aligned, but aborts if there is no memory for the copy.
fn check_alignment(array: &FFI_ArrowArray, data_type: &DataType) -> PyResult<()> {
    use DataType as D;
    let data_type = match (data_type, array.dictionary()) {
        (D::Dictionary(keys, values), Some(dictionary)) => {
            check_alignment(dictionary, values)?;
            keys
        }
        _ => data_type,
    };
    let is_at = |buffer: usize, align: usize| {
        buffer >= array.num_buffers() || array.buffer(buffer).addr().is_multiple_of(align)
    };
    let (buffer, align) = match data_type {
        D::Utf8 | D::Binary => (1, 4),
        D::LargeUtf8 | D::LargeBinary => (1, 8),
        D::Utf8View | D::BinaryView => (array.num_buffers().saturating_sub(1), 8),
        _ => (0, 1),
    };
    if !is_at(buffer, align) {
        return Err(PyValueError::new_err(
            "the Arrow array is not valid: the address of its offsets is not a multiple of their size; pass a copy, for \
             example pyarrow.array(keys.to_pylist())",
        ));
    }
    let width = data_type.primitive_width().unwrap_or(if is_bytes(data_type) { 16 } else { 1 });
    if !is_at(1, width) {
        memory::check(array.offset().saturating_add(array.len()).saturating_mul(width))?;
    }
    Ok(())
}

fn of_stream(capsule: &Bound<'_, PyAny>) -> PyResult<Vec<ArrayRef>> {
    let (py, stream) = (capsule.py(), pointer::<FFI_ArrowArrayStream>(capsule, c"arrow_array_stream")?);
    // SAFETY: a capsule of this name has a valid stream, and `from_raw` leaves a released stream.
    let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
    let mut schema = FFI_ArrowSchema::empty();
    let calls = stream.release().and(stream.get_schema()).zip(stream.get_next());
    let (get_schema, get_next) =
        calls.ok_or_else(|| PyValueError::new_err("the Arrow stream was read before; export it again"))?;
    // SAFETY: the stream is valid and not released, and `schema` takes the schema.
    let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
    if code != 0 || schema.release().is_none() {
        return Err(failed(&mut stream, code));
    }
    let field = field_of(&schema)?;
    let mut arrays = Vec::new();
    loop {
        // A stream may have no end, and the crate `arrow` aborts without memory.
        memory::check(memory::ROOM)?;
        py.check_signals()?;
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream is valid and not released, and `array` takes the array.
        let code = unsafe { get_next(&raw mut stream, &raw mut array) };
        if code != 0 {
            return Err(failed(&mut stream, code));
        }
        if array.is_released() {
            return Ok(arrays);
        }
        memory::push(&mut arrays, imported(array, field.data_type())?)?;
    }
}

/// Returns the exception for an error of a stream.
fn failed(stream: &mut FFI_ArrowArrayStream, code: i32) -> PyErr {
    // SAFETY: the stream is valid and not released. The text stays valid until its next call.
    let text = stream.get_last_error().map(|call| unsafe { call(&raw mut *stream) }).filter(|text| !text.is_null());
    // SAFETY: the interface requires a text that ends with a NUL.
    let text = text.map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    let text = text.unwrap_or_else(|| format!("error {code}"));
    PyValueError::new_err(format!("the Arrow data cannot be read: {text}; pass a list or a NumPy array"))
}

/// Returns the type of the values: the value type of a dictionary, or `data_type` itself.
fn values_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn is_integer(data_type: &DataType) -> bool {
    data_type.is_integer() || *data_type == DataType::Boolean
}

/// Returns the field of a schema whose values are keys.
fn field_of(schema: &FFI_ArrowSchema) -> PyResult<Field> {
    // A dictionary has a schema of its own, and a `Field` does not have the metadata of that schema.
    for schema in std::iter::successors(Some(schema), |schema| schema.dictionary()) {
        if let Some(name) = schema.metadata().map_err(|error| of_arrow(&error))?.get(EXTENSION) {
            return Err(PyTypeError::new_err(format!(
                "values of the Arrow extension type {} are not keys; pass the storage, for example array.storage",
                memory::short(name)
            )));
        }
    }
    let field = Field::try_from(schema).map_err(|error| {
        PyTypeError::new_err(format!("the type of the Arrow values is not known ({error}); pass a list"))
    })?;
    let found = values_type(field.data_type());
    // `ArrowKeys::of` refuses the values of the types that arrays without values have.
    if is_bytes(found) || is_integer(found) || is_of_empty_array(field.data_type()) {
        return Ok(field);
    }
    Err(refused(found))
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType as D;
    matches!(
        data_type,
        D::Utf8 | D::LargeUtf8 | D::Utf8View | D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_)
    )
}

/// Returns whether this is the type of an array without values, such as `pyarrow.array([])`.
fn is_of_empty_array(data_type: &DataType) -> bool {
    *data_type == DataType::Null || data_type.is_floating()
}

fn refused(found: &DataType) -> PyErr {
    use DataType as D;
    let next = match found {
        D::Struct(_) => "pass one column",
        D::RunEndEncoded(..) => "decode the array first",
        D::Null => "leave missing values out",
        D::Date32 | D::Date64 | D::Timestamp(..) | D::Time32(_) | D::Time64(_) | D::Duration(_) => {
            "cast the array to integers of the unit that you mean, or to texts"
        }
        _ => "cast the array to integers, texts or bytes",
    };
    PyTypeError::new_err(format!("Arrow values of the type {} are not keys; {next}", memory::short(found)))
}

/// The number of items of a dictionary that are read together. The crate `arrow` allocates memory
/// for their nulls and for their positions.
const PART: usize = 1 << 16;

/// Returns the array in parts, so that the memory for a dictionary stays small.
fn parts(array: &ArrayRef) -> impl Iterator<Item = (usize, ArrayRef)> + '_ {
    let part = if is_dictionary(array) { PART } else { array.len().max(1) };
    (0..array.len()).step_by(part).map(move |start| (start, array.slice(start, part.min(array.len() - start))))
}

fn is_dictionary(array: &ArrayRef) -> bool {
    matches!(array.data_type(), DataType::Dictionary(..))
}

fn refuse_nulls(array: &ArrayRef, before: usize) -> PyResult<()> {
    for (start, part) in parts(array) {
        let nulls = part.logical_nulls();
        let nulls = nulls.as_ref().filter(|nulls| nulls.null_count() > 0);
        if let Some(index) = nulls.and_then(|nulls| nulls.iter().position(|valid| !valid)) {
            return Err(PyTypeError::new_err(format!(
                "key {}: a null is not a key; leave nulls out, for example array.drop_null()",
                before + start + index
            )));
        }
    }
    Ok(())
}

/// The reason to stop before the last item.
enum Stop {
    /// The array is not valid.
    Invalid(String),
    NoMemory,
}

impl From<NoMemory> for Stop {
    fn from(_: NoMemory) -> Self {
        Self::NoMemory
    }
}

impl From<TryReserveError> for Stop {
    fn from(_: TryReserveError) -> Self {
        Self::NoMemory
    }
}

/// Calls `each` with the bytes of every item of an array without nulls.
fn of_items(array: &ArrayRef, each: &mut impl FnMut(&[u8]) -> Result<(), NoMemory>) -> Result<(), Stop> {
    if is_dictionary(array) { of_dictionary(array, each) } else { of_plain(&**array, each) }
}

/// Calls `each` with the bytes of every item of an array that is not a dictionary and has no nulls.
fn of_plain(array: &dyn Array, each: &mut impl FnMut(&[u8]) -> Result<(), NoMemory>) -> Result<(), Stop> {
    use DataType as D;
    fn ints<T: ArrowPrimitiveType>(
        array: &dyn Array,
        each: &mut impl FnMut(&[u8]) -> Result<(), NoMemory>,
        of: impl Fn(T::Native) -> [u8; 8],
    ) -> Result<(), NoMemory> {
        array.as_primitive::<T>().values().iter().try_for_each(|&value| each(&of(value)))
    }
    match array.data_type() {
        D::Int8 => ints::<Int8Type>(array, each, |value| i64::from(value).to_le_bytes()),
        D::Int16 => ints::<Int16Type>(array, each, |value| i64::from(value).to_le_bytes()),
        D::Int32 => ints::<Int32Type>(array, each, |value| i64::from(value).to_le_bytes()),
        D::Int64 => ints::<Int64Type>(array, each, i64::to_le_bytes),
        D::UInt8 => ints::<UInt8Type>(array, each, |value| i64::from(value).to_le_bytes()),
        D::UInt16 => ints::<UInt16Type>(array, each, |value| i64::from(value).to_le_bytes()),
        D::UInt32 => ints::<UInt32Type>(array, each, |value| i64::from(value).to_le_bytes()),
        D::UInt64 => ints::<UInt64Type>(array, each, u64::to_le_bytes),
        D::Boolean => array.as_boolean().values().iter().try_for_each(|value| each(&i64::from(value).to_le_bytes())),
        D::Utf8 => array.as_string::<i32>().iter().flatten().try_for_each(|value| each(value.as_bytes())),
        D::LargeUtf8 => array.as_string::<i64>().iter().flatten().try_for_each(|value| each(value.as_bytes())),
        D::Utf8View => array.as_string_view().iter().flatten().try_for_each(|value| each(value.as_bytes())),
        D::Binary => array.as_binary::<i32>().iter().flatten().try_for_each(each),
        D::LargeBinary => array.as_binary::<i64>().iter().flatten().try_for_each(each),
        D::BinaryView => array.as_binary_view().iter().flatten().try_for_each(each),
        D::FixedSizeBinary(_) => array.as_fixed_size_binary().iter().flatten().try_for_each(each),
        other => return Err(Stop::Invalid(format!("items of the type {other}"))),
    }?;
    Ok(())
}

/// Calls `each` with the bytes of every item's value in the dictionary.
fn of_dictionary(array: &ArrayRef, each: &mut impl FnMut(&[u8]) -> Result<(), NoMemory>) -> Result<(), Stop> {
    // A dictionary may have a null that no item uses. The loop adds an end for the null but no
    // bytes, so that the indexes of the other values stay right.
    let values = array.as_any_dictionary().values();
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    ends.try_reserve_exact(values.len())?;
    for index in 0..values.len() {
        if values.is_valid(index) {
            of_plain(&*values.slice(index, 1), &mut |value| memory::extend(&mut bytes, value))?;
        }
        ends.push(bytes.len());
    }
    let mut is_valid = true;
    // `arrow` itself takes the last value for an index that is too large.
    of_plain(array.as_any_dictionary().keys(), &mut |index| {
        let index = index.try_into().map(u64::from_le_bytes).ok().and_then(|index| usize::try_from(index).ok());
        let start = index.and_then(|index| index.checked_sub(1).map_or(Some(0), |before| ends.get(before).copied()));
        let end = index.and_then(|index| ends.get(index).copied());
        match start.zip(end).and_then(|(start, end)| bytes.get(start..end)) {
            Some(value) => each(value),
            None => {
                is_valid = false;
                Err(NoMemory)
            }
        }
    })
    .map_err(|stop| match is_valid {
        true => stop,
        false => Stop::Invalid("an item points to a value that the dictionary does not have".to_owned()),
    })
}
