//! Adds runs to a map, drops some, and asks. No key of a run that the map holds may be denied.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use filterblock::{HashSeed, KeyHash, KeyHasher, RunMap, Runs};

use crate::Input;

const MAX_STEPS: usize = 60;

/// Runs the steps that the input describes.
pub fn run_map(data: &[u8]) {
    let mut input = Input(data);
    let hasher = KeyHasher::xxh3(HashSeed(1));
    let mut map = RunMap::new(&hasher, input.number(1) * 4).unwrap();
    let mut runs: BTreeMap<u8, Vec<KeyHash>> = BTreeMap::new();
    let mut known = Runs::NONE;
    input.steps(MAX_STEPS, |input| {
        match input.byte() % 4 {
            0 | 1 => {
                let (run, hashes) = (input.byte(), hashes(input, &hasher));
                // The map may refuse the run. Then every answer has it.
                if let Entry::Vacant(vacant) = runs.entry(run) {
                    map.add_run(run, &hashes);
                    known.insert(run);
                    vacant.insert(hashes);
                }
            }
            2 => {
                let (bit, limit) = (input.byte() % 8, input.byte());
                runs.retain(|run, _| run >> bit & 1 == 1 || *run >= limit);
                known.iter().filter(|run| !runs.contains_key(run)).for_each(|run| known.remove(run));
                map = map.keeping(&known).unwrap();
            }
            _ => {
                let hashes = hashes(input, &hasher);
                let mut answers = vec![known; hashes.len()];
                map.ask_batch(&hashes, &known, &mut answers);
                for (hash, answer) in hashes.iter().zip(&answers) {
                    assert_eq!(map.ask(*hash, &known), *answer, "a batch answers otherwise");
                    assert!(answer.iter().all(|run| known.contains(run)), "an unknown run is an answer");
                }
            }
        }
        for (run, hashes) in &runs {
            let is_found = |hash: &KeyHash| map.ask(*hash, &known).contains(*run);
            assert!(hashes.iter().all(is_found), "a key of run {run} is denied");
        }
    });
}

/// Returns hashes of few keys, which repeat in other runs, or numbers that share lines and prints.
fn hashes(input: &mut Input<'_>, hasher: &KeyHasher) -> Vec<KeyHash> {
    let (shift, len) = (u32::from(input.byte() % 128), usize::from(input.byte()));
    let of = |byte: u8| match shift {
        0..64 => KeyHash::from_raw(u64::from(byte) << shift),
        _ => hasher.of(&[byte]),
    };
    input.take(len).iter().map(|&byte| of(byte)).collect()
}
