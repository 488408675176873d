//! Tests the operations of a filter in a file. No crash, damage or failure may make it deny a
//! synced key.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use filterblock::HashSeed;
use filterblock_family::{Error, Field, FileFilter, Membership};
use filterblock_testkit::Random;

use crate::support::{created, dir, key};

const PAGE: usize = 512;

fn has(filter: &FileFilter, keys: std::ops::Range<u64>) -> bool {
    keys.into_iter().all(|i| filter.may_contain(&key(i)))
}

/// Reading a pipe waits for a writer. If the test hangs, a function opened or read the pipe.
#[test]
#[cfg(unix)]
fn a_pipe_is_refused() {
    let (dir, path) = dir();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let opened = [FileFilter::open(&path), FileFilter::open_read_only(&path)];
    for error in opened.map(|opened| opened.map(|_| ()).unwrap_err()) {
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a lock file was left");
}

#[test]
fn added_keys_are_present_after_reopening_the_file() {
    let (_dir, path) = dir();
    let filter = created(&path, 10_000);
    assert!(filter.is_empty() && filter.len().unwrap() == 0);
    assert_eq!(filter.extend((0..5_000).map(key)).unwrap(), filter.len().unwrap());
    assert!(!filter.insert(&key(17)).unwrap());
    let len = filter.len().unwrap();
    assert!((4_990..=5_000).contains(&len), "{len}");
    filter.sync().unwrap();
    filter.insert(&key(5_000)).unwrap();
    filter.close().unwrap();

    let read = FileFilter::open_read_only(&path).unwrap();
    assert!(has(&read, 0..5_001) && read.is_read_only() && !read.is_empty());
    assert!((len..=len + 1).contains(&read.len().unwrap()));
    assert_eq!((read.capacity(), read.false_positive_rate(), read.seed()), (10_000, 0.01, HashSeed(7)));
    assert_eq!((read.num_probes(), read.num_bits() / 10_000, read.damaged_pages()), (7, 9, 0));
    assert_eq!(read.path(), path);
    assert!(read.expected_fpr() < 0.01);
    for error in [
        read.insert(b"").unwrap_err(),
        read.sync().unwrap_err(),
        read.union_with(&read).unwrap_err(),
        read.extend([b""]).unwrap_err(),
    ] {
        assert!(matches!(error.root(), Error::ReadOnly), "{error}");
    }
    let mut read = read;
    assert!(matches!(read.clear().unwrap_err().root(), Error::ReadOnly));
    read.close().unwrap();
    // Dropping a filter syncs it too.
    let filter = FileFilter::open(&path).unwrap();
    filter.insert(b"dropped").unwrap();
    drop(filter);
    assert!(FileFilter::open_read_only(&path).unwrap().may_contain(b"dropped"));
}

#[test]
fn a_second_writer_is_refused_and_a_reader_is_not() {
    let (_dir, path) = dir();
    let mut filter = created(&path, 100);
    assert!(matches!(FileFilter::open(&path).unwrap_err().root(), Error::Locked));
    filter.clear().unwrap();
    assert!(matches!(FileFilter::open(&path).unwrap_err().root(), Error::Locked));
    assert!(FileFilter::open_read_only(&path).is_ok());
    drop(filter);
    assert!(FileFilter::open(&path).is_ok());
    // A file that exists cannot be created again.
    let error = FileFilter::create(&path, 100, 0.01, HashSeed(7)).unwrap_err();
    assert!(matches!(error.root(), Error::Io(error) if error.kind() == std::io::ErrorKind::AlreadyExists), "{error}");
    assert!(FileFilter::open(path.with_extension("none")).is_err());
}

/// Two writers of one file would lose each other's bits, even if they open the file by different
/// names.
#[cfg(unix)]
#[test]
fn a_link_to_a_file_is_locked_as_the_same_file() {
    let (dir, path) = dir();
    let filter = created(&path, 100);
    let linked = [dir.path().join("link"), dir.path().join("dir/filter")];
    std::os::unix::fs::symlink(&path, &linked[0]).unwrap();
    std::os::unix::fs::symlink(".", dir.path().join("dir")).unwrap();
    for link in &linked {
        assert!(matches!(FileFilter::open(link).unwrap_err().root(), Error::Locked), "{}", link.display());
        assert!(FileFilter::create(link, 100, 0.01, HashSeed(7)).is_err());
    }
    drop(filter);
    for (number, link) in (0..).zip(&linked) {
        let mut filter = FileFilter::open(link).unwrap();
        assert!(matches!(FileFilter::open(&path).unwrap_err().root(), Error::Locked));
        // `clear` replaces the file and keeps the link.
        filter.clear().unwrap();
        filter.insert(&key(number)).unwrap();
        filter.close().unwrap();
        assert!(linked[0].is_symlink() && has(&FileFilter::open_read_only(&path).unwrap(), number..number + 1));
    }
    // A dangling link is neither replaced nor followed.
    let nowhere = dir.path().join("nowhere");
    std::os::unix::fs::symlink(dir.path().join("gone"), &nowhere).unwrap();
    assert!(FileFilter::create(&nowhere, 100, 0.01, HashSeed(7)).is_err() && nowhere.is_symlink());
    assert!(FileFilter::open(&nowhere).is_err());
}

#[test]
fn copies_templates_and_texts_are_independent_filters() {
    let (dir, path) = dir();
    let filter = created(&path, 1_000);
    filter.extend((0..1_000).map(key)).unwrap();
    let copy = filter.copy(dir.path().join("copy")).unwrap();
    let template = filter.copy_template(dir.path().join("template")).unwrap();
    let text = filter.to_base64().unwrap();
    let from_text = FileFilter::from_base64(dir.path().join("text"), &text).unwrap();
    for other in [&copy, &from_text] {
        assert!(has(other, 0..1_000));
        assert_eq!((other.len().unwrap(), other.capacity()), (filter.len().unwrap(), 1_000));
    }
    assert!(template.is_empty() && template.num_bits() == filter.num_bits() && template.len().unwrap() == 0);
    copy.insert(b"more").unwrap();
    assert!(!filter.may_contain(b"more"));
    // Each digit of the text matters, and so does its length.
    let small = FileFilter::create(dir.path().join("small"), 10, 0.1, HashSeed(7)).unwrap();
    small.insert(b"a").unwrap();
    let text = small.to_base64().unwrap();
    let place = dir.path().join("other");
    for at in 0..text.len() {
        let digit = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
        let changed = [&text[..at], digit, &text[at + 1..]].concat();
        assert!(FileFilter::from_base64(&place, &changed).unwrap_err().is_damage(), "digit {at}");
        assert!(FileFilter::from_base64(&place, &text[..at]).is_err());
    }
}

#[test]
fn a_damaged_page_of_a_text_is_reported_at_its_offset() {
    let (dir, path) = dir();
    let text = created(&path, 10_000).to_base64().unwrap();
    assert!(text.len() > 3_000);
    for page in 1..4u64 {
        let at = (page as usize * 512 + 100) / 3 * 4;
        let digit = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
        let changed = [&text[..at], digit, &text[at + 1..]].concat();
        let error = FileFilter::from_base64(dir.path().join("other"), &changed).unwrap_err();
        assert!(
            matches!(error.root(), Error::Corrupt { field: Field::Page, offset } if *offset == page * 512),
            "page {page}: {error}"
        );
    }
}

#[test]
fn unions_and_intersections_keep_keys_and_make_len_unknown() {
    let (dir, path) = dir();
    let mut a = created(&path, 1_000);
    let b = a.copy_template(dir.path().join("b")).unwrap();
    a.extend((0..600).map(key)).unwrap();
    b.extend((400..1_000).map(key)).unwrap();
    b.union_with(&a).unwrap();
    assert!(has(&b, 0..1_000));
    let unknown = |filter: &FileFilter| matches!(filter.len().unwrap_err().root(), Error::LengthUnknown { .. });
    assert!(unknown(&b) && !unknown_or_zero(&a));
    b.close().unwrap();
    let b = FileFilter::open(dir.path().join("b")).unwrap();
    assert!(has(&b, 0..1_000) && unknown(&b));
    let c = a.copy_template(dir.path().join("c")).unwrap();
    c.extend((400..1_000).map(key)).unwrap();
    a.intersect_with(&c).unwrap();
    assert!(has(&a, 400..600) && unknown(&a));
    assert!((0..400).chain(600..1_000).filter(|&i| a.may_contain(&key(i))).count() < 200);
    assert!(unknown(&a.copy(dir.path().join("d")).unwrap()));
    drop(a);
    let mut a = FileFilter::open(&path).unwrap();
    assert!(has(&a, 400..600) && unknown(&a));
    a.clear().unwrap();
    assert!(a.is_empty() && a.len().unwrap() == 0);
    a.insert(b"new").unwrap();
    drop(a);
    let a = FileFilter::open(&path).unwrap();
    assert!(a.may_contain(b"new") && a.len().unwrap() == 1);
    // A different seed or shape is refused.
    for (name, capacity, seed) in [("e", 1_000, 8), ("f", 2_000, 7)] {
        let mut other = FileFilter::create(dir.path().join(name), capacity, 0.01, HashSeed(seed)).unwrap();
        assert!(matches!(other.union_with(&a).unwrap_err(), Error::Unlike { .. }));
        assert!(matches!(other.intersect_with(&a).unwrap_err(), Error::Unlike { .. }));
        assert!(other.len().unwrap() == 0);
    }
}

fn unknown_or_zero(filter: &FileFilter) -> bool {
    filter.len().map_or(true, |len| len == 0)
}

/// Writes `image` to a file in `dir` and opens the file for reading.
fn opened(dir: &Path, image: &[u8]) -> Result<FileFilter, Error> {
    let path = dir.join("image");
    fs::write(&path, image).unwrap();
    FileFilter::open_read_only(path)
}

/// A crash during a sync may leave any mix of old and new sectors.
#[test]
fn a_sync_torn_between_sectors_loses_and_damages_nothing() {
    let (dir, path) = dir();
    let filter = created(&path, 20_000);
    filter.extend((0..4_000).map(key)).unwrap();
    filter.sync().unwrap();
    let before = fs::read(&path).unwrap();
    filter.extend((4_000..4_030).map(key)).unwrap();
    filter.sync().unwrap();
    let after = fs::read(&path).unwrap();
    let changed: Vec<usize> = (0..before.len() / PAGE).filter(|i| page(&before, *i) != page(&after, *i)).collect();
    assert!(changed.len() > 20 && changed[0] == 1, "{changed:?}");
    let mut random = Random(5);
    let cuts = (0..=changed.len()).map(|cut| (0..changed.len()).map(|i| i < cut).collect::<Vec<_>>());
    let mixes = (0..300).map(|_| changed.iter().map(|_| random.below(2) == 1).collect());
    for taken in cuts.chain(mixes) {
        let mut image = before.clone();
        for (&page, _) in changed.iter().zip(&taken).filter(|(_, taken)| **taken) {
            let bytes = page * PAGE..(page + 1) * PAGE;
            image[bytes.clone()].copy_from_slice(&after[bytes]);
        }
        let found = opened(dir.path(), &image).unwrap();
        assert!(has(&found, 0..4_000) && found.damaged_pages() == 0 && found.len().is_ok(), "{taken:?}");
        assert!(taken.iter().any(|taken| !taken) || has(&found, 0..4_030));
    }
}

fn page(file: &[u8], number: usize) -> &[u8] {
    &file[number * PAGE..(number + 1) * PAGE]
}

/// A crash may tear a sector or leave arbitrary bytes in it.
#[test]
fn a_torn_page_answers_maybe_and_is_counted() {
    let (dir, path) = dir();
    let filter = created(&path, 2_000);
    filter.extend((0..300).map(key)).unwrap();
    filter.sync().unwrap();
    let before = fs::read(&path).unwrap();
    filter.extend((300..600).map(key)).unwrap();
    filter.sync().unwrap();
    let after = fs::read(&path).unwrap();
    let mut damaged = 0;
    for cut in (PAGE..before.len()).step_by(7) {
        let image = [&after[..cut], &before[cut..]].concat();
        let found = opened(dir.path(), &image).unwrap();
        assert!(has(&found, 0..300), "cut at {cut}");
        assert!(found.damaged_pages() <= 1);
        if found.damaged_pages() > 0 {
            damaged += 1;
            assert!(matches!(found.len().unwrap_err().root(), Error::LengthUnknown { .. }));
        }
    }
    assert!(damaged > 300, "{damaged}");
    // Each page of bits is replaced by zeros, ones, or a page of another position or file.
    let other = created(&dir.path().join("other"), 2_000);
    other.close().unwrap();
    let other = fs::read(dir.path().join("other")).unwrap();
    for number in 2..after.len() / PAGE {
        for wrong in [&[0; PAGE][..], &[0xff; PAGE], page(&after, 1), page(&after, number - 1), page(&other, number)] {
            let image = [&after[..number * PAGE], wrong, &after[(number + 1) * PAGE..]].concat();
            let found = opened(dir.path(), &image).unwrap();
            assert!(has(&found, 0..600) && found.damaged_pages() == 1, "page {number}");
        }
    }
}

#[test]
fn a_damaged_file_stays_usable_and_a_clear_repairs_it() {
    let (_dir, path) = dir();
    let filter = created(&path, 10_000);
    filter.extend((0..5_000).map(key)).unwrap();
    filter.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[7 * PAGE] ^= 1;
    fs::write(&path, &bytes).unwrap();
    // The next keys have bits in the damaged page, so a close writes the page anew, with all bits
    // set. The number of keys stays unknown.
    let ones = FileFilter::open_read_only(&path).unwrap().to_bloom().unwrap().count_ones();
    for (round, damaged_pages) in [(0, 1), (1, 0)] {
        let filter = FileFilter::open(&path).unwrap();
        assert!(filter.damaged_pages() == damaged_pages && filter.len().is_err());
        assert!(filter.to_bloom().unwrap().count_ones() >= ones);
        filter.extend((5_000 + round * 100..5_100 + round * 100).map(key)).unwrap();
        filter.close().unwrap();
        assert!(has(&FileFilter::open_read_only(&path).unwrap(), 0..5_100 + round * 100));
    }
    let mut filter = FileFilter::open(&path).unwrap();
    let copy = filter.copy(path.with_extension("copy")).unwrap();
    assert!(copy.len().is_err() && has(&copy, 0..5_200));
    filter.clear().unwrap();
    assert!(filter.damaged_pages() == 0 && filter.len().unwrap() == 0);
    drop(filter);
    assert_eq!(FileFilter::open(&path).unwrap().damaged_pages(), 0);
}

#[test]
fn a_header_of_a_newer_version_is_unsupported() {
    let (dir, path) = dir();
    created(&path, 300).close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    // A newer version may have another checksum, so the checksum does not fit version 1.
    bytes[8] += 1;
    bytes[PAGE - 1] ^= 1;
    assert!(opened(dir.path(), &bytes).unwrap_err().is_unsupported());
}

#[test]
fn every_truncation_and_flipped_bit_is_an_error_or_maybe() {
    let (dir, path) = dir();
    let filter = created(&path, 300);
    filter.extend((0..300).map(key)).unwrap();
    filter.close().unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 3 * PAGE);
    for len in 0..bytes.len() {
        assert!(opened(dir.path(), &bytes[..len]).unwrap_err().is_damage(), "{len} bytes");
    }
    assert!(opened(dir.path(), &[&bytes[..], &[0]].concat()).unwrap_err().is_damage());
    // Flip the bits in place, because writing a new file for each bit would be slow.
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut put = |at: usize, byte: u8| {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    for bit in 0..bytes.len() * 8 {
        put(bit / 8, bytes[bit / 8] ^ 1 << (bit % 8));
        let found = FileFilter::open_read_only(&path);
        put(bit / 8, bytes[bit / 8]);
        match found {
            // A flipped version number is damage, too, because the checksum still fits version 1.
            Err(error) => assert!(error.is_damage() && bit < PAGE * 8, "bit {bit}: {error}"),
            Ok(found) => {
                assert!(bit >= PAGE * 8, "bit {bit}");
                assert!(has(&found, 0..300) && found.len().is_err(), "bit {bit}");
                assert_eq!(found.damaged_pages(), 1, "bit {bit}");
            }
        }
    }
}

/// A crash may leave a temporary file behind.
#[test]
fn an_incomplete_replacement_changes_nothing() {
    let (dir, path) = dir();
    let filter = created(&path, 1_000);
    filter.extend((0..1_000).map(key)).unwrap();
    filter.close().unwrap();
    let left = dir.path().join(".filterblock-a1B2c3.tmp");
    for bytes in [&b""[..], b"half a header", &[0; 5_000]] {
        fs::write(&left, bytes).unwrap();
        let mut filter = FileFilter::open(&path).unwrap();
        assert!(has(&filter, 0..1_000));
        let same = filter.copy(path.with_extension("same")).unwrap();
        filter.intersect_with(&same).unwrap();
        drop(filter);
        assert!(has(&FileFilter::open(&path).unwrap(), 0..1_000) && fs::read(&left).unwrap() == bytes);
        fs::remove_file(path.with_extension("same")).unwrap();
    }
}

/// Each thread finds its key in the file when its own sync returns, even if another thread wrote
/// the page.
#[test]
fn threads_that_insert_and_sync_find_their_keys_in_the_file() {
    let (_dir, path) = dir();
    // The filter has few bits, so keys share pages and bits.
    let filter = FileFilter::create(&path, 2_000, 0.1, HashSeed(7)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (filter, path) = (&filter, &path);
            scope.spawn(move || {
                for i in 0..100u64 {
                    let own = key(i * 4 + thread);
                    filter.insert(&own).unwrap();
                    filter.insert(&key(1_000_000 + i)).unwrap();
                    filter.sync().unwrap();
                    let found = FileFilter::open_read_only(path).unwrap();
                    assert!(found.may_contain(&own) && found.may_contain(&key(1_000_000 + i)));
                }
            });
        }
    });
    let counted = filter.len().unwrap();
    filter.close().unwrap();
    assert_eq!(FileFilter::open(&path).unwrap().len().unwrap(), counted);
}
