//! Finds columns of a Parquet file by name, and suggests similar names for an unknown one.

use std::collections::{BTreeMap, BTreeSet};

use super::super::failure::{Failure, Outcome};
use super::super::text::printable;
use filterblock_parquet::error::shortened;
use filterblock_parquet::{Footer, PhysicalType};

/// The minimum score of a suggested name, on the scale of the Jaro-Winkler similarity.
const SIMILARITY_MIN: f64 = 0.7;
/// The maximum number of column names in a message.
const NAMED_MAX: usize = 5;

/// Returns the numbers of the leaf columns with these names, each once, in the order of the names.
/// Returns an error for an unknown or ambiguous name, and for a type that gets no filters.
pub fn find(footer: &Footer, names: &[String]) -> Outcome<Vec<usize>> {
    let mut by_path: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, leaf) in footer.leaves().iter().enumerate() {
        by_path.entry(&leaf.path).or_default().push(number);
    }
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for name in names {
        let same = by_path.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        let first = same.first().and_then(|&number| Some((number, footer.leaves().get(number)?)));
        let (number, leaf) = first.ok_or_else(|| unknown(footer, name))?;
        let name = shown(name);
        if same.len() > 1 {
            return Err(Failure::Message(format!(
                "several columns have the path {name}, and this command cannot tell them apart; rename one of them"
            )));
        }
        if leaf.physical_type == Some(PhysicalType::Boolean) {
            return Err(Failure::Message(format!(
                "column {name} is Boolean: a filter of two values rarely skips a row group; omit this column"
            )));
        }
        if seen.insert(number) {
            found.push(number);
        }
    }
    Ok(found)
}

/// Returns the leaf columns with filters of which an engine loses rows. Returns an error unless
/// `accepted` has the path or the type of each.
pub fn forced(footer: &Footer, leaves: &[usize], accepted: &[String]) -> Outcome<Vec<usize>> {
    let mut forced = Vec::new();
    for &number in leaves {
        let leaf = footer.leaves().get(number);
        let Some((leaf, loss)) = leaf.and_then(|leaf| Some((leaf, leaf.loss()?))) else { continue };
        if !accepted.iter().any(|name| **name == *leaf.path || name.eq_ignore_ascii_case(loss.name)) {
            return Err(Failure::Message(format!(
                "column {} has {loss}; omit this column, or accept that queries lose rows with --force-type {}",
                shown(&leaf.path),
                loss.name
            )));
        }
        forced.push(number);
    }
    Ok(forced)
}

fn unknown(footer: &Footer, name: &str) -> Failure {
    let paths = footer.leaves().iter().map(|leaf| &*leaf.path);
    let lower = name.to_lowercase();
    // The name may be that of a group, or the last part of a path.
    let score = |path: &str| match path.to_lowercase() {
        path if path.starts_with(&format!("{lower}.")) || path.ends_with(&format!(".{lower}")) => 1.0,
        path => strsim::jaro_winkler(&path, &lower),
    };
    let mut near: Vec<(f64, &str)> = paths.clone().map(|path| (score(path), path)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.retain(|(score, _)| *score >= SIMILARITY_MIN);
    let list = |names: Vec<&str>| names.into_iter().map(shown).collect::<Vec<_>>().join(", ");
    let next = match near.is_empty() {
        false => format!("did you mean {}?", list(near.into_iter().take(NAMED_MAX).map(|(_, path)| path).collect())),
        true => match paths.len() {
            0 => "the file has no columns; give another file".into(),
            1 => format!("the only column is {}", list(paths.collect())),
            num if num <= NAMED_MAX => format!("the columns are {}", list(paths.collect())),
            num => format!("the first {NAMED_MAX} of {num} columns are {}", list(paths.take(NAMED_MAX).collect())),
        },
    };
    Failure::Message(format!("there is no column {}; {next}", shown(name)))
}

/// Returns a column name for a message.
fn shown(name: &str) -> String {
    printable(&shortened(name))
}
