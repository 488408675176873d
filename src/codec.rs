//! Integers to bytes and back: the only place where that happens. Everything on disk is little endian.

use byteorder::{ByteOrder, LittleEndian};

/// Longest encoding of a 64-bit varint (LEB128: seven bits a byte, lowest first).
pub const MAX_VARINT_LEN_BYTES: usize = 10;

/// A field that is not valid, and where it lies. Each format has fields of its own, and an error made from this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt<F> {
    /// The field.
    pub field: F,
    /// Its offset, from where the cursor's errors count.
    pub offset: u64,
}

/// Reads fields one after the other from bytes that nobody has checked yet.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    offset: u64,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`, whose errors report offsets from `base`.
    #[must_use]
    pub fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { rest: bytes, offset: base }
    }

    /// What has not been read yet.
    #[cfg(feature = "foreign")]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Where the next field lies.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether everything has been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The error that says `field` is not valid at the present place.
    #[must_use]
    pub fn corrupt<F>(&self, field: F) -> Corrupt<F> {
        Corrupt { field, offset: self.offset }
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// `Corrupt` when fewer are left.
    pub fn take<F>(&mut self, len: usize, field: F) -> Result<&'a [u8], Corrupt<F>> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else { return Err(self.corrupt(field)) };
        self.rest = rest;
        // Where reading begins is the caller's word; it is only told in errors.
        self.offset = self.offset.saturating_add(len as u64);
        Ok(taken)
    }

    /// The next `N` bytes, copied.
    ///
    /// # Errors
    /// `Corrupt` when fewer are left.
    pub fn take_array<const N: usize, F>(&mut self, field: F) -> Result<[u8; N], Corrupt<F>> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, field)?);
        Ok(array)
    }

    /// One byte.
    ///
    /// # Errors
    /// `Corrupt` at the end of the bytes.
    pub fn take_u8<F>(&mut self, field: F) -> Result<u8, Corrupt<F>> {
        self.take_array::<1, F>(field).map(|[byte]| byte)
    }

    /// A 32-bit integer.
    ///
    /// # Errors
    /// `Corrupt` at the end of the bytes.
    pub fn take_u32<F>(&mut self, field: F) -> Result<u32, Corrupt<F>> {
        self.take(4, field).map(LittleEndian::read_u32)
    }

    /// A 64-bit integer.
    ///
    /// # Errors
    /// `Corrupt` at the end of the bytes.
    pub fn take_u64<F>(&mut self, field: F) -> Result<u64, Corrupt<F>> {
        self.take(8, field).map(LittleEndian::read_u64)
    }

    /// A 48-bit integer.
    ///
    /// # Errors
    /// `Corrupt` at the end of the bytes.
    pub fn take_u48<F>(&mut self, field: F) -> Result<u64, Corrupt<F>> {
        self.take(6, field).map(LittleEndian::read_u48)
    }

    /// A variable-length integer.
    ///
    /// # Errors
    /// `Corrupt` at the end of the bytes, or when it exceeds 64 bits.
    pub fn take_varint<F: Copy>(&mut self, field: F) -> Result<u64, Corrupt<F>> {
        let mut value = 0u64;
        for (i, &byte) in self.rest.iter().take(MAX_VARINT_LEN_BYTES).enumerate() {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for the last bit only.
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

    /// A variable-length integer that is used as a length or position in memory.
    ///
    /// # Errors
    /// `Corrupt` at the end of the bytes, or when it exceeds the address space.
    pub fn take_varint_usize<F: Copy>(&mut self, field: F) -> Result<usize, Corrupt<F>> {
        let offset = self.offset;
        usize::try_from(self.take_varint(field)?).map_err(|_| Corrupt { field, offset })
    }

    /// A byte string behind its length as a varint.
    ///
    /// # Errors
    /// `Corrupt` when fewer bytes are left than the length says.
    pub fn take_bytes<F: Copy>(&mut self, field: F) -> Result<&'a [u8], Corrupt<F>> {
        let len = self.take_varint_usize(field)?;
        self.take(len, field)
    }
}

/// Appends a 32-bit integer.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    let mut bytes = [0; 4];
    LittleEndian::write_u32(&mut bytes, value);
    out.extend_from_slice(&bytes);
}

/// Appends a 64-bit integer.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&u64_bytes(value));
}

/// Appends a 48-bit integer; `None` if `value` has more bits.
pub fn put_u48(out: &mut Vec<u8>, value: u64) -> Option<()> {
    let [low @ .., 0, 0] = u64_bytes(value) else { return None };
    out.extend_from_slice(&low);
    Some(())
}

/// Appends a variable-length integer.
#[expect(clippy::cast_possible_truncation, reason = "the low seven bits are meant")]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a byte string behind its length as a varint.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The eight bytes of `value`.
#[must_use]
pub fn u64_bytes(value: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    LittleEndian::write_u64(&mut bytes, value);
    bytes
}

/// The sixteen bytes of `value`.
#[must_use]
#[inline]
pub fn u128_bytes(value: u128) -> [u8; 16] {
    let mut bytes = [0; 16];
    LittleEndian::write_u128(&mut bytes, value);
    bytes
}

/// The 128-bit integer in sixteen bytes.
#[must_use]
#[inline]
pub fn u128_from(bytes: &[u8; 16]) -> u128 {
    LittleEndian::read_u128(bytes)
}

/// The two bytes of `value`.
#[must_use]
#[inline]
pub fn u16_bytes(value: u16) -> [u8; 2] {
    let mut bytes = [0; 2];
    LittleEndian::write_u16(&mut bytes, value);
    bytes
}

/// The 16-bit integer at `offset`, if the bytes reach that far.
#[must_use]
#[inline]
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk::<2>().map(|pair| LittleEndian::read_u16(pair))
}

/// The 32-bit integer in four bytes.
#[must_use]
#[inline]
pub fn u32_from(bytes: &[u8; 4]) -> u32 {
    LittleEndian::read_u32(bytes)
}

/// The 64-bit integer in eight bytes.
#[must_use]
#[inline]
pub fn u64_from(bytes: &[u8; 8]) -> u64 {
    LittleEndian::read_u64(bytes)
}

/// The 32-bit integer at `offset`, if the bytes reach that far.
#[must_use]
#[inline]
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(u32_from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length_survive_and_longer_ones_are_refused() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                let mut cursor = Cursor::new(&bytes, 0);
                assert_eq!(cursor.take_varint("varint").unwrap(), value);
                assert!(cursor.is_empty());
                bytes.pop();
                assert!(Cursor::new(&bytes, 0).take_varint("varint").is_err());
            }
        }
        assert!(Cursor::new(&[0xff; 11], 0).take_varint("varint").is_err());
        let too_big = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02];
        assert!(Cursor::new(&too_big, 0).take_varint("varint").is_err());
    }

    #[test]
    fn an_error_names_the_offset_where_the_field_was_wanted() {
        let mut cursor = Cursor::new(&[1, 2, 3, 4, 5], 100);
        cursor.take_u32("seed").unwrap();
        let error = cursor.take_u32("kind").unwrap_err();
        assert_eq!(error, Corrupt { field: "kind", offset: 104 });
    }
}
