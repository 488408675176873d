//! Builds tables of LevelDB and RocksDB with valid checksums, and Parquet files, from any parts.

/// The location of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    pub offset: u64,
    pub len: u64,
}

impl Handle {
    pub fn bytes(self) -> Vec<u8> {
        [varint(self.offset), varint(self.len)].concat()
    }
}

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Returns the masked CRC-32C, computed bit by bit and without the crate that the readers use.
fn masked_crc32c(bytes: &[u8]) -> u32 {
    let crc = bytes
        .iter()
        .fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ (0x82f6_3b78 * (crc & 1))));
    (!crc).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Writes the checksum of a block whose content begins at `start` and has `len` bytes.
pub fn seal(bytes: &mut [u8], start: usize, len: usize) {
    let end = start + len + 1;
    let checksum = masked_crc32c(&bytes[start..end]);
    bytes[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns a block of entries with a restart point at each entry.
pub fn block<K: AsRef<[u8]>, V: AsRef<[u8]>>(entries: &[(K, V)]) -> Vec<u8> {
    let (mut bytes, mut restarts) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        restarts.push(bytes.len() as u32);
        let (key, value) = (key.as_ref(), value.as_ref());
        bytes.extend([varint(0), varint(key.len() as u64), varint(value.len() as u64)].concat());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    restarts.iter().for_each(|restart| bytes.extend(restart.to_le_bytes()));
    bytes.extend((restarts.len() as u32).to_le_bytes());
    bytes
}

/// Returns a user key as a database stores it, for a value with sequence number `number`.
pub fn internal(user_key: &[u8], number: u64) -> Vec<u8> {
    [user_key, &(number << 8 | 1).to_le_bytes()].concat()
}

/// Writes blocks one after another. The footer makes the bytes a table of LevelDB or of RocksDB.
#[derive(Debug, Default, Clone)]
pub struct Forge {
    pub bytes: Vec<u8>,
}

impl Forge {
    pub fn block(&mut self, content: &[u8], compression: u8) -> Handle {
        let handle = Handle { offset: self.bytes.len() as u64, len: content.len() as u64 };
        let covered = [content, &[compression]].concat();
        self.bytes.extend_from_slice(&covered);
        self.bytes.extend(masked_crc32c(&covered).to_le_bytes());
        handle
    }

    fn handles(&mut self, metaindex: Handle, index: Handle) {
        let end = self.bytes.len() + 40;
        self.bytes.extend(metaindex.bytes());
        self.bytes.extend(index.bytes());
        self.bytes.resize(end, 0);
    }

    pub fn leveldb(mut self, metaindex: Handle, index: Handle) -> Vec<u8> {
        self.handles(metaindex, index);
        self.bytes.extend(0xdb47_7524_8b80_fb57_u64.to_le_bytes());
        self.bytes
    }

    pub fn rocksdb(mut self, version: u32, metaindex: Handle, index: Handle) -> Vec<u8> {
        // The checksum type: CRC-32C.
        self.bytes.push(1);
        self.handles(metaindex, index);
        self.bytes.extend(version.to_le_bytes());
        self.bytes.extend(0x88e2_41b7_85f4_cff7_u64.to_le_bytes());
        self.bytes
    }

    /// Writes the properties and the metaindex of RocksDB. The properties state that the index has
    /// whole handles and user keys, and that the index type is `index_kind`.
    pub fn rocksdb_metaindex(&mut self, index_kind: u32, filter: Option<(&str, Handle)>) -> Handle {
        let kind = index_kind.to_le_bytes();
        let properties: [(&str, &[u8]); 4] = [
            ("rocksdb.block.based.table.index.type", &kind),
            ("rocksdb.comparator", b"leveldb.BytewiseComparator"),
            ("rocksdb.index.key.is.user.key", &[1]),
            ("rocksdb.index.value.is.delta.encoded", &[0]),
        ];
        let properties = self.block(&block(&properties), 0);
        let mut entries: Vec<(&str, Vec<u8>)> = filter.iter().map(|(name, handle)| (*name, handle.bytes())).collect();
        entries.push(("rocksdb.properties", properties.bytes()));
        self.block(&block(&entries), 0)
    }
}

pub const LEVELDB_FILTER: &str = "filter.leveldb.BuiltinBloomFilter2";
pub const FULL_FILTER: &str = "fullfilter.rocksdb.BuiltinBloomFilter";
pub const PARTITIONED_FILTER: &str = "partitionedfilter.rocksdb.BuiltinBloomFilter";

/// Returns the start of a file's metadata up to the list of row groups: a schema with columns of
/// byte arrays at these paths, and 0 as the number of rows.
pub fn parquet_schema(paths: &[&[&str]]) -> Vec<u8> {
    let named = |name: &str| [&varint(name.len() as u64)[..], name.as_bytes()].concat();
    // The name (4) and the number of children (5).
    let group = |name: &str, children: usize| [&[0x48][..], &named(name), &[0x15, children as u8 * 2, 0]].concat();
    let (mut elements, mut num) = (group("root", paths.len()), 1);
    for path in paths {
        let (leaf, groups) = path.split_last().unwrap();
        groups.iter().for_each(|name| elements.extend(group(name, 1)));
        elements.extend([&[0x15, 12, 0x38][..], &named(leaf), &[0]].concat());
        num += path.len();
    }
    [&[0x29, (num as u8) << 4 | 12][..], &elements, &[0x16, 0]].concat()
}

/// Returns a Parquet file with one row group and columns of byte arrays. An element of `columns`
/// has the names of the column's path, its filter, and whether it is encrypted.
pub fn parquet_file(columns: &[(&[&str], Vec<u8>, bool)]) -> Vec<u8> {
    let (mut bytes, mut chunks) = (b"PAR1".to_vec(), Vec::new());
    for (names, filter, is_encrypted) in columns {
        let offset = bytes.len() as u64;
        bytes.extend(filter);
        // Field 3: type (1), encodings (2), path (3), codec (4), values (5), lengths (6, 7), pages
        // (9), filter (14). Field 8: the encryption.
        chunks.extend([0x3c, 0x15, 12, 0x19, 0x15, 0, 0x19, (names.len() as u8) << 4 | 8]);
        names.iter().for_each(|name| chunks.extend([&varint(name.len() as u64)[..], name.as_bytes()].concat()));
        chunks.extend([&[0x15, 0, 0x16, 2, 0x16, 2, 0x16, 2, 0x26, 8, 0x56][..], &varint(offset * 2), &[0]].concat());
        chunks.extend(if *is_encrypted { &[0x5c, 0x1c, 0, 0, 0][..] } else { &[0] });
    }
    // Field 4 is a list of one row group. Field 1 of the row group is a list of column chunks.
    let metadata = [&[0x19, 0x1c, 0x19, (columns.len() as u8) << 4 | 12][..], &chunks, &[0, 0]].concat();
    let paths: Vec<&[&str]> = columns.iter().map(|(names, ..)| *names).collect();
    let metadata = [parquet_schema(&paths), metadata].concat();
    bytes.extend(&metadata);
    bytes.extend((metadata.len() as u32).to_le_bytes());
    bytes.extend(b"PAR1");
    bytes
}

/// Returns a table of RocksDB and one of LevelDB. Their index has `partitions` entries: the first
/// stores a key of 100 kB, and each further entry repeats this key in a few bytes.
pub fn repeating(partitions: u64) -> [Vec<u8>; 2] {
    let key = vec![b'k'; 100_000];
    let mut forge = Forge::default();
    let mut content = [&varint(0)[..], &varint(key.len() as u64)].concat();
    for number in 0..partitions {
        let partition = forge.block(&[], 0).bytes();
        match number {
            0 => content.extend([&varint(partition.len() as u64)[..], &key, &partition].concat()),
            _ => content
                .extend([varint(key.len() as u64), varint(0), varint(partition.len() as u64), partition].concat()),
        }
    }
    content.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    let place = forge.block(&content, 0);
    let metaindex = forge.rocksdb_metaindex(0, Some((PARTITIONED_FILTER, place)));
    let rocksdb = forge.clone().rocksdb(5, metaindex, place);
    let metaindex = forge.block(&block::<&[u8], &[u8]>(&[]), 0);
    [rocksdb, forge.leveldb(metaindex, place)]
}
