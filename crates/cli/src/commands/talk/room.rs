//! `lockstep talk --room`: a call of several people.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use lockstep_av1::Vp8OrAv1;
use lockstep_call::{FrameRecord, ReceivingEnd, SendingEnd};
use lockstep_configuration::{ControlSettings, Seconds};
use lockstep_control::Latency;
use lockstep_live::{
    CallEvent, CallObserver, CallState, Ended, Entrance, LiveError, OpenSink, OwnPicture, Presence, RoomObserver,
    RoomOptions, Seat, Shown, Stop, room,
};
use lockstep_media::{
    Notice, SourceError, SourceOptions, VideoFormat, WindowSink, WindowTile, open_sink, open_source, sink_of_stream,
};
use lockstep_runner::live_stats::LiveStats;
use lockstep_units::Timestamp;

use super::{CallOverlay, Talk, TalkArguments};
use crate::captions::Captions;
use crate::commands::live::{connection_id, limit, menu_runner};
use crate::commands::live_sound::{LiveSound, MissingDevices};
use crate::commands::tickets::ListenerTicket;
use crate::reporter::{CallText, Screen, ScreenLine, SharedCallText, StatusArgument, notice};

/// Default silence in seconds after which a person is not in the room any more. The person's program enters again when
/// it is back.
const IDLE_SECONDS: &str = "30";

/// Longest wait for the name of a person who came. It comes with the first hello.
const NAME_LIMIT: Duration = Duration::from_secs(2);

/// What is known of a person.
#[derive(Default)]
struct Card {
    name: String,
    /// Words about the call with the person; empty if there is nothing to say.
    words: String,
    details: String,
    tile: Option<WindowTile>,
    /// When the person came; `None` before that.
    joined_at: Option<Instant>,
    /// Whether the arrival was printed.
    is_greeted: bool,
}

impl Card {
    fn name(&self, number: u64) -> String {
        if self.name.is_empty() { format!("person {number}") } else { self.name.clone() }
    }

    /// The name and the words.
    fn title(&self, number: u64) -> String {
        let name = self.name(number);
        if self.words.is_empty() { name } else { format!("{name}: {}", self.words) }
    }
}

/// Everyone in the room, for the threads of all calls.
#[derive(Clone, Default)]
struct People(Arc<Mutex<BTreeMap<u64, Card>>>);

impl People {
    fn cards(&self) -> MutexGuard<'_, BTreeMap<u64, Card>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Card)) {
        let mut cards = self.cards();
        let Some(card) = cards.get_mut(&number) else { return };
        change(card);
        if let Some(tile) = card.tile.as_ref().filter(|_| card.joined_at.is_some()) {
            tile.set_name(&card.title(number));
        }
    }
}

/// Observer of the call with one person.
struct PersonObserver {
    number: u64,
    people: People,
    stats: LiveStats,
    captions: Captions,
}

impl CallObserver<Vp8OrAv1> for PersonObserver {
    fn event(&mut self, event: CallEvent) {
        if let CallEvent::StreamAnnounced { stream: 0, name } = event {
            self.people.change(self.number, |card| name.to_string().clone_into(&mut card.name));
        }
    }

    fn status(&mut self, now: Timestamp, stream: usize, end: &SendingEnd<Vp8OrAv1>) {
        self.stats.sending(now, stream, end);
    }

    fn receiving(&mut self, now: Timestamp, stream: usize, end: &ReceivingEnd<Vp8OrAv1>) {
        self.stats.receiving(now, stream, end);
    }

    fn at(&mut self, state: &CallState) {
        let sample = self.stats.sample(state);
        let (words, details) = (self.captions.of_person(&sample), self.captions.details(&sample));
        self.people.change(self.number, |card| (card.words, card.details) = (words, details));
    }

    fn captured(&mut self, stream: usize, record: FrameRecord) {
        self.stats.captured(stream, &record);
    }

    fn shown(&mut self, stream: usize, shown: &Shown) {
        self.stats.shown(stream, shown);
    }
}

/// Prints arrivals, departures, and the people in the room.
struct RoomReporter {
    status: StatusArgument,
    screen: Screen,
    people: People,
    text: SharedCallText,
    ticket: Option<Arc<Mutex<ListenerTicket>>>,
}

impl RoomReporter {
    /// Prints the ticket or a new code, on a separate thread, because it may wait for the rendezvous.
    fn print_ticket(&self) {
        if let Some(ticket) = self.ticket.clone() {
            let status = self.status;
            thread::spawn(move || ticket.lock().unwrap_or_else(PoisonError::into_inner).print(Some("talk"), status));
        }
    }
}

impl RoomObserver for RoomReporter {
    fn joined(&mut self, person: u64) {
        self.people.change(person, |card| card.joined_at = Some(Instant::now()));
        self.print_ticket();
    }

    fn left(&mut self, person: u64, result: &Result<Ended, LiveError>) {
        let Some(card) = self.people.cards().remove(&person) else { return };
        let name = card.name(person);
        self.screen.news(
            self.status,
            match result {
                Ok(_) => format!("{name} left"),
                Err(error) => format!("{name} is gone: {error}"),
            },
        );
    }

    fn turned_away(&mut self) {
        self.screen.news(self.status, "somebody found the room full".to_owned());
    }

    fn failed(&mut self, error: &LiveError) {
        notice(self.status, &format!("warning: {error}"));
    }

    fn at(&mut self, own: Presence, speaker: Option<u64>) {
        let (mut arrived, mut titles, mut details) = (Vec::new(), Vec::new(), Vec::new());
        for (&number, card) in self.people.cards().iter_mut().filter(|(_, card)| card.joined_at.is_some()) {
            let is_known = !card.name.is_empty() || card.joined_at.is_some_and(|at| at.elapsed() >= NAME_LIMIT);
            if is_known && !std::mem::replace(&mut card.is_greeted, true) {
                arrived.push(format!("{} is there", card.name(number)));
            }
            titles.push(card.title(number));
            details.push(format!("{}: {}", card.name(number), card.details));
            if let Some(tile) = &card.tile {
                tile.set_large(speaker == Some(number));
            }
        }
        arrived.into_iter().for_each(|text| self.screen.news(self.status, text));
        let is_empty = titles.is_empty();
        let waiting = if is_empty { "waiting for others".to_owned() } else { String::new() };
        let words = if is_empty { waiting.clone() } else { titles.join(", ") };
        let mut off = Vec::new();
        off.extend(own.muted.then_some("muted"));
        off.extend(own.camera_off.then_some("your camera is off"));
        let notice = Notice { words: waiting, replaces_pictures: is_empty, picture: None };
        self.text.replace(CallText { words: off.join("  "), details: details.join("\n"), notice, own });
        if self.status == StatusArgument::Line {
            self.screen.print(ScreenLine::Line([&[&words[..]], &off[..]].concat().join("  ")));
        }
    }
}

/// Refuses options that a room does not serve.
fn check(arguments: &TalkArguments) -> Result<()> {
    let mut given = arguments.outputs()?;
    given.retain(|(option, path)| path.is_some() && !matches!(*option, "--sink" | "--audio-output"));
    let further = [("--session-log", arguments.session.is_given()), ("--web", arguments.listening.web_is_given())];
    let further = further.iter().filter(|(_, is_given)| *is_given).map(|(option, _)| *option);
    let further = further.chain(arguments.observation.page_option());
    if let Some(option) = given.iter().map(|(option, _)| *option).chain(further).next() {
        bail!("{option} is for calls of two people, and this is a room of several: omit {option}");
    }
    Ok(())
}

/// Takes part in a room until this end leaves.
pub(super) fn run(talk: Talk, arguments: &TalkArguments, entrance: Entrance, stop: Stop) -> Result<()> {
    check(arguments)?;
    let Talk { clock, control, wait, handle, keys, text, sharing, ticket, .. } = talk;
    let status = arguments.status;
    let mut missing = MissingDevices::default();
    let microphone = arguments.speaking.open(LiveSound::Device(&mut missing), status)?;
    let lip_sync = control.controller.latency() != Some(Latency::Low);
    let loudspeaker = arguments.hearing.open(LiveSound::Device(&mut missing), lip_sync, "none", status)?;
    let (microphone, loudspeaker) = arguments.speaking.process(microphone, loudspeaker);
    let notices = [arguments.camera_notice(), missing.notice()];
    notices.iter().flatten().for_each(|text| notice(status, text));
    let options = SourceOptions { seed: arguments.seed, ..SourceOptions::default() };
    let (own, source) = (OwnPicture::default(), open_source(&arguments.source(), &options)?);
    let format = source.format();
    let failed = move |error: &SourceError| notice(status, &error.to_string());
    let source = own.of(sharing.source(source, arguments.shared_screen(), failed));
    let people = People::default();
    let sink = arguments.sink().to_owned();
    // The window stays open while nobody is there.
    let window = if sink == "window" {
        let overlay = CallOverlay { own, text: text.clone(), keys, sharing, handle: handle.clone() };
        Some(WindowSink::open_with("Lockstep", format, Box::new(overlay))?)
    } else {
        None
    };
    let (menu, seated, max_pixels) = (control.menu, people.clone(), arguments.max_pixels);
    let control = control.clone();
    let make = move || control.recorded_sending_end(&format, connection_id(), None);
    make()?;
    let seat = move |number| {
        let sending = make().map_err(|error| LiveError::Controller(error.to_string()))?;
        let (open_sink, tile) = open(&sink, number, format)?;
        let (stats, captions) = (LiveStats::default(), Captions::default());
        let observer = PersonObserver { number, people: seated.clone(), stats, captions };
        let shown = tile.clone();
        seated.cards().insert(number, Card { tile, ..Card::default() });
        Ok(Seat {
            sending,
            runner: menu_runner(menu),
            receiving: ControlSettings::receiving_end().with_pixel_limit(max_pixels),
            open_sink,
            observer: Box::new(observer),
            shown_size: Box::new(move || shown.as_ref()?.shown_size()),
        })
    };
    let ticket = ticket.map(|ticket| Arc::new(Mutex::new(ticket.of_room())));
    let mut reporter = RoomReporter { status, screen: Screen::start()?, people, text, ticket };
    reporter.print_ticket();
    let idle_limit = match arguments.idle_seconds {
        Some(limit) => limit,
        None => limit(IDLE_SECONDS).map_err(anyhow::Error::msg)?,
    };
    let options = RoomOptions {
        entrance,
        relay_only: arguments.route.relay_only,
        name: arguments.name.clone().unwrap_or_default(),
        source,
        microphone,
        loudspeaker,
        listener: Box::new(arguments.listening.further_listeners(arguments.route)?),
        seat: Box::new(seat),
        length: arguments.seconds.map(Seconds::get),
        wait_limit: wait.0,
        idle_limit: idle_limit.0,
        stop,
        handle,
    };
    let result = room(clock, options, &mut reporter);
    drop(window);
    reporter.screen.finish();
    if result? == Ended::ByPeer && status == StatusArgument::Line {
        print_line!("everybody left the room");
    }
    Ok(())
}

/// Opens the sink of a person, and its place in the window.
fn open(sink: &str, number: u64, format: VideoFormat) -> Result<(OpenSink, Option<WindowTile>), LiveError> {
    if sink == "window" {
        let window = WindowSink::open("Lockstep", format).map_err(|error| LiveError::Sink(error.to_string()))?;
        let tile = window.tile();
        return Ok((Box::new(move |_, _| Ok(Box::new(window))), Some(tile)));
    }
    let sink = sink.to_owned();
    let open: OpenSink = Box::new(move |name, format| {
        // Two people may have the same name.
        let person = if name.is_empty() { format!("{number}") } else { format!("{number}-{name}") };
        let sink = if sink == "none" { sink } else { sink_of_stream(&sink, &person)? };
        open_sink(&sink, format)
    });
    Ok((open, None))
}
