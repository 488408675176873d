//! Includes the command's module for reports about files of other engines.

#[path = "../../crates/cli/src/foreign/report.rs"]
pub(crate) mod report;
