//! Builds RocksDB's filters with the crate `filterblock-foreign`. The bytes equal RocksDB's
//! bit for bit. The code is filterblock's, so RocksDB itself may have other times.

use filterblock_foreign::rocksdb::{RocksDbFilter, RocksDbFilterBuilder, RocksDbFilterKind, RocksDbFilterOptions};
use filterblock_testkit::measure::keys::Key;

use crate::contender::{Contender, Input, Probe};

/// The crate name of these filters. It is not `RocksDB`, because the code is filterblock's.
pub const READER: &str = "filterblock reader";
/// The size of a filter's trailer in bytes. It does not depend on the number of keys.
const TRAILER_BYTES: usize = 5;

/// Returns RocksDB's Bloom filter and its ribbon, both for a policy of ten bits per key. The Bloom
/// filter takes ten bits per key. The ribbon has about the same FPR, and takes about seven.
pub fn all() -> Vec<Contender> {
    vec![
        Contender::new("RocksDB FastLocalBloom:10", READER, |input| build(RocksDbFilterKind::FastLocalBloom, input)),
        Contender::new("RocksDB Ribbon:10", READER, |input| build(RocksDbFilterKind::Ribbon128, input)),
    ]
}

struct Filter {
    filter: RocksDbFilter<'static>,
    len: usize,
}

fn build(kind: RocksDbFilterKind, input: Input<'_>) -> Result<Filter, String> {
    let mut builder = RocksDbFilterBuilder::new(RocksDbFilterOptions { kind, ..RocksDbFilterOptions::default() });
    input.keys.iter().for_each(|key| builder.add(key));
    // The bytes live to the end of the process, because the opened filter borrows them.
    let bytes: &'static [u8] = builder.finish().leak();
    Ok(Filter { filter: RocksDbFilter::new(bytes), len: bytes.len() })
}

impl Probe for Filter {
    // RocksDB hashes keys with its own version of XXH3.
    const TAKES_HASHES: bool = false;

    fn hash(&self, _hash: u64) -> bool {
        true
    }

    #[inline(always)]
    fn key(&self, key: &Key) -> bool {
        self.filter.may_contain(key)
    }

    fn bits(&self) -> (f64, f64) {
        let bits = |bytes: usize| bytes as f64 * 8.0;
        (bits(self.len), bits(self.len.saturating_sub(TRAILER_BYTES)))
    }
}
