//! `filterblock index add` and `filterblock index remove`: write the next version of an index.
//!
//! Both write a whole new file and rename it. An update in place, with room for more files in each
//! row, was rejected because it is not atomic.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::super::failure::{Failure, Outcome};
use super::super::new_file::NewFile;
use super::super::output;
use super::super::text::quoted;
use super::build;
use super::failure;
use super::input::{Builder, FileList, spill};
use super::opened;
use filterblock_parquet::index::IndexReader;

const ADD_EXAMPLES: &str = "\
Examples:
  filterblock index add ids.index data/new.parquet
  filterblock index add lists.index --key-file wednesday.txt

If you give a file that the index already has, the command reads its keys again. If the working directory is not that \
of the build, give --base, so that relative paths lead to the same files. The column, the key type and the FPR \
are those of the index. The new index replaces the old one in one step, so a query sees the old or the new one.

Exit status: 0 written; 2 an error. After an error the index is unchanged, unless the message says otherwise or is \
about standard output.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  filterblock index remove ids.index data/old.parquet

PATH is the path as the index has it. The files themselves are not touched. A query no longer names the removed files.

Exit status: 0 written; 2 an error. After an error the index is unchanged, unless the message says otherwise or is \
about standard output.";

/// Add files to an index, or replace files that have changed
#[derive(Debug, clap::Args)]
#[command(after_long_help = ADD_EXAMPLES)]
pub struct AddArguments {
    /// The index
    #[arg(value_name = "INDEX")]
    index: PathBuf,
    #[command(flatten)]
    files: FileList,
    /// Print the summary as JSON on stdout
    #[arg(long)]
    json: bool,
}

/// Remove files from an index
#[derive(Debug, clap::Args)]
#[command(after_long_help = REMOVE_EXAMPLES)]
pub struct RemoveArguments {
    /// The index
    #[arg(value_name = "INDEX")]
    index: PathBuf,
    /// The paths to remove, as the index has them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Print the summary as JSON on stdout
    #[arg(long)]
    json: bool,
}

/// Runs `filterblock index add`.
pub fn add(arguments: &AddArguments) -> Outcome {
    let path = &arguments.index;
    let update = Update::begin(path, arguments.json)?;
    let places = arguments.files.places();
    let checked = update.target.refuse_inputs(places.iter().map(PathBuf::as_path));
    checked.map_err(|_| {
        Failure::Message(format!("{}: the index itself is also an input; give other files", path.display()))
    })?;
    refuse_other_files(path, &update.old, &arguments.files)?;
    let mut builder = update.builder()?;
    let settings = update.old.settings();
    let column = (!settings.column.is_empty()).then_some(settings.column.as_str());
    arguments.files.for_each(column, |input| build::add(&mut builder, settings, input, path))?;
    let replaced: HashSet<&Path> = arguments.files.paths().collect();
    update.finish(builder, |path| replaced.contains(path))
}

/// Returns an error for a new file that would replace the record of another file with the same
/// relative path. The function looks for the recorded file in the directory of the index, and
/// recognizes this file by its stamp. With --base, the function checks nothing.
fn refuse_other_files(index: &Path, old: &IndexReader<File>, files: &FileList) -> Outcome<()> {
    let (Some(dir), false) = (index.parent(), files.has_base()) else { return Ok(()) };
    let given: HashSet<&Path> = files.paths().filter(|path| path.is_relative()).collect();
    for file in old.files() {
        let identity = &file.identity;
        let (here, beside) = (&identity.path, dir.join(&identity.path));
        if !given.contains(here.as_path()) || identity.stamp.difference(&beside, true).is_some() {
            continue;
        }
        let is_other = match (here.canonicalize(), beside.canonicalize()) {
            (Ok(here), Ok(beside)) => here != beside,
            _ => true,
        };
        if is_other {
            return Err(Failure::Message(format!(
                "{}: the index has this path for another file, {}; to add that file again, give --base {}; to add the new file, give its full path",
                here.display(),
                beside.display(),
                dir.display()
            )));
        }
    }
    Ok(())
}

/// Runs `filterblock index remove`.
pub fn remove(arguments: &RemoveArguments) -> Outcome {
    let path = &arguments.index;
    let update = Update::begin(path, arguments.json)?;
    let known: HashSet<&Path> = update.old.files().iter().map(|file| file.identity.path.as_path()).collect();
    let unknown = arguments.paths.iter().find(|path| !known.contains(path.as_path()));
    if let Some(unknown) = unknown {
        return Err(Failure::Message(format!(
            "{}: not in the index; give a path as \"filterblock index verify --json {}\" prints it",
            unknown.display(),
            quoted(&path.display().to_string())
        )));
    }
    let removed: HashSet<&Path> = arguments.paths.iter().map(PathBuf::as_path).collect();
    let builder = update.builder()?;
    update.finish(builder, |path| removed.contains(path))
}

/// An update of an index.
struct Update<'a> {
    path: &'a Path,
    old: IndexReader<File>,
    target: NewFile,
    json: bool,
}

impl<'a> Update<'a> {
    fn begin(path: &'a Path, json: bool) -> Outcome<Self> {
        if json {
            output::check_stdout()?;
        }
        // The old index is read under the lock of its next version.
        let target = NewFile::create(path, true)?;
        Ok(Self { path, old: opened::open(path)?, target, json })
    }

    fn builder(&self) -> Outcome<Builder> {
        let builder = Builder::new(self.old.settings().clone(), spill(self.path)?);
        builder.map_err(|error| failure(self.path, error))
    }

    /// Writes the next version of the index: the files of the old version whose paths `is_removed`
    /// does not select, and the files of `builder`. Prints a summary.
    fn finish(self, builder: Builder, is_removed: impl Fn(&Path) -> bool) -> Outcome {
        let Self { path, old, target, json } = self;
        let is_old = |number: usize| old.files().get(number).is_some_and(|file| is_removed(&file.identity.path));
        let built = builder.build_onto(&old, is_old).map_err(|error| failure(path, error))?;
        let kept = (0..old.files().len()).filter(|&number| !is_old(number)).count();
        target.publish(&built.bytes)?;
        build::report(path, kept + built.added.len(), &built, json)
    }
}
