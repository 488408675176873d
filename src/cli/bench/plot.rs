//! The latency distribution of absent keys, with and without filters, as an SVG picture.

use hdrhistogram::Histogram;
use plotters::prelude::*;

use super::super::failure::{Failure, Outcome};

/// Pixels of the picture.
const SIZE: (u32, u32) = (900, 540);
/// Of these, what title and legend take at the top.
const HEAD: i32 = 76;
/// Latencies beyond this quantile are scheduling, not reading; they would squeeze the rest of the axis.
const SHOWN_QUANTILE: f64 = 0.995;
/// Told apart also without colour vision (Okabe and Ito, "Color universal design", 2008); the first is for no filter.
const COLOURS: [RGBColor; 5] =
    [RGBColor(90, 90, 90), RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];

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
            // A step, so that the line does not promise latencies that nobody saw.
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

fn draw_into(svg: &mut String, title: &str, curves: &[Curve]) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let shown = |curve: &Curve| curve.latencies.value_at_quantile(SHOWN_QUANTILE).max(2);
    let fastest = curves.iter().map(|curve| curve.latencies.min().max(1)).min().unwrap_or(10);
    let slowest = curves.iter().map(shown).max().unwrap_or(1_000);
    let range = (fastest as f64 * 0.9)..(slowest as f64 * 1.3);
    let (head, body) = root.split_vertically(HEAD);
    let mut chart = ChartBuilder::on(&body)
        .margin(14)
        .margin_right(30)
        .x_label_area_size(52)
        .y_label_area_size(72)
        .build_cartesian_2d(range.clone().log_scale(), 0.0..100.0)?;
    chart
        .configure_mesh()
        .x_desc("latency of one get, a clock reading included (logarithmic)")
        .y_max_light_lines(0)
        .y_desc("share of gets that took no longer")
        .x_label_formatter(&|ns| duration(*ns))
        .y_label_formatter(&|share| format!("{share:.0} %"))
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 16))
        .light_line_style(RGBColor(240, 240, 240))
        .bold_line_style(RGBColor(215, 215, 215))
        .draw()?;
    head.draw(&Text::new(title, (86, 16), ("sans-serif", 20)))?;
    let mut legend_x = 86;
    for (curve, style) in curves.iter().zip(styles(curves)) {
        let points = curve.points().into_iter().filter(|(latency, _)| range.contains(latency));
        chart.draw_series(LineSeries::new(points, style))?;
        let y = HEAD - 18;
        head.draw(&PathElement::new([(legend_x, y), (legend_x + 24, y)], style.stroke_width(3)))?;
        head.draw(&Text::new(curve.label.as_str(), (legend_x + 31, y - 8), ("sans-serif", 15)))?;
        // SVG leaves fonts to the reader: eight pixels a letter are enough for all common ones.
        legend_x += 62 + 8 * i32::try_from(curve.label.chars().count()).unwrap_or(0);
    }
    root.present()?;
    Ok(())
}

/// A colour for each curve; grey is for what is without filters.
fn styles(curves: &[Curve]) -> impl Iterator<Item = ShapeStyle> {
    let [unfiltered, filtered @ ..] = &COLOURS;
    let mut filtered = filtered.iter().cycle();
    curves.iter().map(move |curve| {
        let colour = if curve.filters_consulted { filtered.next() } else { None };
        colour.unwrap_or(unfiltered).stroke_width(2)
    })
}

/// A label of the latency axis.
fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "µs"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", (value * 10.0).round() / 10.0)
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
}
