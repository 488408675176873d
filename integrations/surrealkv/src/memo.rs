//! The trailers of the filters that a thread asked last.
//!
//! SurrealKV passes raw bytes to every query. Reading a trailer takes 150 to 250 ns, more than the
//! query. Comparing a trailer with one that was read before takes 5 ns and proves the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use filterblock::{Error, Expected, KeyHash, Result, VerifiedFilter, VerifiedTrailer, layout};

/// The maximum number of trailers that a thread keeps. A filter partition of 16 KiB has about
/// 18,000 keys, so 1,024 trailers cover partitions with more than 18 million keys.
const MOST: usize = 1024;

/// Maps the checksum of a trailer to the trailer and to the number of the policy that accepted it. A
/// policy must not use a trailer that another one accepted.
type Trailers = HashMap<u32, (u64, VerifiedTrailer), BuildHasherDefault<Spread>>;

thread_local! {
    /// The trailers of a thread. Each thread has its own, so that queries need no lock.
    static TRAILERS: RefCell<Trailers> = RefCell::default();
}

/// Hashes a checksum: a CRC-32 needs only to be spread over 64 bits.
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

/// Asks the filter in `bytes`. `policy` is the number of the policy with the expectations.
///
/// # Errors
/// Returns the errors of [`VerifiedFilter::open`].
#[inline]
pub(crate) fn ask(bytes: &[u8], policy: u64, expected: &Expected<'_>, hash: KeyHash) -> Result<bool> {
    let Some(checksum) = layout::checksum_of(bytes) else {
        return VerifiedFilter::open(bytes, expected).map(|filter| filter.may_contain_hash(hash));
    };
    let known = TRAILERS.try_with(|trailers| {
        let trailers = trailers.borrow();
        let (owner, trailer) = trailers.get(&checksum)?;
        let filter = trailer.filter_in(bytes).filter(|_| *owner == policy)?;
        Some(filter.may_contain_hash(hash))
    });
    match known {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) | Err(_) => ask_unknown(bytes, policy, checksum, expected, hash),
    }
}

/// Asks a filter whose trailer the thread does not have, and keeps the trailer.
#[cold]
fn ask_unknown(bytes: &[u8], policy: u64, checksum: u32, expected: &Expected<'_>, hash: KeyHash) -> Result<bool> {
    let trailer = VerifiedTrailer::read(bytes, expected)?;
    let filter = trailer.filter_in(bytes).ok_or(Error::TooLarge { what: "a trailer" })?;
    let answer = filter.may_contain_hash(hash);
    // A thread that ends has no trailers any more.
    let _ = TRAILERS.try_with(|trailers| {
        let mut trailers = trailers.borrow_mut();
        if trailers.len() >= MOST {
            trailers.clear();
        }
        trailers.insert(checksum, (policy, trailer));
    });
    Ok(answer)
}
