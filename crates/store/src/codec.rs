//! Encodes and decodes the integers and byte strings of the file formats, and computes order
//! prefixes of keys. Integers of a fixed length are little-endian on disk.

use byteorder::{ByteOrder, LittleEndian};

use crate::error::{Error, Field, Result};

/// The maximum length of a varint: a 64-bit integer in LEB128, with seven bits per byte, lowest
/// bits first.
pub const MAX_VARINT_LEN_BYTES: usize = 10;

/// Reads fields one after the other from bytes that may be malformed.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    offset: u64,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `bytes`. Its errors report `base` plus the position in
    /// `bytes` as the offset.
    #[must_use]
    pub fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { rest: bytes, offset: base }
    }

    /// Returns the unread bytes.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the offset of the next unread byte: the base plus the number of bytes read.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns whether all bytes are read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns [`Error::Corrupt`] for `field` at the current offset.
    #[must_use]
    pub fn corrupt(&self, field: Field) -> Error {
        Error::Corrupt { field, offset: self.offset }
    }

    /// Reads the next `len` bytes.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if fewer than `len` bytes are left.
    pub fn take(&mut self, len: usize, field: Field) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else { return Err(self.corrupt(field)) };
        self.rest = rest;
        // The sum overflows only if the base is not an offset in a real file. A wrong offset is
        // harmless then.
        self.offset = self.offset.saturating_add(len as u64);
        Ok(taken)
    }

    /// Reads the next `N` bytes into an array.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if fewer than `N` bytes are left.
    pub fn take_array<const N: usize>(&mut self, field: Field) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, field)?);
        Ok(array)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if no byte is left.
    pub fn take_u8(&mut self, field: Field) -> Result<u8> {
        self.take_array::<1>(field).map(|[byte]| byte)
    }

    /// Reads a 32-bit integer.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if fewer than four bytes are left.
    pub fn take_u32(&mut self, field: Field) -> Result<u32> {
        self.take(4, field).map(LittleEndian::read_u32)
    }

    /// Reads a 64-bit integer.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if fewer than eight bytes are left.
    pub fn take_u64(&mut self, field: Field) -> Result<u64> {
        self.take(8, field).map(LittleEndian::read_u64)
    }

    /// Reads a varint.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the bytes end within the integer, or if the integer exceeds 64
    /// bits.
    pub fn take_varint(&mut self, field: Field) -> Result<u64> {
        let mut value = 0u64;
        for (i, &byte) in self.rest.iter().take(MAX_VARINT_LEN_BYTES).enumerate() {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte carries only the highest bit.
            if i == MAX_VARINT_LEN_BYTES - 1 && bits > 1 {
                break;
            }
            value |= bits << (7 * i);
            if byte & 0x80 == 0 {
                self.take(i + 1, field)?;
                return Ok(value);
            }
        }
        Err(self.corrupt(field))
    }

    /// Reads a varint that is a length or a position in memory.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the bytes end within the integer, or if the integer exceeds
    /// the address space.
    pub fn take_varint_usize(&mut self, field: Field) -> Result<usize> {
        let offset = self.offset;
        usize::try_from(self.take_varint(field)?).map_err(|_| Error::Corrupt { field, offset })
    }

    /// Reads a length (a varint), then that many bytes, and returns the bytes.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the length is malformed, or if fewer bytes are left than the
    /// length says.
    pub fn take_bytes(&mut self, field: Field) -> Result<&'a [u8]> {
        let len = self.take_varint_usize(field)?;
        self.take(len, field)
    }
}

/// Appends a 32-bit integer to `out`: four bytes.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    let mut bytes = [0; 4];
    LittleEndian::write_u32(&mut bytes, value);
    out.extend_from_slice(&bytes);
}

/// Appends a 64-bit integer to `out`: eight bytes.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&u64_bytes(value));
}

/// Appends a varint to `out`: one to ten bytes.
#[expect(clippy::cast_possible_truncation, reason = "only the low seven bits are written")]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the number of bytes that [`put_varint`] appends.
pub fn varint_len_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Appends the length of `bytes` to `out` as a varint, then `bytes`.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Encodes a 64-bit integer.
#[must_use]
pub fn u64_bytes(value: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    LittleEndian::write_u64(&mut bytes, value);
    bytes
}

/// Decodes a 32-bit integer.
#[must_use]
#[inline]
pub fn u32_from(bytes: &[u8; 4]) -> u32 {
    LittleEndian::read_u32(bytes)
}

/// Decodes a 64-bit integer.
#[must_use]
#[inline]
pub fn u64_from(bytes: &[u8; 8]) -> u64 {
    LittleEndian::read_u64(bytes)
}

/// Decodes the 32-bit integer at `offset`, or returns `None` if fewer than four bytes are left
/// there.
#[must_use]
#[inline]
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(u32_from)
}

/// Returns the first eight bytes of `key` as an integer that sorts like the bytes. A shorter key is
/// padded with zeros.
///
/// `order_prefix(a) < order_prefix(b)` implies `a < b`. Equal prefixes do not decide the order.
#[must_use]
#[inline]
pub fn order_prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64_from(head).swap_bytes(),
        None => key.iter().enumerate().fold(0, |prefix, (i, &byte)| prefix | u64::from(byte) << (56 - 8 * i)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length_survive_and_longer_ones_fail() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                let mut cursor = Cursor::new(&bytes, 0);
                assert_eq!(cursor.take_varint(Field::Varint).unwrap(), value);
                assert!(cursor.is_empty());
                bytes.pop();
                assert!(Cursor::new(&bytes, 0).take_varint(Field::Varint).is_err());
            }
        }
        assert!(Cursor::new(&[0xff; 11], 0).take_varint(Field::Varint).is_err());
        let too_big = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02];
        assert!(Cursor::new(&too_big, 0).take_varint(Field::Varint).is_err());
    }

    #[test]
    fn an_error_names_the_offset_of_the_missing_field() {
        let mut cursor = Cursor::new(&[1, 2, 3, 4, 5], 100);
        cursor.take_u32(Field::Seed).unwrap();
        let error = cursor.take_u32(Field::Level).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field: Field::Level, offset: 104 }), "{error}");
    }

    #[test]
    fn order_prefixes_sort_like_the_keys() {
        let keys: [&[u8]; 8] =
            [b"", b"\0", b"a", b"a\0", b"ab", b"abcdefgh", b"abcdefghi", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"];
        for pair in keys.windows(2) {
            assert!(order_prefix(pair[0]) <= order_prefix(pair[1]));
        }
        assert_eq!(order_prefix(b"\x01\x02"), 0x0102_0000_0000_0000);
    }
}
