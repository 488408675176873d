//! Builds filters from keys in any order.
#![expect(unsafe_code, reason = "exported functions take pointers of the caller")]

use std::ffi::{c_char, c_void};

use filterblock::{FilterBuilder, FilterOptions, KeyHash};

use crate::border;
use crate::bytes::Bytes;
use crate::error::{ErrorInfo, Failure};
use crate::hasher::{FILTERBLOCK_NO_HASH, Hasher};
use crate::options::OptionsInfo;
use crate::raw;

/// Collects keys, and encodes a filter of these keys.
///
/// Only one thread at a time may use a builder.
///
/// If a key cannot be added, finishing fails, because a filter of the other keys would deny that
/// key. So the functions that add keys return no error.
pub struct Builder {
    builder: FilterBuilder,
    options: FilterOptions,
    has_prefixes: bool,
    /// A reason why finishing must fail. `builder` may know further reasons.
    lost: Option<Lost>,
}

#[derive(Clone, Copy)]
pub(crate) enum Lost {
    NullKey,
    NoHash,
    NoPrefixes,
    Finished,
    Panic,
}

impl Lost {
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::NullKey => Failure::Added(
                "an added key or prefix is NULL, or its length exceeds the address space; clear the builder and \
                 add all keys again",
            ),
            Self::NoHash => Failure::Added(
                "an added hash is FILTERBLOCK_NO_HASH, so its key is unknown; clear the builder and add all keys again",
            ),
            Self::NoPrefixes => Failure::Invalid(
                "a prefix was added to a filter without prefixes; make a builder with options.extractor, and add all \
                 keys again",
            ),
            Self::Finished => {
                Failure::Invalid("the builder was finished before; clear the builder and add all keys again")
            }
            Self::Panic => Failure::Panic,
        }
    }
}

impl Builder {
    /// Returns a builder with the same settings and without keys.
    fn fresh(&self) -> Result<FilterBuilder, Failure> {
        Ok(self.options.builder(self.builder.hasher())?)
    }

    #[inline(always)]
    fn add(&mut self, add: impl FnOnce(&mut FilterBuilder) -> Result<(), Lost>) {
        if let Err(lost) = border::or(Err(Lost::Panic), || add(&mut self.builder)) {
            self.lost = self.lost.or(Some(lost));
        }
    }

    fn finish(
        &mut self,
        finish: impl FnOnce(FilterBuilder) -> filterblock::Result<Vec<u8>>,
    ) -> Result<Box<Bytes>, Failure> {
        // The keys are gone after this call. A second filter would deny them.
        let lost = self.lost.replace(Lost::Finished);
        let fresh = self.fresh()?;
        let builder = std::mem::replace(&mut self.builder, fresh);
        if let Some(lost) = lost {
            return Err(lost.failure());
        }
        Ok(Box::new(Bytes(finish(builder)?)))
    }
}

/// Makes a builder without keys.
///
/// `spec` is text such as `"blocked-bloom:10"` (bits per key) or `"bumped-ribbon:fpr=0.01"`. The
/// builder copies the hasher and the options. NULL stands for the default options: the filter has no
/// table id, no prefixes and no ranges, and finishing checks the filter.
///
/// Returns a handle for `filterblock_builder_free`, or NULL and an error. `INVALID` means that
/// `spec` or `options.ranges` is not a specification, or that no filter can have these options: for
/// example, prefixes or ranges beside the spec of a range filter, or ranges without whole keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_builder_new(
    spec: *const c_char,
    hasher: Option<&Hasher>,
    options: Option<&OptionsInfo>,
    error: *mut ErrorInfo,
) -> Option<Box<Builder>> {
    // SAFETY: the header asks for valid pointers.
    let made = unsafe {
        border::report(error, || {
            let has_prefixes = options.is_some_and(|options| !options.extractor.is_null());
            let options = OptionsInfo::read(options, spec)?;
            let Hasher(hasher) = hasher.ok_or(Failure::Null("hasher"))?;
            Ok(Box::new(Builder { builder: options.builder(hasher)?, options, has_prefixes, lost: None }))
        })
    };
    made.ok()
}

/// Frees a builder and its keys. NULL is fine. Freeing twice is undefined behaviour.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_builder_free(builder: Option<Box<Builder>>) {
    border::or((), || drop(builder));
}

/// Reserves memory for `num_keys` more keys: 8 bytes each in a filter, and about 8 bytes each in a
/// range filter. If there is not enough memory, the call reserves less or nothing.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_builder_reserve(builder: Option<&mut Builder>, num_keys: usize) {
    let Some(builder) = builder else { return };
    border::or((), || builder.builder.reserve(num_keys));
}

/// Adds a key of `key_len` bytes. Keys may come in any order and more than once.
///
/// If `key` is NULL and `key_len` is not 0, finishing will fail.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_builder_add(builder: Option<&mut Builder>, key: *const c_void, key_len: usize) {
    let Some(builder) = builder else { return };
    // SAFETY: the header asks for valid pointers.
    let key = unsafe { raw::bytes(key, key_len) };
    builder.add(|builder| key.map(|key| builder.add(builder.hasher().key(key))).ok_or(Lost::NullKey));
}

/// Adds a key by its hash, which must come from a hasher that equals the builder's hasher.
///
/// With an extractor, it can be the hash of a prefix, and with `FILTERBLOCK_OPTION_PREFIXES_ONLY` it
/// must be one.
///
/// If the hash is `FILTERBLOCK_NO_HASH`, or if the builder has a range filter, finishing will fail.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_builder_add_hash(builder: Option<&mut Builder>, hash: u64) {
    let Some(builder) = builder else { return };
    builder.add(|builder| match hash {
        FILTERBLOCK_NO_HASH => Err(Lost::NoHash),
        _ => {
            builder.add_hash(KeyHash::from_raw(hash));
            Ok(())
        }
    });
}

/// Adds a prefix of `prefix_len` bytes.
///
/// If the builder has no `options.extractor`, or if `prefix` is NULL and `prefix_len` is not 0,
/// finishing will fail. With a range filter, finishing will also fail if the key that was added last does not
/// begin with the prefix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_builder_add_prefix(
    builder: Option<&mut Builder>,
    prefix: *const c_void,
    prefix_len: usize,
) {
    let Some(builder) = builder else { return };
    let has_prefixes = builder.has_prefixes;
    // SAFETY: the header asks for valid pointers.
    let prefix = unsafe { raw::bytes(prefix, prefix_len) };
    builder.add(|builder| match prefix {
        Some(_) if !has_prefixes => Err(Lost::NoPrefixes),
        Some(prefix) => {
            builder.add_prefix(builder.hasher().key(prefix));
            Ok(())
        }
        None => Err(Lost::NullKey),
    });
}

/// Returns the number of keys and prefixes added so far, or 0 if `builder` is NULL. If the same key
/// or prefix is added several times in a row, it counts once.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_builder_len(builder: Option<&Builder>) -> usize {
    builder.map_or(0, |builder| builder.builder.len())
}

/// Removes all keys, and every reason for which finishing would fail. Keeps the settings. Call this
/// function to build another filter with the same builder.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_builder_clear(builder: Option<&mut Builder>) {
    let Some(builder) = builder else { return };
    let cleared = border::or(Some(Lost::Panic), || match builder.fresh() {
        Ok(fresh) => {
            builder.builder = fresh;
            None
        }
        Err(_) => Some(Lost::Panic),
    });
    builder.lost = cleared;
}

/// Encodes the filter block. Store the bytes in the SST.
///
/// The builder loses its keys, even if the call fails. A second call fails until you call
/// `filterblock_builder_clear`.
///
/// Returns a handle for `filterblock_bytes_free`, or NULL and an error. After an error, write the
/// SST without a filter. The errors are:
///
/// - `NULL_ARGUMENT`: `builder` was NULL, or an added key, prefix or hash was not valid.
/// - `INVALID`: no filter of these keys is possible, the keys or the filter do not fit in memory,
///   or an earlier call with this builder was not allowed. The message says which.
/// - `SELF_CHECK_FAILED`: the new filter denied at least one of its keys.
/// - `PANIC`: the library panicked in this call or in an earlier call with this builder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_builder_finish(
    builder: Option<&mut Builder>,
    error: *mut ErrorInfo,
) -> Option<Box<Bytes>> {
    // SAFETY: the header asks for valid pointers.
    unsafe { finish_with(builder, |builder| Ok(builder.finish()?.bytes), error) }
}

/// Encodes the filter in the compact form, for stores that keep many small filters. To ask the
/// filter, pass an equal hasher to `filterblock_compact_ask`.
///
/// The compact form has a checksum, but no table id and no prefixes. Only the kinds `bloom`,
/// `blocked-bloom` and `always-maybe` have a compact form. Fails with `INVALID` for another kind,
/// and for a builder with prefixes or with a range filter. Otherwise this function works like
/// `filterblock_builder_finish`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_builder_finish_compact(
    builder: Option<&mut Builder>,
    error: *mut ErrorInfo,
) -> Option<Box<Bytes>> {
    // SAFETY: the header asks for valid pointers.
    unsafe { finish_with(builder, FilterBuilder::finish_compact, error) }
}

/// # Safety
/// The pointer is NULL or valid.
unsafe fn finish_with(
    builder: Option<&mut Builder>,
    finish: fn(FilterBuilder) -> filterblock::Result<Vec<u8>>,
    error: *mut ErrorInfo,
) -> Option<Box<Bytes>> {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { border::report(error, || builder.ok_or(Failure::Null("builder"))?.finish(finish)) }.ok()
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use filterblock::Error;

    use super::*;
    use crate::error::Code;

    /// A builder with a bug gives an error and no filter, and is of use again after
    /// `filterblock_builder_clear`.
    #[test]
    fn a_builder_with_a_bug_gives_an_error_and_no_filter() {
        let hasher = crate::filterblock_hasher_new_xxh3(42).unwrap();
        // SAFETY: the pointers are valid.
        let builder = || unsafe {
            let mut builder = filterblock_builder_new(c"bloom:10".as_ptr(), Some(&hasher), None, std::ptr::null_mut());
            filterblock_builder_add(builder.as_deref_mut(), c"apple".as_ptr().cast(), 5);
            builder.unwrap()
        };
        let finish = |builder: &mut Builder, finish: fn(FilterBuilder) -> filterblock::Result<Vec<u8>>| {
            let mut error = MaybeUninit::<ErrorInfo>::uninit();
            // SAFETY: the pointers are valid, and `finish_with` writes the error.
            unsafe {
                let is_built = finish_with(Some(builder), finish, error.as_mut_ptr()).is_some();
                (is_built, error.assume_init().code)
            }
        };
        let sound = |builder: FilterBuilder| Ok(builder.finish()?.bytes);
        type Finish = fn(FilterBuilder) -> filterblock::Result<Vec<u8>>;
        let spoilt: [(Finish, Code); 2] = [
            (|_| std::panic::resume_unwind(Box::new(())), Code::Panic),
            (|_| Err(Error::SelfCheckFailed { denied: 1 }), Code::SelfCheckFailed),
        ];
        for (spoilt, code) in spoilt {
            let mut builder = builder();
            assert_eq!(finish(&mut builder, spoilt), (false, code));
            assert_eq!(finish(&mut builder, sound), (false, Code::Invalid));
        }
        let mut builder = builder();
        builder.add(|_| std::panic::resume_unwind(Box::new(())));
        assert_eq!(finish(&mut builder, sound), (false, Code::Panic));
        filterblock_builder_clear(Some(&mut builder));
        assert_eq!(finish(&mut builder, sound), (true, Code::Ok));
    }
}
