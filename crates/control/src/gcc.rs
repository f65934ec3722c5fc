//! Google Congestion Control as in WebRTC: a rate from delay growth, a rate from losses, and probes for fast growth.
//!
//! The sender estimates everything. The sources are draft-ietf-rmcat-gcc-02, where it still matches, and WebRTC
//! (`goog_cc` means `modules/congestion_controller/goog_cc`). Each part has one file:
//!
//! | part | function | constants | in WebRTC |
//! |---|---|---|---|
//! | `arrival_groups` | compares bursts of fragments | bursts of 5 ms, 100 ms at most if they caught up | `goog_cc/inter_arrival_delta.cc`; draft 5.2 |
//! | `trendline` | fits a line to the delay | 20 groups, smoothing 0.9 | `goog_cc/trendline_estimator.cc` |
//! | `overuse` | compares its slope with an adaptive threshold | gain 4, at most 60 groups; 12.5 ms at first, 6-600 ms, up 0.0087, down 0.039 a millisecond, steps of 100 ms, not if exceeded by 15 ms; 10 ms of overuse in two groups | the same; draft 5.3, 5.4 |
//! | `link_capacity` | remembers the throughput at overuse | weight 0.05, variance 0.4-2.5 kb/s, region of 3 deviations | `goog_cc/link_capacity_estimator.cc` |
//! | `rate_control` | increases and decreases the rate | decrease 0.85; 8 % a second, near the capacity a packet each 2 (round trip + 100 ms); at most 1.5 x throughput + 10 kb/s | `modules/remote_bitrate_estimator/aimd_rate_control.cc`; draft 5.5 |
//! | `delay_based` | combines these five | resets after 2 s of silence; half the rate on overuse without throughput | `goog_cc/delay_based_bwe.cc` |
//! | `acknowledged_rate` | measures the throughput | the last second, 20 to 500 fragments, 5 s at most; 10 to begin with; less the longest pause | `goog_cc/robust_throughput_estimator.cc` |
//! | `loss_reports` | counts losses that feedback confirms | | `modules/congestion_controller/rtp/transport_feedback_adapter.cc` |
//! | `loss_based` | bounds the rate by losses and silence | 2 % and 10 % of 20 packets; 8 % + 1 kb/s over the minimum of a second; 1 - loss / 2 every 300 ms + round trip; 2 s of start; x0.8 each second after 3 s of silence | `goog_cc/send_side_bandwidth_estimation.cc`; draft 6 |
//! | `application_limited` | detects that the target is not used | 65 % of it, 500 ms, from 80 % to 50 % of the budget unused | `goog_cc/alr_detector.cc`, `modules/pacing/interval_budget.cc` |
//! | `probe_controller` | decides on probes | 3 and 6 times the initial rate, then 2 times while above 0.7 of the last; 0.85 of the rate before a drop to 0.66; 2 times every 5 s while limited; 1 s for a result | `goog_cc/probe_controller.cc` |
//! | `probe_clusters` | sends them | 5 packets and 15 ms, 10 ms late at most, 5 s to start | `modules/pacing/bitrate_prober.cc` |
//! | `probe_estimator` | measures them | 80 % received, at most 2 times as fast as sent, 0.95 of the arrival rate if it is below 0.9 of the sending rate | `goog_cc/probe_bitrate_estimator.cc` |
//! | `bursts` | lets datagrams leave together | 40 ms at the pacing rate, 63 kB at most | `modules/pacing/pacing_controller.cc` |
//! | `settings` | disables parts, for studies | | |
//! | here | combines all parts | pacing at 2.5 times the target; a probe counts for at least 0.85 of the throughput; round trip as the mean of 32 | `goog_cc/goog_cc_network_control.cc` |
//!
//! Neither the draft nor WebRTC's GCC uses congestion marks (ECN). Here a marked fragment counts as overuse: the rate
//! falls to 0.85 of the throughput, once per round trip. RFC 6679, section 7.3.3, requires such a response.
//!
//! It differs from WebRTC where this transport does:
//!
//! - Probes consist of media instead of padding.
//! - Feedback may arrive for each datagram, so minimum increases depend on time, not on the number of feedbacks.
//! - A loss that the transport infers from silence waits for feedback.
//!
//! WebRTC's later loss-based estimator (`loss_based_bwe_v2.cc`) and its congestion window are not implemented.

mod acknowledged_rate;
mod application_limited;
mod arrival_groups;
mod bursts;
mod delay_based;
mod link_capacity;
mod loss_based;
mod loss_reports;
mod overuse;
mod probe_clusters;
mod probe_controller;
mod probe_estimator;
mod rate_control;
mod settings;
#[cfg(test)]
mod tests;
mod trendline;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockstep_transport::{AcknowledgedFragment, Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, PathView, TokenBucket, Traits};
use acknowledged_rate::AcknowledgedRate;
use application_limited::ApplicationLimit;
use bursts::Bursts;
use delay_based::DelayBased;
use loss_based::LossBased;
use loss_reports::LossReports;
use probe_clusters::ProbeClusters;
use probe_controller::ProbeController;
use probe_estimator::ProbeEstimator;
pub use settings::{Probing, Settings};

/// Lower bound of a probe's result, as a share of the throughput (`kProbeDropThroughputFraction`).
const PROBE_FLOOR: f64 = 0.85;
/// Number of feedbacks in the mean of the round-trip time.
const ROUND_TRIPS: usize = 32;

/// Google Congestion Control. It needs only feedback, no estimator at the receiver.
#[derive(Debug, Clone)]
pub struct Gcc {
    payload: ByteCount,
    delay_based: DelayBased,
    loss_based: LossBased,
    loss_reports: LossReports,
    acknowledged_rate: AcknowledgedRate,
    application_limit: ApplicationLimit,
    probe_controller: ProbeController,
    probe_clusters: ProbeClusters,
    probe_estimator: ProbeEstimator,
    round_trips: VecDeque<Duration>,
    bucket: TokenBucket,
    bursts: Bursts,
    started: bool,
    target: Bitrate,
    settings: Settings,
    delay_samples: Option<Arc<AtomicU64>>,
}

impl Gcc {
    /// A controller with WebRTC's settings.
    #[must_use]
    pub fn new(setup: &ControllerSetup) -> Self {
        Self::with(setup, Settings::default())
    }

    /// A controller with these settings.
    #[must_use]
    pub fn with(setup: &ControllerSetup, settings: Settings) -> Self {
        let bounds = setup.bounds;
        let mut gcc = Self {
            payload: setup.payload,
            delay_based: DelayBased::new(bounds, settings.throughput_bounds_growth),
            loss_based: LossBased::new(bounds),
            loss_reports: LossReports::default(),
            acknowledged_rate: AcknowledgedRate::default(),
            application_limit: ApplicationLimit::new(bounds.initial),
            probe_controller: ProbeController::new(bounds, settings.probing),
            probe_clusters: ProbeClusters::new(setup.payload),
            probe_estimator: ProbeEstimator::default(),
            round_trips: VecDeque::new(),
            bucket: TokenBucket::new(setup.payload, setup.frame_interval),
            bursts: Bursts::default(),
            started: false,
            target: bounds.initial,
            settings,
            delay_samples: None,
        };
        // The first frame forms the first probes, so they are requested before anything is sent.
        let probes = gcc.probe_controller.start(Timestamp::ZERO);
        gcc.probe_clusters.request(Timestamp::ZERO, probes);
        gcc
    }

    /// The same controller. It stores in `samples` how often the delay trend was evaluated over a full window of
    /// groups.
    #[must_use]
    pub fn counting_delay_samples(self, samples: Arc<AtomicU64>) -> Self {
        Self { delay_samples: Some(samples), ..self }
    }

    fn pacing_rate(&self) -> Bitrate {
        self.target.mul_f64(self.settings.pacing_factor)
    }

    /// Sets the target from the rates and updates the probes.
    fn settle(&mut self, now: Timestamp) {
        self.target = self.loss_based.rate();
        self.application_limit.set_target(self.target);
        let further = self.probe_controller.set_estimate(now, self.target);
        self.probe_clusters.request(now, further);
        let due = self.probe_controller.process(now);
        self.probe_clusters.request(now, due);
    }

    fn measure_round_trip(&mut self, acknowledged: &[AcknowledgedFragment]) {
        let round_trips = acknowledged.iter().map(|at| at.acknowledged_at.saturating_since(at.sent_at));
        let Some(longest) = round_trips.max() else { return };
        self.round_trips.push_back(longest);
        if self.round_trips.len() > ROUND_TRIPS {
            self.round_trips.pop_front();
        }
        let sum: Duration = self.round_trips.iter().fold(Duration::ZERO, |sum, time| sum.saturating_add(*time));
        self.delay_based.set_round_trip(sum / self.round_trips.len() as u32);
        self.loss_based.set_round_trip(longest);
    }

    /// The rate that the probes among these fragments measured.
    fn measure_probes(&mut self, acknowledged: &[AcknowledgedFragment]) -> Option<Bitrate> {
        let mut measured = None;
        for fragment in acknowledged {
            if let Some(cluster) = self.probe_clusters.cluster_of(fragment.sent_at) {
                measured = self.probe_estimator.on_acknowledged(&cluster, fragment).or(measured);
            }
        }
        let floor = self
            .acknowledged_rate
            .estimate()
            .map_or(Bitrate::ZERO, |throughput| throughput.mul_f64(PROBE_FLOOR).min(self.delay_based.rate()));
        measured.map(|rate| rate.max(floor))
    }
}

impl Gcc {
    fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        if !self.started {
            self.started = true;
            // The clock may start at any value.
            self.probe_clusters = ProbeClusters::new(self.payload);
            let probes = self.probe_controller.start(now);
            self.probe_clusters.request(now, probes);
        }
        self.bucket.on_transmit(now, size, self.target);
        self.bursts.on_transmit(now, size, self.pacing_rate());
        self.probe_clusters.on_transmit(now, size);
        self.application_limit.on_transmit(now, size);
        let limited = self.application_limit.since();
        self.probe_controller.set_limited(now, limited);
        self.loss_based.on_transmit(now);
        self.settle(now);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        let acknowledged = &feedback.acknowledged;
        if acknowledged.is_empty() {
            return;
        }
        self.measure_round_trip(acknowledged);
        let lost = self.loss_reports.on_acknowledged(acknowledged);
        self.loss_based.on_report(now, acknowledged.len() as u64, lost);
        self.acknowledged_rate.on_acknowledged(acknowledged);
        let probe = self.measure_probes(acknowledged);
        let throughput = self.acknowledged_rate.estimate();
        if let Some(update) = self.delay_based.on_feedback(now, acknowledged, throughput, probe) {
            if update.probed {
                self.loss_based.on_probe(update.rate);
            } else {
                self.loss_based.set_delay_limit(update.rate);
            }
            if update.recovered {
                let recovery = self.probe_controller.on_recovered(now);
                self.probe_clusters.request(now, recovery);
            }
        }
        if let Some(samples) = &self.delay_samples {
            samples.store(self.delay_based.samples(), Ordering::Relaxed);
        }
        self.settle(now);
    }

    fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        let certain = self.loss_reports.on_loss(lost);
        self.loss_based.on_report(now, 0, certain);
        self.settle(now);
    }
}

impl Controller for Gcc {
    fn traits(&self) -> Traits {
        let is_bounded = self.settings.bounded_by_path;
        Traits { is_bounded, has_ceiling: is_bounded, ..Traits::ESTIMATING }
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::Feedback(feedback) => self.on_feedback(path.now, feedback),
            Input::Lost(lost) => self.on_loss(path.now, lost),
            Input::FeedbackSent(_) | Input::Encoded(_) | Input::Time | Input::PictureSkipped => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let allowance = |pacing_rate| self.bucket.allowance(path.now, in_flight, self.target, pacing_rate);
        let pacing_rate = self.pacing_rate();
        // Until the first datagram is sent, the probes wait at any time of the clock.
        let asked_at = if self.started { path.now } else { Timestamp::ZERO };
        let Some(probe) = self.probe_clusters.rate(asked_at) else {
            let paced = allowance(pacing_rate);
            let at_once = self.settings.bursts && self.bursts.may_leave_at_once(path.now, pacing_rate);
            return if at_once { Allowance { pacing_interval: Duration::ZERO, ..paced } } else { paced };
        };
        let wanted = self.probe_clusters.wanted(asked_at).saturating_sub(in_flight.queued);
        let allowance = allowance(probe);
        Allowance { budget: allowance.budget.max(wanted), ..allowance }
    }

    fn pacing_interval(&self, path: &PathView<'_>, in_flight: InFlight) -> Duration {
        self.allowance(path, in_flight).pacing_interval
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
