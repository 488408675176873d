//! Makes the tables of a page. A list of objects becomes a table with a row for each object. The
//! plain fields of an object become a table of two columns, with a row for each field.

use serde_json::{Map, Value};

use super::{flat, label, shown, text};

/// Adds a section for each object and each list of objects in `value`. The other fields of an
/// object are in the section of the object. The objects in a list of objects are rows of the list's
/// table and have no sections.
pub fn add_sections(page: &mut String, name: &str, value: &Value) {
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
        *page += &format!(
            "<section>\n<h2>{heading}</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
             aria-label=\"{heading}\"><table>\n<tbody>\n{rows}</tbody>\n</table></div>\n</section>\n"
        );
    }
}

/// Adds a list of objects. If there are several rows, columns whose values are all equal are shown
/// above the table, except the first column. Columns without any value are left out.
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
    *page += &format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{heading}\"><table class=\"sorts\">\n<thead><tr>"
    );
    let is_number = |column: &&str| rows.iter().any(|row| value_of(row, column).is_number());
    let varied: Vec<(&str, bool)> = varied.iter().map(|column| (*column, is_number(column))).collect();
    for (column, in_numbers) in &varied {
        let class = if *in_numbers { " class=\"number\"" } else { "" };
        *page += &format!("<th scope=\"col\"{class}>{}</th>", text(&label(column)));
    }
    *page += "</tr></thead>\n<tbody>\n";
    for row in &rows {
        *page += "<tr>";
        for (number, (column, in_numbers)) in varied.iter().enumerate() {
            *page += &cell(number == 0, *in_numbers, column, &value_of(row, column));
        }
        *page += "</tr>\n";
    }
    *page += "</tbody>\n</table></div>\n</section>\n";
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
    use serde_json::json;

    #[test]
    fn every_value_of_a_report_is_in_a_table() {
        let report = json!({
            "file": "a<script>alert(1)</script>\"&",
            "filters": [
                {"filter": "bloom", "len_bytes": 1200, "kind": "x", "measured": {"ns": 3.5}},
                {"filter": "ribbon", "len_bytes": 900, "kind": "x", "measured": null},
            ],
            "what_if": {"keys": 5, "filters": [{"filter": "one"}]},
            "notes": ["n1", "n2"],
        });
        let mut page = String::new();
        add_sections(&mut page, "report", &report);
        for part in [
            "a&lt;script&gt;alert(1)&lt;/script&gt;&quot;&amp;",
            "<th scope=\"row\">bloom</th><td class=\"number\" data-sort=\"1200\">1,200</td>",
            "In all rows: kind x.",
            "data-sort=\"3.5\">3.50</td>",
            "data-sort=\"\">-</td>",
            "<h2>what if filters</h2>",
            "<td>n1, n2</td>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<script"), "{page}");
    }
}
