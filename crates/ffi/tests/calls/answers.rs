//! Tests builders, filters, error messages and plans through the ABI.

use super::*;
use filterblock::{
    Expected, FilterBlock, FilterOptions, HashSeed, KeyHash, KeyHasher, Verify, layout, partitions::PartitionedBuilder,
};

const N: u64 = 700;
const KINDS: [&str; 8] = [
    "always-maybe",
    "bloom:10",
    "blocked-bloom:10",
    "split-block:10",
    "split-block-512:10",
    "ribbon:8",
    "bumped-ribbon:8",
    "binary-fuse:8",
];

fn own() -> KeyHasher {
    KeyHasher::xxh3(HashSeed(SEED))
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// Builds a filter of [`N`] keys in Rust.
fn in_rust(spec: &str) -> Vec<u8> {
    let mut builder = FilterOptions::new(spec.parse().unwrap()).table_id(TABLE).builder(own()).unwrap();
    (0..N).for_each(|i| builder.add(builder.hasher().key(&key(i))));
    builder.finish().unwrap().bytes
}

fn partitioned() -> Vec<u8> {
    let mut builder =
        PartitionedBuilder::new(&FilterOptions::new("bloom:10".parse().unwrap()).table_id(TABLE), own(), 100).unwrap();
    (0..N).for_each(|i| builder.add(builder.hasher().key(&key(i))).unwrap());
    builder.finish().unwrap().bytes
}

fn blocks() -> Vec<Vec<u8>> {
    KINDS.iter().map(|spec| in_rust(spec)).chain([partitioned()]).collect()
}

/// Asserts that a filter gives the same answers through the ABI as `block` in Rust.
fn assert_answers_alike(filter: &Open, block: &FilterBlock<&[u8]>) {
    let keys: Vec<_> = (0..2 * N).map(key).collect();
    let hashes: Vec<u64> = keys.iter().map(|key| block.hasher().of(key).raw()).collect();
    let by_hash: Vec<bool> = hashes.iter().map(|&hash| block.may_contain_hash(KeyHash::from_raw(hash))).collect();
    let by_key: Vec<bool> = keys.iter().map(|key| block.may_contain(block.hasher().key(key))).collect();
    assert!(by_key[..N as usize].iter().all(|maybe| *maybe));
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(filterblock_filter_may_contain_hash(filter.get(), hashes[i]), by_hash[i]);
        assert_eq!(filter.may_contain(key), by_key[i]);
    }
    for count in [0, 1, 127, 128, 129, 256, keys.len()] {
        assert_eq!(filter.may_contain_hashes(&hashes[..count]), by_hash[..count], "{count}");
    }
}

#[test]
fn filters_answer_as_in_rust_for_every_way_to_open() {
    let (hasher, folder) = (hasher(), tempfile::tempdir().unwrap());
    let path = folder.path().join("filter");
    for bytes in blocks() {
        let block = FilterBlock::open(bytes.as_slice(), &Expected::of_table(TABLE, &own()), Verify::AtOpen).unwrap();
        std::fs::write(&path, [b"before", bytes.as_slice(), b"after"].concat()).unwrap();
        let path = path.to_str().unwrap();
        for verify in [FILTERBLOCK_VERIFY_AT_OPEN, FILTERBLOCK_VERIFY_ON_FIRST_TOUCH] {
            let expected = expected(&hasher);
            // SAFETY: the bytes outlive the filter.
            let borrowed = unsafe { Open::borrowed(&bytes, &expected, verify) };
            assert_answers_alike(&borrowed.unwrap(), &block);
            assert_answers_alike(&Open::copied(&bytes, &expected, verify).unwrap(), &block);
            assert_answers_alike(&Open::mapped(path, 6, bytes.len(), &expected, verify).unwrap(), &block);
        }
    }
}

#[test]
fn builders_give_the_bytes_of_rust_for_every_way_to_add() {
    let hasher = hasher();
    let keys: Vec<_> = (0..N).map(key).collect();
    let hashes: Vec<u64> = keys.iter().map(|key| hash(&hasher, key)).collect();
    for spec in KINDS {
        let mut builder = builder_with(spec, &hasher, Options { threads: 2, ..OF_TABLE }).unwrap();
        filterblock_builder_reserve(Some(&mut builder), keys.len());
        for (i, key) in keys.iter().enumerate() {
            if i % 2 == 0 {
                add(&mut builder, key)
            } else {
                filterblock_builder_add_hash(Some(&mut builder), hashes[i])
            }
        }
        assert_eq!(filterblock_builder_len(Some(&builder)), keys.len());
        assert!(finish(&mut builder).unwrap() == in_rust(spec), "{spec}");
        // Clearing keeps the settings and removes the keys.
        filterblock_builder_clear(Some(&mut builder));
        assert_eq!(filterblock_builder_len(Some(&builder)), 0);
        keys.iter().for_each(|key| add(&mut builder, key));
        assert!(finish(&mut builder).unwrap() == in_rust(spec), "{spec}");
        filterblock_builder_free(Some(builder));
    }
}

/// A call that loses a key or prefix, and the code of the error that reports the loss.
type Loss = (fn(&mut Builder), Code);

#[test]
fn builders_that_lost_a_key_do_not_finish() {
    let hasher = hasher();
    // SAFETY: the pointers are NULL or valid, or the length is impossible.
    let losses: [Loss; 4] = unsafe {
        [
            (|builder| filterblock_builder_add(Some(builder), ptr::null(), 3), Code::NullArgument),
            (|builder| filterblock_builder_add(Some(builder), pointer(b"abc"), usize::MAX), Code::NullArgument),
            (|builder| filterblock_builder_add_hash(Some(builder), FILTERBLOCK_NO_HASH), Code::NullArgument),
            (|builder| filterblock_builder_add_prefix(Some(builder), pointer(b"abc"), 3), Code::Invalid),
        ]
    };
    for (number, (lose, code)) in losses.into_iter().enumerate() {
        for finish in [finish, finish_compact] {
            let mut builder = builder_of_table("bloom:10", &hasher);
            add(&mut builder, b"apple");
            lose(&mut builder);
            add(&mut builder, b"pear");
            assert_eq!(finish(&mut builder).unwrap_err().code, code, "{number}");
            assert_eq!(filterblock_builder_len(Some(&builder)), 0);
            // A second call must not return a filter without the keys.
            assert_eq!(finish(&mut builder).unwrap_err().code, Code::Invalid, "{number}");
            filterblock_builder_clear(Some(&mut builder));
            add(&mut builder, b"apple");
            assert!(finish(&mut builder).is_ok(), "{number}");
            assert_eq!(finish(&mut builder).unwrap_err().code, Code::Invalid, "{number}");
        }
    }
}

#[test]
fn options_that_no_filter_can_have_are_refused() {
    let hasher = hasher();
    let long = "x".repeat(101);
    let (only, none) = (FILTERBLOCK_OPTION_PREFIXES_ONLY, OF_TABLE);
    let with = |extractor, ranges, flags| Options { extractor, ranges, flags, ..none };
    let refused = [
        ("bloom:10", with(Some(""), None, 0)),
        ("bloom:10", with(Some(&long), None, 0)),
        ("bloom:10", with(None, Some("bloom:10"), 0)),
        ("bloom:10", with(None, Some("no such filter"), 0)),
        ("bloom:10", with(Some("first-2"), Some("grafite:9"), only)),
        ("bloom:10", with(None, None, only)),
        ("bloom:10", with(None, None, 4)),
        ("bloom:10", with(None, None, 1 << 31)),
        ("grafite:9", with(None, Some("grafite:9"), 0)),
        ("grafite:9", with(Some("first-2"), None, 0)),
        ("no such filter", none),
    ];
    for (number, (spec, options)) in refused.into_iter().enumerate() {
        let Err(error) = builder_with(spec, &hasher, options) else { panic!("{number}: accepted") };
        assert_eq!(error.code, Code::Invalid, "{number}: {}", error.message);
        let spec = CString::new(spec).unwrap();
        // SAFETY: the pointers are valid.
        let new = |options: &OptionsInfo| unsafe {
            filterblock_partitioned_new(spec.as_ptr(), Some(&hasher), Some(options), 9, ptr::null_mut())
        };
        assert!(options.with(new).is_none(), "{number}: accepted in partitions");
    }
    // Text must be UTF-8. Only the spec and the hasher must not be NULL.
    let bad = c"\xff".as_ptr();
    let new = |spec, hasher, extractor, ranges| {
        let options = OptionsInfo { table_id: [0; 16], extractor, ranges, threads: 0, flags: 0 };
        // SAFETY: the pointers are NULL or valid, and the library checks that text is UTF-8.
        let (builder, error) =
            with_error(|error| unsafe { filterblock_builder_new(spec, hasher, Some(&options), error) });
        (builder.is_some(), error.map(|error| error.code))
    };
    let (spec, null, hasher) = (c"bloom:10".as_ptr(), ptr::null(), Some(&*hasher));
    for (spec, hasher, extractor, ranges) in [
        (null, hasher, null, null),
        (bad, hasher, null, null),
        (spec, None, null, null),
        (spec, hasher, bad, null),
        (spec, hasher, null, bad),
    ] {
        assert_eq!(new(spec, hasher, extractor, ranges), (false, Some(Code::NullArgument)));
    }
    assert_eq!(new(spec, hasher, null, null), (true, None));
}

#[test]
fn prefixes_are_answered_beside_keys_and_without_them() {
    let hasher = hasher();
    for flags in [0, FILTERBLOCK_OPTION_PREFIXES_ONLY, FILTERBLOCK_OPTION_NO_SELF_CHECK] {
        let options = Options { extractor: Some("first-2"), flags, ..OF_TABLE };
        let mut builder = builder_with("bloom:10", &hasher, options).unwrap();
        add(&mut builder, b"apple");
        add_prefix(&mut builder, b"ap");
        let bytes = finish(&mut builder).unwrap();
        let expected =
            ExpectedInfo { flags: FILTERBLOCK_EXPECT_PREFIXES, extractor: c"first-2".as_ptr(), ..expected(&hasher) };
        let filter = Open::copied(&bytes, &expected, FILTERBLOCK_VERIFY_AT_OPEN).unwrap();
        let denies_keys = flags != FILTERBLOCK_OPTION_PREFIXES_ONLY;
        assert!(filter.may_contain(b"apple") && filter.may_contain(b"pear") != denies_keys);
        assert!(filter.may_contain_prefix("first-2", b"ap") && !filter.may_contain_prefix("first-2", b"pe"));
        assert!(filter.may_contain_prefix("first-3", b"pe"));
        // SAFETY: the pointers are NULL or valid, and the library checks that the name is UTF-8.
        unsafe {
            assert!(filterblock_filter_may_contain_prefix(filter.get(), c"\xff".as_ptr(), pointer(b"pe"), 2));
            assert!(filterblock_filter_may_contain_prefix(filter.get(), ptr::null(), pointer(b"pe"), 2));
            assert!(filterblock_filter_may_contain_prefix(filter.get(), c"first-2".as_ptr(), ptr::null(), 2));
        }
        // Clearing keeps the options.
        filterblock_builder_clear(Some(&mut builder));
        add(&mut builder, b"apple");
        add_prefix(&mut builder, b"ap");
        assert!(finish(&mut builder).unwrap() == bytes);
    }
}

#[test]
fn prefixes_of_another_extractor_are_never_denied() {
    let hasher = hasher();
    let expected = |extractor: &'static CStr| ExpectedInfo {
        flags: FILTERBLOCK_EXPECT_PREFIXES,
        extractor: extractor.as_ptr(),
        ..expected(&hasher)
    };
    for whole_keys_too in [true, false] {
        let flags = if whole_keys_too { 0 } else { FILTERBLOCK_OPTION_PREFIXES_ONLY };
        let options = Options { extractor: Some("first-2"), flags, ..OF_TABLE };
        let mut builder = builder_with("bloom:20", &hasher, options).unwrap();
        add_prefix(&mut builder, b"ap");
        let bytes = finish(&mut builder).unwrap();
        let expected = expected(c"first-2");
        let filter = Open::copied(&bytes, &expected, FILTERBLOCK_VERIFY_AT_OPEN).unwrap();
        let mut set = filterblock_set_new(Some(&hasher)).unwrap();
        // SAFETY: the filter is open.
        let slot = unsafe { filterblock_set_insert(Some(&mut set), filter.0) };
        let (present, absent, other) = (AnswerCode::Maybe, AnswerCode::No, AnswerCode::Unfiltered);
        for (extractor, prefix, answer) in
            [(c"first-2", b"ap", present), (c"first-2", b"pe", absent), (c"first-3", b"pe", other)]
        {
            let (at, len, data, data_len) = (pointer(prefix), prefix.len(), pointer(&bytes), bytes.len());
            let maybe = answer != AnswerCode::No;
            assert_eq!(filter.may_contain_prefix(extractor.to_str().unwrap(), prefix), maybe);
            let extractor = extractor.as_ptr();
            // SAFETY: the pointers are valid.
            unsafe {
                assert_eq!(filterblock_set_ask_prefix(Some(&set), slot, extractor, at, len), answer);
                let verified = filterblock_verified_ask_prefix(data, data_len, Some(&expected), extractor, at, len);
                assert_eq!(verified != AnswerCode::No, maybe);
            }
        }
        filterblock_set_free(Some(set));
    }
}

#[test]
fn misused_queries_answer_maybe() {
    let hasher = hasher();
    let bytes = in_rust("bloom:10");
    let filter = Open::copied(&bytes, &expected(&hasher), FILTERBLOCK_VERIFY_AT_OPEN).unwrap();
    assert!(!filter.may_contain(b"absent"));
    assert!(filterblock_filter_may_contain_hash(filter.get(), FILTERBLOCK_NO_HASH));
    let absent = hash(&hasher, b"absent");
    assert_eq!(filter.may_contain_hashes(&[absent, FILTERBLOCK_NO_HASH, absent]), [false, true, false]);
    // SAFETY: the pointers are NULL or valid, or the lengths are impossible.
    unsafe {
        assert!(filterblock_filter_may_contain(filter.get(), ptr::null(), 1));
        assert!(filterblock_filter_may_contain(filter.get(), pointer(b"absent"), usize::MAX));
        let mut answers = [false; 3];
        filterblock_filter_may_contain_hashes(filter.get(), ptr::null(), 3, answers.as_mut_ptr());
        assert_eq!(answers, [true; 3]);
        // No array can have `usize::MAX` elements, so the call writes nothing.
        filterblock_filter_may_contain_hashes(filter.get(), [absent].as_ptr(), usize::MAX, answers.as_mut_ptr());
    }
}

#[test]
fn damaged_pages_are_counted_and_never_deny_a_key() {
    let hasher = hasher();
    for spec in KINDS.into_iter().filter(|spec| *spec != "always-maybe") {
        let sound = in_rust(spec);
        let mut found = 0;
        for at in (0..sound.len()).step_by(37) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            let with_offset = ExpectedInfo { offset: 1 << 40, ..expected(&hasher) };
            let error = Open::copied(&bytes, &with_offset, FILTERBLOCK_VERIFY_AT_OPEN).unwrap_err();
            assert!(filterblock_code_is_damage(error.code as u32) || error.code == Code::Unsupported, "{error:?}");
            assert!(error.offset >= 1 << 40 || error.code == Code::Unsupported, "{error:?}");
            assert!(!error.is_hasher_mismatch);
            let Ok(filter) = Open::copied(&bytes, &with_offset, FILTERBLOCK_VERIFY_ON_FIRST_TOUCH) else { continue };
            assert!((0..N).all(|i| filter.may_contain(&key(i))), "{spec}, byte {at}");
            found += filterblock_filter_damaged_pages(filter.get());
            let error = filter.verify_pages().unwrap_err();
            assert_eq!((error.code, error.offset), (Code::ChecksumMismatch, 1 << 40));
        }
        assert!(found > 0, "{spec}");
    }
}

#[test]
fn blocks_of_any_table_must_meet_all_other_expectations() {
    let hasher = hasher();
    let other = filterblock_hasher_new_xxh3(SEED + 1).unwrap();
    let with_id = in_rust("bloom:10");
    let mut builder = builder("bloom:10", &hasher).unwrap();
    add(&mut builder, b"apple");
    let without_id = finish(&mut builder).unwrap();
    for bytes in [&with_id, &without_id] {
        let checksum = layout::checksum_of(bytes).unwrap();
        let any = || ExpectedInfo { flags: FILTERBLOCK_EXPECT_ANY_TABLE, table_id: [0; 16], ..expected(&hasher) };
        let open = |expected: ExpectedInfo| Open::copied(bytes, &expected, FILTERBLOCK_VERIFY_AT_OPEN);
        let code = |expected| open(expected).unwrap_err().code;
        assert!(open(any()).unwrap().may_contain(if bytes == &with_id { b"key 000001" } else { b"apple" }));
        let with = |flags| ExpectedInfo { flags: FILTERBLOCK_EXPECT_ANY_TABLE | flags, ..any() };
        assert_eq!(code(ExpectedInfo { num_entries: 0, ..with(FILTERBLOCK_EXPECT_NUM_ENTRIES) }), Code::Unexpected);
        assert!(open(ExpectedInfo { num_entries: N, ..with(FILTERBLOCK_EXPECT_NUM_ENTRIES) }).is_ok());
        let checked = |checksum| ExpectedInfo { checksum, ..with(FILTERBLOCK_EXPECT_CHECKSUM) };
        assert_eq!(code(checked(checksum ^ 1)), Code::Unexpected);
        assert!(open(checked(checksum)).is_ok());
        assert_eq!(code(with(FILTERBLOCK_EXPECT_PREFIXES)), Code::NullArgument);
        let prefixes = ExpectedInfo { extractor: c"first-2".as_ptr(), ..with(FILTERBLOCK_EXPECT_PREFIXES) };
        assert_eq!(code(prefixes), Code::Unexpected);
        assert_eq!(code(with(16)), Code::Invalid);
        assert_eq!(code(ExpectedInfo { hasher: ptr::null(), ..any() }), Code::NullArgument);
        let error = open(ExpectedInfo { hasher: &raw const *other, ..any() }).unwrap_err();
        assert!(error.code == Code::Unexpected && error.is_hasher_mismatch, "{error:?}");
        assert_eq!(Open::copied(bytes, &any(), 2).unwrap_err().code, Code::Invalid);
        // An id of zeros names no SST. Without `FILTERBLOCK_EXPECT_ANY_TABLE` or
        // `FILTERBLOCK_EXPECT_CHECKSUM`, the library refuses it.
        assert_eq!(code(ExpectedInfo { flags: 0, ..any() }), Code::Invalid);
    }
}

#[test]
fn filters_open_only_with_the_secret_of_their_keys() {
    let make = |new: unsafe extern "C" fn(u64, *const _, usize, *mut ErrorInfo) -> Option<Box<Hasher>>,
                secret: &[u8]| {
        // SAFETY: the pointers are valid.
        with_error(|error| unsafe { new(SEED, pointer(secret), secret.len(), error) })
    };
    for new in [filterblock_hasher_new_xxh3_secret, filterblock_hasher_new_sip13] {
        let (hasher, none) = make(new, &[1; 16]);
        let (other, _) = make(new, &[2; 16]);
        let (hasher, other) = (hasher.unwrap(), other.unwrap());
        assert!(none.is_none());
        let mut builder = builder_of_table("bloom:10", &hasher);
        add(&mut builder, b"apple");
        let bytes = finish(&mut builder).unwrap();
        assert!(Open::copied(&bytes, &expected(&hasher), 0).unwrap().may_contain(b"apple"));
        for flags in [0, FILTERBLOCK_EXPECT_ANY_TABLE] {
            let error = Open::copied(&bytes, &ExpectedInfo { flags, ..expected(&other) }, 0).unwrap_err();
            assert!(error.code == Code::Secret && error.is_hasher_mismatch, "{error:?}");
        }
        let (none, error) = make(new, &[1; 15]);
        assert!(none.is_none() && error.unwrap().code == Code::Invalid);
    }
}

#[test]
fn long_messages_are_cut_between_characters() {
    let hasher = hasher();
    for len in 150..170 {
        // Each message is cut in the part of the path in which characters of three bytes alternate
        // with slashes. The number of "x" moves the cut to every offset within a character.
        let path = format!("/{}{}", "x".repeat(len), "\u{20ac}/".repeat(200));
        let error = Open::mapped(&path, 0, 1, &expected(&hasher), 0).unwrap_err();
        assert_eq!(error.code, Code::Io);
        let most = FILTERBLOCK_ERROR_MESSAGE_LEN - 1;
        assert!((most - 2..=most).contains(&error.message.len()) && path.starts_with(&error.message));
    }
}

/// Opening a pipe waits for a writer. If the test hangs, the function opened the pipe.
#[test]
fn a_pipe_a_device_and_a_directory_are_not_mapped() {
    let hasher = hasher();
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.to_str().unwrap(), dir.path().to_str().unwrap(), "/dev/zero"] {
        for data_len in [0, 60] {
            let error = Open::mapped(path, 0, data_len, &expected(&hasher), 0).unwrap_err();
            assert!(error.code == Code::Io && error.message.contains("not a regular file"), "{}", error.message);
        }
    }
}

#[test]
fn plans_and_metadata_are_those_of_rust() {
    let hasher = hasher();
    for spec in KINDS.into_iter().filter(|spec| *spec != "always-maybe") {
        let bytes = in_rust(spec);
        let filter = Open::copied(&bytes, &expected(&hasher), 0).unwrap();
        let text = CString::new(spec).unwrap();
        // SAFETY: the pointers are valid.
        let plan: PlanInfo = filled(|plan| unsafe { filterblock_plan(text.as_ptr(), N, plan, ptr::null_mut()) });
        let metadata: MetadataInfo =
            // SAFETY: the pointers are valid.
            filled(|metadata| unsafe { filterblock_filter_metadata(filter.get(), metadata, ptr::null_mut()) });
        let block = FilterBlock::open(bytes.as_slice(), &Expected::of_table(TABLE, &own()), Verify::AtOpen).unwrap();
        assert_eq!((metadata.num_keys, metadata.block_len_bytes), (N, bytes.len() as u64));
        assert_eq!(metadata.expected_fpr, block.expected_fpr());
        assert_eq!((metadata.probes, metadata.num_partitions), (block.metadata().probes, 0));
        assert_eq!((metadata.hash_function, metadata.hash_seed, metadata.table_id), (1, SEED, TABLE));
        assert!(metadata.has_whole_keys && !metadata.has_prefixes && metadata.extractor[0] == 0);
        let off = plan.block_len_bytes.abs_diff(metadata.block_len_bytes);
        assert!(off * 20 <= metadata.block_len_bytes, "{spec}: {off}");
        assert!(plan.block_len_bytes > plan.payload_len_bytes && plan.lines_if_absent >= 1.0);
        assert!((plan.bits_per_key - plan.payload_len_bytes as f64 * 8.0 / N as f64).abs() < 1e-9);
        assert!(plan.expected_fpr > 0.0 && plan.expected_fpr < 0.05 && plan.lines_if_present >= 1.0);
    }
}
