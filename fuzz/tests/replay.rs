//! Runs the fuzz targets on every file of the seed corpora and on fixed mutations of these files.
//!
//! `FILTERBLOCK_FUZZ_ROUNDS` multiplies the number of mutations. The tests also assert that no single
//! allocation exceeds a limit, which grows with the input's length.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use std::path::Path;
use std::process::Command;

use filterblock_fuzz::{
    c_abi, filter_cache, foreign_filter, foreign_table, index_file, kernels, log_and_manifest, open_block, parquet_add,
    parquet_footer, patch_block, ranges, roundtrip, run_map, store_ops, table,
};
use filterblock_testkit::Random;
use filterblock_testkit::allocation::of_thread::{ALLOCATIONS, PerThread};

#[global_allocator]
static ALLOCATOR: PerThread = PerThread;

/// The limit of a single allocation for an input of no bytes. Each byte of an input raises the
/// limit by [`MAX_EXPANSION`] bytes.
const ALWAYS_BYTES: usize = 1 << 20;

/// The limit that replaces [`ALWAYS_BYTES`] for the target `parquet_add`. The reader accepts pages
/// of up to this length.
const PARQUET_PAGE_BYTES: usize = 256 << 20;

/// The maximum factor by which an LZ4 block expands.
const MAX_EXPANSION: usize = 255;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 4, "{target}: the seeds are missing; run the ignored tests of tests/seeds.rs");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn mutate(data: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.index(data.len() + 1);
    match random.index(6) {
        0 if at < data.len() => data[at] ^= 1 << random.index(8),
        1 if at < data.len() => data[at] = random.index(256) as u8,
        2 => data.truncate(at),
        3 => drop(data.drain(..at)),
        4 => {
            let inserted: Vec<u8> = (0..random.index(20)).map(|_| random.index(256) as u8).collect();
            drop(data.splice(at..at, inserted));
        }
        _ => data.extend_from_slice(&other[random.index(other.len().max(1))..]),
    }
}

/// Runs a target on its seeds and on mutations of the seeds. A failure of a mutation names its
/// number, which is also the seed of the random generator.
fn replay(target: &str, function: fn(&[u8]), mutations: usize) {
    replay_within(ALWAYS_BYTES, target, function, mutations);
}

/// Runs a target as [`replay`] does, but with another bound on a single allocation.
fn replay_within(always_bytes: usize, target: &str, function: fn(&[u8]), mutations: usize) {
    let seeds = corpus(target);
    let call = |data: &[u8]| {
        ALLOCATIONS.set((0, 0, 0));
        function(data);
        let ((_, _, largest), limit) = (ALLOCATIONS.get(), always_bytes + MAX_EXPANSION * data.len());
        assert!(largest <= limit, "{largest} bytes allocated at once for an input of {} bytes", data.len());
    };
    seeds.iter().for_each(|seed| call(seed));
    let rounds = std::env::var("FILTERBLOCK_FUZZ_ROUNDS").map_or(1, |text| text.parse::<usize>().unwrap());
    for number in 0..mutations * rounds {
        let mut random = Random(number as u64);
        let mut data = seeds[number % seeds.len()].clone();
        for _ in 0..=random.index(4) {
            let other = random.index(seeds.len());
            mutate(&mut data, &seeds[other], &mut random);
        }
        let attempt = std::panic::catch_unwind(|| call(&data));
        assert!(attempt.is_ok(), "{target}: mutation {number}: {data:02x?}");
    }
}

#[test]
fn any_bytes_open_or_are_refused() {
    replay("open_block", open_block, 20_000);
}

#[test]
fn edited_blocks_with_valid_checksums_open_or_are_refused() {
    replay("patch_block", patch_block, 4_000);
}

#[test]
fn no_key_is_ever_denied() {
    replay("roundtrip", roundtrip, 4_000);
}

#[test]
fn calls_of_any_kind_through_the_c_abi_deny_no_key() {
    replay("c_abi", c_abi, 20_000);
}

#[test]
fn ranges_that_hold_a_key_are_never_denied() {
    replay("ranges", ranges, 4_000);
}

#[test]
fn a_map_of_runs_denies_no_key() {
    replay("run_map", run_map, 20_000);
}

#[test]
fn a_cache_denies_no_key_and_keeps_its_bound() {
    replay("filter_cache", filter_cache, 2_000);
}

#[test]
fn sst_files_of_any_bytes_are_refused_or_lose_no_key() {
    replay("table", table, 10_000);
}

#[test]
fn directories_of_any_bytes_are_refused_or_become_a_store() {
    replay("log_and_manifest", log_and_manifest, 4_000);
}

#[test]
fn a_store_agrees_with_its_model_through_faults_and_crashes() {
    replay("store_ops", store_ops, 2_000);
}

/// Computes a checksum over the answers for the seeds and for mutations of the seeds. Asserts that
/// both answers occur.
fn digest_of_answers(target: &str, function: fn(&[u8]) -> Vec<bool>) -> String {
    let seeds = corpus(target);
    let (mut answers, mut random) = (Vec::new(), Random(0));
    for seed in seeds.iter().cycle().take(600) {
        let mut data = seed.clone();
        mutate(&mut data, &seeds[random.index(seeds.len())], &mut random);
        answers.extend([seed, &data].into_iter().flat_map(|data| function(data)).map(u8::from));
    }
    let maybe = answers.iter().filter(|&&answer| answer == 1).count();
    assert!(
        maybe > answers.len() / 100 && maybe < answers.len(),
        "{maybe} of {} answers are \"maybe\"; expected more than 1 %, and at least one \"absent\"; improve the seeds",
        answers.len()
    );
    format!("{:08x} of {}", crc32fast::hash(&answers), answers.len())
}

#[test]
fn every_instruction_set_answers_alike_from_any_bytes() {
    // A process chooses its kernels once, so this test runs itself in a child process for each
    // instruction set.
    const CHILD: &str = "FILTERBLOCK_FUZZ_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let foreign = digest_of_answers("foreign_filter", foreign_filter);
        println!("\ndigest {}, {foreign}", digest_of_answers("kernels", kernels));
        return;
    }
    let name = "every_instruction_set_answers_alike_from_any_bytes";
    let digest = |isa: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", name, "--nocapture"]).env("FILTERBLOCK_ISA", isa).env(CHILD, "1").output();
        let output = output.unwrap();
        let (printed, messages) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        if messages.contains("the processor does not have it") {
            assert!(!output.status.success());
            return None;
        }
        assert!(messages.contains(&format!("instruction set: {isa}\n")), "{isa}: {messages}");
        let line = printed.lines().find_map(|line| line.strip_prefix("digest "));
        Some((isa.to_owned(), line.unwrap_or_else(|| panic!("{isa}: {printed}")).to_owned()))
    };
    let digests: Vec<_> = ["portable", "avx2", "avx512", "neon"].into_iter().filter_map(digest).collect();
    assert!(["portable", filterblock::instruction_set()].iter().all(|isa| digests.iter().any(|(of, _)| of == isa)));
    assert!(digests.iter().all(|(_, digest)| *digest == digests[0].1), "{digests:?}");
}

#[test]
fn no_kernel_panics_on_any_bytes() {
    replay("kernels", |data| drop(kernels(data)), 2_000);
}

#[test]
fn foreign_filters_of_any_bytes_answer_by_the_formulas() {
    replay("foreign_filter", |data| drop(foreign_filter(data)), 10_000);
}

#[test]
fn foreign_files_of_any_bytes_are_refused_or_deny_no_key() {
    replay("foreign_table", foreign_table, 10_000);
}

#[test]
fn indexes_of_any_bytes_are_refused_or_deny_no_key() {
    replay("index_file", index_file, 4_000);
}

#[test]
fn footers_of_any_bytes_are_refused_or_rewritten_whole() {
    replay("parquet_footer", parquet_footer, 10_000);
}

#[test]
fn parquet_files_of_any_bytes_are_refused_or_lose_no_value() {
    replay_within(PARQUET_PAGE_BYTES, "parquet_add", parquet_add, 4_000);
}
