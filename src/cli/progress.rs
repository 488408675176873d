//! Progress bars for long phases; silent unless stderr is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Steps between two updates of a bar: an update takes a lock, which a loop of tens of nanoseconds would feel.
const STRIDE: u64 = 1 << 13;

/// A bar of `len` steps, or a counter when the length is unknown.
pub fn bar(len: Option<u64>, what: impl Into<String>) -> ProgressBar {
    let (bar, template) = match len {
        Some(len) => (ProgressBar::new(len), "{msg:40} [{bar:30}] {human_pos}/{human_len}, {eta} left"),
        None => (ProgressBar::new_spinner(), "{msg:40} {human_pos}"),
    };
    // The templates are constants of this file, so a refused one would show in any test.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_message(what.into())
}

/// Moves `bar` on to `position`, now and then.
#[inline]
pub fn tick(bar: &ProgressBar, position: u64) {
    if position.is_multiple_of(STRIDE) {
        bar.set_position(position);
    }
}
