//! Makes the reports of `filterblock inspect` and `filterblock verify` about the opened file.

use filterblock::ParsedBlock;
use filterblock_foreign::leveldb::LevelDbTable;
use serde::Serialize;
use serde_json::{Value, json};

use crate::file::{Content, Opened, Parquet};
use charts::text::{count, distinct, thousands};
use filterblock_report::{FileReport, block_report, fields, index_report};

/// The maximum number of unreadable Parquet filters that notes name.
const NAMED_MAX: usize = 10;

/// Returns what `inspect --json` prints, with additional fields. `columns` lists the columns of a
/// Parquet file that have filters. `doubt` says why a filter block cannot be queried. Every key may
/// be present in such a block. For an index, which `inspect` does not read, the fields are the
/// settings and the files.
pub(crate) fn inspect(opened: &Opened) -> Value {
    let name = &opened.name;
    let mut report = match &opened.content {
        Content::Block(block) => of_block(name, &block.locked),
        Content::Index(index) => of_index(name, index),
        _ => of_foreign(opened),
    };
    report["type"] = json!(opened.kind());
    if let Content::Block(block) = &opened.content {
        report["doubt"] = json!(block.asked.as_ref().err());
    }
    report
}

pub(crate) fn value(report: &impl Serialize) -> Value {
    serde_json::to_value(report).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

fn of_block<D: AsRef<[u8]>>(name: &str, block: &ParsedBlock<D>) -> Value {
    match fields(block, &block.metadata()) {
        Ok(fields) => block_report(name, block, &fields),
        Err(error) => json!({ "error": format!("{name}: {error}") }),
    }
}

fn of_index<R: crate::ReadAt>(name: &str, index: &filterblock_parquet::index::IndexReader<R>) -> Value {
    let unchecked = "the page cannot check whether the files have changed since they were indexed; the command can";
    index_report(json!({ "file": name, "notes": [unchecked] }), index)
}

fn of_foreign(opened: &Opened) -> Value {
    let mut report = FileReport::new(opened.name.clone(), opened.kind(), opened.len_bytes);
    let mut columns = Value::Null;
    match &opened.content {
        Content::LevelDb(table) => {
            report.add_leveldb(table);
            if table.key_forms().count() > 1 {
                report.notes.push("to count the keys, choose what the LevelDB keys are".to_owned());
            }
            report.notes.extend(unusable_filters(table));
        }
        Content::RocksDb(table) => report.add_rocksdb(table),
        Content::Parquet(file) => {
            add_parquet(&mut report, file);
            columns = columns_of(file);
        }
        Content::Raw(format, bytes) => report.add_raw(&format.info(bytes)),
        Content::Block(_) | Content::Index(_) => {}
    }
    report.summarise();
    let mut report = value(&report);
    if !columns.is_null() {
        report["columns"] = columns;
    }
    report
}

fn unusable_filters(table: &LevelDbTable<Vec<u8>>) -> Option<String> {
    let (all, unusable @ 1..) = table.count_unusable_filters() else { return None };
    Some(format!(
        "{} of {} cannot be used, so they answer \"maybe\": damage, or another seed, hash function or secret, which \
         the page does not take",
        thousands(unusable),
        count(all, "filter"),
    ))
}

/// Adds the filters of all chunks, but stops if the filters together are longer than the file. A
/// filter that cannot be read becomes a note, because the other filters still answer.
fn add_parquet(report: &mut FileReport, file: &Parquet) {
    let chunks = file.metadata.column_chunks();
    let mut notes = Vec::new();
    for chunk in chunks {
        let bytes = file.filter(chunk).unwrap_or_else(|why| {
            notes.push(format!("{why}; every value of its chunk may be present"));
            None
        });
        let filter = bytes.as_ref().and_then(|bytes| file.metadata.parse_filter(chunk, bytes).ok());
        if !report.add_chunk(chunk, filter.as_ref()) {
            break;
        }
    }
    report.end_parquet(file.metadata.num_row_groups(), chunks.len());
    let many = notes.len().saturating_sub(NAMED_MAX);
    report.notes.extend(notes.into_iter().take(NAMED_MAX));
    if many > 0 {
        report.notes.push(format!("and {} more cannot be read", count(many as u64, "filter")));
    }
}

/// Returns the distinct paths of columns with a filter.
fn columns_of(file: &Parquet) -> Value {
    let with_filter = file.metadata.column_chunks().iter().filter(|chunk| chunk.filter.is_some());
    json!(distinct(with_filter.map(|chunk| &*chunk.path)))
}

/// Verifies the file, as `verify --json` does, or an index as `index verify` does. Of a Parquet
/// file, only the filters are read.
pub(crate) fn verify(opened: &Opened) -> Value {
    let sound = |walked: Value| json!({ "sound": true, "damage": null, "walked": walked });
    let damaged = |why: String| json!({ "sound": false, "damage": why });
    let walked = |result: Result<filterblock_foreign::Verified, filterblock_foreign::Error>| match result {
        Ok(found) => sound(json!({ "blocks": found.blocks, "keys": found.keys, "denied_keys": found.denied_keys })),
        Err(error) => damaged(error.to_string()),
    };
    match &opened.content {
        // Opening accepts a block whose range filter is damaged, because the other filter is
        // usable.
        Content::Block(block) => match block.locked.ranges_error() {
            None => sound(json!({})),
            Some(error) => damaged(error.to_string()),
        },
        Content::LevelDb(table) => walked(table.verify()),
        Content::RocksDb(table) => walked(table.verify()),
        Content::Raw(..) => sound(json!({ "note": "a bare filter has no checksums, so its bits were not verified" })),
        Content::Parquet(file) => {
            let mut filters = 0;
            for chunk in file.metadata.column_chunks() {
                match file.filter(chunk) {
                    Ok(found) => filters += u64::from(found.is_some()),
                    Err(why) => return damaged(why),
                }
            }
            sound(json!({ "filters": filters, "note": "Parquet has no checksums for filters" }))
        }
        Content::Index(index) => {
            let (mut rows, mut first) = (0u64, None);
            index.verify(|_, error| {
                if let Some(error) = error {
                    rows += 1;
                    first.get_or_insert_with(|| error.to_string());
                }
            });
            match first {
                None => sound(json!({ "rows": index.rows() })),
                Some(first) => damaged(format!("{} damaged or unreadable: {first}", count(rows, "row"))),
            }
        }
    }
}
