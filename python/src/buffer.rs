//! Reads keys from buffers, such as NumPy arrays, `array.array`, and bytes with keys of one width.
//! The items are read in place. Meanwhile the buffer stays exported, so its owner cannot free or
//! resize it. Also reads a `memoryview` that is one key.
#![expect(unsafe_code, reason = "the items are read through the pointers of the buffer protocol")]

use std::marker::PhantomData;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyUnicodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::memory::{self, NoMemory};

/// The message for bytes that were passed as many keys without a width.
pub const ONE_KEY: &str = "bytes are one key, not many; give a list of keys, or the width of each key in bytes, for example width=16; to open \
     the bytes of a filter: Filter.from_bytes(data)";

/// The formats of bytes.
const BYTES: [&str; 4] = ["B", "b", "c", ""];

/// The owner of a buffer. The same format has other meanings for other owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// An array of NumPy.
    NumPy,
    /// An `array.array`.
    Array,
    /// A `memoryview`. Items of one byte are bytes, and need a width.
    View,
}

/// The type of the items of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    /// An integer of 1, 2, 4 or 8 bytes.
    Int { is_signed: bool, is_swapped: bool },
    /// A truth value of one byte. The key is the integer 0 or 1.
    Bool,
    /// Bytes that NumPy pads with NULs. The key has no trailing NULs, like the item that NumPy
    /// returns.
    Padded,
    /// Bytes without padding. The key is all bytes of the item.
    Bytes,
    /// UTF-32 that NumPy pads with NULs. The key is UTF-8 without trailing NULs.
    Text { is_swapped: bool },
}

/// The items of a buffer with one dimension.
#[derive(Debug)]
pub struct BufferKeys {
    buffer: PyUntypedBuffer,
    item: Item,
    item_len_bytes: usize,
    len: usize,
    stride: isize,
}

impl BufferKeys {
    /// Takes a buffer whose items are keys. Returns `None` if its items must be read as Python
    /// objects.
    pub fn of_items(buffer: PyUntypedBuffer, owner: Owner) -> PyResult<Option<Self>> {
        let format = memory::short(buffer.format().to_string_lossy());
        // The characters of `array.array` have the format "w", but no padding.
        if format == "O" || owner == Owner::Array && ["u", "w"].contains(&format.as_str()) {
            return Ok(None);
        }
        if owner == Owner::View && BYTES.contains(&format.as_str()) {
            return Err(PyTypeError::new_err(ONE_KEY));
        }
        check_shape(&buffer)?;
        let item_len_bytes = buffer.item_size();
        let item = match Item::of_format(&format, item_len_bytes) {
            Some(item @ (Item::Int { .. } | Item::Bool)) => item,
            // Only NumPy pads texts and bytes with NULs.
            Some(item) if owner == Owner::NumPy => item,
            // `numpy.array([])` is an array of floats.
            None if owner == Owner::NumPy && buffer.item_count() == 0 && is_float(&format) => Item::Bytes,
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "items of the format {format:?} are not keys; convert them to integers, bytes or texts, the same \
                     way in every process"
                )));
            }
        };
        let (len, stride) = shape(&buffer);
        Ok(Some(Self { buffer, item, item_len_bytes, len, stride }))
    }

    /// Takes a contiguous buffer of keys that all have `width` bytes.
    pub fn of_width(buffer: PyUntypedBuffer, width: usize) -> PyResult<Self> {
        check_shape(&buffer)?;
        let len_bytes = buffer.len_bytes();
        if buffer.item_size() != 1 || !buffer.is_c_contiguous() {
            return Err(PyTypeError::new_err("width= needs one contiguous buffer of bytes; pass bytes(data)"));
        }
        if width == 0 || !len_bytes.is_multiple_of(width) {
            return Err(PyValueError::new_err(format!(
                "the buffer of {len_bytes} bytes cannot be divided into keys of {width} bytes; pass whole keys, and a \
                 width of at least 1"
            )));
        }
        let too_large = |_| PyValueError::new_err("the width is too large; pass a list of keys");
        let stride = isize::try_from(width).map_err(too_large)?;
        Ok(Self { buffer, item: Item::Bytes, item_len_bytes: width, len: len_bytes / width, stride })
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether every item is a key. Texts may have no UTF-8 form.
    pub fn is_of_keys_only(&self) -> bool {
        !matches!(self.item, Item::Text { .. })
    }

    /// Returns whether the keys are integers or truth values.
    pub fn is_of_integers(&self) -> bool {
        matches!(self.item, Item::Int { .. } | Item::Bool)
    }

    /// Calls `each` with the bytes of every key, without the GIL.
    ///
    /// # Errors
    /// Raises `UnicodeError` for a text that has no UTF-8 form, and `MemoryError` if `each` fails.
    pub fn for_each(&self, py: Python<'_>, each: impl FnMut(&[u8]) -> Result<(), NoMemory> + Send) -> PyResult<()> {
        let items = Items { start: self.buffer.buf_ptr().cast(), of: PhantomData, keys: self };
        match py.detach(move || items.for_each(each)) {
            Ok(()) => Ok(()),
            Err(Stop::NoMemory) => Err(NoMemory.into()),
            Err(Stop::Text(index)) => Err(PyUnicodeError::new_err(format!(
                "key {index}: the text has a surrogate or a number that is no character, so it has no UTF-8 form; \
                 pass bytes"
            ))),
        }
    }
}

impl Item {
    /// Reads a format of the module `struct`, with the additions `w` (UTF-32) and `Nx` (bytes) of
    /// NumPy. Returns `None` for items that are not keys.
    fn of_format(format: &str, len_bytes: usize) -> Option<Self> {
        let (order, code) = match format.as_bytes() {
            [order @ (b'<' | b'>' | b'!' | b'=' | b'@' | b'^'), code @ ..] => (*order, code),
            code => (b'@', code),
        };
        let is_big = match order {
            b'<' => false,
            b'>' | b'!' => true,
            _ => cfg!(target_endian = "big"),
        };
        let digits = code.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (count, code) = code.split_at(digits);
        let is_int = count.is_empty() && [1, 2, 4, 8].contains(&len_bytes);
        match code {
            b"?" if count.is_empty() && len_bytes == 1 => Some(Self::Bool),
            b"b" | b"h" | b"i" | b"l" | b"q" | b"n" if is_int => {
                Some(Self::Int { is_signed: true, is_swapped: is_big })
            }
            b"B" | b"H" | b"I" | b"L" | b"Q" | b"N" if is_int => {
                Some(Self::Int { is_signed: false, is_swapped: is_big })
            }
            b"s" => Some(Self::Padded),
            b"x" => Some(Self::Bytes),
            b"w" if len_bytes.is_multiple_of(4) => Some(Self::Text { is_swapped: is_big }),
            _ => None,
        }
    }
}

fn is_float(format: &str) -> bool {
    ["e", "f", "d"].contains(&format.trim_start_matches(['<', '>', '=', '@']))
}

fn check_shape(buffer: &PyUntypedBuffer) -> PyResult<()> {
    if buffer.dimensions() != 1 {
        return Err(PyValueError::new_err(format!(
            "the buffer has {} dimensions; pass a buffer of one dimension, for example array.ravel() of a NumPy array",
            buffer.dimensions()
        )));
    }
    if buffer.suboffsets().is_some_and(|offsets| offsets.iter().any(|&offset| offset >= 0)) {
        return Err(PyTypeError::new_err("the buffer has suboffsets (pointers to its items); pass a copy of the data"));
    }
    Ok(())
}

fn shape(buffer: &PyUntypedBuffer) -> (usize, isize) {
    (buffer.shape().first().copied().unwrap_or(0), buffer.strides().first().copied().unwrap_or(0))
}

/// The reason to stop before the last key.
enum Stop {
    /// The text of this index has no UTF-8 form.
    Text(usize),
    NoMemory,
}

impl From<NoMemory> for Stop {
    fn from(_: NoMemory) -> Self {
        Self::NoMemory
    }
}

/// The items of an exported buffer. A thread without the GIL may read them.
struct Items<'a> {
    start: *const u8,
    keys: &'a BufferKeys,
    of: PhantomData<&'a [u8]>,
}

// SAFETY: the pointer is only read, and the borrowed `BufferKeys` keeps the buffer exported.
unsafe impl Send for Items<'_> {}

impl Items<'_> {
    /// Copies the first `out.len()` bytes of item `index`.
    #[inline]
    fn read(&self, index: usize, out: &mut [u8]) {
        debug_assert!(index < self.keys.len && out.len() <= self.keys.item_len_bytes);
        // SAFETY: the exporter of a buffer guarantees `len` items of `item_len_bytes` bytes,
        // `stride` bytes apart, until the buffer is released. (`of_width` divides one contiguous
        // range into items.) README.md forbids other threads to write the items meanwhile. If a
        // thread does so, the copy may have some of the written bytes. The key is then wrong, but
        // every byte value is valid.
        unsafe {
            let at = self.start.offset((index as isize).wrapping_mul(self.keys.stride));
            std::ptr::copy_nonoverlapping(at, out.as_mut_ptr(), out.len());
        }
    }

    /// Calls `each` with the bytes of every key. Stops at the first text that has no UTF-8 form.
    fn for_each(&self, mut each: impl FnMut(&[u8]) -> Result<(), NoMemory>) -> Result<(), Stop> {
        match self.keys.item {
            Item::Int { is_signed, is_swapped } => match self.keys.item_len_bytes {
                1 => self.integers::<1>(is_signed, is_swapped, each),
                2 => self.integers::<2>(is_signed, is_swapped, each),
                4 => self.integers::<4>(is_signed, is_swapped, each),
                _ => self.integers::<8>(is_signed, is_swapped, each),
            },
            Item::Bool => {
                let mut byte = [0];
                for index in 0..self.keys.len {
                    self.read(index, &mut byte);
                    each(&i64::from(byte != [0]).to_le_bytes())?;
                }
                Ok(())
            }
            Item::Padded | Item::Bytes => self.bytes(self.keys.item == Item::Padded, each),
            Item::Text { is_swapped } => self.texts(is_swapped, each),
        }
    }

    /// Returns memory for one item.
    fn room(&self) -> Result<Vec<u8>, NoMemory> {
        let mut room = Vec::new();
        // Without items, the width may be any number.
        let len = if self.keys.len == 0 { 0 } else { self.keys.item_len_bytes };
        room.try_reserve_exact(len)?;
        room.resize(len, 0);
        Ok(room)
    }

    #[inline]
    fn integers<const N: usize>(
        &self,
        is_signed: bool,
        is_swapped: bool,
        mut each: impl FnMut(&[u8]) -> Result<(), NoMemory>,
    ) -> Result<(), Stop> {
        let mut raw = [0; N];
        for index in 0..self.keys.len {
            self.read(index, &mut raw);
            if is_swapped {
                raw.reverse();
            }
            let is_negative = is_signed && raw.last().is_some_and(|&last| last >= 0x80);
            let mut key = if is_negative { [0xff; 8] } else { [0; 8] };
            key.iter_mut().zip(raw).for_each(|(byte, of_raw)| *byte = of_raw);
            each(&key)?;
        }
        Ok(())
    }

    fn bytes(&self, is_padded: bool, mut each: impl FnMut(&[u8]) -> Result<(), NoMemory>) -> Result<(), Stop> {
        let mut key = self.room()?;
        for index in 0..self.keys.len {
            self.read(index, &mut key);
            let padding = if is_padded { key.iter().rev().take_while(|&&byte| byte == 0).count() } else { 0 };
            each(key.get(..key.len() - padding).unwrap_or_default())?;
        }
        Ok(())
    }

    fn texts(&self, is_swapped: bool, mut each: impl FnMut(&[u8]) -> Result<(), NoMemory>) -> Result<(), Stop> {
        let mut raw = self.room()?;
        // A character has 4 bytes in UTF-32, and at most 4 in UTF-8.
        let mut text = String::new();
        text.try_reserve_exact(raw.len()).map_err(NoMemory::from)?;
        for index in 0..self.keys.len {
            self.read(index, &mut raw);
            text.clear();
            let padding = raw.as_chunks::<4>().0.iter().rev().take_while(|word| **word == [0; 4]).count();
            let words = raw.as_chunks::<4>().0;
            for word in words.iter().take(words.len() - padding) {
                let mut word = *word;
                if is_swapped {
                    word.reverse();
                }
                text.push(char::from_u32(u32::from_le_bytes(word)).ok_or(Stop::Text(index))?);
            }
            each(text.as_bytes())?;
        }
        Ok(())
    }
}

/// Exports the buffer of an object. A `memoryview` computes the strides that `ctypes` leaves out.
pub fn exported(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let view = PyMemoryView::from(object)?;
    if view.getattr("ndim")?.extract::<usize>()? == 0 {
        return Err(PyValueError::new_err("the buffer has 0 dimensions, so it is one key; give a list of keys"));
    }
    PyUntypedBuffer::get(&view)
}

/// Returns whether the items of a `memoryview` are bytes.
pub fn is_of_bytes(view: &Bound<'_, PyAny>) -> PyResult<bool> {
    let format: String = view.getattr("format")?.extract()?;
    Ok(BYTES.contains(&format.as_str()) || format == "<c")
}

/// Returns the content of a `bytearray` or a `memoryview`. A subclass may have a method `__bytes__`
/// that returns other bytes.
pub fn content<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyMemoryView::from(object)?.call_method0("tobytes")?.cast_into()?)
}

/// Copies the bytes of a `memoryview` that is one key.
pub fn bytes_of_view<'py>(view: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let buffer = PyUntypedBuffer::get(view)?;
    let format = memory::short(buffer.format().to_string_lossy());
    if !BYTES.contains(&format.as_str()) || buffer.dimensions() != 1 {
        return Err(PyTypeError::new_err(format!(
            "a memoryview is a key only if its items are bytes in one dimension; this view has {} dimension(s) and \
             items of the format {format:?}; use view.tobytes(), or contains_many or update for many keys",
            buffer.dimensions()
        )));
    }
    drop(buffer);
    view.call_method0("tobytes")
}

/// Calls `fill` with the bytes of a new array of NumPy.
pub fn fill(array: &Bound<'_, PyAny>, fill: impl FnOnce(&mut [u8]) -> PyResult<()>) -> PyResult<()> {
    let buffer = PyUntypedBuffer::get(array)?;
    // SAFETY: NumPy has initialized the bytes, and they stay exported. No other code has the new
    // array.
    fill(unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast(), buffer.len_bytes()) })
}
