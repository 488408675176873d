//! Reads and writes the checksum files of Hadoop's local file system, which Spark uses. The file
//! `.NAME.crc` has the bytes `crc\0`, a number of bytes, and the CRC-32 of each part of `NAME` with
//! so many bytes. All numbers are big-endian, with 4 bytes.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use byteorder::{BigEndian, ReadBytesExt, WriteBytesExt};

use super::{Version, changed, dir_of, follow_links, keep_owner, sync_dir};
use filterblock::internals::checksum::Crc32;

const MAGIC: &[u8; 4] = b"crc\0";
/// Hadoop reads the number of bytes as a signed number.
const PART_LEN_BYTES_MAX: u32 = i32::MAX.cast_unsigned();
const BUFFER_LEN_BYTES: usize = 1 << 16;

/// A checksum file that fits the file beside it, or that has no file beside it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Checksums {
    path: PathBuf,
    version: Version,
    part_len_bytes: u32,
}

impl Checksums {
    /// Reads the checksum file beside `path`, and compares the file `old` with it. Returns `None`
    /// if there is no checksum file. Also returns `None`, and adds a note, if it is a file of
    /// another kind.
    pub(super) fn beside(path: &Path, old: Option<&File>, notes: &mut Vec<String>) -> io::Result<Option<Self>> {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".crc");
        let path = follow_links(&path.with_file_name(name))?;
        let in_file = |error: io::Error| named(&path, &error);
        let is_file = match path.metadata() {
            Ok(found) => found.is_file(),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidFilename) => return Ok(None),
            Err(error) => return Err(in_file(error)),
        };
        let mut magic = Vec::new();
        let mut file = None;
        if is_file {
            let file = file.insert(File::open(&path).map_err(in_file)?);
            file.take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(in_file)?;
        }
        let Some(file) = file.filter(|_| magic == MAGIC) else {
            let note = format!("{}: not a checksum file of Hadoop, so it stays as it is", path.display());
            if !notes.contains(&note) {
                notes.push(note);
            }
            return Ok(None);
        };
        let mut sums = BufReader::with_capacity(BUFFER_LEN_BYTES, &file);
        let part_len_bytes = sums.read_u32::<BigEndian>().ok().filter(|len| (1..=PART_LEN_BYTES_MAX).contains(len));
        let part_len_bytes = part_len_bytes.ok_or_else(|| {
            damaged(&path, "the number of bytes per checksum at offset 4 is not from 1 to 2147483647")
        })?;
        if let Some(old) = old {
            let mut offset = 0u64;
            for_each_sum(old, part_len_bytes, |sum| {
                if sums.read_u32::<BigEndian>().map_err(|error| short(&path, &error))? != sum {
                    return Err(damaged(
                        &path,
                        format_args!(
                            "the {part_len_bytes} bytes at offset {offset} of the file beside it have another checksum"
                        ),
                    ));
                }
                offset += u64::from(part_len_bytes);
                Ok(())
            })?;
            if !sums.fill_buf().map_err(in_file)?.is_empty() {
                return Err(damaged(&path, "it has more checksums than the file beside it has parts"));
            }
        }
        let version = Version::of(&file).map_err(in_file)?;
        Ok(Some(Self { path, version, part_len_bytes }))
    }

    /// Removes the checksum file, and makes this durable.
    pub(super) fn remove(&self) -> io::Result<()> {
        if !self.version.is_at(&self.path) {
            return Err(named(&self.path, &changed(None)));
        }
        fs::remove_file(&self.path).and_then(|()| sync_dir(&self.path)).map_err(|error| named(&self.path, &error))
    }

    /// Writes the checksums of the file `new`, which has the name `beside`, and makes them durable.
    /// Another program's checksum file is not replaced, because it may belong to a newer file.
    pub(super) fn write(&self, new: &File, beside: &Path) -> io::Result<()> {
        let write = || {
            let mut builder = tempfile::Builder::new();
            let made = builder.prefix(".filterblock.").suffix(".tmp").tempfile_in(dir_of(&self.path))?;
            let mut out = BufWriter::with_capacity(BUFFER_LEN_BYTES, made.as_file());
            out.write_all(MAGIC)?;
            out.write_u32::<BigEndian>(self.part_len_bytes)?;
            for_each_sum(new, self.part_len_bytes, |sum| out.write_u32::<BigEndian>(sum))?;
            out.flush()?;
            drop(out);
            keep_owner(new, made.as_file())?;
            made.as_file().sync_all()?;
            made.persist_noclobber(&self.path).map_err(|refused| refused.error)?;
            // The checksums must not stay beside the file of another program.
            if !Version::of(new)?.is_at(beside) {
                fs::remove_file(&self.path)?;
            }
            sync_dir(&self.path)
        };
        write().map_err(|error| {
            let path = self.path.display();
            io::Error::other(format!("the file is written, but its checksum file {path} is not: {error}; Hadoop and Spark read the file without checksums"))
        })
    }
}

/// Passes the CRC-32 of each part of the file to `each`. The last part may be shorter.
fn for_each_sum(mut file: &File, part_len_bytes: u32, mut each: impl FnMut(u32) -> io::Result<()>) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let mut file = BufReader::with_capacity(BUFFER_LEN_BYTES, file);
    loop {
        let (mut sum, mut left) = (Crc32::new(), part_len_bytes as usize);
        while left > 0 {
            let bytes = file.fill_buf()?;
            if bytes.is_empty() {
                return if left < part_len_bytes as usize { each(sum.finish()) } else { Ok(()) };
            }
            let bytes = bytes.get(..left).unwrap_or(bytes);
            sum.update(bytes);
            let len = bytes.len();
            left -= len;
            file.consume(len);
        }
        each(sum.finish())?;
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

fn short(path: &Path, error: &io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof => damaged(path, "it has too few checksums for the file beside it"),
        _ => named(path, error),
    }
}

fn damaged(path: &Path, why: impl std::fmt::Display) -> io::Error {
    let path = path.display();
    let next = "restore both files, or if the file beside it is right, remove the checksum file";
    io::Error::new(
        ErrorKind::InvalidData,
        format!("{path}: the checksum file or the file beside it is damaged: {why}; {next}"),
    )
}
