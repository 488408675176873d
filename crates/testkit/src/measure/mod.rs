//! What the benchmarks share: clocks, keys, the machine, and the CSV of a record.

pub mod clock;
pub mod csv_file;
pub mod keys;
pub mod machine;

use std::io::IsTerminal;
use std::process::ExitCode;

/// Runs the program of a benchmark with the instruction set that the environment variable
/// `FILTERBLOCK_ISA` names.
pub fn run(program: impl FnOnce() -> Result<(), String>) -> ExitCode {
    match machine::choose_instruction_set().and_then(|()| program()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Shows the progress in one line of a terminal.
pub fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{text:78}\r");
    }
}

/// Rounds to this number of decimals.
pub fn rounded(decimals: i32, value: f64) -> f64 {
    let unit = 10f64.powi(decimals);
    (value * unit).round() / unit
}

/// Parses a number above 0. A `k` or `K` at its end stands for thousands, an `M` for millions.
pub fn size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let number: usize = digits.parse().map_err(|_| format!("{text}: expected a number like 1000, 10k or 1M"))?;
    if number == 0 { Err("0: expected at least 1".into()) } else { Ok(number * unit) }
}
