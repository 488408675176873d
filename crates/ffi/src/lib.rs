//! Exports the C ABI of filterblock. `include/filterblock.h` is the reference, and docs/C_API.md is
//! the how-to.
#![expect(
    clippy::missing_safety_doc,
    reason = "the header states once what all pointers must be: see the header of cbindgen.toml"
)]

mod answer;
mod border;
mod builder;
mod bytes;
mod cache;
mod error;
mod expected;
mod filter;
mod hasher;
mod hashes;
mod info;
mod options;
mod partitioned;
mod raw;
mod set;
mod verified;

pub use answer::*;
pub use builder::*;
pub use bytes::*;
pub use cache::*;
pub use error::*;
pub use expected::*;
pub use filter::*;
pub use hasher::*;
pub use info::*;
pub use options::*;
pub use partitioned::*;
pub use set::*;
pub use verified::*;
