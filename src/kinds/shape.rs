//! What passes between a kind and those who store its filters: shapes, how to build, and payloads of zeros.

use std::num::NonZeroUsize;

use super::kind::FilterKind;
use crate::bits::{NoMemory, try_zeros};

/// What a reader must know besides the payload's bytes, as the trailer keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) kind: FilterKind,
    /// The kind's own; a Bloom filter has its number of probes in the first.
    pub(crate) params: [u8; 3],
    /// What does not fit in `params`; empty for most kinds. Kept in the trailer's extension, at most
    /// [`MAX_LAYERS_LEN_BYTES`].
    pub(crate) layers: Vec<u8>,
}

/// The longest [`Shape::layers`].
pub(crate) const MAX_LAYERS_LEN_BYTES: usize = 120;

impl Shape {
    pub(crate) const FULL: Self = Self::plain(FilterKind::Full, 0);

    /// A shape of one parameter.
    pub(crate) const fn plain(kind: FilterKind, param: u8) -> Self {
        Self { kind, params: [param, 0, 0], layers: Vec::new() }
    }
}

/// How finely a payload may be sized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Standard Bloom filters to eight bytes: what a block does.
    Words,
    /// Standard Bloom filters to one byte: what the compact form does.
    Bytes,
}

/// How a filter is to be built; none of it changes the answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounding: Rounding,
    /// Threads that may work on one filter; they do not change its bytes either.
    pub(crate) threads: NonZeroUsize,
}

/// Allocates a payload of zeros, whose vector has room for what a block appends: 4 bytes for each 4 KiB, a trailer and its extension.
/// Without it the payload would be copied, and be there twice.
pub(super) fn zeros(len: usize) -> Result<Vec<u8>, NoMemory> {
    let mut payload = try_zeros(len.checked_add(room_behind(len)).ok_or(NoMemory)?)?;
    payload.truncate(len);
    Ok(payload)
}

/// See [`zeros`].
pub(super) fn room_behind(len: usize) -> usize {
    len / 1024 + 320
}
