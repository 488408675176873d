//! Asks the filters of RocksDB tables by the rules of the known filter policies.

use crate::error::Result;
use crate::native::NativeFilters;

use super::filter::RocksDbFilter;

/// The name of the policy of RocksDB's own filters, Bloom and Ribbon.
const BUILTIN: &str = "rocksdb.BuiltinBloomFilter";

/// The name of the policy of this crate's filter blocks, which `integrations/rocksdb` stores. The
/// number in the name is the format version of the blocks.
pub const NATIVE_POLICY: &str = "filterblock.v1";

/// The rules by which the filters of a table are asked.
#[derive(Debug, Clone)]
pub(super) enum Policy {
    /// RocksDB's own filters.
    Builtin,
    /// Filter blocks of this crate. The value is `None` until the first block has been checked.
    Native(Option<NativeFilters>),
}

impl Policy {
    /// Returns the policy with this name in the metaindex, or `None` if it is unknown.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            BUILTIN => Some(Self::Builtin),
            NATIVE_POLICY => Some(Self::Native(None)),
            _ => None,
        }
    }

    /// Checks `filter`, which begins at `offset` of the file. Keeps the hasher of the first filter
    /// block of this crate. Every filter of RocksDB passes.
    pub(super) fn check(&mut self, filter: &[u8], offset: u64) -> Result<()> {
        if let Self::Native(known) = self {
            let found = NativeFilters::check(filter, offset)?;
            known.get_or_insert(found);
        }
        Ok(())
    }

    /// Returns whether `filter` may contain `entry`, a key or a prefix.
    #[inline]
    pub(super) fn may_contain(&self, filter: &[u8], entry: &[u8]) -> bool {
        match self {
            Self::Builtin => RocksDbFilter::new(filter).may_contain(entry),
            Self::Native(known) => known.as_ref().is_none_or(|native| native.may_contain(filter, entry)),
        }
    }
}
