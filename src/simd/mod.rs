//! What the processor is asked to do by name; knows no kind of filter.

mod prefetch;

pub(crate) use prefetch::{RESIDENT_LEN_BYTES, prefetch};
