//! Observation of the model: Sprout's view of the path and recent packet statistics.

mod averages;
mod mean_rates;
mod pauses;
mod pictures;
mod waits;

use libm::{exp, log, log1p};
use lockstep_transport::AcknowledgedFragment;

use crate::PathView;
use crate::sprout::SproutView;

use averages::{Losses, Rate, Weights};
use mean_rates::MeanRates;
use pauses::Pauses;
use pictures::Pictures;
use waits::Waits;

/// Number of values that a model observes per picture.
pub const OBSERVED: usize = 45;

/// Descriptions of the observed values, in order. Rates are logarithms of ratios to Sprout's mean rate. Times are `ln(1
/// + t / 20 ms)`. All values are clamped to -4 to 4.
pub const OBSERVATIONS: [&str; OBSERVED] = [
    "mean rate, ln(rate / 150 kB/s) / 2",
    "cautious rate / mean rate, ln",
    "path's rate by bursts / mean rate, ln",
    "uncertainty of the rate: standard deviation of its ln",
    "variation of delivery times",
    "time since the last known delivery",
    "bytes in flight / mean rate in a round trip, ln(1 + ratio)",
    "bytes in flight / mean rate in that time and 25 ms, ln(ratio + 0.05)",
    "time in which the link delivers the bytes in flight",
    "shortest round trip",
    "last round trip - shortest",
    "time since feedback",
    "frame interval",
    "age of the call, exp(-age / 2 s)",
    "arrival rate over 30 ms / mean rate, ln(ratio + 0.05)",
    "the same over 0.1 s",
    "the same over 0.4 s",
    "the same over 1.6 s",
    "the same over 6.4 s",
    "queueing delay over 30 ms",
    "the same over 0.1 s",
    "the same over 0.4 s",
    "the same over 1.6 s",
    "the same over 6.4 s",
    "queueing delay of the packet that arrived last",
    "longest recent queueing delay, fading over 0.4 s",
    "share lost over 0.4 s",
    "share lost over 6.4 s",
    "sending rate over 30 ms / mean rate, ln(ratio + 0.05)",
    "the same over 0.1 s",
    "the same over 0.4 s",
    "rate inside the last frame's burst / mean rate, ln(ratio + 0.05)",
    "bytes of that burst / mean rate in a frame interval, ln(1 + ratio)",
    "time since the last delivery, beyond the shortest round trip",
    "pauses between deliveries, recent mean",
    "longest recent pause, fading over 2 s",
    "age of the oldest packet in flight, beyond the shortest round trip",
    "bytes sent for the last picture / mean rate in a frame interval, ln(ratio + 0.05)",
    "budget of the last picture / mean rate in a frame interval, ln(ratio + 0.05)",
    "the mean rate a second ago / mean rate, ln",
    "the mean rate 0.2 s ago / mean rate, ln",
    "greatest mean rate of ten seconds / mean rate, ln",
    "rate of the last frame from its first packet's departure on / mean rate, ln(ratio + 0.05)",
    "bytes of that frame / mean rate in a frame interval, ln(1 + ratio)",
    "time since deliveries resumed after a pause of 0.3 s",
];

/// Lower bound of a frame's transmission time, seconds: the resolution of clocks and schedulers.
const MIN_TRANSMISSION_SECONDS: f64 = 0.004;
/// Bound of observations in both directions.
const LARGEST: f64 = 4.0;

/// Observations of the path in addition to Sprout's estimates.
#[derive(Debug)]
pub(super) struct History {
    /// Time of the first observation, seconds; none before it.
    began_at: Option<f64>,
    /// Time to which the averages are advanced, seconds.
    at: f64,
    /// Time of the last feedback, seconds; zero before the first.
    feedback_at: f64,
    /// Time when the last packet left the link on the sender's clock, without propagation delay.
    left_at: f64,
    arrivals: Rate,
    sendings: Rate,
    waits: Waits,
    losses: Losses,
    pauses: Pauses,
    mean_rates: MeanRates,
    pictures: Pictures,
}

impl History {
    pub fn new(frame_interval: f64) -> Self {
        Self {
            began_at: None,
            at: 0.0,
            feedback_at: 0.0,
            left_at: 0.0,
            arrivals: Rate::default(),
            sendings: Rate::default(),
            waits: Waits::default(),
            losses: Losses::default(),
            pauses: Pauses::default(),
            mean_rates: MeanRates::new(),
            pictures: Pictures::new(frame_interval),
        }
    }

    /// Records that `bytes` were sent.
    pub fn sent(&mut self, bytes: f64) {
        self.sendings.add(bytes);
        self.pictures.sent(bytes);
    }

    pub fn lost(&mut self, packets: usize) {
        self.losses.add(packets as f64);
    }

    /// Adds feedback.
    pub fn on_feedback(&mut self, path: &PathView<'_>, arrivals: &[AcknowledgedFragment]) {
        self.feedback_at = path.now.as_secs_f64();
        for (arrival, wait) in arrivals.iter().zip(path.queueing_delays) {
            let wait = wait.queued.as_secs_f64();
            self.arrivals.add(arrival.size.as_f64());
            self.waits.add(wait);
            // Acknowledgements may list fragments in another order than their sending.
            self.left_at = self.left_at.max(arrival.sent_at.as_secs_f64() + wait);
            self.pauses.on_arrival(arrival.arrived_at.as_secs_f64(), self.feedback_at);
        }
    }

    /// Whether any arrival is known.
    pub fn has_feedback(&self) -> bool {
        self.feedback_at > 0.0
    }

    /// Difference between the natural logarithms of `mean_rate` and of the mean rate a second ago, without sign.
    pub fn change(&self, mean_rate: f64) -> f64 {
        self.mean_rates.change(mean_rate)
    }

    /// Begins the next picture.
    pub fn next(&mut self) {
        self.pictures.next();
    }

    /// Advances the averages by `elapsed` seconds to `now`.
    fn advance(&mut self, now: f64, elapsed: f64) {
        if elapsed <= 0.0 {
            return;
        }
        let weights = Weights::after(elapsed);
        self.arrivals.advance(elapsed, weights);
        self.sendings.advance(elapsed, weights);
        let packets = self.waits.advance(elapsed, weights);
        self.losses.advance(packets, weights);
        self.pauses.advance(elapsed);
        self.at = now;
    }

    /// The observation of the path with Sprout's view of it. `given` are the bytes that the last picture was given.
    pub fn observe(&mut self, path: &PathView<'_>, sprout_view: &SproutView, given: f64) -> [f32; OBSERVED] {
        let at = path.now;
        let now = at.as_secs_f64();
        if self.began_at.is_none() {
            (self.began_at, self.at) = (Some(now), now);
        }
        let elapsed = now - self.at;
        self.mean_rates.put(at, elapsed, sprout_view.mean_rate);
        self.advance(now, elapsed);
        self.values(path, sprout_view, given).map(|value| value.clamp(-LARGEST, LARGEST) as f32)
    }

    fn values(&self, path: &PathView<'_>, sprout_view: &SproutView, given: f64) -> [f64; OBSERVED] {
        let now = path.now.as_secs_f64();
        let [arrivals, sendings] = [&self.arrivals, &self.sendings].map(|rate| rate.averages.get());
        let (waits, losses) = (self.waits.averages.get(), self.losses.averages.get());
        let mean = sprout_view.mean_rate.max(1.0);
        let ratio = |rate: f64| log(rate.max(0.0) / mean + 0.05);
        let time = |seconds: f64| log1p(seconds.max(0.0) / 0.02);
        let a_picture = mean * self.pictures.interval;
        let unknown = now - sprout_view.known_until;
        let former = self.mean_rates.former(mean);
        let (burst_bytes, burst_rate, passage_bytes, passage_rate) =
            path.last_burst.map_or((0.0, 0.0, 0.0, 0.0), |burst| {
                let (all, later) = burst.bytes;
                let arrival = burst.arrived_at.1.saturating_since(burst.arrived_at.0).as_secs_f64().max(1e-4);
                let passage = burst.left_at.saturating_since(burst.sent_at).as_secs_f64().max(MIN_TRANSMISSION_SECONDS);
                let carried = burst.carried.as_f64();
                (all.as_f64(), later.as_f64() / arrival, carried, carried / passage)
            });
        let greatest = self.mean_rates.greatest(mean);
        let age = now - self.began_at.unwrap_or(now);
        [
            log(mean / 150e3) / 2.0,
            log(sprout_view.cautious_rate.max(1.0) / mean),
            log(sprout_view.path_rate.max(1.0) / mean),
            sprout_view.spread,
            time(sprout_view.scatter_time),
            time(unknown),
            log1p(sprout_view.bytes_in_flight / (mean * sprout_view.round_trip.max(1e-3))),
            log(sprout_view.bytes_in_flight / (mean * (unknown + 0.025)) + 0.05),
            time(sprout_view.wait),
            time(sprout_view.round_trip),
            time(sprout_view.last_round_trip - sprout_view.round_trip),
            time(now - self.feedback_at),
            time(self.pictures.interval),
            exp(-age / 2.0),
            ratio(arrivals[0]),
            ratio(arrivals[1]),
            ratio(arrivals[2]),
            ratio(arrivals[3]),
            ratio(arrivals[4]),
            time(waits[0]),
            time(waits[1]),
            time(waits[2]),
            time(waits[3]),
            time(waits[4]),
            time(self.waits.last),
            time(self.waits.longest),
            losses[2],
            losses[4],
            ratio(sendings[0]),
            ratio(sendings[1]),
            ratio(sendings[2]),
            ratio(burst_rate),
            log1p(burst_bytes / a_picture),
            time(now - sprout_view.round_trip - self.left_at),
            time(self.pauses.mean),
            time(self.pauses.longest),
            time(now - sprout_view.oldest_at - sprout_view.round_trip),
            log(self.pictures.last / a_picture + 0.05),
            log(given / a_picture + 0.05),
            log(former[0].max(1.0) / mean),
            log(former[1].max(1.0) / mean),
            log(greatest / mean),
            ratio(passage_rate),
            log1p(passage_bytes / a_picture),
            time(self.pauses.since_return(now)),
        ]
    }
}
