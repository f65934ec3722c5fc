//! The emulator of whole networks: two network namespaces, and this process between them as the only wire. Packets are of any
//! protocol over IP, and their sizes are those of the whole packets, as mahimahi's recordings count them.
//!
//! Own devices and not a queueing discipline of the kernel: the link is the simulator's, to the byte, and no kernel has traces.

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
    Carriage, Carried, Direction, EmulatedPath, EmulatorStatus, Ends, Go, Meter, PacketLog, Start,
};
use crate::error::EmulatorError;

pub use namespaces::{Namespace, Tunnel, TunnelError, is_in_own_user_namespace, run_again_in_user_namespace};

/// The largest packet of IP.
const LARGEST_PACKET: usize = 65_535;
/// Packets that are read of one side before the links are looked after again.
const MOST_AT_ONCE: usize = 64;
/// The real-time priority that is asked for, the lowest: before every ordinary process.
const REAL_TIME_PRIORITY: &str = "1";
/// The priority that is asked for where that is refused, the highest of ordinary processes.
const PRIORITY: i32 = -20;

/// How the kernel schedules a tunnel. On a machine with more to do than cores, that decides how late packets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduling {
    /// Before all ordinary processes (SCHED_FIFO).
    RealTime,
    /// With the highest priority of those.
    High,
    /// As one of them.
    Ordinary,
}

/// Asks for the best scheduling of this thread, and not of those processes that it starts.
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

/// What a tunnel is told.
pub struct TunnelOptions {
    /// From the near namespace to the far one.
    pub forward: Link<Carried>,
    /// From the far one to the near one.
    pub reverse: Link<Carried>,
    /// When both traces begin.
    pub start: Start,
    /// Stop this long after that; none means never.
    pub length: Option<Duration>,
    /// Hears of each packet.
    pub log: Option<PacketLog>,
}

/// What a tunnel has done.
#[derive(Debug, Clone, PartialEq)]
pub struct TunnelResult {
    /// What its links have.
    pub carriage: Carriage,
    /// Packets, both ways, that were not from one side's address to the other's: they have no way through here.
    pub strays: u64,
    /// How the kernel scheduled it.
    pub scheduling: Scheduling,
}

/// Nothing is scored.
struct NoMeter;

impl Meter for NoMeter {
    fn sent(&mut self, _: Direction, _: Timestamp, _: ByteCount) {}

    fn received(&mut self, _: Direction, _: &Delivered<Carried>) {}
}

/// Both devices while packets are carried.
struct Devices<'a> {
    devices: &'a [SyncDevice; 2],
    /// Source and destination of what each side sends, for each version of IP.
    ways: [Vec<(IpAddr, IpAddr)>; 2],
    buffer: Vec<u8>,
    strays: u64,
}

impl Tunnel {
    /// Carries packets between the namespaces until the time is up or `go` says to stop. It is asked a few times a second, and
    /// at once where `urgent` says so, after a signal came.
    ///
    /// # Errors
    /// If a device fails, as it does when its namespace is removed.
    pub fn run(
        &self,
        options: TunnelOptions,
        go: impl FnMut(&EmulatorStatus) -> Go,
        urgent: impl FnMut() -> bool,
    ) -> Result<TunnelResult, EmulatorError> {
        let TunnelOptions { forward, reverse, start, length, log } = options;
        // Waits end when they should, and not up to 50 us later, as is good for programs that save power.
        let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
        let scheduling = ask_for_scheduling();
        let ways: Vec<_> = self.near().addresses().zip(self.far().addresses()).collect();
        let back = ways.iter().map(|&(near, far)| (far, near)).collect();
        let buffer = vec![0; LARGEST_PACKET];
        let mut ends = Devices { devices: &self.devices, ways: [ways, back], buffer, strays: 0 };
        let mut path = EmulatedPath::new(Clock::start(), start, [forward, reverse], NoMeter, log)?;
        path.run(&mut ends, length, go, urgent)?;
        let (carriage, NoMeter) = path.finish();
        Ok(TunnelResult { carriage, strays: ends.strays, scheduling })
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
        // A namespace that was removed, a device that is down, no room in the kernel: such a packet is lost, as on any wire.
        // Reading tells whether the device is gone.
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
            for _ in 0..MOST_AT_ONCE {
                match device.recv(&mut self.buffer) {
                    Ok(length) => {
                        let packet = &self.buffer[..length];
                        let way = ip_header::addresses(packet);
                        if way.is_some_and(|way| self.ways[direction as usize].contains(&way)) {
                            came(direction, clock.now(), BytesMut::from(packet));
                        } else {
                            self.strays += 1;
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
