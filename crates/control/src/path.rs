//! Path observer: measures the path once and provides one immutable view.
//!
//! ```text
//! sent packets, feedback, losses --> PathObserver --> PathView --> controllers, limits, probes
//! ```
//!
//! [`PathObserver`] consumes every sent packet, every feedback and every declared loss once. [`PathObserver::view`] is the
//! state of the path at one moment; each [`Controller`] and each [`Limit`](crate::Limit) reads it and keeps
//! no copy.

mod bursts;
mod cross_traffic;
mod deliveries;
mod probing;
mod queueing;
mod silence;
mod view;

use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{ByteCount, Timestamp};

pub use self::bursts::Burst;
use self::bursts::Bursts;
pub use self::cross_traffic::CrossTraffic;
use self::cross_traffic::CrossTrafficDetector;
use self::deliveries::Deliveries;
use self::probing::Probing;
use self::queueing::Queueing;
use self::silence::Silence;
pub use self::view::PathView;
pub use crate::path_delay::Wait;
use crate::short_queue::ShortQueue;
use crate::{Controller, InFlight, Input, LossRate, PathConfig, Tuning};

/// A sender may double its rate in a round trip (RFC 5681, slow start).
pub(crate) const GROWTH: u64 = 2;

/// Observer of the path, fed by packets and feedback.
#[derive(Debug)]
pub struct PathObserver {
    config: PathConfig,
    queueing: Queueing,
    bursts: Bursts,
    deliveries: Deliveries,
    cross_traffic: CrossTrafficDetector,
    silence: Silence,
    loss: LossRate,
    short_queue: ShortQueue,
    probing: Probing,
}

impl PathObserver {
    /// An observer of an unknown path, for fragments of up to `payload` bytes.
    #[must_use]
    pub fn new(payload: ByteCount, tuning: &Tuning) -> Self {
        Self {
            config: tuning.path,
            queueing: Queueing::new(tuning.path, tuning.path_delay),
            bursts: Bursts::new(tuning.path),
            deliveries: Deliveries::new(tuning.path),
            cross_traffic: CrossTrafficDetector::new(tuning.path, tuning.cross_traffic),
            silence: Silence::new(tuning.path, tuning.silence),
            loss: LossRate::new(tuning.loss),
            short_queue: ShortQueue::new(payload, tuning.path, tuning.short_queue),
            probing: Probing::new(payload, tuning.path.retry, tuning.probing),
        }
    }

    /// The path at `now`.
    #[must_use]
    pub fn view(&self, now: Timestamp) -> PathView<'_> {
        PathView {
            now,
            window: self.config.window,
            round_trip: self.silence.round_trip(),
            last_round_trip: self.silence.last_round_trip(),
            base_round_trip: self.silence.base_round_trip(),
            feedback_delay: self.silence.mean_feedback_delay(),
            queueing_delays: self.queueing.delays(),
            delivered: self.deliveries.max_in_window(),
            burst: self.deliveries.max_by_bursts(),
            last_burst: self.bursts.last().copied(),
            burst_rate: self.bursts.recent_rate(now),
            cross_traffic: self.cross_traffic.at(now, &self.bursts),
            loss: self.loss,
            is_silent: self.is_silent(now),
            is_restarting: self.silence.is_restarting(),
            bottleneck_queue: self.short_queue.known(),
        }
    }

    /// Whether packets were sent and feedback is overdue.
    #[must_use]
    pub fn is_silent(&self, now: Timestamp) -> bool {
        self.silence.is_silent(now)
    }

    /// Whether the path dropped what was sent into its last silence, instead of queueing it, and recently.
    #[must_use]
    pub fn drops(&self, now: Timestamp) -> bool {
        self.silence.drops(now)
    }

    /// Loss of fragments and of frames.
    #[must_use]
    pub fn loss(&self) -> &LossRate {
        &self.loss
    }

    /// Without a sending end, fragments and sound cannot be distinguished.
    fn on_input(&mut self, now: Timestamp, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sound(now, size),
            Input::Feedback(feedback) => self.on_feedback(now, feedback),
            Input::Lost(lost) => self.on_loss(now, lost),
            Input::FeedbackSent(_) | Input::Encoded(_) | Input::Time | Input::PictureSkipped => {}
        }
    }

    /// Passes an event at the sender to `controller`, with a view that includes it.
    pub fn pass(&mut self, now: Timestamp, input: Input<'_>, controller: &mut dyn Controller) {
        self.on_input(now, input);
        controller.handle(&self.view(now), input);
    }

    /// Records that a fragment of a frame, a datagram of `size` bytes, was sent.
    pub fn on_fragment(&mut self, now: Timestamp, size: ByteCount) {
        self.silence.on_fragment(now);
        self.on_sound(now, size);
    }

    /// Records that a datagram of sound was sent. It ignores the budget, so it is no evidence for the budget of
    /// pictures.
    pub fn on_sound(&mut self, now: Timestamp, size: ByteCount) {
        self.short_queue.on_transmit(now, size);
        self.silence.on_sent(now, size);
    }

    /// Handles feedback.
    pub fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.loss.on_acknowledged(feedback.acknowledged.len());
        self.loss.on_found(feedback.found);
        if feedback.acknowledged.is_empty() {
            return;
        }
        self.short_queue.on_feedback(now, feedback);
        self.queueing.on_feedback(&feedback.acknowledged);
        if self.queueing.path_changed() {
            self.silence.on_path_change();
        }
        self.silence.on_feedback(now, feedback);
        self.probing.on_feedback();
        if let Some(sample) = feedback.round_trip_time {
            self.cross_traffic.on_round_trip(now, sample);
        }
        for (arrival, wait) in feedback.acknowledged.iter().zip(self.queueing.delays()) {
            self.bursts.on_arrival(now, arrival, wait.queued);
            self.deliveries.on_arrival(now, arrival, self.bursts.last());
            self.cross_traffic.on_arrival(arrival, wait.above_min, &self.bursts);
        }
    }

    /// Handles fragments that were declared lost.
    pub fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        self.loss.on_lost(lost.len());
        self.silence.on_loss(now, lost);
        self.short_queue.on_loss(now, lost);
    }

    /// Records that a frame was decoded, or was lost despite its parity.
    pub fn on_frame(&mut self, lost: bool) {
        self.loss.on_frame(lost);
    }

    /// Records any arrival from the other end after a pause: a silent path may work again.
    pub fn on_return(&mut self, now: Timestamp) {
        self.silence.on_return(now);
    }

    /// Records that a frame beyond its budget was sent as a probe.
    pub fn on_probe(&mut self) {
        self.probing.on_probe(&self.silence, &self.deliveries);
    }

    /// Whether a smallest frame is due now without a budget, with `in_flight` data.
    #[must_use]
    pub fn is_probe_due(&self, now: Timestamp, in_flight: InFlight) -> bool {
        self.probing.is_due(now, in_flight, self.queueing.delay(), &self.silence, &self.deliveries)
    }

    /// Whether a probe of `size` bytes may be sent. During silence it must not delay later frames if it is queued.
    #[must_use]
    pub fn can_carry_probe(&self, now: Timestamp, size: ByteCount) -> bool {
        self.probing.can_carry_probe(now, size, &self.silence, &self.deliveries)
    }

    /// Pause after a hello during silence.
    #[must_use]
    pub fn hello_interval(&self, now: Timestamp) -> Duration {
        self.probing.hello_interval(now, &self.silence, &self.deliveries)
    }

    /// Minimum pause between two fragments if the bottleneck queue is shorter than a frame, at any pacing of the
    /// controller.
    #[must_use]
    pub fn min_pause(&self) -> Duration {
        self.short_queue.min_pause()
    }
}
