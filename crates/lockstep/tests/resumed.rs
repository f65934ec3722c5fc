//! Settings and devices of calls whose connections start again.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstep::{
    Bitrate, Call, CallBuilder, Error, Event, Identity, Latency, Presence, Source, SourceError, Stream, Ticket,
};
use lockstep_control::{Algorithm, GracePeriod};

const LIMIT: Duration = Duration::from_secs(20);
const CLIP: &str = "generated:64x48@30";

/// Listens with a ticket for consecutive calls.
fn standing(builder: CallBuilder) -> (Call, Ticket) {
    let folder = tempfile::tempdir().expect("a folder");
    let identity = Identity::standing(&folder.path().join("key")).expect("a key");
    builder.reconnect().listen_as(identity, "127.0.0.1:0".parse().expect("an address")).expect("it listens")
}

fn watching(ticket: Ticket) -> Call {
    Call::builder().receive_frames().join(ticket).expect("it starts")
}

/// Waits for the next event for which `meant` is true.
fn wait_for(call: &Call, meant: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = call.next_event(LIMIT).expect("the event comes");
        if meant(&event) {
            return event;
        }
    }
}

#[test]
fn settings_of_the_call_survive_a_reconnection() {
    let front = Stream::open_source("front", CLIP).priority(3.0);
    let (robot, ticket) = standing(Call::builder().stream(front).stream(Stream::open_source("rear", CLIP)));
    let (cap, muted) = (Bitrate::from_kbps(60), Presence { muted: true, ..Presence::default() });
    let first = watching(ticket.clone());
    assert!(robot.wait_joined(LIMIT));
    robot.stream("rear").expect("it is sent").set_paused(true);
    robot.set_max_bitrate(Some(cap));
    robot.set_presence(muted);
    // Requests are applied in order.
    wait_for(&first, |event| *event == Event::PeerChanged(muted));
    first.leave().expect("it ends");
    wait_for(&robot, |event| *event == Event::Interrupted);

    let second = watching(ticket);
    wait_for(&second, |event| *event == Event::PeerChanged(muted));
    wait_for(&robot, |event| *event == Event::Joined);
    let quality = wait_for(&robot, |event| matches!(event, Event::Quality(quality) if quality.stream == 0));
    let Event::Quality(quality) = quality else { unreachable!() };
    let target = quality.sending.expect("it sends").target;
    assert!(target <= cap.mul_f64(0.75), "{target:?}");
    for _ in 0..20 {
        assert_eq!(&*second.next_frame(LIMIT).expect("a frame arrives").name, "front");
    }
}

#[test]
fn new_latency_survives_a_reconnection() {
    let latencies = Arc::<Mutex<Vec<Latency>>>::default();
    let made = Arc::clone(&latencies);
    let (robot, ticket) = standing(Call::builder().open_source(CLIP).controller(move |setup| {
        made.lock().expect("no thread panics").push(setup.latency);
        Algorithm::Salsify(GracePeriod::None).controller(setup).expect("it needs no model")
    }));
    let first = watching(ticket.clone());
    assert!(robot.wait_joined(LIMIT));
    robot.set_latency(Latency::Low).expect("a controller");
    first.next_frame(LIMIT).expect("a frame arrives");
    first.leave().expect("it ends");
    wait_for(&robot, |event| *event == Event::Interrupted);
    watching(ticket).next_frame(LIMIT).expect("a frame arrives");
    assert_eq!(*latencies.lock().expect("no thread panics"), [Latency::Balanced, Latency::Low, Latency::Low]);
}

/// A camera that is not there.
fn missing() -> Result<Box<dyn Source>, SourceError> {
    Err(SourceError::Open { path: "/dev/video7".into(), error: io::Error::other("no such device") })
}

#[test]
fn call_without_its_camera_still_receives() {
    let (operator, ticket) = standing(Call::builder().open_source(CLIP).receive_frames());
    let robot = Call::builder().source(missing).receive_frames().join(ticket).expect("it starts");
    let failed = wait_for(&robot, |event| matches!(event, Event::SourceFailed { .. }));
    let reason = "cannot open /dev/video7: no such device".to_owned();
    assert_eq!(failed, Event::SourceFailed { stream: 0, reason });
    for _ in 0..60 {
        robot.next_frame(LIMIT).expect("the other direction continues");
    }
    assert_eq!(robot.wait_ended(Duration::ZERO), None);
    drop(operator);
}

#[test]
fn call_that_only_sends_fails_without_its_camera() {
    let (_operator, ticket) = standing(Call::builder().receive_frames());
    let robot = Call::builder().source(missing).reconnect().join(ticket).expect("it starts");
    let failed = robot.wait_ended(LIMIT).expect("it ends").expect_err("it fails");
    assert!(matches!(&*failed, Error::Source(reason) if reason.contains("/dev/video7")), "{failed}");
}
