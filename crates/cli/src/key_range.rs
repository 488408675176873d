//! Parses ranges of keys: `LOWER..UPPER`, and `LOWER..=UPPER` to include the upper bound.

use std::ops::Bound::{self, Excluded, Included, Unbounded};

use super::{keys, text};

/// The bounds of a range.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyRange {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Parses a range. The first `..` divides it, so a lower bound that contains `..` or ends with
    /// a dot needs hexadecimal notation. So does an excluded upper bound that begins with `=`. A
    /// range without a lower or upper bound is unbounded on that side.
    ///
    /// # Errors
    /// Returns a message if there are no two adjacent dots, if `hex` is set and a bound is not in
    /// hexadecimal notation, or if the lower bound is above the upper bound.
    pub fn parse(written: &[u8], hex: bool) -> Result<Self, String> {
        let Some(at) = written.windows(2).position(|two| two == b"..") else {
            return Err("not a range; write LOWER..UPPER, or LOWER..=UPPER to include UPPER".into());
        };
        let (lower, upper) = (written.get(..at).unwrap_or_default(), written.get(at + 2..).unwrap_or_default());
        let end = |bytes: &[u8], offset: usize| -> Result<Vec<u8>, String> {
            let mut key = Vec::new();
            if hex {
                text::unhex(bytes, &mut key)
                    .map_err(|bad| format!("column {}: {}", offset + bad + 1, keys::NO_PAIR))?;
            } else {
                key.extend_from_slice(bytes);
            }
            Ok(key)
        };
        let lower = if lower.is_empty() { Unbounded } else { Included(end(lower, 0)?) };
        let upper = match upper.strip_prefix(b"=") {
            Some(upper) => Included(end(upper, at + 3)?),
            None if upper.is_empty() => Unbounded,
            None => Excluded(end(upper, at + 2)?),
        };
        if let (Included(lower), Included(upper) | Excluded(upper)) = (&lower, &upper) {
            check_order(lower, upper)?;
        }
        Ok(Self { lower, upper })
    }

    /// Returns the lower bound.
    pub fn lower(&self) -> Bound<&[u8]> {
        self.lower.as_ref().map(Vec::as_slice)
    }

    /// Returns the upper bound.
    pub fn upper(&self) -> Bound<&[u8]> {
        self.upper.as_ref().map(Vec::as_slice)
    }
}

/// Returns a message if the lower bound is above the upper bound.
pub fn check_order(lower: &[u8], upper: &[u8]) -> Result<(), String> {
    if lower > upper {
        return Err("the lower bound is above the upper bound; exchange the bounds".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, hex: bool) -> Result<KeyRange, String> {
        KeyRange::parse(text.as_bytes(), hex)
    }

    #[test]
    fn all_forms_of_bounds_are_read() {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let range = |lower, upper| Ok(KeyRange { lower, upper });
        assert_eq!(parsed("a..b", false), range(Included(bytes("a")), Excluded(bytes("b"))));
        assert_eq!(parsed("a..=b", false), range(Included(bytes("a")), Included(bytes("b"))));
        assert_eq!(parsed("a..", false), range(Included(bytes("a")), Unbounded));
        assert_eq!(parsed("..b", false), range(Unbounded, Excluded(bytes("b"))));
        assert_eq!(parsed("..", false), range(Unbounded, Unbounded));
        // The empty key is a bound if it is included.
        assert_eq!(parsed("..=", false), range(Unbounded, Included(Vec::new())));
        assert_eq!(parsed("a..b..c", false), range(Included(bytes("a")), Excluded(bytes("b..c"))));
        assert_eq!(parsed("612e2e..=62", true), range(Included(bytes("a..")), Included(bytes("b"))));
    }

    #[test]
    fn a_message_says_what_is_wrong() {
        assert!(parsed("plum", false).unwrap_err().contains("LOWER..UPPER"));
        assert!(parsed("61..6", true).unwrap_err().starts_with("column 6: "));
        for (reversed, hex) in [("b..a", false), ("b..=a", false), ("b..=", false), ("7a..61", true)] {
            assert!(parsed(reversed, hex).unwrap_err().contains("exchange the bounds"), "{reversed}");
        }
        assert!(parsed("a..a", false).is_ok() && parsed("a..=a", false).is_ok());
        assert!(parsed("6x..61", true).unwrap_err().contains("hexadecimal"));
    }
}
