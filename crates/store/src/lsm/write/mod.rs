//! Writes batches: appends them to the log, inserts them into the memtable, and makes them visible.
//!
//! Writers form a queue, and one of them leads at a time. The leader takes the oldest queued
//! batches: up to 1 MiB, or one longer batch. It writes them as one log record, syncs the record at
//! most once and distributes the results. A new writer queues after the waiting ones. Without
//! competition, the queue costs a writer two uncontended locks.

mod space;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::error::{Error, Field, Result};
use crate::lsm::background::Work;
use crate::lsm::manifest::edit::MAX_WRITTEN_NUMBER;
use crate::lsm::options::Durability;
use crate::lsm::shared::{LogState, Shared, Ticket};
use crate::lsm::wal::batch::WriteBatch;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, MutexGuard, lock};

/// The wait of the writers per step of 64 KiB when level 0 reaches `Options::l0_slowdown`.
const FIRST_DELAY: Duration = Duration::from_micros(250);
/// The longest wait per step. A queued writer also waits for the leaders before it. At this wait,
/// small batches continue at about 2 MB/s.
const MAX_DELAY: Duration = Duration::from_millis(32);
/// The minimum wait per step while flushes fall behind. The value is an estimate of the time in
/// which a flush writes the bytes of one step.
const FLUSH_DELAY: Duration = Duration::from_micros(500);

/// The right to write. Dropping this guard passes the right on. If the leader panics, the store and
/// the writes of the group fail.
struct Leader<'a> {
    shared: &'a Shared,
    /// The tickets of the writers that wait for the outcome. Empty for a leader without a ticket.
    group: &'a [Arc<Ticket>],
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(self.shared.background.alarm());
            for ticket in self.group {
                let reason = "another thread panicked while it wrote this batch";
                lock(&ticket.result).get_or_insert_with(|| Err(Error::Poisoned { reason: reason.to_owned() }));
            }
        }
        self.shared.hand_over();
    }
}

impl Shared {
    pub(crate) fn write(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.check_numbers()?;
        self.check_space(&batch)?;
        let sync = durability == Durability::Sync;
        let mut queue = lock(&self.writing.queue.inner);
        if !queue.has_leader && queue.waiting.is_empty() {
            queue.has_leader = true;
            drop(queue);
            let leader = Leader { shared: self, group: &[] };
            let result = self.write_group(&[&batch], sync);
            drop(leader);
            return result;
        }
        let ticket = Arc::new(Ticket { batch, sync, result: Mutex::new(None) });
        queue.waiting.push(Arc::clone(&ticket));
        loop {
            if let Some(result) = lock(&ticket.result).take() {
                return result;
            }
            if !queue.has_leader {
                queue.has_leader = true;
                let group = queue.take_group();
                drop(queue);
                self.lead(&group);
                queue = lock(&self.writing.queue.inner);
                continue;
            }
            queue.sleepers += 1;
            queue = self.writing.queue.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.sleepers -= 1;
        }
    }

    /// The check is approximate: other writes may be in progress, and the limit leaves room for them.
    pub(crate) fn check_numbers(&self) -> Result<()> {
        let last_sequence = self.reading.state.last_visible();
        let last_file = self.catalogue.next_file_number.load(Ordering::Relaxed) - 1;
        for (field, last) in [(Field::LogSequence, last_sequence), (Field::FileNumber, last_file)] {
            if last > MAX_WRITTEN_NUMBER {
                return Err(Error::OutOfNumbers { field, last });
            }
        }
        Ok(())
    }

    fn lead(&self, group: &[Arc<Ticket>]) {
        let leader = Leader { shared: self, group };
        let batches: Vec<&WriteBatch> = group.iter().map(|ticket| &ticket.batch).collect();
        let result = self.write_group(&batches, group.iter().any(|ticket| ticket.sync));
        for ticket in group {
            *lock(&ticket.result) = Some(result.as_ref().map_err(copy_of).copied());
        }
        drop(leader);
    }

    fn hand_over(&self) {
        let mut queue = lock(&self.writing.queue.inner);
        queue.has_leader = false;
        if queue.sleepers > 0 {
            self.writing.queue.changed.notify_all();
        }
    }

    /// Makes room, and waits if flushes or compactions fall behind. Then writes the batches as one
    /// log record, inserts them into the memtable and makes them visible. If one of these last
    /// steps fails, the store fails. Only the leader calls this function.
    fn write_group(&self, batches: &[&WriteBatch], sync: bool) -> Result<()> {
        self.make_room()?;
        self.slow_down(batches.iter().map(|batch| batch.len_bytes() as u64).sum());
        let mut log = lock(&self.writing.log);
        let first = log.last_sequence + 1;
        self.append(&mut log, batches, first, sync).inspect_err(|error| self.background.fail(error))?;
        let applied = self.reading.state.apply(batches, first, &self.identity.hasher);
        log.last_sequence = applied.inspect_err(|error| self.background.fail(error))?;
        Ok(())
    }

    fn append(&self, log: &mut LogState, batches: &[&WriteBatch], first: u64, sync: bool) -> Result<()> {
        match batches {
            [batch] => log.log.append(first, &[batch.encoded()])?,
            _ => {
                let parts: Vec<&[u8]> = batches.iter().map(|batch| batch.encoded()).collect();
                log.log.append(first, &parts)?;
            }
        }
        if sync { log.log.sync() } else { Ok(()) }
    }

    /// If the memtable is full, waits until another one may be started, and starts it.
    fn make_room(&self) -> Result<()> {
        self.background.check_writable()?;
        let state = self.reading.state.load();
        let has_room = !state.memtable.is_full() && state.memtable.len_bytes() < self.options.write_buffer_bytes;
        if has_room || state.memtable.is_empty() {
            return Ok(());
        }
        self.wait_for_room()?;
        let mut log = lock(&self.writing.log);
        // A flush may have started a new memtable meanwhile.
        if self.reading.state.load().memtable.is_empty() {
            return Ok(());
        }
        self.rotate(&mut log)
    }

    fn wait_for_room(&self) -> Result<()> {
        let work = lock(&self.background.work);
        let failed = |work: &Work| work.flushes.failure_since(0);
        self.stall(work, |work| self.is_memory_full() || self.is_level_0_full(work), failed)
    }

    /// Does not wait if no background thread would compact level 0.
    pub(crate) fn wait_for_level_0(&self) -> Result<()> {
        self.stall(lock(&self.background.work), |work| self.is_level_0_full(work), |_| None)
    }

    /// Waits while `must_stall` returns `true`, and counts the wait. The wait ends early if the
    /// store fails or if `failed` returns an error, because `must_stall` might then never return
    /// `false`.
    fn stall(
        &self,
        mut work: MutexGuard<'_, Work>,
        must_stall: impl Fn(&Work) -> bool,
        failed: impl Fn(&Work) -> Option<Error>,
    ) -> Result<()> {
        if !must_stall(&work) {
            return Ok(());
        }
        let counted = self.reading.counters.begin_stall();
        let mut refused = Ok(());
        while work.failure.is_none() && must_stall(&work) {
            if let Some(error) = failed(&work) {
                refused = Err(error);
                break;
            }
            work = self.background.wait(work);
        }
        drop(work);
        drop(counted);
        self.background.check_writable()?;
        refused
    }

    /// Counts the bytes that the leader will write. At the end of a step, waits briefly if flushes
    /// or compactions fall behind. Many short waits replace one long stall. Only the leader calls
    /// this function, while it holds no lock. `len_bytes` is the length of the leader's batches.
    fn slow_down(&self, len_bytes: u64) {
        if !self.writing.queue.is_step_done(len_bytes) {
            return;
        }
        let delay = self.delay_of_step();
        if !delay.is_zero() {
            let counted = self.reading.counters.begin_delay();
            std::thread::sleep(delay);
            drop(counted);
        }
    }

    /// Returns the time that writers wait per step. The wait begins with [`FIRST_DELAY`] at
    /// `Options::l0_slowdown`, and each further SST of level 0 doubles it, up to [`MAX_DELAY`].
    /// Level 0 causes no wait if no background thread compacts it. If flushes fall behind, the wait
    /// is at least [`FLUSH_DELAY`].
    fn delay_of_step(&self) -> Duration {
        let state = self.reading.state.load();
        let num_tables = state.version.tables(0).count();
        // Flushes fall behind if several immutable memtables wait, and their limit is reached at
        // the latest when the current memtable is full.
        let num_free = self.options.max_immutable_memtables.saturating_sub(state.immutable.len());
        let late_flush = if state.immutable.len() > 1 && num_free < 2 { FLUSH_DELAY } else { Duration::ZERO };
        let excess = (num_tables + 1).saturating_sub(self.options.l0_slowdown());
        if excess == 0 || !self.compacts_level_0(&state.version, &lock(&self.background.work)) {
            return late_flush;
        }
        let doubled = u32::try_from(excess - 1).ok().and_then(|excess| 1u32.checked_shl(excess));
        doubled.map_or(MAX_DELAY, |factor| FIRST_DELAY.saturating_mul(factor)).clamp(late_flush, MAX_DELAY)
    }

    fn is_memory_full(&self) -> bool {
        self.reading.state.load().immutable.len() >= self.options.max_immutable_memtables.max(1)
    }

    /// Returns whether level 0 is too full for another SST and a background thread compacts it.
    fn is_level_0_full(&self, work: &Work) -> bool {
        let state = self.reading.state.load();
        state.version.tables(0).count() >= self.options.l0_stall() && self.compacts_level_0(&state.version, work)
    }
}

/// Copies an error for a writer of the group. Errors other than I/O errors,
/// [`Error::BackgroundFails`] and [`Error::Poisoned`] become [`Error::Poisoned`] with the same
/// message.
fn copy_of(error: &Error) -> Error {
    match error {
        Error::InFile { path, source } => Error::InFile { path: path.clone(), source: Box::new(copy_of(source)) },
        Error::Io(error) => Error::Io(match error.raw_os_error() {
            Some(number) => std::io::Error::from_raw_os_error(number),
            None => std::io::Error::new(error.kind(), error.to_string()),
        }),
        Error::BackgroundFails { reason } => Error::BackgroundFails { reason: reason.clone() },
        Error::Poisoned { reason } => Error::Poisoned { reason: reason.clone() },
        other => Error::Poisoned { reason: other.to_string() },
    }
}
