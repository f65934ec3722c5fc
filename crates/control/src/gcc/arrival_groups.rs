//! Groups of fragments that left in one burst, and the intervals between the groups.

use std::time::Duration;

use lockstep_transport::AcknowledgedFragment;
use lockstep_units::Timestamp;

/// Longest time between the first fragment of a group and the others, at the sender (draft-ietf-rmcat-gcc-02, section
/// 5.2).
const BURST: Duration = Duration::from_millis(5);
/// Longest pause between arrivals of fragments that waited and then arrived together. They form one group.
const BURST_PAUSE: Duration = Duration::from_millis(5);
/// Longest duration of such a group.
const MAX_BURST: Duration = Duration::from_millis(100);
/// If the receiver's clock gains this much between two groups, it jumped, and the state is reset.
const CLOCK_JUMP: Duration = Duration::from_secs(3);
/// Number of consecutive groups that arrived before their predecessor, before the state is reset.
const MAX_REORDERED_GROUPS: u32 = 3;

/// Intervals between two groups, both measured at their last fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupDeltas {
    /// Interval between their transmissions.
    pub(super) sent: Duration,
    /// Interval between their arrivals.
    pub(super) arrived: Duration,
}

impl GroupDeltas {
    /// Increase of the delay from the earlier to the later group, milliseconds.
    pub(super) fn delay_change_milliseconds(self) -> f64 {
        (self.arrived.as_secs_f64() - self.sent.as_secs_f64()) * 1e3
    }
}

#[derive(Debug, Clone, Copy)]
struct Group {
    first_sent: Timestamp,
    last_sent: Timestamp,
    first_arrived: Timestamp,
    last_arrived: Timestamp,
    acknowledged_at: Timestamp,
}

impl Group {
    fn of(fragment: &AcknowledgedFragment) -> Self {
        Self {
            first_sent: fragment.sent_at,
            last_sent: fragment.sent_at,
            first_arrived: fragment.arrived_at,
            last_arrived: fragment.arrived_at,
            acknowledged_at: fragment.acknowledged_at,
        }
    }

    fn takes(&self, fragment: &AcknowledgedFragment) -> bool {
        self.bursts_with(fragment) || fragment.sent_at.saturating_since(self.first_sent) <= BURST
    }

    /// Whether the fragment caught up with the group. Then it waited less than the group, and the interval between them
    /// shows nothing of the bottleneck.
    fn bursts_with(&self, fragment: &AcknowledgedFragment) -> bool {
        if fragment.sent_at == self.last_sent {
            return true;
        }
        let arrived = fragment.arrived_at.saturating_since(self.last_arrived);
        let sent = fragment.sent_at.saturating_since(self.last_sent);
        let overtook = fragment.arrived_at < self.last_arrived;
        (overtook || arrived < sent)
            && arrived <= BURST_PAUSE
            && fragment.arrived_at.saturating_since(self.first_arrived) < MAX_BURST
    }
}

/// Splits fragments into groups (`InterArrivalDelta` in WebRTC).
#[derive(Debug, Clone, Default)]
pub(super) struct ArrivalGroups {
    previous: Option<Group>,
    current: Option<Group>,
    reordered: u32,
}

impl ArrivalGroups {
    /// Adds an arrived fragment. If it starts a new group, returns the intervals between the two groups before it.
    pub(super) fn on_acknowledged(&mut self, fragment: &AcknowledgedFragment) -> Option<GroupDeltas> {
        let Some(current) = &mut self.current else {
            self.current = Some(Group::of(fragment));
            return None;
        };
        if fragment.sent_at < current.first_sent {
            return None;
        }
        if current.takes(fragment) {
            current.last_sent = current.last_sent.max(fragment.sent_at);
            current.last_arrived = fragment.arrived_at;
            current.acknowledged_at = fragment.acknowledged_at;
            return None;
        }
        let current = *current;
        let deltas = match self.previous {
            None => None,
            Some(previous) => {
                let arrived = current.last_arrived.saturating_since(previous.last_arrived);
                let elapsed = current.acknowledged_at.saturating_since(previous.acknowledged_at);
                if arrived >= elapsed + CLOCK_JUMP {
                    *self = Self::default();
                    return None;
                }
                if current.last_arrived < previous.last_arrived {
                    self.reordered += 1;
                    if self.reordered >= MAX_REORDERED_GROUPS {
                        *self = Self::default();
                    }
                    return None;
                }
                self.reordered = 0;
                Some(GroupDeltas { sent: current.last_sent.saturating_since(previous.last_sent), arrived })
            }
        };
        self.previous = Some(current);
        self.current = Some(Group::of(fragment));
        deltas
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::acknowledged;
    use super::*;

    fn deltas(times: &[(u64, u64)]) -> Vec<(u128, u128)> {
        let mut groups = ArrivalGroups::default();
        let seen =
            times.iter().filter_map(|&(sent, arrived)| groups.on_acknowledged(&acknowledged(sent, arrived, 1000)));
        seen.map(|deltas| (deltas.sent.as_millis(), deltas.arrived.as_millis())).collect()
    }

    #[test]
    fn groups_are_compared_when_a_third_one_begins() {
        let times = [(0, 50), (2, 57), (5, 64), (20, 80), (22, 88), (40, 98)];
        assert_eq!(deltas(&times), [(17, 24)]);
    }

    #[test]
    fn fragments_that_arrive_together_after_a_pause_are_one_group() {
        // Sent every 10 ms, held until 200 ms, then released within a few milliseconds.
        let held = [(0, 50), (10, 60), (20, 200), (30, 201), (40, 203), (50, 204), (90, 240), (130, 280)];
        assert_eq!(deltas(&held), [(10, 10), (40, 144), (40, 36)]);
    }

    #[test]
    fn burst_lasts_at_most_100_ms() {
        let times: Vec<_> = (0..100).map(|fragment| (fragment * 10, 1_000 + fragment * 4)).collect();
        assert!(deltas(&times).len() >= 2, "{:?}", deltas(&times));
    }

    #[test]
    fn fragment_older_than_the_group_is_ignored() {
        assert_eq!(deltas(&[(0, 50), (20, 70), (10, 72), (40, 90), (60, 110)]), [(20, 20), (20, 20)]);
    }

    #[test]
    fn clock_jump_of_the_receiver_resets_the_groups() {
        let jump = 10_000;
        let mut groups = ArrivalGroups::default();
        let mut seen = 0;
        for (sent, arrived) in [(0, 50), (20, 70), (40, 90), (60, 110 + jump), (80, 130 + jump), (100, 150 + jump)] {
            let mut fragment = acknowledged(sent, arrived, 1000);
            fragment.acknowledged_at = Timestamp::from_millis(sent + 100);
            if let Some(deltas) = groups.on_acknowledged(&fragment) {
                seen += 1;
                assert!(deltas.arrived < Duration::from_secs(1));
            }
        }
        assert_eq!(seen, 2);
    }
}
