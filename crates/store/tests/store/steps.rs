//! Defines numbered write steps, and starts processes for tests.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use filterblock_store::lsm::Durability;
use filterblock_store::{Db, Options, Result};

use crate::common::{self, Random};
use filterblock::FilterSpec;

/// The number of keys of each writer. Each step writes a few of these keys, so most keys are
/// overwritten and deleted many times.
const KEYS: u64 = 40;

/// The environment variable that tells a child process what to do; see [`this_program`].
const ORDER: &str = "FILTERBLOCK_TEST_ORDER";

fn key(writer: u64, i: u64) -> Vec<u8> {
    format!("w{writer}-{i:03}").into_bytes()
}

/// Returns the writes of step `step` of a writer.
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
    // Every step writes its number, so that a test can read from a store how many steps it holds.
    writes.push((format!("w{writer}-steps").into_bytes(), Some(step.to_le_bytes().to_vec())));
    writes
}

pub fn do_step(db: &Db, writer: u64, step: u64) -> Result<()> {
    db.write(common::batch_of(writes_of(writer, step)))
}

pub fn steps_in(db: &Db, writer: u64) -> Result<u64> {
    let steps = db.get(format!("w{writer}-steps").as_bytes())?;
    Ok(steps.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap())))
}

/// The content that the store must have after a number of steps of one writer.
#[derive(Debug, Clone, Default)]
pub struct Content {
    writer: u64,
    pub steps: u64,
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Content {
    pub fn none(writer: u64) -> Self {
        Self { writer, ..Self::default() }
    }

    pub fn of(writer: u64, steps: u64) -> Self {
        let mut content = Self::none(writer);
        content.advance(steps);
        content
    }

    pub fn advance(&mut self, steps: u64) {
        for (key, value) in (self.steps + 1..=steps).flat_map(|step| writes_of(self.writer, step)) {
            match value {
                Some(value) => self.entries.insert(key, value),
                None => self.entries.remove(&key),
            };
        }
        self.steps = self.steps.max(steps);
    }
}

/// Asserts that an open store holds whole steps of its writers, in order, and at least as many
/// steps as `contents`. The store must hold nothing else: no part of a batch, and no deleted key.
/// Updates `contents` to the content of the store, and verifies the store.
pub fn judge(db: &Db, contents: &mut [Content], what: &str) {
    for content in &mut *contents {
        let (found, floor) = (steps_in(db, content.writer).unwrap(), content.steps);
        assert!(found >= floor, "{what}: writer {} has {found} steps, {floor} were acknowledged", content.writer);
        content.advance(found);
    }
    let expected: BTreeMap<_, _> = contents.iter().flat_map(|content| content.entries.clone()).collect();
    let found: BTreeMap<_, _> = common::scan_all(db).into_iter().collect();
    assert_eq!(found, expected, "{what}");
    for (key, i) in contents.iter().flat_map(|content| (0..KEYS).map(|i| (key(content.writer, i), i))) {
        assert_eq!(db.get(&key).unwrap().as_ref(), expected.get(&key), "{what}: get of {i} and the scan differ");
        // This scan asks the range filters, and asks the filters about a prefix.
        let scanned = db.scan(key.as_slice()..=key.as_slice()).map(Result::unwrap).next();
        assert_eq!(scanned.map(|(_, value)| value).as_ref(), expected.get(&key), "{what}: the scans of {i} differ");
    }
    assert!(db.verify().unwrap().is_sound(), "{what}");
}

/// Returns options with which a store flushes and merges after very few writes. The store has
/// filters for keys, prefixes and ranges.
pub fn small(durability: Durability) -> Options {
    Options {
        durability,
        prefix_extractor: "fixed:5".parse().unwrap(),
        range_filter: Some(Arc::new("grafite:fpr=0.05".parse::<FilterSpec>().unwrap())),
        write_buffer_bytes: 16 << 10,
        table_size_bytes: 16 << 10,
        level_base_bytes: 32 << 10,
        l0_compaction_trigger: 2,
        // The store may fill the whole disk.
        reserve_bytes: Some(0),
        ..Options::default()
    }
}

/// Returns the options of [`small`] without automatic compactions and with a write buffer of 1 MiB.
pub fn small_and_quiet(durability: Durability) -> Options {
    Options { auto_compaction: false, write_buffer_bytes: 1 << 20, ..small(durability) }
}

pub fn durability_of(name: &str) -> Durability {
    if name == "sync" { Durability::Sync } else { Durability::Buffered }
}

/// Builds a command that runs one test of this program. `order` has the form `WORD:DIRECTORY`. The
/// function [`order`] returns both parts in the new process. `wrapper` is a program with arguments
/// that runs the command, or is empty. `test` is the path of the test; see [`common::test_path`].
pub fn this_program(wrapper: &[&str], test: &str, order: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = match wrapper {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command.args(["--exact", common::test_path(test), "--nocapture", "--test-threads=1"]).env(ORDER, order);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Returns the order from the parent process: the first word and the directory. Returns `None` in a
/// process without an order.
pub fn order() -> Option<(String, std::path::PathBuf)> {
    let order = std::env::var(ORDER).ok()?;
    let (word, dir) = order.split_once(':').unwrap();
    Some((word.to_owned(), Path::new(dir).to_path_buf()))
}

/// Writes one line to the standard error, and ignores errors. A pipe receives a short line whole
/// or not at all.
pub fn say(line: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes());
}

/// Prints that a test was skipped. Test capture does not hide the line.
pub fn skip(test: &str, why: &str) {
    say(&format!("skipped: {test}: {why}"));
}
