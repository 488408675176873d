//! Opens, queries, inspects and checks files and filters of other engines.

pub mod ask;
pub mod content;
mod describe;
pub mod file;
pub mod inspect;
pub mod own;
pub mod value;
pub mod verify;

pub use ask::Asked;
pub use file::{FileArguments, Foreign};
pub use value::{ValueType, value_type};
