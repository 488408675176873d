//! Opens, queries, inspects and checks files and filters of other engines.

mod ask;
pub mod file;
pub mod inspect;
pub mod own;
pub mod verify;

pub use ask::{Asked, Question};
pub use file::{FileArguments, Foreign, key_form, value_type};
pub use filterblock_parquet::written::{ColumnType, Encoding, ValueType};
