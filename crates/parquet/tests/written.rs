//! Tests of values that people write as text.

use std::cell::RefCell;

use filterblock_parquet::written::{Encoding, ValueType};

/// Returns all encodings that a query looks up for this value if the filter denies each of
/// them. Asserts that the answer is false.
fn asked(kind: ValueType, written: &str) -> Result<Vec<Vec<u8>>, String> {
    let seen = RefCell::new(Vec::new());
    let answer = Encoding::Typed(kind).ask(written.as_bytes(), |bytes| {
        seen.borrow_mut().push(bytes.to_vec());
        false
    })?;
    assert!(!answer);
    Ok(seen.into_inner())
}

#[test]
fn values_have_the_plain_encoding_of_their_type() {
    let cases: [(ValueType, &str, &[u8]); 11] = [
        (ValueType::Int32, "-2", &[0xfe, 0xff, 0xff, 0xff]),
        (ValueType::Uint32, "4294967294", &[0xfe, 0xff, 0xff, 0xff]),
        (ValueType::Int64, "258", &[2, 1, 0, 0, 0, 0, 0, 0]),
        (ValueType::Uint64, "18446744073709551615", &[0xff; 8]),
        (ValueType::Float, "1.5", &[0, 0, 0xc0, 0x3f]),
        (ValueType::Double, "-1", &[0, 0, 0, 0, 0, 0, 0xf0, 0xbf]),
        (ValueType::Double, "inf", &[0, 0, 0, 0, 0, 0, 0xf0, 0x7f]),
        (ValueType::Utf8, "é", &[0xc3, 0xa9]),
        (ValueType::Bytes, "", &[]),
        (
            ValueType::Uuid,
            "00010203-0405-0607-0809-0a0b0c0d0e0f",
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        ),
        (ValueType::Int32, " 1 ", &[1, 0, 0, 0]),
    ];
    for (kind, written, expected) in cases {
        assert_eq!(asked(kind, written).unwrap(), [expected], "{written}");
    }
}

#[test]
fn zero_is_looked_up_with_both_signs() {
    for written in ["0", "-0.0"] {
        assert_eq!(asked(ValueType::Double, written).unwrap().len(), 2);
        assert_eq!(asked(ValueType::Float, written).unwrap().len(), 2);
    }
}

#[test]
fn a_value_of_another_type_is_an_error() {
    for (kind, written) in [
        (ValueType::Int32, "2147483648"),
        (ValueType::Int64, "1.0"),
        (ValueType::Uint64, "-1"),
        (ValueType::Float, "one"),
        (ValueType::Double, "NaN"),
        (ValueType::Float, "-nan"),
        (ValueType::Uuid, "00"),
        (ValueType::Uuid, "00010203-0405-0607-0809-0a0b0c0d0e0g"),
        (ValueType::Uuid, "00010203-0405-0607-0809-0a0b0c0d0e0f0"),
    ] {
        assert!(asked(kind, written).is_err(), "{written}");
    }
    assert!(Encoding::Typed(ValueType::Utf8).ask(&[0xff], |_| false).is_err());
    assert!(Encoding::Plain(Some(4)).ask(&[1, 2, 3], |_| false).unwrap_err().contains("has 4 bytes"));
}
