//! Uses a database of rusty-leveldb with filters of filterblock.
//!
//! ```text
//! cargo run --release -p filterblock-leveldb --example database -- FOLDER
//! ```

use std::path::PathBuf;

use filterblock::HashSeed;
use filterblock_leveldb::Policy;
use rusty_leveldb::{DB, Options};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The seed of the database. Never change it: filters of another seed answer "maybe". If attackers
/// can choose keys, pass `KeyHasher::sip13(seed, &secret)` to the policy instead.
const SEED: HashSeed = HashSeed(0x5eed);

fn main() -> Result<()> {
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("usage: database FOLDER")?.into();
    let policy = Policy::new("bloom:10".parse()?, SEED)?;
    let counters = policy.counters();

    let options = Options { filter_policy: policy.for_rusty_leveldb(), ..Options::default() };
    let mut db = DB::open(folder, options)?;
    for i in 0..100_000 {
        db.put(format!("key-{i:06}").as_bytes(), &[7; 100])?;
    }
    assert_eq!(db.get(b"key-000123").as_deref(), Some(&[7; 100][..]));
    assert_eq!(db.get(b"key-000123-absent"), None);
    db.close()?;

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
