//! Simulates an attack on a store: the attacker knows the hash seed and chooses absent keys
//! offline. docs/DESIGN.md, "Threat model", says against which attacks each hash function protects.

use std::sync::Arc;

use filterblock::{
    FilterBlock, FilterOptions, FilterSpec, HashKind, HashSeed, KeyHash, Secret, Verify, policy::FilterPolicy,
};
use filterblock_store::storage::Memory;
use filterblock_store::{Db, Options};

/// The attacker knows this seed, because every filter block contains it.
const SEED: HashSeed = HashSeed(0x0bad_5eed_0bad_5eed);
const HONEST_KEYS: u64 = 20_000;
const FORGED_KEYS: usize = 20_000;

fn spec() -> FilterSpec {
    "blocked-bloom:10".parse().unwrap()
}

fn honest_keys() -> impl Iterator<Item = Vec<u8>> {
    (0..HONEST_KEYS).map(|i| format!("user{i:012}").into_bytes())
}

fn build(keys: impl IntoIterator<Item = Vec<u8>>) -> FilterBlock<Vec<u8>> {
    let mut builder = FilterOptions::new(spec()).builder(SEED).unwrap();
    keys.into_iter().for_each(|key| builder.add(builder.hasher().key(&key)));
    FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap()
}

/// Returns keys that look like the honest ones, were never added, and pass the attacker's own copy
/// of the filter.
fn forge(copy: &FilterBlock<Vec<u8>>, count: usize) -> Vec<Vec<u8>> {
    let candidates = (HONEST_KEYS..).map(|i| format!("user{i:012}").into_bytes());
    candidates.filter(|key| copy.may_contain_hash(KeyHash::of(key, SEED))).take(count).collect()
}

/// Returns the block reads per get of the keys `asked`, for a store with the honest keys in one
/// SST. Asserts that the keys `asked` are absent.
fn block_reads_per_get(hasher: Options, asked: &[Vec<u8>]) -> f64 {
    let filter = Some(Arc::new(spec()) as Arc<dyn FilterPolicy>);
    let storage = Arc::new(Memory::new());
    let options = Options { storage, filter, auto_compaction: false, ..hasher };
    let db = Db::open("/store", options).unwrap();
    honest_keys().for_each(|key| db.put(&key, b"value").unwrap());
    db.flush().unwrap();
    // This key extends the SST's range over the forged keys, so that the filter answers.
    db.put(b"v", b"").unwrap();
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    db.reset_stats();
    for key in asked {
        assert_eq!(db.get(key).unwrap(), None);
    }
    let stats = db.stats();
    assert_eq!(stats.total.tables, 1);
    stats.total.block_reads as f64 / asked.len() as f64
}

#[test]
fn forged_gets_read_one_block_each_only_without_a_secret() {
    let with_last = || honest_keys().chain([b"v".to_vec()]);
    let copy = build(with_last());
    let rate = copy.expected_fpr();
    let forged = forge(&copy, FORGED_KEYS);
    let seeded = || Options { hash_seed: Some(SEED.0), ..Options::default() };
    let unkeyed = block_reads_per_get(seeded(), &forged);
    println!("xxh3: {unkeyed:.5} block reads per get");
    assert!(unkeyed > 0.5, "{unkeyed}");
    let secret = Some(Secret::new(b"sixteen at most.").unwrap());
    for hash in [HashKind::Xxh3Secret, HashKind::SipHash13] {
        let keyed = block_reads_per_get(Options { hash: Some(hash), secret: secret.clone(), ..seeded() }, &forged);
        println!("{hash}: {keyed:.5} block reads per get, {rate:.5} expected");
        // Assume that the FPRs of single filters have a standard deviation of 3 % around the mean
        // FPR of all filters of the same size.
        let deviation = (rate * (1.0 - rate) / forged.len() as f64 + (0.03 * rate).powi(2)).sqrt();
        assert!((keyed - rate).abs() <= 5.0 * deviation, "{hash}: {keyed} block reads per get, expected {rate}");
    }
    // The weakness is the known seed. A random seed protects against an attacker who has not seen
    // any file of the store.
    let drawn = block_reads_per_get(Options::default(), &forged);
    println!("xxh3 with a random seed: {drawn:.5} block reads per get");
    assert!(drawn < 2.0 * rate, "{drawn}");
}
