//! Vector kernels, one file per architecture, each the equal of the portable code and chosen by an [`Isa`] token.

#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::sync::OnceLock;

use super::blocked::{self, LINE_LEN_BYTES};
use super::bumped_ribbon::{Geometry as Ribbon, Portable as Plain};
use crate::hash::KeyHash;

/// The instruction set that kernels may use. A value exists only for what this processor has, because the one way to
/// get a value is [`Isa::detect`] (or the portable constant).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Isa(Level);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Isa {
    /// Plain code, on every processor.
    #[cfg(test)]
    pub(crate) const PORTABLE: Self = Self(Level::Portable);

    /// The best that this processor has, looked up once; `FILTERBLOCK_ISA=portable` in the environment forces plain
    /// code.
    pub(crate) fn detect() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            if std::env::var_os("FILTERBLOCK_ISA").is_some_and(|isa| isa == "portable") {
                return Self(Level::Portable);
            }
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                return Self(Level::Avx2);
            }
            Self(Level::Portable)
        })
    }

    /// The name, as benchmark reports print it.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
        }
    }
}

/// Whether all bits of a key are set in its line of a blocked Bloom filter.
#[inline]
pub(super) fn line_may_contain(isa: Isa, line: &[u8; LINE_LEN_BYTES], probes: u32, hash: KeyHash) -> bool {
    match isa.0 {
        Level::Portable => blocked::line_may_contain_portable(line, probes, hash),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => x86_64::line_may_contain(isa, line, probes, hash),
    }
}

/// Answers for many keys of a blocked Bloom filter, whose payload is whole lines; one choice of kernel for all.
pub(super) fn lines_may_contain(isa: Isa, payload: &[u8], probes: u32, hashes: &[KeyHash], answers: &mut [bool]) {
    match isa.0 {
        Level::Portable => {
            for (answer, &hash) in answers.iter_mut().zip(hashes) {
                let line = payload.get(blocked::line_offset(payload, hash)..).and_then(<[u8]>::first_chunk);
                *answer = line.is_none_or(|line| blocked::line_may_contain_portable(line, probes, hash));
            }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => x86_64::lines_may_contain(isa, payload, probes, hashes, answers),
    }
}

/// Whether the equation of a key holds in the first `groups` groups of columns.
#[inline]
pub(super) fn ribbon_may_contain(isa: Isa, ribbon: &Ribbon, bytes: &[u8], hash: KeyHash, groups: usize) -> bool {
    let _ = isa;
    ribbon.ask(Plain, bytes, hash, groups)
}

/// Answers for many keys of a bumped ribbon filter; one choice of kernel for all.
pub(super) fn ribbon_may_contain_batch(
    isa: Isa,
    ribbon: &Ribbon,
    bytes: &[u8],
    hashes: &[KeyHash],
    answers: &mut [bool],
) {
    let _ = isa;
    for (answer, &hash) in answers.iter_mut().zip(hashes) {
        *answer = ribbon.ask(Plain, bytes, hash, usize::MAX);
    }
}

/// Asks the processor to bring the line of `payload` at `offset` into its cache; no effect on any answer.
#[inline]
pub(super) fn prefetch(payload: &[u8], offset: usize) {
    #[cfg(target_arch = "x86_64")]
    x86_64::prefetch(payload, offset);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (payload, offset);
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "low bits of random numbers are meant")]
mod tests {
    use super::*;
    use crate::filter::blocked::MULTIPLIERS;

    fn splitmix(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[test]
    fn every_kernel_answers_as_the_portable_one_does() {
        let best = Isa::detect();
        let mut state = 1;
        let mut positives = 0u32;
        for lines in [1usize, 2, 3, 7] {
            // Payloads from nearly empty to full: and-ing or or-ing random words shifts the density.
            for density in 0..4 {
                let payload: Vec<u8> = (0..lines * LINE_LEN_BYTES)
                    .map(|_| match density {
                        0 => 0xff,
                        1 => (splitmix(&mut state) | splitmix(&mut state) | splitmix(&mut state)) as u8,
                        2 => splitmix(&mut state) as u8,
                        _ => (splitmix(&mut state) & splitmix(&mut state)) as u8,
                    })
                    .collect();
                for probes in 1..=16 {
                    let hashes: Vec<_> = (0..67).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
                    let mut by_best = vec![false; hashes.len()];
                    let mut by_portable = by_best.clone();
                    lines_may_contain(best, &payload, probes, &hashes, &mut by_best);
                    lines_may_contain(Isa::PORTABLE, &payload, probes, &hashes, &mut by_portable);
                    assert_eq!(by_best, by_portable, "{lines} lines, {probes} probes");
                    for (&hash, &answer) in hashes.iter().zip(&by_best) {
                        let offset = blocked::line_offset(&payload, hash);
                        let line = payload[offset..].first_chunk().unwrap();
                        assert_eq!(line_may_contain(best, line, probes, hash), answer);
                        positives += u32::from(answer);
                    }
                }
            }
        }
        assert!(positives > 5_000, "the comparison must see both answers, saw {positives} positives");
    }

    #[test]
    fn the_constants_are_those_of_the_named_generator() {
        let mut state = 0xf11_7e7b_10c5;
        splitmix(&mut state);
        splitmix(&mut state);
        for multiplier in MULTIPLIERS {
            assert_eq!(multiplier, (splitmix(&mut state) >> 32) as u32 | 1);
        }
    }
}
