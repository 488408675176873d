//! The reports about a filter block and about an index, as `inspect --json` and the page give them.

use filterblock::ParsedBlock;
use filterblock_parquet::index::{IndexReader, ReadAt};
use serde_json::{Value, json};

use crate::FieldReport;
use charts::text::hex;

/// Returns the report about a filter block with these fields.
pub fn block_report<D: AsRef<[u8]>>(name: &str, block: &ParsedBlock<D>, fields: &[FieldReport]) -> Value {
    let (info, found) = (block.metadata(), block.statistics());
    let mut report = json!({
        "file": name,
        "kind": info.kind.to_string(),
        "keys": info.num_keys,
        "estimated_keys": found.estimated_keys,
        "bits_per_key": info.bits_per_key(),
        "probes": info.probes,
        "fill": found.fill_ratio,
        "expected_false_positive_rate": block.expected_fpr(),
        "estimated_false_positive_rate": found.estimated_fpr,
        "payload_len_bytes": info.payload_len_bytes,
        "block_len_bytes": info.block_len_bytes,
        "partitions": info.num_partitions,
        "hash": info.hash.kind.to_string(),
        "hash_seed": info.hash.seed.0,
        "secret_fingerprint": info.hash.fingerprint.map(|fingerprint| fingerprint.to_string()),
        "table_id": hex(&info.table_id),
        "fields": fields,
    });
    if let Value::Object(fields) = &mut report {
        fields.retain(|name, value| name != "secret_fingerprint" || !value.is_null());
    }
    report
}

/// Adds the settings and the files of an index to the object `report`.
pub fn index_report<R: ReadAt>(mut report: Value, index: &IndexReader<R>) -> Value {
    let settings = index.settings();
    let files = index.files().iter().map(|file| {
        json!({
            "path": file.identity.path.display().to_string(),
            "source": file.identity.source.name(),
            "keys": file.num_keys,
        })
    });
    let added = json!({
        "column": settings.column,
        "key_type": settings.key_type.to_string(),
        "logical_type": settings.logical_type,
        "fpr": settings.fpr,
        "generation": index.generation(),
        "rows": index.rows(),
        "cells": index.cells(),
        "index_len_bytes": index.len_bytes(),
        "keys": index.files().iter().map(|file| file.num_keys).sum::<u64>(),
        "files": files.collect::<Value>(),
    });
    if let (Value::Object(report), Value::Object(added)) = (&mut report, added) {
        report.extend(added);
    }
    report
}
