//! Source that always fills the target with frames, instead of video.
//!
//! Concerto compares video with such a source (MobiCom 2019, section 2). It separates the effects of the path from
//! those of the codec. Options add single properties of video.

use std::time::Duration;

use lockstep_call::{
    Candidate, Codec, CodecTraits, EncodeJob, EncodeWork, FrameEncoder, FrameRequest, FrameStart, Menu,
};
use lockstep_transport::{CodecId, Recovery, StateId};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::modelled_codec::{Modelled, filling};

/// How the source fills the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filling {
    /// Part of the target that waits in the pacer beyond the next frame interval, as a duration. With two frame
    /// intervals the pacer is never empty. With zero, a pause follows each frame, as with video.
    pub ahead: Duration,
    /// Smallest interval between two changes of the target.
    pub target_interval: Duration,
    /// Recovery from losses.
    pub recovery: Recovery,
}

impl Default for Filling {
    /// Fills one frame interval at every picture, without retransmission.
    fn default() -> Self {
        Self { ahead: Duration::ZERO, target_interval: Duration::ZERO, recovery: Recovery::FromHeldState }
    }
}

/// Encoder of the source. Its frames depend on no other frame and have no quality.
#[derive(Debug, Clone, Copy)]
pub struct FullThrottle {
    frame_interval: Duration,
    filling: Filling,
    target: Option<(Timestamp, Bitrate)>,
}

impl FullThrottle {
    /// An encoder that fills the target every `frame_interval`.
    #[must_use]
    pub fn new(frame_interval: Duration, filling: Filling) -> Self {
        Self { frame_interval, filling, target: None }
    }

    fn target(&mut self, now: Timestamp, wanted: Bitrate) -> Bitrate {
        match self.target {
            Some((taken_at, target)) if now.saturating_since(taken_at) < self.filling.target_interval => target,
            _ => {
                self.target = Some((now, wanted));
                wanted
            }
        }
    }
}

impl FrameEncoder<Modelled> for FullThrottle {
    fn codec(&self) -> CodecTraits {
        CodecTraits::new(CodecId::VP8)
    }

    fn recovery(&self) -> Recovery {
        self.filling.recovery
    }

    /// Starts a frame of the target's size minus the bytes that wait in the pacer.
    fn begin(&mut self, request: &FrameRequest<'_, Modelled>) -> Option<FrameStart<Modelled>> {
        let target = self.target(request.now, request.target);
        let size = target.bytes_in(self.frame_interval + self.filling.ahead).saturating_sub(request.queued);
        if size == ByteCount::ZERO {
            return None;
        }
        let frame = filling(request.picture, size);
        Some(FrameStart {
            source: StateId::EMPTY,
            job: EncodeJob::new(EncodeWork::OneFrame, move |_| Menu::new(vec![frame])),
        })
    }

    fn choose(&self, menu: &Menu<Modelled>, _budget: ByteCount, _anyway: bool) -> Option<usize> {
        (!menu.candidates.is_empty()).then_some(0)
    }

    fn commit(&mut self, mut menu: Menu<Modelled>, choice: Option<usize>) -> Option<(StateId, Candidate<Modelled>)> {
        let frame = menu.candidates.swap_remove(choice?);
        Some((Modelled::name(&frame.state), frame))
    }

    fn forget(&mut self, _state: StateId) {}

    fn held_states(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockstep_call::SerialMenu;

    use super::*;
    use crate::codec_model::CodecModel;
    use crate::modelled_clip::{ClipCurves, ModelledClip};

    fn size(source: &mut FullThrottle, at: u64, kbps: u64, queued: u64) -> Option<u64> {
        let model = CodecModel::built_in().unwrap();
        let curves = Arc::new(ClipCurves::new(&model.clips[0], 64, 48));
        let picture = ModelledClip::new(curves, Duration::from_millis(40), 1).next_picture();
        let (now, target) = (Timestamp::from_millis(at), Bitrate::from_kbps(kbps));
        let request = FrameRequest {
            queued: ByteCount::new(queued),
            ..FrameRequest::at_rate(now, &picture, StateId::EMPTY, target)
        };
        let menu = source.begin(&request)?.job.run(&SerialMenu);
        source.commit(menu, Some(0)).map(|(_, frame)| frame.size().get())
    }

    #[test]
    fn frames_fill_the_target_and_the_part_that_waits() {
        let interval = Duration::from_millis(40);
        let mut pauses = FullThrottle::new(interval, Filling::default());
        assert_eq!([size(&mut pauses, 0, 800, 0), size(&mut pauses, 40, 400, 1_000)], [Some(4_000), Some(1_000)]);
        assert_eq!(size(&mut pauses, 80, 400, 2_000), None);
        let mut even = FullThrottle::new(interval, Filling { ahead: interval, ..Filling::default() });
        assert_eq!([size(&mut even, 0, 800, 0), size(&mut even, 40, 800, 4_000)], [Some(8_000), Some(4_000)]);
    }

    #[test]
    fn a_target_interval_of_a_second_delays_a_new_target() {
        let filling = Filling { target_interval: Duration::from_secs(1), ..Filling::default() };
        let mut source = FullThrottle::new(Duration::from_millis(40), filling);
        let sizes = [(0, 800), (40, 400), (960, 400), (1_000, 400)].map(|(at, kbps)| size(&mut source, at, kbps, 0));
        assert_eq!(sizes, [Some(4_000), Some(4_000), Some(4_000), Some(2_000)]);
    }
}
