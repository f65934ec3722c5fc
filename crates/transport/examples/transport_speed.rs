//! Benchmark: processor time of both ends per fragment and its acknowledgement.
//!
//!     cargo run --release -p lockstep-transport --example transport_speed [SECONDS OF A CALL] [PART OF A CASE'S NAME]
//!
//! The path is ideal except for what the name of the case states. Each end is measured separately; both include reading
//! the clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lockstep_transport::{
    Datagram, OutgoingFrame, Receiver, ReceiverConfig, ReceiverEvent, Recovery, Sender, SenderConfig, StateId,
    VideoFormat,
};
use lockstep_units::Timestamp;

/// Result of a call.
#[derive(Default)]
struct Spent {
    fragments: u64,
    sender: Duration,
    receiver: Duration,
}

struct Case {
    name: &'static str,
    delay: Duration,
    recovery: Recovery,
    /// One fragment out of this number is lost; 0 for none.
    lose: u64,
}

type Channel = VecDeque<(Timestamp, Datagram)>;

fn take(channel: &mut Channel, now: Timestamp) -> Option<Datagram> {
    if channel.front()?.0 <= now { channel.pop_front().map(|(_, datagram)| datagram) } else { None }
}

/// Runs a call of 30 frames per second, with three fragments of 1,200 bytes each.
fn call(case: &Case, seconds: u64) -> Spent {
    let format = VideoFormat { width: 640, height: 360, frame_rate_numerator: 30, frame_rate_denominator: 1 };
    let mut sender = Sender::new(SenderConfig { recovery: case.recovery, ..SenderConfig::new(1, format) });
    let mut receiver = Receiver::new(ReceiverConfig::default());
    sender.set_pace(Duration::from_millis(5), 1);
    let (mut forward, mut backward) = (Channel::new(), Channel::new());
    let mut spent = Spent::default();
    let (mut now, mut capture_at, mut frames) = (Timestamp::ZERO, Timestamp::ZERO, 0);
    let end = Timestamp::from_millis(seconds * 1_000);
    while now < end {
        let began = Instant::now();
        if sender.poll_timeout().is_some_and(|at| at <= now) {
            sender.handle_timeout(now);
        }
        while let Some(datagram) = take(&mut backward, now) {
            sender.handle_datagram(now, Ok(datagram));
        }
        if capture_at <= now {
            capture_at += Duration::from_nanos(33_333_333);
            frames += 1;
            let source = sender.next_source();
            let (target, payload) = (StateId(frames), vec![7; 3_600]);
            let frame = OutgoingFrame { source, target, captured: now, key_frame: frames == 1, parity: 0, payload };
            sender.send_frame(now, frame).expect("the queue has room");
        }
        while sender.poll_event().is_some() {}
        while let Some(transmit) = sender.poll_transmit(now) {
            spent.fragments += u64::from(transmit.fragment.is_some());
            if case.lose == 0 || spent.fragments % case.lose != 0 {
                forward.push_back((now + case.delay, transmit.datagram));
            }
        }
        let sent = Instant::now();
        spent.sender += sent - began;
        while let Some(datagram) = take(&mut forward, now) {
            receiver.handle_datagram(now, Ok(datagram), false);
            while let Some(event) = receiver.poll_event() {
                if let ReceiverEvent::Frame { frame, target, .. } = event {
                    receiver.frame_decoded(frame, target);
                }
            }
            while let Some(transmit) = receiver.poll_transmit(now) {
                backward.push_back((now + case.delay, transmit.datagram));
            }
        }
        spent.receiver += sent.elapsed();
        let next = [
            sender.poll_timeout(),
            forward.front().map(|channel| channel.0),
            backward.front().map(|channel| channel.0),
        ];
        now = next.into_iter().flatten().min().map_or(capture_at, |next| next.min(capture_at)).max(now);
    }
    spent
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(1_000);
    let part = std::env::args().nth(2).unwrap_or_default();
    let case =
        |name, milliseconds, recovery, lose| Case { name, delay: Duration::from_millis(milliseconds), recovery, lose };
    for case in [
        case("from held state, 1 ms", 1, Recovery::FromHeldState, 0),
        case("from held state, 50 ms", 50, Recovery::FromHeldState, 0),
        case("from held state, 50 ms, 2 % lost", 50, Recovery::FromHeldState, 50),
        case("retransmit, 50 ms", 50, Recovery::Retransmit, 0),
        case("retransmit, 50 ms, 2 % lost", 50, Recovery::Retransmit, 50),
        case("retransmit, 2 s", 2_000, Recovery::Retransmit, 0),
    ] {
        if !case.name.contains(&part) {
            continue;
        }
        let spent = (0..3).map(|_| call(&case, seconds)).min_by_key(|spent| spent.sender + spent.receiver);
        let Spent { fragments, sender, receiver } = spent.unwrap_or_default();
        let each = |time: Duration| time.as_nanos() as f64 / fragments as f64;
        let (sender, receiver) = (each(sender), each(receiver));
        println!(
            "{:34} {sender:6.0} ns sender {receiver:6.0} ns receiver per fragment, {fragments} fragments",
            case.name
        );
    }
}
