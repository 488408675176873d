//! Damage that was met: one message each, kept for [`super::Stats::reports`] and sent to the `log` crate.

use super::log_reader::LogTail;
use crate::sync::{Mutex, lock};

/// More damage than this is counted but no longer told one by one.
const MAX_REPORTS: usize = 100;

/// The messages.
#[derive(Debug, Default)]
pub(super) struct Reports {
    messages: Mutex<Vec<String>>,
    tails: Mutex<Vec<LogTail>>,
}

impl Reports {
    pub(super) fn add(&self, message: String) {
        log::warn!("{message}");
        let mut messages = lock(&self.messages);
        if messages.len() < MAX_REPORTS {
            messages.push(message);
        }
    }

    pub(super) fn messages(&self) -> Vec<String> {
        lock(&self.messages).clone()
    }

    /// Tells what was cut off, if anything was.
    pub(super) fn add_tail(&self, tail: Option<LogTail>) {
        let Some(tail) = tail else { return };
        self.add(tail.to_string());
        lock(&self.tails).push(tail);
    }

    pub(super) fn tails(&self) -> Vec<LogTail> {
        lock(&self.tails).clone()
    }
}
