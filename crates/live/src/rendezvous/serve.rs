//! Main loop of a rendezvous: its sockets and its clock.

use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use lockstep_socket::{Clock, Reader, Sockets};

use crate::LiveError;

use super::limits::Limits;
use super::server::{Rendezvous, RendezvousStatus};

/// Datagrams that may wait for the server.
const QUEUE: usize = 1_024;
/// Interval between two reports of the status.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// A rendezvous and its sockets.
pub struct RendezvousServer {
    sockets: Sockets,
    limits: Limits,
}

impl std::fmt::Debug for RendezvousServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RendezvousServer").field("sockets", &self.sockets).finish_non_exhaustive()
    }
}

impl RendezvousServer {
    /// Binds `address`; the unspecified IPv6 address also accepts IPv4.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(address: SocketAddr, limits: Limits) -> Result<Self, LiveError> {
        Ok(Self { sockets: Sockets::bind(address)?, limits })
    }

    /// Addresses of the server, as far as this machine knows them.
    ///
    /// # Errors
    /// The sockets have no address.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, LiveError> {
        Ok(self.sockets.addresses()?)
    }

    /// Serves until `should_run` returns `false`; it is called several times per second.
    ///
    /// # Errors
    /// A socket fails, or the system provides no random numbers.
    pub fn run(mut self, mut should_run: impl FnMut(&RendezvousStatus) -> bool) -> Result<(), LiveError> {
        let clock = Clock::start();
        let mut server = Rendezvous::new(self.limits)?;
        let (events, incoming) = mpsc::sync_channel(QUEUE);
        let mut readers = self.sockets.read(clock, &events, None::<&()>, |incoming| incoming)?;
        drop(events);
        let mut next_status = clock.now();
        loop {
            let now = clock.now();
            if next_status <= now {
                next_status = now + STATUS_INTERVAL;
                readers.iter_mut().try_for_each(Reader::check)?;
                if !should_run(&server.status()) {
                    return Ok(());
                }
            }
            server.handle_timeout(now);
            match incoming.recv_timeout(clock.until(next_status)) {
                Ok(incoming) => {
                    self.sockets.note(&incoming);
                    server.handle_datagram(incoming.at, incoming.from, &incoming.datagram);
                }
                Err(RecvTimeoutError::Timeout) => {}
                // All readers have ended; the next check reports the reason.
                Err(RecvTimeoutError::Disconnected) => next_status = now,
            }
            while let Some((to, datagram)) = server.poll_transmit() {
                self.sockets.send(now, &datagram, to)?;
            }
        }
    }
}
