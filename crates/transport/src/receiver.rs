//! The receiving side: puts frames together, hands out those that can be decoded, acknowledges.

mod acknowledging;
mod arrivals;
mod decoding;
mod frames;
mod sound;

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use crate::catalogue::Keep;
use crate::payload::Payload;
use crate::reassembly::{Arrived, Stage, Window};
use crate::receiver_statistics::ReceiverStatistics;
use crate::refusal::Refusal;
use crate::sound::HeardSound;
use crate::wire::{Acknowledgement, Data, Datagram, HelloReply, LONGEST_ESTIMATE, VideoFormat, WireError};
use crate::{DropReason, Estimate, ReceiverConfig, ReceiverEvent, StateId, Transmit};

use acknowledging::Acknowledging;
use arrivals::{Arrivals, Stamp};
use decoding::Decoding;

/// A frame number further ahead than this is refused.
const FURTHEST_FRAME: u32 = 1 << 16;

/// The receiving side of a connection whose frames are made of `P`. See the crate's documentation for how to drive it.
#[derive(Debug)]
pub struct Receiver<P = Vec<u8>> {
    connection: Option<u32>,
    announced: Option<VideoFormat>,
    reply_due: bool,
    /// The most fragments that a frame may have.
    most_fragments: u16,
    window: Window<P>,
    decoding: Decoding,
    sound: HeardSound,
    arrivals: Arrivals,
    acknowledging: Acknowledging,
    events: VecDeque<ReceiverEvent<P>>,
    statistics: ReceiverStatistics,
}

impl<P: Payload> Receiver<P> {
    /// A receiver to which nothing has come.
    #[must_use]
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            connection: config.connection,
            announced: None,
            reply_due: false,
            most_fragments: config.frame_fragments,
            window: Window::new(config.window, config.window_bytes),
            decoding: Decoding::new(config.retained_states.min(255), config.window as usize),
            sound: HeardSound::new(),
            arrivals: Arrivals::default(),
            acknowledging: Acknowledging::new(&config),
            events: VecDeque::new(),
            statistics: ReceiverStatistics::default(),
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
                // A later hello announces another format.
                if self.announced.replace(hello.format) != Some(hello.format) {
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
        let sequence = self.arrivals.sequence(data.sequence).ok_or(Refusal::Absurd)?;
        if data.captured > data.sent_at
            || data.fragments > self.most_fragments
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
        let is_first = match arrived {
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
        // A retransmission of a fragment that was only late crossed the path as well. Without it controllers would see
        // losses where there is only a queue. A copy that the network made repeats an earlier sequence number.
        let is_newest = self.arrivals.is_newest(sequence);
        if !is_first && !is_newest {
            return Ok(());
        }
        if is_newest {
            self.decoding.set_keep(Keep { from: keep_from, anchor });
            self.acknowledging.set_sender_doublings(feedback_doublings);
        }
        let stamp = Stamp { sequence, sent_at, idle, frame, fragment, size, congestion_experienced };
        self.note_arrival(now, &stamp);
        if !is_first {
            self.sweep();
            return Ok(());
        }
        self.statistics.fragments += 1;
        self.acknowledging.on_arrival(now, &stamp);
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

    /// Counts an arrival, and reports it to the estimator.
    fn note_arrival(&mut self, now: Timestamp, stamp: &Stamp) {
        self.statistics.bytes += stamp.size.get();
        let arrival = self.arrivals.on_arrival(now, stamp);
        self.events.push_back(ReceiverEvent::Arrival(arrival));
    }

    /// Whether there is something to acknowledge, and its time has come.
    #[inline]
    #[must_use]
    pub fn acknowledges(&self, now: Timestamp) -> bool {
        self.acknowledging.is_due(now)
    }

    /// What acknowledgements say from now on.
    pub fn set_estimate(&mut self, estimate: Estimate) {
        self.acknowledging.set_estimate(estimate);
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
            let retained_states = self.decoding.catalogue().bound() as u16;
            return Some(Transmit::of(Datagram::HelloReply(HelloReply { connection, retained_states })));
        }
        if self.acknowledges(now) { self.acknowledgement(now) } else { None }
    }

    /// Whether the next acknowledgement may go now with something else that leaves and has room for `room` bytes: it is due
    /// or soon will be, and is no longer than that.
    #[must_use]
    pub fn may_ride(&self, now: Timestamp, room: usize) -> bool {
        let Some(connection) = self.connection else { return false };
        if self.reply_due || !self.acknowledging.may_ride(now) {
            return false;
        }
        let next = self.acknowledging.preview(now, connection, &self.arrivals, self.decoding.catalogue());
        // The estimate may change until then.
        next.is_some_and(|next| next.length() + LONGEST_ESTIMATE <= room)
    }

    /// The acknowledgement of which [`Self::may_ride`] says that it may go now.
    pub fn poll_riding(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        self.acknowledgement(now)
    }

    /// Makes a handled acknowledgement's memory that of the next one, where one driver has both ends: each lists a dozen
    /// fragments, and a call makes fifty of them a second.
    pub fn reuse(&mut self, acknowledgement: Box<Acknowledgement>) {
        self.acknowledging.reuse(acknowledgement);
    }

    fn acknowledgement(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        let catalogue = self.decoding.catalogue();
        let acknowledgement = self.acknowledging.make(now, self.connection?, &self.arrivals, catalogue)?;
        self.statistics.acknowledgements += 1;
        Some(Transmit::of(Datagram::Acknowledgement(acknowledgement)))
    }

    /// When [`Self::poll_transmit`] is to be called if nothing happens before.
    #[inline]
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.acknowledging.poll_timeout().filter(|_| self.arrivals.newest().is_some())
    }

    /// Whether the decoder holds `state`, according to the owner's verdicts and the releases so far.
    #[must_use]
    pub fn holds(&self, state: StateId) -> bool {
        self.decoding.catalogue().holds(state)
    }

    /// How many frames' states the decoder holds.
    #[must_use]
    pub fn held_states(&self) -> usize {
        self.decoding.catalogue().len()
    }

    /// How much the delays of data and sound differ from one to the next (RFC 3550, section 6.4.1).
    #[must_use]
    pub fn jitter(&self) -> Duration {
        self.arrivals.jitter()
    }

    /// Smallest delay of data and sound in the last minute, in nanoseconds: receiver's clock at arrival less sender's clock at
    /// transmission. The offset between the clocks is part of it. None before the first arrival.
    #[must_use]
    pub fn least_delay(&self) -> Option<i64> {
        self.arrivals.least_delay()
    }

    /// How many datagrams of data and sound have not come of those that were transmitted before the newest that has.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.arrivals.missing()
    }

    /// The counters.
    #[must_use]
    pub fn statistics(&self) -> ReceiverStatistics {
        self.statistics
    }
}
