//! Reads and builds the Bloom filter of a Parquet column chunk. A block has eight lanes of 32 bits,
//! and a value sets one bit in each lane of one block.
//!
//! The layout of a block is that of [`FilterKind::SplitBlock`](filterblock::FilterKind) with 256 bits.
//! The hash, the choice of the block and the multipliers differ. The hash is XXH64 of the value's
//! plain encoding. Its high half chooses the block, and its low half chooses the bits.

use xxhash_rust::xxh64::xxh64;

use filterblock::internals::codec::put_varint;
use filterblock_foreign::ForeignFilterInfo;
use filterblock_simd::{Isa, Simd, kernels, prefetch};

use crate::error::{Error, Field, Result, check_rate};
use crate::thrift::{Fields, Kind};

/// The length of a block. The bits of a filter are whole blocks.
pub(crate) const BLOCK_LEN_BYTES: usize = 32;
/// The bytes of one block: eight lanes of 32 bits.
pub(crate) type Block = [u8; BLOCK_LEN_BYTES];

/// The number of lanes of a block, which is also the number of bits that a value sets.
const LANES: u32 = 8;
/// The maximum number of blocks. The header stores their length in bytes as a signed 32-bit
/// integer.
const MAX_BLOCKS: usize = i32::MAX as usize / BLOCK_LEN_BYTES;
/// The range of lengths that the crate `parquet` and Arrow write. They write powers of two.
const WRITTEN_LEN_BYTES: std::ops::RangeInclusive<usize> = 32..=128 << 20;

const SALT: [u32; LANES as usize] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];
/// The number of values whose blocks are prefetched before the first value is tested.
const BATCH: usize = 32;

#[inline]
fn hash(value: &[u8]) -> u64 {
    xxh64(value, 0)
}

/// Returns the number of a value's block in a filter of `blocks` blocks, at most 2^32.
#[inline]
pub(crate) fn block_number(hash: u64, blocks: u64) -> u64 {
    ((hash >> 32) * blocks) >> 32
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the number is below the length of the slice")]
fn block_index(hash: u64, blocks: &[Block]) -> usize {
    block_number(hash, blocks.len() as u64) as usize
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "only the low half chooses bits")]
fn low_half(hash: u64) -> u32 {
    hash as u32
}

#[inline]
pub(crate) fn mask(hash: u64) -> Block {
    let mut mask = [0; BLOCK_LEN_BYTES];
    for (lane, salt) in mask.as_chunks_mut::<4>().0.iter_mut().zip(SALT) {
        *lane = (1_u32 << (low_half(hash).wrapping_mul(salt) >> 27)).to_le_bytes();
    }
    mask
}

#[inline]
pub(crate) fn unite(block: &mut Block, more: &Block) {
    block.iter_mut().zip(more).for_each(|(byte, more)| *byte |= more);
}

/// The bytes of a header after the length: three unions, each with an empty struct as its first
/// field, and the end byte of the header.
const UNIONS: [u8; 13] = [0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0];
/// The byte before the length: field 1, type i32.
const LEN_FIELD: u8 = 0x15;
/// The unions in the fields 2 to 4. In each, member 1 is the supported one: split blocks, XXH64,
/// uncompressed.
const UNION_NAMES: [&str; 3] = ["filter kind", "hash function", "filter compression"];

/// Reads the header at the start of `bytes`. Returns two lengths in bytes: of the header, and of the
/// bits after it. The bits have one or more whole blocks and less than 2 GiB.
fn lengths(bytes: &[u8]) -> Result<(usize, usize)> {
    let invalid = || Error::corrupt(Field::FilterHeader, 0);
    let mut header = Fields::new(bytes);
    let (mut len, mut members) = (None, [None; UNION_NAMES.len()]);
    // Readers differ in which of two fields with one number they use.
    let mut is_twice = false;
    for field in header.by_ref() {
        let field = field.map_err(|_| invalid())?;
        let union = field.id.checked_sub(2).and_then(|at| members.get_mut(usize::try_from(at).ok()?));
        match (field.id, union) {
            (1, _) => is_twice |= len.replace(field.int()).is_some(),
            (_, Some(member)) if field.kind == Kind::STRUCT => {
                let mut of_union = Fields::new(&field.value);
                match (of_union.next(), of_union.next()) {
                    (Some(Ok(one)), None) => is_twice |= member.replace(one.id).is_some(),
                    _ => return Err(invalid()),
                }
            }
            _ => {}
        }
    }
    for (member, name) in members.into_iter().zip(UNION_NAMES) {
        match member {
            Some(1) if !is_twice => {}
            Some(number) if !is_twice => {
                return Err(Error::unsupported(
                    format!("{name} {number} is not supported by this version of filterblock"),
                    "use a newer version, or let the engine write the file with the usual filters",
                ));
            }
            _ => return Err(invalid()),
        }
    }
    // The format stores the length as a signed 32-bit integer.
    let bits_len = len.flatten().and_then(|len| usize::try_from(i32::try_from(len).ok()?).ok());
    let bits_len = bits_len.filter(|len| *len > 0 && len.is_multiple_of(BLOCK_LEN_BYTES));
    Ok((header.len_bytes(), bits_len.ok_or_else(invalid)?))
}

fn header_of(bits_len_bytes: usize) -> Vec<u8> {
    let mut header = vec![LEN_FIELD];
    put_varint(&mut header, bits_len_bytes as u64 * 2);
    header.extend_from_slice(&UNIONS);
    header
}

kernels! {
    struct Kernel[];
    |simd|

    fn may_contain(blocks: &[Block], hash: u64) -> bool {
        all_set(simd, blocks, hash)
    }

    /// Writes the answer for each hash to `answers`. It stops at the end of the shorter slice.
    fn may_contain_batch(blocks: &[Block], hashes: &[u64], answers: &mut [bool]) {
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            *answer = all_set(simd, blocks, hash);
        }
    }

    fn num_denied(blocks: &[Block], hashes: &[u64]) -> usize {
        hashes.iter().filter(|&&hash| !all_set(simd, blocks, hash)).count()
    }

    fn set(blocks: &mut [Block], hashes: &[u64]) {
        for &hash in hashes {
            let number = block_index(hash, blocks);
            if let Some(block) = blocks.get_mut(number) {
                simd.set_in_lanes_of_32(block, low_half(hash), &SALT);
            }
        }
    }
}

/// Returns whether a value's bit is set in every lane of its block. Without blocks the answer is
/// "maybe".
#[inline(always)]
fn all_set(simd: impl Simd, blocks: &[Block], hash: u64) -> bool {
    let Some(block) = blocks.get(block_index(hash, blocks)) else { return true };
    simd.all_set_in_lanes_of_32(block, low_half(hash), &SALT)
}

/// A split-block Bloom filter, read in place.
#[derive(Debug, Clone, Copy)]
pub struct ParquetBloom<'a> {
    /// The blocks of the filter. Without blocks, every answer is "maybe".
    blocks: &'a [Block],
    len: usize,
    kernel: Kernel,
}

impl<'a> ParquetBloom<'a> {
    /// Reads the filter in `bits`, without a header. If `bits` are empty, are not whole blocks of
    /// 32 bytes, or have 2 GiB or more, every answer is "maybe".
    #[must_use]
    pub fn new(bits: &'a [u8]) -> Self {
        let (blocks, rest) = bits.as_chunks();
        let blocks = if rest.is_empty() && blocks.len() <= MAX_BLOCKS { blocks } else { &[] };
        Self { blocks, len: bits.len(), kernel: Kernel::new(Isa::detect()) }
    }

    /// Reads the header at the start of `bytes` and the filter after it. It ignores the bytes after
    /// the filter.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the header is invalid or the bits are incomplete, and
    /// [`Error::Unsupported`] for another algorithm, hash or compression.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let (header_len, bits_len) = lengths(bytes)?;
        let bits = bytes.get(header_len..).and_then(|rest| rest.get(..bits_len));
        let bits = bits.ok_or(Error::corrupt(Field::FilterHeader, 0))?;
        Ok(Self { len: header_len + bits_len, ..Self::new(bits) })
    }

    /// Returns the length in bytes of a filter, with header and bits. `header` must begin with the
    /// whole header. The first 64 bytes of a filter of a known writer are enough. Use this function
    /// if the metadata of the column chunk do not store the length.
    ///
    /// # Errors
    /// Returns the errors of [`Self::parse`], except for incomplete bits.
    pub fn len_bytes_of(header: &[u8]) -> Result<u64> {
        let (header_len, bits_len) = lengths(header)?;
        Ok(header_len as u64 + bits_len as u64)
    }

    /// Returns whether the chunk may contain the value with this plain encoding: the bytes of a
    /// byte array without the length, or the little-endian bytes of a number.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, plain_encoded_value: &[u8]) -> bool {
        self.may_contain_hash(hash(plain_encoded_value))
    }

    /// Returns the hash of a value's plain encoding: XXH64 with seed 0.
    #[must_use]
    #[inline]
    pub fn hash(plain_encoded_value: &[u8]) -> u64 {
        hash(plain_encoded_value)
    }

    /// Returns whether the chunk may contain the value with this [`hash`](Self::hash).
    #[must_use]
    #[inline]
    pub fn may_contain_hash(&self, hash: u64) -> bool {
        self.kernel.may_contain(self.blocks, hash)
    }

    /// Returns the number of values with these [`hash`](Self::hash)es that the filter denies. Use
    /// it to check a new filter: for the values that were added, the number must be 0.
    #[must_use]
    pub fn num_denied(&self, hashes: &[u64]) -> usize {
        self.kernel.num_denied(self.blocks, hashes)
    }

    /// Returns the number of blocks of 32 bytes. It is 0 for invalid bits: see [`Self::new`].
    #[must_use]
    pub fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Writes to `answers` whether the chunk may contain each value, in the order of the values. It
    /// stops at the end of the shorter slice.
    pub fn may_contain_batch(&self, plain_encoded_values: &[&[u8]], answers: &mut [bool]) {
        let mut hashes = [0; BATCH];
        for (values, answers) in plain_encoded_values.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            for (slot, value) in hashes.iter_mut().zip(values) {
                *slot = hash(value);
                prefetch(self.blocks, block_index(*slot, self.blocks));
            }
            let asked = values.len().min(answers.len());
            self.kernel.may_contain_batch(self.blocks, hashes.get(..asked).unwrap_or_default(), answers);
        }
    }

    /// Returns the bits without the header. The result is empty for invalid bits: see
    /// [`Self::new`].
    #[must_use]
    pub fn bits(&self) -> &'a [u8] {
        self.blocks.as_flattened()
    }

    /// Returns whether the filter has blocks, but no bit is set. Such a filter denies every value.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        !self.blocks.is_empty() && self.blocks.iter().all(|block| *block == [0; BLOCK_LEN_BYTES])
    }

    /// Returns the filter's properties. Reads all bytes of the filter.
    #[must_use]
    pub fn info(&self) -> ForeignFilterInfo {
        const KIND: &str = "parquet-split-block";
        if self.blocks.is_empty() {
            return ForeignFilterInfo::constant(KIND, self.len, 1.0);
        }
        ForeignFilterInfo::blocked(KIND, self.len, self.bits(), BLOCK_LEN_BYTES, LANES, LANES)
    }
}

/// Builds a split-block Bloom filter, bit for bit as the crate `parquet` and Arrow do.
#[derive(Debug, Clone)]
pub struct ParquetBloomBuilder {
    /// Whole blocks, stored as bytes. For many bytes, the allocator can give zero pages, which take
    /// no memory before they are used. A vector of blocks would be filled with zeros.
    bits: Vec<u8>,
}

impl ParquetBloomBuilder {
    /// Starts a filter of `num_blocks` blocks of 32 bytes. The known writers use powers of two.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for zero blocks, and for 2 GiB or more.
    pub fn with_blocks(num_blocks: usize) -> Result<Self> {
        if !(1..=MAX_BLOCKS).contains(&num_blocks) {
            let (what, reason) = ("number of blocks", format!("expected 1 to {MAX_BLOCKS}; try 1024"));
            return Err(Error::Invalid { what, given: num_blocks.to_string(), reason });
        }
        Ok(Self { bits: vec![0; num_blocks * BLOCK_LEN_BYTES] })
    }

    /// Starts a filter for `num_values` distinct values with a false-positive rate of about `rate`.
    /// Its length is rounded up to a power of two from 32 bytes to 128 MiB. If the values need more
    /// than 128 MiB, the FPR is higher than `rate`.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] unless `rate` is above 0 and below 1.
    pub fn for_values(num_values: u64, rate: f64) -> Result<Self> {
        check_rate(rate)?;
        // Solve for the size at which all eight bits of an absent value are set with probability
        // `rate`.
        let bits = -f64::from(LANES) * num_values as f64 / (1.0 - rate.powf(1.0 / f64::from(LANES))).ln();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number out of range is clamped")]
        let len = (bits as usize / 8).clamp(*WRITTEN_LEN_BYTES.start(), *WRITTEN_LEN_BYTES.end());
        Self::with_blocks(len.next_power_of_two() / BLOCK_LEN_BYTES)
    }

    /// Adds a value in its plain encoding: the bytes of a byte array without the length, or the
    /// little-endian bytes of a number.
    pub fn add(&mut self, plain_encoded_value: &[u8]) {
        self.add_hash(hash(plain_encoded_value));
    }

    /// Adds the value with this [`ParquetBloom::hash`].
    #[inline]
    pub fn add_hash(&mut self, hash: u64) {
        self.add_hashes(&[hash]);
    }

    /// Adds the values with these [`ParquetBloom::hash`]es. One call with many hashes is faster
    /// than one call per hash.
    pub fn add_hashes(&mut self, hashes: &[u64]) {
        Kernel::new(Isa::detect()).set(self.bits.as_chunks_mut().0, hashes);
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn num_blocks(&self) -> usize {
        self.bits.len() / BLOCK_LEN_BYTES
    }

    /// Halves the filter repeatedly, as long as its estimated false-positive rate stays at most
    /// `rate`. A filter with an odd number of blocks cannot be halved. The estimate assumes that
    /// all blocks are equally full, so the true FPR may be somewhat higher.
    ///
    /// The result is the filter that a smaller builder would have made.
    pub fn fold(&mut self, rate: f64) {
        let ones: u64 = self.bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let clear = 1.0 - ones as f64 / (self.bits.len() * 8) as f64;
        let rate_after = |halvings: u32| {
            let joined = f64::from(halvings).exp2();
            (1.0 - clear.powf(joined)).powi(LANES.cast_signed())
        };
        let most = self.num_blocks().trailing_zeros();
        let halvings = (1..=most).take_while(|&halvings| rate_after(halvings) <= rate).last().unwrap_or(0);
        self.join(1 << halvings);
    }

    /// Folds the filter to `num_blocks` blocks. The result is the filter that a builder of
    /// `num_blocks` blocks would have made.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the current number of blocks is not a multiple of
    /// `num_blocks`, or if `num_blocks` is 0.
    pub fn fold_to(&mut self, num_blocks: usize) -> Result<()> {
        if num_blocks == 0 || !self.num_blocks().is_multiple_of(num_blocks) {
            let reason = format!("expected a divisor of {}; choose another number", self.num_blocks());
            return Err(Error::Invalid { what: "number of blocks", given: num_blocks.to_string(), reason });
        }
        self.join(self.num_blocks() / num_blocks);
        Ok(())
    }

    /// Joins every `group` neighbouring blocks into one block by OR.
    fn join(&mut self, group: usize) {
        let joined = self.num_blocks() / group;
        let blocks = self.bits.as_chunks_mut::<BLOCK_LEN_BYTES>().0;
        for number in 0..joined {
            let mut all = [0; BLOCK_LEN_BYTES];
            for block in blocks.iter().skip(number * group).take(group) {
                unite(&mut all, block);
            }
            // The target lies before the blocks that are still to be read.
            if let Some(target) = blocks.get_mut(number) {
                *target = all;
            }
        }
        self.bits.truncate(joined * BLOCK_LEN_BYTES);
        self.bits.shrink_to_fit();
    }

    /// Returns the bits, which follow the [`header`](Self::header) in a file.
    #[must_use]
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// Returns the header of the filter.
    #[must_use]
    pub fn header(&self) -> Vec<u8> {
        header_of(self.bits.len())
    }

    /// Returns the bytes of the filter: the header and the bits.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut bytes = self.header();
        bytes.extend_from_slice(&self.bits);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets the bits of a hash as Parquet's specification says.
    fn set(blocks: &mut [Block], hash: u64) {
        let number = block_index(hash, blocks);
        for (lane, salt) in SALT.iter().enumerate() {
            let bit = low_half(hash).wrapping_mul(*salt) >> 27;
            blocks[number][lane * 4 + bit as usize / 8] |= 1 << (bit % 8);
        }
    }

    #[test]
    fn every_instruction_set_sets_the_bits_of_the_specification() {
        let hashes: Vec<u64> = (0..3_000u64).map(|i| xxh64(&i.to_le_bytes(), 1)).collect();
        for num_blocks in [1, 2, 7, 100, 1_000] {
            let mut expected = vec![[0; BLOCK_LEN_BYTES]; num_blocks];
            hashes.iter().take(1_000).for_each(|&hash| set(&mut expected, hash));
            let denied = hashes.iter().filter(|&&hash| {
                let mut with = expected.clone();
                set(&mut with, hash);
                with != expected
            });
            let denied = denied.count();
            for isa in Isa::available() {
                let mut blocks = vec![[0; BLOCK_LEN_BYTES]; num_blocks];
                Kernel::new(isa).set(&mut blocks, &hashes[..1_000]);
                assert_eq!(blocks, expected, "{num_blocks} blocks, {}", isa.name());
                assert_eq!(Kernel::new(isa).num_denied(&blocks, &hashes[..1_000]), 0);
                assert_eq!(Kernel::new(isa).num_denied(&blocks, &hashes), denied);
            }
            let mut builder = ParquetBloomBuilder::with_blocks(num_blocks).unwrap();
            builder.add_hashes(&hashes[..999]);
            builder.add_hash(hashes[999]);
            assert_eq!(builder.bits(), expected.as_flattened());
        }
    }

    #[test]
    fn headers_have_the_bytes_of_the_format_and_round_trip() {
        assert_eq!(header_of(32)[..2], [0x15, 0x40]);
        for (len, header_len) in [(32, 15), (64, 16), (4096, 16), (8192, 17), ((1 << 20) - 32, 17), (1 << 20, 18)] {
            let mut bytes = header_of(len);
            assert_eq!(bytes.len(), header_len, "{len}");
            bytes.resize(header_len + len + 7, 0xab);
            assert_eq!(ParquetBloom::parse(&bytes).unwrap().bits().len(), len);
            assert_eq!(lengths(&bytes[..header_len]).unwrap(), (header_len, len));
            assert!(ParquetBloom::parse(&bytes[..header_len + len - 1]).is_err(), "a byte short");
        }
    }

    #[test]
    fn a_header_with_other_values_is_an_error() {
        let with = |at: usize, byte: u8| {
            let mut bytes = [header_of(32), vec![0; 32]].concat();
            bytes[at] = byte;
            bytes
        };
        for len in [0u8, 2, 62, 66, 0x41] {
            let error = lengths(&with(1, len)).unwrap_err();
            assert!(matches!(error, Error::Corrupt { field: Field::FilterHeader, .. }), "{len}: {error}");
        }
        for (at, name) in [(3, "filter kind 2"), (7, "hash function 2"), (11, "filter compression 2")] {
            let error = lengths(&with(at, 0x2c)).unwrap_err();
            assert!(matches!(&error, Error::Unsupported { what, .. } if what.starts_with(name)), "{error}");
        }
        for at in 0..15 {
            for byte in 0..=255 {
                // No byte causes a panic or another length of the bits.
                if let Ok(found) = ParquetBloom::parse(&with(at, byte)) {
                    assert_eq!(found.bits().len(), 32, "{at}: {byte:#x}");
                }
            }
        }
        // A second length, and a second algorithm.
        for field in [&[0x05, 0x02, 0x40][..], &[0x0c, 0x04, 0x1c, 0, 0]] {
            let twice = [&header_of(32)[..14], field, &[0; 33]].concat();
            assert!(lengths(&twice).is_err(), "{field:x?}");
        }
        // Unknown fields are skipped, even those with the largest and the smallest number.
        for field in [&[0x15, 8][..], &[5, 0xff, 0xff, 3, 8], &[5, 0xfe, 0xff, 3, 8]] {
            let longer = [&header_of(32)[..14], field, &[0; 33]].concat();
            assert_eq!(lengths(&longer).unwrap().0, 15 + field.len(), "{field:x?}");
        }
    }
}
