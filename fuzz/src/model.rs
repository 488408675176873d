//! What a store may hold: the states after each write since it was last certain.

use std::collections::BTreeMap;

/// Keys and values.
pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key and its value, or its removal.
pub type Write = (Vec<u8>, Option<Vec<u8>>);

/// The states that a crash or a failure may leave: from the last that is durable to the last that was begun.
pub struct Model {
    states: Vec<State>,
    durable: usize,
    /// What readers see.
    visible: usize,
}

impl Model {
    pub fn new() -> Self {
        Self { states: vec![State::new()], durable: 0, visible: 0 }
    }

    pub fn state(&self) -> &State {
        &self.states[self.visible]
    }

    /// A write was acknowledged. A store takes it behind one that failed only if that one never came to its log: from then on
    /// nobody may find it.
    pub fn written(&mut self, writes: &[Write]) {
        self.states.truncate(self.visible + 1);
        self.push(writes);
        self.visible += 1;
    }

    /// A write failed: it may be found when the store is opened next, and not before.
    pub fn failed(&mut self, writes: &[Write]) {
        self.push(writes);
    }

    fn push(&mut self, writes: &[Write]) {
        let mut state = self.states[self.states.len() - 1].clone();
        for (key, value) in writes {
            match value {
                Some(value) => drop(state.insert(key.clone(), value.clone())),
                None => drop(state.remove(key)),
            }
        }
        self.states.push(state);
    }

    /// Whatever readers see is durable.
    pub fn synced(&mut self) {
        self.durable = self.visible;
    }

    /// The store was opened, and holds this: from now on that is certain, and durable.
    pub fn opened(&mut self, found: State) {
        let possible = &self.states[self.durable..];
        assert!(possible.contains(&found), "found {found:?}, possible are {possible:?}");
        *self = Self { states: vec![found], durable: 0, visible: 0 };
    }
}
