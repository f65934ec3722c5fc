//! `lockstep send` and `lockstep receive`.

use std::env;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use lockstep_av1::Vp8OrAv1;
use lockstep_call::{Codec, MenuMode, MenuRunner, SerialMenu};
use lockstep_configuration::{ControlArguments, ControlSettings, ModelFile, OptionValue, Seconds};
use lockstep_control::{Controllers, FlowGroup};
use lockstep_live::{
    BroadcastOptions, CallHandle, CallKind, CallOptions, Finished, Freshness, Identity, Listener, LiveError,
    MAX_STREAMS, MAX_VIEWERS, OpenSink, Receiving, RemoteEnd, Sending, Stop, ThreadedMenu, Ticket,
};
use lockstep_media::{SourceOptions, open_sink, open_source, sink_of_stream, sink_path};
use lockstep_runner::interruption::Interruption;
use lockstep_runner::output_file::{self, is_standard_output, standard_output_is_taken};
use lockstep_runner::session_log::arguments::SessionArguments;
use lockstep_runner::standard_input::is_standard_input;
use lockstep_socket::Clock;

use crate::call_files::of_call;
use crate::commands::live_sound::{LiveSound, SoundSinkArguments, SoundSourceArguments};
use crate::commands::program_arguments::ProgramArguments;
use crate::commands::serving::Service;
use crate::commands::source_argument::{SourceArgument, stream_names};
use crate::commands::tickets::{ListenerTicket, Offers, ticket_to_join};
use crate::commands::viewers::send_to_viewers;
use crate::commands::web::WebArguments;
use crate::decisions::DecisionsArgument;
use crate::destination::{destination, resolve};
use crate::observation::{Observation, ObservationArguments, Pages};
use crate::reporter::{Logs, Reporter, StatusArgument};

/// Default maximum of pixels of a decoded picture, those of 4096x2304.
///
/// A frame has 1.5 bytes per pixel, 14 MB at this size, and at most about 40 are held.
pub const MAX_PIXELS: usize = 4096 * 2304;
/// Default silence in seconds after which a one-way call ends, as in WebRTC's consent (RFC 7675, section 5.1).
const IDLE_SECONDS: &str = "30";
/// Default time that a sender waits for an answer.
const WAIT: Duration = Duration::from_secs(10);

/// Time limit, or `None` for no limit.
#[derive(Debug, Clone, Copy)]
pub struct Limit(pub Option<Duration>);

/// Parses a time in seconds, or `none`.
pub fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        text => match Seconds::from_word(text) {
            Ok(seconds) => Ok(Limit(Some(seconds.get()))),
            Err(error) => Err(format!("{error}, or `none`")),
        },
    }
}

/// Arguments of `lockstep send`.
#[derive(Debug, Clone, Args)]
pub struct SendArguments {
    /// Ticket or code that `lockstep receive` printed; otherwise LOCKSTEP_TICKET, or the command asks for it. With --web the
    /// command prints a ticket instead, and sends to the browser that joins.
    ticket: Option<String>,
    #[command(flatten)]
    listening: ListeningArguments,
    /// Let this many browsers and peers watch at a time, each at the rate of a separate path; requires --web.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "web",
        value_parser = clap::value_parser!(u8).range(1..=MAX_VIEWERS as i64))]
    viewers: u8,
    #[command(flatten)]
    route: RouteArguments,
    /// Video source: `generated`, `generated:640x360@25`, a y4m file, `camera` or `/dev/video0`, any other input of
    /// ffmpeg, or `-` for standard input. Each further --source is another video stream. Streams share one budget by
    /// priority, and the receiver learns their names. The text of a screen's pictures stays sharp.
    #[arg(long, value_name = "SOURCE[,name=NAME][,priority=NUMBER][,content=screen]", default_value = "generated")]
    source: Vec<SourceArgument>,
    /// Stop this time after the receiver has joined; without it, the call lasts until the source ends or the receiver
    /// leaves.
    #[arg(long, value_parser = Seconds::from_word)]
    seconds: Option<Seconds>,
    /// Give up if nobody answers within this time; `none` retries without limit. The default is 10, and `none` with
    /// --web.
    #[arg(long, value_name = "SECONDS", value_parser = limit)]
    wait_seconds: Option<Limit>,
    /// Start the source before the receiver has joined, for `lockstep call`, whose link may carry nothing.
    #[arg(long, hide = true)]
    starts_at_once: bool,
    /// Give up if the receiver is silent for this time after it answered; `none` never does.
    #[arg(long, value_name = "SECONDS", default_value = IDLE_SECONDS, value_parser = limit)]
    idle_seconds: Limit,
    /// Seed of the generated clip.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    speaking: SoundSourceArguments,
    #[command(flatten)]
    control: ControlArguments,
    /// File for the sender's part of the per-frame log during the call, one line of JSON per frame.
    #[arg(long)]
    log: Option<PathBuf>,
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

/// Arguments of `lockstep receive`.
#[derive(Debug, Clone, Args)]
pub struct ReceiveArguments {
    /// Ticket, code or link of a sender, to join it as a viewer, or `-` to be asked for it; without a ticket, print
    /// one and wait for a sender.
    ticket: Option<String>,
    #[command(flatten)]
    listening: ListeningArguments,
    #[command(flatten)]
    route: RouteArguments,
    /// Where the pictures go: `window`; `none`; a .webm or .mkv file (VP8 encoded again, with the sound); an .ivf file
    /// (the same without sound); a .y4m file; or `-` for y4m on standard output. A file grows during the call and plays
    /// even if the receiver is killed. Each of several video streams has a tile of the window or a separate file, such
    /// as x.front.webm for x.webm.
    #[arg(long, default_value = "none")]
    sink: String,
    #[command(flatten)]
    hearing: SoundSinkArguments,
    /// Refuse calls with more pixels per picture than this; the default allows 4K video.
    #[arg(long, value_name = "PIXELS", default_value_t = MAX_PIXELS)]
    max_pixels: usize,
    /// Give up if no sender joins or answers within this time; `none` waits without limit, the default without a
    /// ticket.
    #[arg(long, value_name = "SECONDS", value_parser = limit)]
    wait_seconds: Option<Limit>,
    /// End the call if the sender is silent for this time; `none` never ends it.
    #[arg(long, value_name = "SECONDS", default_value = IDLE_SECONDS, value_parser = limit)]
    idle_seconds: Limit,
    /// ONNX model for a learned estimator at the receiver (`bob`, `hrcc`, `gemini`, `mmsys24`), instead of its default
    /// model.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// File for the receiver's part of the per-frame log during the call, one line of JSON per picture shown.
    #[arg(long)]
    log: Option<PathBuf>,
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

/// Where peers may join, and how often.
#[derive(Debug, Clone, Args)]
pub struct ListeningArguments {
    /// Address to listen on; port 0 chooses a free one. The unspecified address of IPv6 also accepts IPv4.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))]
    listen: SocketAddr,
    /// Another address of this peer for the ticket, such as that of a router that forwards a port.
    #[arg(long, value_name = "HOST:PORT", value_parser = destination)]
    address: Vec<String>,
    /// Print a standing ticket and serve one call after another until Ctrl-C. The ticket stays the same for the same
    /// --listen. Its key is kept in LOCKSTEP_HOME, otherwise in the user's folder for state. Each call writes separate
    /// files: shown.ivf, shown-2.ivf, shown-3.ivf. Existing files are kept.
    #[arg(long)]
    pub reusable: bool,
    /// Meet through this rendezvous, which the ticket then names (see `lockstep rendezvous`). It connects two peers
    /// behind routers that accept no incoming packets. It learns both addresses and the times of packets, and cannot
    /// read or join the call. It gives a code of a number and two words, which replaces the ticket. Otherwise
    /// LOCKSTEP_RENDEZVOUS names it.
    #[arg(long, value_name = "HOST:PORT", value_parser = destination)]
    rendezvous: Option<String>,
    /// Print the ticket too, if a code stands for it.
    #[arg(long)]
    show_ticket: bool,
    #[command(flatten)]
    web: WebArguments,
}

/// Which paths to the peer a call may use.
#[derive(Debug, Clone, Copy, Args)]
pub struct RouteArguments {
    /// Send everything through the rendezvous, which hides this peer's address from the other.
    #[arg(long)]
    pub relay_only: bool,
}

impl RouteArguments {
    /// The peer of `ticket`.
    pub fn peer(self, ticket: Ticket) -> RemoteEnd {
        if self.relay_only { RemoteEnd::ByRendezvous(ticket) } else { RemoteEnd::Of(ticket) }
    }
}

impl ListeningArguments {
    /// Refuses standard input and output, which hold the pictures of one call, with a ticket for many calls.
    pub fn check_streams(&self, sink: Option<&Path>, pictures_are_piped: bool) -> Result<()> {
        if self.reusable && sink.is_some_and(is_standard_output) {
            bail!("--sink - with --reusable: standard output holds the pictures of one call; name a file");
        }
        if self.reusable && pictures_are_piped {
            bail!("--source - with --reusable: standard input holds the pictures of one call; name a file");
        }
        Ok(())
    }

    /// The rendezvous: that of --rendezvous, or of LOCKSTEP_RENDEZVOUS.
    pub fn rendezvous(&self) -> Result<Option<String>> {
        let given = || env::var("LOCKSTEP_RENDEZVOUS").ok().filter(|text| !text.is_empty());
        let named = match &self.rendezvous {
            Some(named) => return Ok(Some(named.clone())),
            None => given().map(|text| destination(&text)).transpose(),
        };
        named.map_err(|error| anyhow!("LOCKSTEP_RENDEZVOUS: {error}"))
    }

    /// Refuses options of a listener at an end that joins. One that joins with a code requires a rendezvous.
    fn check_unused(&self, remedy: &str) -> Result<()> {
        let given = [
            ("--listen", self.listen != SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))),
            ("--address", !self.address.is_empty()),
            ("--reusable", self.reusable),
            ("--show-ticket", self.show_ticket),
            ("--web", self.web.is_given()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                bail!("{option} is for an end that prints a ticket: {remedy}, or omit {option}")
            }
            None => Ok(()),
        }
    }

    /// Opens the listener, makes its ticket, and serves the page of --web.
    pub fn listener(&self, route: RouteArguments) -> Result<(Listener, ListenerTicket)> {
        let rendezvous = self.rendezvous()?;
        let servers = rendezvous.as_deref().map(resolve).transpose()?.unwrap_or_default();
        if route.relay_only && servers.is_empty() {
            bail!("--relay-only requires a rendezvous: name it with --rendezvous HOST:PORT");
        }
        let identity = match (self.reusable, self.web.is_given()) {
            (false, false) => Identity::new()?,
            (false, true) => Identity::for_browsers()?,
            (true, false) => Identity::standing(&standing_identity()?)?,
            (true, true) => Identity::standing_for_browsers(&standing_identity()?)?,
        };
        let listener = Listener::bind(self.listen, identity)?.meeting_at(&servers, route.relay_only);
        let mut others = Vec::new();
        for name in &self.address {
            others.extend(resolve(name)?);
        }
        let ticket = listener.ticket(&others)?;
        let leads_here = ticket.addresses.iter().all(|address| address.ip().is_loopback());
        if self.listen.ip().is_unspecified() && ticket.rendezvous.is_empty() && leads_here {
            eprint_line!(
                "lockstep: warning: this machine has no network address, and the ticket works on this machine \
                 only; name an address at which others reach it with --address HOST:PORT"
            );
        }
        let page = self.web.serve(&listener)?;
        let offers = Offers::new(rendezvous, self.reusable, self.show_ticket);
        Ok((listener, ListenerTicket::new(ticket, page, offers)))
    }

    /// Whether browsers may join.
    pub fn web_is_given(&self) -> bool {
        self.web.is_given()
    }

    /// Opens listeners for one call each, at the address of --listen and any port.
    pub fn further_listeners(
        &self,
        route: RouteArguments,
    ) -> Result<impl FnMut() -> Result<Listener, LiveError> + Send + use<>> {
        let servers = self.rendezvous()?.as_deref().map(resolve).transpose()?.unwrap_or_default();
        let address = SocketAddr::new(self.listen.ip(), 0);
        Ok(move || Ok(Listener::bind(address, Identity::new()?)?.meeting_at(&servers, route.relay_only)))
    }
}

/// File of the standing identity.
fn standing_identity() -> Result<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = folder("LOCKSTEP_HOME")
        .or_else(|| Some(folder("XDG_STATE_HOME")?.join("lockstep")))
        .or_else(|| Some(folder("HOME")?.join(".local").join("state").join("lockstep")))
        .or_else(|| Some(folder("LOCALAPPDATA")?.join("lockstep")));
    Ok(home.context("cannot find a folder for the standing ticket's key; set LOCKSTEP_HOME")?.join("standing-ticket"))
}

/// Runner of the candidates of `menu`.
pub fn menu_runner<C: Codec<Analysis: Sync>>(menu: MenuMode) -> Box<dyn MenuRunner<C> + Send> {
    match menu {
        MenuMode::Parallel => Box::new(ThreadedMenu),
        MenuMode::Serial | MenuMode::Fit { .. } => Box::new(SerialMenu),
    }
}

/// Checks whether the outputs of a process can be written; its status may use standard output, too.
pub fn check(outputs: &[(&str, Option<&Path>)], inputs: &[&Path], status: StatusArgument) -> Result<()> {
    output_file::check(outputs, inputs)?;
    if status == StatusArgument::Json && standard_output_is_taken() {
        bail!("--status json writes to standard output, and so does an output called -; name a file");
    }
    Ok(())
}

impl SendArguments {
    fn outputs(&self) -> Vec<(&'static str, Option<&Path>)> {
        let logs = [("--log", self.log.as_deref()), self.decisions.output()];
        [&logs[..], &self.observation.outputs()].concat()
    }

    /// The same arguments with the files of call `number` ([`of_call`]).
    fn of_call(&self, number: u32) -> Self {
        let log = self.log.as_deref().map(|path| of_call(path, number));
        let (decisions, observation) = (self.decisions.of_call(number), self.observation.of_call(number));
        Self { log, decisions, observation, ..self.clone() }
    }
}

/// The state that all calls of `lockstep send` share.
struct SendService {
    clock: Clock,
    control: ControlSettings,
    pages: Pages,
    /// The ticket that a browser joins with.
    ticket: Option<ListenerTicket>,
}

impl SendService {
    /// Runs one call with `peer` until `stop` ends it.
    fn call(
        &mut self,
        arguments: &SendArguments,
        peer: RemoteEnd,
        stop: Stop,
    ) -> Result<(Reporter, Finished<Vp8OrAv1>)> {
        let Self { clock, control, pages, ticket } = self;
        let clock = *clock;
        let listens = matches!(peer, RemoteEnd::At(_));
        let names = stream_names(&arguments.source)?;
        let (mut microphone, _) =
            arguments.speaking.process(arguments.speaking.open(LiveSound::Nothing, arguments.status)?, None);
        let options = SourceOptions { seed: arguments.seed, ..SourceOptions::default() };
        let open = |source: &SourceArgument| open_source(&source.specification, &options);
        let sources = arguments.source.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let format = sources.first().map(|source| source.format()).unwrap_or_default();
        let decisions = arguments.decisions.log();
        let group = FlowGroup::new();
        let mut sending = Vec::new();
        for ((source, argument), name) in sources.into_iter().zip(&arguments.source).zip(names) {
            let format = source.format();
            let end = if arguments.source.len() == 1 {
                control.recorded_sending_end(&format, connection_id(), decisions.recorder())?
            } else {
                control.stream_end(&format, connection_id(), &group, argument.priority)?
            };
            sending.push(Sending {
                end,
                name,
                source: source.into(),
                runner: menu_runner(control.menu),
                microphone: microphone.take(),
                measures_quality: arguments.log.is_some(),
            });
        }
        decisions.open_growing()?;
        let observation = Observation::on(pages, &arguments.observation)?;
        let qlog = observation.quic_log(!listens);
        let logs = Logs { sent: arguments.log.as_deref(), shown: None };
        let mut session = arguments.session.open("send", "sender", None)?;
        if let Some(log) = &mut session {
            log.description().control(control);
            log.description().pictures(&format);
        }
        let reporter = Reporter::new(arguments.status, clock, logs, observation, None)?;
        let mut reporter = reporter.with_session(session, clock.epoch()).with_decisions(decisions);
        if let Some(ticket) = ticket {
            ticket.print(None, arguments.status);
        }
        let wait = if listens { None } else { Some(WAIT) };
        let options = CallOptions {
            peer,
            kind: if listens { CallKind::FromListener } else { CallKind::OneWay },
            sending,
            receiving: Vec::new(),
            length: arguments.seconds.map(Seconds::get),
            wait_limit: arguments.wait_seconds.map_or(wait, |limit| limit.0),
            starts_at_once: arguments.starts_at_once,
            idle_limit: arguments.idle_seconds.0,
            stop,
            freshness: Freshness::default(),
            handle: CallHandle::new(),
            qlog,
        };
        let finished = lockstep_live::run(clock, options, &mut reporter);
        Ok((reporter, finished))
    }
}

impl SendArguments {
    /// Options of a broadcast of the source to at most `self.viewers` peers at a time.
    fn broadcast(
        &self,
        control: ControlSettings,
        listener: Listener,
        stop: Stop,
    ) -> Result<BroadcastOptions<Vp8OrAv1>> {
        let [source] = &self.source[..] else {
            bail!("--viewers sends one video stream to many; give one --source");
        };
        let options = SourceOptions { seed: self.seed, ..SourceOptions::default() };
        let source = open_source(&source.specification, &options)?;
        let (format, menu) = (source.format(), control.menu);
        let make = move || control.recorded_sending_end(&format, connection_id(), None);
        make()?;
        let end = move || make().map_err(|error| LiveError::Controller(error.to_string()));
        Ok(BroadcastOptions {
            listener,
            source,
            microphone: self.speaking.process(self.speaking.open(LiveSound::Nothing, self.status)?, None).0,
            end: Box::new(end),
            runner: Box::new(move || menu_runner(menu)),
            max_viewers: usize::from(self.viewers),
            length: self.seconds.map(Seconds::get),
            idle_limit: self.idle_seconds.0,
            stop,
        })
    }

    /// Refuses options that describe a single call.
    fn check_single_call_options(&self) -> Result<()> {
        let given = self.outputs().into_iter().find(|(_, path)| path.is_some()).map(|(option, _)| option);
        let given = given.or(self.session.is_given().then_some("--session-log"));
        match given.or(self.observation.page_option()) {
            Some(option) => bail!("{option} describes one call, and --viewers {} has several; omit one", self.viewers),
            None => Ok(()),
        }
    }
}

/// `lockstep send`.
pub fn send(arguments: &SendArguments, controllers: &Controllers) -> Result<()> {
    let sources = arguments.source.iter().map(|source| Path::new(&source.specification));
    let pictures_are_piped = sources.clone().any(is_standard_input);
    let inputs: Vec<&Path> = sources.chain(arguments.speaking.file()).collect();
    stream_names(&arguments.source)?;
    if arguments.source.len() > 1 && arguments.decisions.output().1.is_some() {
        bail!("--decisions records the controller of one video stream; give one --source");
    }
    let outputs = arguments.outputs();
    check(&outputs, &inputs, arguments.status)?;
    let control = arguments.control.settings_with(controllers)?;
    let (peer, ticket) = if arguments.listening.web.is_given() {
        if arguments.ticket.is_some() {
            bail!("--web prints a ticket, and another ticket was given; omit one of them");
        }
        arguments.listening.check_streams(None, pictures_are_piped)?;
        let (listener, mut ticket) = arguments.listening.listener(arguments.route)?;
        if arguments.viewers > 1 {
            arguments.check_single_call_options()?;
            let interruption = Interruption::watch()?;
            ticket.print(None, arguments.status);
            let stop = Box::new(arguments.program.stop(&interruption, None));
            send_to_viewers(arguments.broadcast(control, listener, stop)?, arguments.status)?;
            return Ok(interruption.check()?);
        }
        (RemoteEnd::At(listener), Some(ticket))
    } else {
        arguments.listening.check_unused("add --web")?;
        let rendezvous = arguments.listening.rendezvous()?;
        let ticket = ticket_to_join(arguments.ticket.as_deref(), pictures_are_piped, rendezvous.as_deref())?;
        (arguments.route.peer(ticket), None)
    };
    let interruption = Interruption::watch()?;
    let pages = Pages::serve(&arguments.observation)?;
    let mut send = SendService { clock: Clock::start(), control, pages, ticket };
    let stop = arguments.program.stop(&interruption, None);
    let service = Service {
        interruption: &interruption,
        program: &arguments.program,
        status: arguments.status,
        is_reusable: arguments.listening.reusable,
        outputs: &outputs,
    };
    match peer {
        RemoteEnd::At(listener) => service.serve(listener, stop.clone(), |listener, files| {
            send.call(&arguments.of_call(files.number()), RemoteEnd::At(listener), Box::new(stop.clone()))
        }),
        peer => {
            let (reporter, finished) = send.call(arguments, peer, Box::new(stop))?;
            service.finish(reporter, finished)
        }
    }
}

/// Random connection number, unlikely to collide with that of another call on this machine.
pub fn connection_id() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as u32
}

impl ReceiveArguments {
    fn outputs(&self) -> Result<Vec<(&'static str, Option<&Path>)>> {
        let outputs = [("--sink", sink_path(&self.sink)?), ("--log", self.log.as_deref()), self.hearing.output()];
        Ok([&outputs[..], &self.observation.outputs()].concat())
    }

    /// The same arguments with the files of call `number` ([`of_call`]).
    fn of_call(&self, number: u32) -> Result<Self> {
        let log = self.log.as_deref().map(|path| of_call(path, number));
        let (hearing, observation) = (self.hearing.of_call(number), self.observation.of_call(number));
        Ok(Self { sink: sink_of_call(&self.sink, number)?, log, hearing, observation, ..self.clone() })
    }
}

/// Sink of call `number` ([`of_call`]).
pub fn sink_of_call(sink: &str, number: u32) -> Result<String> {
    let path = sink_path(sink)?.map(|path| of_call(path, number));
    Ok(path.map_or_else(|| sink.to_owned(), |path| path.to_string_lossy().into_owned()))
}

/// `lockstep receive`.
pub fn receive(arguments: &ReceiveArguments) -> Result<()> {
    let outputs = arguments.outputs()?;
    let inputs: Vec<&Path> = arguments.model.as_deref().into_iter().collect();
    check(&outputs, &inputs, arguments.status)?;
    arguments.listening.check_streams(sink_path(&arguments.sink)?, false)?;
    let model = arguments.model.as_deref().map(ModelFile::open_for_receiver).transpose()?;
    let (peer, kind, mut ticket) = match arguments.ticket.as_deref() {
        None => {
            let (listener, ticket) = arguments.listening.listener(arguments.route)?;
            (RemoteEnd::At(listener), CallKind::OneWay, Some(ticket))
        }
        given => {
            arguments.listening.check_unused("omit the ticket")?;
            let rendezvous = arguments.listening.rendezvous()?;
            let ticket = ticket_to_join(given.filter(|text| *text != "-"), false, rendezvous.as_deref())?;
            (arguments.route.peer(ticket), CallKind::FromListener, None)
        }
    };
    let wait = if ticket.is_some() { None } else { Some(WAIT) };
    let interruption = Interruption::watch()?;
    let clock = Clock::start();
    let mut pages = Pages::serve(&arguments.observation)?;
    let stop = arguments.program.stop(&interruption, None);
    let service = Service {
        interruption: &interruption,
        program: &arguments.program,
        status: arguments.status,
        is_reusable: arguments.listening.reusable,
        outputs: &outputs,
    };
    let mut call = |arguments: &ReceiveArguments, peer: RemoteEnd| {
        let loudspeaker = arguments.hearing.open(LiveSound::Nothing, true, &arguments.sink, arguments.status)?;
        let observation = Observation::on(&mut pages, &arguments.observation)?;
        let qlog = observation.quic_log(!matches!(peer, RemoteEnd::At(_)));
        let logs = Logs { sent: None, shown: arguments.log.as_deref() };
        let session = arguments.session.open("receive", "receiver", None)?;
        let reporter = Reporter::new(arguments.status, clock, logs, observation, None)?;
        let mut reporter = reporter.with_session(session, clock.epoch());
        if let Some(ticket) = &mut ticket {
            ticket.print(Some("send"), arguments.status);
        }
        let mut loudspeaker = loudspeaker;
        let receiving = (0..MAX_STREAMS).map(|_| {
            let sink = arguments.sink.clone();
            let open_sink: OpenSink =
                Box::new(move |stream, format| open_sink(&sink_of_stream(&sink, stream)?, format));
            let end = ControlSettings::receiving_end_with(model.as_ref()).with_pixel_limit(arguments.max_pixels);
            Receiving { end, open_sink, loudspeaker: loudspeaker.take() }
        });
        let options = CallOptions {
            peer,
            kind,
            sending: Vec::new(),
            receiving: receiving.collect(),
            length: None,
            wait_limit: arguments.wait_seconds.map_or(wait, |limit| limit.0),
            starts_at_once: false,
            idle_limit: arguments.idle_seconds.0,
            stop: Box::new(stop.clone()),
            freshness: Freshness::default(),
            handle: CallHandle::new(),
            qlog,
        };
        let finished = lockstep_live::run(clock, options, &mut reporter);
        Ok((reporter, finished))
    };
    match peer {
        RemoteEnd::At(listener) => service.serve(listener, stop.clone(), |listener, files| {
            call(&arguments.of_call(files.number())?, RemoteEnd::At(listener))
        }),
        peer => {
            let (reporter, finished) = call(arguments, peer)?;
            service.finish(reporter, finished)
        }
    }
}
