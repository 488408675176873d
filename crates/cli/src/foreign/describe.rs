//! Formats the report of `inspect` about a file of another engine as text.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

use super::super::text::{self, count, percent, printable, significant, thousands};
use super::inspect::Report;
use filterblock_report::Holds;

/// The maximum number of filters that are all shown. If there are more, only the first
/// [`SHOWN_OF_MANY`] and the last [`SHOWN_OF_MANY`] filters are shown.
const SHOWN_MAX: usize = 12;
const SHOWN_OF_MANY: usize = 5;

impl Report {
    /// Formats the report as text.
    pub fn describe(&self) -> String {
        let mut out =
            format!("{}: {}, {}\n\n", self.found.file, self.found.kind, count(self.found.file_len_bytes, "byte"));
        let mut line = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{:<30}{value}", name.replace('_', " "));
        };
        for (name, value) in &self.found.properties {
            let shown = match value {
                Value::String(value) if value.is_empty() => continue,
                Value::Null => continue,
                Value::String(value) => printable(value),
                Value::Number(value) => value.as_u64().map_or_else(|| value.to_string(), thousands),
                other => other.to_string(),
            };
            line(name, &shown);
        }
        if let Some(keys) = self.found.keys {
            line("keys", &thousands(keys));
        }
        if let Some(summary) = &self.found.summary {
            line("filters", &format!("{}, {}", thousands(summary.filters), count(summary.len_bytes, "byte")));
            line("estimated keys", &summary.estimated_keys.map_or_else(|| "unknown".to_owned(), significant));
            line("bits per key", &summary.bits_per_key.map_or_else(|| "unknown".to_owned(), significant));
            if let Some(fill) = summary.fill {
                line("fill ratio", &percent(fill));
            }
            line("expected FPR", &percent(summary.expected_false_positive_rate));
        }
        if !self.found.filters.is_empty() {
            let _ = write!(out, "\n{}\n", self.table());
        }
        if self.found.filters.len() > SHOWN_MAX {
            let hidden = self.found.filters.len() - 2 * SHOWN_OF_MANY;
            let _ = writeln!(out, "{} in the middle not shown; --json shows all", count(hidden as u64, "filter"));
        }
        if let Some(what_if) = &self.what_if {
            let _ = write!(out, "\n{what_if}");
        }
        out
    }

    /// Makes the table of filters.
    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([
            "offset",
            "bytes",
            "kind",
            "probes",
            "seed",
            "fill ratio",
            "estimated keys",
            "expected FPR",
            "covers",
        ]);
        let dash = || "-".to_owned();
        let many = self.found.filters.len() > SHOWN_MAX;
        for (number, filter) in self.found.filters.iter().enumerate() {
            if many && (SHOWN_OF_MANY..self.found.filters.len() - SHOWN_OF_MANY).contains(&number) {
                continue;
            }
            let probes = match (filter.probes, filter.columns) {
                (Some(probes), _) => probes.to_string(),
                (None, Some(columns)) => format!("{} columns", significant(columns)),
                (None, None) => dash(),
            };
            table.add_row([
                filter.offset.to_string(),
                filter.len_bytes.to_string(),
                filter.kind.to_owned(),
                probes,
                filter.seed.map_or_else(dash, |seed| seed.to_string()),
                filter.fill.map_or_else(dash, percent),
                filter.estimated_keys.map_or_else(dash, significant),
                percent(filter.expected_false_positive_rate),
                described(&filter.holds),
            ]);
        }
        for column in table.column_iter_mut().take(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

fn described(holds: &Holds) -> String {
    match holds {
        Holds::Everything {} => "all keys".to_owned(),
        Holds::DataBlocks { data_blocks_from: from, data_blocks_below: below } => {
            format!("data blocks that begin at offsets {from} to {}", below.saturating_sub(1))
        }
        Holds::UpTo { up_to_hex } => {
            let mut key = Vec::new();
            let is_text =
                text::unhex(up_to_hex.as_bytes(), &mut key).is_ok() && key.iter().all(|byte| byte.is_ascii_graphic());
            match is_text {
                true => format!("keys up to {}", String::from_utf8_lossy(&key)),
                false => format!("keys up to 0x{up_to_hex}"),
            }
        }
        Holds::Chunk { row_group, column, .. } => format!("row group {row_group}, {}", printable(column)),
    }
}
