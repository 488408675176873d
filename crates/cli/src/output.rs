//! Prints messages on stderr, and data on stdout.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::{CellAlignment, Row, Table, presets};
use serde::Serialize;

use crate::failure::{Exit, Failure, Outcome, fail};
use crate::streams;

/// The size of the buffer of stdout. The buffer holds many lines, so that most lines need no system
/// call.
const BUFFER_LEN_BYTES: usize = 1 << 16;

/// True once a write has shown that the reader of stdout has closed its end.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// True once endless input was no longer read because the reader of stdout has closed its end.
static INPUT_CUT: AtomicBool = AtomicBool::new(false);

pub fn message(text: impl std::fmt::Display) {
    // A failed write to stderr must not end the command or change its exit status.
    let _ = writeln!(anstream::stderr(), "filterblock: {text}");
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

pub fn print(text: &str) -> Outcome<()> {
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

/// Makes a table. The columns in `numbers`, counted from 0, are aligned to the right.
pub fn table(
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

pub fn print_json(report: &impl Serialize) -> Outcome<()> {
    print(&json(report)?)
}

/// Returns a report as indented JSON with a final newline.
pub fn json(report: &impl Serialize) -> Outcome<String> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}
