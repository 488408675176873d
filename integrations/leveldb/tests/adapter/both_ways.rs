//! Tests databases that were written with one policy and opened with another.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use filterblock::HashSeed;

use crate::support::{Boxed, Recorded, compact, key, open, own, policy, policy_with, recorded};

const KEYS: usize = 3_000;

fn write(dir: &Path, policy: &Boxed) {
    let mut db = open(dir, policy);
    (0..KEYS).for_each(|i| db.put(&key(i), &[7; 100]).unwrap());
    compact(&mut db);
    db.close().unwrap();
}

/// Opens a database, and checks each key before and after all keys are rewritten and compacted.
/// Returns how often a filter was asked in the first check and in the second check.
fn asked_before_and_after(dir: &Path, Recorded { policy, seen, .. }: &Recorded<Boxed>) -> [u64; 2] {
    let mut db = open(dir, policy);
    let check = |db: &mut rusty_leveldb::DB| {
        assert!((0..KEYS).all(|i| db.get(&key(i)).as_deref() == Some(&[7; 100][..])));
        seen.asked.swap(0, Relaxed)
    };
    let before = check(&mut db);
    // New versions of all keys make the compaction replace the old files.
    (0..KEYS).for_each(|i| db.put(&key(i), &[7; 100]).unwrap());
    compact(&mut db);
    let after = check(&mut db);
    db.close().unwrap();
    [before, after]
}

#[test]
fn a_database_of_another_policy_opens() {
    let ours = |spec| recorded(policy(spec));
    let other_seed = recorded(policy_with("bloom:10", HashSeed(7)));
    let all = KEYS as u64;
    // If no filter has the policy's name, rusty-leveldb uses the filter with the next name. Our name
    // sorts first. So our policy gets own filters and answers "maybe" for their bytes, but the own
    // policy finds no filter in files with ours.
    for (case, writer, reader, asked, damaged) in [
        ("own filters, opened with ours", own(), ours("bloom:10"), all, all),
        ("our filters, opened with own", ours("bloom:10"), own(), 0, 0),
        ("another specification", ours("bloom:16"), ours("blocked-bloom:10"), all, 0),
        ("another seed", ours("bloom:10"), other_seed, all, all),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &writer.policy);
        let [before, after] = asked_before_and_after(dir.path(), &reader);
        assert!(before == asked && after >= all, "{case}: {before}, {after}");
        let counts = reader.counters.counts();
        assert_eq!((counts.damaged, counts.unfiltered()), (damaged, damaged), "{case}: only before the compaction");
    }
}
