//! The pictures of a plan: what the texts on Bloom filters plot, and the space of all kinds.

use plotters::style::RGBColor;

use super::super::bench::COLOURS;
use super::super::failure::Outcome;
use super::super::text::thousands;
use super::chart::{Axis, Chart, Line};
use super::table::KINDS;
use filterblock::planning::{Plan, best_probes, exact_rate, rate_exponent, simplified_rate};
use filterblock::{FilterKind, FilterSpec};

/// Eight in an order that is also one of brightness (viridis without its lightest; van der Walt and Smith, 2015).
const ORDERED: [RGBColor; 8] = [
    RGBColor(68, 1, 84),
    RGBColor(70, 50, 126),
    RGBColor(54, 92, 141),
    RGBColor(39, 127, 142),
    RGBColor(31, 161, 135),
    RGBColor(74, 193, 109),
    RGBColor(138, 196, 38),
    RGBColor(206, 180, 20),
];
const GREY: RGBColor = RGBColor(90, 90, 90);
const LIGHT: RGBColor = RGBColor(170, 170, 170);
/// Points of a curve.
const POINTS: u32 = 400;

/// File names and their content.
pub fn all(num_keys: u64) -> Outcome<Vec<(&'static str, String)>> {
    Ok(vec![
        ("plan-rate-by-probes.svg", rate_by_probes().svg()?),
        ("plan-exponent.svg", exponent().svg()?),
        ("plan-rate-by-keys.svg", rate_by_keys().svg()?),
        ("plan-space-by-rate.svg", space_by_rate(num_keys).svg()?),
    ])
}

/// Labels at powers of ten, or all multiples of `every`.
fn powers(from: i32, to: i32, every: usize) -> Vec<(f64, String)> {
    (from..=to).step_by(every).map(|power| (10f64.powi(power), power_of_ten(power))).collect()
}

fn power_of_ten(power: i32) -> String {
    match power {
        0 => "1".into(),
        1 | 2 => format!("{}", 10f64.powi(power)),
        -3..=-1 => format!("{}", 10f64.powi(power)),
        _ => format!("1e{power}"),
    }
}

/// So many bits that the formulas differ where it can be seen, and not so few that neither is anywhere near the truth.
const FEW_BITS: u64 = 20;

/// The rate against the number of probes, for 0.1 to 0.8 keys a bit.
fn rate_by_probes() -> Chart {
    let mut lines = Vec::new();
    for (tenths, colour) in (1..=8u64).zip(ORDERED) {
        let keys = FEW_BITS * tenths / 10;
        for (rate, is_dashed) in [(exact_rate as fn(u64, u64, u32) -> f64, false), (simplified_rate, true)] {
            let points = (1..=20).map(|probes| (f64::from(probes), rate(keys, FEW_BITS, probes))).collect();
            let label = if is_dashed { String::new() } else { format!("n = 0.{tenths} m") };
            lines.push(Line { label, colour, is_dashed, points });
        }
    }
    // Fuller filters above, as their lines are.
    lines.reverse();
    let key = |label: &str, is_dashed| Line { label: label.into(), colour: GREY, is_dashed, points: Vec::new() };
    lines.extend([key("(1 - (1 - 1/m)^(kn))^k", false), key("(1 - e^(-kn/m))^k", true)]);
    Chart {
        title: "Too few probes and too many".into(),
        subtitle: format!(
            "Rate of false positives of a Bloom filter of m = {FEW_BITS} bits with n keys, exact and simplified"
        ),
        x: Axis {
            title: "probes of a query (k)",
            from: 1.0,
            to: 20.0,
            logarithmic: false,
            labels: (1..=20).map(|probes| (f64::from(probes), probes.to_string())).collect(),
        },
        y: Axis {
            title: "false positives",
            from: 5e-3,
            to: 1.0,
            logarithmic: true,
            labels: [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0].map(|rate| (rate, rate.to_string())).into(),
        },
        lines,
    }
}

/// The exponent of the rate against the share of bits that stay 0.
fn exponent() -> Chart {
    let share = |i: u32| f64::from(i) / f64::from(POINTS);
    let line = |(bits, colour): (u32, RGBColor)| {
        let g = |share: f64| rate_exponent(share, f64::from(bits));
        let points = (1..POINTS).map(|i| (share(i), g(share(i)))).collect();
        Line { label: format!("m/n = {bits}: least {:.2}", g(0.5)), colour, is_dashed: false, points }
    };
    let mut lines: Vec<Line> = [4, 8, 12, 16].into_iter().zip(COLOURS).map(line).collect();
    let points = vec![(0.5, -8.0), (0.5, 0.0)];
    lines.push(Line { label: "p = 0.5".into(), colour: GREY, is_dashed: true, points });
    Chart {
        title: "Least where half of the bits are set".into(),
        subtitle: "The rate is e^g(p), with g(p) = -(m/n) ln p ln(1 - p)".into(),
        x: Axis {
            title: "share of bits that stay 0 (p)",
            from: 0.0,
            to: 1.0,
            logarithmic: false,
            labels: (0..=10)
                .map(|tenth| (f64::from(tenth) / 10.0, format!("{:.1}", f64::from(tenth) / 10.0)))
                .collect(),
        },
        y: Axis {
            title: "g(p), the natural logarithm of the rate",
            from: -8.0,
            to: 0.0,
            logarithmic: false,
            labels: (-8..=0).map(|g| (f64::from(g), g.to_string())).collect(),
        },
        lines,
    }
}

/// The rate against the number of keys, with the best whole number of probes, for 2^8 to 2^36 bits.
fn rate_by_keys() -> Chart {
    const MOST: i32 = 10;
    let line = |(log2, colour): (u32, RGBColor)| {
        let bits = 1u64 << log2;
        let mut keys: Vec<u64> = (0..=POINTS)
            .map(|i| super::super::text::whole(10f64.powf(f64::from(i) / f64::from(POINTS) * f64::from(MOST))))
            .collect();
        keys.dedup();
        let rate = |&keys: &u64| (keys as f64, simplified_rate(keys, bits, best_probes(keys, bits)).max(1e-300));
        let label = format!("m = 2^{log2} bits, {}", size(bits / 8));
        Line { label, colour, is_dashed: false, points: keys.iter().map(rate).collect() }
    };
    Chart {
        title: "A filter of fixed size fills".into(),
        subtitle: "Rate of false positives of a Bloom filter of m bits, with the best number of probes for each number of keys"
            .into(),
        x: Axis { title: "keys (n)", from: 1.0, to: 10f64.powi(MOST), logarithmic: true, labels: powers(0, MOST, 1) },
        y: Axis { title: "false positives", from: 1e-10, to: 1.0, logarithmic: true, labels: powers(-10, 0, 1) },
        lines: (8..=36).step_by(4).zip(ORDERED).map(line).collect(),
    }
}

/// A power of two of bytes.
fn size(bytes: u64) -> String {
    let fits = [(30, "GiB"), (20, "MiB"), (10, "KiB")].into_iter().find(|(shift, _)| bytes >> shift > 0);
    fits.map_or_else(|| format!("{bytes} B"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

/// Bits per key against the rate that is wanted.
fn space_by_rate(num_keys: u64) -> Chart {
    const LEAST_POWER: i32 = -6;
    let rates =
        || (0..=POINTS).map(|i| 10f64.powf(-1.0 + f64::from(i) / f64::from(POINTS) * f64::from(LEAST_POWER + 1)));
    let line = |(kind, (colour, is_dashed)): (FilterKind, (RGBColor, bool))| {
        let bits = |rate: f64| {
            let plan = Plan::new(FilterSpec::false_positive_rate(kind, rate).ok()?, num_keys).ok()?;
            Some((rate, plan.bits_per_key()))
        };
        Line { label: kind.name().into(), colour, is_dashed, points: rates().filter_map(bits).collect() }
    };
    let looks = [false, true].into_iter().flat_map(|is_dashed| COLOURS.map(|colour| (colour, is_dashed)));
    let bound = rates().map(|rate| (rate, (1.0 / rate).log2())).collect();
    // Below the dashes of the ribbons, which come so near.
    let mut lines =
        vec![Line { label: "log2(1/rate): the least".into(), colour: LIGHT, is_dashed: false, points: bound }];
    lines.extend(KINDS.into_iter().zip(looks).map(line));
    Chart {
        title: "What a rate takes".into(),
        subtitle: format!(
            "Bits per key of each kind of filter, without page sums and trailer; {} keys",
            thousands(num_keys)
        ),
        x: Axis {
            title: "false positives",
            from: 0.1,
            to: 10f64.powi(LEAST_POWER),
            logarithmic: true,
            labels: powers(LEAST_POWER, -1, 1),
        },
        y: Axis {
            title: "bits per key",
            from: 0.0,
            to: 40.0,
            logarithmic: false,
            labels: (0..=8).map(|i| (f64::from(5 * i), (5 * i).to_string())).collect(),
        },
        lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_names_axes_and_lines_and_stays_in_its_frame() {
        for keys in [1, 1_000_000, 1 << 56] {
            for (name, svg) in all(keys).unwrap() {
                assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
                let expected: &[&str] = match name {
                    "plan-rate-by-probes.svg" => &["n = 0.1 m", "n = 0.8 m", "probes of a query"],
                    "plan-exponent.svg" => &["m/n = 8: least -3.84", "p = 0.5"],
                    "plan-rate-by-keys.svg" => &["m = 2^8 bits, 32 B", "m = 2^36 bits, 8 GiB"],
                    _ => &["bumped-ribbon", "bloom", "the least"],
                };
                for text in expected {
                    assert!(svg.contains(text), "{name}: {text}");
                }
            }
        }
    }
}
