//! Parses and encodes structs of Thrift's compact protocol, the encoding of Parquet's metadata. A
//! struct keeps the encoded bytes of each value, so unknown fields and nested values survive a
//! rewrite.
//!
//! A struct is a sequence of fields, then a zero byte. A field is one byte, then its value. A
//! Boolean field has no value bytes. The high 4 bits of the byte hold the difference to the
//! previous field number, and the low 4 bits hold the type. If the difference is not 1 to 15, the
//! high 4 bits are 0, and the field number follows the byte.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use filterblock::internals::codec::{Corrupt, Cursor, MAX_VARINT_LEN_BYTES, put_varint};

/// The maximum nesting depth of values. Parquet's own metadata have a depth below ten.
const MAX_DEPTH: u32 = 32;

/// The maximum number of fields of a struct. In a struct with more fields, two have the same number.
/// The limit bounds the memory for hostile bytes: a field of one byte takes 32 bytes of memory.
const MAX_FIELDS: usize = 1 << 16;

/// The type of a value, as the protocol numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind(u8);

impl Kind {
    /// The Boolean `true`. A Boolean field has no value bytes, because its type is its value.
    pub const TRUE: Self = Self(1);
    /// The Boolean `false`.
    pub const FALSE: Self = Self(2);
    /// An integer of 16 bits.
    pub const I16: Self = Self(4);
    /// An integer of 32 bits.
    pub const I32: Self = Self(5);
    /// An integer of 64 bits.
    pub const I64: Self = Self(6);
    /// Bytes or a text.
    pub const BINARY: Self = Self(8);
    /// A list.
    pub const LIST: Self = Self(9);
    /// A struct.
    pub const STRUCT: Self = Self(12);

    fn new(code: u8) -> Option<Self> {
        (1..=13).contains(&code).then_some(Self(code))
    }

    fn is_int(self) -> bool {
        matches!(self, Self::I16 | Self::I32 | Self::I64)
    }

    fn is_flag(self) -> bool {
        matches!(self, Self::TRUE | Self::FALSE)
    }
}

/// The bytes do not follow the protocol, end too early, or are nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// The offset at which the parser failed, from the start of the parsed bytes.
    pub at: usize,
}

type Parsed<T> = Result<T, Malformed>;

/// A field of a struct. Its value stays encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field<'a> {
    /// The number of the field.
    pub id: i16,
    /// The type of the value.
    pub kind: Kind,
    /// The encoded value, without the header of the field. It is empty for a Boolean.
    pub value: Cow<'a, [u8]>,
}

impl Field<'_> {
    /// Returns the value of an integer of 16, 32 or 64 bits, or `None` for another type.
    pub(crate) fn int(&self) -> Option<i64> {
        Reader::new(&self.value).int().ok().filter(|_| self.kind.is_int())
    }
}

/// A struct whose values stay encoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Struct<'a> {
    /// The fields in the order of the bytes.
    pub fields: Vec<Field<'a>>,
}

impl<'a> Struct<'a> {
    /// Parses the struct at the start of `bytes`. Returns it with its length in bytes.
    ///
    /// # Errors
    /// Returns [`Malformed`] if the bytes do not follow the protocol or end inside the struct, if
    /// values are nested deeper than 32 levels, or if the struct has more than 65,536 fields.
    pub fn parse(bytes: &'a [u8]) -> Parsed<(Self, usize)> {
        Encoded::parse(bytes).map(|found| (found.fields, found.bytes.len()))
    }

    /// Appends the encoding of the struct to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut last = 0_i16;
        for field in &self.fields {
            match delta(field.id, last) {
                Some(delta) => out.push(delta << 4 | field.kind.0),
                None => {
                    out.push(field.kind.0);
                    put_int(out, field.id.into());
                }
            }
            out.extend_from_slice(&field.value);
            last = field.id;
        }
        out.push(0);
    }

    /// Returns the first field with this number, or `None` if there is none.
    #[must_use]
    pub fn get(&self, id: i16) -> Option<&Field<'a>> {
        self.fields.iter().find(|field| field.id == id)
    }

    /// Returns whether two fields have the same number.
    #[must_use]
    pub fn has_duplicates(&self) -> bool {
        self.has_duplicates_in(i16::MIN..=i16::MAX)
    }

    /// Returns whether two fields have the same number, which lies in this range.
    pub(crate) fn has_duplicates_in(&self, range: RangeInclusive<i16>) -> bool {
        // The usual order needs no memory.
        if self.fields.is_sorted_by(|a, b| a.id < b.id) {
            return false;
        }
        let mut ids: Vec<i16> = self.fields.iter().map(|field| field.id).filter(|id| range.contains(id)).collect();
        ids.sort_unstable();
        ids.windows(2).any(|pair| matches!(pair, [a, b] if a == b))
    }

    /// Returns the integer of 16, 32 or 64 bits in this field, or `None` if there is none.
    #[must_use]
    pub fn int(&self, id: i16) -> Option<i64> {
        self.get(id)?.int()
    }

    /// Returns the bytes in this field, or `None` if there are none.
    #[must_use]
    pub fn binary(&self, id: i16) -> Option<&[u8]> {
        let field = self.get(id).filter(|field| field.kind == Kind::BINARY)?;
        Reader::new(&field.value).binary().ok()
    }

    /// Returns the list in this field, or `None` if there is no list.
    #[must_use]
    pub fn list(&self, id: i16) -> Option<List<'_>> {
        let field = self.get(id).filter(|field| field.kind == Kind::LIST)?;
        List::parse(&field.value).ok()
    }

    /// Returns the texts in this list, joined by dots, or `None` if the field is no list of texts.
    pub(crate) fn joined(&self, id: i16) -> Option<String> {
        let field = self.get(id).filter(|field| field.kind == Kind::LIST)?;
        let mut reader = Reader::new(&field.value);
        let (kind, len) = reader.list().ok()?;
        let mut joined = String::new();
        for number in 0..len {
            joined.push_str(if number > 0 { "." } else { "" });
            joined.push_str(&String::from_utf8_lossy(reader.binary().ok()?));
        }
        (kind == Kind::BINARY || len == 0).then_some(joined)
    }

    /// Returns the structs in this list, or `None` if the field is no list.
    pub(crate) fn structs(&self, id: i16) -> Option<Structs<'_>> {
        let field = self.get(id).filter(|field| field.kind == Kind::LIST)?;
        let mut reader = Reader::new(&field.value);
        let (kind, left) = reader.list().ok()?;
        Some(Structs { reader, left, has_other_kind: left > 0 && kind != Kind::STRUCT })
    }

    /// Parses the struct in this field. Returns `None` if there is none.
    pub(crate) fn nested(&self, id: i16) -> Option<Struct<'_>> {
        let field = self.get(id).filter(|field| field.kind == Kind::STRUCT)?;
        Some(Struct::parse(&field.value).ok()?.0)
    }

    /// Sets a field to an integer of the type `kind`. The caller ensures that `value` fits the
    /// type. A new field goes before the first field with a greater number.
    pub fn set_int(&mut self, id: i16, kind: Kind, value: i64) {
        let mut encoded = Vec::with_capacity(MAX_VARINT_LEN_BYTES);
        put_int(&mut encoded, value);
        self.set(Field { id, kind, value: Cow::Owned(encoded) });
    }

    /// Sets a field to bytes or a text. A new field goes before the first field with a greater
    /// number.
    pub fn set_binary(&mut self, id: i16, value: &[u8]) {
        let mut encoded = Vec::with_capacity(MAX_VARINT_LEN_BYTES + value.len());
        put_varint(&mut encoded, value.len() as u64);
        encoded.extend_from_slice(value);
        self.set(Field { id, kind: Kind::BINARY, value: Cow::Owned(encoded) });
    }

    /// Sets a field. A new field goes before the first field with a greater number.
    pub fn set(&mut self, new: Field<'a>) {
        match self.fields.iter_mut().find(|field| field.id == new.id) {
            Some(field) => *field = new,
            None => {
                let at = self.fields.iter().position(|field| field.id > new.id).unwrap_or(self.fields.len());
                self.fields.insert(at, new);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Encoded<'a> {
    pub fields: Struct<'a>,
    pub bytes: &'a [u8],
    /// Whether [`Struct::encode`] gives the same bytes, and no two fields have the same number.
    pub is_canonical: bool,
}

impl<'a> Encoded<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Parsed<Self> {
        let mut walk = Fields::new(bytes);
        let fields = Struct { fields: walk.by_ref().take(MAX_FIELDS + 1).collect::<Parsed<_>>()? };
        if fields.fields.len() > MAX_FIELDS {
            return Err(walk.reader.malformed());
        }
        let is_canonical = walk.is_canonical && !fields.has_duplicates();
        Ok(Self { fields, bytes: bytes.get(..walk.len_bytes()).unwrap_or_default(), is_canonical })
    }
}

/// The fields of a struct. They are parsed one by one and take no memory.
pub(crate) struct Fields<'a> {
    reader: Reader<'a>,
    last: i16,
    is_canonical: bool,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new(bytes), last: 0, is_canonical: true }
    }

    /// Returns the number of bytes that were parsed. After the last field, it is the length of the
    /// struct.
    pub(crate) fn len_bytes(&self) -> usize {
        self.reader.at()
    }

    fn next_field(&mut self) -> Parsed<Option<Field<'a>>> {
        let (before, header, reader) = (self.last, self.reader.at(), &mut self.reader);
        let Some((id, kind)) = reader.field(&mut self.last)? else { return Ok(None) };
        let start = reader.at();
        let number_bits = u64::BITS - (zigzag(id.into()) | 1).leading_zeros();
        let number_len = if delta(id, before).is_some() { 0 } else { number_bits.div_ceil(7) as usize };
        self.is_canonical &= start - header == 1 + number_len;
        if !kind.is_flag() {
            reader.skip(kind, MAX_DEPTH)?;
        }
        Ok(Some(Field { id, kind, value: Cow::Borrowed(reader.since(start)) }))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Parsed<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_field().transpose()
    }
}

/// The structs in a list. They are parsed one by one, so a list of many elements takes no memory.
pub(crate) struct Structs<'a> {
    reader: Reader<'a>,
    left: usize,
    has_other_kind: bool,
}

impl<'a> Iterator for Structs<'a> {
    type Item = Parsed<Encoded<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        if self.has_other_kind {
            return Some(Err(self.reader.malformed()));
        }
        let found = Encoded::parse(self.reader.cursor.rest());
        Some(found.and_then(|found| self.reader.take(found.bytes.len()).map(|_| found)))
    }
}

/// A list whose elements stay encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<'a> {
    /// The type of the elements.
    pub kind: Kind,
    /// The encoded type and number of the elements.
    pub header: &'a [u8],
    /// The encoding of each element.
    pub elements: Vec<&'a [u8]>,
}

impl<'a> List<'a> {
    /// Parses the list at the start of `bytes`.
    ///
    /// # Errors
    /// Returns [`Malformed`] as [`Struct::parse`] does.
    pub fn parse(bytes: &'a [u8]) -> Parsed<Self> {
        let mut reader = Reader::new(bytes);
        let (kind, len) = reader.list()?;
        let header = reader.since(0);
        // The number of elements may be false, so the length of `bytes` limits the reserved memory.
        // Each element takes at least one byte, so the loop ends at the end of `bytes` at the
        // latest.
        let mut elements = Vec::with_capacity(len.min(bytes.len() / 8));
        for _ in 0..len {
            let start = reader.at();
            reader.skip(kind, MAX_DEPTH)?;
            elements.push(reader.since(start));
        }
        Ok(Self { kind, header, elements })
    }

    /// Appends the encoding of a list with these encoded elements to `out`.
    pub fn encode(kind: Kind, elements: &[&[u8]], out: &mut Vec<u8>) {
        match u8::try_from(elements.len()) {
            Ok(len @ ..15) => out.push(len << 4 | kind.0),
            _ => {
                out.push(15 << 4 | kind.0);
                put_varint(out, elements.len() as u64);
            }
        }
        elements.iter().for_each(|element| out.extend_from_slice(element));
    }

    /// Returns the texts or byte strings in the list, without their length prefixes. Returns `None`
    /// if the elements have another type.
    #[must_use]
    pub fn binaries(&self) -> Option<Vec<&'a [u8]>> {
        let texts = self.elements.iter().map(|bytes| Reader::new(bytes).binary().ok());
        texts.collect::<Option<_>>().filter(|_| self.kind == Kind::BINARY || self.elements.is_empty())
    }
}

/// Returns the difference to the previous field number, if it fits in the first byte of a field.
fn delta(id: i16, last: i16) -> Option<u8> {
    u8::try_from(i32::from(id) - i32::from(last)).ok().filter(|delta| (1..=15).contains(delta))
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

fn put_int(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

impl From<Corrupt<()>> for Malformed {
    fn from(Corrupt { offset, .. }: Corrupt<()>) -> Self {
        Self { at: usize::try_from(offset).unwrap_or(usize::MAX) }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    cursor: Cursor<'a>,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, cursor: Cursor::new(bytes, 0) }
    }

    fn at(&self) -> usize {
        self.bytes.len() - self.cursor.rest().len()
    }

    /// Returns the bytes from `start` to the end of those that were read.
    fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at()).unwrap_or_default()
    }

    fn malformed(&self) -> Malformed {
        self.cursor.corrupt(()).into()
    }

    fn int(&mut self) -> Parsed<i64> {
        let zigzag = self.cursor.take_varint(())?;
        Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    fn take(&mut self, len: usize) -> Parsed<&'a [u8]> {
        Ok(self.cursor.take(len, ())?)
    }

    fn binary(&mut self) -> Parsed<&'a [u8]> {
        Ok(self.cursor.take_bytes(())?)
    }

    fn field(&mut self, last: &mut i16) -> Parsed<Option<(i16, Kind)>> {
        let byte = self.cursor.take_u8(())?;
        if byte == 0 {
            return Ok(None);
        }
        let id = match byte >> 4 {
            0 => i16::try_from(self.int()?).ok(),
            delta => last.checked_add(delta.into()),
        };
        let (Some(id), Some(kind)) = (id, Kind::new(byte & 15)) else { return Err(self.malformed()) };
        *last = id;
        Ok(Some((id, kind)))
    }

    fn list(&mut self) -> Parsed<(Kind, usize)> {
        let byte = self.cursor.take_u8(())?;
        let len = match byte >> 4 {
            15 => self.cursor.take_varint_usize(())?,
            len => len.into(),
        };
        let kind = match (byte & 15, len) {
            // fastparquet writes empty lists without a type.
            (0, 0) => Kind(0),
            (code, _) => Kind::new(code).ok_or_else(|| self.malformed())?,
        };
        Ok((kind, len))
    }

    /// Skips a value. In lists and maps, a Boolean takes one byte. Every element takes at least one
    /// byte, so a wrong number of elements cannot make the loop run past the end of the bytes.
    fn skip(&mut self, kind: Kind, depth: u32) -> Parsed<()> {
        let deeper = depth.checked_sub(1).ok_or_else(|| self.malformed())?;
        match kind.0 {
            1..=3 => self.take(1).map(drop),
            4..=6 => self.int().map(drop),
            7 => self.take(8).map(drop),
            8 => self.binary().map(drop),
            9 | 10 => {
                let (kind, len) = self.list()?;
                (0..len).try_for_each(|_| self.skip(kind, deeper))
            }
            11 => {
                let len = self.cursor.take_varint_usize(())?;
                if len == 0 {
                    return Ok(());
                }
                let kinds = self.cursor.take_u8(())?;
                let (Some(key), Some(value)) = (Kind::new(kinds >> 4), Kind::new(kinds & 15)) else {
                    return Err(self.malformed());
                };
                (0..len).try_for_each(|_| {
                    self.skip(key, deeper)?;
                    self.skip(value, deeper)
                })
            }
            12 => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    if !kind.is_flag() {
                        self.skip(kind, deeper)?;
                    }
                }
                Ok(())
            }
            _ => self.take(16).map(drop),
        }
    }
}
