//! Many flows over shared links, in virtual time.

use lockstep_link::Link;
use lockstep_units::{ByteCount, Timestamp};

use crate::flow::{Arrived, Direction, Flow};

/// A packet on a link, and whose it is.
#[derive(Debug, Clone)]
pub struct Transit<P> {
    flow: usize,
    packet: P,
}

/// A link that flows share.
pub type SharedLink<P> = Link<Transit<P>>;

/// Flows that share one bottleneck each way.
///
/// Events of one moment come in a fixed order: arrivals at receivers, arrivals at senders, timeouts flow by flow, and
/// after each of these what the flow then sends. So equal flows and links give equal runs.
pub struct Network<F: Flow> {
    now: Timestamp,
    flows: Vec<F>,
    forward: SharedLink<F::Packet>,
    reverse: SharedLink<F::Packet>,
}

impl<F: Flow> Network<F> {
    /// A network at [`Timestamp::ZERO`].
    #[must_use]
    pub fn new(flows: Vec<F>, forward: SharedLink<F::Packet>, reverse: SharedLink<F::Packet>) -> Self {
        Self { now: Timestamp::ZERO, flows, forward, reverse }
    }

    /// When something happens next; none if nothing ever will.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        let links = [self.forward.poll_timeout(), self.reverse.poll_timeout()];
        let flows = self.flows.iter().map(F::poll_timeout);
        links.into_iter().chain(flows).flatten().min().map(|at| at.max(self.now))
    }

    /// Lets everything happen that happens up to `until`, that moment included.
    pub fn run_until(&mut self, until: Timestamp) {
        while let Some(at) = self.next_event().filter(|&at| at <= until) {
            self.now = at;
            self.step();
        }
        self.now = self.now.max(until);
    }

    fn step(&mut self) {
        let now = self.now;
        for direction in [Direction::Forward, Direction::Reverse] {
            while let Some(delivered) = self.link(direction).poll(now) {
                let Transit { flow, packet } = delivered.packet;
                let arrived = Arrived {
                    direction,
                    at: delivered.at,
                    size: delivered.size,
                    queueing_delay: delivered.queueing_delay,
                    packet,
                };
                self.flows[flow].handle_packet(now, arrived);
                self.transmit(flow);
            }
        }
        for flow in 0..self.flows.len() {
            if self.flows[flow].poll_timeout().is_some_and(|at| at <= now) {
                self.flows[flow].handle_timeout(now);
                self.transmit(flow);
            }
        }
    }

    fn transmit(&mut self, flow: usize) {
        let now = self.now;
        while let Some((direction, size, packet)) = self.flows[flow].poll_transmit(now) {
            let _ = self.link(direction).send(now, size, Transit { flow, packet });
        }
    }

    fn link(&mut self, direction: Direction) -> &mut SharedLink<F::Packet> {
        match direction {
            Direction::Forward => &mut self.forward,
            Direction::Reverse => &mut self.reverse,
        }
    }

    /// The moment up to which everything has happened.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The flows, in the order in which they were given.
    #[must_use]
    pub fn flows(&self) -> &[F] {
        &self.flows
    }

    /// The flows, to change them from outside, as a learning agent does that sets a rate. What a flow then wants to send,
    /// it sends at its next timeout.
    pub fn flows_mut(&mut self) -> &mut [F] {
        &mut self.flows
    }

    /// The link from the senders to the receivers.
    #[must_use]
    pub fn forward(&self) -> &SharedLink<F::Packet> {
        &self.forward
    }

    /// The link from the receivers to the senders.
    #[must_use]
    pub fn reverse(&self) -> &SharedLink<F::Packet> {
        &self.reverse
    }

    /// Flows and links as they are now, to be taken apart.
    #[must_use]
    pub fn into_parts(self) -> (Vec<F>, SharedLink<F::Packet>, SharedLink<F::Packet>) {
        (self.flows, self.forward, self.reverse)
    }

    /// Bytes that the forward link could have carried between two moments.
    #[must_use]
    pub fn capacity_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        self.forward.capacity_between(from, to)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockstep_link::{LinkConfig, Trace};
    use lockstep_units::Bitrate;

    use super::*;

    /// Sends a packet of 1,250 bytes every `interval`, and counts what comes back as an echo.
    struct Echo {
        next: Timestamp,
        interval: Duration,
        outbox: Vec<(Direction, u64)>,
        sent: u64,
        echoed: Vec<(u64, Timestamp)>,
    }

    impl Flow for Echo {
        type Packet = u64;

        fn handle_packet(&mut self, now: Timestamp, arrived: Arrived<u64>) {
            match arrived.direction {
                Direction::Forward => self.outbox.push((Direction::Reverse, arrived.packet)),
                Direction::Reverse => self.echoed.push((arrived.packet, now)),
            }
        }

        fn poll_transmit(&mut self, _now: Timestamp) -> Option<(Direction, ByteCount, u64)> {
            self.outbox.pop().map(|(direction, packet)| (direction, ByteCount::new(1_250), packet))
        }

        fn poll_timeout(&self) -> Option<Timestamp> {
            (self.sent < 10).then_some(self.next)
        }

        fn handle_timeout(&mut self, _now: Timestamp) {
            self.outbox.push((Direction::Forward, self.sent));
            self.sent += 1;
            self.next += self.interval;
        }
    }

    #[test]
    fn two_flows_share_a_link_and_get_their_own_packets_back() {
        let link = || {
            let config = LinkConfig {
                delay: Duration::from_millis(5),
                ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(10_000)))
            };
            Link::new(config, 1).unwrap()
        };
        let echo = |interval| Echo {
            next: Timestamp::ZERO,
            interval: Duration::from_millis(interval),
            outbox: Vec::new(),
            sent: 0,
            echoed: Vec::new(),
        };
        let mut network = Network::new(vec![echo(10), echo(20)], link(), link());
        network.run_until(Timestamp::from_millis(1_000));
        for flow in network.flows() {
            assert_eq!(flow.echoed.iter().map(|&(packet, _)| packet).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        }
        // A millisecond of service and five of delay each way; at moment zero both send, so the second waits once.
        assert_eq!(network.flows()[0].echoed[0].1, Timestamp::from_millis(12));
        assert_eq!(network.flows()[1].echoed[0].1, Timestamp::from_millis(13));
        assert_eq!(network.next_event(), None);
    }
}
