//! The policies whose filters in LevelDB tables can be read.

use crate::block::compact;
use crate::foreign::ForeignFilterInfo;
use crate::hash::KeyHasher;

use super::bloom::LevelDbBloom;

/// LevelDB's own Bloom filter.
pub(super) const BUILTIN: &str = "leveldb.BuiltinBloomFilter2";

/// The name of compact filters of this crate ([`compact`]), which `integrations/leveldb` stores. The
/// number is the version of the compact form.
pub const NATIVE_POLICY: &str = "filterblock.compact.v1";

/// The rules by which the filters of a table are asked.
#[derive(Debug, Clone)]
pub(super) enum Policy {
    /// LevelDB's own Bloom filters.
    Builtin,
    /// Compact filters of this crate. They do not store the hasher of their keys.
    Native(KeyHasher),
}

impl Policy {
    /// Returns the policy with this name in the metaindex, or `None` if it is unknown.
    pub(super) fn from_name(name: &[u8], hasher: &KeyHasher) -> Option<Self> {
        if name == BUILTIN.as_bytes() {
            return Some(Self::Builtin);
        }
        (name == NATIVE_POLICY.as_bytes()).then(|| Self::Native(hasher.clone()))
    }

    /// Returns whether `filter` may contain `key`. A compact filter that is damaged or of another
    /// hasher answers "maybe".
    #[inline]
    pub(super) fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        match self {
            Self::Builtin => LevelDbBloom::new(filter).may_contain(key),
            Self::Native(hasher) => compact::ask(filter, hasher, hasher.of(key)).may_contain(),
        }
    }

    /// Returns whether queries can use `filter`. A filter of LevelDB has no checksum, so queries
    /// can use every such filter.
    pub(super) fn can_use(&self, filter: &[u8]) -> bool {
        match self {
            Self::Builtin => true,
            Self::Native(hasher) => compact::check(filter, hasher).is_ok(),
        }
    }

    /// Returns the properties of `filter`. This reads all its bytes.
    pub(super) fn info(&self, filter: &[u8]) -> ForeignFilterInfo {
        match self {
            Self::Builtin => LevelDbBloom::new(filter).info(),
            Self::Native(_) => ForeignFilterInfo::compact(filter),
        }
    }
}
