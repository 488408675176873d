//! The compact form: a filter for hosts that store many tiny ones under checksums of their own, as LevelDB-like
//! engines do for every 2 KiB of data.
//!
//! ```text
//! | payload, any number of bytes | probes, 1 byte | version << 4 | kind, 1 byte |
//! ```
//! The shape follows from the length. The host hands the slice over anew at each lookup and hashes keys with
//! [`KeyHash::of`] under a seed of its choice, which it must keep. A standard Bloom filter is sized to the byte; a
//! blocked one takes whole lines of 64 bytes and suits filters of more than a few hundred keys.

use crate::filter::{FilterKind, FilterView, Isa, Shape};
use crate::hash::KeyHash;

/// Bytes behind the payload.
pub const TRAILER_LEN_BYTES: usize = 2;

const VERSION: u8 = 1;

/// `false` if the key was certainly not added; `true` if it may have been, or if the bytes are no compact filter that
/// this version knows.
///
/// Works at any alignment, on any bytes.
///
/// ```
/// use filterblock::{FilterBuilder, HashSeed, KeyHash, compact};
///
/// let mut builder = FilterBuilder::new("bloom:fpr=0.01".parse()?, HashSeed(0));
/// builder.add(b"apple");
/// let bytes = builder.finish_compact()?;
/// assert!(compact::may_contain(&bytes, KeyHash::of(b"apple", HashSeed(0))));
/// # Ok::<(), filterblock::Error>(())
/// ```
#[must_use]
pub fn may_contain(bytes: &[u8], hash: KeyHash) -> bool {
    let Some((payload, &[probes, tag])) = bytes.split_last_chunk::<TRAILER_LEN_BYTES>() else { return true };
    if tag >> 4 != VERSION {
        return true;
    }
    let shape =
        FilterKind::from_tag(tag & 0xf).and_then(|kind| Shape { kind, probes }.check(payload.len() as u64).ok());
    shape.is_none_or(|shape| FilterView::new(shape, Isa::detect(), payload).may_contain(hash))
}

pub(super) fn append_shape(bytes: &mut Vec<u8>, shape: Shape) {
    bytes.extend_from_slice(&[shape.probes, VERSION << 4 | shape.kind as u8]);
}
