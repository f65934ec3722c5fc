//! Faults of the sockets of live calls and of the emulator.
//!
//! Calls in virtual time cover lost links, losses, reordering, dead directions and path changes (`live::rehearsal`).

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lockstep_emulator::{EmulatorStatus, Move};
use lockstep_live::{CallOptions, Ended};

use crate::calls::{self, CALL, clip, counting, listening, sending, to};

/// The first datagram that arrives at `socket`, and its length.
fn first(socket: &UdpSocket) -> Option<(u8, usize)> {
    let mut buffer = [0; 2_000];
    socket.set_read_timeout(Some(calls::LIMIT)).expect("the limit is not zero");
    let length = socket.recv(&mut buffer).ok()?;
    Some((buffer[0], length))
}

#[test]
fn emulator_drops_packets_larger_than_its_mtu() {
    let (far, near) = calls::plain_sockets();
    // The headers of IP and UDP take 28 bytes.
    let through = calls::narrow(&far.1, 1_228);
    near.connect(through.ticket.addresses[0]).expect("the emulator has an address");
    for (number, length) in [(1, 1_201), (2, 1_200)] {
        near.send(&vec![number; length]).expect("loopback takes it");
    }
    assert_eq!(first(&far.0), Some((2, 1_200)));
}

#[test]
fn emulator_changes_the_port_of_the_moved_end() {
    for moved in [Move::Near, Move::Far] {
        let (far, near) = calls::plain_sockets();
        let over = Arc::<AtomicBool>::default();
        let set = over.clone();
        let through = calls::moving(&far.1, moved, move || set.load(Ordering::Relaxed));
        for socket in [&far.0, &near] {
            socket.set_read_timeout(Some(Duration::from_millis(20))).expect("the limit is not zero");
        }
        let (mut at_far, mut at_near) = (Vec::new(), Vec::new());
        let note = |ports: &mut Vec<SocketAddr>, socket: &UdpSocket| {
            let from = socket.recv_from(&mut [0; 10]).ok().map(|(_, from)| from);
            ports.extend(from.filter(|from| ports.last() != Some(from)));
        };
        // Each datagram shows the port that the other end has at that time.
        calls::wait_until("datagrams from two ports", || {
            near.send_to(&[7], through.ticket.addresses[0]).expect("loopback takes it");
            note(&mut at_far, &far.0);
            if let Some(&emulator) = at_far.last() {
                far.0.send_to(&[8], emulator).expect("loopback takes it");
            }
            note(&mut at_near, &near);
            let changed = if moved == Move::Near { &at_far } else { &at_near };
            changed.len() >= 2
        });
        over.store(true, Ordering::Relaxed);
        through.thread.join().expect("it does not panic");
        let same = if moved == Move::Near { at_near } else { at_far };
        assert!(same.len() <= 1, "the other end moved, too: {same:?}");
    }
}

#[test]
fn emulator_link_to_the_near_side_has_its_own_losses() {
    let (far, near) = calls::plain_sockets();
    let lost = |status: &EmulatorStatus| status.reverse.random_loss.packets > 0;
    let through = calls::emulated_each(&far.1, |_| {}, |back| back.loss.random = 1.0, lost);
    near.connect(through.ticket.addresses[0]).expect("the emulator has an address");
    near.send(&[7]).expect("loopback takes it");
    far.0.set_read_timeout(Some(calls::LIMIT)).expect("the limit is not zero");
    let (_, emulator) = far.0.recv_from(&mut [0; 10]).expect("the link to the far side loses nothing");
    far.0.send_to(&[8], emulator).expect("loopback takes it");
    let emulator = through.thread.join().expect("it does not panic");
    let passed = [emulator.forward, emulator.reverse].map(|link| (link.delivered.packets, link.random_loss.packets));
    assert_eq!(passed, [(1, 0), (0, 1)]);
}

#[test]
fn call_shows_pictures_during_a_flood_of_garbage() {
    let shown = Arc::<AtomicUsize>::default();
    let listening = listening(counting(&shown), CALL);
    let ticket = listening.ticket();
    let (over, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let (until, flooded, to_listener) = (over.clone(), sent.clone(), ticket.addresses[0]);
    let flood = thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        while !until.load(Ordering::Relaxed) {
            for forged in [true, false].repeat(10) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let mut datagram = [random as u8; 1200];
                datagram[..8].copy_from_slice(&random.to_be_bytes());
                if forged {
                    // The start of a first packet of QUIC version 1; the length of its connection identifier follows.
                    datagram[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
                    datagram[6..14].copy_from_slice(&random.to_be_bytes());
                }
                let length = if forged { 1200 } else { (random % 1200) as usize };
                flooded.fetch_add(
                    usize::from(socket.send_to(&datagram[..length], to_listener).is_ok()),
                    Ordering::Relaxed,
                );
            }
            thread::sleep(Duration::from_millis(2));
        }
    });
    let stop = Box::new(move || shown.load(Ordering::Relaxed) >= 30 && sent.load(Ordering::Relaxed) > 1_000);
    let (sender, _) = calls::run(CallOptions { stop, ..to(ticket, Some(sending(clip())), CALL) });
    over.store(true, Ordering::Relaxed);
    flood.join().expect("it does not panic");
    let (receiver, _) = listening.join();
    assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(Ended::Stopped), Some(Ended::ByPeer)));
}
