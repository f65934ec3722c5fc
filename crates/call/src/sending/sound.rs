//! Sound at the sending end, and what it leaves for pictures.

use std::time::Duration;

use lockstep_control::Input;
use lockstep_transport::{SendError, SoundPacket};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::SendingEnd;
use crate::codec::Codec;
use crate::narrow::NarrowWay;
use crate::sound::SoundAllowance;

impl<C: Codec> SendingEnd<C> {
    /// Sends 20 ms of sound, before any picture that waits to leave.
    ///
    /// # Errors
    /// [`SendError::Sound`] for a packet that is too long, or not newer than those before.
    pub fn send_sound(&mut self, now: Timestamp, packet: SoundPacket<C::Payload>) -> Result<(), SendError> {
        self.transport.send_sound(now, packet)
    }

    /// What sound is to know of the path, and has its packets leave as that calls for: to be asked before or after each.
    #[must_use]
    pub fn sound_allowance(&mut self, now: Timestamp) -> SoundAllowance {
        let plan = self.narrow.plan(now, self.budget(now).target);
        self.transport.set_sound_bundle(plan.frames);
        self.hold_sound(now);
        SoundAllowance { bitrate: plan.bitrate, loss: self.path.loss().share() }
    }

    /// Has sound wait where a narrow path has enough to carry: to be asked whenever something left, arrived or was lost.
    #[inline]
    pub(super) fn hold_sound(&mut self, now: Timestamp) {
        if let Some(narrow) = self.narrow_way() {
            let held = narrow.must_hold(now, self.transport.in_flight());
            self.transport.hold_sound(now, held);
        }
    }

    /// What is special of a path that carries little, which matters only where there is sound.
    #[inline]
    pub(super) fn narrow_way(&self) -> Option<&NarrowWay> {
        self.sound.as_ref().map(|_| &self.narrow)
    }

    /// Whether sound flows.
    pub(super) fn talks(&self, now: Timestamp) -> bool {
        self.sound.as_ref().is_some_and(|sound| sound.bitrate(now) > Bitrate::ZERO)
    }

    /// The application sent a message of `size` bytes on the wire to the same receiver. Pictures get that much less.
    pub fn on_message(&mut self, now: Timestamp, size: ByteCount) {
        self.messages.on_transmit(now, size);
        self.path.on_sound(now, size);
        self.controller.handle(&self.path.view(now), Input::Sent(size));
        self.on_ceiling(now, size);
    }

    /// The part of `target` that sound and messages leave for pictures.
    pub(super) fn left_for_pictures(&self, now: Timestamp, target: Bitrate) -> Bitrate {
        let taken = self.sound.as_ref().map_or(Bitrate::ZERO, |sound| sound.bitrate(now));
        target.saturating_sub(taken).saturating_sub(self.messages.bitrate(now))
    }

    /// Whether pictures wait for now, because there is sound and the path carries so little.
    pub(super) fn pictures_wait(&mut self, now: Timestamp) -> bool {
        self.sound.is_some() && self.narrow.must_wait(now, self.talks(now), self.in_flight())
    }

    /// Cuts frames from now on as small as the path takes, and as words that leave between two fragments call for.
    pub(super) fn fit_payload(&mut self) {
        let most = self.narrow_way().and_then(NarrowWay::most_payload);
        self.payload = most.map_or(self.path_payload, |most| most.min(self.path_payload));
        self.transport.set_payload(usize::try_from(self.payload.get()).unwrap_or(usize::MAX));
    }

    /// For how long after a fragment of a picture the next is to wait, because there is sound and the path carries so little.
    pub(super) fn narrow_pause(&self, now: Timestamp) -> Duration {
        let pause = |narrow: &NarrowWay| narrow.least_pause(self.payload, self.talks(now), self.transport.in_flight());
        self.narrow_way().map_or(Duration::ZERO, pause)
    }

    /// Feedback on what the other end sends left this end, which took so many bytes of the link.
    pub fn feedback_left(&mut self, now: Timestamp, carried: ByteCount) {
        self.controller.handle(&self.path.view(now), Input::FeedbackSent(carried));
    }

    /// Whether the path seems to carry so little that this end is to acknowledge as seldom as there is: what its own
    /// pictures and words meet, its acknowledgements meet too, and of those it hears later that they queue.
    #[must_use]
    pub fn is_way_narrow(&self, now: Timestamp) -> bool {
        self.narrow_way().is_some_and(|narrow| narrow.thins_feedback(now))
    }
}
