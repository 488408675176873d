//! Tests damaged, hostile and unusual files of other engines.

use std::cell::Cell;

use filterblock_foreign::{Error, Field, KeyForm, Result, Verified, leveldb, rocksdb};
use filterblock_parquet as parquet;
use filterblock_testkit::allocation::of_thread::{LIVE, PEAK};
use filterblock_testkit::foreign::forge::{self, Forge, Handle, block, internal, varint};
use filterblock_testkit::foreign::{Case, cases, file};

use crate::{keys_of, parquet_filter, rocksdb_filter};

/// The outcome of opening, querying and reading a file.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// The number of denied keys.
    denied: usize,
    /// Every key, or `None` after an error.
    keys: Option<Vec<Vec<u8>>>,
    /// Whether `verify` finds no damage and no denied key.
    verified: bool,
}

fn outcome(denied: usize, keys: Result<Vec<Vec<u8>>>, verified: Result<Verified>) -> Outcome {
    Outcome { denied, keys: keys.ok(), verified: verified.is_ok_and(|found| found.denied_keys == 0) }
}

fn ask_leveldb(bytes: &[u8], present: &[Vec<u8>]) -> Result<Outcome> {
    let table = leveldb::LevelDbTable::open(bytes)?;
    let denied = present.iter().filter(|key| !table.may_contain(key)).count();
    let (_, _) = (table.filters().count(), table.key_form());
    Ok(outcome(denied, keys_of(|push| table.for_each_key(push)), table.verify()))
}

fn ask_rocksdb(bytes: &[u8], present: &[Vec<u8>]) -> Result<Outcome> {
    let table = rocksdb::RocksDbTable::open(bytes)?;
    let denied = present.iter().filter(|key| !table.may_contain(key) || !table.prefix_may_match(key)).count();
    table.for_each_filter(|place| table.filter(&place).is_some());
    Ok(outcome(denied, keys_of(|push| table.for_each_key(push)), table.verify()))
}

/// Changes each byte of a file, and asserts that no changed file denies any of three sample keys.
/// Asserts that a changed file that still verifies has the same keys, and that no truncated file
/// opens. Returns the number of changed bytes that go unnoticed.
fn change_every_byte(bytes: &[u8], keys: &[Vec<u8>], ask: impl Fn(&[u8], &[Vec<u8>]) -> Result<Outcome>) -> usize {
    let sound = ask(bytes, keys).unwrap();
    assert_eq!((sound.denied, sound.verified), (0, true));
    assert!(sound.keys.as_deref() == Some(keys));
    let (mut missed, sample) = (0, [&keys[..1], &keys[keys.len() / 2..][..1], &keys[keys.len() - 1..]].concat());
    let mut damaged = bytes.to_vec();
    for at in 0..bytes.len() {
        damaged[at] ^= [1 << (at % 8), 0xff, 0x80][at % 3];
        if let Ok(outcome) = ask(&damaged, &sample) {
            assert_eq!(outcome.denied, 0, "byte {at} changed: a key is denied");
            assert!(!outcome.verified || outcome.keys == sound.keys, "byte {at} changed: `verify` accepts other keys");
            missed += usize::from(outcome.verified);
        }
        damaged[at] = bytes[at];
    }
    for len in (0..bytes.len()).step_by(bytes.len() / 500 + 1) {
        assert!(ask(&bytes[..len], keys).is_err(), "cut at {len}");
    }
    missed
}

#[test]
fn no_changed_byte_of_a_table_denies_a_key() {
    // Changes may go unnoticed only in two parts. One part is the zeros after the handles of a
    // footer: at most 34 bytes in these tables of RocksDB, and at most 36 in those of LevelDB. The
    // other part, only in RocksDB, is the sequence number of 8 bytes that an ingestion writes into
    // the properties.
    let most_missed = 34 + 8 + 1;
    for (folder, name) in [
        ("leveldb", "tbl-n1"),
        ("leveldb", "tbl-n100"),
        ("rocksdb-7.8.3", "fv5-bloom-n100"),
        ("rocksdb-7.8.3", "fv5-ribbon-n100"),
        ("rocksdb-9.8.4", "fv6-bloom-n100"),
        ("rocksdb-9.8.4", "fv6-ribbon-n300"),
        ("rocksdb-11.8.1", "fv7-bloom-n70"),
        ("rocksdb-11.8.1", "fv7-bloom-crc32c"),
    ] {
        let case = cases(folder).into_iter().find(|case| case.text("name") == name).unwrap();
        let ask = if folder == "leveldb" { ask_leveldb } else { ask_rocksdb };
        let missed = change_every_byte(&case.bytes(), &case.keys(), ask);
        assert!(missed < most_missed, "{name}: {missed} changed bytes go unnoticed");
    }
    for (name, n) in [("fv4-snappy-partitions", 600), ("fv6-zstd", 600)] {
        let keys: Vec<Vec<u8>> = (0..n).map(|i| format!("key-{:08}", i * 7).into_bytes()).collect();
        let missed = change_every_byte(&file("rocksdb-9.8.4-layouts", &format!("{name}.sst")), &keys, ask_rocksdb);
        assert!(missed < most_missed, "{name}: {missed} changed bytes go unnoticed");
    }
}

/// Bytes of which only the first ones are there.
struct Shorter(Vec<u8>, Cell<usize>);

impl AsRef<[u8]> for Shorter {
    fn as_ref(&self) -> &[u8] {
        &self.0[..self.1.get()]
    }
}

#[test]
fn tables_that_become_shorter_after_the_open_deny_no_key() {
    let case = |folder, name| cases(folder).into_iter().find(|case| case.text("name") == name).unwrap();
    let keys = |n: u32| (0..n).map(|i| format!("key-{:08}", i * 7).into_bytes()).collect();
    let of = |case: Case| (case.bytes(), case.keys());
    let layout = |name| (file("rocksdb-9.8.4-layouts", name), keys(600));
    let leveldb = of(case("leveldb", "tbl-n100"));
    let rocksdb =
        [of(case("rocksdb-9.8.4", "fv6-bloom-n100")), layout("fv4-snappy-partitions.sst"), layout("fv6-zstd.sst")];
    let (data, cut) = (Shorter(leveldb.0.clone(), Cell::new(leveldb.0.len())), |data: &Shorter, len| data.1.set(len));
    let table = leveldb::LevelDbTable::open(&data).unwrap();
    for len in (0..leveldb.0.len()).step_by(13) {
        cut(&data, len);
        assert!(leveldb.1.iter().all(|key| table.may_contain(key)), "{len} bytes");
    }
    for (bytes, keys) in rocksdb {
        let data = Shorter(bytes.clone(), Cell::new(bytes.len()));
        let table = rocksdb::RocksDbTable::open(&data).unwrap();
        for len in (0..bytes.len()).step_by(1 + bytes.len() / 200) {
            cut(&data, len);
            assert!(keys.iter().all(|key: &Vec<u8>| table.may_contain(key)), "{len} bytes");
            assert!(keys.iter().all(|key| table.prefix_may_match(key)), "{len} bytes");
        }
    }
}

#[test]
fn changed_parquet_metadata_causes_no_panic() {
    // Parquet metadata and filters have no checksums here, so a change may go unnoticed. It must
    // give an error or an answer, and never a panic.
    for name in ["rs.parquet", "pyarrow.parquet"] {
        let mut bytes = file("parquet", name);
        let metadata_len = u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap()) as usize;
        let ask = |bytes: &[u8]| {
            let opened = parquet::ParquetFile::open(bytes)?;
            for chunk in opened.column_chunks() {
                let _ = (opened.may_contain(chunk, b"k00000005"), opened.filter(chunk).is_ok());
            }
            opened.verify()
        };
        assert_eq!(ask(&bytes).unwrap(), 10);
        for at in (bytes.len() - 8 - metadata_len..bytes.len()).chain(41_106..41_130) {
            for turn in [1u8 << (at % 8), 0xff, 0x80] {
                bytes[at] ^= turn;
                let _ = ask(&bytes);
                bytes[at] ^= turn;
            }
        }
        for len in (0..bytes.len()).step_by(97) {
            assert!(ask(&bytes[..len]).is_err(), "cut at {len}");
        }
        bytes.truncate(bytes.len() - 1);
        bytes.push(b'E');
        assert!(matches!(ask(&bytes), Err(parquet::Error::Unsupported { .. })));
    }
}

/// The entries of an index: keys and block handles.
type Index = Vec<(Vec<u8>, Handle)>;

/// Ends a table of LevelDB with a filter block, if there is one, and an index.
fn leveldb_file(mut forge: Forge, filter: Option<leveldb::LevelDbFilterBlockBuilder>, index: &Index) -> Vec<u8> {
    let filter = filter.map(|filter| forge.block(&filter.finish().unwrap(), 0));
    let names: Vec<_> = filter.iter().map(|filter| (forge::LEVELDB_FILTER, filter.bytes())).collect();
    let metaindex = forge.block(&block(&names), 0);
    let entries: Vec<_> = index.iter().map(|(key, handle)| (key, handle.bytes())).collect();
    let index = forge.block(&block(&entries), 0);
    forge.leveldb(metaindex, index)
}

/// Returns a table of LevelDB with a data block for each key, one filter, and an index that
/// `change` may modify.
fn leveldb_table(keys: &[&[u8]], change: impl FnOnce(&mut Index)) -> Vec<u8> {
    let mut forge = Forge::default();
    let mut builder = leveldb::LevelDbFilterBlockBuilder::new(10);
    let mut index = Vec::new();
    for key in keys {
        builder.start_block(forge.bytes.len() as u64).unwrap();
        builder.add(key);
        index.push((internal(key, 9), forge.block(&block(&[(internal(key, 9), b"value")]), 0)));
    }
    change(&mut index);
    leveldb_file(forge, Some(builder), &index)
}

const KEYS: [&[u8]; 4] = [b"apple", b"banana", b"cherry", b"damson"];

#[test]
fn handles_outside_overlapping_or_descending_are_errors() {
    let sound = leveldb_table(&KEYS, |_| {});
    let table = leveldb::LevelDbTable::open(&sound[..]).unwrap();
    assert!(KEYS.iter().all(|key| table.may_contain(key)) && table.verify().unwrap().denied_keys == 0);
    assert_eq!(table.key_form(), Some(KeyForm::Internal));
    assert!(!table.may_contain(b"apricot") && !table.may_contain(b"zebra"));
    let wrong: [fn(&mut Index); 8] = [
        |index| index[1].1.offset = u64::MAX,
        |index| index[3].1.len = u64::MAX,
        |index| index[3].1.offset = u64::MAX - 4,
        |index| index[3].1.len = 1 << 40,
        |index| index[1].1 = index[0].1,
        |index| index[1].1.offset -= 1,
        |index| index.swap(0, 3),
        |index| index[3].1 = Handle { offset: 0, len: 600 },
    ];
    for (number, change) in wrong.into_iter().enumerate() {
        let bytes = leveldb_table(&KEYS, change);
        assert!(matches!(leveldb::LevelDbTable::open(&bytes[..]), Err(Error::Corrupt { .. })), "{number}");
    }
}

/// Returns a table with two data blocks: the first has the keys `z` and `a` and the compression
/// byte `first`, the second has `q`. The index is in byte order, and the first block is not.
fn table_in_an_order_of_its_own(first: u8) -> Vec<u8> {
    let mut forge = Forge::default();
    let data = forge.block(&block(&[(internal(b"z", 1), b""), (internal(b"a", 1), b"")]), first);
    let more = forge.block(&block(&[(internal(b"q", 1), b"")]), 0);
    let mut builder = leveldb::LevelDbFilterBlockBuilder::new(10);
    [b"z", b"a", b"q"].iter().for_each(|key| builder.add(&key[..]));
    leveldb_file(forge, Some(builder), &vec![(internal(b"a", 1), data), (internal(b"q", 1), more)])
}

#[test]
fn keys_in_an_unknown_order_are_asked_of_all_filters() {
    // An application's comparator may order keys like this. A bytewise search would miss them.
    let keys: [&[u8]; 4] = [b"damson", b"cherry", b"banana", b"apple"];
    let bytes = leveldb_table(&keys, |_| {});
    let table = leveldb::LevelDbTable::open(&bytes[..]).unwrap();
    assert!(keys.iter().all(|key| table.may_contain(key)));
    assert!(!table.may_contain(b"zebra"), "the filter must still deny absent keys");
    let bytes = table_in_an_order_of_its_own(0);
    let table = leveldb::LevelDbTable::open(&bytes[..]).unwrap();
    assert!([b"z", b"a", b"q"].iter().all(|key| table.may_contain(&key[..])));
}

#[test]
fn an_unreadable_first_block_implies_no_key_order() {
    // In this application's order, `z` comes before `a`. Only the first block would show this
    // order.
    let bytes = table_in_an_order_of_its_own(9);
    for table in
        [leveldb::LevelDbTable::open(&bytes[..]), leveldb::LevelDbTable::open_as(&bytes[..], KeyForm::Internal)]
    {
        let table = table.unwrap();
        assert!([b"z", b"a", b"q"].iter().all(|key| table.may_contain(&key[..])));
        assert!(!table.may_contain(b"other"), "the filter must still deny absent keys");
    }
}

#[test]
fn a_block_after_the_last_filter_may_contain_any_key() {
    let mut forge = Forge::default();
    let first = forge.block(&block(&[(internal(b"z", 1), vec![0; 3000])]), 0);
    let second = forge.block(&block(&[(internal(b"a", 1), b"")]), 0);
    let mut builder = leveldb::LevelDbFilterBlockBuilder::new(10);
    builder.add(b"z");
    // LevelDB looks for the filter of the second 2 KiB, finds none, and reads the block.
    let bytes = leveldb_file(forge, Some(builder), &vec![(internal(b"z", 1), first), (internal(b"a", 1), second)]);
    let table = leveldb::LevelDbTable::open(&bytes[..]).unwrap();
    assert!(table.may_contain(b"z") && table.may_contain(b"a"));
}

#[test]
fn the_form_of_keys_is_never_guessed() {
    // This key may be an internal key, `k` with a suffix, or a user key of nine bytes. Without a
    // filter, both forms are possible.
    let key = internal(b"k", 5);
    let mut forge = Forge::default();
    let data = forge.block(&block(&[(&key, b"v")]), 0);
    let index = vec![(key.clone(), data)];
    let bytes = leveldb_file(forge.clone(), None, &index);
    let table = leveldb::LevelDbTable::open(&bytes[..]).unwrap();
    assert!(table.may_contain(b"k") && table.may_contain(&key) && table.policy().is_none());
    // This filter has the key in neither form, so the reader does not use it, and denies no key.
    let mut builder = leveldb::LevelDbFilterBlockBuilder::new(10);
    builder.add(b"other");
    let bytes = leveldb_file(forge, Some(builder), &index);
    let table = leveldb::LevelDbTable::open(&bytes[..]).unwrap();
    assert!(table.key_form().is_none() && table.may_contain(b"anything") && table.for_each_key(|_| Ok(())).is_err());
    // A caller that states the form gets the filter's answer, and `verify` counts a denied key.
    let stated = leveldb::LevelDbTable::open_as(&bytes[..], KeyForm::Internal).unwrap();
    assert_eq!(stated.verify().unwrap().denied_keys, 1);
}

#[test]
fn keys_of_two_possible_forms_are_not_returned() {
    // The big-endian numbers look like the suffixes of tombstones. Without a filter, the reader
    // cannot rule out that they are suffixes.
    let keys: Vec<Vec<u8>> = (1..=3).map(|number| [&b"n\0\0\0\0\0\0\0"[..], &[number]].concat()).collect();
    let entries: Vec<(&Vec<u8>, &[u8])> = keys.iter().map(|key| (key, &b"value"[..])).collect();
    let mut forge = Forge::default();
    let data = forge.block(&block(&entries), 0);
    let bytes = leveldb_file(forge, None, &vec![(keys[2].clone(), data)]);
    let table = leveldb::LevelDbTable::open(&bytes[..]).unwrap();
    assert!(keys.iter().all(|key| table.may_contain(key)));
    assert_eq!((table.key_form(), table.key_forms().count()), (None, 2));
    assert!(matches!(table.for_each_key(|_| Ok(())), Err(Error::Invalid { what: "key form", .. })));
    assert_eq!(table.verify().unwrap().keys, 3, "the blocks must be checked in either form");
    let stated = leveldb::LevelDbTable::open_as(&bytes[..], KeyForm::User).unwrap();
    assert!(keys_of(|push| stated.for_each_key(push)).unwrap() == keys);
    let wrong = leveldb::LevelDbTable::open_as(&bytes[..], KeyForm::Internal).unwrap();
    assert!(matches!(wrong.for_each_key(|_| Ok(())), Err(Error::Invalid { what: "key form", .. })));
    // Keys that end in zeros, or in the number 1 and zeros, have the number 0, which no change has.
    for key in [&b"a\0\0\0\0\0\0\0\0"[..], b"a\x01\0\0\0\0\0\0\0"] {
        let mut forge = Forge::default();
        let data = forge.block(&block(&[(key, &b"value"[..])]), 0);
        let bytes = leveldb_file(forge, None, &vec![(key.to_vec(), data)]);
        let stated = leveldb::LevelDbTable::open_as(&bytes[..], KeyForm::User).unwrap();
        assert_eq!(keys_of(|push| stated.for_each_key(push)).unwrap(), [key]);
    }
}

#[test]
fn a_rocksdb_table_under_the_magic_of_leveldb_is_recognised() {
    // The entries of a RocksDB table may have types that LevelDB does not have, and RocksDB numbers
    // the compressions differently.
    let mut forge = Forge::default();
    let merged = [&b"k"[..], &(7u64 << 8 | 2).to_le_bytes()].concat();
    let data = forge.block(&block(&[(&merged, b"v")]), 0);
    let properties = forge.block(&block(&[("rocksdb.num.entries", [1])]), 0);
    let metaindex = forge.block(&block(&[("rocksdb.properties", properties.bytes())]), 0);
    let index = forge.block(&block(&[(&merged, data.bytes())]), 0);
    let opened = leveldb::LevelDbTable::open(forge.leveldb(metaindex, index));
    assert!(matches!(opened, Err(Error::Unsupported { field: Field::Version, found: 0 })), "{opened:?}");
}

/// Returns a table of RocksDB with the index type `kind` and a full filter of [`KEYS`]. `data` are
/// the contents and compression bytes of its data blocks. `index` writes the index of these blocks.
fn rocksdb_table(kind: u32, data: &[(Vec<u8>, u8)], index: impl Fn(&mut Forge, &[Handle]) -> Handle) -> Vec<u8> {
    let mut forge = Forge::default();
    let handles: Vec<Handle> = data.iter().map(|(content, compression)| forge.block(content, *compression)).collect();
    let filter = forge.block(&rocksdb_filter(rocksdb::RocksDbFilterKind::FastLocalBloom, 10.0, &KEYS), 0);
    let index = index(&mut forge, &handles);
    let metaindex = forge.rocksdb_metaindex(kind, Some((forge::FULL_FILTER, filter)));
    forge.rocksdb(5, metaindex, index)
}

fn plain_blocks() -> Vec<(Vec<u8>, u8)> {
    KEYS.iter().map(|key| (block(&[(internal(key, 3), b"value")]), 0)).collect()
}

fn index_of(handles: &[Handle]) -> Vec<u8> {
    let entries: Vec<_> = KEYS.iter().zip(handles).map(|(key, handle)| (*key, handle.bytes())).collect();
    block(&entries)
}

#[test]
fn indexes_that_name_themselves_or_a_block_twice_are_errors() {
    let sound = rocksdb_table(0, &plain_blocks(), |forge, handles| forge.block(&index_of(handles), 0));
    assert_eq!(rocksdb::RocksDbTable::open(&sound[..]).unwrap().verify().unwrap().keys, 4);
    let two_levels = rocksdb_table(2, &plain_blocks(), |forge, handles| {
        let partition = forge.block(&index_of(handles), 0);
        forge.block(&block(&[(b"damson", partition.bytes())]), 0)
    });
    assert_eq!(rocksdb::RocksDbTable::open(&two_levels[..]).unwrap().verify().unwrap().keys, 4);
    let twice = |partition: Handle| block(&[(b"b", partition.bytes()), (b"c", partition.bytes())]);
    let wrong: [(&str, Vec<u8>); 4] = [
        (
            "a partition twice",
            rocksdb_table(2, &plain_blocks(), |forge, handles| {
                let partition = forge.block(&index_of(handles), 0);
                forge.block(&twice(partition), 0)
            }),
        ),
        (
            "data blocks in two partitions",
            rocksdb_table(2, &plain_blocks(), |forge, handles| {
                let (a, b) = (forge.block(&index_of(handles), 0), forge.block(&index_of(handles), 0));
                forge.block(&block(&[(b"d", a.bytes()), (b"e", b.bytes())]), 0)
            }),
        ),
        (
            "itself",
            rocksdb_table(2, &plain_blocks(), |forge, _| {
                let place = Handle { offset: forge.bytes.len() as u64, len: 0 };
                let len = block(&[(b"e", Handle { len: 30, ..place }.bytes())]).len() as u64;
                forge.block(&block(&[(b"e", Handle { len, ..place }.bytes())]), 0)
            }),
        ),
        ("a data block twice", rocksdb_table(0, &plain_blocks(), |forge, handles| forge.block(&twice(handles[0]), 0))),
    ];
    for (name, bytes) in wrong {
        let table = rocksdb::RocksDbTable::open(&bytes[..]).unwrap();
        assert!(KEYS.iter().all(|key| table.may_contain(key)), "{name}");
        assert!(table.for_each_key(|_| Ok(())).is_err() && table.verify().is_err(), "{name}");
    }
}

/// Returns the maximum number of bytes that are allocated at one time during `work`.
fn peak(work: impl FnOnce()) -> isize {
    LIVE.set(0);
    PEAK.set(0);
    work();
    PEAK.get()
}

/// Asserts that `work` allocates less than 1 MiB at one time.
fn allocates_little(what: &str, work: impl FnOnce()) {
    let held = peak(work);
    assert!(held < 1 << 20, "{what}: {held} bytes are allocated");
}

#[test]
fn false_lengths_take_no_memory() {
    let zstd_of = |len: u64| {
        // A single-segment frame with the length of its content in eight bytes, then a last block
        // of three raw bytes.
        [&varint(len)[..], &[0x28, 0xb5, 0x2f, 0xfd, 0xe0], &len.to_le_bytes(), &[0x19, 0, 0, 1, 2, 3]].concat()
    };
    let zstd_window = [&varint(3)[..], &[0x28, 0xb5, 0x2f, 0xfd, 0, 0xff], &[0x19, 0, 0, 1, 2, 3]].concat();
    let hostile: [(&str, Vec<u8>, u8); 11] = [
        ("snappy", [varint(u64::from(u32::MAX)), vec![0; 20]].concat(), 1),
        ("lz4", [varint(1 << 60), vec![0; 20]].concat(), 4),
        ("lz4 of 2^64 - 1", [varint(u64::MAX), vec![0; 20]].concat(), 5),
        ("zstd", zstd_of(1 << 60), 7),
        ("zstd of 200 MiB", zstd_of(200 << 20), 7),
        ("a window of terabytes", zstd_window, 7),
        ("no length", Vec::new(), 7),
        ("restarts", u32::MAX.to_le_bytes().to_vec(), 0),
        ("restarts beyond the block", [0; 3].into_iter().chain([9, 0, 0, 0]).collect(), 0),
        ("a key of 2^60 bytes", [&[0][..], &varint(1 << 60), &[0], &[0; 4], &[1, 0, 0, 0]].concat(), 0),
        ("a key that shares missing bytes", [&[5u8, 1, 0, b'x'][..], &[0; 4], &[1, 0, 0, 0]].concat(), 0),
    ];
    for (name, content, compression) in hostile {
        let bytes = rocksdb_table(0, &[(content, compression)], |forge, handles| forge.block(&index_of(handles), 0));
        allocates_little(name, || {
            let table = rocksdb::RocksDbTable::open(&bytes[..]).unwrap();
            assert!(table.for_each_key(|_| Ok(())).is_err() && table.verify().is_err(), "{name}");
        });
    }
}

#[test]
fn keys_that_share_prefixes_take_no_more_memory_than_a_block() {
    // The block has a key of 100 kB, and 30,000 entries of 5 bytes that each repeat it. The keys
    // expand to 3 GB.
    let key = vec![b'k'; 100_000];
    let mut content = [&varint(0)[..], &varint(key.len() as u64), &varint(0), &key].concat();
    for _ in 0..30_000 {
        content.extend([varint(key.len() as u64), varint(0), varint(0)].concat());
    }
    content.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    let bytes = rocksdb_table(0, &[(content, 0)], |forge, handles| forge.block(&index_of(handles), 0));
    let mut keys = 0;
    allocates_little("a table", || {
        let table = rocksdb::RocksDbTable::open(&bytes[..]).unwrap();
        table
            .for_each_key(|_| {
                keys += 1;
                Ok(())
            })
            .unwrap();
    });
    assert_eq!(keys, 1, "equal keys must be visited once");
}

#[test]
fn an_index_of_repetitive_keys_is_an_early_error() {
    // Each file has half a megabyte, and its keys expand to 3 GB.
    let [rocksdb, leveldb] = forge::repeating(30_000);
    allocates_little("a table", || {
        let opened = rocksdb::RocksDbTable::open(&rocksdb[..]).map(|table| table.filter_layout());
        assert!(matches!(opened, Err(Error::Corrupt { field: Field::Key, .. })), "{opened:?}");
        let opened = leveldb::LevelDbTable::open(&leveldb[..]).map(|table| table.num_data_blocks());
        assert!(matches!(opened, Err(Error::Corrupt { field: Field::Key, .. })), "{opened:?}");
    });
}

#[test]
fn partitions_with_repetitive_keys_are_visited_one_by_one() {
    // The keys expand to 200 MB.
    let [bytes, _] = forge::repeating(2_000);
    let mut visited = 0;
    allocates_little("a table", || {
        let table = rocksdb::RocksDbTable::open(&bytes[..]).unwrap();
        table.for_each_filter(|place| {
            visited += place.up_to.unwrap().len();
            true
        });
    });
    assert_eq!(visited, 2_000 * 100_000);
}

#[test]
fn a_million_empty_filters_take_no_memory_to_list() {
    let filters = 1_000_000;
    let mut forge = Forge::default();
    let mut content = vec![0; 4 * (filters + 1)];
    content.push(11);
    let filter = forge.block(&content, 0);
    let metaindex = forge.block(&block(&[(forge::LEVELDB_FILTER, filter.bytes())]), 0);
    let index = forge.block(&block::<&[u8], &[u8]>(&[]), 0);
    let bytes = forge.leveldb(metaindex, index);
    allocates_little("a table", || {
        let table = leveldb::LevelDbTable::open(&bytes[..]).unwrap();
        assert_eq!(table.filters().count(), filters);
    });
}

#[test]
fn compressed_blocks_are_read_and_a_wrong_length_is_an_error() {
    let plain = plain_blocks();
    let lz4 = |content: &[u8]| [varint(content.len() as u64), lz4_flex::block::compress(content)].concat();
    let zstd = |content: &[u8]| {
        let packed = ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest);
        [varint(content.len() as u64), packed].concat()
    };
    let snappy = |content: &[u8]| snap::raw::Encoder::new().compress_vec(content).unwrap();
    let packed = vec![(lz4(&plain[0].0), 4), (zstd(&plain[1].0), 7), (snappy(&plain[2].0), 1), plain[3].clone()];
    let bytes = rocksdb_table(0, &packed, |forge, handles| forge.block(&zstd(&index_of(handles)), 7));
    let table = rocksdb::RocksDbTable::open(&bytes[..]).unwrap();
    assert_eq!(keys_of(|push| table.for_each_key(push)).unwrap(), KEYS);
    for number in [0, 1] {
        for step in [-1i8, 1] {
            let mut wrong = packed.clone();
            wrong[number].0[0] = wrong[number].0[0].wrapping_add_signed(step);
            let bytes = rocksdb_table(0, &wrong, |forge, handles| forge.block(&index_of(handles), 0));
            assert!(
                rocksdb::RocksDbTable::open(&bytes[..]).unwrap().for_each_key(|_| Ok(())).is_err(),
                "{number} {step}"
            );
        }
    }
}

/// Returns a filter with one value, for [`forge::parquet_file`].
fn filter_of(value: &[u8]) -> Vec<u8> {
    parquet_filter(parquet::ParquetBloomBuilder::with_blocks(1).unwrap(), &[value])
}

#[test]
fn a_path_of_two_columns_finds_neither() {
    let bytes = forge::parquet_file(&[
        (&["a", "b"], filter_of(b"x"), false),
        (&["a.b"], filter_of(b"y"), false),
        (&["c"], filter_of(b"z"), false),
    ]);
    let file = parquet::ParquetFile::open(&bytes[..]).unwrap();
    assert_eq!(file.column_chunk(0, "a.b"), None, "two columns have this path, so neither may be found");
    assert!(file.may_contain(file.column_chunk(0, "c").unwrap(), b"z"));
    let [first, second, _] = file.column_chunks() else { panic!() };
    assert_eq!((&*first.path, &*second.path), ("a.b", "a.b"));
    assert!(!file.may_contain(first, b"y") && file.may_contain(second, b"y"));
}

#[test]
fn an_encrypted_column_has_no_readable_filter() {
    let bytes = forge::parquet_file(&[(&["a"], vec![0x5a; 60], true), (&["b"], filter_of(b"y"), false)]);
    let file = parquet::ParquetFile::open(&bytes[..]).unwrap();
    assert_eq!(file.verify().unwrap(), 1);
    let encrypted = file.column_chunk(0, "a").unwrap();
    assert!(encrypted.filter.is_none() && file.may_contain(encrypted, b"other"));
    assert!(!file.may_contain(file.column_chunk(0, "b").unwrap(), b"other"));
}

#[test]
fn empty_column_chunks_take_no_memory() {
    // The only row group lists a million column chunks. Each chunk consists only of its end byte.
    let chunks = 1_000_000;
    let groups = [&[0x19, 0x1c, 0x19, 0xfc][..], &varint(chunks), &vec![0; chunks as usize], &[0, 0]].concat();
    let metadata = [forge::parquet_schema(&[&["a"]]), groups].concat();
    let bytes = [&b"PAR1"[..], &metadata, &(metadata.len() as u32).to_le_bytes(), b"PAR1"].concat();
    allocates_little("a table", || {
        let opened = parquet::ParquetFile::open(&bytes[..]).map(|file| file.column_chunks().len());
        assert!(
            matches!(opened, Err(parquet::Error::Corrupt { field: parquet::error::Field::ColumnChunk, .. })),
            "{opened:?}"
        );
    });
}

#[test]
fn many_fields_and_many_names_take_little_memory() {
    // A million fields with the number 0, and a column whose path has four million empty names.
    let fields = [&[1, 0].repeat(1_000_000)[..], &[0]].concat();
    let names = 4_000_000;
    let path = [&[0x19, 0x1c, 0x19, 0x1c, 0x3c, 0x39, 0xf8][..], &varint(names), &vec![0; names as usize + 4]].concat();
    for metadata in [fields, [forge::parquet_schema(&[&["a"]]), path].concat()] {
        let held = peak(|| assert!(parquet::ParquetMetadata::parse(&metadata, 4).is_err()));
        assert!(held < 4 * metadata.len() as isize, "{held} bytes are allocated for {}", metadata.len());
    }
}
