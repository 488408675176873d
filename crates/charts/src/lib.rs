//! The pictures, pages and tables of the command and of the benchmarks; never published.
//!
//! ```text
//! bars   scatter   page   pictures of bars; points with labels; pages in HTML
//!      frame              axes, and lines between them
//!     picture             SVG documents
//!  theme   text           colours; numbers and escaped texts
//! markdown   check        tables and markers of Markdown pages; what tests ask of a picture
//! ```
#![allow(missing_docs, reason = "only this repository uses the items, and most names say all")]

pub mod bars;
pub mod check;
pub mod frame;
pub mod markdown;
pub mod page;
pub mod picture;
pub mod scatter;
pub mod text;
pub mod theme;
