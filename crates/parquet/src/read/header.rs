//! Reads and writes the header of a Parquet Bloom filter: the length of the bits, and three unions
//! with one member each.

use super::thrift::{Reader, Type};
use filterblock::internals::codec::put_varint;
use filterblock_foreign::{Error, Field, Result};

/// The length of a block. The bits of a filter are whole blocks.
pub(super) const BLOCK_LEN_BYTES: usize = 32;

/// The bytes of a header after the length: three unions, each with an empty struct as its first
/// field, and the end byte of the header.
const UNIONS: [u8; 13] = [0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0];
/// The byte before the length: field 1, type i32.
const LEN_FIELD: u8 = 0x15;

/// The number of the supported member in each union: split blocks, XXH64, uncompressed.
const KNOWN: i16 = 1;

/// Reads the header at the start of `bytes`. Returns the bits after the header, and the length of
/// the header. Ignores the bytes after the bits.
pub(super) fn parse(bytes: &[u8]) -> Result<(&[u8], usize)> {
    let (header_len, bits_len) = lengths(bytes)?;
    let bits = bytes.get(header_len..).and_then(|rest| rest.get(..bits_len));
    bits.map(|bits| (bits, header_len)).ok_or(Error::Corrupt { field: Field::PayloadLen, offset: 0 })
}

/// Returns two lengths in bytes: of the header at the start of `bytes`, and of the bits after the
/// header. The bits have one or more whole blocks and less than 2 GiB.
pub(super) fn lengths(bytes: &[u8]) -> Result<(usize, usize)> {
    let mut reader = Reader::new(bytes, 0, Field::FilterHeader);
    let (mut last, mut len, mut unions) = (0, None, [None; 3]);
    // Readers differ in which of two fields with one number they use.
    let mut is_twice = false;
    while let Some((number, kind)) = reader.field(&mut last)? {
        let union = number.checked_sub(2).and_then(|i| unions.get_mut(usize::try_from(i).ok()?));
        match (number, kind, union) {
            (1, Type::Int, _) => is_twice |= len.replace(reader.int()?).is_some(),
            (_, Type::Struct, Some(union)) => is_twice |= union.replace(member(&mut reader)?).is_some(),
            _ => reader.skip(kind)?,
        }
    }
    if is_twice {
        return Err(reader.corrupt());
    }
    for (union, field) in unions.into_iter().zip([Field::Kind, Field::HashId, Field::FilterCompression]) {
        match union {
            Some(KNOWN) => {}
            Some(found) => return Err(Error::Unsupported { field, found: found.cast_unsigned().into() }),
            None => return Err(reader.corrupt()),
        }
    }
    let header_len = usize::try_from(reader.offset()).map_err(|_| reader.corrupt())?;
    let whole = |len: &usize| *len > 0 && len.is_multiple_of(BLOCK_LEN_BYTES);
    let bits_len = len
        // The format stores the length as a signed 32-bit integer.
        .and_then(|len| i32::try_from(len).ok())
        .and_then(|len| usize::try_from(len).ok())
        .filter(whole);
    bits_len.map(|bits_len| (header_len, bits_len)).ok_or(Error::Corrupt { field: Field::PayloadLen, offset: 0 })
}

/// Reads a union, which has exactly one member. Returns the number of the member, and skips its
/// value.
fn member(reader: &mut Reader<'_>) -> Result<i16> {
    let (mut last, mut found) = (0, None);
    while let Some((number, kind)) = reader.field(&mut last)? {
        reader.skip(kind)?;
        if found.replace(number).is_some() {
            return Err(reader.corrupt());
        }
    }
    found.ok_or_else(|| reader.corrupt())
}

/// Returns the header for bits of this length.
pub(super) fn encode(bits_len_bytes: usize) -> Vec<u8> {
    let mut header = vec![LEN_FIELD];
    put_varint(&mut header, bits_len_bytes as u64 * 2);
    header.extend_from_slice(&UNIONS);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_bytes_of_the_format_and_round_trip() {
        assert_eq!(encode(32)[..2], [0x15, 0x40]);
        for (len, header_len) in [(32, 15), (64, 16), (4096, 16), (8192, 17), ((1 << 20) - 32, 17), (1 << 20, 18)] {
            let mut bytes = encode(len);
            assert_eq!(bytes.len(), header_len, "{len}");
            bytes.resize(header_len + len + 7, 0xab);
            let (bits, found) = parse(&bytes).unwrap();
            assert_eq!((bits.len(), found), (len, header_len));
            assert_eq!(lengths(&bytes[..header_len]).unwrap(), (header_len, len));
            assert!(parse(&bytes[..header_len + len - 1]).is_err(), "a byte short");
        }
    }

    #[test]
    fn a_header_with_other_values_is_an_error() {
        let with = |at: usize, byte: u8| {
            let mut bytes = [encode(32), vec![0; 32]].concat();
            bytes[at] = byte;
            bytes
        };
        for len in [0u8, 2, 62, 66, 0x41] {
            let error = parse(&with(1, len)).unwrap_err();
            assert!(matches!(error, Error::Corrupt { field: Field::PayloadLen, .. }), "{len}: {error}");
        }
        for (at, field) in [(3, Field::Kind), (7, Field::HashId), (11, Field::FilterCompression)] {
            let error = parse(&with(at, 0x2c)).unwrap_err();
            assert!(matches!(error, Error::Unsupported { field: found, found: 2 } if found == field), "{error}");
        }
        for at in 0..15 {
            for byte in 0..=255 {
                // No byte causes a panic or another length of the bits.
                if let Ok((bits, _)) = parse(&with(at, byte)) {
                    assert_eq!(bits.len(), 32, "{at}: {byte:#x}");
                }
            }
        }
        // A second length, and a second algorithm.
        for field in [&[0x05, 0x02, 0x40][..], &[0x0c, 0x04, 0x1c, 0, 0]] {
            let twice = [&encode(32)[..14], field, &[0; 33]].concat();
            assert!(parse(&twice).is_err(), "{field:x?}");
        }
        // Unknown fields are skipped, even those with the largest and the smallest number.
        for field in [&[0x15, 8][..], &[5, 0xff, 0xff, 3, 8], &[5, 0xfe, 0xff, 3, 8]] {
            let longer = [&encode(32)[..14], field, &[0; 33]].concat();
            assert_eq!(parse(&longer).unwrap().1, 15 + field.len(), "{field:x?}");
        }
    }
}
