//! Makes the Markdown tables of range filters, and of filters that take keys one by one.

use charts::markdown::table;
use charts::text::{short, short_percent, thousands, whole};

use crate::{ranges, variants};

/// Returns the table of each filter and range length, with the largest number of keys.
pub fn of_ranges(rows: &[ranges::Row]) -> String {
    let space_and_times = ["Filter", "Keys", "L", "Bits per key", "Uniform", "Beside a key", "Holds a key", "Build"];
    let head = [&space_and_times[..], &["FPR, uniform", "FPR, beside a key", "Denied"]].concat();
    let line = |row: &ranges::Row| {
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
    let is_largest = |row: &&ranges::Row| {
        let same = |other: &&ranges::Row| (&other.package, other.range_len) == (&row.package, row.range_len);
        rows.iter().filter(same).all(|other| other.keys <= row.keys)
    };
    table(&head, &rows.iter().filter(is_largest).map(line).collect::<Vec<_>>())
}

pub fn of_variants(rows: &[variants::Row]) -> String {
    let head = ["Filter", "Package", "Keys", "Insert", "Present", "Absent", "Remove", "Bits per key", "FPR", "Denied"];
    let line = |row: &variants::Row| {
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
    table(&head, &rows.iter().map(line).collect::<Vec<_>>())
}
