//! Looks up keys or values in a file of another engine.

use std::path::Path;

use super::file::{Content, FileArguments, Foreign, RawFormat, filter_of};
use super::own::Sst;
use crate::prelude::*;
use filterblock_family::{FileFilter, Membership};
use filterblock_foreign::leveldb;
use filterblock_foreign::rocksdb::{self, RocksDbFilterLayout};
use filterblock_parquet::written::{Encoding, ValueType};
use filterblock_parquet::{ParquetBloom, ParquetFile};

/// The filters that answer a query.
pub enum Asked<'a> {
    Sst {
        sst: &'a Sst,
        prefixes: bool,
    },
    FileFilter(&'a FileFilter),
    LevelDb(&'a leveldb::LevelDbTable<Content>),
    RocksDb {
        table: &'a rocksdb::RocksDbTable<Content>,
        prefixes: bool,
    },
    LevelDbFilter(leveldb::LevelDbBloom<'a>),
    RocksDbFilter(rocksdb::RocksDbFilter<'a>),
    /// The filters of the selected chunks of one column, or one bare filter. `None` is a chunk
    /// without a filter, which answers "maybe" to every value.
    Values {
        filters: Vec<Option<ParquetBloom<'a>>>,
        encoding: Encoding,
    },
}

/// The form of the queried keys.
#[derive(Clone, Copy)]
pub struct Question {
    /// Whether the keys are prefixes (--prefixes).
    pub prefixes: bool,
    /// Whether the keys were given in hexadecimal digits (--hex). For Parquet such keys are the
    /// plain encoding of a value.
    pub hex: bool,
    /// The type of the keys, if they are Parquet values and --type is given.
    pub value_type: Option<ValueType>,
}

impl<'a> Asked<'a> {
    /// Selects the filters of `file` that answer the question.
    ///
    /// # Errors
    /// Returns an error if the question does not fit the file, for example because a type is
    /// missing. Also returns an error if a filter is damaged or the file cannot be read.
    pub fn new(path: &Path, file: &'a Foreign, arguments: &FileArguments, question: Question) -> Outcome<Self> {
        let is_parquet = matches!(file, Foreign::Parquet(_) | Foreign::Raw(RawFormat::ParquetSbbf, _));
        if question.value_type.is_some() && !is_parquet {
            let kind = file.kind();
            return refuse(path, format!("--type is for Parquet values, and this is a {kind}; omit --type"));
        }
        let has_prefixes = match file {
            Foreign::Sst(sst) => !sst.table.properties().prefix_extractor.is_empty(),
            Foreign::RocksDb(table) => table.properties().extractor().is_some(),
            Foreign::Raw(format, _) => *format == RawFormat::RocksdbFilter,
            _ => false,
        };
        if question.prefixes && !has_prefixes {
            return refuse(
                path,
                "the filters hold no prefixes, or prefixes of an unknown extractor; give whole keys without --prefixes",
            );
        }
        Ok(match file {
            Foreign::Sst(sst) => Self::Sst { sst, prefixes: question.prefixes },
            Foreign::FileFilter(filter) => Self::FileFilter(filter),
            Foreign::LevelDb(table) => Self::LevelDb(table),
            Foreign::RocksDb(table) => Self::RocksDb { table, prefixes: question.prefixes },
            Foreign::Raw(RawFormat::LeveldbBloom, bytes) => {
                Self::LevelDbFilter(leveldb::LevelDbBloom::new(bytes.as_ref()))
            }
            Foreign::Raw(RawFormat::RocksdbFilter, bytes) => {
                Self::RocksDbFilter(rocksdb::RocksDbFilter::new(bytes.as_ref()))
            }
            Foreign::Raw(RawFormat::ParquetSbbf, bytes) => {
                let encoding = match (question.hex, question.value_type) {
                    (true, _) => Encoding::Plain(None),
                    (false, Some(kind)) => Encoding::Typed(kind),
                    (false, None) => {
                        return refuse(
                            path,
                            "a bare filter does not record the type of its values; give --type, or give values in \
                             plain encoding with --hex",
                        );
                    }
                };
                let parsed = ParquetBloom::parse(bytes.as_ref());
                let filter = parsed.map_err(|error| error.in_file(path))?;
                Self::Values { filters: vec![Some(filter)], encoding }
            }
            Foreign::Parquet(file) => Self::column(path, file, arguments, question)?,
        })
    }

    fn column(
        path: &Path,
        file: &'a ParquetFile<Content>,
        arguments: &FileArguments,
        question: Question,
    ) -> Outcome<Self> {
        let chunks = arguments.column(path, file)?;
        let mut filters = Vec::with_capacity(chunks.len());
        for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
            filters.push(filter_of(path, file, chunk).map_err(|(_, text)| Failure::Message(text))?);
        }
        let asked = arguments.column.as_deref().unwrap_or_default();
        let column = chunks.first().map_or(asked, |chunk| &*chunk.path);
        let refused = |why: String| Failure::about(path, format!("column {column:?} {why}"));
        let mut same = file.leaves().iter().filter(|leaf| *leaf.path == *column);
        let encoding = match (same.next(), same.next()) {
            (Some(leaf), None) if leaf.physical_type.is_none() && question.hex => {
                return Ok(Self::Values { filters, encoding: Encoding::Plain(None) });
            }
            (Some(leaf), None) => match leaf.column_type() {
                Some(of) => of.encoding(question.hex, question.value_type).map_err(refused)?,
                None if leaf.physical_type.is_none() => {
                    return Err(refused("has an unknown type; give values in plain encoding with --hex".to_owned()));
                }
                None => {
                    return Err(refused(
                        "has values of an unknown length; check the file with the engine that wrote it".to_owned(),
                    ));
                }
            },
            _ => {
                return Err(refused("shares its path with another column; rename one of them".to_owned()));
            }
        };
        Ok(Self::Values { filters, encoding })
    }

    /// Returns whether a key or value may be present.
    ///
    /// # Errors
    /// Returns a message if the column cannot answer for `key`, for example because `key` is not a
    /// value of its type.
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> Result<bool, String> {
        Ok(match self {
            Self::Sst { sst, prefixes: false } => sst.may_contain(key),
            Self::Sst { sst, prefixes: true } => sst.may_contain_prefix(key),
            Self::FileFilter(filter) => filter.may_contain(key),
            Self::LevelDb(table) => table.may_contain(key),
            Self::RocksDb { table, prefixes: false } => table.may_contain(key),
            Self::RocksDb { table, prefixes: true } => table.prefix_may_match(key),
            Self::LevelDbFilter(filter) => filter.may_contain(key),
            Self::RocksDbFilter(filter) => filter.may_contain(key),
            Self::Values { filters, encoding } => {
                let in_any = |value: &[u8]| {
                    filters.iter().any(|filter| filter.as_ref().is_none_or(|filter| filter.may_contain(value)))
                };
                return encoding.ask(key, in_any);
            }
        })
    }

    /// Returns a remark for the user if the filters are missing, of an unknown kind or extractor,
    /// or too short. Returns `None` otherwise.
    pub fn remark(&self) -> Option<&'static str> {
        const HOLDS_NONE: &str = "the filter is too short to hold keys, or truncated; its engine answers \"absent\" to \
                                  every key, so check the file";
        match self {
            Self::Sst { sst, .. } if sst.table.filter().ready().is_none() => {
                Some("the SST file has no usable filter, so every key in its key range may be present")
            }
            Self::FileFilter(filter) if filter.damaged_pages() > 0 => {
                Some("pages of the filter are damaged, so absent keys pass more often; run filterblock verify")
            }
            Self::LevelDb(table) if !table.has_known_filters() => {
                Some("the table has no known filter, so only a key after its last data block can be absent")
            }
            Self::RocksDb { table, .. }
                if !matches!(
                    table.filter_layout(),
                    RocksDbFilterLayout::Full | RocksDbFilterLayout::Partitioned(1..)
                ) =>
            {
                Some("the table has no known filter, so every key may be present")
            }
            Self::RocksDb { table, .. } if table.properties().knows_no_entry() => Some(
                "the filters hold neither whole keys nor prefixes of a known extractor, so every key may be present",
            ),
            Self::Values { filters, .. } if filters.iter().any(Option::is_none) => {
                Some("a chunk of the column has no filter, so every value may be present")
            }
            Self::Values { filters, .. } if filters.iter().flatten().any(|filter| filter.num_blocks() == 0) => Some(
                "no bit is set in a filter of the column, but its row group may have values, so every value may be present",
            ),
            Self::LevelDbFilter(filter) if filter.info().payload_len_bytes == 0 && !filter.may_contain(b"") => {
                Some(HOLDS_NONE)
            }
            Self::RocksDbFilter(filter) if filter.kind().is_none() && !filter.may_contain(b"") => Some(HOLDS_NONE),
            _ => None,
        }
    }
}
