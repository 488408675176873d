//! Builds the filters of other crates. A filter gets hashes if its interface takes hashes, and keys
//! otherwise. One fastbloom is also measured with its own hash.
//!
//! Some filters take integers and hash them. These filters get the hash of a key as the integer,
//! and their times include their own hash function. The size of a filter is its memory on the heap.
//! For some crates, the size includes a descriptor of a few words.

use std::hash::{BuildHasherDefault, Hasher};

use bloomfilter::Bloom;
use cuckoofilter::CuckooFilter;
use dsi_progress_logger::no_logging;
use fastbloom::BloomFilter;
use filterblock_testkit::measure::keys::{Key, mix};
use lsm_tree::table::filter::standard_bloom::{Builder as LsmBuilder, StandardBloomFilterReader};
use mem_dbg::{MemSize, SizeFlags};
use pleat::filter::{Ribbon, StdRibbon};
use ribbon_filter::{Mode, Params, RibbonBuilder, RibbonFilter};
use sux::dict::VFilter;
use xorf::{BinaryFuse8, BinaryFuse16, Filter as _, Xor8};

use crate::contender::{BATCH, Contender, Input, Probe};

/// The false-positive rate of eight columns, or of a fingerprint of eight bits.
const EIGHT_BITS: f64 = 1.0 / 256.0;

/// Returns the contenders of other crates, and the empty loop.
pub fn all() -> Vec<Contender> {
    #[allow(unused_mut, reason = "a feature adds one")]
    let mut found = vec![
        Contender::new("loop", "none", |_| Ok(Loop)),
        Contender::new("fastbloom:10", "fastbloom", |input| Ok(fastbloom_of(input, 10.0, 7))),
        Contender::new("fastbloom:fpr=0.01", "fastbloom", |input| {
            Ok(filled(BloomFilter::with_false_pos(0.01).expected_items(input.hashes.len()), input))
        }),
        Contender::new("fastbloom:fpr=0.01 own hash", "fastbloom", |input| {
            let mut filter = BloomFilter::with_false_pos(0.01).seed(&1).expected_items(input.keys.len());
            filter.insert_all(input.keys);
            Ok(OwnHash(filter))
        }),
        Contender::new("lsm-tree:10", "lsm-tree", lsm_tree_of),
        Contender::new("sbbf-rs-safe:10", "sbbf-rs-safe", |input| Ok(split_block_of(input, 10))),
        Contender::new("sbbf-rs-safe:11", "sbbf-rs-safe", |input| Ok(split_block_of(input, 11))),
        Contender::new("xorf BinaryFuse8", "xorf", |input| {
            BinaryFuse8::try_from_iterator(input.hashes.iter().copied()).map_err(str::to_owned)
        }),
        Contender::new("xorf BinaryFuse16", "xorf", |input| {
            BinaryFuse16::try_from_iterator(input.hashes.iter().copied()).map_err(str::to_owned)
        }),
        Contender::new("xorf Xor8", "xorf", |input| Ok(Xor8::from_iterator(input.hashes.iter().copied()))),
        Contender::new("bloomfilter:fpr=0.01", "bloomfilter", |input| {
            // Each of the two hashes of a key takes half of the seed. Equal halves would give equal
            // hashes.
            let seed = std::array::from_fn(|i| u8::try_from(i).unwrap_or(0));
            let mut filter = Bloom::new_for_fp_rate_with_seed(input.keys.len(), 0.01, &seed)?;
            input.keys.iter().for_each(|key| filter.set(key));
            Ok(filter)
        }),
        Contender::new("qfilter:fpr=0.01", "qfilter", |input| quotient_of(input, 0.01)),
        Contender::new("qfilter:fpr=0.0039", "qfilter", |input| quotient_of(input, EIGHT_BITS)),
        Contender::new("cuckoofilter", "cuckoofilter", cuckoo_of),
        Contender::new("pleat Ribbon<7>", "pleat", |input| Ok(Ribbon::<7>::from_keys_pleated(input.hashes))),
        Contender::new("pleat Ribbon<8>", "pleat", |input| Ok(Ribbon::<8>::from_keys_pleated(input.hashes))),
        Contender::new("pleat StdRibbon<8>", "pleat", |input| {
            StdRibbon::<8>::from_keys_pleated(input.hashes).map_err(|error| format!("{error:?}"))
        }),
        Contender::new("ribbon-filter w=128 r=7", "ribbon-filter", ribbon_of),
        Contender::new("sux VFilter 8 bits", "sux", |input| {
            <VFilter<u64, Box<[u8]>>>::try_par_new(input.hashes, no_logging![]).map_err(|error| error.to_string())
        }),
    ];
    #[cfg(feature = "parquet")]
    found.push(Contender::new("parquet Sbbf:fpr=0.01", "parquet", parquet_of));
    found
}

/// Returns a fastbloom with `bits` bits per key and `probes` probes.
pub fn fastbloom(name: String, bits: f64, probes: u32) -> Contender {
    Contender::new(name, "fastbloom", move |input| Ok(fastbloom_of(input, bits, probes)))
}

fn fastbloom_of(input: Input<'_>, bits: f64, probes: u32) -> BloomFilter {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and it fits in memory")]
    let bits = (bits * input.hashes.len() as f64).round() as usize;
    filled(BloomFilter::with_num_bits(bits).seed(&1).hashes(probes), input)
}

fn filled(mut filter: BloomFilter, input: Input<'_>) -> BloomFilter {
    for &hash in input.hashes {
        filter.insert_hash(hash);
    }
    filter
}

/// A query without a filter. Its time is that of the loop, and of hashing the key if queries get
/// keys.
struct Loop;

impl Probe for Loop {
    #[inline(always)]
    fn hash(&self, hash: u64) -> bool {
        hash >> 63 == 1
    }

    fn bits(&self) -> (f64, f64) {
        (0.0, 0.0)
    }
}

fn heap(bytes: usize) -> (f64, f64) {
    let bits = bytes as f64 * 8.0;
    (bits, bits)
}

/// Implements [`Probe`] for a filter that takes hashes. The arguments are the type, how to ask a
/// filter for a hash, and its size in bytes.
macro_rules! by_hash {
    ($filter:ty, |$asked:ident, $hash:ident| $ask:expr, |$sized:ident| $bytes:expr) => {
        impl Probe for $filter {
            #[inline(always)]
            fn hash(&self, $hash: u64) -> bool {
                let $asked = self;
                $ask
            }

            fn bits(&self) -> (f64, f64) {
                let $sized = self;
                heap($bytes)
            }
        }
    };
}

/// Implements [`Probe`] for a filter that takes only keys, as [`by_hash`] does for hashes.
macro_rules! by_key {
    ($filter:ty, |$asked:ident, $key:ident| $ask:expr, |$sized:ident| $bytes:expr) => {
        impl Probe for $filter {
            const TAKES_HASHES: bool = false;

            fn hash(&self, _: u64) -> bool {
                true
            }

            #[inline(always)]
            fn key(&self, $key: &Key) -> bool {
                let $asked = self;
                $ask
            }

            fn bits(&self) -> (f64, f64) {
                let $sized = self;
                heap($bytes)
            }
        }
    };
}

by_hash!(BloomFilter, |filter, hash| filter.contains_hash(hash), |filter| filter.num_bits() / 8);

/// A fastbloom with its default hash, SipHash.
struct OwnHash(BloomFilter);

by_key!(OwnHash, |filter, key| filter.0.contains(key), |filter| filter.0.num_bits() / 8);

by_hash!(sbbf_rs_safe::Filter, |filter, hash| filter.contains_hash(hash), |filter| filter.as_bytes().len());

fn split_block_of(input: Input<'_>, bits_per_key: usize) -> sbbf_rs_safe::Filter {
    let mut filter = sbbf_rs_safe::Filter::new(bits_per_key, input.hashes.len());
    for &hash in input.hashes {
        filter.insert_hash(hash);
    }
    filter
}

/// A filter of lsm-tree. The reader borrows its bytes, so the benchmark leaks them. An lsm-tree
/// store parses the header at each query, but the benchmark parses it once.
struct LsmTree {
    reader: StandardBloomFilterReader<'static>,
    len_bytes: usize,
}

by_hash!(LsmTree, |filter, hash| filter.reader.contains_hash(hash), |filter| filter.len_bytes);

fn lsm_tree_of(input: Input<'_>) -> Result<LsmTree, String> {
    let mut builder = LsmBuilder::with_bpk(input.hashes.len(), 10.0);
    for &hash in input.hashes {
        builder.set_with_hash(hash);
    }
    let bytes = builder.build().leak();
    let len_bytes = bytes.len();
    let reader = StandardBloomFilterReader::new(bytes).map_err(|error| error.to_string())?;
    Ok(LsmTree { reader, len_bytes })
}

by_hash!(BinaryFuse8, |filter, hash| filter.contains(&hash), |filter| filter.fingerprints.len());
by_hash!(BinaryFuse16, |filter, hash| filter.contains(&hash), |filter| filter.fingerprints.len() * 2);
by_hash!(Xor8, |filter, hash| filter.contains(&hash), |filter| filter.fingerprints.len());

// The filter hashes each key twice with SipHash. Its interface takes no hashes.
by_key!(Bloom<Key>, |filter, key| filter.check(key), |filter| filter.as_slice().len());

by_hash!(qfilter::Filter, |filter, hash| filter.contains_fingerprint(hash), |filter| filter.memory_usage());

fn quotient_of(input: Input<'_>, rate: f64) -> Result<qfilter::Filter, String> {
    let mut filter = qfilter::Filter::new(input.hashes.len() as u64, rate).map_err(|error| error.to_string())?;
    for &hash in input.hashes {
        filter.insert_fingerprint(false, hash).map_err(|error| error.to_string())?;
    }
    Ok(filter)
}

/// A hasher that returns an integer unchanged, because the integer is a hash already. The hasher
/// mixes the bytes of a fingerprint, because cuckoofilter hashes fingerprints too.
#[derive(Default)]
struct Ready(u64);

impl Hasher for Ready {
    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, &byte| mix(sum ^ u64::from(byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

by_hash!(CuckooFilter<Ready>, |filter, hash| filter.contains(&hash), |filter| filter.memory_usage());

/// Builds a filter with capacity for the keys, or with twice this capacity if the keys do not fit.
fn cuckoo_of(input: Input<'_>) -> Result<CuckooFilter<Ready>, String> {
    let fits = |&capacity: &usize| {
        let mut filter = CuckooFilter::<Ready>::with_capacity(capacity);
        input.hashes.iter().all(|hash| filter.add(hash).is_ok()).then_some(filter)
    };
    let n = input.hashes.len();
    [n, n * 2].iter().find_map(fits).ok_or_else(|| "the keys do not fit, even with twice the capacity".to_owned())
}

/// Implements [`Probe`] for a ribbon of pleat.
macro_rules! pleat {
    ($ribbon:ident) => {
        impl<const R: usize> Probe for $ribbon<R> {
            const BATCHED: bool = true;

            #[inline(always)]
            fn hash(&self, hash: u64) -> bool {
                self.contains(hash)
            }

            #[inline(always)]
            fn batch(&self, hashes: &[u64; BATCH], answers: &mut [bool; BATCH]) {
                self.contains_batch(hashes, answers);
            }

            fn bits(&self) -> (f64, f64) {
                heap(self.size_bytes())
            }
        }
    };
}

pleat!(Ribbon);
pleat!(StdRibbon);

type Identity = BuildHasherDefault<Ready>;

// The size has whole words of 64 bits for each row, even for seven columns.
by_hash!(RibbonFilter<Identity>, |filter, hash| filter.contains(&hash), |filter| {
    filter.params().m * filter.params().fingerprint_words() * 8
});

fn ribbon_of(input: Input<'_>) -> Result<RibbonFilter<Identity>, String> {
    let params = Params::from_expected_items(input.hashes.len(), 0.05, 128, 7, Mode::Standard);
    let params = params.and_then(|params| params.with_retry_policy(4, 8)).map_err(|error| error.to_string())?;
    let builder = RibbonBuilder::new(params, Identity::default()).map_err(|error| error.to_string())?;
    builder.build(input.hashes).map_err(|error| error.to_string())
}

// The filter hashes every integer with XXH3-128, even an integer that is a hash.
by_hash!(VFilter<u64, Box<[u8]>>, |filter, hash| filter.contains(hash), |filter| {
    filter.mem_size(SizeFlags::default()) - size_of::<Self>()
});

#[cfg(feature = "parquet")]
use parquet::bloom_filter::Sbbf;

// The filter hashes each key with XXH64. Its interface takes no hashes.
#[cfg(feature = "parquet")]
by_key!(Sbbf, |filter, key| filter.check(&key[..]), |filter| filter.num_blocks() * 32);

#[cfg(feature = "parquet")]
fn parquet_of(input: Input<'_>) -> Result<Sbbf, String> {
    let mut filter = Sbbf::new_with_ndv_fpp(input.keys.len() as u64, 0.01).map_err(|error| error.to_string())?;
    input.keys.iter().for_each(|key| filter.insert(&key[..]));
    Ok(filter)
}
