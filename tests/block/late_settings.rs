//! Tests that no settings, keys and panics give a filter that denies a key.

use std::ops::Bound::Included;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use filterblock::{
    Built, Error, FilterBlock, FilterBuilder, FilterOptions, KeyHasher, PrefixExtractor, Result, Verify, WholeKeys,
    partitions::PartitionedBuilder,
};
use filterblock_testkit::blocks::{SEED, TABLE, spec};

static HASHER: KeyHasher = KeyHasher::xxh3(SEED);
/// `fixed:4` takes no prefix from this key, and the extractor `fails` panics.
const SHORT: &[u8] = b"ab";
const LONG: &[u8] = b"abcd/ef";

#[derive(Debug, Clone, Copy)]
enum Step {
    Add(&'static [u8]),
    AddHash,
    AddPrefix,
}

const STEPS: [Step; 4] = [Step::Add(SHORT), Step::Add(LONG), Step::AddHash, Step::AddPrefix];

fn extractors() -> [PrefixExtractor; 3] {
    // The hook of panics prints nothing for `resume_unwind`.
    let fails = |key: &[u8]| if key == SHORT { resume_unwind(Box::new(())) } else { Some(1) };
    let fails = PrefixExtractor::named("fails", fails).unwrap();
    [PrefixExtractor::fixed(4).unwrap(), PrefixExtractor::capped(2).unwrap(), fails]
}

/// Returns settings of every form, with and without a range filter.
fn settings(kind: &str) -> Vec<FilterOptions> {
    let plain = || FilterOptions::new(spec(kind)).table_id(TABLE);
    let mut all = vec![plain(), plain().prefixes_by_host("host", WholeKeys::Too)];
    for extractor in extractors() {
        all.extend([WholeKeys::Too, WholeKeys::Not].map(|whole| plain().prefixes(&extractor, whole)));
    }
    let with_ranges: Vec<_> = all.iter().map(|options| options.clone().ranges(spec("grafite:fpr=0.01"))).collect();
    all.into_iter().chain(with_ranges).collect()
}

/// The two builders, as the steps call them.
trait Builder: Sized {
    /// Returns whether the host may expect the key in the filter.
    fn add(&mut self, step: Step) -> bool;
    fn is_empty(&self) -> bool;
    fn finish(self) -> Result<Built>;
}

impl Builder for FilterBuilder {
    fn add(&mut self, step: Step) -> bool {
        match step {
            Step::Add(key) => self.add(HASHER.key(key)),
            Step::AddHash => self.add_hash(HASHER.of(LONG)),
            Step::AddPrefix => self.add_prefix(HASHER.key(SHORT)),
        }
        true
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn finish(self) -> Result<Built> {
        self.finish()
    }
}

impl Builder for PartitionedBuilder {
    fn add(&mut self, step: Step) -> bool {
        let added = match step {
            Step::Add(key) => self.add(HASHER.key(key)),
            Step::AddHash => self.add(HASHER.key(LONG)),
            Step::AddPrefix => self.add_prefix(HASHER.key(SHORT)),
        };
        // A key that is out of order gives an error.
        added.is_ok()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn finish(self) -> Result<Built> {
        self.finish()
    }
}

/// Applies the steps to a builder, and asks the filter for all keys. Returns `None` if the builder
/// refused to finish.
fn check<B: Builder>(mut builder: B, steps: &[Step]) -> Option<()> {
    let mut keys: Vec<&[u8]> = Vec::new();
    for &step in steps {
        if catch_unwind(AssertUnwindSafe(|| builder.add(step))).unwrap_or(true) {
            keys.extend(match step {
                Step::Add(key) => Some(key),
                Step::AddHash => Some(LONG),
                Step::AddPrefix => None,
            });
        }
        assert!(keys.is_empty() || !builder.is_empty(), "{steps:?}");
    }
    let block = FilterBlock::open_any(builder.finish().ok()?.bytes, Verify::AtOpen).unwrap();
    let extractor = block.metadata().extractor.map(str::to_owned);
    let extractor = extractors().into_iter().find(|known| Some(known.name()) == extractor.as_deref());
    for key in keys {
        assert!(block.may_contain(HASHER.key(key)), "{steps:?}: key {key:?}");
        assert!(block.may_contain_range(Included(key), Included(key)), "{steps:?}: range of {key:?}");
        if let Some(extractor) = &extractor {
            let has = |prefix| block.may_contain_prefix(extractor.name(), HASHER.key(prefix));
            assert!(extractor.prefixes(key).all(has), "{steps:?}: prefixes of {key:?}");
        }
    }
    Some(())
}

fn sequences() -> impl Iterator<Item = [Step; 4]> {
    (0..STEPS.len().pow(4)).map(|code| [0, 1, 2, 3].map(|digit| STEPS[code / STEPS.len().pow(digit) % STEPS.len()]))
}

#[test]
fn filter_builders_lose_no_key_in_any_order_of_calls() {
    for kind in ["bloom:10", "grafite:fpr=0.01"] {
        let builders: Vec<_> = settings(kind).iter().filter_map(|options| options.builder(SEED).ok()).collect();
        let check = |builder: &FilterBuilder| sequences().filter_map(|steps| check(builder.clone(), &steps)).count();
        let finished: usize = builders.iter().map(check).sum();
        assert!(finished > 10, "{kind}: {finished}");
    }
}

#[test]
fn partitioned_builders_lose_no_key_in_any_order_of_calls() {
    let builder = |options: &FilterOptions| PartitionedBuilder::new(options, SEED, 1);
    let mut finished = 0;
    for options in settings("bloom:10").iter().filter(|options| builder(options).is_ok()) {
        finished += sequences().filter_map(|steps| check(builder(options).unwrap(), &steps)).count();
    }
    assert!(finished > 40, "{finished}");
}

#[test]
fn settings_that_no_filter_has_are_refused() {
    let refused = |options: FilterOptions| match options.builder(SEED) {
        Err(Error::Invalid { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let (bloom, ranges) = (|| FilterOptions::new(spec("bloom:10")), || FilterOptions::new(spec("grafite:9")));
    let fixed = PrefixExtractor::fixed(8).unwrap();
    assert_eq!(refused(bloom().ranges(spec("bloom:10"))), "range filter");
    assert_eq!(refused(ranges().ranges(spec("grafite:9"))), "range filter");
    assert_eq!(refused(bloom().prefixes(&fixed, WholeKeys::Not).ranges(spec("grafite:9"))), "range filter");
    assert_eq!(refused(ranges().prefixes(&fixed, WholeKeys::Too)), "prefixes");
    for name in ["", "n".repeat(101).as_str()] {
        assert_eq!(refused(bloom().prefixes_by_host(name, WholeKeys::Too)), "extractor name");
    }
    assert!(PartitionedBuilder::new(&bloom().ranges(spec("grafite:9")), SEED, 1).is_err());
}

#[test]
#[cfg(debug_assertions)]
fn builders_do_not_finish_after_a_call_that_panicked() {
    // Debug builds panic because the hash belongs to another hasher. The key is not added.
    let other = KeyHasher::xxh3(filterblock::HashSeed(1));
    let panics = |act: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(act)).is_err());
    for by_hash in [true, false] {
        let mut builder = FilterOptions::new(spec("bloom:10")).builder(SEED).unwrap();
        panics(&mut || if by_hash { builder.add_hash(other.of(LONG)) } else { builder.add(other.key(LONG)) });
        builder.add(HASHER.key(SHORT));
        assert!(matches!(builder.clone().finish(), Err(Error::Invalid { what: "keys", .. })));
        assert!(matches!(builder.finish_compact(), Err(Error::Invalid { what: "keys", .. })));
    }
    let mut builder = PartitionedBuilder::new(&FilterOptions::new(spec("bloom:10")), SEED, 10).unwrap();
    panics(&mut || builder.add(other.key(LONG)).unwrap());
    assert!(builder.add(HASHER.key(LONG)).is_err() && builder.finish().is_err());
}
