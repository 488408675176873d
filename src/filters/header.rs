//! Defines the data that filters and block code exchange: headers, build settings, and zeroed
//! payloads.

use std::borrow::Cow;
use std::num::NonZeroUsize;

use super::FilterKind;
use crate::simd::{NoMemory, try_zeros};

/// What a reader needs besides the payload. The trailer and the extension store it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header<'a> {
    /// The kind of filter.
    pub kind: FilterKind,
    /// The parameters of the filter. For a Bloom filter, the first is the number of probes.
    pub params: [u8; 3],
    /// The parameters that do not fit in `params`. Most filters have none. At most
    /// [`MAX_RECORD_LEN_BYTES`].
    pub record: Cow<'a, [u8]>,
}

/// The maximum length of [`Header::record`].
pub(crate) const MAX_RECORD_LEN_BYTES: usize = 120;

impl Header<'_> {
    pub(crate) const ALWAYS_MAYBE: Header<'static> = Header::plain(FilterKind::AlwaysMaybe, 0);

    /// Makes a header with one parameter.
    pub(crate) const fn plain(kind: FilterKind, param: u8) -> Header<'static> {
        Header { kind, params: [param, 0, 0], record: Cow::Borrowed(&[]) }
    }

    pub(crate) fn into_owned(self) -> Header<'static> {
        Header { kind: self.kind, params: self.params, record: self.record.into_owned().into() }
    }
}

/// A built filter: its header and its payload.
pub(crate) type Built = (Header<'static>, Vec<u8>);

/// The budget of a filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Budget {
    /// Thousandths of a bit per distinct key.
    pub(crate) millibits: u32,
    /// The requested FPR, if the budget was given as an FPR.
    pub(crate) rate: Option<f64>,
    /// Whether to build the smallest filter, at the cost of a slower build: see
    /// [`Info::has_compact_build`](super::Info::has_compact_build).
    pub(crate) compact: bool,
    /// The number of integers in the ranges that a range filter is sized for, or 0 for scans.
    pub(crate) range_len: u64,
}

impl Budget {
    /// Makes a budget of thousandths of a bit per key.
    pub(crate) const fn of_millibits(millibits: u32) -> Self {
        Self { millibits, rate: None, compact: false, range_len: 0 }
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

/// The settings of a build besides the filter and the budget.
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
