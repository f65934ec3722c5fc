//! The estimate from delays: groups, trendline, overuse detector and rate control, one after the other.

use std::time::Duration;

use lockstep_transport::AcknowledgedFragment;
use lockstep_units::{Bitrate, Timestamp};

use super::arrival_groups::ArrivalGroups;
use super::overuse::{OveruseDetector, Usage};
use super::rate_control::RateControl;
use super::trendline::Trendline;
use crate::RateBounds;

/// After so long without feedback what was known of delays is forgotten.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What feedback changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DelayBasedUpdate {
    /// The new estimate.
    pub(super) rate: Bitrate,
    /// Whether it is a probe's.
    pub(super) probed: bool,
    /// Whether a queue has just been drained.
    pub(super) recovered: bool,
}

/// `DelayBasedBwe` in WebRTC.
#[derive(Debug, Clone)]
pub(super) struct DelayBased {
    groups: ArrivalGroups,
    trendline: Trendline,
    detector: OveruseDetector,
    control: RateControl,
    heard_at: Option<Timestamp>,
    /// Whether a queue marked a fragment, and the rate was not decreased since.
    marked: bool,
    /// Marks of fragments that were sent before this have had their decrease.
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
            heard_at: None,
            marked: false,
            decreased_at: Timestamp::ZERO,
            samples: 0,
        }
    }

    pub(super) fn rate(&self) -> Bitrate {
        self.control.rate()
    }

    /// How often the trend was judged over a full window.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    pub(super) fn set_round_trip(&mut self, round_trip: Duration) {
        self.control.set_round_trip(round_trip);
    }

    /// These fragments arrived; `throughput` comes through, and a probe may have measured `probe`. None if the estimate
    /// stays as it is.
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
        // What a queue marks is congested (RFC 3168, section 5), so that a mark says what the detector would: too much.
        // It stands until the rate was decreased for it, once for all that was on the way.
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
            // The path is overused before anything is known of what comes through.
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
        if self.heard_at.is_none_or(|at| now.saturating_since(at) > TIMEOUT) {
            self.groups = ArrivalGroups::default();
            self.trendline = Trendline::default();
            self.detector = OveruseDetector::default();
        }
        self.heard_at = Some(now);
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

    /// Feedback for a datagram every 10 ms, each `growth` hundredths of a millisecond later than the one before.
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
    fn a_queue_that_grows_brings_the_rate_below_what_comes_through() {
        let (estimator, usage) = after(60, 100, Some(Bitrate::from_kbps(800)), None);
        assert_eq!((estimator.rate(), usage), (Bitrate::from_kbps(680), Usage::Over));
    }

    #[test]
    fn a_steady_delay_lets_it_grow() {
        let (estimator, usage) = after(60, 0, Some(Bitrate::from_kbps(800)), None);
        assert!(estimator.rate() > Bitrate::from_kbps(930) && usage == Usage::Normal, "{}", estimator.rate());
    }

    #[test]
    fn without_any_throughput_overuse_halves_it_each_fifth_of_a_second() {
        let (estimator, _) = after(60, 100, None, None);
        assert!(estimator.rate() <= Bitrate::from_kbps(480), "{}", estimator.rate());
    }

    #[test]
    fn a_probe_counts_unless_the_path_is_overused() {
        let probe = Some(Bitrate::from_kbps(3_000));
        assert_eq!(after(60, 0, Some(Bitrate::from_kbps(800)), probe).0.rate(), Bitrate::from_kbps(3_000));
        assert!(after(60, 100, Some(Bitrate::from_kbps(800)), probe).0.rate() <= Bitrate::from_kbps(700));
    }
}
