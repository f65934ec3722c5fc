//! The other end as a name stands for it: one or several addresses, of which the first that answers is kept.

use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::SyncSender;

use crate::LiveError;
use crate::clock::Clock;
use crate::datagrams::{Incoming, Reader};

/// The most addresses that are tried.
const MOST: usize = 8;

/// One address.
struct Candidate {
    address: SocketAddr,
    /// The socket and its reader, where there is a way to the address.
    socket: Option<(UdpSocket, Reader)>,
    /// What the network said of it last.
    trouble: Option<io::Error>,
}

impl Candidate {
    fn connect(address: SocketAddr) -> io::Result<UdpSocket> {
        let local: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(local)?;
        socket.connect(address)?;
        Ok(socket)
    }
}

/// All addresses of the other end, until one of them has answered.
pub(crate) struct Peers {
    candidates: Vec<Candidate>,
    chosen: Option<usize>,
    refused: bool,
}

impl Peers {
    /// Opens a socket towards each of `addresses`; what comes from them goes into `events`.
    pub fn connect<Event: Send + 'static>(
        addresses: &[SocketAddr],
        clock: Clock,
        events: &SyncSender<Event>,
        wrap: impl Fn(Incoming) -> Event + Clone + Send + 'static,
    ) -> Result<Self, LiveError> {
        let mut candidates = Vec::new();
        for &address in addresses.iter().take(MOST) {
            candidates.push(match Candidate::connect(address) {
                Ok(socket) => {
                    let reader = Reader::spawn(&socket, clock, events.clone(), wrap.clone())?;
                    Candidate { address, socket: Some((socket, reader)), trouble: None }
                }
                Err(error) => Candidate { address, socket: None, trouble: Some(error) },
            });
        }
        let peers = Self { chosen: None, candidates, refused: false };
        if peers.candidates.iter().all(|candidate| candidate.socket.is_none()) {
            return Err(LiveError::Connect { tried: peers.tried() });
        }
        Ok(peers)
    }

    /// Whether what comes from `address` is of the other end.
    pub fn includes(&self, address: SocketAddr) -> bool {
        let position = self.candidates.iter().position(|candidate| candidate.address == address);
        position.is_some() && (self.chosen.is_none() || self.chosen == position)
    }

    /// The other end has answered from `address`: everything goes there from now on.
    pub fn choose(&mut self, address: SocketAddr) {
        self.refused = false;
        if self.chosen.is_none() {
            self.chosen = self.candidates.iter().position(|candidate| candidate.address == address);
        }
    }

    /// Whether the chosen address has refused a datagram since something last came from it.
    pub fn refuses(&mut self) -> bool {
        let chosen = self.chosen.and_then(|chosen| self.candidates.get(chosen));
        if let Some((_, reader)) = chosen.and_then(|candidate| candidate.socket.as_ref()) {
            self.refused |= reader.take_refused();
        }
        self.refused
    }

    /// Sends a datagram to the chosen address, or to all while none is. A peer that is not there yet, or a full buffer,
    /// loses it, as a network would.
    pub fn transmit(&mut self, datagram: &[u8]) -> Result<(), LiveError> {
        let mut failure = None;
        let mut sent = false;
        for (index, candidate) in self.candidates.iter_mut().enumerate() {
            let Some((socket, reader)) = &candidate.socket else { continue };
            if self.chosen.is_some_and(|chosen| chosen != index) {
                continue;
            }
            match socket.send(datagram) {
                Ok(_) => sent = true,
                Err(error) if is_loss(&error) => {
                    sent = true;
                    self.refused |= error.kind() == ErrorKind::ConnectionRefused;
                    candidate.trouble = Some(error);
                }
                Err(error) => failure = Some(error),
            }
            if reader.take_refused() {
                self.refused = true;
                candidate.trouble = Some(ErrorKind::ConnectionRefused.into());
            }
        }
        match failure {
            Some(error) if !sent => Err(LiveError::Socket(error)),
            _ => Ok(()),
        }
    }

    /// What ended the reading of a socket that is needed, if it has ended.
    pub fn check(&mut self) -> Result<(), LiveError> {
        let chosen = self.chosen;
        let needed = self.candidates.iter_mut().enumerate().filter(|(index, _)| chosen.is_none_or(|c| c == *index));
        needed.filter_map(|(_, candidate)| candidate.socket.as_mut()).try_for_each(|(_, reader)| reader.check())
    }

    /// Every address, and what came of it, for a person.
    pub fn tried(&self) -> String {
        let mut text = String::new();
        for Candidate { address, trouble, .. } in &self.candidates {
            let separator = if text.is_empty() { "" } else { ", " };
            let _ = match trouble {
                Some(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    write!(text, "{separator}{address} is closed: no program listens there")
                }
                Some(error) => write!(text, "{separator}{address}: {error}"),
                None => write!(text, "{separator}{address} does not answer"),
            };
        }
        text
    }
}

/// Whether a failed send is what a network does to datagrams, and no fault of this process.
pub(crate) fn is_loss(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, WouldBlock};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | Interrupted | NetworkUnreachable | WouldBlock)
}
