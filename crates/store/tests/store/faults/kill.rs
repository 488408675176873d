//! Kills a writer process during its work, and checks the reopened store.
//!
//! `FILTERBLOCK_KILLS` sets the number of kills per test (default 20).

use std::path::Path;
use std::time::Duration;

use crate::common::{Random, scratch};
use crate::steps::{self, Content, do_step, durability_of, judge, small, steps_in, this_program};
use filterblock_store::Db;
use filterblock_store::lsm::Durability;

const CHILD: &str = concat!(module_path!(), "::writer_child_process");
const WRITERS: u64 = 3;

fn kills() -> u64 {
    std::env::var("FILTERBLOCK_KILLS").map_or(20, |text| text.parse().unwrap())
}

/// Writes until the process is killed, and reports each acknowledged step.
fn be_the_writer(dir: &Path, durability: Durability) {
    let db = Db::open(dir, small(durability)).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let db = &db;
            scope.spawn(move || {
                let mut step = steps_in(db, writer).unwrap() + 1;
                loop {
                    do_step(db, writer, step).unwrap();
                    steps::say(&format!("ack {writer} {step}"));
                    step += 1;
                }
            });
        }
    });
}

/// Runs the writer process in `dir` and kills it after the time `after`. Returns the last
/// acknowledged step of each writer, or 0 for a writer without one.
fn run_and_kill(dir: &Path, mode: &str, after: Duration) -> [u64; WRITERS as usize] {
    let order = format!("{mode}:{}", dir.display());
    let mut child = this_program(&[], CHILD, &order).spawn().unwrap();
    let mut said = child.stderr.take().unwrap();
    // A thread reads the output during the run. Otherwise the writer would block on a full pipe.
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut said, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    });
    std::thread::sleep(after);
    assert!(child.try_wait().unwrap().is_none(), "the writer ended before the kill: {}", reader.join().unwrap());
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

fn kill_many_times(mode: &str) {
    let (kills, durability) = (kills(), durability_of(mode));
    let dir = scratch();
    let mut random = Random(0xfb);
    let mut contents: Vec<Content> = (0..WRITERS).map(Content::none).collect();
    let mut total_acknowledged = 0;
    for round in 0..kills {
        let acknowledged = run_and_kill(dir.path(), mode, Duration::from_millis(10 + random.below(90)));
        let db = Db::open(dir.path(), small(durability)).unwrap();
        for (content, acknowledged) in contents.iter_mut().zip(acknowledged) {
            total_acknowledged += acknowledged.saturating_sub(content.steps);
            if durability == Durability::Sync {
                content.advance(acknowledged);
            }
        }
        judge(&db, &mut contents, &format!("kill {round}"));
        let reports = db.stats().reports;
        assert!(reports.iter().all(|report| report.contains("cut off")), "{reports:?}");
        // In every second round, the next writer finds a cleanly closed store. In the other rounds,
        // it finds a store that was dropped without a close.
        if round % 2 == 0 {
            db.close().unwrap();
        }
    }
    let steps: Vec<u64> = contents.iter().map(|content| content.steps).collect();
    println!("{mode}: {kills} kills, {total_acknowledged} steps acknowledged, {steps:?} in the store");
    assert!(steps.iter().all(|&steps| steps > 0), "a writer wrote nothing: {steps:?}");
}

#[test]
fn a_kill_loses_no_write_acknowledged_under_sync() {
    kill_many_times("sync");
}

#[test]
fn a_kill_keeps_a_prefix_of_each_writers_buffered_steps() {
    kill_many_times("buffered");
}

#[test]
fn writer_child_process() {
    let Some((mode, dir)) = steps::order() else { return };
    be_the_writer(&dir, durability_of(&mode));
}
