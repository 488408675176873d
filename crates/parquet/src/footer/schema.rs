//! Finds the leaf columns of a schema and their dotted paths.

use super::loss::Loss;
use crate::PhysicalType;
use crate::error::{Error, Result};
use crate::thrift::{Field, Kind, List, Struct};

/// The number of the repetition type `REPEATED`.
const REPEATED: i64 = 2;
/// The numbers of the logical types `DECIMAL` and `INTEGER`.
const DECIMAL: i16 = 5;
const INTEGER: i16 = 10;

/// A leaf column: a column that has values, unlike a group of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The names of the column's groups below the schema's root, then the name of the column,
    /// joined by dots.
    pub path: String,
    /// The physical type.
    pub physical_type: PhysicalType,
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
    /// `ParquetColumn::logical_type` has it. The text is empty if the column has none or is a signed
    /// integer.
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
        Loss::of(self)
    }
}

/// Returns the maximum total length of all paths of a footer. Each path repeats the names of its
/// groups, so without a limit, one long name of a group could fill the memory.
fn max_paths_len_bytes(metadata_len_bytes: usize) -> usize {
    metadata_len_bytes.saturating_mul(16).saturating_add(1 << 20)
}

/// Returns the leaf columns in the order of the schema. Returns `Ok(None)` if the schema is not
/// valid.
///
/// # Errors
/// Returns [`Error::Unsupported`] if the paths together exceed [`max_paths_len_bytes`].
pub(super) fn leaves(schema: &List<'_>, metadata_len_bytes: usize) -> Result<Option<Vec<Leaf>>> {
    let max = max_paths_len_bytes(metadata_len_bytes);
    let mut paths_len_bytes = 0;
    let mut is_too_long = false;
    let found = find_leaves(schema, |path| {
        paths_len_bytes += path.len();
        is_too_long = paths_len_bytes > max;
        !is_too_long
    });
    match is_too_long {
        true => Err(Error::unsupported(
            format!("the paths of the columns have more than {max} bytes together"),
            "write the file again with shorter names of the groups in its schema",
        )),
        false => Ok(found),
    }
}

/// Returns the leaf columns. Returns `None` if the schema is not valid, or if `take` returns false
/// for a path.
fn find_leaves(schema: &List<'_>, mut take: impl FnMut(&str) -> bool) -> Option<Vec<Leaf>> {
    let mut elements = schema.structs().ok()?.iter();
    let root = Struct::parse(elements.next()?).ok()?.0;
    let mut leaves = Vec::new();
    // For each open group: the length of its path, the number of children that follow, and whether
    // the group or a group around it repeats.
    let mut open = vec![(0, children(&root)?, false)];
    let mut path = String::new();
    for bytes in elements {
        while matches!(open.last(), Some((_, 0, _))) {
            open.pop();
        }
        let is_nested = open.len() > 1;
        let (parent_len, left, parent_repeats) = open.last_mut()?;
        *left -= 1;
        path.truncate(*parent_len);
        let element = Struct::parse(bytes).ok()?.0;
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&String::from_utf8_lossy(element.binary(4)?));
        let is_repeated = *parent_repeats || element.int(3) == Some(REPEATED);
        match children(&element) {
            Some(num @ 1..) => open.push((path.len(), num, is_repeated)),
            _ => {
                let physical_type = PhysicalType::from_number(element.int(1)?)?;
                let logical = element.get(10).and_then(|field| Some(Struct::parse(&field.value).ok()?.0));
                let member = logical.as_ref().and_then(|union| union.fields.first());
                let details = member.and_then(|member| Some(Struct::parse(&member.value).ok()?.0)).unwrap_or_default();
                let (logical_type, converted_type) = (member.map(|member| member.id), element.int(6));
                let canonical = match logical_type {
                    Some(number) => of_logical(number, &details),
                    None => of_converted(converted_type, &element),
                };
                if !take(&path) {
                    return None;
                }
                leaves.push(Leaf {
                    path: path.clone(),
                    physical_type,
                    type_len_bytes: match physical_type {
                        PhysicalType::FixedLenByteArray => element.int(2).and_then(|len| usize::try_from(len).ok()),
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
                    logical: canonical,
                    is_nested,
                    is_repeated,
                });
            }
        }
    }
    open.iter().all(|(_, left, _)| *left == 0).then_some(leaves)
}

/// Returns the canonical text of a logical type, given its number and its struct.
fn of_logical(number: i16, details: &Struct<'_>) -> String {
    let is_true = |id| details.get(id).is_some_and(|field| field.kind == Kind::TRUE);
    let of_unit = |name: &str| {
        let unit = details.get(2).and_then(|field| Some(Struct::parse(&field.value).ok()?.0));
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

/// Returns the canonical text of a converted type, the older form of the logical type.
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
fn byte(field: &Field<'_>) -> Option<u8> {
    field.value.first().copied()
}

/// Returns the names of a path, joined by dots. Returns `None` if the elements are not strings.
pub(super) fn joined(path: &List<'_>) -> Option<String> {
    let names: Vec<_> = path.binaries()?.into_iter().map(String::from_utf8_lossy).collect();
    Some(names.join("."))
}

fn children(element: &Struct<'_>) -> Option<u64> {
    u64::try_from(element.int(5)?).ok()
}
