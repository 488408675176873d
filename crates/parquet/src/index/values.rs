//! Reads the values of a Parquet column as keys of an index.

use super::layout::KeyType;
#[cfg(feature = "values")]
use crate::distinct::DistinctHashes;
use crate::error::{Error, Result};
use crate::metadata::ParquetMetadata;
use crate::schema::PhysicalType;
#[cfg(feature = "values")]
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
    pub fn find(file: &ParquetMetadata, path: &str) -> Result<Self> {
        let mut found = file.leaves().iter().enumerate().filter(|(_, leaf)| *leaf.path == *path);
        let Some((number, leaf)) = found.next() else {
            let mut names: Vec<&str> = file.leaves().iter().take(NAMES_MAX).map(|leaf| &*leaf.path).collect();
            if file.leaves().len() > NAMES_MAX {
                names.push("...");
            }
            return Err(Error::invalid("column", format!("no column {path:?}; give one of: {}", names.join(", "))));
        };
        if found.next().is_some() {
            let reason = format!("several columns have the path {path:?}; rename one of them");
            return Err(Error::invalid("column", reason));
        }
        let unknown = |what: &str| {
            let next = "check the file with the engine that wrote it";
            Error::invalid("column", format!("the values of {path:?} have no valid {what}; {next}"))
        };
        let physical_type = leaf.physical_type.ok_or_else(|| unknown("type"))?;
        let type_len_bytes = match physical_type {
            PhysicalType::FixedLenByteArray => leaf.type_len_bytes.and_then(|len| u32::try_from(len).ok()),
            _ => Some(0),
        };
        let type_len_bytes = type_len_bytes.ok_or_else(|| unknown("length"))?;
        let key_type = KeyType::Parquet { physical_type, type_len_bytes };
        key_type.check()?;
        let chunks = (0..file.num_row_groups()).filter_map(|group| file.chunk(group, number));
        Ok(Self {
            leaf: number,
            key_type,
            num_values: chunks.map(|chunk| chunk.num_values).sum(),
            logical_type: leaf.logical.clone(),
            integer_bits: leaf.signed_bits(),
        })
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
    #[cfg(feature = "values")]
    pub fn add_values<R: parquet::file::reader::ChunkReader + 'static>(
        &self,
        file: &ParquetValues<R>,
        hashes: &mut DistinctHashes,
    ) -> Result<()> {
        for row_group in 0..file.metadata().num_row_groups() {
            file.for_each_hash(row_group, self.leaf, &mut |batch| hashes.add_all(batch))?;
        }
        Ok(())
    }
}
