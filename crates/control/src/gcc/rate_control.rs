//! Rate control: additive or multiplicative increase and multiplicative decrease, driven by the overuse detector.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::link_capacity::LinkCapacity;
use super::overuse::Usage;
use crate::RateBounds;

/// Rate after overuse, as a share of the throughput (draft-ietf-rmcat-gcc-02, section 5.5).
const DECREASE: f64 = 0.85;
/// Growth factor per second far from the capacity (draft-ietf-rmcat-gcc-02, section 5.5).
const INCREASE: f64 = 1.08;
/// Minimum growth, bit/s per second. WebRTC adds 1 kb/s per feedback and expects feedback every 50 ms. Here the
/// feedback interval varies, so growth depends on time only.
const MIN_INCREASE_BPS_PER_SECOND: f64 = 20_000.0;
/// Longest step of a multiplicative increase.
const MAX_STEP: Duration = Duration::from_secs(1);
/// Upper bound of the rate: this multiple of the throughput plus this many bit/s.
const MAX_RATE_OVER_THROUGHPUT: (f64, u64) = (1.5, 10_000);
/// Detector time. Near the capacity, the rate grows by one packet per response time: twice the sum of round-trip time
/// and this.
const DETECTION_TIME: Duration = Duration::from_millis(100);
/// Size of a packet in that growth: frames at 30 per second, split into packets of 1200 bytes.
const PACKET: ByteCount = ByteCount::new(1_200);
const FRAME_INTERVAL: Duration = Duration::from_nanos(33_333_333);
/// Minimum growth near the capacity, bit/s per second.
const MIN_ADDITIVE_BPS_PER_SECOND: f64 = 4_000.0;
/// Bounds of the time between two decreases, which is otherwise a round trip. It does not apply if the throughput is
/// below half the rate.
const DECREASE_INTERVAL_BOUNDS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));
/// Round-trip time before the first measurement.
const INITIAL_ROUND_TRIP: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
}

/// Rate control (`AimdRateControl` in WebRTC).
#[derive(Debug, Clone)]
pub(super) struct RateControl {
    bounds: RateBounds,
    rate: Bitrate,
    throughput: Bitrate,
    link_capacity: LinkCapacity,
    state: State,
    changed_at: Option<Timestamp>,
    round_trip: Duration,
    throughput_bounds_growth: bool,
}

impl RateControl {
    /// `throughput_bounds_growth` as in [`Settings`](super::Settings).
    pub(super) fn new(bounds: RateBounds, throughput_bounds_growth: bool) -> Self {
        Self {
            bounds,
            rate: bounds.initial,
            throughput: bounds.initial,
            link_capacity: LinkCapacity::default(),
            state: State::Hold,
            changed_at: None,
            round_trip: INITIAL_ROUND_TRIP,
            throughput_bounds_growth,
        }
    }

    pub(super) fn rate(&self) -> Bitrate {
        self.rate
    }

    pub(super) fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// Sets the rate, for example after a probe.
    pub(super) fn set_rate(&mut self, now: Timestamp, rate: Bitrate) {
        self.rate = self.bounded(rate);
        self.changed_at = Some(now);
    }

    /// Whether the effect of the last change is visible by now, or the throughput is too low to wait.
    pub(super) fn may_decrease(&self, now: Timestamp, throughput: Bitrate) -> bool {
        let interval = self.round_trip.clamp(DECREASE_INTERVAL_BOUNDS.0, DECREASE_INTERVAL_BOUNDS.1);
        self.changed_at.is_none_or(|at| now.saturating_since(at) >= interval) || throughput < self.rate.mul_f64(0.5)
    }

    /// Updates the rate from the use of the path and the throughput, if known. Returns the new rate.
    pub(super) fn update(&mut self, now: Timestamp, usage: Usage, throughput: Option<Bitrate>) -> Bitrate {
        self.throughput = throughput.unwrap_or(self.throughput);
        match usage {
            Usage::Over => self.decrease(now),
            // Wait while the queue drains.
            Usage::Under => self.state = State::Hold,
            Usage::Normal => {
                if self.state == State::Hold {
                    self.state = State::Increase;
                    self.changed_at = Some(now);
                }
                self.increase(now);
            }
        }
        self.rate
    }

    fn increase(&mut self, now: Timestamp) {
        if self.link_capacity.is_exceeded_by(self.throughput) {
            self.link_capacity.reset();
        }
        let since = now.saturating_since(self.changed_at.unwrap_or(now));
        self.changed_at = Some(now);
        let (factor, constant) = MAX_RATE_OVER_THROUGHPUT;
        let limit = if self.throughput_bounds_growth {
            self.throughput.mul_f64(factor) + Bitrate::from_bps(constant)
        } else {
            self.bounds.max
        };
        if self.rate >= limit {
            return;
        }
        let rate = self.rate.as_bps() as f64;
        let growth = if self.link_capacity.estimate().is_some() {
            self.additive_a_second() * since.as_secs_f64()
        } else {
            let since = since.min(MAX_STEP).as_secs_f64();
            (rate * (libm::pow(INCREASE, since) - 1.0)).max(MIN_INCREASE_BPS_PER_SECOND * since)
        };
        self.rate = self.bounded(Bitrate::from_bps((rate + growth).round() as u64).min(limit));
    }

    /// Growth of one packet per response time, bit/s per second.
    fn additive_a_second(&self) -> f64 {
        let frame = self.rate.bytes_in(FRAME_INTERVAL).as_f64();
        let packet = frame / (frame / PACKET.as_f64()).ceil().max(1.0);
        let response = (self.round_trip + DETECTION_TIME) * 2;
        (packet * 8.0 / response.as_secs_f64()).max(MIN_ADDITIVE_BPS_PER_SECOND)
    }

    fn decrease(&mut self, now: Timestamp) {
        let mut decreased = self.throughput.mul_f64(DECREASE);
        if decreased > self.rate
            && let Some(capacity) = self.link_capacity.estimate()
        {
            decreased = capacity.mul_f64(DECREASE);
        }
        self.rate = self.bounded(self.rate.min(decreased));
        if self.link_capacity.is_missed_by(self.throughput) {
            self.link_capacity.reset();
        }
        self.link_capacity.on_overuse(self.throughput);
        self.state = State::Hold;
        self.changed_at = Some(now);
    }

    fn bounded(&self, rate: Bitrate) -> Bitrate {
        rate.clamp(self.bounds.min, self.bounds.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(kbps: u64) -> RateControl {
        let initial = Bitrate::from_kbps(kbps);
        RateControl::new(RateBounds { initial, ..RateBounds::default() }, true)
    }

    /// Normal use from `from` to `to`, with feedback every `step` milliseconds.
    fn normal(control: &mut RateControl, from: u64, to: u64, step: usize, throughput: u64) -> u64 {
        let times = (from..=to).step_by(step).map(Timestamp::from_millis);
        let rates = times.map(|at| control.update(at, Usage::Normal, Some(Bitrate::from_kbps(throughput))));
        rates.last().map_or(0, |rate| rate.as_bps() / 1_000)
    }

    #[test]
    fn growth_is_8_percent_per_second_at_any_feedback_interval() {
        let expected = (1_000.0 * libm::pow(1.08, 5.0)) as u64;
        for step in [2, 50, 100] {
            let rate = normal(&mut control(1_000), 0, 5_000, step, 2_000);
            assert!(rate.abs_diff(expected) <= 3, "{rate} with feedback every {step} ms");
        }
        let (often, seldom) =
            (normal(&mut control(50), 0, 5_000, 2, 500), normal(&mut control(50), 0, 5_000, 100, 500));
        assert!(
            often.abs_diff(150) <= 2 && seldom.abs_diff(150) <= 2,
            "low rates grow by 20 kb/s per second: {often}, {seldom}"
        );
    }

    #[test]
    fn unbounded_growth_exceeds_the_throughput() {
        let initial = Bitrate::from_kbps(1_000);
        let mut unbound = RateControl::new(RateBounds { initial, ..RateBounds::default() }, false);
        assert!(normal(&mut unbound, 0, 30_000, 50, 100) > 5_000);
    }

    #[test]
    fn growth_ends_at_1_5_times_the_throughput() {
        assert_eq!(normal(&mut control(300), 0, 60_000, 50, 400), 610);
    }

    #[test]
    fn overuse_leaves_85_percent_and_growth_is_additive_afterwards() {
        let mut control = control(1_200);
        control.set_round_trip(Duration::from_millis(100));
        let at = Timestamp::from_millis(100);
        let throughput = Bitrate::from_kbps(1_000);
        assert_eq!(control.update(at, Usage::Over, Some(throughput)), Bitrate::from_kbps(850));
        assert_eq!(control.update(at, Usage::Under, Some(throughput)), Bitrate::from_kbps(850), "held");
        // 850 kb/s are 3541 bytes per frame: three packets of 1180 bytes. One per 400 ms is 23.6 kb/s per second.
        let rate = normal(&mut control, 200, 700, 50, 1_000);
        assert!((861..=862).contains(&rate), "{rate}");
    }

    #[test]
    fn throughput_above_the_known_capacity_grows_by_a_factor() {
        let mut control = control(1_200);
        control.update(Timestamp::ZERO, Usage::Over, Some(Bitrate::from_kbps(1_000)));
        let rate = normal(&mut control, 0, 4_000, 50, 1_300);
        assert!((1_150..=1_160).contains(&rate), "{rate}");
    }

    #[test]
    fn decreases_wait_a_round_trip_unless_throughput_is_low() {
        let mut control = control(1_000);
        control.set_round_trip(Duration::from_millis(80));
        control.update(Timestamp::from_millis(100), Usage::Over, Some(Bitrate::from_kbps(1_000)));
        assert!(!control.may_decrease(Timestamp::from_millis(179), Bitrate::from_kbps(800)));
        assert!(control.may_decrease(Timestamp::from_millis(180), Bitrate::from_kbps(800)));
        assert!(control.may_decrease(Timestamp::from_millis(101), Bitrate::from_kbps(400)));
    }

    #[test]
    fn rate_stays_within_its_bounds() {
        let mut control = control(300);
        assert_eq!(control.update(Timestamp::ZERO, Usage::Over, Some(Bitrate::ZERO)), RateBounds::default().min);
        control.set_rate(Timestamp::ZERO, Bitrate::from_kbps(1_000_000));
        assert_eq!(control.rate(), RateBounds::default().max);
    }
}
