//! Reads what a caller expects of a filter, and opens filters that meet the expectations.
#![expect(unsafe_code, reason = "reads pointers of the caller's struct")]

use std::ffi::c_char;

use filterblock::{Expected, FilterBlock, ParsedBlock, SharedBytes, Verify, layout};

use crate::error::Failure;
use crate::hasher::Hasher;
use crate::raw;

/// The flag of a caller that does not know the SST and accepts the filter of any SST. The library
/// does not read `table_id`. A filter of another SST then goes unnoticed and can deny present keys.
pub const FILTERBLOCK_EXPECT_ANY_TABLE: u32 = 1;
/// This flag states that `num_entries` is the number of entries of the SST. A filter of an SST
/// without entries must have no keys and no prefixes. For other SSTs, a filter of prefixes only may
/// be empty, and any other filter must have at least one key or prefix. A filter without prefixes
/// must have at most as many keys as the SST has entries.
pub const FILTERBLOCK_EXPECT_NUM_ENTRIES: u32 = 2;
/// This flag states that the filter must have the checksum `checksum`. The caller got it from
/// `filterblock_block_checksum` when the filter was written. The checksum detects a stale filter of
/// the same SST.
pub const FILTERBLOCK_EXPECT_CHECKSUM: u32 = 4;
/// This flag states that the filter must have prefixes of the extractor `extractor`. Without the
/// flag, a filter of prefixes only does not open.
pub const FILTERBLOCK_EXPECT_PREFIXES: u32 = 8;

const ALL_FLAGS: u32 = FILTERBLOCK_EXPECT_ANY_TABLE
    | FILTERBLOCK_EXPECT_NUM_ENTRIES
    | FILTERBLOCK_EXPECT_CHECKSUM
    | FILTERBLOCK_EXPECT_PREFIXES;

/// Verify all pages when the filter is opened.
pub const FILTERBLOCK_VERIFY_AT_OPEN: u32 = 0;
/// Verify each page before a query first denies a key because of that page. If the page is damaged,
/// the query answers "maybe", and the page is counted. The index of a filter in partitions is
/// always verified when the filter is opened.
pub const FILTERBLOCK_VERIFY_ON_FIRST_TOUCH: u32 = 1;

/// What the caller expects of a filter. A sound filter can deny present keys if it belongs to
/// another SST, to an earlier state of the SST, or to another hasher. Only the caller knows which
/// filter is the right one.
///
/// Initialise the struct with zeros. Set `hasher`, and either `table_id` or the flag
/// `FILTERBLOCK_EXPECT_ANY_TABLE`. For each further expectation, set its member and its flag.
/// An unknown flag is an error: `INVALID`.
#[repr(C)]
pub struct ExpectedInfo {
    /// The hasher of the keys. It must not be NULL.
    pub hasher: *const Hasher,
    /// The id of the SST: see `table_id` in `filterblock_options`. The library does
    /// not read it with `FILTERBLOCK_EXPECT_ANY_TABLE`. An id of zeros names no SST. Such an id
    /// without the flag `FILTERBLOCK_EXPECT_CHECKSUM` is an error: `INVALID`.
    pub table_id: [u8; 16],
    /// The flags `FILTERBLOCK_EXPECT_...`, combined by OR.
    pub flags: u32,
    /// The expected checksum. The library reads it only with `FILTERBLOCK_EXPECT_CHECKSUM`.
    pub checksum: u32,
    /// The number of entries of the SST. The library reads it only with
    /// `FILTERBLOCK_EXPECT_NUM_ENTRIES`.
    pub num_entries: u64,
    /// The name of the extractor: UTF-8 that ends with a zero byte. The library reads it only with
    /// `FILTERBLOCK_EXPECT_PREFIXES`.
    pub extractor: *const c_char,
    /// The offset of the filter in the caller's file, in bytes. The library adds it to the offsets
    /// in errors.
    pub offset: u64,
}

impl ExpectedInfo {
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn is_any_table(&self) -> bool {
        self.has(FILTERBLOCK_EXPECT_ANY_TABLE)
    }

    /// Converts the struct into expectations of the library.
    ///
    /// # Safety
    /// The pointers of the struct are NULL or valid during `'a`.
    #[inline]
    pub(crate) unsafe fn read<'a>(&self) -> Result<Expected<'a>, Failure> {
        if self.flags & !ALL_FLAGS != 0 {
            return Err(Failure::Invalid(
                "expected.flags has an unknown flag; pass only FILTERBLOCK_EXPECT_... flags, or use a newer library",
            ));
        }
        // SAFETY: the caller upholds the contract of this function.
        let hasher = unsafe { raw::object(self.hasher) };
        let Hasher(hasher) = hasher.ok_or(Failure::Member("expected.hasher"))?;
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
            // SAFETY: the caller upholds the contract of this function.
            let extractor = unsafe { raw::text(self.extractor) };
            expected = expected.with_prefixes(extractor.ok_or(Failure::Text("expected.extractor"))?);
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
            _ => {
                return Err(Failure::Invalid(
                    "verify is neither FILTERBLOCK_VERIFY_AT_OPEN nor FILTERBLOCK_VERIFY_ON_FIRST_TOUCH; pass one of \
                     the two",
                ));
            }
        };
        if !self.is_any_table() {
            // SAFETY: the caller upholds the contract of this function.
            return Ok(FilterBlock::open(data, &unsafe { self.read() }?, verify)?);
        }
        let block = ParsedBlock::open(data, verify).map_err(|error| error.moved_by(self.offset))?;
        // The caller accepts any SST, so this function expects the block's own table id. Unless the
        // caller expects a checksum, the function also expects the block's own checksum. Without a
        // checksum, the library does not open a block that has no table id.
        let mut own = Self { table_id: block.metadata().table_id, flags: self.flags, ..*self };
        own.flags &= !FILTERBLOCK_EXPECT_ANY_TABLE;
        if !self.has(FILTERBLOCK_EXPECT_CHECKSUM)
            && let Some(checksum) = layout::checksum_of(block.as_bytes())
        {
            (own.flags, own.checksum) = (own.flags | FILTERBLOCK_EXPECT_CHECKSUM, checksum);
        }
        // SAFETY: the caller upholds the contract of this function.
        Ok(block.bind(&unsafe { own.read() }?)?)
    }
}
