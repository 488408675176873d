//! Draws points with labels, and tries to keep labels from covering each other.
#![allow(clippy::indexing_slicing, reason = "each list has an entry for each point")]

use super::frame::Frame;
use super::picture::{Anchor, Picture, Stroke, TEXT_SIZE, text_width};
use super::theme::Colour;

/// The shape of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Dot,
    Ring,
}

/// A pair of values with a label.
#[derive(Debug)]
pub struct Point {
    pub label: String,
    pub values: (f64, f64),
    pub mark: Mark,
    pub colour: Colour,
}

/// Draws points with labels, and lines to the labels that are far from their points. Labels avoid
/// the boxes of `avoid` if they can.
pub fn draw(picture: &mut Picture, frame: &Frame, points: &[Point], avoid: &[Box2]) {
    let places: Vec<_> = points.iter().map(|point| frame.at(point.values)).collect();
    let within =
        Box2 { left: frame.left + 2.0, top: frame.top + 2.0, right: frame.right - 2.0, bottom: frame.bottom - 2.0 };
    let boxes = place(&places, points, within, avoid);
    for ((point, &(x, y)), place) in points.iter().zip(&places).zip(&boxes) {
        let end = place.leader_to((x, y));
        if (end.0 - x).hypot(end.1 - y) > 13.0 {
            picture.line(&[(x, y), end], Stroke::Thin, point.colour);
        }
    }
    for (point, &at) in points.iter().zip(&places) {
        match point.mark {
            Mark::Dot => picture.dot(at, 5.0, point.colour),
            Mark::Ring => picture.ring(at, 4.0, point.colour),
        }
    }
    for ((point, &(x, _)), place) in points.iter().zip(&places).zip(&boxes) {
        // The width of a text is an estimate, so the text is anchored at the edge near the point.
        let is_left = place.right <= x;
        let (edge, anchor) = if is_left { (place.right, Anchor::End) } else { (place.left, Anchor::Start) };
        picture.text(&point.label, (edge, f64::midpoint(place.top, place.bottom)), anchor, point.colour);
    }
}

/// A rectangle in a picture.
#[derive(Debug, Clone, Copy)]
pub struct Box2 {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Box2 {
    fn overlap(&self, other: &Self) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        if width > 0.0 && height > 0.0 { width * height } else { 0.0 }
    }

    /// Returns the end of a line from a point to this label. The end is the nearest point of the
    /// label, but at least 2 units below its top and above its bottom.
    fn leader_to(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (x.clamp(self.left, self.right), y.clamp(self.top + 2.0, self.bottom - 2.0))
    }

    /// Returns the distance of a point from the label, which is 0 within the label.
    fn distance(&self, (x, y): (f64, f64)) -> f64 {
        (x.clamp(self.left, self.right) - x).hypot(y.clamp(self.top, self.bottom) - y)
    }

    /// Returns whether a line crosses the label, tested at nineteen points of the line.
    fn crossed_by(&self, from: (f64, f64), to: (f64, f64)) -> bool {
        (1..20).map(|step| f64::from(step) / 20.0).any(|share| {
            let (x, y) = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
            x > self.left && x < self.right && y > self.top && y < self.bottom
        })
    }

    fn within(&self, frame: &Self) -> bool {
        self.left >= frame.left && self.right <= frame.right && self.top >= frame.top && self.bottom <= frame.bottom
    }
}

/// Returns the box of a text that begins at `x`, or ends there if `is_left`. Its vertical middle is
/// at `y`.
pub fn box_of(text: &str, (x, y): (f64, f64), is_left: bool) -> Box2 {
    let left = if is_left { x - text_width(text) } else { x };
    let half = TEXT_SIZE * 0.6;
    Box2 { left, top: y - half, right: left + text_width(text), bottom: y + half }
}

/// Returns small boxes along a line.
pub fn along(from: (f64, f64), to: (f64, f64)) -> impl Iterator<Item = Box2> {
    const STEPS: i32 = 60;
    (0..=STEPS).map(move |step| {
        let share = f64::from(step) / f64::from(STEPS);
        around(from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share, 2.0)
    })
}

/// The number of rounds. Each round may move every label once.
const ROUNDS: usize = 6;
/// The number of orders in which [`place`] tries to place the labels.
const ORDERS: usize = 6;

/// Returns a place for each label near its point. Prefers places in `frame` where no label covers
/// another label, a point or a box of `avoid`.
fn place(points: &[(f64, f64)], named: &[Point], frame: Box2, avoid: &[Box2]) -> Vec<Box2> {
    let marks: Vec<Box2> = points.iter().map(|&(x, y)| around(x, y, 6.0)).collect();
    let labels = Labels { points, named, frame, avoid, marks: &marks };
    let tries = (0..ORDERS).map(|order| labels.place(order));
    tries.min_by(|one, other| one.0.total_cmp(&other.0)).map_or_else(Vec::new, |(_, placed)| placed)
}

struct Labels<'a> {
    points: &'a [(f64, f64)],
    named: &'a [Point],
    frame: Box2,
    avoid: &'a [Box2],
    marks: &'a [Box2],
}

impl Labels<'_> {
    /// Places all labels in one of the [`ORDERS`]. Returns the sum of their costs, and their boxes.
    fn place(&self, order: usize) -> (f64, Vec<Box2>) {
        let count = self.points.len();
        // A label that is not placed yet lies outside of the picture, where it covers nothing.
        let nowhere = Box2 { left: -9.0, top: -9.0, right: -9.0, bottom: -9.0 };
        let mut placed = vec![nowhere; count];
        let mut costs = vec![0.0; count];
        for _ in 0..ROUNDS {
            for turn in 0..count {
                let turn = (turn + order * count / ORDERS) % count;
                let i = if order.is_multiple_of(2) { turn } else { count - 1 - turn };
                let (x, y) = self.points[i];
                let boxed = |(dx, dy): (f64, f64)| box_of(&self.named[i].label, (x + dx, y + dy), dx < 0.0);
                let best = candidates().map(boxed).map(|place| (self.cost(i, &place, &placed), place));
                if let Some((cost, place)) = best.min_by(|a, b| a.0.total_cmp(&b.0)) {
                    (costs[i], placed[i]) = (cost, place);
                }
            }
        }
        (costs.iter().sum(), placed)
    }

    /// Returns the cost of a place for label `i`. A better place costs less.
    fn cost(&self, i: usize, place: &Box2, placed: &[Box2]) -> f64 {
        let (x, y) = self.points[i];
        let others = || placed.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, place)| place);
        let strangers = || self.marks.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, mark)| mark);
        let hidden: f64 = self.marks.iter().chain(others()).map(|other| place.overlap(other)).sum();
        let covered: f64 = self.avoid.iter().map(|other| place.overlap(other)).sum();
        let leader = place.leader_to((x, y));
        let crossed = others().chain(strangers()).filter(|other| other.crossed_by((x, y), leader)).count();
        let outside = if place.within(&self.frame) { 0.0 } else { 1e6 };
        let far = |(x, y): (f64, f64)| place.distance((x, y));
        // A reader may assign a label to another point if that point is almost as near as the
        // label's own point. Points within 12 units of the label's own point do not count, because
        // nobody can tell them apart.
        let apart = |other: (f64, f64)| (other.0 - x).hypot(other.1 - y) > 12.0;
        let mistaken = self.points.iter().filter(|&&other| apart(other) && far(other) < far((x, y)) + 4.0).count();
        let misread = crossed as f64 * 60.0 + mistaken as f64 * 150.0;
        // Beyond this distance a label has a leader, which the eye must follow.
        let leader = if far((x, y)) > 13.0 { 40.0 } else { 0.0 };
        outside + hidden * 10.0 + covered * 8.0 + misread + leader + far((x, y))
    }
}

/// Returns the offsets from a point at which its label may begin or end: 24 directions at 16
/// distances.
fn candidates() -> impl Iterator<Item = (f64, f64)> {
    (0..16).flat_map(|step| {
        let far = 10.0 + 8.0 * f64::from(step);
        (0..24)
            .map(move |turn| (f64::from(turn) * std::f64::consts::TAU / 24.0).sin_cos())
            .map(move |(sin, cos)| (cos * far + 0.01, sin * far))
    })
}

fn around(x: f64, y: f64, reach: f64) -> Box2 {
    Box2 { left: x - reach, top: y - reach, right: x + reach, bottom: y + reach }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_near_points_do_not_cover_each_other() {
        let frame = Box2 { left: 0.0, top: 0.0, right: 500.0, bottom: 500.0 };
        let points: Vec<_> = (0..6).map(|i| (250.0 + f64::from(i) * 4.0, 250.0)).collect();
        let point =
            |&values: &(f64, f64)| Point { label: "a filter".into(), values, mark: Mark::Dot, colour: Colour::Ink };
        let named: Vec<_> = points.iter().map(point).collect();
        let wall = Box2 { left: 0.0, top: 0.0, right: 500.0, bottom: 230.0 };
        let places = place(&points, &named, frame, &[wall]);
        for (i, a) in places.iter().enumerate() {
            assert_eq!(a.overlap(&wall), 0.0, "{places:?}");
            for b in &places[..i] {
                assert_eq!(a.overlap(b), 0.0, "{places:?}");
            }
        }
    }
}
