//! Makes the Markdown table of range filters.

use charts::markdown::{table as markdown, unknown, wrapped};
use charts::text::{short, short_percent, thousands};

use crate::ranges::Row;

/// Returns the table that `what` names. `what` is the text of a marker.
pub fn table(what: &str, machine: &str, rows: &[Row]) -> Result<String, String> {
    match what {
        "machine" => Ok(wrapped(&format!("{machine}."))),
        "speed" => Ok(speed(rows)),
        _ => unknown(&["machine", "speed"]),
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
            thousands(row.keys),
            thousands(row.range_len),
            row.bits_per_key().map_or("unknown".into(), |bits| format!("{bits:.2}")),
            short(row.uniform_ns),
            short(row.correlated_ns),
            short(row.present_ns),
            short(row.build_ns),
            short_percent(row.uniform_rate),
            short_percent(row.correlated_rate),
            short_percent(row.denied_rate),
        ]
    };
    markdown(&head, &rows.iter().map(line).collect::<Vec<_>>())
}
