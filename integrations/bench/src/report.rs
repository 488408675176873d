//! Merges rows, and turns them into tables: a short one for docs/BENCHMARKS.md, and all rows.

use std::str::FromStr;

use filterblock::FilterSpec;

use crate::row::Row;

/// The engines in the order of the tables.
const ENGINES: [&str; 6] = ["RocksDB", "LevelDB", "rusty-leveldb", "SurrealKV", "SlateDB", "redb"];

/// The header row and the delimiter row of each table of all rows.
const HEAD: &str =
    "| Runs | Keys | Filter | Bits per key | FPR | Reads per miss | Miss, mean | p99 | Load, per key | Compaction |
|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|
";

/// Returns one Markdown table for each engine. The rows of an engine must follow each other.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for engine in rows.chunk_by(|one, next| one.engine == next.engine) {
        let Some(first) = engine.first() else { continue };
        let lost: u64 = engine.iter().map(|row| row.false_negatives).sum();
        text += &format!("**{} {}**: {lost} false negatives.\n\n{HEAD}", first.engine, first.version);
        engine.iter().for_each(|row| text += &line(row));
        text += "\n";
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// Returns the table of the page. For each engine, a line has its first row, which has the engine's
/// own filter, and the row of the filter of filterblock with the nearest bits per key.
#[must_use]
pub fn summary(rows: &[Row]) -> String {
    let mut text = String::from(
        "| Engine | Runs | Own filter | Bits | FPR | Miss | p99 | filterblock | Bits | FPR | Miss | p99 |\n\
         |---|--:|---|--:|--:|--:|--:|---|--:|--:|--:|--:|\n",
    );
    for engine in rows.chunk_by(|one, next| one.engine == next.engine) {
        let Some(own) = engine.first() else { continue };
        let apart = |row: &Row| (row.bits_per_key - own.bits_per_key).abs();
        let ours = engine.iter().filter(|row| (row.keys, &row.layout) == (own.keys, &own.layout) && is_ours(row));
        let Some(ours) = ours.min_by(|one, other| apart(one).total_cmp(&apart(other))) else { continue };
        let mut cells = vec![format!("{} {}", own.engine, own.version), runs(own)];
        for row in [own, ours] {
            cells.extend([
                filter(row),
                bits(row),
                rate(row),
                nanoseconds(row.miss_mean_ns),
                nanoseconds(row.miss_p99_ns),
            ]);
        }
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

fn line(row: &Row) -> String {
    let cells = [
        runs(row),
        keys(row.keys),
        filter(row),
        bits(row),
        rate(row),
        row.reads_per_miss.map_or_else(|| "–".to_owned(), |reads| format!("{reads:.4}")),
        nanoseconds(row.miss_mean_ns),
        nanoseconds(row.miss_p99_ns),
        nanoseconds(row.build_ns_per_key),
        row.compact_ms.map_or_else(|| "–".to_owned(), |ms| format!("{:.2} s", ms / 1e3)),
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// Merges `old` and `new` rows. Returns them sorted by engine, in the order of the page, and then
/// by number of keys. New rows replace all old rows of the same engine and number of keys.
#[must_use]
pub fn merge(old: Vec<Row>, new: Vec<Row>) -> Vec<Row> {
    let mut rows: Vec<Row> =
        old.into_iter().filter(|old| !new.iter().any(|new| new.engine == old.engine && new.keys == old.keys)).collect();
    rows.extend(new);
    // The sort is stable, so rows of one measurement keep their order.
    rows.sort_by_key(|row| (ENGINES.iter().position(|engine| *engine == row.engine), row.keys));
    rows
}

fn is_ours(row: &Row) -> bool {
    FilterSpec::from_str(&row.filter).is_ok()
}

fn runs(row: &Row) -> String {
    row.layout.trim_end_matches(" runs").trim_end_matches(" run").to_owned()
}

fn filter(row: &Row) -> String {
    if is_ours(row) { format!("`{}`", row.filter) } else { row.filter.clone() }
}

fn bits(row: &Row) -> String {
    if row.filter_bytes == 0 { "0".to_owned() } else { format!("{:.2}", row.bits_per_key) }
}

fn rate(row: &Row) -> String {
    row.false_positive_rate.map_or_else(|| "–".to_owned(), |rate| format!("{:.2} %", rate * 100.0))
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
    fn each_engine_has_a_table_with_one_line_per_row() {
        let redb =
            Row { engine: "redb".into(), version: "4.6.0".into(), filter: "none".into(), filter_bytes: 0, ..row() };
        let text = markdown(&[row(), Row { false_negatives: 3, ..row() }, redb]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "**SlateDB 0.18.0**: 3 false negatives.");
        let expected = "| 5 | 1 M | `bumped-ribbon:8` | 8.03 | 0.39 % | – | 432 ns | 12.35 µs | 1.50 µs | 2.50 s |";
        assert_eq!((lines[4], lines[5], lines[6]), (expected, expected, ""));
        assert_eq!(lines[7], "**redb 4.6.0**: 0 false negatives.");
        assert!(lines[11].starts_with("| 5 | 1 M | none | 0 | "));
    }

    #[test]
    fn the_summary_compares_the_own_filter_with_ours_of_the_nearest_size() {
        let own = Row { filter: "Bloom, 10 bits".into(), bits_per_key: 10.0, ..row() };
        let near = Row { filter: "bumped-ribbon:9".into(), bits_per_key: 9.03, ..row() };
        let other_layout = Row { layout: "1 run".into(), bits_per_key: 10.0, ..row() };
        let other_keys = Row { keys: 10, bits_per_key: 10.0, ..row() };
        let text = summary(&[own, row(), near, other_layout, other_keys]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[2].starts_with("| SlateDB 0.18.0 | 5 | Bloom, 10 bits | 10.00 | 0.39 % | "), "{text}");
        assert!(lines[2].ends_with(" | `bumped-ribbon:9` | 9.03 | 0.39 % | 432 ns | 12.35 µs |"), "{text}");
    }

    #[test]
    fn new_rows_replace_old_rows_of_the_same_engine_and_keys() {
        let named =
            |engine: &str, keys, filter: &str| Row { engine: engine.into(), keys, filter: filter.into(), ..row() };
        let old = vec![named("redb", 10, "a"), named("SlateDB", 20, "b"), named("SlateDB", 10, "c")];
        let new = vec![named("SlateDB", 10, "d"), named("SlateDB", 10, "a"), named("RocksDB", 10, "e")];
        let merged: Vec<String> = merge(old, new).into_iter().map(|row| row.filter).collect();
        assert_eq!(merged, ["e", "d", "a", "b", "a"]);
    }

    #[test]
    fn rows_survive_a_round_trip_through_json() {
        let text = serde_json::to_string(&row()).expect("a row is plain data");
        assert_eq!(serde_json::from_str::<Row>(&text).expect("it was just written"), row());
    }
}
