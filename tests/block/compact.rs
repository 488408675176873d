//! Tests the compact form of filters.

use filterblock::{Answer, Error, Field, FilterOptions, HashSeed, KeyHash, KeyHasher, Secret, WholeKeys, compact};
use filterblock_testkit::Random;
use filterblock_testkit::blocks::{SEED, hash, key, spec};

const HASHER: KeyHasher = KeyHasher::xxh3(SEED);

/// The number that is XORed with the CRC-32 of a filter under [`HASHER`], as docs/FORMAT.md
/// describes.
const BOUND: u32 = (SEED.0.wrapping_mul(0xe2d3_d19e_fb49_25bb) >> 32) as u32 ^ 1;

/// Specifications of every kind that has a compact form, with numbers of keys.
const FILTERS: [(&str, usize); 7] = [
    ("bloom:fpr=0.01", 33),
    ("bloom:10", 1),
    ("bloom:30", 7),
    ("bloom:3", 136),
    ("blocked-bloom:10", 100),
    ("always-maybe", 3),
    ("bloom:10", 0),
];

fn compact_of(spec_text: &str, n: usize) -> Vec<u8> {
    let mut builder = FilterOptions::new(spec(spec_text)).self_check(false).builder(SEED).unwrap();
    (0..n).for_each(|i| builder.add_hash(hash(i)));
    builder.finish_compact().unwrap()
}

fn ask(bytes: &[u8], hash: KeyHash) -> Answer {
    compact::ask(bytes, &HASHER, hash)
}

fn may_contain(bytes: &[u8], hash: KeyHash) -> bool {
    ask(bytes, hash).must_read()
}

/// Returns `covered`, which is a payload and a shape, followed by a valid checksum.
fn sealed(covered: &[u8]) -> Vec<u8> {
    [covered, &(crc32fast::hash(covered) ^ BOUND).to_le_bytes()].concat()
}

fn expect_damage(bytes: &[u8], what: &str) {
    assert!((0..150).all(|i| ask(bytes, hash(i)) == Answer::Unfiltered), "{what}");
    let error = compact::check(bytes, &HASHER).unwrap_err();
    assert!(error.is_damage(), "{what}: {error}");
}

#[test]
fn a_filter_of_33_keys_takes_45_bytes() {
    let bytes = compact_of("bloom:fpr=0.01", 33);
    assert_eq!(bytes.len(), 45, "expected 40 bytes for the filter and 5 for the trailer");
    // The FPR stays near 1 %, although 33 keys are few.
    let positives = (0..100).map(|seed| {
        let mut builder = FilterOptions::new(spec("bloom:fpr=0.01")).builder(SEED).unwrap();
        (0..33).for_each(|i| builder.add_hash(hash(seed * 100_000 + i)));
        let bytes = builder.finish_compact().unwrap();
        (1_000..11_000).filter(|i| may_contain(&bytes, hash(seed * 100_000 + i))).count()
    });
    let rate = positives.sum::<usize>() as f64 / 1e6;
    assert!((0.008..0.011).contains(&rate), "{rate}");
}

#[test]
fn every_key_is_found_at_every_alignment() {
    for spec in ["bloom:1", "bloom:10", "bloom:30", "blocked-bloom:10", "blocked-bloom:30", "always-maybe"] {
        for n in [0, 1, 2, 3, 33, 500] {
            let bytes = compact_of(spec, n);
            assert!(bytes.len() >= compact::TRAILER_LEN_BYTES);
            compact::check(&bytes, &HASHER).unwrap();
            for shift in 0..64 {
                let shifted = [vec![0xaa; shift].as_slice(), &bytes, &[0xaa; 3]].concat();
                let view = &shifted[shift..shift + bytes.len()];
                assert!((0..n).all(|i| ask(view, hash(i)) == Answer::Maybe), "{spec}, {n} keys, shifted by {shift}");
            }
        }
    }
}

#[test]
fn a_filter_of_no_keys_takes_five_bytes_and_denies_everything() {
    for spec in ["bloom:10", "blocked-bloom:10"] {
        let bytes = compact_of(spec, 0);
        assert_eq!(bytes, sealed(&[0x20]));
        assert!((0..100).all(|i| ask(&bytes, hash(i)) == Answer::No));
    }
}

#[test]
fn every_changed_zeroed_and_overwritten_part_is_detected() {
    for (spec, n) in FILTERS {
        let bytes = compact_of(spec, n);
        for at in 0..bytes.len() {
            for byte in 0..=255 {
                let mut damaged = bytes.clone();
                damaged[at] = byte;
                if damaged != bytes {
                    expect_damage(&damaged, &format!("{spec}, {n} keys, byte {at} is {byte}"));
                }
            }
            for end in at + 1..=bytes.len() {
                for fill in [0, 0xff, 0xa5] {
                    let mut damaged = bytes.clone();
                    damaged[at..end].fill(fill);
                    if damaged != bytes {
                        let is_unfiltered = (0..n).step_by(7).all(|i| ask(&damaged, hash(i)) == Answer::Unfiltered);
                        assert!(is_unfiltered, "{spec}, {n} keys, {at}..{end} filled with {fill}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_cut_and_every_added_byte_is_detected() {
    for (spec, n) in FILTERS {
        let bytes = compact_of(spec, n);
        for cut in 1..bytes.len() {
            expect_damage(&bytes[cut..], &format!("{spec}, {n} keys, without the first {cut} bytes"));
            expect_damage(&bytes[..cut], &format!("{spec}, {n} keys, the first {cut} bytes"));
        }
        for byte in 0..=255 {
            expect_damage(&[&[byte], &bytes[..]].concat(), &format!("{spec}, {n} keys, {byte} before"));
            expect_damage(&[&bytes[..], &[byte]].concat(), &format!("{spec}, {n} keys, {byte} after"));
        }
    }
    assert!((0..100).all(|i| ask(&[], hash(i)) == Answer::Unfiltered));
    assert!(matches!(compact::check(&[], &HASHER), Err(Error::Corrupt { field: Field::Length, offset: 0 })));
}

#[test]
fn zeros_and_ones_are_never_a_filter() {
    // Zeros and ones are no filter, even with a valid checksum.
    for len in 0..500 {
        for fill in [0, 0xff] {
            for bytes in [vec![fill; len], sealed(&vec![fill; len + 1])] {
                assert!((0..20).all(|i| ask(&bytes, hash(i)) == Answer::Unfiltered), "{len} bytes of {fill}");
            }
        }
    }
}

#[test]
fn another_hasher_answers_unfiltered() {
    let secret = |fill| Secret::new(&[fill; 16]).unwrap();
    let hashers = [
        KeyHasher::xxh3(HashSeed(0)),
        KeyHasher::xxh3(HashSeed(1)),
        KeyHasher::xxh3(HashSeed(1 << 63)),
        KeyHasher::xxh3_with_secret(HashSeed(0), &secret(1)),
        KeyHasher::xxh3_with_secret(HashSeed(0), &secret(2)),
        KeyHasher::sip13(HashSeed(0), &secret(1)),
        KeyHasher::sip13(HashSeed(1), &secret(1)),
    ];
    for writer in &hashers {
        let mut builder = FilterOptions::new(spec("bloom:10")).builder(writer).unwrap();
        (0..33).for_each(|i| builder.add(builder.hasher().key(&key(i))));
        let bytes = builder.finish_compact().unwrap();
        for reader in &hashers {
            let same = reader.identity() == writer.identity();
            let expected = if same { Answer::Maybe } else { Answer::Unfiltered };
            assert!(
                (0..33).all(|i| compact::ask(&bytes, reader, reader.of(&key(i))) == expected),
                "{writer:?} asked with {reader:?}"
            );
            assert_eq!(compact::check(&bytes, reader).is_ok(), same);
        }
    }
}

#[test]
fn impossible_shapes_with_a_valid_checksum_are_unfiltered() {
    let bytes = compact_of("bloom:20", 100);
    let payload = &bytes[..bytes.len() - compact::TRAILER_LEN_BYTES];
    let shaped = |payload: &[u8], shape: u8| sealed(&[payload, &[shape]].concat());
    let unfiltered = |bytes: &[u8]| (1_000..1_100).all(|i| ask(bytes, hash(i)) == Answer::Unfiltered);
    assert!(shaped(payload, 3 * 32 + 14) == bytes && !unfiltered(&bytes));
    for shape in 0..=255u8 {
        let usable = (1..=30).contains(&(shape % 32)) && shape / 32 == 3;
        let bytes = shaped(payload, shape);
        assert_eq!(unfiltered(&bytes), !usable, "shape {shape}");
        match compact::check(&bytes, &HASHER) {
            Err(Error::Unsupported { field: Field::CompactFilter, found }) => {
                assert!(found == u64::from(shape) && ![1, 2, 3, 4].contains(&(shape / 32)));
            }
            Err(Error::Corrupt { field: Field::Params | Field::PayloadLen, offset }) => {
                assert!(!usable && offset == payload.len() as u64, "shape {shape}");
            }
            other => assert!(other.is_ok() && usable, "shape {shape}: {other:?}"),
        }
    }
    // If a reader accepted one of the reserved kinds 5 to 7, these zeros could deny every key.
    for (payload, shape) in
        [32, 64, 128].into_iter().flat_map(|len| (5 * 32..=255).map(move |shape| (vec![0; len], shape)))
    {
        assert!(unfiltered(&shaped(&payload, shape)), "shape {shape} of {} zeros", payload.len());
    }
    let lines = compact_of("blocked-bloom:20", 100);
    let lines = &lines[..lines.len() - compact::TRAILER_LEN_BYTES];
    assert!(!unfiltered(&shaped(lines, 4 * 32 + 16)));
    for cut in 1..64 {
        assert!(unfiltered(&shaped(&lines[cut..], 4 * 32 + 16)), "a line without {cut} bytes");
    }
    for (payload, shape, what) in [
        (lines, 4 * 32 + 17, "17 probes in a line"),
        (lines, 4 * 32, "no probes in a line"),
        (&[], 3 * 32 + 1, "a filter of no bytes"),
        (&[], 4 * 32 + 1, "a filter of no lines"),
        (&[0], 32, "an empty filter of one byte"),
        (&[], 33, "an empty filter with a probe"),
        (&[0], 64, "an always-maybe filter of one byte"),
    ] {
        assert!(unfiltered(&shaped(payload, shape)), "{what}");
    }
}

#[test]
fn kinds_without_a_compact_form_are_refused() {
    for text in
        ["split-block:10", "split-block-512:10", "ribbon:8", "bumped-ribbon:8", "bumped-ribbon:12.3", "binary-fuse:8"]
    {
        let mut builder = FilterOptions::new(spec(text)).builder(SEED).unwrap();
        (0..1_000).for_each(|i| builder.add_hash(hash(i)));
        let error = builder.finish_compact().unwrap_err();
        assert!(matches!(&error, Error::Invalid { what: "filter", given, .. } if given == text), "{text}: {error}");
        assert!(error.to_string().contains("only the kinds bloom, blocked-bloom and always-maybe have"), "{error}");
    }
}

#[test]
fn filters_of_prefixes_are_refused() {
    // The compact form records neither the extractor nor whether the filter holds whole keys. So a
    // reader could deny a present key or prefix that the filter does not hold.
    for whole_keys_too in [false, true] {
        let builder = FilterOptions::new(spec("bloom:10"))
            .prefixes_by_host("first-4", if whole_keys_too { WholeKeys::Too } else { WholeKeys::Not })
            .builder(SEED)
            .unwrap();
        let error = builder.finish_compact().unwrap_err();
        assert!(matches!(&error, Error::Invalid { what: "extractor", given, .. } if given == "first-4"), "{error}");
    }
}

#[test]
fn any_bytes_answer_without_panic() {
    let mut random = Random(3);
    for round in 0..3_000 {
        let bytes: Vec<u8> = (0..random.index(300)).map(|_| random.next() as u8).collect();
        let bytes = if round % 2 == 0 { sealed(&bytes) } else { bytes };
        let usable = compact::check(&bytes, &HASHER).is_ok();
        for raw in [0, u64::MAX, 1 << 63, random.next(), random.next()] {
            assert_eq!(ask(&bytes, KeyHash::from_raw(raw)) != Answer::Unfiltered, usable, "{bytes:?}");
        }
    }
}
