//! Defines a model of the possible contents of a store: the states after each write since the last
//! certain state.

use std::collections::BTreeMap;

use crate::store_files::Write;

/// Keys and values.
pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the state after `writes`.
pub fn after(state: &State, writes: &[Write]) -> State {
    let mut state = state.clone();
    for (key, value) in writes {
        match value {
            Some(value) => drop(state.insert(key.clone(), value.clone())),
            None => drop(state.remove(key)),
        }
    }
    state
}

/// The state at the last open, and the state after each write since then. A crash or a failure may
/// leave any state from `durable` on.
pub struct Model {
    states: Vec<State>,
    durable: usize,
    /// The index of the state that readers see.
    visible: usize,
}

impl Model {
    pub fn new() -> Self {
        Self { states: vec![State::new()], durable: 0, visible: 0 }
    }

    pub fn state(&self) -> &State {
        &self.states[self.visible]
    }

    /// Records an acknowledged write. If a write failed before, the store accepts a new write only
    /// if the failed write did not reach the log. So the states of failed writes are no longer
    /// possible.
    pub fn written(&mut self, writes: &[Write]) {
        self.states.truncate(self.visible + 1);
        self.failed(writes);
        self.visible += 1;
    }

    /// Records a failed write. The next open may find it, but readers do not see it before.
    pub fn failed(&mut self, writes: &[Write]) {
        self.states.push(after(&self.states[self.states.len() - 1], writes));
    }

    /// Marks the state that readers see as durable.
    pub fn synced(&mut self) {
        self.durable = self.visible;
    }

    /// Records the state that an open found. Asserts that the state is possible. It is then certain
    /// and durable.
    pub fn opened(&mut self, found: State) {
        let possible = &self.states[self.durable..];
        assert!(possible.contains(&found), "found {found:?}, possible are {possible:?}");
        *self = Self { states: vec![found], durable: 0, visible: 0 };
    }
}
