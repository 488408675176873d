//! Keeps the trailers of filters that a thread has asked, and asks filters with them.
//!
//! SurrealKV passes raw bytes to every query. Reading a trailer takes longer than the query itself.
//! If the thread has read an equal trailer before, a comparison of the bytes is enough.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use filterblock::{Answer, Expected, KeyHash, Result, VerifiedFilter, VerifiedTrailer, layout};

/// The maximum number of trailers that a thread keeps. With partitions of 16 KiB and 7 bits per
/// key, their filters together have more than 18 million keys.
const MOST: usize = 1024;

/// A map from the checksum of a trailer to the trailer and the number of the policy that accepted
/// it. A policy must not use a trailer that another policy accepted, because their hashers may
/// differ.
type Trailers = HashMap<u32, (u64, VerifiedTrailer), BuildHasherDefault<Spread>>;

thread_local! {
    /// The trailers of a thread. Each thread has its own, so that queries need no lock.
    static TRAILERS: RefCell<Trailers> = RefCell::default();
}

/// The hash function of the map. A CRC-32 is well mixed, so a multiplication spreads it over 64
/// bits.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u32(&mut self, checksum: u32) {
        self.0 = u64::from(checksum).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Asks the filter in `bytes` for a key with this hash. `policy` is the number of the policy whose
/// expectations are `expected`.
#[inline]
pub(crate) fn ask(bytes: &[u8], policy: u64, expected: &Expected<'_>, hash: KeyHash) -> Result<bool> {
    let Some(checksum) = layout::checksum_of(bytes) else {
        return VerifiedFilter::open(bytes, expected).map(|filter| filter.may_contain_hash(hash));
    };
    let known = TRAILERS.try_with(|trailers| {
        let trailers = trailers.borrow();
        let (owner, trailer) = trailers.get(&checksum)?;
        let answer = if *owner == policy { trailer.ask_hash(bytes, hash) } else { Answer::Unfiltered };
        (answer != Answer::Unfiltered).then(|| answer.must_read())
    });
    match known {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) | Err(_) => ask_unknown(bytes, policy, checksum, expected, hash),
    }
}

/// Asks a filter whose trailer the thread does not keep for this policy, and keeps the trailer.
#[cold]
fn ask_unknown(bytes: &[u8], policy: u64, checksum: u32, expected: &Expected<'_>, hash: KeyHash) -> Result<bool> {
    let trailer = VerifiedTrailer::read(bytes, expected)?;
    let answer = trailer.ask_hash(bytes, hash).must_read();
    // While a thread ends, its trailers no longer exist. Then the trailer is not kept.
    let _ = TRAILERS.try_with(|trailers| {
        let mut trailers = trailers.borrow_mut();
        if trailers.len() >= MOST {
            trailers.clear();
        }
        trailers.insert(checksum, (policy, trailer));
    });
    Ok(answer)
}
