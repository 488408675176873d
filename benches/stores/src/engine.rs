//! The interface of a measured store.

use std::path::Path;

use crate::keys::Key;

/// Settings that are the same for every store.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Size of the block cache.
    pub cache_bytes: usize,
    /// Size of a memtable.
    pub write_buffer_bytes: usize,
    /// Whether the store compacts by itself.
    pub compacts: bool,
}

/// Size of a data block.
pub const BLOCK_BYTES: usize = 4096;
/// Bits per key of the filters of other stores.
pub const BITS_PER_KEY: u8 = 10;

/// An error as text. Engines have different types of errors.
pub type Outcome<T> = Result<T, String>;

/// An open store.
pub trait Engine {
    /// Writes pairs of key and value in one batch or transaction, without waiting for the disk.
    ///
    /// # Errors
    /// Returns the error of the engine, as do all functions of this trait.
    fn put(&mut self, pairs: &[(Key, Vec<u8>)]) -> Outcome<()>;

    /// Writes the memtable to a file. Does nothing in an engine that does so when it is reopened,
    /// or that has no memtable.
    fn flush(&mut self) -> Outcome<()>;

    /// Compacts everything into one run.
    fn compact(&mut self) -> Outcome<()>;

    /// Begins the read transaction of the following gets, if the engine has such transactions.
    fn begin_reads(&mut self) -> Outcome<()> {
        Ok(())
    }

    /// Passes the value of `key` to `answer`, in the form in which the engine returns it.
    fn get<R>(&mut self, key: &Key, answer: impl FnOnce(Option<&[u8]>) -> R) -> Outcome<R>;

    /// Passes the values of several keys to `answer` with their numbers. Only engines with
    /// [`Contender::batched`] are asked.
    fn multi_get(&mut self, _keys: &[Key], _answer: impl FnMut(usize, Option<&[u8]>)) -> Outcome<()> {
        Err("this engine has no batches".into())
    }

    /// Closes the store in an orderly way.
    fn close(self) -> Outcome<()>;
}

/// A store that is measured.
pub struct Contender {
    /// A unique name.
    pub name: &'static str,
    /// The version of its crate or library.
    pub version: String,
    /// The maximum number of runs that the store keeps apart, or 0 if the benchmark cannot control
    /// the number of runs.
    pub most_runs: usize,
    /// Whether it gets many keys in one call.
    pub batched: bool,
    /// Opens or creates a store.
    pub open: fn(&Path, &Settings) -> Outcome<Box<dyn crate::asking::Store>>,
}

/// Makes the text of an error.
pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
