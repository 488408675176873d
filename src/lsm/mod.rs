//! A small log-structured store.

pub mod log_file;
pub mod log_reader;
