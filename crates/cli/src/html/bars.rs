//! Makes plots of horizontal bars. Each bar shows its row of the report on hover and on focus,
//! without a script.

use serde_json::Value;

use super::{flat, label, shown, text, thousands};

/// The maximum number of bars of a plot. A file of another engine may have thousands of filters.
const BARS_MAX: usize = 60;

/// The scale from values to lengths of bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    FromZero,
    /// From 0 to 1.
    Share,
    /// From a power of ten to a power of ten, around all positive values.
    Logarithmic,
}

/// A bar.
#[derive(Debug)]
struct Bar {
    group: String,
    label: String,
    value: f64,
    value_text: String,
    /// The number of the colour.
    series: usize,
    /// The row of the report.
    details: Vec<String>,
}

/// A plot of bars.
#[derive(Debug)]
pub struct Bars {
    title: String,
    unit: &'static str,
    scale: Scale,
    /// The name of the field that the bars show. It decides how the ends of the axis are formatted.
    field: String,
    bars: Vec<Bar>,
}

impl Bars {
    /// Makes an empty plot. `unit` follows the title.
    pub fn new(title: &str, unit: &'static str, scale: Scale) -> Self {
        Self { title: title.into(), unit, scale, field: String::new(), bars: Vec::new() }
    }

    /// Adds a bar for the field `field` of a row, unless the field is missing or not a number.
    /// Successive bars with the same `group` form a group. The text `group` stands above them,
    /// unless it is empty.
    pub fn add(&mut self, group: &str, label_text: &str, series: usize, row: &Value, field: &str) {
        let fields = flat(row);
        let Some((_, found)) = fields.iter().find(|(name, _)| name == field) else { return };
        let Some(value) = found.as_f64() else { return };
        field.clone_into(&mut self.field);
        let details = fields.iter().filter(|(_, value)| !value.is_null());
        self.bars.push(Bar {
            group: group.into(),
            label: label_text.into(),
            value,
            value_text: shown(field, found),
            series,
            details: details.map(|(name, value)| format!("{}: {}", label(name), shown(name, value))).collect(),
        });
    }

    /// Returns the plot as an HTML figure, or an empty text if there are no bars.
    pub fn html(&self) -> String {
        if self.bars.is_empty() {
            return String::new();
        }
        let bars = self.bars.get(..BARS_MAX).unwrap_or(&self.bars);
        let (from, to) = self.ends(bars);
        let scale = if self.scale == Scale::Logarithmic { ", logarithmic" } else { "" };
        let more = match self.bars.len() {
            all if all > bars.len() => format!("; the first {} of {}", bars.len(), thousands(all as u64)),
            _ => String::new(),
        };
        let mut html = format!(
            "<figure>\n<figcaption><strong>{}</strong> <span class=\"note\">{}{scale}{more}</span></figcaption>\n",
            text(&self.title),
            text(self.unit)
        );
        let mut group = None;
        for bar in bars {
            if group != Some(&bar.group) {
                html += if group.is_some() { "</ul>\n" } else { "" };
                if !bar.group.is_empty() {
                    html += &format!("<h3>{}</h3>\n", text(&bar.group));
                }
                html += "<ul class=\"bars\">\n";
                group = Some(&bar.group);
            }
            let width = (100.0 * self.share(bar.value, from, to)).clamp(0.0, 100.0);
            let details: Vec<String> = bar.details.iter().map(|line| text(line)).collect();
            html += &format!(
                "<li tabindex=\"0\"><span class=\"name\">{}</span><span class=\"track\"><span class=\"fill c{}\" \
                 style=\"width:{width:.2}%\"></span></span><span class=\"value\">{}</span>\
                 <span class=\"tip\">{}</span></li>\n",
                text(&bar.label),
                bar.series % 4,
                text(&bar.value_text),
                details.join("<br>"),
            );
        }
        html += "</ul>\n";
        html += &format!(
            "<p class=\"axis\" aria-hidden=\"true\"><span>{}</span><span>{}</span></p>\n</figure>\n",
            shown(&self.field, &Value::from(from)),
            shown(&self.field, &Value::from(to))
        );
        html
    }

    /// Returns the values at the left and right end of the axis.
    fn ends(&self, bars: &[Bar]) -> (f64, f64) {
        let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        if self.scale == Scale::Share {
            return (0.0, 1.0);
        }
        if self.scale == Scale::FromZero || most <= 0.0 {
            return (0.0, if most > 0.0 { most } else { 1.0 });
        }
        let least = bars.iter().map(|bar| bar.value).filter(|value| *value > 0.0).fold(most, f64::min);
        let (from, to) = (10f64.powf(least.log10().floor()), 10f64.powf(most.log10().ceil()));
        (from, if to > from { to } else { from * 10.0 })
    }

    /// Returns the length of a bar as a share of the axis.
    fn share(&self, value: f64, from: f64, to: f64) -> f64 {
        match self.scale {
            Scale::Logarithmic if value > 0.0 && from > 0.0 => (value / from).ln() / (to / from).ln(),
            Scale::Logarithmic => 0.0,
            Scale::FromZero | Scale::Share => value / to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lengths_follow_the_scale_and_texts_are_escaped() {
        let mut bars = Bars::new("a & b", "ns", Scale::Logarithmic);
        for (label, value) in [("<one>", json!(10.0)), ("two", json!(1000.0)), ("none", Value::Null), ("0", json!(0))] {
            bars.add("", label, 0, &json!({"ns": value, "filter": "<x>"}), "ns");
        }
        let html = bars.html();
        for part in [
            "a &amp; b",
            "&lt;one&gt;",
            "width:0.00%",
            "width:100.00%",
            "filter: &lt;x&gt;",
            "<span>10.0</span><span>1,000</span></p>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("none") && html.matches("<li").count() == 3, "{html}");
        let mut linear = Bars::new("", "", Scale::FromZero);
        linear.add("g", "a", 0, &json!({"n": 3}), "n");
        linear.add("h", "b", 1, &json!({"n": 12}), "n");
        assert!(linear.html().contains("width:25.00%") && linear.html().matches("<ul").count() == 2);
        assert_eq!(Bars::new("", "", Scale::FromZero).html(), "");
    }

    #[test]
    fn a_plot_of_many_rows_names_their_number() {
        let mut bars = Bars::new("many", "", Scale::FromZero);
        (0..1_000).for_each(|number| bars.add("", "x", 0, &json!({"n": number}), "n"));
        let html = bars.html();
        assert!(html.contains("the first 60 of 1,000") && html.matches("<li").count() == BARS_MAX, "{html}");
    }
}
