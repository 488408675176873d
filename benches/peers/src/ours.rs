//! The filters of filterblock.

use aligned_vec::{AVec, ConstAlign};
use filterblock::{FilterBlock, FilterBuilder, FilterSpec, HashSeed, KeyHash, SelfCheck, Verify};

use crate::contender::{BATCH, Contender, Input, Probe};

/// What is measured; a specification that this version does not know is skipped, and the program says so.
const SPECS: [&str; 13] = [
    "bloom:10",
    "blocked-bloom:10",
    "blocked-bloom:fpr=0.01",
    "split-block:10",
    "split-block-512:10",
    "ribbon:fpr=0.00390625",
    "bumped-ribbon:fpr=0.00390625",
    "bumped-ribbon:fpr=0.00390625:compact",
    "bumped-ribbon:fpr=0.01",
    "bumped-ribbon:fpr=0.0009765625",
    "binary-fuse:8",
    "binary-fuse:12",
    "binary-fuse:16",
];

/// Of a block: what is there whatever the number of keys.
const TRAILER_BITS: f64 = 60.0 * 8.0;

/// A block as it lies in a file: at a multiple of 64 bytes.
struct Block(FilterBlock<AVec<u8, ConstAlign<64>>>);

impl Probe for Block {
    const BATCHED: bool = true;

    #[inline(always)]
    fn hash(&self, hash: u64) -> bool {
        self.0.may_contain_hash(KeyHash::from_raw(hash))
    }

    #[inline(always)]
    fn batch(&self, hashes: &[u64; BATCH], answers: &mut [bool; BATCH]) {
        self.0.may_contain_batch(&hashes.map(KeyHash::from_raw), answers);
    }

    fn bits(&self) -> (f64, f64) {
        let bits = self.0.as_bytes().len() as f64 * 8.0;
        (bits, bits - TRAILER_BITS)
    }
}

/// Says on standard error what this version of filterblock does not know.
pub fn tell_unknown() {
    let unknown: Vec<_> = SPECS.into_iter().filter(|text| text.parse::<FilterSpec>().is_err()).collect();
    if !unknown.is_empty() {
        eprintln!("skipped, unknown to this version of filterblock: {}", unknown.join(", "));
    }
}

/// All that this version of filterblock knows.
#[must_use]
pub fn all() -> Vec<Contender> {
    let known = SPECS.into_iter().filter_map(|text| Some((text, text.parse::<FilterSpec>().ok()?)));
    let contender = |(text, spec)| {
        let mut contender = Contender::new(text, "filterblock", move |input| build(spec, input));
        contender.ours = true;
        contender
    };
    known.map(contender).collect()
}

/// Without the check that asks for every key again, which no competitor makes.
fn build(spec: FilterSpec, input: Input<'_>) -> Result<Block, String> {
    let mut builder = FilterBuilder::new(spec, HashSeed(0)).with_self_check(SelfCheck::Off);
    for &hash in input.hashes {
        builder.add_hash(KeyHash::from_raw(hash));
    }
    let bytes = builder.finish().map_err(|error| error.to_string())?;
    FilterBlock::open_any(AVec::from_slice(64, &bytes), Verify::AtOpen).map(Block).map_err(|error| error.to_string())
}
