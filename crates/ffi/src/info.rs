//! Plans filters, describes open filters, and returns versions and the checksums of blocks.
#![expect(unsafe_code, reason = "exported functions take pointers of the caller")]

use std::ffi::{CStr, c_char, c_void};

use filterblock::planning::Plan;
use filterblock::{FilterBlock, SharedBytes, layout};

use crate::border;
use crate::error::{Code, ErrorInfo, Failure, copy_text};
use crate::filter::Filter;
use crate::raw;

/// The version of the ABI of this header. It changes only if a function or a struct changes
/// incompatibly. New functions do not change it. Compare it with `filterblock_abi_version()`.
pub const FILTERBLOCK_ABI_VERSION: u32 = 1;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("the version has a zero byte"),
};

/// Returns the version of the library, such as `"0.1.0"`. Do not free the text.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns the version of the ABI of the library: see `FILTERBLOCK_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_abi_version() -> u32 {
    FILTERBLOCK_ABI_VERSION
}

/// Returns whether a code means damaged bytes: `CORRUPT` and `CHECKSUM_MISMATCH`. Bytes of a newer
/// version are not damaged: `UNSUPPORTED`. For the compact form, `CHECKSUM_MISMATCH` can also mean
/// another hasher.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_code_is_damage(code: u32) -> bool {
    code == Code::Corrupt as u32 || code == Code::ChecksumMismatch as u32
}

/// The planned size, false-positive rate (FPR) and query cost of a filter.
#[repr(C)]
pub struct PlanInfo {
    /// The length of the payload in bytes: the filter without checksums and trailer.
    pub payload_len_bytes: u64,
    /// The length of the whole block in bytes.
    pub block_len_bytes: u64,
    /// The bits of the payload per key.
    pub bits_per_key: f64,
    /// The share of absent keys for which the filter answers "maybe", from 0 to 1. For a range
    /// filter, it is an upper bound on this share of the ranges without a key, if the ranges have
    /// the planned length.
    pub expected_fpr: f64,
    /// The mean number of cache lines of 64 bytes that a query of an absent key reads.
    pub lines_if_absent: f64,
    /// The mean number of cache lines of 64 bytes that a query of a present key reads.
    pub lines_if_present: f64,
}

/// Plans a filter of `spec` for `num_keys` keys, without building it. The length of the payload is
/// exact for Bloom filters, and can differ from the built filter for other kinds.
///
/// Returns `INVALID` if `spec` is not a specification, if `num_keys` is 0 or above 2^56, or if no
/// filter of that many keys is possible with this specification.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_plan(
    spec: *const c_char,
    num_keys: u64,
    plan: *mut PlanInfo,
    error: *mut ErrorInfo,
) -> Code {
    // SAFETY: the header asks for valid pointers.
    border::code(unsafe {
        border::report(error, || {
            let spec = raw::text(spec).ok_or(Failure::Text("spec"))?.parse()?;
            let planned = Plan::new(spec, num_keys)?;
            if raw::write(plan, PlanInfo::of(&planned)) { Ok(()) } else { Err(Failure::Null("plan")) }
        })
    })
}

impl PlanInfo {
    fn of(plan: &Plan) -> Self {
        let payload_len_bytes = plan.payload_len_bytes();
        let block_len_bytes = layout::block_len_bytes(payload_len_bytes, plan.record_len_bytes());
        Self {
            payload_len_bytes,
            block_len_bytes: block_len_bytes.unwrap_or(u64::MAX),
            bits_per_key: plan.bits_per_key(),
            expected_fpr: plan.expected_fpr(),
            lines_if_absent: plan.lines_if_absent(),
            lines_if_present: plan.lines_if_present(),
        }
    }
}

/// Sets `checksum` to the checksum of a filter block, which identifies the block. Store the
/// checksum outside of the block, and expect it when you open the block
/// (`FILTERBLOCK_EXPECT_CHECKSUM`). The function does not verify the block.
///
/// Returns `true` if the checksum was set. Returns `false` if `data` is NULL or too short for a
/// block, or if `checksum` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_block_checksum(data: *const c_void, data_len: usize, checksum: *mut u32) -> bool {
    // SAFETY: the header asks for valid pointers.
    unsafe {
        let found = raw::bytes(data, data_len).and_then(|bytes| border::or(None, || layout::checksum_of(bytes)));
        found.is_some_and(|found| raw::write(checksum, found))
    }
}

/// The metadata of an open filter.
#[repr(C)]
pub struct MetadataInfo {
    /// The number of distinct keys and prefixes. A prefix counts once per partition that has it.
    pub num_keys: u64,
    /// The number of partitions. It is 0 for a filter in one piece, and for a partition index
    /// without partitions.
    pub num_partitions: u64,
    /// The length of the payload in bytes: the filter without checksums and trailer.
    pub payload_len_bytes: u64,
    /// The length of the whole block in bytes.
    pub block_len_bytes: u64,
    /// The expected share of absent keys for which the filter answers "maybe", from 0 to 1. For a
    /// range filter alone, it is this share of the ranges without a key. For a filter with only
    /// prefixes, it is this share of the absent prefixes.
    pub expected_fpr: f64,
    /// The seed of the hasher.
    pub hash_seed: u64,
    /// The maximum number of bits that must match for "maybe". It is 0 for filters without such
    /// bits, for example range filters. For a filter in partitions, it is the maximum of the first
    /// partition, or 0 if there are no partitions.
    pub probes: u32,
    /// The hash function: 1 for XXH3, 2 for XXH3 with a secret, 3 for SipHash-1-3.
    pub hash_function: u32,
    /// The id of the SST. It is all zeros if the filter has no id.
    pub table_id: [u8; 16],
    /// Whether the filter has the hashes of whole keys. Otherwise the filter has only prefixes or
    /// is a range filter, and answers "maybe" for every hash of a key.
    pub has_whole_keys: bool,
    /// Whether the filter has prefixes.
    pub has_prefixes: bool,
    /// The kind of the filter, such as `"blocked-bloom"`. For a filter in partitions, it is the
    /// kind of the first partition, or `"empty"` if there is none. A zero byte ends the text.
    pub kind: [c_char; 30],
    /// The name of the extractor that took the prefixes. It is empty if the filter has no prefixes.
    /// A zero byte ends the text.
    pub extractor: [c_char; 104],
}

/// Sets `metadata` to the metadata of the filter. Reads no page of the filter.
///
/// Returns `NULL_ARGUMENT` if `filter` or `metadata` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_filter_metadata(
    filter: Option<&Filter>,
    metadata: *mut MetadataInfo,
    error: *mut ErrorInfo,
) -> Code {
    // SAFETY: the header asks for valid pointers.
    border::code(unsafe {
        border::report(error, || {
            let block = Filter::ready(filter).ok_or(Failure::Null("filter"))?;
            if raw::write(metadata, MetadataInfo::of(block)) { Ok(()) } else { Err(Failure::Null("metadata")) }
        })
    })
}

impl MetadataInfo {
    fn of(block: &FilterBlock<SharedBytes>) -> Self {
        let found = block.metadata();
        let (mut kind, mut extractor) = ([0; 30], [0; 104]);
        copy_text(found.kind.name(), &mut kind);
        copy_text(found.extractor.unwrap_or_default(), &mut extractor);
        Self {
            num_keys: found.num_keys,
            num_partitions: found.num_partitions as u64,
            payload_len_bytes: found.payload_len_bytes,
            block_len_bytes: found.block_len_bytes,
            expected_fpr: block.expected_fpr(),
            hash_seed: found.hash.seed.0,
            probes: found.probes,
            hash_function: found.hash.kind as u32,
            table_id: found.table_id,
            has_whole_keys: found.added.whole_keys(),
            has_prefixes: found.extractor.is_some(),
            kind,
            extractor,
        }
    }
}
