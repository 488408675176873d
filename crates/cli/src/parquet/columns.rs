//! Column names of a Parquet file, and the names near a wrong one.

use super::super::failure::{Failure, Outcome};
use super::super::text::printable;
use filterblock_parquet::Footer;
use filterblock_parquet::footer::PhysicalType;

/// The least similarity of a name that is suggested, and the most names.
const SIMILARITY_MIN: f64 = 0.7;
const NAMED_MAX: usize = 5;
/// The number of the logical type FLOAT16 in the format's specification.
const FLOAT16: i16 = 15;

/// Returns the leaf columns with these names, each once, in the order of the names.
pub fn find(footer: &Footer, names: &[String]) -> Outcome<Vec<usize>> {
    let mut found = Vec::new();
    for name in names {
        let mut leaves = footer.leaves().iter().enumerate().filter(|(_, leaf)| leaf.path == *name);
        let (number, leaf) = leaves.next().ok_or_else(|| unknown(footer, name))?;
        let name = printable(name);
        if leaves.next().is_some() {
            return Err(Failure::Message(format!(
                "several columns have the path {name}, because a name contains a dot; rename one of them"
            )));
        }
        if leaf.physical_type == PhysicalType::Boolean {
            return Err(Failure::Message(format!(
                "column {name} is Boolean: it has two values, and engines use no filter for it; omit this column"
            )));
        }
        if leaf.logical_type == Some(FLOAT16) {
            return Err(Failure::Message(format!(
                "column {name} has the type FLOAT16: DuckDB hashes such values as FLOAT, so a filter would hide \
                 its rows; omit this column"
            )));
        }
        if !found.contains(&number) {
            found.push(number);
        }
    }
    Ok(found)
}

fn unknown(footer: &Footer, name: &str) -> Failure {
    let paths = footer.leaves().iter().map(|leaf| leaf.path.as_str());
    let lower = name.to_lowercase();
    // A group has no values, but its leaf columns have.
    let score = |path: &str| match path.to_lowercase() {
        path if path.starts_with(&format!("{lower}.")) || path.ends_with(&format!(".{lower}")) => 1.0,
        path => strsim::jaro_winkler(&path, &lower),
    };
    let mut near: Vec<(f64, &str)> = paths.clone().map(|path| (score(path), path)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.retain(|(score, _)| *score >= SIMILARITY_MIN);
    let list = |names: Vec<&str>| names.into_iter().map(printable).collect::<Vec<_>>().join(", ");
    let next = match near.is_empty() {
        false => format!("did you mean {}?", list(near.into_iter().take(NAMED_MAX).map(|(_, path)| path).collect())),
        true => match paths.len() {
            0 => "the file has no columns".into(),
            num if num <= NAMED_MAX => format!("the columns are {}", list(paths.collect())),
            num => format!("the first of {num} columns are {}", list(paths.take(NAMED_MAX).collect())),
        },
    };
    Failure::Message(format!("there is no column {}; {next}", printable(name)))
}
