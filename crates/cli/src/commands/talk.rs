//! `lockstep talk`: a call in both directions.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use lockstep_control::Latency;
use lockstep_live::{CallKind, CallOptions, Clock, OpenSink, OwnPicture, Peer, Receiving, Sending, with_inset};
use lockstep_media::{SourceOptions, open_sink, open_source, sink_path};

use crate::commands::live::{
    IDLE_SECONDS, Limit, ListeningArguments, MOST_PIXELS, ProgramArguments, Reporter, StatsArguments, StatusArgument,
    StatusLine, check, connection_id, finish, limit, menu_runner, print_ticket, say, ticket_to_join,
};
use crate::commands::live_sound::{HearingArguments, LiveSound, SpeakingArguments};
use crate::configuration::{ControlSettings, ControlWords, OptionValue, Seconds};
use crate::interruption::Interruption;
use crate::session_log::arguments::SessionArguments;

/// What `lockstep talk` is told.
#[derive(Debug, Clone, Args)]
pub struct TalkArguments {
    /// The ticket that the other end printed, or `-` to be asked for it; without one, print a ticket and wait.
    ticket: Option<String>,
    #[command(flatten)]
    listening: ListeningArguments,
    /// One's own pictures: `camera` or `/dev/video0`, `generated`, `generated:640x360@25`, a y4m file, or anything else that
    /// ffmpeg reads. The camera if there is one, else `generated`, unless it is said.
    #[arg(long)]
    source: Option<String>,
    /// Where the other's pictures go: `window` with one's own small in a corner, `none`, a .y4m file, or an .ivf file for the
    /// coded frames.
    #[arg(long, default_value = "window")]
    sink: String,
    /// Open no window: `--sink none` unless it names a file.
    #[arg(long)]
    no_window: bool,
    /// Stop after this long; without it the call lasts until the source ends or either end leaves.
    #[arg(long, value_parser = Seconds::from_word)]
    seconds: Option<Seconds>,
    /// Give up when the other end is not there within this long; `none` waits for ever, which is what happens without a ticket.
    #[arg(long, value_name = "SECONDS", value_parser = limit)]
    wait_seconds: Option<Limit>,
    /// End the call when the other end is silent for this long, or never with `none`.
    #[arg(long, value_name = "SECONDS", default_value = IDLE_SECONDS, value_parser = limit)]
    idle_seconds: Limit,
    /// Refuse a call whose pictures have more pixels than this; the default is what 4K video needs.
    #[arg(long, value_name = "PIXELS", default_value_t = MOST_PIXELS)]
    max_pixels: usize,
    /// Seed of the generated clip.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    speaking: SpeakingArguments,
    #[command(flatten)]
    hearing: HearingArguments,
    #[command(flatten)]
    control: ControlWords,
    /// Where the log of one's own pictures goes while the call runs, a line of JSON for each.
    #[arg(long, value_name = "FILE")]
    send_log: Option<PathBuf>,
    /// Where the log of the other's pictures goes.
    #[arg(long, value_name = "FILE")]
    receive_log: Option<PathBuf>,
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

impl TalkArguments {
    fn sink(&self) -> &str {
        if self.no_window && self.sink == "window" { "none" } else { &self.sink }
    }

    fn source(&self) -> &str {
        let camera = || if Path::new("/dev/video0").exists() { "camera" } else { "generated" };
        self.source.as_deref().unwrap_or_else(camera)
    }
}

/// How long whoever joins waits for an answer.
const WAIT: &str = "10";

/// `lockstep talk`.
pub fn run(arguments: &TalkArguments) -> Result<()> {
    let logs = [&arguments.send_log, &arguments.receive_log].map(|log| log.as_deref());
    let sink = sink_path(arguments.sink())?;
    let outputs = [("--sink", sink), ("--send-log", logs[0]), ("--receive-log", logs[1]), arguments.hearing.output()];
    let outputs = [&outputs[..], &[arguments.stats.output()]].concat();
    let inputs: Vec<&Path> = [Path::new(arguments.source())].into_iter().chain(arguments.speaking.file()).collect();
    check(&outputs, &inputs, arguments.status)?;
    let control = arguments.control.settings()?;
    let microphone = arguments.speaking.open(LiveSound::Device)?;
    let loudspeaker = arguments.hearing.open(LiveSound::Device, control.controller.latency() != Some(Latency::Low))?;
    let joined = match arguments.ticket.as_deref() {
        Some("-") => Some(ticket_to_join(None)?),
        given => given.map(|text| ticket_to_join(Some(text))).transpose()?,
    };
    let options = SourceOptions { seed: arguments.seed, ..SourceOptions::default() };
    let source = open_source(arguments.source(), &options)?;
    let sending = control.sending_end(&source.format(), connection_id(), None)?;
    let interruption = Interruption::watch()?;
    let clock = Clock::start();
    let mut session = arguments.session.open("talk", "peer", None)?;
    if let Some(log) = &mut session {
        log.description().control(&control);
        log.description().pictures(&source.format());
    }
    let reporter = Reporter::new(arguments.status, clock, logs[0], logs[1], arguments.stats.file.as_deref())?;
    let mut reporter = reporter.with_session(session, clock.epoch());
    let (peer, wait) = match joined {
        Some(ticket) => (Peer::Of(ticket), WAIT),
        None => {
            let (listener, ticket) = arguments.listening.listener()?;
            match arguments.status {
                StatusArgument::Json => say(&StatusLine::Ticket(ticket.to_string())),
                StatusArgument::Line => print_ticket(&ticket, "talk"),
                StatusArgument::None => {}
            }
            (Peer::At(listener), "none")
        }
    };
    let wait = match arguments.wait_seconds {
        Some(limit) => limit,
        None => limit(wait).map_err(anyhow::Error::msg)?,
    };
    let own = OwnPicture::default();
    let source = own.of(source);
    let name = arguments.sink().to_owned();
    let open: OpenSink = Box::new(move |format| {
        let sink = open_sink(&name, format)?;
        Ok(if name == "window" { with_inset(sink, own) } else { sink })
    });
    let receiving = ControlSettings::receiving_end().with_pixel_limit(arguments.max_pixels);
    let options = CallOptions {
        peer,
        kind: CallKind::TwoWay,
        sending: Some(Sending {
            end: sending,
            source,
            runner: menu_runner(control.menu),
            microphone,
            measures_quality: arguments.send_log.is_some(),
        }),
        receiving: Some(Receiving { end: receiving, open_sink: open, loudspeaker }),
        length: arguments.seconds.map(Seconds::get),
        wait_limit: wait.0,
        idle_limit: arguments.idle_seconds.0,
        stop: arguments.program.stop(&interruption),
    };
    let finished = lockstep_live::run(clock, options, &mut reporter);
    finish(reporter, finished, &interruption, arguments.status)
}
