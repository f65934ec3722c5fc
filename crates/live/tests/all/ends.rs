//! Calls over loopback: each end reports how the call ended, and keeps its log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lockstep_call::{Candidate, MenuMode, MenuRunner, Outcome, ReceivingEnd, SerialMenu};
use lockstep_live::{
    CallEvent, CallKind, CallObserver, CallOptions, Ended, Identity, Listener, LiveError, Sending, Stop, TicketRefusal,
};
use lockstep_media::{Sink, SinkError, Source, SourceError, VideoFormat, open_sink};
use lockstep_socket::Clock;
use lockstep_transport::SenderConfig;
use lockstep_units::Timestamp;
use lockstep_vp8::{Analysis, Picture};

use crate::calls::{
    self, CALL, Calls, Listening, Through, clip, counting, discard, joining, listening, sending, sending_end,
    sending_end_with, sink, to, wait_until,
};

/// Yields a few pictures of the clip, and then the function's result.
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
fn end_of_the_source_ends_the_call_after_its_last_frame() {
    let listener = listening(sink(discard), CALL);
    let (sender, records) = joining(listener.ticket(), sending(Box::new(Then(clip(), 6, || Ok(None)))), CALL);
    let (receiver, frames) = listener.join_frames();
    assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(Ended::Done), Some(Ended::ByPeer)));
    let sent = || records.iter().filter(|record| record.outcome == Outcome::Sent);
    let last = sent().next_back().and_then(|record| record.frame);
    assert!(last.is_some() && frames.last().copied() == last, "{last:?} sent, {frames:?} shown");
    assert!(sent().all(|record| record.ssim.is_some()), "every frame sent was measured");
}

#[test]
fn panic_of_a_sender_thread_ends_the_call_and_names_it() {
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
        let listener = listening(sink(discard), CALL);
        // Only a menu of two candidates uses a runner.
        let mut half = sending(source);
        (half.end, half.runner) = (sending_end(1, MenuMode::Parallel), runner);
        let (finished, records) = joining(listener.ticket(), half, CALL);
        let said = finished.result.expect_err("a thread died").to_string();
        assert!(said.contains(name) && said.contains(reason), "{said}");
        assert!(!records.is_empty(), "the log is kept");
        assert!(matches!(listener.join().0.result, Err(LiveError::PeerFailed)), "the close message arrived");
    }
}

#[test]
fn failure_of_the_sink_ends_the_call_at_both_ends() {
    type Open = fn(VideoFormat) -> Result<Box<dyn Sink>, SinkError>;
    let dies: Open = |_| panic!("no such screen");
    let fails: Open = |_| Err(SinkError::Finished);
    for (open, reason) in [(dies, "no such screen"), (fails, "the sink failed")] {
        let listener = listening(sink(open), CALL);
        let (sender, _) = joining(listener.ticket(), sending(clip()), CALL);
        let said = listener.join().0.result.expect_err("the sink is gone").to_string();
        assert!(said.contains("sink") && said.contains(reason), "{said}");
        assert!(matches!(sender.result, Err(LiveError::PeerFailed)));
    }
}

#[test]
fn closed_window_ends_the_call_without_an_error() {
    let listener = listening(sink(|_| Err(SinkError::WindowClosed)), CALL);
    let (sender, _) = joining(listener.ticket(), sending(clip()), CALL);
    assert_eq!((sender.result.ok(), listener.join().0.result.ok()), (Some(Ended::ByPeer), Some(Ended::WindowClosed)));
}

#[test]
fn unanswered_sender_reports_the_addresses_it_tried() {
    let brief = Calls { wait_limit: Some(Duration::from_millis(300)), ..CALL };
    let silent = calls::silent();
    let (finished, records) = joining(silent.ticket.clone(), sending(clip()), brief);
    let said = finished.result.expect_err("nobody is there").to_string();
    assert!(said.contains("nobody answered") && said.contains(&silent.ticket.addresses[0].to_string()), "{said}");
    assert!(records.iter().all(|record| record.frame.is_none()), "nothing is sent to nobody");
}

#[test]
fn short_call_waits_for_an_answer_until_its_limit() {
    let wait = Duration::from_millis(600);
    let silent = calls::silent();
    let options = to(silent.ticket.clone(), Some(sending(clip())), Calls { wait_limit: Some(wait), ..CALL });
    let (finished, _) = calls::run(CallOptions { length: Some(Duration::from_millis(1)), ..options });
    let Err(LiveError::Unanswered { waited, .. }) = finished.result else { panic!("{:?}", finished.result) };
    assert!(waited >= wait, "{waited:?}");
}

#[test]
fn short_call_without_a_wait_limit_sends_after_the_answer() {
    let listener = calls::silent();
    let limits = Calls { wait_limit: None, ..CALL };
    let options = to(listener.ticket.clone(), Some(sending(clip())), limits);
    let begun = Instant::now();
    let stop: Stop = Box::new(move || begun.elapsed() > Duration::from_secs(1));
    let length = Some(Duration::from_millis(1));
    let (waiting, _) = calls::run(CallOptions { length, stop, ..options });
    assert_eq!(waiting.result.ok(), Some(Ended::Stopped), "it waits on");
    let at_once = to(listener.ticket.clone(), Some(sending(clip())), limits);
    let (finished, _) = calls::run(CallOptions { length, starts_at_once: true, ..at_once });
    assert_eq!(finished.result.ok(), Some(Ended::Done));
}

#[test]
fn announced_pictures_without_a_size_end_the_call() {
    let format =
        lockstep_transport::VideoFormat { width: 0, height: 0, frame_rate_numerator: 30, frame_rate_denominator: 1 };
    let end = sending_end_with(SenderConfig { estimator: 1, ..SenderConfig::new(7, format) }, MenuMode::default());
    let listener = listening(sink(discard), CALL);
    let (sender, _) = joining(listener.ticket(), Sending { end, ..sending(clip()) }, CALL);
    assert_eq!(sender.result.err(), Some(LiveError::PeerFailed));
    assert_eq!(listener.join().0.result.err(), Some(LiveError::InvalidFormat));
}

#[test]
fn address_that_answers_is_used_of_a_ticket_with_several() {
    let listener = listening(sink(discard), CALL);
    let mut ticket = listener.ticket();
    let silent = [calls::silent(), calls::silent()];
    ticket.addresses.splice(0..0, silent.iter().map(|silent| silent.ticket.addresses[0]));
    let (sender, _) = joining(ticket, sending(Box::new(Then(clip(), 6, || Ok(None)))), CALL);
    assert_eq!(sender.result.ok(), Some(Ended::Done));
    let (receiver, pictures) = listener.join();
    assert!(receiver.result.is_ok() && pictures > 0);
}

/// A link to `listening` that is cut after the first picture is shown, and a flag that is set then.
fn cut_after_a_picture(listening: &Listening, shown: Arc<AtomicUsize>) -> (Through, Arc<AtomicBool>) {
    let cut = Arc::<AtomicBool>::default();
    let set = cut.clone();
    let through = calls::through(&listening.ticket(), move || {
        set.store(shown.load(Ordering::Relaxed) > 0, Ordering::Relaxed);
        set.load(Ordering::Relaxed)
    });
    (through, cut)
}

#[test]
fn call_ends_after_the_silence_limit() {
    let brief = Calls { idle_limit: Some(Duration::from_millis(700)), ..CALL };
    let shown = Arc::<AtomicUsize>::default();
    let listener = listening(counting(&shown), brief);
    let (through, _) = cut_after_a_picture(&listener, shown);
    let (sender, _) = joining(through.ticket.clone(), sending(clip()), brief);
    let results = [sender.result, listener.join().0.result];
    let is_silent = |result: &Result<Ended, LiveError>| matches!(result, Err(LiveError::Silent { .. }));
    assert!(results.iter().any(is_silent), "{results:?}");
    // On a busy machine, an end may be silent before the link is cut. It then informs the other end.
    let has_failed = |result| is_silent(result) || matches!(result, Err(LiveError::PeerFailed));
    assert!(results.iter().all(has_failed), "{results:?}");
}

/// Whether the call is interrupted.
#[derive(Clone, Default)]
struct Interruptions(Arc<AtomicBool>);

impl CallObserver for Interruptions {
    fn event(&mut self, event: CallEvent) {
        match event {
            CallEvent::Interrupted => self.0.store(true, Ordering::Relaxed),
            CallEvent::Resumed => self.0.store(false, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// Ends when all flags are set.
struct EndsWhen(Box<dyn Source>, [Arc<AtomicBool>; 2]);

impl Source for EndsWhen {
    fn format(&self) -> VideoFormat {
        self.0.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        if self.1.iter().all(|flag| flag.load(Ordering::Relaxed)) { Ok(None) } else { self.0.next() }
    }
}

#[test]
fn finished_end_reports_that_the_other_end_is_silent() {
    let shown = Arc::<AtomicUsize>::default();
    let listener = listening(counting(&shown), CALL);
    let (through, cut) = cut_after_a_picture(&listener, shown);
    let mut interruptions = Interruptions::default();
    let source = EndsWhen(clip(), [cut, interruptions.0.clone()]);
    let options = to(through.ticket, Some(sending(Box::new(source))), CALL);
    let sender = lockstep_live::run(Clock::start(), options, &mut interruptions);
    assert!(matches!(sender.result, Err(LiveError::PeerSilent { .. })), "{:?}", sender.result);
    listener.stop();
    listener.join();
}

#[test]
fn stopped_end_closes_the_call_at_the_other_end() {
    for stop_sender in [true, false] {
        let seen = Arc::new(AtomicBool::new(false));
        let stop = |stops: bool| -> Stop {
            let seen = seen.clone();
            Box::new(move || stops && seen.load(Ordering::Relaxed))
        };
        struct Tells(Arc<AtomicBool>);
        impl Sink for Tells {
            fn show(&mut self, _: &Picture, _: Timestamp) -> Result<(), SinkError> {
                self.0.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
        let shown = seen.clone();
        let shows = sink(move |_| Ok(Box::new(Tells(shown)) as Box<dyn Sink>));
        let listener = calls::listening_until(shows, CALL, stop(!stop_sender));
        let options = CallOptions { stop: stop(stop_sender), ..to(listener.ticket(), Some(sending(clip())), CALL) };
        let (sender, _) = calls::run(options);
        let expected = if stop_sender { (Ended::Stopped, Ended::ByPeer) } else { (Ended::ByPeer, Ended::Stopped) };
        assert_eq!((sender.result.ok(), listener.join().0.result.ok()), (Some(expected.0), Some(expected.1)));
    }
}

#[test]
fn receiver_refuses_a_call_with_an_unknown_estimator() {
    let listener = listening(sink(discard), CALL);
    let mut half = sending(clip());
    half.end = sending_end(999, MenuMode::default());
    let (sender, _) = joining(listener.ticket(), half, CALL);
    assert!(matches!(sender.result, Err(LiveError::Refused)), "{:?}", sender.result);
    assert!(matches!(listener.join().0.result, Err(LiveError::UnknownEstimator { number: 999 })));
}

#[test]
fn two_way_call_shows_pictures_at_both_ends() {
    let shown = [Arc::<AtomicUsize>::default(), Arc::default()];
    let both = |end: lockstep_live::RemoteEnd, shown: &Arc<AtomicUsize>| {
        let mut options = calls::both_ways(end, sending(clip()));
        options.receiving[0].open_sink = counting(shown);
        options
    };
    let (listener, ticket) = calls::listener();
    let one = both(lockstep_live::RemoteEnd::At(listener), &shown[0]);
    let one = std::thread::spawn(move || calls::run(one).0);
    let other = both(lockstep_live::RemoteEnd::Of(ticket), &shown[1]);
    let stop = Box::new(move || shown.iter().all(|shown| shown.load(Ordering::Relaxed) >= 8));
    let (other, _) = calls::run(CallOptions { stop, ..other });
    let one = one.join().expect("it does not panic");
    assert!(one.sending[0].statistics().frames_acknowledged > 0);
    assert!(other.sending[0].statistics().frames_acknowledged > 0);
    assert_eq!((one.result.ok(), other.result.ok()), (Some(Ended::ByPeer), Some(Ended::Stopped)));
}

#[test]
fn wrong_used_or_other_kind_of_ticket_is_refused() {
    let shown = Arc::<AtomicUsize>::default();
    let listener = listening(counting(&shown), CALL);
    let ticket = listener.ticket();
    let refused = |options: CallOptions| match calls::run(options).0.result {
        Err(LiveError::Ticket(refusal)) => Some(refusal),
        _ => None,
    };
    let wrong = lockstep_live::Ticket { secret: [0; 16], ..ticket.clone() };
    assert_eq!(refused(to(wrong, Some(sending(clip())), CALL)), Some(TicketRefusal::Wrong));
    let other = CallOptions { kind: CallKind::TwoWay, ..to(ticket.clone(), Some(sending(clip())), CALL) };
    assert_eq!(refused(other), Some(TicketRefusal::OtherKind));
    // Neither attempt has used up the ticket.
    let over = Arc::<AtomicBool>::default();
    let stopped = over.clone();
    let stop: Stop = Box::new(move || stopped.load(Ordering::Relaxed));
    let first = CallOptions { stop, ..to(ticket.clone(), Some(sending(clip())), CALL) };
    let sender = std::thread::spawn(move || calls::run(first).0);
    wait_until("a picture of the first sender", || shown.load(Ordering::Relaxed) > 0);
    assert_eq!(refused(to(ticket, Some(sending(clip())), CALL)), Some(TicketRefusal::Used));
    let before = shown.load(Ordering::Relaxed);
    wait_until("more pictures of the first sender", || shown.load(Ordering::Relaxed) >= before + 10);
    over.store(true, Ordering::Relaxed);
    assert_eq!(sender.join().expect("it does not panic").result.ok(), Some(Ended::Stopped));
    assert_eq!(listener.join().0.result.ok(), Some(Ended::ByPeer));
}

#[test]
fn standing_ticket_serves_consecutive_calls() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let identity = Identity::standing(&folder.path().join("identity")).expect("it can be made");
    let mut listener = Listener::bind(calls::loopback(), identity).expect("a port is free");
    let ticket = listener.ticket(&[]).expect("it is bound");
    for call in 0..3 {
        let next = listener.for_next_call().expect("sockets can be cloned").expect("the ticket is a standing one");
        let receiver = calls::listening_on(listener, ticket.clone());
        let (sender, _) = joining(ticket.clone(), sending(calls::pictures(6)), CALL);
        let (receiver, shown) = receiver.join();
        assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(Ended::Done), Some(Ended::ByPeer)), "{call}");
        assert!(shown > 0, "call {call} shows pictures");
        listener = next;
    }
    let (once, _) = calls::listener();
    assert!(once.for_next_call().expect("sockets can be cloned").is_none(), "a ticket of one call");
}

#[test]
fn listener_with_another_key_does_not_learn_the_secret() {
    let (real, other) = (calls::listener(), listening(sink(discard), Calls { wait_limit: None, ..CALL }));
    // The addresses lead to another listener.
    let ticket = lockstep_live::Ticket { addresses: other.ticket().addresses, ..real.1 };
    let (sender, _) = joining(ticket, sending(clip()), CALL);
    assert!(matches!(sender.result, Err(LiveError::Connection(_))), "{:?}", sender.result);
    other.stop();
    assert_eq!(other.join().0.result.ok(), Some(Ended::Stopped), "nobody has joined there");
}

/// Sets a flag when its pictures end.
struct Announced(Box<dyn Source>, Arc<AtomicBool>);

impl Source for Announced {
    fn format(&self) -> VideoFormat {
        self.0.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        let next = self.0.next();
        self.1.store(matches!(next, Ok(None)), Ordering::Relaxed);
        next
    }
}

/// The first `count` pictures of the clip, and a flag that is set when they end.
fn announced(count: u32) -> (Box<dyn Source>, Arc<AtomicBool>) {
    let ended = Arc::<AtomicBool>::default();
    (Box::new(Announced(calls::pictures(count), ended.clone())), ended)
}

fn wait_for_the_end(ended: &AtomicBool) {
    wait_until("the pictures end", || ended.load(Ordering::Relaxed));
}

/// A sink that stalls until the source ends, and counts its pictures.
struct Stalls {
    until: Arc<AtomicBool>,
    is_live: bool,
    taken: Arc<AtomicUsize>,
}

impl Sink for Stalls {
    fn show(&mut self, _: &Picture, _: Timestamp) -> Result<(), SinkError> {
        wait_for_the_end(&self.until);
        self.taken.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn is_live(&self) -> bool {
        self.is_live
    }
}

/// Number of pictures for the sink. On a busy machine, the receiver skips frames that newer ones replace.
fn displayed(receiving: &[ReceivingEnd]) -> u64 {
    let counts = receiving[0].counts();
    assert!(counts.decoded > 0);
    counts.decoded - counts.late
}

#[test]
fn slow_sink_drops_pictures_without_delaying_decoding() {
    let taken = Arc::<AtomicUsize>::default();
    let (source, ended) = announced(60);
    let stalls = Stalls { until: ended, is_live: true, taken: taken.clone() };
    let listener = listening(sink(move |_| Ok(Box::new(stalls))), CALL);
    let (sender, _) = joining(listener.ticket(), sending(source), CALL);
    let (receiver, shown) = listener.join();
    assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(Ended::Done), Some(Ended::ByPeer)));
    // The sink stalls for the whole call, and its queue holds few pictures.
    assert!(receiver.dropped > 0, "{shown} shown");
    assert_eq!(
        (shown as u64 + receiver.dropped, shown),
        (displayed(&receiver.receiving), taken.load(Ordering::Relaxed))
    );
}

#[test]
fn recording_loses_nothing_while_its_disk_stalls() {
    let (source, ended) = announced(60);
    let stalls = Stalls { until: ended, is_live: false, taken: Arc::default() };
    let listener = listening(sink(move |_| Ok(Box::new(stalls))), CALL);
    joining(listener.ticket(), sending(source), CALL);
    let (receiver, shown) = listener.join();
    assert_eq!((shown as u64, receiver.dropped), (displayed(&receiver.receiving), 0));
}

#[test]
fn call_waits_for_a_slow_sink_at_its_end() {
    let (source, ended) = announced(12);
    let slow = sink(move |format| {
        wait_for_the_end(&ended);
        open_sink("none", format)
    });
    let listener = listening(slow, CALL);
    joining(listener.ticket(), sending(source), CALL);
    let (receiver, shown) = listener.join();
    assert_eq!((shown as u64, receiver.dropped), (displayed(&receiver.receiving), 0));
}
