//! Collects the messages in [`crate::lsm::Stats::reports`], and logs them.

use crate::lsm::wal::log_reader::LogTail;
use crate::sync::{Mutex, lock};

/// The maximum number of kept messages. Further messages are logged but not kept.
const MAX_REPORTS: usize = 100;

/// The messages, and the torn tails of logs and of the manifest.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    messages: Mutex<Vec<String>>,
    tails: Mutex<Vec<LogTail>>,
}

impl Reports {
    pub(crate) fn add(&self, message: String) {
        let mut messages = lock(&self.messages);
        // One open may judge a file several times.
        if messages.contains(&message) {
            return;
        }
        log::warn!("{message}");
        if messages.len() < MAX_REPORTS {
            messages.push(message);
        }
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        lock(&self.messages).clone()
    }

    /// Reports a torn tail, if there is one.
    pub(crate) fn add_tail(&self, tail: Option<LogTail>) {
        let Some(tail) = tail else { return };
        self.add(tail.to_string());
        lock(&self.tails).push(tail);
    }

    pub(crate) fn tails(&self) -> Vec<LogTail> {
        lock(&self.tails).clone()
    }
}
