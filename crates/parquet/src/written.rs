//! Converts values that people write as text to the plain encoding, which Parquet filters hash.
//! Also takes values that are in plain encoding already.

mod number;
mod temporal;

use std::str::FromStr;

use crate::schema::{Leaf, PhysicalType};

pub use number::{Decimal, Integer};
pub use temporal::Temporal;

const UUID_LEN_BYTES: usize = 16;

/// The type of a value given as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// A signed 32-bit integer, written in decimal.
    Int32,
    /// A signed 64-bit integer, written in decimal.
    Int64,
    /// An unsigned 32-bit integer, written in decimal.
    Uint32,
    /// An unsigned 64-bit integer, written in decimal.
    Uint64,
    /// A 32-bit floating-point number (IEEE 754), written in decimal.
    Float,
    /// A 64-bit floating-point number (IEEE 754), written in decimal.
    Double,
    /// UTF-8 text.
    Utf8,
    /// Any bytes, unchanged.
    Bytes,
    /// A UUID of 32 hexadecimal digits, with or without hyphens.
    Uuid,
}

impl ValueType {
    /// All types.
    pub const ALL: [Self; 9] = [
        Self::Int32,
        Self::Int64,
        Self::Uint32,
        Self::Uint64,
        Self::Float,
        Self::Double,
        Self::Utf8,
        Self::Bytes,
        Self::Uuid,
    ];

    /// The name and the description of each type, in the order of the variants.
    const TEXTS: [(&'static str, &'static str); 9] = [
        ("int32", "A signed 32-bit integer, written in decimal"),
        ("int64", "A signed 64-bit integer, written in decimal"),
        ("uint32", "An unsigned 32-bit integer, written in decimal"),
        ("uint64", "An unsigned 64-bit integer, written in decimal"),
        ("float", "A 32-bit floating-point number (IEEE 754), written in decimal"),
        ("double", "A 64-bit floating-point number (IEEE 754), written in decimal"),
        ("utf8", "UTF-8 text"),
        ("bytes", "Any bytes, unchanged"),
        ("uuid", "A UUID of 32 hexadecimal digits, with or without hyphens"),
    ];

    fn texts(self) -> (&'static str, &'static str) {
        Self::TEXTS.get(self as usize).copied().unwrap_or_default()
    }

    /// Returns the name of the type, as `--type` takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.texts().0
    }

    /// Returns a phrase that says how values of the type are written.
    #[must_use]
    pub fn description(self) -> &'static str {
        self.texts().1
    }

    /// Returns the type with this [`name`](Self::name), or `None` for any other text.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the default type of values that the user gives as text, for a column without a
    /// logical type. Returns `None` if the user can give values only in the plain encoding.
    #[must_use]
    pub fn of(physical_type: PhysicalType) -> Option<Self> {
        match physical_type {
            PhysicalType::Int32 => Some(Self::Int32),
            PhysicalType::Int64 => Some(Self::Int64),
            PhysicalType::Float => Some(Self::Float),
            PhysicalType::Double => Some(Self::Double),
            PhysicalType::ByteArray | PhysicalType::FixedLenByteArray => Some(Self::Bytes),
            _ => None,
        }
    }

    /// Returns whether a column of this physical type can hold values of the type `self`.
    #[must_use]
    pub fn fits(self, physical_type: PhysicalType) -> bool {
        use PhysicalType as P;
        match self {
            Self::Int32 | Self::Uint32 => physical_type == P::Int32,
            Self::Int64 | Self::Uint64 => physical_type == P::Int64,
            Self::Float => physical_type == P::Float,
            Self::Double => physical_type == P::Double,
            Self::Utf8 | Self::Bytes => matches!(physical_type, P::ByteArray | P::FixedLenByteArray),
            Self::Uuid => physical_type == P::FixedLenByteArray,
        }
    }
}

/// The conversion of given bytes or text to the plain encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// The given bytes are the plain encoding. The number is their required length, or `None` if
    /// any length is accepted.
    Plain(Option<usize>),
    /// The given bytes are the plain encoding of a FLOAT or DOUBLE. The number is their required
    /// length: 4 or 8 bytes. Zero is looked up with both signs.
    PlainFloat(usize),
    /// The given bytes are text, which is parsed as a value of this type.
    Typed(ValueType),
    /// Like `Typed`, for a column whose values all have this number of bytes.
    Sized(ValueType, usize),
    /// The given bytes are the text of an integer, which a column of integers stores.
    Integer(Integer),
    /// The given bytes are the text of a decimal number, which a DECIMAL column stores.
    Decimal(Decimal),
    /// The given bytes are the text of a date, a time or a timestamp, which a column of integers stores.
    Temporal(Temporal),
}

/// The type of a column, as far as it decides how text becomes a stored value.
#[derive(Debug, Clone, Copy)]
pub struct ColumnType<'a> {
    /// The physical type.
    pub physical: PhysicalType,
    /// The length of the values of FIXED_LEN_BYTE_ARRAY, or `None` for other types.
    pub len_bytes: Option<usize>,
    /// The canonical text of the logical type. The text is empty if the column has none.
    pub logical: &'a str,
    /// The number of bits of a signed integer type, or `None` if the column has no such type or the
    /// type is unknown.
    pub integer_bits: Option<u8>,
}

impl Leaf {
    /// Returns the type that decides how text becomes a stored value. Returns `None` if the physical
    /// type is unknown, or if it is FIXED_LEN_BYTE_ARRAY without a valid length.
    #[must_use]
    pub fn column_type(&self) -> Option<ColumnType<'_>> {
        let (physical, len_bytes) = (self.physical_type?, self.type_len_bytes);
        let has_length = physical != PhysicalType::FixedLenByteArray || len_bytes.is_some();
        let (logical, integer_bits) = (self.logical.as_str(), self.signed_bits());
        has_length.then_some(ColumnType { physical, len_bytes, logical, integer_bits })
    }
}

impl ColumnType<'_> {
    /// Returns the conversion of the user's keys to stored values. `hex` says whether the user gave
    /// `--hex`, and `given` is the type that the user gave with `--type`.
    ///
    /// # Errors
    /// Returns a message if `hex` is false and `given` does not fit the column. Returns a message
    /// also if the user gave neither option and text does not determine the stored value. The
    /// message is the end of a sentence whose subject is the column.
    pub fn encoding(self, hex: bool, given: Option<ValueType>) -> Result<Encoding, String> {
        let kind = match (hex, given) {
            (true, _) => return Ok(Encoding::plain(Some(self.physical), self.len_bytes)),
            (false, Some(kind)) if kind.fits(self.physical) => kind,
            (false, Some(kind)) => {
                return Err(format!(
                    "has the type {:?}, which --type {} does not fit; omit --type, or give the stored bytes with --hex",
                    self.physical,
                    kind.name()
                ));
            }
            (false, None) => return self.of_text(),
        };
        Ok(self.typed(kind))
    }

    fn typed(self, kind: ValueType) -> Encoding {
        self.len_bytes.map_or(Encoding::Typed(kind), |len| Encoding::Sized(kind, len))
    }

    /// Returns the conversion of keys that the user gives as text without `--type`. Returns a
    /// message if the text does not determine the stored value.
    fn of_text(self) -> Result<Encoding, String> {
        use PhysicalType as P;
        let Some(of_physical) = ValueType::of(self.physical) else {
            return Err("has a type without a text form; give values in plain encoding with --hex".to_owned());
        };
        let found = match (self.physical, self.logical) {
            (P::Int32 | P::Int64, logical) => Integer::of(self.physical, logical, self.integer_bits)
                .map(Encoding::Integer)
                .or_else(|| Decimal::of(self.physical, self.len_bytes, logical).map(Encoding::Decimal))
                .or_else(|| Temporal::of(self.physical, logical).map(Encoding::Temporal)),
            (P::FixedLenByteArray, "uuid") => Some(self.typed(ValueType::Uuid)),
            (P::FixedLenByteArray, logical) if logical.starts_with("decimal") => {
                Decimal::of(self.physical, self.len_bytes, logical).map(Encoding::Decimal)
            }
            (_, "") | (P::ByteArray | P::FixedLenByteArray, "string" | "enum" | "json") => {
                Some(self.typed(of_physical))
            }
            _ => None,
        };
        found.ok_or_else(|| {
            let stored = match of_physical {
                ValueType::Bytes => "the stored bytes with --hex, or with --type bytes".to_owned(),
                kind => format!("the stored number with --type {}, or its bytes with --hex", kind.name()),
            };
            let logical = self.logical;
            format!("has the logical type {logical}, whose text is not the stored value; give {stored}")
        })
    }
}

/// Returns the length of the plain encoding in bytes. Returns `None` for BYTE_ARRAY and
/// FIXED_LEN_BYTE_ARRAY, because the type alone does not determine it.
fn plain_len(physical_type: PhysicalType) -> Option<usize> {
    match physical_type {
        PhysicalType::Boolean => Some(1),
        PhysicalType::Int32 | PhysicalType::Float => Some(4),
        PhysicalType::Int64 | PhysicalType::Double => Some(8),
        PhysicalType::Int96 => Some(12),
        _ => None,
    }
}

impl Encoding {
    /// Returns the conversion of keys that the user gives with `--hex`. `fixed_len_bytes` is the
    /// length of the values of FIXED_LEN_BYTE_ARRAY.
    #[must_use]
    pub fn plain(physical_type: Option<PhysicalType>, fixed_len_bytes: Option<usize>) -> Self {
        match physical_type {
            Some(PhysicalType::Float) => Self::PlainFloat(4),
            Some(PhysicalType::Double) => Self::PlainFloat(8),
            other => Self::Plain(other.and_then(plain_len).or(fixed_len_bytes)),
        }
    }

    /// Converts `written` to the plain encoding and returns the answer of `may_contain`. A zero of
    /// type `float` or `double` is looked up with both signs, because the two zeros are equal but
    /// have different encodings. The result is true if at least one of the two answers is true.
    ///
    /// # Errors
    /// Returns a message if `written` is not a value of the type, has the wrong length, or is NaN
    /// as text.
    pub fn ask(self, written: &[u8], may_contain: impl Fn(&[u8]) -> bool) -> Result<bool, String> {
        let kind = match self {
            Self::Plain(Some(len)) | Self::PlainFloat(len) if written.len() != len => {
                let (given, expected) = (bytes(written.len()), bytes(len));
                return Err(format!(
                    "{given} given, but a value of this column has {expected} in plain encoding; give {expected}"
                ));
            }
            Self::Plain(_) => return Ok(may_contain(written)),
            Self::PlainFloat(_) => {
                // The sign is the highest bit of the last byte.
                let mut other = written.to_vec();
                let sign = other.last_mut().map_or(0, |last| std::mem::replace(last, *last & 0x7f) & 0x80);
                let is_zero = other.iter().all(|&byte| byte == 0);
                other.iter_mut().last().into_iter().for_each(|last| *last |= sign ^ 0x80);
                return Ok(may_contain(written) || is_zero && may_contain(&other));
            }
            Self::Sized(ValueType::Uuid, len) if len == UUID_LEN_BYTES => ValueType::Uuid,
            Self::Sized(kind, len) if written.len() != len || kind == ValueType::Uuid => {
                let given =
                    if kind == ValueType::Uuid { "a UUID".to_owned() } else { bytes(written.len()) + " of text" };
                let expected = bytes(len);
                let uuid = if len == UUID_LEN_BYTES { ", or a UUID with --type uuid" } else { "" };
                return Err(format!(
                    "{given} given, but a value of this column has {expected}; give the stored bytes with --hex{uuid}"
                ));
            }
            Self::Typed(kind) | Self::Sized(kind, _) => kind,
            Self::Integer(of) => return Ok(may_contain(&of.encode(text(written))?)),
            Self::Decimal(of) => return Ok(may_contain(&of.encode(text(written))?)),
            Self::Temporal(of) => return Ok(may_contain(&of.encode(text(written))?)),
        };
        Ok(match kind {
            ValueType::Utf8 if std::str::from_utf8(written).is_err() => return Err(wrong(kind)),
            ValueType::Utf8 | ValueType::Bytes => may_contain(written),
            ValueType::Int32 => may_contain(&u32_bytes(parse::<i32>(kind, written)?.cast_unsigned())),
            ValueType::Uint32 => may_contain(&u32_bytes(parse(kind, written)?)),
            ValueType::Int64 => may_contain(&parse::<i64>(kind, written)?.to_le_bytes()),
            ValueType::Uint64 => may_contain(&parse::<u64>(kind, written)?.to_le_bytes()),
            ValueType::Float => {
                let value: f32 = parse(kind, written)?;
                check_number(kind, written, value.into())?;
                let ask = |value: f32| may_contain(&u32_bytes(value.to_bits()));
                ask(value) || value == 0.0 && ask(-value)
            }
            ValueType::Double => {
                let value: f64 = parse(kind, written)?;
                check_number(kind, written, value)?;
                let ask = |value: f64| may_contain(&value.to_bits().to_le_bytes());
                ask(value) || value == 0.0 && ask(-value)
            }
            ValueType::Uuid => {
                let bytes = uuid(written).ok_or_else(|| wrong(kind))?;
                may_contain(&bytes)
            }
        })
    }
}

/// Parses 32 hexadecimal digits, with or without hyphens. Returns `None` for other texts.
fn uuid(written: &[u8]) -> Option<Vec<u8>> {
    let digit = |&byte: &u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits = written.iter().filter(|&&byte| byte != b'-').map(digit).collect::<Option<Vec<u8>>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let is_whole = pairs.len() == UUID_LEN_BYTES && rest.is_empty();
    is_whole.then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

fn bytes(len: usize) -> String {
    format!("{len} {}", if len == 1 { "byte" } else { "bytes" })
}

fn u32_bytes(value: u32) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn parse<T: FromStr>(kind: ValueType, written: &[u8]) -> Result<T, String> {
    text(written).parse().map_err(|_| wrong(kind))
}

/// Returns the text without surrounding spaces. The empty text, which is not a number, stands for
/// bytes that are not UTF-8.
fn text(written: &[u8]) -> &str {
    std::str::from_utf8(written).map(str::trim).unwrap_or_default()
}

fn wrong(kind: ValueType) -> String {
    let example = match kind {
        ValueType::Int32 | ValueType::Int64 => "-7",
        ValueType::Uint32 | ValueType::Uint64 => "7",
        ValueType::Float | ValueType::Double => "1.5",
        ValueType::Utf8 | ValueType::Bytes => "abc",
        ValueType::Uuid => "00010203-0405-0607-0809-0a0b0c0d0e0f",
    };
    format!("not a value of type {}; try {example}", kind.name())
}

/// Returns an error for NaN: writers hash the bits of a NaN, so the answer for one NaN says nothing
/// about another NaN. Returns an error also for digits that become an infinity or zero, because the
/// type cannot hold their number.
fn check_number(kind: ValueType, written: &[u8], value: f64) -> Result<(), String> {
    if value.is_nan() {
        return Err("NaN has many bit patterns; give the stored bytes of the NaN with --hex".to_owned());
    }
    let mantissa = text(written).split(['e', 'E']).next().unwrap_or_default();
    let has_digit = |digits: std::ops::RangeInclusive<u8>| mantissa.bytes().any(|byte| digits.contains(&byte));
    if value.is_infinite() && has_digit(b'0'..=b'9') || value == 0.0 && has_digit(b'1'..=b'9') {
        let name = kind.name();
        return Err(format!("the number is too large or too small for the type {name}; give a number of this type"));
    }
    Ok(())
}
