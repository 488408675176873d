//! Makes the Markdown table of range filters.

use super::text::{grouped, markdown, percent, short, wrapped};
use crate::ranges::Row;

/// Returns the table that `what` names. `what` is the text of a marker.
pub fn table(what: &str, machine: &str, rows: &[Row]) -> Result<String, String> {
    match what {
        "machine" => Ok(wrapped(&format!("{machine}."))),
        "speed" => Ok(speed(rows)),
        _ => Err(format!("unknown table: {what}; expected machine or speed")),
    }
}

fn speed(rows: &[Row]) -> String {
    let head = [
        "Filter",
        "Keys",
        "L",
        "Bits per key",
        "Uniform",
        "Beside a key",
        "Holds a key",
        "Build",
        "FPR, uniform",
        "FPR, beside a key",
        "Denied",
    ];
    let line = |row: &Row| {
        let name =
            if row.package == "filterblock" { format!("**`{}`**", row.range_filter) } else { row.package.clone() };
        vec![
            format!("{name} {}", row.version),
            grouped(row.keys),
            grouped(usize::try_from(row.range_len).unwrap_or(usize::MAX)),
            row.bits_per_key().map_or("unknown".into(), |bits| format!("{bits:.2}")),
            short(row.uniform_ns),
            short(row.correlated_ns),
            short(row.present_ns),
            short(row.build_ns),
            percent(row.uniform_rate),
            percent(row.correlated_rate),
            percent(row.denied_rate),
        ]
    };
    markdown(&head, &rows.iter().map(line).collect::<Vec<_>>())
}
