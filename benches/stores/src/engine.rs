//! Defines the interface of a measured store.

use std::path::Path;

use filterblock_testkit::measure::keys::Key;

use crate::questions::Question;

/// Settings that are the same for every store.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The size of the block cache.
    pub cache_bytes: usize,
    /// The size of a memtable.
    pub write_buffer_bytes: usize,
    /// Whether the store compacts by itself.
    pub compacts: bool,
}

/// The size of a data block.
pub const BLOCK_BYTES: usize = 4096;
/// The setting of bits per key for the filters of all stores except filterblock-store.
pub const BITS_PER_KEY: u8 = 10;
/// The number of keys of a batch.
pub const BATCH: usize = 32;

/// A result whose error is a text, because engines have different types of errors.
pub type Outcome<T> = Result<T, String>;

pub trait Engine: Sized {
    /// Writes pairs of key and value in one batch or transaction, without waiting for the disk.
    fn put(&mut self, pairs: &[(Key, Vec<u8>)]) -> Outcome<()>;

    /// Writes the memtable to a file. Does nothing in an engine that writes its memtable when it is
    /// reopened. An engine without a memtable only makes earlier writes durable.
    fn flush(&mut self) -> Outcome<()> {
        Ok(())
    }

    /// Compacts the whole store. An engine with runs then has one run.
    fn compact(&mut self) -> Outcome<()>;

    /// Begins the read transaction of the following gets, if the engine has read transactions.
    fn begin_reads(&mut self) -> Outcome<()> {
        Ok(())
    }

    /// Gets the value of `key`, and calls `answer` with it, or with `None` if the store lacks the
    /// key. Returns the result of `answer`.
    fn get<R>(&mut self, key: &Key, answer: impl FnOnce(Option<&[u8]>) -> R) -> Outcome<R>;

    /// Gets several keys with one call. Calls `answer` for each key with its position in `keys` and
    /// its value, or `None`.
    fn multi_get(&mut self, _keys: &[Key], _answer: impl FnMut(usize, Option<&[u8]>)) -> Outcome<()> {
        Err("this engine has no batches".into())
    }

    /// Closes the store, if dropping it does not suffice.
    fn close(self) -> Outcome<()> {
        Ok(())
    }
}

/// An open store of any engine. Each loop of gets compares every answer with the expected one, and
/// returns an error if an answer is wrong.
pub trait Store {
    /// Writes pairs of key and value.
    fn put(&mut self, pairs: &[(Key, Vec<u8>)]) -> Outcome<()>;

    /// Writes the memtable to a file, as [`Engine::flush`] does.
    fn flush(&mut self) -> Outcome<()>;

    fn compact(&mut self) -> Outcome<()>;

    /// Gets every `step`-th of the keys 0 to `n` - 1, and as many absent keys. Compares whole
    /// values, and is not timed.
    fn check(&mut self, n: u64, step: usize, value_len: u16) -> Outcome<()>;

    /// Measures gets of the keys one by one. Returns the total CPU time of the thread in ns.
    fn ask(&mut self, asked: &[Question]) -> Outcome<f64>;

    /// Measures gets of the keys one by one. Appends the wall time of each get in ns to `times`. A
    /// time includes one reading of the clock.
    fn ask_each(&mut self, asked: &[Question], times: &mut Vec<u32>) -> Outcome<()>;

    /// Measures gets of the keys in batches of [`BATCH`]. Leaves out the keys after the last whole
    /// batch. Returns the total CPU time of the thread in ns.
    fn ask_batches(&mut self, asked: &[Question]) -> Outcome<f64>;

    fn close(self: Box<Self>) -> Outcome<()>;
}

pub struct Contender {
    pub name: &'static str,
    pub version: String,
    /// The maximum number of runs that the store keeps apart, or 0 if the benchmark cannot control
    /// the number of runs.
    pub most_runs: usize,
    /// Whether the engine can get many keys with one call.
    pub batched: bool,
    /// Opens or creates a store.
    pub open: fn(&Path, &Settings) -> Outcome<Box<dyn Store>>,
}

pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
