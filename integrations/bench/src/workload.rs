//! Makes the keys that are measured: 16 bytes each, spread evenly over the key range.

/// The value of each present key.
pub const VALUE: &[u8] = &[7; 100];

/// Returns the present keys in a pseudo-random order. Consecutive keys of the list spread over the
/// whole key range, so large parts of the list become runs that overlap.
#[must_use]
pub fn present_keys(n: usize) -> Vec<Vec<u8>> {
    (0..n as u64).map(|i| key(2 * i)).collect()
}

/// Returns keys that [`present_keys`] never returns, in a pseudo-random order.
#[must_use]
pub fn absent_keys(n: usize) -> Vec<Vec<u8>> {
    (0..n as u64).map(|i| key(2 * i + 1)).collect()
}

/// Returns the key of a number. Two numbers never share a key, because each step of the mix is a
/// bijection.
fn key(number: u64) -> Vec<u8> {
    // The finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    format!("{mixed:016x}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn present_and_absent_keys_are_distinct() {
        let all: HashSet<_> = present_keys(10_000).into_iter().chain(absent_keys(10_000)).collect();
        assert_eq!(all.len(), 20_000);
        assert!(all.iter().all(|key| key.len() == 16));
    }
}
