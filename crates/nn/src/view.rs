//! A borrowed tensor.

/// A borrowed tensor: shape, and numbers in row-major order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct View<'a> {
    pub shape: &'a [usize],
    pub numbers: &'a [f32],
}
