//! Tests that faults of operations, threads, processes and machines lose no durable write.

#[cfg(feature = "testing")]
mod background;
#[cfg(feature = "testing")]
mod failed_sync;
mod kill;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(unix)]
mod open_files;
#[cfg(feature = "testing")]
mod operations;
#[cfg(feature = "testing")]
mod passing;
#[cfg(target_os = "linux")]
mod system_calls;
