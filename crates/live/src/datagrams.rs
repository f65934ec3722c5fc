//! Datagrams from a socket into a channel.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockstep_units::Timestamp;

use crate::clock::Clock;

/// The largest datagram that UDP carries.
const LARGEST_DATAGRAM: usize = 65_535;

/// How long a reader waits before it looks whether it should stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// A datagram, and when and from where it came.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub at: Timestamp,
    pub from: SocketAddr,
    pub datagram: Vec<u8>,
}

/// A thread that reads a socket; it stops when this is dropped.
pub(crate) struct Reader {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Reads `socket` into `events`. Arrival times are taken before the channel, so that a busy reader of the channel
    /// does not look like a slow link.
    pub fn spawn<Event: Send + 'static>(
        socket: &UdpSocket,
        clock: Clock,
        events: SyncSender<Event>,
        wrap: impl Fn(Incoming) -> Event + Send + 'static,
    ) -> io::Result<Self> {
        let socket = socket.try_clone()?;
        socket.set_read_timeout(Some(STOP_INTERVAL))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut buffer = vec![0; LARGEST_DATAGRAM];
            while !stopped.load(Ordering::Relaxed) {
                match socket.recv_from(&mut buffer) {
                    Ok((length, from)) => {
                        let incoming = Incoming { at: clock.now(), from, datagram: buffer[..length].to_vec() };
                        if events.send(wrap(incoming)).is_err() {
                            return;
                        }
                    }
                    // An unreachable peer shows as a refused connection on the next read; it may come up later.
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::WouldBlock
                                | ErrorKind::TimedOut
                                | ErrorKind::Interrupted
                                | ErrorKind::ConnectionRefused
                        ) => {}
                    Err(_) => return,
                }
            }
        });
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
