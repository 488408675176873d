//! Global allocators for test programs: two count memory, and one fails on demand. A test program
//! installs one of them with `#[global_allocator]`.
#![allow(unsafe_code, reason = "a global allocator needs unsafe code")]

pub mod failing;
pub mod of_process;
pub mod of_thread;
