//! What the next frame may have: what the controller allows, bounded by what the path was seen to carry and by what pictures
//! gain by, less what sound, headers and parity take.

use std::time::Duration;

use lockstep_control::{Allowance, Bounded, InFlight, Protection};
use lockstep_transport::Recovery;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::SendingEnd;
use crate::codec::Codec;

impl<C: Codec> SendingEnd<C> {
    pub(super) fn in_flight(&self) -> InFlight {
        InFlight::of(&self.transport, self.payload)
    }

    pub(super) fn allowance(&self, now: Timestamp) -> Allowance {
        self.bounded(now).allowance
    }

    /// What a frame may have, of itself and if it came out larger.
    pub(super) fn bounded(&self, now: Timestamp) -> Bounded {
        let in_flight = self.in_flight();
        let allowance = self.controller.allowance(now, in_flight);
        let moving = in_flight.bytes.saturating_sub(allowance.behind_cross_traffic);
        let moving = InFlight { bytes: moving, ..in_flight };
        let allowance =
            if self.controller.traits().is_bounded { self.bound.limit(now, moving, allowance) } else { allowance };
        let bounded = self.bound.below_ceiling(now, moving, allowance);
        let limited = self.narrow_way().map_or(bounded, |narrow| narrow.limit(bounded));
        let Bounded { allowance, affordable } = limited;
        // What will be said until the next picture goes before it.
        let sound = self.sound.as_ref().map_or(Bitrate::ZERO, |sound| sound.bitrate(now));
        let sound = sound.bytes_in(self.frame_interval);
        let protection = self.protection();
        let left = |budget: ByteCount| protection.frame_within(budget.saturating_sub(sound));
        Bounded { allowance: Allowance { budget: left(allowance.budget), ..allowance }, affordable: left(affordable) }
    }

    /// How many frames are not shown if one is lost on which others are built: itself and those of a round trip.
    pub(super) fn round_trip_frames(&self) -> f64 {
        let round_trip = self.transport.round_trip_time().map_or(Duration::ZERO, |time| time.smoothed);
        1.0 + round_trip.as_secs_f64() / self.frame_interval.as_secs_f64().max(1e-6)
    }

    /// What parity frames have. Where lost fragments are sent again there is none, nor is there in what is sent into silence.
    pub(super) fn protection(&self) -> Protection {
        if self.recovery == Recovery::Retransmit || self.silent {
            return Protection::none(self.payload);
        }
        let at_stake = if self.chained { self.round_trip_frames() } else { 1.0 };
        Protection { loss_rate: *self.bound.loss_rate(), at_stake, payload: self.payload }
    }

    /// The budget that is to be expected when a job of `time` will be done: what the path bears out now and what it drains
    /// meanwhile, and no more than the ceiling will then let through.
    pub(super) fn expected_budget(&self, now: Timestamp, bounded: &Bounded, time: Duration) -> ByteCount {
        let path_rate = bounded.allowance.capacity.unwrap_or(bounded.allowance.target);
        let silent = self.controller.traits().is_bounded && self.bound.is_silent(now);
        // Of a path that is not heard of nothing is known to drain.
        let path_rate = if silent { Bitrate::ZERO } else { path_rate };
        let in_flight = self.in_flight();
        let borne_out = bounded.affordable + path_rate.bytes_in(time).min(in_flight.bytes);
        let ceiling = self.bound.most_below_ceiling(now + time, in_flight);
        self.protection().frame_within(ceiling.map_or(borne_out, |most| most.min(borne_out)))
    }
}
