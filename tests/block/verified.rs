//! Tests that a [`VerifiedFilter`] answers like its block, and which damage goes unnoticed.

use filterblock::FilterOptions;
use filterblock::WholeKeys;
use filterblock::layout::{PAGE_CHECKSUM_LEN_BYTES, PAGE_LEN_BYTES, TRAILER_LEN_BYTES, checksum_of};
use filterblock::{
    Added, Error, Expected, Field, FilterBlock, FilterKind, HashSeed, KeyHash, KeyHasher, ParsedBlock, Secret,
    VerifiedFilter, Verify, partitions::PartitionIndex,
};
use filterblock_testkit::Random;
use filterblock_testkit::allocation::of_thread::{LIVE, PEAK};
use filterblock_testkit::blocks::{
    self, SEED, SPECS, TABLE, block, built, corpus, hash, index_of, key, mutate, partitioned, payload_len, put_number,
    repair_trailer, spec, with_extension,
};

static HASHER: KeyHasher = KeyHasher::xxh3(SEED);

fn of_any_table() -> Expected<'static> {
    Expected::of_any_table(&HASHER)
}

fn of_table() -> Expected<'static> {
    Expected::of_table(TABLE, &HASHER)
}

/// Returns [`SPECS`] and further budgets.
fn specs() -> impl Iterator<Item = &'static str> {
    SPECS.into_iter().chain(["bloom:1.5", "blocked-bloom:16", "split-block-512:16", "bumped-ribbon:32"])
}

#[test]
fn every_kind_answers_as_its_block_at_any_alignment() {
    // The largest bumped ribbon has several layers.
    let sizes = specs().flat_map(|text| [0, 1, 40, 300, 3_000, 70_000].map(|n| (text, n)));
    for (text, n) in sizes.chain([("bumped-ribbon:8", 300_000)]) {
        let bytes = block(text, n);
        let whole = FilterBlock::open(bytes.as_slice(), &of_table(), Verify::AtOpen).unwrap();
        let asked: Vec<KeyHash> = (0..n).step_by(n / 300 + 1).chain(n..n + 500).map(hash).collect();
        let wanted: Vec<bool> = asked.iter().map(|&hash| whole.may_contain_hash(hash)).collect();
        assert!(wanted.iter().take(n.div_ceil(n / 300 + 1)).all(|&answer| answer), "{text}, {n} keys");
        let mut buffer = vec![0xa5; bytes.len() + 128];
        let base = buffer.as_ptr().align_offset(64);
        let offsets = if n > 3_000 { vec![0, 1, 31, 32, 63] } else { (0..64).collect() };
        for offset in offsets {
            // The bytes after the block are 0xa5. If a query used these bytes, its answer would
            // often be wrong.
            let place = base + offset..base + offset + bytes.len();
            buffer[place.clone()].copy_from_slice(&bytes);
            let expected = if offset % 2 == 0 { of_table() } else { of_any_table() };
            let filter = VerifiedFilter::open(&buffer[place], &expected).unwrap();
            for (&hash, &wanted) in asked.iter().zip(&wanted) {
                assert_eq!(filter.may_contain_hash(hash), wanted, "{text}, {n} keys, offset {offset}");
            }
        }
    }
}

/// Asks for all keys, because only a few of them are in the last layer of a bumped ribbon.
#[test]
fn every_added_key_is_found_in_every_kind() {
    let hashes: Vec<KeyHash> = (0..300_000).map(hash).collect();
    for text in specs() {
        let bytes = block(text, hashes.len());
        let parsed = ParsedBlock::open(&bytes, Verify::AtOpen).unwrap();
        let has_layers = parsed.parameters().is_some_and(|parameters| parameters.contains("layer 1"));
        assert_eq!(has_layers, text.starts_with("bumped"), "{text}: {:?}", parsed.parameters());
        let filter = VerifiedFilter::open(&bytes, &of_any_table()).unwrap();
        assert!(hashes.iter().all(|&hash| filter.may_contain_hash(hash)), "{text}");
    }
}

#[test]
fn opening_and_asking_takes_nothing_from_the_heap() {
    let options = FilterOptions::new(spec("blocked-bloom:10")).prefixes_by_host("first-7", WholeKeys::Too);
    let prefixes = built(&options, SEED, (0..100).map(|i| key(i)[..7].to_vec()));
    let secret = Secret::new(&[7; 16]).unwrap();
    let keyed = [KeyHasher::xxh3_with_secret(SEED, &secret), KeyHasher::sip13(SEED, &secret)];
    let mut blocks: Vec<(Vec<u8>, &KeyHasher)> = vec![(prefixes, &HASHER)];
    for hasher in &keyed {
        let options = FilterOptions::new(spec("bumped-ribbon:8"));
        blocks.push((built(&options, hasher, (0..9_000).map(key)), hasher));
    }
    for text in SPECS {
        blocks.extend([0, 1, 300, 70_000].map(|n| (block(text, n), &HASHER)));
    }
    blocks.push((block("bumped-ribbon:8", 300_000), &HASHER));
    // The first query of a process detects the instruction sets, which may allocate.
    assert!(VerifiedFilter::open(&block("bloom:10", 1), &of_any_table()).unwrap().may_contain(HASHER.key(&key(0))));
    let keys: Vec<Vec<u8>> = (0..200).map(|i| key(i * 31)).collect();
    for (bytes, hasher) in &blocks {
        let before = LIVE.get();
        PEAK.set(before);
        let mut found = 0;
        for key in &keys {
            let filter = VerifiedFilter::open(bytes, &Expected::of_any_table(hasher)).unwrap();
            found += usize::from(filter.may_contain(filter.hasher().key(key)));
            found += usize::from(filter.may_contain_prefix("first-7", filter.hasher().key(&key[..7])));
        }
        assert_eq!((PEAK.get(), LIVE.get()), (before, before), "{} bytes", bytes.len());
        assert!(found >= 1);
    }
}

/// A flipped bit of the page checksums goes unnoticed, because [`VerifiedFilter`] does not read
/// them.
#[test]
fn every_flipped_bit_of_extension_and_trailer_is_noticed() {
    let options = FilterOptions::new(spec("bloom:10")).prefixes_by_host("first-7", WholeKeys::Too);
    let mut blocks = vec![built(&options, SEED, (0..100).map(key))];
    blocks.extend(SPECS.iter().flat_map(|text| [1, 300, 30_000].map(|n| block(text, n))));
    for mut bytes in blocks {
        let payload_len = payload_len(&bytes).unwrap();
        let extension = payload_len + payload_len.div_ceil(PAGE_LEN_BYTES) * PAGE_CHECKSUM_LEN_BYTES;
        for bit in payload_len * 8..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let opened = VerifiedFilter::open(&bytes, &of_any_table());
            assert_eq!(opened.is_ok(), bit < extension * 8, "bit {bit} of {} bytes: {opened:?}", bytes.len());
            assert!(FilterBlock::open(&bytes, &of_table(), Verify::OnFirstTouch).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for cut in (0..TRAILER_LEN_BYTES + 80).filter(|&cut| cut > 0 && cut <= bytes.len()) {
            assert!(VerifiedFilter::open(&bytes[..bytes.len() - cut], &of_any_table()).is_err(), "cut by {cut}");
            assert!(VerifiedFilter::open(&bytes[cut..], &of_any_table()).is_err(), "cut by {cut} in front");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(VerifiedFilter::open(&longer, &of_any_table()).is_err());
        assert!(VerifiedFilter::open(&[&[0], bytes.as_slice()].concat(), &of_any_table()).is_err());
        assert!(VerifiedFilter::open(&bytes, &of_any_table()).is_ok());
    }
}

#[test]
fn damaged_pages_of_a_verified_filter_go_unnoticed() {
    let mut bytes = block("blocked-bloom:10", 3_000);
    bytes[..64].fill(0);
    assert!(FilterBlock::open(&bytes, &of_table(), Verify::AtOpen).is_err());
    let filter = VerifiedFilter::open(&bytes, &of_table()).unwrap();
    assert!(
        (0..3_000).any(|i| !filter.may_contain(filter.hasher().key(&key(i)))),
        "a damaged page denies no key, although the documentation says that it may"
    );
}

fn refused(bytes: &[u8], expected: &Expected<'_>) -> Field {
    match VerifiedFilter::open(bytes, expected).unwrap_err() {
        Error::Unexpected { field, .. } | Error::Corrupt { field, .. } => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn expectations_of_a_host_are_compared() {
    let bytes = block("blocked-bloom:10", 100);
    let checksum = checksum_of(&bytes).unwrap();
    for expected in [of_table(), of_any_table()] {
        let stated = expected.with_num_entries(100).with_checksum(checksum);
        assert!(VerifiedFilter::open(&bytes, &stated).is_ok());
        assert_eq!(refused(&bytes, &expected.with_num_entries(99)), Field::NumKeys);
        assert_eq!(refused(&bytes, &expected.with_checksum(checksum ^ 1)), Field::Checksum);
        assert_eq!(refused(&bytes, &expected.with_prefixes("first-7")), Field::Flags);
    }
    assert_eq!(refused(&bytes, &Expected::of_table([7; 16], &HASHER)), Field::TableId);
    let zeros = VerifiedFilter::open(&bytes, &Expected::of_table([0; 16], &HASHER));
    assert!(matches!(zeros, Err(Error::Invalid { what: "expected table id", .. })), "{zeros:?}");
    let other = KeyHasher::xxh3(HashSeed(SEED.0 + 1));
    let keyed = KeyHasher::sip13(SEED, &Secret::new(&[7; 16]).unwrap());
    assert_eq!(refused(&bytes, &Expected::of_any_table(&other)), Field::Seed);
    assert_eq!(refused(&bytes, &Expected::of_any_table(&keyed)), Field::HashId);
    // Offsets in errors count from the start of the host's file.
    let moved = VerifiedFilter::open(&bytes[1..], &of_any_table().at_offset(1 << 40));
    assert!(matches!(moved, Err(Error::Corrupt { offset, .. }) if offset > 1 << 40), "{moved:?}");
}

#[test]
fn expecting_any_table_opens_neither_block_nor_index() {
    let is_refused = |error: Error| matches!(error, Error::Invalid { what: "expected table id", .. });
    let (bytes, parts) = (block("bloom:10", 100), partitioned("bloom:10", 100, 10));
    assert!(is_refused(FilterBlock::open(&bytes, &of_any_table(), Verify::AtOpen).unwrap_err()));
    assert!(is_refused(FilterBlock::open(&parts, &of_any_table(), Verify::OnFirstTouch).unwrap_err()));
    let index = index_of(&parts);
    assert!(is_refused(PartitionIndex::open(index, &of_any_table()).unwrap_err()));
    assert!(PartitionIndex::open(index, &of_table()).is_ok());
}

#[test]
fn partitions_and_their_index_are_refused() {
    let bytes = partitioned("blocked-bloom:10", 100, 10);
    assert_eq!(refused(&bytes, &of_any_table()), Field::Kind);
    assert_eq!(refused(index_of(&bytes), &of_any_table()), Field::Kind);
    let index = PartitionIndex::open(index_of(&bytes), &of_table()).unwrap();
    for entry in index.iter() {
        let part = &bytes[entry.byte_range.start as usize..entry.byte_range.end as usize];
        assert_eq!(
            refused(part, &of_any_table()),
            Field::PartitionNumber,
            "as a whole filter, a partition would deny its neighbours' keys"
        );
    }
}

#[test]
fn whole_keys_are_not_denied_by_verified_prefixes() {
    let mut builder =
        FilterOptions::new(spec("bloom:12")).prefixes_by_host("first-7", WholeKeys::Not).builder(SEED).unwrap();
    (0..300).for_each(|i| builder.add_prefix(builder.hasher().key(&key(i)[..9])));
    let bytes = builder.finish().unwrap().bytes;
    // A host expects whole keys, unless it states prefixes.
    assert_eq!(refused(&bytes, &of_any_table()), Field::Flags);
    let filter = VerifiedFilter::open(&bytes, &of_any_table().with_prefixes("first-7")).unwrap();
    for key in (0..300).map(key) {
        assert!(filter.may_contain(filter.hasher().key(&key)) && filter.may_contain_hash(HASHER.of(&key)));
        assert!(
            filter.may_contain_prefix("first-7", filter.hasher().key(&key[..9]))
                && filter.may_contain_prefix("other", filter.hasher().key(b"x"))
        );
    }
    let denied = (0..100)
        .filter(|i| !filter.may_contain_prefix("first-7", filter.hasher().key(format!("no-{i}").as_bytes())))
        .count();
    assert!(denied > 90, "{denied}");
    // A filter of whole keys answers "maybe" to every prefix.
    let keys = block("bloom:12", 300);
    let keys = VerifiedFilter::open(&keys, &of_any_table()).unwrap();
    assert!((0..100).all(|i| keys.may_contain_prefix("first-7", keys.hasher().key(format!("no-{i}").as_bytes()))));
}

/// Compares a [`VerifiedFilter`] with the block of the same bytes. Returns whether both opened.
fn agrees_with_its_block(bytes: &[u8]) -> bool {
    let block = match FilterBlock::open_any(bytes, Verify::OnFirstTouch) {
        Ok(block) => block,
        Err(Error::Secret { given: None, .. }) => return false,
        // A `VerifiedFilter` does not read the page checksums, so it may open.
        Err(Error::ChecksumMismatch { field: Field::PageChecksums, .. }) => return false,
        Err(error) => {
            // A `VerifiedFilter` of a bumped ribbon opens without a check of its layers. Each query
            // reads the layers, and answers "maybe" if they are invalid.
            if let Ok(opened) = VerifiedFilter::open(bytes, &of_any_table()) {
                let kind = blocks::get_number(bytes, Field::Kind);
                assert_eq!(kind, FilterKind::BumpedRibbon as u64, "{error}: {opened:?}");
                assert!((0..40).all(|i| opened.may_contain_hash(hash(i))), "{error}: {opened:?}");
            }
            return false;
        }
    };
    let metadata = block.metadata();
    let mut expected = Expected::of_any_table(block.hasher());
    if let (Added::Prefixes, Some(extractor)) = (metadata.added, metadata.extractor) {
        expected = expected.with_prefixes(extractor);
    }
    let filter = VerifiedFilter::open(bytes, &expected);
    let Ok(filter) = filter else {
        let is_index = blocks::get_number(bytes, Field::Kind) == u64::from(filterblock::layout::PARTITION_INDEX_TAG);
        assert!(is_index, "{filter:?}");
        return false;
    };
    let sound = FilterBlock::open_any(bytes, Verify::AtOpen).ok();
    let raw = [0, 1, u64::MAX, 1 << 63, 1 << 31].into_iter().chain((0..40).map(|i| hash(i).raw()));
    for hash in raw.map(KeyHash::from_raw) {
        let answer = filter.may_contain_hash(hash);
        assert!(sound.as_ref().is_none_or(|sound| sound.may_contain_hash(hash) == answer), "{metadata:?}");
    }
    let _ = (
        filter.may_contain(filter.hasher().key(b"")),
        filter.may_contain_prefix("first-4-bytes", filter.hasher().key(b"key-")),
        format!("{filter:?}"),
    );
    true
}

#[test]
fn verified_edits_with_repaired_checksums_never_panic() {
    let mut random = Random(7);
    let mut corpus = corpus();
    corpus.extend([block("bumped-ribbon:12.3", 20_000), block("bumped-ribbon:8", 9_000)]);
    let (mut opened, rounds) = (0, 40_000 / filterblock_testkit::sparse() as usize);
    for round in 0..rounds {
        let mut bytes = corpus[round % corpus.len()].clone();
        mutate(&mut bytes, &mut random);
        opened += u32::from(agrees_with_its_block(&bytes));
    }
    assert!(opened > rounds as u32 / 40, "only {opened} edits passed the checks: repair the mutator");
}

#[test]
fn hostile_records_of_layers_agree_with_the_block() {
    let mut random = Random(9);
    let ribbon = block("bumped-ribbon:8", 20_000);
    let record_len = blocks::get_number(&ribbon, Field::ExtensionLen) as usize;
    let (mut opened, rounds) = (0, 20_000 / filterblock_testkit::sparse() as usize);
    for _ in 0..rounds {
        let mut bytes = ribbon.clone();
        let from = bytes.len() - TRAILER_LEN_BYTES - record_len;
        for _ in 0..=random.index(2) {
            bytes[from + 2 + random.index(record_len - 2)] = random.next() as u8;
        }
        if random.index(2) == 0 {
            put_number(&mut bytes, Field::Params, random.next());
        }
        repair_trailer(&mut bytes);
        opened += u32::from(agrees_with_its_block(&bytes));
    }
    // Filters of 1 to 12 layers are valid, and filters of 13 layers are not. With two or more
    // layers, a reader requires at least 128 bytes of payload per layer. So each layer has one
    // block of 16 columns, which takes 128 bytes, and one byte of bump bits.
    for layers in 1..=13u8 {
        let payload = usize::from(layers) * (16 * 8 + 1);
        let mut bytes: Vec<u8> = (0..payload).map(|_| random.next() as u8).collect();
        bytes.extend([0; 4]);
        bytes.extend_from_slice(&block("bloom:10", 0));
        for (field, number) in [(Field::PayloadLen, payload as u64), (Field::NumKeys, 100), (Field::Kind, 7)] {
            put_number(&mut bytes, field, number);
        }
        put_number(&mut bytes, Field::Params, 16);
        let record = [&[3, layers + 1][..], &vec![1; usize::from(layers)], &[0]].concat();
        let mut bytes = with_extension(bytes, 1, &record);
        blocks::repair_pages(&mut bytes);
        assert_eq!(agrees_with_its_block(&bytes), layers <= 12, "{layers} layers");
        let filter = VerifiedFilter::open(&bytes, &of_any_table()).unwrap();
        let denied = (0..1_000).filter(|&i| !filter.may_contain_hash(hash(i))).count();
        assert_eq!(denied > 500, layers <= 12, "{layers} layers deny {denied}");
    }
    assert!(opened > 0 || rounds < 1_000);
}
