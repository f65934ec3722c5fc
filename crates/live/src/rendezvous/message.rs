//! What goes between the two ends of a call and their rendezvous, and, to find a way, between the ends themselves. Each
//! message is one UDP datagram: [`MAGIC`], a byte that says its kind, and what it says, of one length for each kind (but for
//! what is relayed). Numbers are big-endian.
//!
//! | kind | from, to | bytes after the kind |
//! |---|---|---|
//! | 1 announce | end, server | call 32, side 1, session 8, number 4, the other's number that is known 4, cookie 16, sealed addresses 181, signature 64 of all before |
//! | 2 prove | server, end | session 8, cookie 16, the end's address 19 |
//! | 3 met | server, end | session 8, the end's address 19, channel 8, whether the other is there 1, its number 4, its sealed addresses 181 |
//! | 4 refused | server, end | session 8, why 1 |
//! | 5 relay | end, server | channel 8, a packet of QUIC's |
//! | 6 relayed | server, end | a packet of QUIC's |
//! | 7 unknown | server, end | channel 8 |
//! | 8 probe | end, end | side 1, token 8, code 16 |
//! | 9 answer | end, end | side 1, token 8, code 16 |
//!
//! An end's address is 4 or 6, 16 bytes of which IPv4 uses the first four, and the port, the latter two combined with the
//! session by exclusive or: some routers rewrite whatever looks like an address of theirs (RFC 8489, section 14.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::ticket::MOST_ADDRESSES;

/// What all begin with: none of QUIC's packets does but by chance, as the second bit of those is set (RFC 9000, section 17),
/// and the rest is a version and three letters.
pub const MAGIC: [u8; 4] = [0x01, b'l', b's', b'r'];
/// Bytes before what is relayed, on the way from the server.
pub const RELAYED_HEADER: usize = MAGIC.len() + 1;

/// A call's name at a rendezvous: the public key (Ed25519) of a pair that both ends make of the ticket's secret.
pub type Name = [u8; 32];
/// An end while it runs: drawn anew by each process.
pub type Session = [u8; 8];
/// What shows that an end is where it says: the server's code of the address and the time.
pub type Cookie = [u8; 16];
/// What an end's packets are relayed by.
pub type Channel = [u8; 8];
/// What a probe says and its answer repeats.
pub type Token = [u8; 8];
/// The code of probes and answers, by a key that is made of the ticket's secret.
pub type Code = [u8; 16];
/// A signature by Ed25519.
pub type Signature = [u8; 64];

/// Bytes of an address.
pub const ADDRESS: usize = 19;
/// Bytes of the list of an end's addresses: how many, and room for the most.
pub const LIST: usize = 1 + MOST_ADDRESSES * ADDRESS;
/// A list that only the other end can read: nonce, list, tag.
pub type Sealed = [u8; 12 + LIST + 16];

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The one that was given the ticket.
    Joiner,
    /// The one that gave it.
    Listener,
}

impl Side {
    /// The number on the wire.
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

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Joiner => Self::Listener,
            Self::Listener => Self::Joiner,
        }
    }
}

/// Why a server does not take an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another that shows the same ticket is in a call through the server.
    Taken,
    /// As many calls are on as the server takes.
    Full,
    /// As many calls are on from that address as the server takes.
    TooMany,
}

impl Refusal {
    const ALL: [Self; 3] = [Self::Taken, Self::Full, Self::TooMany];

    fn number(self) -> u8 {
        Self::ALL.iter().position(|&refusal| refusal == self).map_or(0, |place| place as u8)
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// What messages there are.
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
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Announce,
        Self::Prove,
        Self::Met,
        Self::Refused,
        Self::Relay,
        Self::Relayed,
        Self::Unknown,
        Self::Probe,
        Self::Answer,
    ];

    /// The number on the wire, from 1.
    #[must_use]
    pub fn number(self) -> u8 {
        Self::ALL.iter().position(|&kind| kind == self).map_or(0, |place| place as u8 + 1)
    }

    /// The kind of that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }

    /// Whether it goes from one end to the other, past the server.
    #[must_use]
    pub fn is_between_ends(self) -> bool {
        matches!(self, Self::Probe | Self::Answer)
    }
}

/// What an end says of itself to its rendezvous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announce {
    /// The call.
    pub call: Name,
    /// Which end it is.
    pub side: Side,
    /// Which process.
    pub session: Session,
    /// Grows whenever what it says changes.
    pub number: u32,
    /// The other end's number that it knows of; any if it knows none.
    pub known: u32,
    /// What the server gave it; zeros if it has none.
    pub cookie: Cookie,
    /// Where the other end may try to reach it.
    pub sealed: Sealed,
}

/// What a server knows of the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// The number of what it said.
    pub number: u32,
    /// What it said.
    pub sealed: Sealed,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// An end is there, or still there. With it comes what the signature is of.
    Announce(Box<Announce>, Signature, &'a [u8]),
    /// Say it again with this cookie.
    Prove {
        /// Whose announcement is answered.
        session: Session,
        /// What to say it with.
        cookie: Cookie,
        /// Where it came from.
        address: SocketAddr,
    },
    /// It was heard.
    Met {
        /// Whose announcement is answered.
        session: Session,
        /// Where it came from.
        address: SocketAddr,
        /// What to relay by.
        channel: Channel,
        /// The other end, if it is there.
        other: Option<Box<Other>>,
    },
    /// It was heard, and that is all.
    Refused {
        /// Whose announcement is answered.
        session: Session,
        /// Why.
        refusal: Refusal,
    },
    /// A packet for the other end.
    Relay {
        /// Whose packet.
        channel: Channel,
        /// The packet.
        packet: &'a [u8],
    },
    /// A packet of the other end's.
    Relayed(&'a [u8]),
    /// Nothing is relayed by that channel from there: the server was started anew, or the end's address has changed.
    Unknown {
        /// The channel.
        channel: Channel,
    },
    /// Is there a way? With it comes what the code is of.
    Probe(Side, Token, Code, &'a [u8]),
    /// There is.
    Answer(Side, Token, Code, &'a [u8]),
}

/// The next `N` bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

/// An address as bytes.
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

/// Hides an address of an end from routers, and shows it again.
fn mask(mut bytes: [u8; ADDRESS], session: Session) -> [u8; ADDRESS] {
    bytes[1..].iter_mut().zip(session.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    bytes
}

/// An end's addresses, the first [`MOST_ADDRESSES`], before they are sealed.
#[must_use]
pub fn list(addresses: &[SocketAddr]) -> [u8; LIST] {
    let addresses = &addresses[..addresses.len().min(MOST_ADDRESSES)];
    let mut bytes = [0; LIST];
    bytes[0] = addresses.len() as u8;
    for (place, address) in bytes[1..].chunks_exact_mut(ADDRESS).zip(addresses) {
        place.copy_from_slice(&address_bytes(*address));
    }
    bytes
}

/// The addresses in a list; none if it is not one.
#[must_use]
pub fn listed(bytes: &[u8]) -> Option<Vec<SocketAddr>> {
    let (&[count, ref rest @ ..], true) = (bytes, bytes.len() == LIST) else { return None };
    let places = rest.chunks_exact(ADDRESS).take(usize::from(count));
    let addresses = places.map(|place| address_of(place.try_into().ok()?));
    (usize::from(count) <= MOST_ADDRESSES).then(|| addresses.collect()).flatten()
}

/// The beginning of a message.
fn head(kind: Kind) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(kind.number());
    bytes
}

impl Announce {
    /// What is to be signed; the signature follows it.
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

/// What the code of a probe, or of an answer, is of; the code follows it.
#[must_use]
pub fn probe_bytes(kind: Kind, side: Side, token: Token) -> Vec<u8> {
    let mut bytes = head(kind);
    bytes.push(side.number());
    bytes.extend(token);
    bytes
}

impl<'a> Message<'a> {
    /// The message as a datagram.
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
        }
    }

    /// The message that a datagram is; none if it is not exactly one.
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

    #[test]
    fn messages_come_out_as_they_went_in() {
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
    fn no_answer_is_longer_than_what_it_answers() {
        let [_, v6] = addresses();
        let announce = 5 + 32 + 1 + 8 + 4 + 4 + 16 + 181 + 64;
        let other = Some(Box::new(Other { number: 9, sealed: [7; 181] }));
        let prove = Message::Prove { session: [1; 8], cookie: [2; 16], address: v6 }.to_bytes().len();
        let met = Message::Met { session: [1; 8], address: v6, channel: [3; 8], other }.to_bytes().len();
        assert!(prove <= announce && met <= announce);
        assert_eq!(Message::Unknown { channel: [6; 8] }.to_bytes().len(), RELAYED_HEADER + size_of::<Channel>());
    }

    #[test]
    fn an_address_in_an_answer_does_not_look_like_one() {
        let [v4, _] = addresses();
        let met = Message::Met { session: *b"nonsense", address: v4, channel: [3; 8], other: None }.to_bytes();
        assert!(!met.windows(4).any(|window| window == [192, 0, 2, 7]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_that_says_them_again_or_none(
            bytes in vec(any::<u8>(), 0..400), kind in 0_u8..12, length in 0_usize..400,
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
                    prop_assert!(addresses.len() <= MOST_ADDRESSES);
                    prop_assert_eq!(listed(&list(&addresses)), Some(addresses));
                }
            }
        }
    }
}
