//! Tests filters against an attacker who knows the seed of a store. docs/DESIGN.md, section "Threat
//! model", states the purpose of each hash function.

use filterblock::{FilterBlock, FilterKind, FilterOptions, HashSeed, KeyHash, KeyHasher, ParsedBlock, Secret, Verify};
use filterblock_testkit::Random;
use filterblock_testkit::blocks::{BOTH, built, built_in_partitions, spec};

/// The seed of all hashers. The attacker knows it.
const SEED: HashSeed = HashSeed(0x0bad_5eed_0bad_5eed);
const SPECS: [&str; 6] =
    ["bloom:10", "blocked-bloom:10", "split-block:10", "split-block-512:10", "bumped-ribbon:7", "binary-fuse:8"];
const HONEST_KEYS: u64 = 20_000;
const FORGED_KEYS: usize = 5_000;
const SECRETS: u64 = 10;

fn honest_keys() -> impl Iterator<Item = Vec<u8>> {
    (0..HONEST_KEYS).map(|i| format!("user{i:012}").into_bytes())
}

fn build(spec_text: &str, hasher: &KeyHasher, keys: impl IntoIterator<Item = Vec<u8>>) -> FilterBlock<Vec<u8>> {
    let bytes = built(&FilterOptions::new(spec(spec_text)), hasher, keys);
    ParsedBlock::open(bytes, Verify::AtOpen).unwrap().bind_to(hasher).unwrap()
}

/// Returns keys that look like honest keys and were never added. The attacker's own copy of the
/// filter answers "maybe" for them.
fn forge(copy: &FilterBlock<Vec<u8>>, count: usize) -> Vec<Vec<u8>> {
    let candidates = (HONEST_KEYS..).map(|i| format!("user{i:012}").into_bytes());
    candidates.filter(|key| copy.may_contain_hash(KeyHash::of(key, SEED))).take(count).collect()
}

/// Returns the hashers of each keyed hash function, with [`SECRETS`] secrets that the attacker does
/// not know.
fn keyed_hashers() -> [Vec<KeyHasher>; 2] {
    let mut random = Random(11);
    let secrets: Vec<Secret> = (0..SECRETS)
        .map(|_| Secret::new(&[random.next().to_le_bytes(), random.next().to_le_bytes()].concat()).unwrap())
        .collect();
    [KeyHasher::xxh3_with_secret, KeyHasher::sip13].map(|of| secrets.iter().map(|secret| of(SEED, secret)).collect())
}

fn share_let_through(block: &FilterBlock<Vec<u8>>, keys: &[Vec<u8>]) -> f64 {
    keys.iter().filter(|key| block.may_contain(block.hasher().key(key))).count() as f64 / keys.len() as f64
}

/// Asserts that filters whose hashers have secrets keep their expected FPR for the chosen keys
/// `asked`, as a mean over [`SECRETS`] secrets. The filters hold the honest keys and `added`.
fn assert_keyed_filters_keep_their_rate(spec_text: &str, added: &[Vec<u8>], asked: &[Vec<u8>]) {
    for hashers in keyed_hashers() {
        let (mut rates, mut announced) = (Vec::new(), 0.0);
        for hasher in &hashers {
            let block = build(spec_text, hasher, honest_keys().chain(added.iter().cloned()));
            announced += block.expected_fpr() / SECRETS as f64;
            rates.push(share_let_through(&block, asked));
        }
        let mean = rates.iter().sum::<f64>() / SECRETS as f64;
        let between = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (SECRETS - 1) as f64;
        let binomial = announced * (1.0 - announced) / asked.len() as f64;
        let deviation = (between.max(binomial) / SECRETS as f64).sqrt();
        let kind = hashers[0].identity().kind;
        println!("{spec_text}, {kind}: {mean:.5} let through, {announced:.5} announced, deviation {deviation:.5}");
        assert!((mean - announced).abs() <= 5.0 * deviation, "{spec_text}, {kind}: {mean} and not {announced}");
    }
}

#[test]
fn forged_absent_keys_pass_only_without_a_secret() {
    for spec_text in SPECS {
        // With the seed, the keys and this program, the attacker builds a copy that equals the
        // filter byte by byte.
        let victim = build(spec_text, &SEED.into(), honest_keys());
        let copy = build(spec_text, &SEED.into(), honest_keys());
        assert_eq!(copy.as_bytes(), victim.as_bytes());
        let forged = forge(&copy, FORGED_KEYS);
        let share = share_let_through(&victim, &forged);
        println!("{spec_text}, xxh3: {share:.5} let through");
        assert!(share > 0.5, "{spec_text}: {share}");
        assert_keyed_filters_keep_their_rate(spec_text, &[], &forged);
    }
}

/// Computes 16 bytes that XXH3-64 maps to `hash` under `seed`, by inverting the function that
/// XXH3-64 uses for 9 to 16 bytes.
///
/// XXH3-64 multiplies the two halves of its input. This function chooses the first half so that the
/// product is zero. Then only a sum is left, and the later steps are a bijection of this sum.
fn key_with_hash(seed: HashSeed, hash: u64) -> Vec<u8> {
    // The first constant is the XOR of bytes 24 to 31 and bytes 32 to 39 of XXH3's default secret.
    // The second constant is the XOR of bytes 40 to 47 and bytes 48 to 55.
    let low_flip = 0x6782_737b_ea42_39b9_u64.wrapping_add(seed.0);
    let high_flip = 0xaf56_bc3b_0996_523a_u64.wrapping_sub(seed.0);
    // The inverse of the multiplier 0x165667919e3779f9.
    const INVERSE: u64 = 0x08da_8ee4_1d6d_f849;
    let mut sum = hash ^ (hash >> 32);
    sum = sum.wrapping_mul(INVERSE);
    sum ^= sum >> 37;
    let high = sum.wrapping_sub(16);
    [low_flip.to_le_bytes(), (high ^ high_flip).to_le_bytes()].concat()
}

#[test]
fn a_key_for_any_hash_follows_from_a_known_seed() {
    let mut random = Random(2);
    for _ in 0..1_000 {
        let (seed, hash) = (HashSeed(random.next()), random.next());
        let key = key_with_hash(seed, hash);
        assert_eq!(KeyHash::of(&key, seed).raw(), hash);
    }
}

#[test]
fn keys_chosen_for_few_lines_have_no_effect_under_a_secret() {
    // The attacker adds one key for every ten honest keys. All added keys fall into the first four
    // of 430 cache lines.
    let chosen = |from: u64, count: u64| -> Vec<Vec<u8>> {
        let mut random = Random(from);
        (0..count).map(|_| key_with_hash(SEED, random.next() / 128)).collect()
    };
    let (added, asked) = (chosen(5, HONEST_KEYS / 10), chosen(6, FORGED_KEYS as u64));
    assert!(asked.iter().all(|key| !added.contains(key)));
    let spec_text = "blocked-bloom:10";
    let victim = build(spec_text, &SEED.into(), honest_keys().chain(added.iter().cloned()));
    let share = share_let_through(&victim, &asked);
    println!("{spec_text}, xxh3: {share:.5} let through");
    assert!(share > 0.5, "{share}");
    assert_keyed_filters_keep_their_rate(spec_text, &added, &asked);
}

#[test]
fn keys_with_patterned_hashes_do_not_stop_a_build() {
    let mut random = Random(9);
    type Pattern = Box<dyn Fn(u64, u64) -> u64>;
    let patterns: [(&str, Pattern); 6] = [
        ("one after the other", Box::new(|i, _| i)),
        ("the same high half", Box::new(|_, random| random >> 32)),
        ("the same low half", Box::new(|_, random| random << 32)),
        ("in one line of 128", Box::new(|_, random| random / 128)),
        ("of few bits", Box::new(|i, _| 1u64.rotate_left(i as u32) ^ 1u64.rotate_left((i / 64) as u32))),
        ("a long way apart", Box::new(|i, _| i << 48 | i)),
    ];
    for (name, hash) in &patterns {
        // Every hash has a key, so these hashes stand for keys that an attacker computed.
        let chosen: Vec<KeyHash> = (0..4_000).map(|i| KeyHash::from_raw(hash(i, random.next()))).collect();
        for spec_text in SPECS {
            for honest in [0, 4_000] {
                let mut builder = FilterOptions::new(spec(spec_text)).builder(SEED).unwrap();
                honest_keys().take(honest).for_each(|key| builder.add(builder.hasher().key(&key)));
                chosen.iter().for_each(|&hash| builder.add_hash(hash));
                let block = builder.finish().unwrap_or_else(|error| panic!("{spec_text}, {name}: {error}"));
                let block = FilterBlock::open_any(block.bytes, Verify::AtOpen).unwrap();
                assert!(chosen.iter().all(|&hash| block.may_contain_hash(hash)), "{spec_text}, {name}");
                let bits = block.metadata().bits_per_key();
                println!("{spec_text}, {name}, {honest} others: {bits:.2} bits per key, {}", block.metadata().kind);
                assert!(bits < 16.0, "{spec_text}, {name}: {bits} bits per key");
            }
        }
    }
}

#[test]
fn a_filter_with_a_fallback_partition_finds_every_key() {
    let keys_of = |hashes: std::ops::Range<u64>| {
        let mut keys: Vec<_> = hashes.map(|hash| key_with_hash(SEED, hash)).collect();
        keys.sort_unstable();
        keys
    };
    for spec_text in ["binary-fuse:8", "ribbon:8"] {
        // The keys of the first partition have nearly equal hashes. The keys of the second
        // partition are ordinary.
        let mut keys = keys_of(0..3_000);
        keys.extend((0..3_000u64).map(|i| [&[0xff; 8][..], &i.swap_bytes().to_le_bytes()].concat()));
        assert!(keys.is_sorted());
        let bytes = built_in_partitions(&FilterOptions::new(spec(spec_text)), SEED, 3_000, &keys);
        for verify in BOTH {
            let block = FilterBlock::open_any(&bytes, verify).unwrap();
            assert!(keys.iter().all(|key| block.may_contain(block.hasher().key(key))), "{spec_text}");
            let info = block.metadata();
            assert_eq!(
                (info.kind, info.num_partitions),
                (FilterKind::BlockedBloom, 2),
                "{spec_text}: the first partition must be the fallback"
            );
            assert!((0.003..0.006).contains(&block.expected_fpr()), "{spec_text}: {info:?}");
            assert_eq!(block.statistics().estimated_keys, None, "{spec_text}: two kinds must give no estimate");
        }
    }
}
