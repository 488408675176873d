//! Reads Thrift's compact protocol, the encoding of Parquet's metadata.
//!
//! A struct is a sequence of fields, then a zero byte. A field is one byte, then its value. The
//! byte holds the difference to the previous field number (4 bits) and the type (4 bits). If the
//! difference does not fit, it is 0, and the field number follows the byte. A Boolean field has no
//! value bytes.

use filterblock::internals::codec::Cursor;
use filterblock_foreign::{Error, Field, Result};

/// The maximum nesting depth of a skipped value. Parquet's own metadata have a depth below ten.
const MAX_DEPTH: u32 = 32;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// A flag. In a field, the type code contains its value. In a list or map, its value is a byte.
    Bool(bool),
    I8,
    /// An integer of 16, 32 or 64 bits. All are varints.
    Int,
    Double,
    Binary,
    /// A list or a set.
    List,
    Map,
    Struct,
    Uuid,
}

impl Type {
    fn new(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Bool(true),
            2 => Self::Bool(false),
            3 => Self::I8,
            4..=6 => Self::Int,
            7 => Self::Double,
            8 => Self::Binary,
            9 | 10 => Self::List,
            11 => Self::Map,
            12 => Self::Struct,
            13 => Self::Uuid,
            _ => return None,
        })
    }
}

/// Reads values one after the other.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    cursor: Cursor<'a>,
    /// The part of the file that errors name.
    part: Field,
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`, which begin at offset `base` of the file. Errors name `part`.
    pub(super) fn new(bytes: &'a [u8], base: u64, part: Field) -> Self {
        Self { cursor: Cursor::new(bytes, base), part }
    }

    /// Returns the file offset of the next value.
    pub(super) fn offset(&self) -> u64 {
        self.cursor.offset()
    }

    /// Returns `Corrupt` with the offset of the next value.
    pub(super) fn corrupt(&self) -> Error {
        self.cursor.corrupt(self.part).into()
    }

    /// Returns the number and the type of the next field, or `None` at the end of the struct.
    /// `last` is the number of the previous field, and the method sets it to the number of the next
    /// field.
    pub(super) fn field(&mut self, last: &mut i16) -> Result<Option<(i16, Type)>> {
        let byte = self.cursor.take_u8(self.part)?;
        if byte == 0 {
            return Ok(None);
        }
        let number = match byte >> 4 {
            0 => i16::try_from(self.int()?).ok(),
            delta => last.checked_add(delta.into()),
        };
        let (Some(number), Some(kind)) = (number, Type::new(byte & 15)) else { return Err(self.corrupt()) };
        *last = number;
        Ok(Some((number, kind)))
    }

    /// Reads a [`Type::Int`]: a zigzag varint, whose lowest bit is the sign.
    pub(super) fn int(&mut self) -> Result<i64> {
        let zigzag = self.cursor.take_varint(self.part)?;
        Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    /// Reads the length of a byte string or text, and then its bytes.
    pub(super) fn binary(&mut self) -> Result<&'a [u8]> {
        Ok(self.cursor.take_bytes(self.part)?)
    }

    /// Returns the number of elements in a list of structs. The number may be false, so the caller
    /// must allocate memory for an element only after it has read the element.
    pub(super) fn structs(&mut self) -> Result<usize> {
        match self.list()? {
            (Type::Struct, len) => Ok(len),
            (_, 0) => Ok(0),
            _ => Err(self.corrupt()),
        }
    }

    /// Reads the head of a list, and returns the type and the number of its elements. It does not
    /// check that this number of elements fits in the remaining bytes.
    pub(super) fn list(&mut self) -> Result<(Type, usize)> {
        let byte = self.cursor.take_u8(self.part)?;
        if byte == 0 {
            // fastparquet writes empty lists without a type. The type returned here has no meaning.
            return Ok((Type::Bool(false), 0));
        }
        let kind = Type::new(byte & 15).ok_or_else(|| self.corrupt())?;
        let len = match byte >> 4 {
            15 => self.cursor.take_varint_usize(self.part)?,
            len => len.into(),
        };
        Ok((kind, len))
    }

    /// Skips the value of a field.
    pub(super) fn skip(&mut self, kind: Type) -> Result<()> {
        match kind {
            Type::Bool(_) => Ok(()),
            _ => self.skip_element(kind, MAX_DEPTH),
        }
    }

    /// Skips `len` bytes.
    fn pass(&mut self, len: usize) -> Result<()> {
        self.cursor.take(len, self.part)?;
        Ok(())
    }

    /// Skips a value. Each element of a list or map takes at least one byte. So even with a false
    /// number of elements, the loop ends at the end of the bytes at the latest.
    fn skip_element(&mut self, kind: Type, depth: u32) -> Result<()> {
        let deeper = depth.checked_sub(1).ok_or_else(|| self.corrupt())?;
        match kind {
            Type::Bool(_) | Type::I8 => self.pass(1),
            Type::Int => self.int().map(drop),
            Type::Double => self.pass(8),
            Type::Uuid => self.pass(16),
            Type::Binary => self.binary().map(drop),
            Type::List => {
                let (kind, len) = self.list()?;
                (0..len).try_for_each(|_| self.skip_element(kind, deeper))
            }
            Type::Map => {
                let len = self.cursor.take_varint_usize(self.part)?;
                if len == 0 {
                    return Ok(());
                }
                let kinds = self.cursor.take_u8(self.part)?;
                let (Some(key), Some(value)) = (Type::new(kinds >> 4), Type::new(kinds & 15)) else {
                    return Err(self.corrupt());
                };
                (0..len).try_for_each(|_| {
                    self.skip_element(key, deeper)?;
                    self.skip_element(value, deeper)
                })
            }
            Type::Struct => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    if !matches!(kind, Type::Bool(_)) {
                        self.skip_element(kind, deeper)?;
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader<'_> {
        Reader::new(bytes, 100, Field::FilterHeader)
    }

    #[test]
    fn fields_of_every_type_are_skipped() {
        // A flag, a byte, an integer, a double, a text, a list of two flags, a list of twenty
        // integers, a map, an empty map, a struct in a struct, a UUID, and an integer with the
        // field number 1000.
        let mut bytes =
            vec![0x11, 0x13, 7, 0x15, 0x80, 0x01, 0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0x18, 2, b'a', b'b', 0x19, 0x21, 1];
        bytes.extend([2, 0x19, 0xf5, 20]);
        bytes.extend([1; 20]);
        bytes.extend([0x1b, 1, 0x58, 3, 1, b'x', 0x1b, 0, 0x1c, 0x1c, 0, 0, 0x1d]);
        bytes.extend([0; 16]);
        bytes.extend([0x05, 0xd0, 0x0f, 42, 0]);
        let mut reader = reader(&bytes);
        let (mut last, mut seen) = (0, Vec::new());
        while let Some((number, kind)) = reader.field(&mut last).unwrap() {
            seen.push(number);
            reader.skip(kind).unwrap();
        }
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1000]);
        assert_eq!(reader.offset(), 100 + bytes.len() as u64);
        for len in 0..bytes.len() {
            let mut cut = Reader::new(&bytes[..len], 0, Field::FilterHeader);
            assert!(cut.skip(Type::Struct).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn an_empty_list_needs_no_type() {
        assert!(matches!(reader(&[0]).list(), Ok((_, 0))));
        reader(&[0]).skip(Type::List).unwrap();
        // A list of one element needs a type. So does a list whose number of elements is a varint,
        // even if that number is 0.
        for bytes in [&[0x10, 0][..], &[0xf0, 1, 0], &[0xf0, 0]] {
            assert!(reader(bytes).list().is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn integers_have_their_sign_in_the_lowest_bit() {
        for (bytes, expected) in [(&[0][..], 0), (&[1], -1), (&[2], 1), (&[0x80, 0x01], 64)] {
            assert_eq!(reader(bytes).int().unwrap(), expected);
        }
        let extreme = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(reader(&extreme).int().unwrap(), i64::MIN);
    }

    #[test]
    fn values_nested_too_deeply_or_without_end_are_an_error() {
        assert!(reader(&[0x1c; 1000]).skip(Type::Struct).is_err(), "structs in structs");
        assert!(reader(&[0x19; 1000]).skip(Type::List).is_err(), "lists in lists");
        let endless = [0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1];
        assert!(reader(&endless).skip(Type::List).is_err(), "2^64 - 1 flags");
        assert!(reader(&[0x1e]).field(&mut 0).is_err(), "no such type");
        assert!(reader(&[0x15]).field(&mut { i16::MAX }).is_err(), "no such number");
    }
}
