//! Measures the time of gets: the mean and the 99th percentile.

use std::time::Instant;

/// The times of one round of gets, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// The mean over the gets that were timed together. The clock is read once before these gets
    /// and once after them.
    pub mean_ns: f64,
    /// The 99th percentile of the gets that were timed one by one. Each time includes reading the
    /// clock.
    pub p99_ns: f64,
}

/// Measures `get` in two passes over `keys`. The first pass measures all calls together, and the
/// second pass measures each call alone.
pub fn times<K>(keys: &[K], mut get: impl FnMut(&K)) -> Times {
    let start = Instant::now();
    keys.iter().for_each(&mut get);
    let total = start.elapsed();
    let mut single: Vec<u64> = keys
        .iter()
        .map(|key| {
            let start = Instant::now();
            get(key);
            u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
        })
        .collect();
    single.sort_unstable();
    let p99 = single.get(single.len() * 99 / 100).copied().unwrap_or_default();
    Times { mean_ns: total.as_secs_f64() * 1e9 / keys.len().max(1) as f64, p99_ns: p99 as f64 }
}

/// Returns the median of the means and the median of the percentiles over all rounds.
#[must_use]
pub fn median(rounds: &[Times]) -> Times {
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    Times {
        mean_ns: middle(rounds.iter().map(|times| times.mean_ns).collect()),
        p99_ns: middle(rounds.iter().map(|times| times.p99_ns).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_asked_twice() {
        let mut asked = [0; 3];
        let times = times(&[0usize, 1, 2], |&key| asked[key] += 1);
        assert_eq!(asked, [2; 3]);
        assert!(times.mean_ns >= 0.0 && times.p99_ns >= 0.0);
    }

    #[test]
    fn median_is_taken_of_means_and_of_percentiles() {
        let rounds = [(1.0, 30.0), (3.0, 10.0), (2.0, 20.0)].map(|(mean_ns, p99_ns)| Times { mean_ns, p99_ns });
        assert_eq!(median(&rounds), Times { mean_ns: 2.0, p99_ns: 20.0 });
    }
}
