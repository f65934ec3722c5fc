//! The receiving side: puts frames together, hands out those that can be decoded, acknowledges.

mod frames;
mod sound;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use crate::catalogue::{Catalogue, Keep};
use crate::feedback_interval::FeedbackInterval;
use crate::payload::Payload;
use crate::reassembly::{Arrived, Stage, Window};
use crate::receiver_statistics::ReceiverStatistics;
use crate::refusal::Refusal;
use crate::sound::HeardSound;
use crate::wire::{Acknowledgement, Data, Datagram, HelloReply, LONGEST_ESTIMATE, ReceivedFragment, WireError, expand};
use crate::{Arrival, DropReason, Estimate, ReceiverConfig, ReceiverEvent, StateId, Transmit};

/// A frame number further ahead than this, or a sequence number further than 256 times this, is not believed.
const FURTHEST_FRAME: u32 = 1 << 16;
/// The arrivals remembered for acknowledgements that the owner has not asked for yet.
const LONGEST_HISTORY: usize = 1024;
/// Fragments that one acknowledgement lists at most where each lists all that is new: in whatever order they came, with them
/// and with 32 states held it fits into a packet of 1,200 bytes.
const MOST_LISTED: usize = 128;
/// An acknowledgement rides with something else by this part of its interval before it is due: early enough to meet the next
/// packet of sound, which leaves every 20 ms, and hardly more often than otherwise.
const RIDES_EARLIER: u32 = 4;
/// Handled acknowledgements kept for their memory: as many as come back before the next one leaves.
const MOST_SPARE: usize = 4;
/// How many refused frames each acknowledgement names.
const REFUSED_LISTED: usize = 4;

/// The receiving side of a connection whose frames are made of `P`. See the crate's documentation for how to drive it.
#[derive(Debug)]
pub struct Receiver<P = Vec<u8>> {
    config: ReceiverConfig,
    connection: Option<u32>,
    greeted: bool,
    reply_due: bool,
    window: Window<P>,
    /// The states that frames in the window wait for, in a place that is used again.
    needed: Vec<StateId>,
    catalogue: Catalogue,
    keep: Keep,
    /// Frames handed out and not yet judged, by number: source and target. They are few.
    pending: Vec<(u32, StateId, StateId)>,
    decoded: Option<u32>,
    refused: VecDeque<u32>,
    sound: HeardSound,
    history: VecDeque<ReceivedFragment>,
    unreported: usize,
    acknowledge: bool,
    highest: Option<Highest>,
    /// Data datagrams that arrived, each sequence number once, and acknowledgements made.
    received: u64,
    /// Smoothed difference between the delays of two arrivals, nanoseconds, and the delay of the newest.
    jitter: f64,
    newest_delay: Option<i64>,
    acknowledgements: u64,
    /// Nothing is acknowledged before, unless it is told at once.
    acknowledge_at: Timestamp,
    /// Whether what is to be told must not wait.
    at_once: bool,
    /// How many times the sender, and this end's owner, want the interval of acknowledgements doubled.
    doublings: [u8; 2],
    estimate: Estimate,
    /// Handled acknowledgements, whose memory is used again; in boxes, as datagrams have them.
    #[expect(clippy::vec_box)]
    spare: Vec<Box<Acknowledgement>>,
    events: VecDeque<ReceiverEvent<P>>,
    statistics: ReceiverStatistics,
}

/// Some of `history`, piece by piece: half of them are listed in each of several acknowledgements a frame.
fn list(history: &VecDeque<ReceivedFragment>, range: Range<usize>, fragments: &mut Vec<ReceivedFragment>) {
    let (older, newer) = history.as_slices();
    let (from, to) = (range.start.min(older.len()), range.end.min(older.len()));
    let (later, end) = (range.start.saturating_sub(older.len()), range.end.saturating_sub(older.len()));
    fragments.clear();
    fragments.reserve(range.len());
    fragments.extend_from_slice(&older[from..to]);
    fragments.extend_from_slice(&newer[later..end]);
}

/// The datagram with the highest sequence number that arrived.
#[derive(Debug, Clone, Copy)]
struct Highest {
    sequence: u64,
    sent_at: Timestamp,
    arrived_at: Timestamp,
    idle: u32,
}

/// What every datagram that is acknowledged says of itself, and how it came.
#[derive(Debug)]
struct Stamp {
    sequence: u64,
    sent_at: Timestamp,
    idle: u32,
    frame: u32,
    fragment: u16,
    size: ByteCount,
    congestion_experienced: bool,
}

impl<P: Payload> Receiver<P> {
    /// A receiver to which nothing has come.
    #[must_use]
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            connection: config.connection,
            greeted: false,
            reply_due: false,
            window: Window::new(config.window, config.window_bytes),
            needed: Vec::new(),
            catalogue: Catalogue::new(config.retained_states.min(255)),
            keep: Keep::default(),
            pending: Vec::new(),
            decoded: None,
            refused: VecDeque::new(),
            sound: HeardSound::new(),
            history: VecDeque::new(),
            unreported: 0,
            acknowledge: false,
            highest: None,
            received: 0,
            jitter: 0.0,
            newest_delay: None,
            acknowledgements: 0,
            acknowledge_at: Timestamp::ZERO,
            at_once: false,
            doublings: [0; 2],
            estimate: Estimate::default(),
            spare: Vec::new(),
            events: VecDeque::new(),
            statistics: ReceiverStatistics::default(),
            config,
        }
    }

    /// Takes a datagram that arrived at `now`, or what was wrong with the bytes that came instead of one (see
    /// [`Datagram::decode`]); `congestion_experienced` says whether a queue on the way had marked it (RFC 3168).
    /// Whatever it holds, nothing but a counter changes unless it is a proper datagram of this connection; says whether
    /// it was one.
    pub fn handle_datagram(
        &mut self,
        now: Timestamp,
        datagram: Result<Datagram<P>, WireError>,
        congestion_experienced: bool,
    ) -> bool {
        self.statistics.datagrams += 1;
        let taken = datagram.map_or(Err(Refusal::Malformed), |it| self.take(now, it, congestion_experienced));
        let Err(refusal) = taken else { return true };
        match refusal {
            Refusal::Malformed => self.statistics.malformed += 1,
            Refusal::Foreign => self.statistics.foreign += 1,
            Refusal::BeforeHello => self.statistics.before_hello += 1,
            Refusal::Unexpected => self.statistics.unexpected += 1,
            Refusal::Absurd => self.statistics.absurd += 1,
        }
        false
    }

    fn take(&mut self, now: Timestamp, datagram: Datagram<P>, congestion_experienced: bool) -> Result<(), Refusal> {
        if self.connection.is_some_and(|connection| connection != datagram.connection()) {
            return Err(Refusal::Foreign);
        }
        match datagram {
            Datagram::Hello(hello) => {
                self.connection = Some(hello.connection);
                self.reply_due = true;
                if !std::mem::replace(&mut self.greeted, true) {
                    self.events.push_back(ReceiverEvent::Hello(hello));
                }
            }
            _ if self.connection.is_none() => return Err(Refusal::BeforeHello),
            Datagram::Data(data) => return self.handle_data(now, data, congestion_experienced),
            Datagram::Sound(sound) => return self.handle_sound(now, sound, congestion_experienced),
            Datagram::Acknowledgement(_) | Datagram::HelloReply(_) => return Err(Refusal::Unexpected),
        }
        Ok(())
    }

    fn handle_data(&mut self, now: Timestamp, data: Data<P>, congestion_experienced: bool) -> Result<(), Refusal> {
        let sequence = self.sequence(data.sequence).ok_or(Refusal::Absurd)?;
        if data.captured > data.sent_at
            || data.fragments > self.config.frame_fragments
            || data.frame > self.window.newest().saturating_add(FURTHEST_FRAME)
            || data.keep_from > data.anchor
            || data.anchor > data.frame
            || data.target == StateId::EMPTY
        {
            return Err(Refusal::Absurd);
        }
        let Data { sent_at, idle, keep_from, anchor, frame, fragment, feedback_doublings, .. } = data;
        let size = ByteCount::new((data.header() + data.payload.length()) as u64);
        let arrived = self.window.insert(data);
        let told = match arrived {
            Arrived::New => true,
            Arrived::Duplicate => {
                self.statistics.duplicates += 1;
                false
            }
            Arrived::Late => {
                self.statistics.late += 1;
                false
            }
            Arrived::Inconsistent => {
                self.statistics.inconsistent += 1;
                return Ok(());
            }
        };
        // What was sent again though it had only been late has crossed the path like anything else. To take it for lost
        // would have controllers see losses where there is nothing but a queue. A copy that the network made has a
        // sequence number that came before.
        let newest = self.highest.is_none_or(|highest| sequence > highest.sequence);
        if !told && !newest {
            return Ok(());
        }
        if newest {
            self.keep = Keep { from: keep_from, anchor };
            self.doublings[0] = feedback_doublings;
        }
        let stamp = Stamp { sequence, sent_at, idle, frame, fragment, size, congestion_experienced };
        self.note_arrival(now, &stamp);
        if !told {
            self.sweep();
            return Ok(());
        }
        self.statistics.fragments += 1;
        self.list_arrival(now, &stamp);
        while let Some((frame, stage)) = self.window.pass() {
            let reason = if stage == Stage::Complete { DropReason::Expired } else { DropReason::Incomplete };
            self.drop_frame(frame, stage, reason);
        }
        while let Some(frame) = self.window.too_big() {
            let Some(stage) = self.window.discard(frame) else { break };
            self.drop_frame(frame, stage, DropReason::NoRoom);
        }
        // A further fragment of a frame changes nothing else.
        if self.window.take_changed() {
            self.advance();
        }
        self.sweep();
        Ok(())
    }

    /// The whole of a sequence number of which these are the lower 32 bits, if it is not too far ahead to be believed.
    fn sequence(&self, low: u32) -> Option<u64> {
        let highest = self.highest.map_or(0, |highest| highest.sequence);
        let sequence = expand(low, highest);
        (sequence <= highest + u64::from(FURTHEST_FRAME) * 256).then_some(sequence)
    }

    /// What came counts as received, and the estimator is told.
    fn note_arrival(&mut self, now: Timestamp, stamp: &Stamp) {
        let &Stamp { sequence, sent_at, idle, frame, fragment, size, congestion_experienced } = stamp;
        self.received += 1;
        self.statistics.bytes += size.get();
        let delay = now.as_nanos().wrapping_sub(sent_at.as_nanos()) as i64;
        if let Some(before) = self.newest_delay.replace(delay) {
            self.jitter += (delay.saturating_sub(before).unsigned_abs() as f64 - self.jitter) / 16.0;
        }
        let newest = self.highest.is_none_or(|highest| sequence > highest.sequence);
        let grace = match self.highest {
            Some(highest) if newest => idle.wrapping_sub(highest.idle),
            _ => 0,
        };
        if newest {
            self.highest = Some(Highest { sequence, sent_at, arrived_at: now, idle });
        }
        self.events.push_back(ReceiverEvent::Arrival(Arrival {
            arrived_at: now,
            sent_at,
            size,
            sequence,
            frame,
            fragment,
            grace: Duration::from_micros(u64::from(grace)),
            congestion_experienced,
        }));
    }

    /// What came for the first time is to be acknowledged.
    fn list_arrival(&mut self, now: Timestamp, stamp: &Stamp) {
        let &Stamp { frame, fragment, congestion_experienced, .. } = stamp;
        self.history.push_back(ReceivedFragment { frame, fragment, arrived_at: now, congestion_experienced });
        if self.history.len() > LONGEST_HISTORY {
            self.history.pop_front();
        }
        self.unreported = (self.unreported + 1).min(self.history.len());
        self.acknowledge = true;
    }

    /// The sender waits for what became of a frame.
    fn tell_verdict(&mut self) {
        self.acknowledge = true;
        self.at_once |= matches!(self.config.feedback, FeedbackInterval::Aggregated(_));
    }

    /// Whether what is to be acknowledged is urgent, and acknowledgements do not queue on their way.
    fn must_not_wait(&self) -> bool {
        self.at_once && self.doublings() == 0
    }

    /// Whether there is something to acknowledge, and its time has come.
    #[inline]
    #[must_use]
    pub fn acknowledges(&self, now: Timestamp) -> bool {
        self.acknowledge && (self.must_not_wait() || self.acknowledge_at <= now)
    }

    /// What acknowledgements say from now on.
    pub fn set_estimate(&mut self, estimate: Estimate) {
        self.estimate = estimate;
    }

    /// What has happened and was not polled yet.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent<P>> {
        let event = self.events.pop_front();
        if event.is_none() {
            // As a ring: begins anew at its front.
            self.events.clear();
        }
        event
    }

    /// The next datagram to send to the sender at `now`. Arrivals that came since the last acknowledgement share one as
    /// long as it can list them all. With [`FeedbackInterval::EveryFragment`] an owner that polls after each datagram
    /// acknowledges each one, and one that first takes all that arrived at one moment saves datagrams. A verdict is
    /// acknowledged too.
    #[inline]
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        // Asked after every event of a call, and seldom with anything to say.
        if self.acknowledges(now) || self.reply_due { self.transmit(now) } else { None }
    }

    fn transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        let connection = self.connection?;
        if std::mem::take(&mut self.reply_due) {
            let retained_states = self.catalogue.bound() as u16;
            return Some(Transmit::of(Datagram::HelloReply(HelloReply { connection, retained_states })));
        }
        if self.acknowledges(now) { self.acknowledgement(now) } else { None }
    }

    /// How many fragments an acknowledgement lists at most, and at least if so many came.
    fn listed(&self) -> (usize, usize) {
        let repeated = self.config.repeated_fragments.clamp(1, 255);
        // Whoever asks for few acknowledgements wants them to tell all.
        let aggregates = self.config.feedback != FeedbackInterval::EveryFragment;
        (if aggregates { MOST_LISTED.max(repeated) } else { repeated }, repeated)
    }

    /// Whether the next acknowledgement may go now with something else that leaves and has room for `room` bytes: it is due
    /// or soon will be, and is no longer than that.
    #[must_use]
    pub fn may_ride(&self, now: Timestamp, room: usize) -> bool {
        if !self.acknowledge || self.highest.is_none() || self.reply_due {
            return false;
        }
        let early = match self.config.feedback {
            FeedbackInterval::Aggregated(_) => {
                self.config.feedback.doubled(self.doublings()).longest_hold() / RIDES_EARLIER
            }
            FeedbackInterval::EveryFragment | FeedbackInterval::Every(_) => Duration::ZERO,
        };
        if !self.acknowledges(now + early) {
            return false;
        }
        let mut next = Acknowledgement::default();
        // What the estimator says may change until then.
        self.write_acknowledgement(now, &mut next) && next.length() + LONGEST_ESTIMATE <= room
    }

    /// The acknowledgement of which [`Self::may_ride`] says that it may go now.
    pub fn poll_riding(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        self.acknowledgement(now)
    }

    /// Writes what the next acknowledgement says over `next`; says whether there is one.
    fn write_acknowledgement(&self, now: Timestamp, next: &mut Acknowledgement) -> bool {
        let (Some(connection), Some(highest)) = (self.connection, self.highest) else { return false };
        let (most, repeated) = self.listed();
        let end = self.history.len() - self.unreported.saturating_sub(most);
        let told = self.unreported.min(most).max(repeated);
        next.connection = connection;
        next.sequence = self.acknowledgements as u32;
        next.sent_at = now;
        next.highest = highest.sequence as u32;
        next.echo = highest.sent_at;
        next.hold = now.saturating_since(highest.arrived_at);
        next.received = self.received as u32;
        next.estimate = self.estimate;
        list(&self.history, end.saturating_sub(told)..end, &mut next.fragments);
        next.catalogue.clear();
        next.catalogue.extend(self.catalogue.list());
        next.refused.clear();
        next.refused.extend(&self.refused);
        true
    }

    /// Makes a handled acknowledgement's memory that of the next one, where one driver has both ends: each lists a dozen
    /// fragments, and a call makes fifty of them a second.
    pub fn reuse(&mut self, acknowledgement: Box<Acknowledgement>) {
        if self.spare.len() < MOST_SPARE {
            self.spare.push(acknowledgement);
        }
    }

    fn acknowledgement(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        let mut acknowledgement = self.spare.pop().unwrap_or_default();
        if !self.write_acknowledgement(now, &mut acknowledgement) {
            return None;
        }
        let (most, repeated) = self.listed();
        self.unreported = self.unreported.saturating_sub(most);
        // What will not be listed again goes: of a thousand calls only as much stays as is looked at.
        let listed_again = self.unreported.max(repeated);
        while self.history.len() > listed_again {
            self.history.pop_front();
        }
        self.acknowledge = self.unreported > 0;
        if !self.acknowledge {
            self.at_once = false;
            self.acknowledge_at = now + self.config.feedback.doubled(self.doublings()).longest_hold();
        }
        self.statistics.acknowledgements += 1;
        self.acknowledgements += 1;
        Some(Transmit::of(Datagram::Acknowledgement(acknowledgement)))
    }

    /// When [`Self::poll_transmit`] is to be called if nothing happens before.
    #[inline]
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        // What is acknowledged at once is asked for at once.
        let aggregates = self.config.feedback != FeedbackInterval::EveryFragment;
        let later = aggregates && self.acknowledge && self.highest.is_some();
        later.then_some(if self.must_not_wait() { Timestamp::ZERO } else { self.acknowledge_at })
    }

    /// Whether the decoder holds `state`, according to the owner's verdicts and the releases so far.
    #[must_use]
    pub fn holds(&self, state: StateId) -> bool {
        self.catalogue.holds(state)
    }

    /// How many frames' states the decoder holds.
    #[must_use]
    pub fn held_states(&self) -> usize {
        self.catalogue.len()
    }

    /// How much the delays of data and sound differ from one to the next (RFC 3550, section 6.4.1).
    #[must_use]
    pub fn jitter(&self) -> Duration {
        Duration::from_nanos(self.jitter as u64)
    }

    /// How many datagrams of data and sound have not come of those that were transmitted before the newest that has.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.highest.map_or(0, |highest| (highest.sequence + 1).saturating_sub(self.received))
    }

    /// The counters.
    #[must_use]
    pub fn statistics(&self) -> ReceiverStatistics {
        self.statistics
    }
}
