//! Tests the self-check of the builder with payloads that were spoilt on purpose.

use super::*;
use crate::hash::HashSeed;

/// Clears the second half of the payload.
fn lose(payload: &mut [u8]) {
    let half = payload.len() / 2;
    payload.iter_mut().skip(half).for_each(|byte| *byte = 0);
}

#[test]
fn a_filter_that_denies_its_keys_fails_the_self_check() {
    let hashes: Vec<_> = (0..1_000u32).map(|i| KeyHash::of(&i.to_le_bytes(), HashSeed(1))).collect();
    for kind in ["bloom:10", "blocked-bloom:10", "split-block:10", "ribbon:8", "bumped-ribbon:8", "binary-fuse:8"] {
        let mut full = FilterBuilder::new(kind.parse().unwrap(), HashSeed(1));
        let builder = full.clone();
        hashes.iter().for_each(|&hash| full.add_hash(hash));
        for (builder, given) in [(full, &[][..]), (builder, &hashes[..])] {
            let check = |spoil: fn(&mut [u8]), self_check| {
                FilterBuilder { spoil, ..builder.clone() }.with_self_check(self_check).finish_with(given)
            };
            let sound = check(|_| (), SelfCheck::On).unwrap();
            assert!(sound == check(|_| (), SelfCheck::Off).unwrap(), "{kind}");
            let error = check(lose, SelfCheck::On).unwrap_err();
            let Error::SelfCheckFailed { denied } = error else { panic!("{kind}: {error}") };
            assert!((400..=1_000).contains(&denied), "{kind}: {denied}");
            assert_eq!(check(lose, SelfCheck::Off).unwrap().len(), sound.len(), "{kind}");
        }
    }
}
