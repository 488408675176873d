//! Defines kernels: pointers to the queries of a kind, compiled for an instruction set of this
//! processor.

use super::Params;
use super::filter::{Asked, Compiled};
use crate::hash::KeyHash;
use crate::simd::{Isa, kernels};

kernels! {
    /// The single query of a filter, as a function pointer. The kind and the instruction set are
    /// chosen when the filter is opened, not again for each query. The call takes the payload and
    /// the params from which the kernel was chosen; see [`Query`].
    ///
    /// Every filter and every partition keeps a copy of this struct beside the params. So the
    /// struct has only one pointer, and the batch query is in another struct: [`BatchKernel`].
    pub(crate) struct Kernel[K: Asked];
    |simd|

    /// Returns `false` if the key was certainly not added, and `true` if it may have been added.
    fn may_contain(params: &Params, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        match K::params(params) {
            Some(params) => K::may_contain(simd, params, padded, len, hash),
            None => true,
        }
    }
}

kernels! {
    /// The batch query of a filter, looked up for each batch.
    pub(super) struct BatchKernel[K: Asked];
    |simd|

    /// Answers for many keys: `answers[i]` belongs to `hashes[i]`, up to the shorter of the two
    /// slices.
    fn may_contain_batch(params: &Params, padded: &[u8], len: usize, hashes: &[KeyHash], answers: &mut [bool]) {
        match K::params(params) {
            Some(params) => K::may_contain_batch(simd, params, padded, len, hashes, answers),
            None => answers.iter_mut().zip(hashes).for_each(|(answer, _)| *answer = true),
        }
    }
}

impl Compiled for Kernel {
    fn of<Q: Asked>(isa: Isa) -> Self {
        Self::new::<Q>(isa)
    }
}

impl Compiled for BatchKernel {
    fn of<Q: Asked>(isa: Isa) -> Self {
        Self::new::<Q>(isa)
    }
}

impl Kernel {
    /// Returns the kernel for the instruction set that [`Isa::detect`] selects.
    pub(crate) fn of(params: &Params) -> Self {
        params.compile(Isa::detect())
    }
}

#[cfg(test)]
mod tests;
