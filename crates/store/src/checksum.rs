//! Computes CRC-32 checksums (IEEE 802.3, reflected polynomial 0xEDB88320) with `crc32fast`.

/// A CRC-32 that is computed piece by piece.
#[derive(Debug, Clone, Default)]
pub struct Crc32(crc32fast::Hasher);

impl Crc32 {
    /// Starts a checksum that covers no bytes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `bytes` to the bytes that the checksum covers.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Appends `bytes` as [`Self::update`] does, and returns the extended checksum.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        self.update(bytes);
        self
    }

    /// Returns the CRC-32 of all bytes that the checksum covers.
    #[must_use]
    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}

/// Computes the CRC-32 of `bytes`.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    Crc32::new().with(bytes).finish()
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
