//! Every kind of filter: no key is denied, rates are the announced ones, plans follow the formulas.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod extremes;
mod planning;
mod present_keys;
mod rates;
mod space;
#[path = "../block/support.rs"]
mod support;
