//! `lockstep emulate`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use lockstep_configuration::{LinkArguments, OptionValue, Seconds};
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

/// Arguments of `lockstep emulate`.
#[derive(Debug, Clone, Args)]
pub struct EmulateArguments {
    /// Far side: an address, or a ticket, from which the emulator makes a ticket that leads through it.
    #[arg(value_name = "TICKET|HOST:PORT", value_parser = far_side)]
    #[cfg_attr(all(target_os = "linux", feature = "lab"), arg(required_unless_present = "tun"))]
    #[cfg_attr(not(all(target_os = "linux", feature = "lab")), arg(required = true))]
    to: Option<FarSide>,
    /// Address that the near side sends to; port 0 chooses a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    listen: SocketAddr,
    #[command(flatten)]
    link: LinkArguments,
    /// Time at which the near side changes its network. From then on, the far side finds it at another port, and nobody
    /// at the old one. May be repeated.
    #[arg(long, value_name = "SECONDS", value_parser = Seconds::from_word)]
    near_moves_at: Vec<Seconds>,
    /// Time at which the far side changes its network. May be repeated.
    #[arg(long, value_name = "SECONDS", value_parser = Seconds::from_word)]
    far_moves_at: Vec<Seconds>,
    /// Drop packets larger than this, including the headers of IP and UDP. QUIC requires at least 1,228 bytes over
    /// IPv4.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u64>,
    /// Stop this time after the first datagram, or with --tun after the start.
    #[arg(long, value_parser = Seconds::from_word)]
    seconds: Option<Seconds>,
    /// CSV file with a row for each packet: its arrival and departure, or the reason for its drop.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Status that is printed during the run, `line` by default. With --tun and a program, the default is `none`.
    /// `json` requires --tun, begins with a line on the namespaces, and goes to standard error while a program runs.
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
    let to = match arguments.to.as_ref().context("no far side was given; name a ticket or HOST:PORT")? {
        FarSide::Ticket(ticket) => {
            let through = Ticket { addresses: near, rendezvous: Vec::new(), ..ticket.clone() };
            print_line!("ticket: {through}");
            ticket.addresses.clone()
        }
        FarSide::Address(name) => {
            print_line!(
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
