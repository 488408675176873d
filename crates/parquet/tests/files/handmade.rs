//! Tests of unusual and damaged Parquet files. The tests build the pages and headers field by
//! field. Each file has one optional INT32 column `c` and one row group.

use std::collections::BTreeSet;
use std::io::Cursor;

use bytes::Bytes;
use filterblock_parquet::ParquetBloom;
use filterblock_parquet::thrift::{Field, Kind, Struct};
use filterblock_parquet::values::ParquetValues;
use filterblock_parquet::{Error, Footer};

/// The number of values of each data page.
const ROWS: i64 = 8;

type Fields = Vec<Field<'static>>;

fn int(id: i16, kind: Kind, value: i64) -> Field<'static> {
    let mut one = Struct::default();
    one.set_int(id, kind, value);
    Field { id, kind, value: one.fields[0].value.to_vec().into() }
}

fn i32(id: i16, value: i64) -> Field<'static> {
    int(id, Kind::I32, value)
}

fn i64(id: i16, value: i64) -> Field<'static> {
    int(id, Kind::I64, value)
}

fn text(id: i16, text: &str) -> Field<'static> {
    Field { id, kind: Kind::BINARY, value: [&[text.len() as u8], text.as_bytes()].concat().into() }
}

fn list(id: i16, kind: u8, elements: &[Vec<u8>]) -> Field<'static> {
    Field { id, kind: Kind::LIST, value: [vec![(elements.len() as u8) << 4 | kind], elements.concat()].concat().into() }
}

fn encoded(fields: Fields) -> Vec<u8> {
    let mut out = Vec::new();
    Struct { fields }.encode(&mut out);
    out
}

fn nested(id: i16, fields: Fields) -> Field<'static> {
    Field { id, kind: Kind::STRUCT, value: encoded(fields).into() }
}

/// Returns the fields of a page header. `details` is the nested header of the page type.
fn header(page_type: i64, body: &[u8], details: Field<'static>) -> Fields {
    vec![i32(1, page_type), i32(2, body.len() as i64), i32(3, body.len() as i64), details]
}

fn page(header: Fields, body: &[u8]) -> Vec<u8> {
    [encoded(header), body.to_vec()].concat()
}

/// Returns the definition levels of a page without nulls, followed by `values`.
fn with_levels(values: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, (ROWS << 1) as u8, 1], values].concat()
}

fn plain_bytes() -> Vec<u8> {
    with_levels(&(1000..1008_i32).flat_map(i32::to_le_bytes).collect::<Vec<_>>())
}

fn data(encoding: i64) -> Fields {
    vec![i32(1, ROWS), i32(2, encoding), i32(3, 3), i32(4, 3)]
}

fn dictionary_page() -> Vec<u8> {
    let body = [1_i32, 2].map(i32::to_le_bytes).concat();
    page(header(2, &body, nested(7, vec![i32(1, 2), i32(2, 0)])), &body)
}

fn indices_page() -> Vec<u8> {
    // The last byte is padding. With it, the indices have the length of one plain INT32. So a
    // reader that takes the indices for plain values finds a whole number of values.
    let body = with_levels(&[1, 3, 0x55, 0]);
    page(header(0, &body, nested(5, data(8))), &body)
}

fn plain_page() -> Vec<u8> {
    page(header(0, &plain_bytes(), nested(5, data(0))), &plain_bytes())
}

fn index_page(body: &[u8]) -> Vec<u8> {
    page(header(1, body, nested(6, vec![])), body)
}

/// Returns a file with these pages. `dictionary` is the field `dictionary_page_offset`.
fn file(pages: &[Vec<u8>], num_data_pages: i64, dictionary: Option<i64>) -> Bytes {
    let rows = ROWS * num_data_pages;
    let data = 4 + if dictionary == Some(4) { pages[0].len() as i64 } else { 0 };
    file_of(&pages.concat(), [rows; 2], data, dictionary)
}

/// Returns a file with these pages, which have `num_values` values in `rows` rows.
fn file_of(chunk: &[u8], [num_values, rows]: [i64; 2], data: i64, dictionary: Option<i64>) -> Bytes {
    let len = chunk.len() as i64;
    let mut column = vec![
        i32(1, 1),
        list(2, 5, &[vec![0], vec![6], vec![16]]),
        list(3, 8, &[b"\x01c".to_vec()]),
        i32(4, 0),
        i64(5, num_values),
        i64(6, len),
        i64(7, len),
        i64(9, data),
    ];
    column.extend(dictionary.map(|offset| i64(11, offset)));
    let chunk_fields = encoded(vec![i64(2, 0), nested(3, column)]);
    let group = encoded(vec![list(1, 12, &[chunk_fields]), i64(2, len), i64(3, rows)]);
    let schema = [encoded(vec![text(4, "root"), i32(5, 1)]), encoded(vec![i32(1, 1), i32(3, 1), text(4, "c")])];
    let metadata = encoded(vec![i32(1, 1), list(2, 12, &schema), i64(3, rows), list(4, 12, &[group])]);
    let tail = [&(metadata.len() as u32).to_le_bytes()[..], b"PAR1"].concat();
    [b"PAR1", chunk, &metadata, &tail].concat().into()
}

fn hashes(file: Bytes) -> Result<BTreeSet<u64>, Error> {
    let mut found = BTreeSet::new();
    ParquetValues::open(file)?.for_each_hash(0, 0, &mut |batch| found.extend(batch))?;
    Ok(found)
}

fn expected(values: impl IntoIterator<Item = i32>) -> BTreeSet<u64> {
    values.into_iter().map(|value: i32| ParquetBloom::hash(&value.to_le_bytes())).collect()
}

fn assert_refused(file: Bytes, what: &str) {
    let found = hashes(file);
    assert!(matches!(found, Err(Error::Values { .. })), "{what}: {found:?}");
}

#[test]
fn index_pages_after_the_dictionary_are_skipped() {
    let all = expected((1000..1008).chain([1, 2]));
    let sound = [dictionary_page(), indices_page(), plain_page()];
    assert_eq!(hashes(file(&sound, 2, Some(4))).unwrap(), all);
    for at in 1..=3 {
        for body in [&b""[..], b"index"] {
            let mut pages = sound.to_vec();
            pages.insert(at, index_page(body));
            pages.insert(at, index_page(b"other"));
            assert_eq!(hashes(file(&pages, 2, Some(4))).unwrap(), all, "{at} {body:?}");
        }
    }
}

/// Returns a file whose last page, a plain page, has this header.
fn with_last_header(header: Fields) -> Bytes {
    file(&[dictionary_page(), indices_page(), page(header, &plain_bytes())], 2, Some(4))
}

#[test]
fn page_headers_with_duplicate_fields_are_refused() {
    let plain = header(0, &plain_bytes(), nested(5, data(0)));
    assert_eq!(hashes(with_last_header(plain.clone())).unwrap(), expected((1000..1008).chain([1, 2])));
    // Some readers use the first of two encodings, and others the last.
    let encodings: Fields = [vec![i32(1, ROWS), i32(2, 8)], data(0).split_off(1)].concat();
    assert_refused(with_last_header(header(0, &plain_bytes(), nested(5, encodings))), "encoding");
    for twice in plain.clone() {
        let id = twice.id;
        assert_refused(with_last_header([vec![twice], plain.clone()].concat()), &format!("field {id}"));
    }
    // The duplicate field is in the statistics, one level below the details.
    let statistics = nested(5, vec![i64(3, 0), i64(3, 1)]);
    let details = nested(5, [data(0), vec![statistics]].concat());
    assert_refused(with_last_header(header(0, &plain_bytes(), details)), "statistics");
}

#[test]
fn page_headers_with_other_field_types_are_refused() {
    let body = plain_bytes();
    let plain = header(0, &body, nested(5, data(0)));
    for at in 0..3 {
        let mut other = plain.clone();
        other[at].kind = Kind::I64;
        assert_refused(with_last_header(other), &format!("field {at} of the header"));
    }
    for at in 0..4 {
        let mut other = data(0);
        other[at].kind = Kind::I64;
        assert_refused(with_last_header(header(0, &body, nested(5, other))), &format!("field {at} of the details"));
    }
    // The low 32 bits are valid: encoding 0 is PLAIN, and `ROWS` is the number of values.
    for (at, field) in [(1, i32(2, 1 << 32)), (0, i32(1, ROWS + (1 << 32)))] {
        let mut other = data(0);
        other[at] = field;
        assert_refused(with_last_header(header(0, &body, nested(5, other))), &format!("long number {at}"));
    }
    // The header also has the details of a data page of version 2. Some readers take the lengths of
    // the levels from these details.
    let mut both = plain.clone();
    both.push(nested(8, vec![i32(1, ROWS), i32(2, 0), i32(3, ROWS), i32(4, 0), i32(5, 6), i32(6, 0)]));
    assert_refused(with_last_header(both), "details of two types");
}

#[test]
fn a_dictionary_offset_of_zero_means_no_dictionary() {
    let plain = [plain_page(), plain_page()];
    let bytes = file(&plain, 2, Some(0));
    assert_eq!(hashes(bytes.clone()).unwrap(), expected(1000..1008));
    let footer = Footer::read(&mut Cursor::new(&bytes)).unwrap();
    let len = plain.concat().len() as u64;
    assert_eq!(footer.chunk(0, 0).map(|chunk| (chunk.offset, chunk.len_bytes)), Some((4, len)));
}

#[test]
fn wrong_dictionary_offsets_are_refused() {
    // Some readers begin at the data page, and others at the offset of the dictionary.
    for offset in [-1, 1, 3, 60] {
        assert_refused(file(&[plain_page(), plain_page()], 2, Some(offset)), &offset.to_string());
    }
}

#[test]
fn pages_that_differ_from_their_lengths_are_refused() {
    let mut longer = header(0, &plain_bytes(), nested(5, data(0)));
    longer[1] = i32(2, plain_bytes().len() as i64 + 1);
    assert_refused(with_last_header(longer), "uncompressed length");
}

/// Returns a file of one row group without pages, in which the row group has `rows` rows.
fn without_pages(rows: i64) -> Bytes {
    file_of(&[], [0, rows], 0, None)
}

#[test]
fn an_empty_row_group_has_no_hashes_a_lost_chunk_fails() {
    assert_eq!(hashes(without_pages(0)).unwrap(), BTreeSet::new());
    assert!(ParquetValues::open(without_pages(0)).unwrap().has_only_nulls(0, 0));
    assert_refused(without_pages(8), "rows without values");
    assert!(!ParquetValues::open(without_pages(8)).unwrap().has_only_nulls(0, 0));
    let footer = Footer::read(&mut Cursor::new(&without_pages(0))).unwrap();
    assert_eq!(footer.chunk(0, 0).map(|chunk| (chunk.num_values, chunk.len_bytes)), Some((0, 0)));
}
