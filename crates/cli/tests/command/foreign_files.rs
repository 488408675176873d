//! Tests of the command on files and filters of other engines.

use std::fs;
use std::io::{Read, Write};

use crate::shell::{Run, Shell};
use filterblock_foreign::rocksdb::{RocksDbFilterBuilder, RocksDbFilterOptions};
use filterblock_parquet::ParquetBloomBuilder;
use filterblock_testkit::foreign::forge::{self, Forge};
use filterblock_testkit::foreign::{self, Case, cases};
use serde_json::Value;

/// Returns the case of golden data with this name.
fn case(folder: &'static str, name: &str) -> Case {
    cases(folder).into_iter().find(|case| case.text("name") == name).unwrap()
}

/// Makes a shell with the file of the case as `file`.
fn shell_with(case: &Case) -> Shell {
    let shell = Shell::new();
    shell.write("file", case.bytes());
    shell
}

fn shell_with_file(folder: &str, name: &str) -> Shell {
    let shell = Shell::new();
    shell.write("file", foreign::file(folder, name));
    shell
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn hex_lines(keys: &[Vec<u8>]) -> String {
    // The empty key is an empty line.
    keys.iter().map(|key| format!("{}\n", hex(key))).collect()
}

/// Returns the answers of `query` for `keys`: `1` for maybe, `0` for absent. Asserts that `query`
/// reports no error.
fn query(shell: &Shell, more: &[&str], keys: &[Vec<u8>]) -> Vec<u8> {
    let arguments = [&["query", "file", "--hex", "--keep-empty", "-"], more].concat();
    let run = shell.run_with(&arguments, hex_lines(keys).as_bytes());
    assert!(run.status < 2, "{run:?}");
    let lines = String::from_utf8(run.stdout).unwrap();
    lines.lines().map(|line| if line.starts_with("maybe\t") { b'1' } else { b'0' }).collect()
}

/// Asserts that `query` gives the engine's answers for absent keys, and "maybe" for all present
/// keys.
fn answers_agree(case: &Case, shell: &Shell, more: &[&str], present: &[Vec<u8>], absent: &[Vec<u8>]) {
    let answers = query(shell, more, absent);
    assert_eq!(answers.len(), absent.len());
    for ((key, found), expected) in absent.iter().zip(answers).zip(case.answers()) {
        // The expected answer is `-` for keys that the engine did not look up in a filter.
        assert!(expected == b'-' || found == expected, "{}: {key:?} is {}", case.name(), found as char);
    }
    assert!(query(shell, more, present).iter().all(|&answer| answer == b'1'), "{} denies a key", case.name());
}

#[test]
fn tables_give_the_answers_of_their_engines() {
    for (folder, name) in [
        ("leveldb", "tbl-snappy"),
        ("leveldb", "db-n1500"),
        ("rocksdb-7.8.3", "fv5-ribbon-n2500"),
        ("rocksdb-7.8.3", "fv2-part-legacy"),
        ("rocksdb-7.8.3", "fv5-prefix-only"),
        ("rocksdb-9.8.4", "fv6-part-bloom-decoupled"),
    ] {
        let case = case(folder, name);
        answers_agree(&case, &shell_with(&case), &[], &case.keys(), &case.absent_keys());
    }
}

#[test]
fn bare_filters_answer_if_their_format_is_given() {
    for (folder, name, format) in [
        ("leveldb", "raw-short-n3000-b8", "leveldb-bloom"),
        ("rocksdb-11.8.1", "raw-ribbon-n2000-b10", "rocksdb-filter"),
    ] {
        let Some(case) = cases(folder).into_iter().find(|case| case.text("name") == name) else {
            let names: Vec<String> = cases(folder).iter().map(Case::name).collect();
            panic!("no {name} in {names:?}");
        };
        let shell = shell_with(&case);
        answers_agree(&case, &shell, &["--format", format], &case.keys(), &case.absent_keys());
        assert_eq!(shell.run(&["inspect", "file", "--format", format, "--json"]).json(0)["kind"], format);
        let verified = shell.run(&["verify", "file", "--format", format]).exits(0);
        assert!(verified.contains("were not verified") && !verified.contains("sound"), "{verified}");
    }
    // Both engines take an empty file for an empty filter. An empty file is usually a mistake, so
    // the command prints a remark.
    let shell = Shell::new();
    shell.write("file", "");
    for format in ["leveldb-bloom", "rocksdb-filter"] {
        let asked = shell.run(&["query", "file", "--format", format, "key"]);
        assert!(asked.stderr.contains("file: the filter is too short"), "{asked:?}");
        asked.exits(1);
    }
    shell.run(&["query", "file", "--format", "parquet-sbbf", "--type", "utf8", "key"]).fails_with(&["file", "damaged"]);
    let case = case("parquet", "raw-var");
    let shell = shell_with(&case);
    let raw = ["--format", "parquet-sbbf"];
    answers_agree(&case, &shell, &raw, &case.plain_values(), &case.absent_plain_values());
    shell.run(&["query", "file", "--format", "parquet-sbbf", "x"]).fails_with(&["file", "--type", "--hex"]);
    let as_text = shell.run(&["query", "file", "--format", "parquet-sbbf", "--type", "utf8", "000000"]);
    assert!(as_text.status < 2);
}

#[test]
fn columns_answer_for_plain_encodings_and_text() {
    for name in ["rs-rg1-i64", "pyarrow-rg0-f64", "rs-rg0-flba", "pyarrow-rg1-i32"] {
        let case = case("parquet", name);
        let shell = shell_with(&case);
        let row_group = case.number("row_group").to_string();
        let place = ["--column", case.text("column"), "--row-group", &row_group];
        answers_agree(&case, &shell, &place, &case.plain_values(), &case.absent_plain_values());
    }
    for (name, typed) in [("rs-rg0-i64", "int64"), ("rs-rg0-i32", "int32"), ("rs-rg0-f64", "double")] {
        let case = case("parquet", name);
        let shell = shell_with(&case);
        let values: String = (0..case.number("n")).map(|i| format!("{}\n", case.v(i))).collect();
        for how in [&["--type", typed][..], &[]] {
            let arguments =
                [&["query", "file", "--count", "--json", "--column", case.text("column"), "-"][..], how].concat();
            let counts = shell.run_with(&arguments, values.as_bytes()).json(0);
            assert_eq!((&counts["maybe"], &counts["absent"]), (&case.number("n").into(), &0.into()), "{name}");
        }
        let report = [
            &["verify", "file", "--json", "--against", "values", "--row-group", "0", "--column"][..],
            &[case.text("column")],
        ]
        .concat();
        shell.write("values", &values);
        let report = shell.run(&report).json(0);
        assert_eq!((&report["false_negatives"], &report["keys_asked"]), (&0.into(), &case.number("n").into()));
    }
}

#[test]
fn a_query_without_a_row_group_asks_all_row_groups() {
    let (first, second) = (case("parquet", "rs-rg0-i64"), case("parquet", "rs-rg1-i64"));
    let shell = shell_with(&first);
    let both = [first.plain_values(), second.plain_values()].concat();
    assert!(query(&shell, &["--column", "i64"], &both).iter().all(|&answer| answer == b'1'));
    let of_second = query(&shell, &["--column", "i64", "--row-group", "1"], &first.plain_values());
    assert!(of_second.iter().filter(|&&answer| answer == b'0').count() > 900);
}

#[test]
fn unsuitable_questions_are_refused_with_advice() {
    let shell = shell_with_file("parquet", "rs.parquet");
    let refused = |arguments: &[&str], parts: &[&str]| {
        shell.run(arguments).fails_with(parts);
    };
    refused(&["query", "file", "7"], &["file", "choose one with --column", "i64", "bytes"]);
    refused(&["query", "file", "--column", "id", "7"], &["no column \"id\"", "i64"]);
    refused(&["query", "file", "--column", "i64", "--row-group", "2", "7"], &["no row group 2", "the file has 2"]);
    refused(&["verify", "file", "--column", "id"], &["no column \"id\""]);
    shell.write("rowless", b"PAR1\0\x01\0\0\0PAR1");
    refused(&["query", "rowless", "--column", "id", "7"], &["no column \"id\"", "no row groups", "give a file"]);
    refused(&["query", "file", "--column", "i64", "--type", "utf8", "7"], &["i64", "Int64", "--type utf8"]);
    refused(&["query", "file", "--column", "i64", "seven"], &["argument \"seven\"", "int64"]);
    refused(&["query", "file", "--column", "i32", "2147483648"], &["2147483648", "int32"]);
    refused(&["query", "file", "--column", "f64", "NaN"], &["NaN", "--hex"]);
    refused(&["query", "file", "--column", "i64", "--hex", "0700"], &["2 bytes", "give 8 bytes"]);
    refused(&["query", "file", "--column", "i64", "--prefixes", "7"], &["file", "prefixes"]);
    let from_stdin = shell.run_with(&["query", "file", "--column", "i64", "-"], b"7\nx\n");
    from_stdin.fails_with(&["standard input: line 2", "int64"]);
    shell.write("table", foreign::file("leveldb", "tbl-n100.ldb"));
    refused(&["query", "table", "--column", "i64", "7"], &["table", "--column", "leveldb-table"]);
    refused(&["query", "table", "--type", "int64", "7"], &["table", "--type"]);
    refused(&["query", "table", "--prefixes", "7"], &["table", "prefixes"]);
    refused(&["convert", "-o", "out", "file"], &["file", "cannot be converted"]);
    shell.write("keys", "a\n");
    shell.run(&["build", "-o", "block", "keys"]).exits(0);
    refused(&["query", "block", "--row-group", "0", "a"], &["block", "--row-group", "filter block"]);
    refused(&["convert", "-o", "out", "block"], &["block", "stores no keys"]);
    assert!(!shell.files().contains(&"out".to_owned()));
}

#[test]
fn inspect_prints_kind_offset_and_fpr_of_every_filter() {
    let whole = case("rocksdb-7.8.3", "fv5-ribbon-n2500");
    let report = shell_with(&whole).run(&["inspect", "file", "--json"]).json(0);
    assert_eq!((&report["kind"], &report["keys"]), (&"rocksdb-table".into(), &2500.into()));
    assert_eq!(report["properties"]["format_version"], 5);
    let filter = &report["filters"][0];
    assert_eq!(filter["kind"], "rocksdb-ribbon");
    assert!(filter["seed"].is_u64() && filter["columns"].as_f64().unwrap() > 6.0);
    assert!(close(&report["summary"]["expected_false_positive_rate"], 0.0095, 0.3), "{report}");
    assert!(close(&report["summary"]["bits_per_key"], 7.2, 0.1), "{report}");

    let partitions = case("rocksdb-7.8.3", "fv5-part-bloom");
    let shell = shell_with(&partitions);
    let report = shell.run(&["inspect", "file", "--json"]).json(0);
    let filters = report["filters"].as_array().unwrap();
    assert!(filters.len() > 2 && filters.iter().all(|filter| filter["up_to_hex"].is_string()));
    assert!(filters.iter().all(|filter| filter["probes"] == 6));
    assert!(close(&report["summary"]["estimated_keys"], 4000.0, 0.05), "{report}");

    let blocks = shell_with_file("leveldb", "tbl-n10000.ldb");
    let report = blocks.run(&["inspect", "file", "--json"]).json(0);
    assert_eq!((&report["kind"], &report["keys"]), (&"leveldb-table".into(), &10_000.into()));
    assert_eq!(report["properties"]["filter_policy"], "leveldb.BuiltinBloomFilter2");
    assert!(close(&report["summary"]["bits_per_key"], 10.0, 0.1), "{report}");
    let text = blocks.run(&["inspect", "file"]).exits(0);
    for part in [
        "leveldb-table",
        "10,000",
        "leveldb-bloom",
        "data blocks that begin at offsets 0 to 2047",
        "--json shows all",
        "expected FPR",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }

    let parquet = shell_with_file("parquet", "pyarrow.parquet");
    let report = parquet.run(&["inspect", "file", "--json", "--column", "i64", "--row-group", "0"]).json(0);
    let case = case("parquet", "pyarrow-rg0-i64");
    assert_eq!(report["filters"].as_array().unwrap().len(), 1);
    let filter = &report["filters"][0];
    assert_eq!(filter["offset"], case.number("bloom_filter_offset"));
    assert_eq!(filter["blocks"], case.number("blocks"));
    assert_eq!((&filter["physical_type"], &filter["num_values"]), (&"Int64".into(), &1000.into()));
    let all = parquet.run(&["inspect", "file", "--json"]).json(0);
    assert_eq!(all["filters"].as_array().unwrap().len(), 10);
}

pub fn close(found: &Value, expected: f64, share: f64) -> bool {
    (found.as_f64().unwrap() - expected).abs() <= expected * share
}

#[test]
fn a_table_without_a_filter_says_so() {
    let shell = shell_with_file("rocksdb-9.8.4-layouts", "fv6-no-filter.sst");
    let inspected = shell.run(&["inspect", "file"]);
    assert!(inspected.stderr.contains("the table has no filter"), "{inspected:?}");
    inspected.exits(0);
    let asked = shell.run(&["query", "file", "anything"]);
    assert!(asked.stderr.contains("the table has no known filter"), "{asked:?}");
    assert_eq!(asked.exits(0), "maybe\tanything\n");
    let report = shell.run(&["inspect", "file", "--what-if", "--json"]).json(0);
    assert_eq!(report["what_if"]["false_positive_rate"], 0.01);
    shell.run(&["export", "file", "-o", "out"]).fails_with(&["file", "no filter to export"]);
}

#[test]
fn verify_detects_damage_under_every_checksum() {
    for (folder, name) in [("leveldb", "tbl-n100.ldb"), ("rocksdb-9.8.4", "fv6-bloom-n100.sst")] {
        let shell = shell_with_file(folder, name);
        let sound = foreign::file(folder, name);
        let report = shell.run(&["verify", "file", "--json"]).json(0);
        assert_eq!((&report["sound"], &report["keys"], &report["denied_keys"]), (&true.into(), &100.into(), &0.into()));
        for at in [0, sound.len() / 3, sound.len() / 2, sound.len() - 60] {
            let mut flipped = sound.clone();
            flipped[at] ^= 4;
            shell.write("flipped", flipped);
            let report = shell.run(&["verify", "flipped", "--json"]).json(1);
            let damage = report["damage"].as_str().unwrap();
            assert!(damage.starts_with("flipped: damaged: ") && damage.contains("offset"), "{name} at {at}: {damage}");
        }
        shell.write("cut", &sound[..sound.len() - 1]);
        shell.run(&["verify", "cut"]).exits(1);
        shell.run(&["query", "cut", "key"]).fails_with(&["cut", "neither a filter block"]);
    }
    let shell = shell_with_file("parquet", "rs.parquet");
    assert_eq!(shell.run(&["verify", "file", "--json"]).json(0)["filters"], 10);
    let case = case("parquet", "rs-rg0-i64");
    let mut damaged = case.bytes();
    damaged[case.number("bloom_filter_offset") as usize] = 0xff;
    shell.write("damaged", damaged);
    shell.run(&["verify", "damaged"]).exits(1);
    shell.run(&["query", "damaged", "--column", "i64", "7"]).fails_with(&["damaged", "filter header"]);
}

#[test]
#[cfg(unix)]
fn a_file_truncated_during_a_query_still_answers() {
    for (folder, name) in [("leveldb", "tbl-n10000"), ("rocksdb-9.8.4", "fv6-part-bloom-coupled")] {
        let case = case(folder, name);
        let shell = shell_with(&case);
        let mut child = shell.spawn(&["query", "file", "-"]);
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // The keys are so long that the answers of the first batch do not wait in a buffer.
        let asked = std::thread::spawn(move || {
            for number in 0..300 {
                writeln!(input, "{number:01000}").unwrap();
            }
            input
        });
        output.read_exact(&mut [0; 10]).unwrap();
        let mut input = asked.join().unwrap();
        fs::File::options().write(true).open(shell.path("file")).unwrap().set_len(0).unwrap();
        let rest = std::thread::spawn(move || {
            let mut rest = Vec::new();
            output.read_to_end(&mut rest).unwrap();
            rest
        });
        case.keys().iter().for_each(|key| input.write_all(&[&key[..], b"\n"].concat()).unwrap());
        drop(input);
        let output = Run::new(child.wait_with_output().unwrap());
        assert_eq!(output.status, 0, "{output:?}");
        let answers = rest.join().unwrap();
        let maybes = answers.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"maybe\t")).count();
        assert!(maybes >= case.keys().len(), "{maybes} of {}", case.name());
    }
}

#[test]
fn a_column_with_an_ambiguous_name_is_refused() {
    let filter = |value: &[u8]| {
        let mut builder = ParquetBloomBuilder::with_blocks(1).unwrap();
        builder.add(value);
        builder.finish()
    };
    let shell = Shell::new();
    shell.write("file", forge::parquet_file(&[(&["a", "b"], filter(b"x"), false), (&["a.b"], filter(b"y"), false)]));
    for column in [&["--column", "a.b"][..], &[]] {
        shell.run(&[&["query", "file", "y"], column].concat()).fails_with(&["file", "several columns", "a.b"]);
    }
    assert_eq!(shell.run(&["inspect", "file", "--json"]).json(0)["filters"].as_array().unwrap().len(), 2);
}

#[test]
fn damage_under_a_key_form_comes_with_a_word_on_the_form() {
    for (file, right, wrong) in [("tbl-n100.ldb", "user", "internal"), ("db-n1500.ldb", "internal", "user")] {
        let shell = shell_with_file("leveldb", file);
        let verify = |form| shell.run(&["verify", "file", "--json", "--key-form", form]);
        let run = verify(wrong);
        assert!(run.stderr.contains("run again without --key-form"), "{run:?}");
        run.exits(1);
        // A filter of keys in the wrong form would deny all keys.
        for build in [&["convert", "file"][..], &["index", "build", "file"]] {
            shell.run(&[build, &["-o", "new", "--key-form", wrong]].concat()).fails_with(&["file", "omit --key-form"]);
        }
        assert_eq!(verify(right).json(0)["sound"], true);
        let mut bytes = fs::read(shell.path("file")).unwrap();
        bytes[20] ^= 1;
        shell.write("file", bytes);
        assert_eq!(verify(right).json(1)["sound"], false, "{file}");
    }
}

#[test]
fn keys_of_unknown_form_are_converted_only_with_key_form() {
    // Big-endian numbers look like the eight bytes that a database appends to a key.
    let keys: Vec<Vec<u8>> = (1..=3).map(|number| [&b"n\0\0\0\0\0\0\0"[..], &[number]].concat()).collect();
    let entries: Vec<(&Vec<u8>, &[u8])> = keys.iter().map(|key| (key, &b"value"[..])).collect();
    let mut forge = Forge::default();
    let data = forge.block(&forge::block(&entries), 0);
    let metaindex = forge.block(&forge::block::<&[u8], &[u8]>(&[]), 0);
    let index = forge.block(&forge::block(&[(&keys[2], data.bytes())]), 0);
    let shell = Shell::new();
    shell.write("file", forge.leveldb(metaindex, index));
    shell.run(&["convert", "file", "-o", "block"]).fails_with(&["file", "--key-form"]);
    let inspected = shell.run(&["inspect", "file"]);
    assert!(inspected.stderr.contains("cannot count the keys"), "{inspected:?}");
    shell.run(&["convert", "file", "-o", "block", "--key-form", "user"]).exits(0);
    shell.write("keys", hex_lines(&keys));
    let report = shell.run(&["verify", "block", "--hex", "--against", "keys", "--json"]).json(0);
    assert_eq!(report["false_negatives"], 0);
}

#[test]
fn filters_of_an_unknown_extractor_get_a_remark() {
    let mut forge = Forge::default();
    let mut builder = RocksDbFilterBuilder::new(RocksDbFilterOptions::default());
    builder.add(b"prefix");
    let filter = forge.block(&builder.finish(), 0);
    let index = forge.block(&forge::block::<&[u8], &[u8]>(&[]), 0);
    let properties: [(&str, &[u8]); 4] = [
        ("rocksdb.block.based.table.index.type", &[0; 4]),
        ("rocksdb.block.based.table.whole.key.filtering", b"0"),
        ("rocksdb.comparator", b"leveldb.BytewiseComparator"),
        ("rocksdb.prefix.extractor.name", b"an.application's"),
    ];
    let properties = forge.block(&forge::block(&properties), 0);
    let names = [(forge::FULL_FILTER, filter.bytes()), ("rocksdb.properties", properties.bytes())];
    let metaindex = forge.block(&forge::block(&names), 0);
    let shell = Shell::new();
    shell.write("file", forge.rocksdb(5, metaindex, index));
    for arguments in [&["query", "file", "absent"][..], &["inspect", "file"]] {
        let run = shell.run(arguments);
        assert!(run.stderr.contains("a known extractor"), "{run:?}");
        run.exits(0);
    }
}

#[test]
fn overlapping_filters_are_reported_once() {
    // Every second filter is the whole array of bits.
    let (bits, filters) = (vec![0x55; 1 << 20], 1 << 16);
    let mut block = bits.clone();
    for number in 0..=filters {
        let offset: u32 = if number % 2 == 0 { 0 } else { 1 << 20 };
        block.extend(offset.to_le_bytes());
    }
    block.extend((bits.len() as u32).to_le_bytes());
    block.push(11);
    let mut forge = Forge::default();
    let filter = forge.block(&block, 0);
    let metaindex = forge.block(&forge::block(&[(forge::LEVELDB_FILTER, filter.bytes())]), 0);
    let index = forge.block(&forge::block::<&[u8], &[u8]>(&[]), 0);
    let shell = Shell::new();
    shell.write("file", forge.leveldb(metaindex, index));
    let inspected = shell.run(&["inspect", "file", "--json"]);
    assert!(inspected.stderr.contains("overlap"), "{inspected:?}");
    assert_eq!(inspected.json(0)["filters"].as_array().unwrap().len(), 1);
}

#[test]
fn partitions_with_repeated_keys_are_reported_partly() {
    let [table, _] = forge::repeating(1_000);
    let shell = Shell::new();
    shell.write("file", table);
    let inspected = shell.run(&["inspect", "file", "--json"]);
    assert!(inspected.stderr.contains("some overlap or are listed twice"), "{}", inspected.stderr);
    assert_eq!(inspected.json(0)["filters"].as_array().unwrap().len(), 1);
}

#[test]
fn an_exported_filter_answers_like_its_file() {
    for (folder, name, more) in [
        ("rocksdb-7.8.3", "fv5-ribbon-n2500", &[][..]),
        ("parquet", "rs-rg1-i64", &["--column", "i64", "--row-group", "1"]),
    ] {
        let case = case(folder, name);
        let shell = shell_with(&case);
        let told = shell.run(&[&["export", "file", "-o", "filter"], more].concat()).json(0);
        assert_eq!(told["len_bytes"], fs::metadata(shell.path("filter")).unwrap().len());
        fs::rename(shell.path("filter"), shell.path("file")).unwrap();
        let format = ["--format", told["format"].as_str().unwrap()];
        let (present, absent) = match folder {
            "parquet" => (case.plain_values(), case.absent_plain_values()),
            _ => (case.keys(), case.absent_keys()),
        };
        answers_agree(&case, &shell, &format, &present, &absent);
    }
    let shell = shell_with_file("leveldb", "tbl-n10000.ldb");
    shell.run(&["export", "file", "-o", "out"]).fails_with(&["file", "--number"]);
    let told = shell.run(&["export", "file", "-o", "out", "--number", "3"]).json(0);
    let offset = told["offset"].as_u64().unwrap() as usize;
    let bytes = fs::read(shell.path("out")).unwrap();
    assert!(fs::read(shell.path("file")).unwrap()[offset..].starts_with(&bytes));
    shell.run(&["export", "file", "-o", "out", "--number", "3"]).fails_with(&["out", "--force"]);
    shell.run(&["export", "file", "-o", "-", "--number", "3"]).fails_with(&["--output"]);
    shell.run(&["export", "file", "-o", "new", "--number", "100000"]).fails_with(&["no filter 100000"]);
    shell.write("keys", "a\nb\n");
    shell.run(&["build", "-o", "block", "keys"]).exits(0);
    let told = shell.run(&["export", "block", "-o", "payload"]).json(0);
    let payload = fs::read(shell.path("payload")).unwrap();
    assert_eq!((&told["kind"], &told["keys"]), (&"blocked-bloom".into(), &2.into()));
    assert!(fs::read(shell.path("block")).unwrap().starts_with(&payload) && payload.len() >= 64);
}

#[test]
fn a_converted_block_holds_every_key_of_its_table() {
    for (folder, name) in [
        ("leveldb", "tbl-snappy.ldb"),
        ("leveldb", "db-n1500.ldb"),
        ("rocksdb-7.8.3", "fv5-bloom-snappy.sst"),
        ("rocksdb-9.8.4", "fv6-part-ribbon-decoupled.sst"),
    ] {
        let case = cases(folder).into_iter().find(|case| case.text("file") == name).unwrap();
        let shell = shell_with(&case);
        let told =
            shell.run(&["convert", "file", "-o", "block", "--filter", "bumped-ribbon:fpr=0.01", "--json"]).json(0);
        assert_eq!(told["distinct_keys"], case.number("n"), "{name}");
        shell.write("keys", hex_lines(&case.keys()));
        let report = shell.run(&["verify", "block", "--hex", "--against", "keys", "--json"]).json(0);
        assert_eq!(report["keys_asked"], case.number("n"));
        // `build` makes the same block from the keys.
        let built = ["build", "-o", "built", "--hex", "--filter", "bumped-ribbon:fpr=0.01", "keys"];
        shell.run(&built).exits(0);
        assert!(fs::read(shell.path("block")).unwrap() == fs::read(shell.path("built")).unwrap(), "{name}");
    }
    for name in ["fv2-lz4.sst", "fv6-zstd.sst", "fv5-lz4hc.sst"] {
        let shell = shell_with_file("rocksdb-9.8.4-layouts", name);
        let told = shell.run(&["convert", "file", "-o", "block", "--json"]).json(0);
        let inspected = shell.run(&["inspect", "file", "--json"]).json(0);
        assert_eq!(told["distinct_keys"], inspected["keys"], "{name}");
    }
    let shell = shell_with_file("leveldb", "tbl-n100.ldb");
    // No database wrote this table. An index key of it is shorter than the eight bytes that a
    // database appends.
    shell.run(&["convert", "file", "-o", "block", "--key-form", "internal"]).fails_with(&["file", "omit --key-form"]);
    let told = shell.run(&["convert", "file", "-o", "block", "--key-form", "user", "--json"]).json(0);
    assert_eq!(told["distinct_keys"], 100);
    let shell = shell_with_file("rocksdb-9.8.4-layouts", "fv6-bz2.sst");
    shell.run(&["convert", "file", "-o", "block"]).fails_with(&["file", "compression"]);
    assert_eq!(shell.files(), ["file"], "a failed command left a file");
}

#[test]
fn a_filter_with_all_bits_set_has_an_fpr_of_one() {
    let shell = Shell::new();
    shell.write("file", [&[0xff; 64][..], &[6]].concat());
    let report = shell.run(&["inspect", "file", "--json", "--format", "leveldb-bloom"]).json(0);
    assert_eq!(report["summary"]["expected_false_positive_rate"], 1.0, "{report}");
}
