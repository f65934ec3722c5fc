//! `lockstep talk`: a call in both directions.

mod room;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;

use lockstep_av1::Vp8OrAv1;
use lockstep_configuration::{ControlArguments, ControlSettings, OptionValue, Seconds};
use lockstep_control::{Controllers, Latency};
use lockstep_live::{
    CallHandle, CallKind, CallOptions, CallRecording, Entrance, Finished, Freshness, Listener, LiveError, Loudspeaker,
    OpenSink, OwnPicture, Presence, Receiving, RemoteEnd, Sending, Stop, StreamName, Ticket, TicketRefusal,
};
use lockstep_media::{
    Overlay, SourceError, SourceOptions, WindowContent, WindowSink, open_sink, open_source, sink_path,
};
use lockstep_runner::interruption::Interruption;
use lockstep_runner::session_log::arguments::SessionArguments;
use lockstep_runner::standard_input::is_standard_input;
use lockstep_socket::Clock;
use lockstep_sound::DiscardSoundSink;

use crate::call_files::of_call;
use crate::commands::live::{
    Limit, ListeningArguments, MAX_PIXELS, RouteArguments, check, connection_id, limit, menu_runner, sink_of_call,
};
use crate::commands::live_sound::{LiveSound, MissingDevices, SoundSinkArguments, SoundSourceArguments};
use crate::commands::program_arguments::ProgramArguments;
use crate::commands::serving::{Service, wait};
use crate::commands::tickets::{ListenerTicket, ticket_to_join};
use crate::decisions::DecisionsArgument;
use crate::keys::{KEYS, Keyboard, Keys};
use crate::observation::{Observation, ObservationArguments, Pages};
use crate::reporter::{CallText, Logs, Reporter, SharedCallText, StatusArgument, notice};
use crate::shared_screen::ScreenSharing;

/// Default camera.
const CAMERA: &str = "/dev/video0";

/// Arguments of `lockstep talk`.
#[derive(Debug, Clone, Args)]
pub struct TalkArguments {
    /// Ticket or code that the peer printed, or `-` to be asked for it; without one, print one and wait.
    ticket: Option<String>,
    #[command(flatten)]
    listening: ListeningArguments,
    #[command(flatten)]
    route: RouteArguments,
    /// Open a room for up to six people; the others need no --room. They join with its ticket, or each with a code.
    #[arg(long, conflicts_with = "ticket")]
    room: bool,
    /// Your name for the other end's window. It has letters, digits, `-` and `_`.
    #[arg(long)]
    name: Option<StreamName>,
    /// Share the screen from the start, or a monitor by its number from 1; the key `s` stops it. Without this option the
    /// key shares the whole screen. X11 only.
    #[arg(long, value_name = "MONITOR", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    screen: Option<String>,
    /// Your video source: `camera` or `/dev/video0`, `generated`, `generated:640x360@25`, a y4m file, any other input
    /// of ffmpeg, or `-` for standard input. The default is the camera, or `generated` if there is none.
    #[arg(long)]
    source: Option<String>,
    /// Your camera: a name of `lockstep devices`, a part of one name, or a path; the same as `--source camera:NAME`.
    #[arg(long, value_name = "NAME|PATH", conflicts_with = "source")]
    camera: Option<String>,
    /// Where the peer's pictures go: `window`, with yours small in a corner, buttons that appear with the mouse, and keys
    /// that `?` lists; `none`; a .webm or .mkv file (VP8 encoded again, with the peer's sound); an .ivf file
    /// (the same without sound); or a .y4m file (the pictures).
    #[arg(long, default_value = "window")]
    sink: String,
    /// Record the call into this .webm or .mkv file: the peer's pictures with yours small, and both voices. The window stays open, and the
    /// peer is notified.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Open no window: `--sink none`, unless it names a file. Lines from standard input then replace the keys of the
    /// window (m, v, q), if it is not a terminal.
    #[arg(long)]
    no_window: bool,
    /// Stop after this time; without it, the call lasts until the source ends or a peer leaves.
    #[arg(long, value_parser = Seconds::from_word)]
    seconds: Option<Seconds>,
    /// Give up if the peer does not join within this time; `none` waits without limit, the default without a ticket.
    #[arg(long, value_name = "SECONDS", value_parser = limit)]
    wait_seconds: Option<Limit>,
    /// End the call if the peer is silent for this time. By default the call waits without limit, and resumes when the
    /// peer is back; `--room` waits for 30 s, and the program enters again when the person is back.
    #[arg(long, value_name = "SECONDS", value_parser = limit)]
    idle_seconds: Option<Limit>,
    /// Refuse calls with more pixels per picture than this; the default allows 4K video.
    #[arg(long, value_name = "PIXELS", default_value_t = MAX_PIXELS)]
    max_pixels: usize,
    /// Seed of the generated clip.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    speaking: SoundSourceArguments,
    #[command(flatten)]
    hearing: SoundSinkArguments,
    #[command(flatten)]
    control: ControlArguments,
    /// File for the log of your pictures during the call, one line of JSON for each.
    #[arg(long, value_name = "FILE")]
    send_log: Option<PathBuf>,
    /// File for the log of the peer's pictures.
    #[arg(long, value_name = "FILE")]
    receive_log: Option<PathBuf>,
    #[command(flatten)]
    decisions: DecisionsArgument,
    #[command(flatten)]
    observation: ObservationArguments,
    #[command(flatten)]
    session: SessionArguments,
    /// Status that is printed during the call.
    #[arg(long, value_enum, default_value_t = StatusArgument::Line)]
    status: StatusArgument,
    #[command(flatten)]
    program: ProgramArguments,
}

impl TalkArguments {
    fn sink(&self) -> &str {
        if self.no_window && self.sink == "window" { "none" } else { &self.sink }
    }

    fn source(&self) -> String {
        let camera = || if Path::new(CAMERA).exists() { "camera" } else { "generated" };
        let named = self.camera.as_ref().map(|name| format!("camera:{name}"));
        named.or_else(|| self.source.clone()).unwrap_or_else(|| camera().to_owned())
    }

    /// The screen to share, as a source.
    fn shared_screen(&self) -> String {
        match self.screen.as_deref() {
            None | Some("") => "screen".to_owned(),
            Some(monitor) => format!("screen:{monitor}"),
        }
    }

    /// Message for a user whose camera is missing.
    fn camera_notice(&self) -> Option<String> {
        let is_missing = self.source.is_none() && self.source() == "generated";
        is_missing.then(|| {
            format!("no camera at {CAMERA}: the other end sees a generated person; choose other pictures with --source")
        })
    }
}

/// Overlay of a call's window: your picture, words, and buttons.
struct CallOverlay {
    own: OwnPicture,
    text: SharedCallText,
    keys: Keys,
    sharing: ScreenSharing,
    handle: CallHandle,
}

impl Overlay for CallOverlay {
    fn content(&mut self) -> WindowContent {
        let CallText { words, details, notice, own } = self.text.newest();
        let details = if self.text.wants_details() { details } else { String::new() };
        let buttons = self.keys.buttons(own);
        let is_mirrored = !self.sharing.is_on();
        WindowContent { own: self.own.newest(), is_mirrored, words, details, notice, buttons }
    }

    fn pressed(&mut self, key: char) {
        self.keys.press(key);
    }

    fn closed(&mut self) {
        self.handle.leave();
    }
}

/// Default time in seconds that a joiner waits for an answer.
const WAIT: &str = "10";

impl TalkArguments {
    fn outputs(&self) -> Result<Vec<(&'static str, Option<&Path>)>> {
        let logs = [("--send-log", self.send_log.as_deref()), ("--receive-log", self.receive_log.as_deref())];
        let record = ("--record", self.record.as_deref());
        let others = [("--sink", sink_path(self.sink())?), record, self.hearing.output(), self.decisions.output()];
        Ok([&logs[..], &others, &self.observation.outputs()].concat())
    }

    /// The same with the files of call `number` ([`of_call`]).
    fn of_call(&self, number: u32) -> Result<Self> {
        let [send_log, receive_log] =
            [&self.send_log, &self.receive_log].map(|log| log.as_deref().map(|path| of_call(path, number)));
        Ok(Self {
            sink: sink_of_call(self.sink(), number)?,
            send_log,
            receive_log,
            record: self.record.as_deref().map(|path| of_call(path, number)),
            hearing: self.hearing.of_call(number),
            decisions: self.decisions.of_call(number),
            observation: self.observation.of_call(number),
            ..self.clone()
        })
    }
}

/// The state that all calls of one command share.
struct Talk {
    clock: Clock,
    control: ControlSettings,
    wait: Limit,
    pages: Pages,
    handle: CallHandle,
    /// Keys of the terminal and the window.
    keys: Keys,
    text: SharedCallText,
    sharing: ScreenSharing,
    /// The ticket that others join with.
    ticket: Option<ListenerTicket>,
    /// Whether the notices about missing devices are printed.
    gave_notice: bool,
}

impl Talk {
    /// Runs one call with `peer` until `stop` ends it.
    fn call(
        &mut self,
        arguments: &TalkArguments,
        peer: RemoteEnd,
        stop: Stop,
    ) -> Result<(Reporter, Finished<Vp8OrAv1>)> {
        let Self { clock, control, .. } = self;
        let clock = *clock;
        let mut missing = MissingDevices::default();
        let microphone = arguments.speaking.open(LiveSound::Device(&mut missing), arguments.status)?;
        let lip_sync = control.controller.latency() != Some(Latency::Low);
        let usual = LiveSound::Device(&mut missing);
        let loudspeaker = arguments.hearing.open(usual, lip_sync, arguments.sink(), arguments.status)?;
        let (microphone, loudspeaker) = arguments.speaking.process(microphone, loudspeaker);
        if !std::mem::replace(&mut self.gave_notice, true) {
            let notices = [arguments.camera_notice(), missing.notice()];
            notices.iter().flatten().for_each(|text| notice(arguments.status, text));
        }
        let options = SourceOptions { seed: arguments.seed, ..SourceOptions::default() };
        let source = open_source(&arguments.source(), &options)?;
        let decisions = arguments.decisions.log();
        let sending = control.recorded_sending_end(&source.format(), connection_id(), decisions.recorder())?;
        let own = OwnPicture::default();
        let format = source.format();
        let create = |path| CallRecording::create(path, format, own.clone(), clock);
        let recording = arguments.record.as_deref().map(create).transpose()?;
        let (microphone, loudspeaker) = match &recording {
            Some(recording) => {
                // The pace of the loudspeaker is that of the recorded sound.
                let silent = || Loudspeaker { sink: Box::new(DiscardSoundSink), lip_sync };
                let Loudspeaker { sink, lip_sync } = loudspeaker.unwrap_or_else(silent);
                let microphone = microphone.map(|source| recording.of_microphone(source));
                (microphone, Some(Loudspeaker { sink: recording.of_loudspeaker(sink), lip_sync }))
            }
            None => (microphone, loudspeaker),
        };
        let status = arguments.status;
        let failed = move |error: &SourceError| notice(status, &error.to_string());
        let source = own.of(self.sharing.source(source, arguments.shared_screen(), failed));
        // The window opens before a ticket is printed, so that a failure shows first.
        let open: OpenSink = if arguments.sink() == "window" {
            let (text, keys, handle) = (self.text.clone(), self.keys.clone(), self.handle.clone());
            let overlay = CallOverlay { own, text, keys, sharing: self.sharing.clone(), handle };
            let window = WindowSink::open_with("Lockstep", format, Box::new(overlay))?;
            Box::new(move |name, _| {
                window.tile().set_name(name);
                Ok(Box::new(window))
            })
        } else {
            let name = arguments.sink().to_owned();
            Box::new(move |_, format| open_sink(&name, format))
        };
        let open: OpenSink = match recording.clone() {
            Some(recording) => Box::new(move |name, format| Ok(recording.of_sink(open(name, format)?))),
            None => open,
        };
        decisions.open_growing()?;
        let observation = Observation::on(&mut self.pages, &arguments.observation)?;
        let qlog = observation.quic_log(!matches!(peer, RemoteEnd::At(_)));
        let logs = Logs { sent: arguments.send_log.as_deref(), shown: arguments.receive_log.as_deref() };
        let mut session = arguments.session.open("talk", "peer", None)?;
        if let Some(log) = &mut session {
            log.description().control(control);
            log.description().pictures(&format);
        }
        let reporter = Reporter::new(arguments.status, clock, logs, observation, Some(self.text.clone()))?;
        let code = self.ticket.as_ref().and_then(ListenerTicket::link_picture);
        let mut reporter = reporter.with_session(session, clock.epoch()).with_decisions(decisions).with_code(code);
        if let Some(ticket) = &mut self.ticket {
            reporter = reporter.with_missed_calls();
            ticket.print(Some("talk"), arguments.status);
        }
        let receiving = ControlSettings::receiving_end().with_pixel_limit(arguments.max_pixels);
        let options = CallOptions {
            peer,
            kind: CallKind::TwoWay,
            sending: vec![Sending {
                end: sending,
                name: arguments.name.clone().unwrap_or_default(),
                source: source.into(),
                runner: menu_runner(control.menu),
                microphone,
                measures_quality: arguments.send_log.is_some(),
            }],
            receiving: vec![Receiving { end: receiving, open_sink: open, loudspeaker }],
            length: arguments.seconds.map(Seconds::get),
            wait_limit: self.wait.0,
            starts_at_once: false,
            idle_limit: arguments.idle_seconds.and_then(|limit| limit.0),
            stop,
            freshness: Freshness::default(),
            handle: self.handle.clone(),
            qlog,
        };
        let mut finished = lockstep_live::run(clock, options, &mut reporter);
        if let Some(Err(error)) = recording.map(|recording| recording.finish())
            && finished.result.is_ok()
        {
            finished.result = Err(error);
        }
        Ok((reporter, finished))
    }
}

/// The other end, before the first call.
enum Peer {
    /// The owner of this ticket.
    Of(Ticket),
    /// A peer that joins this listener.
    At(Listener),
}

impl Talk {
    /// Joins the owner of `ticket`, and joins it again after it was restarted with the same ticket.
    fn join(
        &mut self,
        service: &Service<'_>,
        arguments: &TalkArguments,
        ticket: &Ticket,
        stop: impl Fn() -> bool + Clone + Send + 'static,
    ) -> Result<()> {
        let (mut number, mut was_busy) = (1, false);
        loop {
            let of_call = arguments.of_call(number)?;
            let peer = arguments.route.peer(ticket.clone());
            let (reporter, finished) = self.call(&of_call, peer, Box::new(stop.clone()))?;
            let Some(error) = reason_to_rejoin(&finished, was_busy) else { return service.finish(reporter, finished) };
            notice(arguments.status, &format!("{error}; calling again"));
            was_busy = matches!(error, LiveError::Ticket(_));
            if !was_busy {
                // It was there, so this end waits for it.
                (number, self.wait) = (number + 1, Limit(None));
            }
            let _ = service.finish(reporter, finished);
            wait(&stop);
            if stop() {
                return Ok(service.interruption.check()?);
            }
        }
    }
}

/// `lockstep talk`.
pub fn run(arguments: &TalkArguments, controllers: &Controllers) -> Result<()> {
    let outputs = arguments.outputs()?;
    let source = arguments.source();
    let source = Path::new(&source);
    let inputs: Vec<&Path> = [source].into_iter().chain(arguments.speaking.file()).collect();
    check(&outputs, &inputs, arguments.status)?;
    let pictures_are_piped = is_standard_input(source);
    arguments.listening.check_streams(sink_path(arguments.sink())?, pictures_are_piped)?;
    let control = arguments.control.settings_with(controllers)?;
    let rendezvous = arguments.listening.rendezvous()?;
    let join = |text| ticket_to_join(text, pictures_are_piped, rendezvous.as_deref());
    let joined = match arguments.ticket.as_deref() {
        Some("-") => Some(join(None)?),
        given => given.map(|text| join(Some(text))).transpose()?,
    };
    let interruption = Interruption::watch()?;
    // The listener opens before the log of an earlier call is truncated.
    let (peer, ticket) = match joined {
        Some(ticket) => (Peer::Of(ticket), None),
        None => {
            let (listener, ticket) = arguments.listening.listener(arguments.route)?;
            (Peer::At(listener), Some(ticket))
        }
    };
    let wait = if ticket.is_some() { "none" } else { WAIT };
    let wait = match arguments.wait_seconds {
        Some(limit) => limit,
        None => limit(wait).map_err(anyhow::Error::msg)?,
    };
    let pages = Pages::serve(&arguments.observation)?;
    let handle = CallHandle::new();
    if arguments.record.is_some() {
        if arguments.hearing.is_refused() {
            bail!(
                "--record records what is heard, and --audio-output none hears nothing; write --audio-output nowhere"
            );
        }
        handle.set_presence(Presence { recording: true, ..Presence::default() });
    }
    let keyboard = if pictures_are_piped { None } else { Keyboard::open() };
    if keyboard.is_some() && arguments.status == StatusArgument::Line {
        print_line!("keys: {KEYS}");
    }
    // Standard input belongs to a script, unless the call has no other controls.
    let is_commanded = keyboard.is_some() || (arguments.no_window && !pictures_are_piped);
    let text = SharedCallText::default();
    let sharing = ScreenSharing::default();
    if arguments.screen.is_some() {
        sharing.toggle();
    }
    let keys = Keys::new(handle.clone(), text.clone(), sharing.clone());
    let typed = is_commanded.then(|| keys.clone());
    let stop = arguments.program.stop(&interruption, typed);
    let clock = Clock::start();
    let mut talk = Talk { clock, control, wait, pages, handle, keys, text, sharing, ticket, gave_notice: false };
    let service = Service {
        interruption: &interruption,
        program: &arguments.program,
        status: arguments.status,
        is_reusable: arguments.listening.reusable,
        outputs: &outputs,
    };
    let outcome = match peer {
        Peer::At(listener) if arguments.room => room::run(talk, arguments, Entrance::Open(listener), Box::new(stop))
            .and_then(|()| Ok(interruption.check()?)),
        Peer::At(listener) => service.serve(listener, stop.clone(), |listener, files| {
            let arguments = arguments.of_call(files.number())?;
            talk.call(&arguments, RemoteEnd::At(listener), Box::new(stop.clone()))
        }),
        Peer::Of(ticket) if ticket.is_room => {
            room::run(talk, arguments, Entrance::Enter(ticket), Box::new(stop)).and_then(|()| Ok(interruption.check()?))
        }
        Peer::Of(ticket) => talk.join(&service, arguments, &ticket, stop),
    };
    drop(keyboard);
    outcome
}

/// Why a joiner calls the same listener again, if it does. A restarted listener is back. A listener whose peer is silent
/// gives the place away at the second try.
fn reason_to_rejoin(finished: &Finished<Vp8OrAv1>, was_busy: bool) -> Option<&LiveError> {
    finished.result.as_ref().err().filter(|error| match error {
        LiveError::Restarted => true,
        LiveError::Ticket(TicketRefusal::Busy) => !was_busy,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use lockstep_live::Ended;

    use super::*;

    #[test]
    fn joiner_calls_again_after_a_restart_and_once_if_busy() {
        let finished = |result| Finished {
            sending: Vec::new(),
            receiving: Vec::new(),
            sound: None,
            dropped: 0,
            traffic: None,
            joined: true,
            freshness: Freshness::default(),
            result,
        };
        let rejoins = |error, was_busy| reason_to_rejoin(&finished(Err(error)), was_busy).is_some();
        let busy = || LiveError::Ticket(TicketRefusal::Busy);
        assert!(rejoins(LiveError::Restarted, true) && rejoins(busy(), false) && !rejoins(busy(), true));
        assert!(!rejoins(LiveError::Ticket(TicketRefusal::Used), false) && !rejoins(LiveError::PeerFailed, false));
        assert!(reason_to_rejoin(&finished(Ok(Ended::ByPeer)), false).is_none());
    }
}
