//! Cross traffic: flows that share links with calls.
//!
//! TCP connections fill links; constant and on-off flows ignore congestion. Sizes on links include IP headers: 1,500
//! bytes for a full packet, 40 for an acknowledgement of TCP.

mod congestion_window;
mod constant_bit_rate;
mod cubic;
mod new_reno;
mod on_off;
mod tcp;
mod transfers;

use lockstep_units::{ByteCount, Timestamp};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::flow::{Arrived, Direction, Flow};

pub use congestion_window::CongestionWindow;
pub use constant_bit_rate::ConstantBitRate;
pub use cubic::Cubic;
pub use new_reno::NewReno;
pub use on_off::{OnOff, Period};
pub use tcp::{Tcp, TcpStatistics, WindowAlgorithm};
pub use transfers::{FileTransfers, Workload};

/// Size of a full packet on the link: the payload of an Ethernet frame.
pub const PACKET: ByteCount = ByteCount::new(1_500);

/// Packet of cross traffic. It has a size but no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficPacket {
    /// Datagram without acknowledgement.
    Datagram,
    /// Segment of a TCP connection.
    Segment {
        /// Transmission number. A retransmission is a new segment with a new number.
        number: u64,
    },
    /// Acknowledgement that a TCP receiver sends for each segment.
    Acknowledgement {
        /// Highest number received.
        largest: u64,
        /// Bit mask of the 64 numbers up to `largest`: bit 0 is `largest`, bit 1 the number before it. It stands for
        /// the selective acknowledgements of RFC 2018, which are of similar size.
        received: u64,
        /// Number of segments received with an ECN mark (RFC 9768).
        marked: u64,
    },
}

/// Any kind of cross traffic.
#[derive(Debug, Clone)]
pub enum CrossTraffic {
    /// TCP connection with one or more transfers.
    Tcp(Box<Tcp>),
    /// Constant bit rate.
    ConstantBitRate(ConstantBitRate),
    /// On-off traffic.
    OnOff(OnOff),
}

macro_rules! each {
    ($flow:expr, $inner:ident => $result:expr) => {
        match $flow {
            CrossTraffic::Tcp($inner) => $result,
            CrossTraffic::ConstantBitRate($inner) => $result,
            CrossTraffic::OnOff($inner) => $result,
        }
    };
}

impl Flow for CrossTraffic {
    type Packet = TrafficPacket;

    fn handle_packet(&mut self, now: Timestamp, arrived: Arrived<TrafficPacket>) {
        each!(self, flow => flow.handle_packet(now, arrived));
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<(Direction, ByteCount, TrafficPacket)> {
        each!(self, flow => flow.poll_transmit(now))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        each!(self, flow => flow.poll_timeout())
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        each!(self, flow => flow.handle_timeout(now));
    }
}

/// Random generator of one flow.
fn generator(seed: u64) -> Pcg64 {
    Pcg64::seed_from_u64(seed)
}
