//! Tests of the checksum files `.NAME.crc` of Hadoop and Spark beside replaced files.

#![allow(clippy::big_endian_bytes, reason = "Hadoop's numbers are big-endian")]

use std::fs;

use crate::shell::Shell;

const ADD: [&str; 6] = ["parquet", "add", "a.parquet", "--column", "id", "--in-place"];
const CRC: &str = ".a.parquet.crc";

/// Returns the CRC-32 (IEEE 802.3) of the bytes, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// Returns the checksum file that Hadoop writes for these bytes.
fn checksums(bytes: &[u8], part_len: u32) -> Vec<u8> {
    let sums = bytes.chunks(part_len as usize).flat_map(|part| crc32(part).to_be_bytes());
    b"crc\0".iter().copied().chain(part_len.to_be_bytes()).chain(sums).collect()
}

/// Returns whether Hadoop reads the file: it has no checksum file, or the right one.
fn is_readable(shell: &Shell, name: &str) -> bool {
    let Ok(sums) = fs::read(shell.path(&format!(".{name}.crc"))) else { return true };
    let part_len = u32::from_be_bytes(sums[4..8].try_into().unwrap());
    sums == checksums(&fs::read(shell.path(name)).unwrap(), part_len)
}

fn shell(part_len: u32) -> Shell {
    let shell = Shell::new();
    let file = crate::parquet_add::parquet_file(false);
    shell.write(CRC, checksums(&file, part_len));
    shell.write("a.parquet", file);
    shell
}

#[test]
fn checksums_follow_a_replaced_file() {
    let file = crate::parquet_add::parquet_file(false);
    let len = u32::try_from(file.len()).unwrap();
    for part_len in [1, 511, 512, len - 1, len, len + 1, i32::MAX.cast_unsigned()] {
        let shell = shell(part_len);
        shell.run(&ADD).exits(0);
        assert!(fs::read(shell.path("a.parquet")).unwrap().len() > file.len());
        assert!(is_readable(&shell, "a.parquet"), "{part_len}");
        assert_eq!(shell.files(), [CRC, "a.parquet"]);
    }
}

#[test]
fn checksums_follow_outputs_with_and_without_an_old_file() {
    let shell = shell(512);
    let add = ["parquet", "add", "a.parquet", "--column", "id", "-o", "out/"];
    fs::create_dir(shell.path("out")).unwrap();
    // A checksum file that has outlived its file.
    shell.write("out/.a.parquet.crc", checksums(b"gone", 512));
    shell.run(&add).exits(0);
    assert!(is_readable(&shell, "out/../out/a.parquet") && shell.path("out/.a.parquet.crc").exists());
    let readable = || {
        let file = fs::read(shell.path("out/a.parquet")).unwrap();
        fs::read(shell.path("out/.a.parquet.crc")).unwrap() == checksums(&file, 512)
    };
    assert!(readable());
    shell.run(&[&add[..], &["--force", "--fpr", "0.5"]].concat()).exits(0);
    assert!(readable());
    // The input keeps its checksums.
    assert!(is_readable(&shell, "a.parquet"));
    // Other commands replace files too.
    shell.write("keys", "apple\n");
    shell.write("f", b"");
    shell.write(".f.crc", checksums(b"", 512));
    shell.run(&["build", "--force", "-o", "f", "keys"]).exits(0);
    assert!(is_readable(&shell, "f"));
}

#[test]
#[cfg(unix)]
fn checksums_of_a_link_and_its_target_follow_both() {
    let shell = shell(512);
    std::os::unix::fs::symlink("a.parquet", shell.path("link.parquet")).unwrap();
    fs::copy(shell.path(CRC), shell.path(".link.parquet.crc")).unwrap();
    shell.run(&["parquet", "add", "link.parquet", "--column", "id", "--in-place"]).exits(0);
    assert!(is_readable(&shell, "a.parquet") && is_readable(&shell, "link.parquet"));
    assert!(shell.path("link.parquet").is_symlink());
}

#[test]
fn a_file_that_differs_from_its_checksums_is_refused() {
    let file = crate::parquet_add::parquet_file(false);
    let sound = checksums(&file, 512);
    let mut wrong = sound.clone();
    *wrong.last_mut().unwrap() ^= 1;
    let cases: [(Vec<u8>, &str); 9] = [
        (wrong, "another checksum"),
        (sound[..sound.len() - 4].to_vec(), "too few"),
        (sound[..sound.len() - 1].to_vec(), "too few"),
        ([&sound[..], &[0; 4]].concat(), "more checksums"),
        (sound[..8].to_vec(), "too few"),
        (sound[..6].to_vec(), "offset 4"),
        (b"crc\0".to_vec(), "offset 4"),
        (b"crc\0\0\0\0\0".to_vec(), "offset 4"),
        (b"crc\0\xff\xff\xff\xff".to_vec(), "offset 4"),
    ];
    for (content, why) in cases {
        let shell = shell(512);
        shell.write(CRC, &content);
        shell.run(&ADD).fails_with(&[CRC, why, "remove the checksum file"]);
        assert_eq!(fs::read(shell.path("a.parquet")).unwrap(), file);
        assert_eq!(fs::read(shell.path(CRC)).unwrap(), content);
        assert_eq!(shell.files(), [CRC, "a.parquet"]);
    }
}

#[test]
fn other_files_of_this_name_are_left_alone_and_named() {
    for content in [&b""[..], b"crc", b"CRC\0\0\0\x02\0", b"some notes"] {
        let shell = shell(512);
        shell.write(CRC, content);
        let run = shell.run(&ADD);
        assert!(run.status == 0 && run.stderr.contains(".a.parquet.crc: not a checksum file of Hadoop"), "{run:?}");
        assert_eq!(fs::read(shell.path(CRC)).unwrap(), content);
    }
    let shell = shell(512);
    fs::remove_file(shell.path(CRC)).unwrap();
    fs::create_dir(shell.path(CRC)).unwrap();
    let run = shell.run(&ADD);
    assert!(run.status == 0 && run.stderr.contains("not a checksum file"), "{run:?}");
    assert!(shell.path(CRC).is_dir());
}

#[test]
fn a_run_that_writes_nothing_keeps_the_checksums() {
    let shell = shell(512);
    let before = fs::read(shell.path(CRC)).unwrap();
    shell.run(&["parquet", "add", "a.parquet", "--column", "id", "--dry-run"]).exits(0);
    shell.run(&["parquet", "add", "a.parquet", "--column", "no such", "--in-place"]).fails_with(&["no such"]);
    shell.run(&["parquet", "add", "a.parquet", "--fix-lengths", "--in-place"]).exits(0);
    assert_eq!(fs::read(shell.path(CRC)).unwrap(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn no_fault_leaves_wrong_checksums() {
    use crate::replaced_meanwhile::{STOP, calls_from_exchange, replace, strace};
    if !crate::interrupted::has_strace() {
        return;
    }
    let shell = || {
        let shell = Shell::new();
        shell.write("keys", "apple\npear\nplum\n");
        shell.run(&["build", "-o", "f", "keys"]).exits(0);
        shell.write(".f.crc", checksums(&fs::read(shell.path("f")).unwrap(), 16));
        shell
    };
    let build = ["build", "--force", "-o", "f", "--seed", "9", "keys"];
    let sound = shell();
    let (output, trace) = strace(&sound, &build, &[], || {});
    assert!(output.status.success() && is_readable(&sound, "f"), "{output:?}");
    // The checksum file is removed before the exchange.
    let is_removal = |line: &str| line.contains("unlink") && line.contains(".f.crc");
    let removal = trace.lines().position(is_removal).unwrap();
    assert!(removal < trace.lines().position(|line| line.contains("RENAME_EXCHANGE")).unwrap(), "{trace}");
    assert!(
        trace.lines().skip(removal + 1).take_while(|line| !line.contains("rename")).any(|line| line.contains("fsync"))
    );
    for (name, number) in calls_from_exchange(&trace, ".f.crc\"") {
        for what in ["signal=KILL", "error=EIO"] {
            let shell = shell();
            let fault = format!("inject={name}:{what}:when={number}");
            let (output, _) = strace(&shell, &build, &[&fault], || {});
            assert!(is_readable(&shell, "f"), "{fault}: {:?} {output:?}", shell.files());
        }
    }
    // Another program replaces the file and its checksums just before the exchange.
    let shell = shell();
    let (output, _) = strace(&shell, &build, &[STOP], || {
        replace(&shell, "f", b"newest");
        replace(&shell, ".f.crc", &checksums(b"newest", 512));
    });
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(is_readable(&shell, "f") && fs::read(shell.path("f")).unwrap() == b"newest");
    assert_eq!(fs::read(shell.path(".f.crc")).unwrap(), checksums(b"newest", 512));
}

#[test]
fn files_of_delta_and_iceberg_tables_are_named() {
    for (name, format) in [("_delta_log/0.json", "Delta"), ("metadata/v1.metadata.json", "Iceberg")] {
        let shell = Shell::new();
        fs::create_dir_all(shell.path("table/day=1")).unwrap();
        fs::create_dir_all(shell.path("table").join(name).parent().unwrap()).unwrap();
        shell.write(&format!("table/{name}"), "{}");
        for file in ["table/day=1/a.parquet", "table/day=1/b.parquet"] {
            shell.write(file, crate::parquet_add::parquet_file(false));
        }
        let run = shell.run(&["parquet", "add", "table", "--column", "id", "--in-place"]);
        let says = format!("this {format} table");
        assert!(run.status == 0 && run.stderr.matches(&says).count() == 1, "{run:?}");
        let run = shell.run(&["parquet", "add", "table/day=1/a.parquet", "--column", "id", "-o", "new.parquet"]);
        assert!(run.status == 0 && !run.stderr.contains(&says), "{run:?}");
    }
}
