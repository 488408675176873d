//! Measures the time to open redb with filters, and the time of a get of an absent key with and
//! without filters.
//!
//! Run `cargo run --release -p filterblock-redb --example open_times -- 1000000`.

use std::time::Instant;

use filterblock_redb::{Error, FilteredDb};

fn main() -> Result<(), Error> {
    let keys: u64 = std::env::args().nth(1).and_then(|keys| keys.parse().ok()).unwrap_or(1_000_000);
    let dir = tempfile::tempdir().map_err(Error::Io)?;
    let path = dir.path().join("numbers.redb");

    let db = FilteredDb::open(&path)?;
    for first in (0..keys).step_by(100_000) {
        let mut writer = db.begin_write()?;
        for number in first..keys.min(first + 100_000) {
            writer.insert(format!("{:016x}", 2 * number).as_bytes(), &[7; 100])?;
        }
        writer.commit()?;
    }
    drop(db);

    let start = Instant::now();
    let mut db = FilteredDb::open(&path)?;
    println!("open, building the filter from {keys} keys: {:?}", start.elapsed());
    db.save()?;
    drop(db);

    let start = Instant::now();
    let db = FilteredDb::open_saved(&path)?;
    println!("open with the saved filter: {:?} ({:?})", start.elapsed(), db.opened());

    let reader = db.begin_read()?;
    let absent: Vec<_> = (0..100_000).map(|n| format!("{:016x}", (2 * n * 7919 + 1) % (2 * keys))).collect();
    let start = Instant::now();
    let found = absent.iter().filter(|key| matches!(reader.get(key.as_bytes()), Ok(Some(_)))).count();
    println!("get of an absent key: {:?}; found {found}", start.elapsed() / 100_000);

    let start = Instant::now();
    let found = absent.iter().filter(|key| matches!(redb_alone(&reader, key), Ok(true))).count();
    println!("get of an absent key, redb alone: {:?}; found {found}", start.elapsed() / 100_000);
    Ok(())
}

fn redb_alone(reader: &filterblock_redb::Reader<'_>, key: &str) -> Result<bool, Error> {
    Ok(reader.table().get(key.as_bytes())?.is_some())
}
