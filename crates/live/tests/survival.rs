//! What a call survives: networks that change, vanish and come back, floods, and an other end that does not know it any more.

mod calls;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_link::{LossInterval, Reordering};
use lockstep_live::{Ended, LiveError, Move};
use lockstep_media::{Sink, SinkError};
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

use calls::{CALL, Calls, clip, discard, emulated, joining, listening, pictures, sending, sink};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A sink that notes when pictures came.
#[derive(Clone, Default)]
struct Moments(Arc<std::sync::Mutex<Vec<Instant>>>);

impl Sink for Moments {
    fn show(&mut self, _: &Picture, _: Timestamp) -> Result<(), SinkError> {
        self.0.lock().expect("nobody panics").push(Instant::now());
        Ok(())
    }
}

impl Moments {
    fn sink(&self) -> lockstep_live::OpenSink {
        let moments = self.clone();
        sink(move |_| Ok(Box::new(moments)))
    }

    /// How many came in the last `duration` before the last.
    fn in_the_last(&self, duration: Duration) -> usize {
        let moments = self.0.lock().expect("nobody panics");
        let Some(&last) = moments.last() else { return 0 };
        moments.iter().filter(|&&moment| last.saturating_duration_since(moment) < duration).count()
    }
}

#[test]
fn a_call_goes_on_when_either_end_changes_its_network() {
    let shown = Moments::default();
    let listener = listening(shown.sink(), CALL);
    let moves = [(1, Move::Near), (2, Move::Far), (3, Move::Near), (4, Move::Far)];
    let moves = moves.map(|(at, side)| (seconds(at), side)).to_vec();
    let through = emulated(&listener.ticket(), |_| {}, seconds(20), moves);
    let (sender, _) = joining(through.ticket, sending(pictures(180)), CALL);
    let (receiver, _) = listener.join();
    assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(Ended::Done), Some(Ended::ByPeer)));
    let late = shown.in_the_last(seconds(1));
    assert!(late >= 15, "{late} pictures in the last second");
}

#[test]
fn pictures_are_back_after_the_link_was_lost() {
    let shown = Moments::default();
    let listener = listening(shown.sink(), CALL);
    let lost = |config: &mut lockstep_link::LinkConfig| {
        config.loss.scheduled = vec![LossInterval { from: seconds(1), to: seconds(3), loss: 1.0 }];
    };
    let through = emulated(&listener.ticket(), lost, seconds(20), Vec::new());
    let (sender, _) = joining(through.ticket, sending(pictures(180)), CALL);
    let (receiver, _) = listener.join();
    assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(Ended::Done), Some(Ended::ByPeer)));
    let late = shown.in_the_last(seconds(1));
    assert!(late >= 15, "{late} pictures in the last second");
}

/// Of 90 pictures over such a link most are shown, and the call ends well.
fn assert_goes_on(through: calls::Through, listener: calls::Listening, least: usize) {
    let (sender, _) = joining(through.ticket, sending(pictures(90)), CALL);
    let (receiver, shown) = listener.join();
    assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(Ended::Done), Some(Ended::ByPeer)));
    assert!(shown >= least, "{shown} pictures");
}

#[test]
fn datagrams_of_1200_bytes_are_enough_for_a_call() {
    let listener = listening(sink(discard), CALL);
    // And 28 of the headers of IP and UDP.
    assert_goes_on(calls::narrow(&listener.ticket(), 1_228), listener, 60);
}

#[test]
fn a_call_bears_datagrams_out_of_order_and_twice() {
    let listener = listening(sink(discard), CALL);
    let mixed = |config: &mut lockstep_link::LinkConfig| {
        config.reordering = Some(Reordering { probability: 0.2, extra_delay: Duration::from_millis(20) });
        config.duplication = 0.2;
    };
    assert_goes_on(emulated(&listener.ticket(), mixed, seconds(20), Vec::new()), listener, 60);
}

#[test]
fn a_call_bears_the_loss_of_30_percent_of_all_datagrams() {
    let listener = listening(sink(discard), CALL);
    let lossy = |config: &mut lockstep_link::LinkConfig| config.loss.random = 0.3;
    assert_goes_on(emulated(&listener.ticket(), lossy, seconds(20), Vec::new()), listener, 20);
}

#[test]
fn a_call_whose_way_back_is_dead_ends_at_both_ends_and_says_why() {
    let brief = Calls { idle_limit: Some(Duration::from_millis(1_500)), ..CALL };
    let listener = listening(sink(discard), CALL);
    let through = calls::emulated_each(
        &listener.ticket(),
        |_| {},
        |back| {
            back.loss.scheduled = vec![LossInterval { from: seconds(1), to: seconds(60), loss: 1.0 }];
        },
    );
    let (sender, _) = joining(through.ticket, sending(clip()), brief);
    assert!(matches!(sender.result, Err(LiveError::Silent { .. })), "{:?}", sender.result);
    let (receiver, _) = listener.join();
    assert!(matches!(receiver.result, Err(LiveError::PeerFailed)), "{:?}", receiver.result);
}

#[test]
fn a_flood_of_garbage_and_of_forged_beginnings_changes_nothing() {
    let listener = listening(sink(discard), CALL);
    let ticket = listener.ticket();
    let over = Arc::new(AtomicBool::new(false));
    let (until, to) = (over.clone(), ticket.addresses[0]);
    let flood = thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut sent = 0_u64;
        while !until.load(Ordering::Relaxed) {
            for _ in 0..20 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let mut datagram = [random as u8; 1200];
                datagram[..8].copy_from_slice(&random.to_be_bytes());
                let forged = sent.is_multiple_of(2);
                if forged {
                    // As a first packet of version 1 of QUIC begins: the length of the name that it chooses follows.
                    datagram[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
                    datagram[6..14].copy_from_slice(&random.to_be_bytes());
                }
                let length = if forged { 1200 } else { (random % 1200) as usize };
                sent += u64::from(socket.send_to(&datagram[..length], to).is_ok());
            }
            thread::sleep(Duration::from_millis(2));
        }
        sent
    });
    let (sender, _) = joining(ticket, sending(pictures(90)), CALL);
    over.store(true, Ordering::Relaxed);
    let flooded = flood.join().expect("it does not panic");
    let (receiver, shown) = listener.join();
    assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(Ended::Done), Some(Ended::ByPeer)));
    assert!(flooded > 1_000 && shown >= 60, "{shown} pictures shown, {flooded} datagrams of garbage");
}
