//! The latency distribution of absent keys, with and without filters, as an SVG picture.

use hdrhistogram::Histogram;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::series::DashedLineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::failure::{Failure, Outcome};

/// Pixels of the picture, without the legend.
const SIZE: (u32, u32) = (900, 520);
/// Left edge of title and legend, and what stays free on the right.
const EDGES: (i32, i32) = (86, 20);
const TITLE_HEIGHT: i32 = 42;
/// Of one line of the legend.
const LEGEND_HEIGHT: i32 = 22;
/// Two labels of the latency axis are at least so far apart: enough for "1.05 ms".
const LABEL_WIDTH: f64 = 66.0;
/// Where labels of the latency axis may stand in each power of ten; the densest of these that
/// leaves room is taken.
const TICKS: [&[f64]; 8] = [
    &[
        1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0, 2.2, 2.4, 2.6, 2.8, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0,
        8.0, 9.0,
    ],
    &[1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    &[1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
    &[1.0, 2.0, 3.0, 5.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 3.0],
    &[1.0],
];
/// Latencies beyond this quantile are scheduling, not reading; they would squeeze the rest of the
/// axis.
const SHOWN_QUANTILE: f64 = 0.995;
/// Told apart also without colour vision (Okabe and Ito, "Color universal design", 2008).
const UNFILTERED: RGBColor = RGBColor(90, 90, 90);
pub const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];
/// Pixels of a dash and of the gap behind it; when all colours are used, they come again with the
/// next dash.
const DASHES: [Option<(i32, i32)>; 3] = [None, Some((9, 4)), Some((2, 4))];

/// One line of the picture.
#[derive(Debug)]
pub struct Curve {
    pub label: String,
    pub filters_consulted: bool,
    /// Latencies in ns.
    pub latencies: Histogram<u64>,
}

impl Curve {
    /// Latency in ns against the share of gets that took no longer.
    fn points(&self) -> Vec<(f64, f64)> {
        let total = self.latencies.len().max(1) as f64;
        let mut points = Vec::new();
        let mut below = 0.0;
        for step in self.latencies.iter_recorded() {
            let latency = step.value_iterated_to().max(1) as f64;
            // Draw a step. A sloped line would show latencies that were not measured.
            points.push((latency, below * 100.0));
            below += step.count_since_last_iteration() as f64 / total;
            points.push((latency, below * 100.0));
        }
        points
    }
}

/// Draws the curves as an SVG document.
pub fn draw(title: &str, curves: &[Curve]) -> Outcome<String> {
    let mut svg = String::new();
    draw_into(&mut svg, title, curves).map_err(|error| Failure::Message(format!("drawing the plot: {error}")))?;
    Ok(svg)
}

/// A chart whose horizontal axis is the decimal logarithm of the latency in ns.
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn draw_into(svg: &mut String, title: &str, curves: &[Curve]) -> Drawn {
    let styled = styled(curves);
    let entries = legend(&styled);
    let head_height = TITLE_HEIGHT + LEGEND_HEIGHT * entries.last().map_or(0, |entry| entry.line + 1);
    let (width, height) = SIZE;
    let root = SVGBackend::with_string(svg, (width, height + head_height.unsigned_abs())).into_drawing_area();
    root.fill(&WHITE)?;
    let shown = |curve: &Curve| curve.latencies.value_at_quantile(SHOWN_QUANTILE).max(2);
    let fastest = curves.iter().map(|curve| curve.latencies.min().max(1)).min().unwrap_or(10);
    let slowest = curves.iter().map(shown).max().unwrap_or(1_000).max(fastest);
    let range = (fastest as f64 * 0.9).log10()..(slowest as f64 * 1.3).log10();
    let (_, body) = root.split_vertically(head_height);
    let mut chart = ChartBuilder::on(&body)
        .margin(14)
        .margin_right(30)
        .x_label_area_size(52)
        .y_label_area_size(72)
        .build_cartesian_2d(range.clone(), 0.0..100.0)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .x_desc("latency of one get, a clock reading included (logarithmic)")
        .y_max_light_lines(0)
        .y_desc("share of gets that took no longer")
        .y_label_formatter(&|share| format!("{share:.0} %"))
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 16))
        .bold_line_style(RGBColor(215, 215, 215))
        .draw()?;
    draw_latency_axis(&root, &mut chart, range.clone())?;
    root.draw(&Text::new(title, (EDGES.0, 16), ("sans-serif", 20)))?;
    for (styled, entry) in styled.iter().zip(&entries) {
        let points = styled.curve.points().into_iter().map(|(latency, share)| (latency.log10(), share));
        let points = points.filter(|(latency, _)| range.contains(latency));
        let y = TITLE_HEIGHT + LEGEND_HEIGHT * entry.line + LEGEND_HEIGHT / 2;
        let line = [(entry.x, y), (entry.x + 28, y)];
        match styled.dash {
            None => {
                chart.draw_series(LineSeries::new(points, styled.style))?;
                root.draw(&PathElement::new(line, styled.style.stroke_width(3)))?;
            }
            Some((dash, gap)) => {
                chart.draw_series(DashedLineSeries::new(points, dash, gap, styled.style))?;
                root.draw(&plotters::element::DashedPathElement::new(line, dash, gap, styled.style.stroke_width(3)))?;
            }
        }
        root.draw(&Text::new(styled.curve.label.as_str(), (entry.x + 35, y - 8), ("sans-serif", 15)))?;
    }
    root.present()?;
    Ok(())
}

/// Lines and labels at round latencies, as many as have room.
fn draw_latency_axis(
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    chart: &mut Chart<'_, '_>,
    range: std::ops::Range<f64>,
) -> Drawn {
    let (pixels, _) = chart.plotting_area().dim_in_pixel();
    let centred = TextStyle::from(("sans-serif", 15)).pos(Pos::new(HPos::Center, VPos::Top));
    for latency in ticks(&range, pixels.into()) {
        let at = latency.log10();
        chart.draw_series([PathElement::new([(at, 0.0), (at, 100.0)], RGBColor(215, 215, 215))])?;
        let (x, y) = chart.backend_coord(&(at, 0.0));
        root.draw(&Text::new(duration(latency), (x, y + 8), centred.clone()))?;
    }
    Ok(())
}

/// Round latencies in a range of logarithms that is drawn so many pixels wide.
fn ticks(range: &std::ops::Range<f64>, pixels: f64) -> Vec<f64> {
    let within = |mantissas: &[f64]| -> Vec<f64> {
        // Eleven powers of ten: from 1 ns to a minute.
        let all = (0..=11).flat_map(|power| mantissas.iter().map(move |mantissa| mantissa * 10f64.powi(power)));
        all.filter(|latency| range.contains(&latency.log10())).collect()
    };
    let width = |from: f64, to: f64| (to / from).log10() / (range.end - range.start) * pixels;
    let fits =
        |ticks: &Vec<f64>| ticks.iter().zip(ticks.iter().skip(1)).all(|(from, to)| width(*from, *to) >= LABEL_WIDTH);
    TICKS.iter().map(|mantissas| within(mantissas)).find(fits).unwrap_or_default()
}

/// A curve and how it is drawn.
struct Styled<'a> {
    curve: &'a Curve,
    style: ShapeStyle,
    dash: Option<(i32, i32)>,
}

/// The filters first, each with a colour or dash of its own; in grey, what it is without them.
fn styled(curves: &[Curve]) -> Vec<Styled<'_>> {
    let mut looks = DASHES.iter().flat_map(|dash| COLOURS.iter().map(move |colour| (*colour, *dash))).cycle();
    let (filtered, unfiltered): (Vec<_>, Vec<_>) = curves.iter().partition(|curve| curve.filters_consulted);
    let filtered = filtered.into_iter().map(|curve| (curve, looks.next().unwrap_or((UNFILTERED, None))));
    let unfiltered = unfiltered.into_iter().map(|curve| (curve, (UNFILTERED, None)));
    let all: Vec<_> = filtered.collect();
    let styled = |(curve, (colour, dash)): (_, (RGBColor, _))| Styled { curve, style: colour.stroke_width(2), dash };
    all.into_iter().chain(unfiltered).map(styled).collect()
}

/// Where an entry of the legend begins.
struct Entry {
    x: i32,
    line: i32,
}

/// Entries side by side, in as many lines as they need.
fn legend(curves: &[Styled<'_>]) -> Vec<Entry> {
    let end = i32::try_from(SIZE.0).unwrap_or(i32::MAX) - EDGES.1;
    let (mut x, mut line) = (EDGES.0, 0);
    let mut entries = Vec::new();
    for styled in curves {
        // SVG leaves fonts to the reader: eight pixels a letter are enough for all common ones.
        let width = 35 + 8 * i32::try_from(styled.curve.label.chars().count()).unwrap_or(0);
        if x + width > end && x > EDGES.0 {
            (x, line) = (EDGES.0, line + 1);
        }
        entries.push(Entry { x, line });
        x += width + 24;
    }
    entries
}

/// A label of the latency axis.
fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "µs"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plot_names_its_axes_and_every_curve() {
        let mut latencies = Histogram::new(3).unwrap();
        (50..5_000).for_each(|ns| latencies.record(ns).unwrap());
        let curve = |label: &str, filters_consulted| Curve {
            label: label.into(),
            filters_consulted,
            latencies: latencies.clone(),
        };
        let svg = draw("Absent keys", &[curve("no filters", false), curve("bloom:10", true)]).unwrap();
        for text in ["<svg", "Absent keys", "no filters", "bloom:10", "logarithmic", "share of gets"] {
            assert!(svg.contains(text), "{text} is missing");
        }
    }

    #[test]
    fn a_plot_of_nothing_is_still_a_picture() {
        let curve = Curve { label: "none".into(), filters_consulted: true, latencies: Histogram::new(3).unwrap() };
        assert!(draw("Nothing", &[curve]).unwrap().contains("</svg>"));
        assert!(draw("Nothing", &[]).unwrap().contains("</svg>"));
    }

    #[test]
    fn labels_of_the_latency_axis_never_overlap_or_vanish() {
        for start in [1.0, 93.0, 450.0, 8_000.0, 1.2e6] {
            for factor in [1.5, 2.0, 3.7, 10.0, 100.0, 1e4, 1e7] {
                let range = f64::log10(start)..f64::log10(start * factor);
                let ticks = ticks(&range, 780.0);
                assert!(!ticks.is_empty(), "{start} {factor}");
                let width = |pair: &[f64]| (pair[1] / pair[0]).log10() / factor.log10() * 780.0;
                assert!(ticks.windows(2).all(|pair| width(pair) >= LABEL_WIDTH), "{start} {factor}: {ticks:?}");
            }
        }
    }

    #[test]
    fn a_long_legend_takes_more_lines_and_ends_with_no_filters() {
        let curve = |i: usize| Curve {
            label: format!("blocked-bloom:fpr=0.0{i}"),
            filters_consulted: i != 0,
            latencies: Histogram::new(3).unwrap(),
        };
        let curves: Vec<_> = (0..9).map(curve).collect();
        let styled = styled(&curves);
        assert!(!styled.last().unwrap().curve.filters_consulted);
        let looks: std::collections::HashSet<_> =
            styled.iter().map(|styled| (styled.style.color.rgb(), styled.dash)).collect();
        assert_eq!(looks.len(), 9, "every curve looks different");
        let entries = legend(&styled);
        assert!(entries.last().unwrap().line >= 2 && entries.iter().all(|entry| entry.x < 720));
    }
}
