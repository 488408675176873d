//! Tests mistakes of the caller, such as the filter of another SST or another hasher.

use filterblock::layout::checksum_of;
use filterblock::{
    Answer, Error, Expected, Field, FilterBlock, FilterBuilder, FilterOptions, HashSeed, KeyHash, KeyHasher, Secret,
    TableFilter, Verify, WholeKeys, partitions::PartitionIndex,
};
use filterblock_testkit::blocks::{self, BOTH, SEED, TABLE, built, built_in_partitions, key, spec};

const N: usize = 300;
static HASHER: KeyHasher = KeyHasher::xxh3(SEED);

fn of_table(table_id: [u8; 16]) -> Expected<'static> {
    Expected::of_table(table_id, &HASHER)
}

fn builder() -> FilterBuilder {
    FilterOptions::new(spec("bloom:10")).table_id(TABLE).builder(SEED).unwrap()
}

/// Returns a filter of the first seven bytes of each key, and of the keys too if `whole_keys` says so.
fn of_prefixes(whole_keys: WholeKeys) -> Vec<u8> {
    let options = FilterOptions::new(spec("bloom:10")).table_id(TABLE).prefixes_by_host("first-7", whole_keys);
    let mut builder = options.builder(SEED).unwrap();
    for i in 0..N {
        builder.add(HASHER.key(&key(i)));
        builder.add_prefix(HASHER.key(&key(i)[..7]));
    }
    builder.finish().unwrap().bytes
}

#[test]
fn prefixes_of_the_host_that_were_added_as_keys_are_not_denied() {
    let options = FilterOptions::new(spec("bloom:10")).table_id(TABLE).prefixes_by_host("first-7", WholeKeys::Not);
    let expected = of_table(TABLE).with_prefixes("first-7");
    for hashes in [0, 1, 50] {
        let mut builder = options.builder(SEED).unwrap();
        (0..N).for_each(|i| builder.add(HASHER.key(&key(i)[..7])));
        (0..hashes).for_each(|i| builder.add_hash(HASHER.of(&key(N + i))));
        let block = FilterBlock::open(builder.finish().unwrap().bytes, &expected, Verify::AtOpen).unwrap();
        assert!((0..N).all(|i| block.may_contain_prefix("first-7", HASHER.key(&key(i)[..7]))), "{hashes} hashes");
    }
    // The host may take the prefixes and add their hashes.
    let mut builder = options.builder(SEED).unwrap();
    (0..N).for_each(|i| builder.add_hash(HASHER.of(&key(i)[..7])));
    let block = FilterBlock::open(builder.finish().unwrap().bytes, &expected, Verify::AtOpen).unwrap();
    assert!((0..N).all(|i| block.may_contain_prefix("first-7", HASHER.key(&key(i)[..7]))));
    let absent = |i: usize| block.may_contain_prefix("first-7", HASHER.key(&i.to_le_bytes()));
    assert!((0..1_000).filter(|i| absent(*i)).count() < 100);
    let bytes = built_in_partitions(&options, SEED, 1, (0..N).map(|i| key(i)[..7].to_vec()));
    let block = FilterBlock::open(bytes, &expected, Verify::AtOpen).unwrap();
    assert!((0..N).all(|i| block.may_contain_prefix("first-7", HASHER.key(&key(i)[..7]))));
}

fn of_keys() -> Vec<u8> {
    blocks::block("bloom:10", N)
}

#[test]
fn blocks_of_prefixes_never_deny_whole_keys() {
    let bytes = of_prefixes(WholeKeys::Not);
    for verify in BOTH {
        let block = FilterBlock::open_any(bytes.as_slice(), verify).unwrap();
        for key in (0..N).map(key) {
            assert!(block.may_contain(block.hasher().key(&key)), "{key:?}");
            let hash = block.hasher().of(&key);
            assert!(block.may_contain(block.hasher().key(&key)) && block.may_contain_hash(hash), "{key:?}");
            let mut answers = [false; 2];
            block.may_contain_batch(&[hash, hash], &mut answers);
            assert!(answers == [true; 2], "{key:?}");
        }
        // The block still answers for prefixes.
        assert!((0..N).all(|i| block.may_contain_prefix("first-7", block.hasher().key(&key(i)[..7]))));
        let passed = (0..1_000)
            .filter(|i| block.may_contain_prefix("first-7", block.hasher().key(format!("no-{i:04}").as_bytes())))
            .count();
        assert!(passed < 100, "{passed} of 1,000");
    }
}

#[test]
fn blocks_without_the_prefixes_never_deny_prefixes() {
    let whole = FilterBlock::open_any(of_keys(), Verify::AtOpen).unwrap();
    let both = FilterBlock::open_any(of_prefixes(WholeKeys::Too), Verify::AtOpen).unwrap();
    for i in 0..N {
        let key = key(i);
        let prefix = &key[..7];
        assert!(
            whole.may_contain_prefix("first-7", whole.hasher().key(prefix)),
            "a block of whole keys must not deny a prefix"
        );
        assert!(
            both.may_contain_prefix("first-7", both.hasher().key(prefix)) && both.may_contain(both.hasher().key(&key))
        );
        // The block holds no prefixes of another extractor.
        assert!(both.may_contain_prefix("first-5", both.hasher().key(&key[..5])));
    }
    assert!(
        (0..1_000)
            .filter(|i| both.may_contain_prefix("first-7", both.hasher().key(format!("no-{i:04}").as_bytes())))
            .count()
            < 100
    );
}

fn refused(bytes: &[u8], expected: &Expected<'_>) -> Field {
    match FilterBlock::open(bytes, expected, Verify::AtOpen) {
        Err(error) if error.is_damage() => panic!("a sound block of another SST was reported as damaged: {error}"),
        Err(Error::Unexpected { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_of_another_table_do_not_open() {
    let bytes = of_keys();
    let block = FilterBlock::open(bytes.as_slice(), &of_table(TABLE), Verify::OnFirstTouch).unwrap();
    assert!((0..N).all(|i| block.may_contain(block.hasher().key(&key(i)))));
    let mut other = TABLE;
    for byte in 0..16 {
        other[byte] ^= 1;
        assert_eq!(refused(&bytes, &of_table(other)), Field::TableId);
        other[byte] ^= 1;
    }
    // A block without a table id belongs to no SST.
    let without_table = FilterOptions::new(spec("bloom:10")).builder(SEED).unwrap().finish().unwrap().bytes;
    assert_eq!(refused(&without_table, &of_table(TABLE)), Field::TableId);
    // In a partitioned filter, the partition index has the table id.
    let parts = blocks::partitioned("bloom:10", N, 100);
    assert!(FilterBlock::open(parts.as_slice(), &of_table(TABLE), Verify::AtOpen).is_ok());
    assert_eq!(refused(&parts, &of_table(other.map(|byte| byte ^ 1))), Field::TableId);
}

#[test]
fn a_table_id_of_zeros_cannot_be_expected() {
    let without_table = FilterOptions::new(spec("bloom:10")).builder(SEED).unwrap().finish().unwrap().bytes;
    for bytes in [&without_table, &of_keys()] {
        let opened = FilterBlock::open(bytes, &of_table([0; 16]), Verify::AtOpen);
        assert!(matches!(opened, Err(Error::Invalid { what: "expected table id", .. })), "{opened:?}");
    }
    // A block with the expected checksum may have a table id of zeros. Both the table id and the
    // checksum are compared.
    let expected = of_table([0; 16]).with_checksum(checksum_of(&without_table).unwrap());
    assert!(FilterBlock::open(without_table.as_slice(), &expected, Verify::AtOpen).is_ok());
    assert_eq!(refused(&of_keys(), &expected), Field::TableId);
    assert_eq!(refused(&built(&FilterOptions::new(spec("bloom:11")), SEED, ["a key"]), &expected), Field::Checksum);
}

#[test]
fn blocks_with_unexpected_contents_do_not_open() {
    let of_table = of_table(TABLE);
    let (prefixes, both, keys) = (of_prefixes(WholeKeys::Not), of_prefixes(WholeKeys::Too), of_keys());
    assert_eq!(refused(&prefixes, &of_table), Field::Flags);
    assert_eq!(refused(&keys, &of_table.with_prefixes("first-7")), Field::Flags);
    assert_eq!(refused(&both, &of_table.with_prefixes("first-5")), Field::Extension);
    for (bytes, expected) in [
        (&keys, of_table),
        (&both, of_table),
        (&both, of_table.with_prefixes("first-7")),
        (&prefixes, of_table.with_prefixes("first-7")),
    ] {
        assert!(FilterBlock::open(bytes, &expected, Verify::AtOpen).is_ok(), "{expected:?}");
    }
    let other_seed = KeyHasher::xxh3(HashSeed(SEED.0 + 1));
    let keyed = KeyHasher::sip13(SEED, &Secret::new(&[7; 16]).unwrap());
    assert_eq!(refused(&keys, &Expected::of_table(TABLE, &other_seed)), Field::Seed);
    assert_eq!(refused(&keys, &Expected::of_table(TABLE, &keyed)), Field::HashId);
}

#[test]
fn stale_blocks_do_not_open() {
    let (old, new) = (blocks::block("bloom:10", N), blocks::block("bloom:10", N + 1));
    let expected = of_table(TABLE).with_checksum(checksum_of(&new).unwrap());
    assert!(FilterBlock::open(new.as_slice(), &expected, Verify::OnFirstTouch).is_ok());
    assert_eq!(refused(&old, &expected), Field::Checksum);
    // A block of the same keys with another budget has another checksum, too.
    assert_eq!(refused(&blocks::block("bloom:11", N + 1), &expected), Field::Checksum);
}

/// Returns the filters of an older and a newer state of an SST. Their partitions have equal
/// lengths, numbers of keys and last keys.
fn two_states() -> [Vec<u8>; 2] {
    [["a1", "b1", "c1", "d", "e1", "f1", "g1", "h"], ["a2", "b2", "c2", "d", "e2", "f2", "g2", "h"]]
        .map(|keys| built_in_partitions(&FilterOptions::new(spec("bloom:10")).table_id(TABLE), SEED, 4, keys))
}

#[test]
fn stale_partitioned_filters_do_not_open() {
    let [old, new] = two_states();
    let expected = of_table(TABLE).with_num_entries(8).with_checksum(checksum_of(&new).unwrap());
    for verify in BOTH {
        assert!(FilterBlock::open(new.as_slice(), &expected, verify).unwrap().may_contain(HASHER.key(b"a2")));
        assert_eq!(old.len(), new.len());
        assert_eq!(refused(&old, &expected), Field::Checksum);
        // A file that mixes bytes of both states is damaged.
        for range in [0..64, 128..new.len() - 1] {
            let mut mixed = new.clone();
            mixed[range.clone()].copy_from_slice(&old[range]);
            assert!(FilterBlock::open(mixed, &expected, verify).is_err_and(|error| error.is_damage()));
        }
    }
}

#[test]
fn stale_partitions_do_not_open_under_another_index() {
    let [old, new] = two_states();
    let index_of = |filter: &[u8]| {
        let starts = (0..filter.len()).step_by(64);
        let open = |start: usize| PartitionIndex::open(filter[start..].to_vec(), &of_table(TABLE));
        starts.rev().find_map(|start| open(start).ok()).unwrap()
    };
    let index = index_of(&new);
    for entry in index.iter() {
        let range = entry.byte_range.start as usize..entry.byte_range.end as usize;
        let open = |filter: &[u8]| index.open_partition(entry.number, filter[range.clone()].to_vec(), Verify::AtOpen);
        assert!(open(&new).unwrap().may_contain(HASHER.key(entry.last_key)));
        assert!(matches!(open(&old), Err(Error::Unexpected { field: Field::Checksum, .. })));
    }
}

#[test]
fn blocks_with_too_many_keys_or_none_do_not_open() {
    let (keys, none) = (of_keys(), blocks::block("bloom:10", 0));
    let entries = |num_entries| of_table(TABLE).with_num_entries(num_entries);
    let opens = |bytes: &[u8], num_entries| FilterBlock::open(bytes, &entries(num_entries), Verify::AtOpen).is_ok();
    let n = N as u64;
    // Entries may be versions of one key, and keys may share a hash, so a filter may have fewer
    // keys than the SST has entries.
    assert!(opens(&keys, n) && opens(&keys, n + 1) && opens(&keys, u64::MAX) && opens(&none, 0));
    for (bytes, num_entries) in [(&keys, n - 1), (&keys, 0), (&none, 1), (&none, u64::MAX)] {
        assert_eq!(refused(bytes, &entries(num_entries)), Field::NumKeys, "{num_entries}");
    }
    // An extractor may take any number of prefixes from one key.
    let options = FilterOptions::new(spec("bloom:10")).table_id(TABLE).prefixes_by_host("first-7", WholeKeys::Not);
    let prefixes = options.builder(SEED).unwrap().finish().unwrap().bytes;
    let expected = |num_entries| entries(num_entries).with_prefixes("first-7");
    assert!(FilterBlock::open(&prefixes, &expected(n), Verify::AtOpen).is_ok());
    assert!(FilterBlock::open(of_prefixes(WholeKeys::Too), &expected(1), Verify::AtOpen).is_ok());
    for of in [of_prefixes(WholeKeys::Too), of_prefixes(WholeKeys::Not)] {
        assert_eq!(refused(&of, &expected(0)), Field::NumKeys);
    }
}

#[test]
fn errors_count_offsets_from_the_start_of_the_hosts_file() {
    let sound = of_keys();
    let mut bytes = sound.clone();
    bytes[9] ^= 1;
    let expected = of_table(TABLE).at_offset(1 << 40);
    let at_page = |error: &Error| matches!(error, Error::ChecksumMismatch { field: Field::Page, offset, .. } if *offset == 1 << 40);
    assert!(at_page(&FilterBlock::open(bytes.as_slice(), &expected, Verify::AtOpen).unwrap_err()));
    let block = FilterBlock::open(bytes.as_slice(), &expected, Verify::OnFirstTouch).unwrap();
    // Queries that would deny their key verify the page, find the damage and answer "maybe".
    assert!((0..3 * N).all(|i| block.may_contain(block.hasher().key(&key(i)))));
    assert!(at_page(&block.verify_pages().unwrap_err()));
    // Each damaged page counts once, however often queries touch it.
    assert_eq!(block.damaged_pages(), 1);
    let last = sound.len() - 1;
    bytes[last] ^= 1;
    let (Error::Corrupt { offset, .. } | Error::ChecksumMismatch { offset, .. }) =
        FilterBlock::open(bytes.as_slice(), &expected, Verify::AtOpen).unwrap_err()
    else {
        panic!("expected an error about the damaged magic")
    };
    assert!(offset > 1 << 40, "{offset}");
}

#[test]
fn unusable_filters_answer_maybe_and_say_why() {
    let bytes = of_keys();
    let open = |bytes, expected| TableFilter::from(FilterBlock::open(bytes, expected, Verify::AtOpen));
    let expected = of_table(TABLE);
    let ready = open(bytes.as_slice(), &expected);
    assert!(ready.ready().is_some() && ready.reason().is_none());
    let asked =
        |filter: &TableFilter<&[u8]>| [b"no such key".as_slice(), &key(1)].map(|key| filter.ask(HASHER.key(key)));
    assert_eq!(asked(&ready), [Answer::No, Answer::Maybe]);
    assert!(!Answer::No.must_read() && Answer::Maybe.must_read() && Answer::Unfiltered.must_read());
    let degraded = open(&bytes[1..], &expected);
    assert!(degraded.reason().unwrap().downcast_ref::<Error>().unwrap().is_damage());
    let absent = TableFilter::from(Ok::<Option<FilterBlock<&[u8]>>, Error>(None));
    assert!(matches!(absent, TableFilter::Absent) && absent.reason().is_none());
    for filter in [degraded, absent] {
        assert!(filter.ready().is_none());
        assert_eq!(asked(&filter), [Answer::Unfiltered; 2]);
    }
}

/// In debug builds, a hash records the hasher that made it. A hash from raw bits records none.
#[cfg(debug_assertions)]
#[test]
fn hashes_of_another_hasher_panic_in_debug_builds() {
    let secret = Secret::new(&[7; 16]).unwrap();
    let others = [
        KeyHasher::xxh3(HashSeed(SEED.0 + 1)),
        KeyHasher::xxh3(HashSeed(SEED.0 ^ 1 << 63)),
        KeyHasher::sip13(SEED, &secret),
        KeyHasher::xxh3_with_secret(SEED, &secret),
    ];
    let block = FilterBlock::open(of_keys(), &of_table(TABLE), Verify::AtOpen).unwrap();
    for other in &others {
        let hash = other.of(&key(1));
        let asks: [&dyn Fn() -> bool; 5] = [
            &|| block.may_contain_hash(hash),
            &|| block.may_contain(other.key(b"key")),
            &|| block.may_contain_prefix("first-7", other.key(b"prefix")),
            &|| {
                block.may_contain_batch(&[HASHER.of(b""), hash], &mut [false; 2]);
                true
            },
            &|| {
                builder().add_hash(hash);
                true
            },
        ];
        for (number, ask) in asks.iter().enumerate() {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(ask));
            let message = caught.expect_err("a hash of another hasher passed");
            let message = message.downcast_ref::<String>().unwrap();
            assert!(message.contains("another hasher"), "{number}: {message}");
        }
    }
    // A hash from raw bits passes.
    assert!(block.may_contain_hash(KeyHash::from_raw(HASHER.of(&key(1)).raw())));
}
