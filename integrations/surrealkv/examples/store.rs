//! Uses a SurrealKV store with filters of filterblock.
//!
//! ```text
//! cargo run --release -p filterblock-surrealkv --example store -- FOLDER
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use filterblock::HashSeed;
use filterblock_surrealkv::Policy;
use surrealkv::{CompactRangeOptions, Mode, TreeBuilder};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The seed of the store. Never change it: filters of another seed answer "maybe". If attackers can
/// choose keys, pass `KeyHasher::sip13(seed, &secret)` to the policy instead.
const SEED: HashSeed = HashSeed(0x5eed);

fn main() -> Result<()> {
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("usage: store FOLDER")?.into();
    let policy = Policy::new("bumped-ribbon:7".parse()?, SEED)?;
    let counters = policy.counters();

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let _inside = runtime.enter();
    let tree = TreeBuilder::new().with_path(folder).with_filter_policy(Some(Arc::new(policy))).build()?;
    let mut writes = tree.begin_with_mode(Mode::WriteOnly)?;
    for i in 0..100_000 {
        writes.set(format!("key-{i:06}").as_bytes(), b"value")?;
    }
    runtime.block_on(writes.commit())?;
    tree.compact_range(None, None, &CompactRangeOptions { target_level: Some(0), ..CompactRangeOptions::default() })?;

    let reads = tree.begin_with_mode(Mode::ReadOnly)?;
    assert_eq!(reads.get(b"key-000123".as_slice())?.as_deref(), Some(&b"value"[..]));
    assert_eq!(reads.get(b"key-000123-absent".as_slice())?, None);
    drop(reads);
    runtime.block_on(tree.close())?;

    let counts = counters.counts();
    println!(
        "{} filters of {} keys take {:.2} bits per key; {} queries found no usable filter",
        counts.built_filters,
        counts.built_keys,
        counts.built_bytes as f64 * 8.0 / counts.built_keys as f64,
        counts.unfiltered()
    );
    Ok(())
}
