//! What shares links with calls: downloads that fill them, and traffic that does not care. One file each.
//!
//! Sizes on the links include IP headers: 1,500 bytes for a packet of full size, 40 for an acknowledgement of TCP.

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

/// A packet of full size on the link: an Ethernet frame's payload.
pub const PACKET: ByteCount = ByteCount::new(1_500);

/// A packet of cross traffic. It carries no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficPacket {
    /// Data of which nobody tells whether it came.
    Datagram,
    /// Data of a TCP connection.
    Segment {
        /// Its place in the order of transmission. Data that is sent again is a new segment.
        number: u64,
    },
    /// What a TCP receiver says of each segment that comes.
    Acknowledgement {
        /// The highest number that has come.
        largest: u64,
        /// Which of the 64 numbers up to it have come: bit 0 is itself, bit 1 the one before it. The selective
        /// acknowledgements of RFC 2018, which fit into 40 bytes more or less as well.
        received: u64,
        /// How many came with a mark of congestion (ECN), as RFC 9768 counts them.
        marked: u64,
    },
}

/// Any flow of cross traffic.
#[derive(Debug, Clone)]
pub enum CrossTraffic {
    /// A TCP connection, or one after the other.
    Tcp(Box<Tcp>),
    /// The same rate throughout.
    ConstantBitRate(ConstantBitRate),
    /// A rate that comes and goes.
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

/// The generator of one flow. Flows of different seeds draw different numbers.
fn generator(seed: u64) -> Pcg64 {
    Pcg64::seed_from_u64(seed)
}
