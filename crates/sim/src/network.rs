//! Many flows over shared links, in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_link::{Delivered, Link, Medium};
use lockstep_units::{ByteCount, Timestamp};

use crate::flow::{Arrived, Direction, Flow};
use crate::meter::FlowMeter;

/// A packet on a link, and whose it is.
#[derive(Debug, Clone)]
pub struct Transit<P> {
    flow: u32,
    hop: u16,
    direction: Direction,
    /// When its sender sent it.
    sent_at: Timestamp,
    /// How long it waited in the queues of the links before this one.
    queued_before: Duration,
    /// Whether one of those queues marked it.
    congestion_experienced: bool,
    /// None once it has arrived.
    packet: Option<P>,
}

/// A link that flows share. What it carries is apart: on its way through queue, service and flight a packet is moved a dozen
/// times.
pub type SharedLink<P> = Link<Box<Transit<P>>>;

/// So many places for packets are kept to be used again.
const MOST_SPARE: usize = 64;

/// The way of one flow's packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The links from the sender to the receiver, by their numbers in the network, in the order in which they are
    /// passed. Empty for a way without a bottleneck.
    pub forward: Vec<usize>,
    /// The links from the receiver to the sender.
    pub reverse: Vec<usize>,
    /// Delay each way that this flow has on top of its links', behind the last of them. Equal flows with different
    /// access delays have different round-trip times over the same bottleneck.
    pub access_delay: Duration,
    /// Whether its ends understand marks (RFC 3168): what goes forward is then ECN-capable. What comes back only
    /// acknowledges, and is not (section 6.1.4).
    pub ecn_capable: bool,
}

impl Route {
    /// Over link 0 there and link 1 back, as [`Network::new`] has it; with ends that understand marks.
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

/// Why a network cannot be like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Not one route for each flow.
    #[error("there are {routes} routes for {flows} flows")]
    Routes {
        /// How many routes were given.
        routes: usize,
        /// How many flows were given.
        flows: usize,
    },
    /// A route over a link that is not there.
    #[error("the route of flow {flow} goes over link {link}, but there are only {links}")]
    Link {
        /// The flow, counted from zero.
        flow: usize,
        /// The link, counted from zero.
        link: usize,
        /// How many links there are.
        links: usize,
    },
    /// A medium is shared by a link that is not there, or by one that is not on a medium; or nothing gives a link on a
    /// medium its turns.
    #[error("link {0} cannot share this medium: it is not there, or its medium is another one or none")]
    Medium(usize),
    /// A route over more links than 65,535.
    #[error("the route of flow {0} is too long")]
    TooLong(usize),
}

/// Flows over shared links: one bottleneck each way ([`Network::new`]), or several in a row and a route for each flow
/// ([`Network::with_routes`]).
///
/// Events of one moment come in a fixed order: what comes out of the links, link by link, then the turns of shared
/// media, medium by medium, then access delays and timeouts, flow by flow; after each of these what the flow then
/// sends. So equal flows and links give equal runs.
///
/// An event costs a look at one number a flow and a link, and the work of whom it concerns.
pub struct Network<F: Flow> {
    now: Timestamp,
    flows: Vec<F>,
    routes: Vec<Route>,
    links: Vec<SharedLink<F::Packet>>,
    media: Vec<Medium>,
    /// Which of them each link is on.
    medium_of: Vec<Option<usize>>,
    /// Packets behind their last link that the flow's access delay still holds, in the order of their times.
    delayed: Vec<VecDeque<(Timestamp, Arrived<F::Packet>)>>,
    /// Places of packets that have arrived.
    spare: Vec<Box<Transit<F::Packet>>>,
    /// When something happens next: to each link, then to each flow, then to each medium; [`Timestamp::MAX`] for never.
    wakes: Vec<Timestamp>,
    /// Whether a flow was changed from outside since its wake was noted.
    changed: bool,
    meters: Option<Vec<FlowMeter>>,
}

impl<F: Flow> Network<F> {
    /// A network of one bottleneck each way, at [`Timestamp::ZERO`].
    #[must_use]
    pub fn new(flows: Vec<F>, forward: SharedLink<F::Packet>, reverse: SharedLink<F::Packet>) -> Self {
        let routes = vec![Route::single_bottleneck(); flows.len()];
        Self::build(flows, routes, vec![forward, reverse])
    }

    /// A network of any links, at [`Timestamp::ZERO`]. The routes are those of the flows, in their order.
    ///
    /// # Errors
    /// If there is not one route for each flow, or a route goes over a link that is not there.
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

    /// Has links share `media`. Every link whose configuration names a medium must be on one.
    ///
    /// # Errors
    /// If a medium is shared by a link that is not there or names no medium, or if nothing gives a link its turns.
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

    /// Records from now on what each flow sends and gets. See [`Network::meters`].
    #[must_use]
    pub fn metered(self) -> Self {
        self.metered_between(Timestamp::ZERO, Timestamp::MAX)
    }

    /// The same, but of packets and their delays only those count that are sent from `from` until `to`, exclusive.
    #[must_use]
    pub fn metered_between(mut self, from: Timestamp, to: Timestamp) -> Self {
        self.meters = Some(vec![FlowMeter::counting(from, to); self.flows.len()]);
        self
    }

    /// When something happens next; none if nothing ever will.
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

    /// Lets everything happen that happens up to `until`, that moment included.
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

    /// Gives `link` a packet.
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
                    // Nearly always only one came, and it is known then that no other did.
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
            // Where nothing is held, it was noted for its timeout.
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

    /// A packet came out of a link: onto the next one, or to its flow.
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
        if self.spare.len() < MOST_SPARE {
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
                // A nanosecond at least: an end that answers at once would otherwise never let time pass.
                let at = now + route.access_delay.max(Duration::from_nanos(1));
                self.arrive(transit, at, size);
            }
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

    /// The flows, to change them from outside, as a learning agent does that sets a rate. What a flow then wants to
    /// send, it sends at its next timeout.
    pub fn flows_mut(&mut self) -> &mut [F] {
        self.changed = true;
        &mut self.flows
    }

    /// The links, in the order in which they were given; with one bottleneck, the forward and the reverse link.
    #[must_use]
    pub fn links(&self) -> &[SharedLink<F::Packet>] {
        &self.links
    }

    /// The media that links share, in the order in which they were given.
    #[must_use]
    pub fn media(&self) -> &[Medium] {
        &self.media
    }

    /// What each flow sent and got since [`Network::metered`]; empty without it. What an access delay still holds
    /// counts as got.
    #[must_use]
    pub fn meters(&self) -> &[FlowMeter] {
        self.meters.as_deref().unwrap_or_default()
    }

    /// Flows and links as they are now, to be taken apart.
    #[must_use]
    pub fn into_parts(self) -> (Vec<F>, Vec<SharedLink<F::Packet>>) {
        (self.flows, self.links)
    }

    /// Bytes that the first link, in a network of one bottleneck the forward one, could have carried between two
    /// moments.
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

    fn one_way(kbps: u64, milliseconds: u64) -> SharedLink<u64> {
        let delay = Duration::from_millis(milliseconds);
        Link::new(LinkConfig { delay, ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(kbps))) }, 1).unwrap()
    }

    fn echo(packets: u64) -> Echo {
        let interval = Duration::from_millis(100);
        Echo { next: Timestamp::ZERO, interval, outbox: Vec::new(), sent: 10 - packets, echoed: Vec::new() }
    }

    #[test]
    fn links_in_a_row_are_passed_in_order_and_an_access_delay_is_added_each_way() {
        let access_delay = Duration::from_millis(7);
        let route = Route { forward: vec![0, 1], reverse: vec![2], access_delay, ecn_capable: false };
        let links = vec![one_way(10_000, 5), one_way(5_000, 1), one_way(10_000, 2)];
        let mut network = Network::with_routes(vec![echo(1)], vec![route], links).unwrap().metered();
        network.run_until(Timestamp::from_millis(1_000));
        // There 1 + 5, 2 + 1 and 7 ms; back 1 + 2 and 7.
        assert_eq!(network.flows()[0].echoed, [(9, Timestamp::from_millis(26))]);
        assert_eq!(network.meters()[0].one_way_delays_ms().quantile(0.5), Some(16.0));
        assert_eq!(network.meters()[0].received_packets(), 1);
    }

    #[test]
    fn flows_in_both_directions_share_each_link_with_the_others_answers() {
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
    fn a_flow_without_links_still_takes_time() {
        let route = Route { forward: Vec::new(), reverse: Vec::new(), ..Route::single_bottleneck() };
        let mut network = Network::with_routes(vec![echo(3)], vec![route], Vec::new()).unwrap();
        network.run_until(Timestamp::from_millis(1_000));
        assert_eq!(network.flows()[0].echoed.len(), 3);
    }

    #[test]
    fn a_route_over_a_link_that_is_not_there_is_refused() {
        let route = Route { forward: vec![0, 2], ..Route::single_bottleneck() };
        let links = vec![one_way(1, 1), one_way(1, 1)];
        let error = Network::with_routes(vec![echo(1)], vec![route], links).err().unwrap();
        assert_eq!(error, TopologyError::Link { flow: 0, link: 2, links: 2 });
    }
}
