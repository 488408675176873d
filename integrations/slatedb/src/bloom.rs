//! Reads the Bloom filters that SlateDB's own policy wrote into older SSTs.

use std::sync::Arc;

use slatedb::bytes::BufMut;
use slatedb::{BloomFilterPolicy, Filter, FilterBuilder, FilterPolicy, FilterQuery, RowEntry};

use crate::counters::Counters;

/// A Bloom filter that answers "maybe" for every key, even in SlateDB's own policy. It has two
/// bytes with the number of probes, which is 0, and one byte of bits.
const ALWAYS_MAYBE: [u8; 3] = [0, 0, 0xff];

/// A policy that reads filters like SlateDB's own policy, and gives new SSTs [`ALWAYS_MAYBE`].
///
/// SlateDB has no policies that only read. Every policy must write a filter under its name, and
/// SlateDB's own policy may read this filter later.
pub(crate) struct ReadOnlyBloom {
    bloom: Arc<BloomFilterPolicy>,
    counters: Arc<Counters>,
}

impl ReadOnlyBloom {
    pub(crate) fn new(bloom: Arc<BloomFilterPolicy>, counters: Arc<Counters>) -> Self {
        Self { bloom, counters }
    }
}

impl FilterPolicy for ReadOnlyBloom {
    fn name(&self) -> &str {
        self.bloom.name()
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(NoBloom)
    }

    /// Decodes a Bloom filter with SlateDB's own policy, and counts it. That policy panics if there
    /// are fewer than two bytes, and denies every key if there are exactly two. So filters of fewer
    /// than three bytes answer "maybe" here. Longer filters may be damaged without notice: Bloom
    /// filters of SlateDB have no checksum of their own. [`ALWAYS_MAYBE`] is not counted.
    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        if data == ALWAYS_MAYBE {
            return Arc::new(NoBloom);
        }
        if data.len() < ALWAYS_MAYBE.len() {
            self.counters.count_damaged_bloom();
            return Arc::new(NoBloom);
        }
        self.counters.count_bloom();
        self.bloom.decode(data)
    }

    fn estimate_size(&self, _: usize) -> usize {
        ALWAYS_MAYBE.len()
    }

    fn supports_prefix_queries(&self) -> bool {
        self.bloom.supports_prefix_queries()
    }
}

/// The builder of [`ALWAYS_MAYBE`], and the filter itself.
struct NoBloom;

impl FilterBuilder for NoBloom {
    fn add_entry(&mut self, _: &RowEntry) {}

    fn build(&mut self) -> Arc<dyn Filter> {
        Arc::new(Self)
    }
}

impl Filter for NoBloom {
    fn might_match(&self, _: &FilterQuery) -> bool {
        true
    }

    fn encode(&self, writer: &mut dyn BufMut) {
        writer.put_slice(&ALWAYS_MAYBE);
    }

    fn size(&self) -> usize {
        ALWAYS_MAYBE.len()
    }

    fn clamp_allocated_size(&self) -> Arc<dyn Filter> {
        Arc::new(Self)
    }
}
