//! What a call's ends know of the codec between them: that of this project ([`Vp8`](crate::Vp8)), a model of it without
//! pixels and bytes (`lockstep_sim::Modelled`), or an application's own ([`External`](crate::External)). Everything
//! above - menus, rate control, transport, control, log - is the same object over any of them.

use std::fmt::Debug;

use lockstep_transport::{CodecId, Datagram, Payload, StateId, WireError};
use lockstep_units::ByteCount;

/// VP8 with pictures and bytes, the codec of this project.
#[derive(Debug, Clone, Copy)]
pub enum Vp8 {}

/// A codec: its types, and what both ends do with them. Its values go to other threads and back.
pub trait Codec: Debug + Copy + 'static {
    /// What is captured.
    type Picture: Clone + Debug + Send;
    /// What a decoder gives to be shown.
    type Decoded: Clone + Debug + Send;
    /// What a decoder holds between frames; the default is that of one that has seen nothing.
    type State: Clone + Debug + Default + Send;
    /// The memory that frames are made in, kept from one to the next by whoever codes or decodes: a clone is another
    /// handle of it.
    type Arena: Clone + Debug + Default + Send;
    /// What frames are made of.
    type Payload: Payload + Send;
    /// What a datagram is on its way: its bytes, or itself.
    type Packet: Clone + Debug;
    /// One picture about to be coded from one state, at any quantizer.
    type Analysis: Send;
    /// A picture that is being made to fit a budget, pass by pass.
    type Fitting: Debug + Send;

    /// Whether there are pixels.
    const HAS_PIXELS: bool;
    /// Whether a driver of both ends may give the receiver the state that the sender reached, instead of decoding.
    const SHARES_STATES: bool;

    /// The pixels of what is captured, where there are any.
    fn pixels(picture: &Self::Picture) -> Option<&lockstep_vp8::Picture>;
    /// The pixels of what is shown, where there are any.
    fn shown_pixels(shown: &Self::Decoded) -> Option<&lockstep_vp8::Picture>;
    /// Codes a picture at a quantizer index, 0-127.
    fn encode(analysis: &Self::Analysis, quantizer: u8) -> Candidate<Self>;
    /// The name of a state. What coding has left undone of a candidate that may never be sent is done when this is first
    /// asked.
    fn name(state: &Self::State) -> StateId;
    /// What a decoder with this state has shown last.
    fn last_shown(state: &Self::State) -> Option<Self::Decoded>;
    /// Decodes a frame that should lead to the state `target`, unless its pictures have more than `pixel_limit` pixels
    /// or it is damaged.
    fn decode(
        arena: &Self::Arena,
        source: &Self::State,
        frame: &Self::Payload,
        target: StateId,
        pixel_limit: usize,
    ) -> Option<(Self::State, Self::Decoded)>;
    /// The codec whose frames are decoded with `arena`; none where it has no decoder.
    fn decodes(arena: &Self::Arena) -> Option<CodecId>;
    /// The datagram as it goes on its way.
    fn pack(datagram: Datagram<Self::Payload>) -> Self::Packet;
    /// The datagram that has come.
    ///
    /// # Errors
    /// What is wrong with it.
    fn unpack(packet: Self::Packet) -> Result<Datagram<Self::Payload>, WireError>;
}

/// A coded version of a picture that may be sent.
#[derive(Debug, Clone)]
pub struct Candidate<C: Codec = Vp8> {
    /// The frame as it goes to the packetiser.
    pub frame: C::Payload,
    /// Quantizer index, 0-127.
    pub quantizer: u8,
    /// Whether it decodes from nothing.
    pub key_frame: bool,
    /// What a decoder that holds the source state has afterwards.
    pub state: C::State,
    /// Luma SSIM of what will be shown, 0-1, where coding says it; of real pictures it has to be measured.
    pub ssim: Option<f64>,
}

impl<C: Codec> Candidate<C> {
    /// Size of the frame.
    #[must_use]
    pub fn size(&self) -> ByteCount {
        ByteCount::new(self.frame.length() as u64)
    }

    /// What the receiver will show.
    #[must_use]
    pub fn shown(&self) -> Option<C::Decoded> {
        C::last_shown(&self.state)
    }
}

/// A codec that codes a picture from any state at any quantizer, as a pure function.
pub trait FunctionalCodec: Codec {
    /// How pictures are coded, but for the quantizer.
    type Parameters: Clone + Debug + Send;

    /// The codec's number in the hello.
    const ID: CodecId;

    /// Luma samples of a picture.
    fn luma_samples(parameters: &Self::Parameters, picture: &Self::Picture) -> usize;
    /// Looks at `picture`, to be coded from `state`.
    fn analyse(
        arena: &Self::Arena,
        state: &Self::State,
        picture: &Self::Picture,
        parameters: &Self::Parameters,
    ) -> Self::Analysis;
    /// Whether it will be a key frame.
    fn is_key_frame(analysis: &Self::Analysis) -> bool;
    /// About how many bytes the picture takes at a quantizer index, by what prediction leaves of it; none where nobody knows.
    fn estimate_size(analysis: &Self::Analysis, quantizer: u8) -> Option<ByteCount>;
    /// Begins to make it fit; the first pass is at the quantizer `first`.
    fn fitting(analysis: Self::Analysis, first: u8) -> Self::Fitting;
    /// Codes it once more, for `budget`.
    fn pass(fitting: &mut Self::Fitting, budget: ByteCount) -> Candidate<Self>;
    /// Whether another pass would bring nothing: one so far fits `budget` and fills it, or is as fine as can be.
    fn is_filled(fitting: &Self::Fitting, budget: ByteCount) -> bool;
}

/// A codec of real pictures and bytes: what a live call can carry.
pub trait PictureCodec:
    Codec<Picture = lockstep_vp8::Picture, Decoded = lockstep_vp8::Picture, Payload = Vec<u8>>
{
}

impl<C> PictureCodec for C where
    C: Codec<Picture = lockstep_vp8::Picture, Decoded = lockstep_vp8::Picture, Payload = Vec<u8>>
{
}
