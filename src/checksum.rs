//! CRC-32 (IEEE 802.3, reflected polynomial 0xEDB88320), by `crc32fast`.

#[cfg(feature = "lsm")]
use std::io::{self, Write};

/// A running CRC-32.
#[derive(Debug, Clone, Default)]
pub struct Crc32(crc32fast::Hasher);

impl Crc32 {
    /// The sum of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum, with `bytes` added.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        self.update(bytes);
        self
    }

    /// The sum of everything added.
    #[must_use]
    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}

/// The CRC-32 of `bytes`.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    Crc32::new().with(bytes).finish()
}

/// Passes bytes on and sums those that the inner writer took, which after a short write are not all it was offered.
#[cfg(feature = "lsm")]
#[derive(Debug)]
pub struct ChecksumWriter<W> {
    inner: W,
    crc: Crc32,
}

#[cfg(feature = "lsm")]
impl<W: Write> ChecksumWriter<W> {
    /// Starts a sum over what goes to `inner` from now on.
    pub fn new(inner: W) -> Self {
        Self { inner, crc: Crc32::new() }
    }

    /// The inner writer and the sum of all it took.
    pub fn finish(self) -> (W, u32) {
        (self.inner, self.crc.finish())
    }
}

#[cfg(feature = "lsm")]
impl<W: Write> Write for ChecksumWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.crc.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard_holds() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[cfg(feature = "lsm")]
    #[test]
    fn a_short_write_is_summed_as_far_as_it_went() {
        struct OneByteAtATime(Vec<u8>);
        impl Write for OneByteAtATime {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.extend(bytes.first());
                Ok(bytes.len().min(1))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = ChecksumWriter::new(OneByteAtATime(Vec::new()));
        writer.write_all(b"123456789").unwrap();
        let (inner, sum) = writer.finish();
        assert_eq!((inner.0.as_slice(), sum), (b"123456789".as_slice(), 0xcbf4_3926));
    }
}
