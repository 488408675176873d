//! What a host stores beside the offset of a filter block.

use super::builder::Built;
use super::expected::Expected;
use crate::codec::crc32;
use crate::codec::{Cursor, put_u32, put_u64};
use crate::error::{Error, Field, Result};
use crate::hash::{HashIdentity, HashSeed, KeyHasher};
use crate::hash_kind::HashKind;

/// What the footer of an SST must hold about its filter block: where the block lies, and what no block
/// can know about itself. A block of another SST, a stale block, or a block of other keys does not
/// open under a handle.
///
/// [`encode`](Self::encode) gives a fixed number of bytes with a version and a checksum of their own.
/// docs/FORMAT.md defines them.
///
/// ```
/// use filterblock::{FilterBlock, FilterHandle, FilterOptions, HashSeed, KeyHasher, Verify};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
/// let mut builder = FilterOptions::new("blocked-bloom:10".parse()?).table_id(table_id).builder(&hasher)?;
/// builder.add(hasher.key(b"apple"));
/// let built = builder.finish()?;
///
/// // The writer appends the block at offset 4096 of the SST, and the handle to the footer.
/// let footer = FilterHandle::of(&built, 4096, 1).encode();
///
/// let handle = FilterHandle::decode(&footer)?;
/// assert_eq!((handle.offset, handle.len_bytes), (4096, built.bytes.len() as u64));
/// let filter = FilterBlock::open(built.bytes, &handle.expected(table_id, &hasher), Verify::AtOpen)?;
/// assert!(filter.may_contain(hasher.key(b"apple")));
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterHandle {
    /// The table id: see [`FilterOptions::table_id`](super::FilterOptions::table_id).
    pub table_id: [u8; 16],
    /// The offset of the block in the host's file, in bytes.
    pub offset: u64,
    /// The length of the block in bytes.
    pub len_bytes: u64,
    /// The number of entries of the SST, tombstones included.
    pub num_entries: u64,
    /// The checksum of the block: see [`Built::checksum`].
    pub checksum: u32,
    /// The hash function of the keys.
    pub hash: HashKind,
    /// The seed of the hash function.
    pub seed: HashSeed,
}

/// The version of the bytes.
const VERSION: u8 = 1;

impl FilterHandle {
    /// The length of the encoded handle.
    pub const LEN_BYTES: usize = 58;

    /// Returns the handle of a block that the host writes at `offset` of its file. The SST has
    /// `num_entries` entries, tombstones included.
    #[must_use]
    pub fn of(built: &Built, offset: u64, num_entries: u64) -> Self {
        let &Built { table_id, hash: HashIdentity { kind: hash, seed, .. }, checksum, .. } = built;
        Self { table_id, offset, len_bytes: built.bytes.len() as u64, num_entries, checksum, hash, seed }
    }

    /// Returns the expectations under which the block opens. `table_id` is the id of the SST that the
    /// host opens. The host knows it from its manifest or from the name of the file. If a handle and its
    /// block lie in the wrong SST, the handle's own id detects nothing, and neither does an id of zeros.
    /// `hasher` is the host's hasher.
    #[must_use]
    pub fn expected<'a>(&self, table_id: [u8; 16], hasher: &'a KeyHasher) -> Expected<'a> {
        let expected = Expected::of_table(table_id, hasher).with_num_entries(self.num_entries);
        expected.with_checksum(self.checksum).at_offset(self.offset)
    }

    /// Returns the bytes to store.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN_BYTES] {
        let mut bytes = Vec::with_capacity(Self::LEN_BYTES);
        bytes.push(VERSION);
        bytes.push(self.hash as u8);
        bytes.extend_from_slice(&self.table_id);
        for number in [self.seed.0, self.offset, self.len_bytes, self.num_entries] {
            put_u64(&mut bytes, number);
        }
        put_u32(&mut bytes, self.checksum);
        let checksum = crc32(&bytes);
        put_u32(&mut bytes, checksum);
        let mut encoded = [0; Self::LEN_BYTES];
        encoded.copy_from_slice(&bytes);
        encoded
    }

    /// Reads the bytes that [`encode`](Self::encode) returned. Offsets in errors count from the start
    /// of `bytes`.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for a newer version or an unknown hash function, and
    /// [`Error::ChecksumMismatch`] or [`Error::Corrupt`] for other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, 0);
        let version = cursor.take_u8(Field::Version)?;
        // A newer version may have another length and another checksum.
        if version > VERSION {
            return Err(Error::Unsupported { field: Field::Version, found: version.into() });
        }
        if bytes.len() != Self::LEN_BYTES {
            return Err(Error::Corrupt { field: Field::Length, offset: 0 });
        }
        let hash = cursor.take_u8(Field::HashId)?;
        let table_id = cursor.take_array(Field::TableId)?;
        let seed = HashSeed(cursor.take_u64(Field::Seed)?);
        let offset = cursor.take_u64(Field::Handle)?;
        let len_bytes = cursor.take_u64(Field::PayloadLen)?;
        let num_entries = cursor.take_u64(Field::NumKeys)?;
        let checksum = cursor.take_u32(Field::Checksum)?;
        let end = cursor.offset();
        let stored = cursor.take_u32(Field::Handle)?;
        let computed = crc32(bytes.get(..Self::LEN_BYTES - 4).unwrap_or_default());
        if stored != computed {
            return Err(Error::ChecksumMismatch { field: Field::Handle, offset: end, stored, computed });
        }
        if version == 0 {
            return Err(Error::Corrupt { field: Field::Version, offset: 0 });
        }
        let unknown = Error::Unsupported { field: Field::HashId, found: hash.into() };
        let hash = HashKind::from_id(hash).ok_or(unknown)?;
        Ok(Self { table_id, offset, len_bytes, num_entries, checksum, hash, seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: FilterHandle = FilterHandle {
        table_id: *b"table 0000000012",
        offset: 0x0102_0304_0506_0708,
        len_bytes: 12_345,
        num_entries: u64::MAX,
        checksum: 0xdead_beef,
        hash: HashKind::SipHash13,
        seed: HashSeed(42),
    };

    #[test]
    fn handles_survive_a_round_trip_and_no_change() {
        let bytes = HANDLE.encode();
        assert_eq!(FilterHandle::decode(&bytes).unwrap(), HANDLE);
        for i in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes;
                changed[i] ^= 1 << bit;
                assert!(FilterHandle::decode(&changed).is_err(), "bit {bit} of byte {i}");
            }
            assert!(FilterHandle::decode(&bytes[..i]).is_err());
        }
        assert!(FilterHandle::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
        assert!(FilterHandle::decode(&[0; FilterHandle::LEN_BYTES]).is_err());
    }

    #[test]
    fn newer_versions_and_hash_functions_are_unsupported() {
        for (at, value, field) in [(0, 2, Field::Version), (1, 9, Field::HashId)] {
            let mut bytes = HANDLE.encode();
            bytes[at] = value;
            let end = bytes.len() - 4;
            let checksum = crc32(&bytes[..end]);
            bytes[end..].copy_from_slice(&checksum.to_le_bytes());
            let error = FilterHandle::decode(&bytes).unwrap_err();
            assert!(matches!(error, Error::Unsupported { field: found, .. } if found == field), "{error}");
        }
    }
}
