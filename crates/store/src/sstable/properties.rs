//! Encodes and decodes the properties of an SST file. They are a list of (tag, length, value), so
//! that later versions can add fields.

use crate::codec::{Cursor, put_bytes, put_varint};
use crate::error::{Error, Field, Result};

use super::layout::Compression;

/// The tag and the name of each property, in the order in which a file stores them.
/// docs/STORE_FORMAT.md has the same list.
pub const PROPERTY_TAGS: [(u64, &str); 14] = [
    (1, "entries"),
    (2, "tombstones"),
    (3, "data blocks"),
    (4, "key bytes"),
    (5, "value bytes"),
    (6, "smallest key"),
    (7, "largest key"),
    (8, "filter"),
    (9, "compression"),
    (10, "created by"),
    (11, "origin"),
    (12, "copied from"),
    (13, "prefix extractor"),
    (14, "range filter"),
];

/// The number of required tags. They precede the optional ones.
const NUM_REQUIRED: usize = 10;

/// The level and the sequence numbers of a file at the time when a store wrote it. If the manifest
/// is lost, a repair orders the files by their origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableOrigin {
    /// The level. The file may be in another level later.
    pub level: u8,
    /// The sequence number of the oldest write in the file or in its merge inputs, or a lower
    /// number.
    pub smallest_sequence: u64,
    /// The sequence number of the newest write in the file or in its merge inputs, or a higher
    /// number.
    pub largest_sequence: u64,
}

impl TableOrigin {
    /// Returns `None` for a level above 255.
    pub(crate) fn of(level: usize, (smallest_sequence, largest_sequence): (u64, u64)) -> Option<Self> {
        Some(Self { level: u8::try_from(level).ok()?, smallest_sequence, largest_sequence })
    }
}

/// The properties of an SST file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Properties {
    /// The number of entries, including tombstones.
    pub num_entries: u64,
    /// The number of tombstones.
    pub num_tombstones: u64,
    /// The number of data blocks.
    pub num_data_blocks: u64,
    /// The sum of all key lengths in bytes, before prefix compression.
    pub raw_key_bytes: u64,
    /// The sum of all value lengths in bytes.
    pub raw_value_bytes: u64,
    /// The first key. It is empty if the file has no entries.
    pub smallest: Vec<u8>,
    /// The last key. It is empty if the file has no entries.
    pub largest: Vec<u8>,
    /// The requested filter as [`filterblock::FilterSpec`] prints it. The text is empty if the file
    /// has no filter.
    pub filter: String,
    /// The requested compression. The trailer of each data block says how that block is stored.
    pub compression: Compression,
    /// The program that wrote the file.
    pub created_by: String,
    /// The origin of the file. It is `None` if it is unknown, for example in a file that no store
    /// wrote.
    pub origin: Option<TableOrigin>,
    /// The number of the file whose sound blocks a repair copied to this file. If that file was
    /// itself a copy, this is the number of the first file in the chain. It is `None` in a file
    /// that no repair wrote.
    pub copied_from: Option<u64>,
    /// The name of the extractor whose prefixes the filter holds beside the keys. The name is empty
    /// if the filter holds no prefixes.
    pub prefix_extractor: String,
    /// The requested range filter beside the filter of keys, as [`filterblock::FilterSpec`] prints
    /// it. The text is empty if there is none. If a range filter is the only filter of the SST, it
    /// is in [`Properties::filter`].
    pub range_filter: String,
}

impl Properties {
    /// `None` if the filter holds no prefixes.
    pub(crate) fn prefix_extractor_name(&self) -> Option<&str> {
        Some(self.prefix_extractor.as_str()).filter(|name| !name.is_empty())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let numbers =
            [self.num_entries, self.num_tombstones, self.num_data_blocks, self.raw_key_bytes, self.raw_value_bytes];
        for (tag, number) in (1..).zip(numbers) {
            put_number(&mut out, tag, number);
        }
        for (tag, bytes) in (6..).zip([self.smallest.as_slice(), &self.largest, self.filter.as_bytes()]) {
            put_varint(&mut out, tag);
            put_bytes(&mut out, bytes);
        }
        put_number(&mut out, 9, self.compression as u64);
        put_varint(&mut out, 10);
        put_bytes(&mut out, self.created_by.as_bytes());
        if let Some(origin) = self.origin {
            let mut value = Vec::new();
            put_varint(&mut value, origin.level.into());
            put_varint(&mut value, origin.smallest_sequence);
            put_varint(&mut value, origin.largest_sequence);
            put_varint(&mut out, 11);
            put_bytes(&mut out, &value);
        }
        if let Some(number) = self.copied_from {
            put_number(&mut out, 12, number);
        }
        if !self.prefix_extractor.is_empty() {
            put_varint(&mut out, 13);
            put_bytes(&mut out, self.prefix_extractor.as_bytes());
        }
        if !self.range_filter.is_empty() {
            put_varint(&mut out, 14);
            put_bytes(&mut out, self.range_filter.as_bytes());
        }
        out
    }

    /// Decodes the properties at offset `base`. The caller has verified their checksum.
    pub(super) fn decode(bytes: &[u8], base: u64) -> Result<Self> {
        let mut properties = Self::default();
        let mut cursor = Cursor::new(bytes, base);
        let mut wanted = PROPERTY_TAGS.iter().take(NUM_REQUIRED).map(|known| known.0).peekable();
        let mut last_tag = 0;
        while !cursor.is_empty() {
            let offset = cursor.offset();
            let corrupt = || Error::Corrupt { field: Field::Properties, offset };
            let tag = cursor.take_varint(Field::Properties)?;
            let mut value = Cursor::new(cursor.take_bytes(Field::Properties)?, offset);
            // Tags ascend, so no tag occurs twice. Unknown tags follow the known ones.
            if tag <= last_tag {
                return Err(corrupt());
            }
            last_tag = tag;
            match (wanted.next(), tag) {
                (Some(known), _) if known != tag => return Err(corrupt()),
                (Some(_), _) => properties.set(tag, &mut value)?,
                (None, 11) => properties.origin = Some(take_origin(&mut value)?),
                (None, 12) => properties.copied_from = Some(value.take_varint(Field::Properties)?),
                (None, 13 | 14) => properties.set_bytes(tag, &mut value)?,
                (None, _) => continue,
            }
            if !value.is_empty() {
                return Err(corrupt());
            }
        }
        let contradiction = properties.num_tombstones > properties.num_entries
            || properties.num_data_blocks > properties.num_entries
            || (properties.num_data_blocks == 0) != (properties.num_entries == 0)
            || properties.smallest > properties.largest;
        if wanted.peek().is_some() || contradiction {
            return Err(Error::Corrupt { field: Field::Properties, offset: base });
        }
        Ok(properties)
    }

    fn set(&mut self, tag: u64, value: &mut Cursor<'_>) -> Result<()> {
        let number = match tag {
            1 => &mut self.num_entries,
            2 => &mut self.num_tombstones,
            3 => &mut self.num_data_blocks,
            4 => &mut self.raw_key_bytes,
            5 => &mut self.raw_value_bytes,
            9 => {
                let offset = value.offset();
                let tag = value.take_varint(Field::Compression)?;
                self.compression = match u8::try_from(tag) {
                    Ok(tag) => Compression::from_tag(tag, offset)?,
                    Err(_) => return Err(Error::Unsupported { field: Field::Compression, found: tag }),
                };
                return Ok(());
            }
            _ => return self.set_bytes(tag, value),
        };
        *number = value.take_varint(Field::Properties)?;
        Ok(())
    }

    fn set_bytes(&mut self, tag: u64, value: &mut Cursor<'_>) -> Result<()> {
        let bytes = value.take(value.rest().len(), Field::Properties)?;
        let text = || String::from_utf8(bytes.to_vec()).map_err(|_| value.corrupt(Field::Properties));
        match tag {
            6 => self.smallest = bytes.to_vec(),
            7 => self.largest = bytes.to_vec(),
            8 => self.filter = text()?,
            13 => self.prefix_extractor = text()?,
            14 => self.range_filter = text()?,
            _ => self.created_by = text()?,
        }
        Ok(())
    }
}

fn take_origin(value: &mut Cursor<'_>) -> Result<TableOrigin> {
    let error = value.corrupt(Field::Properties);
    let level = value.take_varint(Field::Properties)?;
    let (smallest_sequence, largest_sequence) =
        (value.take_varint(Field::Properties)?, value.take_varint(Field::Properties)?);
    match u8::try_from(level) {
        Ok(level) if smallest_sequence <= largest_sequence => {
            Ok(TableOrigin { level, smallest_sequence, largest_sequence })
        }
        _ => Err(error.into()),
    }
}

fn put_number(out: &mut Vec<u8>, tag: u64, number: u64) {
    let mut value = Vec::new();
    put_varint(&mut value, number);
    put_varint(out, tag);
    put_bytes(out, &value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties() -> Properties {
        Properties {
            num_entries: 300,
            num_tombstones: 2,
            num_data_blocks: 7,
            raw_key_bytes: 1 << 40,
            raw_value_bytes: 0,
            smallest: Vec::new(),
            largest: vec![0xff; 200],
            filter: "bloom:10".to_owned(),
            compression: Compression::Lz4,
            created_by: "a test".to_owned(),
            origin: None,
            copied_from: None,
            prefix_extractor: String::new(),
            range_filter: String::new(),
        }
    }

    #[test]
    fn properties_round_trip_and_later_fields_are_skipped() {
        let mut bytes = properties().encode();
        assert_eq!(Properties::decode(&bytes, 0).unwrap(), properties());
        put_varint(&mut bytes, 99);
        put_bytes(&mut bytes, b"something new");
        assert_eq!(Properties::decode(&bytes, 0).unwrap(), properties());
        let origin = Some(TableOrigin { level: 3, smallest_sequence: 1, largest_sequence: 1 << 50 });
        let mut bytes = Properties { origin, ..properties() }.encode();
        put_varint(&mut bytes, 99);
        put_bytes(&mut bytes, b"something new");
        assert_eq!(Properties::decode(&bytes, 0).unwrap().origin, origin);
        for origin in [None, origin] {
            for prefix_extractor in [String::new(), "fixed:8".to_owned()] {
                let copy = Properties { origin, copied_from: Some(300), prefix_extractor, ..properties() };
                assert_eq!(Properties::decode(&copy.encode(), 0).unwrap(), copy);
                let with_ranges = Properties { range_filter: "grafite:fpr=0.01".to_owned(), ..copy };
                assert_eq!(Properties::decode(&with_ranges.encode(), 0).unwrap(), with_ranges);
            }
        }
    }

    #[test]
    fn a_missing_repeated_or_truncated_property_is_an_error() {
        let bytes = properties().encode();
        for len in 0..bytes.len() {
            assert!(Properties::decode(&bytes[..len], 0).is_err(), "{len}");
        }
        let twice = [bytes.as_slice(), &bytes].concat();
        assert!(Properties::decode(&twice, 0).is_err());
        let mut absurd = properties();
        absurd.num_tombstones = 301;
        assert!(Properties::decode(&absurd.encode(), 0).is_err());
    }
}
