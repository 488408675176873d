//! Routers keep a digest of each minute's packets in a Bloom filter. A packet can then be traced to
//! its entry into the network, and no router stores packet content (Snoeren et al., "Hash-based IP
//! traceback", 2001).
//!
//! ```text
//! cargo run --release -p filterblock-family --example ip_traceback
//! ```
//! With three probes and five bits per packet, 9.2 % of the routers that never saw a packet still
//! remember it. The example reads no file.

use std::collections::{BTreeSet, HashMap};
use std::process::ExitCode;

use filterblock::HashSeed;
use filterblock_family::{Bloom, Membership};
use filterblock_testkit::Random;
use filterblock_testkit::example::{self, Arguments, Checks, Failure};

const ROUTERS: usize = 200;
const NEIGHBOURS: usize = 4;
const HOPS: usize = 8;
const PROBES: u32 = 3;
const BITS_PER_PACKET: u64 = 5;

fn main() -> ExitCode {
    example::main("Traces packets back through routers that keep only digests.", 100_000, run)
}

/// Returns the neighbours of each router. The routers form a ring with random chords.
fn network() -> Vec<Vec<usize>> {
    let mut random = Random(3);
    let mut links = vec![BTreeSet::new(); ROUTERS];
    for router in 0..ROUTERS {
        let chords = (1..NEIGHBOURS - 1).map(|_| random.index(ROUTERS)).collect::<Vec<_>>();
        for other in chords.into_iter().chain([(router + 1) % ROUTERS]).filter(|&other| other != router) {
            if let Ok([here, there]) = links.get_disjoint_mut([router, other]) {
                here.insert(other);
                there.insert(router);
            }
        }
    }
    links.into_iter().map(|links| links.into_iter().collect()).collect()
}

/// Returns 28 pseudo-random bytes for a packet number. They stand for the digest input of the
/// packet: the invariant header fields and the first eight bytes of content.
fn digest_input(packet: usize) -> [u8; 28] {
    let mut bytes = [0; 28];
    let mut random = Random(packet as u64);
    bytes.fill_with(|| random.next().to_le_bytes()[0]);
    bytes
}

/// Runs the example, for `main` and for its test.
pub fn run(arguments: &Arguments, checks: &mut Checks) -> Result<(), Failure> {
    let links = network();
    let mut random = Random(5);
    let paths: Vec<Vec<usize>> = (0..arguments.count)
        .map(|_| {
            let mut path = vec![random.index(ROUTERS)];
            for _ in 1..HOPS {
                let here = path.last().and_then(|&router| links.get(router)).ok_or("a path has no last router")?;
                path.push(*here.get(random.index(here.len())).ok_or("a router has no neighbour")?);
            }
            Ok(path)
        })
        .collect::<Result<_, Failure>>()?;
    let mut passed: HashMap<usize, BTreeSet<usize>> = HashMap::new();
    for (packet, path) in paths.iter().enumerate() {
        path.iter().for_each(|&router| _ = passed.entry(router).or_default().insert(packet));
    }
    let digests = passed
        .iter()
        .map(|(&router, packets)| {
            let digest = Bloom::with_shape(packets.len() as u64 * BITS_PER_PACKET, PROBES, HashSeed(router as u64))?;
            packets.iter().for_each(|&packet| _ = digest.insert(&digest_input(packet)));
            Ok((router, digest))
        })
        .collect::<Result<HashMap<_, _>, Failure>>()?;

    // Search back from the victim (the last router of the path) through all routers that remember
    // the packet.
    let (mut asked_in_vain, mut remembered_wrongly, mut lost, mut suspects) = (0, 0, 0u64, 0u64);
    let traced = paths.len().min(5_000);
    for (packet, path) in paths.iter().enumerate().take(traced) {
        let victim = *path.last().ok_or("a path is empty")?;
        let (mut front, mut asked) = (vec![victim], BTreeSet::from([victim]));
        let mut found = BTreeSet::from([victim]);
        while let Some(router) = front.pop() {
            for &next in links.get(router).into_iter().flatten() {
                let Some(digest) = digests.get(&next).filter(|_| asked.insert(next)) else { continue };
                let remembers = digest.may_contain(&digest_input(packet));
                if !path.contains(&next) {
                    asked_in_vain += 1;
                    remembered_wrongly += u64::from(remembers);
                }
                if remembers {
                    found.insert(next);
                    front.push(next);
                }
            }
        }
        lost += u64::from(!path.iter().all(|router| found.contains(router)));
        suspects += found.len() as u64;
    }
    let kept: u64 = digests.values().map(|digest| digest.num_bits() / 8).sum();
    println!("{} packets over {HOPS} hops among {ROUTERS} routers, {traced} traced", paths.len());
    println!(
        "  memory: digests {:.0} KiB; the 28 bytes of each packet {:.0} KiB",
        kept as f64 / 1024.0,
        (paths.len() * HOPS * 28) as f64 / 1024.0
    );
    println!("  routers under suspicion: {:.2} per packet", suspects as f64 / traced as f64);
    let rate = (1.0 - (-f64::from(PROBES) / BITS_PER_PACKET as f64).exp()).powi(PROBES.cast_signed());
    checks.share("routers that remember a packet they never saw", remembered_wrongly, asked_in_vain, rate);
    checks.holds("every router of every path is found", lost == 0);
    Ok(())
}
