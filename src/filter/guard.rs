//! Whether bytes of a payload may be believed.

/// Asked before a zero bit of the payload may mean "absent".
pub(crate) trait Guard {
    /// Whether all is sound, whatever is asked: then nothing need be found out for asking.
    const ALL_SOUND: bool = false;

    /// Whether the `len` bytes from `offset` on are what the writer wrote.
    fn sound(&self, offset: usize, len: usize) -> bool;
}

/// The guard of a payload that was checked as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked;

impl Guard for Checked {
    const ALL_SOUND: bool = true;

    #[inline]
    fn sound(&self, _: usize, _: usize) -> bool {
        true
    }
}
