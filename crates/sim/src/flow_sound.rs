//! Sound of a simulated call: capture, playback and lip sync in virtual time.

use lockstep_call::{CallSound, Codec, Display, LipSync, ReceivingEnd, SendingEnd, SoundScores};
use lockstep_sound::{CodingError, FRAME_DURATION};
use lockstep_units::Timestamp;

/// Offset of playback from capture: half a frame, because loudspeakers and microphones are not synchronized.
const PLAYBACK_OFFSET: std::time::Duration = std::time::Duration::from_millis(10);

/// Both ends of a call's sound, with the times of the next capture and playback.
pub(crate) struct FlowSound<C: Codec> {
    sound: CallSound<C::Payload>,
    sync: LipSync<C>,
    speaks_at: Option<Timestamp>,
    plays_at: Timestamp,
    /// Time at which capture ends.
    until: Timestamp,
}

impl<C: Codec> FlowSound<C> {
    /// Sound captured from `start` until `until`.
    pub(crate) fn new(sound: CallSound<C::Payload>, start: Timestamp, until: Timestamp) -> Self {
        let sync = LipSync::new(sound.lip_sync);
        Self { sound, sync, speaks_at: Some(start + FRAME_DURATION), plays_at: start + PLAYBACK_OFFSET, until }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        Timestamp::earliest([self.speaks_at, Some(self.plays_at), self.sync.poll_timeout()])
    }

    /// Captures and plays the frames that are due.
    pub(crate) fn handle_due_events(&mut self, now: Timestamp, sender: &mut SendingEnd<C>) -> Result<(), CodingError> {
        if let Some(at) = self.speaks_at.filter(|&at| at <= now) {
            if let Some(packet) = self.sound.voice.next_packet(now, &sender.sound_allowance(now))? {
                // Frame numbers rise and no frame exceeds a datagram, so sending cannot fail.
                _ = sender.send_sound(now, packet);
            }
            self.speaks_at = Some(at + FRAME_DURATION).filter(|&next| next <= self.until);
        }
        if self.plays_at <= now {
            if let Some(delay) = self.sync.min_sound_delay() {
                self.sound.playback.set_min_delay(delay);
            }
            self.sound.playback.play(now)?;
            self.sync.on_playback(now, self.sound.playback.playing_captured_at());
            self.plays_at += FRAME_DURATION;
        }
        Ok(())
    }

    /// Passes received packets to playback.
    pub(crate) fn take(&mut self, now: Timestamp, receiver: &mut ReceivingEnd<C>) {
        while let Some(packet) = receiver.poll_sound() {
            self.sound.playback.insert(now, packet);
        }
    }

    /// Adds a picture that is ready for display.
    pub(crate) fn hold(&mut self, now: Timestamp, display: Display<C>) {
        self.sync.push(now, display);
    }

    /// Next picture to display.
    pub(crate) fn poll_display(&mut self, now: Timestamp) -> Option<Display<C>> {
        self.sync.poll(now)
    }

    pub(crate) fn scores(&mut self) -> SoundScores {
        SoundScores { lip_sync_error_ms: self.sync.errors(), ..self.sound.playback.scores(None) }
    }
}
