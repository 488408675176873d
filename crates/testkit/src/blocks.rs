//! Builds and edits filter blocks.

use crate::Random;
use filterblock::layout::{FIELDS, PAGE_LEN_BYTES, TRAILER_LEN_BYTES, offset_of, stated_len_bytes};
use filterblock::{
    Field, FilterKind, FilterOptions, FilterSpec, HashSeed, KeyHash, KeyHasher, Verify, WholeKeys,
    partitions::PartitionedBuilder,
};

pub const SEED: HashSeed = HashSeed(0x5eed);
pub const TABLE: [u8; 16] = *b"the tested table";
pub const BOTH: [Verify; 2] = [Verify::AtOpen, Verify::OnFirstTouch];

/// Specifications of every kind except `grafite`, with each form that a filter of the kind can have.
pub const SPECS: [&str; 16] = [
    "always-maybe",
    "bloom:10",
    "blocked-bloom:10",
    "split-block:10",
    "split-block-512:10",
    "binary-fuse:8",
    "binary-fuse:12",
    "binary-fuse:16",
    "ribbon:8",
    "ribbon:7.3",
    "bumped-ribbon:8",
    "bumped-ribbon:3.7",
    "bumped-ribbon:12.3",
    "bumped-ribbon:20",
    "bumped-ribbon:fpr=0.01",
    "bumped-ribbon:8:compact",
];

/// Returns the i-th key. Keys ascend with `i`.
pub fn key(i: usize) -> Vec<u8> {
    format!("key-{i:08}").into_bytes()
}

pub fn hash(i: usize) -> KeyHash {
    KeyHash::of(&key(i), SEED)
}

pub fn spec(text: &str) -> FilterSpec {
    text.parse().unwrap()
}

/// Returns a block of the keys `0..n`.
pub fn block(spec_text: &str, n: usize) -> Vec<u8> {
    block_of(spec_text, 0..n, TABLE)
}

pub fn block_of(spec_text: &str, keys: std::ops::Range<usize>, table_id: [u8; 16]) -> Vec<u8> {
    let mut builder = FilterOptions::new(spec(spec_text)).table_id(table_id).builder(SEED).unwrap();
    keys.for_each(|i| builder.add_hash(hash(i)));
    builder.finish().unwrap().bytes
}

/// Returns a block of the given keys.
pub fn built(
    options: &FilterOptions,
    hasher: impl Into<KeyHasher>,
    keys: impl IntoIterator<Item: AsRef<[u8]>>,
) -> Vec<u8> {
    let mut builder = options.builder(hasher).unwrap();
    keys.into_iter().for_each(|key| builder.add(builder.hasher().key(key.as_ref())));
    builder.finish().unwrap().bytes
}

/// Returns a partitioned block of the given keys, with `partition_keys` keys per partition.
pub fn built_in_partitions(
    options: &FilterOptions,
    hasher: impl Into<KeyHasher>,
    partition_keys: usize,
    keys: impl IntoIterator<Item: AsRef<[u8]>>,
) -> Vec<u8> {
    let mut builder = PartitionedBuilder::new(options, hasher, partition_keys).unwrap();
    keys.into_iter().for_each(|key| builder.add(builder.hasher().key(key.as_ref())).unwrap());
    builder.finish().unwrap().bytes
}

/// Returns a partitioned block of the keys `0..n`.
pub fn partitioned(spec_text: &str, n: usize, partition_keys: usize) -> Vec<u8> {
    built_in_partitions(&FilterOptions::new(spec(spec_text)).table_id(TABLE), SEED, partition_keys, (0..n).map(key))
}

/// Returns the index at the end of a partitioned block.
pub fn index_of(block: &[u8]) -> &[u8] {
    &block[block.len() - stated_len_bytes(block).unwrap() as usize..]
}

/// Returns the bytes of a trailer field of the block that ends where `block` ends.
pub fn field(block: &mut [u8], field: Field) -> &mut [u8] {
    let len = FIELDS.iter().find(|(name, _)| *name == field).unwrap().1;
    let at = block.len() - TRAILER_LEN_BYTES + offset_of(field);
    &mut block[at..at + len]
}

pub fn get_number(block: &[u8], name: Field) -> u64 {
    field(&mut block.to_vec(), name).iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Writes the low bytes of `number` to a field: as many as the field has, and at most 8.
pub fn put_number(block: &mut [u8], name: Field, number: u64) {
    let bytes = field(block, name);
    let number = number.to_le_bytes();
    let len = bytes.len().min(8);
    bytes[..len].copy_from_slice(&number[..len]);
}

/// Returns the payload length that the trailer states. Returns `None` if such a payload, its page
/// checksums and the extension do not fit in front of the trailer.
pub fn payload_len(block: &[u8]) -> Option<usize> {
    let payload = usize::try_from(get_number(block, Field::PayloadLen)).ok()?;
    let tail = payload.div_ceil(PAGE_LEN_BYTES).checked_mul(4)? + get_number(block, Field::ExtensionLen) as usize;
    (payload.checked_add(tail)? <= block.len() - TRAILER_LEN_BYTES).then_some(payload)
}

/// Recomputes the checksum of the page checksums and the trailer's checksum. If [`payload_len`]
/// returns `None`, the checksum of the page checksums stays as it is. If the extension does not fit
/// in front of the trailer, nothing changes.
pub fn repair_trailer(block: &mut [u8]) {
    let end = block.len() - TRAILER_LEN_BYTES;
    let Some(extension) = end.checked_sub(get_number(block, Field::ExtensionLen) as usize) else { return };
    if let Some(payload) = payload_len(block) {
        let checksum = crc32fast::hash(&block[extension - payload.div_ceil(PAGE_LEN_BYTES) * 4..extension]);
        put_number(block, Field::PageChecksums, checksum.into());
    }
    let mut checksum = crc32fast::Hasher::new_with_initial(get_number(block, Field::PageChecksums) as u32);
    checksum.update(&block[extension..end + offset_of(Field::Checksum)]);
    put_number(block, Field::Checksum, checksum.finalize().into());
}

/// Recomputes the page checksums and then the trailer's checksums, unless [`payload_len`] returns
/// `None`.
pub fn repair_pages(block: &mut [u8]) {
    let Some(payload) = payload_len(block) else { return };
    let extension = get_number(block, Field::ExtensionLen) as usize;
    let checksums = block.len() - TRAILER_LEN_BYTES - extension - payload.div_ceil(PAGE_LEN_BYTES) * 4;
    let identity: Vec<u8> = [field(block, Field::TableId).to_vec(), field(block, Field::PartitionNumber).to_vec()]
        .into_iter()
        .flatten()
        .collect();
    for (i, from) in (checksums - payload..checksums).step_by(PAGE_LEN_BYTES).enumerate() {
        let mut bytes = identity.clone();
        bytes.extend_from_slice(&(i as u64).to_le_bytes());
        bytes.extend_from_slice(&block[from..checksums.min(from + PAGE_LEN_BYTES)]);
        let checksum = crc32fast::hash(&bytes).to_le_bytes();
        block[checksums + i * 4..][..4].copy_from_slice(&checksum);
    }
    repair_trailer(block);
}

/// Adds an extension to a block without one, sets the flags, and repairs the trailer's checksums.
pub fn with_extension(mut block: Vec<u8>, flags: u8, extension: &[u8]) -> Vec<u8> {
    let trailer = block.split_off(block.len() - TRAILER_LEN_BYTES);
    block.extend_from_slice(extension);
    block.extend_from_slice(&trailer);
    put_number(&mut block, Field::ExtensionLen, extension.len() as u64);
    put_number(&mut block, Field::Flags, flags.into());
    repair_trailer(&mut block);
    block
}

/// Makes one to four random edits, and usually repairs the checksums after an edit.
pub fn mutate(block: &mut Vec<u8>, random: &mut Random) {
    const BOUNDARY_VALUES: [u64; 16] = [
        0,
        1,
        2,
        9,
        31,
        64,
        255,
        256,
        4095,
        4096,
        u32::MAX as u64,
        1 << 32,
        i64::MAX as u64,
        u64::MAX - 63,
        u64::MAX - 4096,
        u64::MAX,
    ];
    for _ in 0..=random.index(4) {
        let end = block.len() - TRAILER_LEN_BYTES;
        match random.index(8) {
            // Edits any field except the magic.
            0..=3 => {
                let name = FIELDS[random.index(FIELDS.len() - 1)].0;
                let old = get_number(block, name);
                let number = match random.index(4) {
                    0 => old.wrapping_add(1),
                    1 => old.wrapping_sub(1),
                    2 => BOUNDARY_VALUES[random.index(BOUNDARY_VALUES.len())],
                    _ => random.next(),
                };
                put_number(block, name, number);
            }
            4 if end > 0 => block[random.index(end)] = random.next() as u8,
            5 if end > 0 => drop(block.splice(..random.index(end), [])),
            6 => {
                let extra = vec![random.next() as u8; random.index(300)];
                block.splice(end..end, extra);
            }
            _ => {
                let fitting = end.saturating_sub(random.index(2) * 4) as u64;
                put_number(block, Field::PayloadLen, fitting);
            }
        }
        match random.index(4) {
            0 => {}
            1 => repair_trailer(block),
            _ => repair_pages(block),
        }
    }
}

/// Returns the sound blocks that mutations start from.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut prefixes =
        FilterOptions::new(spec("bloom:8")).prefixes_by_host("first-4-bytes", WholeKeys::Too).builder(SEED).unwrap();
    (0..50).for_each(|i| prefixes.add(prefixes.hasher().key(&key(i))));
    vec![
        block("bloom:10", 0),
        block("always-maybe", 3),
        block("bloom:10", 100),
        block("bloom:10", 9_000),
        block("blocked-bloom:10", 100),
        block("blocked-bloom:16", 5_000),
        block("split-block:10", 100),
        block("split-block-512:16", 3_000),
        block("binary-fuse:8", 40),
        block("binary-fuse:12", 3_000),
        block("ribbon:8", 100),
        block("ribbon:fpr=0.003", 3_000),
        block("bumped-ribbon:8", 100),
        block("bumped-ribbon:fpr=0.003", 3_000),
        prefixes.finish().unwrap().bytes,
        partitioned("blocked-bloom:10", 1_000, 100),
        partitioned("always-maybe", 64, 1),
        partitioned("bloom:10", 0, 10),
    ]
}

/// Returns the kinds that filter keys with a budget. The list of filters decides which they are, so
/// a new filter is tested.
pub fn kinds_of_keys() -> impl Iterator<Item = FilterKind> {
    FilterKind::ALL.into_iter().filter(|&kind| FilterSpec::of_lowest_fpr(kind).is_some() && kind != FilterKind::Grafite)
}
