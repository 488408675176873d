//! Defines a model of the filters that the target `c_abi` built, and reads arguments for calls from
//! the input.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::rc::Rc;

use filterblock_ffi::{Code, ErrorInfo, Filter};

use crate::Input;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Block,
    Compact,
}

/// The bytes of a filter, and the keys and prefixes that the filter must not deny.
#[derive(Clone)]
pub(super) struct Blob {
    pub(super) bytes: Vec<u8>,
    pub(super) keys: Rc<Vec<Vec<u8>>>,
    pub(super) prefixes: Rc<Vec<Vec<u8>>>,
    pub(super) form: Form,
    pub(super) has_whole_keys: bool,
    pub(super) has_table_id: bool,
    /// Whether the bytes differ from the bytes that the library returned.
    pub(super) is_edited: bool,
}

impl Blob {
    /// Returns a blob of bytes that the library did not return.
    pub(super) fn of_any_bytes(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            keys: Rc::default(),
            prefixes: Rc::default(),
            form: Form::Block,
            has_whole_keys: true,
            has_table_id: true,
            is_edited: true,
        }
    }
}

pub(super) struct Open {
    pub(super) filter: *mut Filter,
    pub(super) blob: Rc<Blob>,
}

/// A model of a builder: its settings, and the keys and prefixes that were added.
#[derive(Default)]
pub(super) struct Model {
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) prefixes: Vec<Vec<u8>>,
    pub(super) has_prefixes: bool,
    pub(super) is_of_prefixes_only: bool,
    pub(super) has_table_id: bool,
    /// Whether the builder has a range filter, which needs the bytes of keys.
    pub(super) has_ranges: bool,
    /// Whether finishing must fail, for example because the builder could not take a key.
    pub(super) must_fail: bool,
}

impl Model {
    /// Returns the settings, without keys and without a failure.
    pub(super) fn without_keys(&self) -> Self {
        let Self { has_prefixes, is_of_prefixes_only, has_table_id, has_ranges, .. } = *self;
        Self { has_prefixes, is_of_prefixes_only, has_table_id, has_ranges, ..Self::default() }
    }
}

pub(super) fn pointer(bytes: &[u8]) -> *const c_void {
    bytes.as_ptr().cast()
}

/// Calls `call` with NULL, or with an error struct that is full of garbage. Asserts that the call
/// fills the struct with a valid error, and that the error is no panic. Returns the result of the
/// call and the code. The code is `None` for NULL.
pub(super) fn with_error<T>(input: &mut Input<'_>, call: impl FnOnce(*mut ErrorInfo) -> T) -> (T, Option<Code>) {
    if input.byte().is_multiple_of(4) {
        return (call(ptr::null_mut()), None);
    }
    let mut error = MaybeUninit::<ErrorInfo>::uninit();
    // SAFETY: every call writes the struct, and garbage was written before.
    let (value, error) = unsafe {
        ptr::write_bytes(error.as_mut_ptr().cast::<u8>(), 0xa5, size_of::<ErrorInfo>());
        let value = call(error.as_mut_ptr());
        assert!(ptr::read(error.as_ptr().cast::<u32>()) <= Code::Other as u32, "the code was not written");
        (value, error.assume_init())
    };
    let end = error.message.iter().position(|&byte| byte == 0).expect("a zero byte ends the message");
    let text: Vec<u8> = error.message[..end].iter().map(|&byte| byte as u8).collect();
    assert!(std::str::from_utf8(&text).is_ok() && text.is_empty() == (error.code == Code::Ok));
    assert!(error.code != Code::Panic, "{}", String::from_utf8_lossy(&text));
    (value, Some(error.code))
}

/// Reads a key. Returns it with the pointer and the length to pass, which may be NULL or an
/// impossible length.
pub(super) fn key<'a>(input: &mut Input<'a>) -> (&'a [u8], *const c_void, usize) {
    let choice = input.byte();
    let len = usize::from(choice % 16);
    let key = input.take(len);
    match choice {
        250.. => (key, ptr::null(), 1 + key.len()),
        240..250 => (key, pointer(key), usize::MAX - key.len()),
        _ if key.is_empty() && choice >= 128 => (key, ptr::null(), 0),
        _ => (key, pointer(key), key.len()),
    }
}

pub(super) fn pick(blobs: &[Rc<Blob>], input: &mut Input<'_>) -> Option<Rc<Blob>> {
    // Picks one of the newer half of the filters.
    let back = usize::from(input.byte()) % blobs.len().max(1);
    blobs.get(blobs.len().checked_sub(1 + back / 2)?).cloned()
}
