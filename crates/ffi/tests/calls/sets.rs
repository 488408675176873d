//! Tests sets, filters in partitions, verified bytes and filters in the compact form through the
//! ABI.

use super::*;

const N: usize = 700;
const WITH_PREFIXES: Options<'_> = Options { extractor: Some("first-8"), ..OF_TABLE };

fn keys() -> Vec<Vec<u8>> {
    (0..2 * N).map(|i| format!("key {i:06}").into_bytes()).collect()
}

/// Builds a filter of the first [`N`] keys and their prefixes.
fn block(spec: &str, hasher: &Hasher) -> Vec<u8> {
    let mut builder = builder_with(spec, hasher, WITH_PREFIXES).unwrap();
    for key in &keys()[..N] {
        add(&mut builder, key);
        add_prefix(&mut builder, &key[..8]);
    }
    finish(&mut builder).unwrap()
}

type Step = (fn(&mut Partitioned), Code);

/// Builds a filter of the first [`N`] keys and their prefixes in partitions. Calls `step` after the
/// first key and its prefix. Asserts that a second call of finish fails.
fn partitioned(spec: &str, hasher: &Hasher, step: fn(&mut Partitioned)) -> Result<Vec<u8>, Code> {
    let spec = CString::new(spec).unwrap();
    // SAFETY: the pointers are valid.
    unsafe {
        let mut builder = WITH_PREFIXES
            .with(|options| {
                filterblock_partitioned_new(spec.as_ptr(), Some(hasher), Some(options), 100, ptr::null_mut())
            })
            .unwrap();
        let builder = builder.as_mut();
        for (i, key) in keys()[..N].iter().enumerate() {
            filterblock_partitioned_add(Some(builder), pointer(key), key.len());
            filterblock_partitioned_add_prefix(Some(builder), pointer(key), 8);
            if i == 0 {
                step(builder);
            }
        }
        let (bytes, error) = with_error(|error| filterblock_partitioned_finish(Some(builder), error));
        assert!(filterblock_partitioned_finish(Some(builder), ptr::null_mut()).is_none());
        bytes.map(take).ok_or_else(|| error.unwrap().code)
    }
}

/// Asks the filter at `slots[i]` for `hashes[i]` by `filterblock_set_ask_hash` and by
/// `filterblock_set_ask_pairs`. Returns the answers of each way.
fn answers(set: &Set, slots: &[Slot], hashes: &[u64]) -> [Vec<AnswerCode>; 2] {
    let count = slots.len();
    assert_eq!(count, hashes.len());
    let single =
        slots.iter().zip(hashes).map(|(&slot, &hash)| filterblock_set_ask_hash(Some(set), slot, hash)).collect();
    let mut pairs = vec![AnswerCode::No; count];
    // SAFETY: each array has the length that the call passes.
    unsafe {
        filterblock_set_ask_pairs(Some(set), slots.as_ptr(), hashes.as_ptr(), count, pairs.as_mut_ptr());
    }
    [single, pairs]
}

#[test]
fn sets_answer_like_their_filters_and_keep_them_alive() {
    let hasher = hasher();
    let blocks = [
        block("blocked-bloom:10", &hasher),
        block("bumped-ribbon:8", &hasher),
        partitioned("bloom:10", &hasher, |_| ()).unwrap(),
    ];
    let hashes: Vec<u64> = keys().iter().map(|key| hash(&hasher, key)).collect();
    let mut set = filterblock_set_new(Some(&hasher)).unwrap();
    for (bytes, verify) in blocks.iter().zip([0, 1, 0]) {
        let filter = Open::copied(bytes, &expected(&hasher), verify).unwrap();
        let expected: Vec<_> = hashes
            .iter()
            .map(|&hash| filterblock_filter_may_contain_hash(filter.get(), hash))
            .map(|maybe| if maybe { AnswerCode::Maybe } else { AnswerCode::No })
            .collect();
        assert!(expected[..N].iter().all(|answer| *answer == AnswerCode::Maybe));
        // SAFETY: the filter is open.
        let slot = unsafe { filterblock_set_insert(Some(&mut set), filter.0) };
        // The set keeps the filter open.
        drop(filter);
        let slots = vec![slot; hashes.len()];
        for answers in answers(&set, &slots, &hashes) {
            assert!(answers == expected);
        }
        for count in [0, 1, 127, 128, 129, hashes.len()] {
            let mut maybe = vec![false; count];
            // SAFETY: each array has the length that the call passes.
            let asked =
                unsafe { filterblock_set_ask_batch(Some(&set), slot, hashes.as_ptr(), count, maybe.as_mut_ptr()) };
            assert!(asked && maybe.iter().zip(&expected).all(|(maybe, answer)| *maybe == (*answer != AnswerCode::No)));
        }
        for key in &keys()[..N] {
            // SAFETY: the slices are valid.
            let (by_key, by_prefix) = unsafe {
                let prefix = filterblock_set_ask_prefix(Some(&set), slot, c"first-8".as_ptr(), pointer(key), 8);
                (filterblock_set_ask(Some(&set), slot, pointer(key), key.len()), prefix)
            };
            assert_eq!((by_key, by_prefix), (AnswerCode::Maybe, AnswerCode::Maybe));
        }
    }
    filterblock_set_free(Some(set));
}

#[test]
fn sets_count_the_filters_that_they_cannot_ask() {
    let hasher = hasher();
    let bytes = block("bloom:10", &hasher);
    let filter = Open::copied(&bytes, &expected(&hasher), 0).unwrap();
    let other_hasher = filterblock_hasher_new_xxh3(SEED + 1).unwrap();
    let mut set = filterblock_set_new(Some(&other_hasher)).unwrap();
    let mut another = filterblock_set_new(Some(&hasher)).unwrap();
    // SAFETY: the filter is open.
    let (slot, of_another) = unsafe {
        (filterblock_set_insert(Some(&mut set), filter.0), filterblock_set_insert(Some(&mut another), filter.0))
    };
    // SAFETY: NULL is fine.
    let absent = unsafe { filterblock_set_insert(Some(&mut set), ptr::null()) };
    let degraded = filterblock_set_insert_degraded(Some(&mut set));
    let beyond = Slot { index: 3, ..slot };
    let slots = [slot, of_another, absent, degraded, beyond, Slot { set: 0, index: 0 }];
    for answers in answers(&set, &slots, &[7; 6]) {
        assert_eq!(answers, [AnswerCode::Unfiltered; 6]);
    }
    for slot in slots {
        let mut maybe = [false; 2];
        // SAFETY: each array has the length that the call passes.
        let asked = unsafe { filterblock_set_ask_batch(Some(&set), slot, [7, 8].as_ptr(), 2, maybe.as_mut_ptr()) };
        assert!(!asked && maybe == [true; 2]);
    }
    let mut counts = SetCounts::default();
    // SAFETY: the struct is valid.
    assert!(unsafe { filterblock_set_counts(Some(&set), &raw mut counts) });
    assert_eq!((counts.ready, counts.other_hasher, counts.absent, counts.degraded), (0, 1, 1, 1));
    // `answers` asks six slots in two ways, and each of six batches has two hashes.
    assert_eq!((counts.unfiltered_answers, counts.damaged_pages), (2 * 6 + 2 * 6, 0));
    // `FILTERBLOCK_NO_HASH` stands for no key, so no filter is asked.
    assert!(answers(&another, &[of_another], &[FILTERBLOCK_NO_HASH]).concat() == [AnswerCode::Unfiltered; 2]);
    // SAFETY: the pointers are NULL or valid, or the length is impossible.
    unsafe {
        let absent = (pointer(b"x"), usize::MAX);
        let asked = filterblock_set_ask(Some(&another), of_another, absent.0, absent.1);
        assert_eq!(asked, AnswerCode::Unfiltered);
        let asked = filterblock_set_ask_prefix(Some(&another), of_another, ptr::null(), absent.0, 1);
        assert_eq!(asked, AnswerCode::Unfiltered);
    }
    filterblock_set_free(Some(set));
    filterblock_set_free(Some(another));
}

#[test]
fn partitions_that_lost_a_key_do_not_finish() {
    let hasher = hasher();
    assert!(partitioned("bloom:10", &hasher, |_| ()).is_ok());
    // SAFETY: the pointers are NULL or valid.
    let steps: [Step; 4] = unsafe {
        [
            (|builder| filterblock_partitioned_add(Some(builder), ptr::null(), 3), Code::NullArgument),
            (|builder| filterblock_partitioned_add(Some(builder), pointer(b"a key below"), 11), Code::Invalid),
            (|builder| filterblock_partitioned_add_prefix(Some(builder), ptr::null(), 3), Code::NullArgument),
            (|builder| filterblock_partitioned_add_prefix(Some(builder), pointer(b"another"), 7), Code::Invalid),
        ]
    };
    for (number, (step, code)) in steps.into_iter().enumerate() {
        assert_eq!(partitioned("bloom:10", &hasher, step), Err(code), "{number}");
    }
}

#[test]
fn filters_in_partitions_are_opened_whole() {
    let hasher = hasher();
    let bytes = partitioned("blocked-bloom:10", &hasher, |_| ()).unwrap();
    let filter = Open::copied(&bytes, &expected(&hasher), 1).unwrap();
    let keys = keys();
    assert!(keys[..N].iter().all(|key| filter.may_contain(key)));
    assert!(keys[..N].iter().all(|key| filter.may_contain_prefix("first-8", &key[..8])));
    let false_positives = keys[N..].iter().filter(|key| filter.may_contain(key)).count();
    assert!(false_positives < N / 20, "{false_positives}");
    assert_eq!(filter.verify_pages(), Ok(()));
}

#[test]
fn verified_bytes_answer_like_open_filters() {
    let hasher = hasher();
    let any = ExpectedInfo { flags: FILTERBLOCK_EXPECT_ANY_TABLE, ..expected(&hasher) };
    let bytes = block("bumped-ribbon:8", &hasher);
    let filter = Open::copied(&bytes, &any, 0).unwrap();
    let ask = |data: &[u8], expected: &ExpectedInfo, key: &[u8]| {
        // SAFETY: the slices are valid.
        unsafe {
            let (data, key, len, key_len) = (pointer(data), pointer(key), data.len(), key.len());
            let hash = filterblock_hasher_hash(Some(&hasher), key, key_len);
            let answer = filterblock_verified_ask(data, len, Some(expected), key, key_len);
            assert_eq!(answer, filterblock_verified_ask_hash(data, len, Some(expected), hash));
            answer
        }
    };
    for key in keys() {
        let answer = if filter.may_contain(&key) { AnswerCode::Maybe } else { AnswerCode::No };
        assert_eq!(ask(&bytes, &any, &key), answer);
        assert_eq!(ask(&bytes, &expected(&hasher), &key), answer);
        // The bytes may have any alignment.
        assert_eq!(ask(&[b"x", bytes.as_slice()].concat()[1..], &any, &key), answer);
    }
    let other = filterblock_hasher_new_xxh3(SEED + 1).unwrap();
    let split = partitioned("bloom:10", &hasher, |_| ()).unwrap();
    let refused: [(&[u8], ExpectedInfo, Code); 5] = [
        (&bytes[1..], ExpectedInfo { ..any }, Code::Corrupt),
        (&[], ExpectedInfo { ..any }, Code::Corrupt),
        (&bytes, ExpectedInfo { hasher: &raw const *other, ..any }, Code::Unexpected),
        (&bytes, ExpectedInfo { table_id: [1; 16], flags: 0, ..any }, Code::Unexpected),
        (&split, ExpectedInfo { ..any }, Code::Unexpected),
    ];
    for (bytes, expected, code) in refused {
        assert_eq!(ask(bytes, &expected, b"key"), AnswerCode::Unfiltered);
        // SAFETY: the slices are valid.
        let check = |error| unsafe { filterblock_verified_check(pointer(bytes), bytes.len(), Some(&expected), error) };
        let (found, error) = with_error(check);
        assert_eq!((found, error.unwrap().code), (code, code));
    }
}

#[test]
fn compact_filters_answer_in_place() {
    let hasher = hasher();
    let mut builder = builder("bloom:10", &hasher).unwrap();
    let keys = keys();
    keys[..N].iter().for_each(|key| add(&mut builder, key));
    let bytes = finish_compact(&mut builder).unwrap();
    let ask = |bytes: &[u8], hasher: &Hasher, key: &[u8]| {
        // SAFETY: the slices are valid.
        unsafe {
            let (data, len, key, key_len) = (pointer(bytes), bytes.len(), pointer(key), key.len());
            let answer = filterblock_compact_ask(data, len, Some(hasher), key, key_len);
            let hash = filterblock_hasher_hash(Some(hasher), key, key_len);
            assert_eq!(answer, filterblock_compact_ask_hash(data, len, Some(hasher), hash));
            let (code, _) = with_error(|error| filterblock_compact_check(data, len, Some(hasher), error));
            assert_eq!(code == Code::Ok, answer != AnswerCode::Unfiltered);
            answer
        }
    };
    assert!(keys[..N].iter().all(|key| ask(&bytes, &hasher, key) == AnswerCode::Maybe));
    let false_positives = keys[N..].iter().filter(|key| ask(&bytes, &hasher, key) == AnswerCode::Maybe).count();
    assert!(false_positives < N / 20, "{false_positives}");
    let other = filterblock_hasher_new_xxh3(SEED + 1).unwrap();
    assert_eq!(ask(&bytes, &other, b"absent"), AnswerCode::Unfiltered);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert_eq!(ask(&damaged, &hasher, b"absent"), AnswerCode::Unfiltered);
        assert_eq!(ask(&bytes[..at], &hasher, b"absent"), AnswerCode::Unfiltered);
    }
    // SAFETY: the slice is valid.
    let no_hash =
        unsafe { filterblock_compact_ask_hash(pointer(&bytes), bytes.len(), Some(&hasher), FILTERBLOCK_NO_HASH) };
    assert_eq!(no_hash, AnswerCode::Unfiltered);
    let mut ribbon = crate::builder("bumped-ribbon:8", &hasher).unwrap();
    add(&mut ribbon, b"apple");
    assert_eq!(finish_compact(&mut ribbon).unwrap_err().code, Code::Invalid);
}
