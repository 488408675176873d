//! Builds and opens the range filter of a block: the block itself, or a second block in front of its
//! payload.
//!
//! ```text
//! | block of the range filter | zeros to a multiple of 64 bytes | payload | checksums, extension, trailer |
//! ```
//! The extension after the payload records the length and the checksum of the range filter's block.
//! The two blocks have separate checksums, so a reader can load and verify either one alone.

use std::ops::Bound;

use super::builder::{Built, FilterBuilder};
use super::layout::{ALIGN_BYTES, Located, RangesRecord, Trailer};
use super::layout::{Added, LOAD_LEN_BYTES};
use super::part::{Part, Verify};
use crate::error::{Error, Field, Result};
use crate::filters::{FilterKind, Header, Params, RangeHash, RangeKernel, RangeKeys, build_range};
use crate::spec::{self, FilterSpec};

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
    let block = record.block_in(bytes).ok_or(Error::corrupt(Field::Length))?;
    let found = Located::read(block)?;
    let (stored, computed) = (record.checksum, found.checksum);
    if computed != stored {
        return Err(Error::ChecksumMismatch { field: Field::Ranges, offset: 0, stored, computed });
    }
    let Trailer { table_id, hash, partition_number, added, .. } = found.trailer;
    let is_of_same_table = (table_id, hash, partition_number) == (outer.table_id, outer.hash, 0);
    if !is_of_same_table || added != Added::Ranges || found.payload_start != 0 {
        return Err(Error::corrupt(Field::Ranges));
    }
    Ok(found)
}

impl FilterBuilder {
    /// Encodes a range filter of `keys`. If the builder also has a filter of hashes, the block of
    /// that filter follows the range filter.
    pub(super) fn finish_with_ranges(self, keys: RangeKeys) -> Result<Built> {
        let Some(spec) = self.options().ranges else { return self.range_block(self.options().spec, keys) };
        let Built { mut bytes, checksum, .. } = self.range_block(spec, keys)?;
        let record = RangesRecord { len_bytes: bytes.len() as u64, checksum };
        let points = self.finish_hashes(Some(record))?;
        let start = bytes.len().next_multiple_of(ALIGN_BYTES);
        bytes.try_reserve_exact(start - bytes.len() + points.bytes.len()).map_err(|_| spec::no_memory(spec))?;
        bytes.resize(start, 0);
        bytes.extend_from_slice(&points.bytes);
        Ok(Built { bytes, ..points })
    }

    fn range_block(&self, spec: FilterSpec, keys: RangeKeys) -> Result<Built> {
        let no_memory = |_| spec::no_memory(spec);
        if self.is_short_of_memory() {
            return Err(spec::no_memory(spec));
        }
        let keys = keys.into_sorted().map_err(no_memory)?;
        let num_keys = keys.len();
        spec.check_keys(num_keys)?;
        let hash = RangeHash::of(self.hasher());
        let (header, mut bytes) = if num_keys == 0 {
            (Header::plain(FilterKind::Empty, 0), Vec::new())
        } else {
            build_range(spec.budget(), &keys, &hash).map_err(no_memory)?
        };
        let len = bytes.len();
        // Readers would reject a block that fails this check.
        let params = Params::new(&header, num_keys, len as u64)?;
        if self.options().self_check {
            bytes.try_reserve_exact(LOAD_LEN_BYTES).map_err(|_| spec::no_memory(spec))?;
            bytes.resize(len + LOAD_LEN_BYTES, 0);
            check(&params, &hash, &bytes, len, &keys)?;
            bytes.truncate(len);
        }
        let trailer = self.trailer(num_keys, len as u64, Some(header));
        let trailer = Trailer { added: Added::Ranges, extractor: None, ..trailer };
        let checksum = trailer.append_to(&mut bytes).map_err(no_memory)?;
        Ok(self.built(bytes, checksum, num_keys))
    }
}

/// Asks a filter for each of its keys. Returns an error if the filter denies a key, or if it has
/// keys but is no range filter.
fn check(params: &Params, hash: &RangeHash, padded: &[u8], len: usize, keys: &RangeKeys) -> Result<()> {
    let Some(range) = params.range() else {
        return if keys.len() == 0 { Ok(()) } else { Err(Error::SelfCheckFailed { denied: keys.len() }) };
    };
    let kernel = RangeKernel::detect();
    let mut denied = 0;
    keys.for_each(|key, _| {
        let (lower, upper) = (Bound::Included(key), Bound::Included(key));
        denied += u64::from(!kernel.may_contain(range, hash, padded, len, lower, upper));
    });
    if denied == 0 { Ok(()) } else { Err(Error::SelfCheckFailed { denied }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::layout::checksum_of;
    use crate::block::{FilterBuilder, FilterOptions};
    use crate::hash::{HashSeed, KeyHasher};

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

    #[test]
    fn a_range_filter_that_denies_its_keys_fails_the_check() {
        let mut keys = RangeKeys::new();
        (0..1_000u32).for_each(|i| keys.add(format!("{:08}", i * 977).as_bytes()).unwrap());
        let hash = RangeHash::of(&KeyHasher::xxh3(HashSeed(1)));
        let spec: FilterSpec = "grafite:fpr=0.01".parse().unwrap();
        let (header, mut payload) = build_range(spec.budget(), &keys, &hash).unwrap();
        let len = payload.len();
        let params = Params::new(&header, 1_000, len as u64).unwrap();
        payload.resize(len + LOAD_LEN_BYTES, 0);
        let denied = |payload: &[u8], hash| match check(&params, hash, payload, len, &keys) {
            Err(Error::SelfCheckFailed { denied }) => denied,
            outcome => outcome.map(|()| 0).unwrap(),
        };
        assert_eq!(denied(&payload, &hash), 0);
        let other = RangeHash::of(&KeyHasher::xxh3(HashSeed(2)));
        assert!((901..=1_000).contains(&denied(&payload, &other)));
        payload.iter_mut().take(len).skip(len / 2).for_each(|byte| *byte = 0);
        assert!((401..1_000).contains(&denied(&payload, &hash)));
    }
}
