//! Tests filter blocks in memory maps.

use std::fs::{self, File};

use filterblock::{AlignedBytes, Error, FilterBlock, Mapped, Populate, Verify};
use filterblock_testkit::blocks::{self, BOTH};

fn block() -> Vec<u8> {
    blocks::block("blocked-bloom:10", 20_000)
}

#[test]
fn a_mapped_block_answers_like_a_block_on_the_heap() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    let bytes = block();
    fs::write(&path, &bytes).unwrap();
    let heap = FilterBlock::open_any(bytes.as_slice(), Verify::AtOpen).unwrap();
    for verify in BOTH {
        let mapped = FilterBlock::open_any(Mapped::open(&path).unwrap(), verify).unwrap();
        for hash in (0..60_000).map(blocks::hash) {
            assert_eq!(mapped.may_contain_hash(hash), heap.may_contain_hash(hash), "{hash:?}");
        }
    }
    for len in [0, 1, 59, 60, 61, bytes.len() - 1] {
        fs::write(&path, bytes.get(..len).unwrap()).unwrap();
        let error = FilterBlock::open_any(Mapped::open(&path).unwrap(), Verify::AtOpen).unwrap_err();
        assert!(error.is_damage(), "{len} bytes: {error}");
    }
}

/// Opening a pipe for reading waits for a writer. If the test hangs, a function opened the pipe.
#[test]
#[cfg(unix)]
fn pipes_devices_and_directories_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    for path in [pipe.as_path(), &link, dir.path(), std::path::Path::new("/dev/zero")] {
        let opened = Mapped::open(path).map(|_| ());
        for error in [opened.unwrap_err(), AlignedBytes::read(path).map(|_| ()).unwrap_err()] {
            let text = error.to_string();
            assert!(matches!(error.root(), Error::Io(_)) && text.contains("not a regular file"), "{text}");
            assert!(text.contains(path.to_str().unwrap()), "{text}");
        }
    }
    let device = File::open("/dev/zero").unwrap();
    assert!(matches!(Mapped::region(&device, 0, 0, Populate::No), Err(Error::Io(_))));
}

#[test]
fn a_region_beyond_the_end_of_its_file_is_an_error() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(3 * 4096 - 1).unwrap();
    for populate in [Populate::Yes, Populate::No] {
        assert_eq!(Mapped::region(&file, 4096, 4096, populate).unwrap().as_ref().len(), 4096);
        assert_eq!(Mapped::region(&file, 4096, 0, populate).unwrap().as_ref(), b"");
        for (offset, len) in [(4096, 2 * 4096), (2 * 4096, 4096), (1 << 40, 1), (u64::MAX - 4095, 4096)] {
            let error = Mapped::region(&file, offset, len, populate).unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{offset} {len}: {error}");
        }
    }
}

#[test]
fn errors_name_the_path_and_a_map_survives_a_rename() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().join("missing"), dir.path().to_path_buf()] {
        let error = Mapped::open(&path).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    // Renaming another file over the mapped file does not change the mapped bytes.
    let path = dir.path().join("filter");
    fs::write(&path, block()).unwrap();
    let mapped = FilterBlock::open_any(Mapped::open(&path).unwrap(), Verify::AtOpen).unwrap();
    fs::write(dir.path().join("other"), b"short").unwrap();
    fs::rename(dir.path().join("other"), &path).unwrap();
    assert!(mapped.may_contain_hash(blocks::hash(7)) && mapped.verify_pages().is_ok());
    assert_eq!(File::open(&path).unwrap().metadata().unwrap().len(), 5);
}
