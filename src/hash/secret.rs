//! Derives the fingerprint and the inputs of the hash functions from the user's secret.
//! docs/FORMAT.md, section 6, specifies the derivation.
//!
//! ```text
//! secret, 16 bytes ------------------------------> root, 16 bytes
//! secret, 32 bytes --SipHash-2-4 of (2nd half, 0 or 1), under the 1st half--> root, 16 bytes
//! root --SipHash-2-4 of (label, hash function, number of the word, seed), under the root--> words of 8 bytes
//!                                    word 0: fingerprint; words 1 and up: input of the hash function
//! ```
//! SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012) is designed as a
//! pseudorandom function, so the fingerprint reveals neither the root nor the other words. This
//! module does not use XXH3, because the XXH3 hash of a short input is easy to invert.

use std::fmt;

use siphasher::sip::SipHasher24;

use super::HashSeed;
use crate::codec::{put_u32, put_u64, u64_bytes};
use crate::error::{Error, Result};
use crate::hash_kind::{Fingerprint, HashKind};

const LABEL: &[u8; 11] = b"filterblock";

/// The secret under which a store hashes its keys. [`HashKind`] says how well each hash function
/// resists chosen keys.
///
/// The secret is 16 or 32 random bytes; both lengths give a strength of 128 bits. Do not use a
/// passphrase: an attacker who has a file can try millions of guesses per second. This crate never
/// prints the secret or writes it to a file. Memory that held the secret is not wiped.
#[derive(Clone)]
pub struct Secret {
    root: SipHasher24,
}

impl Secret {
    /// Makes a secret from 16 or 32 random bytes.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for any other number of bytes.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let of_half = |half: &[u8; 16]| SipHasher24::new_with_key(half);
        let root = match bytes.as_chunks::<16>() {
            ([whole], []) => of_half(whole),
            ([first, second], []) => {
                let under = of_half(first);
                let word = |number: u8| {
                    let mut message = second.to_vec();
                    message.push(number);
                    under.hash(&message)
                };
                SipHasher24::new_with_keys(word(0), word(1))
            }
            _ => {
                let given = format!("of {} bytes", bytes.len());
                return Err(Error::invalid("secret", given, "expected 16 or 32 random bytes; try openssl rand 16"));
            }
        };
        Ok(Self { root })
    }

    /// Derives word `number` for a hash function under a seed. Word 0 is the fingerprint.
    pub(super) fn word(&self, kind: HashKind, seed: HashSeed, number: u32) -> u64 {
        let mut message = Vec::with_capacity(24);
        message.extend_from_slice(LABEL);
        message.push(kind as u8);
        put_u32(&mut message, number);
        put_u64(&mut message, seed.0);
        self.root.hash(&message)
    }

    pub(super) fn fingerprint(&self, kind: HashKind, seed: HashSeed) -> Fingerprint {
        Fingerprint::from_bytes(u64_bytes(self.word(kind, seed, 0)))
    }
}

/// Prints `Secret(..)` and nothing of the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
