//! Defines the ids and names of hash functions and the fingerprints of secrets, for files and error
//! messages.

use std::fmt;

/// The length of a [`Fingerprint`] in bytes.
pub const FINGERPRINT_LEN_BYTES: usize = 8;

/// The function that hashes a store's keys. Files store its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum HashKind {
    /// XXH3-64 under the seed. It is fast, but an attacker who has seen a file can choose keys that
    /// collide.
    #[default]
    Xxh3 = 1,
    /// XXH3-64 under a secret. Without the secret, it is harder to choose keys that collide than
    /// for [`HashKind::Xxh3`]. But XXH3 is not a pseudorandom function, so it gives no guarantee
    /// against chosen keys.
    Xxh3Secret = 2,
    /// SipHash-1-3 under a secret. It is designed to resist chosen keys.
    SipHash13 = 3,
}

impl HashKind {
    /// All functions, in the order of their ids.
    pub const ALL: [Self; 3] = [Self::Xxh3, Self::Xxh3Secret, Self::SipHash13];

    /// Returns the function with this id, or `None` if there is none.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == id)
    }

    /// Returns whether the function takes a secret.
    #[must_use]
    pub const fn takes_secret(self) -> bool {
        !matches!(self, Self::Xxh3)
    }

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

/// An identifier of a secret that does not reveal the secret. It also depends on the hash function
/// and the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; FINGERPRINT_LEN_BYTES]);

impl Fingerprint {
    /// Wraps the stored bytes of a fingerprint.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; FINGERPRINT_LEN_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to store.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; FINGERPRINT_LEN_BYTES] {
        self.0
    }
}

/// Prints sixteen hexadecimal digits, in the order of the bytes.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
