//! Events of a call's threads and sockets, for its loop.

use lockstep_call::{DecodeOutcome, Menu, PictureCodec, Vp8};
use lockstep_media::PictureQuality;
use lockstep_socket::Incoming;
use lockstep_transport::SoundPacket;
use lockstep_units::Timestamp;

use crate::capture::Captured;

/// An event for the loop of a call. Numbers are stream numbers.
pub(crate) enum LoopEvent<C: PictureCodec = Vp8> {
    Network(Incoming),
    Sending(usize, SendingEvent<C>),
    Decoded(usize, DecodeOutcome<C>),
    Sound(SoundEvent),
    /// The application made a request.
    Woken,
}

/// An event of the threads that capture and encode.
pub(crate) enum SendingEvent<C: PictureCodec = Vp8> {
    Captured(Captured),
    Encoded(Menu<C>),
    Measured { capture: u64, quality: Option<PictureQuality> },
}

/// An event of the sound threads.
#[derive(Debug)]
pub(crate) enum SoundEvent {
    /// A frame of 20 ms from the microphone of a stream.
    Spoken(usize, SoundPacket),
    /// The time of playout, and the capture time of the sound that is played; `None` for concealed sound or silence.
    Playback(Timestamp, Option<Timestamp>),
}
