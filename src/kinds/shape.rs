//! Defines the data that kinds and block code exchange: shapes, build settings, and zeroed
//! payloads.

use std::num::NonZeroUsize;

use super::FilterKind;
use crate::bits::{NoMemory, try_zeros};

/// The parameters of a filter that a reader needs besides the payload. The trailer and the
/// extension store them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) kind: FilterKind,
    /// The parameters of the kind. For a Bloom filter, the first is the number of probes.
    pub(crate) params: [u8; 3],
    /// The record: the parameters that do not fit in `params`. It is empty for most kinds. It has
    /// at most [`MAX_LAYERS_LEN_BYTES`].
    pub(crate) layers: Vec<u8>,
}

/// The maximum length of [`Shape::layers`].
pub(crate) const MAX_LAYERS_LEN_BYTES: usize = 120;

impl Shape {
    pub(crate) const ALWAYS_MAYBE: Self = Self::plain(FilterKind::AlwaysMaybe, 0);

    /// Makes a shape with one parameter.
    pub(crate) const fn plain(kind: FilterKind, param: u8) -> Self {
        Self { kind, params: [param, 0, 0], layers: Vec::new() }
    }
}

/// The granularity of a payload's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Rounds a standard Bloom filter up to a multiple of eight bytes, for a filter block.
    Words,
    /// Rounds a standard Bloom filter up to a whole byte, for the compact form.
    Bytes,
}

/// The settings of a build besides the kind and the budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounding: Rounding,
    /// The number of threads that may work on one filter. It does not change the filter's bytes.
    pub(crate) threads: NonZeroUsize,
}

/// Allocates a payload of zeros with room for the bytes that a filter block appends: a checksum of
/// 4 bytes per page, the extension and the trailer. Without this room, appending would copy the
/// payload and need twice the memory.
pub(super) fn zeros(len: usize) -> Result<Vec<u8>, NoMemory> {
    let mut payload = try_zeros(len.checked_add(room_behind(len)).ok_or(NoMemory)?)?;
    payload.truncate(len);
    Ok(payload)
}

/// Returns the number of bytes that [`zeros`] reserves after a payload of `len` bytes.
pub(super) fn room_behind(len: usize) -> usize {
    len / 1024 + 320
}
