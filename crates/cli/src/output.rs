//! What the command tells: messages on stderr, and data on a buffered stdout.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use super::failure::{Failure, Outcome};
use super::streams;

/// Large enough that a line of output costs no system call of its own.
const BUFFER_LEN_BYTES: usize = 1 << 16;

/// Whether the reader of stdout has closed its end.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Says something to the user, on stderr.
pub fn message(text: impl std::fmt::Display) {
    // A message that nobody can be told must not end the command: what it does and its exit status stay.
    let _ = writeln!(anstream::stderr(), "filterblock: {text}");
}

/// Stdout behind a buffer; to be flushed by its user, so that a failure is seen.
pub type Stdout = BufWriter<Unbuffered>;

/// Stdout. When its reader has gone, it takes the rest and drops it: the exit status is a verdict that somebody else
/// reads, and must not depend on who reads the text. See [`reader_gone`].
#[derive(Default)]
pub struct Unbuffered {
    /// Opened at the first write: a command that prints nothing needs none.
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

/// Stdout, see [`Stdout`].
pub fn stdout() -> Stdout {
    BufWriter::with_capacity(BUFFER_LEN_BYTES, Unbuffered::default())
}

/// Whether nobody reads stdout any more, so that what only serves to print may end. What decides the exit status goes on.
pub fn reader_gone() -> bool {
    READER_GONE.load(Ordering::Relaxed)
}

/// Prints `text` as it is.
pub fn print(text: &str) -> Outcome<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::stdout)
}

/// Writes bytes that are no text to stdout. They are of use as a whole only: a reader that goes before has not seen enough.
pub fn print_binary(bytes: &[u8]) -> Outcome<()> {
    let written = streams::writer().and_then(|mut out| out.write_all(bytes).and_then(|()| out.flush()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => {
            Failure::Message("standard output: its reader has gone before the whole block was written".into())
        }
        _ => Failure::stdout(error),
    })
}

/// Finds out before any work that there is a stdout to tell the result on.
pub fn check_stdout() -> Outcome<()> {
    streams::check_stdout().map_err(Failure::stdout)
}

/// Refuses to write what is no text to a terminal.
pub fn refuse_terminal() -> Outcome<()> {
    match io::stdout().is_terminal() {
        true => Err(Failure::Message("standard output: a terminal; redirect the block to a file or a pipe".into())),
        false => Ok(()),
    }
}

/// Prints a report that no second run could give. If stdout fails, `text` goes to stderr, and the failure is still one.
pub fn print_or_say(printed: Outcome<()>, text: impl FnOnce() -> String) -> Outcome<()> {
    if printed.is_err() {
        message(text().trim_end());
    }
    printed
}

/// Prints a report as indented JSON.
pub fn print_json(report: &impl Serialize) -> Outcome<()> {
    print(&json(report)?)
}

/// A report as indented JSON, with a newline at its end.
pub fn json(report: &impl Serialize) -> Outcome<String> {
    let mut text = serde_json::to_string_pretty(report).map_err(|error| Failure::Message(error.to_string()))?;
    text.push('\n');
    Ok(text)
}
