//! The reports about filter blocks and about files of other engines that the command and the page
//! show.

mod fields;
mod file;

pub use fields::{FieldReport, fields};
pub use file::{FileReport, FilterReport, Holds, Summary};
