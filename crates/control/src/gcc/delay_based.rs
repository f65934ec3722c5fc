//! Delay-based estimate: groups, trend line, overuse detector and rate control in sequence.

use std::time::Duration;

use lockstep_transport::AcknowledgedFragment;
use lockstep_units::{Bitrate, Timestamp};

use super::arrival_groups::ArrivalGroups;
use super::overuse::{OveruseDetector, Usage};
use super::rate_control::RateControl;
use super::trendline::Trendline;
use crate::RateBounds;

/// Time without feedback after which the delay state is reset.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Result of feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DelayBasedUpdate {
    /// The new estimate.
    pub(super) rate: Bitrate,
    /// Whether a probe set the estimate.
    pub(super) probed: bool,
    /// Whether a queue has just drained.
    pub(super) recovered: bool,
}

/// Delay-based estimator (`DelayBasedBwe` in WebRTC).
#[derive(Debug, Clone)]
pub(super) struct DelayBased {
    groups: ArrivalGroups,
    trendline: Trendline,
    detector: OveruseDetector,
    control: RateControl,
    received_at: Option<Timestamp>,
    /// Whether a queue has marked a fragment and the rate has not decreased since.
    marked: bool,
    /// Time of the last decrease. Marks of fragments sent earlier are already applied.
    decreased_at: Timestamp,
    samples: u64,
}

impl DelayBased {
    /// `throughput_bounds_growth` as in [`Settings`](super::Settings).
    pub(super) fn new(bounds: RateBounds, throughput_bounds_growth: bool) -> Self {
        Self {
            groups: ArrivalGroups::default(),
            trendline: Trendline::default(),
            detector: OveruseDetector::default(),
            control: RateControl::new(bounds, throughput_bounds_growth),
            received_at: None,
            marked: false,
            decreased_at: Timestamp::ZERO,
            samples: 0,
        }
    }

    pub(super) fn rate(&self) -> Bitrate {
        self.control.rate()
    }

    /// Number of evaluations of the trend over a full window.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    pub(super) fn set_round_trip(&mut self, round_trip: Duration) {
        self.control.set_round_trip(round_trip);
    }

    /// Handles arrived fragments, the current throughput and the result of a probe, if any. Returns none if the
    /// estimate does not change.
    pub(super) fn on_feedback(
        &mut self,
        now: Timestamp,
        acknowledged: &[AcknowledgedFragment],
        throughput: Option<Bitrate>,
        probe: Option<Bitrate>,
    ) -> Option<DelayBasedUpdate> {
        let mut recovered = false;
        for fragment in acknowledged {
            let before = self.detector.usage();
            self.take(now, fragment);
            recovered |= before == Usage::Under && self.detector.usage() == Usage::Normal;
        }
        // A mark means congestion (RFC 3168, section 5), so it counts as overuse. It holds until the rate has decreased
        // once for all data in flight.
        let decreased_at = self.decreased_at;
        let mut marks = acknowledged.iter().filter(|fragment| fragment.congestion_experienced);
        self.marked |= marks.any(|fragment| fragment.sent_at >= decreased_at);
        let usage = if self.marked { Usage::Over } else { self.detector.usage() };
        let update = |rate| Some(DelayBasedUpdate { rate, probed: false, recovered });
        match (usage, throughput, probe) {
            (Usage::Over, Some(throughput), _) if self.control.may_decrease(now, throughput) => {
                self.decreased(now);
                update(self.control.update(now, usage, Some(throughput)))
            }
            // Overuse before any throughput is known.
            (Usage::Over, None, _) if self.control.may_decrease(now, self.control.rate()) => {
                self.decreased(now);
                self.control.set_rate(now, self.control.rate().mul_f64(0.5));
                update(self.control.rate())
            }
            (Usage::Over, ..) => None,
            (_, _, Some(probe)) => {
                self.control.set_rate(now, probe);
                Some(DelayBasedUpdate { rate: self.control.rate(), probed: true, recovered: false })
            }
            _ => update(self.control.update(now, usage, throughput)),
        }
    }

    fn decreased(&mut self, now: Timestamp) {
        (self.marked, self.decreased_at) = (false, now);
    }

    fn take(&mut self, now: Timestamp, fragment: &AcknowledgedFragment) {
        if self.received_at.is_none_or(|at| now.saturating_since(at) > TIMEOUT) {
            self.groups = ArrivalGroups::default();
            self.trendline = Trendline::default();
            self.detector = OveruseDetector::default();
        }
        self.received_at = Some(now);
        if let Some(deltas) = self.groups.on_acknowledged(fragment) {
            self.trendline.update(deltas, fragment.arrived_at);
            self.samples += u64::from(self.trendline.is_full());
            self.detector.update(&self.trendline, deltas.sent, fragment.arrived_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::acknowledged;
    use super::*;

    /// Feedback for datagrams every 10 ms. The delay grows by `growth` hundredths of a millisecond per datagram.
    fn after(datagrams: u64, growth: u64, throughput: Option<Bitrate>, probe: Option<Bitrate>) -> (DelayBased, Usage) {
        let mut estimator =
            DelayBased::new(RateBounds { initial: Bitrate::from_kbps(900), ..RateBounds::default() }, true);
        estimator.set_round_trip(Duration::from_millis(100));
        for number in 0..datagrams {
            let mut fragment = acknowledged(number * 10, 0, 1_200);
            fragment.arrived_at = Timestamp::from_micros(50_000 + number * 10_000 + number * growth * 10);
            estimator.on_feedback(fragment.arrived_at, &[fragment], throughput, probe);
        }
        let usage = estimator.detector.usage();
        (estimator, usage)
    }

    #[test]
    fn growing_queue_lowers_the_rate_below_the_throughput() {
        let (estimator, usage) = after(60, 100, Some(Bitrate::from_kbps(800)), None);
        assert_eq!((estimator.rate(), usage), (Bitrate::from_kbps(680), Usage::Over));
    }

    #[test]
    fn constant_delay_lets_the_rate_grow() {
        let (estimator, usage) = after(60, 0, Some(Bitrate::from_kbps(800)), None);
        assert!(estimator.rate() > Bitrate::from_kbps(930) && usage == Usage::Normal, "{}", estimator.rate());
    }

    #[test]
    fn overuse_without_throughput_halves_the_rate_every_200_ms() {
        let (estimator, _) = after(60, 100, None, None);
        assert!(estimator.rate() <= Bitrate::from_kbps(480), "{}", estimator.rate());
    }

    #[test]
    fn probe_sets_the_rate_unless_the_path_is_overused() {
        let probe = Some(Bitrate::from_kbps(3_000));
        assert_eq!(after(60, 0, Some(Bitrate::from_kbps(800)), probe).0.rate(), Bitrate::from_kbps(3_000));
        assert!(after(60, 100, Some(Bitrate::from_kbps(800)), probe).0.rate() <= Bitrate::from_kbps(700));
    }
}
