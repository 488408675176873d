//! Tests how filter specifications are read, refused and written.

use std::fmt;

use filterblock::{Error, FilterKind, FilterSpec};

/// Returns the kinds that take a budget.
fn kinds() -> impl Iterator<Item = FilterKind> {
    FilterKind::ALL.into_iter().filter(|kind| FilterSpec::of_lowest_fpr(*kind).is_some())
}

#[test]
fn display_returns_the_error_of_its_writer() {
    struct NoRoom;
    impl fmt::Write for NoRoom {
        fn write_str(&mut self, _: &str) -> fmt::Result {
            Err(fmt::Error)
        }
    }
    use fmt::Write as _;
    assert!(write!(NoRoom, "{}", "bloom:10".parse::<FilterSpec>().unwrap()).is_err());
}

#[test]
fn specs_survive_a_round_trip_through_text() {
    for text in [
        "bloom:10",
        "blocked-bloom:9.5",
        "bloom:fpr=0.01",
        "blocked-bloom:fpr=0.000001",
        "split-block:12",
        "split-block-512:fpr=0.001",
        "ribbon:7.5",
        "bumped-ribbon:fpr=0.01",
        "bumped-ribbon:8:compact",
        "binary-fuse:12",
        "grafite:12.7",
        "grafite:fpr=0.01",
        "grafite:L=1024:fpr=0.01",
        "grafite:L=16:12.7",
        "always-maybe",
    ] {
        let spec: FilterSpec = text.parse().unwrap();
        assert_eq!(spec.to_string(), text);
    }
}

#[test]
fn a_missing_budget_error_gives_two_valid_examples() {
    let error = "bloom".parse::<FilterSpec>().unwrap_err();
    assert!(error.to_string().ends_with(": missing budget; try bloom:10 or bloom:fpr=0.01"), "{error}");
    for kind in kinds() {
        let reason = kind.name().parse::<FilterSpec>().unwrap_err().to_string();
        let (example, other) = reason.split_once("try ").unwrap().1.split_once(" or ").unwrap();
        for text in [example, other] {
            assert_eq!(text.parse::<FilterSpec>().unwrap().kind(), kind, "{text}");
        }
    }
}

#[test]
fn impossible_budgets_are_refused() {
    for budget in
        ["0", "-1", "NaN", "inf", "1000000000", "0.5", "", "ten", "fpr=0", "fpr=1", "fpr=2", "fpr=NaN", "fpr=1e-30"]
    {
        for kind in ["bloom", "blocked-bloom", "split-block", "split-block-512"] {
            let text = format!("{kind}:{budget}");
            let error = text.parse::<FilterSpec>().unwrap_err();
            assert!(matches!(&error, Error::Invalid { what: "filter", given, .. } if *given == text), "{error}");
        }
    }
    for text in ["", "empty:10", "always-maybe:10", ":"] {
        assert!(text.parse::<FilterSpec>().is_err(), "{text}");
    }
    // A text from a damaged or hostile file must not overflow the stack.
    assert!(format!("bumped-ribbon:8{}", ":compact".repeat(100_000)).parse::<FilterSpec>().is_err());
}

#[test]
fn refused_texts_get_a_reason_and_a_next_step() {
    const RATE: &str = "the false-positive rate must be a number above 0 and below 1; try bloom:fpr=0.01";
    const NO_BUDGET: &str = "always-maybe takes no budget; try always-maybe, or bloom:10 for a filter with a budget";
    const COMPACT_TWICE: &str = "compact is given twice; give it once, as in bumped-ribbon:8:compact";
    const ONLY_BUMPED_RIBBON: &str = "only bumped-ribbon takes :compact; try bumped-ribbon:8:compact";
    const NO_RANGE_BUDGET: &str = "missing budget; try grafite:12.7 or grafite:fpr=0.01";
    const RANGE_LEN: &str = "the range length must be a whole number from 1 to 2^40; try grafite:L=1024:fpr=0.01";
    for (text, reason) in [
        ("blom:10", "unknown kind \"blom\"; did you mean bloom?"),
        ("bumped-ribon", "unknown kind \"bumped-ribon\"; did you mean bumped-ribbon?"),
        ("always-mabe", "unknown kind \"always-mabe\"; did you mean always-maybe?"),
        ("cuckoo:8", "unknown kind \"cuckoo\"; try bloom:10, blocked-bloom:10 or bumped-ribbon:8"),
        ("binary-fuse:9", "bits per key must be 8, 12 or 16; try binary-fuse:8"),
        ("ribbon:33", "bits per key must be from 1 to 32; try ribbon:7"),
        ("grafite:51", "bits per key must be from 1 to 50; try grafite:12.7"),
        ("bloom:10:", "bits per key must be from 1 to 100; try bloom:10"),
        ("bloom:fpr=2", RATE),
        ("bumped-ribbon:8:compact:compact", COMPACT_TWICE),
        ("bumped-ribbon:8:compact:compact:compact", COMPACT_TWICE),
        ("bumped-ribbon:compact:8:compact", "compact comes after the budget; try bumped-ribbon:8:compact"),
        ("bumped-ribbon:8:compact:9", "it has two budgets, 8 and 9; give one budget"),
        ("bloom:10:10", "it has two budgets, 10 and 10; give one budget"),
        ("bloom:10:fpr=0.01", "it has two budgets, 10 and fpr=0.01; give one budget"),
        ("grafite:L=16:12:fpr=0.01", "it has two budgets, 12 and fpr=0.01; give one budget"),
        ("bloom:10:compact", ONLY_BUMPED_RIBBON),
        ("bloom:10:compact:compact", ONLY_BUMPED_RIBBON),
        ("bloom:compact:10", ONLY_BUMPED_RIBBON),
        ("grafite:L=16:fpr=0.01:compact", ONLY_BUMPED_RIBBON),
        ("always-maybe:10:10", NO_BUDGET),
        ("grafite", NO_RANGE_BUDGET),
        ("grafite:L=16", NO_RANGE_BUDGET),
        ("grafite:L=0:fpr=0.01", RANGE_LEN),
        ("grafite:L=x:9", RANGE_LEN),
        ("grafite:L=1:L=2:9", "the range length is given twice; give it once, as in grafite:L=1024:fpr=0.01"),
        ("grafite:fpr=0.01:L=16", "the range length comes before the budget; try grafite:L=1024:fpr=0.01"),
        ("bloom:L=16:fpr=0.01", "only range filters take a range length; try grafite:L=1024:fpr=0.01"),
    ] {
        let error = text.parse::<FilterSpec>().unwrap_err();
        assert_eq!(error.to_string(), format!("invalid filter {text:?}: {reason}"));
    }
}

#[test]
fn budgets_are_taken_up_to_the_limits_of_their_kind() {
    for (text, is_taken) in [
        ("ribbon:32", true),
        ("ribbon:32.001", false),
        ("bumped-ribbon:33", true),
        ("bloom:100", true),
        ("blocked-bloom:100", true),
        ("split-block:100", true),
        ("bloom:100.001", false),
        ("bloom:0.999", false),
        ("bloom:1", true),
        ("binary-fuse:32", false),
        ("ribbon:fpr=0.0000000003", true),
        ("ribbon:fpr=0.0000000002", false),
        ("bumped-ribbon:fpr=0.0000000003", true),
        ("bumped-ribbon:fpr=0.0000000002", false),
        ("blocked-bloom:fpr=2e-9", true),
        ("blocked-bloom:fpr=1e-9", false),
        ("bloom:fpr=1e-10", true),
        ("bloom:fpr=1e-11", false),
        ("binary-fuse:fpr=0.00001", false),
    ] {
        assert_eq!(text.parse::<FilterSpec>().is_ok(), is_taken, "{text}");
    }
}

#[test]
fn every_kind_returns_the_expected_rate_of_its_budget() {
    for (text, rate) in [
        ("bloom:10", 8.194e-3),
        ("blocked-bloom:10", 9.662e-3),
        // The FPRs of split blocks come from the formula of Putze, Sanders and Singler with a
        // Poisson load.
        ("split-block:10", 1.265e-2),
        ("split-block-512:10", 1.049e-2),
        ("ribbon:1", 0.5),
        ("ribbon:8", 2f64.powi(-8)),
        ("ribbon:32", 2f64.powi(-32)),
        ("bumped-ribbon:7.5", 2f64.powf(-7.5)),
        ("bumped-ribbon:33", 2f64.powi(-32)),
        ("binary-fuse:8", 2f64.powi(-8)),
        ("binary-fuse:12", 2f64.powi(-12)),
        ("binary-fuse:16", 2f64.powi(-16)),
        ("always-maybe", 1.0),
    ] {
        let found = text.parse::<FilterSpec>().unwrap().expected_fpr();
        assert!((found / rate - 1.0).abs() < 1e-3, "{text}: {found} for {rate}");
    }
}

#[test]
fn the_default_is_a_blocked_bloom_filter_of_ten_bits() {
    assert_eq!(FilterSpec::default().to_string(), "blocked-bloom:10");
}

#[test]
fn a_rate_gives_the_smallest_filter_that_reaches_it() {
    let bits = |text: &str| text.parse::<FilterSpec>().unwrap().millibits_per_key();
    assert_eq!(bits("bloom:fpr=0.01"), 9_593);
    assert_eq!(bits("blocked-bloom:fpr=0.0097"), 9_992);
}
