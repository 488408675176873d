//! Builds the blocks of range filters, alone or in front of another filter.

use std::ops::Bound;

use super::builder::{Built, FilterBuilder};
use super::layout::{Added, LOAD_LEN_BYTES};
use super::trailer::{ALIGN_BYTES, RangesRecord, Trailer};
use crate::error::{Error, Result};
use crate::filters::{FilterKind, Header, Params, RangeHash, RangeKernel, RangeKeys, build_range};
use crate::spec::{self, FilterSpec};

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

    /// Encodes the block of a range filter. With the self-check, asks it for every key.
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
    use crate::hash::{HashSeed, KeyHasher};

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
