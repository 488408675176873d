//! The table of docs/EMBEDDING.md, written from rows.

use crate::row::Row;

/// The line before the table in the page.
pub const BEGIN: &str = "<!-- Written by `integrations/bench/run`: begin -->";
/// The line after the table in the page.
pub const END: &str = "<!-- Written by `integrations/bench/run`: end -->";

/// Returns the rows as a Markdown table, in the order of the rows.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let head = "| Engine | Runs | Keys | Filter | Bits per key | FPR | Reads per miss | Miss, mean | p99 | Load | Compaction |";
    let mut text = format!("{head}\n|---|---|--:|---|--:|--:|--:|--:|--:|--:|--:|\n");
    for row in rows {
        let runs = row.layout.trim_end_matches(" runs").trim_end_matches(" run");
        let cells = [
            format!("{} {}", row.engine, row.version),
            runs.to_owned(),
            keys(row.keys),
            if row.filter == "none" { row.filter.clone() } else { format!("`{}`", row.filter) },
            if row.filter_bytes == 0 { "0".to_owned() } else { format!("{:.2}", row.bits_per_key) },
            row.false_positive_rate.map_or_else(|| "–".to_owned(), |rate| format!("{:.2} %", rate * 100.0)),
            row.reads_per_miss.map_or_else(|| "–".to_owned(), |reads| format!("{reads:.4}")),
            nanoseconds(row.miss_mean_ns),
            nanoseconds(row.miss_p99_ns),
            format!("{} per key", nanoseconds(row.build_ns_per_key)),
            row.compact_ms.map_or_else(|| "–".to_owned(), |ms| format!("{:.2} s", ms / 1e3)),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

/// Replaces the lines between [`BEGIN`] and [`END`] in a page by `table`. Returns `None` if the page
/// lacks one of the two lines.
#[must_use]
pub fn replace_table(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

fn keys(keys: u64) -> String {
    match keys {
        1_000_000.. if keys.is_multiple_of(1_000_000) => format!("{} M", keys / 1_000_000),
        _ => keys.to_string(),
    }
}

fn nanoseconds(ns: f64) -> String {
    match ns {
        ..1_000.0 => format!("{ns:.0} ns"),
        ..1e6 => format!("{:.2} µs", ns / 1e3),
        _ => format!("{:.2} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            engine: "SlateDB".into(),
            version: "0.18.0".into(),
            layout: "5 runs".into(),
            filter: "bumped-ribbon:8".into(),
            keys: 1_000_000,
            filter_bytes: 1_003_750,
            bits_per_key: 8.03,
            false_positive_rate: Some(0.0039),
            miss_mean_ns: 432.1,
            miss_p99_ns: 12_345.0,
            reads_per_miss: None,
            build_ns_per_key: 1_500.0,
            compact_ms: Some(2_500.0),
            false_negatives: 0,
        }
    }

    #[test]
    fn table_has_one_line_per_row() {
        let table = markdown(&[row()]);
        let expected = "| SlateDB 0.18.0 | 5 | 1 M | `bumped-ribbon:8` | 8.03 | 0.39 % | – | 432 ns | 12.35 µs | 1.50 µs per key | 2.50 s |";
        assert_eq!(table.lines().nth(2), Some(expected));
    }

    #[test]
    fn table_replaces_the_lines_between_the_marks() {
        let page = format!("before\n{BEGIN}\n\nold\n{END}\nafter\n");
        assert_eq!(replace_table(&page, "new\n"), Some(format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n")));
        assert_eq!(replace_table("no marks", "new"), None);
    }

    #[test]
    fn rows_survive_a_round_trip_through_json() {
        let text = serde_json::to_string(&row()).expect("a row is plain data");
        assert_eq!(serde_json::from_str::<Row>(&text).expect("it was just written"), row());
    }
}
