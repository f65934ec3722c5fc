//! A [`Codec`] without pixels and bytes; see [`CodecModel`](crate::CodecModel).
//!
//! Sizes and SSIM are those of real encodes. State names depend on everything that real ones depend on. A frame is only
//! a length.

use std::sync::Arc;

use lockstep_call::{Candidate, Codec, CodecTraits, FunctionalCodec};
use lockstep_transport::{CodecId, Datagram, Length, StateId, WireError};
use lockstep_units::ByteCount;
use lockstep_units::random::mix;
use lockstep_vp8::Effort;

use crate::modelled_clip::{ClipCurves, ModelledFrame, ModelledPicture, ModelledReference};

/// The modelled codec.
#[derive(Debug, Clone, Copy)]
pub enum Modelled {}

/// State of the modelled codec: its name, and at the encoder its properties as a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelledState {
    name: StateId,
    reference: Option<ModelledReference>,
}

/// A picture about to be coded by the model.
#[derive(Debug, Clone)]
pub struct ModelledAnalysis {
    curves: Arc<ClipCurves>,
    picture: ModelledPicture,
    source: StateId,
}

/// A picture that the model fits to a budget, pass by pass.
#[derive(Debug)]
pub struct ModelledFitting {
    analysis: ModelledAnalysis,
    first: u8,
    /// Quantizers and sizes of the passes so far.
    coded: Vec<(u8, ByteCount)>,
}

/// State that a frame leads to. Its name depends on everything that a real one depends on, and never equals the empty
/// state's.
fn state_after(source: u64, picture: &ModelledPicture, quantizer: u8, size: ByteCount) -> ModelledState {
    let name = [picture.number(), u64::from(quantizer), size.get()].into_iter().fold(source, mix);
    ModelledState { name: StateId(name.max(1)), reference: None }
}

/// A frame of `size` that shows nothing and needs no source state.
pub(crate) fn filling(picture: &ModelledPicture, size: ByteCount) -> Candidate<Modelled> {
    let state = state_after(0, picture, 0, size);
    Candidate { frame: Length::from(size), quantizer: 0, key_frame: true, state, ssim: None }
}

impl ModelledAnalysis {
    fn is_key_frame(&self) -> bool {
        self.source == StateId::EMPTY || self.picture.needs_key_frame()
    }

    /// Candidate with the properties of `frame`.
    fn candidate(&self, frame: ModelledFrame) -> Candidate<Modelled> {
        let ModelledFrame { size, quantizer, ssim, reference } = frame;
        let key_frame = self.is_key_frame();
        let source = if key_frame { 0 } else { self.source.0 };
        let state = state_after(source, &self.picture, quantizer, size);
        let state = ModelledState { reference: Some(reference), ..state };
        Candidate { frame: Length::from(size), quantizer, key_frame, state, ssim: Some(ssim) }
    }
}

impl Codec for Modelled {
    type Picture = ModelledPicture;
    type Decoded = ();
    type State = ModelledState;
    type Arena = ();
    type Payload = Length;
    type Packet = Datagram<Length>;
    type Analysis = ModelledAnalysis;
    type Fitting = ModelledFitting;

    const HAS_PIXELS: bool = false;

    fn pixels(_picture: &ModelledPicture) -> Option<&lockstep_vp8::Picture> {
        None
    }

    fn shown_pixels(_shown: &()) -> Option<&lockstep_vp8::Picture> {
        None
    }

    fn encode(analysis: &ModelledAnalysis, quantizer: u8) -> Candidate<Self> {
        analysis.candidate(analysis.curves.encode(&analysis.picture, quantizer, analysis.is_key_frame()))
    }

    fn name(state: &ModelledState) -> StateId {
        state.name
    }

    fn last_shown(_state: &ModelledState) -> Option<()> {
        Some(())
    }

    fn decode(
        _arena: &(),
        _source: &ModelledState,
        _frame: &Length,
        target: StateId,
        _limit: usize,
    ) -> Option<(ModelledState, ())> {
        Some((ModelledState { name: target, reference: None }, ()))
    }

    fn accepts(_arena: &mut (), codec: CodecId) -> bool {
        codec == CodecId::VP8
    }

    fn pack(datagram: Datagram<Length>) -> Datagram<Length> {
        datagram
    }

    fn unpack(packet: Datagram<Length>) -> Result<Datagram<Length>, WireError> {
        Ok(packet)
    }
}

impl FunctionalCodec for Modelled {
    type Parameters = Arc<ClipCurves>;

    fn traits(_curves: &Arc<ClipCurves>) -> CodecTraits {
        CodecTraits::new(CodecId::VP8)
    }

    /// The model has one curve for all contents.
    fn set_screen(_curves: &mut Arc<ClipCurves>, _is_screen: bool) {}

    /// The model was fitted to the fastest level.
    fn set_effort(_curves: &mut Arc<ClipCurves>, _effort: Effort) {}

    fn luma_samples(curves: &Arc<ClipCurves>, _picture: &ModelledPicture) -> usize {
        let (width, height) = curves.picture_size();
        width * height
    }

    fn analyse(
        _arena: &(),
        state: &ModelledState,
        picture: &ModelledPicture,
        curves: &Arc<ClipCurves>,
    ) -> ModelledAnalysis {
        let picture = picture.coded_from(state.reference);
        ModelledAnalysis { curves: Arc::clone(curves), picture, source: state.name }
    }

    fn is_key_frame(analysis: &ModelledAnalysis) -> bool {
        analysis.is_key_frame()
    }

    fn estimate_size(_analysis: &ModelledAnalysis, _quantizer: u8) -> Option<ByteCount> {
        // The models were measured without size estimates.
        None
    }

    fn fitting(analysis: ModelledAnalysis, first: u8) -> ModelledFitting {
        ModelledFitting { analysis, first, coded: Vec::new() }
    }

    fn pass(fitting: &mut ModelledFitting, budget: ByteCount) -> Candidate<Self> {
        let ModelledFitting { analysis, first, coded } = fitting;
        let candidate = if coded.is_empty() {
            Self::encode(analysis, *first)
        } else {
            let key_frame = analysis.is_key_frame();
            analysis.candidate(analysis.curves.encode_to_fit(&analysis.picture, budget, key_frame, coded.len()))
        };
        coded.push((candidate.quantizer, candidate.size()));
        candidate
    }

    fn is_filled(fitting: &ModelledFitting, budget: ByteCount) -> bool {
        // Same value as in `lockstep_vp8::Fitting`.
        const FILLED: f64 = 0.92;
        let filled = |size: ByteCount| size.as_f64() >= FILLED * budget.as_f64();
        fitting.coded.iter().any(|&(quantizer, size)| size <= budget && (quantizer == 0 || filled(size)))
    }
}
