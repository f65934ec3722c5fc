//! What a modelled call sends.

use std::time::Duration;

use lockstep_transport::Estimate;
use lockstep_units::{ByteCount, Timestamp};

/// Bytes of everything before a fragment's payload on the link: the real transport's header, UDP's and IPv4's.
pub(crate) const FRAGMENT_HEADERS: u64 = lockstep_transport::wire::DATA_HEADER as u64 + 28;

/// A fragment of a frame, without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaFragment {
    /// Its place in the order of transmission.
    pub sequence: u64,
    /// When it was transmitted.
    pub sent_at: Timestamp,
    /// Time for which the sender chose to be idle so far.
    pub idle: Duration,
    /// The frame that it belongs to.
    pub frame: u32,
    /// The frame that this one is decoded from; none for a key frame.
    pub source: Option<u32>,
    /// Its place in the frame.
    pub fragment: u16,
    /// How many fragments the frame has.
    pub fragments: u16,
}

/// What the receiver tells the sender.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedbackReport {
    /// Its place among the reports.
    pub number: u64,
    /// Sequence numbers, times of arrival and whether a queue marked the fragment (ECN), in the order of arrival: what came since the report before the last, so
    /// that the loss of one report does no harm.
    pub arrivals: Vec<(u64, Timestamp, bool)>,
    /// The highest sequence number that arrived.
    pub highest: u64,
    /// The time from that fragment's arrival to this report.
    pub hold: Duration,
    /// How many fragments arrived.
    pub received: u64,
    /// The newest frame that was decoded.
    pub decoded: Option<u32>,
    /// What the estimator says.
    pub estimate: Estimate,
}

impl FeedbackReport {
    /// Bytes on the link: the real acknowledgement's header with as many fragments and one state, UDP's and IPv4's.
    #[must_use]
    pub fn size(&self) -> ByteCount {
        let header = lockstep_transport::wire::ACKNOWLEDGEMENT_HEADER as u64;
        ByteCount::new(header + 10 * self.arrivals.len() as u64 + 12 + 28)
    }
}

/// A packet of a modelled call.
#[derive(Debug, Clone)]
pub enum ModelledPacket {
    /// From the sender.
    Media(MediaFragment),
    /// From the receiver.
    Feedback(Box<FeedbackReport>),
}
