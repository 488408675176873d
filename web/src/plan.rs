//! Calculates for all kinds: the plans of `filterblock plan`, the formula of each kind with its
//! numbers, and the curves of the plots.

use charts::text::{parse_bytes, parse_number, parse_share, parse_whole};
use filterblock::planning::{MAX_KEYS, Plan};
use filterblock::{
    Error, FilterKind, FilterSpec,
    planning::{BlockPlan, Goal},
};
use filterblock_family::plan::{Variant, VariantPlan};
use filterblock_report::{PLANNED_KINDS, PlanRow, reason};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::report::value;

/// The known numbers, as a person has typed them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    /// The number of keys, or `None` to solve for it.
    keys: Option<String>,
    fpr: Option<String>,
    bits_per_key: Option<String>,
    memory_bytes: Option<String>,
}

/// Parses a typed number with a parser of the command. The error repeats the text in words for people.
pub(crate) fn typed<T>(name: &str, text: &str, parse: fn(&str) -> Option<T>, expected: &str) -> Result<T, String> {
    parse(text.trim()).ok_or_else(|| match text.trim() {
        "" => format!("{name}: nothing is written; expected {expected}"),
        written => format!("{name}: {written:?} is not {expected}"),
    })
}

pub(crate) fn keys_of(text: &str) -> Result<u64, String> {
    typed("keys", text, parse_whole, "a whole number below 2^64; write 1000000, 1,000,000 or 1e6")
}

pub(crate) fn fpr_of(text: &str) -> Result<f64, String> {
    let expected = "a rate above 0 and below 1; write 0.01 or 1%";
    let rate = typed("FPR", text, parse_share, expected)?;
    if rate > 0.0 && rate < 1.0 { Ok(rate) } else { Err(format!("FPR: expected {expected}")) }
}

pub(crate) fn bits_per_key_of(text: &str) -> Result<f64, String> {
    let expected = "a number from 1 to 100; write 10";
    let bits = typed("bits per key", text, parse_number, expected)?;
    if (1.0..=100.0).contains(&bits) { Ok(bits) } else { Err(format!("bits per key: expected {expected}")) }
}

pub(crate) fn memory_of(text: &str) -> Result<u64, String> {
    typed("memory", text, parse_bytes, "a number of bytes below 2^64; write 1048576 bytes or 1.5 MiB")
}

/// Answers with the fields of `filterblock plan --json` without measured times, and adds probes and
/// formula of each kind.
pub(crate) fn answer(question: &Question) -> Result<Value, String> {
    let memory = question.memory_bytes.as_deref().map(memory_of).transpose()?;
    let fpr = question.fpr.as_deref().map(fpr_of).transpose()?;
    let bits = question.bits_per_key.as_deref().map(bits_per_key_of).transpose()?;
    let Some(keys) = question.keys.as_deref().map(keys_of).transpose()? else {
        return match (fpr, memory) {
            (Some(rate), Some(memory)) => Ok(most_keys(rate, memory)),
            _ => Err("to solve for keys, give the FPR and the memory".to_owned()),
        };
    };
    if keys == 0 {
        return Err("keys: a plan needs at least one key; try 1000000".to_owned());
    }
    if keys > MAX_KEYS {
        return Err("keys: at most 2^56 keys are possible; try 1000000".to_owned());
    }
    let (goal, budget) = match (fpr, bits, memory) {
        (Some(rate), None, None) => (Goal::FalsePositiveRate(rate), json!({ "false_positive_rate": rate })),
        (None, Some(bits), None) => (Goal::BitsPerKey(bits), json!({ "bits_per_key": bits })),
        (None, None, Some(bytes)) => (Goal::LenBytes(bytes), json!({ "memory_bytes": bytes })),
        _ => return Err("give the FPR, the bits per key or the memory, and only one of them".to_owned()),
    };
    let mut filters: Vec<Value> =
        PLANNED_KINDS.iter().map(|&kind| of_kind(kind, BlockPlan::new(kind, keys, goal))).collect();
    if filters.iter().all(|row| row["refused"].is_string()) {
        return Err(refusal_of_all(goal));
    }
    filters.extend(Variant::ALL.map(|variant| {
        let plan = VariantPlan::for_goal(variant, keys, goal);
        value(&PlanRow::of_variant(variant, plan))
    }));
    Ok(json!({ "keys": keys, "budget": budget, "filters": filters }))
}

/// Returns the message for a goal that no kind of filter can reach.
fn refusal_of_all(goal: Goal) -> String {
    match goal {
        Goal::FalsePositiveRate(_) => "no kind of filter reaches this FPR with this number of keys; try 0.01",
        Goal::BitsPerKey(_) => "too few bits for every kind of filter; try 10",
        Goal::LenBytes(_) => {
            "too little memory for this number of keys: a block needs at least 1 bit per key, checksums and a trailer; \
             give more memory"
        }
    }
    .to_owned()
}

/// Answers with one plan of each kind: the plan with the most keys at this FPR in this memory.
fn most_keys(rate: f64, memory: u64) -> Value {
    let filters = PLANNED_KINDS.map(|kind: FilterKind| match BlockPlan::most_keys(kind, rate, memory).transpose() {
        Some(plan) => of_kind(kind, plan),
        None => {
            let why = "even a block with a single key does not fit in this memory; give more memory";
            value(&PlanRow::refused(kind, why.to_owned()))
        }
    });
    json!({ "keys": null, "budget": { "false_positive_rate": rate, "memory_bytes": memory }, "filters": filters })
}

fn of_kind(kind: FilterKind, plan: Result<BlockPlan, Error>) -> Value {
    let block = match plan {
        Ok(block) => block,
        Err(why) => return value(&PlanRow::refused(kind, reason(why))),
    };
    let (mut row, plan) = (value(&PlanRow::of_block(&block)), block.plan());
    row["keys"] = json!(plan.num_keys());
    row["probes"] = json!(plan.probes());
    row["formula"] = formula(plan);
    row
}

/// Returns the formula of a kind's FPR, and the same formula with the numbers of the plan.
fn formula(plan: &Plan) -> Value {
    let (n, k, len) = (plan.num_keys(), plan.probes(), plan.payload_len_bytes());
    let rate = plan.expected_fpr();
    let (text, filled, words) = match plan.spec().kind() {
        FilterKind::Bloom => (
            "(1 − (1 − 1/m)^(k·n))^k",
            format!("(1 − (1 − 1/{m})^({k}·{n}))^{k}", m = u128::from(len) * 8),
            "m bits, n keys, k probes",
        ),
        FilterKind::BlockedBloom => (
            "Σᵢ C(n,i)·(1/L)^i·(1 − 1/L)^(n−i) · f(i),  f(i) = FPR of 512 bits with i keys and k probes",
            format!("n = {n}, L = {}, k = {k}, mean of i = {:.3}", len / 64, n as f64 / (len / 64) as f64),
            "L lines of 512 bits; each key sets k bits of one line",
        ),
        kind @ (FilterKind::SplitBlock | FilterKind::SplitBlock512) => {
            let (block, lane) = if kind == FilterKind::SplitBlock { (32, 32) } else { (64, 64) };
            (
                "Σᵢ C(n,i)·(1/B)^i·(1 − 1/B)^(n−i) · (1 − (1 − 1/w)^i)^8",
                format!("n = {n}, B = {}, w = {lane}, mean of i = {:.3}", len / block, n as f64 / (len / block) as f64),
                "B blocks of 8 lanes of w bits; each key sets one bit of each lane",
            )
        }
        FilterKind::BumpedRibbon | FilterKind::Ribbon => {
            let share = (rate * f64::from(k).exp2() - 1.0).max(0.0);
            (
                "2^−r · (1 + s)",
                format!("2^−{k} · (1 + {share:.4}),  {:.4} bits per key", plan.bits_per_key()),
                "r columns; a share s of the hashes meets one column less",
            )
        }
        FilterKind::BinaryFuse => ("2^−w", format!("2^−{k}"), "a fingerprint of w bits: the XOR of 3 slots"),
        _ => return Value::Null,
    };
    json!({ "text": text, "filled": format!("{filled} = {rate:.6e}"), "words": words })
}

/// The number of keys for the plots, as text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CurvesQuestion {
    keys: String,
}

/// Answers with the FPR of each kind by payload bits per key: `[[bits, FPR], …]`. The number of
/// keys is limited to the range from 1 to [`MAX_KEYS`].
pub(crate) fn curves(question: &CurvesQuestion) -> Result<Value, String> {
    let keys = keys_of(&question.keys)?.clamp(1, MAX_KEYS);
    let curve = |kind: FilterKind| {
        let points = (8..=80).step_by(2).filter_map(|quarters| {
            let spec = FilterSpec::bits_per_key(kind, f64::from(quarters) / 4.0).ok()?;
            let plan = Plan::new(spec, keys).ok()?;
            Some(json!([plan.bits_per_key(), plan.expected_fpr()]))
        });
        json!({ "filter": kind.name(), "points": points.collect::<Vec<_>>() })
    };
    Ok(json!({ "keys": keys, "curves": PLANNED_KINDS.map(curve) }))
}
