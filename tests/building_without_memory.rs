//! Tests that calls without enough memory do not abort the process. Also tests builds without
//! threads.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use std::num::NonZeroUsize;
use std::sync::Mutex;

use filterblock::{
    Error, FilterBlock, FilterBuilder, FilterOptions, HashSeed, KeyHash, Result, Verify, WholeKeys,
    partitions::PartitionedBuilder,
};
use filterblock_testkit::Random;
use filterblock_testkit::allocation::failing::{Failing, refuse, refuse_none, refuse_small_too};
use filterblock_testkit::blocks::{SPECS, hash, key, spec};

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// The lock that lets only one test run at a time, because all tests share the allocator's state.
static TURN: Mutex<()> = Mutex::new(());

fn builder(spec_text: &str, n: u64, threads: usize) -> FilterBuilder {
    let mut random = Random(n);
    let mut builder =
        FilterOptions::new(spec(spec_text)).threads(NonZeroUsize::new(threads).unwrap()).builder(HashSeed(1)).unwrap();
    (0..n).for_each(|_| builder.add_hash(KeyHash::from_raw(random.next())));
    builder
}

/// Calls the function that `make` returns, once for each of its large allocations, and makes this
/// allocation fail. Then does the same again, but all later large allocations of a call fail, too.
/// Asserts that each call returns an expected error, or the same bytes as with enough memory.
fn refuse_each(
    what: &str,
    is_error: impl Fn(&Error) -> bool,
    mut make: impl FnMut() -> Box<dyn FnOnce() -> Result<Vec<u8>>>,
) {
    let sound = make()().unwrap();
    for for_ever in [false, true] {
        let mut errors = 0;
        for number in 0.. {
            let makes = make();
            refuse(number, for_ever);
            let made = makes();
            let counted = refuse_none();
            match made {
                Ok(bytes) => assert!(bytes == sound, "{what}: the bytes differ if allocation {number} is refused"),
                Err(error) => {
                    assert!(is_error(&error), "{what}, allocation {number}: {error:?}");
                    errors += 1;
                }
            }
            if counted <= number {
                assert!(number < 2 || errors > 0, "{what}: {number} allocations were refused without an error");
                break;
            }
        }
    }
}

fn is_no_memory(error: &Error) -> bool {
    matches!(error, Error::Invalid { what: "filter", reason, .. } if reason.contains("memory"))
}

/// Returns whether the error says that an earlier call lost keys or prefixes.
fn says_keys_are_missing(error: &Error) -> bool {
    matches!(error, Error::Invalid { what: "filter", reason, .. } if reason.contains("keys or prefixes are missing"))
}

fn refuse_each_of_finish(spec_text: &str, n: u64, threads: usize) {
    refuse_each(&format!("{spec_text}, {n} keys, {threads} threads"), is_no_memory, || {
        let builder = builder(spec_text, n, threads);
        Box::new(|| Ok(builder.finish()?.bytes))
    });
}

#[test]
fn builds_of_every_kind_return_an_error_without_memory() {
    let _turn = TURN.lock();
    // A filter that always answers "maybe" needs no memory for its keys.
    for spec in SPECS.into_iter().filter(|&spec| spec != "always-maybe") {
        for n in [1, 100, 1_400, 2_000, 3_000, 20_000] {
            refuse_each_of_finish(spec, n, 1);
        }
    }
}

#[test]
fn builds_on_several_threads_return_an_error_without_memory() {
    let _turn = TURN.lock();
    for threads in [1, 3] {
        refuse_each_of_finish("bumped-ribbon:8", 150_000, threads);
    }
}

#[test]
fn builds_of_crowded_hashes_return_an_error_without_memory() {
    let _turn = TURN.lock();
    for spec_text in ["ribbon:8", "bumped-ribbon:8", "binary-fuse:8"] {
        refuse_each(spec_text, is_no_memory, || {
            let mut builder = FilterOptions::new(spec(spec_text)).builder(HashSeed(1)).unwrap();
            (0..2_000).for_each(|i| builder.add_hash(KeyHash::from_raw(i)));
            Box::new(|| Ok(builder.finish()?.bytes))
        });
    }
}

#[test]
fn compact_builds_return_an_error_without_memory() {
    let _turn = TURN.lock();
    for spec in ["bloom:10", "blocked-bloom:10"] {
        refuse_each(spec, is_no_memory, || {
            let builder = builder(spec, 5_000, 1);
            Box::new(|| builder.finish_compact())
        });
    }
}

#[test]
fn partitioned_builds_return_an_error_without_memory() {
    let _turn = TURN.lock();
    let keys: Vec<_> = (0..10_000).map(key).collect();
    let is_error = |error: &Error| is_no_memory(error) || matches!(error, Error::TooLarge { .. });
    refuse_each("partitions", is_error, || {
        let keys = keys.clone();
        Box::new(move || {
            let mut builder =
                PartitionedBuilder::new(&FilterOptions::new(spec("bloom:10")), HashSeed(1), 1_000).unwrap();
            keys.iter().try_for_each(|key| builder.add(builder.hasher().key(key)))?;
            Ok(builder.finish()?.bytes)
        })
    });
}

#[test]
fn partitioned_builders_never_lose_a_key_without_an_error() {
    let _turn = TURN.lock();
    for partition_keys in [1, 2, 3] {
        for failing in 0..5 {
            for number in 0.. {
                let mut builder =
                    PartitionedBuilder::new(&FilterOptions::new(spec("bloom:10")), HashSeed(1), partition_keys)
                        .unwrap();
                (0..failing).for_each(|i| builder.add(builder.hasher().key(&key(i))).unwrap());
                let last = key(failing);
                refuse_small_too(number);
                let added = builder.add(builder.hasher().key(&last));
                let counted = refuse_none();
                let what = format!("{partition_keys} keys per partition, key {failing}, allocation {number}");
                if counted <= number {
                    added.unwrap();
                    break;
                }
                if added.is_ok() {
                    // The call did not need the refused allocation.
                    let made = FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap();
                    assert!((0..=failing).all(|i| made.may_contain(made.hasher().key(&key(i)))), "{what}");
                    continue;
                }
                assert!(added.as_ref().is_err_and(is_no_memory), "{what}: {added:?}");
                // Adding the same key again, or the next key, must fail, because a key is lost.
                for i in [failing, failing + 1] {
                    assert!(
                        builder.add(builder.hasher().key(&key(i))).is_err_and(|error| says_keys_are_missing(&error)),
                        "{what}"
                    );
                }
                assert!(builder.finish().is_err_and(|error| says_keys_are_missing(&error)), "{what}");
            }
        }
    }
}

#[test]
fn partitioned_builders_never_lose_a_prefix_without_an_error() {
    let _turn = TURN.lock();
    for whole_keys in [WholeKeys::Not, WholeKeys::Too] {
        let mut lost = 0;
        for failing in 1..9 {
            for number in 0.. {
                let options = FilterOptions::new(spec("bloom:10")).prefixes_by_host("all", whole_keys);
                let mut builder = PartitionedBuilder::new(&options, HashSeed(1), 4).unwrap();
                let hasher = builder.hasher().clone();
                let (key, next) = (key(1), key(2));
                builder.add(hasher.key(&key)).unwrap();
                (0..failing).for_each(|len| builder.add_prefix(hasher.key(&key[..len])).unwrap());
                refuse_small_too(number);
                let added = builder.add_prefix(hasher.key(&key[..failing]));
                let counted = refuse_none();
                let what = format!("prefix {failing}, allocation {number}");
                if added.is_ok() {
                    let made = FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap();
                    assert!((0..=failing).all(|len| made.may_contain_prefix("all", hasher.key(&key[..len]))), "{what}");
                    if counted <= number {
                        break;
                    }
                    continue;
                }
                lost += 1;
                assert!(added.is_err_and(|error| is_no_memory(&error)), "{what}");
                assert!(
                    builder.add_prefix(hasher.key(&key[..failing])).is_err_and(|error| says_keys_are_missing(&error)),
                    "{what}"
                );
                assert!(builder.add(hasher.key(&next)).is_err_and(|error| says_keys_are_missing(&error)), "{what}");
                assert!(builder.finish().is_err_and(|error| says_keys_are_missing(&error)), "{what}");
            }
        }
        assert!(lost > 0, "no prefix made the builder allocate");
    }
}

#[test]
fn builders_never_lose_a_key_without_an_error() {
    let _turn = TURN.lock();
    // In each round, one of the first eight large allocations of the vector of hashes fails.
    for number in 0..8 {
        let mut builder = FilterOptions::new(spec("bloom:10")).builder(HashSeed(1)).unwrap();
        refuse(number, false);
        (0..10_000).for_each(|i| builder.add_hash(KeyHash::from_raw(hash(i).raw())));
        let counted = refuse_none();
        let made = builder.finish();
        assert_eq!(made.is_err(), counted > number, "{number}");
        assert!(made.err().is_none_or(|error| is_no_memory(&error)));
    }
    // A failed reservation of memory is not an error. Keys can be added after it.
    let mut builder = FilterOptions::new(spec("bloom:10")).builder(HashSeed(1)).unwrap();
    builder.reserve(usize::MAX);
    builder.reserve(isize::MAX as usize / 8);
    builder.add(builder.hasher().key(b"key"));
    assert!(builder.finish().is_ok());
}

/// The test runs itself in a child process, which cannot start threads because their stacks would
/// exceed the address space.
#[test]
fn builds_succeed_if_threads_cannot_be_started() {
    const VARIABLE: &str = "RUST_MIN_STACK";
    // Starting a process allocates memory, so this test also needs the lock.
    let _turn = TURN.lock();
    if std::env::var_os(VARIABLE).is_none() {
        let name = "builds_succeed_if_threads_cannot_be_started";
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args([name, "--exact", "--test-threads=1", "--nocapture"]);
        let output = command.env(VARIABLE, (1u64 << 50).to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "a thread with a stack of 2^50 bytes must not start");
    let one = builder("bumped-ribbon:8", 300_000, 1).finish().unwrap().bytes;
    assert!(one == builder("bumped-ribbon:8", 300_000, 4).finish().unwrap().bytes);
}
