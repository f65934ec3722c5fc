//! One end of a call in a browser, as a state machine.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_av1::{Av1Arena, EitherArena, OneOf, Vp8OrAv1};
use lockstep_call::{
    DecodeJob, DecodeOutcome, Display, FunctionalEncoder, LipSync, Menu, MenuMode, ReceivingEnd, SendingEnd,
    SerialMenu, SoundAllowance, Tuning, age,
};
use lockstep_control::{Algorithm, ControllerSetup, EstimatorKind, RateBounds};
use lockstep_session::control::CallKind;
use lockstep_session::messages::{Message, MessageError};
use lockstep_session::presence::Presence;
use lockstep_session::ticket::Ticket;
use lockstep_session::{CallEvent, Carrier, Ended, Ends, Exchange, Freshness, LiveError, TimeLimits, reason};
use lockstep_sound::{FRAME_DURATION, Frame, FrameNumbering, MIN_BITRATE, Player, PlayerStatistics};
use lockstep_transport::{ReceiverConfig, SenderConfig, SoundPacket, VideoFormat};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::{FrameKind, Parameters, Picture};

use crate::carrier::WebCarrier;
use crate::listener::{Decoded, Sound};

/// Longest wait for the listener.
const WAIT: Duration = Duration::from_secs(10);
/// Longest silence of the other end.
const SILENCE: Duration = Duration::from_secs(30);
/// Longest time until [`Output::Timeout`].
const MAX_WAIT: Duration = Duration::from_secs(3_600);
/// Video streams that may arrive. The page shows the first; the others must not end the call.
const MAX_RECEIVED_STREAMS: usize = 4;
/// Packets of sound that may wait for the page; further ones are dropped.
const MAX_SOUND_PACKETS: usize = 64;

/// Configuration of a [`Client`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// Ticket of the listener.
    pub ticket: Ticket,
    /// Direction of the pictures.
    pub kind: CallKind,
    /// Random number of this end's video stream.
    pub connection: u32,
    /// First format of the sent pictures; later pictures may have another size.
    pub format: VideoFormat,
    /// Whether pictures wait for their sound, and sound for its pictures.
    pub lip_sync: bool,
    /// Whether the page decodes AV1.
    pub decodes_av1: bool,
}

/// Output of a [`Client`].
#[derive(Debug)]
pub enum Output {
    /// Send this datagram.
    Datagram(Vec<u8>),
    /// Write these bytes to the control stream.
    Control(Vec<u8>),
    /// Write these bytes to the stream of messages, and report that with [`Client::wrote_messages`].
    Messages(Vec<u8>),
    /// Show this picture of a stream.
    Picture {
        /// The stream; 0 is the first, and the only one of most calls.
        stream: usize,
        /// The picture.
        picture: Picture,
        /// Capture time, on the other end's clock.
        captured_at: Timestamp,
        /// Age from capture until now; `None` before the clocks are aligned.
        age: Option<Duration>,
    },
    /// Decode this temporal unit of AV1, and pass its picture to [`Client::decoded_unit`].
    Unit {
        /// The stream, which has a separate decoder.
        stream: usize,
        /// Whether it is a key frame.
        is_key_frame: bool,
        /// The unit.
        bytes: Vec<u8>,
    },
    /// Decode this packet of sound, and pass the result to [`Client::decoded_sound`].
    Sound(SoundPacket),
    /// An event. [`CallEvent::Ended`] or [`CallEvent::Failed`] is the last one.
    Event(CallEvent),
    /// A picture was coded. Poll again, with the new time.
    Again,
    /// Close the session with this code; nothing follows.
    Close(u32),
    /// No output remains. Call [`Client::handle_timeout`] at this time, or pass in what arrives.
    Timeout(Timestamp),
}

/// 20 ms of sound for the loudspeaker.
#[derive(Debug)]
pub struct Playout {
    /// The samples.
    pub frame: Frame,
    /// Whether something is heard.
    pub is_heard: bool,
}

/// One end of a call in a browser. All times come from one monotonic clock of the page.
///
/// The owner repeats: call [`Client::poll_output`] until it returns [`Output::Timeout`], wait for something to arrive
/// or that time, and pass it in.
pub struct Client {
    exchange: Exchange<WebCarrier>,
    sending: Vec<SendingEnd<Vp8OrAv1>>,
    receiving: Vec<ReceivingEnd<Vp8OrAv1>>,
    /// Pictures that were coded or decoded since the last time, which takes long: they continue with the new time.
    encoded: Option<(usize, Menu<Vp8OrAv1>)>,
    decoded: Option<(usize, DecodeOutcome<Vp8OrAv1>)>,
    /// Frames whose units the page decodes, and the next units for it.
    decoding: Vec<PageDecoding>,
    units: VecDeque<Output>,
    lip_sync: LipSync<Vp8OrAv1>,
    player: Player<Decoded>,
    numbering: FrameNumbering,
    allowance: SoundAllowance,
    sound: VecDeque<SoundPacket>,
    /// Mouth-to-ear delay of the last played sound.
    sound_delay: Option<Duration>,
    own: Presence,
    is_joined: bool,
    ending: Option<Result<Ended, LiveError>>,
    close_code: Option<u32>,
    is_over: bool,
    buffer: Vec<u8>,
}

/// A frame of AV1 whose units the page decodes.
struct PageDecoding {
    stream: usize,
    job: DecodeJob<Vp8OrAv1>,
    units: usize,
    pictures: Vec<Picture>,
}

/// A receiving end, which gets the estimator with the number of the hello.
fn receiving_end(decodes_av1: bool) -> ReceivingEnd<Vp8OrAv1> {
    let end = ReceivingEnd::with_estimators(ReceiverConfig::default(), |number| {
        EstimatorKind::from_number(number)?.with_model(RateBounds::default(), None).ok()
    });
    if decodes_av1 { end.with_arena(EitherArena::with_av1(Av1Arena::decoded_by_owner())) } else { end }
}

fn sending_end(connection: u32, format: VideoFormat) -> Result<SendingEnd<Vp8OrAv1>, LiveError> {
    let algorithm = Algorithm::default();
    let estimator = algorithm.estimator_kind().number();
    let transport = SenderConfig { estimator, ..SenderConfig::new(connection, format) };
    let setup = ControllerSetup::new(ByteCount::new(transport.payload as u64), format.frame_interval());
    let controller = algorithm.controller(&setup).map_err(|error| LiveError::Controller(error.to_string()))?;
    let parameters = Parameters { frame_kind: FrameKind::Inter, ..Parameters::default() };
    let encoder = FunctionalEncoder::new(OneOf::Vp8(parameters), MenuMode::default(), &Tuning::default());
    Ok(SendingEnd::new(transport, controller, Box::new(encoder), &Tuning::default()))
}

/// The exchange, and its ends.
fn parts<'a>(
    exchange: &'a mut Exchange<WebCarrier>,
    sending: &'a mut [SendingEnd<Vp8OrAv1>],
    receiving: &'a mut [ReceivingEnd<Vp8OrAv1>],
) -> (&'a mut Exchange<WebCarrier>, Ends<'a, Vp8OrAv1>) {
    (exchange, Ends { sending: sending.iter_mut().collect(), receiving: receiving.iter_mut().collect() })
}

impl Client {
    /// Joins the owner of the ticket.
    ///
    /// # Errors
    /// The controller cannot be made.
    pub fn new(config: ClientConfig, now: Timestamp) -> Result<Self, LiveError> {
        let ClientConfig { ticket, kind, connection, format, lip_sync, decodes_av1 } = config;
        let addresses: Vec<String> = ticket.addresses.iter().map(ToString::to_string).collect();
        let carrier = WebCarrier::new(ticket.secret, kind, format!("at {}", addresses.join(", ")), now);
        let (sends, receives) = match kind {
            CallKind::OneWay => (true, false),
            CallKind::TwoWay => (true, true),
            CallKind::FromListener => (false, true),
            CallKind::Room => (false, false),
        };
        let sending = if sends { vec![sending_end(connection, format)?] } else { Vec::new() };
        let streams = if receives { MAX_RECEIVED_STREAMS } else { 0 };
        let receiving = (0..streams).map(|_| receiving_end(decodes_av1)).collect();
        Ok(Self {
            exchange: Exchange::new(carrier, TimeLimits { wait_limit: Some(WAIT), idle_limit: Some(SILENCE) }, now)
                .with_streams(Vec::new(), Freshness::new(None)),
            sending,
            receiving,
            encoded: None,
            decoded: None,
            decoding: Vec::new(),
            units: VecDeque::new(),
            lip_sync: LipSync::new(lip_sync),
            player: Player::new(Decoded::default()),
            numbering: FrameNumbering::default(),
            allowance: SoundAllowance { bitrate: MIN_BITRATE, loss: 0.0 },
            sound: VecDeque::new(),
            sound_delay: None,
            own: Presence::default(),
            is_joined: false,
            ending: None,
            close_code: None,
            is_over: false,
            buffer: Vec::new(),
        })
    }

    /// The page has opened the session, which carries datagrams of up to `largest` bytes.
    pub fn opened(&mut self, now: Timestamp, largest: usize) {
        self.exchange.connection.opened(now, largest);
    }

    /// Handles a datagram.
    pub fn handle_datagram(&mut self, now: Timestamp, datagram: &[u8]) {
        self.exchange.connection.handle_datagram(now, datagram);
    }

    /// Handles bytes of the control stream.
    pub fn handle_control(&mut self, now: Timestamp, bytes: &[u8]) {
        self.exchange.connection.handle_control(now, bytes);
    }

    /// Handles bytes of the stream of messages.
    pub fn handle_messages(&mut self, now: Timestamp, bytes: &[u8]) {
        self.exchange.connection.handle_messages(now, bytes);
    }

    /// The page has written `bytes` of the stream of messages.
    pub fn wrote_messages(&mut self, bytes: usize) {
        self.exchange.connection.wrote_messages(bytes);
    }

    /// The session has ended with `code`, or without one for `reason`.
    pub fn closed(&mut self, code: Option<u32>, reason: &str) {
        self.exchange.connection.closed(code, reason);
    }

    /// Handles the time of [`Output::Timeout`].
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.exchange.connection.handle_timeout(now);
        for sending in self.sending.iter_mut().filter(|end| end.poll_timeout().is_some_and(|at| at <= now)) {
            sending.handle_timeout(now);
        }
    }

    /// The next output at `now`. No datagram leaves unless `may_send`: the page's own queue shall stay short, because
    /// datagrams that wait there have left for this end.
    pub fn poll_output(&mut self, now: Timestamp, may_send: bool) -> Output {
        if let Some(code) = self.close_code.take() {
            self.is_over = true;
            return Output::Close(code);
        }
        if self.is_over {
            return Output::Timeout(now + MAX_WAIT);
        }
        self.handle_timeout(now);
        if let Some((stream, menu)) = self.encoded.take() {
            self.sending[stream].encoded(now, menu);
            let _ = self.sending[stream].poll_committed();
        }
        if let Some((stream, outcome)) = self.decoded.take() {
            self.receiving[stream].decoded(now, outcome);
        }
        let (exchange, mut ends) = parts(&mut self.exchange, &mut self.sending, &mut self.receiving);
        exchange.handle_events(now, &mut ends);
        self.on_joined();
        if let Some(output) = self.poll_picture(now) {
            return output;
        }
        if let Some(event) = self.exchange.poll_event() {
            return Output::Event(event);
        }
        self.take_sound();
        if let Some(packet) = self.sound.pop_front() {
            return Output::Sound(packet);
        }
        self.end_if_due(now);
        if let Some(bytes) = self.exchange.connection.take_control() {
            return Output::Control(bytes);
        }
        if let Some(bytes) = self.exchange.connection.take_messages() {
            return Output::Messages(bytes);
        }
        self.buffer.clear();
        let (exchange, mut ends) = parts(&mut self.exchange, &mut self.sending, &mut self.receiving);
        if may_send && exchange.poll_transmit(now, &mut ends, &mut self.buffer).is_some() {
            return Output::Datagram(std::mem::take(&mut self.buffer));
        }
        // Hellos are sent during the transmission.
        if let Some(bytes) = self.exchange.connection.take_control() {
            return Output::Control(bytes);
        }
        if let Some(event) = self.ended() {
            return Output::Event(event);
        }
        if let Some(output) = self.run_job(now) {
            return output;
        }
        let lip_sync = self.lip_sync.poll_timeout();
        let (exchange, ends) = parts(&mut self.exchange, &mut self.sending, &mut self.receiving);
        let timeout = Timestamp::earliest([exchange.poll_timeout(&ends), lip_sync]);
        // Before the listener answers, only the limit of the wait is due.
        let limit = if self.is_joined { MAX_WAIT } else { Duration::from_millis(500) };
        Output::Timeout(timeout.unwrap_or(now + limit).clamp(now, now + limit))
    }

    fn on_joined(&mut self) {
        if self.exchange.connection.is_joined()
            && !std::mem::replace(&mut self.is_joined, true)
            && self.own != Presence::default()
        {
            self.exchange.connection.show(self.own);
        }
    }

    /// Decodes or codes one picture, the received one first, or passes a unit of it to the page. None if no picture
    /// waits.
    fn run_job(&mut self, now: Timestamp) -> Option<Output> {
        if let Some(unit) = self.units.pop_front() {
            return Some(unit);
        }
        for (stream, receiving) in self.receiving.iter_mut().enumerate() {
            while let Some(job) = receiving.poll_decode() {
                let Some(av1) = job.arena().av1() else {
                    self.decoded = Some((stream, job.run()));
                    return Some(Output::Again);
                };
                let source = job.source().av1().unwrap_or_default();
                let Some(units) = av1.units(&source, job.frame(), job.pixel_limit()) else {
                    receiving.decoded(now, job.run());
                    continue;
                };
                let last = units.len() - 1;
                self.units.extend(units.iter().enumerate().map(|(place, unit)| Output::Unit {
                    stream,
                    is_key_frame: place < last,
                    bytes: unit.to_vec(),
                }));
                let units = units.len();
                self.decoding.push(PageDecoding { stream, job, units, pictures: Vec::new() });
                return self.units.pop_front();
            }
        }
        let is_open = self.is_joined && self.ending.is_none();
        for (stream, sending) in self.sending.iter_mut().enumerate().filter(|_| is_open) {
            while sending.poll_record().is_some() {}
            if let Some(job) = sending.poll_encode(now) {
                self.encoded = Some((stream, job.run(&SerialMenu)));
                return Some(Output::Again);
            }
        }
        None
    }

    /// The next picture to show.
    fn poll_picture(&mut self, now: Timestamp) -> Option<Output> {
        let shown = self.receiving.iter_mut().enumerate().find_map(|(stream, end)| Some((stream, end.poll_display()?)));
        let (stream, Display { captured_at, picture, .. }) = match shown {
            Some((0, display)) => {
                self.lip_sync.push(now, display);
                (0, self.lip_sync.poll(now)?)
            }
            Some(shown) => shown,
            None => (0, self.lip_sync.poll(now)?),
        };
        self.exchange.on_shown(stream, captured_at);
        let round_trip = self.exchange.connection.min_round_trip().unwrap_or_default();
        let age = self.receiving[stream].age(now, captured_at, round_trip);
        Some(Output::Picture { stream, picture, captured_at, age })
    }

    fn take_sound(&mut self) {
        while let Some(packet) = self.receiving.iter_mut().find_map(ReceivingEnd::poll_sound) {
            if self.sound.len() < MAX_SOUND_PACKETS {
                self.sound.push_back(packet);
            }
        }
    }

    /// Starts to close the call if there is a reason.
    fn end_if_due(&mut self, now: Timestamp) {
        if self.ending.is_some() {
            return;
        }
        if let Some(result) = self.exchange.reason_to_end(now, &self.sending, &self.receiving) {
            self.begin_to_end(now, result);
        }
    }

    fn begin_to_end(&mut self, now: Timestamp, result: Result<Ended, LiveError>) {
        self.exchange.connection.close(now, reason(&result));
        self.ending = Some(result);
    }

    /// The last event, once the other end has confirmed the end, or its limit has passed.
    fn ended(&mut self) -> Option<CallEvent> {
        if !self.exchange.connection.is_over() {
            return None;
        }
        let result = self.ending.take()?;
        self.close_code = Some(u32::from(reason(&result).number()));
        Some(match self.exchange.result_after_close(result) {
            Ok(ended) => CallEvent::Ended(ended),
            Err(error) => CallEvent::Failed(error.into()),
        })
    }

    /// Whether this end sends pictures and sound.
    fn sends(&self) -> bool {
        self.ending.is_none() && self.is_joined && !self.is_over
    }

    /// Sends a picture that was captured at `captured_at`. Only the newest picture waits for the encoder. The text of
    /// screens stays sharp; see [`SendingEnd::set_screen`].
    pub fn send_frame(&mut self, now: Timestamp, captured_at: Timestamp, picture: Picture, is_screen: bool) {
        if self.sends()
            && !self.own.camera_off
            && let Some(sending) = self.sending.first_mut()
        {
            sending.set_screen(is_screen);
            sending.capture(now, captured_at, picture);
        }
    }

    /// Sends 20 ms of Opus whose last sample was captured at `captured_until`. `packet` is `None` in silence. Returns
    /// whether the packet is valid.
    pub fn send_sound(&mut self, now: Timestamp, captured_until: Timestamp, packet: Option<Vec<u8>>) -> bool {
        let frame = self.numbering.begin();
        if !self.sends() {
            return true;
        }
        let Some(sending) = self.sending.first_mut() else { return true };
        let payload = packet.filter(|_| !self.own.muted);
        let packet = self.numbering.packet(frame, captured_until.min(now), payload);
        let sent = packet.is_none_or(|packet| sending.send_sound(now, packet).is_ok());
        self.allowance = sending.sound_allowance(now);
        sent
    }

    /// Adds the picture of the next unit of a stream ([`Output::Unit`]).
    pub fn decoded_unit(&mut self, now: Timestamp, stream: usize, picture: Picture) {
        let Some(at) = self.decoding.iter().position(|decoding| decoding.stream == stream) else { return };
        self.decoding[at].pictures.push(picture);
        if self.decoding[at].pictures.len() < self.decoding[at].units {
            return;
        }
        let PageDecoding { job, pictures, .. } = self.decoding.swap_remove(at);
        if let Some(av1) = job.arena().av1() {
            av1.supply(pictures);
        }
        self.receiving[stream].decoded(now, job.run());
    }

    /// Adds a decoded frame of sound; `samples` is empty in silence.
    pub fn decoded_sound(&mut self, now: Timestamp, frame: u32, captured: Timestamp, samples: Sound) {
        self.player.insert(now, frame, captured, samples);
    }

    /// The 20 ms to play. They are heard `latency` after `now`.
    pub fn play(&mut self, now: Timestamp, latency: Duration) -> Playout {
        if let Some(delay) = self.lip_sync.min_sound_delay() {
            // Samples of now are heard later.
            self.player.set_min_delay(delay.saturating_sub_unsigned(latency.as_nanos() as u64));
        }
        let frame = self.player.play(now);
        let end = self.player.playing_captured_at();
        let start =
            end.map(|end| Timestamp::from_nanos(end.as_nanos().saturating_sub(FRAME_DURATION.as_nanos() as u64)));
        self.lip_sync.on_playback(now + latency, start);
        let round_trip = self.round_trip().unwrap_or_default();
        let least = self.receiving.first().and_then(ReceivingEnd::min_delay);
        self.sound_delay = start.zip(least).map(|(start, least)| age(now + latency, start, least, round_trip));
        while self.player.poll_delay().is_some() || self.player.poll_decoded().is_some() {}
        Playout { frame, is_heard: start.is_some() }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other end has not joined, the message is too long, or too many messages wait.
    pub fn send_message(&mut self, now: Timestamp, message: &Message) -> Result<(), MessageError> {
        let (exchange, mut ends) = parts(&mut self.exchange, &mut self.sending, &mut self.receiving);
        exchange.send_message(now, &mut ends, message)
    }

    /// Mutes this end or turns its camera off, and informs the other end.
    pub fn set_presence(&mut self, presence: Presence) {
        if std::mem::replace(&mut self.own, presence) != presence && self.is_joined {
            self.exchange.connection.show(presence);
        }
    }

    /// Ends the call. Poll outputs until [`Output::Close`].
    pub fn close(&mut self, now: Timestamp) {
        if self.ending.is_none() && !self.is_over {
            self.begin_to_end(now, Ok(Ended::Stopped));
        }
    }

    /// Sending ends.
    pub(crate) fn sending(&self) -> &[SendingEnd<Vp8OrAv1>] {
        &self.sending
    }

    /// Receiving ends.
    pub(crate) fn receiving(&self) -> &[ReceivingEnd<Vp8OrAv1>] {
        &self.receiving
    }

    /// Counters of the played sound.
    pub(crate) fn played(&self) -> PlayerStatistics {
        self.player.statistics()
    }

    /// Bit rate and loss for the sound of this end.
    pub(crate) fn allowance(&self) -> SoundAllowance {
        self.allowance
    }

    /// Shortest round trip so far.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.exchange.connection.min_round_trip()
    }

    /// Mouth-to-ear delay of the last played sound; `None` in silence.
    pub(crate) fn sound_delay(&self) -> Option<Duration> {
        self.sound_delay
    }
}
