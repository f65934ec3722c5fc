//! Modelled sound: packets and playback without samples, for modelled calls.

use lockstep_call::{CallSound, SoundAllowance, SoundPacketSource, SoundPlayer};
use lockstep_sound::{CodingError, Decode, FRAME_DURATION, FRAME_SAMPLES, Frame};
use lockstep_transport::{Length, SoundPacket};
use lockstep_units::{Bitrate, Timestamp};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

/// Mean duration of talking, seconds. Talking and silence are exponentially distributed (ITU-T P.59).
const TALK_SECONDS: f64 = 1.004;
/// Mean duration of silence, seconds.
const SILENCE_SECONDS: f64 = 1.587;
/// During silence, one frame in this many is an empty packet, as in [`SoundSender`](lockstep_sound::SoundSender).
const FRAMES_BETWEEN_SILENT_PACKETS: u32 = 20;

/// Sound of a call: the voice of `seed`, and a listener. With `lip_sync`, pictures wait for their sound and sound for its
/// pictures.
#[must_use]
pub fn modelled_sound(seed: u64, lip_sync: bool) -> CallSound<Length> {
    CallSound {
        voice: Box::new(ModelledVoice::new(seed)),
        playback: Box::new(SoundPlayer::new(ModelledListener, None)),
        lip_sync,
    }
}

/// A voice that alternates between talking and silence. Packets have the sizes of coded speech.
#[derive(Debug)]
pub struct ModelledVoice {
    random: Pcg32,
    next: u32,
    talks: bool,
    frames_left: u32,
    silent: u32,
}

impl ModelledVoice {
    /// A voice with the random numbers of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: Pcg32::seed_from_u64(seed), next: 0, talks: false, frames_left: 0, silent: 0 }
    }

    fn turn(&mut self) {
        self.talks = !self.talks;
        let mean = if self.talks { TALK_SECONDS } else { SILENCE_SECONDS };
        let seconds = -mean * libm::log(1.0 - self.random.random::<f64>());
        self.frames_left = (seconds / FRAME_DURATION.as_secs_f64()).ceil() as u32;
    }
}

impl SoundPacketSource<Length> for ModelledVoice {
    fn next_packet(
        &mut self,
        now: Timestamp,
        allowance: &SoundAllowance,
    ) -> Result<Option<SoundPacket<Length>>, CodingError> {
        while self.frames_left == 0 {
            self.turn();
        }
        self.frames_left -= 1;
        let frame = self.next;
        self.next = frame.wrapping_add(1);
        self.silent = if self.talks { 0 } else { self.silent + 1 };
        if !self.talks && self.silent % FRAMES_BETWEEN_SILENT_PACKETS != 1 {
            return Ok(None);
        }
        let bitrate = if self.talks { allowance.bitrate } else { Bitrate::ZERO };
        let captured = Timestamp::from_nanos(now.as_nanos().saturating_sub(FRAME_DURATION.as_nanos() as u64));
        Ok(Some(SoundPacket { frame, captured, payload: bitrate.bytes_in(FRAME_DURATION).into() }))
    }
}

/// Decoder that returns silence for every packet.
#[derive(Debug, Clone, Copy)]
struct ModelledListener;

const NOTHING: Frame = [0; FRAME_SAMPLES];

impl Decode for ModelledListener {
    type Payload = Length;

    fn is_silence(payload: &Length) -> bool {
        payload.0 == 0
    }

    fn decode(&mut self, _: &Length) -> Option<Frame> {
        Some(NOTHING)
    }

    fn recover(&mut self, next: &Length) -> Option<Frame> {
        (next.0 > 0).then_some(NOTHING)
    }

    fn conceal(&mut self) -> Frame {
        NOTHING
    }
}
