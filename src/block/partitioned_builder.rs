//! Builds filters that are split by key range. [`super::partition`] describes the layout.

use std::cmp::Ordering;
use std::num::NonZeroUsize;

use super::self_check::SelfCheck;
use super::trailer::{ALIGN_BYTES, Located};
use super::writer::FilterBuilder;
use crate::codec;
use crate::error::{Error, Result};
use crate::extractor::PrefixExtractor;
use crate::hash::{KeyHash, KeyHasher};
use crate::planning::Plan;
use crate::spec::{self, FilterSpec};

/// The maximum number of bytes of a key that an error message shows.
const SHOWN_LEN_BYTES: usize = 32;
/// An upper limit for the planned number of keys of a partition. No memory holds so many keys. The
/// limit ends the search, for example for always-maybe filters, whose length does not grow with the
/// number of keys.
const MAX_PARTITION_KEYS: u64 = 1 << 48;

/// Builds a filter that is partitioned by key range. A host can keep the index in memory and load a
/// partition on demand ([`PartitionIndex`](super::PartitionIndex)).
///
/// Keys must come in ascending order. A partition takes keys until it has reached its size; the
/// next key opens a new partition. Call `with_table_id`, `with_extractor` and `with_prefixes`
/// before the first key.
///
/// To answer for ranges too, write a second partitioned filter of the same keys with a range filter
/// as its specification, such as `grafite:fpr=0.01`.
///
/// ```
/// use filterblock::{Expected, FilterBlock, HashSeed, KeyHasher, PartitionedBuilder, PrefixExtractor, Verify};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
/// let builder = PartitionedBuilder::new("blocked-bloom:10".parse()?, &hasher, 1_000).with_table_id(table_id);
/// let mut builder = builder.with_extractor(&PrefixExtractor::fixed(4)?, true)?;
/// for key in [b"user0001", b"user0002", b"user0003"] {
///     builder.add(key)?;
/// }
/// let bytes = builder.finish()?;
///
/// let expected = Expected::of_table(table_id, &hasher).with_prefixes("fixed:4");
/// let block = FilterBlock::open(bytes, &expected, Verify::AtOpen)?;
/// assert!(block.may_contain(b"user0002") && block.may_contain_prefix("fixed:4", b"user"));
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug)]
pub struct PartitionedBuilder {
    /// The builder of the current partition. It holds the settings of all partitions.
    current: FilterBuilder,
    /// The size of a partition: with this number of keys and prefixes, it takes no further key.
    partition_keys: usize,
    /// The requested length of a partition. The next key converts it into `partition_keys`.
    partition_len_bytes: Option<u64>,
    last_key: Vec<u8>,
    /// The hash of the last prefix that [`Self::add_prefix`] added to the current partition. The
    /// builder skips a prefix with the same hash, because neighbouring keys often share a prefix.
    last_prefix: Option<KeyHash>,
    /// Whether a key was added. The number of hashes does not show this: in a filter of prefixes
    /// only, a key without a prefix adds no hash.
    has_keys: bool,
    /// The number of announced keys that no closed partition holds. It includes the keys of the
    /// current partition.
    reserved: usize,
    blocks: Vec<u8>,
    index: Vec<u8>,
    num_partitions: u32,
    num_keys: u64,
    /// Whether keys or prefixes are missing after a failed call. A filter without them would deny
    /// them.
    has_lost_keys: bool,
    /// Whether the table id was set after a key, so that partitions may have different table ids.
    is_table_late: bool,
}

impl PartitionedBuilder {
    /// Creates a builder without keys. A partition takes no further key once it holds
    /// `partition_keys` keys and prefixes; 0 counts as 1. A partition may hold more than this
    /// number, because all prefixes of a key go to the partition of the key.
    ///
    /// A [`HashSeed`](crate::HashSeed) alone means XXH3-64 without a secret.
    #[must_use]
    pub fn new(spec: FilterSpec, hasher: impl Into<KeyHasher>, partition_keys: usize) -> Self {
        Self {
            current: FilterBuilder::new(spec, hasher),
            partition_keys: partition_keys.max(1),
            partition_len_bytes: None,
            last_key: Vec::new(),
            last_prefix: None,
            has_keys: false,
            reserved: 0,
            blocks: Vec::new(),
            index: Vec::new(),
            num_partitions: 0,
            num_keys: 0,
            has_lost_keys: false,
            is_table_late: false,
        }
    }

    /// Sets the table id: see [`FilterBuilder::with_table_id`]. If a key was added before this
    /// call, [`finish`](Self::finish) returns an error.
    #[must_use]
    pub fn with_table_id(mut self, table_id: [u8; 16]) -> Self {
        self.is_table_late |= self.has_keys;
        self.current = self.current.with_table_id(table_id);
        self
    }

    /// Sets the self-check of the current partition and of all later ones: see
    /// [`FilterBuilder::with_self_check`].
    #[must_use]
    pub fn with_self_check(mut self, self_check: SelfCheck) -> Self {
        self.current = self.current.with_self_check(self_check);
        self
    }

    /// Sets the number of threads that build the current partition, and then each later one: see
    /// [`FilterBuilder::with_threads`].
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.current = self.current.with_threads(threads);
        self
    }

    /// Makes the builder take the prefixes of every key with `extractor`, and add them to the
    /// filter. `whole_keys_too` states whether the filter also holds whole keys: see
    /// [`FilterBuilder::with_extractor`].
    ///
    /// # Errors
    /// Returns the errors of [`with_prefixes`](Self::with_prefixes).
    pub fn with_extractor(mut self, extractor: &PrefixExtractor, whole_keys_too: bool) -> Result<Self> {
        self.check_no_keys(extractor.name())?;
        self.current = self.current.with_extractor(extractor, whole_keys_too)?;
        Ok(self)
    }

    /// Declares that the host will add prefixes, which it takes with its own extractor. `extractor`
    /// is the extractor's name. `whole_keys_too` states whether the filter also holds whole keys.
    ///
    /// Add the prefixes of every key with [`add_prefix`](Self::add_prefix): see
    /// [`FilterBuilder::with_prefixes`].
    ///
    /// # Errors
    /// Returns the errors of [`FilterBuilder::with_prefixes`]. Returns [`Error::Invalid`] if a key
    /// was added before.
    pub fn with_prefixes(mut self, extractor: &str, whole_keys_too: bool) -> Result<Self> {
        self.check_no_keys(extractor)?;
        self.current = self.current.with_prefixes(extractor, whole_keys_too)?;
        Ok(self)
    }

    fn check_no_keys(&self, extractor: &str) -> Result<()> {
        let reason = "keys were added already; declare the extractor before the first key";
        if self.has_keys { Err(Error::invalid("prefixes", extractor, reason)) } else { Ok(()) }
    }

    /// Limits the length of a partition in bytes, instead of its number of keys. A plan says how
    /// many keys and prefixes fit in a block of `max_len_bytes`. A partition takes no further key
    /// once it holds this number, which is at least one. The limit applies from the next key on.
    ///
    /// A partition may exceed the length, because all prefixes of a key go to the partition of the
    /// key. Also, the plan is not exact for all kinds: see [`Plan::payload_len_bytes`].
    #[must_use]
    pub fn with_partition_len_bytes(mut self, max_len_bytes: u64) -> Self {
        self.partition_len_bytes = Some(max_len_bytes);
        self
    }

    /// Announces `keys` more keys and prefixes, so that each partition can reserve memory for its
    /// share: see [`FilterBuilder::reserve`].
    pub fn reserve(&mut self, keys: usize) {
        self.reserved = keys.saturating_add(self.current.len());
        self.reserve_partition();
    }

    fn reserve_partition(&mut self) {
        // If the partition size was given in bytes, the next key converts it into a number of keys.
        if self.partition_len_bytes.is_none() {
            let len = self.current.len();
            self.current.reserve(self.reserved.min(self.partition_keys).saturating_sub(len));
        }
    }

    /// Adds a key. Keys must come in ascending order; repetitions are allowed. After
    /// [`with_extractor`](Self::with_extractor), this method also adds the prefixes of the key.
    ///
    /// In a filter of prefixes only, the key itself is not added. It only decides the partition of
    /// its prefixes.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for a key below the last key; the builder does not change. Any
    /// other error, such as those of [`FilterBuilder::finish`], loses keys. After such an error,
    /// every later call that adds or finishes fails, too.
    pub fn add(&mut self, key: &[u8]) -> Result<()> {
        let hash = self.current.added().whole_keys().then(|| self.current.hasher().of(key));
        self.add_at(key, hash)
    }

    /// Adds a key whose hash the caller has computed. In all other respects this method works like
    /// [`add`](Self::add).
    ///
    /// The hash must be the hash of `key` by the builder's hasher or an equal hasher. Debug builds
    /// panic otherwise.
    ///
    /// # Errors
    /// Returns the errors of [`add`](Self::add).
    pub fn add_hashed(&mut self, key: &[u8], hash: KeyHash) -> Result<()> {
        self.debug_check(key, hash);
        self.add_at(key, self.current.added().whole_keys().then_some(hash))
    }

    /// Panics in debug builds if `hash` is not the hash of `key`. The hash of another key could go
    /// to the wrong partition. After a panic, the key is missing.
    fn debug_check(&mut self, key: &[u8], hash: KeyHash) {
        let has_lost_keys = std::mem::replace(&mut self.has_lost_keys, true);
        let hasher = self.current.hasher();
        hasher.debug_check(hash);
        debug_assert!(
            hash == hasher.of(key),
            "the hash belongs to another key or another hasher; pass the hash of {key:?}"
        );
        self.has_lost_keys = has_lost_keys;
    }

    fn add_at(&mut self, key: &[u8], hash: Option<KeyHash>) -> Result<()> {
        self.check_sound()?;
        // A repetition must not open the next partition, because the same set of keys must give the
        // same bytes.
        match key.cmp(&self.last_key) {
            Ordering::Less => return Err(out_of_order(key, &self.last_key)),
            Ordering::Equal if self.has_keys => return Ok(()),
            _ => {}
        }
        if let Some(max_len_bytes) = self.partition_len_bytes.take() {
            self.partition_keys = most_keys(&self.current, max_len_bytes);
            self.reserve_partition();
        }
        // If a later step fails, the key or a whole partition is lost.
        self.has_lost_keys = true;
        if self.current.len() >= self.partition_keys {
            self.close_partition()?;
        }
        let more = key.len().saturating_sub(self.last_key.len());
        self.last_key.try_reserve(more).map_err(|_| self.no_memory())?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.has_keys = true;
        if self.current.spec().is_for_ranges() {
            self.current.add(&self.last_key);
        }
        self.add_to_partition(hash)?;
        self.current.add_prefixes_of(&self.last_key);
        self.add_to_partition(None)?;
        self.has_lost_keys = false;
        Ok(())
    }

    /// Adds a prefix of the last key. A key may have any number of prefixes of any length.
    ///
    /// The prefix goes to the partition of its key. If keys of several partitions share a prefix,
    /// add the prefix for each of these keys.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if no extractor was declared, if no key was added, or if the last
    /// key does not begin with `prefix`; the builder does not change. Also returns
    /// [`Error::Invalid`] if there is no memory for the prefix, or if an earlier call lost keys.
    /// After a lack of memory, every later call that adds or finishes fails, too.
    pub fn add_prefix(&mut self, prefix: &[u8]) -> Result<()> {
        self.add_hashed_prefix(prefix, self.current.hasher().of(prefix))
    }

    /// Adds a prefix whose hash the caller has computed. In all other respects this method works
    /// like [`add_prefix`](Self::add_prefix).
    ///
    /// The hash must be the hash of `prefix` by the builder's hasher or an equal hasher. Debug
    /// builds panic otherwise.
    ///
    /// # Errors
    /// Returns the errors of [`add_prefix`](Self::add_prefix).
    pub fn add_hashed_prefix(&mut self, prefix: &[u8], hash: KeyHash) -> Result<()> {
        self.check_sound()?;
        self.debug_check(prefix, hash);
        if self.current.extractor().is_none() {
            let reason = "no extractor was declared; declare the extractor of the prefixes before the first key";
            return Err(Error::invalid("prefix", shown(prefix), reason));
        }
        if !self.has_keys || !self.last_key.starts_with(prefix) {
            let reason = "no key was added, or the last key does not begin with this prefix; add the key, then its \
                          prefixes";
            return Err(Error::invalid("prefix", shown(prefix), reason));
        }
        if self.last_prefix != Some(hash) {
            self.has_lost_keys = true;
            self.add_to_partition(Some(hash))?;
            self.last_prefix = Some(hash);
            self.has_lost_keys = false;
        }
        Ok(())
    }

    fn add_to_partition(&mut self, hash: Option<KeyHash>) -> Result<()> {
        if let Some(hash) = hash {
            self.current.put_hash(hash);
        }
        if self.current.is_short_of_memory() { Err(self.no_memory()) } else { Ok(()) }
    }

    /// Returns the number of keys and prefixes added so far. In a closed partition, each distinct
    /// key or prefix counts once. In the current partition, they count as in
    /// [`FilterBuilder::len`].
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.num_keys).unwrap_or(usize::MAX).saturating_add(self.current.len())
    }

    /// Returns whether no key was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_keys
    }

    /// Returns the number of partitions that [`finish`](Self::finish) would write now.
    #[must_use]
    pub fn num_partitions(&self) -> usize {
        // A key without a prefix adds no hash.
        self.num_partitions as usize + self.current.len().min(1)
    }

    fn no_memory(&self) -> Error {
        spec::no_memory(self.current.spec())
    }

    /// Returns an error if an earlier call lost keys.
    fn check_sound(&self) -> Result<()> {
        if !self.has_lost_keys {
            return Ok(());
        }
        let reason = "an earlier call failed, so keys or prefixes are missing; build the filter again from the first \
                      key";
        Err(Error::invalid("filter", self.current.spec(), reason))
    }

    /// Encodes the last partition and the index, and returns the bytes of the whole filter.
    ///
    /// # Errors
    /// Returns the errors of [`FilterBuilder::finish`]. Returns [`Error::Invalid`] if an earlier
    /// call lost keys, if the table id was set after the first key, or if there are too many
    /// partitions.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.check_sound()?;
        if self.is_table_late {
            let reason = "keys were added already; set the table id before the first key";
            return Err(Error::invalid("table id", "set after the first key", reason));
        }
        if self.num_partitions() > self.num_partitions as usize {
            self.close_partition()?;
        }
        let too_long = |_| {
            partition_size(self.partition_keys, "the partition index would take 4 GiB or more; use larger partitions")
        };
        u32::try_from(self.index.len()).map_err(too_long)?;
        let trailer = self.current.trailer(self.num_keys, self.index.len() as u64, None);
        let mut index = std::mem::take(&mut self.index);
        trailer.append_to(&mut index).map_err(|_| self.no_memory())?;
        self.blocks.try_reserve_exact(index.len()).map_err(|_| self.no_memory())?;
        self.blocks.extend_from_slice(&index);
        Ok(self.blocks)
    }

    fn close_partition(&mut self) -> Result<()> {
        self.num_partitions = self.num_partitions.checked_add(1).ok_or_else(|| {
            partition_size(self.partition_keys, "the filter would have 2^32 partitions or more; use larger partitions")
        })?;
        self.reserved = self.reserved.saturating_sub(self.current.len());
        let next = self.current.without_keys();
        let full = std::mem::replace(&mut self.current, next).with_partition_number(self.num_partitions);
        let block = full.finish()?;
        let Located { trailer, checksum, .. } = Located::read(&block)?;
        self.num_keys += trailer.num_keys;
        // An entry has the key, two varints of at most ten bytes each, and a four-byte checksum.
        let room = self.index.try_reserve(self.last_key.len().saturating_add(24));
        room.and_then(|()| self.blocks.try_reserve(block.len().saturating_add(ALIGN_BYTES)))
            .map_err(|_| self.no_memory())?;
        codec::put_varint(&mut self.index, block.len() as u64);
        codec::put_u32(&mut self.index, checksum);
        codec::put_bytes(&mut self.index, &self.last_key);
        self.blocks.extend_from_slice(&block);
        self.blocks.resize(self.blocks.len().next_multiple_of(ALIGN_BYTES), 0);
        self.last_prefix = None;
        self.reserve_partition();
        Ok(())
    }
}

fn partition_size(partition_keys: usize, reason: &'static str) -> Error {
    Error::invalid("number of keys per partition", partition_keys, reason)
}

/// Returns the error for a key that comes after a greater one.
fn out_of_order(key: &[u8], last_key: &[u8]) -> Error {
    let given = format!("{} after {}", shown(key), shown(last_key));
    Error::invalid("order of keys", given, "the key is below the previous key; add keys in ascending order")
}

/// Returns the first bytes of a key, for error messages.
fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key.get(..SHOWN_LEN_BYTES).unwrap_or(key)).into_owned()
}

/// Returns a number of keys whose planned block has at most `max_len_bytes`, or 1 if the search
/// finds no such number. With one more key, the block is longer or cannot be planned, or the number
/// of keys reaches [`MAX_PARTITION_KEYS`].
fn most_keys(builder: &FilterBuilder, max_len_bytes: u64) -> usize {
    let trailer = builder.trailer(0, 0, None);
    let fits = |num_keys: u64| {
        let plan = Plan::new(builder.spec(), num_keys).ok();
        let len = plan.and_then(|plan| trailer.block_len_bytes(plan.payload_len_bytes(), plan.record_len_bytes()));
        len.is_some_and(|len| len <= max_len_bytes)
    };
    let (mut low, mut high) = (1, 2);
    while high < MAX_PARTITION_KEYS && fits(high) {
        (low, high) = (high, 2 * high);
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    usize::try_from(low).unwrap_or(usize::MAX)
}
