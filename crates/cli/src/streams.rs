//! The standard streams, as the process was given them.
//!
//! Rust's runtime opens /dev/null in the place of a standard stream that is closed, before `main` begins. A closed stdin
//! then reads as an empty file, of which `build --force` would make a filter that denies every key; and what is written
//! to a closed stdout is lost without an error. In `main` it is too late to look: a /dev/null that is open for both
//! directions may be the runtime's, and may as well be given on purpose (Python's `subprocess.DEVNULL` and daemon(3) open
//! it like that). So a function looks before the runtime does. The C library calls what `.init_array` lists before `main`.
//!
//! The handles of the standard library also take a descriptor that is open in the wrong direction only (`0>file`) for an
//! empty or an all-swallowing one. [`reader`] and [`writer`] are plain files, which report the error.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "naming a section of the program: it must hold functions, as it does here")
)]

#[cfg(unix)]
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static STDIN_CLOSED: AtomicBool = AtomicBool::new(false);
static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

#[cfg(target_os = "linux")]
mod before_main {
    use std::sync::atomic::Ordering;

    use rustix::io::{Errno, fcntl_getfd};
    use rustix::stdio;

    /// Two system calls without libc or any state of the standard library, which is not set up yet.
    extern "C" fn look() {
        super::STDIN_CLOSED.store(fcntl_getfd(stdio::stdin()) == Err(Errno::BADF), Ordering::Relaxed);
        super::STDOUT_CLOSED.store(fcntl_getfd(stdio::stdout()) == Err(Errno::BADF), Ordering::Relaxed);
    }

    // SAFETY: the section is an array of pointers to functions, each called once with arguments that C lets a function
    // ignore; this is one such pointer.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "it is closed")
}

/// Stdin.
///
/// # Errors
/// When the process was started without one.
pub fn reader() -> io::Result<Box<dyn Read>> {
    if STDIN_CLOSED.load(Ordering::Relaxed) {
        return Err(closed());
    }
    #[cfg(unix)]
    let stdin = File::from(std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?);
    #[cfg(not(unix))]
    let stdin = io::stdin();
    Ok(Box::new(stdin))
}

/// Stdout, without a buffer.
///
/// # Errors
/// When the process was started without one.
pub fn writer() -> io::Result<Box<dyn Write>> {
    check_stdout()?;
    #[cfg(unix)]
    let stdout = File::from(std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?);
    #[cfg(not(unix))]
    let stdout = io::stdout();
    Ok(Box::new(stdout))
}

/// Finds out early whether there is a stdout at all.
pub fn check_stdout() -> io::Result<()> {
    if STDOUT_CLOSED.load(Ordering::Relaxed) { Err(closed()) } else { Ok(()) }
}
