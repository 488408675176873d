//! Vector kernels, one file per instruction set, each the equal of the portable code and chosen by an [`Isa`] token.
//!
//! Each file has a type of its own whose values exist only where the processor was seen to have what the kernels
//! need, so that calling a kernel is sound without further questions. The portable code stands beside each kind of
//! filter, complete alone.

mod ask;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

pub(crate) use ask::Ask;

use super::Geometry;
#[cfg(feature = "foreign")]
use super::blocked_bloom::LINE_LEN_BYTES;
use super::blocked_bloom::{self, line_of};
use super::bumped_ribbon::{Geometry as Ribbon, Parities, Portable as Plain};
use super::ribbon;
use super::split_block::{self, Lanes};
use crate::hash::KeyHash;
use crate::simd::{RESIDENT_LEN_BYTES, prefetch};

/// The instruction set that kernels may use. A value exists only for what this processor has, because the only ways to
/// get a value are [`Isa::detect`] and [`Isa::available`] (or the portable constant).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Isa(Level);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
}

impl Isa {
    /// Plain code, on every processor.
    pub(crate) const PORTABLE: Self = Self(Level::Portable);

    /// The best that this processor has, looked up once; `FILTERBLOCK_ISA` in the environment names a lower one.
    ///
    /// A name that this processor (or this version) does not know is passed over: answers are the same on all levels.
    pub(crate) fn detect() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let wanted = std::env::var("FILTERBLOCK_ISA").ok();
            let named = wanted.and_then(|name| Self::available().find(|isa| isa.name() == name));
            named.or_else(|| Self::available().last()).unwrap_or(Self::PORTABLE)
        })
    }

    /// Every level that this processor has, the best one last.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        let levels = [
            Some(Level::Portable),
            #[cfg(target_arch = "x86_64")]
            avx2::Avx2::new().map(Level::Avx2),
            #[cfg(target_arch = "x86_64")]
            avx512::Avx512::new().map(Level::Avx512),
            #[cfg(target_arch = "aarch64")]
            neon::Neon::new().map(Level::Neon),
        ];
        levels.into_iter().flatten().map(Self)
    }

    /// The name, as benchmark reports print it.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(_) => "avx512",
            #[cfg(target_arch = "aarch64")]
            Level::Neon(_) => "neon",
        }
    }
}

/// Calls the kernel of this name on the level at hand: a method of each level's token, or a portable expression.
macro_rules! dispatch {
    ($isa:expr, $kernel:ident($($argument:expr),*), $portable:expr) => {
        match $isa.0 {
            Level::Portable => $portable,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(proof) => proof.$kernel($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(proof) => proof.$kernel($($argument),*),
            #[cfg(target_arch = "aarch64")]
            Level::Neon(proof) => proof.$kernel($($argument),*),
        }
    };
}

/// The kernel for a geometry, if the level has one; see [`Ask`].
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(unused_variables, reason = "only plain code here")
)]
fn kernel(isa: Isa, geometry: &Geometry) -> Option<ask::Kernel> {
    dispatch!(isa, kernel(geometry), None)
}

/// Whether all bits of a key are set in its line of a blocked Bloom filter, whose payload is whole lines.
pub(super) fn line_may_contain(isa: Isa, payload: &[u8], probes: u32, hash: KeyHash) -> bool {
    let Some(line) = line_of(payload, hash) else { return true };
    dispatch!(isa, line(line, probes, hash), blocked_bloom::all_set(line, probes, hash))
}

/// Whether the bits of a line are set that the products of `folded` and the first `probes` multipliers name: by the top
/// four bits a word, by the next five a bit of it.
#[cfg(feature = "foreign")]
#[inline]
pub(crate) fn products_in_line(
    isa: Isa,
    line: &[u8; LINE_LEN_BYTES],
    probes: u32,
    folded: u32,
    multipliers: &[u32; 16],
) -> bool {
    dispatch!(
        isa,
        products_in_line(line, probes, folded, multipliers),
        blocked_bloom::products_set(line, probes, folded, multipliers)
    )
}

/// Whether in each lane of a block the bit is set that the top five bits of a product of `folded` name.
#[cfg(feature = "foreign")]
#[inline]
pub(crate) fn products_in_block(isa: Isa, block: &[u8; 32], folded: u32, multipliers: &[u32; 8]) -> bool {
    dispatch!(
        isa,
        products_in_block(block, folded, multipliers),
        split_block::narrow_products_set(block, folded, multipliers)
    )
}

/// Answers for many keys of a blocked Bloom filter; one choice of kernel for all.
#[inline]
pub(super) fn lines_may_contain(isa: Isa, payload: &[u8], probes: u32, hashes: &[KeyHash], answers: &mut [bool]) {
    dispatch!(
        isa,
        lines(payload, probes, hashes, answers),
        in_batches(payload, hashes, answers, |line, hash| blocked_bloom::all_set(line, probes, hash))
    );
}

/// Whether the equation of a key holds in the first `groups` groups of columns of a bumped ribbon filter.
#[inline]
pub(super) fn ribbon_may_contain(isa: Isa, ribbon: &Ribbon, bytes: &[u8], hash: KeyHash, groups: usize) -> bool {
    dispatch!(isa, ribbon(ribbon, bytes, hash, groups), ribbon.ask_portable(bytes, hash, groups))
}

/// Answers for many keys of a bumped ribbon filter; one choice of kernel for all.
#[inline]
pub(super) fn ribbon_may_contain_batch(
    isa: Isa,
    ribbon: &Ribbon,
    bytes: &[u8],
    hashes: &[KeyHash],
    answers: &mut [bool],
) {
    dispatch!(
        isa,
        ribbon_batch(ribbon, bytes, hashes, answers),
        ribbon_in_batches(Plain, ribbon, bytes, hashes, answers)
    );
}

/// Whether all bits of a key are set in its block of a split-block Bloom filter, whose payload is whole blocks.
pub(super) fn block_may_contain(isa: Isa, lanes: Lanes, payload: &[u8], hash: KeyHash) -> bool {
    match lanes {
        Lanes::Narrow => line_of(payload, hash)
            .is_none_or(|block| dispatch!(isa, narrow(block, hash), split_block::narrow_all_set(block, hash))),
        Lanes::Wide => line_of(payload, hash)
            .is_none_or(|block| dispatch!(isa, wide(block, hash), split_block::wide_all_set(block, hash))),
    }
}

/// Answers for many keys of a split-block Bloom filter; one choice of kernel for all.
#[inline]
pub(super) fn blocks_may_contain(isa: Isa, lanes: Lanes, payload: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    match lanes {
        Lanes::Narrow => dispatch!(
            isa,
            narrow_batch(payload, hashes, answers),
            in_batches(payload, hashes, answers, split_block::narrow_all_set)
        ),
        Lanes::Wide => dispatch!(
            isa,
            wide_batch(payload, hashes, answers),
            in_batches(payload, hashes, answers, split_block::wide_all_set)
        ),
    }
}

/// For each column of a ribbon's block the parity of the bits that a row picks of it and of the next one.
#[inline]
pub(super) fn ribbon_bits(isa: Isa, first: &[u8], second: &[u8], coefficients: u128, shift: u32) -> u32 {
    dispatch!(
        isa,
        ribbon_bits(first, second, coefficients, shift),
        ribbon::bits_portable(first, second, coefficients, shift)
    )
}

/// Keys under way at once where memory is waited for: enough to hide a miss, few enough for the line-fill buffers and
/// the first-level cache.
const BATCH: usize = 32;

/// Answers for many keys, each from one line of `LEN` bytes of `payload`: all lines of 32 keys are asked for before the first is
/// looked at, unless the payload is small.
///
/// Inlined always, into a function of the instruction set that `ask` was compiled for.
#[inline(always)]
fn in_batches<const LEN: usize>(
    payload: &[u8],
    hashes: &[KeyHash],
    answers: &mut [bool],
    ask: impl Fn(&[u8; LEN], KeyHash) -> bool,
) {
    let answer_all = |hashes: &[KeyHash], answers: &mut [bool]| {
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            *answer = line_of(payload, hash).is_none_or(|line| ask(line, hash));
        }
    };
    if payload.len() <= RESIDENT_LEN_BYTES {
        return answer_all(hashes, answers);
    }
    for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
        for &hash in hashes {
            prefetch(payload, blocked_bloom::line_offset::<LEN>(payload, hash));
        }
        answer_all(hashes, answers);
    }
}

/// The same for a bumped ribbon filter.
#[inline(always)]
fn ribbon_in_batches(kernel: impl Parities, ribbon: &Ribbon, bytes: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    // A batch has as many answers as keys: it computes those of all 32 places that it may have.
    let answered = answers.len().min(hashes.len());
    let answers = answers.get_mut(..answered).unwrap_or_default();
    for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
        ribbon.ask_batch(kernel, bytes, hashes, answers);
    }
}
