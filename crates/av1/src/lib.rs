//! AV1 frames coded from named reference slots, through the system's libaom and dav1d.
//!
//! AV1 has eight reference slots. Each holds a picture and its probabilities. A frame names the slots that it reads and
//! writes, so a slot can hold one of Lockstep's states:
//!
//! ```text
//! base slot --encode, quantizer 20--> candidate in slot 3   sent
//!           \-encode, quantizer 40--> candidate in slot 5   thrown away: no later frame reads slot 5
//! ```
//!
//! - [`Av1`]: the codec of a call, for `SendingEnd<Av1>` and `ReceivingEnd<Av1>`. A state is a frame in a slot.
//! - [`Vp8OrAv1`]: either of the two, as the sending end says.
//! - [`Encoder`]: libaom. [`Encoder::encode`] codes a picture from the slots and with the quantizer of a [`Coding`].
//! - [`Decoder`]: dav1d. It knows nothing of candidates and states.
//! - [`FrameHeader`]: the fields of a frame that name slots.
//!
//! Both libraries are loaded at run time, so Lockstep builds and runs without them and their headers. All unsafe code is
//! in the modules `aom`, `dav1d` and `loaded`. The page `docs/lab/2026-11-av1-slots.md` has measurements.
#![deny(unsafe_code)]

mod aom;
mod codec;
mod dav1d;
mod error;
mod fitting;
mod header;
mod layout;
mod loaded;
mod name;
mod slotted_decoder;
mod slotted_encoder;
mod vp8_or_av1;

pub use aom::{CodedFrame, Coding, Encoder, EncoderLibrary, EncoderSettings, Tools};
pub use codec::{Av1, Av1Analysis, Av1Arena, Av1Fitting, Av1Parameters, Av1State, MAX_CANDIDATES, MAX_STATES};
pub use dav1d::{Decoder, DecoderLibrary};
pub use error::Av1Error;
pub use header::{FrameHeader, FrameKind, HeaderError, SLOTS, Sequence, temporal_units};
pub use vp8_or_av1::{EitherArena, EitherState, OneOf, Vp8OrAv1};
