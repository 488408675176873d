//! Runs LevelDB through its C interface: `leveldb/c.h` of Debian's libleveldb-dev.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use filterblock_testkit::measure::keys::Key;

use super::c::{done, path_text};
use crate::engine::{BITS_PER_KEY, BLOCK_BYTES, Contender, Engine, Outcome, Settings, Store};

type Handle = *mut c_void;

unsafe extern "C" {
    fn leveldb_open(options: Handle, name: *const c_char, error: *mut *mut c_char) -> Handle;
    fn leveldb_close(db: Handle);
    fn leveldb_write(db: Handle, options: Handle, batch: Handle, error: *mut *mut c_char);
    fn leveldb_get(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_len: usize,
        value_len: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut u8;
    fn leveldb_compact_range(db: Handle, from: *const u8, from_len: usize, to: *const u8, to_len: usize);
    fn leveldb_writebatch_create() -> Handle;
    fn leveldb_writebatch_clear(batch: Handle);
    fn leveldb_writebatch_put(batch: Handle, key: *const u8, key_len: usize, value: *const u8, value_len: usize);
    fn leveldb_options_create() -> Handle;
    fn leveldb_options_set_create_if_missing(options: Handle, on: c_uchar);
    fn leveldb_options_set_write_buffer_size(options: Handle, bytes: usize);
    fn leveldb_options_set_block_size(options: Handle, bytes: usize);
    fn leveldb_options_set_cache(options: Handle, cache: Handle);
    fn leveldb_options_set_filter_policy(options: Handle, policy: Handle);
    fn leveldb_options_set_compression(options: Handle, level: c_int);
    fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> Handle;
    fn leveldb_filterpolicy_destroy(policy: Handle);
    fn leveldb_cache_create_lru(bytes: usize) -> Handle;
    fn leveldb_cache_destroy(cache: Handle);
    fn leveldb_options_destroy(options: Handle);
    fn leveldb_readoptions_create() -> Handle;
    fn leveldb_readoptions_destroy(options: Handle);
    fn leveldb_writeoptions_create() -> Handle;
    fn leveldb_writeoptions_destroy(options: Handle);
    fn leveldb_writebatch_destroy(batch: Handle);
    fn leveldb_free(memory: *mut c_void);
    fn leveldb_major_version() -> c_int;
    fn leveldb_minor_version() -> c_int;
}

pub fn contender() -> Contender {
    // SAFETY: both functions return a number.
    let (major, minor) = unsafe { (leveldb_major_version(), leveldb_minor_version()) };
    Contender { name: "leveldb", version: format!("{major}.{minor}"), most_runs: 0, batched: false, open }
}

fn open(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
    let name = path_text(dir)?;
    // SAFETY: each handle comes from its function of creation, and lives until `drop`.
    unsafe {
        let mut store = LevelDb {
            db: null_mut(),
            options: leveldb_options_create(),
            cache: leveldb_cache_create_lru(settings.cache_bytes),
            filter: leveldb_filterpolicy_create_bloom(BITS_PER_KEY.into()),
            reads: leveldb_readoptions_create(),
            writes: leveldb_writeoptions_create(),
            batch: leveldb_writebatch_create(),
        };
        leveldb_options_set_create_if_missing(store.options, 1);
        leveldb_options_set_write_buffer_size(store.options, settings.write_buffer_bytes);
        leveldb_options_set_block_size(store.options, BLOCK_BYTES);
        leveldb_options_set_cache(store.options, store.cache);
        leveldb_options_set_filter_policy(store.options, store.filter);
        leveldb_options_set_compression(store.options, 0);
        let mut error = null_mut();
        store.db = leveldb_open(store.options, name.as_ptr(), &raw mut error);
        done(error, leveldb_free)?;
        Ok(Box::new(store))
    }
}

/// An open LevelDB and its option objects. `db` is null if the store could not be opened.
struct LevelDb {
    db: Handle,
    options: Handle,
    cache: Handle,
    filter: Handle,
    reads: Handle,
    writes: Handle,
    batch: Handle,
}

impl Engine for LevelDb {
    fn put(&mut self, pairs: &[(Key, Vec<u8>)]) -> Outcome<()> {
        // SAFETY: the handles are open, and the batch copies keys and values.
        unsafe {
            leveldb_writebatch_clear(self.batch);
            for (key, value) in pairs {
                leveldb_writebatch_put(self.batch, key.as_ptr(), key.len(), value.as_ptr(), value.len());
            }
            let mut error = null_mut();
            leveldb_write(self.db, self.writes, self.batch, &raw mut error);
            done(error, leveldb_free)
        }
    }

    fn compact(&mut self) -> Outcome<()> {
        // SAFETY: the handle is open. Null bounds stand for all keys.
        unsafe { leveldb_compact_range(self.db, null(), 0, null(), 0) };
        Ok(())
    }

    #[inline]
    fn get<R>(&mut self, key: &Key, answer: impl FnOnce(Option<&[u8]>) -> R) -> Outcome<R> {
        let (mut error, mut len) = (null_mut(), 0);
        // SAFETY: the handles are open. A value that is not null has `len` bytes, and is freed
        // once.
        unsafe {
            let value = leveldb_get(self.db, self.reads, key.as_ptr(), key.len(), &raw mut len, &raw mut error);
            done(error, leveldb_free)?;
            let result = answer((!value.is_null()).then(|| std::slice::from_raw_parts(value, len)));
            leveldb_free(value.cast());
            Ok(result)
        }
    }
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: nothing uses the handles after `drop`. The store is closed before the objects
        // that it refers to are destroyed.
        unsafe {
            if !self.db.is_null() {
                leveldb_close(self.db);
            }
            leveldb_writebatch_destroy(self.batch);
            leveldb_writeoptions_destroy(self.writes);
            leveldb_readoptions_destroy(self.reads);
            leveldb_options_destroy(self.options);
            leveldb_filterpolicy_destroy(self.filter);
            leveldb_cache_destroy(self.cache);
        }
    }
}
