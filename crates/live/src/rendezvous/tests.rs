//! Tests of a rendezvous and its limits, without a call.

use std::net::SocketAddr;
use std::time::Duration;

use lockstep_units::{Bitrate, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

use super::keys::Keys;
use super::limits::Limits;
use super::meeting::{Meeting, Outcome};
use super::message::{Announce, Channel, Kind, Message, Side};
use super::server::Rendezvous;

fn server_address() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], 4610))
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 4600))
}

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_millis(milliseconds)
}

fn rendezvous(limits: Limits) -> Rendezvous {
    Rendezvous::with_key(limits, [7; 32])
}

fn meeting(secret: u8, side: Side, own: SocketAddr, now: Timestamp) -> Meeting {
    Meeting::new(&[secret; 16], side, vec![server_address()], &[own], false, now).expect("there are random numbers")
}

/// Exchanges datagrams of the ends with the server, and with each other if `direct`, for `time`; returns the addresses
/// that each found.
fn talk(
    server: &mut Rendezvous,
    ends: &mut [(SocketAddr, Meeting)],
    direct: bool,
    now: &mut Timestamp,
    time: Duration,
) -> Vec<Vec<SocketAddr>> {
    let until = *now + time;
    let mut found = vec![Vec::new(); ends.len()];
    while *now < until {
        *now += Duration::from_millis(10);
        server.handle_timeout(*now);
        let mut sent = Vec::new();
        for (from, end) in ends.iter_mut() {
            end.handle_timeout(*now);
            while let Some((to, datagram)) = end.poll_transmit() {
                sent.push((*from, to, datagram));
            }
        }
        for (from, to, datagram) in sent {
            if to == server_address() {
                server.handle_datagram(*now, from, &datagram);
            } else if let Some((_, end)) = ends.iter_mut().find(|(address, _)| direct && *address == to) {
                assert_eq!(end.handle_datagram(*now, from, &datagram), Outcome::Handled);
            }
        }
        while let Some((to, datagram)) = server.poll_transmit() {
            if let Some((_, end)) = ends.iter_mut().find(|(address, _)| *address == to) {
                end.handle_datagram(*now, server_address(), &datagram);
            }
        }
        for (place, (_, end)) in ends.iter_mut().enumerate() {
            found[place].extend(std::iter::from_fn(|| end.poll_found()));
        }
    }
    found
}

fn pair(secret: u8, first: u8, now: Timestamp) -> Vec<(SocketAddr, Meeting)> {
    [(Side::Joiner, first), (Side::Listener, first + 1)]
        .map(|(side, last)| (address(last), meeting(secret, side, address(last), now)))
        .into()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn ends_with_the_same_ticket_find_only_each_other() {
    let (mut server, mut now) = (rendezvous(Limits::default()), at(0));
    let mut ends = pair(1, 1, now);
    ends.extend(pair(2, 3, now));
    let found = talk(&mut server, &mut ends, true, &mut now, SECOND);
    for (place, other) in [(0, 2), (1, 1), (2, 4), (3, 3)] {
        assert!(found[place].iter().all(|&address| address == self::address(other)), "{place}: {found:?}");
        assert!(!found[place].is_empty(), "{place}");
    }
    assert_eq!((server.status().calls, server.status().met), (2, 2));
}

#[test]
fn silent_call_is_forgotten() {
    let (mut server, mut now) = (rendezvous(Limits::default()), at(0));
    talk(&mut server, &mut pair(1, 1, now), false, &mut now, SECOND);
    talk(&mut server, &mut [], false, &mut now, Duration::from_secs(59));
    assert_eq!(server.status().calls, 1);
    talk(&mut server, &mut [], false, &mut now, Duration::from_secs(3));
    assert_eq!(server.status().calls, 0);
}

#[test]
fn network_that_may_start_no_call_is_not_stored() {
    for calls_per_address in [0, 1] {
        let limits = Limits { calls_per_address, ..Limits::default() };
        let (mut server, mut now) = (rendezvous(limits), at(0));
        let other = SocketAddr::from(([203, 0, 113, 5], 4600));
        let mut ends = vec![(other, meeting(9, Side::Joiner, other, now))];
        ends.extend(pair(1, 1, now));
        talk(&mut server, &mut ends, false, &mut now, SECOND);
        assert_eq!(server.remembered_networks(), 2 * calls_per_address);
        assert_eq!(server.status().refused > 0, calls_per_address == 0);
    }
}

/// Announcement of an end with this ticket and cookie.
fn announcement(secret: u8, side: Side, session: u8, number: u32, cookie: [u8; 16]) -> Vec<u8> {
    let keys = Keys::of(&[secret; 16]).expect("they can be made");
    let sealed = keys.seal(side, &[address(9)]).expect("it can be sealed");
    let (session, known) = ([session; 8], 0);
    keys.sign(Announce { call: keys.name(), side, session, number, known, cookie, sealed })
}

/// Makes `from` announce itself; returns its channel, if the server accepts it.
fn announced(
    server: &mut Rendezvous,
    now: Timestamp,
    from: SocketAddr,
    (secret, side, session): (u8, Side, u8),
) -> Option<Channel> {
    server.handle_datagram(now, from, &announcement(secret, side, session, 1, [0; 16]));
    let (_, answer) = server.poll_transmit()?;
    let Some(Message::Prove { cookie, .. }) = Message::decode(&answer) else { panic!("a cookie comes first") };
    server.handle_datagram(now, from, &announcement(secret, side, session, 2, cookie));
    let mut channel = None;
    while let Some((to, answer)) = server.poll_transmit() {
        if let Some(Message::Met { channel: given, .. }) = Message::decode(&answer).filter(|_| to == from) {
            channel = Some(given);
        }
    }
    channel
}

#[test]
fn unvalidated_address_causes_no_state_and_no_longer_answer() {
    let mut server = rendezvous(Limits::default());
    let mut stolen = [0; 16];
    for last in 1..=200 {
        let question = announcement(last, Side::Joiner, 1, 1, stolen);
        server.handle_datagram(at(0), address(last), &question);
        let (to, answer) = server.poll_transmit().expect("it answers");
        assert!(to == address(last) && answer.len() < question.len() && server.poll_transmit().is_none());
        let Some(Message::Prove { cookie, .. }) = Message::decode(&answer) else { panic!("no cookie") };
        // The next end tries this cookie.
        stolen = cookie;
    }
    assert_eq!(server.status().calls, 0);
    // A cookie expires.
    server.handle_datagram(at(61_000), address(200), &announcement(1, Side::Joiner, 1, 1, stolen));
    assert_eq!(server.status().calls, 0);
}

#[test]
fn changed_announcement_is_not_accepted() {
    let mut server = rendezvous(Limits::default());
    assert!(announced(&mut server, at(0), address(1), (1, Side::Joiner, 1)).is_some());
    server.handle_datagram(at(0), address(2), &announcement(1, Side::Joiner, 2, 1, [0; 16]));
    let (_, answer) = server.poll_transmit().expect("it answers");
    let Some(Message::Prove { cookie, .. }) = Message::decode(&answer) else { panic!("no cookie") };
    let proper = announcement(1, Side::Listener, 2, 1, cookie);
    for place in 5..proper.len() {
        let mut changed = proper.clone();
        changed[place] ^= 1;
        server.handle_datagram(at(place as u64 * 100), address(2), &changed);
        while let Some((to, answer)) = server.poll_transmit() {
            let met = matches!(Message::decode(&answer), Some(Message::Met { .. }));
            assert!(to == address(2) && !met, "byte {place} changed");
        }
    }
    assert_eq!(server.status().met, 0);
}

#[test]
fn call_limits_hold_in_total_and_per_address() {
    let mut server = rendezvous(Limits { calls: 3, calls_per_address: 2, ..Limits::default() });
    let mut take = |secret: u8, last: u8, now: u64| {
        announced(&mut server, at(now), address(last), (secret, Side::Joiner, 1)).is_some()
    };
    assert_eq!([take(1, 1, 0), take(2, 1, 0), take(3, 1, 0)], [true, true, false]);
    assert_eq!([take(4, 2, 0), take(5, 3, 0)], [true, false]);
    server.handle_timeout(at(100_000));
    let mut take =
        |secret: u8, last: u8| announced(&mut server, at(100_000), address(last), (secret, Side::Joiner, 1)).is_some();
    assert_eq!([take(6, 1), take(7, 1), take(8, 1)], [true, true, false]);
}

/// Sends `packet` to the server by `channel`; returns the server's datagrams and their destinations.
fn relayed(
    server: &mut Rendezvous,
    now: Timestamp,
    from: SocketAddr,
    channel: Channel,
    packet: &[u8],
) -> Vec<(SocketAddr, Vec<u8>)> {
    server.handle_datagram(now, from, &Message::Relay { channel, packet }.to_bytes());
    std::iter::from_fn(|| server.poll_transmit()).collect()
}

#[test]
fn packets_are_relayed_from_the_right_address_within_the_rate() {
    let mut server = rendezvous(Limits { relay_rate: Bitrate::from_kbps(80), ..Limits::default() });
    let joiner = announced(&mut server, at(0), address(1), (1, Side::Joiner, 1)).expect("it is taken");
    assert!(relayed(&mut server, at(0), address(1), joiner, &[9; 100]).is_empty(), "nobody is there");
    let listener = announced(&mut server, at(0), address(2), (1, Side::Listener, 2)).expect("it is taken");
    let to = relayed(&mut server, at(0), address(1), joiner, &[9; 100]);
    assert_eq!(to, [(address(2), Message::Relayed(&[9; 100]).to_bytes())]);
    let back = relayed(&mut server, at(0), address(2), listener, &[8; 10]);
    assert_eq!(back, [(address(1), Message::Relayed(&[8; 10]).to_bytes())]);
    // Another sender that knows the channel gets an answer no longer than its request.
    let unknown = Message::Unknown { channel: joiner }.to_bytes();
    assert_eq!(relayed(&mut server, at(0), address(3), joiner, &[9; 100]), [(address(3), unknown.clone())]);
    assert_eq!(relayed(&mut server, at(0), address(3), joiner, &[]).len(), 1);
    // 10 kB per second, a quarter of that in one burst.
    let mut bytes = 0;
    for step in 1..=2_000 {
        let packets = relayed(&mut server, at(step), address(1), joiner, &[9; 100]);
        bytes += packets.iter().map(|(_, packet)| packet.len() - 5).sum::<usize>();
    }
    assert!((20_000..=22_500).contains(&bytes), "{bytes}");
    assert!(server.status().dropped_packets > 1_000);
    // A silent end may be gone, and its address may belong to somebody else.
    assert!(relayed(&mut server, at(16_000), address(1), joiner, &[9; 100]).is_empty());
}

#[test]
fn end_that_relays_keeps_its_place_against_a_newer_one() {
    let mut server = rendezvous(Limits::default());
    let first = announced(&mut server, at(0), address(1), (1, Side::Joiner, 1)).expect("it is taken");
    announced(&mut server, at(0), address(2), (1, Side::Listener, 2)).expect("it is taken");
    assert_eq!(relayed(&mut server, at(0), address(1), first, &[9; 100]).len(), 1);
    assert!(announced(&mut server, at(1_000), address(3), (1, Side::Joiner, 3)).is_none(), "it is in use");
    let second = announced(&mut server, at(5_000), address(3), (1, Side::Joiner, 3)).expect("it is not any more");
    assert_eq!(relayed(&mut server, at(5_000), address(3), second, &[9; 100])[0].0, address(2));
    let unknown = Message::Unknown { channel: first }.to_bytes();
    assert_eq!(relayed(&mut server, at(5_000), address(1), first, &[9; 100]), [(address(1), unknown)]);
}

#[test]
fn flood_from_one_address_does_not_block_another() {
    let mut server = rendezvous(Limits::default());
    let question = announcement(1, Side::Joiner, 1, 1, [0; 16]);
    let mut answers = 0;
    for step in 0..20_000 {
        let now = Timestamp::from_micros(50 * step);
        server.handle_datagram(now, address(1), &question);
        let unknown = Message::Relay { channel: [1; 8], packet: &[0; 100] }.to_bytes();
        server.handle_datagram(now, address(1), &unknown);
        answers += std::iter::from_fn(|| server.poll_transmit()).count();
    }
    assert!(answers < 200, "{answers} in a second");
    assert!(announced(&mut server, at(1_000), address(2), (2, Side::Joiner, 1)).is_some());
}

#[test]
fn probe_is_answered_only_with_the_ticket_and_in_equal_size() {
    let mut end = meeting(1, Side::Listener, address(1), at(0));
    let probe = |secret: u8, side| Keys::of(&[secret; 16]).expect("keys").probe(Kind::Probe, side, [5; 8]);
    for (secret, side, answered) in [(1, Side::Joiner, true), (1, Side::Listener, false), (2, Side::Joiner, false)] {
        let probe = probe(secret, side);
        end.handle_datagram(at(0), address(3), &probe);
        let answers: Vec<_> = std::iter::from_fn(|| end.poll_transmit()).collect();
        assert_eq!(answers.iter().any(|(to, answer)| *to == address(3) && answer.len() == probe.len()), answered);
    }
    // Probes replayed from many addresses cause few new probes.
    for last in 4..=250 {
        end.handle_datagram(at(0), address(last), &probe(1, Side::Joiner));
    }
    while end.poll_transmit().is_some() {}
    end.handle_timeout(at(1_000));
    let probed = std::iter::from_fn(|| end.poll_transmit()).filter(|(to, _)| *to != server_address()).count();
    assert!(probed <= 16, "{probed}");
}

#[test]
fn datagrams_of_other_senders_do_not_pass_as_the_server() {
    let (mut server, mut now) = (rendezvous(Limits::default()), at(0));
    let mut ends = pair(1, 1, now);
    talk(&mut server, &mut ends, false, &mut now, SECOND);
    let (_, end) = &mut ends[0];
    let inner = Message::Relayed(&[1, 2, 3]).to_bytes();
    assert_eq!(end.handle_datagram(now, address(7), &inner), Outcome::Handled);
    assert_eq!(end.handle_datagram(now, server_address(), &inner), Outcome::Relayed(5));
    let other_session = Message::Met { session: [0; 8], address: address(66), channel: [0; 8], other: None }.to_bytes();
    end.handle_datagram(now, server_address(), &other_session);
    let (_, wrapped) = end.relayed(&[1]).expect("it can relay");
    assert!(!wrapped[5..13].iter().all(|&byte| byte == 0), "it took the channel of somebody who guessed");
}

proptest! {
    #[test]
    fn random_datagrams_harm_neither_server_nor_end(
        datagrams in vec((any::<u8>(), 0_u8..12, vec(any::<u8>(), 0..400), any::<bool>()), 1..40)
    ) {
        let (mut server, mut now) = (rendezvous(Limits::default()), at(0));
        let mut ends = pair(1, 1, now);
        for (from, kind, bytes, whole) in datagrams {
            let datagram = if whole { bytes } else { [&super::MAGIC[..], &[kind], &bytes].concat() };
            server.handle_datagram(now, address(from), &datagram);
            for (_, end) in &mut ends {
                end.handle_datagram(now, address(from), &datagram);
                end.handle_datagram(now, server_address(), &datagram);
            }
        }
        let found = talk(&mut server, &mut ends, true, &mut now, Duration::from_secs(2));
        prop_assert!(found.iter().all(|found| !found.is_empty()), "they still meet");
        prop_assert!(server.status().calls == 1);
    }
}
