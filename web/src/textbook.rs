//! Solves the formulas of the textbook Bloom filter of `m` bits, `n` keys and `k` probes for its
//! keys, FPR, memory or probes. Shows the formula with its numbers.

use charts::text::{parse_whole, whole};
use filterblock::planning::{best_probes, bits_for, classical_fpr, ideal_probes, lowest_fpr, shortest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::plan::{bits_per_key_of, fpr_of as rate_of, keys_of, memory_of, typed};

/// The maximum number of probes that are tried.
const MAX_PROBES: u32 = 100;
/// The maximum number of probes in the plot.
const PLOTTED_PROBES: u32 = 24;

/// The number to solve for, and the known numbers as a person has typed them. Without `probes`, the calculator uses
/// the best number of probes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    solve: Unknown,
    keys: Option<String>,
    fpr: Option<String>,
    bits_per_key: Option<String>,
    memory_bytes: Option<String>,
    probes: Option<String>,
}

/// The number to solve for.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Unknown {
    Keys,
    Fpr,
    Memory,
    Probes,
}

/// The number of keys, bits and probes, and the formula without and with its numbers.
struct Found {
    keys: u64,
    bits: u64,
    probes: u32,
    text: &'static str,
    filled: String,
}

/// Answers with the number of keys, bits and probes, the FPR, and the formula that gave the unknown
/// number.
pub(crate) fn answer(question: &Question) -> Result<Value, String> {
    let missing = |name: &str| format!("{name}: nothing is written; give it");
    let keys = || keys_of(question.keys.as_ref().ok_or(missing("keys"))?).and_then(|keys| positive("keys", keys));
    let bits = || match (&question.bits_per_key, &question.memory_bytes) {
        (Some(bits), _) => positive("memory", whole((bits_per_key_of(bits)? * keys()? as f64).floor())),
        (None, Some(bytes)) => {
            let bits = memory_of(bytes)?.checked_mul(8).ok_or("memory: at most 2^61 bytes; give less memory")?;
            positive("memory", bits)
        }
        (None, None) => Err(missing("memory")),
    };
    let fpr = || rate_of(question.fpr.as_ref().ok_or(missing("FPR"))?);
    let probes = |text| typed("probes", text, parse_whole, "a whole number; write 7");
    let probes = question.probes.as_deref().map(probes).transpose()?;
    let probes = probes.map(|probes| u32::try_from(probes).unwrap_or(u32::MAX));
    if probes.is_some_and(|probes| !(1..=MAX_PROBES).contains(&probes)) {
        return Err(format!("probes: expected 1 to {MAX_PROBES}; try 7"));
    }
    let found = match question.solve {
        Unknown::Memory => memory(keys()?, fpr()?, probes)?,
        Unknown::Fpr => fpr_of(keys()?, bits()?, probes),
        Unknown::Keys => most_keys(bits()?, fpr()?, probes)?,
        Unknown::Probes => best(keys()?, bits()?, question.fpr.is_some().then(fpr).transpose()?),
    };
    let Found { keys, bits, probes, text, filled } = found;
    let bits_per_key = bits as f64 / keys as f64;
    let points = (1..=PLOTTED_PROBES).map(|k| json!([k, classical_fpr(keys, bits, k)]));
    Ok(json!({
        "keys": keys, "bits": bits, "probes": probes, "fpr": classical_fpr(keys, bits, probes),
        "bits_per_key": bits_per_key, "ideal_probes": ideal_probes(bits_per_key), "least_fpr": lowest_fpr(bits_per_key), "given_fpr": question.fpr.is_some().then(fpr).transpose()?,
        "formula": { "text": text, "filled": filled }, "by_probes": points.collect::<Vec<_>>(),
    }))
}

fn positive(name: &str, value: u64) -> Result<u64, String> {
    if value > 0 { Ok(value) } else { Err(format!("{name}: expected at least 1; try 1000000")) }
}

fn memory(keys: u64, fpr: f64, probes: Option<u32>) -> Result<Found, String> {
    let (bits, probes) = match probes {
        Some(probes) => (bits_for(keys, fpr, probes).ceil(), probes),
        None => {
            let shortest = shortest(keys, fpr).map_err(|error| error.to_string())?;
            (shortest.bits as f64, shortest.probes)
        }
    };
    if bits >= 9e18 {
        return Err("memory: more than 2^63 bits; give a higher FPR, fewer keys or other probes".to_owned());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 9e18")]
    let bits = bits.max(1.0) as u64;
    let filled = format!("−{probes}·{keys} / ln(1 − {fpr}^(1/{probes})) = {bits} bits");
    Ok(Found { keys, bits, probes, text: "m = −k·n / ln(1 − p^(1/k))", filled })
}

fn fpr_of(keys: u64, bits: u64, probes: Option<u32>) -> Found {
    let probes = probes.unwrap_or_else(|| best_probes(keys, bits).min(MAX_PROBES));
    let rate = classical_fpr(keys, bits, probes);
    let filled = format!("(1 − (1 − 1/{bits})^({probes}·{keys}))^{probes} = {rate:.6e}");
    Found { keys, bits, probes, text: "p = (1 − (1 − 1/m)^(k·n))^k", filled }
}

fn most_keys(bits: u64, fpr: f64, probes: Option<u32>) -> Result<Found, String> {
    let keys_of = |probes: u32| {
        let set_share = fpr.powf(1.0 / f64::from(probes));
        -(bits as f64) * (-set_share).ln_1p() / f64::from(probes)
    };
    let tried = probes.map_or(1..=MAX_PROBES, |probes| probes..=probes);
    let most = tried.map(|probes| (keys_of(probes), probes)).max_by(|one, other| one.0.total_cmp(&other.0));
    let (keys, probes) =
        most.filter(|(keys, _)| *keys >= 1.0).ok_or("keys: the memory is too small for one key; give more memory")?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the number of bits")]
    let keys = keys as u64;
    let filled = format!("−{bits}·ln(1 − {fpr}^(1/{probes})) / {probes} = {keys} keys");
    Ok(Found { keys, bits, probes, text: "n = −m·ln(1 − p^(1/k)) / k", filled })
}

/// Returns the smallest number of probes that reaches `fpr`. If `fpr` is `None` or no number
/// reaches it, returns the number of probes with the lowest FPR.
fn best(keys: u64, bits: u64, fpr: Option<f64>) -> Found {
    let best = best_probes(keys, bits).min(MAX_PROBES);
    let reaches = |&probes: &u32| fpr.is_some_and(|fpr| classical_fpr(keys, bits, probes) <= fpr);
    let ideal = ideal_probes(bits as f64 / keys as f64);
    let filled = format!("({bits} / {keys})·ln 2 = {ideal:.4}");
    let mut text = "k = (m/n)·ln 2";
    let (probes, filled) = match ((1..=best).find(reaches), fpr) {
        (Some(probes), Some(fpr)) => {
            text = "the least k with (1 − (1 − 1/m)^(k·n))^k ≤ p; lowest FPR at k = (m/n)·ln 2";
            (probes, format!("{probes} probes reach {fpr}; {filled}, so {best} are best"))
        }
        (None, Some(fpr)) => (best, format!("{filled}; no number of probes reaches {fpr}, and {best} come closest")),
        _ => (best, format!("{filled}, so {best} are best")),
    };
    Found { keys, bits, probes, text, filled }
}
