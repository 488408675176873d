//! Converts the logical type of a Parquet column to a canonical text.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit};
use parquet::schema::types::ColumnDescriptor;

/// Returns the canonical text of a column's logical type. An older converted type has the text of
/// the logical type that replaces it. `INTERVAL` has no such logical type and keeps its own text.
/// The text is empty for a column with neither type. It is empty for a signed integer too, because
/// the logical type does not change how its bytes are read.
pub(super) fn canonical(column: &ColumnDescriptor) -> String {
    match column.logical_type_ref() {
        Some(logical) => of_logical(logical),
        None => of_converted(column),
    }
}

/// Returns the number of bits of a signed integer type, or `None` for other types.
pub(super) fn signed_bits(column: &ColumnDescriptor) -> Option<u8> {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Integer(int)), _) if int.is_signed => u8::try_from(int.bit_width).ok(),
        (None, ConvertedType::INT_8) => Some(8),
        (None, ConvertedType::INT_16) => Some(16),
        _ => None,
    }
}

fn of_logical(logical: &LogicalType) -> String {
    let zone = |is_utc: bool| if is_utc { "utc" } else { "local" };
    let name = match logical {
        LogicalType::Integer(int) if int.is_signed => "",
        LogicalType::Integer(int) => return format!("uint{}", int.bit_width),
        LogicalType::Decimal(decimal) => return format!("decimal({},{})", decimal.precision, decimal.scale),
        LogicalType::Time(time) => return format!("time({},{})", unit(&time.unit), zone(time.is_adjusted_to_u_t_c)),
        LogicalType::Timestamp(time) => {
            return format!("timestamp({},{})", unit(&time.unit), zone(time.is_adjusted_to_u_t_c));
        }
        LogicalType::String => "string",
        LogicalType::Enum => "enum",
        LogicalType::Date => "date",
        LogicalType::Json => "json",
        LogicalType::Bson => "bson",
        LogicalType::Uuid => "uuid",
        LogicalType::Float16 => "float16",
        LogicalType::Variant(_) => "variant",
        LogicalType::Geometry(_) => "geometry",
        LogicalType::Geography(_) => "geography",
        LogicalType::Map => "map",
        LogicalType::List => "list",
        LogicalType::Unknown => "null",
        _ => "unknown",
    };
    name.to_owned()
}

fn of_converted(column: &ColumnDescriptor) -> String {
    let name = match column.converted_type() {
        ConvertedType::DECIMAL => return format!("decimal({},{})", column.type_precision(), column.type_scale()),
        ConvertedType::NONE
        | ConvertedType::INT_8
        | ConvertedType::INT_16
        | ConvertedType::INT_32
        | ConvertedType::INT_64 => "",
        ConvertedType::UTF8 => "string",
        ConvertedType::ENUM => "enum",
        ConvertedType::DATE => "date",
        ConvertedType::TIME_MILLIS => "time(ms,utc)",
        ConvertedType::TIME_MICROS => "time(us,utc)",
        ConvertedType::TIMESTAMP_MILLIS => "timestamp(ms,utc)",
        ConvertedType::TIMESTAMP_MICROS => "timestamp(us,utc)",
        ConvertedType::UINT_8 => "uint8",
        ConvertedType::UINT_16 => "uint16",
        ConvertedType::UINT_32 => "uint32",
        ConvertedType::UINT_64 => "uint64",
        ConvertedType::JSON => "json",
        ConvertedType::BSON => "bson",
        ConvertedType::INTERVAL => "interval",
        ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE => "map",
        ConvertedType::LIST => "list",
    };
    name.to_owned()
}

fn unit(unit: &TimeUnit) -> &'static str {
    match unit {
        TimeUnit::MILLIS => "ms",
        TimeUnit::MICROS => "us",
        TimeUnit::NANOS => "ns",
    }
}
