//! A small log-structured store.

pub mod batch;
pub mod file_name;
pub mod log_file;
pub mod log_reader;
pub mod manifest;
pub mod version_edit;
