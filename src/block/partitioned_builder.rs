//! Builds filters that are split by key range; [`super::partition`] has the layout.

use std::cmp::Ordering;
use std::num::NonZeroUsize;

use super::layout::{self, Content, Trailer, checksum_of};
use super::partition::ALIGN_BYTES;
use super::writer::{FilterBuilder, SelfCheck};
use crate::codec;
use crate::error::{Error, Result};
use crate::hash::{KeyHash, KeyHasher};
use crate::planning::Plan;
use crate::spec::{self, FilterSpec};

/// So much of a key stands in an error.
const SHOWN_LEN_BYTES: usize = 32;
/// More keys than any memory holds: an always-maybe filter has no bytes, however many keys it has.
const MAX_PARTITION_KEYS: u64 = 1 << 48;

/// Builds a filter in partitions by key range, so that a host can keep the index in memory and load a partition on demand
/// ([`PartitionIndex`](super::PartitionIndex)).
///
/// A partition closes before the first key that would be too many. Keys must come in ascending order. Settings that are part
/// of the bytes (`with_table_id`, `with_prefixes`, `with_partition_len_bytes`) must come before the first key.
///
/// [`FilterBuilder::finish_compact`] has no counterpart: the compact form has neither an index nor a place for the number of a
/// partition. [`FilterBuilder::add_hash`] has none either, because the key decides the partition: use
/// [`add_hashed`](Self::add_hashed).
///
/// ```
/// use filterblock::{Expected, FilterBlock, HashSeed, KeyHasher, PartitionedBuilder, Verify};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
/// let builder = PartitionedBuilder::new("blocked-bloom:10".parse()?, &hasher, 1_000).with_table_id(table_id);
/// let mut builder = builder.with_prefixes("first-4", true)?;
/// for key in [b"user0001", b"user0002", b"user0003"] {
///     builder.add(key)?;
///     builder.add_prefix(&key[..4])?;
/// }
/// let bytes = builder.finish()?;
///
/// let expected = Expected::of_table(table_id, &hasher).with_prefixes("first-4");
/// let block = FilterBlock::open(bytes, &expected, Verify::AtOpen)?;
/// assert!(block.may_contain(b"user0002") && block.may_contain_prefix("first-4", b"user"));
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug)]
pub struct PartitionedBuilder {
    /// Has the settings of all partitions.
    current: FilterBuilder,
    /// Hashes at which a partition closes.
    partition_keys: usize,
    /// The longest partition wanted; the first key turns it into a number of keys.
    partition_len_bytes: Option<u64>,
    last_key: Vec<u8>,
    /// Of the current partition: keys in a row have the same prefix.
    last_prefix: Option<KeyHash>,
    /// Whether a key came: one without a prefix leaves no hash in a filter of prefixes only.
    has_keys: bool,
    /// Keys that are announced and have not come.
    reserved: usize,
    blocks: Vec<u8>,
    index: Vec<u8>,
    num_partitions: u32,
    num_keys: u64,
    /// Whether a key, or a whole partition of keys, was lost: a filter of the others would deny them.
    has_lost_keys: bool,
    /// Whether the table was named behind a key, so that partitions may name several.
    is_table_late: bool,
}

impl PartitionedBuilder {
    /// An empty set of keys. A partition closes when it holds `partition_keys` keys and prefixes (at least one).
    ///
    /// A [`HashSeed`](crate::HashSeed) alone is XXH3-64 without a secret.
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

    /// See [`FilterBuilder::with_table_id`]. Behind the first key it makes [`finish`](Self::finish) an error.
    #[must_use]
    pub fn with_table_id(mut self, table_id: [u8; 16]) -> Self {
        self.is_table_late |= self.has_keys;
        self.current = self.current.with_table_id(table_id);
        self
    }

    /// See [`FilterBuilder::with_self_check`].
    #[must_use]
    pub fn with_self_check(mut self, self_check: SelfCheck) -> Self {
        self.current = self.current.with_self_check(self_check);
        self
    }

    /// Lets so many threads work on each partition: see [`FilterBuilder::with_threads`].
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.current = self.current.with_threads(threads);
        self
    }

    /// Makes room for prefixes, taken by the function that `extractor` names, with or without the whole keys beside them.
    /// Then [`add_prefix`](Self::add_prefix) adds the prefixes of the key that was added last.
    ///
    /// # Errors
    /// As [`FilterBuilder::with_prefixes`]; [`Error::Invalid`] behind the first key.
    pub fn with_prefixes(mut self, extractor: &str, whole_keys_too: bool) -> Result<Self> {
        if self.has_keys {
            return Err(Error::invalid("prefixes", extractor, "keys came before; say it before the first key"));
        }
        self.current = self.current.with_prefixes(extractor, whole_keys_too)?;
        Ok(self)
    }

    /// Closes a partition by its size in place of its number of keys: each partition takes as many keys and prefixes as
    /// a block of `max_len_bytes` bytes holds by plan, at least one.
    ///
    /// The plan is exact for Bloom filters. It may be off by a per cent for a ribbon, and by more for the ribbon or the
    /// binary fuse filter that needs a second system.
    #[must_use]
    pub fn with_partition_len_bytes(mut self, max_len_bytes: u64) -> Self {
        self.partition_len_bytes = Some(max_len_bytes);
        self
    }

    /// Announces so many keys and prefixes more: each partition reserves its part of them when it begins. See
    /// [`FilterBuilder::reserve`].
    pub fn reserve(&mut self, keys: usize) {
        self.reserved = keys.saturating_add(self.current.len());
        self.reserve_partition();
    }

    fn reserve_partition(&mut self) {
        // How many keys a partition has is not known before the first, where its bytes are given.
        if self.partition_len_bytes.is_none() {
            let len = self.current.len();
            self.current.reserve(self.reserved.min(self.partition_keys).saturating_sub(len));
        }
    }

    /// Adds a key. Keys come in ascending order; repetitions are allowed.
    ///
    /// A filter of prefixes only takes the key's place alone: it decides the partition of the prefixes that follow.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key below the last one, which changes nothing; the errors of [`FilterBuilder::finish`]. After
    /// one of those, keys are lost: every later [`add`](Self::add) and [`finish`](Self::finish) are errors, too.
    pub fn add(&mut self, key: &[u8]) -> Result<()> {
        let hash = self.current.added().whole_keys().then(|| self.current.hasher().of(key));
        self.add_at(key, hash)
    }

    /// Adds a key whose hash is at hand; otherwise like [`add`](Self::add).
    ///
    /// The hash must be that of `key`, by the builder's hasher or an equal hasher; debug builds check it and panic.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_hashed(&mut self, key: &[u8], hash: KeyHash) -> Result<()> {
        self.debug_check(key, hash);
        self.add_at(key, self.current.added().whole_keys().then_some(hash))
    }

    /// Another key's hash would go to the partition of this one.
    fn debug_check(&self, key: &[u8], hash: KeyHash) {
        let hasher = self.current.hasher();
        hasher.debug_check(hash);
        debug_assert!(hash == hasher.of(key), "the hash belongs to another key or another hasher; hash {key:?} itself");
    }

    fn add_at(&mut self, key: &[u8], hash: Option<KeyHash>) -> Result<()> {
        self.check_sound()?;
        // A repetition must not open the next partition: the same set of keys gives the same bytes.
        match key.cmp(&self.last_key) {
            Ordering::Less => return Err(out_of_order(key, &self.last_key)),
            Ordering::Equal if self.has_keys => return Ok(()),
            _ => {}
        }
        if let Some(max_len_bytes) = self.partition_len_bytes.take() {
            self.partition_keys = most_keys(&self.current, max_len_bytes);
            self.reserve_partition();
        }
        // Until the key is in, a failure loses it, or the keys of a whole partition.
        self.has_lost_keys = true;
        if self.current.len() >= self.partition_keys {
            self.close_partition()?;
        }
        let more = key.len().saturating_sub(self.last_key.len());
        self.last_key.try_reserve(more).map_err(|_| self.no_memory())?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.has_keys = true;
        self.add_to_partition(hash)?;
        self.has_lost_keys = false;
        Ok(())
    }

    /// Adds a prefix of the key that was added last. A key may have any number of prefixes, each as long as it likes.
    ///
    /// The prefix goes to the partition of its key. A prefix that keys of several partitions share must be added for each
    /// of these keys; equal ones in a row cost nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`], which changes nothing, unless [`with_prefixes`](Self::with_prefixes) made room for
    /// prefixes, and the last key begins with `prefix`: a query finds the partition by the bytes of the prefix. Otherwise as
    /// [`add`](Self::add).
    pub fn add_prefix(&mut self, prefix: &[u8]) -> Result<()> {
        self.add_hashed_prefix(prefix, self.current.hasher().of(prefix))
    }

    /// Adds a prefix whose hash is at hand; otherwise like [`add_prefix`](Self::add_prefix).
    ///
    /// The hash must be that of `prefix`, by the builder's hasher or an equal hasher; debug builds check it and panic.
    ///
    /// # Errors
    /// As [`add_prefix`](Self::add_prefix).
    pub fn add_hashed_prefix(&mut self, prefix: &[u8], hash: KeyHash) -> Result<()> {
        self.check_sound()?;
        self.debug_check(prefix, hash);
        if self.current.extractor().is_none() {
            let reason = "the filter has no prefixes; call with_prefixes first";
            return Err(Error::invalid("prefix", shown(prefix), reason));
        }
        if !self.has_keys || !self.last_key.starts_with(prefix) {
            let reason = "the last key does not begin with it; add the key, then its prefixes";
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
            self.current.add_hash(hash);
        }
        if self.current.is_short_of_memory() { Err(self.no_memory()) } else { Ok(()) }
    }

    /// Keys and prefixes added so far. Those of closed partitions are counted once each, those of the last one as
    /// [`FilterBuilder::len`] counts.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.num_keys).unwrap_or(usize::MAX).saturating_add(self.current.len())
    }

    /// Whether no key was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_keys
    }

    /// The number of partitions that [`finish`](Self::finish) would write now.
    #[must_use]
    pub fn num_partitions(&self) -> usize {
        self.num_partitions as usize + usize::from(!self.current.is_empty())
    }

    fn no_memory(&self) -> Error {
        spec::no_memory(self.current.spec())
    }

    /// # Errors
    /// As [`FilterBuilder::finish`] where memory ends, after an [`add`](Self::add) that lost keys.
    fn check_sound(&self) -> Result<()> {
        if self.has_lost_keys { Err(self.no_memory()) } else { Ok(()) }
    }

    /// Encodes partitions and index.
    ///
    /// # Errors
    /// As [`FilterBuilder::finish`]; also after an [`add`](Self::add) that was one, since its keys are lost;
    /// [`Error::Invalid`] if the table was named behind the first key, or the index has 4 GiB.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.check_sound()?;
        if self.is_table_late {
            let reason = "keys came before; name the table before the first key";
            return Err(Error::invalid("table id", "a late one", reason));
        }
        if !self.current.is_empty() {
            self.close_partition()?;
        }
        let too_long =
            |_| partition_size(self.partition_keys, "its index has 4 GiB or more; try more keys per partition");
        u32::try_from(self.index.len()).map_err(too_long)?;
        let trailer = self.current.trailer(self.num_keys, self.index.len() as u64, Content::PartitionIndex);
        let mut index = std::mem::take(&mut self.index);
        trailer.append_to(&mut index).map_err(|_| self.no_memory())?;
        self.blocks.try_reserve_exact(index.len()).map_err(|_| self.no_memory())?;
        self.blocks.extend_from_slice(&index);
        Ok(self.blocks)
    }

    fn close_partition(&mut self) -> Result<()> {
        self.num_partitions = self.num_partitions.checked_add(1).ok_or_else(|| {
            partition_size(self.partition_keys, "2^32 partitions or more; try more keys per partition")
        })?;
        self.reserved = self.reserved.saturating_sub(self.current.len());
        let next = self.current.without_keys();
        let full = std::mem::replace(&mut self.current, next).with_place(self.num_partitions);
        let block = full.finish()?;
        let (trailer, _) = Trailer::read(&block)?;
        self.num_keys += trailer.num_keys;
        // Two varints of ten bytes at most, and the checksum.
        let room = self.index.try_reserve(self.last_key.len().saturating_add(24));
        room.and_then(|()| self.blocks.try_reserve(block.len().saturating_add(ALIGN_BYTES)))
            .map_err(|_| self.no_memory())?;
        codec::put_varint(&mut self.index, block.len() as u64);
        codec::put_u32(&mut self.index, checksum_of(&block).unwrap_or_default());
        codec::put_bytes(&mut self.index, &self.last_key);
        self.blocks.extend_from_slice(&block);
        self.blocks.resize(self.blocks.len().next_multiple_of(ALIGN_BYTES), 0);
        self.last_prefix = None;
        self.reserve_partition();
        Ok(())
    }
}

fn partition_size(partition_keys: usize, reason: &'static str) -> Error {
    Error::invalid("partition size", partition_keys, reason)
}

/// The error of a key that comes after a greater one.
fn out_of_order(key: &[u8], last_key: &[u8]) -> Error {
    let given = format!("{} after {}", shown(key), shown(last_key));
    Error::invalid("order of keys", given, "a key comes before the last one; add keys in ascending order")
}

/// The front of a key, for errors.
fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key.get(..SHOWN_LEN_BYTES).unwrap_or(key)).into_owned()
}

/// The most keys whose block has `max_len_bytes` by plan, at least one.
fn most_keys(builder: &FilterBuilder, max_len_bytes: u64) -> usize {
    let extension = builder.trailer(0, 0, Content::PartitionIndex).extension_len_bytes() as u64;
    let fits = |num_keys: u64| {
        let plan = Plan::new(builder.spec(), num_keys).ok();
        let len = plan.and_then(|plan| layout::block_len_bytes(plan.payload_len_bytes(), plan.record_len_bytes()));
        len.is_some_and(|len| len.saturating_add(extension) <= max_len_bytes)
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
