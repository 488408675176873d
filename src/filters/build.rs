//! Builds filters from hashes in any order and with repetitions.
//!
//! The size of a filter follows from the number of *distinct* hashes. Sorting the hashes only to
//! count them would take up to 2.5 times as long as setting bits. So a filter that is built by
//! setting bits is counted meanwhile: the first pass notes every hash whose bits are all set already
//! as a suspect. Every repeated hash is a suspect. A second pass counts how often the suspects occur.
//! If hashes are repeated, the bits are set once more, in a filter that is sized for the distinct
//! hashes. All other filters are built from sorted hashes.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use super::{FilterKind, math};
use crate::error::{Error, Field, Result};
use crate::hash::{KeyHash, sort};
use crate::simd::{Isa, NoMemory, RESIDENT_LEN_BYTES, Simd, kernels, try_push, try_zeros};

/// What a reader needs besides the payload. The trailer and the extension store it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header<'a> {
    /// The kind of filter.
    pub kind: FilterKind,
    /// The parameters of the filter. For a Bloom filter, the first is the number of probes.
    pub params: [u8; 3],
    /// The parameters that do not fit in `params`. Most filters have none. At most
    /// `MAX_RECORD_LEN_BYTES`.
    pub record: Cow<'a, [u8]>,
}

pub(crate) const MAX_RECORD_LEN_BYTES: usize = 120;

impl Header<'_> {
    pub(crate) const ALWAYS_MAYBE: Header<'static> = Header::plain(FilterKind::AlwaysMaybe, 0);

    pub(crate) const fn plain(kind: FilterKind, param: u8) -> Header<'static> {
        Header { kind, params: [param, 0, 0], record: Cow::Borrowed(&[]) }
    }

    pub(crate) fn into_owned(self) -> Header<'static> {
        Header { kind: self.kind, params: self.params, record: self.record.into_owned().into() }
    }
}

pub(crate) type Built = (Header<'static>, Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Budget {
    /// Thousandths of a bit per distinct key.
    pub(crate) millibits: u32,
    /// The requested FPR, if the budget was given as an FPR.
    pub(crate) rate: Option<f64>,
    /// Whether to build the smallest filter, at the cost of a slower build: see
    /// [`Info::has_compact_build`](super::Info::has_compact_build).
    pub(crate) compact: bool,
    /// The number of integers in the ranges that a range filter is sized for, or 0 for scans.
    pub(crate) range_len: u64,
}

impl Budget {
    pub(crate) const fn of_millibits(millibits: u32) -> Self {
        Self { millibits, rate: None, compact: false, range_len: 0 }
    }
}

/// The granularity of a payload's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Rounds a standard Bloom filter up to a multiple of eight bytes, for a filter block.
    Words,
    /// Rounds a standard Bloom filter up to a whole byte, for the compact form.
    Bytes,
}

/// The settings of a build besides the filter and the budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounding: Rounding,
    /// The number of threads that may work on one filter. It does not change the filter's bytes.
    pub(crate) threads: NonZeroUsize,
}

/// Allocates a payload of zeros with room for the bytes that a filter block appends: a checksum of
/// 4 bytes per page, the extension and the trailer. Without this room, appending would copy the
/// payload and need twice the memory.
pub(crate) fn zeros(len: usize) -> Result<Vec<u8>, NoMemory> {
    let mut payload = try_zeros(len.checked_add(room_behind(len)).ok_or(NoMemory)?)?;
    payload.truncate(len);
    Ok(payload)
}

/// Returns the number of bytes that [`zeros`] reserves after a payload of `len` bytes.
pub(super) fn room_behind(len: usize) -> usize {
    len / 1024 + 320
}

#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) header: Header<'static>,
    pub(crate) payload: Vec<u8>,
    /// The number of distinct hashes.
    pub(crate) num_keys: u64,
}

/// Builds the filter of `hashes`. The same set of hashes gives the same bytes. Without hashes, the
/// result is a filter of the kind `empty`. If the filter cannot be built for these hashes, the result
/// is its fallback. The function may reorder the hashes and drop repetitions.
pub(crate) fn build(
    kind: FilterKind,
    budget: Budget,
    hashes: &mut Vec<KeyHash>,
    effort: Effort,
) -> Result<Filled, NoMemory> {
    let kind = if hashes.is_empty() && kind.takes_budget() { FilterKind::Empty } else { kind };
    if let Some(filled) = fill(kind, budget, hashes, effort.rounding)? {
        return Ok(filled);
    }
    sort(hashes);
    hashes.dedup();
    let (header, payload) = match kind.build(budget, hashes, effort)? {
        Some(built) => built,
        None => build_fallback(kind, budget, hashes, effort)?,
    };
    Ok(Filled { header, payload, num_keys: hashes.len() as u64 })
}

/// Builds the fallback of a filter that cannot be built for these hashes. The hashes are distinct, and
/// come in any order.
pub(super) fn build_fallback(
    kind: FilterKind,
    budget: Budget,
    hashes: &mut [KeyHash],
    effort: Effort,
) -> Result<Built, NoMemory> {
    hashes.sort_unstable();
    let (kind, budget) = fallback(kind, budget);
    // A fallback only sets bits, so it can be built from every set of hashes.
    kind.build(budget, hashes, effort)?.ok_or(NoMemory)
}

/// Returns the fallback: a blocked Bloom filter of the same FPR. For a bumped ribbon with a budget in
/// bits, it is a blocked Bloom filter of the same bits per key.
///
/// A blocked Bloom filter cannot reach the lowest FPRs. If the caller asked for such an FPR, the
/// fallback is a standard Bloom filter, which reaches every FPR of a ribbon or a binary fuse filter.
/// If the caller asked for bits that give such an FPR, the fallback is a blocked Bloom filter of the
/// same bits per key, with a higher FPR.
fn fallback(kind: FilterKind, budget: Budget) -> (FilterKind, Budget) {
    let of_rate = |kind: FilterKind, rate| Some((kind, kind.budget_of_rate(rate)?));
    let blocked = kind.fallback_rate(budget).or(budget.rate).and_then(|rate| of_rate(FilterKind::BlockedBloom, rate));
    let standard = || budget.rate.and_then(|rate| of_rate(FilterKind::Bloom, rate));
    blocked.or_else(standard).unwrap_or((FilterKind::BlockedBloom, Budget { compact: false, ..budget }))
}

/// Builds the filter of at least one hash. The hashes may come in any order and with repetitions.
/// Returns `None` if the kind is not built by setting bits, or if a sort is the better way to count
/// the distinct hashes. Also returns `None` if there is no memory for the count.
fn fill(kind: FilterKind, budget: Budget, hashes: &[KeyHash], rounding: Rounding) -> Result<Option<Filled>, NoMemory> {
    let mut num_keys = hashes.len() as u64;
    if hashes.is_empty() {
        return Ok(None);
    }
    let Some(blank) = kind.blank(budget, num_keys, rounding)? else { return Ok(None) };
    let mut suspects = Suspects::of(hashes.len());
    let Some(mut filled) = blank.filled(hashes, &mut suspects) else { return Ok(None) };
    let Some(repetitions) = suspects.repetitions(hashes) else { return Ok(None) };
    if repetitions > 0 {
        drop(filled);
        num_keys -= repetitions;
        let Some(blank) = kind.blank(budget, num_keys, rounding)? else { return Ok(None) };
        // A repeated hash sets the same bits again, so the second filter may get all hashes.
        let Some(again) = blank.filled_by_distinct(hashes) else { return Ok(None) };
        filled = again;
    }
    let (header, payload) = filled;
    Ok(Some(Filled { header, payload, num_keys }))
}

pub(super) trait SetBits {
    /// Sets the bits of a hash. `payload` must be the whole payload. Returns whether all of these
    /// bits were already set.
    fn set(simd: impl Simd, probes: u32, payload: &mut [u8], hash: KeyHash) -> bool;

    fn prefetch(probes: u32, payload: &[u8], hash: KeyHash);
}

/// The number of hashes between the prefetch of a hash and the setting of its bits.
const DISTANCE: usize = 16;

kernels! {
    /// The function that sets the bits of many hashes, compiled for this processor.
    struct Fill[K: SetBits];
    |simd|

    /// Sets the bits of all hashes and adds to `suspects` the hashes whose bits were all set
    /// before. Stops and returns `false` as soon as there are too many suspects, or if there is no
    /// memory for one.
    fn fill(probes: u32, payload: &mut [u8], hashes: &[KeyHash], suspects: &mut Suspects) -> bool {
        let is_large = payload.len() > RESIDENT_LEN_BYTES;
        for (i, &hash) in hashes.iter().enumerate() {
            if is_large && let Some(&later) = hashes.get(i + DISTANCE) {
                K::prefetch(probes, payload, later);
            }
            if K::set(simd, probes, payload, hash) && !suspects.add(hash) {
                return false;
            }
        }
        true
    }
}

/// A filter without keys, of a kind that is built by setting bits.
#[derive(Debug)]
pub(crate) struct Blank {
    kind: FilterKind,
    probes: u32,
    payload: Vec<u8>,
    fill: Fill,
}

impl Blank {
    /// Makes a filter without keys. `payload` must have the length that the kind plans, and must be
    /// all zero.
    pub(super) fn new<K: SetBits>(kind: FilterKind, probes: u32, payload: Vec<u8>) -> Self {
        Self { kind, probes, payload, fill: Fill::new::<K>(Isa::detect()) }
    }

    /// Sets the bits of all hashes. Returns `None` if there are too many suspects, or if there is
    /// no memory for them.
    fn filled(mut self, hashes: &[KeyHash], suspects: &mut Suspects) -> Option<(Header<'static>, Vec<u8>)> {
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_BLOOM_PROBES")]
        let probes = self.probes as u8;
        let is_filled = self.fill.fill(self.probes, &mut self.payload, hashes, suspects);
        is_filled.then(|| (Header::plain(self.kind, probes), self.payload))
    }

    /// Sets the bits of all hashes and notes no suspects. The result is never `None`.
    pub(super) fn filled_by_distinct(self, hashes: &[KeyHash]) -> Option<(Header<'static>, Vec<u8>)> {
        self.filled(hashes, &mut Suspects::ignored())
    }
}

/// The hashes that may be repetitions: all their bits were set before.
#[derive(Debug)]
struct Suspects {
    found: Vec<KeyHash>,
    /// The maximum number of suspects, or `None` if no suspects are noted.
    most: Option<usize>,
}

impl Suspects {
    /// The minimum number of hashes per suspect. Below it, the build sorts the hashes.
    const HASHES_PER_SUSPECT: usize = 16;
    /// The minimum number of bits per suspect in the table in which the second pass looks up each
    /// hash.
    const TABLE_BITS: usize = 128;

    pub(super) fn of(hashes: usize) -> Self {
        Self { found: Vec::new(), most: Some(hashes / Self::HASHES_PER_SUSPECT) }
    }

    fn ignored() -> Self {
        Self { found: Vec::new(), most: None }
    }

    /// Notes a suspect, unless suspects are ignored. Returns `false` if there are too many, or if
    /// there is no memory for it.
    #[cold]
    #[inline(never)]
    fn add(&mut self, hash: KeyHash) -> bool {
        self.most.is_none_or(|most| self.found.len() < most && try_push(&mut self.found, hash).is_ok())
    }

    /// Counts the hashes that repeat an earlier one. Returns `None` if there is no memory for the
    /// table.
    pub(super) fn repetitions(mut self, hashes: &[KeyHash]) -> Option<u64> {
        if self.found.is_empty() {
            return Some(0);
        }
        self.found.sort_unstable();
        self.found.dedup();
        let table = Table::of(&self.found)?;
        let occurrences =
            hashes.iter().filter(|hash| table.has(**hash) && self.found.binary_search(hash).is_ok()).count();
        // Each suspect occurs at least once.
        Some((occurrences - self.found.len()) as u64)
    }
}

/// A bitmap that contains all given hashes, and a few other hashes by chance. The low bits of a
/// hash select its bit. If the low bits are badly spread, only the speed suffers.
struct Table {
    words: Vec<u64>,
    /// One less than the number of words, which is a power of two.
    mask: u64,
}

impl Table {
    #[expect(clippy::indexing_slicing, reason = "the mask keeps positions below the number of words")]
    fn of(hashes: &[KeyHash]) -> Option<Self> {
        let words = (hashes.len() * Suspects::TABLE_BITS / 64).next_power_of_two();
        let mut table = Self { words: try_zeros(words).ok()?, mask: words as u64 - 1 };
        for &hash in hashes {
            let at = table.word_of(hash);
            table.words[at] |= 1 << (hash.raw() % 64);
        }
        Some(table)
    }

    #[inline(always)]
    fn word_of(&self, hash: KeyHash) -> usize {
        (hash.raw() >> 6 & self.mask) as usize
    }

    /// Returns whether the bitmap may contain the hash.
    #[inline(always)]
    fn has(&self, hash: KeyHash) -> bool {
        self.words.get(self.word_of(hash)).is_none_or(|word| word >> (hash.raw() % 64) & 1 == 1)
    }
}

/// The size of a payload that is a plain array of bits in whole granules.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlainSize {
    pub(super) len_bytes: u64,
    /// Thousandths of a bit per key, after rounding to whole granules.
    pub(super) millibits: u64,
}

/// Returns the size that a budget gives to `num_keys` keys. Returns `None` if the number of bits
/// does not fit 64 bits.
pub(super) fn plain_size(budget: Budget, num_keys: u64, granule_len_bytes: u64) -> Option<PlainSize> {
    let granules = math::granules(num_keys, budget.millibits.into(), granule_len_bytes * 8)?;
    let len_bytes = granules.checked_mul(granule_len_bytes)?;
    Some(PlainSize { len_bytes, millibits: math::millibits_per_key(len_bytes.checked_mul(8)?, num_keys) })
}

/// Allocates a payload of zeros with this size. A `size` of `None` never fits in memory.
pub(super) fn plain_payload(size: Option<PlainSize>) -> std::result::Result<(PlainSize, Vec<u8>), NoMemory> {
    let size = size.ok_or(NoMemory)?;
    Ok((size, zeros(usize::try_from(size.len_bytes).map_err(|_| NoMemory)?)?))
}

/// Reads the header of a plain array of bits. Its only parameter is the number of probes.
pub(super) fn parse_plain(
    header: &Header<'_>,
    num_keys: u64,
    len_bytes: u64,
    valid_probes: RangeInclusive<u32>,
    granule_len_bytes: u64,
) -> Result<u32> {
    let [probes, rest @ ..] = header.params;
    let probes = u32::from(probes);
    if rest != [0; 2] || !header.record.is_empty() || !valid_probes.contains(&probes) {
        return Err(Error::corrupt(Field::Params));
    }
    if len_bytes == 0 || !len_bytes.is_multiple_of(granule_len_bytes) {
        return Err(Error::corrupt(Field::PayloadLen));
    }
    // A filter has at least one key, and at least one bit per key.
    if (1..=len_bytes.saturating_mul(8)).contains(&num_keys) { Ok(probes) } else { Err(Error::corrupt(Field::NumKeys)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::tests::EFFORT;
    use crate::hash::HashSeed;
    use crate::spec::FilterSpec;

    const KINDS: [&str; 4] = ["bloom", "blocked-bloom", "split-block", "split-block-512"];

    /// Asserts that [`fill`] builds the same filter as a build from the distinct, sorted hashes.
    /// Returns `false`, without a comparison, if [`fill`] leaves the hashes to a sort.
    fn agrees(spec: &str, hashes: &[KeyHash]) -> bool {
        let spec: FilterSpec = spec.parse().unwrap();
        let mut distinct = hashes.to_vec();
        sort(&mut distinct);
        distinct.dedup();
        let budget = spec.budget();
        let built = spec.kind().build(budget, &mut distinct, EFFORT).unwrap().unwrap();
        let Some(filled) = fill(spec.kind(), budget, hashes, Rounding::Words).unwrap() else { return false };
        assert_eq!(filled.num_keys, distinct.len() as u64, "{spec}, {} hashes", hashes.len());
        assert!((filled.header, filled.payload) == built, "{spec}, {} hashes", hashes.len());
        true
    }

    fn hashes(n: u64) -> Vec<KeyHash> {
        (0..n).map(|i| KeyHash::of(&i.to_le_bytes(), HashSeed(2))).collect()
    }

    impl FilterSpec {
        /// Builds a filter for the tests of single filters.
        pub(crate) fn encode(
            self,
            hashes: &mut Vec<KeyHash>,
            effort: Effort,
        ) -> crate::Result<(Header<'static>, Vec<u8>)> {
            let filled = build(self.kind(), self.budget(), hashes, effort).map_err(|_| crate::spec::no_memory(self))?;
            Ok((filled.header, filled.payload))
        }
    }

    #[test]
    fn a_fallback_keeps_the_rate_or_else_the_bits() {
        let fallback = |text: &str| {
            let spec: FilterSpec = text.parse().unwrap();
            let (kind, budget) = fallback(spec.kind(), spec.budget());
            (kind, f64::from(budget.millibits) / 1000.0, budget.rate, budget.compact)
        };
        assert_eq!(fallback("bumped-ribbon:12.5:compact"), (FilterKind::BlockedBloom, 12.5, None, false));
        let (kind, _, rate, _) = fallback("ribbon:fpr=0.003");
        assert_eq!((kind, rate), (FilterKind::BlockedBloom, Some(0.003)));
        let (kind, _, rate, _) = fallback("ribbon:fpr=0.000000001");
        assert_eq!((kind, rate), (FilterKind::Bloom, Some(0.000000001)));
    }

    #[test]
    fn repetitions_at_any_distance_are_counted_exactly() {
        for kind in KINDS {
            for bits in [6, 10, 20] {
                let spec = format!("{kind}:{bits}");
                for n in [1_000, 20_000, 70_000] {
                    let once = hashes(n);
                    assert!(agrees(&spec, &once), "{spec}");
                    let n = once.len();
                    for (from, count) in [(0, 1), (n - 1, 1), (n / 2, n / 50), (0, n / 30)] {
                        let mut often = once.clone();
                        often.extend_from_slice(&once[from..from + count.min(n - from)]);
                        assert!(agrees(&spec, &often), "{spec}, {count} repeated");
                        often.rotate_left(n / 3);
                        assert!(agrees(&spec, &often), "{spec}, {count} repeated, rotated");
                    }
                    let mut thrice = once.clone();
                    (0..2).for_each(|_| thrice.extend(once.iter().step_by(100)));
                    assert!(agrees(&spec, &thrice), "{spec}");
                }
            }
        }
    }

    #[test]
    fn filters_full_of_ones_or_repetitions_are_left_to_a_sort() {
        let once = hashes(5_000);
        let twice: Vec<_> = once.iter().chain(&once).copied().collect();
        for kind in KINDS {
            assert!(!agrees(&format!("{kind}:1"), &once), "{kind}");
            assert!(!agrees(&format!("{kind}:10"), &twice), "{kind}");
        }
        assert!(
            fill(FilterKind::BumpedRibbon, FilterSpec::default().budget(), &once, Rounding::Words).unwrap().is_none()
        );
    }

    /// Uses consecutive or shifted numbers as hashes, which are badly spread. [`fill`] counts them
    /// exactly or leaves them to a sort.
    #[test]
    fn numbers_that_are_no_hashes_are_counted_exactly() {
        for kind in KINDS {
            for bits in [10, 50] {
                for shift in [0, 20, 50] {
                    let mut numbers: Vec<_> = (0..3_000).map(|i| KeyHash::from_raw(i << shift)).collect();
                    numbers.extend_from_within(..20);
                    agrees(&format!("{kind}:{bits}"), &numbers);
                }
            }
        }
    }
}
