//! Defines the settings that a policy, its builders and its filters share.

use std::fmt;
use std::sync::Arc;

use filterblock::{Expected, FilterSpec, HashSeed, KeyHasher, WholeKeys, layout};
use slatedb::bytes::Bytes;
use slatedb::{PrefixExtractor, PrefixTarget};

use crate::counters::Counters;

/// The table id of all filters of keys and prefixes. It cannot name an SST, because SlateDB does
/// not tell a policy which SST a filter belongs to. The id distinguishes these blocks from blocks
/// of other programs.
pub(crate) const TABLE_ID: [u8; 16] = *b"SlateDB SST file";

/// The table id of range filters. It differs from [`TABLE_ID`], so that a range filter is not used
/// as a filter of keys.
pub(crate) const RANGES_TABLE_ID: [u8; 16] = *b"SlateDB SST rngs";

/// A function that chooses the filter of an SST by the number of keys and prefixes in the filter.
pub(crate) type Choice = Arc<dyn Fn(u64) -> Option<FilterSpec> + Send + Sync>;
/// A function that receives the reason why a filter cannot be built or used.
pub(crate) type Handler = Arc<dyn Fn(&filterblock::Error) + Send + Sync>;

/// The settings of a policy, and the counters that all users of the settings share.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) choice: Choice,
    pub(crate) hasher: KeyHasher,
    pub(crate) prefixes: Option<Prefixes>,
    /// The specification of range filters. It is `None` unless this is the configuration of the
    /// policy for ranges.
    pub(crate) ranges: Option<FilterSpec>,
    pub(crate) handler: Option<Handler>,
    pub(crate) counters: Arc<Counters>,
}

/// The prefixes that are in the filters.
#[derive(Clone)]
pub(crate) struct Prefixes {
    pub(crate) extractor: Arc<dyn PrefixExtractor>,
    pub(crate) whole_keys: WholeKeys,
}

impl Config {
    pub(crate) fn new(choice: Choice) -> Self {
        Self {
            choice,
            hasher: KeyHasher::xxh3(HashSeed(0)),
            prefixes: None,
            ranges: None,
            handler: None,
            counters: Arc::new(Counters::default()),
        }
    }

    /// Returns the configuration of the policy for ranges, with the same counters.
    pub(crate) fn for_ranges(&self, spec: FilterSpec) -> Self {
        Self { choice: Arc::new(move |_| Some(spec)), prefixes: None, ranges: Some(spec), ..self.clone() }
    }

    /// Returns the name that SlateDB stores beside each filter. SlateDB gives a filter only to the
    /// policy of the same name.
    ///
    /// The name states the format version, and whether keys, prefixes or ranges are in the filter.
    /// The kind, the size and the hasher are in the block. The extractor's name comes last. So
    /// policies that differ in the kinds of content or in the extractor never have the same name.
    pub(crate) fn name(&self) -> String {
        let name = format!("filterblock:{}", layout::VERSION);
        if self.ranges.is_some() {
            return format!("{name}:ranges");
        }
        match &self.prefixes {
            None => name,
            Some(Prefixes { extractor, whole_keys: WholeKeys::Too }) => {
                format!("{name}:keys+prefixes={}", extractor.name())
            }
            Some(Prefixes { extractor, whole_keys: WholeKeys::Not }) => format!("{name}:prefixes={}", extractor.name()),
        }
    }

    pub(crate) fn has_whole_keys(&self) -> bool {
        self.prefixes.as_ref().is_none_or(|prefixes| prefixes.whole_keys == WholeKeys::Too)
    }

    /// Returns the expectations that a filter of this policy must meet.
    pub(crate) fn expected(&self) -> Expected<'_> {
        if self.ranges.is_some() {
            // A range filter without keys would deny every range. With `u64::MAX` entries, the
            // filter must have a key, and its number of keys has no upper limit.
            return Expected::of_table(RANGES_TABLE_ID, &self.hasher).with_num_entries(u64::MAX);
        }
        let expected = Expected::of_table(TABLE_ID, &self.hasher);
        self.prefixes.as_ref().map_or(expected, |prefixes| expected.with_prefixes(prefixes.extractor.name()))
    }

    pub(crate) fn report(&self, error: &filterblock::Error) {
        if let Some(handler) = &self.handler {
            handler(error);
        }
    }
}

impl Prefixes {
    /// Returns the prefix that the extractor takes from `bytes`: a key, or the prefix of a scan.
    /// Returns `None` if the extractor takes no prefix.
    ///
    /// # Errors
    /// Returns [`filterblock::Error::Invalid`] if the extractor returns a length above that of
    /// `bytes`.
    pub(crate) fn of<'k>(
        &self,
        bytes: &'k Bytes,
        target: fn(Bytes) -> PrefixTarget,
    ) -> filterblock::Result<Option<&'k [u8]>> {
        let Some(len) = self.extractor.prefix_len(&target(bytes.clone())) else { return Ok(None) };
        bytes.get(..len).map(Some).ok_or_else(|| filterblock::Error::Invalid {
            what: "prefix length",
            given: format!("{len} for {} bytes", bytes.len()),
            reason: format!("the prefix is longer than the key; correct the extractor {}", self.extractor.name())
                .into(),
        })
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("name", &self.name()).field("hasher", &self.hasher).finish_non_exhaustive()
    }
}
