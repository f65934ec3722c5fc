//! Both ends over loopback: however a call ends, each end says how, and keeps its log.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lockstep_call::{
    Candidate, FrameRecord, FunctionalEncoder, MenuMode, MenuRunner, Outcome, ReceivingEnd, SendingEnd, SerialMenu,
};
use lockstep_control::{Algorithm, EstimatorKind, RateBounds, Setting};
use lockstep_live::{Ended, Finished, LiveError, ReceiverOptions, SenderOptions, Stop, receive, send};
use lockstep_media::{Sink, SinkError, Source, SourceError, SourceOptions, VideoFormat, open_sink, open_source};
use lockstep_transport::{ReceiverConfig, SenderConfig};
use lockstep_units::ByteCount;
use lockstep_vp8::{Analysis, Parameters, Picture};

/// Nothing here takes so long unless it hangs.
const LIMIT: Duration = Duration::from_secs(20);

fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = socket.local_addr().expect("it is bound");
    (socket, address)
}

/// An address on which nobody listens.
fn closed() -> SocketAddr {
    bound().1
}

fn never() -> Stop {
    Box::new(|| false)
}

fn clip() -> Box<dyn Source> {
    open_source("generated:64x48@30", &SourceOptions::default()).expect("it is generated")
}

/// A sending end whose hello asks for the estimator of that number.
fn sending_end(estimator: u16, menu: MenuMode) -> SendingEnd {
    let format =
        lockstep_transport::VideoFormat { width: 64, height: 48, frame_rate_numerator: 30, frame_rate_denominator: 1 };
    let config = SenderConfig { estimator, ..SenderConfig::new(7, format) };
    let setting = Setting::new(ByteCount::new(config.payload as u64), Duration::from_millis(33));
    let algorithm: Algorithm = "salsify".parse().expect("there is one");
    let controller = algorithm.controller(&setting).expect("it needs no path");
    let encoder = FunctionalEncoder::new(Parameters::default(), menu);
    SendingEnd::new(config, controller, Box::new(encoder))
}

fn receiving_end() -> ReceivingEnd {
    ReceivingEnd::taking(ReceiverConfig::default(), |number| {
        Some(EstimatorKind::from_number(number)?.make(RateBounds::default()))
    })
}

fn to(peers: Vec<SocketAddr>) -> SenderOptions {
    SenderOptions {
        peers,
        length: Some(LIMIT),
        wait_limit: Some(LIMIT),
        idle_limit: Some(LIMIT),
        stop: never(),
        runner: Box::new(SerialMenu),
        measures_quality: true,
    }
}

fn sent(source: Box<dyn Source>, options: SenderOptions) -> Finished<SendingEnd> {
    logged(source, options).0
}

/// The same with the log of all captured frames.
fn logged(source: Box<dyn Source>, options: SenderOptions) -> (Finished<SendingEnd>, Vec<FrameRecord>) {
    logged_of(MenuMode::default(), source, options)
}

/// The same of an encoder with another menu.
fn logged_of(
    menu: MenuMode,
    source: Box<dyn Source>,
    options: SenderOptions,
) -> (Finished<SendingEnd>, Vec<FrameRecord>) {
    let mut records = Vec::new();
    let finished = send(sending_end(1, menu), source, options, |_, _, _| {}, |record| records.push(record));
    assert!(records.iter().map(|record| record.capture).eq(0..finished.end.captured()), "each once, in order");
    (finished, records)
}

fn discard(format: VideoFormat) -> Result<Box<dyn Sink>, SinkError> {
    open_sink("none", format)
}

fn patient() -> ReceiverOptions {
    ReceiverOptions { wait_limit: Some(LIMIT), idle_limit: Some(LIMIT), stop: never() }
}

/// A receiver on a thread of its own, and how many pictures it showed.
fn receiving(
    socket: UdpSocket,
    sink: impl FnOnce(VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send + 'static,
    options: ReceiverOptions,
) -> thread::JoinHandle<(Finished<ReceivingEnd>, usize)> {
    thread::spawn(move || {
        let mut pictures = 0;
        (receive(receiving_end(), &socket, sink, &options, |_| pictures += 1), pictures)
    })
}

/// Gives a few pictures of the clip, then does something else.
struct Then(Box<dyn Source>, u32, fn() -> Result<Option<Picture>, SourceError>);

impl Source for Then {
    fn format(&self) -> VideoFormat {
        self.0.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        self.1 = self.1.saturating_sub(1);
        if self.1 == 0 { (self.2)() } else { self.0.next() }
    }
}

#[test]
fn a_call_of_a_short_source_ends_well_at_both_ends_with_every_frame_shown() {
    let (socket, address) = bound();
    let receiver = receiving(socket, discard, patient());
    let (sender, records) = logged(Box::new(Then(clip(), 6, || Ok(None))), to(vec![address]));
    let (receiver, pictures) = receiver.join().expect("it does not panic");
    assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(Ended::Done), Some(Ended::ByPeer)));
    let sent = || records.iter().filter(|record| record.outcome == Outcome::Sent);
    assert!(sent().count() > 0 && sent().count() == pictures, "{} sent, {pictures} shown", sent().count());
    assert!(sent().all(|record| record.ssim.is_some()), "every frame sent was measured");
}

#[test]
fn a_thread_of_the_sender_that_dies_ends_the_call_and_is_named() {
    struct Dies;
    impl MenuRunner for Dies {
        fn run(&self, _: &Analysis, _: &[u8]) -> Vec<Candidate> {
            panic!("no memory for a candidate")
        }
    }
    let dies: Box<dyn Source> = Box::new(Then(clip(), 4, || panic!("the camera's driver is gone")));
    let runners: [Box<dyn MenuRunner + Send>; 2] = [Box::new(SerialMenu), Box::new(Dies)];
    let expected = [("source", "driver is gone"), ("encoder", "no memory")];
    for ((source, runner), (name, reason)) in [dies, clip()].into_iter().zip(runners).zip(expected) {
        let (socket, address) = bound();
        let receiver = receiving(socket, discard, patient());
        // Only a menu of two candidates leaves them to a runner.
        let options = SenderOptions { runner, ..to(vec![address]) };
        let (finished, records) = logged_of(MenuMode::Parallel, source, options);
        let said = finished.result.expect_err("a thread died").to_string();
        assert!(said.contains(name) && said.contains(reason), "{said}");
        assert!(!records.is_empty(), "the log is kept");
        let (receiver, _) = receiver.join().expect("it does not panic");
        assert!(matches!(receiver.result, Err(LiveError::PeerFailed { peer: "sender" })), "it was told");
    }
}

#[test]
fn a_sink_that_dies_or_fails_ends_the_call_at_both_ends() {
    type Open = fn(VideoFormat) -> Result<Box<dyn Sink>, SinkError>;
    let dies: Open = |_| panic!("no such screen");
    let fails: Open = |_| Err(SinkError::Finished);
    for (open, reason) in [(dies, "no such screen"), (fails, "the sink failed")] {
        let (socket, address) = bound();
        let receiver = receiving(socket, open, patient());
        let sender = sent(clip(), to(vec![address]));
        let (receiver, _) = receiver.join().expect("it does not panic");
        let said = receiver.result.expect_err("the sink is gone").to_string();
        assert!(said.contains("sink") && said.contains(reason), "{said}");
        assert!(matches!(sender.result, Err(LiveError::PeerFailed { peer: "receiver" })));
    }
}

#[test]
fn a_window_that_its_user_closes_ends_the_call_well() {
    let (socket, address) = bound();
    let receiver = receiving(socket, |_| Err(SinkError::WindowClosed), patient());
    let sender = sent(clip(), to(vec![address]));
    let (receiver, _) = receiver.join().expect("it does not panic");
    assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(Ended::ByPeer), Some(Ended::WindowClosed)));
}

#[test]
fn a_sender_that_nobody_answers_says_what_it_tried() {
    let (closed, (_silent, silent)) = (closed(), bound());
    let options = SenderOptions { wait_limit: Some(Duration::from_millis(300)), ..to(vec![closed, silent]) };
    let said = sent(clip(), options).result.expect_err("nobody is there").to_string();
    assert!(said.contains("nobody answered"), "{said}");
    assert!(said.contains(&format!("{closed} is closed")) && said.contains(&format!("{silent} does not")), "{said}");
}

#[test]
fn of_a_names_addresses_the_one_that_answers_is_taken() {
    let (socket, address) = bound();
    let (_silent, silent) = bound();
    let receiver = receiving(socket, discard, patient());
    let options = to(vec![closed(), silent, address]);
    let sender = sent(Box::new(Then(clip(), 6, || Ok(None))), options);
    assert_eq!(sender.result.ok(), Some(Ended::Done));
    let (receiver, pictures) = receiver.join().expect("it does not panic");
    assert!(receiver.result.is_ok() && pictures > 0);
}

#[test]
fn an_end_that_hears_nothing_any_more_ends_by_itself() {
    let (socket, address) = bound();
    let idle = ReceiverOptions { idle_limit: Some(Duration::from_millis(300)), ..patient() };
    let receiver = receiving(socket, discard, idle);
    let (sender, _) = bound();
    let mut caller = sending_end(1, MenuMode::default());
    let hello = caller.poll_transmit(lockstep_units::Timestamp::ZERO).expect("the hello comes first");
    assert!(sender.send_to(&hello.to_bytes(), address).is_ok());
    let (receiver, _) = receiver.join().expect("it does not panic");
    assert!(matches!(receiver.result, Err(LiveError::Silent { peer: "sender", .. })));
}

#[test]
fn a_stopped_end_tells_the_other_one() {
    for stop_sender in [true, false] {
        let (socket, address) = bound();
        let seen = Arc::new(AtomicBool::new(false));
        let stop = |stops: bool| -> Stop {
            let seen = seen.clone();
            Box::new(move || stops && seen.load(Ordering::Relaxed))
        };
        let options = ReceiverOptions { stop: stop(!stop_sender), ..patient() };
        let shown = seen.clone();
        let receiver = thread::spawn(move || {
            receive(receiving_end(), &socket, discard, &options, |_| shown.store(true, Ordering::Relaxed))
        });
        let sender = sent(clip(), SenderOptions { stop: stop(stop_sender), ..to(vec![address]) });
        let receiver = receiver.join().expect("it does not panic");
        let expected = if stop_sender { (Ended::Stopped, Ended::ByPeer) } else { (Ended::ByPeer, Ended::Stopped) };
        assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(expected.0), Some(expected.1)));
    }
}

#[test]
fn a_receiver_without_the_estimator_that_the_sender_needs_refuses_the_call() {
    let (socket, address) = bound();
    let receiver = receiving(socket, discard, patient());
    let sender = send(sending_end(999, MenuMode::default()), clip(), to(vec![address]), |_, _, _| {}, |_| {});
    let (receiver, _) = receiver.join().expect("it does not panic");
    assert!(matches!(sender.result, Err(LiveError::Refused)));
    assert!(matches!(receiver.result, Err(LiveError::UnknownEstimator { number: 999 })));
}
