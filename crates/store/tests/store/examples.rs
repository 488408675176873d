//! Runs the example `lookups_saved` with fewer keys, and checks that its measurements match the
//! formulas.
#![allow(dead_code, reason = "the main function of the example is unused")]

#[path = "../../examples/lookups_saved.rs"]
mod lookups_saved;

#[test]
fn the_lookups_saved_example_passes_its_checks() {
    use filterblock_testkit::example::{Arguments, Checks};
    let mut checks = Checks::default();
    lookups_saved::run(&Arguments { file: None, count: 50_000 }, &mut checks).unwrap();
    assert_eq!(checks.failed, 0, "some checks failed; the results are printed above");
}
