//! Runs a call in real time: sender and receiver are processes that use QUIC on loopback. This process emulates the
//! link between them.

use std::collections::VecDeque;
use std::env;
use std::io::{BufRead, BufReader};
use std::iter;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail};
use serde::{Serialize, Serializer};

use lockstep_configuration::{CallSettings, OptionGroup, SoundName, counters};
use lockstep_emulator::{Emulator, EmulatorOptions, EmulatorSocket, EmulatorStatus};
use lockstep_live::{LiveError, Ticket};
use lockstep_measure::{CallReport, DRAIN, FinishedCall, FrameObserver, VideoDelayFloor};
use lockstep_media::{SourceOptions, VideoFormat, open_source};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::call_logs::{self, Captures, Merged};
use crate::interruption::Interruption;
use crate::live_stats::Sample;
use crate::progress::Progress;
use crate::session_log::arguments::{SessionArguments, drawn};
use crate::status_line::StatusLine;

/// A call in real time.
#[derive(Debug, Clone)]
pub struct LiveCall {
    /// Settings of the call, except for those of virtual time.
    pub settings: CallSettings,
    /// Where the receiver shows the pictures.
    pub sink: String,
    /// File for the received sound.
    pub audio_output: Option<PathBuf>,
    /// Arguments for session logs of its ends.
    pub session: SessionArguments,
    /// File for the inputs and answers of the sender's controller, if requested.
    pub decisions: Option<PathBuf>,
}

impl Serialize for LiveCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let groups = [OptionGroup::Call, OptionGroup::Link, OptionGroup::Control];
        let mut record = self.settings.options().record(&groups);
        record.0.push(("sink", self.sink.as_str().into()));
        if let Some(sound) = &self.settings.audio {
            record.0.push(("audio", sound.as_str().into()));
        }
        record.serialize(serializer)
    }
}

impl LiveCall {
    fn format(&self) -> Result<VideoFormat> {
        let options = SourceOptions { seed: self.settings.link.seed, ..SourceOptions::default() };
        Ok(open_source(self.settings.clip.as_str(), &options)?.format())
    }

    /// Makes the parts that the ends require, so that errors appear before anything runs or is overwritten.
    ///
    /// # Errors
    /// If a part cannot be made.
    pub fn check(&self) -> Result<()> {
        self.settings.audio.as_ref().map(SoundName::open).transpose()?;
        self.settings.control.check_live(&self.format()?)?;
        self.settings.link.refuse_ecn()
    }
}

/// A finished live call.
pub struct CallResult {
    /// Scores, counters and series.
    pub report: CallReport<LiveCall>,
    /// Failure of the call, if any; the report covers the logged part.
    pub problem: Option<Error>,
}

/// Time limit for the start of the receiver.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for the end of a process after the request; its own limits are shorter.
const END_LIMIT: Duration = Duration::from_secs(30);
/// Time for which the emulator delivers queued packets after the sender has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);
/// Time limit for the last messages of a process that has ended, because its children may hold its standard error.
const WORDS_LIMIT: Duration = Duration::from_secs(1);

/// Process of this program. It completes its files and ends on request, or when this process is gone.
///
/// Dropping this value kills the process if it still runs.
struct Process {
    name: &'static str,
    child: Child,
    status: Receiver<StatusLine>,
    /// Errors that the process printed, which the user has already seen.
    errors: Receiver<String>,
    end_requested_at: Option<Instant>,
}

impl Process {
    /// Starts `lockstep` with `arguments`. Its standard output contains status lines; its standard error is printed for
    /// the user.
    fn start(name: &'static str, arguments: &[String], ticket: Option<&Ticket>) -> Result<Self> {
        let program = env::current_exe().context("cannot find the lockstep program")?;
        let mut command = Command::new(program);
        // The end of its standard input requests the end of the process.
        command.arg(name).arg("--attached").args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Other users of the machine can read the arguments of a process.
        command.envs(ticket.map(|ticket| ("LOCKSTEP_TICKET", ticket.to_string())));
        // Only this process receives Ctrl-C of the terminal; it then ends the others in order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().with_context(|| format!("cannot start the {name} process"))?;
        let output = child.stdout.take().context("the process has no output")?;
        let (lines, status) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(line) = serde_json::from_str(&line) else { continue };
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        let messages = child.stderr.take().context("the process has no standard error")?;
        let (error_lines, errors) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(messages).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                eprint_line!("{line}");
                if let Some(error) = line.strip_prefix("lockstep: ").filter(|words| !words.starts_with("warning: ")) {
                    let _ = error_lines.send(error.to_owned()); // the receiver may be gone
                }
            }
        });
        Ok(Self { name, child, status, errors, end_requested_at: None })
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Requests the end of the process.
    fn end(&mut self) {
        drop(self.child.stdin.take());
        self.end_requested_at.get_or_insert_with(Instant::now);
    }

    /// Whether the process exceeds the time limit after the request.
    fn is_stuck(&self) -> bool {
        self.end_requested_at.is_some_and(|end_requested_at| end_requested_at.elapsed() >= END_LIMIT)
    }

    /// Requests the end of the process, waits for it, and returns its failure.
    fn finish(mut self) -> Result<()> {
        self.end();
        while self.is_running() {
            if self.is_stuck() {
                bail!("the {} process did not end within {} s", self.name, END_LIMIT.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
        let status = self.child.wait()?;
        let error = iter::from_fn(|| self.errors.recv_timeout(WORDS_LIMIT).ok()).last();
        match (status.code(), error) {
            (Some(0), _) => Ok(()),
            (Some(_), Some(error)) => bail!("the {} process failed: {error}", self.name),
            (Some(code), None) => bail!("the {} process failed with exit status {code}", self.name),
            // A process that a signal ended prints no error.
            (None, _) => bail!("the {} process was ended by a {status}", self.name),
        }
    }
}

/// Processes of a call, and their end.
///
/// The sender ends first and informs the receiver through the emulator. If that message is lost, the receiver ends when
/// no packet is queued.
struct Processes<'a> {
    sender: Process,
    receiver: Process,
    interruption: &'a Interruption,
    sender_ended_at: Option<Instant>,
    /// Time of the call at its interruption.
    cut_at: Option<Duration>,
}

impl Processes<'_> {
    /// Whether the emulator must keep running.
    fn must_emulate(&mut self, status: &EmulatorStatus) -> bool {
        let interrupted = self.interruption.check().is_err();
        if interrupted {
            self.cut_at.get_or_insert(status.elapsed);
        }
        if interrupted || !self.receiver.is_running() {
            self.sender.end();
        }
        if self.sender.is_running() {
            return !self.sender.is_stuck();
        }
        let ended_at = *self.sender_ended_at.get_or_insert_with(Instant::now);
        if !status.under_way || interrupted || ended_at.elapsed() >= DRAIN_LIMIT {
            self.receiver.end();
        }
        self.receiver.is_running() && !self.receiver.is_stuck()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Data of the progress line.
#[derive(Default)]
struct Display {
    quantizer: Option<u8>,
    delays_ms: VecDeque<f64>,
    delivered: ByteCount,
    at: Duration,
    rate: Bitrate,
    /// Combined sample of both ends.
    sample: Sample,
    is_newer: bool,
}

impl Display {
    fn update(&mut self, sender: &Process, receiver: &Process) {
        for line in sender.status.try_iter().chain(receiver.status.try_iter()) {
            match line {
                StatusLine::Sending { quantizer, .. } => self.quantizer = quantizer,
                StatusLine::Showing { delay_ms, .. } => {
                    self.delays_ms.push_back(delay_ms);
                    if self.delays_ms.len() > 30 {
                        self.delays_ms.pop_front();
                    }
                }
                StatusLine::Stats(sample) => {
                    // Each end provides its own direction, and the sender provides the connection.
                    let known = &mut self.sample;
                    known.timestamp = known.timestamp.max(sample.timestamp);
                    if sample.first.outbound.is_some() {
                        (known.first.outbound, known.transport) = (sample.first.outbound, sample.transport);
                    } else {
                        (known.first.inbound, known.sound) = (sample.first.inbound, sample.sound);
                    }
                    self.is_newer = true;
                }
                StatusLine::Ticket(_)
                | StatusLine::Code(_)
                | StatusLine::Waiting(_)
                | StatusLine::Link(_)
                | StatusLine::Monitor(_)
                | StatusLine::Metrics(_)
                | StatusLine::Viewer { .. }
                | StatusLine::Notice(_) => {}
            }
        }
    }

    /// Combined sample, if it changed.
    fn sample(&mut self) -> Option<&Sample> {
        std::mem::take(&mut self.is_newer).then_some(&self.sample)
    }

    fn line(&mut self, status: &EmulatorStatus, capacity: Bitrate) -> String {
        let elapsed = status.elapsed.saturating_sub(self.at);
        if elapsed >= Duration::from_millis(150) {
            self.rate = Bitrate::mean(status.forward.delivered.bytes.saturating_sub(self.delivered), elapsed);
            (self.delivered, self.at) = (status.forward.delivered.bytes, status.elapsed);
        }
        let delay = lockstep_call::mean(&self.delays_ms);
        format!(
            "{:>4.0} s   capacity {capacity:>10}   rate {:>10}   q {:>3}   delay {:>5}",
            status.elapsed.as_secs_f64(),
            self.rate,
            self.quantizer.map_or_else(|| "-".to_owned(), |quantizer| quantizer.to_string()),
            delay.map_or_else(|| "-".to_owned(), |delay| format!("{delay:.0} ms")),
        )
    }
}

/// Scored length of a call with the planned length `asked`; shorter if the pictures ended early.
///
/// Capture exceeds the scored length, so a missing picture means an early end.
fn scored_length(captures: Captures, asked: Duration, frame_interval: Duration) -> Duration {
    let captured = captures.first.zip(captures.last);
    let captured = captured.map_or(Duration::ZERO, |(first, last)| last.saturating_since(first) + frame_interval);
    if captured + frame_interval < asked { captured } else { asked }
}

/// Observation of a running call.
pub struct Observed<'a> {
    /// Callback for each new sample of both ends.
    pub take: &'a mut dyn FnMut(&Sample),
    /// Arguments that make the sender and the receiver write a qlog.
    pub qlog: [Vec<String>; 2],
}

/// Runs `live` until its end or an interruption. `observer` receives its frames at the end, `observed` its samples
/// during the call.
///
/// # Errors
/// If the call cannot start.
pub fn call(
    live: &LiveCall,
    interruption: &Interruption,
    observer: Option<Box<dyn FrameObserver>>,
    observed: Option<Observed<'_>>,
) -> Result<CallResult> {
    let LiveCall { settings, sink, audio_output, session, decisions } = live;
    let number = drawn();
    let (mut take, qlog) = observed.map(|observed| (observed.take, observed.qlog)).unzip();
    let [sender_qlog, receiver_qlog] = qlog.unwrap_or_default();
    let trace = settings.link.trace.trace();
    settings.link.refuse_ecn()?;
    let (forward, reverse) = settings.link.links()?;
    let path = forward.config().clone();
    let folder = tempfile::tempdir().context("cannot make a folder for the logs")?;
    let (send_log, receive_log) = (folder.path().join("send.json"), folder.path().join("receive.json"));
    let name = |path: &Path| path.to_string_lossy().into_owned();
    let length = settings.length.get();
    let frame_interval = live.format()?.frame_interval();

    let near = EmulatorSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let mut receive = words(&["--listen", "127.0.0.1:0", "--status", "json", "--sink", sink]);
    // This process decides when the call ends, even after a long outage.
    let patience = words(&["--wait-seconds", "none", "--idle-seconds", "none"]);
    receive.extend(patience.clone());
    receive.extend(words(&["--log", &name(&receive_log)]));
    receive.extend(session.words(number));
    receive.extend(receiver_qlog);
    if let Some(path) = audio_output {
        receive.extend(["--audio-output".to_owned(), name(path)]);
    } else if settings.audio.is_some() {
        // The sound is scored but not played.
        receive.extend(words(&["--audio-output", "nowhere"]));
    }
    if let Some(model) =
        settings.control.model.as_ref().filter(|_| settings.control.controller.algorithm().estimates_by_model())
    {
        receive.extend(["--model".to_owned(), name(model.path())]);
    }
    let receiver = Process::start("receive", &receive, None)?;
    let Ok(StatusLine::Ticket(ticket)) = receiver.status.recv_timeout(START_LIMIT) else {
        receiver.finish()?;
        bail!("the receiver did not start within {} s", START_LIMIT.as_secs());
    };
    let ticket: Ticket = ticket.parse().context("the receiver's ticket")?;
    let through = Ticket { addresses: near.addresses()?, rendezvous: Vec::new(), ..ticket.clone() };
    let sent_for = (length + DRAIN).as_secs_f64().to_string();
    let mut send = words(&["--source", settings.clip.as_str(), "--status", "json"]);
    send.extend(words(&["--seconds", &sent_for, "--seed", &settings.link.seed.to_string()]));
    send.extend(patience);
    send.push("--starts-at-once".to_owned());
    send.extend(words(&["--log", &name(&send_log)]));
    send.extend(session.words(number));
    send.extend(decisions.iter().flat_map(|path| ["--decisions".to_owned(), name(path)]));
    send.extend(settings.options().words(OptionGroup::Control));
    send.extend(settings.audio.iter().flat_map(|sound| words(&["--audio", sound.as_str()])));
    send.extend(sender_qlog);
    let sender = Process::start("send", &send, Some(&through))?;
    let mut processes = Processes { sender, receiver, interruption, sender_ended_at: None, cut_at: None };

    let mut progress = Progress::new("call", length.as_millis() as u64);
    let mut display = Display::default();
    let to = ticket.addresses;
    let moves = Vec::new();
    let options = EmulatorOptions { to, forward, reverse, length: None, scored: length, moves, log: None, mtu: None };
    let emulator = Emulator::run(near, options, |status| {
        display.update(&processes.sender, &processes.receiver);
        if let (Some(take), Some(sample)) = (&mut take, display.sample()) {
            take(sample);
        }
        let capacity = trace.capacity_at(Timestamp::ZERO + status.elapsed);
        let line = display.line(status, capacity);
        progress.update(status.elapsed.min(length).as_millis() as u64, &line);
        processes.must_emulate(status)
    })?;
    progress.finish();
    let Processes { sender, receiver, cut_at, .. } = processes;
    let failures = [sender.finish(), receiver.finish()].into_iter().filter_map(Result::err);
    // The failed process reports the reason; the other only reports that its peer failed.
    let peer_failed = LiveError::PeerFailed.to_string();
    let failure = failures.min_by_key(|failure| failure.to_string().contains(&peer_failed));
    // An interruption takes precedence over a failure of a process, and that over a missing log.
    let interrupted = interruption.check().map_err(|interrupted| anyhow!(interrupted));
    let problem = interrupted.err().or(failure);
    let length = cut_at.map_or(length, |at| length.min(at));
    let (captures, unread) = Captures::of(&send_log);
    let length = scored_length(captures, length, frame_interval);
    let times = (captures.first.unwrap_or(Timestamp::ZERO), length, frame_interval);
    // The clocks of the processes started at different times of the same clock.
    //
    // The coding time of this machine is not a property of the path, so the floor excludes it.
    let epoch = captures.epoch;
    let since_epoch = |at: Timestamp| Timestamp::ZERO + at.saturating_since(epoch);
    let floor = emulator.started_at.map(|started_at| VideoDelayFloor::new(&path, since_epoch(started_at)));
    let Merged { log, counters: counted, sound, problem: broken } =
        call_logs::merge(&send_log, &receive_log, times, epoch, floor, observer);
    let problem = problem.or(unread).or(broken);
    let mut recorder = emulator.series;
    recorder.end_at(recorder.start() + length);
    let FinishedCall { scores, series, .. } = log.finish(recorder, |from, to| trace.bytes_between(from, to));
    let report = CallReport {
        coding_times: None,
        lockstep: env!("CARGO_PKG_VERSION").to_owned(),
        kind: "call".to_owned(),
        seed: settings.link.seed,
        config: live.clone(),
        scores,
        sound,
        opposite: None,
        counters: [
            ("sender".to_owned(), counted.sender),
            ("receiver".to_owned(), counted.receiver),
            ("decoder".to_owned(), counted.decoder),
            ("link".to_owned(), counters(&emulator.forward)),
            ("reverse_link".to_owned(), counters(&emulator.reverse)),
        ]
        .into(),
        series,
    };
    Ok(CallResult { report, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_with_an_early_end_is_scored_up_to_it() {
        let frame_interval = Duration::from_millis(100);
        let captures = |count: u32| {
            let mut captures = Captures::default();
            (0..count).for_each(|index| captures.add(Timestamp::from_millis(7_000) + frame_interval * index));
            captures
        };
        let scored = |count| scored_length(captures(count), Duration::from_secs(2), frame_interval);
        assert_eq!(scored(0), Duration::ZERO);
        assert_eq!(scored(12), Duration::from_millis(1_200));
        assert_eq!(scored(19), Duration::from_secs(2), "one late picture");
        assert_eq!(scored(30), Duration::from_secs(2));
    }
}
