//! Opens the standard streams exactly as the process received them.
//!
//! Before `main`, Rust's runtime on Unix replaces a closed standard stream by /dev/null. A closed
//! stdin then reads as an empty file, and `build` would turn it into an empty filter. Output to a
//! closed stdout would be lost without an error. `main` cannot detect this: the caller may have
//! opened /dev/null, too. On Linux, a function therefore checks the streams before the runtime
//! does: the C library calls the functions listed in `.init_array` before `main`. On other systems
//! a closed stream stays undetected.
//!
//! The handles of the standard library also hide a descriptor that is open in the wrong direction
//! only (`0>file`): stdin looks empty, and output to stdout is lost. On Unix, [`reader`] and
//! [`writer`] return plain files, which report the error.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "link_section: the section must hold function pointers, as it does here")
)]

#[cfg(unix)]
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file, or stdin.
#[cfg(unix)]
pub type Input = File;
/// A file, or stdin.
#[cfg(not(unix))]
pub type Input = Box<dyn io::Read>;

static STDIN_CLOSED: AtomicBool = AtomicBool::new(false);
static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

#[cfg(target_os = "linux")]
mod before_main {
    use std::sync::atomic::Ordering;

    use rustix::io::{Errno, fcntl_getfd};
    use rustix::stdio;

    /// Records whether stdin and stdout are closed. The standard library is not initialised yet, so
    /// its streams are not used.
    extern "C" fn look() {
        super::STDIN_CLOSED.store(fcntl_getfd(stdio::stdin()) == Err(Errno::BADF), Ordering::Relaxed);
        super::STDOUT_CLOSED.store(fcntl_getfd(stdio::stdout()) == Err(Errno::BADF), Ordering::Relaxed);
    }

    // SAFETY: the section is an array of function pointers. The C library calls each of them once,
    // with arguments that the C calling convention lets a function ignore. This static is one such
    // pointer.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;
}

fn closed(advice: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, format!("the stream is closed; {advice}"))
}

/// Opens stdin.
///
/// # Errors
/// Returns an error if the process was started with a closed stdin (detected only on Linux), or if
/// the descriptor cannot be duplicated.
pub fn reader() -> io::Result<Input> {
    if STDIN_CLOSED.load(Ordering::Relaxed) {
        return Err(closed("redirect a file or a pipe into it"));
    }
    #[cfg(unix)]
    let stdin = File::from(std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?);
    #[cfg(not(unix))]
    let stdin: Input = Box::new(io::stdin());
    Ok(stdin)
}

pub fn open(path: &Path) -> io::Result<Input> {
    #[cfg(unix)]
    return File::open(path);
    #[cfg(not(unix))]
    Ok(Box::new(std::fs::File::open(path)?))
}

/// Waits until `input` has bytes or has ended, or the reader of stdout has closed its end. Returns
/// whether `input` has bytes or has ended, and whether the reader has closed its end. Systems other
/// than Unix do not wait.
pub fn wait(input: &Input) -> io::Result<(bool, bool)> {
    #[cfg(unix)]
    {
        use rustix::event::{PollFd, PollFlags, poll};
        let stdout = io::stdout();
        let mut both = [PollFd::new(input, PollFlags::IN), PollFd::new(&stdout, PollFlags::empty())];
        while let Err(error) = poll(&mut both, None) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        let [input, stdout] = both.map(|found| found.revents());
        Ok((!input.is_empty(), stdout.intersects(PollFlags::ERR | PollFlags::HUP)))
    }
    #[cfg(not(unix))]
    Ok((true, false))
}

/// Opens stdout without a buffer.
///
/// # Errors
/// Returns an error if the process was started with a closed stdout (detected only on Linux), or if
/// the descriptor cannot be duplicated.
pub fn writer() -> io::Result<Box<dyn Write>> {
    check_stdout()?;
    #[cfg(unix)]
    let stdout = File::from(std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?);
    #[cfg(not(unix))]
    let stdout = io::stdout();
    Ok(Box::new(stdout))
}

/// Checks that stdout is open.
///
/// # Errors
/// Returns an error if the process was started with a closed stdout (detected only on Linux).
pub fn check_stdout() -> io::Result<()> {
    if STDOUT_CLOSED.load(Ordering::Relaxed) { Err(closed("redirect it to a file or a pipe")) } else { Ok(()) }
}
