//! Maps byte keys to integers and keeps their order.
//!
//! ```text
//! key = prefix of all keys | a byte for each position | bytes of the plain positions | rest, cut off
//! x   = the mixed-radix number of the symbols of all positions
//! ```
//! A position has symbols for the bytes that occur there, so `x` spends few bits on bytes that no
//! key of the SST has. The symbols are an interval or a set of bytes, and below them the symbol
//! "end" if a key ends there. After the symbol "end", all symbols are 0. A plain position has all
//! 256 bytes and no end.

use std::ops::Bound;

use super::MAX_PLAIN_POSITIONS;
use super::elias_fano::{Bytes, IsValid};
use super::keys::{ByteSet, shared_len};
use crate::codec::{u64_big_at, u64_from};

/// The maximum number of bits of an integer of a mapping.
pub(super) const MAX_BITS: u32 = 120;
/// The length of the description of a position: flags, and two bytes.
pub(super) const POSITION_LEN_BYTES: usize = 3;
/// The length of a set of bytes: one bit per byte value.
const SET_LEN_BYTES: usize = 32;
/// The flag of a position where a key may end.
pub(super) const FLAG_END: u8 = 1;
/// The flag of a position whose symbols are a set. The number of the set follows. Without the flag,
/// the lowest and the highest byte of an interval follow.
pub(super) const FLAG_SET: u8 = 2;

/// The number of positions up to which comparing two bounds takes longer than mapping both.
const FEW_POSITIONS: usize = 2;

/// The parameters of a mapping. Its prefix, the descriptions of its positions and its sets are at
/// the start of the payload. A plain position has no description.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mapping {
    pub(super) prefix_len: u8,
    pub(super) num_positions: u8,
    pub(super) num_plain: u8,
    pub(super) num_sets: u8,
    /// Whether no key has bytes that are cut off. Then different keys have different integers.
    pub(super) is_whole: bool,
}

/// Where a bound lies among the integers of a mapping.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cut {
    /// The integer of the bound, if `is_exact`. Otherwise the smallest integer that a key above the
    /// bound may have.
    value: u128,
    /// Whether the bound has an integer of its own, which is `value`.
    is_exact: bool,
    /// Whether no byte of the bound is cut off. It is used only if `is_exact`.
    is_whole: bool,
}

impl Cut {
    /// Makes the cut of a bound that has no integer of its own. Every key with an integer of
    /// `value` or more lies above the bound.
    const fn before(value: u128) -> Self {
        Self { value, is_exact: false, is_whole: false }
    }
}

struct Symbol {
    value: u64,
    /// The number of symbols of the position.
    radix: u64,
    /// Whether a key of the filter may have this symbol. If `false`, `value` is the next higher
    /// symbol that a key may have, or the radix if no higher symbol exists.
    is_known: bool,
}

impl Mapping {
    pub(super) fn is_valid(&self) -> bool {
        self.num_plain <= MAX_PLAIN_POSITIONS
    }

    /// Returns the length of prefix, descriptions and sets in bytes, without the padding.
    pub(super) fn len_bytes(&self) -> usize {
        let positions = usize::from(self.num_positions) * POSITION_LEN_BYTES;
        usize::from(self.prefix_len) + positions + usize::from(self.num_sets) * SET_LEN_BYTES
    }

    /// Returns the integers `from..=to` between two bounds in fewer instructions than
    /// [`Mapping::between`]. If `from` is above `to`, no key lies between the bounds.
    ///
    /// Returns `None` unless the mapping has only plain positions and integers of at most 64 bits,
    /// and both bounds have the prefix and a byte for each position. Also returns `None` if bytes
    /// are missing or not sound.
    #[inline(always)]
    pub(super) fn short_between<V: IsValid>(
        &self,
        bytes: &Bytes<'_, V>,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) -> Option<(u64, u64)> {
        let (Bound::Included(one) | Bound::Excluded(one), Bound::Included(other) | Bound::Excluded(other)) =
            (lower, upper)
        else {
            return None;
        };
        let num_plain = usize::from(self.num_plain);
        let end = usize::from(self.prefix_len) + num_plain;
        if self.num_positions > 0 || num_plain > 8 || one.len() < end || other.len() < end {
            return None;
        }
        if self.prefix_len > 0 {
            let prefix = bytes.get(0, self.prefix_len.into())?;
            if !one.starts_with(prefix) || !other.starts_with(prefix) {
                return None;
            }
        }
        let (from, to) = (up_to_eight(one, end, num_plain)?, up_to_eight(other, end, num_plain)?);
        // See `between`: all cuts are exact.
        let is_from_below = self.is_whole && (matches!(lower, Bound::Excluded(_)) || one.len() > end);
        let is_to_left_out = self.is_whole && matches!(upper, Bound::Excluded(_)) && other.len() == end;
        let from = from.checked_add(u64::from(is_from_below));
        let to = to.checked_sub(u64::from(is_to_left_out));
        Some(from.zip(to).unwrap_or((1, 0)))
    }

    /// Returns the integers `from..to` between two bounds. Every key of the filter between the
    /// bounds has one of these integers. If `from` is not below `to`, no key lies between the
    /// bounds. Returns `None` if bytes are missing or not sound, or if the mapping is invalid.
    #[inline(always)]
    pub(super) fn between<V: IsValid>(
        &self,
        bytes: &Bytes<'_, V>,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) -> Option<(u128, u128)> {
        let header = Header::new(self, bytes)?;
        let (lower_cut, upper_cut) = match (lower, upper) {
            (Bound::Included(one) | Bound::Excluded(one), Bound::Included(other) | Bound::Excluded(other)) => {
                let (one, other) = header.cut_both(one, other)?;
                (Some(one), Some(other))
            }
            (Bound::Included(one) | Bound::Excluded(one), Bound::Unbounded) => (Some(header.cut(one)?), None),
            (Bound::Unbounded, Bound::Included(one) | Bound::Excluded(one)) => (None, Some(header.cut(one)?)),
            (Bound::Unbounded, Bound::Unbounded) => (None, None),
        };
        // The integers of a crafted mapping may have more than `MAX_BITS` bits, and would overflow
        // below.
        let is_in_range = |cut: Option<Cut>| cut.is_none_or(|cut| cut.value <= 1 << MAX_BITS);
        if !is_in_range(lower_cut) || !is_in_range(upper_cut) {
            return None;
        }
        // In a whole mapping, at most one key has the integer of the bound. This key is the bound
        // itself, unless bytes of the bound are cut off. Then the key is a prefix of the bound, and
        // lies below it.
        let is_below = |cut: Cut, is_excluded| cut.is_exact && self.is_whole && (is_excluded || !cut.is_whole);
        let is_left_out = |cut: Cut, is_excluded| self.is_whole && cut.is_whole && is_excluded;
        let from =
            lower_cut.map_or(0, |cut| cut.value + u128::from(is_below(cut, matches!(lower, Bound::Excluded(_)))));
        let to = upper_cut.map_or(1 << MAX_BITS, |cut| {
            cut.value + u128::from(cut.is_exact && !is_left_out(cut, matches!(upper, Bound::Excluded(_))))
        });
        Some((from, to))
    }
}

/// The verified bytes of a mapping.
struct Header<'a> {
    mapping: &'a Mapping,
    prefix: &'a [u8],
    positions: &'a [[u8; POSITION_LEN_BYTES]],
    sets: &'a [[u8; SET_LEN_BYTES]],
}

impl<'a> Header<'a> {
    #[inline(always)]
    fn new<V: IsValid>(mapping: &'a Mapping, bytes: &Bytes<'a, V>) -> Option<Self> {
        let header = bytes.get(0, mapping.len_bytes())?;
        let (prefix, rest) = header.split_at_checked(mapping.prefix_len.into())?;
        let positions_len = usize::from(mapping.num_positions) * POSITION_LEN_BYTES;
        let (positions, sets) = rest.split_at_checked(positions_len)?;
        Some(Self { mapping, prefix, positions: positions.as_chunks().0, sets: sets.as_chunks().0 })
    }

    /// Returns the cuts of two bounds. With more than [`FEW_POSITIONS`] positions, the leading
    /// positions in which the bounds agree are mapped once.
    #[inline(always)]
    fn cut_both(&self, one: &[u8], other: &[u8]) -> Option<(Cut, Cut)> {
        if self.positions.len() <= FEW_POSITIONS {
            return Some((self.cut(one)?, self.cut(other)?));
        }
        let shared = shared_len(one, other).checked_sub(self.prefix.len());
        let shared = shared.unwrap_or_default().min(self.positions.len());
        if shared == 0 {
            return Some((self.cut(one)?, self.cut(other)?));
        }
        let start = match self.after_prefix(one) {
            Ok(start) => start,
            Err(cut) => return Some((cut, cut)),
        };
        match self.walk(start, 0, shared)? {
            Ok(value) => {
                let (one, other) = (self.suffix(one), self.suffix(other));
                Some((self.finish(one, shared, value)?, self.finish(other, shared, value)?))
            }
            Err(cut) => Some((cut, cut)),
        }
    }

    #[inline(always)]
    fn cut(&self, key: &[u8]) -> Option<Cut> {
        match self.after_prefix(key) {
            Ok(suffix) => self.finish(suffix, 0, 0),
            Err(cut) => Some(cut),
        }
    }

    fn suffix<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.get(self.prefix.len()..).unwrap_or_default()
    }

    /// Returns the bytes after the prefix, or the cut of a key without the prefix.
    #[inline(always)]
    fn after_prefix<'k>(&self, key: &'k [u8]) -> Result<&'k [u8], Cut> {
        if self.prefix.is_empty() {
            return Ok(key);
        }
        match key.strip_prefix(self.prefix) {
            Some(suffix) => Ok(suffix),
            None => Err(Cut::before(if key < self.prefix { 0 } else { 1 << MAX_BITS })),
        }
    }

    /// Maps the positions from `from` on, and then the plain positions. `value` is the integer of
    /// the positions before `from`.
    #[inline(always)]
    fn finish(&self, suffix: &[u8], from: usize, value: u128) -> Option<Cut> {
        let num_positions = self.positions.len();
        let num_plain = usize::from(self.mapping.num_plain);
        if num_positions == 0 && suffix.len() >= num_plain {
            let value = big_endian(suffix, num_plain, num_plain)?;
            return Some(Cut { value, is_exact: true, is_whole: suffix.len() == num_plain });
        }
        let value = match if from == num_positions { Ok(value) } else { self.walk_from(suffix, from, value)? } {
            Ok(value) => value,
            Err(cut) => return Some(cut),
        };
        let end = num_positions + num_plain;
        let is_exact = suffix.len() >= end;
        let plain =
            if is_exact { big_endian(suffix, end, num_plain)? } else { cut_plain(suffix, num_positions, num_plain) };
        Some(Cut { value: value << (8 * num_plain) | plain, is_exact, is_whole: suffix.len() == end })
    }

    #[inline(always)]
    fn walk_from(&self, suffix: &[u8], from: usize, value: u128) -> Option<Result<u128, Cut>> {
        self.walk_value(suffix, from, self.positions.len(), value)
    }

    #[inline(always)]
    fn walk(&self, suffix: &[u8], from: usize, to: usize) -> Option<Result<u128, Cut>> {
        self.walk_value(suffix, from, to, 0)
    }

    /// Maps the positions `from..to`. Returns the integer. If the key ends before `to`, or has a
    /// byte that is not a symbol of its position, the function returns the cut of the key.
    #[inline(always)]
    fn walk_value(&self, suffix: &[u8], from: usize, to: usize, mut value: u128) -> Option<Result<u128, Cut>> {
        for (at, position) in self.positions.iter().enumerate().take(to).skip(from) {
            let byte = suffix.get(at).copied();
            let symbol = self.symbol(position, byte)?;
            value = value.wrapping_mul(symbol.radix.into()).wrapping_add(symbol.value.into());
            if byte.is_none() || !symbol.is_known {
                let cut = Cut { value: self.zeros_after(at, value)?, is_exact: symbol.is_known, is_whole: true };
                return Some(Err(cut));
            }
        }
        Some(Ok(value))
    }

    /// Appends symbol 0 for all positions after `at`, and zeros for the plain positions.
    #[cold]
    #[inline(never)]
    fn zeros_after(&self, at: usize, mut value: u128) -> Option<u128> {
        for position in self.positions.iter().skip(at + 1) {
            value = value.wrapping_mul(self.symbol(position, None)?.radix.into());
        }
        Some(value << (8 * self.mapping.num_plain))
    }

    /// Returns the symbol of a byte, or of the end of a key.
    #[inline(always)]
    fn symbol(&self, &[flags, low, high]: &[u8; POSITION_LEN_BYTES], byte: Option<u8>) -> Option<Symbol> {
        let end = u64::from(flags & FLAG_END);
        if flags & FLAG_SET == 0 {
            let span = u64::from(high.wrapping_sub(low));
            let Some(byte) = byte else { return Some(Symbol { value: 0, radix: span + 1 + end, is_known: end == 1 }) };
            // Bytes below the interval count as its first byte. Bytes above the interval count as
            // the byte after the interval.
            let offset = u64::from(byte.saturating_sub(low)).min(span + 1);
            return Some(Symbol {
                value: offset + end,
                radix: span + 1 + end,
                is_known: byte >= low && u64::from(byte - low) <= span,
            });
        }
        let (words, _) = self.sets.get(usize::from(low))?.as_chunks::<8>();
        let set: ByteSet = [0, 1, 2, 3].map(|i| words.get(i).map_or(0, u64_from));
        let radix = u64::from(num_members(&set)) + end;
        let Some(byte) = byte else { return Some(Symbol { value: 0, radix, is_known: end == 1 }) };
        let (rank, is_known) = rank(&set, byte);
        Some(Symbol { value: rank + end, radix, is_known })
    }
}

#[inline(always)]
pub(super) fn num_members(set: &ByteSet) -> u32 {
    set.iter().map(|word| word.count_ones()).sum()
}

/// Returns the number of members of a set below `byte`, and whether `byte` is a member.
#[inline(always)]
pub(super) fn rank(set: &ByteSet, byte: u8) -> (u64, bool) {
    let (index, bit) = (byte / 64, byte % 64);
    let mut below = 0;
    let mut own = 0;
    for (i, &word) in (0..).zip(set) {
        let mask = if i < index { u64::MAX } else { 0 };
        let mask = if i == index { (1 << bit) - 1 } else { mask };
        below += u64::from((word & mask).count_ones());
        own |= if i == index { word >> bit & 1 } else { 0 };
    }
    (below, own == 1)
}

/// Returns the `len` bytes before `end` as a big-endian integer, or `None` if there are too few
/// bytes. `len` is at most 16.
#[inline(always)]
pub(super) fn big_endian(bytes: &[u8], end: usize, len: usize) -> Option<u128> {
    if len > 8 {
        let low = u64_big_at(bytes, end.checked_sub(8)?)?;
        return Some(u128::from(up_to_eight(bytes, end - 8, len - 8)?) << 64 | u128::from(low));
    }
    up_to_eight(bytes, end, len).map(u128::from)
}

#[inline(always)]
fn up_to_eight(bytes: &[u8], end: usize, len: usize) -> Option<u64> {
    if len == 0 {
        return Some(0);
    }
    let mask = u64::MAX >> (64 - 8 * len);
    if let Some(word) = end.checked_sub(8).and_then(|from| u64_big_at(bytes, from)) {
        return Some(word & mask);
    }
    let bytes = bytes.get(end.checked_sub(len)?..end)?;
    Some(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// Returns the integer of plain positions in which a key ends: missing bytes count as zeros.
#[cold]
fn cut_plain(suffix: &[u8], from: usize, len: usize) -> u128 {
    (from..from + len).fold(0, |value, at| value << 8 | u128::from(suffix.get(at).copied().unwrap_or_default()))
}
