//! What examples share: their arguments, and checks whose results they print.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

/// An error that ends an example early, such as an unreadable file.
pub type Failure = Box<dyn std::error::Error>;

/// The arguments `[FILE] [--count N]`.
pub struct Arguments {
    /// A file with one key per line.
    pub file: Option<PathBuf>,
    /// The size of the generated input, such as its number of keys, if the example reads no file.
    pub count: usize,
}

/// Reads the arguments and runs an example. `count` is the default of [`Arguments::count`]. With
/// `--help`, only prints `about` and the arguments. The exit code is 2 after an error, 1 if a
/// result is out of bounds, and 0 otherwise.
pub fn main(
    about: &str,
    count: usize,
    example: impl FnOnce(&Arguments, &mut Checks) -> Result<(), Failure>,
) -> ExitCode {
    let mut arguments = Arguments { file: None, count };
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        let refused = match word.to_str() {
            Some("--help" | "-h") => {
                println!("{about}\nArguments: [FILE] [--count N]   (default N: {count})");
                return ExitCode::SUCCESS;
            }
            Some("--count") => {
                match words.next().and_then(|n| n.to_str()?.parse().ok()).filter(|n| (1_000..=100_000_000).contains(n))
                {
                    Some(n) => {
                        arguments.count = n;
                        None
                    }
                    None => Some("--count: expected a number from 1000 to 100000000; try 100000".to_owned()),
                }
            }
            Some(option) if option.starts_with("--") => Some(format!("unknown option {option}; try --help")),
            _ if arguments.file.is_some() => Some("expected at most one file; pass one file name".to_owned()),
            _ => {
                arguments.file = Some(word.into());
                None
            }
        };
        if let Some(reason) = refused {
            eprintln!("error: {reason}");
            return ExitCode::from(2);
        }
    }
    let mut checks = Checks::default();
    match example(&arguments, &mut checks) {
        Ok(()) if checks.failed == 0 => ExitCode::SUCCESS,
        Ok(()) => {
            eprintln!(
                "error: {} of the results above are out of bounds; see the lines marked OUT OF BOUNDS",
                checks.failed
            );
            ExitCode::from(1)
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}

impl Arguments {
    /// Returns the lines of the file. Without a file, returns the keys that `make` generates from
    /// the numbers below `count`. Returns an error if the file is unreadable or has fewer than
    /// 1,000 lines.
    pub fn keys(&self, make: impl Fn(u64) -> String) -> Result<Vec<Vec<u8>>, Failure> {
        let Some(path) = &self.file else {
            return Ok((0..self.count as u64).map(|i| make(i).into_bytes()).collect());
        };
        let in_file = |error| format!("{}: {error}", path.display());
        let lines = BufReader::new(File::open(path).map_err(in_file)?).split(b'\n');
        let lines = lines.collect::<Result<Vec<_>, _>>().map_err(in_file)?;
        match lines.len() {
            0..1_000 => Err(format!("{}: expected at least 1,000 lines; choose a longer file", path.display()).into()),
            _ => Ok(lines),
        }
    }
}

/// Prints results, and counts the results that are out of bounds.
#[derive(Default)]
pub struct Checks {
    /// The number of results out of bounds.
    pub failed: u64,
}

impl Checks {
    /// Prints `found`, and counts a failure unless it is about `trials * rate`. The allowed
    /// difference is five standard deviations, plus 3 % of the expected number for rounding in the
    /// formula and the filter. A difference of 5 is always allowed.
    pub fn share(&mut self, what: &str, found: u64, trials: u64, rate: f64) {
        let expected = trials as f64 * rate;
        let allowed = 5.0 * (expected * (1.0 - rate)).max(1.0).sqrt() + 0.03 * expected;
        let share = found as f64 / trials.max(1) as f64 * 100.0;
        let is_met = (found as f64 - expected).abs() <= allowed;
        self.line(
            is_met,
            &format!("{what}: {found} of {trials} ({share:.3} %), predicted {expected:.0} ({:.3} %)", rate * 100.0),
        );
    }

    /// Prints a condition that must always hold, and counts a failure if it is not met.
    pub fn holds(&mut self, what: &str, is_met: bool) {
        self.line(is_met, what);
    }

    fn line(&mut self, is_met: bool, text: &str) {
        self.failed += u64::from(!is_met);
        println!("  [{}] {text}", if is_met { "ok" } else { "OUT OF BOUNDS" });
    }
}

/// Prints the memory of a filter and the estimated memory of a hash set with the same keys.
pub fn compare_memory<'k>(filter_bits: u64, keys: impl IntoIterator<Item = &'k [u8]>) {
    let (mut entries, mut bytes) = (0usize, 0);
    for key in keys {
        entries += 1;
        // The number of slots of a hash table is a power of two, and at most 7/8 of them are used.
        // Each slot has a pointer, a length and a control byte. Each key has its own allocation.
        bytes += (key.len() + 8).next_multiple_of(16).max(32);
    }
    let slots = (entries * 8 / 7).next_power_of_two();
    let exact = (bytes + slots * (16 + 1)) as f64;
    let filter = filter_bits as f64 / 8.0;
    println!(
        "  memory: filter {:.1} KiB, hash set of the same {entries} keys about {:.1} KiB: {:.1} times as much",
        filter / 1024.0,
        exact / 1024.0,
        exact / filter
    );
}
