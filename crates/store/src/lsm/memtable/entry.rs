//! Encodes one version of one key in a memtable. Versions are ordered by key, then newest first.

use std::cmp::Ordering;

use crate::codec::{order_prefix, put_u32, put_u64, u32_at, u64_from};

const HEADER_LEN_BYTES: usize = 12;

/// The flag in the key length: set for a value, clear for a tombstone.
const IS_VALUE: u32 = 1 << 31;

const CACHE_LINE_LEN_BYTES: usize = 64;
/// The maximum number of cache lines that [`Entry::touch`] reads one by one. The processor usually
/// prefetches the following lines by itself.
const TOUCHED_LINES: usize = 4;

/// One version of a key in one allocation: sequence number (8 bytes), key length with [`IS_VALUE`]
/// (4 bytes), key, value.
#[derive(Debug)]
pub(crate) struct Entry(Box<[u8]>);

impl Entry {
    /// Creates an entry. `value` is `None` for a tombstone.
    pub(crate) fn new(key: &[u8], value: Option<&[u8]>, sequence: u64) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_LEN_BYTES + key.len() + value.map_or(0, <[u8]>::len));
        put_u64(&mut bytes, sequence);
        #[expect(clippy::cast_possible_truncation, reason = "keys have at most MAX_KEY_LEN_BYTES")]
        put_u32(&mut bytes, key.len() as u32 | if value.is_some() { IS_VALUE } else { 0 });
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value.unwrap_or_default());
        Self(bytes.into_boxed_slice())
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.0.len()
    }

    /// Reads one byte of each of the first [`TOUCHED_LINES`] cache lines, and the last byte, so
    /// that these lines are loaded into the cache. The result has no meaning. A caller passes it to
    /// `black_box`, so that the compiler keeps the reads.
    pub(crate) fn touch(&self) -> u8 {
        let lines = self.0.iter().step_by(CACHE_LINE_LEN_BYTES).take(TOUCHED_LINES);
        lines.fold(self.0.last().copied().unwrap_or(0), |sum, byte| sum.wrapping_add(*byte))
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.0.first_chunk().map_or(0, u64_from)
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.0.get(HEADER_LEN_BYTES..self.key_end()).unwrap_or_default()
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        let is_value = self.len_and_flag() & IS_VALUE != 0;
        is_value.then(|| self.0.get(self.key_end()..).unwrap_or_default())
    }

    pub(crate) fn prefix(&self) -> u64 {
        order_prefix(self.key())
    }

    pub(crate) fn place(&self) -> Place<'_> {
        Place::new(self.key(), self.sequence())
    }

    fn len_and_flag(&self) -> u32 {
        u32_at(&self.0, 8).unwrap_or(0)
    }

    fn key_end(&self) -> usize {
        HEADER_LEN_BYTES + (self.len_and_flag() & !IS_VALUE) as usize
    }
}

/// The position of a version in the sort order, whether or not the version exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) prefix: u64,
    key: &'a [u8],
    sequence: u64,
}

impl<'a> Place<'a> {
    pub(crate) fn new(key: &'a [u8], sequence: u64) -> Self {
        Self { prefix: order_prefix(key), key, sequence }
    }
}

impl Ord for Place<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Newest first: the greater sequence number sorts first.
        self.prefix
            .cmp(&other.prefix)
            .then_with(|| self.key.cmp(other.key))
            .then_with(|| other.sequence.cmp(&self.sequence))
    }
}

impl PartialOrd for Place<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
