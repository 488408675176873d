//! Tests that no order of settings, keys and panics gives a filter that denies a key.

use std::ops::Bound::Included;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::support::{SEED, TABLE, spec};
use filterblock::{Error, FilterBlock, FilterBuilder, KeyHasher, PartitionedBuilder, PrefixExtractor, Result, Verify};

static HASHER: KeyHasher = KeyHasher::xxh3(SEED);
/// `fixed:4` takes no prefix from this key, and the extractor `fails` panics.
const SHORT: &[u8] = b"ab";
const LONG: &[u8] = b"abcd/ef";

#[derive(Debug, Clone, Copy)]
enum Step {
    Fixed(bool),
    Capped(bool),
    Fails(bool),
    Ranges,
    TableId,
    Add(&'static [u8]),
    AddHashed(&'static [u8]),
    AddHash,
    AddPrefix,
}

const STEPS: [Step; 11] = [
    Step::Fixed(false),
    Step::Capped(true),
    Step::Capped(false),
    Step::Fails(true),
    Step::Ranges,
    Step::TableId,
    Step::Add(SHORT),
    Step::Add(LONG),
    Step::AddHashed(SHORT),
    Step::AddHash,
    Step::AddPrefix,
];

fn extractors() -> [PrefixExtractor; 3] {
    // The hook of panics prints nothing for `resume_unwind`.
    let fails = |key: &[u8]| if key == SHORT { resume_unwind(Box::new(())) } else { Some(1) };
    let fails = PrefixExtractor::named("fails", fails).unwrap();
    [PrefixExtractor::fixed(4).unwrap(), PrefixExtractor::capped(2).unwrap(), fails]
}

/// The two builders, as the steps call them.
trait Builder: Sized {
    /// Returns the copy of a host that goes on with it after a refused setting.
    fn copy(&self) -> Option<Self>;
    fn set(self, step: Step) -> Result<Self>;
    /// Returns whether the host may expect the key in the filter.
    fn add(&mut self, step: Step) -> bool;
    fn is_empty(&self) -> bool;
    fn finish(self) -> Result<Vec<u8>>;
}

impl Builder for FilterBuilder {
    fn copy(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn set(self, step: Step) -> Result<Self> {
        let [fixed, capped, fails] = extractors();
        match step {
            Step::Fixed(whole_keys_too) => self.with_extractor(&fixed, whole_keys_too),
            Step::Capped(whole_keys_too) => self.with_extractor(&capped, whole_keys_too),
            Step::Fails(whole_keys_too) => self.with_extractor(&fails, whole_keys_too),
            Step::Ranges => self.with_ranges("grafite:fpr=0.01".parse()?),
            _ => Ok(self.with_table_id(TABLE)),
        }
    }

    fn add(&mut self, step: Step) -> bool {
        match step {
            Step::Add(key) => self.add(key),
            Step::AddHashed(key) => self.add_hashed(key, HASHER.of(key)),
            Step::AddHash => self.add_hash(HASHER.of(LONG)),
            _ => self.add_prefix(SHORT),
        }
        true
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn finish(self) -> Result<Vec<u8>> {
        self.finish()
    }
}

impl Builder for PartitionedBuilder {
    fn copy(&self) -> Option<Self> {
        None
    }

    fn set(self, step: Step) -> Result<Self> {
        let [fixed, capped, fails] = extractors();
        match step {
            Step::Fixed(whole_keys_too) => self.with_extractor(&fixed, whole_keys_too),
            Step::Capped(whole_keys_too) => self.with_extractor(&capped, whole_keys_too),
            Step::Fails(whole_keys_too) => self.with_extractor(&fails, whole_keys_too),
            Step::Ranges => Ok(self.with_partition_len_bytes(100)),
            _ => Ok(self.with_table_id(TABLE)),
        }
    }

    fn add(&mut self, step: Step) -> bool {
        let added = match step {
            Step::Add(key) => self.add(key),
            Step::AddHashed(key) => self.add_hashed(key, HASHER.of(key)),
            Step::AddHash => self.add(LONG),
            _ => self.add_prefix(SHORT),
        };
        // A key that is out of order gives an error.
        added.is_ok()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn finish(self) -> Result<Vec<u8>> {
        self.finish()
    }
}

/// Applies the steps to a builder, and asks the filter for all keys. Returns `None` if the builder
/// refused to finish.
fn check<B: Builder>(mut builder: B, steps: &[Step]) -> Option<()> {
    let mut keys: Vec<&[u8]> = Vec::new();
    for &step in steps {
        let key = match step {
            Step::Add(key) | Step::AddHashed(key) => Some(key),
            Step::AddHash => Some(LONG),
            Step::AddPrefix => None,
            setting => {
                let extractor = matches!(setting, Step::Fixed(_) | Step::Capped(_) | Step::Fails(_));
                let copy = builder.copy();
                builder = match builder.set(setting) {
                    Ok(set) => {
                        assert!(keys.is_empty() || !extractor, "{steps:?}: an extractor was declared after a key");
                        set
                    }
                    Err(error) => {
                        assert!(matches!(error, Error::Invalid { .. }), "{steps:?}: {error}");
                        copy?
                    }
                };
                continue;
            }
        };
        if catch_unwind(AssertUnwindSafe(|| builder.add(step))).unwrap_or(true) {
            keys.extend(key);
        }
        assert!(keys.is_empty() || !builder.is_empty(), "{steps:?}");
    }
    let block = FilterBlock::open_any(builder.finish().ok()?, Verify::AtOpen).unwrap();
    let extractor = block.metadata().extractor.map(str::to_owned);
    let extractor = extractors().into_iter().find(|known| Some(known.name()) == extractor.as_deref());
    for key in keys {
        assert!(block.may_contain(key), "{steps:?}: key {key:?}");
        assert!(block.may_contain_range(Included(key), Included(key)), "{steps:?}: range of {key:?}");
        if let Some(extractor) = &extractor {
            let has = |prefix| block.may_contain_prefix(extractor.name(), prefix);
            assert!(extractor.prefixes(key).all(has), "{steps:?}: prefixes of {key:?}");
        }
    }
    Some(())
}

fn sequences() -> impl Iterator<Item = [Step; 4]> {
    (0..STEPS.len().pow(4)).map(|code| [0, 1, 2, 3].map(|digit| STEPS[code / STEPS.len().pow(digit) % STEPS.len()]))
}

#[test]
fn filter_builders_refuse_settings_that_come_after_a_key() {
    for kind in ["bloom:10", "grafite:fpr=0.01"] {
        let finished = sequences().filter_map(|steps| check(FilterBuilder::new(spec(kind), SEED), &steps)).count();
        assert!(finished > 1_000, "{kind}: {finished}");
    }
}

#[test]
fn partitioned_builders_refuse_settings_that_come_after_a_key() {
    let new = || PartitionedBuilder::new(spec("bloom:10"), SEED, 1);
    let finished = sequences().filter_map(|steps| check(new(), &steps)).count();
    assert!(finished > 1_000, "{finished}");
}

#[test]
#[cfg(debug_assertions)]
fn builders_do_not_finish_after_a_call_that_panicked() {
    // Debug builds panic because the hash belongs to another hasher. The key is not added.
    let wrong = KeyHasher::xxh3(filterblock::HashSeed(1)).of(LONG);
    let panics = |act: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(act)).is_err());
    for act in [FilterBuilder::add_hash, |builder, hash| builder.add_hashed(LONG, hash)] as [fn(&mut _, _); 2] {
        let mut builder = FilterBuilder::new(spec("bloom:10"), SEED);
        panics(&mut || act(&mut builder, wrong));
        builder.add(SHORT);
        for finish in [FilterBuilder::finish, FilterBuilder::finish_compact] {
            assert!(matches!(finish(builder.clone()), Err(Error::Invalid { what: "keys", .. })));
        }
    }
    let mut builder = PartitionedBuilder::new(spec("bloom:10"), SEED, 10);
    panics(&mut || builder.add_hashed(LONG, wrong).unwrap());
    assert!(builder.add(LONG).is_err() && builder.finish().is_err());
}
