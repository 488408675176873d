//! Makes and asks sets of filters: the filters of a store under one hasher.
#![expect(unsafe_code, reason = "exported functions take pointers of the caller")]

use std::convert::Infallible;
use std::error::Error;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

use filterblock::{Answer, FilterSet, FilterSlot, KeyHash, SharedBytes, TableFilter};

use crate::answer::{AnswerCode, Answers};
use crate::border;
use crate::filter::Filter;
use crate::hasher::{FILTERBLOCK_NO_HASH, Hasher};
use crate::hashes::{Hashes, or_no_hash};
use crate::raw::{self, CHUNK};

/// The filters of many SSTs under one hasher. One call asks one filter for one key, one filter for
/// many keys, or many pairs of a filter and a key.
///
/// Any number of threads may ask a set, but not while a filter is inserted. For each new version of
/// the store, make a new set that shares the filters. Free the old set after its last query has
/// returned.
pub struct Set(pub(crate) FilterSet);

/// The position of a filter in a set. You may copy a slot, but do not change its members. A slot of
/// zeros belongs to no set. A set answers `FILTERBLOCK_ANSWER_UNFILTERED` for a slot of another
/// set.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slot {
    /// Private.
    pub set: u64,
    /// Private.
    pub index: u64,
}

impl From<FilterSlot> for Slot {
    fn from(slot: FilterSlot) -> Self {
        let [set, index] = slot.to_raw();
        Self { set, index }
    }
}

impl From<Slot> for FilterSlot {
    #[inline(always)]
    fn from(Slot { set, index }: Slot) -> Self {
        Self::from_raw([set, index])
    }
}

pub(crate) const NO_SLOT: Slot = Slot { set: 0, index: 0 };

/// The counts of a set: filters by state, damaged pages, unfiltered answers, and bytes.
#[repr(C)]
#[derive(Default)]
pub struct SetCounts {
    /// The number of filters that can be asked.
    pub ready: u64,
    /// The number of filters that cannot be used: see `filterblock_set_insert_degraded`.
    pub degraded: u64,
    /// The number of SSTs without a filter.
    pub absent: u64,
    /// The number of filters whose hasher differs from the hasher of the set. The set never asks
    /// them.
    pub other_hasher: u64,
    /// The number of damaged pages that queries have found so far in the ready filters.
    pub damaged_pages: u64,
    /// The number of answers `FILTERBLOCK_ANSWER_UNFILTERED` since the set was made. Queries with a
    /// NULL pointer, an empty range or `FILTERBLOCK_NO_HASH` may be missing in this number.
    pub unfiltered_answers: u64,
    /// The length of all open filters together, in bytes. Filters under another hasher count.
    pub len_bytes: u64,
    /// The number of filters of a cache that no query of the set has read.
    pub not_loaded: u64,
}

/// Makes an empty set, and copies the hasher.
///
/// Returns a handle for `filterblock_set_free`. Returns NULL if `hasher` is NULL, or after a panic.
/// Queries of a NULL set never deny a key.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_set_new(hasher: Option<&Hasher>) -> Option<Box<Set>> {
    border::or(None, || hasher.map(|Hasher(hasher)| Box::new(Set(FilterSet::new(hasher)))))
}

/// Frees a set. NULL is fine. Also frees each filter that no other set has and whose handle was
/// freed. Freeing twice is undefined behaviour.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_set_free(set: Option<Box<Set>>) {
    border::or((), || drop(set));
}

/// Adds a filter and returns its slot. The set shares the filter, so you may free your handle
/// before the set. Borrowed bytes must outlive the set.
///
/// A NULL `filter` stands for an SST without a filter. The set accepts a filter under another
/// hasher, but never asks it, and counts it as `other_hasher`. Returns a slot of zeros if `set` is
/// NULL, or after a panic.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_set_insert(set: Option<&mut Set>, filter: *const Filter) -> Slot {
    insert(set, || {
        if filter.is_null() {
            return Arc::new(TableFilter::Absent);
        }
        let filter = filter.cast::<TableFilter<SharedBytes>>();
        // SAFETY: the pointer came from `Arc::into_raw` and is not freed yet. The set gets its own
        // reference.
        unsafe {
            Arc::increment_strong_count(filter);
            Arc::from_raw(filter)
        }
    })
}

/// Adds an SST whose filter cannot be used, so that it counts as degraded. Returns its slot, whose
/// answer is always `FILTERBLOCK_ANSWER_UNFILTERED`. Returns a slot of zeros if `set` is NULL, or
/// after a panic.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_set_insert_degraded(set: Option<&mut Set>) -> Slot {
    insert(set, || {
        let reason: Box<dyn Error + Send + Sync> =
            "the caller could not open the filter; read the SST without it".into();
        Arc::new(TableFilter::Degraded(reason.into()))
    })
}

fn insert(set: Option<&mut Set>, filter: impl FnOnce() -> Arc<TableFilter<SharedBytes>>) -> Slot {
    set.map_or(NO_SLOT, |Set(set)| border::or(NO_SLOT, || set.insert(filter()).into()))
}

/// Asks one filter for a key. The function hashes the key; to ask many filters for it, hash it once
/// and call `filterblock_set_ask_hash`. If the filter has partitions, the function asks only the
/// partition of the key. A range filter alone is asked by the bytes of the key. If the query needs
/// a damaged page, the answer is `FILTERBLOCK_ANSWER_MAYBE`.
///
/// Returns `FILTERBLOCK_ANSWER_UNFILTERED` for a slot of another set, for a NULL set or key, and
/// after a panic. Also returns `FILTERBLOCK_ANSWER_UNFILTERED` if the filter at the slot is missing,
/// degraded or under another hasher, or has only prefixes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_set_ask(
    set: Option<&Set>,
    slot: Slot,
    key: *const c_void,
    key_len: usize,
) -> AnswerCode {
    // SAFETY: the header asks for valid pointers.
    let key = unsafe { raw::bytes(key, key_len) };
    let (Some(Set(set)), Some(key)) = (set, key) else { return AnswerCode::Unfiltered };
    border::or(AnswerCode::Unfiltered, || set.ask(slot.into(), set.hasher().key(key)).into())
}

/// Answers like `filterblock_set_ask` for a key with this hash. If the filter has partitions, the
/// function asks them one by one until one answers "maybe".
///
/// The hash must come from a hasher that equals the set's hasher. Otherwise the set can deny
/// present keys. Returns `FILTERBLOCK_ANSWER_UNFILTERED` for `FILTERBLOCK_NO_HASH`, and for a range
/// filter alone, which has no hashes.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_set_ask_hash(set: Option<&Set>, slot: Slot, hash: u64) -> AnswerCode {
    let Some(Set(set)) = set else { return AnswerCode::Unfiltered };
    if hash == FILTERBLOCK_NO_HASH {
        return AnswerCode::Unfiltered;
    }
    border::or(AnswerCode::Unfiltered, || set.ask_hash(slot.into(), KeyHash::from_raw(hash)).into())
}

/// Asks one filter for a prefix: see `filterblock_filter_may_contain_prefix`. Returns
/// `FILTERBLOCK_ANSWER_UNFILTERED` if the slot has no usable filter with prefixes of this
/// extractor, and for NULL pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_set_ask_prefix(
    set: Option<&Set>,
    slot: Slot,
    extractor: *const c_char,
    prefix: *const c_void,
    prefix_len: usize,
) -> AnswerCode {
    // SAFETY: the header asks for valid pointers.
    let (extractor, prefix) = unsafe { (raw::text(extractor), raw::bytes(prefix, prefix_len)) };
    let (Some(Set(set)), Some(extractor), Some(prefix)) = (set, extractor, prefix) else {
        return AnswerCode::Unfiltered;
    };
    border::or(AnswerCode::Unfiltered, || set.ask_prefix(slot.into(), extractor, set.hasher().key(prefix)).into())
}

/// Asks one filter for a range: see `filterblock_filter_may_contain_range`. Returns
/// `FILTERBLOCK_ANSWER_UNFILTERED` if the slot has no usable range filter, for NULL pointers, and
/// for an empty range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_set_ask_range(
    set: Option<&Set>,
    slot: Slot,
    lower: *const c_void,
    lower_len: usize,
    upper: *const c_void,
    upper_len: usize,
) -> AnswerCode {
    // SAFETY: the header asks for valid pointers.
    let range = unsafe { raw::range((lower, lower_len), (upper, upper_len)) };
    let (Some(Set(set)), Some((lower, upper))) = (set, range) else { return AnswerCode::Unfiltered };
    border::or(AnswerCode::Unfiltered, || set.ask_range(slot.into(), lower, upper).into())
}

/// Asks one filter for many keys: sets `answers[i]` to `false` if the key of `hashes[i]` is
/// certainly not in the SST, and to `true` otherwise.
///
/// Returns `true` if the filter was asked. Returns `false` if the filter cannot be asked (see
/// `filterblock_set_ask_hash`), or if `set` or `hashes` is NULL; then all answers are `true`. Returns
/// `false` and writes nothing if `answers` is NULL. If `count` is 0, returns whether `set` is not
/// NULL. The answer for `FILTERBLOCK_NO_HASH` is `true`.
///
/// `answers` need not be initialised, and must not overlap `hashes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_set_ask_batch(
    set: Option<&Set>,
    slot: Slot,
    hashes: *const u64,
    count: usize,
    answers: *mut bool,
) -> bool {
    // SAFETY: the header asks for valid pointers.
    let (hashes, answers) = unsafe { (Hashes::new(hashes, count), Answers::new(answers, count)) };
    let Some(answers) = answers else { return false };
    let (Some(Set(set)), Some(hashes)) = (set, hashes) else {
        answers.fill(true);
        return false;
    };
    let mut was_asked = true;
    let asked = border::or(None, || {
        let each = |first, hashes: &[KeyHash]| {
            let mut maybe = [true; CHUNK];
            was_asked &= set.ask_batch(slot.into(), hashes, &mut maybe);
            or_no_hash(&mut maybe, hashes);
            answers.write(first, maybe.split_at(hashes.len().min(CHUNK)).0);
            Ok::<(), Infallible>(())
        };
        hashes.try_for_each(each).ok()
    });
    if asked.is_none() {
        answers.fill(true);
    }
    asked.is_some() && was_asked
}

/// Asks many pairs of a filter and a key: sets `answers[i]` to the answer of the filter at
/// `slots[i]` for `hashes[i]`. See `filterblock_set_ask_hash`. One call can be faster than single
/// queries. To ask many filters for one key, repeat its hash.
///
/// `answers` need not be initialised, and must not overlap `slots` or `hashes`. Does nothing if
/// `answers` is NULL. All answers are `FILTERBLOCK_ANSWER_UNFILTERED` if `set`, `slots` or `hashes`
/// is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_set_ask_pairs(
    set: Option<&Set>,
    slots: *const Slot,
    hashes: *const u64,
    count: usize,
    answers: *mut AnswerCode,
) {
    // SAFETY: the header asks for valid pointers.
    let (hashes, answers) = unsafe { (Hashes::new(hashes, count), Answers::new(answers, count)) };
    let Some(answers) = answers else { return };
    let (Some(Set(set)), Some(hashes), true) = (set, hashes, raw::is_array(slots, count)) else {
        return answers.fill(AnswerCode::Unfiltered);
    };
    answers.ask(AnswerCode::Unfiltered, |answers| {
        let mut chunk = [NO_SLOT; CHUNK];
        let mut pairs = [(FilterSlot::from_raw([0; 2]), KeyHash::from_raw(FILTERBLOCK_NO_HASH)); CHUNK];
        hashes.try_for_each(|first, hashes| {
            let chunk = chunk.split_at_mut(hashes.len()).0;
            // SAFETY: the header asks for as many slots as hashes.
            unsafe { raw::copy_in(slots, first, chunk) };
            for (pair, (slot, hash)) in pairs.iter_mut().zip(chunk.iter().zip(hashes)) {
                // The set answers `Unfiltered` for `NO_SLOT`.
                let slot = if hash.raw() == FILTERBLOCK_NO_HASH { NO_SLOT } else { *slot };
                *pair = (slot.into(), *hash);
            }
            let mut found = [Answer::Unfiltered; CHUNK];
            set.ask_pairs(pairs.split_at(hashes.len()).0, &mut found);
            answers.write(first, found.map(AnswerCode::from).split_at(hashes.len()).0);
            Ok(())
        })
    });
}

/// Sets `counts` to the counts of the set, or to zeros if `set` is NULL. Takes time linear in the
/// numbers of filters, partitions, and pages that are verified on first touch. Returns `false` if
/// `set` or `counts` is NULL, and `true` otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_set_counts(set: Option<&Set>, counts: *mut SetCounts) -> bool {
    let found = border::or(SetCounts::default(), || set.map(SetCounts::of).unwrap_or_default());
    // SAFETY: the header asks for valid pointers.
    unsafe { raw::write(counts, found) && set.is_some() }
}

impl SetCounts {
    fn of(Set(set): &Set) -> Self {
        let counts = set.counts();
        Self {
            ready: counts.ready as u64,
            degraded: counts.degraded as u64,
            absent: counts.absent as u64,
            other_hasher: counts.other_hasher as u64,
            damaged_pages: counts.damaged_pages,
            unfiltered_answers: counts.unfiltered_answers,
            len_bytes: set.len_bytes(),
            not_loaded: counts.not_loaded as u64,
        }
    }
}
