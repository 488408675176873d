//! Decodes filters, and answers queries with them.

use std::sync::Arc;

use filterblock::{AlignedBytes, Answer, FilterBlock, SharedBytes, Verify};
use slatedb::bytes::{BufMut, Bytes};
use slatedb::{Filter, FilterQuery, FilterTarget, PrefixTarget};

use crate::config::Config;

/// A filter in SlateDB's cache. A clone shares the bytes.
#[derive(Clone)]
pub(crate) struct Opened(Arc<Inner>);

struct Inner {
    /// The opened filter block, or `None` if the bytes are not usable.
    block: Option<FilterBlock<SharedBytes>>,
    /// The bytes that SlateDB passed, even if they are not usable. A disk cache writes them again,
    /// and a newer version of this crate may be able to use them. They are empty if there was no
    /// memory for the copy.
    bytes: SharedBytes,
    config: Arc<Config>,
}

impl Opened {
    /// Copies the bytes to the start of a cache line, opens them, counts the result, and reports an
    /// error. If the bytes are not a usable filter of this policy, the returned filter answers
    /// "maybe".
    pub(crate) fn decode(data: &[u8], config: &Arc<Config>) -> Self {
        let (opened, filter) = Self::open(data, config);
        if let Err(error) = &opened {
            config.report(error);
        }
        config.counters.count_open(opened.as_ref().map(|_| ()));
        filter
    }

    /// Opens the bytes like [`decode`](Self::decode), but returns the error, and neither counts nor
    /// reports it.
    pub(crate) fn open(data: &[u8], config: &Arc<Config>) -> (filterblock::Result<()>, Self) {
        let filter = |block, bytes| Self(Arc::new(Inner { block, bytes, config: Arc::clone(config) }));
        let bytes = match AlignedBytes::copy_of(data) {
            Ok(bytes) => SharedBytes::from(bytes),
            Err(error) => return (Err(error), filter(None, SharedBytes::from(&[][..]))),
        };
        match FilterBlock::open(bytes.clone(), &config.expected(), Verify::AtOpen) {
            Ok(block) => (Ok(()), filter(Some(block), bytes)),
            Err(error) => (Err(error), filter(None, bytes)),
        }
    }

    /// Returns whether the policy is for queries like `target`. The policy for ranges is only for
    /// ranges. The policy for keys and prefixes is for all other queries.
    fn is_for(&self, target: &FilterTarget) -> bool {
        matches!(target, FilterTarget::Range { .. }) == self.0.config.ranges.is_some()
    }

    fn ask(&self, target: &FilterTarget) -> Answer {
        let Inner { block: Some(block), config, .. } = &*self.0 else { return Answer::Unfiltered };
        match target {
            FilterTarget::Point(key) if config.has_whole_keys() => block.may_contain(block.hasher().key(key)).into(),
            FilterTarget::Point(key) => self.ask_prefix(block, key, PrefixTarget::Point),
            FilterTarget::Prefix(prefix) => self.ask_prefix(block, prefix, PrefixTarget::Prefix),
            FilterTarget::Range { lower, upper } if block.has_ranges() => {
                block.may_contain_range(lower.as_ref().map(AsRef::as_ref), upper.as_ref().map(AsRef::as_ref)).into()
            }
            FilterTarget::Range { .. } => Answer::Unfiltered,
        }
    }

    fn ask_prefix(&self, block: &FilterBlock<SharedBytes>, bytes: &Bytes, target: fn(Bytes) -> PrefixTarget) -> Answer {
        let Some(prefixes) = &self.0.config.prefixes else { return Answer::Unfiltered };
        match prefixes.of(bytes, target) {
            Ok(Some(prefix)) => block.may_contain_prefix(prefixes.extractor.name(), block.hasher().key(prefix)).into(),
            Ok(None) | Err(_) => Answer::Unfiltered,
        }
    }
}

impl Filter for Opened {
    fn might_match(&self, query: &FilterQuery) -> bool {
        if !self.is_for(&query.target) {
            return true;
        }
        let answer = self.ask(&query.target);
        self.0.config.counters.count_answer(answer);
        answer.must_read()
    }

    fn encode(&self, writer: &mut dyn BufMut) {
        writer.put_slice(self.0.bytes.as_ref());
    }

    fn size(&self) -> usize {
        self.0.bytes.as_ref().len()
    }

    /// Returns a clone that shares the bytes. They already have the right length.
    fn clamp_allocated_size(&self) -> Arc<dyn Filter> {
        Arc::new(self.clone())
    }
}
