//! Defines the error codes, and the struct in which a function reports its error.
//!
//! The caller owns the struct, and the message lies in the struct. So nobody has to free a message,
//! and threads do not overwrite each other's errors. We rejected a buffer and its length as two
//! more arguments of each function, because a caller could pass the length of another buffer.

use std::ffi::c_char;

use filterblock::Error;

/// The length in bytes of the member `message` of `filterblock_error`. It includes the zero byte
/// that ends the text.
pub const FILTERBLOCK_ERROR_MESSAGE_LEN: usize = 496;

/// The cause of an error. Codes never change their meaning. A newer library may have more codes.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// No error.
    Ok = 0,
    /// A required pointer is NULL, a text is not UTF-8, or an array does not fit in the address
    /// space. Or `expected.hasher` is not aligned, or an added hash is `FILTERBLOCK_NO_HASH`.
    NullArgument = 1,
    /// The library panicked: a bug of the library. Nothing was built or opened.
    Panic = 2,
    /// The function does not accept a value or a call, for example because the call comes too late.
    /// Or a filter or its keys do not fit in memory.
    Invalid = 3,
    /// The operating system reported an error of a file or a memory map.
    Io = 4,
    /// Damage: the bytes are too short or too long, or a field has a value that no writer writes.
    /// Or the bytes are a single partition of a filter.
    Corrupt = 5,
    /// Damage: a stored checksum differs from the checksum of the bytes. For the compact form, the
    /// cause can also be another hasher.
    ChecksumMismatch = 6,
    /// The bytes are of a newer version, or use a feature that this library does not read. An
    /// unknown version may also be damage. Do not repair or delete the bytes.
    Unsupported = 7,
    /// The bytes are sound, but they are not the expected block. They belong to another SST, to
    /// another state of the SST, or to another hash function or seed. Or the kind, the keys or the
    /// prefixes of the filter are not the expected ones.
    Unexpected = 8,
    /// The keys were hashed under a secret that the caller's hasher does not have.
    Secret = 9,
    /// An object other than a new filter does not fit in memory, such as a copy of a filter.
    TooLarge = 10,
    /// The new filter denied at least one of its keys, because of broken memory or a bug. The
    /// function returned no filter.
    SelfCheckFailed = 11,
    /// An error that has no code of its own.
    Other = 12,
}

/// An error. The caller owns the struct, need not initialise it, and frees nothing in it. A
/// function that succeeds sets the code to `FILTERBLOCK_CODE_OK` and the message to the empty
/// string.
#[repr(C)]
pub struct ErrorInfo {
    /// The cause of the error.
    pub code: Code,
    /// 1 if the function failed because the caller's hasher is not the hasher of the filter's keys:
    /// the hash function, the seed or the secret differs. Otherwise 0. For the compact form, which
    /// does not record the hasher, the value is always 0.
    pub is_hasher_mismatch: u32,
    /// The offset of the damage in bytes, for `CORRUPT` and `CHECKSUM_MISMATCH`. It is the offset
    /// in the block plus the offset that the caller gave for the block, such as `expected.offset`.
    /// It is 0 for other codes.
    pub offset: u64,
    /// A text that says what is wrong and what to do next, in English and UTF-8. A zero byte ends
    /// the text. A text that is too long is cut between two characters. After a panic, the text may
    /// be empty.
    pub message: [c_char; FILTERBLOCK_ERROR_MESSAGE_LEN],
}

/// The error of a function of this crate, before it is reported.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The name of a handle, a struct, an id or an output that is NULL.
    Null(&'static str),
    /// The name of a struct member: a handle that is NULL or not aligned.
    Member(&'static str),
    /// The name of a text that is NULL or not UTF-8.
    Text(&'static str),
    /// The name of an array of bytes that is NULL or too long for the address space.
    Bytes(&'static str),
    /// The message for a key, prefix, hash or array that could not be added.
    Added(&'static str),
    Panic,
    /// The message for a value or a call that the function does not accept.
    Invalid(&'static str),
    Library(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl Failure {
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Null(_) | Self::Member(_) | Self::Text(_) | Self::Bytes(_) | Self::Added(_) => Code::NullArgument,
            Self::Panic => Code::Panic,
            Self::Invalid(_) => Code::Invalid,
            Self::Library(error) => code_of(error),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Null(argument) => format!("{argument} is NULL; pass a pointer to a valid object"),
            Self::Member(member) => format!("{member} is NULL or not aligned; set it to a handle that is not freed"),
            Self::Text(text) => format!("{text} is NULL or not UTF-8; pass UTF-8 text that ends with a zero byte"),
            Self::Bytes(bytes) => {
                format!("{bytes} is NULL, or its length exceeds the address space; pass a valid pointer and length")
            }
            Self::Panic => "the library panicked; go on without the filter, and report the bug".to_owned(),
            Self::Added(message) | Self::Invalid(message) => (*message).to_owned(),
            Self::Library(error) => error.to_string(),
        }
    }
}

fn code_of(error: &Error) -> Code {
    match error.root() {
        Error::Io(_) => Code::Io,
        Error::Corrupt { .. } => Code::Corrupt,
        Error::ChecksumMismatch { .. } => Code::ChecksumMismatch,
        Error::Unsupported { .. } => Code::Unsupported,
        Error::Unexpected { .. } => Code::Unexpected,
        Error::Secret { .. } => Code::Secret,
        Error::Invalid { .. } => Code::Invalid,
        Error::TooLarge { .. } => Code::TooLarge,
        Error::SelfCheckFailed { .. } => Code::SelfCheckFailed,
        _ => Code::Other,
    }
}

impl ErrorInfo {
    pub(crate) fn new(failure: &Failure) -> Self {
        let (offset, is_mismatch) = match failure {
            Failure::Library(error) => (offset_of(error), error.is_secret_mismatch()),
            _ => (0, false),
        };
        let mut info = Self { code: failure.code(), is_hasher_mismatch: is_mismatch.into(), offset, ..Self::none() };
        copy_text(&failure.message(), &mut info.message);
        info
    }

    pub(crate) fn none() -> Self {
        Self { code: Code::Ok, is_hasher_mismatch: 0, offset: 0, message: [0; FILTERBLOCK_ERROR_MESSAGE_LEN] }
    }
}

fn offset_of(error: &Error) -> u64 {
    match error.root() {
        Error::Corrupt { offset, .. } | Error::ChecksumMismatch { offset, .. } => *offset,
        _ => 0,
    }
}

/// Copies `text` to `buffer`, and fills the rest of `buffer` with zero bytes. If the text and one
/// zero byte do not fit, copies as many whole characters as fit.
pub(crate) fn copy_text(text: &str, buffer: &mut [c_char]) {
    let most = text.len().min(buffer.len().saturating_sub(1));
    let len = (0..=most).rev().find(|&len| text.is_char_boundary(len)).unwrap_or(0);
    let bytes = text.bytes().take(len).chain(std::iter::repeat(0));
    buffer.iter_mut().zip(bytes).for_each(|(to, from)| *to = from as c_char);
}

#[cfg(test)]
mod tests {
    use filterblock::{Field, HashKind};

    use super::*;

    #[test]
    fn every_error_of_the_library_has_its_code() {
        let field = Field::Page;
        let errors = [
            (Error::Io(std::io::Error::other("x")), Code::Io),
            (Error::Io(std::io::Error::other("x")).in_file("x".as_ref()), Code::Io),
            (Error::Corrupt { field, offset: 7 }, Code::Corrupt),
            (Error::ChecksumMismatch { field, offset: 7, stored: 1, computed: 2 }, Code::ChecksumMismatch),
            (Error::Unsupported { field, found: 7 }, Code::Unsupported),
            (Error::Unexpected { field, found: String::new(), expected: String::new() }, Code::Unexpected),
            (Error::Secret { hash: HashKind::SipHash13, stored: None, given: None }, Code::Secret),
            (Error::Invalid { what: "x", given: String::new(), reason: "x; y".into() }, Code::Invalid),
            (Error::TooLarge { what: "x" }, Code::TooLarge),
            (Error::SelfCheckFailed { denied: 7 }, Code::SelfCheckFailed),
        ];
        for (error, code) in errors {
            let is_damage = error.is_damage();
            assert_eq!(is_damage, crate::filterblock_code_is_damage(code as u32), "{error}");
            assert_eq!(error.is_unsupported(), code == Code::Unsupported, "{error}");
            let info = ErrorInfo::new(&error.into());
            assert_eq!((info.code, info.offset), (code, if is_damage { 7 } else { 0 }));
        }
    }

    #[test]
    fn text_is_cut_between_characters_and_ends_with_zero() {
        let cut = |text: &str| {
            let mut buffer = [0x55; 6];
            copy_text(text, &mut buffer);
            buffer.map(|byte| byte as u8)
        };
        assert_eq!(cut(""), [0; 6]);
        assert_eq!(cut("abcde"), *b"abcde\0");
        assert_eq!(cut("abcdef"), *b"abcde\0");
        assert_eq!(cut("abc\u{20ac}"), *b"abc\0\0\0");
        assert_eq!(cut("ab\u{20ac}"), *b"ab\xe2\x82\xac\0");
        copy_text("a", &mut []);
    }
}
