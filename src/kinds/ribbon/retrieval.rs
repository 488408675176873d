//! A static function by a ribbon: each key has a value of up to 32 bits, which takes so many bits and 2 to 5 % more. What
//! is found of a key that has none is some value.

use super::{Geometry, MAX_COLUMNS, Row, banding};
use crate::bits::NoMemory;
use crate::hash::KeyHash;
use crate::simd::{Isa, kernels};

kernels! {
    struct Kernel[];
    |simd|

    /// The value of a key; 0 where its blocks are not there.
    fn get(geometry: &Geometry, payload: &[u8], hash: KeyHash) -> u32 {
        geometry.bits(simd, payload, &geometry.row(hash)).map_or(0, |(bits, _)| bits)
    }
}

/// The solution of a system whose fingerprints are the values.
#[derive(Debug, Clone)]
pub(crate) struct Retrieval {
    geometry: Geometry,
    payload: Vec<u8>,
    kernel: Kernel,
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
                return Ok(Some(Self { geometry, payload, kernel: Kernel::new(Isa::detect()) }));
            }
        }
        Ok(None)
    }

    /// The value of a key.
    pub(crate) fn get(&self, hash: KeyHash) -> u32 {
        self.kernel.get(&self.geometry, &self.payload, hash)
    }

    /// The memory that it takes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.payload.len() as u64
    }
}
