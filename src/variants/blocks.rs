//! Filter blocks united and compared without their keys: the algebra of [`super::algebra`] on native blocks.
//!
//! Bits of one position mean the same in two blocks when kind, number of bits, probes and the way keys were hashed are the
//! same. That holds for tables of one size class under one seed, say of the shards of a store; it does not for blocks that
//! were each sized for their own number of keys, which are refused with the difference named.

use std::fmt::Display;

use super::algebra::{self, BlockShape, Comparison};
use crate::bits;
use crate::block::LockedBlock;
use crate::codec::u64_from;
use crate::kinds::{FilterKind, Shape, math};
use crate::variants::error::{Error, Result};

/// In what two filters differ, besides their bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The property.
    pub what: &'static str,
    /// What the first has.
    pub left: String,
    /// What the second has.
    pub right: String,
}

impl Difference {
    fn between<T: PartialEq + Display>(what: &'static str, left: T, right: T) -> Option<Self> {
        (left != right).then(|| Self { what, left: left.to_string(), right: right.to_string() })
    }
}

/// # Errors
/// [`Error::Unlike`] where there is a difference.
fn refuse(difference: &Option<Difference>) -> Result<()> {
    match difference.clone() {
        Some(Difference { what, left, right }) => Err(Error::Unlike { what, left, right }),
        None => Ok(()),
    }
}

/// All in which two blocks differ that keeps them from being united or compared bit by bit: hash function, seed, secret,
/// what was added, which partition, kind, number of bits, parameters. Number of keys and table do not matter.
#[must_use]
pub fn differences<A: AsRef<[u8]>, B: AsRef<[u8]>>(left: &LockedBlock<A>, right: &LockedBlock<B>) -> Vec<Difference> {
    let kind = |shape: Option<&Shape>| shape.map_or("partitions", |shape| shape.kind.name());
    let parameters = |shape: Option<&Shape>| {
        let bytes = shape.map(|shape| [shape.params.as_slice(), &shape.layers].concat()).unwrap_or_default();
        bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(" ")
    };
    let secret =
        |fingerprint: Option<crate::hash_kind::Fingerprint>| fingerprint.map_or("none".to_owned(), |f| f.to_string());
    let extractor = |name: Option<&str>| name.unwrap_or("none").to_owned();
    let place = |place: u32| place.checked_sub(1).map_or("none".to_owned(), |number| number.to_string());
    let (l, r) = (left.metadata().hash, right.metadata().hash);
    let (l_shape, r_shape) = (left.shape(), right.shape());
    let bits = |payload: &[u8]| payload.len() as u64 * 8;
    // Parameters of two kinds do not compare.
    let is_one_kind = kind(l_shape) == kind(r_shape);
    let found = [
        Difference::between("hash function", l.kind, r.kind),
        Difference::between("hash seed", l.seed.0, r.seed.0),
        Difference::between("fingerprint of the secret", secret(l.fingerprint), secret(r.fingerprint)),
        Difference::between(
            "what was added",
            format!("{:?}", left.metadata().added),
            format!("{:?}", right.metadata().added),
        ),
        Difference::between(
            "prefix function",
            extractor(left.metadata().extractor),
            extractor(right.metadata().extractor),
        ),
        Difference::between("partition", place(left.place()), place(right.place())),
        Difference::between("filter kind", kind(l_shape), kind(r_shape)),
        Difference::between("number of bits", bits(left.payload()), bits(right.payload())),
        Difference::between("filter parameters", parameters(l_shape), parameters(r_shape)).filter(|_| is_one_kind),
    ];
    found.into_iter().flatten().collect()
}

/// A block of the keys of all: the same bits as a filter of that shape has to which all keys were added. Empty blocks add
/// nothing, whatever their shape.
///
/// Its number of keys is the sum, an upper bound, since nobody knows which keys were in more than one, and at most the
/// number of bits, as the format wants it. So the rate that a reader expects is an upper bound too. It belongs to no table.
/// Partitions of one number give a partition of that number; those of others, and whole filters, do not go with it.
///
/// # Errors
/// [`Error::Unlike`], naming the first difference; [`Error::Invalid`] for no block, and for kinds other than
/// `bloom`, `blocked-bloom`, `split-block`, `split-block-512`, `full` and `empty`; [`Error::ChecksumMismatch`] for a block
/// that was opened without a check of its pages, and is damaged; [`Error::TooLarge`] where there is no memory for it.
pub fn merge_blocks<D: AsRef<[u8]>>(blocks: &[LockedBlock<D>]) -> Result<Vec<u8>> {
    let is_empty = |block: &&LockedBlock<D>| block.shape().is_some_and(|shape| shape.kind == FilterKind::Empty);
    let first = blocks.iter().find(|block| !is_empty(block)).or(blocks.first());
    let Some(first) = first else {
        return Err(Error::invalid("blocks to merge", "none", "expected one block or more; give the blocks to merge"));
    };
    let shape = first.shape().ok_or_else(partitioned)?;
    if shape.kind.takes_budget() {
        block_shape(shape, first.payload().len())?;
    }
    let mut payload: Vec<u8> = bits::zeros(first.payload().len() as u64, "a filter block")?;
    let mut num_keys = 0u64;
    for block in blocks {
        block.verify_pages()?;
        // Of an empty filter only how it was hashed matters, and that comes before the shape.
        let shape_matters = !is_empty(&block);
        let mut found = differences(first, block);
        found.retain(|difference| shape_matters || !SHAPE.contains(&difference.what));
        refuse(&found.into_iter().next())?;
        num_keys = num_keys.saturating_add(block.metadata().num_keys);
        payload.iter_mut().zip(block.payload()).for_each(|(byte, other)| *byte |= other);
    }
    if !payload.is_empty() {
        num_keys = num_keys.min(payload.len() as u64 * 8);
    }
    Ok(first.with_payload(shape, num_keys, payload)?)
}

/// The properties in which an empty filter may differ from those it is merged with.
const SHAPE: [&str; 3] = ["filter kind", "number of bits", "filter parameters"];

/// How alike two blocks and their sets are. The estimates of a filter in lines or blocks are sums over these.
///
/// # Errors
/// As [`merge_blocks`]; `full` and `empty` have no bits to compare.
pub fn compare_blocks<A: AsRef<[u8]>, B: AsRef<[u8]>>(
    left: &LockedBlock<A>,
    right: &LockedBlock<B>,
) -> Result<Comparison> {
    refuse(&differences(left, right).into_iter().next())?;
    left.verify_pages()?;
    right.verify_pages()?;
    let (a, b) = (left.payload(), right.payload());
    let shape = block_shape(left.shape().ok_or_else(partitioned)?, a.len())?;
    let len = usize::try_from(shape.bits / 8).unwrap_or(usize::MAX).max(1);
    let blocks = a.chunks(len).zip(b.chunks(len)).map(|(a, b)| algebra::sum(words(a).zip(words(b)).map(count)));
    Ok(algebra::compare(shape, blocks))
}

fn count((left, right): (u64, u64)) -> [u64; 3] {
    algebra::count(left, right)
}

/// Eight bytes each, the last ones filled up with zeros.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(byte, of_chunk)| *byte = *of_chunk);
        u64_from(&word)
    })
}

fn partitioned() -> Error {
    Error::invalid("block", "in partitions", "expected a whole filter; take its partitions one by one")
}

fn block_shape(shape: &Shape, payload_len: usize) -> Result<BlockShape> {
    let probes = shape.params.first().copied().unwrap_or_default().into();
    let lanes = |lane_bits| BlockShape { bits: lane_bits * u64::from(math::LANES), probes, choice: lane_bits };
    Ok(match shape.kind {
        FilterKind::Bloom => {
            let bits = payload_len as u64 * 8;
            BlockShape { bits, probes, choice: bits }
        }
        FilterKind::BlockedBloom => BlockShape { bits: math::LINE_BITS, probes, choice: math::LINE_BITS },
        FilterKind::SplitBlock => lanes(32),
        FilterKind::SplitBlock512 => lanes(64),
        kind @ (FilterKind::Empty
        | FilterKind::Full
        | FilterKind::Ribbon
        | FilterKind::BumpedRibbon
        | FilterKind::BinaryFuse) => {
            let reason = "its bits are no set that can be united or compared; use bloom, blocked-bloom or split-block";
            return Err(Error::invalid("filter kind", kind, reason));
        }
    })
}

#[cfg(test)]
mod tests;
