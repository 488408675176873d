//! Tests of filters that the footer of their Parquet file contradicts, and of filters that deny
//! every value. Such a filter may belong to other values, so no command may answer "absent" by it.

use std::io::Cursor;

use filterblock_parquet::FilterRange;
use filterblock_parquet::Footer;
use filterblock_parquet::ParquetBloomBuilder;
use filterblock_parquet::thrift::{Field, Kind, List, Struct};

use crate::parquet_add::{id, parquet_file};
use crate::shell::{Run, Shell};

fn footer(bytes: &[u8]) -> Footer {
    Footer::read(&mut Cursor::new(bytes)).unwrap()
}

/// Returns the location of the filter of column `id` (0) or `user.name` (1) in a row group.
fn filter(bytes: &[u8], group: usize, leaf: usize) -> FilterRange {
    footer(bytes).chunk(group, leaf).unwrap().filter.unwrap()
}

/// Returns the file with another location of the filter of column `id` in row group 0.
fn moved(bytes: &[u8], offset: u64, len_bytes: Option<u64>) -> Vec<u8> {
    let found = footer(bytes);
    let range = Some(FilterRange { offset, len_bytes });
    let new = found.rewrite(|group, leaf, old| if (group, leaf) == (0, 0) { range } else { old }).unwrap();
    [&bytes[..found.metadata_offset() as usize], &new].concat()
}

/// Returns the file after `change` has changed the column metadata of column `id` in row group 0.
fn with_column(bytes: &[u8], change: impl FnOnce(&mut Struct<'_>)) -> Vec<u8> {
    fn field<'a>(parent: &Struct<'a>, id: i16, value: Vec<u8>) -> Struct<'a> {
        let kind = parent.get(id).unwrap().kind;
        let mut new = parent.clone();
        new.set(Field { id, kind, value: value.into() });
        new
    }
    fn encoded(of: &Struct<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        of.encode(&mut out);
        out
    }
    fn with_first(list: &List<'_>, first: Vec<u8>) -> Vec<u8> {
        [list.header, &first, &list.elements[1..].concat()].concat()
    }
    let found = footer(bytes);
    let file = Struct::parse(found.metadata()).unwrap().0;
    let groups = file.list(4).unwrap();
    let group = Struct::parse(groups.elements[0]).unwrap().0;
    let columns = group.list(1).unwrap();
    let chunk = Struct::parse(columns.elements[0]).unwrap().0;
    let mut column = Struct::parse(&chunk.get(3).unwrap().value).unwrap().0;
    change(&mut column);
    let chunk = encoded(&field(&chunk, 3, encoded(&column)));
    let group = encoded(&field(&group, 1, with_first(&columns, chunk)));
    let metadata = encoded(&field(&file, 4, with_first(&groups, group)));
    let tail = [&(metadata.len() as u32).to_le_bytes()[..], b"PAR1"].concat();
    [&bytes[..found.metadata_offset() as usize], &metadata, &tail].concat()
}

/// Returns the ids of row group 0, one per line.
fn ids() -> String {
    (0..2_000).map(|row| format!("{}\n", id(row))).collect()
}

fn query(shell: &Shell, more: &[&str]) -> Run {
    shell.run(&[&["query", "a.parquet", "--column", "id", "--keys", "ids", "--count"], more].concat())
}

/// Asserts that no command uses the filter of column `id` in row group 0, and that each names it.
fn assert_unusable(name: &str, bytes: Vec<u8>) {
    eprintln!("{name}");
    let shell = Shell::new();
    shell.write("a.parquet", bytes);
    shell.write("ids", ids());
    let named = ["a.parquet", "row group 0", "column id"];
    query(&shell, &[]).fails_with(&named);
    shell.run(&["verify", "a.parquet"]).fails_with(&named);
    for target in [&["--in-place"][..], &["-o", "out"], &["--dry-run"]] {
        let add = [&["parquet", "add", "a.parquet", "--column", "id"], target].concat();
        shell.run(&add).fails_with(&[&named[..], &["--replace"]].concat());
    }
    assert_eq!(shell.files(), ["a.parquet", "ids"]);
    let text = shell.run(&["parquet", "check", "a.parquet", "--column", "id"]).exits(1);
    assert!(text.contains("id: row group 0: the filter cannot be used") && text.contains("--replace"), "{text}");
    let build = ["index", "build", "-o", "index", "--column", "id", "--from-filters", "a.parquet"];
    let built = shell.run(&build);
    let told = ["a.parquet: ", " of column \"id\" cannot be used"];
    assert!(told.iter().all(|words| built.stderr.contains(words)), "{}", built.stderr);
    built.exits(0);
    let counts = shell.run(&["index", "query", "index", "--keys", "ids", "--count", "--json"]).json(0);
    assert_eq!((&counts["maybe"], &counts["absent"]), (&2_000.into(), &0.into()));
    shell.run(&["parquet", "add", "a.parquet", "--column", "id", "--replace", "--in-place"]).exits(0);
    query(&shell, &[]).exits(0);
    shell.run(&["verify", "a.parquet"]).exits(0);
    shell.run(&["parquet", "check", "a.parquet", "--column", "id", "--values"]).exits(0);
}

#[test]
fn a_filter_that_the_footer_contradicts_denies_nothing() {
    let good = parquet_file(true);
    let FilterRange { offset, len_bytes } = filter(&good, 0, 0);
    let len = len_bytes.unwrap();
    let blocks = len as usize / 32;
    for other in [blocks / 2, blocks * 2, 1] {
        let mut bytes = good.clone();
        let header = ParquetBloomBuilder::with_blocks(other).unwrap().header();
        bytes[offset as usize..][..header.len()].copy_from_slice(&header);
        assert_unusable(&format!("{other} blocks in the header"), bytes);
    }
    for len in [0, 1, 16, len - 32, len - 1, len + 1, len + 32] {
        assert_unusable(&format!("length {len}"), moved(&good, offset, Some(len)));
    }
    let negative = with_column(&good, |column| column.set_int(15, Kind::I32, -1));
    assert_unusable("a negative length", negative);
}

#[test]
fn a_filter_at_a_wrong_place_denies_nothing() {
    let good = parquet_file(true);
    let own = filter(&good, 0, 0);
    for (group, leaf) in [(1, 0), (0, 1), (2, 1)] {
        let other = filter(&good, group, leaf);
        for len in [other.len_bytes, None] {
            assert_unusable(&format!("the filter of {group} {leaf}"), moved(&good, other.offset, len));
        }
    }
    let (metadata, data) = (footer(&good).metadata_offset(), footer(&good).chunk(0, 2).unwrap().offset);
    for offset in [1, 3, metadata, metadata + 9, 1 << 50, i64::MAX as u64] {
        assert_unusable(&format!("offset {offset}"), moved(&good, offset, own.len_bytes));
    }
    // A copy of a filter in the pages of another column. The column is not queried.
    let mut bytes = good.clone();
    let copy = filter(&good, 1, 0);
    let (start, len) = (copy.offset as usize, copy.len_bytes.unwrap() as usize);
    bytes.copy_within(start..start + len, data as usize);
    assert_unusable("a filter inside pages", moved(&bytes, data, copy.len_bytes));
}

#[test]
fn a_filter_without_a_length_must_end_before_the_next() {
    let good = parquet_file(true);
    let own = filter(&good, 0, 0);
    let mut bytes = moved(&good, own.offset, None);
    let blocks = own.len_bytes.unwrap() as usize / 32;
    let header = ParquetBloomBuilder::with_blocks(blocks * 2).unwrap().header();
    bytes[own.offset as usize..][..header.len()].copy_from_slice(&header);
    let shell = Shell::new();
    shell.write("a.parquet", bytes);
    shell.write("ids", ids());
    query(&shell, &[]).fails_with(&["a.parquet", "row group 0", "column id"]);
    shell.run(&["verify", "a.parquet"]).exits(1);
    shell.run(&["parquet", "check", "a.parquet", "--column", "id"]).exits(1);
    shell.run(&["parquet", "add", "a.parquet", "--column", "id", "--in-place"]).fails_with(&["column id", "--replace"]);
}

#[test]
fn a_filter_without_a_set_bit_denies_nothing() {
    let mut bytes = parquet_file(true);
    let FilterRange { offset, len_bytes } = filter(&bytes, 0, 0);
    // The header is shorter than a block, and the bits are whole blocks.
    let (start, len) = (offset as usize, len_bytes.unwrap() as usize);
    bytes[start + len % 32..start + len].fill(0);
    let shell = Shell::new();
    shell.write("a.parquet", bytes);
    shell.write("ids", ids());
    let asked = query(&shell, &[]);
    assert!(asked.stderr.contains("no bit is set"), "{}", asked.stderr);
    assert_eq!(asked.exits(0), "maybe\t2000\nabsent\t0\n");
    let verified = shell.run(&["verify", "a.parquet"]);
    assert!(verified.stderr.contains("1 filter without a set bit"), "{}", verified.stderr);
    let text = shell.run(&["parquet", "check", "a.parquet", "--column", "id"]).exits(1);
    assert!(text.contains("no bit is set"), "{text}");
    shell.run(&["parquet", "check", "a.parquet", "--column", "id", "--values"]).exits(1);
    let add = ["parquet", "add", "a.parquet", "--column", "id", "--in-place"];
    shell.run(&add).fails_with(&["row group 0, column id", "no bit is set", "--replace"]);
    shell.run(&[&add[..], &["--replace"]].concat()).exits(0);
    shell.run(&["parquet", "check", "a.parquet", "--column", "id", "--values"]).exits(0);
}

#[test]
fn an_offset_of_zero_or_below_means_no_filter() {
    let good = parquet_file(true);
    let changes: [fn(&mut Struct<'_>); 4] = [
        |column| column.set_int(14, Kind::I64, 0),
        |column| column.set_int(14, Kind::I64, -1),
        |column| column.set_int(14, Kind::I64, i64::MIN),
        |column| column.fields.retain(|field| field.id != 14),
    ];
    for change in changes {
        let shell = Shell::new();
        shell.write("a.parquet", with_column(&good, change));
        shell.write("ids", ids());
        assert_eq!(query(&shell, &[]).exits(0), "maybe\t2000\nabsent\t0\n");
        shell.run(&["verify", "a.parquet"]).exits(0);
        let text = shell.run(&["parquet", "check", "a.parquet"]).exits(0);
        assert!(text.contains("id: row group 0: no filter: the footer has a bloom_filter_offset of 0"), "{text}");
        let text = shell.run(&["parquet", "check", "a.parquet", "--column", "id"]).exits(1);
        assert!(text.contains("id: row group 0 without a filter"), "{text}");
        let text = shell.run(&["parquet", "add", "a.parquet", "--column", "id", "--in-place"]).exits(0);
        assert!(text.contains("1 filter added, 2 filters kept"), "{text}");
        shell.run(&["parquet", "check", "a.parquet", "--column", "id", "--values"]).exits(0);
        assert_eq!(query(&shell, &["--row-group", "0"]).exits(0), "maybe\t2000\nabsent\t0\n");
    }
}

/// Asserts that every command that answers by filters or values refuses the file with these words.
fn assert_refused(name: &str, bytes: Vec<u8>, words: &[&str]) {
    eprintln!("{name}");
    let shell = Shell::new();
    shell.write("a.parquet", bytes);
    shell.write("ids", ids());
    query(&shell, &[]).fails_with(words);
    query(&shell, &["--hex"]).fails_with(words);
    query(&shell, &["--type", "int64"]).fails_with(words);
    shell.run(&["verify", "a.parquet"]).fails_with(words);
    let build = ["index", "build", "-o", "index", "--column", "id", "a.parquet"];
    shell.run(&build).fails_with(words);
    shell.run(&[&build[..], &["--from-filters"]].concat()).fails_with(words);
    shell.run(&["parquet", "check", "a.parquet"]).fails_with(&["a.parquet"]);
    shell.run(&["parquet", "add", "a.parquet", "--column", "id", "--in-place"]).fails_with(&["a.parquet"]);
    assert_eq!(shell.files(), ["a.parquet", "ids"]);
}

#[test]
fn a_chunk_that_contradicts_the_schema_is_an_error() {
    let path =
        |name: &[u8]| Field { id: 3, kind: Kind::LIST, value: [&[0x18, name.len() as u8][..], name].concat().into() };
    let good = parquet_file(true);
    let words = ["a.parquet", "row group 0", "column \"id\"", "contradicts its schema"];
    for name in [&b"ie"[..], b"step", b"ID", b""] {
        let bytes = with_column(&good, |column| column.set(path(name)));
        assert_refused(&format!("{name:?}"), bytes, &words);
    }
    // INT32 and BYTE_ARRAY.
    for number in [1, 6] {
        let bytes = with_column(&good, |column| column.set_int(1, Kind::I32, number));
        assert_refused(&format!("type {number}"), bytes, &words);
    }
}

#[test]
fn a_false_number_of_rows_is_an_error() {
    let found = footer(&parquet_file(true));
    let mut file = Struct::parse(found.metadata()).unwrap().0;
    for rows in [0, 5_999, 8_000, -1] {
        file.set_int(3, Kind::I64, rows);
        let mut metadata = Vec::new();
        file.encode(&mut metadata);
        let tail = [&(metadata.len() as u32).to_le_bytes()[..], b"PAR1"].concat();
        let data = &parquet_file(true)[..found.metadata_offset() as usize];
        assert_refused(&format!("{rows} rows"), [data, &metadata, &tail].concat(), &["a.parquet", "number of rows"]);
    }
}

#[test]
fn a_column_of_a_file_without_row_groups_has_no_value() {
    let shell = Shell::new();
    shell.write("a.parquet", include_bytes!("../../../parquet/tests/golden/pyarrow-no-row-groups.parquet"));
    let text = shell.run(&["query", "a.parquet", "--column", "id", "5"]).exits(1);
    assert!(text.contains("absent"), "{text}");
    shell.run(&["verify", "a.parquet", "--column", "id"]).exits(0);
    shell.run(&["query", "a.parquet", "--column", "other", "5"]).fails_with(&["no column \"other\"", "id"]);
    shell.run(&["verify", "a.parquet", "--column", "other"]).fails_with(&["no column \"other\""]);
}
