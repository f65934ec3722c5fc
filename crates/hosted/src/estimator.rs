//! Adapter between arrivals and AlphaRTC's reports, and between its answers and estimates.

use std::time::Duration;

use lockstep_control::{Estimator, Failure, FailureReason};
use lockstep_transport::wire::DATA_HEADER;
use lockstep_transport::{Arrival, Estimate};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Interval at which AlphaRTC requests an estimate.
pub const ESTIMATE_INTERVAL: Duration = Duration::from_millis(200);

/// Limit of reported packets between two answers: ten times those of a link of 1 Gb/s.
const MAX_PACKETS: usize = 1 << 18;

/// Reason why an estimator failed.
pub type HostError = FailureReason;

/// The report of one packet, without the fields that are equal for all packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketReport {
    /// Exact arrival time.
    pub arrived_at: Timestamp,
    /// Send time, milliseconds.
    pub send_time_ms: u64,
    /// Arrival time, milliseconds.
    pub arrival_time_ms: u64,
    /// Sequence number; 0 follows 65,535, as in RTP.
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

/// Host of an AlphaRTC estimator, such as a process.
pub trait EstimatorHost: Send {
    /// Reports `packets`, oldest first, and requests an estimate at `now`.
    ///
    /// # Errors
    /// If the estimator does not answer with a rate.
    fn exchange(&mut self, now: Timestamp, packets: &[PacketReport]) -> Result<Bitrate, HostError>;
}

impl<H: EstimatorHost + ?Sized> EstimatorHost for Box<H> {
    fn exchange(&mut self, now: Timestamp, packets: &[PacketReport]) -> Result<Bitrate, HostError> {
        (**self).exchange(now, packets)
    }
}

/// An AlphaRTC estimator as the estimator of a call.
///
/// From the first arrival on it estimates every [`ESTIMATE_INTERVAL`], with or without packets. There is no estimate before
/// the first answer. After a failure the last estimate stays.
pub struct AlphaRtcEstimator<H> {
    host: Option<H>,
    failure: Failure,
    packets: Vec<PacketReport>,
    due: Option<Timestamp>,
    capacity: Option<Bitrate>,
}

impl<H: EstimatorHost> AlphaRtcEstimator<H> {
    /// The estimator of `host`, and the place of its failure.
    #[must_use]
    pub fn new(host: H) -> (Self, Failure) {
        let failure = Failure::default();
        let estimator =
            Self { host: Some(host), failure: failure.clone(), packets: Vec::new(), due: None, capacity: None };
        (estimator, failure)
    }

    /// Requests the estimates that are due before `now`. The one at `now` requires `over`: all arrivals of that moment belong
    /// to its report.
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
        if arrival.size > ByteCount::ZERO && self.packets.len() < MAX_PACKETS && self.host.is_some() {
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

    /// Answers one kb/s per reported packet, and keeps the requests.
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
    fn packets_are_reported_once_and_estimates_come_every_200_ms() {
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
    fn estimates_continue_in_silence_until_a_failure() {
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
