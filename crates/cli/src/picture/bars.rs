//! Draws horizontal bars with their values.

use super::frame::Axis;
use super::{Anchor, Colour, Picture, Stroke, WIDTH, text_width};

const BAR_HEIGHT: f64 = 14.0;
const BAR_STEP: f64 = 18.0;
const HEADING_STEP: f64 = 20.0;
const GROUP_GAP: f64 = 8.0;
/// The height of title, subtitle and axis title above the bars, in units.
const TOP: f64 = 82.0;
/// The height of axis labels and caption below the bars, in units.
const BOTTOM: f64 = 56.0;

/// One bar.
#[derive(Debug)]
pub struct Bar {
    pub label: String,
    pub value: f64,
    /// The text at the end of the bar.
    pub value_text: String,
    pub colour: Colour,
}

/// Bars below a common heading.
#[derive(Debug)]
pub struct Group {
    /// The heading above the bars. An empty heading takes no space.
    pub heading: String,
    pub bars: Vec<Bar>,
}

/// A picture of groups of bars.
#[derive(Debug)]
pub struct Bars {
    pub title: String,
    pub subtitle: String,
    pub description: String,
    pub axis: Axis,
    pub groups: Vec<Group>,
    /// The text below the axis.
    pub caption: String,
}

impl Bars {
    /// Draws the bars as an SVG document.
    pub fn svg(&self) -> String {
        let height_of = |group: &Group| {
            let heading = if group.heading.is_empty() { 0.0 } else { HEADING_STEP };
            heading + group.bars.len() as f64 * BAR_STEP + GROUP_GAP
        };
        let bottom = TOP + self.groups.iter().map(height_of).sum::<f64>();
        let mut picture = Picture::new(bottom + BOTTOM, &self.title, &self.subtitle, &self.description);
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let widest = |width: &dyn Fn(&Bar) -> f64| bars().map(width).fold(0.0, f64::max);
        let left = 22.0 + widest(&|bar| text_width(&bar.label)) + 8.0;
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
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        // If the axis has `w` units, a bar of share `s` has `s * w` units. The bar and the text
        // after it must fit into `full` units.
        let fits = |bar: &Bar| {
            let share = self.axis.share(bar.value).clamp(0.01, 1.0);
            (full - text_width(&bar.value_text) - 10.0) / share
        };
        full - bars.map(fits).fold(full, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn bars_leave_room_for_their_values() {
        let bar = |value: f64| Bar {
            label: format!("bar of {value}"),
            value,
            value_text: format!("{value} ns, and so much more than the others"),
            colour: Colour::Series(0),
        };
        let axis = Axis {
            title: "time".into(),
            from: 1.0,
            to: 1000.0,
            is_logarithmic: true,
            labels: Axis::powers_of_ten(1.0, 1000.0, |power| power.to_string()),
        };
        let group = |heading: &str| Group { heading: heading.into(), bars: vec![bar(10.0), bar(1000.0), bar(0.5)] };
        let bars = Bars {
            title: "Bars".into(),
            subtitle: "of two groups".into(),
            description: "Bars of two groups.".into(),
            axis,
            groups: vec![group(""), group("second")],
            caption: "a machine".into(),
        };
        check::is_readable(&bars.svg());
    }
}
