//! Computes CRC-32 checksums (IEEE 802.3, reflected polynomial 0xEDB88320) with `crc32fast`.

/// A running CRC-32.
#[derive(Debug, Clone, Default)]
pub struct Crc32(crc32fast::Hasher);

impl Crc32 {
    /// Returns the running checksum of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a running checksum that continues after earlier bytes. `checksum` is the CRC-32 of
    /// the earlier bytes.
    #[must_use]
    pub fn continuing(checksum: u32) -> Self {
        Self(crc32fast::Hasher::new_with_initial(checksum))
    }

    /// Extends the checksum by `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the running checksum extended by `bytes`.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        self.update(bytes);
        self
    }

    /// Returns the CRC-32 of all bytes.
    #[must_use]
    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}

/// Returns the CRC-32 of `bytes`.
#[must_use]
#[inline]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_matches_the_check_value_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
