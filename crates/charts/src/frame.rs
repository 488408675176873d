//! Draws two axes with lines and labels between them.

use super::picture::{Anchor, Picture, Stroke, TEXT_SIZE, WIDTH};
use super::theme::Colour;

/// An axis: its ends and its labels.
#[derive(Debug, Clone)]
pub struct Axis {
    pub title: String,
    pub from: f64,
    pub to: f64,
    pub is_logarithmic: bool,
    pub labels: Vec<(f64, String)>,
}

impl Axis {
    /// Returns the position of a value on the axis: 0 is the beginning of the axis, 1 its end. A
    /// value beyond the ends gets a position below 0 or above 1.
    pub fn share(&self, value: f64) -> f64 {
        let on = |value: f64| if self.is_logarithmic { value.ln() } else { value };
        (on(value) - on(self.from)) / (on(self.to) - on(self.from))
    }

    /// Returns a logarithmic axis whose ends are powers of ten: `from` rounded down, and `to`
    /// rounded up. The axis has at least one decade.
    pub fn decades(title: String, from: f64, to: f64, label: impl Fn(f64) -> String) -> Self {
        let from = 10f64.powf(from.log10().floor());
        let to = 10f64.powf(to.log10().ceil()).max(from * 10.0);
        Self { title, from, to, is_logarithmic: true, labels: Self::powers_of_ten(from, to, label) }
    }

    /// Returns an axis from 0 with at most nine labels.
    pub fn from_zero(title: String, to: f64) -> Self {
        Self { title, from: 0.0, to, is_logarithmic: false, labels: Vec::new() }.with_round_labels(8)
    }

    /// Returns an axis with some room around the values. The axis has more room at a linear
    /// beginning, because labels may lie to the left of their points.
    pub fn around(title: &str, values: impl Iterator<Item = f64>, is_logarithmic: bool) -> Self {
        let ends = values.fold((f64::INFINITY, 0.0), |(from, to), value| (value.min(from), value.max(to)));
        let (from, to) = match ends {
            (from, to) if from > to => (1.0, 2.0),
            (from, to) if is_logarithmic => (from * 0.7, to * 1.5),
            (from, to) => ((from - 3.75).max(0.0), to + 1.0),
        };
        Self { title: title.into(), from, to, is_logarithmic, labels: Vec::new() }.with_round_labels(13)
    }

    /// Labels numbers with few digits. A linear axis has at most `most` steps between them.
    fn with_round_labels(mut self, most: u32) -> Self {
        let rounds =
            |steps: &'static [f64]| (-9..10).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        // Numbers between whole ones need the decimals of their step.
        let mut decimals = 0;
        let values: Vec<f64> = if self.is_logarithmic {
            let steps: &[f64] = match (self.to / self.from).log10() {
                decades if decades > 4.0 => &[1.0],
                decades if decades > 2.0 => &[1.0, 3.0],
                _ => &[1.0, 2.0, 5.0],
            };
            rounds(steps).collect()
        } else {
            let step = rounds(&[1.0, 2.0, 5.0]).find(|step| (self.to - self.from) / step <= f64::from(most));
            let step = step.unwrap_or(self.to - self.from);
            let first = (self.from / step).ceil();
            decimals = plain(step).split_once('.').map_or(0, |(_, decimals)| decimals.len());
            (0..=most).map(|number| (first + f64::from(number)) * step).collect()
        };
        let on_axis = values.into_iter().filter(|value| (self.from..=self.to).contains(value));
        let label = |value: f64| if value < 1.0 { plain(value) } else { format!("{value:.decimals$}") };
        self.labels = on_axis.map(|value| (value, label(value))).collect();
        self
    }

    /// Returns each power of ten between `from` and `to`, both included, with its label.
    pub fn powers_of_ten(from: f64, to: f64, label: impl Fn(f64) -> String) -> Vec<(f64, String)> {
        let (low, high) = (from.min(to) * 0.999, from.max(to) * 1.001);
        let powers = (-300..=300).map(|power| 10f64.powi(power)).filter(|power| (low..=high).contains(power));
        powers.map(|power| (power, label(power))).collect()
    }
}

/// Formats a value. A value of 0, or from 1 on, has no decimals. Another value has as many decimals
/// as its first digit needs.
pub fn plain(value: f64) -> String {
    let shifted = std::iter::successors(Some(value), |shifted| Some(shifted * 10.0));
    let decimals = shifted.take_while(|shifted| *shifted > 0.0 && *shifted < 1.0 - 1e-9).count();
    format!("{value:.decimals$}")
}

/// The area between two axes.
#[derive(Debug)]
pub struct Frame {
    pub x: Axis,
    pub y: Axis,
    /// The edges of the area in the picture, in units.
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Frame {
    /// Returns the frame of a picture of this height, with `right` units of free space to its
    /// right.
    pub fn new(x: Axis, y: Axis, height: f64, right: f64) -> Self {
        Self { x, y, left: 58.0, right: WIDTH - right, top: 90.0, bottom: height - 56.0 }
    }

    /// Returns the position of a pair of values in the picture, in units.
    pub fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        self.place((self.x.share(x), self.y.share(y)))
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.left + x * (self.right - self.left), self.bottom + y * (self.top - self.bottom))
    }

    /// Draws axes, grid and labels. The title of the vertical axis is above the axis, so that all
    /// text is horizontal.
    pub fn draw(&self, picture: &mut Picture) {
        for (value, label) in &self.x.labels {
            let (x, _) = self.at((*value, self.y.from));
            picture.line(&[(x, self.top), (x, self.bottom)], Stroke::Thin, Colour::Grid);
            picture.text(label, (x, self.bottom + 14.0), Anchor::Middle, Colour::Ink);
        }
        for (value, label) in &self.y.labels {
            let (_, y) = self.at((self.x.from, *value));
            picture.line(&[(self.left, y), (self.right, y)], Stroke::Thin, Colour::Grid);
            picture.text(label, (self.left - 7.0, y), Anchor::End, Colour::Ink);
        }
        let corners = [(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)];
        picture.line(&corners, Stroke::Thin, Colour::Faint);
        let middle = f64::midpoint(self.left, self.right);
        picture.text(&self.x.title, (middle, self.bottom + 36.0), Anchor::Middle, Colour::Ink);
        picture.text(&self.y.title, (16.0, self.top - 17.0), Anchor::Start, Colour::Ink);
    }

    /// Draws a line through pairs of values. Leaves out the parts beyond the ends of the axes.
    pub fn draw_line(&self, picture: &mut Picture, values: &[(f64, f64)], stroke: Stroke, colour: Colour) {
        for part in self.visible(values) {
            picture.line(&part, stroke, colour);
        }
    }

    /// Returns the parts of a line within the frame. If one end of a segment is outside, the
    /// segment is cut at the lower or the upper edge, or left out if it crosses neither. A segment
    /// with both ends outside is left out.
    fn visible(&self, values: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
        // Rounding may put the last point of a curve beyond the end of the axis.
        let on_axis = -1e-9..=1.0 + 1e-9;
        let is_in = |(x, y): (f64, f64)| on_axis.contains(&x) && on_axis.contains(&y);
        let mut parts: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut before: Option<(f64, f64)> = None;
        for value in values {
            let at = (self.x.share(value.0), self.y.share(value.1));
            let crossing = before.filter(|&before| is_in(before) != is_in(at)).and_then(|before| crossing(before, at));
            if !before.is_some_and(is_in) && (is_in(at) || crossing.is_some()) {
                parts.push(Vec::new());
            }
            if let Some(part) = parts.last_mut() {
                part.extend(crossing.map(|at| self.place(at)));
                part.extend(is_in(at).then(|| self.place(at)));
            }
            before = Some(at);
        }
        parts.retain(|part| part.len() > 1);
        parts
    }

    /// Labels the right ends of lines: each label lies near the height of its line and clear of the
    /// others.
    pub fn label_right_ends(&self, picture: &mut Picture, ends: &[(f64, String, Colour)]) {
        let wanted: Vec<f64> = ends.iter().map(|(value, ..)| self.at((self.x.to, *value)).1).collect();
        let heights = spread(&wanted, TEXT_SIZE * 1.25, self.top, self.bottom);
        for (((_, label, colour), &from), &to) in ends.iter().zip(&wanted).zip(&heights) {
            picture.line(&[(self.right + 2.0, from), (self.right + 14.0, to)], Stroke::Thin, *colour);
            picture.text(label, (self.right + 18.0, to), Anchor::Start, *colour);
        }
    }
}

/// Returns the point where the straight line between two points crosses the lower or the upper
/// edge. Returns `None` if it crosses neither within the frame.
fn crossing(from: (f64, f64), to: (f64, f64)) -> Option<(f64, f64)> {
    let crossed = [0.0, 1.0].into_iter().filter_map(|edge| {
        let part = (edge - from.1) / (to.1 - from.1);
        (0.0..=1.0).contains(&part).then_some((from.0 + part * (to.0 - from.0), edge))
    });
    crossed.into_iter().find(|(x, _)| (0.0..=1.0).contains(x))
}

/// Returns a height for each wanted height, in the same order. The heights are near the wanted
/// ones, at least `apart` from each other, and between `top` and `bottom` if there is room.
pub fn spread(wanted: &[f64], apart: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut sorted: Vec<(usize, f64)> = wanted.iter().copied().enumerate().collect();
    sorted.sort_by(|one, other| one.1.total_cmp(&other.1));
    // Subtract `rank * apart` from each wanted height. The results must not decrease. Neighbours
    // that decrease share their mean, which minimises the squared distances (isotonic regression).
    let mut pools: Vec<(f64, usize)> = Vec::new();
    let mean = |(sum, count): (f64, usize)| sum / count as f64;
    for (rank, (_, wanted)) in sorted.iter().enumerate() {
        let mut pool = (wanted - rank as f64 * apart, 1);
        while let Some(&before) = pools.last()
            && mean(before) > mean(pool)
        {
            pool = (pool.0 + before.0, pool.1 + before.1);
            pools.pop();
        }
        pools.push(pool);
    }
    let lowest = bottom - wanted.len().saturating_sub(1) as f64 * apart;
    let free = pools.into_iter().flat_map(|pool| std::iter::repeat_n(mean(pool), pool.1));
    let heights = free.enumerate().map(|(rank, height)| height.min(lowest).max(top) + rank as f64 * apart);
    let mut placed: Vec<(usize, f64)> = sorted.iter().map(|&(number, _)| number).zip(heights).collect();
    placed.sort_by_key(|&(number, _)| number);
    placed.into_iter().map(|(_, height)| height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_the_axes() {
        let axis = |from, to| Axis { title: String::new(), from, to, is_logarithmic: false, labels: Vec::new() };
        let frame = Frame { x: axis(0.0, 4.0), y: axis(0.0, 10.0), left: 0.0, right: 40.0, top: 0.0, bottom: 100.0 };
        let parts = frame.visible(&[(0.0, 5.0), (1.0, 15.0), (2.0, 5.0), (3.0, 5.0), (4.0, -5.0)]);
        assert_eq!(
            parts,
            [vec![(0.0, 50.0), (5.0, 0.0)], vec![(15.0, 0.0), (20.0, 50.0), (30.0, 50.0), (35.0, 100.0)]]
        );
    }

    #[test]
    fn labels_between_whole_numbers_have_decimals() {
        let labels = Axis::from_zero(String::new(), 1.3).labels;
        let texts: Vec<&str> = labels.iter().map(|(_, label)| &**label).collect();
        assert_eq!(texts, ["0", "0.2", "0.4", "0.6", "0.8", "1.0", "1.2"]);
    }

    #[test]
    fn spread_labels_keep_their_distance_and_their_order() {
        let heights = spread(&[50.0, 50.0, 51.0, 90.0], 10.0, 0.0, 100.0);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] > 9.9), "{heights:?}");
        assert!(heights[0] >= 0.0 && heights[3] <= 100.0);
    }
}
