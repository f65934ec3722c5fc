//! Result of a probe: the lower of its sending rate and its arrival rate.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_transport::AcknowledgedFragment;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::probe_clusters::{Cluster, DURATION, MIN_DATAGRAMS, MIN_RECEIVED_SHARE};

/// Largest ratio of arrival rate to sending rate. Beyond it the measurement is invalid (`ProbeBitrateEstimator` in
/// WebRTC).
const MAX_SPEEDUP: f64 = 2.0;
/// Ratio of arrival rate to sending rate below which the probe filled the path.
const UNSATURATED: f64 = 0.9;
/// Usable share of the arrival rate of such a probe.
const USED_SHARE: f64 = 0.95;
/// Longest probe.
const MAX_PROBE_DURATION: Duration = Duration::from_secs(1);
/// Number of remembered clusters.
const REMEMBERED: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Received {
    datagrams: u32,
    bytes: ByteCount,
    first_sent: Timestamp,
    last_sent: Timestamp,
    first_arrived: Timestamp,
    last_arrived: Timestamp,
    /// Sizes of the datagram sent last and of the one that arrived first. The rates do not count them.
    last_sent_size: ByteCount,
    first_arrived_size: ByteCount,
}

/// Measures the rates of probes.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbeEstimator {
    clusters: BTreeMap<u64, Received>,
}

impl ProbeEstimator {
    /// Adds an arrived datagram of `cluster`. Returns the measured rate once enough datagrams have arrived.
    pub(super) fn on_acknowledged(&mut self, cluster: &Cluster, fragment: &AcknowledgedFragment) -> Option<Bitrate> {
        let &AcknowledgedFragment { sent_at, arrived_at, size, .. } = fragment;
        let received = self.clusters.entry(cluster.number).or_insert(Received {
            datagrams: 0,
            bytes: ByteCount::ZERO,
            first_sent: sent_at,
            last_sent: sent_at,
            first_arrived: arrived_at,
            last_arrived: arrived_at,
            last_sent_size: size,
            first_arrived_size: size,
        });
        received.datagrams += 1;
        received.bytes += size;
        received.first_sent = received.first_sent.min(sent_at);
        if sent_at > received.last_sent {
            (received.last_sent, received.last_sent_size) = (sent_at, size);
        }
        if arrived_at < received.first_arrived {
            (received.first_arrived, received.first_arrived_size) = (arrived_at, size);
        }
        received.last_arrived = received.last_arrived.max(arrived_at);
        let received = *received;
        while self.clusters.len() > REMEMBERED {
            self.clusters.pop_first();
        }
        received.rate(cluster)
    }
}

impl Received {
    fn rate(&self, cluster: &Cluster) -> Option<Bitrate> {
        let enough_bytes = cluster.rate.bytes_in(DURATION).as_f64() * MIN_RECEIVED_SHARE;
        if f64::from(self.datagrams) < f64::from(MIN_DATAGRAMS) * MIN_RECEIVED_SHARE
            || self.bytes.as_f64() < enough_bytes
        {
            return None;
        }
        let sending = self.last_sent.saturating_since(self.first_sent);
        let arriving = self.last_arrived.saturating_since(self.first_arrived);
        if [sending, arriving].iter().any(|time| time.is_zero() || *time > MAX_PROBE_DURATION) {
            return None;
        }
        let sent = Bitrate::mean(self.bytes.saturating_sub(self.last_sent_size), sending);
        let arrived = Bitrate::mean(self.bytes.saturating_sub(self.first_arrived_size), arriving);
        if arrived > sent.mul_f64(MAX_SPEEDUP) {
            return None;
        }
        Some(if arrived < sent.mul_f64(UNSATURATED) { arrived.mul_f64(USED_SHARE) } else { sent.min(arrived) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe_clusters::ProbeClusters;
    use super::super::tests::acknowledged;
    use super::*;

    /// Result of five datagrams of 1250 bytes with these sending and arrival times.
    fn measured(times: &[(u64, u64)]) -> Option<u64> {
        let mut clusters = ProbeClusters::new(ByteCount::new(1_250));
        clusters.request(Timestamp::ZERO, vec![Bitrate::from_kbps(2_000)]);
        (0..5).for_each(|number| {
            assert_eq!(clusters.on_transmit(Timestamp::from_millis(number * 5), ByteCount::new(1_250)), number == 4)
        });
        let mut estimator = ProbeEstimator::default();
        let mut last = None;
        for &(sent, arrived) in times {
            let cluster = clusters.cluster_of(Timestamp::from_millis(sent)).expect("part of the probe");
            last = estimator.on_acknowledged(&cluster, &acknowledged(sent, arrived, 1_250)).or(last);
        }
        last.map(|rate| rate.as_bps() / 1_000)
    }

    #[test]
    fn fast_path_shows_the_sending_rate() {
        assert_eq!(measured(&[(0, 50), (5, 55), (10, 60), (15, 65), (20, 70)]), Some(2_000));
    }

    #[test]
    fn full_path_shows_95_percent_of_the_arrival_rate() {
        assert_eq!(measured(&[(0, 50), (5, 60), (10, 70), (15, 80), (20, 90)]), Some(950));
    }

    #[test]
    fn one_lost_datagram_is_tolerated_but_not_two() {
        assert!(measured(&[(0, 50), (5, 55), (15, 65), (20, 70)]).is_some());
        assert_eq!(measured(&[(0, 50), (5, 55), (20, 70)]), None);
    }

    #[test]
    fn datagrams_that_arrive_together_give_no_result() {
        assert_eq!(measured(&[(0, 50), (5, 50), (10, 50), (15, 50), (20, 50)]), None);
        assert_eq!(measured(&[(0, 50), (5, 51), (10, 52), (15, 53), (20, 54)]), None);
    }
}
