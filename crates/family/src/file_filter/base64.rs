//! Encodes and decodes base64 with the standard alphabet and padding (RFC 4648, section 4). This
//! crate has its own code for it, because the code is short.

use crate::error::{Error, Field, Result};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PAD: u8 = b'=';

pub(super) const TOO_LARGE: Error = Error::TooLarge { what: "a base64 text" };

pub(super) fn encode(bytes: &[u8]) -> Result<String> {
    let mut text = String::new();
    text.try_reserve_exact(bytes.len().div_ceil(3).saturating_mul(4)).map_err(|_| TOO_LARGE)?;
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |word, i| word << 8 | u32::from(chunk.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let digit = ALPHABET.get((word >> (18 - 6 * i) & 63) as usize).copied().unwrap_or(PAD);
            text.push(char::from(if i <= chunk.len() { digit } else { PAD }));
        }
    }
    Ok(text)
}

/// Decodes a text that [`encode`] returned. It refuses every other text.
pub(super) fn decode(text: &str) -> Result<Vec<u8>> {
    let text = text.as_bytes();
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(text.len().div_ceil(4) * 3).map_err(|_| TOO_LARGE)?;
    let last = text.len().saturating_sub(1) / 4;
    for (number, group) in text.chunks(4).enumerate() {
        let read = || {
            let digits = group.iter().rev().skip_while(|&&digit| digit == PAD).count();
            // Padding is allowed only at the end of the text. A single digit encodes no byte.
            if group.len() != 4 || digits < 2 || digits < 4 && number != last {
                return None;
            }
            let mut word = 0u32;
            for &digit in group.iter().take(digits) {
                word = word << 6 | u32::try_from(ALPHABET.iter().position(|&known| known == digit)?).ok()?;
            }
            word <<= 6 * (4 - digits);
            #[expect(clippy::cast_possible_truncation, reason = "takes eight bits of the word")]
            let of_group = [16, 8, 0].map(|shift| (word >> shift) as u8);
            let (taken, cut) = of_group.split_at_checked(digits - 1)?;
            // Unused bits must be zero, so that each byte string has only one text.
            cut.iter().all(|&byte| byte == 0).then(|| taken.to_vec())
        };
        let corrupt = || Error::Corrupt { field: Field::Base64, offset: number as u64 * 4 };
        bytes.extend_from_slice(&read().ok_or_else(corrupt)?);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_test_vectors_of_the_standard() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()).unwrap(), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all).unwrap()).unwrap(), all);
    }

    #[test]
    fn base64_refuses_every_other_text() {
        for text in
            ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "====", "Z===", "Zm9v\n", "Zm 9", "Zm9-", "=m9v", "Zg=a"]
        {
            assert!(matches!(decode(text), Err(Error::Corrupt { field: Field::Base64, .. })), "{text}");
        }
    }
}
