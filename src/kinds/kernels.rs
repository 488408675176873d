//! Defines kernels: pointers to the queries of a kind, compiled for an instruction set of this
//! processor.

use super::binary_fuse::{Slots, Width};
use super::blocked_bloom::BlockedBloom;
use super::bloom::Bloom;
use super::bumped_ribbon::{Blockwise, BumpedRibbon, FlatQuery, Form, Groups, Lines, Words};
use super::constant::{AlwaysMaybe, Empty};
use super::geometry::Geometry;
use super::query::Query;
use super::range::Grafite;
use super::ribbon::Ribbon;
use super::split_block::{Lanes, SplitBlock, SplitBlock512};
use crate::hash::KeyHash;
use crate::simd::{Isa, kernels};

kernels! {
    /// The single query of a filter, as a function pointer. The kind and the instruction set are
    /// chosen when the filter is opened, not again for each query. The call takes the payload and
    /// the geometry from which the kernel was chosen; see [`Query`].
    ///
    /// Every filter and every partition keeps a copy of this struct beside the geometry. So the
    /// struct has only one pointer, and the batch query is in another struct: [`BatchKernel`].
    pub(crate) struct Kernel[K: Asked];
    |simd|

    /// Returns `false` if the key was certainly not added, and `true` if it may have been added.
    fn may_contain(geometry: &Geometry, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        match K::asked(geometry) {
            Some(asked) => K::may_contain(simd, asked, padded, len, hash),
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
    fn may_contain_batch(geometry: &Geometry, padded: &[u8], len: usize, hashes: &[KeyHash], answers: &mut [bool]) {
        match K::asked(geometry) {
            Some(asked) => K::may_contain_batch(simd, asked, padded, len, hashes, answers),
            None => answers.iter_mut().zip(hashes).for_each(|(answer, _)| *answer = true),
        }
    }
}

/// Chooses the kernel of a geometry's kind. A kind whose queries use no vector primitive has only a
/// portable kernel.
macro_rules! of_geometry {
    ($kernel:ident, $geometry:expr, $isa:expr) => {
        match $geometry {
            Geometry::Empty => $kernel::new::<Empty>(Isa::PORTABLE),
            Geometry::AlwaysMaybe => $kernel::new::<AlwaysMaybe>(Isa::PORTABLE),
            Geometry::Bloom { .. } => $kernel::new::<Bloom>(Isa::PORTABLE),
            Geometry::BlockedBloom { .. } => $kernel::new::<BlockedBloom>($isa),
            Geometry::SplitBlock { lanes: Lanes::Narrow } => $kernel::new::<SplitBlock>($isa),
            Geometry::SplitBlock { lanes: Lanes::Wide } => $kernel::new::<SplitBlock512>($isa),
            Geometry::Ribbon(_) => $kernel::new::<Ribbon>($isa),
            Geometry::BumpedRibbon(Some(flat), _) => match flat.form() {
                Form::Lines => $kernel::new::<FlatQuery<Lines>>($isa),
                Form::Words => $kernel::new::<FlatQuery<Words>>($isa),
                Form::Groups => $kernel::new::<FlatQuery<Groups>>($isa),
            },
            Geometry::BumpedRibbon(None, _) => $kernel::new::<BumpedRibbon>($isa),
            Geometry::BinaryFuse(fuse) => match fuse.width() {
                Width::Eight => $kernel::new::<Slots<8>>(Isa::PORTABLE),
                Width::Twelve => $kernel::new::<Slots<12>>(Isa::PORTABLE),
                Width::Sixteen => $kernel::new::<Slots<16>>(Isa::PORTABLE),
            },
            Geometry::Range(_) => $kernel::new::<Grafite>(Isa::PORTABLE),
        }
    };
}

impl Kernel {
    /// Returns the kernel for the instruction set that [`Isa::detect`] selects.
    pub(crate) fn of(geometry: &Geometry) -> Self {
        Self::on(Isa::detect(), geometry)
    }

    pub(super) fn on(isa: Isa, geometry: &Geometry) -> Self {
        of_geometry!(Self, geometry, isa)
    }
}

impl BatchKernel {
    /// Returns the kernel for the instruction set that [`Isa::detect`] selects.
    pub(super) fn of(geometry: &Geometry) -> Self {
        Self::on(Isa::detect(), geometry)
    }

    pub(super) fn on(isa: Isa, geometry: &Geometry) -> Self {
        of_geometry!(Self, geometry, isa)
    }
}

/// Queries that find their parameters in a geometry.
trait Asked: Query {
    /// Returns the parameters, or `None` if the geometry does not have them. The queries of
    /// split-block filters accept every geometry.
    fn asked(geometry: &Geometry) -> Option<Self::Asked<'_>>;
}

/// Implements [`Asked`]. Each line gives a type of queries, its geometry, and the parameters that
/// the queries take from the geometry.
macro_rules! asked {
    ($([$($parameter:tt)*] $query:ty: $geometry:pat => $asked:expr;)+) => {
        $(
            impl $($parameter)* Asked for $query {
                #[allow(irrefutable_let_patterns, reason = "queries without parameters match every geometry")]
                #[inline(always)]
                fn asked(geometry: &Geometry) -> Option<Self::Asked<'_>> {
                    let $geometry = geometry else { return None };
                    Some($asked)
                }
            }
        )+
    };
}
asked! {
    [] Empty: Geometry::Empty => ();
    [] AlwaysMaybe: Geometry::AlwaysMaybe => ();
    [] Bloom: &Geometry::Bloom { probes } => probes;
    [] BlockedBloom: &Geometry::BlockedBloom { probes } => probes;
    // The geometry's kind is not compared here: the comparison would add two instructions to about
    // twenty.
    [] SplitBlock: _ => ();
    [] SplitBlock512: _ => ();
    [] Ribbon: Geometry::Ribbon(ribbon) => ribbon;
    [<F: Blockwise>] FlatQuery<F>: Geometry::BumpedRibbon(Some(flat), ribbon) => (*flat, ribbon);
    [] BumpedRibbon: Geometry::BumpedRibbon(_, ribbon) => ribbon;
    [<const BITS: u32>] Slots<BITS>: Geometry::BinaryFuse(fuse) => fuse;
    [] Grafite: Geometry::Range(_) => ();
}

#[cfg(test)]
mod tests;
