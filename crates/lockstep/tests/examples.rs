//! Runs the examples: each ends by itself, and fails if its call does not work.

#[path = "../examples/camera_to_window.rs"]
#[allow(dead_code)]
mod camera_to_window;
#[path = "../examples/headless_robot.rs"]
#[allow(dead_code)]
mod headless_robot;
#[path = "../examples/loopback.rs"]
mod loopback;
#[path = "../examples/messages.rs"]
mod messages;
#[path = "../examples/own_controller.rs"]
mod own_controller;
#[path = "../examples/own_encoder.rs"]
mod own_encoder;
#[path = "../examples/own_socket.rs"]
mod own_socket;

use std::sync::Arc;
use std::time::Duration;

use lockstep::{Call, Ended, Error, Event, Identity};
use lockstep_sound::Tone;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn loopback_runs() {
    loopback::main().expect("it works");
}

#[test]
fn messages_run() {
    messages::main().expect("it works");
}

#[test]
fn own_socket_runs() {
    own_socket::main().expect("it works");
}

#[test]
fn own_encoder_runs() {
    own_encoder::main().expect("it works");
}

#[test]
fn own_controller_runs() {
    own_controller::main().expect("it works");
}

#[test]
fn camera_to_window_sends_the_given_source() {
    let (call, ticket) = Call::builder().receive_frames().listen("127.0.0.1:0".parse().unwrap()).expect("it listens");
    let arguments = [ticket.to_string(), "generated:64x48@30".to_owned()];
    let sender =
        std::thread::spawn(move || camera_to_window::run(&arguments, LIMIT).map_err(|error| error.to_string()));
    let frame = call.next_frame(LIMIT).expect("a frame arrives");
    assert_eq!(frame.picture.width(), 64);
    drop(call);
    assert_eq!(sender.join().expect("it does not panic"), Ok(()));
}

#[test]
fn headless_robot_resumes_after_a_restart_of_the_operator() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    let operator = |address: &str| {
        let identity = Identity::standing(&key).expect("a key");
        let call = Call::builder().receive_frames().reconnect();
        call.listen_as(identity, address.parse().expect("an address")).expect("it listens")
    };
    let (first, ticket) = operator("127.0.0.1:0");
    let address = ticket.addresses[0].to_string();
    let robot = headless_robot::robot(&ticket.to_string(), &["generated:64x48@30"; 2]).expect("it starts");
    assert!(first.next_frame(LIMIT).is_some());
    drop(first);
    let (second, _) = operator(&address);
    let mut names = Vec::new();
    while names.len() < 2 {
        let frame = second.next_frame(LIMIT).expect("video resumes");
        if !names.contains(&frame.name) {
            names.push(frame.name);
        }
    }
    drop(robot);
}

#[test]
fn killed_and_restarted_robot_can_join_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let identity = Identity::standing(&folder.path().join("key")).expect("a key");
    let builder = Call::builder().receive_frames().reconnect();
    let (operator, ticket) = builder.listen_as(identity, "127.0.0.1:0".parse().unwrap()).expect("it listens");
    let emulated = common::Silenced::new(&ticket);
    let robot = headless_robot::robot(&emulated.ticket().to_string(), &["generated:64x48@30"]).expect("it starts");
    assert!(operator.next_frame(LIMIT).is_some());
    // Nothing more arrives from the first robot, as if its process were killed.
    emulated.silence();
    let again = headless_robot::robot(&ticket.to_string(), &["generated:80x64@30"]).expect("it starts");
    while operator.next_frame(LIMIT).expect("a frame arrives").picture.width() != 80 {}
    drop((robot, again));
}

#[test]
fn each_connection_is_recorded_with_its_sound() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let identity = Identity::standing(&path("key")).expect("a key");
    let recording = path("call.webm");
    let builder = Call::builder().open_sink(recording.to_str().expect("UTF-8")).reconnect();
    let (receiver, ticket) = builder.listen_as(identity, "127.0.0.1:0".parse().unwrap()).expect("it listens");
    for name in ["call.webm", "call-2.webm"] {
        let sender = Call::builder().open_source("generated:64x48@30").microphone(|| Ok(Box::new(Tone::default())));
        let sender = sender.join(ticket.clone()).expect("it starts");
        let is_quality = |event: &Event| matches!(event, Event::Quality(_));
        assert!(sender.events().any(|event| is_quality(&event)), "a second passes");
        sender.leave().expect("it ends");
        assert!(receiver.events().any(|event| event == Event::Interrupted), "the first call is over");
        let bytes = std::fs::read(path(name)).expect("it is recorded");
        let has = |word: &[u8]| bytes.windows(word.len()).any(|bytes| bytes == word);
        assert!(bytes.len() > 5_000 && has(b"V_VP8") && has(b"A_OPUS"), "{name}: {} bytes", bytes.len());
    }
}

#[test]
fn unanswered_call_fails_with_the_error() {
    let (call, ticket) = Call::builder().receive_frames().listen("127.0.0.1:0".parse().unwrap()).expect("it listens");
    drop(call);
    let call = Call::builder().receive_frames().wait_limit(Some(Duration::from_millis(300))).join(ticket).unwrap();
    let Some(Event::Failed(error)) = call.events().last() else { panic!("it fails") };
    assert!(error.to_string().contains("nobody answered"), "{error}");
    assert!(matches!(*call.leave().expect_err("it failed"), Error::Unanswered { .. }));
}

#[test]
fn waiting_for_a_stage_takes_no_event() {
    let (receiver, ticket) =
        Call::builder().receive_frames().listen("127.0.0.1:0".parse().unwrap()).expect("it listens");
    assert!(!receiver.wait_joined(Duration::ZERO));
    let sender = Call::builder().open_source("generated:64x48@30").join(ticket).expect("it starts");
    assert!(receiver.wait_joined(LIMIT) && sender.wait_joined(LIMIT));
    assert!(receiver.wait_for_frame(LIMIT) && receiver.wait_for_event(LIMIT));
    assert!(receiver.next_frame(Duration::ZERO).is_some());
    assert_eq!(receiver.wait_ended(Duration::ZERO), None);
    sender.end();
    assert_eq!(receiver.wait_ended(LIMIT), Some(Ok(Ended::ByPeer)));
    assert!(receiver.events().any(|event| event == Event::Joined));
}

#[test]
fn leaving_ends_the_call_at_both_ends() {
    let (receiver, ticket) =
        Call::builder().receive_frames().listen("127.0.0.1:0".parse().unwrap()).expect("it listens");
    let sender = Call::builder().open_source("generated:64x48@30").join(ticket).expect("it starts");
    assert!(receiver.next_frame(LIMIT).is_some());
    let ended: Result<Ended, Arc<Error>> = sender.leave();
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(receiver.events().last(), Some(Event::Ended(Ended::ByPeer)));
}

mod common;
