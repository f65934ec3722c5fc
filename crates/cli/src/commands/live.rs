//! `lockstep send` and `lockstep receive`.

use std::env;
use std::io::{BufRead, IsTerminal, Read, Write, stderr, stdin, stdout};
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use lockstep_call::{FrameRecord, MenuMode, MenuRunner, ReceivingEnd, SendingEnd, SerialMenu};
use lockstep_live::{
    CallKind, CallOptions, Clock, Ended, Finished, Identity, Listener, OpenSink, Peer, Receiving, Sending, Shown, Stop,
    ThreadedMenu, Ticket, Witness,
};
use lockstep_media::{SourceOptions, open_sink, open_source, sink_path};
use lockstep_units::Timestamp;

use crate::call_logs::{LogWriter, ReceiverEntry, SenderEntry};
use crate::commands::live_sound::{HearingArguments, LiveSound, SpeakingArguments};
use crate::configuration::{ControlSettings, ControlWords, ModelFile, OptionValue, Seconds, counters};
use crate::destination::{destination, resolve};
use crate::interruption::Interruption;
use crate::live_stats::StatsLog;
use crate::output_file::{self, for_people, standard_output_is_taken};
use crate::progress::print_sound;
use crate::session_log::arguments::SessionArguments;
use crate::session_log::{LiveSessionLog, SessionLog};

/// The most pixels of a picture that is decoded unless more are asked for, those of 4096x2304. A frame is 1.5 bytes a pixel,
/// 14 MB of these, and at most some 40 are held.
pub const MOST_PIXELS: usize = 4096 * 2304;
/// How long the other end of a call may be silent: as long as WebRTC lets consent last (RFC 7675, section 5.1).
pub const IDLE_SECONDS: &str = "30";

/// A time that may be none.
#[derive(Debug, Clone, Copy)]
pub struct Limit(pub Option<Duration>);

/// Reads a time in seconds, or `none`.
pub fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        text => match Seconds::from_word(text) {
            Ok(seconds) => Ok(Limit(Some(seconds.get()))),
            Err(error) => Err(format!("{error}, nor `none`")),
        },
    }
}

/// Where the counts of a call go.
#[derive(Debug, Clone, Args)]
pub struct StatsArguments {
    /// Where the call's counts go while it runs, a line of JSON a second under the names of W3C's webrtc-stats; `-` is
    /// standard output.
    #[arg(long = "stats", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

impl StatsArguments {
    /// The option and its file, to be checked with the others.
    pub fn output(&self) -> (&'static str, Option<&Path>) {
        ("--stats", self.file.as_deref())
    }
}

/// For the program that runs this one.
#[derive(Debug, Clone, Args)]
pub struct ProgramArguments {
    /// End in order when standard input ends, as it does when the program that runs this one tells it to or is gone.
    #[arg(long, hide = true)]
    attached: bool,
}

impl ProgramArguments {
    /// Tells whether the call shall end: after an interruption, or because the other program said so.
    pub fn stop(&self, interruption: &Interruption) -> Stop {
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
    /// The ticket that `lockstep receive` printed; without it LOCKSTEP_TICKET is taken, or it is asked for.
    ticket: Option<String>,
    /// The pictures: `generated`, `generated:640x360@25`, a y4m file, `camera` or `/dev/video0`, or anything else that
    /// ffmpeg reads.
    #[arg(long, default_value = "generated")]
    source: String,
    /// Stop after this long; without it the call lasts until the source ends or the receiver leaves.
    #[arg(long, value_parser = Seconds::from_word)]
    seconds: Option<Seconds>,
    /// Give up when nobody answers within this long; with `none` it goes on trying.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = limit)]
    wait_seconds: Limit,
    /// Give up when the receiver that answered is silent for this long, or for ever with `none`.
    #[arg(long, value_name = "SECONDS", default_value = IDLE_SECONDS, value_parser = limit)]
    idle_seconds: Limit,
    /// Seed of the generated clip.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    speaking: SpeakingArguments,
    #[command(flatten)]
    control: ControlWords,
    /// Where the sender's part of the per-frame log goes while the call runs, a line of JSON for each frame.
    #[arg(long)]
    log: Option<PathBuf>,
    #[command(flatten)]
    stats: StatsArguments,
    #[command(flatten)]
    session: SessionArguments,
    /// What is printed while the call runs.
    #[arg(long, value_enum, default_value_t = StatusArgument::Line)]
    status: StatusArgument,
    #[command(flatten)]
    program: ProgramArguments,
}

/// What `lockstep receive` is told.
#[derive(Debug, Clone, Args)]
pub struct ReceiveArguments {
    #[command(flatten)]
    listening: ListeningArguments,
    /// Where the pictures go: `window`, `none`, a .y4m file, or an .ivf file for the coded frames; `-` is y4m on standard
    /// output. A file grows while the call lasts: what a killed receiver has recorded is there.
    #[arg(long, default_value = "none")]
    sink: String,
    #[command(flatten)]
    hearing: HearingArguments,
    /// Refuse a call whose pictures have more pixels than this; the default is what 4K video needs.
    #[arg(long, value_name = "PIXELS", default_value_t = MOST_PIXELS)]
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
    #[command(flatten)]
    stats: StatsArguments,
    #[command(flatten)]
    session: SessionArguments,
    /// What is printed while the call runs.
    #[arg(long, value_enum, default_value_t = StatusArgument::Line)]
    status: StatusArgument,
    #[command(flatten)]
    program: ProgramArguments,
}

/// Where others may join, and how often.
#[derive(Debug, Clone, Args)]
pub struct ListeningArguments {
    /// Address to listen on; port 0 takes a free one. The unspecified address of IPv6 takes IPv4 along.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))]
    listen: SocketAddr,
    /// Another address at which this one can be reached, for the ticket, such as that of a router that forwards a port.
    #[arg(long, value_name = "HOST:PORT", value_parser = destination)]
    address: Vec<String>,
    /// Give a standing ticket: it is the same each time (with the same --listen), and can be used again and again. Its key is
    /// kept in LOCKSTEP_HOME, else in the user's folder for state.
    #[arg(long)]
    reusable: bool,
}

impl ListeningArguments {
    /// Begins to listen.
    pub fn listener(&self) -> Result<(Listener, Ticket)> {
        let identity = if self.reusable { Identity::standing(&standing_identity()?)? } else { Identity::new()? };
        let listener = Listener::bind(self.listen, identity)?;
        let mut others = Vec::new();
        for name in &self.address {
            others.extend(resolve(name)?);
        }
        let ticket = listener.ticket(&others)?;
        Ok((listener, ticket))
    }
}

/// The file of the standing identity.
fn standing_identity() -> Result<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = folder("LOCKSTEP_HOME")
        .or_else(|| Some(folder("XDG_STATE_HOME")?.join("lockstep")))
        .or_else(|| Some(folder("HOME")?.join(".local").join("state").join("lockstep")))
        .or_else(|| Some(folder("LOCALAPPDATA")?.join("lockstep")));
    Ok(home.context("there is no folder for the standing ticket's key; set LOCKSTEP_HOME")?.join("standing-ticket"))
}

/// The ticket to join with: the one given, else of the environment, which other users of the machine cannot see, else as
/// the person types it.
pub fn ticket_to_join(given: Option<&str>) -> Result<Ticket> {
    if let Some(text) = given {
        return Ok(text.parse()?);
    }
    if let Ok(text) = env::var("LOCKSTEP_TICKET") {
        return text.parse().context("LOCKSTEP_TICKET");
    }
    if stdin().is_terminal() {
        let _ = write!(stderr(), "ticket: ");
    }
    let mut text = String::new();
    stdin().lock().read_line(&mut text).context("cannot read a ticket")?;
    Ok(text.parse()?)
}

/// Prints a ticket for another person: as text, and on a terminal as a picture for a camera.
pub fn print_ticket(ticket: &Ticket, command: &str) {
    let text = ticket.to_string();
    if stdout().is_terminal()
        && let Ok(code) = qrcode::QrCode::with_error_correction_level(&text, qrcode::EcLevel::L)
    {
        say!("{}", code.render::<qrcode::render::unicode::Dense1x2>().build());
    }
    say!("ticket: {text}\njoin with: lockstep {command} TICKET");
}

/// What a process says of itself on a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusLine {
    /// The receiver is ready, and this is its ticket.
    Ticket(String),
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
pub fn say(line: &StatusLine) {
    if let Ok(text) = serde_json::to_string(line) {
        let mut out = stdout().lock();
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    }
}

/// Writes a line over the one before.
pub fn rewrite(line: &str) {
    let mut out = for_people();
    let _ = write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush());
}

/// A line on the end that sends.
fn sending_line(now: Timestamp, call: &SendingEnd, joined: bool) -> String {
    let (captured, status) = (call.captured(), call.status(now));
    if !joined {
        return format!("{captured} captured   nobody is there yet");
    }
    let quantizer = status.quantizer.map_or_else(|| "-".to_owned(), |quantizer| quantizer.to_string());
    let round_trip = status.round_trip_time.map_or_else(|| "-".to_owned(), |time| format!("{} ms", time.as_millis()));
    format!("{captured} captured   target {}   q {quantizer}   round trip {round_trip}", status.target)
}

/// The delay of pictures, as far as an end can know it that does not see the other's clock: the shortest way takes half of
/// the shortest round trip, and others are as much longer as they are later.
#[derive(Debug, Default)]
struct Delay {
    least_us: Option<i64>,
}

impl Delay {
    fn of(&mut self, shown: &Shown) -> f64 {
        let late = shown.record.displayed_at.as_micros() as i64 - shown.captured_at.as_micros() as i64;
        let least = self.least_us.map_or(late, |least| least.min(late));
        self.least_us = Some(least);
        let way = shown.shortest_round_trip.unwrap_or_default() / 2;
        (late - least) as f64 * 1e-3 + way.as_secs_f64() * 1e3
    }
}

/// Prints what happens, and logs it.
pub struct Reporter {
    status: StatusArgument,
    joined: bool,
    delay: Delay,
    /// What the line says of what is sent and of what is shown.
    line: (String, String),
    send_log: Option<LogWriter>,
    receive_log: Option<LogWriter>,
    stats: Option<StatsLog>,
    session: Option<LiveSessionLog>,
}

impl Reporter {
    /// With a log of what is sent, one of what is shown, one of what is counted, or none of them.
    pub fn new(
        status: StatusArgument,
        clock: Clock,
        send_log: Option<&Path>,
        receive_log: Option<&Path>,
        stats: Option<&Path>,
    ) -> Result<Self> {
        let stats = stats.map(StatsLog::create).transpose()?;
        let mut send_log = send_log.map(LogWriter::create).transpose()?;
        let mut receive_log = receive_log.map(LogWriter::create).transpose()?;
        let epoch = clock.epoch();
        if let Some(log) = &mut send_log {
            log.write(&SenderEntry::Start { epoch });
        }
        if let Some(log) = &mut receive_log {
            log.write(&ReceiverEntry::Start { epoch });
        }
        let line = (String::new(), String::new());
        let delay = Delay::default();
        Ok(Self { status, joined: false, delay, line, send_log, receive_log, stats, session: None })
    }

    /// The same with the log of a session, if there is one; the clock of the call began at `epoch`.
    #[must_use]
    pub fn with_session(self, session: Option<SessionLog>, epoch: Timestamp) -> Self {
        Self { session: session.map(|log| LiveSessionLog::new(log, epoch)), ..self }
    }

    /// The log of the session, once the other end is there.
    fn session(&mut self) -> Option<&mut LiveSessionLog> {
        self.session.as_mut().filter(|_| self.joined)
    }

    fn rewrite(&self) {
        let separator = if self.line.0.is_empty() || self.line.1.is_empty() { "" } else { "   " };
        rewrite(&format!("{}{separator}{}", self.line.0, self.line.1));
    }

    /// Ends the logs, whatever ended the call.
    pub fn finish(self, finished: &Finished) -> Result<()> {
        if self.status == StatusArgument::Line {
            say!("");
        }
        let sent = match (self.send_log, &finished.sending) {
            (Some(mut log), Some(call)) => {
                let decisions = call.controller_counters().into_iter();
                let decisions = decisions.map(|(name, count)| (format!("controller_{name}"), count));
                let traffic = finished.traffic.iter().flat_map(counters);
                let traffic = traffic.map(|(name, count)| (format!("udp_{name}"), count));
                let counters = counters(&call.statistics()).into_iter().chain(decisions).chain(traffic).collect();
                log.write(&SenderEntry::End { counters });
                log.finish()
            }
            _ => Ok(()),
        };
        let received = match (self.receive_log, &finished.receiving) {
            (Some(mut log), Some(call)) => {
                let (counters, decoder) = (counters(&call.statistics()), counters(&call.counts()));
                log.write(&ReceiverEntry::End { counters, decoder });
                log.finish()
            }
            _ => Ok(()),
        };
        let counted = self.stats.map_or(Ok(()), StatsLog::finish);
        let session = self.session.map_or(Ok(()), LiveSessionLog::finish);
        sent.and(received).and(counted).and(session)
    }
}

impl Witness for Reporter {
    fn joined(&mut self) {
        self.joined = true;
        if self.status == StatusArgument::Line {
            rewrite("the other end is there");
        }
    }

    fn receiving(&mut self, now: Timestamp, call: &ReceivingEnd) {
        if let Some(stats) = &mut self.stats {
            stats.receiving(now, call);
        }
        if let Some(log) = self.session() {
            log.meter(now).receiving(now, call);
            if let Some(format) = call.format() {
                log.pictures(&format);
            }
            log.tick(now);
        }
    }

    fn status(&mut self, now: Timestamp, call: &SendingEnd) {
        if let Some(stats) = &mut self.stats {
            stats.sending(now, call);
        }
        if let Some(log) = self.session() {
            log.meter(now).sending(now, call);
            log.tick(now);
        }
        match self.status {
            StatusArgument::None => {}
            StatusArgument::Json => {
                let (captured, status) = (call.captured(), call.status(now));
                let (target_bps, quantizer) = (status.target.as_bps(), status.quantizer);
                say(&StatusLine::Sending { target_bps, quantizer, captured });
            }
            StatusArgument::Line => {
                self.line.0 = sending_line(now, call, self.joined);
                self.rewrite();
            }
        }
    }

    fn captured(&mut self, record: FrameRecord) {
        if let Some(stats) = &mut self.stats {
            stats.captured(&record);
        }
        if let Some(meter) = self.session().and_then(LiveSessionLog::begun) {
            meter.captured(&record);
        }
        if let Some(log) = &mut self.send_log {
            log.write(&SenderEntry::Frame(Box::new(record)));
        }
    }

    fn shown(&mut self, shown: &Shown) {
        if let Some(stats) = &mut self.stats {
            stats.shown(shown.record.displayed_at);
        }
        if let Some(log) = &mut self.receive_log {
            log.write(&ReceiverEntry::Display(shown.record));
        }
        let frame = shown.record.frame;
        let delay_ms = self.delay.of(shown);
        if let Some(meter) = self.session().and_then(LiveSessionLog::begun) {
            let delay = Duration::try_from_secs_f64(delay_ms * 1e-3).ok();
            meter.shown(shown.record.displayed_at, delay);
        }
        match self.status {
            StatusArgument::None => {}
            StatusArgument::Json => say(&StatusLine::Showing { frame, delay_ms }),
            StatusArgument::Line => {
                self.line.1 = format!("frame {frame}   delay {delay_ms:.0} ms");
                self.rewrite();
            }
        }
    }
}

/// What runs the candidates of menus of that kind.
pub fn menu_runner(menu: MenuMode) -> Box<dyn MenuRunner + Send> {
    match menu {
        MenuMode::Parallel => Box::new(ThreadedMenu),
        MenuMode::Serial | MenuMode::Fit { .. } => Box::new(SerialMenu),
    }
}

/// Finds out whether the outputs of a process can be written; its status may be on standard output itself.
pub fn check(outputs: &[(&str, Option<&Path>)], inputs: &[&Path], status: StatusArgument) -> Result<()> {
    output_file::check(outputs, inputs)?;
    if status == StatusArgument::Json && standard_output_is_taken() {
        bail!("--status json writes to standard output, and so does an output called -; name a file");
    }
    Ok(())
}

/// `lockstep send`.
pub fn send(arguments: &SendArguments) -> Result<()> {
    let inputs: Vec<&Path> = [Path::new(&arguments.source)].into_iter().chain(arguments.speaking.file()).collect();
    let stats = arguments.stats.file.as_deref();
    check(&[("--log", arguments.log.as_deref()), ("--stats", stats)], &inputs, arguments.status)?;
    let microphone = arguments.speaking.open(LiveSound::Nothing)?;
    let ticket = ticket_to_join(arguments.ticket.as_deref())?;
    let source = open_source(&arguments.source, &SourceOptions { seed: arguments.seed, ..SourceOptions::default() })?;
    let control = arguments.control.settings()?;
    let end = control.sending_end(&source.format(), connection_id(), None)?;
    let interruption = Interruption::watch()?;
    let clock = Clock::start();
    let mut session = arguments.session.open("send", "sender", None)?;
    if let Some(log) = &mut session {
        log.description().control(&control);
        log.description().pictures(&source.format());
    }
    let reporter = Reporter::new(arguments.status, clock, arguments.log.as_deref(), None, stats)?;
    let mut reporter = reporter.with_session(session, clock.epoch());
    let options = CallOptions {
        peer: Peer::Of(ticket),
        kind: CallKind::OneWay,
        sending: Some(Sending {
            end,
            source,
            runner: menu_runner(control.menu),
            microphone,
            measures_quality: arguments.log.is_some(),
        }),
        receiving: None,
        length: arguments.seconds.map(Seconds::get),
        wait_limit: arguments.wait_seconds.0,
        idle_limit: arguments.idle_seconds.0,
        stop: arguments.program.stop(&interruption),
    };
    let finished = lockstep_live::run(clock, options, &mut reporter);
    finish(reporter, finished, &interruption, arguments.status)
}

/// Ends a call in order: whatever ended it, what is known of it is kept.
pub fn finish(
    reporter: Reporter,
    finished: Finished,
    interruption: &Interruption,
    status: StatusArgument,
) -> Result<()> {
    let written = reporter.finish(&finished);
    if let Some(sound) = finished.sound.as_ref().filter(|_| status == StatusArgument::Line) {
        print_sound(sound);
    }
    let ended = finished.result?;
    written?;
    interruption.check()?;
    if status == StatusArgument::Line && ended == Ended::ByPeer {
        say!("the other end ended the call");
    }
    if !finished.joined && ended == Ended::Done {
        eprintln!("lockstep: nobody answered");
    }
    Ok(())
}

/// A connection number that another call on this machine will hardly have.
pub fn connection_id() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as u32
}

/// `lockstep receive`.
pub fn receive(arguments: &ReceiveArguments) -> Result<()> {
    let hearing = &arguments.hearing;
    let outputs = [
        ("--sink", sink_path(&arguments.sink)?),
        ("--log", arguments.log.as_deref()),
        hearing.output(),
        arguments.stats.output(),
    ];
    let inputs: Vec<&Path> = arguments.model.as_deref().into_iter().collect();
    check(&outputs, &inputs, arguments.status)?;
    let model = arguments.model.as_deref().map(ModelFile::open_for_receiver).transpose()?;
    let loudspeaker = hearing.open(LiveSound::Nothing, true)?;
    let (listener, ticket) = arguments.listening.listener()?;
    let interruption = Interruption::watch()?;
    let clock = Clock::start();
    let session = arguments.session.open("receive", "receiver", None)?;
    let reporter =
        Reporter::new(arguments.status, clock, None, arguments.log.as_deref(), arguments.stats.file.as_deref())?;
    let mut reporter = reporter.with_session(session, clock.epoch());
    match arguments.status {
        StatusArgument::Json => say(&StatusLine::Ticket(ticket.to_string())),
        StatusArgument::Line => print_ticket(&ticket, "send"),
        StatusArgument::None => {}
    }
    let sink = arguments.sink.clone();
    let open: OpenSink = Box::new(move |format| open_sink(&sink, format));
    let end = ControlSettings::receiving_end_with(model.as_ref()).with_pixel_limit(arguments.max_pixels);
    let options = CallOptions {
        peer: Peer::At(listener),
        kind: CallKind::OneWay,
        sending: None,
        receiving: Some(Receiving { end, open_sink: open, loudspeaker }),
        length: None,
        wait_limit: arguments.wait_seconds.0,
        idle_limit: arguments.idle_seconds.0,
        stop: arguments.program.stop(&interruption),
    };
    let finished = lockstep_live::run(clock, options, &mut reporter);
    finish(reporter, finished, &interruption, arguments.status)
}

#[cfg(test)]
mod tests {
    use lockstep_call::DisplayRecord;

    use super::*;

    #[test]
    fn delays_are_above_the_shortest_and_that_is_half_of_the_shortest_round_trip() {
        let mut delay = Delay::default();
        // The other end's clock is 5 s ahead.
        let mut of = |displayed: u64, captured: u64| {
            let displayed_at = Timestamp::from_millis(displayed);
            let record = DisplayRecord { frame: 0, completed_at: displayed_at, displayed_at };
            let shortest_round_trip = Some(Duration::from_millis(40));
            delay.of(&Shown { record, captured_at: Timestamp::from_millis(5_000 + captured), shortest_round_trip })
        };
        assert_eq!([of(100, 0), of(230, 100), of(360, 200)].map(f64::round), [20.0, 50.0, 80.0]);
    }
}
