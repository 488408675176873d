//! Draws the pictures of a plan: the formulas of Bloom filters, and the space that each kind of
//! filter takes.

use crate::prelude::*;
use charts::frame::{Axis, Frame, spread};
use charts::picture::{Anchor, Picture, Stroke, TEXT_SIZE, text_width};
use charts::text::whole;
use charts::theme::Colour;
use filterblock::planning::{Plan, best_probes, classical_fpr, fpr_exponent, simplified_fpr};
use filterblock::{FilterKind, FilterSpec};
use filterblock_report::PLANNED_KINDS;

const HEIGHT: f64 = 420.0;
/// The number of intervals between the points of a curve.
const POINTS: u32 = 200;

/// Returns the name and the content of each file. `num_keys` applies to the last picture only.
pub fn all(num_keys: u64) -> Vec<(&'static str, String)> {
    vec![
        ("plan-rate-by-probes.svg", rate_by_probes()),
        ("plan-exponent.svg", exponent()),
        ("plan-rate-by-keys.svg", rate_by_keys()),
        ("plan-space-by-rate.svg", space_by_rate(num_keys)),
    ]
}

/// Formats a power of ten: like `0.0001` from 0.0001 on, and like `1e-5` below.
fn power_of_ten(power: f64) -> String {
    if power < 1e-4 { format!("1e{:.0}", power.log10()) } else { power.to_string() }
}

/// Returns `POINTS + 1` evenly spaced numbers from 0 to 1.
fn steps() -> impl Iterator<Item = f64> + Clone {
    (0..=POINTS).map(|step| f64::from(step) / f64::from(POINTS))
}

/// The number of bits of the filter in [`rate_by_probes`]. With so few bits, [`classical_fpr`] and
/// [`simplified_fpr`] differ visibly.
const FEW_BITS: u64 = 20;
const MOST_PROBES: u32 = 20;

/// Draws the false-positive rate (FPR) against the number of probes, for several numbers of keys.
fn rate_by_probes() -> String {
    let labels = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0].map(|rate| (rate, rate.to_string()));
    let x = Axis {
        title: "probes of a query (k)".into(),
        from: 0.5,
        to: f64::from(MOST_PROBES) + 0.5,
        is_logarithmic: false,
        labels: (2..=MOST_PROBES).step_by(2).map(|probes| (f64::from(probes), probes.to_string())).collect(),
    };
    let title = "false-positive rate (logarithmic)".to_owned();
    let y = Axis { title, from: 0.005, to: 1.0, is_logarithmic: true, labels: labels.into() };
    let frame = Frame::new(x, y, HEIGHT, 190.0);
    let subtitle =
        format!("A Bloom filter of m = {FEW_BITS} bits with n keys; a large circle marks the best number of probes");
    let mut picture = Picture::new(
        HEIGHT,
        "Too few probes and too many",
        &subtitle,
        "False-positive rate of a Bloom filter of 20 bits against the number of probes, for 2, 4 and 8 keys, by the \
         classical and the simplified formula. The rate falls to a minimum and rises again. Fewer keys need more probes.",
    );
    frame.draw(&mut picture);
    let mut ends = Vec::new();
    for (keys, colour) in [8, 4, 2].into_iter().zip((0..).map(Colour::Series)) {
        let classical = |probes| classical_fpr(keys, FEW_BITS, probes);
        let best = (1..=MOST_PROBES).min_by(|&one, &other| classical(one).total_cmp(&classical(other))).unwrap_or(1);
        for probes in 1..=MOST_PROBES {
            let x = f64::from(probes);
            picture.ring(frame.at((x, simplified_fpr(keys, FEW_BITS, probes))), 3.0, colour);
        }
        picture.ring(frame.at((f64::from(best), classical(best))), 9.0, colour);
        for probes in 1..=MOST_PROBES {
            picture.dot(frame.at((f64::from(probes), classical(probes))), 3.5, colour);
        }
        let word = if best == 1 { "probe" } else { "probes" };
        ends.push((classical(MOST_PROBES), format!("n = {keys}: best {best} {word}"), colour));
    }
    frame.label_right_ends(&mut picture, &ends);
    let left = frame.right + 18.0;
    let legend = [("classical:", "(1 - (1 - 1/m)^(kn))^k"), ("simplified:", "(1 - e^(-kn/m))^k")];
    for (number, ((name, formula), top)) in legend.into_iter().zip([300.0, 342.0]).enumerate() {
        let mark = (left + 4.0, top);
        if number == 0 {
            picture.dot(mark, 3.5, Colour::Ink);
        } else {
            picture.ring(mark, 3.0, Colour::Ink);
        }
        picture.text(name, (left + 14.0, top), Anchor::Start, Colour::Ink);
        picture.text(formula, (left, top + 17.0), Anchor::Start, Colour::Ink);
    }
    picture.finish()
}

/// Draws the natural logarithm of the FPR against the share of bits that stay 0.
fn exponent() -> String {
    let share = |tenth: u32| f64::from(tenth) / 10.0;
    let x = Axis {
        title: "share of the bits that stay 0 (p)".into(),
        from: 0.0,
        to: 1.0,
        is_logarithmic: false,
        labels: (0..=10).map(|tenth| (share(tenth), share(tenth).to_string())).collect(),
    };
    let y = Axis {
        title: "g(p), the natural logarithm of the false-positive rate".into(),
        from: -9.0,
        to: 0.0,
        is_logarithmic: false,
        labels: (-9..=0).map(|g| (f64::from(g), g.to_string())).collect(),
    };
    let frame = Frame::new(x, y, HEIGHT, 24.0);
    let mut picture = Picture::new(
        HEIGHT,
        "A Bloom filter is best with half of its bits set",
        "A Bloom filter of m/n bits per key has the false-positive rate e^g(p), with g(p) = -(m/n) ln p ln(1 - p)",
        "Exponent of the false-positive rate against the share of bits that stay 0, for 4, 8, 12 and 16 bits per key. \
         Each curve is lowest at one half.",
    );
    frame.draw(&mut picture);
    for (bits, colour) in [4, 8, 12, 16].into_iter().zip((0..).map(Colour::Series)) {
        let g = |share: f64| fpr_exponent(share, f64::from(bits));
        let inner = steps().filter(|share| (0.0..1.0).contains(share) && *share > 0.0);
        let points: Vec<(f64, f64)> = inner.map(|share| (share, g(share))).collect();
        frame.draw_line(&mut picture, &points, Stroke::Solid, colour);
        let (x, y) = frame.at((0.5, g(0.5)));
        picture.dot((x, y), 4.0, colour);
        let label = format!("{bits} bits per key: rate {}", percent(g(0.5).exp()));
        picture.text(&label, (x, y + 14.0), Anchor::Middle, colour);
    }
    picture.finish()
}

/// The sizes of the filters in [`rate_by_keys`], as binary logarithms of their number of bits.
const SIZES: [u32; 6] = [12, 16, 20, 24, 28, 32];

/// Draws the FPR against the number of keys, with the best whole number of probes, for filters of
/// several sizes.
fn rate_by_keys() -> String {
    const LEAST_RATE: f64 = 1e-6;
    const POWERS: (f64, f64) = (2.0, 10.0);
    let (least, most) = (10f64.powf(POWERS.0), 10f64.powf(POWERS.1));
    let keys_label = |power: f64| match power {
        power if power >= 1e9 => format!("{} G", power / 1e9),
        power if power >= 1e6 => format!("{} M", power / 1e6),
        power => thousands(whole(power)),
    };
    let x = Axis::decades("keys (logarithmic)".into(), least, most, keys_label);
    let y = Axis::decades("false-positive rate (logarithmic)".into(), LEAST_RATE, 1.0, power_of_ten);
    let frame = Frame::new(x, y, HEIGHT, 24.0);
    let mut picture = Picture::new(
        HEIGHT,
        "A filter of fixed size fills up",
        "False-positive rate of a Bloom filter with the best number of probes for each number of keys",
        "False-positive rate against the number of keys for Bloom filters of 512 bytes to 512 mebibytes. Each rate \
         rises from a millionth to nearly 1 while the number of keys grows by a factor of about 100.",
    );
    frame.draw(&mut picture);
    for (log2, colour) in SIZES.into_iter().zip((0..).map(Colour::Series)) {
        let bits = 1u64 << log2;
        let rate = |keys: u64| simplified_fpr(keys, bits, best_probes(keys, bits));
        let exponents = steps().map(|share| POWERS.0 + share * (POWERS.1 - POWERS.0));
        let mut keys: Vec<u64> = exponents.map(|power| whole(10f64.powf(power))).collect();
        // The curve is steep from `begin` on, so this part gets additional points. Without them,
        // the curve would have visible corners.
        let begin = bits as f64 / 29.0;
        keys.extend(steps().map(|share| whole(begin * 30f64.powf(share))));
        keys.sort_unstable();
        keys.dedup();
        let points: Vec<(f64, f64)> = keys.into_iter().map(|keys| (keys as f64, rate(keys))).collect();
        frame.draw_line(&mut picture, &points, Stroke::Solid, colour);
        let foot = points.iter().copied().find(|&(_, rate)| rate >= LEAST_RATE * 2.0).unwrap_or((least, LEAST_RATE));
        let (foot, _) = frame.at(foot);
        let label = size(bits / 8);
        let (left, y) = (foot + 8.0, frame.bottom - 14.0);
        picture.bar((left - 1.0, y - 8.0), (left + text_width(&label), y + 8.0), Colour::Background);
        picture.bold_text(&label, (left, y), Anchor::Start, colour);
    }
    picture.finish()
}

/// Formats a number of bytes that is a power of two, with its unit.
fn size(bytes: u64) -> String {
    let fits = [(30, "GiB"), (20, "MiB"), (10, "KiB")].into_iter().find(|(shift, _)| bytes >> shift > 0);
    fits.map_or_else(|| format!("{bytes} B"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

/// Draws the bits per key of each kind against the FPR.
fn space_by_rate(num_keys: u64) -> String {
    const RATES: (f64, f64) = (0.1, 1e-6);
    const MOST_BITS: f64 = 60.0;
    let x = Axis {
        title: "false-positive rate (logarithmic)".into(),
        from: RATES.0,
        to: RATES.1,
        is_logarithmic: true,
        labels: Axis::powers_of_ten(RATES.0, RATES.1, power_of_ten),
    };
    let y = Axis {
        title: "bits per key, without checksums and trailer".into(),
        from: 0.0,
        to: MOST_BITS,
        is_logarithmic: false,
        labels: (0..=6).map(|step| (f64::from(10 * step), (10 * step).to_string())).collect(),
    };
    let frame = Frame::new(x, y, HEIGHT, 150.0);
    let mut picture = Picture::new(
        HEIGHT,
        "What a false-positive rate costs in space",
        &format!("{} in one filter; the shaded area lies below the FPR lower bound", count(num_keys, "key")),
        "Bits per key of each kind of filter against the false-positive rate, and the lower bound log2(1/FPR). With many \
         keys, bumped ribbons lie next to the bound, Bloom filters 44 % above it, blocked and split-block filters \
         higher.",
    );
    let rates = || steps().map(|share| RATES.0 * (RATES.1 / RATES.0).powf(share));
    let bound: Vec<(f64, f64)> = rates().map(|rate| (rate, (1.0 / rate).log2())).collect();
    let mut below: Vec<(f64, f64)> = bound.iter().map(|&point| frame.at(point)).collect();
    below.extend([frame.at((RATES.1, 0.0)), frame.at((RATES.0, 0.0))]);
    picture.area(&below, Colour::Faint);
    frame.draw(&mut picture);
    frame.draw_line(&mut picture, &bound, Stroke::Solid, Colour::Faint);
    let middle = frame.at((3e-5, 6.0));
    picture.text("impossible: below log2(1/FPR)", middle, Anchor::Middle, Colour::Faint);
    let (mut ends, mut early) = (Vec::new(), Vec::new());
    for (kind, colour) in PLANNED_KINDS.into_iter().zip((0..).map(Colour::Series)) {
        let bits = |rate: f64| {
            let plan = Plan::new(FilterSpec::false_positive_rate(kind, rate).ok()?, num_keys).ok()?;
            Some((rate, plan.bits_per_key()))
        };
        let points: Vec<(f64, f64)> = rates().filter_map(bits).filter(|&(_, bits)| bits <= MOST_BITS).collect();
        // Dashes leave the line of the bumped ribbon visible.
        let stroke = if kind == FilterKind::Ribbon { Stroke::Dashed } else { Stroke::Solid };
        frame.draw_line(&mut picture, &points, stroke, colour);
        let (Some(&(first_rate, first)), Some(&(rate, bits))) = (points.first(), points.last()) else { continue };
        if rate <= RATES.1 * 1.001 {
            ends.push((bits, kind.name().to_owned(), colour));
        } else if bits > MOST_BITS * 0.9 {
            ends.push((MOST_BITS, format!("{}, over {MOST_BITS}", kind.name()), colour));
        } else {
            // The kind does not reach the lowest FPR of the axis. Its label stands at the beginning
            // of its line.
            early.push((frame.at((first_rate, first)), kind.name(), colour));
        }
    }
    frame.label_right_ends(&mut picture, &ends);
    let wanted: Vec<f64> = early.iter().map(|((_, y), ..)| y - 9.0).collect();
    let heights = spread(&wanted, TEXT_SIZE * 1.25, frame.top + 8.0, frame.bottom - 40.0);
    for (((x, _), name, colour), y) in early.into_iter().zip(heights) {
        picture.text(name, (x + 8.0, y), Anchor::Start, colour);
    }
    picture.finish()
}
