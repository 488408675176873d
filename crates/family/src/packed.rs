//! Stores unsigned integers of 1 to 64 bits each in an array without gaps.
//!
//! Cell `i` begins at bit `i * cell_bits`. Bit `b` of the array is bit `b % 64` of word `b / 64`. A
//! cell may span two words. If no cell spanned two words, an array of 18-bit cells would take 19 %
//! more memory.

use crate::error::{Error, Result};
use filterblock::internals::zeros;

/// An array of packed cells. All indices are cell indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackedArray {
    words: Vec<u64>,
    len: u64,
    cell_bits: u32,
}

impl PackedArray {
    /// Makes `len` cells of `cell_bits` bits, all zero.
    pub(crate) fn new(len: u64, cell_bits: u32) -> Result<Self> {
        if !(1..=64).contains(&cell_bits) {
            return Err(Error::invalid("cell width", cell_bits, "expected 1 to 64 bits; try 4"));
        }
        let what = "a filter";
        let bits = len.checked_mul(u64::from(cell_bits)).ok_or(Error::TooLarge { what })?;
        // The array has one extra word at the end, so that each cell can be read as a pair of
        // words.
        Ok(Self { words: zeros(bits.div_ceil(64) + 1, what)?, len, cell_bits })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn cell_bits(&self) -> u32 {
        self.cell_bits
    }

    /// Returns the largest value that fits in a cell.
    pub(crate) fn max(&self) -> u64 {
        u64::MAX >> (64 - self.cell_bits)
    }

    /// Returns the memory that the array takes, in bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// Returns the value of a cell.
    ///
    /// # Panics
    /// Panics if there is no such cell.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "locate() is in bounds, and one word follows the last cell")]
    #[expect(clippy::cast_possible_truncation, reason = "the mask keeps at most 64 bits")]
    pub(crate) fn get(&self, index: u64) -> u64 {
        let (word, shift) = self.locate(index);
        let pair = u128::from(self.words[word]) | u128::from(self.words[word + 1]) << 64;
        (pair >> shift) as u64 & self.max()
    }

    /// Replaces the value of a cell.
    ///
    /// # Panics
    /// Panics if there is no such cell, or if `value` does not fit in a cell.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "locate() is in bounds, and one word follows the last cell")]
    #[expect(clippy::cast_possible_truncation, reason = "splits the pair into its halves")]
    pub(crate) fn set(&mut self, index: u64, value: u64) {
        assert!(value <= self.max(), "value {value} is wider than its cell of {} bits", self.cell_bits);
        let (word, shift) = self.locate(index);
        let pair = u128::from(self.words[word]) | u128::from(self.words[word + 1]) << 64;
        let pair = pair & !(u128::from(self.max()) << shift) | u128::from(value) << shift;
        self.words[word] = pair as u64;
        self.words[word + 1] = (pair >> 64) as u64;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.len).map(|index| self.get(index))
    }

    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns the index of the word in which a cell begins, and the position of the cell's first
    /// bit in that word. Panics if there is no such cell.
    #[inline]
    fn locate(&self, index: u64) -> (usize, u32) {
        assert!(index < self.len, "no cell {index}: the array has {} cells", self.len);
        // No overflow: `new` checked that the number of bits fits in 64 bits. The casts are exact,
        // because the words are in memory.
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
    fn oversized_arrays_return_an_error() {
        for (len, bits) in [(u64::MAX, 1), (u64::MAX, 64), (1 << 60, 3), (1 << 62, 64)] {
            assert!(matches!(PackedArray::new(len, bits), Err(Error::TooLarge { .. })), "{len} of {bits}");
        }
        for bits in [0, 65, u32::MAX] {
            assert!(matches!(PackedArray::new(1, bits), Err(Error::Invalid { .. })), "{bits}");
        }
    }

    #[test]
    #[should_panic(expected = "no cell 8: the array has 8")]
    fn reading_past_the_last_cell_panics() {
        PackedArray::new(8, 3).unwrap().get(8);
    }

    #[test]
    #[should_panic(expected = "wider than its cell")]
    fn setting_a_value_wider_than_its_cell_panics() {
        PackedArray::new(8, 3).unwrap().set(0, 8);
    }
}
