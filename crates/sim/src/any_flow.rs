//! Every kind of flow in one type, so that they can share links.

use lockstep_measure::{CallObserver, SharedSessionMeter};
use lockstep_transport::{Datagram, Length};
use lockstep_units::{ByteCount, Timestamp};

use crate::call_flow::CallFlow;
use crate::cross_traffic::{CrossTraffic, TrafficPacket};
use crate::flow::{Arrived, Direction, Flow};
use crate::modelled::ModelledCall;
use crate::simulation::look;

/// One of the kinds of flows.
pub enum AnyFlow {
    /// A call with pictures.
    Call(Box<CallFlow>),
    /// A call whose codec is a model.
    Modelled(Box<ModelledCall>),
    /// Something else that uses the links.
    Traffic(CrossTraffic),
}

/// A packet of one of them.
#[derive(Debug, Clone)]
pub enum AnyPacket {
    /// Of a call with pictures.
    Datagram(Vec<u8>),
    /// Of a modelled call.
    Modelled(Datagram<Length>),
    /// Of cross traffic.
    Traffic(TrafficPacket),
}

fn repacked<P>(arrived: Arrived<AnyPacket>, unpack: impl FnOnce(AnyPacket) -> Option<P>) -> Option<Arrived<P>> {
    let (packet, arrival) = arrived.take();
    unpack(packet).map(|packet| arrival.with(packet))
}

impl AnyFlow {
    /// Has `meter` look at the ends of a call; of other traffic there is nothing to be seen.
    pub(crate) fn look(&self, meter: &SharedSessionMeter, now: Timestamp) {
        match self {
            Self::Call(call) => look(meter, now, Some(call)),
            Self::Modelled(call) => look(meter, now, Some(call)),
            Self::Traffic(_) => {}
        }
    }

    /// Has a call's `observer` hear of its pictures; of other traffic there are none.
    pub fn observe(&mut self, observer: Box<dyn CallObserver>) {
        match self {
            Self::Call(call) => call.observe(observer),
            Self::Modelled(call) => call.observe(observer),
            Self::Traffic(_) => {}
        }
    }
}

impl Flow for AnyFlow {
    type Packet = AnyPacket;

    /// A packet of another kind of flow, which no network hands out, is ignored.
    fn handle_packet(&mut self, now: Timestamp, arrived: Arrived<AnyPacket>) {
        match self {
            Self::Call(call) => {
                let datagram = |packet| if let AnyPacket::Datagram(datagram) = packet { Some(datagram) } else { None };
                if let Some(arrived) = repacked(arrived, datagram) {
                    call.handle_packet(now, arrived);
                }
            }
            Self::Modelled(call) => {
                let modelled = |packet| if let AnyPacket::Modelled(packet) = packet { Some(packet) } else { None };
                if let Some(arrived) = repacked(arrived, modelled) {
                    call.handle_packet(now, arrived);
                }
            }
            Self::Traffic(traffic) => {
                let other = |packet| if let AnyPacket::Traffic(packet) = packet { Some(packet) } else { None };
                if let Some(arrived) = repacked(arrived, other) {
                    traffic.handle_packet(now, arrived);
                }
            }
        }
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<(Direction, ByteCount, AnyPacket)> {
        match self {
            Self::Call(call) => {
                call.poll_transmit(now).map(|(way, size, packet)| (way, size, AnyPacket::Datagram(packet)))
            }
            Self::Modelled(call) => {
                call.poll_transmit(now).map(|(way, size, packet)| (way, size, AnyPacket::Modelled(packet)))
            }
            Self::Traffic(traffic) => {
                traffic.poll_transmit(now).map(|(way, size, packet)| (way, size, AnyPacket::Traffic(packet)))
            }
        }
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        match self {
            Self::Call(call) => call.poll_timeout(),
            Self::Modelled(call) => call.poll_timeout(),
            Self::Traffic(traffic) => traffic.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        match self {
            Self::Call(call) => call.handle_timeout(now),
            Self::Modelled(call) => call.handle_timeout(now),
            Self::Traffic(traffic) => traffic.handle_timeout(now),
        }
    }
}
