//! The receiving end of a call: a clock-free state machine from datagrams to pictures.
//!
//! As at the sending end, the driver does the long work: [`ReceivingEnd::poll_decode`] gives a job to run on any thread
//! and [`ReceivingEnd::decoded`] takes its result, so that acknowledgements never wait for the decoder.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_control::Estimator;
use lockstep_transport::wire::Acknowledgement;
use lockstep_transport::{
    CodecId, Datagram, RIDING, Receiver, ReceiverConfig, ReceiverEvent, SoundPacket, StateId, Transmit, VideoFormat,
    WireError,
};
use lockstep_units::Timestamp;
use lockstep_vp8::DEFAULT_PIXEL_LIMIT;

use crate::codec::{Codec, Vp8};
use crate::held_states::HeldStates;

/// Packets of sound kept for an owner that does not ask for them.
const MOST_SOUND: usize = 64;

/// A complete frame whose source state is held.
#[derive(Debug)]
struct ReceivedFrame<P> {
    frame: u32,
    source: StateId,
    target: StateId,
    captured_at: Timestamp,
    completed_at: Timestamp,
    payload: P,
}

/// Decoding of one frame; may run on another thread than the call's.
#[derive(Debug)]
pub struct DecodeJob<C: Codec = Vp8> {
    arena: C::Arena,
    source: C::State,
    frame: ReceivedFrame<C::Payload>,
    pixel_limit: usize,
}

/// What a [`DecodeJob`] gave.
#[derive(Debug)]
pub struct DecodeOutcome<C: Codec = Vp8> {
    frame: ReceivedFrame<C::Payload>,
    /// What the frame decodes to, with the name of the state reached; none if it is damaged.
    result: Option<(StateId, C::State, C::Decoded)>,
}

impl<C: Codec> DecodeJob<C> {
    /// Decodes the frame and names the state that it leads to.
    #[must_use]
    pub fn run(self) -> DecodeOutcome<C> {
        let Self { arena, source, frame, pixel_limit } = self;
        let result = C::decode(&arena, &source, &frame.payload, frame.target, pixel_limit);
        let result = result.map(|(state, picture)| (C::name(&state), state, picture));
        DecodeOutcome { frame, result }
    }

    /// The name of the state that the frame leads to, as the sender says.
    #[must_use]
    pub fn target(&self) -> StateId {
        self.frame.target
    }

    /// Whether the frame says that it decodes from nothing.
    #[must_use]
    pub fn is_from_nothing(&self) -> bool {
        self.frame.source == StateId::EMPTY
    }

    /// What the job would give, for a driver of both ends: decoding is a function of source state and frame, and the
    /// sender has its value already, the state `reached`. Not for frames that change another picture than the last one.
    #[must_use]
    pub fn foreseen(self, reached: C::State) -> DecodeOutcome<C> {
        let Self { frame, .. } = self;
        let result = C::last_shown(&reached).map(|picture| (frame.target, reached, picture));
        DecodeOutcome { frame, result }
    }
}

/// A picture to be shown now.
#[derive(Debug, Clone)]
pub struct Display<C: Codec = Vp8> {
    /// Frame number on the wire.
    pub frame: u32,
    /// When the sender captured it, on the sender's clock.
    pub captured_at: Timestamp,
    /// When its last fragment arrived.
    pub completed_at: Timestamp,
    /// When it is shown.
    pub displayed_at: Timestamp,
    /// What is shown.
    pub picture: C::Decoded,
}

/// Counts of the receiving end beyond the transport's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct DecodeCounts {
    /// Frames decoded into the state that the sender named.
    pub decoded: u64,
    /// Frames that the decoder refused.
    pub undecodable: u64,
    /// Frames that decoded into another state than the sender named; they are not shown.
    pub mismatched: u64,
    /// Frames decoded, but older than one already shown.
    pub late: u64,
}

/// Age at `now` of what the other end stamped at `stamped_at`: the delay beyond `least_delay`, which includes the offset between
/// the clocks in nanoseconds, plus half the `round_trip`. Any stamp is accepted: it comes from outside.
#[must_use]
pub fn age(now: Timestamp, stamped_at: Timestamp, least_delay: i64, round_trip: Duration) -> Duration {
    let delay = now.as_nanos().wrapping_sub(stamped_at.as_nanos()) as i64;
    let beyond = u64::try_from(delay.saturating_sub(least_delay)).unwrap_or(0);
    Duration::from_nanos(beyond) + round_trip / 2
}

/// Pixels of a picture.
fn pixels(format: &VideoFormat) -> usize {
    usize::from(format.width) * usize::from(format.height)
}

/// Gives the estimator of a number, if there is one; see [`Hello::estimator`](lockstep_transport::Hello::estimator).
type Estimators = Box<dyn Fn(u16) -> Option<Box<dyn Estimator>> + Send>;

/// The receiving end.
pub struct ReceivingEnd<C: Codec = Vp8> {
    transport: Receiver<C::Payload>,
    /// None until the hello has said which.
    estimator: Option<Box<dyn Estimator>>,
    /// Whether it need not be asked but when feedback leaves ([`Estimator::follows_arrivals_alone`]).
    asked_for_feedback_only: bool,
    estimators: Option<Estimators>,
    refused_estimator: Option<u16>,
    refused_codec: Option<CodecId>,
    states: HeldStates<C::State>,
    arena: C::Arena,
    /// By number.
    ready: Vec<ReceivedFrame<C::Payload>>,
    decoding: bool,
    format: Option<VideoFormat>,
    /// What the owner allows, and of that what the sender announced.
    most_pixels: usize,
    pixel_limit: usize,
    newest_shown: Option<u32>,
    display: Option<Display<C>>,
    sound: VecDeque<SoundPacket<C::Payload>>,
    counts: DecodeCounts,
}

impl<C: Codec> ReceivingEnd<C> {
    /// A receiving end that has seen nothing yet, with the estimator that its owner knows the sender's controller to
    /// need.
    #[must_use]
    pub fn new(transport: ReceiverConfig, estimator: Box<dyn Estimator>) -> Self {
        Self::with(transport, Some(estimator), None)
    }

    /// A receiving end that takes the estimator that the sender's hello asks for. A hello that asks for one that
    /// `estimators` does not give is not answered, and the driver ends the call, see [`ReceivingEnd::refused_estimator`].
    #[must_use]
    pub fn taking(
        transport: ReceiverConfig,
        estimators: impl Fn(u16) -> Option<Box<dyn Estimator>> + Send + 'static,
    ) -> Self {
        Self::with(transport, None, Some(Box::new(estimators)))
    }

    fn with(transport: ReceiverConfig, estimator: Option<Box<dyn Estimator>>, estimators: Option<Estimators>) -> Self {
        Self {
            transport: Receiver::new(transport),
            asked_for_feedback_only: estimator.as_ref().is_some_and(|estimator| estimator.follows_arrivals_alone()),
            estimator,
            estimators,
            refused_estimator: None,
            refused_codec: None,
            states: HeldStates::new(),
            arena: C::Arena::default(),
            ready: Vec::new(),
            decoding: false,
            format: None,
            most_pixels: DEFAULT_PIXEL_LIMIT,
            pixel_limit: DEFAULT_PIXEL_LIMIT,
            newest_shown: None,
            display: None,
            sound: VecDeque::new(),
            counts: DecodeCounts::default(),
        }
    }

    /// Decodes with `arena` instead of an empty one.
    #[must_use]
    pub(crate) fn with_arena(self, arena: C::Arena) -> Self {
        Self { arena, ..self }
    }

    /// Takes part in no call of pictures of more than `limit` pixels, instead of [`DEFAULT_PIXEL_LIMIT`]. Whatever the limit,
    /// no picture of more pixels than the sender's hello announced is decoded.
    #[must_use]
    pub fn with_pixel_limit(self, limit: usize) -> Self {
        Self { most_pixels: limit, pixel_limit: limit, ..self }
    }

    /// A datagram came from the sender, or garbage from anybody; `congestion_experienced` says whether a queue on the
    /// way had marked it. Says whether it made sense.
    pub fn handle_datagram(
        &mut self,
        now: Timestamp,
        datagram: Result<Datagram<C::Payload>, WireError>,
        congestion_experienced: bool,
    ) -> bool {
        let taken = self.transport.handle_datagram(now, datagram, congestion_experienced);
        self.drain_events(now);
        taken
    }

    /// Makes a handled acknowledgement's memory that of the next one, where one driver has both ends.
    pub fn reuse(&mut self, acknowledgement: Box<Acknowledgement>) {
        self.transport.reuse(acknowledgement);
    }

    /// The next frame to be decoded, unless one is being decoded already: the newest. After an outage several may have come
    /// at once that are all coded from one state; the older ones would each be shown for as long as the next one takes to
    /// decode, and so they are not decoded at all.
    pub fn poll_decode(&mut self) -> Option<DecodeJob<C>> {
        if self.decoding {
            return None;
        }
        while let Some(frame) = self.ready.pop() {
            let Some(source) = self.states.get(frame.source).cloned() else {
                self.transport.frame_failed(frame.frame);
                continue;
            };
            self.decoding = true;
            return Some(DecodeJob { arena: self.arena.clone(), source, frame, pixel_limit: self.pixel_limit });
        }
        None
    }

    /// The job is done.
    pub fn decoded(&mut self, now: Timestamp, outcome: DecodeOutcome<C>) {
        self.decoding = false;
        let DecodeOutcome { frame, result } = outcome;
        match result {
            Some((reached, state, picture)) if reached == frame.target => {
                self.counts.decoded += 1;
                self.states.insert(frame.target, state);
                self.transport.frame_decoded(frame.frame, frame.target);
                let transport = &mut self.transport;
                self.ready.retain(|other| !transport.supersede(other.frame));
                if self.newest_shown.is_none_or(|newest| frame.frame > newest) {
                    self.newest_shown = Some(frame.frame);
                    self.display = Some(Display {
                        frame: frame.frame,
                        captured_at: frame.captured_at,
                        completed_at: frame.completed_at,
                        displayed_at: now,
                        picture,
                    });
                } else {
                    self.counts.late += 1;
                }
            }
            Some(_) => {
                self.counts.mismatched += 1;
                self.transport.frame_failed(frame.frame);
            }
            None => {
                self.counts.undecodable += 1;
                self.transport.frame_failed(frame.frame);
            }
        }
        self.drain_events(now);
    }

    /// The picture to be shown, once.
    pub fn poll_display(&mut self) -> Option<Display<C>> {
        self.display.take()
    }

    /// The next packet of sound that came, in the order of arrival.
    pub fn poll_sound(&mut self) -> Option<SoundPacket<C::Payload>> {
        self.sound.pop_front()
    }

    /// The next datagram for the sender; none once the call is refused ([`ReceivingEnd::refused_estimator`],
    /// [`ReceivingEnd::refused_codec`]).
    #[inline]
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<C::Payload>> {
        if self.refused_estimator.is_some() || self.refused_codec.is_some() {
            return None;
        }
        if let Some(estimator) = &mut self.estimator
            && (!self.asked_for_feedback_only || self.transport.acknowledges(now))
        {
            self.transport.set_estimate(estimator.estimate(now));
        }
        self.transport.poll_transmit(now)
    }

    /// Acknowledges as seldom as there is from now on, or as the sender asks for: what leaves here meets a way that carries
    /// little ([`SendingEnd::is_way_narrow`](crate::SendingEnd::is_way_narrow)).
    pub fn thin_feedback(&mut self, thin: bool) {
        self.transport.thin_acknowledgements(thin);
    }

    /// The next acknowledgement, if it can ride with `media`, which leaves now for the same other end in a packet that has
    /// room for `largest` bytes of the transport's: it need not be due, but soon.
    pub fn poll_riding(
        &mut self,
        now: Timestamp,
        media: &Transmit<C::Payload>,
        largest: usize,
    ) -> Option<Transmit<C::Payload>> {
        if !matches!(media.datagram, Datagram::Data(_) | Datagram::Sound(_)) {
            return None;
        }
        let taken = usize::try_from(media.size.get() + RIDING).unwrap_or(usize::MAX);
        let room = largest.saturating_sub(taken);
        if !self.transport.may_ride(now, room) {
            return None;
        }
        if let Some(estimator) = &mut self.estimator {
            self.transport.set_estimate(estimator.estimate(now));
        }
        self.transport.poll_riding(now)
    }

    /// When [`ReceivingEnd::poll_transmit`] wants to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.transport.poll_timeout()
    }

    /// Whether frames wait for the decoder or are in it.
    #[must_use]
    pub fn is_decoding(&self) -> bool {
        self.decoding || !self.ready.is_empty()
    }

    /// The number of the estimator that the sender asked for and that is none, if that ended the call.
    #[must_use]
    pub fn refused_estimator(&self) -> Option<u16> {
        self.refused_estimator
    }

    /// The sender's codec, if it has no decoder here and that ended the call.
    #[must_use]
    pub fn refused_codec(&self) -> Option<CodecId> {
        self.refused_codec
    }

    /// States held for frames to be decoded from.
    #[must_use]
    pub fn held_states(&self) -> usize {
        self.states.len()
    }

    /// Counts of decoded frames.
    #[must_use]
    pub fn counts(&self) -> DecodeCounts {
        self.counts
    }

    /// What the sender said of its video, once it has.
    #[must_use]
    pub fn format(&self) -> Option<VideoFormat> {
        self.format
    }

    /// The format that the sender announced, if its pictures have more pixels than are decoded here, and the limit.
    #[must_use]
    pub fn format_beyond_limit(&self) -> Option<(VideoFormat, usize)> {
        self.format.filter(|format| pixels(format) > self.most_pixels).map(|format| (format, self.most_pixels))
    }

    /// How much the delays of datagrams differ from one to the next (RFC 3550, section 6.4.1).
    #[must_use]
    pub fn jitter(&self) -> Duration {
        self.transport.jitter()
    }

    /// The number of the sender's connection, which names the stream in a call of several; none before the hello.
    #[must_use]
    pub fn connection(&self) -> Option<u32> {
        self.transport.connection()
    }

    /// Smallest packet delay of the last minute in nanoseconds, clock offset included; none before the first packet.
    #[must_use]
    pub fn least_delay(&self) -> Option<i64> {
        self.transport.least_delay()
    }

    /// Age of a picture that the sender stamped at `stamped_at`, at `now` on this end's clock: the delay beyond the
    /// smallest packet delay of the last minute, plus half the `round_trip`. None before the first packet.
    #[must_use]
    pub fn age(&self, now: Timestamp, stamped_at: Timestamp, round_trip: Duration) -> Option<Duration> {
        Some(age(now, stamped_at, self.transport.least_delay()?, round_trip))
    }

    /// How many datagrams are missing of those transmitted before the newest that came.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.transport.missing()
    }

    /// The transport's counters.
    #[must_use]
    pub fn statistics(&self) -> lockstep_transport::ReceiverStatistics {
        self.transport.statistics()
    }

    fn drain_events(&mut self, now: Timestamp) {
        while let Some(event) = self.transport.poll_event() {
            match event {
                ReceiverEvent::Arrival(arrival) => {
                    if let Some(estimator) = &mut self.estimator {
                        estimator.on_arrival(&arrival);
                    }
                }
                ReceiverEvent::Frame { frame, source, target, captured: captured_at, payload, .. } => {
                    let completed_at = now;
                    let received = ReceivedFrame { frame, source, target, captured_at, completed_at, payload };
                    let place = self.ready.partition_point(|other| other.frame < frame);
                    self.ready.insert(place, received);
                }
                ReceiverEvent::Sound(packet) => {
                    // Of an owner that does not listen, nothing piles up.
                    if self.sound.len() == MOST_SOUND {
                        self.sound.pop_front();
                    }
                    self.sound.push_back(packet);
                }
                ReceiverEvent::Hello(hello) => {
                    self.format = Some(hello.format);
                    self.refused_codec = Some(hello.codec).filter(|codec| C::decodes(&self.arena) != Some(*codec));
                    // A small datagram can say of its picture that it is huge.
                    self.pixel_limit = self.most_pixels.min(pixels(&hello.format));
                    if let Some(estimators) = self.estimators.as_ref().filter(|_| self.estimator.is_none()) {
                        self.estimator = estimators(hello.estimator);
                        let estimator = self.estimator.as_ref();
                        self.asked_for_feedback_only =
                            estimator.is_some_and(|estimator| estimator.follows_arrivals_alone());
                        if self.estimator.is_none() {
                            self.refused_estimator = Some(hello.estimator);
                        }
                    }
                }
                ReceiverEvent::Release(state) => self.states.remove(state),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_accepts_any_stamp_of_the_other_end() {
        let (now, way) = (Timestamp::from_millis(500), Duration::from_millis(20));
        assert_eq!(age(Timestamp::from_millis(530), now, 0, 2 * way), Duration::from_millis(50));
        for stamp in [0, 1, 1 << 62, 1 << 63, u64::MAX] {
            for least in [i64::MIN, -1, 0, i64::MAX] {
                assert!(age(now, Timestamp::from_nanos(stamp), least, 2 * way) >= way);
            }
        }
    }
}
