//! Defines the functions that the scripts call, and declares the function that the scripts provide.
//! A script writes a request to the memory that `input` returns. `answer` returns the length of the
//! answer at `output`.
//!
//! The exports are written by hand, without wasm-bindgen. Four functions of numbers need no
//! generated bindings, and the versions of wasm-bindgen's crate and tool would have to match.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use crate::{Page, ReadAt};

/// The page, its input and output, and the length of the chosen file.
#[derive(Default)]
struct Border {
    page: Page,
    input: Vec<u8>,
    output: Vec<u8>,
    file_len_bytes: Option<u64>,
}

thread_local! {
    // A WebAssembly instance has one thread.
    static BORDER: RefCell<Border> = RefCell::default();
}

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Copies `len` bytes at `offset` of the chosen file to `to`. Returns 1, or 0 on failure.
    fn read_file(offset: f64, to: *mut u8, len: usize) -> u32;
}

/// The file that the user has chosen, with its length in bytes.
#[derive(Debug)]
struct Chosen(u64);

impl ReadAt for Chosen {
    fn read_at<'a>(&'a self, offset: u64, len_bytes: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        if offset.checked_add(len_bytes as u64).is_none_or(|end| end > self.0) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.clear();
        buffer.try_reserve_exact(len_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        buffer.resize(len_bytes, 0);
        // SAFETY: the vector has the length `len_bytes`, and the script writes at most `len_bytes`
        // bytes to its memory. The script returns before the vector is used again.
        let done = unsafe { read_file(offset as f64, buffer.as_mut_ptr(), len_bytes) };
        if done == 1 { Ok(buffer) } else { Err(io::Error::other("the browser cannot read the file")) }
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0)
    }
}

/// Returns memory for a request of `len` bytes.
#[unsafe(no_mangle)]
extern "C" fn input(len: usize) -> *mut u8 {
    BORDER.with_borrow_mut(|border| {
        border.input.clear();
        border.input.resize(len, 0);
        border.input.as_mut_ptr()
    })
}

/// Sets the length of the chosen file in bytes.
#[unsafe(no_mangle)]
extern "C" fn choose(len: f64) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    BORDER.with_borrow_mut(|border| border.file_len_bytes = Some(len as u64));
}

/// Answers the request in the input. Returns the length of the answer in bytes.
#[unsafe(no_mangle)]
extern "C" fn answer() -> usize {
    BORDER.with_borrow_mut(|border| {
        let request = String::from_utf8_lossy(&border.input);
        let source = border.file_len_bytes.map(|len| Rc::new(Chosen(len)) as Rc<dyn ReadAt>);
        border.output = border.page.answer(&request, source).into_bytes();
        border.output.len()
    })
}

/// Returns the memory of the answer.
#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    BORDER.with_borrow(|border| border.output.as_ptr())
}
