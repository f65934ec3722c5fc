//! `lockstep call`: sender and receiver as two processes over QUIC on loopback, and between them, in this process, the
//! emulator.

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
use clap::Args;
use serde::{Serialize, Serializer};

use lockstep_call::{CallObserver, CallReport, DRAIN, FinishedCall, VideoDelayFloor};
use lockstep_control::Controllers;
use lockstep_live::{Emulator, EmulatorOptions, EmulatorSocket, EmulatorStatus, LiveError, Ticket};
use lockstep_media::{SourceOptions, VideoFormat, open_source, sink_path};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::call_logs::{self, Captures, Merged};
use crate::commands::output::OutputArguments;
use crate::configuration::{
    CallOptions, CallSettings, ClipName, ControlWords, LinkWords, OptionGroup, OptionValue, Seconds, SoundName,
    counters,
};
use crate::decisions::DecisionsArgument;
use crate::interruption::{Interrupted, Interruption};
use crate::live_stats::Sample;
use crate::observation::{Observation, ObservationArguments};
use crate::output_file::{self, is_standard_output};
use crate::progress::Progress;
use crate::reporter::StatusLine;
use crate::session_log::arguments::{SessionArguments, drawn};

/// What `lockstep call` is told.
#[derive(Debug, Clone, Args)]
pub struct CallArguments {
    /// The pictures: `generated`, `generated:640x360@25`, a y4m file, `camera`, or anything else that ffmpeg reads.
    #[arg(long, default_value = "generated", value_parser = ClipName::from_word)]
    clip: ClipName,
    #[command(flatten)]
    link: LinkWords,
    #[command(flatten)]
    control: ControlWords,
    /// Scored length of the call.
    #[arg(long, default_value = "30", value_parser = Seconds::from_word)]
    seconds: Seconds,
    /// Where the receiver shows the pictures: `window`, `none`, a .y4m or an .ivf file.
    #[arg(long, default_value = "none")]
    sink: String,
    /// Sound beside the pictures: `tone`, a voice of sorts that talks and is silent by turns, which is meant if none is named;
    /// `silence`; or a WAV file, again and again.
    #[arg(long, value_name = "SOUND", num_args = 0..=1, default_missing_value = "tone", value_parser = SoundName::from_word)]
    audio: Option<SoundName>,
    /// Where what is heard goes, a WAV file; for calls with --audio.
    #[arg(long, value_name = "FILE")]
    audio_output: Option<PathBuf>,
    #[command(flatten)]
    observation: ObservationArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    decisions: DecisionsArgument,
    #[command(flatten)]
    session: SessionArguments,
}

/// A call in real time.
#[derive(Debug, Clone)]
pub struct LiveCall {
    /// What it is told, but for what only virtual time knows.
    pub settings: CallSettings,
    /// Where the receiver shows the pictures.
    pub sink: String,
    /// Where what is heard goes.
    pub audio_output: Option<PathBuf>,
    /// Where its ends leave logs of the session, if they do.
    pub session: SessionArguments,
    /// Where the sender leaves what its controller is told and answers, if it does.
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

    /// Makes what its ends will make, so that what cannot be is known before anything runs or is written over.
    fn check(&self) -> Result<()> {
        self.settings.audio.as_ref().map(SoundName::open).transpose()?;
        self.settings.control.check_live(&self.format()?)?;
        self.settings.link.refuse_ecn()
    }
}

/// A finished live call.
pub struct CallResult {
    /// Scores, counters and series.
    pub report: CallReport<LiveCall>,
    /// What went wrong, if something did; the report tells of what was logged all the same.
    pub problem: Option<Error>,
}

/// How long the receiver may take to come up.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How long a process may take to end once it was told to; its own limits are shorter.
const END_LIMIT: Duration = Duration::from_secs(30);
/// How long the emulator goes on delivering what is on its way when the sender has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);
/// How long to wait for the last words of a process that has ended: what it started may have its standard error.
const WORDS_LIMIT: Duration = Duration::from_secs(1);

/// A process of this program. It ends in order when it is told to, and when this process is gone, however that ended;
/// it is killed if it is still there when this is dropped.
struct Process {
    name: &'static str,
    child: Child,
    status: Receiver<StatusLine>,
    /// The errors that it told of, which people have seen already.
    errors: Receiver<String>,
    told_at: Option<Instant>,
}

impl Process {
    /// Starts `lockstep` with `arguments`; its standard output is read as status lines, its standard error goes on to
    /// people.
    fn start(name: &'static str, arguments: &[String], ticket: Option<&Ticket>) -> Result<Self> {
        let program = env::current_exe().context("cannot find the lockstep program")?;
        let mut command = Command::new(program);
        // Its standard input says by its end that the process is to end.
        command.arg(name).arg("--attached").args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The words of a process can be seen by everybody on the machine.
        command.envs(ticket.map(|ticket| ("LOCKSTEP_TICKET", ticket.to_string())));
        // Ctrl-C at the terminal is for this process, which ends the others one after the other.
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
        let told = child.stderr.take().context("the process has no standard error")?;
        let (tell, errors) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(told).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                aside!("{line}");
                if let Some(error) = line.strip_prefix("lockstep: ").filter(|words| !words.starts_with("warning: ")) {
                    let _ = tell.send(error.to_owned()); // whoever waits no longer does not want it
                }
            }
        });
        Ok(Self { name, child, status, errors, told_at: None })
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Tells the process to end in order.
    fn end(&mut self) {
        drop(self.child.stdin.take());
        self.told_at.get_or_insert_with(Instant::now);
    }

    /// Whether it was told to end too long ago.
    fn is_stuck(&self) -> bool {
        self.told_at.is_some_and(|told_at| told_at.elapsed() >= END_LIMIT)
    }

    /// How the process has ended, which it was told to before.
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
            // What a signal ends says nothing of that.
            (None, _) => bail!("the {} process was ended by a {status}", self.name),
        }
    }
}

/// The processes of a call, and how they come to their end: first the sender, which tells the receiver, through the
/// emulator; the receiver by itself if it hears of it, and when nothing is on its way to it any more if it does not.
struct Processes<'a> {
    sender: Process,
    receiver: Process,
    interruption: &'a Interruption,
    sender_ended_at: Option<Instant>,
    /// How far the call had come when it was interrupted.
    cut_at: Option<Duration>,
}

impl Processes<'_> {
    /// Whether the emulator is still needed.
    fn go_on(&mut self, status: &EmulatorStatus) -> bool {
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

/// What the progress line shows.
#[derive(Default)]
struct Display {
    quantizer: Option<u8>,
    delays_ms: VecDeque<f64>,
    delivered: ByteCount,
    at: Duration,
    rate: Bitrate,
    /// What both ends know.
    sample: Sample,
    is_newer: bool,
}

impl Display {
    fn hear(&mut self, sender: &Process, receiver: &Process) {
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
                    // Of each way the end knows that it is for; of the connection the sender.
                    let known = &mut self.sample;
                    known.timestamp = known.timestamp.max(sample.timestamp);
                    if sample.outbound.is_some() {
                        (known.outbound, known.transport) = (sample.outbound, sample.transport);
                    } else {
                        (known.inbound, known.sound) = (sample.inbound, sample.sound);
                    }
                    self.is_newer = true;
                }
                StatusLine::Ticket(_) | StatusLine::Monitor(_) | StatusLine::Metrics(_) | StatusLine::Notice(_) => {}
            }
        }
    }

    /// What both ends know, if that is news.
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

/// The scored length of a call that was to last `asked`: less where the pictures ended before. They are
/// captured for longer than what is scored, so that one too few means an end and not a late picture.
fn scored_length(captures: Captures, asked: Duration, frame_interval: Duration) -> Duration {
    let captured = captures.first.zip(captures.last);
    let captured = captured.map_or(Duration::ZERO, |(first, last)| last.saturating_since(first) + frame_interval);
    if captured + frame_interval < asked { captured } else { asked }
}

/// Runs `live`, until its end or an interruption; `observer` hears of its frames when it is over, and whoever observes it hears
/// of it while it runs; with words that have sender and receiver keep a qlog.
pub fn call(
    live: &LiveCall,
    interruption: &Interruption,
    observer: Option<Box<dyn CallObserver>>,
    observed: Option<(&mut Observation, &[Vec<String>; 2])>,
) -> Result<CallResult> {
    let LiveCall { settings, sink, audio_output, session, decisions } = live;
    let number = drawn();
    let (mut observation, qlog) = observed.unzip();
    let [sender_qlog, receiver_qlog] = qlog.cloned().unwrap_or_default();
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
    // However long an outage is, this process decides when the call is over.
    let patience = words(&["--wait-seconds", "none", "--idle-seconds", "none"]);
    receive.extend(patience.clone());
    receive.extend(words(&["--log", &name(&receive_log)]));
    receive.extend(session.words(number));
    receive.extend(receiver_qlog);
    if let Some(path) = audio_output {
        receive.extend(["--audio-output".to_owned(), name(path)]);
    } else if settings.audio.is_some() {
        // Heard by nobody, and scored.
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
        bail!("the receiver did not come up within {} s", START_LIMIT.as_secs());
    };
    let ticket: Ticket = ticket.parse().context("the receiver's ticket")?;
    let through = Ticket { addresses: near.addresses()?, rendezvous: Vec::new(), ..ticket.clone() };
    let sent_for = (length + DRAIN).as_secs_f64().to_string();
    let mut send = words(&["--source", settings.clip.as_str(), "--status", "json"]);
    send.extend(words(&["--seconds", &sent_for, "--seed", &settings.link.seed.to_string()]));
    send.extend(patience);
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
        display.hear(&processes.sender, &processes.receiver);
        if let (Some(observation), Some(sample)) = (&mut observation, display.sample()) {
            observation.take(sample);
        }
        let capacity = trace.capacity_at(Timestamp::ZERO + status.elapsed);
        let line = display.line(status, capacity);
        progress.update(status.elapsed.min(length).as_millis() as u64, &line);
        processes.go_on(status)
    })?;
    progress.finish();
    let Processes { sender, receiver, cut_at, .. } = processes;
    let failures = [sender.finish(), receiver.finish()].into_iter().filter_map(Result::err);
    // Who failed says why, and the other end says only that it did.
    let hearsay = LiveError::PeerFailed.to_string();
    let failure = failures.min_by_key(|failure| failure.to_string().contains(&hearsay));
    // What the user did comes before what came of it, and that before the log that is missing because of it.
    let interrupted = interruption.check().map_err(|interrupted| anyhow!(interrupted));
    let problem = interrupted.err().or(failure);
    let length = cut_at.map_or(length, |at| length.min(at));
    let (captures, unread) = Captures::of(&send_log);
    let length = scored_length(captures, length, frame_interval);
    let times = (captures.first.unwrap_or(Timestamp::ZERO), length, frame_interval);
    // The processes' clocks began at different moments of the same clock. How long coding takes on this machine is no
    // property of the path.
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

/// `lockstep call`.
pub fn run(arguments: &CallArguments, controllers: &Controllers) -> Result<()> {
    let sink = sink_path(&arguments.sink)?;
    if sink.is_some_and(is_standard_output) {
        bail!("--sink {}: the receiver is a process of its own; name a file", arguments.sink);
    }
    let decisions = arguments.decisions.output();
    if decisions.1.is_some_and(is_standard_output) {
        bail!("--decisions -: the sender is a process of its own; name a file");
    }
    let given = CallOptions {
        clip: Some(arguments.clip.clone()),
        seconds: Some(arguments.seconds),
        ..arguments.link.said().clone().or(arguments.control.said().clone())
    };
    let heard = arguments.audio_output.as_deref();
    if heard.is_some() && arguments.audio.is_none() {
        bail!("--audio-output: nothing is heard of a call without --audio");
    }
    let settings = CallSettings { audio: arguments.audio.clone(), ..given.settings_with(controllers)? };
    let live = LiveCall {
        settings,
        sink: arguments.sink.clone(),
        audio_output: arguments.audio_output.clone(),
        session: arguments.session.clone(),
        decisions: decisions.1.map(Path::to_owned),
    };
    let observation = &arguments.observation;
    let receiver_qlog = observation.receiver_qlog();
    let own = [("--sink", sink), ("--audio-output", heard), decisions, ("--qlog", receiver_qlog.as_deref())];
    let others = [&own[..], &observation.outputs()].concat();
    arguments.output.check(&others, &live.settings.inputs())?;
    live.check()?;
    let output = arguments.output.open()?;
    let interruption = Interruption::watch()?;
    let qlog = observation.qlog_words();
    let mut observed = Observation::open(&observation.without_qlog())?;
    observed.tell();
    let called = call(&live, &interruption, output.observer(), Some((&mut observed, &qlog)));
    let observed = observed.finish();
    let CallResult { report, problem } = called?;
    let interrupted = problem.as_ref().is_some_and(|problem| problem.is::<Interrupted>());
    if problem.is_some() && !interrupted && report.scores.frames.displayed == 0 {
        // A call that failed before it had begun is nothing to report, let alone in the place of another's report.
        return output_file::all([problem.map_or(Ok(()), Err), observed]);
    }
    // Whatever is wrong with one output, the others are written.
    let written = output.write(live.settings.length.as_f64(), &report);
    match problem {
        // What the person did is the exit status, whatever else there is.
        Some(problem) if interrupted => Err(problem),
        problem => output_file::all([problem.map_or(Ok(()), Err), written, observed]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_whose_pictures_end_early_is_scored_as_long_as_they_lasted() {
        let frame_interval = Duration::from_millis(100);
        let captures = |count: u32| {
            let mut captures = Captures::default();
            (0..count).for_each(|index| captures.add(Timestamp::from_millis(7_000) + frame_interval * index));
            captures
        };
        let scored = |count| scored_length(captures(count), Duration::from_secs(2), frame_interval);
        assert_eq!(scored(0), Duration::ZERO);
        assert_eq!(scored(12), Duration::from_millis(1_200));
        assert_eq!(scored(19), Duration::from_secs(2), "one picture that came late");
        assert_eq!(scored(30), Duration::from_secs(2));
    }
}
