//! NADA, Network-Assisted Dynamic Adaptation (RFC 8698): delay and loss form one congestion signal, and the rate
//! follows it.
//!
//! Everything runs at the sender, which RFC 8698, section 5.3, allows. If queues mark packets (ECN), the share of
//! marked datagrams is part of the signal. [`crate::FlowGroup`] handles priorities among flows, as RFC 8699, section
//! 6.1, proposes. Therefore PRIO is constant.
//!
//! | constant | value | source |
//! |---|---|---|
//! | PRIO, XREF | 1, 10 ms | RFC 8698, table 2 |
//! | KAPPA, ETA, TAU | 0.5, 2, 500 ms | the same |
//! | DELTA | 100 ms | the same |
//! | LOGWIN | 500 ms | the same |
//! | QEPS, DFILT, GAMMA_MAX, QBOUND | 10 ms, 120 ms, 0.5, 50 ms | the same |
//! | MULTILOSS, QTH, LAMBDA | 7, 50 ms, 0.5 | the same |
//! | PLRREF, DLOSS | 0.01, 10 ms | the same |
//! | PMRREF, DMARK | 0.01, 2 ms | the same |
//! | highest signal | 500 ms | the authors' ns3-rmcat; without it, one queue overflow moves the rate from minimum to maximum |
//! | ALPHA | 0.1 | the same |
//! | FPS, BETA_S, BETA_V | 30, 0.1, 0.1 | the same |
//! | RMIN, RMAX | 150 kb/s, 1.5 Mb/s | the same |
//! | minimum filter | 15 samples | RFC 8698, section 5.1.1 |
//! | weights of loss intervals | 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2 | RFC 5348, section 5.4 |
//! | memory of the base delay | 2 min | not specified; clocks drift by some milliseconds, and a shorter window loses the empty path |
//!
//! RMAX has two meanings in the RFC: the application's highest rate, and the rate at which the equilibrium delay is
//! XREF. Here the first one is the upper bound of rates, far above the path's capacity. The second one keeps the RFC's
//! default. Otherwise a call at 1 Mb/s that could use 20 Mb/s would hold a queue of 200 ms.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::{AcknowledgedFragment, Feedback};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::base_delay::BaseDelay;
use crate::reported_loss::{Lost, ReportedLoss};
use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, PathView, RateBounds, TokenBucket, Traits};

const PRIORITY: f64 = 1.0;
const REFERENCE_SIGNAL_MS: f64 = 10.0;
const KAPPA: f64 = 0.5;
const ETA: f64 = 2.0;
const TAU_MS: f64 = 500.0;
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);
const OBSERVATION_WINDOW: Duration = Duration::from_millis(500);
const RAMP_UP_DELAY_MS: f64 = 10.0;
const FILTERING_DELAY_MS: f64 = 120.0;
const MAX_RAMP_UP: f64 = 0.5;
const RAMP_UP_QUEUE_MS: f64 = 50.0;
const LOSS_INTERVALS_MISSED: f64 = 7.0;
const WARPING_THRESHOLD_MS: f64 = 50.0;
const WARPING_EXPONENT: f64 = 0.5;
const REFERENCE_LOSS: f64 = 0.01;
const LOSS_PENALTY_MS: f64 = 10.0;
const REFERENCE_MARKING: f64 = 0.01;
const MARKING_PENALTY_MS: f64 = 2.0;
const MAX_SIGNAL_MS: f64 = 500.0;
const LOSS_SMOOTHING: f64 = 0.1;
const SHAPING_FRAMES: f64 = 30.0;
const SHAPING_WEIGHT: f64 = 0.1;
const MAX_SHAPING: f64 = 0.05;
const MIN_RATE: Bitrate = Bitrate::from_kbps(150);
const REFERENCE_RATE_BPS: f64 = 1_500_000.0;
const FILTER_SAMPLES: usize = 15;
const LOSS_INTERVAL_WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
const BASE_DELAY_MEMORY: Duration = Duration::from_secs(120);

/// Numbers of datagrams between losses.
#[derive(Debug, Default)]
struct LossIntervals {
    since: u64,
    newest_first: VecDeque<u64>,
}

impl LossIntervals {
    /// Losses in one feedback count as one event, like those of one round trip in RFC 5348.
    fn update(&mut self, lost: Lost) {
        self.since += lost.due;
        if lost.lost > 0 {
            self.newest_first.push_front(self.since);
            self.newest_first.truncate(LOSS_INTERVAL_WEIGHTS.len());
            self.since = 0;
        }
    }

    /// Whether the last loss is within the usual distance between losses.
    fn recent(&self) -> bool {
        let weighted = self.newest_first.iter().zip(LOSS_INTERVAL_WEIGHTS);
        let (sum, weights) =
            weighted.fold((0.0, 0.0), |(sum, weights), (&at, weight)| (sum + at as f64 * weight, weights + weight));
        weights > 0.0 && (self.since as f64) < LOSS_INTERVALS_MISSED * sum / weights
    }
}

/// Arrivals in the observation window.
#[derive(Debug)]
struct Observations {
    base_delay: BaseDelay,
    /// Newest queueing delays, whose minimum is the filter's output; milliseconds.
    filter: VecDeque<(Timestamp, f64)>,
    /// Arrival time, size, filtered queueing delay, and whether a queue marked the datagram.
    arrivals: VecDeque<(Timestamp, ByteCount, f64, bool)>,
}

impl Observations {
    fn on_arrival(&mut self, fragment: &AcknowledgedFragment) {
        let &AcknowledgedFragment { sent_at, arrived_at, size, congestion_experienced, .. } = fragment;
        let queueing_delay = self.base_delay.queueing_delay(sent_at, arrived_at).as_secs_f64() * 1e3;
        self.filter.push_back((arrived_at, queueing_delay));
        let too_old = |at: Timestamp| arrived_at.saturating_since(at).as_secs_f64() * 1e3 > FILTERING_DELAY_MS;
        while self.filter.len() > FILTER_SAMPLES || self.filter.front().is_some_and(|&(at, _)| too_old(at)) {
            self.filter.pop_front();
        }
        let filtered = self.filter.iter().map(|&(_, delay)| delay).fold(queueing_delay, f64::min);
        self.arrivals.push_back((arrived_at, size, filtered, congestion_experienced));
        while self.arrivals.front().is_some_and(|&(at, ..)| arrived_at.saturating_since(at) > OBSERVATION_WINDOW) {
            self.arrivals.pop_front();
        }
    }

    fn queueing_delay_ms(&self) -> Option<f64> {
        self.arrivals.back().map(|&(.., delay, _)| delay)
    }

    fn max_queueing_delay_ms(&self) -> f64 {
        self.arrivals.iter().map(|&(.., delay, _)| delay).fold(0.0, f64::max)
    }

    /// Share of marked datagrams (p_inst of RFC 8698, section 5.1.2).
    fn marked_share(&self) -> f64 {
        let marked = self.arrivals.iter().filter(|&&(.., marked)| marked).count();
        marked as f64 / self.arrivals.len().max(1) as f64
    }

    fn receive_rate_bps(&self) -> f64 {
        let bytes: ByteCount = self.arrivals.iter().map(|&(_, size, ..)| size).sum();
        bytes.as_f64() * 8.0 / OBSERVATION_WINDOW.as_secs_f64()
    }
}

/// NADA's sender.
#[derive(Debug)]
pub struct Nada {
    bounds: RateBounds,
    observations: Observations,
    loss: ReportedLoss,
    loss_intervals: LossIntervals,
    /// Losses in each feedback of the observation window.
    losses: VecDeque<(Timestamp, Lost)>,
    smoothed_loss: f64,
    smoothed_marking: f64,
    round_trip_ms: f64,
    last_signal_ms: f64,
    updated_at: Option<Timestamp>,
    rate_bps: f64,
    bucket: TokenBucket,
}

impl Nada {
    /// A sender before its first feedback.
    #[must_use]
    pub fn new(setup: &ControllerSetup) -> Self {
        Self {
            bounds: setup.bounds,
            observations: Observations {
                base_delay: BaseDelay::new(BASE_DELAY_MEMORY),
                filter: VecDeque::new(),
                arrivals: VecDeque::new(),
            },
            loss: ReportedLoss::default(),
            loss_intervals: LossIntervals::default(),
            losses: VecDeque::new(),
            smoothed_loss: 0.0,
            smoothed_marking: 0.0,
            round_trip_ms: 0.0,
            last_signal_ms: 0.0,
            updated_at: None,
            rate_bps: setup.bounds.initial.as_bps() as f64,
            bucket: TokenBucket::new(setup.payload, setup.frame_interval),
        }
    }

    fn rate(&self) -> Bitrate {
        Bitrate::from_bps(self.rate_bps.round() as u64)
    }

    /// The congestion signal (RFC 8698, section 4.2, equations 1 and 2).
    fn signal_ms(&self, queueing_delay_ms: f64) -> f64 {
        let over = queueing_delay_ms - WARPING_THRESHOLD_MS;
        let warped = if over > 0.0 && self.loss_intervals.recent() {
            WARPING_THRESHOLD_MS * libm::exp(-WARPING_EXPONENT * over / WARPING_THRESHOLD_MS)
        } else {
            queueing_delay_ms
        };
        let relative_loss = self.smoothed_loss / REFERENCE_LOSS;
        let relative_marking = self.smoothed_marking / REFERENCE_MARKING;
        let penalties =
            MARKING_PENALTY_MS * relative_marking * relative_marking + LOSS_PENALTY_MS * relative_loss * relative_loss;
        (warped + penalties).min(MAX_SIGNAL_MS)
    }

    /// Updates the rate (RFC 8698, section 4.3), `elapsed_ms` after the last update.
    fn update(&mut self, elapsed_ms: f64) {
        let window = self
            .losses
            .iter()
            .fold(Lost::default(), |sum, &(_, lost)| Lost { due: sum.due + lost.due, lost: sum.lost + lost.lost });
        self.smoothed_loss += LOSS_SMOOTHING * (window.share() - self.smoothed_loss);
        self.smoothed_marking += LOSS_SMOOTHING * (self.observations.marked_share() - self.smoothed_marking);
        let Some(queueing_delay_ms) = self.observations.queueing_delay_ms() else { return };
        let signal_ms = self.signal_ms(queueing_delay_ms);
        let previous_ms = std::mem::replace(&mut self.last_signal_ms, signal_ms);
        let rate = self.rate_bps;
        let rate = if window.lost == 0 && self.observations.max_queueing_delay_ms() < RAMP_UP_DELAY_MS {
            let reaction_ms = self.round_trip_ms + UPDATE_INTERVAL.as_secs_f64() * 1e3 + FILTERING_DELAY_MS;
            let growth = (RAMP_UP_QUEUE_MS / reaction_ms).min(MAX_RAMP_UP);
            rate.max((1.0 + growth) * self.observations.receive_rate_bps())
        } else {
            let offset = signal_ms - PRIORITY * REFERENCE_SIGNAL_MS * REFERENCE_RATE_BPS / rate;
            let change = signal_ms - previous_ms;
            rate - KAPPA * (elapsed_ms / TAU_MS) * (offset / TAU_MS) * rate - KAPPA * ETA * (change / TAU_MS) * rate
        };
        let least = MIN_RATE.clamp(self.bounds.min, self.bounds.max);
        self.rate_bps = rate.clamp(least.as_bps() as f64, self.bounds.max.as_bps() as f64);
    }
}

impl Nada {
    fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        let rate = self.rate();
        self.bucket.on_transmit(now, size, rate);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        for arrival in &feedback.acknowledged {
            self.observations.on_arrival(arrival);
        }
        if let Some(round_trip) = feedback.round_trip_time {
            self.round_trip_ms = round_trip.as_secs_f64() * 1e3;
        }
        let lost = self.loss.on_feedback(feedback);
        self.loss_intervals.update(lost);
        self.losses.push_back((now, lost));
        while self.losses.front().is_some_and(|&(at, _)| now.saturating_since(at) > OBSERVATION_WINDOW) {
            self.losses.pop_front();
        }
        let elapsed = now.saturating_since(*self.updated_at.get_or_insert(now));
        if elapsed >= UPDATE_INTERVAL {
            self.updated_at = Some(now);
            // Longer silences are clipped, since the RFC requires intervals below TAU.
            self.update((elapsed.as_secs_f64() * 1e3).min(TAU_MS));
        }
    }
}

impl Controller for Nada {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::Feedback(feedback) => self.on_feedback(path.now, feedback),
            Input::FeedbackSent(_) | Input::Encoded(_) | Input::Time | Input::Lost(_) | Input::PictureSkipped => {}
        }
    }

    /// Bytes in the pacer lower the encoder's rate and raise the sending rate (RFC 8698, section 5.2.2).
    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let drain = SHAPING_WEIGHT * 8.0 * in_flight.queued.as_f64() * SHAPING_FRAMES;
        let encoder = self.rate_bps - drain.min(MAX_SHAPING * self.rate_bps);
        let sending = (self.rate_bps + drain).min(self.bounds.max.as_bps() as f64);
        let bps = |rate: f64| Bitrate::from_bps(rate.round() as u64);
        self.bucket.allowance(path.now, in_flight, bps(encoder), bps(sending))
    }

    fn pacing_interval(&self, path: &PathView<'_>, in_flight: InFlight) -> Duration {
        self.allowance(path, in_flight).pacing_interval
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::{Outcome, Plan, run, setup};

    fn call(plan: &Plan) -> Outcome {
        run(plan, &mut Nada::new(&setup()), None)
    }

    #[test]
    fn rate_reaches_1_mbps_in_10_s_with_a_short_queue() {
        for feedback_interval in [None, Some(Duration::from_millis(100))] {
            let outcome = call(&Plan { feedback_interval, ..Plan::constant(1_000) });
            let rate = outcome.rate(10, 20).as_mbps();
            assert!((0.7..1.05).contains(&rate), "{outcome:?}");
            assert!(outcome.queueing_delay(10, 20, 0.5) < Duration::from_millis(50), "{outcome:?}");
        }
    }

    #[test]
    fn rate_falls_with_the_capacity() {
        let outcome = call(&Plan::step(2_500, 600, 20));
        assert!(outcome.rate(12, 20).as_mbps() > 1.5, "{outcome:?}");
        assert!(outcome.mean_target(23, 40) < Bitrate::from_kbps(660), "{outcome:?}");
        assert!(outcome.queueing_delay(25, 40, 0.5) < Duration::from_millis(80), "{outcome:?}");
    }

    #[test]
    fn random_loss_of_5_percent_does_not_starve_it() {
        let outcome = call(&Plan { loss: 0.05, length: Duration::from_secs(40), ..Plan::constant(1_000) });
        assert!(outcome.rate(20, 40).as_mbps() > 0.13, "{outcome:?}");
    }

    #[test]
    fn rate_recovers_after_an_outage() {
        let outage = Some((Duration::from_secs(20), Duration::from_secs(21)));
        let outcome = call(&Plan { outage, length: Duration::from_secs(40), ..Plan::constant(1_000) });
        assert!(outcome.rate(30, 40).as_mbps() > 0.7, "{outcome:?}");
    }

    #[test]
    fn long_queue_weighs_less_when_losses_show_competition() {
        let mut nada = Nada::new(&setup());
        let alone = nada.signal_ms(200.0);
        nada.loss_intervals.update(Lost { due: 100, lost: 1 });
        let competing = nada.signal_ms(200.0);
        assert!(alone == 200.0 && competing < 50.0, "{alone} {competing}");
        nada.loss_intervals.update(Lost { due: 701, lost: 0 });
        assert_eq!(nada.signal_ms(200.0), 200.0);
    }
}
