//! The quantizers of one frame and their rounding.

use super::forward_quantizer::{DeadZone, ForwardQuantizer, Rounding};
use crate::quantization::Steps;

/// Rounding of luma and chroma coefficients. Rounding of the Y2 block is closer to nearest, because an error spreads
/// over the whole macroblock.
const INTRA_ROUNDING: Rounding = Rounding { dc: 50, ac: 44 };
const INTER_ROUNDING: Rounding = Rounding { dc: 48, ac: 40 };
const SECOND_ORDER_ROUNDING: Rounding = Rounding { dc: 52, ac: 48 };

/// Default rounding of luma and chroma.
pub(super) fn rounding_of(key_frame: bool) -> Rounding {
    if key_frame { INTRA_ROUNDING } else { INTER_ROUNDING }
}

/// The quantizers of one frame by block type.
#[derive(Debug, Clone)]
pub(crate) struct FrameQuantizers {
    pub(crate) luma: ForwardQuantizer,
    pub(crate) second_order: ForwardQuantizer,
    pub(crate) chroma: ForwardQuantizer,
}

impl FrameQuantizers {
    /// Creates quantizers with these steps and the default rounding.
    pub(crate) fn new(steps: &Steps, key_frame: bool) -> Self {
        let forward = |[dc, ac]: [i32; 2], rounding| ForwardQuantizer::new(dc, ac, rounding);
        Self {
            luma: forward(steps.luma, rounding_of(key_frame)),
            second_order: forward(steps.second_order, SECOND_ORDER_ROUNDING),
            chroma: forward(steps.chroma, rounding_of(key_frame)),
        }
    }

    /// Sets the rounding of AC coefficients of luma and chroma to `ac` (1/128 of a step). The other roundings change
    /// with it.
    pub(crate) fn round_by(&mut self, ac: i32, key_frame: bool) {
        let usual = rounding_of(key_frame);
        let change = ac - i32::from(usual.ac);
        let other = |rounding: u16, change: i32| (i32::from(rounding) + change).clamp(0, 64) as u16;
        let (dc, ac) = (other(usual.dc, change), other(usual.ac, change));
        self.luma.round_by(dc, ac);
        self.chroma.round_by(dc, ac);
        let change = change / 2;
        self.second_order.round_by(other(SECOND_ORDER_ROUNDING.dc, change), other(SECOND_ORDER_ROUNDING.ac, change));
    }

    /// Dead zones of all block types.
    pub(crate) fn dead_zones(&self) -> DeadZones {
        DeadZones([&self.luma, &self.second_order, &self.chroma].map(|quantizer| quantizer.dead_zone))
    }
}

/// Dead zones of a macroblock's block types: magnitudes that quantize to zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeadZones([DeadZone; 3]);

impl DeadZones {
    /// Whether each of these dead zones lies inside the corresponding one of `others`.
    pub(crate) fn lie_in(&self, others: &Self) -> bool {
        self.0.iter().zip(&others.0).all(|(zone, other)| zone.dc <= other.dc && zone.ac <= other.ac)
    }

    /// The smallest dead zones that contain both.
    pub(crate) fn widened(&self, others: &Self) -> Self {
        let [mut widened, others] = [self.0, others.0];
        for (zone, other) in widened.iter_mut().zip(others) {
            *zone = DeadZone { dc: zone.dc.max(other.dc), ac: zone.ac.max(other.ac) };
        }
        Self(widened)
    }
}
