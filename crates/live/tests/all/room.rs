//! Rooms of several people over loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use lockstep_call::{MenuMode, SerialMenu};
use lockstep_live::{
    CallEvent, CallHandle, CallObserver, Command, Ended, Entrance, Identity, Listener, LiveError, Loudspeaker,
    MAX_PEOPLE, Message, Presence, RoomObserver, RoomOptions, Seat, StreamName, Ticket, room,
};
use lockstep_media::{Sink, SinkError, Source, SourceError, VideoFormat};
use lockstep_socket::Clock;
use lockstep_sound::Tone;
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

use crate::calls::{CALL, clip, listener, receiving_end, sending_end, sink, wait_until};
use crate::sound::LoudFrames;

/// Fails after five pictures.
struct Failing(Box<dyn Source>, u32);

impl Source for Failing {
    fn format(&self) -> VideoFormat {
        self.0.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        self.1 += 1;
        if self.1 > 5 { Err(SourceError::NoPictures { path: "camera".into() }) } else { self.0.next() }
    }
}

/// What one end knows of the room.
#[derive(Debug, Default)]
struct Seen {
    /// Names of the people who are there, by number; empty before the name is known.
    there: BTreeMap<u64, String>,
    left: Vec<(String, Result<Ended, String>)>,
    turned_away: usize,
    speaker: Option<u64>,
    others: BTreeMap<u64, Presence>,
    failed: Vec<String>,
    /// Calls that this end prepared.
    seats: usize,
}

impl Seen {
    fn names(&self) -> BTreeSet<&str> {
        self.there.values().map(String::as_str).collect()
    }
}

/// Counts pictures, and collects their widths.
struct Pictures {
    widths: Arc<Mutex<BTreeSet<usize>>>,
    count: Arc<AtomicUsize>,
}

impl Sink for Pictures {
    fn show(&mut self, picture: &Picture, _: Timestamp) -> Result<(), SinkError> {
        self.widths.lock().unwrap().insert(picture.width());
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// An end of a room on its own thread.
struct RoomEnd {
    seen: Arc<Mutex<Seen>>,
    shown: Arc<AtomicUsize>,
    heard: LoudFrames,
    handle: CallHandle,
    /// The size at which this end shows everyone.
    size: Arc<Mutex<Option<(usize, usize)>>>,
    widths: Arc<Mutex<BTreeSet<usize>>>,
    thread: JoinHandle<Result<Ended, LiveError>>,
}

struct Names(Arc<Mutex<Seen>>, u64);

impl CallObserver for Names {
    fn event(&mut self, event: CallEvent) {
        let mut seen = self.0.lock().unwrap();
        match event {
            CallEvent::StreamAnnounced { name, .. } => {
                seen.there.insert(self.1, name.to_string());
            }
            CallEvent::PeerChanged(presence) => {
                seen.others.insert(self.1, presence);
            }
            _ => {}
        }
    }
}

struct Observer(Arc<Mutex<Seen>>);

impl RoomObserver for Observer {
    fn joined(&mut self, person: u64) {
        self.0.lock().unwrap().there.entry(person).or_default();
    }

    fn left(&mut self, person: u64, result: &Result<Ended, LiveError>) {
        let mut seen = self.0.lock().unwrap();
        let name = seen.there.remove(&person).unwrap_or_default();
        seen.left.push((name, result.as_ref().map(|&ended| ended).map_err(ToString::to_string)));
    }

    fn turned_away(&mut self) {
        self.0.lock().unwrap().turned_away += 1;
    }

    fn failed(&mut self, error: &LiveError) {
        self.0.lock().unwrap().failed.push(error.to_string());
    }

    fn at(&mut self, _: Presence, speaker: Option<u64>) {
        self.0.lock().unwrap().speaker = speaker;
    }
}

impl RoomEnd {
    fn start(name: &str, entrance: Entrance, speaks: bool) -> Self {
        Self::start_with(clip(), name, entrance, speaks)
    }

    fn start_with(source: Box<dyn Source>, name: &str, entrance: Entrance, speaks: bool) -> Self {
        let (seen, shown, heard) =
            (Arc::<Mutex<Seen>>::default(), Arc::<AtomicUsize>::default(), LoudFrames::default());
        let (handle, size) = (CallHandle::new(), Arc::<Mutex<Option<(usize, usize)>>>::default());
        let widths = Arc::<Mutex<BTreeSet<usize>>>::default();
        let (of_seat, counted, wide, sized) = (seen.clone(), shown.clone(), widths.clone(), size.clone());
        let options = RoomOptions {
            entrance,
            relay_only: false,
            name: name.parse::<StreamName>().expect("a name"),
            source,
            microphone: speaks.then(|| Box::new(Tone::default()) as _),
            loudspeaker: Some(Loudspeaker { sink: Box::new(heard.clone()), lip_sync: false }),
            listener: Box::new(|| Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Identity::new()?)),
            seat: Box::new(move |number| {
                of_seat.lock().unwrap().seats += 1;
                let (pictures, sized) = (Pictures { widths: wide.clone(), count: counted.clone() }, sized.clone());
                Ok(Seat {
                    sending: sending_end(1, MenuMode::default()),
                    runner: Box::new(SerialMenu),
                    receiving: receiving_end(),
                    open_sink: sink(|_| Ok(Box::new(pictures))),
                    observer: Box::new(Names(of_seat.clone(), number)),
                    shown_size: Box::new(move || *sized.lock().unwrap()),
                })
            }),
            length: None,
            wait_limit: CALL.wait_limit,
            idle_limit: CALL.idle_limit,
            stop: Box::new(|| false),
            handle: handle.clone(),
        };
        let mut observer = Observer(seen.clone());
        let thread = thread::spawn(move || room(Clock::start(), options, &mut observer));
        Self { seen, shown, heard, handle, size, widths, thread }
    }

    fn enter(name: &str, ticket: &Ticket) -> Self {
        Self::start(name, Entrance::Enter(ticket.clone()), false)
    }

    fn wait_for(&self, names: &[&str]) {
        let names: BTreeSet<&str> = names.iter().copied().collect();
        wait_until("everyone is there", || {
            assert!(!self.thread.is_finished(), "the room is over: {:?}", self.seen.lock().unwrap());
            self.seen.lock().unwrap().names() == names
        });
    }

    fn wait_for_pictures(&self, count: usize) {
        let wanted = self.shown.load(Ordering::Relaxed) + count;
        wait_until("pictures arrive", || self.shown.load(Ordering::Relaxed) >= wanted);
    }

    fn leave(self) -> Result<Ended, LiveError> {
        self.handle.leave();
        self.thread.join().expect("no panic")
    }
}

/// A room that `anna` opened.
fn opened() -> (RoomEnd, Ticket) {
    let (door, ticket) = listener();
    (RoomEnd::start("anna", Entrance::Open(door), false), ticket)
}

#[test]
fn everyone_sees_everyone_and_stays_without_the_opener() {
    let (anna, ticket) = opened();
    let bruno = RoomEnd::enter("bruno", &ticket);
    let clara = RoomEnd::enter("clara", &ticket);
    anna.wait_for(&["bruno", "clara"]);
    bruno.wait_for(&["anna", "clara"]);
    clara.wait_for(&["anna", "bruno"]);
    [&anna, &bruno, &clara].iter().for_each(|end| end.wait_for_pictures(20));
    assert_eq!(anna.leave(), Ok(Ended::Left));
    bruno.wait_for(&["clara"]);
    clara.wait_for(&["bruno"]);
    bruno.wait_for_pictures(10);
    assert_eq!(bruno.leave(), Ok(Ended::Left));
    wait_until("nobody else is there", || clara.thread.is_finished());
    assert_eq!(clara.seen.lock().unwrap().left.len(), 2);
    assert!(clara.seen.lock().unwrap().failed.is_empty());
    assert_eq!(clara.thread.join().expect("no panic"), Ok(Ended::ByPeer));
}

#[test]
fn person_too_many_is_turned_away_until_somebody_leaves() {
    let (anna, ticket) = opened();
    let mut others: Vec<RoomEnd> =
        ["b", "c", "d", "e", "f"][..MAX_PEOPLE - 1].iter().map(|name| RoomEnd::enter(name, &ticket)).collect();
    anna.wait_for(&["b", "c", "d", "e", "f"]);
    for end in &others {
        wait_until("everyone is there", || end.seen.lock().unwrap().there.len() == MAX_PEOPLE - 1);
    }
    let late = RoomEnd::enter("late", &ticket);
    assert_eq!(late.thread.join().expect("no panic"), Err(LiveError::RoomFull));
    assert_eq!(anna.seen.lock().unwrap().turned_away, 1);
    assert_eq!(others.remove(0).leave(), Ok(Ended::Left));
    anna.wait_for(&["c", "d", "e", "f"]);
    let late = RoomEnd::enter("late", &ticket);
    late.wait_for(&["anna", "c", "d", "e", "f"]);
    late.wait_for_pictures(10);
}

#[test]
fn everyone_hears_the_person_who_speaks() {
    let (anna, ticket) = opened();
    let bruno = RoomEnd::start("bruno", Entrance::Enter(ticket.clone()), true);
    let clara = RoomEnd::enter("clara", &ticket);
    for end in [&anna, &clara] {
        wait_until("the voice is heard", || end.heard.count() > 50);
        wait_until("the speaker is known", || {
            let seen = end.seen.lock().unwrap();
            seen.speaker.and_then(|number| seen.there.get(&number).cloned()).as_deref() == Some("bruno")
        });
    }
    bruno.handle.command(Command::Mute);
    wait_until("the others know", || {
        [&anna, &clara].iter().all(|end| end.seen.lock().unwrap().others.values().any(|other| other.muted))
    });
}

#[test]
fn person_whose_camera_fails_stays_in_the_room() {
    let (anna, ticket) = opened();
    let bruno = RoomEnd::start_with(Box::new(Failing(clip(), 0)), "bruno", Entrance::Enter(ticket), false);
    wait_until("the failure is reported", || !bruno.seen.lock().unwrap().failed.is_empty());
    assert!(bruno.seen.lock().unwrap().failed[0].contains("camera: no pictures"));
    bruno.wait_for_pictures(20);
    anna.wait_for(&["bruno"]);
}

#[test]
fn picture_that_is_shown_small_is_sent_small() {
    let (anna, ticket) = opened();
    *anna.size.lock().unwrap() = Some((32, 24));
    let bruno = RoomEnd::enter("bruno", &ticket);
    let clara = RoomEnd::enter("clara", &ticket);
    clara.wait_for_pictures(20);
    wait_until("small pictures", || anna.widths.lock().unwrap().contains(&32));
    assert!(!clara.widths.lock().unwrap().contains(&32));
    drop(bruno);
}

#[test]
fn silent_stranger_at_the_door_keeps_nobody_out_for_long() {
    let (anna, ticket) = opened();
    // A call of two at the door of a room is refused, with the reason.
    let other = crate::calls::both_ways(lockstep_live::RemoteEnd::Of(ticket.clone()), crate::calls::sending(clip()));
    let refused = crate::calls::run(other).0.result;
    assert_eq!(refused, Err(LiveError::Ticket(lockstep_live::TicketRefusal::OtherKind)));
    let (handle, is_over) = (CallHandle::new(), Arc::<AtomicBool>::default());
    let again = [&b"enter AAAAAAAAAAAAA"[..]; 20];
    for nonsense in [&b"call me"[..], b"\xff\xfe", b"introduce AAAAAAAAAAAAA", b"size 1 1"].into_iter().chain(again) {
        handle.send_message(Message::reliable(nonsense)).expect("it fits");
    }
    let over = is_over.clone();
    let silent = lockstep_live::CallOptions {
        kind: lockstep_live::CallKind::Room,
        sending: Vec::new(),
        receiving: Vec::new(),
        handle,
        stop: Box::new(move || over.load(Ordering::Relaxed)),
        ..crate::calls::to(ticket.clone(), None, CALL)
    };
    let stranger = thread::spawn(move || crate::calls::run(silent).0);
    let bruno = RoomEnd::enter("bruno", &ticket);
    anna.wait_for(&["bruno"]);
    bruno.wait_for_pictures(10);
    is_over.store(true, Ordering::Relaxed);
    assert!(stranger.join().expect("no panic").joined);
    assert_eq!(anna.seen.lock().unwrap().seats, 2, "one for each person at the door");
}
