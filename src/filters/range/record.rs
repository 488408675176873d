//! Writes the parameters of a range filter to the record in the extension, reads them again, and
//! checks them against the payload's length.

use std::fmt;

use super::SCAN_CELLS;
use super::codes::Codes;
use super::elias_fano::EliasFano;
use super::mapping::{MAX_BITS, Mapping};
use crate::codec::{Cursor, put_varint, u128_bytes, u128_from};
use crate::error::{Error, Field, Result};
use crate::filters::{FilterKind, Header, MAX_RECORD_LEN_BYTES};

/// The parameters of a range filter, checked against the payload's length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Geometry {
    /// The number of integers in the ranges that the filter is sized for, or 0 for scans.
    pub(super) range_len: u64,
    pub(super) mapping: Mapping,
    pub(super) dropped_bits: u32,
    /// The cells of the first and the last key.
    pub(super) first: u128,
    pub(super) last: u128,
    pub(super) codes: Codes,
    pub(super) parts: EliasFano,
    /// Whether all cells fit in 64 bits, and fewer than 64 bits are dropped.
    pub(super) is_short: bool,
}

/// The flag of a mapping that cuts no bytes off any key.
const FLAG_WHOLE: u8 = 1;
/// The flag of ranks of 32 bits.
const FLAG_WIDE: u8 = 2;

/// The record has three varints of at most 10 bytes, eight bytes, and two integers of 16 bytes.
const _: () = assert!(3 * 10 + 8 + 2 * 16 <= MAX_RECORD_LEN_BYTES);

impl Geometry {
    /// Returns the header that [`Geometry::parse`] reads.
    #[expect(clippy::cast_possible_truncation, reason = "all below 128")]
    pub(super) fn header(&self) -> Header<'static> {
        let mut record = Vec::new();
        put_varint(&mut record, self.range_len);
        put_varint(&mut record, self.codes.universe);
        put_varint(&mut record, self.parts.num_codes);
        let Mapping { prefix_len, num_positions, num_plain, num_sets, is_whole } = self.mapping;
        let flags = if is_whole { FLAG_WHOLE } else { 0 } | if self.parts.is_wide { FLAG_WIDE } else { 0 };
        record.extend_from_slice(&[self.codes.stretch_bits as u8, self.parts.low_bits as u8, self.dropped_bits as u8]);
        record.extend_from_slice(&[prefix_len, num_positions, num_plain, num_sets, flags]);
        record.extend_from_slice(&u128_bytes(self.first));
        record.extend_from_slice(&u128_bytes(self.last));
        Header { kind: FilterKind::Grafite, params: [0; 3], record: record.into() }
    }

    /// Reads the parameters and checks that a payload of `len_bytes` with `num_keys` keys can have
    /// them.
    pub(crate) fn parse(params: [u8; 3], record: &[u8], num_keys: u64, len_bytes: u64) -> Result<Self> {
        let corrupt = |field| Error::Corrupt { field, offset: 0 };
        let invalid = || corrupt(Field::Params);
        let geometry = Self::read(record).filter(|_| params == [0; 3]).ok_or_else(invalid)?;
        let Self { codes, first, last, dropped_bits, .. } = geometry;
        let is_valid = first <= last
            && dropped_bits < MAX_BITS
            && last < 1 << MAX_BITS >> dropped_bits
            && codes.are_valid(last - first)
            && geometry.mapping.is_valid();
        if !is_valid {
            return Err(invalid());
        }
        if geometry.parts.end as u64 != len_bytes {
            return Err(corrupt(Field::PayloadLen));
        }
        // Several keys may share a code.
        let num_codes = geometry.parts.num_codes;
        if num_codes == 0 || num_codes > num_keys || num_codes > codes.universe {
            return Err(corrupt(Field::NumKeys));
        }
        Ok(geometry)
    }

    fn read(record: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(record, 0);
        let mut varint = || cursor.take_varint(()).ok();
        let (range_len, universe, num_codes) = (varint()?, varint()?, varint()?);
        let [stretch_bits, low_bits, dropped_bits, prefix_len, num_positions, num_plain, num_sets, flags] =
            cursor.take_array::<8, _>(()).ok()?;
        let first = u128_from(&cursor.take_array(()).ok()?);
        let last = u128_from(&cursor.take_array(()).ok()?);
        if !cursor.is_empty() || flags & !(FLAG_WHOLE | FLAG_WIDE) != 0 {
            return None;
        }
        let is_whole = flags & FLAG_WHOLE != 0;
        let mapping = Mapping { prefix_len, num_positions, num_plain, num_sets, is_whole };
        let start = mapping.len_bytes().next_multiple_of(8);
        let parts = EliasFano::new(start, num_codes, universe, low_bits.into(), flags & FLAG_WIDE != 0)?;
        let codes = Codes { universe, stretch_bits: stretch_bits.into() };
        let is_short = u64::try_from(last).is_ok() && dropped_bits < 64;
        Some(Self { range_len, mapping, dropped_bits: dropped_bits.into(), first, last, codes, parts, is_short })
    }

    /// Returns the upper bound on the FPR for ranges of the length that the filter is sized for. It
    /// leaves out the rounding of the hash: see [`MAX_CODES`](super::MAX_CODES).
    pub(crate) fn expected_fpr(&self) -> f64 {
        let is_one_stretch = self.last - self.first < self.codes.universe.into();
        let len = match self.range_len {
            // If a cell stands for several possible keys, each of the two ends of a scan may lie in
            // the cell of a key.
            0 if is_one_stretch && (self.dropped_bits > 0 || !self.mapping.is_whole) => 2,
            _ if is_one_stretch => return 0.0,
            0 => SCAN_CELLS,
            range_len => range_len,
        };
        (len as f64 * self.parts.num_codes as f64 / self.codes.universe as f64).min(1.0)
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.range_len {
            0 => write!(f, "for scans of {SCAN_CELLS} cells")?,
            len => write!(f, "for ranges of {len} integers")?,
        }
        let Mapping { prefix_len, num_positions, num_plain, num_sets, .. } = self.mapping;
        write!(
            f,
            "; mapping: prefix of {prefix_len} bytes, {num_positions} positions, {num_plain} plain positions, \
             {num_sets} sets, {} bits dropped; {} codes below {}, {} low bits each, stretches of 2^{} cells",
            self.dropped_bits, self.parts.num_codes, self.codes.universe, self.parts.low_bits, self.codes.stretch_bits
        )
    }
}
