//! Tests the functions that determine who wrote a file.

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
    let db = Db::open(DIR, Options { storage: std::sync::Arc::new(storage.clone()), ..Options::default() }).unwrap();
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
        let judged_by = if is_table { content.len() - FOOTER_LEN_BYTES..content.len() } else { 0..HEADER_LEN_BYTES };
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
