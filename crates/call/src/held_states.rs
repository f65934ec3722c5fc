//! States that an end of a call holds, by name.

use lockstep_transport::StateId;

/// States by name, newest last. An end holds few and mostly needs the newest, so a search from the end is faster than a
/// map.
#[derive(Debug, Clone)]
pub(crate) struct HeldStates<S> {
    states: Vec<(StateId, S)>,
}

impl<S: Default> HeldStates<S> {
    /// Only the empty state, which is never removed.
    pub(crate) fn new() -> Self {
        Self { states: vec![(StateId::EMPTY, S::default())] }
    }

    fn place(&self, name: StateId) -> Option<usize> {
        self.states.iter().rposition(|&(held, _)| held == name)
    }

    /// The state with this name, if it is held.
    pub(crate) fn get(&self, name: StateId) -> Option<&S> {
        self.place(name).map(|place| &self.states[place].1)
    }

    /// The state to code from, with its name: the empty state if this one is no longer held, so the frame is a key frame.
    pub(crate) fn source(&self, name: StateId) -> (StateId, S)
    where
        S: Clone,
    {
        self.get(name).map_or_else(|| (StateId::EMPTY, S::default()), |state| (name, state.clone()))
    }

    /// Adds `state` under `name`.
    pub(crate) fn insert(&mut self, name: StateId, state: S) {
        match self.place(name) {
            Some(place) => self.states[place].1 = state,
            None => self.states.push((name, state)),
        }
    }

    /// Removes a state; the empty one stays.
    pub(crate) fn remove(&mut self, name: StateId) {
        if let Some(place) = self.place(name).filter(|_| name != StateId::EMPTY) {
            self.states.remove(place);
        }
    }

    /// All states, including the empty one.
    pub(crate) fn all(&self) -> impl Iterator<Item = &S> {
        self.states.iter().map(|(_, state)| state)
    }

    /// Number of states, including the empty one.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_held_until_removed_and_the_empty_one_stays() {
        let mut held = HeldStates::new();
        held.insert(StateId(5), 'a');
        held.insert(StateId(3), 'b');
        held.insert(StateId(5), 'c');
        assert_eq!((held.get(StateId(5)), held.get(StateId(3)), held.len()), (Some(&'c'), Some(&'b'), 3));
        assert_eq!(held.source(StateId(3)), (StateId(3), 'b'));
        assert_eq!(held.source(StateId(9)), (StateId::EMPTY, '\0'));
        [StateId(5), StateId(5), StateId::EMPTY].into_iter().for_each(|name| held.remove(name));
        assert_eq!((held.get(StateId(5)), held.get(StateId::EMPTY), held.len()), (None, Some(&'\0'), 2));
    }
}
