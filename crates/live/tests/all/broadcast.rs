//! One source for several viewers over loopback.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use lockstep_call::{MenuMode, SendingEnd, SerialMenu};
use lockstep_live::{
    BroadcastObserver, BroadcastOptions, CallEvent, CallHandle, CallKind, CallOptions, Ended, Finished, Freshness,
    LiveError, Receiving, RemoteEnd, Ticket, TicketRefusal, broadcast,
};
use lockstep_socket::Clock;
use lockstep_units::Timestamp;

use crate::calls::{CALL, clip, counting, listener, receiving_end, run, sending_end, wait_until};

/// Events of each viewer, without the quality of each second.
#[derive(Default)]
struct Events(BTreeMap<u64, Vec<CallEvent>>);

impl BroadcastObserver for Events {
    fn event(&mut self, viewer: u64, event: CallEvent) {
        if !matches!(event, CallEvent::Quality(_)) {
            self.0.entry(viewer).or_default().push(event);
        }
    }

    fn source_failed(&mut self, error: &LiveError) {
        panic!("{error}");
    }

    fn status(&mut self, _: Timestamp, _: &mut dyn Iterator<Item = (u64, &SendingEnd)>) {}
}

/// A viewer that counts its pictures and leaves when `stop` is set.
fn view(ticket: Ticket, shown: Arc<AtomicUsize>, stop: Arc<AtomicBool>) -> Finished {
    let options = CallOptions {
        peer: RemoteEnd::Of(ticket),
        kind: CallKind::FromListener,
        sending: Vec::new(),
        receiving: vec![Receiving { end: receiving_end(), open_sink: counting(&shown), loudspeaker: None }],
        length: None,
        wait_limit: CALL.wait_limit,
        starts_at_once: false,
        idle_limit: CALL.idle_limit,
        stop: Box::new(move || stop.load(Ordering::Relaxed)),
        freshness: Freshness::default(),
        handle: CallHandle::new(),
        qlog: None,
    };
    run(options).0
}

/// A viewer on its own thread.
struct Viewer {
    shown: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Finished>,
}

impl Viewer {
    fn join(ticket: &Ticket) -> Self {
        let (shown, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (ticket, counted, stopped) = (ticket.clone(), shown.clone(), stop.clone());
        Self { shown, stop, thread: thread::spawn(move || view(ticket, counted, stopped)) }
    }

    fn wait_for(&self, pictures: usize) {
        let wanted = self.shown.load(Ordering::Relaxed) + pictures;
        wait_until("pictures arrive", || self.shown.load(Ordering::Relaxed) >= wanted);
    }

    fn result(self) -> Result<Ended, LiveError> {
        self.thread.join().expect("no panic").result
    }
}

/// Result of a broadcast, and the events of its viewers.
type Outcome = (Result<Ended, LiveError>, BTreeMap<u64, Vec<CallEvent>>);

/// Sends the clip to at most `max_viewers` until the flag is set.
fn sending(max_viewers: usize) -> (Ticket, Arc<AtomicBool>, JoinHandle<Outcome>) {
    let (listener, ticket) = listener();
    let over = Arc::<AtomicBool>::default();
    let ends = over.clone();
    let sender = thread::spawn(move || {
        let options = BroadcastOptions {
            listener,
            source: clip(),
            microphone: None,
            end: Box::new(|| Ok(sending_end(1, MenuMode::default()))),
            runner: Box::new(|| Box::new(SerialMenu)),
            max_viewers,
            length: None,
            idle_limit: CALL.idle_limit,
            stop: Box::new(move || ends.load(Ordering::Relaxed)),
        };
        let mut events = Events::default();
        (broadcast(Clock::start(), options, &mut events), events.0)
    });
    (ticket, over, sender)
}

#[test]
fn viewers_join_and_leave_without_changing_each_other() {
    let (ticket, over, sender) = sending(2);
    let (first, second) = (Viewer::join(&ticket), Viewer::join(&ticket));
    first.wait_for(10);
    second.wait_for(10);
    let refused = Viewer::join(&ticket).result();
    assert_eq!(refused, Err(LiveError::Ticket(TicketRefusal::Busy)), "there is room for two");
    first.stop.store(true, Ordering::Relaxed);
    assert_eq!(first.result(), Ok(Ended::Stopped));
    second.wait_for(10);
    let third = Viewer::join(&ticket);
    third.wait_for(10);
    over.store(true, Ordering::Relaxed);
    for viewer in [second, third] {
        assert_eq!(viewer.result(), Ok(Ended::ByPeer));
    }
    let (result, events) = sender.join().expect("no panic");
    assert_eq!(result, Ok(Ended::Stopped));
    for (viewer, events) in events {
        assert!(matches!(events[..], [CallEvent::Joined, CallEvent::Ended(_)]), "viewer {viewer}: {events:?}");
    }
}

#[test]
fn viewers_that_join_at_once_all_watch() {
    let (ticket, over, sender) = sending(12);
    let viewers: Vec<Viewer> = (0..12).map(|_| Viewer::join(&ticket)).collect();
    viewers.iter().for_each(|viewer| viewer.wait_for(1));
    over.store(true, Ordering::Relaxed);
    for viewer in viewers {
        assert_eq!(viewer.result(), Ok(Ended::ByPeer));
    }
    assert_eq!(sender.join().expect("no panic").0, Ok(Ended::Stopped));
}
