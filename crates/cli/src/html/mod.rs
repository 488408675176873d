//! Makes HTML pages from reports, for `--html`. A page shows the report in tables and as JSON, and
//! some values of the report also in plots. The page is one file, loads nothing, and follows the
//! light or dark theme. A list of objects becomes a table with a row for each object. The plain fields
//! of an object become a table of two columns, with a row for each field.

pub mod plots;

use std::collections::BTreeSet;

use charts::bars::Bars;
use charts::text::{escaped, quoted};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::machine::Machine;
use crate::prelude::*;

/// The greatest width of a table in pixels that fits into a window of 800 pixels.
const MAX_WIDTH: usize = 740;

/// Makes the page of a report: first the plots, then the tables, then the report as JSON.
pub fn page(title: &str, report: &impl Serialize, plots: impl FnOnce(&Value) -> Vec<Bars>) -> Outcome<String> {
    let report = serde_json::to_value(report)?;
    let json = serde_json::to_string_pretty(&report)?;
    let plots: String = plots(&report).iter().map(Bars::html).collect();
    let mut tables = String::new();
    add_sections(&mut tables, "report", &report);
    // In a record of loads, each load names its own machine. So the heading says that this is the
    // machine of this command.
    if report.get("machine").is_none() {
        add_sections(&mut tables, "machine_of_this_command", &serde_json::to_value(Machine::here())?);
    }
    let (command, version) = (text(&command_line()), env!("CARGO_PKG_VERSION"));
    let body = format!(
        "<p>Command: <code>{command}</code></p>\n<p>filterblock {version}</p>\n{plots}{tables}\
         <details>\n<summary>The report as JSON</summary>\n\
         <pre tabindex=\"0\" aria-label=\"JSON\">{}</pre>\n</details>\n",
        escaped(&json)
    );
    Ok(charts::page::page(&printable(title), &body))
}

/// Escapes an untrusted text for the content or a quoted attribute of an element.
fn text(text: &str) -> String {
    escaped(&printable(text))
}

/// Returns the command line of this process, quoted for a shell.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    ["filterblock".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// Returns the name of a field for people: `payload_len_bytes` becomes `payload bytes`.
fn label(field: &str) -> String {
    let field = if field == "len_bytes" { "length_in_bytes" } else { field };
    field.replace("_len_bytes", " bytes").replace('_', " ").replace("false positive rate", "FPR")
}

/// Returns whether a field is a fraction of 1, which people read as a percentage.
fn is_share(field: &str) -> bool {
    field.ends_with("rate") || field.starts_with("share_of") || field.ends_with("fill")
}

/// Formats a value of the report for people. The name of its field decides the format.
fn shown(field: &str, value: &Value) -> String {
    // Seeds and versions are not quantities, so their digits are not grouped.
    let is_name = field.ends_with("seed") || field.ends_with("version");
    match value {
        Value::Null => "-".into(),
        Value::Bool(value) => if *value { "yes" } else { "no" }.into(),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) if is_name => whole.to_string(),
            (_, Some(share)) if is_share(field) => percent(share),
            (Some(whole), _) => thousands(whole),
            (None, Some(number)) => significant(number),
            (None, None) => number.to_string(),
        },
        Value::String(text) => printable(text),
        Value::Array(values) if values.is_empty() => "-".into(),
        Value::Array(values) => values.iter().map(|value| shown(field, value)).collect::<Vec<_>>().join(", "),
        Value::Object(_) => value.to_string(),
    }
}

/// Returns the fields of an object and of the objects in it. The name of an inner field begins with
/// the name of its object: the field `ns_if_absent` of `measured` is `measured_ns_if_absent`.
fn flat(value: &Value) -> Vec<(String, &Value)> {
    let mut fields = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => {
                fields.extend(flat(value).into_iter().map(|(inner, value)| (format!("{name}_{inner}"), value)))
            }
            _ => fields.push((name.clone(), value)),
        }
    }
    fields
}

/// Adds a section for each object and each list of objects in `value`. The other fields of an
/// object are in the section of the object. The objects in a list of objects are rows of the list's
/// table and have no sections.
fn add_sections(page: &mut String, name: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            add_fields(page, name, fields);
            for (inner, value) in fields.iter().filter(|(_, value)| is_section(value)) {
                let name = if name == "report" { inner.clone() } else { format!("{name}_{inner}") };
                add_sections(page, &name, value);
            }
        }
        Value::Array(rows) => add_rows(page, name, rows),
        _ => {}
    }
}

/// Returns whether `value` is an object or a list that begins with an object.
fn is_section(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(values) => values.first().is_some_and(Value::is_object),
        _ => false,
    }
}

/// Adds the fields of an object that have no section of their own.
fn add_fields(page: &mut String, name: &str, fields: &Map<String, Value>) {
    let rows = fields.iter().filter(|(_, value)| !is_section(value)).map(|(field, value)| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", text(&label(field)), text(&shown(field, value)))
    });
    let rows: String = rows.collect();
    if !rows.is_empty() {
        let heading = text(&label(name));
        let table = table(&heading, "", &format!("<tbody>\n{rows}</tbody>\n"));
        *page += &format!("<section>\n<h2>{heading}</h2>\n{table}</section>\n");
    }
}

/// Returns a table that scrolls if the window is too narrow.
fn table(heading: &str, class: &str, content: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{heading}\"><table{class}>\n{content}</table></div>\n"
    )
}

/// Adds a list of objects. If there are several rows, columns whose values are all equal are shown
/// above the table, except the first column. Columns without any value are left out. A table of many
/// columns and few rows has a line for each column, and does not sort. Another table of many columns
/// is split into several tables.
fn add_rows(page: &mut String, name: &str, rows: &[Value]) {
    let rows: Vec<Vec<(String, &Value)>> = rows.iter().map(flat).collect();
    let mut columns: Vec<&str> = Vec::new();
    for (field, value) in rows.iter().flatten() {
        if !value.is_null() && !columns.contains(&field.as_str()) {
            columns.push(field);
        }
    }
    let value_of = |row: &[(String, &Value)], column: &str| {
        row.iter().find(|(field, _)| field == column).map_or(Value::Null, |(_, value)| (*value).clone())
    };
    // The first column stays in the table, because it names the row.
    let is_constant = |column: &&str| {
        let mut values = rows.iter().map(|row| value_of(row, column));
        let first = values.next();
        rows.len() > 1 && Some(column) != columns.first() && values.all(|value| Some(value) == first)
    };
    let (constant, varied): (Vec<&str>, Vec<&str>) = columns.iter().copied().partition(is_constant);
    let heading = text(&label(name));
    *page += &format!("<section>\n<h2>{heading}</h2>\n");
    if let (Some(row), false) = (rows.first(), constant.is_empty()) {
        let same = constant.iter().map(|column| format!("{} {}", label(column), shown(column, &value_of(row, column))));
        *page += &format!("<p class=\"note\">In all rows: {}.</p>\n", text(&same.collect::<Vec<_>>().join("; ")));
    }
    if is_turned(rows.len(), varied.len()) {
        let numbers = (1..=rows.len()).map(|number| format!("<th scope=\"col\" class=\"number\">{number}</th>"));
        let numbers: String = numbers.collect();
        let mut content = format!("<thead><tr><th scope=\"col\">number</th>{numbers}</tr></thead>\n<tbody>\n");
        for column in varied {
            let cell = |row: &Vec<(String, &Value)>| {
                format!("<td class=\"number\">{}</td>", text(&shown(column, &value_of(row, column))))
            };
            let cells: String = rows.iter().map(cell).collect();
            content += &format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", text(&label(column)));
        }
        *page += &table(&heading, "turned", &(content + "</tbody>\n"));
        *page += "</section>\n";
        return;
    }
    // The shortest list of first columns that differs in all rows names the rows.
    let is_name = |names: &usize| {
        let names = |row: &Vec<_>| varied.iter().take(*names).map(|field| value_of(row, field).to_string()).collect();
        rows.iter().map(names).collect::<BTreeSet<Vec<_>>>().len() == rows.len()
    };
    let names = (1..=4).find(is_name).unwrap_or(1);
    let measured = varied.iter().map(|column| {
        let values: Vec<Value> = rows.iter().map(|row| value_of(row, column)).collect();
        let width = width(&label(column), values.iter().map(|value| shown(column, value)));
        ((*column, values.iter().any(Value::is_number)), width)
    });
    let parts = parts(&measured.collect::<Vec<_>>(), names);
    for (number, part) in parts.iter().enumerate() {
        let mut heading = heading.clone();
        if parts.len() > 1 {
            heading += &format!(", part {} of {}", number + 1, parts.len());
            *page += &format!("<h3>{heading}</h3>\n");
        }
        let mut content = String::from("<thead><tr>");
        for (column, in_numbers) in part {
            let class = if *in_numbers { " class=\"number\"" } else { "" };
            content += &format!("<th scope=\"col\"{class}>{}</th>", text(&label(column)));
        }
        content += "</tr></thead>\n<tbody>\n";
        for row in &rows {
            content += "<tr>";
            for (number, (column, in_numbers)) in part.iter().enumerate() {
                content += &cell(number == 0, *in_numbers, column, &value_of(row, column));
            }
            content += "</tr>\n";
        }
        *page += &table(&heading, "sorts", &(content + "</tbody>\n"));
    }
    *page += "</section>\n";
}

/// Estimates the width of a column in pixels, for a window of 800 pixels. Headings and long texts wrap.
fn width(heading: &str, cells: impl Iterator<Item = String>) -> usize {
    let heading = heading.split(' ').map(|word| word.chars().count());
    7 * heading.chain(cells.map(|cell| cell.chars().count())).max().unwrap_or(0).min(18) + 10
}

/// Splits columns, given with their widths, into parts of at most [`MAX_WIDTH`]. Each part begins with
/// the first `names` columns, and has at least one more.
fn parts<T: Copy>(columns: &[(T, usize)], names: usize) -> Vec<Vec<T>> {
    let named = || -> (Vec<T>, Vec<usize>) { columns.iter().take(names).copied().unzip() };
    let (mut part, mut widths) = named();
    let mut parts = Vec::new();
    for (column, width) in columns.iter().skip(names) {
        if part.len() > names && widths.iter().sum::<usize>() + width > MAX_WIDTH {
            parts.push(part);
            (part, widths) = named();
        }
        part.push(*column);
        widths.push(*width);
    }
    parts.push(part);
    parts
}

/// Returns whether a table shows its rows as columns. A table of many columns and few rows then fits
/// into a window of 800 pixels.
fn is_turned(rows: usize, columns: usize) -> bool {
    (2..=7).contains(&rows) && columns > 2 * rows
}

/// Returns a cell. In a column of numbers, `data-sort` is the exact number, or empty if there is
/// none.
fn cell(is_first: bool, in_numbers: bool, column: &str, value: &Value) -> String {
    let shown = text(&shown(column, value));
    let sort = if value.is_number() { value.to_string() } else { String::new() };
    let element = if is_first { "th scope=\"row\"" } else { "td" };
    let end = if is_first { "th" } else { "td" };
    // Long texts get wide columns, so that they take few lines.
    let long = if shown.len() > 24 { " class=\"long\"" } else { "" };
    match in_numbers {
        true => format!("<{element} class=\"number\" data-sort=\"{sort}\">{shown}</{end}>"),
        false => format!("<{element}{long}>{shown}</{end}>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_is_split_and_repeats_its_names() {
        let width = |heading, cell: &str| width(heading, [cell.to_owned()].into_iter());
        assert_eq!([width("mean ns", "7"), width("p50 ns", "1,234"), width("kind", &"a".repeat(80))], [38, 45, 136]);
        let columns: Vec<(usize, usize)> = (0..20).map(|column| (column, 60 + column)).collect();
        let found = parts(&columns, 2);
        let expected = [(2..11), (11..19), (19..20)].map(|rest| [0, 1].into_iter().chain(rest).collect::<Vec<_>>());
        assert_eq!(found, expected);
        assert!(found.iter().all(|part| part.iter().map(|column| 60 + column).sum::<usize>() <= MAX_WIDTH));
        assert_eq!(parts(&columns, 1).concat().len(), 21);
        assert_eq!(parts::<u8>(&[], 1), [[0; 0]]);
    }
}
