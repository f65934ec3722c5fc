use std::time::Instant;

use allocation_counter::measure;
use bytes::BytesMut;

use super::*;
use lockstep_session::control::CloseReason;

const LISTENER: ([u8; 4], u16) = ([192, 0, 2, 1], 1_000);
const STEP: Duration = Duration::from_millis(10);

fn ticket(identity: &Identity) -> Ticket {
    let (key, secret) = (identity.key(), identity.secret());
    Ticket { key, secret, addresses: vec![LISTENER.into()], rendezvous: Vec::new(), is_room: false }
}

/// A listener, and a peer that joins from `address`.
struct Pair {
    identity: Identity,
    now: Timestamp,
    listener: Connection,
    joiner: Connection,
    address: SocketAddr,
    /// Packets of the listener.
    sent: usize,
}

/// A listener and the first peer that joins.
fn pair() -> Pair {
    let identity = Identity::new().expect("there are random numbers");
    let (now, origin) = (Timestamp::from_millis(5), Origin::new(Instant::now()));
    let listener = Connection::listening(&identity, CallKind::OneWay, None, origin, now).expect("it listens");
    let joiner = Connection::joining(ticket(&identity), CallKind::OneWay, None, origin, now).expect("it joins");
    Pair { identity, now, listener, joiner, address: ([192, 0, 2, 2], 2_000).into(), sent: 0 }
}

impl Pair {
    fn incoming(&self, from: SocketAddr, datagram: &[u8]) -> Incoming {
        Incoming { at: self.now, from, to: None, datagram: BytesMut::from(datagram) }
    }

    /// Passes on the packets of the joiner.
    fn forward(&mut self) {
        let mut packet = Vec::new();
        while self.joiner.poll_transmit(self.now, &mut packet).is_some() {
            self.listener.handle_datagram(self.incoming(self.address, &packet));
            packet.clear();
        }
    }

    /// Passes on the packets of the listener that `arrives` selects.
    fn backward(&mut self, arrives: impl Fn(&[u8]) -> bool) {
        let mut packet = Vec::new();
        while self.listener.poll_transmit(self.now, &mut packet).is_some() {
            self.sent += 1;
            if arrives(&packet) {
                self.joiner.handle_datagram(self.incoming(LISTENER.into(), &packet));
            }
            packet.clear();
        }
    }

    /// Passes one step of time. The listener sends `packets`, which arrive if the joiner is not `deaf`.
    fn step(&mut self, packets: usize, deaf: bool) {
        self.now += STEP;
        self.joiner.handle_timeout(self.now);
        self.listener.handle_timeout(self.now);
        if packets > 0 {
            (0..packets).for_each(|_| self.listener.send(vec![1; 1_000]));
            self.joiner.send(vec![1; 100]);
        }
        self.forward();
        self.backward(|_| !deaf);
    }

    fn loss(&mut self) -> Option<Loss> {
        self.listener.events.drain(..).find_map(|event| match event {
            ConnectionEvent::Lost(loss) => Some(loss),
            _ => None,
        })
    }
}

#[test]
fn peer_that_acknowledges_nothing_ends_the_call() {
    let mut pair = pair();
    (0..10).for_each(|_| pair.step(0, false));
    assert!(pair.listener.is_joined());
    for _ in 0..1_000 {
        pair.step(50, false);
    }
    assert_eq!(pair.loss(), None, "an honest peer");
    let begun = pair.sent;
    let mut loss = None;
    let memory = measure(|| {
        loss = (0..6_000).find_map(|_| {
            pair.step(50, true);
            pair.loss()
        });
    });
    assert_eq!(loss, Some(Loss::Broken("the other end acknowledges no QUIC packets".to_owned())));
    let most = MAX_UNACKNOWLEDGED as usize + 50 * (PATIENCE.as_millis() / STEP.as_millis()) as usize;
    let sent = pair.sent - begun;
    assert!(sent < most + 1_000, "{sent} packets");
    assert!(memory.bytes_max < 280 * sent as u64, "{} bytes for {sent} packets", memory.bytes_max);
}

#[test]
fn joiner_enters_while_eight_links_are_silent() {
    let mut pair = pair();
    // A stranger's only try may fail.
    for number in 0..16u16 {
        if pair.listener.links() == 8 {
            break;
        }
        let origin = pair.listener.origin;
        let silent =
            Connection::joining(ticket(&pair.identity), CallKind::OneWay, None, origin, pair.now).expect("it joins");
        let honest = std::mem::replace(&mut pair.joiner, silent);
        let address = std::mem::replace(&mut pair.address, ([192, 0, 2, 3], 3_000 + number).into());
        pair.forward();
        // Only a Retry arrives, so the stranger proves its address and nothing more.
        pair.backward(|packet| packet[0] & 0xf0 == 0xf0);
        pair.forward();
        pair.backward(|_| false);
        (pair.joiner, pair.address) = (honest, address);
        pair.now += STEP;
    }
    assert_eq!(pair.listener.links(), 8);
    (0..100).for_each(|_| pair.step(0, false));
    assert!(pair.listener.is_joined(), "{} links", pair.listener.links());
}

#[test]
fn code_of_a_refusal_means_nothing_at_the_listener() {
    let mut pair = pair();
    (0..10).for_each(|_| pair.step(0, false));
    let instant = pair.joiner.origin.instant(pair.now);
    for link in pair.joiner.links.values_mut() {
        link.quic.close(instant, code(TicketRefusal::Wrong), Bytes::new());
    }
    (0..10).for_each(|_| pair.step(0, false));
    assert_eq!(pair.loss(), Some(Loss::Closed(CloseReason::Other(u16::MAX))));
}
