//! What a live end says while it runs: on the screen, in its logs, and to whoever observes it. It hears of the call on the call's
//! own thread, and never makes that wait.

use std::path::Path;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::ValueEnum;

use lockstep_call::{FrameRecord, ReceivingEnd, SendingEnd};
use lockstep_configuration::counters;
use lockstep_live::{CallEvent, CallState, Finished, Presence, Shown, Witness};
use lockstep_media::Notice;
use lockstep_runner::call_logs::{LogWriter, ReceiverEntry, SenderEntry};
use lockstep_runner::live_stats::{LiveStats, Sample};
use lockstep_runner::output_file;
use lockstep_runner::progress::ChangingLine;
use lockstep_runner::session_log::{LiveSessionLog, SessionLog};
use lockstep_runner::status_line::{StatusLine, say};
use lockstep_socket::Clock;
use lockstep_units::{Bitrate, Timestamp};

use crate::decisions::DecisionLog;
use crate::observation::{Observation, Place};

/// Lines for the screen that wait at most: whoever reads more slowly misses some.
const MOST_LINES: usize = 256;
/// How long the last of them may take.
const SCREEN_LIMIT: Duration = Duration::from_secs(1);
/// Pictures that stand still for so long are said to.
const STILL: Duration = Duration::from_secs(2);

/// What a process prints of a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusArgument {
    /// One line that is written over.
    Line,
    /// A line of JSON a few times a second, for another program.
    Json,
    /// Nothing but what others need to join or to look on: the ticket, the addresses of `--monitor` and `--metrics`.
    None,
}

/// Gives a person a line before a call on standard error, and another program the same as a line of JSON.
pub fn notice(status: StatusArgument, text: &str) {
    aside!("lockstep: {text}");
    if status == StatusArgument::Json {
        say(&StatusLine::Notice(text.to_owned()));
    }
}

/// What goes to the screen while the call runs, on a thread of its own: a terminal or a pipe may stand still.
struct Screen {
    lines: Option<SyncSender<Said>>,
    thread: Option<JoinHandle<()>>,
}

enum Said {
    Json(StatusLine),
    Line(String),
    News(String),
}

impl Screen {
    fn start() -> Result<Self> {
        let (lines, said) = mpsc::sync_channel(MOST_LINES);
        let thread = thread::Builder::new().name("screen".to_owned()).spawn(move || {
            let mut changing = ChangingLine::default();
            for said in said {
                match said {
                    Said::Json(line) => say(&line),
                    Said::Line(line) => changing.change(&line),
                    Said::News(line) => changing.news(&line),
                }
            }
            changing.end();
        })?;
        Ok(Self { lines: Some(lines), thread: Some(thread) })
    }

    fn say(&self, said: Said) {
        if let Some(lines) = &self.lines {
            let _ = lines.try_send(said);
        }
    }

    /// Ends; says whether the screen is still read by somebody.
    fn finish(&mut self) -> bool {
        self.lines = None;
        let began = Instant::now();
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            if began.elapsed() >= SCREEN_LIMIT {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.thread.take().is_none_or(|thread| thread.join().is_ok())
    }
}

/// What a window of a call says beside its pictures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// A line of statistics.
    pub caption: String,
    /// What stands over the pictures.
    pub notice: Notice,
}

/// The newest words, for the window's thread.
pub type SharedWords = Arc<Mutex<Words>>;

/// How much a second went one way.
#[derive(Debug, Default)]
struct Rate {
    at: f64,
    bytes: u64,
    rate: Bitrate,
}

impl Rate {
    /// With so many bytes at that time, milliseconds; over half a second and more.
    fn of(&mut self, timestamp: f64, bytes: u64) -> Bitrate {
        let seconds = (timestamp - self.at) * 1e-3;
        if seconds >= 0.5 {
            let bits = 8.0 * bytes.saturating_sub(self.bytes) as f64 / seconds;
            (self.at, self.bytes, self.rate) = (timestamp, bytes, Bitrate::from_bps(bits as u64));
        }
        self.rate
    }
}

/// A rendezvous that is there has answered after so long.
const RENDEZVOUS_ANSWERS: Duration = Duration::from_secs(3);

/// What there is to say while nobody is there.
fn waiting(state: &CallState) -> &'static str {
    let late = state.now >= Timestamp::ZERO + RENDEZVOUS_ANSWERS;
    match state.rendezvous_answers {
        Some(false) if late => {
            "nobody is there yet, and the rendezvous does not answer: who is behind another router cannot join"
        }
        _ => "nobody is there yet",
    }
}

/// Makes lines of numbers.
#[derive(Debug, Default)]
struct Captions {
    sent: Rate,
    received: Rate,
}

fn milliseconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{:.0} ms", 1e3 * seconds))
}

impl Captions {
    /// A line of what is known.
    fn of(&mut self, sample: &Sample) -> String {
        let transport = sample.transport.clone().unwrap_or_default();
        let mut parts = Vec::new();
        // What a person did comes first: it must not be what has no room.
        if let Some(outbound) = &sample.outbound {
            parts.extend(outbound.muted.then(|| "muted".to_owned()));
            parts.extend(outbound.camera_off.then(|| "your camera is off".to_owned()));
        }
        if let Some(inbound) = &sample.inbound {
            parts.extend(inbound.muted.then(|| "the other end is muted".to_owned()));
            parts.extend(inbound.camera_off.then(|| "its camera is off".to_owned()));
            parts.push(format!(
                "delay {}  {} frames/s  {}",
                milliseconds(inbound.video_delay),
                inbound.frames_per_second,
                self.received.of(sample.timestamp, transport.bytes_received)
            ));
        }
        if let Some(outbound) = &sample.outbound {
            let quantizer = outbound.quantizer.map_or_else(|| "-".to_owned(), |quantizer| quantizer.to_string());
            parts.push(format!(
                "sent {} of {}  q {quantizer}  round trip {}",
                self.sent.of(sample.timestamp, transport.bytes_sent),
                Bitrate::from_bps(outbound.target_bitrate),
                milliseconds(outbound.round_trip_time)
            ));
        }
        parts.extend(transport.relayed.then(|| "by the rendezvous".to_owned()));
        parts.join("  ")
    }
}

/// Where an end logs its frames.
#[derive(Debug, Clone, Copy, Default)]
pub struct Logs<'a> {
    /// Those that it sends.
    pub sent: Option<&'a Path>,
    /// Those that it shows.
    pub shown: Option<&'a Path>,
}

/// Prints what happens, and logs it. Statistics are those of the first stream; logs have the frames of all.
pub struct Reporter {
    status: StatusArgument,
    screen: Screen,
    joined: bool,
    stats: LiveStats,
    captions: Captions,
    shown_at: Option<Timestamp>,
    words: Option<SharedWords>,
    send_log: Option<LogWriter>,
    receive_log: Option<LogWriter>,
    observation: Observation,
    session: Option<LiveSessionLog>,
    decisions: DecisionLog,
}

impl Reporter {
    /// With logs, if any, whoever observes the call, and what a window says.
    pub fn new(
        status: StatusArgument,
        clock: Clock,
        logs: Logs<'_>,
        observation: Observation,
        words: Option<SharedWords>,
    ) -> Result<Self> {
        let mut send_log = logs.sent.map(LogWriter::create).transpose()?;
        let mut receive_log = logs.shown.map(LogWriter::create).transpose()?;
        let epoch = clock.epoch();
        if let Some(log) = &mut send_log {
            log.write(&SenderEntry::Start { epoch });
        }
        if let Some(log) = &mut receive_log {
            log.write(&ReceiverEntry::Start { epoch });
        }
        match status {
            StatusArgument::Json => {
                for (place, address) in observation.places.iter().cloned() {
                    say(&match place {
                        Place::Monitor => StatusLine::Monitor(address),
                        Place::Metrics => StatusLine::Metrics(address),
                    });
                }
            }
            StatusArgument::Line | StatusArgument::None => observation.tell(),
        }
        let (stats, captions, screen) = (LiveStats::default(), Captions::default(), Screen::start()?);
        let (joined, shown_at, session, decisions) = (false, None, None, DecisionLog::default());
        Ok(Self {
            status,
            screen,
            joined,
            stats,
            captions,
            shown_at,
            words,
            send_log,
            receive_log,
            observation,
            session,
            decisions,
        })
    }

    /// The same with the log of a session, if there is one; the clock of the call began at `epoch`.
    #[must_use]
    pub fn with_session(self, session: Option<SessionLog>, epoch: Timestamp) -> Self {
        Self { session: session.map(|log| LiveSessionLog::new(log, epoch)), ..self }
    }

    /// The same with the recording of the controller's decisions, if there is one.
    #[must_use]
    pub fn with_decisions(self, decisions: DecisionLog) -> Self {
        Self { decisions, ..self }
    }

    /// The log of the session, once the other end is there.
    fn session(&mut self) -> Option<&mut LiveSessionLog> {
        self.session.as_mut().filter(|_| self.joined)
    }

    /// Ends the logs, whatever ended the call.
    ///
    /// # Errors
    /// If anything is missing from a file.
    pub fn finish(mut self, finished: &Finished) -> Result<()> {
        let is_read = self.screen.finish();
        let sent = match (self.send_log, finished.sending.first()) {
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
        let received = match (self.receive_log, finished.receiving.first()) {
            (Some(mut log), Some(call)) => {
                let (counters, mut decoder) = (counters(&call.statistics()), counters(&call.counts()));
                decoder.insert("dropped_by_sink".to_owned(), finished.dropped);
                if let Some(sound) = &finished.sound {
                    log.write(&ReceiverEntry::Sound(sound.clone()));
                }
                log.write(&ReceiverEntry::End { counters, decoder });
                log.finish()
            }
            _ => Ok(()),
        };
        let printed = match is_read {
            true => Ok(()),
            false => Err(anyhow!("standard output takes no more; what was printed may be incomplete")),
        };
        let session = self.session.map_or(Ok(()), LiveSessionLog::finish);
        output_file::all([sent, received, self.decisions.finish(), self.observation.finish(), session, printed])
    }

    fn notice(&self, state: &CallState) -> Notice {
        let still = self.shown_at.map(|at| state.now.saturating_since(at)).filter(|&time| time >= STILL);
        let (words, is_instead) = match (self.joined, state.peer, still) {
            (false, ..) => ("waiting for the other end".to_owned(), true),
            (_, Presence { camera_off: true, .. }, _) => ("camera off".to_owned(), true),
            (.., Some(time)) => (format!("no pictures for {} s", time.as_secs()), false),
            _ => (String::new(), false),
        };
        Notice { words, is_instead }
    }
}

impl Witness for Reporter {
    fn event(&mut self, event: CallEvent) {
        match event {
            CallEvent::Warning(warning) => notice(self.status, &format!("warning: {warning}")),
            CallEvent::Joined => {
                self.joined = true;
                if self.status == StatusArgument::Line {
                    self.screen.say(Said::News("the other end is there".to_owned()));
                }
            }
            CallEvent::SourceFailed { stream, reason } => {
                notice(
                    self.status,
                    &format!("warning: the source of stream {stream} failed, the others resume: {reason}"),
                );
            }
            _ => {}
        }
    }

    fn receiving(&mut self, now: Timestamp, stream: usize, call: &ReceivingEnd) {
        if stream > 0 {
            return;
        }
        self.stats.receiving(now, call);
        if let Some(log) = self.session() {
            log.meter(now).receiving(now, call);
            if let Some(format) = call.format() {
                log.pictures(&format);
            }
            log.tick(now);
        }
    }

    fn status(&mut self, now: Timestamp, stream: usize, call: &SendingEnd) {
        if stream > 0 {
            return;
        }
        self.stats.sending(now, call);
        if let Some(log) = self.session() {
            log.meter(now).sending(now, call);
            log.tick(now);
        }
        if self.status == StatusArgument::Json {
            let (captured, status) = (call.captured(), call.status(now));
            let (target_bps, quantizer) = (status.target.as_bps(), status.quantizer);
            self.screen.say(Said::Json(StatusLine::Sending { target_bps, quantizer, captured }));
        }
    }

    fn at(&mut self, state: &CallState) {
        let sample = self.stats.sample(state);
        self.observation.take(&sample);
        let caption = if self.joined { self.captions.of(&sample) } else { waiting(state).to_owned() };
        if let Some(words) = &self.words {
            let newest = Words { caption: caption.clone(), notice: self.notice(state) };
            *words.lock().unwrap_or_else(PoisonError::into_inner) = newest;
        }
        match self.status {
            StatusArgument::None => {}
            StatusArgument::Json => self.screen.say(Said::Json(StatusLine::Stats(Box::new(sample)))),
            StatusArgument::Line => self.screen.say(Said::Line(caption)),
        }
    }

    fn captured(&mut self, stream: usize, record: FrameRecord) {
        if stream > 0 {
            if let Some(log) = &mut self.send_log {
                log.write(&SenderEntry::StreamFrame { stream, frame: Box::new(record) });
            }
            return;
        }
        self.stats.captured(&record);
        self.observation.captured(&record);
        if let Some(meter) = self.session().and_then(LiveSessionLog::begun) {
            meter.captured(&record);
        }
        if let Some(log) = &mut self.send_log {
            log.write(&SenderEntry::Frame(Box::new(record)));
        }
    }

    fn shown(&mut self, stream: usize, shown: &Shown) {
        if stream > 0 {
            if let Some(log) = &mut self.receive_log {
                log.write(&ReceiverEntry::StreamDisplay { stream, display: shown.record });
            }
            return;
        }
        let delay = self.stats.shown(shown);
        self.shown_at = Some(shown.record.displayed_at);
        self.observation.shown(shown, delay);
        if let Some(meter) = self.session().and_then(LiveSessionLog::begun) {
            meter.shown(shown.record.displayed_at, Duration::try_from_secs_f64(delay).ok());
        }
        if let Some(log) = &mut self.receive_log {
            log.write(&ReceiverEntry::Display(shown.record));
        }
        if self.status == StatusArgument::Json {
            let (frame, delay_ms) = (shown.record.frame, 1e3 * delay);
            self.screen.say(Said::Json(StatusLine::Showing { frame, delay_ms }));
        }
    }
}
