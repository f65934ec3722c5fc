//! The two ends of a code: the listener offers its ticket, and the joiner redeems the code for it.
//!
//! Both ends derive a key from the code by SPAKE2 (M. Abdalla and D. Pointcheval, CT-RSA 2005). Each run lets one peer test one guess of the words, and
//! only by its confirmation. So the listener burns the code at the first wrong confirmation.
//!
//! | parcel | from | bytes after the kind (1 byte) |
//! |---|---|---|
//! | 0 nothing | both | |
//! | 1 ask | joiner | message A of SPAKE2 33 |
//! | 2 reply | listener | run 16, message B 33 |
//! | 3 confirm | joiner | run 16, HMAC of both messages 32 |
//! | 4 give | listener | run 16, the sealed length and text of the ticket 426 |
//! | 5 burned | listener, after a wrong code | |
//!
//! A run is the start of the SHA-256 of both messages. The rest of a parcel is zeros. The ends repeat their newest
//! parcel, so datagrams may be lost, doubled and delayed, and the server may be restarted.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use lockstep_units::Timestamp;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac::{self, HMAC_SHA256};
use spake2::{Ed25519Group, Identity, Password, Spake2};

use super::code::{Code, Nameplate};
use super::keys::{derived, failed};
use super::limits::CONSENT;
use super::meeting::{EAGER, FIRST_REPEAT, LATER_REPEAT, MIN_ANNOUNCE_INTERVAL, REPEAT, SERVER_PATIENCE};
use super::message::{Cookie, Exchange, Message, PARCEL, Parcel, Refusal, Session, Side};
use crate::LiveError;
use crate::identity::random;
use lockstep_session::ticket::Ticket;

const ASK: u8 = 1;
const REPLY: u8 = 2;
const CONFIRM: u8 = 3;
const GIVE: u8 = 4;
const BURNED: u8 = 5;

/// A message of SPAKE2.
const MESSAGE: usize = 33;
type Run = [u8; 16];
type Proof = [u8; 32];
/// Length and text of a ticket, and the tag.
const TICKET: usize = 2 + MAX_TICKET;
const SEALED: usize = TICKET + 16;
/// Longest text of a ticket: 8 addresses of IPv6 and 2 of a rendezvous.
const MAX_TICKET: usize = 408;
/// How long the last parcel of a listener remains available.
const FAREWELL: Duration = EAGER;
/// How long a joiner tries a number that the server does not know: it may have been restarted.
const UNKNOWN_LIMIT: Duration = SERVER_PATIENCE.saturating_add(REPEAT);
/// How long a joiner waits for its turn, or for a listener that the server knows.
const TURN_LIMIT: Duration = CONSENT.saturating_add(REPEAT);

/// Why a code does not lead to a ticket.
#[derive(Debug, thiserror::Error)]
pub enum RedeemError {
    /// The rendezvous does not answer.
    #[error("the rendezvous at {0} does not answer; check its address and this machine's network")]
    Unanswered(SocketAddr),
    /// No listener has this code.
    #[error("nobody waits with the code {0} at this rendezvous; check the number, and that the other end still waits")]
    Unknown(Nameplate),
    /// Another joiner uses the code.
    #[error("another person is using this code; if that is not your other device, ask for a new code")]
    Taken,
    /// The rendezvous refuses, because of its limits.
    #[error("the rendezvous takes no more codes from here now; try again later, or ask for the ticket")]
    Refused,
    /// The listener is silent.
    #[error("the other end does not answer; check that it still waits and has a network")]
    Silent,
    /// The words are wrong.
    #[error("the words of the code are wrong, and each code allows one try; ask for a new code")]
    Wrong,
    /// The code was used.
    #[error("the code was used already; ask for a new code")]
    Used,
    /// The other end does not know the words.
    #[error(
        "another end than the one that printed the code answered: somebody may be trying codes; ask for a new code"
    )]
    Impostor,
    /// The ticket cannot be read.
    #[error("the other end sent something else than a ticket; update both ends")]
    NotATicket,
    /// A socket failed, or the system provides no random numbers.
    #[error(transparent)]
    Live(#[from] LiveError),
}

/// How an offer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferResult {
    /// A joiner entered the code and received the ticket.
    Given,
    /// A joiner entered a wrong code.
    Wrong,
    /// The rendezvous gave the number to another listener.
    Lost,
}

/// Keys of one run.
struct Keys {
    run: Run,
    proof: Proof,
    sealing: LessSafeKey,
}

impl Keys {
    /// The keys of a finished run with the joiner's message `asked` and the listener's message `replied`.
    fn of(shared: &[u8], asked: &[u8], replied: &[u8]) -> Result<Self, LiveError> {
        let both = [asked, replied].concat();
        let key = Salt::new(HKDF_SHA256, b"lockstep code").extract(shared);
        let proving = hmac::Key::new(HMAC_SHA256, &derived(&key, b"confirmation")?);
        let mut proof = Proof::default();
        proof.copy_from_slice(hmac::sign(&proving, &both).as_ref());
        let sealing = UnboundKey::new(&CHACHA20_POLY1305, &derived(&key, b"ticket")?);
        Ok(Self { run: run(&both), proof, sealing: LessSafeKey::new(sealing.map_err(|error| failed(&error))?) })
    }

    /// Encrypts a ticket. A run seals once, so its nonce is zero.
    fn seal(&self, ticket: &str) -> Result<Vec<u8>, LiveError> {
        let mut bytes = (ticket.len() as u16).to_be_bytes().to_vec();
        bytes.extend(ticket.as_bytes());
        bytes.resize(TICKET, 0);
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let sealed = self.sealing.seal_in_place_append_tag(nonce, Aad::from(self.run), &mut bytes);
        sealed.map_err(|error| failed(&error))?;
        Ok(bytes)
    }

    fn unseal(&self, sealed: &[u8]) -> Result<String, RedeemError> {
        let mut bytes = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let opened = self.sealing.open_in_place(nonce, Aad::from(self.run), &mut bytes);
        let opened = opened.map_err(|_| RedeemError::Impostor)?;
        let (length, text) = opened.split_first_chunk::<2>().ok_or(RedeemError::NotATicket)?;
        let text = text.get(..usize::from(u16::from_be_bytes(*length))).ok_or(RedeemError::NotATicket)?;
        String::from_utf8(text.to_vec()).map_err(|_| RedeemError::NotATicket)
    }
}

/// Identifier of a run with these messages.
fn run(both: &[u8]) -> Run {
    let mut run = Run::default();
    run.copy_from_slice(&digest(&SHA256, both).as_ref()[..size_of::<Run>()]);
    run
}

/// The start of SPAKE2 by one end, and its message.
fn start(side: Side, code: &Code) -> (Spake2<Ed25519Group>, Vec<u8>) {
    let password = Password::new(code.to_string());
    let [joiner, listener] = [Identity::new(b"lockstep joiner"), Identity::new(b"lockstep listener")];
    match side {
        Side::Joiner => Spake2::start_a(&password, &joiner, &listener),
        Side::Listener => Spake2::start_b(&password, &joiner, &listener),
    }
}

/// A parcel of this kind.
fn parcel(kind: u8, parts: &[&[u8]]) -> Parcel {
    let mut parcel = [0; PARCEL];
    let bytes = [&[kind], &parts.concat()[..]].concat();
    parcel[..bytes.len()].copy_from_slice(&bytes);
    parcel
}

/// Answer of a server to one end.
enum Answer {
    Refused(Refusal),
    Parcel(Nameplate, Box<Parcel>),
}

/// Sends the newest parcel of one end to a server until it changes, and receives the answers.
struct Courier {
    side: Side,
    servers: Vec<SocketAddr>,
    /// Index of the server address in use.
    server: usize,
    session: Session,
    nameplate: Nameplate,
    cookie: Cookie,
    parcel: Parcel,
    /// When the parcel last changed; it is repeated more often after that.
    changed_at: Timestamp,
    answered_at: Option<Timestamp>,
    sent_at: Option<Timestamp>,
    send_at: Timestamp,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
}

impl Courier {
    fn new(side: Side, servers: &[SocketAddr], nameplate: Nameplate, now: Timestamp) -> Result<Self, LiveError> {
        let mut servers = servers.to_vec();
        servers.sort_by_key(SocketAddr::is_ipv6);
        if servers.is_empty() {
            return Err(LiveError::NoRendezvous);
        }
        Ok(Self {
            side,
            servers,
            server: 0,
            session: random()?,
            nameplate,
            cookie: Cookie::default(),
            parcel: [0; PARCEL],
            changed_at: now,
            answered_at: None,
            sent_at: None,
            send_at: now,
            waiting: VecDeque::new(),
        })
    }

    fn server(&self) -> SocketAddr {
        self.servers[self.server % self.servers.len()]
    }

    fn set(&mut self, now: Timestamp, parcel: Parcel) {
        if self.parcel != parcel {
            (self.parcel, self.changed_at) = (parcel, now);
            self.send_soon(now);
        }
    }

    fn send_soon(&mut self, now: Timestamp) {
        let soonest = self.sent_at.map_or(now, |at| (at + MIN_ANNOUNCE_INTERVAL).max(now));
        self.send_at = self.send_at.min(soonest);
    }

    fn handle_datagram(&mut self, now: Timestamp, from: SocketAddr, datagram: &[u8]) -> Option<Answer> {
        let server = self.servers.iter().position(|&server| server == from)?;
        let answer = match Message::decode(datagram)? {
            Message::Prove { session, cookie, .. } if session == self.session => {
                self.cookie = cookie;
                self.send_soon(now);
                None
            }
            Message::Refused { session, refusal } if session == self.session => Some(Answer::Refused(refusal)),
            Message::Exchanged { session, nameplate, parcel } if session == self.session => {
                Some(Answer::Parcel(nameplate, parcel))
            }
            _ => return None,
        };
        (self.server, self.answered_at) = (server, Some(now));
        answer
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if now < self.send_at {
            return;
        }
        let silence = now.saturating_since(self.answered_at.unwrap_or(self.changed_at));
        if silence >= SERVER_PATIENCE + REPEAT || (self.answered_at.is_none() && silence >= SERVER_PATIENCE) {
            self.server = (self.server + 1) % self.servers.len();
        }
        let is_eager = now.saturating_since(self.changed_at) < EAGER;
        let idles = self.side == Side::Listener && self.nameplate != 0 && self.parcel == [0; PARCEL];
        let repeat = match (idles, is_eager) {
            (false, true) => FIRST_REPEAT,
            (false, false) if self.side == Side::Joiner => LATER_REPEAT,
            _ => REPEAT,
        };
        (self.sent_at, self.send_at) = (Some(now), now + repeat);
        let Self { side, session, nameplate, cookie, parcel, .. } = *self;
        let exchange = Exchange { side, session, nameplate, cookie, parcel };
        self.waiting.push_back((self.server(), Message::Exchange(Box::new(exchange)).to_bytes()));
    }
}

/// Offers a ticket by a code at a rendezvous.
pub(super) struct Offer {
    courier: Courier,
    ticket: String,
    /// The code, once the server has given a number.
    code: Option<Code>,
    /// The joiner's message, and the keys of its run.
    current: Option<(Vec<u8>, Keys)>,
    ended: Option<(Timestamp, OfferResult)>,
}

impl Offer {
    pub(super) fn new(servers: &[SocketAddr], ticket: &Ticket, now: Timestamp) -> Result<Self, LiveError> {
        let courier = Courier::new(Side::Listener, servers, 0, now)?;
        Ok(Self { courier, ticket: ticket.to_string(), code: None, current: None, ended: None })
    }

    /// The code; `None` before the server has given a number.
    pub(super) fn code(&self) -> Option<&Code> {
        self.code.as_ref()
    }

    /// Why there is no code yet.
    pub(super) fn failure(&self) -> RedeemError {
        match self.courier.answered_at {
            Some(_) => RedeemError::Refused,
            None => RedeemError::Unanswered(self.courier.server()),
        }
    }

    /// How the offer ended, if it has.
    pub(super) fn result(&self) -> Option<OfferResult> {
        self.ended.map(|(_, result)| result)
    }

    /// Whether the last parcel has been available for long enough.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.ended.is_some_and(|(at, _)| now.saturating_since(at) >= FAREWELL)
    }

    fn end(&mut self, now: Timestamp, result: OfferResult, last: Parcel) {
        self.ended.get_or_insert((now, result));
        self.courier.set(now, last);
    }

    pub(super) fn handle_datagram(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<(), LiveError> {
        match self.courier.handle_datagram(now, from, datagram) {
            Some(Answer::Refused(Refusal::Taken)) if self.code.is_some() => {
                self.end(now, OfferResult::Lost, [0; PARCEL]);
            }
            Some(Answer::Parcel(nameplate, parcel)) => {
                if self.code.is_none() && nameplate != 0 {
                    self.code = Some(Code::random(nameplate)?);
                    self.courier.nameplate = nameplate;
                }
                self.received(now, &parcel)?;
            }
            Some(Answer::Refused(_)) | None => {}
        }
        Ok(())
    }

    /// Handles a parcel of the joiner.
    fn received(&mut self, now: Timestamp, parcel: &Parcel) -> Result<(), LiveError> {
        let Some(code) = &self.code else { return Ok(()) };
        let [kind, body @ ..] = parcel;
        match *kind {
            ASK => {
                let asked = &body[..MESSAGE];
                if self.ended.is_some() || self.current.as_ref().is_some_and(|(current, _)| current == asked) {
                    return Ok(());
                }
                let (spake, replied) = start(Side::Listener, code);
                // A message that is no point of the curve gets no answer.
                let Ok(shared) = spake.finish(asked) else { return Ok(()) };
                let keys = Keys::of(&shared, asked, &replied)?;
                self.courier.set(now, self::parcel(REPLY, &[&keys.run, &replied]));
                self.current = Some((asked.to_vec(), keys));
            }
            CONFIRM => {
                let Some((_, keys)) = self.current.as_ref().filter(|_| self.ended.is_none()) else { return Ok(()) };
                let (run, rest) = body.split_at(size_of::<Run>());
                if run != keys.run {
                    return Ok(());
                }
                // Comparison in constant time.
                let wrong = keys.proof.iter().zip(rest).fold(0, |wrong, (one, other)| wrong | (one ^ other));
                if wrong == 0 {
                    let give = self::parcel(GIVE, &[&keys.run, &keys.seal(&self.ticket)?]);
                    self.end(now, OfferResult::Given, give);
                } else {
                    self.end(now, OfferResult::Wrong, self::parcel(BURNED, &[]));
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn poll_timeout(&self) -> Timestamp {
        let over = self.ended.map(|(at, _)| at + FAREWELL);
        over.map_or(self.courier.send_at, |over| over.min(self.courier.send_at))
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        self.courier.handle_timeout(now);
    }

    pub(super) fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.courier.waiting.pop_front()
    }
}

/// Redeems a code for the ticket behind it.
pub(super) struct Redemption {
    courier: Courier,
    code: Code,
    spake: Option<Spake2<Ed25519Group>>,
    asked: Vec<u8>,
    /// Keys of the run, once the listener has replied.
    keys: Option<Keys>,
    /// The newest obstacle, and since when.
    obstacle: Option<(Timestamp, Obstacle)>,
    began: Timestamp,
    result: Option<Result<Ticket, RedeemError>>,
}

/// Why a joiner waits although the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    Unknown,
    Taken,
    Full,
    Used,
    Silent,
}

impl Redemption {
    pub(super) fn new(servers: &[SocketAddr], code: Code, now: Timestamp) -> Result<Self, LiveError> {
        let courier = Courier::new(Side::Joiner, servers, code.nameplate(), now)?;
        let (spake, keys, obstacle, result) = (None, None, None, None);
        let mut redemption = Self { courier, code, spake, asked: Vec::new(), keys, obstacle, began: now, result };
        redemption.ask(now);
        Ok(redemption)
    }

    /// Begins a run.
    fn ask(&mut self, now: Timestamp) {
        let (spake, asked) = start(Side::Joiner, &self.code);
        self.courier.set(now, parcel(ASK, &[&asked]));
        (self.spake, self.asked, self.keys) = (Some(spake), asked, None);
    }

    /// The result, once.
    pub(super) fn take_result(&mut self) -> Option<Result<Ticket, RedeemError>> {
        self.result.take()
    }

    pub(super) fn handle_datagram(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<(), LiveError> {
        match self.courier.handle_datagram(now, from, datagram) {
            Some(Answer::Parcel(_, parcel)) => {
                let received = self.received(now, &parcel);
                if let Err(error) = received {
                    self.result.get_or_insert(Err(error));
                }
            }
            Some(Answer::Refused(refusal)) => {
                self.hinder(
                    now,
                    match refusal {
                        Refusal::Unknown => Obstacle::Unknown,
                        Refusal::Taken => Obstacle::Taken,
                        Refusal::Full | Refusal::TooMany => Obstacle::Full,
                    },
                );
                // Another joiner has replaced this one, whose run the listener then forgets.
                if refusal == Refusal::Taken && self.keys.is_some() {
                    self.ask(now);
                }
            }
            None => {}
        }
        Ok(())
    }

    fn hinder(&mut self, now: Timestamp, obstacle: Obstacle) {
        if self.obstacle.is_none_or(|(_, known)| known != obstacle) {
            self.obstacle = Some((now, obstacle));
        }
    }

    /// Handles a parcel of the listener.
    fn received(&mut self, now: Timestamp, parcel: &Parcel) -> Result<(), RedeemError> {
        let [kind, body @ ..] = parcel;
        let (run, rest) = body.split_at(size_of::<Run>());
        match *kind {
            REPLY => {
                let replied = &rest[..MESSAGE];
                if let Some(keys) = &self.keys {
                    // The listener began a run with another joiner, and forgot this one.
                    if run != keys.run {
                        self.ask(now);
                    }
                    return Ok(());
                }
                let is_ours = run == self::run(&[&self.asked, replied].concat());
                let Some(spake) = self.spake.take_if(|_| is_ours) else {
                    self.hinder(now, Obstacle::Silent);
                    return Ok(());
                };
                self.obstacle = None;
                let shared = spake.finish(replied).map_err(|_| RedeemError::Impostor)?;
                let keys = Keys::of(&shared, &self.asked, replied)?;
                self.courier.set(now, self::parcel(CONFIRM, &[&keys.run, &keys.proof]));
                self.keys = Some(keys);
            }
            GIVE => {
                let Some(keys) = self.keys.as_ref().filter(|keys| run == keys.run) else {
                    self.hinder(now, Obstacle::Used);
                    return Ok(());
                };
                let text = keys.unseal(&rest[..SEALED])?;
                self.result = Some(text.parse().map_err(|_| RedeemError::NotATicket));
            }
            BURNED => return Err(if self.keys.is_some() { RedeemError::Wrong } else { RedeemError::Used }),
            _ => self.hinder(now, Obstacle::Silent),
        }
        Ok(())
    }

    /// When the joiner gives up, and why.
    fn limit(&self) -> (Timestamp, RedeemError) {
        let unanswered = |since| (since, RedeemError::Unanswered(self.courier.server()));
        let Some(answered_at) = self.courier.answered_at else { return unanswered(self.began + EAGER) };
        let by_other = self.limit_of_other_end();
        if answered_at + TURN_LIMIT < by_other.0 { unanswered(answered_at + TURN_LIMIT) } else { by_other }
    }

    /// The same, of a server that answers.
    fn limit_of_other_end(&self) -> (Timestamp, RedeemError) {
        match self.obstacle {
            Some((since, Obstacle::Unknown)) => (since + UNKNOWN_LIMIT, RedeemError::Unknown(self.courier.nameplate)),
            Some((since, Obstacle::Taken)) => (since + TURN_LIMIT, RedeemError::Taken),
            Some((since, Obstacle::Full)) => (since + UNKNOWN_LIMIT, RedeemError::Refused),
            Some((since, Obstacle::Used)) => (since + UNKNOWN_LIMIT, RedeemError::Used),
            Some((since, Obstacle::Silent)) => (since + TURN_LIMIT, RedeemError::Silent),
            None => (self.courier.changed_at + TURN_LIMIT, RedeemError::Silent),
        }
    }

    pub(super) fn poll_timeout(&self) -> Timestamp {
        self.courier.send_at.min(self.limit().0)
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        let (at, error) = self.limit();
        if now >= at {
            self.result.get_or_insert(Err(error));
        }
        self.courier.handle_timeout(now);
    }

    pub(super) fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.courier.waiting.pop_front()
    }
}
