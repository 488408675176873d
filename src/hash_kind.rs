//! How files and errors name what hashed their keys: the function, and the fingerprint of its secret.

use std::fmt;

/// Bytes of a [`Fingerprint`].
pub const FINGERPRINT_LEN_BYTES: usize = 8;

/// The function that hashes a store's keys; the number is the id on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum HashKind {
    /// XXH3-64 under the seed: the fastest, and no obstacle to whoever chooses keys and has seen a file.
    #[default]
    Xxh3 = 1,
    /// XXH3-64 under a secret: as fast, and an obstacle, but no pseudorandom function.
    Xxh3Secret = 2,
    /// SipHash-1-3 under a secret: made to resist chosen keys.
    SipHash13 = 3,
}

impl HashKind {
    /// All of them, in the order of their ids.
    pub const ALL: [Self; 3] = [Self::Xxh3, Self::Xxh3Secret, Self::SipHash13];

    /// The function with this id.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == id)
    }

    /// Whether it takes a secret.
    #[must_use]
    pub const fn is_keyed(self) -> bool {
        !matches!(self, Self::Xxh3)
    }

    /// As it is printed and read.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3",
            Self::Xxh3Secret => "xxh3-secret",
            Self::SipHash13 => "siphash-1-3",
        }
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What tells one secret from another without giving it away; of each hash function and seed another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; FINGERPRINT_LEN_BYTES]);

impl Fingerprint {
    /// The fingerprint in bytes that were stored.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; FINGERPRINT_LEN_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; FINGERPRINT_LEN_BYTES] {
        self.0
    }
}

/// Sixteen hexadecimal digits, in the order of the bytes.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
