//! Looks up keys in the opened file, as `filterblock query` does. A person has typed the keys.

use std::cell::RefCell;
use std::rc::Rc;

use filterblock::Added;
use filterblock_foreign::leveldb::LevelDbBloom;
use filterblock_foreign::rocksdb::{RocksDbFilter, RocksDbFilterLayout, RocksDbTable};
use filterblock_parquet::index::{Answer, IndexReader, KeyType, ReadAt, hash};
use filterblock_parquet::written::{ColumnType, Encoding, ValueType};
use filterblock_parquet::{Leaf, ParquetBloom, ParquetColumnChunk, PhysicalType};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::file::{Block, Content, Opened, Parquet, Raw};
use crate::plan::typed;
use charts::text;

/// The keys that a person has typed, and how to look them up.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Question {
    keys: Vec<String>,
    /// Whether the keys are written as hexadecimal digits.
    hex: bool,
    /// Whether the keys are prefixes, as the filter's extractor takes them from whole keys.
    prefixes: bool,
    /// The column of a Parquet file, or `None` for the only column with filters.
    column: Option<String>,
    /// The number of a row group as a person has typed it, or `None` for all row groups.
    row_group: Option<String>,
    /// The type of Parquet values.
    value_type: Option<String>,
}

/// The answer for one key.
#[derive(Debug, Default)]
struct Found {
    maybe: bool,
    /// The files of an index or the row groups of a Parquet file that may hold the key.
    places: Option<Vec<String>>,
    doubt: Option<String>,
}

impl Found {
    fn new(maybe: bool) -> Self {
        Self { maybe, ..Self::default() }
    }
}

type Ask<'a> = Box<dyn Fn(&[u8]) -> Result<Found, String> + 'a>;

/// Answers each key with `maybe` or `absent`, or with an error if the key is not valid, for example
/// not a value of the column. `remark` is a warning about all answers, for example that the file
/// has no filter.
pub(crate) fn answer(opened: &Opened, question: &Question) -> Result<Value, String> {
    if question.value_type.is_some() && question.hex {
        return Err(
            "a type does not apply to keys in hexadecimal digits; omit the type, or write the keys as text".to_owned()
        );
    }
    let (ask, remark) = asker(opened, question).map_err(in_page)?;
    let ask = |key: &[u8]| ask(key).map_err(in_page);
    let answers = question.keys.iter().map(|written| match bytes_of(written, question.hex).and_then(|key| ask(&key)) {
        Ok(found) => json!({
            "key": written,
            "answer": if found.maybe { "maybe" } else { "absent" },
            "places": found.places,
            "doubt": found.doubt,
        }),
        Err(why) => json!({ "key": written, "error": why }),
    });
    Ok(json!({ "answers": answers.collect::<Vec<_>>(), "remark": remark }))
}

/// Replaces the options of the command in a message by words for the fields of the page.
fn in_page(why: String) -> String {
    let why = why.replace("with --hex", "in hexadecimal digits").replace("with --type", "as type");
    why.replace("omit --type", "omit the type").replace("--type", "the type")
}

fn bytes_of(written: &str, hex: bool) -> Result<Vec<u8>, String> {
    if !hex {
        return Ok(written.as_bytes().to_vec());
    }
    let mut bytes = Vec::new();
    let bad = |at| format!("no hexadecimal digit at position {at}; give two digits for each byte");
    text::unhex(written.trim().as_bytes(), &mut bytes).map(|()| bytes).map_err(bad)
}

const HOLDS_NONE: &str =
    "the filter is too short to hold keys, or truncated; its engine answers \"absent\" to every key, so check the file";
const NO_FILTER: &str = "the table has no filter that the page knows, so every answer is \"maybe\"";
const NO_LEVELDB_FILTER: &str =
    "the table has no filter that the page knows, so only a key after its last data block can be absent";

/// Returns a function that looks up a key in the file. Also returns a remark about all answers, or
/// `None`.
fn asker<'a>(opened: &'a Opened, question: &Question) -> Result<(Ask<'a>, Option<String>), String> {
    let prefixes = question.prefixes;
    let value_type = question.value_type.as_deref().map(|name| {
        ValueType::from_name(name).ok_or_else(|| {
            format!("unknown type {name:?}; expected int32, int64, uint32, uint64, float, double, utf8, bytes or uuid")
        })
    });
    let value_type = value_type.transpose()?;
    let is_typed = matches!(opened.content, Content::Parquet(_) | Content::Index(_) | Content::Raw(Raw::Parquet, _));
    if value_type.is_some() && !is_typed {
        return Err(format!("a type is for Parquet values, and this is a {}; omit the type", opened.kind()));
    }
    let has_prefixes = match &opened.content {
        Content::RocksDb(table) => table.properties().extractor().is_some(),
        Content::Raw(format, _) => *format == Raw::RocksDb,
        Content::Block(_) => true,
        _ => false,
    };
    if prefixes && !has_prefixes {
        return Err("the file has no filter of prefixes that the page can ask; ask for whole keys".to_owned());
    }
    Ok(match &opened.content {
        Content::Block(block) => of_block(block, prefixes)?,
        Content::LevelDb(table) => {
            let remark = (!table.has_known_filters()).then(|| NO_LEVELDB_FILTER.to_owned());
            (Box::new(|key| Ok(Found::new(table.may_contain(key)))), remark)
        }
        Content::RocksDb(table) => of_rocksdb(table, prefixes),
        Content::Raw(Raw::LevelDb, bytes) => {
            let filter = LevelDbBloom::new(bytes);
            let holds_none = filter.info().payload_len_bytes == 0 && !filter.may_contain(b"");
            (Box::new(move |key| Ok(Found::new(filter.may_contain(key)))), holds_none.then(|| HOLDS_NONE.to_owned()))
        }
        Content::Raw(Raw::RocksDb, bytes) => {
            let filter = RocksDbFilter::new(bytes);
            let holds_none = filter.kind().is_none() && !filter.may_contain(b"");
            (Box::new(move |key| Ok(Found::new(filter.may_contain(key)))), holds_none.then(|| HOLDS_NONE.to_owned()))
        }
        Content::Raw(Raw::Parquet, bytes) => {
            let encoding = match (question.hex, value_type) {
                (true, _) => Encoding::Plain(None),
                (false, Some(kind)) => Encoding::Typed(kind),
                (false, None) => {
                    return Err("a bare filter does not record the type of its values; choose the type, or give the \
                                plain encoding in hexadecimal digits"
                        .to_owned());
                }
            };
            let filter = ParquetBloom::parse(bytes).map_err(|error| error.to_string())?;
            let ask = move |key: &[u8]| encoding.ask(key, |value| filter.may_contain(value)).map(Found::new);
            (Box::new(ask), None)
        }
        Content::Parquet(file) => of_column(file, question, value_type)?,
        Content::Index(index) => of_index(index, question.hex, value_type)?,
    })
}

fn of_rocksdb<'a>(table: &'a RocksDbTable<Vec<u8>>, prefixes: bool) -> (Ask<'a>, Option<String>) {
    let is_known = matches!(table.filter_layout(), RocksDbFilterLayout::Full | RocksDbFilterLayout::Partitioned(1..));
    let remark = match (is_known, table.properties().knows_no_entry(), table.native_hash()) {
        (false, ..) => Some(NO_FILTER),
        (_, true, _) => {
            Some("the filters hold neither whole keys nor prefixes of a known extractor, so every answer is \"maybe\"")
        }
        (_, _, Some(hash)) if hash.fingerprint.is_some() => {
            Some("the keys were hashed with a secret, which the page does not take, so every answer is \"maybe\"")
        }
        _ => None,
    };
    let ask = move |key: &[u8]| match prefixes {
        true => table.prefix_may_match(key),
        false => table.may_contain(key),
    };
    (Box::new(move |key| Ok(Found::new(ask(key)))), remark.map(str::to_owned))
}

fn of_block(block: &Block, prefixes: bool) -> Result<(Ask<'_>, Option<String>), String> {
    let filter = match &block.asked {
        Ok(filter) => filter,
        Err(why) => {
            return Ok((Box::new(|_| Ok(Found::new(true))), Some(why.clone())));
        }
    };
    let found = filter.metadata();
    match (prefixes, found.added) {
        (false, Added::Prefixes) => return Err("this filter holds prefixes of keys only; ask for prefixes".to_owned()),
        (true, Added::WholeKeys | Added::Ranges) => {
            return Err("this filter holds whole keys only; ask for whole keys".to_owned());
        }
        _ => {}
    }
    let extractor = found.extractor.unwrap_or_default().to_owned();
    let is_of_ranges = found.added == Added::Ranges;
    // The page asks by hash, as the command does. It cannot choose a partition by the order of
    // keys, because it does not know the order that the writer used.
    let ask = move |key: &[u8]| match prefixes {
        true => filter.may_contain_prefix(&extractor, filter.hasher().key(key)),
        // A range filter needs the bytes of a key.
        false if is_of_ranges => filter.may_contain(filter.hasher().key(key)),
        false => filter.may_contain_hash(filter.hasher().of(key)),
    };
    Ok((Box::new(move |key| Ok(Found::new(ask(key)))), None))
}

/// A chunk of the asked column and the bytes of its filter. A chunk without a filter (`Ok(None)`)
/// and a chunk whose filter cannot be used (`Err`) answer "maybe".
type Chunk<'a> = (&'a ParquetColumnChunk, Result<Option<Rc<[u8]>>, String>);

fn of_column<'a>(
    file: &'a Parquet,
    question: &Question,
    value_type: Option<ValueType>,
) -> Result<(Ask<'a>, Option<String>), String> {
    let chunks = chunks_of(file, question)?;
    let column = chunks.first().map_or("", |chunk| &*chunk.path);
    let refused = |why: String| format!("column {column:?} {why}");
    let leaf = chunks.first().and_then(|chunk| file.metadata.leaves().get(chunk.leaf));
    let encoding = match (leaf.and_then(Leaf::column_type), leaf.and_then(|leaf| leaf.physical_type)) {
        (Some(of), _) => of.encoding(question.hex, value_type).map_err(refused)?,
        (None, Some(_)) => {
            let why = "has values of an unknown length; check the file with the engine that wrote it";
            return Err(refused(why.to_owned()));
        }
        (None, None) if question.hex => Encoding::Plain(None),
        (None, None) => {
            let why = "has an unknown type; give values in plain encoding, in hexadecimal digits";
            return Err(refused(why.to_owned()));
        }
    };
    let filters: Vec<Chunk<'_>> =
        chunks.iter().filter(|chunk| !chunk.is_empty()).map(|chunk| (*chunk, file.filter(chunk))).collect();
    let remark = filters.iter().find_map(|(chunk, filter)| match filter {
        Ok(Some(bytes)) => {
            let parsed = file.metadata.parse_filter(chunk, bytes).ok()?;
            (parsed.num_blocks() == 0).then(|| {
                "no bit is set in a filter of the column, but its row group may have values, so every value may be \
                 present"
                    .to_owned()
            })
        }
        Ok(None) => Some("a chunk of the column has no filter, so every value may be present".to_owned()),
        Err(why) => Some(format!("a filter of the column cannot be used, so every value may be present: {why}")),
    });
    let ask = move |key: &[u8]| {
        let places = RefCell::new(Vec::new());
        encoding.ask(key, |value| {
            for (chunk, filter) in &filters {
                let bytes = filter.as_ref().ok().and_then(Option::as_deref);
                // A missing or unusable filter denies no value.
                let parsed = bytes.and_then(|bytes| file.metadata.parse_filter(chunk, bytes).ok());
                if parsed.is_none_or(|filter| filter.may_contain(value)) {
                    places.borrow_mut().push(chunk.row_group);
                }
            }
            // A zero of type float or double has two encodings. The answer false makes
            // `Encoding::ask` look up both, so that no row group with zeros is missing.
            false
        })?;
        let mut places = places.into_inner();
        places.sort_unstable();
        places.dedup();
        let maybe = !places.is_empty();
        let places = places.into_iter().map(|row_group| format!("row group {row_group}")).collect();
        Ok(Found { maybe, places: Some(places), doubt: None })
    };
    Ok((Box::new(ask), remark))
}

/// Returns the chunks of the chosen column, or of the only column with filters. If a row group is
/// chosen, returns only its chunk.
fn chunks_of<'a>(file: &'a Parquet, question: &Question) -> Result<Vec<&'a ParquetColumnChunk>, String> {
    let groups = file.metadata.num_row_groups();
    if groups == 0 {
        return Err("the file has no row groups, so it has no values".to_owned());
    }
    let expected = "a whole number; write 0, or nothing for all row groups";
    let row_group = question.row_group.as_deref().map(|text| typed("row group", text, text::parse_whole, expected));
    let row_group = row_group.transpose()?.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    if row_group.is_some_and(|number| number >= groups) {
        return Err(format!(
            "no such row group: the file has {}; give a number from 0",
            text::count(groups as u64, "row group")
        ));
    }
    let is_group = |chunk: &&ParquetColumnChunk| row_group.is_none_or(|number| number == chunk.row_group);
    let chunks = || file.metadata.column_chunks().iter().filter(is_group);
    let path = match &question.column {
        Some(column) => column.as_str(),
        None => {
            let with_filter = || chunks().filter(|chunk| chunk.filter.is_some());
            let first = with_filter().next().ok_or(
                "no selected column chunk has a filter, so every value may be present; query a file with filters",
            )?;
            if with_filter().any(|chunk| chunk.path != first.path) {
                return Err("several columns have filters; choose one".to_owned());
            }
            &first.path
        }
    };
    let chunks: Vec<_> = chunks().filter(|chunk| *chunk.path == *path).collect();
    if chunks.is_empty() {
        return Err(format!("no column {path:?}; choose one of the file"));
    }
    // Column names may contain dots. The filter of another column with the same path could deny
    // present values.
    if chunks.windows(2).any(|pair| matches!(pair, [one, next] if one.row_group == next.row_group)) {
        return Err(format!(
            "several columns have the path {path:?}, so every value may be present; rename one of them"
        ));
    }
    Ok(chunks)
}

fn of_index<'a, R: ReadAt>(
    index: &'a IndexReader<R>,
    hex: bool,
    value_type: Option<ValueType>,
) -> Result<(Ask<'a>, Option<String>), String> {
    let settings = index.settings();
    let encoding = match settings.key_type {
        KeyType::Parquet { physical_type, type_len_bytes } => {
            let is_fixed = physical_type == PhysicalType::FixedLenByteArray;
            let len_bytes = usize::try_from(type_len_bytes).ok().filter(|_| is_fixed);
            let logical = settings.logical_type.as_str();
            let column = ColumnType { physical: physical_type, len_bytes, logical, integer_bits: None };
            column.encoding(hex, value_type).map_err(|why| format!("column {:?} {why}", settings.column))?
        }
        _ if value_type.is_some() => return Err("a type is for Parquet values; omit the type".to_owned()),
        _ => Encoding::Plain(None),
    };
    let ask = move |key: &[u8]| {
        let (all, doubt) = (RefCell::new(Vec::new()), RefCell::new(None));
        encoding.ask(key, |value| {
            let (mut buffer, mut files) = (Vec::new(), Vec::new());
            if index.candidates(hash(value), &mut buffer, &mut files) == Answer::Degraded {
                let why = "the row of this key is damaged or cannot be read, so every file may hold the key";
                *doubt.borrow_mut() = Some(why.to_owned());
            }
            all.borrow_mut().extend(files);
            // The answer false makes `Encoding::ask` look up every encoding of the value.
            false
        })?;
        let mut files = all.into_inner();
        files.sort_unstable();
        files.dedup();
        let names = files.iter().filter_map(|&file| index.files().get(file));
        let places = names.map(|file| file.identity.path.display().to_string()).collect();
        Ok(Found { maybe: !files.is_empty(), places: Some(places), doubt: doubt.into_inner() })
    };
    Ok((Box::new(ask), None))
}
