//! The reports about filter blocks and about files of other engines that the command and the page
//! show.

mod fields;
mod file;
mod native;
mod plan;

pub use fields::{FieldReport, fields};
pub use file::{FileReport, FilterReport, Holds, Summary};
pub use native::{block_report, index_report};
pub use plan::{PLANNED_KINDS, PlanRow, reason};
