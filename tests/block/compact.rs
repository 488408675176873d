//! The compact form: few bytes, no checksums, any bytes at any alignment.

use crate::support::{SEED, SplitMix, hash, spec};
use filterblock::{Error, FilterBuilder, KeyHash, SelfCheck, compact};
use proptest::prelude::*;

fn compact_of(spec_text: &str, n: usize) -> Vec<u8> {
    let mut builder = FilterBuilder::new(spec(spec_text), SEED).with_self_check(SelfCheck::Off);
    (0..n).for_each(|i| builder.add_hash(hash(i)));
    builder.finish_compact().unwrap()
}

#[test]
fn a_filter_of_33_keys_is_within_4_bits_of_the_lower_bound() {
    let bytes = compact_of("bloom:fpr=0.01", 33);
    let bits_per_key = bytes.len() as f64 * 8.0 / 33.0;
    assert!(bits_per_key <= 100f64.log2() + 4.0, "{bits_per_key}");
    assert_eq!(bytes.len(), 42, "expected 40 bytes for the filter and 2 for the trailer");
    // The FPR stays near 1 %, although 33 keys are few.
    let positives = (0..100).map(|seed| {
        let mut builder = FilterBuilder::new(spec("bloom:fpr=0.01"), SEED);
        (0..33).for_each(|i| builder.add_hash(hash(seed * 100_000 + i)));
        let bytes = builder.finish_compact().unwrap();
        (1_000..11_000).filter(|i| compact::may_contain_hash(&bytes, hash(seed * 100_000 + i))).count()
    });
    let rate = positives.sum::<usize>() as f64 / 1e6;
    assert!((0.008..0.011).contains(&rate), "{rate}");
}

#[test]
fn every_key_is_found_at_every_alignment() {
    for spec in ["bloom:1", "bloom:10", "bloom:30", "blocked-bloom:10", "blocked-bloom:30", "full"] {
        for n in [0, 1, 2, 3, 33, 500] {
            let bytes = compact_of(spec, n);
            assert!(bytes.len() >= compact::TRAILER_LEN_BYTES);
            for shift in 0..64 {
                let shifted = [vec![0xaa; shift].as_slice(), &bytes, &[0xaa; 3]].concat();
                let view = &shifted[shift..shift + bytes.len()];
                assert!(
                    (0..n).all(|i| compact::may_contain_hash(view, hash(i))),
                    "{spec}, {n} keys, shifted by {shift}"
                );
            }
        }
    }
}

#[test]
fn a_filter_of_no_keys_takes_two_bytes_and_denies_everything() {
    for spec in ["bloom:10", "blocked-bloom:10"] {
        let bytes = compact_of(spec, 0);
        assert_eq!(bytes, [0, 0x11]);
        assert!((0..100).all(|i| !compact::may_contain_hash(&bytes, hash(i))));
    }
}

#[test]
fn bytes_of_an_unknown_version_kind_or_shape_answer_maybe() {
    let bytes = compact_of("bloom:20", 100);
    let absent: Vec<KeyHash> = (1_000..1_100).map(hash).collect();
    let denied = |bytes: &[u8]| absent.iter().filter(|&&hash| !compact::may_contain_hash(bytes, hash)).count();
    assert!(denied(&bytes) > 90);
    assert_eq!(denied(&[]), 0, "nothing");
    assert_eq!(denied(&bytes[..1]), 0, "one byte");
    let with_trailer = |trailer: [u8; 2]| [&bytes[..bytes.len() - 2], &trailer].concat();
    let probes = bytes[bytes.len() - 2];
    for tag in 0..=255u8 {
        // The builder wrote the tag 0x13. The tag 0x14 needs whole lines.
        if tag != 0x13 {
            assert_eq!(denied(&with_trailer([probes, tag])), 0, "tag {tag:#x}");
        }
    }
    for probes in (31..=255).chain([0]) {
        assert_eq!(denied(&with_trailer([probes, 0x13])), 0, "{probes} probes");
    }
    let lines = compact_of("blocked-bloom:20", 100);
    for cut in 1..64 {
        assert_eq!(denied(&lines[cut..]), 0, "a line without {cut} bytes");
    }
    assert_eq!(denied(&[&lines[..lines.len() - 2], &[17, 0x14]].concat()), 0, "17 probes in a line");
    assert_eq!(denied(&[1, 0x13]), 0, "a filter of no bytes");
    assert_eq!(denied(&[1, 0x14]), 0, "a filter of no lines");
    assert_eq!(denied(&[0, 0, 0x11]), 0, "an empty filter of one byte");
    assert_eq!(denied(&[1, 0x11]), 0, "an empty filter with a probe");
}

#[test]
fn kinds_without_a_compact_form_are_refused() {
    for text in
        ["split-block:10", "split-block-512:10", "ribbon:8", "bumped-ribbon:8", "bumped-ribbon:12.3", "binary-fuse:8"]
    {
        let mut builder = FilterBuilder::new(spec(text), SEED);
        (0..1_000).for_each(|i| builder.add_hash(hash(i)));
        let error = builder.finish_compact().unwrap_err();
        assert!(matches!(&error, Error::Invalid { what: "filter", given, .. } if given == text), "{text}: {error}");
        assert!(error.to_string().contains("only the kinds bloom, blocked-bloom and full;"), "{error}");
    }
    // If a kind without a compact form were accepted, these zeros would deny every key.
    for payload in [32, 64, 128] {
        for (probes, kind) in (0..20).flat_map(|probes| (5..16).map(move |kind| (probes, kind))) {
            let bytes = [vec![0; payload], vec![probes, 0x10 | kind]].concat();
            assert!((0..9).all(|i| compact::may_contain_hash(&bytes, hash(i))), "kind {kind} of {probes} probes");
        }
    }
}

#[test]
fn a_block_and_the_compact_form_have_the_same_payload() {
    // Blocked filters have the same size in both forms.
    let mut builder = FilterBuilder::new(spec("blocked-bloom:10"), SEED);
    (0..1_000).for_each(|i| builder.add_hash(hash(i)));
    let compact = builder.clone().finish_compact().unwrap();
    let block = builder.finish().unwrap();
    let payload = compact.len() - compact::TRAILER_LEN_BYTES;
    assert_eq!(compact[..payload], block[..payload]);
}

proptest! {
    #[test]
    fn any_bytes_answer_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        trailer in prop::option::of((0..40u8, prop::sample::select(vec![0x11u8, 0x12, 0x13, 0x14, 0x15, 0x24, 0x03]))),
        seed in any::<u64>(),
    ) {
        let mut bytes = bytes;
        if let Some((probes, tag)) = trailer {
            bytes.extend_from_slice(&[probes, tag]);
        }
        let mut random = SplitMix(seed);
        for raw in [0, u64::MAX, 1 << 63, random.next(), random.next()] {
            let _ = compact::may_contain_hash(&bytes, KeyHash::from_raw(raw));
        }
    }
}
