//! Opens the SSTs of a large store on several threads.
//!
//! By default, an open reads and verifies the filter of each SST, about one byte per key. One
//! thread would need a long time for a large store.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::Result;
use crate::lsm::manifest::edit::TableMeta;

/// The minimum total length of the SSTs for more than one thread. In a smaller store, more threads
/// save little time.
const MIN_BYTES: u64 = 256 << 20;

/// The maximum number of threads. Even more threads would save little time.
const MAX_THREADS: usize = 8;

/// Calls `open` for each SST in `metas`, on several threads if the store is large. Returns the
/// results in the order of `metas`.
///
/// # Errors
/// Returns the error of the first SST in that order whose `open` fails.
pub(crate) fn open_tables<T: Send>(
    metas: &[&TableMeta],
    open: impl Fn(&TableMeta) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let num_bytes = metas.iter().fold(0u64, |sum, meta| sum.saturating_add(meta.len_bytes));
    let num_threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(metas.len());
    if num_bytes < MIN_BYTES || num_threads < 2 {
        return metas.iter().map(|meta| open(meta)).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut opened = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(meta) = metas.get(place) else { return opened };
            opened.push((place, open(meta)));
        }
    };
    let mut all = thread::scope(|scope| {
        // If no thread can be started, the calling thread opens all SSTs.
        let start = |_| thread::Builder::new().name("filterblock-open".into()).spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..num_threads).filter_map(start).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(opened) => all.extend(opened),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, opened)| opened).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn metas(len_bytes: u64) -> Vec<TableMeta> {
        (0..100).map(|number| TableMeta { number, len_bytes, ..TableMeta::default() }).collect()
    }

    #[test]
    fn ssts_come_in_order_on_one_or_several_threads() {
        for len_bytes in [1, MIN_BYTES] {
            let metas = metas(len_bytes);
            let metas: Vec<&TableMeta> = metas.iter().collect();
            let opened = open_tables(&metas, |meta| Ok(meta.number)).unwrap();
            assert_eq!(opened, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_error_of_the_first_failing_sst_is_returned() {
        for len_bytes in [1, MIN_BYTES] {
            let metas = metas(len_bytes);
            let metas: Vec<&TableMeta> = metas.iter().collect();
            let fails = |meta: &TableMeta| match meta.number {
                37.. => Err::<(), _>(Error::InvalidArgument { what: "number", reason: meta.number.to_string() }),
                _ => Ok(()),
            };
            let error = open_tables(&metas, fails).unwrap_err();
            assert!(error.to_string().contains("37"), "{error}");
        }
    }
}
