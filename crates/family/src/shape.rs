//! Chooses and checks the shape of a filter, computes its FPR, and finds the cells of a key.

use crate::error::{Error, Result};
use filterblock::KeyHash;
use filterblock::internals::{bloom, math};
use filterblock::planning;

/// The number of cells of a filter, and the number of probes of a key. A cell is a bit or a
/// counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// The number of cells, a multiple of 8. So the cells can become the bits of a filter block.
    pub(super) cells: u64,
    /// The number of probes of a key, 1 to 30. Two probes of a key may choose the same cell.
    pub(super) probes: u32,
}

impl Shape {
    /// Returns a shape of `cells` cells, rounded up to a multiple of 8.
    pub(super) fn new(cells: u64, probes: u32) -> Result<Self> {
        if cells == 0 {
            return Err(Error::invalid(
                "number of cells",
                cells,
                "expected at least one cell (a bit or a counter); try 1000000",
            ));
        }
        if !(1..=math::MAX_BLOOM_PROBES).contains(&probes) {
            let reason = format!("expected 1 to {} probes; try 7", math::MAX_BLOOM_PROBES);
            return Err(Error::invalid("number of probes", probes, reason));
        }
        let cells = cells.checked_next_multiple_of(8).ok_or(TOO_LARGE)?;
        Ok(Self { cells, probes })
    }

    /// Returns a shape whose expected FPR with `capacity` keys is at most `rate`.
    ///
    /// The number of cells is the minimum of `-kn / ln(1 - c^(1/k))` over the numbers of probes
    /// `k`, with `c` for `rate` and `n` for `capacity`. A filter gets more cells if this formula
    /// gives too few for the rate.
    pub(super) fn for_rate(capacity: u64, rate: f64) -> Result<Self> {
        check_rate_of(capacity, rate)?;
        let all = (1..=math::MAX_BLOOM_PROBES).map(|probes| (planning::bits_for(capacity, rate, probes), probes));
        let (least, probes) = all.min_by(|a, b| a.0.total_cmp(&b.0)).ok_or(TOO_LARGE)?;
        // No machine has memory for 2^60 bits.
        if least.is_nan() || least >= 60f64.exp2() {
            return Err(TOO_LARGE);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 < least < 2^60")]
        let mut shape = Self::new(least.ceil() as u64, probes)?;
        while math::with_equal_hashes(math::bloom_rate(capacity, shape.cells, probes), capacity) > rate {
            shape = Self::new(shape.cells + shape.cells / 4_096 + 1, probes)?;
        }
        Ok(shape)
    }

    /// Returns the FPR if `used` cells are not zero. It includes absent keys whose cells are all
    /// used by chance, and absent keys with the same 64-bit hash as a present key.
    pub(super) fn rate_of(self, used: u64) -> f64 {
        let by_chance = (used as f64 / self.cells as f64).powi(self.probes.cast_signed());
        math::with_equal_hashes(by_chance, math::whole_keys(used, self.cells, self.probes))
    }

    /// Returns the cells of a key without duplicates. A duplicate cell would count the key twice.
    pub(super) fn distinct(&self, hash: KeyHash) -> Places {
        let mut places = Places { cells: [0; math::MAX_BLOOM_PROBES as usize], len: 0 };
        for cell in bloom::positions(hash, self.cells, self.probes) {
            if !places.contains(&cell)
                && let Some(place) = places.cells.get_mut(places.len)
            {
                *place = cell;
                places.len += 1;
            }
        }
        places
    }
}

const TOO_LARGE: Error = Error::TooLarge { what: "a filter" };

/// Checks that a filter is created for at least one key.
pub(super) fn check_capacity(capacity: u64) -> Result<()> {
    if capacity > 0 {
        return Ok(());
    }
    Err(Error::invalid("capacity", capacity, "expected at least one key; try 1000"))
}

/// Checks that an FPR is above 0 and below 1.
pub(super) fn check_rate(rate: f64) -> Result<()> {
    // This condition also refuses NaN.
    if rate > 0.0 && rate < 1.0 {
        return Ok(());
    }
    Err(Error::invalid("false-positive rate", rate, "expected a rate above 0 and below 1; try 0.01"))
}

/// Checks that a filter of `capacity` keys can have this FPR. With 64-bit hashes, one absent key in
/// `2^64 / capacity` has the hash of a present key. These keys may cause at most half of the FPR.
/// The other half is for absent keys whose cells are all used by chance.
pub(super) fn check_rate_of(capacity: u64, rate: f64) -> Result<()> {
    check_capacity(capacity)?;
    check_rate(rate)?;
    // No machine holds more than 2^60 keys, so an error that names the lowest FPR would not help.
    if capacity > 1 << 60 {
        return Err(TOO_LARGE);
    }
    let lowest = 2.0 * math::equal_hash(capacity);
    if rate >= lowest {
        return Ok(());
    }
    let reason =
        format!("with 64-bit hashes, the lowest FPR for a capacity of {capacity} is {lowest:e}; try {lowest:e}");
    Err(Error::invalid("false-positive rate", rate, reason))
}

/// The distinct cells of a key.
pub(super) struct Places {
    cells: [u64; math::MAX_BLOOM_PROBES as usize],
    len: usize,
}

impl std::ops::Deref for Places {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        self.cells.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_for_a_rate_keeps_the_rate_and_is_close_to_minimal() {
        for capacity in [1, 10, 1_000, 1_000_000] {
            for rate in [0.9, 0.5, 0.1, 0.01, 1e-4, 1e-9, 1e-12] {
                let shape = Shape::for_rate(capacity, rate).unwrap();
                let reached = math::with_equal_hashes(math::bloom_rate(capacity, shape.cells, shape.probes), capacity);
                assert!(reached <= rate, "{capacity} keys at {rate}: {shape:?} reaches {reached}");
                // `smaller` has at least 4 % fewer cells than `shape`. For a large filter, these
                // are too few for the rate with any number of probes.
                if capacity >= 1_000 {
                    let smaller = shape.cells - shape.cells / 25 - 8;
                    let best = (1..=30).map(|k| math::bloom_rate(capacity, smaller, k)).fold(1.0, f64::min);
                    assert!(best > rate, "{capacity} keys at {rate}: {shape:?}");
                }
            }
        }
    }

    #[test]
    fn an_impossible_shape_is_refused() {
        for rate in [0.0, 1.0, -1.0, 2.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(Shape::for_rate(9, rate), Err(Error::Invalid { .. })), "{rate}");
        }
        assert!(matches!(Shape::for_rate(0, 0.1), Err(Error::Invalid { .. })));
        assert!(matches!(Shape::for_rate(u64::MAX, 0.1), Err(Error::TooLarge { .. })));
        assert!(matches!(Shape::new(u64::MAX, 1), Err(Error::TooLarge { .. })));
        for (cells, probes) in [(0, 1), (8, 0), (8, 31)] {
            assert!(matches!(Shape::new(cells, probes), Err(Error::Invalid { .. })), "{cells} {probes}");
        }
    }

    #[test]
    fn a_key_has_each_of_its_cells_once() {
        let shape = Shape::new(8, 30).unwrap();
        for hash in 0..1_000u64 {
            let places = shape.distinct(KeyHash::from_raw(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let mut sorted = places.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), places.len());
            assert!((1..=8).contains(&places.len()));
        }
    }
}
