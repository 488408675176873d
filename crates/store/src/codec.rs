//! Adds to the core's codec the length of a varint and the order prefixes of keys.

pub use filterblock::internals::codec::*;

/// Returns the number of bytes that [`put_varint`] appends.
pub fn varint_len_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Returns the first eight bytes of `key` as an integer that sorts like the bytes. A shorter key is
/// padded with zeros.
///
/// `order_prefix(a) < order_prefix(b)` implies `a < b`. Equal prefixes do not decide the order.
#[must_use]
#[inline]
pub fn order_prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64_from(head).swap_bytes(),
        None => key.iter().enumerate().fold(0, |prefix, (i, &byte)| prefix | u64::from(byte) << (56 - 8 * i)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_prefixes_sort_like_the_keys() {
        let keys: [&[u8]; 8] =
            [b"", b"\0", b"a", b"a\0", b"ab", b"abcdefgh", b"abcdefghi", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"];
        for pair in keys.windows(2) {
            assert!(order_prefix(pair[0]) <= order_prefix(pair[1]));
        }
        assert_eq!(order_prefix(b"\x01\x02"), 0x0102_0000_0000_0000);
    }
}
