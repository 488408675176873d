//! Tests of footers and of Thrift structs.

use std::io::Cursor;
use std::sync::Arc;

use filterblock_parquet::index::ParquetColumn;
use filterblock_parquet::thrift::{Field, Kind, List, Struct};
use filterblock_parquet::{Error, Footer, PhysicalType};
use parquet::file::metadata::SortingColumn;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use crate::support::{HALF, Layout, PATHS, edited, in_row_groups, write, write_with};

fn footer_of(bytes: &[u8]) -> Result<Footer, Error> {
    Footer::read(&mut Cursor::new(bytes))
}

/// Returns the file with `metadata` in place of its own.
fn with_metadata(bytes: &[u8], metadata: &[u8]) -> Vec<u8> {
    let start = footer_of(bytes).unwrap().metadata_offset() as usize;
    [&bytes[..start], metadata, &(metadata.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

fn set_in_file(bytes: &[u8], field: Field<'_>) -> Vec<u8> {
    let footer = footer_of(bytes).unwrap();
    let mut file = Struct::parse(footer.metadata()).unwrap().0;
    file.set(field);
    let mut metadata = Vec::new();
    file.encode(&mut metadata);
    with_metadata(bytes, &metadata)
}

#[test]
fn columns_have_the_paths_and_types_of_the_schema() {
    let sample = write(&Layout::default());
    let footer = footer_of(&sample.bytes).unwrap();
    let paths: Vec<&str> = footer.leaves().iter().map(|leaf| &*leaf.path).collect();
    assert_eq!(paths, PATHS);
    assert_eq!(footer.leaves()[7].physical_type, Some(PhysicalType::FixedLenByteArray));
    assert_eq!((footer.num_row_groups(), footer.chunk(1, 0).unwrap().num_values), (2, 301));
    assert!(footer.chunk(2, 0).is_none() && footer.chunk(0, 14).is_none());
    assert_eq!(footer.file_len_bytes(), sample.bytes.len() as u64);
    let (all, wide) = (footer.ranges(&[0, 2, 99, 12]), [4, 8, 0, 8]);
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 0, 2]);
    for (leaf, (ranges, len)) in [0, 2, 99, 12].into_iter().zip(all.iter().zip(wide)) {
        assert!(ranges.iter().all(|(low, high)| (low.len(), high.len()) == (len, len)));
        assert_eq!(footer.ranges(&[leaf]).concat(), *ranges);
    }
}

#[test]
fn logical_types_have_the_texts_of_the_index() {
    // The physical type, its length, the logical type, the canonical text, and the bits of a signed
    // integer type. docs/INDEX_FORMAT.md lists the texts.
    let types = [
        ("int32", "", "", "", None),
        ("binary", "", "UTF8", "string", None),
        ("binary", "", "STRING", "string", None),
        ("binary", "", "ENUM", "enum", None),
        ("binary", "", "JSON", "json", None),
        ("binary", "", "BSON", "bson", None),
        ("binary", "", "DECIMAL(9,2)", "decimal(9,2)", None),
        ("int32", "", "INT_8", "", Some(8)),
        ("int32", "", "INT_16", "", Some(16)),
        ("int32", "", "INT_32", "", None),
        ("int32", "", "UINT_8", "uint8", None),
        ("int32", "", "UINT_16", "uint16", None),
        ("int32", "", "UINT_32", "uint32", None),
        ("int32", "", "DATE", "date", None),
        ("int32", "", "TIME_MILLIS", "time(ms,utc)", None),
        ("int32", "", "DECIMAL(9,2)", "decimal(9,2)", None),
        ("int32", "", "INTEGER(8,true)", "", Some(8)),
        ("int32", "", "INTEGER(16,false)", "uint16", None),
        ("int32", "", "INTEGER(32,true)", "", Some(32)),
        ("int32", "", "TIME(MILLIS,true)", "time(ms,utc)", None),
        ("int32", "", "TIME(MILLIS,false)", "time(ms,local)", None),
        ("int64", "", "INT_64", "", None),
        ("int64", "", "UINT_64", "uint64", None),
        ("int64", "", "TIME_MICROS", "time(us,utc)", None),
        ("int64", "", "TIMESTAMP_MILLIS", "timestamp(ms,utc)", None),
        ("int64", "", "TIMESTAMP_MICROS", "timestamp(us,utc)", None),
        ("int64", "", "DECIMAL(18,0)", "decimal(18,0)", None),
        ("int64", "", "INTEGER(64,false)", "uint64", None),
        ("int64", "", "TIMESTAMP(NANOS,true)", "timestamp(ns,utc)", None),
        ("int64", "", "TIMESTAMP(MICROS,false)", "timestamp(us,local)", None),
        ("int64", "", "TIME(NANOS,false)", "time(ns,local)", None),
        ("fixed_len_byte_array", "(16)", "UUID", "uuid", None),
        ("fixed_len_byte_array", "(16)", "DECIMAL(38,10)", "decimal(38,10)", None),
        ("fixed_len_byte_array", "(12)", "INTERVAL", "interval", None),
        ("fixed_len_byte_array", "(2)", "FLOAT16", "float16", None),
    ];
    let columns = types.iter().enumerate().map(|(number, (physical, len, logical, ..))| {
        let logical = if logical.is_empty() { String::new() } else { format!("({logical})") };
        format!("required {physical}{len} c{number} {logical};")
    });
    let schema = parse_message_type(&format!("message m {{ {} }}", columns.collect::<String>())).unwrap();
    let mut bytes = Vec::new();
    SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::default()).unwrap().close().unwrap();
    let footer = footer_of(&bytes).unwrap();
    assert_eq!(footer.leaves().len(), types.len());
    for (leaf, (_, _, name, text, bits)) in footer.leaves().iter().zip(types) {
        let found = ParquetColumn::find(footer.parsed(), &leaf.path).unwrap();
        assert_eq!((leaf.logical.as_str(), found.logical_type.as_str()), (text, text), "{name}");
        assert_eq!(found.integer_bits, bits, "{name}");
    }
}

#[test]
fn a_rewrite_without_changes_gives_the_same_bytes() {
    let sample = write(&Layout::default());
    let footer = footer_of(&sample.bytes).unwrap();
    let again = footer.rewrite(|_, _, filter| filter).unwrap();
    assert_eq!(again, sample.bytes[footer.metadata_offset() as usize..]);
}

#[test]
fn unknown_fields_survive_a_rewrite() {
    let sample = write(&Layout::default());
    // A list of two maps. The length of the first map is a varint with one byte too many.
    let strange = Field { id: 77, kind: Kind::LIST, value: vec![0x2b, 0x81, 0, 0x88, 1, b'a', 1, b'b', 0].into() };
    let bytes = set_in_file(&sample.bytes, strange.clone());
    let footer = footer_of(&bytes).unwrap();
    let range = Some(filterblock_parquet::FilterRange { offset: 5, len_bytes: Some(47) });
    let changed = footer.rewrite(|_, leaf, old| if leaf == 3 { range } else { old }).unwrap();
    let file = Struct::parse(&changed).unwrap().0;
    assert_eq!(file.get(77), Some(&strange));
    let changed = footer_of(&[&bytes[..footer.metadata_offset() as usize], &changed].concat()).unwrap();
    assert_eq!(changed.chunk(1, 3).unwrap().filter, range);
    assert_eq!(changed.chunk(1, 2).unwrap().filter, None);
}

#[test]
fn a_forced_column_is_marked_once_and_other_keys_stay() {
    let sample = write(&Layout::default());
    for num_keys in [0, 1, 14, 15, 16, 200] {
        let pairs = (0..num_keys).map(|key: u32| {
            let (mut pair, mut bytes) = (Struct::default(), Vec::new());
            pair.set_binary(1, format!("key {key}").as_bytes());
            pair.encode(&mut bytes);
            bytes
        });
        let pairs: Vec<Vec<u8>> = pairs.collect();
        let mut list = Vec::new();
        List::encode(Kind::STRUCT, &pairs.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut list);
        let bytes = set_in_file(&sample.bytes, Field { id: 5, kind: Kind::LIST, value: list.into() });
        let marked = |bytes: &[u8], forced: &[usize]| {
            let footer = footer_of(bytes).unwrap();
            let new = footer.rewrite_marked(|_, _, filter| filter, forced).unwrap();
            [&bytes[..footer.metadata_offset() as usize], &new].concat()
        };
        // Column 0 has no loss, and there is no column 99.
        assert_eq!(marked(&bytes, &[0, 99]), bytes);
        let once = marked(&bytes, &[0, HALF]);
        assert_eq!(marked(&once, &[HALF]), once);
        let footer = footer_of(&once).unwrap();
        assert_eq!((0..PATHS.len()).filter(|&leaf| footer.is_forced(leaf)).collect::<Vec<_>>(), [HALF]);
        let file = Struct::parse(footer.metadata()).unwrap().0;
        let found = file.list(5).unwrap();
        assert_eq!(found.elements[..pairs.len()], pairs);
        let mark = Struct::parse(found.elements[pairs.len()]).unwrap().0;
        assert_eq!(mark.binary(1), Some(&b"filterblock.forced_type:half"[..]));
        assert_eq!((mark.binary(2), found.elements.len()), (Some(&b"float16"[..]), pairs.len() + 1));
    }
}

#[test]
fn an_empty_list_may_have_no_type() {
    let sample = write(&Layout::default());
    // fastparquet writes an empty list without a type as the key-value metadata of each chunk.
    let untyped = Field { id: 77, kind: Kind::LIST, value: vec![0].into() };
    let bytes = set_in_file(&sample.bytes, untyped.clone());
    let footer = footer_of(&bytes).unwrap();
    let again = footer.rewrite(|_, _, filter| filter).unwrap();
    assert_eq!(again, bytes[footer.metadata_offset() as usize..]);
    let file = Struct::parse(&again).unwrap().0;
    assert_eq!(file.list(77).map(|list| list.elements.len()), Some(0));
    // A list with elements needs their type.
    let untyped = Field { value: vec![0x10, 0].into(), ..untyped };
    assert!(matches!(footer_of(&set_in_file(&sample.bytes, untyped)), Err(Error::Corrupt { .. })));
}

#[test]
fn an_unusual_encoding_is_refused() {
    let sample = write(&Layout::default());
    let metadata = footer_of(&sample.bytes).unwrap().metadata().to_vec();
    // The first field has its number in a byte of its own.
    let unusual = [&[metadata[0] & 15, 2], &metadata[1..]].concat();
    let refused = footer_of(&with_metadata(&sample.bytes, &unusual));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.ends_with("would not keep; write the file again with a common Parquet writer"), "{refused}");
    // The first field comes twice.
    let (file, _) = Struct::parse(&metadata).unwrap();
    let twice = Struct { fields: file.fields[..1].iter().chain(&file.fields).cloned().collect() };
    let mut bytes = Vec::new();
    twice.encode(&mut bytes);
    let refused = footer_of(&with_metadata(&sample.bytes, &bytes));
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    // Bytes follow the metadata.
    let refused = footer_of(&with_metadata(&sample.bytes, &[&metadata[..], &[0]].concat()));
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

#[test]
fn encrypted_files_and_metadata_files_are_refused() {
    let sample = write(&Layout::default());
    let mut hidden = sample.bytes.to_vec();
    let end = hidden.len();
    hidden[end - 4..].copy_from_slice(b"PARE");
    for (bytes, word) in [
        (hidden, "footer is encrypted"),
        (set_in_file(&sample.bytes, Field { id: 8, kind: Kind::STRUCT, value: vec![0].into() }), "encrypted or signed"),
        (
            in_first_chunk(&sample.bytes, &Field { id: 8, kind: Kind::STRUCT, value: vec![0].into() }),
            "number is encrypted",
        ),
        (
            in_first_chunk(&sample.bytes, &Field { id: 1, kind: Kind::BINARY, value: vec![1, b'x'].into() }),
            "other files",
        ),
    ] {
        let error = footer_of(&bytes).unwrap_err();
        assert!(matches!(&error, Error::Unsupported { .. }) && error.to_string().contains(word), "{error}");
    }
}

/// Returns the file with `field` set in the first column chunk.
fn in_first_chunk(bytes: &[u8], field: &Field<'static>) -> Vec<u8> {
    in_row_groups(bytes, |row_group, group| {
        let columns = edited(group, 1, &mut |leaf, chunk| {
            if (row_group, leaf) == (0, 0) {
                chunk.set(field.clone());
            }
        });
        group.set(columns);
    })
}

#[test]
fn a_file_is_sorted_only_if_all_its_row_groups_are() {
    let by = |column_idx| Some(vec![SortingColumn { column_idx, descending: false, nulls_first: false }]);
    let layout = Layout { rows: vec![9, 9, 9], ..Layout::default() };
    let sample = write_with(&layout, |builder| builder.set_sorting_columns(by(2)));
    let sorted = |bytes: &[u8]| {
        let footer = footer_of(bytes).unwrap();
        (0..PATHS.len()).filter(|&leaf| footer.is_sorted_by(leaf)).collect::<Vec<_>>()
    };
    assert_eq!(sorted(&sample.bytes), [2]);
    for unsorted in 0..3 {
        let without = |number: usize, group: &mut Struct<'_>| {
            if number == unsorted {
                group.fields.retain(|field| field.id != 4);
            }
        };
        let bytes = in_row_groups(&sample.bytes, without);
        assert!(sorted(&bytes).is_empty(), "row group {unsorted} is not sorted");
        // A row group without rows needs no sorting. The sum of the rows stays.
        let set_rows = |number: usize, group: &mut Struct<'_>| {
            let rows = [0, 13, 14][(number + 3 - unsorted) % 3];
            group.set_int(3, Kind::I64, rows);
        };
        assert_eq!(sorted(&in_row_groups(&bytes, set_rows)), [2], "row group {unsorted} is empty");
    }
    // The row groups have different sortings.
    let other = footer_of(&write_with(&layout, |builder| builder.set_sorting_columns(by(1))).bytes).unwrap();
    let file = Struct::parse(other.metadata()).unwrap().0;
    let order = Struct::parse(file.list(4).unwrap().elements[0]).unwrap().0.get(4).unwrap().value.to_vec();
    let mixed = in_row_groups(&sample.bytes, |number, group| {
        if number == 1 {
            group.set(Field { id: 4, kind: Kind::LIST, value: order.clone().into() });
        }
    });
    assert!(sorted(&mixed).is_empty());
}

/// Returns metadata whose schema has one group of `num` leaves. The name of the group has `len`
/// bytes.
fn metadata_of_group(len: usize, num: usize) -> Vec<u8> {
    let element = |name: &[u8], fields: &[(i16, usize)]| {
        let mut element = Struct::default();
        fields.iter().for_each(|&(id, value)| element.set_int(id, Kind::I32, value as i64));
        let value = [&varint(name.len()), name].concat();
        element.set(Field { id: 4, kind: Kind::BINARY, value: value.into() });
        let mut out = Vec::new();
        element.encode(&mut out);
        out
    };
    let mut schema = [vec![0xfc], varint(num + 2), element(b"root", &[(5, 1)])].concat();
    schema.extend(element(&vec![b'g'; len], &[(5, num)]));
    (0..num).for_each(|leaf| schema.extend(element(format!("x{leaf}").as_bytes(), &[(1, 1)])));
    let mut file = Struct::default();
    file.set_int(1, Kind::I32, 1);
    file.set(Field { id: 2, kind: Kind::LIST, value: schema.into() });
    file.set_int(3, Kind::I64, 0);
    file.set(Field { id: 4, kind: Kind::LIST, value: vec![0x0c].into() });
    let mut out = Vec::new();
    file.encode(&mut out);
    out
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

#[test]
fn paths_much_longer_than_the_metadata_are_refused() {
    let sound = Footer::parse(metadata_of_group(200, 5000), 4).unwrap();
    assert_eq!((sound.leaves().len(), sound.leaves()[4999].path.len()), (5000, 200 + 6));
    for (len, num) in [(1 << 20, 30), (100_000, 60), (2000, 5000)] {
        let refused = Footer::parse(metadata_of_group(len, num), 4);
        assert!(matches!(&refused, Err(Error::Unsupported { .. })), "{len} {num}");
        assert!(refused.unwrap_err().to_string().contains("shorter names"));
    }
}

#[test]
fn messages_show_the_start_of_a_long_name() {
    let column = "\u{e9}".repeat(5000);
    for error in [
        Error::Values { row_group: 0, column: column.clone(), reason: "none".into() },
        Error::Denied { row_group: 0, column, values: 1 },
    ] {
        let text = error.to_string();
        assert!(text.contains(&format!("column {}...: ", "\u{e9}".repeat(100))) && text.len() < 500, "{text}");
    }
}

#[test]
fn files_that_are_not_parquet_are_refused() {
    for bytes in [&b""[..], b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"PAR1\x01\0\0\0PAR1", &[0; 100]] {
        assert!(matches!(footer_of(bytes), Err(Error::Corrupt { .. })), "{bytes:x?}");
    }
}

#[test]
fn fields_of_every_type_are_kept() {
    // A flag, a byte, an integer, a double, a text, a list of two flags, a list of twenty integers, a
    // map, an empty map, a struct in a struct, a UUID, and an integer with the field number 1000.
    let mut bytes =
        vec![0x11, 0x13, 7, 0x15, 0x80, 0x01, 0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0x18, 2, b'a', b'b', 0x19, 0x21, 1];
    bytes.extend([2, 0x19, 0xf5, 20]);
    bytes.extend([1; 20]);
    bytes.extend([0x1b, 1, 0x58, 3, 1, b'x', 0x1b, 0, 0x1c, 0x1c, 0, 0, 0x1d]);
    bytes.extend([0; 16]);
    bytes.extend([0x05, 0xd0, 0x0f, 42, 0]);
    let (found, len) = Struct::parse(&bytes).unwrap();
    let ids: Vec<i16> = found.fields.iter().map(|field| field.id).collect();
    assert_eq!((ids, len), (vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1000], bytes.len()));
    assert_eq!((found.int(3), found.int(1000), found.binary(5)), (Some(64), Some(21), Some(&b"ab"[..])));
    let mut again = Vec::new();
    found.encode(&mut again);
    assert_eq!(again, bytes);
    assert!((0..bytes.len()).all(|len| Struct::parse(&bytes[..len]).is_err()));
}

#[test]
fn values_nested_too_deeply_or_without_end_are_an_error() {
    let endless = [0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1];
    let mut beyond = Struct::default();
    beyond.set_int(i16::MAX, Kind::I32, 1);
    let mut number = Vec::new();
    beyond.encode(&mut number);
    number.splice(number.len() - 1.., [0x15, 2, 0]);
    for (name, bytes) in [
        ("structs in structs", &[0x1c; 1000][..]),
        ("lists in lists", &[0x19; 1000]),
        ("2^64 - 1 flags", &endless),
        ("no such type", &[0x1e, 0]),
        ("no such number", &number),
        ("more fields than numbers", &[&[1, 0].repeat((1 << 16) + 1)[..], &[0]].concat()),
        ("a list of one element without a type", &[0x19, 0x10, 0, 0]),
        ("a long list without a type", &[0x19, 0xf0, 1, 0, 0]),
    ] {
        assert!(Struct::parse(bytes).is_err(), "{name}");
    }
    assert!(Struct::parse(&[&[1, 0].repeat(1 << 16)[..], &[0]].concat()).is_ok());
}

/// Generates values of every type of the protocol except maps: the type and the encoded bytes.
fn value() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let leaf = prop_oneof![
        Just((1, vec![])),
        Just((2, vec![])),
        any::<u8>().prop_map(|byte| (3, vec![byte])),
        (4_u8..=6, any::<i64>()).prop_map(|(kind, number)| (kind, int(number))),
        any::<[u8; 8]>().prop_map(|bytes| (7, bytes.to_vec())),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| (8, [vec![bytes.len() as u8], bytes].concat())),
        any::<[u8; 16]>().prop_map(|bytes| (13, bytes.to_vec())),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec((1_u8..=15, inner.clone()), 0..5).prop_map(|fields| {
                let fields =
                    fields.iter().flat_map(|(delta, (kind, value))| [&[delta << 4 | kind], &value[..]].concat());
                (12, fields.chain([0]).collect())
            }),
            (inner, 0_usize..20, 9_u8..=10).prop_map(|((kind, value), len, list)| {
                // In a list, a Boolean takes one byte.
                let element = if value.is_empty() { vec![kind] } else { value };
                let header = if len < 15 { vec![(len as u8) << 4 | kind] } else { vec![0xf0 | kind, len as u8] };
                (list, [header, element.repeat(len)].concat())
            }),
        ]
    })
}

fn int(number: i64) -> Vec<u8> {
    let mut zigzag = ((number << 1) ^ (number >> 63)) as u64;
    let mut bytes = Vec::new();
    while zigzag >= 128 {
        bytes.push(zigzag as u8 | 128);
        zigzag >>= 7;
    }
    bytes.push(zigzag as u8);
    bytes
}

proptest! {
    #[test]
    fn structs_of_any_values_round_trip(fields in prop::collection::vec((1_u8..=15, value()), 0..12), rest: [u8; 3]) {
        let mut bytes: Vec<u8> =
            fields.iter().flat_map(|(delta, (kind, value))| [&[delta << 4 | kind], &value[..]].concat()).collect();
        bytes.push(0);
        let with_rest = [&bytes[..], &rest].concat();
        let (parsed, len) = Struct::parse(&with_rest).unwrap();
        prop_assert_eq!((parsed.fields.len(), len), (fields.len(), bytes.len()));
        let mut again = Vec::new();
        parsed.encode(&mut again);
        prop_assert_eq!(&again, &bytes);
        for cut in 0..bytes.len() {
            prop_assert!(Struct::parse(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn set_integers_read_back_and_others_stay(
        ids in prop::collection::btree_set(any::<i16>(), 0..9), id: i16, number: i64,
    ) {
        let fields = ids.iter().map(|&id| Field { id, kind: Kind::I64, value: int(id.into()).into() }).collect();
        let mut all = Struct { fields };
        all.set_int(id, Kind::I64, number);
        let mut bytes = Vec::new();
        all.encode(&mut bytes);
        let (again, _) = Struct::parse(&bytes).unwrap();
        prop_assert!(!again.has_duplicates());
        prop_assert_eq!(again.int(id), Some(number));
        prop_assert!(ids.iter().filter(|other| **other != id).all(|&other| again.int(other) == Some(other.into())));
    }

    #[test]
    fn any_bytes_parse_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((found, len)) = Struct::parse(&bytes) {
            prop_assert!(len <= bytes.len());
            let _ = (found.list(1), found.int(2), found.binary(3));
        }
        let _ = Footer::parse(bytes, 4);
    }
}
