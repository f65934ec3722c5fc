//! An application's own codec in a call: an encoder and a decoder of bytes, with states identified by names.
//!
//! [`PictureEncoder`] and [`PictureDecoder`] are its two halves. [`External`] is the [`Codec`] for them, so
//! `SendingEnd<External>` and `ReceivingEnd<External>` work like the ends of any other call:
//!
//! ```text
//! picture -> ExternalEncoder -> PictureEncoder -> frame, name of the state reached -> transport
//! shown   <- ReceivingEnd    <- PictureDecoder <- frame, name of the source state  <- transport
//! ```

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstep_transport::{CodecId, Datagram, Recovery, StateId, WireError};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use lockstep_vp8::Picture;

use crate::codec::{Candidate, Codec, CodecTraits};
use crate::conventional::{KEY_FRAME_INTERVAL, MAX_PACER_DELAY};
use crate::encoder::{EncodeJob, EncodeWork, FrameEncoder, FrameRequest, FrameStart, Menu};
use crate::receiving::ReceivingEnd;

/// Picture to be coded, with the limits of its frame.
#[derive(Debug, Clone, Copy)]
pub struct EncodeRequest<'a> {
    /// The picture.
    pub picture: &'a Picture,
    /// Source state of the frame. With [`StateId::EMPTY`] the frame must be a key frame.
    pub source: StateId,
    /// Budget of the frame, bytes.
    pub budget: ByteCount,
    /// Mean bit rate of frames.
    pub target: Bitrate,
}

/// Frame that may be sent.
#[derive(Debug, Clone)]
pub struct EncodedPicture {
    /// The frame.
    pub bytes: Vec<u8>,
    /// Name of the target state, which the decoder must also compute. Not [`StateId::EMPTY`].
    pub target: StateId,
    /// Whether the frame decodes from any state.
    pub key_frame: bool,
    /// Quantizer from 0, the finest of the codec, to 127, the coarsest; for logs.
    pub quantizer: u8,
    /// Picture that the decoder will display. Without it the log has no quality of the frame.
    pub reconstruction: Option<Picture>,
}

/// Encoder of an application's codec. It is called from the call's encoder thread only.
pub trait PictureEncoder: Send {
    /// [`Recovery::FromHeldState`] if the encoder codes from any state that is not forgotten. [`Recovery::Retransmit`]
    /// if it codes from its last frame, and makes a key frame for another source state. Called once.
    fn recovery(&self) -> Recovery;
    /// Codes a picture into one or several candidates of different sizes; an empty list skips the picture. The call
    /// sends the largest one within the current budget. With [`Recovery::Retransmit`] it sends the first one at any
    /// size. The states of all candidates stay until [`PictureEncoder::forget`].
    fn encode(&mut self, request: &EncodeRequest<'_>) -> Vec<EncodedPicture>;
    /// Releases `state`: no frame will be coded from it, since it was not sent or the receiver has newer states.
    fn forget(&mut self, state: StateId);
}

/// Decoder of an application's codec. It is called from the call's decoder thread only.
pub trait PictureDecoder: Send {
    /// Decodes `frame` from the state `source`. Returns the name of the target state, computed from the decoded data,
    /// and the picture. Returns none if the frame is damaged, or if its picture has more than `pixel_limit` luma
    /// samples. The limit must be checked before allocation. The frame is untrusted, so decoding must not panic on any
    /// bytes. The state stays until [`PictureDecoder::forget`].
    fn decode(&mut self, source: StateId, frame: &[u8], pixel_limit: usize) -> Option<(StateId, Picture)>;
    /// Releases `state`: no frame will be decoded from it.
    fn forget(&mut self, state: StateId);
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of handles of each decoder state.
type HandleCounts = Arc<Mutex<BTreeMap<StateId, usize>>>;

/// Handle of a decoder state. The decoder forgets states without handles before it decodes again.
struct Handle {
    name: StateId,
    counts: HandleCounts,
}

impl Handle {
    fn new(name: StateId, counts: &HandleCounts) -> Self {
        *lock(counts).entry(name).or_default() += 1;
        Self { name, counts: Arc::clone(counts) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(count) = lock(&self.counts).get_mut(&self.name) {
            *count -= 1;
        }
    }
}

/// State of an application's codec: its name, and its handle in the decoder.
#[derive(Clone, Default)]
pub struct ExternalState {
    name: StateId,
    /// Picture that the decoder will display; at the encoder only.
    reconstruction: Option<Picture>,
    /// Handle of the state; at the decoder only.
    handle: Option<Arc<Handle>>,
}

impl fmt::Debug for ExternalState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, reconstruction, handle } = self;
        let (shows, handles) = (reconstruction.is_some(), handle.as_ref().map_or(0, Arc::strong_count));
        write!(formatter, "ExternalState({name:?}, reconstruction: {shows}, handles: {handles})")
    }
}

/// The decoder of a receiving end; no decoder by default.
#[derive(Clone, Default)]
pub struct ExternalDecoder(Option<SharedDecoder>);

#[derive(Clone)]
struct SharedDecoder {
    codec: CodecId,
    decoder: Arc<Mutex<dyn PictureDecoder>>,
    counts: HandleCounts,
}

impl fmt::Debug for ExternalDecoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ExternalDecoder({:?})", self.0.as_ref().map(|shared| shared.codec))
    }
}

impl ExternalDecoder {
    fn new(codec: CodecId, decoder: impl PictureDecoder + 'static) -> Self {
        let counts = HandleCounts::default();
        Self(Some(SharedDecoder { codec, decoder: Arc::new(Mutex::new(decoder)), counts }))
    }
}

/// An application's own codec.
#[derive(Debug, Clone, Copy)]
pub enum External {}

impl Codec for External {
    type Picture = Picture;
    type Decoded = Picture;
    type State = ExternalState;
    type Arena = ExternalDecoder;
    type Payload = Vec<u8>;
    type Packet = Vec<u8>;
    // The application's encoder makes complete menus.
    type Analysis = Infallible;
    type Fitting = Infallible;

    const HAS_PIXELS: bool = true;

    fn pixels(picture: &Picture) -> Option<&Picture> {
        Some(picture)
    }

    fn shown_pixels(shown: &Picture) -> Option<&Picture> {
        Some(shown)
    }

    fn encode(analysis: &Infallible, _quantizer: u8) -> Candidate<Self> {
        match *analysis {}
    }

    fn name(state: &ExternalState) -> StateId {
        state.name
    }

    fn last_shown(state: &ExternalState) -> Option<Picture> {
        state.reconstruction.clone()
    }

    fn decode(
        arena: &ExternalDecoder,
        source: &ExternalState,
        frame: &Vec<u8>,
        _target: StateId,
        pixel_limit: usize,
    ) -> Option<(ExternalState, Picture)> {
        let SharedDecoder { decoder, counts, .. } = arena.0.as_ref()?;
        let mut decoder = lock(decoder);
        lock(counts).retain(|&name, &mut count| {
            if count == 0 {
                decoder.forget(name);
            }
            count > 0
        });
        let (name, picture) = decoder.decode(source.name, frame, pixel_limit)?;
        // A refused state also gets a handle, so that it is forgotten later.
        let state = ExternalState { name, reconstruction: None, handle: Some(Arc::new(Handle::new(name, counts))) };
        (picture.width() * picture.height() <= pixel_limit).then_some((state, picture))
    }

    fn accepts(arena: &mut ExternalDecoder, codec: CodecId) -> bool {
        arena.0.as_ref().is_some_and(|shared| shared.codec == codec)
    }

    fn pack(datagram: Datagram) -> Vec<u8> {
        datagram.to_bytes()
    }

    fn unpack(packet: Vec<u8>) -> Result<Datagram, WireError> {
        Datagram::decode(&packet)
    }
}

impl ReceivingEnd<External> {
    /// Decodes pictures of the codec `codec` with `decoder`. Without a decoder the end refuses every call.
    #[must_use]
    pub fn decoding_with(self, codec: CodecId, decoder: impl PictureDecoder + 'static) -> Self {
        self.with_arena(ExternalDecoder::new(codec, decoder))
    }
}

/// A [`PictureEncoder`] as a [`FrameEncoder`].
pub struct ExternalEncoder {
    encoder: Arc<Mutex<dyn PictureEncoder>>,
    codec: CodecId,
    recovery: Recovery,
    /// Names of the states that frames may be coded from.
    held: Vec<StateId>,
    /// Names that the encoder must forget before it codes again.
    forgotten: Vec<StateId>,
    /// Start of the picture that is being coded, and time of the last key frame.
    begun_at: Option<Timestamp>,
    key_frame_at: Option<Timestamp>,
}

impl ExternalEncoder {
    /// The frame encoder of a sending end that codes with `encoder`. The hello contains `codec`, a number that the
    /// application chooses for both ends. [`CodecId::VP8`] and [`CodecId::AV1`] are reserved.
    #[must_use]
    pub fn new(codec: CodecId, encoder: impl PictureEncoder + 'static) -> Self {
        let recovery = encoder.recovery();
        let encoder: Arc<Mutex<dyn PictureEncoder>> = Arc::new(Mutex::new(encoder));
        let (held, forgotten) = (Vec::new(), Vec::new());
        Self { encoder, codec, recovery, held, forgotten, begun_at: None, key_frame_at: None }
    }

    fn retransmits(&self) -> bool {
        self.recovery == Recovery::Retransmit
    }

    /// Whether a picture must wait for the pacer or for the key frame interval, as with a conventional codec.
    fn must_wait(&self, now: Timestamp, source: StateId, pacer_delay: Duration) -> bool {
        let repeats = source == StateId::EMPTY && self.key_frame_at.is_some_and(|at| now < at + KEY_FRAME_INTERVAL);
        self.retransmits() && (pacer_delay > MAX_PACER_DELAY || repeats)
    }
}

impl FrameEncoder<External> for ExternalEncoder {
    fn codec(&self) -> CodecTraits {
        CodecTraits::new(self.codec)
    }

    fn recovery(&self) -> Recovery {
        self.recovery
    }

    fn begin(&mut self, request: &FrameRequest<'_, External>) -> Option<FrameStart<External>> {
        let FrameRequest { now, picture, source, budget, target, pacer_delay, .. } = *request;
        let usable = if self.retransmits() { self.held.last() == Some(&source) } else { self.held.contains(&source) };
        let source = if usable { source } else { StateId::EMPTY };
        if self.must_wait(now, source, pacer_delay) {
            return None;
        }
        self.begun_at = Some(now);
        let mut forgotten = std::mem::take(&mut self.forgotten);
        forgotten.retain(|name| !self.held.contains(name));
        let (encoder, picture) = (Arc::clone(&self.encoder), picture.clone());
        let job = EncodeJob::new(EncodeWork::OneFrame, move |_| {
            let mut encoder = lock(&encoder);
            forgotten.into_iter().for_each(|name| encoder.forget(name));
            let frames = encoder.encode(&EncodeRequest { picture: &picture, source, budget, target });
            let from_nothing = source == StateId::EMPTY;
            // Without a source only key frames decode, and no frame leads to the empty state.
            let frames = frames.into_iter().filter(|frame| frame.key_frame || !from_nothing);
            let frames = frames.filter(|frame| frame.target != StateId::EMPTY);
            Menu::new(frames.map(Candidate::from).collect())
        });
        Some(FrameStart { source, job })
    }

    fn choose(&self, menu: &Menu<External>, budget: ByteCount, anyway: bool) -> Option<usize> {
        if self.retransmits() {
            return (!menu.candidates.is_empty()).then_some(0);
        }
        menu.largest_within(budget).or_else(|| anyway.then(|| menu.smallest()).flatten())
    }

    fn commit(&mut self, mut menu: Menu<External>, choice: Option<usize>) -> Option<(StateId, Candidate<External>)> {
        let begun_at = self.begun_at.take();
        let chosen = choice.map(|choice| menu.candidates.swap_remove(choice));
        self.forgotten.extend(menu.candidates.iter().map(|candidate| candidate.state.name));
        let chosen = chosen?;
        if chosen.key_frame {
            self.key_frame_at = begun_at;
        }
        let name = chosen.state.name;
        self.held.retain(|&held| held != name);
        self.held.push(name);
        Some((name, chosen))
    }

    fn forget(&mut self, state: StateId) {
        self.held.retain(|&held| held != state);
        self.forgotten.push(state);
    }

    fn held_states(&self) -> usize {
        1 + self.held.len()
    }
}

impl From<EncodedPicture> for Candidate<External> {
    fn from(EncodedPicture { bytes, target, key_frame, quantizer, reconstruction }: EncodedPicture) -> Self {
        let state = ExternalState { name: target, reconstruction, handle: None };
        Self { frame: bytes, quantizer: quantizer.min(127), key_frame, state, ssim: None }
    }
}
