//! `lockstep send`, `lockstep receive` and `lockstep relay`.

use std::collections::BTreeMap;
use std::io::{Read, Write, stdin, stdout};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use lockstep_call::{DisplayRecord, FrameRecord, SendingEnd, SerialMenu};
use lockstep_live::{Ended, LiveError, ReceiverOptions, Relay, RelayOptions, SenderOptions, Stop, ThreadedMenu};
use lockstep_media::{SourceOptions, open_sink, open_source};
use lockstep_units::Timestamp;

use crate::configuration::{ControlArguments, LinkArguments, MenuArgument, counters, seconds};
use crate::destination::{destination, resolve};
use crate::interruption::Interruption;
use crate::progress::write_json;

/// How long the other end of a call may be silent: as long as WebRTC lets consent last (RFC 7675, section 5.1).
const IDLE_SECONDS: &str = "30";

/// A time that may be none.
#[derive(Debug, Clone, Copy)]
struct Limit(Option<Duration>);

/// Reads a time in seconds, or `none`.
fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        text => match seconds(text) {
            Ok(seconds) => Ok(Limit(Some(Duration::from_secs_f64(seconds)))),
            Err(error) => Err(format!("{error}, nor `none`")),
        },
    }
}

/// For the program that runs this one.
#[derive(Debug, Clone, Args)]
struct ProgramArguments {
    /// End in order when standard input ends, as it does when the program that runs this one tells it to or is gone.
    #[arg(long, hide = true)]
    attached: bool,
}

impl ProgramArguments {
    /// Tells whether the call shall end: after an interruption, or because the other program said so.
    fn stop(&self, interruption: &Interruption) -> Stop {
        let interrupted = interruption.asked();
        if !self.attached {
            return Box::new(interrupted);
        }
        let told = Arc::new(AtomicBool::new(false));
        let ended = told.clone();
        thread::spawn(move || {
            let _ = stdin().lock().read_to_end(&mut Vec::new());
            ended.store(true, Ordering::Relaxed);
        });
        Box::new(move || interrupted() || told.load(Ordering::Relaxed))
    }
}

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
    /// Where to: the receiver, or a relay. Of a name's addresses, IPv6 and IPv4, the first that answers is taken.
    #[arg(long, value_name = "HOST:PORT", value_parser = destination)]
    to: String,
    /// The pictures: `generated`, `generated:640x360@25`, a y4m file, `camera` or `/dev/video0`, or anything else that
    /// ffmpeg reads.
    #[arg(long, default_value = "generated")]
    source: String,
    /// Stop after this long; without it the call lasts until the source ends or the receiver leaves.
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Give up when nobody answers within this long; `none` sends without an answer, too.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = limit)]
    wait_seconds: Limit,
    /// Give up when the receiver that answered is silent for this long, or for ever with `none`.
    #[arg(long, value_name = "SECONDS", default_value = IDLE_SECONDS, value_parser = limit)]
    idle_seconds: Limit,
    /// Seed of the generated clip.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    control: ControlArguments,
    /// Where the sender's part of the per-frame log goes, as JSON.
    #[arg(long)]
    log: Option<PathBuf>,
    /// What is printed while the call runs.
    #[arg(long, value_enum, default_value_t = StatusArgument::Line)]
    status: StatusArgument,
    #[command(flatten)]
    program: ProgramArguments,
}

/// What `lockstep receive` is told.
#[derive(Debug, Clone, Args)]
pub struct ReceiveArguments {
    /// Address to listen on; port 0 takes a free one and prints it.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4600")]
    listen: SocketAddr,
    /// Where the pictures go: `window`, `none`, a .y4m file, or an .ivf file for the coded frames.
    #[arg(long, default_value = "none")]
    sink: String,
    /// Give up when no sender calls within this long; with `none` it waits for ever.
    #[arg(long, value_name = "SECONDS", default_value = "none", value_parser = limit)]
    wait_seconds: Limit,
    /// End the call when the sender is silent for this long, or never with `none`.
    #[arg(long, value_name = "SECONDS", default_value = IDLE_SECONDS, value_parser = limit)]
    idle_seconds: Limit,
    /// Where the receiver's part of the per-frame log goes, as JSON.
    #[arg(long)]
    log: Option<PathBuf>,
    /// What is printed while the call runs.
    #[arg(long, value_enum, default_value_t = StatusArgument::Line)]
    status: StatusArgument,
    #[command(flatten)]
    program: ProgramArguments,
}

/// What `lockstep relay` is told.
#[derive(Debug, Clone, Args)]
pub struct RelayArguments {
    /// Address that the sender sends to.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4500")]
    listen: SocketAddr,
    /// Where the receiver listens.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4600", value_parser = destination)]
    to: String,
    #[command(flatten)]
    link: LinkArguments,
    /// Stop this long after the first datagram; without it the relay runs until it is interrupted.
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
}

/// The sender's part of a live call's log.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SenderLog {
    /// One record a captured frame, without what only the receiver knows.
    pub records: Vec<FrameRecord>,
    /// Counters of the transport.
    pub counters: BTreeMap<String, u64>,
}

/// The receiver's part of a live call's log.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ReceiverLog {
    /// One record a picture shown.
    pub displays: Vec<DisplayRecord>,
    /// Counters of the transport.
    pub counters: BTreeMap<String, u64>,
    /// Counts of decoded frames.
    pub decoder: BTreeMap<String, u64>,
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
        captured: usize,
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
    let mut out = stdout().lock();
    let _ = write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush());
}

fn send_status(format: StatusArgument, status: &lockstep_call::SendingStatus, call: &SendingEnd) {
    let captured = call.records().len();
    match format {
        StatusArgument::None => {}
        StatusArgument::Json => {
            let (target_bps, quantizer) = (status.target.as_bps(), status.quantizer);
            say(&StatusLine::Sending { target_bps, quantizer, captured });
        }
        StatusArgument::Line if !call.is_connected() => rewrite(&format!("{captured} captured   nobody answers yet")),
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

/// `lockstep send`.
pub fn send(arguments: &SendArguments) -> Result<()> {
    let peers = resolve(&arguments.to)?;
    let source = open_source(&arguments.source, &SourceOptions { seed: arguments.seed, ..SourceOptions::default() })?;
    let connection = connection_id();
    let call = arguments.control.sending_end(&source.format(), connection, None)?;
    let interruption = Interruption::watch()?;
    let options = SenderOptions {
        peers,
        length: arguments.seconds.map(Duration::from_secs_f64),
        wait_limit: arguments.wait_seconds.0,
        idle_limit: arguments.idle_seconds.0,
        stop: arguments.program.stop(&interruption),
        runner: match arguments.control.menu {
            MenuArgument::Parallel => Box::new(ThreadedMenu),
            MenuArgument::Serial | MenuArgument::Fit => Box::new(SerialMenu),
        },
    };
    let finished = lockstep_live::send(call, source, options, |_, status, call| {
        send_status(arguments.status, status, call);
    });
    let call = finished.end;
    if arguments.status == StatusArgument::Line {
        say!("");
    }
    // Whatever ended the call, what is known of it is kept.
    let written = arguments.log.as_ref().map_or(Ok(()), |path| {
        write_json(path, &SenderLog { records: call.records().to_vec(), counters: counters(&call.statistics()) })
    });
    let ended = finished.result?;
    written?;
    interruption.check()?;
    if arguments.status == StatusArgument::Line && ended == Ended::ByPeer {
        say!("the receiver ended the call");
    }
    if !call.is_connected() && ended == Ended::Done {
        eprintln!("lockstep: nobody answered at {}", arguments.to);
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
    let socket = bind(arguments.listen)?;
    let address = socket.local_addr().context("the socket has no address")?;
    let interruption = Interruption::watch()?;
    match arguments.status {
        StatusArgument::Json => say(&StatusLine::Listening(address)),
        StatusArgument::Line => say!("listening on {address}"),
        StatusArgument::None => {}
    }
    let options = ReceiverOptions {
        wait_limit: arguments.wait_seconds.0,
        idle_limit: arguments.idle_seconds.0,
        stop: arguments.program.stop(&interruption),
    };
    let mut log = ReceiverLog::default();
    let sink = arguments.sink.clone();
    let open = move |format| open_sink(&sink, format);
    let call = ControlArguments::receiving_end();
    let finished = lockstep_live::receive(call, &socket, open, &options, |shown| {
        if arguments.log.is_some() {
            log.displays.push(shown.record);
        }
        let frame = shown.record.frame;
        let delay_ms = shown.record.displayed_at.saturating_since(shown.captured_at).as_secs_f64() * 1e3;
        match arguments.status {
            StatusArgument::None => {}
            StatusArgument::Json => say(&StatusLine::Showing { frame, delay_ms }),
            StatusArgument::Line => rewrite(&format!("frame {frame}   delay {delay_ms:.0} ms")),
        }
    });
    let call = finished.end;
    if arguments.status == StatusArgument::Line {
        say!("");
    }
    // Whatever ended the call, what is known of it is kept.
    let written = arguments.log.as_ref().map_or(Ok(()), |path| {
        log.counters = counters(&call.statistics());
        log.decoder = counters(&call.counts());
        write_json(path, &log)
    });
    let ended = finished.result?;
    written?;
    interruption.check()?;
    if arguments.status == StatusArgument::Line && ended == Ended::ByPeer {
        say!("the sender ended the call");
    }
    Ok(())
}

/// `lockstep relay`.
pub fn relay(arguments: &RelayArguments) -> Result<()> {
    let receivers = resolve(&arguments.to)?;
    let socket = bind(arguments.listen)?;
    let address = socket.local_addr().context("the socket has no address")?;
    let trace = arguments.link.forward_trace()?;
    let (forward, reverse) = arguments.link.links()?;
    let length = arguments.seconds.map(Duration::from_secs_f64);
    let options = RelayOptions { receivers, forward, reverse, length };
    let interruption = Interruption::watch()?;
    say!("relaying {address} -> {}", arguments.to);
    Relay::run(&socket, options, |status| {
        let capacity = trace.capacity_at(Timestamp::ZERO + status.elapsed);
        rewrite(&format!(
            "{:.0} s   capacity {capacity}   {} delivered   {} dropped",
            status.elapsed.as_secs_f64(),
            status.forward.delivered.packets,
            status.forward.dropped_by_queue.packets + status.forward.lost().packets
        ));
        interruption.check().is_ok()
    })?;
    say!("");
    Ok(interruption.check()?)
}
