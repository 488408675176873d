//! The compact form of a filter. It is for hosts that store many tiny filters and protect them with
//! their own checksums, as LevelDB-like engines do for every 2 KiB of data.
//!
//! ```text
//! | payload, any number of bytes | probes, 1 byte | version << 4 | kind, 1 byte |
//! ```
//! The shape of the filter follows from these two bytes and the payload's length. The host passes
//! the bytes at each lookup and hashes keys with a [`KeyHasher`](crate::KeyHasher) of its choice.
//! The host must keep the hash function, the seed and the secret, because the compact form cannot
//! detect a wrong hasher.
//!
//! A standard Bloom filter may have any number of bytes. A blocked Bloom filter takes whole lines
//! of 64 bytes, so it suits filters of more than a few hundred keys.

use crate::hash::KeyHash;
use crate::kinds::{FilterKind, FilterView, Geometry, Kernel, Shape};

/// Number of bytes after the payload.
pub const TRAILER_LEN_BYTES: usize = 2;

const VERSION: u8 = 1;

/// Returns `false` if the key was certainly not added. Returns `true` if the key may have been
/// added, or if `bytes` are not a compact filter of this version.
///
/// Takes any bytes at any alignment.
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
    // The compact form does not store the number of keys. One key per byte is a number that all
    // compact kinds accept.
    let geometry = Geometry::new(&shape, payload.len() as u64, payload.len() as u64);
    let Ok(geometry) = geometry else { return true };
    FilterView::new(&geometry, Kernel::of(&geometry), payload, payload.len()).may_contain_hash(hash)
}

/// Appends the trailer. Returns `false` if the trailer cannot describe `shape`; then `bytes` are
/// not a compact filter.
#[must_use]
pub(super) fn append_shape(bytes: &mut Vec<u8>, shape: &Shape) -> bool {
    let [probes, rest @ ..] = shape.params;
    let tag = shape.kind as u8;
    bytes.extend_from_slice(&[probes, VERSION << 4 | tag & 0xf]);
    is_compact(shape.kind) && rest == [0; 2] && shape.layers.is_empty()
}

/// Returns whether the shape of a kind follows from one byte and the payload's length.
fn is_compact(kind: FilterKind) -> bool {
    match kind {
        FilterKind::Empty | FilterKind::Full | FilterKind::Bloom | FilterKind::BlockedBloom => true,
        FilterKind::SplitBlock
        | FilterKind::SplitBlock512
        | FilterKind::Ribbon
        | FilterKind::BumpedRibbon
        | FilterKind::BinaryFuse
        | FilterKind::Grafite => false,
    }
}
