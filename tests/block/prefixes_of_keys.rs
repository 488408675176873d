//! Tests the extractors with all short keys of a small alphabet.

use std::ops::Bound;

use filterblock::layout::MAX_EXTRACTOR_LEN_BYTES;
use filterblock::{Error, PrefixExtractor};

/// The smallest byte, the delimiter, the byte after the delimiter, and the largest byte.
const ALPHABET: [u8; 4] = [0x00, b'/', b'0', 0xff];

/// Returns all keys of up to `max_len` bytes of the alphabet, in order.
fn keys(max_len: usize) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..max_len {
        last = last.iter().flat_map(|key| ALPHABET.map(|byte| [key.as_slice(), &[byte]].concat())).collect();
        all.extend(last.iter().cloned());
    }
    all.sort();
    all
}

fn extractors() -> Vec<PrefixExtractor> {
    let even = |key: &[u8]| Some(key.len() & !1);
    let first_if_slash = |key: &[u8]| key.first().filter(|&&byte| byte == b'/').map(|_| 1);
    let names = ["fixed:1", "fixed:2", "fixed:3", "capped:1", "capped:2", "capped:3", "delimiter:/", "row-column:/"];
    let more = ["delimiter:0xff", "row-column:0xff", "row-column:0x00"];
    let mut all: Vec<PrefixExtractor> = names.iter().chain(&more).map(|name| name.parse().unwrap()).collect();
    all.push(PrefixExtractor::named("even", even).unwrap());
    all.push(PrefixExtractor::named("first-if-slash", first_if_slash).unwrap().with_ranges());
    all
}

fn bounds(keys: &[Vec<u8>]) -> Vec<Bound<&[u8]>> {
    keys.iter()
        .flat_map(|key| [Bound::Included(key.as_slice()), Bound::Excluded(key.as_slice())])
        .chain([Bound::Unbounded])
        .collect()
}

/// Returns the positions of the keys of `all` that lie in the range. `all` is in order.
fn within(all: &[Vec<u8>], lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> std::ops::Range<usize> {
    let start = match lower {
        Bound::Included(first) => all.partition_point(|key| key.as_slice() < first),
        Bound::Excluded(first) => all.partition_point(|key| key.as_slice() <= first),
        Bound::Unbounded => 0,
    };
    let end = match upper {
        Bound::Included(last) => all.partition_point(|key| key.as_slice() <= last),
        Bound::Excluded(last) => all.partition_point(|key| key.as_slice() < last),
        Bound::Unbounded => all.len(),
    };
    start..end.max(start)
}

fn is_reversed(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    let (Bound::Included(first) | Bound::Excluded(first)) = lower else { return false };
    matches!(upper, Bound::Included(last) | Bound::Excluded(last) if first > last)
}

#[test]
fn every_key_of_a_range_has_the_prefix_of_the_range() {
    // The keys have up to two bytes more than the bounds, because the keys between two adjacent
    // bounds are longer than the bounds.
    let (all, ends) = (keys(5), keys(3));
    let bounds = bounds(&ends);
    for extractor in extractors() {
        let prefixes: Vec<Vec<&[u8]>> = all.iter().map(|key| extractor.prefixes(key).collect()).collect();
        let mut answered = 0;
        for &lower in &bounds {
            for &upper in &bounds {
                let Some(prefix) = extractor.prefix_of_range(lower, upper) else { continue };
                answered += 1;
                assert!(!is_reversed(lower, upper), "{extractor}: {lower:?} {upper:?} is reversed");
                for at in within(&all, lower, upper) {
                    assert!(prefixes[at].contains(&prefix), "{extractor}: {lower:?} {upper:?}: {:?}", all[at]);
                }
            }
        }
        assert!(answered > 0, "{extractor} answers no range");
    }
}

#[test]
fn the_range_of_a_closed_prefix_is_always_answered() {
    for name in ["fixed:2", "capped:2", "delimiter:/", "row-column:/"] {
        let extractor: PrefixExtractor = name.parse().unwrap();
        for key in keys(4) {
            for prefix in extractor.prefixes(&key) {
                let is_closed = match name {
                    "capped:2" => prefix.len() == 2,
                    "row-column:/" => prefix.ends_with(b"/"),
                    _ => true,
                };
                let end = PrefixExtractor::end_of_prefix(prefix);
                let end = end.as_ref().map(Vec::as_slice);
                let found = extractor.prefix_of_range(Bound::Included(prefix), end);
                assert_eq!(found == Some(prefix), is_closed, "{name}: {key:?}: {found:?}");
            }
        }
    }
}

#[test]
fn the_end_of_a_prefix_is_the_first_key_above_it() {
    let all = keys(4);
    for prefix in keys(3) {
        let end = PrefixExtractor::end_of_prefix(&prefix);
        let range = within(&all, Bound::Included(&prefix), end.as_ref().map(Vec::as_slice));
        let beginning: Vec<_> = all.iter().filter(|key| key.starts_with(&prefix)).collect();
        assert!(all[range].iter().eq(beginning), "{prefix:?}");
    }
}

#[test]
fn prefixes_are_taken_as_documented() {
    let cases: [(&str, &[u8], &[&[u8]]); 15] = [
        ("fixed:3", b"ab", &[]),
        ("fixed:3", b"abc", &[b"abc"]),
        ("fixed:3", b"abcd", &[b"abc"]),
        ("capped:3", b"", &[b""]),
        ("capped:3", b"ab", &[b"ab"]),
        ("capped:3", b"abcd", &[b"abc"]),
        ("delimiter:/", b"ab", &[]),
        ("delimiter:/", b"/", &[b"/"]),
        ("delimiter:/", b"a/b/c", &[b"a/"]),
        ("row-column:/", b"ab", &[]),
        ("row-column:/", b"row/", &[b"row/"]),
        ("row-column:/", b"row/col", &[b"row/", b"row/col"]),
        ("row-column:/", b"row/col/", &[b"row/", b"row/col/"]),
        ("row-column:/", b"row/col/7/8", &[b"row/", b"row/col/"]),
        ("row-column:/", b"//", &[b"/", b"//"]),
    ];
    for (name, key, expected) in cases {
        let extractor: PrefixExtractor = name.parse().unwrap();
        assert_eq!(extractor.prefixes(key).collect::<Vec<_>>(), expected, "{name} of {key:?}");
    }
}

#[test]
fn names_round_trip_and_have_one_form() {
    for name in ["fixed:1", "fixed:65535", "capped:8", "delimiter:/", "delimiter::", "delimiter:0", "row-column:0x00"] {
        let extractor: PrefixExtractor = name.parse().unwrap();
        assert_eq!((extractor.name(), extractor.to_string().as_str()), (name, name));
    }
    for (text, name) in [("fixed:08", "fixed:8"), ("delimiter:0x2F", "delimiter:/"), ("delimiter: ", "delimiter:0x20")]
    {
        assert_eq!(text.parse::<PrefixExtractor>().unwrap().name(), name);
    }
    for byte in 0..=255 {
        for extractor in [PrefixExtractor::delimiter(byte), PrefixExtractor::row_column(byte)] {
            assert_eq!(extractor.name().parse::<PrefixExtractor>().unwrap(), extractor);
        }
    }
}

#[test]
fn invalid_names_are_refused_with_a_suggestion() {
    let texts = [
        "",
        "fixed",
        "fixed:",
        "fixed:0",
        "fixed:65536",
        "fixed:-1",
        "fixed:8x",
        "capped:0",
        "capped:",
        "delimiter:",
        "delimiter:ab",
        "delimiter:0x",
        "delimiter:0x2",
        "delimiter:0x+2",
        "delimiter:ä",
        "row-column:",
        "rows:/",
        "Fixed:8",
    ];
    for text in texts {
        let error = text.parse::<PrefixExtractor>().unwrap_err();
        assert!(matches!(&error, Error::Invalid { what: "prefix extractor", given, .. } if given == text), "{error}");
        assert!(error.to_string().contains("; try "), "{error}");
    }
    let long = "n".repeat(MAX_EXTRACTOR_LEN_BYTES + 1);
    for name in ["", "fixed:8", "fixed:", "row-column:!", &long] {
        let error = PrefixExtractor::named(name, |_| None).unwrap_err();
        assert!(error.to_string().contains("; try "), "{error}");
    }
    assert!(PrefixExtractor::named(&long[1..], |_| None).is_ok());
}

#[test]
fn a_named_extractor_answers_only_for_ranges_that_it_knows() {
    let tenant = |key: &[u8]| (key.len() >= 4 && key[0] == b't').then_some(4);
    let silent = PrefixExtractor::named("tenant", tenant).unwrap();
    let (lower, upper) = (Bound::Included(b"t001".as_slice()), Bound::Excluded(b"t002".as_slice()));
    assert_eq!(silent.prefix_of_range(lower, upper), None);
    assert_eq!(silent.prefix_of_range(lower, lower), Some(b"t001".as_slice()));
    let extractor = silent.with_ranges();
    assert_eq!(extractor.prefix_of_range(lower, upper), Some(b"t001".as_slice()));
    assert_eq!(extractor.prefix_of_range(lower, Bound::Included(b"t002")), None);
    // For these functions, the statement of `with_ranges` is wrong. The test of the prefix or of
    // the upper bound detects it.
    let shrinking = PrefixExtractor::named("half", |key: &[u8]| Some(key.len() / 2)).unwrap().with_ranges();
    assert_eq!(shrinking.prefix_of_range(lower, upper), None);
    let growing = PrefixExtractor::named("even", |key: &[u8]| Some(key.len() & !1)).unwrap().with_ranges();
    assert_eq!(growing.prefix_of_range(lower, Bound::Included(b"t00199")), None);
    let beyond = PrefixExtractor::named("beyond", |key: &[u8]| Some(key.len() + 1)).unwrap();
    assert_eq!(beyond.prefixes(b"key").count(), 0);
}
