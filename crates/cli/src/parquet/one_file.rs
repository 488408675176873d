//! Opens one Parquet file, finds its columns by name, and adds filters, or lengths of filters, to it: copies
//! the file, appends to the copy, and publishes the copy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::files::refuse_companion;
use crate::new_file::{NewFile, without_path};
use crate::prelude::*;
use filterblock::open_regular_file;
use filterblock_family::replace::Version;
use filterblock_parquet::append::{self, Added, DamagedFilter, Request};
use filterblock_parquet::error::shortened;
use filterblock_parquet::filters::Sizing;
use filterblock_parquet::values::{FileStart, ParquetValues};
use filterblock_parquet::{Error, Footer, PhysicalType};

#[derive(Clone)]
pub enum Work<'a> {
    /// Add filters of these columns.
    Add { columns: &'a [String], sizing: Sizing, replace: bool, force_types: &'a [String] },
    /// Add missing lengths of filters.
    FixLengths,
}

pub struct Source<'a> {
    path: &'a Path,
    pub file: File,
    /// The version that is read.
    pub version: Version,
    pub footer: Footer,
}

pub struct Done {
    pub added: Vec<Added>,
    pub fixed_lengths: u64,
    /// The damaged filters whose lengths were not added.
    pub damaged: Vec<DamagedFilter>,
    /// The number of chunks that keep their old filter, in the requested columns.
    pub kept: u64,
    pub leaves: Vec<usize>,
    pub old_len_bytes: u64,
    pub new_len_bytes: u64,
    pub time: Duration,
}

impl<'a> Source<'a> {
    pub fn open(path: &'a Path) -> Outcome<Self> {
        refuse_companion(path)?;
        let failed = |error| Failure::file(path, error);
        let mut file = open_regular_file(path).map_err(failed)?;
        let version = Version::of(&file).map_err(failed)?;
        let footer = Footer::read(&mut file).map_err(|error| error.in_file(path))?;
        Ok(Self { path, file, version, footer })
    }

    /// Returns the columns of the work and the settings of the new filters. Returns `None` if the
    /// work only adds lengths. Returns an error if a filter that would stay cannot be used.
    pub fn request(&self, work: &Work<'_>) -> Outcome<Option<Request>> {
        match work {
            Work::FixLengths => Ok(None),
            Work::Add { columns, sizing, replace, force_types } => {
                let found = find(&self.footer, columns)
                    .and_then(|leaves| Ok((forced(&self.footer, &leaves, force_types)?, leaves)));
                let (forced, leaves) = found.map_err(|failure| Failure::about(self.path, failure))?;
                let request = Request { leaves, sizing: *sizing, replace: *replace, forced };
                self.check_kept(&request).map_err(|error| error.in_file(self.path))?;
                Ok(Some(request))
            }
        }
    }

    /// Returns an error if a filter that the request keeps cannot be used.
    fn check_kept(&self, request: &Request) -> Result<(), Error> {
        if request.kept(&self.footer).next().is_none() {
            return Ok(());
        }
        append::check_kept(&self.footer, self.values().ok().as_ref(), request, &mut &self.file).map(drop)
    }

    pub fn values(&self) -> Result<ParquetValues<FileStart>, Error> {
        values(self.file.try_clone()?, &self.footer)
    }

    /// Returns the result for a file that the work would not change, or else `None`.
    pub fn unchanged(&self, request: Option<&Request>) -> Outcome<Option<Done>> {
        let done = match request {
            Some(request) if request.chunks(&self.footer).next().is_some() => return Ok(None),
            Some(_) => self.untouched(request),
            None => self.estimate(None)?,
        };
        Ok(Some(done).filter(|done| done.fixed_lengths == 0))
    }

    /// Estimates what [`Self::write`] would do, and writes nothing.
    pub fn estimate(&self, request: Option<&Request>) -> Outcome<Done> {
        let mut done = self.untouched(request);
        let Some(request) = request else {
            let missing = append::missing_lengths(&self.footer, &mut &self.file);
            let missing = missing.map_err(|error| error.in_file(self.path))?;
            done.fixed_lengths = missing.num_known();
            done.damaged = missing.damaged;
            // The new footer has one more field for each length.
            if done.fixed_lengths > 0 {
                done.new_len_bytes += (self.footer.metadata().len() + 8) as u64 + done.fixed_lengths * 4;
            }
            return Ok(done);
        };
        let start = Instant::now();
        let estimated = self.values().and_then(|values| append::estimate(&self.footer, &values, request));
        let len_bytes = |(row_group, leaf)| self.footer.chunk(row_group, leaf).map_or(0, |chunk| chunk.len_bytes);
        let total: u64 = request.chunks(&self.footer).map(len_bytes).sum();
        let mut leaves = BTreeSet::new();
        let sampled: u64 = request.chunks(&self.footer).filter(|(_, leaf)| leaves.insert(*leaf)).map(len_bytes).sum();
        done.time = start.elapsed().mul_f64(total.max(1) as f64 / sampled.max(1) as f64);
        done.added = estimated.map_err(|error| error.in_file(self.path))?;
        let filters: u64 = done.added.iter().filter_map(|filter| filter.range.len_bytes).sum();
        // The new footer has two more fields for each filter.
        let footer = (self.footer.metadata().len() + 8 + done.added.len() * 12) as u64;
        done.new_len_bytes += filters + if done.added.is_empty() { 0 } else { footer };
        Ok(done)
    }

    /// Returns the result for a file that stays unchanged.
    fn untouched(&self, request: Option<&Request>) -> Done {
        let leaves = request.map(|request| request.leaves.clone()).unwrap_or_default();
        let len_bytes = self.footer.file_len_bytes();
        Done {
            added: Vec::new(),
            fixed_lengths: 0,
            damaged: Vec::new(),
            kept: request.map_or(0, |request| request.kept(&self.footer).count() as u64),
            leaves,
            old_len_bytes: len_bytes,
            new_len_bytes: len_bytes,
            time: Duration::ZERO,
        }
    }

    /// Writes the file with the filters or lengths to `target`. Returns an error if another program
    /// changes the file meanwhile.
    pub fn write(&self, request: Option<&Request>, target: NewFile, bar: &ProgressBar) -> Outcome<Done> {
        let start = Instant::now();
        let target_path = target.path().to_path_buf();
        let done =
            target.publish_with(|copy| self.fill(request, copy, &target_path, bar), |_| self.check_unchanged())?;
        Ok(Done { time: start.elapsed(), ..done })
    }

    /// Copies the file to `copy`, and appends the filters or lengths to `copy`.
    ///
    /// The values are read from the copy: if the file changes meanwhile, the filters still fit the
    /// bytes before them.
    fn fill(&self, request: Option<&Request>, mut copy: &File, target: &Path, bar: &ProgressBar) -> Outcome<Done> {
        let in_target = |error| Failure::file(target, without_path(error));
        let footer = &self.footer;
        copy_start(&self.file, copy, footer.file_len_bytes()).map_err(in_target)?;
        let in_file = |error| match error {
            Error::Io(error) => in_target(error),
            error => Failure::from(error.in_file(self.path)),
        };
        if !footer.is_at_end_of(&mut copy).map_err(in_file)? {
            return Err(self.changed());
        }
        let mut done = self.untouched(request);
        match request {
            // A new footer would only repeat the old one.
            Some(request) if request.chunks(footer).next().is_none() => {}
            None => {
                let missing = append::fix_lengths(footer, &mut copy).map_err(in_file)?;
                (done.fixed_lengths, done.damaged) = (missing.num_known(), missing.damaged);
            }
            Some(request) => {
                let values = values(copy.try_clone().map_err(in_target)?, footer).map_err(in_file)?;
                let mut progress = |len_bytes| bar.inc(len_bytes);
                done.added = append::add(footer, &values, request, &mut copy, &mut progress).map_err(in_file)?;
            }
        }
        done.new_len_bytes = copy.metadata().map_err(in_target)?.len();
        Ok(done)
    }

    /// Returns an error if another program has changed or replaced the file since it was opened.
    fn check_unchanged(&self) -> Outcome<()> {
        let file = open_regular_file(self.path).map_err(|error| Failure::file(self.path, error))?;
        match Version::of(&file).is_ok_and(|found| found == self.version) {
            true => Ok(()),
            false => Err(self.changed()),
        }
    }

    fn changed(&self) -> Failure {
        Error::Changed.in_file(self.path).into()
    }
}

fn values(file: File, footer: &Footer) -> Result<ParquetValues<FileStart>, Error> {
    ParquetValues::of(FileStart::new(file, footer.file_len_bytes()), footer)
}

/// Makes `copy` a copy of the first `len_bytes` bytes of `file`. On Linux, some file systems can
/// share the bytes of both files.
fn copy_start(file: &File, mut copy: &File, len_bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if rustix::fs::ioctl_ficlone(copy, file).is_ok() {
        return copy.set_len(len_bytes);
    }
    let mut from = file;
    from.seek(SeekFrom::Start(0))?;
    io::copy(&mut from.take(len_bytes), &mut copy).map(drop)
}

/// The minimum score of a suggested name, on the scale of the Jaro-Winkler similarity.
const SIMILARITY_MIN: f64 = 0.7;
/// The maximum number of column names in a message.
const NAMED_MAX: usize = 5;

/// Returns the numbers of the leaf columns with these names, each once, in the order of the names. A text with
/// commas stands for several names, unless a column has this name.
/// Returns an error for an unknown or ambiguous name, and for a type that gets no filters.
pub fn find(footer: &Footer, names: &[String]) -> Outcome<Vec<usize>> {
    let mut by_path: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, leaf) in footer.leaves().iter().enumerate() {
        by_path.entry(&leaf.path).or_default().push(number);
    }
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let is_whole = |name: &str| !name.contains(',') || by_path.contains_key(name);
    let names = names.iter().flat_map(|name| match is_whole(name) {
        true => vec![name.as_str()],
        false => name.trim_end_matches(',').split(',').map(str::trim).collect(),
    });
    for name in names {
        let same = by_path.get(name).map(Vec::as_slice).unwrap_or_default();
        let first = same.first().and_then(|&number| Some((number, footer.leaves().get(number)?)));
        let (number, leaf) = first.ok_or_else(|| unknown(footer, name))?;
        let name = shown(name);
        if same.len() > 1 {
            return fail(format!(
                "several columns have the path {name}, and this command cannot tell them apart; rename one of them"
            ));
        }
        if leaf.physical_type == Some(PhysicalType::Boolean) {
            return fail(format!(
                "column {name} is Boolean: a filter of two values rarely skips a row group; omit this column"
            ));
        }
        if seen.insert(number) {
            found.push(number);
        }
    }
    Ok(found)
}

/// Returns the leaf columns with filters of which an engine loses rows. Returns an error unless
/// `accepted` has the path or the type of each.
fn forced(footer: &Footer, leaves: &[usize], accepted: &[String]) -> Outcome<Vec<usize>> {
    let mut forced = Vec::new();
    for &number in leaves {
        let leaf = footer.leaves().get(number);
        let Some((leaf, loss)) = leaf.and_then(|leaf| Some((leaf, leaf.loss()?))) else { continue };
        if !accepted.iter().any(|name| **name == *leaf.path || name.eq_ignore_ascii_case(loss.name)) {
            return fail(format!(
                "column {} has {loss}; omit this column, or accept that queries lose rows with --force-type {}",
                shown(&leaf.path),
                loss.name
            ));
        }
        forced.push(number);
    }
    Ok(forced)
}

fn unknown(footer: &Footer, name: &str) -> Failure {
    let paths = footer.leaves().iter().map(|leaf| &*leaf.path);
    let lower = name.to_lowercase();
    // The name may be that of a group, or the last part of a path.
    let score = |path: &str| match path.to_lowercase() {
        path if path.starts_with(&format!("{lower}.")) || path.ends_with(&format!(".{lower}")) => 1.0,
        path => strsim::jaro_winkler(&path, &lower),
    };
    let mut near: Vec<(f64, &str)> = paths.clone().map(|path| (score(path), path)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.retain(|(score, _)| *score >= SIMILARITY_MIN);
    let list = |names: Vec<&str>| names.into_iter().map(shown).collect::<Vec<_>>().join(", ");
    let next = match near.is_empty() {
        false => format!("did you mean {}?", list(near.into_iter().take(NAMED_MAX).map(|(_, path)| path).collect())),
        true => match paths.len() {
            0 => "the file has no columns; give another file".into(),
            1 => format!("the only column is {}", list(paths.collect())),
            num if num <= NAMED_MAX => format!("the columns are {}", list(paths.collect())),
            num => format!("the first {NAMED_MAX} of {num} columns are {}", list(paths.take(NAMED_MAX).collect())),
        },
    };
    Failure::Message(format!("there is no column {}; {next}", shown(name)))
}

/// Returns a column name for a message.
fn shown(name: &str) -> String {
    printable(&shortened(name))
}
