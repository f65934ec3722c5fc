//! The sound of a call in virtual time.

use lockstep_call::{CallSound, Codec, Display, LipSync, ReceivingEnd, SendingEnd, SoundScores};
use lockstep_sound::{CodingError, FRAME_DURATION};
use lockstep_units::Timestamp;

/// Loudspeakers ask for their next frame at another moment than microphones give theirs: half a frame later.
const PLAYING_LAGS: std::time::Duration = std::time::Duration::from_millis(10);

/// Both ends of a call's sound, and when each is asked next.
pub(crate) struct FlowSound<C: Codec> {
    sound: CallSound<C::Payload>,
    sync: LipSync<C>,
    speaks_at: Option<Timestamp>,
    plays_at: Timestamp,
    /// Nothing is said from then on.
    until: Timestamp,
}

impl<C: Codec> FlowSound<C> {
    /// Sound from `start` until `until`.
    pub(crate) fn new(sound: CallSound<C::Payload>, start: Timestamp, until: Timestamp) -> Self {
        let sync = LipSync::new(sound.lip_sync);
        Self { sound, sync, speaks_at: Some(start + FRAME_DURATION), plays_at: start + PLAYING_LAGS, until }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        Timestamp::earliest([self.speaks_at, Some(self.plays_at), self.sync.poll_timeout()])
    }

    /// Says and plays what is due.
    pub(crate) fn do_what_is_due(&mut self, now: Timestamp, sender: &mut SendingEnd<C>) -> Result<(), CodingError> {
        if let Some(at) = self.speaks_at.filter(|&at| at <= now) {
            if let Some(packet) = self.sound.voice.speak(now, &sender.sound_allowance(now))? {
                // Its frames are numbered in order, and none is longer than a datagram: nothing is refused.
                _ = sender.send_sound(now, packet);
            }
            self.speaks_at = Some(at + FRAME_DURATION).filter(|&next| next <= self.until);
        }
        if self.plays_at <= now {
            if let Some(delay) = self.sync.least_sound_delay() {
                self.sound.playback.set_least_delay(delay);
            }
            self.sound.playback.play(now)?;
            self.sync.hear(now, self.sound.playback.heard());
            self.plays_at += FRAME_DURATION;
        }
        Ok(())
    }

    /// What came is to be played.
    pub(crate) fn take(&mut self, now: Timestamp, receiver: &mut ReceivingEnd<C>) {
        while let Some(packet) = receiver.poll_sound() {
            self.sound.playback.insert(now, packet);
        }
    }

    /// A picture that could be shown.
    pub(crate) fn hold(&mut self, now: Timestamp, display: Display<C>) {
        self.sync.push(now, display);
    }

    /// The picture that is to be shown.
    pub(crate) fn poll_display(&mut self, now: Timestamp) -> Option<Display<C>> {
        self.sync.poll(now)
    }

    pub(crate) fn scores(&mut self) -> SoundScores {
        SoundScores { lip_sync_error_ms: self.sync.errors(), ..self.sound.playback.scores(None) }
    }
}
