//! VP8 and AV1 as one codec of a call: the sending end chooses, and the receiving end follows the hello.

use lockstep_call::{Candidate, Codec, CodecTraits, FunctionalCodec, PictureCodec, Vp8};
use lockstep_control::FailureReason;
use lockstep_transport::{CodecId, Datagram, StateId, WireError};
use lockstep_units::ByteCount;
use lockstep_vp8::{Analysis, Arena, Effort, Parameters, Picture, State};

use crate::codec::{Av1, Av1Analysis, Av1Arena, Av1Fitting, Av1Parameters, Av1State};

/// VP8 or AV1, as the parameters of the sending end say.
#[derive(Debug, Clone, Copy)]
pub enum Vp8OrAv1 {}

/// A value of one of the two codecs.
#[derive(Debug, Clone)]
pub enum OneOf<V, A> {
    /// That of VP8.
    Vp8(V),
    /// That of AV1.
    Av1(A),
}

/// State of one of the codecs.
#[derive(Debug, Clone, Default)]
pub enum EitherState {
    /// The empty state, of both codecs.
    #[default]
    Empty,
    /// A state of VP8.
    Vp8(State),
    /// A state of AV1.
    Av1(Av1State),
}

impl EitherState {
    /// The state of VP8; none if it is one of AV1.
    fn vp8(&self) -> Option<State> {
        match self {
            Self::Empty => Some(State::default()),
            Self::Vp8(state) => Some(state.clone()),
            Self::Av1(_) => None,
        }
    }

    /// The state of AV1; none if it is one of VP8.
    #[must_use]
    pub fn av1(&self) -> Option<Av1State> {
        match self {
            Self::Empty => Some(Av1State::default()),
            Self::Vp8(_) => None,
            Self::Av1(state) => Some(state.clone()),
        }
    }
}

/// The arenas of both codecs, of which one is used.
#[derive(Debug, Clone, Default)]
pub struct EitherArena {
    vp8: Arena,
    av1: Av1Arena,
    /// Whether frames are those of AV1.
    decodes_av1: bool,
}

impl EitherArena {
    /// Arenas with `av1` for frames of AV1.
    #[must_use]
    pub fn with_av1(av1: Av1Arena) -> Self {
        Self { av1, ..Self::default() }
    }

    /// Arenas with `vp8` for frames of VP8.
    #[must_use]
    pub fn with_vp8(vp8: Arena) -> Self {
        Self { vp8, ..Self::default() }
    }

    /// The arena of AV1, if frames are those of AV1.
    #[must_use]
    pub fn av1(&self) -> Option<&Av1Arena> {
        self.decodes_av1.then_some(&self.av1)
    }
}

/// A candidate of one codec, with its state as `wrap` makes it.
fn either<C: PictureCodec>(candidate: Candidate<C>, wrap: impl FnOnce(C::State) -> EitherState) -> Candidate<Vp8OrAv1> {
    let Candidate { frame, quantizer, key_frame, state, ssim } = candidate;
    Candidate { frame, quantizer, key_frame, state: wrap(state), ssim }
}

impl Codec for Vp8OrAv1 {
    type Picture = Picture;
    type Decoded = Picture;
    type State = EitherState;
    type Arena = EitherArena;
    type Payload = Vec<u8>;
    type Packet = Vec<u8>;
    type Analysis = OneOf<Box<Analysis>, Av1Analysis>;
    type Fitting = OneOf<<Vp8 as Codec>::Fitting, Av1Fitting>;

    const HAS_PIXELS: bool = true;

    fn pixels(picture: &Picture) -> Option<&Picture> {
        Some(picture)
    }

    fn shown_pixels(shown: &Picture) -> Option<&Picture> {
        Some(shown)
    }

    fn encode(analysis: &Self::Analysis, quantizer: u8) -> Candidate<Self> {
        match analysis {
            OneOf::Vp8(analysis) => either(Vp8::encode(analysis, quantizer), EitherState::Vp8),
            OneOf::Av1(analysis) => either(Av1::encode(analysis, quantizer), EitherState::Av1),
        }
    }

    fn name(state: &EitherState) -> StateId {
        match state {
            EitherState::Empty => StateId::EMPTY,
            EitherState::Vp8(state) => Vp8::name(state),
            EitherState::Av1(state) => Av1::name(state),
        }
    }

    fn is_shared(state: &EitherState) -> bool {
        match state {
            EitherState::Empty => false,
            EitherState::Vp8(state) => Vp8::is_shared(state),
            EitherState::Av1(state) => Av1::is_shared(state),
        }
    }

    fn state_size(state: &EitherState) -> Option<ByteCount> {
        match state {
            EitherState::Empty => None,
            EitherState::Vp8(state) => Vp8::state_size(state),
            EitherState::Av1(state) => Av1::state_size(state),
        }
    }

    fn reference_pixels<'a>(states: impl Iterator<Item = &'a EitherState>) -> usize {
        // Those of AV1 lie in the slots of its decoder.
        Vp8::reference_pixels(states.filter_map(|state| match state {
            EitherState::Vp8(state) => Some(state),
            EitherState::Empty | EitherState::Av1(_) => None,
        }))
    }

    fn last_shown(state: &EitherState) -> Option<Picture> {
        match state {
            EitherState::Empty => None,
            EitherState::Vp8(state) => Vp8::last_shown(state),
            EitherState::Av1(state) => Av1::last_shown(state),
        }
    }

    fn decode(
        arena: &EitherArena,
        source: &EitherState,
        frame: &Vec<u8>,
        target: StateId,
        pixel_limit: usize,
    ) -> Option<(EitherState, Picture)> {
        if arena.decodes_av1 {
            let (state, picture) = Av1::decode(&arena.av1, &source.av1()?, frame, target, pixel_limit)?;
            return Some((EitherState::Av1(state), picture));
        }
        let (state, picture) = Vp8::decode(&arena.vp8, &source.vp8()?, frame, target, pixel_limit)?;
        Some((EitherState::Vp8(state), picture))
    }

    fn accepts(arena: &mut EitherArena, codec: CodecId) -> bool {
        arena.decodes_av1 = Av1::accepts(&mut arena.av1, codec);
        arena.decodes_av1 || Vp8::accepts(&mut arena.vp8, codec)
    }

    fn pack(datagram: Datagram) -> Vec<u8> {
        Vp8::pack(datagram)
    }

    fn unpack(packet: Vec<u8>) -> Result<Datagram, WireError> {
        Vp8::unpack(packet)
    }
}

impl FunctionalCodec for Vp8OrAv1 {
    type Parameters = OneOf<Parameters, Av1Parameters>;

    fn traits(parameters: &Self::Parameters) -> CodecTraits {
        match parameters {
            OneOf::Vp8(parameters) => Vp8::traits(parameters),
            OneOf::Av1(parameters) => Av1::traits(parameters),
        }
    }

    fn check(parameters: &Self::Parameters) -> Result<(), FailureReason> {
        match parameters {
            OneOf::Vp8(parameters) => Vp8::check(parameters),
            OneOf::Av1(parameters) => Av1::check(parameters),
        }
    }

    fn set_screen(parameters: &mut Self::Parameters, is_screen: bool) {
        match parameters {
            OneOf::Vp8(parameters) => Vp8::set_screen(parameters, is_screen),
            OneOf::Av1(parameters) => Av1::set_screen(parameters, is_screen),
        }
    }

    fn set_effort(parameters: &mut Self::Parameters, effort: Effort) {
        match parameters {
            OneOf::Vp8(parameters) => Vp8::set_effort(parameters, effort),
            OneOf::Av1(parameters) => Av1::set_effort(parameters, effort),
        }
    }

    fn luma_samples(parameters: &Self::Parameters, picture: &Picture) -> usize {
        match parameters {
            OneOf::Vp8(parameters) => Vp8::luma_samples(parameters, picture),
            OneOf::Av1(parameters) => Av1::luma_samples(parameters, picture),
        }
    }

    fn analyse(
        arena: &EitherArena,
        state: &EitherState,
        picture: &Picture,
        parameters: &Self::Parameters,
    ) -> Self::Analysis {
        // All states of an encoder are of one codec.
        match parameters {
            OneOf::Vp8(parameters) => {
                let state = state.vp8().unwrap_or_default();
                OneOf::Vp8(Box::new(Vp8::analyse(&arena.vp8, &state, picture, parameters)))
            }
            OneOf::Av1(parameters) => {
                let state = state.av1().unwrap_or_default();
                OneOf::Av1(Av1::analyse(&arena.av1, &state, picture, parameters))
            }
        }
    }

    fn is_key_frame(analysis: &Self::Analysis) -> bool {
        match analysis {
            OneOf::Vp8(analysis) => Vp8::is_key_frame(analysis),
            OneOf::Av1(analysis) => Av1::is_key_frame(analysis),
        }
    }

    fn estimate_size(analysis: &Self::Analysis, quantizer: u8) -> Option<ByteCount> {
        match analysis {
            OneOf::Vp8(analysis) => Vp8::estimate_size(analysis, quantizer),
            OneOf::Av1(analysis) => Av1::estimate_size(analysis, quantizer),
        }
    }

    fn estimate_decimated_size(analysis: &Self::Analysis, quantizer: u8) -> Option<ByteCount> {
        match analysis {
            OneOf::Vp8(analysis) => Vp8::estimate_decimated_size(analysis, quantizer),
            OneOf::Av1(analysis) => Av1::estimate_decimated_size(analysis, quantizer),
        }
    }

    fn fitting(analysis: Self::Analysis, first: u8) -> Self::Fitting {
        match analysis {
            OneOf::Vp8(analysis) => OneOf::Vp8(Vp8::fitting(*analysis, first)),
            OneOf::Av1(analysis) => OneOf::Av1(Av1::fitting(analysis, first)),
        }
    }

    fn pass(fitting: &mut Self::Fitting, budget: ByteCount) -> Candidate<Self> {
        match fitting {
            OneOf::Vp8(fitting) => either(Vp8::pass(fitting, budget), EitherState::Vp8),
            OneOf::Av1(fitting) => either(Av1::pass(fitting, budget), EitherState::Av1),
        }
    }

    fn is_filled(fitting: &Self::Fitting, budget: ByteCount) -> bool {
        match fitting {
            OneOf::Vp8(fitting) => Vp8::is_filled(fitting, budget),
            OneOf::Av1(fitting) => Av1::is_filled(fitting, budget),
        }
    }
}
