//! Whether the application sends less than it may, so that the path is not put to the test.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// The share of the target that counts as using it (`AlrDetector` in WebRTC).
const USED_SHARE: f64 = 0.65;
/// The budget is that of so much time.
const WINDOW: Duration = Duration::from_millis(500);
/// The application is limited from when this share of the budget is unused until when less than that is.
const START: f64 = 0.80;
const STOP: f64 = 0.50;

/// Keeps a budget of what the target lets through, less what was sent.
#[derive(Debug, Clone)]
pub(super) struct ApplicationLimit {
    /// A share of the target.
    rate: Bitrate,
    /// Bytes that could have been sent, or, below zero, that were sent beyond the budget.
    unused: f64,
    transmitted_at: Option<Timestamp>,
    since: Option<Timestamp>,
}

impl ApplicationLimit {
    pub(super) fn new(target: Bitrate) -> Self {
        Self { rate: target.mul_f64(USED_SHARE), unused: 0.0, transmitted_at: None, since: None }
    }

    /// The target is `target` from now on.
    pub(super) fn set_target(&mut self, target: Bitrate) {
        self.rate = target.mul_f64(USED_SHARE);
        let most = self.most();
        self.unused = self.unused.clamp(-most, most);
    }

    /// A datagram of `size` left.
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

    /// Since when the application is limited, if it is.
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

    /// After datagrams every 10 ms from `from` to `to` at this share of a target of 1 Mb/s.
    fn send(limit: &mut ApplicationLimit, from: u64, to: u64, share: f64) -> Option<Timestamp> {
        let size = ByteCount::new((1_250.0 * share) as u64);
        (from..to).step_by(10).for_each(|at| limit.on_transmit(Timestamp::from_millis(at), size));
        limit.since()
    }

    #[test]
    fn who_sends_less_than_two_thirds_of_the_target_is_limited() {
        let fresh = || ApplicationLimit::new(Bitrate::from_kbps(1_000));
        assert_eq!(send(&mut fresh(), 0, 10_000, 0.7), None);
        assert_eq!(send(&mut fresh(), 0, 10_000, 1.0), None);
        let since = send(&mut fresh(), 0, 10_000, 0.3).expect("limited");
        // 0.35 of 650 kb/s' worth of half a second build up 0.8 of it in three quarters of a second.
        assert!((700..=800).contains(&(since.as_micros() / 1_000)), "{since}");
    }

    #[test]
    fn it_ends_when_the_target_is_used_again() {
        let mut limit = ApplicationLimit::new(Bitrate::from_kbps(1_000));
        assert!(send(&mut limit, 0, 5_000, 0.1).is_some());
        assert!(send(&mut limit, 5_000, 5_200, 1.0).is_some(), "not at once");
        assert_eq!(send(&mut limit, 5_200, 6_000, 1.0), None);
    }

    #[test]
    fn a_pause_is_a_limit() {
        let mut limit = ApplicationLimit::new(Bitrate::from_kbps(1_000));
        send(&mut limit, 0, 1_000, 1.0);
        assert!(send(&mut limit, 3_000, 3_020, 1.0).is_some());
    }
}
