//! A static function by a ribbon: each key has a value of up to 32 bits, which takes so many bits and 2 to 5 % more. What
//! is found of a key that has none is some value.

use super::{Geometry, Isa, MAX_COLUMNS, Row, WIDTH, WORD_LEN_BYTES, arch, banding};
use crate::bits::NoMemory;
use crate::hash::KeyHash;

/// The solution of a system whose fingerprints are the values.
#[derive(Debug, Clone)]
pub(crate) struct Retrieval {
    geometry: Geometry,
    payload: Vec<u8>,
}

impl Retrieval {
    /// Values of `columns` bits, 1 to 32, for distinct hashes, best in ascending order; `None` if there is no solution, as
    /// where two keys have one hash.
    pub(crate) fn new(
        columns: u32,
        entries: impl ExactSizeIterator<Item = (KeyHash, u32)> + Clone,
    ) -> Result<Option<Self>, NoMemory> {
        debug_assert!((1..=MAX_COLUMNS).contains(&columns), "{columns} columns");
        let num_keys = entries.len() as u64;
        for system in banding::systems(num_keys) {
            let geometry = Geometry { columns, ..system };
            let rows = entries.clone().map(|(hash, value)| Row { fingerprint: value, ..geometry.row(hash) });
            if let Some(payload) = banding::solve(&geometry, rows)? {
                return Ok(Some(Self { geometry, payload }));
            }
        }
        Ok(None)
    }

    /// The value of a key.
    pub(crate) fn get(&self, hash: KeyHash) -> u32 {
        let Row { start, coefficients, .. } = self.geometry.row(hash);
        let (number, shift) = (start / WIDTH, (start % WIDTH) as u32);
        let block = |number| {
            let (offset, columns) = self.geometry.block(number);
            self.payload.get(offset..offset + columns * WORD_LEN_BYTES).unwrap_or_default()
        };
        let first = block(number);
        // A row that ends with its block has no coefficient left for the next, which may not be there.
        let second = if shift == 0 { first } else { block(number + 1) };
        arch::ribbon_bits(Isa::detect(), first, second, coefficients, shift)
    }

    /// The memory that it takes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.payload.len() as u64
    }
}
