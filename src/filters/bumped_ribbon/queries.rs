//! Implements [`Query`] for bumped ribbons.

use super::batch::KEYS;
use super::flat::{Blockwise, FlatQuery};
use super::{BumpedRibbon, Form, Groups, Lines, Params, Words};
use crate::filters::filter::Query;
use crate::hash::KeyHash;
use crate::simd::{Simd, prefetch};

/// Queries a filter with any number of columns and layers.
impl Query for BumpedRibbon {
    type Filter = Self;

    #[inline(always)]
    fn may_contain(simd: impl Simd, params: &Params, padded: &[u8], _: usize, hash: KeyHash) -> bool {
        params.whole.ask(simd, padded, hash, params.whole.groups())
    }

    #[inline(always)]
    fn may_contain_batch(
        simd: impl Simd,
        params: &Params,
        padded: &[u8],
        _: usize,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        // `ask_batch` must not get more answers than keys, because it overwrites every answer.
        let answered = answers.len().min(hashes.len());
        let answers = answers.get_mut(..answered).unwrap_or_default();
        for (hashes, answers) in hashes.chunks(KEYS).zip(answers.chunks_mut(KEYS)) {
            params.whole.ask_batch(simd, padded, hashes, answers);
        }
    }

    #[inline(always)]
    fn prefetch(params: &Params, padded: &[u8], _: usize, hash: KeyHash) {
        let Some(flat) = params.flat else { return prefetch(padded, params.whole.first_byte(hash)) };
        match flat.form() {
            Form::Lines => flat.prefetch::<Lines>(padded, hash.raw()),
            Form::Words => flat.prefetch::<Words>(padded, hash.raw()),
            Form::Groups => flat.prefetch::<Groups>(padded, hash.raw()),
        }
    }
}

/// Queries a filter that has a [`Flat`](super::Flat).
impl<F: Blockwise> Query for FlatQuery<F> {
    type Filter = BumpedRibbon;

    #[inline(always)]
    fn may_contain(simd: impl Simd, params: &Params, padded: &[u8], _: usize, hash: KeyHash) -> bool {
        let Some(flat) = params.flat else { return true };
        flat.ask::<F>(&params.whole, simd, padded, hash.raw())
    }

    #[inline(always)]
    fn may_contain_batch(
        simd: impl Simd,
        params: &Params,
        padded: &[u8],
        len: usize,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        BumpedRibbon::may_contain_batch(simd, params, padded, len, hashes, answers);
    }

    #[inline(always)]
    fn prefetch(params: &Params, padded: &[u8], len: usize, hash: KeyHash) {
        BumpedRibbon::prefetch(params, padded, len, hash);
    }
}
