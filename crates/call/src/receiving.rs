//! Receiving end of a call: a state machine without a clock, from datagrams to pictures.
//!
//! As at the sending end, the driver does the long work. [`ReceivingEnd::poll_decode`] returns a job that may run on
//! any thread, and [`ReceivingEnd::decoded`] takes its result. Therefore acknowledgements never wait for the decoder.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_control::Estimator;
use lockstep_transport::wire::Acknowledgement;
use lockstep_transport::{
    CodecId, Datagram, PIGGYBACK_OVERHEAD, Receiver, ReceiverConfig, ReceiverEvent, SoundPacket, StateId, Transmit,
    VideoFormat, WireError,
};
use lockstep_units::Timestamp;
use lockstep_vp8::DEFAULT_PIXEL_LIMIT;

use crate::codec::{Codec, Vp8};
use crate::held_states::HeldStates;

/// Maximum number of sound packets kept if the owner does not take them.
const MAX_SOUND_PACKETS: usize = 64;

/// Complete frame whose source state is held.
#[derive(Debug)]
struct ReceivedFrame<P> {
    frame: u32,
    source: StateId,
    target: StateId,
    captured_at: Timestamp,
    completed_at: Timestamp,
    payload: P,
}

/// Decoding of one frame. It may run on another thread than the call.
#[derive(Debug)]
pub struct DecodeJob<C: Codec = Vp8> {
    arena: C::Arena,
    source: C::State,
    frame: ReceivedFrame<C::Payload>,
    pixel_limit: usize,
}

/// Result of a [`DecodeJob`].
#[derive(Debug)]
pub struct DecodeOutcome<C: Codec = Vp8> {
    frame: ReceivedFrame<C::Payload>,
    /// Name of the target state, the state and the picture; none if the frame is damaged.
    result: Option<(StateId, C::State, C::Decoded)>,
}

impl<C: Codec> DecodeJob<C> {
    /// Decodes the frame and computes the name of its target state.
    #[must_use]
    pub fn run(self) -> DecodeOutcome<C> {
        let Self { arena, source, frame, pixel_limit } = self;
        let result = C::decode(&arena, &source, &frame.payload, frame.target, pixel_limit);
        let result = result.map(|(state, picture)| (C::name(&state), state, picture));
        DecodeOutcome { frame, result }
    }

    /// The target state that the sender announced for the frame.
    #[must_use]
    pub fn target(&self) -> StateId {
        self.frame.target
    }

    /// Whether the frame claims to decode from the empty state.
    #[must_use]
    pub fn is_from_nothing(&self) -> bool {
        self.frame.source == StateId::EMPTY
    }

    /// Memory of the receiving end that the frame is decoded with.
    #[must_use]
    pub fn arena(&self) -> &C::Arena {
        &self.arena
    }

    /// The state that the frame starts from.
    #[must_use]
    pub fn source(&self) -> &C::State {
        &self.source
    }

    /// The frame.
    #[must_use]
    pub fn frame(&self) -> &C::Payload {
        &self.frame.payload
    }

    /// Most pixels of its picture.
    #[must_use]
    pub fn pixel_limit(&self) -> usize {
        self.pixel_limit
    }

    /// The result of the job without decoding, for a driver of both ends. Decoding is a function of source state and
    /// frame, and the sender already has its value, the state `reached`. Not for frames that change another picture
    /// than the last one.
    #[must_use]
    pub fn with_known_state(self, reached: C::State) -> DecodeOutcome<C> {
        let Self { frame, .. } = self;
        let result = C::last_shown(&reached).map(|picture| (frame.target, reached, picture));
        DecodeOutcome { frame, result }
    }
}

/// Picture to be displayed now.
#[derive(Debug, Clone)]
pub struct Display<C: Codec = Vp8> {
    /// Frame number on the wire.
    pub frame: u32,
    /// Capture time on the sender's clock.
    pub captured_at: Timestamp,
    /// Arrival time of its last fragment.
    pub completed_at: Timestamp,
    /// Display time.
    pub displayed_at: Timestamp,
    /// The picture.
    pub picture: C::Decoded,
}

/// Counters of the receiving end, in addition to the transport's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct DecodeCounts {
    /// Frames decoded into the state that the sender announced.
    pub decoded: u64,
    /// Frames that the decoder refused.
    pub undecodable: u64,
    /// Frames decoded into another state than the sender announced; they are not shown.
    pub mismatched: u64,
    /// Decoded frames that are older than one already shown.
    pub late: u64,
}

/// Age at `now` of a stamp of the other end, `stamped_at`. It is the delay beyond `min_delay` plus half the
/// `round_trip`. `min_delay` includes the clock offset, in nanoseconds. Any stamp is accepted, since it is untrusted.
#[must_use]
pub fn age(now: Timestamp, stamped_at: Timestamp, min_delay: i64, round_trip: Duration) -> Duration {
    let delay = now.as_nanos().wrapping_sub(stamped_at.as_nanos()) as i64;
    let beyond = u64::try_from(delay.saturating_sub(min_delay)).unwrap_or(0);
    Duration::from_nanos(beyond) + round_trip / 2
}

/// Number of pixels of a picture.
fn pixels(format: &VideoFormat) -> usize {
    usize::from(format.width) * usize::from(format.height)
}

/// Function that returns the estimator with a number, if known; see
/// [`Hello::estimator`](lockstep_transport::Hello::estimator).
type Estimators = Box<dyn Fn(u16) -> Option<Box<dyn Estimator>> + Send>;

/// Receiving end of a call.
pub struct ReceivingEnd<C: Codec = Vp8> {
    transport: Receiver<C::Payload>,
    /// None until the hello has named it.
    estimator: Option<Box<dyn Estimator>>,
    /// Whether it is needed only when feedback leaves ([`Estimator::follows_arrivals_alone`]).
    needed_for_feedback_only: bool,
    estimators: Option<Estimators>,
    refused_estimator: Option<u16>,
    refused_codec: Option<CodecId>,
    states: HeldStates<C::State>,
    arena: C::Arena,
    /// Sorted by frame number.
    ready: Vec<ReceivedFrame<C::Payload>>,
    decoding: bool,
    format: Option<VideoFormat>,
    /// The owner's limit, and its minimum with the size that the sender announced.
    max_pixels: usize,
    pixel_limit: usize,
    newest_shown: Option<u32>,
    display: Option<Display<C>>,
    sound: VecDeque<SoundPacket<C::Payload>>,
    counts: DecodeCounts,
}

impl<C: Codec> ReceivingEnd<C> {
    /// A receiving end with a fixed estimator, if the owner knows the sender's controller.
    #[must_use]
    pub fn new(transport: ReceiverConfig, estimator: Box<dyn Estimator>) -> Self {
        Self::with(transport, Some(estimator), None)
    }

    /// A receiving end with the estimator that the sender's hello requests. If `estimators` returns none, the hello is
    /// not answered and the driver ends the call; see [`ReceivingEnd::refused_estimator`].
    #[must_use]
    pub fn with_estimators(
        transport: ReceiverConfig,
        estimators: impl Fn(u16) -> Option<Box<dyn Estimator>> + Send + 'static,
    ) -> Self {
        Self::with(transport, None, Some(Box::new(estimators)))
    }

    fn with(transport: ReceiverConfig, estimator: Option<Box<dyn Estimator>>, estimators: Option<Estimators>) -> Self {
        Self {
            transport: Receiver::new(transport),
            needed_for_feedback_only: estimator.as_ref().is_some_and(|estimator| estimator.follows_arrivals_alone()),
            estimator,
            estimators,
            refused_estimator: None,
            refused_codec: None,
            states: HeldStates::new(),
            arena: C::Arena::default(),
            ready: Vec::new(),
            decoding: false,
            format: None,
            max_pixels: DEFAULT_PIXEL_LIMIT,
            pixel_limit: DEFAULT_PIXEL_LIMIT,
            newest_shown: None,
            display: None,
            sound: VecDeque::new(),
            counts: DecodeCounts::default(),
        }
    }

    /// The same end, decoding with `arena` instead of an empty one.
    #[must_use]
    pub fn with_arena(self, arena: C::Arena) -> Self {
        Self { arena, ..self }
    }

    /// The same end with a limit of `limit` pixels instead of [`DEFAULT_PIXEL_LIMIT`]. Calls with larger pictures are
    /// refused. At any limit, a picture larger than the sender's hello announced is never decoded.
    #[must_use]
    pub fn with_pixel_limit(self, limit: usize) -> Self {
        Self { max_pixels: limit, pixel_limit: limit, ..self }
    }

    /// Handles a datagram, from the sender or anybody else. `congestion_experienced` means that a queue marked it.
    /// Returns whether it was valid.
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

    /// Reuses the memory of a handled acknowledgement for the next one, if one driver has both ends.
    pub fn reuse(&mut self, acknowledgement: Box<Acknowledgement>) {
        self.transport.reuse(acknowledgement);
    }

    /// The job of the newest frame to be decoded; none while another one is being decoded. After an outage several
    /// frames may arrive at once with the same source state. The older ones would be shown only briefly, so they are
    /// not decoded.
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

    /// Handles the result of a job.
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
        self.bound_reference_pixels(now);
    }

    /// Evicts states while their reference frames together have too many pixels: one frame of the largest accepted size
    /// per state, and two. A hostile sender can make each state hold three frames. An honest sender may, too, after
    /// losses; but its pictures are smaller, unless they are the largest accepted.
    fn bound_reference_pixels(&mut self, now: Timestamp) {
        let bound = (self.transport.max_held_states() + 2) * self.max_pixels;
        while self.reference_pixels() > bound && self.transport.evict_state() {
            self.drain_events(now);
        }
    }

    /// The next picture to be displayed.
    pub fn poll_display(&mut self) -> Option<Display<C>> {
        self.display.take()
    }

    /// The next packet of sound, in the order of arrival.
    pub fn poll_sound(&mut self) -> Option<SoundPacket<C::Payload>> {
        self.sound.pop_front()
    }

    /// The next datagram for the sender; none if the call is refused ([`ReceivingEnd::refused_estimator`],
    /// [`ReceivingEnd::refused_codec`]).
    #[inline]
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<C::Payload>> {
        if self.refused_estimator.is_some() || self.refused_codec.is_some() {
            return None;
        }
        if let Some(estimator) = &mut self.estimator
            && (!self.needed_for_feedback_only || self.transport.acknowledges(now))
        {
            self.transport.set_estimate(estimator.estimate(now));
        }
        self.transport.poll_transmit(now)
    }

    /// Sets whether acknowledgements leave at their lowest rate instead of the sender's interval. Used for a narrow
    /// path in this direction ([`SendingEnd::is_path_narrow`](crate::SendingEnd::is_path_narrow)).
    pub fn thin_feedback(&mut self, thin: bool) {
        self.transport.thin_acknowledgements(thin);
    }

    /// The next acknowledgement, if it fits into the packet of `media`, which leaves now for the same peer. The packet
    /// has room for `largest` bytes of the transport. The acknowledgement may be slightly early.
    pub fn poll_piggybacked(
        &mut self,
        now: Timestamp,
        media: &Transmit<C::Payload>,
        largest: usize,
    ) -> Option<Transmit<C::Payload>> {
        if !matches!(media.datagram, Datagram::Data(_) | Datagram::Sound(_)) {
            return None;
        }
        let taken = usize::try_from(media.size.get() + PIGGYBACK_OVERHEAD).unwrap_or(usize::MAX);
        let room = largest.saturating_sub(taken);
        if !self.transport.may_piggyback(now, room) {
            return None;
        }
        if let Some(estimator) = &mut self.estimator {
            self.transport.set_estimate(estimator.estimate(now));
        }
        self.transport.poll_piggybacked(now)
    }

    /// Time of the next call of [`ReceivingEnd::poll_transmit`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.transport.poll_timeout()
    }

    /// Whether frames wait for the decoder or are being decoded.
    #[must_use]
    pub fn is_decoding(&self) -> bool {
        self.decoding || !self.ready.is_empty()
    }

    /// Number of the unknown estimator that the sender requested, if the call was refused for it.
    #[must_use]
    pub fn refused_estimator(&self) -> Option<u16> {
        self.refused_estimator
    }

    /// The sender's codec, if the call was refused because it has no decoder here.
    #[must_use]
    pub fn refused_codec(&self) -> Option<CodecId> {
        self.refused_codec
    }

    /// Number of states held as sources.
    #[must_use]
    pub fn held_states(&self) -> usize {
        self.states.len()
    }

    /// Pixels of the pictures that the held states keep together as references; zero without pixels.
    #[must_use]
    pub fn reference_pixels(&self) -> usize {
        C::reference_pixels(self.states.all())
    }

    /// Counts of decoded frames.
    #[must_use]
    pub fn counts(&self) -> DecodeCounts {
        self.counts
    }

    /// The video format that the sender announced; none before the hello.
    #[must_use]
    pub fn format(&self) -> Option<VideoFormat> {
        self.format
    }

    /// The announced format if its pictures exceed the limit of pixels, with that limit.
    #[must_use]
    pub fn format_beyond_limit(&self) -> Option<(VideoFormat, usize)> {
        self.format.filter(|format| pixels(format) > self.max_pixels).map(|format| (format, self.max_pixels))
    }

    /// Variation of the delays of successive datagrams (RFC 3550, section 6.4.1).
    #[must_use]
    pub fn jitter(&self) -> Duration {
        self.transport.jitter()
    }

    /// Number of the sender's connection, which identifies the stream in a call of several; none before the hello.
    #[must_use]
    pub fn connection(&self) -> Option<u32> {
        self.transport.connection()
    }

    /// Base delay: minimum packet delay of the last minute in nanoseconds, including the clock offset. None before the
    /// first packet.
    #[must_use]
    pub fn min_delay(&self) -> Option<i64> {
        self.transport.min_delay()
    }

    /// Age at `now` on this end's clock of a picture that the sender stamped at `stamped_at`. It is the delay beyond
    /// the base delay of the last minute, plus half the `round_trip`. None before the first packet.
    #[must_use]
    pub fn age(&self, now: Timestamp, stamped_at: Timestamp, round_trip: Duration) -> Option<Duration> {
        Some(age(now, stamped_at, self.transport.min_delay()?, round_trip))
    }

    /// Number of missing datagrams among those sent before the newest arrival.
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
                    // Drop the oldest packet if the owner takes none.
                    if self.sound.len() == MAX_SOUND_PACKETS {
                        self.sound.pop_front();
                    }
                    self.sound.push_back(packet);
                }
                ReceiverEvent::Hello(hello) => {
                    self.format = Some(hello.format);
                    self.refused_codec = Some(hello.codec).filter(|codec| !C::accepts(&mut self.arena, *codec));
                    // A small datagram can claim a huge picture.
                    self.pixel_limit = self.max_pixels.min(pixels(&hello.format));
                    if let Some(estimators) = self.estimators.as_ref().filter(|_| self.estimator.is_none()) {
                        self.estimator = estimators(hello.estimator);
                        let estimator = self.estimator.as_ref();
                        self.needed_for_feedback_only =
                            estimator.is_some_and(|estimator| estimator.follows_arrivals_alone());
                        if estimator.is_some_and(|estimator| estimator.acknowledges_each_fragment()) {
                            self.transport.acknowledge_each_fragment();
                        }
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
