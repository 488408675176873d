//! Compares filters with a map of counts, under random operations.
//!
//! The filters accept keys one by one. They are small, so that keys share cells, counters saturate
//! and buckets overflow.

use std::collections::HashMap;

use crate::support::key;
use filterblock::{FilterBlock, HashSeed, KeyHash, Verify};
use filterblock_family::{
    Bloom, CounterBits, Counting, DLeft, DynamicCounting, Frequency, Growth, Membership, Partitioned, Removable,
    Scalable, Spectral, SpectralMode, Stable, StableShape,
};
use filterblock_family::{Error, Result};
use proptest::prelude::*;

const SEED: HashSeed = HashSeed(0x5eed_0000_0000_0011);
/// The number of keys that may be added.
const KEYS: u8 = 120;

/// The operations of a filter under test. The optional ones return `None` if the filter does not
/// support them.
trait Subject: Membership {
    fn add(&mut self, hash: KeyHash) -> Result<()>;
    fn clear_all(&mut self);

    fn take(&mut self, _: KeyHash) -> Option<Result<()>> {
        None
    }

    /// Returns an upper bound on the key's count, or `None` if the filter does not count.
    fn count(&self, _: KeyHash) -> Option<u64> {
        None
    }

    fn frozen(&self) -> Option<Bloom> {
        None
    }
}

macro_rules! subject {
    ($type:ty, $add:expr $(, $capability:ident)*) => {
        impl Subject for $type {
            fn add(&mut self, hash: KeyHash) -> Result<()> {
                let add: fn(&mut Self, KeyHash) -> Result<()> = $add;
                add(self, hash)
            }

            fn clear_all(&mut self) {
                self.clear();
            }

            $(subject!(@$capability);)*
        }
    };
    (@removable) => {
        fn take(&mut self, hash: KeyHash) -> Option<Result<()>> {
            Some(self.remove_hash(hash))
        }
    };
    (@spectral) => {
        fn take(&mut self, hash: KeyHash) -> Option<Result<()>> {
            (self.mode() != SpectralMode::MinimumIncrease).then(|| self.remove_hash(hash))
        }
    };
    (@frequency) => {
        fn count(&self, hash: KeyHash) -> Option<u64> {
            Some(self.estimate_hash(hash))
        }
    };
    (@bits) => {
        fn frozen(&self) -> Option<Bloom> {
            Some(self.to_bloom().unwrap())
        }
    };
    (@itself) => {
        fn frozen(&self) -> Option<Bloom> {
            Some(self.clone())
        }
    };
}

subject!(Bloom, |filter, hash| Ok(_ = filter.insert_hash(hash)), itself);
subject!(Partitioned, |filter, hash| Ok(_ = filter.insert_hash(hash)));
subject!(Scalable, |filter, hash| filter.insert_hash(hash).map(drop));
subject!(
    Counting,
    |filter, hash| {
        filter.insert_hash(hash);
        Ok(())
    },
    removable,
    frequency,
    bits
);
subject!(DLeft, |filter, hash| filter.insert_hash(hash), removable, frequency);
subject!(Spectral, |filter, hash| filter.insert_hash(hash), spectral, frequency, bits);
subject!(DynamicCounting, |filter, hash| filter.insert_hash(hash), removable, frequency, bits);

fn subjects() -> Vec<(&'static str, Box<dyn Subject>)> {
    let spectral = |mode| Box::new(Spectral::with_shape(400, 4, 32, mode, SEED).unwrap());
    let narrow = |mode| Box::new(Spectral::with_shape(400, 4, 3, mode, SEED).unwrap());
    let counting = |bits| Box::new(Counting::with_shape(400, 4, bits, SEED).unwrap());
    let scalable =
        |factor, tightening| Box::new(Scalable::with_fpr(3, 0.1, Growth { factor, tightening }, SEED).unwrap());
    vec![
        ("Bloom", Box::new(Bloom::with_shape(400, 4, SEED).unwrap())),
        ("Partitioned", Box::new(Partitioned::with_shape(101, 4, SEED).unwrap())),
        ("Scalable", scalable(2, 0.9)),
        ("Scalable by four", scalable(4, 0.5)),
        ("Counting, 2 bits", counting(CounterBits::Two)),
        ("Counting, 4 bits", counting(CounterBits::Four)),
        ("Counting, 8 bits", counting(CounterBits::Eight)),
        // The first of these three filters has remainders so short that keys often coincide. The
        // second has 64 cells for 120 keys.
        ("DLeft, short", Box::new(DLeft::with_shape(3, 3, SEED).unwrap())),
        ("DLeft, overfull", Box::new(DLeft::with_shape(2, 12, SEED).unwrap())),
        ("DLeft", Box::new(DLeft::with_fpr(120, 0.01, SEED).unwrap())),
        ("Spectral, minimum selection", spectral(SpectralMode::MinimumSelection)),
        ("Spectral, minimum increase", spectral(SpectralMode::MinimumIncrease)),
        ("Spectral, recurring minimum", spectral(SpectralMode::RecurringMinimum)),
        ("Spectral, minimum selection, narrow", narrow(SpectralMode::MinimumSelection)),
        ("Spectral, minimum increase, narrow", narrow(SpectralMode::MinimumIncrease)),
        ("Spectral, recurring minimum, narrow", narrow(SpectralMode::RecurringMinimum)),
        ("DynamicCounting", Box::new(DynamicCounting::with_shape(400, 4, 1, SEED).unwrap())),
        ("DynamicCounting, tiny", Box::new(DynamicCounting::with_shape(16, 2, 1, SEED).unwrap())),
    ]
}

#[derive(Debug, Clone)]
enum Op {
    Add(u8),
    /// Adds one key many times, so that counters saturate or become wider.
    AddMany(u8, u8),
    Remove(u8),
    RemoveMany(u8, u8),
    Clear,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    // Eight keys are chosen often, so that many removals find a present key.
    let which = prop_oneof![0..8u8, 0..KEYS];
    let op = prop_oneof![
        12 => which.clone().prop_map(Op::Add),
        2 => (which.clone(), 1..40u8).prop_map(|(key, times)| Op::AddMany(key, times)),
        10 => which.clone().prop_map(Op::Remove),
        2 => (which, 1..40u8).prop_map(|(key, times)| Op::RemoveMany(key, times)),
        1 => Just(Op::Clear),
    ];
    prop::collection::vec(op, 1..160)
}

fn hash(key_number: u8) -> KeyHash {
    KeyHash::of(&key(key_number.into()), SEED)
}

/// A filter and its model.
struct Pair {
    name: &'static str,
    filter: Box<dyn Subject>,
    model: HashMap<u8, u64>,
}

impl Pair {
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Add(key) => self.add(key),
            Op::AddMany(key, times) => (0..times).for_each(|_| self.add(key)),
            Op::Remove(key) => self.remove(key),
            Op::RemoveMany(key, times) => (0..times).for_each(|_| self.remove(key)),
            Op::Clear => {
                self.filter.clear_all();
                self.model.clear();
                assert!((0..2 * KEYS).all(|key| !self.filter.may_contain_hash(hash(key))), "{}", self.name);
            }
        }
    }

    fn add(&mut self, key: u8) {
        match self.filter.add(hash(key)) {
            Ok(()) => *self.model.entry(key).or_default() += 1,
            Err(Error::NoRoom { .. }) => {
                assert!(self.name.starts_with("DLeft, "), "{} refuses a key although it should have space", self.name);
                assert!(!self.filter.may_contain_hash(hash(key)), "{} refuses a present key", self.name);
            }
            Err(error) => panic!("{}: {error}", self.name),
        }
    }

    /// Removes a key from the filter and the model. Does nothing if the key is absent and the
    /// filter answers "maybe", because the API forbids such a removal.
    fn remove(&mut self, key: u8) {
        let count = self.model.get(&key).copied().unwrap_or(0);
        if count == 0 && self.filter.may_contain_hash(hash(key)) {
            return;
        }
        match self.filter.take(hash(key)) {
            None => {}
            Some(Ok(())) if count == 1 => drop(self.model.remove(&key)),
            Some(Ok(())) if count > 1 => drop(self.model.insert(key, count - 1)),
            Some(Err(Error::KeyAbsent)) if count == 0 => {}
            other => panic!("{}: removing a key with count {count} returned {other:?}", self.name),
        }
    }

    fn check(&self) {
        let block =
            self.filter.frozen().map(|bloom| FilterBlock::open_any(bloom.freeze().unwrap(), Verify::AtOpen).unwrap());
        for key in 0..2 * KEYS {
            let (name, hash) = (self.name, hash(key));
            let (wanted, answer) = (self.model.get(&key).copied().unwrap_or(0), self.filter.may_contain_hash(hash));
            assert!(answer || wanted == 0, "{name} denies key {key}, which was added {wanted} times");
            if let Some(estimate) = self.filter.count(hash) {
                assert!(
                    estimate >= wanted,
                    "{name} estimates {estimate} for key {key}, which was added {wanted} times"
                );
                assert_eq!(estimate > 0, answer, "{name}: {key}");
            }
            if let Some(block) = &block {
                assert_eq!(block.may_contain_hash(hash), answer, "{name}, frozen: {key}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn present_keys_are_never_denied_nor_counted_too_low(ops in ops()) {
        for (name, filter) in subjects() {
            let mut pair = Pair { name, filter, model: HashMap::new() };
            for (i, op) in ops.iter().enumerate() {
                pair.apply(op);
                if i % 8 == 0 || i + 1 == ops.len() {
                    pair.check();
                }
            }
        }
    }

    /// The stable filter forgets keys, but never the last `2^cell_bits - 1` keys.
    #[test]
    fn a_stable_filter_keeps_the_most_recent_keys(
        keys in prop::collection::vec(0..KEYS, 1..300),
        decrements in 1..8u64,
        cell_bits in 1..4u32,
    ) {
        let shape = StableShape { cells: 400, cell_bits, probes: 3, decrements };
        let mut filter = Stable::with_shape(shape, SEED).unwrap();
        for (i, &key) in keys.iter().enumerate() {
            let was_there = filter.may_contain_hash(hash(key));
            assert_eq!(filter.insert_hash(hash(key)), !was_there);
            // A key sets its cells to their maximum, and each later key decrements a cell at most
            // once. So the filter still has the last `2^cell_bits - 1` keys.
            for &recent in keys[..=i].iter().rev().take((1 << cell_bits) - 1) {
                assert!(filter.may_contain_hash(hash(recent)), "{shape:?} forgets the recent key {recent}");
            }
        }
    }
}
