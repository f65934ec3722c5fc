//! Detector of an application limit: the application sends less than its target, so the path is not tested.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Share of the target that counts as full use (`AlrDetector` in WebRTC).
const USED_SHARE: f64 = 0.65;
/// Time that the budget covers.
const WINDOW: Duration = Duration::from_millis(500);
/// The limit starts when more than the first share of the budget is unused. It ends below the second share.
const START: f64 = 0.80;
const STOP: f64 = 0.50;

/// Budget of the bytes that the target allows, minus the sent bytes.
#[derive(Debug, Clone)]
pub(super) struct ApplicationLimit {
    /// Used share of the target.
    rate: Bitrate,
    /// Unused bytes of the budget; negative if more than the budget was sent.
    unused: f64,
    transmitted_at: Option<Timestamp>,
    since: Option<Timestamp>,
}

impl ApplicationLimit {
    pub(super) fn new(target: Bitrate) -> Self {
        Self { rate: target.mul_f64(USED_SHARE), unused: 0.0, transmitted_at: None, since: None }
    }

    /// Sets the target.
    pub(super) fn set_target(&mut self, target: Bitrate) {
        self.rate = target.mul_f64(USED_SHARE);
        let most = self.most();
        self.unused = self.unused.clamp(-most, most);
    }

    /// Records that a datagram of `size` was sent.
    pub(super) fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        let Some(before) = self.transmitted_at.replace(now) else { return };
        let most = self.most();
        let earned = self.rate.bytes_in(now.saturating_since(before).min(WINDOW * 2)).as_f64();
        self.unused = ((self.unused - size.as_f64()).max(-most) + earned).min(most);
        let share = if most > 0.0 { self.unused / most } else { 0.0 };
        if share > START {
            self.since.get_or_insert(now);
        } else if share < STOP {
            self.since = None;
        }
    }

    /// Start of the current application limit; none if there is no limit.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn most(&self) -> f64 {
        self.rate.bytes_in(WINDOW).as_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends datagrams every 10 ms from `from` to `to`, at this share of a target of 1 Mb/s.
    fn send(limit: &mut ApplicationLimit, from: u64, to: u64, share: f64) -> Option<Timestamp> {
        let size = ByteCount::new((1_250.0 * share) as u64);
        (from..to).step_by(10).for_each(|at| limit.on_transmit(Timestamp::from_millis(at), size));
        limit.since()
    }

    #[test]
    fn use_below_65_percent_of_the_target_is_a_limit() {
        let fresh = || ApplicationLimit::new(Bitrate::from_kbps(1_000));
        assert_eq!(send(&mut fresh(), 0, 10_000, 0.7), None);
        assert_eq!(send(&mut fresh(), 0, 10_000, 1.0), None);
        let since = send(&mut fresh(), 0, 10_000, 0.3).expect("limited");
        // A surplus of 0.35 of 650 kb/s fills 0.8 of the half-second budget in three quarters of a second.
        assert!((700..=800).contains(&(since.as_micros() / 1_000)), "{since}");
    }

    #[test]
    fn limit_ends_when_the_target_is_used_again() {
        let mut limit = ApplicationLimit::new(Bitrate::from_kbps(1_000));
        assert!(send(&mut limit, 0, 5_000, 0.1).is_some());
        assert!(send(&mut limit, 5_000, 5_200, 1.0).is_some(), "not at once");
        assert_eq!(send(&mut limit, 5_200, 6_000, 1.0), None);
    }

    #[test]
    fn pause_is_a_limit() {
        let mut limit = ApplicationLimit::new(Bitrate::from_kbps(1_000));
        send(&mut limit, 0, 1_000, 1.0);
        assert!(send(&mut limit, 3_000, 3_020, 1.0).is_some());
    }
}
