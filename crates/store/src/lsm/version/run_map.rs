//! Maps keys to the SSTs of level 0 that may hold them, so that a miss asks one cache line instead
//! of one filter for each SST.
//!
//! An SST is *mapped* if the map holds the hashes of all its keys. A flush keeps the hashes of its SST
//! until level 0 has enough SSTs for a map, and then adds them. A background thread reads the keys of
//! SSTs whose hashes are not known, for example after an open (`map_level_0.rs`). Until then, and for
//! every SST that cannot be mapped, reads ask the filter of the SST.

use std::sync::Arc;

use crate::error::Result;
use crate::lsm::options::MAX_TRIGGER;
use crate::lsm::stats::{Tally, rate_units};
use filterblock::{KeyHash, KeyHasher, RunMap, Runs};

pub(crate) const MAX_RUNS: usize = 256;
/// The number of runs that stay in a map whose numbers are used up.
pub(crate) const KEPT_RUNS: usize = 192;
/// A map is asked as soon as it is made, and stays in use.
const _: () = assert!(MAX_TRIGGER < KEPT_RUNS);

/// Whether the keys of an SST are in a map.
#[derive(Debug, Clone, Default)]
pub(crate) enum Mapped {
    /// No map has the keys. They may be read from the file.
    #[default]
    NotYet,
    /// These are the hashes of all keys. They wait until level 0 has enough SSTs for a map.
    Hashed(Arc<Vec<KeyHash>>),
    /// The map holds all keys of the SST as this run.
    As(Arc<RunMap>, u8),
    /// The map refused the keys, or they could not be read. Reads ask the filter of the SST.
    Never,
}

#[derive(Debug)]
pub(crate) struct SstOfMap {
    /// The run of the SST, or `None` if the map does not hold all its keys.
    pub(crate) run: Option<u8>,
    /// The order prefix of the first key.
    pub(crate) smallest: u64,
    /// The order prefix of the last key.
    pub(crate) largest: u64,
    pub(crate) num_keys: u64,
}

/// The map of level 0 as one version sees it.
#[derive(Debug, Clone)]
pub(crate) struct MappedRuns {
    pub(crate) map: Arc<RunMap>,
    /// The mapped runs of the version.
    pub(super) known: Runs,
    /// The place of each run in the level.
    place_of: [u8; MAX_RUNS],
    /// The places of the SSTs that are not mapped, up to place 255. All SSTs after it are not mapped.
    always: Runs,
    /// Whether all SSTs of the level are mapped.
    pub(super) is_whole: bool,
    /// All mapped SSTs cover each key whose order prefix lies between these two.
    pub(super) inside: (u64, u64),
    /// The counts of the mapped SSTs before each place, and of all, for a key that they cover.
    before: Vec<Denials>,
    /// The order prefixes of the first keys of the mapped SSTs, in order.
    starts: Edges,
    /// The order prefixes of the last keys.
    ends: Edges,
}

/// The number of SSTs that cover a key and deny it, and the sum of their expected FPRs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Denials {
    number: u64,
    expected: u64,
}

impl Denials {
    fn minus(self, other: Self) -> Self {
        Self { number: self.number - other.number, expected: self.expected - other.expected }
    }

    #[inline]
    pub(super) fn count(self, num_keys: u64, tally: &mut Tally) {
        tally.points.true_negatives += num_keys * self.number;
        tally.points.expected += num_keys * self.expected;
    }
}

/// The first or the last keys of SSTs: their order prefixes, in order, and the counts up to each.
#[derive(Debug, Clone, Default)]
struct Edges(Vec<(u64, Denials)>);

impl Edges {
    /// Each element of `edges` is an order prefix and the expected FPR of its SST.
    fn new(mut edges: Vec<(u64, u64)>) -> Self {
        edges.sort_unstable();
        let mut sum = Denials::default();
        let up_to = |(prefix, expected)| {
            sum = Denials { number: sum.number + 1, expected: sum.expected + expected };
            (prefix, sum)
        };
        Self(edges.into_iter().map(up_to).collect())
    }

    /// `None` if the prefix does not decide, because an edge has it.
    fn before(&self, prefix: u64) -> Option<Denials> {
        let place = self.0.partition_point(|(edge, _)| *edge < prefix);
        if self.0.get(place).is_some_and(|(edge, _)| *edge == prefix) {
            return None;
        }
        Some(self.0.get(place.wrapping_sub(1)).map_or(Denials::default(), |(_, counts)| *counts))
    }
}

impl MappedRuns {
    /// Returns the view of a map for a level with these SSTs, newest first.
    pub(crate) fn new(map: Arc<RunMap>, ssts: &[SstOfMap]) -> Self {
        let mut view = Self {
            map,
            known: Runs::NONE,
            place_of: [0; MAX_RUNS],
            always: Runs::NONE,
            is_whole: false,
            inside: (0, u64::MAX),
            before: vec![Denials::default()],
            starts: Edges::default(),
            ends: Edges::default(),
        };
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        let mut before = Denials::default();
        for (place, sst) in (0..=u8::MAX).zip(ssts) {
            // Two SSTs never have the same run. If a bug gave them one, the older SST must be asked.
            if let Some(run) = sst.run.filter(|run| !view.known.contains(*run)) {
                view.known.insert(run);
                if let Some(of_run) = view.place_of.get_mut(usize::from(run)) {
                    *of_run = place;
                }
                let expected = u64::from(rate_units(view.map.expected_fpr(sst.num_keys)));
                view.inside = (view.inside.0.max(sst.smallest), view.inside.1.min(sst.largest));
                before.number += 1;
                before.expected += expected;
                starts.push((sst.smallest, expected));
                ends.push((sst.largest, expected));
            } else {
                view.always.insert(place);
            }
            view.before.push(before);
        }
        view.is_whole = view.always.is_empty() && ssts.len() <= MAX_RUNS;
        (view.starts, view.ends) = (Edges::new(starts), Edges::new(ends));
        view
    }

    /// `None` if the SST at this place is not mapped.
    pub(crate) fn expected_at(&self, place: usize) -> Option<u32> {
        let own = self.before.get(place + 1)?.minus(*self.before.get(place)?);
        u32::try_from(own.expected).ok().filter(|_| own.number == 1)
    }

    #[inline]
    pub(crate) fn ask(&self, hash: KeyHash) -> Runs {
        self.map.ask(hash, &self.known)
    }

    pub(crate) fn num_mapped(&self) -> u64 {
        self.all().number
    }

    #[inline]
    pub(super) fn all(&self) -> Denials {
        self.before.last().copied().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn is_inside(&self, prefix: u64) -> bool {
        self.inside.0 < prefix && prefix < self.inside.1
    }

    /// If all SSTs are mapped and `found` names none, counts the answers. `false` if the counts are not known.
    #[inline]
    pub(crate) fn denies(&self, prefix: u64, found: &Runs, tally: &mut Tally) -> bool {
        if !self.is_whole || !found.is_empty() {
            return false;
        }
        if self.is_inside(prefix) {
            self.all().count(1, tally);
            return true;
        }
        self.covering(prefix).inspect(|denials| denials.count(1, tally)).is_some()
    }

    /// `None` if the key's order prefix does not decide.
    #[cold]
    fn covering(&self, prefix: u64) -> Option<Denials> {
        let (started, ended) = (self.starts.before(prefix)?, self.ends.before(prefix)?);
        Some(started.minus(ended))
    }

    /// Returns the places of all SSTs to look at for a key: those that may hold it by the map, and those
    /// that are not mapped. Larger places than 255 are missing.
    pub(crate) fn places_to_ask(&self, found: &Runs) -> Runs {
        let mut places = self.places(found);
        self.always.iter().for_each(|place| places.insert(place));
        places
    }

    /// Counts the mapped SSTs from place `from` to before place `to` that deny a key which all cover.
    pub(crate) fn count_between(&self, from: usize, to: usize, tally: &mut Tally) {
        let before = |place: usize| self.before.get(place).copied().unwrap_or_else(|| self.all());
        before(to).minus(before(from)).count(1, tally);
    }

    pub(crate) fn places(&self, found: &Runs) -> Runs {
        let mut places = Runs::NONE;
        found.iter().filter_map(|run| self.place_of.get(usize::from(run))).for_each(|&place| places.insert(place));
        places
    }
}

/// The map to which flushes add their SSTs. While a thread holds the lock of this value, no other
/// thread adds a run or replaces the map.
#[derive(Debug, Default)]
pub(crate) struct Mapper {
    pub(crate) current: Option<Growing>,
    /// The most keys that level 0 has had since the map was made.
    pub(crate) peak_keys: u64,
}

#[derive(Debug)]
pub(crate) struct Growing {
    pub(crate) map: Arc<RunMap>,
    /// The runs that have entries in the map.
    used: Runs,
    /// The number of keys in the map, also of SSTs that are gone.
    num_keys: u64,
    pub(crate) capacity: u64,
}

impl Growing {
    pub(crate) fn new(hasher: &KeyHasher, capacity: u64) -> Result<Self> {
        let map = Arc::new(RunMap::new(hasher, capacity)?);
        Ok(Self { map, used: Runs::NONE, num_keys: 0, capacity })
    }

    pub(crate) fn has_room(&self, num_keys: u64) -> bool {
        self.num_keys + num_keys <= self.capacity && self.free_run().is_some()
    }

    fn free_run(&self) -> Option<u8> {
        (0..=u8::MAX).find(|run| !self.used.contains(*run))
    }

    /// Adds the hashes of all keys of an SST. Returns `None` if the map refuses them.
    pub(crate) fn add(&mut self, hashes: &[KeyHash]) -> Option<u8> {
        let run = self.free_run()?;
        self.used.insert(run);
        self.num_keys += hashes.len() as u64;
        self.map.add_run(run, hashes).then_some(run)
    }

    /// Replaces the map with one that holds only these runs, which together have so many keys.
    pub(crate) fn keep(&mut self, kept: Runs, num_keys: u64) -> Result<()> {
        self.map = Arc::new(self.map.keeping(&kept)?);
        (self.used, self.num_keys) = (kept, num_keys);
        Ok(())
    }
}
