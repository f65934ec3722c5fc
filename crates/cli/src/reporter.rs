//! Reports on a running live call: on the screen, in its logs, and to its observers.
//!
//! Its methods run on the call's thread and never block it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use clap::ValueEnum;

use lockstep_av1::Vp8OrAv1;
use lockstep_call::{FrameRecord, ReceivingEnd, SendingEnd};
use lockstep_configuration::counters;
use lockstep_live::{CallEvent, CallObserver, CallState, Ended, Finished, LiveError, Presence, Shown};
use lockstep_media::Notice;
use lockstep_runner::call_logs::{LogWriter, ReceiverEntry, SenderEntry};
use lockstep_runner::live_stats::LiveStats;
use lockstep_runner::output_file;
use lockstep_runner::progress::ChangingLine;
use lockstep_runner::session_log::{LiveSessionLog, SessionLog};
use lockstep_runner::status_line::{StatusLine, print_status};
use lockstep_socket::Clock;
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

use crate::captions::{Captions, RECORDED, waiting, waiting_since};
use crate::decisions::DecisionLog;
use crate::observation::{Observation, Place};

/// Maximum lines that wait for the screen; a slower reader misses some.
const MAX_QUEUED_LINES: usize = 256;
/// Time limit for the last lines.
const SCREEN_LIMIT: Duration = Duration::from_secs(1);
/// Time without a new picture after which a notice appears.
const STILL: Duration = Duration::from_secs(2);

/// Status that a process prints during a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusArgument {
    /// One line that is overwritten.
    Line,
    /// A line of JSON a few times per second, for another program.
    Json,
    /// Only what peers and observers need: the ticket, the addresses of `--monitor` and `--metrics`.
    None,
}

/// Prints a line for the user on standard error, and as JSON for another program.
pub fn notice(status: StatusArgument, text: &str) {
    eprint_line!("lockstep: {text}");
    if status == StatusArgument::Json {
        print_status(&StatusLine::Notice(text.to_owned()));
    }
}

/// Output to the screen on a separate thread, because a terminal or a pipe may block.
pub struct Screen {
    lines: Option<SyncSender<ScreenLine>>,
    thread: Option<JoinHandle<()>>,
}

/// A line for the screen.
pub enum ScreenLine {
    Json(StatusLine),
    Line(String),
    News(String),
}

impl Screen {
    pub fn start() -> Result<Self> {
        let (lines, queue) = mpsc::sync_channel(MAX_QUEUED_LINES);
        let thread = thread::Builder::new().name("screen".to_owned()).spawn(move || {
            let mut changing = ChangingLine::default();
            for line in queue {
                match line {
                    ScreenLine::Json(line) => print_status(&line),
                    ScreenLine::Line(line) => changing.change(&line),
                    ScreenLine::News(line) => changing.news(&line),
                }
            }
            changing.end();
        })?;
        Ok(Self { lines: Some(lines), thread: Some(thread) })
    }

    pub fn print(&self, line: ScreenLine) {
        if let Some(lines) = &self.lines {
            let _ = lines.try_send(line);
        }
    }

    /// Prints news of a call for a person, or for another program.
    pub fn news(&self, status: StatusArgument, text: String) {
        match status {
            StatusArgument::Line => self.print(ScreenLine::News(text)),
            StatusArgument::Json => self.print(ScreenLine::Json(StatusLine::Notice(text))),
            StatusArgument::None => {}
        }
    }

    /// Ends the thread, and returns whether the screen is still read.
    pub fn finish(&mut self) -> bool {
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

/// What the screens of a call say to a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallText {
    /// A few words about its quality.
    pub words: String,
    /// A line of numbers.
    pub details: String,
    /// Notice over the pictures.
    pub notice: Notice,
    /// What this end provides.
    pub own: Presence,
}

/// Newest text, for the window's thread, and whether the user wants the numbers.
#[derive(Debug, Clone, Default)]
pub struct SharedCallText(Arc<(Mutex<CallText>, AtomicBool)>);

impl SharedCallText {
    /// The newest text.
    pub fn newest(&self) -> CallText {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the text.
    pub fn replace(&self, text: CallText) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// Shows the numbers, or hides them again.
    pub fn toggle_details(&self) {
        self.0.1.fetch_xor(true, Ordering::Relaxed);
    }

    /// Whether the user wants the numbers.
    pub fn wants_details(&self) -> bool {
        self.0.1.load(Ordering::Relaxed)
    }
}

/// Time of the day by the system's clock, in UTC.
fn time_of_day() -> String {
    let minutes = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 60;
    format!("{:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}

/// Frame logs of an end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Logs<'a> {
    /// Log of sent frames.
    pub sent: Option<&'a Path>,
    /// Log of shown frames.
    pub shown: Option<&'a Path>,
}

/// Whether the other end left, or fell silent.
fn is_given_up(result: &Result<Ended, LiveError>) -> bool {
    matches!(result, Ok(Ended::ByPeer) | Err(LiveError::Silent { .. } | LiveError::Replaced))
}

/// Prints and logs a call. The status line and the session log cover the first stream; statistics and logs cover all.
pub struct Reporter {
    status: StatusArgument,
    screen: Screen,
    joined: bool,
    stats: LiveStats,
    captions: Captions,
    shown_at: Option<Timestamp>,
    text: Option<SharedCallText>,
    code: Option<Picture>,
    send_log: Option<LogWriter>,
    receive_log: Option<LogWriter>,
    observation: Observation,
    session: Option<LiveSessionLog>,
    decisions: DecisionLog,
    /// Whether the other end records the call.
    is_recorded: bool,
    /// Whether a peer that left before its first picture is a missed call.
    reports_missed: bool,
    /// Newest notice of a missed call.
    missed_call: String,
}

impl Reporter {
    /// A reporter with logs, if any, and observers. A call of persons shares its text, and prints words instead of
    /// numbers.
    pub fn new(
        status: StatusArgument,
        clock: Clock,
        logs: Logs<'_>,
        observation: Observation,
        text: Option<SharedCallText>,
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
                    print_status(&match place {
                        Place::Monitor => StatusLine::Monitor(address),
                        Place::Metrics => StatusLine::Metrics(address),
                    });
                }
            }
            StatusArgument::Line | StatusArgument::None => observation.print_addresses(),
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
            text,
            code: None,
            send_log,
            receive_log,
            observation,
            session,
            decisions,
            is_recorded: false,
            reports_missed: false,
            missed_call: String::new(),
        })
    }

    /// The same reporter with a session log, if any; the clock of the call began at `epoch`.
    #[must_use]
    pub fn with_session(self, session: Option<SessionLog>, epoch: Timestamp) -> Self {
        Self { session: session.map(|log| LiveSessionLog::new(log, epoch)), ..self }
    }

    /// The same reporter with a recording of the controller's decisions, if any.
    #[must_use]
    pub fn with_decisions(self, decisions: DecisionLog) -> Self {
        Self { decisions, ..self }
    }

    /// The same reporter with a QR code, if any, that the window shows until the other end joins.
    #[must_use]
    pub fn with_code(self, code: Option<Picture>) -> Self {
        Self { code, ..self }
    }

    /// The same reporter, which reports a peer that left before its first picture as a missed call.
    #[must_use]
    pub fn with_missed_calls(self) -> Self {
        Self { reports_missed: true, ..self }
    }

    /// Session log, once the other end has joined.
    fn session(&mut self) -> Option<&mut LiveSessionLog> {
        self.session.as_mut().filter(|_| self.joined)
    }

    /// Completes the logs, for every end of the call.
    ///
    /// # Errors
    /// If anything is missing from a file.
    pub fn finish(mut self, finished: &Finished<Vp8OrAv1>) -> Result<()> {
        if self.reports_missed && finished.joined && self.shown_at.is_none() && is_given_up(&finished.result) {
            self.missed();
        }
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
            false => Err(anyhow!("standard output is blocked or closed; the printed text may be incomplete")),
        };
        let session = self.session.map_or(Ok(()), LiveSessionLog::finish);
        output_file::all([sent, received, self.decisions.finish(), self.observation.finish(), session, printed])
    }

    /// Reports a missed call, at most once per minute.
    fn missed(&mut self) {
        let text = format!("missed call at {}", time_of_day());
        if self.missed_call != text {
            notice(self.status, &text);
            self.missed_call = text;
        }
    }

    fn notice(&self, state: &CallState) -> Notice {
        let still = self.shown_at.map(|at| state.now.saturating_since(at)).filter(|&time| time >= STILL);
        let picture = self.code.clone().filter(|_| !self.joined);
        if self.joined
            && let Some(silence) = state.silence.filter(|&silence| silence >= STILL)
        {
            return Notice { words: waiting_since(silence), replaces_pictures: false, picture };
        }
        let (words, replaces_pictures) = match (self.joined, state.peer, still) {
            (false, ..) if picture.is_some() => (String::new(), true),
            (false, ..) => ("waiting for the other end".to_owned(), true),
            (_, Presence { camera_off: true, .. }, _) => ("camera off".to_owned(), true),
            (.., Some(time)) => (format!("no pictures for {} s", time.as_secs()), false),
            (_, Presence { recording: true, .. }, _) => (RECORDED.to_owned(), false),
            _ => (String::new(), false),
        };
        Notice { words, replaces_pictures, picture }
    }
}

impl CallObserver<Vp8OrAv1> for Reporter {
    fn event(&mut self, event: CallEvent) {
        match event {
            CallEvent::Warning(warning) => notice(self.status, &format!("warning: {warning}")),
            CallEvent::Joined => {
                self.joined = true;
                if self.status == StatusArgument::Line {
                    self.screen.print(ScreenLine::News("the other end is there".to_owned()));
                }
            }
            CallEvent::Interrupted | CallEvent::Resumed if self.status == StatusArgument::Json => {
                self.screen.print(ScreenLine::Json(StatusLine::Waiting(event == CallEvent::Interrupted)));
            }
            CallEvent::Missed => self.missed(),
            CallEvent::PeerChanged(presence) => {
                let began = presence.recording && !self.is_recorded;
                self.is_recorded = presence.recording;
                if began {
                    notice(self.status, RECORDED);
                }
            }
            CallEvent::SourceFailed { stream, reason } => {
                notice(
                    self.status,
                    &format!("warning: the source of stream {stream} failed, the call continues: {reason}"),
                );
            }
            _ => {}
        }
    }

    fn receiving(&mut self, now: Timestamp, stream: usize, call: &ReceivingEnd<Vp8OrAv1>) {
        self.stats.receiving(now, stream, call);
        if stream > 0 {
            return;
        }
        if let Some(log) = self.session() {
            log.meter(now).receiving(now, call);
            if let Some(format) = call.format() {
                log.pictures(&format);
            }
            log.tick(now);
        }
    }

    fn status(&mut self, now: Timestamp, stream: usize, call: &SendingEnd<Vp8OrAv1>) {
        self.stats.sending(now, stream, call);
        if stream > 0 {
            return;
        }
        if let Some(log) = self.session() {
            log.meter(now).sending(now, call);
            log.tick(now);
        }
        if self.status == StatusArgument::Json {
            let (captured, status) = (call.captured(), call.status(now));
            let (target_bps, quantizer) = (status.target.as_bps(), status.quantizer);
            self.screen.print(ScreenLine::Json(StatusLine::Sending { target_bps, quantizer, captured }));
        }
    }

    fn at(&mut self, state: &CallState) {
        let sample = self.stats.sample(state);
        self.observation.take(&sample);
        let silence = state.silence.filter(|&silence| silence >= STILL);
        let (words, details) = match silence {
            _ if !self.joined => (waiting(state).to_owned(), String::new()),
            Some(silence) => (waiting_since(silence), String::new()),
            None => (self.captions.words(&sample), self.captions.details(&sample)),
        };
        let line = match &self.text {
            Some(text) if !text.wants_details() => words.clone(),
            _ if details.is_empty() => words.clone(),
            Some(_) => format!("{words}  {details}"),
            None => details.clone(),
        };
        if let Some(text) = &self.text {
            text.replace(CallText { words, details, notice: self.notice(state), own: state.own });
        }
        match self.status {
            StatusArgument::None => {}
            StatusArgument::Json => self.screen.print(ScreenLine::Json(StatusLine::Stats(Box::new(sample)))),
            StatusArgument::Line => self.screen.print(ScreenLine::Line(line)),
        }
    }

    fn captured(&mut self, stream: usize, record: FrameRecord) {
        self.stats.captured(stream, &record);
        self.observation.captured(stream, &record);
        if stream > 0 {
            if let Some(log) = &mut self.send_log {
                log.write(&SenderEntry::StreamFrame { stream, frame: Box::new(record) });
            }
            return;
        }
        if let Some(meter) = self.session().and_then(LiveSessionLog::begun) {
            meter.captured(&record);
        }
        if let Some(log) = &mut self.send_log {
            log.write(&SenderEntry::Frame(Box::new(record)));
        }
    }

    fn shown(&mut self, stream: usize, shown: &Shown) {
        let delay = self.stats.shown(stream, shown);
        self.observation.shown(stream, shown, delay);
        if stream > 0 {
            if let Some(log) = &mut self.receive_log {
                log.write(&ReceiverEntry::StreamDisplay { stream, display: shown.record });
            }
            return;
        }
        self.shown_at = Some(shown.record.displayed_at);
        if let Some(meter) = self.session().and_then(LiveSessionLog::begun) {
            meter.shown(shown.record.displayed_at, Duration::try_from_secs_f64(delay).ok());
        }
        if let Some(log) = &mut self.receive_log {
            log.write(&ReceiverEntry::Display(shown.record));
        }
        if self.status == StatusArgument::Json {
            let (frame, delay_ms) = (shown.record.frame, 1e3 * delay);
            self.screen.print(ScreenLine::Json(StatusLine::Showing { frame, delay_ms }));
        }
    }
}
