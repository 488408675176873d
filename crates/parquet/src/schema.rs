//! The schema of a Parquet file: the leaf columns, their types, and the types for which an engine
//! loses rows if their columns have filters.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Field, Result};
use crate::thrift::{self, Kind, Struct, Structs};

const REPEATED: i64 = 2;
/// The numbers of the logical types `DECIMAL`, `INTEGER` and `FLOAT16`.
const DECIMAL: i16 = 5;
const INTEGER: i16 = 10;
const FLOAT16: i16 = 15;
const CONVERTED_DECIMAL: i64 = 5;
const CONVERTED_INTERVAL: i64 = 21;
/// The maximum precision of a decimal that DuckDB reads as a decimal.
const MAX_DUCKDB_PRECISION: i64 = 38;

/// The physical type of a column. It decides how a value is encoded before it is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PhysicalType {
    /// One bit.
    Boolean,
    /// Four bytes, little endian.
    Int32,
    /// Eight bytes, little endian.
    Int64,
    /// Twelve bytes. This type is deprecated.
    Int96,
    /// Four bytes, IEEE 754, little endian.
    Float,
    /// Eight bytes, IEEE 754, little endian.
    Double,
    /// The bytes without their length.
    ByteArray,
    /// The bytes.
    FixedLenByteArray,
}

impl PhysicalType {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Boolean, "BOOLEAN"),
        (Self::Int32, "INT32"),
        (Self::Int64, "INT64"),
        (Self::Int96, "INT96"),
        (Self::Float, "FLOAT"),
        (Self::Double, "DOUBLE"),
        (Self::ByteArray, "BYTE_ARRAY"),
        (Self::FixedLenByteArray, "FIXED_LEN_BYTE_ARRAY"),
    ];

    /// Returns the type with this number in the format's specification, or `None` for an unknown
    /// number.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        Some(Self::ALL.get(usize::try_from(number).ok()?)?.0)
    }

    /// Returns the number in the format's specification.
    #[must_use]
    pub fn number(self) -> i64 {
        self as i64
    }

    /// Returns the name in the format's specification.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(found, _)| *found == self).map_or("unknown", |(_, name)| name)
    }
}

/// A type for which an engine loses rows: with a filter, the engine skips row groups that hold the
/// searched value. `tests/engines/suites/types.py` asks the engines for values of all types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The short name of the type, such as `interval`.
    pub name: &'static str,
    /// The type in words.
    pub kind: &'static str,
    /// The engine and its tested version.
    pub engine: &'static str,
    /// What the engine does, as a part of a sentence after its name.
    pub reason: &'static str,
}

impl Loss {
    /// The types, in the order of `docs/PARQUET.md`.
    pub const ALL: [Self; 3] = [Self::FLOAT16, Self::DECIMAL256, Self::INTERVAL];

    const FLOAT16: Self =
        Self { name: "float16", kind: "FLOAT16", engine: "DuckDB 2.0", reason: "hashes the values as FLOAT" };
    const DECIMAL256: Self = Self {
        name: "decimal256",
        kind: "DECIMAL with a precision over 38",
        engine: "DuckDB 2.0",
        reason: "reads and hashes the values as DOUBLE",
    };
    pub(crate) const INTERVAL: Self = Self {
        name: "interval",
        kind: "INTERVAL",
        engine: "DuckDB 2.0",
        reason: "turns 30 days into a month and 24 hours into a day before it hashes a value",
    };
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, engine, reason, .. } = self;
        write!(f, "the type {kind}: {engine} {reason}, so with a filter it loses rows")
    }
}

/// A leaf column: a column that has values, unlike a group of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The names of the column's groups below the schema's root, then the name of the column,
    /// joined by dots.
    pub path: Arc<str>,
    /// The physical type, or `None` if its number is unknown.
    pub physical_type: Option<PhysicalType>,
    /// The length of a value in bytes if the type is FIXED_LEN_BYTE_ARRAY and the schema has a
    /// valid length, or else `None`.
    pub type_len_bytes: Option<usize>,
    /// The number of the logical type, or `None` if the column has none.
    pub logical_type: Option<i16>,
    /// The number of the converted type, the older form of the logical type, or `None` if the
    /// column has none.
    pub converted_type: Option<i64>,
    /// The number of bits of the logical type `INTEGER`, or of the converted types `INT_8` and
    /// `INT_16`. `None` for other types.
    pub integer_bits: Option<u8>,
    /// The number of digits of a decimal, or `None` for other types. If the logical type and the
    /// schema element give different numbers, this is the greater one.
    pub precision: Option<i64>,
    /// The canonical text of the logical type, such as `decimal(9,2)` or `uint32`, as
    /// docs/INDEX_FORMAT.md lists it. The text is empty if the column has none or is a signed integer.
    pub logical: String,
    /// Whether the column lies in a group below the root.
    pub is_nested: bool,
    /// Whether a row may have several values, as in a list.
    pub is_repeated: bool,
}

impl Leaf {
    /// Returns the engine that loses rows if a column of this type has filters, or `None` if no
    /// tested engine does.
    #[must_use]
    pub fn loss(&self) -> Option<&'static Loss> {
        let is_decimal = self.logical_type == Some(DECIMAL) || self.converted_type == Some(CONVERTED_DECIMAL);
        if self.logical_type == Some(FLOAT16) {
            Some(&Loss::FLOAT16)
        } else if is_decimal && self.precision.is_none_or(|precision| precision > MAX_DUCKDB_PRECISION) {
            Some(&Loss::DECIMAL256)
        } else if self.converted_type == Some(CONVERTED_INTERVAL) {
            Some(&Loss::INTERVAL)
        } else {
            None
        }
    }

    pub(crate) fn signed_bits(&self) -> Option<u8> {
        self.integer_bits.filter(|_| self.logical.is_empty())
    }
}

/// Returns the leaf columns in the order of the schema. `offset` is where the schema begins.
///
/// # Errors
/// Returns [`Error::Corrupt`] if the schema is not valid. Each path repeats the names of its groups,
/// so one long name of a group could fill the memory, and so could many short elements: returns
/// [`Error::Unsupported`] if all columns together need more memory than 16 times the length of the
/// metadata and 1 MiB.
pub(crate) fn leaves(schema: Structs<'_>, metadata_len_bytes: usize, offset: u64) -> Result<Vec<Leaf>> {
    let max = metadata_len_bytes.saturating_mul(16).saturating_add(1 << 20);
    let invalid = || Error::corrupt(Field::Schema, offset);
    let (mut leaves, mut path, mut memory) = (Vec::new(), String::new(), 0);
    // For each open group: the length of its path, the number of children that follow, and whether
    // the group or a group around it repeats.
    let mut open: Vec<(usize, u64, bool)> = Vec::new();
    for (number, element) in schema.enumerate() {
        let element = element.map_err(|_| invalid())?.fields;
        let children = element.int(5).and_then(|num| u64::try_from(num).ok()).unwrap_or(0);
        if number == 0 {
            open.push((0, children, false));
            continue;
        }
        while matches!(open.last(), Some((_, 0, _))) {
            open.pop();
        }
        let is_nested = open.len() > 1;
        let (parent_len, left, parent_repeats) = open.last_mut().ok_or_else(invalid)?;
        *left -= 1;
        path.truncate(*parent_len);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&String::from_utf8_lossy(element.binary(4).ok_or_else(invalid)?));
        let is_repeated = *parent_repeats || element.int(3) == Some(REPEATED);
        if children > 0 {
            open.push((path.len(), children, is_repeated));
        } else if let Some(number) = element.int(1) {
            memory += size_of::<Leaf>() + path.len();
            if memory > max {
                return Err(Error::unsupported(
                    format!("the columns of the schema need more than {max} bytes of memory"),
                    "write the file again with fewer columns, or with shorter names of the groups in its schema",
                ));
            }
            leaves.push(leaf(&element, &path, PhysicalType::from_number(number), is_nested, is_repeated));
        }
    }
    match open.is_empty() || open.iter().any(|(_, left, _)| *left > 0) {
        true => Err(invalid()),
        false => Ok(leaves),
    }
}

fn leaf(
    element: &Struct<'_>,
    path: &str,
    physical_type: Option<PhysicalType>,
    is_nested: bool,
    is_repeated: bool,
) -> Leaf {
    let logical = element.nested(10);
    let member = logical.as_ref().and_then(|union| union.fields.first());
    let details = member.and_then(|member| Some(Struct::parse(&member.value).ok()?.0)).unwrap_or_default();
    let (logical_type, converted_type) = (member.map(|member| member.id), element.int(6));
    Leaf {
        path: path.into(),
        physical_type,
        type_len_bytes: match physical_type {
            Some(PhysicalType::FixedLenByteArray) => element.int(2).and_then(|len| usize::try_from(len).ok()),
            _ => None,
        },
        logical_type,
        converted_type,
        integer_bits: match (logical_type, converted_type) {
            (Some(INTEGER), _) => details.get(1).and_then(byte),
            (None, Some(15)) => Some(8),
            (None, Some(16)) => Some(16),
            _ => None,
        },
        precision: details.int(2).filter(|_| logical_type == Some(DECIMAL)).max(element.int(8)),
        logical: match logical_type {
            Some(number) => of_logical(number, &details),
            None => of_converted(converted_type, element),
        },
        is_nested,
        is_repeated,
    }
}

/// Returns the canonical text of a logical type, given its number and its struct.
fn of_logical(number: i16, details: &Struct<'_>) -> String {
    let is_true = |id| details.get(id).is_some_and(|field| field.kind == Kind::TRUE);
    let of_unit = |name: &str| {
        let unit = details.nested(2);
        let unit = match unit.as_ref().and_then(|unit| unit.fields.first()).map(|member| member.id) {
            Some(1) => "ms",
            Some(2) => "us",
            Some(3) => "ns",
            _ => "unknown",
        };
        format!("{name}({unit},{})", if is_true(1) { "utc" } else { "local" })
    };
    let name = match number {
        1 => "string",
        2 => "map",
        3 => "list",
        4 => "enum",
        5 => return decimal(details.int(2), details.int(1)),
        6 => "date",
        7 => return of_unit("time"),
        8 => return of_unit("timestamp"),
        INTEGER if is_true(2) => "",
        INTEGER => return format!("uint{}", details.get(1).and_then(byte).unwrap_or(0)),
        11 => "null",
        12 => "json",
        13 => "bson",
        14 => "uuid",
        15 => "float16",
        16 => "variant",
        17 => "geometry",
        18 => "geography",
        _ => "unknown",
    };
    name.to_owned()
}

fn of_converted(number: Option<i64>, element: &Struct<'_>) -> String {
    let name = match number {
        None | Some(15..=18) => "",
        Some(0) => "string",
        Some(1 | 2) => "map",
        Some(3) => "list",
        Some(4) => "enum",
        Some(5) => return decimal(element.int(8), element.int(7)),
        Some(6) => "date",
        Some(7) => "time(ms,utc)",
        Some(8) => "time(us,utc)",
        Some(9) => "timestamp(ms,utc)",
        Some(10) => "timestamp(us,utc)",
        Some(11) => "uint8",
        Some(12) => "uint16",
        Some(13) => "uint32",
        Some(14) => "uint64",
        Some(19) => "json",
        Some(20) => "bson",
        Some(21) => "interval",
        Some(_) => "unknown",
    };
    name.to_owned()
}

fn decimal(precision: Option<i64>, scale: Option<i64>) -> String {
    format!("decimal({},{})", precision.unwrap_or(0), scale.unwrap_or(0))
}

/// Returns the value of an integer of one byte, which is not a varint.
fn byte(field: &thrift::Field<'_>) -> Option<u8> {
    field.value.first().copied()
}
