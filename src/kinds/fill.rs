//! Builds filters by setting bits, from hashes in any order and with repetitions: see
//! [`super::blank`].

use super::FilterKind;
use super::blank::Suspects;
use super::contract::Budget;
use super::shape::{Rounding, Shape};
use crate::bits::NoMemory;
use crate::hash::KeyHash;

/// A filter that was built from hashes in any order.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) shape: Shape,
    pub(crate) payload: Vec<u8>,
    /// The number of distinct hashes.
    pub(crate) num_keys: u64,
}

/// Builds the filter of at least one hash. The hashes may come in any order and with repetitions.
/// Returns `None` if the kind is not built by setting bits, or if a sort is the better way to count
/// the distinct hashes. Also returns `None` if there is no memory for the count.
pub(crate) fn fill(
    kind: FilterKind,
    budget: Budget,
    hashes: &[KeyHash],
    rounding: Rounding,
) -> Result<Option<Filled>, NoMemory> {
    let mut num_keys = hashes.len() as u64;
    let Some(blank) = kind.blank(budget, num_keys, rounding)? else { return Ok(None) };
    let mut suspects = Suspects::of(hashes.len());
    let Some(mut filled) = blank.filled(hashes, &mut suspects) else { return Ok(None) };
    let Some(repetitions) = suspects.repetitions(hashes) else { return Ok(None) };
    if repetitions > 0 {
        drop(filled);
        num_keys -= repetitions;
        let Some(blank) = kind.blank(budget, num_keys, rounding)? else { return Ok(None) };
        // A repeated hash sets the same bits again, so the second filter may get all hashes.
        let Some(again) = blank.filled_by_distinct(hashes) else { return Ok(None) };
        filled = again;
    }
    let (shape, payload) = filled;
    Ok(Some(Filled { shape, payload, num_keys }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashSeed, sort};
    use crate::spec::FilterSpec;

    const KINDS: [&str; 4] = ["bloom", "blocked-bloom", "split-block", "split-block-512"];

    /// Asserts that [`fill`] builds the same filter as a build from the distinct, sorted hashes.
    /// Returns `false`, without a comparison, if [`fill`] leaves the hashes to a sort.
    fn agrees(spec: &str, hashes: &[KeyHash]) -> bool {
        let spec: FilterSpec = spec.parse().unwrap();
        let mut distinct = hashes.to_vec();
        sort(&mut distinct);
        distinct.dedup();
        let budget = spec.budget();
        let effort = super::super::shape::Effort { rounding: Rounding::Words, threads: std::num::NonZeroUsize::MIN };
        let built = spec.kind().build(budget, &mut distinct, effort).unwrap().unwrap();
        let Some(filled) = fill(spec.kind(), budget, hashes, Rounding::Words).unwrap() else { return false };
        assert_eq!(filled.num_keys, distinct.len() as u64, "{spec}, {} hashes", hashes.len());
        assert!((filled.shape, filled.payload) == built, "{spec}, {} hashes", hashes.len());
        true
    }

    fn hashes(n: u64) -> Vec<KeyHash> {
        (0..n).map(|i| KeyHash::of(&i.to_le_bytes(), HashSeed(2))).collect()
    }

    #[test]
    fn repetitions_at_any_distance_are_counted_exactly() {
        for kind in KINDS {
            for bits in [6, 10, 20] {
                let spec = format!("{kind}:{bits}");
                for n in [1_000, 20_000, 70_000] {
                    let once = hashes(n);
                    assert!(agrees(&spec, &once), "{spec}");
                    let n = once.len();
                    for (from, count) in [(0, 1), (n - 1, 1), (n / 2, n / 50), (0, n / 30)] {
                        let mut often = once.clone();
                        often.extend_from_slice(&once[from..from + count.min(n - from)]);
                        assert!(agrees(&spec, &often), "{spec}, {count} repeated");
                        often.rotate_left(n / 3);
                        assert!(agrees(&spec, &often), "{spec}, {count} repeated, rotated");
                    }
                    let mut thrice = once.clone();
                    (0..2).for_each(|_| thrice.extend(once.iter().step_by(100)));
                    assert!(agrees(&spec, &thrice), "{spec}");
                }
            }
        }
    }

    #[test]
    fn filters_full_of_ones_or_repetitions_are_left_to_a_sort() {
        let once = hashes(5_000);
        let twice: Vec<_> = once.iter().chain(&once).copied().collect();
        for kind in KINDS {
            assert!(!agrees(&format!("{kind}:1"), &once), "{kind}");
            assert!(!agrees(&format!("{kind}:10"), &twice), "{kind}");
        }
        assert!(
            fill(FilterKind::BumpedRibbon, FilterSpec::default().budget(), &once, Rounding::Words).unwrap().is_none()
        );
    }

    /// Uses consecutive or shifted numbers as hashes, which are badly spread. [`fill`] counts them
    /// exactly or leaves them to a sort.
    #[test]
    fn numbers_that_are_no_hashes_are_counted_exactly() {
        for kind in KINDS {
            for bits in [10, 50] {
                for shift in [0, 20, 50] {
                    let mut numbers: Vec<_> = (0..3_000).map(|i| KeyHash::from_raw(i << shift)).collect();
                    numbers.extend_from_within(..20);
                    agrees(&format!("{kind}:{bits}"), &numbers);
                }
            }
        }
    }
}
