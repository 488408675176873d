//! Asks the filters of LevelDB tables by the rules of the known filter policies.

use crate::ForeignFilterInfo;
use filterblock::KeyHasher;
use filterblock::compact;

use super::bloom::LevelDbBloom;

pub(super) const BUILTIN: &str = "leveldb.BuiltinBloomFilter2";

/// The name of the policy of this crate's filters in the compact form ([`compact`]), which
/// `integrations/leveldb` stores. The number in the name is the version of the compact form.
pub const NATIVE_POLICY: &str = "filterblock.compact.v1";

/// The rules by which the filters of a table are asked.
#[derive(Debug, Clone)]
pub(super) enum Policy {
    /// LevelDB's own Bloom filters.
    Builtin,
    /// Filters of this crate in the compact form, and the hasher of their keys. The filters do not
    /// store the hasher.
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

    /// Returns whether `filter` may contain `key`. A filter in the compact form answers "maybe" if
    /// [`Self::can_use`] returns `false`.
    #[inline]
    pub(super) fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        match self {
            Self::Builtin => LevelDbBloom::new(filter).may_contain(key),
            Self::Native(hasher) => compact::ask(filter, hasher, hasher.of(key)).must_read(),
        }
    }

    pub(super) fn can_use(&self, filter: &[u8]) -> bool {
        match self {
            Self::Builtin => true,
            Self::Native(hasher) => compact::check(filter, hasher).is_ok(),
        }
    }

    pub(super) fn info(&self, filter: &[u8]) -> ForeignFilterInfo {
        match self {
            Self::Builtin => LevelDbBloom::new(filter).info(),
            Self::Native(_) => ForeignFilterInfo::compact(filter),
        }
    }
}
