//! Makes progress bars for long phases. They are hidden unless stderr is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// The number of steps between two updates of a bar. An update takes a lock, which would slow down
/// a loop whose steps take tens of nanoseconds.
const STRIDE: u64 = 1 << 13;

/// The number of bytes between two updates of a bar.
const STRIDE_BYTES: u64 = 1 << 20;

/// The columns of a bar's numbers, such as `1,000,000/1,000,000, 59s left`, and of its frame.
const NUMBERS_WIDTH: usize = 36;

/// Gives `bar` its message and a style: the message, and then `rest`. A narrow terminal cuts the message.
fn styled(bar: ProgressBar, what: impl Into<String>, rest: &str) -> ProgressBar {
    let width = output::stderr_width().unwrap_or(80).saturating_sub(NUMBERS_WIDTH).clamp(1, 40);
    // An invalid template would only leave the default style.
    if let Ok(style) = ProgressStyle::with_template(&format!("{{msg:{width}!}} {rest}")) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_message(what.into())
}

/// Returns a bar of `len` steps, or a counter if the length is unknown.
pub fn bar(len: Option<u64>, what: impl Into<String>) -> ProgressBar {
    match len {
        Some(len) => styled(ProgressBar::new(len), what, "[{wide_bar}] {human_pos}/{human_len}, {eta} left"),
        None => styled(ProgressBar::new_spinner(), what, "{human_pos}"),
    }
}

/// Returns a bar that counts bytes. [`follow`] or the caller sets its length. Set `is_hidden` if a
/// program reads the output or the exit status, for example with `--json`.
pub fn bytes(what: &'static str, is_hidden: bool) -> ProgressBar {
    let bar = if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
    styled(bar, what, "[{wide_bar}] {bytes}/{total_bytes}, {eta} left")
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
    let bar = styled(ProgressBar::new_spinner(), what, "{elapsed}");
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
