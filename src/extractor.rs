//! Takes prefixes from keys and from ranges of keys.

use std::fmt;
use std::ops::Bound;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result};

const FIXED: &str = "fixed:";
const CAPPED: &str = "capped:";
const DELIMITER: &str = "delimiter:";
const ROW_COLUMN: &str = "row-column:";

/// The maximum length in bytes of an extractor's name in a written filter.
pub const MAX_EXTRACTOR_LEN_BYTES: usize = 100;

/// The maximum length of a prefix of `fixed` and `capped`.
const MAX_LEN_BYTES: usize = 65_535;

const EXPECTED: &str = "expected fixed:LENGTH, capped:LENGTH, delimiter:BYTE or row-column:BYTE; try fixed:8";
const LENGTH_EXPECTED: &str = "the length of a prefix is 1 to 65,535 bytes; try fixed:8 or capped:8";
const BYTE_EXPECTED: &str = "the byte after the colon must be one ASCII character, or 0x and two hexadecimal digits; \
                             try delimiter:/ or row-column:0x00";

/// A function with a stable name that takes prefixes from the front of a key.
///
/// | Name | Prefixes of a key | Keys without a prefix |
/// |---|---|---|
/// | `fixed:N` | the first N bytes | keys shorter than N bytes |
/// | `capped:N` | the first N bytes, or the whole of a shorter key | none |
/// | `delimiter:B` | up to and including the first byte B | keys without B |
/// | `row-column:B` | the row: up to and including the first B; the row and column: up to and including the second B, or the whole key | keys without B |
/// | a name that you choose | the prefix whose length [your function](Self::named) returns | keys for which it returns `None` or too large a length |
///
/// B is one ASCII character, or a byte such as `0x00`. The name tells a reader which prefixes a
/// filter holds, so a name must never get another meaning.
///
/// ```
/// use filterblock::PrefixExtractor;
/// use std::ops::Bound::{Excluded, Included, Unbounded};
///
/// let extractor: PrefixExtractor = "row-column:/".parse()?;
/// let prefixes: Vec<&[u8]> = extractor.prefixes(b"ann/age/7").collect();
/// assert_eq!(prefixes, [b"ann/".as_slice(), b"ann/age/"]);
/// // '0' follows '/', so this range holds the keys that begin with "ann/".
/// assert_eq!(extractor.prefix_of_range(Included(b"ann/"), Excluded(b"ann0")), Some(b"ann/".as_slice()));
/// assert_eq!(extractor.prefix_of_range(Included(b"ann/"), Unbounded), None);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Clone)]
pub struct PrefixExtractor {
    name: Arc<str>,
    rule: Rule,
}

type Function = dyn Fn(&[u8]) -> Option<usize> + Send + Sync;

#[derive(Clone)]
enum Rule {
    Fixed(usize),
    Capped(usize),
    Delimiter(u8),
    RowColumn(u8),
    Named { function: Arc<Function>, answers_ranges: bool },
}

#[derive(Debug, Clone, Copy)]
struct Taken {
    len: usize,
    /// Whether the extractor takes this prefix from every key that begins with it.
    is_closed: bool,
}

impl PrefixExtractor {
    /// Returns an extractor that takes the first `len_bytes` bytes of each key. A shorter key has
    /// no prefix.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the length is not 1 to 65,535 bytes.
    pub fn fixed(len_bytes: usize) -> Result<Self> {
        check_len(FIXED, len_bytes)?;
        Ok(Self::new(format!("{FIXED}{len_bytes}"), Rule::Fixed(len_bytes)))
    }

    /// Returns an extractor that takes the first `len_bytes` bytes of each key, or the whole of a
    /// shorter key.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the length is not 1 to 65,535 bytes.
    pub fn capped(len_bytes: usize) -> Result<Self> {
        check_len(CAPPED, len_bytes)?;
        Ok(Self::new(format!("{CAPPED}{len_bytes}"), Rule::Capped(len_bytes)))
    }

    /// Returns an extractor that takes the bytes up to and including the first `byte`. A key
    /// without `byte` has no prefix.
    #[must_use]
    pub fn delimiter(byte: u8) -> Self {
        Self::new(format!("{DELIMITER}{}", Shown(byte)), Rule::Delimiter(byte))
    }

    /// Returns an extractor that takes two prefixes. The first is the row: the bytes up to and
    /// including the first `byte`. The second is the row with the column: the bytes up to and
    /// including the second `byte`, or the whole key if `byte` occurs only once.
    ///
    /// A key without `byte` has no prefix. A key that ends with its row has only the first prefix.
    #[must_use]
    pub fn row_column(byte: u8) -> Self {
        Self::new(format!("{ROW_COLUMN}{}", Shown(byte)), Rule::RowColumn(byte))
    }

    /// Returns an extractor that takes the prefix whose length `function` returns. If `function`
    /// returns `None` or a length above the length of the key, the key has no prefix.
    ///
    /// The function must always return the same length for the same key. If the function changes,
    /// give it another name. Without [`with_ranges`](Self::with_ranges),
    /// [`prefix_of_range`](Self::prefix_of_range) returns a prefix only for a range of a single
    /// key.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the name does not have 1 to 100 bytes, or begins like the name
    /// of a built-in extractor.
    pub fn named(name: &str, function: impl Fn(&[u8]) -> Option<usize> + Send + Sync + 'static) -> Result<Self> {
        if !(1..=MAX_EXTRACTOR_LEN_BYTES).contains(&name.len()) {
            let reason = format!("expected a name of 1 to {MAX_EXTRACTOR_LEN_BYTES} bytes; try tenant-v1");
            return Err(Error::invalid("extractor name", name, reason));
        }
        if [FIXED, CAPPED, DELIMITER, ROW_COLUMN].iter().any(|taken| name.starts_with(taken)) {
            let reason = "names that begin with fixed:, capped:, delimiter: or row-column: are reserved for built-in \
                          extractors; try tenant-v1";
            return Err(Error::invalid("extractor name", name, reason));
        }
        Ok(Self::new(name.to_owned(), Rule::Named { function: Arc::new(function), answers_ranges: false }))
    }

    /// States that the [named](Self::named) function has this property: if it takes the prefix `p`
    /// from one key, it takes `p` from every key that begins with `p`. With this property, a filter
    /// can answer for ranges. On a built-in extractor, this call has no effect.
    ///
    /// If the statement is wrong, scans may miss keys. [`prefix_of_range`](Self::prefix_of_range)
    /// tests the statement only for the prefix itself, and for an upper bound that begins with the
    /// prefix.
    #[must_use]
    pub fn with_ranges(mut self) -> Self {
        if let Rule::Named { answers_ranges, .. } = &mut self.rule {
            *answers_ranges = true;
        }
        self
    }

    fn new(name: String, rule: Rule) -> Self {
        Self { name: name.into(), rule }
    }

    /// Returns the name. For a built-in extractor, the name parses to the same extractor.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the prefixes of a key: none, one, or two different prefixes. The shorter prefix
    /// comes first.
    pub fn prefixes<'k>(&self, key: &'k [u8]) -> impl DoubleEndedIterator<Item = &'k [u8]> + use<'k> {
        self.taken(key).into_iter().flatten().filter_map(move |taken| key.get(..taken.len))
    }

    /// Returns the longest prefix that this extractor is known to take from every key of the range.
    /// Returns `None` if no such prefix is known, and if the lower bound is above the upper bound.
    /// In that case, do not query a filter.
    ///
    /// Otherwise, query a filter that holds the prefixes of this extractor. If the filter denies
    /// the returned prefix, then none of the filter's keys is in the range.
    #[must_use]
    pub fn prefix_of_range<'k>(&self, lower: Bound<&'k [u8]>, upper: Bound<&[u8]>) -> Option<&'k [u8]> {
        let (Bound::Included(first) | Bound::Excluded(first)) = lower else { return None };
        if matches!(upper, Bound::Included(last) | Bound::Excluded(last) if first > last) {
            return None;
        }
        let is_one_key = matches!((lower, upper), (Bound::Included(first), Bound::Included(last)) if first == last);
        self.taken(first).into_iter().flatten().rev().find_map(|taken| {
            let prefix = first.get(..taken.len)?;
            let is_common = taken.is_closed && ends_within(prefix, upper) && self.agrees(prefix, upper);
            (is_one_key || is_common).then_some(prefix)
        })
    }

    /// Returns the upper bound of all keys that begin with `prefix`. The lower bound is the prefix.
    /// If `prefix` is empty or all its bytes are 0xff, there is no upper bound.
    #[must_use]
    pub fn end_of_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
        let mut end = prefix.to_vec();
        while let Some(last) = end.last_mut() {
            if let Some(next) = last.checked_add(1) {
                *last = next;
                return Bound::Excluded(end);
            }
            end.pop();
        }
        Bound::Unbounded
    }

    #[inline]
    fn taken(&self, key: &[u8]) -> [Option<Taken>; 2] {
        let taken = |len, is_closed| Some(Taken { len, is_closed });
        let through = |byte, from: usize| {
            let rest = key.get(from..).unwrap_or_default();
            rest.iter().position(|&found| found == byte).map(|at| from + at + 1)
        };
        match &self.rule {
            Rule::Fixed(len) => [taken(*len, true).filter(|_| key.len() >= *len), None],
            // A key shorter than `len` is its own prefix. That prefix is not closed: a longer key
            // that begins with the prefix has a longer prefix.
            Rule::Capped(len) => [taken(key.len().min(*len), key.len() >= *len), None],
            Rule::Delimiter(byte) => [through(*byte, 0).and_then(|len| taken(len, true)), None],
            Rule::RowColumn(byte) => {
                let Some(row) = through(*byte, 0) else { return [None, None] };
                let column = through(*byte, row).map_or((key.len(), false), |len| (len, true));
                // A key that ends with its row has only one prefix.
                [taken(row, true), taken(column.0, column.1).filter(|_| column.0 > row)]
            }
            Rule::Named { function, answers_ranges } => {
                [function(key).filter(|&len| len <= key.len()).and_then(|len| taken(len, *answers_ranges)), None]
            }
        }
    }

    /// Returns whether the function of a named extractor takes `prefix` from `prefix` itself and,
    /// if `upper` begins with `prefix`, from `upper`. Returns `true` for a built-in extractor.
    fn agrees(&self, prefix: &[u8], upper: Bound<&[u8]>) -> bool {
        let Rule::Named { function, .. } = &self.rule else { return true };
        let last = match upper {
            Bound::Included(last) | Bound::Excluded(last) => Some(last).filter(|last| last.starts_with(prefix)),
            Bound::Unbounded => None,
        };
        [Some(prefix), last].into_iter().flatten().all(|key| function(key) == Some(prefix.len()))
    }
}

/// Returns whether a range up to `upper` holds only keys that begin with `prefix`. The lower bound
/// of the range must begin with `prefix`. For an empty range, the result does not matter.
fn ends_within(prefix: &[u8], upper: Bound<&[u8]>) -> bool {
    match upper {
        Bound::Included(last) => last.starts_with(prefix),
        Bound::Excluded(end) => end.starts_with(prefix) || is_end_of(prefix, end),
        Bound::Unbounded => prefix.iter().all(|&byte| byte == u8::MAX),
    }
}

/// Returns whether `end` is the first key above all keys that begin with `prefix`.
fn is_end_of(prefix: &[u8], end: &[u8]) -> bool {
    let Some((&last, front)) = end.split_last() else { return false };
    let Some((&of_prefix, rest)) = prefix.strip_prefix(front).and_then(<[u8]>::split_first) else { return false };
    of_prefix.checked_add(1) == Some(last) && rest.iter().all(|&byte| byte == u8::MAX)
}

fn check_len(what: &str, len_bytes: usize) -> Result<()> {
    if (1..=MAX_LEN_BYTES).contains(&len_bytes) {
        return Ok(());
    }
    Err(Error::invalid("prefix extractor", format!("{what}{len_bytes}"), LENGTH_EXPECTED))
}

/// Displays a byte as names write it: a visible ASCII character, or `0x` and two hexadecimal
/// digits.
struct Shown(u8);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_ascii_graphic() { write!(f, "{}", char::from(self.0)) } else { write!(f, "{:#04x}", self.0) }
    }
}

fn byte(text: &str) -> Option<u8> {
    if let [byte] = text.as_bytes() {
        return Some(*byte);
    }
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 2)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

impl FromStr for PrefixExtractor {
    type Err = Error;

    /// Parses the name of a built-in extractor.
    fn from_str(text: &str) -> Result<Self> {
        let invalid = |reason| Error::invalid("prefix extractor", text, reason);
        let length = |digits: &str| digits.parse().map_err(|_| invalid(LENGTH_EXPECTED));
        let of_byte = |rest| byte(rest).ok_or_else(|| invalid(BYTE_EXPECTED));
        if let Some(rest) = text.strip_prefix(FIXED) {
            Self::fixed(length(rest)?)
        } else if let Some(rest) = text.strip_prefix(CAPPED) {
            Self::capped(length(rest)?)
        } else if let Some(rest) = text.strip_prefix(DELIMITER) {
            Ok(Self::delimiter(of_byte(rest)?))
        } else if let Some(rest) = text.strip_prefix(ROW_COLUMN) {
            Ok(Self::row_column(of_byte(rest)?))
        } else {
            Err(invalid(EXPECTED))
        }
    }
}

impl fmt::Display for PrefixExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl fmt::Debug for PrefixExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PrefixExtractor").field(&self.name).finish()
    }
}

/// Extractors with the same name are equal.
impl PartialEq for PrefixExtractor {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PrefixExtractor {}
