//! The content of one filter before it is stored in an index: hashes, or the blocks of an existing
//! filter.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::cells::{Cell, measured_fpr, unite};
use super::error::{Error, Result};

/// The number of hashes that are read at once: 512 KiB.
const CHUNK: usize = 1 << 16;

/// Distinct hashes of all files, in a temporary file.
///
/// The number of rows depends on all files, so no filter can be built before all keys are counted.
/// Reading the values twice was rejected: decoding takes longer than writing 8 bytes per key.
#[derive(Debug)]
pub(super) struct Spill<S> {
    storage: S,
    len_bytes: u64,
}

/// The hashes of a file in a [`Spill`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    offset: u64,
    pub count: u64,
}

impl<S: Read + Write + Seek> Spill<S> {
    pub fn new(storage: S) -> Self {
        Self { storage, len_bytes: 0 }
    }

    /// Appends hashes.
    pub fn push(&mut self, hashes: &[u64]) -> io::Result<Run> {
        let run = Run { offset: self.len_bytes, count: hashes.len() as u64 };
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

    /// Calls `each` with every hash of a run, in their order.
    pub fn for_each(&mut self, run: Run, mut each: impl FnMut(u64)) -> io::Result<()> {
        self.storage.flush()?;
        self.storage.seek(SeekFrom::Start(run.offset))?;
        let mut left = run.count;
        let mut bytes = Vec::new();
        while left > 0 {
            let count = left.min(CHUNK as u64);
            bytes.clear();
            (&mut self.storage).take(count * 8).read_to_end(&mut bytes)?;
            if bytes.len() as u64 != count * 8 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.as_chunks().0.iter().for_each(|&hash| each(u64::from_le_bytes(hash)));
            left -= count;
        }
        Ok(())
    }
}

/// The blocks of an existing filter.
#[derive(Debug, Clone)]
pub(super) struct Blocks(Vec<Cell>);

impl Blocks {
    /// Copies the bits of a filter, and halves it as long as its FPR stays at most `fpr`. Returns
    /// the filter and its FPR.
    pub fn shrunk(bits: &[u8], fpr: f64) -> Result<(Self, f64)> {
        let (blocks, rest) = bits.as_chunks();
        if blocks.is_empty() || !rest.is_empty() {
            return Err(Error::invalid("filter", "not whole blocks of 32 bytes; build the index from the values"));
        }
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
    /// with the number of blocks. Returns false if no equivalent filter has this size.
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

/// Unites each group of `group` neighbouring blocks.
fn fold(blocks: &[Cell], group: usize) -> Vec<Cell> {
    let united = blocks.chunks(group).map(|group| {
        let mut all = [0; size_of::<Cell>()];
        group.iter().for_each(|block| unite(&mut all, block));
        all
    });
    united.collect()
}
