//! Tests the filters of other engines, with any bytes and with filters that are built and edited.

use filterblock_foreign::ForeignFilterInfo;
use filterblock_foreign::leveldb::{LevelDbBloom, LevelDbBloomBuilder};
use filterblock_foreign::rocksdb::{RocksDbFilter, RocksDbFilterBuilder, RocksDbFilterKind, RocksDbFilterOptions};
use filterblock_parquet::{ParquetBloom, ParquetBloomBuilder};

use crate::Input;
use crate::bytes::Edit;

use filterblock_testkit::foreign::formulas;

/// An upper limit for the number of keys in a filter.
const MAX_KEYS: usize = 2_000;
const MAX_EDITS: usize = 4;

/// Asks a filter of any bytes for fixed keys, or asks a sound filter and edited versions of it.
/// Returns all answers.
pub fn foreign_filter(data: &[u8]) -> Vec<bool> {
    crate::choose_instruction_set();
    let mut input = Input(data);
    let choice = input.byte();
    if choice.is_multiple_of(8) {
        return ask(input.0);
    }
    let mut filter = sound(choice, &mut input);
    let mut answers = ask(&filter);
    input.steps(MAX_EDITS, |input| {
        Edit::take(input).apply(&mut filter);
        answers.extend(ask(&filter));
    });
    answers
}

/// Builds a filter as its engine does, and asserts that it denies none of its keys.
fn sound(choice: u8, input: &mut Input<'_>) -> Vec<u8> {
    let (bits_per_key, first) = (input.number(2) as f64 / 500.0, input.number(4));
    let num_keys = input.below(MAX_KEYS);
    let keys: Vec<[u8; 8]> = (0..num_keys as u64).map(|i| (first + i * 7).to_be_bytes()).collect();
    let kind = match choice % 8 {
        1 | 2 => {
            let mut builder = LevelDbBloomBuilder::new(bits_per_key as u32);
            keys.iter().for_each(|key| builder.add(key));
            let filter = builder.finish();
            assert!(keys.iter().all(|key| LevelDbBloom::new(&filter).may_contain(key)), "LevelDB denies a key");
            return filter;
        }
        3 => {
            let mut builder =
                ParquetBloomBuilder::for_values(num_keys as u64, 0.01 + f64::from(choice) / 300.0).unwrap();
            keys.iter().for_each(|key| builder.add(key));
            builder.fold(f64::from(choice) / 512.0);
            let filter = builder.finish();
            let reader = ParquetBloom::parse(&filter).unwrap();
            assert!(keys.iter().all(|key| reader.may_contain(key)), "Parquet denies a key");
            return filter;
        }
        4 => RocksDbFilterKind::LegacyBloom,
        5 => RocksDbFilterKind::FastLocalBloom,
        _ => RocksDbFilterKind::Ribbon128,
    };
    let optimize_for_memory = choice >= 128;
    let mut builder = RocksDbFilterBuilder::new(RocksDbFilterOptions {
        kind,
        bits_per_key,
        optimize_for_memory,
        ..RocksDbFilterOptions::default()
    });
    keys.iter().for_each(|key| builder.add(key));
    let filter = builder.finish();
    assert!(keys.iter().all(|key| RocksDbFilter::new(&filter).may_contain(key)), "RocksDB, {kind:?}, denies a key");
    filter
}

/// Returns the answers of all readers of the bytes. [`compare`] checks them.
fn ask(filter: &[u8]) -> Vec<bool> {
    let (leveldb, rocksdb) = (LevelDbBloom::new(filter), RocksDbFilter::new(filter));
    let mut answers = Vec::new();
    answers.extend(compare(
        |key| formulas::leveldb(filter, key),
        |key| leveldb.may_contain(key),
        |keys, answers| leveldb.may_contain_batch(keys, answers),
    ));
    answers.extend(compare(
        |key| formulas::rocksdb(filter, key),
        |key| rocksdb.may_contain(key),
        |keys, answers| rocksdb.may_contain_batch(keys, answers),
    ));
    check_info(leveldb.info(), filter.len());
    check_info(rocksdb.info(), filter.len());
    let plain = ParquetBloom::new(filter);
    for reader in [Some(plain), ParquetBloom::parse(filter).ok()].into_iter().flatten() {
        let bits = reader.bits();
        answers.extend(compare(
            |key| formulas::split_block(bits, key),
            |key| reader.may_contain(key),
            |keys, answers| reader.may_contain_batch(keys, answers),
        ));
        check_info(reader.info(), filter.len());
    }
    answers
}

/// Asserts that answers for keys of eight bytes agree with the formula, and that single queries and
/// a batch agree. Returns the answers.
fn compare<R>(
    formula: impl Fn(u64) -> bool,
    may_contain: impl Fn(&[u8]) -> bool,
    batch: impl Fn(&[&[u8]], &mut [bool]) -> R,
) -> Vec<bool> {
    let numbers: Vec<u64> = (0..40u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).chain([u64::MAX]).collect();
    let others: Vec<Vec<u8>> = [0, 1, 2, 3, 4, 7, 9, 16, 17, 33, 65, 97, 128, 129, 200, 240, 241, 1024, 1100]
        .map(|len: usize| (0..len).map(|i| (i * 37 + len) as u8).collect())
        .to_vec();
    let fixed: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
    let keys: Vec<&[u8]> = fixed.iter().map(<[u8; 8]>::as_slice).chain(others.iter().map(Vec::as_slice)).collect();
    let answers: Vec<bool> = keys.iter().map(|key| may_contain(key)).collect();
    let mut at_once = vec![false; keys.len()];
    batch(&keys, &mut at_once);
    assert_eq!(answers, at_once, "a batch and single queries give different answers");
    for (&number, &answer) in numbers.iter().zip(&answers) {
        assert_eq!(answer, formula(number), "{number:#x}: the answer differs from the formula");
    }
    answers
}

fn check_info(info: ForeignFilterInfo, len: usize) {
    assert!((0.0..=1.0).contains(&info.expected_fpr), "{info:?}");
    assert!(info.fill.is_none_or(|fill| (0.0..=1.0).contains(&fill)), "{info:?}");
    assert!(info.len_bytes <= len as u64 && info.payload_len_bytes <= info.len_bytes, "{info:?}");
}
