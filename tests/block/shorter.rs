//! Tests readers whose bytes become shorter after the open. A host's type may return other bytes on
//! each call of `as_ref`. Missing bytes answer "maybe".

use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use filterblock::{
    Answer, Expected, FilterBlock, FilterOptions, KeyHasher, PrefixExtractor, TableFilter, Verify, WholeKeys,
    partitions::PartitionIndex,
};
use filterblock_testkit::blocks::{self, BOTH, SEED, SPECS, TABLE, built, built_in_partitions, key, spec};

const N: usize = 150;
static HASHER: KeyHasher = KeyHasher::xxh3(SEED);

/// Bytes that end early: only the first ones are there.
#[derive(Clone)]
struct Shorter(Arc<(Vec<u8>, AtomicUsize)>);

impl Shorter {
    fn new(bytes: &[u8]) -> Self {
        Self(Arc::new((bytes.to_vec(), AtomicUsize::new(bytes.len()))))
    }

    fn cut(&self, len: usize) {
        self.0.1.store(len, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for Shorter {
    fn as_ref(&self) -> &[u8] {
        let (bytes, len) = &*self.0;
        &bytes[..len.load(Ordering::Relaxed)]
    }
}

/// Returns filters of all forms. Each filter has prefixes of eleven bytes or ranges, if it can.
fn blocks() -> Vec<(String, Vec<u8>)> {
    let extractor = PrefixExtractor::fixed(11).unwrap();
    let keys = || (0..N).map(key);
    let mut blocks = Vec::new();
    for kind in SPECS {
        for whole_keys in [WholeKeys::Too, WholeKeys::Not] {
            let options = FilterOptions::new(spec(kind)).table_id(TABLE).prefixes(&extractor, whole_keys);
            let with_ranges = match whole_keys {
                WholeKeys::Too => options.clone().ranges(spec("grafite:fpr=0.01")),
                WholeKeys::Not => options.clone(),
            };
            blocks.push((format!("{kind}, {whole_keys:?}"), built(&with_ranges, SEED, keys())));
            for partition_keys in [7, 60] {
                let name = format!("{kind}, {whole_keys:?}, partitions of {partition_keys}");
                blocks.push((name, built_in_partitions(&options, SEED, partition_keys, keys())));
            }
        }
        // More keys need several pages, and a bumped ribbon needs a layer.
        blocks.push((format!("{kind}, 6,000 keys"), blocks::block(kind, 6_000)));
    }
    let ranges = FilterOptions::new(spec("grafite:fpr=0.01")).table_id(TABLE);
    blocks.push(("grafite".to_owned(), built(&ranges, SEED, keys())));
    blocks.push(("grafite, partitions".to_owned(), built_in_partitions(&ranges, SEED, 30, keys())));
    blocks
}

fn lens(bytes: &[u8]) -> impl Iterator<Item = usize> {
    (0..bytes.len()).step_by(1 + bytes.len() / 60).chain((bytes.len().saturating_sub(70)..bytes.len()).step_by(7))
}

fn expected(bytes: &[u8]) -> Expected<'static> {
    let expected = Expected::of_table(TABLE, &HASHER);
    match FilterBlock::open_any(bytes, Verify::OnFirstTouch).unwrap().metadata().extractor {
        Some(_) => expected.with_prefixes("fixed:11"),
        None => expected,
    }
}

fn assert_maybe(what: &str, block: &FilterBlock<Shorter>, i: usize) {
    let key = key(i);
    let (hash, prefix) = (HASHER.of(&key), &key[..11]);
    assert!(block.may_contain(block.hasher().key(&key)), "{what}: {i}");
    assert!(block.may_contain_hash(hash) && block.may_contain(block.hasher().key(&key)), "{what}: {i}");
    assert!(block.may_contain_prefix("fixed:11", block.hasher().key(prefix)), "{what}: {i}");
    assert!(block.may_contain_range(Included(&key), Included(&key)), "{what}: {i}");
    assert!(block.may_contain_range(Included(&key), Unbounded), "{what}: {i}");
    block.prefetch(hash);
}

#[test]
fn blocks_whose_bytes_become_shorter_deny_no_key() {
    let hashes: Vec<_> = (0..N).map(|i| HASHER.of(&key(i))).collect();
    for (name, bytes) in blocks() {
        for verify in BOTH {
            for len in lens(&bytes) {
                let data = Shorter::new(&bytes);
                let block = FilterBlock::open(data.clone(), &expected(&bytes), verify).unwrap();
                data.cut(len);
                let what = format!("{name}, {verify:?}, {len} of {}", bytes.len());
                (0..N).step_by(3).for_each(|i| assert_maybe(&what, &block, i));
                let mut answers = [false; N];
                block.may_contain_batch(&hashes, &mut answers);
                assert_eq!(answers, [true; N], "{what}");
                let filter = TableFilter::Ready(block);
                assert!((0..N).step_by(7).all(|i| filter.ask(HASHER.key(&key(i))) != Answer::No), "{what}");
            }
        }
    }
}

#[test]
fn partitions_whose_bytes_become_shorter_deny_no_key() {
    for (name, bytes) in blocks() {
        let index_bytes = blocks::index_of(&bytes);
        if PartitionIndex::open(index_bytes, &expected(&bytes)).is_err() {
            continue;
        }
        for len in lens(index_bytes) {
            // First the index becomes shorter, and then the partition.
            let data = Shorter::new(index_bytes);
            let index = PartitionIndex::open(data.clone(), &expected(&bytes)).unwrap();
            let parts: Vec<_> = index.iter().map(|entry| (entry.number, entry.byte_range)).collect();
            let open = |(number, range): &(u32, std::ops::Range<u64>)| {
                let part = Shorter::new(&bytes[range.start as usize..range.end as usize]);
                (index.open_partition(*number, part.clone(), Verify::AtOpen).unwrap(), part)
            };
            let opened: Vec<_> = parts.iter().map(open).collect();
            data.cut(len);
            for key in (0..N).map(key) {
                let number = index.find(&key).unwrap() as usize;
                assert!(opened[number].0.may_contain(HASHER.key(&key)), "{name}: {len} of the index");
            }
            for (part, data) in &opened {
                data.cut(len.min(data.as_ref().len() - 1));
                for key in (0..N).step_by(5).map(key) {
                    assert!(part.may_contain(HASHER.key(&key)), "{name}: {len} of a partition");
                    assert!(
                        part.may_contain_prefix("fixed:11", HASHER.key(&key[..11])),
                        "{name}: {len} of a partition"
                    );
                    assert!(part.may_contain_range(Included(&key), Included(&key)), "{name}: {len} of a partition");
                }
            }
        }
    }
}
