//! Asks filter blocks of this crate that an adapter stored in the tables of another engine.

use filterblock::{Expected, ParsedBlock, VerifiedFilter, Verify};
use filterblock::{HashIdentity, KeyHasher, Secret};

use super::error::Result;

/// The hasher of the filter blocks of one table.
#[derive(Debug, Clone)]
pub(super) struct NativeFilters {
    hash: HashIdentity,
    /// The hasher, or `None` if the keys were hashed with a secret that is not known.
    hasher: Option<KeyHasher>,
}

impl NativeFilters {
    /// Verifies the filter block in `bytes`, which begin at `offset` of the file, and reads its
    /// hash identity.
    pub(super) fn check(bytes: &[u8], offset: u64) -> Result<Self> {
        let block = ParsedBlock::open(bytes, Verify::AtOpen).map_err(|error| error.moved_by(offset))?;
        let hash = block.metadata().hash;
        Ok(Self { hash, hasher: hash.hasher(None).ok() })
    }

    pub(super) fn hash(&self) -> HashIdentity {
        self.hash
    }

    pub(super) fn unlock(&mut self, secret: &Secret) -> Result<()> {
        self.hasher = Some(self.hash.hasher(Some(secret))?);
        Ok(())
    }

    /// Returns whether the filter block in `bytes` may contain `entry`, a key or a prefix. The
    /// answer is "maybe" if the secret is not known, or if the block does not open, for example
    /// because it has another hasher.
    ///
    /// [`NativeFilters::check`] has verified the bytes of all filter blocks of the table.
    pub(super) fn may_contain(&self, bytes: &[u8], entry: &[u8]) -> bool {
        let Some(hasher) = &self.hasher else { return true };
        VerifiedFilter::open(bytes, &Expected::of_any_table(hasher))
            .map_or(true, |filter| filter.may_contain(hasher.key(entry)))
    }
}
