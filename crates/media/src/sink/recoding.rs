//! Pictures coded anew, so that any VP8 decoder plays them.

use lockstep_vp8::{Analysis, Arena, FrameKind, Parameters, Picture, State};

/// Quantizer index of a recording: at least 46 dB of what was shown, at about the bit rate of a call over 2 Mb/s.
const QUANTIZER: u8 = 12;

/// Codes one picture after another. Received frames would not play: after a loss, a frame refers to a state that a decoder of
/// all frames in a row never has.
#[derive(Default)]
pub(super) struct Recoder {
    arena: Arena,
    state: State,
}

impl Recoder {
    /// The frame of the next picture.
    pub(super) fn encode(&mut self, picture: &Picture, frame_kind: FrameKind) -> Vec<u8> {
        let parameters = Parameters { quantizer: QUANTIZER, frame_kind, ..Parameters::default() };
        let coded = Analysis::new_in(&self.arena, &self.state, picture, &parameters).encode(QUANTIZER);
        self.state = coded.state;
        coded.frame
    }

    /// The last frame was not written: the next one depends on none.
    pub(super) fn restart(&mut self) {
        self.state = State::default();
    }
}
