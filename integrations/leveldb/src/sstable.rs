//! Implements the trait of the crate `sstable`.

use std::sync::Arc;

use sstable::filter::FilterPolicy;

use crate::{NAME, Policy};

impl FilterPolicy for Policy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn create_filter(&self, keys: &[u8], key_offsets: &[usize]) -> Vec<u8> {
        self.build(keys, key_offsets)
    }

    fn key_may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.may_contain(key, filter)
    }
}

impl Policy {
    /// Returns the policy as `filter_policy` of `sstable::Options`.
    #[must_use]
    pub fn for_sstable(self) -> Arc<Box<dyn FilterPolicy>> {
        Arc::new(Box::new(self))
    }
}
