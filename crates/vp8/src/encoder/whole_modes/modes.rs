//! The whole-block modes.

use crate::macroblock::LumaMode;

/// The modes of a whole block.
pub(crate) const WHOLE_MODES: [LumaMode; 4] =
    [LumaMode::Dc, LumaMode::Vertical, LumaMode::Horizontal, LumaMode::TrueMotion];
