//! Encodes and decodes the file format of a filter in a file.
//!
//! ```text
//! page 0          header: never changes           | magic 8 | version 1 | probes 1 | zeros 6 | id 8 | bits 8 | seed 8 |
//!                                                 | capacity 8 | FPR 8, as a double | zeros |
//! page 1          state: changes with each sync   | status 1 | length 8 | random 8 | zeros |
//! page 2, 3, ..   4,032 bits each                 bit i in page 2 + i / 4032
//! ```
//! The length is the number of keys. Its status is 0 if it is known, 1 if it is unknown after a
//! union or an intersection, and 2 if it is unknown after damage. Every write of the state has a
//! new random number. This number lets a writer tell its own state from an older copy with the same
//! number of keys.
//!
//! A page is a disk sector: 504 bytes and their XXH3-64 checksum. The seed of the checksum is the
//! file's id plus the page's number, and 0 for the header. Each file has a random id. So if the
//! file system returns a page of an earlier file in place of a page of this file, the checksum
//! fails. All integers are little endian.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};

use crate::Bloom;
use crate::error::{Error, Field, Result};
use crate::shape::Shape;
use filterblock::internals::codec::{Cursor, put_u64, u64_bytes, u64_from};
use filterblock::{HashSeed, KeyHash};

/// The length of a page: one disk sector. We assume that a disk writes a sector completely or not
/// at all; the checksum detects exceptions.
pub(super) const PAGE_LEN_BYTES: usize = 512;
const CONTENT_LEN_BYTES: usize = PAGE_LEN_BYTES - 8;
pub(super) const WORDS_PER_PAGE: usize = CONTENT_LEN_BYTES / 8;
/// The number of the first page of bits.
const FIRST: u64 = 2;

/// The first byte is not ASCII, so no ASCII text has this magic.
const MAGIC: [u8; 8] = *b"\x89FLBfile";
const VERSION: u8 = 1;
/// The id in the seed of the header's checksum. A reader verifies the header before it knows the
/// file's id.
const OF_HEADER: u64 = 0;

pub(super) type Page = [u8; PAGE_LEN_BYTES];

/// The properties of a file that never change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Header {
    pub(super) id: u64,
    pub(super) shape: Shape,
    pub(super) seed: HashSeed,
    pub(super) capacity: u64,
    pub(super) rate: f64,
}

/// The number of added keys, or why it is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Known(u64),
    /// The number is unknown after a union or an intersection.
    Combined,
    /// The number is unknown because a page was damaged.
    Damaged,
}

/// A length and the state page that records it.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) length: Length,
    pub(super) page: Page,
}

impl State {
    /// Encodes `length` in a state page. A new random number makes the page differ from all earlier
    /// state pages.
    pub(super) fn new(id: u64, length: Length) -> Self {
        Self { length, page: length.encode(id, new_id()) }
    }
}

/// The content of a file.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) header: Header,
    /// The state page as it was read, even if it fails its checksum.
    pub(super) state_page: Page,
    pub(super) length: Length,
    pub(super) bloom: Bloom,
    /// The number of damaged pages, which may be the state page and pages of bits. All bits of a
    /// damaged page of bits are set in `bloom`.
    pub(super) damaged_pages: u64,
    /// The offset of the first damaged page, or `None` if no page is damaged.
    pub(super) first_damage: Option<u64>,
}

/// Returns a random number of 64 bits. Two files have the same number with negligible probability.
pub(super) fn new_id() -> u64 {
    // Random numbers of the operating system seed `RandomState`, and each call of `new` changes its
    // keys.
    RandomState::new().build_hasher().finish()
}

impl Header {
    pub(super) fn num_pages(&self) -> u64 {
        self.shape.cells.div_ceil(WORDS_PER_PAGE as u64 * 64)
    }

    /// Returns the length of the whole file, or `None` if it does not fit in 64 bits.
    pub(super) fn file_len_bytes(&self) -> Option<u64> {
        self.num_pages().checked_add(FIRST).and_then(|pages| pages.checked_mul(PAGE_LEN_BYTES as u64))
    }

    fn encode(&self) -> Page {
        let mut content = MAGIC.to_vec();
        #[expect(clippy::cast_possible_truncation, reason = "at most 30")]
        content.extend_from_slice(&[VERSION, self.shape.probes as u8, 0, 0, 0, 0, 0, 0]);
        for value in [self.id, self.shape.cells, self.seed.0, self.capacity, self.rate.to_bits()] {
            put_u64(&mut content, value);
        }
        seal(OF_HEADER, 0, &content)
    }

    pub(super) fn decode(page: &Page) -> Result<Self> {
        let mut cursor = Cursor::new(page, 0);
        if cursor.take_array(Field::Magic)? != MAGIC {
            return Err(Error::Corrupt { field: Field::Magic, offset: 0 });
        }
        let version_offset = cursor.offset();
        let version = cursor.take_u8(Field::Version)?;
        // If the checksum matches with this version in place of the stored one, only the version is
        // damaged. A newer version may have another checksum, so this test decides nothing else.
        if version != VERSION && content(OF_HEADER, 0, &with_this_version(page)).is_some() {
            return Err(Error::Corrupt { field: Field::Version, offset: version_offset });
        }
        if version > VERSION {
            return Err(Error::Unsupported { field: Field::Version, found: version.into() });
        }
        let corrupt = Error::Corrupt { field: Field::FilterHeader, offset: 0 };
        if content(OF_HEADER, 0, page).is_none() || version == 0 {
            return Err(corrupt);
        }
        let probes = cursor.take_u8(Field::Params)?.into();
        cursor.take(6, Field::Padding)?;
        let mut next = || cursor.take_u64(Field::FilterHeader);
        let (id, cells, seed, capacity, rate) = (next()?, next()?, HashSeed(next()?), next()?, next()?);
        let rate = f64::from_bits(rate);
        match Shape::new(cells, probes) {
            Ok(shape) if shape.cells == cells => Ok(Self { id, shape, seed, capacity, rate }),
            _ => Err(corrupt),
        }
    }
}

impl Length {
    pub(super) fn encode(self, id: u64, draw: u64) -> Page {
        let (tag, keys) = match self {
            Self::Known(keys) => (0, keys),
            Self::Combined => (1, 0),
            Self::Damaged => (2, 0),
        };
        let mut content = vec![tag];
        put_u64(&mut content, keys);
        put_u64(&mut content, draw);
        seal(id, 1, &content)
    }

    /// Decodes a state page. Returns `None` if the page fails its checksum, has an unknown status,
    /// or counts more keys than the filter has bits. Such a count is damage, because each counted
    /// key set at least one new bit.
    fn decode(id: u64, cells: u64, page: &Page) -> Option<Self> {
        let mut cursor = Cursor::new(content(id, 1, page)?, 0);
        match (cursor.take_u8(Field::NumKeys).ok()?, cursor.take_u64(Field::NumKeys).ok()?) {
            (0, keys) if keys <= cells => Some(Self::Known(keys)),
            (1, _) => Some(Self::Combined),
            (2, _) => Some(Self::Damaged),
            _ => None,
        }
    }
}

/// Returns a copy of a header page with [`VERSION`] in place of its version.
fn with_this_version(page: &Page) -> Page {
    let mut copy = *page;
    if let Some(version) = copy.get_mut(MAGIC.len()) {
        *version = VERSION;
    }
    copy
}

/// Returns a page of `content`, zeros and the checksum.
fn seal(id: u64, number: u64, content: &[u8]) -> Page {
    let mut page = [0; PAGE_LEN_BYTES];
    page.iter_mut().zip(content).for_each(|(byte, of_content)| *byte = *of_content);
    if let Some((content, checksum)) = page.split_last_chunk_mut::<8>() {
        *checksum = u64_bytes(checksum_of(id, number, content));
    }
    page
}

/// Returns the content of a page, or `None` if its checksum is wrong.
fn content(id: u64, number: u64, page: &Page) -> Option<&[u8]> {
    let (content, checksum) = page.split_last_chunk::<8>()?;
    (u64_from(checksum) == checksum_of(id, number, content)).then_some(content)
}

fn checksum_of(id: u64, number: u64, content: &[u8]) -> u64 {
    KeyHash::of(content, HashSeed(id.wrapping_add(number))).raw()
}

/// Returns the offset of a page of bits in the file.
pub(super) fn page_offset(index: usize) -> u64 {
    (FIRST + index as u64) * PAGE_LEN_BYTES as u64
}

pub(super) const STATE_OFFSET: u64 = PAGE_LEN_BYTES as u64;

pub(super) fn bit_page(id: u64, index: usize, words: impl Iterator<Item = u64>) -> Page {
    let mut content = Vec::with_capacity(CONTENT_LEN_BYTES);
    words.take(WORDS_PER_PAGE).for_each(|word| put_u64(&mut content, word));
    seal(id, FIRST + index as u64, &content)
}

/// Returns whether a state page passes its checksum.
pub(super) fn is_state(id: u64, page: &Page) -> bool {
    content(id, 1, page).is_some()
}

pub(super) fn write(out: &mut impl Write, header: &Header, state: &State, bloom: &Bloom) -> std::io::Result<()> {
    out.write_all(&header.encode())?;
    out.write_all(&state.page)?;
    let mut words = bloom.words();
    for index in 0..usize::try_from(header.num_pages()).unwrap_or(usize::MAX) {
        out.write_all(&bit_page(header.id, index, words.by_ref()))?;
    }
    Ok(())
}

/// Reads a whole file of `len_bytes` bytes. Sets all bits of a damaged page of bits, so that no key
/// is denied. Checks the length before memory for the filter is allocated.
pub(super) fn read(mut file: impl Read, len_bytes: u64) -> Result<Image> {
    let corrupt_length = Error::Corrupt { field: Field::Length, offset: len_bytes };
    let mut page = [0; PAGE_LEN_BYTES];
    if len_bytes < page_offset(0) {
        return Err(corrupt_length);
    }
    file.read_exact(&mut page)?;
    let header = Header::decode(&page)?;
    if header.file_len_bytes() != Some(len_bytes) {
        return Err(corrupt_length);
    }
    file.read_exact(&mut page)?;
    let state_page = page;
    let state = Length::decode(header.id, header.shape.cells, &page);
    let mut length = state.unwrap_or(Length::Damaged);
    let mut damaged_pages = u64::from(state.is_none());
    let mut first_damage = state.is_none().then_some(STATE_OFFSET);
    let bloom = Bloom::of_shape(header.shape, header.seed)?;
    for index in 0..usize::try_from(header.num_pages()).unwrap_or(usize::MAX) {
        file.read_exact(&mut page)?;
        let first = index * WORDS_PER_PAGE;
        match content(header.id, FIRST + index as u64, &page) {
            Some(content) => {
                let words = content.as_chunks::<8>().0.iter().map(u64_from);
                words.enumerate().for_each(|(i, word)| bloom.or_word(first + i, word));
            }
            None => {
                (0..WORDS_PER_PAGE).for_each(|i| bloom.or_word(first + i, u64::MAX));
                damaged_pages += 1;
                first_damage = first_damage.or(Some(page_offset(index)));
                length = Length::Damaged;
            }
        }
    }
    Ok(Image { header, state_page, length, bloom, damaged_pages, first_damage })
}
