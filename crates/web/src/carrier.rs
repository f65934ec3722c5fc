//! WebTransport session of a page as the carrier of a call.
//!
//! The page passes in what arrives, and sends what [`Carrier::poll_transmit`], [`WebCarrier::take_control`] and
//! [`WebCarrier::take_messages`] return.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_session::control::{self, CallKind, CloseReason};
use lockstep_session::messages::{
    self, Delivery, LatestChannels, MAX_UNSENT_BYTES, Message, MessageError, ReliableReader,
};
use lockstep_session::probe::{Token, answer_to, answered, challenge, is_keep_alive, is_resumed, keep_alive, resumed};
use lockstep_session::stream::StreamName;
use lockstep_session::ticket::Secret;
use lockstep_session::{Carrier, CarrierEvent, Loss, Route, SILENT, TicketRefusal};
use lockstep_units::Timestamp;

/// Longest interval between two datagrams of this end.
const KEEP_ALIVE: Duration = Duration::from_millis(200);
/// After this long without a datagram, which is longer than [`KEEP_ALIVE`], the path counts as interrupted.
const PAUSE: Duration = Duration::from_millis(500);
/// Interval between measurements of the round trip.
const MEASUREMENT: Duration = Duration::from_secs(1);
/// Datagrams that may wait for the page; further ones are dropped.
const MAX_DATAGRAMS: usize = 1_024;
/// First close code for a refused ticket; lower codes are those of [`CloseReason`].
const REFUSALS: u32 = 1 << 16;
/// How long the close message waits for its confirmation.
const CLOSING: Duration = Duration::from_secs(3);

/// Stage of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The page opens the session.
    Opening,
    /// The ticket is shown.
    Joining,
    /// The listener has welcomed this end.
    Joined,
    /// This end has sent its close message.
    Closing { since: Timestamp, until: Timestamp },
    /// The session is over.
    Over,
}

/// Connection of a page.
pub(crate) struct WebCarrier {
    secret: Secret,
    kind: CallKind,
    tried: String,
    stage: Stage,
    has_joined: bool,
    events: VecDeque<CarrierEvent<Vec<u8>>>,
    datagrams: VecDeque<Vec<u8>>,
    control: Vec<u8>,
    messages: Vec<u8>,
    /// Bytes of messages that the page has not written yet.
    unsent: usize,
    incoming_control: control::Messages,
    incoming_messages: ReliableReader,
    latest: LatestChannels,
    largest: Option<usize>,
    last_received: Timestamp,
    last_sent: Timestamp,
    measured_at: Option<Timestamp>,
    min_round_trip: Option<Duration>,
    unconfirmed: Option<Duration>,
}

impl WebCarrier {
    /// Joins with `secret`. `tried` describes the addresses, for error messages.
    pub(crate) fn new(secret: Secret, kind: CallKind, tried: String, now: Timestamp) -> Self {
        Self {
            secret,
            kind,
            tried,
            stage: Stage::Opening,
            has_joined: false,
            events: VecDeque::new(),
            datagrams: VecDeque::new(),
            control: Vec::new(),
            messages: Vec::new(),
            unsent: 0,
            incoming_control: control::Messages::default(),
            incoming_messages: ReliableReader::default(),
            latest: LatestChannels::default(),
            largest: None,
            last_received: now,
            last_sent: now,
            measured_at: None,
            min_round_trip: None,
            unconfirmed: None,
        }
    }

    /// The page has opened the session, which carries datagrams of up to `largest` bytes.
    pub(crate) fn opened(&mut self, now: Timestamp, largest: usize) {
        self.largest = Some(largest);
        if self.stage == Stage::Opening {
            self.stage = Stage::Joining;
            (self.last_received, self.last_sent) = (now, now);
            self.send_in_stream(&control::Message::Join { secret: self.secret, kind: self.kind });
        }
    }

    fn send_in_stream(&mut self, message: &control::Message) {
        self.control.extend(message.to_bytes());
    }

    /// Records that something arrived.
    fn received(&mut self, now: Timestamp) {
        let pause = now.saturating_since(self.last_received);
        self.last_received = self.last_received.max(now);
        if pause >= PAUSE && self.is_open() {
            self.events.push_back(CarrierEvent::Returned);
            self.send(resumed());
        }
    }

    /// Handles a datagram.
    pub(crate) fn handle_datagram(&mut self, now: Timestamp, datagram: &[u8]) {
        self.received(now);
        if !self.has_joined || self.stage == Stage::Over {
            return;
        }
        if let Some(answer) = answer_to(datagram) {
            self.send(answer);
        } else if let Some(token) = answered(datagram) {
            let round_trip = now.saturating_since(Timestamp::from_nanos(u64::from_be_bytes(token)));
            let shortest = self.min_round_trip.map_or(round_trip, |shortest| shortest.min(round_trip));
            self.min_round_trip = Some(shortest);
        } else if is_resumed(datagram) {
            self.events.push_back(CarrierEvent::Returned);
        } else if messages::is_latest(datagram) {
            if let Some((channel, sent_at, payload)) = self.latest.received(datagram) {
                let delivery = Delivery::Latest { channel };
                self.events.push_back(CarrierEvent::Message { at: now, delivery, sent_at, payload });
            }
        } else if !is_keep_alive(datagram) {
            self.events.push_back(CarrierEvent::Datagram(now, datagram.to_vec()));
        }
    }

    /// Handles bytes of the control stream.
    pub(crate) fn handle_control(&mut self, now: Timestamp, bytes: &[u8]) {
        self.received(now);
        self.incoming_control.extend(bytes);
        while self.stage != Stage::Over {
            match self.incoming_control.poll() {
                Ok(None) => return,
                Ok(Some(message)) => self.handle_message(message),
                Err(control::Malformed) => self.broke("the other end sent a malformed message"),
            }
        }
    }

    fn handle_message(&mut self, message: control::Message) {
        match message {
            control::Message::Welcome => {
                if self.stage == Stage::Joining {
                    (self.stage, self.has_joined) = (Stage::Joined, true);
                    self.events.push_back(CarrierEvent::Joined);
                }
            }
            _ if !self.has_joined => self.broke("the other end sent a message before its welcome"),
            control::Message::Transport(datagram) => self.events.push_back(CarrierEvent::Control(datagram)),
            control::Message::Presence(presence) => self.events.push_back(CarrierEvent::Presence(presence)),
            control::Message::Stream { connection, name } => {
                self.events.push_back(CarrierEvent::Stream { connection, name });
            }
            control::Message::Close(reason) => {
                self.events.push_back(CarrierEvent::Lost(Loss::Closed(reason)));
                self.stage = Stage::Over;
            }
            control::Message::Join { .. } => self.broke("the other end sent a request to join"),
        }
    }

    /// Handles bytes of the stream of messages.
    pub(crate) fn handle_messages(&mut self, now: Timestamp, bytes: &[u8]) {
        self.received(now);
        self.incoming_messages.extend(bytes);
        while self.stage != Stage::Over {
            match self.incoming_messages.poll() {
                Ok(None) => return,
                Ok(Some((sent_at, payload))) => self.events.push_back(CarrierEvent::Message {
                    at: now,
                    delivery: Delivery::Reliable,
                    sent_at,
                    payload,
                }),
                Err(messages::Malformed) => self.broke("the other end sent a malformed message"),
            }
        }
    }

    fn broke(&mut self, reason: &str) {
        self.events.push_back(CarrierEvent::Lost(Loss::Broken(reason.to_owned())));
        self.stage = Stage::Over;
    }

    /// The session has ended with `code`, or without one for `reason`.
    pub(crate) fn closed(&mut self, code: Option<u32>, reason: &str) {
        if self.stage == Stage::Over {
            return;
        }
        let is_closing = matches!(self.stage, Stage::Closing { .. });
        self.stage = Stage::Over;
        let loss = match code {
            Some(code) if code >= REFUSALS => Loss::Refused(TicketRefusal::from_number(u64::from(code - REFUSALS))),
            Some(code) if self.has_joined => {
                Loss::Closed(CloseReason::from_number(u16::try_from(code).unwrap_or(u16::MAX)))
            }
            _ => Loss::Broken(reason.to_owned()),
        };
        if !is_closing {
            self.events.push_back(CarrierEvent::Lost(loss));
        }
    }

    /// Closes the connection; the close message waits for its confirmation.
    pub(crate) fn close(&mut self, now: Timestamp, reason: CloseReason) {
        match self.stage {
            Stage::Joining | Stage::Joined => {
                self.send_in_stream(&control::Message::Close(reason));
                self.stage = Stage::Closing { since: now, until: now + CLOSING };
            }
            Stage::Opening => self.stage = Stage::Over,
            Stage::Closing { .. } | Stage::Over => {}
        }
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Bytes for the control stream.
    pub(crate) fn take_control(&mut self) -> Option<Vec<u8>> {
        (!self.control.is_empty()).then(|| std::mem::take(&mut self.control))
    }

    /// Bytes for the stream of messages.
    pub(crate) fn take_messages(&mut self) -> Option<Vec<u8>> {
        (!self.messages.is_empty()).then(|| std::mem::take(&mut self.messages))
    }

    /// The page has written `bytes` of the stream of messages.
    pub(crate) fn wrote_messages(&mut self, bytes: usize) {
        self.unsent = self.unsent.saturating_sub(bytes);
    }

    /// Handles the timeouts that are due at `now`.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        if let Stage::Closing { since, until } = self.stage
            && until <= now
        {
            let silence = since.saturating_since(self.last_received);
            self.unconfirmed = (silence >= SILENT).then(|| now.saturating_since(self.last_received));
            self.stage = Stage::Over;
        }
        if !self.is_open() {
            return;
        }
        if self.measured_at.is_none_or(|at| at <= now) {
            self.measured_at = Some(now + MEASUREMENT);
            let token: Token = now.as_nanos().to_be_bytes();
            self.send(challenge(token));
        } else if now >= self.last_sent + KEEP_ALIVE {
            self.send(keep_alive());
        }
    }

    /// Sends the presence of this end.
    pub(crate) fn show(&mut self, presence: lockstep_session::presence::Presence) {
        if self.is_open() {
            self.send_in_stream(&control::Message::Presence(presence));
        }
    }
}

impl Carrier for WebCarrier {
    type Datagram = Vec<u8>;
    type Destination = ();

    fn poll(&mut self) -> Option<CarrierEvent<Vec<u8>>> {
        self.events.pop_front()
    }

    fn poll_transmit(&mut self, now: Timestamp, buffer: &mut Vec<u8>) -> Option<()> {
        *buffer = self.datagrams.pop_front()?;
        self.last_sent = now;
        Some(())
    }

    fn poll_timeout(&mut self) -> Option<Timestamp> {
        match self.stage {
            Stage::Closing { until, .. } => Some(until),
            Stage::Joined => Timestamp::earliest([self.measured_at, Some(self.last_sent + KEEP_ALIVE)]),
            Stage::Opening | Stage::Joining | Stage::Over => None,
        }
    }

    fn is_joined(&self) -> bool {
        self.has_joined
    }

    fn is_open(&self) -> bool {
        self.stage == Stage::Joined
    }

    fn last_received(&self) -> Timestamp {
        self.last_received
    }

    fn largest_datagram(&mut self) -> Option<usize> {
        self.largest.filter(|_| self.has_joined)
    }

    fn min_round_trip(&self) -> Option<Duration> {
        self.min_round_trip
    }

    fn route(&self) -> Option<Route> {
        self.has_joined.then_some(Route::Direct)
    }

    fn tried(&self) -> String {
        self.tried.clone()
    }

    fn unconfirmed(&self) -> Option<Duration> {
        self.unconfirmed
    }

    fn send(&mut self, datagram: Vec<u8>) {
        if self.datagrams.len() < MAX_DATAGRAMS {
            self.datagrams.push_back(datagram);
        }
    }

    fn send_control(&mut self, datagram: Vec<u8>) {
        self.send_in_stream(&control::Message::Transport(datagram));
    }

    fn send_message(&mut self, now: Timestamp, message: &Message) -> Result<usize, MessageError> {
        message.check()?;
        if !self.is_open() {
            return Err(MessageError::NotConnected);
        }
        Ok(match message.delivery {
            Delivery::Reliable => {
                let bytes = messages::reliable(now, &message.payload);
                if self.unsent + bytes.len() > MAX_UNSENT_BYTES {
                    return Err(MessageError::QueueFull { waiting: self.unsent });
                }
                self.unsent += bytes.len();
                self.messages.extend(&bytes);
                bytes.len()
            }
            Delivery::Latest { channel } => {
                let datagram = self.latest.datagram(channel, now, &message.payload);
                let length = datagram.len();
                self.send(datagram);
                length
            }
        })
    }

    fn name_stream(&mut self, connection: u32, name: StreamName) {
        self.send_in_stream(&control::Message::Stream { connection, name });
    }

    fn ping(&mut self) {
        // Every challenge is answered.
        self.measured_at = None;
    }
}

#[cfg(test)]
mod tests {
    use lockstep_session::presence::Presence;

    use super::*;

    const WAY: Duration = Duration::from_millis(20);

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    /// A carrier whose session is open since 0 ms.
    fn opened() -> WebCarrier {
        let mut carrier = WebCarrier::new([7; 16], CallKind::TwoWay, "at 192.0.2.7:4600".to_owned(), at(0));
        carrier.opened(at(0), 1_200);
        carrier
    }

    fn joined() -> WebCarrier {
        let mut carrier = opened();
        let _ = carrier.take_control();
        carrier.handle_control(at(0), &control::Message::Welcome.to_bytes());
        assert!(matches!(carrier.poll(), Some(CarrierEvent::Joined)));
        carrier
    }

    fn lost(carrier: &mut WebCarrier) -> Option<Loss> {
        std::iter::from_fn(|| carrier.poll()).find_map(|event| match event {
            CarrierEvent::Lost(loss) => Some(loss),
            _ => None,
        })
    }

    /// Datagrams that leave until `until`, with their times.
    fn sent(carrier: &mut WebCarrier, until: u64) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        for now in 0..=until {
            carrier.handle_timeout(at(now));
            let mut buffer = Vec::new();
            while carrier.poll_transmit(at(now), &mut buffer).is_some() {
                all.push((now, std::mem::take(&mut buffer)));
            }
        }
        all
    }

    #[test]
    fn call_begins_with_the_welcome() {
        let mut carrier = opened();
        let join = control::Message::Join { secret: [7; 16], kind: CallKind::TwoWay }.to_bytes();
        assert_eq!(carrier.take_control(), Some(join));
        carrier.handle_datagram(at(1), &[0x40; 50]);
        assert!(carrier.poll().is_none() && !carrier.is_joined() && carrier.largest_datagram().is_none());
        for byte in control::Message::Welcome.to_bytes() {
            carrier.handle_control(at(2), &[byte]);
        }
        assert!(matches!(carrier.poll(), Some(CarrierEvent::Joined)));
        assert_eq!((carrier.is_open(), carrier.largest_datagram()), (true, Some(1_200)));
        carrier.handle_datagram(at(3), &[0x40; 50]);
        assert!(matches!(carrier.poll(), Some(CarrierEvent::Datagram(_, datagram)) if datagram == [0x40; 50]));
    }

    #[test]
    fn close_code_names_the_refusal() {
        for refusal in [TicketRefusal::Wrong, TicketRefusal::Used, TicketRefusal::Busy, TicketRefusal::OtherKind] {
            let mut carrier = opened();
            carrier.closed(Some(REFUSALS + refusal.number()), "");
            assert_eq!(lost(&mut carrier), Some(Loss::Refused(refusal)));
            assert!(carrier.is_over());
        }
        let mut carrier = joined();
        carrier.closed(Some(1), "");
        assert_eq!(lost(&mut carrier), Some(Loss::Closed(CloseReason::Failed)));
        let mut carrier = joined();
        carrier.closed(None, "timed out");
        assert_eq!(lost(&mut carrier), Some(Loss::Broken("timed out".to_owned())));
    }

    #[test]
    fn idle_end_sends_a_datagram_each_200_ms() {
        let times: Vec<u64> = sent(&mut joined(), 900).into_iter().map(|(now, _)| now).collect();
        assert_eq!(times, [0, 200, 400, 600, 800]);
    }

    #[test]
    fn answers_to_challenges_measure_the_round_trip() {
        let mut carrier = joined();
        let (now, datagram) = sent(&mut carrier, 0).remove(0);
        carrier.handle_datagram(at(now) + 2 * WAY, &answer_to(&datagram).expect("a challenge"));
        assert_eq!(carrier.min_round_trip(), Some(2 * WAY));
        carrier.handle_datagram(at(50), &challenge([1; 8]));
        carrier.handle_datagram(at(50), &keep_alive());
        assert!(carrier.poll().is_none());
        let answers = sent(&mut carrier, 60).into_iter().filter_map(|(_, datagram)| answered(&datagram));
        assert_eq!(answers.collect::<Vec<_>>(), [[1; 8]]);
    }

    #[test]
    fn datagram_after_a_pause_reports_the_return() {
        let mut carrier = joined();
        carrier.handle_datagram(at(499), &keep_alive());
        assert!(carrier.poll().is_none());
        carrier.handle_datagram(at(1_000), &keep_alive());
        assert!(matches!(carrier.poll(), Some(CarrierEvent::Returned)));
    }

    #[test]
    fn close_waits_for_the_other_end_or_a_limit() {
        let mut carrier = joined();
        carrier.show(Presence::default());
        carrier.close(at(100), CloseReason::Done);
        let bytes = carrier.take_control().expect("a close message");
        assert!(bytes.ends_with(&control::Message::Close(CloseReason::Done).to_bytes()));
        assert!(!carrier.is_over() && !carrier.is_open());
        carrier.closed(Some(0), "");
        assert_eq!((carrier.is_over(), lost(&mut carrier)), (true, None));

        let mut carrier = joined();
        carrier.close(at(5_000), CloseReason::Done);
        carrier.handle_timeout(at(7_999));
        assert!(!carrier.is_over());
        carrier.handle_timeout(at(8_000));
        assert_eq!((carrier.is_over(), carrier.unconfirmed()), (true, Some(Duration::from_secs(8))));
    }

    #[test]
    fn malformed_streams_end_the_call() {
        let mut carrier = joined();
        carrier.handle_control(at(1), &[255, 255]);
        assert!(matches!(lost(&mut carrier), Some(Loss::Broken(_))));
        let mut carrier = joined();
        carrier.handle_messages(at(1), &[255; 12]);
        assert!(matches!(lost(&mut carrier), Some(Loss::Broken(_))));
        let mut carrier = opened();
        carrier.handle_control(at(1), &control::Message::Presence(Presence::default()).to_bytes());
        assert!(matches!(lost(&mut carrier), Some(Loss::Broken(_))));
    }

    #[test]
    fn messages_wait_within_bounds() {
        let mut carrier = joined();
        let message = Message::reliable(vec![0; 60_000]);
        let results: Vec<bool> = (0..6).map(|_| carrier.send_message(at(1), &message).is_ok()).collect();
        assert_eq!(results, [true, true, true, true, false, false]);
        let bytes = carrier.take_messages().expect("bytes");
        carrier.wrote_messages(bytes.len());
        assert!(carrier.send_message(at(1), &message).is_ok());
        assert!(carrier.send_message(at(1), &Message::latest(3, *b"left")).is_ok());
        assert_eq!(sent(&mut carrier, 0).len(), 2);
    }
}
