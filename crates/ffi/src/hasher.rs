//! Makes key hashers, and hashes keys. A store uses one hasher for all filters.
#![expect(unsafe_code, reason = "exported functions take pointers of the caller")]

use std::ffi::c_void;

use filterblock::{HashSeed, KeyHasher, Secret};

use crate::border;
use crate::error::{ErrorInfo, Failure};
use crate::raw;

/// The hash that stands for no key. `filterblock_hasher_hash` returns it for a NULL pointer. A
/// query of this hash answers "maybe" or `FILTERBLOCK_ANSWER_UNFILTERED`. If this hash is added to
/// a builder, finishing fails.
///
/// A key has this hash with a probability of 2^-64.
pub const FILTERBLOCK_NO_HASH: u64 = 0;

/// A hash function with its seed and secret. A store makes one and uses it for all filters.
///
/// Any number of threads may share a hasher. Builders, filters and sets copy the hasher, so the
/// caller may free it before them. Free it with `filterblock_hasher_free`.
pub struct Hasher(pub(crate) KeyHasher);

impl Hasher {
    fn boxed(hasher: KeyHasher) -> Box<Self> {
        Box::new(Self(hasher))
    }
}

/// Makes a hasher that uses XXH3-64 with a public seed.
///
/// Returns a handle for `filterblock_hasher_free`, or NULL after a panic.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_hasher_new_xxh3(seed: u64) -> Option<Box<Hasher>> {
    border::or(None, || Some(Hasher::boxed(KeyHasher::xxh3(HashSeed(seed)))))
}

/// Makes a hasher that uses XXH3-64 with a public seed and a secret of 16 or 32 random bytes. The
/// hasher is harder to attack with chosen keys than XXH3 without a secret. It does not refer to
/// `secret` after the call.
///
/// Returns a handle for `filterblock_hasher_free`, or NULL and an error. `INVALID` means that the
/// secret has another length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_hasher_new_xxh3_secret(
    seed: u64,
    secret: *const c_void,
    secret_len: usize,
    error: *mut ErrorInfo,
) -> Option<Box<Hasher>> {
    // SAFETY: the header asks for valid pointers.
    unsafe { with_secret(KeyHasher::xxh3_with_secret, seed, (secret, secret_len), error) }
}

/// Makes a hasher that uses SipHash-1-3 with a public seed and a secret of 16 or 32 random bytes.
/// Use it if attackers may choose keys. The hasher does not refer to `secret` after the call.
///
/// Returns a handle for `filterblock_hasher_free`, or NULL and an error. `INVALID` means that the
/// secret has another length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_hasher_new_sip13(
    seed: u64,
    secret: *const c_void,
    secret_len: usize,
    error: *mut ErrorInfo,
) -> Option<Box<Hasher>> {
    // SAFETY: the header asks for valid pointers.
    unsafe { with_secret(KeyHasher::sip13, seed, (secret, secret_len), error) }
}

/// # Safety
/// The pointers are NULL or valid.
unsafe fn with_secret(
    make: fn(HashSeed, &Secret) -> KeyHasher,
    seed: u64,
    (secret, secret_len): (*const c_void, usize),
    error: *mut ErrorInfo,
) -> Option<Box<Hasher>> {
    // SAFETY: the caller upholds the contract of this function.
    let made = unsafe {
        border::report(error, || {
            let bytes = raw::bytes(secret, secret_len).ok_or(Failure::Bytes("secret"))?;
            Ok(Hasher::boxed(make(HashSeed(seed), &Secret::new(bytes)?)))
        })
    };
    made.ok()
}

/// Frees a hasher. NULL is fine. Freeing twice is undefined behaviour.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_hasher_free(hasher: Option<Box<Hasher>>) {
    border::or((), || drop(hasher));
}

/// Returns the hash of a key of `key_len` bytes. Use one hash to ask all filters of the store.
///
/// Returns `FILTERBLOCK_NO_HASH` if `hasher` is NULL, or if `key` is NULL and `key_len` is not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_hasher_hash(hasher: Option<&Hasher>, key: *const c_void, key_len: usize) -> u64 {
    // SAFETY: the header asks for valid pointers.
    let key = unsafe { raw::bytes(key, key_len) };
    let (Some(Hasher(hasher)), Some(key)) = (hasher, key) else { return FILTERBLOCK_NO_HASH };
    border::or(FILTERBLOCK_NO_HASH, || hasher.of(key).raw())
}
