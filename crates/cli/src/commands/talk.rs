//! `lockstep talk`: a call in both directions.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use anyhow::Result;
use clap::Args;

use lockstep_configuration::{ControlArguments, ControlSettings, OptionValue, Seconds};
use lockstep_control::{Controllers, Latency};
use lockstep_live::{
    CallHandle, CallKind, CallOptions, Finished, Freshness, OpenSink, OwnPicture, Receiving, RemoteEnd, Sending, Stop,
    StreamName,
};
use lockstep_media::{Notice, Overlay, SourceOptions, WindowSink, open_sink, open_source, sink_path};
use lockstep_runner::interruption::Interruption;
use lockstep_runner::session_log::arguments::SessionArguments;
use lockstep_runner::standard_input::is_standard_input;
use lockstep_socket::Clock;
use lockstep_vp8::Picture;

use crate::call_files::of_call;
use crate::commands::live::{
    IDLE_SECONDS, Limit, ListenerTicket, ListeningArguments, MAX_PIXELS, RouteArguments, check, connection_id, limit,
    menu_runner, sink_of_call, ticket_to_join,
};
use crate::commands::live_sound::{LiveSound, MissingDevices, SoundSinkArguments, SoundSourceArguments};
use crate::commands::program_arguments::ProgramArguments;
use crate::commands::serving::Service;
use crate::decisions::DecisionsArgument;
use crate::keys::{KEYS, Keyboard, command};
use crate::observation::{Observation, ObservationArguments, Pages};
use crate::reporter::{Logs, Reporter, SharedWindowText, StatusArgument, WindowText, notice};

/// Default camera.
const CAMERA: &str = "/dev/video0";

/// Arguments of `lockstep talk`.
#[derive(Debug, Clone, Args)]
pub struct TalkArguments {
    /// Ticket that the peer printed, or `-` to be asked for it; without a ticket, print one and wait.
    ticket: Option<String>,
    #[command(flatten)]
    listening: ListeningArguments,
    #[command(flatten)]
    route: RouteArguments,
    /// Your video source: `camera` or `/dev/video0`, `generated`, `generated:640x360@25`, a y4m file, any other input
    /// of ffmpeg, or `-` for standard input. The default is the camera, or `generated` if there is none.
    #[arg(long)]
    source: Option<String>,
    /// Your camera: a name of `lockstep devices`, a part of one name, or a path; the same as `--source camera:NAME`.
    #[arg(long, value_name = "NAME|PATH", conflicts_with = "source")]
    camera: Option<String>,
    /// Where the peer's pictures go: `window`, with yours small in a corner (keys: m mutes, v turns the camera off and
    /// on, q or Escape leaves); `none`; a .webm or .mkv file (VP8 encoded again, with the peer's sound); an .ivf file
    /// (the same without sound); or a .y4m file (the pictures).
    #[arg(long, default_value = "window")]
    sink: String,
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
    /// End the call if the peer is silent for this time; `none` never ends it.
    #[arg(long, value_name = "SECONDS", default_value = IDLE_SECONDS, value_parser = limit)]
    idle_seconds: Limit,
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

    /// Message for a user whose camera is missing.
    fn camera_notice(&self) -> Option<String> {
        let is_missing = self.source.is_none() && self.source() == "generated";
        is_missing.then(|| {
            format!("no camera at {CAMERA}: the other end sees a generated person; choose other pictures with --source")
        })
    }
}

/// Overlay of a call's window: your picture, a caption and a notice. Its keys are commands.
struct CallOverlay {
    own: OwnPicture,
    words: SharedWindowText,
    handle: CallHandle,
}

impl CallOverlay {
    fn words(&self) -> WindowText {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Overlay for CallOverlay {
    fn own(&mut self) -> Option<Picture> {
        self.own.newest()
    }

    fn caption(&mut self) -> String {
        self.words().caption
    }

    fn notice(&mut self) -> Notice {
        self.words().notice
    }

    fn pressed(&mut self, key: char) {
        if let Some(command) = command(key) {
            self.handle.command(command);
        }
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
        let others = [("--sink", sink_path(self.sink())?), self.hearing.output(), self.decisions.output()];
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
    /// Keys, lines and the window send commands by it.
    handle: CallHandle,
    /// The ticket that others join with.
    ticket: Option<ListenerTicket>,
    /// Whether the notices about missing devices are printed.
    gave_notice: bool,
}

impl Talk {
    /// Runs one call with `peer` until `stop` ends it.
    fn call(&mut self, arguments: &TalkArguments, peer: RemoteEnd, stop: Stop) -> Result<(Reporter, Finished)> {
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
        let source = own.of(source);
        let words = SharedWindowText::default();
        // The window opens before a ticket is printed, so that a failure shows first.
        let open: OpenSink = if arguments.sink() == "window" {
            let overlay = CallOverlay { own, words: words.clone(), handle: self.handle.clone() };
            let window = WindowSink::open_with("Lockstep", format, Box::new(overlay))?;
            Box::new(move |_, _| Ok(Box::new(window)))
        } else {
            let name = arguments.sink().to_owned();
            Box::new(move |_, format| open_sink(&name, format))
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
        let reporter = Reporter::new(arguments.status, clock, logs, observation, Some(words))?;
        let code = self.ticket.as_ref().and_then(ListenerTicket::link_picture);
        let mut reporter = reporter.with_session(session, clock.epoch()).with_decisions(decisions).with_code(code);
        if let Some(ticket) = &mut self.ticket {
            ticket.print(Some("talk"), arguments.status);
        }
        let receiving = ControlSettings::receiving_end().with_pixel_limit(arguments.max_pixels);
        let options = CallOptions {
            peer,
            kind: CallKind::TwoWay,
            sending: vec![Sending {
                end: sending,
                name: StreamName::default(),
                source: source.into(),
                runner: menu_runner(control.menu),
                microphone,
                measures_quality: arguments.send_log.is_some(),
            }],
            receiving: vec![Receiving { end: receiving, open_sink: open, loudspeaker }],
            length: arguments.seconds.map(Seconds::get),
            wait_limit: self.wait.0,
            idle_limit: arguments.idle_seconds.0,
            stop,
            freshness: Freshness::default(),
            handle: self.handle.clone(),
            qlog,
        };
        let finished = lockstep_live::run(clock, options, &mut reporter);
        Ok((reporter, finished))
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
    let joined = match arguments.ticket.as_deref() {
        Some("-") => Some(ticket_to_join(None, pictures_are_piped)?),
        given => given.map(|text| ticket_to_join(Some(text), pictures_are_piped)).transpose()?,
    };
    let interruption = Interruption::watch()?;
    // The listener opens before the log of an earlier call is truncated.
    let (peer, ticket) = match joined {
        Some(ticket) => (arguments.route.peer(ticket), None),
        None => {
            let (listener, ticket) = arguments.listening.listener(arguments.route)?;
            (RemoteEnd::At(listener), Some(ticket))
        }
    };
    let wait = if ticket.is_some() { "none" } else { WAIT };
    let wait = match arguments.wait_seconds {
        Some(limit) => limit,
        None => limit(wait).map_err(anyhow::Error::msg)?,
    };
    let pages = Pages::serve(&arguments.observation)?;
    let handle = CallHandle::new();
    let keyboard = if pictures_are_piped { None } else { Keyboard::open() };
    if keyboard.is_some() && arguments.status == StatusArgument::Line {
        print_line!("keys: {KEYS}");
    }
    // Standard input belongs to a script, unless the call has no other controls.
    let is_commanded = keyboard.is_some() || (arguments.no_window && !pictures_are_piped);
    let typed = is_commanded.then(|| handle.clone());
    let stop = arguments.program.stop(&interruption, typed);
    let clock = Clock::start();
    let mut talk = Talk { clock, control, wait, pages, handle, ticket, gave_notice: false };
    let service = Service {
        interruption: &interruption,
        program: &arguments.program,
        status: arguments.status,
        is_reusable: arguments.listening.reusable,
        outputs: &outputs,
    };
    let outcome = match peer {
        RemoteEnd::At(listener) => service.serve(listener, stop.clone(), |listener, files| {
            let arguments = arguments.of_call(files.number())?;
            talk.call(&arguments, RemoteEnd::At(listener), Box::new(stop.clone()))
        }),
        peer => {
            let (reporter, finished) = talk.call(arguments, peer, Box::new(stop))?;
            service.finish(reporter, finished)
        }
    };
    drop(keyboard);
    outcome
}
