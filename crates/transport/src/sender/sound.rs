//! Sends sound.

use lockstep_units::{ByteCount, Timestamp};

use super::Sender;
use crate::loss::SentFragment;
use crate::payload::Payload;
use crate::sound::{Bundle, SOUND, SoundPacket};
use crate::wire::{Datagram, MAX_PAYLOAD, Sound};
use crate::{SendError, Transmit, TransmittedFragment};

impl<P: Payload> Sender<P> {
    /// Queues a sound packet. It leaves before any waiting fragment, regardless of the pace, and is not sent again. The
    /// queue holds one second of sound and drops the oldest packets beyond that.
    ///
    /// # Errors
    /// [`SendError::Sound`] for a packet that is too long or not newer than those before; the sender is then unchanged.
    pub fn send_sound(&mut self, now: Timestamp, mut packet: SoundPacket<P>) -> Result<(), SendError> {
        let (frame, length) = (packet.frame, packet.payload.length());
        packet.captured = packet.captured.min(now);
        if length > MAX_PAYLOAD || !self.sound.push(now, packet) {
            return Err(SendError::Sound { frame, length });
        }
        Ok(())
    }

    /// Sets the number of consecutive sound frames per datagram, 1 to [`MAX_BUNDLED_FRAMES`](crate::MAX_BUNDLED_FRAMES); initially
    /// 1. The first frame of a datagram waits for the last one.
    pub fn set_sound_bundle(&mut self, frames: usize) {
        self.sound.set_bundle(frames);
    }

    /// Sets whether sound is held back, because the path is full for a while. Held sound older than
    /// [`WaitingSoundConfig::longest_held`](crate::WaitingSoundConfig) is dropped.
    pub fn hold_sound(&mut self, now: Timestamp, held: bool) {
        self.sound.set_held(now, held);
    }

    pub(super) fn transmit_sound(&mut self, now: Timestamp, bundle: Bundle<P>) -> Transmit<P> {
        let Bundle { since, packet, further } = bundle;
        self.note_idle(now, since);
        let sequence = self.loss.next_sequence();
        let datagram = Datagram::Sound(Sound {
            connection: self.config.connection,
            sequence: sequence as u32,
            frame: packet.frame,
            sent_at: now,
            age: now.saturating_since(packet.captured),
            idle: self.idle.as_micros() as u32,
            payload: packet.payload,
            further,
        });
        self.transmitted_at = Some(now);
        let size = datagram.size();
        self.loss.transmitted(SentFragment { frame: packet.frame, fragment: SOUND, size, sent_at: now });
        self.statistics.sounds += 1;
        self.statistics.bytes += size.get();
        let fragment = Some(TransmittedFragment { payload: ByteCount::ZERO, retransmitted: false });
        Transmit { datagram, size, fragment }
    }
}
