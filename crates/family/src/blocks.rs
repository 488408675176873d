//! Merges and compares filter blocks without their keys, with the algebra of [`super::algebra`].
//!
//! Two blocks match if [`differences`] finds no difference. Filters of the same kind usually do not
//! match if their numbers of keys differ, because then the numbers of bits differ, too.

use std::fmt::Display;

use super::algebra::{self, BlockShape, Comparison};
use crate::error::{Error, Result};
use filterblock::FilterKind;
use filterblock::ParsedBlock;
use filterblock::internals::codec::u64_from;
use filterblock::internals::{Header, KeyBits, key_bits, zeros};

/// One property, besides the bits, in which two filters differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The name of the property.
    pub what: &'static str,
    /// The value in the first filter.
    pub left: String,
    /// The value in the second filter.
    pub right: String,
}

impl Difference {
    fn between<T: PartialEq + Display>(what: &'static str, left: T, right: T) -> Option<Self> {
        (left != right).then(|| Self { what, left: left.to_string(), right: right.to_string() })
    }
}

/// Returns [`Error::Unlike`] if there is a difference.
fn refuse(difference: &Option<Difference>) -> Result<()> {
    match difference.clone() {
        Some(Difference { what, left, right }) => Err(Error::Unlike { what, left, right }),
        None => Ok(()),
    }
}

/// Returns the properties in which two blocks differ. It compares:
///
/// * the hash function, the seed and the fingerprint of the secret,
/// * the kind of added keys, the prefix extractor and the partition number,
/// * the filter kind, the number of bits, and for equal filter kinds the parameters.
///
/// It ignores the bits, the number of keys, the table id and a range filter beside the filter of
/// keys.
#[must_use]
pub fn differences<A: AsRef<[u8]>, B: AsRef<[u8]>>(left: &ParsedBlock<A>, right: &ParsedBlock<B>) -> Vec<Difference> {
    let kind = |header: Option<&Header<'_>>| header.map_or("partitions", |header| header.kind.name());
    let parameters = |header: Option<&Header<'_>>| {
        let bytes = header.map(|header| [header.params.as_slice(), &header.record].concat()).unwrap_or_default();
        bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(" ")
    };
    let secret =
        |fingerprint: Option<filterblock::Fingerprint>| fingerprint.map_or("none".to_owned(), |f| f.to_string());
    let extractor = |name: Option<&str>| name.unwrap_or("none").to_owned();
    let partition = |stored: u32| stored.checked_sub(1).map_or("none".to_owned(), |number| number.to_string());
    let (l, r) = (left.metadata().hash, right.metadata().hash);
    let (l_header, r_header) = (left.header(), right.header());
    let bits = |payload: &[u8]| payload.len() as u64 * 8;
    // Parameters of different kinds are not comparable.
    let is_one_kind = kind(l_header) == kind(r_header);
    let found = [
        Difference::between("hash function", l.kind, r.kind),
        Difference::between("hash seed", l.seed.0, r.seed.0),
        Difference::between("fingerprint of the secret", secret(l.fingerprint), secret(r.fingerprint)),
        Difference::between(
            "kind of added keys",
            left.metadata().added.described(),
            right.metadata().added.described(),
        ),
        Difference::between(
            "prefix extractor",
            extractor(left.metadata().extractor),
            extractor(right.metadata().extractor),
        ),
        Difference::between("partition", partition(left.partition_number()), partition(right.partition_number())),
        Difference::between("filter kind", kind(l_header), kind(r_header)),
        Difference::between("number of bits", bits(left.payload()), bits(right.payload())),
        Difference::between("filter parameters", parameters(l_header), parameters(r_header)).filter(|_| is_one_kind),
    ];
    found.into_iter().flatten().collect()
}

/// Returns a block with the keys of all `blocks`. The blocks must match (see [`differences`]),
/// except that a block of the kind `empty` may be merged with blocks of another kind. The number of
/// bits does not grow with the number of keys, so the new block usually has a higher FPR than each
/// of `blocks`.
///
/// The new block's number of keys is the sum over `blocks`, so a key in several blocks counts
/// several times. If the new block has bits, the sum is capped at their number, as the format
/// requires. The new block has no range filter and no table id. Partitions with the same number
/// merge to a partition with that number.
///
/// # Errors
/// * [`Error::Unlike`]: the blocks do not match; the error names the first difference.
/// * [`Error::Invalid`]: there are no blocks, or the blocks are partitioned filters, or their kind
///   is not `bloom`, `blocked-bloom`, `split-block`, `split-block-512`, `always-maybe` or `empty`.
/// * [`Error::Filter`]: a block is damaged.
/// * [`Error::TooLarge`]: there is no memory for the result.
pub fn merge_blocks<D: AsRef<[u8]>>(blocks: &[ParsedBlock<D>]) -> Result<Vec<u8>> {
    let is_empty = |block: &&ParsedBlock<D>| block.header().is_some_and(|header| header.kind == FilterKind::Empty);
    let first = blocks.iter().find(|block| !is_empty(block)).or(blocks.first());
    let Some(first) = first else {
        let reason = "expected at least one block; pass the blocks to merge";
        return Err(Error::invalid("blocks to merge", "none", reason));
    };
    let header = first.header().ok_or_else(partitioned)?;
    if header.kind.takes_budget() {
        block_shape(header, first.payload().len())?;
    }
    let mut payload: Vec<u8> = zeros(first.payload().len() as u64, "a filter block")?;
    let mut num_keys = 0u64;
    for block in blocks {
        block.verify_pages()?;
        // A block of the kind `empty` adds no bits, so its shape does not matter.
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
    Ok(first.with_payload(num_keys, payload)?)
}

/// The properties in which a block of the kind `empty` may differ from the other blocks of a merge.
const SHAPE: [&str; 3] = ["filter kind", "number of bits", "filter parameters"];

/// Compares the bits of two blocks and estimates how similar their key sets are.
///
/// # Errors
/// * [`Error::Unlike`]: the blocks do not match, even if one of them has the kind `empty`. The
///   error names the first difference.
/// * [`Error::Filter`]: a block is damaged.
/// * [`Error::Invalid`]: the blocks are partitioned filters, or their kind is not `bloom`,
///   `blocked-bloom`, `split-block` or `split-block-512`.
pub fn compare_blocks<A: AsRef<[u8]>, B: AsRef<[u8]>>(
    left: &ParsedBlock<A>,
    right: &ParsedBlock<B>,
) -> Result<Comparison> {
    refuse(&differences(left, right).into_iter().next())?;
    left.verify_pages()?;
    right.verify_pages()?;
    let (a, b) = (left.payload(), right.payload());
    let shape = block_shape(left.header().ok_or_else(partitioned)?, a.len())?;
    let len = usize::try_from(shape.bits / 8).unwrap_or(usize::MAX).max(1);
    let blocks = a.chunks(len).zip(b.chunks(len)).map(|(a, b)| algebra::sum(words(a).zip(words(b)).map(count)));
    Ok(algebra::compare(shape, blocks))
}

fn count((left, right): (u64, u64)) -> [u64; 3] {
    algebra::count(left, right)
}

/// Splits bytes into words of eight bytes. The last word is padded with zeros.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(byte, of_chunk)| *byte = *of_chunk);
        u64_from(&word)
    })
}

fn partitioned() -> Error {
    Error::invalid("block", "a partitioned filter", "expected a filter in one piece; build it without partitions")
}

fn block_shape(header: &Header<'_>, payload_len: usize) -> Result<BlockShape> {
    let kind = header.kind;
    let whole = payload_len as u64 * 8;
    let probes = header.params.first().copied().unwrap_or_default().into();
    let of = |found: KeyBits| BlockShape {
        bits: found.block.unwrap_or(whole),
        probes,
        choice: found.probe.unwrap_or(whole),
    };
    let reason = match kind.takes_budget() {
        true => {
            "blocks of this kind cannot be merged, and their sets of keys cannot be compared; build them as bloom, \
             blocked-bloom, split-block or split-block-512"
        }
        false => {
            "blocks of this kind have no bits to compare; compare blocks with keys, of the kind bloom, blocked-bloom, \
             split-block or split-block-512"
        }
    };
    key_bits(kind).map(of).ok_or_else(|| Error::invalid("filter kind", kind, reason))
}

#[cfg(test)]
mod tests;
