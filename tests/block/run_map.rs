//! Tests the map from keys to runs: no key of a run is denied, and memory stays bounded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use filterblock::{HashSeed, KeyHash, KeyHasher, RunMap, Runs};

use filterblock_testkit::Random;

fn hasher() -> KeyHasher {
    KeyHasher::xxh3(HashSeed(42))
}

/// Returns the sorted hashes of `count` keys, from the key `first` on.
fn hashes(first: u64, count: u64) -> Vec<KeyHash> {
    let mut hashes: Vec<_> = (first..first + count).map(|i| hasher().of(&i.to_le_bytes())).collect();
    hashes.sort_unstable();
    hashes
}

fn of(runs: impl IntoIterator<Item = u8>) -> Runs {
    let mut set = Runs::NONE;
    runs.into_iter().for_each(|run| set.insert(run));
    set
}

#[test]
fn runs_are_a_set_of_256_numbers() {
    let mut runs = Runs::NONE;
    for run in 0..=255 {
        assert!(!runs.contains(run));
        runs.insert(run);
        assert!(runs.contains(run) && !runs.is_empty());
    }
    assert!(runs.iter().eq(0..=255));
    (0..=255).filter(|run| run % 3 != 0).for_each(|run| runs.remove(run));
    assert!(runs.iter().eq((0..=255).filter(|run| run % 3 == 0)));
    assert_eq!(runs, of((0..=255).step_by(3)));
}

/// More than 64 and more than 128 runs are told apart.
#[test]
fn every_key_finds_its_run() {
    for (num_runs, keys) in [(1, 70_000), (5, 9_000), (36, 2_778), (100, 1_000), (256, 300), (256, 1)] {
        let map = RunMap::new(&hasher(), num_runs * keys).unwrap();
        let mut known = Runs::NONE;
        for run in 0..num_runs {
            assert!(map.add_run(run as u8, &hashes(run * keys, keys)), "{num_runs} runs, run {run}");
            known.insert(run as u8);
        }
        let mut others = 0;
        for run in 0..num_runs {
            for hash in hashes(run * keys, keys) {
                let found = map.ask(hash, &known);
                assert!(found.contains(run as u8), "{num_runs} runs: a key of run {run} is denied");
                others += found.iter().count() as u64 - 1;
            }
        }
        assert!(others <= num_runs * keys / 500 + 3, "{num_runs} runs: {others} false positives of present keys");
        assert!(map.len_bytes() * 8 <= num_runs * keys * 36 + 8_000, "{num_runs} runs: {} bytes", map.len_bytes());
    }
}

#[test]
fn absent_keys_have_the_announced_rate() {
    let (runs, keys) = (36, 20_000);
    let map = RunMap::new(&hasher(), runs * keys).unwrap();
    let known = of(0..runs as u8);
    assert!((0..runs).all(|run| map.add_run(run as u8, &hashes(run * keys, keys))));
    let absent = hashes(runs * keys, 1_000_000);
    let mut answers = vec![known; absent.len()];
    map.ask_batch(&absent, &known, &mut answers);
    let false_positives: usize = answers.iter().map(|runs| runs.iter().count()).sum();
    // 22 prints of 16 bits: 0.034 %.
    assert!((250..450).contains(&false_positives), "{false_positives} of a million");
    for (hash, answer) in absent.iter().zip(&answers).take(10_000) {
        assert_eq!(map.ask(*hash, &known), *answer);
    }
    // A batch changes only the answers of its hashes.
    let mut answers = [known; 3];
    map.ask_batch(&absent[..2], &known, &mut answers);
    assert_eq!(answers[2], known);
    map.ask_batch(&absent[..5], &known, &mut answers[..1]);
}

#[test]
fn one_key_in_all_of_256_runs_takes_one_spilled_entry() {
    let map = RunMap::new(&hasher(), 256 * 11).unwrap();
    for run in 0..=255 {
        let mut run_of = hashes(1_000 + 10 * u64::from(run), 10);
        run_of.push(hasher().of(b"hot"));
        run_of.push(hasher().of(b"hot"));
        assert!(map.add_run(run, &run_of), "run {run} is refused");
    }
    let all = of(0..=255);
    assert_eq!(map.ask(hasher().of(b"hot"), &all), all);
    assert!(map.len_bytes() < 256 * 11 * 5 + 8_000, "{} bytes", map.len_bytes());
    assert!(map.ask(hasher().of(b"another"), &all).is_empty());
    // A version sees its own runs only.
    assert_eq!(map.ask(hasher().of(b"hot"), &of([3, 200])), of([3, 200]));
    assert!(map.ask(hasher().of(b"hot"), &Runs::NONE).is_empty());
}

/// Zipf's distribution with exponent 0.99: hot keys are in every run.
#[test]
fn overwritten_keys_find_all_their_runs() {
    let (num_runs, draws, universe) = (100u8, 2_000, 200_000u64);
    let map = RunMap::new(&hasher(), u64::from(num_runs) * draws).unwrap();
    let weights: Vec<f64> = (1..=universe)
        .scan(0.0, |sum, rank| {
            *sum += (rank as f64).powf(-0.99);
            Some(*sum)
        })
        .collect();
    let mut random = Random(7);
    let mut model: BTreeMap<u64, Runs> = BTreeMap::new();
    let mut known = Runs::NONE;
    for run in 0..num_runs {
        let keys: Vec<u64> = (0..draws)
            .map(|_| {
                let at = random.next() as f64 / u64::MAX as f64 * weights.last().unwrap();
                weights.partition_point(|weight| *weight < at) as u64
            })
            .collect();
        let hashes: Vec<_> = keys.iter().map(|key| hasher().of(&key.to_le_bytes())).collect();
        assert!(map.add_run(run, &hashes), "run {run} is refused");
        known.insert(run);
        keys.into_iter().for_each(|key| model.entry(key).or_default().insert(run));
    }
    for (key, runs) in &model {
        let found = map.ask(hasher().of(&key.to_le_bytes()), &known);
        assert!(runs.iter().all(|run| found.contains(run)), "key {key}");
    }
}

/// All keys share a line, as an attacker who knows the seed can choose them.
#[test]
fn keys_of_one_line_are_refused_and_deny_nothing() {
    let map = RunMap::new(&hasher(), 1_000_000).unwrap();
    let usual = hashes(0, 100_000);
    assert!(map.add_run(0, &usual));
    let chosen: Vec<_> = (1..=10_000u64).map(|i| KeyHash::from_raw(i << 36)).collect();
    assert!(!map.add_run(1, &chosen), "a line has no limit");
    // Every answer has the refused run, if the version has it, and a run that nobody added.
    let known = of([0, 1, 9]);
    assert!(usual.iter().all(|&hash| map.ask(hash, &known) == known));
    assert_eq!(map.ask(hasher().of(b"absent"), &known), of([1, 9]));
    assert!(map.len_bytes() < 1_000_000 * 36 / 8 + 20_000, "{} bytes", map.len_bytes());
    // The refused run may come again under its number.
    assert!(map.add_run(1, &hashes(500_000, 1_000)));
    assert!(hashes(500_000, 1_000).iter().all(|&hash| map.ask(hash, &of([0, 1])).contains(1)));
    // A copy has room in the line again. It holds only the kept runs.
    let copy = map.keeping(&of([0])).unwrap();
    assert_eq!(copy.ask(hasher().of(b"absent"), &known), of([1, 9]));
    assert!(copy.add_run(2, &chosen[..20]));
    assert!(chosen[..20].iter().all(|&hash| copy.ask(hash, &of([0, 2])).contains(2)));
    assert!(usual.iter().all(|&hash| copy.ask(hash, &of([0, 2])).contains(0)));
}

#[test]
fn a_map_that_is_too_small_refuses_runs_and_keeps_the_others() {
    let map = RunMap::new(&hasher(), 10_000).unwrap();
    let (mut known, mut refused) = (Runs::NONE, 0);
    for run in 0..40 {
        if map.add_run(run, &hashes(u64::from(run) * 1_000, 1_000)) { known.insert(run) } else { refused += 1 }
    }
    assert!(known.contains(9) && refused > 20, "{refused} of 40 runs refused");
    for run in known.iter() {
        assert!(hashes(u64::from(run) * 1_000, 1_000).iter().all(|&hash| map.ask(hash, &known).contains(run)));
    }
    assert!(map.len_bytes() < 10_000 * 60 / 8 + 10_000, "{} bytes", map.len_bytes());
}

/// A line that had spilled gets its spilled entries back when runs are dropped. Otherwise the line is no
/// longer full, and the entries would be denied.
#[test]
fn dropped_runs_leave_the_others_whole() {
    let mut random = Random(3);
    for round in 0..30 {
        let num_runs = [8u8, 80, 250][round % 3];
        let map = RunMap::new(&hasher(), u64::from(num_runs) * 100).unwrap();
        // Few distinct keys: many lines are full.
        let keys: Vec<Vec<u64>> = (0..num_runs).map(|_| (0..100).map(|_| random.next() % 1_500).collect()).collect();
        let mut known = Runs::NONE;
        for (run, keys) in (0..).zip(&keys) {
            let hashes: Vec<_> = keys.iter().map(|key| hasher().of(&key.to_le_bytes())).collect();
            if map.add_run(run, &hashes) {
                known.insert(run);
            }
        }
        assert!(known.iter().count() > usize::from(num_runs) / 2);
        let mut map = map;
        while !known.is_empty() {
            let dropped: Vec<u8> = known.iter().filter(|_| random.next().is_multiple_of(3)).collect();
            dropped.into_iter().for_each(|run| known.remove(run));
            map = map.keeping(&known).unwrap();
            for run in known.iter() {
                for key in &keys[usize::from(run)] {
                    assert!(map.ask(hasher().of(&key.to_le_bytes()), &known).contains(run), "round {round}");
                }
            }
        }
        assert_eq!(map.ask(hasher().of(&1u64.to_le_bytes()), &Runs::ALL), Runs::ALL, "an empty map holds a run");
    }
}

#[test]
fn versions_ask_while_runs_are_added() {
    let map = RunMap::new(&hasher(), 200_000).unwrap();
    let (published, is_done) = (AtomicU8::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (map, published, is_done) = (&map, &published, &is_done);
            scope.spawn(move || {
                let mut random = Random(thread);
                while !is_done.load(Ordering::Relaxed) {
                    let version = published.load(Ordering::Acquire);
                    // The version also knows the run that is being added.
                    let known = of(0..=version);
                    for _ in 0..1_000 {
                        let key = random.next() % 200_000;
                        let found = map.ask(hasher().of(&key.to_le_bytes()), &known);
                        let run = (key / 1_000) as u8;
                        assert!(run > version || found.contains(run), "a key of run {run} of {version} is denied");
                    }
                }
            });
        }
        for run in 0..200 {
            if !map.add_run(run, &hashes(u64::from(run) * 1_000, 1_000)) {
                break;
            }
            published.store(run + 1, Ordering::Release);
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(published.into_inner(), 200, "a run is refused");
}

#[test]
fn a_map_that_no_machine_can_hold_is_an_error() {
    for num_keys in [1 << 62, u64::MAX] {
        let error = RunMap::new(&hasher(), num_keys).unwrap_err();
        assert!(matches!(error, filterblock::Error::TooLarge { .. }), "{error}");
    }
    let empty = RunMap::new(&hasher(), 0).unwrap();
    assert!(empty.add_run(7, &[]) && empty.add_run(7, &hashes(0, 30)));
    assert!(hashes(0, 30).iter().all(|&hash| empty.ask(hash, &of([7])).contains(7)));
}

/// ```text
/// cargo test --release --test block -- --ignored --nocapture a_billion_present_keys
/// ```
#[test]
#[ignore = "takes minutes"]
fn a_billion_present_keys_find_their_runs() {
    let ask_all = |map: &RunMap, known: &Runs, runs: &[Vec<KeyHash>]| -> u64 {
        let mut answers = [Runs::NONE; 32];
        for run in known.iter() {
            let hashes = &runs[usize::from(run)];
            for hashes in hashes.chunks(32) {
                map.ask_batch(hashes, known, &mut answers);
                assert!(
                    answers[..hashes.len()].iter().all(|found| found.contains(run)),
                    "a key of run {run} is denied"
                );
            }
            assert!(hashes.iter().all(|&hash| map.ask(hash, known).contains(run)), "a key of run {run} is denied");
        }
        known.iter().map(|run| 2 * runs[usize::from(run)].len() as u64).sum()
    };
    let ask_half = |seed: u64| {
        let (mut random, mut asked) = (Random(seed), 0);
        while asked < 500_000_000 {
            let num_runs = 1 + random.next() % 256;
            let universe = 1 + random.next() % 2_000_000;
            let key = |random: &mut Random| hasher().of(&(random.next() % universe).to_le_bytes());
            let len = |random: &mut Random| random.next() % (2_000_000 / num_runs);
            let runs: Vec<Vec<_>> =
                (0..num_runs).map(|_| (0..len(&mut random)).map(|_| key(&mut random)).collect()).collect();
            let map = RunMap::new(&hasher(), runs.iter().map(|run| run.len() as u64).sum()).unwrap();
            for (run, hashes) in (0..).zip(&runs) {
                let _ = map.add_run(run, hashes);
            }
            let mut known = of((0..num_runs).map(|run| run as u8));
            asked += ask_all(&map, &known, &runs);
            (0..=255).filter(|_| random.next().is_multiple_of(3)).for_each(|run| known.remove(run));
            asked += ask_all(&map.keeping(&known).unwrap(), &known, &runs);
        }
        asked
    };
    let asked: u64 = std::thread::scope(|scope| {
        let halves = [1, 2].map(|seed| scope.spawn(move || ask_half(seed)));
        halves.into_iter().map(|half| half.join().unwrap()).sum()
    });
    println!("{asked} present keys asked, none denied");
}
