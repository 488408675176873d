//! Runs any sequence of calls through the C ABI, with hostile bytes, NULL pointers and lengths that
//! no array has. No call may crash, and no filter may deny a key that it was built from.
#![allow(unsafe_code, reason = "the ABI takes pointers")]

mod model;

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ptr;
use std::rc::Rc;

use filterblock_ffi::*;

use self::model::{Blob, Form, Model, Open, key, pick, pointer, with_error};
use crate::Input;

const MAX_STEPS: usize = 200;
const EXTRACTOR: &std::ffi::CStr = c"first-3";
/// An extractor whose prefixes are in no filter.
const OTHER_EXTRACTOR: &std::ffi::CStr = c"first-4";
const TABLE: [u8; 16] = *b"table 0000000012";

/// Runs the calls that the input describes.
pub fn c_abi(data: &[u8]) {
    c_abi_opened(data);
}

/// Runs the calls that the input describes. Returns the number of filters that the calls open.
pub fn c_abi_opened(data: &[u8]) -> usize {
    let mut input = Input(data);
    let mut world = World::new(&mut input);
    input.steps(MAX_STEPS, |input| world.step(input));
    world.ask_all_keys();
    let opened = world.opened;
    world.free();
    opened
}

struct World {
    hashers: [Option<Box<Hasher>>; 2],
    builder: Option<Box<Builder>>,
    model: Model,
    blobs: Vec<Rc<Blob>>,
    /// The open filters, which must be freed before the bytes that they borrow.
    filters: Vec<Open>,
    /// The number of filters that were opened so far.
    opened: usize,
    set: Option<Box<Set>>,
    slots: Vec<(Slot, Option<Rc<Blob>>)>,
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let seed = input.number(2);
        let secret = [7; 32];
        // SAFETY: the pointers are NULL or valid.
        let sip = unsafe { filterblock_hasher_new_sip13(seed, pointer(&secret), 32, ptr::null_mut()) };
        let hashers = [filterblock_hasher_new_xxh3(seed), sip];
        let set = filterblock_set_new(hashers[0].as_deref());
        let mut world = Self {
            hashers,
            builder: None,
            model: Model::default(),
            blobs: Vec::new(),
            filters: Vec::new(),
            opened: 0,
            set,
            slots: Vec::new(),
        };
        world.new_builder(input);
        world
    }

    fn hasher(&self) -> Option<&Hasher> {
        self.hashers[0].as_deref()
    }

    fn hash(&self, key: &[u8]) -> u64 {
        // SAFETY: the slice is valid.
        unsafe { filterblock_hasher_hash(self.hasher(), pointer(key), key.len()) }
    }

    fn new_builder(&mut self, input: &mut Input<'_>) {
        filterblock_builder_free(self.builder.take());
        let choice = input.byte();
        self.model = Model { has_table_id: choice < 192, ..Model::default() };
        let text = match choice.is_multiple_of(4) {
            true => String::from_utf8_lossy(input.take(12)).replace('\0', ""),
            false => input.spec().to_string(),
        };
        let spec = CString::new(text).unwrap();
        let (options, is_sound) = self.options(input, choice);
        let hasher = self.hashers[0].as_deref();
        let options = (choice % 16 != 9).then_some(&options);
        // SAFETY: the pointers are NULL or valid.
        let new = |error| unsafe { filterblock_builder_new(spec.as_ptr(), hasher, options, error) };
        let (builder, code) = with_error(input, new);
        assert!(code.is_none_or(|code| (code == Code::Ok) == builder.is_some()));
        assert!(is_sound || options.is_none() || builder.is_none(), "options that no filter can have were taken");
        if options.is_none() {
            self.model = Model::default();
        }
        self.builder = builder;
    }

    /// Returns the options of a new builder, which the model notes. The second value says whether a
    /// filter can have them, if its kind takes prefixes and ranges.
    fn options(&mut self, input: &mut Input<'_>, choice: u8) -> (OptionsInfo, bool) {
        let names = [ptr::null(), ptr::null(), EXTRACTOR.as_ptr(), c"".as_ptr(), c"\xff".as_ptr()];
        let extractor = names[usize::from(input.byte() % 5)];
        let ranges = if choice % 8 == 7 { c"grafite:9".as_ptr() } else { ptr::null() };
        let flags = u32::from(input.byte()) & if choice.is_multiple_of(16) { 7 } else { 3 };
        let table_id = if self.model.has_table_id { TABLE } else { [0; 16] };
        let is_of_prefixes_only = flags & FILTERBLOCK_OPTION_PREFIXES_ONLY != 0;
        self.model.has_prefixes = !extractor.is_null();
        self.model.is_of_prefixes_only = is_of_prefixes_only;
        self.model.has_ranges = !ranges.is_null();
        let has_name = extractor.is_null() && !is_of_prefixes_only || extractor == EXTRACTOR.as_ptr();
        let is_sound = has_name && flags < 4 && !(is_of_prefixes_only && self.model.has_ranges);
        (OptionsInfo { table_id, extractor, ranges, threads: usize::from(choice / 64), flags }, is_sound)
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0..3 => self.add(input),
            3 | 4 => self.reserve_or_clear(input),
            5 => self.finish(input),
            6 => self.new_builder(input),
            7 => self.edit(input),
            8 | 9 => self.open(input),
            10 => self.ask_one(input),
            11 => self.ask_raw(input),
            12 => self.use_set(input),
            13 => self.partitions(input),
            14 => self.anything(input),
            _ => self.free_one(input),
        }
    }

    fn add(&mut self, input: &mut Input<'_>) {
        let way = input.byte() % 4;
        let (key, at, len) = key(input);
        let is_lost = at.is_null() && len > 0 || len > key.len();
        let hash = if is_lost { FILTERBLOCK_NO_HASH } else { self.hash(key) };
        let Some(builder) = self.builder.as_deref_mut() else { return };
        // SAFETY: the pointers are NULL or valid, or the lengths are impossible.
        unsafe {
            match way {
                0 => filterblock_builder_add_prefix(Some(builder), at, len),
                1 => filterblock_builder_add_hash(Some(builder), hash),
                _ => filterblock_builder_add(Some(builder), at, len),
            }
        }
        self.model.must_fail |= is_lost || way == 0 && !self.model.has_prefixes || way == 1 && self.model.has_ranges;
        if way == 0 { self.model.prefixes.push(key.to_vec()) } else { self.model.keys.push(key.to_vec()) }
    }

    fn reserve_or_clear(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        filterblock_builder_reserve(self.builder.as_deref_mut(), usize::from(choice));
        if choice.is_multiple_of(4) {
            filterblock_builder_clear(self.builder.as_deref_mut());
            self.model = self.model.without_keys();
            assert_eq!(filterblock_builder_len(self.builder.as_deref()), 0);
        }
    }

    fn finish(&mut self, input: &mut Input<'_>) {
        let form = if input.byte().is_multiple_of(3) { Form::Compact } else { Form::Block };
        let builder = self.builder.as_deref_mut();
        let is_there = builder.is_some();
        // SAFETY: the pointers are NULL or valid.
        let finish = |error| unsafe {
            match form {
                Form::Block => filterblock_builder_finish(builder, error),
                Form::Compact => filterblock_builder_finish_compact(builder, error),
            }
        };
        let (bytes, code) = with_error(input, finish);
        assert!(code.is_none_or(|code| (code == Code::Ok) == bytes.is_some()));
        assert!(!(bytes.is_some() && (self.model.must_fail || !is_there)), "a filter was built although a key is lost");
        // Finishing takes the keys out of the builder, so finishing again must fail until
        // `filterblock_builder_clear`.
        let emptied = Model { must_fail: true, ..self.model.without_keys() };
        let model = std::mem::replace(&mut self.model, emptied);
        let has_whole_keys = form == Form::Compact || !model.is_of_prefixes_only;
        self.keep(bytes, model, form, has_whole_keys);
    }

    fn keep(&mut self, bytes: Option<Box<Bytes>>, model: Model, form: Form, has_whole_keys: bool) {
        let Some(bytes) = bytes else { return };
        let (data, len) = (filterblock_bytes_data(Some(&bytes)), filterblock_bytes_len(Some(&bytes)));
        // SAFETY: `data` has the length that `filterblock_bytes_len` returns.
        let copy = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }.to_vec();
        filterblock_bytes_free(Some(bytes));
        self.blobs.push(Rc::new(Blob {
            bytes: copy,
            keys: Rc::new(model.keys),
            prefixes: Rc::new(model.prefixes),
            form,
            has_whole_keys,
            has_table_id: model.has_table_id,
            is_edited: false,
        }));
    }

    /// Adds an edited copy of a filter.
    fn edit(&mut self, input: &mut Input<'_>) {
        let Some(blob) = pick(&self.blobs, input) else { return };
        let mut bytes = blob.bytes.clone();
        let at = input.below(bytes.len().max(1));
        match input.byte() % 4 {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_slice(input.take(9)),
            2 => bytes.drain(..at).for_each(drop),
            _ => bytes.iter_mut().skip(at).take(3).for_each(|byte| *byte ^= input.byte()),
        }
        let is_edited = blob.is_edited || bytes != blob.bytes;
        self.blobs.push(Rc::new(Blob { bytes, is_edited, ..Blob::clone(&blob) }));
    }

    /// Returns expectations for a block. The second value says whether an undamaged block must meet
    /// them.
    fn expected(&self, blob: &Blob, input: &mut Input<'_>) -> (ExpectedInfo, bool) {
        let choice = input.byte();
        let mut checksum = 0;
        // SAFETY: the pointers are valid.
        unsafe { filterblock_block_checksum(pointer(&blob.bytes), blob.bytes.len(), &raw mut checksum) };
        let mut expected = ExpectedInfo {
            hasher: self.hashers[0].as_deref().map_or(ptr::null(), ptr::from_ref),
            table_id: TABLE,
            flags: u32::from(choice & 5),
            checksum,
            num_entries: blob.keys.len() as u64,
            extractor: EXTRACTOR.as_ptr(),
            offset: input.number(2),
        };
        if !blob.has_whole_keys {
            expected.flags |= FILTERBLOCK_EXPECT_PREFIXES;
        }
        if !blob.has_table_id {
            expected.table_id = [0; 16];
            // Zeros name no SST, so the host must accept any SST, or expect the checksum.
            expected.flags |= if choice & 5 == 0 { FILTERBLOCK_EXPECT_ANY_TABLE } else { 0 };
        }
        match choice >> 4 {
            0 => expected.hasher = ptr::null(),
            1 => expected.hasher = self.hashers[1].as_deref().map_or(ptr::null(), ptr::from_ref),
            2 => expected.flags |= 1 << (choice % 32),
            3 => expected.table_id = [choice; 16],
            4 => (expected.flags, expected.extractor) = (FILTERBLOCK_EXPECT_PREFIXES, ptr::null()),
            _ => return (expected, true),
        }
        (expected, false)
    }

    fn open(&mut self, input: &mut Input<'_>) {
        let Some(blob) = pick(&self.blobs, input) else { return };
        let (expected, is_right) = self.expected(&blob, input);
        let (way, verify) = (input.byte(), u32::from(input.byte() % 3));
        let (data, len) = (pointer(&blob.bytes), blob.bytes.len());
        // SAFETY: the pointers are NULL or valid, or the length is impossible. `World` keeps the
        // bytes while the filter is open.
        let open = |error| unsafe {
            match way % 8 {
                0 => filterblock_filter_open_borrowed(ptr::null(), len + 1, Some(&expected), verify, error),
                1 => filterblock_filter_open_copied(data, usize::MAX, Some(&expected), verify, error),
                2 => filterblock_filter_open_copied(data, len, None, verify, error),
                3..6 => filterblock_filter_open_borrowed(data, len, Some(&expected), verify, error),
                _ => filterblock_filter_open_copied(data, len, Some(&expected), verify, error),
            }
        };
        let (filter, code) = with_error(input, open);
        assert!(code.is_none_or(|code| (code == Code::Ok) != filter.is_null()));
        let is_sound = !blob.is_edited && blob.form == Form::Block;
        if is_right && is_sound && way % 8 > 2 && verify < 2 {
            assert!(!filter.is_null(), "a sound filter was refused: {code:?}");
        }
        if !filter.is_null() {
            let open = Open { filter, blob };
            self.assert_no_key_is_denied(&open);
            self.filters.push(open);
            self.opened += 1;
        }
    }

    /// Asserts that a filter denies none of its keys and prefixes.
    fn assert_no_key_is_denied(&self, Open { filter, blob }: &Open) {
        // SAFETY: the filter is open.
        let filter = unsafe { filter.as_ref() };
        let hashes: Vec<u64> = blob.keys.iter().map(|key| self.hash(key)).collect();
        let mut by_hash = vec![false; hashes.len()];
        // SAFETY: each array has the length that the call passes.
        unsafe {
            filterblock_filter_may_contain_hashes(filter, hashes.as_ptr(), hashes.len(), by_hash.as_mut_ptr());
            for (key, &hash) in blob.keys.iter().zip(&hashes) {
                let (at, len) = (pointer(key), key.len());
                assert!(filterblock_filter_may_contain(filter, at, len), "a key is denied");
                assert!(filterblock_filter_may_contain_hash(filter, hash), "a hash is denied");
                let upper = [key, &[0][..]].concat();
                let maybe = filterblock_filter_may_contain_range(filter, at, len, pointer(&upper), upper.len());
                assert!(
                    maybe && filterblock_filter_may_contain_range(filter, at, len, ptr::null(), 0),
                    "a range is denied"
                );
            }
            for prefix in blob.prefixes.iter() {
                let (at, len) = (pointer(prefix), prefix.len());
                let maybe = filterblock_filter_may_contain_prefix(filter, EXTRACTOR.as_ptr(), at, len);
                assert!(maybe, "a prefix is denied");
            }
        }
        assert!(by_hash.iter().all(|maybe| *maybe), "a batch denies a key");
    }

    /// Asks one filter, or NULL, with any arguments. Asserts that invalid arguments give "maybe".
    fn ask_one(&mut self, input: &mut Input<'_>) {
        let open = self.filters.get(input.below(self.filters.len() + 1));
        // SAFETY: the filter is open.
        let filter = open.and_then(|open| unsafe { open.filter.as_ref() });
        let (key, at, len) = key(input);
        let is_doubtful = filter.is_none() || at.is_null() && len > 0 || len > key.len();
        // SAFETY: the pointers are NULL or valid, or the lengths are impossible.
        unsafe {
            let answers = [
                filterblock_filter_may_contain(filter, at, len),
                filterblock_filter_may_contain_prefix(filter, EXTRACTOR.as_ptr(), at, len),
            ];
            assert!(!is_doubtful || answers == [true; 2], "an invalid call must answer maybe");
            let mut answer = false;
            let none = FILTERBLOCK_NO_HASH;
            assert!(filterblock_filter_may_contain_hash(filter, none));
            assert!(filterblock_filter_may_contain_prefix(filter, ptr::null(), at, len));
            let other = OTHER_EXTRACTOR.as_ptr();
            assert!(filterblock_filter_may_contain_prefix(filter, other, at, len), "a prefix was asked as a key");
            filterblock_filter_may_contain_hashes(filter, ptr::null(), 1, &raw mut answer);
            filterblock_filter_may_contain_hashes(filter, &raw const none, usize::MAX, &raw mut answer);
            assert!(answer, "an invalid call must answer maybe");
            let mut metadata = MaybeUninit::<MetadataInfo>::uninit();
            let code = filterblock_filter_metadata(filter, metadata.as_mut_ptr(), ptr::null_mut());
            assert_eq!(code == Code::Ok, filter.is_some());
            let verify = |error| filterblock_filter_verify_pages(filter, error);
            let (code, _) = with_error(input, verify);
            assert!(code == Code::Ok || open.is_none_or(|open| open.blob.is_edited));
        }
        if let Some(Open { blob, .. }) = open {
            let damaged = filterblock_filter_damaged_pages(filter);
            assert!(damaged == 0 || blob.is_edited);
        }
    }

    /// Asks the bytes of a filter without opening them. Asserts that sound bytes deny no key.
    fn ask_raw(&mut self, input: &mut Input<'_>) {
        let Some(blob) = pick(&self.blobs, input) else { return };
        let (expected, is_right) = self.expected(&blob, input);
        let must_hold = !blob.is_edited && is_right && blob.has_whole_keys;
        let (data, data_len) = (pointer(&blob.bytes), blob.bytes.len());
        let (absent, at, len) = key(input);
        // SAFETY: the pointers are NULL or valid, or the lengths are impossible.
        unsafe {
            for key in blob.keys.iter().take(20) {
                let (at, len, hash) = (pointer(key), key.len(), self.hash(key));
                let by_key = filterblock_verified_ask(data, data_len, Some(&expected), at, len);
                let by_hash = filterblock_verified_ask_hash(data, data_len, Some(&expected), hash);
                let compact = filterblock_compact_ask(data, data_len, self.hasher(), at, len);
                assert_eq!(compact, filterblock_compact_ask_hash(data, data_len, self.hasher(), hash));
                assert!(compact != AnswerCode::No, "a filter in compact form denies a key");
                let is_asked = compact == AnswerCode::Maybe;
                assert!(is_asked == (blob.form == Form::Compact) || blob.is_edited);
                if must_hold {
                    assert!(by_key != AnswerCode::No && by_hash != AnswerCode::No, "verified bytes deny a key");
                }
            }
            let expected = (!input.byte().is_multiple_of(8)).then_some(&expected);
            let _ = filterblock_verified_ask(data, data_len, expected, at, len);
            let _ = filterblock_verified_ask_hash(data, data_len, expected, self.hash(absent));
            let prefix = EXTRACTOR.as_ptr();
            let _ = filterblock_verified_ask_prefix(data, data_len, expected, prefix, at, len);
            let range = filterblock_verified_ask_range(data, data_len, expected, at, len, ptr::null(), 1);
            assert!(range != AnswerCode::No, "an invalid call must answer maybe");
            let prefix = OTHER_EXTRACTOR.as_ptr();
            let other = filterblock_verified_ask_prefix(data, data_len, expected, prefix, at, len);
            assert!(other != AnswerCode::No, "a prefix was asked as a key");
            let check = |error| filterblock_verified_check(data, data_len, expected, error);
            let (code, reported) = with_error(input, check);
            assert!(reported.is_none_or(|reported| reported == code));
            let check = |error| filterblock_compact_check(data, data_len, self.hasher(), error);
            let (code, _) = with_error(input, check);
            assert!(code != Code::Ok || blob.form == Form::Compact || blob.is_edited);
            let none = AnswerCode::Unfiltered;
            assert_eq!(filterblock_compact_ask(ptr::null(), 9, self.hasher(), at, len), none);
            assert_eq!(filterblock_compact_ask(data, data_len, None, at, len), none);
        }
    }

    fn use_set(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let open = self.filters.get(input.below(self.filters.len() + 1));
        let slot = match choice {
            0..20 => filterblock_set_insert_degraded(self.set.as_deref_mut()),
            // SAFETY: the filter is open, or NULL.
            20..200 => unsafe {
                filterblock_set_insert(self.set.as_deref_mut(), open.map_or(ptr::null(), |open| open.filter))
            },
            _ => Slot { set: input.number(1), index: input.number(8) },
        };
        let blob = (20..200).contains(&choice).then(|| open.map(|open| open.blob.clone())).flatten();
        self.slots.push((slot, blob));
        self.ask_set(self.hash(input.take(3)));
    }

    /// Asks all slots for one hash, and each slot for some keys and prefixes of its filter. Asserts
    /// that no filter denies one of its keys or prefixes.
    fn ask_set(&self, hash: u64) {
        let set = self.set.as_deref();
        let slots: Vec<Slot> = self.slots.iter().map(|(slot, _)| *slot).collect();
        let hashes = vec![hash; slots.len()];
        let all: Vec<_> = slots.iter().map(|slot| filterblock_set_ask_hash(set, *slot, hash)).collect();
        let mut pairs = vec![AnswerCode::No; slots.len()];
        // SAFETY: each array has the length that the call passes.
        unsafe {
            filterblock_set_ask_pairs(set, slots.as_ptr(), hashes.as_ptr(), slots.len(), pairs.as_mut_ptr());
        }
        assert!(all == pairs, "the ways to ask a set differ");
        let is_unfiltered = |answer: &AnswerCode| *answer == AnswerCode::Unfiltered;
        assert!(hash != FILTERBLOCK_NO_HASH || all.iter().all(is_unfiltered), "a set was asked for no hash");
        for (slot, blob) in &self.slots {
            // SAFETY: the pointers are valid.
            let other = unsafe { filterblock_set_ask_prefix(set, *slot, OTHER_EXTRACTOR.as_ptr(), pointer(b"x"), 1) };
            assert!(is_unfiltered(&other), "a prefix was asked as a key");
            let Some(blob) = blob else { continue };
            for key in blob.keys.iter().take(20) {
                let (at, len, hash) = (pointer(key), key.len(), self.hash(key));
                let mut maybe = false;
                // SAFETY: the pointers are valid.
                unsafe {
                    assert!(filterblock_set_ask(set, *slot, at, len) != AnswerCode::No, "a set denies a key");
                    filterblock_set_ask_batch(set, *slot, &raw const hash, 1, &raw mut maybe);
                }
                assert!(maybe && filterblock_set_ask_hash(set, *slot, hash) != AnswerCode::No, "a set denies a hash");
            }
            for prefix in blob.prefixes.iter().take(20) {
                let (at, len) = (pointer(prefix), prefix.len());
                // SAFETY: the pointers are valid.
                let answer = unsafe { filterblock_set_ask_prefix(set, *slot, EXTRACTOR.as_ptr(), at, len) };
                assert!(answer != AnswerCode::No, "a set denies a prefix");
            }
        }
        let mut counts = SetCounts::default();
        // SAFETY: the struct is valid.
        assert!(unsafe { filterblock_set_counts(set, &raw mut counts) });
        let filters = counts.ready + counts.degraded + counts.absent + counts.other_hasher;
        assert!(filters <= self.slots.len() as u64, "a set has more filters than it was given");
    }

    /// Builds a filter in partitions. If its keys are not sorted, or if a call could not add a key,
    /// asserts that finishing fails.
    fn partitions(&mut self, input: &mut Input<'_>) {
        let spec = CString::new(input.spec().to_string()).unwrap();
        let (partition_keys, has_prefixes) = (usize::from(input.byte()), input.byte().is_multiple_of(2));
        let hasher = self.hashers[0].as_deref();
        // SAFETY: the pointers are NULL or valid, or the lengths are impossible.
        let (bytes, model) = unsafe {
            let extractor = if has_prefixes { EXTRACTOR.as_ptr() } else { ptr::null() };
            let options = OptionsInfo { table_id: TABLE, extractor, ranges: ptr::null(), threads: 0, flags: 0 };
            let mut builder =
                filterblock_partitioned_new(spec.as_ptr(), hasher, Some(&options), partition_keys, ptr::null_mut());
            let mut model = Model { has_prefixes, has_table_id: true, ..Model::default() };
            let mut keys: Vec<_> = (0..input.byte()).map(|_| key(input)).collect();
            if !input.byte().is_multiple_of(4) {
                keys.sort();
            }
            for (key, at, len) in keys {
                filterblock_partitioned_add(builder.as_deref_mut(), at, len);
                model.must_fail |= at.is_null() && len > 0 || len > key.len();
                model.must_fail |= model.keys.last().is_some_and(|last| key < last.as_slice());
                model.keys.push(key.to_vec());
                if has_prefixes && key.len() >= 3 {
                    filterblock_partitioned_add_prefix(builder.as_deref_mut(), pointer(key), 3);
                    model.prefixes.push(key[..3].to_vec());
                }
            }
            let finish = |error| filterblock_partitioned_finish(builder.as_deref_mut(), error);
            let (bytes, code) = with_error(input, finish);
            assert!(code.is_none_or(|code| (code == Code::Ok) == bytes.is_some()));
            assert!(filterblock_partitioned_finish(builder.as_deref_mut(), ptr::null_mut()).is_none());
            filterblock_partitioned_free(builder);
            (bytes, model)
        };
        assert!(!(bytes.is_some() && model.must_fail), "a filter was built although a key is lost");
        self.keep(bytes, model, Form::Block, true);
    }

    /// Passes the next bytes of the input as text, as a secret and as a filter.
    fn anything(&mut self, input: &mut Input<'_>) {
        let len = usize::from(input.byte());
        let bytes = input.take(len);
        let text: Vec<u8> = bytes.iter().copied().take_while(|&byte| byte != 0).take(200).chain([0]).collect();
        let num_keys = input.number(8);
        // SAFETY: the pointers are NULL or valid.
        unsafe {
            let mut plan = MaybeUninit::<PlanInfo>::uninit();
            let planned = |error| filterblock_plan(text.as_ptr().cast(), num_keys, plan.as_mut_ptr(), error);
            let (code, reported) = with_error(input, planned);
            assert!(reported.is_none_or(|reported| reported == code));
            let secret = |error| filterblock_hasher_new_xxh3_secret(1, pointer(bytes), bytes.len(), error);
            let (hasher, _) = with_error(input, secret);
            assert_eq!(hasher.is_some(), [16, 32].contains(&bytes.len()));
            filterblock_hasher_free(hasher);
        }
        self.blobs.push(Rc::new(Blob::of_any_bytes(bytes)));
    }

    fn free_one(&mut self, input: &mut Input<'_>) {
        if self.filters.is_empty() {
            return;
        }
        let open = self.filters.swap_remove(input.below(self.filters.len()));
        // SAFETY: the filter is freed once. The set may keep it, and `slots` keeps its bytes.
        unsafe { filterblock_filter_free(open.filter) };
    }

    fn ask_all_keys(&self) {
        self.filters.iter().for_each(|open| self.assert_no_key_is_denied(open));
        self.ask_set(7);
        self.ask_set(FILTERBLOCK_NO_HASH);
    }

    fn free(mut self) {
        // The set and the handles share the filters, so either may be freed first.
        let (set, filters) = (self.set.take(), std::mem::take(&mut self.filters));
        let free_filters = |filters: Vec<Open>| {
            // SAFETY: each filter is freed once.
            filters.into_iter().for_each(|open| unsafe { filterblock_filter_free(open.filter) });
        };
        if self.slots.len().is_multiple_of(2) {
            filterblock_set_free(set);
            free_filters(filters);
        } else {
            free_filters(filters);
            filterblock_set_free(set);
        }
        filterblock_builder_free(self.builder.take());
        self.hashers.into_iter().for_each(|hasher| filterblock_hasher_free(hasher));
    }
}
