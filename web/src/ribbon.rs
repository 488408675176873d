//! Builds a small ribbon for the picture: a linear system over GF(2) with rows of eight
//! coefficients instead of 64 or 128. Each key is an equation. The solution has one value for
//! each slot.

use filterblock::{HashSeed, KeyHasher};
use serde_json::{Value, json};

/// The number of coefficients of a row.
const WIDTH: u32 = 8;
/// The number of slots beyond the number of keys. Fewer than two keys count as two.
const SPARE: u32 = 6;
/// The maximum number of tried seeds. Each seed gives other equations.
const SEEDS: u64 = 200;

/// Maps a hash to `0..range`, as docs/FORMAT.md defines it.
pub(crate) fn reduce(hash: u64, range: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "below `range`")]
    let reduced = ((u128::from(hash) * u128::from(range)) >> 64) as u32;
    reduced
}

/// The equation of a key: the XOR of the values of the slots `start + i`, for every bit `i` that is
/// set in `coefficients`, equals the fingerprint. In a new or stored equation, bit 0 of
/// `coefficients` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Equation {
    start: u32,
    coefficients: u32,
    fingerprint: u32,
}

fn equation(key: &str, seed: u64, slots: u32, columns: u32) -> Equation {
    let hash = KeyHasher::xxh3(HashSeed(seed)).of(key.as_bytes()).raw();
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    #[expect(clippy::cast_possible_truncation, reason = "a part of the bits")]
    let (coefficients, fingerprint) = ((mixed >> 40) as u32 & 0xff | 1, (mixed >> 8) as u32);
    Equation { start: reduce(hash, slots - WIDTH + 1), coefficients, fingerprint: fingerprint & mask(columns) }
}

fn mask(columns: u32) -> u32 {
    u32::MAX >> (32 - columns)
}

/// The result of an insertion. `added` is the number of stored equations that were XORed into the
/// new one. `slot` is the slot of the new equation, or `None` if it follows from the stored ones.
struct Placed {
    added: u32,
    slot: Option<u32>,
}

/// Inserts an equation. Returns `None` if it contradicts the stored equations.
fn insert(rows: &mut [Option<Equation>], mut equation: Equation) -> Option<Placed> {
    let mut added = 0;
    while equation.coefficients != 0 {
        let zeros = equation.coefficients.trailing_zeros();
        equation.start += zeros;
        equation.coefficients >>= zeros;
        let row = rows.get_mut(equation.start as usize)?;
        match row {
            None => {
                *row = Some(equation);
                return Some(Placed { added, slot: Some(equation.start) });
            }
            Some(other) => {
                equation.coefficients ^= other.coefficients;
                equation.fingerprint ^= other.fingerprint;
                added += 1;
            }
        }
    }
    (equation.fingerprint == 0).then_some(Placed { added, slot: None })
}

/// Returns the solution of the rows. The last row is solved first. Slots without a row get 0.
fn solve(rows: &[Option<Equation>]) -> Vec<u32> {
    let mut solution = vec![0; rows.len()];
    for slot in (0..rows.len()).rev() {
        if let Some(Some(row)) = rows.get(slot) {
            let others = Equation { coefficients: row.coefficients & !1, ..*row };
            let value = row.fingerprint ^ sum(&solution, others);
            if let Some(found) = solution.get_mut(slot) {
                *found = value;
            }
        }
    }
    solution
}

/// Returns the XOR of the values of the slots that the equation selects.
fn sum(solution: &[u32], equation: Equation) -> u32 {
    let selected = (0..WIDTH).filter(|i| equation.coefficients >> i & 1 == 1);
    selected.filter_map(|i| solution.get((equation.start + i) as usize)).fold(0, |sum, value| sum ^ value)
}

/// Answers with the equations in the order of the keys, the solution, and the asked key's columns.
pub(crate) fn answer(keys: &[String], ask: &str, columns: u32) -> Result<Value, String> {
    if columns > 16 {
        return Err("expected 1 to 16 columns; draw fewer".to_owned());
    }
    let distinct = charts::text::distinct(keys);
    let slots = u32::try_from(distinct.len()).map_err(|error| error.to_string())?.max(2) + SPARE;
    let found = (0..SEEDS).find_map(|seed| {
        let mut rows = vec![None; slots as usize];
        let steps = distinct.iter().map(|key| {
            let equation = equation(key, seed, slots, columns);
            insert(&mut rows, equation).map(|placed| (key, equation, placed))
        });
        let steps = steps.collect::<Option<Vec<_>>>()?;
        Some((seed, solve(&rows), steps))
    });
    let (seed, solution, steps) = found.ok_or("no seed gives a system with a solution; draw fewer keys")?;
    let steps = steps.into_iter().map(|(key, equation, placed)| {
        let bits: Vec<u32> = (0..WIDTH).map(|i| equation.coefficients >> i & 1).collect();
        json!({
            "key": key, "start": equation.start, "coefficients": bits, "fingerprint": bits_of(equation.fingerprint, columns),
            "added": placed.added, "slot": placed.slot,
        })
    });
    let asked = equation(ask, seed, slots, columns);
    let sum = sum(&solution, asked);
    let by_column: Vec<Value> = (0..columns)
        .map(|column| json!({ "sum": sum >> column & 1, "fingerprint": asked.fingerprint >> column & 1 }))
        .collect();
    let bits: Vec<u32> = (0..WIDTH).map(|i| asked.coefficients >> i & 1).collect();
    Ok(json!({
        "slots": slots, "columns": columns, "seed": seed, "steps": steps.collect::<Vec<_>>(),
        "solution": solution.iter().map(|row| bits_of(*row, columns)).collect::<Vec<_>>(),
        "asked": { "key": ask, "start": asked.start, "coefficients": bits, "columns": by_column },
        "answer": if sum == asked.fingerprint { "maybe" } else { "absent" },
        "is_member": distinct.iter().any(|key| *key == ask),
    }))
}

fn bits_of(value: u32, columns: u32) -> Vec<u32> {
    (0..columns).map(|column| value >> column & 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drawn_ribbon_holds_its_keys() {
        for num_keys in [0, 1, 2, 7, 24, 64] {
            let keys: Vec<String> = (0..num_keys).map(|key| format!("key {key}")).collect();
            for columns in [1, 4, 16] {
                let absent = (0..1000).filter(|key| {
                    let found = answer(&keys, &format!("other {key}"), columns).unwrap();
                    found["answer"] == "maybe"
                });
                let rate = absent.count() as f64 / 1000.0;
                assert!(rate < 1.4 * 0.5f64.powi(columns as i32) + 0.03, "{num_keys} keys, {columns} columns: {rate}");
                for key in &keys {
                    assert_eq!(answer(&keys, key, columns).unwrap()["answer"], "maybe", "{key}, {columns} columns");
                }
            }
        }
    }
}
