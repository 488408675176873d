//! Tests the opening of a store after a crash, with missing files, and with failing operations.

mod after_crash;
mod checkpoints;
#[cfg(feature = "testing")]
mod crash;
#[cfg(feature = "testing")]
mod failed_open;
mod missing_logs;
