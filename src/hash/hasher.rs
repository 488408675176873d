//! Hashes keys by one of three hash functions, and describes the hasher for files. Derives the
//! fingerprint and the inputs of the hash functions from the user's secret; docs/FORMAT.md, section 6,
//! specifies the derivation.
//!
//! ```text
//! secret, 16 bytes ------------------------------> root, 16 bytes
//! secret, 32 bytes --SipHash-2-4 of (2nd half, 0 or 1), under the 1st half--> root, 16 bytes
//! root --SipHash-2-4 of (label, hash function, number of the word, seed), under the root--> words of 8 bytes
//!                                    word 0: fingerprint; words 1 and up: input of the hash function
//! ```
//! SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012) is designed as a
//! pseudorandom function, so the fingerprint reveals neither the root nor the other words. The
//! derivation does not use XXH3, because the XXH3 hash of a short input is easy to invert.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use siphasher::sip::{SipHasher13, SipHasher24};
use xxhash_rust::xxh3::{xxh3_64_with_secret, xxh3_64_with_seed};

use super::{HashSeed, Key, KeyHash};
use crate::codec::{put_u32, put_u64, u64_bytes};
use crate::error::{Error, Field, Result};
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
    fn word(&self, kind: HashKind, seed: HashSeed, number: u32) -> u64 {
        let mut message = Vec::with_capacity(24);
        message.extend_from_slice(LABEL);
        message.push(kind as u8);
        put_u32(&mut message, number);
        put_u64(&mut message, seed.0);
        self.root.hash(&message)
    }

    fn fingerprint(&self, kind: HashKind, seed: HashSeed) -> Fingerprint {
        Fingerprint::from_bytes(u64_bytes(self.word(kind, seed, 0)))
    }
}

/// Prints `Secret(..)` and nothing of the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The length in bytes of the secret that this crate passes to XXH3. It equals the length of XXH3's
/// default secret.
const XXH3_SECRET_LEN_BYTES: usize = 192;

/// The factor of [`KeyHasher::folded_identity`]: the 40th output of the generator in
/// docs/FORMAT.md, section 7.
const BIND: u64 = 0xe2d3_d19e_fb49_25bb;

impl FromStr for HashKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| Error::invalid("hash function", text, "expected xxh3, xxh3-secret or siphash-1-3; try xxh3"))
    }
}

/// Hashes keys. A hasher is a hash function with its seed and, if the function takes a secret, with
/// the values derived from the secret.
///
/// A store makes one hasher and shares it; `Clone` is cheap. The debug output of a hasher shows
/// nothing secret.
///
/// ```
/// use filterblock::{Expected, FilterBlock, FilterOptions, HashSeed, KeyHasher, Secret, Verify};
///
/// let secret = Secret::new(&[7; 16])?; // a real secret is 16 random bytes
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::sip13(HashSeed(42), &secret));
/// let mut builder = FilterOptions::new("blocked-bloom:10".parse()?).table_id(table_id).builder(&hasher)?;
/// builder.add(hasher.key(b"apple"));
/// let bytes = builder.finish()?.bytes;
///
/// let open = |hasher: &KeyHasher| FilterBlock::open(&bytes, &Expected::of_table(table_id, hasher), Verify::AtOpen);
/// assert!(open(&KeyHasher::xxh3(HashSeed(42))).is_err()); // refused without the secret
/// assert!(open(&hasher)?.may_contain(hasher.key(b"apple")));
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Clone)]
pub struct KeyHasher {
    seed: HashSeed,
    function: Function,
}

#[derive(Clone)]
enum Function {
    Xxh3,
    Xxh3Secret(Arc<[u8; XXH3_SECRET_LEN_BYTES]>, Fingerprint),
    SipHash13((u64, u64), Fingerprint),
}

impl KeyHasher {
    /// Returns a hasher that computes XXH3-64 under `seed`, without a secret.
    #[must_use]
    pub const fn xxh3(seed: HashSeed) -> Self {
        Self { seed, function: Function::Xxh3 }
    }

    /// Returns a hasher that computes XXH3-64 under a secret of 192 bytes. The 192 bytes are
    /// derived from `secret` and `seed`.
    #[must_use]
    pub fn xxh3_with_secret(seed: HashSeed, secret: &Secret) -> Self {
        let kind = HashKind::Xxh3Secret;
        let mut bytes = [0; XXH3_SECRET_LEN_BYTES];
        for (number, word) in (1..).zip(bytes.as_chunks_mut::<8>().0) {
            *word = u64_bytes(secret.word(kind, seed, number));
        }
        Self { seed, function: Function::Xxh3Secret(Arc::new(bytes), secret.fingerprint(kind, seed)) }
    }

    /// Returns a hasher that computes SipHash-1-3 under 16 bytes that are derived from `secret` and
    /// `seed`.
    #[must_use]
    pub fn sip13(seed: HashSeed, secret: &Secret) -> Self {
        let kind = HashKind::SipHash13;
        let key = (secret.word(kind, seed, 1), secret.word(kind, seed, 2));
        Self { seed, function: Function::SipHash13(key, secret.fingerprint(kind, seed)) }
    }

    /// Makes a hasher of the given kind.
    ///
    /// # Errors
    /// Returns [`Error::Secret`] if the function takes a secret and none is given. Returns
    /// [`Error::Invalid`] if a secret is given and the function takes none.
    pub fn new(kind: HashKind, seed: HashSeed, secret: Option<&Secret>) -> Result<Self> {
        match (kind, secret) {
            (HashKind::Xxh3, None) => Ok(Self::xxh3(seed)),
            (HashKind::Xxh3, Some(_)) => {
                let reason = format!("the hash function {kind} takes no secret; leave the secret out");
                Err(Error::invalid("secret", "(not shown)", reason))
            }
            (HashKind::Xxh3Secret, Some(secret)) => Ok(Self::xxh3_with_secret(seed, secret)),
            (HashKind::SipHash13, Some(secret)) => Ok(Self::sip13(seed, secret)),
            (HashKind::Xxh3Secret | HashKind::SipHash13, None) => {
                Err(Error::Secret { hash: kind, stored: None, given: None })
            }
        }
    }

    /// Hashes a key, for all filters of this hasher. Prefixes are hashed in the same way.
    #[must_use]
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key { bytes, hash: self.of(bytes) }
    }

    /// Returns the hash of a key alone: see [`key`](Self::key).
    #[must_use]
    #[inline]
    pub fn of(&self, key: &[u8]) -> KeyHash {
        let raw = match &self.function {
            Function::Xxh3 => xxh3_64_with_seed(key, self.seed.0),
            Function::Xxh3Secret(secret, _) => xxh3_64_with_secret(key, &secret[..]),
            Function::SipHash13((k0, k1), _) => SipHasher13::new_with_keys(*k0, *k1).hash(key),
        };
        KeyHash {
            raw,
            #[cfg(debug_assertions)]
            made_by: self.tag(),
        }
    }

    #[inline]
    fn kind_and_fingerprint(&self) -> (HashKind, Option<Fingerprint>) {
        match &self.function {
            Function::Xxh3 => (HashKind::Xxh3, None),
            Function::Xxh3Secret(_, fingerprint) => (HashKind::Xxh3Secret, Some(*fingerprint)),
            Function::SipHash13(_, fingerprint) => (HashKind::SipHash13, Some(*fingerprint)),
        }
    }

    /// Returns the tag of this hasher, which is never 0. Two different hashers have the same tag
    /// only by chance.
    #[cfg(debug_assertions)]
    fn tag(&self) -> u64 {
        let (kind, secret) = self.kind_and_fingerprint();
        let secret = secret.map_or(0, |secret| u64::from_le_bytes(secret.to_bytes()));
        // Without a secret, at most two seeds have the same tag: every step but the last is
        // invertible, and the last step drops one bit.
        let mixed =
            (self.seed.0 ^ secret.rotate_left(32)).wrapping_add(kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 32) | 1
    }

    /// Panics if another hasher made the hash: with that hash, the filter could deny keys that it
    /// holds. A hash from [`KeyHash::from_raw`] is accepted. Release builds check nothing.
    #[cfg(debug_assertions)]
    pub(crate) fn debug_check(&self, hash: KeyHash) {
        let is_ours = hash.made_by == 0 || hash.made_by == self.tag();
        assert!(is_ours, "the hash was made by another hasher than {self:?}; hash keys with the filter's hasher");
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "debug builds use it")]
    pub(crate) fn debug_check(&self, _: KeyHash) {}

    /// Returns the public identity of the hasher. Hashers with the same identity give the same
    /// hashes, unless two secrets have the same fingerprint by chance.
    #[must_use]
    pub fn identity(&self) -> HashIdentity {
        let (kind, fingerprint) = self.kind_and_fingerprint();
        HashIdentity { kind, seed: self.seed, fingerprint }
    }

    /// Returns 32 bits that identify the hasher, for the checksum of the compact form. Two
    /// different hashers have the same bits only by chance.
    #[inline]
    pub(crate) fn folded_identity(&self) -> u32 {
        let (kind, fingerprint) = self.kind_and_fingerprint();
        let fingerprint = fingerprint.map_or(0, |fingerprint| u64::from_le_bytes(fingerprint.to_bytes()));
        // The shift leaves 32 bits.
        ((self.seed.0 ^ fingerprint).wrapping_mul(BIND) >> 32) as u32 ^ kind as u32
    }

    /// Returns the public seed.
    #[must_use]
    pub fn seed(&self) -> HashSeed {
        self.seed
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyHasher").field(&self.identity()).finish()
    }
}

impl From<&KeyHasher> for KeyHasher {
    fn from(hasher: &KeyHasher) -> Self {
        hasher.clone()
    }
}

/// Makes an XXH3 hasher without a secret.
impl From<HashSeed> for KeyHasher {
    fn from(seed: HashSeed) -> Self {
        Self::xxh3(seed)
    }
}

/// The public identity of a hasher, without the secret. A file stores the identity of the hasher of
/// its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HashIdentity {
    /// The hash function.
    pub kind: HashKind,
    /// The seed of the hash function.
    pub seed: HashSeed,
    /// The fingerprint of the secret, if the function takes one.
    pub fingerprint: Option<Fingerprint>,
}

impl HashIdentity {
    /// Makes an identity. Returns `None` if the function takes a secret and `fingerprint` is
    /// missing, or if the function takes no secret and `fingerprint` is given.
    #[must_use]
    pub fn new(kind: HashKind, seed: HashSeed, fingerprint: Option<Fingerprint>) -> Option<Self> {
        (kind.takes_secret() == fingerprint.is_some()).then_some(Self { kind, seed, fingerprint })
    }

    /// Makes the hasher that this identity describes.
    ///
    /// # Errors
    /// Returns [`Error::Secret`] if the secret is missing or wrong, and [`Error::Invalid`] if a
    /// secret is given and the function takes none.
    pub fn hasher(&self, secret: Option<&Secret>) -> Result<KeyHasher> {
        let hasher = KeyHasher::new(self.kind, self.seed, secret).map_err(|error| match error {
            // `KeyHasher::new` does not know the fingerprint that the error must name.
            Error::Secret { hash, given, .. } => Error::Secret { hash, stored: self.fingerprint, given },
            other => other,
        })?;
        self.check(&hasher).map(|()| hasher)
    }

    /// Checks that `hasher` has this identity.
    ///
    /// # Errors
    /// Returns [`Error::Unexpected`] for another function or seed, and [`Error::Secret`] for
    /// another secret.
    pub fn check(&self, hasher: &KeyHasher) -> Result<()> {
        let given = hasher.identity();
        if given.kind != self.kind {
            return Err(Error::unexpected(Field::HashId, self.kind, given.kind));
        }
        if given.seed != self.seed {
            return Err(Error::unexpected(Field::Seed, self.seed.0, given.seed.0));
        }
        match (self.fingerprint, given.fingerprint) {
            (Some(stored), Some(given)) if stored != given => {
                Err(Error::Secret { hash: self.kind, stored: Some(stored), given: Some(given) })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(fill: u8) -> Secret {
        Secret::new(&[fill; 16]).unwrap()
    }

    fn keyed(fill: u8, seed: u64) -> [KeyHasher; 2] {
        [KeyHasher::xxh3_with_secret(HashSeed(seed), &secret(fill)), KeyHasher::sip13(HashSeed(seed), &secret(fill))]
    }

    #[test]
    fn function_seed_and_secret_each_change_hash_and_identity() {
        let mut hashers = vec![KeyHasher::xxh3(HashSeed(1)), KeyHasher::xxh3(HashSeed(2))];
        hashers.extend(keyed(1, 1).into_iter().chain(keyed(1, 2)).chain(keyed(2, 1)));
        for len in [0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 2_000] {
            let key = vec![5; len];
            for (i, a) in hashers.iter().enumerate() {
                for b in &hashers[i + 1..] {
                    assert_ne!(a.of(&key), b.of(&key), "{a:?} and {b:?}, {len} bytes");
                    assert_ne!(a.identity(), b.identity());
                    assert!(a.identity().check(b).is_err() && a.identity().check(a).is_ok());
                }
            }
        }
        assert_eq!(KeyHasher::xxh3(HashSeed(7)).of(b"key"), KeyHash::of(b"key", HashSeed(7)));
    }

    #[test]
    fn a_secret_has_16_or_32_bytes_and_is_never_printed() {
        for len in 0..70 {
            let made = Secret::new(&vec![0xab; len]);
            assert_eq!(made.is_ok(), len == 16 || len == 32, "{len}");
        }
        for fill in [0xab; 32].chunks(16).chain([[0xab; 32].as_slice()]) {
            let secret = Secret::new(fill).unwrap();
            let hashers = [KeyHasher::sip13(HashSeed(1), &secret), KeyHasher::xxh3_with_secret(HashSeed(1), &secret)];
            assert_eq!(format!("{secret:?}"), "Secret(..)");
            for hasher in hashers {
                let printed = format!("{hasher:?}");
                assert!(printed.len() < 160 && !printed.contains("171, 171"), "{printed}");
            }
        }
    }

    #[test]
    fn hash_kind_names_parse_back() {
        for kind in HashKind::ALL {
            assert_eq!(kind.to_string().parse::<HashKind>().unwrap(), kind);
            assert_eq!(HashKind::from_id(kind as u8), Some(kind));
        }
        assert!("sha-256".parse::<HashKind>().is_err());
        assert!(HashKind::from_id(0).is_none() && HashKind::from_id(4).is_none());
    }
}
