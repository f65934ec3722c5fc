//! Re-encodes pictures, so that any VP8 decoder plays them.

use lockstep_vp8::{Analysis, Arena, FrameKind, Parameters, Picture, State};

/// Quantizer index of a recording. The result has at least 46 dB relative to the shown pictures. It requires about the
/// bit rate of a call over 2 Mb/s.
const QUANTIZER: u8 = 12;

/// Encodes pictures in order. Received frames would not play: after a loss, a frame may depend on a state that a
/// sequential decoder never has.
#[derive(Default)]
pub(super) struct Recoder {
    arena: Arena,
    state: State,
}

impl Recoder {
    /// Encodes the next picture.
    pub(super) fn encode(&mut self, picture: &Picture, frame_kind: FrameKind) -> Vec<u8> {
        let parameters = Parameters { quantizer: QUANTIZER, frame_kind, ..Parameters::default() };
        let coded = Analysis::new_in(&self.arena, &self.state, picture, &parameters).encode(QUANTIZER);
        self.state = coded.state;
        coded.frame
    }

    /// Makes the next frame a key frame, since the last frame was not written.
    pub(super) fn restart(&mut self) {
        self.state = State::default();
    }
}
