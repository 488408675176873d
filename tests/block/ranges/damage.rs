//! Tests damaged range filters, and range filters under another seed or secret.

use std::ops::Bound::Included;

use filterblock::{Expected, FilterBlock, FilterOptions, HashSeed, KeyHasher, ParsedBlock, Secret, Verify};
use filterblock_testkit::blocks::built;

use super::key_sets::mix;
use super::support::{Keys, TABLE, block};

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
fn a_range_filter_under_another_seed_is_refused() {
    let other = KeyHasher::xxh3(HashSeed(1));
    let opened =
        FilterBlock::open(block("grafite:fpr=0.01", keys()), &Expected::of_table(TABLE, &other), Verify::AtOpen);
    assert!(opened.unwrap_err().is_secret_mismatch());
}

#[test]
fn a_secret_protects_the_codes_of_a_range_filter() {
    let secret = |fill: u8| Secret::new(&[fill; 16]).unwrap();
    let of = |fill| KeyHasher::sip13(HashSeed(1), &secret(fill));
    let options = FilterOptions::new("grafite:fpr=0.01".parse().unwrap());
    let (one, other) = (built(&options, of(1), keys()), built(&options, of(2), keys()));
    assert!(one != other && FilterBlock::open_any(one.as_slice(), Verify::AtOpen).is_err());
    let locked = ParsedBlock::open(one.as_slice(), Verify::AtOpen).unwrap();
    let block = locked.bind_any(Some(&secret(1))).unwrap();
    assert!(keys().iter().all(|key| block.may_contain_range(Included(key), Included(key))));
}
