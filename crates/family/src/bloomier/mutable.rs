//! Implements the Bloomier filter with mutable values. It has two tables. For each key, the first
//! table says which of the key's three cells the key owns. The second table holds the values.
//!
//! ```text
//! key ─▶ cells a, b, c and a mask      first[a] ^ first[b] ^ first[c] ^ mask = 0, 1 or 2: the value is in
//!        ▼    ▼    ▼                                                           second[a], [b] or [c]
//! first  . 5 . . 1 . . . 7 .           any other number: "absent"
//! second . v . . w . . . . .           each cell has at most one owner
//! ```
//! Peeling finds the owners: a key that is alone in a cell owns it and is removed from the set.
//! Keys are then written in reverse order of removal, so that no write changes the result of an
//! earlier write.
//!
//! * When: values change and keys do not.
//! * When not: if the values never change, [`Bloomier`](super::Bloomier) is smaller.
//! * Numbers: each table has about 1.23 cells per key, plus 32 cells. With masks of `q` bits, a
//!   cell of the first table has `q` bits. An absent key is denied with probability `1 - 3 / 2^q`.

use super::{WHAT, Widths, hashed, no_solution};
use crate::Membership;
use crate::error::{Error, Result};
use crate::packed::PackedArray;
use filterblock::internals::bloom::mixed;
use filterblock::internals::too_large;
use filterblock::{HashSeed, KeyHash};
use filterblock_simd::reduce;
use filterblock_simd::{NoMemory, try_collect, try_push, try_zeros};

/// The number of cells of a key, one in each third of the table.
const CELLS: usize = 3;
/// The number of cells for 1,000 keys in the first attempt. For large sets, peeling almost always
/// succeeds with 1,222 cells or more (Molloy, "Cores in random hypergraphs and Boolean formulas",
/// 2005).
const CELLS_PER_1000: u64 = 1_230;
/// The number of extra cells. Without them, peeling often fails for small sets.
const SPARE_CELLS: u64 = 32;
/// The difference between the salts of consecutive attempts. It is odd, so all salts differ. It is
/// output 41 of the generator that `filterblock` uses for its constants, made odd.
const TRY: u64 = 0x2aaa_d448_59ed_3411;
/// The maximum number of attempts. Each attempt has 0.01 cells per key more than the previous one.
const TRIES: u64 = 64;

/// A map whose keys are fixed and whose values may change; see the
/// [module](crate::bloomier).
///
/// ```
/// use filterblock::HashSeed;
/// use filterblock_family::MutableBloomier;
/// let mut home = MutableBloomier::new([("ann", 4), ("bob", 7)], 8, 20, HashSeed(3))?;
/// assert!(home.set(b"ann", 5)?);
/// assert_eq!((home.get(b"ann"), home.get(b"bob")), (Some(5), Some(7)));
/// # Ok::<(), filterblock_family::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MutableBloomier {
    owners: PackedArray,
    values: PackedArray,
    widths: Widths,
    len: u64,
    /// The salt of the attempt that succeeded.
    salt: u64,
    seed: HashSeed,
}

impl MutableBloomier {
    /// Builds a map from keys to values of `value_bits` bits, 1 to 64, with masks of `mask_bits`
    /// bits, 2 to 32.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for other widths, a value that is too wide, a key with two
    /// values, or two keys with equal hashes but different values. Also returns
    /// [`Error::Invalid`], which names the seed, if no attempt finds a cell for each key. This is
    /// very unlikely. Returns [`Error::TooLarge`] if the filter does not fit in memory.
    pub fn new<K: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, u64)>,
        value_bits: u32,
        mask_bits: u32,
        seed: HashSeed,
    ) -> Result<Self> {
        // Check the mask first, because the error of `Widths::new` would name a fingerprint.
        if !(2..=32).contains(&mask_bits) {
            // One bit cannot tell three cells apart.
            let reason = "expected 2 to 32 bits; try 8";
            return Err(Error::invalid("width of a mask", mask_bits, reason));
        }
        let widths = Widths::new(value_bits, mask_bits)?;
        Self::of_entries(&hashed(entries, widths, seed)?, widths, seed)
    }

    pub(super) fn of_entries(entries: &[(KeyHash, u64)], widths: Widths, seed: HashSeed) -> Result<Self> {
        let (value_bits, mask_bits) = (widths.value, widths.fingerprint);
        let len = entries.len() as u64;
        for number in 0..TRIES {
            let cells = len.saturating_mul(CELLS_PER_1000 + 10 * number) / 1000 + SPARE_CELLS;
            let cells = cells.next_multiple_of(CELLS as u64);
            let (owners, values) = (PackedArray::new(cells, mask_bits)?, PackedArray::new(cells, value_bits)?);
            let mut map = Self { owners, values, widths, len, salt: number.wrapping_mul(TRY), seed };
            if let Some(order) = map.peel(entries).map_err(too_large(WHAT))? {
                map.fill(entries, &order);
                return Ok(map);
            }
        }
        Err(no_solution(seed))
    }

    /// Returns the value of a key. For an absent key, it returns `None` or, with probability
    /// `3 / 2^mask_bits`, an arbitrary value.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        self.get_hash(KeyHash::of(key, self.seed))
    }

    /// Works like [`MutableBloomier::get`], but takes the hash of the key.
    #[must_use]
    pub fn get_hash(&self, hash: KeyHash) -> Option<u64> {
        self.own_cell(hash).map(|cell| self.values.get(cell))
    }

    /// Sets the value of a present key and returns `true`. Returns `false` and changes nothing if
    /// the key is certainly absent.
    ///
    /// Set only values of present keys. For an absent key, the call writes to an arbitrary cell
    /// with probability `3 / 2^mask_bits`. It then returns `true`, and may have changed the value
    /// of a present key.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the value has more bits than the map's values. The map is then
    /// unchanged.
    pub fn set(&mut self, key: &[u8], value: u64) -> Result<bool> {
        self.set_hash(KeyHash::of(key, self.seed), value)
    }

    /// Works like [`MutableBloomier::set`], but takes the hash of the key.
    pub fn set_hash(&mut self, hash: KeyHash, value: u64) -> Result<bool> {
        self.widths.check(value)?;
        let Some(cell) = self.own_cell(hash) else { return Ok(false) };
        self.values.set(cell, value);
        Ok(true)
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the map has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the memory of both tables in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.owners.len_bytes() + self.values.len_bytes()
    }

    /// Returns the three distinct cells of a key, and the mask of the key.
    fn places(&self, hash: KeyHash) -> ([u64; CELLS], u64) {
        let third = self.owners.len() / CELLS as u64;
        let mut numbers = mixed(KeyHash::from_raw(hash.raw() ^ self.salt)).skip(1);
        let mut next = || numbers.next().unwrap_or_default();
        let cells = [0, third, 2 * third].map(|first| first + reduce(next(), third));
        (cells, reduce(next(), self.owners.max() + 1))
    }

    /// Returns the XOR of a key's mask and its three cells in the first table. For a present key,
    /// it is the index (0 to 2) of the cell that the key owns. If it is 3 or more, the key is
    /// absent.
    fn which(&self, cells: &[u64; CELLS], mask: u64) -> u64 {
        cells.iter().fold(mask, |xor, &cell| xor ^ self.owners.get(cell))
    }

    /// Returns the cell that a key owns, or `None` if the key is certainly absent. For an absent
    /// key that gets the answer "maybe", it returns one of the key's cells.
    fn own_cell(&self, hash: KeyHash) -> Option<u64> {
        let (cells, mask) = self.places(hash);
        let which = usize::try_from(self.which(&cells, mask)).ok()?;
        cells.get(which).copied()
    }

    /// Removes keys that are alone in a cell, until no such key is left. Returns the indices of the
    /// keys in the order of their removal. Each comes with the number (0 to 2) of the cell in which
    /// the key was alone. Returns `None` if some keys remain.
    fn peel(&self, entries: &[(KeyHash, u64)]) -> Result<Option<Vec<(usize, usize)>>, NoMemory> {
        let num_cells = usize::try_from(self.owners.len()).map_err(|_| NoMemory)?;
        // For each cell: the number of keys left, and the XOR of their indices. If one key is left,
        // the XOR is its index.
        let mut cells = try_zeros(num_cells)?;
        let mut open = try_collect(0..num_cells)?;
        let mut order = Vec::new();
        order.try_reserve_exact(entries.len())?;
        self.take_all(entries, &mut cells, &mut open, &mut order).ok_or(NoMemory)?;
        Ok((order.len() == entries.len()).then_some(order))
    }

    /// Peels the keys: see [`peel`](Self::peel). `open` has all cells at first. Returns `None` if
    /// memory runs out.
    fn take_all(
        &self,
        entries: &[(KeyHash, u64)],
        cells: &mut [(u32, usize)],
        open: &mut Vec<usize>,
        order: &mut Vec<(usize, usize)>,
    ) -> Option<()> {
        let places = |index: usize| entries.get(index).map(|&(hash, _)| self.places(hash).0);
        for index in 0..entries.len() {
            for cell in places(index)? {
                let (count, xor) = cells.get_mut(usize::try_from(cell).ok()?)?;
                *count += 1;
                *xor ^= index;
            }
        }
        while let Some(cell) = open.pop() {
            let &(1, index) = cells.get(cell)? else { continue };
            for (which, place) in places(index)?.into_iter().enumerate() {
                let place = usize::try_from(place).ok()?;
                if place == cell {
                    order.push((index, which));
                }
                let (count, xor) = cells.get_mut(place)?;
                *count -= 1;
                *xor ^= index;
                if *count == 1 {
                    try_push(open, place).ok()?;
                }
            }
        }
        Some(())
    }

    /// Writes both tables. The key that was removed last is written first.
    fn fill(&mut self, entries: &[(KeyHash, u64)], order: &[(usize, usize)]) {
        for &(index, which) in order.iter().rev() {
            let Some(&(hash, value)) = entries.get(index) else { continue };
            let (cells, mask) = self.places(hash);
            let Some(&own) = cells.get(which) else { continue };
            // The cell is still 0, because only its owner writes to it. Keys that were written
            // before do not use this cell: they were removed after this key, and this key was alone
            // in the cell when it was removed.
            self.owners.set(own, self.which(&cells, mask) ^ which as u64);
            self.values.set(own, value);
        }
    }
}

impl Membership for MutableBloomier {
    fn seed(&self) -> HashSeed {
        self.seed
    }

    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.own_cell(hash).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filterblock::internals::codec::u64_bytes;

    #[test]
    fn every_key_has_the_value_that_was_set_last() {
        for keys in [0u64, 1, 2, 3, 10, 100, 1_000, 30_000] {
            for (value_bits, mask_bits) in [(1, 2), (8, 8), (64, 32)] {
                let most = u64::MAX >> (64 - value_bits);
                let entries = (0..keys).map(|i| (u64_bytes(i), (i * 77) & most));
                let mut map = MutableBloomier::new(entries, value_bits, mask_bits, HashSeed(5)).unwrap();
                assert!((0..keys).all(|i| map.get(&u64_bytes(i)) == Some((i * 77) & most)), "{keys} keys");
                for i in (0..keys).step_by(3) {
                    assert!(map.set(&u64_bytes(i), !i & most).unwrap());
                }
                let wanted = |i: u64| if i.is_multiple_of(3) { !i & most } else { (i * 77) & most };
                assert!((0..keys).all(|i| map.get(&u64_bytes(i)) == Some(wanted(i))), "{keys} keys");
                assert_eq!((map.len(), map.is_empty()), (keys, keys == 0));
            }
        }
    }

    #[test]
    fn an_absent_key_passes_three_times_in_two_to_the_mask() {
        const ASKED: u64 = 400_000;
        for mask_bits in [2, 4, 8, 12] {
            let map =
                MutableBloomier::new((0..10_000u64).map(|i| (u64_bytes(i), 1)), 1, mask_bits, HashSeed(1)).unwrap();
            let found = (10_000..10_000 + ASKED).filter(|&i| map.may_contain(&u64_bytes(i))).count() as f64;
            let rate = 3.0 * (-f64::from(mask_bits)).exp2();
            let (mean, variance) = (ASKED as f64 * rate, ASKED as f64 * rate * (1.0 - rate));
            assert!((found - mean).abs() < 5.0 * variance.sqrt(), "{mask_bits} bits: {found} for {mean}");
        }
    }

    #[test]
    fn a_mutable_map_takes_a_quarter_more_than_its_bits() {
        let map = MutableBloomier::new((0..16_000u64).map(|i| (u64_bytes(i), i % 256)), 8, 8, HashSeed(1)).unwrap();
        let bits = map.len_bytes() as f64 * 8.0 / 16_000.0;
        assert!((16.0 * 1.22..16.0 * 1.25).contains(&bits), "{bits} bits per key");
    }

    #[test]
    fn an_invalid_map_or_value_is_refused_without_changes() {
        for mask_bits in [0, 1, 33] {
            assert!(MutableBloomier::new([("a", 1)], 1, mask_bits, HashSeed(1)).is_err(), "{mask_bits}");
        }
        let mut map = MutableBloomier::new([("a", 1)], 2, 30, HashSeed(1)).unwrap();
        assert!(matches!(map.set(b"a", 4), Err(Error::Invalid { .. })));
        assert!(!map.set(b"b", 3).unwrap());
        assert_eq!((map.get(b"a"), map.get(b"b")), (Some(1), None));
    }
}
