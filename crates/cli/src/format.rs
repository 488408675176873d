//! Recognises the format of a file by its first and last bytes. [`FORMATS`] is the only table of
//! formats: commands that read filters choose the reader by it, and commands that read lists of
//! lines refuse the formats in it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use filterblock::layout::{self, TRAILER_LEN_BYTES};
use filterblock_foreign::FileKind;
use filterblock_parquet::index;
use filterblock_store::sstable;

/// The number of first bytes that are kept. They decide whether a file is text.
pub const FRONT_LEN_BYTES: usize = 512;
/// The number of last bytes that are kept. Every magic is shorter.
const BACK_LEN_BYTES: usize = 64;

/// The reader of a format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Block,
    Sst,
    Index,
    FileFilter,
    Foreign(FileKind),
    /// No command reads the format.
    Stranger,
}

pub struct Format {
    pub kind: Kind,
    /// The name of such a file, with its article.
    pub name: &'static str,
    /// What to do with the file where lines of text or a filter are expected.
    pub advice: &'static str,
    is: fn(&Ends) -> bool,
}

const ASK: &str = "to look up keys in it, use \"filterblock query\"";
const CONVERT: &str = "to make a filter block of its keys, use \"filterblock convert\"";
const WRITE_KEYS: &str = "write its keys to a text file, one per line";

const FORMATS: [Format; 24] = [
    row(Kind::Block, "a filter block", ASK, |ends| {
        ends.len_bytes >= TRAILER_LEN_BYTES as u64 && ends.ends(&layout::MAGIC)
    }),
    row(
        Kind::Sst,
        "an SST file of filterblock",
        "to index its keys, use \"filterblock index build\"; to print the pairs of its store, \"filterblock db scan\"",
        |ends| ends.ends(&sstable::MAGIC),
    ),
    row(Kind::Index, "an index", "to look up keys in it, use \"filterblock index query\"", |ends| {
        ends.begins(&index::MAGIC)
    }),
    row(Kind::FileFilter, "a FileFilter", ASK, |ends| ends.begins(b"\x89FLBfile")),
    row(Kind::Foreign(FileKind::LevelDbTable), "a LevelDB table", CONVERT, |ends| {
        ends.foreign() == Some(FileKind::LevelDbTable)
    }),
    row(Kind::Foreign(FileKind::RocksDbTable), "a RocksDB table", CONVERT, |ends| {
        ends.foreign() == Some(FileKind::RocksDbTable)
    }),
    row(
        Kind::Foreign(FileKind::ParquetFile),
        "a Parquet file",
        "to index a column, use \"filterblock index build --column NAME\"; to add filters, \"filterblock parquet add\"",
        |ends| ends.foreign() == Some(FileKind::ParquetFile),
    ),
    stranger("a compressed filter of filterblock", "read it with `Compressed` of the library", |ends| {
        ends.begins(b"\x89CB\x01")
    }),
    stranger("a log of a store", "to print the pairs of the store, use \"filterblock db scan\"", |ends| {
        ends.begins(b"fb-log\r\n") || ends.begins(b"fb-man\r\n")
    }),
    stranger("a Pebble table", WRITE_KEYS, |ends| ends.ends(b"\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3")),
    stranger("a blob file of Pebble", WRITE_KEYS, |ends| ends.ends(b"\xf0\x9f\xaa\xb3\xf0\x9f\xa6\x80")),
    stranger("a plain table of RocksDB", WRITE_KEYS, |ends| {
        ends.ends(&0x8242_2296_63bf_9564_u64.to_le_bytes()) || ends.ends(&0x4f34_18eb_7a8f_13b8_u64.to_le_bytes())
    }),
    stranger("a cuckoo table of RocksDB", WRITE_KEYS, |ends| ends.ends(&0x9267_89d0_c5f1_7873_u64.to_le_bytes())),
    // Text may begin with the magics below, so the next bytes are checked, too: reserved bits, version
    // numbers and names.
    stranger("a gzip file", "decompress it first (gzip -dc)", |ends| {
        ends.begins(b"\x1f\x8b\x08")
            && ends.at(3).is_some_and(|flags| flags & 0xe0 == 0)
            && ends.at(8).is_some_and(|effort| [0, 2, 4].contains(&effort))
            && ends.at(9).is_some_and(|system| system <= 13 || system == 255)
    }),
    stranger("a Zstandard file", "decompress it first (zstd -dc)", |ends| {
        ends.begins(b"\x28\xb5\x2f\xfd") && ends.at(4).is_some_and(|descriptor| descriptor & 8 == 0)
    }),
    stranger("an xz file", "decompress it first (xz -dc)", |ends| ends.begins(b"\xfd7zXZ\0\0")),
    stranger("an LZ4 file", "decompress it first (lz4 -dc)", |ends| {
        ends.begins(b"\x04\x22\x4d\x18") && ends.at(4).is_some_and(|flags| flags >> 6 == 1)
    }),
    stranger("a bzip2 file", "decompress it first (bzip2 -dc)", |ends| {
        ends.begins(b"BZh")
            && ends.at(3).is_some_and(|level| level.is_ascii_digit())
            && [b"1AY&SY", b"\x17rE8P\x90"].iter().any(|magic| ends.front.get(4..10) == Some(*magic))
    }),
    stranger("a zip archive", "extract it first (unzip -p)", |ends| {
        ends.begins(b"PK\x03\x04") && ends.at(9) == Some(0)
            || ends.begins(b"PK\x05\x06\0\0")
            || ends.begins(b"PK\x07\x08PK\x03\x04")
    }),
    stranger("a 7z archive", "extract it first", |ends| ends.begins(b"7z\xbc\xaf\x27\x1c\0")),
    stranger("an SQLite database", WRITE_KEYS, |ends| ends.begins(b"SQLite format 3\0")),
    stranger("an ORC file", WRITE_KEYS, |ends| {
        // The last byte is the length of the postscript, which ends with the magic.
        let magic = ends.back.len().checked_sub(4).and_then(|start| ends.back.get(start..start + 3));
        ends.is_whole && ends.begins(b"ORC") && magic == Some(b"ORC")
    }),
    stranger("an Avro file", WRITE_KEYS, |ends| {
        ends.begins(b"Obj\x01") && ends.front.windows(5).any(|name| name == b"avro.")
    }),
    stranger("an Arrow file", WRITE_KEYS, |ends| {
        [b"ARROW1".as_slice(), b"FEA1"].iter().any(|magic| ends.begins(magic) && ends.ends(magic))
    }),
];

const fn row(kind: Kind, name: &'static str, advice: &'static str, is: fn(&Ends) -> bool) -> Format {
    Format { kind, name, advice, is }
}

const fn stranger(name: &'static str, advice: &'static str, is: fn(&Ends) -> bool) -> Format {
    row(Kind::Stranger, name, advice, is)
}

/// The first and last bytes of a file.
#[derive(Default)]
pub struct Ends {
    front: Vec<u8>,
    back: Vec<u8>,
    len_bytes: u64,
    /// Whether the file has no bytes after those that were pushed.
    is_whole: bool,
}

impl Ends {
    /// Reads the ends of a file.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut ends = Self { len_bytes: file.metadata()?.len(), is_whole: true, ..Self::default() };
        (&mut file).take(FRONT_LEN_BYTES as u64).read_to_end(&mut ends.front)?;
        file.seek(SeekFrom::Start(ends.len_bytes.saturating_sub(BACK_LEN_BYTES as u64)))?;
        file.take(BACK_LEN_BYTES as u64).read_to_end(&mut ends.back)?;
        Ok(ends)
    }

    /// Adds the next bytes of the file. No bytes are the end of the file. Returns whether more
    /// became known about the format: the first bytes are complete, or the file has ended.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let missing = FRONT_LEN_BYTES - self.front.len();
        self.front.extend(bytes.iter().take(missing));
        let last = bytes.len().saturating_sub(BACK_LEN_BYTES);
        self.back.extend(bytes.iter().skip(last));
        self.back.drain(..self.back.len().saturating_sub(BACK_LEN_BYTES));
        self.len_bytes += bytes.len() as u64;
        self.is_whole = bytes.is_empty();
        self.is_whole || missing > 0 && self.front.len() == FRONT_LEN_BYTES
    }

    /// Returns the number of bytes of the file so far.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the format of the file, or `None` if the format is unknown or the file is text.
    pub fn format(&self) -> Option<&'static Format> {
        if self.is_text() { None } else { FORMATS.iter().find(|format| (format.is)(self)) }
    }

    /// Returns the format of a file where a list of keys is expected. The first and the last line of
    /// a list in another encoding than UTF-8 may be Parquet's magic. A Parquet file has no line ends
    /// there: a page header and the length of the footer are beside the magic.
    pub fn list_format(&self) -> Option<&'static Format> {
        let found = self.format()?;
        let has_lines = matches!(self.at(4), Some(b'\r' | b'\n')) && self.back.iter().rev().nth(4) == Some(&b'\n');
        (found.kind != Kind::Foreign(FileKind::ParquetFile) || !has_lines).then_some(found)
    }

    /// Returns whether the first and the last bytes are text in UTF-8. So a list that begins or ends
    /// with the letters of a magic is text.
    pub fn is_text(&self) -> bool {
        // The last bytes may begin within a character.
        let cut = self.back.iter().take(3).take_while(|&&byte| byte & 0xc0 == 0x80).count();
        is_text(&self.front) && is_text(self.back.get(cut..).unwrap_or_default())
    }

    /// Returns whether the file begins like text in UTF-16: with a byte order mark, or most pairs of
    /// bytes have a NUL at one side, and none has it at the other side.
    pub fn is_utf16(&self) -> bool {
        let (pairs, _) = self.front.as_chunks::<2>();
        let first = pairs.iter().filter(|[first, second]| *first == 0 && *second != 0).count();
        let second = pairs.iter().filter(|[first, second]| *first != 0 && *second == 0).count();
        let is_most = pairs.len() > 1 && first.max(second) * 2 > pairs.len();
        self.begins(b"\xff\xfe") || self.begins(b"\xfe\xff") || is_most && first.min(second) == 0
    }

    /// Returns whether the file begins like text in UTF-32: each unit of four bytes is the number of
    /// a character other than NUL.
    pub fn is_utf32(&self) -> bool {
        let (units, _) = self.front.as_chunks::<4>();
        let is_text = |number: fn([u8; 4]) -> u32| units.iter().all(|&unit| (1..0x11_0000).contains(&number(unit)));
        units.len() > 1 && (is_text(u32::from_le_bytes) || is_text(u32::from_be_bytes))
    }

    pub fn begins(&self, magic: &[u8]) -> bool {
        self.front.starts_with(magic)
    }

    pub fn ends(&self, magic: &[u8]) -> bool {
        self.is_whole && self.back.ends_with(magic)
    }

    fn at(&self, offset: usize) -> Option<u8> {
        self.front.get(offset).copied()
    }

    /// Returns the format of another engine.
    pub fn foreign(&self) -> Option<FileKind> {
        FileKind::of(&[self.front.as_slice(), &self.back].concat()).filter(|_| self.is_whole)
    }
}

/// Returns whether bytes are text in UTF-8 without control characters. The last character may be
/// incomplete.
pub fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
        && bytes.iter().all(|&byte| byte >= b' ' || b"\t\n\r".contains(&byte))
}

/// Returns why a path without a regular file is refused. A store is a directory.
pub fn not_a_file(path: &Path) -> &'static str {
    match path.join("CURRENT").exists() {
        true => "this is the directory of a store; to print its pairs, use \"filterblock db scan\"",
        false => "not a regular file (a directory, a device or a pipe); give a file",
    }
}
