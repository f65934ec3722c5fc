//! A relay between two ends that can be silenced, as if the process behind it were killed.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lockstep::Ticket;

/// Forwards datagrams between a listener and one joiner until it is silenced.
pub struct Silenced {
    ticket: Ticket,
    silent: Arc<AtomicBool>,
}

impl Silenced {
    pub fn new(ticket: &Ticket) -> Self {
        let listener = ticket.addresses[0];
        let near = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let far = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        far.connect(listener).expect("an address");
        let ticket = Ticket { addresses: vec![near.local_addr().expect("bound")], ..ticket.clone() };
        let silent = Arc::<AtomicBool>::default();
        let joiner = Arc::new(std::sync::Mutex::new(None));
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
        }
        let (out, back) = (near.try_clone().expect("a socket"), far.try_clone().expect("a socket"));
        let (stops, from) = (silent.clone(), joiner.clone());
        thread::spawn(move || {
            let mut buffer = [0; 65_535];
            while !stops.load(Ordering::Relaxed) {
                if let Ok((length, address)) = near.recv_from(&mut buffer) {
                    *from.lock().expect("nobody panics") = Some(address);
                    let _ = far.send(&buffer[..length]);
                }
            }
        });
        let stops = silent.clone();
        thread::spawn(move || {
            let mut buffer = [0; 65_535];
            while !stops.load(Ordering::Relaxed) {
                if let (Ok(length), Some(address)) = (back.recv(&mut buffer), *joiner.lock().expect("nobody panics")) {
                    let _ = out.send_to(&buffer[..length], address);
                }
            }
        });
        Self { ticket, silent }
    }

    /// The ticket that leads through the relay.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Stops forwarding.
    pub fn silence(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }
}
