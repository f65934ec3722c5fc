//! What a model sees of a call: what Sprout's filter makes of the path, and how packets lately left and arrived.

mod averages;
mod mean_rates;
mod pauses;
mod pictures;
mod waits;

use libm::{exp, log, log1p};
use lockstep_transport::AcknowledgedFragment;

use crate::PathView;
use crate::sprout::Outlook;

use averages::{Losses, Rate, Weights};
use mean_rates::MeanRates;
use pauses::Pauses;
use pictures::Pictures;
use waits::Waits;

/// How many values a model sees of a picture.
pub const OBSERVED: usize = 45;

/// What the values are that a model sees, in their order. Rates are logarithms of ratios to Sprout's mean rate, times
/// `ln(1 + t / 20 ms)`, everything within -4 to 4.
pub const OBSERVATIONS: [&str; OBSERVED] = [
    "mean rate, ln(rate / 150 kB/s) / 2",
    "cautious rate / mean rate, ln",
    "path's rate by bursts / mean rate, ln",
    "uncertainty of the rate: standard deviation of its ln",
    "time over which deliveries scatter",
    "time for which it is not known what was delivered",
    "bytes on the way / mean rate in a round trip, ln(1 + ratio)",
    "bytes on the way / mean rate in that time and 25 ms, ln(ratio + 0.05)",
    "time that the link is kept by what is on the way",
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
    "wait in the queue over 30 ms",
    "the same over 0.1 s",
    "the same over 0.4 s",
    "the same over 1.6 s",
    "the same over 6.4 s",
    "wait of the packet that arrived last",
    "longest wait of a packet of late, fading over 0.4 s",
    "share lost over 0.4 s",
    "share lost over 6.4 s",
    "sending rate over 30 ms / mean rate, ln(ratio + 0.05)",
    "the same over 0.1 s",
    "the same over 0.4 s",
    "rate inside the last frame's burst / mean rate, ln(ratio + 0.05)",
    "bytes of that burst / mean rate in a frame interval, ln(1 + ratio)",
    "time since the last delivery, beyond the shortest round trip",
    "pauses between deliveries, mean of late",
    "longest such pause of late, fading over 2 s",
    "how much longer the oldest packet on the way is underway than the shortest round trip",
    "bytes sent for the last picture / mean rate in a frame interval, ln(ratio + 0.05)",
    "room that was given to the last picture / mean rate in a frame interval, ln(ratio + 0.05)",
    "the mean rate a second ago / mean rate, ln",
    "the mean rate 0.2 s ago / mean rate, ln",
    "greatest mean rate of ten seconds / mean rate, ln",
    "rate at which the last frame came through from its first packet's departure on / mean rate, ln(ratio + 0.05)",
    "bytes of that frame / mean rate in a frame interval, ln(1 + ratio)",
    "time since deliveries began again after a pause of 0.3 s",
];

/// The least time that a frame is on its way, seconds: what clocks and schedulers can tell apart.
const LEAST_PASSAGE: f64 = 0.004;
/// Observations are clamped to this, with either sign.
const LARGEST: f64 = 4.0;

/// What a model observes of the path beyond Sprout's estimates.
#[derive(Debug)]
pub(super) struct History {
    /// When the first observation was made, seconds; none before.
    began_at: Option<f64>,
    /// When the averages were last advanced, seconds.
    at: f64,
    /// When feedback last arrived, seconds; zero before.
    feedback_at: f64,
    /// When the last packet left the link, sender's clock, as if there were no propagation delay.
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

    /// `bytes` were sent.
    pub fn sent(&mut self, bytes: f64) {
        self.sendings.add(bytes);
        self.pictures.sent(bytes);
    }

    pub fn lost(&mut self, packets: usize) {
        self.losses.add(packets as f64);
    }

    /// Feedback arrived.
    pub fn on_feedback(&mut self, path: &PathView<'_>, arrivals: &[AcknowledgedFragment]) {
        self.feedback_at = path.now.as_secs_f64();
        for (arrival, wait) in arrivals.iter().zip(path.queueing_delays) {
            let wait = wait.queued.as_secs_f64();
            self.arrivals.add(arrival.size.as_f64());
            self.waits.add(wait);
            // Acknowledgements may list fragments in another order than they were sent in.
            self.left_at = self.left_at.max(arrival.sent_at.as_secs_f64() + wait);
            self.pauses.on_arrival(arrival.arrived_at.as_secs_f64(), self.feedback_at);
        }
    }

    /// Whether anything is known to have arrived.
    pub fn has_heard(&self) -> bool {
        self.feedback_at > 0.0
    }

    /// Difference between the natural logarithms of `mean_rate` and of the mean rate a second ago, without sign.
    pub fn change(&self, mean_rate: f64) -> f64 {
        self.mean_rates.change(mean_rate)
    }

    /// The next picture begins.
    pub fn next(&mut self) {
        self.pictures.next();
    }

    /// Advances the averages to `now`, `elapsed` seconds after the last time.
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

    /// What is seen of the path, with what Sprout makes of it, and what the last picture was given.
    pub fn observe(&mut self, path: &PathView<'_>, outlook: &Outlook, given: f64) -> [f32; OBSERVED] {
        let at = path.now;
        let now = at.as_secs_f64();
        if self.began_at.is_none() {
            (self.began_at, self.at) = (Some(now), now);
        }
        let elapsed = now - self.at;
        self.mean_rates.put(at, elapsed, outlook.mean_rate);
        self.advance(now, elapsed);
        self.values(path, outlook, given).map(|value| value.clamp(-LARGEST, LARGEST) as f32)
    }

    fn values(&self, path: &PathView<'_>, outlook: &Outlook, given: f64) -> [f64; OBSERVED] {
        let now = path.now.as_secs_f64();
        let [arrivals, sendings] = [&self.arrivals, &self.sendings].map(|rate| rate.averages.get());
        let (waits, losses) = (self.waits.averages.get(), self.losses.averages.get());
        let mean = outlook.mean_rate.max(1.0);
        let ratio = |rate: f64| log(rate.max(0.0) / mean + 0.05);
        let time = |seconds: f64| log1p(seconds.max(0.0) / 0.02);
        let a_picture = mean * self.pictures.interval;
        let unknown = now - outlook.known_until;
        let former = self.mean_rates.former(mean);
        let (burst_bytes, burst_rate, passage_bytes, passage_rate) =
            path.last_burst.map_or((0.0, 0.0, 0.0, 0.0), |burst| {
                let (all, later) = burst.bytes;
                let arrival = burst.arrived_at.1.saturating_since(burst.arrived_at.0).as_secs_f64().max(1e-4);
                let passage = burst.left_at.saturating_since(burst.sent_at).as_secs_f64().max(LEAST_PASSAGE);
                let carried = burst.carried.as_f64();
                (all.as_f64(), later.as_f64() / arrival, carried, carried / passage)
            });
        let greatest = self.mean_rates.greatest(mean);
        let age = now - self.began_at.unwrap_or(now);
        [
            log(mean / 150e3) / 2.0,
            log(outlook.cautious_rate.max(1.0) / mean),
            log(outlook.path_rate.max(1.0) / mean),
            outlook.spread,
            time(outlook.scatter_time),
            time(unknown),
            log1p(outlook.on_the_way / (mean * outlook.round_trip.max(1e-3))),
            log(outlook.on_the_way / (mean * (unknown + 0.025)) + 0.05),
            time(outlook.wait),
            time(outlook.round_trip),
            time(outlook.last_round_trip - outlook.round_trip),
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
            time(now - outlook.round_trip - self.left_at),
            time(self.pauses.mean),
            time(self.pauses.longest),
            time(now - outlook.oldest_at - outlook.round_trip),
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
