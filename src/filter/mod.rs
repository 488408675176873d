//! The filters themselves: bytes and [`KeyHash`]es, no I/O and no checksums.
//!
//! [`encode`] turns distinct hashes into a payload and its [`Shape`]; a [`FilterView`] answers queries from the two.
//! The kinds are a closed set, because they are tags on disk. One list in this file generates [`FilterKind`]; no `match` over
//! kinds or geometries has a wildcard, so that the compiler names every place that a new kind needs.

/// THE list of kinds: tag on disk, name in the code, name in a [`FilterSpec`], how the kind stores a key.
///
/// A generator macro takes the list and writes the items that need every kind.
macro_rules! kinds {
    ($generate:ident) => {
        $generate! {
            /// No key was added: every query is "absent".
            1 Empty "empty", "no keys: always absent";
            /// Every query is "maybe".
            2 Full "full", "always maybe";
            /// A standard Bloom filter: the least bits of the two for a rate, a cache miss per probe.
            3 Bloom "bloom", "bits anywhere in the filter";
            /// A Bloom filter of 512-bit lines: one cache miss per query.
            4 BlockedBloom "blocked-bloom", "all bits of a key in one cache line of 512";
            /// A Bloom filter of 256-bit blocks, one bit of a key in each of eight lanes: the cheapest query, for more
            /// space.
            5 SplitBlock "split-block", "a bit of a key in each 32-bit lane of one block of 256";
            /// A standard ribbon filter with rows of 128 bits: 2 to 5 % above the least space, to compare with.
            6 Ribbon "ribbon", "a system of equations, one for each key, of 128 coefficients";
            /// A bumped ribbon filter: about one per cent above the least space that any filter of its rate can have.
            7 BumpedRibbon "bumped-ribbon",
                "a system of equations, one for each key; keys that did not fit are in further layers";
            /// A binary fuse filter with fingerprints of 8, 12 or 16 bits: three cache misses a query, a thirteenth to a
            /// third more bits than the fingerprints.
            8 BinaryFuse "binary-fuse", "a fingerprint that is the sum of three cells";
            /// A Bloom filter of 512-bit blocks with eight lanes: as good as [`FilterKind::BlockedBloom`] from twelve bits
            /// a key on.
            10 SplitBlock512 "split-block-512", "a bit of a key in each 64-bit lane of one cache line of 512";
        }
    };
}

mod arch;
mod binary_fuse;
mod blocked;
pub(crate) mod bloom;
mod bumped_ribbon;
#[cfg(test)]
mod bytes_tests;
mod guard;
mod kind;
pub(crate) mod math;
pub mod planning;
mod ribbon;
mod spec;
mod split_block;
#[cfg(test)]
mod statistics;

use std::fmt;
use std::num::NonZeroUsize;

pub(crate) use arch::{Ask, Isa};
#[cfg(feature = "foreign")]
pub(crate) use arch::{prefetch, products_in_block, products_in_line};
pub(crate) use blocked::LINE_LEN_BYTES;
pub use bumped_ribbon::Columns;
pub(crate) use guard::{Checked, Guard};
pub use kind::FilterKind;
#[cfg(feature = "foreign")]
pub(crate) use ribbon::{Geometry as RibbonLayout, Row as RibbonRow, solve as solve_ribbon};
#[cfg(feature = "variants")]
pub(crate) use ribbon::{MAX_COLUMNS as MAX_RETRIEVED_BITS, Retrieval};
pub use spec::FilterSpec;
use split_block::Lanes;

use crate::bits::{NoMemory, try_zeros};
use crate::error::{Error, Field, Result};
use crate::hash::KeyHash;

/// What a reader must know besides the payload's bytes, as the trailer keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) kind: FilterKind,
    /// The kind's own; a Bloom filter has its number of probes in the first.
    pub(crate) params: [u8; 3],
    /// What does not fit in `params`; empty for most kinds. Kept in the trailer's extension, at most
    /// [`MAX_LAYERS_LEN_BYTES`].
    pub(crate) layers: Vec<u8>,
}

/// The longest [`Shape::layers`].
pub(crate) const MAX_LAYERS_LEN_BYTES: usize = 120;

impl Shape {
    pub(crate) const FULL: Self = Self::plain(FilterKind::Full, 0);

    /// A shape of one parameter.
    pub(crate) const fn plain(kind: FilterKind, param: u8) -> Self {
        Self { kind, params: [param, 0, 0], layers: Vec::new() }
    }
}

/// A shape read and found to fit its payload: after that, no query can fail.
///
/// Small, as every partition of an open filter has one; what is long, or asked slowly anyway, is in a box.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Geometry {
    Empty,
    Full,
    Bloom { probes: u32 },
    BlockedBloom { probes: u32 },
    SplitBlock { lanes: Lanes },
    Ribbon(Box<ribbon::Geometry>),
    BumpedRibbon(Option<bumped_ribbon::Plain>, Box<bumped_ribbon::Geometry>),
    BinaryFuse(binary_fuse::Geometry),
}

/// So that an open partition takes less memory than the 64 bytes and the entry of the index that it is on disk at least.
const _: () = assert!(size_of::<Geometry>() <= 24);

impl Geometry {
    /// Reads a shape and checks that a payload of `len_bytes` with `num_keys` keys can have it.
    ///
    /// # Errors
    /// The field that does not hold, at offset 0.
    pub(crate) fn new(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<Self> {
        let corrupt = |field| Err(Error::Corrupt { field, offset: 0 });
        let [first, rest @ ..] = shape.params;
        let plain = rest == [0; 2] && shape.layers.is_empty();
        let probes = u32::from(first);
        let split = |lanes: Lanes| (Self::SplitBlock { lanes }, math::LANES..=math::LANES, lanes.block_len_bytes());
        let (geometry, valid_probes, granule) = match shape.kind {
            FilterKind::Empty => (Self::Empty, 0..=0, 0),
            FilterKind::Full => (Self::Full, 0..=0, 0),
            FilterKind::Bloom => (Self::Bloom { probes }, 1..=math::MAX_BLOOM_PROBES, 1),
            FilterKind::BlockedBloom => (Self::BlockedBloom { probes }, 1..=math::MAX_LINE_PROBES, LINE_LEN_BYTES),
            FilterKind::SplitBlock => split(Lanes::Narrow),
            FilterKind::SplitBlock512 => split(Lanes::Wide),
            FilterKind::BumpedRibbon => {
                return bumped_ribbon::Geometry::new(shape, num_keys, len_bytes).map(Self::from_ribbon);
            }
            FilterKind::Ribbon => {
                return Ok(Self::Ribbon(Box::new(ribbon::Geometry::new(shape, num_keys, len_bytes)?)));
            }
            FilterKind::BinaryFuse => {
                return binary_fuse::Geometry::new(shape, num_keys, len_bytes).map(Self::BinaryFuse);
            }
        };
        if !plain || !valid_probes.contains(&probes) {
            return corrupt(Field::Params);
        }
        let fits =
            if granule == 0 { len_bytes == 0 } else { len_bytes != 0 && len_bytes.is_multiple_of(granule as u64) };
        if !fits {
            return corrupt(Field::PayloadLen);
        }
        // A filter has a key and no less than a bit for each; no filter has a bit for none.
        let keys_fit = match geometry {
            Self::Empty => num_keys == 0,
            Self::Full => true,
            _ => (1..=len_bytes.saturating_mul(8)).contains(&num_keys),
        };
        if keys_fit { Ok(geometry) } else { corrupt(Field::NumKeys) }
    }

    fn from_ribbon(ribbon: bumped_ribbon::Geometry) -> Self {
        Self::BumpedRibbon(ribbon.plain(), Box::new(ribbon))
    }

    /// The rate at which absent keys are expected to be answered "maybe".
    pub(crate) fn expected_rate(&self, num_keys: u64, payload_len_bytes: u64) -> f64 {
        let of_other_hashes = match *self {
            Self::Empty => 0.0,
            Self::Full => 1.0,
            Self::Bloom { probes } => math::bloom_rate(num_keys, payload_len_bytes.saturating_mul(8), probes),
            Self::BlockedBloom { probes } => {
                math::blocked_bloom_rate(num_keys, payload_len_bytes / LINE_LEN_BYTES as u64, probes)
            }
            Self::SplitBlock { lanes } => {
                math::split_block_rate(num_keys, payload_len_bytes / lanes.block_len_bytes() as u64, lanes.bits())
            }
            Self::BumpedRibbon(_, ref ribbon) => ribbon.expected_rate(),
            Self::Ribbon(ref ribbon) => ribbon.expected_rate(),
            Self::BinaryFuse(fuse) => fuse.expected_rate(),
        };
        match self {
            Self::Empty | Self::Full => of_other_hashes,
            // Equal hashes are among those that agree in line and fold.
            Self::BlockedBloom { .. } | Self::SplitBlock { .. } => of_other_hashes,
            Self::Bloom { .. } | Self::Ribbon(_) | Self::BumpedRibbon(..) | Self::BinaryFuse(_) => {
                math::with_equal_hashes(of_other_hashes, num_keys)
            }
        }
    }

    pub(crate) fn kind(&self) -> FilterKind {
        match self {
            Self::Empty => FilterKind::Empty,
            Self::Full => FilterKind::Full,
            Self::Bloom { .. } => FilterKind::Bloom,
            Self::BlockedBloom { .. } => FilterKind::BlockedBloom,
            Self::SplitBlock { lanes: Lanes::Narrow } => FilterKind::SplitBlock,
            Self::SplitBlock { lanes: Lanes::Wide } => FilterKind::SplitBlock512,
            Self::Ribbon(_) => FilterKind::Ribbon,
            Self::BumpedRibbon(..) => FilterKind::BumpedRibbon,
            Self::BinaryFuse(_) => FilterKind::BinaryFuse,
        }
    }

    /// Bits asked per query.
    pub(crate) fn probes(&self) -> u32 {
        match *self {
            Self::Empty | Self::Full => 0,
            Self::Bloom { probes } | Self::BlockedBloom { probes } => probes,
            Self::SplitBlock { .. } => math::LANES,
            Self::BumpedRibbon(_, ref ribbon) => ribbon.columns(),
            Self::Ribbon(ref ribbon) => ribbon.columns(),
            Self::BinaryFuse(fuse) => fuse.bits(),
        }
    }

    /// Whether some of it is kept in the trailer's extension.
    pub(crate) fn has_layers(&self) -> bool {
        match self {
            Self::Ribbon(_) => true,
            Self::BumpedRibbon(_, ribbon) => ribbon.has_layers(),
            _ => false,
        }
    }

    /// The number of distinct keys that most likely set `set_bits` of `bits` bits; `None` where the bits do not tell.
    pub(crate) fn estimated_keys(&self, set_bits: u64, bits: u64) -> Option<f64> {
        match *self {
            Self::Empty => Some(0.0),
            Self::Bloom { probes } | Self::BlockedBloom { probes } => {
                Some(math::estimated_keys(set_bits, bits, probes))
            }
            Self::SplitBlock { .. } => Some(math::estimated_keys(set_bits, bits, math::LANES)),
            Self::Full | Self::Ribbon(_) | Self::BumpedRibbon(..) | Self::BinaryFuse(_) => None,
        }
    }
}

/// What the parameters say, for people.
impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ribbon(ribbon) => ribbon.fmt(f),
            Self::BumpedRibbon(_, ribbon) => ribbon.fmt(f),
            Self::BinaryFuse(fuse) => fuse.fmt(f),
            Self::Empty | Self::Full | Self::Bloom { .. } | Self::BlockedBloom { .. } | Self::SplitBlock { .. } => {
                let probes = self.probes();
                write!(f, "{probes} {} asked per query; the rest is reserved", if probes == 1 { "bit" } else { "bits" })
            }
        }
    }
}

/// How finely a payload may be sized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Standard Bloom filters to eight bytes: what a block does.
    Words,
    /// Standard Bloom filters to one byte: what the compact form does.
    Bytes,
}

/// How a filter is to be built; none of it changes the answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounding: Rounding,
    /// Threads that may work on one filter; they do not change its bytes either.
    pub(crate) threads: NonZeroUsize,
}

/// Builds the filter that `spec` asks for over `hashes`, which are distinct and sorted: the same set gives the same
/// bytes. Leaves them in any order.
///
/// # Errors
/// [`Error::InvalidSpec`] when the payload would not fit in memory.
pub(crate) fn encode(spec: FilterSpec, hashes: &mut [KeyHash], effort: Effort) -> Result<(Shape, Vec<u8>)> {
    if spec.kind() == FilterKind::Full {
        return Ok((Shape::FULL, Vec::new()));
    }
    if hashes.is_empty() {
        return Ok((Shape::plain(FilterKind::Empty, 0), Vec::new()));
    }
    spec.check_keys(hashes.len() as u64)?;
    match spec.kind() {
        FilterKind::BumpedRibbon => bumped_ribbon::encode(spec, hashes, effort),
        FilterKind::Ribbon => ribbon::encode(spec, hashes),
        FilterKind::BinaryFuse => binary_fuse::encode(spec, hashes),
        _ => encode_bloom(spec, hashes, effort.rounding),
    }
}

/// A payload of zeros, whose vector has room for what a block appends: 4 bytes for each 4 KiB, a trailer and its extension.
/// Without it the payload would be copied, and be there twice.
fn zeros(len: usize) -> Result<Vec<u8>, NoMemory> {
    let mut payload = try_zeros(len.checked_add(room_behind(len)).ok_or(NoMemory)?)?;
    payload.truncate(len);
    Ok(payload)
}

/// What to tell of a filter of `spec` that finds no memory.
pub(crate) fn no_memory(spec: FilterSpec) -> Error {
    Error::InvalidSpec { spec: spec.to_string(), reason: "too large for this machine's memory" }
}

/// See [`zeros`].
fn room_behind(len: usize) -> usize {
    len / 1024 + 320
}

/// The bytes of a kind that is bits to set, and its probes; `None` where they do not fit 64 bits.
fn bloom_size(spec: FilterSpec, num_keys: u64, rounding: Rounding) -> Option<(u64, u32)> {
    let granule_len_bytes = match (spec.kind(), rounding) {
        (FilterKind::BlockedBloom, _) => LINE_LEN_BYTES as u64,
        (FilterKind::SplitBlock, _) => Lanes::Narrow.block_len_bytes() as u64,
        (FilterKind::SplitBlock512, _) => Lanes::Wide.block_len_bytes() as u64,
        (_, Rounding::Words) => 8,
        (_, Rounding::Bytes) => 1,
    };
    let granules = math::granules(num_keys, spec.millibits_per_key(), granule_len_bytes * 8)?;
    let len_bytes = granules.checked_mul(granule_len_bytes)?;
    let millibits = math::millibits_per_key(len_bytes.checked_mul(8)?, num_keys);
    let probes = match spec.kind() {
        FilterKind::BlockedBloom => math::line_probes(millibits),
        FilterKind::SplitBlock | FilterKind::SplitBlock512 => math::LANES,
        _ => math::bloom_probes(millibits),
    };
    Some((len_bytes, probes))
}

/// The kinds that are bits to set, in a payload whose size follows from the number of keys.
fn encode_bloom(spec: FilterSpec, hashes: &[KeyHash], rounding: Rounding) -> Result<(Shape, Vec<u8>)> {
    let (mut payload, probes) = bloom_size(spec, hashes.len() as u64, rounding)
        .and_then(|(len, probes)| Some((zeros(usize::try_from(len).ok()?).ok()?, probes)))
        .ok_or_else(|| no_memory(spec))?;
    match spec.kind() {
        FilterKind::BlockedBloom => blocked::fill(&mut payload, probes, hashes),
        FilterKind::SplitBlock => split_block::fill(Lanes::Narrow, &mut payload, hashes),
        FilterKind::SplitBlock512 => split_block::fill(Lanes::Wide, &mut payload, hashes),
        _ => bloom::fill(&mut payload, probes, hashes),
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_BLOOM_PROBES")]
    Ok((Shape::plain(spec.kind(), probes as u8), payload))
}

/// A filter ready to be asked: a borrow of a payload and of the geometry that was checked against its length.
#[derive(Debug, Clone, Copy)]
pub struct FilterView<'a> {
    geometry: &'a Geometry,
    ask: Ask,
    isa: Isa,
    payload: &'a [u8],
    /// The payload and what lies behind it: vector loads may reach beyond the payload's end.
    padded: &'a [u8],
}

impl<'a> FilterView<'a> {
    /// `padded` begins with the payload, of `len` bytes, for whose length `geometry` was made; where it is shorter, answers are
    /// "maybe". With 64 bytes behind the payload every query takes the fast way.
    #[inline]
    pub(crate) fn new(geometry: &'a Geometry, ask: Ask, isa: Isa, padded: &'a [u8], len: usize) -> Self {
        // Where not all is there, nothing is: every kind takes that for "maybe".
        let padded = if padded.len() < len { &[] } else { padded };
        Self { geometry, ask, isa, payload: padded.get(..len).unwrap_or_default(), padded }
    }

    /// `false` if the key was certainly not added; `true` if it may have been.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.ask.may_contain(self.geometry, self.padded, self.payload.len(), hash)
    }

    /// The same from some of the filter's columns, if its kind has any.
    #[must_use]
    #[inline]
    pub fn may_contain_with(&self, hash: KeyHash, columns: Columns) -> bool {
        match columns {
            Columns::All => self.may_contain(hash),
            Columns::First => self.may_contain_with_guarded(hash, columns, &Checked),
        }
    }

    #[inline]
    pub(crate) fn may_contain_with_guarded(&self, hash: KeyHash, columns: Columns, guard: &impl Guard) -> bool {
        match (self.geometry, columns) {
            (Geometry::BumpedRibbon(_, ribbon), Columns::First) => {
                ribbon.first_may_contain(self.isa, self.padded, hash, guard)
            }
            _ => self.may_contain_guarded(hash, guard),
        }
    }

    /// The same over a payload that is not wholly checked: what `guard` does not vouch for cannot deny a key.
    pub(crate) fn may_contain_guarded(&self, hash: KeyHash, guard: &impl Guard) -> bool {
        match *self.geometry {
            Geometry::Empty => false,
            Geometry::Full => true,
            Geometry::Bloom { probes } => bloom::may_contain(self.payload, probes, hash, guard),
            Geometry::BlockedBloom { probes } => blocked::may_contain(self.isa, self.payload, probes, hash, guard),
            Geometry::SplitBlock { lanes } => split_block::may_contain(self.isa, lanes, self.payload, hash, guard),
            Geometry::Ribbon(ref ribbon) => ribbon.may_contain(self.isa, self.payload, hash, guard),
            Geometry::BumpedRibbon(_, ref ribbon) => ribbon.may_contain(self.isa, self.padded, hash, guard),
            Geometry::BinaryFuse(ref fuse) => fuse.may_contain(self.payload, hash, guard),
        }
    }

    /// Answers for many keys at once, faster than one by one: cache misses overlap and the kernel is chosen once.
    ///
    /// `answers[i]` belongs to `hashes[i]`; answers beyond the shorter of the two slices are left alone.
    pub fn may_contain_batch(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        match *self.geometry {
            Geometry::BlockedBloom { probes } => {
                return arch::lines_may_contain(self.isa, self.payload, probes, hashes, answers);
            }
            Geometry::SplitBlock { lanes } => {
                return arch::blocks_may_contain(self.isa, lanes, self.payload, hashes, answers);
            }
            Geometry::BumpedRibbon(_, ref ribbon) => {
                return ribbon.may_contain_batch(self.isa, self.padded, hashes, answers);
            }
            Geometry::BinaryFuse(ref fuse) => return fuse.may_contain_batch(self.payload, hashes, answers),
            _ => {}
        }
        for &hash in hashes {
            self.prefetch(hash);
        }
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            *answer = self.may_contain(hash);
        }
    }

    /// Starts to bring the first cache line that a query of `hash` will read into the cache.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        match *self.geometry {
            Geometry::Empty | Geometry::Full => {}
            #[expect(clippy::cast_possible_truncation, reason = "an offset within the payload")]
            Geometry::Bloom { .. } => arch::prefetch(self.payload, bloom::first_byte(self.payload, hash) as usize),
            Geometry::BlockedBloom { .. } => {
                arch::prefetch(self.payload, blocked::line_offset::<LINE_LEN_BYTES>(self.payload, hash));
            }
            Geometry::SplitBlock { lanes } => arch::prefetch(self.payload, lanes.block_offset(self.payload, hash)),
            Geometry::BinaryFuse(ref fuse) => fuse.prefetch(self.payload, hash),
            Geometry::Ribbon(ref ribbon) => arch::prefetch(self.payload, ribbon.first_byte(hash)),
            Geometry::BumpedRibbon(_, ref ribbon) => arch::prefetch(self.padded, ribbon.first_byte(hash)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_without_bits_answer_with_and_without_a_guard() {
        for (geometry, answer) in [(Geometry::Empty, false), (Geometry::Full, true)] {
            let view = FilterView::new(&geometry, Ask::new(&geometry, Isa::PORTABLE), Isa::PORTABLE, &[], 0);
            let hash = KeyHash::from_raw(7);
            assert_eq!((view.may_contain(hash), view.may_contain_guarded(hash, &guard::Checked)), (answer, answer));
        }
    }

    #[test]
    fn what_the_parameters_say_can_be_read() {
        let geometry = |text: &str, keys: u64| {
            let mut state = 0u64;
            let mut next = || {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                KeyHash::from_raw((state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9))
            };
            let mut hashes: Vec<_> = (0..keys).map(|_| next()).collect();
            hashes.sort_unstable();
            let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
            let (shape, payload) = encode(text.parse().unwrap(), &mut hashes, effort).unwrap();
            Geometry::new(&shape, keys, payload.len() as u64).unwrap()
        };
        for (text, keys, says) in [
            ("full", 9, "0 bits asked per query; the rest is reserved"),
            ("bloom:1", 9_000, "1 bit asked per query; the rest is reserved"),
            ("split-block:9", 9, "8 bits asked per query; the rest is reserved"),
            ("binary-fuse:12", 1_000, "segments of 128 slots, 12 bits a slot, seed 0; 1408 slots"),
            ("ribbon:7.3", 1_000, "columns 8, seed 0; blocks of 128 slots 8, 7 with a column less"),
            (
                "bumped-ribbon:7.3",
                300,
                "columns 8; 304 slots in one system, seed 0, 3 of 4 whole blocks with a column less",
            ),
            (
                "bumped-ribbon:7.3",
                12_000,
                "columns 8; layer 0: blocks of 64 slots 182, 137 with a column less; 392 slots in one system, seed 2, \
                 4 of 6 whole blocks with a column less",
            ),
        ] {
            assert_eq!(geometry(text, keys).to_string(), says, "{text}, {keys} keys");
        }
        for (text, keys, has_layers) in [
            ("bloom:10", 9_000, false),
            ("binary-fuse:8", 9_000, false),
            ("ribbon:8", 1_000, true),
            ("bumped-ribbon:8", 300, false),
            ("bumped-ribbon:8", 12_000, true),
        ] {
            assert_eq!(geometry(text, keys).has_layers(), has_layers, "{text}, {keys} keys");
        }
    }
}
