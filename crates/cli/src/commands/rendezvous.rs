//! `lockstep rendezvous`: the server by which two ends of a call find each other.

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

/// The port of a rendezvous, unless another is said.
const PORT: u16 = 4610;

/// What `lockstep rendezvous` is told.
#[derive(Debug, Clone, Args)]
pub struct RendezvousArguments {
    /// UDP address to listen on; it must be reachable from where the calls are made. The unspecified address of IPv6 takes IPv4
    /// along.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)))]
    listen: SocketAddr,
    /// Calls at once, those that wait for their second end included; each takes about 1 kB.
    #[arg(long, value_name = "COUNT", default_value_t = RendezvousLimits::default().calls)]
    calls: usize,
    /// Calls at once that may be begun from one address (of IPv6: from one network of 64 bits).
    #[arg(long, value_name = "COUNT", default_value_t = RendezvousLimits::default().calls_per_address)]
    calls_per_address: usize,
    /// Rate that is relayed for a call in each direction where its ends find no direct way; packets beyond it are dropped, as a
    /// link does.
    #[arg(long, value_name = "RATE", default_value = "4mbps", value_parser = rate)]
    relay_rate: Bitrate,
    /// Rate that is relayed for all calls together.
    #[arg(long, value_name = "RATE", default_value = "100mbps", value_parser = rate)]
    total_relay_rate: Bitrate,
    /// Relay nothing: the ends are told of each other, and that is all.
    #[arg(long, conflicts_with_all = ["relay_rate", "total_relay_rate"])]
    no_relay: bool,
    /// Serve what it does to Prometheus, under `/metrics`: calls, meetings, what was relayed and refused. A port alone is one of
    /// this machine's own (127.0.0.1); at another address everybody who reaches it can read it.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
    /// Print where it is, and nothing more.
    #[arg(long)]
    quiet: bool,
}

fn rate(text: &str) -> Result<Bitrate, String> {
    match parse_rate(text) {
        Ok(rate) if rate > Bitrate::ZERO => Ok(rate),
        _ => Err(format!("`{text}` is no rate, such as 4mbps or 500kbps")),
    }
}

/// `lockstep rendezvous`.
pub fn run(arguments: &RendezvousArguments) -> Result<()> {
    if arguments.calls == 0 || arguments.calls_per_address == 0 {
        bail!("--calls and --calls-per-address: a rendezvous of no calls does nothing; say 1 or more");
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
        aside!("lockstep: warning: this machine is on no network that it knows of: the rendezvous is for itself only");
    }
    for address in addresses {
        say!("rendezvous at {address}; talk through it with: lockstep talk --rendezvous {address}");
    }
    let newest = Arc::new(Mutex::new(RendezvousStatus::default()));
    if let Some(address) = arguments.metrics {
        say!("metrics at {}", serve_rendezvous(address, Arc::clone(&newest))?);
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
