//! Draws horizontal bars with their values: as a picture, or as a part of a page.

use super::frame::Axis;
use super::picture::{Anchor, Picture, Stroke, WIDTH, text_width};
use super::text::{escaped, printable, thousands};
use super::theme::Colour;

const BAR_HEIGHT: f64 = 14.0;
const BAR_STEP: f64 = 18.0;
const HEADING_STEP: f64 = 20.0;
const GROUP_GAP: f64 = 8.0;
/// The height of title, subtitle and axis title above the bars, in units.
const TOP: f64 = 82.0;
/// The height of axis labels and caption below the bars, in units.
const BOTTOM: f64 = 56.0;

/// The maximum number of bars in a page. A file of another engine may have thousands of filters.
const BARS_MAX: usize = 60;

#[derive(Debug)]
pub struct Bar {
    pub label: String,
    pub value: f64,
    /// The text at the end of the bar.
    pub value_text: String,
    pub colour: Colour,
    /// The lines that a page shows on hover and on focus. A picture leaves them out.
    pub details: Vec<String>,
}

/// Bars below a common heading.
#[derive(Debug)]
pub struct Group {
    /// The heading above the bars. An empty heading takes no space.
    pub heading: String,
    pub bars: Vec<Bar>,
}

/// A plot of groups of bars.
#[derive(Debug)]
pub struct Bars {
    pub title: String,
    pub subtitle: String,
    /// What a screen reader says about a picture. In a page, it reads the bars themselves.
    pub description: String,
    /// A page shows the first and the last of its labels.
    pub axis: Axis,
    pub groups: Vec<Group>,
    /// The text below the axis of a picture.
    pub caption: String,
}

impl Bar {
    pub fn new(label: impl Into<String>, value: f64, value_text: String, colour: Colour) -> Self {
        Self { label: label.into(), value, value_text, colour, details: Vec::new() }
    }
}

impl Bars {
    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.groups.iter().flat_map(|group| &group.bars)
    }

    pub fn svg(&self) -> String {
        let height_of = |group: &Group| {
            let heading = if group.heading.is_empty() { 0.0 } else { HEADING_STEP };
            heading + group.bars.len() as f64 * BAR_STEP + GROUP_GAP
        };
        let bottom = TOP + self.groups.iter().map(height_of).sum::<f64>();
        let mut picture = Picture::new(bottom + BOTTOM, &self.title, &self.subtitle, &self.description);
        let left = 22.0 + self.bars().map(|bar| text_width(&bar.label)).fold(0.0, f64::max) + 8.0;
        let right = (WIDTH - 20.0).min(WIDTH - 20.0 - self.overhang(left));
        let along = |value: f64| left + self.axis.share(value).clamp(0.0, 1.0) * (right - left);
        let mut free_from = 0.0;
        for (value, label) in &self.axis.labels {
            let (x, half) = (along(*value), text_width(label) / 2.0);
            picture.line(&[(x, TOP), (x, bottom)], Stroke::Thin, Colour::Grid);
            // Long labels of bars make the axis short. An axis label is omitted if it would overlap
            // the label before it or extend beyond the picture.
            if x - half > free_from && x + half < WIDTH {
                picture.text(label, (x, bottom + 14.0), Anchor::Middle, Colour::Ink);
                free_from = x + half + 4.0;
            }
        }
        let mut top = TOP + GROUP_GAP / 2.0;
        for group in &self.groups {
            if !group.heading.is_empty() {
                picture.bold_text(&group.heading, (22.0, top + HEADING_STEP / 2.0), Anchor::Start, Colour::Ink);
                top += HEADING_STEP;
            }
            for bar in &group.bars {
                let (middle, end) = (top + BAR_STEP / 2.0, along(bar.value).max(left + 1.0));
                let upper = middle - BAR_HEIGHT / 2.0;
                picture.text(&bar.label, (left - 8.0, middle), Anchor::End, Colour::Ink);
                picture.bar((left, upper), (end, upper + BAR_HEIGHT), bar.colour);
                // A bar in the colour of the background hides the grid lines behind the text of the
                // value.
                let width = text_width(&bar.value_text);
                picture.bar((end + 3.0, upper), (end + 7.0 + width, upper + BAR_HEIGHT), Colour::Background);
                picture.text(&bar.value_text, (end + 6.0, middle), Anchor::Start, Colour::Ink);
                top += BAR_STEP;
            }
            top += GROUP_GAP;
        }
        picture.line(&[(left, TOP), (left, bottom)], Stroke::Thin, Colour::Faint);
        picture.text(&self.axis.title, (left, TOP - 12.0), Anchor::Start, Colour::Faint);
        picture.text(&self.caption, (16.0, bottom + 38.0), Anchor::Start, Colour::Faint);
        picture.finish()
    }

    /// Returns by how many units the axis must be shorter than the full width, so that all values
    /// fit after their bars.
    fn overhang(&self, left: f64) -> f64 {
        let full = WIDTH - 20.0 - left;
        // If the axis has `w` units, a bar of share `s` has `s * w` units. The bar and the text
        // after it must fit into `full` units.
        let fits = |bar: &Bar| {
            let share = self.axis.share(bar.value).clamp(0.01, 1.0);
            (full - text_width(&bar.value_text) - 10.0) / share
        };
        full - self.bars().map(fits).fold(full, f64::min)
    }

    /// Makes an HTML figure of the bars, or an empty text if there are no bars. Escapes the texts,
    /// which may be untrusted. The figure needs the style sheet of a page.
    pub fn html(&self) -> String {
        let (all, mut left) = (self.bars().count(), BARS_MAX);
        if all == 0 {
            return String::new();
        }
        let scale = if self.axis.is_logarithmic { ", logarithmic" } else { "" };
        let more = match all {
            ..=BARS_MAX => String::new(),
            _ => format!("; the first {BARS_MAX} of {}", thousands(all)),
        };
        let text = |text: &str| escaped(&printable(text));
        let mut html = format!(
            "<figure>\n<figcaption><strong>{}</strong> <span class=\"note\">{}{scale}{more}</span></figcaption>\n",
            text(&self.title),
            text(&self.subtitle)
        );
        for group in &self.groups {
            let bars: Vec<&Bar> = group.bars.iter().take(left).collect();
            left -= bars.len();
            if !bars.is_empty() && !group.heading.is_empty() {
                html += &format!("<h3>{}</h3>\n", text(&group.heading));
            }
            let items = bars.into_iter().map(|bar| {
                let width = 100.0 * self.axis.share(bar.value.max(self.axis.from)).clamp(0.0, 1.0);
                let details: Vec<String> = bar.details.iter().map(|line| text(line)).collect();
                format!(
                    "<li tabindex=\"0\"><span class=\"name\">{}</span><span class=\"track\"><span class=\"fill {}\" \
                     style=\"width:{width:.2}%\"></span></span><span class=\"value\">{}</span>\
                     <span class=\"tip\">{}</span></li>\n",
                    text(&bar.label),
                    bar.colour.class(),
                    text(&bar.value_text),
                    details.join("<br>"),
                )
            });
            let items: String = items.collect();
            html += &if items.is_empty() { items } else { format!("<ul class=\"bars\">\n{items}</ul>\n") };
        }
        let end = |label: Option<&(f64, String)>| label.map_or(String::new(), |(_, label)| text(label));
        html + &format!(
            "<p class=\"axis\" aria-hidden=\"true\"><span>{}</span><span>{}</span></p>\n</figure>\n",
            end(self.axis.labels.first()),
            end(self.axis.labels.last())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    fn bar(value: f64) -> Bar {
        let text = format!("{value} ns, and so much more than the others");
        Bar { details: vec!["a < b".into()], ..Bar::new(format!("bar of <{value}>"), value, text, Colour::Series(0)) }
    }

    fn two_groups(groups: [Vec<Bar>; 2]) -> Bars {
        let groups = ["", "second"].into_iter().zip(groups);
        Bars {
            title: "Bars & more".into(),
            subtitle: "of two groups".into(),
            description: "Bars of two groups.".into(),
            axis: Axis::decades("time".into(), 1.0, 1000.0, |power| power.to_string()),
            groups: groups.map(|(heading, bars)| Group { heading: heading.into(), bars }).collect(),
            caption: "a machine".into(),
        }
    }

    #[test]
    fn bars_leave_room_for_their_values() {
        let bars = || vec![bar(10.0), bar(1000.0), bar(0.5)];
        check::is_readable(&two_groups([bars(), bars()]).svg());
    }

    #[test]
    fn a_page_has_the_bars_with_their_details() {
        let html = two_groups([vec![bar(10.0), bar(0.0)], vec![bar(1000.0)]]).html();
        for part in [
            "Bars &amp; more",
            "bar of &lt;10&gt;",
            "width:0.00%",
            "width:33.33%",
            "width:100.00%",
            "a &lt; b",
            "<h3>second</h3>",
            "<span>1</span><span>1000</span></p>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!((html.matches("<li").count(), html.matches("<ul").count()), (3, 2), "{html}");
        assert_eq!(two_groups([Vec::new(), Vec::new()]).html(), "");
    }

    #[test]
    fn a_page_of_many_bars_names_their_number() {
        let html = two_groups([(0..50).map(|_| bar(1.0)).collect(), (0..950).map(|_| bar(1.0)).collect()]).html();
        assert!(html.contains("the first 60 of 1,000") && html.matches("<li").count() == BARS_MAX, "{html}");
    }
}
