//! Chooses the instruction set.

use std::sync::OnceLock;

#[cfg(target_arch = "aarch64")]
use super::Neon;
use super::Portable;
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};

/// An instruction set of this processor. The value inside a variant proves that the processor has
/// the instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isa {
    /// Plain code, which runs on every processor.
    Portable(Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

impl Isa {
    /// Plain code, which runs on every processor.
    pub(crate) const PORTABLE: Self = Self::Portable(Portable);

    /// Returns the best instruction set of this processor. The environment variable
    /// `FILTERBLOCK_ISA` can select another instruction set that this processor has. The choice is
    /// made once per process.
    ///
    /// An unknown name, or the name of an instruction set that this processor lacks, is ignored.
    /// Every instruction set gives the same answers.
    pub(crate) fn detect() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let wanted = std::env::var("FILTERBLOCK_ISA").ok();
            let named = wanted.and_then(|name| Self::available().find(|isa| isa.name() == name));
            named.or_else(|| Self::available().last()).unwrap_or(Self::PORTABLE)
        })
    }

    /// Returns every instruction set that this processor has, the best one last.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
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

    /// Returns the name, as `FILTERBLOCK_ISA` and benchmark reports write it.
    pub(crate) fn name(self) -> &'static str {
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
