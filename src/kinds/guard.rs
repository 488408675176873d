//! Defines guards. A guard tells a query which bytes of a payload are sound.

/// Tells which bytes are sound. Before a query answers "absent", it asks the guard about the bytes
/// that prove the answer.
pub(crate) trait Guard {
    /// Whether all bytes are known to be sound. If so, queries need not call [`Guard::sound`].
    const ALL_SOUND: bool = false;

    /// Returns whether the `len` bytes from `offset` on are the bytes that the writer wrote.
    fn sound(&self, offset: usize, len: usize) -> bool;
}

/// Returns `answer`, or "maybe" if an "absent" depends on bytes that are not sound. With
/// [`Guard::ALL_SOUND`], there is no branch on the answer. If present and absent keys are mixed,
/// the processor could not predict such a branch.
#[inline(always)]
pub(super) fn or_maybe<G: Guard>(answer: bool, _: &G, is_sound: impl FnOnce() -> bool) -> bool {
    if G::ALL_SOUND { answer } else { answer || !is_sound() }
}

/// The guard that takes all bytes as sound, for example those of a payload that was verified as a
/// whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked;

impl Guard for Checked {
    const ALL_SOUND: bool = true;

    #[inline]
    fn sound(&self, _: usize, _: usize) -> bool {
        true
    }
}
