//! Defines kernels: pointers to the queries of a kind, compiled for an instruction set of this
//! processor. Defines the parameters of a filter that is opened for one query, without heap memory.

use std::ops::Bound;

use super::build::Header;
use super::bumped_ribbon::Unread;
use super::filter::{Asked, Compiled, payload_of};
use super::range::{self, RangeHash, RangeKernel, is_empty_range, is_reversed_range};
use super::{FilterKind, Params, ribbon};
use crate::error::Result;
use crate::hash::{KeyHash, KeyHasher};
use crate::simd::ribbon::Layout;
use crate::simd::{Isa, Portable, kernels};

kernels! {
    /// The single query of a filter, as a function pointer. The kind and the instruction set are
    /// chosen when the filter is opened, not again for each query. The call takes the payload and
    /// the params from which the kernel was chosen; see [`Query`].
    ///
    /// Every filter and every partition keeps a copy of this struct beside the params. So the
    /// struct has only one pointer, and the batch query is in another struct: [`BatchKernel`].
    pub(crate) struct Kernel[K: Asked];
    |simd|

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
    pub(crate) fn of(params: &Params) -> Self {
        params.compile(Isa::detect())
    }
}

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

    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        self.params.prefetch(self.padded, self.len, hash);
    }
}

/// The parameters of a filter in borrowed bytes. They answer like the [`Params`] of the same header.
#[derive(Debug, Clone)]
pub(crate) enum InlineParams<'a> {
    /// A filter whose parameters are a few numbers.
    Plain(Params, Kernel),
    Ribbon(Layout),
    /// A bumped ribbon. Each query parses the record of the layers, because the parsed layers may
    /// take more than a kilobyte. A query answers "maybe" if the geometry is invalid.
    BumpedRibbon(Unread<'a>),
    Range(range::Geometry),
}

impl<'a> InlineParams<'a> {
    /// Reads a header: see [`Params::new`]. For a bumped ribbon, this function checks nothing.
    #[inline]
    pub(crate) fn new(header: Header<'a>, num_keys: u64, len_bytes: u64) -> Result<Self> {
        let Header { kind, params, record } = &header;
        match kind {
            FilterKind::Ribbon => Ok(Self::Ribbon(ribbon::parse(*params, record, num_keys, len_bytes)?)),
            FilterKind::BumpedRibbon => Ok(Self::BumpedRibbon(Unread { header, num_keys, len_bytes })),
            FilterKind::Grafite => Ok(Self::Range(range::Geometry::parse(*params, record, num_keys, len_bytes)?)),
            _ => {
                let params = Params::new(&header, num_keys, len_bytes)?;
                let kernel = Kernel::of(&params);
                Ok(Self::Plain(params, kernel))
            }
        }
    }

    /// Returns `false` if no added key lies between the bounds, and `true` if one may. `padded`
    /// begins with the payload of `len` bytes. For a filter of keys, the answer is `true`, unless
    /// the range is empty or the filter is of the kind `empty`. It is `true` for a reversed range.
    pub(crate) fn may_contain_range(
        &self,
        hasher: &KeyHasher,
        padded: &[u8],
        len: usize,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) -> bool {
        match self {
            Self::Range(geometry) => {
                RangeKernel::detect().may_contain(geometry, &RangeHash::of(hasher), padded, len, lower, upper)
            }
            Self::Plain(Params::Empty(()), _) => is_reversed_range(lower, upper),
            Self::Plain(..) | Self::Ribbon(_) | Self::BumpedRibbon(_) => !is_empty_range(lower, upper),
        }
    }

    /// Returns `false` if the key was certainly not added, and `true` if it may have been added.
    /// `padded` begins with the payload of `len` bytes; if `padded` is shorter, the answer is
    /// "maybe".
    #[inline]
    pub(crate) fn may_contain(&self, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        if padded.len() < len {
            return true;
        }
        match self {
            Self::Plain(params, kernel) => kernel.may_contain(params, padded, len, hash),
            Self::Ribbon(ribbon) => ribbon.holds(Portable, payload_of(padded, len), &ribbon.row(hash.raw())),
            Self::BumpedRibbon(unread) => unread.may_contain(padded, hash),
            // A range filter needs the bytes of the key: see `may_contain_range`.
            Self::Range(_) => true,
        }
    }
}
