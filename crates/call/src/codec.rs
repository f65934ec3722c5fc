//! Codec interface of a call's two ends.
//!
//! A codec is this project's [`Vp8`](crate::Vp8), a model without pixels and bytes (`lockstep_sim::Modelled`), or an
//! application's own codec ([`External`](crate::External)). Menus, rate control, transport, control and log are the
//! same objects for all of them.

use std::fmt::Debug;

use lockstep_control::FailureReason;
use lockstep_transport::{CodecId, Datagram, Payload, StateId, WireError};
use lockstep_units::ByteCount;
use lockstep_vp8::Effort;

use crate::effort::EffortLadder;

/// VP8 with pictures and bytes, the codec of this project.
#[derive(Debug, Clone, Copy)]
pub enum Vp8 {}

/// A codec: its types, and the operations of both ends. Its values move between threads.
pub trait Codec: Debug + Copy + 'static {
    /// Captured picture.
    type Picture: Clone + Debug + Send;
    /// Decoded picture for display.
    type Decoded: Clone + Debug + Send;
    /// Decoder state between frames. The default is the empty state.
    type State: Clone + Debug + Default + Send;
    /// Memory for frames, reused from one to the next by the encoder or decoder. A clone is another handle of it.
    type Arena: Clone + Debug + Default + Send;
    /// Payload of frames.
    type Payload: Payload + Send;
    /// Datagram in transit: its bytes, or the datagram itself.
    type Packet: Clone + Debug;
    /// Analysis of one picture to be coded from one state at any quantizer.
    type Analysis: Send;
    /// Picture that is coded pass by pass to fit a budget.
    type Fitting: Debug + Send;

    /// Whether the codec has pixels.
    const HAS_PIXELS: bool;

    /// Pixels of a captured picture; none without pixels.
    fn pixels(picture: &Self::Picture) -> Option<&lockstep_vp8::Picture>;
    /// Pixels of a displayed picture; none without pixels.
    fn shown_pixels(shown: &Self::Decoded) -> Option<&lockstep_vp8::Picture>;
    /// Codes a picture at a quantizer index, 0 to 127.
    fn encode(analysis: &Self::Analysis, quantizer: u8) -> Candidate<Self>;
    /// The state id of a state. The first call completes work that coding deferred, since a candidate may never be
    /// sent.
    fn name(state: &Self::State) -> StateId;
    /// Whether a driver of both ends may pass this state of the sender to the receiver instead of decoding.
    fn is_shared(state: &Self::State) -> bool {
        let _ = state;
        false
    }
    /// Memory that one state holds by itself, whatever other states share of it; none without pixels.
    fn state_size(state: &Self::State) -> Option<ByteCount> {
        let _ = state;
        None
    }
    /// Pixels of the pictures that the states hold together as references. Pictures that states share count once. Zero
    /// without pixels.
    fn reference_pixels<'a>(states: impl Iterator<Item = &'a Self::State>) -> usize {
        let _ = states;
        0
    }
    /// The last picture that a decoder with this state has shown.
    fn last_shown(state: &Self::State) -> Option<Self::Decoded>;
    /// Decodes a frame that should lead to the state `target`. Returns none if its picture has more than `pixel_limit`
    /// pixels, or if it is damaged.
    fn decode(
        arena: &Self::Arena,
        source: &Self::State,
        frame: &Self::Payload,
        target: StateId,
        pixel_limit: usize,
    ) -> Option<(Self::State, Self::Decoded)>;
    /// Prepares `arena` for frames of `codec`. Returns whether it can decode them.
    fn accepts(arena: &mut Self::Arena, codec: CodecId) -> bool;
    /// Converts a datagram for transmission.
    fn pack(datagram: Datagram<Self::Payload>) -> Self::Packet;
    /// Converts a received datagram back.
    ///
    /// # Errors
    /// [`WireError`] if the datagram is invalid.
    fn unpack(packet: Self::Packet) -> Result<Datagram<Self::Payload>, WireError>;
}

/// Coded version of a picture that may be sent.
#[derive(Debug, Clone)]
pub struct Candidate<C: Codec = Vp8> {
    /// Frame for the packetiser.
    pub frame: C::Payload,
    /// Quantizer index, 0 to 127.
    pub quantizer: u8,
    /// Whether it decodes from the empty state.
    pub key_frame: bool,
    /// Decoder state after this frame, for a decoder with the source state.
    pub state: C::State,
    /// Luma SSIM of the displayed picture, 0 to 1, if the codec model gives it. For real pictures it must be measured.
    pub ssim: Option<f64>,
}

impl<C: Codec> Candidate<C> {
    /// Size of the frame.
    #[must_use]
    pub fn size(&self) -> ByteCount {
        ByteCount::new(self.frame.length() as u64)
    }

    /// The picture that the receiver will display.
    #[must_use]
    pub fn shown(&self) -> Option<C::Decoded> {
        C::last_shown(&self.state)
    }
}

/// Properties of a codec that a sending end depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CodecTraits {
    /// Number of the codec in the hello.
    pub id: CodecId,
    /// Effort levels of the encoder.
    pub efforts: EffortLadder,
    /// Most states of sent frames that the encoder can keep, at least five.
    pub max_states: usize,
}

impl CodecTraits {
    /// A codec without effort levels that can keep any number of states.
    #[must_use]
    pub fn new(id: CodecId) -> Self {
        Self { id, efforts: EffortLadder::NONE, max_states: usize::MAX }
    }
}

/// A codec that codes a picture from any state at any quantizer, as a pure function.
pub trait FunctionalCodec: Codec {
    /// Coding parameters except the quantizer.
    type Parameters: Clone + Debug + Send;

    /// The codec that these parameters choose.
    fn traits(parameters: &Self::Parameters) -> CodecTraits;
    /// Checks whether coding failed.
    ///
    /// # Errors
    /// The reason, once.
    fn check(parameters: &Self::Parameters) -> Result<(), FailureReason> {
        let _ = parameters;
        Ok(())
    }
    /// Sets whether pictures show a screen.
    fn set_screen(parameters: &mut Self::Parameters, is_screen: bool);
    /// Sets the effort level of pictures.
    fn set_effort(parameters: &mut Self::Parameters, effort: Effort);
    /// Number of luma samples of a picture.
    fn luma_samples(parameters: &Self::Parameters, picture: &Self::Picture) -> usize;
    /// Analyses `picture`, to be coded from `state`.
    fn analyse(
        arena: &Self::Arena,
        state: &Self::State,
        picture: &Self::Picture,
        parameters: &Self::Parameters,
    ) -> Self::Analysis;
    /// Whether the picture will be a key frame.
    fn is_key_frame(analysis: &Self::Analysis) -> bool;
    /// Estimated size at a quantizer index, from the prediction residual; none if unknown.
    fn estimate_size(analysis: &Self::Analysis, quantizer: u8) -> Option<ByteCount>;
    /// Rougher estimate from a decimated picture, for a conventional codec's search of its quantizer.
    fn estimate_decimated_size(analysis: &Self::Analysis, quantizer: u8) -> Option<ByteCount> {
        Self::estimate_size(analysis, quantizer)
    }
    /// Starts to fit the picture to a budget. The first pass uses the quantizer `first`.
    fn fitting(analysis: Self::Analysis, first: u8) -> Self::Fitting;
    /// Codes one more pass towards `budget`.
    fn pass(fitting: &mut Self::Fitting, budget: ByteCount) -> Candidate<Self>;
    /// Whether another pass would gain nothing: one so far fits and fills `budget`, or has the finest quantizer.
    fn is_filled(fitting: &Self::Fitting, budget: ByteCount) -> bool;
}

/// Codec of real pictures and bytes, which a live call can use.
pub trait PictureCodec:
    Codec<Picture = lockstep_vp8::Picture, Decoded = lockstep_vp8::Picture, Payload = Vec<u8>, Packet = Vec<u8>>
{
}

impl<C> PictureCodec for C where
    C: Codec<Picture = lockstep_vp8::Picture, Decoded = lockstep_vp8::Picture, Payload = Vec<u8>, Packet = Vec<u8>>
{
}
