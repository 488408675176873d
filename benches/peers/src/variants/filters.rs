//! Makes the filters that `peers variants` fills: filters of filterblock, and filters of other
//! crates with their own hash.

use std::collections::hash_map::DefaultHasher;

use cuckoofilter::CuckooFilter;
use filterblock::HashSeed;
use filterblock_family::{
    Bloom, CounterBits, Counting, DLeft, DynamicCounting, FileFilter, Growth, Membership, Partitioned, Removable,
    Scalable, Spectral, SpectralMode, Stable,
};
use filterblock_testkit::measure::keys::Key;
use growable_bloom_filter::GrowableBloom;
use tempfile::TempDir;

use super::{Kind, Variant};

const RATE: f64 = 0.01;
const SEED: HashSeed = HashSeed(7);
const OURS: &str = "filterblock";
/// The first capacity, in keys, of the growing filters whose names end in "from 1,000".
const FIRST: usize = 1_000;
/// The maximum load of a cuckoo filter. At higher loads, its buckets of four entries often have no
/// room for a key.
const MOST_CUCKOO_LOAD: f64 = 0.96;

/// Returns all kinds. A filter is made for `keys` keys, or for [`FIRST`] keys if its name ends in
/// "from 1,000". Each kind gets the FPR 1 %, except the cuckoo filter, which takes no FPR.
pub(super) fn all(keys: usize) -> Result<Vec<Kind>, String> {
    let n = keys as u64;
    // A stable filter gets as many bits as a Bloom filter.
    let stable_cells = Bloom::with_fpr(n, RATE, SEED).map_err(text)?.num_bits();
    let stable = move || Stable::with_fpr(stable_cells, 1, RATE, SEED).map_err(text);
    let growing = |first: u64| move || Scalable::with_fpr(first, RATE, Growth::default(), SEED).map_err(text);
    Ok(vec![
        Kind::new("Bloom", OURS, move || Bloom::with_fpr(n, RATE, SEED).map_err(text)),
        Kind::new("Partitioned", OURS, move || Partitioned::with_fpr(n, RATE, SEED).map_err(text)),
        Kind::new("Counting, 4 bits", OURS, move || Counting::with_fpr(n, RATE, CounterBits::Four, SEED).map_err(text)),
        Kind::new("DLeft", OURS, move || DLeft::with_fpr(n, RATE, SEED).map_err(text)),
        Kind::new("Spectral", OURS, move || {
            Spectral::with_fpr(n, RATE, SpectralMode::MinimumSelection, SEED).map_err(text)
        }),
        Kind::new("DynamicCounting", OURS, move || DynamicCounting::with_fpr(n, RATE, 1, SEED).map_err(text)),
        Kind::new("Scalable, from 1,000", OURS, growing(FIRST as u64)),
        Kind::new("Scalable, number known", OURS, growing(n)),
        Kind { forgets: true, ..Kind::new("Stable", OURS, stable) },
        Kind::new("FileFilter", OURS, move || InFile::create(n)),
        Kind::new("bloomfilter", "bloomfilter", move || {
            // Each of the two hashes of a key takes half of the seed. Equal halves would give equal
            // hashes.
            let seed = std::array::from_fn(|i| u8::try_from(i).unwrap_or(0));
            bloomfilter::Bloom::new_for_fp_rate_with_seed(keys, RATE, &seed).map_err(text)
        }),
        Kind::new("growable, from 1,000", "growable-bloom-filter", move || Ok(GrowableBloom::new(RATE, FIRST))),
        Kind::new("growable, number known", "growable-bloom-filter", move || Ok(GrowableBloom::new(RATE, keys))),
        Kind::new("cuckoofilter", "cuckoofilter", move || Ok(cuckoo(keys))),
    ])
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Implements [`Variant`] for a filter of filterblock. The arguments are the type, how to add a
/// key, how to get the size in bytes, and `removes` if keys can be removed.
macro_rules! ours {
    ($filter:ty, $add:expr, $bytes:expr $(, $removes:ident)?) => {
        impl Variant for $filter {
            $(ours!(@$removes);)?

            fn add(&mut self, key: &Key) -> bool {
                let add: fn(&mut Self, &Key) -> bool = $add;
                add(self, key)
            }

            fn has(&self, key: &Key) -> bool {
                self.may_contain(key)
            }

            fn bytes(&self) -> u64 {
                let bytes: fn(&Self) -> u64 = $bytes;
                bytes(self)
            }
        }
    };
    (@removes) => {
        const REMOVES: bool = true;

        fn take(&mut self, key: &Key) -> bool {
            self.remove(key).is_ok()
        }
    };
}

ours!(Bloom, |filter, key| (filter.insert(key), true).1, |filter| filter.num_bits() / 8);
ours!(Partitioned, |filter, key| (filter.insert(key), true).1, |filter| filter.num_bits().div_ceil(8));
ours!(Counting, |filter, key| (filter.insert(key), true).1, Counting::len_bytes, removes);
ours!(DLeft, |filter, key| filter.insert(key).is_ok(), DLeft::len_bytes, removes);
// A counter of `Spectral` has 32 bits.
ours!(Spectral, |filter, key| filter.insert(key).is_ok(), |filter| filter.num_counters() * 4, removes);
ours!(DynamicCounting, |filter, key| filter.insert(key).is_ok(), DynamicCounting::len_bytes, removes);
ours!(Scalable, |filter, key| filter.insert(key).is_ok(), |filter| filter.num_bits().div_ceil(8));
ours!(Stable, |filter, key| (filter.insert(key), true).1, |filter| {
    (filter.shape().cells * u64::from(filter.shape().cell_bits)).div_ceil(8)
});

/// A filter in a temporary file.
struct InFile {
    filter: FileFilter,
    _dir: TempDir,
}

impl InFile {
    fn create(keys: u64) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(text)?;
        let filter = FileFilter::create(dir.path().join("filter"), keys, RATE, SEED).map_err(text)?;
        Ok(Self { filter, _dir: dir })
    }
}

impl Variant for InFile {
    fn add(&mut self, key: &Key) -> bool {
        self.filter.insert(key).is_ok()
    }

    fn has(&self, key: &Key) -> bool {
        self.filter.may_contain(key)
    }

    fn sync(&mut self) -> Result<(), String> {
        self.filter.sync().map_err(text)
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(self.filter.path()).map_or(0, |file| file.len())
    }
}

impl Variant for bloomfilter::Bloom<Key> {
    fn add(&mut self, key: &Key) -> bool {
        self.set(key);
        true
    }

    fn has(&self, key: &Key) -> bool {
        self.check(key)
    }

    fn bytes(&self) -> u64 {
        self.len() / 8
    }
}

impl Variant for GrowableBloom {
    fn add(&mut self, key: &Key) -> bool {
        self.insert(key);
        true
    }

    fn has(&self, key: &Key) -> bool {
        self.contains(key)
    }

    /// Returns the length of the serialised filter, because the crate does not report its memory.
    /// The serialised filter has the same bits, and a few more bytes for each stage.
    fn bytes(&self) -> u64 {
        let mut written = Vec::new();
        ciborium::into_writer(self, &mut written).map_or(0, |()| written.len() as u64)
    }
}

/// Returns an empty cuckoo filter for the keys. Its capacity is the next power of two, or twice as
/// much if the load would exceed [`MOST_CUCKOO_LOAD`].
fn cuckoo(keys: usize) -> CuckooFilter<DefaultHasher> {
    let full = keys as f64 / keys.next_power_of_two() as f64 > MOST_CUCKOO_LOAD;
    CuckooFilter::with_capacity(if full { keys * 2 } else { keys })
}

impl Variant for CuckooFilter<DefaultHasher> {
    const REMOVES: bool = true;

    fn add(&mut self, key: &Key) -> bool {
        CuckooFilter::add(self, key).is_ok()
    }

    fn has(&self, key: &Key) -> bool {
        self.contains(key)
    }

    fn take(&mut self, key: &Key) -> bool {
        self.delete(key)
    }

    fn bytes(&self) -> u64 {
        self.memory_usage() as u64
    }
}
