//! An array of unsigned integers of 1 to 64 bits each, without gaps between them.
//!
//! Cell `i` begins at bit `i * cell_bits`; bit `b` is bit `b % 64` of word `b / 64`. A cell may lie across two words: with
//! cells that do not, eighteen bits would take a sixth more memory.

use super::zeros;
use crate::error::{Error, Result};

/// See the module. Indices are those of the cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackedArray {
    words: Vec<u64>,
    len: u64,
    cell_bits: u32,
}

impl PackedArray {
    /// `len` cells of `cell_bits` bits, all zero.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless `cell_bits` is 1 to 64, [`Error::TooLarge`] when there is no memory for them.
    pub(crate) fn new(len: u64, cell_bits: u32) -> Result<Self> {
        if !(1..=64).contains(&cell_bits) {
            return Err(Error::invalid("width of a cell", cell_bits, "expected 1 to 64 bits; try 4"));
        }
        let what = "an array of counters";
        let bits = len.checked_mul(u64::from(cell_bits)).ok_or(Error::TooLarge { what })?;
        // A word more, so that every cell has a word behind its first.
        Ok(Self { words: zeros(bits.div_ceil(64) + 1, what)?, len, cell_bits })
    }

    /// The number of cells.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The width of a cell.
    pub(crate) fn cell_bits(&self) -> u32 {
        self.cell_bits
    }

    /// The largest value of a cell.
    pub(crate) fn max(&self) -> u64 {
        u64::MAX >> (64 - self.cell_bits)
    }

    /// The memory it takes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// The value of a cell.
    ///
    /// # Panics
    /// When there is no such cell.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "place() is within, and there is a word behind the last cell's")]
    #[expect(clippy::cast_possible_truncation, reason = "masked to 64 bits at most")]
    pub(crate) fn get(&self, index: u64) -> u64 {
        let (word, shift) = self.place(index);
        let pair = u128::from(self.words[word]) | u128::from(self.words[word + 1]) << 64;
        (pair >> shift) as u64 & self.max()
    }

    /// Replaces the value of a cell.
    ///
    /// # Panics
    /// When there is no such cell, or `value` is wider than one.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "place() is within, and there is a word behind the last cell's")]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a pair")]
    pub(crate) fn set(&mut self, index: u64, value: u64) {
        assert!(value <= self.max(), "a value wider than its cell");
        let (word, shift) = self.place(index);
        let pair = u128::from(self.words[word]) | u128::from(self.words[word + 1]) << 64;
        let pair = pair & !(u128::from(self.max()) << shift) | u128::from(value) << shift;
        self.words[word] = pair as u64;
        self.words[word + 1] = (pair >> 64) as u64;
    }

    /// The values of all cells, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.len).map(|index| self.get(index))
    }

    /// Sets all cells to zero.
    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The word in which a cell begins, and at which of its bits.
    #[inline]
    fn place(&self, index: u64) -> (usize, u32) {
        assert!(index < self.len, "cell {index} of {}", self.len);
        // Fits: the number of bits did when the array was made, and the words are in memory.
        let bit = index * u64::from(self.cell_bits);
        ((bit / 64) as usize, (bit % 64) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_every_width_leave_their_neighbours_alone() {
        for cell_bits in 1..=64 {
            let mut array = PackedArray::new(131, cell_bits).unwrap();
            let mut model = vec![0; 131];
            let mut state = 1u64;
            for _ in 0..2_000 {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let index = (state >> 33) % 131;
                let value = state.rotate_left(29) & array.max();
                array.set(index, value);
                model[usize::try_from(index).unwrap()] = value;
            }
            array.set(130, array.max());
            model[130] = array.max();
            assert!(array.iter().eq(model.iter().copied()), "{cell_bits} bits");
            array.clear();
            assert!(array.iter().all(|value| value == 0));
        }
    }

    #[test]
    fn values_that_do_not_fit_are_an_error_and_no_crash() {
        for (len, bits) in [(u64::MAX, 1), (u64::MAX, 64), (1 << 60, 3), (1 << 62, 64)] {
            assert!(matches!(PackedArray::new(len, bits), Err(Error::TooLarge { .. })), "{len} of {bits}");
        }
        for bits in [0, 65, u32::MAX] {
            assert!(matches!(PackedArray::new(1, bits), Err(Error::Invalid { .. })), "{bits}");
        }
    }

    #[test]
    #[should_panic(expected = "cell 8 of 8")]
    fn there_is_no_cell_behind_the_last() {
        PackedArray::new(8, 3).unwrap().get(8);
    }

    #[test]
    #[should_panic(expected = "wider than its cell")]
    fn a_value_is_never_cut_to_its_cell() {
        PackedArray::new(8, 3).unwrap().set(0, 8);
    }
}
