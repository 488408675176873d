//! Examines the SSTs of a store under repair. It keeps sound SSTs, rewrites damaged ones, gives up
//! those without a readable entry, and decides which SSTs make up the repaired store.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use super::evidence::{FoundTable, ManifestEvidence, missing};
use super::logs::{LogSpan, earliest, unbroken};
use super::order::{Candidate, Place, doubtful, newest_first};
use super::{LOST, RepairMode, RepairReport};
use crate::error::{Error, Field, Result};
use crate::lsm::files::table_name;
use crate::lsm::manifest::edit::{StoreState, TableMeta, table_id};
use crate::lsm::{Options, Progress};
use crate::sstable::{
    FOOTER_LEN_BYTES, KeyRange, Known, Loss, Table, TableOptions, TableOrigin, TableReadOptions, TableSummary,
    TableWriter, salvage,
};
use filterblock::{KeyHasher, PrefixExtractor, policy::TableShape};

pub(super) struct Tables<'a> {
    pub(super) dir: &'a Path,
    pub(super) options: &'a Options,
    pub(super) mode: RepairMode,
    pub(super) hasher: &'a KeyHasher,
    pub(super) extractor: Option<PrefixExtractor>,
    pub(super) next_number: u64,
    /// The range of writes that each WAL holds, the oldest WAL first.
    pub(super) logs: &'a [LogSpan],
    pub(super) report: &'a mut RepairReport,
    /// The files to copy to [`LOST`]. `true` means that the file must be removed before the store
    /// is opened.
    pub(super) aside: Vec<(PathBuf, bool)>,
    pub(super) done: Progress,
    pub(super) progress: &'a mut dyn FnMut(Progress),
}

impl Tables<'_> {
    /// Returns the state of the manifest after the repair of its SSTs. Damaged SSTs are replaced.
    /// SSTs that are missing or have no readable entry are removed. SSTs that were flushed after
    /// the state are added, unless the WALs hold all their writes. All other unnamed SSTs are set
    /// aside.
    pub(super) fn by_manifest(&mut self, evidence: &ManifestEvidence, found: &[FoundTable]) -> Result<StoreState> {
        let mut state = evidence.state.clone();
        let named = evidence.named();
        let old = std::mem::replace(&mut state.levels, vec![Vec::new(); evidence.state.levels.len()]);
        for (level, metas) in old.iter().enumerate() {
            for meta in metas {
                let kept = match found.iter().find(|table| table.number == meta.number) {
                    Some(table) => self.examine(state.store_id, table, level, Some(meta))?,
                    None => {
                        self.give_up(
                            missing(&self.path(meta.number)),
                            Some((meta.smallest.clone(), meta.largest.clone())),
                        );
                        None
                    }
                };
                if let (Some(tables), Some(meta)) = (state.levels.get_mut(level), kept) {
                    tables.push(meta);
                }
            }
        }
        // For SSTs that were flushed after the state, the edit that names them was lost. If the
        // WALs still hold their writes, the next open replays the WALs, and these SSTs are not
        // needed.
        let last_flushed = found.iter().filter_map(FoundTable::origin).filter(|origin| evidence.is_next(origin));
        let is_logged = last_flushed.map(|origin| origin.largest_sequence).max().is_some_and(|last| {
            let held = unbroken(self.logs, state.log_number);
            held.is_some_and(|held| held.start <= state.last_sequence.saturating_add(1) && held.end > last)
        });
        let mut unnamed: Vec<&FoundTable> = found.iter().filter(|table| !named.contains_key(&table.number)).collect();
        unnamed.sort_by_key(|table| table.origin().map(|origin| origin.largest_sequence));
        for table in unnamed {
            let origin = table.origin();
            let newer = origin.filter(|origin| evidence.is_next(origin));
            let path = self.path(table.file);
            if let Some(origin) = newer.filter(|_| !is_logged) {
                if origin.smallest_sequence > state.last_sequence.saturating_add(1) {
                    let error = Error::Corrupt { field: Field::LogSequence, offset: 0 }.in_file(&path);
                    self.report.losses.push(Loss { error, keys: KeyRange::ALL });
                }
                if let Some(meta) = self.examine(state.store_id, table, 0, None)? {
                    let (smallest_sequence, largest_sequence) = (origin.smallest_sequence, origin.largest_sequence);
                    if let Some(level_0) = state.levels.first_mut() {
                        level_0.push(TableMeta { smallest_sequence, largest_sequence, ..meta });
                    }
                    state.last_sequence = origin.largest_sequence;
                }
                continue;
            }
            if origin.is_none() {
                let path = path.display();
                self.report.doubts.push(format!(
                    "{path}: the manifest does not name this SST, and the SST does not say which writes it holds; \
                     some writes may be only in its copy in {LOST}/; check the writes in that copy"
                ));
            }
            self.aside.push((path, true));
        }
        Ok(state)
    }

    /// Returns a state with the existing SSTs in level 0, in the order of [`newest_first`]. It
    /// leaves out SSTs whose writes are all in the WALs, and SSTs without a readable entry.
    pub(super) fn by_themselves(&mut self, evidence: &ManifestEvidence, found: &[FoundTable]) -> Result<StoreState> {
        let named = evidence.named();
        let places: Vec<Option<Place>> = found.iter().map(|table| place(table, &named, evidence.is_whole)).collect();
        let in_tables = places.iter().flatten().map(|place| place.largest_sequence);
        let last = in_tables.chain([evidence.state.last_sequence]).max().unwrap_or(0);
        // `last` is the last write that the SSTs and the manifest know. If the WALs reach it, the
        // next open replays all writes after the last gap in the WALs. The replay can restore
        // writes that damaged SSTs have lost.
        let from_logs = unbroken(self.logs, 0).filter(|held| held.end > last).map(|held| held.start.saturating_sub(1));
        let mut last_sequence = from_logs.map_or(last, |before| before.min(last));
        let mut candidates = Vec::new();
        for (table, place) in found.iter().zip(places) {
            // If this condition holds, the WALs hold all writes of this SST.
            if place.is_some_and(|place| place.smallest_sequence > last_sequence) {
                self.aside.push((self.path(table.file), true));
                continue;
            }
            let meta = named.get(&table.number).map(|(_, meta)| meta);
            let level = place.map_or(0, |place| usize::from(place.level));
            if let Some(meta) = self.examine(evidence.state.store_id, table, level, meta)? {
                let is_exact = place.is_some_and(|place| place.is_exact);
                let number = if is_exact { table.number } else { table.first_number() };
                candidates.push(Candidate { meta, number, found: table.file, place });
            }
        }
        let is_there = |number: &u64| found.iter().any(|table| table.number == *number);
        for (number, (_, meta)) in named.iter().filter(|(number, _)| !is_there(number)) {
            if meta.smallest_sequence <= last_sequence {
                self.give_up(missing(&self.path(*number)), Some((meta.smallest.clone(), meta.largest.clone())));
            }
        }
        if candidates.iter().any(|one| one.place.is_none()) {
            // An SST without a place may hold any write before the first one in the WALs.
            let before = earliest(self.logs).map_or(self.report.entries, |first| first.saturating_sub(1));
            last_sequence = last_sequence.max(before);
        }
        if candidates.iter().any(Candidate::may_not_be_in_force) {
            let dir = self.dir.display();
            self.report.doubts.push(format!(
                "{dir}: no manifest says which SSTs of level 1 and deeper levels are in force; if a compaction had \
                 already merged one of them into another SST, deleted keys may have come back; check the keys that you \
                 deleted"
            ));
        }
        let ordered = newest_first(candidates);
        for (newer, older) in doubtful(&ordered) {
            let how = if newer.overlaps(older) { "whose key range overlaps" } else { "which it seems to replace" };
            let (newer, older) = (self.path(newer.found), self.path(older.found));
            let doubt = format!(
                "{}: taken as newer than {}, {how}; if this order is wrong, old values or deleted keys have come back; \
                 check the keys of both SSTs",
                newer.display(),
                older.display()
            );
            self.report.doubts.push(doubt);
        }
        let (level_0, last_sequence) = self.rank(ordered, last_sequence);
        let mut state = evidence.state.clone();
        state.levels = vec![Vec::new(); evidence.state.levels.len()];
        if let Some(tables) = state.levels.first_mut() {
            tables.extend(level_0);
        }
        (state.last_sequence, state.log_number) = (last_sequence, 0);
        Ok(state)
    }

    /// Assigns sequence numbers to the SSTs in `ordered` (newest first), so that level 0 keeps
    /// their order. Returns the SSTs and the new last sequence number.
    ///
    /// The WALs may use the numbers above `last`. Therefore an SST gets such a number only if the
    /// order of the SSTs needs it. If the WALs use the number too, the report gets a loss. The
    /// range of each SST begins with 0, and a later merge inherits the 0. It shows that the content
    /// may come from any level.
    fn rank(&mut self, ordered: Vec<Candidate>, last: u64) -> (Vec<TableMeta>, u64) {
        // If two SSTs have equal sequence numbers, the SST with the higher file number is newer. If
        // there are more SSTs than sequence numbers from 0 to `last`, SSTs share a sequence number
        // where this rule keeps their order.
        let may_be_equal = ordered.len() as u64 > last.saturating_add(1);
        let (mut rank, mut ranks, mut before) = (0, Vec::new(), None);
        for one in ordered.iter().rev() {
            if before.is_some_and(|before| !may_be_equal || one.meta.number < before) {
                rank += 1;
            }
            before = Some(one.meta.number);
            ranks.push(rank);
        }
        if rank > last && earliest(self.logs).is_some_and(|first| first <= rank) {
            // The order of the SSTs needs more different sequence numbers than the WALs leave, for
            // example because someone copied SSTs into the directory.
            let error = Error::Corrupt { field: Field::LogSequence, offset: 0 }.in_file(self.dir);
            self.report.losses.push(Loss { error, keys: KeyRange::ALL });
        }
        let last = last.max(rank);
        let level_0 = ordered.into_iter().zip(ranks.into_iter().rev()).map(|(one, nth)| TableMeta {
            smallest_sequence: 0,
            largest_sequence: last - (rank - nth),
            ..one.meta
        });
        (level_0.collect(), last)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(table_name(number))
    }

    fn give_up(&mut self, error: Error, keys: Option<(Vec<u8>, Vec<u8>)>) {
        let keys =
            keys.map_or(KeyRange::ALL, |(from, to)| KeyRange { from: Bound::Included(from), to: Bound::Included(to) });
        self.report.losses.push(Loss { error, keys });
        self.report.tables_lost += 1;
    }

    fn examine(
        &mut self,
        store_id: [u8; 16],
        found: &FoundTable,
        level: usize,
        meta: Option<&TableMeta>,
    ) -> Result<Option<TableMeta>> {
        let kept = self.look_at(store_id, found, level, meta)?;
        self.done.done_bytes += found.len_bytes;
        (self.progress)(self.done);
        Ok(kept)
    }

    /// Returns the SST for the repaired store. This is the SST itself if it is sound, has entries
    /// and agrees with `meta`. Otherwise it is a rewritten SST, or `None` if no entry is readable.
    fn look_at(
        &mut self,
        store_id: [u8; 16],
        found: &FoundTable,
        level: usize,
        meta: Option<&TableMeta>,
    ) -> Result<Option<TableMeta>> {
        let path = self.path(found.file);
        let options = TableReadOptions {
            hasher: Some(self.hasher.clone()),
            table_id: Some(table_id(&store_id, found.number)),
            prefix_extractor: self.extractor.clone(),
            ..TableReadOptions::default()
        };
        let mut errors = Vec::new();
        let opened = match found.file == found.number {
            true => Table::open(self.options.storage.as_ref(), &path, options),
            // A new file replaces a file with a wrong name. Two renames would not be atomic.
            false => {
                let offset = found.len_bytes.saturating_sub(FOOTER_LEN_BYTES as u64);
                Err(Error::Corrupt { field: Field::TableId, offset }.in_file(&path))
            }
        };
        match opened {
            Ok(table) => {
                let Progress { done_bytes, total_bytes } = self.done;
                let mut tell = |within| (self.progress)(Progress { done_bytes: done_bytes + within, total_bytes });
                let check = table.verify_with(&mut tell)?;
                let summary = TableSummary {
                    len_bytes: table.len_bytes(),
                    num_entries: table.properties().num_entries,
                    num_tombstones: table.properties().num_tombstones,
                    smallest: table.smallest().to_vec(),
                    largest: table.largest().to_vec(),
                    filter_error: None,
                };
                let own = TableMeta::of(found.number, summary, meta.map_or((0, 0), TableMeta::sequences));
                let is_empty = own.num_entries == 0;
                if check.is_sound() && !is_empty && meta.is_none_or(|meta| *meta == own) {
                    self.report.tables_kept += 1;
                    self.report.entries += own.num_entries;
                    return Ok(Some(own));
                }
                errors.extend(check.damage);
            }
            // A footer with a newer version may be damaged; `rewrite` decides.
            Err(error) if error.is_damage() || error.is_unsupported() => errors.push(error),
            Err(error) => return Err(error),
        }
        self.rewrite(store_id, found, level, meta, errors)
    }

    /// Writes the sound blocks of an SST to a new SST, and returns the new SST. Adds the losses to
    /// the report and sets the old SST aside. A dry run writes nothing. Returns `None` if no entry
    /// is readable.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if `errors` has such an error and no entry is readable.
    fn rewrite(
        &mut self,
        store_id: [u8; 16],
        found: &FoundTable,
        level: usize,
        meta: Option<&TableMeta>,
        errors: Vec<Error>,
    ) -> Result<Option<TableMeta>> {
        let path = self.path(found.file);
        let storage = self.options.storage.as_ref();
        let bytes = storage.read(&path)?;
        let known = Known {
            num_entries: meta.map(|meta| meta.num_entries),
            keys: meta.map(|meta| (meta.smallest.clone(), meta.largest.clone())),
        };
        let number = self.next_number;
        let sequences = match (meta, found.origin()) {
            (Some(meta), _) => Some(meta.sequences()),
            (None, Some(origin)) => Some((origin.smallest_sequence, origin.largest_sequence)),
            (None, None) => None,
        };
        let shape = TableShape::new(known.num_entries.unwrap_or(bytes.len() as u64 / 32), level, false);
        let filters = self.options.choose_filters(&shape)?;
        let table_options = TableOptions {
            block_size_bytes: self.options.block_size_bytes,
            compression: self.options.compression,
            filter: filters.points,
            range_filter: filters.ranges,
            prefix_extractor: self.extractor.clone(),
            hasher: self.hasher.clone(),
            table_id: table_id(&store_id, number),
            // The new SST keeps the origin of the old one, because the next repair may have to
            // order the new SST without a manifest.
            origin: found.origin().or_else(|| sequences.and_then(|sequences| TableOrigin::of(level, sequences))),
            copied_from: Some(found.first_number()),
            ..TableOptions::default()
        };
        let mut writer = None;
        let mut summary = TableSummary::default();
        let id = table_id(&store_id, found.number);
        let losses = salvage(&bytes, &id, &known, &mut |key, value| {
            if summary.num_entries == 0 {
                summary.smallest = key.to_vec();
                if self.mode == RepairMode::Write {
                    writer = Some(TableWriter::create(storage, &self.path(number), table_options.clone())?);
                }
            }
            summary.largest = key.to_vec();
            summary.num_entries += 1;
            summary.num_tombstones += u64::from(value.is_none());
            writer.as_mut().map_or(Ok(()), |writer| writer.add(key, value))
        })?;
        // If no entry is readable as version 1, a newer version is more likely than damage in every
        // block.
        let newer = errors.iter().position(Error::is_unsupported);
        if let (0, Some(newer)) = (summary.num_entries, newer) {
            return Err(errors.into_iter().nth(newer).unwrap_or(Error::OutOfOrder));
        }
        let keys = found.peek.properties.as_ref().map(|own| (own.smallest.clone(), own.largest.clone()));
        self.note(&path, known.keys.or(keys), &summary, losses, errors);
        if summary.num_entries == 0 {
            return Ok(None);
        }
        self.next_number += 1;
        if let Some(writer) = writer {
            summary = writer.finish()?;
            if let Some(error) = &summary.filter_error {
                let path = self.path(number);
                self.report
                    .doubts
                    .push(format!("{}: written without a filter: {error}; no key is affected", path.display()));
            }
        }
        Ok(Some(TableMeta::of(number, summary, sequences.unwrap_or((0, 0)))))
    }

    fn note(
        &mut self,
        path: &Path,
        keys: Option<(Vec<u8>, Vec<u8>)>,
        left: &TableSummary,
        losses: Vec<Loss>,
        errors: Vec<Error>,
    ) {
        self.aside.push((path.to_path_buf(), true));
        self.report.entries += left.num_entries;
        if left.num_entries == 0 {
            let error = errors.into_iter().next().or_else(|| losses.into_iter().next().map(|loss| loss.error));
            self.give_up(error.unwrap_or_else(|| missing(path)).in_file(path), keys);
            return;
        }
        self.report.tables_rewritten += 1;
        let named = losses.into_iter().map(|loss| Loss { error: loss.error.in_file(path), keys: loss.keys });
        let losses: Vec<Loss> = named.collect();
        // The remaining errors affect no key.
        let is_told = |error: &Error| losses.iter().any(|loss| loss.error.to_string() == error.to_string());
        let others = errors.into_iter().filter(|error| !is_told(error)).collect::<Vec<_>>();
        self.report.losses.extend(losses);
        self.report.losses.extend(others.into_iter().map(Loss::without_keys));
    }
}

/// The place comes from the manifest or, if the manifest does not name the SST, from its properties.
fn place(table: &FoundTable, named: &BTreeMap<u64, (u8, TableMeta)>, is_whole: bool) -> Option<Place> {
    let from_manifest = named.get(&table.number).map(|(level, meta)| Place {
        level: *level,
        smallest_sequence: meta.smallest_sequence,
        largest_sequence: meta.largest_sequence,
        // If the manifest is not whole, the edit that removed the SST may be missing.
        is_exact: is_whole,
    });
    let from_origin = table.origin().map(|origin| Place {
        level: origin.level,
        smallest_sequence: origin.smallest_sequence,
        largest_sequence: origin.largest_sequence,
        is_exact: false,
    });
    from_manifest.or(from_origin)
}
