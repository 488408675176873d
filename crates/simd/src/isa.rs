//! Chooses the instruction set.

use std::sync::OnceLock;

#[cfg(target_arch = "aarch64")]
use super::Neon;
use super::Portable;
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};

static CHOSEN: OnceLock<Isa> = OnceLock::new();

/// An instruction set of this processor. The value inside a variant proves that the processor has
/// the instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// Plain code, which runs on every processor.
    Portable(Portable),
    /// AVX2, BMI1, BMI2 and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 (F, DQ, VL, BW, VPOPCNTDQ), BMI1, BMI2 and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// NEON, which every AArch64 processor has.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

impl Isa {
    /// Plain code, which runs on every processor.
    pub const PORTABLE: Self = Self::Portable(Portable);

    /// Returns the instruction set of this process: that of [`choose`](Self::choose), or the best one
    /// of this processor. Every instruction set gives the same answers.
    pub fn detect() -> Self {
        *CHOSEN.get_or_init(|| Self::available().last().unwrap_or(Self::PORTABLE))
    }

    /// Chooses the instruction set of this process.
    ///
    /// # Errors
    /// Returns the reason if this processor does not have the instruction set, or if the process uses
    /// another one already.
    pub fn choose(name: &str) -> Result<(), String> {
        let isa = Self::named(name).ok_or_else(|| {
            let names: Vec<_> = Self::available().map(Self::name).collect();
            format!("the processor does not have it; name one of {}", names.join(", "))
        })?;
        match CHOSEN.get_or_init(|| isa) {
            chosen if *chosen == isa => Ok(()),
            chosen => Err(format!("the process uses {} already; choose before the first query", chosen.name())),
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::available().find(|isa| isa.name() == name)
    }

    /// Returns every instruction set that this processor has, the best one last.
    pub fn available() -> impl Iterator<Item = Self> {
        let all = [
            Some(Self::PORTABLE),
            #[cfg(target_arch = "x86_64")]
            Avx2::detect().map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Avx512::detect().map(Self::Avx512),
            #[cfg(target_arch = "aarch64")]
            Neon::detect().map(Self::Neon),
        ];
        all.into_iter().flatten()
    }

    /// Returns the name, as benchmark reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => "neon",
        }
    }
}
