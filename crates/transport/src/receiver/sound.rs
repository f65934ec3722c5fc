//! Receives sound.

use lockstep_units::{ByteCount, Timestamp};

use super::Receiver;
use super::arrivals::Stamp;
use crate::ReceiverEvent;
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::sound::{SOUND, SOUND_FRAME, SoundPacket};
use crate::wire::{SOUND_HEADER, Sound};

impl<P: Payload> Receiver<P> {
    pub(super) fn handle_sound(
        &mut self,
        now: Timestamp,
        sound: Sound<P>,
        congestion_experienced: bool,
    ) -> Result<(), Refusal> {
        let sequence = self.arrivals.sequence(sound.sequence).ok_or(Refusal::Absurd)?;
        if !self.sound.insert(sound.frame) {
            self.statistics.duplicates += 1;
            return Ok(());
        }
        let size = ByteCount::new((SOUND_HEADER + sound.length()) as u64);
        let Sound { frame, sent_at, age, idle, payload, further, .. } = sound;
        self.statistics.sounds += 1;
        let fragment = SOUND;
        let stamp = Stamp { sequence, sent_at, idle, frame, fragment, size, congestion_experienced };
        self.note_arrival(now, &stamp);
        self.acknowledging.on_arrival(now, &stamp);
        let captured = Timestamp::from_nanos(sent_at.as_nanos().saturating_sub(age.as_nanos() as u64));
        self.events.push_back(ReceiverEvent::Sound(SoundPacket { frame, captured, payload }));
        for (place, payload) in (1..).zip(further) {
            let Some(frame) = frame.checked_add(place).filter(|&frame| self.sound.insert(frame)) else { continue };
            let captured = captured + SOUND_FRAME * place;
            self.events.push_back(ReceiverEvent::Sound(SoundPacket { frame, captured, payload }));
        }
        Ok(())
    }

    /// Sets whether acknowledgements use the longest interval, because the owner knows that the reverse path has little
    /// capacity. The sender would detect the queue of acknowledgements later. A request of the sender for a longer
    /// interval still applies.
    pub fn thin_acknowledgements(&mut self, thin: bool) {
        self.acknowledging.set_thin(thin);
    }
}
