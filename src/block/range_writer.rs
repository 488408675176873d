//! Builds the blocks of range filters, alone or in front of another filter.

use std::ops::Bound;

use super::layout::{Added, LOAD_LEN_BYTES};
use super::self_check::SelfCheck;
use super::trailer::{ALIGN_BYTES, RangesRecord, Trailer};
use super::writer::FilterBuilder;
use crate::error::{Error, Result};
use crate::filters::{FilterKind, Header, Params, RangeHash, RangeKernel, RangeKeys, build_range};
use crate::spec::{self, FilterSpec};

impl FilterBuilder {
    /// Encodes a range filter of `keys`. If the builder also has a filter of hashes, the block of
    /// that filter follows the range filter.
    pub(super) fn finish_with_ranges(self, keys: RangeKeys) -> Result<Vec<u8>> {
        let Some(spec) = self.ranges_beside() else { return Ok(self.range_block(self.spec(), keys)?.0) };
        let (mut bytes, checksum) = self.range_block(spec, keys)?;
        let record = RangesRecord { len_bytes: bytes.len() as u64, checksum };
        let points = self.finish_hashes(&[], Some(record))?;
        let start = bytes.len().next_multiple_of(ALIGN_BYTES);
        bytes.try_reserve_exact(start - bytes.len() + points.len()).map_err(|_| spec::no_memory(spec))?;
        bytes.resize(start, 0);
        bytes.extend_from_slice(&points);
        Ok(bytes)
    }

    /// Encodes the block of a range filter, and returns it with its checksum. With [`SelfCheck::On`], asks it for every key.
    fn range_block(&self, spec: FilterSpec, keys: RangeKeys) -> Result<(Vec<u8>, u32)> {
        let no_memory = |_| spec::no_memory(spec);
        if self.is_short_of_memory() {
            return Err(spec::no_memory(spec));
        }
        let keys = keys.into_sorted().map_err(no_memory)?;
        spec.check_keys(keys.len())?;
        let hash = RangeHash::of(self.hasher());
        let (header, mut payload) = if keys.len() == 0 {
            (Header::plain(FilterKind::Empty, 0), Vec::new())
        } else {
            build_range(spec.budget(), &keys, &hash).map_err(no_memory)?
        };
        let (num_keys, len) = (keys.len(), payload.len());
        // Readers would reject a block that fails this check.
        let params = Params::new(&header, num_keys, len as u64)?;
        if self.self_check() == SelfCheck::On {
            payload.try_reserve_exact(LOAD_LEN_BYTES).map_err(|_| spec::no_memory(spec))?;
            payload.resize(len + LOAD_LEN_BYTES, 0);
            check(&params, &hash, &payload, len, &keys)?;
            payload.truncate(len);
        }
        let trailer = self.trailer(num_keys, len as u64, Some(header));
        let trailer = Trailer { added: Added::Ranges, extractor: None, ..trailer };
        let checksum = trailer.append_to(&mut payload).map_err(no_memory)?;
        Ok((payload, checksum))
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
