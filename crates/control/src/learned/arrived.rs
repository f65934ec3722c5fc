//! Statistics of the arrivals between two decisions at the receiver: rate, queueing delay, loss.

use std::time::Duration;

use lockstep_transport::Arrival;
use lockstep_units::Timestamp;

use crate::base_delay::BaseDelay;

/// Interval between two decisions of estimators at the receiver (AlphaRTC; BoB's paper).
pub(super) const INTERVAL: Duration = Duration::from_millis(200);
/// Window of the base delay. Clocks that drift by 50 ppm add an error of 3 ms. A queue that stands longer counts as
/// base delay.
const BASE_MEMORY: Duration = Duration::from_secs(60);
/// Bounds of the scale of rates in AlphaRTC's gym and in BoB: the rates at 0 and at 1, bit/s.
const SCALE_BPS: (f64, f64) = (1e4, 8e6);

/// A rate in bit/s on a logarithmic scale from 10 kb/s (0) to 8 Mb/s (1), clipped.
pub(super) fn scaled(rate_bps: f64) -> f32 {
    let (least, most) = SCALE_BPS;
    (libm::log(rate_bps.clamp(least, most) / least) / libm::log(most / least)) as f32
}

/// The rate in bit/s at a position of that scale, which is first clipped to 0-1.
pub(super) fn linear(place: f64) -> f64 {
    let (least, most) = SCALE_BPS;
    least * libm::pow(most / least, place.clamp(0.0, 1.0))
}

/// Arrivals of one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Summary {
    /// Rate over the whole interval with headers, bit/s.
    pub rate_bps: f64,
    /// Mean queueing delay of packets, seconds. Without packets, the delay of the last one.
    pub waited: f64,
    /// Share of the expected packets that did not arrive, 0 to 1.
    pub loss: f64,
}

/// Counter of arrivals.
#[derive(Debug)]
pub(super) struct Arrived {
    base_delay: BaseDelay,
    bytes: u64,
    packets: u64,
    waited: f64,
    last_waited: f64,
    /// Highest sequence number, and its value at the last [`Arrived::take`].
    highest: Option<u64>,
    counted: Option<u64>,
}

impl Arrived {
    pub(super) fn new() -> Self {
        Self {
            base_delay: BaseDelay::new(BASE_MEMORY),
            bytes: 0,
            packets: 0,
            waited: 0.0,
            last_waited: 0.0,
            highest: None,
            counted: None,
        }
    }

    /// Adds an arrival. Returns its queueing delay, seconds.
    pub(super) fn on_arrival(&mut self, arrival: &Arrival) -> f64 {
        let waited = self.base_delay.queueing_delay(arrival.sent_at, arrival.arrived_at).as_secs_f64();
        self.bytes = self.bytes.saturating_add(arrival.size.get());
        self.packets += 1;
        self.waited += waited;
        self.last_waited = waited;
        self.highest = Some(self.highest.map_or(arrival.sequence, |highest| highest.max(arrival.sequence)));
        self.counted.get_or_insert(arrival.sequence.saturating_sub(1));
        waited
    }

    /// Statistics of the [`INTERVAL`] that has ended. A new one starts.
    pub(super) fn take(&mut self) -> Summary {
        let due = self.highest.unwrap_or(0).saturating_sub(self.counted.unwrap_or(0));
        self.counted = self.highest;
        let (bytes, packets) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.packets));
        let waited = std::mem::take(&mut self.waited);
        Summary {
            rate_bps: bytes as f64 * 8.0 / INTERVAL.as_secs_f64(),
            waited: if packets == 0 { self.last_waited } else { waited / packets as f64 },
            // Overtaken packets of earlier intervals compensate for some missing ones.
            loss: if due == 0 { 0.0 } else { due.saturating_sub(packets) as f64 / due as f64 },
        }
    }
}

/// Timer of decisions: every [`INTERVAL`] from the first arrival on, also without arrivals.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DecisionTimer {
    due: Option<Timestamp>,
}

/// Maximum number of decisions during a silence; more would not change the result.
const MAX_MISSED_DECISIONS: u32 = 25;

impl DecisionTimer {
    /// Starts the timer at the first packet.
    pub(super) fn begin(&mut self, now: Timestamp, interval: Duration) {
        self.due.get_or_insert(now + interval);
    }

    /// Time of the next decision that is due by `now`.
    pub(super) fn next(&mut self, now: Timestamp, interval: Duration) -> Option<Timestamp> {
        let mut due = self.due.filter(|&due| due <= now)?;
        if now.saturating_since(due) > interval * MAX_MISSED_DECISIONS {
            due = now;
        }
        self.due = Some(due + interval);
        Some(due)
    }
}

/// A packet of 1,000 bytes with its sending and arrival time in milliseconds and its sequence number.
#[cfg(test)]
pub(super) fn arrival(sent: u64, arrived: u64, sequence: u64) -> Arrival {
    Arrival {
        arrived_at: Timestamp::from_millis(arrived),
        sent_at: Timestamp::from_millis(sent),
        size: lockstep_units::ByteCount::new(1_000),
        sequence,
        frame: 0,
        fragment: 0,
        grace: Duration::ZERO,
        congestion_experienced: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_delay_and_loss_match_manual_results() {
        let mut arrived = Arrived::new();
        for packet in [arrival(0, 50, 4), arrival(20, 80, 5), arrival(40, 110, 7)] {
            arrived.on_arrival(&packet);
        }
        let summary = arrived.take();
        assert_eq!(summary.rate_bps, 120_000.0);
        assert!((summary.waited - 0.01).abs() < 1e-9 && (summary.loss - 0.25).abs() < 1e-9, "{summary:?}");
        // Nothing arrived: no loss is known, and the delay of the last packet remains.
        assert_eq!(arrived.take(), Summary { rate_bps: 0.0, waited: 0.02, loss: 0.0 });
    }

    #[test]
    fn scale_of_rates_round_trips() {
        for rate in [1e4, 3e5, 8e6] {
            assert!((linear(f64::from(scaled(rate))) / rate - 1.0).abs() < 1e-5, "{rate}");
        }
        assert_eq!((scaled(1.0), scaled(1e9)), (0.0, 1.0));
    }

    #[test]
    fn decisions_during_silence_are_bounded() {
        let mut rhythm = DecisionTimer::default();
        rhythm.begin(Timestamp::from_millis(100), INTERVAL);
        let mut count = |until| std::iter::from_fn(|| rhythm.next(Timestamp::from_millis(until), INTERVAL)).count();
        assert_eq!((count(299), count(1_100), count(3_600_000)), (0, 5, 1));
    }
}
