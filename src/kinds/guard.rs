//! Whether bytes of a payload may be believed.

/// Asked before a zero bit of the payload may mean "absent".
pub(crate) trait Guard {
    /// Whether all is sound, whatever is asked: then nothing need be found out for asking.
    const ALL_SOUND: bool = false;

    /// Whether the `len` bytes from `offset` on are what the writer wrote.
    fn sound(&self, offset: usize, len: usize) -> bool;
}

/// `answer`, or "maybe" where what an "absent" rests on is not sound. Without a branch on the answer where all is sound: of
/// mixed queries half would be mispredicted.
#[inline(always)]
pub(super) fn or_maybe<G: Guard>(answer: bool, _: &G, is_sound: impl FnOnce() -> bool) -> bool {
    if G::ALL_SOUND { answer } else { answer || !is_sound() }
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
