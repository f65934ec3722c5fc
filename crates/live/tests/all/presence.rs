//! Commands of people in a call over loopback: mute, camera off and on, leave.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::calls::{both_ways, clip, listener, sending, wait_until};
use lockstep_live::{
    CallEvent, CallHandle, CallObserver, CallOptions, CallState, Command, Ended, Finished, Loudspeaker, Presence,
    RemoteEnd, Shown,
};
use lockstep_media::{Source, SourceError, VideoFormat};
use lockstep_socket::Clock;
use lockstep_sound::{Frame, SoundFailure, SoundSink, Tone};
use lockstep_vp8::Picture;

/// Counters of one end.
#[derive(Clone, Default)]
struct Counts {
    captured: Arc<AtomicUsize>,
    rests: Arc<AtomicUsize>,
    shown: Arc<AtomicUsize>,
    /// Frames of 20 ms.
    played: Arc<AtomicUsize>,
    loud: Arc<AtomicUsize>,
    peer: Arc<Mutex<Presence>>,
}

struct Counted(Box<dyn Source>, Counts);

impl Source for Counted {
    fn format(&self) -> VideoFormat {
        self.0.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        self.1.captured.fetch_add(1, Ordering::Relaxed);
        self.0.next()
    }

    fn rest(&mut self) {
        self.1.rests.fetch_add(1, Ordering::Relaxed);
    }
}

impl CallObserver for Counts {
    fn event(&mut self, _: CallEvent) {}

    fn shown(&mut self, _: usize, _: &Shown) {
        self.shown.fetch_add(1, Ordering::Relaxed);
    }

    fn at(&mut self, state: &CallState) {
        *self.peer.lock().expect("nobody panics") = state.peer;
    }
}

impl SoundSink for Counts {
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
        let loud = frame.iter().any(|sample| sample.unsigned_abs() > 300);
        self.loud.fetch_add(usize::from(loud), Ordering::Relaxed);
        self.played.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A two-way end that accepts commands.
fn talking(peer: RemoteEnd, counts: &Counts, handle: CallHandle) -> JoinHandle<Finished> {
    let mut half = sending(Box::new(Counted(clip(), counts.clone())));
    half.microphone = Some(Box::new(Tone::default()));
    let mut options = both_ways(peer, half);
    if let Some(receiving) = options.receiving.first_mut() {
        receiving.loudspeaker = Some(Loudspeaker { sink: Box::new(counts.clone()), lip_sync: false });
    }
    let options = CallOptions { handle, ..options };
    let mut observer = counts.clone();
    thread::spawn(move || lockstep_live::run(Clock::start(), options, &mut observer))
}

#[test]
fn camera_turned_off_captures_nothing_until_turned_on_again() {
    let (listener, ticket) = listener();
    let (near, far) = (Counts::default(), Counts::default());
    let handle = CallHandle::new();
    let here = talking(RemoteEnd::At(listener), &near, handle.clone());
    let there = talking(RemoteEnd::Of(ticket), &far, CallHandle::new());
    let shown = || far.shown.load(Ordering::Relaxed);
    let peer = || *far.peer.lock().expect("nobody panics");
    wait_until("pictures", || shown() >= 10);
    assert_eq!((peer(), near.rests.load(Ordering::Relaxed)), (Presence::default(), 0));
    handle.command(Command::Camera);
    wait_until("the other end knows", || peer().camera_off);
    wait_until("the camera rests", || near.rests.load(Ordering::Relaxed) == 1);
    let captured = near.captured.load(Ordering::Relaxed);
    let (back, loud) = (near.shown.load(Ordering::Relaxed), far.loud.load(Ordering::Relaxed));
    wait_until("the other direction continues", || near.shown.load(Ordering::Relaxed) >= back + 20);
    wait_until("sound continues", || far.loud.load(Ordering::Relaxed) > loud);
    assert_eq!(near.captured.load(Ordering::Relaxed), captured);
    let before = shown();
    handle.command(Command::Camera);
    wait_until("pictures again", || shown() >= before + 10);
    wait_until("the other end knows", || !peer().camera_off);
    handle.command(Command::Leave);
    let (here, there) = (here.join().expect("it does not panic"), there.join().expect("it does not panic"));
    assert_eq!((here.result.ok(), there.result.ok()), (Some(Ended::Left), Some(Ended::ByPeer)));
}

#[test]
fn muted_end_is_silent_and_the_other_end_knows_it() {
    let (listener, ticket) = listener();
    let (near, far) = (Counts::default(), Counts::default());
    let handle = CallHandle::new();
    let here = talking(RemoteEnd::At(listener), &near, handle.clone());
    let there = talking(RemoteEnd::Of(ticket), &far, CallHandle::new());
    let loud = || far.loud.load(Ordering::Relaxed);
    wait_until("sound", || loud() > 20);
    handle.command(Command::Mute);
    wait_until("the other end knows", || far.peer.lock().expect("nobody panics").muted);
    // The playout buffer may still hold earlier sound, but less than 1.5 s.
    let played = far.played.load(Ordering::Relaxed);
    wait_until("the playout buffer is played", || far.played.load(Ordering::Relaxed) >= played + 75);
    let before = loud();
    let shown = far.shown.load(Ordering::Relaxed);
    wait_until("pictures continue", || far.shown.load(Ordering::Relaxed) >= shown + 45);
    assert_eq!(loud(), before, "nothing is heard");
    handle.command(Command::Mute);
    wait_until("sound again", || loud() > before + 10);
    handle.command(Command::Leave);
    assert!(here.join().expect("it does not panic").result.is_ok());
    assert!(there.join().expect("it does not panic").result.is_ok());
}
