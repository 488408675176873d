//! Compresses Bloom filters for transport (Mitzenmacher, "Compressed Bloom filters", 2002).
//!
//! ```text
//! | magic 4 | probes 1 | seed 8 | bits, varint | ones, varint | arithmetic code of the bits | CRC-32 4 |
//! ```
//! If a share `p` of a filter's bits is zero, a bit takes `H(p)` bits on the wire on average, where
//! `H` is the binary entropy. A filter with as many ones as zeros cannot be compressed. A larger
//! filter with fewer probes can have a lower FPR at the same compressed size. The FPR of `n` keys
//! in `m` bits with `k` probes is `(1 - p)^k` with `p = e^(-kn/m)`.
//!
//! | bits per key in memory | probes | FPR | bits per key sent |
//! |---|---|---|---|
//! | 8 | 6 | 2.16 % | 7.98 |
//! | 14 | 2 | 1.77 % | 7.92 |
//! | 92 | 1 | 1.08 % | 7.92 |
//!
//! * When: a filter is sent often, and memory is cheaper than network traffic
//!   ([`Bloom::for_transport`] chooses the shape).
//! * When not: if all keys are known at once, a ribbon filter (`bumped-ribbon`) is smaller in
//!   memory and on the wire: 7.03 bits per key at 0.78 %.
//! * Numbers: the header and checksum take 19 to 37 bytes. In the tests of this file, the
//!   arithmetic code is longer than the entropy by at most 0.1 % and a few bytes.
//!
//! [`Bloom::decompress`] accepts untrusted bytes. The caller limits the number of bits.

mod coder;

use filterblock::internals::too_large;
use std::f64::consts::LN_2;

use coder::{Decoder, Encoder, Odds};

use super::shape::Shape;
use super::{Bloom, Membership};
use crate::error::{Error, Field, Result};
use filterblock::HashSeed;
use filterblock::internals::checksum::crc32;
use filterblock::internals::codec::{Cursor, put_u32, put_u64, put_varint};
use filterblock::internals::math::MAX_BLOOM_PROBES;
use filterblock_simd::NoMemory;

/// The first bytes of a compressed filter. Byte 0 is not ASCII text, and byte 3 is the version.
const MAGIC: [u8; 4] = *b"\x89CB\x01";
const CHECKSUM_LEN_BYTES: usize = 4;

/// Returns the entropy of a bit that is one with probability `ones_share`.
fn entropy(ones_share: f64) -> f64 {
    let part = |share: f64| if share > 0.0 { -share * share.log2() } else { 0.0 };
    part(ones_share) + part(1.0 - ones_share)
}

/// Returns the expected compressed size of a filter in bits per key. `bits_per_key` is the size of
/// the filter in memory.
fn sent_bits_per_key(bits_per_key: f64, probes: u32) -> f64 {
    bits_per_key * entropy(-(-f64::from(probes) / bits_per_key).exp_m1())
}

impl Bloom {
    /// Creates an empty filter for `capacity` keys, whose shape suits compression.
    /// `sent_bits_per_key` limits the expected compressed size at `capacity` keys, without header
    /// and checksum. `bits_per_key` limits the size in memory, which is rounded up to whole bytes.
    /// Within these limits, the FPR is about the lowest.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] unless `capacity > 0` and
    /// `0 < sent_bits_per_key <= bits_per_key <= 1024`, and [`Error::TooLarge`] if the filter does
    /// not fit in memory.
    pub fn for_transport(capacity: u64, sent_bits_per_key: f64, bits_per_key: f64, seed: HashSeed) -> Result<Self> {
        // NaN fails all comparisons.
        if capacity == 0 || !(sent_bits_per_key > 0.0 && sent_bits_per_key <= bits_per_key && bits_per_key <= 1024.0) {
            let given = format!("{sent_bits_per_key} bits per key sent, {bits_per_key} in memory, {capacity} keys");
            let reason = "expected at least one key, and 0 < bits sent <= bits in memory <= 1024 per key; try 8 bits \
                          per key sent, 14 in memory and 1000 keys";
            return Err(Error::invalid("size limits of a filter to be sent", given, reason));
        }
        let of_probes = |probes| {
            let bits = largest_sent_in(sent_bits_per_key, bits_per_key, probes);
            let rate = (-(-f64::from(probes) / bits).exp_m1()).powi(probes.cast_signed());
            (rate, bits, probes)
        };
        // With more probes than this limit, most bits would be ones, and the entropy would fall
        // again. At 14 bits per key in memory and 8 sent, 28 probes would have a slightly lower FPR
        // than 2 probes, but a hit would test 14 times as many bits.
        let all = (1..=MAX_BLOOM_PROBES).map(of_probes).filter(|(_, bits, k)| f64::from(*k) <= (bits * LN_2).ceil());
        let best = all.min_by(|a, b| a.0.total_cmp(&b.0));
        let (_, bits, probes) = best.ok_or(Error::TooLarge { what: "a Bloom filter" })?;
        let bits = (bits * capacity as f64).floor().max(1.0);
        // No machine has memory for 2^60 bits.
        if bits >= 60f64.exp2() {
            return Err(Error::TooLarge { what: "a Bloom filter" });
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 <= bits < 2^60")]
        let shape = Shape::new(bits as u64, probes)?;
        Self::of_shape(shape, seed)
    }

    /// Returns the filter as compressed bytes with a checksum.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if there is no memory for a copy of the filter or for the result.
    pub fn compress(&self) -> Result<Vec<u8>> {
        Ok(self.encoded().map_err(too_large("a compressed Bloom filter"))?)
    }

    fn encoded(&self) -> Result<Vec<u8>, NoMemory> {
        // Copy the bits first: other threads may insert keys at the same time, and the number of
        // ones in the header must match the encoded bits.
        let copy = self.try_clone().map_err(|_| NoMemory)?;
        let ones = copy.count_ones();
        let Shape { cells, probes } = self.shape();
        let mut bytes = MAGIC.to_vec();
        #[expect(clippy::cast_possible_truncation, reason = "at most 30")]
        bytes.push(probes as u8);
        put_u64(&mut bytes, self.seed().0);
        put_varint(&mut bytes, cells);
        put_varint(&mut bytes, ones);
        let mut encoder = Encoder::new(Odds::new(ones, cells), bytes);
        for (word, first) in copy.words().zip((0..cells).step_by(64)) {
            (0..(cells - first).min(64)).try_for_each(|bit| encoder.put(word >> bit & 1 == 1))?;
        }
        let mut bytes = encoder.finish()?;
        let checksum = crc32(&bytes);
        bytes.try_reserve(CHECKSUM_LEN_BYTES)?;
        put_u32(&mut bytes, checksum);
        Ok(bytes)
    }

    /// Reads the bytes that [`compress`](Self::compress) wrote. A few bytes can represent any
    /// number of bits, so the caller limits the filter to `most_bits`.
    ///
    /// # Errors
    /// * [`Error::Corrupt`] or [`Error::ChecksumMismatch`]: the bytes are too few, or the checksum,
    ///   the header or the number of ones is wrong.
    /// * [`Error::Unsupported`]: the bytes are from a newer version.
    /// * [`Error::TooLarge`]: the filter has more than `most_bits` bits, or does not fit in memory.
    pub fn decompress(bytes: &[u8], most_bits: u64) -> Result<Self> {
        let corrupt = |field, offset| Error::Corrupt { field, offset };
        let Some((body, checksum)) = bytes.split_last_chunk::<CHECKSUM_LEN_BYTES>() else {
            return Err(corrupt(Field::Length, bytes.len() as u64));
        };
        let (stored, computed) = (filterblock::internals::codec::u32_from(checksum), crc32(body));
        if stored != computed {
            return Err(Error::ChecksumMismatch { field: Field::CompressedBits, offset: 0, stored, computed });
        }
        let mut cursor = Cursor::new(body, 0);
        let [magic @ .., version] = cursor.take_array::<{ MAGIC.len() }, _>(Field::Magic)?;
        let [expected @ .., newest] = MAGIC;
        if magic != expected || version == 0 {
            return Err(corrupt(Field::Magic, 0));
        }
        if version > newest {
            return Err(Error::Unsupported { field: Field::Version, found: version.into() });
        }
        let probes = cursor.take_u8(Field::Params)?.into();
        let seed = HashSeed(cursor.take_u64(Field::Seed)?);
        let cells = cursor.take_varint(Field::PayloadLen)?;
        let ones = cursor.take_varint(Field::PayloadLen)?;
        let offset = cursor.offset();
        let shape = Shape::new(cells, probes).map_err(|_| corrupt(Field::Params, 4))?;
        if shape.cells != cells || ones > cells {
            return Err(corrupt(Field::PayloadLen, offset));
        }
        if cells > most_bits {
            let what = "the compressed filter has more bits than `most_bits` allows; raise `most_bits` if you trust \
                        the sender, or ask for a smaller filter";
            return Err(Error::TooLarge { what });
        }
        let code = body.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let filter = Self::of_shape(shape, seed)?;
        let mut decoder = Decoder::new(Odds::new(ones, cells), code);
        for (index, first) in (0..cells).step_by(64).enumerate() {
            let word = (0..(cells - first).min(64)).fold(0, |word, bit| word | u64::from(decoder.next_bit()) << bit);
            filter.or_word(index, word);
        }
        // With fewer ones than were sent, the filter could deny present keys.
        if filter.count_ones() != ones {
            return Err(corrupt(Field::CompressedBits, offset));
        }
        Ok(filter)
    }
}

/// Returns the largest size in memory, at most `most` bits per key, whose compressed size is at
/// most `sent` bits per key. It bisects, because the compressed size grows with the size in memory.
fn largest_sent_in(sent: f64, most: f64, probes: u32) -> f64 {
    let (mut fits, mut too_many) = (0.0, most);
    if sent_bits_per_key(most, probes) <= sent {
        return most;
    }
    for _ in 0..64 {
        let middle = f64::midpoint(fits, too_many);
        if sent_bits_per_key(middle, probes) <= sent { fits = middle } else { too_many = middle }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use filterblock::internals::codec::u64_bytes;

    fn filter(keys: u64, bits: u64, probes: u32) -> Bloom {
        let bloom = Bloom::with_shape(bits, probes, HashSeed(11)).unwrap();
        (0..keys).for_each(|i| _ = bloom.insert(&u64_bytes(i)));
        bloom
    }

    #[test]
    fn a_filter_survives_compression_unchanged() {
        for (keys, bits, probes) in [(0, 8, 1), (0, 100_000, 7), (1, 72, 30), (9, 72, 30), (1_000, 10_008, 7)] {
            let sent = filter(keys, bits, probes);
            let found = Bloom::decompress(&sent.compress().unwrap(), bits).unwrap();
            assert!(sent.words().eq(found.words()) && sent.shape() == found.shape(), "{keys} {bits} {probes}");
            assert_eq!(sent.seed(), found.seed());
        }
    }

    #[test]
    fn truncated_or_changed_bytes_are_an_error() {
        let bytes = filter(20, 400, 3).compress().unwrap();
        for len in 0..bytes.len() {
            assert!(Bloom::decompress(&bytes[..len], 400).is_err(), "{len} bytes");
        }
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Bloom::decompress(&changed, u64::MAX).unwrap_err().is_damage(), "bit {bit}");
        }
    }

    #[test]
    fn bytes_with_a_correct_checksum_are_still_checked() {
        let sealed = |mut body: Vec<u8>| {
            let checksum = crc32(&body);
            put_u32(&mut body, checksum);
            Bloom::decompress(&body, 1 << 20)
        };
        let bytes = filter(20, 400, 3).compress().unwrap();
        let body = &bytes[..bytes.len() - 4];
        assert!(sealed(body.to_vec()).is_ok());
        let mut newer = body.to_vec();
        newer[3] += 1;
        assert!(matches!(sealed(newer), Err(Error::Unsupported { field: Field::Version, .. })));
        for (at, value) in [(0, 0), (3, 0), (4, 0), (4, 31)] {
            let mut other = body.to_vec();
            other[at] = value;
            assert!(matches!(sealed(other), Err(Error::Corrupt { .. })), "{at}");
        }
        let with = |cells, ones, code: &[u8]| {
            let mut other = body[..13].to_vec();
            put_varint(&mut other, cells);
            put_varint(&mut other, ones);
            sealed([other, code.to_vec()].concat())
        };
        assert!(matches!(with(1 << 21, 0, &[]), Err(Error::TooLarge { .. })));
        assert!(matches!(with(u64::MAX - 7, 0, &[]), Err(Error::TooLarge { .. })));
        for (cells, ones) in [(0, 0), (7, 0), (u64::MAX, 0), (8, 9)] {
            assert!(matches!(with(cells, ones, &[]), Err(Error::Corrupt { .. })), "{cells} {ones}");
        }
        // The code has fewer ones than the header says.
        assert!(matches!(with(800, 400, &[0xff; 9]), Err(Error::Corrupt { field: Field::CompressedBits, .. })));
        // The decoder neither panics nor loops forever.
        (0..=255).for_each(|byte| _ = with(80, 40, &[byte; 5]));
    }

    #[test]
    fn a_shape_for_transport_keeps_both_limits() {
        for (sent, memory, probes) in [(8.0, 14.0, 2), (8.0, 92.0, 1), (8.0, 8.0, 6), (16.0, 28.0, 4), (16.0, 48.0, 3)]
        {
            let bloom = Bloom::for_transport(10_000, sent, memory, HashSeed(1)).unwrap();
            assert!(bloom.num_bits() as f64 <= memory * 10_000.0 + 8.0);
            (0..10_000u64).for_each(|i| _ = bloom.insert(&u64_bytes(i)));
            let len = bloom.compress().unwrap().len() as f64 * 8.0 / 10_000.0;
            assert!(len < sent * 1.01 && len > sent * 0.97, "{sent} and {memory}: {len}");
            assert_eq!(bloom.num_probes(), probes, "{sent} and {memory}");
        }
        for (capacity, sent, memory) in [(0, 8.0, 9.0), (1, 0.0, 9.0), (1, 9.0, 8.0), (1, f64::NAN, 9.0), (1, 8.0, 2e3)]
        {
            assert!(matches!(Bloom::for_transport(capacity, sent, memory, HashSeed(1)), Err(Error::Invalid { .. })));
        }
    }
}
