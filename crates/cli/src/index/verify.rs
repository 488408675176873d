//! `filterblock index verify`: checks an index for damage, and its files for changes.

use std::path::PathBuf;

use filterblock_report::index_report;
use serde_json::{Value, json};

use super::{CheckArguments, failure, report_differences, try_open};
use crate::prelude::*;

/// The maximum number of damaged or unreadable rows that are named. All others are only counted.
const NAMED_MAX: u64 = 10;

const EXAMPLES: &str = "\
Examples:
  filterblock index verify ids.index
  filterblock index verify ids.index --json --check no

The command verifies the checksums of header, file table and every row, and compares each file with its recorded state as --check says. \
It also computes the FPR of each file from the bits of its filters.
A damaged row makes all files candidates for the keys of this row. Build the index again.
With --json, `sound` says whether the index itself is undamaged and readable. If the length, the header or the file table is \
damaged, the report has only `index`, `sound` and `damage`.

Exit status: 0 sound; 1 damaged, or files have changed, are missing or unreadable; 2 an error, such as an unreadable index or a \
newer format.";

/// Check an index for damage, and its files for changes
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The index
    #[arg(value_name = "INDEX")]
    pub index: PathBuf,
    #[command(flatten)]
    pub files: CheckArguments,
    /// Print the report as JSON, with every file
    #[arg(long)]
    pub json: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.index;
    if arguments.json {
        output::check_stdout()?;
    }
    let index = match try_open(path)? {
        Ok(index) => index,
        // If the header or the file table is damaged, nothing else is known.
        Err(error) if error.is_damage() => {
            let damage = failure(path, error).to_string();
            message(&damage);
            if arguments.json {
                output::print_json(&json!({"index": path.display().to_string(), "sound": false, "damage": damage}))?;
            }
            return Ok(Exit::Negative);
        }
        Err(error) => return Err(failure(path, error)),
    };
    let mut damaged = 0;
    let bar = progress::bar(Some(index.rows().into()), "verifying rows");
    index.verify(|row, error| {
        bar.set_position(row.into());
        if let Some(error) = error {
            damaged += 1;
            if damaged <= NAMED_MAX {
                message(failure(path, error));
            }
        }
    });
    bar.finish_and_clear();
    let differences = arguments.files.differences(&index);

    report_differences(path, &index, &differences);
    let rates = index.measure();
    let head = json!({
        "index": path.display().to_string(),
        "sound": damaged == 0,
        "damaged_rows": damaged,
        "changed_files": differences.len(),
    });
    let mut report = index_report(head, &index);
    let files = report.get_mut("files").and_then(Value::as_array_mut).into_iter().flatten();
    for (number, (file, fpr)) in files.zip(&rates).enumerate() {
        let Value::Object(file) = file else { continue };
        file.insert("fpr".to_owned(), json!(fpr));
        if let Some((_, how)) = differences.iter().find(|(changed, _)| *changed == number) {
            file.insert("changed".to_owned(), how.to_string().into());
        }
    }
    output::report(arguments.json, &report, || {
        let changed = format!("{} changed, missing or unreadable", count(differences.len() as u64, "file"));
        let state = match (damaged, differences.len()) {
            (0, 0) => "sound".to_owned(),
            (0, _) => format!("sound, but {changed}"),
            _ => format!("{} damaged or unreadable; {changed}", count(damaged, "row")),
        };
        // `Iterator::sum` of no numbers is -0.0.
        let mean = percent(rates.iter().fold(0.0, |sum, fpr| sum + fpr) / rates.len().max(1) as f64);
        let (files, keys) =
            (count(rates.len() as u64, "file"), count(index.files().iter().map(|file| file.num_keys).sum(), "key"));
        let (name, bytes) = (path.display(), count(index.len_bytes(), "byte"));
        format!("{name}: {state}; {files}, {keys}, {bytes}, mean FPR of a file {mean}\n")
    })?;
    Ok(if damaged == 0 && differences.is_empty() { Exit::Success } else { Exit::Negative })
}
