//! Builds blocks of filterblock, and reads and edits their bytes by docs/FORMAT.md alone.

use filterblock::{FilterOptions, FilterSpec, HashSeed, KeyHash};

pub const SEED: HashSeed = HashSeed(0x5eed);
pub const TABLE: [u8; 16] = *b"the tested table";

const PAGE_LEN: usize = 4096;
const TRAILER_LEN: usize = 60;
/// The fields of the trailer with their lengths: section 3.
const FIELDS: [(&str, usize); 14] = [
    ("table id", 16),
    ("seed", 8),
    ("num keys", 6),
    ("payload len", 6),
    ("page checksums", 4),
    ("partition", 4),
    ("params", 3),
    ("extension len", 1),
    ("kind", 1),
    ("hash id", 1),
    ("flags", 1),
    ("version", 1),
    ("checksum", 4),
    ("magic", 4),
];

/// The random numbers by which the constants of the format were chosen: section 7.
pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

pub fn spec(text: &str) -> FilterSpec {
    text.parse().unwrap()
}

pub fn key(i: usize) -> Vec<u8> {
    format!("key-{i:08}").into_bytes()
}

pub fn hash(i: usize) -> KeyHash {
    KeyHash::of(&key(i), SEED)
}

/// Builds a block of the keys `0..n`.
pub fn block(spec_text: &str, n: usize) -> Vec<u8> {
    let mut builder = FilterOptions::new(spec(spec_text)).table_id(TABLE).builder(SEED).unwrap();
    (0..n).for_each(|i| builder.add_hash(hash(i)));
    builder.finish().unwrap().bytes
}

/// Returns the offset of a field in the trailer, and its length.
fn place(name: &str) -> (usize, usize) {
    let number = FIELDS.iter().position(|(found, _)| *found == name).unwrap();
    (FIELDS[..number].iter().map(|(_, len)| len).sum(), FIELDS[number].1)
}

pub fn field<'a>(block: &'a [u8], name: &str) -> &'a [u8] {
    let (offset, len) = place(name);
    &block[block.len() - TRAILER_LEN + offset..][..len]
}

pub fn get_number(block: &[u8], name: &str) -> u64 {
    field(block, name).iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

pub fn put_number(block: &mut [u8], name: &str, number: u64) {
    let (offset, len) = place(name);
    let at = block.len() - TRAILER_LEN + offset;
    block[at..at + len].copy_from_slice(&number.to_le_bytes()[..len]);
}

/// Returns the length of the payload, if the payload, its page checksums and the extension fit in front
/// of the trailer.
pub fn payload_len(block: &[u8]) -> Option<usize> {
    let payload = usize::try_from(get_number(block, "payload len")).ok()?;
    let behind = payload.div_ceil(PAGE_LEN).checked_mul(4)? + get_number(block, "extension len") as usize;
    (payload.checked_add(behind)? <= block.len() - TRAILER_LEN).then_some(payload)
}

/// Computes the checksum of the page checksums and that of the trailer anew.
pub fn repair_trailer(block: &mut [u8]) {
    let end = block.len() - TRAILER_LEN;
    let extension = end - get_number(block, "extension len") as usize;
    let pages = payload_len(block).unwrap().div_ceil(PAGE_LEN);
    let of_pages = crc32fast::hash(&block[extension - pages * 4..extension]);
    put_number(block, "page checksums", of_pages.into());
    let mut checksum = crc32fast::Hasher::new_with_initial(of_pages);
    checksum.update(&block[extension..end + place("checksum").0]);
    put_number(block, "checksum", checksum.finalize().into());
}

/// Adds an extension to a block without one, sets the flags, and repairs the trailer's checksums.
pub fn with_extension(mut block: Vec<u8>, flags: u8, extension: &[u8]) -> Vec<u8> {
    let trailer = block.split_off(block.len() - TRAILER_LEN);
    block.extend_from_slice(extension);
    block.extend_from_slice(&trailer);
    put_number(&mut block, "extension len", extension.len() as u64);
    put_number(&mut block, "flags", flags.into());
    repair_trailer(&mut block);
    block
}
