//! Guards: they tell a query which bytes of a payload are sound.

/// Tells which bytes are sound. A query calls the guard before it uses a zero bit to answer
/// "absent".
pub(crate) trait Guard {
    /// Whether all bytes are known to be sound. If so, queries skip the work of calling the guard.
    const ALL_SOUND: bool = false;

    /// Returns whether the `len` bytes from `offset` on are the bytes that the writer wrote.
    fn sound(&self, offset: usize, len: usize) -> bool;
}

/// Returns `answer`, or "maybe" if an "absent" depends on bytes that are not sound. If all bytes
/// are sound, there is no branch on the answer: with mixed queries, half of these branches would be
/// mispredicted.
#[inline(always)]
pub(super) fn or_maybe<G: Guard>(answer: bool, _: &G, is_sound: impl FnOnce() -> bool) -> bool {
    if G::ALL_SOUND { answer } else { answer || !is_sound() }
}

/// The guard of a payload that was verified as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked;

impl Guard for Checked {
    const ALL_SOUND: bool = true;

    #[inline]
    fn sound(&self, _: usize, _: usize) -> bool {
        true
    }
}
