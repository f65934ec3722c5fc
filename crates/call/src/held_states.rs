//! The states that an end of a call holds, by name.

use lockstep_transport::StateId;

/// States by name, the newest last. An end holds few, and is asked for the newest: a look from the end is quicker than
/// any map.
#[derive(Debug, Clone)]
pub(crate) struct HeldStates<S> {
    states: Vec<(StateId, S)>,
}

impl<S: Default> HeldStates<S> {
    /// The empty state alone, which is held for ever.
    pub(crate) fn new() -> Self {
        Self { states: vec![(StateId::EMPTY, S::default())] }
    }

    fn place(&self, name: StateId) -> Option<usize> {
        self.states.iter().rposition(|&(held, _)| held == name)
    }

    /// The state of this name, if it is held.
    pub(crate) fn get(&self, name: StateId) -> Option<&S> {
        self.place(name).map(|place| &self.states[place].1)
    }

    /// Holds `state` under `name` from now on.
    pub(crate) fn insert(&mut self, name: StateId, state: S) {
        match self.place(name) {
            Some(place) => self.states[place].1 = state,
            None => self.states.push((name, state)),
        }
    }

    /// Lets a state go; the empty one stays.
    pub(crate) fn remove(&mut self, name: StateId) {
        if let Some(place) = self.place(name).filter(|_| name != StateId::EMPTY) {
            self.states.remove(place);
        }
    }

    /// How many are held, the empty one included.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_found_until_it_is_let_go_and_the_empty_one_stays() {
        let mut held = HeldStates::new();
        held.insert(StateId(5), 'a');
        held.insert(StateId(3), 'b');
        held.insert(StateId(5), 'c');
        assert_eq!((held.get(StateId(5)), held.get(StateId(3)), held.len()), (Some(&'c'), Some(&'b'), 3));
        [StateId(5), StateId(5), StateId::EMPTY].into_iter().for_each(|name| held.remove(name));
        assert_eq!((held.get(StateId(5)), held.get(StateId::EMPTY), held.len()), (None, Some(&'\0'), 2));
    }
}
