//! Tests that calls without enough memory do not abort the process.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use std::sync::Mutex;

use filterblock::HashSeed;
use filterblock_family::{Error, Result};
use filterblock_testkit::allocation::failing::{Failing, refuse, refuse_none};

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// The lock that lets only one test run at a time, because all tests share the allocator's state.
static TURN: Mutex<()> = Mutex::new(());

/// Makes each large allocation of a call fail, alone and with all later ones. Asserts that the call
/// succeeds or returns an expected error.
fn refuse_each(what: &str, is_error: fn(&Error) -> bool, make: &dyn Fn() -> Result<()>) {
    for for_ever in [false, true] {
        for number in 0.. {
            refuse(number, for_ever);
            let made = make();
            let counted = refuse_none();
            assert!(made.as_ref().err().is_none_or(is_error), "{what}, allocation {number}: {made:?}");
            if counted <= number {
                assert!(number > 0 && made.is_ok(), "{what}: {number} allocations");
                break;
            }
        }
    }
}

#[test]
fn variants_return_an_error_without_memory() {
    use filterblock_family::{
        Bloom, Bloomier, CounterBits, Counting, DLeft, DynamicCounting, MutableBloomier, Noisy, Partitioned, Scalable,
        Spectral, SpectralMode,
    };

    let _turn = TURN.lock();
    let is_error = |error: &Error| matches!(error, Error::TooLarge { .. });
    let seed = HashSeed(1);
    let none = |_| Vec::new();
    type Made = Result<Vec<u8>>;
    let entries = || (0..5_000u64).map(|i| (i.to_le_bytes(), i % 256));
    let keys = || (0..5_000u64).map(u64::to_le_bytes);
    let makes: [(&str, &dyn Fn() -> Made); 11] = [
        ("bloomier", &|| Bloomier::new(entries(), 40, 20, seed).map(|_| Vec::new())),
        ("mutable bloomier", &|| MutableBloomier::new(entries(), 8, 20, seed).map(|_| Vec::new())),
        ("noisy", &|| Noisy::new((0..20_000u64).map(u64::to_le_bytes), 3, seed).map(|_| Vec::new())),
        ("bloom", &|| Bloom::with_fpr(5_000, 0.01, seed).and_then(|bloom| bloom.freeze())),
        ("counting", &|| {
            let counting = Counting::with_fpr(5_000, 0.01, CounterBits::Four, seed)?;
            counting.to_bloom().map(|_| Vec::new())
        }),
        ("d-left", &|| DLeft::with_fpr(5_000, 0.01, seed).map(|_| Vec::new())),
        ("partitioned", &|| Partitioned::with_fpr(5_000, 0.01, seed).map(|_| Vec::new())),
        ("spectral", &|| Spectral::with_fpr(5_000, 0.01, SpectralMode::MinimumSelection, seed).map(|_| Vec::new())),
        ("dynamic counting", &|| {
            let mut filter = DynamicCounting::with_fpr(1_000, 0.01, 1, seed)?;
            keys().take(1_000).flat_map(|key| [key; 9]).try_for_each(|key| filter.insert(&key)).map(none)
        }),
        ("scalable", &|| {
            let mut filter = Scalable::with_fpr(1_000, 0.01, Default::default(), seed)?;
            keys().try_for_each(|key| filter.insert(&key).map(|_| ())).map(none)
        }),
        ("recurring minimum", &|| {
            let mut filter = Spectral::with_fpr(1_000, 0.01, SpectralMode::RecurringMinimum, seed)?;
            keys().try_for_each(|key| filter.insert(&key)).map(none)
        }),
    ];
    makes.into_iter().for_each(|(what, make)| refuse_each(what, is_error, &|| make().map(drop)));
}

/// Tests filters in files, and unions, intersections and merges of filters.
#[test]
fn filters_in_files_return_an_error_without_memory() {
    use filterblock::{ParsedBlock, Verify};
    use filterblock_family::{Bloom, FileFilter, Membership, Noisy, merge_blocks};

    let _turn = TURN.lock();
    let dir = tempfile::tempdir().unwrap();
    // Removes the file of an earlier call and returns its path.
    let free = || {
        let path = dir.path().join("free");
        let _ = std::fs::remove_file(&path);
        path
    };
    let create = |name: &str| FileFilter::create(dir.path().join(name), 60_000, 0.01, HashSeed(1));
    let (source, target) = (create("source").unwrap(), std::cell::RefCell::new(create("target").unwrap()));
    let keys = || (0..20_000u64).map(u64::to_le_bytes);
    source.extend(keys()).unwrap();
    source.sync().unwrap();
    let (text, bloom) = (source.to_base64().unwrap(), source.to_bloom().unwrap());
    let block = bloom.freeze().unwrap();
    type Make<'a> = &'a dyn Fn() -> Result<()>;
    let makes: [(&str, Make<'_>); 13] = [
        ("create", &|| FileFilter::create(free(), 60_000, 0.01, HashSeed(1)).map(drop)),
        ("read", &|| FileFilter::open_read_only(dir.path().join("source")).map(drop)),
        ("copy", &|| source.copy(free()).map(drop)),
        ("to_base64", &|| source.to_base64().map(drop)),
        ("to_bloom", &|| source.to_bloom().map(drop)),
        ("compress", &|| bloom.compress().map(drop)),
        ("noisy", &|| Noisy::new(keys().take(500), 100, HashSeed(1)).map(drop)),
        ("from_base64", &|| FileFilter::from_base64(free(), &text).map(drop)),
        ("intersect_with", &|| target.borrow_mut().intersect_with(&source)),
        ("clear", &|| target.borrow_mut().clear()),
        ("sync", &|| {
            target.borrow_mut().clear()?;
            target.borrow().extend(keys())?;
            target.borrow().sync()
        }),
        ("union", &|| Bloom::union(&bloom, &bloom).and_then(|_| bloom.intersection(&bloom)).map(drop)),
        ("merge", &|| {
            let block = ParsedBlock::open(block.as_slice(), Verify::AtOpen)?;
            merge_blocks(&[block]).map(drop)
        }),
    ];
    let is_error = |error: &Error| match error.root() {
        Error::TooLarge { .. } => true,
        Error::Io(error) => error.kind() == std::io::ErrorKind::OutOfMemory,
        _ => false,
    };
    makes.into_iter().for_each(|(what, make)| refuse_each(what, is_error, make));
    // A sync that fails because of too little memory loses no bits.
    let mut target = target.into_inner();
    for number in 0..2 {
        target.clear().unwrap();
        target.extend(keys()).unwrap();
        refuse(number, false);
        let synced = target.sync();
        refuse_none();
        assert!(synced.is_err_and(|error| matches!(error.root(), Error::TooLarge { .. })), "{number}");
        target.sync().unwrap();
        let found = FileFilter::open_read_only(dir.path().join("target")).unwrap();
        assert!(keys().all(|key| found.may_contain(&key)), "{number}");
    }
}
