//! Opens the range filter of a block: the block itself, or a second block in front of its payload.
//!
//! ```text
//! | block of the range filter | zeros to a multiple of 64 bytes | payload | checksums, extension, trailer |
//! ```
//! The extension after the payload records the length and the checksum of the range filter's block.
//! The two blocks have separate checksums, so a reader can load and verify either one alone.

use super::layout::Added;
use super::part::{Part, Verify};
use super::trailer::{Located, RangesRecord, Trailer};
use crate::error::{Error, Field, Result};

/// The range filter of an open block.
#[derive(Debug)]
pub(super) enum RangeFilter {
    /// The block itself is the range filter, in one piece or in partitions.
    Own,
    /// The range filter is a block in front of the filter.
    Beside(Part),
    /// The range filter in front of the filter cannot be used, for this reason.
    Unusable(Error),
}

impl RangeFilter {
    /// Opens the range filter of a block. Returns `None` if the block has none, or if `bytes` begin
    /// after it, because the host loaded only the filter of keys.
    ///
    /// If the range filter beside another filter cannot be opened, the result holds the error,
    /// because the other filter is still usable.
    pub(super) fn open(bytes: &[u8], found: &Located<'_>, verify: Verify) -> Option<Self> {
        match found.trailer.ranges {
            None => (found.trailer.added == Added::Ranges).then_some(Self::Own),
            Some(_) if found.payload_start == 0 => None,
            Some(record) => {
                let opened = beside(bytes, &found.trailer, record).and_then(|found| {
                    found.check_page_checksums()?;
                    Part::new(bytes, 0, &found, verify)
                });
                Some(opened.map_or_else(Self::Unusable, Self::Beside))
            }
        }
    }
}

/// Reads the trailer of the range filter in front of a filter. Returns an error unless the block is
/// the recorded one, has the SST and the hasher of `outer`, and is a range filter.
pub(super) fn beside<'a>(bytes: &'a [u8], outer: &Trailer<'_>, record: RangesRecord) -> Result<Located<'a>> {
    let block = record.block_in(bytes).ok_or(Error::Corrupt { field: Field::Length, offset: 0 })?;
    let found = Located::read(block)?;
    let (stored, computed) = (record.checksum, found.checksum);
    if computed != stored {
        return Err(Error::ChecksumMismatch { field: Field::Ranges, offset: 0, stored, computed });
    }
    let Trailer { table_id, hash, partition_number, added, .. } = found.trailer;
    let is_of_same_table = (table_id, hash, partition_number) == (outer.table_id, outer.hash, 0);
    if !is_of_same_table || added != Added::Ranges || found.payload_start != 0 {
        return Err(Error::Corrupt { field: Field::Ranges, offset: 0 });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::layout::checksum_of;
    use crate::block::{FilterBuilder, FilterOptions};
    use crate::hash::HashSeed;

    const TABLE: [u8; 16] = *b"table 0000000012";

    fn builder(spec: &str, table: [u8; 16], seed: u64) -> FilterBuilder {
        FilterOptions::new(spec.parse().unwrap()).table_id(table).builder(HashSeed(seed)).unwrap()
    }

    /// Returns the outcome of reading `inner` as the range filter beside a filter of `TABLE`.
    fn read(inner: &[u8]) -> Result<()> {
        let outer = builder("bloom:10", TABLE, 1);
        let record = RangesRecord { len_bytes: inner.len() as u64, checksum: checksum_of(inner).unwrap() };
        let mut bytes = inner.to_vec();
        bytes.resize(inner.len().next_multiple_of(64), 0);
        beside(&bytes, &outer.trailer(1, 0, None), record).map(|_| ())
    }

    fn finished(mut builder: FilterBuilder) -> Vec<u8> {
        builder.add(builder.hasher().key(b"key"));
        builder.finish().unwrap().bytes
    }

    #[test]
    fn only_a_range_filter_of_the_same_sst_and_hasher_is_accepted() {
        let right = finished(builder("grafite:fpr=0.01", TABLE, 1));
        assert!(read(&right).is_ok());
        let wrong = [
            ("another SST", finished(builder("grafite:fpr=0.01", [7; 16], 1))),
            ("another hasher", finished(builder("grafite:fpr=0.01", TABLE, 2))),
            ("another partition number", finished(builder("grafite:fpr=0.01", TABLE, 1).with_partition_number(1))),
            ("whole keys", finished(builder("bloom:10", TABLE, 1))),
            ("bytes in front", [&[0; 64], right.as_slice()].concat()),
        ];
        for (what, inner) in wrong {
            let error = read(&inner).unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{what}: {error}");
        }
    }
}
