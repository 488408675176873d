//! Implements the filter policy of SlateDB with filterblock.
//!
//! [`Filters`] makes the list of policies that every part of a SlateDB database needs: the writer,
//! the readers, the compactor and its workers. It also counts builds, unusable filters and answers.
//!
//! ```
//! use std::sync::Arc;
//! use filterblock_slatedb::Filters;
//! use slatedb::{Db, object_store::memory::InMemory};
//!
//! # async fn open() -> Result<(), Box<dyn std::error::Error>> {
//! let filters = Filters::new("bumped-ribbon:7".parse()?);
//! let store = Arc::new(InMemory::new());
//! let db = Db::builder("orders", store).with_filter_policies(filters.policies()).build().await?;
//! db.put(b"apple", b"1").await?;
//! assert_eq!(db.get(b"pear").await?, None);
//! println!("{:?}", filters.counts());
//! # db.close().await?;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(open()).unwrap();
//! ```
//!
//! **No damage becomes "absent".** A filter answers "maybe" for every key if its bytes are damaged,
//! of a newer version or under another hasher. [`Counts`] counts such filters. The exceptions are
//! the Bloom filters of [`Filters::reading_bloom`], which have no checksum of their own.
//!
//! **A sound filter of another SST goes unnoticed and can deny present keys.** SlateDB does not
//! tell a policy which SST a filter belongs to. SlateDB's manifest and checksums must keep each
//! filter with its SST.
//!
//! | To | Use |
//! |---|---|
//! | choose the filter of each SST | [`Filters::new`], [`Filters::by_num_keys`] |
//! | answer scans of a prefix | [`Filters::with_prefixes`] |
//! | answer scans of short ranges | [`Filters::with_ranges`] |
//! | use the Bloom filters of older SSTs | [`Filters::reading_bloom`] |
//! | count damaged filters, queries and denied keys | [`Filters::counts`] |
//! | detect a process with another list of policies at its start | [`Filters::record_or_compare`] |
//! | find SSTs without a filter of the policy | [`Filters::inspect`] |

mod bloom;
mod builder;
mod config;
mod counters;
mod error;
mod filter;
mod filters;
mod inspection;
mod policy;
mod ranges;
mod record;
mod report;

pub use counters::Counts;
pub use error::{Error, Result};
pub use filters::Filters;
pub use inspection::Inspection;
pub use report::{SstFilter, SstReport};
