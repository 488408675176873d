//! Reads the settings of a builder. Only a new builder takes settings, so none can come after a key.
#![expect(unsafe_code, reason = "reads pointers of the caller's struct")]

use std::ffi::c_char;
use std::num::NonZeroUsize;

use filterblock::{FilterOptions, WholeKeys};

use crate::error::Failure;
use crate::raw;

/// The flag of a filter that has prefixes and no whole keys. It answers "maybe" for every key.
/// Needs `extractor`.
pub const FILTERBLOCK_OPTION_PREFIXES_ONLY: u32 = 1;
/// With this flag, finishing does not ask the new filter for each key. The check can detect broken
/// memory and bugs.
pub const FILTERBLOCK_OPTION_NO_SELF_CHECK: u32 = 2;

const ALL_FLAGS: u32 = FILTERBLOCK_OPTION_PREFIXES_ONLY | FILTERBLOCK_OPTION_NO_SELF_CHECK;

/// The settings of a builder. Initialise the struct with zeros, which are the defaults, and set the
/// members that differ. An unknown flag is an error: `INVALID`.
#[repr(C)]
pub struct OptionsInfo {
    /// The id of the SST, to which the filter is bound. An id of zeros stands for no SST.
    pub table_id: [u8; 16],
    /// The name of the function that takes prefixes from keys, if prefixes will be added. Otherwise
    /// NULL. The name has 1 to 100 bytes of UTF-8, such as `"first-4"`. Change the name whenever the
    /// function changes.
    pub extractor: *const c_char,
    /// The specification of a range filter of the same keys, such as `"grafite:fpr=0.01"`, for
    /// `filterblock_filter_may_contain_range`. NULL stands for none. With a range filter, add keys
    /// by their bytes.
    pub ranges: *const c_char,
    /// The number of threads that build the filter; 0 counts as 1. It does not change the bytes of
    /// the filter. Only a bumped ribbon without `:compact` uses more than one thread, and only if it
    /// has many keys.
    pub threads: usize,
    /// The flags `FILTERBLOCK_OPTION_...`, combined by OR.
    pub flags: u32,
}

impl OptionsInfo {
    /// Returns the settings of a builder of `spec`. NULL stands for the defaults. The builder checks
    /// the settings.
    ///
    /// # Safety
    /// The pointers are NULL or valid.
    pub(crate) unsafe fn read(options: Option<&Self>, spec: *const c_char) -> Result<FilterOptions, Failure> {
        // SAFETY: the caller upholds the contract of this function.
        let spec = unsafe { raw::text(spec) }.ok_or(Failure::Text("spec"))?;
        let filter = FilterOptions::new(spec.parse()?);
        let Some(options) = options else { return Ok(filter) };
        if options.flags & !ALL_FLAGS != 0 {
            return Err(Failure::Invalid(
                "options.flags has an unknown flag; pass only FILTERBLOCK_OPTION_... flags, or use a newer library",
            ));
        }
        let mut filter = filter
            .table_id(options.table_id)
            .threads(NonZeroUsize::new(options.threads).unwrap_or(NonZeroUsize::MIN))
            .self_check(options.flags & FILTERBLOCK_OPTION_NO_SELF_CHECK == 0);
        let is_of_prefixes_only = options.flags & FILTERBLOCK_OPTION_PREFIXES_ONLY != 0;
        if !options.extractor.is_null() {
            // SAFETY: the caller upholds the contract of this function.
            let name = unsafe { raw::text(options.extractor) }.ok_or(Failure::Text("options.extractor"))?;
            filter = filter.prefixes_by_host(name, if is_of_prefixes_only { WholeKeys::Not } else { WholeKeys::Too });
        } else if is_of_prefixes_only {
            return Err(Failure::Invalid(
                "a filter of prefixes only needs options.extractor; set it to the name of the extractor",
            ));
        }
        if !options.ranges.is_null() {
            // SAFETY: the caller upholds the contract of this function.
            let ranges = unsafe { raw::text(options.ranges) }.ok_or(Failure::Text("options.ranges"))?;
            filter = filter.ranges(ranges.parse()?);
        }
        Ok(filter)
    }
}
