//! Tickets: what one person reads out so that another can join. A ticket names the key that the listener proves to hold,
//! the secret that the joiner proves to have been given, and the addresses to try.
//!
//! As text: `LOCKSTEP-` and, in base 32 (RFC 4648), of either case and with spaces anywhere,
//!
//! | bytes | |
//! |---|---|
//! | 1 | version, 1 |
//! | 32 | the listener's public key (Ed25519) |
//! | 16 | secret |
//! | 1 | n, number of addresses, 1 to 8 |
//! | n times 7 or 19 | 4 or 6, the IPv4 or IPv6 address, the port |
//! | 4 | the first bytes of the SHA-256 of all before |

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use ring::digest::{SHA256, digest};
use thiserror::Error;

/// What tickets begin with.
const PREFIX: &str = "LOCKSTEP-";
const VERSION: u8 = 1;
const CHECKSUM: usize = 4;
/// The most addresses in a ticket: what a machine with a few networks has, and no more than are tried at once.
pub const MOST_ADDRESSES: usize = 8;
/// Longest text that can be a ticket; what is longer is not looked at.
const LONGEST_TEXT: usize = 1024;

/// The public key of a listener: Ed25519.
pub type PublicKey = [u8; 32];
/// What only those know who were given the ticket.
pub type Secret = [u8; 16];

/// Everything needed to join a call.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The key that the listener proves to hold.
    pub key: PublicKey,
    /// What the joiner proves to have been told.
    pub secret: Secret,
    /// Where the listener may be reached, 1 to [`MOST_ADDRESSES`]. All are tried at once.
    pub addresses: Vec<SocketAddr>,
}

/// Why a text is no ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TicketError {
    /// It does not begin as one.
    #[error("a ticket begins with {PREFIX}; run `lockstep receive` or `lockstep talk` at the other end to get one")]
    Prefix,
    /// Letters are missing, wrong or too many.
    #[error("the ticket is damaged: letters are missing or wrong; copy all of it")]
    Damaged,
    /// It is of another version.
    #[error("the ticket is of version {0}, which this program does not know; update it")]
    Version(u8),
}

impl Ticket {
    fn bytes(&self) -> Vec<u8> {
        let addresses = &self.addresses[..self.addresses.len().min(MOST_ADDRESSES)];
        let mut bytes = vec![VERSION];
        bytes.extend(self.key);
        bytes.extend(self.secret);
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
        let checksum = digest(&SHA256, &bytes);
        bytes.extend_from_slice(&checksum.as_ref()[..CHECKSUM]);
        bytes
    }
}

/// The next `N` bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], TicketError> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or(TicketError::Damaged)?;
    *bytes = rest;
    Ok(*taken)
}

impl fmt::Display for Ticket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", BASE32_NOPAD.encode(&self.bytes()))
    }
}

/// The secret stays out of logs.
impl fmt::Debug for Ticket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ticket").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        if text.len() > LONGEST_TEXT {
            return Err(TicketError::Damaged);
        }
        let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        let text = text.to_ascii_uppercase();
        let text = text.strip_prefix(PREFIX).ok_or(TicketError::Prefix)?;
        let bytes = BASE32_NOPAD.decode(text.as_bytes()).map_err(|_| TicketError::Damaged)?;
        let (told, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(TicketError::Damaged)?;
        if digest(&SHA256, told).as_ref()[..CHECKSUM] != *checksum {
            return Err(TicketError::Damaged);
        }
        let mut rest = told;
        let [version] = take(&mut rest)?;
        if version != VERSION {
            return Err(TicketError::Version(version));
        }
        let (key, secret) = (take(&mut rest)?, take(&mut rest)?);
        let [count] = take(&mut rest)?;
        if !(1..=MOST_ADDRESSES).contains(&usize::from(count)) {
            return Err(TicketError::Damaged);
        }
        let mut addresses = Vec::with_capacity(count.into());
        for _ in 0..count {
            let ip: IpAddr = match take(&mut rest)? {
                [4] => Ipv4Addr::from(take::<4>(&mut rest)?).into(),
                [6] => Ipv6Addr::from(take::<16>(&mut rest)?).into(),
                _ => return Err(TicketError::Damaged),
            };
            let port = u16::from_be_bytes(take(&mut rest)?);
            if ip.is_unspecified() || port == 0 {
                return Err(TicketError::Damaged);
            }
            addresses.push(SocketAddr::new(ip, port));
        }
        if rest.is_empty() { Ok(Self { key, secret, addresses }) } else { Err(TicketError::Damaged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        let addresses = ["192.0.2.7:4600", "[2001:db8::7]:4600"].map(|text| text.parse().expect("an address"));
        Ticket { key: [7; 32], secret: [9; 16], addresses: addresses.into() }
    }

    #[test]
    fn a_ticket_survives_being_read_out_in_lower_case_and_broken_into_lines() {
        let text = ticket().to_string();
        let (first, second) = text.split_at(50);
        for copy in [text.clone(), format!(" {}\n  {}\n", first.to_ascii_lowercase(), second)] {
            assert_eq!(copy.parse(), Ok(ticket()));
        }
        assert!(!format!("{:?}", ticket()).contains("9, 9"), "its secret shows");
    }

    #[test]
    fn every_letter_that_is_wrong_or_missing_is_noticed() {
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
    fn what_cannot_be_dialled_is_no_ticket() {
        let [nowhere, unspecified] = ["192.0.2.7:0", "0.0.0.0:4600"].map(|text| text.parse().expect("an address"));
        for addresses in [vec![], vec![nowhere], vec![unspecified]] {
            let text = Ticket { addresses, ..ticket() }.to_string();
            assert_eq!(text.parse::<Ticket>(), Err(TicketError::Damaged));
        }
    }
}
