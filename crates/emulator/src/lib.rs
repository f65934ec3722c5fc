//! The real-time emulator: links between real processes, over UDP sockets ([`Emulator`]) or between network namespaces
//! (`Tunnel`, on Linux).
//!
//! It owns what it shares with live calls: the [`Clock`], [`Sockets`] of both families with their [`Reader`]s, and
//! [`Thread`]s whose end is noticed.
#![forbid(unsafe_code)]

mod asked;
mod clock;
mod datagrams;
mod emulate;
mod emulated_path;
mod error;
mod packet_info;
mod sockets;
mod threads;
#[cfg(target_os = "linux")]
mod tunnel;

pub use clock::{Clock, Origin};
pub use datagrams::{Admission, Incoming, Reader};
pub use emulate::{Emulator, EmulatorOptions, EmulatorSocket, Move};
pub use emulated_path::{
    Carriage, Carried, Direction, EmulatorStatus, Fate, Go, Lateness, PacketLog, PacketRecord, Start,
};
pub use error::{EmulatorError, SystemError};
pub use sockets::Sockets;
pub use threads::Thread;
#[cfg(target_os = "linux")]
pub use tunnel::{
    Namespace, Scheduling, Tunnel, TunnelError, TunnelOptions, TunnelResult, is_in_own_user_namespace,
    run_again_in_user_namespace,
};
