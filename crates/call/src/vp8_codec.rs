//! This project's VP8 as the codec of a call.

use std::borrow::Cow;

use lockstep_transport::{CodecId, Datagram, StateId, WireError};
use lockstep_units::ByteCount;
use lockstep_vp8::{Analysis, Arena, Content, Effort, Encoded, Fitting, Parameters, Picture, State, decode_in};

use crate::codec::{Candidate, Codec, CodecTraits, FunctionalCodec, Vp8};
use crate::effort::{EffortLadder, EffortLevel};

fn bytes(budget: ByteCount) -> usize {
    usize::try_from(budget.get()).unwrap_or(usize::MAX)
}

impl From<Encoded> for Candidate {
    fn from(Encoded { frame, state, quantizer, key_frame, .. }: Encoded) -> Self {
        Self { frame, quantizer, key_frame, state, ssim: None }
    }
}

impl Codec for Vp8 {
    type Picture = Picture;
    type Decoded = Picture;
    type State = State;
    type Arena = Arena;
    type Payload = Vec<u8>;
    type Packet = Vec<u8>;
    type Analysis = Analysis;
    type Fitting = Box<Fitting<'static>>;

    const HAS_PIXELS: bool = true;

    fn pixels(picture: &Picture) -> Option<&Picture> {
        Some(picture)
    }

    fn shown_pixels(shown: &Picture) -> Option<&Picture> {
        Some(shown)
    }

    fn encode(analysis: &Analysis, quantizer: u8) -> Candidate {
        analysis.encode(quantizer).into()
    }

    fn name(state: &State) -> StateId {
        StateId(state.id())
    }

    fn is_shared(_state: &State) -> bool {
        true
    }

    fn state_size(state: &State) -> Option<ByteCount> {
        Some(ByteCount::new(state.held_bytes() as u64))
    }

    fn reference_pixels<'a>(states: impl Iterator<Item = &'a State>) -> usize {
        State::reference_pixels(states)
    }

    fn last_shown(state: &State) -> Option<Picture> {
        state.last_picture()
    }

    fn decode(
        arena: &Arena,
        source: &State,
        frame: &Vec<u8>,
        _target: StateId,
        pixel_limit: usize,
    ) -> Option<(State, Picture)> {
        decode_in(arena, source, frame, pixel_limit).ok()
    }

    fn accepts(_arena: &mut Arena, codec: CodecId) -> bool {
        codec == CodecId::VP8
    }

    fn pack(datagram: Datagram) -> Vec<u8> {
        datagram.to_bytes()
    }

    fn unpack(packet: Vec<u8>) -> Result<Datagram, WireError> {
        Datagram::decode(&packet)
    }
}

impl EffortLadder {
    /// The levels of this project's VP8.
    pub const VP8: Self = Self::new(&LEVELS);
}

/// Step with a trellis, as a share of the step without it, at which frames have equal error.
/// `lab: 2026-11-effort`.
const TRELLIS_STEP: f64 = 0.85;

const LEVELS: [EffortLevel; Effort::QUALITY.level() as usize + 1] = {
    let mut levels = [EffortLevel { relative_time: 1.0, relative_step: 1.0 }; _];
    let mut level = 0;
    while level < levels.len() {
        let effort = Effort::new(level as u8);
        levels[level].relative_time = effort.relative_time();
        if effort.has_trellis() {
            levels[level].relative_step = TRELLIS_STEP;
        }
        level += 1;
    }
    levels
};

impl FunctionalCodec for Vp8 {
    type Parameters = Parameters;

    fn traits(_parameters: &Parameters) -> CodecTraits {
        CodecTraits { efforts: EffortLadder::VP8, ..CodecTraits::new(CodecId::VP8) }
    }

    fn set_screen(parameters: &mut Parameters, is_screen: bool) {
        parameters.content = if is_screen { Content::Screen } else { Content::Camera };
    }

    fn set_effort(parameters: &mut Parameters, effort: Effort) {
        parameters.effort = effort;
    }

    fn luma_samples(_parameters: &Parameters, picture: &Picture) -> usize {
        picture.width() * picture.height()
    }

    fn analyse(arena: &Arena, state: &State, picture: &Picture, parameters: &Parameters) -> Analysis {
        Analysis::new_in(arena, state, picture, parameters)
    }

    fn is_key_frame(analysis: &Analysis) -> bool {
        analysis.key_frame()
    }

    fn estimate_size(analysis: &Analysis, quantizer: u8) -> Option<ByteCount> {
        Some(ByteCount::new(analysis.estimate_size(quantizer) as u64))
    }

    fn estimate_decimated_size(analysis: &Analysis, quantizer: u8) -> Option<ByteCount> {
        Some(ByteCount::new(analysis.estimate_decimated_size(quantizer) as u64))
    }

    fn fitting(analysis: Analysis, first: u8) -> Self::Fitting {
        Box::new(Fitting::new(Cow::Owned(analysis), Some(first)))
    }

    fn pass(fitting: &mut Self::Fitting, budget: ByteCount) -> Candidate {
        fitting.pass(bytes(budget)).into()
    }

    fn is_filled(fitting: &Self::Fitting, budget: ByteCount) -> bool {
        fitting.is_filled(bytes(budget))
    }
}
