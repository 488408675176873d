//! Tests picking under a simulated load of flushes and compactions.

use super::*;
use crate::lsm::manifest::edit::TableMeta;

const MB: u64 = 1 << 20;

/// A store under a load, and the work that its compactions did.
struct Load {
    levels: Vec<Vec<TableMeta>>,
    picker: Picker,
    l0_stall_trigger: usize,
    flush_bytes: u64,
    table_bytes: u64,
    next_number: u64,
    written_bytes: u64,
    stalls: u64,
    /// The largest ratio of the size of level 1 to its limit.
    level_1_excess: f64,
}

impl Load {
    fn new((limits, l0_stall_trigger): (Limits, usize), flush_bytes: u64, table_bytes: u64) -> Self {
        let levels = vec![Vec::new(); NUM_LEVELS];
        let picker = Picker::new(limits);
        let (next_number, written_bytes, stalls, level_1_excess) = (1, 0, 0, 0.0);
        Self {
            levels,
            picker,
            l0_stall_trigger,
            flush_bytes,
            table_bytes,
            next_number,
            written_bytes,
            stalls,
            level_1_excess,
        }
    }

    fn facts(&self) -> Levels<'_> {
        Levels(self.levels.iter().map(|tables| tables.iter().map(TableFacts::from).collect()).collect())
    }

    fn table(&mut self, smallest: u32, largest: u32, len_bytes: u64) -> TableMeta {
        self.next_number += 1;
        let [smallest, largest] = [smallest, largest].map(|key| format!("{key:010}").into_bytes());
        TableMeta { number: self.next_number, smallest, largest, len_bytes, ..TableMeta::default() }
    }

    /// Flushes `num_flushes` memtables. Per flush or wait, compactions may write about `speed`
    /// times the bytes of a flush. Panics if writers wait for a compaction that is not due.
    fn run(&mut self, num_flushes: u64, speed: i64) {
        let (mut num_flushed, mut credit_bytes) = (0, 0i64);
        while num_flushed < num_flushes {
            if self.levels[0].len() < self.l0_stall_trigger {
                let flushed = self.table(0, u32::MAX, self.flush_bytes);
                self.levels[0].insert(0, flushed);
                num_flushed += 1;
            } else {
                assert!(self.picker.pick(&self.facts(), 0).is_some(), "writers wait for a compaction that is not due");
                self.stalls += 1;
            }
            let earned = speed * self.flush_bytes as i64;
            credit_bytes = (credit_bytes + earned).min(earned);
            while credit_bytes > 0 {
                let Some(pick) = self.picker.pick(&self.facts(), 0) else { break };
                credit_bytes -= self.compact(&pick) as i64;
            }
        }
    }

    /// Compacts until nothing is due in an idle store. Returns the number of sorted runs.
    fn settle(&mut self) -> usize {
        while let Some(pick) = self.picker.pick(&self.facts(), u64::MAX) {
            self.compact(&pick);
        }
        self.levels[0].len() + self.levels[1..].iter().filter(|tables| !tables.is_empty()).count()
    }

    /// Replaces the SSTs of a pick with the result of their merge. Returns the bytes written.
    fn compact(&mut self, pick: &Pick) -> u64 {
        let take = |tables: &mut Vec<TableMeta>, numbers: &[u64]| {
            tables.extract_if(.., |table| numbers.contains(&table.number)).collect::<Vec<_>>()
        };
        let upper = take(&mut self.levels[pick.level], &pick.upper);
        let lower = take(&mut self.levels[pick.to], &pick.lower);
        self.picker.note_begin(pick.level, &upper.last().unwrap().largest);
        let inputs: Vec<&TableMeta> = upper.iter().chain(&lower).collect();
        let key = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<u32>().unwrap();
        let smallest = inputs.iter().map(|table| key(&table.smallest)).min().unwrap();
        let largest = inputs.iter().map(|table| key(&table.largest)).max().unwrap();
        let bytes: u64 = inputs.iter().map(|table| table.len_bytes).sum();
        let num_tables = bytes.div_ceil(self.table_bytes).max(1);
        let bound = |i: u64| {
            let offset = u128::from(largest - smallest) * u128::from(i) / u128::from(num_tables);
            smallest + u32::try_from(offset).unwrap()
        };
        for i in 0..num_tables {
            let end = if i + 1 == num_tables { largest } else { bound(i + 1) - 1 };
            let table = self.table(bound(i), end, bytes / num_tables);
            self.levels[pick.to].push(table);
        }
        self.levels[pick.to].sort_by(|a, b| a.smallest.cmp(&b.smallest));
        self.picker.note_end(pick.level, false);
        let limit = self.picker.limits.base_bytes;
        self.level_1_excess = self.level_1_excess.max(self.facts().bytes(1) as f64 / limit as f64);
        let is_move = pick.level > 0 && lower.is_empty();
        let written = if is_move { 0 } else { bytes };
        self.written_bytes += written;
        written
    }

    fn write_amplification(&self, num_flushes: u64) -> f64 {
        self.written_bytes as f64 / (num_flushes * self.flush_bytes) as f64
    }
}

fn default_limits() -> (Limits, usize) {
    (Limits { l0_trigger: 4, l0_limit: 30, base_bytes: 256 * MB, size_ratio: 10 }, 40)
}

/// A picker with a fixed order of levels fails this test.
#[test]
fn level_1_does_not_starve_under_a_lasting_load() {
    for speed in [3, 6, 12] {
        let mut load = Load::new(default_limits(), 16 * MB, 64 * MB);
        load.run(1_500, speed);
        let (amplification, excess) = (load.write_amplification(1_500), load.level_1_excess);
        println!("speed {speed}: {amplification:.1} bytes compacted per byte, level 1 at {excess:.1} limits");
        assert!(amplification < 13.0 && excess < 7.0, "speed {speed}: {amplification:.1}, {excess:.1}");
    }
}

#[test]
fn tiny_levels_do_not_starve() {
    let limits = (Limits { base_bytes: 4 * MB, ..default_limits().0 }, 20);
    let mut load = Load::new(limits, MB, MB);
    load.run(1_000, 12);
    let (amplification, excess) = (load.write_amplification(1_000), load.level_1_excess);
    assert!(amplification < 12.0 && excess < 9.0, "{amplification:.1}, {excess:.1}");
}

/// 240 flushes of 10 MiB hold more than 20 million entries of 116 bytes. A picker that compacts
/// level 0 as soon as level 0 reaches its trigger fails this test.
#[test]
fn a_load_of_20_million_keys_writes_a_byte_at_most_6_5_times() {
    for speed in [6, 12, 30] {
        let mut load = Load::new(default_limits(), 10 * MB, 64 * MB);
        load.run(240, speed);
        let (stalls, at_end) = (load.stalls, load.write_amplification(240) + 1.0);
        let runs = load.settle();
        let settled = load.write_amplification(240) + 1.0;
        println!("speed {speed}: {at_end:.2} bytes written per byte, {settled:.2} when settled in {runs} runs");
        assert!(
            settled <= 6.5 && stalls == 0 && runs <= 5,
            "speed {speed}: {settled:.2}, {stalls} stalls, {runs} runs"
        );
    }
}

#[test]
fn level_0_waits_for_more_ssts_unless_the_store_is_idle() {
    let mut load = Load::new(default_limits(), 10 * MB, 64 * MB);
    load.run(60, 30);
    load.settle();
    load.levels[0].clear();
    let level_1 = load.facts().bytes(1);
    assert!(level_1 > 100 * MB, "{level_1}");
    for num_tables in 1..30 {
        let flushed = load.table(0, u32::MAX, 10 * MB);
        load.levels[0].insert(0, flushed);
        let (level_0, facts) = (num_tables * 10 * MB, load.facts());
        let is_picked = |spare_bytes| load.picker.pick(&facts, spare_bytes).is_some();
        let is_large = level_0 >= level_1;
        assert_eq!(is_picked(0), num_tables >= 4 && is_large, "{num_tables} SSTs");
        assert_eq!(is_picked(level_0 + level_1 - 1), num_tables >= 4 && is_large, "{num_tables} SSTs");
        assert_eq!(is_picked(level_0 + level_1), num_tables >= 4, "{num_tables} SSTs");
        let waits_for = (num_tables >= 4 && !is_large).then_some(level_0 + level_1);
        assert_eq!(load.picker.waits_for(&facts, 0), waits_for, "{num_tables} SSTs");
        assert_eq!(load.picker.waits_for(&facts, level_0 + level_1), None, "{num_tables} SSTs");
    }
    let tiny = load.table(0, u32::MAX, 1);
    load.levels[0] = vec![tiny; 30];
    assert!(load.picker.pick(&load.facts(), 0).is_some(), "writers would soon wait for these SSTs");
}

#[test]
fn writers_never_wait_for_a_compaction_that_is_not_due() {
    for (l0_trigger, l0_stall_trigger) in [(1, 1), (2, 2), (4, 4), (4, 5), (5, 20), (20, 20), (8, 4)] {
        let l0_limit = l0_stall_trigger.max(l0_trigger) - l0_stall_trigger.max(l0_trigger) / 4;
        let limits = Limits { l0_trigger, l0_limit: l0_limit.max(l0_trigger), ..default_limits().0 };
        let limits = (limits, l0_stall_trigger.max(l0_trigger));
        let mut load = Load::new(limits, 16 * MB, 64 * MB);
        load.run(100, 2);
        // `run` panics if writers wait while nothing is due.
        assert!(load.levels.iter().flatten().map(|table| table.len_bytes).sum::<u64>() > 99 * 16 * MB);
    }
}
