//! `lockstep emulate`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use lockstep_configuration::{LinkWords, OptionValue, Seconds};
use lockstep_emulator::{Emulator, EmulatorOptions, EmulatorSocket, Move};
use lockstep_live::Ticket;
use lockstep_runner::interruption::Interruption;
use lockstep_runner::output_file;
use lockstep_runner::progress::ChangingLine;
use lockstep_units::Timestamp;

#[cfg(all(target_os = "linux", feature = "lab"))]
use crate::commands::tunnel::{self, TunnelArguments};
use crate::destination::{destination, resolve};
use crate::packet_csv::PacketCsv;
use crate::reporter::StatusArgument;

/// The far side of an emulator.
#[derive(Debug, Clone)]
enum FarSide {
    Ticket(Ticket),
    Address(String),
}

fn far_side(text: &str) -> Result<FarSide, String> {
    match text.parse::<Ticket>() {
        Ok(ticket) => Ok(FarSide::Ticket(ticket)),
        Err(error) => destination(text).map(FarSide::Address).map_err(|or| format!("{error}; and {or}")),
    }
}

/// What `lockstep emulate` is told.
#[derive(Debug, Clone, Args)]
pub struct EmulateArguments {
    /// Where the far side is: a ticket, of which the emulator prints one that leads through it, or an address.
    #[arg(value_name = "TICKET|HOST:PORT", value_parser = far_side, required_unless_present = "tun")]
    to: Option<FarSide>,
    /// Address that the near side sends to; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    listen: SocketAddr,
    #[command(flatten)]
    link: LinkWords,
    /// When the near side changes its network: the far side finds it at another port from then on, and nobody at the old one.
    /// May be given again.
    #[arg(long, value_name = "SECONDS", value_parser = Seconds::from_word)]
    near_moves_at: Vec<Seconds>,
    /// When the far side changes its network. May be given again.
    #[arg(long, value_name = "SECONDS", value_parser = Seconds::from_word)]
    far_moves_at: Vec<Seconds>,
    /// Lose packets larger than so many bytes, headers of IP and UDP included. QUIC takes at least 1,228 over IPv4.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u64>,
    /// Stop this long after the first datagram, or with --tun after the start.
    #[arg(long, value_parser = Seconds::from_word)]
    seconds: Option<Seconds>,
    /// Where a row for each packet goes, CSV: when it came in and out, or why it was dropped.
    #[arg(long)]
    log: Option<PathBuf>,
    /// What is printed while it runs, `line` by default. With --tun, `none` by default while a program runs in it; `json` is for
    /// --tun only, begins with a line on the namespaces, and goes to standard error while a program runs.
    #[arg(long, value_enum)]
    status: Option<StatusArgument>,
    #[cfg(all(target_os = "linux", feature = "lab"))]
    #[command(flatten)]
    tunnel: TunnelArguments,
}

/// `lockstep emulate`.
pub fn run(arguments: &EmulateArguments) -> Result<()> {
    #[cfg(all(target_os = "linux", feature = "lab"))]
    if arguments.tunnel.tun {
        let (tunnel, log) = (&arguments.tunnel, arguments.log.as_deref());
        return tunnel::run(tunnel, arguments.status, &arguments.link, arguments.seconds, log);
    }
    #[cfg(all(target_os = "linux", feature = "lab"))]
    arguments.tunnel.refuse()?;
    let status = arguments.status.unwrap_or(StatusArgument::Line);
    if status == StatusArgument::Json {
        bail!("--status json is for --tun; choose line or none");
    }
    let socket = EmulatorSocket::bind(arguments.listen)?;
    let near = socket.addresses()?;
    let link = arguments.link.settings()?;
    let trace = link.trace.trace();
    link.refuse_ecn()?;
    let (forward, reverse) = link.links()?;
    output_file::check(&[("--log", arguments.log.as_deref())], &link.inputs())?;
    let (packets, log) = arguments.log.as_deref().map(PacketCsv::create).transpose()?.unzip();
    let interruption = Interruption::watch()?;
    let to = match arguments.to.as_ref().context("where is the far side?")? {
        FarSide::Ticket(ticket) => {
            let through = Ticket { addresses: near, rendezvous: Vec::new(), ..ticket.clone() };
            say!("ticket: {through}");
            ticket.addresses.clone()
        }
        FarSide::Address(name) => {
            say!(
                "emulating a link from {} to {name}",
                near.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            );
            resolve(name)?
        }
    };
    let near = arguments.near_moves_at.iter().map(|at| (at.get(), Move::Near));
    let far = arguments.far_moves_at.iter().map(|at| (at.get(), Move::Far));
    let options = EmulatorOptions {
        to,
        forward,
        reverse,
        length: arguments.seconds.map(Seconds::get),
        scored: Duration::ZERO,
        moves: near.chain(far).collect(),
        log,
        mtu: arguments.mtu,
    };
    let (mut changing, mut written) = (ChangingLine::default(), Ok(()));
    Emulator::run(socket, options, |now| {
        let capacity = trace.capacity_at(Timestamp::ZERO + now.elapsed);
        if status == StatusArgument::Line {
            changing.change(&format!(
                "{:.0} s   capacity {capacity}   {} delivered   {} dropped",
                now.elapsed.as_secs_f64(),
                now.forward.delivered.packets,
                now.forward.dropped_by_queue.packets + now.forward.lost().packets
            ));
        }
        written = packets.as_ref().map_or(Ok(()), PacketCsv::flush);
        interruption.check().is_ok() && written.is_ok()
    })?;
    changing.end();
    written?;
    Ok(interruption.check()?)
}
