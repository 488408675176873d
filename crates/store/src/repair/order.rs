//! Which of two tables is the newer, when no manifest says so.
//!
//! A table holds no sequence numbers of its keys. What is known of it is the level that it lies on (from a part of a
//! manifest that could be read) or was written to (its origin), the range of sequence numbers of all that it was made
//! from, and its number. Of two tables with keys in common, both in force:
//!
//! * All of one written after all of the other (ranges apart): that one is newer, on whatever levels.
//! * A flushed one (level 0) is newer than any of a deeper level: a compaction of level 0 takes all of it. Flushed
//!   tables are ordered by their sequence numbers.
//! * Written to the same level below 0: the later is newer. Had the earlier still been on that level when the later was
//!   written, they could not overlap; so it had moved down.
//! * Written to different levels, the later to the higher: the later is newer, since tables only move down.
//! * Written to different levels, the later to the deeper: the earlier is newer where it has stayed above, and older where
//!   it had moved down past that level first. Staying is the rule, moving two levels the exception: the higher level is
//!   taken as newer, and the doubt is told.
//!
//! But a table may be there that is not in force, because it was merged into another and something kept it from being
//! removed. What was deleted since comes back with it wherever it is put, so that is never done without a doubt. Such a
//! table lies within the range of what it was merged into. In level 0 that proves it; it goes below. On the same level
//! it may as well have moved down; above a later one of a deeper level it may as well have stayed. A range that begins
//! with 0 says that a repair had put all tables into one level, whatever theirs was before. Where nothing is left of what
//! it was merged into, or no key in common, nothing shows it below level 0: there the doubt is told of all tables at once.
//!
//! So the order is that of levels, and on a level that of numbers. Of a table that says nothing, as it is too damaged,
//! the number alone decides, and the doubt is told.
//!
//! The number alone was rejected as the rule for all: a compaction that ran while memory was flushed has higher numbers than
//! the flushed table, and older content; deleted keys would come back as a matter of course.

use std::cmp::Reverse;

use crate::lsm::parts::TableMeta;

/// Where a table lies or lay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) level: u8,
    pub(super) smallest_sequence: u64,
    pub(super) largest_sequence: u64,
    /// Whether a whole manifest says so, so that it is in force, and where it lies and not where it was written to.
    pub(super) is_exact: bool,
}

impl Place {
    fn is_all_after(&self, other: &Self) -> bool {
        self.smallest_sequence > other.largest_sequence
    }

    fn is_within(&self, other: &Self) -> bool {
        other.smallest_sequence <= self.smallest_sequence && self.largest_sequence <= other.largest_sequence
    }

    /// Whether it was flushed before what the deeper `other` was merged from: then it was a part of that.
    fn is_merged_away(&self, other: &Self) -> bool {
        let both_in_force = self.is_exact && other.is_exact;
        !both_in_force && self.level == 0 && other.level > 0 && self.largest_sequence <= other.largest_sequence
    }
}

/// A table to be put in order; its meta has the number that it had.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) meta: TableMeta,
    /// The number by which it is to be judged: that of the file whose content it has.
    pub(super) number: u64,
    pub(super) place: Option<Place>,
}

impl Candidate {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.meta.smallest <= other.meta.largest && other.meta.smallest <= self.meta.largest
    }

    /// Whether it may have been merged away without anything that shows it.
    pub(super) fn may_not_be_in_force(&self) -> bool {
        self.place.is_some_and(|place| !place.is_exact && place.level > 0)
    }

    /// Whether it is surely newer than `older`, where both know a key.
    fn is_surely_above(&self, older: &Self) -> bool {
        let (a, b) = match (self.place, older.place) {
            (Some(a), Some(b)) => (a, b),
            (Some(a), None) => return a.level == 0 && self.number > older.number,
            (None, _) => return false,
        };
        if a.is_exact && b.is_exact || a.is_all_after(&b) {
            return true;
        }
        // Were both in force, all of a flushed one would be newer.
        if a.level == 0 || b.level == 0 {
            return false;
        }
        let may_be_merged_away = b.is_within(&a) && (a.level == b.level || a.smallest_sequence == 0);
        self.number > older.number && !may_be_merged_away
    }

    /// Whether it is to lie below `other`, though its level is the higher one.
    fn sinks_below(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (self.place, other.place) else { return false };
        let both_in_force = a.is_exact && b.is_exact;
        a.is_merged_away(&b) || !both_in_force && a.level < b.level && b.is_all_after(&a) && self.overlaps(other)
    }
}

/// Puts the newest first.
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
        // Among themselves they stay in order.
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

/// Pairs of tables, newest first, whose order is a guess; of each table the first such pair.
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

    /// Tables with the same keys: number, level, smallest and largest sequence number.
    fn ordered(tables: &[(u64, u8, u64, u64)]) -> (Vec<u64>, usize) {
        let candidate = |&(number, level, smallest_sequence, largest_sequence): &_| Candidate {
            meta: TableMeta { number, ..TableMeta::default() },
            number,
            place: Some(Place { level, smallest_sequence, largest_sequence, is_exact: false }),
        };
        let ordered = newest_first(tables.iter().map(candidate).collect());
        let doubts = doubtful(&ordered).len();
        (ordered.into_iter().map(|one| one.number).collect(), doubts)
    }

    #[test]
    fn a_store_with_many_levels_leaves_nothing_in_doubt() {
        // Level 1 keeps old tables, so that what is merged there begins with old writes too.
        let tables = [(3, 3, 1, 100), (5, 2, 1, 200), (9, 1, 1, 300), (8, 0, 301, 310), (12, 0, 311, 320)];
        assert_eq!(ordered(&tables), (vec![12, 8, 9, 5, 3], 0));
    }

    #[test]
    fn tables_that_may_have_been_merged_away_are_in_doubt() {
        // Of level 0.
        assert_eq!(ordered(&[(3, 0, 1, 10), (4, 0, 11, 20), (7, 1, 1, 20)]), (vec![7, 4, 3], 1));
        assert_eq!(ordered(&[(3, 0, 1, 10), (4, 0, 11, 20), (7, 1, 1, 10)]), (vec![4, 7, 3], 1));
        // On the same level.
        assert_eq!(ordered(&[(3, 1, 1, 10), (7, 1, 1, 20)]), (vec![7, 3], 1));
        // Moved down before.
        assert_eq!(ordered(&[(3, 1, 1, 10), (7, 1, 11, 20)]), (vec![7, 3], 0));
        // To the next level; here the ranges decide nothing, and here they do.
        assert_eq!(ordered(&[(3, 1, 1, 10), (7, 2, 1, 20)]), (vec![3, 7], 1));
        assert_eq!(ordered(&[(3, 1, 1, 10), (7, 2, 11, 20)]), (vec![7, 3], 0));
        // Merged after a repair, which left nothing on level 2.
        assert_eq!(ordered(&[(3, 2, 1, 10), (7, 1, 0, 20)]), (vec![7, 3], 1));
    }
}
