//! Tests a database of `librocksdb-sys` with filters of filterblock. Needs the feature `sys`.
#![cfg(feature = "sys")]
#![expect(unsafe_code, reason = "calls the C API of RocksDB")]
#![allow(clippy::unwrap_used, missing_docs)]

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::{null, null_mut};

use filterblock::HashKind;
use filterblock_rocksdb::sys::{Counters, Settings, install};
use librocksdb_sys as c;

const KEYS: u64 = 5_000;

fn key(number: u64) -> String {
    format!("key-{number:08}")
}

/// The layout of the filters of a database.
#[derive(Clone, Copy)]
struct Layout {
    partitioned: bool,
    prefixes: bool,
}

struct Db {
    db: *mut c::rocksdb_t,
    options: *mut c::rocksdb_options_t,
    counters: Counters,
}

impl Db {
    fn open(dir: &Path, settings: &Settings, layout: Layout) -> Self {
        let name = CString::new(dir.to_str().unwrap()).unwrap();
        // SAFETY: each handle comes from the function that creates it. The options of the database
        // copy the table options, and take over the prefix extractor.
        unsafe {
            let table = c::rocksdb_block_based_options_create();
            let counters = install(table, settings).unwrap();
            if layout.partitioned {
                c::rocksdb_block_based_options_set_index_type(
                    table,
                    c::rocksdb_block_based_table_index_type_two_level_index_search as i32,
                );
                c::rocksdb_block_based_options_set_partition_filters(table, 1);
                c::rocksdb_block_based_options_set_metadata_block_size(table, 512);
            }
            let options = c::rocksdb_options_create();
            c::rocksdb_options_set_create_if_missing(options, 1);
            c::rocksdb_options_set_disable_auto_compactions(options, 1);
            c::rocksdb_options_set_compression(options, 0);
            c::rocksdb_options_set_block_based_table_factory(options, table);
            c::rocksdb_block_based_options_destroy(table);
            if layout.prefixes {
                let extractor = c::rocksdb_slicetransform_create_fixed_prefix(10);
                c::rocksdb_options_set_prefix_extractor(options, extractor);
            }
            let mut error = null_mut();
            let db = c::rocksdb_open(options, name.as_ptr(), &raw mut error);
            done(error);
            Self { db, options, counters }
        }
    }

    fn put(&self, key: &str, value: &str) {
        // SAFETY: the database is open, and copies key and value.
        unsafe {
            let (writes, mut error) = (c::rocksdb_writeoptions_create(), null_mut());
            let (key_data, value_data) = (key.as_ptr().cast(), value.as_ptr().cast());
            c::rocksdb_put(self.db, writes, key_data, key.len(), value_data, value.len(), &raw mut error);
            c::rocksdb_writeoptions_destroy(writes);
            done(error);
        }
    }

    fn has(&self, key: &str) -> bool {
        // SAFETY: the database is open. The value is freed once.
        unsafe {
            let (reads, mut error, mut len) = (c::rocksdb_readoptions_create(), null_mut(), 0);
            let value = c::rocksdb_get(self.db, reads, key.as_ptr().cast(), key.len(), &raw mut len, &raw mut error);
            c::rocksdb_readoptions_destroy(reads);
            done(error);
            if !value.is_null() {
                c::rocksdb_free(value.cast());
            }
            !value.is_null()
        }
    }

    /// Returns whether a seek within the prefix of `key` finds a key.
    fn seek_finds(&self, key: &str) -> bool {
        // SAFETY: the database is open, and the iterator is destroyed.
        unsafe {
            let reads = c::rocksdb_readoptions_create();
            c::rocksdb_readoptions_set_prefix_same_as_start(reads, 1);
            let scan = c::rocksdb_create_iterator(self.db, reads);
            c::rocksdb_iter_seek(scan, key.as_ptr().cast(), key.len());
            let found = c::rocksdb_iter_valid(scan) != 0;
            c::rocksdb_iter_destroy(scan);
            c::rocksdb_readoptions_destroy(reads);
            found
        }
    }

    fn flush(&self) {
        // SAFETY: the database is open.
        unsafe {
            let (flushes, mut error) = (c::rocksdb_flushoptions_create(), null_mut());
            c::rocksdb_flush(self.db, flushes, &raw mut error);
            c::rocksdb_flushoptions_destroy(flushes);
            done(error);
        }
    }

    fn compact(&self) {
        // SAFETY: the database is open. A null key means that the range has no bound.
        unsafe { c::rocksdb_compact_range(self.db, null(), 0, null(), 0) };
    }

    /// Asserts that gets find no absent key. Returns the number of present keys that gets find, and
    /// how often filters answer "absent" in gets of absent keys.
    fn ask(&self) -> (u64, u64) {
        let found = (0..KEYS).filter(|&i| self.has(&key(2 * i))).count() as u64;
        // SAFETY: the context belongs to this thread.
        unsafe {
            c::rocksdb_set_perf_level(c::rocksdb_enable_count as i32);
            let counts = c::rocksdb_perfcontext_create();
            c::rocksdb_perfcontext_reset(counts);
            assert!((0..KEYS).all(|i| !self.has(&key(2 * i + 1))));
            let filtered = c::rocksdb_perfcontext_metric(counts, c::rocksdb_bloom_sst_miss_count as i32);
            c::rocksdb_perfcontext_destroy(counts);
            (found, filtered)
        }
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: nothing uses the handles after this call.
        unsafe {
            c::rocksdb_close(self.db);
            c::rocksdb_options_destroy(self.options);
        }
    }
}

fn done(error: *mut c_char) {
    if !error.is_null() {
        // SAFETY: RocksDB returns text with a zero byte at its end.
        panic!("{}", unsafe { CStr::from_ptr(error) }.to_string_lossy());
    }
}

#[test]
fn a_database_of_librocksdb_sys_finds_every_key() {
    for (partitioned, prefixes) in [(false, false), (true, false), (false, true), (true, true)] {
        let layout = Layout { partitioned, prefixes };
        let dir = tempfile::tempdir().unwrap();
        let secret = Settings { hash: HashKind::SipHash13, secret: vec![7; 16], ..Settings::default() };
        for (name, settings) in [("default", Settings::default()), ("secret", secret)] {
            let dir = dir.path().join(name);
            let db = Db::open(&dir, &settings, layout);
            for i in 0..KEYS {
                db.put(&key(2 * (i * 7919 % KEYS)), "value");
                if i % 1_500 == 1_499 {
                    db.flush();
                }
            }
            db.flush();
            let check = |db: &Db| {
                let (found, filtered) = db.ask();
                assert_eq!(found, KEYS);
                assert!(filtered > KEYS * 95 / 100, "{filtered} gets of absent keys were filtered");
                if prefixes {
                    assert!((0..KEYS / 50).all(|i| db.seek_finds(&key(100 * i)[..10])));
                    assert!(!db.seek_finds("key-999999"));
                }
            };
            check(&db);
            db.compact();
            check(&db);
            let counts = db.counters.read();
            assert!(counts.filters_built > 4 && counts.filters_opened > 4, "{counts:?}");
            assert_eq!((counts.filters_failed, counts.unfiltered_queries), (0, 0));
            drop(db);
            check(&Db::open(&dir, &settings, layout));
        }
    }
}

#[test]
fn filters_of_another_seed_answer_maybe_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout { partitioned: false, prefixes: false };
    {
        let db = Db::open(dir.path(), &Settings::default(), layout);
        (0..KEYS).for_each(|i| db.put(&key(2 * i), "value"));
        db.flush();
    }
    let db = Db::open(dir.path(), &Settings { seed: 1, ..Settings::default() }, layout);
    assert_eq!(db.ask(), (KEYS, 0));
    let counts = db.counters.read();
    assert_eq!((counts.filters_of_other_hasher, counts.filters_damaged), (1, 0));
    assert!(counts.unfiltered_queries >= KEYS);
    assert!(db.counters.last_error().contains("seed"), "{}", db.counters.last_error());
}

#[test]
fn invalid_settings_are_errors() {
    // SAFETY: the options come from RocksDB.
    unsafe {
        let table = c::rocksdb_block_based_options_create();
        for settings in [
            Settings { upper: "blom:10".into(), ..Settings::default() },
            Settings { bottommost: "bloom:0".into(), ..Settings::default() },
            Settings { secret: vec![7; 16], ..Settings::default() },
            Settings { hash: HashKind::SipHash13, ..Settings::default() },
        ] {
            let error = install(table, &settings).unwrap_err();
            assert!(error.to_string().starts_with("Invalid argument: filterblock"), "{error}");
        }
        c::rocksdb_block_based_options_destroy(table);
    }
}
