//! Tests damaged range filters, and range filters under another seed or secret.

use std::ops::Bound::Included;

use filterblock::{FilterBlock, Verify};

use super::key_sets::mix;
use super::support::{Keys, block, builder};

fn keys() -> Keys {
    (0..400).map(|i| format!("user:{:07}", mix(i) % 5_000_000).into_bytes()).collect()
}

/// Asserts that opening with `AtOpen` fails. If opening with `OnFirstTouch` succeeds, asserts that
/// every seventh key is found, and that verifying the pages fails.
fn assert_detected(bytes: &[u8], keys: &Keys, what: &str) {
    assert!(FilterBlock::open_any(bytes, Verify::AtOpen).is_err(), "opened: {what}");
    let Ok(block) = FilterBlock::open_any(bytes, Verify::OnFirstTouch) else { return };
    for key in keys.iter().step_by(7) {
        assert!(
            block.may_contain_range(Included(key), Included(key)) && block.may_contain(block.hasher().key(key)),
            "{what}"
        );
    }
    assert!(block.verify_pages().is_err(), "verified: {what}");
}

#[test]
fn every_flipped_bit_of_a_range_filter_is_detected() {
    let keys = keys();
    let original = block("grafite:L=16:fpr=0.01", &keys);
    for bit in 0..original.len() * 8 {
        let mut bytes = original.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_detected(&bytes, &keys, &format!("bit {bit} of {} bytes", original.len()));
    }
}

#[test]
fn truncated_and_extended_range_filters_are_refused() {
    let original = block("grafite:fpr=0.01", &keys());
    for len in 0..original.len() {
        assert!(FilterBlock::open_any(&original[..len], Verify::OnFirstTouch).is_err(), "{len} bytes");
        assert!(FilterBlock::open_any(&original[original.len() - len..], Verify::OnFirstTouch).is_err(), "last {len}");
    }
    for more in [1, 60, 64, 4_096] {
        let longer = [vec![0; more], original.clone()].concat();
        assert!(FilterBlock::open_any(longer, Verify::OnFirstTouch).is_err(), "{more} bytes in front");
    }
}

#[test]
fn a_range_filter_under_another_seed_is_refused() {
    let mut builder = builder("grafite:fpr=0.01");
    keys().iter().for_each(|key| builder.add(builder.hasher().key(key)));
    let bytes = builder.finish().unwrap().bytes;
    let other = filterblock::KeyHasher::xxh3(filterblock::HashSeed(1));
    let expected = filterblock::Expected::of_table(super::support::TABLE, &other);
    assert!(FilterBlock::open(bytes.as_slice(), &expected, Verify::AtOpen).unwrap_err().is_secret_mismatch());
}

#[test]
fn a_secret_protects_the_codes_of_a_range_filter() {
    let secret = |fill: u8| filterblock::Secret::new(&[fill; 16]).unwrap();
    let of = |fill| filterblock::KeyHasher::sip13(filterblock::HashSeed(1), &secret(fill));
    let built = |hasher: &filterblock::KeyHasher| {
        let mut builder = filterblock::FilterOptions::new("grafite:fpr=0.01".parse().unwrap()).builder(hasher).unwrap();
        keys().iter().for_each(|key| builder.add(builder.hasher().key(key)));
        builder.finish().unwrap().bytes
    };
    let (one, other) = (built(&of(1)), built(&of(2)));
    assert!(one != other && FilterBlock::open_any(one.as_slice(), Verify::AtOpen).is_err());
    let locked = filterblock::ParsedBlock::open(one.as_slice(), Verify::AtOpen).unwrap();
    let block = locked.bind_any(Some(&secret(1))).unwrap();
    assert!(keys().iter().all(|key| block.may_contain_range(Included(key), Included(key))));
}
