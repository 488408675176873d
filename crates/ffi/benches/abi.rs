//! Measures the time of queries through the C ABI and of queries in Rust, in alternating rounds.
//!
//! `cargo bench -p filterblock-ffi --bench abi` prints nanoseconds per query: the median of the
//! rounds and the fastest round. The loop in C calls a function through a pointer, so each query
//! has one more call than in Rust. The column "C, ABI, batch" has one call for all queries.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]
#![allow(unsafe_code, reason = "loads the loop in C, and calls the ABI")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use filterblock::{Expected, FilterBlock, FilterOptions, HashSeed, KeyHash, KeyHasher, SharedBytes, Verify};
use filterblock_ffi::{
    ExpectedInfo, FILTERBLOCK_VERIFY_AT_OPEN, Hasher, filterblock_filter_free, filterblock_filter_may_contain_hash,
    filterblock_filter_may_contain_hashes, filterblock_filter_open_borrowed, filterblock_hasher_free,
    filterblock_hasher_new_xxh3,
};

const TABLE: [u8; 16] = *b"table 0000000012";
const QUERIES: usize = 1 << 16;
const ROUNDS: usize = 31;

type Block = FilterBlock<SharedBytes>;
type Ask = extern "C" fn(*const c_void, u64) -> bool;
type AskEach = unsafe extern "C" fn(Ask, *const c_void, *const u64, usize) -> usize;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Compiles and loads benches/loop.c, and returns its function `ask_each`. Returns `None` if
/// compiling fails.
fn loop_in_c(folder: &Path) -> Option<AskEach> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/loop.c");
    let library = folder.join("loop.so");
    let compiled = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return None;
    }
    let path = CString::new(library.to_str()?).ok()?;
    // SAFETY: the library has no initialisers, and `ask_each` has the type `AskEach`.
    unsafe {
        let library = dlopen(path.as_ptr(), 2);
        assert!(!library.is_null());
        let function = dlsym(library, c"ask_each".as_ptr());
        assert!(!function.is_null());
        Some(std::mem::transmute::<*mut c_void, AskEach>(function))
    }
}

/// Asks a filter without the checks of the ABI, and without catching panics.
extern "C" fn unchecked(filter: *const c_void, hash: u64) -> bool {
    // SAFETY: `compare` passes a pointer to a `Block`.
    unsafe { &*filter.cast::<Block>() }.may_contain_hash(KeyHash::from_raw(hash))
}

/// The nanoseconds per query in each round, for each of the four ways to ask.
#[derive(Default)]
struct Times([Vec<f64>; 4]);

impl Times {
    fn of(&mut self, way: usize, ask: impl FnOnce() -> usize) -> usize {
        let start = Instant::now();
        let maybe = black_box(ask());
        self.0[way].push(start.elapsed().as_nanos() as f64 / QUERIES as f64);
        maybe
    }

    fn print(&mut self, name: &str) {
        let shown = self.0.iter_mut().map(|rounds| {
            rounds.sort_by(f64::total_cmp);
            format!("{:>7.2} ({:>6.2})", rounds[rounds.len() / 2], rounds[0])
        });
        println!("{name:<44} {}", shown.collect::<Vec<_>>().join(" "));
    }
}

fn main() {
    // `cargo test` and `cargo bench -- --test` run only one round.
    let has = |name: &str| std::env::args().any(|argument| argument == name);
    let rounds = if has("--bench") && !has("--test") { ROUNDS } else { 1 };
    let folder = tempfile::tempdir().unwrap();
    let Some(ask_each) = loop_in_c(folder.path()) else {
        println!("SKIPPED: cc is missing or cannot compile benches/loop.c; install a C compiler");
        return;
    };
    println!("nanoseconds per query, median (lowest) of {rounds} rounds");
    println!("{:<44} {:>16} {:>16} {:>16} {:>16}", "", "Rust", "C, unchecked", "C, ABI", "C, ABI, batch");
    let hasher = filterblock_hasher_new_xxh3(42).unwrap();
    for spec in ["blocked-bloom:10", "bloom:10", "bumped-ribbon:8", "binary-fuse:8"] {
        for num_keys in [10_000u64, 1_000_000] {
            for is_present in [false, true] {
                compare(spec, num_keys, is_present, &hasher, ask_each, rounds);
            }
        }
    }
    filterblock_hasher_free(Some(hasher));
}

fn compare(spec: &str, num_keys: u64, is_present: bool, hasher: &Hasher, ask_each: AskEach, rounds: usize) {
    let own = KeyHasher::xxh3(HashSeed(42));
    let mut builder = FilterOptions::new(spec.parse().unwrap()).table_id(TABLE).builder(&own).unwrap();
    (0..num_keys).for_each(|key| builder.add(builder.hasher().key(&key.to_le_bytes())));
    let bytes = builder.finish().unwrap().bytes;
    let block = Block::open(
        filterblock::AlignedBytes::copy_of(&bytes).unwrap().into(),
        &Expected::of_table(TABLE, &own),
        Verify::AtOpen,
    )
    .unwrap();
    let expected = ExpectedInfo {
        hasher,
        table_id: TABLE,
        flags: 0,
        checksum: 0,
        num_entries: 0,
        extractor: std::ptr::null(),
        offset: 0,
    };
    let aligned = block.as_bytes();
    // SAFETY: the block outlives the filter.
    let filter = unsafe {
        filterblock_filter_open_borrowed(
            aligned.as_ptr().cast(),
            aligned.len(),
            Some(&expected),
            FILTERBLOCK_VERIFY_AT_OPEN,
            std::ptr::null_mut(),
        )
    };
    assert!(!filter.is_null());
    let first = if is_present { 0 } else { num_keys };
    let hashes: Vec<KeyHash> = (0..QUERIES as u64)
        .map(|i| own.of(&(first + i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % num_keys).to_le_bytes()))
        .collect();
    let raw: Vec<u64> = hashes.iter().map(|hash| hash.raw()).collect();
    // SAFETY: an `Option` of a reference has the same ABI as a pointer.
    let abi: Ask = unsafe { std::mem::transmute(filterblock_filter_may_contain_hash as *const ()) };
    let (mut times, mut answers) = (Times::default(), vec![false; QUERIES]);
    for _ in 0..rounds {
        let maybe = times.of(0, || hashes.iter().filter(|&&hash| block.may_contain_hash(hash)).count());
        // SAFETY: `unchecked` gets a `Block`, `abi` gets a filter, and the arrays have `raw.len()`
        // elements.
        unsafe {
            let others = [
                times.of(1, || ask_each(unchecked, (&raw const block).cast(), raw.as_ptr(), raw.len())),
                times.of(2, || ask_each(abi, filter.cast_const().cast(), raw.as_ptr(), raw.len())),
                times.of(3, || {
                    filterblock_filter_may_contain_hashes(
                        filter.as_ref(),
                        raw.as_ptr(),
                        raw.len(),
                        answers.as_mut_ptr(),
                    );
                    answers.iter().filter(|answer| **answer).count()
                }),
            ];
            assert_eq!(others, [maybe; 3]);
        }
    }
    times.print(&format!("{spec}, {num_keys} keys, {}", if is_present { "present" } else { "absent" }));
    // SAFETY: the filter is freed once.
    unsafe { filterblock_filter_free(filter) };
}
