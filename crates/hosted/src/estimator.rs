//! From arrivals to AlphaRTC's reports, and from its answers to estimates.

use std::time::Duration;

use lockstep_control::{Estimator, Failure, FailureReason};
use lockstep_transport::wire::DATA_HEADER;
use lockstep_transport::{Arrival, Estimate};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// How often AlphaRTC asks for the bandwidth.
pub const ESTIMATE_INTERVAL: Duration = Duration::from_millis(200);

/// More packets than this between two answers are not reported: ten times what a link of 1 Gb/s brings.
const MOST_PACKETS: usize = 1 << 18;

/// Why an estimator cannot go on.
pub type HostError = FailureReason;

/// What `report_states` is told of one packet, less what is the same for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketReport {
    /// When it arrived, exactly.
    pub arrived_at: Timestamp,
    /// When it left the sender, milliseconds.
    pub send_time_ms: u64,
    /// When it arrived, milliseconds.
    pub arrival_time_ms: u64,
    /// Its place in the order of transmission; after 65,535 comes 0, as in RTP.
    pub sequence_number: u16,
    /// Bytes of headers above UDP.
    pub header_length: u64,
    /// Bytes of video.
    pub payload_size: u64,
}

impl From<&Arrival> for PacketReport {
    fn from(arrival: &Arrival) -> Self {
        let milliseconds = |at: Timestamp| at.as_nanos() / 1_000_000;
        let size = arrival.size.get();
        let header_length = size.min(DATA_HEADER as u64);
        Self {
            arrived_at: arrival.arrived_at,
            send_time_ms: milliseconds(arrival.sent_at),
            arrival_time_ms: milliseconds(arrival.arrived_at),
            sequence_number: arrival.sequence as u16,
            header_length,
            payload_size: size - header_length,
        }
    }
}

/// Where an AlphaRTC estimator lives.
pub trait EstimatorHost: Send {
    /// Reports `packets`, oldest first, then asks for the bandwidth, at `now`.
    ///
    /// # Errors
    /// Whatever keeps the estimator from answering with a rate.
    fn exchange(&mut self, now: Timestamp, packets: &[PacketReport]) -> Result<Bitrate, HostError>;
}

impl<H: EstimatorHost + ?Sized> EstimatorHost for Box<H> {
    fn exchange(&mut self, now: Timestamp, packets: &[PacketReport]) -> Result<Bitrate, HostError> {
        (**self).exchange(now, packets)
    }
}

/// An AlphaRTC estimator as the estimator of a call. It is asked every [`ESTIMATE_INTERVAL`] from the first arrival on,
/// whether packets arrive or not, and says nothing before its first answer. After a failure it says what it said last.
pub struct AlphaRtcEstimator<H> {
    host: Option<H>,
    failure: Failure,
    packets: Vec<PacketReport>,
    due: Option<Timestamp>,
    capacity: Option<Bitrate>,
}

impl<H: EstimatorHost> AlphaRtcEstimator<H> {
    /// An estimator that lives at `host`, and where it will say that it failed.
    #[must_use]
    pub fn new(host: H) -> (Self, Failure) {
        let failure = Failure::default();
        let estimator =
            Self { host: Some(host), failure: failure.clone(), packets: Vec::new(), due: None, capacity: None };
        (estimator, failure)
    }

    /// Asks at each moment up to `now` at which AlphaRTC would have. At `now` itself only if `now` is over: what else
    /// arrives in this moment belongs to it.
    fn ask(&mut self, now: Timestamp, over: bool) {
        while let Some(due) = self.due.filter(|&due| due < now || over && due == now) {
            let Some(host) = &mut self.host else { return };
            self.due = Some(due + ESTIMATE_INTERVAL);
            match host.exchange(due, &self.packets) {
                Ok(capacity) => self.capacity = Some(capacity),
                Err(error) => {
                    self.failure.set(error);
                    self.host = None;
                }
            }
            self.packets.clear();
        }
    }
}

impl<H: EstimatorHost> Estimator for AlphaRtcEstimator<H> {
    fn on_arrival(&mut self, arrival: &Arrival) {
        self.ask(arrival.arrived_at, false);
        self.due = self.due.or(Some(arrival.arrived_at + ESTIMATE_INTERVAL));
        if arrival.size > ByteCount::ZERO && self.packets.len() < MOST_PACKETS && self.host.is_some() {
            self.packets.push(arrival.into());
        }
    }

    fn estimate(&mut self, now: Timestamp) -> Estimate {
        self.ask(now, true);
        Estimate { inter_arrival: None, capacity: self.capacity }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Answers with as many kb/s as packets were reported, and keeps what it was asked.
    #[derive(Clone, Default)]
    struct Counting(Arc<Mutex<Vec<Asked>>>);

    type Asked = (Timestamp, Vec<PacketReport>);

    impl EstimatorHost for Counting {
        fn exchange(&mut self, now: Timestamp, packets: &[PacketReport]) -> Result<Bitrate, HostError> {
            let mut asked = self.0.lock().unwrap();
            asked.push((now, packets.to_vec()));
            if asked.len() > 10 { Err("enough".into()) } else { Ok(Bitrate::from_kbps(packets.len() as u64)) }
        }
    }

    fn arrival(milliseconds: u64, sequence: u64) -> Arrival {
        Arrival {
            arrived_at: Timestamp::from_millis(milliseconds),
            sent_at: Timestamp::from_millis(milliseconds - 30),
            size: ByteCount::new(1_000),
            sequence,
            frame: 0,
            fragment: 0,
            grace: Duration::ZERO,
            congestion_experienced: false,
        }
    }

    #[test]
    fn every_packet_is_reported_once_and_the_bandwidth_asked_every_fifth_of_a_second() {
        let host = Counting::default();
        let (mut estimator, failure) = AlphaRtcEstimator::new(host.clone());
        for index in 0..50 {
            estimator.on_arrival(&arrival(100 + 10 * index, 65_530 + index));
            estimator.estimate(Timestamp::from_millis(100 + 10 * index));
        }
        let asked = host.0.lock().unwrap().clone();
        let times: Vec<u64> = asked.iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
        assert_eq!(times, [300, 500]);
        assert_eq!(asked.iter().map(|(_, packets)| packets.len()).collect::<Vec<_>>(), [21, 20]);
        let first = asked[0].1[0];
        assert_eq!((first.send_time_ms, first.arrival_time_ms, first.sequence_number), (70, 100, 65_530));
        assert_eq!((first.header_length, first.payload_size), (64, 936));
        assert_eq!(asked[0].1[7].sequence_number, 1);
        assert!(failure.check().is_ok());
        assert_eq!(estimator.estimate(Timestamp::from_millis(590)).capacity, Some(Bitrate::from_kbps(20)));
    }

    #[test]
    fn silence_is_asked_about_as_well_and_a_failure_ends_it() {
        let host = Counting::default();
        let (mut estimator, failure) = AlphaRtcEstimator::new(host.clone());
        estimator.on_arrival(&arrival(100, 0));
        assert_eq!(estimator.estimate(Timestamp::from_millis(100)).capacity, None);
        estimator.on_arrival(&arrival(1_100, 1));
        let empty = host.0.lock().unwrap().iter().filter(|(_, packets)| packets.is_empty()).count();
        assert_eq!((host.0.lock().unwrap().len(), empty), (4, 3));
        estimator.estimate(Timestamp::from_millis(60_000));
        assert_eq!(host.0.lock().unwrap().len(), 11, "nothing after the failure");
        assert_eq!(failure.check().unwrap_err().to_string(), "enough");
    }
}
