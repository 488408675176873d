//! Makes the Markdown table of filters that take keys one by one.

use charts::markdown::{table as markdown, unknown, wrapped};
use charts::text::{short_percent, thousands, whole};

use crate::variants::Row;

/// Returns the table that `what` names. `what` is the text of a marker.
pub fn table(what: &str, machine: &str, rows: &[Row]) -> Result<String, String> {
    match what {
        "machine" => Ok(wrapped(&format!("{machine}."))),
        "speed" => Ok(speed(rows)),
        _ => unknown(&["machine", "speed"]),
    }
}

fn speed(rows: &[Row]) -> String {
    let head = ["Filter", "Package", "Keys", "Insert", "Present", "Absent", "Remove", "Bits per key", "FPR", "Denied"];
    let line = |row: &Row| {
        let name = if row.package == "filterblock" { format!("**`{}`**", row.variant) } else { row.variant.clone() };
        let denied = match row.denied_after_removals {
            Some(after) if after > 0 => format!("{}, then {}", thousands(row.denied), thousands(after)),
            _ => thousands(row.denied),
        };
        vec![
            name,
            format!("{} {}, {}", row.package, row.version, row.runtime),
            thousands(row.keys),
            thousands(whole(row.insert_ns)),
            thousands(whole(row.present_ns)),
            thousands(whole(row.absent_ns)),
            row.remove_ns.map_or(String::new(), |ns| thousands(whole(ns))),
            format!("{:.1}", row.bytes as f64 * 8.0 / row.keys as f64),
            short_percent(row.rate),
            denied,
        ]
    };
    markdown(&head, &rows.iter().map(line).collect::<Vec<_>>())
}
