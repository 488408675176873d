//! Opens filters and answers queries.
#![expect(unsafe_code, reason = "exported functions take pointers of the caller")]

use std::convert::Infallible;
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::sync::Arc;

use filterblock::{AlignedBytes, FilterBlock, KeyHash, Mapped, Populate, SharedBytes, TableFilter, open_regular_file};

use crate::answer::Answers;
use crate::border;
use crate::error::{Code, ErrorInfo, Failure};
use crate::expected::ExpectedInfo;
use crate::hasher::FILTERBLOCK_NO_HASH;
use crate::hashes::{Hashes, or_no_hash};
use crate::raw::{self, CHUNK};

/// An open filter. It answers whether an SST may contain a key.
///
/// Any number of threads may ask one filter. Free the filter after the last query has returned.
// The handle is a pointer into an `Arc`, so sets can share the filter.
#[repr(transparent)]
pub struct Filter(pub(crate) TableFilter<SharedBytes>);

impl Filter {
    #[inline(always)]
    pub(crate) fn ready(filter: Option<&Self>) -> Option<&FilterBlock<SharedBytes>> {
        filter?.0.ready()
    }
}

/// Opens a filter in bytes of the caller, without a copy. Do not change or free the bytes before
/// you free the filter and every set that has it. The bytes may have any alignment. If their
/// address is a multiple of 64, queries can touch fewer cache lines.
///
/// `verify` is `FILTERBLOCK_VERIFY_AT_OPEN` or `FILTERBLOCK_VERIFY_ON_FIRST_TOUCH`.
///
/// Returns a handle for `filterblock_filter_free`, or NULL and an error. After an error, read the
/// SST without its filter: queries of NULL answer "maybe".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_filter_open_borrowed(
    data: *const c_void,
    data_len: usize,
    expected: Option<&ExpectedInfo>,
    verify: u32,
    error: *mut ErrorInfo,
) -> *mut Filter {
    // SAFETY: the header asks for valid pointers, and for bytes that outlive the filter and every
    // set that has it. So nobody uses the slice after the bytes are freed.
    unsafe {
        open(error, expected, verify, || {
            let bytes: &'static [u8] = raw::bytes(data, data_len).ok_or(Failure::Bytes("data"))?;
            Ok(SharedBytes::from(bytes))
        })
    }
}

/// Opens a copy of a filter. The address of the copy is a multiple of 64. The caller may change or
/// free `data` after the call.
///
/// Otherwise this function works like `filterblock_filter_open_borrowed`. `TOO_LARGE` can also mean
/// that the copy does not fit in memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_filter_open_copied(
    data: *const c_void,
    data_len: usize,
    expected: Option<&ExpectedInfo>,
    verify: u32,
    error: *mut ErrorInfo,
) -> *mut Filter {
    // SAFETY: the header asks for valid pointers.
    unsafe {
        open(error, expected, verify, || {
            let bytes = raw::bytes(data, data_len).ok_or(Failure::Bytes("data"))?;
            Ok(AlignedBytes::copy_of(bytes)?.into())
        })
    }
}

/// Opens a filter in a memory map: `data_len` bytes of the file `path`, from `offset` on. The
/// function uses `offset` instead of `expected.offset`. With `FILTERBLOCK_VERIFY_AT_OPEN`, opening
/// reads the whole filter.
///
/// The file must not change or shrink before you free the filter and every set that has it. Reading
/// a part of the map that is no longer in the file raises SIGBUS.
///
/// Otherwise this function works like `filterblock_filter_open_borrowed`. `IO` means that the file
/// is not a regular file, or cannot be opened or mapped. `CORRUPT` can also mean that the file is
/// too short.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_filter_open_mapped(
    path: *const c_char,
    offset: u64,
    data_len: usize,
    expected: Option<&ExpectedInfo>,
    verify: u32,
    error: *mut ErrorInfo,
) -> *mut Filter {
    // SAFETY: the header asks for valid pointers.
    unsafe {
        open(error, expected.map(|expected| ExpectedInfo { offset, ..*expected }).as_ref(), verify, || {
            let path = Path::new(raw::text(path).ok_or(Failure::Text("path"))?);
            let map = || Mapped::region(&open_regular_file(path)?, offset, data_len, Populate::No);
            Ok(map().map_err(|error: filterblock::Error| error.in_file(path))?.into())
        })
    }
}

/// # Safety
/// The pointers are NULL or valid.
unsafe fn open(
    error: *mut ErrorInfo,
    expected: Option<&ExpectedInfo>,
    verify: u32,
    bytes: impl FnOnce() -> Result<SharedBytes, Failure>,
) -> *mut Filter {
    // SAFETY: the caller upholds the contract of this function.
    let opened = unsafe {
        border::report(error, || {
            let expected = expected.ok_or(Failure::Null("expected"))?;
            Ok(Arc::new(TableFilter::Ready(expected.open(bytes()?, verify)?)))
        })
    };
    opened.map_or(std::ptr::null_mut(), |filter| Arc::into_raw(filter).cast_mut().cast())
}

/// Frees a filter. NULL is fine. A set that has the filter keeps it open and goes on reading its
/// bytes. Freeing twice is undefined behaviour.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_filter_free(filter: *mut Filter) {
    if !filter.is_null() {
        // SAFETY: `open` made the pointer from an `Arc` of this type, and the caller frees it once.
        border::or((), || drop(unsafe { Arc::from_raw(filter.cast::<TableFilter<SharedBytes>>().cast_const()) }));
    }
}

/// Returns `false` if the SST certainly does not contain the key, and `true` if it may. The
/// function hashes the key. To ask many filters, hash the key once with `filterblock_hasher_hash`.
///
/// Returns `true` if the filter has only prefixes, and after an error, for example a NULL pointer
/// or a damaged page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_filter_may_contain(
    filter: Option<&Filter>,
    key: *const c_void,
    key_len: usize,
) -> bool {
    // SAFETY: the header asks for valid pointers.
    let key = unsafe { raw::bytes(key, key_len) };
    let (Some(block), Some(key)) = (Filter::ready(filter), key) else { return true };
    border::or(true, || block.may_contain(block.hasher().key(key)))
}

/// Answers like `filterblock_filter_may_contain` for a key with this hash. If the filter has
/// partitions, the function asks them one by one until one answers "maybe". A range filter alone
/// has no hashes, so the function returns `true`.
///
/// The hash must come from a hasher that equals the filter's hasher. Otherwise the filter can deny
/// present keys. Returns `true` for `FILTERBLOCK_NO_HASH`.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_filter_may_contain_hash(filter: Option<&Filter>, hash: u64) -> bool {
    let Some(block) = Filter::ready(filter) else { return true };
    hash == FILTERBLOCK_NO_HASH || border::or(true, || block.may_contain_hash(KeyHash::from_raw(hash)))
}

/// Returns `false` if no key of the SST has this prefix, and `true` if a key may have it.
/// `extractor` is the name of the function that took the prefix from a key.
///
/// Returns `true` if the filter has no prefixes, or prefixes of another extractor. Also returns
/// `true` if keys of several partitions may begin with the prefix, and after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_filter_may_contain_prefix(
    filter: Option<&Filter>,
    extractor: *const c_char,
    prefix: *const c_void,
    prefix_len: usize,
) -> bool {
    // SAFETY: the header asks for valid pointers.
    let (extractor, prefix) = unsafe { (raw::text(extractor), raw::bytes(prefix, prefix_len)) };
    let (Some(block), Some(extractor), Some(prefix)) = (Filter::ready(filter), extractor, prefix) else { return true };
    border::or(true, || block.may_contain_prefix(extractor, block.hasher().key(prefix)))
}

/// Returns `false` if the SST has no key `k` with `lower <= k < upper`, in the order of bytes, and
/// `true` if it may have one. An `upper` of 0 bytes means that the range has no upper bound. To
/// include `upper`, append a zero byte to it.
///
/// The filter must have a range filter (see `ranges` in `filterblock_options`) or be one. The
/// function returns `true` if there is no usable range filter, if the range is empty, and after an
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_filter_may_contain_range(
    filter: Option<&Filter>,
    lower: *const c_void,
    lower_len: usize,
    upper: *const c_void,
    upper_len: usize,
) -> bool {
    // SAFETY: the header asks for valid pointers.
    let range = unsafe { raw::range((lower, lower_len), (upper, upper_len)) };
    let (Some(block), Some((lower, upper))) = (Filter::ready(filter), range) else { return true };
    border::or(true, || block.may_contain_range(lower, upper))
}

/// Sets `answers[i]` to the answer for `hashes[i]`: see `filterblock_filter_may_contain_hash`. One
/// call can be faster than single queries.
///
/// `answers` need not be initialised, and must not overlap `hashes`. Sets all answers to `true` if
/// `filter` or `hashes` is NULL. Does nothing if `answers` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_filter_may_contain_hashes(
    filter: Option<&Filter>,
    hashes: *const u64,
    count: usize,
    answers: *mut bool,
) {
    // SAFETY: the header asks for valid pointers.
    let (hashes, answers) = unsafe { (Hashes::new(hashes, count), Answers::new(answers, count)) };
    let Some(answers) = answers else { return };
    let (Some(block), Some(hashes)) = (Filter::ready(filter), hashes) else { return answers.fill(true) };
    answers.ask(true, |answers| hashes.try_for_each(|first, hashes| ask_chunk(block, answers, first, hashes)));
}

/// Asks a filter for at most [`CHUNK`] hashes, and writes the answers from index `first` on.
fn ask_chunk(
    block: &FilterBlock<SharedBytes>,
    answers: Answers<bool>,
    first: usize,
    hashes: &[KeyHash],
) -> Result<(), Infallible> {
    // An answer that a query does not write stays "maybe".
    let mut maybe = [true; CHUNK];
    block.may_contain_batch(hashes, &mut maybe);
    or_no_hash(&mut maybe, hashes);
    answers.write(first, maybe.split_at(hashes.len().min(CHUNK)).0);
    Ok(())
}

/// Returns the number of damaged pages that queries have found so far, or 0 if `filter` is NULL.
/// With `FILTERBLOCK_VERIFY_AT_OPEN` the number stays 0.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_filter_damaged_pages(filter: Option<&Filter>) -> u64 {
    Filter::ready(filter).map_or(0, |block| border::or(0, || block.damaged_pages()))
}

/// Compares all pages with their checksums, including the pages of a range filter. Other threads
/// may ask the filter at the same time.
///
/// If a page is damaged, returns `CHECKSUM_MISMATCH` with the offset of the page. If the pages of
/// the filter itself are sound, returns the error of a range filter that cannot be used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_filter_verify_pages(filter: Option<&Filter>, error: *mut ErrorInfo) -> Code {
    // SAFETY: the header asks for valid pointers.
    border::code(unsafe {
        border::report(error, || Ok(Filter::ready(filter).ok_or(Failure::Null("filter"))?.verify_pages()?))
    })
}
