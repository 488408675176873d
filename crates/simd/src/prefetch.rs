//! Prefetches cache lines.
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(unsafe_code, reason = "prefetch instructions; see each block")
)]

/// The maximum payload length for which batch queries of most kinds skip the pass that only
/// prefetches. Builds of Bloom filters do not prefetch in payloads up to this length either.
///
/// In batches of 32 keys, the pass costs time in payloads of 1.25 and 2.5 MB, and saves a fifth of
/// the time in 6.25 MB (AVX-512, second-level cache of 1 MiB). `cargo bench --bench probe` measures
/// batches.
pub const RESIDENT_LEN_BYTES: usize = 2 << 20;

/// Prefetches the cache line of `values[index]`. Does nothing if `index` is above the length, or on
/// processors other than x86-64 and AArch64.
#[inline]
pub fn prefetch<T>(values: &[T], index: usize) {
    let Some(rest) = values.get(index..) else { return };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault; SSE is part of every x86-64 processor.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(rest.as_ptr().cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch reads nothing, cannot fault, and changes neither registers nor flags.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{line}]",
            line = in(reg) rest.as_ptr(),
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = rest;
}
