//! Reads the leaf columns of a Parquet file's schema: the columns that have values.

use filterblock_foreign::Result;

use super::PhysicalType;
use super::thrift::{Reader, Type};

/// A leaf column of the schema.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    /// The names of the column's groups and of the column, joined by dots.
    pub(super) path: String,
    /// The physical type, or `None` if it is unknown.
    pub(super) physical_type: Option<PhysicalType>,
}

/// An element of the schema: a group of columns or a leaf column.
#[derive(Debug, Default)]
struct Element {
    type_number: Option<i64>,
    name: Option<String>,
    children: u64,
}

/// Returns the leaf columns in the order of the schema. Each path repeats the names of its groups,
/// so long names could fill the memory: all paths together have at most `max_len_bytes` bytes.
pub(super) fn read_leaves(reader: &mut Reader<'_>, max_len_bytes: usize) -> Result<Vec<Leaf>> {
    let num_elements = reader.structs()?;
    if num_elements == 0 {
        return Err(reader.corrupt());
    }
    // For each open group: the length of its path, and the number of children that follow.
    let mut open = vec![(0, read_element(reader)?.children)];
    let (mut leaves, mut path, mut len_bytes) = (Vec::new(), String::new(), 0);
    for _ in 1..num_elements {
        let element = read_element(reader)?;
        while matches!(open.last(), Some((_, 0))) {
            open.pop();
        }
        let (Some((parent_len, left)), Some(name)) = (open.last_mut(), element.name) else {
            return Err(reader.corrupt());
        };
        *left -= 1;
        path.truncate(*parent_len);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&name);
        if element.children > 0 {
            open.push((path.len(), element.children));
        } else if let Some(number) = element.type_number {
            len_bytes += path.len();
            if len_bytes > max_len_bytes {
                return Err(reader.corrupt());
            }
            leaves.push(Leaf { path: path.clone(), physical_type: PhysicalType::from_number(number) });
        }
    }
    if open.iter().any(|(_, left)| *left > 0) { Err(reader.corrupt()) } else { Ok(leaves) }
}

fn read_element(reader: &mut Reader<'_>) -> Result<Element> {
    let (mut last, mut element) = (0, Element::default());
    while let Some((number, kind)) = reader.field(&mut last)? {
        match (number, kind) {
            (1, Type::Int) => element.type_number = Some(reader.int()?),
            (4, Type::Binary) => element.name = Some(String::from_utf8_lossy(reader.binary()?).into_owned()),
            (5, Type::Int) => element.children = u64::try_from(reader.int()?).unwrap_or(0),
            _ => reader.skip(kind)?,
        }
    }
    Ok(element)
}
