//! Sound and messages of the sending end, and the rest of the rate for pictures.

use std::time::Duration;

use lockstep_control::Input;
use lockstep_transport::{SendError, SoundPacket};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::SendingEnd;
use crate::codec::Codec;
use crate::narrow::NarrowPathShares;
use crate::sound::SoundAllowance;

impl<C: Codec> SendingEnd<C> {
    /// Sends 20 ms of sound, before any waiting picture.
    ///
    /// # Errors
    /// [`SendError::Sound`] for a packet that is too long, or not newer than the earlier ones.
    pub fn send_sound(&mut self, now: Timestamp, packet: SoundPacket<C::Payload>) -> Result<(), SendError> {
        self.transport.send_sound(now, packet)
    }

    /// The rate and loss for sound. Also adapts the bundling of its packets. To be called for each packet.
    #[must_use]
    pub fn sound_allowance(&mut self, now: Timestamp) -> SoundAllowance {
        let plan = self.narrow.plan(now, self.budget(now).target);
        self.transport.set_sound_bundle(plan.frames);
        self.hold_sound(now);
        SoundAllowance { bitrate: plan.bitrate, loss: self.path.loss().share() }
    }

    /// Holds sound while a narrow path has enough in flight. To be called after each departure, arrival and loss.
    #[inline]
    pub(super) fn hold_sound(&mut self, now: Timestamp) {
        if let Some(narrow) = self.narrow_path_shares() {
            let held = narrow.must_hold(now, self.transport.in_flight());
            self.transport.hold_sound(now, held);
        }
    }

    /// The narrow-path mode, which applies only with sound.
    #[inline]
    pub(super) fn narrow_path_shares(&self) -> Option<&NarrowPathShares> {
        self.sound.as_ref().map(|_| &self.narrow)
    }

    /// Whether sound is being sent.
    pub(super) fn talks(&self, now: Timestamp) -> bool {
        self.sound.as_ref().is_some_and(|sound| sound.bitrate(now) > Bitrate::ZERO)
    }

    /// Records a message of the application of `size` bytes on the wire to the same receiver. It reduces the budget of
    /// pictures.
    pub fn on_message(&mut self, now: Timestamp, size: ByteCount) {
        self.messages.on_transmit(now, size);
        self.path.on_sound(now, size);
        self.controller.handle(&self.path.view(now), Input::Sent(size));
        self.on_ceiling(now, size);
    }

    /// The part of `target` that sound and messages leave for pictures.
    pub(super) fn rate_for_pictures(&self, now: Timestamp, target: Bitrate) -> Bitrate {
        let taken = self.sound.as_ref().map_or(Bitrate::ZERO, |sound| sound.bitrate(now));
        target.saturating_sub(taken).saturating_sub(self.messages.bitrate(now))
    }

    /// Whether pictures must wait now, because of sound on a narrow path.
    pub(super) fn pictures_wait(&mut self, now: Timestamp) -> bool {
        self.sound.is_some() && self.narrow.must_wait(now, self.talks(now), self.in_flight())
    }

    /// Sets the payload of new frames to the maximum of the path. It is lower if words would wait long between
    /// fragments.
    pub(super) fn fit_payload(&mut self) {
        let most = self.narrow_path_shares().and_then(NarrowPathShares::max_payload);
        self.payload = most.map_or(self.path_payload, |most| most.min(self.path_payload));
        self.transport.set_payload(usize::try_from(self.payload.get()).unwrap_or(usize::MAX));
    }

    /// Minimum pause after a fragment of a picture, because of sound on a narrow path.
    pub(super) fn narrow_pause(&self, now: Timestamp) -> Duration {
        let pause =
            |narrow: &NarrowPathShares| narrow.min_pause(self.payload, self.talks(now), self.transport.in_flight());
        self.narrow_path_shares().map_or(Duration::ZERO, pause)
    }

    /// Records that feedback for the other end's media was sent, with `carried` link bytes.
    pub fn feedback_left(&mut self, now: Timestamp, carried: ByteCount) {
        self.controller.handle(&self.path.view(now), Input::FeedbackSent(carried));
    }

    /// Whether the path may be so narrow that this end must acknowledge at its lowest rate. Its acknowledgements wait
    /// in the same queue as its pictures and words, but that queue shows in them only later.
    #[must_use]
    pub fn is_path_narrow(&self, now: Timestamp) -> bool {
        self.narrow_path_shares().is_some_and(|narrow| narrow.thins_feedback(now))
    }
}
