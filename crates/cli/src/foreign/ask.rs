//! A file of another engine, ready to be asked for keys or values.

use std::path::Path;

use super::super::failure::{Failure, Outcome};
use super::content::Content;
use super::file::{FileArguments, Foreign, RawFormat};
use super::value::{Encoding, ValueType, plain_len};
use filterblock::foreign::parquet::{ParquetBloom, ParquetFile};
use filterblock::foreign::rocksdb::RocksDbFilterLayout;
use filterblock::foreign::{leveldb, rocksdb};

/// What a key is asked of.
#[derive(Debug)]
pub enum Asked<'a> {
    LevelDb(&'a leveldb::LevelDbTable<Content>),
    RocksDb {
        table: &'a rocksdb::RocksDbTable<Content>,
        prefixes: bool,
    },
    LevelDbFilter(leveldb::LevelDbBloom<'a>),
    RocksDbFilter(rocksdb::RocksDbFilter<'a>),
    /// The filters of one column; `None` for a chunk without one, whose values may be any.
    Values {
        filters: Vec<Option<ParquetBloom<'a>>>,
        encoding: Encoding,
    },
}

/// How keys are given.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// As prefixes.
    pub prefixes: bool,
    /// In hexadecimal digits, which for Parquet are a value's plain encoding.
    pub hex: bool,
    /// As values of this type.
    pub value_type: Option<ValueType>,
}

impl<'a> Asked<'a> {
    /// What of `file` is asked.
    ///
    /// # Errors
    /// When the question does not fit the file: for another type, a column that is not there, prefixes where there are none.
    pub fn new(path: &Path, file: &'a Foreign, arguments: &FileArguments, question: Question) -> Outcome<Self> {
        let name = path.display();
        let is_parquet = matches!(file, Foreign::Parquet(_) | Foreign::Raw(RawFormat::ParquetSbbf, _));
        if question.value_type.is_some() && !is_parquet {
            let kind = file.kind();
            return Err(Failure::Message(format!("{name}: --type is for values of Parquet, and this is a {kind}")));
        }
        let has_prefixes = match file {
            Foreign::RocksDb(table) => table.properties().extractor().is_some(),
            Foreign::Raw(format, _) => *format == RawFormat::RocksdbFilter,
            _ => false,
        };
        if question.prefixes && !has_prefixes {
            return Err(Failure::Message(format!("{name}: the filter knows no prefixes of keys")));
        }
        Ok(match file {
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
                        return Err(Failure::Message(format!(
                            "{name}: a filter alone does not say what its values are; --type does, or --hex for the \
                             plain encoding"
                        )));
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
        for chunk in &chunks {
            filters.push(file.filter(chunk).map_err(|error| error.in_file(path))?);
        }
        let physical_type = chunks.first().and_then(|chunk| chunk.physical_type);
        let column = chunks.first().map_or("", |chunk| chunk.path.as_str());
        let refused = |why: String| Failure::Message(format!("{}: column {column:?} {why}", path.display()));
        let encoding = match (question.hex, question.value_type, physical_type) {
            (true, _, physical_type) => Encoding::Plain(physical_type.and_then(plain_len)),
            (false, Some(kind), Some(of)) if kind.fits(of) => Encoding::Typed(kind),
            (false, Some(kind), of) => {
                let of = of.map_or_else(|| "a type that is not known".to_owned(), |of| format!("{of:?}"));
                return Err(refused(format!("holds {of}; --type {} does not fit", kind.name())));
            }
            (false, None, of) => Encoding::Typed(of.and_then(ValueType::of).ok_or_else(|| {
                refused("has values that are given in their plain encoding only, with --hex".to_owned())
            })?),
        };
        Ok(Self::Values { filters, encoding })
    }

    /// Whether a key or value may be there.
    ///
    /// # Errors
    /// Why `key` stands for no value of the column.
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> Result<bool, String> {
        Ok(match self {
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

    /// What whoever asks should know when all keys get the same answer.
    pub fn remark(&self) -> Option<&'static str> {
        const HOLDS_NONE: &str = "too short for a filter with keys, or cut: by its engine's rules every key is absent";
        match self {
            Self::LevelDb(table) if table.filter_block().is_none() => {
                Some("the table has no filter that is known; every key may be there")
            }
            Self::RocksDb { table, .. }
                if !matches!(
                    table.filter_layout(),
                    RocksDbFilterLayout::Full | RocksDbFilterLayout::Partitioned(1..)
                ) =>
            {
                Some("the table has no filter that is known; every key may be there")
            }
            Self::RocksDb { table, .. } if table.properties().knows_no_entry() => {
                Some("the filters hold prefixes by an extractor that is not known; every key may be there")
            }
            Self::Values { filters, .. } if filters.iter().any(Option::is_none) => {
                Some("a chunk of the column has no filter; every value may be there")
            }
            Self::LevelDbFilter(filter) if filter.info().payload_len_bytes == 0 && !filter.may_contain(b"") => {
                Some(HOLDS_NONE)
            }
            Self::RocksDbFilter(filter) if filter.kind().is_none() && !filter.may_contain(b"") => Some(HOLDS_NONE),
            _ => None,
        }
    }
}
