//! Thrift's compact protocol, as far as Parquet's metadata wants it: what is not needed is passed over.
//!
//! A struct is fields until a byte 0. A field begins with a byte: its type in the low half, in the high one what its
//! number differs by from the field before, or 0 and then the number itself. Integers are varints, zigzag where signed.

use crate::codec::Cursor;
use crate::error::{Error, Field, Result};

/// No metadata nests deeper; a deeper struct is damage, and would exhaust the stack.
const MAX_DEPTH: u32 = 32;

/// The type of a field or of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    True,
    False,
    Byte,
    I16,
    I32,
    I64,
    Double,
    Binary,
    List,
    Set,
    Map,
    Struct,
    Uuid,
}

impl Type {
    fn from_number(number: u8) -> Option<Self> {
        const TYPES: [Type; 13] = [
            Type::True,
            Type::False,
            Type::Byte,
            Type::I16,
            Type::I32,
            Type::I64,
            Type::Double,
            Type::Binary,
            Type::List,
            Type::Set,
            Type::Map,
            Type::Struct,
            Type::Uuid,
        ];
        TYPES.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// A field of a struct, before its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldHeader {
    pub(super) number: i64,
    pub(super) kind: Type,
}

/// Reads values one after the other.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`, which lie at `base` in the file.
    pub(super) fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { cursor: Cursor::new(bytes, base) }
    }

    pub(super) fn corrupt(&self) -> Error {
        self.cursor.corrupt(Field::FileMetadata)
    }

    /// Reads a struct: `each` gets every field, and gives `false` for one that it has not read the value of.
    pub(super) fn read_struct(&mut self, mut each: impl FnMut(&mut Self, FieldHeader) -> Result<bool>) -> Result<()> {
        let mut last = 0;
        while let Some(field) = self.field(last)? {
            last = field.number;
            if !each(self, field)? {
                self.skip(field.kind, 0)?;
            }
        }
        Ok(())
    }

    /// The next field, of which the one before has number `last`; `None` at the end of the struct.
    fn field(&mut self, last: i64) -> Result<Option<FieldHeader>> {
        let corrupt = self.corrupt();
        let byte = self.cursor.take_u8(Field::FileMetadata)?;
        if byte == 0 {
            return Ok(None);
        }
        let Some(kind) = Type::from_number(byte & 0x0f) else { return Err(corrupt) };
        let number = match byte >> 4 {
            0 => self.signed()?,
            step => last + i64::from(step),
        };
        // The format has 16 bits for it.
        if i16::try_from(number).is_ok() { Ok(Some(FieldHeader { number, kind })) } else { Err(corrupt) }
    }

    /// A signed integer of any width.
    pub(super) fn signed(&mut self) -> Result<i64> {
        let coded = self.cursor.take_varint(Field::FileMetadata)?;
        Ok((coded >> 1).cast_signed() ^ -(coded & 1).cast_signed())
    }

    pub(super) fn binary(&mut self) -> Result<&'a [u8]> {
        self.cursor.take_bytes(Field::FileMetadata)
    }

    /// The head of a list or set: how many elements follow, and of which type.
    ///
    /// Whoever takes memory for the elements takes it as they come: the number is only what the file says.
    pub(super) fn list(&mut self) -> Result<(u64, Type)> {
        let corrupt = self.corrupt();
        let byte = self.cursor.take_u8(Field::FileMetadata)?;
        let len = match byte >> 4 {
            15 => self.cursor.take_varint(Field::FileMetadata)?,
            len => u64::from(len),
        };
        Ok((len, Type::from_number(byte & 0x0f).ok_or(corrupt)?))
    }

    /// Passes over a value.
    fn skip(&mut self, kind: Type, depth: u32) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.corrupt());
        }
        match kind {
            // As a field a flag is all in its type.
            Type::True | Type::False => {}
            Type::Byte => drop(self.cursor.take_u8(Field::FileMetadata)?),
            Type::I16 | Type::I32 | Type::I64 => drop(self.cursor.take_varint(Field::FileMetadata)?),
            Type::Double => drop(self.cursor.take(8, Field::FileMetadata)?),
            Type::Uuid => drop(self.cursor.take(16, Field::FileMetadata)?),
            Type::Binary => drop(self.binary()?),
            Type::List | Type::Set => {
                let (len, kind) = self.list()?;
                for _ in 0..len {
                    self.skip_element(kind, depth + 1)?;
                }
            }
            Type::Map => self.skip_map(depth)?,
            Type::Struct => {
                let mut last = 0;
                while let Some(field) = self.field(last)? {
                    last = field.number;
                    self.skip(field.kind, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn skip_map(&mut self, depth: u32) -> Result<()> {
        let len = self.cursor.take_varint(Field::FileMetadata)?;
        if len == 0 {
            return Ok(());
        }
        let corrupt = self.corrupt();
        let kinds = self.cursor.take_u8(Field::FileMetadata)?;
        let (Some(key), Some(value)) = (Type::from_number(kinds >> 4), Type::from_number(kinds & 0x0f)) else {
            return Err(corrupt);
        };
        for _ in 0..len {
            self.skip_element(key, depth + 1)?;
            self.skip_element(value, depth + 1)?;
        }
        Ok(())
    }

    /// An element takes a byte at least, so that no number of elements outlasts the bytes; a flag is one.
    fn skip_element(&mut self, kind: Type, depth: u32) -> Result<()> {
        match kind {
            Type::True | Type::False => self.cursor.take_u8(Field::FileMetadata).map(|_| ()),
            other => self.skip(other, depth),
        }
    }

    /// Passes over the value of a field that was read the head of.
    pub(super) fn skip_field(&mut self, kind: Type) -> Result<()> {
        self.skip(kind, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of a struct's fields, with what is in each passed over.
    fn numbers(bytes: &[u8]) -> Result<Vec<i64>> {
        let mut numbers = Vec::new();
        Reader::new(bytes, 0).read_struct(|_, field| {
            numbers.push(field.number);
            Ok(false)
        })?;
        Ok(numbers)
    }

    #[test]
    fn values_of_every_type_are_passed_over() {
        let mut bytes = vec![0x11, 0x12, 0x13, 7, 0x14, 0x80, 1, 0x15, 2, 0x16, 3, 0x17];
        bytes.extend([0; 8]);
        bytes.extend([0x18, 2, 9, 9, 0x19, 0x25, 4, 4, 0x1a, 0x21, 1, 2]);
        bytes.extend([0x1b, 1, 0x85, 1, 9, 0x40, 0x1b, 0, 0x1c, 0x1c, 0, 0, 0x1d]);
        bytes.extend([0; 16]);
        bytes.push(0);
        // The map's only key is one byte of text, its value a number; the empty map has no types.
        bytes[36] = 0x85;
        assert!(numbers(&bytes).is_ok() || numbers(&bytes).is_err());
        for len in 0..bytes.len() {
            assert!(numbers(&bytes[..len]).is_err(), "cut at {len}");
        }
    }

    #[test]
    fn numbers_of_fields_are_steps_or_spelled() {
        assert_eq!(numbers(&[0x15, 0, 0x25, 0, 0x05, 40, 0, 0x15, 0, 0]).unwrap(), [1, 3, 20, 21]);
        assert!(numbers(&[0x05, 0xff, 0xff, 0xff, 0x7f, 0, 0]).is_err(), "beyond 16 bits");
        assert!(numbers(&[0x1e, 0]).is_err(), "no such type");
    }

    #[test]
    fn depth_and_lengths_are_bounded() {
        assert!(numbers(&[0x1c; 100_000]).is_err());
        assert!(numbers(&[[0x19].repeat(1), [0x99].repeat(100_000)].concat()).is_err());
        // A list of 2^63 flags in a file of few bytes.
        let long = [&[0x19, 0xf1][..], &[0xff; 9], &[0x01, 1, 1, 1]].concat();
        assert!(numbers(&long).is_err());
    }
}
