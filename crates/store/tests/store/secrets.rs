//! Tests stores whose keys are hashed with a secret.

use std::path::Path;

use crate::common::{DIR, assert_names, change, files, image, key, quiet, seal_footer};
use filterblock::Error as FilterError;
use filterblock::{HashKind, Secret};
use filterblock_store::sstable::FOOTER_LEN_BYTES;
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error, Options};

const KEYED: [HashKind; 2] = [HashKind::Xxh3Secret, HashKind::SipHash13];

fn options(storage: &Memory, hash: Option<HashKind>, secret: Option<u8>) -> Options {
    let secret = secret.map(|fill| Secret::new(&[fill; 16]).unwrap());
    Options { hash, secret, ..quiet(storage) }
}

/// Creates and closes a store with SSTs of keys, of overwritten keys and of one deleted key.
fn make(storage: &Memory, hash: HashKind) {
    let secret = hash.takes_secret().then_some(1);
    let db = Db::open(DIR, options(storage, Some(hash), secret)).unwrap();
    (0..1_000).for_each(|i| db.put(&key(i * 2), &key(i)).unwrap());
    db.compact_range(..).unwrap();
    (0..100).for_each(|i| db.put(&key(i * 4), b"newer").unwrap());
    db.flush().unwrap();
    db.delete(&key(8)).unwrap();
    db.close().unwrap();
}

fn check(db: &Db) {
    let keys: Vec<_> = (0..2_000).map(key).collect();
    let at_once = db.multi_get(&keys).unwrap();
    for i in 0..2_000 {
        let expected = match i {
            8 => None,
            _ if i % 4 == 0 && i < 400 => Some(b"newer".to_vec()),
            _ if i % 2 == 0 => Some(key(i / 2)),
            _ => None,
        };
        assert_eq!(db.get(&key(i)).unwrap(), expected, "key {i}");
        assert_eq!(at_once[i as usize], expected, "key {i}");
    }
    let report = db.verify().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert!(db.stats().reports.is_empty(), "{:?}", db.stats().reports);
}

#[test]
fn a_store_with_its_secret_answers_after_any_operation() {
    for hash in KEYED {
        let storage = Memory::new();
        make(&storage, hash);
        // The hash function need not be given again.
        let db = Db::open(DIR, options(&storage, None, Some(1))).unwrap();
        check(&db);
        assert!(db.stats().total.points.true_negatives > 0, "the filters were not used");
        db.checkpoint("/copy").unwrap();
        db.put(&key(8), b"back").unwrap();
        db.delete(&key(8)).unwrap();
        let crashed = image(&storage);
        check(&Db::open(DIR, options(&crashed, Some(hash), Some(1))).unwrap());
        db.compact_range(..).unwrap();
        check(&db);
        db.close().unwrap();
        check(&Db::open("/copy", options(&storage, None, Some(1))).unwrap());
        assert!(matches!(
            Db::open("/copy", options(&storage, None, None)).unwrap_err().root(),
            Error::Filter(FilterError::Secret { given: None, .. })
        ));
    }
}

#[test]
fn a_store_with_a_wrong_or_missing_secret_stays_untouched() {
    for hash in KEYED {
        let storage = Memory::new();
        make(&storage, hash);
        let manifest = files(&storage, Path::new(DIR), "MANIFEST-").remove(0);
        let content = |storage: &Memory| -> Vec<_> {
            let mut names = storage.list(Path::new(DIR)).unwrap();
            names.sort();
            names.into_iter().map(|name| (storage.read(&Path::new(DIR).join(&name)).unwrap(), name)).collect()
        };
        let before = content(&storage);
        let other = KEYED[usize::from(hash == KEYED[0])];
        let refused = [
            (options(&storage, None, None), "under a secret; give the secret"),
            (options(&storage, Some(hash), None), "under a secret; give the secret"),
            (options(&storage, None, Some(2)), "under another secret"),
            (options(&storage, Some(other), Some(1)), "is expected"),
            (options(&storage, Some(HashKind::Xxh3), None), "but xxh3 is expected"),
        ];
        for (options, reason) in refused {
            let error = Db::open(DIR, options).unwrap_err();
            assert!(error.is_secret_mismatch() && error.to_string().contains(reason), "{error}");
            assert!(error.to_string().contains(&hash.to_string()), "{error} does not name the hash kind");
            assert_names(&error, &manifest);
            assert!(content(&storage) == before, "{error}, but a file changed");
        }
        check(&Db::open(DIR, options(&storage, None, Some(1))).unwrap());
    }
}

#[test]
fn a_store_without_a_secret_opens_only_without_one() {
    let storage = Memory::new();
    make(&storage, HashKind::Xxh3);
    for hash in [None, Some(HashKind::Xxh3)] {
        let error = Db::open(DIR, options(&storage, hash, Some(1))).unwrap_err();
        assert!(matches!(error.root(), Error::Filter(FilterError::Invalid { what: "secret", .. })), "{error}");
    }
    let error = Db::open(DIR, options(&storage, Some(HashKind::SipHash13), Some(1))).unwrap_err();
    assert!(matches!(error.root(), Error::Filter(FilterError::Unexpected { found, .. }) if found == "xxh3"), "{error}");
    check(&Db::open(DIR, options(&storage, None, None)).unwrap());
}

#[test]
fn a_new_store_with_a_secret_uses_siphash() {
    let storage = Memory::new();
    for hash in KEYED {
        let error = Db::open(DIR, options(&storage, Some(hash), None)).unwrap_err();
        assert!(
            matches!(error.root(), Error::Filter(FilterError::Secret { hash: found, given: None, .. }) if *found == hash),
            "{error}"
        );
    }
    let error = Db::open(DIR, options(&storage, Some(HashKind::Xxh3), Some(1))).unwrap_err();
    assert!(matches!(error.root(), Error::Filter(FilterError::Invalid { what: "secret", .. })), "{error}");
    assert!(!storage.exists(Path::new(DIR)).unwrap());
    Db::open(DIR, options(&storage, None, Some(1))).unwrap().close().unwrap();
    let error = Db::open(DIR, options(&storage, None, None)).unwrap_err();
    assert!(
        matches!(error.root(), Error::Filter(FilterError::Secret { hash: HashKind::SipHash13, given: None, .. })),
        "{error}"
    );
}

#[test]
fn seeds_are_random_for_each_store_unless_one_is_given() {
    let seed_of = |hash_seed| {
        let storage = Memory::new();
        let db = Db::open(DIR, Options { hash_seed, ..quiet(&storage) }).unwrap();
        db.put(b"key", b"value").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let table = storage.read(&files(&storage, Path::new(DIR), ".sst")[0]).unwrap();
        // The seed begins 40 bytes before the magic of the filter's trailer.
        let magic = table.windows(4).position(|window| window == b"\x89FLB").unwrap();
        u64::from_le_bytes(table[magic - 40..magic - 32].try_into().unwrap())
    };
    assert_eq!((seed_of(Some(7)), seed_of(Some(u64::MAX))), (7, u64::MAX));
    let mut drawn: Vec<u64> = (0..20).map(|_| seed_of(None)).collect();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 20);
    // Every bit of a seed is random. A bit is 1 in all 20 seeds with a probability of 2^-20, so
    // three such bits have a probability below 10^-13. The same holds for 0.
    let (all, any) = drawn.iter().fold((u64::MAX, 0), |(all, any), seed| (all & seed, any | seed));
    assert!(all.count_ones() < 3 && any.count_zeros() < 3, "{drawn:x?}");
}

#[test]
fn a_filter_with_another_secret_costs_reads_and_is_reported() {
    for hash in KEYED {
        let storage = Memory::new();
        let db = Db::open(DIR, options(&storage, Some(hash), Some(1))).unwrap();
        (0..1_000).for_each(|i| db.put(&key(i * 2), &key(i)).unwrap());
        db.close().unwrap();
        let path = files(&storage, Path::new(DIR), ".sst").remove(0);
        change(&storage, &path, |table| {
            // Change the secret's fingerprint in the filter's extension. Then correct the checksums
            // in the filter's trailer and in the footer.
            let trailer = table.windows(4).position(|window| window == b"\x89FLB").unwrap() - 56;
            let checksums_and_extension = 4 + 10;
            assert_eq!(table[trailer + 47], 10);
            table[trailer - 1] ^= 1;
            let checksum = crc32fast::hash(&table[trailer - checksums_and_extension..trailer + 52]).to_le_bytes();
            table[trailer + 52..trailer + 56].copy_from_slice(&checksum);
            let footer = table.len() - FOOTER_LEN_BYTES;
            table[footer + 80..footer + 84].copy_from_slice(&checksum);
            seal_footer(table);
        });
        let db = Db::open(DIR, options(&storage, None, Some(1))).unwrap();
        for i in 0..2_000 {
            assert_eq!(db.get(&key(i)).unwrap(), (i % 2 == 0).then(|| key(i / 2)), "key {i}");
        }
        let stats = db.stats();
        assert_eq!((stats.total.degraded_tables, stats.reports.len()), (1, 1), "{:?}", stats.reports);
        assert!(stats.reports[0].contains("under another secret"), "{:?}", stats.reports);
        assert!(stats.total.points.degraded >= 1_999);
        assert_eq!(db.verify().unwrap().damage.len(), 1);
        db.close().unwrap();
        let strict = Options { strict_filters: true, ..options(&storage, None, Some(1)) };
        assert!(matches!(
            Db::open(DIR, strict).unwrap_err().root(),
            Error::Filter(FilterError::Secret { given: Some(_), .. })
        ));
    }
}
