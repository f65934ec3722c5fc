//! Sending end: cuts frames into fragments, paces them, handles acknowledgements, and chooses source states.

mod events;
mod hello;
mod sound;
mod sources;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use crate::feedback_interval::FeedbackInterval;
use crate::loss::{Loss, LossDetection, SentFragment};
use crate::pacer::Pacer;
use crate::parity::{MAX_PARITY_FRAGMENTS, Parity, even_payload, protected_payload};
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::repeat::Repeat;
use crate::retransmission::{FragmentedFrame, Repetition, Retransmission, repair_time};
use crate::reverse_path::ReversePath;
use crate::round_trip::RoundTripTime;
use crate::sound::{SOUND, WaitingSound};
use crate::states::SentStates;
use crate::wire::{Acknowledgement, Data, Datagram, Hello, MAX_PAYLOAD, PARITY_FIELDS, WireError, expand};
use crate::{
    AcknowledgedFragment, Estimate, Feedback, FragmentsInFlight, LostFragment, OutgoingFrame, Recovery, SendError,
    SenderConfig, SenderEvent, SenderStatistics, StateId, Transmit, TransmittedFragment,
};

/// Longest pause between two hellos.
const MAX_HELLO_INTERVAL: Duration = Duration::from_secs(2);
/// Largest number of fragments that may wait for the pacer.
const MAX_QUEUED_FRAGMENTS: usize = 65_536;
/// Number of frames remembered with [`Recovery::Retransmit`]. All frames in flight must be known to detect their loss.
/// The codec itself only keeps the state of the last frame.
const RETRANSMITTED_STATES: usize = 1_024;

/// A frame and its parity.
#[derive(Debug)]
struct ProtectedFrame<P> {
    outgoing: OutgoingFrame<P>,
    parity: Vec<P>,
}

#[derive(Debug)]
struct QueuedFrame<P> {
    frame: Arc<FragmentedFrame<ProtectedFrame<P>>>,
    next: u16,
}

impl<P> QueuedFrame<P> {
    /// Index after the last fragment, parity included.
    fn end(&self) -> u16 {
        self.frame.fragments + self.frame.frame.parity.len() as u16
    }
}

/// Sending end of a connection. `P` is the content of a frame. The crate documentation describes how to drive it.
#[derive(Debug)]
pub struct Sender<P = Vec<u8>> {
    config: SenderConfig,
    max_payload: usize,
    hello: Repeat,
    /// Whether a later hello is unanswered.
    is_greeting: bool,
    connected: bool,
    next_frame: u32,
    queue: VecDeque<QueuedFrame<P>>,
    queued: usize,
    sound: WaitingSound<P>,
    pacer: Pacer,
    transmitted_at: Option<Timestamp>,
    idle: Duration,
    loss: LossDetection,
    states: SentStates,
    retransmission: Retransmission<ProtectedFrame<P>>,
    newest_acknowledgement: Option<u64>,
    reverse_path: ReversePath,
    /// Number of fragments that counted as lost but arrived, not reported yet.
    found: usize,
    /// Fragments that an acknowledgement newly reports. The vector is reused.
    open: Vec<(usize, u64)>,
    /// Reused memory for the fragments of a [`Feedback`].
    spare: Vec<AcknowledgedFragment>,
    /// Acknowledgement that was handled last.
    handled: Option<Box<Acknowledgement>>,
    estimate: Estimate,
    events: VecDeque<SenderEvent>,
    statistics: SenderStatistics,
}

impl<P: Payload> Sender<P> {
    /// A sender before its first datagram, which is the hello. Frames may follow at once.
    #[must_use]
    pub fn new(mut config: SenderConfig) -> Self {
        config.payload = config.payload.clamp(1, MAX_PAYLOAD);
        if config.recovery == Recovery::Retransmit {
            config.retained_states = config.retained_states.max(RETRANSMITTED_STATES);
        }
        Self {
            hello: Repeat::from(Timestamp::ZERO, config.hello_interval, MAX_HELLO_INTERVAL, None),
            is_greeting: false,
            connected: false,
            next_frame: 0,
            queue: VecDeque::new(),
            queued: 0,
            sound: WaitingSound::new(config.tuning.waiting_sound),
            pacer: Pacer::new(Duration::ZERO, 1),
            transmitted_at: None,
            idle: Duration::ZERO,
            loss: LossDetection::new(config.tuning.loss_detection, config.feedback.max_hold()),
            states: SentStates::new(config.retained_states),
            retransmission: Retransmission::default(),
            newest_acknowledgement: None,
            reverse_path: ReversePath::new(config.tuning.reverse_path),
            found: 0,
            open: Vec::new(),
            spare: Vec::new(),
            handled: None,
            estimate: Estimate::default(),
            events: VecDeque::new(),
            statistics: SenderStatistics::default(),
            max_payload: config.payload,
            config,
        }
    }

    /// Queues a frame for the pacer. Returns its number; numbers start at 0.
    ///
    /// # Errors
    /// [`SendError`] if the frame cannot be sent; the sender is then unchanged.
    pub fn send_frame(&mut self, now: Timestamp, mut frame: OutgoingFrame<P>) -> Result<u32, SendError> {
        let length = frame.payload.length();
        let (most, parity) = self.cut(frame.parity);
        let fragments = u16::try_from(length.div_ceil(most).max(1)).ok();
        let fragments = fragments.filter(|own| own.checked_add(parity).is_some_and(|all| all < SOUND));
        let fragments = fragments.ok_or(SendError::TooLong(length))?;
        let all = usize::from(fragments + parity);
        // Parity has the length of the longest fragment, so fragments of equal size need the least parity.
        let payload = if parity > 0 { even_payload(length, fragments) } else { most };
        let fragments = length.div_ceil(payload).max(1) as u16;
        if frame.target == StateId::EMPTY {
            return Err(SendError::EmptyTarget);
        }
        if !self.states.retains(frame.source) {
            return Err(SendError::UnknownSource(frame.source));
        }
        if self.queued + all > MAX_QUEUED_FRAGMENTS {
            return Err(SendError::QueueFull(self.queued));
        }
        let number = self.next_frame;
        self.next_frame = number.checked_add(1).ok_or(SendError::NumbersExhausted)?;
        // A capture time after the transmission would be invalid. Each copy of a fragment must have the same one.
        frame.captured = frame.captured.min(now);
        let parity = if parity > 0 { frame.payload.protect(payload, parity) } else { Vec::new() };
        self.states.sent(number, frame.source, frame.target, parity.len() as u16);
        self.queued += usize::from(fragments) + parity.len();
        let frame = ProtectedFrame { outgoing: frame, parity };
        let frame = Arc::new(FragmentedFrame { number, frame, queued_at: now, fragments, payload });
        if self.config.recovery == Recovery::Retransmit {
            self.retransmission.keep(&frame);
        }
        self.queue.push_back(QueuedFrame { frame, next: 0 });
        self.statistics.frames += 1;
        self.emit_events();
        Ok(number)
    }

    /// Largest payload of each fragment, bytes, and number of parity fragments, if `parity` are requested.
    fn cut(&self, parity: u16) -> (usize, u16) {
        let payload = protected_payload(self.config.payload, PARITY_FIELDS);
        if parity == 0 || payload == 0 { (self.config.payload, 0) } else { (payload, parity.min(MAX_PARITY_FRAGMENTS)) }
    }

    /// Sets the pacing interval between two fragments, and how many may leave together after a pause. Initially the
    /// interval is zero and the burst is 1.
    pub fn set_pace(&mut self, interval: Duration, burst: u32) {
        self.pacer.set(interval, burst);
    }

    /// Sets the largest number of frame bytes per fragment, for the following frames. Use the packet size that the path
    /// is known to carry. Returns the number applied, which is at most the initial [`SenderConfig::payload`].
    pub fn set_payload(&mut self, bytes: usize) -> usize {
        self.config.payload = bytes.clamp(1, self.max_payload);
        self.config.payload
    }

    /// Drops the frames that wait for the pacer, for example after an outage that has made them stale. Returns their
    /// number.
    ///
    /// Each dropped frame counts as lost, even if some of its fragments have left. The frames that depend on it count
    /// as lost as well. The next source is then a state that the receiver holds. With [`Recovery::Retransmit`] nothing
    /// is dropped, since later frames depend on the waiting ones.
    pub fn drop_waiting(&mut self) -> usize {
        if self.config.recovery == Recovery::Retransmit || self.queue.is_empty() {
            return 0;
        }
        let dropped = self.queue.len();
        self.queued = 0;
        for waiting in self.queue.drain(..) {
            self.states.give_up(waiting.frame.number);
        }
        self.states.settle();
        self.emit_events();
        dropped
    }

    /// Whether nothing waits to leave at `now`, regardless of the pace; [`Self::poll_transmit`] then returns `None`.
    #[inline]
    #[must_use]
    pub fn is_quiet(&self, now: Timestamp) -> bool {
        let greets = self.hello.next().is_some_and(|at| at <= now);
        !greets && self.queued_fragments() == 0 && !self.sound.is_due(now)
    }

    /// Returns the next datagram to transmit at `now`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        // The fast path for a paced frame: this is called after each of its fragments.
        let paced = self.pacer.next() > now && self.hello.next().is_none_or(|at| at > now);
        if paced && !self.sound.is_due(now) { None } else { self.transmit(now) }
    }

    fn transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        let connection = self.config.connection;
        if self.hello.take(now) {
            let SenderConfig { format, estimator, codec, .. } = self.config;
            return Some(Transmit::of(Datagram::Hello(Hello { connection, format, estimator, codec })));
        }
        if self.sound.is_due(now)
            && let Some(bundle) = self.sound.pop()
        {
            return Some(self.transmit_sound(now, bundle));
        }
        let free_at = self.pacer.next();
        if free_at > now {
            return None;
        }
        let sequence = self.loss.next_sequence();
        let repetition = self.retransmission.pop();
        let retransmitted = repetition.is_some();
        let Repetition { frame: queued, fragment, since } = repetition.or_else(|| self.next_fragment())?;
        self.note_idle(now, since.max(free_at));
        let number = queued.number;
        let ProtectedFrame { outgoing, parity } = &queued.frame;
        let length = outgoing.payload.length();
        let symbol = fragment.checked_sub(queued.fragments).and_then(|place| parity.get(usize::from(place)));
        let (own, payload) = if let Some(symbol) = symbol {
            self.loss.protect(number, queued.fragments);
            self.statistics.parity += 1;
            (ByteCount::ZERO, symbol.clone())
        } else {
            let start = usize::from(fragment) * queued.payload;
            let end = (start + queued.payload).min(length);
            (ByteCount::new((end - start) as u64), outgoing.payload.part(start..end))
        };
        let last = length - usize::from(queued.fragments - 1) * queued.payload;
        let datagram = Datagram::Data(Data {
            connection,
            sequence: sequence as u32,
            frame: number,
            fragment,
            fragments: queued.fragments,
            parity: symbol.map(|_| Parity { count: parity.len() as u16, last: last as u16 }),
            source: outgoing.source,
            target: outgoing.target,
            sent_at: now,
            captured: outgoing.captured,
            idle: self.idle.as_micros() as u32,
            keep_from: self.states.keep_from(),
            anchor: self.states.anchor(),
            key_frame: outgoing.key_frame,
            feedback_doublings: self.reverse_path.doublings(),
            payload,
        });
        self.pacer.transmitted(now);
        self.transmitted_at = Some(now);
        let size = datagram.size();
        self.loss.transmitted(SentFragment { frame: number, fragment, size, sent_at: now });
        self.statistics.fragments += 1;
        self.statistics.bytes += size.get();
        if retransmitted {
            self.statistics.retransmitted += 1;
        } else {
            self.statistics.payload_bytes += own.get();
        }
        Some(Transmit { datagram, size, fragment: Some(TransmittedFragment { payload: own, retransmitted }) })
    }

    /// Adds the gap before a transmission at `now` that could have left at `free_at` to the idle time. Only a gap that
    /// the sender chose counts: no data, or the pacer. A late host does not count.
    fn note_idle(&mut self, now: Timestamp, free_at: Timestamp) {
        if let Some(last) = self.transmitted_at.filter(|&last| free_at > last) {
            self.idle += now.saturating_since(last);
        }
    }

    /// The next fragment of a new frame.
    fn next_fragment(&mut self) -> Option<Repetition<ProtectedFrame<P>>> {
        let queued = self.queue.front_mut()?;
        let fragment = queued.next;
        queued.next += 1;
        let is_last = queued.next == queued.end();
        let frame = if is_last { self.queue.pop_front()?.frame } else { Arc::clone(&queued.frame) };
        let since = frame.queued_at;
        self.queued -= 1;
        Some(Repetition { frame, fragment, since })
    }

    /// Handles a datagram that arrived at `now`, or the error of [`Datagram::decode`].
    ///
    /// Returns whether it is a valid datagram of this connection. If not, only a counter changes.
    pub fn handle_datagram(&mut self, now: Timestamp, datagram: Result<Datagram<P>, WireError>) -> bool {
        self.statistics.datagrams += 1;
        let taken = match datagram {
            Ok(datagram) => self.take(now, datagram),
            Err(_) => Err(Refusal::Malformed),
        };
        let Err(refusal) = taken else { return true };
        match refusal {
            Refusal::Malformed => self.statistics.malformed += 1,
            Refusal::Foreign => self.statistics.foreign += 1,
            Refusal::Unexpected | Refusal::BeforeHello => self.statistics.unexpected += 1,
            Refusal::Absurd => self.statistics.absurd += 1,
        }
        false
    }

    fn take(&mut self, now: Timestamp, datagram: Datagram<P>) -> Result<(), Refusal> {
        if datagram.connection() != self.config.connection {
            return Err(Refusal::Foreign);
        }
        match datagram {
            Datagram::Acknowledgement(acknowledgement) => {
                let result = self.handle_acknowledgement(now, &acknowledgement);
                self.handled = Some(acknowledgement);
                return result;
            }
            Datagram::HelloReply(reply) => {
                self.hello.stop();
                if !std::mem::replace(&mut self.connected, true) {
                    if self.config.recovery == Recovery::FromHeldState {
                        self.states.limit(usize::from(reply.retained_states));
                    }
                    self.events.push_back(SenderEvent::Connected);
                    self.emit_events();
                } else if std::mem::take(&mut self.is_greeting) {
                    self.events.push_back(SenderEvent::Answered);
                }
            }
            Datagram::Data(_) | Datagram::Sound(_) | Datagram::Hello(_) => return Err(Refusal::Unexpected),
        }
        Ok(())
    }

    /// Validates an acknowledgement. Returns its highest sequence number, its number of arrivals and its own number, or
    /// `None` if a field is impossible. Writes the fragments that were not acknowledged before to `open`: position in
    /// the list and sequence number.
    fn validate(
        &self,
        now: Timestamp,
        acknowledgement: &Acknowledgement,
        open: &mut Vec<(usize, u64)>,
    ) -> Option<[u64; 3]> {
        let transmitted = self.loss.next_sequence();
        let highest = expand(acknowledgement.highest, transmitted);
        let received = expand(acknowledgement.received, transmitted);
        let number = expand(acknowledgement.sequence, self.newest_acknowledgement.unwrap_or(0));
        // A receiver acknowledges arrivals and verdicts; there are at least as many arrivals as verdicts.
        let possible = highest < transmitted && received <= transmitted && number <= 2 * transmitted;
        let echoed = self.loss.get(highest).is_none_or(|s| s.sent_at.as_micros() == acknowledgement.echo.as_micros());
        let in_time = acknowledgement.echo + acknowledgement.hold <= now;
        let judged = acknowledgement.catalogue.iter().chain(&acknowledgement.refused);
        let transmitted = judged.copied().all(|frame| self.loss.was_transmitted(frame));
        if !(possible && echoed && in_time && transmitted) {
            return None;
        }
        let named = acknowledgement.fragments.iter().map(|listed| (listed.frame, listed.fragment));
        self.loss.find_open(named, highest, open).then_some([highest, received, number])
    }

    fn handle_acknowledgement(&mut self, now: Timestamp, acknowledgement: &Acknowledgement) -> Result<(), Refusal> {
        let mut open = std::mem::take(&mut self.open);
        let validated = self.validate(now, acknowledgement, &mut open);
        let result = validated.ok_or(Refusal::Absurd).map(|numbers| self.apply(now, acknowledgement, numbers, &open));
        self.open = open;
        result
    }

    /// Applies an acknowledgement; the arguments are results of [`Self::validate`].
    fn apply(
        &mut self,
        now: Timestamp,
        acknowledgement: &Acknowledgement,
        [highest, received, number]: [u64; 3],
        open: &[(usize, u64)],
    ) {
        self.statistics.acknowledgements += 1;
        let mut acknowledged = std::mem::take(&mut self.spare);
        acknowledged.reserve(open.len());
        let mut sample = None;
        for &(place, sequence) in open {
            let Some(listed) = acknowledgement.fragments.get(place) else { continue };
            // A fragment that is listed twice is only open once.
            let Some((sent, spurious)) = self.loss.acknowledge(now, sequence) else { continue };
            self.statistics.fragments_acknowledged += 1;
            self.found(&sent, spurious);
            if sequence == highest {
                sample = Some(now.saturating_since(sent.sent_at).saturating_sub(acknowledgement.hold));
            }
            acknowledged.push(AcknowledgedFragment {
                frame: sent.frame,
                fragment: sent.fragment,
                size: sent.size,
                sent_at: sent.sent_at,
                arrived_at: listed.arrived_at,
                acknowledged_at: now,
                congestion_experienced: listed.congestion_experienced,
            });
        }
        if let Some(sample) = sample {
            self.loss.sample(sample);
        }
        let newer = self.newest_acknowledgement.is_none_or(|newest| number > newest);
        if newer {
            self.newest_acknowledgement = Some(number);
            self.estimate = acknowledgement.estimate;
            if matches!(self.config.feedback, FeedbackInterval::Aggregated(_)) {
                self.reverse_path.on_acknowledgement(now, acknowledgement.sent_at);
                let doublings = self.reverse_path.max_applied(now);
                self.loss.set_max_hold(self.config.feedback.doubled(doublings).max_hold());
            }
            for &frame in &acknowledgement.catalogue {
                for (sent, spurious) in self.loss.frame_arrived(frame) {
                    self.statistics.fragments_implied += 1;
                    self.found(&sent, spurious);
                }
            }
            self.states.catalogue(&acknowledgement.catalogue);
        } else {
            self.statistics.overtaken_acknowledgements += 1;
        }
        acknowledgement.refused.iter().for_each(|&frame| self.states.refused(frame));
        if newer || !acknowledged.is_empty() {
            self.events.push_back(SenderEvent::Feedback(Feedback {
                acknowledged,
                estimate: self.estimate,
                round_trip_time: sample,
                highest_sequence: highest,
                found: std::mem::take(&mut self.found),
                received,
            }));
        } else {
            self.spare = acknowledged;
        }
        self.detect(now);
    }

    fn found(&mut self, sent: &SentFragment, spurious: bool) {
        if spurious {
            self.statistics.spurious += 1;
            self.found += 1;
            if sent.is_sound() {
                return;
            }
            match self.config.recovery {
                Recovery::FromHeldState => self.states.fragment_found(sent.frame),
                Recovery::Retransmit => self.retransmission.found(sent.frame, sent.fragment),
            }
        }
    }

    fn detect(&mut self, now: Timestamp) {
        let lost = self.loss.detect(now);
        if !lost.is_empty() || self.config.recovery == Recovery::Retransmit {
            // Only the controller needs to know of lost sound.
            let of_frames: Vec<Loss> = lost.iter().copied().filter(|loss| !loss.sent.is_sound()).collect();
            match self.config.recovery {
                Recovery::FromHeldState => of_frames.iter().for_each(|loss| self.states.fragment_lost(loss.sent.frame)),
                Recovery::Retransmit => self.repair(now, &of_frames),
            }
        }
        if !lost.is_empty() {
            self.statistics.fragments_lost += lost.len() as u64;
            let fragments = lost.into_iter().map(|loss| LostFragment::from(loss.sent)).collect();
            self.events.push_back(SenderEvent::FragmentsLost(fragments));
        }
        self.states.settle();
        if self.config.recovery == Recovery::Retransmit {
            let changed = self.states.take_settled();
            self.retransmission.forget(changed, |frame| self.states.may_arrive(frame));
        }
        self.emit_events();
    }

    /// Queues lost fragments for retransmission, and gives up frames that are too old.
    fn repair(&mut self, now: Timestamp, lost: &[Loss]) {
        let round_trip = self
            .loss
            .round_trip_time()
            .map_or(self.config.tuning.loss_detection.first_round_trip, |time| time.smoothed);
        let repair_time = repair_time(round_trip);
        let mut hopeless = self.retransmission.lost(now, lost, repair_time);
        hopeless.extend(self.retransmission.resolve(now, |sequence| self.loss.is_overtaken(sequence), repair_time));
        hopeless.into_iter().for_each(|frame| self.states.give_up(frame));
    }

    /// Time at which to call [`Self::handle_timeout`] and [`Self::poll_transmit`] if nothing happens before. A time in
    /// the past means now.
    #[inline]
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let mut next = self.loss.timeout().unwrap_or(Timestamp::MAX);
        if let Some(sound) = self.sound.due() {
            next = next.min(sound);
        }
        if self.queued_fragments() > 0 {
            next = next.min(self.pacer.next());
        }
        if let Some(hello) = self.hello.next() {
            next = next.min(hello);
        }
        (next < Timestamp::MAX).then_some(next)
    }

    /// Detects losses at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.detect(now);
    }

    /// Fragments that are neither acknowledged nor lost.
    #[must_use]
    pub fn in_flight(&self) -> FragmentsInFlight {
        let (fragments, bytes) = self.loss.in_flight();
        FragmentsInFlight { fragments, bytes }
    }

    /// Number of fragments that wait for the pacer, retransmissions included.
    #[must_use]
    pub fn queued_fragments(&self) -> usize {
        self.queued + self.retransmission.waiting()
    }

    /// Round-trip time; `None` before the first measurement.
    #[must_use]
    pub fn round_trip_time(&self) -> Option<RoundTripTime> {
        self.loss.round_trip_time()
    }

    /// Newest estimate of the receiver.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        self.estimate
    }

    /// Number of frames whose states are kept.
    #[must_use]
    pub fn held_states(&self) -> usize {
        self.states.retained()
    }

    /// Number of frames whose states the receiver held at its newest acknowledgement.
    #[must_use]
    pub fn receiver_states(&self) -> usize {
        self.states.receiver_states()
    }

    /// Counters.
    #[must_use]
    pub fn statistics(&self) -> SenderStatistics {
        SenderStatistics { evicted_states: self.states.evicted(), ..self.statistics }
    }
}
