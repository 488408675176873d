//! The application in `examples/`, smaller than it is by itself: what it measures is what the formulas predict.
#![allow(dead_code, reason = "its main function")]

#[path = "../../examples/lookups_saved.rs"]
mod lookups_saved;

#[test]
fn lookups_saved() {
    use lookups_saved::support::{Arguments, Checks};
    let mut checks = Checks::default();
    lookups_saved::run(&Arguments { file: None, count: 50_000 }, &mut checks).unwrap();
    assert_eq!(checks.failed, 0, "the results printed above");
}
