//! Conventional video with padded frames, for modelled calls only. Studies use it to measure the effect of padding.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use lockstep_call::{Candidate, CodecTraits, ConventionalEncoder, FrameEncoder, FrameRequest, FrameStart, Menu};
use lockstep_transport::{Length, Recovery, StateId};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::modelled_clip::ClipCurves;
use crate::modelled_codec::Modelled;

/// Size to which frames are padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// Bytes that the target allowed since the last frame. Video then sends as much as a full-throttle source, or more
    /// where its codec exceeds the target.
    Target,
    /// The controller's budget, which includes the bytes of its probes. WebRTC's pacer pads probes, too.
    Budget,
}

/// Limit on the deficit or excess relative to the target that is carried over, as a duration.
const MEMORY: Duration = Duration::from_secs(1);

/// Conventional encoder that pads its frames.
#[derive(Debug)]
pub struct Padded {
    video: ConventionalEncoder<Modelled>,
    padding: Padding,
    asked_at: Option<Timestamp>,
    /// Bytes that the target allowed and the encoder did not send; negative after an excess.
    owed: f64,
    budget: Cell<ByteCount>,
}

impl Padded {
    /// Creates a [`ConventionalEncoder`] with padding.
    #[must_use]
    pub fn new(curves: Arc<ClipCurves>, frame_interval: Duration, padding: Padding) -> Self {
        let video = ConventionalEncoder::new(curves, frame_interval);
        Self { video, padding, asked_at: None, owed: 0.0, budget: Cell::new(ByteCount::ZERO) }
    }
}

impl FrameEncoder<Modelled> for Padded {
    fn codec(&self) -> CodecTraits {
        self.video.codec()
    }

    fn recovery(&self) -> Recovery {
        FrameEncoder::recovery(&self.video)
    }

    fn begin(&mut self, request: &FrameRequest<'_, Modelled>) -> Option<FrameStart<Modelled>> {
        let since = request.now.saturating_since(self.asked_at.replace(request.now).unwrap_or(request.now));
        let most = request.target.bytes_in(MEMORY).as_f64();
        self.owed = (self.owed + request.target.bytes_in(since.min(MEMORY)).as_f64()).clamp(-most, most);
        self.video.begin(request)
    }

    fn choose(&self, menu: &Menu<Modelled>, budget: ByteCount, anyway: bool) -> Option<usize> {
        self.budget.set(budget);
        self.video.choose(menu, budget, anyway)
    }

    /// The codec's rate control ignores the padding.
    fn commit(&mut self, menu: Menu<Modelled>, choice: Option<usize>) -> Option<(StateId, Candidate<Modelled>)> {
        let (name, mut frame) = self.video.commit(menu, choice)?;
        let padded = match self.padding {
            Padding::Target => ByteCount::new(self.owed.max(0.0) as u64),
            Padding::Budget => self.budget.get(),
        };
        let size = frame.size().max(padded);
        frame.frame = Length::from(size);
        self.owed -= size.as_f64();
        Some((name, frame))
    }

    fn forget(&mut self, state: StateId) {
        self.video.forget(state);
    }

    fn held_states(&self) -> usize {
        self.video.held_states()
    }

    fn target(&self) -> Option<Bitrate> {
        FrameEncoder::target(&self.video)
    }
}

#[cfg(test)]
mod tests {
    use lockstep_call::SerialMenu;

    use super::*;
    use crate::codec_model::CodecModel;
    use crate::modelled_clip::ModelledClip;

    const INTERVAL: Duration = Duration::from_millis(40);

    /// Codes ten seconds at `kbps` with a budget of 20 kB per frame. Returns the bit rate and the smallest frame after
    /// the first.
    fn run(padding: Option<Padding>, kbps: u64) -> (f64, u64) {
        let model = CodecModel::built_in().unwrap();
        let curves = Arc::new(ClipCurves::new(&model.clips[0], 64, 48));
        let mut clip = ModelledClip::new(Arc::clone(&curves), INTERVAL, 1);
        let mut encoder: Box<dyn FrameEncoder<Modelled>> = match padding {
            Some(padding) => Box::new(Padded::new(curves, INTERVAL, padding)),
            None => Box::new(ConventionalEncoder::new(curves, INTERVAL)),
        };
        let (mut sent, mut least, mut source) = (0, u64::MAX, StateId::EMPTY);
        for number in 0..250 {
            let picture = clip.next_picture();
            let now = Timestamp::ZERO + INTERVAL * number;
            let request = FrameRequest::at_rate(now, &picture, source, Bitrate::from_kbps(kbps));
            let Some(start) = encoder.begin(&request) else { continue };
            let menu = start.job.run(&SerialMenu);
            let choice = encoder.choose(&menu, ByteCount::new(20_000), false);
            let (state, frame) = encoder.commit(menu, choice).expect("a frame");
            source = state;
            sent += frame.size().get();
            if number > 0 {
                least = least.min(frame.size().get());
            }
        }
        (0.8 * sent as f64, least)
    }

    #[test]
    fn small_frames_are_padded_to_the_target_or_the_budget() {
        // Pictures of 64x48 cannot fill 5 Mb/s.
        assert!(run(None, 5_000).0 < 3e6);
        let (rate, _) = run(Some(Padding::Target), 5_000);
        assert!((4.8e6..5.1e6).contains(&rate), "{rate}");
        assert!(run(Some(Padding::Budget), 5_000).1 >= 20_000);
    }
}
