//! Network of many flows over shared links, in virtual time.
//!
//! ```text
//! flow --> first link --> ... --> last link --> access delay --> flow
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_link::{Delivered, Link, Medium};
use lockstep_units::{ByteCount, Timestamp};

use crate::flow::{Arrived, Direction, Flow};
use crate::meter::FlowMeter;

/// A packet on a link, with its flow and its position on the route.
#[derive(Debug, Clone)]
pub struct Transit<P> {
    flow: u32,
    hop: u16,
    direction: Direction,
    /// Time of sending.
    sent_at: Timestamp,
    /// Queueing delay on the links before this one.
    queued_before: Duration,
    /// Whether a queue of a link before this one marked the packet.
    congestion_experienced: bool,
    /// The packet; `None` after its arrival.
    packet: Option<P>,
}

/// A link that flows share. Packets are boxed, because queue, service and propagation move each of them many times.
pub type SharedLink<P> = Link<Box<Transit<P>>>;

/// Limit on boxes of arrived packets that are kept for reuse.
const MAX_SPARE_BOXES: usize = 64;

/// Route of one flow's packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Indices of the links from the sender to the receiver, in order. Empty for a path without a bottleneck.
    pub forward: Vec<usize>,
    /// Indices of the links from the receiver to the sender, in order.
    pub reverse: Vec<usize>,
    /// Additional delay of this flow in each direction, after the last link. It gives flows over the same bottleneck
    /// different round-trip times.
    pub access_delay: Duration,
    /// Whether both ends support ECN (RFC 3168). Forward packets are then ECN-capable. Reverse packets only
    /// acknowledge, and never are (section 6.1.4).
    pub ecn_capable: bool,
}

impl Route {
    /// Forward over link 0 and back over link 1, as in [`Network::new`], with ECN.
    #[must_use]
    pub fn single_bottleneck() -> Self {
        Self { forward: vec![0], reverse: vec![1], access_delay: Duration::ZERO, ecn_capable: true }
    }

    fn links(&self, direction: Direction) -> &[usize] {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Reverse => &self.reverse,
        }
    }
}

/// Reason why a topology is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// The number of routes is not the number of flows.
    #[error("expected one route per flow ({flows}), found {routes}")]
    Routes {
        /// Number of routes.
        routes: usize,
        /// Number of flows.
        flows: usize,
    },
    /// A route contains a link that does not exist.
    #[error("the route of flow {flow} contains link {link}: expected an index below {links}")]
    Link {
        /// Index of the flow.
        flow: usize,
        /// Index of the link.
        link: usize,
        /// Number of links.
        links: usize,
    },
    /// A shared medium and its links do not match. The link does not exist, names no medium, is on several media, or is
    /// on none although it names one.
    #[error("link {0} cannot share a medium: expected an existing link on exactly one medium")]
    Medium(usize),
    /// A route has more than 65,535 links.
    #[error("the route of flow {0} is too long: expected at most 65535 links")]
    TooLong(usize),
}

/// Flows over shared links: one bottleneck in each direction ([`Network::new`]), or any links with one route per flow
/// ([`Network::with_routes`]).
///
/// Simultaneous events have a fixed order, so equal flows and links give equal runs:
///
/// - deliveries of links, by link,
/// - turns of shared media, by medium,
/// - access delays and timeouts, by flow.
///
/// After each event its flow sends what it has to send. An event costs one comparison per flow, link and medium.
pub struct Network<F: Flow> {
    now: Timestamp,
    flows: Vec<F>,
    routes: Vec<Route>,
    links: Vec<SharedLink<F::Packet>>,
    media: Vec<Medium>,
    /// Index of each link's medium, if any.
    medium_of: Vec<Option<usize>>,
    /// Packets that are past their last link and within the access delay, per flow, in order of arrival.
    delayed: Vec<VecDeque<(Timestamp, Arrived<F::Packet>)>>,
    /// Boxes of arrived packets, for reuse.
    spare: Vec<Box<Transit<F::Packet>>>,
    /// Next event of each link, then of each flow, then of each medium; [`Timestamp::MAX`] for none.
    wakes: Vec<Timestamp>,
    /// Whether a caller may have changed flows since the last update of `wakes`.
    changed: bool,
    meters: Option<Vec<FlowMeter>>,
}

impl<F: Flow> Network<F> {
    /// A network at [`Timestamp::ZERO`] with one bottleneck in each direction.
    #[must_use]
    pub fn new(flows: Vec<F>, forward: SharedLink<F::Packet>, reverse: SharedLink<F::Packet>) -> Self {
        let routes = vec![Route::single_bottleneck(); flows.len()];
        Self::build(flows, routes, vec![forward, reverse])
    }

    /// A network at [`Timestamp::ZERO`] with any links. `routes` has one route per flow, in the same order.
    ///
    /// # Errors
    /// [`TopologyError::Routes`], [`TopologyError::Link`] or [`TopologyError::TooLong`].
    pub fn with_routes(
        flows: Vec<F>,
        routes: Vec<Route>,
        links: Vec<SharedLink<F::Packet>>,
    ) -> Result<Self, TopologyError> {
        if routes.len() != flows.len() {
            return Err(TopologyError::Routes { routes: routes.len(), flows: flows.len() });
        }
        for (flow, route) in routes.iter().enumerate() {
            for direction in [&route.forward, &route.reverse] {
                if direction.len() > usize::from(u16::MAX) {
                    return Err(TopologyError::TooLong(flow));
                }
                if let Some(&link) = direction.iter().find(|&&link| link >= links.len()) {
                    return Err(TopologyError::Link { flow, link, links: links.len() });
                }
            }
        }
        Ok(Self::build(flows, routes, links))
    }

    fn build(flows: Vec<F>, routes: Vec<Route>, links: Vec<SharedLink<F::Packet>>) -> Self {
        let delayed = flows.iter().map(|_| VecDeque::new()).collect();
        let wakes = vec![Timestamp::MAX; links.len() + flows.len()];
        let medium_of = vec![None; links.len()];
        let (now, media) = (Timestamp::ZERO, Vec::new());
        let (spare, changed, meters) = (Vec::new(), true, None);
        Self { now, flows, routes, links, media, medium_of, delayed, spare, wakes, changed, meters }
    }

    /// Lets links share `media`. Every link whose configuration names a medium must be on exactly one.
    ///
    /// # Errors
    /// If a medium and its links do not match ([`TopologyError::Medium`]).
    pub fn sharing(mut self, media: Vec<Medium>) -> Result<Self, TopologyError> {
        for (number, medium) in media.iter().enumerate() {
            for link in medium.links() {
                let on_a_medium = self.links.get(link).is_some_and(|link| link.config().medium.is_some());
                if !on_a_medium || self.medium_of[link].is_some() {
                    return Err(TopologyError::Medium(link));
                }
                self.medium_of[link] = Some(number);
            }
        }
        let alone = |&link: &usize| self.links[link].config().medium.is_some() && self.medium_of[link].is_none();
        if let Some(link) = (0..self.links.len()).find(alone) {
            return Err(TopologyError::Medium(link));
        }
        self.wakes.truncate(self.links.len() + self.flows.len());
        self.wakes.extend(media.iter().map(|_| Timestamp::MAX));
        self.media = media;
        Ok(self)
    }

    /// Enables one meter per flow ([`Network::meters`]).
    #[must_use]
    pub fn metered(self) -> Self {
        self.metered_between(Timestamp::ZERO, Timestamp::MAX)
    }

    /// Enables meters that count only packets sent from `from` until `to` (exclusive), and their delays.
    #[must_use]
    pub fn metered_between(mut self, from: Timestamp, to: Timestamp) -> Self {
        self.meters = Some(vec![FlowMeter::counting(from, to); self.flows.len()]);
        self
    }

    /// Time of the next event; `None` if there is none.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        let noted = self.wakes.iter().copied().min();
        let next = if self.changed {
            let flows = (0..self.flows.len()).map(|flow| self.flow_wake(flow));
            flows.chain(noted).min()
        } else {
            noted
        };
        next.filter(|&at| at < Timestamp::MAX).map(|at| at.max(self.now))
    }

    /// Processes all events up to and including `until`.
    pub fn run_until(&mut self, until: Timestamp) {
        if self.changed {
            for flow in 0..self.flows.len() {
                self.note_flow(flow);
            }
            self.changed = false;
        }
        loop {
            let next = self.wakes.iter().fold(Timestamp::MAX, |first, &at| first.min(at));
            if next > until || next == Timestamp::MAX {
                break;
            }
            self.now = self.now.max(next);
            self.step();
        }
        self.now = self.now.max(until);
    }

    fn flow_wake(&self, flow: usize) -> Timestamp {
        let timeout = self.flows[flow].poll_timeout().unwrap_or(Timestamp::MAX);
        self.delayed[flow].front().map_or(timeout, |&(at, _)| timeout.min(at))
    }

    fn note_flow(&mut self, flow: usize) {
        let wake = self.flow_wake(flow);
        self.wakes[self.links.len() + flow] = wake;
    }

    fn note_link(&mut self, link: usize) {
        self.wakes[link] = self.links[link].poll_timeout().unwrap_or(Timestamp::MAX);
    }

    fn note_medium(&mut self, medium: usize) {
        let wake = self.media[medium].poll_timeout().unwrap_or(Timestamp::MAX);
        self.wakes[self.links.len() + self.flows.len() + medium] = wake;
    }

    /// Sends a packet over `link`.
    fn put(&mut self, link: usize, at: Timestamp, size: ByteCount, transit: Box<Transit<F::Packet>>) {
        let capable = transit.direction == Direction::Forward && self.routes[transit.flow as usize].ecn_capable;
        let shared = &mut self.links[link];
        let _ = if capable { shared.send_ecn_capable(at, size, transit) } else { shared.send(at, size, transit) };
        if let Some(medium) = self.medium_of[link] {
            self.media[medium].wake(at);
            self.note_medium(medium);
        }
        self.note_link(link);
    }

    fn step(&mut self) {
        let now = self.now;
        for link in 0..self.links.len() {
            if self.wakes[link] <= now {
                loop {
                    let delivered = self.links[link].poll(now);
                    let came = delivered.is_some();
                    if let Some(delivered) = delivered {
                        self.pass_on(delivered);
                    }
                    self.note_link(link);
                    // Usually one packet is delivered, and the link then has no further event now.
                    if !came || self.wakes[link] > now {
                        break;
                    }
                }
            }
        }
        for medium in 0..self.media.len() {
            if self.wakes[self.links.len() + self.flows.len() + medium] <= now {
                if let Some(link) = self.media[medium].transmit(now, &mut self.links) {
                    self.note_link(link);
                }
                self.note_medium(medium);
            }
        }
        for flow in 0..self.flows.len() {
            if self.wakes[self.links.len() + flow] > now {
                continue;
            }
            // If no packet is delayed, the event is a timeout.
            let mut due = self.delayed[flow].is_empty();
            while self.delayed[flow].front().is_some_and(|&(at, _)| at <= now) {
                if let Some((_, arrived)) = self.delayed[flow].pop_front() {
                    self.flows[flow].handle_packet(now, arrived);
                    self.transmit(flow);
                }
            }
            due = due || self.flows[flow].poll_timeout().is_some_and(|at| at <= now);
            if due {
                self.flows[flow].handle_timeout(now);
                self.transmit(flow);
            }
            self.note_flow(flow);
        }
    }

    /// Forwards a delivered packet to the next link or to its flow.
    fn pass_on(&mut self, delivered: Delivered<Box<Transit<F::Packet>>>) {
        let Delivered { at, size, queueing_delay, congestion_experienced, packet: mut transit, .. } = delivered;
        let flow = transit.flow as usize;
        transit.queued_before += queueing_delay;
        transit.congestion_experienced |= congestion_experienced;
        transit.hop += 1;
        let route = &self.routes[flow];
        if let Some(&next) = route.links(transit.direction).get(usize::from(transit.hop)) {
            self.put(next, at, size, transit);
            return;
        }
        let access_delay = route.access_delay;
        self.arrive(transit, at + access_delay, size);
    }

    fn arrive(&mut self, mut transit: Box<Transit<F::Packet>>, at: Timestamp, size: ByteCount) {
        let Transit { flow, direction, sent_at, queued_before, congestion_experienced, .. } = *transit;
        let Some(packet) = transit.packet.take() else { return };
        if self.spare.len() < MAX_SPARE_BOXES {
            self.spare.push(transit);
        }
        let flow = flow as usize;
        let queueing_delay = queued_before;
        let arrived = Arrived { direction, sent_at, at, size, queueing_delay, congestion_experienced, packet };
        if let Some(meters) = &mut self.meters
            && direction == Direction::Forward
        {
            meters[flow].received(&arrived);
        }
        if at > self.now {
            self.delayed[flow].push_back((at, arrived));
        } else {
            self.flows[flow].handle_packet(self.now, arrived);
            self.transmit(flow);
        }
        self.note_flow(flow);
    }

    fn transmit(&mut self, flow: usize) {
        let now = self.now;
        while let Some((direction, size, packet)) = self.flows[flow].poll_transmit(now) {
            if let Some(meters) = &mut self.meters {
                match direction {
                    Direction::Forward => meters[flow].sent(now, size),
                    Direction::Reverse => meters[flow].fed_back(now, size),
                }
            }
            let transit = Transit {
                flow: flow as u32,
                hop: 0,
                direction,
                sent_at: now,
                queued_before: Duration::ZERO,
                congestion_experienced: false,
                packet: Some(packet),
            };
            let transit = match self.spare.pop() {
                Some(mut place) => {
                    *place = transit;
                    place
                }
                None => Box::new(transit),
            };
            let route = &self.routes[flow];
            if let Some(&first) = route.links(direction).first() {
                self.put(first, now, size, transit);
            } else {
                // At least one nanosecond, or an end that answers immediately would stop time.
                let at = now + route.access_delay.max(Duration::from_nanos(1));
                self.arrive(transit, at, size);
            }
        }
    }

    /// Current time. All events up to it have been processed.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Flows, in the order given.
    #[must_use]
    pub fn flows(&self) -> &[F] {
        &self.flows
    }

    /// Mutable flows, for instance for an agent that sets a rate. Changed flows send at their next timeout.
    pub fn flows_mut(&mut self) -> &mut [F] {
        self.changed = true;
        &mut self.flows
    }

    /// Links, in the order given. With one bottleneck, the forward link is first and the reverse link second.
    #[must_use]
    pub fn links(&self) -> &[SharedLink<F::Packet>] {
        &self.links
    }

    /// Shared media, in the order given.
    #[must_use]
    pub fn media(&self) -> &[Medium] {
        &self.media
    }

    /// One meter per flow since [`Network::metered`]; empty without it. Packets within the access delay count as
    /// received.
    #[must_use]
    pub fn meters(&self) -> &[FlowMeter] {
        self.meters.as_deref().unwrap_or_default()
    }

    /// Splits the network into its flows and links.
    #[must_use]
    pub fn into_parts(self) -> (Vec<F>, Vec<SharedLink<F::Packet>>) {
        (self.flows, self.links)
    }

    /// Bytes that the first link could have carried between two times. With one bottleneck, that is the forward link.
    #[must_use]
    pub fn capacity_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        self.links.first().map_or(ByteCount::ZERO, |link| link.capacity_between(from, to))
    }
}
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockstep_link::{LinkConfig, Trace};
    use lockstep_units::Bitrate;

    use super::*;

    /// Sends ten packets of 1,250 bytes, one every `interval`, and records their echoes.
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
    fn two_flows_on_one_link_receive_their_own_packets() {
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
        // Service takes 1 ms and propagation 5 ms in each direction. Both flows send at time zero, so the second packet
        // waits once.
        assert_eq!(network.flows()[0].echoed[0].1, Timestamp::from_millis(12));
        assert_eq!(network.flows()[1].echoed[0].1, Timestamp::from_millis(13));
        assert_eq!(network.next_event(), None);
    }

    fn one_way(kbps: u64, milliseconds: u64) -> SharedLink<u64> {
        let delay = Duration::from_millis(milliseconds);
        Link::new(LinkConfig { delay, ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(kbps))) }, 1).unwrap()
    }

    fn echo(packets: u64) -> Echo {
        let interval = Duration::from_millis(100);
        Echo { next: Timestamp::ZERO, interval, outbox: Vec::new(), sent: 10 - packets, echoed: Vec::new() }
    }

    #[test]
    fn links_of_a_route_and_the_access_delay_add_up() {
        let access_delay = Duration::from_millis(7);
        let route = Route { forward: vec![0, 1], reverse: vec![2], access_delay, ecn_capable: false };
        let links = vec![one_way(10_000, 5), one_way(5_000, 1), one_way(10_000, 2)];
        let mut network = Network::with_routes(vec![echo(1)], vec![route], links).unwrap().metered();
        network.run_until(Timestamp::from_millis(1_000));
        // Forward 1 + 5, 2 + 1 and 7 ms; reverse 1 + 2 and 7 ms.
        assert_eq!(network.flows()[0].echoed, [(9, Timestamp::from_millis(26))]);
        assert_eq!(network.meters()[0].one_way_delays_ms().quantile(0.5), Some(16.0));
        assert_eq!(network.meters()[0].received_packets(), 1);
    }

    #[test]
    fn opposite_flows_share_links_with_each_others_answers() {
        let away = Route::single_bottleneck();
        let home = Route { forward: vec![1], reverse: vec![0], ..Route::single_bottleneck() };
        let links = vec![one_way(10_000, 5), one_way(10_000, 5)];
        let mut network = Network::with_routes(vec![echo(10), echo(10)], vec![away, home], links).unwrap();
        network.run_until(Timestamp::from_millis(2_000));
        for link in network.links() {
            assert_eq!(link.statistics().delivered.packets, 20);
        }
        assert_eq!(network.flows()[0].echoed[0].1, Timestamp::from_millis(12));
    }

    #[test]
    fn time_advances_for_a_flow_without_links() {
        let route = Route { forward: Vec::new(), reverse: Vec::new(), ..Route::single_bottleneck() };
        let mut network = Network::with_routes(vec![echo(3)], vec![route], Vec::new()).unwrap();
        network.run_until(Timestamp::from_millis(1_000));
        assert_eq!(network.flows()[0].echoed.len(), 3);
    }

    #[test]
    fn a_route_over_a_missing_link_is_refused() {
        let route = Route { forward: vec![0, 2], ..Route::single_bottleneck() };
        let links = vec![one_way(1, 1), one_way(1, 1)];
        let error = Network::with_routes(vec![echo(1)], vec![route], links).err().unwrap();
        assert_eq!(error, TopologyError::Link { flow: 0, link: 2, links: 2 });
    }
}
