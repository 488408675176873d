//! Tests that a [`VerifiedTrailer`] gives a filter for the bytes of its block.

use filterblock::layout::{PAGE_CHECKSUM_LEN_BYTES, PAGE_LEN_BYTES};
use filterblock::{
    Answer, Error, Expected, Field, FilterBlock, FilterOptions, HashSeed, KeyHash, KeyHasher, Secret, VerifiedFilter,
    VerifiedTrailer, Verify, WholeKeys,
};
use filterblock_testkit::blocks::{SEED, SPECS, TABLE, block, block_of, hash, key, partitioned, payload_len, spec};

static HASHER: KeyHasher = KeyHasher::xxh3(SEED);

fn of_any_table() -> Expected<'static> {
    Expected::of_any_table(&HASHER)
}

/// Returns whether the trailer is that of other bytes.
fn rejects(trailer: &VerifiedTrailer, bytes: &[u8]) -> bool {
    trailer.ask_hash(bytes, hash(0)) == Answer::Unfiltered
}

fn read(bytes: &[u8]) -> VerifiedTrailer {
    VerifiedTrailer::read(bytes, &of_any_table()).unwrap()
}

#[test]
fn every_kind_answers_as_its_block_at_any_offset() {
    for (text, n) in SPECS.into_iter().flat_map(|text| [0, 1, 300, 3_000, 20_000].map(|n| (text, n))) {
        let bytes = block(text, n);
        let trailer = read(&bytes);
        let whole = FilterBlock::open(bytes.as_slice(), &Expected::of_table(TABLE, &HASHER), Verify::AtOpen).unwrap();
        let asked: Vec<KeyHash> = (0..n).step_by(n / 300 + 1).chain(n..n + 500).map(hash).collect();
        for offset in [0, 1, 8, 31, 63] {
            // The host reads the bytes again later, into a buffer with another alignment.
            let moved = [vec![0xa5; offset].as_slice(), &bytes, &[0x5a; 64]].concat();
            let ask = |hash| trailer.ask_hash(&moved[offset..offset + bytes.len()], hash);
            for &hash in &asked {
                assert_eq!(ask(hash), whole.may_contain_hash(hash).into(), "{text}, {n} keys");
            }
            assert!((0..n.min(3_000)).all(|i| ask(hash(i)) == Answer::Maybe), "{text}, {n} keys");
        }
    }
}

#[test]
fn a_trailer_rejects_other_bytes() {
    for (text, n) in SPECS.into_iter().flat_map(|text| [1, 300, 9_000].map(|n| (text, n))) {
        let mut bytes = block(text, n);
        let trailer = read(&bytes);
        let payload_len = payload_len(&bytes).unwrap();
        let extension = payload_len + payload_len.div_ceil(PAGE_LEN_BYTES) * PAGE_CHECKSUM_LEN_BYTES;
        for bit in extension * 8..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(rejects(&trailer, &bytes), "{text}, {n} keys, bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        // A longer or shorter payload would move the bits of all keys.
        for cut in [1, 8, 64, payload_len] {
            let shorter = bytes.get(cut..).filter(|_| cut > 0);
            assert!(shorter.is_none_or(|bytes| rejects(&trailer, bytes)), "{text}, {n} keys, {cut}");
        }
        for other in [&[&[0], &bytes[..]].concat(), &[&bytes[..], &[0]].concat(), &bytes[..bytes.len() - 1], &[]] {
            assert!(rejects(&trailer, other), "{text}, {n} keys, {} bytes", other.len());
        }
        let of_another = block_of(text, 0..n, [9; 16]);
        assert!(rejects(&trailer, &of_another), "{text}, {n} keys, of another SST");
        assert!(!rejects(&trailer, &bytes));
    }
}

#[test]
fn trailers_are_refused_with_the_errors_of_the_filter() {
    let bytes = block("blocked-bloom:10", 100);
    let other_seed = KeyHasher::xxh3(HashSeed(SEED.0 + 1));
    let keyed = KeyHasher::sip13(SEED, &Secret::new(&[7; 16]).unwrap());
    let refused = [
        of_any_table().with_num_entries(99),
        of_any_table().with_checksum(7),
        of_any_table().with_prefixes("first-7"),
        Expected::of_table([7; 16], &HASHER),
        Expected::of_any_table(&other_seed),
        Expected::of_any_table(&keyed),
    ];
    for expected in refused {
        let errors = [
            VerifiedTrailer::read(&bytes, &expected).unwrap_err().to_string(),
            VerifiedFilter::open(&bytes, &expected).unwrap_err().to_string(),
        ];
        assert_eq!(errors[0], errors[1]);
    }
    let moved = VerifiedTrailer::read(&bytes[1..], &of_any_table().at_offset(1 << 40));
    assert!(matches!(moved, Err(Error::Corrupt { offset, .. }) if offset > 1 << 40), "{moved:?}");
    let index = VerifiedTrailer::read(&partitioned("bloom:10", 100, 10), &of_any_table());
    assert!(matches!(index, Err(Error::Unexpected { field: Field::Kind, .. })), "{index:?}");
}

#[test]
fn filters_of_prefixes_only_are_refused() {
    // The view of a filter of prefixes only would deny whole keys.
    for whole_keys_too in [false, true] {
        let mut builder = FilterOptions::new(spec("bloom:12"))
            .prefixes_by_host("first-7", if whole_keys_too { WholeKeys::Too } else { WholeKeys::Not })
            .builder(SEED)
            .unwrap();
        (0..300).for_each(|i| builder.add_prefix(builder.hasher().key(&key(i)[..7])));
        let bytes = builder.finish().unwrap().bytes;
        let trailer = VerifiedTrailer::read(&bytes, &of_any_table().with_prefixes("first-7"));
        match trailer {
            Ok(_) => assert!(whole_keys_too),
            Err(error) => {
                assert!(!whole_keys_too && matches!(error, Error::Unexpected { field: Field::Flags, .. }), "{error}");
            }
        }
    }
}
