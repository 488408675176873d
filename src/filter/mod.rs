//! The filters themselves: bytes and [`KeyHash`]es, no I/O and no checksums.
//!
//! [`encode`] turns distinct hashes into a payload and its [`Shape`]; a [`FilterView`] answers queries from the two.
//! The kinds are a closed set, because they are tags on disk: a new kind is a compile error wherever it matters.

mod arch;
mod blocked;
mod bloom;
mod guard;
pub(crate) mod math;
mod spec;

use std::fmt;

pub(crate) use arch::Isa;
pub(crate) use blocked::LINE_LEN_BYTES;
pub(crate) use guard::{Checked, Guard};
pub use spec::FilterSpec;

use crate::error::{Error, Field, Result};
use crate::hash::KeyHash;

/// The kinds of filter that this version builds and reads; the numbers are the tags on disk.
///
/// Zero stays invalid, so that zeroed bytes are no filter. The numbers 5 to 8 are kept for split-block Bloom, ribbon,
/// bumped ribbon and binary fuse filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum FilterKind {
    /// No key was added: every query is "absent".
    Empty = 1,
    /// Every query is "maybe".
    Full = 2,
    /// A standard Bloom filter: the least bits of the two for a rate, a cache miss per probe.
    Bloom = 3,
    /// A Bloom filter of 512-bit lines: one cache miss per query.
    BlockedBloom = 4,
}

impl FilterKind {
    /// All kinds, in the order of their tags.
    pub const ALL: [Self; 4] = [Self::Empty, Self::Full, Self::Bloom, Self::BlockedBloom];

    /// The name in a [`FilterSpec`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Full => "full",
            Self::Bloom => "bloom",
            Self::BlockedBloom => "blocked-bloom",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind with this tag on disk.
    pub(crate) fn from_tag(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == tag)
    }

    /// Whether the kind's size is a matter of choice.
    pub(crate) fn takes_budget(self) -> bool {
        matches!(self, Self::Bloom | Self::BlockedBloom)
    }
}

impl fmt::Display for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a reader must know besides the payload's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) kind: FilterKind,
    /// Bits asked per query; zero for the constants.
    pub(crate) probes: u8,
}

impl Shape {
    pub(crate) const EMPTY: Self = Self { kind: FilterKind::Empty, probes: 0 };
    pub(crate) const FULL: Self = Self { kind: FilterKind::Full, probes: 0 };

    /// Checks that a payload of `len_bytes` can have this shape: after that, no query can fail.
    ///
    /// # Errors
    /// The field that does not hold, at offset 0.
    pub(crate) fn check(self, len_bytes: u64) -> Result<Self> {
        let (max_probes, granule) = match self.kind {
            FilterKind::Empty | FilterKind::Full => (0, 0),
            FilterKind::Bloom => (math::MAX_BLOOM_PROBES, 1),
            FilterKind::BlockedBloom => (math::MAX_LINE_PROBES, LINE_LEN_BYTES as u64),
        };
        let corrupt = |field| Err(Error::Corrupt { field, offset: 0 });
        if u32::from(self.probes) > max_probes || (self.probes == 0) != (max_probes == 0) {
            return corrupt(Field::Params);
        }
        let fits = if granule == 0 { len_bytes == 0 } else { len_bytes != 0 && len_bytes.is_multiple_of(granule) };
        if fits { Ok(self) } else { corrupt(Field::PayloadLen) }
    }

    /// The rate at which absent keys are expected to be answered "maybe".
    pub(crate) fn expected_rate(self, num_keys: u64, payload_len_bytes: u64) -> f64 {
        let probes = self.probes.into();
        match self.kind {
            FilterKind::Empty => 0.0,
            FilterKind::Full => 1.0,
            FilterKind::Bloom => math::bloom_rate(num_keys, payload_len_bytes.saturating_mul(8), probes),
            FilterKind::BlockedBloom => {
                math::blocked_bloom_rate(num_keys, payload_len_bytes / LINE_LEN_BYTES as u64, probes)
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

/// Builds the filter that `spec` asks for over `hashes`, which are distinct and sorted: the same set gives the same
/// bytes.
///
/// # Errors
/// [`Error::InvalidSpec`] when the payload would not fit in memory.
pub(crate) fn encode(spec: FilterSpec, hashes: &[KeyHash], rounding: Rounding) -> Result<(Shape, Vec<u8>)> {
    if spec.kind() == FilterKind::Full {
        return Ok((Shape::FULL, Vec::new()));
    }
    if hashes.is_empty() {
        return Ok((Shape::EMPTY, Vec::new()));
    }
    let granule_len_bytes = match (spec.kind(), rounding) {
        (FilterKind::BlockedBloom, _) => LINE_LEN_BYTES,
        (_, Rounding::Words) => 8,
        (_, Rounding::Bytes) => 1,
    };
    let num_keys = hashes.len() as u64;
    let mut payload = math::granules(num_keys, spec.millibits_per_key(), granule_len_bytes as u64 * 8)
        .and_then(|granules| usize::try_from(granules).ok()?.checked_mul(granule_len_bytes))
        .filter(|&len| isize::try_from(len).is_ok())
        .map(|len| vec![0; len])
        .ok_or_else(|| Error::InvalidSpec { spec: spec.to_string(), reason: "too large for this machine's memory" })?;
    let millibits = math::millibits_per_key(payload.len() as u64 * 8, num_keys);
    let probes = match spec.kind() {
        FilterKind::BlockedBloom => {
            let probes = math::line_probes(millibits);
            blocked::fill(&mut payload, probes, hashes);
            probes
        }
        _ => {
            let probes = math::bloom_probes(millibits);
            bloom::fill(&mut payload, probes, hashes);
            probes
        }
    };
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_BLOOM_PROBES")]
    Ok((Shape { kind: spec.kind(), probes: probes as u8 }, payload))
}

/// A filter ready to be asked: a borrow of a payload whose shape was checked against its length.
#[derive(Debug, Clone, Copy)]
pub struct FilterView<'a> {
    shape: Shape,
    isa: Isa,
    payload: &'a [u8],
}

impl<'a> FilterView<'a> {
    /// `shape` must have passed [`Shape::check`] for the payload's length; otherwise answers are "maybe" or wrong, but
    /// memory-safe.
    #[inline]
    pub(crate) fn new(shape: Shape, isa: Isa, payload: &'a [u8]) -> Self {
        Self { shape, isa, payload }
    }

    /// `false` if the key was certainly not added; `true` if it may have been.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.may_contain_guarded(hash, &Checked)
    }

    /// The same over a payload that is not wholly checked: what `guard` does not vouch for cannot deny a key.
    #[inline]
    pub(crate) fn may_contain_guarded(&self, hash: KeyHash, guard: &impl Guard) -> bool {
        let probes = self.shape.probes.into();
        match self.shape.kind {
            FilterKind::Empty => false,
            FilterKind::Full => true,
            FilterKind::Bloom => bloom::may_contain(self.payload, probes, hash, guard),
            FilterKind::BlockedBloom => blocked::may_contain(self.isa, self.payload, probes, hash, guard),
        }
    }

    /// Answers for many keys at once, faster than one by one: cache misses overlap and the kernel is chosen once.
    ///
    /// `answers[i]` belongs to `hashes[i]`; answers beyond the shorter of the two slices are left alone.
    pub fn may_contain_batch(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        if self.shape.kind == FilterKind::BlockedBloom {
            return arch::lines_may_contain(self.isa, self.payload, self.shape.probes.into(), hashes, answers);
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
        match self.shape.kind {
            FilterKind::Empty | FilterKind::Full => {}
            #[expect(clippy::cast_possible_truncation, reason = "an offset within the payload")]
            FilterKind::Bloom => arch::prefetch(self.payload, bloom::first_byte(self.payload, hash) as usize),
            FilterKind::BlockedBloom => arch::prefetch(self.payload, blocked::line_offset(self.payload, hash)),
        }
    }
}
