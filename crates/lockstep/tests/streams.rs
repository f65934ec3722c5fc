//! Calls of several video streams over loopback.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lockstep::{
    Call, CallBuilder, Event, Identity, Picture, Source, SourceError, SourceOptions, Stream, Ticket, VideoFormat,
    open_source,
};

const LIMIT: Duration = Duration::from_secs(60);
const CLIP: &str = "generated:64x48@30";

fn listening(builder: CallBuilder) -> (Call, Ticket) {
    builder.listen("127.0.0.1:0".parse().expect("an address")).expect("it listens")
}

/// A sender of a front and a rear camera.
fn cameras() -> CallBuilder {
    Call::builder().stream(Stream::open_source("front", CLIP).priority(3.0)).stream(Stream::open_source("rear", CLIP))
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

/// Takes frames until one of each stream arrived; returns their names and numbers.
fn both(call: &Call) -> Vec<(String, usize)> {
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let frame = call.next_frame(LIMIT).expect("a frame arrives");
        let stream = (frame.name.to_string(), frame.stream);
        if !seen.contains(&stream) {
            seen.push(stream);
        }
    }
    seen.sort();
    seen
}

#[test]
fn only_the_paused_stream_becomes_stale_until_it_resumes() {
    let (receiver, ticket) = listening(Call::builder().receive_frames().stale_after(Duration::from_secs(1)));
    let sender = cameras().join(ticket).expect("it starts");
    assert_eq!(both(&receiver), [("front".to_owned(), 0), ("rear".to_owned(), 1)]);
    assert_eq!(&*receiver.received_stream_name(1), "rear");
    let rear = sender.stream("rear").expect("it is sent");
    rear.set_paused(true);
    wait_for(&receiver, |event| matches!(event, Event::Stale { stream: 1, .. }));
    // Only frames of the other stream arrive.
    while receiver.next_frame(Duration::ZERO).is_some() {}
    for _ in 0..20 {
        assert_eq!(receiver.next_frame(LIMIT).map(|frame| frame.stream), Some(0));
    }
    rear.set_paused(false);
    wait_for(&receiver, |event| matches!(event, Event::Fresh { stream: 1 }));
}

#[test]
fn frames_are_pushed_to_the_named_stream() {
    let (receiver, ticket) = listening(Call::builder().receive_frames());
    let format = VideoFormat::new(64, 48);
    let builder = Call::builder().stream(Stream::frames("left", format)).stream(Stream::frames("right", format));
    let sender = builder.join(ticket).expect("it starts");
    assert!(sender.wait_joined(LIMIT) && sender.stream("middle").is_none());
    let grey = |luma| Picture::from_i420(64, 48, vec![luma; 64 * 48 * 3 / 2]).expect("a picture");
    let end = Instant::now() + LIMIT;
    let right = sender.stream("right").expect("it is sent");
    while Instant::now() < end {
        right.send_frame(grey(200), Instant::now());
        if let Some(frame) = receiver.next_frame(Duration::from_millis(33)) {
            assert_eq!((&*frame.name, frame.stream), ("right", 1));
            return;
        }
    }
    panic!("no frame arrives");
}

#[test]
fn each_stream_is_recorded_in_a_separate_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = folder.path().join("shown.y4m");
    let (receiver, ticket) = listening(Call::builder().open_sink(sink.to_str().expect("a name")));
    let sender = cameras().join(ticket).expect("it starts");
    let files = ["shown.front.y4m", "shown.rear.y4m"].map(|name| folder.path().join(name));
    let end = Instant::now() + LIMIT;
    while !files.iter().all(|file| file.metadata().is_ok_and(|file| file.len() > 10_000)) {
        assert!(Instant::now() < end, "the files grow");
        receiver.wait_for_event(Duration::from_millis(50));
        while receiver.next_event(Duration::ZERO).is_some() {}
    }
    assert!(!sink.exists());
    sender.leave().expect("it ends");
}

/// A camera that fails after some pictures.
struct Breaking(Box<dyn Source>, u32);

impl Source for Breaking {
    fn format(&self) -> VideoFormat {
        self.0.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        self.1 = self.1.saturating_sub(1);
        if self.1 == 0 {
            return Err(SourceError::Open { path: "camera".into(), error: std::io::Error::other("it broke") });
        }
        self.0.next()
    }
}

#[test]
fn broken_camera_ends_only_its_stream() {
    let (receiver, ticket) = listening(Call::builder().receive_frames().stale_after(Duration::from_secs(1)));
    let front = Stream::source("front", || Ok(Box::new(Breaking(open_source(CLIP, &SourceOptions::default())?, 30))));
    let builder = Call::builder().stream(front).stream(Stream::open_source("rear", CLIP));
    let sender = builder.join(ticket).expect("it starts");
    let failed = wait_for(&sender, |event| matches!(event, Event::SourceFailed { .. }));
    assert!(matches!(failed, Event::SourceFailed { stream: 0, .. }), "{failed:?}");
    wait_for(&receiver, |event| matches!(event, Event::Stale { stream: 0, .. }));
    while receiver.next_frame(Duration::ZERO).is_some() {}
    assert_eq!(receiver.next_frame(LIMIT).map(|frame| frame.stream), Some(1));
    assert_eq!(sender.wait_ended(Duration::ZERO), None);
}

/// A camera that is unplugged after this number of pictures, and is there again at the next attempt.
struct Unplugged(Box<dyn Source>, u32);

impl Source for Unplugged {
    fn format(&self) -> VideoFormat {
        self.0.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        let left = self.1;
        self.1 = left.wrapping_sub(1);
        if left == 0 {
            return Err(SourceError::Open { path: "camera".into(), error: std::io::Error::other("it is unplugged") });
        }
        std::thread::sleep(self.format().frame_interval()); // as a camera does
        self.0.next()
    }

    fn is_live(&self) -> bool {
        true
    }
}

#[test]
fn camera_that_is_plugged_in_again_continues() {
    let (receiver, ticket) = listening(Call::builder().receive_frames().stale_after(Duration::from_millis(500)));
    let camera =
        || -> Result<Box<dyn Source>, _> { Ok(Box::new(Unplugged(open_source(CLIP, &SourceOptions::default())?, 30))) };
    let sender = Call::builder().source(camera).join(ticket).expect("it starts");
    let failed = wait_for(&sender, |event| matches!(event, Event::SourceFailed { .. }));
    assert!(matches!(&failed, Event::SourceFailed { reason, .. } if reason.contains("unplugged")), "{failed:?}");
    wait_for(&receiver, |event| matches!(event, Event::Stale { .. }));
    wait_for(&receiver, |event| matches!(event, Event::Fresh { .. }));
    assert_eq!(sender.wait_ended(Duration::ZERO), None);
}

#[test]
fn video_becomes_stale_between_two_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let identity = Identity::standing(&folder.path().join("key")).expect("a key");
    let builder = Call::builder().receive_frames().stale_after(Duration::from_millis(500)).reconnect();
    let (operator, ticket) =
        builder.listen_as(identity, "127.0.0.1:0".parse().expect("an address")).expect("it listens");
    let robot = cameras().join(ticket).expect("it starts");
    both(&operator);
    robot.leave().expect("it ends");
    let mut stale = BTreeSet::new();
    while stale.len() < 2 {
        if let Event::Stale { stream, .. } = wait_for(&operator, |event| matches!(event, Event::Stale { .. })) {
            stale.insert(stream);
        }
    }
    assert_eq!(stale, BTreeSet::from([0, 1]));
}

#[test]
fn streams_with_invalid_names_are_refused_at_once() {
    let builder = Call::builder().stream(Stream::open_source("front", CLIP)).stream(Stream::open_source("a/b", CLIP));
    let refused = builder.listen("127.0.0.1:0".parse().expect("an address")).map(|_| ()).expect_err("it is refused");
    assert!(refused.to_string().contains("\"a/b\""), "{refused}");
}
