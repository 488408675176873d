//! The plots: space against query time, rate against bits a key, build time against the number of keys.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::labels::{self, Box2};
use crate::record::Row;
use crate::run::SAME_RATE;

/// Pixels.
const SIZE: (i32, i32) = (1180, 760);
const LEFT: i32 = 84;
const TOP: i32 = 62;
const BOTTOM: i32 = 74;
const LABEL: f64 = 13.0;
/// Told apart also without colour vision (Okabe and Ito, "Color universal design", 2008).
const OURS: RGBColor = RGBColor(0, 114, 178);
const THEIRS: RGBColor = RGBColor(213, 94, 0);
const TEXT: RGBColor = RGBColor(40, 40, 40);
const FAINT: RGBColor = RGBColor(120, 120, 120);
const GRID: RGBColor = RGBColor(222, 222, 222);
/// The size whose filters are compared in the first two plots.
const SHOWN_N: usize = 1_000_000;

type Root<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
/// Draws one plot.
type Plot = fn(&Root<'_>, &[Row]) -> Drawn;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// All plots: file names, and what goes into them.
pub fn all(rows: &[Row]) -> Result<Vec<(&'static str, String)>, String> {
    let plots: [(&str, Plot); 3] =
        [("filters-space.svg", space), ("filters-rate.svg", rate), ("filters-build.svg", build)];
    let draw = |(name, plot): (&'static str, Plot)| {
        let mut svg = String::new();
        let root =
            SVGBackend::with_string(&mut svg, (SIZE.0.unsigned_abs(), SIZE.1.unsigned_abs())).into_drawing_area();
        let drawn =
            root.fill(&WHITE).map_err(Into::into).and_then(|()| plot(&root, rows)).and_then(|()| Ok(root.present()?));
        drop(root);
        drawn.map_err(|error: Box<dyn std::error::Error>| format!("{name}: {error}"))?;
        Ok((name, svg))
    };
    plots.into_iter().map(draw).collect()
}

/// An axis, logarithmic or not.
#[derive(Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Axis {
    /// Around the values, with some room.
    fn around(values: impl Iterator<Item = f64> + Clone, logarithmic: bool) -> Self {
        let (from, to) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), value| (from.min(value), to.max(value)));
        if logarithmic {
            Self { from: from * 0.75, to: to * 1.35, logarithmic }
        } else {
            Self { from: (from - 1.0).max(0.0), to: to + 1.0, logarithmic }
        }
    }

    /// Where a value lies, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let on = |value: f64| if self.logarithmic { value.ln() } else { value };
        (on(value) - on(self.from)) / (on(self.to) - on(self.from))
    }

    fn ticks(&self) -> Vec<f64> {
        let within = |value: &f64| *value >= self.from && *value <= self.to;
        if !self.logarithmic {
            let step = if self.to - self.from > 16.0 { 2.0 } else { 1.0 };
            return (0..200).map(|i| f64::from(i) * step).filter(within).collect();
        }
        let decades = (self.to / self.from).log10();
        let steps: &[f64] = if decades > 4.5 {
            &[1.0]
        } else if decades > 2.2 {
            &[1.0, 3.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let decade = |power: i32| steps.iter().map(move |step| step * 10f64.powi(power));
        (-9..10).flat_map(decade).filter(within).collect()
    }
}

/// The frame of a plot: two axes, and where they lie.
struct Frame {
    x: Axis,
    y: Axis,
    right: i32,
}

impl Frame {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let (width, height) = (f64::from(self.right - LEFT), f64::from(SIZE.1 - BOTTOM - TOP));
        (f64::from(LEFT) + self.x.share(x) * width, f64::from(SIZE.1 - BOTTOM) - self.y.share(y) * height)
    }

    fn draw(&self, root: &Root<'_>, titles: [&str; 3], formats: [fn(f64) -> String; 2]) -> Drawn {
        let [title, x_title, y_title] = titles;
        let centred = ("sans-serif", 13).into_font().color(&TEXT).pos(Pos::new(HPos::Center, VPos::Top));
        for tick in self.x.ticks() {
            let (x, _) = pixel(self.at(tick, self.y.from));
            root.draw(&PathElement::new([(x, TOP), (x, SIZE.1 - BOTTOM)], GRID))?;
            root.draw(&Text::new(formats[0](tick), (x, SIZE.1 - BOTTOM + 8), centred.clone()))?;
        }
        let to_the_right = ("sans-serif", 13).into_font().color(&TEXT).pos(Pos::new(HPos::Right, VPos::Center));
        for tick in self.y.ticks() {
            let (_, y) = pixel(self.at(self.x.from, tick));
            root.draw(&PathElement::new([(LEFT, y), (self.right, y)], GRID))?;
            root.draw(&Text::new(formats[1](tick), (LEFT - 8, y), to_the_right.clone()))?;
        }
        root.draw(&Rectangle::new([(LEFT, TOP), (self.right, SIZE.1 - BOTTOM)], FAINT))?;
        root.draw(&Text::new(title.to_owned(), (LEFT, 14), ("sans-serif", 19).into_font().color(&TEXT)))?;
        let middle = (LEFT + self.right) / 2;
        let axis = ("sans-serif", 15).into_font().color(&TEXT);
        root.draw(&Text::new(
            x_title.to_owned(),
            (middle, SIZE.1 - 36),
            axis.clone().pos(Pos::new(HPos::Center, VPos::Top)),
        ))?;
        // Above the axis rather than along it: nobody has to tilt the head.
        root.draw(&Text::new(y_title.to_owned(), (LEFT, TOP - 20), axis))?;
        Ok(())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "pixels")]
fn pixel((x, y): (f64, f64)) -> (i32, i32) {
    (x.round() as i32, y.round() as i32)
}

fn is_ours(row: &Row) -> bool {
    row.krate == "filterblock"
}

fn colour(row: &Row) -> RGBColor {
    if is_ours(row) { OURS } else { THEIRS }
}

/// Of the filters with `n` keys that can be given hashes: queries for absent keys, one at a time.
fn shown(rows: &[Row]) -> Vec<&Row> {
    let sizes = || rows.iter().filter(|row| row.filters_asked == 1).map(|row| row.n);
    let n = if sizes().any(|n| n == SHOWN_N) { SHOWN_N } else { sizes().max().unwrap_or(0) };
    let wanted = |row: &&Row| {
        row.n == n
            && row.filters_asked == 1
            && (row.key_form.as_str(), row.mix.as_str(), row.mode.as_str()) == ("hash", "negative", "single")
            && row.krate != "none"
            && !row.filter.starts_with(SAME_RATE)
            // With too few questions a filter can seem to be below the bound, and then has no place on the axis.
            && row.overhead_bare.is_some_and(|overhead| overhead > 0.0)
            && row.rate.is_some_and(|rate| rate > 0.0)
    };
    rows.iter().filter(wanted).collect()
}

/// Points with labels, ours filled, theirs hollow.
fn scatter(root: &Root<'_>, frame: &Frame, points: &[(&Row, f64, f64)]) -> Drawn {
    let places: Vec<_> = points.iter().map(|&(_, x, y)| frame.at(x, y)).collect();
    let texts: Vec<_> = points.iter().map(|(row, _, _)| short_name(&row.filter)).collect();
    let within = Box2 {
        left: f64::from(LEFT) + 2.0,
        top: f64::from(TOP) + 2.0,
        right: f64::from(frame.right) - 2.0,
        bottom: f64::from(SIZE.1 - BOTTOM) - 2.0,
    };
    let boxes = labels::place(&places, &texts, LABEL, within);
    // Points over the lines to labels, labels over everything.
    for (&(x, y), place) in places.iter().zip(&boxes) {
        let end = place.leader_to((x, y));
        if (end.0 - x).hypot(end.1 - y) > 13.0 {
            root.draw(&PathElement::new([pixel((x, y)), pixel(end)], FAINT))?;
        }
    }
    for (&(row, _, _), &at) in points.iter().zip(&places) {
        let style = if is_ours(row) { OURS.filled() } else { THEIRS.stroke_width(2) };
        root.draw(&Circle::new(pixel(at), 5, WHITE.filled()))?;
        root.draw(&Circle::new(pixel(at), 5, style))?;
    }
    for (((row, _, _), &(x, _)), (text, place)) in points.iter().zip(&places).zip(texts.iter().zip(&boxes)) {
        let corners = [pixel((place.left, place.top + 1.0)), pixel((place.right, place.bottom - 1.0))];
        root.draw(&Rectangle::new(corners, WHITE.mix(0.75).filled()))?;
        // Widths are guessed, so the edge that matters is the one near the point.
        let to_the_left = (place.left + place.right) / 2.0 < x;
        let (edge, side) = if to_the_left { (place.right, HPos::Right) } else { (place.left, HPos::Left) };
        let font = ("sans-serif", LABEL).into_font().color(&colour(row)).pos(Pos::new(side, VPos::Center));
        root.draw(&Text::new(text.clone(), pixel((edge, (place.top + place.bottom) / 2.0)), font))?;
    }
    Ok(())
}

fn space(root: &Root<'_>, rows: &[Row]) -> Drawn {
    let shown = shown(rows);
    let points: Vec<_> = shown.iter().map(|row| (*row, row.ns_min, row.overhead_bare.unwrap_or(1.0) * 100.0)).collect();
    if points.is_empty() {
        return Ok(());
    }
    let frame = Frame {
        x: Axis::around(points.iter().map(|point| point.1), true),
        y: Axis::around(points.iter().map(|point| point.2), true),
        right: SIZE.0 - 30,
    };
    let n = millions(shown[0].n as f64);
    let title = format!("Space and time, {n} keys: lower left is better");
    let titles = [
        title.as_str(),
        "an absent key, hash at hand, ns of CPU time (logarithmic)",
        "space over the bound log2(1 / rate), % (logarithmic)",
    ];
    frame.draw(root, titles, [plain, plain])?;
    scatter(root, &frame, &points)
}

fn rate(root: &Root<'_>, rows: &[Row]) -> Drawn {
    let shown = shown(rows);
    let bits = |row: &Row| row.bits_per_key_bare.unwrap_or(0.0);
    // One that keeps 64 bits a key at whatever rate would squeeze all others.
    let points: Vec<_> = shown
        .iter()
        .filter(|row| bits(row) < 30.0)
        .map(|row| (*row, bits(row), row.rate.unwrap_or(1.0) * 100.0))
        .collect();
    if points.is_empty() {
        return Ok(());
    }
    let frame = Frame {
        x: Axis::around(points.iter().map(|point| point.1), false),
        y: Axis::around(points.iter().map(|point| point.2), true),
        right: SIZE.0 - 30,
    };
    let title = format!("Rate and space, {} keys: lower left is better", millions(shown[0].n as f64));
    let off: Vec<_> = shown.iter().filter(|row| bits(row) >= 30.0).collect();
    let off: Vec<_> = off.iter().map(|row| format!("{} has {:.0}", short_name(&row.filter), bits(row))).collect();
    let x_title = if off.is_empty() { "bits per key".into() } else { format!("bits per key ({})", off.join(", ")) };
    let titles = [title.as_str(), &x_title, "absent keys answered \"maybe\", % (logarithmic)"];
    frame.draw(root, titles, [plain, plain])?;
    let bounds = [
        (1.0, "no filter can be below: 2^-bits", 0.42),
        (std::f64::consts::LN_2, "best Bloom filter: 0.6185^bits", 0.55),
    ];
    for (efficiency, text, share) in bounds {
        // A straight line where one axis is logarithmic: from where it enters the frame to where it leaves.
        let height = |x: f64| 100.0 * (-x * efficiency).exp2();
        let reached = |y: f64| -(y / 100.0).log2() / efficiency;
        let ends = [frame.x.from.max(reached(frame.y.to)), frame.x.to.min(reached(frame.y.from))];
        root.draw(&PathElement::new(ends.map(|x| pixel(frame.at(x, height(x)))), FAINT))?;
        let x = ends[0] + (ends[1] - ends[0]) * share;
        let (left, top) = pixel(frame.at(x, height(x)));
        let font = ("sans-serif", LABEL).into_font().color(&FAINT);
        let at = if efficiency == 1.0 { Pos::new(HPos::Right, VPos::Top) } else { Pos::new(HPos::Left, VPos::Bottom) };
        let nudge = if efficiency == 1.0 { (-8, 4) } else { (8, -4) };
        root.draw(&Text::new(text, (left + nudge.0, top + nudge.1), font.pos(at)))?;
    }
    scatter(root, &frame, &points)
}

fn build(root: &Root<'_>, rows: &[Row]) -> Drawn {
    let mut lines: Vec<(&Row, Vec<(f64, f64)>)> = Vec::new();
    for row in rows {
        let Some(ns) = row.build_ns else { continue };
        if row.filters_asked > 1 || row.filter.starts_with(SAME_RATE) {
            continue;
        }
        let line = match lines.iter().position(|(first, _)| first.filter == row.filter) {
            Some(i) => &mut lines[i].1,
            None => {
                lines.push((row, Vec::new()));
                &mut lines.last_mut().ok_or("just pushed")?.1
            }
        };
        if line.last().is_none_or(|&(n, _)| n < row.n as f64) {
            line.push((row.n as f64, ns));
        }
    }
    let all = || lines.iter().flat_map(|(_, line)| line.iter().copied());
    if all().next().is_none() {
        return Ok(());
    }
    let frame = Frame {
        x: Axis::around(all().map(|point| point.0), true),
        y: Axis::around(all().map(|point| point.1), true),
        right: SIZE.0 - 250,
    };
    let titles = ["Building: lower is better", "keys (logarithmic)", "ns of CPU time per key (logarithmic)"];
    frame.draw(root, titles, [millions, plain])?;
    lines.sort_by_key(|(row, _)| is_ours(row));
    let ends: Vec<_> =
        lines.iter().map(|(_, line)| line.last().map_or((0.0, 0.0), |&(n, ns)| frame.at(n, ns))).collect();
    let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
    let heights = labels::spread(&wanted, LABEL * 1.15, f64::from(TOP), f64::from(SIZE.1 - BOTTOM));
    for (((row, line), &end), &height) in lines.iter().zip(&ends).zip(&heights) {
        let style = if is_ours(row) { OURS.stroke_width(3) } else { THEIRS.stroke_width(1) };
        let pixels: Vec<_> = line.iter().map(|&(n, ns)| pixel(frame.at(n, ns))).collect();
        for &at in &pixels {
            root.draw(&Circle::new(at, 2, colour(row).filled()))?;
        }
        root.draw(&PathElement::new(pixels, style))?;
        let left = f64::from(frame.right) + 26.0;
        root.draw(&PathElement::new([pixel((end.0 + 4.0, end.1)), pixel((left - 3.0, height))], GRID))?;
        let font = ("sans-serif", LABEL).into_font().color(&colour(row)).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(short_name(&row.filter), pixel((left, height)), font))?;
    }
    Ok(())
}

fn plain(value: f64) -> String {
    // The decimals that a tick of 1, 2, 3 or 5 times a power of ten needs.
    let decimals = if value >= 1.0 || value <= 0.0 { 0.0 } else { (-value.log10() - 1e-9).ceil() };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few")]
    let decimals = decimals as usize;
    format!("{value:.decimals$}")
}

fn millions(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.0} M", value / 1e6),
        value if value >= 1e3 => format!("{:.0} k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

/// Rates as fractions.
fn short_name(filter: &str) -> String {
    let Some((kind, rate)) = filter.split_once(":fpr=") else { return filter.into() };
    let (rate, rest) = rate.split_once(' ').map_or((rate, String::new()), |(rate, rest)| (rate, format!(" {rest}")));
    match rate.parse::<f64>() {
        Ok(share) if share >= 0.01 => format!("{kind} {} %{rest}", plain(share * 100.0)),
        Ok(share) => format!("{kind} 1/{:.0}{rest}", 1.0 / share),
        Err(_) => filter.into(),
    }
}
