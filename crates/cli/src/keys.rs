//! Reads keys from a file, stdin or the command line. Keys need not be UTF-8.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use clap::ValueEnum;

use super::failure::{Failure, Outcome};
use super::output::message;
use super::{streams, text};
use filterblock::Error;

/// The maximum length of a key for a filter block. The limit bounds the reader's memory.
pub const MAX_FILTER_KEY_LEN_BYTES: usize = 16 << 20;

const BUFFER_LEN_BYTES: usize = 1 << 16;

/// The error message for a bad or missing hexadecimal digit.
pub const NO_PAIR: &str = "not a pair of hexadecimal digits; with --hex, write abc as 616263";

/// The delimiter between two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Delimiter {
    /// One key per line. A carriage return before the newline belongs to the line end (CRLF).
    #[default]
    Newline,
    /// A zero byte after each key (find -print0). No other byte is special.
    Nul,
}

impl Delimiter {
    /// Returns the delimiter byte.
    pub fn byte(self) -> u8 {
        match self {
            Self::Newline => b'\n',
            Self::Nul => 0,
        }
    }

    /// Returns the word for one key in messages.
    fn unit(self) -> &'static str {
        match self {
            Self::Newline => "line",
            Self::Nul => "record",
        }
    }
}

/// The options for the notation of keys in files and on the command line.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
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
}

impl KeyFormat {
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
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// The text without its delimiter and line end.
    pub written: &'a [u8],
    /// The bytes that go into a filter or a store.
    pub key: &'a [u8],
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
    line: Vec<u8>,
    key: Vec<u8>,
}

impl KeyReader {
    /// Opens a file of keys; `-` is stdin. A key has at most `max_len_bytes` bytes after decoding.
    pub fn open(path: &Path, format: KeyFormat, max_len_bytes: usize) -> Outcome<Self> {
        if path.as_os_str() == "-" {
            let stdin = streams::reader().map_err(|error| Failure::Message(format!("standard input: {error}")))?;
            let input = Box::new(BufReader::with_capacity(BUFFER_LEN_BYTES, stdin));
            return Ok(Self::new(input, "standard input".into(), format, max_len_bytes));
        }
        let file = File::open(path).map_err(|error| Failure::file(path, error))?;
        // Opening a directory succeeds and only reading it fails. That would be too late for
        // callers that create files first.
        if file.metadata().is_ok_and(|found| found.is_dir()) {
            return Err(Failure::Message(format!("{}: this is a directory; give a file", path.display())));
        }
        let input = Box::new(BufReader::with_capacity(BUFFER_LEN_BYTES, file));
        Ok(Self::new(input, path.display().to_string(), format, max_len_bytes))
    }

    /// Opens a file of lines for a command without the options of [`KeyFormat`]; `-` is stdin. A
    /// line has at most `max_len_bytes` bytes.
    pub fn open_lines(path: &Path, max_len_bytes: usize) -> Outcome<Self> {
        Ok(Self::open(path, KeyFormat::default(), max_len_bytes)?.without_options())
    }

    /// Returns the reader for a command without --delimiter and --keep-empty, or for lines that are
    /// not keys. Its messages do not name these options.
    pub fn without_options(self) -> Self {
        Self { has_options: false, ..self }
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
            line: Vec::new(),
            key: Vec::new(),
        }
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
                self.report_skipped();
                return Ok(None);
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
            return Err(Failure::Message(format!("{place}, column {}: {NO_PAIR}", at + 1)));
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
        let len = limited.read_until(delimiter.byte(), &mut self.line).map_err(|error| {
            let error = Error::from(error);
            Failure::Message(format!("{}: {error}", self.name))
        })?;
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
            return Err(Failure::Message(format!("{place}: {why}")));
        }
        Ok(true)
    }

    fn report_skipped(&mut self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &'static [u8], format: KeyFormat, max_len_bytes: usize) -> Result<Vec<Vec<u8>>, String> {
        let mut reader = KeyReader::new(Box::new(input), "keys".into(), format, max_len_bytes);
        let mut keys = Vec::new();
        loop {
            match reader.next_key() {
                Ok(Some(next)) => keys.push(next.key.to_vec()),
                Ok(None) => return Ok(keys),
                Err(failure) => return Err(failure.to_string()),
            }
        }
    }

    #[test]
    fn line_ends_are_removed_and_other_bytes_are_kept() {
        let format = KeyFormat::default();
        assert_eq!(read(b"a\r\nb\rc\n\n\xff\0 \nlast", format, 9).unwrap(), [&b"a"[..], b"b\rc", b"\xff\0 ", b"last"]);
        let kept = KeyFormat { keep_empty: true, ..format };
        assert_eq!(read(b"\n\r\na\n", kept, 9).unwrap(), [&b""[..], b"", b"a"]);
        let nul = KeyFormat { delimiter: Delimiter::Nul, ..format };
        assert_eq!(read(b"a\r\n\0\0b", nul, 9).unwrap(), [&b"a\r\n"[..], b"b"]);
    }

    #[test]
    fn a_key_of_maximum_length_fits_and_a_longer_one_is_refused() {
        let format = KeyFormat::default();
        for fits in [&b"1234\r\n"[..], b"1234\n", b"1234"] {
            assert_eq!(read(fits, format, 4).unwrap(), [b"1234"]);
        }
        for too_long in [&b"a\n12345\r\n"[..], b"a\n12345\n", b"a\n12345", b"a\n123456789"] {
            let error = read(too_long, format, 4).unwrap_err();
            assert_eq!(
                error,
                "keys: line 2: the key is longer than the maximum of 4 bytes; shorten it, or check --delimiter"
            );
        }
    }

    #[test]
    fn a_bad_hexadecimal_digit_is_named_by_line_and_column() {
        let hex = KeyFormat { hex: true, ..KeyFormat::default() };
        assert_eq!(read(b"00FF\r\n61", hex, 2).unwrap(), [&b"\0\xff"[..], b"a"]);
        assert!(read(b"00\n0x\n", hex, 2).unwrap_err().starts_with("keys: line 2, column 2: "));
        assert!(read(b"00\n000", hex, 2).unwrap_err().starts_with("keys: line 2, column 4: "));
    }
}
