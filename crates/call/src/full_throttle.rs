//! No video, but a source that at every moment of capture fills up what the target allows: what Concerto compares video
//! with (MobiCom 2019, section 2), to tell what a path carries from what a codec makes of it.

use std::time::Duration;

use lockstep_transport::{Recovery, StateId};
use lockstep_units::ByteCount;

use crate::codec::Codec;
use crate::encode_time::EncodeWork;
use crate::encoder::{Candidate, EncodeJob, FrameEncoder, FrameRequest, FrameStart, Menu};
use crate::modelled_codec::Modelled;

/// The encoder of such a source. No frame needs another, and none has a quality.
#[derive(Debug, Clone, Copy)]
pub struct FullThrottle {
    frame_interval: Duration,
}

impl FullThrottle {
    /// One that fills up every `frame_interval`.
    #[must_use]
    pub fn new(frame_interval: Duration) -> Self {
        Self { frame_interval }
    }
}

impl FrameEncoder<Modelled> for FullThrottle {
    fn recovery(&self) -> Recovery {
        Recovery::FromHeldState
    }

    /// As much as the target allows in a frame interval, less what still waits in the pacer.
    fn begin(&mut self, request: &FrameRequest<'_, Modelled>) -> Option<FrameStart<Modelled>> {
        let size = request.target.bytes_in(self.frame_interval).saturating_sub(request.queued);
        if size == ByteCount::ZERO {
            return None;
        }
        let frame = Candidate::filling(request.picture, size);
        Some(FrameStart {
            source: StateId::EMPTY,
            job: EncodeJob::new(EncodeWork::OneFrame, move |_| Menu::new(vec![frame])),
        })
    }

    fn choose(&self, menu: &Menu<Modelled>, _budget: ByteCount, _probes: bool) -> Option<usize> {
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
