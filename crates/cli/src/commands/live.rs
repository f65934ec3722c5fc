//! `lockstep send`, `lockstep receive` and `lockstep relay`.

use std::io::{Read, Write, stdin, stdout};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use lockstep_call::{MenuMode, SendingEnd, SerialMenu};
use lockstep_live::{Ended, LiveError, ReceiverOptions, Relay, RelayOptions, SenderOptions, Stop, ThreadedMenu};
use lockstep_media::{SourceOptions, open_sink, open_source, sink_path};
use lockstep_units::Timestamp;
use lockstep_vp8::DEFAULT_PIXEL_LIMIT;

use crate::call_logs::{LogWriter, ReceiverEntry, SenderEntry};
use crate::configuration::{ControlSettings, ControlWords, LinkWords, ModelFile, OptionValue, Seconds, counters};
use crate::destination::{destination, resolve};
use crate::interruption::Interruption;
use crate::output_file::{self, for_people, standard_output_is_taken};

/// How long the other end of a call may be silent: as long as WebRTC lets consent last (RFC 7675, section 5.1).
const IDLE_SECONDS: &str = "30";

/// A time that may be none.
#[derive(Debug, Clone, Copy)]
struct Limit(Option<Duration>);

/// Reads a time in seconds, or `none`.
fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        text => match Seconds::from_word(text) {
            Ok(seconds) => Ok(Limit(Some(seconds.get()))),
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
    #[arg(long, value_parser = Seconds::from_word)]
    seconds: Option<Seconds>,
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
    control: ControlWords,
    /// Where the sender's part of the per-frame log goes while the call runs, a line of JSON for each frame.
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
    /// Where the pictures go: `window`, `none`, a .y4m file, or an .ivf file for the coded frames; `-` is y4m on standard
    /// output. A file grows while the call lasts: what a killed receiver has recorded is there.
    #[arg(long, default_value = "none")]
    sink: String,
    /// Decode no picture of more pixels than this; the default is what 8K video needs.
    #[arg(long, value_name = "PIXELS", default_value_t = DEFAULT_PIXEL_LIMIT)]
    max_pixels: usize,
    /// Give up when no sender calls within this long; with `none` it waits for ever.
    #[arg(long, value_name = "SECONDS", default_value = "none", value_parser = limit)]
    wait_seconds: Limit,
    /// End the call when the sender is silent for this long, or never with `none`.
    #[arg(long, value_name = "SECONDS", default_value = IDLE_SECONDS, value_parser = limit)]
    idle_seconds: Limit,
    /// The model of a learned estimator at the receiver (`bob`, `hrcc`, `gemini`, `mmsys24`), an ONNX file, in the place of
    /// the one that comes with it.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Where the receiver's part of the per-frame log goes while the call runs, a line of JSON for each picture shown.
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
    link: LinkWords,
    /// Stop this long after the first datagram; without it the relay runs until it is interrupted.
    #[arg(long, value_parser = Seconds::from_word)]
    seconds: Option<Seconds>,
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
    let peers = resolve(&arguments.to)?;
    let source = open_source(&arguments.source, &SourceOptions { seed: arguments.seed, ..SourceOptions::default() })?;
    let connection = connection_id();
    let control = arguments.control.settings()?;
    let call = control.sending_end(&source.format(), connection, None)?;
    let interruption = Interruption::watch()?;
    let options = SenderOptions {
        peers,
        length: arguments.seconds.map(Seconds::get),
        wait_limit: arguments.wait_seconds.0,
        idle_limit: arguments.idle_seconds.0,
        stop: arguments.program.stop(&interruption),
        runner: match control.menu {
            MenuMode::Parallel => Box::new(ThreadedMenu),
            MenuMode::Serial | MenuMode::Fit { .. } => Box::new(SerialMenu),
        },
        measures_quality: arguments.log.is_some(),
    };
    let mut log = arguments.log.as_deref().map(LogWriter::create).transpose()?;
    let status = |_, status: &lockstep_call::SendingStatus, call: &SendingEnd| {
        send_status(arguments.status, status, call);
    };
    let finished = lockstep_live::send(call, source, options, status, |record| {
        if let Some(log) = &mut log {
            log.write(&SenderEntry::Frame(Box::new(record)));
        }
    });
    let call = finished.end;
    if arguments.status == StatusArgument::Line {
        say!("");
    }
    // Whatever ended the call, what is known of it is kept.
    let written = log.map_or(Ok(()), |mut log| {
        let decisions = call.controller_counters().into_iter();
        let decisions = decisions.map(|(name, count)| (format!("controller_{name}"), count));
        log.write(&SenderEntry::End { counters: counters(&call.statistics()).into_iter().chain(decisions).collect() });
        log.finish()
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
    let outputs = [("--sink", sink_path(&arguments.sink)?), ("--log", arguments.log.as_deref())];
    let inputs: Vec<&Path> = arguments.model.as_deref().into_iter().collect();
    check(&outputs, &inputs, arguments.status)?;
    let model = arguments.model.as_deref().map(ModelFile::open_for_receiver).transpose()?;
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
    let mut log = arguments.log.as_deref().map(LogWriter::create).transpose()?;
    let sink = arguments.sink.clone();
    let open = move |format| open_sink(&sink, format);
    let call = ControlSettings::receiving_end_with(model.as_ref()).with_pixel_limit(arguments.max_pixels);
    let finished = lockstep_live::receive(call, &socket, open, &options, |shown| {
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
    });
    let call = finished.end;
    if arguments.status == StatusArgument::Line {
        say!("");
    }
    // Whatever ended the call, what is known of it is kept.
    let written = log.map_or(Ok(()), |mut log| {
        log.write(&ReceiverEntry::End { counters: counters(&call.statistics()), decoder: counters(&call.counts()) });
        log.finish()
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
    let link = arguments.link.settings()?;
    let trace = link.trace.trace();
    link.refuse_ecn()?;
    let (forward, reverse) = link.links()?;
    let length = arguments.seconds.map(Seconds::get);
    let options = RelayOptions { receivers, forward, reverse, length, scored: Duration::ZERO };
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
