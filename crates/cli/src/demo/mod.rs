//! `filterblock demo`: shows a filter and a store at work, damages both, and repairs the store. A
//! step runs this executable in a folder, or writes a file there as the shown shell command would.

mod draw;
mod step;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use crate::interrupt::Temporary;
use crate::new_file::{NewFile, without_path};
use crate::prelude::*;
use step::{Ran, STEPS, Step};

const EXAMPLES: &str = "\
Examples:
  filterblock demo
  filterblock demo --fast
  filterblock demo --keep tour && filterblock db stats tour/words.db

The keys are 2,244 words of filterblock's documentation; the value of a word is the number of its occurrences. The demo \
needs no network and less than 1 MB of disk. Each line that begins with $ is a command for a shell in the folder of \
--keep.

Exit status: 0 each step behaved as explained; 2 an error, or a step that did not behave as explained.";

/// The pause after each step on a terminal. The pauses of all steps take a little over a minute.
const PAUSE: Duration = Duration::from_secs(4);

/// A snapshot of the words of three or more letters in this project's documentation, in
/// alphabetical order. Each line has a word, a tab, and the number of occurrences of the word. The
/// file does not follow later changes of the documentation.
const WORDS: &str = include_str!("words.tsv");
/// Words of this project's sources that are not in [`WORDS`].
const OTHER_WORDS: &str = include_str!("other-words.txt");

/// Show filters and a store at work in one minute: build, query, damage, repair
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// Work in this new or empty folder and keep its files [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Do not pause between the steps; there are pauses only on a terminal
    #[arg(long)]
    fast: bool,
    /// Draw the most important steps as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Replace the file of --svg if it exists
    #[arg(long, requires = "svg")]
    force: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    output::check_stdout()?;
    let svg = arguments.svg.as_deref().map(|path| NewFile::create(path, arguments.force)).transpose()?;
    let ran = match &arguments.keep {
        Some(dir) => {
            make_empty(dir)?;
            run_in(dir, arguments)?
        }
        None => {
            let parent = std::env::temp_dir();
            let dir = Temporary::make(|| tempfile::Builder::new().prefix("filterblock-demo-").tempdir());
            let dir = dir.map_err(|error| Failure::file(&parent, without_path(error)))?;
            run_in(dir.path(), arguments)?
        }
    };
    if let Some(file) = svg {
        file.publish(draw::draw(&ran).as_bytes())?;
    }
    let steps = count(STEPS.len() as u64, "step");
    let ending = match &arguments.keep {
        Some(dir) => format!("The files are in {}.", dir.display()),
        None => "The files are removed; \"filterblock demo --keep DIR\" keeps them.".to_owned(),
    };
    output::print(&format!("# All {steps} behaved as explained. {ending}\n"))?;
    Ok(Exit::Success)
}

/// Makes a folder. A folder that exists must be empty, so that no file of the user is changed.
fn make_empty(dir: &Path) -> Outcome<()> {
    let in_dir = |error: io::Error| Failure::file(dir, error);
    fs::create_dir_all(dir).map_err(in_dir)?;
    match fs::read_dir(dir).map_err(in_dir)?.next() {
        Some(_) => refuse(dir, "this folder is not empty; give --keep a new or an empty folder"),
        None => Ok(()),
    }
}

/// Writes the lists of words into a folder, runs and checks all steps there, and prints them.
/// Returns the steps with their outputs.
fn run_in(dir: &Path, arguments: &Arguments) -> Outcome<Vec<(Step, Ran)>> {
    for (name, content) in [("words.tsv", WORDS), ("other-words.txt", OTHER_WORDS)] {
        let path = dir.join(name);
        fs::write(&path, content).map_err(|error| Failure::file(&path, error))?;
    }
    let pauses = !arguments.fast && io::IsTerminal::is_terminal(&io::stdout());
    let mut all = Vec::new();
    for (number, make) in (1..).zip(STEPS) {
        let step = make(dir)?;
        output::print(&format!(
            "# {number}. {}\n{}\n",
            step.explanation,
            output::bold(&format!("$ {}", step.command))
        ))?;
        let ran = step.run(dir)?;
        output::print(&format!("{}\n", ran.text))?;
        step.check(&ran).map_err(|why| {
            Failure::Message(format!(
                "step {number} ({}) did not behave as explained: {why}; if its output shows no cause, report this defect",
                step.command
            ))
        })?;
        if pauses {
            thread::sleep(PAUSE);
        }
        all.push((step, ran));
    }
    Ok(all)
}
