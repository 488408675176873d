//! Tests the functions of the ABI. Wraps them, so that the tests can pass slices instead of pointers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]
#![allow(clippy::host_endian_bytes, reason = "the array of a C program has the byte order of the machine")]
#![allow(unsafe_code, reason = "the ABI takes pointers")]

mod answers;
mod caches;
mod ranges;
mod sets;

use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use filterblock_ffi::*;

#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    filterblock_testkit::choose_instruction_set();
}

const TABLE: [u8; 16] = *b"table 0000000012";
const SEED: u64 = 42;

/// The error that a call set.
#[derive(Debug, PartialEq)]
struct Failed {
    code: Code,
    offset: u64,
    is_hasher_mismatch: bool,
    message: String,
}

/// Calls `call` with a pointer to an error struct that is filled with garbage. Returns the result
/// of `call`, and the error if `call` set one. Panics if `call` did not fill the struct correctly.
fn with_error<T>(call: impl FnOnce(*mut ErrorInfo) -> T) -> (T, Option<Failed>) {
    let mut error = MaybeUninit::<ErrorInfo>::uninit();
    // SAFETY: `write_bytes` initialises every byte of the struct. The assertion checks that `call`
    // overwrote the code with a valid one, before the struct is read as an `ErrorInfo`.
    let (value, error) = unsafe {
        ptr::write_bytes(error.as_mut_ptr().cast::<u8>(), 0xa5, size_of::<ErrorInfo>());
        let value = call(error.as_mut_ptr());
        let code = ptr::read(error.as_ptr().cast::<u32>());
        assert!(code <= Code::Other as u32, "the call did not write the code {code}");
        (value, error.assume_init())
    };
    let message: Vec<u8> = error.message.iter().map(|&byte| byte as u8).collect();
    let message = CStr::from_bytes_until_nul(&message).expect("a zero byte ends the message");
    let message = message.to_str().expect("the message is UTF-8").to_owned();
    if error.code == Code::Ok {
        assert!(message.is_empty() && error.offset == 0 && error.is_hasher_mismatch == 0);
        return (value, None);
    }
    assert!(!message.is_empty());
    let is_hasher_mismatch = error.is_hasher_mismatch == 1;
    (value, Some(Failed { code: error.code, offset: error.offset, is_hasher_mismatch, message }))
}

/// Returns the value or the error of a call. Panics unless exactly one of the two exists.
fn result<T>((value, error): (Option<T>, Option<Failed>)) -> Result<T, Failed> {
    match (value, error) {
        (Some(value), None) => Ok(value),
        (None, Some(error)) => Err(error),
        (value, error) => panic!("a value ({}) and an error ({error:?})", value.is_some()),
    }
}

/// Returns the struct that `call` writes.
fn filled<T>(call: impl FnOnce(*mut T) -> Code) -> T {
    let mut value = MaybeUninit::uninit();
    assert_eq!(call(value.as_mut_ptr()), Code::Ok);
    // SAFETY: a call that returns `Ok` writes the struct.
    unsafe { value.assume_init() }
}

fn pointer(bytes: &[u8]) -> *const c_void {
    bytes.as_ptr().cast()
}

fn hasher() -> Box<Hasher> {
    filterblock_hasher_new_xxh3(SEED).unwrap()
}

fn hash(hasher: &Hasher, key: &[u8]) -> u64 {
    // SAFETY: the slice is valid.
    unsafe { filterblock_hasher_hash(Some(hasher), pointer(key), key.len()) }
}

/// The settings of a builder, as Rust types.
#[derive(Clone, Copy)]
struct Options<'a> {
    table_id: [u8; 16],
    extractor: Option<&'a str>,
    ranges: Option<&'a str>,
    threads: usize,
    flags: u32,
}

/// The settings of a filter of [`TABLE`].
const OF_TABLE: Options<'_> = Options { table_id: TABLE, extractor: None, ranges: None, threads: 0, flags: 0 };

impl Options<'_> {
    /// Calls `call` with the struct of the ABI.
    fn with<T>(&self, call: impl FnOnce(&OptionsInfo) -> T) -> T {
        let text = |text: Option<&str>| text.map(|text| CString::new(text).unwrap());
        let (extractor, ranges) = (text(self.extractor), text(self.ranges));
        let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        let (table_id, threads, flags) = (self.table_id, self.threads, self.flags);
        call(&OptionsInfo { table_id, extractor: pointer(&extractor), ranges: pointer(&ranges), threads, flags })
    }
}

fn builder_with(spec: &str, hasher: &Hasher, options: Options<'_>) -> Result<Box<Builder>, Failed> {
    let spec = CString::new(spec).unwrap();
    // SAFETY: the pointers are valid.
    let new = |options: &OptionsInfo, error| unsafe {
        filterblock_builder_new(spec.as_ptr(), Some(hasher), Some(options), error)
    };
    result(with_error(|error| options.with(|options| new(options, error))))
}

/// Returns a builder of the default options.
fn builder(spec: &str, hasher: &Hasher) -> Result<Box<Builder>, Failed> {
    let spec = CString::new(spec).unwrap();
    // SAFETY: the pointers are valid.
    result(with_error(|error| unsafe { filterblock_builder_new(spec.as_ptr(), Some(hasher), None, error) }))
}

fn builder_of_table(spec: &str, hasher: &Hasher) -> Box<Builder> {
    builder_with(spec, hasher, OF_TABLE).unwrap()
}

fn add(builder: &mut Builder, key: &[u8]) {
    // SAFETY: the slice is valid.
    unsafe { filterblock_builder_add(Some(builder), pointer(key), key.len()) };
}

fn add_prefix(builder: &mut Builder, prefix: &[u8]) {
    // SAFETY: the slice is valid.
    unsafe { filterblock_builder_add_prefix(Some(builder), pointer(prefix), prefix.len()) };
}

fn take(bytes: Box<Bytes>) -> Vec<u8> {
    let (data, len) = (filterblock_bytes_data(Some(&bytes)), filterblock_bytes_len(Some(&bytes)));
    // SAFETY: the handle has `len` bytes at `data`, and is freed only after the copy.
    let copy = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }.to_vec();
    filterblock_bytes_free(Some(bytes));
    copy
}

fn finish(builder: &mut Builder) -> Result<Vec<u8>, Failed> {
    // SAFETY: the pointers are valid.
    result(with_error(|error| unsafe { filterblock_builder_finish(Some(builder), error) })).map(take)
}

fn finish_compact(builder: &mut Builder) -> Result<Vec<u8>, Failed> {
    // SAFETY: the pointers are valid.
    result(with_error(|error| unsafe { filterblock_builder_finish_compact(Some(builder), error) })).map(take)
}

fn expected(hasher: &Hasher) -> ExpectedInfo {
    ExpectedInfo { hasher, table_id: TABLE, flags: 0, checksum: 0, num_entries: 0, extractor: ptr::null(), offset: 0 }
}

/// An open filter, which is freed when this value is dropped.
#[derive(Debug)]
struct Open(*mut Filter);

impl Open {
    fn by(call: impl FnOnce(*mut ErrorInfo) -> *mut Filter) -> Result<Self, Failed> {
        let (filter, error) = with_error(call);
        result(((!filter.is_null()).then_some(Self(filter)), error))
    }

    /// # Safety
    /// The bytes outlive the filter.
    unsafe fn borrowed(data: &[u8], expected: &ExpectedInfo, verify: u32) -> Result<Self, Failed> {
        let (at, len) = (pointer(data), data.len());
        // SAFETY: the pointers are valid, and the caller keeps the bytes until the filter is freed.
        Self::by(|error| unsafe { filterblock_filter_open_borrowed(at, len, Some(expected), verify, error) })
    }

    fn copied(data: &[u8], expected: &ExpectedInfo, verify: u32) -> Result<Self, Failed> {
        let (at, len) = (pointer(data), data.len());
        // SAFETY: the pointers are valid.
        Self::by(|error| unsafe { filterblock_filter_open_copied(at, len, Some(expected), verify, error) })
    }

    fn mapped(path: &str, at: u64, len: usize, expected: &ExpectedInfo, verify: u32) -> Result<Self, Failed> {
        let path = CString::new(path).unwrap();
        // SAFETY: the pointers are valid.
        Self::by(|error| unsafe {
            filterblock_filter_open_mapped(path.as_ptr(), at, len, Some(expected), verify, error)
        })
    }

    fn get(&self) -> Option<&Filter> {
        // SAFETY: the filter is open until the drop.
        unsafe { self.0.as_ref() }
    }

    fn may_contain(&self, key: &[u8]) -> bool {
        // SAFETY: the slice is valid.
        unsafe { filterblock_filter_may_contain(self.get(), pointer(key), key.len()) }
    }

    fn may_contain_prefix(&self, extractor: &str, prefix: &[u8]) -> bool {
        let extractor = CString::new(extractor).unwrap();
        // SAFETY: the pointers are valid.
        unsafe { filterblock_filter_may_contain_prefix(self.get(), extractor.as_ptr(), pointer(prefix), prefix.len()) }
    }

    fn may_contain_range(&self, lower: &[u8], upper: &[u8]) -> bool {
        let (from, to) = (pointer(lower), pointer(upper));
        // SAFETY: the slices are valid.
        unsafe { filterblock_filter_may_contain_range(self.get(), from, lower.len(), to, upper.len()) }
    }

    /// Asks for all hashes in one call. The array of hashes begins at an address that is not
    /// aligned.
    fn may_contain_hashes(&self, hashes: &[u64]) -> Vec<bool> {
        let bytes: Vec<u8> = [0].into_iter().chain(hashes.iter().flat_map(|hash| hash.to_ne_bytes())).collect();
        let mut answers = vec![false; hashes.len()];
        // SAFETY: each array has the length that the call passes.
        unsafe {
            let hashes_at = bytes.as_ptr().add(1).cast::<u64>();
            filterblock_filter_may_contain_hashes(self.get(), hashes_at, hashes.len(), answers.as_mut_ptr());
        }
        answers
    }

    fn verify_pages(&self) -> Result<(), Failed> {
        let call = |error| {
            // SAFETY: the pointers are valid.
            let code = unsafe { filterblock_filter_verify_pages(self.get(), error) };
            (code == Code::Ok).then_some(())
        };
        result(with_error(call))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: the filter is freed once.
        unsafe { filterblock_filter_free(self.0) };
    }
}
