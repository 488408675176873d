//! Defines the compact form of filters, and checks and queries filters in this form. The compact
//! form is for hosts that store many tiny filters as bytes and pass the bytes to every query.
//!
//! ```text
//! | payload, any number of bytes | header, 1 byte | checksum, 4 bytes |
//! ```
//! The header is `32 * kind + probes`. This byte and the payload's length determine the params.
//! The checksum covers payload and header, and is bound to the hash function, the seed and the
//! secret. Every query verifies the checksum, and answers [`Answer::Unfiltered`] if it does not
//! match. The checksum always detects damage within four consecutive bytes. In filters of up to
//! 11,450 bytes, it also detects up to three flipped bits. It misses other damage, or another
//! hasher, with a probability of 2^-32. Then a query can deny a present key.
//!
//! An undamaged filter of other keys cannot be detected, because the compact form has no table id.
//! See docs/DESIGN.md for the reasons for this checksum.
//!
//! A standard Bloom filter may have any number of bytes. A blocked Bloom filter takes whole lines
//! of 64 bytes, so it suits filters of more than a few hundred keys.

use super::part::Answer;
use crate::codec::crc32;
use crate::error::{Error, Field, Result};
use crate::filters::{FilterKind, FilterView, Header, Kernel, Params};
use crate::hash::{KeyHash, KeyHasher};

/// The number of bytes after the payload. It is the minimum length of a filter in the compact form.
pub const TRAILER_LEN_BYTES: usize = 5;

/// The factor of the kind in a header: the header is `HEADER_KIND * kind + probes`.
const HEADER_KIND: u8 = 32;

/// Asks a filter whether it may hold the key with this hash. Verifies the checksum first.
///
/// `hasher` is the hasher of the filter's keys, and `hash` is the hash of the key by this hasher.
/// Debug builds panic if another hasher made the hash, unless [`KeyHash::from_raw`] made it.
/// `bytes` may have any content and any alignment. The answer is [`Answer::Unfiltered`] if
/// [`check`] returns an error.
///
/// ```
/// use filterblock::{Answer, FilterOptions, HashSeed, KeyHasher, compact};
///
/// let hasher = KeyHasher::xxh3(HashSeed(42));
/// let mut builder = FilterOptions::new("bloom:fpr=0.01".parse()?).builder(&hasher)?;
/// builder.add(hasher.key(b"apple"));
/// let mut bytes = builder.finish_compact()?;
/// let ask = |bytes: &[u8], key: &[u8]| compact::ask(bytes, &hasher, hasher.of(key));
/// assert_eq!(ask(&bytes, b"apple"), Answer::Maybe);
/// assert_eq!(ask(&bytes, b"pear"), Answer::No);
///
/// bytes[0] ^= 1;
/// assert_eq!(ask(&bytes, b"pear"), Answer::Unfiltered);
/// assert!(compact::check(&bytes, &hasher).unwrap_err().is_damage());
/// # Ok::<(), filterblock::Error>(())
/// ```
#[must_use]
#[inline]
pub fn ask(bytes: &[u8], hasher: &KeyHasher, hash: KeyHash) -> Answer {
    hasher.debug_check(hash);
    let Ok((payload, params)) = open(bytes, hasher) else { return Answer::Unfiltered };
    FilterView::new(&params, Kernel::of(&params), payload, payload.len()).may_contain_hash(hash).into()
}

/// Checks that [`ask`] can use a filter. See [the module](self) for the damage that the checksum
/// can miss.
///
/// # Errors
/// - Returns [`Error::ChecksumMismatch`] if the checksum does not match: the bytes are damaged, or
///   another hasher hashed the keys.
/// - Returns [`Error::Unsupported`] if the checksum matches, but the kind is unknown or has no
///   compact form in this version.
/// - Returns [`Error::Corrupt`] if the bytes are too short, or if the checksum matches but no
///   filter has this header and length.
pub fn check(bytes: &[u8], hasher: &KeyHasher) -> Result<()> {
    open(bytes, hasher).map(|_| ())
}

/// Verifies the checksum and reads the header. Returns the payload and its params.
#[inline]
fn open<'a>(bytes: &'a [u8], hasher: &KeyHasher) -> Result<(&'a [u8], Params)> {
    let corrupt = |field, at: usize| Error::Corrupt { field, offset: at as u64 };
    let (covered, &stored) = bytes.split_last_chunk().ok_or_else(|| corrupt(Field::Length, 0))?;
    let (&header, payload) = covered.split_last().ok_or_else(|| corrupt(Field::Length, 0))?;
    let (stored, computed) = (u32::from_le_bytes(stored), checksum(covered, hasher));
    if stored != computed {
        return Err(Error::ChecksumMismatch { field: Field::CompactFilter, offset: 0, stored, computed });
    }
    let kind = kind_of(header).ok_or(Error::Unsupported { field: Field::CompactFilter, found: header.into() })?;
    let header = Header::plain(kind, header % HEADER_KIND);
    // The compact form does not store the number of keys, so the number of bytes takes its place.
    // All kinds with a compact form accept one key per byte.
    let params = Params::new(&header, payload.len() as u64, payload.len() as u64)
        .map_err(|error| error.moved_by(payload.len() as u64))?;
    Ok((payload, params))
}

/// Returns the kind, the number of probes and the payload that the bytes state, without verifying
/// the checksum. Returns `None` if the bytes are too short, or if they state no kind that has a
/// compact form.
#[doc(hidden)]
#[must_use]
pub fn header(bytes: &[u8]) -> Option<(FilterKind, u32, &[u8])> {
    let (covered, _) = bytes.split_last_chunk::<4>()?;
    let (&header, payload) = covered.split_last()?;
    Some((kind_of(header)?, u32::from(header % HEADER_KIND), payload))
}

fn kind_of(header: u8) -> Option<FilterKind> {
    FilterKind::from_tag(header / HEADER_KIND).filter(|&kind| kind.info().has_compact_form)
}

/// Returns the checksum of payload and header.
///
/// An XOR with the folded identity of the hasher binds the checksum to the hasher without more
/// bytes.
#[inline]
fn checksum(covered: &[u8], hasher: &KeyHasher) -> u32 {
    crc32(covered) ^ hasher.folded_identity()
}

/// Appends header and checksum to a payload. Returns `false` and appends nothing if the compact form
/// cannot describe `header`.
#[must_use]
pub(super) fn append_trailer(bytes: &mut Vec<u8>, header: &Header<'_>, hasher: &KeyHasher) -> bool {
    let [probes, rest @ ..] = header.params;
    if !header.kind.info().has_compact_form || probes >= HEADER_KIND || rest != [0; 2] || !header.record.is_empty() {
        return false;
    }
    bytes.push(HEADER_KIND * header.kind as u8 + probes);
    let checksum = checksum(bytes, hasher);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    true
}
