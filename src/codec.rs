//! Encodes and decodes integers and byte strings, and computes CRC-32 checksums (IEEE 802.3, reflected
//! polynomial 0xEDB88320). Integers are little-endian or varints. Only [`u64_big_at`] is big-endian.

use byteorder::{BigEndian, ByteOrder, LittleEndian};

/// The maximum length of a 64-bit varint. Varints are LEB128: seven bits per byte, the lowest bits
/// first.
pub const MAX_VARINT_LEN_BYTES: usize = 10;

/// An invalid field and its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt<F> {
    /// The field.
    pub field: F,
    /// The offset of the invalid part of the field: the base of the cursor plus the bytes read
    /// before this part.
    pub offset: u64,
}

/// Reads fields one after the other from unverified bytes.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    offset: u64,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `bytes`. `base` is the offset of `bytes` in the block or
    /// file, so errors report offsets in the block or file.
    #[must_use]
    pub fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { rest: bytes, offset: base }
    }

    /// Returns the bytes that have not been read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the offset of the next field: the base plus the bytes read so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns whether all bytes have been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns an error that reports `field` as invalid at the current offset.
    #[must_use]
    pub fn corrupt<F>(&self, field: F) -> Corrupt<F> {
        Corrupt { field, offset: self.offset }
    }

    /// Reads the next `len` bytes.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if fewer than `len` bytes are left.
    pub fn take<F>(&mut self, len: usize, field: F) -> Result<&'a [u8], Corrupt<F>> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else { return Err(self.corrupt(field)) };
        self.rest = rest;
        // The addition saturates, because the caller may pass any base.
        self.offset = self.offset.saturating_add(len as u64);
        Ok(taken)
    }

    /// Reads the next `N` bytes into an array.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if fewer than `N` bytes are left.
    pub fn take_array<const N: usize, F>(&mut self, field: F) -> Result<[u8; N], Corrupt<F>> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, field)?);
        Ok(array)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if no byte is left.
    pub fn take_u8<F>(&mut self, field: F) -> Result<u8, Corrupt<F>> {
        self.take_array::<1, F>(field).map(|[byte]| byte)
    }

    /// Reads a 32-bit integer.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if fewer than 4 bytes are left.
    pub fn take_u32<F>(&mut self, field: F) -> Result<u32, Corrupt<F>> {
        self.take(4, field).map(LittleEndian::read_u32)
    }

    /// Reads a 64-bit integer.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if fewer than 8 bytes are left.
    pub fn take_u64<F>(&mut self, field: F) -> Result<u64, Corrupt<F>> {
        self.take(8, field).map(LittleEndian::read_u64)
    }

    /// Reads a varint.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the varint is truncated or has more than 10 bytes, or if its value
    /// has more than 64 bits.
    pub fn take_varint<F: Copy>(&mut self, field: F) -> Result<u64, Corrupt<F>> {
        let mut value = 0u64;
        for (i, &byte) in self.rest.iter().take(MAX_VARINT_LEN_BYTES).enumerate() {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte holds only the highest bit of the value.
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
    /// Returns the errors of [`Cursor::take_varint`], and [`Corrupt`] if the value exceeds the
    /// address space.
    pub fn take_varint_usize<F: Copy>(&mut self, field: F) -> Result<usize, Corrupt<F>> {
        let offset = self.offset;
        usize::try_from(self.take_varint(field)?).map_err(|_| Corrupt { field, offset })
    }

    /// Reads the length of a byte string as a varint, then the byte string.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the length is not a valid varint, or if fewer bytes are left than the
    /// length states.
    pub fn take_bytes<F: Copy>(&mut self, field: F) -> Result<&'a [u8], Corrupt<F>> {
        let len = self.take_varint_usize(field)?;
        self.take(len, field)
    }
}

/// Appends a 32-bit integer.
#[inline]
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    let mut bytes = [0; 4];
    LittleEndian::write_u32(&mut bytes, value);
    out.extend_from_slice(&bytes);
}

/// Appends a 64-bit integer.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&u64_bytes(value));
}

/// Appends a 48-bit integer. Returns `None` and appends nothing if `value` has more than 48 bits.
#[inline]
pub fn put_u48(out: &mut Vec<u8>, value: u64) -> Option<()> {
    let [low @ .., 0, 0] = u64_bytes(value) else { return None };
    out.extend_from_slice(&low);
    Some(())
}

/// Appends a varint.
#[expect(clippy::cast_possible_truncation, reason = "the low seven bits are meant")]
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of a byte string as a varint, then the byte string.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Returns the eight bytes of `value`.
#[must_use]
#[inline]
pub fn u64_bytes(value: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    LittleEndian::write_u64(&mut bytes, value);
    bytes
}

/// Returns the sixteen bytes of `value`.
#[must_use]
#[inline]
pub fn u128_bytes(value: u128) -> [u8; 16] {
    let mut bytes = [0; 16];
    LittleEndian::write_u128(&mut bytes, value);
    bytes
}

/// Decodes a 128-bit integer from sixteen bytes.
#[must_use]
#[inline]
pub fn u128_from(bytes: &[u8; 16]) -> u128 {
    LittleEndian::read_u128(bytes)
}

/// Returns the two bytes of `value`.
#[must_use]
#[inline]
pub fn u16_bytes(value: u16) -> [u8; 2] {
    let mut bytes = [0; 2];
    LittleEndian::write_u16(&mut bytes, value);
    bytes
}

/// Decodes the 16-bit integer at `offset`. Returns `None` if the bytes end before the integer does.
#[must_use]
#[inline]
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk::<2>().map(|pair| LittleEndian::read_u16(pair))
}

/// Decodes a 32-bit integer from four bytes.
#[must_use]
#[inline]
pub fn u32_from(bytes: &[u8; 4]) -> u32 {
    LittleEndian::read_u32(bytes)
}

/// Decodes a 64-bit integer from eight bytes.
#[must_use]
#[inline]
pub fn u64_from(bytes: &[u8; 8]) -> u64 {
    LittleEndian::read_u64(bytes)
}

/// Decodes the 32-bit integer at `offset`. Returns `None` if the bytes end before the integer does.
#[must_use]
#[inline]
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(u32_from)
}

/// Decodes the big-endian 64-bit integer at `offset`. Returns `None` if the bytes end before the
/// integer does.
#[must_use]
#[inline]
pub fn u64_big_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk::<8>().map(|word| BigEndian::read_u64(word))
}

/// A running CRC-32.
#[derive(Debug, Clone, Default)]
pub struct Crc32(crc32fast::Hasher);

impl Crc32 {
    /// Returns the running checksum of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a running checksum that continues after earlier bytes. `checksum` is the CRC-32 of
    /// the earlier bytes.
    #[must_use]
    pub fn continuing(checksum: u32) -> Self {
        Self(crc32fast::Hasher::new_with_initial(checksum))
    }

    /// Extends the checksum by `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the running checksum extended by `bytes`.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        self.update(bytes);
        self
    }

    /// Returns the CRC-32 of all bytes.
    #[must_use]
    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}

/// Returns the CRC-32 of `bytes`.
#[must_use]
#[inline]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_longer_ones_are_refused() {
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
    fn an_error_names_the_offset_of_the_missing_field() {
        let mut cursor = Cursor::new(&[1, 2, 3, 4, 5], 100);
        cursor.take_u32("seed").unwrap();
        let error = cursor.take_u32("kind").unwrap_err();
        assert_eq!(error, Corrupt { field: "kind", offset: 104 });
    }

    #[test]
    fn crc32_matches_the_check_value_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
