//! Reads the fields of a filter block's trailer, and explains them.

use serde::Serialize;

use charts::text::{self, count};
use filterblock::HashIdentity;
use filterblock::layout::{FIELDS, PAGE_CHECKSUM_LEN_BYTES, PAGE_LEN_BYTES, TRAILER_LEN_BYTES, offset_of};
use filterblock::{Added, Metadata, ParsedBlock};
use filterblock::{Error, Field};

/// A field of the trailer.
#[derive(Debug, Serialize)]
pub struct FieldReport {
    pub name: String,
    pub offset: u64,
    pub len_bytes: usize,
    /// The bytes of the file, in hexadecimal digits.
    pub bytes: String,
    pub meaning: String,
}

/// Returns every field of the trailer, in the order of the file. Returns an error if a field lies
/// outside the block or is unknown.
pub fn fields<D: AsRef<[u8]>>(block: &ParsedBlock<D>, info: &Metadata<'_>) -> Result<Vec<FieldReport>, Error> {
    let bytes = block.as_bytes();
    let start = bytes.len().saturating_sub(TRAILER_LEN_BYTES);
    let mut fields = Vec::new();
    for (field, len_bytes) in FIELDS {
        let place = start + offset_of(field);
        let offset = place as u64;
        let raw = bytes.get(place..place + len_bytes).ok_or(Error::Corrupt { field, offset })?;
        let meaning = explain(field, raw, block, info)?;
        fields.push(FieldReport { name: field.to_string(), offset, len_bytes, bytes: text::hex(raw), meaning });
    }
    Ok(fields)
}

/// Decodes a little-endian integer of at most eight bytes.
fn integer(raw: &[u8]) -> u64 {
    raw.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn explain<D: AsRef<[u8]>>(
    field: Field,
    raw: &[u8],
    block: &ParsedBlock<D>,
    info: &Metadata<'_>,
) -> Result<String, Error> {
    let value = integer(raw.get(..8).unwrap_or(raw));
    Ok(match field {
        Field::TableId if raw.iter().all(|&byte| byte == 0) => "the writer named no SST file".into(),
        Field::TableId => "the SST file that the filter belongs to".into(),
        Field::Seed => format!("seed {value} of the hash function"),
        // After a merge, a key that several blocks had counts several times.
        Field::NumKeys => count(value, "key"),
        Field::PayloadLen => {
            let (len, pages) = (count(value, "byte"), count(value.div_ceil(PAGE_LEN_BYTES as u64), "page"));
            format!("{len} of payload in {pages}; each page has a checksum of {PAGE_CHECKSUM_LEN_BYTES} bytes")
        }
        Field::PageChecksums => "CRC-32 of all page checksums".into(),
        Field::PartitionNumber if block.parameters().is_none() => "a partition index".into(),
        Field::PartitionNumber => match value.checked_sub(1) {
            None => "a whole filter".into(),
            Some(number) => format!("partition {number} of a filter (counted from 0)"),
        },
        Field::Params => block.parameters().unwrap_or_else(|| "none: this is a partition index".into()),
        Field::ExtensionLen if value == 0 => "no extension".into(),
        Field::ExtensionLen => {
            let records = [
                block.metadata().hash.fingerprint.map(|_| "; the fingerprint of the secret".to_owned()),
                block.metadata().extractor.map(|name| format!("; prefix extractor {name}")),
                block.has_record().then(|| "; parameters of the filter".to_owned()),
                (info.ranges_len_bytes > 0)
                    .then(|| "; length and checksum of the range filter in front of the payload".to_owned()),
            ];
            format!("{} of extension{}", count(value, "byte"), records.into_iter().flatten().collect::<String>())
        }
        Field::Kind if info.num_partitions > 0 => {
            format!("partition index: {} of {}", count(info.num_partitions as u64, "partition"), info.kind)
        }
        Field::Kind => format!("{} ({})", info.kind, info.kind.description()),
        Field::HashId => match block.metadata().hash {
            HashIdentity { kind, fingerprint: Some(fingerprint), .. } => {
                format!("{kind} with the secret of fingerprint {fingerprint}")
            }
            HashIdentity { kind, .. } => format!("{kind} with the seed, without a secret"),
        },
        Field::Flags => format!("the filter holds {}", added(block.metadata().added)),
        Field::Version => format!("format version {value}"),
        Field::Checksum => "CRC-32 of everything between the payload and this field".into(),
        Field::Magic => "marks the end of a filter block".into(),
        other => return Err(Error::Unsupported { field: other, found: value }),
    })
}

fn added(added: Added) -> &'static str {
    match added {
        Added::WholeKeys => "whole keys",
        Added::Prefixes => "prefixes of keys",
        Added::Both => "whole keys and prefixes",
        Added::Ranges => "whole keys in their order, for range queries",
    }
}
