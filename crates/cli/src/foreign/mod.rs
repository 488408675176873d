//! Files and filters of other engines: opened, asked, inspected and checked.

pub mod ask;
mod content;
mod describe;
pub mod file;
pub mod inspect;
pub mod value;
pub mod verify;

pub use ask::Asked;
pub use file::{FileArguments, Foreign};
pub use value::ValueType;
