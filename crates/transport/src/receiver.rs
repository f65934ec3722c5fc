//! Receiving end: reassembles frames, hands out those that can be decoded, and acknowledges.

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
use crate::sound::ReceivedSound;
use crate::wire::{Acknowledgement, Data, Datagram, HelloReply, MAX_ESTIMATE_BYTES, VideoFormat, WireError};
use crate::{DropReason, Estimate, ReceiverConfig, ReceiverEvent, StateId, Transmit};

use acknowledging::Acknowledging;
use arrivals::{Arrivals, Stamp};
use decoding::Decoding;

/// Largest distance of a frame number from the newest frame; frames further ahead are refused.
const FURTHEST_FRAME: u32 = 1 << 16;

/// Receiving end of a connection. `P` is the content of a frame. The crate documentation describes how to drive it.
#[derive(Debug)]
pub struct Receiver<P = Vec<u8>> {
    connection: Option<u32>,
    announced: Option<VideoFormat>,
    reply_due: bool,
    /// Largest number of fragments of a frame.
    max_fragments: u16,
    window: Window<P>,
    decoding: Decoding,
    sound: ReceivedSound,
    arrivals: Arrivals,
    acknowledging: Acknowledging,
    events: VecDeque<ReceiverEvent<P>>,
    statistics: ReceiverStatistics,
}

impl<P: Payload> Receiver<P> {
    /// A receiver before its first datagram.
    #[must_use]
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            connection: config.connection,
            announced: None,
            reply_due: false,
            max_fragments: config.frame_fragments,
            window: Window::new(config.window, config.window_bytes),
            decoding: Decoding::new(config.retained_states.min(255), config.window as usize, config.window_bytes),
            sound: ReceivedSound::new(),
            arrivals: Arrivals::default(),
            acknowledging: Acknowledging::new(&config),
            events: VecDeque::new(),
            statistics: ReceiverStatistics::default(),
        }
    }

    /// Handles a datagram that arrived at `now`, or the error of [`Datagram::decode`]. `congestion_experienced` is
    /// whether a queue on the path marked the datagram (RFC 3168).
    ///
    /// Returns whether it is a valid datagram of this connection. If not, only a counter changes.
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
                // A later hello announces a new format.
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
            || data.fragments > self.max_fragments
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
        // The retransmission of a fragment that was only late crossed the path as well. If it did not count,
        // controllers would see a loss where there is only a queue. A copy that the network made repeats an earlier
        // sequence number.
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
        // A further fragment of a known, incomplete frame changes no other state.
        if self.window.take_changed() {
            self.advance();
        }
        self.sweep();
        Ok(())
    }

    /// Counts an arrival and reports it to the estimator.
    fn note_arrival(&mut self, now: Timestamp, stamp: &Stamp) {
        self.statistics.bytes += stamp.size.get();
        let arrival = self.arrivals.on_arrival(now, stamp);
        self.events.push_back(ReceiverEvent::Arrival(arrival));
    }

    /// Whether an acknowledgement is due.
    #[inline]
    #[must_use]
    pub fn acknowledges(&self, now: Timestamp) -> bool {
        self.acknowledging.is_due(now)
    }

    /// Acknowledges each fragment from now on, as [`EveryFragment`](crate::FeedbackInterval::EveryFragment) does.
    pub fn acknowledge_each_fragment(&mut self) {
        self.acknowledging.acknowledge_each_fragment();
    }

    /// Sets the estimate for the following acknowledgements.
    pub fn set_estimate(&mut self, estimate: Estimate) {
        self.acknowledging.set_estimate(estimate);
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent<P>> {
        let event = self.events.pop_front();
        if event.is_none() {
            // An empty deque restarts at its first slot, which is in the cache (see `Ring`).
            self.events.clear();
        }
        event
    }

    /// Returns the next datagram to transmit at `now`: a reply to a hello, or an acknowledgement.
    ///
    /// An acknowledgement covers all arrivals and verdicts since the last one, if its list has room. With
    /// [`EveryFragment`](crate::FeedbackInterval::EveryFragment), poll after each datagram to acknowledge each one
    /// separately. Poll after all datagrams of one moment to save acknowledgements.
    #[inline]
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        // This is called after every event of a call and seldom has something to send.
        if self.acknowledges(now) || self.reply_due { self.transmit(now) } else { None }
    }

    fn transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        let connection = self.connection?;
        if std::mem::take(&mut self.reply_due) {
            let retained_states = self.max_held_states() as u16;
            return Some(Transmit::of(Datagram::HelloReply(HelloReply { connection, retained_states })));
        }
        if self.acknowledges(now) { self.acknowledgement(now) } else { None }
    }

    /// Whether the next acknowledgement may share a packet that leaves now and has `room` free bytes. It must be due,
    /// or almost due, and fit.
    #[must_use]
    pub fn may_piggyback(&self, now: Timestamp, room: usize) -> bool {
        let Some(connection) = self.connection else { return false };
        if self.reply_due || !self.acknowledging.may_piggyback(now) {
            return false;
        }
        let next = self.acknowledging.preview(now, connection, &self.arrivals, self.decoding.catalogue());
        // The estimate may change before the acknowledgement is made.
        next.is_some_and(|next| next.length() + MAX_ESTIMATE_BYTES <= room)
    }

    /// Returns an acknowledgement, due or not. Call it after [`Self::may_piggyback`] returned `true`.
    pub fn poll_piggybacked(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        self.acknowledgement(now)
    }

    /// Keeps the memory of a handled acknowledgement for a later one, for a driver of both ends. Each acknowledgement
    /// lists a dozen fragments, and a call sends fifty per second.
    pub fn reuse(&mut self, acknowledgement: Box<Acknowledgement>) {
        self.acknowledging.reuse(acknowledgement);
    }

    fn acknowledgement(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        let catalogue = self.decoding.catalogue();
        let acknowledgement = self.acknowledging.make(now, self.connection?, &self.arrivals, catalogue)?;
        self.statistics.acknowledgements += 1;
        Some(Transmit::of(Datagram::Acknowledgement(acknowledgement)))
    }

    /// Time at which to call [`Self::poll_transmit`] if nothing happens before.
    #[inline]
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.acknowledging.poll_timeout().filter(|_| self.arrivals.newest().is_some())
    }

    /// Whether the decoder holds `state`, by the verdicts of the owner and the releases.
    #[must_use]
    pub fn holds(&self, state: StateId) -> bool {
        self.decoding.catalogue().holds(state)
    }

    /// Maximum number of frames whose states the decoder holds.
    #[must_use]
    pub fn max_held_states(&self) -> usize {
        self.decoding.catalogue().bound()
    }

    /// Number of frames whose states the decoder holds.
    #[must_use]
    pub fn held_states(&self) -> usize {
        self.decoding.catalogue().len()
    }

    /// Interarrival jitter of data and sound (RFC 3550, section 6.4.1).
    #[must_use]
    pub fn jitter(&self) -> Duration {
        self.arrivals.jitter()
    }

    /// Number of the connection; `None` before the hello.
    #[must_use]
    pub fn connection(&self) -> Option<u32> {
        self.connection
    }

    /// Smallest one-way delay of data and sound in the last minute, nanoseconds. It includes the offset between the
    /// clocks: arrival on the receiver's clock minus transmission on the sender's clock. `None` before the first
    /// arrival.
    #[must_use]
    pub fn min_delay(&self) -> Option<i64> {
        self.arrivals.min_delay()
    }

    /// Number of datagrams of data and sound that were sent before the newest arrival and have not arrived.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.arrivals.missing()
    }

    /// Counters.
    #[must_use]
    pub fn statistics(&self) -> ReceiverStatistics {
        self.statistics
    }
}
