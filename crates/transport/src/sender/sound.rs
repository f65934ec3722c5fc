//! Sound that leaves beside the video.

use lockstep_units::{ByteCount, Timestamp};

use super::Sender;
use crate::loss::SentFragment;
use crate::payload::Payload;
use crate::sound::{Bundle, SOUND, SoundPacket};
use crate::wire::{Datagram, MAX_PAYLOAD, Sound};
use crate::{SendError, Transmit, TransmittedFragment};

impl<P: Payload> Sender<P> {
    /// Has a packet of sound leave before any fragment that waits, whatever the pace; it is not sent again. Of packets
    /// that cannot leave for a second only the newer ones do.
    ///
    /// # Errors
    /// [`SendError::Sound`] for one that is too long or not newer than those before; nothing has
    /// changed then.
    pub fn send_sound(&mut self, now: Timestamp, mut packet: SoundPacket<P>) -> Result<(), SendError> {
        let (frame, length) = (packet.frame, packet.payload.length());
        packet.captured = packet.captured.min(now);
        if length > MAX_PAYLOAD || !self.sound.push(now, packet) {
            return Err(SendError::Sound { frame, length });
        }
        Ok(())
    }

    /// So many frames of sound, 1 to [`MOST_BUNDLED`](crate::MOST_BUNDLED), leave in one datagram from now on, if they come
    /// one after another: the first waits until the last has come. 1 at first.
    pub fn set_sound_bundle(&mut self, frames: usize) {
        self.sound.set_bundle(frames);
    }

    /// Whether sound is held back from now on, because the path has as much to carry as it can for a while. Of what is
    /// held back the last 400 ms are kept: what is older is left out.
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
