//! Whether bytes of a payload may be believed.

/// Asked before a zero bit of the payload may mean "absent".
pub(crate) trait Guard {
    /// Whether the `len` bytes from `offset` on are what the writer wrote.
    fn sound(&self, offset: usize, len: usize) -> bool;
}

/// The guard of a payload that was checked as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked;

impl Guard for Checked {
    #[inline]
    fn sound(&self, _: usize, _: usize) -> bool {
        true
    }
}
