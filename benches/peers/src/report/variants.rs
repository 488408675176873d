//! Makes the Markdown table of filters that take keys one by one.

use super::text::{grouped, markdown, percent, wrapped};
use crate::variants::Row;

/// Returns the table that `what` names. `what` is the text of a marker.
pub fn table(what: &str, machine: &str, rows: &[Row]) -> Result<String, String> {
    match what {
        "machine" => Ok(wrapped(&format!("{machine}."))),
        "speed" => Ok(speed(rows)),
        _ => Err(format!("unknown table: {what}; expected machine or speed")),
    }
}

fn speed(rows: &[Row]) -> String {
    let head = ["Filter", "Package", "Keys", "Insert", "Present", "Absent", "Remove", "Bits per key", "FPR", "Denied"];
    let line = |row: &Row| {
        let name = if row.package == "filterblock" { format!("**`{}`**", row.variant) } else { row.variant.clone() };
        let denied = match row.denied_after_removals {
            Some(after) if after > 0 => format!("{}, then {}", grouped_u64(row.denied), grouped_u64(after)),
            _ => grouped_u64(row.denied),
        };
        vec![
            name,
            format!("{} {}, {}", row.package, row.version, row.runtime),
            grouped(row.keys),
            nanos(row.insert_ns),
            nanos(row.present_ns),
            nanos(row.absent_ns),
            row.remove_ns.map_or(String::new(), nanos),
            format!("{:.1}", row.bytes as f64 * 8.0 / row.keys as f64),
            percent(row.rate),
            denied,
        ]
    };
    markdown(&head, &rows.iter().map(line).collect::<Vec<_>>())
}

fn nanos(nanos: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "less than a second")]
    let whole = nanos.round() as usize;
    grouped(whole)
}

fn grouped_u64(number: u64) -> String {
    grouped(usize::try_from(number).unwrap_or(usize::MAX))
}
