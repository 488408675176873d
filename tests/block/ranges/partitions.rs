//! Tests range filters in partitions.

use std::ops::Bound::{self, Included};

use filterblock::partitions::PartitionIndex;
use filterblock::{Expected, FilterOptions, Verify};
use filterblock_testkit::blocks::{built_in_partitions, index_of};

use super::key_sets::all;
use super::support::{Keys, TABLE, forms, hasher, holds_key, is_reversed, near, open};

fn partitioned(keys: &Keys, partition_keys: usize) -> Vec<u8> {
    let options = FilterOptions::new("grafite:fpr=0.01".parse().unwrap()).table_id(TABLE);
    built_in_partitions(&options, hasher(), partition_keys, keys)
}

#[test]
fn partitions_of_range_filters_never_deny_a_key() {
    for (name, keys) in all(400, 21) {
        for partition_keys in [1, 7, 100] {
            let bytes = partitioned(&keys, partition_keys);
            let block = open(bytes.as_slice(), Verify::AtOpen).unwrap();
            let hasher = hasher();
            let expected = Expected::of_table(TABLE, &hasher);
            let index = PartitionIndex::open(index_of(&bytes), &expected).unwrap();
            let opened: Vec<_> = (0..index.len() as u32)
                .map(|number| {
                    let range = index.get(number).unwrap().byte_range;
                    index
                        .open_partition(number, &bytes[range.start as usize..range.end as usize], Verify::AtOpen)
                        .unwrap()
                })
                .collect();
            let limits: Vec<Vec<u8>> = keys.iter().step_by(1 + keys.len() / 15).flat_map(|key| near(key)).collect();
            for (i, from) in limits.iter().enumerate() {
                for to in limits.iter().skip(i.saturating_sub(3)).step_by(2).take(20) {
                    for (lower, upper) in forms(from, to) {
                        let answer = block.may_contain_range(lower, upper);
                        let holds = holds_key(&keys, lower, upper);
                        let holds = holds || is_reversed(lower, upper);
                        assert!(answer || !holds, "{name}, {partition_keys}: {lower:02x?} {upper:02x?}");
                        for partition in opened.iter().step_by(1 + opened.len() / 9) {
                            assert!(
                                partition.may_contain_range(lower, upper) || !holds,
                                "{name}: {lower:02x?} {upper:02x?}"
                            );
                        }
                    }
                }
            }
            for partition in &opened {
                assert!(keys.iter().all(|key| partition.may_contain(partition.block().hasher().key(key))), "{name}");
                assert!(
                    partition.block().may_contain_range(Included(b"zzz"), Bound::Unbounded),
                    "a partition without its index must answer \"maybe\""
                );
            }
            assert!(keys.iter().all(|key| block.may_contain(block.hasher().key(key))), "{name}");
        }
    }
}

#[test]
fn a_partition_denies_ranges_within_itself() {
    let keys: Keys = (0..4_000u32).map(|i| format!("{:07}", i * 1_000).into_bytes()).collect();
    let bytes = partitioned(&keys, 500);
    let block = open(bytes.as_slice(), Verify::OnFirstTouch).unwrap();
    let hasher = hasher();
    let expected = Expected::of_table(TABLE, &hasher);
    let index = PartitionIndex::open(index_of(&bytes), &expected).unwrap();
    let (mut denied, mut denied_alone) = (0, 0);
    for i in 0..3_999u32 {
        let (from, to) = (format!("{:07}", i * 1_000 + 400), format!("{:07}", i * 1_000 + 430));
        let (lower, upper) = (Included(from.as_bytes()), Included(to.as_bytes()));
        denied += u32::from(!block.may_contain_range(lower, upper));
        let number = index.find(from.as_bytes()).unwrap();
        let range = index.get(number).unwrap().byte_range;
        let part = &bytes[range.start as usize..range.end as usize];
        let partition = index.open_partition(number, part, Verify::AtOpen).unwrap();
        denied_alone += u32::from(!partition.may_contain_range(lower, upper));
    }
    assert!(denied > 3_800 && denied_alone > 3_800, "{denied} {denied_alone}");
}
