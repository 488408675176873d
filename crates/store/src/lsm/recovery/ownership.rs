//! Determines which program wrote the files of a directory. It judges each file by its content,
//! never by its name alone.
//!
//! LevelDB, RocksDB and Pebble use the same names (`CURRENT`, `MANIFEST-000001`, `000002.log`,
//! `000003.sst`), and people may use them, too. A directory is a store only if one of its files
//! certainly is a file of this crate. A file that another program certainly wrote is never moved,
//! removed or replaced.

use std::path::Path;

use crc32c::crc32c;

use crate::checksum::Crc32;
use crate::codec::{u32_at, u64_from};
use crate::error::{Error, Result};
use crate::lsm::files::{CURRENT, CURRENT_TEMPORARY, FileName, is_missing, parse};
use crate::lsm::manifest::edit::VersionEdit;
use crate::lsm::manifest::{log_id, read_current};
use crate::lsm::wal::log_reader::{LogRecovery, read_log};
use crate::lsm::wal::{HEADER_LEN_BYTES, LogHeader, LogKind};
use crate::sstable::{FOOTER_LEN_BYTES, is_footer};
use crate::storage::{IoMode, ReadAt, Storage};

/// LevelDB and RocksDB cut their logs and manifests into blocks of this length, and a record never
/// crosses a block boundary.
const ENGINE_BLOCK_LEN_BYTES: usize = 32 << 10;

/// The value that LevelDB and RocksDB add to a rotated CRC-32C before they store it.
const ENGINE_CRC_MASK: u32 = 0xa282_ead8;

/// The last eight bytes of the SST files of other engines, as little-endian numbers, with a
/// description of each kind of file.
const ENGINE_MAGICS: [(u64, &str); 6] = [
    (0xdb47_7524_8b80_fb57, "an SST file of LevelDB or of an old RocksDB"),
    (0x88e2_41b7_85f4_cff7, "an SST file of RocksDB"),
    (0x8242_2296_63bf_9564, "a plain table of RocksDB"),
    (0x4f34_18eb_7a8f_13b8, "a plain table of an old RocksDB"),
    (0x9267_89d0_c5f1_7873, "a cuckoo table of RocksDB"),
    (0xb3aa_9ff0_b3aa_9ff0, "an SST file of Pebble"),
];

/// The first bytes of every `CURRENT`.
const CURRENT_PREFIX: &[u8] = b"MANIFEST-";

const TEXT: &str = "a text file";
const ENGINE_LOG: &str = "a log or manifest in the format of LevelDB and RocksDB";
const ENGINE_CURRENT: &str = "a CURRENT of LevelDB or RocksDB";
const LIKE_ENGINE_CURRENT: &str = "a file like the CURRENT of LevelDB or RocksDB";
const UNKNOWN: &str = "a damaged file of filterblock, or a file of an unknown program";
pub(crate) const OTHER_STORE: &str = "a log or manifest of another store or of a newer version";
const BLANK: &str = "a file that is empty, all zeros or cut short, so its content does not show who wrote it";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// A filterblock store: the file has the store's magic, or a checksum that proves its origin.
    Store,
    /// Another program; the text says what the file is.
    Other(&'static str),
    /// A damaged file of a store, or a file of a program that is not known here; the text says what
    /// it looks like.
    Unknown(&'static str),
    /// The file is empty, all zeros, only the beginning of a magic, or a `CURRENT.tmp` that begins
    /// like a `CURRENT`. A crash may leave a new file like this.
    Blank,
}

/// The result of [`Ownership::judge`]: which programs wrote the files of a directory that have the
/// names of a store's files.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    has_store: bool,
    /// The names of the files that other programs wrote, each with a description.
    pub(crate) others: Vec<(String, &'static str)>,
    unknown: Option<(String, &'static str)>,
    blank: Option<String>,
}

impl Ownership {
    /// Judges the files of `dir` that have the name of a store's file. A file that disappears
    /// meanwhile is not judged.
    pub(crate) fn judge(storage: &dyn Storage, dir: &Path) -> Result<Self> {
        let mut judged = Self::default();
        let names: Vec<(FileName, String)> =
            storage.list(dir)?.into_iter().filter_map(|name| Some((parse(&name)?, name))).collect();
        let (locks, files): (Vec<_>, Vec<_>) = names.into_iter().partition(|(file, _)| *file == FileName::Lock);
        judged.look_at(storage, dir, files)?;
        // An engine may be open in this process. Opening and closing its lock file would release
        // its `fcntl` lock. So the lock file is opened only if all other files are blank.
        if !judged.has_store && judged.others.is_empty() && judged.unknown.is_none() {
            judged.look_at(storage, dir, locks)?;
        }
        Ok(judged)
    }

    fn look_at(&mut self, storage: &dyn Storage, dir: &Path, files: Vec<(FileName, String)>) -> Result<()> {
        let judged = self;
        for (file, name) in files {
            let owner = match owner_of(storage, &dir.join(&name), file) {
                // A store that is open in another process may have removed the file meanwhile. Its
                // lock will show that.
                Err(error) if is_missing(&error) => continue,
                owner => owner?,
            };
            match owner {
                Owner::Store => judged.has_store = true,
                Owner::Other(what) => judged.others.push((name, what)),
                Owner::Unknown(what) => judged.unknown = judged.unknown.take().or(Some((name, what))),
                // Stores and other engines have empty lock files.
                Owner::Blank if file == FileName::Lock => {}
                Owner::Blank => judged.blank = judged.blank.take().or(Some(name)),
            }
        }
        Ok(())
    }

    /// Refuses a directory whose `CURRENT` or `CURRENT.tmp` another program certainly wrote. Also
    /// refuses a directory whose files have names of a store's files, if none of them certainly
    /// belongs to a store. A directory without such files passes, even with an empty lock file.
    pub(crate) fn require_store(&self, dir: &Path) -> Result<()> {
        // The store's new manifest would replace both files.
        let is_current = |(name, _): &&(String, &str)| [CURRENT, CURRENT_TEMPORARY].contains(&name.as_str());
        if let Some((name, what)) = self.others.iter().find(is_current) {
            return Err(foreign(dir, name, what));
        }
        if self.has_store {
            return Ok(());
        }
        self.require_nothing_foreign(dir)?;
        self.blank.as_ref().map_or(Ok(()), |name| Err(foreign(dir, name, BLANK)))
    }

    /// Refuses a directory with any file that belongs neither to a store nor to its interrupted creation.
    pub(crate) fn require_nothing_foreign(&self, dir: &Path) -> Result<()> {
        let first = self.others.first().or(self.unknown.as_ref());
        first.map_or(Ok(()), |(name, what)| Err(foreign(dir, name, what)))
    }
}

fn foreign(dir: &Path, name: &str, what: &'static str) -> Error {
    Error::ForeignFile { what }.in_file(&dir.join(name))
}

/// Refuses a `CURRENT` or `CURRENT.tmp` that another program certainly wrote, and an invalid
/// `CURRENT` in a directory without files of a store. A damaged `CURRENT` of a store passes.
pub(crate) fn check_current(storage: &dyn Storage, dir: &Path) -> Result<()> {
    match read_current(storage, dir) {
        Err(error) if error.is_damage() => return Ownership::judge(storage, dir)?.require_store(dir),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    // The store's next manifest would replace this file.
    let temporary = dir.join(CURRENT_TEMPORARY);
    if storage.exists(&temporary)?
        && let Owner::Other(what) = owner_of(storage, &temporary, FileName::Temporary)?
    {
        return Err(foreign(dir, CURRENT_TEMPORARY, what));
    }
    Ok(())
}

/// Returns the reason to keep an unneeded file in the directory of the store `store_id`: another
/// program wrote it, its content does not show which program wrote it, or it is a log or manifest
/// of another store. Returns `None` if the file may be removed: it is any other file of a store, is
/// blank, or is a temporary file of unknown origin.
pub(crate) fn reason_to_keep(
    storage: &dyn Storage,
    path: &Path,
    file: FileName,
    store_id: &[u8; 16],
) -> Result<Option<&'static str>> {
    Ok(match owner_of(storage, path, file)? {
        Owner::Store => is_of_another_store(storage, path, file, store_id)?.then_some(OTHER_STORE),
        Owner::Blank => None,
        Owner::Other(what) => Some(what),
        // An unfinished SST file has no footer to identify it.
        Owner::Unknown(what) => (file != FileName::Temporary).then_some(what),
    })
}

/// Returns whether a file is a log or manifest of another store than `store_id`. The checksum of
/// the header, or of the manifest's first record, must prove this. A manifest that this version
/// does not support counts as one of another store, so that it is kept.
pub(crate) fn is_of_another_store(
    storage: &dyn Storage,
    path: &Path,
    file: FileName,
    store_id: &[u8; 16],
) -> Result<bool> {
    let mut found = None;
    match file {
        FileName::Log(_) => {
            let head = head(storage.open(path, IoMode::Buffered)?.as_ref(), HEADER_LEN_BYTES)?;
            found = LogHeader::decode(&head).ok().map(|header| header.store_id);
        }
        FileName::Manifest(number) => {
            let end = read_log(storage, path, log_id(number), LogRecovery::Salvage, &mut |record| {
                // The visitor ignores the SSTs, so they need no memory.
                let edit = VersionEdit::decode_with(record.payload, record.payload_offset, &mut |_| Ok(()))?;
                found = found.or(edit.store_id);
                Ok(record.sequence.saturating_add(1))
            });
            match end {
                Ok(_) => {}
                // After damage, the records before it still name the store.
                Err(error) if error.is_damage() => {}
                Err(error) if matches!(error.root(), Error::Unsupported { .. }) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        _ => {}
    }
    Ok(found.is_some_and(|found| found != *store_id))
}

pub(crate) fn is_of_others(storage: &dyn Storage, path: &Path, file: FileName) -> Result<bool> {
    Ok(matches!(owner_of(storage, path, file)?, Owner::Other(_)))
}

fn owner_of(storage: &dyn Storage, path: &Path, name: FileName) -> Result<Owner> {
    let opened = storage.open(path, IoMode::Buffered)?;
    let file = opened.as_ref();
    match name {
        FileName::Log(_) | FileName::Manifest(_) => {
            let kind = if matches!(name, FileName::Log(_)) { LogKind::WriteAhead } else { LogKind::Manifest };
            let head = head(file, HEADER_LEN_BYTES)?;
            match () {
                () if is_log_header(kind, &head) => return Ok(Owner::Store),
                () if head.len() < kind.magic().len() && kind.magic().starts_with(&head) => return Ok(Owner::Blank),
                () if begins_with_engine_record(file)? => return Ok(Owner::Other(ENGINE_LOG)),
                () => {}
            }
        }
        FileName::Table(_) | FileName::Temporary => {
            let tail = tail(file)?;
            if tail.last_chunk().is_some_and(is_footer) {
                return Ok(Owner::Store);
            }
            let magic = tail.last_chunk().map(u64_from);
            if let Some((_, what)) = ENGINE_MAGICS.iter().find(|(known, _)| Some(*known) == magic) {
                return Ok(Owner::Other(what));
            }
            if path.ends_with(CURRENT_TEMPORARY)
                && CURRENT_PREFIX.starts_with(head(file, CURRENT_PREFIX.len())?.as_slice())
            {
                return Ok(Owner::Blank);
            }
        }
        FileName::Current => return owner_of_current(storage, path, file),
        FileName::Lock => return Ok(if file.is_empty() { Owner::Blank } else { Owner::Unknown(UNKNOWN) }),
    }
    Ok(match content(file)? {
        Content::Zeros => Owner::Blank,
        Content::Text => Owner::Other(TEXT),
        Content::Binary => Owner::Unknown(UNKNOWN),
    })
}

/// Returns which program wrote a `CURRENT`. A `CURRENT` of LevelDB or RocksDB consists of one line,
/// the name of the manifest. A truncated `CURRENT` of this crate can look the same. The manifest
/// that `CURRENT` names decides.
fn owner_of_current(storage: &dyn Storage, path: &Path, file: &dyn ReadAt) -> Result<Owner> {
    let dir = path.parent().unwrap_or(Path::new(""));
    match read_current(storage, dir) {
        Ok(_) => return Ok(Owner::Store),
        Err(error) if error.is_damage() => {}
        Err(error) => return Err(error),
    }
    let line = head(file, 64)?;
    let named = line.strip_suffix(b"\n").and_then(|name| std::str::from_utf8(name).ok());
    if let Some(name) = named
        && let Some(manifest @ FileName::Manifest(_)) = parse(name)
        && storage.exists(&dir.join(name))?
        && matches!(owner_of(storage, &dir.join(name), manifest)?, Owner::Other(_))
    {
        return Ok(Owner::Other(ENGINE_CURRENT));
    }
    Ok(match content(file)? {
        Content::Zeros => Owner::Blank,
        _ if named.is_some_and(|name| matches!(parse(name), Some(FileName::Manifest(_)))) => {
            Owner::Unknown(LIKE_ENGINE_CURRENT)
        }
        _ => Owner::Unknown(UNKNOWN),
    })
}

fn head(file: &dyn ReadAt, len_bytes: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.len()).map_or(len_bytes, |len| len.min(len_bytes))];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn tail(file: &dyn ReadAt) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.len()).map_or(FOOTER_LEN_BYTES, |len| len.min(FOOTER_LEN_BYTES))];
    let start = file.len().saturating_sub(FOOTER_LEN_BYTES as u64);
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// Returns whether `head` has the right magic. If the magic is damaged, returns whether the
/// checksum matches a header with the right magic.
fn is_log_header(kind: LogKind, head: &[u8]) -> bool {
    let magic = kind.magic();
    let rest = head.get(magic.len()..HEADER_LEN_BYTES - 4);
    let has_checksum = |rest| u32_at(head, HEADER_LEN_BYTES - 4) == Some(Crc32::new().with(magic).with(rest).finish());
    head.starts_with(magic) || rest.is_some_and(has_checksum)
}

/// Returns whether the file begins with a record of LevelDB or RocksDB. A LevelDB record consists
/// of a masked CRC-32C of type and payload (4 bytes), a length (2), a type (1) and the payload.
/// RocksDB also has records with a log number (4) after the type, which the checksum covers.
fn begins_with_engine_record(file: &dyn ReadAt) -> Result<bool> {
    let block = head(file, ENGINE_BLOCK_LEN_BYTES)?;
    let Some((header, _)) = block.split_first_chunk::<6>() else { return Ok(false) };
    let [.., low, high] = *header;
    let payload_len = usize::from(low) | usize::from(high) << 8;
    let stored = u32_at(header, 0);
    let holds = |covered_len: usize| {
        let covered = block.get(6..6 + covered_len);
        covered.is_some_and(|covered| Some(crc32c(covered).rotate_right(15).wrapping_add(ENGINE_CRC_MASK)) == stored)
    };
    Ok(holds(1 + payload_len) || holds(1 + 4 + payload_len))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// All zeros, or empty.
    Zeros,
    /// Text: the file has no control characters except white space, and its first 32 KiB are UTF-8.
    /// Logs, manifests and SSTs of a store contain other control characters.
    Text,
    Binary,
}

fn content(file: &dyn ReadAt) -> Result<Content> {
    let (mut is_zero, mut is_text) = (true, true);
    let mut chunk = vec![0; ENGINE_BLOCK_LEN_BYTES];
    let mut offset = 0;
    while offset < file.len() && (is_zero || is_text) {
        let rest = usize::try_from(file.len() - offset).unwrap_or(usize::MAX);
        chunk.truncate(rest);
        file.read_exact_at(&mut chunk, offset)?;
        is_zero &= chunk.iter().all(|&byte| byte == 0);
        is_text &= chunk.iter().all(|byte| !byte.is_ascii_control() || byte.is_ascii_whitespace());
        // A character may span two chunks, so a later chunk may begin within one.
        is_text &= std::str::from_utf8(&chunk).map_or_else(|error| error.error_len().is_none(), |_| true) || offset > 0;
        offset += chunk.len() as u64;
    }
    Ok(match (is_zero, is_text) {
        (true, _) => Content::Zeros,
        (false, true) => Content::Text,
        (false, false) => Content::Binary,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsm::files::{log_name, manifest_name, table_name};
    use crate::lsm::{Db, Options};
    use crate::storage::Memory;

    const DIR: &str = "/store";

    fn write(storage: &Memory, name: &str, content: &[u8]) {
        let path = Path::new(DIR).join(name);
        if storage.exists(&path).unwrap() {
            storage.remove(&path).unwrap();
        }
        storage.create(&path).unwrap().write_all(content).unwrap();
    }

    /// Judges a directory with one file.
    fn alone(name: &str, content: &[u8]) -> Ownership {
        let storage = Memory::new();
        storage.create_dir_all(Path::new(DIR)).unwrap();
        write(&storage, name, content);
        Ownership::judge(&storage, Path::new(DIR)).unwrap()
    }

    fn is_store(judged: &Ownership) -> bool {
        judged.require_store(Path::new(DIR)).is_ok()
    }

    /// Returns a closed store with an SST, and its files.
    fn store() -> (Memory, Vec<(String, Vec<u8>)>) {
        let storage = Memory::new();
        let db =
            Db::open(DIR, Options { storage: std::sync::Arc::new(storage.clone()), ..Options::default() }).unwrap();
        (0..100u32).for_each(|i| db.put(&i.to_le_bytes(), b"value").unwrap());
        db.flush().unwrap();
        db.put(b"key", b"in the log").unwrap();
        db.close().unwrap();
        let names = storage.list(Path::new(DIR)).unwrap();
        let read = |name: String| (name.clone(), storage.read(&Path::new(DIR).join(name)).unwrap());
        let files = names.into_iter().map(read).collect();
        (storage, files)
    }

    #[test]
    fn an_sst_log_or_manifest_shows_its_store_despite_a_bit_flip() {
        let (_, files) = store();
        let mut tried = 0;
        for (name, content) in files.iter().filter(|(name, _)| name != "LOCK" && name != "CURRENT") {
            assert!(is_store(&alone(name, content)), "{name}");
            let is_table = name.ends_with(".sst");
            let judged_by =
                if is_table { content.len() - FOOTER_LEN_BYTES..content.len() } else { 0..HEADER_LEN_BYTES };
            for bit in judged_by.start * 8..judged_by.end * 8 {
                let mut bad = content.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(is_store(&alone(name, &bad)), "{name}, bit {bit}");
                tried += 1;
            }
            // Without the footer or log header, nothing identifies the file.
            let mut bad = content.clone();
            bad[judged_by].fill(0xee);
            let judged = alone(name, &bad);
            assert!(!is_store(&judged) && judged.others.is_empty(), "{name}");
        }
        assert!(tried >= (FOOTER_LEN_BYTES + 2 * HEADER_LEN_BYTES) * 8, "{tried}");
    }

    #[test]
    fn a_store_is_recognized_while_one_file_is_known() {
        let (storage, files) = store();
        let judge = || Ownership::judge(&storage, Path::new(DIR)).unwrap();
        let (_, current) = files.iter().find(|(name, _)| name == CURRENT).unwrap();
        for cut in 0..current.len() {
            write(&storage, CURRENT, &current[..cut]);
            assert!(is_store(&judge()) && judge().others.is_empty(), "{cut}");
            check_current(&storage, Path::new(DIR)).unwrap();
        }
        // Once all files are zeros, none identifies the store or another program.
        for (name, content) in files.iter().filter(|(name, _)| name != "LOCK") {
            write(&storage, name, &vec![0; content.len()]);
            let is_last = files.iter().rfind(|(name, _)| name != "LOCK").unwrap().0 == *name;
            assert_eq!(is_store(&judge()), !is_last, "{name}");
        }
        assert!(judge().others.is_empty());
        judge().require_nothing_foreign(Path::new(DIR)).unwrap();
        let error = check_current(&storage, Path::new(DIR)).unwrap_err();
        assert!(matches!(error.root(), Error::ForeignFile { .. }), "{error}");
    }

    /// Returns a record of LevelDB or, with a log number, of RocksDB.
    fn engine_record(kind: u8, log_number: &[u8], payload: &[u8]) -> Vec<u8> {
        let covered = [&[kind], log_number, payload].concat();
        let checksum = crc32c(&covered).rotate_right(15).wrapping_add(ENGINE_CRC_MASK);
        let len = u16::try_from(payload.len()).unwrap();
        [&checksum.to_le_bytes()[..], &len.to_le_bytes(), &covered].concat()
    }

    #[test]
    fn logs_and_manifests_of_other_engines_are_recognized() {
        let payload = vec![7; ENGINE_BLOCK_LEN_BYTES - 7];
        let records = [
            engine_record(1, b"", b"payload"),
            engine_record(2, b"", &payload),
            engine_record(5, b"\x04\0\0\0", b"payload"),
            [engine_record(1, b"", b"payload"), vec![0; 100_000]].concat(),
        ];
        for (nth, record) in records.iter().enumerate() {
            for name in [log_name(4), manifest_name(4)] {
                assert_eq!(alone(&name, record).others, [(name.clone(), ENGINE_LOG)], "{nth}");
                assert!(alone(&name, &record[..record.len().min(12)]).others.is_empty());
                let mut bad = record.clone();
                bad[9] ^= 1;
                assert!(alone(&name, &bad).others.is_empty(), "{nth}");
                assert!(!is_store(&alone(&name, &bad)), "{nth}");
            }
        }
    }

    #[test]
    fn text_is_recognized_by_the_absence_of_control_characters() {
        let long = "a line of text, with an umlaut: \u{e4}\n".repeat(4_000);
        let is_text = |content: &[u8]| {
            let judged = alone(&log_name(4), content);
            assert!(!is_store(&judged));
            !judged.others.is_empty()
        };
        assert!(is_text(b"x") && is_text(long.as_bytes()) && is_text(&b"\tx\r\n"[..]));
        assert!(!is_text(&[long.as_bytes(), &[0]].concat()), "a zero after several blocks");
        assert!(!is_text(b"\xff\xfe") && !is_text(b"") && !is_text(&[0; 100_000]) && !is_text(b"a\x7f"));
        // A crash may leave only the beginning of a log's own magic.
        assert!(!is_text(b"fb-log"));
        alone(&log_name(4), b"fb-log").require_nothing_foreign(Path::new(DIR)).unwrap();
        assert!(is_text(b"fb-man") && is_text(b"fb-logbook"));
    }

    #[test]
    fn ssts_of_other_engines_are_recognized_by_their_last_bytes() {
        for (magic, what) in ENGINE_MAGICS {
            let content = [&[1; 60][..], &magic.to_le_bytes()].concat();
            let name = table_name(4);
            assert_eq!(alone(&name, &content).others, [(name, what)]);
        }
        assert!(alone(&table_name(4), &[1; 60]).others.is_empty());
    }
}
