//! Chooses the instruction set.

use std::sync::OnceLock;

#[cfg(target_arch = "aarch64")]
use super::Neon;
use super::Portable;
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};
use crate::error::{Error, Result};

static CHOSEN: OnceLock<Isa> = OnceLock::new();

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

    /// Returns the instruction set of this process: that of [`choose`](Self::choose), or the best one
    /// of this processor. Every instruction set gives the same answers.
    pub(crate) fn detect() -> Self {
        *CHOSEN.get_or_init(|| {
            // Unit tests cannot call a function before the first test.
            #[cfg(test)]
            if let Ok(name) = std::env::var("FILTERBLOCK_ISA") {
                return Self::named(&name).expect("FILTERBLOCK_ISA must name an instruction set of this processor");
            }
            Self::available().last().unwrap_or(Self::PORTABLE)
        })
    }

    /// Chooses the instruction set of this process. Returns an error if this processor does not have
    /// it, or if the process uses another one already.
    pub(crate) fn choose(name: &str) -> Result<()> {
        let invalid = |reason: String| Error::invalid("instruction set", name, reason);
        let isa = Self::named(name).ok_or_else(|| {
            let names: Vec<_> = Self::available().map(Self::name).collect();
            invalid(format!("the processor does not have it; name one of {}", names.join(", ")))
        })?;
        match CHOSEN.get_or_init(|| isa) {
            chosen if *chosen == isa => Ok(()),
            chosen => {
                Err(invalid(format!("the process uses {} already; choose before the first query", chosen.name())))
            }
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::available().find(|isa| isa.name() == name)
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

    /// Returns the name, as benchmark reports write it.
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
