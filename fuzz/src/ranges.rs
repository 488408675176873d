//! Tests range filters of keys from the input with ranges from the input, before and after edits.

use std::collections::BTreeSet;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

use filterblock::{
    FilterBlock, FilterOptions, FilterSpec, HashSeed, KeyHasher, Verify, partitions::PartitionedBuilder,
};

use crate::Input;
use crate::hosts::{is_empty, is_reversed};
use crate::patch::edit;

/// An upper limit for the number of keys.
const MAX_KEYS: usize = 120;
const MAX_BOUNDS: usize = 40;
const MAX_EDITS: usize = 4;

/// Builds a range filter, alone, beside another filter or in partitions. No range that holds a key
/// and no reversed range may be denied. Then edits the block. If no edit repaired the checksums, a block that opens must
/// still not deny a key.
pub fn ranges(data: &[u8]) {
    let mut input = Input(data);
    let (spec, form, partition_keys) = (spec(&mut input), input.byte(), usize::from(input.byte()));
    let keys = BTreeSet::from_iter(strings(&mut input, MAX_KEYS));
    let mut bounds = strings(&mut input, MAX_BOUNDS);
    bounds.extend(keys.iter().step_by(1 + keys.len() / 8).cloned());
    let mut block = build(spec, form, partition_keys, &keys);
    let sound = FilterBlock::open_any(block.as_slice(), Verify::AtOpen).unwrap();
    let lazy = FilterBlock::open_any(block.as_slice(), Verify::OnFirstTouch).unwrap();
    for_each_range(&bounds, |lower, upper| {
        let answer = sound.may_contain_range(lower, upper);
        let (is_reversed, is_empty) = (is_reversed(lower, upper), is_empty(lower, upper));
        let may_hold = is_reversed || !is_empty && keys.range::<[u8], _>((lower, upper)).next().is_some();
        assert!(answer || !may_hold, "{lower:02x?} {upper:02x?} was denied");
        assert!(!answer || !is_empty, "{lower:02x?} {upper:02x?} is empty");
        assert_eq!(answer, lazy.may_contain_range(lower, upper), "{lower:02x?} {upper:02x?} on first touch");
    });
    drop((sound, lazy));
    let mut is_repaired = false;
    input.steps(MAX_EDITS, |input| is_repaired |= edit(&mut block, input));
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        let Ok(edited) = FilterBlock::open_any(block.as_slice(), verify) else { continue };
        for_each_range(&bounds, |lower, upper| {
            std::hint::black_box(edited.may_contain_range(lower, upper));
        });
        let denied = keys.iter().find(|key| !edited.may_contain_range(Included(key), Included(key)));
        assert!(is_repaired || denied.is_none(), "a damaged block denies {denied:02x?}");
    }
}

fn spec(input: &mut Input<'_>) -> FilterSpec {
    let text = match input.byte() % 6 {
        0 => "grafite:fpr=0.01",
        1 => "grafite:fpr=0.5",
        2 => "grafite:L=16:fpr=0.01",
        3 => "grafite:L=1000000:fpr=0.001",
        4 => "grafite:2",
        _ => "grafite:L=1:20",
    };
    text.parse().unwrap()
}

/// Reads strings. A string may begin with the leading bytes of the string before it.
fn strings(input: &mut Input<'_>, most: usize) -> Vec<Vec<u8>> {
    let mut strings: Vec<Vec<u8>> = Vec::new();
    for _ in 0..input.below(most) {
        let mut string = strings.last().cloned().unwrap_or_default();
        let head = input.byte();
        string.truncate(string.len().saturating_sub(usize::from(head % 8)));
        string.extend_from_slice(input.take(usize::from(head / 8 % 8)));
        if head >= 250 {
            string.extend_from_slice(&[head; 90]);
        }
        strings.push(string);
    }
    strings
}

fn build(spec: FilterSpec, form: u8, partition_keys: usize, keys: &BTreeSet<Vec<u8>>) -> Vec<u8> {
    let hasher = KeyHasher::xxh3(HashSeed(form.into()));
    if form % 3 == 2 {
        let mut builder = PartitionedBuilder::new(&FilterOptions::new(spec), hasher, partition_keys).unwrap();
        keys.iter().for_each(|key| builder.add(builder.hasher().key(key)).unwrap());
        return builder.finish().unwrap().bytes;
    }
    let mut builder = match form % 3 {
        0 => FilterOptions::new(spec).builder(hasher).unwrap(),
        _ => FilterOptions::new("bloom:8".parse().unwrap()).ranges(spec).builder(hasher).unwrap(),
    };
    keys.iter().for_each(|key| builder.add(builder.hasher().key(key)));
    builder.finish().unwrap().bytes
}

fn for_each_range(bounds: &[Vec<u8>], mut visit: impl FnMut(Bound<&[u8]>, Bound<&[u8]>)) {
    for (i, from) in bounds.iter().enumerate() {
        for to in bounds.iter().skip(i % 3).step_by(3) {
            for lower in [Included(from.as_slice()), Excluded(from), Unbounded] {
                for upper in [Included(to.as_slice()), Excluded(to), Unbounded] {
                    visit(lower, upper);
                }
            }
        }
    }
}
