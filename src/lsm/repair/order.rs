//! Which of two tables is the newer, when no manifest says so.
//!
//! A table holds no sequence numbers of its keys. What is known of it is the level that it lies on (from a part of a
//! manifest that could be read) or was written to (its origin), and its number. Of two tables with keys in common, both in
//! force:
//!
//! * A flushed one (level 0) is newer than any of a deeper level: a compaction of level 0 takes all of it. Flushed
//!   tables are ordered by their sequence numbers.
//! * Written to the same level below 0: the later is newer. Had the earlier still been on that level when the later was
//!   written, they could not overlap; so it had moved down.
//! * Written to different levels, the later to the higher: the later is newer, since tables only move down.
//! * Written to different levels, the later to the deeper: the earlier is newer where it has stayed above, and older where
//!   it had moved down past that level first. Staying is the rule, moving two levels the exception: the higher level is
//!   taken as newer, and the doubt is told.
//!
//! So the order is that of levels, and on a level that of numbers. Of a table that says nothing (written before tables
//! had an origin, or too damaged) the number alone decides, and the doubt is told.
//!
//! The number alone was rejected as the rule for all: a compaction that ran while memory was flushed has higher numbers than
//! the flushed table, and older content; deleted keys would come back as a matter of course.

use std::cmp::Reverse;

use super::super::version_edit::TableMeta;

/// Where a table lies or lay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) level: u8,
    pub(super) largest_sequence: u64,
    /// Whether a manifest says so, so that it is where it lies and not where it was written to.
    pub(super) is_exact: bool,
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
    fn overlaps(&self, other: &Self) -> bool {
        self.meta.smallest <= other.meta.largest && other.meta.smallest <= self.meta.largest
    }

    /// Whether it is surely newer than `older`, where both know a key.
    fn is_surely_above(&self, older: &Self) -> bool {
        match (self.place, older.place) {
            (Some(a), Some(b)) if a.is_exact && b.is_exact => true,
            (Some(a), Some(b)) if a.level == 0 => b.level == 0 || a.largest_sequence > b.largest_sequence,
            (Some(_), Some(_)) => self.number > older.number,
            (Some(a), None) => a.level == 0 && self.number > older.number,
            (None, _) => false,
        }
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
    newer.overlaps(older) && !newer.is_surely_above(older)
}
