//! Converts the text of integers and decimal numbers to the plain encoding. A number that the
//! column cannot hold is an error, because the answer "absent" would hide the mistake.

use crate::schema::PhysicalType;

/// The maximum length in bytes and the maximum precision of a decimal number that is given as text.
/// Larger ones are damage.
const MAX_DECIMAL_LEN_BYTES: usize = 256;
const MAX_PRECISION: usize = 1000;

/// A type of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integer {
    bits: u8,
    is_signed: bool,
    len_bytes: usize,
}

impl Integer {
    /// Returns the type of a column of INT32 or INT64. `bits` is the width of a signed integer type.
    /// Returns `None` if the logical type is neither empty nor an unsigned integer that fits.
    pub(super) fn of(physical: PhysicalType, logical: &str, bits: Option<u8>) -> Option<Self> {
        let len_bytes: u8 = if physical == PhysicalType::Int64 { 8 } else { 4 };
        let is_signed = logical.is_empty();
        let bits = match logical.strip_prefix("uint") {
            Some(bits) => bits.parse().ok()?,
            None if is_signed => bits.unwrap_or(len_bytes * 8),
            None => return None,
        };
        let fits = (1..=len_bytes * 8).contains(&bits);
        fits.then_some(Self { bits, is_signed, len_bytes: len_bytes.into() })
    }

    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, String> {
        let (low, high) = match self.is_signed {
            true => (-(1_i128 << (self.bits - 1)), (1_i128 << (self.bits - 1)) - 1),
            false => (0, (1_i128 << self.bits) - 1),
        };
        let number = text.parse::<i128>().ok().filter(|number| (low..=high).contains(number));
        let number = number.ok_or_else(|| {
            let name = if self.is_signed { "int" } else { "uint" };
            format!("not a value of type {name}{}: expected a whole number from {low} to {high}; try 7", self.bits)
        })?;
        Ok(number.to_le_bytes().into_iter().take(self.len_bytes).collect())
    }
}

/// A DECIMAL type: a whole number that is scaled by a power of ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    precision: usize,
    scale: usize,
    len_bytes: usize,
    is_big_endian: bool,
}

impl Decimal {
    /// Returns the type of a column. Returns `None` if `logical` is not a valid decimal type, and
    /// for BYTE_ARRAY, because a writer may store a number with any number of leading bytes.
    pub(super) fn of(physical: PhysicalType, fixed_len_bytes: Option<usize>, logical: &str) -> Option<Self> {
        let (len_bytes, is_big_endian) = match physical {
            PhysicalType::Int32 => (4, false),
            PhysicalType::Int64 => (8, false),
            PhysicalType::FixedLenByteArray => (fixed_len_bytes?, true),
            _ => return None,
        };
        let (precision, scale) = logical.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
        let (precision, scale) = (precision.parse().ok()?, scale.parse().ok()?);
        let is_precise = (1..=MAX_PRECISION).contains(&precision) && scale <= precision;
        let is_valid = is_precise && (1..=MAX_DECIMAL_LEN_BYTES).contains(&len_bytes);
        is_valid.then_some(Self { precision, scale, len_bytes, is_big_endian })
    }

    /// Returns the plain encoding of the number times `10^scale`.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, String> {
        let Self { precision, scale, .. } = self;
        let wrong = |why: &str| {
            let example = if scale == 0 { "7".to_owned() } else { format!("7.{:0<scale$}", "") };
            Err(format!("not a value of type decimal({precision},{scale}): {why}; try {example}"))
        };
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.len() + fraction.len() == 0 || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit())
        {
            return wrong("expected digits with at most one point");
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        if fraction.len() > scale {
            return wrong("too many digits after the point");
        }
        if whole.len() > precision - scale {
            return wrong("too many digits before the point");
        }
        let zeros = std::iter::repeat_n(b'0', scale - fraction.len());
        // The number is built from its lowest byte.
        let mut bytes = vec![0_u8; self.len_bytes];
        for digit in whole.bytes().chain(fraction.bytes()).chain(zeros) {
            let mut carry = u16::from(digit - b'0');
            for byte in &mut bytes {
                let [low, high] = (u16::from(*byte) * 10 + carry).to_le_bytes();
                (*byte, carry) = (low, high.into());
            }
            if carry > 0 {
                return wrong("too large for its bytes");
            }
        }
        let is_zero = bytes.iter().all(|&byte| byte == 0);
        if is_negative {
            let mut carry = true;
            for byte in &mut bytes {
                (*byte, carry) = (!*byte).overflowing_add(carry.into());
            }
        }
        let has_sign = bytes.last().is_some_and(|last| last & 0x80 != 0);
        if has_sign != (is_negative && !is_zero) {
            return wrong("too large for its bytes");
        }
        if self.is_big_endian {
            bytes.reverse();
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(physical: PhysicalType, len_bytes: usize, logical: &str) -> Decimal {
        Decimal::of(physical, Some(len_bytes), logical).unwrap()
    }

    /// Returns the text of `number / 10^scale`.
    fn text_of(number: i128, scale: usize) -> String {
        let digits = format!("{:0>width$}", number.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        format!("{}{whole}.{fraction}", if number < 0 { "-" } else { "" })
    }

    #[test]
    fn decimals_have_the_bytes_of_the_scaled_number() {
        let mut number: i128 = 1;
        for i in 0..2_000_usize {
            number = number.wrapping_mul(0x1e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).wrapping_add(1);
            let (digits, scale) = (1 + i % 38, i % 7);
            let (precision, number) = (digits.max(scale), number % 10_i128.pow(digits.try_into().unwrap()));
            let fixed = decimal(PhysicalType::FixedLenByteArray, 16, &format!("decimal({precision},{scale})"));
            let mut expected = number.to_le_bytes();
            expected.reverse();
            for text in [text_of(number, scale), text_of(number, scale) + "000"] {
                assert_eq!(fixed.encode(&text).unwrap(), expected, "{text}");
            }
            if digits < 18 {
                let of = decimal(PhysicalType::Int64, 0, &format!("decimal({precision},{scale})"));
                let expected = i64::try_from(number).unwrap().to_le_bytes();
                assert_eq!(of.encode(&text_of(number, scale)).unwrap(), expected);
            }
        }
    }

    #[test]
    fn a_decimal_is_exact_or_an_error() {
        let of = decimal(PhysicalType::Int32, 0, "decimal(9,2)");
        for (text, number) in [
            ("2", 200_i32),
            ("2.0", 200),
            ("+2.000", 200),
            ("002.5", 250),
            ("2.", 200),
            (".05", 5),
            ("-0.01", -1),
            ("-0", 0),
            ("-9999999.99", -999_999_999),
        ] {
            assert_eq!(of.encode(text).unwrap(), number.to_le_bytes(), "{text}");
        }
        for text in ["2.005", "10000000", "1e3", "1_000", "", ".", "-", "+-1", "1.2.3", "0x1", "٣", "1,5", "1 2", "nan"]
        {
            assert!(of.encode(text).is_err(), "{text}");
        }
        // The precision allows more than the bytes hold.
        let narrow = decimal(PhysicalType::FixedLenByteArray, 1, "decimal(5,0)");
        assert_eq!(["127", "-128"].map(|text| narrow.encode(text).unwrap()), [vec![0x7f], vec![0x80]]);
        assert!(["128", "-129", "256", "99999"].iter().all(|text| narrow.encode(text).is_err()));
        let wide = decimal(PhysicalType::Int32, 0, "decimal(12,0)");
        assert_eq!(wide.encode("-2147483648").unwrap(), i32::MIN.to_le_bytes());
        assert!(["2147483648", "-2147483649", "4294967296"].iter().all(|text| wide.encode(text).is_err()));
        for logical in ["decimal(0,0)", "decimal(2,3)", "decimal(9,-1)", "decimal", "decimal(99999,0)", "decimal(9)"] {
            assert_eq!(Decimal::of(PhysicalType::Int32, None, logical), None, "{logical}");
        }
        assert_eq!(Decimal::of(PhysicalType::FixedLenByteArray, Some(1 << 30), "decimal(9,2)"), None);
        assert_eq!(Decimal::of(PhysicalType::ByteArray, None, "decimal(9,2)"), None);
    }

    #[test]
    fn an_integer_is_exact_or_an_error() {
        let of = |physical, logical, bits| Integer::of(physical, logical, bits).unwrap();
        let (int32, int64) = (PhysicalType::Int32, PhysicalType::Int64);
        for (of, low, high) in [
            (of(int32, "", None), i128::from(i32::MIN), i128::from(i32::MAX)),
            (of(int32, "", Some(8)), -128, 127),
            (of(int32, "", Some(16)), -32_768, 32_767),
            (of(int32, "uint8", Some(8)), 0, 255),
            (of(int32, "uint16", None), 0, 65_535),
            (of(int32, "uint32", None), 0, u32::MAX.into()),
            (of(int64, "", Some(64)), i64::MIN.into(), i64::MAX.into()),
            (of(int64, "uint64", None), 0, u64::MAX.into()),
        ] {
            for number in [low, high, 0, 7] {
                let bytes = number.to_le_bytes();
                assert_eq!(of.encode(&number.to_string()).unwrap(), bytes[..of.len_bytes]);
            }
            for number in [low - 1, high + 1] {
                assert!(of.encode(&number.to_string()).is_err(), "{number}");
            }
            assert_eq!(of.encode("+05").unwrap(), of.encode("5").unwrap());
            assert_eq!(of.encode("-0").unwrap(), of.encode("0").unwrap());
            for text in ["", "-", "1e3", "5.", ".5", "5.0", "1_0", "٣", "0x5", &"9".repeat(60)] {
                assert!(of.encode(text).is_err(), "{text}");
            }
        }
        for (physical, logical, bits) in [
            (int32, "uint64", None),
            (int32, "", Some(64)),
            (int32, "", Some(0)),
            (int64, "date", None),
            (int64, "uint", None),
        ] {
            assert_eq!(Integer::of(physical, logical, bits), None, "{logical}");
        }
    }
}
