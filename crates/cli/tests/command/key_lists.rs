//! Tests that a list of lines is really a list of lines: files of other formats are refused, and
//! bytes that rarely belong to a line are named.

use std::fs;
use std::io::Write;

use crate::repository;
use crate::shell::{Run, Shell};

const BINARY: [u8; 40] = [0xa5; 40];

fn golden(name: &str) -> Vec<u8> {
    fs::read(repository("tests/golden").join(name)).unwrap()
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Makes a shell with a filter, an index and a store, and a file of each format that no list has.
/// Returns the name of each such file, and a part of the message about it.
fn shell() -> (Shell, Vec<(&'static str, &'static str)>) {
    let shell = Shell::new();
    shell.write("keys", "apple\npear\n");
    shell.run(&["build", "-o", "block", "keys"]).exits(0);
    shell.run(&["index", "build", "-o", "index", "--key-file", "keys"]).exits(0);
    shell.run_with(&["db", "load", "store"], b"apple\tred\n").exits(0);
    shell.write("sst", fs::read(shell.find("store", ".sst")).unwrap());
    shell.write("log", joined(&[b"fb-log\r\n", &BINARY]));
    let filter =
        filterblock_family::FileFilter::create(shell.path("file-filter"), 100, 0.01, filterblock::HashSeed(1)).unwrap();
    filter.insert(b"apple").unwrap();
    filter.close().unwrap();
    shell.write("leveldb", golden("foreign/leveldb/tbl-n100.ldb"));
    shell.write("rocksdb", golden("foreign/rocksdb-9.8.4/fv6-bloom-n100.sst"));
    shell.write("parquet", golden("foreign/parquet/ids.parquet"));
    for (name, front, back) in [
        ("encrypted", &b"PARE"[..], &b"PARE"[..]),
        ("pebble", b"", b"\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3"),
        ("plain", b"", b"\x64\x95\xbf\x63\x96\x22\x42\x82"),
        ("cuckoo", b"", b"\x73\x78\xf1\xc5\xd0\x89\x67\x92"),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03", b""),
        ("zstd", b"\x28\xb5\x2f\xfd\x24", b""),
        ("xz", b"\xfd7zXZ\0\0\x04", b""),
        ("lz4", b"\x04\x22\x4d\x18\x64", b""),
        ("bzip2", b"BZh91AY&SY", b""),
        ("bzip2-empty", b"BZh9\x17rE8P\x90", b""),
        ("zip", b"PK\x03\x04\x14\0\0\0\x08\0", b""),
        ("zip-empty", b"PK\x05\x06\0\0\0\0", b""),
        ("sqlite", b"SQLite format 3\0", b""),
        ("orc", b"ORC", b"ORC\x17"),
        ("avro", b"Obj\x01\x04\x14avro.codec", b""),
        ("arrow", b"ARROW1\0\0", b"ARROW1"),
    ] {
        shell.write(name, joined(&[front, &BINARY, back]));
    }
    shell.write("utf16", "k1\nk2\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
    shell.write("utf16-be", "k1\nk2\n".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>());
    shell.write("utf16-mixed", "a\u{142}b\nfoo bar\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
    shell.write(
        "utf16-mark",
        joined(&[b"\xff\xfe", "Łódź\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>().as_slice()]),
    );
    let utf32: Vec<u8> = "k1\n\u{1f511}\n".chars().flat_map(|char| u32::from(char).to_le_bytes()).collect();
    shell.write("utf32-mark", joined(&[b"\xff\xfe\0\0", &utf32]));
    shell.write("utf32", utf32);
    let formats = vec![
        ("block", "\"filterblock query\""),
        ("sst", "\"filterblock index build\""),
        ("log", "\"filterblock db scan\""),
        ("index", "\"filterblock index query\""),
        ("file-filter", "\"filterblock query\""),
        ("leveldb", "\"filterblock convert\""),
        ("rocksdb", "\"filterblock convert\""),
        ("parquet", "\"filterblock index build --column NAME\""),
        ("encrypted", "a Parquet file"),
        ("pebble", "a Pebble table"),
        ("plain", "a plain table of RocksDB"),
        ("cuckoo", "a cuckoo table of RocksDB"),
        ("gzip", "gzip -dc"),
        ("zstd", "zstd -dc"),
        ("xz", "xz -dc"),
        ("lz4", "lz4 -dc"),
        ("bzip2", "bzip2 -dc"),
        ("bzip2-empty", "bzip2 -dc"),
        ("zip", "unzip -p"),
        ("zip-empty", "unzip -p"),
        ("sqlite", "an SQLite database"),
        ("orc", "an ORC file"),
        ("avro", "an Avro file"),
        ("arrow", "an Arrow file"),
        ("utf16", "text in UTF-16"),
        ("utf16-be", "text in UTF-16"),
        ("utf16-mark", "text in UTF-16"),
        ("utf16-mixed", "text in UTF-16"),
        ("utf32", "text in UTF-32"),
        ("utf32-mark", "text in UTF-32"),
    ];
    (shell, formats)
}

/// Runs the command with a pipe as stdin that gets one byte per write.
fn run_bytewise(shell: &Shell, arguments: &[&str], input: &[u8]) -> Run {
    let mut child = shell.spawn(arguments);
    let mut stdin = child.stdin.take().unwrap();
    for byte in input {
        // The write fails if the command has ended.
        if stdin.write_all(&[*byte]).is_err() {
            break;
        }
    }
    drop(stdin);
    Run::new(child.wait_with_output().unwrap())
}

#[test]
fn a_file_of_another_format_is_not_a_list_of_keys() {
    let (shell, formats) = shell();
    let before = fs::read(shell.path("block")).unwrap();
    for (name, advice) in formats {
        let content = fs::read(shell.path(name)).unwrap();
        let commands: [&[&str]; 8] = [
            &["build", "-o", "new", name],
            &["build", "-o", "block", "--force", name],
            &["build", "-o", "new", "--delimiter", "nul", name],
            &["index", "build", "-o", "new", "--key-file", name],
            &["index", "add", "index", "--key-file", name],
            &["db", "load", "new", name],
            &["verify", "block", "--against", name],
            &["db", "get", "store", "--keys", name, "--count"],
        ];
        for arguments in commands {
            let is_known = !name.starts_with("utf") || !arguments.contains(&"nul");
            // A command refuses to replace its input with another message.
            if is_known && arguments.iter().filter(|argument| **argument == name).count() == 1 {
                shell.run(arguments).fails_with(&["not a list of lines", advice, "--any-bytes"]);
            }
        }
        for arguments in [&["build", "-o", "new", "-"][..], &["db", "load", "new", "-"]] {
            run_bytewise(&shell, arguments, &content).fails_with(&["standard input: this is", advice]);
        }
        for arguments in [&["query", "block", "--keys", name][..], &["index", "query", "index", "--keys", name]] {
            let run = shell.run(arguments);
            assert!(run.status == 2 && run.stderr.contains(advice), "{arguments:?}: {run:?}");
        }
        assert!(!shell.path("new").exists(), "{name}");
    }
    assert_eq!(fs::read(shell.path("block")).unwrap(), before);
    let mut dump = shell.run(&["db", "scan", "store"]).exits(0);
    dump.retain(|byte| byte != '\t');
    assert_eq!(dump, "applered\n");
}

#[test]
fn a_long_pipe_of_another_format_is_not_stored() {
    // The end of the input is far from the first batch of pairs.
    let (shell, _) = shell();
    let lines = "\u{1}key\tvalue\n".repeat(20_000);
    let content = joined(&[lines.as_bytes(), b"\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3"]);
    for arguments in [&["db", "load", "new"][..], &["build", "-o", "new"], &["build", "-o", "-"]] {
        shell.run_with(arguments, &content).fails_with(&["a Pebble table"]);
    }
    assert!(!shell.path("new").exists());
    let loaded = shell.run_with(&["db", "load", "new"], lines.as_bytes());
    assert!(loaded.stderr.contains("20,000 pairs stored"), "{loaded:?}");
}

#[test]
fn any_bytes_builds_from_a_file_of_any_format() {
    let (shell, formats) = shell();
    for (name, _) in formats {
        for arguments in [
            &["build", "-o", "new", "--force", "--any-bytes", name][..],
            &["index", "build", "-o", "new-index", "--force", "--any-bytes", "--key-file", name],
            &["db", "load", "new-store", "--any-bytes", name],
        ] {
            shell.run(arguments).exits(0);
        }
        shell.run(&["verify", "new", "--against", name, "--any-bytes"]).exits(0);
    }
}

#[test]
fn a_list_that_begins_or_ends_like_another_format_is_taken() {
    let shell = Shell::new();
    for list in [
        &b"PAR1\napple\n"[..],
        b"PAR1\napple\nPAR1",
        b"PAR1",
        b"PAR1\nZ\xfcrich\nPAR1",
        b"PARE\nPARE",
        b"PK\nPK\x03\n",
        b"PK\x03\x04\napple\npear\n",
        b"BZh91AY&SY\napple\n",
        b"BZh\n",
        b"\x1f\x8b\x08\napple\npear\n",
        b"\x1f\x8b\n",
        b"\x28\xb5\x2f\xfd\napple\n",
        b"\x04\x22\x4d\x18\napple\n",
        b"\xfd7zXZ\0\napple\n",
        b"ORC\napple\nORC\n",
        b"Obj\x01\napple\n",
        b"ARROW1\napple\nARROW1",
        b"SQLite format 3\napple\n",
        "apple\n🪳🪳".as_bytes(),
        b"\x89FLB\napple\n",
        b"\x89FLB",
        b"a",
        b"ab\0\ncd\0\n",
        b"\n\n",
        b"",
    ] {
        let lines = list.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        let built = shell.run_with(&["build", "-o", "new", "--force", "--allow-empty", "--json"], list);
        assert!(built.status == 0, "{list:?}: {built:?}");
        assert_eq!(built.json(0)["keys_read"], lines, "{list:?}");
        shell.write("list", list);
        shell.run(&["db", "load", "store", "list"]).exits(0);
        shell.run(&["verify", "new", "--against", "list"]).exits(0);
    }
}

#[test]
fn line_ends_are_removed_and_other_bytes_are_kept() {
    let (shell, _) = shell();
    let asked = shell.run_with(&["query", "block", "--json", "--keys", "-"], b"a\r\nb\rc\n\n\xff\0 \nlast").exits(1);
    let keys: Vec<&str> = asked.lines().map(|line| line.split_once(",").unwrap().1).collect();
    assert_eq!(keys, [r#""key":"a"}"#, r#""key":"b\rc"}"#, r#""key_hex":"ff0020"}"#, r#""key":"last"}"#]);
    let asked =
        shell.run_with(&["query", "block", "--json", "--delimiter", "nul", "--keys", "-"], b"a\r\n\0\0b").exits(1);
    let keys: Vec<&str> = asked.lines().map(|line| line.split_once(",").unwrap().1).collect();
    assert_eq!(keys, [r#""key":"a\r\n"}"#, r#""key":"b"}"#]);
    let built = shell.run_with(&["build", "-o", "kept", "--keep-empty", "--json"], b"\n\r\na\n").json(0);
    assert_eq!(built["keys_read"], 3);
}

#[test]
fn wrong_lines_are_named_by_line_and_column() {
    let (shell, _) = shell();
    let longest = [b'k'; 65_536];
    let get =
        |key: &[u8], end: &[u8]| shell.run_with(&["db", "get", "store", "--keys", "-"], &[b"a\n", key, end].concat());
    for end in [&b"\r\n"[..], b"\n", b""] {
        assert_eq!(get(&longest, end).exits(1), "");
        let run = get(&[&longest[..], b"k"].concat(), end);
        let why = "standard input: line 2: the line is longer than the maximum of 65,536 bytes; shorten it\n";
        assert!(run.status == 2 && run.stderr.contains(why), "{run:?}");
    }
    let run = shell.run_with(&["query", "block", "--keys", "-"], &vec![b'k'; (16 << 20) + 1]);
    let why = "line 1: the key is longer than the maximum of 16,777,216 bytes; shorten it, or check --delimiter\n";
    assert!(run.status == 2 && run.stderr.ends_with(why), "{run:?}");
    for (lines, place) in [(&b"00\n0x\n"[..], "line 2, column 2: "), (b"00\r\n000", "line 2, column 4: ")] {
        let run = shell.run_with(&["query", "block", "--hex", "--keys", "-"], lines);
        assert!(run.status == 2 && run.stderr.contains(&format!("standard input: {place}")), "{run:?}");
    }
}

#[test]
fn odd_bytes_in_a_list_are_named() {
    let shell = Shell::new();
    let mark = "\u{feff}apple\npear\n".as_bytes();
    let lines: [(&[u8], &str); 4] = [
        (mark, "byte order mark"),
        (b"apple\0\npear\0\nplum\n", "2 lines with NUL bytes"),
        (b"apple\rpear\rplum\r", "1 line with a carriage return (CR)"),
        (b"apple\r\r\npear\r\n", "1 line with a carriage return (CR)"),
    ];
    for (list, named) in lines {
        for arguments in [&["build", "-o", "new", "--force"][..], &["db", "load", "store"]] {
            let run = shell.run_with(arguments, list);
            assert!(run.status == 0 && run.stderr.contains(named), "{named}: {run:?}");
        }
        let silent = shell.run_with(&["build", "-o", "new", "--force", "--delimiter", "nul"], list);
        assert!(silent.status == 0 && silent.stderr.lines().count() == 1, "{silent:?}");
    }
    for list in [&b"apple\npear"[..], b"apple\r\npear\r\n", "Łódź\n".as_bytes()] {
        let run = shell.run_with(&["build", "-o", "new", "--force"], list);
        assert!(run.status == 0 && run.stderr.lines().count() == 1, "{run:?}");
    }
    shell.run_with(&["build", "-o", "new", "--force", "--delimiter", "nul"], b"a\0b\0").exits(0);
}

#[test]
fn a_line_without_a_tab_is_told_by_db_load() {
    let shell = Shell::new();
    let run = shell.run_with(&["db", "load", "store"], b"apple\tred\npear\n\nplum\nfig\t\n");
    assert!(run.stderr.contains("standard input: line 2 has no tab"), "{run:?}");
    assert!(run.stderr.contains("(also 1 line after it)"), "{run:?}");
    run.exits(0);
    let silent = shell.run_with(&["db", "load", "store"], b"apple\tred\nfig\t\n");
    assert!(silent.status == 0 && !silent.stderr.contains("tab"), "{silent:?}");
}

#[test]
fn the_folder_of_a_store_is_not_a_list_of_keys() {
    let (shell, _) = shell();
    for arguments in [
        &["build", "-o", "new", "store"][..],
        &["index", "build", "-o", "new", "--key-file", "store"],
        &["verify", "block", "--against", "store"],
        &["inspect", "store"],
    ] {
        shell.run(arguments).fails_with(&["store: this is the directory of a store", "\"filterblock db scan\""]);
    }
}
