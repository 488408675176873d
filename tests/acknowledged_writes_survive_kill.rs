//! A writer that is killed in the middle of its work: what it had acknowledged is there when the store opens again.
//!
//! The test runs its own program a second time, with an environment variable that makes the last test below a writer.
#![cfg(feature = "lsm")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::Random;
use filterblock::lsm::{Durability, WriteBatch};
use filterblock::{Db, Options};

const WRITER: &str = "FILTERBLOCK_TEST_WRITER";
const WRITERS: u64 = 3;
/// Keys of each writer; each step writes a few of them, so that most are overwritten and deleted many times.
const KEYS: u64 = 40;
const KILLS: u64 = 20;

fn options(durability: Durability) -> Options {
    Options {
        durability,
        // So small that flushes and compactions are under way most of the time.
        write_buffer_bytes: 16 << 10,
        table_size_bytes: 16 << 10,
        level_base_bytes: 32 << 10,
        l0_compaction_trigger: 2,
        ..Options::default()
    }
}

fn key(writer: u64, i: u64) -> Vec<u8> {
    format!("w{writer}-{i:03}").into_bytes()
}

/// What step `step` of a writer writes: known to the writer and to the judge.
fn writes_of(writer: u64, step: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut random = Random(writer << 32 | step);
    let count = if random.below(3) == 0 { 2 + random.below(6) } else { 1 };
    let mut writes: Vec<_> = (0..count)
        .map(|_| {
            let key = key(writer, random.below(KEYS));
            let long = vec![b'v'; random.below(200) as usize];
            let value = [step.to_le_bytes().as_slice(), &long].concat();
            (key, (random.below(4) != 0).then_some(value))
        })
        .collect();
    // Every step leaves its number: how many steps a store holds can be read from it.
    writes.push((format!("w{writer}-steps").into_bytes(), Some(step.to_le_bytes().to_vec())));
    writes
}

fn do_step(db: &Db, writer: u64, step: u64) -> filterblock::Result<()> {
    let mut batch = WriteBatch::new();
    for (key, value) in writes_of(writer, step) {
        match value {
            Some(value) => batch.put(&key, &value)?,
            None => batch.delete(&key)?,
        }
    }
    db.write(batch)
}

fn steps_in(db: &Db, writer: u64) -> u64 {
    let steps = db.get(format!("w{writer}-steps").as_bytes()).unwrap();
    steps.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

/// The whole content that the first `steps` steps of a writer add up to.
fn content_after(writer: u64, steps: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut content = BTreeMap::new();
    for (key, value) in (1..=steps).flat_map(|step| writes_of(writer, step)) {
        match value {
            Some(value) => content.insert(key, value),
            None => content.remove(&key),
        };
    }
    content
}

/// Writes until it is killed, and says after each step that it was acknowledged.
fn be_the_writer(dir: &Path, durability: Durability) {
    let db = Db::open(dir, options(durability)).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let db = &db;
            scope.spawn(move || {
                let mut step = steps_in(db, writer) + 1;
                loop {
                    do_step(db, writer, step).unwrap();
                    // One write of one line to a pipe is whole or absent.
                    std::io::stderr().write_all(format!("ack {writer} {step}\n").as_bytes()).unwrap();
                    step += 1;
                }
            });
        }
    });
}

/// The last step of each writer that was acknowledged before the kill.
fn run_and_kill(dir: &Path, mode: &str, after: Duration) -> [u64; WRITERS as usize] {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_writer_when_it_is_started_as_one", "--nocapture", "--test-threads=1"])
        .env(WRITER, format!("{mode}:{}", dir.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let mut said = child.stderr.take().unwrap();
    // Read meanwhile: a writer that waits for a full pipe would be killed at one place only.
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut said, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    });
    std::thread::sleep(after);
    assert!(child.try_wait().unwrap().is_none(), "the writer ended by itself: {}", reader.join().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    let mut acknowledged = [0; WRITERS as usize];
    let text = reader.join().unwrap();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let ["ack", writer, step] = words[..] else { panic!("{text}") };
        acknowledged[writer.parse::<usize>().unwrap()] = step.parse().unwrap();
    }
    acknowledged
}

fn kill_twenty_times(mode: &str, durability: Durability) {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(0xfb);
    let mut at_least = [0; WRITERS as usize];
    let mut total_acknowledged = 0;
    for round in 0..KILLS {
        let acknowledged = run_and_kill(dir.path(), mode, Duration::from_millis(10 + random.below(90)));
        let db = Db::open(dir.path(), options(durability)).unwrap();
        let mut expected = BTreeMap::new();
        for writer in 0..WRITERS {
            let (acknowledged, found) = (acknowledged[writer as usize], steps_in(&db, writer));
            total_acknowledged += acknowledged.saturating_sub(at_least[writer as usize]);
            let floor = &mut at_least[writer as usize];
            if durability == Durability::Sync {
                *floor = acknowledged.max(*floor);
            }
            assert!(found >= *floor, "kill {round}: writer {writer} has {found} steps, {floor} were acknowledged");
            *floor = found;
            // Whole steps, in order, and nothing else: no half batch, nothing deleted that came back.
            expected.extend(content_after(writer, found));
        }
        let content: BTreeMap<_, _> = common::scan_all(&db).into_iter().collect();
        assert_eq!(content, expected, "kill {round}");
        for (key, value) in &expected {
            assert_eq!(db.get(key).unwrap().as_ref(), Some(value));
        }
        assert!(db.verify().unwrap().is_sound());
        let reports = db.stats().reports;
        assert!(reports.iter().all(|report| report.contains("cut off")), "{reports:?}");
        // Half of the time the killed writer's successor finds a store that was closed, half of the time what it left.
        if round % 2 == 0 {
            db.close().unwrap();
        }
    }
    println!("{mode}: {KILLS} kills, {total_acknowledged} steps acknowledged, {at_least:?} in the store");
    assert!(at_least.iter().all(|&steps| steps > 0), "nothing was ever written");
}

#[test]
fn nothing_acknowledged_under_sync_is_lost_in_twenty_kills() {
    kill_twenty_times("sync", Durability::Sync);
}

#[test]
fn what_survives_of_buffered_writes_is_each_writers_first_steps() {
    kill_twenty_times("buffered", Durability::Buffered);
}

#[test]
fn the_writer_when_it_is_started_as_one() {
    let Ok(order) = std::env::var(WRITER) else { return };
    let (mode, dir) = order.split_once(':').unwrap();
    be_the_writer(Path::new(dir), if mode == "sync" { Durability::Sync } else { Durability::Buffered });
}
