//! Compares the filters of other engines with their formulas.

use filterblock_foreign::leveldb::LevelDbBloom;
use filterblock_foreign::rocksdb::{RocksDbFilter, RocksDbFilterBuilder, RocksDbFilterKind, RocksDbFilterOptions};
use filterblock_parquet::{ParquetBloom, ParquetBloomBuilder};
use filterblock_testkit::Random;
use filterblock_testkit::allocation::of_thread::{LIVE, PEAK};
use filterblock_testkit::foreign::formulas;

use crate::{ROCKSDB_KINDS, leveldb_filter, parquet_filter, rocksdb_filter};

/// Returns random bytes in which about one bit in 2, 4, 8 or 16 is set, or about one bit in 2, 4, 8
/// or 16 is clear.
fn bytes(random: &mut Random, len: usize) -> Vec<u8> {
    let (sparse, times) = (random.index(2) == 0, random.index(4));
    let byte = |random: &mut Random| {
        let mut word = random.next();
        for _ in 0..times {
            word = if sparse { word & random.next() } else { word | random.next() };
        }
        word as u8
    };
    (0..len).map(|_| byte(random)).collect()
}

/// Queries 70 random keys one by one and as a batch. Asserts that the answers are those of the
/// formula. Returns the number of answers "maybe".
fn compare(
    what: &str,
    random: &mut Random,
    formula: impl Fn(u64) -> bool,
    may_contain: impl Fn(&[u8]) -> bool,
    batch: impl Fn(&[&[u8]], &mut [bool]),
) -> usize {
    let keys: Vec<u64> = (0..70).map(|_| random.next()).collect();
    let expected: Vec<bool> = keys.iter().map(|&key| formula(key)).collect();
    let keys: Vec<[u8; 8]> = keys.into_iter().map(u64::to_le_bytes).collect();
    let singly: Vec<bool> = keys.iter().map(|key| may_contain(key)).collect();
    assert_eq!(singly, expected, "{what}");
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    let mut answers = vec![false; keys.len()];
    batch(&keys, &mut answers);
    assert_eq!(answers, expected, "{what}, as a batch");
    expected.into_iter().filter(|&answer| answer).count()
}

/// Returns a random length below 9,000 bytes, often near a multiple of 16 or 64 bytes.
fn len(random: &mut Random) -> usize {
    match random.index(4) {
        0 => random.index(70),
        1 => 16 * random.index(200),
        2 => 64 * random.index(100) + random.index(3),
        _ => random.index(9_000),
    }
}

#[test]
fn leveldb_filters_of_any_bytes_answer_by_the_formula() {
    let (mut random, mut maybe) = (Random(1), 0);
    for number in 0..2_000 {
        let len = len(&mut random);
        let mut filter = bytes(&mut random, len);
        filter.push(if number % 8 == 0 { random.next() as u8 } else { random.index(32) as u8 });
        let reader = LevelDbBloom::new(&filter);
        maybe += compare(
            &format!("{number}: {len} bytes, {:?}", filter.last()),
            &mut random,
            |key| formulas::leveldb(&filter, key),
            |key| reader.may_contain(key),
            |keys, answers| reader.may_contain_batch(keys, answers),
        );
    }
    assert!((14_000..126_000).contains(&maybe), "{maybe} of 140,000 answers are \"maybe\"");
}

/// Returns a trailer that fits a payload of `len` bytes exactly, almost, or not at all.
fn trailer(random: &mut Random, len: usize) -> [u8; 5] {
    let word = random.next().to_le_bytes();
    match random.index(8) {
        0 => [word[0], word[1], word[2], word[3], word[4]],
        1 | 2 => {
            // If the payload length allows it, a line usually has a power of two of bytes.
            let lines = (len >> random.index(10)) as u32 + u32::from(random.index(8) == 0);
            let [a, b, c, d] = lines.to_le_bytes();
            [1 + word[0] % 127, a, b, c, d]
        }
        3 | 4 => [0xff, u8::from(word[0] == 0), word[1] % 33, u8::from(word[2] == 0), u8::from(word[3] == 0)],
        _ => {
            let blocks = (len / 16 / (1 + random.index(34))) as u32 + u32::from(word[1] == 0);
            let [a, b, c, _] = blocks.to_le_bytes();
            [0xfe, word[0], a, b, c]
        }
    }
}

#[test]
fn rocksdb_filters_of_any_bytes_answer_by_the_formula() {
    let (mut random, mut maybe, mut kinds) = (Random(2), 0, [0; 4]);
    for number in 0..4_000 {
        let len = len(&mut random);
        let mut filter = bytes(&mut random, len);
        filter.extend(trailer(&mut random, len));
        let reader = RocksDbFilter::new(&filter);
        kinds[reader.kind().map_or(3, |kind| kind as usize)] += 1;
        maybe += compare(
            &format!("{number}: {len} bytes, {:02x?}", filter.last_chunk::<5>()),
            &mut random,
            |key| formulas::rocksdb(&filter, key),
            |key| reader.may_contain(key),
            |keys, answers| reader.may_contain_batch(keys, answers),
        );
    }
    assert!(kinds.iter().all(|&count| count > 300), "{kinds:?}");
    assert!((28_000..252_000).contains(&maybe), "{maybe} of 280,000 answers are \"maybe\"");
}

#[test]
fn split_block_filters_of_any_bytes_answer_by_the_formula() {
    let (mut random, mut maybe) = (Random(3), 0);
    for number in 0..2_000 {
        let len = if number % 8 == 0 { len(&mut random) } else { 32 * (1 + random.index(200)) };
        let bits = bytes(&mut random, len);
        let reader = ParquetBloom::new(&bits);
        maybe += compare(
            &format!("{number}: {len} bytes"),
            &mut random,
            |key| formulas::split_block(&bits, key),
            |key| reader.may_contain(key),
            |keys, answers| reader.may_contain_batch(keys, answers),
        );
    }
    assert!((14_000..126_000).contains(&maybe), "{maybe} of 140,000 answers are \"maybe\"");
}

#[test]
fn any_bytes_are_a_filter_and_reading_it_allocates_nothing() {
    let mut random = Random(4);
    let keys: Vec<Vec<u8>> = (0..300).step_by(7).map(|len| vec![0x80 | len as u8; len]).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut answers = vec![false; keys.len()];
    for len in (0..600).chain((600..20_000).step_by(997)) {
        let mut data = bytes(&mut random, len);
        for at in 0..len.min(6) {
            // Trailers and headers of the engines' filters contain these bytes.
            data[len - 1 - at] = [0xff, 0xfe, 0, 1, 0x15, 0x1c][random.index(6)];
        }
        let before = LIVE.get();
        PEAK.set(before);
        let (leveldb, rocksdb, parquet) =
            (LevelDbBloom::new(&data), RocksDbFilter::new(&data), ParquetBloom::new(&data));
        for key in &keys {
            _ = (leveldb.may_contain(key), rocksdb.may_contain(key), parquet.may_contain(key));
        }
        leveldb.may_contain_batch(&keys, &mut answers);
        rocksdb.may_contain_batch(&keys, &mut answers);
        parquet.may_contain_batch(&keys, &mut answers);
        for info in [leveldb.info(), rocksdb.info(), parquet.info()] {
            assert!((0.0..=1.0).contains(&info.expected_fpr), "{len}: {info:?}");
            assert!(info.fill.is_none_or(|fill| (0.0..=1.0).contains(&fill)), "{len}: {info:?}");
            assert!(!info.estimated_keys.is_some_and(f64::is_nan), "{len}: {info:?}");
        }
        assert!(ParquetBloom::parse(&data).is_err(), "{len} random bytes must not have a valid header");
        assert_eq!(PEAK.get(), before, "{len} bytes");
    }
}

/// Returns keys of eight bytes in ascending order, as a table adds them.
fn keys(random: &mut Random, n: usize) -> Vec<[u8; 8]> {
    let mut keys: Vec<[u8; 8]> = (0..n).map(|_| random.next().to_le_bytes()).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn built_filters_hold_their_keys_and_have_the_right_size() {
    let mut random = Random(5);
    for number in 0..400 {
        let n = [random.index(5), random.index(300), random.index(4_000)][number % 3];
        let keys = keys(&mut random, n);
        let millibits = 1000 + random.index(40_000);
        let bits_per_key = millibits as f64 / 1000.0;

        let whole = millibits / 1000;
        let filter = leveldb_filter(whole as u32, &keys);
        assert_eq!(filter.len(), (n * whole).max(64).div_ceil(8) + 1, "{n} keys of {whole} bits");
        assert_eq!(usize::from(filter[filter.len() - 1]), (whole * 69 / 100).clamp(1, 30), "{whole} bits");
        assert!(
            keys.iter().all(|key| LevelDbBloom::new(&filter).may_contain(key)),
            "LevelDB, {n} keys of {whole} bits"
        );

        for kind in ROCKSDB_KINDS {
            let optimize_for_memory = random.index(2) == 1;
            let what = format!("{kind:?}, {n} keys of {millibits} millibits, {optimize_for_memory}");
            let options =
                RocksDbFilterOptions { kind, bits_per_key, optimize_for_memory, ..RocksDbFilterOptions::default() };
            let mut builder = RocksDbFilterBuilder::new(options);
            keys.iter().chain(keys.last()).for_each(|key| builder.add(key));
            assert_eq!(builder.num_entries(), n, "{what}: an adjacent equal key must not count");
            let filter = builder.finish();
            let reader = RocksDbFilter::new(&filter);
            assert!(keys.iter().all(|key| reader.may_contain(key)), "{what}");
            assert!(builder.finish().is_empty(), "{what}: a finished builder must be empty");
            match reader.kind() {
                None => assert_eq!((n, filter.len()), (0, 0), "{what}"),
                Some(RocksDbFilterKind::LegacyBloom) => {
                    let lines = (n * ((millibits + 500) / 1000)).div_ceil(512) | 1;
                    assert_eq!(filter.len(), lines * 64 + 5, "{what}");
                }
                Some(RocksDbFilterKind::FastLocalBloom) => {
                    assert_eq!(filter.len(), (n * millibits).div_ceil(8000).next_multiple_of(64) + 5, "{what}");
                }
                Some(_) => {
                    let bloom_len = (n * millibits).div_ceil(8000).next_multiple_of(64) + 5;
                    assert!(filter.len() <= bloom_len, "{what}: {} bytes, {bloom_len} as a Bloom filter", filter.len());
                }
            }
        }

        let filter = parquet_filter(ParquetBloomBuilder::with_blocks(1 + n / 7).unwrap(), &keys);
        let reader = ParquetBloom::parse(&filter).unwrap();
        assert!(keys.iter().all(|key| reader.may_contain(key)), "Parquet, {n} keys");
    }
}

#[test]
fn keys_of_every_length_and_byte_are_held() {
    let keys: Vec<Vec<u8>> = (0..=1_100).map(|len| (0..len).map(|i| (i * 37 + len) as u8).collect()).collect();
    for kind in ROCKSDB_KINDS {
        let filter = rocksdb_filter(kind, 10.0, &keys);
        assert_eq!(RocksDbFilter::new(&filter).kind(), Some(kind));
        assert!(keys.iter().all(|key| RocksDbFilter::new(&filter).may_contain(key)), "{kind:?}");
    }
    let leveldb = leveldb_filter(10, &keys);
    let parquet = parquet_filter(ParquetBloomBuilder::for_values(1_101, 0.01).unwrap(), &keys);
    let (leveldb, parquet) = (LevelDbBloom::new(&leveldb), ParquetBloom::parse(&parquet).unwrap());
    assert!(keys.iter().all(|key| leveldb.may_contain(key) && parquet.may_contain(key)));
}

#[test]
fn estimates_of_keys_and_fpr_match_the_filter() {
    const KEYS: usize = 20_000;
    const ABSENT: usize = 200_000;
    let mut random = Random(6);
    let keys = keys(&mut random, KEYS);
    let absent: Vec<[u8; 8]> = (0..ABSENT).map(|_| random.next().to_le_bytes()).collect();
    let check = |info: filterblock_foreign::ForeignFilterInfo, may_contain: &dyn Fn(&[u8]) -> bool| {
        let found = absent.iter().filter(|key| may_contain(*key)).count() as f64;
        let expected = info.expected_fpr * ABSENT as f64;
        // Probes at steps of a 32-bit hash give a slightly higher FPR than random probes.
        let slack = if info.kind.contains("leveldb") || info.kind.contains("legacy") { 0.1 } else { 0.0 };
        let allowed = 5.0 * expected.sqrt() + slack * expected;
        println!("{}: {found} positives, {expected:.0} expected, {:?} keys", info.kind, info.estimated_keys);
        assert!((found - expected).abs() < allowed, "{info:?}: {found}, {expected} expected");
        let keys = info.estimated_keys.unwrap();
        assert!((keys / KEYS as f64 - 1.0).abs() < 0.02, "{info:?}");
    };
    for bits_per_key in [5.0, 10.0, 18.5] {
        let filter = leveldb_filter(bits_per_key as u32, &keys);
        let reader = LevelDbBloom::new(&filter);
        check(reader.info(), &|key| reader.may_contain(key));
        for kind in ROCKSDB_KINDS {
            let filter = rocksdb_filter(kind, bits_per_key, &keys);
            let reader = RocksDbFilter::new(&filter);
            check(reader.info(), &|key| reader.may_contain(key));
        }
    }
    let filter = parquet_filter(ParquetBloomBuilder::for_values(KEYS as u64, 0.03).unwrap(), &keys);
    let reader = ParquetBloom::parse(&filter).unwrap();
    check(reader.info(), &|key| reader.may_contain(key));
}

#[test]
fn folding_gives_the_filter_of_a_smaller_builder() {
    let keys = keys(&mut Random(7), 500);
    let built = |blocks| {
        let mut builder = ParquetBloomBuilder::with_blocks(blocks).unwrap();
        keys.iter().for_each(|key| builder.add(key));
        builder
    };
    for (blocks, rate) in [(1024, 0.01), (1024, 0.1), (96, 0.5), (4096, 1e-9), (64, 1.0), (7, 1.0)] {
        let mut folded = built(blocks);
        folded.fold(rate);
        let num_blocks = folded.num_blocks();
        assert!(blocks % num_blocks == 0 && (blocks / num_blocks).is_power_of_two(), "{blocks}: {num_blocks}");
        let filter = folded.finish();
        assert!(filter == built(num_blocks).finish(), "{blocks} blocks at {rate}");
        if num_blocks < blocks && (0.01..0.2).contains(&rate) {
            let found = ParquetBloom::parse(&filter).unwrap().info().expected_fpr;
            assert!(found < rate * 1.2, "{blocks} blocks at {rate}: {found}");
        }
    }
}

#[test]
fn invalid_options_never_make_a_filter_deny_its_keys() {
    for bits_per_key in [-1.0, 0.0, 0.49, f64::NEG_INFINITY] {
        let mut builder =
            RocksDbFilterBuilder::new(RocksDbFilterOptions { bits_per_key, ..RocksDbFilterOptions::default() });
        assert_eq!(builder.finish(), [0; 6], "{bits_per_key}: the filter must answer maybe");
        builder.add(b"key");
        let filter = builder.finish();
        assert!(RocksDbFilter::new(&filter).may_contain(b"key") && RocksDbFilter::new(&filter).may_contain(b"other"));
    }
    let keys: Vec<[u8; 8]> = (0..100u64).map(u64::to_le_bytes).collect();
    let filter_of = |bits_per_key| rocksdb_filter(RocksDbFilterKind::FastLocalBloom, bits_per_key, &keys);
    for (given, meant) in [(0.5, 1.0), (0.99, 1.0), (100.1, 100.0), (f64::INFINITY, 100.0), (f64::NAN, 100.0)] {
        assert_eq!(filter_of(given), filter_of(meant), "{given}");
    }
    for rate in [0.0, 1.0, -0.1, 1.5, f64::NAN, f64::INFINITY] {
        assert!(ParquetBloomBuilder::for_values(100, rate).is_err(), "{rate}");
    }
    assert!(ParquetBloomBuilder::with_blocks(0).is_err() && ParquetBloomBuilder::with_blocks(1 << 26).is_err());
    // A filter for no values has one block, the minimum.
    assert_eq!(ParquetBloomBuilder::for_values(0, 0.01).unwrap().num_blocks(), 1);
}
