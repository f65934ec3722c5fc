//! Transition from one state to the next: what a frame inherits, and what later frames inherit from it.

use std::sync::Arc;

use super::{Contents, References, State};
use crate::frame::Frame;
use crate::header::{BufferCopy, FrameHeader, FrameSize, FrameTag, Inherited, ReferenceUpdates, Segmentation};
use crate::probabilities::Probabilities;

impl Contents {
    /// The context for parsing a frame's header. A key frame resets it (RFC 6386, sections 9.3, 9.6 and 9.11).
    pub(crate) fn inherited(&self, key_frame: bool) -> Inherited {
        if key_frame {
            return Inherited {
                segmentation: Segmentation::default(),
                loop_filter_deltas: Default::default(),
                probabilities: Probabilities::default(),
                golden_sign_bias: false,
                altref_sign_bias: false,
            };
        }
        Inherited {
            segmentation: self.segmentation,
            loop_filter_deltas: self.loop_filter_deltas,
            probabilities: self.probabilities.clone(),
            golden_sign_bias: self.golden_sign_bias,
            altref_sign_bias: self.altref_sign_bias,
        }
    }

    /// The target state of a frame that was coded from this state.
    ///
    /// `decoded` is the reconstructed frame, `segment_map` the map after it. A key frame without a map puts all
    /// macroblocks into segment 0.
    pub(crate) fn successor(
        &self,
        tag: &FrameTag,
        size: FrameSize,
        header: FrameHeader,
        decoded: Frame,
        segment_map: Arc<[u8]>,
    ) -> State {
        let references = References::after(self.references.as_ref(), &header.references, &decoded);
        let probabilities =
            if header.refresh_entropy { header.probabilities } else { self.inherited(tag.key_frame).probabilities };
        let writes_map = header.segmentation.enabled && header.segmentation.update_map;
        let segment_map = if tag.key_frame && !writes_map { Arc::default() } else { segment_map };
        State::new(Self {
            size,
            version: tag.version,
            references: Some(references),
            probabilities,
            segmentation: header.segmentation.inheritable(),
            segment_map,
            loop_filter_deltas: header.loop_filter_deltas,
            golden_sign_bias: header.references.golden_sign_bias,
            altref_sign_bias: header.references.altref_sign_bias,
            shown: tag.shown,
            quantizer: header.quantizer.base,
            id: Default::default(),
        })
    }
}

impl References {
    /// The references after a frame (section 9.7).
    ///
    /// Copies use the references before the frame, and altref is copied before golden. So if each copies the other,
    /// both become the old golden frame. libvpx has the same order.
    fn after(before: Option<&Self>, updates: &ReferenceUpdates, decoded: &Frame) -> Self {
        let Some(before) = before else {
            return Self { last: decoded.clone(), golden: decoded.clone(), altref: decoded.clone() };
        };
        let altref = match updates.copy_to_altref {
            BufferCopy::None => &before.altref,
            BufferCopy::Last => &before.last,
            BufferCopy::Other => &before.golden,
        };
        let golden = match updates.copy_to_golden {
            BufferCopy::None => &before.golden,
            BufferCopy::Last => &before.last,
            BufferCopy::Other => altref,
        };
        let choose = |refresh: bool, kept: &Frame| if refresh { decoded.clone() } else { kept.clone() };
        Self {
            last: choose(updates.refresh_last, &before.last),
            golden: choose(updates.refresh_golden, golden),
            altref: choose(updates.refresh_altref, altref),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameBuffer, FrameLayout};

    #[test]
    fn mutual_copies_both_lead_to_the_old_golden_frame() {
        let frame = || FrameBuffer::new(FrameLayout::new(16, 16)).finish();
        let before = References { last: frame(), golden: frame(), altref: frame() };
        let decoded = frame();
        let both = ReferenceUpdates {
            copy_to_golden: BufferCopy::Other,
            copy_to_altref: BufferCopy::Other,
            ..ReferenceUpdates::default()
        };
        let after = References::after(Some(&before), &both, &decoded);
        assert!(after.last.is(&before.last) && after.golden.is(&before.golden) && after.altref.is(&before.golden));
        let swept =
            ReferenceUpdates { refresh_golden: true, refresh_last: true, copy_to_golden: BufferCopy::None, ..both };
        let after = References::after(Some(&before), &swept, &decoded);
        assert!(after.last.is(&decoded) && after.golden.is(&decoded) && after.altref.is(&before.golden));
    }
}
