//! Asks filters whose bytes the caller passes to every query: verified blocks, and filters in the
//! compact form.
#![expect(unsafe_code, reason = "exported functions take pointers of the caller")]

use std::ffi::{c_char, c_void};

use filterblock::{KeyHash, VerifiedFilter, compact};

use crate::answer::AnswerCode;
use crate::border;
use crate::error::{Code, ErrorInfo, Failure};
use crate::expected::ExpectedInfo;
use crate::hasher::{FILTERBLOCK_NO_HASH, Hasher};
use crate::raw;

/// Opens a filter and asks it. Returns [`AnswerCode::Unfiltered`] if the filter cannot be opened.
///
/// # Safety
/// The pointers are NULL or valid.
#[inline(always)]
unsafe fn ask(
    data: (*const c_void, usize),
    expected: Option<&ExpectedInfo>,
    ask: impl FnOnce(&VerifiedFilter<'_>) -> bool,
) -> AnswerCode {
    border::or(AnswerCode::Unfiltered, || {
        // SAFETY: the caller upholds the contract of this function.
        match unsafe { open(data, expected) } {
            Ok(filter) if ask(&filter) => AnswerCode::Maybe,
            Ok(_) => AnswerCode::No,
            Err(_) => AnswerCode::Unfiltered,
        }
    })
}

/// Opens a filter of verified bytes.
///
/// # Safety
/// The pointers are NULL or valid during `'a`.
#[inline(always)]
unsafe fn open<'a>(
    (data, data_len): (*const c_void, usize),
    expected: Option<&ExpectedInfo>,
) -> Result<VerifiedFilter<'a>, Failure> {
    // SAFETY: the caller upholds the contract of this function.
    let (bytes, expected) = unsafe {
        let bytes = raw::bytes(data, data_len).ok_or(Failure::Bytes("data"))?;
        (bytes, expected.ok_or(Failure::Null("expected"))?.read()?)
    };
    Ok(VerifiedFilter::open(bytes, &expected)?)
}

/// Asks a filter for a key. The caller passes the bytes of the filter to every query, and must have
/// verified them by a checksum of its own. **This function does not detect a damaged page, and a
/// damaged page can deny present keys.** The bytes may have any alignment. The time does not depend
/// on the length of the filter.
///
/// Pass `FILTERBLOCK_EXPECT_ANY_TABLE` if the caller does not know which SST the bytes belong to.
///
/// Returns `FILTERBLOCK_ANSWER_UNFILTERED` after an error, and if the filter has partitions or its
/// trailer is not as expected. `filterblock_verified_check` returns the reason, unless the key is
/// the cause.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_verified_ask(
    data: *const c_void,
    data_len: usize,
    expected: Option<&ExpectedInfo>,
    key: *const c_void,
    key_len: usize,
) -> AnswerCode {
    // SAFETY: the header asks for valid pointers.
    unsafe {
        let Some(key) = raw::bytes(key, key_len) else { return AnswerCode::Unfiltered };
        ask((data, data_len), expected, |filter| filter.may_contain(filter.hasher().key(key)))
    }
}

/// Answers like `filterblock_verified_ask` for a key with this hash. Returns
/// `FILTERBLOCK_ANSWER_UNFILTERED` for `FILTERBLOCK_NO_HASH`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_verified_ask_hash(
    data: *const c_void,
    data_len: usize,
    expected: Option<&ExpectedInfo>,
    hash: u64,
) -> AnswerCode {
    if hash == FILTERBLOCK_NO_HASH {
        return AnswerCode::Unfiltered;
    }
    // SAFETY: the header asks for valid pointers.
    unsafe { ask((data, data_len), expected, |filter| filter.may_contain_hash(KeyHash::from_raw(hash))) }
}

/// Asks for a prefix: see `filterblock_filter_may_contain_prefix`. The caller has verified the
/// bytes: see `filterblock_verified_ask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_verified_ask_prefix(
    data: *const c_void,
    data_len: usize,
    expected: Option<&ExpectedInfo>,
    extractor: *const c_char,
    prefix: *const c_void,
    prefix_len: usize,
) -> AnswerCode {
    // SAFETY: the header asks for valid pointers.
    unsafe {
        let (extractor, prefix) = (raw::text(extractor), raw::bytes(prefix, prefix_len));
        let (Some(extractor), Some(prefix)) = (extractor, prefix) else { return AnswerCode::Unfiltered };
        ask((data, data_len), expected, |filter| filter.may_contain_prefix(extractor, filter.hasher().key(prefix)))
    }
}

/// Asks for a range: see `filterblock_filter_may_contain_range`. The caller has verified the bytes:
/// see `filterblock_verified_ask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_verified_ask_range(
    data: *const c_void,
    data_len: usize,
    expected: Option<&ExpectedInfo>,
    lower: *const c_void,
    lower_len: usize,
    upper: *const c_void,
    upper_len: usize,
) -> AnswerCode {
    // SAFETY: the header asks for valid pointers.
    unsafe {
        let range = raw::range((lower, lower_len), (upper, upper_len));
        let Some((lower, upper)) = range else { return AnswerCode::Unfiltered };
        ask((data, data_len), expected, |filter| filter.may_contain_range(lower, upper))
    }
}

/// Returns `FILTERBLOCK_CODE_OK` if `filterblock_verified_ask` can ask the filter. Otherwise
/// returns the code of the reason. Does not verify pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_verified_check(
    data: *const c_void,
    data_len: usize,
    expected: Option<&ExpectedInfo>,
    error: *mut ErrorInfo,
) -> Code {
    // SAFETY: the header asks for valid pointers.
    border::code(unsafe { border::report(error, || open((data, data_len), expected).map(|_| ())) })
}

/// Asks a filter in the compact form (`filterblock_builder_finish_compact`) for a key. Verifies the
/// checksum of the whole filter first. The bytes may have any alignment.
///
/// Returns `FILTERBLOCK_ANSWER_UNFILTERED` after an error, for example if the bytes are damaged or
/// have keys of another hasher. `filterblock_compact_check` returns the reason, unless the key is
/// the cause.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_compact_ask(
    data: *const c_void,
    data_len: usize,
    hasher: Option<&Hasher>,
    key: *const c_void,
    key_len: usize,
) -> AnswerCode {
    // SAFETY: the header asks for valid pointers.
    let (bytes, key) = unsafe { (raw::bytes(data, data_len), raw::bytes(key, key_len)) };
    let (Some(bytes), Some(Hasher(hasher)), Some(key)) = (bytes, hasher, key) else { return AnswerCode::Unfiltered };
    border::or(AnswerCode::Unfiltered, || compact::ask(bytes, hasher, hasher.of(key)).into())
}

/// Answers like `filterblock_compact_ask` for a key with this hash. Returns
/// `FILTERBLOCK_ANSWER_UNFILTERED` for `FILTERBLOCK_NO_HASH`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_compact_ask_hash(
    data: *const c_void,
    data_len: usize,
    hasher: Option<&Hasher>,
    hash: u64,
) -> AnswerCode {
    // SAFETY: the header asks for valid pointers.
    let bytes = unsafe { raw::bytes(data, data_len) };
    let (Some(bytes), Some(Hasher(hasher))) = (bytes, hasher) else { return AnswerCode::Unfiltered };
    if hash == FILTERBLOCK_NO_HASH {
        return AnswerCode::Unfiltered;
    }
    border::or(AnswerCode::Unfiltered, || compact::ask(bytes, hasher, KeyHash::from_raw(hash)).into())
}

/// Returns `FILTERBLOCK_CODE_OK` if `filterblock_compact_ask` can ask the filter. Otherwise returns
/// the code of the reason. A filter of another hasher gives `CHECKSUM_MISMATCH`, as damage does:
/// the bytes do not record the hasher.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_compact_check(
    data: *const c_void,
    data_len: usize,
    hasher: Option<&Hasher>,
    error: *mut ErrorInfo,
) -> Code {
    // SAFETY: the header asks for valid pointers.
    border::code(unsafe {
        border::report(error, || {
            let bytes = raw::bytes(data, data_len).ok_or(Failure::Bytes("data"))?;
            let Hasher(hasher) = hasher.ok_or(Failure::Null("hasher"))?;
            Ok(compact::check(bytes, hasher)?)
        })
    })
}
