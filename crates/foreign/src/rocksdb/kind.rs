//! Names the layouts of a full filter, and defines the length and the first byte of its trailer.

pub(super) const TRAILER_LEN_BYTES: usize = 5;
/// The first byte of the trailer of a [`RocksDbFilterKind::FastLocalBloom`] filter.
pub(super) const NEW_BLOOM: u8 = 0xff;
/// The first byte of the trailer of a [`RocksDbFilterKind::Ribbon128`] filter.
pub(super) const RIBBON: u8 = 0xfe;

/// The layouts of a full filter in RocksDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RocksDbFilterKind {
    /// The Bloom filter of Pebble and of tables of `format_version` 4 and older. Its line has the
    /// length of a cache line of the machine that wrote the filter, mostly 64 bytes. Its hash has
    /// 32 bits.
    LegacyBloom,
    /// `FastLocalBloom`: the Bloom filter of tables of `format_version` 5 and newer, in lines of 64
    /// bytes.
    FastLocalBloom,
    /// `Standard128Ribbon`: a ribbon filter with rows of 128 bits.
    Ribbon128,
}

impl RocksDbFilterKind {
    /// Returns the name that the command prints.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LegacyBloom => "rocksdb-legacy-bloom",
            Self::FastLocalBloom => "rocksdb-bloom",
            Self::Ribbon128 => "rocksdb-ribbon",
        }
    }
}
