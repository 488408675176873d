//! Builds filters that are split by key range. [`super::partition`] describes the layout.

use std::cmp::Ordering;

use super::builder::{Built, FilterBuilder};
use super::layout::ALIGN_BYTES;
use super::options::FilterOptions;
use crate::codec;
use crate::error::{Error, Result};
use crate::hash::{Key, KeyHash, KeyHasher};
use crate::plans::Plan;
use crate::spec;

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
/// next key opens a new partition.
///
/// To answer for ranges too, write a second partitioned filter of the same keys with a range filter
/// as its specification, such as `grafite:fpr=0.01`.
///
/// ```
/// use filterblock::partitions::PartitionedBuilder;
/// use filterblock::{Expected, FilterBlock, FilterOptions, HashSeed, KeyHasher, PrefixExtractor, Verify, WholeKeys};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
/// let options = FilterOptions::new("blocked-bloom:10".parse()?).table_id(table_id);
/// let options = options.prefixes(&PrefixExtractor::fixed(4)?, WholeKeys::Too);
/// let mut builder = PartitionedBuilder::new(&options, &hasher, 1_000)?;
/// for key in [b"user0001", b"user0002", b"user0003"] {
///     builder.add(hasher.key(key))?;
/// }
/// let bytes = builder.finish()?.bytes;
///
/// let expected = Expected::of_table(table_id, &hasher).with_prefixes("fixed:4");
/// let block = FilterBlock::open(bytes, &expected, Verify::AtOpen)?;
/// assert!(block.may_contain(hasher.key(b"user0002")));
/// assert!(block.may_contain_prefix("fixed:4", hasher.key(b"user")));
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
}

impl PartitionedBuilder {
    /// Creates a builder without keys. A partition takes no further key once it holds
    /// `partition_keys` keys and prefixes; 0 counts as 1. A partition may hold more than this
    /// number, because all prefixes of a key go to the partition of the key.
    ///
    /// # Errors
    /// Returns the errors of [`FilterOptions::builder`]. Returns [`Error::Invalid`] for
    /// [`FilterOptions::ranges`].
    pub fn new(options: &FilterOptions, hasher: impl Into<KeyHasher>, partition_keys: usize) -> Result<Self> {
        if let Some(ranges) = options.ranges {
            let reason = "a partition has no range filter beside it; write a second partitioned filter for ranges";
            return Err(Error::invalid("range filter", ranges, reason));
        }
        Ok(Self {
            current: options.builder(hasher)?,
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
        })
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

    /// Adds a key, and its prefixes if the options have an extractor. Keys must come in ascending
    /// order; repetitions are allowed.
    ///
    /// In a filter of prefixes only, the key itself is not added. It only decides the partition of
    /// its prefixes.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for a key below the last key; the builder does not change. Any
    /// other error, such as those of [`FilterBuilder::finish`], loses keys. After such an error,
    /// every later call that adds or finishes fails, too.
    pub fn add(&mut self, key: Key<'_>) -> Result<()> {
        self.check_complete()?;
        let (given, key) = (key, key.bytes());
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
        self.current.add(given);
        self.check_memory()?;
        self.has_lost_keys = false;
        Ok(())
    }

    /// Adds a prefix of the last key, which the host took: see [`FilterOptions::prefixes_by_host`]. A
    /// key may have any number of prefixes of any length.
    ///
    /// The prefix goes to the partition of its key. If keys of several partitions share a prefix,
    /// add the prefix for each of these keys.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the options name no extractor, if no key was added, or if the
    /// last key does not begin with `prefix`; the builder does not change. Also returns
    /// [`Error::Invalid`] if there is no memory for the prefix, or if an earlier call lost keys.
    /// After a lack of memory, every later call that adds or finishes fails, too.
    pub fn add_prefix(&mut self, prefix: Key<'_>) -> Result<()> {
        self.check_complete()?;
        if self.current.options().prefixes.is_none() {
            let reason = "no extractor was declared; declare the extractor of the prefixes in the options";
            return Err(Error::invalid("prefix", shown(prefix.bytes()), reason));
        }
        if !self.has_keys || !self.last_key.starts_with(prefix.bytes()) {
            let reason = "no key was added, or the last key does not begin with this prefix; add the key, then its \
                          prefixes";
            return Err(Error::invalid("prefix", shown(prefix.bytes()), reason));
        }
        if self.last_prefix != Some(prefix.hash()) {
            self.has_lost_keys = true;
            self.current.add_prefix(prefix);
            self.check_memory()?;
            self.last_prefix = Some(prefix.hash());
            self.has_lost_keys = false;
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<()> {
        if self.current.is_short_of_memory() { Err(self.no_memory()) } else { Ok(()) }
    }

    /// Returns the hasher of the keys.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        self.current.hasher()
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
        let open = self.current.len().max(usize::from(self.current.lacks_prefixes()));
        self.num_partitions as usize + open.min(1)
    }

    fn no_memory(&self) -> Error {
        spec::no_memory(self.current.options().spec)
    }

    fn check_complete(&self) -> Result<()> {
        if !self.has_lost_keys {
            return Ok(());
        }
        let reason = "an earlier call failed, so keys or prefixes are missing; build the filter again from the first \
                      key";
        Err(Error::invalid("filter", self.current.options().spec, reason))
    }

    /// Encodes the last partition and the index, and returns the bytes of the whole filter.
    ///
    /// # Errors
    /// Returns the errors of [`FilterBuilder::finish`]. Returns [`Error::Invalid`] if an earlier
    /// call lost keys, or if there are too many partitions.
    pub fn finish(mut self) -> Result<Built> {
        self.check_complete()?;
        if self.num_partitions() > self.num_partitions as usize {
            self.close_partition()?;
        }
        let too_long = |_| {
            partition_size(self.partition_keys, "the partition index would take 4 GiB or more; use larger partitions")
        };
        u32::try_from(self.index.len()).map_err(too_long)?;
        let mut index = std::mem::take(&mut self.index);
        let trailer = self.current.trailer(self.num_keys, index.len() as u64, None);
        let checksum = trailer.append_to(&mut index).map_err(|_| self.no_memory())?;
        self.blocks.try_reserve_exact(index.len()).map_err(|_| self.no_memory())?;
        self.blocks.extend_from_slice(&index);
        Ok(self.current.built(self.blocks, checksum, self.num_keys))
    }

    fn close_partition(&mut self) -> Result<()> {
        self.num_partitions = self.num_partitions.checked_add(1).ok_or_else(|| {
            partition_size(self.partition_keys, "the filter would have 2^32 partitions or more; use larger partitions")
        })?;
        self.reserved = self.reserved.saturating_sub(self.current.len());
        let next = self.current.without_keys();
        let full = std::mem::replace(&mut self.current, next).with_partition_number(self.num_partitions);
        let Built { bytes: block, checksum, num_keys, .. } = full.finish()?;
        self.num_keys += num_keys;
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

fn out_of_order(key: &[u8], last_key: &[u8]) -> Error {
    let given = format!("{} after {}", shown(key), shown(last_key));
    Error::invalid("order of keys", given, "the key is below the previous key; add keys in ascending order")
}

fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key.get(..SHOWN_LEN_BYTES).unwrap_or(key)).into_owned()
}

/// Returns a number of keys whose planned block has at most `max_len_bytes`, or 1 if the search
/// finds no such number. With one more key, the block is longer or cannot be planned, or the number
/// of keys reaches [`MAX_PARTITION_KEYS`].
fn most_keys(builder: &FilterBuilder, max_len_bytes: u64) -> usize {
    let trailer = builder.trailer(0, 0, None);
    let fits = |num_keys: u64| {
        let plan = Plan::new(builder.options().spec, num_keys).ok();
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
