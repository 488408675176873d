//! Implements [`Query`] for bumped ribbons.

use super::BumpedRibbon;
use super::batch::KEYS;
use super::flat::{Blockwise, Flat, FlatQuery};
use super::read::Geometry;
use crate::hash::KeyHash;
use crate::kinds::guard::{Guard, or_maybe};
use crate::kinds::query::Query;
use crate::simd::{Simd, prefetch};

/// Queries a filter with any number of columns and layers.
impl Query for BumpedRibbon {
    type Asked<'a> = &'a Geometry;

    #[inline(always)]
    fn may_contain(simd: impl Simd, ribbon: &Geometry, padded: &[u8], _: usize, hash: KeyHash) -> bool {
        ribbon.ask(simd, padded, hash, ribbon.groups())
    }

    #[inline(always)]
    fn may_contain_batch(
        simd: impl Simd,
        ribbon: &Geometry,
        padded: &[u8],
        _: usize,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        // `ask_batch` must not get more answers than keys, because it overwrites every answer.
        let answered = answers.len().min(hashes.len());
        let answers = answers.get_mut(..answered).unwrap_or_default();
        for (hashes, answers) in hashes.chunks(KEYS).zip(answers.chunks_mut(KEYS)) {
            ribbon.ask_batch(simd, padded, hashes, answers);
        }
    }

    #[inline(always)]
    fn prefetch(ribbon: &Geometry, padded: &[u8], _: usize, hash: KeyHash) {
        prefetch(padded, ribbon.first_byte(hash));
    }

    #[inline]
    fn may_contain_guarded(
        ask: impl FnOnce() -> bool,
        ribbon: &Geometry,
        padded: &[u8],
        _: usize,
        hash: KeyHash,
        guard: &impl Guard,
    ) -> bool {
        or_maybe(ask(), guard, || ribbon.is_sound(padded, hash, guard))
    }
}

/// Queries a filter that has a [`Flat`]. Batch queries and guarded queries call [`BumpedRibbon`].
impl<F: Blockwise> Query for FlatQuery<F> {
    type Asked<'a> = (Flat, &'a Geometry);

    #[inline(always)]
    fn may_contain(simd: impl Simd, (flat, whole): (Flat, &Geometry), padded: &[u8], _: usize, hash: KeyHash) -> bool {
        flat.ask::<F>(whole, simd, padded, hash.raw())
    }

    #[inline(always)]
    fn may_contain_batch(
        simd: impl Simd,
        (_, whole): (Flat, &Geometry),
        padded: &[u8],
        len: usize,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        BumpedRibbon::may_contain_batch(simd, whole, padded, len, hashes, answers);
    }

    #[inline(always)]
    fn prefetch((flat, _): (Flat, &Geometry), padded: &[u8], _: usize, hash: KeyHash) {
        flat.prefetch::<F>(padded, hash.raw());
    }

    #[inline]
    fn may_contain_guarded(
        ask: impl FnOnce() -> bool,
        (_, whole): (Flat, &Geometry),
        padded: &[u8],
        len: usize,
        hash: KeyHash,
        guard: &impl Guard,
    ) -> bool {
        BumpedRibbon::may_contain_guarded(ask, whole, padded, len, hash, guard)
    }
}
