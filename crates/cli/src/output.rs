//! Prints messages on stderr, and data on stdout. On a terminal, texts and tables fit its width, and
//! damage is red. Pipes and files get the same bytes whatever the terminal is.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width, presets};
use serde::Serialize;
use terminal_size::terminal_size_of;

use crate::failure::{Exit, Failure, Outcome, fail};
use crate::streams;

/// The size of the buffer of stdout. The buffer holds many lines, so that most lines need no system
/// call.
const BUFFER_LEN_BYTES: usize = 1 << 16;

/// True once a write has shown that the reader of stdout has closed its end.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// True once endless input was no longer read because the reader of stdout has closed its end.
static INPUT_CUT: AtomicBool = AtomicBool::new(false);

/// The longest word that a narrow table keeps in one line, and the longest if the table is still too wide. The
/// first column has names and keeps longer words.
const WORD_LEN_MAX: usize = 40;
const SHORT_WORD_LEN_MAX: usize = 16;

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const RESET: &str = "\x1b[0m";

/// Returns the width of the terminal that shows stdout, in columns. Returns `None` for a pipe or a file,
/// in which no line is too long.
pub fn stdout_width() -> Option<usize> {
    terminal_size_of(io::stdout()).map(|(width, _)| width.0.into())
}

/// Returns the width of the terminal that shows stderr, in columns. Returns `None` for a pipe or a file.
pub fn stderr_width() -> Option<usize> {
    terminal_size_of(io::stderr()).map(|(width, _)| width.0.into())
}

/// Returns whether stdout shows colours. The answer does not change once `--color` is known.
pub fn has_colours() -> bool {
    static CHOICE: OnceLock<ColorChoice> = OnceLock::new();
    *CHOICE.get_or_init(|| AutoStream::choice(&io::stdout())) != ColorChoice::Never
}

/// Returns the answer "absent" as stdout shows it.
pub fn absent() -> &'static str {
    if has_colours() { "\x1b[32mabsent\x1b[0m" } else { "absent" }
}

/// Returns the text, in bold if stdout shows colours.
pub fn bold(text: &str) -> String {
    if has_colours() { format!("{BOLD}{text}{RESET}") } else { text.to_owned() }
}

/// Makes the words red that report damage or a filter that denies a value.
fn with_red_damage(text: &str) -> String {
    let red = |text: String, word: &str| text.replace(word, &format!("{RED}{word}{RESET}"));
    ["damaged:", "damaged;", "LOST", "the filter denies", "denying values"].into_iter().fold(text.to_owned(), red)
}

/// Returns the number of columns of a text, which may have colours.
fn columns(text: &str) -> usize {
    anstream::adapter::strip_str(text).map(|part| part.chars().count()).sum()
}

/// Breaks lines between words if they are longer than `width`. The rest of a line begins below its text: if
/// the line has a label and a value, below the value. The rows of tables stay as they are.
pub fn fit(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut fitted = String::with_capacity(text.len() + text.len() / 8);
    for line in text.split_inclusive('\n') {
        if line.starts_with('|') || columns(line.trim_end()) <= width {
            fitted += line;
            continue;
        }
        let start = line.len() - line.trim_start().len();
        let value =
            line.trim_start().find("  ").map(|gap| line.len() - line.split_at(start + gap).1.trim_start().len());
        let indent = value.filter(|&value| value <= width / 2).unwrap_or(start + 2);
        let mut used = 0;
        for word in line.split_inclusive(' ') {
            if used > indent && used + columns(word.trim_end()) > width {
                fitted.truncate(fitted.trim_end_matches(' ').len());
                fitted += &format!("\n{:indent$}", "");
                used = indent;
            }
            fitted += word;
            used += columns(word);
        }
    }
    fitted
}

pub fn message(text: impl std::fmt::Display) {
    let text = with_red_damage(&fit(&format!("filterblock: {text}"), stderr_width()));
    // A failed write to stderr must not end the command or change its exit status.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Opens stdin. If the user types there, first says that the command waits for input.
pub fn stdin(what: &str) -> io::Result<streams::Input> {
    let input = streams::reader()?;
    if io::stdin().is_terminal() {
        message(format_args!("reading {what} from standard input; Ctrl-D ends it"));
    }
    Ok(input)
}

pub fn note(path: &Path, text: impl std::fmt::Display) {
    message(format_args!("{}: {text}", path.display()));
}

/// A buffered stdout. The caller must flush it to see write errors.
pub type Stdout = BufWriter<Unbuffered>;

/// An unbuffered stdout. After its reader has closed the pipe, it accepts and drops all further
/// bytes and returns no error. The exit status answers the user's question, so it must not depend
/// on how much of the output was read. See [`reader_gone`].
#[derive(Default)]
pub struct Unbuffered {
    /// The stream. It is opened at the first write: a command that prints nothing needs no stdout.
    stream: Option<Box<dyn Write>>,
}

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if reader_gone() {
            return Ok(bytes.len());
        }
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(streams::writer()?),
        };
        match stream.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                READER_GONE.store(true, Ordering::Relaxed);
                Ok(bytes.len())
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a buffered stdout; see [`Stdout`].
pub fn stdout() -> Stdout {
    BufWriter::with_capacity(BUFFER_LEN_BYTES, Unbuffered::default())
}

/// Returns `true` once a write has shown that the reader of stdout has closed its end. Work that
/// only produces output may then stop. Work that decides the exit status must continue.
pub fn reader_gone() -> bool {
    READER_GONE.load(Ordering::Relaxed)
}

/// Notes that the reader of stdout has closed its end, and that the rest of the input is not read.
pub fn cut_input() {
    READER_GONE.store(true, Ordering::Relaxed);
    INPUT_CUT.store(true, Ordering::Relaxed);
}

/// Returns `exit`, the answer of a command that read input. If the rest of the input was not read
/// and could change the answer (`is_certain` is false), returns [`Failure::ReaderGone`].
pub fn complete(exit: Exit, is_certain: bool) -> Outcome {
    if INPUT_CUT.load(Ordering::Relaxed) && !is_certain { Err(Failure::ReaderGone) } else { Ok(exit) }
}

/// Prints a text for people.
pub fn print(text: &str) -> Outcome<()> {
    let text = fit(text, stdout_width());
    print_as_is(&if has_colours() { with_red_damage(&text) } else { text })
}

/// Prints a text that is not wrapped, such as JSON.
pub fn print_as_is(text: &str) -> Outcome<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::stdout)
}

/// Writes binary data to stdout. Incomplete data is useless, so it is an error if the reader closes
/// the pipe early.
pub fn print_binary(bytes: &[u8]) -> Outcome<()> {
    let written = streams::writer().and_then(|mut out| out.write_all(bytes).and_then(|()| out.flush()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => {
            Failure::Message("standard output: the reader closed the pipe before it had read the whole block; read to the end, or give --output a file".into())
        }
        _ => Failure::stdout(error),
    })
}

/// Returns an error if the process was started with a closed stdout (detected only on Linux).
pub fn check_stdout() -> Outcome<()> {
    streams::check_stdout().map_err(Failure::stdout)
}

/// Returns an error if stdout is a terminal, which must not get binary data.
pub fn refuse_terminal() -> Outcome<()> {
    match io::stdout().is_terminal() {
        true => fail("standard output is a terminal; redirect the binary block to a file or a pipe"),
        false => Ok(()),
    }
}

/// Returns `printed`, the result of printing a report on stdout. If printing failed, first prints
/// `text` on stderr, because a second run could not reproduce the report.
pub fn print_or_say(printed: Outcome<()>, text: impl FnOnce() -> String) -> Outcome<()> {
    if printed.is_err() {
        message(text().trim_end());
    }
    printed
}

/// Prints a report as JSON, or as the text that `text` returns.
pub fn report(is_json: bool, report: &impl Serialize, text: impl FnOnce() -> String) -> Outcome<()> {
    if is_json { print_json(report) } else { print(&text()) }
}

/// Makes a table for a page or a pipe. The columns in `numbers`, counted from 0, are aligned to the right.
pub fn wide_table(
    header: impl Into<Row>,
    rows: impl IntoIterator<Item: Into<Row>>,
    numbers: impl RangeBounds<usize>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    table.add_rows(rows);
    for (_, column) in table.column_iter_mut().enumerate().filter(|(number, _)| numbers.contains(number)) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Makes a table for stdout, as [`wide_table`] does. A terminal that is too narrow does not show the columns
/// in `spare`, the first of them first, and then gets wrapped cells.
pub fn table(
    header: impl Into<Row>,
    rows: impl IntoIterator<Item: Into<Row>>,
    numbers: impl RangeBounds<usize>,
    spare: &[usize],
) -> String {
    let mut table = wide_table(header, rows, numbers);
    let Some(width) = stdout_width() else { return table.to_string() };
    // Each column has a bar and two spaces beside its content.
    let len = |widths: &[usize]| widths.iter().filter(|&&width| width > 0).map(|width| width + 3).sum::<usize>() + 1;
    let mut widths: Vec<usize> = table.column_max_content_widths().into_iter().map(usize::from).collect();
    if len(&widths) <= width {
        return table.to_string();
    }
    for (number, widest) in widths.iter_mut().enumerate() {
        let cells = table.column_cells_with_header_iter(number).flatten().map(Cell::content);
        let words = cells.flat_map(|cell| cell.split(' ').map(|word| word.chars().count()).collect::<Vec<_>>());
        *widest = words.max().unwrap_or(0).min(WORD_LEN_MAX);
    }
    for &number in spare {
        if len(&widths) > width {
            widths.iter_mut().skip(number).take(1).for_each(|width| *width = 0);
        }
    }
    let titles = table.header().into_iter().flat_map(Row::cell_iter).zip(&widths);
    let hidden: Vec<String> = titles.filter(|(_, width)| **width == 0).map(|(title, _)| title.content()).collect();
    if len(&widths) > width {
        widths.iter_mut().skip(1).for_each(|width| *width = (*width).min(SHORT_WORD_LEN_MAX));
    }
    for (column, width) in table.column_iter_mut().zip(&widths) {
        let least = Width::Fixed(u16::try_from(width + 2).unwrap_or(u16::MAX));
        column.set_constraint(match width {
            0 => ColumnConstraint::Hidden,
            _ => ColumnConstraint::LowerBoundary(least),
        });
    }
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::try_from(width).unwrap_or(u16::MAX));
    match hidden.is_empty() {
        true => table.to_string(),
        false => format!("{table}\nA wider terminal also shows: {}.", hidden.join(", ")),
    }
}

pub fn print_json(report: &impl Serialize) -> Outcome<()> {
    print_as_is(&json(report)?)
}

/// Returns a report as indented JSON with a final newline.
pub fn json(report: &impl Serialize) -> Outcome<String> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}
