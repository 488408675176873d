//! Installs filter policies into the RocksDB of `librocksdb-sys`.
#![expect(unsafe_code, reason = "calls the shim in C++")]

use std::ffi::{CStr, c_char, c_void};
use std::fmt;

use filterblock::HashKind;
// The shim calls the C functions of `filterblock_ffi`.
use filterblock_ffi as _;
use librocksdb_sys::rocksdb_block_based_table_options_t;

/// The maximum length of an error message in bytes, with the zero byte at its end.
const MESSAGE_LEN: usize = 1024;

/// The settings of a policy: the filters of SSTs by level, the hash function of keys, and the
/// self-check. A spec is text such as `blocked-bloom:10` (bits per key) or
/// `bumped-ribbon:fpr=0.01`. The spec `none` makes no filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The spec for flushed SSTs, and for SSTs of the levels 0 to `lower_from_level - 1`.
    pub upper: String,
    /// The spec for all SSTs that get neither `upper` nor `bottommost`.
    pub lower: String,
    /// The spec for bottommost SSTs. It takes precedence over `upper` and `lower`. If it is empty,
    /// bottommost SSTs get `upper` or `lower` like other SSTs.
    pub bottommost: String,
    /// The first level whose SSTs get `lower`.
    pub lower_from_level: i32,
    /// The hash function of the keys. After a change of function, seed or secret, old filters
    /// answer "maybe" until a compaction rewrites their SSTs.
    pub hash: HashKind,
    /// The public seed of the hash function.
    pub seed: u64,
    /// The secret of the hash function: 16 or 32 random bytes. It is empty for [`HashKind::Xxh3`].
    pub secret: Vec<u8>,
    /// Whether each new filter is asked for all its keys before it is written.
    pub self_check: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            upper: "blocked-bloom:10".into(),
            lower: "bumped-ribbon:fpr=0.01".into(),
            bottommost: String::new(),
            lower_from_level: 1,
            hash: HashKind::Xxh3,
            seed: 0,
            secret: Vec::new(),
            self_check: true,
        }
    }
}

/// The counts of a policy.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// The number of filters that were built.
    pub filters_built: u64,
    /// The number of filters that could not be built. The SST got an always-maybe filter, or no
    /// filter if the builder could not be made. With `detect_filter_construct_corruption`, a failed
    /// self-check instead fails the flush or compaction.
    pub filters_failed: u64,
    /// The number of filters that were opened.
    pub filters_opened: u64,
    /// The number of filters that could not be opened because they are damaged. They answer "maybe"
    /// to every key. So do the filters that the next three fields count.
    pub filters_damaged: u64,
    /// The number of filters of a newer format.
    pub filters_of_newer_version: u64,
    /// The number of filters under another hash function, seed or secret.
    pub filters_of_other_hasher: u64,
    /// The number of filters that could not be opened for another reason, such as too little
    /// memory.
    pub filters_refused: u64,
    /// The number of queries of filters that could not be opened. Each may have cost a read of a
    /// data block.
    pub unfiltered_queries: u64,
}

/// The counters of a policy. They stay valid after the database is closed.
pub struct Counters(*mut c_void);

// SAFETY: the handle is a pointer to a shared pointer that does not change. The counters are
// atomic, and a mutex guards the message.
unsafe impl Send for Counters {}
// SAFETY: several threads may use the atomic counters and the guarded message at once.
unsafe impl Sync for Counters {}

impl Counters {
    /// Returns the counts of the policy so far.
    #[must_use]
    pub fn read(&self) -> Counts {
        let mut counts = Counts::default();
        // SAFETY: the handle is valid until `drop`, and `Counts` has the layout of the shim's
        // struct.
        unsafe { filterblock_rocksdb_read_counts(self.0, &raw mut counts) };
        counts
    }

    /// Returns the reason for the last failure to build or open a filter, cut to 1,023 bytes.
    /// Returns an empty text if there was no failure.
    #[must_use]
    pub fn last_error(&self) -> String {
        let mut message = [0; MESSAGE_LEN];
        // SAFETY: the handle is valid until `drop`, and `message` has the passed length.
        unsafe { filterblock_rocksdb_last_error(self.0, message.as_mut_ptr(), message.len()) };
        text(&message)
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        // SAFETY: the handle comes from `install`, and is freed once.
        unsafe { filterblock_rocksdb_free(self.0) };
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counters").field(&self.read()).finish()
    }
}

/// The error for invalid settings: a spec, a hash function, or a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSettings(String);

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidSettings {}

/// Makes a filter policy, and sets it in the options of a table. The new policy replaces the
/// previous policy.
///
/// # Errors
/// Returns an error if a spec, the hash function or the secret is invalid. Then the options do not
/// change.
///
/// # Safety
/// `options` must come from `rocksdb_block_based_options_create` of the `librocksdb-sys` that this
/// crate is built with. No other thread may use `options` during the call.
pub unsafe fn install(
    options: *mut rocksdb_block_based_table_options_t,
    settings: &Settings,
) -> Result<Counters, InvalidSettings> {
    let hash = match settings.hash {
        HashKind::Xxh3 => 0,
        HashKind::Xxh3Secret => 1,
        HashKind::SipHash13 => 2,
        other => {
            return Err(InvalidSettings(format!(
                "filterblock: the adapter does not support the hash function {other}; choose Xxh3, \
                 Xxh3Secret or SipHash13"
            )));
        }
    };
    let shim = ShimSettings {
        upper: settings.upper.as_ptr().cast(),
        upper_len: settings.upper.len(),
        lower: settings.lower.as_ptr().cast(),
        lower_len: settings.lower.len(),
        bottommost: settings.bottommost.as_ptr().cast(),
        bottommost_len: settings.bottommost.len(),
        secret: settings.secret.as_ptr().cast(),
        secret_len: settings.secret.len(),
        seed: settings.seed,
        lower_from_level: settings.lower_from_level,
        hash,
        self_check: settings.self_check,
    };
    let mut message = [0; MESSAGE_LEN];
    // SAFETY: the caller guarantees the options. The texts live during the call, and `message` has
    // the passed length.
    let handle = unsafe { filterblock_rocksdb_install(options, &raw const shim, message.as_mut_ptr(), message.len()) };
    if handle.is_null() { Err(InvalidSettings(text(&message))) } else { Ok(Counters(handle)) }
}

/// Returns the text before the first zero byte, or an empty text if there is no zero byte.
fn text(message: &[c_char; MESSAGE_LEN]) -> String {
    let bytes = message.map(|byte| byte.cast_unsigned());
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

#[repr(C)]
struct ShimSettings {
    upper: *const c_char,
    upper_len: usize,
    lower: *const c_char,
    lower_len: usize,
    bottommost: *const c_char,
    bottommost_len: usize,
    secret: *const c_char,
    secret_len: usize,
    seed: u64,
    lower_from_level: i32,
    hash: u32,
    self_check: bool,
}

unsafe extern "C" {
    fn filterblock_rocksdb_install(
        options: *mut rocksdb_block_based_table_options_t,
        settings: *const ShimSettings,
        message: *mut c_char,
        message_len: usize,
    ) -> *mut c_void;
    fn filterblock_rocksdb_read_counts(handle: *const c_void, counts: *mut Counts);
    fn filterblock_rocksdb_last_error(handle: *const c_void, message: *mut c_char, message_len: usize);
    fn filterblock_rocksdb_free(handle: *mut c_void);
}
