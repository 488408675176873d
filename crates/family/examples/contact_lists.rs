//! Two people estimate how many contacts they share before either of them discloses a name. One of
//! them sends filters of her list. Each filter also matches about half of all other addresses.
//!
//! ```text
//! cargo run --release -p filterblock-family --example contact_lists -- addresses.txt
//! ```
//! Each line of the file is an address. Of ten addresses, four are only hers, four are only his,
//! and two are in both lists. A match with one filter proves little about an address. Five filters
//! under different seeds reduce the false positives to 3.1 %.

use std::collections::BTreeSet;
use std::process::ExitCode;

use filterblock::HashSeed;
use filterblock_family::{Bloom, Noisy};
use filterblock_testkit::example::{self, Arguments, Checks, Failure};

const FILTERS: u32 = 5;
const NOISE: f64 = 0.5;

fn main() -> ExitCode {
    example::main("Finds common contacts with filters that also match half of all strangers.", 50_000, run)
}

/// Runs the example, for `main` and for its test.
pub fn run(arguments: &Arguments, checks: &mut Checks) -> Result<(), Failure> {
    let addresses: BTreeSet<Vec<u8>> =
        arguments.keys(|i| format!("person.{i}@city-{}.example", i % 101))?.into_iter().collect();
    let list = |of: &[usize]| -> Vec<&[u8]> {
        addresses.iter().enumerate().filter(|(i, _)| of.contains(&(i % 10))).map(|(_, key)| key.as_slice()).collect()
    };
    let (hers, his, common) = (list(&[0, 1, 2, 3, 4, 5]), list(&[4, 5, 6, 7, 8, 9]), list(&[4, 5]));
    let strangers = (his.len() - common.len()) as u64;
    println!("{} and {} contacts, {} in common", hers.len(), his.len(), common.len());

    let sent = Noisy::new(&hers, FILTERS, HashSeed(1))?;
    for shown in 1..=FILTERS as usize {
        // He tests his own contacts against the filters he has so far.
        let found = his.iter().filter(|address| sent.may_contain(address, shown)).count() as u64;
        let doubt = sent.expected_fpr(shown);
        // The FPR gives the expected number of strangers among the matches, but not their names.
        let guess = (found as f64 - his.len() as f64 * doubt) / (1.0 - doubt);
        println!("  {shown} sent: {found} of his contacts match all filters, so about {guess:.0} are common");
        checks.share("strangers among the matches", found - common.len() as u64, strangers, NOISE.powf(shown as f64));
    }
    let all_found = common.iter().all(|address| sent.may_contain(address, FILTERS as usize));
    checks.holds("every common contact is among the matches", all_found);
    let plain: usize = hers.iter().map(|address| address.len()).sum();
    let bits: u64 = sent.filters().iter().map(Bloom::num_bits).sum();
    println!("  sent: {} bytes of filters, {plain} bytes of plain addresses", bits / 8);
    Ok(())
}
