//! Checks that `VerifiedFilter`, `VerifiedTrailer`, `FilterSet` and `PartitionIndex` give the same
//! answers as `FilterBlock`.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use filterblock::layout::{checksum_of, stated_len_bytes};
use filterblock::{
    Added, Answer, Expected, FilterBlock, FilterSet, KeyHash, ParsedBlock, SharedBytes, TableFilter, VerifiedFilter,
    VerifiedTrailer, Verify, partitions::PartitionIndex,
};

use crate::secret;

const KEYS: [&[u8]; 5] = [b"", b"key-00000007", b"key-00000300", b"key-0", &[0xff; 40]];

/// Asserts that the other readers of `data` give the same answers as `block`, which verified all
/// pages.
pub(crate) fn ask_as_hosts_do(data: &[u8], block: &FilterBlock<&[u8]>, hashes: &[KeyHash]) {
    let (metadata, hasher) = (block.metadata(), block.hasher().clone());
    let mut expected = Expected::of_table(metadata.table_id, &hasher);
    if let Some(checksum) = checksum_of(data) {
        expected = expected.with_checksum(checksum);
    }
    if let (Added::Prefixes, Some(extractor)) = (metadata.added, metadata.extractor) {
        expected = expected.with_prefixes(extractor);
    }
    in_a_set(data, block, hashes);
    if metadata.num_partitions == 0 && stated_len_bytes(data) == Some(data.len() as u64) {
        match VerifiedFilter::open(data, &expected) {
            Ok(verified) => {
                assert!(hashes.iter().all(|&hash| verified.may_contain_hash(hash) == block.may_contain_hash(hash)));
                assert!(KEYS.iter().all(|key| verified.may_contain(verified.hasher().key(key))
                    == block.may_contain(block.hasher().key(key))));
                if metadata.added.whole_keys() {
                    let trailer = VerifiedTrailer::read(data, &expected).unwrap();
                    let answer = |hash| Answer::from(block.may_contain_hash(hash));
                    assert!(hashes.iter().all(|&hash| trailer.ask_hash(data, hash) == answer(hash)));
                }
                for (lower, upper) in ranges() {
                    assert_eq!(verified.may_contain_range(lower, upper), block.may_contain_range(lower, upper));
                }
            }
            // The block is an index without partitions, which `VerifiedFilter` rejects.
            Err(error) => assert!(PartitionIndex::open(data, &expected).is_ok(), "{error}"),
        }
    }
    in_partitions(data, block, &expected);
}

/// Returns all ranges whose bounds are keys of [`KEYS`], included or excluded, or are missing.
fn ranges<'a>() -> impl Iterator<Item = (Bound<&'a [u8]>, Bound<&'a [u8]>)> {
    let all = |key: &'a [u8]| [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
    let lower = KEYS.into_iter().flat_map(all);
    lower.flat_map(move |lower| KEYS.into_iter().flat_map(all).map(move |upper| (lower, upper)))
}

/// Returns how two bounds compare, or `None` if one of them is missing.
fn compared(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Option<Ordering> {
    let (Bound::Included(lower) | Bound::Excluded(lower)) = lower else { return None };
    let (Bound::Included(upper) | Bound::Excluded(upper)) = upper else { return None };
    Some(lower.cmp(upper))
}

/// Returns whether the lower bound is above the upper bound.
pub(crate) fn is_reversed(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    compared(lower, upper) == Some(Ordering::Greater)
}

/// Returns whether the bounds are equal and exclude their key.
pub(crate) fn is_empty(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    let is_key = matches!((lower, upper), (Bound::Included(_), Bound::Included(_)));
    compared(lower, upper) == Some(Ordering::Equal) && !is_key
}

fn in_a_set(data: &[u8], block: &FilterBlock<&[u8]>, hashes: &[KeyHash]) {
    let locked = ParsedBlock::open(SharedBytes::from(data.to_vec()), Verify::OnFirstTouch).unwrap();
    let is_secret = locked.metadata().hash.fingerprint.is_some();
    let opened = locked.bind_any(is_secret.then(secret).as_ref());
    let mut set = FilterSet::new(block.hasher());
    let slots = [opened, Err(filterblock::Error::TooLarge { what: "a filter that is missing" })]
        .map(|opened| set.insert(Arc::new(TableFilter::from(opened))));
    let mut batch = vec![false; hashes.len()];
    set.ask_batch(slots[0], hashes, &mut batch);
    for (&hash, in_batch) in hashes.iter().zip(batch) {
        let answer = block.may_contain_hash(hash);
        assert_eq!((set.ask_hash(slots[0], hash).must_read(), in_batch), (answer, answer));
        assert!(set.ask_hash(slots[1], hash).must_read(), "a degraded filter denies a key");
    }
    for key in KEYS.map(|key| block.hasher().key(key)) {
        assert_eq!(set.ask(slots[0], key).must_read(), block.may_contain(key));
    }
    for (lower, upper) in ranges() {
        let answer = set.ask_range(slots[0], lower, upper).must_read();
        assert!(answer == block.may_contain_range(lower, upper) || !block.has_ranges());
    }
}

fn in_partitions(data: &[u8], block: &FilterBlock<&[u8]>, expected: &Expected<'_>) {
    let index_start = stated_len_bytes(data).and_then(|len| data.len().checked_sub(usize::try_from(len).ok()?));
    let Some(index_bytes) = index_start.and_then(|start| data.get(start..)) else { return };
    let Ok(index) = PartitionIndex::open(index_bytes, expected) else { return };
    assert_eq!(index.len(), block.metadata().num_partitions);
    for key in KEYS {
        let Some(number) = index.find(key) else { continue };
        let range = index.get(number).unwrap().byte_range;
        let bytes = &data[range.start as usize..range.end as usize];
        let partition = index.open_partition(number, bytes, Verify::OnFirstTouch).unwrap();
        assert_eq!(
            partition.may_contain(block.hasher().key(key)),
            block.may_contain(block.hasher().key(key)),
            "partition {number}"
        );
    }
}
