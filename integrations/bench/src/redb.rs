//! Measures redb without filters, and with filters beside it.

use std::path::Path;
use std::time::{Duration, Instant};

use filterblock_redb::FilteredDb;
use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};

use crate::row::Row;
use crate::stopwatch::{Times, median, times};
use crate::workload::{VALUE, absent_keys, present_keys};

const DATA: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("data");

/// Loads `keys` keys into two databases, with and without filters. Measures gets of absent keys,
/// and counts the present keys that a get does not find. Passes a row for each database to `sink`.
///
/// # Panics
/// Panics if `keys` is 0, if redb or the file system returns an error, or if redb returns a value
/// for an absent key.
pub fn run(keys: usize, rounds: usize, sink: &mut dyn FnMut(Row)) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut present = present_keys(keys);
    present.sort_unstable();
    let plain_path = dir.path().join("plain.redb");
    let plain_load = load_plain(&plain_path, &present);
    let plain = Database::open(&plain_path).expect("redb opens");
    let plain = plain.begin_read().expect("redb reads").open_table(DATA).expect("the table exists");

    let start = Instant::now();
    let filtered = load_filtered(&dir.path().join("filtered.redb"), &present);
    let filtered_load = start.elapsed();
    let reader = filtered.begin_read().expect("redb reads");

    let absent = absent_keys(100_000.min(keys));
    let mut measured: [Vec<Times>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        measured[0].push(times(&absent, |key| assert!(get(&plain, key).is_none())));
        measured[1].push(times(&absent, |key| assert!(reader.get(key).expect("redb reads").is_none())));
    }
    let lost_plain = present.iter().filter(|key| get(&plain, key).is_none()).count();
    let lost = present.iter().filter(|key| reader.get(&key[..]).expect("redb reads").is_none()).count();
    let passed = absent.iter().filter(|key| filtered.may_contain(&key[..])).count() as f64 / absent.len() as f64;
    let filter_bytes = filtered.with_filter_set(|set| set.len_bytes());
    let row = |filter, bytes, rounds: &[Times], load, lost: usize| {
        let row = Row::new(("redb", "4.6.0"), 0, filter, keys, bytes, median(rounds), load);
        Row { false_negatives: lost as u64, ..row }
    };
    sink(row("none", 0, &measured[0], plain_load, lost_plain));
    let filtered = row("bumped-ribbon:8", filter_bytes, &measured[1], filtered_load, lost);
    sink(Row { false_positive_rate: Some(passed), ..filtered });
}

fn get(table: &ReadOnlyTable<&'static [u8], &'static [u8]>, key: &[u8]) -> Option<Vec<u8>> {
    table.get(key).expect("redb reads").map(|value| value.value().to_vec())
}

/// Loads the keys into redb without filters. Returns the time.
fn load_plain(path: &Path, keys: &[Vec<u8>]) -> Duration {
    let start = Instant::now();
    let db = Database::create(path).expect("redb opens");
    for batch in keys.chunks(100_000) {
        let write = db.begin_write().expect("redb writes");
        for key in batch {
            write.open_table(DATA).expect("redb writes").insert(&key[..], VALUE).expect("redb writes");
        }
        write.commit().expect("redb writes");
    }
    start.elapsed()
}

fn load_filtered(path: &Path, keys: &[Vec<u8>]) -> FilteredDb {
    let db = FilteredDb::open(path).expect("redb opens");
    for batch in keys.chunks(100_000) {
        let mut writer = db.begin_write().expect("redb writes");
        batch.iter().for_each(|key| writer.insert(key, VALUE).expect("redb writes"));
        writer.commit().expect("redb writes");
    }
    drop(db);
    // `open` builds one filter of all keys, as it does when a program restarts.
    FilteredDb::open(path).expect("redb opens")
}
