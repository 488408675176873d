//! Asks a new filter for each of its keys.

use crate::error::{Error, Result};
use crate::filters::FilterView;
use crate::hash::KeyHash;

/// Tells whether a builder asks a new filter for each of its keys before it returns the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SelfCheck {
    /// Checks the filter. If a fault of memory, processor or program makes the filter deny a key,
    /// the build returns an error.
    #[default]
    On,
    /// Does not check the filter.
    Off,
}

/// Asks the filter for each hash. Returns an error if the filter denies one.
pub(super) fn check(view: &FilterView<'_>, hashes: &[KeyHash]) -> Result<()> {
    let mut answers = [false; 256];
    let denied: usize = hashes
        .chunks(answers.len())
        .map(|hashes| {
            // If a query wrote no answer, the answer of the previous chunk would count.
            answers.fill(false);
            view.may_contain_batch(hashes, &mut answers);
            answers.iter().zip(hashes).filter(|(answer, _)| !**answer).count()
        })
        .sum();
    if denied == 0 { Ok(()) } else { Err(Error::SelfCheckFailed { denied: denied as u64 }) }
}
