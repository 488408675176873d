//! Makes values and questions. A key and its value are functions of a number, so the benchmark
//! keeps no copy of the contents of a store.

use filterblock_testkit::measure::keys::{ABSENT, Key, Mix, Random, key, mix};

/// The distribution of the ranks of the keys that queries ask for. Each rank selects a key. Several
/// ranks may select the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Every rank is equally likely.
    Uniform,
    /// The probability of rank `r`, counted from 1, is proportional to `r^-0.99`, as in YCSB.
    Zipf,
}

impl Spread {
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }
}

/// A key, and the value that a store must return for it.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    pub key: Key,
    /// The first eight bytes of the value, or `None` for an absent key.
    stamp: Option<[u8; 8]>,
    value_len: u16,
}

impl Question {
    /// Returns the question for the key with this number. Numbers from [`ABSENT`] on are absent
    /// keys.
    pub fn new(number: u64, value_len: u16) -> Self {
        let stamp = (number < ABSENT).then(|| stamp(number, 0));
        Self { key: key(number), stamp, value_len }
    }

    /// Returns whether an answer is right. For an absent key, only `None` is right. For a present
    /// key, the value must have the right length and the right first eight bytes.
    #[inline]
    pub fn accepts(&self, found: Option<&[u8]>) -> bool {
        match (found, &self.stamp) {
            (None, None) => true,
            (Some(value), Some(stamp)) => value.len() == usize::from(self.value_len) && value.starts_with(stamp),
            _ => false,
        }
    }
}

fn stamp(number: u64, word: u64) -> [u8; 8] {
    mix(number ^ (word + 1) << 48).to_le_bytes()
}

/// Returns the value of the key with this number: `len` pseudo-random bytes.
pub fn value(number: u64, len: u16) -> Vec<u8> {
    (0..).flat_map(|word| stamp(number, word)).take(len.into()).collect()
}

/// Returns `count` questions for a store of the keys 0 to `n` - 1.
pub fn questions(mix: Mix, spread: Spread, n: usize, count: usize, value_len: u16) -> Vec<Question> {
    let mut random = Random::new(100 + mix as u64 * 2 + spread as u64);
    let zipf = Zipf::new(n);
    let question = |_| {
        let is_present = match mix {
            Mix::Negative => false,
            Mix::Positive => true,
            Mix::Mixed => random.below(2) == 1,
        };
        let rank = match spread {
            Spread::Uniform => random.below(n as u64),
            Spread::Zipf => zipf.rank(random.below(1 << 53) as f64 / (1u64 << 53) as f64),
        };
        // The most frequent keys are spread over the order of loading.
        let number = filterblock_testkit::measure::keys::mix(rank) % n as u64;
        Question::new(if is_present { number } else { ABSENT + number }, value_len)
    };
    (0..count).map(question).collect()
}

/// A generator of ranks with Zipf's distribution: Gray et al., "Quickly Generating Billion-Record
/// Synthetic Databases", 1994.
struct Zipf {
    n: f64,
    zeta: f64,
    eta: f64,
}

const THETA: f64 = 0.99;

impl Zipf {
    fn new(n: usize) -> Self {
        let zeta = |n: usize| (1..=n).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
        let zeta_n = zeta(n);
        let n = n as f64;
        let eta = (1.0 - (2.0 / n).powf(1.0 - THETA)) / (1.0 - zeta(2) / zeta_n);
        Self { n, zeta: zeta_n, eta }
    }

    /// Returns the rank, counted from 0, for a uniform number in [0, 1).
    fn rank(&self, uniform: f64) -> u64 {
        let place = uniform * self.zeta;
        if place < 1.0 {
            return 0;
        }
        if place < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to n")]
        let rank = (self.n * (self.eta * uniform - self.eta + 1.0).powf(1.0 / (1.0 - THETA))) as u64;
        rank
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_answers_are_refused() {
        let (present, absent) = (Question::new(7, 100), Question::new(ABSENT + 7, 100));
        let right = value(7, 100);
        assert!(present.accepts(Some(&right)) && absent.accepts(None));
        assert!(!present.accepts(None) && !absent.accepts(Some(&right)));
        assert!(!present.accepts(Some(&value(8, 100))) && !present.accepts(Some(&right[..99])));
    }

    #[test]
    fn zipf_asks_for_few_keys_most_of_the_time() {
        let n = 100_000;
        let share = |spread| {
            let mut keys: Vec<_> = questions(Mix::Positive, spread, n, 50_000, 8).iter().map(|q| q.key).collect();
            keys.sort_unstable();
            let times: Vec<_> = keys.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
            times.into_iter().max().unwrap()
        };
        // The most frequent key has 1 / zeta(100,000) of all questions, about 1 in 12.8.
        assert!((3_500..4_300).contains(&share(Spread::Zipf)), "{}", share(Spread::Zipf));
        assert!(share(Spread::Uniform) < 20);
    }
}
