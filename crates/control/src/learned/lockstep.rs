//! Lockstep's own: Sprout's filter and forecast, and a learned policy that says how far to go by them for the next frame.
//!
//! Sprout ([`Sprout`]) knows what the path will carry at least, and its rule of how much of it a frame may take was found by
//! a search over constants. Here that rule is the beginning: for each picture a policy sees what the filter makes of the
//! path and what lately arrived ([`OBSERVATIONS`]), and says by what factor the frame may be larger or smaller than Sprout
//! would have it, and how much it may have where Sprout would give none ([`Decision`]). A policy that has learned nothing
//! decides [`Decision::default`], which is Sprout to the byte; and so does the controller itself where others compete for
//! the path and a window is held, which the policy has not seen in training. That learning begins at a clone of the
//! heuristic is from Merlin and Loki; that a net corrects a controller and does not replace it, residual policy learning.
//!
//! | constant | value | why |
//! |---|---|---|
//! | factor | e^-2 to e^1.2 | a frame of less than an eighth is no picture; three times as much is what a burst can prove |
//! | extra | up to one frame interval of the mean rate | so that a full queue alone does not skip a picture |
//! | averages | 0.1, 0.4, 1.6 and 6.4 s | from a few frames to as long as cells keep their rates |

use std::sync::Arc;
use std::time::Duration;

use libm::{exp, log, log1p};
use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::{Model, ModelError};
use crate::base_delay::BaseDelay;
use crate::sprout::Outlook;
use crate::{Allowance, Controller, InFlight, Latency, Setting, Sprout};

/// How many values a policy sees.
pub const OBSERVED: usize = 32;
/// How many values make a decision.
pub const DECIDED: usize = 2;

/// What the values are that a policy sees, in their order. Rates are logarithms of ratios to Sprout's mean rate, times
/// `ln(1 + t / 20 ms)`, everything within -4 to 4.
pub const OBSERVATIONS: [&str; OBSERVED] = [
    "mean rate, ln(rate / 150 kB/s) / 2",
    "cautious rate / mean rate, ln",
    "path's rate by bursts / mean rate, ln",
    "time over which deliveries scatter",
    "time that the link is kept by what is on the way",
    "tolerated delay",
    "wait for what is not the sender's own",
    "what Sprout allows / mean rate in a frame interval, ln(ratio + 0.05)",
    "shortest round trip",
    "last round trip - shortest",
    "time since feedback",
    "bytes on the way / mean rate in a round trip, ln(1 + ratio)",
    "frame interval",
    "1 where a window is held beside others",
    "age of the call, exp(-age / 2 s)",
    "room in the tolerated delay, share",
    "arrival rate over 0.1 s / mean rate, ln(ratio + 0.05)",
    "the same over 0.4 s",
    "the same over 1.6 s",
    "the same over 6.4 s",
    "wait in the queue over 0.1 s",
    "the same over 0.4 s",
    "the same over 1.6 s",
    "the same over 6.4 s",
    "wait of the packet that arrived last",
    "longest wait of a packet since the decision before",
    "share lost over 0.4 s",
    "share lost over 6.4 s",
    "sending rate over 0.1 s / mean rate, ln(ratio + 0.05)",
    "the same over 0.4 s",
    "weight of delay: ln 2 for low latency, 0 for balanced, -ln 2 for quality",
    "the factor of the decision before, ln",
];

const AVERAGES: [f64; 4] = [0.1, 0.4, 1.6, 6.4];
const BASE_MEMORY: Duration = Duration::from_secs(10);
/// Bounds of the factor, natural logarithm, and of what is added, frame intervals at the mean rate.
const SCALE: (f32, f32) = (-2.0, 1.2);
const EXTRA: (f32, f32) = (0.0, 1.0);

/// How far a frame goes by Sprout's allowance.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Decision {
    /// Natural logarithm of the factor on Sprout's budget.
    pub scale: f32,
    /// What is added, in what the mean rate carries in a frame interval.
    pub extra: f32,
}

impl Decision {
    /// From the values that a policy gives, within bounds; Sprout's own where one is not finite.
    #[must_use]
    pub fn of(values: [f32; DECIDED]) -> Self {
        if values.iter().any(|value| !value.is_finite()) {
            return Self::default();
        }
        Self { scale: values[0].clamp(SCALE.0, SCALE.1), extra: values[1].clamp(EXTRA.0, EXTRA.1) }
    }
}

/// Whatever decides for a picture; the same values give the same decision, after the same history.
pub trait Policy: Send {
    /// What the next frame may have, by what is seen.
    fn decide(&mut self, seen: &[f32; OBSERVED]) -> Decision;
}

/// The policy in a model of the input [1, [`OBSERVED`]] and the output [1, [`DECIDED`]].
struct ModelPolicy(Arc<Model>);

impl ModelPolicy {
    fn new(model: Arc<Model>) -> Result<Self, ModelError> {
        let unfit = |text| Err(ModelError::Unfit(text));
        let (inputs, outputs) = (model.inputs(), model.outputs());
        match (inputs, outputs) {
            ([input], [output]) if input.shape == [1, OBSERVED] && output.shape == [1, DECIDED] => {}
            ([input], [output]) => {
                let (seen, decided) = (&input.shape, &output.shape);
                return unfit(format!("it makes {decided:?} of {seen:?}, not [1, {DECIDED}] of [1, {OBSERVED}]"));
            }
            _ => return unfit(format!("it has {} inputs and {} outputs, not one each", inputs.len(), outputs.len())),
        }
        Ok(Self(model))
    }
}

impl Policy for ModelPolicy {
    fn decide(&mut self, seen: &[f32; OBSERVED]) -> Decision {
        match self.0.run(&[seen]).ok().and_then(|outputs| outputs.into_iter().next()).as_deref() {
            Some(&[scale, extra]) => Decision::of([scale, extra]),
            _ => Decision::default(),
        }
    }
}

/// Sums since the last observation, and their averages over several times.
#[derive(Debug, Default)]
struct History {
    at: f64,
    arrived: f64,
    sent: f64,
    packets: f64,
    lost: f64,
    waited: f64,
    last_wait: f64,
    longest_wait: f64,
    arrival_rates: [f64; AVERAGES.len()],
    sending_rates: [f64; AVERAGES.len()],
    waits: [f64; AVERAGES.len()],
    losses: [f64; AVERAGES.len()],
}

impl History {
    /// Brings the averages up to `now` and begins new sums.
    fn advance(&mut self, now: f64) {
        let elapsed = now - self.at;
        if elapsed <= 0.0 {
            return;
        }
        let wait = if self.packets > 0.0 { self.waited / self.packets } else { self.last_wait };
        for (index, time) in AVERAGES.iter().enumerate() {
            let weight = 1.0 - exp(-elapsed / time);
            self.arrival_rates[index] += weight * (self.arrived / elapsed - self.arrival_rates[index]);
            self.sending_rates[index] += weight * (self.sent / elapsed - self.sending_rates[index]);
            self.waits[index] += weight * (wait - self.waits[index]);
            if self.packets + self.lost > 0.0 {
                let share = self.lost / (self.packets + self.lost);
                self.losses[index] += weight * (share - self.losses[index]);
            }
        }
        self.at = now;
        (self.arrived, self.sent, self.packets, self.lost, self.waited) = (0.0, 0.0, 0.0, 0.0, 0.0);
    }
}

/// Sprout under a policy.
pub struct Lockstep {
    sprout: Sprout,
    policy: Option<Box<dyn Policy>>,
    decision: Decision,
    decided_at: Option<Timestamp>,
    began_at: Option<f64>,
    heard_at: f64,
    history: History,
    base_delay: BaseDelay,
    frame_interval: f64,
    payload: ByteCount,
    delay_weight: f64,
}

impl Lockstep {
    /// A controller that decides by `policy`; without one, by what [`Lockstep::set_decision`] says.
    #[must_use]
    pub fn new(setting: &Setting, policy: Option<Box<dyn Policy>>) -> Self {
        Self {
            sprout: Sprout::new(setting),
            policy,
            decision: Decision::default(),
            decided_at: None,
            began_at: None,
            heard_at: 0.0,
            history: History::default(),
            base_delay: BaseDelay::new(BASE_MEMORY),
            frame_interval: setting.frame_interval.as_secs_f64(),
            payload: setting.payload,
            delay_weight: delay_weight(setting.latency),
        }
    }

    /// A controller that decides by what `model` says.
    ///
    /// # Errors
    /// If what goes into the model, or comes out of it, is something else.
    pub fn with_model(setting: &Setting, model: Arc<Model>) -> Result<Self, ModelError> {
        Ok(Self::new(setting, Some(Box::new(ModelPolicy::new(model)?))))
    }

    /// Decides for the pictures to come.
    pub fn set_decision(&mut self, decision: Decision) {
        self.decision = decision;
    }

    /// What a policy sees at `now`. To be asked once a picture: averages go from one to the next.
    pub fn observe(&mut self, now: Timestamp) -> [f32; OBSERVED] {
        let outlook = self.sprout.outlook(now);
        let allowed = self.sprout.allowance(now, InFlight { fragments: 1, ..InFlight::default() }).budget.as_f64();
        let at = now.as_secs_f64();
        let began_at = *self.began_at.get_or_insert(at);
        if self.history.at == 0.0 {
            self.history.at = began_at;
        }
        self.history.advance(at);
        let seen = self.values(&outlook, allowed, at, at - began_at);
        self.history.longest_wait = 0.0;
        seen.map(|value| value.clamp(-4.0, 4.0) as f32)
    }

    fn values(&self, outlook: &Outlook, allowed: f64, now: f64, age: f64) -> [f64; OBSERVED] {
        let History { arrival_rates: arrivals, sending_rates: sendings, waits, losses, .. } = &self.history;
        let mean = outlook.mean_rate.max(1.0);
        let ratio = |rate: f64| log(rate / mean + 0.05);
        let time = |seconds: f64| log1p(seconds.max(0.0) / 0.02);
        [
            log(mean / 150e3) / 2.0,
            log(outlook.cautious_rate.max(1.0) / mean),
            log(outlook.path_rate.max(1.0) / mean),
            time(outlook.scatter_time),
            time(outlook.wait),
            time(outlook.tolerated),
            time(outlook.outside),
            ratio(allowed / self.frame_interval),
            time(outlook.round_trip),
            time(outlook.last_round_trip - outlook.round_trip),
            time(now - self.heard_at),
            log1p(outlook.on_the_way / (mean * outlook.round_trip.max(1e-3))),
            time(self.frame_interval),
            f64::from(outlook.competes),
            exp(-age / 2.0),
            (1.0 - outlook.wait / outlook.tolerated.max(1e-3)).max(-1.0),
            ratio(arrivals[0]),
            ratio(arrivals[1]),
            ratio(arrivals[2]),
            ratio(arrivals[3]),
            time(waits[0]),
            time(waits[1]),
            time(waits[2]),
            time(waits[3]),
            time(self.history.last_wait),
            time(self.history.longest_wait),
            losses[1],
            losses[3],
            ratio(sendings[0]),
            ratio(sendings[1]),
            log(self.delay_weight),
            f64::from(self.decision.scale),
        ]
    }
}

/// How much more a delay counts than for [`Latency::Balanced`].
#[must_use]
pub fn delay_weight(latency: Latency) -> f64 {
    match latency {
        Latency::Low => 2.0,
        Latency::Balanced => 1.0,
        Latency::Quality => 0.5,
    }
}

impl Controller for Lockstep {
    fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.history.sent += size.as_f64();
        self.sprout.on_transmit(now, size);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        for arrival in &feedback.acknowledged {
            let (delay, shortest) = self.base_delay.update(arrival.sent_at, arrival.arrived_at);
            let wait = (delay - shortest) as f64 * 1e-9;
            self.history.arrived += arrival.size.as_f64();
            self.history.packets += 1.0;
            self.history.waited += wait;
            self.history.last_wait = wait;
            self.history.longest_wait = self.history.longest_wait.max(wait);
        }
        self.heard_at = now.as_secs_f64();
        self.sprout.on_feedback(now, feedback);
    }

    fn on_time(&mut self, now: Timestamp) {
        self.sprout.on_time(now);
        // Once a picture: asked again when it is coded, the same decision stands.
        let half = Duration::from_secs_f64(self.frame_interval / 2.0);
        if self.policy.is_none() || self.decided_at.is_some_and(|at| now.saturating_since(at) < half) {
            return;
        }
        self.decided_at = Some(now);
        let seen = self.observe(now);
        if let Some(policy) = &mut self.policy {
            self.decision = policy.decide(&seen);
        }
    }

    fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        self.history.lost += lost.len() as f64;
        self.sprout.on_loss(now, lost);
    }

    fn allowance(&self, now: Timestamp, in_flight: InFlight) -> Allowance {
        let allowance = self.sprout.allowance(now, in_flight);
        if self.decision == Decision::default() || self.sprout.competes() {
            return allowance;
        }
        let Decision { scale, extra } = self.decision;
        let carried = self.sprout.mean_rate() * self.frame_interval;
        let bytes = allowance.budget.as_f64() * exp(f64::from(scale)) + f64::from(extra) * carried;
        // A packet that is alone delays nothing, whatever is thought of it.
        let least = if in_flight.bytes == ByteCount::ZERO { self.payload } else { ByteCount::ZERO };
        Allowance {
            budget: ByteCount::new(bytes as u64).max(least),
            target: Bitrate::from_bps((allowance.target.as_bps() as f64 * exp(f64::from(scale))) as u64),
            ..allowance
        }
    }

    fn pacing_interval(&self, now: Timestamp, in_flight: InFlight) -> Duration {
        self.sprout.pacing_interval(now, in_flight)
    }

    fn estimate(&self) -> Option<Bitrate> {
        self.sprout.estimate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::{Plan, run, setting};
    use crate::learned::shipped::Shipped;

    #[test]
    fn a_policy_that_has_learned_nothing_is_sprout_to_the_byte() {
        struct Nothing;
        impl Policy for Nothing {
            fn decide(&mut self, _seen: &[f32; OBSERVED]) -> Decision {
                Decision::default()
            }
        }
        let plan = Plan::constant(1_000);
        let ours = run(&plan, &mut Lockstep::new(&setting(), Some(Box::new(Nothing))), None);
        let sprout = run(&plan, &mut Sprout::new(&setting()), None);
        assert_eq!(format!("{ours:?}"), format!("{sprout:?}"));
    }

    #[test]
    fn what_is_no_number_decides_as_sprout_does() {
        assert_eq!(Decision::of([f32::NAN, 0.5]), Decision::default());
        assert_eq!(Decision::of([0.1, f32::INFINITY]), Decision::default());
        assert_eq!(Decision::of([9.0, -9.0]), Decision { scale: SCALE.1, extra: EXTRA.0 });
    }

    #[test]
    fn the_policy_that_comes_with_it_fills_most_of_a_link_and_keeps_the_queue_short() {
        let mut controller = Lockstep::with_model(&setting(), Shipped::Lockstep.model().unwrap()).unwrap();
        let outcome = run(&Plan::constant(1_000), &mut controller, None);
        assert!((0.6..1.05).contains(&outcome.rate(5, 20).as_mbps()), "{outcome:?}");
        assert!(outcome.queueing_delay(5, 20, 0.5) < Duration::from_millis(80), "{outcome:?}");
    }

    #[test]
    fn the_same_feedback_gives_the_same_decisions() {
        let calls = [(), ()].map(|()| {
            let mut controller = Lockstep::with_model(&setting(), Shipped::Lockstep.model().unwrap()).unwrap();
            format!("{:?}", run(&Plan::step(2_500, 600, 20), &mut controller, None))
        });
        assert_eq!(calls[0], calls[1]);
    }

    #[test]
    fn a_model_for_something_else_is_refused() {
        let error = Lockstep::with_model(&setting(), Shipped::Concerto.model().unwrap()).err().unwrap();
        assert!(error.to_string().contains("not [1, 2]"), "{error}");
    }
}
