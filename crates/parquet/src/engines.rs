//! Tells which engines use the filters of a column, by its type.
//!
//! `tests/engines/expected.json` has the test results. Boolean and FLOAT16 have an empty list of
//! engines, and types that the suite `skips` does not test have no list.

use crate::schema::Leaf;
use crate::schema::PhysicalType::{Boolean, ByteArray, Double, FixedLenByteArray, Float, Int32, Int64, Int96};

/// The engines that were tried, with their versions.
pub const TRIED: &str = "DuckDB 2.0.0, DataFusion 55.0.0, ClickHouse 26.9.2.1, hyparquet 1.31.5 (with \
useBloomFilters), pyarrow 26.0.1 and Polars 2.1.0";

const DUCKDB: &str = "DuckDB";
const DATAFUSION: &str = "DataFusion";
const CLICKHOUSE: &str = "ClickHouse";
const HYPARQUET: &str = "hyparquet";

/// Returns the engines that skip row groups by a filter of this column, or `None` if such columns
/// were not tried.
#[must_use]
pub fn of(column: &Leaf) -> Option<Vec<&'static str>> {
    let (physical, annotation) = (column.physical_type?, annotation(column));
    let plain = [Annotation::Nothing, Annotation::Integer { is_small: false }];
    let is_integer = matches!(physical, Int32 | Int64) && plain.contains(&annotation);
    let engines: &[&str] = match (physical, annotation) {
        _ if is_integer => &[DUCKDB, DATAFUSION, CLICKHOUSE, HYPARQUET],
        // Integers of 8 and 16 bits.
        (Int32 | Int64, Annotation::Integer { .. }) => &[DUCKDB, CLICKHOUSE, HYPARQUET],
        (Int32 | Int64, Annotation::Time) => &[DUCKDB],
        (Int32 | Int64, Annotation::Decimal) => &[DUCKDB, DATAFUSION],
        (Float | Double, Annotation::Nothing) => &[DUCKDB, DATAFUSION, HYPARQUET],
        (ByteArray, Annotation::Nothing | Annotation::Text) => &[DUCKDB, DATAFUSION, CLICKHOUSE, HYPARQUET],
        (ByteArray, Annotation::Json) => &[DUCKDB, DATAFUSION],
        (FixedLenByteArray, Annotation::Nothing) => &[DUCKDB, DATAFUSION, CLICKHOUSE, HYPARQUET],
        (FixedLenByteArray, Annotation::Decimal) => &[DATAFUSION],
        (FixedLenByteArray, Annotation::Uuid) => &[DUCKDB],
        (FixedLenByteArray, Annotation::Float16) | (Int96 | Boolean, _) => &[],
        _ => return None,
    };
    // In groups, only columns of integers were tried. Columns in lists were not tried. A type
    // without engines has none in groups either.
    let is_tried = !column.is_repeated && (!column.is_nested || is_integer || engines.is_empty());
    let in_groups = |engine: &&&str| !column.is_nested || **engine != DATAFUSION;
    is_tried.then(|| engines.iter().filter(in_groups).copied().collect())
}

/// The logical type of a column, or the converted type of an older writer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Annotation {
    Nothing,
    Text,
    Decimal,
    Time,
    Integer { is_small: bool },
    Json,
    Uuid,
    Float16,
    Other,
}

/// Returns the annotation. The numbers are those of `LogicalType` and `ConvertedType` in the Thrift
/// definition of Parquet.
fn annotation(column: &Leaf) -> Annotation {
    match (column.logical_type, column.converted_type) {
        (Some(1), _) | (None, Some(0)) => Annotation::Text,
        (Some(5), _) | (None, Some(5)) => Annotation::Decimal,
        (Some(6..=8), _) | (None, Some(6..=10)) => Annotation::Time,
        (Some(10), _) => Annotation::Integer { is_small: column.integer_bits.is_some_and(|bits| bits < 32) },
        (None, Some(11 | 12 | 15 | 16)) => Annotation::Integer { is_small: true },
        (None, Some(13 | 14 | 17 | 18)) => Annotation::Integer { is_small: false },
        (Some(12), _) | (None, Some(19)) => Annotation::Json,
        (Some(14), _) => Annotation::Uuid,
        (Some(15), _) => Annotation::Float16,
        (None, None) => Annotation::Nothing,
        _ => Annotation::Other,
    }
}
