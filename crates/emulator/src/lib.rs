//! Real-time emulator: links between real processes, over UDP sockets ([`Emulator`]) or between network namespaces
//! (`Tunnel`, on Linux).
#![forbid(unsafe_code)]

mod emulate;
mod emulated_path;
mod error;
#[cfg(all(target_os = "linux", feature = "tunnel"))]
mod tunnel;

pub use emulate::{Emulator, EmulatorOptions, EmulatorSocket, Move};
pub use emulated_path::{
    Direction, EmulationResult, EmulatorStatus, Fate, Lateness, NextAction, PacketInLink, PacketLog, PacketRecord,
    Start,
};
pub use error::EmulatorError;
#[cfg(all(target_os = "linux", feature = "tunnel"))]
pub use tunnel::{
    Namespace, Scheduling, Tunnel, TunnelError, TunnelOptions, TunnelResult, is_in_own_user_namespace,
    run_again_in_user_namespace,
};
