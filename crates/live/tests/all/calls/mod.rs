//! Calls over loopback, for the tests of this folder.
#![allow(dead_code)] // each test file uses a part of it

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lockstep_call::{FrameRecord, FunctionalEncoder, MenuMode, ReceivingEnd, SendingEnd, SerialMenu, Tuning};
use lockstep_control::{Algorithm, ControllerSetup, EstimatorKind, RateBounds};
use lockstep_emulator::{Emulator, EmulatorOptions, EmulatorSocket, EmulatorStatus, Move, PacketInLink};
use lockstep_link::{Link, LinkConfig, Trace};
use lockstep_live::{
    CallEvent, CallHandle, CallKind, CallObserver, CallOptions, Finished, Freshness, Identity, Listener, ListenerKey,
    OpenSink, Receiving, RemoteEnd, Sending, Shown, Stop, StreamName, Ticket,
};
use lockstep_media::{Sink, SinkError, Source, SourceError, SourceOptions, VideoFormat, open_sink, open_source};
use lockstep_socket::Clock;
use lockstep_transport::{ReceiverConfig, SenderConfig};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use lockstep_vp8::{Parameters, Picture};

/// Time limit of a test, in case it hangs.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Time limits of a call.
#[derive(Debug, Clone, Copy)]
pub struct Calls {
    pub wait_limit: Option<Duration>,
    pub idle_limit: Option<Duration>,
}

/// Long limits.
pub const CALL: Calls = Calls { wait_limit: Some(LIMIT), idle_limit: Some(LIMIT) };

pub fn clip() -> Box<dyn Source> {
    open_source("generated:64x48@30", &SourceOptions::default()).expect("it is generated")
}

/// Ends after the given number of pictures, at 30 per second.
struct Few(Box<dyn Source>, u32);

impl Source for Few {
    fn format(&self) -> VideoFormat {
        self.0.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        self.1 = self.1.saturating_sub(1);
        if self.1 == 0 { Ok(None) } else { self.0.next() }
    }
}

/// The first `count` pictures of the clip.
pub fn pictures(count: u32) -> Box<dyn Source> {
    Box::new(Few(clip(), count))
}

/// A sending end whose hello requests the estimator with this number.
pub fn sending_end(estimator: u16, menu: MenuMode) -> SendingEnd {
    let format =
        lockstep_transport::VideoFormat { width: 64, height: 48, frame_rate_numerator: 30, frame_rate_denominator: 1 };
    sending_end_with(SenderConfig { estimator, ..SenderConfig::new(7, format) }, menu)
}

pub fn sending_end_with(config: SenderConfig, menu: MenuMode) -> SendingEnd {
    let setup = ControllerSetup::new(ByteCount::new(config.payload as u64), Duration::from_millis(33));
    let algorithm: Algorithm = "salsify".parse().expect("there is one");
    let controller = algorithm.controller(&setup).expect("it needs no path");
    SendingEnd::new(
        config,
        controller,
        Box::new(FunctionalEncoder::new(Parameters::default(), menu, &Tuning::default())),
        &Tuning::default(),
    )
}

pub fn receiving_end() -> ReceivingEnd {
    ReceivingEnd::with_estimators(ReceiverConfig::default(), |number| {
        Some(EstimatorKind::from_number(number)?.make(RateBounds::default()))
    })
}

pub fn sending(source: Box<dyn Source>) -> Sending {
    Sending {
        end: sending_end(1, MenuMode::default()),
        name: StreamName::default(),
        source: source.into(),
        runner: Box::new(SerialMenu),
        microphone: None,
        measures_quality: true,
    }
}

pub fn discard(format: VideoFormat) -> Result<Box<dyn Sink>, SinkError> {
    open_sink("none", format)
}

pub fn sink(open: impl FnOnce(VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send + 'static) -> OpenSink {
    Box::new(move |_, format| open(format))
}

/// Options of an end that joins.
pub fn to(ticket: Ticket, sending: Option<Sending>, limits: Calls) -> CallOptions {
    CallOptions {
        peer: RemoteEnd::Of(ticket),
        kind: CallKind::OneWay,
        sending: sending.into_iter().collect(),
        receiving: Vec::new(),
        length: Some(LIMIT),
        wait_limit: limits.wait_limit,
        starts_at_once: false,
        idle_limit: limits.idle_limit,
        stop: Box::new(|| false),
        freshness: Freshness::default(),
        handle: CallHandle::new(),
        qlog: None,
    }
}

pub fn both_ways(peer: RemoteEnd, sending: Sending) -> CallOptions {
    let receiving = Receiving { end: receiving_end(), open_sink: sink(discard), loudspeaker: None };
    let (kind, length) = (CallKind::TwoWay, Some(LIMIT));
    let (wait_limit, idle_limit) = (CALL.wait_limit, CALL.idle_limit);
    let stop: Stop = Box::new(|| false);
    let (sending, receiving) = (vec![sending], vec![receiving]);
    CallOptions {
        peer,
        kind,
        sending,
        receiving,
        length,
        wait_limit,
        starts_at_once: false,
        idle_limit,
        stop,
        freshness: Freshness::default(),
        handle: CallHandle::new(),
        qlog: None,
    }
}

/// Records of captured pictures, and the frame numbers of displayed ones.
#[derive(Default)]
struct Log(Vec<FrameRecord>, Vec<u32>);

impl CallObserver for Log {
    fn event(&mut self, event: CallEvent) {
        assert!(!matches!(event, CallEvent::Warning(_)), "tests are optimised, and yet: {event:?}");
    }

    fn captured(&mut self, _: usize, record: FrameRecord) {
        self.0.push(record);
    }

    fn shown(&mut self, _: usize, shown: &Shown) {
        self.1.push(shown.record.frame);
    }
}

pub fn run(options: CallOptions) -> (Finished, Vec<FrameRecord>) {
    let mut log = Log::default();
    let finished = lockstep_live::run(Clock::start(), options, &mut log);
    if let [sending] = &finished.sending[..] {
        assert!(log.0.iter().map(|record| record.capture).eq(0..sending.captured()), "each once, in order");
    }
    (finished, log.0)
}

/// Runs a sender that joins until its call ends.
pub fn joining(ticket: Ticket, half: Sending, limits: Calls) -> (Finished, Vec<FrameRecord>) {
    run(to(ticket, Some(half), limits))
}

pub fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

pub fn listener() -> (Listener, Ticket) {
    let identity = Identity::new().expect("there are random numbers");
    let listener = Listener::bind(loopback(), identity).expect("a port is free");
    let ticket = listener.ticket(&[]).expect("it is bound");
    (listener, ticket)
}

/// A receiver on a separate thread.
pub struct Listening {
    ticket: Ticket,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Finished, Vec<u32>)>,
}

impl Listening {
    pub fn ticket(&self) -> Ticket {
        self.ticket.clone()
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The result of the call, and the number of displayed pictures.
    pub fn join(self) -> (Finished, usize) {
        let (finished, frames) = self.join_frames();
        (finished, frames.len())
    }

    /// The result of the call, and the numbers of the displayed frames.
    pub fn join_frames(self) -> (Finished, Vec<u32>) {
        self.thread.join().expect("it does not panic")
    }
}

pub fn listening(open_sink: OpenSink, limits: Calls) -> Listening {
    listening_until(open_sink, limits, Box::new(|| false))
}

pub fn listening_until(open_sink: OpenSink, limits: Calls, stop: Stop) -> Listening {
    let (listener, ticket) = listener();
    started(listener, ticket, receiving_end, open_sink, limits, stop)
}

/// A receiver with the given receiving end.
pub fn listening_with(end: impl FnOnce() -> ReceivingEnd + Send + 'static, open_sink: OpenSink) -> Listening {
    let (listener, ticket) = listener();
    started(listener, ticket, end, open_sink, CALL, Box::new(|| false))
}

/// A receiver on `listener`, whose ticket is `ticket`.
pub fn listening_on(listener: Listener, ticket: Ticket) -> Listening {
    started(listener, ticket, receiving_end, sink(discard), CALL, Box::new(|| false))
}

fn started(
    listener: Listener,
    ticket: Ticket,
    end: impl FnOnce() -> ReceivingEnd + Send + 'static,
    open_sink: OpenSink,
    limits: Calls,
    stop: Stop,
) -> Listening {
    let stopped = Arc::new(AtomicBool::new(false));
    let asked = stopped.clone();
    let thread = thread::spawn(move || {
        let options = CallOptions {
            peer: RemoteEnd::At(listener),
            kind: CallKind::OneWay,
            sending: Vec::new(),
            receiving: vec![Receiving { end: end(), open_sink, loudspeaker: None }],
            length: None,
            wait_limit: limits.wait_limit,
            starts_at_once: false,
            idle_limit: limits.idle_limit,
            stop: Box::new(move || stop() || asked.load(Ordering::Relaxed)),
            freshness: Freshness::default(),
            handle: CallHandle::new(),
            qlog: None,
        };
        let mut log = Log::default();
        let finished = lockstep_live::run(Clock::start(), options, &mut log);
        (finished, log.1)
    });
    Listening { ticket, stop: stopped, thread }
}

/// A ticket at which nobody answers, and the listener that keeps its port.
pub struct Silent {
    pub ticket: Ticket,
    _listener: Listener,
}

pub fn silent() -> Silent {
    let (listener, ticket) = listener();
    Silent { ticket, _listener: listener }
}

/// An emulator, and a ticket that leads through it.
pub struct Through {
    pub ticket: Ticket,
    pub thread: JoinHandle<Emulator>,
}

fn link(change: impl Fn(&mut LinkConfig)) -> Link<PacketInLink> {
    let trace = Trace::constant(Bitrate::from_kbps(10_000));
    let mut config = LinkConfig { delay: Duration::from_millis(5), ..LinkConfig::new(trace) };
    change(&mut config);
    Link::new(config, 1).expect("a link")
}

/// An emulator with links of 10 Mb/s and 5 ms to `ticket`'s addresses, until `is_over` or [`LIMIT`].
fn emulated(
    ticket: &Ticket,
    change: impl FnOnce(&mut EmulatorOptions),
    mut is_over: impl FnMut(&EmulatorStatus) -> bool + Send + 'static,
) -> Through {
    let socket = EmulatorSocket::bind(loopback()).expect("a port is free");
    let addresses = socket.addresses().expect("it is bound");
    let mut options = EmulatorOptions {
        to: ticket.addresses.clone(),
        forward: link(|_| {}),
        reverse: link(|_| {}),
        length: Some(LIMIT),
        scored: LIMIT,
        moves: Vec::new(),
        log: None,
        mtu: None,
    };
    change(&mut options);
    let thread =
        thread::spawn(move || Emulator::run(socket, options, |status| !is_over(status)).expect("its sockets work"));
    Through { ticket: Ticket { addresses, rendezvous: Vec::new(), ..ticket.clone() }, thread }
}

/// A perfect link until `is_over`; afterwards it carries nothing.
pub fn through(ticket: &Ticket, mut is_over: impl FnMut() -> bool + Send + 'static) -> Through {
    emulated(ticket, |_| {}, move |_| is_over())
}

/// A link that carries IP packets of up to `mtu` bytes.
pub fn narrow(ticket: &Ticket, mtu: u64) -> Through {
    emulated(ticket, |options| options.mtu = Some(mtu), |_| false)
}

/// Links changed separately, to the listener and back, until `is_over`.
pub fn emulated_each(
    ticket: &Ticket,
    to: impl Fn(&mut LinkConfig),
    back: impl Fn(&mut LinkConfig),
    is_over: impl FnMut(&EmulatorStatus) -> bool + Send + 'static,
) -> Through {
    emulated(ticket, |options| (options.forward, options.reverse) = (link(to), link(back)), is_over)
}

/// A link whose end `moved` changes its port every 50 ms, until `is_over`.
pub fn moving(ticket: &Ticket, moved: Move, mut is_over: impl FnMut() -> bool + Send + 'static) -> Through {
    let interval = Duration::from_millis(50);
    let moves = (1..=1_000).map(|number| (number * interval, moved)).collect();
    emulated(ticket, |options| options.moves = moves, move |_| is_over())
}

/// A socket, a ticket that leads to it, and another socket.
pub fn plain_sockets() -> ((UdpSocket, Ticket), UdpSocket) {
    let [far, near] = [(); 2].map(|()| UdpSocket::bind(loopback()).expect("a port is free"));
    let addresses = vec![far.local_addr().expect("it is bound")];
    let (key, secret) = (ListenerKey::PublicKey([0; 32]), [0; 16]);
    let ticket = Ticket { key, secret, addresses, rendezvous: Vec::new(), is_room: false };
    ((far, ticket), near)
}

/// A sink that counts its pictures.
pub fn counting(shown: &Arc<AtomicUsize>) -> OpenSink {
    struct Counting(Arc<AtomicUsize>);
    impl Sink for Counting {
        fn show(&mut self, _: &Picture, _: Timestamp) -> Result<(), SinkError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
    let counting = Counting(shown.clone());
    sink(move |_| Ok(Box::new(counting)))
}

/// Waits until `is_so` returns `true`; [`LIMIT`] only ends a test that hangs.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "{what}: it never was");
        thread::sleep(Duration::from_millis(10));
    }
}
