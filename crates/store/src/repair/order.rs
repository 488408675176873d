//! Decides which of two SSTs is newer if no manifest says so.
//!
//! An SST does not store the sequence numbers of its keys. These facts are known about an SST:
//!
//! * its level: the current level if a readable part of a manifest names the SST, or else the level
//!   to which the SST was written, from its origin,
//! * the range of sequence numbers of the flushed writes, or of all merge inputs,
//! * its file number.
//!
//! These rules apply to two SSTs that share keys and are both in force. The later SST is the one
//! with the higher file number.
//!
//! * If all writes of one SST are after all writes of the other (disjoint ranges), then the SST
//!   with the later writes is newer, on any level.
//! * A flushed SST (level 0) is newer than any SST of a deeper level, because a compaction of
//!   level 0 takes the whole level. Sequence numbers order flushed SSTs among themselves.
//! * If both were written to the same level deeper than 0, then the later SST is newer. SSTs of
//!   such a level do not overlap, so the earlier SST had already moved down.
//! * If the later SST was written to the upper one of two levels, then it is newer, because SSTs
//!   only move down.
//! * If the later SST was written to the deeper level, then the order depends on the earlier SST.
//!   The earlier SST is newer if it stayed on its level. It is older if it had moved to a deeper
//!   level than the later SST before the later SST was written. Most SSTs stay, and few move down
//!   two levels. Therefore the earlier SST counts as newer, and the report names the doubt.
//!
//! The directory may also have an SST that is not in force: it was merged into another SST, but not
//! removed. Keys that were deleted after the merge may then come back, wherever the SST is placed,
//! because a compaction may have dropped their tombstones. In each of the following cases, the
//! report has a doubt. In all of them, the range of the SST's sequence numbers lies within the
//! range of the merge result.
//!
//! * If the SST was written to level 0, the ranges prove the merge. The SST is placed below the
//!   result.
//! * If the SST and the result were written to the same level, the SST may have been merged, or may
//!   have moved down.
//! * If the later SST was written to a deeper level, the earlier SST may have been merged into it,
//!   or may have stayed on its level.
//! * If the range of the later SST begins with 0, an earlier repair had moved all SSTs to level 0.
//!   The earlier SST may then come from any level.
//! * On levels deeper than 0, nothing reveals the merge if its result is gone or shares no key with
//!   the SST. One doubt then covers all these SSTs.
//!
//! [`newest_first`] orders the SSTs by level, the upper level first. It orders level 0 by the
//! largest sequence number, and a deeper level by file number, the highest first. An SST that these
//! rules prove to be older than an SST of a deeper level is placed below that SST. An SST without a
//! readable origin, which no manifest names either, is ordered by its file number alone. If its
//! order to an overlapping SST is a guess, the report has a doubt.
//!
//! We rejected the file number as the only rule. A compaction that runs during a flush can write
//! SSTs with higher numbers than the flushed SST but older content. Deleted keys would come back.

use std::cmp::Reverse;

use crate::lsm::manifest::edit::TableMeta;

#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) level: u8,
    pub(super) smallest_sequence: u64,
    pub(super) largest_sequence: u64,
    /// Whether a whole manifest gives this place. The SST is then in force, and the level is its
    /// current level.
    pub(super) is_exact: bool,
}

impl Place {
    fn is_all_after(&self, other: &Self) -> bool {
        self.smallest_sequence > other.largest_sequence
    }

    fn is_within(&self, other: &Self) -> bool {
        other.smallest_sequence <= self.smallest_sequence && self.largest_sequence <= other.largest_sequence
    }

    /// Returns whether `other` proves that this SST was merged away: this SST was written to level
    /// 0, `other` is deeper, and no write of this SST is after the last write of `other`. If a
    /// whole manifest names both SSTs, both are in force.
    fn is_merged_away(&self, other: &Self) -> bool {
        let both_in_force = self.is_exact && other.is_exact;
        !both_in_force && self.level == 0 && other.level > 0 && self.largest_sequence <= other.largest_sequence
    }
}

#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) meta: TableMeta,
    /// The number that orders the SST. If a repair wrote the SST from another SST and the place is
    /// not exact, this is the number of the first original.
    pub(super) number: u64,
    /// The number of the file that the repair found.
    pub(super) found: u64,
    pub(super) place: Option<Place>,
}

impl Candidate {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.meta.smallest <= other.meta.largest && other.meta.smallest <= self.meta.largest
    }

    /// Returns whether the SST may have been merged away without a trace.
    pub(super) fn may_not_be_in_force(&self) -> bool {
        self.place.is_some_and(|place| !place.is_exact && place.level > 0)
    }

    /// The SST is above `older` in the order.
    fn is_surely_above(&self, older: &Self) -> bool {
        let (a, b) = match (self.place, older.place) {
            (Some(a), Some(b)) => (a, b),
            (Some(a), None) => return a.level == 0 && self.number > older.number,
            (None, _) => return false,
        };
        if a.is_exact && b.is_exact || a.is_all_after(&b) {
            return true;
        }
        // With an SST of level 0, the order is not certain here. If both SSTs were in force and
        // `self` were newer, all writes of `self` would be after those of `older`. The check above
        // would then have returned `true`.
        if a.level == 0 || b.level == 0 {
            return false;
        }
        let may_be_merged_away = b.is_within(&a) && (a.level == b.level || a.smallest_sequence == 0);
        self.number > older.number && !may_be_merged_away
    }

    /// The SST belongs below `other`, although `other` is on a deeper level.
    fn sinks_below(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (self.place, other.place) else { return false };
        let both_in_force = a.is_exact && b.is_exact;
        a.is_merged_away(&b) || !both_in_force && a.level < b.level && b.is_all_after(&a) && self.overlaps(other)
    }
}

pub(super) fn newest_first(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let (mut known, mut unknown): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|one| one.place.is_some());
    known.sort_by_key(|one| {
        let place = one.place.map_or((u8::MAX, 0), |place| (place.level, place.largest_sequence));
        let sequence = if place.0 == 0 { place.1 } else { 0 };
        (place.0, Reverse(sequence), Reverse(one.number))
    });
    let all = known.clone();
    let sinks = |one: &mut Candidate| all.iter().any(|other| one.sinks_below(other));
    let sinking: Vec<Candidate> = known.extract_if(.., sinks).collect();
    let mut last = 0;
    for one in sinking {
        // SSTs that sink keep their order among themselves.
        let below = known.iter().rposition(|other| one.sinks_below(other)).map_or(0, |at| at + 1);
        last = below.max(last);
        known.insert(last, one);
        last += 1;
    }
    unknown.sort_by_key(|one| one.number);
    for one in unknown {
        let at = known.iter().position(|other| other.number < one.number).unwrap_or(known.len());
        known.insert(at, one);
    }
    known
}

/// Returns pairs of SSTs (newer, older) whose order is a guess. An SST is the newer one of at most
/// one pair. The older one is the first SST after it in `ordered` for which the order is a guess.
pub(super) fn doubtful(ordered: &[Candidate]) -> Vec<(&Candidate, &Candidate)> {
    let pair = |(at, newer): (usize, _)| {
        let is_guess = |older: &&Candidate| newer_is_guess(newer, older);
        ordered.iter().skip(at + 1).find(is_guess).map(|older| (newer, older))
    };
    ordered.iter().enumerate().filter_map(pair).collect()
}

fn newer_is_guess(newer: &Candidate, older: &Candidate) -> bool {
    let is_merged_away = older.place.zip(newer.place).is_some_and(|(older, newer)| older.is_merged_away(&newer));
    is_merged_away || newer.overlaps(older) && !newer.is_surely_above(older)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Orders SSTs that all hold the same keys. Each is given by number, level, smallest and
    /// largest sequence number. Returns the numbers, newest first, and the number of doubtful
    /// pairs.
    fn ordered(tables: &[(u64, u8, u64, u64)]) -> (Vec<u64>, usize) {
        let candidate = |&(number, level, smallest_sequence, largest_sequence): &_| Candidate {
            meta: TableMeta { number, ..TableMeta::default() },
            number,
            found: number,
            place: Some(Place { level, smallest_sequence, largest_sequence, is_exact: false }),
        };
        let ordered = newest_first(tables.iter().map(candidate).collect());
        let doubts = doubtful(&ordered).len();
        (ordered.into_iter().map(|one| one.number).collect(), doubts)
    }

    #[test]
    fn ssts_of_a_store_with_many_levels_are_never_in_doubt() {
        // A merge into level 1 also reads old SSTs of level 1, so the range of its result begins
        // with old writes.
        let tables = [(3, 3, 1, 100), (5, 2, 1, 200), (9, 1, 1, 300), (8, 0, 301, 310), (12, 0, 311, 320)];
        assert_eq!(ordered(&tables), (vec![12, 8, 9, 5, 3], 0));
    }

    #[test]
    fn ssts_that_may_have_been_merged_away_are_in_doubt() {
        // Two SSTs of level 0, and a merge result on level 1.
        assert_eq!(ordered(&[(3, 0, 1, 10), (4, 0, 11, 20), (7, 1, 1, 20)]), (vec![7, 4, 3], 1));
        assert_eq!(ordered(&[(3, 0, 1, 10), (4, 0, 11, 20), (7, 1, 1, 10)]), (vec![4, 7, 3], 1));
        // An SST, and a merge result on the same level.
        assert_eq!(ordered(&[(3, 1, 1, 10), (7, 1, 1, 20)]), (vec![7, 3], 1));
        // The earlier SST moved down first.
        assert_eq!(ordered(&[(3, 1, 1, 10), (7, 1, 11, 20)]), (vec![7, 3], 0));
        // A later SST on the next level: in the first case the ranges do not decide, in the second
        // they do.
        assert_eq!(ordered(&[(3, 1, 1, 10), (7, 2, 1, 20)]), (vec![3, 7], 1));
        assert_eq!(ordered(&[(3, 1, 1, 10), (7, 2, 11, 20)]), (vec![7, 3], 0));
        // A merge after a repair, which left no SST on level 2.
        assert_eq!(ordered(&[(3, 2, 1, 10), (7, 1, 0, 20)]), (vec![7, 3], 1));
    }
}
