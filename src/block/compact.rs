//! The compact form: a filter for hosts that store many tiny ones under checksums of their own, as LevelDB-like
//! engines do for every 2 KiB of data.
//!
//! ```text
//! | payload, any number of bytes | probes, 1 byte | version << 4 | kind, 1 byte |
//! ```
//! The shape follows from the length. The host hands the slice over anew at each lookup and hashes keys by a
//! [`KeyHasher`](crate::KeyHasher) of its choice, whose function, seed and secret it must keep: nothing here tells it
//! of a wrong one. A standard Bloom filter is sized to the byte; a blocked one takes whole lines of 64 bytes and suits
//! filters of more than a few hundred keys.

use crate::hash::KeyHash;
use crate::kinds::{FilterKind, FilterView, Geometry, Kernel, Shape};

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
/// assert!(compact::may_contain_hash(&bytes, KeyHash::of(b"apple", HashSeed(0))));
/// # Ok::<(), filterblock::Error>(())
/// ```
#[must_use]
pub fn may_contain_hash(bytes: &[u8], hash: KeyHash) -> bool {
    let Some((payload, &[probes, tag])) = bytes.split_last_chunk::<TRAILER_LEN_BYTES>() else { return true };
    if tag >> 4 != VERSION {
        return true;
    }
    let Some(kind) = FilterKind::from_tag(tag & 0xf).filter(|&kind| is_compact(kind)) else { return true };
    let shape = Shape { kind, params: [probes, 0, 0], layers: Vec::new() };
    // The number of keys is not kept: one for each byte, none for none, is a number that the kinds take.
    let geometry = Geometry::new(&shape, payload.len() as u64, payload.len() as u64);
    let Ok(geometry) = geometry else { return true };
    FilterView::new(&geometry, Kernel::of(&geometry), payload, payload.len()).may_contain_hash(hash)
}

/// Appends the trailer; `false` for a shape that does not fit in it.
#[must_use]
pub(super) fn append_shape(bytes: &mut Vec<u8>, shape: &Shape) -> bool {
    let [probes, rest @ ..] = shape.params;
    let tag = shape.kind as u8;
    bytes.extend_from_slice(&[probes, VERSION << 4 | tag & 0xf]);
    is_compact(shape.kind) && rest == [0; 2] && shape.layers.is_empty()
}

/// Kinds whose shape follows from one byte and the payload's length.
fn is_compact(kind: FilterKind) -> bool {
    match kind {
        FilterKind::Empty | FilterKind::Full | FilterKind::Bloom | FilterKind::BlockedBloom => true,
        FilterKind::SplitBlock
        | FilterKind::SplitBlock512
        | FilterKind::Ribbon
        | FilterKind::BumpedRibbon
        | FilterKind::BinaryFuse => false,
    }
}
