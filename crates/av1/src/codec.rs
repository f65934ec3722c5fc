//! AV1 as the codec of a call: states in named slots.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockstep_call::{Candidate, Codec, CodecTraits, EffortLadder, EffortLevel, FunctionalCodec};
use lockstep_control::{Failure, FailureReason};
use lockstep_transport::{CodecId, Datagram, StateId, WireError};
use lockstep_units::ByteCount;
use lockstep_vp8::{Effort, MAX_QUANTIZER as MAX_INDEX, Picture};

use crate::aom::{EncoderLibrary, MAX_QUANTIZER};
use crate::dav1d::{Decoder, DecoderLibrary};
use crate::error::Av1Error;
use crate::fitting::{FINEST, Passes, SizeModel};
use crate::header::SLOTS;
use crate::slotted_decoder::SlottedDecoder;
use crate::slotted_encoder::{SlottedEncoder, WrittenSlot};

/// libaom's `cpu-used` at each effort level. 8 and 9 save fewer bits for their time. `lab: 2026-11-av1-slots`.
const SPEEDS: [u8; EFFORT_LEVELS.len()] = [10, 7, 6, 5];
/// Times of the levels. `lab: 2026-11-av1-slots`.
const EFFORT_LEVELS: [EffortLevel; 4] = [level(1.0), level(1.25), level(3.2), level(6.7)];

/// Level that is worth the time of a frame interval: it saves most bits for its time. `lab: 2026-11-av1-slots`.
const USUAL_EFFORT: Effort = Effort::new(1);

const fn level(relative_time: f64) -> EffortLevel {
    EffortLevel { relative_time, relative_step: 1.0 }
}

/// Most candidates of one picture, each in a slot.
pub const MAX_CANDIDATES: usize = 3;
/// Most states of sent frames: the slots that candidates leave.
pub const MAX_STATES: usize = SLOTS as usize - MAX_CANDIDATES;
/// Quantizer indices of [`Candidate::quantizer`], and libaom's quantizers for them. Up to about 100, pictures have the
/// error of VP8 at the index. `lab: 2026-11-av1-slots`.
const EQUAL_ERRORS: [(u8, u8); 3] = [(0, FINEST), (24, 23), (MAX_INDEX, MAX_QUANTIZER)];

/// Interpolates between points, from `x` to `y`.
fn interpolated(x: u8, points: [(u8, u8); 3]) -> u8 {
    let [first, middle, last] = points;
    let (from, to) = if x <= middle.0 { (first, middle) } else { (middle, last) };
    let share = f64::from(x.clamp(from.0, to.0) - from.0) / f64::from(to.0 - from.0);
    from.1 + (share * f64::from(to.1 - from.1)).round() as u8
}

/// libaom's quantizer for a quantizer index, 0 to 127.
fn quantizer_of(index: u8) -> u8 {
    interpolated(index, EQUAL_ERRORS)
}

/// The quantizer index of one of libaom's quantizers.
fn index_of(quantizer: u8) -> u8 {
    interpolated(quantizer, EQUAL_ERRORS.map(|(index, quantizer)| (quantizer, index)))
}

/// AV1 over named reference slots, through the system's libaom and dav1d.
///
/// A call has few states: eight slots hold them and the candidates of one picture.
#[derive(Debug, Clone, Copy)]
pub enum Av1 {}

impl Av1 {
    /// Effort levels of the encoder.
    pub const EFFORTS: EffortLadder = EffortLadder::new(&EFFORT_LEVELS).with_usual(USUAL_EFFORT);

    /// Checks that both libraries can be loaded.
    ///
    /// # Errors
    /// [`Av1Error::Missing`] if one is not installed or lacks a required function.
    pub fn check_libraries() -> Result<(), Av1Error> {
        EncoderLibrary::open()?;
        DecoderLibrary::open()?;
        Ok(())
    }
}

/// State of an AV1 codec: a frame in a slot, at the encoder; its name, at the decoder. The default is the empty state.
#[derive(Debug, Clone, Default)]
pub struct Av1State {
    name: StateId,
    written: Option<Arc<WrittenSlot>>,
}

/// Encoder and decoder with their slots, and the sizes of frames. Each library is loaded when it is needed.
#[derive(Clone, Default)]
pub struct Av1Arena(Arc<Mutex<Slotted>>);

#[derive(Default)]
struct Slotted {
    encoder: Option<SlottedEncoder>,
    decoder: SlottedDecoder,
    units: UnitDecoder,
    sizes: SizeModel,
}

/// What decodes units.
enum UnitDecoder {
    /// dav1d, once it is needed.
    Dav1d {
        /// The loaded library.
        library: Option<DecoderLibrary>,
        /// The decoder, with its limit of luma samples.
        decoder: Option<(usize, Decoder)>,
    },
    /// The arena's owner, with the pictures of the next frame.
    Owner(VecDeque<Picture>),
}

impl Default for UnitDecoder {
    fn default() -> Self {
        Self::Dav1d { library: None, decoder: None }
    }
}

impl UnitDecoder {
    /// Loads dav1d, unless it is loaded or the owner decodes. Returns whether frames can be decoded.
    fn is_ready(&mut self) -> bool {
        let Self::Dav1d { library, .. } = self else { return true };
        *library = library.take().or_else(|| DecoderLibrary::open().ok());
        library.is_some()
    }
}

impl std::fmt::Debug for Av1Arena {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slotted = self.lock();
        write!(formatter, "Av1Arena(encodes: {}, decodes: {:?})", slotted.encoder.is_some(), slotted.decoder)
    }
}

impl Av1Arena {
    /// An arena whose owner decodes with another decoder, such as a browser's. Before each frame is decoded, the
    /// owner decodes its units ([`Av1Arena::units`]) and passes their pictures in ([`Av1Arena::supply`]).
    #[must_use]
    pub fn decoded_by_owner() -> Self {
        let units = UnitDecoder::Owner(VecDeque::new());
        Self(Arc::new(Mutex::new(Slotted { units, ..Slotted::default() })))
    }

    /// The temporal units of `frame`, which claims to start from `source`, in the order of decoding. The first of two is
    /// a key frame. Each has one shown frame. None if the frame cannot be decoded now: it must not reach the decoder,
    /// whose slots it would change.
    #[must_use]
    pub fn units<'f>(&self, source: &Av1State, frame: &'f [u8], pixel_limit: usize) -> Option<Vec<&'f [u8]>> {
        self.lock().decoder.units(source.name, frame, pixel_limit)
    }

    /// The pictures of all units of the next frame. Without effect if this arena's decoder is dav1d.
    pub fn supply(&self, pictures: impl IntoIterator<Item = Picture>) {
        if let UnitDecoder::Owner(supplied) = &mut self.lock().units {
            *supplied = pictures.into_iter().collect();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slotted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slotted {
    fn encoder(&mut self) -> Result<&mut SlottedEncoder, Av1Error> {
        let encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => SlottedEncoder::new(EncoderLibrary::open()?),
        };
        Ok(self.encoder.insert(encoder))
    }

    /// Decodes a frame that claims to start from the state `source`.
    fn decode(&mut self, source: StateId, frame: &[u8], pixel_limit: usize) -> Option<(StateId, Picture)> {
        let Self { decoder, units, .. } = self;
        if !units.is_ready() {
            return None;
        }
        match units {
            UnitDecoder::Dav1d { library, decoder: made } => {
                let present = made.take().filter(|(limit, _)| *limit == pixel_limit);
                let mut dav1d = match present {
                    Some((_, dav1d)) => dav1d,
                    None => {
                        *decoder = SlottedDecoder::default();
                        Decoder::new(library.as_ref()?, pixel_limit).ok()?
                    }
                };
                let decoded = decoder.decode(source, frame, pixel_limit, |unit| dav1d.decode(unit).ok());
                *made = Some((pixel_limit, dav1d));
                decoded
            }
            UnitDecoder::Owner(pictures) => decoder.decode(source, frame, pixel_limit, |_| pictures.pop_front()),
        }
    }
}

/// Coding parameters except the quantizer.
#[derive(Debug, Clone, Default)]
pub struct Av1Parameters {
    /// Effort level; one above the slowest of [`Av1::EFFORTS`] counts as that.
    pub effort: Effort,
    /// Takes the error if libaom cannot be loaded or refuses a picture, which is not sent then.
    pub failure: Failure,
}

/// A picture to be coded from one state.
#[derive(Debug, Clone)]
pub struct Av1Analysis {
    arena: Av1Arena,
    source: Av1State,
    picture: Picture,
    parameters: Av1Parameters,
}

impl Av1Analysis {
    /// Codes the picture with one of libaom's quantizers.
    fn code(&self, quantizer: u8) -> Candidate<Av1> {
        let mut slotted = self.arena.lock();
        let speed = SPEEDS[usize::from(Av1::EFFORTS.nearest(self.parameters.effort).level())];
        let coded = slotted
            .encoder()
            .and_then(|encoder| encoder.encode(&self.picture, self.source.written.as_ref(), speed, quantizer));
        let (frame, state) = coded.map_or_else(
            |error| {
                self.parameters.failure.set(Box::new(error));
                // No receiver accepts an empty frame.
                (Vec::new(), Av1State { name: StateId(u64::MAX), written: None })
            },
            |(frame, written)| (frame, Av1State { name: written.name, written: Some(written) }),
        );
        Candidate { frame, quantizer: index_of(quantizer), key_frame: false, state, ssim: None }
    }
}

/// A picture that is coded pass by pass to fit a budget.
#[derive(Debug)]
pub struct Av1Fitting {
    analysis: Av1Analysis,
    passes: Passes,
}

impl Codec for Av1 {
    type Picture = Picture;
    type Decoded = Picture;
    type State = Av1State;
    type Arena = Av1Arena;
    type Payload = Vec<u8>;
    type Packet = Vec<u8>;
    type Analysis = Av1Analysis;
    type Fitting = Av1Fitting;

    const HAS_PIXELS: bool = true;

    fn pixels(picture: &Picture) -> Option<&Picture> {
        Some(picture)
    }

    fn shown_pixels(shown: &Picture) -> Option<&Picture> {
        Some(shown)
    }

    fn encode(analysis: &Av1Analysis, quantizer: u8) -> Candidate<Self> {
        Candidate { quantizer, ..analysis.code(quantizer_of(quantizer)) }
    }

    fn name(state: &Av1State) -> StateId {
        state.name
    }

    fn last_shown(state: &Av1State) -> Option<Picture> {
        state.written.as_ref().map(|written| written.picture.clone())
    }

    fn decode(
        arena: &Av1Arena,
        source: &Av1State,
        frame: &Vec<u8>,
        _target: StateId,
        pixel_limit: usize,
    ) -> Option<(Av1State, Picture)> {
        let (name, picture) = arena.lock().decode(source.name, frame, pixel_limit)?;
        Some((Av1State { name, written: None }, picture))
    }

    fn accepts(arena: &mut Av1Arena, codec: CodecId) -> bool {
        codec == CodecId::AV1 && arena.lock().units.is_ready()
    }

    fn pack(datagram: Datagram) -> Vec<u8> {
        datagram.to_bytes()
    }

    fn unpack(packet: Vec<u8>) -> Result<Datagram, WireError> {
        Datagram::decode(&packet)
    }
}

impl FunctionalCodec for Av1 {
    type Parameters = Av1Parameters;

    fn traits(_parameters: &Av1Parameters) -> CodecTraits {
        CodecTraits { efforts: Self::EFFORTS, max_states: MAX_STATES, ..CodecTraits::new(CodecId::AV1) }
    }

    fn check(parameters: &Av1Parameters) -> Result<(), FailureReason> {
        parameters.failure.check()
    }

    fn set_screen(_parameters: &mut Av1Parameters, _is_screen: bool) {}

    fn set_effort(parameters: &mut Av1Parameters, effort: Effort) {
        parameters.effort = effort;
    }

    fn luma_samples(_parameters: &Av1Parameters, picture: &Picture) -> usize {
        picture.width() * picture.height()
    }

    fn analyse(arena: &Av1Arena, state: &Av1State, picture: &Picture, parameters: &Av1Parameters) -> Av1Analysis {
        Av1Analysis {
            arena: arena.clone(),
            source: state.clone(),
            picture: picture.clone(),
            parameters: parameters.clone(),
        }
    }

    fn is_key_frame(_analysis: &Av1Analysis) -> bool {
        false
    }

    fn estimate_size(_analysis: &Av1Analysis, _quantizer: u8) -> Option<ByteCount> {
        None
    }

    fn fitting(analysis: Av1Analysis, first: u8) -> Av1Fitting {
        Av1Fitting { analysis, passes: Passes::new(quantizer_of(first)) }
    }

    fn pass(fitting: &mut Av1Fitting, budget: ByteCount) -> Candidate<Self> {
        let Av1Fitting { analysis, passes } = fitting;
        let quantizer = passes.next(&analysis.arena.lock().sizes, budget);
        let candidate = analysis.code(quantizer);
        passes.add(&mut analysis.arena.lock().sizes, quantizer, candidate.size());
        candidate
    }

    fn is_filled(fitting: &Av1Fitting, budget: ByteCount) -> bool {
        fitting.passes.is_filled(&fitting.analysis.arena.lock().sizes, budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantizers_cover_libaoms_and_return_to_their_index() {
        let quantizers: Vec<u8> = (0..=MAX_INDEX).map(quantizer_of).collect();
        assert_eq!((quantizers.first(), quantizers.last()), (Some(&FINEST), Some(&MAX_QUANTIZER)));
        assert!(quantizers.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] + 1));
        assert!((FINEST..=MAX_QUANTIZER).all(|quantizer| quantizer_of(index_of(quantizer)) == quantizer));
        assert_eq!((quantizer_of(u8::MAX), index_of(0), index_of(u8::MAX)), (MAX_QUANTIZER, 0, MAX_INDEX));
    }
}
