//! Reads the values of a Parquet column as keys of an index.

use crate::PhysicalType;
use parquet::basic::Type;
use parquet::file::reader::ChunkReader;

use super::distinct::DistinctHashes;
use super::error::{Error, Result};
use super::layout::KeyType;
use crate::values::ParquetValues;
use crate::written::ColumnType;

/// The maximum number of column names in a message.
const NAMES_MAX: usize = 20;

/// A leaf column of a Parquet file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParquetColumn {
    /// The number of the column among the leaf columns of the schema, from 0.
    pub leaf: usize,
    /// The type of the values as keys.
    pub key_type: KeyType,
    /// The logical type as a canonical text, such as `string`, `uuid`, `decimal(9,2)`,
    /// `timestamp(ms,utc)` or `uint32`. The text is empty if the column has no logical type or is a
    /// signed integer. All columns of one index must have the same text and key type.
    /// docs/INDEX_FORMAT.md lists the texts.
    pub logical_type: String,
    /// The number of bits of a signed integer type, or `None` for other types.
    pub integer_bits: Option<u8>,
    /// The number of values that the footer gives, nulls included.
    pub num_values: u64,
}

impl ParquetColumn {
    /// Finds the column with this path: the names of its groups below the schema's root and its own
    /// name, joined by dots.
    ///
    /// # Errors
    /// Returns an error if no column or several columns have this path. Returns an error if the
    /// column is Boolean, or has a FIXED_LEN_BYTE_ARRAY length that is not valid.
    pub fn find<R: ChunkReader + 'static>(file: &ParquetValues<R>, path: &str) -> Result<Self> {
        let columns = file.metadata().file_metadata().schema_descr().columns();
        let mut found = columns.iter().enumerate().filter(|(_, column)| column.path().string() == path);
        let Some((leaf, column)) = found.next() else {
            let mut names: Vec<String> = columns.iter().take(NAMES_MAX).map(|column| column.path().string()).collect();
            if columns.len() > NAMES_MAX {
                names.push("...".to_owned());
            }
            return Err(Error::invalid("column", format!("no column {path:?}; the file has: {}", names.join(", "))));
        };
        if found.next().is_some() {
            return Err(Error::invalid(
                "column",
                format!("several columns have the path {path:?}; rename one of them"),
            ));
        }
        let physical_type = match column.physical_type() {
            Type::BOOLEAN => PhysicalType::Boolean,
            Type::INT32 => PhysicalType::Int32,
            Type::INT64 => PhysicalType::Int64,
            Type::INT96 => PhysicalType::Int96,
            Type::FLOAT => PhysicalType::Float,
            Type::DOUBLE => PhysicalType::Double,
            Type::BYTE_ARRAY => PhysicalType::ByteArray,
            Type::FIXED_LEN_BYTE_ARRAY => PhysicalType::FixedLenByteArray,
        };
        let type_len_bytes = match physical_type {
            PhysicalType::FixedLenByteArray => u32::try_from(column.type_length()).map_err(|_| {
                let next = "check the file with the engine that wrote it";
                Error::invalid("column", format!("the values of {path:?} have no valid length; {next}"))
            })?,
            _ => 0,
        };
        let key_type = KeyType::Parquet { physical_type, type_len_bytes };
        key_type.check()?;
        let chunks = file.metadata().row_groups().iter().filter_map(|group| group.columns().get(leaf));
        let num_values = chunks.map(|chunk| u64::try_from(chunk.num_values()).unwrap_or(0)).sum();
        let logical_type = super::logical::canonical(column);
        Ok(Self { leaf, key_type, logical_type, integer_bits: super::logical::signed_bits(column), num_values })
    }

    /// Returns the type that decides how text becomes a stored value, or `None` if the keys are not
    /// values of Parquet.
    #[must_use]
    pub fn column_type(&self) -> Option<ColumnType<'_>> {
        let KeyType::Parquet { physical_type: physical, type_len_bytes } = self.key_type else { return None };
        let len_bytes = usize::try_from(type_len_bytes).ok().filter(|_| physical == PhysicalType::FixedLenByteArray);
        Some(ColumnType { physical, len_bytes, logical: &self.logical_type, integer_bits: self.integer_bits })
    }

    /// Reads the values of all row groups, and adds their hashes to `hashes`.
    ///
    /// # Errors
    /// Returns an error if the values cannot be read. `hashes` may then have a part of the hashes.
    pub fn add_values<R: ChunkReader + 'static>(
        &self,
        file: &ParquetValues<R>,
        hashes: &mut DistinctHashes,
    ) -> Result<()> {
        for row_group in 0..file.metadata().num_row_groups() {
            let read = file.for_each_hash(row_group, self.leaf, &mut |batch| hashes.add_all(batch));
            read.map_err(Error::Parquet)?;
        }
        Ok(())
    }
}
