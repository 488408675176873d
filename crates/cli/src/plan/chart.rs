//! A chart of lines: two axes, and a legend beside them.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::failure::{Failure, Outcome};

/// Pixels of a picture, and of what lies around the axes.
const SIZE: (i32, i32) = (980, 560);
const LEFT: i32 = 84;
const RIGHT: i32 = 230;
const TOP: i32 = 76;
const BOTTOM: i32 = 70;
const LEGEND_LINE: i32 = 24;
const TEXT: RGBColor = RGBColor(40, 40, 40);
const FAINT: RGBColor = RGBColor(120, 120, 120);
const GRID: RGBColor = RGBColor(222, 222, 222);
/// Pixels of a dash and of the gap behind it.
const DASH: (i32, i32) = (7, 5);

/// An axis: its ends, and where it is labelled.
#[derive(Debug)]
pub struct Axis {
    pub title: &'static str,
    pub from: f64,
    pub to: f64,
    pub logarithmic: bool,
    pub labels: Vec<(f64, String)>,
}

impl Axis {
    /// Where a value lies, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let on = |value: f64| if self.logarithmic { value.ln() } else { value };
        (on(value) - on(self.from)) / (on(self.to) - on(self.from))
    }
}

/// A line of the chart; an empty label is not in the legend.
#[derive(Debug)]
pub struct Line {
    pub label: String,
    pub colour: RGBColor,
    pub is_dashed: bool,
    pub points: Vec<(f64, f64)>,
}

#[derive(Debug)]
pub struct Chart {
    pub title: String,
    /// Under the title, smaller.
    pub subtitle: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
}

type Root<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Chart {
    /// The chart as an SVG document.
    pub fn svg(&self) -> Outcome<String> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| Failure::Message(format!("drawing {}: {error}", self.title)))?;
        Ok(svg)
    }

    fn draw(&self, svg: &mut String) -> Drawn {
        let root = SVGBackend::with_string(svg, (SIZE.0.unsigned_abs(), SIZE.1.unsigned_abs())).into_drawing_area();
        root.fill(&WHITE)?;
        self.draw_axes(&root)?;
        for line in &self.lines {
            for part in self.visible(&line.points) {
                stroke(&root, part, line, 2)?;
            }
        }
        self.draw_legend(&root)?;
        root.present()?;
        Ok(())
    }

    /// Left and right, top and bottom of the axes.
    fn edges() -> [(i32, i32); 2] {
        [(LEFT, SIZE.0 - RIGHT), (TOP, SIZE.1 - BOTTOM)]
    }

    fn pixel(&self, (x, y): (f64, f64)) -> (i32, i32) {
        pixel_of((self.x.share(x), self.y.share(y)))
    }

    fn draw_axes(&self, root: &Root<'_>) -> Drawn {
        let [(left, right), (top, bottom)] = Self::edges();
        let font = |size: i32| ("sans-serif", size).into_font().color(&TEXT);
        for (value, label) in &self.x.labels {
            let (x, _) = self.pixel((*value, self.y.from));
            root.draw(&PathElement::new([(x, top), (x, bottom)], GRID))?;
            root.draw(&Text::new(label.as_str(), (x, bottom + 8), font(14).pos(Pos::new(HPos::Center, VPos::Top))))?;
        }
        for (value, label) in &self.y.labels {
            let (_, y) = self.pixel((self.x.from, *value));
            root.draw(&PathElement::new([(left, y), (right, y)], GRID))?;
            root.draw(&Text::new(label.as_str(), (left - 8, y), font(14).pos(Pos::new(HPos::Right, VPos::Center))))?;
        }
        root.draw(&Rectangle::new([(left, top), (right, bottom)], FAINT))?;
        root.draw(&Text::new(self.title.as_str(), (left, 10), font(19)))?;
        root.draw(&Text::new(self.subtitle.as_str(), (left, 34), font(14)))?;
        let middle = font(15).pos(Pos::new(HPos::Center, VPos::Top));
        root.draw(&Text::new(self.x.title, (i32::midpoint(left, right), bottom + 34), middle))?;
        // Above the axis rather than along it: nobody has to tilt the head.
        root.draw(&Text::new(self.y.title, (14, top - 22), font(15)))?;
        Ok(())
    }

    fn draw_legend(&self, root: &Root<'_>) -> Drawn {
        let [(_, right), (top, _)] = Self::edges();
        for (y, line) in
            (top..).step_by(LEGEND_LINE as usize).zip(self.lines.iter().filter(|line| !line.label.is_empty()))
        {
            let y = y + LEGEND_LINE / 2;
            stroke(root, vec![(right + 14, y), (right + 42, y)], line, 3)?;
            let style = ("sans-serif", 14).into_font().color(&TEXT).pos(Pos::new(HPos::Left, VPos::Center));
            root.draw(&Text::new(line.label.as_str(), (right + 50, y), style))?;
        }
        Ok(())
    }

    /// The parts of a line that lie within the axes, cut where it crosses their lower and upper end.
    fn visible(&self, points: &[(f64, f64)]) -> Vec<Vec<(i32, i32)>> {
        let is_in = |(x, y): (f64, f64)| (0.0..=1.0).contains(&x) && (0.0..=1.0).contains(&y);
        let mut parts: Vec<Vec<(i32, i32)>> = Vec::new();
        let mut before: Option<(f64, f64)> = None;
        for point in points {
            let at = (self.x.share(point.0), self.y.share(point.1));
            let crossing = before.filter(|&before| is_in(before) != is_in(at)).and_then(|before| crossing(before, at));
            let was_in = before.is_some_and(is_in);
            if !was_in && (is_in(at) || crossing.is_some()) {
                parts.push(Vec::new());
            }
            if let Some(part) = parts.last_mut() {
                part.extend(crossing.map(pixel_of));
                part.extend(is_in(at).then(|| pixel_of(at)));
            }
            before = Some(at);
        }
        parts.retain(|part| part.len() > 1);
        parts
    }
}

/// Where a straight line between two places leaves the axes at their lower or upper end.
fn crossing(from: (f64, f64), to: (f64, f64)) -> Option<(f64, f64)> {
    let ends = [0.0, 1.0].into_iter();
    let crossed = ends.filter_map(|end| {
        let part = (end - from.1) / (to.1 - from.1);
        (0.0..=1.0).contains(&part).then_some((from.0 + part * (to.0 - from.0), end))
    });
    crossed.into_iter().find(|(x, _)| (0.0..=1.0).contains(x))
}

/// The pixel of shares of the axes.
fn pixel_of((x, y): (f64, f64)) -> (i32, i32) {
    let [(left, right), (top, bottom)] = Chart::edges();
    #[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
    let along = |share: f64, from: i32, to: i32| (f64::from(from) + share * f64::from(to - from)).round() as i32;
    (along(x, left, right), along(y, bottom, top))
}

fn stroke(root: &Root<'_>, points: Vec<(i32, i32)>, line: &Line, width: u32) -> Drawn {
    let style = line.colour.stroke_width(width);
    if line.is_dashed {
        root.draw(&DashedPathElement::new(points, DASH.0, DASH.1, style))?;
    } else {
        root.draw(&PathElement::new(points, style))?;
    }
    Ok(())
}
