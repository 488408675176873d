//! Tests the self-check of the builder with payloads that were spoilt on purpose.

use super::options::FilterOptions;
use crate::error::Error;
use crate::hash::{HashSeed, KeyHash};

/// Clears the second half of the payload.
fn lose(payload: &mut [u8]) {
    let half = payload.len() / 2;
    payload.iter_mut().skip(half).for_each(|byte| *byte = 0);
}

#[test]
fn a_filter_that_denies_its_keys_fails_the_self_check() {
    for kind in ["bloom:10", "blocked-bloom:10", "split-block:10", "ribbon:8", "bumped-ribbon:8", "binary-fuse:8"] {
        let finish = |spoil: fn(&mut [u8]), self_check| {
            let options = FilterOptions::new(kind.parse().unwrap()).self_check(self_check);
            let mut builder = options.builder(HashSeed(1)).unwrap();
            builder.spoil = spoil;
            (0..1_000u32).for_each(|i| builder.add_hash(KeyHash::of(&i.to_le_bytes(), HashSeed(1))));
            builder.finish().map(|built| built.bytes)
        };
        let valid = finish(|_| (), true).unwrap();
        assert!(valid == finish(|_| (), false).unwrap(), "{kind}");
        let error = finish(lose, true).unwrap_err();
        let Error::SelfCheckFailed { denied } = error else { panic!("{kind}: {error}") };
        assert!((400..=1_000).contains(&denied), "{kind}: {denied}");
        assert_eq!(finish(lose, false).unwrap().len(), valid.len(), "{kind}");
    }
}
