//! The steps of the demo, in order: commands as a user would type them, with their explanations. Runs and
//! checks one step.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::prelude::*;
use filterblock::layout::{MAGIC, PAGE_LEN_BYTES};

/// A function that makes a step for the given folder. A step that damages a file is made from the
/// content of the file.
type Make = fn(&Path) -> Outcome<Step>;

const KEYS: u64 = 2_244;
/// The number of other words, which are not keys.
const OTHERS: u64 = 1_998;

/// The offset of a byte in the only page of the filter.
const FILTER_OFFSET: u64 = 1_000;

pub const STEPS: [Make; 18] = [
    |_| Ok(Step::first_column("The keys are the words of filterblock's documentation.", "words.tsv", "words.txt", 3)),
    |_| {
        let line = "build -o words.filter --filter bloom:fpr=0.01 words.txt";
        Ok(Step::filterblock("Build a Bloom filter that lets about 1 % of the absent keys pass.", line)
            .prints("2,244 keys")
            .drawn())
    },
    |_| {
        let explanation = "Inspect it: less than 10 bits per key, whatever the length of the keys.";
        Ok(Step::filterblock(explanation, "inspect words.filter").last_lines(5).prints("2,244"))
    },
    |_| {
        let explanation = "Two words are keys, two are not: \"absent\" is certain, \"maybe\" is not.";
        let line = "query words.filter checksum filter kiwi mutex";
        let step = Step::filterblock(explanation, line).prints("maybe\tchecksum").prints("maybe\tfilter");
        Ok(step.prints("absent\tkiwi").prints("absent\tmutex").drawn())
    },
    |_| {
        let explanation = "No key is ever denied: look up all of them.";
        Ok(Step::filterblock(explanation, "verify words.filter --against words.txt").prints("0 false negatives"))
    },
    |_| {
        let explanation = "Measure the false-positive rate: none of these 1,998 words is a key.";
        let line = "query words.filter --keys other-words.txt --count";
        // The expected number of false positives is 20, with a standard deviation of 4.5.
        Ok(Step::filterblock(explanation, line).counts("maybe", 1..=60).counts("absent", OTHERS - 60..=OTHERS).drawn())
    },
    |dir| Ok(Step::flip("Damage the file: flip one bit.", dir, "words.filter", FILTER_OFFSET)?.drawn()),
    |_| {
        let explanation = "A damaged filter file answers no query: a wrong \"absent\" would lose data silently.";
        let step = Step::filterblock(explanation, "query words.filter filter").exits(2);
        Ok(step.prints("words.filter").prints("checksum").drawn())
    },
    |_| {
        let explanation = "Load the words into a store with a filter in each SST file. The value of a word is its \
                           number of occurrences.";
        Ok(Step::filterblock(explanation, "db load words.db words.tsv").prints("2,244"))
    },
    |_| Ok(Step::filterblock("Get a value.", "db get words.db checksum").prints("110\n")),
    |_| {
        let explanation = "Look up 1,998 absent words: the filter saves nearly all reads of data blocks.";
        let step = Step::filterblock(explanation, "db get words.db --keys other-words.txt --count").exits(1);
        Ok(step.counts("found", 0..=0).counts("filter queries", 1_900..=OTHERS).counts("data blocks read", 0..=40))
    },
    |_| {
        let explanation = "The same without filters: nearly every lookup reads a data block.";
        let line = "db get words.db --keys other-words.txt --count --ignore-filters";
        let step = Step::filterblock(explanation, line).exits(1);
        Ok(step.counts("found", 0..=0).counts("data blocks read", 1_900..=OTHERS))
    },
    |dir| {
        let (file, offset) = filter_in_sst(dir)?;
        let explanation = "Damage the filter of the SST file: overwrite four bytes.";
        Ok(Step::overwrite(explanation, "oops", b"oops", &file, offset).drawn())
    },
    |_| {
        let explanation = "Verify the store: the report names the file and the offset of the damaged page.";
        Ok(Step::filterblock(explanation, "db verify words.db").without_messages().exits(1).prints("damaged").drawn())
    },
    |_| {
        let explanation = "The damaged filter says \"maybe\": every key is still found.";
        let step = Step::filterblock(explanation, "db get words.db --keys words.txt --count").lines_with("found");
        Ok(step.counts("found", KEYS..=KEYS).drawn())
    },
    |_| {
        let explanation = "For absent words, each \"maybe\" costs a read; the store counts these reads.";
        let step = Step::filterblock(explanation, "db get words.db --keys other-words.txt --count").exits(1);
        Ok(step.counts("found", 0..=0).counts("damaged filters", 1..=OTHERS))
    },
    |_| {
        let explanation = "Repair the store: the data is sound, so nothing is lost.";
        Ok(Step::filterblock(explanation, "db repair words.db").prints("nothing lost").drawn())
    },
    |_| {
        let explanation = "Verify it again.";
        Ok(Step::filterblock(explanation, "db verify words.db").prints("sound").prints("0 false negatives").drawn())
    },
];

/// Returns the path of the only SST file of the store, relative to `dir`, and the offset of a byte
/// in its filter.
fn filter_in_sst(dir: &Path) -> Outcome<(String, u64)> {
    let store = dir.join("words.db");
    let entries = fs::read_dir(&store).map_err(|error| Failure::file(&store, error))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let missing = || Failure::about(&store, "no SST file with a filter; report this defect");
    let name = names.into_iter().find(|name| name.ends_with(".sst")).ok_or_else(missing)?;
    let path = store.join(&name);
    let bytes = fs::read(&path).map_err(|error| Failure::file(&path, error))?;
    // A filter block ends with the magic. The filter has more than 2 KB, so the byte 1,024 bytes
    // before the magic belongs to its payload.
    let magic = bytes.windows(MAGIC.len()).rposition(|window| window == MAGIC).ok_or_else(missing)?;
    Ok((format!("words.db/{name}"), magic.saturating_sub(PAGE_LEN_BYTES / 4) as u64))
}

pub struct Step {
    pub explanation: String,
    /// The command as a user would type it in the folder of the demo.
    pub command: String,
    work: Work,
    expected: Expected,
    /// Whether the picture of the demo shows the step.
    pub is_drawn: bool,
}

/// The work of a step. Each variant does what a shell would do with the command of the step.
enum Work {
    /// Runs this executable.
    Filterblock { arguments: Vec<String>, shown: Shown },
    /// Writes the first column of a file of two columns to another file, and prints the first lines
    /// of the result.
    FirstColumn { from: &'static str, to: &'static str, lines: usize },
    /// Writes bytes into a file.
    Overwrite { file: String, offset: u64, bytes: Vec<u8> },
}

/// The part of an output that the step shows.
#[derive(Clone, Copy)]
enum Shown {
    All,
    /// The last lines of the output (tail), with the messages. The field is the number of lines.
    LastLines(usize),
    /// The lines that contain a text (grep), without the messages.
    LinesWith(&'static str),
    /// The whole output, without the messages.
    Output,
}

/// The expected result of a step.
#[derive(Default)]
struct Expected {
    status: i32,
    /// Texts that [`Ran::text`] must contain.
    parts: Vec<String>,
    /// For each line of [`Ran::text`] to check: the first words of the line, and the range of the
    /// number at its end.
    counts: Vec<(&'static str, RangeInclusive<u64>)>,
}

/// A step after it ran.
pub struct Ran {
    pub status: i32,
    /// The part of the output and messages that the step shows.
    pub text: String,
}

impl Step {
    fn new(explanation: &str, command: String, work: Work) -> Self {
        Self { explanation: explanation.into(), command, work, expected: Expected::default(), is_drawn: false }
    }

    /// Makes a step that runs this executable with the words of `line`.
    pub fn filterblock(explanation: &str, line: &str) -> Self {
        let arguments = line.split(' ').map(str::to_owned).collect();
        Self::new(explanation, format!("filterblock {line}"), Work::Filterblock { arguments, shown: Shown::All })
    }

    /// Makes a step that writes the first column of a file to another file, and shows the first
    /// `lines` lines of the new file.
    pub fn first_column(explanation: &str, from: &'static str, to: &'static str, lines: usize) -> Self {
        let command = format!("cut -f 1 {from} > {to}; head -n {lines} {to}");
        Self::new(explanation, command, Work::FirstColumn { from, to, lines })
    }

    /// Makes a step that flips the lowest bit of a byte of a file. Reads the byte from the file,
    /// because the shown command names its new value.
    pub fn flip(explanation: &str, dir: &Path, file: &str, offset: u64) -> Outcome<Self> {
        let path = dir.join(file);
        let mut byte = [0];
        let read = File::open(&path).and_then(|mut open| {
            open.seek(SeekFrom::Start(offset))?;
            open.read_exact(&mut byte)
        });
        read.map_err(|error| Failure::file(&path, error))?;
        let flipped = byte.map(|byte| byte ^ 1);
        let [byte] = flipped;
        Ok(Self::overwrite(explanation, &format!("'\\{byte:03o}'"), &flipped, file, offset))
    }

    /// Makes a step that writes bytes into a file. `written` is the argument with which `printf`
    /// prints the bytes.
    pub fn overwrite(explanation: &str, written: &str, bytes: &[u8], file: &str, offset: u64) -> Self {
        let command = format!("printf {written} | dd of={file} bs=1 seek={offset} conv=notrunc status=none");
        Self::new(explanation, command, Work::Overwrite { file: file.into(), offset, bytes: bytes.into() })
    }

    fn shows(mut self, part: Shown, pipe: &str) -> Self {
        if let Work::Filterblock { shown, .. } = &mut self.work {
            *shown = part;
            self.command += pipe;
        }
        self
    }

    /// Shows only the last lines of the output, and the messages.
    pub fn last_lines(self, number: usize) -> Self {
        self.shows(Shown::LastLines(number), &format!(" | tail -n {number}"))
    }

    /// Shows only the lines that contain a word, and no message.
    pub fn lines_with(self, word: &'static str) -> Self {
        self.shows(Shown::LinesWith(word), &format!(" 2> /dev/null | grep {word}"))
    }

    pub fn without_messages(self) -> Self {
        self.shows(Shown::Output, " 2> /dev/null")
    }

    pub fn exits(mut self, status: i32) -> Self {
        self.expected.status = status;
        self
    }

    /// Expects a text in [`Ran::text`].
    pub fn prints(mut self, part: impl Into<String>) -> Self {
        self.expected.parts.push(part.into());
        self
    }

    /// Expects a line of [`Ran::text`] that begins with `name` and ends with a number in the range.
    pub fn counts(mut self, name: &'static str, range: RangeInclusive<u64>) -> Self {
        self.expected.counts.push((name, range));
        self
    }

    pub fn drawn(mut self) -> Self {
        self.is_drawn = true;
        self
    }

    pub fn run(&self, dir: &Path) -> Outcome<Ran> {
        let in_file = |name: &str| {
            let path = dir.join(name);
            move |error| Failure::file(&path, error)
        };
        match &self.work {
            Work::Filterblock { arguments, shown } => run_self(dir, arguments, *shown),
            Work::FirstColumn { from, to, lines } => {
                let content = fs::read_to_string(dir.join(from)).map_err(in_file(from))?;
                let keys = content.lines().filter_map(|line| line.split('\t').next());
                let keys: String = keys.map(|key| format!("{key}\n")).collect();
                fs::write(dir.join(to), &keys).map_err(in_file(to))?;
                Ok(Ran { status: 0, text: keys.split_inclusive('\n').take(*lines).collect() })
            }
            Work::Overwrite { file, offset, bytes } => {
                let written = File::options().write(true).open(dir.join(file)).and_then(|mut open| {
                    open.seek(SeekFrom::Start(*offset))?;
                    open.write_all(bytes)
                });
                written.map_err(in_file(file))?;
                Ok(Ran { status: 0, text: String::new() })
            }
        }
    }

    /// Checks the result of the step.
    ///
    /// # Errors
    /// Returns a message that names the first difference from the expected result.
    pub fn check(&self, ran: &Ran) -> Result<(), String> {
        let expected = &self.expected;
        if ran.status != expected.status {
            return Err(format!("exit status {} instead of {}", ran.status, expected.status));
        }
        if let Some(part) = expected.parts.iter().find(|part| !ran.text.contains(*part)) {
            return Err(format!("{part:?} is not in the output"));
        }
        for (name, range) in &expected.counts {
            let number = number(&ran.text, name).ok_or_else(|| format!("no line {name:?} with a number"))?;
            if !range.contains(&number) {
                let (from, to) = (thousands(*range.start()), thousands(*range.end()));
                return Err(format!("in line {name:?}, {} is not in the range {from} to {to}", thousands(number)));
            }
        }
        Ok(())
    }
}

/// Returns the number at the end of the first line that begins with `name`. Returns `None` if there
/// is no such number.
fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().replace(',', "").parse().ok()
}

/// Runs this executable. If `shown` includes the messages, they follow the output in the text of
/// the result.
fn run_self(dir: &Path, arguments: &[String], shown: Shown) -> Outcome<Ran> {
    let cannot = |error: std::io::Error| {
        Failure::Message(format!(
            "cannot start filterblock itself: {error}; check that its file still exists and may be executed"
        ))
    };
    let program = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir).env("NO_COLOR", "1").stdin(Stdio::null());
    let output = command.output().map_err(cannot)?;
    let (out, messages) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = out.split_inclusive('\n').collect();
    let text = match shown {
        Shown::All => out.clone().into_owned() + &messages,
        Shown::LastLines(number) => {
            let first = lines.len().saturating_sub(number);
            lines.get(first..).unwrap_or_default().concat() + &messages
        }
        Shown::LinesWith(word) => lines.into_iter().filter(|line| line.contains(word)).collect(),
        Shown::Output => out.into_owned(),
    };
    // A process that a signal has ended has no exit status.
    Ok(Ran { status: output.status.code().unwrap_or(-1), text })
}
