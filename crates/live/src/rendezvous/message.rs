//! Messages between the ends of a call and their rendezvous, and probes between the ends.
//!
//! Each message is one UDP datagram: [`MAGIC`], the kind (1 byte), and a body. Every body has a fixed length, except
//! relayed packets. Numbers are big-endian.
//!
//! | kind | from, to | bytes after the kind |
//! |---|---|---|
//! | 1 announce | end, server | call 32, side 1, session 8, number 4, known number of the other end 4, cookie 16, sealed addresses 181, signature 64 of all preceding bytes |
//! | 2 prove | server, end | session 8, cookie 16, the end's address 19 |
//! | 3 met | server, end | session 8, the end's address 19, channel 8, whether the other end is present 1, its number 4, its sealed addresses 181 |
//! | 4 refused | server, end | session 8, reason 1 |
//! | 5 relay | end, server | channel 8, a QUIC packet |
//! | 6 relayed | server, end | a QUIC packet |
//! | 7 unknown | server, end | channel 8 |
//! | 8 probe | end, end | side 1, token 8, code 16 |
//! | 9 answer | end, end | side 1, token 8, code 16 |
//! | 10 exchange | end, server | side 1, session 8, nameplate 2 (0: any free one), cookie 16, parcel 448 |
//! | 11 exchanged | server, end | session 8, nameplate 2, the other end's parcel 448, or zeros |
//!
//! Kinds 10 and 11 pass parcels between the two ends of a code ([`super::exchange`]). The server does not read them.
//!
//! An address is a family byte (4 or 6), 16 bytes of address and the port; IPv4 uses the first four bytes. Exclusive
//! or with the session masks address and port: some routers rewrite bytes that look like their own addresses (RFC 8489,
//! section 14.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use lockstep_session::ticket::MAX_ADDRESSES;

use super::code::Nameplate;

/// Start of every message: a version and three letters. QUIC packets have their second bit set (RFC 9000, section 17),
/// so they do not match.
pub const MAGIC: [u8; 4] = [0x01, b'l', b's', b'r'];
/// Bytes before a relayed packet from the server.
pub const RELAYED_HEADER: usize = MAGIC.len() + 1;

/// Name of a call at a rendezvous: the public key of an Ed25519 pair, which both ends derive from the ticket's secret.
pub type Name = [u8; 32];
/// Random identifier of an end's process.
pub type Session = [u8; 8];
/// Proof of an end's address: the server's code (HMAC) of the address and the time.
pub type Cookie = [u8; 16];
/// Identifier by which an end's packets are relayed.
pub type Channel = [u8; 8];
/// Token of a probe, which its answer repeats.
pub type Token = [u8; 8];
/// Authentication code of probes and answers, with a key derived from the ticket's secret.
pub type Code = [u8; 16];
/// An Ed25519 signature.
pub type Signature = [u8; 64];

/// Length of an address in bytes.
pub const ADDRESS: usize = 19;
/// Length in bytes of a list of addresses: their number, and room for [`MAX_ADDRESSES`].
pub const LIST: usize = 1 + MAX_ADDRESSES * ADDRESS;
/// Encrypted list, which only the other end can read: nonce, list, tag.
pub type Sealed = [u8; 12 + LIST + 16];

/// Content that the two ends of a code exchange; zeros before the first.
pub type Parcel = [u8; PARCEL];
/// Length of a parcel in bytes. It holds the longest ticket; every parcel has the same length, so that no answer is
/// longer than its request.
pub const PARCEL: usize = 448;

/// Role of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The end that received the ticket.
    Joiner,
    /// The end that created the ticket.
    Listener,
}

impl Side {
    /// Number on the wire.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Joiner => 0,
            Self::Listener => 1,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        [Self::Joiner, Self::Listener].into_iter().find(|side| side.number() == number)
    }

    /// The opposite role.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Joiner => Self::Listener,
            Self::Listener => Self::Joiner,
        }
    }
}

/// Why a server refuses an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another end with the same ticket is in a call through the server.
    Taken,
    /// The server has reached its limit of calls.
    Full,
    /// The address has reached its limit of calls.
    TooMany,
    /// Nobody waits with the nameplate of the code.
    Unknown,
}

impl Refusal {
    const ALL: [Self; 4] = [Self::Taken, Self::Full, Self::TooMany, Self::Unknown];

    fn number(self) -> u8 {
        Self::ALL.iter().position(|&refusal| refusal == self).map_or(0, |place| place as u8)
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`Announce`].
    Announce,
    /// [`Message::Prove`].
    Prove,
    /// [`Message::Met`].
    Met,
    /// [`Message::Refused`].
    Refused,
    /// [`Message::Relay`].
    Relay,
    /// [`Message::Relayed`].
    Relayed,
    /// [`Message::Unknown`].
    Unknown,
    /// [`Message::Probe`].
    Probe,
    /// [`Message::Answer`].
    Answer,
    /// [`Exchange`].
    Exchange,
    /// [`Message::Exchanged`].
    Exchanged,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Announce,
        Self::Prove,
        Self::Met,
        Self::Refused,
        Self::Relay,
        Self::Relayed,
        Self::Unknown,
        Self::Probe,
        Self::Answer,
        Self::Exchange,
        Self::Exchanged,
    ];

    /// Number on the wire, from 1.
    #[must_use]
    pub fn number(self) -> u8 {
        Self::ALL.iter().position(|&kind| kind == self).map_or(0, |place| place as u8 + 1)
    }

    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }

    /// Whether the ends exchange it directly.
    #[must_use]
    pub fn is_between_ends(self) -> bool {
        matches!(self, Self::Probe | Self::Answer)
    }
}

/// Announcement of an end to its rendezvous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announce {
    /// The call.
    pub call: Name,
    /// Role of the end.
    pub side: Side,
    /// Process of the end.
    pub session: Session,
    /// Counter that grows with each change of the announcement.
    pub number: u32,
    /// Number of the other end's announcement that this end knows; arbitrary if it knows none.
    pub known: u32,
    /// Newest cookie of the server, or zeros.
    pub cookie: Cookie,
    /// Addresses at which the other end may try to reach this end.
    pub sealed: Sealed,
}

/// State of one end of a code, for the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Role of the end.
    pub side: Side,
    /// Process of the end.
    pub session: Session,
    /// Number of the code; 0 asks for any free one.
    pub nameplate: Nameplate,
    /// Newest cookie of the server, or zeros.
    pub cookie: Cookie,
    /// Its content for the other end.
    pub parcel: Parcel,
}

/// Data of the other end, at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// Number of its announcement.
    pub number: u32,
    /// Its addresses.
    pub sealed: Sealed,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// Announces an end, at first and regularly; with the bytes that the signature covers.
    Announce(Box<Announce>, Signature, &'a [u8]),
    /// Requests the announcement again, with this cookie.
    Prove {
        /// Session of the announcement.
        session: Session,
        /// Cookie for the next announcement.
        cookie: Cookie,
        /// Source address of the announcement.
        address: SocketAddr,
    },
    /// Confirms the announcement.
    Met {
        /// Session of the announcement.
        session: Session,
        /// Source address of the announcement.
        address: SocketAddr,
        /// Channel by which packets can be relayed.
        channel: Channel,
        /// The other end, if it has announced itself.
        other: Option<Box<Other>>,
    },
    /// Refuses the announcement.
    Refused {
        /// Session of the announcement.
        session: Session,
        /// Reason of the refusal.
        refusal: Refusal,
    },
    /// Carries a packet for the other end to the server.
    Relay {
        /// Channel of the sender.
        channel: Channel,
        /// The packet.
        packet: &'a [u8],
    },
    /// Carries a packet of the other end from the server.
    Relayed(&'a [u8]),
    /// Reports an unknown channel: the server was restarted, or the end's address changed.
    Unknown {
        /// The channel.
        channel: Channel,
    },
    /// Probes a direct route; with the bytes that the code covers.
    Probe(Side, Token, Code, &'a [u8]),
    /// Answers a probe; with the bytes that the code covers.
    Answer(Side, Token, Code, &'a [u8]),
    /// Sends a parcel to the other end of a code.
    Exchange(Box<Exchange>),
    /// Confirms an [`Exchange`], with the other end's parcel.
    Exchanged {
        /// Session of the end.
        session: Session,
        /// Number of its code.
        nameplate: Nameplate,
        /// The other end's parcel.
        parcel: Box<Parcel>,
    },
}

/// The next `N` bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

/// Wire format of an address.
fn address_bytes(address: SocketAddr) -> [u8; ADDRESS] {
    let mut bytes = [0; ADDRESS];
    match address.ip() {
        IpAddr::V4(ip) => {
            bytes[0] = 4;
            bytes[1..5].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes[0] = 6;
            bytes[1..17].copy_from_slice(&ip.octets());
        }
    }
    bytes[17..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}

fn address_of(bytes: [u8; ADDRESS]) -> Option<SocketAddr> {
    let mut rest = &bytes[1..];
    let ip: [u8; 16] = take(&mut rest)?;
    let ip: IpAddr = match (bytes[0], ip) {
        (4, [a, b, c, d, ..]) => Ipv4Addr::new(a, b, c, d).into(),
        (6, ip) => Ipv6Addr::from(ip).into(),
        _ => return None,
    };
    let port = u16::from_be_bytes(take(&mut rest)?);
    (!ip.is_unspecified() && port != 0).then(|| SocketAddr::new(ip, port))
}

/// Masks an address of an end against routers, or unmasks it.
fn mask(mut bytes: [u8; ADDRESS], session: Session) -> [u8; ADDRESS] {
    bytes[1..].iter_mut().zip(session.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    bytes
}

/// List of an end's first [`MAX_ADDRESSES`] addresses, before encryption.
#[must_use]
pub fn list(addresses: &[SocketAddr]) -> [u8; LIST] {
    let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
    let mut bytes = [0; LIST];
    bytes[0] = addresses.len() as u8;
    for (place, address) in bytes[1..].chunks_exact_mut(ADDRESS).zip(addresses) {
        place.copy_from_slice(&address_bytes(*address));
    }
    bytes
}

/// The addresses of a list; `None` if it is malformed.
#[must_use]
pub fn listed(bytes: &[u8]) -> Option<Vec<SocketAddr>> {
    let (&[count, ref rest @ ..], true) = (bytes, bytes.len() == LIST) else { return None };
    let places = rest.chunks_exact(ADDRESS).take(usize::from(count));
    let addresses = places.map(|place| address_of(place.try_into().ok()?));
    (usize::from(count) <= MAX_ADDRESSES).then(|| addresses.collect()).flatten()
}

/// Header of a message.
fn head(kind: Kind) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(kind.number());
    bytes
}

impl Announce {
    /// The bytes that the signature covers; the signature follows them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = head(Kind::Announce);
        bytes.extend(self.call);
        bytes.push(self.side.number());
        bytes.extend(self.session);
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(self.known.to_be_bytes());
        bytes.extend(self.cookie);
        bytes.extend(self.sealed);
        bytes
    }
}

/// The bytes of a probe or an answer that its code covers; the code follows them.
#[must_use]
pub fn probe_bytes(kind: Kind, side: Side, token: Token) -> Vec<u8> {
    let mut bytes = head(kind);
    bytes.push(side.number());
    bytes.extend(token);
    bytes
}

impl<'a> Message<'a> {
    /// Wire format of the message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Announce(announce, signature, _) => [&announce.to_bytes()[..], signature].concat(),
            Self::Prove { session, cookie, address } => {
                [&head(Kind::Prove)[..], session, cookie, &mask(address_bytes(*address), *session)].concat()
            }
            Self::Met { session, address, channel, other } => {
                let mut bytes = head(Kind::Met);
                bytes.extend(session);
                bytes.extend(mask(address_bytes(*address), *session));
                bytes.extend(channel);
                bytes.push(u8::from(other.is_some()));
                bytes.extend(other.as_ref().map_or(0, |other| other.number).to_be_bytes());
                bytes.extend(other.as_ref().map_or([0; size_of::<Sealed>()], |other| other.sealed));
                bytes
            }
            Self::Refused { session, refusal } => [&head(Kind::Refused)[..], session, &[refusal.number()]].concat(),
            Self::Relay { channel, packet } => [&head(Kind::Relay)[..], channel, packet].concat(),
            Self::Relayed(packet) => [&head(Kind::Relayed)[..], packet].concat(),
            Self::Unknown { channel } => [&head(Kind::Unknown)[..], channel].concat(),
            Self::Probe(side, token, code, _) => [&probe_bytes(Kind::Probe, *side, *token)[..], code].concat(),
            Self::Answer(side, token, code, _) => [&probe_bytes(Kind::Answer, *side, *token)[..], code].concat(),
            Self::Exchange(exchange) => {
                let Exchange { side, session, nameplate, cookie, parcel } = &**exchange;
                [&head(Kind::Exchange)[..], &[side.number()], session, &nameplate.to_be_bytes(), cookie, parcel]
                    .concat()
            }
            Self::Exchanged { session, nameplate, parcel } => {
                [&head(Kind::Exchanged)[..], session, &nameplate.to_be_bytes(), &parcel[..]].concat()
            }
        }
    }

    /// Parses a datagram; `None` if it is not exactly one message.
    #[must_use]
    pub fn decode(datagram: &'a [u8]) -> Option<Self> {
        let mut rest = datagram.strip_prefix(&MAGIC)?;
        let [kind] = take(&mut rest)?;
        let kind = Kind::from_number(kind)?;
        match kind {
            Kind::Relay => return Some(Self::Relay { channel: take(&mut rest)?, packet: rest }),
            Kind::Relayed => return Some(Self::Relayed(rest)),
            _ => {}
        }
        let message = Self::decode_fixed(kind, datagram, &mut rest)?;
        rest.is_empty().then_some(message)
    }

    fn decode_fixed(kind: Kind, datagram: &'a [u8], rest: &mut &'a [u8]) -> Option<Self> {
        Some(match kind {
            Kind::Announce => {
                let announce = Announce {
                    call: take(rest)?,
                    side: Side::from_number(take::<1>(rest)?[0])?,
                    session: take(rest)?,
                    number: u32::from_be_bytes(take(rest)?),
                    known: u32::from_be_bytes(take(rest)?),
                    cookie: take(rest)?,
                    sealed: take(rest)?,
                };
                let signed = &datagram[..datagram.len() - rest.len()];
                Self::Announce(Box::new(announce), take(rest)?, signed)
            }
            Kind::Prove => {
                let (session, cookie) = (take(rest)?, take(rest)?);
                Self::Prove { session, cookie, address: address_of(mask(take(rest)?, session))? }
            }
            Kind::Met => {
                let session = take(rest)?;
                let (address, channel) = (address_of(mask(take(rest)?, session))?, take(rest)?);
                let [there] = take(rest)?;
                let other = Other { number: u32::from_be_bytes(take(rest)?), sealed: take(rest)? };
                Self::Met { session, address, channel, other: (there == 1).then(|| Box::new(other)) }
            }
            Kind::Refused => {
                Self::Refused { session: take(rest)?, refusal: Refusal::from_number(take::<1>(rest)?[0])? }
            }
            Kind::Unknown => Self::Unknown { channel: take(rest)? },
            Kind::Probe | Kind::Answer => {
                let (side, token) = (Side::from_number(take::<1>(rest)?[0])?, take(rest)?);
                let coded = &datagram[..datagram.len() - rest.len()];
                let code = take(rest)?;
                match kind {
                    Kind::Probe => Self::Probe(side, token, code, coded),
                    _ => Self::Answer(side, token, code, coded),
                }
            }
            Kind::Exchange => Self::Exchange(Box::new(Exchange {
                side: Side::from_number(take::<1>(rest)?[0])?,
                session: take(rest)?,
                nameplate: u16::from_be_bytes(take(rest)?),
                cookie: take(rest)?,
                parcel: take(rest)?,
            })),
            Kind::Exchanged => Self::Exchanged {
                session: take(rest)?,
                nameplate: u16::from_be_bytes(take(rest)?),
                parcel: Box::new(take(rest)?),
            },
            Kind::Relay | Kind::Relayed => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn addresses() -> [SocketAddr; 2] {
        ["192.0.2.7:4600", "[2001:db8::7]:4601"].map(|text| text.parse().expect("an address"))
    }

    fn exchange() -> Exchange {
        Exchange { side: Side::Joiner, session: [1; 8], nameplate: 7, cookie: [2; 16], parcel: [3; PARCEL] }
    }

    #[test]
    fn messages_survive_encoding_and_decoding() {
        let announce = Announce {
            call: [1; 32],
            side: Side::Listener,
            session: [2; 8],
            number: 3,
            known: 4,
            cookie: [5; 16],
            sealed: [6; 181],
        };
        let signed = announce.to_bytes();
        let probe = |kind| probe_bytes(kind, Side::Joiner, [8; 8]);
        let (asked, answered) = (probe(Kind::Probe), probe(Kind::Answer));
        let [v4, v6] = addresses();
        let other = Some(Box::new(Other { number: 9, sealed: [7; 181] }));
        let messages = [
            Message::Announce(Box::new(announce), [7; 64], &signed),
            Message::Prove { session: [1; 8], cookie: [2; 16], address: v6 },
            Message::Met { session: [1; 8], address: v4, channel: [3; 8], other },
            Message::Met { session: [1; 8], address: v6, channel: [3; 8], other: None },
            Message::Refused { session: [1; 8], refusal: Refusal::TooMany },
            Message::Relay { channel: [4; 8], packet: &[1, 2, 3] },
            Message::Relayed(&[4, 5]),
            Message::Unknown { channel: [6; 8] },
            Message::Probe(Side::Joiner, [8; 8], [9; 16], &asked),
            Message::Answer(Side::Joiner, [8; 8], [9; 16], &answered),
            Message::Exchange(Box::new(exchange())),
            Message::Exchanged { session: [1; 8], nameplate: 7, parcel: Box::new([8; PARCEL]) },
        ];
        for message in messages {
            let bytes = message.to_bytes();
            assert_eq!(Message::decode(&bytes), Some(message.clone()));
            let variable = matches!(message, Message::Relay { .. } | Message::Relayed(_));
            assert!(variable || Message::decode(&[&bytes[..], &[0]].concat()).is_none(), "one byte more: {message:?}");
            assert!(variable || Message::decode(&bytes[..bytes.len() - 1]).is_none(), "one byte less: {message:?}");
        }
    }

    #[test]
    fn no_answer_is_longer_than_its_request() {
        let [_, v6] = addresses();
        let announce = 5 + 32 + 1 + 8 + 4 + 4 + 16 + 181 + 64;
        let other = Some(Box::new(Other { number: 9, sealed: [7; 181] }));
        let prove = Message::Prove { session: [1; 8], cookie: [2; 16], address: v6 }.to_bytes().len();
        let met = Message::Met { session: [1; 8], address: v6, channel: [3; 8], other }.to_bytes().len();
        assert!(prove <= announce && met <= announce);
        let exchange = Message::Exchange(Box::new(exchange())).to_bytes().len();
        let parcel = Box::new([8; PARCEL]);
        let exchanged = Message::Exchanged { session: [1; 8], nameplate: 7, parcel }.to_bytes().len();
        assert!(prove <= exchange && exchanged <= exchange);
        assert_eq!(Message::Unknown { channel: [6; 8] }.to_bytes().len(), RELAYED_HEADER + size_of::<Channel>());
    }

    #[test]
    fn address_in_an_answer_is_masked() {
        let [v4, _] = addresses();
        let met = Message::Met { session: *b"nonsense", address: v4, channel: [3; 8], other: None }.to_bytes();
        assert!(!met.windows(4).any(|window| window == [192, 0, 2, 7]));
    }

    proptest! {
        #[test]
        fn any_message_encodes_to_its_own_length(
            bytes in vec(any::<u8>(), 0..500), kind in 0_u8..14, length in 0_usize..500,
        ) {
            let mut datagram = [&MAGIC[..], &[kind], &bytes].concat();
            datagram.truncate(length);
            for datagram in [&bytes[..], &datagram] {
                if let Some(message) = Message::decode(datagram) {
                    let again = message.to_bytes();
                    prop_assert_eq!(Message::decode(&again).map(|again| again.to_bytes()), Some(again.clone()));
                    prop_assert!(again.len() == datagram.len());
                }
            }
        }

        #[test]
        fn any_list_of_addresses_is_read_or_refused(bytes in vec(any::<u8>(), 0..200), count in 0_u8..10) {
            let mut whole = bytes.clone();
            whole.resize(LIST, 4);
            whole[0] = count;
            for bytes in [&bytes, &whole] {
                if let Some(addresses) = listed(bytes) {
                    prop_assert!(addresses.len() <= MAX_ADDRESSES);
                    prop_assert_eq!(listed(&list(&addresses)), Some(addresses));
                }
            }
        }
    }
}
