//! Defines the view of a filter, which answers queries from a payload and its parameters.

use super::Params;
use super::kernels::{BatchKernel, Kernel};
use crate::hash::KeyHash;
use crate::simd::Isa;

/// A filter that is ready for queries. It borrows a payload and the parameters that were checked
/// against the payload's length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilterView<'a> {
    params: &'a Params,
    kernel: Kernel,
    /// The length of the payload.
    len: usize,
    /// The payload and the bytes after it: vector loads may read beyond the payload's end.
    padded: &'a [u8],
}

impl<'a> FilterView<'a> {
    /// Makes a view. `padded` begins with the payload of `len` bytes, and `params` was made for
    /// this length. If `padded` has fewer than `len` bytes, answers are "maybe". Without 64 bytes
    /// after the payload, some queries are slower or answer "maybe" needlessly. `kernel` must be
    /// the kernel of `params`.
    #[inline]
    pub(crate) fn new(params: &'a Params, kernel: Kernel, padded: &'a [u8], len: usize) -> Self {
        // If the payload is incomplete, the view drops all of it. Every kind that has a payload
        // answers "maybe" if the payload is empty.
        let (padded, len): (&[u8], _) = if padded.len() < len { (&[], 0) } else { (padded, len) };
        Self { params, kernel, len, padded }
    }

    /// Returns `false` if the key was certainly not added, and `true` if it may have been added.
    #[inline]
    pub(crate) fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.kernel.may_contain(self.params, self.padded, self.len, hash)
    }

    /// Queries a payload that is not completely verified. A range of bytes, given by offset and
    /// length, for which `is_valid` returns `false` cannot prove a key absent.
    #[inline]
    pub(crate) fn may_contain_if_valid(&self, hash: KeyHash, is_valid: impl Fn(usize, usize) -> bool) -> bool {
        self.params.may_contain_if_valid(|| self.may_contain_hash(hash), self.padded, self.len, hash, is_valid)
    }

    /// Answers for many keys. A batch is usually faster than single queries.
    ///
    /// `answers[i]` belongs to `hashes[i]`. If the slices differ in length, the answers beyond the
    /// shorter one do not change.
    pub(crate) fn may_contain_batch(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        let kernel: BatchKernel = self.params.compile(Isa::detect());
        kernel.may_contain_batch(self.params, self.padded, self.len, hashes, answers);
    }

    /// Prefetches the first cache lines that a query of `hash` will need.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        self.params.prefetch(self.padded, self.len, hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_without_bits_answer_for_valid_and_other_bytes() {
        for (params, answer) in [(Params::Empty(()), false), (Params::AlwaysMaybe(()), true)] {
            let view = FilterView::new(&params, Kernel::of(&params), &[], 0);
            let hash = KeyHash::from_raw(7);
            // The code of a filter denies nothing for the parameters of another filter.
            let of_other = FilterView::new(&Params::AlwaysMaybe(()), Kernel::of(&params), &[], 0);
            assert!(of_other.may_contain_hash(hash));
            assert_eq!((view.may_contain_hash(hash), view.may_contain_if_valid(hash, |_, _| true)), (answer, answer));
        }
    }
}
