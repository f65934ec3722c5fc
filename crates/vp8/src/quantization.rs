//! Quantizer steps (RFC 6386, sections 9.6 and 14.1).

use crate::header::{QuantizerIndices, Segmentation};
use crate::tables::{AC_STEPS, DC_STEPS};

/// The largest quantizer index (RFC 6386, section 9.6).
pub const MAX_QUANTIZER: u8 = 127;

/// Step of luma DC coefficients at a quantizer index, 4 to 157. An index above 127 counts as 127.
#[must_use]
pub fn quantizer_step(quantizer: u8) -> u8 {
    DC_STEPS[usize::from(quantizer.min(MAX_QUANTIZER))]
}

/// Quantizer steps of one segment by type of block: DC, then AC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Steps {
    pub(crate) luma: [i32; 2],
    pub(crate) second_order: [i32; 2],
    pub(crate) chroma: [i32; 2],
}

impl Steps {
    /// Steps at quantizer index `base` with the frame's offsets.
    pub(crate) fn new(base: u8, indices: &QuantizerIndices) -> Self {
        let index = |delta: i8| (i32::from(base) + i32::from(delta)).clamp(0, i32::from(MAX_QUANTIZER)) as usize;
        let dc = |delta: i8| i32::from(DC_STEPS[index(delta)]);
        let ac = |delta: i8| i32::from(AC_STEPS[index(delta)]);
        Self {
            luma: [dc(indices.luma_dc), ac(0)],
            second_order: [2 * dc(indices.second_order_dc), (ac(indices.second_order_ac) * 155 / 100).max(8)],
            chroma: [dc(indices.chroma_dc).min(132), ac(indices.chroma_ac)],
        }
    }

    /// Steps of each segment.
    pub(crate) fn of_segments(indices: &QuantizerIndices, segmentation: &Segmentation) -> [Self; 4] {
        std::array::from_fn(|segment| {
            let base = if segmentation.enabled {
                let value = i32::from(segmentation.quantizers[segment]);
                let base = if segmentation.absolute { value } else { i32::from(indices.base) + value };
                base.clamp(0, 127) as u8
            } else {
                indices.base
            };
            Self::new(base, indices)
        })
    }
}
