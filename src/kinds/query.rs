//! Defines the queries of a kind. Each query is written once for all instruction sets.

use super::guard::Guard;
use crate::hash::KeyHash;
use crate::simd::{RESIDENT_LEN_BYTES, Simd};

/// The queries of a kind. [`super::kernels`] compiles `may_contain` and `may_contain_batch`.
///
/// `padded` begins with the payload of `len` bytes. Some queries are faster if 64 bytes follow the
/// payload. A query that needs bytes beyond `padded` answers "maybe".
///
/// In every kind, the functions with a [`Simd`] are `#[inline(always)]`, except on rare paths, so
/// that they become part of a function that is compiled for the instruction set.
pub(super) trait Query {
    /// The parameters that a query takes from the geometry.
    type Asked<'a>: Copy;

    /// Returns `false` if the key was certainly not added, and `true` if it may have been added.
    fn may_contain(simd: impl Simd, asked: Self::Asked<'_>, padded: &[u8], len: usize, hash: KeyHash) -> bool;

    /// Answers for many keys: `answers[i]` belongs to `hashes[i]`, up to the shorter of the two
    /// slices. The default implementation prefetches the first cache lines of all keys before the
    /// first query.
    #[inline(always)]
    fn may_contain_batch(
        simd: impl Simd,
        asked: Self::Asked<'_>,
        padded: &[u8],
        len: usize,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        for &hash in hashes {
            Self::prefetch(asked, padded, len, hash);
        }
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            *answer = Self::may_contain(simd, asked, padded, len, hash);
        }
    }

    /// Prefetches the first cache lines that a query of `hash` will need.
    fn prefetch(asked: Self::Asked<'_>, padded: &[u8], len: usize, hash: KeyHash);

    /// Answers for a payload that is not completely verified. A byte for which `guard` returns
    /// `false` cannot prove a key absent. `ask` runs the compiled query.
    fn may_contain_guarded(
        ask: impl FnOnce() -> bool,
        asked: Self::Asked<'_>,
        padded: &[u8],
        len: usize,
        hash: KeyHash,
        guard: &impl Guard,
    ) -> bool;
}

/// Returns the payload, or an empty slice if `padded` has fewer than `len` bytes.
#[inline(always)]
pub(super) fn payload_of(padded: &[u8], len: usize) -> &[u8] {
    padded.get(..len).unwrap_or_default()
}

/// Answers for many keys. If the payload has more than [`RESIDENT_LEN_BYTES`], the function splits
/// the keys into groups of `KEYS`. It prefetches a whole group before it queries the first key of
/// the group.
#[inline(always)]
pub(super) fn in_batches<K: Query, const KEYS: usize>(
    simd: impl Simd,
    asked: K::Asked<'_>,
    payload: &[u8],
    hashes: &[KeyHash],
    answers: &mut [bool],
) {
    if payload.len() <= RESIDENT_LEN_BYTES {
        return answer_all::<K>(simd, asked, payload, hashes, answers);
    }
    for (hashes, answers) in hashes.chunks(KEYS).zip(answers.chunks_mut(KEYS)) {
        for &hash in hashes {
            K::prefetch(asked, payload, payload.len(), hash);
        }
        answer_all::<K>(simd, asked, payload, hashes, answers);
    }
}

#[inline(always)]
fn answer_all<K: Query>(
    simd: impl Simd,
    asked: K::Asked<'_>,
    payload: &[u8],
    hashes: &[KeyHash],
    answers: &mut [bool],
) {
    for (answer, &hash) in answers.iter_mut().zip(hashes) {
        *answer = K::may_contain(simd, asked, payload, payload.len(), hash);
    }
}
