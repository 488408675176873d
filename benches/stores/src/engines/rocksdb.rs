//! Runs RocksDB through its C interface: `rocksdb/c.h` of Debian's librocksdb-dev.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use filterblock_testkit::measure::keys::Key;

use super::c::{done, path_text};
use crate::engine::{BATCH, BITS_PER_KEY, BLOCK_BYTES, Contender, Engine, Outcome, Settings, Store};

type Handle = *mut c_void;

unsafe extern "C" {
    fn rocksdb_open_column_families(
        options: Handle,
        name: *const c_char,
        families: c_int,
        names: *const *const c_char,
        family_options: *const Handle,
        handles: *mut Handle,
        error: *mut *mut c_char,
    ) -> Handle;
    fn rocksdb_column_family_handle_destroy(family: Handle);
    fn rocksdb_close(db: Handle);
    fn rocksdb_write(db: Handle, options: Handle, batch: Handle, error: *mut *mut c_char);
    fn rocksdb_flush(db: Handle, options: Handle, error: *mut *mut c_char);
    fn rocksdb_compact_range(db: Handle, from: *const u8, from_len: usize, to: *const u8, to_len: usize);
    fn rocksdb_get_pinned(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_len: usize,
        error: *mut *mut c_char,
    ) -> Handle;
    fn rocksdb_batched_multi_get_cf(
        db: Handle,
        options: Handle,
        family: Handle,
        keys: usize,
        key_list: *const *const u8,
        key_lens: *const usize,
        values: *mut Handle,
        errors: *mut *mut c_char,
        is_sorted: bool,
    );
    fn rocksdb_pinnableslice_value(value: Handle, len: *mut usize) -> *const u8;
    fn rocksdb_pinnableslice_destroy(value: Handle);
    fn rocksdb_writebatch_create() -> Handle;
    fn rocksdb_writebatch_clear(batch: Handle);
    fn rocksdb_writebatch_put(batch: Handle, key: *const u8, key_len: usize, value: *const u8, value_len: usize);
    fn rocksdb_writebatch_destroy(batch: Handle);
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_destroy(options: Handle);
    fn rocksdb_options_set_create_if_missing(options: Handle, on: c_uchar);
    fn rocksdb_options_set_write_buffer_size(options: Handle, bytes: usize);
    fn rocksdb_options_set_disable_auto_compactions(options: Handle, on: c_int);
    fn rocksdb_options_set_compression(options: Handle, kind: c_int);
    fn rocksdb_options_set_block_based_table_factory(options: Handle, table: Handle);
    fn rocksdb_block_based_options_create() -> Handle;
    fn rocksdb_block_based_options_destroy(table: Handle);
    fn rocksdb_block_based_options_set_block_size(table: Handle, bytes: usize);
    fn rocksdb_block_based_options_set_block_cache(table: Handle, cache: Handle);
    fn rocksdb_block_based_options_set_filter_policy(table: Handle, policy: Handle);
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> Handle;
    fn rocksdb_filterpolicy_create_ribbon(bits_per_key: f64) -> Handle;
    fn rocksdb_cache_create_lru(bytes: usize) -> Handle;
    fn rocksdb_cache_destroy(cache: Handle);
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_readoptions_destroy(options: Handle);
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_writeoptions_destroy(options: Handle);
    fn rocksdb_flushoptions_create() -> Handle;
    fn rocksdb_flushoptions_destroy(options: Handle);
    fn rocksdb_free(memory: *mut c_void);
}

/// Returns RocksDB twice: with its Bloom filter, and with its ribbon filter.
pub fn contenders() -> Vec<Contender> {
    let contender = |name, open| Contender {
        name,
        version: env!("ROCKSDB_VERSION").into(),
        most_runs: usize::MAX,
        batched: true,
        open,
    };
    vec![contender("rocksdb", open_bloom), contender("rocksdb ribbon:10", open_ribbon)]
}

fn open_bloom(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
    // SAFETY: the call returns a new handle. `open` passes its ownership to the table options.
    open(dir, settings, unsafe { rocksdb_filterpolicy_create_bloom_full(BITS_PER_KEY.into()) })
}

fn open_ribbon(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
    // SAFETY: the call returns a new handle. `open` passes its ownership to the table options.
    open(dir, settings, unsafe { rocksdb_filterpolicy_create_ribbon(BITS_PER_KEY.into()) })
}

fn open(dir: &Path, settings: &Settings, filter: Handle) -> Outcome<Box<dyn Store>> {
    let name = path_text(dir)?;
    // SAFETY: each handle comes from its function of creation. The table options own the filter and
    // share the cache, and the store options share the table factory. So the handles of the table
    // options and the cache may be destroyed here. All other handles live until `drop`.
    unsafe {
        let mut store = RocksDb {
            db: null_mut(),
            family: null_mut(),
            options: rocksdb_options_create(),
            reads: rocksdb_readoptions_create(),
            writes: rocksdb_writeoptions_create(),
            flushes: rocksdb_flushoptions_create(),
            batch: rocksdb_writebatch_create(),
        };
        let cache = rocksdb_cache_create_lru(settings.cache_bytes);
        let table = rocksdb_block_based_options_create();
        rocksdb_block_based_options_set_block_size(table, BLOCK_BYTES);
        rocksdb_block_based_options_set_block_cache(table, cache);
        rocksdb_block_based_options_set_filter_policy(table, filter);
        rocksdb_options_set_block_based_table_factory(store.options, table);
        rocksdb_block_based_options_destroy(table);
        rocksdb_cache_destroy(cache);
        rocksdb_options_set_create_if_missing(store.options, 1);
        rocksdb_options_set_write_buffer_size(store.options, settings.write_buffer_bytes);
        rocksdb_options_set_disable_auto_compactions(store.options, c_int::from(!settings.compacts));
        rocksdb_options_set_compression(store.options, 0);
        let mut error = null_mut();
        store.db = rocksdb_open_column_families(
            store.options,
            name.as_ptr(),
            1,
            &c"default".as_ptr(),
            &raw const store.options,
            &raw mut store.family,
            &raw mut error,
        );
        done(error, rocksdb_free)?;
        Ok(Box::new(store))
    }
}

/// An open RocksDB and its option objects. `db` and `family` are null if the store could not be
/// opened.
struct RocksDb {
    db: Handle,
    /// The default column family. Batches need its handle.
    family: Handle,
    options: Handle,
    reads: Handle,
    writes: Handle,
    flushes: Handle,
    batch: Handle,
}

impl Engine for RocksDb {
    fn put(&mut self, pairs: &[(Key, Vec<u8>)]) -> Outcome<()> {
        // SAFETY: the handles are open, and the batch copies keys and values.
        unsafe {
            rocksdb_writebatch_clear(self.batch);
            for (key, value) in pairs {
                rocksdb_writebatch_put(self.batch, key.as_ptr(), key.len(), value.as_ptr(), value.len());
            }
            let mut error = null_mut();
            rocksdb_write(self.db, self.writes, self.batch, &raw mut error);
            done(error, rocksdb_free)
        }
    }

    fn flush(&mut self) -> Outcome<()> {
        let mut error = null_mut();
        // SAFETY: the handles are open.
        unsafe {
            rocksdb_flush(self.db, self.flushes, &raw mut error);
            done(error, rocksdb_free)
        }
    }

    fn compact(&mut self) -> Outcome<()> {
        // SAFETY: the handle is open. Null bounds stand for all keys.
        unsafe { rocksdb_compact_range(self.db, null(), 0, null(), 0) };
        Ok(())
    }

    #[inline]
    fn get<R>(&mut self, key: &Key, answer: impl FnOnce(Option<&[u8]>) -> R) -> Outcome<R> {
        let mut error = null_mut();
        // SAFETY: the handles are open, and `with_value` gets the value once.
        unsafe {
            let value = rocksdb_get_pinned(self.db, self.reads, key.as_ptr(), key.len(), &raw mut error);
            done(error, rocksdb_free)?;
            Ok(with_value(value, answer))
        }
    }

    fn multi_get(&mut self, keys: &[Key], mut answer: impl FnMut(usize, Option<&[u8]>)) -> Outcome<()> {
        let mut list = [null(); BATCH];
        list.iter_mut().zip(keys).for_each(|(entry, key)| *entry = key.as_ptr());
        let (mut values, mut errors) = ([null_mut(); BATCH], [null_mut(); BATCH]);
        let (count, lens) = (keys.len().min(BATCH), [size_of::<Key>(); BATCH]);
        // SAFETY: the handles are open, the lists have at least `count` entries, and `with_value`
        // gets each value at most once.
        unsafe {
            rocksdb_batched_multi_get_cf(
                self.db,
                self.reads,
                self.family,
                count,
                list.as_ptr(),
                lens.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
            for (i, (&value, error)) in values.iter().zip(errors).take(count).enumerate() {
                with_value(value, |found| answer(i, found));
                done(error, rocksdb_free)?;
            }
        }
        Ok(())
    }
}

/// Passes a value to `answer`, and frees it.
///
/// # Safety
/// `value` is null for no value, or the handle of a slice that is not yet freed.
unsafe fn with_value<R>(value: Handle, answer: impl FnOnce(Option<&[u8]>) -> R) -> R {
    if value.is_null() {
        return answer(None);
    }
    let mut len = 0;
    // SAFETY: the slice has `len` bytes, and is freed once, after its last use.
    unsafe {
        let bytes = rocksdb_pinnableslice_value(value, &raw mut len);
        let result = answer(Some(std::slice::from_raw_parts(bytes, len)));
        rocksdb_pinnableslice_destroy(value);
        result
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: nothing uses the handles after `drop`. The store is closed before the objects
        // that it refers to are destroyed.
        unsafe {
            if !self.db.is_null() {
                rocksdb_column_family_handle_destroy(self.family);
                rocksdb_close(self.db);
            }
            rocksdb_writebatch_destroy(self.batch);
            rocksdb_flushoptions_destroy(self.flushes);
            rocksdb_writeoptions_destroy(self.writes);
            rocksdb_readoptions_destroy(self.reads);
            rocksdb_options_destroy(self.options);
        }
    }
}
