//! Implements the trait of rusty-leveldb.

use std::rc::Rc;

use rusty_leveldb::FilterPolicy;

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
    /// Returns the policy as `filter_policy` of `rusty_leveldb::Options`.
    #[must_use]
    pub fn for_rusty_leveldb(self) -> Rc<Box<dyn FilterPolicy>> {
        Rc::new(Box::new(self))
    }
}
