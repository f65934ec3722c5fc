//! Tickets: one person gives a ticket to another, and that person joins the call with it.
//!
//! A ticket holds the key of the listener, a secret that authenticates the joiner, and the addresses to try.
//!
//! The text form is `LOCKSTEP-` and base 32 (RFC 4648), in upper or lower case and with spaces anywhere. A link that
//! ends with `#` and the ticket is parsed too.
//!
//! | bytes | |
//! |---|---|
//! | 1 | version, 1, or 2 with a rendezvous, or 3 for browsers too |
//! | 32 | the listener's public key (Ed25519); version 3: the SHA-256 of its certificate |
//! | 16 | secret |
//! | 1 | n, number of addresses, 1 to 8; 0 to 8 with a rendezvous |
//! | n times 7 or 19 | 4 or 6, the IPv4 or IPv6 address, the port |
//! | 1 | version 2 and 3: m, number of addresses of the rendezvous, 1 to 2; version 3: 0 to 2 |
//! | m times 7 or 19 | its addresses, in the same format |
//! | 4 | the first bytes of the SHA-256 of all preceding bytes |

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Prefix of every ticket.
const PREFIX: &str = "LOCKSTEP-";
const VERSION: u8 = 1;
const VERSION_WITH_RENDEZVOUS: u8 = 2;
const VERSION_WITH_CERTIFICATE: u8 = 3;
/// Bit of the version's byte in a ticket of a room.
const ROOM: u8 = 0x80;
const CHECKSUM: usize = 4;
/// Most addresses in a ticket: those of a machine with a few networks. All are tried at once.
pub const MAX_ADDRESSES: usize = 8;
/// Most addresses of a rendezvous: one per address family.
pub const MAX_SERVERS: usize = 2;

/// Public key of a listener (Ed25519).
pub type PublicKey = [u8; 32];
/// SHA-256 of a listener's X.509 certificate, in DER.
pub type CertificateHash = [u8; 32];
/// Secret that only holders of the ticket know.
pub type Secret = [u8; 16];

/// Key by which joiners recognise a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerKey {
    /// A raw public key; browsers cannot join.
    PublicKey(PublicKey),
    /// The hash of a certificate, which browsers accept too.
    CertificateHash(CertificateHash),
}

impl ListenerKey {
    fn bytes(&self) -> &[u8; 32] {
        match self {
            Self::PublicKey(bytes) | Self::CertificateHash(bytes) => bytes,
        }
    }
}

/// Data that is needed to join a call.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The key whose possession the listener proves.
    pub key: ListenerKey,
    /// The secret whose knowledge the joiner proves.
    pub secret: Secret,
    /// Addresses of the listener, 1 to [`MAX_ADDRESSES`], or none if there is a rendezvous. All are tried at once.
    pub addresses: Vec<SocketAddr>,
    /// Addresses of one rendezvous, up to [`MAX_SERVERS`]; empty without a rendezvous.
    pub rendezvous: Vec<SocketAddr>,
    /// Whether it leads to the door of a room.
    pub is_room: bool,
}

/// Why a text is not a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TicketError {
    /// The prefix is missing.
    #[error("a ticket begins with {PREFIX}; run `lockstep receive` or `lockstep talk` at the other end to get one")]
    Prefix,
    /// Characters are missing, wrong or superfluous.
    #[error("the ticket is damaged: letters are missing or wrong; copy all of it")]
    Damaged,
    /// The ticket has an unknown version.
    #[error("the ticket is of version {0}, which this program does not know; update it")]
    Version(u8),
}

impl Ticket {
    /// Longest text that is parsed as a ticket, in bytes.
    pub const MAX_TEXT_BYTES: usize = 1024;

    fn bytes(&self) -> Vec<u8> {
        let version = match self.key {
            ListenerKey::CertificateHash(_) => VERSION_WITH_CERTIFICATE,
            ListenerKey::PublicKey(_) if self.rendezvous.is_empty() => VERSION,
            ListenerKey::PublicKey(_) => VERSION_WITH_RENDEZVOUS,
        };
        let mut bytes = vec![version | if self.is_room { ROOM } else { 0 }];
        bytes.extend(self.key.bytes());
        bytes.extend(self.secret);
        write_addresses(&mut bytes, &self.addresses[..self.addresses.len().min(MAX_ADDRESSES)]);
        if version != VERSION {
            write_addresses(&mut bytes, &self.rendezvous[..self.rendezvous.len().min(MAX_SERVERS)]);
        }
        bytes
    }
}

/// Text form of `bytes`, whatever they are, with their checksum.
#[doc(hidden)]
#[must_use]
pub fn text_of(bytes: &[u8]) -> String {
    let checksum = Sha256::digest(bytes);
    let bytes = [bytes, &checksum[..CHECKSUM]].concat();
    format!("{PREFIX}{}", BASE32_NOPAD.encode(&bytes))
}

/// Appends the number of addresses, and the addresses.
fn write_addresses(bytes: &mut Vec<u8>, addresses: &[SocketAddr]) {
    bytes.push(addresses.len() as u8);
    for address in addresses {
        match address.ip() {
            IpAddr::V4(ip) => {
                bytes.push(4);
                bytes.extend(ip.octets());
            }
            IpAddr::V6(ip) => {
                bytes.push(6);
                bytes.extend(ip.octets());
            }
        }
        bytes.extend(address.port().to_be_bytes());
    }
}

/// Reads a list of addresses whose length is within `counts`.
fn read_addresses(bytes: &mut &[u8], counts: RangeInclusive<usize>) -> Result<Vec<SocketAddr>, TicketError> {
    let [count] = take(bytes)?;
    if !counts.contains(&usize::from(count)) {
        return Err(TicketError::Damaged);
    }
    let mut addresses = Vec::with_capacity(count.into());
    for _ in 0..count {
        let ip: IpAddr = match take(bytes)? {
            [4] => Ipv4Addr::from(take::<4>(bytes)?).into(),
            [6] => Ipv6Addr::from(take::<16>(bytes)?).into(),
            _ => return Err(TicketError::Damaged),
        };
        let port = u16::from_be_bytes(take(bytes)?);
        if ip.is_unspecified() || port == 0 {
            return Err(TicketError::Damaged);
        }
        addresses.push(SocketAddr::new(ip, port));
    }
    Ok(addresses)
}

/// The next `N` bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], TicketError> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or(TicketError::Damaged)?;
    *bytes = rest;
    Ok(*taken)
}

impl fmt::Display for Ticket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&text_of(&self.bytes()))
    }
}

/// Omits the secret, which must not appear in logs.
impl fmt::Debug for Ticket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ticket").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        if text.len() > Self::MAX_TEXT_BYTES {
            return Err(TicketError::Damaged);
        }
        // A link holds the ticket in its fragment.
        let text = text.rsplit_once('#').map_or(text, |(_, fragment)| fragment);
        let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        let text = text.to_ascii_uppercase();
        let text = text.strip_prefix(PREFIX).ok_or(TicketError::Prefix)?;
        let bytes = BASE32_NOPAD.decode(text.as_bytes()).map_err(|_| TicketError::Damaged)?;
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(TicketError::Damaged)?;
        if Sha256::digest(body)[..CHECKSUM] != *checksum {
            return Err(TicketError::Damaged);
        }
        let mut rest = body;
        let [number] = take(&mut rest)?;
        let (version, is_room) = (number & !ROOM, number & ROOM != 0);
        let servers = match version {
            VERSION => 0..=0,
            VERSION_WITH_RENDEZVOUS => 1..=MAX_SERVERS,
            VERSION_WITH_CERTIFICATE => 0..=MAX_SERVERS,
            _ => return Err(TicketError::Version(number)),
        };
        let (key, secret) = (take(&mut rest)?, take(&mut rest)?);
        let key = match version {
            VERSION_WITH_CERTIFICATE => ListenerKey::CertificateHash(key),
            _ => ListenerKey::PublicKey(key),
        };
        let addresses = read_addresses(&mut rest, 0..=MAX_ADDRESSES)?;
        let rendezvous = if version == VERSION { Vec::new() } else { read_addresses(&mut rest, servers)? };
        if addresses.is_empty() && rendezvous.is_empty() {
            return Err(TicketError::Damaged);
        }
        let ticket = Self { key, secret, addresses, rendezvous, is_room };
        if rest.is_empty() { Ok(ticket) } else { Err(TicketError::Damaged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        let addresses = ["192.0.2.7:4600", "[2001:db8::7]:4600"].map(|text| text.parse().expect("an address"));
        Ticket {
            key: ListenerKey::PublicKey([7; 32]),
            secret: [9; 16],
            addresses: addresses.into(),
            rendezvous: Vec::new(),
            is_room: false,
        }
    }

    #[test]
    fn ticket_survives_lower_case_and_line_breaks() {
        let text = ticket().to_string();
        let (first, second) = text.split_at(50);
        for copy in [text.clone(), format!(" {}\n  {}\n", first.to_ascii_lowercase(), second)] {
            assert_eq!(copy.parse(), Ok(ticket()));
        }
        assert!(!format!("{:?}", ticket()).contains("9, 9"), "its secret shows");
    }

    #[test]
    fn any_wrong_or_missing_letter_is_detected() {
        let text = ticket().to_string();
        for place in 0..text.len() {
            let other = if &text[place..=place] == "A" { "B" } else { "A" };
            let wrong = format!("{}{other}{}", &text[..place], &text[place + 1..]);
            assert!(wrong.parse::<Ticket>().is_err(), "{wrong}");
            assert!(text[..place].parse::<Ticket>().is_err(), "{place} letters");
        }
        assert_eq!(format!("{text}A").parse::<Ticket>(), Err(TicketError::Damaged));
        assert_eq!("192.0.2.7:4600".parse::<Ticket>(), Err(TicketError::Prefix));
    }

    #[test]
    fn ticket_with_an_unusable_address_is_refused() {
        let [nowhere, unspecified] = ["192.0.2.7:0", "0.0.0.0:4600"].map(|text| text.parse().expect("an address"));
        for addresses in [vec![], vec![nowhere], vec![unspecified]] {
            let text = Ticket { addresses, ..ticket() }.to_string();
            assert_eq!(text.parse::<Ticket>(), Err(TicketError::Damaged));
        }
    }

    #[test]
    fn ticket_with_a_certificate_is_of_version_three() {
        let ticket = Ticket { key: ListenerKey::CertificateHash([8; 32]), ..ticket() };
        let text = ticket.to_string();
        let bytes = BASE32_NOPAD.decode(&text.as_bytes()[PREFIX.len()..]).expect("it is base 32");
        assert_eq!((bytes[0], &bytes[1..33], bytes.len()), (3, &[8; 32][..], 1 + 32 + 16 + 1 + 7 + 19 + 1 + 4));
        assert_eq!(text.parse(), Ok(ticket.clone()));
        let lost = Ticket { addresses: Vec::new(), ..ticket };
        assert_eq!(lost.to_string().parse::<Ticket>(), Err(TicketError::Damaged), "it leads nowhere");
    }

    #[test]
    fn ticket_is_parsed_from_the_fragment_of_a_link() {
        for page in ["http://127.0.0.1:4680/", "https://example.org/call.html?lang=de", ""] {
            assert_eq!(format!("{page}#{}", ticket()).parse(), Ok(ticket()), "{page}");
        }
        assert_eq!("http://127.0.0.1:4680/#".parse::<Ticket>(), Err(TicketError::Prefix));
        assert_eq!(format!("{}#", ticket()).parse::<Ticket>(), Err(TicketError::Prefix));
    }

    #[test]
    fn only_a_ticket_with_a_rendezvous_may_lack_addresses() {
        let rendezvous: Vec<SocketAddr> =
            ["198.51.100.1:4610", "[2001:db8::1]:4610"].map(|text| text.parse().expect("an address")).into();
        for addresses in [ticket().addresses, Vec::new()] {
            for key in [ListenerKey::PublicKey([7; 32]), ListenerKey::CertificateHash([7; 32])] {
                for is_room in [false, true] {
                    let (addresses, rendezvous) = (addresses.clone(), rendezvous.clone());
                    let ticket = Ticket { key, addresses, rendezvous, is_room, ..ticket() };
                    assert_eq!(ticket.to_string().parse(), Ok(ticket));
                }
            }
        }
        let plain = ticket().to_string();
        let bytes = BASE32_NOPAD.decode(&plain.as_bytes()[PREFIX.len()..]).expect("it is base 32");
        assert_eq!((bytes[0], bytes.len()), (1, 1 + 32 + 16 + 1 + 7 + 19 + 4));
    }
}
