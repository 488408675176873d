//! Makes HTML pages from reports, for `--html`. A page shows the report in tables and as JSON, and
//! some values of the report also in plots. The page is one file, loads nothing, and follows the
//! light or dark theme.

pub mod plots;
mod table;

use charts::bars::Bars;
use charts::text::escaped;
use serde::Serialize;
use serde_json::Value;

use super::failure::{Failure, Outcome};
use super::machine::Machine;
use super::text::{percent, printable, quoted, significant, thousands};

/// Makes the page of a report: first the plots, then the tables, then the report as JSON.
pub fn page(title: &str, report: &impl Serialize, plots: impl FnOnce(&Value) -> Vec<Bars>) -> Outcome<String> {
    let failed = |error: serde_json::Error| Failure::Message(format!("HTML report: {error}"));
    let report = serde_json::to_value(report).map_err(failed)?;
    let json = serde_json::to_string_pretty(&report).map_err(failed)?;
    let plots: String = plots(&report).iter().map(Bars::html).collect();
    let mut tables = String::new();
    table::add_sections(&mut tables, "report", &report);
    // In a record of loads, each load names its own machine. So the heading says that this is the
    // machine of this command.
    if report.get("machine").is_none() {
        let machine = serde_json::to_value(Machine::here()).map_err(failed)?;
        table::add_sections(&mut tables, "machine_of_this_command", &machine);
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

/// Formats a value of the report for people. The name of its field decides the format.
fn shown(field: &str, value: &Value) -> String {
    let is_share = field.ends_with("rate") || field.starts_with("share_of") || field.ends_with("fill");
    // Seeds and versions are not quantities, so their digits are not grouped.
    let is_name = field.ends_with("seed") || field.ends_with("version");
    match value {
        Value::Null => "-".into(),
        Value::Bool(value) => if *value { "yes" } else { "no" }.into(),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) if is_name => whole.to_string(),
            (_, Some(share)) if is_share => percent(share),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_by_the_name_of_their_field() {
        let cases = [
            ("false_positive_rate", json!(0.0095), "0.950 %"),
            ("len_bytes", json!(1_234_567), "1,234,567"),
            ("hash_seed", json!(1_234_567), "1234567"),
            ("mean_ns", json!(83.61), "83.6"),
            ("notes", json!(["a", "b\n"]), "a, b\\u{a}"),
            ("cold", json!(false), "no"),
            ("refused", Value::Null, "-"),
        ];
        for (field, value, text) in cases {
            assert_eq!(shown(field, &value), text);
        }
        assert_eq!(label("expected_false_positive_rate"), "expected FPR");
        assert_eq!(
            (label("len_bytes"), label("payload_len_bytes")),
            ("length in bytes".into(), "payload bytes".into())
        );
        let nested = json!({"a": {"b": 1, "c": {"d": 2}}});
        let names: Vec<String> = flat(&nested).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a_b", "a_c_d"]);
    }
}
