//! Draws rows of values: as a picture, or as a part of a page. On an axis from zero, a bar shows each value. On a
//! logarithmic axis, where lengths mean nothing, a dot does.

use super::frame::Axis;
use super::picture::{Anchor, Picture, Stroke, WIDTH, text_width};
use super::text::{escaped, printable, thousands};
use super::theme::Colour;

const BAR_HEIGHT: f64 = 14.0;
const BAR_STEP: f64 = 18.0;
const HEADING_STEP: f64 = 20.0;
const GROUP_GAP: f64 = 8.0;
/// The height of title, subtitle and axis title above the bars, in units, without the legend.
const TOP: f64 = 82.0;
const LEGEND_STEP: f64 = 20.0;
/// The width of a mark in the legend, with the space between the mark and its text.
const LEGEND_MARK: f64 = 18.0;
const RADIUS: f64 = 5.0;
/// The maximum number of labels of an axis in a page.
const LABELS_MAX: usize = 7;
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
    /// The labels of a page must be evenly spaced, and begin at the beginning of the axis.
    pub axis: Axis,
    /// The meaning of each colour. An empty legend takes no space.
    pub legend: Vec<(String, Colour)>,
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
        let legend = self.places_of_legend();
        let ceiling = TOP + legend.last().map_or(0.0, |(_, line)| LEGEND_STEP * (line + 1.0));
        let bottom = ceiling + self.groups.iter().map(height_of).sum::<f64>();
        let mut picture = Picture::new(bottom + BOTTOM, &self.title, &self.subtitle, &self.description);
        for ((text, colour), (left, line)) in self.legend.iter().zip(&legend) {
            let middle = 66.0 + line * LEGEND_STEP;
            self.mark(&mut picture, (*left, left + 2.0 * RADIUS), middle, *colour);
            picture.text(text, (left + LEGEND_MARK, middle), Anchor::Start, Colour::Ink);
        }
        let left = 22.0 + self.bars().map(|bar| text_width(&bar.label)).fold(0.0, f64::max) + 8.0;
        let right = (WIDTH - 20.0).min(WIDTH - 20.0 - self.overhang(left));
        let along = |value: f64| left + self.axis.share(value).clamp(0.0, 1.0) * (right - left);
        let mut free_from = 0.0;
        for (value, label) in &self.axis.labels {
            let (x, half) = (along(*value), text_width(label) / 2.0);
            picture.line(&[(x, ceiling), (x, bottom)], Stroke::Thin, Colour::Grid);
            // Long labels of bars make the axis short. An axis label is omitted if it would overlap
            // the label before it or extend beyond the picture.
            if x - half > free_from && x + half < WIDTH {
                picture.text(label, (x, bottom + 14.0), Anchor::Middle, Colour::Ink);
                free_from = x + half + 4.0;
            }
        }
        let mut top = ceiling + GROUP_GAP / 2.0;
        for group in &self.groups {
            if !group.heading.is_empty() {
                picture.bold_text(&group.heading, (22.0, top + HEADING_STEP / 2.0), Anchor::Start, Colour::Ink);
                top += HEADING_STEP;
            }
            for bar in &group.bars {
                let (middle, end) = (top + BAR_STEP / 2.0, along(bar.value).max(left + 1.0));
                let upper = middle - BAR_HEIGHT / 2.0;
                picture.text(&bar.label, (left - 8.0, middle), Anchor::End, Colour::Ink);
                if self.axis.is_logarithmic {
                    picture.line(&[(left, middle), (right, middle)], Stroke::Thin, Colour::Grid);
                }
                // A bar in the colour of the background hides the grid lines behind the text of the
                // value.
                let (gap, width) = (self.gap(), text_width(&bar.value_text));
                let box_left = end + gap / 2.0;
                picture.bar((box_left, upper), (end + gap + 1.0 + width, upper + BAR_HEIGHT), Colour::Background);
                // A logarithmic axis has no place for 0.
                if !self.axis.is_logarithmic || bar.value > 0.0 {
                    let from = if self.axis.is_logarithmic { end - RADIUS } else { left };
                    let to = if self.axis.is_logarithmic { end + RADIUS } else { end };
                    self.mark(&mut picture, (from, to), middle, bar.colour);
                }
                picture.text(&bar.value_text, (end + gap, middle), Anchor::Start, Colour::Ink);
                top += BAR_STEP;
            }
            top += GROUP_GAP;
        }
        picture.line(&[(left, ceiling), (left, bottom)], Stroke::Thin, Colour::Faint);
        picture.text(&self.axis.title, (left, ceiling - 12.0), Anchor::Start, Colour::Faint);
        picture.text(&self.caption, (16.0, bottom + 38.0), Anchor::Start, Colour::Faint);
        picture.finish()
    }

    /// Draws a dot between two ends on a logarithmic axis, and a bar otherwise.
    fn mark(&self, picture: &mut Picture, (from, to): (f64, f64), middle: f64, colour: Colour) {
        if self.axis.is_logarithmic {
            picture.dot((f64::midpoint(from, to), middle), RADIUS, colour);
        } else {
            picture.bar((from, middle - BAR_HEIGHT / 2.0), (to, middle + BAR_HEIGHT / 2.0), colour);
        }
    }

    /// Returns the distance from the value to its text, in units.
    fn gap(&self) -> f64 {
        if self.axis.is_logarithmic { RADIUS + 5.0 } else { 6.0 }
    }

    /// Returns the left end and the line of each entry of the legend.
    fn places_of_legend(&self) -> Vec<(f64, f64)> {
        let (mut left, mut line) = (16.0, 0.0);
        let place = |(text, _): &(String, Colour)| {
            let width = LEGEND_MARK + text_width(text);
            if left > 16.0 && left + width > WIDTH - 16.0 {
                (left, line) = (16.0, line + 1.0);
            }
            let place = (left, line);
            left += width + 18.0;
            place
        };
        self.legend.iter().map(place).collect()
    }

    /// Returns by how many units the axis must be shorter than the full width, so that all values
    /// fit after their bars, and the last label below the end of the axis.
    fn overhang(&self, left: f64) -> f64 {
        let full = WIDTH - 20.0 - left;
        // If the axis has `w` units, a bar of share `s` has `s * w` units. The bar and the text
        // after it must fit into `full` units.
        let fits = |bar: &Bar| {
            let share = self.axis.share(bar.value).clamp(0.01, 1.0);
            (full - text_width(&bar.value_text) - self.gap() - 4.0) / share
        };
        let last = self.axis.labels.last().map_or(0.0, |(_, label)| text_width(label) / 2.0);
        full - self.bars().map(fits).fold(full.min(full + 16.0 - last), f64::min)
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
        let shares: Vec<f64> = self.axis.labels.iter().map(|(value, _)| self.axis.share(*value)).collect();
        let step = shares.get(1).map_or(100.0, |share| share * 100.0);
        let mut html = format!(
            "<figure style=\"--step:{step:.2}%\">\n<figcaption><strong>{}</strong> <span \
             class=\"note\">{}{scale}{more}</span></figcaption>\n",
            text(&self.title),
            text(&self.subtitle)
        );
        if !self.legend.is_empty() {
            let entry = |(name, colour): &(String, Colour)| {
                format!("<li><span class=\"key {}\"></span>{}</li>", colour.class(), text(name))
            };
            html += &format!("<ul class=\"legend\">{}</ul>\n", self.legend.iter().map(entry).collect::<String>());
        }
        for group in &self.groups {
            let bars: Vec<&Bar> = group.bars.iter().take(left).collect();
            left -= bars.len();
            if !bars.is_empty() && !group.heading.is_empty() {
                html += &format!("<h3>{}</h3>\n", text(&group.heading));
            }
            let items = bars.into_iter().map(|bar| {
                let share = 100.0 * self.axis.share(bar.value.max(self.axis.from)).clamp(0.0, 1.0);
                let class = bar.colour.class();
                let mark = match self.axis.is_logarithmic {
                    false => format!("<span class=\"fill {class}\" style=\"width:{share:.2}%\"></span>"),
                    // A logarithmic axis has no place for 0.
                    true if bar.value <= 0.0 => String::new(),
                    true => format!("<span class=\"dot {class}\" style=\"left:{share:.2}%\"></span>"),
                };
                let details: Vec<String> = bar.details.iter().map(|line| text(line)).collect();
                format!(
                    "<li tabindex=\"0\"><span class=\"name\">{}</span><span class=\"track\">{mark}</span>\
                     <span class=\"value\">{}</span><span class=\"tip\">{}</span></li>\n",
                    text(&bar.label),
                    text(&bar.value_text),
                    details.join("<br>"),
                )
            });
            let items: String = items.collect();
            html += &if items.is_empty() { items } else { format!("<ul class=\"bars\">\n{items}</ul>\n") };
        }
        let every = shares.len().div_ceil(LABELS_MAX).max(1);
        let ticks = shares.iter().zip(&self.axis.labels).step_by(every);
        let ticks = ticks
            .map(|(share, (_, label))| format!("<span style=\"left:{:.2}%\">{}</span>", share * 100.0, text(label)));
        html + &format!("<p class=\"axis\" aria-hidden=\"true\">{}</p>\n</figure>\n", ticks.collect::<String>())
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
            legend: Vec::new(),
            groups: groups.map(|(heading, bars)| Group { heading: heading.into(), bars }).collect(),
            caption: "a machine".into(),
        }
    }

    #[test]
    fn bars_leave_room_for_their_values() {
        let bars = || vec![bar(10.0), bar(1000.0), bar(0.5)];
        let mut drawn = two_groups([bars(), bars()]);
        check::is_readable(&drawn.svg());
        drawn.axis = Axis::from_zero("time".into(), 1000.0);
        drawn.legend = (0..9).map(|number| (format!("meaning of number {number}"), Colour::Series(number))).collect();
        check::is_readable(&drawn.svg());
    }

    #[test]
    fn a_logarithmic_axis_has_dots_and_an_axis_from_zero_has_bars() {
        let mut drawn = two_groups([vec![bar(0.0)], vec![bar(100.0)]]);
        let html = drawn.html();
        // The value 0 has no place on a logarithmic axis.
        assert_eq!((html.matches("class=\"dot ").count(), html.matches("class=\"fill ").count()), (1, 0), "{html}");
        assert_eq!(drawn.svg().matches("<circle").count(), 1);
        drawn.axis = Axis::from_zero("time".into(), 100.0);
        drawn.legend = vec![("filters".into(), Colour::Series(0))];
        let html = drawn.html();
        for part in
            ["--step:20.00%", "<span class=\"key c0\"></span>filters", "width:0.00%", "width:100.00%", ">20</span>"]
        {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("class=\"dot ") && !drawn.svg().contains("<circle"), "{html}");
    }

    #[test]
    fn a_page_has_the_bars_with_their_details() {
        let html = two_groups([vec![bar(10.0), bar(0.0)], vec![bar(1000.0)]]).html();
        for part in [
            "Bars &amp; more",
            "bar of &lt;10&gt;",
            "left:33.33%",
            "left:100.00%",
            "--step:33.33%",
            "a &lt; b",
            "<h3>second</h3>",
            "<span style=\"left:66.67%\">100</span><span style=\"left:100.00%\">1000</span></p>",
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
