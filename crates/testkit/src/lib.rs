//! Helpers for the tests, benches, examples and fuzz targets of this repository; never published.
#![allow(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::unwrap_used, reason = "a test may panic")]

pub mod allocation;
pub mod blocks;
pub mod example;
pub mod foreign;
mod isa;
#[cfg(feature = "measure")]
pub mod measure;
mod messages;
mod random;

pub use isa::choose_instruction_set;
pub use random::Random;

/// Returns whether `printed` is `value` to the printed digits. Published tables round some values and
/// truncate others.
pub fn agrees(value: f64, printed: &str) -> bool {
    let (mantissa, exponent) = printed.split_once('e').unwrap_or((printed, "0"));
    let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len()) as i32;
    let unit = 10f64.powi(exponent.parse::<i32>().unwrap() - decimals);
    let off = value - printed.parse::<f64>().unwrap();
    off > -0.5 * unit - 1e-12 && off < unit
}

/// Returns the value of the environment variable `FILTERBLOCK_SPARSE`, or 1 if it is not set. With
/// a larger value, some tests run fewer cases. This is for slow machines.
pub fn sparse() -> u64 {
    static SPARSE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *SPARSE.get_or_init(|| std::env::var("FILTERBLOCK_SPARSE").map_or(1, |text| text.parse().unwrap()))
}
