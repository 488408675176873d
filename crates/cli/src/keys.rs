//! Reads keys from a file, stdin or the command line. Keys need not be UTF-8.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::format::{self, Ends};
use crate::prelude::*;
use crate::streams::{self, Input};
use filterblock::Error;

/// The maximum length of a key for a filter block. The limit bounds the reader's memory.
pub const MAX_FILTER_KEY_LEN_BYTES: usize = 16 << 20;

const BUFFER_LEN_BYTES: usize = 1 << 16;

const ANY_BYTES: &str = "; to take its bytes as lines, add --any-bytes";

/// The error message for a bad or missing hexadecimal digit.
pub const NO_PAIR: &str = "not a pair of hexadecimal digits; with --hex, write abc as 616263";

/// The delimiter between two keys.
#[derive(Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Delimiter {
    /// One key per line. A carriage return before the newline belongs to the line end (CRLF).
    #[default]
    Newline,
    /// A zero byte after each key (find -print0). No other byte is special.
    Nul,
}

impl Delimiter {
    pub fn byte(self) -> u8 {
        match self {
            Self::Newline => b'\n',
            Self::Nul => 0,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Newline => "line",
            Self::Nul => "record",
        }
    }
}

/// The options for the notation of keys in files and on the command line.
#[derive(Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Key format")]
pub struct KeyFormat {
    #[arg(long, value_enum, value_name = "DELIMITER", default_value = "newline", hide_possible_values = true)]
    #[arg(help = "The end of a key: `newline` (also CRLF) or `nul`; keys need not be UTF-8")]
    pub delimiter: Delimiter,
    /// Keys are written in hexadecimal, two digits per byte
    #[arg(long)]
    pub hex: bool,
    /// Take an empty line as a key of 0 bytes; by default empty lines are skipped and counted on
    /// stderr
    #[arg(long)]
    pub keep_empty: bool,
    /// Take the lines of any file, even of a Parquet file, an SST file, a compressed file or text
    /// in UTF-16
    #[arg(long)]
    pub any_bytes: bool,
}

impl KeyFormat {
    /// Returns whether keys are plain lines, in which NUL, CR and a byte order mark are unusual.
    fn has_plain_lines(self) -> bool {
        self.delimiter == Delimiter::Newline && !self.hex
    }

    /// Appends the key that `written` encodes.
    ///
    /// # Errors
    /// Returns the position of the first bad or missing digit, counted from 0.
    fn decode(self, written: &[u8], key: &mut Vec<u8>) -> Result<(), usize> {
        if self.hex {
            return text::unhex(written, key);
        }
        key.extend_from_slice(written);
        Ok(())
    }

    /// Returns the key that the command-line argument `written` encodes.
    pub fn argument(self, written: &OsStr) -> Outcome<Vec<u8>> {
        let mut key = Vec::new();
        self.decode(written.as_encoded_bytes(), &mut key).map_err(|at| {
            let shown = written.to_string_lossy();
            Failure::Message(format!("argument {shown:?}, column {}: {NO_PAIR}", at + 1))
        })?;
        Ok(key)
    }
}

/// A key as text and as bytes. The two differ only in hexadecimal notation.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    /// The text without its delimiter and line end.
    pub written: &'a [u8],
    /// The bytes that go into a filter or a store.
    pub key: &'a [u8],
}

/// Input that must be a list of lines. A read returns an error if the bytes so far show that the
/// input has a known format. The formats with a magic at the end show at the end of the input.
struct Lines {
    input: Input,
    /// Whether the input ends when the reader of stdout closes its end.
    ends_with_stdout: bool,
    ends: Ends,
    format: KeyFormat,
    /// The end of the error message.
    hint: &'static str,
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ends_with_stdout {
            let (is_ready, is_closed) = streams::wait(&self.input)?;
            // The first lines may decide the exit status.
            if is_closed && !(is_ready && self.ends.len_bytes() == 0) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        let len = self.input.read(buffer)?;
        if !self.ends.push(buffer.get(..len).unwrap_or_default()) || self.format.any_bytes {
            return Ok(len);
        }
        let (what, advice) = match self.ends.list_format() {
            Some(format) => (format.name, format.advice),
            None if !self.format.has_plain_lines() => return Ok(len),
            None if self.ends.is_utf32() => ("text in UTF-32", "convert it first (iconv -f UTF-32 -t UTF-8)"),
            None if self.ends.is_utf16() => (
                "text in UTF-16",
                "convert it first (iconv -f UTF-16 -t UTF-8), or use --delimiter nul if each key ends with a NUL byte",
            ),
            None => return Ok(len),
        };
        let why = format!("this is {what}, not a list of lines; {advice}{}", self.hint);
        Err(io::Error::new(io::ErrorKind::InvalidData, why))
    }
}

/// Reads keys one by one. Its memory is bounded by the longest allowed key.
pub struct KeyReader {
    input: Box<dyn BufRead>,
    name: String,
    format: KeyFormat,
    /// Whether messages may name --delimiter and --keep-empty.
    has_options: bool,
    max_len_bytes: usize,
    number: u64,
    skipped: u64,
    /// The number of lines with a NUL byte, and with a carriage return before the line end.
    odd: [u64; 2],
    line: Vec<u8>,
    key: Vec<u8>,
}

impl KeyReader {
    /// Opens a file of keys; `-` is stdin. A key has at most `max_len_bytes` bytes after decoding.
    pub fn open(path: &Path, format: KeyFormat, max_len_bytes: usize) -> Outcome<Self> {
        Self::open_with(path, format, max_len_bytes, ANY_BYTES, false)
    }

    /// Opens a file of keys to look up, as [`Self::open`] does. If it is a pipe, its lines end when
    /// the reader of stdout closes its end: see [`output::complete`].
    pub fn open_questions(path: &Path, format: KeyFormat, max_len_bytes: usize) -> Outcome<Self> {
        Self::open_with(path, format, max_len_bytes, ANY_BYTES, true)
    }

    /// Opens a file of lines for a command without the options of [`KeyFormat`]; `-` is stdin. A
    /// line has at most `max_len_bytes` bytes.
    pub fn open_lines(path: &Path, max_len_bytes: usize) -> Outcome<Self> {
        Ok(Self::open_with(path, KeyFormat::default(), max_len_bytes, "", false)?.without_options())
    }

    fn open_with(path: &Path, format: KeyFormat, max: usize, hint: &'static str, is_question: bool) -> Outcome<Self> {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin { "standard input".into() } else { path.display().to_string() };
        let input = match is_stdin {
            true => output::stdin("lines").map_err(|error| Failure::Message(format!("{name}: {error}")))?,
            false => streams::open(path).map_err(|error| Failure::file(path, error))?,
        };
        // Opening a directory succeeds and only reading it fails. That would be too late for
        // callers that create files first.
        let found = if is_stdin { Path::new("/dev/stdin") } else { path }.metadata().ok();
        if found.as_ref().is_some_and(|found| found.is_dir()) {
            return fail(format!("{name}: {}", format::not_a_file(path)));
        }
        let ends_with_stdout = is_question && !found.is_some_and(|found| found.is_file());
        let lines = Lines { input, ends_with_stdout, ends: Ends::default(), format, hint };
        Ok(Self::new(Box::new(BufReader::with_capacity(BUFFER_LEN_BYTES, lines)), name, format, max))
    }

    /// Returns the reader for a command without --delimiter and --keep-empty, or for lines that are
    /// not keys. Its messages do not name these options.
    pub fn without_options(self) -> Self {
        Self { has_options: false, ..self }
    }

    /// Reads input that does not begin with text to its end, and keeps it in a temporary file. So
    /// a file of a known format is refused before a line of it is used.
    pub fn hold_binary(mut self) -> Outcome<Self> {
        if self.format.any_bytes {
            return Ok(self);
        }
        let mut first = Vec::new();
        let held = (&mut self.input).take(format::FRONT_LEN_BYTES as u64).read_to_end(&mut first).and_then(|_| {
            if format::is_text(&first) {
                return Ok(None);
            }
            let mut held = tempfile::tempfile()?;
            io::copy(&mut first.chain(&mut self.input), &mut held)?;
            held.rewind().map(|()| Some(held))
        });
        self.input = match held.map_err(|error| self.unreadable(error))? {
            Some(held) => Box::new(BufReader::with_capacity(BUFFER_LEN_BYTES, held)),
            None => Box::new(io::Cursor::new(first).chain(self.input)),
        };
        Ok(self)
    }

    fn new(input: Box<dyn BufRead>, name: String, format: KeyFormat, max_len_bytes: usize) -> Self {
        Self {
            input,
            name,
            format,
            has_options: true,
            max_len_bytes,
            number: 0,
            skipped: 0,
            odd: [0; 2],
            line: Vec::new(),
            key: Vec::new(),
        }
    }

    fn unreadable(&self, error: io::Error) -> Failure {
        Failure::Message(format!("{}: {}", self.name, Error::from(error)))
    }

    /// Returns the name of the input and the number of the line read last, for messages.
    pub fn place(&self) -> String {
        format!("{}: {} {}", self.name, self.format.delimiter.unit(), self.number)
    }

    /// Returns the next key, or `None` at the end of the input. At the end, prints how many empty
    /// lines it skipped, if any.
    pub fn next_key(&mut self) -> Outcome<Option<Written<'_>>> {
        loop {
            if !self.read_line()? {
                self.report();
                return Ok(None);
            }
            if self.format.has_plain_lines() {
                self.note_odd_bytes();
            }
            if !self.line.is_empty() || self.format.keep_empty {
                break;
            }
            self.skipped += 1;
        }
        if !self.format.hex {
            return Ok(Some(Written { written: &self.line, key: &self.line }));
        }
        self.key.clear();
        if let Err(at) = self.format.decode(&self.line, &mut self.key) {
            let place = self.place();
            return fail(format!("{place}, column {}: {NO_PAIR}", at + 1));
        }
        Ok(Some(Written { written: &self.line, key: &self.key }))
    }

    /// Reads the next line without its delimiter or CRLF. Returns `false` at the end of the input.
    fn read_line(&mut self) -> Outcome<bool> {
        let delimiter = self.format.delimiter;
        let max_written = if self.format.hex { self.max_len_bytes * 2 } else { self.max_len_bytes };
        self.line.clear();
        // Two bytes more than the longest key: a key of that length may end with CRLF, and a longer
        // key must be recognized as too long.
        let mut limited = (&mut self.input).take(max_written as u64 + 2);
        let len = match limited.read_until(delimiter.byte(), &mut self.line) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                output::cut_input();
                return Ok(false);
            }
            read => read.map_err(|error| self.unreadable(error))?,
        };
        if len == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.line.pop_if(|last| *last == delimiter.byte()).is_some() && delimiter == Delimiter::Newline {
            self.line.pop_if(|last| *last == b'\r');
        }
        if self.line.len() > max_written {
            let (place, bytes) = (self.place(), |len: usize| text::thousands(len as u64));
            let why = match self.has_options {
                true => format!(
                    "the key is longer than the maximum of {} bytes; shorten it, or check --delimiter",
                    bytes(self.max_len_bytes)
                ),
                false => format!(
                    "the {} is longer than the maximum of {} bytes; shorten it",
                    delimiter.unit(),
                    bytes(max_written)
                ),
            };
            return fail(format!("{place}: {why}"));
        }
        Ok(true)
    }

    /// Names a byte order mark, and counts lines with bytes that rarely belong to a line of text.
    fn note_odd_bytes(&mut self) {
        if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
            let name = &self.name;
            message(format_args!(
                "{name}: begins with a byte order mark (EF BB BF), which is taken as part of line 1; remove it"
            ));
        }
        for (count, byte) in self.odd.iter_mut().zip([0, b'\r']) {
            *count += u64::from(self.line.contains(&byte));
        }
    }

    /// Prints how many lines were skipped, and how many have bytes that rarely belong to a line.
    fn report(&mut self) {
        let [nul, cr] = std::mem::take(&mut self.odd).map(|lines| text::count(lines, "line"));
        let advice = if self.has_options { "if each NUL ends a key, add --delimiter nul" } else { "check the input" };
        if nul != "0 lines" {
            message(format_args!(
                "{}: {nul} with NUL bytes, which are taken as parts of the lines; {advice}",
                self.name
            ));
        }
        if cr != "0 lines" {
            message(format_args!(
                "{}: {cr} with a carriage return (CR) that is not part of a line end (CRLF), and is taken as part of \
                 the line; if CR ends the lines, convert them (tr '\\r' '\\n')",
                self.name
            ));
        }
        let unit = self.format.delimiter.unit();
        match std::mem::take(&mut self.skipped) {
            0 => {}
            n if !self.has_options => {
                message(format_args!("{}: skipped {}", self.name, text::count(n, &format!("empty {unit}"))));
            }
            1 => message(format_args!("{}: skipped 1 empty {unit}; to take it as a key, use --keep-empty", self.name)),
            n => message(format_args!(
                "{}: skipped {} empty {unit}s; to take them as keys, use --keep-empty",
                self.name,
                text::thousands(n)
            )),
        }
    }
}

/// The keys to look up.
#[derive(Clone, clap::Args)]
pub struct Questions {
    /// The keys, or `-` for standard input
    #[arg(value_name = "KEY", required_unless_present = "keys", allow_negative_numbers = true)]
    arguments: Vec<OsString>,
    /// A file with one key per line
    #[arg(long, value_name = "KEYFILE", conflicts_with = "arguments")]
    keys: Option<PathBuf>,
}

/// The reason why a key got no answer.
pub enum Refused {
    /// The key is not a value of the column's type, or not a valid range.
    Key(String),
    Other(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl Refused {
    fn at(self, place: impl FnOnce() -> String) -> Failure {
        match self {
            Self::Key(why) => Failure::Message(format!("{}: {why}", place())),
            Self::Other(failure) => failure,
        }
    }
}

impl Questions {
    /// Returns the only key on the command line. Returns `None` if there are several, or a file of keys.
    pub fn only(&self) -> Option<&OsStr> {
        match self.arguments.as_slice() {
            [only] if only != "-" => Some(only),
            _ => None,
        }
    }

    /// Returns the file of keys, or `None` if the keys are arguments.
    pub fn file(&self) -> Option<&Path> {
        match self.arguments.as_slice() {
            [only] if only == "-" => Some(Path::new("-")),
            _ => self.keys.as_deref(),
        }
    }

    /// Gives each key to `ask`, as bytes and as text, until `ask` returns `true`. A line of a file has at most
    /// `max_len_bytes` bytes. Messages about a file name --delimiter and --keep-empty if `has_options` is set.
    pub fn ask_each(
        &self,
        format: KeyFormat,
        max_len_bytes: usize,
        has_options: bool,
        mut ask: impl FnMut(&[u8], &[u8]) -> Result<bool, Refused>,
    ) -> Outcome<()> {
        let Some(path) = self.file() else {
            for written in &self.arguments {
                let key = format.argument(written)?;
                let place = || format!("argument {:?}", written.to_string_lossy());
                if ask(&key, written.as_encoded_bytes()).map_err(|refused| refused.at(place))? {
                    break;
                }
            }
            return Ok(());
        };
        let mut reader = KeyReader::open_questions(path, format, max_len_bytes)?;
        reader.has_options = has_options;
        while let Some(next) = reader.next_key()? {
            let asked = ask(next.key, next.written);
            if asked.map_err(|refused| refused.at(|| reader.place()))? {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the JSON of an answer. `name` is the field of the key or range. If the key is not UTF-8, the
/// name of the field ends with `_hex`.
pub fn answer_line(is_maybe: bool, name: &str, written: &[u8]) -> Map<String, Value> {
    let (name, written) = match std::str::from_utf8(written) {
        Ok(text) => (name.to_owned(), text.to_owned()),
        Err(_) => (format!("{name}_hex"), text::hex(written)),
    };
    let answer = if is_maybe { "maybe" } else { "absent" };
    Map::from_iter([("answer".to_owned(), answer.into()), (name, written.into())])
}

/// The bounds of a range.
#[derive(PartialEq, Eq)]
pub struct KeyRange {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Parses a range. The first `..` divides it, so a lower bound that contains `..` or ends with
    /// a dot needs hexadecimal notation. So does an excluded upper bound that begins with `=`. A
    /// range without a lower or upper bound is unbounded on that side.
    ///
    /// # Errors
    /// Returns a message if there are no two adjacent dots, if `hex` is set and a bound is not in
    /// hexadecimal notation, or if the lower bound is above the upper bound.
    pub fn parse(written: &[u8], hex: bool) -> Result<Self, String> {
        let Some(at) = written.windows(2).position(|two| two == b"..") else {
            return Err("not a range; write LOWER..UPPER, or LOWER..=UPPER to include UPPER".into());
        };
        let (lower, upper) = (written.get(..at).unwrap_or_default(), written.get(at + 2..).unwrap_or_default());
        let end = |bytes: &[u8], offset: usize| -> Result<Vec<u8>, String> {
            let mut key = Vec::new();
            if hex {
                text::unhex(bytes, &mut key).map_err(|bad| format!("column {}: {}", offset + bad + 1, NO_PAIR))?;
            } else {
                key.extend_from_slice(bytes);
            }
            Ok(key)
        };
        let lower = if lower.is_empty() { Unbounded } else { Included(end(lower, 0)?) };
        let upper = match upper.strip_prefix(b"=") {
            Some(upper) => Included(end(upper, at + 3)?),
            None if upper.is_empty() => Unbounded,
            None => Excluded(end(upper, at + 2)?),
        };
        if let (Included(lower), Included(upper) | Excluded(upper)) = (&lower, &upper) {
            check_order(lower, upper)?;
        }
        Ok(Self { lower, upper })
    }

    pub fn lower(&self) -> Bound<&[u8]> {
        self.lower.as_ref().map(Vec::as_slice)
    }

    pub fn upper(&self) -> Bound<&[u8]> {
        self.upper.as_ref().map(Vec::as_slice)
    }
}

/// Returns a message if the lower bound is above the upper bound.
pub fn check_order(lower: &[u8], upper: &[u8]) -> Result<(), String> {
    if lower > upper {
        return Err("the lower bound is above the upper bound in the order of bytes; exchange the bounds, or write numbers with equally many digits, as in the keys".into());
    }
    Ok(())
}
