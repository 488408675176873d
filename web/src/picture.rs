//! Computes the steps in which keys set bits. In Bloom and blocked Bloom filters, the positions are
//! those of real filters (docs/FORMAT.md). The ribbon has narrower rows than a real ribbon.

use filterblock::{HashSeed, KeyHasher};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ribbon::{self, reduce};

/// The maximum number of keys of a picture.
const KEYS_MAX: usize = 64;
/// The maximum number of bits of a drawn filter.
const BITS_MAX: u32 = 2048;
const LINE_BITS: u32 = 512;

/// The constants for the positions of bits, from docs/FORMAT.md.
const STEP: u64 = 0x7f7c_8f42_bca8_eb67;
const FOLD: u64 = 0xdd22_899b_0135_a30f;
const MULTIPLIERS: [u32; 16] = [
    0xf6bc_24af,
    0x4a1e_9ce9,
    0xbe14_b421,
    0x19e5_02c9,
    0xdda0_7c5f,
    0xfd40_4fb5,
    0x4931_2a99,
    0xd6b4_5697,
    0x2792_576b,
    0x60ba_4a0f,
    0x6eb2_989f,
    0xed9d_7417,
    0x8d76_82f9,
    0xc582_d8e9,
    0x2671_a42d,
    0xa9ee_fdb7,
];

/// The filter to draw, its keys and the key to ask for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    kind: Kind,
    /// The keys that are added.
    keys: Vec<String>,
    /// The key to ask for.
    ask: String,
    /// The number of bits of a Bloom filter. It is a multiple of 512 for a blocked Bloom filter,
    /// and of 64 for the other kinds. The size of a ribbon does not depend on it.
    bits: u32,
    /// The number of probes of a Bloom filter, or of columns of a ribbon.
    probes: u32,
}

/// The drawn kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Bloom,
    BlockedBloom,
    Ribbon,
}

/// Answers with the probes of each added key in order, and with the probes of the asked key. For a
/// ribbon, answers as [`ribbon::answer`] does.
pub(crate) fn answer(question: &Question) -> Result<Value, String> {
    if question.keys.len() > KEYS_MAX {
        return Err(format!("more than {KEYS_MAX} keys; draw fewer"));
    }
    let unit = if question.kind == Kind::BlockedBloom { LINE_BITS } else { 64 };
    let max_probes = if question.kind == Kind::BlockedBloom { 16 } else { 30 };
    let is_drawn = question.bits >= unit && question.bits <= BITS_MAX && question.bits.is_multiple_of(unit);
    if !is_drawn || !(1..=max_probes).contains(&question.probes) {
        return Err(format!("expected {unit} to {BITS_MAX} bits in steps of {unit}, and 1 to {max_probes} probes"));
    }
    if question.kind == Kind::Ribbon {
        return ribbon::answer(&question.keys, &question.ask, question.probes);
    }
    let mut set = vec![false; question.bits as usize];
    let steps: Vec<Value> = question.keys.iter().map(|key| step(question, key, &mut set, true)).collect();
    let asked = step(question, &question.ask, &mut set, false);
    let maybe = asked["probes"].as_array().is_some_and(|probes| probes.iter().all(|probe| probe["was_set"] == true));
    let fill = set.iter().filter(|set| **set).count() as f64 / set.len() as f64;
    Ok(json!({
        "bits": question.bits, "steps": steps, "asked": asked, "fill": fill,
        "answer": if maybe { "maybe" } else { "absent" }, "is_member": question.keys.contains(&question.ask),
    }))
}

/// Returns the key with its hash, its line and its probes. Sets the bits of the key if `is_added`
/// is true.
fn step(question: &Question, key: &str, set: &mut [bool], is_added: bool) -> Value {
    let hash = KeyHasher::xxh3(HashSeed(0)).of(key.as_bytes()).raw();
    let positions = positions(question.kind, hash, question.bits, question.probes);
    let mut probes = Vec::new();
    for position in positions {
        let Some(bit) = set.get_mut(position as usize) else { continue };
        probes.push(json!({ "position": position, "was_set": *bit }));
        *bit |= is_added;
    }
    let line = (question.kind == Kind::BlockedBloom).then(|| reduce(hash, question.bits / LINE_BITS));
    json!({ "key": key, "hash": format!("{hash:016x}"), "line": line, "probes": probes })
}

fn positions(kind: Kind, hash: u64, bits: u32, probes: u32) -> Vec<u32> {
    if kind == Kind::Bloom {
        let mixed = std::iter::successors(Some(hash), |&x| Some((x ^ (x >> 32)).wrapping_mul(STEP)));
        return mixed.map(|x| reduce(x, bits)).take(probes as usize).collect();
    }
    let line = reduce(hash, bits / LINE_BITS) * LINE_BITS;
    let folded = (hash.wrapping_mul(FOLD) >> 32) as u32;
    let products = MULTIPLIERS.iter().take(probes as usize).map(|&multiplier| folded.wrapping_mul(multiplier));
    products.map(|product| line + (product >> 23)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use filterblock::{FilterOptions, ParsedBlock, Verify};

    #[test]
    fn drawn_bits_are_those_of_real_filters() {
        for (name, kind) in [("bloom", Kind::Bloom), ("blocked-bloom", Kind::BlockedBloom)] {
            for keys in [1, 3, 20, 60] {
                let hasher = KeyHasher::xxh3(HashSeed(0));
                let mut builder = FilterOptions::new(format!("{name}:10").parse().unwrap()).builder(&hasher).unwrap();
                let keys: Vec<String> = (0..keys).map(|key| format!("key {key}")).collect();
                keys.iter().for_each(|key| builder.add(builder.hasher().key(key.as_bytes())));
                let block = ParsedBlock::open(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap();
                let (payload, probes) = (block.payload(), block.metadata().probes);
                let mut drawn = vec![0u8; payload.len()];
                for key in &keys {
                    for position in positions(
                        kind,
                        hasher.of(key.as_bytes()).raw(),
                        u32::try_from(payload.len()).unwrap() * 8,
                        probes,
                    ) {
                        drawn[position as usize / 8] |= 1 << (position % 8);
                    }
                }
                assert_eq!(drawn, payload, "{name}, {} keys", keys.len());
            }
        }
    }
}
