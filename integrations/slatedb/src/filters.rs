//! Defines [`Filters`], which makes the lists of policies and returns their counts.

use std::fmt;
use std::sync::Arc;

use filterblock::{FilterOptions, FilterSpec, KeyHasher, WholeKeys};
use slatedb::{BloomFilterPolicy, FilterPolicy, PrefixExtractor};

use crate::bloom::ReadOnlyBloom;
use crate::config::{Config, Prefixes};
use crate::counters::{Counters, Counts};
use crate::policy::Policy;

/// The filters of a SlateDB database: settings, lists of policies, and counts.
///
/// Pass [`policies`](Self::policies) to `with_filter_policies` of every `DbBuilder`,
/// `DbReaderBuilder`, `CompactorBuilder` and `CompactionWorkerBuilder` of the database. A compactor
/// inside the writer uses the list of the writer. **A compactor or worker with another list drops
/// the filters of the SSTs that it rewrites, and SlateDB reports no error**: see
/// [`record_or_compare`](Self::record_or_compare) and [`inspect`](Self::inspect).
///
/// All processes need the same hasher and the same prefixes. Either all processes have range
/// filters, or none. The processes may have different specifications, because each filter states
/// its own kind and size.
///
/// A clone shares the counts.
#[derive(Clone)]
pub struct Filters {
    pub(crate) config: Config,
    ranges: Option<FilterSpec>,
    bloom: Option<Arc<BloomFilterPolicy>>,
}

impl Filters {
    /// Gives each new SST a filter of `spec`: see [`by_num_keys`](Self::by_num_keys). A
    /// [`FilterSpec`] parses from text. The command `filterblock plan --keys 1000000 --bits-per-key
    /// BITS` prints the numbers of the table.
    ///
    /// | Specification | FPR | Bits per key | Choose it for |
    /// |---|---|---|---|
    /// | `bumped-ribbon:7` | 0.805 % | 7.00 | the fewest bytes at less than 1 % |
    /// | `bumped-ribbon:9.95` | 0.106 % | 9.95 | the fewest reads in the size of SlateDB's own filter |
    /// | `blocked-bloom:12` | 0.413 % | 12.0 | the shortest builds |
    #[must_use]
    pub fn new(spec: FilterSpec) -> Self {
        Self::by_num_keys(move |_| Some(spec))
    }

    /// Chooses the filter of each SST by the number of keys and prefixes in the filter. If `choice`
    /// returns `None`, the SST gets an always-maybe filter. It takes 60 bytes, or more with
    /// prefixes.
    ///
    /// SlateDB builds no filter for an SST with fewer rows than its setting `min_filter_keys`.
    ///
    /// ```
    /// use filterblock_slatedb::Filters;
    ///
    /// let (small, large) = ("blocked-bloom:12".parse()?, "bumped-ribbon:7".parse()?);
    /// let filters = Filters::by_num_keys(move |keys| Some(if keys < 16_384 { small } else { large }));
    /// # Ok::<(), filterblock::Error>(())
    /// ```
    #[must_use]
    pub fn by_num_keys(choice: impl Fn(u64) -> Option<FilterSpec> + Send + Sync + 'static) -> Self {
        Self { config: Config::new(Arc::new(choice)), ranges: None, bloom: None }
    }

    /// Hashes keys with `hasher`. The default is XXH3 with seed 0.
    ///
    /// If attackers can choose keys, use a hasher with a secret: [`KeyHasher::sip13`]. A filter of
    /// another hasher answers "maybe", and counts as [`Counts::unexpected`].
    #[must_use]
    pub fn with_hasher(mut self, hasher: KeyHasher) -> Self {
        self.config.hasher = hasher;
        self
    }

    /// Adds the prefixes that `extractor` takes from keys, so that `scan_prefix` can skip SSTs.
    /// `whole_keys_too` states whether the filter also has whole keys. If not, gets skip SSTs by
    /// the prefix of the key.
    ///
    /// The extractor must meet the requirements of [`PrefixExtractor`]. Rename the extractor
    /// whenever its function changes: its name is part of the policy's name.
    ///
    /// # Errors
    /// Returns [`filterblock::Error::Invalid`] if the extractor's name does not have 1 to 100
    /// bytes.
    pub fn with_prefixes(
        mut self,
        extractor: Arc<dyn PrefixExtractor>,
        whole_keys_too: bool,
    ) -> filterblock::Result<Self> {
        let whole_keys = if whole_keys_too { WholeKeys::Too } else { WholeKeys::Not };
        let options = FilterOptions::new(FilterSpec::ALWAYS_MAYBE);
        options.prefixes_by_host(extractor.name(), whole_keys).builder(&self.config.hasher)?;
        self.config.prefixes = Some(Prefixes { extractor, whole_keys });
        Ok(self)
    }

    /// Adds a range filter to every SST, so that `scan` of a short range can skip SSTs without a
    /// key in the range. The range filter is separate from the filter of keys, and gets do not use
    /// it. Without a range filter, every `scan` that overlaps the SST's key range reads the SST.
    ///
    /// `spec` states the length of the ranges and the FPR. `grafite:L=16:fpr=0.01` takes about 12.7
    /// bits per key, and `grafite:L=1024:fpr=0.01` takes about 18.7. The FPR of longer ranges is
    /// higher, in proportion to their length. `grafite:fpr=0.01` adapts to keys that are not
    /// integers.
    ///
    /// ```
    /// use filterblock_slatedb::Filters;
    ///
    /// let filters = Filters::new("bumped-ribbon:7".parse()?).with_ranges("grafite:fpr=0.01".parse()?)?;
    /// # Ok::<(), filterblock::Error>(())
    /// ```
    ///
    /// A scan asks the filter for the range between its bounds, so a scan without an upper bound
    /// usually reads the SST. `scan_prefix` asks range filters only if no policy has prefixes.
    ///
    /// # Errors
    /// Returns [`filterblock::Error::Invalid`] if `spec` is not the specification of a range
    /// filter.
    pub fn with_ranges(mut self, spec: FilterSpec) -> filterblock::Result<Self> {
        FilterOptions::new(FilterSpec::ALWAYS_MAYBE).ranges(spec).builder(&self.config.hasher)?;
        self.ranges = Some(spec);
        Ok(self)
    }

    /// Uses the Bloom filters that SlateDB wrote into older SSTs with `bloom`, its own policy. New
    /// SSTs get a filter of this crate, and a Bloom filter of three bytes that answers "maybe" to
    /// every key.
    ///
    /// Without this setting, SlateDB reads older SSTs without a filter until a compaction rewrites
    /// them. Remove the setting when [`inspect`](Self::inspect) finds no [`SstFilter::Bloom`].
    ///
    /// [`SstFilter::Bloom`]: crate::SstFilter::Bloom
    #[must_use]
    pub fn reading_bloom(mut self, bloom: BloomFilterPolicy) -> Self {
        self.bloom = Some(Arc::new(bloom));
        self
    }

    /// Calls `handler` with the reason for each filter of this crate that cannot be built or
    /// decoded, for example to log it. The read, flush or compaction waits for the handler.
    #[must_use]
    pub fn on_unusable(mut self, handler: impl Fn(&filterblock::Error) + Send + Sync + 'static) -> Self {
        self.config.handler = Some(Arc::new(handler));
        self
    }

    /// Returns the list of policies for `with_filter_policies`.
    #[must_use]
    pub fn policies(&self) -> Vec<Arc<dyn FilterPolicy>> {
        self.policies_counting_ranges(&self.config.counters)
    }

    /// Returns the list of policies. Range filters are counted in `of_ranges`.
    pub(crate) fn policies_counting_ranges(&self, of_ranges: &Arc<Counters>) -> Vec<Arc<dyn FilterPolicy>> {
        let mut policies: Vec<Arc<dyn FilterPolicy>> = vec![Arc::new(Policy::new(self.config.clone()))];
        if let Some(spec) = self.ranges {
            let config = Config { counters: Arc::clone(of_ranges), ..self.config.for_ranges(spec) };
            policies.push(Arc::new(Policy::new(config)));
        }
        if let Some(bloom) = &self.bloom {
            policies.push(Arc::new(ReadOnlyBloom::new(Arc::clone(bloom), Arc::clone(&self.config.counters))));
        }
        policies
    }

    /// Returns the name of the policy for keys and prefixes, which SlateDB stores beside each
    /// filter.
    #[must_use]
    pub fn name(&self) -> String {
        self.config.name()
    }

    pub(crate) fn has_ranges(&self) -> bool {
        self.ranges.is_some()
    }

    /// Returns the counts so far. They cover all lists of policies of this object and of its
    /// clones.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.config.counters.snapshot()
    }
}

impl fmt::Debug for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filters").field("config", &self.config).field("bloom", &self.bloom).finish()
    }
}
