//! One type for all kinds of flows, so that they can share links.

use lockstep_call::{PictureCodec, Vp8};
use lockstep_measure::{FrameObserver, SharedSessionMeter};
use lockstep_transport::{Datagram, Length};
use lockstep_units::{ByteCount, Timestamp};

use crate::call_flow::CallFlow;
use crate::cross_traffic::{CrossTraffic, TrafficPacket};
use crate::flow::{Arrived, Direction, Flow};
use crate::modelled::ModelledCall;
use crate::simulation::sample_ends;

/// A call or cross traffic.
pub enum AnyFlow<C: PictureCodec = Vp8> {
    /// Call with pixels.
    Call(Box<CallFlow<C>>),
    /// Call with a codec model instead of pixels.
    Modelled(Box<ModelledCall>),
    /// Cross traffic.
    Traffic(CrossTraffic),
}

/// Packet of an [`AnyFlow`].
#[derive(Debug, Clone)]
pub enum AnyPacket {
    /// Datagram of a call with pixels.
    Datagram(Vec<u8>),
    /// Datagram of a modelled call.
    Modelled(Datagram<Length>),
    /// Packet of cross traffic.
    Traffic(TrafficPacket),
}

fn repacked<P>(arrived: Arrived<AnyPacket>, unpack: impl FnOnce(AnyPacket) -> Option<P>) -> Option<Arrived<P>> {
    let (packet, arrival) = arrived.take();
    unpack(packet).map(|packet| arrival.with(packet))
}

impl<C: PictureCodec> AnyFlow<C> {
    /// Samples both ends of a call with `meter`. Does nothing for cross traffic.
    pub(crate) fn sample(&self, meter: &SharedSessionMeter, now: Timestamp) {
        match self {
            Self::Call(call) => sample_ends(meter, now, Some(call)),
            Self::Modelled(call) => sample_ends(meter, now, Some(call)),
            Self::Traffic(_) => {}
        }
    }

    /// Reports every picture of a call to `observer`. Does nothing for cross traffic.
    pub fn observe(&mut self, observer: Box<dyn FrameObserver>) {
        match self {
            Self::Call(call) => call.observe(observer),
            Self::Modelled(call) => call.observe(observer),
            Self::Traffic(_) => {}
        }
    }
}

impl<C: PictureCodec> Flow for AnyFlow<C> {
    type Packet = AnyPacket;

    /// Ignores packets of another kind of flow. A network never delivers those.
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
