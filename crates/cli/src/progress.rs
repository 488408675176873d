//! Makes progress bars for long phases. They are hidden unless stderr is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// The number of steps between two updates of a bar. An update takes a lock, which would slow down
/// a loop whose steps take tens of nanoseconds.
const STRIDE: u64 = 1 << 13;

/// The number of bytes between two updates of a bar.
const STRIDE_BYTES: u64 = 1 << 20;

/// Returns a bar of `len` steps, or a counter if the length is unknown.
pub fn bar(len: Option<u64>, what: impl Into<String>) -> ProgressBar {
    let (bar, template) = match len {
        Some(len) => (ProgressBar::new(len), "{msg:40} [{bar:30}] {human_pos}/{human_len}, {eta} left"),
        None => (ProgressBar::new_spinner(), "{msg:40} {human_pos}"),
    };
    // The templates are constants. An invalid one would only leave the default style.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_message(what.into())
}

/// Returns a bar that counts bytes. [`follow`] or the caller sets its length. Set `is_hidden` if a
/// program reads the output or the exit status, for example with `--json`.
pub fn bytes(what: &'static str, is_hidden: bool) -> ProgressBar {
    let bar = if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
    if let Ok(style) = ProgressStyle::with_template("{msg:40} [{bar:30}] {bytes}/{total_bytes}, {eta} left") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_message(what)
}

/// Returns a callback that moves `bar`, which [`bytes`] made. The callback moves the bar about once
/// per MiB and at the end.
pub fn follow(bar: &ProgressBar) -> impl FnMut(filterblock_store::lsm::Progress) {
    let mut next = 0;
    move |progress| {
        if progress.done_bytes >= next || progress.done_bytes == progress.total_bytes {
            next = progress.done_bytes + STRIDE_BYTES;
            bar.set_length(progress.total_bytes);
            bar.set_position(progress.done_bytes);
        }
    }
}

/// Returns a spinner for work that reports no progress.
pub fn spinner(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(what);
    if let Ok(style) = ProgressStyle::with_template("{msg:40} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}

/// Moves `bar` to `position` if the position is a multiple of [`STRIDE`].
#[inline]
pub fn tick(bar: &ProgressBar, position: u64) {
    if position.is_multiple_of(STRIDE) {
        bar.set_position(position);
    }
}
