//! Compares the tables, constants, limits and example of docs/FORMAT.md with the code.
//!
//! Some of the tests build blocks with a second implementation of the algorithms in the document.

use crate::support::{self, SplitMix, spec};
use crate::text::{DOCUMENT, constant, numbers, says, table};
use filterblock::layout::{self, FIELDS, MAGIC, PAGE_CHECKSUM_LEN_BYTES, PAGE_LEN_BYTES, TRAILER_LEN_BYTES, VERSION};
use filterblock::{
    Error, FilterBlock, FilterHandle, FilterKind, FilterOptions, FilterSpec, HashKind, HashSeed, KeyHash, KeyHasher,
    Secret, Verify, WholeKeys, compact,
};
use siphasher::sip::{SipHasher13, SipHasher24};
use xxhash_rust::xxh3::{xxh3_64_with_secret, xxh3_64_with_seed};

/// A second implementation of the writer, from the document alone, and its constants.
struct Stranger {
    step: u64,
    fold: u64,
    multipliers: Vec<u64>,
    bloom_steps: Vec<u64>,
    line_steps: Vec<u64>,
}

impl Stranger {
    fn new() -> Self {
        Self {
            step: constant("STEP"),
            fold: constant("FOLD"),
            multipliers: numbers("MULTIPLIERS"),
            bloom_steps: numbers("BLOOM_PROBE_STEPS"),
            line_steps: numbers("LINE_PROBE_STEPS"),
        }
    }

    /// Returns payload and number of probes of a filter of `hashes` (sections 7 and 8). `budget` is
    /// in thousandths of a bit per key.
    fn payload(&self, kind: u8, budget: u64, granule_bits: u64, hashes: &[u64]) -> (Vec<u8>, u8) {
        let reduce = |x: u64, n: u64| ((u128::from(x) * u128::from(n)) >> 64) as u64;
        let n = hashes.len() as u64;
        let bits = (n * budget).div_ceil(1000 * granule_bits).max(1) * granule_bits;
        let steps = if kind == 3 { &self.bloom_steps } else { &self.line_steps };
        let probes = 1 + steps.iter().filter(|&&step| step <= bits * 1000 / n).count();
        let probes = if kind == 5 || kind == 10 { 8 } else { probes };
        let mut payload = vec![0u8; bits as usize / 8];
        for &h in hashes {
            let mut x = h;
            for i in 0..probes {
                let (byte, bit) = if kind == 3 {
                    let p = reduce(x, bits);
                    x = (x ^ (x >> 32)).wrapping_mul(self.step);
                    (p / 8, p % 8)
                } else if kind == 5 || kind == 10 {
                    let w = granule_bits / 8;
                    let block = reduce(h, bits / granule_bits);
                    let f = h.wrapping_mul(self.fold) >> 32;
                    let y = (f * self.multipliers[i]) & 0xffff_ffff;
                    let bit = y >> (32 - w.ilog2());
                    (w * block + w / 8 * i as u64 + bit / 8, bit % 8)
                } else {
                    let line = reduce(h, bits / 512);
                    let f = h.wrapping_mul(self.fold) >> 32;
                    let y = (f * self.multipliers[i]) & 0xffff_ffff;
                    let (word, bit) = (y >> 28, (y >> 23) % 32);
                    (64 * line + 4 * word + bit / 8, bit % 8)
                };
                payload[byte as usize] |= 1 << bit;
            }
        }
        (payload, probes as u8)
    }

    /// Returns a whole block (sections 1 to 4 of the document).
    fn block(&self, kind: u8, budget: u64, seed: u64, table_id: [u8; 16], keys: &[Vec<u8>]) -> Vec<u8> {
        let mut hashes: Vec<u64> = keys.iter().map(|key| xxh3_64_with_seed(key, seed)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let (kind, (mut block, probes)) = match hashes.as_slice() {
            [] => (1, (Vec::new(), 0)),
            _ => (
                kind,
                self.payload(
                    kind,
                    budget,
                    [(3, 64), (5, 256)].into_iter().find(|g| g.0 == kind).map_or(512, |g| g.1),
                    &hashes,
                ),
            ),
        };
        let payload_len = block.len();
        let mut checksums = Vec::new();
        for (i, page) in block.chunks(4096).enumerate() {
            let covered = [&table_id[..], &[0; 4], &(i as u64).to_le_bytes(), page].concat();
            checksums.extend_from_slice(&crc32fast::hash(&covered).to_le_bytes());
        }
        let mut trailer = table_id.to_vec();
        trailer.extend_from_slice(&seed.to_le_bytes());
        trailer.extend_from_slice(&(hashes.len() as u64).to_le_bytes()[..6]);
        trailer.extend_from_slice(&(payload_len as u64).to_le_bytes()[..6]);
        trailer.extend_from_slice(&crc32fast::hash(&checksums).to_le_bytes());
        trailer.extend_from_slice(&[0, 0, 0, 0, probes, 0, 0, 0, kind, 1, 1, 1]);
        let checksum = crc32fast::hash(&[checksums.as_slice(), trailer.as_slice()].concat());
        block.extend_from_slice(&checksums);
        block.extend_from_slice(&trailer);
        block.extend_from_slice(&checksum.to_le_bytes());
        block.extend_from_slice(b"\x89FLB");
        block
    }
}

#[test]
fn blocks_built_from_the_document_have_the_same_bytes() {
    let stranger = Stranger::new();
    assert_eq!((stranger.multipliers.len(), stranger.bloom_steps.len(), stranger.line_steps.len()), (16, 29, 15));
    let (seed, table_id) = (0xfeed_5eed_0123_4567, *b"a strange table!");
    for n in [0, 1, 2, 3, 33, 100, 1_000, 20_000] {
        let keys: Vec<Vec<u8>> = (0..n).map(support::key).collect();
        // The budgets of small filters cover every number of probes of `bloom`.
        for tenths in (10..=450).step_by(if n > 100 { 44 } else { 3 }) {
            for (kind, name) in [(3, "bloom"), (4, "blocked-bloom"), (5, "split-block"), (10, "split-block-512")] {
                let text = format!("{name}:{}", tenths as f64 / 10.0);
                let mut builder = FilterOptions::new(spec(&text)).table_id(table_id).builder(HashSeed(seed)).unwrap();
                keys.iter().for_each(|key| builder.add(builder.hasher().key(key)));
                let theirs = stranger.block(kind, tenths * 100, seed, table_id, &keys);
                assert!(builder.finish().unwrap().bytes == theirs, "{text}, {n} keys");
            }
        }
    }
}

#[test]
fn probes_step_where_the_step_tables_say() {
    let builder_of = |kind, millibits: u64| {
        let spec = FilterSpec::bits_per_key(kind, millibits as f64 / 1000.0).unwrap();
        FilterOptions::new(spec).self_check(false).builder(HashSeed(0)).unwrap()
    };
    // With 8 * n keys, each budget is a whole number of granules.
    for (kind, name, n) in
        [(FilterKind::Bloom, "BLOOM_PROBE_STEPS", 8_000), (FilterKind::BlockedBloom, "LINE_PROBE_STEPS", 64_000)]
    {
        for (i, step) in numbers(name).into_iter().enumerate() {
            for (millibits, probes) in [(step - 1, i + 1), (step, i + 2)] {
                let mut builder = builder_of(kind, millibits);
                (1..=n as u64 * 8).for_each(|i| builder.add_hash(KeyHash::from_raw(i << 40)));
                let block = FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap();
                let info = block.metadata();
                assert_eq!(info.probes as usize, probes, "{kind} at {millibits}");
            }
        }
    }
}

/// Returns the compact form of a filter (section 10). `fingerprint` is W(0), or 0 without a secret.
fn compact_form(payload: &[u8], shape: u8, function: u8, seed: u64, fingerprint: u64) -> Vec<u8> {
    let covered = [payload, &[shape]].concat();
    let bound = ((seed ^ fingerprint).wrapping_mul(constant("BIND")) >> 32) as u32 ^ u32::from(function);
    let checksum = crc32fast::hash(&covered) ^ bound;
    [covered.as_slice(), &checksum.to_le_bytes()].concat()
}

#[test]
fn compact_filters_built_from_the_document_are_the_same() {
    let stranger = Stranger::new();
    let (seed, secret) = (HashSeed(0xfeed_5eed_0123_4567), Secret::new(&[9; 16]).unwrap());
    let hashers = [KeyHasher::xxh3(seed), KeyHasher::xxh3_with_secret(seed, &secret), KeyHasher::sip13(seed, &secret)];
    for (function, hasher) in (1..).zip(&hashers) {
        let fingerprint = if function == 1 {
            0
        } else {
            u64::from_le_bytes(words(&[9; 16], function, seed.0, 0..1).try_into().unwrap())
        };
        let form = |payload: &[u8], shape| compact_form(payload, shape, function, seed.0, fingerprint);
        for n in [0, 1, 2, 33, 1_000] {
            let mut hashes: Vec<u64> = (0..n).map(|i| support::hash(i).raw()).collect();
            hashes.sort_unstable();
            for (kind, text, granule_bits) in
                [(3, "bloom:9.7", 8), (4, "blocked-bloom:9.7", 512), (2, "always-maybe", 0)]
            {
                let mut builder = FilterOptions::new(spec(text)).builder(hasher).unwrap();
                hashes.iter().for_each(|&hash| builder.add_hash(KeyHash::from_raw(hash)));
                let theirs = if kind == 2 {
                    form(&[], 32 * 2)
                } else if n == 0 {
                    form(&[], 32)
                } else {
                    let (payload, probes) = stranger.payload(kind, 9_700, granule_bits, &hashes);
                    form(&payload, 32 * kind + probes)
                };
                assert!(builder.finish_compact().unwrap() == theirs, "{text}, {n} keys, {hasher:?}");
            }
        }
    }
    assert_eq!(compact::TRAILER_LEN_BYTES, 5);
    for (kind, hex) in [(1, "`20 44 cf 6c e9`"), (2, "`40 1c ae de a4`")] {
        let bytes: Vec<String> =
            compact_form(&[], 32 * kind, 1, 0, 0).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(format!("`{}`", bytes.join(" ")), hex);
        assert!(says(hex), "{hex}");
    }
    assert!(says(
        "takes 45 bytes, or 10.91 bits per key. This is 4.27 bits above the FPR lower bound, log2(1 / 0.01) = 6.64"
    ));
    let mut builder = FilterOptions::new(spec("bloom:fpr=0.01")).builder(HashSeed(0)).unwrap();
    (0..33).for_each(|i| builder.add_hash(KeyHash::from_raw(support::hash(i).raw())));
    let len = builder.finish_compact().unwrap().len();
    assert_eq!((len, format!("{:.2}", len as f64 * 8.0 / 33.0)), (45, "10.91".into()));
}

#[test]
fn constants_are_made_as_the_document_says() {
    let mut random = SplitMix(0xf11_7e7b_10c5);
    assert!(says("state 0xf117e7b10c5"));
    assert_eq!(constant("STEP"), random.next() | 1);
    assert_eq!(constant("FOLD"), random.next() | 1);
    let multipliers: Vec<u64> = (0..16).map(|_| random.next() >> 32 | 1).collect();
    assert_eq!(numbers("MULTIPLIERS"), multipliers);
    let rest: Vec<u64> = (19..=40).map(|_| random.next() | 1).collect();
    let bumped = ["BUMP_COEFFICIENTS", "BUMP_PRINT", "BUMP_REMIX_1", "BUMP_REMIX_2", "BUMP_SEED"];
    assert_eq!(bumped.map(constant), rest[..=23 - 19]);
    let names = ["FUSE_MIX", "FUSE_SEED", "RIBBON_MIX", "RIBBON_SEED", "RIBBON_LOW", "RIBBON_HIGH", "RIBBON_PRINT"];
    assert_eq!(names.map(constant), rest[33 - 19..=39 - 19]);
    assert_eq!(constant("BIND"), rest[40 - 19]);
}

#[test]
fn trailer_table_is_that_of_the_code() {
    let rows = table(&["Offset", "Size", "Field", "Meaning"]);
    let documented: Vec<_> = rows.iter().map(|row| (row[0].as_str(), row[1].as_str(), row[2].as_str())).collect();
    let coded: Vec<_> = FIELDS
        .iter()
        .map(|(field, len)| (layout::offset_of(*field).to_string(), len.to_string(), field.to_string()))
        .collect();
    let coded: Vec<_> = coded.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
    assert_eq!(documented, coded);
    assert_eq!(FIELDS.iter().map(|(_, len)| len).sum::<usize>(), TRAILER_LEN_BYTES);
    let hex: Vec<String> = MAGIC.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(rows[13][3].starts_with(&format!("`{}`", hex.join(" "))));
    assert_eq!(rows[12][3], "CRC-32 of page checksums, extension and the trailer's bytes 0 to 51");
    assert_eq!(rows[11][3], VERSION.to_string());
    assert_eq!(rows[4][3], "CRC-32 of all page checksums, section 3");
    assert_eq!((PAGE_LEN_BYTES, PAGE_CHECKSUM_LEN_BYTES, TRAILER_LEN_BYTES), (4096, 4, 60));
    assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
}

#[test]
fn the_tags_are_those_of_the_code() {
    let rows = table(&["Tag", "Kind", "Payload", "Probes", "Number of keys"]);
    let tags: Vec<u8> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
    let last = FilterKind::ALL.map(|kind| kind as u8).into_iter().max().unwrap();
    assert_eq!(tags, (0..=last).collect::<Vec<_>>());
    for (tag, row) in rows.iter().enumerate() {
        let named = FilterKind::ALL.into_iter().find(|kind| row[1].starts_with(&format!("`{kind}`")));
        let coded = FilterKind::ALL.into_iter().find(|kind| *kind as usize == tag);
        assert_eq!(named, coded, "tag {tag}");
    }
    assert_eq!(layout::PARTITION_INDEX_TAG, 9);
    assert!(rows[9][1].starts_with("partition index"));
    let hashes = table(&["Id", "Function"]);
    let ids: Vec<_> = hashes.iter().map(|row| row[0].parse::<u8>().unwrap()).collect();
    assert_eq!(ids[1..], HashKind::ALL.map(|kind| kind as u8));
    assert!(hashes[1][1].starts_with("XXH3-64 of the key's bytes, with the 64-bit seed"));
    assert_eq!(KeyHash::of(b"", HashSeed(0)).raw(), 0x2d06_8005_38d3_94c2);
}

/// Returns the words W(n) of a secret for all `numbers` (section 6).
fn words(secret: &[u8], function: u8, seed: u64, numbers: std::ops::Range<u32>) -> Vec<u8> {
    let sip =
        |key: &[u8], message: &[u8]| SipHasher24::new_with_key(key.try_into().unwrap()).hash(message).to_le_bytes();
    let root = match secret.len() {
        16 => secret.to_vec(),
        _ => [0, 1].iter().flat_map(|&byte| sip(&secret[..16], &[&secret[16..], &[byte]].concat())).collect(),
    };
    let message = |n: u32| [b"filterblock".as_slice(), &[function], &n.to_le_bytes(), &seed.to_le_bytes()].concat();
    assert_eq!(message(0).len(), 24);
    numbers.flat_map(|n| sip(&root, &message(n))).collect()
}

/// Returns the fingerprint of a secret and the hash of a key (section 6).
fn keyed_hash(secret: &[u8], function: u8, seed: u64, key: &[u8]) -> (Vec<u8>, u64) {
    let hash = match function {
        2 => xxh3_64_with_secret(key, &words(secret, 2, seed, 1..25)),
        _ => SipHasher13::new_with_key(words(secret, 3, seed, 1..3).as_slice().try_into().unwrap()).hash(key),
    };
    (words(secret, function, seed, 0..1), hash)
}

#[test]
fn hashes_under_a_secret_follow_from_the_document() {
    let hashes = table(&["Id", "Function"]);
    assert!(hashes[2][1].contains("XXH3-64") && hashes[2][1].contains("the 192 bytes W(1) .. W(24) as its secret"));
    assert!(hashes[3][1].contains("SipHash-1-3") && hashes[3][1].contains("the 16 bytes W(1) W(2) as its key"));
    assert!(says("message = the 11 ASCII bytes `filterblock`, then the hash function (1 byte), n (4 bytes)"));
    let counting: [u8; 32] = std::array::from_fn(|i| i as u8);
    let secrets = [&counting[..16], &counting[..]];
    for (function, kind) in [(2, HashKind::Xxh3Secret), (3, HashKind::SipHash13)] {
        for (secret, seed) in secrets.into_iter().flat_map(|secret| [(secret, 0), (secret, 0xfeed_5eed_0123_4567)]) {
            let hasher = KeyHasher::new(kind, HashSeed(seed), Some(&Secret::new(secret).unwrap())).unwrap();
            for i in 0..300 {
                let key: Vec<u8> = (0..i).map(|byte| byte as u8).collect();
                let (fingerprint, hash) = keyed_hash(secret, function, seed, &key);
                assert_eq!(hasher.of(&key).raw(), hash, "{kind}, {i} bytes");
                assert_eq!(hasher.identity().fingerprint.unwrap().to_bytes().as_slice(), fingerprint);
            }
        }
    }
    for row in table(&["Function", "W(0), the fingerprint", "Hash of `apple`"]) {
        let (fingerprint, hash) = keyed_hash(secrets[0], row[0].parse().unwrap(), 0, b"apple");
        let fingerprint: Vec<_> = fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((row[1].clone(), row[2].clone()), (format!("`{}`", fingerprint.join(" ")), format!("{hash:#x}")));
    }
}

#[test]
fn blocks_under_a_secret_have_the_documented_fingerprint() {
    assert!(says("fingerprint of the secret, section 6: 8 bytes"));
    let secret = [9; 16];
    for (function, kind) in [(2u8, HashKind::Xxh3Secret), (3, HashKind::SipHash13)] {
        let hasher = KeyHasher::new(kind, HashSeed(42), Some(&Secret::new(&secret).unwrap())).unwrap();
        let mut keyed = FilterOptions::new(spec("bloom:10")).builder(hasher.clone()).unwrap();
        let mut plain = FilterOptions::new(spec("bloom:10")).builder(HashSeed(42)).unwrap();
        for i in 0..100 {
            keyed.add(keyed.hasher().key(&support::key(i)));
            plain.add_hash(KeyHash::from_raw(hasher.of(&support::key(i)).raw()));
        }
        // The expected block has the same hashes, an extension with the fingerprint, and the id of
        // the hash function.
        let record = [&[1, 8][..], &words(&secret, function, 42, 0..1)].concat();
        let mut theirs = support::with_extension(plain.finish().unwrap().bytes, 1, &record);
        support::put_number(&mut theirs, "hash id", function.into());
        support::repair_trailer(&mut theirs);
        assert!(keyed.finish().unwrap().bytes == theirs, "{kind}");
    }
}

#[test]
fn overhead_is_what_the_document_says() {
    let overhead = |spec_text: &str, n: usize| {
        let block = FilterBlock::open_any(support::block(spec_text, n), Verify::AtOpen).unwrap();
        let info = block.metadata();
        (info.payload_len_bytes, info.block_len_bytes - info.payload_len_bytes)
    };
    assert_eq!(overhead("bloom:10", 0), (0, 60));
    assert_eq!(overhead("always-maybe", 5), (0, 60));
    for n in 1..=6 {
        assert_eq!(overhead("bloom:10", n), (8, 64));
    }
    for n in 1..=51 {
        assert_eq!(overhead("blocked-bloom:10", n), (64, 64));
    }
    for spec_text in ["bloom:1", "bloom:100", "blocked-bloom:1", "blocked-bloom:100"] {
        let (payload, beside) = overhead(spec_text, 1);
        assert!(payload + beside <= 256, "{spec_text} of one key: {payload} and {beside}");
    }
    for n in (1..3_000).step_by(7) {
        for spec_text in ["bloom:10", "blocked-bloom:10"] {
            let (payload, beside) = overhead(spec_text, n);
            assert!(payload > 4096 || beside == 64, "{spec_text}, {n} keys: {beside}");
        }
    }
    // 8 bits per key: the payload has as many bytes as keys.
    for (payload, beside) in [(65_536, 124), (65_544, 128), (69_632, 128), (69_640, 132)] {
        assert_eq!(overhead("bloom:8", payload), (payload as u64, beside));
    }
    assert_eq!(format!("{:.4} {:.4}", 12_400.0 / 65_536.0, 12_800.0 / 65_544.0), "0.1892 0.1953");
    for payload in 65_536usize..300_000 {
        let beside = payload.div_ceil(PAGE_LEN_BYTES) * PAGE_CHECKSUM_LEN_BYTES + TRAILER_LEN_BYTES;
        assert!(beside * 500 <= payload, "{payload}");
    }
}

#[test]
fn a_load_of_64_bytes_at_any_payload_byte_stays_in_the_block() {
    assert!(says("A payload that is not empty is followed by at least 64 bytes"));
    for n in [1, 2, 51, 52, 410, 3_276, 3_277, 52_428, 52_429] {
        for spec_text in ["bloom:10", "blocked-bloom:10"] {
            let block = support::block(spec_text, n);
            let last = support::payload_len(&block).unwrap() - 1;
            assert!(block.get(last..last + 64).is_some(), "{spec_text}, {n} keys");
        }
    }
}

#[test]
fn a_name_for_prefixes_has_1_to_100_bytes() {
    assert!(says("1 to 100 bytes of UTF-8") && says("255 bytes; a writer uses at most 100"));
    assert_eq!(layout::MAX_EXTRACTOR_LEN_BYTES, 100);
    for len in [0, 1, 2, 99, 100, 101, 253, 254, 1_000] {
        let name = "n".repeat(len);
        let builder = FilterOptions::new(spec("bloom:10")).prefixes_by_host(&name, WholeKeys::Too).builder(HashSeed(0));
        if !(1..=100).contains(&len) {
            assert!(matches!(builder, Err(Error::Invalid { what: "extractor name", .. })), "{len}");
            continue;
        }
        let mut builder = builder.unwrap();
        builder.add(builder.hasher().key(b"key"));
        let block = builder.finish().unwrap().bytes;
        assert_eq!(support::get_number(&block, "extension len") as usize, 2 + len);
        assert_eq!(FilterBlock::open_any(block, Verify::AtOpen).unwrap().metadata().extractor, Some(name.as_str()));
    }
}

#[test]
fn the_example_is_the_block_that_is_written() {
    let table_id: [u8; 16] = std::array::from_fn(|i| i as u8);
    let mut builder = FilterOptions::new(spec("bloom:10")).table_id(table_id).builder(HashSeed(42)).unwrap();
    for key in ["apple", "pear", "plum"] {
        builder.add(builder.hasher().key(key.as_bytes()));
    }
    let block = builder.finish().unwrap().bytes;
    let dump: Vec<String> = block
        .chunks(16)
        .enumerate()
        .map(|(i, row)| {
            let bytes: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{:04x}  {}", i * 16, bytes.join(" "))
        })
        .collect();
    let documented = DOCUMENT.split("```hexdump\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(documented.lines().collect::<Vec<_>>(), dump);

    // The table explains every byte once, in order.
    let mut at = 0;
    for row in table(&["At", "Bytes", "What"]) {
        assert_eq!(usize::from_str_radix(&row[0], 16).unwrap(), at);
        let bytes: Vec<u8> =
            row[1].trim_matches('`').split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        assert_eq!(block[at..at + bytes.len()], bytes, "at {at:#x}");
        let trailer_at = at.checked_sub(block.len() - TRAILER_LEN_BYTES);
        if let Some((field, len)) = FIELDS.iter().find(|(field, _)| Some(layout::offset_of(*field)) == trailer_at) {
            assert!(row[2].starts_with(&field.to_string()), "{field}: {}", row[2]);
            assert_eq!(bytes.len(), *len);
        }
        at += bytes.len();
    }
    assert_eq!(at, block.len());
    let set: u32 = block[..8].iter().map(|byte| byte.count_ones()).sum();
    assert!(says(&format!("{set} of them are set")));

    // A second table lists every set bit of the payload.
    let mut payload = [0u8; 8];
    for row in table(&["Key", "Hash", "Bits"]) {
        let key = row[0].trim_matches('`');
        assert_eq!(row[1], format!("{:#x}", KeyHash::of(key.as_bytes(), HashSeed(42)).raw()));
        let bits: Vec<usize> = row[2].split(' ').map(|bit| bit.parse().unwrap()).collect();
        assert_eq!(bits.len(), 15);
        bits.iter().for_each(|bit| payload[bit / 8] |= 1 << (bit % 8));
    }
    assert_eq!(payload, block[..8]);
}

#[test]
fn the_limits_of_the_document_hold() {
    // Only limits that need little memory are tested here.
    let mut builder = FilterOptions::new(spec("bloom:10")).builder(HashSeed(0)).unwrap();
    for _ in 0..1_000 {
        builder.add_hash(KeyHash::from_raw(7));
        builder.add_hash(KeyHash::from_raw(7 << 32));
        builder.add_hash(KeyHash::from_raw(7));
    }
    assert_eq!(FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap().metadata().num_keys, 2);
    // All hashes fall into one line, and the hash of another line is denied.
    let mut builder = FilterOptions::new(spec("blocked-bloom:10")).builder(HashSeed(0)).unwrap();
    (0..5_000u64).for_each(|i| builder.add_hash(KeyHash::from_raw(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16)));
    let block = FilterBlock::open_any(builder.finish().unwrap().bytes, Verify::AtOpen).unwrap();
    assert!(
        (0..5_000u64).all(|i| block.may_contain_hash(KeyHash::from_raw(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16)))
    );
    assert!(!block.may_contain_hash(KeyHash::from_raw(u64::MAX)));
}

/// Writes and reads a handle with the table of section 17 alone.
#[test]
fn handles_are_those_of_the_document() {
    let golden = std::fs::read(format!("{}/tests/golden/handle-1.bin", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut builder = FilterOptions::new(spec("bloom:10")).table_id([7; 16]).builder(HashSeed(42)).unwrap();
    ["apple", "pear", "plum"].iter().for_each(|key| builder.add(builder.hasher().key(key.as_bytes())));
    let built = builder.finish().unwrap();
    let fields: [&[u8]; 8] = [
        &[1],
        &[1],
        &[7; 16],
        &42u64.to_le_bytes(),
        &4096u64.to_le_bytes(),
        &(built.bytes.len() as u64).to_le_bytes(),
        &5u64.to_le_bytes(),
        &built.bytes[built.bytes.len() - 8..][..4],
    ];
    let rows = table(&["At", "Size", "Field", "Meaning"]);
    assert_eq!(rows.len(), fields.len() + 1);
    let mut ours = Vec::new();
    for (row, field) in rows.iter().zip(fields) {
        assert_eq!((&row[0], &row[1]), (&ours.len().to_string(), &field.len().to_string()), "{}", row[2]);
        ours.extend_from_slice(field);
    }
    assert!(says(&format!("CRC-32 of bytes 0 to {}", ours.len() - 1)));
    let checksum = crc32fast::hash(&ours);
    ours.extend_from_slice(&checksum.to_le_bytes());
    assert!(says(&format!("It has {} bytes", ours.len())));

    assert_eq!(FilterHandle::of(&built, 4096, 5).encode(), ours[..]);
    assert_eq!(golden, ours, "the golden file is another handle");
    let handle = FilterHandle::decode(&golden).unwrap();
    let hasher = KeyHasher::xxh3(HashSeed(42));
    let block =
        FilterBlock::open(built.bytes.as_slice(), &handle.expected(handle.table_id, &hasher), Verify::AtOpen).unwrap();
    assert!(block.may_contain(hasher.key(b"pear")) && block.metadata().block_len_bytes == handle.len_bytes);
    // Another SST, a newer block of the same SST, an SST of fewer entries, and another hasher.
    assert!(FilterBlock::open(built.bytes.as_slice(), &handle.expected([8; 16], &hasher), Verify::AtOpen).is_err());
    builder = FilterOptions::new(spec("bloom:10")).table_id([7; 16]).builder(HashSeed(42)).unwrap();
    ["apple", "pear", "fig"].iter().for_each(|key| builder.add(hasher.key(key.as_bytes())));
    let newer = builder.finish().unwrap();
    assert!(FilterBlock::open(newer.bytes, &handle.expected(handle.table_id, &hasher), Verify::AtOpen).is_err());
    let fewer = FilterHandle::of(&built, 4096, 2);
    assert!(
        FilterBlock::open(built.bytes.as_slice(), &fewer.expected(fewer.table_id, &hasher), Verify::AtOpen).is_err()
    );
    let other = KeyHasher::xxh3(HashSeed(43));
    assert!(FilterBlock::open(built.bytes, &handle.expected(handle.table_id, &other), Verify::AtOpen).is_err());
}
