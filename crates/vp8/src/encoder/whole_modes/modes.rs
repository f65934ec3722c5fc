//! Which modes a whole block may have.

use crate::macroblock::LumaMode;

/// The modes that a whole block may have.
pub(crate) const WHOLE_MODES: [LumaMode; 4] =
    [LumaMode::Dc, LumaMode::Vertical, LumaMode::Horizontal, LumaMode::TrueMotion];
