//! Tests damaged and edited filter blocks, and blocks of a newer writer.

use filterblock::layout::{PAGE_CHECKSUM_LEN_BYTES, PAGE_LEN_BYTES, PARTITION_INDEX_TAG, TRAILER_LEN_BYTES, offset_of};
use filterblock::{Error, Field, FilterBlock, FilterKind, FilterOptions, KeyHash, Verify};
use filterblock_testkit::blocks::{
    BOTH, SEED, TABLE, block, block_of, built, corpus, hash, key, mutate, partitioned, payload_len, put_number,
    repair_pages, repair_trailer, spec, with_extension,
};
use filterblock_testkit::{Random, sparse};

const KINDS: [&str; 2] = ["bloom:10", "blocked-bloom:10"];

/// Returns small blocks, each with its number of keys. They are an empty filter, an always-maybe
/// filter, a filter of one key, a range filter, and a whole and a partitioned filter of each of
/// [`KINDS`].
fn small_blocks() -> Vec<(Vec<u8>, usize)> {
    let ranges = FilterOptions::new(spec("grafite:fpr=0.01")).table_id(TABLE);
    let mut blocks = vec![(block("bloom:10", 0), 0), (block("always-maybe", 3), 3), (block("bloom:10", 1), 1)];
    blocks.push((built(&ranges, SEED, (0..400).map(key)), 400));
    for spec in KINDS {
        blocks.push((block(spec, 400), 400));
        blocks.push((partitioned(spec, 300, 100), 300));
    }
    blocks
}

/// Returns the step of the loops in which each case checksums a whole block.
fn stride() -> usize {
    if sparse() == 1 { 1 } else { 997 }
}

/// Asserts that opening with `AtOpen` fails. If opening with `OnFirstTouch` succeeds, asserts that
/// the block answers "maybe" for all `keys`, and that verifying its pages fails.
///
/// Returns the number of damaged pages that queries of all `keys` found, or `None` if opening with
/// `OnFirstTouch` failed.
fn is_detected(bytes: &[u8], keys: impl IntoIterator<Item = usize>, what: impl Fn() -> String) -> Option<u64> {
    assert!(FilterBlock::open_any(bytes, Verify::AtOpen).is_err(), "opened: {}", what());
    let block = FilterBlock::open_any(bytes, Verify::OnFirstTouch).ok()?;
    for i in keys {
        assert!(block.may_contain_hash(hash(i)), "key {i} denied: {}", what());
    }
    assert!(block.verify_pages().is_err(), "verified: {}", what());
    Some(block.damaged_pages())
}

#[test]
fn every_flipped_bit_of_small_blocks_is_detected() {
    for (original, n) in small_blocks() {
        let kind = original[original.len() - TRAILER_LEN_BYTES + offset_of(Field::Kind)];
        let asks_hashes = ![PARTITION_INDEX_TAG, FilterKind::Grafite as u8].contains(&kind);
        let payload = payload_len(&original).unwrap();
        let mut bytes = original.clone();
        for bit in 0..original.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let bad_pages = is_detected(&bytes, 0..n, || format!("bit {bit} of {} bytes", original.len()));
            if asks_hashes {
                // If the bit was 1, a key had set it, and a query of that key finds the page
                // damaged.
                let was_set = original[bit / 8] >> (bit % 8) & 1 == 1;
                match bad_pages {
                    Some(count) => assert!(bit / 8 < payload && count <= 1 && (count == 1 || !was_set), "bit {bit}"),
                    None => {
                        assert!(bit / 8 >= payload, "bit {bit} of the payload makes an open with OnFirstTouch fail")
                    }
                }
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn flipped_bits_of_every_page_are_detected() {
    let n = 52_000;
    for spec in KINDS {
        let mut bytes = block(spec, n);
        assert!((64_000..68_000).contains(&bytes.len()));
        for bit in (0..bytes.len() * 8).step_by(7 * stride()) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            is_detected(&bytes, (bit % 9973..n).step_by(9973), || format!("bit {bit} of {spec}"));
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        // For some of the bits, asks for all keys.
        for bit in (0..bytes.len() * 8).step_by(31_981) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            is_detected(&bytes, 0..n, || format!("bit {bit} of {spec}"));
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn damage_of_any_page_never_denies_a_present_key() {
    let n = 12_000;
    let mut random = Random(11);
    for spec in
        ["split-block:10", "split-block-512:10", "binary-fuse:8", "binary-fuse:12", "binary-fuse:16", "ribbon:8.3"]
    {
        let original = block(spec, n);
        let payload = payload_len(&original).unwrap();
        for round in 0..60 {
            let mut bytes = original.clone();
            let at = random.index(payload);
            let page = at / PAGE_LEN_BYTES * PAGE_LEN_BYTES..payload.min((at / PAGE_LEN_BYTES + 1) * PAGE_LEN_BYTES);
            match round % 4 {
                0 => bytes[at] ^= 1 << (round % 8),
                1 => bytes[page].fill(0),
                2 => bytes[page].fill(0xff),
                _ => bytes[page].iter_mut().for_each(|byte| *byte = random.next() as u8),
            }
            is_detected(&bytes, 0..n, || format!("{spec}, round {round}"));
        }
    }
}

#[test]
fn flipped_pairs_of_bits_are_detected() {
    let original = block("bloom:10", 700);
    assert!((900..1_024).contains(&original.len()));
    let mut bytes = original.clone();
    let bits = bytes.len() * 8;
    for a in 0..bits {
        bytes[a / 8] ^= 1 << (a % 8);
        for b in (a + 1 + a % 17..bits).step_by(17 * stride()) {
            bytes[b / 8] ^= 1 << (b % 8);
            assert!(FilterBlock::open_any(bytes.as_slice(), Verify::AtOpen).is_err(), "bits {a} and {b}");
            bytes[b / 8] ^= 1 << (b % 8);
        }
        bytes[a / 8] ^= 1 << (a % 8);
    }
    assert!(bytes == original);
    // Tests verification on first touch with random pairs of bits of two other blocks.
    let mut random = Random(1);
    for spec in KINDS {
        let mut bytes = block(spec, 800);
        let bits = bytes.len() * 8;
        for _ in 0..20_000 / sparse() {
            let (a, b) = (random.index(bits), random.index(bits));
            if a != b {
                [a, b].iter().for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
                is_detected(&bytes, (0..800).step_by(37), || format!("bits {a} and {b} of {spec}"));
                [a, b].iter().for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
            }
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    let mut blocks = small_blocks();
    blocks.extend(KINDS.map(|spec| (block(spec, 8_000), 8_000)));
    for (original, _) in blocks {
        for len in 0..original.len() {
            for (verify, bytes) in
                BOTH.into_iter().flat_map(|v| [(v, &original[..len]), (v, &original[original.len() - len..])])
            {
                assert!(FilterBlock::open_any(bytes, verify).is_err(), "{len} of {} bytes", original.len());
            }
        }
    }
}

#[test]
fn added_bytes_or_blocks_are_refused() {
    let refused = |bytes: &[u8], what: &str| {
        for verify in BOTH {
            assert!(FilterBlock::open_any(bytes, verify).is_err(), "{what}");
        }
    };
    let blocks = small_blocks();
    for (original, _) in &blocks {
        for extra_len in (1..200).chain([4096]) {
            for value in [0u8, 0xff, 0x5a] {
                let extra = vec![value; extra_len];
                refused(&[&extra, original.as_slice()].concat(), "extra bytes before");
                refused(&[original.as_slice(), &extra].concat(), "extra bytes after");
                let (payload, tail) = original.split_at(original.len() - TRAILER_LEN_BYTES);
                refused(&[payload, &extra, tail].concat(), "extra bytes before the trailer");
            }
        }
        for (other, _) in &blocks {
            refused(&[other.as_slice(), original].concat(), "a block after another");
        }
    }
}

#[test]
fn zeros_are_no_block() {
    for len in (0..300).chain([4_096, 65_536]) {
        for verify in BOTH {
            assert!(FilterBlock::open_any(&vec![0; len][..], verify).is_err(), "{len}");
        }
    }
}

#[test]
fn zeroed_swapped_stale_and_foreign_pages_are_detected() {
    let n = 12_000;
    for spec in KINDS {
        let original = block(spec, n);
        let page = |number: usize| number * PAGE_LEN_BYTES..(number + 1) * PAGE_LEN_BYTES;
        // A crash may leave a page of zeros.
        let mut bytes = original.clone();
        bytes[page(1)].fill(0);
        assert_eq!(is_detected(&bytes, 0..n, || "zeroed page".into()), Some(1));
        // A misdirected write may leave one page twice.
        for (from, to) in [(0, 1), (1, 0), (2, 1), (0, 2)] {
            let mut bytes = original.clone();
            bytes.copy_within(page(from), to * PAGE_LEN_BYTES);
            assert_eq!(is_detected(&bytes, 0..n, || "repeated page".into()), Some(1));
        }
        // Two misdirected writes may swap two pages.
        let mut bytes = original.clone();
        bytes[page(0)].copy_from_slice(&original[page(2)]);
        bytes[page(2)].copy_from_slice(&original[page(0)]);
        assert_eq!(is_detected(&bytes, 0..n, || "swapped pages".into()), Some(2));
        // The page checksums are swapped as well. They still fail, because they include the page
        // number.
        let checksums = payload_len(&original).unwrap();
        bytes[checksums..checksums + 4].copy_from_slice(&original[checksums + 8..checksums + 12]);
        bytes[checksums + 8..checksums + 12].copy_from_slice(&original[checksums..checksums + 4]);
        repair_trailer(&mut bytes);
        assert_eq!(is_detected(&bytes, 0..n, || "swapped pages and checksums".into()), Some(2));
        // Page 1 comes from a block of other keys, of the same SST or of another SST. The page
        // checksum comes from this other block, or stays as it was.
        let older = block_of(spec, n..2 * n, TABLE);
        let foreign = block_of(spec, n..2 * n, *b"some other table");
        for (other, with_checksum, what) in [
            (&older, false, "stale page"),
            (&foreign, false, "foreign page"),
            (&foreign, true, "foreign page and checksum"),
        ] {
            let mut bytes = original.clone();
            bytes[page(1)].copy_from_slice(&other[page(1)]);
            if with_checksum {
                bytes[checksums + 4..checksums + 8].copy_from_slice(&other[checksums + 4..checksums + 8]);
                repair_trailer(&mut bytes);
            }
            assert_eq!(is_detected(&bytes, 0..n, || what.into()), Some(1), "{what}");
        }
        // The trailer gets the id of another SST. Then no page matches its checksum, and every
        // query answers "maybe".
        let mut bytes = original.clone();
        put_number(&mut bytes, Field::TableId, 7);
        repair_trailer(&mut bytes);
        assert_eq!(is_detected(&bytes, 0..n, || "another table id".into()), Some(0));
        let absent = (n..2 * n).filter(|&i| {
            !FilterBlock::open_any(bytes.as_slice(), Verify::OnFirstTouch).unwrap().may_contain_hash(hash(i))
        });
        assert_eq!(absent.count(), 0, "no page passes its checksum, so no key may be denied");
    }
}

#[test]
fn contradicting_fields_with_valid_checksums_are_corrupt() {
    let bloom = || block("bloom:10", 100);
    let blocked = || block("blocked-bloom:10", 100);
    let edits: Vec<(&str, Vec<u8>, Field, u64, Field)> = vec![
        ("no version", bloom(), Field::Version, 0, Field::Version),
        ("no probes", bloom(), Field::Params, 0, Field::Params),
        ("31 probes", bloom(), Field::Params, 31, Field::Params),
        ("17 probes in a line", blocked(), Field::Params, 17, Field::Params),
        ("the first reserved byte", bloom(), Field::Params, 0x01_07, Field::Params),
        ("the last reserved byte", bloom(), Field::Params, 0x01_00_07, Field::Params),
        ("keys in a filter of none", block("bloom:10", 0), Field::NumKeys, 1, Field::NumKeys),
        ("no key in a filter of some", bloom(), Field::NumKeys, 0, Field::NumKeys),
        ("more keys than bits", bloom(), Field::NumKeys, 1025, Field::NumKeys),
        ("probes of an always-maybe filter", block("always-maybe", 3), Field::Params, 1, Field::Params),
        ("a payload of an always-maybe filter", bloom(), Field::Kind, 2, Field::Params),
        ("prefixes without a name", bloom(), Field::Flags, 3, Field::Extension),
    ];
    for (what, mut bytes, name, number, wanted) in edits {
        put_number(&mut bytes, name, number);
        repair_trailer(&mut bytes);
        let error = FilterBlock::open_any(bytes.as_slice(), Verify::AtOpen).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field, .. } if field == wanted), "{what}: {error}");
    }
    let extended = [
        (1, &b"\x02\x01a"[..]),
        (2, b"\x02\x00"),
        (2, b"\x02\x01a\x02\x01b"),
        (2, b"\x02\x05abc"),
        (2, b"\x02"),
        (2, b"\x02\x01\xff"),
    ];
    for (flags, extension) in extended {
        let error = FilterBlock::open_any(with_extension(bloom(), flags, extension), Verify::AtOpen).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field: Field::Extension, .. }), "{extension:?}: {error}");
    }
    assert_eq!(
        FilterBlock::open_any(with_extension(bloom(), 2, b"\x02\x01a"), Verify::AtOpen).unwrap().metadata().extractor,
        Some("a")
    );
    // The offset of the error is the end of the record.
    let named = with_extension(bloom(), 2, b"\x02\x01\xff");
    let end = (named.len() - TRAILER_LEN_BYTES) as u64;
    let error = FilterBlock::open_any(named, Verify::AtOpen).unwrap_err();
    assert!(matches!(error, Error::Corrupt { offset, .. } if offset == end), "{error:?}, wanted {end}");
    // Two records of layers, or one record without bytes, are invalid.
    let ribbon = block("ribbon:8", 100);
    let layers = &ribbon[ribbon.len() - TRAILER_LEN_BYTES - 3..ribbon.len() - TRAILER_LEN_BYTES];
    assert_eq!(layers[..2], [3, 1]);
    let mut twice = ribbon.clone();
    twice.splice(ribbon.len() - TRAILER_LEN_BYTES..ribbon.len() - TRAILER_LEN_BYTES, layers.iter().copied());
    put_number(&mut twice, Field::ExtensionLen, 6);
    repair_trailer(&mut twice);
    for bytes in [twice, with_extension(bloom(), 1, &[3, 0])] {
        let error = FilterBlock::open_any(bytes, Verify::AtOpen).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field: Field::Extension, .. }), "{error}");
    }
}

#[test]
fn errors_of_a_wrong_extension_have_the_offset_of_its_start() {
    // The record of parameters of the ribbon is an incomplete varint.
    let mut ribbon = block("ribbon:8", 100);
    let last = ribbon.len() - TRAILER_LEN_BYTES - 1;
    ribbon[last] = 0xff;
    repair_trailer(&mut ribbon);
    let unexpected_name = with_extension(block("bloom:10", 100), 1, b"\x02\x01a");
    for bytes in [ribbon, unexpected_name] {
        let start = (bytes.len() - TRAILER_LEN_BYTES - 3) as u64;
        let error = FilterBlock::open_any(bytes, Verify::AtOpen).unwrap_err();
        assert!(
            matches!(error, Error::Corrupt { field: Field::Extension, offset } if offset == start),
            "{error:?}, wanted {start}"
        );
    }
}

#[test]
fn first_touch_answers_like_verification_at_open() {
    let others =
        ["split-block:10", "split-block-512:10", "binary-fuse:8", "binary-fuse:12", "binary-fuse:16", "ribbon:8.3"];
    for text in KINDS.into_iter().chain(others).chain(["bumped-ribbon:8", "bumped-ribbon:12.3"]) {
        for n in [1_000, 200_000] {
            let bytes = block(text, n);
            let at_open = FilterBlock::open_any(bytes.as_slice(), Verify::AtOpen).unwrap();
            let absent: Vec<KeyHash> = (n..n + 1_000).map(hash).collect();
            let maybes =
                |block: &FilterBlock<&[u8]>| absent.iter().filter(|&&hash| block.may_contain_hash(hash)).count();
            let first_touch = FilterBlock::open_any(bytes.as_slice(), Verify::OnFirstTouch).unwrap();
            for &hash in &absent {
                assert_eq!(first_touch.may_contain_hash(hash), at_open.may_contain_hash(hash), "{text}, {n} keys");
            }
            assert_eq!((first_touch.damaged_pages(), first_touch.verify_pages().is_ok()), (0, true));
            let payload = payload_len(&bytes).unwrap();
            let pages = payload.div_ceil(PAGE_LEN_BYTES);
            for page in [0, pages / 2, pages - 1] {
                let mut damaged = bytes.clone();
                damaged[page * PAGE_LEN_BYTES..payload.min(page * PAGE_LEN_BYTES + 64)].fill(0);
                let block = FilterBlock::open_any(damaged.as_slice(), Verify::OnFirstTouch).unwrap();
                let more = maybes(&block).saturating_sub(maybes(&at_open));
                // A query reads only a few pages. But every query of a bumped ribbon with layers
                // reads bump bits, which may all be on one page.
                let most = if text.starts_with("bumped") && page > pages / 2 { 1_000 } else { 8_000 / pages + 30 };
                assert!(more < most, "{text}, page {page} of {pages}: {more} more of 1000");
                assert!((0..n).step_by(7).all(|i| block.may_contain_hash(hash(i))), "{text}, page {page}");
                assert!(block.damaged_pages() <= 1);
            }
        }
    }
}

#[test]
fn blocks_of_a_newer_writer_are_unsupported_not_corrupt() {
    let newest_kind = FilterKind::ALL.into_iter().map(|kind| kind as u64).max().unwrap();
    for (name, number) in [
        (Field::Version, 2),
        (Field::Version, 255),
        (Field::Kind, 0),
        (Field::Kind, newest_kind + 1),
        (Field::Kind, 255),
        (Field::HashId, 0),
        (Field::HashId, 4),
        (Field::Flags, 0),
        (Field::Flags, 5),
    ] {
        let mut bytes = block("bloom:10", 100);
        // A kind of a later version may use all parameters.
        if name == Field::Kind {
            put_number(&mut bytes, Field::Params, 0x03_0201);
        }
        put_number(&mut bytes, name, number);
        repair_pages(&mut bytes);
        let error = FilterBlock::open_any(bytes.as_slice(), Verify::AtOpen).unwrap_err();
        assert!(matches!(error, Error::Unsupported { field, found } if (field, found) == (name, number)), "{error}");
        assert!(error.is_unsupported() && !error.is_damage(), "{error}");
    }
    let error =
        FilterBlock::open_any(with_extension(block("bloom:10", 100), 1, b"\x07\x01a"), Verify::AtOpen).unwrap_err();
    assert!(matches!(error, Error::Unsupported { field: Field::Extension, found: 7 }), "{error}");
}

/// If a block opens, sends queries of all sorts to it. Asserts that batches and single queries give
/// the same answers, and that the statistics are plausible. Returns whether the block opened with
/// any [`Verify`].
fn exercise(bytes: &[u8]) -> bool {
    let mut opened = false;
    for verify in BOTH {
        let Ok(block) = FilterBlock::open_any(bytes, verify) else { continue };
        opened = true;
        // An edit may have changed the seed, so these hashes have no known hasher.
        let raw = [0, 1, u64::MAX, 1 << 63, 1 << 31].into_iter().chain((0..40).map(|i| hash(i).raw()));
        let hashes: Vec<KeyHash> = raw.map(KeyHash::from_raw).collect();
        let mut answers = vec![false; hashes.len()];
        block.may_contain_batch(&hashes, &mut answers);
        for (i, &hash) in hashes.iter().enumerate() {
            assert_eq!(block.may_contain_hash(hash), answers[i]);
            let _ = block.may_contain(block.hasher().key(&key(i)));
        }
        let _ = (
            block.may_contain(block.hasher().key(b"")),
            block.may_contain(block.hasher().key(&[0xff; 9])),
            block.verify_pages(),
        );
        let found = block.statistics();
        assert!((0.0..=1.0).contains(&block.expected_fpr()));
        assert!(
            (0.0..=1.0).contains(&found.fill_ratio) && found.estimated_keys.is_none_or(|keys| keys >= 0.0),
            "{found:?}"
        );
        let _ = format!("{block:?}");
    }
    opened
}

#[test]
fn edits_with_repaired_checksums_never_panic() {
    let mut random = Random(2);
    let corpus = corpus();
    let (mut opened, rounds) = (0, 40_000 / sparse() as usize);
    for round in 0..rounds {
        let mut bytes = corpus[round % corpus.len()].clone();
        mutate(&mut bytes, &mut random);
        opened += u32::from(exercise(&bytes));
    }
    assert!(opened > rounds as u32 / 40, "only {opened} edits passed the checks: repair the mutator");
}

#[test]
fn random_bytes_before_a_sound_trailer_never_panic() {
    let (mut random, corpus) = (Random(31), corpus());
    let (mut opened, rounds) = (0, 600 / sparse() as usize);
    for round in 0..rounds {
        let original = &corpus[round % corpus.len()];
        // Half of the lengths fit in front of the trailer. Half are whole cache lines, which many
        // filters need.
        let unit = [1, 64][random.index(2)];
        let payload_len = random.index(9_000) / unit * unit;
        let noise_len = match random.index(2) {
            0 => payload_len + payload_len.div_ceil(PAGE_LEN_BYTES) * PAGE_CHECKSUM_LEN_BYTES,
            _ => random.index(9_000),
        };
        let noise: Vec<u8> = (0..noise_len).map(|_| random.next() as u8).collect();
        let mut bytes = [noise.as_slice(), &original[original.len() - TRAILER_LEN_BYTES..]].concat();
        put_number(&mut bytes, Field::PayloadLen, payload_len as u64);
        put_number(&mut bytes, Field::ExtensionLen, 0);
        repair_trailer(&mut bytes);
        if random.index(3) > 0 {
            repair_pages(&mut bytes);
        }
        opened += usize::from(exercise(&bytes));
    }
    // The other filters need an extension or a payload of another length.
    assert!(opened >= rounds / 20, "only {opened} of {rounds} blocks opened");
}
