//! Tests blocks whose keys were hashed under a secret.

use filterblock::layout::TRAILER_LEN_BYTES;
use filterblock::{
    Added, Error, Field, FilterBlock, FilterOptions, HashKind, HashSeed, KeyHasher, ParsedBlock, Secret, Verify,
    WholeKeys,
};
use filterblock_testkit::blocks::{
    self, BOTH, TABLE, built, built_in_partitions, get_number, key, put_number, repair_trailer, spec, with_extension,
};

const SEED: HashSeed = HashSeed(0x5eed);
const KEYED: [HashKind; 2] = [HashKind::Xxh3Secret, HashKind::SipHash13];

fn secret(fill: u8) -> Secret {
    Secret::new(&[fill; 32]).unwrap()
}

fn hasher(kind: HashKind, fill: u8) -> KeyHasher {
    KeyHasher::new(kind, SEED, Some(&secret(fill))).unwrap()
}

fn options() -> FilterOptions {
    FilterOptions::new(spec("blocked-bloom:10")).table_id(TABLE)
}

fn block(kind: HashKind, fill: u8) -> Vec<u8> {
    built(&options(), hasher(kind, fill), (0..1_000).map(key))
}

fn partitioned(kind: HashKind, fill: u8) -> Vec<u8> {
    built_in_partitions(&options(), hasher(kind, fill), 300, (0..1_000).map(key))
}

#[test]
fn a_block_with_its_secret_finds_every_key_and_keeps_its_fpr() {
    for (kind, bytes) in KEYED.into_iter().flat_map(|kind| [(kind, block(kind, 1)), (kind, partitioned(kind, 1))]) {
        for verify in BOTH {
            let block =
                ParsedBlock::open(bytes.as_slice(), verify).and_then(|block| block.bind_any(Some(&secret(1)))).unwrap();
            assert_eq!((block.hasher().identity().kind, block.hasher().seed()), (kind, SEED));
            for i in 0..1_000 {
                let hash = block.hasher().of(&key(i));
                assert!(block.may_contain_hash(hash) && block.may_contain(block.hasher().key(&key(i))));
            }
            let let_through = (1_000..11_000).filter(|&i| block.may_contain(block.hasher().key(&key(i)))).count();
            assert!((40..250).contains(&let_through), "{kind}: {let_through} of 10,000");
            block.verify_pages().unwrap();
        }
    }
}

#[test]
fn an_error_without_the_secret_names_the_hash_function() {
    for (kind, bytes) in KEYED.into_iter().flat_map(|kind| [(kind, block(kind, 1)), (kind, partitioned(kind, 1))]) {
        for verify in BOTH {
            let error = FilterBlock::open_any(bytes.as_slice(), verify).unwrap_err();
            assert!(matches!(error, Error::Secret { hash, given: None, .. } if hash == kind), "{error}");
            assert!(
                error.to_string().contains(&kind.to_string()) && error.is_secret_mismatch() && !error.is_damage(),
                "{error}"
            );
            let error = ParsedBlock::open(bytes.as_slice(), verify)
                .and_then(|block| block.bind_any(Some(&secret(2))))
                .unwrap_err();
            let given = hasher(kind, 2).identity().fingerprint.unwrap();
            assert!(matches!(error, Error::Secret { hash, given: Some(found), .. } if (hash, found) == (kind, given)));
            assert!(error.to_string().contains(&kind.to_string()), "{error}");
        }
        let locked = || ParsedBlock::open(bytes.as_slice(), Verify::AtOpen).unwrap();
        let other = KEYED[usize::from(kind == KEYED[0])];
        let error = locked().bind_to(&hasher(other, 1)).unwrap_err();
        assert!(
            matches!(&error, Error::Unexpected { field: Field::HashId, found, expected } if (found, expected) == (&kind.to_string(), &other.to_string())),
            "{error}"
        );
        let error = locked().bind_to(&SEED.into()).unwrap_err();
        assert!(matches!(&error, Error::Unexpected { expected, .. } if expected == "xxh3"), "{error}");
        let other_seed = KeyHasher::new(kind, HashSeed(1), Some(&secret(1))).unwrap();
        let error = locked().bind_to(&other_seed).unwrap_err();
        assert!(matches!(error, Error::Unexpected { field: Field::Seed, .. }), "{error}");
        assert!(error.is_unexpected() && error.is_secret_mismatch() && !error.is_damage(), "{error}");
        locked().bind_to(&hasher(kind, 1)).unwrap();
    }
    // A caller that gives a secret relies on its protection, so an unused secret is an error.
    let plain = blocks::block("bloom:10", 10);
    let error =
        ParsedBlock::open(&plain, Verify::AtOpen).and_then(|block| block.bind_any(Some(&secret(1)))).unwrap_err();
    assert!(matches!(error, Error::Invalid { what: "secret", .. }), "{error}");
}

#[test]
fn a_locked_block_returns_everything_but_answers() {
    for kind in KEYED {
        let bytes = block(kind, 1);
        let locked = ParsedBlock::open(bytes.as_slice(), Verify::AtOpen).unwrap();
        let open = ParsedBlock::open(bytes.as_slice(), Verify::AtOpen)
            .and_then(|block| block.bind_any(Some(&secret(1))))
            .unwrap();
        assert_eq!(locked.metadata().hash, hasher(kind, 1).identity());
        assert_eq!((locked.metadata(), locked.metadata().table_id), (open.metadata(), TABLE));
        assert_eq!((locked.metadata().added, locked.metadata().extractor), (open.metadata().added, None));
        locked.verify_pages().unwrap();
        assert_eq!((locked.as_bytes(), open.as_bytes()), (bytes.as_slice(), bytes.as_slice()));
        // The debug text shows the trailer, but neither the secret nor the bytes.
        let printed = format!("{locked:?} {open:?}");
        assert!(
            printed.contains("ParsedBlock { trailer: ") && printed.contains("FilterBlock { trailer: "),
            "{printed}"
        );
        assert!(!printed.contains("secret: [") && printed.len() < 3_000, "{printed}");
    }
}

#[test]
fn a_locked_block_returns_its_extractor_and_damage() {
    let options = FilterOptions::new(spec("bloom:10")).prefixes_by_host("first-4-bytes", WholeKeys::Too);
    let mut bytes = built(&options, hasher(HashKind::SipHash13, 1), (0..300).map(key));
    bytes[7] ^= 1;
    let locked = ParsedBlock::open(bytes.as_slice(), Verify::OnFirstTouch).unwrap();
    assert_eq!((locked.metadata().added, locked.metadata().extractor), (Added::Both, Some("first-4-bytes")));
    assert!(matches!(locked.verify_pages(), Err(Error::ChecksumMismatch { field: Field::Page, offset: 0, .. })));
}

#[test]
fn a_partition_under_another_secret_or_function_is_detected() {
    for kind in KEYED {
        let bytes = partitioned(kind, 1);
        let other_kind = KEYED[usize::from(kind == KEYED[0])];
        // Partitions of the same keys have the same lengths, so they can be exchanged.
        for other in [partitioned(kind, 2), partitioned(other_kind, 1)] {
            assert_eq!(bytes.len(), other.len());
            let mut mixed = bytes.clone();
            mixed[..400].copy_from_slice(&other[..400]);
            let first_len =
                (0..1_000).find(|&len| ParsedBlock::open_partition(&other[..len], 0, Verify::AtOpen).is_ok());
            let first_len = first_len.unwrap();
            mixed[..first_len].copy_from_slice(&other[..first_len]);
            let error = ParsedBlock::open(&mixed, Verify::AtOpen)
                .and_then(|block| block.bind_any(Some(&secret(1))))
                .unwrap_err();
            assert!(matches!(error, Error::Corrupt { field: Field::PartitionIndex | Field::Partition, .. }), "{error}");
            // A partition opened alone needs its own secret.
            let part = &bytes[..first_len];
            assert!(matches!(
                ParsedBlock::open_partition(part, 0, Verify::AtOpen).and_then(|block| block.bind_any(None)),
                Err(Error::Secret { given: None, .. })
            ));
            let part =
                ParsedBlock::open_partition(part, 0, Verify::AtOpen).unwrap().bind_any(Some(&secret(1))).unwrap();
            assert!((0..300).all(|i| part.may_contain(part.hasher().key(&key(i)))));
        }
    }
}

#[test]
fn a_fingerprint_is_valid_only_with_a_secret() {
    let open = |block: &[u8]| ParsedBlock::open(block.to_vec(), Verify::AtOpen).map(drop);
    let plain = blocks::block("bloom:10", 10);
    let record = [&[1u8, 8][..], &[7; 8]].concat();
    assert!(open(&with_extension(plain.clone(), 1, &[])).is_ok());
    let corrupt = |block: &[u8]| matches!(open(block), Err(Error::Corrupt { field: Field::Extension, .. }));
    assert!(corrupt(&with_extension(plain.clone(), 1, &record)), "a fingerprint without a secret was accepted");
    for id in [2, 3] {
        let with_id = |extension: &[u8]| {
            let mut block = with_extension(plain.clone(), 1, extension);
            put_number(&mut block, Field::HashId, id);
            repair_trailer(&mut block);
            block
        };
        assert!(open(&with_id(&record)).is_ok());
        assert!(corrupt(&with_id(&[])), "a secret without a fingerprint was accepted");
        assert!(corrupt(&with_id(&[record.clone(), record.clone()].concat())), "two fingerprints were accepted");
        for len in (0..=32u8).filter(|&len| len != 8) {
            assert!(corrupt(&with_id(&[vec![1, len], vec![7; len.into()]].concat())), "{len} bytes");
        }
    }
    for id in [0, 4, 255] {
        let mut block = with_extension(plain.clone(), 1, &record);
        put_number(&mut block, Field::HashId, id);
        repair_trailer(&mut block);
        assert!(matches!(open(&block), Err(Error::Unsupported { field: Field::HashId, .. })), "{id}");
    }
}

#[test]
fn every_flipped_bit_of_a_fingerprint_is_detected() {
    let bytes = block(HashKind::SipHash13, 1);
    let extension_len = get_number(&bytes, Field::ExtensionLen) as usize;
    assert_eq!(extension_len, 10);
    let start = bytes.len() - TRAILER_LEN_BYTES - extension_len;
    for bit in start * 8..(bytes.len() - TRAILER_LEN_BYTES) * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let error =
            ParsedBlock::open(&changed, Verify::AtOpen).and_then(|block| block.bind_any(Some(&secret(1)))).unwrap_err();
        assert!(matches!(error, Error::ChecksumMismatch { .. }), "{error}");
        // An attacker can repair the checksum.
        repair_trailer(&mut changed);
        assert!(
            ParsedBlock::open(&changed, Verify::AtOpen).and_then(|block| block.bind_any(Some(&secret(1)))).is_err()
        );
    }
}
