//! One source for several viewers over loopback.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

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
        idle_limit: CALL.idle_limit,
        stop: Box::new(move || stop.load(Ordering::Relaxed)),
        freshness: Freshness::default(),
        handle: CallHandle::new(),
        qlog: None,
    };
    run(options).0
}

#[test]
fn viewers_join_and_leave_without_changing_each_other() {
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
            max_viewers: 2,
            length: None,
            idle_limit: CALL.idle_limit,
            stop: Box::new(move || ends.load(Ordering::Relaxed)),
        };
        let mut events = Events::default();
        (broadcast(Clock::start(), options, &mut events), events.0)
    });
    let viewer = || {
        let (shown, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (ticket, counted, stopped) = (ticket.clone(), shown.clone(), stop.clone());
        (shown, stop, thread::spawn(move || view(ticket, counted, stopped)))
    };
    let has = |shown: &Arc<AtomicUsize>, count: usize| {
        wait_until("pictures arrive", || shown.load(Ordering::Relaxed) >= count);
    };
    let (first_shown, first_stop, first) = viewer();
    let (second_shown, _second_stop, second) = viewer();
    has(&first_shown, 10);
    has(&second_shown, 10);
    let refused = viewer().2.join().expect("no panic").result;
    assert_eq!(refused, Err(LiveError::Ticket(TicketRefusal::Busy)), "there is room for two");
    first_stop.store(true, Ordering::Relaxed);
    assert_eq!(first.join().expect("no panic").result, Ok(Ended::Stopped));
    has(&second_shown, second_shown.load(Ordering::Relaxed) + 10);
    let (third_shown, _third_stop, third) = viewer();
    has(&third_shown, 10);
    over.store(true, Ordering::Relaxed);
    for viewer in [second, third] {
        assert_eq!(viewer.join().expect("no panic").result, Ok(Ended::ByPeer));
    }
    let (result, events) = sender.join().expect("no panic");
    assert_eq!(result, Ok(Ended::Stopped));
    for (viewer, events) in events {
        assert!(matches!(events[..], [CallEvent::Joined, CallEvent::Ended(_)]), "viewer {viewer}: {events:?}");
    }
}
