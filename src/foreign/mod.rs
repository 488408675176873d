//! The filters of other engines, read and written bit for bit.
//!
//! * [`leveldb`]: the Bloom filter of LevelDB.
//!
//! A reader takes any bytes, reads them in place, and follows the original's rules for odd, cut and reserved ones: doubt
//! answers "maybe". docs/FOREIGN.md says which versions and options are known.

mod hash32;
mod info;
pub mod leveldb;

pub use info::FilterInfo;
