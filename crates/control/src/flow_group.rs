//! Coupled congestion control (RFC 8699): flows of one sender that share a bottleneck divide their rate by priority.
//!
//! It works with any controller, and implements priorities (RFC 8867, section 6.1). The algorithm is the active flow
//! state exchange of section 5.3.1. It adds the rates that the controllers calculate and divides the sum by priority.
//! No flow gets more than it can use.
//!
//! One thing differs. The RFC sets each controller's rate to the rate of its flow. Here some controllers have a window
//! or follow the receiver, so their rate cannot be set. Instead each controller sees its flow scaled to its own rate.
//! The ratio of the two rates scales both the observed traffic and the allowance. Therefore the sum always consists of
//! the rates that the controllers calculate now.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, PathObserver, PathView, Traits};

/// A flow without transmissions for this long has paused. It leaves the group until it sends again (RFC 8699, section
/// 5.3.1, step 2).
const PAUSE: Duration = Duration::from_secs(1);
/// Lower bound of a flow's rate, so that ratios stay finite.
const MIN_BPS: f64 = 1_000.0;

/// A flow of the group.
#[derive(Debug, Clone, Copy)]
struct Member {
    priority: f64,
    /// Upper bound of the rate that the flow can use (DR of RFC 8699).
    desired_bps: f64,
    /// Rate that its controller calculates (`CC_R`).
    calculated_bps: f64,
    /// Rate that the group assigns (`FSE_R`).
    rate_bps: f64,
    sent_at: Option<Timestamp>,
}

impl Member {
    fn is_present(&self, now: Timestamp) -> bool {
        self.sent_at.is_some_and(|at| now.saturating_since(at) < PAUSE)
    }
}

/// Flows that share a bottleneck.
#[derive(Debug, Clone, Default)]
pub struct FlowGroup {
    members: Arc<Mutex<Vec<Member>>>,
}

impl FlowGroup {
    /// A group without flows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a flow of `priority` (above zero) that can use at most `most`. Returns a wrapper of `controller`, which
    /// controls the flow from now on.
    #[must_use]
    pub fn join(
        &self,
        controller: Box<dyn Controller>,
        setup: &ControllerSetup,
        priority: f64,
        most: Bitrate,
    ) -> Box<dyn Controller> {
        let member = Member {
            priority,
            desired_bps: most.as_bps() as f64,
            calculated_bps: MIN_BPS,
            rate_bps: MIN_BPS,
            sent_at: None,
        };
        let number = self.with(|members| {
            members.push(member);
            members.len() - 1
        });
        Box::new(Coupled {
            controller,
            path: PathObserver::new(setup.payload, &setup.tuning),
            group: self.clone(),
            number,
        })
    }

    fn with<R>(&self, act: impl FnOnce(&mut Vec<Member>) -> R) -> R {
        act(&mut self.members.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Divides the sum of the calculated rates by priority. No flow gets more than it can use.
fn distribute(members: &mut [Member], now: Timestamp) {
    let mut left: f64 =
        members.iter().filter(|member| member.is_present(now)).map(|member| member.calculated_bps).sum();
    let mut open: Vec<usize> = (0..members.len()).filter(|&number| members[number].is_present(now)).collect();
    while !open.is_empty() {
        let priorities: f64 = open.iter().map(|&number| members[number].priority).sum();
        let share = left / priorities;
        let full = open.iter().position(|&number| share * members[number].priority >= members[number].desired_bps);
        let Some(full) = full else {
            for number in open {
                members[number].rate_bps = share * members[number].priority;
            }
            return;
        };
        let member = &mut members[open.swap_remove(full)];
        member.rate_bps = member.desired_bps;
        left -= member.desired_bps;
    }
}

/// Controller of one flow of a group.
struct Coupled {
    controller: Box<dyn Controller>,
    /// The path in the scale that the controller sees.
    path: PathObserver,
    group: FlowGroup,
    number: usize,
}

impl Coupled {
    /// Assigned rate over calculated rate; 1 before the flow has sent anything.
    fn ratio(&self) -> f64 {
        let member = self.group.with(|members| members[self.number]);
        match member.sent_at {
            Some(_) => member.rate_bps.max(MIN_BPS) / member.calculated_bps.max(MIN_BPS),
            None => 1.0,
        }
    }

    /// Updates the group after the controller has calculated.
    fn update(&self, now: Timestamp) {
        let target = self.controller.allowance(&self.path.view(now), InFlight::default()).target;
        self.group.with(|members| {
            members[self.number].calculated_bps = (target.as_bps() as f64).max(MIN_BPS);
            distribute(members, now);
        });
    }
}

fn scaled(size: ByteCount, factor: f64) -> ByteCount {
    ByteCount::new((size.as_f64() * factor).round() as u64)
}

impl Coupled {
    fn pass(&mut self, now: Timestamp, input: Input<'_>) {
        self.path.pass(now, input, self.controller.as_mut());
    }

    fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        let seen = scaled(size, self.ratio().recip());
        self.pass(now, Input::Sent(seen));
        let back = self.group.with(|members| {
            let member = &mut members[self.number];
            let back = !member.is_present(now);
            member.sent_at = Some(now);
            back
        });
        if back {
            self.update(now);
        }
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        let factor = self.ratio().recip();
        let mut seen = feedback.clone();
        for fragment in &mut seen.acknowledged {
            fragment.size = scaled(fragment.size, factor);
        }
        self.pass(now, Input::Feedback(&seen));
        self.update(now);
    }

    fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        let factor = self.ratio().recip();
        let mut seen = lost.to_vec();
        for fragment in &mut seen {
            fragment.size = scaled(fragment.size, factor);
        }
        self.pass(now, Input::Lost(&seen));
    }

    /// `in_flight` in the controller's scale.
    fn seen(in_flight: InFlight, ratio: f64) -> InFlight {
        InFlight {
            fragments: (in_flight.fragments as f64 / ratio).round() as u64,
            bytes: scaled(in_flight.bytes, ratio.recip()),
            queued: scaled(in_flight.queued, ratio.recip()),
        }
    }
}

impl Controller for Coupled {
    fn traits(&self) -> Traits {
        self.controller.traits()
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::Feedback(feedback) => self.on_feedback(path.now, feedback),
            Input::Lost(lost) => self.on_loss(path.now, lost),
            Input::FeedbackSent(_) | Input::Encoded(_) | Input::Time | Input::PictureSkipped => {
                self.pass(path.now, input)
            }
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let ratio = self.ratio();
        let allowance = self.controller.allowance(&self.path.view(path.now), Self::seen(in_flight, ratio));
        Allowance {
            budget: scaled(allowance.budget, ratio),
            pacing_interval: allowance.pacing_interval.div_f64(ratio),
            target: allowance.target.mul_f64(ratio),
            capacity: allowance.capacity.map(|capacity| capacity.mul_f64(ratio)),
            behind_cross_traffic: scaled(allowance.behind_cross_traffic, ratio),
        }
    }

    fn pacing_interval(&self, path: &PathView<'_>, in_flight: InFlight) -> Duration {
        let ratio = self.ratio();
        self.controller.pacing_interval(&self.path.view(path.now), Self::seen(in_flight, ratio)).div_f64(ratio)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.controller.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::setup;
    use crate::{Fixed, Tuning};

    fn flows(group: &FlowGroup, rates: &[(u64, f64, u64)]) -> Vec<Box<dyn Controller>> {
        let join = |&(kbps, priority, most): &(u64, f64, u64)| {
            let controller = Box::new(Fixed::new(Bitrate::from_kbps(kbps), &setup()));
            group.join(controller, &setup(), priority, Bitrate::from_kbps(most))
        };
        rates.iter().map(join).collect()
    }

    fn targets(flows: &mut [Box<dyn Controller>], at: u64) -> Vec<u64> {
        let path = PathObserver::new(setup().payload, &Tuning::default());
        let path = path.view(Timestamp::from_millis(at));
        for flow in flows.iter_mut() {
            flow.handle(&path, Input::Sent(ByteCount::new(1_200)));
        }
        flows.iter().map(|flow| flow.allowance(&path, InFlight::default()).target.as_bps() / 1_000).collect()
    }

    #[test]
    fn sum_of_rates_is_divided_by_priority() {
        let mut flows = flows(&FlowGroup::new(), &[(900, 2.0, 9_000), (600, 1.0, 9_000), (300, 1.0, 9_000)]);
        assert_eq!(targets(&mut flows, 0), [900, 450, 450]);
    }

    #[test]
    fn rate_that_one_flow_cannot_use_goes_to_the_others() {
        let mut flows = flows(&FlowGroup::new(), &[(900, 2.0, 700), (600, 1.0, 9_000), (300, 1.0, 9_000)]);
        assert_eq!(targets(&mut flows, 0), [700, 550, 550]);
    }

    #[test]
    fn paused_flow_leaves_its_share_to_the_others() {
        let mut flows = flows(&FlowGroup::new(), &[(400, 1.0, 9_000), (800, 1.0, 9_000), (600, 1.0, 9_000)]);
        assert_eq!(targets(&mut flows, 0), [600, 600, 600]);
        // The first and the second flow resume, the third does not.
        assert_eq!(targets(&mut flows[..2], 2_000), [600, 600]);
        assert_eq!(targets(&mut flows, 2_100), [600, 600, 600]);
        let path = PathObserver::new(setup().payload, &Tuning::default());
        let path = path.view(Timestamp::from_millis(4_000));
        flows[2].handle(&path, Input::Sent(ByteCount::new(1_200)));
        assert_eq!(flows[2].allowance(&path, InFlight::default()).target.as_bps(), 600_000);
    }

    /// A controller of 600 kb/s whose bytes in flight wait behind cross traffic.
    struct BesideOthers;

    impl Controller for BesideOthers {
        fn traits(&self) -> Traits {
            Traits::ESTIMATING
        }

        fn handle(&mut self, _path: &PathView<'_>, _input: Input<'_>) {}

        fn allowance(&self, _path: &PathView<'_>, _in_flight: InFlight) -> Allowance {
            let (budget, target) = (ByteCount::new(2_000), Bitrate::from_kbps(600));
            let behind_cross_traffic = ByteCount::new(1_000);
            Allowance { behind_cross_traffic, ..Allowance::at_target(budget, Duration::from_millis(1), target) }
        }

        fn pacing_interval(&self, _path: &PathView<'_>, _in_flight: InFlight) -> Duration {
            Duration::from_millis(1)
        }

        fn counters(&self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
    }

    #[test]
    fn bytes_behind_cross_traffic_are_scaled_like_the_budget() {
        let group = FlowGroup::new();
        let mut flow = group.join(Box::new(BesideOthers), &setup(), 1.0, Bitrate::from_kbps(500));
        let observer = PathObserver::new(setup().payload, &setup().tuning);
        let path = observer.view(Timestamp::ZERO);
        flow.handle(&path, Input::Sent(ByteCount::new(1_200)));
        let allowance = flow.allowance(&path, InFlight::default());
        assert_eq!((allowance.budget.get(), allowance.behind_cross_traffic.get()), (1_667, 833));
    }
}
