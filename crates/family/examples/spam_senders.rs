//! A mail server keeps the addresses of spammers in a Bloom filter with nine bits per address. A
//! small exact whitelist holds the known good senders for which the filter answers "maybe".
//!
//! ```text
//! cargo run --release -p filterblock-family --example spam_senders -- addresses.txt
//! ```
//! Each line of the file is an address. Half of the addresses are spammers, a quarter are known
//! good senders, and a quarter are strangers.

use std::collections::HashSet;
use std::process::ExitCode;

use filterblock::HashSeed;
use filterblock_family::{Bloom, Membership};
use filterblock_testkit::example::{self, Arguments, Checks, Failure};

const BITS_PER_ADDRESS: u64 = 9;
const PROBES: u32 = 6;

fn main() -> ExitCode {
    example::main(
        "Keeps spam senders in a Bloom filter, with a whitelist of its known false positives.",
        1_000_000,
        run,
    )
}

/// Runs the example, for `main` and for its test.
pub fn run(arguments: &Arguments, checks: &mut Checks) -> Result<(), Failure> {
    let addresses = arguments.keys(|i| format!("user{i}@mail-{}.example", i % 7_919))?;
    let all: HashSet<&[u8]> = addresses.iter().map(Vec::as_slice).collect();
    let mut all: Vec<&[u8]> = all.into_iter().collect();
    all.sort_unstable();
    let of = |remainders: &[usize]| -> Vec<&[u8]> {
        all.iter().enumerate().filter(|(i, _)| remainders.contains(&(i % 4))).map(|(_, &address)| address).collect()
    };
    let (spammers, known, strangers) = (of(&[0, 1]), of(&[2]), of(&[3]));

    let filter = Bloom::with_shape(spammers.len() as u64 * BITS_PER_ADDRESS, PROBES, HashSeed(1))?;
    spammers.iter().for_each(|address| _ = filter.insert(address));
    let whitelist: HashSet<&[u8]> = known.iter().copied().filter(|address| filter.may_contain(address)).collect();
    let is_spam = |address: &[u8]| filter.may_contain(address) && !whitelist.contains(address);

    println!("{} spammers, {} known good senders, {} strangers", spammers.len(), known.len(), strangers.len());
    example::compare_memory(filter.num_bits(), spammers.iter().copied());
    let rate = (1.0 - (-f64::from(PROBES) / BITS_PER_ADDRESS as f64).exp()).powi(PROBES.cast_signed());
    checks.share("good senders that need the whitelist", whitelist.len() as u64, known.len() as u64, rate);
    let refused = strangers.iter().filter(|address| is_spam(address)).count() as u64;
    checks.share("strangers taken for spammers", refused, strangers.len() as u64, rate);
    checks.holds("every spammer is recognized", spammers.iter().all(|address| is_spam(address)));
    checks.holds("every known good sender is let through", !known.iter().any(|address| is_spam(address)));
    let gib = 4e9 * BITS_PER_ADDRESS as f64 / 8.0 / f64::from(1 << 30);
    println!(
        "  at {BITS_PER_ADDRESS} bits per address, four billion addresses take {gib:.2} GiB, with an FPR of {:.1} % \
         (a hash table with 15 bytes per address: 55.88 GiB)",
        rate * 100.0
    );
    Ok(())
}
