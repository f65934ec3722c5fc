//! No video, but a source that always fills up what the target allows: what Concerto compares video with (MobiCom 2019,
//! section 2), to tell what a path carries from what a codec makes of it. What tells it from video can be added to it,
//! one thing at a time.

use std::time::Duration;

use lockstep_call::{Candidate, Codec, EncodeJob, EncodeWork, FrameEncoder, FrameRequest, FrameStart, Menu};
use lockstep_transport::{CodecId, Recovery, StateId};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::modelled_codec::{Modelled, filling};

/// How such a source fills up what the target allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filling {
    /// So much of the target waits in the pacer beyond the next frame interval; with two frame intervals the pacer is
    /// never empty, with none each frame is followed by a pause as video's are.
    pub ahead: Duration,
    /// A new target is taken over at most so often.
    pub target_interval: Duration,
    /// What is done about losses.
    pub recovery: Recovery,
}

impl Default for Filling {
    /// What the target allows in a frame interval, at every picture, and nothing is sent again.
    fn default() -> Self {
        Self { ahead: Duration::ZERO, target_interval: Duration::ZERO, recovery: Recovery::FromHeldState }
    }
}

/// The encoder of such a source. No frame needs another, and none has a quality.
#[derive(Debug, Clone, Copy)]
pub struct FullThrottle {
    frame_interval: Duration,
    filling: Filling,
    target: Option<(Timestamp, Bitrate)>,
}

impl FullThrottle {
    /// One that fills up every `frame_interval`.
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
    fn codec(&self) -> CodecId {
        CodecId::VP8
    }

    fn recovery(&self) -> Recovery {
        self.filling.recovery
    }

    /// As much as the target allows, less what still waits in the pacer.
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
    fn it_fills_up_what_the_target_allows_and_what_is_to_wait() {
        let interval = Duration::from_millis(40);
        let mut pauses = FullThrottle::new(interval, Filling::default());
        assert_eq!([size(&mut pauses, 0, 800, 0), size(&mut pauses, 40, 400, 1_000)], [Some(4_000), Some(1_000)]);
        assert_eq!(size(&mut pauses, 80, 400, 2_000), None);
        let mut even = FullThrottle::new(interval, Filling { ahead: interval, ..Filling::default() });
        assert_eq!([size(&mut even, 0, 800, 0), size(&mut even, 40, 800, 4_000)], [Some(8_000), Some(4_000)]);
    }

    #[test]
    fn a_source_with_a_codecs_inertia_takes_a_new_target_once_a_second() {
        let filling = Filling { target_interval: Duration::from_secs(1), ..Filling::default() };
        let mut source = FullThrottle::new(Duration::from_millis(40), filling);
        let sizes = [(0, 800), (40, 400), (960, 400), (1_000, 400)].map(|(at, kbps)| size(&mut source, at, kbps, 0));
        assert_eq!(sizes, [Some(4_000), Some(4_000), Some(4_000), Some(2_000)]);
    }
}
