//! Page headers: type, lengths, number of values and encoding of each page of a column chunk.
//!
//! The crate `parquet` tells the encoding of a page only after it has decompressed the page. This
//! module reads the header first, so that pages of dictionary indices are skipped, and so that a
//! false length causes no large allocation.

use parquet::file::reader::ChunkReader;

use crate::thrift::Struct;

/// The largest page that is read, compressed and uncompressed. Known writers stop at 100 MB.
pub(super) const MAX_PAGE_LEN_BYTES: u64 = 256 << 20;

/// The first window for a header. Most headers have less than 100 bytes.
const WINDOW_LEN_BYTES: u64 = 1 << 10;
/// The longest header. It may contain the smallest and the greatest value of its page.
const MAX_HEADER_LEN_BYTES: u64 = 16 << 20;

/// The encodings `PLAIN`, `PLAIN_DICTIONARY` and `RLE_DICTIONARY` in the numbers of the format.
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE_DICTIONARY: i64 = 8;

/// What a page contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Distinct values.
    Dictionary,
    /// Indices into the dictionary.
    Indices,
    /// Plain values.
    Plain,
    /// Values in another encoding.
    Encoded,
    /// No values: an index page.
    Nothing,
}

/// The header of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageHeader {
    pub content: Content,
    /// The number of values, nulls included.
    pub num_values: u64,
    /// The length of the header and of the page in the file.
    pub total_len_bytes: u64,
}

/// Reads the header at `offset`. At most `left_bytes` bytes belong to the column chunk.
///
/// # Errors
/// Returns the reason if the header is invalid or the page does not fit.
pub(super) fn read(source: &impl ChunkReader, offset: u64, left_bytes: u64) -> Result<PageHeader, String> {
    let mut window = WINDOW_LEN_BYTES;
    loop {
        let len = window.min(left_bytes);
        let bytes = usize::try_from(len).map_err(|_| "the header is too long".to_owned())?;
        let bytes = source.get_bytes(offset, bytes).map_err(|error| error.to_string())?;
        match Struct::parse(&bytes) {
            Ok((header, header_len)) => return interpret(&header, header_len as u64, left_bytes, offset),
            Err(_) if len < left_bytes && window < MAX_HEADER_LEN_BYTES => window *= 16,
            Err(_) => return Err(format!("the page header at offset {offset} is not valid")),
        }
    }
}

fn interpret(header: &Struct<'_>, header_len: u64, left_bytes: u64, offset: u64) -> Result<PageHeader, String> {
    let invalid = || format!("the page header at offset {offset} is not valid");
    let len = |id| header.int(id).and_then(|len| u64::try_from(len).ok()).ok_or_else(invalid);
    let (uncompressed, compressed) = (len(2)?, len(3)?);
    let total_len_bytes = header_len + compressed;
    if total_len_bytes > left_bytes {
        return Err(format!("the page at offset {offset} exceeds its column chunk"));
    }
    if uncompressed.max(compressed) > MAX_PAGE_LEN_BYTES {
        let mib = MAX_PAGE_LEN_BYTES >> 20;
        return Err(format!("the page at offset {offset} has {uncompressed} bytes, more than {mib} MiB"));
    }
    let details = |id: i16| header.get(id).and_then(|field| Some(Struct::parse(&field.value).ok()?.0));
    let counted = |details: &Struct<'_>, encoding_id| {
        let num_values = details.int(1).and_then(|num| u64::try_from(num).ok())?;
        let content = match details.int(encoding_id)? {
            PLAIN => Content::Plain,
            PLAIN_DICTIONARY | RLE_DICTIONARY => Content::Indices,
            _ => Content::Encoded,
        };
        Some((num_values, content))
    };
    let (num_values, content) = match header.int(1) {
        Some(0) => details(5).and_then(|page| counted(&page, 2)).ok_or_else(invalid)?,
        Some(1) => (0, Content::Nothing),
        Some(2) => match details(7).and_then(|page| counted(&page, 2)) {
            Some((num, Content::Plain | Content::Indices)) => (num, Content::Dictionary),
            _ => return Err(format!("the dictionary at offset {offset} has an unknown encoding")),
        },
        Some(3) => details(8).and_then(|page| counted(&page, 4)).ok_or_else(invalid)?,
        _ => return Err(format!("the page at offset {offset} has an unknown type")),
    };
    Ok(PageHeader { content, num_values, total_len_bytes })
}
