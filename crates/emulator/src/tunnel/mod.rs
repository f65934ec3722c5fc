//! The network emulator: two network namespaces whose only connection is this process. It carries packets of any
//! protocol over IP. Sizes are those of whole packets, as in mahimahi's recordings.
//!
//! Own devices instead of a queueing discipline of the kernel: the link equals that of the simulator to the byte, and
//! kernels support no traces.

mod ip_header;
mod namespaces;

use std::io::ErrorKind;
use std::net::IpAddr;
use std::num::NonZero;
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::BytesMut;
use lockstep_link::{Delivered, Link};
use lockstep_socket::{Clock, SystemError};
use lockstep_units::{ByteCount, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;
use tun_rs::SyncDevice;

use crate::emulated_path::{
    Direction, EmulatedPath, EmulationResult, EmulatorStatus, Ends, Meter, NextAction, PacketInLink, PacketLog, Start,
};
use crate::error::EmulatorError;

pub use namespaces::{Namespace, Tunnel, TunnelError, is_in_own_user_namespace, run_again_in_user_namespace};

/// Maximum size of an IP packet, bytes.
const MAX_PACKET_BYTES: usize = 65_535;
/// Maximum number of packets read from one side before the links are served again.
const MAX_BATCH_PACKETS: usize = 64;
/// Requested real-time priority: the lowest, which precedes every ordinary process.
const REAL_TIME_PRIORITY: &str = "1";
/// Priority requested if the system refuses real time: the highest of ordinary processes.
const PRIORITY: i32 = -20;

/// Scheduling of a tunnel by the kernel. On a busy machine it decides how late packets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduling {
    /// Before all ordinary processes (SCHED_FIFO).
    RealTime,
    /// Highest priority of ordinary processes.
    High,
    /// Normal priority.
    Ordinary,
}

/// Requests the best scheduling for this thread. Processes that it starts do not inherit it.
fn ask_for_scheduling() -> Scheduling {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut chrt = Command::new("chrt");
    chrt.args(["--fifo", "--reset-on-fork", "--pid", REAL_TIME_PRIORITY, &thread]);
    let real_time = chrt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if real_time.is_ok_and(|status| status.success()) {
        Scheduling::RealTime
    } else if rustix::process::setpriority_process(None, PRIORITY).is_ok() {
        Scheduling::High
    } else {
        Scheduling::Ordinary
    }
}

/// Options of a tunnel.
pub struct TunnelOptions {
    /// Link from the near namespace to the far one.
    pub forward: Link<PacketInLink>,
    /// Link from the far namespace to the near one.
    pub reverse: Link<PacketInLink>,
    /// Start of both traces.
    pub start: Start,
    /// Duration after the start. None means endless.
    pub length: Option<Duration>,
    /// Receives a record of each packet.
    pub log: Option<PacketLog>,
}

/// Results of a tunnel.
#[derive(Debug, Clone, PartialEq)]
pub struct TunnelResult {
    /// Results of its links.
    pub emulation: EmulationResult,
    /// Packets in both directions with other addresses than those of the two sides. They are dropped.
    pub foreign_packets: u64,
    /// Scheduling by the kernel.
    pub scheduling: Scheduling,
}

/// Meter that scores nothing.
struct NoMeter;

impl Meter for NoMeter {
    fn sent(&mut self, _: Direction, _: Timestamp, _: ByteCount) {}

    fn received(&mut self, _: Direction, _: &Delivered<PacketInLink>) {}
}

/// Both devices of a running tunnel.
struct Devices<'a> {
    devices: &'a [SyncDevice; 2],
    /// Source and destination of the packets of each side, per version of IP.
    ways: [Vec<(IpAddr, IpAddr)>; 2],
    buffer: Vec<u8>,
    foreign_packets: u64,
}

impl Tunnel {
    /// Carries packets between the namespaces until the duration ends or `go` returns [`NextAction::Stop`]. `go` is called a
    /// few times per second. It is called at once if `urgent` returns true, as after a signal.
    ///
    /// # Errors
    /// If a device fails, as after the removal of its namespace.
    pub fn run(
        &self,
        options: TunnelOptions,
        go: impl FnMut(&EmulatorStatus) -> NextAction,
        urgent: impl FnMut() -> bool,
    ) -> Result<TunnelResult, EmulatorError> {
        let TunnelOptions { forward, reverse, start, length, log } = options;
        // Timers fire on time, instead of up to 50 us late to save power.
        let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
        let scheduling = ask_for_scheduling();
        let ways: Vec<_> = self.near().addresses().zip(self.far().addresses()).collect();
        let back = ways.iter().map(|&(near, far)| (far, near)).collect();
        let buffer = vec![0; MAX_PACKET_BYTES];
        let mut ends = Devices { devices: &self.devices, ways: [ways, back], buffer, foreign_packets: 0 };
        let mut path = EmulatedPath::new(Clock::start(), start, [forward, reverse], NoMeter, log)?;
        path.run(&mut ends, length, go, urgent)?;
        let (emulation, NoMeter) = path.finish();
        Ok(TunnelResult { emulation, foreign_packets: ends.foreign_packets, scheduling })
    }
}

impl Ends for Devices<'_> {
    fn size(&self, packet: &[u8]) -> ByteCount {
        ByteCount::of(packet)
    }

    fn is_ecn_capable(&self, packet: &[u8]) -> bool {
        ip_header::is_ecn_capable(packet)
    }

    fn send(&mut self, direction: Direction, packet: &mut BytesMut, marked: bool) -> Result<bool, EmulatorError> {
        if marked {
            ip_header::mark(packet);
        }
        let to = match direction {
            Direction::Forward => &self.devices[1],
            Direction::Reverse => &self.devices[0],
        };
        // A removed namespace, a stopped device or a full kernel queue loses the packet, like any wire. Reading detects
        // a removed device.
        Ok(to.send(packet).is_ok())
    }

    fn wait(
        &mut self,
        clock: &Clock,
        most: Duration,
        came: &mut dyn FnMut(Direction, Timestamp, BytesMut),
    ) -> Result<(), EmulatorError> {
        let devices = self.devices;
        let mut polled = devices.each_ref().map(|device| PollFd::new(device, PollFlags::IN));
        let limit = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        match poll(&mut polled, Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(SystemError::Socket(error.into()).into()),
        }
        for (direction, device) in Direction::BOTH.into_iter().zip(devices) {
            if polled[direction as usize].revents().is_empty() {
                continue;
            }
            for _ in 0..MAX_BATCH_PACKETS {
                match device.recv(&mut self.buffer) {
                    Ok(length) => {
                        let packet = &self.buffer[..length];
                        let way = ip_header::addresses(packet);
                        if way.is_some_and(|way| self.ways[direction as usize].contains(&way)) {
                            came(direction, clock.now(), BytesMut::from(packet));
                        } else {
                            self.foreign_packets += 1;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(EmulatorError::Device(error)),
                }
            }
        }
        Ok(())
    }

    fn tick(&mut self, _: Option<Duration>) -> Result<(), EmulatorError> {
        Ok(())
    }

    fn check(&mut self) -> Result<(), EmulatorError> {
        Ok(())
    }
}
