//! `lockstep send`, `lockstep receive` and `lockstep relay`.

use std::io::{Write, stdout};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use lockstep_call::{SendingEnd, SerialMenu};
use lockstep_live::{LiveError, ReceiverOptions, Relay, RelayOptions, SenderOptions, ThreadedMenu};
use lockstep_media::{SourceOptions, open_sink, open_source, sink_path};
use lockstep_units::Timestamp;
use lockstep_vp8::DEFAULT_PIXEL_LIMIT;

use crate::call_logs::{LogWriter, ReceiverEntry, SenderEntry};
use crate::configuration::{ControlArguments, LinkArguments, MenuArgument, counters, seconds};
use crate::output_file::{self, for_people, standard_output_is_taken};

/// What a process prints of a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusArgument {
    /// One line that is written over.
    Line,
    /// A line of JSON a few times a second, for another program.
    Json,
    /// Nothing.
    None,
}

/// What `lockstep send` is told.
#[derive(Debug, Clone, Args)]
pub struct SendArguments {
    /// Where to: the receiver's address, or a relay's.
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddr,
    /// The pictures: `generated`, `generated:640x360@25`, a y4m file, `camera` or `/dev/video0`, or anything else that
    /// ffmpeg reads.
    #[arg(long, default_value = "generated")]
    source: String,
    /// Stop after this long; without it the call lasts until the source ends or the receiver leaves.
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Seed of the generated clip.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    control: ControlArguments,
    /// Where the sender's part of the per-frame log goes while the call runs, a line of JSON for each frame.
    #[arg(long)]
    log: Option<PathBuf>,
    /// What is printed while the call runs.
    #[arg(long, value_enum, default_value_t = StatusArgument::Line)]
    status: StatusArgument,
}

/// What `lockstep receive` is told.
#[derive(Debug, Clone, Args)]
pub struct ReceiveArguments {
    /// Address to listen on; port 0 takes a free one and prints it.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4600")]
    listen: SocketAddr,
    /// Where the pictures go: `window`, `none`, a .y4m file, or an .ivf file for the coded frames; `-` is y4m on standard
    /// output. A file grows while the call lasts: what a killed receiver has recorded is there.
    #[arg(long, default_value = "none")]
    sink: String,
    /// Decode no picture of more pixels than this; the default is what 8K video needs.
    #[arg(long, value_name = "PIXELS", default_value_t = DEFAULT_PIXEL_LIMIT)]
    max_pixels: usize,
    /// Give up after this long without a datagram.
    #[arg(long, value_parser = seconds)]
    idle_seconds: Option<f64>,
    #[command(flatten)]
    control: ControlArguments,
    /// Where the receiver's part of the per-frame log goes while the call runs, a line of JSON for each picture shown.
    #[arg(long)]
    log: Option<PathBuf>,
    /// What is printed while the call runs.
    #[arg(long, value_enum, default_value_t = StatusArgument::Line)]
    status: StatusArgument,
}

/// What `lockstep relay` is told.
#[derive(Debug, Clone, Args)]
pub struct RelayArguments {
    /// Address that the sender sends to.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4500")]
    listen: SocketAddr,
    /// Address that the receiver listens on.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4600")]
    to: SocketAddr,
    #[command(flatten)]
    link: LinkArguments,
    /// Stop this long after the first datagram; without it the relay runs until it is interrupted.
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
}

/// What a process says of itself on a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusLine {
    /// The receiver is ready at this address.
    Listening(SocketAddr),
    /// The sender's state.
    Sending {
        /// The controller's target, bit/s.
        target_bps: u64,
        /// Quantizer of the last frame.
        quantizer: Option<u8>,
        /// Pictures captured so far.
        captured: u64,
    },
    /// A picture was shown.
    Showing {
        /// Frame number on the wire.
        frame: u32,
        /// Capture to display, milliseconds.
        delay_ms: f64,
    },
}

/// Prints a line of JSON at once; a reader that went away is no reason to stop a call.
fn say(line: &StatusLine) {
    if let Ok(text) = serde_json::to_string(line) {
        let mut out = stdout().lock();
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    }
}

/// Writes a line over the one before.
fn rewrite(line: &str) {
    let mut out = for_people();
    let _ = write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush());
}

fn send_status(format: StatusArgument, status: &lockstep_call::SendingStatus, call: &SendingEnd) {
    let captured = call.captured();
    match format {
        StatusArgument::None => {}
        StatusArgument::Json => {
            let (target_bps, quantizer) = (status.target.as_bps(), status.quantizer);
            say(&StatusLine::Sending { target_bps, quantizer, captured });
        }
        StatusArgument::Line => {
            let quantizer = status.quantizer.map_or_else(|| "-".to_owned(), |quantizer| quantizer.to_string());
            let round_trip =
                status.round_trip_time.map_or_else(|| "-".to_owned(), |time| format!("{} ms", time.as_millis()));
            rewrite(&format!(
                "{captured} captured   target {}   q {quantizer}   round trip {round_trip}",
                status.target
            ));
        }
    }
}

/// Finds out whether the outputs of a process can be written; its status may be on standard output itself.
fn check(outputs: &[(&str, Option<&Path>)], inputs: &[&Path], status: StatusArgument) -> Result<()> {
    output_file::check(outputs, inputs)?;
    if status == StatusArgument::Json && standard_output_is_taken() {
        bail!("--status json writes to standard output, and so does an output called -; name a file");
    }
    Ok(())
}

/// `lockstep send`.
pub fn send(arguments: &SendArguments) -> Result<()> {
    check(&[("--log", arguments.log.as_deref())], &[Path::new(&arguments.source)], arguments.status)?;
    let source = open_source(&arguments.source, &SourceOptions { seed: arguments.seed, ..SourceOptions::default() })?;
    let connection = connection_id();
    let call = arguments.control.sending_end(&source.format(), connection, None)?;
    let options = SenderOptions {
        peer: arguments.to,
        length: arguments.seconds.map(Duration::from_secs_f64),
        runner: match arguments.control.menu {
            MenuArgument::Parallel => Box::new(ThreadedMenu),
            MenuArgument::Serial | MenuArgument::Fit => Box::new(SerialMenu),
        },
    };
    let mut log = arguments.log.as_deref().map(LogWriter::create).transpose()?;
    let status = |_, status: &lockstep_call::SendingStatus, call: &SendingEnd| {
        send_status(arguments.status, status, call);
    };
    let call = lockstep_live::send(call, source, options, status, |record| {
        if let Some(log) = &mut log {
            log.write(&SenderEntry::Frame(Box::new(record)));
        }
    })?;
    if arguments.status == StatusArgument::Line {
        say!("");
    }
    if let Some(mut log) = log {
        log.write(&SenderEntry::End { counters: counters(&call.statistics()) });
        log.finish()?;
    }
    Ok(())
}

/// A connection number that another call on this machine will hardly have.
fn connection_id() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as u32
}

/// Binds a UDP socket, or says why not.
pub fn bind(address: SocketAddr) -> Result<UdpSocket> {
    Ok(UdpSocket::bind(address).map_err(|error| LiveError::Bind { address, error })?)
}

/// `lockstep receive`.
pub fn receive(arguments: &ReceiveArguments) -> Result<()> {
    let outputs = [("--sink", sink_path(&arguments.sink)?), ("--log", arguments.log.as_deref())];
    check(&outputs, &[], arguments.status)?;
    let socket = bind(arguments.listen)?;
    let address = socket.local_addr().context("the socket has no address")?;
    match arguments.status {
        StatusArgument::Json => say(&StatusLine::Listening(address)),
        StatusArgument::Line => say!("listening on {address}"),
        StatusArgument::None => {}
    }
    let options = ReceiverOptions { idle_limit: arguments.idle_seconds.map(Duration::from_secs_f64) };
    let mut log = arguments.log.as_deref().map(LogWriter::create).transpose()?;
    let sink = arguments.sink.clone();
    let open = move |format| open_sink(&sink, format);
    let end = arguments.control.receiving_end().with_pixel_limit(arguments.max_pixels);
    let call = lockstep_live::receive(end, &socket, open, &options, |shown| {
        if let Some(log) = &mut log {
            log.write(&ReceiverEntry::Display(shown.record));
        }
        let frame = shown.record.frame;
        let delay_ms = shown.record.displayed_at.saturating_since(shown.captured_at).as_secs_f64() * 1e3;
        match arguments.status {
            StatusArgument::None => {}
            StatusArgument::Json => say(&StatusLine::Showing { frame, delay_ms }),
            StatusArgument::Line => rewrite(&format!("frame {frame}   delay {delay_ms:.0} ms")),
        }
    })?;
    if arguments.status == StatusArgument::Line {
        say!("");
    }
    if let Some(mut log) = log {
        log.write(&ReceiverEntry::End { counters: counters(&call.statistics()), decoder: counters(&call.counts()) });
        log.finish()?;
    }
    Ok(())
}

/// `lockstep relay`.
pub fn relay(arguments: &RelayArguments) -> Result<()> {
    let socket = bind(arguments.listen)?;
    let address = socket.local_addr().context("the socket has no address")?;
    say!("relaying {address} -> {}", arguments.to);
    let trace = arguments.link.forward_trace()?;
    let (forward, reverse) = arguments.link.links()?;
    let length = arguments.seconds.map(Duration::from_secs_f64);
    let options = RelayOptions { receiver: arguments.to, forward, reverse, length, scored: Duration::ZERO };
    Relay::run(&socket, options, |status| {
        let capacity = trace.capacity_at(Timestamp::ZERO + status.elapsed);
        rewrite(&format!(
            "{:.0} s   capacity {capacity}   {} delivered   {} dropped",
            status.elapsed.as_secs_f64(),
            status.forward.delivered.packets,
            status.forward.dropped_by_queue.packets + status.forward.lost().packets
        ));
        true
    })?;
    say!("");
    Ok(())
}
