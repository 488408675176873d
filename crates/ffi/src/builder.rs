//! Builds filters from keys in any order.
#![expect(unsafe_code, reason = "exported functions take pointers of the caller")]

use std::ffi::{c_char, c_void};
use std::num::NonZeroUsize;

use filterblock::{FilterBuilder, FilterOptions, FilterSpec, KeyHash, KeyHasher, WholeKeys};

use crate::border;
use crate::bytes::Bytes;
use crate::error::{Code, ErrorInfo, Failure};
use crate::hasher::{FILTERBLOCK_NO_HASH, Hasher};
use crate::hashes::{Hashes, Keys};
use crate::raw;

/// Collects keys, and encodes a filter of these keys.
///
/// Only one thread at a time may use a builder.
///
/// If a key cannot be added, finishing fails, because a filter of the other keys would deny that
/// key. So the functions that add keys return no error.
pub struct Builder {
    builder: FilterBuilder,
    /// The settings of the builder.
    options: FilterOptions,
    has_prefixes: bool,
    /// A reason why finishing must fail. `builder` may know further reasons.
    lost: Option<Lost>,
}

/// The reason why a builder must not finish.
#[derive(Clone, Copy)]
pub(crate) enum Lost {
    NullKey,
    NoHash,
    NoPrefixes,
    LatePrefixes,
    Finished,
    Panic,
}

impl Lost {
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::NullKey => Failure::Added(
                "an added key, prefix or array is NULL, or its length exceeds the address space; clear the builder and \
                 add all keys again",
            ),
            Self::NoHash => Failure::Added(
                "an added hash is FILTERBLOCK_NO_HASH, so its key is unknown; clear the builder and add all keys again",
            ),
            Self::NoPrefixes => Failure::Invalid(
                "a prefix was added to a filter without prefixes; clear the builder, call \
                 filterblock_builder_set_prefixes, and add all keys again",
            ),
            Self::LatePrefixes => Failure::Invalid(
                "prefixes were declared after a key was added; clear the builder, call \
                 filterblock_builder_set_prefixes, and add all keys again",
            ),
            Self::Finished => {
                Failure::Invalid("the builder was finished before; clear the builder and add all keys again")
            }
            Self::Panic => Failure::Panic,
        }
    }
}

impl Builder {
    fn new(spec: FilterSpec, hasher: &KeyHasher) -> Result<Self, Failure> {
        let options = FilterOptions::new(spec);
        Ok(Self { builder: options.builder(hasher)?, options, has_prefixes: false, lost: None })
    }

    /// Changes the settings. If they are not valid or come too late, the builder does not change.
    fn set(&mut self, set: impl FnOnce(FilterOptions) -> FilterOptions) -> Result<(), Failure> {
        if !self.builder.is_empty() {
            let reason = "settings must come before the first key; clear the builder, change the settings, and add all \
                          keys again";
            return Err(Failure::Invalid(reason));
        }
        let options = set(self.options.clone());
        self.builder = options.builder(self.builder.hasher())?;
        self.options = options;
        Ok(())
    }

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
        if let Some(lost) = self.lost.replace(Lost::Finished) {
            return Err(lost.failure());
        }
        let fresh = self.fresh()?;
        let builder = std::mem::replace(&mut self.builder, fresh);
        Ok(Box::new(Bytes(finish(builder)?)))
    }
}

fn add_hashes(builder: &mut FilterBuilder, hashes: &[KeyHash]) -> Result<(), Lost> {
    hashes.iter().for_each(|&hash| builder.add_hash(hash));
    if hashes.iter().any(|hash| hash.raw() == FILTERBLOCK_NO_HASH) { Err(Lost::NoHash) } else { Ok(()) }
}

/// Makes a builder without keys.
///
/// `spec` is text such as `"blocked-bloom:10"` (bits per key) or `"bumped-ribbon:fpr=0.01"`. The
/// builder copies the hasher. Unless you change the settings, the filter has no table id and no
/// prefixes, and finishing checks the filter.
///
/// Returns a handle for `filterblock_builder_free`, or NULL and an error. `INVALID` means that
/// `spec` is not a specification.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_builder_new(
    spec: *const c_char,
    hasher: Option<&Hasher>,
    error: *mut ErrorInfo,
) -> Option<Box<Builder>> {
    // SAFETY: the header asks for valid pointers.
    let made = unsafe {
        border::report(error, || {
            let spec = raw::text(spec).ok_or(Failure::Text("spec"))?.parse()?;
            let Hasher(hasher) = hasher.ok_or(Failure::Null("hasher"))?;
            Ok(Box::new(Builder::new(spec, hasher)?))
        })
    };
    made.ok()
}

/// Frees a builder and its keys. NULL is fine. Freeing twice is undefined behaviour.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_builder_free(builder: Option<Box<Builder>>) {
    border::or((), || drop(builder));
}

/// Binds the filter to the SST with this id of 16 bytes. An id of zeros stands for no SST. After the
/// first key, the call returns `INVALID` and changes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_builder_set_table_id(
    builder: Option<&mut Builder>,
    table_id: *const c_void,
    error: *mut ErrorInfo,
) -> Code {
    // SAFETY: the header asks for valid pointers.
    border::code(unsafe {
        border::report(error, || {
            let builder = builder.ok_or(Failure::Null("builder"))?;
            let id = raw::bytes(table_id, 16).and_then(|id| id.first_chunk()).ok_or(Failure::Null("table_id"))?;
            builder.set(|options| options.table_id(*id))
        })
    })
}

/// Declares that prefixes will be added. `whole_keys_too` says whether whole keys will be added,
/// too. `extractor` is the name of the function that takes prefixes from keys: 1 to 100 bytes of
/// UTF-8, such as `"first-4"`. Change the name whenever the function changes.
///
/// Call this function before you add the first key or prefix. A later call returns `INVALID`, and
/// finishing will fail.
///
/// Also returns `INVALID` if the name is empty or too long, or if the spec of the builder describes
/// a range filter. Returns `INVALID`, too, if the builder has a range filter and `whole_keys_too`
/// is `false`. In these cases the builder does not change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_builder_set_prefixes(
    builder: Option<&mut Builder>,
    extractor: *const c_char,
    whole_keys_too: bool,
    error: *mut ErrorInfo,
) -> Code {
    // SAFETY: the header asks for valid pointers.
    border::code(unsafe {
        border::report(error, || {
            let builder = builder.ok_or(Failure::Null("builder"))?;
            let extractor = raw::text(extractor).ok_or(Failure::Text("extractor"))?;
            let whole_keys = if whole_keys_too { WholeKeys::Too } else { WholeKeys::Not };
            // A caller may ignore the error, and ask the filter for prefixes that nobody added.
            if !builder.builder.is_empty() {
                builder.lost = builder.lost.or(Some(Lost::LatePrefixes));
            }
            builder.set(|options| options.prefixes_by_host(extractor, whole_keys))?;
            builder.has_prefixes = true;
            Ok(())
        })
    })
}

/// Adds a range filter of the same keys, for `filterblock_filter_may_contain_range`. `spec`
/// describes the range filter, such as `"grafite:fpr=0.01"`.
///
/// Call this function before you add the first key. Add keys by their bytes, with
/// `filterblock_builder_add` or `filterblock_builder_add_keys`.
///
/// Returns `INVALID` in these cases, and leaves the builder as it was:
///
/// - `spec` does not describe a range filter, or the builder's own spec describes one.
/// - The builder has prefixes without whole keys.
/// - A key or prefix was added before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_builder_set_ranges(
    builder: Option<&mut Builder>,
    spec: *const c_char,
    error: *mut ErrorInfo,
) -> Code {
    // SAFETY: the header asks for valid pointers.
    border::code(unsafe {
        border::report(error, || {
            let builder = builder.ok_or(Failure::Null("builder"))?;
            let spec: FilterSpec = raw::text(spec).ok_or(Failure::Text("spec"))?.parse()?;
            builder.set(|options| options.ranges(spec))
        })
    })
}

/// Sets the number of threads that build the filter; 0 counts as 1. The number does not change the
/// bytes of the filter. Only a bumped ribbon without `:compact` uses more than one thread, and only
/// if it has many keys. After the first key, the call changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_builder_set_threads(builder: Option<&mut Builder>, threads: usize) {
    let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
    set_quietly(builder, |options| options.threads(threads));
}

/// Sets whether finishing asks the new filter for each key; the default is `true`. The check can
/// detect broken memory and bugs. After the first key, the call changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_builder_set_self_check(builder: Option<&mut Builder>, is_on: bool) {
    set_quietly(builder, |options| options.self_check(is_on));
}

fn set_quietly(builder: Option<&mut Builder>, set: impl FnOnce(FilterOptions) -> FilterOptions) {
    let Some(builder) = builder else { return };
    // Only a setting after the first key fails, and that one changes nothing.
    let _ = border::or(Err(Failure::Panic), || builder.set(set));
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
/// If the hash is `FILTERBLOCK_NO_HASH`, or if the builder has a range filter, finishing will fail.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_builder_add_hash(builder: Option<&mut Builder>, hash: u64) {
    let Some(builder) = builder else { return };
    builder.add(|builder| add_hashes(builder, &[KeyHash::from_raw(hash)]));
}

/// Adds `count` keys by their hashes, which must come from a hasher that equals the builder's
/// hasher.
///
/// If `hashes` is NULL and `count` is not 0, or if a hash is `FILTERBLOCK_NO_HASH`, finishing will
/// fail. It will also fail if the builder has a range filter and `count` is not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_builder_add_hashes(
    builder: Option<&mut Builder>,
    hashes: *const u64,
    count: usize,
) {
    let Some(builder) = builder else { return };
    // SAFETY: the header asks for valid pointers.
    let hashes = unsafe { Hashes::new(hashes, count) };
    builder.add(|builder| {
        builder.reserve(count);
        hashes.ok_or(Lost::NullKey)?.try_for_each(|_, hashes| add_hashes(builder, hashes))
    });
}

/// Adds `count` keys: `keys[i]` has `key_lens[i]` bytes.
///
/// If an array is NULL and `count` is not 0, or if a key is NULL and its length is not 0, finishing
/// will fail.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_builder_add_keys(
    builder: Option<&mut Builder>,
    keys: *const *const c_void,
    key_lens: *const usize,
    count: usize,
) {
    let Some(builder) = builder else { return };
    // SAFETY: the header asks for valid pointers.
    let keys = unsafe { Keys::new(keys, key_lens, count) };
    builder.add(|builder| {
        builder.reserve(count);
        // The keys are not hashed here, because a range filter needs their bytes.
        keys.ok_or(Lost::NullKey)?.try_for_each(|_, keys| {
            keys.iter().try_for_each(|key| key.map(|key| builder.add(builder.hasher().key(key))).ok_or(Lost::NullKey))
        })
    });
}

/// Adds a prefix of `prefix_len` bytes. Call `filterblock_builder_set_prefixes` before you add the
/// first key or prefix.
///
/// If prefixes were not declared, or if `prefix` is NULL and `prefix_len` is not 0, finishing will
/// fail. With a range filter, finishing will also fail if the key that was added last does not
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
/// - `NULL_ARGUMENT`: `builder` was NULL, or an added key, prefix, hash or array was not valid.
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
