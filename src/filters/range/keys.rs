//! Collects the keys of a range filter while it is built. The keys are front-coded.

use std::cmp::Ordering;

use super::{KEPT_LEN_BYTES, MAX_PREFIX_LEN_BYTES};
use crate::codec::{Cursor, u64_bytes, u64_from};
use crate::simd::{NoMemory, try_zeros};

/// The set of bytes that occur at one position: bit `b % 64` of word `b / 64` stands for byte `b`.
pub(super) type ByteSet = [u64; 4];

/// The maximum length of an entry: two lengths of up to two bytes, and the bytes that follow the
/// shared ones.
const MAX_ENTRY_LEN_BYTES: usize = 4 + KEPT_LEN_BYTES + 1;

/// Collects keys in any order. A key takes two to four bytes for two lengths, and the bytes that
/// follow its common prefix with the key before.
///
/// No mapping reads a byte after the first [`KEPT_LEN_BYTES`], so each key is cut one byte after
/// them. Keys that agree in all kept bytes are one key for the filter.
#[derive(Debug, Clone)]
pub(crate) struct RangeKeys {
    /// For each key, the number of leading bytes that it shares with the key before it (varint),
    /// the number of its other bytes (varint), and these bytes.
    entries: Vec<u8>,
    pub(super) last: Vec<u8>,
    num_keys: u64,
    is_sorted: bool,
    /// The number of leading bytes that all keys share, at most [`MAX_PREFIX_LEN_BYTES`].
    pub(super) shared_len: usize,
    pub(super) max_len: usize,
    statistics: Option<Statistics>,
}

/// The statistics of the keys from which the mapping is chosen.
#[derive(Debug, Clone)]
pub(super) struct Statistics {
    /// The bytes that occur at each position.
    pub(super) seen: Vec<ByteSet>,
    /// For each position, whether a key ends directly before it.
    pub(super) ends: Vec<bool>,
    /// `agreeing[n]` is the number of pairs of neighbours that agree in exactly `n` leading bytes.
    pub(super) agreeing: Vec<u64>,
}

impl RangeKeys {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            last: Vec::new(),
            num_keys: 0,
            is_sorted: true,
            shared_len: MAX_PREFIX_LEN_BYTES,
            max_len: 0,
            statistics: None,
        }
    }

    /// Returns the number of keys that were added. Equal keys in a row count once.
    pub(crate) fn len(&self) -> u64 {
        self.num_keys
    }

    /// Returns whether the last key begins with `prefix`. Returns `false` if no key was added. The
    /// function compares only kept bytes.
    pub(crate) fn last_begins_with(&self, prefix: &[u8]) -> bool {
        self.num_keys > 0 && self.last.starts_with(prefix.get(..=KEPT_LEN_BYTES).unwrap_or(prefix))
    }

    /// Adds a key. If the key equals the last one in all kept bytes, the function does nothing. If
    /// it returns an error, the key is not added.
    #[expect(clippy::indexing_slicing, reason = "the key shares at most all its bytes")]
    pub(crate) fn add(&mut self, key: &[u8]) -> Result<(), NoMemory> {
        let key = key.get(..=KEPT_LEN_BYTES).unwrap_or(key);
        let shared = shared_len(&self.last, key);
        let is_first = self.num_keys == 0;
        if !is_first {
            match self.last.get(shared).cmp(&key.get(shared)) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(()),
                Ordering::Greater => self.is_sorted = false,
            }
        }
        if self.entries.capacity() - self.entries.len() < MAX_ENTRY_LEN_BYTES {
            self.entries.try_reserve(MAX_ENTRY_LEN_BYTES)?;
        }
        self.last.try_reserve(KEPT_LEN_BYTES + 1)?;
        let statistics = match &mut self.statistics {
            Some(statistics) => statistics,
            none => none.insert(Statistics::new()?),
        };
        let new = &key[shared..];
        if !put_short(&mut self.entries, &mut self.last, key, shared) {
            put_len(&mut self.entries, shared);
            put_len(&mut self.entries, new.len());
            self.entries.extend_from_slice(new);
            self.last.truncate(shared);
            self.last.extend_from_slice(new);
        }
        statistics.add(key, shared, is_first);
        let prefix_len = if is_first { key.len() } else { shared };
        self.shared_len = self.shared_len.min(prefix_len);
        self.max_len = self.max_len.max(key.len());
        self.num_keys += 1;
        Ok(())
    }

    /// Reserves memory for about `keys` further keys. If there is no memory, the function does
    /// nothing.
    pub(crate) fn reserve(&mut self, keys: usize) {
        // A key of eight random bytes shares two or three bytes with its neighbour in an SST, so
        // its entry has about eight bytes.
        let _ = self.entries.try_reserve(keys.saturating_mul(8).saturating_add(MAX_ENTRY_LEN_BYTES));
    }

    /// Returns the keys in ascending order, each once.
    #[expect(clippy::indexing_slicing, reason = "the spans are those of the keys")]
    pub(crate) fn into_sorted(self) -> Result<Self, NoMemory> {
        if self.is_sorted {
            return Ok(self);
        }
        let mut spans = Vec::new();
        spans.try_reserve_exact(usize::try_from(self.num_keys).map_err(|_| NoMemory)?)?;
        let mut bytes: Vec<u8> = Vec::new();
        let mut is_short = false;
        self.for_each(|key, _| {
            is_short |= bytes.try_reserve(key.len()).is_err();
            if !is_short {
                let from = bytes.len();
                bytes.extend_from_slice(key);
                spans.push((from, bytes.len()));
            }
        });
        if is_short {
            return Err(NoMemory);
        }
        let key = |&(from, to): &(usize, usize)| &bytes[from..to];
        spans.sort_unstable_by(|one, other| key(one).cmp(key(other)));
        let mut sorted = Self::new();
        spans.iter().try_for_each(|span| sorted.add(key(span)))?;
        Ok(sorted)
    }

    /// Calls `visit` with each key, and with the number of leading bytes that it shares with the
    /// key before it.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[u8], usize)) {
        let mut key = Vec::with_capacity(KEPT_LEN_BYTES + 1);
        self.for_each_entry(|shared, new| {
            key.truncate(shared);
            key.extend_from_slice(new);
            visit(&key, shared);
        });
    }

    /// Calls `visit` for each key with the number of leading bytes that it shares with the key
    /// before it, and with its other bytes.
    #[inline]
    fn for_each_entry(&self, mut visit: impl FnMut(usize, &[u8])) {
        let mut cursor = Cursor::new(&self.entries, 0);
        let mut next = || -> Option<()> {
            let shared = take_len(&mut cursor)?;
            let len = take_len(&mut cursor)?;
            visit(shared, cursor.take(len, ()).ok()?);
            Some(())
        };
        (0..self.num_keys).for_each(|_| next().expect("there is an entry for each key"));
    }

    pub(super) fn statistics(&self) -> Option<&Statistics> {
        self.statistics.as_ref()
    }
}

impl Statistics {
    fn new() -> Result<Self, NoMemory> {
        let (seen, ends) = (try_zeros(KEPT_LEN_BYTES)?, try_zeros(KEPT_LEN_BYTES)?);
        Ok(Self { seen, ends, agreeing: try_zeros(KEPT_LEN_BYTES + 1)? })
    }

    /// Adds a key. The key before it has the same first `shared` bytes, so the sets already contain
    /// these bytes.
    fn add(&mut self, key: &[u8], shared: usize, is_first: bool) {
        let sets = self.seen.get_mut(shared..).unwrap_or_default();
        for (set, &byte) in sets.iter_mut().zip(key.get(shared..).unwrap_or_default()) {
            if let Some(word) = set.get_mut(usize::from(byte) / 64) {
                *word |= 1 << (byte % 64);
            }
        }
        if let Some(ends) = self.ends.get_mut(key.len()) {
            *ends = true;
        }
        if !is_first && let Some(count) = self.agreeing.get_mut(shared) {
            *count += 1;
        }
    }
}

/// Appends the entry of a key and makes it the last key. Returns `false` and changes nothing if the
/// key does not fit this fast path. The function always copies eight bytes and then truncates,
/// because a copy of a variable length is slower.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lengths are below 128 and 9")]
fn put_short(entries: &mut Vec<u8>, last: &mut [u8], key: &[u8], shared: usize) -> bool {
    let new_len = key.len() - shared;
    if key.len() != last.len() || shared >= 0x80 || new_len > 8 {
        return false;
    }
    let (Some(end), Some(last)) = (key.last_chunk::<8>(), last.last_chunk_mut::<8>()) else { return false };
    *last = *end;
    let [a, b, c, d, e, f, g, h] = u64_bytes(u64_from(end) >> (8 * (8 - new_len)));
    let len = entries.len() + 2 + new_len;
    entries.extend_from_slice(&[shared as u8, new_len as u8, a, b, c, d, e, f, g, h]);
    entries.truncate(len);
    true
}

pub(super) fn shared_len(one: &[u8], other: &[u8]) -> usize {
    let (words, _) = one.as_chunks::<8>();
    let (others, _) = other.as_chunks::<8>();
    let mut equal = 0;
    for (word, other) in words.iter().zip(others) {
        let differing = u64_from(word) ^ u64_from(other);
        if differing != 0 {
            return equal + differing.trailing_zeros() as usize / 8;
        }
        equal += 8;
    }
    let rest = one.get(equal..).unwrap_or_default().iter().zip(other.get(equal..).unwrap_or_default());
    equal + rest.take_while(|(one, other)| one == other).count()
}

/// Appends a length below 2^14.
#[expect(clippy::cast_possible_truncation, reason = "the low seven bits, and a length below 2^14")]
fn put_len(out: &mut Vec<u8>, len: usize) {
    if len < 0x80 {
        out.push(len as u8);
    } else {
        out.extend_from_slice(&[len as u8 | 0x80, (len >> 7) as u8]);
    }
}

#[inline(always)]
fn take_len(cursor: &mut Cursor<'_>) -> Option<usize> {
    let low = usize::from(cursor.take_u8(()).ok()?);
    if low < 0x80 {
        return Some(low);
    }
    Some(low - 0x80 + (usize::from(cursor.take_u8(()).ok()?) << 7))
}
