//! Computes the regions of a file, for a map to scale.

use filterblock::layout::{PAGE_CHECKSUM_LEN_BYTES, PAGE_LEN_BYTES, TRAILER_LEN_BYTES};
use filterblock_parquet::index::HEADER_LEN_BYTES;
use serde_json::{Value, json};

use crate::file::{Content, Opened, Parquet};

/// The maximum number of regions of a map.
const REGIONS_MAX: usize = 4000;

/// The regions, in the order in which they were found.
#[derive(Debug, Default)]
struct Map(Vec<Value>);

impl Map {
    fn add(&mut self, role: &str, from: u64, end: u64, label: impl Into<String>) {
        if end > from && self.0.len() < REGIONS_MAX {
            self.0.push(json!({ "role": role, "offset": from, "len_bytes": end - from, "label": label.into() }));
        }
    }
}

/// Returns the known regions, each with `role` (data, filter, index or meta), offset, length and
/// label. Bytes of unknown use have no region. Only the first [`REGIONS_MAX`] regions are returned.
pub(crate) fn of(opened: &Opened) -> Value {
    let (mut map, len) = (Map::default(), opened.len_bytes);
    match &opened.content {
        Content::Block(block) => {
            let payload = block.locked.metadata().payload_len_bytes;
            let trailer = len - TRAILER_LEN_BYTES as u64;
            let sums = payload.div_ceil(PAGE_LEN_BYTES as u64) * PAGE_CHECKSUM_LEN_BYTES as u64;
            // Partitions and range filters lie before the payload that the trailer describes.
            let info = block.locked.metadata();
            if info.num_partitions == 0 && info.ranges_len_bytes == 0 {
                map.add("filter", 0, payload, "payload");
                map.add("meta", payload, payload + sums, "page checksums");
                map.add("meta", payload + sums, trailer, "extension");
            } else {
                map.add("filter", 0, trailer, "filters, checksums and extension");
            }
            map.add("meta", trailer, len, "trailer");
        }
        Content::LevelDb(table) => {
            let places: Vec<_> = table.filters().collect();
            let first = places.iter().map(|place| place.offset).min();
            map.add("data", 0, first.unwrap_or(len - 48), "data blocks");
            for place in &places {
                let blocks =
                    format!("filter of data blocks at {} to {}", place.data_blocks.start, place.data_blocks.end);
                map.add("filter", place.offset, place.offset + place.len_bytes, blocks);
            }
            let end = places.iter().map(|place| place.offset + place.len_bytes).max();
            map.add("index", end.unwrap_or(len - 48), len - 48, "offsets of filters, metaindex and index");
            map.add("meta", len - 48, len, "footer");
        }
        Content::RocksDb(table) => {
            let mut places = Vec::new();
            table.for_each_filter(|place| {
                places.push((place.offset, place.offset + place.len_bytes));
                places.len() < REGIONS_MAX
            });
            let footer = len.saturating_sub(53);
            map.add("data", 0, places.iter().map(|place| place.0).min().unwrap_or(footer), "data blocks");
            for (number, &(from, end)) in places.iter().enumerate() {
                map.add("filter", from, end, format!("filter {number}"));
            }
            if let Some(end) = places.iter().map(|place| place.1).max() {
                map.add("index", end, footer, "index, properties and metaindex");
            }
            map.add("meta", footer, len, "footer");
        }
        Content::Parquet(file) => parquet(&mut map, file, len),
        Content::Index(index) => {
            let header = HEADER_LEN_BYTES as u64;
            let row_len = u64::from(index.cells()) * 32 + 4;
            let rows = len.saturating_sub(row_len * u64::from(index.rows()));
            map.add("meta", 0, header, "header");
            map.add("index", header, rows, "table of files");
            map.add("filter", rows, len, format!("{} rows of {row_len} bytes, one is read for each key", index.rows()));
        }
        Content::Raw(..) => map.add("filter", 0, len, "bare filter"),
    }
    json!(map.0)
}

fn parquet(map: &mut Map, file: &Parquet, len: u64) {
    map.add("meta", 0, 4, "magic");
    for chunk in file.metadata.column_chunks() {
        // If the footer does not record the length of a filter, reading the filter gives the
        // length.
        let range = file.metadata.filter_range(chunk).ok().flatten();
        let read = file.filter(chunk).ok().flatten().map(|bytes| bytes.len() as u64);
        if let (Some(range), Some(read)) = (range, read) {
            let label = format!("filter of {}, row group {}", chunk.path, chunk.row_group);
            map.add("filter", range.start, range.start + read, label);
        }
    }
    for chunk in file.metadata.column_chunks() {
        let end = chunk.offset.saturating_add(chunk.len_bytes);
        // In a damaged file, pages may lie outside of the file.
        if end <= file.footer.start {
            let label = format!("pages of {}, row group {}", chunk.path, chunk.row_group);
            map.add("data", chunk.offset, end, label);
        }
    }
    map.add("index", file.footer.start, file.footer.end, "metadata");
    map.add("meta", file.footer.end, len, "length and magic");
}
