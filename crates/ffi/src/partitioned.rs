//! Builds filters in partitions from keys in ascending order.
#![expect(unsafe_code, reason = "exported functions take pointers of the caller")]

use std::ffi::{c_char, c_void};

use filterblock::partitions::PartitionedBuilder;

use crate::border;
use crate::bytes::Bytes;
use crate::error::{ErrorInfo, Failure};
use crate::hasher::Hasher;
use crate::options::OptionsInfo;
use crate::raw;

/// Collects keys in ascending order, and encodes a filter that is split by key range. The functions
/// `filterblock_filter_open_...` open the filter like any other filter. Ask the filter by key: then
/// a query asks at most one partition. A query by hash asks partitions one by one until one answers
/// "maybe".
///
/// Only one thread at a time may use a builder. If a key cannot be added, finishing fails.
pub struct Partitioned {
    /// The builder. It is `None` after finishing and after a failure.
    builder: Option<PartitionedBuilder>,
    /// The failure of an added key or prefix, until a call returns it.
    failure: Option<Failure>,
}

/// The failure for a key or prefix that is NULL or exceeds the address space.
const NULL_ADDED: Failure = Failure::Added(
    "an added key or prefix is NULL, or its length exceeds the address space; make a new builder and add all keys \
     again",
);

impl Partitioned {
    /// Runs a step that adds to the builder. Keeps the first failure for the next call that can
    /// return an error.
    fn step(&mut self, step: impl FnOnce(&mut PartitionedBuilder) -> Result<(), Failure>) {
        let Some(builder) = &mut self.builder else { return };
        if let Err(failure) = border::or(Err(Failure::Panic), || step(builder)) {
            self.builder = None;
            self.failure = Some(failure);
        }
    }

    fn take(&mut self) -> Result<PartitionedBuilder, Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let finished = Failure::Invalid(
            "the builder was finished before, or an earlier call failed; make a new builder and add all keys again",
        );
        self.builder.take().ok_or(finished)
    }
}

/// Makes a builder without keys. A partition takes no further key once it has `partition_keys` keys
/// and prefixes; 0 counts as 1. `filterblock_builder_new` describes the other arguments and the
/// errors.
///
/// Returns a handle for `filterblock_partitioned_free`, or NULL and an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_partitioned_new(
    spec: *const c_char,
    hasher: Option<&Hasher>,
    options: Option<&OptionsInfo>,
    partition_keys: usize,
    error: *mut ErrorInfo,
) -> Option<Box<Partitioned>> {
    // SAFETY: the header asks for valid pointers.
    let made = unsafe {
        border::report(error, || {
            let options = OptionsInfo::read(options, spec)?;
            let Hasher(hasher) = hasher.ok_or(Failure::Null("hasher"))?;
            let builder = Some(PartitionedBuilder::new(&options, hasher, partition_keys)?);
            Ok(Box::new(Partitioned { builder, failure: None }))
        })
    };
    made.ok()
}

/// Frees a builder and its keys. NULL is fine. Freeing twice is undefined behaviour.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_partitioned_free(builder: Option<Box<Partitioned>>) {
    border::or((), || drop(builder));
}

/// Adds a key of `key_len` bytes. Keys must come in ascending order of their bytes, and may repeat.
///
/// If the key is below the last key, or if `key` is NULL and `key_len` is not 0, finishing will
/// fail.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_partitioned_add(
    builder: Option<&mut Partitioned>,
    key: *const c_void,
    key_len: usize,
) {
    let Some(builder) = builder else { return };
    // SAFETY: the header asks for valid pointers.
    let key = unsafe { raw::bytes(key, key_len) };
    builder.step(|builder| Ok(builder.add(builder.hasher().key(key.ok_or(NULL_ADDED)?))?));
}

/// Adds a prefix of the key that was added last.
///
/// Finishing will fail if this key does not begin with the prefix, or if the builder has no
/// `options.extractor`. It will also fail if `prefix` is NULL and `prefix_len` is not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_partitioned_add_prefix(
    builder: Option<&mut Partitioned>,
    prefix: *const c_void,
    prefix_len: usize,
) {
    let Some(builder) = builder else { return };
    // SAFETY: the header asks for valid pointers.
    let prefix = unsafe { raw::bytes(prefix, prefix_len) };
    builder.step(|builder| Ok(builder.add_prefix(builder.hasher().key(prefix.ok_or(NULL_ADDED)?))?));
}

/// Encodes all partitions and their index. The builder loses its keys, so a second call fails.
///
/// Returns a handle for `filterblock_bytes_free`, or NULL and an error. After an error, write the
/// SST without a filter. The errors are those of `filterblock_builder_finish`. `INVALID` can also
/// mean that keys were out of order, or that there are too many partitions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_partitioned_finish(
    builder: Option<&mut Partitioned>,
    error: *mut ErrorInfo,
) -> Option<Box<Bytes>> {
    // SAFETY: the header asks for valid pointers.
    let finished = unsafe {
        border::report(error, || {
            let builder = builder.ok_or(Failure::Null("builder"))?.take()?;
            Ok(Box::new(Bytes(builder.finish()?.bytes)))
        })
    };
    finished.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_with_a_bug_does_not_finish() {
        let hasher = crate::filterblock_hasher_new_xxh3(42).unwrap();
        // SAFETY: the pointers are NULL or valid.
        unsafe {
            let new = filterblock_partitioned_new(c"bloom:10".as_ptr(), Some(&hasher), None, 9, std::ptr::null_mut());
            let mut builder = new.unwrap();
            builder.step(|_| std::panic::resume_unwind(Box::new(())));
            filterblock_partitioned_add(Some(&mut builder), c"apple".as_ptr().cast(), 5);
            assert!(matches!(builder.failure, Some(Failure::Panic)));
            assert!(filterblock_partitioned_finish(Some(&mut builder), std::ptr::null_mut()).is_none());
        }
    }
}
