//! Draws the pictures: space and query time, false-positive rate and bits per key, and build times.

use charts::bars::{Bar, Bars, Group};
use charts::frame::{Axis, Frame, plain};
use charts::picture::{Anchor, Picture, Stroke, text_width};
use charts::scatter::{self, Mark, Point};
use charts::text::{short, thousands};
use charts::theme::Colour;

use crate::ours;
use crate::record::Row;
use crate::rocksdb;
use crate::run::SAME_RATE;

const HEIGHT: f64 = 500.0;
const OURS: Colour = Colour::Series(0);
const THEIRS: Colour = Colour::Series(1);
/// The number of keys in the filters that are drawn. If a record lacks this number, the pictures
/// show the record's largest filters.
const SHOWN_N: usize = 1_000_000;
/// Filters so near to another filter in a scatter plot that the two labels would cover each other.
/// The scatter plots leave these filters out.
const TWINS: [&str; 9] = [
    "blocked-bloom:fpr=0.01",
    "split-block-512:10",
    "bumped-ribbon:fpr=0.00390625:compact",
    "fastbloom:fpr=0.01",
    "sbbf-rs-safe:11",
    "xorf BinaryFuse16",
    "qfilter:fpr=0.0039",
    "pleat Ribbon<7>",
    "pleat StdRibbon<8>",
];
/// Filters whose FPR and space nearly equal those of another filter. The picture of FPRs leaves
/// them out.
const SAME_DESIGN: [&str; 7] = [
    "ribbon:fpr=0.00390625",
    "fastbloom:10",
    "lsm-tree:10",
    "pleat Ribbon<8>",
    "sbbf-rs-safe:10",
    "sux VFilter 8 bits",
    "xorf BinaryFuse8",
];
/// The maximum number of bits per key of a filter in a scatter plot. A filter with more would
/// squeeze all others.
const MOST_BITS: f64 = 24.0;

/// Draws all pictures. Returns the name and the content of each file.
pub fn all(rows: &[Row]) -> Vec<(&'static str, String)> {
    vec![
        ("filters-space.svg", space_picture(rows)),
        ("filters-rate.svg", rate_picture(rows)),
        ("filters-build.svg", build_picture(rows)),
    ]
}

fn is_ours(row: &Row) -> bool {
    row.krate == "filterblock"
}

fn colour(row: &Row) -> Colour {
    if is_ours(row) { OURS } else { THEIRS }
}

/// Returns the number of keys in the filters that are drawn, and the same number as a text.
fn shown_n(rows: &[Row]) -> (usize, String) {
    let sizes = || rows.iter().filter(|row| row.filters_asked == 1).map(|row| row.n);
    let n = if sizes().any(|n| n == SHOWN_N) { SHOWN_N } else { sizes().max().unwrap_or(0) };
    (n, thousands(n))
}

/// Returns one row of each filter that a picture may show, with [`shown_n`] keys.
fn filters(rows: &[Row]) -> Vec<&Row> {
    let (n, _) = shown_n(rows);
    let mut found: Vec<&Row> = Vec::new();
    for row in rows {
        let is_wanted = row.n == n
            && row.filters_asked == 1
            && row.krate != "none"
            && row.krate != rocksdb::READER
            && !row.filter.starts_with(SAME_RATE)
            && !ours::is_extra(&row.filter);
        if is_wanted && found.iter().all(|before| before.filter != row.filter) {
            found.push(row);
        }
    }
    found
}

/// Returns the rows of the scatter plots: single queries for absent keys by hash.
fn scattered(rows: &[Row]) -> Vec<&Row> {
    let of = |filter: &str, n: usize| {
        rows.iter().find(|row| {
            (row.filter.as_str(), row.n, row.filters_asked) == (filter, n, 1)
                && (row.key_form.as_str(), row.mix.as_str(), row.mode.as_str()) == ("hash", "negative", "single")
        })
    };
    let found = filters(rows).into_iter().filter_map(|row| of(&row.filter, row.n));
    // With too few questions, the measured FPR can be 0, or so low that the overhead is at most 0.
    // A logarithmic axis has no place for such values.
    let is_drawn = |row: &&Row| {
        row.overhead_bare.is_some_and(|overhead| overhead > 0.0)
            && row.rate.is_some_and(|rate| rate > 0.0)
            && bits(row) <= MOST_BITS
            && !TWINS.contains(&row.filter.as_str())
    };
    found.filter(is_drawn).collect()
}

fn bits(row: &Row) -> f64 {
    row.bits_per_key_bare.unwrap_or(0.0)
}

fn point(row: &Row, x: f64, y: f64) -> Point {
    let mark = if is_ours(row) { Mark::Dot } else { Mark::Ring };
    Point { label: short_name(&row.filter), values: (x, y), mark, colour: colour(row) }
}

/// Returns the frame of a scatter plot with room for its points.
fn frame(points: &[Point], x_title: &str, x_is_logarithmic: bool, y_title: &str) -> Frame {
    let x = Axis::around(x_title, points.iter().map(|point| point.values.0), x_is_logarithmic);
    let y = Axis::around(y_title, points.iter().map(|point| point.values.1), true);
    Frame::new(x, y, HEIGHT, 24.0)
}

/// Draws the legend of dots and rings above the axes, at the right.
fn legend(picture: &mut Picture, frame: &Frame) {
    let y = frame.top - 17.0;
    picture.dot((frame.right - 196.0, y), 5.0, OURS);
    picture.text("filterblock", (frame.right - 186.0, y), Anchor::Start, OURS);
    picture.ring((frame.right - 96.0, y), 4.0, THEIRS);
    picture.text("other crates", (frame.right - 87.0, y), Anchor::Start, THEIRS);
}

fn space_picture(rows: &[Row]) -> String {
    let found = scattered(rows);
    let points = found.iter().map(|row| point(row, row.ns_min, row.overhead_bare.unwrap_or(1.0) * 100.0));
    let points: Vec<_> = points.collect();
    let frame = frame(
        &points,
        "ns of CPU time for an absent key whose hash is known (logarithmic)",
        true,
        "% more bits than the FPR lower bound (logarithmic)",
    );
    let (_, n) = shown_n(rows);
    let mut picture = Picture::new(
        HEIGHT,
        "Space and query time of filters",
        &format!("{n} keys in one filter; lower left is better; the bound is log2(1/FPR) bits per key"),
        "Scatter plot of filters. Bumped ribbons take the least space at medium query times. Split blocks and blocked \
         Bloom filters are the fastest and take about half as much again as the bound.",
    );
    frame.draw(&mut picture);
    legend(&mut picture, &frame);
    scatter::draw(&mut picture, &frame, &points, &[]);
    picture.finish()
}

fn rate_picture(rows: &[Row]) -> String {
    let mut found = scattered(rows);
    found.retain(|row| !SAME_DESIGN.contains(&row.filter.as_str()));
    let points: Vec<_> = found.iter().map(|row| point(row, bits(row), row.rate.unwrap_or(1.0) * 100.0)).collect();
    let frame = frame(&points, "bits per key", false, "false-positive rate, % (logarithmic)");
    let (_, n) = shown_n(rows);
    let mut picture = Picture::new(
        HEIGHT,
        "False-positive rate and space of filters",
        &format!("{n} keys in one filter; lower left is better; no filter can lie in the shaded area"),
        "Scatter plot of filters between two lines: the lower bound for any filter, and the best Bloom filter. Bumped \
         ribbons lie next to the bound, Bloom filters on their line, other filters between the two or above.",
    );
    let (lower, bloom) = (curve(&frame, 1.0), curve(&frame, std::f64::consts::LN_2));
    let corner = frame.at((frame.x.from, frame.y.from));
    let mut avoid = Vec::new();
    if let Some([from, to]) = lower {
        picture.area(&[corner, (corner.0, from.1), from, to, (to.0, corner.1)], Colour::Faint);
    }
    frame.draw(&mut picture);
    legend(&mut picture, &frame);
    let mut note = |picture: &mut Picture, text: &str, at: (f64, f64)| {
        picture.text(text, at, Anchor::Start, Colour::Faint);
        avoid.push(scatter::box_of(text, at, false));
    };
    if let Some(ends) = lower {
        picture.line(&ends, Stroke::Solid, Colour::Faint);
        let left = frame.left + 10.0;
        note(&mut picture, "impossible: below the", (left, frame.bottom - 34.0));
        note(&mut picture, "FPR lower bound 2^-bits", (left, frame.bottom - 18.0));
    }
    if let Some([from, to]) = bloom {
        picture.line(&[from, to], Stroke::Dashed, Colour::Faint);
        let (x, y) = (from.0 + (to.0 - from.0) * 0.6, from.1 + (to.1 - from.1) * 0.6);
        let name = "best Bloom filter: 0.6185^bits";
        note(&mut picture, name, ((x + 10.0).min(frame.right - text_width(name)), y - 8.0));
    }
    // Labels must not hide the lines.
    avoid.extend([lower, bloom].into_iter().flatten().flat_map(|[from, to]| scatter::along(from, to)));
    scatter::draw(&mut picture, &frame, &points, &avoid);
    picture.finish()
}

/// Returns the points at which the line of FPRs `2^-(efficiency * bits)` enters and leaves the
/// frame, or `None` if it passes outside. The line is straight, because one axis is logarithmic.
fn curve(frame: &Frame, efficiency: f64) -> Option<[(f64, f64); 2]> {
    let rate = |bits: f64| 100.0 * (-bits * efficiency).exp2();
    let bits = |rate: f64| -(rate / 100.0).log2() / efficiency;
    let ends = [frame.x.from.max(bits(frame.y.to)), frame.x.to.min(bits(frame.y.from))];
    (ends[0] < ends[1]).then(|| ends.map(|bits| frame.at((bits, rate(bits)))))
}

fn build_picture(rows: &[Row]) -> String {
    let group = |heading: &str, wanted: &dyn Fn(&Row) -> bool| {
        let mut bars: Vec<Bar> = filters(rows)
            .into_iter()
            .filter(|row| wanted(row))
            .filter_map(|row| {
                let value = row.build_ns?;
                let own = if row.build_form == "key" { " (hashes keys)" } else { "" };
                let label = format!("{}{own}", short_name(&row.filter));
                Some(Bar::new(label, value, short(value), colour(row)))
            })
            .collect();
        bars.sort_by(|one, other| one.value.total_cmp(&other.value));
        Group { heading: heading.into(), bars }
    };
    let groups = vec![group("filterblock", &is_ours), group("other crates", &|row: &Row| !is_ours(row))];
    let slowest = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(1.0, f64::max);
    let (_, n) = shown_n(rows);
    Bars {
        title: "Build time of filters".into(),
        subtitle: format!("{n} keys in one filter, from hashes unless noted; shorter is better"),
        description:
            "Bars of the build times per key of the filters of this crate and of other crates. Split blocks of \
                      other crates are the fastest, then Bloom filters; ribbons and xor filters take the longest."
                .into(),
        axis: Axis::from_zero("ns of CPU time per key".into(), slowest),
        legend: vec![("filterblock".into(), OURS), ("other crates".into(), THEIRS)],
        groups,
        caption: "Bars of filters that start threads count the CPU time of all threads.".into(),
    }
    .svg()
}

/// Returns the name of a filter with its FPR as a percentage or a fraction.
fn short_name(filter: &str) -> String {
    let Some((kind, rate)) = filter.split_once(":fpr=") else { return filter.into() };
    let end = rate.find([' ', ':']).unwrap_or(rate.len());
    let (rate, rest) = rate.split_at(end);
    match rate.parse::<f64>() {
        Ok(share) if share >= 0.01 => format!("{kind} {} %{rest}", plain(share * 100.0)),
        Ok(share) => format!("{kind} 1/{:.0}{rest}", 1.0 / share),
        Err(_) => filter.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use charts::check;

    fn recorded() -> Vec<Row> {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/peers.csv");
        filterblock_testkit::measure::csv_file::read(&path).unwrap().1
    }

    #[test]
    fn pictures_of_the_record_are_readable() {
        for (name, svg) in all(&recorded()) {
            println!("{name}");
            check::is_readable(&svg);
            for text in ["blocked-bloom:10", "bumped-ribbon 1/256", "cuckoofilter", "1,000,000 keys"] {
                assert!(svg.contains(text), "{name}: {text}");
            }
        }
    }

    #[test]
    fn a_record_of_one_filter_is_drawn_too() {
        let rows: Vec<Row> = recorded().into_iter().filter(|row| row.filter == "bloom:10" && row.n < 5_000).collect();
        for rows in [&rows[..], &[]] {
            for (name, svg) in all(rows) {
                println!("{name}");
                check::is_readable(&svg);
            }
        }
    }

    #[test]
    fn rates_are_written_as_per_cent_or_fraction() {
        let cases = [
            ("bumped-ribbon:fpr=0.00390625:compact", "bumped-ribbon 1/256:compact"),
            ("fastbloom:fpr=0.01 own hash", "fastbloom 1 % own hash"),
            ("bloom:10", "bloom:10"),
        ];
        for (filter, name) in cases {
            assert_eq!(short_name(filter), name);
        }
    }
}
