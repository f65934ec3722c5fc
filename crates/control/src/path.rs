//! What the sender knows of its path: one observer, one immutable view.
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

use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

pub use self::bursts::Burst;
use self::bursts::Bursts;
use self::cross_traffic::CrossTrafficDetector;
pub use self::cross_traffic::{CrossTraffic, CrossTrafficConfig};
use self::deliveries::Deliveries;
use self::probing::Probing;
pub use self::probing::ProbingConfig;
use self::queueing::Queueing;
use self::silence::Silence;
pub use self::silence::SilenceConfig;
pub use crate::path_delay::Wait;
use crate::short_queue::{BottleneckQueue, ShortQueue};
use crate::{Controller, InFlight, Input, LossRate, Tuning};

/// A sender may double its rate in a round trip (RFC 5681, slow start).
pub(crate) const GROWTH: u64 = 2;

lockstep_units::config! {
    /// What the observer measures of the path.
    pub struct PathConfig = "path" {
        /// Deliveries are counted in sliding windows of this length: a larger frame arrives half a second late in any case.
        window: Duration = 0.5, "s", 0.05..=5.0, "2026-11-control-ablation";
        /// How long the most delivered in a window is remembered: a second or two of quiet must not forget the path.
        memory: Duration = 5.0, "s", 0.5..=60.0, "2026-11-control-ablation";
        /// How long base delays and base round trips are remembered. Cross traffic hides them for as long; clocks drift by 3 ms meanwhile.
        base_memory: Duration = 60.0, "s", 1.0..=600.0, "2026-11-control-ablation";
        /// Time constant of the average rate inside bursts.
        burst_fade: f64 = 0.3, "s", 0.01..=10.0, "2026-11-control-ablation";
        /// That rate is valid for this long after a burst.
        burst_memory: Duration = 2.0, "s", 0.1..=60.0, "2026-11-control-ablation";
        /// Longest time without a try where trying may show that the path carries more again: between probes, hellos and pairs
        /// of packets, between fragments on a narrow path, and before a narrow path is asked for more.
        retry: Duration = 1.0, "s", 0.02..=60.0, "2026-11-control-ablation";
        /// A burst limits nothing if its first fragment was queued for longer: behind a pause of the link it shows the rate of the last hop.
        idle_wait: Duration = 0.01, "s", 0.0..=1.0, "2026-11-control-ablation";
        /// Weight of feedback that waited longer than the mean; a tenth of it if it waited less.
        feedback_weight: f64 = 0.2, "", 0.0..=1.0, "2026-11-control-ablation";
    }
}

/// The path at one moment. The default is a path that nothing is known of.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathView<'a> {
    /// When the view was taken.
    pub now: Timestamp,
    /// Length of the window of `delivered` and `burst`.
    pub window: Duration,
    /// Smoothed round-trip time; none before the first feedback.
    pub round_trip: Option<Duration>,
    /// The last sample of the round-trip time; none before the first feedback.
    pub last_round_trip: Option<Duration>,
    /// Sliding-window minimum of the round-trip time, over 60 s or since the path became longer.
    pub base_round_trip: Option<Duration>,
    /// How long feedback waits on its way back, averaged.
    pub feedback_delay: Duration,
    /// How long each packet that the last feedback acknowledges was queued, in the order of the feedback.
    pub queueing_delays: &'a [Wait],
    /// Most bytes delivered in any window of the last 5 s, headers included.
    pub delivered: ByteCount,
    /// Most bytes in a window that the spacing of fragments inside a burst shows, over 5 s.
    pub burst: ByteCount,
    /// The last burst of fragments.
    pub last_burst: Option<Burst>,
    /// Rate inside bursts, averaged over 0.3 s; none if no burst of the last 2 s shows one.
    pub burst_rate: Option<Bitrate>,
    /// Cross traffic at the bottleneck.
    pub cross_traffic: CrossTraffic,
    /// Loss of fragments and of frames.
    pub loss: LossRate,
    /// Whether packets were sent and no feedback came for longer than it should take.
    pub is_silent: bool,
    /// Whether a silence has ended and nothing that was sent since is acknowledged.
    pub is_restarting: bool,
    /// The queue at the bottleneck, once it is known to hold fewer packets than frames have.
    pub bottleneck_queue: Option<BottleneckQueue>,
}

/// Observes the path from packets and feedback.
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
            delivered: self.deliveries.most_in_window(),
            burst: self.deliveries.most_by_bursts(),
            last_burst: self.bursts.last().copied(),
            burst_rate: self.bursts.recent_rate(now),
            cross_traffic: self.cross_traffic.at(now, &self.bursts),
            loss: self.loss,
            is_silent: self.is_silent(now),
            is_restarting: self.silence.is_restarting(),
            bottleneck_queue: self.short_queue.known(),
        }
    }

    /// Whether packets were sent and no feedback came for longer than it should take.
    #[must_use]
    pub fn is_silent(&self, now: Timestamp) -> bool {
        self.silence.is_silent(now)
    }

    /// Loss of fragments and of frames.
    #[must_use]
    pub fn loss(&self) -> &LossRate {
        &self.loss
    }

    /// Without a sending end, nothing tells fragments from sound.
    fn on_input(&mut self, now: Timestamp, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sound(now, size),
            Input::Feedback(feedback) => self.on_feedback(now, feedback),
            Input::Lost(lost) => self.on_loss(now, lost),
            Input::FeedbackSent(_) | Input::Time | Input::PictureSkipped => {}
        }
    }

    /// Passes something that happened at the sender to `controller`, with a view that includes it.
    pub fn pass(&mut self, now: Timestamp, input: Input<'_>, controller: &mut dyn Controller) {
        self.on_input(now, input);
        controller.handle(&self.view(now), input);
    }

    /// A fragment of a frame, a datagram of `size` bytes, was sent.
    pub fn on_fragment(&mut self, now: Timestamp, size: ByteCount) {
        self.silence.on_fragment(now);
        self.on_sound(now, size);
    }

    /// A datagram of sound was sent. It ignores the budget, so it is no evidence for the budget of pictures.
    pub fn on_sound(&mut self, now: Timestamp, size: ByteCount) {
        self.short_queue.on_transmit(now, size);
        self.silence.on_sent(now, size);
    }

    /// Feedback arrived.
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
            self.cross_traffic.on_arrival(arrival, wait.above_least, &self.bursts);
        }
    }

    /// Fragments were declared lost.
    pub fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        self.loss.on_lost(lost.len());
        self.short_queue.on_loss(now, lost);
    }

    /// A frame was decoded, or is lost in spite of its parity.
    pub fn on_frame(&mut self, lost: bool) {
        self.loss.on_frame(lost);
    }

    /// Something came from the other end after a pause, by whatever way: a silent path may work again.
    pub fn on_return(&mut self, now: Timestamp) {
        self.silence.on_return(now);
    }

    /// A frame was sent that its budget did not hold.
    pub fn on_probe(&mut self) {
        self.probing.on_probe(&self.silence, &self.deliveries);
    }

    /// Whether a frame is due now although no budget holds one, as small as there is, with `in_flight` under way.
    #[must_use]
    pub fn is_probe_due(&self, now: Timestamp, in_flight: InFlight) -> bool {
        self.probing.is_due(now, in_flight, self.queueing.delay(), &self.silence, &self.deliveries)
    }

    /// Whether a probe of `size` bytes may be sent: into silence only what does not delay later frames if it is queued.
    #[must_use]
    pub fn can_carry_probe(&self, now: Timestamp, size: ByteCount) -> bool {
        self.probing.can_carry_probe(now, size, &self.silence, &self.deliveries)
    }

    /// Pause after a hello into silence.
    #[must_use]
    pub fn greeting_pause(&self, now: Timestamp) -> Duration {
        self.probing.greeting_pause(now, &self.silence, &self.deliveries)
    }

    /// Least pause between two fragments where the bottleneck's queue is shorter than a frame, whatever the controller's pace.
    #[must_use]
    pub fn least_pause(&self) -> Duration {
        self.short_queue.least_pause()
    }
}
