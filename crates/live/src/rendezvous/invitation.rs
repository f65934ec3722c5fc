//! Offers and redeems codes over sockets, on the clock of the machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use lockstep_socket::{Clock, Incoming, Reader, Sockets};
use lockstep_units::Timestamp;

use super::code::Code;
use super::exchange::{Offer, OfferResult, RedeemError, Redemption};
use super::meeting::SERVER_PATIENCE;
use crate::{LiveError, Thread};
use lockstep_session::ticket::Ticket;

/// Datagrams that may wait for an exchange.
const QUEUE: usize = 64;
/// Longest time between two looks at the clock.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// Sockets of an exchange.
struct Wire {
    clock: Clock,
    sockets: Sockets,
    readers: Vec<Reader>,
    incoming: mpsc::Receiver<Incoming>,
}

impl Wire {
    fn open() -> Result<Self, LiveError> {
        let (clock, sockets) = (Clock::start(), Sockets::any()?);
        let (events, incoming) = mpsc::sync_channel(QUEUE);
        let readers = sockets.read(clock, &events, None::<&()>, |incoming| incoming)?;
        Ok(Self { clock, sockets, readers, incoming })
    }

    /// Waits for a datagram until `until`, and not for long.
    fn receive(&mut self, until: Timestamp) -> Result<Option<Incoming>, LiveError> {
        self.readers.iter_mut().try_for_each(Reader::check)?;
        match self.incoming.recv_timeout(self.clock.until(until).min(MAX_WAIT)) {
            Ok(incoming) => {
                self.sockets.note(&incoming);
                Ok(Some(incoming))
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
        }
    }

    fn send(&mut self, datagrams: impl Iterator<Item = (SocketAddr, Vec<u8>)>) -> Result<(), LiveError> {
        for (to, datagram) in datagrams {
            self.sockets.send(self.clock.now(), &datagram, to)?;
        }
        Ok(())
    }

    /// One turn of an offer.
    fn drive(&mut self, offer: &mut Offer) -> Result<(), LiveError> {
        offer.handle_timeout(self.clock.now());
        self.send(std::iter::from_fn(|| offer.poll_transmit()))?;
        if let Some(Incoming { at, from, datagram, .. }) = self.receive(offer.poll_timeout())? {
            offer.handle_datagram(at, from, &datagram)?;
        }
        self.send(std::iter::from_fn(|| offer.poll_transmit()))
    }
}

/// A code that stands for a ticket until a joiner uses it, or until this value is dropped.
pub struct CodeOffer {
    code: Code,
    stop: Arc<AtomicBool>,
    is_ended: Arc<AtomicBool>,
    _thread: Thread,
}

impl std::fmt::Debug for CodeOffer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CodeOffer").field("code", &self.code).finish_non_exhaustive()
    }
}

impl CodeOffer {
    /// Gets a code from the rendezvous at one of `servers`; `on_end` receives how the offer ended.
    ///
    /// # Errors
    /// The rendezvous does not answer or has no free number, or a socket fails.
    pub fn new(
        servers: &[SocketAddr],
        ticket: &Ticket,
        on_end: impl FnOnce(OfferResult) + Send + 'static,
    ) -> Result<Self, RedeemError> {
        let mut wire = Wire::open()?;
        let mut offer = Offer::new(servers, ticket, wire.clock.now())?;
        let limit = SERVER_PATIENCE * servers.len() as u32;
        let code = loop {
            wire.drive(&mut offer)?;
            if let Some(code) = offer.code() {
                break code.clone();
            }
            if wire.clock.now() >= Timestamp::ZERO + limit {
                return Err(offer.failure());
            }
        };
        let [stop, is_ended] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (stopped, ended) = (stop.clone(), is_ended.clone());
        let mut on_end = Some(on_end);
        let run = move || {
            while !stopped.load(Ordering::Relaxed) && !offer.is_over(wire.clock.now()) {
                // Without a socket nobody can redeem the code; the ticket remains.
                if wire.drive(&mut offer).is_err() {
                    break;
                }
                if let Some(result) = offer.result()
                    && let Some(on_end) = on_end.take()
                {
                    ended.store(true, Ordering::Relaxed);
                    on_end(result);
                }
            }
            ended.store(true, Ordering::Relaxed);
            Ok(())
        };
        Ok(Self { code, stop, is_ended, _thread: Thread::spawn("code", run)? })
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// Whether the code can no longer be redeemed.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }
}

impl Drop for CodeOffer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Redeems `code` at the rendezvous at one of `servers` for the ticket of the end that offers it.
///
/// # Errors
/// See [`RedeemError`].
pub fn redeem(servers: &[SocketAddr], code: Code) -> Result<Ticket, RedeemError> {
    let mut wire = Wire::open()?;
    let mut redemption = Redemption::new(servers, code, wire.clock.now())?;
    loop {
        redemption.handle_timeout(wire.clock.now());
        if let Some(result) = redemption.take_result() {
            return result;
        }
        wire.send(std::iter::from_fn(|| redemption.poll_transmit()))?;
        if let Some(Incoming { at, from, datagram, .. }) = wire.receive(redemption.poll_timeout())? {
            redemption.handle_datagram(at, from, &datagram)?;
        }
    }
}
