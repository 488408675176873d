//! A caller's mistake is an error or "maybe", never "absent": another table's filter, whole keys and prefixes mixed up,
//! another hasher.

use crate::support::{self, SEED, TABLE, key, spec};
use filterblock::{
    Error, Expected, Field, FilterBlock, FilterBuilder, HashSeed, KeyHash, KeyHasher, LockedBlock, Secret, Verify,
};

const N: usize = 300;

fn builder() -> FilterBuilder {
    FilterBuilder::new(spec("bloom:10"), SEED).with_table_id(TABLE)
}

/// The first seven bytes of the keys, which are those of a hundred or fewer of them.
fn of_prefixes(whole_keys_too: bool) -> Vec<u8> {
    let mut builder = builder().with_prefixes("first-7", whole_keys_too).unwrap();
    for i in 0..N {
        builder.add(&key(i)[..7]);
        if whole_keys_too {
            builder.add(&key(i));
        }
    }
    builder.finish().unwrap()
}

fn of_keys() -> Vec<u8> {
    let mut builder = builder();
    (0..N).for_each(|i| builder.add(&key(i)));
    builder.finish().unwrap()
}

#[test]
fn whole_keys_are_not_denied_by_blocks_of_prefixes() {
    let bytes = of_prefixes(false);
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        let block = FilterBlock::open_with(bytes.as_slice(), verify).unwrap();
        for key in (0..N).map(key) {
            assert!(block.may_contain_key(&key), "{key:?}");
            assert!(block.may_contain_hashed_key(&key, block.hasher().of(&key)), "{key:?}");
        }
        // It is still a filter of prefixes.
        assert!((0..N).all(|i| block.may_contain_prefix("first-7", &key(i)[..7])));
        let passed =
            (0..1_000).filter(|i| block.may_contain_prefix("first-7", format!("no-{i:04}").as_bytes())).count();
        assert!(passed < 100, "{passed} of 1,000");
    }
}

#[test]
fn prefixes_are_not_denied_by_blocks_that_know_none_of_them() {
    let whole = FilterBlock::open(of_keys()).unwrap();
    let both = FilterBlock::open(of_prefixes(true)).unwrap();
    for i in 0..N {
        let key = key(i);
        let prefix = &key[..7];
        assert!(whole.may_contain_prefix("first-7", prefix), "a block of whole keys knows no prefix");
        assert!(both.may_contain_prefix("first-7", prefix) && both.may_contain_key(&key));
        // Of another function, other prefixes were added.
        assert!(both.may_contain_prefix("first-5", &key[..5]));
        assert!(both.may_contain_hashed_prefix("first-5", both.hasher().of(&key[..5])));
    }
    assert!((0..1_000).filter(|i| both.may_contain_prefix("first-7", format!("no-{i:04}").as_bytes())).count() < 100);
}

fn refused(bytes: &[u8], expected: &Expected<'_>) -> Field {
    match FilterBlock::open_expecting(bytes, expected, Verify::AtOpen) {
        Err(error) if error.is_damage() => panic!("a sound block of another table is not damaged: {error}"),
        Err(Error::Unexpected { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_of_another_table_do_not_open() {
    let bytes = of_keys();
    let block =
        FilterBlock::open_expecting(bytes.as_slice(), &Expected::of_table(TABLE), Verify::OnFirstTouch).unwrap();
    assert!((0..N).all(|i| block.may_contain_key(&key(i))));
    let mut other = TABLE;
    for byte in 0..16 {
        other[byte] ^= 1;
        assert_eq!(refused(&bytes, &Expected::of_table(other)), Field::TableId);
        other[byte] ^= 1;
    }
    // A block that says no table belongs to none.
    let nobodys = FilterBuilder::new(spec("bloom:10"), SEED).finish().unwrap();
    assert_eq!(refused(&nobodys, &Expected::of_table(TABLE)), Field::TableId);
    // In partitions: the index, and below each partition alone.
    let parts = support::partitioned("bloom:10", N, 100);
    assert!(FilterBlock::open_expecting(parts.as_slice(), &Expected::of_table(TABLE), Verify::AtOpen).is_ok());
    assert_eq!(refused(&parts, &Expected::of_table(other.map(|byte| byte ^ 1))), Field::TableId);
}

#[test]
fn partitions_of_another_table_do_not_open_alone() {
    let parts = support::partitioned("bloom:10", N, 100);
    let mut starts = (0..parts.len()).step_by(64);
    for number in 0..3 {
        // A partition begins at a multiple of 64 bytes, and opens by its own length and number alone.
        let mut ranges = starts.by_ref().flat_map(|start| (start..parts.len()).map(move |end| start..end + 1));
        let opens = |bytes| LockedBlock::open_partition(bytes, number, Verify::AtOpen);
        let range = ranges.find(|range| opens(&parts[range.clone()]).is_ok()).unwrap();
        let open = |table_id| opens(&parts[range.clone()]).unwrap().unlock_expecting(&Expected::of_table(table_id));
        let part = open(TABLE).unwrap();
        let first = number as usize * 100;
        assert!((first..first + 100).all(|i| part.may_contain_key(&key(i))), "{number}");
        let refused = open(TABLE.map(|byte| byte ^ 1));
        assert!(matches!(refused, Err(Error::Unexpected { field: Field::TableId, .. })), "{number}: {refused:?}");
    }
}

#[test]
fn no_table_id_is_not_one_to_expect() {
    let nobodys = FilterBuilder::new(spec("bloom:10"), SEED).finish().unwrap();
    for bytes in [nobodys, of_keys()] {
        let opened = FilterBlock::open_expecting(bytes, &Expected::of_table([0; 16]), Verify::AtOpen);
        assert!(matches!(opened, Err(Error::Invalid { what: "expected table id", .. })), "{opened:?}");
    }
}

#[test]
fn blocks_of_other_things_than_expected_do_not_open() {
    let of_table = Expected::of_table(TABLE);
    let (prefixes, both, keys) = (of_prefixes(false), of_prefixes(true), of_keys());
    assert_eq!(refused(&prefixes, &of_table), Field::Flags);
    assert_eq!(refused(&keys, &of_table.with_prefixes("first-7")), Field::Flags);
    assert_eq!(refused(&both, &of_table.with_prefixes("first-5")), Field::Extension);
    for (bytes, expected) in [
        (&keys, of_table),
        (&both, of_table),
        (&both, of_table.with_prefixes("first-7")),
        (&prefixes, of_table.with_prefixes("first-7")),
    ] {
        assert!(FilterBlock::open_expecting(bytes, &expected, Verify::AtOpen).is_ok(), "{expected:?}");
    }
}

#[test]
fn blocks_of_another_hasher_do_not_open() {
    let bytes = of_keys();
    let (own, other) = (KeyHasher::xxh3(SEED), KeyHasher::xxh3(HashSeed(SEED.0 + 1)));
    let secret = Secret::new(&[7; 16]).unwrap();
    let keyed = KeyHasher::sip13(SEED, &secret);
    let open = |hasher: &KeyHasher| {
        let expected = Expected::of_table(TABLE).with_hasher(hasher);
        LockedBlock::open(bytes.as_slice(), Verify::AtOpen).unwrap().unlock_expecting(&expected)
    };
    assert!(open(&own).unwrap().may_contain(own.of(&key(1))));
    assert!(matches!(open(&other), Err(Error::Unexpected { field: Field::Seed, .. })));
    assert!(matches!(open(&keyed), Err(Error::Unexpected { field: Field::HashId, .. })));
    // What remains unnoticed: a hash says nothing of its hasher.
    let block = open(&own).unwrap();
    assert!((0..N).any(|i| !block.may_contain(KeyHash::of(&key(i), HashSeed(SEED.0 + 1)))));
}
