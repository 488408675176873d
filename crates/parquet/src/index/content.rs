//! Holds the content of each filter until it is stored in an index: hashes, or the blocks of an
//! existing filter.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::cells::Cell;
use crate::bloom::unite;
use crate::error::{Error, Result};
use crate::filters::measured_fpr;

/// The maximum number of hashes that are written or read at once. They take 512 KiB.
const CHUNK: usize = 1 << 16;

/// The distinct hashes of each file, in temporary storage.
///
/// The number of rows of a new index depends on all files, so no filter can be built before all
/// keys are counted. We do not read the values twice, because decoding takes longer than writing 8
/// bytes per key.
#[derive(Debug)]
pub(super) struct Spill<S> {
    storage: S,
    len_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    offset: u64,
    pub count: u64,
    /// The wrapping sum of the hashes. If the hashes that are read back have another sum, the
    /// storage returned wrong hashes.
    sum: u64,
}

impl<S: Read + Write + Seek> Spill<S> {
    pub fn new(storage: S) -> Self {
        Self { storage, len_bytes: 0 }
    }

    pub fn push(&mut self, hashes: &[u64]) -> io::Result<Run> {
        let sum = hashes.iter().fold(0, |sum: u64, &hash| sum.wrapping_add(hash));
        let run = Run { offset: self.len_bytes, count: hashes.len() as u64, sum };
        self.storage.seek(SeekFrom::Start(self.len_bytes))?;
        let mut bytes = Vec::with_capacity(hashes.len().min(CHUNK) * 8);
        for chunk in hashes.chunks(CHUNK) {
            bytes.clear();
            chunk.iter().for_each(|hash| bytes.extend_from_slice(&hash.to_le_bytes()));
            self.storage.write_all(&bytes)?;
            self.len_bytes += bytes.len() as u64;
        }
        Ok(run)
    }

    /// Calls `each` with every hash of a run, in the order in which the hashes were pushed.
    ///
    /// # Errors
    /// Returns an error if the storage fails or returns too few hashes, or if the sum of the hashes
    /// is wrong. `each` may then have received wrong hashes, or too few. An index of them might
    /// deny keys.
    pub fn for_each(&mut self, run: Run, mut each: impl FnMut(u64)) -> io::Result<()> {
        self.storage.flush()?;
        self.storage.seek(SeekFrom::Start(run.offset))?;
        let (mut left, mut sum) = (run.count, 0u64);
        let mut bytes = Vec::new();
        while left > 0 {
            let count = left.min(CHUNK as u64);
            bytes.clear();
            (&mut self.storage).take(count * 8).read_to_end(&mut bytes)?;
            if bytes.len() as u64 != count * 8 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.as_chunks().0.iter().for_each(|&hash| {
                let hash = u64::from_le_bytes(hash);
                sum = sum.wrapping_add(hash);
                each(hash);
            });
            left -= count;
        }
        if sum != run.sum {
            let why = "the temporary storage of the hashes returns other bytes than were written; check disk and \
                       memory, and try again";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
pub(super) struct Blocks(Vec<Cell>);

impl Blocks {
    /// Copies the bits of a filter, and halves the copy while its number of blocks is even and the
    /// half has an FPR of at most `fpr`. Returns the copy and its FPR. Returns an error if the bits
    /// are not one or more whole blocks, or if [`check_damage`] finds damage.
    pub fn shrunk(bits: &[u8], fpr: f64) -> Result<(Self, f64)> {
        let (blocks, rest) = bits.as_chunks();
        if blocks.is_empty() || !rest.is_empty() {
            let why = format!("{} bytes long, not one or more whole blocks of 32 bytes", bits.len());
            return Err(Error::invalid("filter", why + "; build the index from the values"));
        }
        check_damage(blocks)?;
        let (mut blocks, mut rate) = (blocks.to_vec(), measured_fpr(blocks));
        while blocks.len().is_multiple_of(2) {
            let halved = fold(&blocks, 2);
            let rate_halved = measured_fpr(&halved);
            if rate_halved > fpr {
                break;
            }
            (blocks, rate) = (halved, rate_halved);
        }
        Ok((Self(blocks), rate))
    }

    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Calls `each` with the number and the content of every block of the equivalent filter of
    /// `blocks` blocks. A larger filter repeats each block, because a key's block number scales
    /// with the number of blocks. Returns false, without a call, if `blocks` is not a multiple of
    /// this filter's number of blocks.
    pub fn for_each_of(&self, blocks: u64, mut each: impl FnMut(u64, &Cell)) -> bool {
        let len = self.len();
        if !blocks.is_multiple_of(len) {
            return false;
        }
        let times = blocks / len;
        for (number, block) in (0u64..).zip(&self.0) {
            (0..times).for_each(|i| each(number * times + i, block));
        }
        true
    }
}

/// Returns an error if a block has both empty lanes and lanes with set bits. No set of keys makes
/// such a block, because each key sets a bit in each lane.
fn check_damage(blocks: &[Cell]) -> Result<()> {
    for (number, block) in blocks.iter().enumerate() {
        let lanes: &[[u8; 4]] = block.as_chunks().0;
        let empty = lanes.iter().filter(|lane| **lane == [0; 4]).count();
        if empty > 0 && empty < lanes.len() {
            let why =
                format!("damaged: block {number} has empty lanes ({empty} of 8), but a key sets a bit in every lane");
            return Err(Error::invalid("filter", why + "; read the values instead"));
        }
    }
    Ok(())
}

/// Returns the bitwise OR of each group of `group` neighbouring blocks.
fn fold(blocks: &[Cell], group: usize) -> Vec<Cell> {
    let united = blocks.chunks(group).map(|group| {
        let mut all = [0; size_of::<Cell>()];
        group.iter().for_each(|block| unite(&mut all, block));
        all
    });
    united.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn hashes_that_change_in_the_storage_are_noticed() {
        let hashes: Vec<u64> = (0..100_000).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for changed in [None, Some(0), Some(8 * 99_999), Some(8 * CHUNK)] {
            let mut spill = Spill::new(Cursor::new(Vec::new()));
            spill.push(&[1, 2, 3]).unwrap();
            let run = spill.push(&hashes).unwrap();
            changed.into_iter().for_each(|at| spill.storage.get_mut()[24 + at] ^= 1);
            let mut count = 0;
            assert_eq!(spill.for_each(run, |_| count += 1).is_ok(), changed.is_none(), "{changed:?}");
            assert_eq!(count, hashes.len());
        }
    }

    #[test]
    fn blocks_that_no_set_of_keys_makes_are_refused() {
        let sound = [[1; 32], [0; 32]].concat();
        assert!(Blocks::shrunk(&sound, 0.01).is_ok());
        for lane in 0..8 {
            let mut damaged = sound.clone();
            damaged[4 * lane..4 * lane + 4].fill(0);
            assert!(Blocks::shrunk(&damaged, 0.01).is_err(), "{lane}");
            let mut damaged = sound.clone();
            damaged[32 + 4 * lane] = 1;
            assert!(Blocks::shrunk(&damaged, 0.01).is_err(), "{lane}");
        }
    }
}
