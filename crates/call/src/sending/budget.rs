//! Budget of the next frame: the controller's allowance, narrowed by the list of limits.

use std::time::Duration;

use lockstep_control::{
    Allowance, Budget, Ceiling, Delivered, Gross, InFlight, Limit, LimitedBy, Net, Protection, ShortQueueLimit,
    SilenceLimit, is_binding, narrow,
};
use lockstep_transport::Recovery;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::SendingEnd;
use crate::codec::Codec;
use crate::narrow::NarrowPathShares;
use crate::screen::SharpBudget;
use crate::sound::Share;

/// Budget of the next frame after all limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameBudget {
    /// The controller's own budget.
    pub allowed: ByteCount,
    /// Bytes for which it is coded.
    pub frame: Net,
    /// Largest frame that may be sent if it exceeds `frame`. It ignores the ceiling.
    pub affordable: Net,
    /// Bit rate for a codec that follows a target.
    pub target: Bitrate,
    /// The controller's pacing interval.
    pub pacing_interval: Duration,
    /// The binding limit; none if no limit cuts the controller's allowance.
    pub limited_by: Option<LimitedBy>,
}

/// Limits at one moment.
struct Limits<'a> {
    /// Whether the limits by path apply.
    is_bounded: bool,
    delivered: Delivered,
    silence: SilenceLimit,
    ceiling: Option<&'a Ceiling>,
    narrow_path: Option<&'a NarrowPathShares>,
    sound: Share,
    messages: Share,
}

impl Limits<'_> {
    /// The limits that apply, in their order. Parity comes last, in [`Protection`].
    fn list(&self) -> impl Iterator<Item = &dyn Limit> {
        let by_path: [&dyn Limit; 3] = [&self.delivered, &self.silence, &ShortQueueLimit];
        let [delivered, silence, short_queue] = by_path.map(|limit| self.is_bounded.then_some(limit));
        let ceiling = self.ceiling.map(|ceiling| ceiling as &dyn Limit);
        let narrow_path = self.narrow_path.map(|narrow| narrow as &dyn Limit);
        let [sound, messages] = [&self.sound, &self.messages].map(|share| Some(share as &dyn Limit));
        let list = [delivered, silence, short_queue, ceiling, narrow_path, sound, messages];
        list.into_iter().flatten()
    }
}

impl<C: Codec> SendingEnd<C> {
    pub(super) fn in_flight(&self) -> InFlight {
        InFlight::of(&self.transport, self.payload)
    }

    /// The controller's allowance at `now`, the narrowed budget, and the binding limit.
    fn narrowed(&self, now: Timestamp) -> (Allowance, Budget, Option<LimitedBy>) {
        let in_flight = self.in_flight();
        let allowance = self.controller.allowance(&self.path.view(now), in_flight);
        let (budget, binding) = self.within_limits(now, Budget::of(&allowance, in_flight));
        (allowance, budget, binding)
    }

    /// `budget`, narrowed by the limits, and the binding one.
    fn within_limits(&self, now: Timestamp, budget: Budget) -> (Budget, Option<LimitedBy>) {
        // Sound until the next picture leaves before that picture.
        let sound = self.sound.as_ref().map_or(Bitrate::ZERO, |sound| sound.bitrate(now));
        let limits = Limits {
            is_bounded: self.traits().is_bounded,
            delivered: Delivered(self.tuning.control.delivered),
            silence: SilenceLimit { payload: self.path_payload },
            ceiling: self.ceiling.as_ref(),
            narrow_path: self.narrow_path_shares(),
            sound: Share { kind: LimitedBy::Sound, bytes: sound.bytes_in(self.frame_interval) },
            messages: Share {
                kind: LimitedBy::Messages,
                bytes: self.messages.bitrate(now).bytes_in(self.frame_interval),
            },
        };
        narrow(&self.path.view(now), budget, limits.list())
    }

    /// Budget of a screen's frame with sharp text at `now`; none for cameras, as published, and without feedback.
    pub(super) fn sharp_budget(&self, now: Timestamp) -> Option<SharpBudget> {
        let path = self.path.view(now);
        if !self.is_screen || self.is_as_published || path.is_silent || path.is_restarting {
            return None;
        }
        let (_, budget, _) = self.narrowed(now);
        let sharp = SharpBudget::new(self.tuning.screen, budget.target, budget.in_flight.bytes);
        let gross = Gross(sharp.most);
        let (budget, _) = self.within_limits(now, Budget { frame: gross, affordable: gross, ..budget });
        Some(SharpBudget { most: self.protection().frame_within(budget.frame).0, ..sharp })
    }

    /// The target at `now`, and the controller's estimate of the path's capacity, or the target without an estimate.
    pub(super) fn rates(&self, now: Timestamp) -> (Bitrate, Bitrate) {
        let (allowance, budget, _) = self.narrowed(now);
        (budget.target, allowance.capacity.unwrap_or(budget.target))
    }

    /// Budget of the next frame at `now`.
    pub(super) fn budget(&self, now: Timestamp) -> FrameBudget {
        let (allowance, budget, binding) = self.narrowed(now);
        let protection = self.protection();
        let frame = protection.frame_within(budget.frame);
        let is_same = budget.affordable == budget.frame;
        let is_parity = is_binding(LimitedBy::Parity, budget.frame.0, frame.0);
        FrameBudget {
            allowed: allowance.budget,
            frame,
            affordable: if is_same { frame } else { protection.frame_within(budget.affordable) },
            target: budget.target,
            pacing_interval: allowance.pacing_interval,
            limited_by: if is_parity { Some(LimitedBy::Parity) } else { binding },
        }
    }

    /// The limit that binds a frame with this budget: the binding one, else the controller. The controller's deadline
    /// binds if bytes in flight take more than half of its idle budget. Otherwise its link estimate binds.
    pub(super) fn limited_by(&self, now: Timestamp, budget: &FrameBudget) -> LimitedBy {
        budget.limited_by.unwrap_or_else(|| {
            let idle = self.controller.allowance(&self.path.view(now), InFlight::default()).budget;
            if 2 * budget.allowed.get() < idle.get() { LimitedBy::Deadline } else { LimitedBy::LinkEstimate }
        })
    }

    /// Number of frames that are not shown if a reference frame is lost: itself and those of a round trip.
    pub(super) fn round_trip_frames(&self) -> f64 {
        let round_trip = self.transport.round_trip_time().map_or(Duration::ZERO, |time| time.smoothed);
        1.0 + round_trip.as_secs_f64() / self.frame_interval.as_secs_f64().max(1e-6)
    }

    /// Parity of frames. There is none with retransmission, as published, or while the path is silent.
    pub(super) fn protection(&self) -> Protection {
        if self.recovery == Recovery::Retransmit || self.is_as_published || self.silent {
            return Protection::none(self.payload);
        }
        let at_stake = if self.chain.is_whole { self.round_trip_frames() } else { 1.0 };
        Protection { loss_rate: *self.path.loss(), at_stake, payload: self.payload }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use lockstep_control::{Algorithm, ControllerSetup};
    use lockstep_media::{FrameRate, GeneratedClip, VideoFormat};
    use lockstep_transport::{LostFragment, SenderConfig, StateId};
    use lockstep_vp8::Parameters;

    use super::*;
    use crate::{
        Candidate, CodecTraits, EncodeJob, FrameEncoder, FrameRequest, FrameStart, FunctionalEncoder, Menu, MenuMode,
        SerialMenu, Tuning, announced,
    };

    /// Encoder that records the requested budgets of first and later passes.
    struct Recording {
        encoder: FunctionalEncoder,
        budgets: Arc<Mutex<Vec<ByteCount>>>,
    }

    impl FrameEncoder for Recording {
        fn codec(&self) -> CodecTraits {
            self.encoder.codec()
        }

        fn recovery(&self) -> Recovery {
            self.encoder.recovery()
        }

        fn begin(&mut self, request: &FrameRequest<'_>) -> Option<FrameStart> {
            self.budgets.lock().expect("no thread panicked").push(request.budget);
            self.encoder.begin(request)
        }

        fn choose(&self, menu: &Menu, budget: ByteCount, anyway: bool) -> Option<usize> {
            self.encoder.choose(menu, budget, anyway)
        }

        fn refine(&mut self, menu: Menu, budget: ByteCount) -> Result<EncodeJob, Menu> {
            self.encoder.refine(menu, budget)
        }

        fn commit(&mut self, menu: Menu, choice: Option<usize>) -> Option<(StateId, Candidate)> {
            self.encoder.commit(menu, choice)
        }

        fn forget(&mut self, state: StateId) {
            self.encoder.forget(state);
        }

        fn held_states(&self) -> usize {
            self.encoder.held_states()
        }
    }

    fn format() -> VideoFormat {
        VideoFormat { width: 64, height: 48, frame_rate: FrameRate::new(30, 1).expect("a valid frame rate") }
    }

    /// A sending end that has sent nothing over a path with 10 % loss, and its requested budgets.
    fn end_on_a_lossy_path(now: Timestamp) -> (SendingEnd, Arc<Mutex<Vec<ByteCount>>>) {
        let (payload, interval, tuning) = (ByteCount::new(1_200), Duration::from_millis(33), Tuning::default());
        let encoder = FunctionalEncoder::new(Parameters::default(), MenuMode::default(), &tuning);
        let budgets = Arc::<Mutex<_>>::default();
        let encoder = Box::new(Recording { encoder, budgets: Arc::clone(&budgets) });
        let controller =
            Algorithm::Sprout.controller(&ControllerSetup::new(payload, interval)).expect("no known path needed");
        let mut end = SendingEnd::new(SenderConfig::new(1, announced(&format())), controller, encoder, &tuning);
        let lost = LostFragment { frame: 0, fragment: 0, size: payload, sent_at: now };
        end.path.on_loss(now, &[lost; 42]);
        assert!((0.09..0.11).contains(&end.path.loss().share()));
        (end, budgets)
    }

    #[test]
    fn frames_are_coded_for_their_budget_behind_others_in_flight() {
        let (mut end, requested) = end_on_a_lossy_path(Timestamp::from_millis(100));
        let clip = GeneratedClip::new(format(), 1).expect("a valid clip size");
        let mut budgets = Vec::new();
        for number in 0..4 {
            let now = Timestamp::from_millis(100 + 33 * number);
            end.capture(now, now, clip.picture(number));
            let mut job = end.poll_encode(now);
            let budget = end.budget(now);
            budgets.push(budget.frame.0);
            while let Some(next) = job {
                end.encoded(now + Duration::from_millis(20), next.run(&SerialMenu));
                job = end.poll_encode(now + Duration::from_millis(20));
            }
            while end.poll_transmit(now + Duration::from_millis(32)).is_some() {}
        }
        assert!(end.in_flight().bytes > ByteCount::ZERO);
        assert_eq!(*requested.lock().expect("no thread panicked"), budgets);
    }

    #[test]
    fn limits_apply_in_the_order_of_their_list() {
        let payload = ByteCount::new(1_200);
        let tuning = Tuning::default();
        let ceiling = Ceiling::new(Bitrate::from_kbps(1_000), payload, Duration::from_millis(33), &tuning.control);
        let narrow = NarrowPathShares::new(&tuning);
        let mut limits = Limits {
            is_bounded: true,
            delivered: Delivered::default(),
            silence: SilenceLimit { payload },
            ceiling: Some(&ceiling),
            narrow_path: Some(&narrow),
            sound: Share { kind: LimitedBy::Sound, bytes: payload },
            messages: Share { kind: LimitedBy::Messages, bytes: payload },
        };
        let kinds = |limits: &Limits<'_>| limits.list().map(Limit::kind).collect::<Vec<_>>();
        let first = LimitedBy::ALL.iter().position(|&kind| kind == LimitedBy::Delivered).expect("one of all");
        let parity = LimitedBy::ALL.iter().position(|&kind| kind == LimitedBy::Parity).expect("one of all");
        assert_eq!(kinds(&limits), LimitedBy::ALL[first..parity]);
        (limits.is_bounded, limits.ceiling, limits.narrow_path) = (false, None, None);
        assert_eq!(kinds(&limits), [LimitedBy::Sound, LimitedBy::Messages]);
    }
}
