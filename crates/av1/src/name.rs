//! Names of states.

use lockstep_transport::StateId;
use lockstep_vp8::{Picture, StateHasher};

/// Name of the state that the temporal unit `unit` leads to from the state `source`, with its decoded picture.
///
/// Pictures do not show probabilities. But equal units from equal states lead to equal probabilities.
pub(crate) fn target_name(source: StateId, unit: &[u8], picture: &Picture) -> StateId {
    let mut hasher = StateHasher::new();
    [source.0, picture.hash()].into_iter().for_each(|part| hasher.write(&part.to_le_bytes()));
    hasher.write(unit);
    // 0 is the empty state.
    StateId(hasher.finish().max(1))
}
