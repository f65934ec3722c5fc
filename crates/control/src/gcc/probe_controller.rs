//! Decision when to probe and at which rates.

use std::time::Duration;

use lockstep_units::{Bitrate, Timestamp};

use super::settings::Probing;
use crate::RateBounds;

/// Rates of the first probes, as multiples of the initial rate (`ProbeController` in WebRTC).
const FIRST_PROBES: [f64; 2] = [3.0, 6.0];
/// Rate of a further probe, as a multiple of the estimate. The estimate must exceed the second share of the last probe.
const FURTHER_PROBE: f64 = 2.0;
const FURTHER_THRESHOLD: f64 = 0.7;
/// Longest wait for a result.
const RESULT_TIMEOUT: Duration = Duration::from_secs(1);
/// A large drop leaves less than this share of the estimate.
const LARGE_DROP: f64 = 0.66;
/// Longest time from a large drop until the queue has drained, for a recovery probe.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);
/// Rate of a recovery probe, as a share of the estimate before the drop.
const RECOVERY_PROBE: f64 = 0.85;
/// Margin below the recovery probe's rate. If the estimate is within it, no probe is sent.
const UNCERTAINTY: f64 = 0.05;
/// Shortest time between two recovery probes.
const RECOVERY_INTERVAL: Duration = Duration::from_secs(5);
/// A recovery probe needs an application limit, now or this recently. Otherwise the media themselves test the path.
const LIMIT_ENDED_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval of probes during an application limit, and their rate as a multiple of the estimate.
const LIMITED_INTERVAL: Duration = Duration::from_secs(5);
const LIMITED_PROBE: f64 = 2.0;

/// Decides on probes. Its methods return the rates to probe.
#[derive(Debug, Clone)]
pub(super) struct ProbeController {
    bounds: RateBounds,
    probing: Probing,
    estimate: Bitrate,
    initiated_at: Option<Timestamp>,
    /// Whether a result is pending.
    waiting: bool,
    /// Estimate above which a further probe follows.
    further_above: Option<Bitrate>,
    /// Time of the last large drop, and the estimate before it.
    drop: Option<(Timestamp, Bitrate)>,
    recovery_at: Option<Timestamp>,
    limited_since: Option<Timestamp>,
    limit_ended_at: Option<Timestamp>,
}

impl ProbeController {
    pub(super) fn new(bounds: RateBounds, probing: Probing) -> Self {
        Self {
            bounds,
            probing,
            estimate: bounds.initial,
            initiated_at: None,
            waiting: false,
            further_above: None,
            drop: None,
            recovery_at: None,
            limited_since: None,
            limit_ended_at: None,
        }
    }

    /// Starts the call.
    pub(super) fn start(&mut self, now: Timestamp) -> Vec<Bitrate> {
        if self.probing == Probing::Never {
            return Vec::new();
        }
        let initial = self.bounds.initial;
        self.initiate(now, FIRST_PROBES.map(|scale| initial.mul_f64(scale)).to_vec(), true)
    }

    /// Sets the estimate.
    pub(super) fn set_estimate(&mut self, now: Timestamp, rate: Bitrate) -> Vec<Bitrate> {
        if rate < self.estimate.mul_f64(LARGE_DROP) {
            self.drop = Some((now, self.estimate));
        }
        self.estimate = rate;
        if self.waiting && self.further_above.is_some_and(|threshold| rate > threshold) {
            return self.initiate(now, vec![rate.mul_f64(FURTHER_PROBE)], true);
        }
        Vec::new()
    }

    /// Sets the start of the current application limit, if there is one.
    pub(super) fn set_limited(&mut self, now: Timestamp, since: Option<Timestamp>) {
        if self.limited_since.is_some() && since.is_none() {
            self.limit_ended_at = Some(now);
        }
        self.limited_since = since;
    }

    /// Handles a queue that drained after overuse.
    pub(super) fn on_recovered(&mut self, now: Timestamp) -> Vec<Bitrate> {
        let within = |at: Option<Timestamp>, time| at.is_some_and(|at| now.saturating_since(at) < time);
        let limited = self.limited_since.is_some() || within(self.limit_ended_at, LIMIT_ENDED_TIMEOUT);
        if self.probing != Probing::Always {
            return Vec::new();
        }
        let Some((at, before)) = self.drop else { return Vec::new() };
        let probe = before.mul_f64(RECOVERY_PROBE);
        if !limited
            || self.waiting
            || !within(Some(at), DROP_TIMEOUT)
            || within(self.recovery_at, RECOVERY_INTERVAL)
            || probe.mul_f64(1.0 - UNCERTAINTY) <= self.estimate
        {
            return Vec::new();
        }
        self.recovery_at = Some(now);
        self.initiate(now, vec![probe], false)
    }

    /// Advances the time.
    pub(super) fn process(&mut self, now: Timestamp) -> Vec<Bitrate> {
        let initiated_at = self.initiated_at.unwrap_or(now);
        if now.saturating_since(initiated_at) > RESULT_TIMEOUT {
            self.waiting = false;
            self.further_above = None;
        }
        match self.limited_since {
            Some(since)
                if self.probing == Probing::Always
                    && !self.waiting
                    && now.saturating_since(since.max(initiated_at)) >= LIMITED_INTERVAL =>
            {
                self.initiate(now, vec![self.estimate.mul_f64(LIMITED_PROBE)], true)
            }
            _ => Vec::new(),
        }
    }

    fn initiate(&mut self, now: Timestamp, mut rates: Vec<Bitrate>, mut further: bool) -> Vec<Bitrate> {
        for rate in &mut rates {
            if *rate > self.bounds.max {
                *rate = self.bounds.max;
                further = false;
            }
        }
        self.initiated_at = Some(now);
        self.waiting = further;
        self.further_above = rates.last().filter(|_| further).map(|rate| rate.mul_f64(FURTHER_THRESHOLD));
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u64; 0] = [];

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    fn kbps(rates: &[Bitrate]) -> Vec<u64> {
        rates.iter().map(|rate| rate.as_bps() / 1_000).collect()
    }

    fn started() -> ProbeController {
        let mut controller = ProbeController::new(RateBounds::default(), Probing::Always);
        assert_eq!(kbps(&controller.start(at(0))), [900, 1_800]);
        controller
    }

    /// A controller after its first probes, with 2 Mb/s, and 1 Mb/s from 3 s.
    fn dropped() -> ProbeController {
        let mut controller = started();
        controller.process(at(1_500));
        controller.set_estimate(at(2_000), Bitrate::from_kbps(2_000));
        controller.set_estimate(at(3_000), Bitrate::from_kbps(1_000));
        controller
    }

    #[test]
    fn probing_continues_while_its_results_grow() {
        let mut controller = started();
        assert_eq!(kbps(&controller.set_estimate(at(100), Bitrate::from_kbps(900))), NONE);
        assert_eq!(kbps(&controller.set_estimate(at(120), Bitrate::from_kbps(1_700))), [3_400]);
        assert_eq!(kbps(&controller.set_estimate(at(300), Bitrate::from_kbps(2_300))), NONE, "less than 0.7 of 3400");
    }

    #[test]
    fn late_result_starts_no_further_probe() {
        let mut controller = started();
        controller.process(at(1_001));
        assert_eq!(kbps(&controller.set_estimate(at(1_002), Bitrate::from_kbps(1_700))), NONE);
    }

    #[test]
    fn probes_end_at_the_bounds() {
        let most = Bitrate::from_kbps(1_000);
        let mut controller = ProbeController::new(RateBounds { max: most, ..RateBounds::default() }, Probing::Always);
        assert_eq!(kbps(&controller.start(at(0))), [900, 1_000]);
        assert_eq!(kbps(&controller.set_estimate(at(100), most)), NONE);
    }

    #[test]
    fn large_drop_while_limited_starts_one_probe_at_85_percent() {
        let mut controller = dropped();
        assert_eq!(kbps(&controller.on_recovered(at(3_500))), NONE, "the application is not limited");
        controller.set_limited(at(3_600), Some(at(3_600)));
        controller.set_limited(at(3_700), None);
        assert_eq!(kbps(&controller.on_recovered(at(3_800))), [1_700]);
        assert_eq!(kbps(&controller.on_recovered(at(4_200))), NONE);
    }

    #[test]
    fn old_drop_is_not_probed() {
        let mut controller = dropped();
        controller.set_limited(at(3_600), Some(at(3_600)));
        assert_eq!(kbps(&controller.on_recovered(at(8_100))), NONE);
    }

    #[test]
    fn limited_application_probes_every_5_seconds() {
        let mut controller = dropped();
        controller.set_limited(at(4_000), Some(at(4_000)));
        assert_eq!(kbps(&controller.process(at(8_999))), NONE);
        assert_eq!(kbps(&controller.process(at(9_000))), [2_000]);
        assert_eq!(kbps(&controller.process(at(13_999))), NONE);
        assert_eq!(kbps(&controller.process(at(14_000))), [2_000]);
    }

    #[test]
    fn disabled_probes_are_not_sent() {
        let at = Timestamp::from_millis;
        for (probing, first) in [(Probing::Always, 2), (Probing::AtStart, 2), (Probing::Never, 0)] {
            let mut controller = ProbeController::new(RateBounds::default(), probing);
            assert_eq!(controller.start(at(0)).len(), first, "{probing:?}");
            controller.set_limited(at(1_000), Some(at(1_000)));
            let limited = controller.process(at(20_000)).len();
            assert_eq!(limited, usize::from(probing == Probing::Always), "{probing:?}");
        }
    }
}
