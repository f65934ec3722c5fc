//! What a model sees of a call: what Sprout's filter makes of the path, and how packets lately left and arrived.

use std::cmp::Reverse;
use std::time::Duration;

use libm::{exp, log, log1p};
use lockstep_transport::AcknowledgedFragment;

use crate::PathView;
use crate::recent_least::RecentLeast;
use crate::sprout::Outlook;

/// How many values a model sees of a picture.
pub const OBSERVED: usize = 47;

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
    "wait for what is not the sender's own",
    "shortest round trip",
    "last round trip - shortest",
    "time since feedback",
    "frame interval",
    "age of the call, exp(-age / 2 s)",
    "nothing: 0 since a window beside others is no longer held",
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

const AVERAGES: [f64; 5] = [0.03, 0.1, 0.4, 1.6, 6.4];
/// Over what times former mean rates fade.
const FORMER: [f64; 2] = [1.0, 0.2];
/// Over what time the greatest mean rate is taken.
const RATE_MEMORY: Duration = Duration::from_secs(10);
/// Deliveries begin again after nothing was delivered for so long, seconds.
const RETURN_PAUSE: f64 = 0.3;
/// A frame is taken to be underway at least so long, seconds: what clocks and schedulers can tell apart.
const LEAST_PASSAGE: f64 = 0.004;
/// Deliveries nearer than this are one, seconds.
const LEAST_PAUSE: f64 = 0.001;
const PAUSE_WEIGHT: f64 = 0.1;
const LONGEST_WAIT_FADES: f64 = 0.4;
const LONGEST_PAUSE_FADES: f64 = 2.0;
const LARGEST: f64 = 4.0;

/// Sums since the last observation, averages over several times, and what was last.
#[derive(Debug)]
pub(super) struct History {
    began_at: Option<f64>,
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
    former_rates: Option<[f64; FORMER.len()]>,
    heard_at: f64,
    /// When the last packet had left the link, sender's clock, as if nothing else took time.
    left_at: f64,
    arrived_at: f64,
    mean_pause: f64,
    longest_pause: f64,
    /// The mean rate's greatest of late.
    greatest_rate: RecentLeast<Reverse<f64>>,
    returned_at: f64,
    /// Bytes sent since the present picture, and for the one before; what that was given.
    picture: f64,
    last_picture: f64,
    frame_interval: f64,
}

impl History {
    pub fn new(frame_interval: f64) -> Self {
        Self {
            began_at: None,
            at: 0.0,
            arrived: 0.0,
            sent: 0.0,
            packets: 0.0,
            lost: 0.0,
            waited: 0.0,
            last_wait: 0.0,
            longest_wait: 0.0,
            arrival_rates: [0.0; AVERAGES.len()],
            sending_rates: [0.0; AVERAGES.len()],
            waits: [0.0; AVERAGES.len()],
            losses: [0.0; AVERAGES.len()],
            former_rates: None,
            heard_at: 0.0,
            left_at: 0.0,
            arrived_at: 0.0,
            mean_pause: 0.0,
            longest_pause: 0.0,
            greatest_rate: RecentLeast::new(),
            returned_at: 0.0,
            picture: 0.0,
            last_picture: 0.0,
            frame_interval,
        }
    }

    /// So many bytes left.
    pub fn sent(&mut self, bytes: f64) {
        self.sent += bytes;
        self.picture += bytes;
    }

    pub fn lost(&mut self, packets: usize) {
        self.lost += packets as f64;
    }

    /// Feedback arrived.
    pub fn on_feedback(&mut self, path: &PathView<'_>, arrivals: &[AcknowledgedFragment]) {
        self.heard_at = path.now.as_secs_f64();
        for (arrival, wait) in arrivals.iter().zip(path.queueing_delays) {
            // Fragments may be acknowledged in another order than they were sent in.
            let wait = wait.queued.as_secs_f64();
            let (bytes, at) = (arrival.size.as_f64(), arrival.arrived_at.as_secs_f64());
            self.arrived += bytes;
            self.packets += 1.0;
            self.waited += wait;
            self.last_wait = wait;
            self.longest_wait = self.longest_wait.max(wait);
            self.left_at = self.left_at.max(arrival.sent_at.as_secs_f64() + wait);
            let pause = at - self.arrived_at;
            if pause > LEAST_PAUSE && self.arrived_at > 0.0 {
                self.mean_pause += PAUSE_WEIGHT * (pause - self.mean_pause);
                self.longest_pause = self.longest_pause.max(pause);
            }
            self.arrived_at = self.arrived_at.max(at);
            if pause > RETURN_PAUSE {
                self.returned_at = self.heard_at;
            }
        }
    }

    /// Whether anything is known to have arrived.
    pub fn has_heard(&self) -> bool {
        self.heard_at > 0.0
    }

    /// For how long the path has delivered since it last paused, at `now`.
    fn since_return(&self, now: f64) -> f64 {
        (now - self.returned_at).max(0.0)
    }

    /// By how much the natural logarithm of the mean rate is another than a second ago.
    pub fn change(&self, mean_rate: f64) -> f64 {
        let former = self.former_rates.map_or(mean_rate, |former| former[0]);
        log(mean_rate.max(1.0) / former.max(1.0)).abs()
    }

    /// The next picture begins.
    pub fn next(&mut self) {
        (self.last_picture, self.picture) = (self.picture, 0.0);
    }

    /// Brings the averages up to `now` and begins new sums.
    fn advance(&mut self, now: f64, mean_rate: f64) {
        let former = self.former_rates.get_or_insert([mean_rate; FORMER.len()]);
        let elapsed = now - self.at;
        if elapsed <= 0.0 {
            return;
        }
        for (rate, time) in former.iter_mut().zip(FORMER) {
            *rate += (1.0 - exp(-elapsed / time)) * (mean_rate - *rate);
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
        self.longest_wait *= exp(-elapsed / LONGEST_WAIT_FADES);
        self.longest_pause *= exp(-elapsed / LONGEST_PAUSE_FADES);
        self.at = now;
        (self.arrived, self.sent, self.packets, self.lost, self.waited) = (0.0, 0.0, 0.0, 0.0, 0.0);
    }

    /// What is seen of the path, with what Sprout makes of it, and what the last picture was given.
    pub fn observe(&mut self, path: &PathView<'_>, outlook: &Outlook, given: f64) -> [f32; OBSERVED] {
        let at = path.now;
        let now = at.as_secs_f64();
        if self.began_at.is_none() {
            (self.began_at, self.at) = (Some(now), now);
        }
        self.advance(now, outlook.mean_rate);
        self.greatest_rate.put(at, Reverse(outlook.mean_rate), RATE_MEMORY);
        self.values(path, outlook, given).map(|value| value.clamp(-LARGEST, LARGEST) as f32)
    }

    fn values(&self, path: &PathView<'_>, outlook: &Outlook, given: f64) -> [f64; OBSERVED] {
        let now = path.now.as_secs_f64();
        let Self { arrival_rates: arrivals, sending_rates: sendings, waits, losses, .. } = self;
        let mean = outlook.mean_rate.max(1.0);
        let ratio = |rate: f64| log(rate.max(0.0) / mean + 0.05);
        let time = |seconds: f64| log1p(seconds.max(0.0) / 0.02);
        let a_picture = mean * self.frame_interval;
        let unknown = now - outlook.known_until;
        let former = self.former_rates.unwrap_or([mean; FORMER.len()]);
        let (burst_bytes, burst_rate, passage_bytes, passage_rate) =
            path.last_burst.map_or((0.0, 0.0, 0.0, 0.0), |burst| {
                let (all, later) = burst.bytes;
                let arrival = burst.arrived_at.1.saturating_since(burst.arrived_at.0).as_secs_f64().max(1e-4);
                let passage = burst.left_at.saturating_since(burst.sent_at).as_secs_f64().max(LEAST_PASSAGE);
                let carried = burst.carried.as_f64();
                (all.as_f64(), later.as_f64() / arrival, carried, carried / passage)
            });
        let greatest = self.greatest_rate.get().map_or(mean, |Reverse(rate)| rate.max(mean));
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
            time(outlook.outside),
            time(outlook.round_trip),
            time(outlook.last_round_trip - outlook.round_trip),
            time(now - self.heard_at),
            time(self.frame_interval),
            exp(-age / 2.0),
            0.0,
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
            time(self.last_wait),
            time(self.longest_wait),
            losses[2],
            losses[4],
            ratio(sendings[0]),
            ratio(sendings[1]),
            ratio(sendings[2]),
            ratio(burst_rate),
            log1p(burst_bytes / a_picture),
            time(now - outlook.round_trip - self.left_at),
            time(self.mean_pause),
            time(self.longest_pause),
            time(now - outlook.oldest_at - outlook.round_trip),
            log(self.last_picture / a_picture + 0.05),
            log(given / a_picture + 0.05),
            log(former[0].max(1.0) / mean),
            log(former[1].max(1.0) / mean),
            log(greatest / mean),
            ratio(passage_rate),
            log1p(passage_bytes / a_picture),
            time(self.since_return(now)),
        ]
    }
}
