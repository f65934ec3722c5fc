//! A call of several people, in which everyone sends to everyone directly.
//!
//! ```text
//! person 1 --> uplink of 1 --+--> downlink of 2 --> person 2
//!                            +--> downlink of 3 --> person 3
//! ```
//!
//! Each pair has its own connection, with a call in each direction. All flows from a person share one uplink, and all
//! flows to a person share one downlink. Acknowledgements share both with the media.

use std::time::Duration;

use lockstep_call::{Codec, SendingEnd};
use lockstep_link::LinkStatistics;
use lockstep_units::Timestamp;

use crate::call_flow::{CallFlow, CallResult, SimulationError, StopReason};
use crate::call_pair::{CallPacket, CallPair};
use crate::network::{Network, Route, SharedLink, TopologyError};
use crate::simulation::run_pairs;

/// Links between one person and the others.
pub struct Access<C: Codec> {
    /// Link of all packets from the person.
    pub uplink: SharedLink<CallPacket<C::Packet>>,
    /// Link of all packets to the person.
    pub downlink: SharedLink<CallPacket<C::Packet>>,
}

/// One direction between two people of a room, numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PersonFlow {
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
}

/// Results of a finished room.
pub struct RoomResult<C: Codec> {
    /// Results of each direction, ordered by sender, then by receiver.
    pub calls: Vec<(PersonFlow, CallResult<C>)>,
    /// Counters of the uplink and the downlink of each person.
    pub access: Vec<[LinkStatistics; 2]>,
}

/// Calls between all people of a room, in virtual time.
pub struct RoomSimulation<C: Codec> {
    network: Network<CallPair<C>>,
    /// Both people of each pair, in the order of the network's flows.
    pairs: Vec<PersonFlow>,
}

/// Index of the uplink of `person`. Its downlink follows.
fn uplink(person: usize) -> usize {
    2 * person
}

impl<C: Codec> RoomSimulation<C> {
    /// The people with these links. `call` returns the call in each direction.
    ///
    /// # Errors
    /// Those of `call`, and [`TopologyError`] as the type of the error.
    pub fn new<E: From<TopologyError>>(
        access: Vec<Access<C>>,
        mut call: impl FnMut(PersonFlow) -> Result<CallFlow<C>, E>,
    ) -> Result<Self, E> {
        let people = access.len();
        let pairs: Vec<PersonFlow> =
            (0..people).flat_map(|from| (from + 1..people).map(move |to| PersonFlow { from, to })).collect();
        let over = |from, to| vec![uplink(from), uplink(to) + 1];
        let mut flows = Vec::with_capacity(pairs.len());
        let mut routes = Vec::with_capacity(pairs.len());
        for &PersonFlow { from, to } in &pairs {
            let (first, opposite) = (call(PersonFlow { from, to })?, call(PersonFlow { from: to, to: from })?);
            flows.push(CallPair { first, opposite: Some(opposite) });
            routes.push(Route { forward: over(from, to), reverse: over(to, from), ..Route::single_bottleneck() });
        }
        let links = access.into_iter().flat_map(|access| [access.uplink, access.downlink]).collect();
        Ok(Self { network: Network::with_routes(flows, routes, links)?, pairs })
    }

    /// Runs the calls, which are scored for `length`, to their end. `progress` is called once per `frame_interval`, or
    /// twice per second of modelled calls. Its error stops the calls.
    ///
    /// # Errors
    /// If a source fails, or `progress` returns an error.
    pub fn run(
        mut self,
        length: Duration,
        frame_interval: Duration,
        progress: impl FnMut(Timestamp, &SendingEnd<C>) -> Result<(), StopReason>,
    ) -> Result<RoomResult<C>, SimulationError> {
        run_pairs(&mut self.network, (length, frame_interval), &[], progress)?;
        let (flows, links) = self.network.into_parts();
        let mut calls = Vec::with_capacity(2 * flows.len());
        for (CallPair { first, opposite }, PersonFlow { from, to }) in flows.into_iter().zip(self.pairs) {
            let there = (PersonFlow { from, to }, first);
            let back = opposite.map(|opposite| (PersonFlow { from: to, to: from }, opposite));
            for (flow, call) in std::iter::once(there).chain(back) {
                let uplink = &links[uplink(flow.from)];
                calls.push((flow, call.finish(|from, to| uplink.capacity_between(from, to))?));
            }
        }
        calls.sort_by_key(|&(flow, _)| flow);
        let access = links.chunks_exact(2).map(|links| [*links[0].statistics(), *links[1].statistics()]).collect();
        Ok(RoomResult { calls, access })
    }
}
