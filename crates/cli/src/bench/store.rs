//! Loads a store, brings its SST files into a layout, and opens it again. Makes reads cold without root:
//! drops the files of a store from the page cache of the operating system.

use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use super::measure;
use super::report::StoreReport;
use super::source::{Source, fill_value};
use crate::filter_choice::{FilterChoice, RangeChoice};
use crate::interrupt::{self, Temporary};
use crate::new_file::without_path;
use crate::prelude::*;
use filterblock::Verify;
use filterblock::policy::{FilterPolicy, LevelShape, TableShape};
use filterblock_store::lsm::{Db, FilterUse, Options, PrefixChoice, Stats};
use filterblock_store::sstable::FilterMemory;
use filterblock_store::storage::IoMode;

/// The approximate number of bytes that an SST file needs per entry in addition to key and value,
/// including the filter.
const TABLE_OVERHEAD_BYTES: u64 = 14;
/// An upper bound on the number of bytes that a memtable needs per entry in addition to key and
/// value.
const ENTRY_OVERHEAD_BYTES: u64 = 256;

/// The layout of the SST files of a store, in the order in which a benchmark measures layouts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// The result of loading with automatic compaction.
    AsFallen,
    /// Everything compacted into one sorted run.
    Compacted,
    /// N overlapping runs, compaction off.
    Runs(u64),
    /// Four full levels, each ten times as large as the level above.
    Levels4,
}

/// The size of [`Layout::Levels4`], in units of its first level: 1 + 10 + 100 + 1,000.
const LEVELS_4: u64 = 1_111;
const LEVELS_RATIO: u64 = 10;
/// The part of [`LEVELS_4`] that is loaded last, through small SST files and all levels. The other
/// keys are loaded first, into large SST files. Without large SST files, loading would take several
/// times as long.
const THROUGH_ALL_LEVELS: u64 = 150;
/// The number of SST files of a full first level. A compaction that takes one of these files leaves
/// the level three quarters full.
const TABLES_OF_LEVEL_1: u64 = 4;

const RUNS_MAX: u64 = 1_000;

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsFallen => f.pad("as-fallen"),
            Self::Compacted => f.pad("compacted"),
            Self::Runs(runs) => f.pad(&format!("runs-{runs}")),
            Self::Levels4 => f.pad("levels-4"),
        }
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let runs = text.strip_prefix("runs-").and_then(|runs| runs.parse().ok());
        match (text, runs) {
            ("as-fallen", _) => Ok(Self::AsFallen),
            ("compacted", _) => Ok(Self::Compacted),
            ("levels-4", _) => Ok(Self::Levels4),
            (_, Some(runs @ 1..=RUNS_MAX)) => Ok(Self::Runs(runs)),
            _ => Err(format!(
                "expected as-fallen, compacted, runs-N with N from 1 to {RUNS_MAX}, levels-4 or all; try runs-36"
            )),
        }
    }
}

impl Layout {
    /// Returns the number of parts into which explicit flushes divide the loaded keys, or `None` if
    /// the store decides when to flush. Few keys may give fewer parts. The first [`Loading::bulk`]
    /// keys are not divided.
    fn flushes(self) -> Option<u64> {
        match self {
            Self::AsFallen | Self::Compacted => None,
            Self::Runs(runs) => Some(runs),
            Self::Levels4 => Some(LEVELS_4 * TABLES_OF_LEVEL_1),
        }
    }
}

/// The settings shared by all stores of a benchmark.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    pub source: &'a Source,
    pub value_len_bytes: usize,
    pub seed: u64,
    pub io: IoMode,
    pub verify: Verify,
    pub cold: bool,
    /// The memory budget of the filters in bytes, or `None` without a limit.
    pub filter_memory: Option<u64>,
    /// The number of runs in level 0 from which one map answers for all. `None` means no map.
    pub run_map_trigger: Option<usize>,
}

impl Setup<'_> {
    pub fn store_len_bytes(&self) -> u64 {
        self.source.len_bytes() + self.source.len() * (self.value_len_bytes as u64 + TABLE_OVERHEAD_BYTES)
    }

    /// Returns whether the reported means are wall time. CPU time does not include waiting for a
    /// device, and is measured on Unix only.
    pub fn waits(&self) -> bool {
        self.cold || self.io == IoMode::Direct || !cfg!(unix)
    }
}

/// The options to load a store. The first `bulk` keys are loaded with the options `first`, the
/// remaining keys with `rest`. If `bulk` is 0, both are equal.
struct Loading {
    first: Options,
    bulk: u64,
    rest: Options,
    /// The store is flushed when the number of loaded keys is a multiple of this number and above
    /// `bulk`. With `None`, the store itself decides when to flush. A flush also follows the first
    /// `bulk` keys and the last put.
    keys_per_flush: Option<u64>,
}

/// A directory for a store, and the options of the store.
pub struct Store<'a> {
    pub setup: Setup<'a>,
    pub dir: &'a Path,
    pub filter: FilterChoice,
    pub range_filter: RangeChoice,
    pub prefix: PrefixChoice,
}

impl Store<'_> {
    fn name(&self) -> String {
        let mut name = self.filter.to_string();
        for beside in [self.range_filter.to_string(), self.prefix.to_string()] {
            if beside != "none" {
                name += &format!(" + {beside}");
            }
        }
        name
    }

    /// Returns the options that all opens share. There is no block cache, so that each block read
    /// is counted.
    fn options(&self, filter_use: FilterUse) -> Options {
        Options {
            filter: Some(self.filter.policy()),
            range_filter: self.range_filter.policy(),
            prefix_extractor: self.prefix.clone(),
            filter_use,
            hash_seed: Some(self.setup.seed),
            io: self.setup.io,
            verify: self.setup.verify,
            // Pages that are verified on first touch must be mapped, because a copy would touch all
            // of them.
            filter_memory: match self.setup.verify {
                Verify::OnFirstTouch => FilterMemory::Mapped,
                Verify::AtOpen => FilterMemory::default(),
            },
            filter_memory_budget: self.setup.filter_memory,
            run_map_trigger: self.setup.run_map_trigger,
            block_cache_bytes: 0,
            ..Options::default()
        }
    }

    /// Loads every key, brings the SST files into the layout, and closes the store. Then opens the
    /// store again to report its sizes.
    pub fn load(&self, layout: Layout) -> Outcome<StoreReport> {
        let source = self.setup.source;
        let loading = self.loading(layout);
        let mut db = Some(Db::open(self.dir, loading.first)?);
        let bar = progress::bar(Some(source.len()), format!("loading {} {layout}", self.filter));
        let mut value = vec![0; self.setup.value_len_bytes];
        let mut loaded = 0u64;
        let start = Instant::now();
        source.for_each(|key| {
            fill_value(key, &mut value);
            if let Some(db) = &db {
                db.put(key, &value)?;
                loaded += 1;
                progress::tick(&bar, loaded);
                if loading.keys_per_flush.is_some_and(|keys| loaded > loading.bulk && loaded.is_multiple_of(keys)) {
                    db.flush()?;
                    db.wait_idle()?;
                }
            }
            if loaded == loading.bulk
                && let Some(first) = db.take()
            {
                first.flush()?;
                first.wait_idle()?;
                first.close()?;
                db = Some(Db::open(self.dir, loading.rest.clone())?);
            }
            interrupt::check()
        })?;
        let loading = start.elapsed();
        bar.set_message(format!("settling {} {layout}", self.filter));
        let mut compacting = 0.0;
        let mut settling = loading;
        if let Some(db) = db {
            db.flush()?;
            db.wait_idle()?;
            settling = start.elapsed();
            if layout == Layout::Compacted {
                compacting = compact(&db)?;
            }
            db.close()?;
        }
        bar.finish_and_clear();
        let puts_per_second = source.len() as f64 / loading.as_secs_f64();
        self.report(layout, Some(puts_per_second), (settling - loading).as_secs_f64() + compacting)
    }

    fn loading(&self, layout: Layout) -> Loading {
        let source = self.setup.source;
        let mut options = Options { create_if_missing: true, ..self.options(FilterUse::Consult) };
        let keys_per_flush = layout.flushes().map(|flushes| source.len().div_ceil(flushes));
        let (mut first, mut bulk) = (options.clone(), 0);
        if let Some(keys) = keys_per_flush {
            let entry_len_bytes = source.len_bytes() / source.len() + self.setup.value_len_bytes as u64;
            let run_len_bytes = keys * (entry_len_bytes + ENTRY_OVERHEAD_BYTES);
            options.write_buffer_bytes = usize::try_from(run_len_bytes).unwrap_or(usize::MAX);
            options.auto_compaction = layout == Layout::Levels4;
            options.l0_compaction_trigger = if options.auto_compaction { 1 } else { usize::MAX };
            first = options.clone();
            if layout == Layout::Levels4 {
                options.table_size_bytes = keys * (entry_len_bytes + TABLE_OVERHEAD_BYTES);
                // A filter begins at a multiple of 4 KiB; 1 KiB is for the parts after it.
                let file_len_bytes = options.table_size_bytes.next_multiple_of(4096) + 1024;
                options.level_base_bytes = file_len_bytes * TABLES_OF_LEVEL_1;
                options.level_size_ratio = LEVELS_RATIO;
                bulk = source.len() * (LEVELS_4 - THROUGH_ALL_LEVELS) / LEVELS_4;
                let deepest = self.filter_of_deepest_level(options.level_size_ratio);
                let table_size_bytes = options.table_size_bytes * 2 * TABLES_OF_LEVEL_1;
                first = Options { filter: Some(Arc::new(deepest)), table_size_bytes, ..options.clone() };
                first.write_buffer_bytes = Options::default().write_buffer_bytes;
            }
        }
        Loading { first, bulk, rest: options, keys_per_flush }
    }

    /// Returns a policy that gives every SST file the filter of the deepest of four full levels.
    fn filter_of_deepest_level(&self, ratio: u64) -> impl FilterPolicy + use<> {
        let level_1 = self.setup.source.len() / LEVELS_4;
        let level = |i: u32| LevelShape::new(level_1 * ratio.pow(i), 1);
        let levels = std::iter::once(LevelShape::default()).chain((0..4).map(level)).collect();
        let table = TableShape::new(level_1, 4, true).with_levels(levels).with_size_ratio(ratio);
        let chosen = self.filter.policy().choose(&table);
        move |_: &TableShape| chosen
    }

    /// Compacts a loaded store into one run, and reports its sizes.
    pub fn compact(&self) -> Outcome<StoreReport> {
        let db = Db::open(self.dir, self.options(FilterUse::Consult))?;
        let seconds = compact(&db)?;
        db.close()?;
        self.report(Layout::Compacted, None, seconds)
    }

    /// Opens the store for reading, with the map of level 0 in memory. With `cold`, then drops the files
    /// from the page cache.
    pub fn open(&self, filter_use: FilterUse) -> Outcome<Db> {
        let db = self.open_at_once(filter_use)?;
        db.wait_idle()?;
        if self.setup.cold {
            drop_files(self.dir)?;
        }
        Ok(db)
    }

    fn open_at_once(&self, filter_use: FilterUse) -> Outcome<Db> {
        if self.setup.cold {
            drop_files(self.dir)?;
        }
        // Compaction stays off, so that the measured layout does not change.
        let options = Options { auto_compaction: false, ..self.options(filter_use) };
        Ok(Db::open(self.dir, options)?)
    }

    fn report(&self, layout: Layout, puts_per_second: Option<f64>, settle_seconds: f64) -> Outcome<StoreReport> {
        let start = Instant::now();
        let db = self.open_at_once(FilterUse::Consult)?;
        let reopen_ms = start.elapsed().as_secs_f64() * 1e3;
        db.wait_idle()?;
        let stats = db.stats();
        db.close()?;
        let filter_bytes = match stats.filter_cache {
            // No filter is in memory yet.
            Some(_) => stats.total.filter_bytes,
            None => stats.total.filter_memory_bytes,
        };
        Ok(StoreReport {
            filter: self.name(),
            layout: layout.to_string(),
            puts_per_second,
            settle_seconds,
            reopen_ms,
            runs: runs(&stats),
            tables: stats.total.tables,
            store_bytes: stats.total.bytes,
            filter_bytes,
            bits_per_key: filter_bytes as f64 * 8.0 / stats.total.keys.max(1) as f64,
            map_bytes: stats.total.map_memory_bytes,
        })
    }
}

/// Compacts the whole store and returns the time in seconds.
fn compact(db: &Db) -> Outcome<f64> {
    let start = Instant::now();
    db.compact_range(..)?;
    db.wait_idle()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Counts sorted runs. SST files of level 0 may overlap, so each is a run; a deeper level with SST
/// files is one run.
pub fn runs(stats: &Stats) -> u64 {
    stats.levels.iter().map(|level| if level.level == 0 { level.tables } else { level.tables.min(1) }).sum()
}

pub fn new_dir(parent: &Path) -> Outcome<Temporary<tempfile::TempDir>> {
    let mut builder = tempfile::Builder::new();
    Temporary::make(|| builder.prefix("filterblock-bench-").tempdir_in(parent))
        .map_err(|error| Failure::file(parent, without_path(error)))
}

/// Looks up each loaded key once with filters. Returns the number of keys whose value is missing or
/// wrong.
pub fn ask_every_key(store: &Store<'_>) -> Outcome<u64> {
    let title = format!("looking up every key of {}", store.filter);
    let bar = progress::bar(Some(store.setup.source.len()), title);
    let db = store.open(FilterUse::Consult)?;
    let mut asked = 0;
    let lost = measure::false_negatives(&db, store.setup.source, store.setup.value_len_bytes, || {
        asked += 1;
        progress::tick(&bar, asked);
    })?;
    bar.finish_and_clear();
    db.close()?;
    Ok(lost)
}

pub fn filter_use(consulted: bool) -> FilterUse {
    if consulted { FilterUse::Consult } else { FilterUse::Ignore }
}

pub fn announce(stores: u64, len_bytes: f64, dir: &Path, time: &str) {
    let megabytes = thousands(text::whole((len_bytes / 1e6).max(1.0)));
    let (stores, dir) = (count(stores, "store"), dir.display());
    message(format_args!("{stores} of about {megabytes} MB each, one at a time, in {dir}{time}"));
}

/// Writes every file in `dir` to the device and drops its pages from the page cache. Mapped pages
/// cannot be dropped, so the store must be closed.
fn drop_files(dir: &Path) -> Outcome<()> {
    for entry in fs::read_dir(dir).map_err(|error| Failure::file(dir, error))? {
        let path = entry.map_err(|error| Failure::file(dir, error))?.path();
        if path.is_file() {
            drop_file(&path).map_err(|error| Failure::file(&path, error))?;
        }
    }
    Ok(())
}

/// Returns an error if `dir` is on a tmpfs, an in-memory file system whose pages cannot be dropped.
#[cfg(target_os = "linux")]
pub fn check_droppable(dir: &Path) -> Outcome<()> {
    const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
    let found = rustix::fs::statfs(dir).map_err(|error| Failure::file(dir, error.into()))?;
    if found.f_type == TMPFS_MAGIC {
        return refuse(
            dir,
            "--cold does not work on an in-memory file system (tmpfs); choose a directory on a disk with --dir",
        );
    }
    Ok(())
}

/// Does nothing. Outside Linux, [`drop_files`] returns an error at the first file.
#[cfg(not(target_os = "linux"))]
pub fn check_droppable(_dir: &Path) -> Outcome<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn drop_file(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    // Dirty pages cannot be dropped.
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn drop_file(path: &Path) -> std::io::Result<()> {
    File::open(path)?;
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "--cold works on Linux only; omit it"))
}
