//! Defines the fuzz targets as plain functions of bytes. `cargo fuzz` and tests/replay.rs call
//! these functions.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod bytes;
mod c_abi;
mod filter_cache;
mod foreign_filter;
mod foreign_table;
mod hosts;
mod index_file;
mod input;
mod kernels;
mod log_and_manifest;
mod model;
mod parquet;
mod patch;
mod ranges;
mod roundtrip;
mod run_map;
pub mod store_files;
mod store_ops;
mod table;
mod table_parts;

pub use c_abi::{c_abi, c_abi_opened};
pub use filter_cache::filter_cache;
pub use foreign_filter::foreign_filter;
pub use foreign_table::foreign_table;
pub use index_file::index_file;
pub use input::Input;
pub use kernels::kernels;
pub use log_and_manifest::log_and_manifest;
pub use parquet::{parquet_add, parquet_footer};
pub use patch::patch_block;
pub use ranges::ranges;
pub use roundtrip::roundtrip;
pub use run_map::run_map;
pub use store_ops::store_ops;
pub use table::table;

use filterblock::{
    Answer, Error, FilterBlock, FilterHandle, HashSeed, KeyHash, KeyHasher, ParsedBlock, Result, Secret, Verify,
    compact,
};

/// Opens and queries any bytes as a block, as a partition, as a handle and as a filter in compact form.
/// No call may panic.
pub fn open_block(data: &[u8]) {
    query_block(data);
    for number in [0, 1, u32::MAX] {
        if let Ok(partition) =
            ParsedBlock::open_partition(data, number, Verify::AtOpen).and_then(|block| block.bind_any(None))
        {
            query(&partition);
            check_info(&partition);
        }
    }
    read_handle(data);
    query_compact(data);
    query_compact(data.get(1..).unwrap_or_default());
    // With a correct checksum, the reader checks the shape, too.
    let hasher = KeyHasher::xxh3(GOLDEN_SEED);
    if let Err(Error::ChecksumMismatch { computed, .. }) = compact::check(data, &hasher) {
        let sealed = [&data[..data.len() - 4], &computed.to_le_bytes()].concat();
        assert!(!matches!(compact::check(&sealed, &hasher), Err(Error::ChecksumMismatch { .. })));
        query_compact(&sealed);
    }
}

/// Reads any bytes as a handle, as they are and with a correct checksum. Asserts that a handle has one
/// form, and that only the version and the hash function decide whether a sealed one is read.
fn read_handle(data: &[u8]) {
    if let Ok(handle) = FilterHandle::decode(data) {
        assert_eq!(handle.encode(), data);
    }
    let Some(mut sealed) = data.first_chunk::<{ FilterHandle::LEN_BYTES }>().copied() else { return };
    let end = sealed.len() - 4;
    let checksum = crc32fast::hash(&sealed[..end]);
    sealed[end..].copy_from_slice(&checksum.to_le_bytes());
    match FilterHandle::decode(&sealed) {
        Ok(handle) => assert_eq!(handle.encode(), sealed),
        Err(_) => assert!(sealed[0] != 1 || !(1..=3).contains(&sealed[1]), "{sealed:?}"),
    }
}

/// Chooses the instruction set that the environment variable `FILTERBLOCK_ISA` names.
fn choose_instruction_set() {
    static CHOSEN: std::sync::Once = std::sync::Once::new();
    CHOSEN.call_once(filterblock_testkit::choose_instruction_set);
}

/// The seed of the golden files.
const GOLDEN_SEED: HashSeed = HashSeed(0x0123_4567_89ab_cdef);

/// Asks any bytes as a filter in compact form. Asserts that they answer if they pass the check, and
/// only then.
fn query_compact(bytes: &[u8]) {
    let hasher = KeyHasher::xxh3(GOLDEN_SEED);
    let usable = compact::check(bytes, &hasher).is_ok();
    for hash in hashes() {
        assert_eq!(compact::ask(bytes, &hasher, hash) != Answer::Unfiltered, usable);
    }
}

/// Returns the secret of the golden files.
pub(crate) fn secret() -> Secret {
    Secret::new(b"golden secret of thirty-two byte").unwrap()
}

/// Opens `data`, with the golden secret if the block needs a secret. For such a block, asserts that
/// `ParsedBlock` opens it without the secret.
fn open(data: &[u8], verify: Verify) -> Result<FilterBlock<&[u8]>> {
    let opened = FilterBlock::open_any(data, verify);
    let Err(Error::Secret { hash, given: None, .. }) = opened else { return opened };
    let locked = ParsedBlock::open(data, verify).unwrap();
    assert_eq!(locked.metadata().hash.kind, hash);
    let _ = (locked.metadata(), locked.metadata().added, locked.metadata().extractor);
    locked.bind_any(Some(&secret()))
}

/// Opens `data` with both ways of verification. If `AtOpen` succeeds, asserts that both ways give
/// the same answers. If only `OnFirstTouch` succeeds, asserts that verifying the pages fails.
pub fn query_block(data: &[u8]) {
    let lazy = open(data, Verify::OnFirstTouch);
    let checked = match open(data, Verify::AtOpen) {
        Ok(checked) => checked,
        // The lazy reader has perhaps not read the damaged pages yet. It must detect them later.
        Err(_) => {
            if let Ok(lazy) = lazy {
                query(&lazy);
                check_info(&lazy);
                assert!(lazy.verify_pages().is_err(), "a block that `AtOpen` refuses passes the check of its pages");
            }
            return;
        }
    };
    let Ok(lazy) = lazy else { panic!("the block opens with AtOpen, but not with OnFirstTouch") };
    // A block with a damaged range filter opens if its other filter is usable.
    assert_eq!(checked.verify_pages().is_ok(), checked.ranges_error().is_none());
    check_info(&checked);
    let (checked_answers, lazy_answers) = (query(&checked), query(&lazy));
    assert_eq!(checked_answers, lazy_answers, "AtOpen and OnFirstTouch differ for a sound block");
    hosts::ask_as_hosts_do(data, &checked, &hashes().collect::<Vec<_>>());
    assert_eq!(lazy.damaged_pages(), 0);
}

/// Returns hashes at both ends of the range and hashes spread between them.
fn hashes() -> impl Iterator<Item = KeyHash> {
    let spread = (0..40u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    [0, 1, u64::MAX, u64::MAX - 1, 1 << 32, u64::MAX << 32].into_iter().chain(spread).map(KeyHash::from_raw)
}

/// Asks a block by hash and by key. Asserts that single queries and a batch give the same
/// answers. Returns the answers.
fn query(block: &FilterBlock<&[u8]>) -> Vec<bool> {
    let hashes: Vec<KeyHash> = hashes().collect();
    let mut answers: Vec<bool> = hashes.iter().map(|&hash| block.may_contain_hash(hash)).collect();
    let mut batch = vec![false; hashes.len()];
    block.may_contain_batch(&hashes, &mut batch);
    assert_eq!(batch, answers, "a batch and single queries give different answers");
    hashes.iter().for_each(|&hash| block.prefetch(hash));
    for key in [b"".as_slice(), b"key-00000007", &[0xff; 40]] {
        answers.push(block.may_contain(block.hasher().key(key)));
    }
    let _ = (block.hasher().seed(), block.metadata().table_id, block.metadata().added, block.metadata().extractor);
    answers
}

/// Checks the expected FPR, the fill ratio and the length of a block. Computing the expected FPR is
/// slow.
fn check_info(block: &FilterBlock<&[u8]>) {
    let (info, found) = (block.metadata(), block.statistics());
    assert!((0.0..=1.0).contains(&block.expected_fpr()), "{info:?}");
    assert!((0.0..=1.0).contains(&found.fill_ratio), "{found:?}");
    assert_eq!(info.block_len_bytes, block.as_bytes().len() as u64);
}

/// Defines the `main` of a target: for libFuzzer or, without a fuzzer, for the files named on the
/// command line.
#[macro_export]
macro_rules! fuzz_main {
    ($target:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| {
            $crate::$target(data);
        });

        #[cfg(not(fuzzing))]
        fn main() {
            $crate::run_files($crate::$target);
        }
    };
}

/// Runs a target on the files named on the command line, to reproduce a finding without a fuzzer.
pub fn run_files<T>(target: impl Fn(&[u8]) -> T) {
    for path in std::env::args().skip(1) {
        let data = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        target(&data);
        println!("{path}: nothing found");
    }
}
