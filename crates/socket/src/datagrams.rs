//! Threads that read datagrams from a socket to a channel.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use lockstep_units::Timestamp;

use crate::clock::Clock;
use crate::error::SystemError;
use crate::packet_info::{Received, Receiver};
use crate::threads::Thread;

/// Largest UDP datagram in bytes.
const MAX_DATAGRAM_BYTES: usize = 65_535;

/// Interval between two checks whether the reader should stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between two attempts to find room in the channel.
const ROOM_INTERVAL: Duration = Duration::from_millis(1);
/// How long the thread may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// A datagram with its arrival time and its addresses.
#[derive(Debug)]
pub struct Incoming {
    /// Arrival time.
    pub at: Timestamp,
    /// Remote address.
    pub from: SocketAddr,
    /// Local address, where the system reports it.
    pub to: Option<IpAddr>,
    /// Its bytes.
    pub datagram: BytesMut,
}

/// Filter in front of a socket.
pub trait Admission: Clone + Send + 'static {
    /// Whether `datagram`, which arrived at `at` from `from`, is passed on.
    fn admits(&mut self, at: Timestamp, from: SocketAddr, datagram: &[u8]) -> bool;
}

/// Admits every datagram.
impl Admission for () {
    fn admits(&mut self, _: Timestamp, _: SocketAddr, _: &[u8]) -> bool {
        true
    }
}

/// A thread that reads a socket; it stops when this is dropped.
pub struct Reader {
    stop: Arc<AtomicBool>,
    thread: Thread,
}

/// Sends `event` to `events`, and waits for room; returns `false` once the reader should stop.
fn give<Event>(events: &SyncSender<Event>, mut event: Event, stopped: &AtomicBool) -> bool {
    loop {
        match events.try_send(event) {
            Ok(()) => return true,
            // The receiver of the channel may already wait for this thread to end.
            Err(TrySendError::Full(returned)) if !stopped.load(Ordering::Relaxed) => event = returned,
            Err(_) => return false,
        }
        thread::sleep(ROOM_INTERVAL);
    }
}

impl Reader {
    /// Reads datagrams that `gate` admits, or all without a gate, from `socket` to `events`. Arrival times are taken
    /// before the channel, so a busy receiver does not look like a slow link.
    pub(crate) fn spawn<Event: Send + 'static>(
        socket: &UdpSocket,
        clock: Clock,
        events: SyncSender<Event>,
        mut gate: Option<impl Admission>,
        wrap: impl Fn(Incoming) -> Event + Send + 'static,
    ) -> Result<Self, SystemError> {
        let socket = socket.try_clone().map_err(SystemError::Socket)?;
        socket.set_read_timeout(Some(STOP_INTERVAL)).map_err(SystemError::Socket)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = Thread::spawn("socket", move || {
            let mut receiver = Receiver::new(MAX_DATAGRAM_BYTES);
            while !stopped.load(Ordering::Relaxed) {
                match receiver.receive(&socket) {
                    Ok(Received { datagram, from, to }) => {
                        let at = clock.now();
                        if gate.as_mut().is_some_and(|gate| !gate.admits(at, from, datagram)) {
                            continue;
                        }
                        let incoming = Incoming { at, from, to, datagram: BytesMut::from(datagram) };
                        if !give(&events, wrap(incoming), &stopped) {
                            return Ok(());
                        }
                    }
                    Err(error) if is_nothing(error.kind()) => {}
                    Err(error) => return Err(SystemError::Socket(error)),
                }
            }
            Ok(())
        })?;
        Ok(Self { stop, thread })
    }

    /// Reports the error that ended the reader, if it has ended.
    ///
    /// # Errors
    /// The error that ended it.
    pub fn check(&mut self) -> Result<(), SystemError> {
        self.thread.check()
    }
}

/// Whether a failed read means that there is nothing to read: a timeout, or a report of a lost datagram.
fn is_nothing(kind: ErrorKind) -> bool {
    use ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkDown};
    use ErrorKind::{NetworkUnreachable, TimedOut, WouldBlock};
    let of_the_peer = matches!(kind, ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable);
    of_the_peer || matches!(kind, WouldBlock | TimedOut | Interrupted | NetworkDown)
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.finish(STOP_LIMIT);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    #[test]
    fn reader_stops_while_its_channel_is_full() {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let [listening, sending] = [(); 2].map(|()| UdpSocket::bind(loopback).expect("a port is free"));
        let to = listening.local_addr().expect("it is bound");
        let (events, incoming) = mpsc::sync_channel(1);
        let reader =
            Reader::spawn(&listening, Clock::start(), events, None::<()>, |incoming| incoming).expect("it starts");
        (0..20).for_each(|_| assert_eq!(sending.send_to(&[1], to).ok(), Some(1)));
        assert!(incoming.recv_timeout(Duration::from_secs(10)).is_ok(), "it reads");
        let (dropped, elapsed) = mpsc::channel();
        thread::spawn(move || {
            let began = Instant::now();
            drop(reader);
            let _ = dropped.send(began.elapsed());
        });
        assert!(elapsed.recv_timeout(STOP_LIMIT).is_ok(), "it hangs");
        drop(incoming);
    }
}
