//! JSON rows of a recording: integers only, in the units that the names end in.

use std::time::Duration;

use lockstep_transport::{AcknowledgedFragment, Estimate, Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use serde::{Deserialize, Serialize};

use super::error::{RecordingError, VERSION};
use super::header::{MAX_DATAGRAM_BYTES, MAX_RATE_BPS};
use super::{Answer, Event, Header, RecordedInput};
use crate::{Allowance, InFlight, RateBounds, Traits};

/// Largest time of a call, nanoseconds: 36 years.
const LATEST: u64 = 1 << 60;
/// Upper bound of counts: bytes and fragments in flight, fragments of a call.
const MAX_COUNT: u64 = 1 << 48;

/// First line of a recording.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderRow {
    lockstep_decisions: u32,
    program: String,
    controller: String,
    payload_bytes: u64,
    frame_interval_ns: u64,
    initial_bps: u64,
    least_bps: u64,
    most_bps: u64,
    latency: String,
    model_sha256: Option<String>,
}

/// Part of the first line that all versions share.
#[derive(Deserialize)]
pub(super) struct VersionRow {
    pub lockstep_decisions: u32,
}

/// Acknowledged fragment: frame, fragment number, bytes, times of sending, arrival and acknowledgement (ns), congestion
/// mark.
type Acknowledged = (u32, u16, u64, u64, u64, u64, bool);
/// Lost fragment: frame, fragment number, bytes, time of sending (ns).
type Lost = (u32, u16, u64, u64);

/// Any other line, without its number.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Row {
    Sent {
        at_ns: u64,
        bytes: u64,
    },
    Encoded {
        at_ns: u64,
        bytes: u64,
    },
    FeedbackSent {
        at_ns: u64,
        bytes: u64,
    },
    Feedback {
        at_ns: u64,
        acknowledged: Vec<Acknowledged>,
        inter_arrival_ns: Option<u64>,
        capacity_bps: Option<u64>,
        round_trip_ns: Option<u64>,
        highest_sequence: u64,
        found: u64,
        received: u64,
    },
    Time {
        at_ns: u64,
    },
    Lost {
        at_ns: u64,
        lost: Vec<Lost>,
    },
    PictureSkipped {
        at_ns: u64,
    },
    Allowance {
        at_ns: u64,
        fragments: u64,
        bytes: u64,
        queued_bytes: u64,
        budget_bytes: u64,
        pacing_ns: u64,
        target_bps: u64,
        capacity_bps: Option<u64>,
        behind_cross_traffic_bytes: u64,
    },
    Pacing {
        at_ns: u64,
        fragments: u64,
        bytes: u64,
        queued_bytes: u64,
        pacing_ns: u64,
    },
    Traits {
        is_bounded: bool,
        has_ceiling: bool,
        wants_probes: bool,
    },
    End,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl From<&Header> for HeaderRow {
    fn from(header: &Header) -> Self {
        Self {
            lockstep_decisions: VERSION,
            program: header.program.clone(),
            controller: header.algorithm.to_string(),
            payload_bytes: header.payload.get(),
            frame_interval_ns: nanos(header.frame_interval),
            initial_bps: header.bounds.initial.as_bps(),
            least_bps: header.bounds.min.as_bps(),
            most_bps: header.bounds.max.as_bps(),
            latency: header.latency.to_string(),
            model_sha256: header.model.clone(),
        }
    }
}

impl HeaderRow {
    pub(super) fn header(self) -> Result<Header, RecordingError> {
        let rate = Bitrate::from_bps;
        let header = Header {
            program: self.program,
            algorithm: self.controller.parse().map_err(RecordingError::Controller)?,
            payload: ByteCount::new(self.payload_bytes),
            frame_interval: Duration::from_nanos(self.frame_interval_ns),
            bounds: RateBounds { initial: rate(self.initial_bps), min: rate(self.least_bps), max: rate(self.most_bps) },
            latency: self.latency.parse().map_err(RecordingError::Latency)?,
            model: self.model_sha256,
        };
        header.check()?;
        Ok(header)
    }
}

impl From<&Event> for Row {
    fn from(event: &Event) -> Self {
        match event {
            Event::Input(at, input) => Self::input(at.as_nanos(), input),
            Event::Answer(answer) => Self::answer(*answer),
        }
    }
}

impl Row {
    fn input(at_ns: u64, input: &RecordedInput) -> Self {
        match input {
            RecordedInput::Sent(size) => Self::Sent { at_ns, bytes: size.get() },
            RecordedInput::Encoded(size) => Self::Encoded { at_ns, bytes: size.get() },
            RecordedInput::FeedbackSent(size) => Self::FeedbackSent { at_ns, bytes: size.get() },
            RecordedInput::Feedback(feedback) => Self::Feedback {
                at_ns,
                acknowledged: feedback.acknowledged.iter().map(acknowledged).collect(),
                inter_arrival_ns: feedback.estimate.inter_arrival.map(nanos),
                capacity_bps: feedback.estimate.capacity.map(Bitrate::as_bps),
                round_trip_ns: feedback.round_trip_time.map(nanos),
                highest_sequence: feedback.highest_sequence,
                found: feedback.found as u64,
                received: feedback.received,
            },
            RecordedInput::Time => Self::Time { at_ns },
            RecordedInput::Lost(lost) => {
                let row = |lost: &LostFragment| (lost.frame, lost.fragment, lost.size.get(), lost.sent_at.as_nanos());
                Self::Lost { at_ns, lost: lost.iter().map(row).collect() }
            }
            RecordedInput::PictureSkipped => Self::PictureSkipped { at_ns },
        }
    }

    fn answer(answer: Answer) -> Self {
        match answer {
            Answer::Allowance(at, InFlight { fragments, bytes, queued }, allowance) => Self::Allowance {
                at_ns: at.as_nanos(),
                fragments,
                bytes: bytes.get(),
                queued_bytes: queued.get(),
                budget_bytes: allowance.budget.get(),
                pacing_ns: nanos(allowance.pacing_interval),
                target_bps: allowance.target.as_bps(),
                capacity_bps: allowance.capacity.map(Bitrate::as_bps),
                behind_cross_traffic_bytes: allowance.behind_cross_traffic.get(),
            },
            Answer::Pacing(at, InFlight { fragments, bytes, queued }, interval) => Self::Pacing {
                at_ns: at.as_nanos(),
                fragments,
                bytes: bytes.get(),
                queued_bytes: queued.get(),
                pacing_ns: nanos(interval),
            },
            Answer::Traits(Traits { is_bounded, has_ceiling, wants_probes }) => {
                Self::Traits { is_bounded, has_ceiling, wants_probes }
            }
        }
    }

    /// The event; none at the end.
    ///
    /// # Errors
    /// The name of a value out of range.
    pub(super) fn event(self) -> Result<Option<Event>, &'static str> {
        let input = |at_ns, input| Ok(Some(Event::Input(time(at_ns)?, input)));
        let answer = |answer| Ok(Some(Event::Answer(answer)));
        match self {
            Self::Sent { at_ns, bytes } => input(at_ns, RecordedInput::Sent(size(bytes)?)),
            Self::Encoded { at_ns, bytes } => input(at_ns, RecordedInput::Encoded(size(bytes)?)),
            Self::FeedbackSent { at_ns, bytes } => input(at_ns, RecordedInput::FeedbackSent(size(bytes)?)),
            Self::Feedback {
                at_ns,
                acknowledged,
                inter_arrival_ns,
                capacity_bps,
                round_trip_ns,
                highest_sequence,
                found,
                received,
            } => {
                let interval =
                    |nanos| Ok::<_, &'static str>(Duration::from_nanos(within(nanos, LATEST, "an interval")?));
                let estimate = Estimate {
                    inter_arrival: inter_arrival_ns.map(interval).transpose()?,
                    capacity: capacity_bps.map(rate).transpose()?,
                };
                let acknowledged = acknowledged.into_iter().map(fragment).collect::<Result<_, _>>()?;
                let found = usize::try_from(counted(found)?).map_err(|_| "a count")?;
                let feedback = Feedback {
                    acknowledged,
                    estimate,
                    round_trip_time: round_trip_ns.map(interval).transpose()?,
                    highest_sequence: counted(highest_sequence)?,
                    found,
                    received: counted(received)?,
                };
                input(at_ns, RecordedInput::Feedback(feedback))
            }
            Self::Time { at_ns } => input(at_ns, RecordedInput::Time),
            Self::Lost { at_ns, lost } => {
                let lost = lost.into_iter().map(|(frame, fragment, bytes, sent_ns)| {
                    Ok(LostFragment { frame, fragment, size: size(bytes)?, sent_at: time(sent_ns)? })
                });
                input(at_ns, RecordedInput::Lost(lost.collect::<Result<_, &'static str>>()?))
            }
            Self::PictureSkipped { at_ns } => input(at_ns, RecordedInput::PictureSkipped),
            Self::Allowance {
                at_ns,
                fragments,
                bytes,
                queued_bytes,
                budget_bytes,
                pacing_ns,
                target_bps,
                capacity_bps,
                behind_cross_traffic_bytes,
            } => {
                let allowance = Allowance {
                    budget: ByteCount::new(budget_bytes),
                    pacing_interval: Duration::from_nanos(pacing_ns),
                    target: Bitrate::from_bps(target_bps),
                    capacity: capacity_bps.map(Bitrate::from_bps),
                    behind_cross_traffic: ByteCount::new(behind_cross_traffic_bytes),
                };
                let in_flight = in_flight(fragments, bytes, queued_bytes)?;
                answer(Answer::Allowance(time(at_ns)?, in_flight, allowance))
            }
            Self::Pacing { at_ns, fragments, bytes, queued_bytes, pacing_ns } => {
                let in_flight = in_flight(fragments, bytes, queued_bytes)?;
                answer(Answer::Pacing(time(at_ns)?, in_flight, Duration::from_nanos(pacing_ns)))
            }
            Self::Traits { is_bounded, has_ceiling, wants_probes } => {
                answer(Answer::Traits(Traits { is_bounded, has_ceiling, wants_probes }))
            }
            Self::End => Ok(None),
        }
    }
}

fn within(value: u64, most: u64, name: &'static str) -> Result<u64, &'static str> {
    if value <= most { Ok(value) } else { Err(name) }
}

fn time(nanos: u64) -> Result<Timestamp, &'static str> {
    Ok(Timestamp::from_nanos(within(nanos, LATEST, "a time")?))
}

fn size(bytes: u64) -> Result<ByteCount, &'static str> {
    Ok(ByteCount::new(within(bytes, MAX_DATAGRAM_BYTES, "a packet's size")?))
}

fn counted(count: u64) -> Result<u64, &'static str> {
    within(count, MAX_COUNT, "a count")
}

fn rate(bps: u64) -> Result<Bitrate, &'static str> {
    Ok(Bitrate::from_bps(within(bps, MAX_RATE_BPS, "a bit rate")?))
}

fn in_flight(fragments: u64, bytes: u64, queued: u64) -> Result<InFlight, &'static str> {
    let (bytes, queued) = (ByteCount::new(counted(bytes)?), ByteCount::new(counted(queued)?));
    Ok(InFlight { fragments: counted(fragments)?, bytes, queued })
}

fn acknowledged(fragment: &AcknowledgedFragment) -> Acknowledged {
    let AcknowledgedFragment { frame, fragment, size, sent_at, arrived_at, acknowledged_at, congestion_experienced } =
        *fragment;
    let [sent, arrived, acknowledged] = [sent_at, arrived_at, acknowledged_at].map(Timestamp::as_nanos);
    (frame, fragment, size.get(), sent, arrived, acknowledged, congestion_experienced)
}

fn fragment(row: Acknowledged) -> Result<AcknowledgedFragment, &'static str> {
    let (frame, fragment, bytes, sent, arrived, acknowledged, congestion_experienced) = row;
    Ok(AcknowledgedFragment {
        frame,
        fragment,
        size: size(bytes)?,
        sent_at: time(sent)?,
        arrived_at: time(arrived)?,
        acknowledged_at: time(acknowledged)?,
        congestion_experienced,
    })
}
