//! A tensor as steps of a run see it.

/// A tensor that is somewhere else.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct View<'a> {
    pub shape: &'a [usize],
    pub numbers: &'a [f32],
}
