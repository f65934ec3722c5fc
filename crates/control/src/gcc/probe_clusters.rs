//! Probes in transmission: datagrams that leave close together, at a rate above the target.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Smallest number of datagrams and duration of a probe (`ProbeController` and `BitrateProber` in WebRTC).
pub(super) const MIN_DATAGRAMS: u32 = 5;
pub(super) const DURATION: Duration = Duration::from_millis(15);
/// Share of a probe's datagrams and bytes that must arrive (`ProbeBitrateEstimator` in WebRTC).
pub(super) const MIN_RECEIVED_SHARE: f64 = 0.80;
/// Longest delay of a datagram behind the probe's rate. A later datagram does not belong to the probe.
const MAX_LATENESS: Duration = Duration::from_millis(10);
/// Time after which an incomplete probe is dropped.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes requested from the encoder over the probe's size, since frames are usually smaller than their budgets.
const MARGIN: f64 = 1.4;
/// Multiple of the requested bytes after which an incomplete probe is dropped.
const MAX_SENT_RATIO: u64 = 3;
/// Upper bounds of waiting probes and of remembered clusters.
const MAX_WAITING_PROBES: usize = 4;
const REMEMBERED: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Probe {
    rate: Bitrate,
    requested_at: Timestamp,
    /// Bytes sent since the probe became the current one.
    spent: ByteCount,
}

/// Datagrams that were sent as one probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Number of the cluster.
    pub(super) number: u64,
    /// Probed rate.
    pub(super) rate: Bitrate,
    first_sent: Timestamp,
    last_sent: Timestamp,
    datagrams: u32,
    bytes: ByteCount,
}

impl Cluster {
    /// Whether it contains this share of a probe's datagrams and bytes.
    fn is_enough(&self, share: f64) -> bool {
        f64::from(self.datagrams) >= f64::from(MIN_DATAGRAMS) * share
            && self.bytes.as_f64() >= self.rate.bytes_in(DURATION).as_f64() * share
    }

    fn holds(&self, sent_at: Timestamp) -> bool {
        (self.first_sent..=self.last_sent).contains(&sent_at)
    }
}

/// Queue of probes (`BitrateProber` in WebRTC). WebRTC adds padding; this transport has none. A probe consists of
/// queued media, so the budget of the next frame is at least the probe's size.
#[derive(Debug, Clone)]
pub(super) struct ProbeClusters {
    payload: ByteCount,
    waiting: VecDeque<Probe>,
    open: Option<Cluster>,
    closed: VecDeque<Cluster>,
    next_number: u64,
}

impl ProbeClusters {
    /// A queue for fragments of up to `payload` bytes.
    pub(super) fn new(payload: ByteCount) -> Self {
        Self { payload, waiting: VecDeque::new(), open: None, closed: VecDeque::new(), next_number: 0 }
    }

    /// Adds probes at these rates, in sequence.
    pub(super) fn request(&mut self, now: Timestamp, rates: Vec<Bitrate>) {
        for rate in rates {
            if self.waiting.len() < MAX_WAITING_PROBES {
                self.waiting.push_back(Probe { rate, requested_at: now, spent: ByteCount::ZERO });
            }
        }
    }

    /// The rate at which datagrams must leave now because of a probe; none without a probe.
    pub(super) fn rate(&self, now: Timestamp) -> Option<Bitrate> {
        self.current(now).map(|probe| probe.rate)
    }

    /// Bytes that the probes still need, including queued ones.
    pub(super) fn wanted(&self, now: Timestamp) -> ByteCount {
        let alive = self.waiting.iter().filter(|probe| is_alive(probe, now));
        let wanted: ByteCount = alive.map(|probe| self.size(probe.rate)).sum();
        wanted.saturating_sub(self.open.map_or(ByteCount::ZERO, |cluster| cluster.bytes))
    }

    /// Records that a datagram of `size` was sent. Returns whether it completed a probe.
    pub(super) fn on_transmit(&mut self, now: Timestamp, size: ByteCount) -> bool {
        while self.waiting.front().is_some_and(|probe| !is_alive(probe, now)) {
            self.waiting.pop_front();
            self.open = None;
        }
        let max_spent = self.current(now).map(|probe| self.size(probe.rate).get().saturating_mul(MAX_SENT_RATIO));
        let (Some(probe), Some(max_spent)) = (self.waiting.front_mut(), max_spent) else { return false };
        probe.spent += size;
        let (rate, spent) = (probe.rate, probe.spent);
        let gap = rate.time_for(self.payload).saturating_add(MAX_LATENESS);
        let mut cluster = match self.open.take() {
            Some(open) if now.saturating_since(open.last_sent) <= gap => open,
            // The media ended early, but the probe is large enough if all of it arrives.
            Some(open) if open.is_enough(MIN_RECEIVED_SHARE) => {
                self.close(open);
                return true;
            }
            _ => {
                self.next_number += 1;
                let number = self.next_number;
                Cluster { number, rate, first_sent: now, last_sent: now, datagrams: 0, bytes: ByteCount::ZERO }
            }
        };
        cluster.last_sent = now;
        cluster.datagrams += 1;
        cluster.bytes += size;
        let complete = cluster.is_enough(1.0);
        if complete {
            self.close(cluster);
        } else if spent.get() > max_spent {
            self.waiting.pop_front();
        } else {
            self.open = Some(cluster);
        }
        complete
    }

    fn close(&mut self, cluster: Cluster) {
        self.waiting.pop_front();
        self.closed.push_back(cluster);
        if self.closed.len() > REMEMBERED {
            self.closed.pop_front();
        }
    }

    /// The cluster that contains the datagram sent at `sent_at`, complete or not.
    pub(super) fn cluster_of(&self, sent_at: Timestamp) -> Option<Cluster> {
        self.closed.iter().chain(&self.open).find(|cluster| cluster.holds(sent_at)).copied()
    }

    fn current(&self, now: Timestamp) -> Option<&Probe> {
        self.waiting.iter().find(|probe| is_alive(probe, now))
    }

    /// Bytes of media requested for a probe at `rate`.
    fn size(&self, rate: Bitrate) -> ByteCount {
        let least = ByteCount::new(self.payload.get().saturating_mul(u64::from(MIN_DATAGRAMS)));
        ByteCount::new((least.max(rate.bytes_in(DURATION)).as_f64() * MARGIN) as u64)
    }
}

fn is_alive(probe: &Probe, now: Timestamp) -> bool {
    now.saturating_since(probe.requested_at) < TIMEOUT
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: ByteCount = ByteCount::new(1_200);

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    fn requested(kbps: &[u64]) -> ProbeClusters {
        let mut clusters = ProbeClusters::new(FULL);
        clusters.request(at(0), kbps.iter().copied().map(Bitrate::from_kbps).collect());
        clusters
    }

    /// Number of datagrams of `size` that complete a probe, one every `gap` ms.
    fn sent(clusters: &mut ProbeClusters, from: u64, gap: u64, size: u64) -> Option<u64> {
        (1..=200).find(|number| clusters.on_transmit(at(from + (number - 1) * gap), ByteCount::new(size)))
    }

    #[test]
    fn probe_has_5_datagrams_and_15_ms() {
        assert_eq!(sent(&mut requested(&[900]), 0, 10, 1_200), Some(5));
        // 6 Mb/s in 15 ms: 11,250 bytes.
        assert_eq!(sent(&mut requested(&[6_000]), 0, 1, 1_200), Some(10));
    }

    #[test]
    fn probes_run_in_sequence_and_request_media() {
        let mut clusters = requested(&[900, 1_800]);
        assert_eq!(clusters.wanted(at(0)), ByteCount::new(2 * 8_400));
        assert_eq!(clusters.rate(at(0)), Some(Bitrate::from_kbps(900)));
        sent(&mut clusters, 0, 10, 1_200);
        assert_eq!(clusters.wanted(at(50)), ByteCount::new(8_400));
        assert_eq!(clusters.rate(at(50)), Some(Bitrate::from_kbps(1_800)));
        sent(&mut clusters, 50, 5, 1_200);
        assert_eq!((clusters.wanted(at(80)), clusters.rate(at(80))), (ByteCount::ZERO, None));
        assert_eq!(clusters.cluster_of(at(20)).map(|cluster| cluster.number), Some(1));
        assert_eq!(clusters.cluster_of(at(60)).map(|cluster| cluster.rate), Some(Bitrate::from_kbps(1_800)));
        assert_eq!(clusters.cluster_of(at(90)), None);
    }

    #[test]
    fn datagrams_too_far_apart_are_not_a_probe() {
        let mut clusters = requested(&[900]);
        assert_eq!(sent(&mut clusters, 0, 40, 300), None);
        assert_eq!(clusters.rate(at(5_000)), None, "the probe was dropped");
    }

    #[test]
    fn probe_that_ends_slightly_early_is_complete() {
        let mut clusters = requested(&[900]);
        (0..4).for_each(|number| assert!(!clusters.on_transmit(at(number * 10), FULL)));
        assert!(clusters.on_transmit(at(70), FULL), "a later datagram shows that the probe has ended");
        assert!(clusters.cluster_of(at(30)).is_some() && clusters.cluster_of(at(70)).is_none());
    }

    #[test]
    fn probe_is_dropped_after_three_times_its_bytes() {
        let mut clusters = requested(&[900]);
        assert_eq!(sent(&mut clusters, 0, 40, 1_200), None);
        assert_eq!(clusters.rate(at(19 * 40)), None);
    }
}
