//! What a caller expects of a filter.
#![expect(unsafe_code, reason = "reads pointers of the caller's struct")]

use std::ffi::c_char;

use filterblock::{Expected, FilterBlock, LockedBlock, SharedBytes, Verify, layout};

use crate::error::Failure;
use crate::hasher::Hasher;
use crate::raw;

/// The caller does not know the SST, and accepts the filter of any SST. `table_id` is not read. A
/// filter of another SST then goes unnoticed and denies present keys.
pub const FILTERBLOCK_EXPECT_ANY_TABLE: u32 = 1;
/// `num_entries` is the number of entries of the SST. The filter must not have more keys, and at
/// least one if the SST has an entry.
pub const FILTERBLOCK_EXPECT_NUM_ENTRIES: u32 = 2;
/// `checksum` is that of `filterblock_block_checksum`. It detects a stale filter of the same SST.
pub const FILTERBLOCK_EXPECT_CHECKSUM: u32 = 4;
/// `extractor` names the function that took the prefixes of the filter. Without this flag, the
/// filter must have whole keys.
pub const FILTERBLOCK_EXPECT_PREFIXES: u32 = 8;

const ALL_FLAGS: u32 = FILTERBLOCK_EXPECT_ANY_TABLE
    | FILTERBLOCK_EXPECT_NUM_ENTRIES
    | FILTERBLOCK_EXPECT_CHECKSUM
    | FILTERBLOCK_EXPECT_PREFIXES;

/// Check all pages when the filter is opened.
pub const FILTERBLOCK_VERIFY_AT_OPEN: u32 = 0;
/// Check each page when a query first needs it. A damaged page answers "maybe" and is counted.
pub const FILTERBLOCK_VERIFY_ON_FIRST_TOUCH: u32 = 1;

/// What the caller knows about a filter. A sound filter denies present keys if it belongs to another
/// SST, to an earlier state of the SST, or to another hasher. Only the caller knows which filter is
/// the right one.
///
/// Initialise the struct with zeros, then set `hasher` and `table_id` (or
/// `FILTERBLOCK_EXPECT_ANY_TABLE`), and a flag for each further member that you set. The library
/// refuses a flag that it does not know.
#[repr(C)]
pub struct ExpectedInfo {
    /// The hasher of the keys. It must not be NULL.
    pub hasher: *const Hasher,
    /// The id of the SST, as passed to `filterblock_builder_set_table_id`. Zeros name no SST, and are
    /// refused unless `checksum` is expected.
    pub table_id: [u8; 16],
    /// The sum of `FILTERBLOCK_EXPECT_...` flags.
    pub flags: u32,
    /// Read with `FILTERBLOCK_EXPECT_CHECKSUM`.
    pub checksum: u32,
    /// Read with `FILTERBLOCK_EXPECT_NUM_ENTRIES`.
    pub num_entries: u64,
    /// Read with `FILTERBLOCK_EXPECT_PREFIXES`: UTF-8 that a zero byte ends.
    pub extractor: *const c_char,
    /// Where the filter begins in the caller's file, in bytes. Errors count offsets from the start
    /// of the file. 0 if errors should count from the start of the filter.
    pub offset: u64,
}

impl ExpectedInfo {
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn is_any_table(&self) -> bool {
        self.has(FILTERBLOCK_EXPECT_ANY_TABLE)
    }

    /// Returns what the caller expects.
    ///
    /// # Safety
    /// The pointers of the struct are NULL or valid during `'a`.
    #[inline]
    pub(crate) unsafe fn read<'a>(&self) -> Result<Expected<'a>, Failure> {
        if self.flags & !ALL_FLAGS != 0 {
            return Err(Failure::Invalid("expected.flags has a flag of a newer version; use a newer library"));
        }
        // SAFETY: the caller promises it.
        let hasher = unsafe { raw::object(self.hasher) };
        let Hasher(hasher) = hasher.ok_or(Failure::Null("expected.hasher"))?;
        let mut expected = match self.is_any_table() {
            true => Expected::of_any_table(hasher),
            false => Expected::of_table(self.table_id, hasher),
        };
        if self.has(FILTERBLOCK_EXPECT_NUM_ENTRIES) {
            expected = expected.with_num_entries(self.num_entries);
        }
        if self.has(FILTERBLOCK_EXPECT_CHECKSUM) {
            expected = expected.with_checksum(self.checksum);
        }
        if self.has(FILTERBLOCK_EXPECT_PREFIXES) {
            // SAFETY: the caller promises it.
            let extractor = unsafe { raw::text(self.extractor) };
            expected = expected.with_prefixes(extractor.ok_or(Failure::Null("expected.extractor"))?);
        }
        Ok(expected.at_offset(self.offset))
    }

    /// Opens a block that meets the expectations.
    ///
    /// # Safety
    /// The caller must uphold the contract of [`read`](Self::read).
    pub(crate) unsafe fn open(&self, data: SharedBytes, verify: u32) -> Result<FilterBlock<SharedBytes>, Failure> {
        let verify = match verify {
            FILTERBLOCK_VERIFY_AT_OPEN => Verify::AtOpen,
            FILTERBLOCK_VERIFY_ON_FIRST_TOUCH => Verify::OnFirstTouch,
            _ => return Err(Failure::Invalid("verify is not a FILTERBLOCK_VERIFY_... value; pass one of them")),
        };
        if !self.is_any_table() {
            // SAFETY: the caller upholds the contract of this function.
            return Ok(FilterBlock::open(data, &unsafe { self.read() }?, verify)?);
        }
        let block = LockedBlock::open(data, verify).map_err(|error| error.moved_by(self.offset))?;
        // The block's own table id and checksum meet every other expectation. A block without a
        // table id is identified by its checksum alone.
        let mut own = Self { table_id: block.metadata().table_id, flags: self.flags, ..*self };
        own.flags &= !FILTERBLOCK_EXPECT_ANY_TABLE;
        if !self.has(FILTERBLOCK_EXPECT_CHECKSUM)
            && let Some(checksum) = layout::checksum_of(block.as_bytes())
        {
            (own.flags, own.checksum) = (own.flags | FILTERBLOCK_EXPECT_CHECKSUM, checksum);
        }
        // SAFETY: the caller upholds the contract of this function.
        Ok(block.unlock_expecting(&unsafe { own.read() }?)?)
    }
}
