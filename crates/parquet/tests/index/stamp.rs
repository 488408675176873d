//! Tests of the stamps by which an index notices changed files.

use std::fs::File;
use std::time::{Duration, SystemTime};

use filterblock_parquet::index::{Difference, Stamp, TAIL_LEN_BYTES};

/// Opening a pipe waits for a writer. If the test hangs, the function opened the pipe.
#[test]
#[cfg(unix)]
fn a_pipe_has_no_stamp() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(Stamp::of(&path).unwrap_err().to_string().contains("not a regular file"));
    let found = path.metadata().unwrap();
    let time = found.modified().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let stamp = Stamp {
        len_bytes: found.len(),
        modified_seconds: time.as_secs().try_into().unwrap(),
        modified_nanos: time.subsec_nanos(),
        tail_checksum: 0,
    };
    assert!(matches!(stamp.difference(&path, true), Some(Difference::Unreadable(_))));
}

#[test]
fn a_stamp_detects_size_time_and_last_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000, 500_000_000);
    let write = |content: &[u8], time| {
        std::fs::write(&path, content).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    let content = vec![7; 10_000];
    write(&content, time);
    let stamp = Stamp::of(&path).unwrap();
    assert_eq!((stamp.modified_seconds, stamp.modified_nanos), (1_000, 500_000_000));
    assert_eq!(stamp.difference(&path, true), None);
    write(&[7; 10_001], time);
    assert_eq!(stamp.difference(&path, false), Some(Difference::Size));
    write(&content, time + Duration::from_millis(1));
    assert_eq!(stamp.difference(&path, false), Some(Difference::ModificationTime));
    for changed in [9_999, 10_000 - TAIL_LEN_BYTES as usize] {
        let mut other = content.clone();
        other[changed] = 8;
        write(&other, time);
        assert_eq!(stamp.difference(&path, false), None);
        assert_eq!(stamp.difference(&path, true), Some(Difference::LastBytes));
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(stamp.difference(&path, true), Some(Difference::Missing));
}

#[test]
fn the_stamp_of_a_parquet_file_covers_its_metadata() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
    for metadata_len in [100, 5_000, 150_000] {
        for magic in [b"PAR1", b"PARE"] {
            let write = |changed: Option<usize>| {
                let mut content = vec![7; 200_000];
                content.extend_from_slice(&u32::try_from(metadata_len).unwrap().to_le_bytes());
                content.extend_from_slice(magic);
                changed.into_iter().for_each(|at| content[at] = 8);
                std::fs::write(&path, content).unwrap();
                File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            };
            write(None);
            let stamp = Stamp::of(&path).unwrap();
            for (changed, is_seen) in
                [(200_000 - metadata_len, true), (199_999, true), (200_000 - metadata_len.max(4_088) - 1, false)]
            {
                write(Some(changed));
                let found = stamp.difference(&path, true);
                assert_eq!(found, is_seen.then_some(Difference::LastBytes), "{metadata_len} {changed}");
            }
        }
    }
    // If the length of the metadata exceeds the file, the checksum covers the whole file.
    std::fs::write(&path, b"abc\xff\xff\xff\xffPAR1").unwrap();
    let stamp = Stamp::of(&path).unwrap();
    assert_eq!(stamp.tail_checksum, crc32fast::hash(b"abc\xff\xff\xff\xffPAR1"));
}

#[test]
fn times_before_1970_round_down() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, b"").unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH - Duration::new(3, 250_000_000)).unwrap();
    let stamp = Stamp::of(&path).unwrap();
    assert_eq!((stamp.modified_seconds, stamp.modified_nanos), (-4, 750_000_000));
    assert_eq!(stamp.difference(&path, true), None);
}
