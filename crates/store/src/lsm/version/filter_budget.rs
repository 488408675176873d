//! Carries the filters and their numbers of queries from one version to the next. The next version
//! uses these numbers to divide the memory budget among its filters.

use std::collections::HashMap;
use std::sync::Arc;

use crate::sstable::TableFilter;

/// The filters of an earlier version, with the number of queries of each.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// The filters and their numbers of queries, by file number. Empty if the store has no budget.
    filters: HashMap<u64, (Option<Arc<TableFilter>>, u64)>,
    /// The mean number of queries per SST. A new SST starts with this number. With 0 queries, the
    /// output of a compaction of hot SSTs could lose more columns than a cold SST.
    mean_queries: u64,
}

impl Earlier {
    /// Collects the file numbers, filters and queries of an earlier version. If `keeps_columns` is
    /// not set, the next version begins with all columns of each filter.
    pub(crate) fn new<'f>(
        found: impl Iterator<Item = (u64, Option<&'f Arc<TableFilter>>, u64)>,
        keeps_columns: bool,
    ) -> Self {
        let mut filters = HashMap::new();
        let mut sum = 0u64;
        for (number, filter, queries) in found {
            // Older queries count less: each new version takes off up to an eighth.
            let queries = queries - queries / 8;
            sum = sum.saturating_add(queries);
            // Take over only a usable filter. The SST itself may have been reopened with a usable
            // one.
            let filter = filter.filter(|filter| keeps_columns && filter.ready().is_some()).cloned();
            filters.insert(number, (filter, queries));
        }
        let mean_queries = sum / (filters.len() as u64).max(1);
        Self { filters, mean_queries }
    }

    /// Returns the filter with which SST `number` starts in the next version, and its number of
    /// queries. `own` is the filter of the SST itself, with all columns.
    pub(crate) fn of(&self, number: u64, own: &Arc<TableFilter>) -> (Arc<TableFilter>, u64) {
        match self.filters.get(&number) {
            Some((Some(filter), queries)) => (Arc::clone(filter), *queries),
            Some((None, queries)) => (Arc::clone(own), *queries),
            None => (Arc::clone(own), self.mean_queries),
        }
    }
}
