//! Tells which engines use the filters of a column, by its type.
//!
//! `tests/engines/expected.json` has the test results. Boolean and FLOAT16 have an empty list of
//! engines, and types that the suite `skips` does not test have no list.

use filterblock_parquet::{Leaf, PhysicalType};

/// The engines that were tried, with their versions.
pub const TRIED: &str = "DuckDB 2.0.0, DataFusion 55.0.0, ClickHouse 26.9.2.1, hyparquet 1.31.5 (with \
useBloomFilters), pyarrow 26.0.1 and Polars 2.1.0";

/// The note about queries that make an engine look up other values than the file has.
pub const DECLARED: &str = "ClickHouse 26.9 and DataFusion 55 can lose rows if a query declares another type for a column with filters \
than the file has, such as UInt16 for UInt32: declare the type of the file.\n";

const DUCKDB: &str = "DuckDB";
const DATAFUSION: &str = "DataFusion";
const CLICKHOUSE: &str = "ClickHouse";
const HYPARQUET: &str = "hyparquet";

/// The types that engines treat in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Integers of 8 and 16 bits.
    Small,
    /// Integers of 32 and 64 bits.
    Integer,
    Float,
    /// Texts, bytes, and FIXED_LEN_BYTE_ARRAY without a logical type.
    Bytes,
    Uuid,
    /// Dates, times and timestamps.
    Time,
    Json,
    /// Decimals that are stored as integers.
    IntegerDecimal,
    /// Decimals that are stored as FIXED_LEN_BYTE_ARRAY.
    FixedDecimal,
    Int96,
    Float16,
    Boolean,
}

/// The engines that use the filters of each type.
const ENGINES: [(Kind, &[&str]); 12] = [
    (Kind::Small, &[DUCKDB, CLICKHOUSE, HYPARQUET]),
    (Kind::Integer, &[DUCKDB, DATAFUSION, CLICKHOUSE, HYPARQUET]),
    (Kind::Float, &[DUCKDB, DATAFUSION, HYPARQUET]),
    (Kind::Bytes, &[DUCKDB, DATAFUSION, CLICKHOUSE, HYPARQUET]),
    (Kind::Uuid, &[DUCKDB]),
    (Kind::Time, &[DUCKDB]),
    (Kind::Json, &[DUCKDB, DATAFUSION]),
    (Kind::IntegerDecimal, &[DUCKDB, DATAFUSION]),
    (Kind::FixedDecimal, &[DATAFUSION]),
    (Kind::Int96, &[]),
    (Kind::Float16, &[]),
    (Kind::Boolean, &[]),
];

/// Returns the engines that skip row groups by a filter of this column, or `None` if such columns
/// were not tried.
pub fn of(column: &Leaf) -> Option<Vec<&'static str>> {
    let kind = kind(column)?;
    let (_, engines) = ENGINES.iter().find(|(found, _)| *found == kind)?;
    // In groups, only columns of integers were tried. Columns in lists were not tried. A type
    // without engines has none in groups either.
    let is_tried = !column.is_repeated && (!column.is_nested || kind == Kind::Integer || engines.is_empty());
    let in_groups = |engine: &&&str| !column.is_nested || **engine != DATAFUSION;
    is_tried.then(|| engines.iter().filter(in_groups).copied().collect())
}

fn kind(column: &Leaf) -> Option<Kind> {
    let kind = match (column.physical_type?, annotation(column)) {
        (PhysicalType::Boolean, _) => Kind::Boolean,
        (PhysicalType::Int96, _) => Kind::Int96,
        (PhysicalType::Int32 | PhysicalType::Int64, Annotation::Nothing) => Kind::Integer,
        (PhysicalType::Int32 | PhysicalType::Int64, Annotation::Integer { is_small }) => {
            if is_small {
                Kind::Small
            } else {
                Kind::Integer
            }
        }
        (PhysicalType::Int32 | PhysicalType::Int64, Annotation::Time) => Kind::Time,
        (PhysicalType::Int32 | PhysicalType::Int64, Annotation::Decimal) => Kind::IntegerDecimal,
        (PhysicalType::Float | PhysicalType::Double, Annotation::Nothing) => Kind::Float,
        (PhysicalType::ByteArray, Annotation::Nothing | Annotation::Text) => Kind::Bytes,
        (PhysicalType::ByteArray, Annotation::Json) => Kind::Json,
        (PhysicalType::FixedLenByteArray, Annotation::Nothing) => Kind::Bytes,
        (PhysicalType::FixedLenByteArray, Annotation::Decimal) => Kind::FixedDecimal,
        (PhysicalType::FixedLenByteArray, Annotation::Uuid) => Kind::Uuid,
        (PhysicalType::FixedLenByteArray, Annotation::Float16) => Kind::Float16,
        _ => return None,
    };
    Some(kind)
}

/// The logical type of a column, or the converted type of an older writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(physical_type: PhysicalType, logical_type: Option<i16>, converted_type: Option<i64>) -> Leaf {
        Leaf {
            path: "a".into(),
            physical_type: Some(physical_type),
            type_len_bytes: None,
            logical_type,
            converted_type,
            integer_bits: None,
            precision: None,
            logical: String::new(),
            is_nested: false,
            is_repeated: false,
        }
    }

    #[test]
    fn no_kind_has_two_rows_in_the_table() {
        let is_once = |kind: &Kind| ENGINES.iter().filter(|(found, _)| found == kind).count() == 1;
        assert!(ENGINES.iter().all(|(kind, _)| is_once(kind)));
    }

    #[test]
    fn old_and_new_annotations_give_the_same_engines() {
        use PhysicalType::{ByteArray, FixedLenByteArray, Int32, Int64, Int96};
        for (physical, logical, converted, engines) in [
            (ByteArray, 1, 0, "DuckDB DataFusion ClickHouse hyparquet"),
            (ByteArray, 12, 19, "DuckDB DataFusion"),
            (Int32, 5, 5, "DuckDB DataFusion"),
            (FixedLenByteArray, 5, 5, "DataFusion"),
            (Int32, 6, 6, "DuckDB"),
            (Int64, 8, 10, "DuckDB"),
            (Int64, 10, 18, "DuckDB DataFusion ClickHouse hyparquet"),
        ] {
            for leaf in [leaf(physical, Some(logical), None), leaf(physical, None, Some(converted))] {
                assert_eq!(of(&leaf).unwrap().join(" "), engines, "{leaf:?}");
            }
        }
        let small = Leaf { integer_bits: Some(16), ..leaf(Int32, Some(10), None) };
        assert_eq!(of(&small), of(&leaf(Int32, None, Some(16))));
        assert_eq!(of(&small).unwrap(), [DUCKDB, CLICKHOUSE, HYPARQUET]);
        assert_eq!(of(&leaf(Int96, None, None)), Some(vec![]));
        assert_eq!(of(&leaf(ByteArray, Some(4), None)), None);
    }

    #[test]
    fn groups_lose_datafusion_and_lists_were_not_tried() {
        let nested = Leaf { is_nested: true, ..leaf(PhysicalType::Int64, None, None) };
        assert_eq!(of(&nested).unwrap(), [DUCKDB, CLICKHOUSE, HYPARQUET]);
        assert_eq!(of(&Leaf { is_repeated: true, ..nested }), None);
    }
}
