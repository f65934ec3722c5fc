//! `lockstep rendezvous`: server through which peers find each other.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use clap::Args;

use lockstep_live::{RendezvousLimits, RendezvousServer, RendezvousStatus};
use lockstep_runner::interruption::Interruption;
use lockstep_runner::progress::ChangingLine;
use lockstep_units::Bitrate;
use lockstep_units::quantity::parse_rate;

use crate::observation::{metrics_address, serve_rendezvous};

/// Default port of a rendezvous.
const PORT: u16 = 4610;

/// Arguments of `lockstep rendezvous`.
#[derive(Debug, Clone, Args)]
pub struct RendezvousArguments {
    /// UDP address to listen on; peers must be able to reach it. The unspecified address of IPv6 also accepts IPv4.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)))]
    listen: SocketAddr,
    /// Maximum number of concurrent calls, including those that wait for a peer; each needs about 1 kB.
    #[arg(long, value_name = "COUNT", default_value_t = RendezvousLimits::default().calls)]
    calls: usize,
    /// Maximum number of concurrent calls from one address (IPv6: from one network of 64 bits).
    #[arg(long, value_name = "COUNT", default_value_t = RendezvousLimits::default().calls_per_address)]
    calls_per_address: usize,
    /// Maximum relayed rate per call and direction, for peers without a direct path; packets above it are dropped.
    #[arg(long, value_name = "RATE", default_value = "4mbps", value_parser = rate)]
    relay_rate: Bitrate,
    /// Maximum relayed rate of all calls together.
    #[arg(long, value_name = "RATE", default_value = "100mbps", value_parser = rate)]
    total_relay_rate: Bitrate,
    /// Relay nothing: only introduce the peers to each other.
    #[arg(long, conflicts_with_all = ["relay_rate", "total_relay_rate"])]
    no_relay: bool,
    /// Serve Prometheus metrics under `/metrics`: calls, meetings, relayed packets and refusals. A port alone is on this
    /// machine only (127.0.0.1); anybody who reaches another address can read them.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
    /// Print only the address.
    #[arg(long)]
    quiet: bool,
}

fn rate(text: &str) -> Result<Bitrate, String> {
    match parse_rate(text) {
        Ok(rate) if rate > Bitrate::ZERO => Ok(rate),
        _ => Err(format!("expected a rate such as 4mbps or 500kbps, found `{text}`")),
    }
}

/// `lockstep rendezvous`.
pub fn run(arguments: &RendezvousArguments) -> Result<()> {
    if arguments.calls == 0 || arguments.calls_per_address == 0 {
        bail!("--calls and --calls-per-address: expected at least 1, found 0");
    }
    let limits = RendezvousLimits {
        calls: arguments.calls,
        calls_per_address: arguments.calls_per_address,
        relay_rate: if arguments.no_relay { Bitrate::ZERO } else { arguments.relay_rate },
        total_relay_rate: arguments.total_relay_rate,
    };
    let server = RendezvousServer::bind(arguments.listen, limits)?;
    let interruption = Interruption::watch()?;
    let addresses = server.addresses()?;
    if arguments.listen.ip().is_unspecified() && addresses.iter().all(|address| address.ip().is_loopback()) {
        eprint_line!("lockstep: warning: this machine has no network address; only local peers reach the rendezvous");
    }
    for address in addresses {
        print_line!("rendezvous at {address}; talk through it with: lockstep talk --rendezvous {address}");
    }
    let newest = Arc::new(Mutex::new(RendezvousStatus::default()));
    if let Some(address) = arguments.metrics {
        print_line!("metrics at {}", serve_rendezvous(address, Arc::clone(&newest))?);
    }
    let (quiet, mut changing) = (arguments.quiet, ChangingLine::default());
    server.run(|status| {
        *newest.lock().unwrap_or_else(PoisonError::into_inner) = *status;
        if !quiet {
            changing.change(&format!(
                "{} calls   {} met   {:.1} MB relayed   {} packets dropped   {} refused",
                status.calls,
                status.met,
                status.relayed_bytes as f64 / 1e6,
                status.dropped_packets,
                status.refused
            ));
        }
        interruption.check().is_ok()
    })?;
    changing.end();
    Ok(interruption.check()?)
}
